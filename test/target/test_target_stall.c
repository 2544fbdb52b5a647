/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A device that hangs keeps the memory of READs. Their client has all of its share of the
 * staging memory for other volumes, and the memory is a part of the share again when the device
 * goes on. It keeps windows, too: of one volume at most half of them, so that clients have windows
 * of another volume, and share these.
 */

#include "target_rig.h"
#include "weft_staging.h"
#include "weft_test.h"

#define DISK_BYTES (8U << 20)
#define READ_BYTES (256U << 10)

static void
read_begin(struct rig_conn *k, struct rig_call *c, uint32_t handle, uint64_t off)
{
	*c = (struct rig_call){.proc = WEFT_VOLRPC_READ};
	c->args.read.args =
	        (weft_volrpc_read_args){.handle = handle, .off = off, .count = READ_BYTES};
	c->args.read.into = k->n->mem;
	rig_call(k, c);
}

/** What the volume's READs hold, and how much of it was set apart. */
static uint64_t
held(uint64_t *apart)
{
	const struct weft_staging_group *g = &rig.t->workers[0].volumes->chan[0].staging;
	const struct weft_staging_req *req;

	*apart = 0;
	LIST_FOREACH (req, &g->held, group_link)
		if (req->apart)
			*apart += (uint64_t)req->npieces * (64U << 10);
	return g->held_bytes;
}

static void
test_stall(void)
{
	const struct rig_attr a = {.seed = test_seed(1), .workers = 1, .bytes = DISK_BYTES};
	const struct weft_block_fault_hit hit = {.ops = 1U << WEFT_BLOCK_READ, .count = 1000};
	struct rig_conn k = {0};
	struct rig_call c[2];
	weft_volrpc_grant g;
	uint64_t apart;

	rig_open(&a);
	rig_connected(&k, 0);
	CHECK_EQ(rig_grant(&k, RIG_RIGHTS, &g), WEFT_VOLRPC_OK);
	weft_block_fault_stick(rig.block, &hit);
	read_begin(&k, &c[0], g.handle, 0);
	rig_run(300 * RIG_MS);
	CHECK_EQ(held(&apart), READ_BYTES);
	CHECK_EQ(apart, 0);
	/* One more, when the device has ended nothing for longer than half a second. */
	rig_run(400 * RIG_MS);
	CHECK_EQ(held(&apart), READ_BYTES);
	CHECK_EQ(apart, READ_BYTES);
	read_begin(&k, &c[1], g.handle, READ_BYTES);
	rig_run(100 * RIG_MS);
	CHECK_EQ(held(&apart), 2 * READ_BYTES);
	CHECK_EQ(apart, 2 * READ_BYTES);
	CHECK(!c[0].done && !c[1].done);
	weft_block_fault_stick(rig.block, NULL);
	for (unsigned int i = 0; i < 2; i++) {
		rig_wait(&c[i]);
		CHECK_EQ(c[i].status, WEFT_VOLRPC_OK);
	}
	rig_run(100 * RIG_MS);
	CHECK_EQ(held(&apart), 0);
	/* A device that answers: the next one is a part of the share. */
	read_begin(&k, &c[0], g.handle, 0);
	rig_wait(&c[0]);
	CHECK_EQ(c[0].status, WEFT_VOLRPC_OK);
	rig_disconnect(&k);
	CHECK(rig_until(60 * RIG_S, rig_is_clean, NULL));
	rig_close();
}

/* ---- Windows ---- */

#define SLOTS      8U /* windows of the worker, of which a volume may have half */
#define WINDOW_LEN (1U << 20)

struct window {
	struct rig_call c;
	struct rig_wr wr;
};

/** Ask for window number i. */
static void
window_begin(struct rig_conn *k, uint32_t handle, unsigned int i, struct window *w)
{
	*w = (struct window){.c = {.proc = WEFT_VOLRPC_WINDOW_OPEN,
	                           .args.window = {.handle = handle,
	                                           .off = i * (uint64_t)WINDOW_LEN,
	                                           .len = WINDOW_LEN,
	                                           .rights = RIG_RIGHTS}}};
	rig_call(k, &w->c);
}

static bool
window_is_open(const struct window *w)
{
	return w->c.done && w->c.rpc == WEFT_RPC_OK && w->c.status == WEFT_VOLRPC_OK;
}

/** Ask for n windows from number first on; how many are open after a while. */
static unsigned int
windows_open(struct rig_conn *k, uint32_t handle, unsigned int first, struct window *w,
             unsigned int n)
{
	unsigned int open = 0;

	for (unsigned int i = 0; i < n; i++)
		window_begin(k, handle, first + i, &w[i]);
	rig_run(100 * RIG_MS);
	for (unsigned int i = 0; i < n; i++)
		open += window_is_open(&w[i]);
	return open;
}

static void
test_windows(void)
{
	static struct window a[SLOTS], b[SLOTS], c[SLOTS], d[SLOTS], e[SLOTS];
	const struct rig_attr at = {.seed = test_seed(2),
	                            .workers = 1,
	                            .bytes = 2 * SLOTS * WINDOW_LEN,
	                            .others = 2,
	                            .target = "staging = 16M\nwindow = 1M\nrevoke_ms = 200\n"};
	const struct weft_block_fault_hit hit = {.ops = 1U << WEFT_BLOCK_WRITE, .count = 1000};
	struct rig_conn k = {0}, again = {0}, two = {0};
	weft_volrpc_grant g, g2, g3;

	rig_open(&at);
	rig_connected(&k, 0);
	CHECK_EQ(rig_grant(&k, RIG_RIGHTS, &g), WEFT_VOLRPC_OK);
	CHECK_EQ(windows_open(&k, g.handle, 0, a, SLOTS), SLOTS / 2);
	/* The device hangs: each window has a Flush that does not end. The client goes, and comes
	 * again, but for its volume there are no more windows. */
	weft_block_fault_stick(rig.block, &hit);
	for (unsigned int i = 0; i < SLOTS / 2; i++)
		CHECK(rig_rdma(&k, a[i].c.win.stag, a[i].c.win.to, k.n->mem, 4096, true, &a[i].wr));
	rig_run(100 * RIG_MS);
	rig_disconnect(&k);
	rig_run(700 * RIG_MS);
	rig_connected(&again, 0);
	CHECK_EQ(rig_grant(&again, RIG_RIGHTS, &g), WEFT_VOLRPC_OK);
	CHECK_EQ(windows_open(&again, g.handle, SLOTS, b, SLOTS), 0);
	/* They wait, and hold up none of another volume, for itself or another client. */
	CHECK_EQ(rig_grant_of(&again, rig_others[0], RIG_RIGHTS, &g2), WEFT_VOLRPC_OK);
	CHECK_EQ(windows_open(&again, g2.handle, 0, c, SLOTS / 2), SLOTS / 2);
	rig_connected(&two, 1);
	CHECK_EQ(rig_grant_of(&two, rig_others[0], RIG_RIGHTS, &g3), WEFT_VOLRPC_OK);
	CHECK_EQ(windows_open(&two, g3.handle, SLOTS, d, SLOTS / 2), 0);
	/* Two of four are given back for it, although the volume that hangs has four that end. */
	rig_run(600 * RIG_MS);
	CHECK_EQ(again.revokes, 2);
	CHECK(window_is_open(&d[0]) && window_is_open(&d[1]) && !window_is_open(&d[2]));
	rig_run(2 * RIG_S);
	for (unsigned int i = 0; i < SLOTS; i++) {
		CHECK(b[i].c.done);
		CHECK_EQ(b[i].c.status, WEFT_VOLRPC_NORES);
		CHECK(strstr(b[i].c.why, "half of the windows") != NULL);
	}
	CHECK_EQ(d[3].c.status, WEFT_VOLRPC_NORES);
	/* The same for windows of a volume that has none. */
	rig_disconnect(&two);
	rig_run(100 * RIG_MS);
	CHECK_EQ(windows_open(&again, g2.handle, SLOTS - 2, c, 2), 2);
	rig_connected(&two, 1);
	CHECK_EQ(rig_grant_of(&two, rig_others[1], RIG_RIGHTS, &g3), WEFT_VOLRPC_OK);
	CHECK_EQ(windows_open(&two, g3.handle, 0, e, 2), 0);
	rig_run(600 * RIG_MS);
	CHECK(window_is_open(&e[0]) && window_is_open(&e[1]));
	/* The device goes on: the windows of its volume come back. */
	weft_block_fault_stick(rig.block, NULL);
	rig_run(200 * RIG_MS);
	CHECK_EQ(windows_open(&again, g.handle, 0, a, SLOTS / 2), SLOTS / 2);
	rig_disconnect(&again);
	rig_disconnect(&two);
	CHECK(rig_until(60 * RIG_S, rig_is_clean, NULL));
	rig_close();
}

/* ---- Many that wait ---- */

#define MANY 100U /* more than one look reaches */

/** A window that finds no slot, and no alarm for its wait, is refused. */
static void
test_no_alarm(void)
{
	static struct window a[SLOTS + 1];
	const struct rig_attr at = {.seed = test_seed(3),
	                            .workers = 1,
	                            .bytes = 2 * SLOTS * WINDOW_LEN,
	                            .target = "staging = 16M\nwindow = 1M\nrevoke_ms = 60000\n"};
	struct rig_conn k = {0};
	weft_volrpc_grant g;

	rig_open(&at);
	rig_connected(&k, 0);
	CHECK_EQ(rig_grant(&k, RIG_RIGHTS, &g), WEFT_VOLRPC_OK);
	CHECK_EQ(windows_open(&k, g.handle, 0, a, SLOTS), SLOTS);
	rig_no_alarm = true;
	CHECK_EQ(windows_open(&k, g.handle, SLOTS, &a[SLOTS], 1), 0);
	rig_no_alarm = false;
	CHECK(a[SLOTS].c.done);
	CHECK_EQ(a[SLOTS].c.status, WEFT_VOLRPC_NORES);
	rig_disconnect(&k);
	CHECK(rig_until(60 * RIG_S, rig_is_clean, NULL));
	rig_close();
}

/** Many grants wait for windows of a volume that has its half. A slot becomes free: the window of
 * another volume that waits behind them gets it. */
static void
test_many_wait(void)
{
	static struct window a[SLOTS], b[SLOTS], wait[MANY], last;
	const struct rig_attr at = {.seed = test_seed(4),
	                            .workers = 1,
	                            .bytes = 2 * SLOTS * WINDOW_LEN,
	                            .others = 2,
	                            .target = "staging = 16M\nwindow = 1M\nrevoke_ms = 60000\n"};
	static weft_volrpc_grant many[MANY];
	struct rig_conn k = {0}, two[2] = {{0}, {0}};
	weft_volrpc_grant g2, g3;
	struct rig_call c = {.proc = WEFT_VOLRPC_WINDOW_CLOSE};

	rig_open(&at);
	rig_connected(&k, 0);
	/* A connection has up to 64 grants. */
	for (unsigned int i = 0; i < 2; i++)
		rig_connected(&two[i], 0);
	for (unsigned int i = 0; i < MANY; i++)
		CHECK_EQ(rig_grant(&two[i % 2], RIG_RIGHTS, &many[i]), WEFT_VOLRPC_OK);
	CHECK_EQ(rig_grant_of(&k, rig_others[0], RIG_RIGHTS, &g2), WEFT_VOLRPC_OK);
	CHECK_EQ(rig_grant_of(&k, rig_others[1], RIG_RIGHTS, &g3), WEFT_VOLRPC_OK);
	CHECK_EQ(windows_open(&two[0], many[0].handle, 0, a, SLOTS / 2), SLOTS / 2);
	CHECK_EQ(windows_open(&k, g2.handle, 0, b, SLOTS / 2), SLOTS / 2);
	for (unsigned int i = 0; i < MANY; i++)
		CHECK_EQ(windows_open(&two[i % 2], many[i].handle, SLOTS, &wait[i], 1), 0);
	CHECK_EQ(windows_open(&k, g3.handle, 0, &last, 1), 0);
	c.args.wclose.window = b[0].c.win.window;
	rig_call(&k, &c);
	rig_wait(&c);
	rig_run(100 * RIG_MS);
	CHECK(window_is_open(&last));
	rig_disconnect(&k);
	for (unsigned int i = 0; i < 2; i++)
		rig_disconnect(&two[i]);
	CHECK(rig_until(60 * RIG_S, rig_is_clean, NULL));
	rig_close();
}

WEFT_TEST_MAIN({"a device that hangs", test_stall},
               {"windows of a device that hangs", test_windows},
               {"a window that cannot wait", test_no_alarm},
               {"a window behind many others", test_many_wait})
