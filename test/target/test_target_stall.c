/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A device that hangs keeps the memory of READs. Their client has all of its share of the
 * staging memory for other volumes, and the memory is a part of the share again when the device
 * goes on.
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

WEFT_TEST_MAIN({"a device that hangs", test_stall})
