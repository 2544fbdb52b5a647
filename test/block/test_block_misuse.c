/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Misuse of block devices: each public call with handles and arguments that a program must
 * not pass. A case has the name of its call (test/common/check_misuse.py).
 */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "weft_base.h"
#include "weft_test.h"
#include <weft/block.h>
#include <weft/exec.h>

#define BYTES 65536
#define BADS  4

static const struct weft_block_attr mem_attr = {
        .size = sizeof(mem_attr), .driver = "mem", .bytes = BYTES};
static const struct weft_block_chan_attr chan_attr = {.size = sizeof(chan_attr)};

static void *untouched = &untouched;
#define OUT(type) ((struct type **)(void *)&untouched)

/** A device with a channel, and destroyed ones. */
struct rig {
	struct weft_block *b, *dead_b;
	struct weft_block_chan *c, *dead_c;
	struct weft_exec *exec;
	struct weft_block_req req;
	struct iovec iov;
	uint8_t data[512];
	unsigned int done;
};

static void
on_done(struct weft_block_req *req)
{
	++*(unsigned int *)req->owner;
}

static void
rig_open(struct rig *g)
{
	memset(g, 0, sizeof(*g));
	CHECK_EQ(weft_block_open(&mem_attr, &g->dead_b), 0);
	CHECK_EQ(weft_block_chan_open(g->dead_b, &chan_attr, &g->dead_c), 0);
	CHECK_EQ(weft_block_chan_close(g->dead_c), 0);
	CHECK_EQ(weft_block_close(g->dead_b), 0);
	CHECK_EQ(weft_block_open(&mem_attr, &g->b), 0);
	CHECK_EQ(weft_block_chan_open(g->b, &chan_attr, &g->c), 0);
	CHECK_EQ(weft_exec_create(0, &g->exec), 0);
	g->iov = (struct iovec){g->data, sizeof(g->data)};
	g->req = (struct weft_block_req){.op = WEFT_BLOCK_READ,
	                                 .len_bytes = sizeof(g->data),
	                                 .iov = &g->iov,
	                                 .iovs = 1,
	                                 .done = on_done,
	                                 .owner = &g->done};
}

static void
rig_close(struct rig *g)
{
	weft_exec_destroy(g->exec);
	CHECK_EQ(weft_block_chan_close(g->c), 0);
	CHECK_EQ(weft_block_close(g->b), 0);
}

/** NULL, a destroyed one, a handle of another kind, no handle. */
static void *
bad(const struct rig *g, void *dead, unsigned int k)
{
	void *const all[BADS] = {NULL, dead, g->exec, (void *)(uintptr_t)g->data};

	return all[k];
}

#define EACH_BAD_DEV(g, h)                                                                         \
	for (unsigned int k_ = 0; k_ < BADS && ((h) = bad(g, (g)->dead_b, k_), true); k_++)
#define EACH_BAD_CHAN(g, h)                                                                        \
	for (unsigned int k_ = 0; k_ < BADS && ((h) = bad(g, (g)->dead_c, k_), true); k_++)

#define MISUSE_BLOCK(call)                                                                         \
	static void on_##call(struct rig *g);                                                      \
	static void test_##call(void)                                                              \
	{                                                                                          \
		struct rig g;                                                                      \
		rig_open(&g);                                                                      \
		on_##call(&g);                                                                     \
		rig_close(&g);                                                                     \
	}                                                                                          \
	static void on_##call(struct rig *g)

/** Sizes that no version of an attribute structure has. */
static const size_t sizes[] = {0, 4, sizeof(size_t), sizeof(size_t) + 5, 65544, SIZE_MAX};

static bool
is_zero(const void *p, size_t len)
{
	const uint8_t *at = p;

	for (size_t i = 0; i < len; i++)
		if (at[i] != 0)
			return false;
	return true;
}

/* ---- Devices ---- */

MISUSE_BLOCK(weft_block_open)
{
	struct weft_block_attr a = mem_attr;
	struct {
		struct weft_block_attr a;
		uint64_t more;
	} longer = {.a = mem_attr, .more = 1};

	CHECK_EQ(weft_block_open(NULL, OUT(weft_block)), -EINVAL);
	CHECK_EQ(weft_block_open(&a, NULL), -EINVAL);
	for (unsigned int i = 0; i < RTE_DIM(sizes); i++) {
		a.size = sizes[i];
		CHECK_EQ(weft_block_open(&a, OUT(weft_block)), -EINVAL);
	}
	longer.a.size = sizeof(longer);
	CHECK_EQ(weft_block_open(&longer.a, OUT(weft_block)), -EINVAL);
	a = mem_attr;
	a.driver = NULL;
	CHECK_EQ(weft_block_open(&a, OUT(weft_block)), -EINVAL);
	a.driver = "";
	CHECK_EQ(weft_block_open(&a, OUT(weft_block)), -ENODEV);
	a = mem_attr;
	a.options = "block=513";
	CHECK_EQ(weft_block_open(&a, OUT(weft_block)), -EINVAL);
	a.options = NULL;
	a.bytes = 0;
	CHECK_EQ(weft_block_open(&a, OUT(weft_block)), -EINVAL);
	CHECK(untouched == &untouched);
	(void)g;
}

MISUSE_BLOCK(weft_block_close)
{
	struct weft_block *h;

	CHECK_EQ(weft_block_close(NULL), 0);
	for (unsigned int k = 1; k < BADS; k++) {
		h = bad(g, g->dead_b, k);
		CHECK_EQ(weft_block_close(h), -EINVAL);
	}
	CHECK_EQ(weft_block_close(g->b), -EBUSY);
}

MISUSE_BLOCK(weft_block_query)
{
	struct weft_block_info info;
	struct weft_block *h;

	EACH_BAD_DEV(g, h)
	{
		memset(&info, 0x5a, sizeof(info));
		weft_block_query(h, &info);
		CHECK(is_zero(&info, sizeof(info)));
	}
	weft_block_query(g->b, NULL);
}

MISUSE_BLOCK(weft_block_query_state)
{
	struct weft_block_state state;
	struct weft_block *h;

	EACH_BAD_DEV(g, h)
	{
		memset(&state, 0x5a, sizeof(state));
		weft_block_query_state(h, &state);
		CHECK(is_zero(&state, sizeof(state)));
	}
	weft_block_query_state(g->b, NULL);
}

MISUSE_BLOCK(weft_block_query_stats)
{
	struct weft_block_stats stats;
	struct weft_block *h;

	EACH_BAD_DEV(g, h)
	{
		memset(&stats, 0x5a, sizeof(stats));
		weft_block_query_stats(h, &stats);
		CHECK(is_zero(&stats, sizeof(stats)));
	}
	weft_block_query_stats(g->b, NULL);
}

MISUSE_BLOCK(weft_block_check)
{
	struct weft_block *h;

	EACH_BAD_DEV(g, h)
	CHECK_EQ(weft_block_check(h), -EINVAL);
	CHECK_EQ(weft_block_check(g->b), 0);
}

MISUSE_BLOCK(weft_block_mem_add)
{
	struct weft_block *h;

	EACH_BAD_DEV(g, h)
	CHECK_EQ(weft_block_mem_add(h, g->data, 512), -EINVAL);
	CHECK_EQ(weft_block_mem_add(g->b, NULL, 512), -EINVAL);
	CHECK_EQ(weft_block_mem_add(g->b, g->data, 0), -EINVAL);
	CHECK_EQ(weft_block_mem_add(g->b, g->data, 512), -EBUSY);
	CHECK_EQ(weft_block_chan_close(g->c), 0);
	for (unsigned int i = 0; i < 16; i++)
		CHECK_EQ(weft_block_mem_add(g->b, g->data, 512), 0);
	CHECK_EQ(weft_block_mem_add(g->b, g->data, 512), -ENOSPC);
	g->c = NULL;
}

MISUSE_BLOCK(weft_block_fence)
{
	struct weft_block *h;

	EACH_BAD_DEV(g, h)
	CHECK_EQ(weft_block_fence(h), -EINVAL);
	CHECK_EQ(weft_block_fence(g->b), -EINPROGRESS);
	CHECK_EQ(weft_block_poll(g->c, 1), 0);
	CHECK_EQ(weft_block_fence(g->b), 0);
}

MISUSE_BLOCK(weft_block_wait)
{
	struct weft_block *h;

	EACH_BAD_DEV(g, h)
	CHECK_EQ(weft_block_wait(h, &g->req), -EINVAL);
	CHECK_EQ(weft_block_wait(g->b, NULL), -EINVAL);
	g->req.iov = NULL;
	CHECK_EQ(weft_block_wait(g->b, &g->req), -EINVAL);
	CHECK_EQ(g->done, 0);
}

/* ---- Channels ---- */

MISUSE_BLOCK(weft_block_chan_open)
{
	struct weft_block_chan_attr a = chan_attr;
	struct weft_block *h;

	EACH_BAD_DEV(g, h)
	CHECK_EQ(weft_block_chan_open(h, &a, OUT(weft_block_chan)), -EINVAL);
	CHECK_EQ(weft_block_chan_open(g->b, NULL, OUT(weft_block_chan)), -EINVAL);
	CHECK_EQ(weft_block_chan_open(g->b, &a, NULL), -EINVAL);
	for (unsigned int i = 0; i < RTE_DIM(sizes); i++) {
		a.size = sizes[i];
		CHECK_EQ(weft_block_chan_open(g->b, &a, OUT(weft_block_chan)), -EINVAL);
	}
	a = chan_attr;
	a.depth = 4097;
	CHECK_EQ(weft_block_chan_open(g->b, &a, OUT(weft_block_chan)), -EINVAL);
	CHECK(untouched == &untouched);
}

MISUSE_BLOCK(weft_block_chan_close)
{
	struct weft_block_chan *h;

	CHECK_EQ(weft_block_chan_close(NULL), 0);
	for (unsigned int k = 1; k < BADS; k++) {
		h = bad(g, g->dead_c, k);
		CHECK_EQ(weft_block_chan_close(h), -EINVAL);
	}
	CHECK_EQ(weft_block_submit(g->c, &g->req), 0);
	CHECK_EQ(weft_block_chan_close(g->c), -EBUSY);
	CHECK_EQ(weft_block_poll(g->c, 1), 1);
}

MISUSE_BLOCK(weft_block_chan_fd)
{
	struct weft_block_chan *h;

	EACH_BAD_CHAN(g, h)
	CHECK_EQ(weft_block_chan_fd(h), -1);
	CHECK_EQ(weft_block_chan_fd(g->c), -1);
}

MISUSE_BLOCK(weft_block_next_ns)
{
	struct weft_block_chan *h;

	EACH_BAD_CHAN(g, h)
	CHECK(weft_block_next_ns(h) == UINT64_MAX);
	CHECK(weft_block_next_ns(g->c) == UINT64_MAX);
}

MISUSE_BLOCK(weft_block_submit)
{
	struct weft_block_chan *h;

	EACH_BAD_CHAN(g, h)
	CHECK_EQ(weft_block_submit(h, &g->req), -EINVAL);
	CHECK_EQ(weft_block_submit(g->c, NULL), -EINVAL);
	g->req.op = (enum weft_block_op)77;
	CHECK_EQ(weft_block_submit(g->c, &g->req), -EINVAL);
	g->req.op = WEFT_BLOCK_READ;
	g->req.done = NULL;
	CHECK_EQ(weft_block_submit(g->c, &g->req), -EINVAL);
	CHECK_EQ(weft_block_poll(g->c, 1), 0);
}

MISUSE_BLOCK(weft_block_cancel)
{
	struct weft_block_chan *h;

	EACH_BAD_CHAN(g, h)
	CHECK_EQ(weft_block_cancel(h, &g->req), -EINVAL);
	CHECK_EQ(weft_block_cancel(g->c, NULL), -EINVAL);
	CHECK_EQ(weft_block_cancel(g->c, &g->req), -ENOENT);
}

MISUSE_BLOCK(weft_block_poll)
{
	struct weft_block_chan *h;

	EACH_BAD_CHAN(g, h)
	CHECK_EQ(weft_block_poll(h, 1), 0);
}

/* ---- For drivers ---- */

MISUSE_BLOCK(weft_block_done)
{
	weft_block_done(NULL, 0, 0);
	weft_block_done(&g->req, 0, 0); /* not under way */
	CHECK_EQ(g->done, 0);
	CHECK_EQ(weft_block_submit(g->c, &g->req), 0);
	weft_block_done(&g->req, -EIO, 0); /* the driver has done it already */
	CHECK_EQ(weft_block_poll(g->c, 1), 1);
	CHECK_EQ(g->req.status, 0);
}

MISUSE_BLOCK(weft_block_late)
{
	weft_block_late(NULL);
	weft_block_late(&g->req);
	CHECK_EQ(weft_block_poll(g->c, 1), 0);
}

MISUSE_BLOCK(weft_block_set_state)
{
	struct weft_block_state state;

	weft_block_set_state(NULL, 0, 0);
	weft_block_set_state(g->b, BYTES, 5); /* no -errno */
	weft_block_query_state(g->b, &state);
	CHECK(state.bytes == BYTES && state.status == 0);
}

static void
test_weft_block_option(void)
{
	struct weft_block_attr a = {.size = sizeof(a), .options = "a=1"};
	char value[8];

	CHECK_EQ(weft_block_option(NULL, "a", value, sizeof(value)), -EINVAL);
	CHECK_EQ(weft_block_option(&a, NULL, value, sizeof(value)), -EINVAL);
	CHECK_EQ(weft_block_option(&a, "", value, sizeof(value)), -EINVAL);
	CHECK_EQ(weft_block_option(&a, "a", NULL, 8), -EINVAL);
	CHECK_EQ(weft_block_option(&a, "a", value, 0), -ENAMETOOLONG);
	a.options = NULL;
	CHECK_EQ(weft_block_option(&a, "a", value, sizeof(value)), -ENOENT);
}

static void
test_weft_block_refuse(void)
{
	char reason[4] = "xyz";
	struct weft_block_attr a = {.size = sizeof(a)};

	CHECK_EQ(weft_block_refuse(NULL, -EINVAL, "no"), -EINVAL);
	CHECK_EQ(weft_block_refuse(&a, -EINVAL, "no"), -EINVAL);
	a.reason = reason;
	CHECK_EQ(weft_block_refuse(&a, -EIO, "no"), -EIO);
	CHECK_STR(reason, "xyz");
	a.reason_bytes = sizeof(reason);
	CHECK_EQ(weft_block_refuse(&a, -EIO, "%s", "much too long"), -EIO);
	CHECK_STR(reason, "muc");
}

static void
test_weft_block_class_of(void)
{
	CHECK_EQ(weft_block_class_of(1), WEFT_BLOCK_MEDIUM_FAILED);
	CHECK_EQ(weft_block_class_of(-999999), WEFT_BLOCK_MEDIUM_FAILED);
}

/* ---- Registry ---- */

static const struct weft_block_ops nothing = {.name = "nothing"};

static void
test_weft_block_register(void)
{
	CHECK_EQ(weft_block_register(NULL), -EINVAL);
	CHECK_EQ(weft_block_register(&nothing), -EINVAL);
}

static void
test_weft_block_register_or_die(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		const struct rlimit none = {0, 0};

		setrlimit(RLIMIT_CORE, &none);
		signal(SIGABRT, SIG_DFL);
		if (freopen("/dev/null", "w", stderr) != NULL)
			weft_block_register_or_die(&nothing);
		_exit(0);
	}
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void
test_weft_block_find(void)
{
	CHECK(weft_block_find(NULL) == NULL);
	CHECK(weft_block_find("") == NULL);
}

static void
test_weft_block_get(void)
{
	CHECK(weft_block_get(UINT32_MAX) == NULL);
}

static void
test_weft_block_snap_name_ok(void)
{
	CHECK(!weft_block_snap_name_ok(NULL));
	CHECK(!weft_block_snap_name_ok(""));
}

static void
test_weft_block_snap_refuse(void)
{
	struct weft_block_snap s = {.what = WEFT_BLOCK_SNAP_CREATE};

	CHECK_EQ(weft_block_snap_refuse(NULL, -EIO, "why"), -EIO);
	CHECK_EQ(weft_block_snap_refuse(&s, -EIO, NULL), -EIO);
	CHECK(s.reason[0] == '\0');
}

static void
test_weft_block_snap_found(void)
{
	struct weft_block_snap s = {.what = WEFT_BLOCK_SNAP_LIST, .max_list = 1};
	struct weft_block_snapshot at = {.name = "a"};

	weft_block_snap_found(NULL, &at);
	weft_block_snap_found(&s, NULL);
	weft_block_snap_found(&s, &at); /* no list */
	at.name[0] = '/';
	weft_block_snap_found(&s, &at);
	CHECK_EQ(s.found, 0);
}

#define CASE(call)                                                                                 \
	{                                                                                          \
#call, test_##call                                                                 \
	}
WEFT_TEST_MAIN(CASE(weft_block_open), CASE(weft_block_close), CASE(weft_block_query),
               CASE(weft_block_query_state), CASE(weft_block_query_stats), CASE(weft_block_check),
               CASE(weft_block_mem_add), CASE(weft_block_fence), CASE(weft_block_wait),
               CASE(weft_block_chan_open), CASE(weft_block_chan_close), CASE(weft_block_chan_fd),
               CASE(weft_block_next_ns), CASE(weft_block_submit), CASE(weft_block_cancel),
               CASE(weft_block_poll), CASE(weft_block_done), CASE(weft_block_late),
               CASE(weft_block_set_state), CASE(weft_block_option), CASE(weft_block_refuse),
               CASE(weft_block_class_of), CASE(weft_block_register),
               CASE(weft_block_register_or_die), CASE(weft_block_find), CASE(weft_block_get),
               CASE(weft_block_snap_name_ok), CASE(weft_block_snap_refuse),
               CASE(weft_block_snap_found))
