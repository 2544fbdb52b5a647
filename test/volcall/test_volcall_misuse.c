/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Misuse of volumes and windows by a program. */

#include <errno.h>

#include "misuse.h"
#include <weft/volume.h>

static void *untouched = &untouched;
#define OUT(type) ((struct type **)(void *)&untouched)

static unsigned int told;

static void
on_told(void *arg, int status, const char *why)
{
	(void)arg;
	(void)status;
	(void)why;
	told++;
}

static void
on_done(struct weft_volume_req *req)
{
	(void)req;
	told++;
}

static struct weft_volume_attr
attr(struct misuse *m)
{
	return (struct weft_volume_attr){.size = sizeof(struct weft_volume_attr),
	                                 .rpc = m->live[MISUSE_RPC],
	                                 .worker = m->w,
	                                 .name = "disk"};
}

/* A volume whose opening is not answered, and a closed one. */
static struct weft_volume *
volumes_open(struct misuse *m)
{
	struct weft_rpc_attr ra = {.size = sizeof(ra), .qp = m->qp};
	struct weft_volume_attr va;
	struct weft_rpc *rpc;
	struct weft_volume *v;

	CHECK_EQ(weft_rpc_create(&ra, &rpc), 0);
	m->live[MISUSE_RPC] = rpc;
	va = attr(m);
	CHECK_EQ(weft_volume_open(&va, on_told, NULL, &v), 0);
	weft_volume_close(v, NULL, NULL);
	m->dead[MISUSE_VOLUME] = v;
	CHECK_EQ(weft_volume_open(&va, on_told, NULL, &v), 0);
	m->live[MISUSE_VOLUME] = v;
	told = 0;
	return v;
}

/** A case with a volume. */
#define MISUSE_VOLUME(call)                                                                        \
	static void volume_##call(struct misuse *m, struct weft_volume *v);                        \
	MISUSE(call)                                                                               \
	{                                                                                          \
		struct weft_volume *v = volumes_open(m);                                           \
		volume_##call(m, v);                                                               \
		CHECK_EQ(told, 0);                                                                 \
		weft_volume_close(v, on_told, NULL);                                               \
		weft_volume_close(v, on_told, NULL);                                               \
		weft_qp_destroy(m->qp);                                                            \
		m->t.n[0].qp = NULL;                                                               \
		weft_rpc_destroy(m->live[MISUSE_RPC]);                                             \
		vt_run(&m->t, VT_MS);                                                              \
		CHECK_EQ(told, 3); /* two openings, and the close that was accepted */             \
	}                                                                                          \
	static void volume_##call(struct misuse *m, struct weft_volume *v __rte_unused)

static void
each_open(struct misuse *m, int (*open)(const struct weft_volume_attr *a))
{
	struct weft_volume_attr good = attr(m), va = good;
	char name[257];

	CHECK_EQ(open(NULL), -EINVAL);
	BAD_ATTR(weft_volume_attr, good, open(a));
	EACH_BAD(m, va.rpc, RPC)
	CHECK_EQ(open(&va), -EINVAL);
	va = good;
	EACH_BAD(m, va.worker, WORKER)
	CHECK_EQ(open(&va), -EINVAL);
	va = good;
	va.name = NULL;
	CHECK_EQ(open(&va), -EINVAL);
	va.name = "";
	CHECK_EQ(open(&va), -EINVAL);
	memset(name, 'x', 256);
	name[256] = '\0';
	va.name = name;
	CHECK_EQ(open(&va), -EINVAL);
	va = good;
	va.rights = 0x100;
	CHECK_EQ(open(&va), -EINVAL);
}

static int
open_one(const struct weft_volume_attr *a)
{
	return weft_volume_open(a, on_told, NULL, OUT(weft_volume));
}

static int
open_wait_one(const struct weft_volume_attr *a)
{
	char why[4] = "abc";
	int rc = weft_volume_open_wait(a, why, sizeof(why), OUT(weft_volume));

	CHECK(why[0] == '\0');
	return rc;
}

static struct weft_volume_attr elsewhere_attr;
static int elsewhere_rc;

static void
open_elsewhere(void *arg)
{
	(void)arg;
	elsewhere_rc = open_one(&elsewhere_attr);
}

MISUSE_VOLUME(weft_volume_open)
{
	struct weft_volume_attr va = attr(m);

	each_open(m, open_one);
	CHECK_EQ(weft_volume_open(&va, NULL, NULL, OUT(weft_volume)), -EINVAL);
	CHECK_EQ(weft_volume_open(&va, on_told, NULL, NULL), -EINVAL);
	elsewhere_attr = va;
	misuse_elsewhere(open_elsewhere, NULL);
	CHECK_EQ(elsewhere_rc, -EPERM);
	CHECK(untouched == &untouched);
}

MISUSE_VOLUME(weft_volume_open_wait)
{
	struct weft_volume_attr va = attr(m);

	each_open(m, open_wait_one);
	CHECK_EQ(weft_volume_open_wait(&va, NULL, 0, NULL), -EINVAL);
	CHECK(untouched == &untouched);
}

static void
close_elsewhere(void *arg)
{
	weft_volume_close(arg, on_told, NULL);
}

MISUSE_VOLUME(weft_volume_close)
{
	struct weft_volume *h;

	EACH_BAD(m, h, VOLUME)
	weft_volume_close(h, on_told, NULL);
	misuse_elsewhere(close_elsewhere, v);
}

MISUSE_VOLUME(weft_volume_close_wait)
{
	struct weft_volume *h;

	EACH_BAD(m, h, VOLUME)
	weft_volume_close_wait(h);
}

MISUSE_VOLUME(weft_volume_info)
{
	struct weft_volume *h;

	EACH_BAD(m, h, VOLUME)
	CHECK(weft_volume_info(h) == NULL);
	CHECK(weft_volume_info(v) == NULL);
}

MISUSE_VOLUME(weft_volume_user)
{
	struct weft_volume *h;

	EACH_BAD(m, h, VOLUME)
	CHECK(weft_volume_user(h) == NULL);
}

/* Requests that a volume which is open refuses: test_volcall.c. */
static void
each_submit(struct misuse *m, struct weft_volume *v,
            int (*submit)(struct weft_volume *v, struct weft_volume_req *req))
{
	struct weft_volume_req req = {.op = WEFT_VOLUME_OP_FLUSH, .done = on_done};
	struct weft_volume *h;

	EACH_BAD(m, h, VOLUME)
	CHECK_EQ(submit(h, &req), -EINVAL);
	CHECK_EQ(submit(v, NULL), -EINVAL);
	CHECK_EQ(submit(v, &req), -EINVAL); /* it is not open yet */
}

static void
submit_elsewhere(void *arg)
{
	struct weft_volume_req req = {.op = WEFT_VOLUME_OP_FLUSH, .done = on_done};

	elsewhere_rc = weft_volume_submit(arg, &req);
}

MISUSE_VOLUME(weft_volume_submit)
{
	each_submit(m, v, weft_volume_submit);
	misuse_elsewhere(submit_elsewhere, v);
	CHECK_EQ(elsewhere_rc, -EPERM);
}

MISUSE_VOLUME(weft_volume_submit_wait)
{
	each_submit(m, v, weft_volume_submit_wait);
}

MISUSE_VOLUME(weft_volume_read)
{
	struct weft_volume *h;
	char buf[8];

	EACH_BAD(m, h, VOLUME)
	CHECK_EQ(weft_volume_read(h, 0, buf, 8), -EINVAL);
	CHECK_EQ(weft_volume_read(v, 0, buf, 8), -EINVAL);
}

MISUSE_VOLUME(weft_volume_write)
{
	struct weft_volume *h;

	EACH_BAD(m, h, VOLUME)
	CHECK_EQ(weft_volume_write(h, 0, "x", 1, 0), -EINVAL);
	CHECK_EQ(weft_volume_write(v, 0, "x", 1, 0), -EINVAL);
}

MISUSE_VOLUME(weft_volume_flush)
{
	struct weft_volume *h;

	EACH_BAD(m, h, VOLUME)
	CHECK_EQ(weft_volume_flush(h, 0, 0), -EINVAL);
	CHECK_EQ(weft_volume_flush(v, 0, 0), -EINVAL);
}

MISUSE_VOLUME(weft_volume_verify)
{
	struct weft_volume *h;
	uint8_t hash[64];

	EACH_BAD(m, h, VOLUME)
	CHECK_EQ(weft_volume_verify(h, 0, 1, hash), -EINVAL);
	CHECK_EQ(weft_volume_verify(v, 0, 1, hash), -EINVAL);
	CHECK_EQ(weft_volume_verify(v, 0, 1, NULL), -EINVAL);
}

MISUSE_VOLUME(weft_volume_snapshot)
{
	struct weft_volume *h;
	char why[8];

	EACH_BAD(m, h, VOLUME)
	CHECK_EQ(weft_volume_snapshot(h, "a", why, sizeof(why)), -EINVAL);
	CHECK_EQ(weft_volume_snapshot(v, "a", NULL, 0), -EINVAL);
	CHECK_EQ(weft_volume_snapshot(v, NULL, NULL, 0), -EINVAL);
}

MISUSE_VOLUME(weft_volume_snapshot_remove)
{
	struct weft_volume *h;

	EACH_BAD(m, h, VOLUME)
	CHECK_EQ(weft_volume_snapshot_remove(h, "a", NULL, 0), -EINVAL);
	CHECK_EQ(weft_volume_snapshot_remove(v, "a", NULL, 0), -EINVAL);
}

MISUSE_VOLUME(weft_volume_clone)
{
	struct weft_volume *h;

	EACH_BAD(m, h, VOLUME)
	CHECK_EQ(weft_volume_clone(h, "a", NULL, NULL, 0), -EINVAL);
	CHECK_EQ(weft_volume_clone(v, "a", NULL, NULL, 0), -EINVAL);
}

MISUSE_VOLUME(weft_volume_snapshots)
{
	struct weft_volume_snapshot list[1];
	struct weft_volume *h;
	uint32_t n = 7;

	EACH_BAD(m, h, VOLUME)
	CHECK_EQ(weft_volume_snapshots(h, NULL, list, 1, &n, NULL, 0), -EINVAL);
	CHECK_EQ(weft_volume_snapshots(v, NULL, list, 1, &n, NULL, 0), -EINVAL);
	CHECK_EQ(weft_volume_snapshots(v, NULL, list, 1, NULL, NULL, 0), -EINVAL);
	CHECK_EQ(n, 0);
}

MISUSE_VOLUME(weft_volume_window_open)
{
	struct weft_volume_window w = {0};
	struct weft_volume *h;

	EACH_BAD(m, h, VOLUME)
	CHECK_EQ(weft_volume_window_open(h, &w, 0, 4096, 0, 0, on_told, NULL), -EINVAL);
	CHECK_EQ(weft_volume_window_open(v, NULL, 0, 4096, 0, 0, on_told, NULL), -EINVAL);
	CHECK_EQ(weft_volume_window_open(v, &w, 0, 4096, 0, 0, NULL, NULL), -EINVAL);
	CHECK_EQ(weft_volume_window_open(v, &w, 0, 4096, 0, 0, on_told, NULL), -EINVAL);
}

MISUSE_VOLUME(weft_volume_window_move)
{
	struct weft_volume_window w = {0};

	CHECK_EQ(weft_volume_window_move(NULL, 0, 4096, 0, on_told, NULL), -EINVAL);
	EACH_BAD(m, w.volume, VOLUME)
	CHECK_EQ(weft_volume_window_move(&w, 0, 4096, 0, on_told, NULL), -EINVAL);
	CHECK_EQ(weft_volume_window_move(&w, 0, 4096, 0, NULL, NULL), -EINVAL);
}

MISUSE_VOLUME(weft_volume_window_close)
{
	struct weft_volume_window w = {0};

	CHECK_EQ(weft_volume_window_close(NULL, on_told, NULL), -EINVAL);
	EACH_BAD(m, w.volume, VOLUME)
	CHECK_EQ(weft_volume_window_close(&w, on_told, NULL), -EINVAL);
}

MISUSE_VOLUME(weft_volume_link_stats)
{
	struct weft_volume_link_stats stats;
	struct weft_volume *h;

	EACH_BAD(m, h, VOLUME)
	CHECK_EQ(weft_volume_link_stats(h, &stats), -EINVAL);
	CHECK_EQ(weft_volume_link_stats(v, &stats), -EINVAL); /* it has no link */
	CHECK_EQ(weft_volume_link_stats(v, NULL), -EINVAL);
}

MISUSE_VOLUME(weft_volume_qp)
{
	struct weft_volume *h;

	EACH_BAD(m, h, VOLUME)
	CHECK(weft_volume_qp(h) == NULL);
	CHECK(weft_volume_qp(v) == NULL);
}

#define CASE(call)                                                                                 \
	{                                                                                          \
#call, test_##call                                                                 \
	}

WEFT_TEST_MAIN(CASE(weft_volume_open), CASE(weft_volume_open_wait), CASE(weft_volume_close),
               CASE(weft_volume_close_wait), CASE(weft_volume_info), CASE(weft_volume_user),
               CASE(weft_volume_submit), CASE(weft_volume_submit_wait), CASE(weft_volume_read),
               CASE(weft_volume_write), CASE(weft_volume_flush), CASE(weft_volume_verify),
               CASE(weft_volume_snapshot), CASE(weft_volume_snapshot_remove),
               CASE(weft_volume_clone), CASE(weft_volume_snapshots), CASE(weft_volume_window_open),
               CASE(weft_volume_window_move), CASE(weft_volume_window_close),
               CASE(weft_volume_link_stats), CASE(weft_volume_qp))
