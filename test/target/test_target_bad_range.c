/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file What counts as a failure of the medium: a request that the device has failed. A client that
 * writes to a range of another one's window, and windows that end with a Flush under way, must not
 * raise an alarm: any client can do these things at will.
 */

#include <errno.h>
#include <string.h>

#include "target_rig.h"
#include "target_volume_scrub.h"
#include "vol_priv.h"
#include "weft_test.h"

#define DISK_BYTES (8U << 20)
#define LEN        65536U
#define TRIES      5U

static const struct target_export *
disk(void)
{
	return &rig.t->exports[0];
}

static void
window_of(struct rig_conn *k, uint32_t handle, uint64_t off, weft_volrpc_window *win)
{
	struct rig_call c = {
	        .proc = WEFT_VOLRPC_WINDOW_OPEN,
	        .args.window = {.handle = handle, .off = off, .len = LEN, .rights = RIG_RIGHTS}};

	rig_call(k, &c);
	rig_wait(&c);
	CHECK_EQ(c.status, WEFT_VOLRPC_OK);
	*win = c.win;
}

static void
begin(struct rig_conn *k, weft_volrpc_grant *g)
{
	const struct rig_attr a = {.seed = test_seed(1),
	                           .workers = 1,
	                           .bytes = DISK_BYTES,
	                           .target = "staging = 8M\nwindow = 64K\n"};

	rig_open(&a);
	rig_connected(k, 0);
	CHECK_EQ(rig_grant(k, RIG_RIGHTS, g), WEFT_VOLRPC_OK);
}

static void
end(struct rig_conn *k)
{
	rig_disconnect(k);
	CHECK(rig_until(60 * RIG_S, rig_is_clean, NULL));
	rig_close();
}

static void
test_overlap(void)
{
	struct rig_conn k = {0}, other = {0};
	weft_volrpc_grant g, og;
	weft_volrpc_window win;

	begin(&k, &g);
	rig_connected(&other, 1);
	CHECK_EQ(rig_grant(&other, RIG_RIGHTS, &og), WEFT_VOLRPC_OK);
	window_of(&k, g.handle, 0, &win);
	for (unsigned int i = 0; i < TRIES; i++) {
		struct rig_call c = {.proc = WEFT_VOLRPC_WRITE,
		                     .args.write = {.handle = og.handle,
		                                    .off = i * 4096,
		                                    .data = {.data_len = 4096,
		                                             .data_val = (char *)rig.node[1].mem}}};

		rig_call(&other, &c);
		rig_wait(&c);
		CHECK_EQ(c.status, WEFT_VOLRPC_BUSY);
		CHECK_MSG(strstr(c.why, "has a part of the range: of ") != NULL, "%s", c.why);
	}
	CHECK_EQ(disk()->failures.n, 0);
	CHECK_EQ(disk()->bad_ranges, 0);
	CHECK(!rig_said("BAD RANGE"));
	rig_disconnect(&other);
	end(&k);
}

static void
test_canceled(void)
{
	const struct weft_block_fault_hit hit = {.ops = 1U << WEFT_BLOCK_WRITE, .count = 1000};
	struct rig_conn k = {0};
	weft_volrpc_grant g;
	weft_volrpc_window win;
	struct rig_call c = {.proc = WEFT_VOLRPC_CLOSE};
	struct rig_wr wr = {0};

	begin(&k, &g);
	window_of(&k, g.handle, 0, &win);
	weft_block_fault_stick(rig.block, &hit);
	CHECK(rig_rdma(&k, win.stag, win.to, k.n->mem, LEN, true, &wr));
	rig_run(100 * RIG_MS);
	CHECK(!wr.done);
	c.args.close.handle = g.handle;
	rig_call(&k, &c);
	rig_run(100 * RIG_MS);
	weft_block_fault_stick(rig.block, NULL);
	rig_run(RIG_S);
	CHECK(wr.done && wr.status != WEFT_WC_SUCCESS);
	CHECK_EQ(disk()->failures.n, 0);
	CHECK_EQ(disk()->bad_ranges, 0);
	CHECK(!rig_said("BAD RANGE"));
	CHECK(rig_said("ended: Operation canceled"));
	end(&k);
}

static void
failed(int status, const char *text)
{
	const struct weft_block_fault_hit hit = {.ops = 1U << WEFT_BLOCK_WRITE, .count = 1000};
	struct rig_conn k = {0};
	weft_volrpc_grant g;
	weft_volrpc_window win;
	struct rig_wr wr = {0};

	begin(&k, &g);
	window_of(&k, g.handle, 0, &win);
	weft_block_fault_fail(rig.block, &hit, status);
	CHECK(rig_rdma(&k, win.stag, win.to, k.n->mem, LEN, true, &wr));
	rig_run(RIG_S);
	CHECK(wr.done && wr.status != WEFT_WC_SUCCESS);
	CHECK_EQ(disk()->failures.n, 1);
	CHECK_EQ(disk()->failures.last[0].status, status);
	CHECK(rig_said("BAD RANGE: 65536 octets at offset 0 of "));
	CHECK(rig_said(text));
	end(&k);
}

/** A device that fails, or has no room: the cause is told and kept. */
static void
test_failed(void)
{
	static const struct {
		int status;
		const char *text;
	} causes[] = {{-EIO, "the medium failed: Input/output error"},
	              {-ENOSPC, "the medium failed: No space left on device"}};

	for (unsigned int i = 0; i < 2; i++)
		failed(causes[i].status, causes[i].text);
}

static bool
mends(void *arg)
{
	return ((const struct target_vchan *)arg)->scrubs->mend.busy;
}

/** The scrub of groups in doubt comes to one whose doubt has just ended, and finds damage. */
static void
test_mend(void)
{
	const struct rig_attr a = {.seed = test_seed(1),
	                           .workers = 1,
	                           .bytes = DISK_BYTES,
	                           .target = "staging = 8M\nwindow = 64K\n",
	                           .export = "checksums = yes"};
	uint8_t mem[4096] = {1};
	struct iovec iov = {mem, sizeof(mem)};
	struct weft_block_req req = {
	        .op = WEFT_BLOCK_WRITE, .len_bytes = sizeof(mem), .iov = &iov, .iovs = 1};
	struct target_vchan *vc;
	struct vol_sums *sums;

	rig_open(&a);
	vc = target_vchan_of(&rig.t->workers[0], disk());
	sums = disk()->volume->vol->sums;
	req.off_bytes = weft_vol_info(disk()->volume->vol)->super.data_at + 8192;
	CHECK_EQ(weft_block_wait(rig.block, &req), 0);
	vol_sums_doubt(sums, 0, true);
	CHECK(rig_until(60 * RIG_S, mends, vc));
	vol_sums_doubt(sums, 0, false);
	rig_run(RIG_S);
	CHECK(vc->scrubs->mend.damaged == 1 && atomic_load(&vc->damaged) == 1);
	CHECK_EQ(disk()->mismatches.n, 1);
	CHECK_EQ(disk()->mismatches.last[0].off_bytes, 8192);
	CHECK(rig_said("DAMAGED: 1 blocks from offset 8192 on do not have their checksum"));
	CHECK_EQ(atomic_load(&disk()->bad_ranges), 1);
	rig_close();
}

WEFT_TEST_MAIN({"a range of another client's window", test_overlap},
               {"a window that ends with a Flush under way", test_canceled},
               {"a device that fails", test_failed},
               {"damage that a scrub of groups in doubt finds", test_mend})
