/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Misuse of logs by a program. */

#include "misuse.h"
#include <weft/log.h>
#include <weft/log_host.h>

static void *untouched = &untouched;
#define OUT(type) ((struct type **)(void *)&untouched)

static void
on_event(void *user, const struct weft_log_event *ev)
{
	(void)user;
	(void)ev;
}

static struct weft_log_attr
log_attr_of(const struct misuse *m)
{
	return (struct weft_log_attr){.size = sizeof(struct weft_log_attr),
	                              .ctx = m->ctx,
	                              .pd = m->pd,
	                              .worker = m->w,
	                              .on_event = on_event};
}

static struct weft_log *
logs_open(struct misuse *m)
{
	struct weft_log_attr la = log_attr_of(m);
	struct weft_log *log;

	for (unsigned int i = 0; i < 2; i++) {
		CHECK_EQ(weft_log_create(&la, &log), 0);
		if (i == 0) {
			weft_log_destroy(log);
			m->dead[MISUSE_LOG] = log;
		}
	}
	/* Only the memory that detects misuse is left of the destroyed log. */
	vt_run(&m->t, VT_S);
	m->live[MISUSE_LOG] = log;
	return log;
}

static void
destroy(void *log)
{
	weft_log_destroy(log);
}

/** Destroy the log on its worker's thread, and try it elsewhere. A second destroy does nothing. */
static void
logs_close(struct misuse *m, struct weft_log *log)
{
	misuse_elsewhere(destroy, log);
	CHECK_EQ(weft_log_open(log), -ENOTCONN);
	weft_log_destroy(log);
	CHECK_EQ(weft_log_open(log), -EINVAL);
	weft_log_destroy(log);
	vt_run(&m->t, VT_S);
	weft_log_destroy(log);
}

/** A case with a log. */
#define MISUSE_LOG(call)                                                                           \
	static void log_##call(struct misuse *m, struct weft_log *log);                            \
	MISUSE(call)                                                                               \
	{                                                                                          \
		struct weft_log *log = logs_open(m);                                               \
		log_##call(m, log);                                                                \
		logs_close(m, log);                                                                \
	}                                                                                          \
	static void log_##call(struct misuse *m, struct weft_log *log __rte_unused)

static void
create_elsewhere(void *arg)
{
	struct weft_log_attr la = log_attr_of(arg);

	CHECK_EQ(weft_log_create(&la, OUT(weft_log)), -EPERM);
}

MISUSE(weft_log_create)
{
	struct weft_log_attr good = log_attr_of(m);
	struct weft_log_attr la = good;

	CHECK_EQ(weft_log_create(NULL, OUT(weft_log)), -EINVAL);
	CHECK_EQ(weft_log_create(&la, NULL), -EINVAL);
	BAD_ATTR(weft_log_attr, good, weft_log_create(a, OUT(weft_log)));
	EACH_BAD(m, la.ctx, CTX)
	CHECK_EQ(weft_log_create(&la, OUT(weft_log)), -EINVAL);
	la = good;
	EACH_BAD(m, la.pd, PD)
	CHECK_EQ(weft_log_create(&la, OUT(weft_log)), -EINVAL);
	la = good;
	EACH_BAD(m, la.worker, WORKER)
	CHECK_EQ(weft_log_create(&la, OUT(weft_log)), -EINVAL);
	misuse_elsewhere(create_elsewhere, m);
}

MISUSE_LOG(weft_log_destroy)
{
	struct weft_log *h;

	EACH_BAD(m, h, LOG)
	weft_log_destroy(h);
}

MISUSE_LOG(weft_log_qp_attr)
{
	struct weft_qp_attr qa;
	struct weft_log *h;

	EACH_BAD(m, h, LOG)
	{
		memset(&qa, 0x5a, sizeof(qa));
		weft_log_qp_attr(h, &qa);
		CHECK(misuse_zero(&qa, sizeof(qa)));
	}
	weft_log_qp_attr(log, NULL);
}

MISUSE_LOG(weft_log_join)
{
	struct weft_log_target good = {.size = sizeof(good), .qp = m->qp, .len_bytes = 1 << 20};
	struct weft_log_target lt = good;
	struct weft_log *h;

	EACH_BAD(m, h, LOG)
	CHECK_EQ(weft_log_join(h, &good), -EINVAL);
	CHECK_EQ(weft_log_join(log, NULL), -EINVAL);
	BAD_ATTR(weft_log_target, good, weft_log_join(log, a));
	EACH_BAD(m, lt.qp, QP)
	CHECK_EQ(weft_log_join(log, &lt), -EINVAL);
	/* A QP that does not belong to the log. */
	CHECK_EQ(weft_log_join(log, &good), -EINVAL);
}

MISUSE_LOG(weft_log_leave)
{
	struct weft_log *h;

	EACH_BAD(m, h, LOG)
	CHECK_EQ(weft_log_leave(h, m->qp), -EINVAL);
	CHECK_EQ(weft_log_leave(log, m->qp), -ENOENT);
	CHECK_EQ(weft_log_leave(log, NULL), -ENOENT);
}

static void
open_elsewhere(void *log)
{
	CHECK_EQ(weft_log_open(log), -EPERM);
}

MISUSE_LOG(weft_log_open)
{
	struct weft_log *h;

	EACH_BAD(m, h, LOG)
	CHECK_EQ(weft_log_open(h), -EINVAL);
	misuse_elsewhere(open_elsewhere, log);
	CHECK_EQ(weft_log_open(log), -ENOTCONN);
}

static void
poll_once(void *arg)
{
	struct misuse *m = arg;

	weft_engine_poll_at(m->w, sim_now_ns(m->t.sim));
}

/* A thread that polled once and has ended does not keep the log from others. */
static void
on_ended(struct misuse *m)
{
	struct weft_log *log = logs_open(m);

	misuse_elsewhere(poll_once, m);
	CHECK_EQ(weft_log_open(log), -ENOTCONN);
	vt_run(&m->t, VT_S); /* this thread's again */
	logs_close(m, log);
}

static void
test_ended(void)
{
	struct misuse *m = malloc(sizeof(*m));

	misuse_open(m);
	on_ended(m);
	misuse_close(m);
	free(m);
}

MISUSE_LOG(weft_log_open_trim)
{
	struct weft_log_at at = {0};
	struct weft_log *h;

	EACH_BAD(m, h, LOG)
	CHECK_EQ(weft_log_open_trim(h, &at), -EINVAL);
}

MISUSE_LOG(weft_log_append)
{
	struct weft_log_append la = {0};
	struct weft_log_at at;
	struct weft_log *h;

	EACH_BAD(m, h, LOG)
	CHECK_EQ(weft_log_append(h, &la, &at), -EINVAL);
	CHECK_EQ(weft_log_append(log, NULL, &at), -EINVAL);
	CHECK_EQ(weft_log_append(log, &la, NULL), -ENOTCONN);
}

MISUSE_LOG(weft_log_trim)
{
	struct weft_log_at at = {0};
	struct weft_log *h;

	EACH_BAD(m, h, LOG)
	CHECK_EQ(weft_log_trim(h, &at), -EINVAL);
	CHECK_EQ(weft_log_trim(log, NULL), -EINVAL);
}

static void
on_read(void *arg, struct weft_log_chunk *chunk)
{
	(void)arg;
	(void)chunk;
}

MISUSE_LOG(weft_log_read)
{
	struct weft_sge sg = {.addr = m->mem, .len_bytes = sizeof(m->mem)};
	struct weft_log_at at = {0};
	struct weft_log *h;

	EACH_BAD(m, h, LOG)
	CHECK_EQ(weft_log_read(h, &at, &sg, on_read, NULL), -EINVAL);
	CHECK_EQ(weft_log_read(log, NULL, &sg, on_read, NULL), -EINVAL);
	CHECK_EQ(weft_log_read(log, &at, NULL, on_read, NULL), -EINVAL);
	CHECK_EQ(weft_log_read(log, &at, &sg, NULL, NULL), -EINVAL);
}

static void
test_weft_log_chunk_next(void)
{
	struct weft_log_chunk chunk = {0};
	struct weft_log_record rec;

	CHECK_EQ(weft_log_chunk_next(NULL, &rec), 0);
	CHECK_EQ(weft_log_chunk_next(&chunk, NULL), 0);
	CHECK_EQ(weft_log_chunk_next(&chunk, &rec), 0);
}

MISUSE_LOG(weft_log_query)
{
	(void)log;
	BAD_QUERY(m, weft_log, LOG, weft_log_query, weft_log_info);
}

/* ---- The host's side ---- */

static struct weft_mr_attr
memory_of(struct misuse *m)
{
	return (struct weft_mr_attr){.size = sizeof(struct weft_mr_attr),
	                             .addr = m->mem,
	                             .len_bytes = sizeof(m->mem),
	                             .access = WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE};
}

static void
granted(void *arg, const struct weft_log_grant *g, int status)
{
	(void)status;
	*(uint32_t *)arg = g->stag;
}

static struct weft_log_host *
hosts_open(struct misuse *m)
{
	struct weft_mr_attr ma = memory_of(m);
	struct weft_log_host *host;

	for (unsigned int i = 0; i < 2; i++) {
		CHECK_EQ(weft_log_host_create(m->pd, &ma, &host), 0);
		if (i == 0) {
			weft_log_host_destroy(host, NULL, NULL);
			m->dead[MISUSE_LOG_HOST] = host;
		}
	}
	m->live[MISUSE_LOG_HOST] = host;
	return host;
}

/** The host works after every misuse. A second destroy does nothing. */
static void
hosts_close(struct weft_log_host *host)
{
	uint32_t stag = 0;

	CHECK_EQ(weft_log_host_grant(host, false, granted, &stag), 0);
	CHECK(stag != 0);
	CHECK_EQ(weft_log_host_end(host, stag), 0);
	weft_log_host_destroy(host, NULL, NULL);
	weft_log_host_destroy(host, NULL, NULL);
}

/** A case with a host. */
#define MISUSE_HOST(call)                                                                          \
	static void host_##call(struct misuse *m, struct weft_log_host *host);                     \
	MISUSE(call)                                                                               \
	{                                                                                          \
		struct weft_log_host *host = hosts_open(m);                                        \
		host_##call(m, host);                                                              \
		hosts_close(host);                                                                 \
	}                                                                                          \
	static void host_##call(struct misuse *m, struct weft_log_host *host __rte_unused)

MISUSE(weft_log_host_create)
{
	struct weft_mr_attr good = memory_of(m), ma = good;
	char longest[] = "a hash's name of 32 octets, and n", key = 0;
	struct weft_pd *pd;

	CHECK_EQ(weft_log_host_create(m->pd, NULL, OUT(weft_log_host)), -EINVAL);
	CHECK_EQ(weft_log_host_create(m->pd, &ma, NULL), -EINVAL);
	BAD_ATTR(weft_mr_attr, good, weft_log_host_create(m->pd, a, OUT(weft_log_host)));
	EACH_BAD(m, pd, PD)
	CHECK_EQ(weft_log_host_create(pd, &ma, OUT(weft_log_host)), -EINVAL);
	ma.addr = NULL;
	CHECK_EQ(weft_log_host_create(m->pd, &ma, OUT(weft_log_host)), -EINVAL);
	ma = good;
	ma.len_bytes = 0;
	CHECK_EQ(weft_log_host_create(m->pd, &ma, OUT(weft_log_host)), -EINVAL);
	ma = good;
	ma.access |= WEFT_ACCESS_MW_BIND;
	CHECK_EQ(weft_log_host_create(m->pd, &ma, OUT(weft_log_host)), -EINVAL);
	ma = good;
	longest[32] = '\0';
	ma.hash = longest;
	CHECK_EQ(weft_log_host_create(m->pd, &ma, OUT(weft_log_host)), -EINVAL);
	ma = good;
	ma.hash_key = &key;
	CHECK_EQ(weft_log_host_create(m->pd, &ma, OUT(weft_log_host)), -EINVAL);
	ma.hash_key_bytes = WEFT_HASH_KEY_MAX_BYTES + 1;
	CHECK_EQ(weft_log_host_create(m->pd, &ma, OUT(weft_log_host)), -EINVAL);
	ma.hash_key = NULL;
	CHECK_EQ(weft_log_host_create(m->pd, &ma, OUT(weft_log_host)), -EINVAL);
}

MISUSE_HOST(weft_log_host_grant)
{
	struct weft_log_host *h;

	EACH_BAD(m, h, LOG_HOST)
	CHECK_EQ(weft_log_host_grant(h, true, granted, &untouched), -EINVAL);
	CHECK_EQ(weft_log_host_grant(host, true, NULL, NULL), -EINVAL);
}

MISUSE_HOST(weft_log_host_end)
{
	struct weft_log_host *h;

	EACH_BAD(m, h, LOG_HOST)
	CHECK_EQ(weft_log_host_end(h, 0), -EINVAL);
	CHECK_EQ(weft_log_host_end(host, weft_mr_stag(m->mr)), -ENOENT);
}

static void
not_freed(void *arg)
{
	CHECK(arg == NULL);
}

MISUSE_HOST(weft_log_host_destroy)
{
	struct weft_log_host *h;

	EACH_BAD(m, h, LOG_HOST)
	weft_log_host_destroy(h, not_freed, m);
}

MISUSE_HOST(weft_log_host_query)
{
	BAD_QUERY(m, weft_log_host, LOG_HOST, weft_log_host_query, weft_log_host_info);
}

/* ---- Formats ---- */

static void
test_weft_log_format(void)
{
	static uint8_t region[1 << 16];
	struct weft_log_super s = {.size = sizeof(s)};

	CHECK_EQ(weft_log_format(NULL, sizeof(region), &s), -EINVAL);
	CHECK_EQ(weft_log_format(region, sizeof(region), NULL), -EINVAL);
	s.size--;
	CHECK_EQ(weft_log_format(region, sizeof(region), &s), -EINVAL);
}

static void
test_weft_log_super_decode(void)
{
	static uint8_t page[4096];
	struct weft_log_super s = {.size = sizeof(s)};

	CHECK_EQ(weft_log_super_decode(NULL, 1 << 16, &s), -EINVAL);
	CHECK_EQ(weft_log_super_decode(page, 1 << 16, NULL), -EINVAL);
	s.size--;
	CHECK_EQ(weft_log_super_decode(page, 1 << 16, &s), -EINVAL);
}

static void
test_weft_log_image_open(void)
{
	static uint8_t region[1 << 16];
	struct weft_log_image img;

	CHECK_EQ(weft_log_image_open(NULL, sizeof(region), &img), -EINVAL);
	CHECK_EQ(weft_log_image_open(region, sizeof(region), NULL), -EINVAL);
}

static void
test_weft_log_image_next(void)
{
	struct weft_log_image img = {0};
	struct weft_log_record rec;
	struct weft_log_at at = {0};

	CHECK_EQ(weft_log_image_next(NULL, &at, &rec), -EINVAL);
	CHECK_EQ(weft_log_image_next(&img, NULL, &rec), -EINVAL);
	CHECK_EQ(weft_log_image_next(&img, &at, NULL), -EINVAL);
}

#define CASE(call)                                                                                 \
	{                                                                                          \
#call, test_##call                                                                 \
	}

WEFT_TEST_MAIN(CASE(weft_log_create), CASE(weft_log_destroy), CASE(weft_log_qp_attr),
               CASE(weft_log_join), CASE(weft_log_leave), CASE(weft_log_open),
               {"a thread that ended", test_ended}, CASE(weft_log_open_trim), CASE(weft_log_append),
               CASE(weft_log_trim), CASE(weft_log_read), CASE(weft_log_chunk_next),
               CASE(weft_log_query), CASE(weft_log_host_create), CASE(weft_log_host_grant),
               CASE(weft_log_host_end), CASE(weft_log_host_destroy), CASE(weft_log_host_query),
               CASE(weft_log_format), CASE(weft_log_super_decode), CASE(weft_log_image_open),
               CASE(weft_log_image_next))
