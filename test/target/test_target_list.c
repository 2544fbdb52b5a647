/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Many exports, listed: an older client gets the first of them by LIST, a newer one all by
 * pages. */

#include "target_rig.h"
#include "weft_test.h"

#define BYTES (4U << 20)
#define MANY  39U /* LIST_FROM has two whole pages of them, and a part */

/** Slots behind the only export that have its configuration, and are not up; two are gone. */
static void
more_exports(uint32_t n)
{
	struct target *t = rig.t;

	for (uint32_t i = t->nexports; i < n; i++) {
		pthread_mutex_init(&t->exports[i].lock, NULL);
		t->exports[i].conf = t->exports[0].conf;
		atomic_store(&t->exports[i].gone, i == 5 || i == n - 1);
	}
	atomic_store(&t->nexports, n);
}

static void
list_from(struct rig_conn *k, uint32_t from, uint32_t items, uint32_t next)
{
	struct rig_call c = {.proc = WEFT_VOLRPC_LIST_FROM, .args.list.from = from};

	rig_call(k, &c);
	rig_wait(&c);
	CHECK_EQ(c.rpc, WEFT_RPC_OK);
	CHECK_EQ(c.items, items);
	CHECK_EQ(c.next, next);
}

static void
test_pages(void)
{
	const struct rig_attr a = {
	        .seed = 1, .bytes = BYTES, .workers = 1, .target = "staging = 8M\nwindow = 64K\n"};
	struct rig_call c = {.proc = WEFT_VOLRPC_LIST};
	struct rig_conn k = {0};

	rig_open(&a);
	rig_connected(&k, 0);
	list_from(&k, 0, 1, 0);
	list_from(&k, 1, 0, 0);
	more_exports(MANY);
	rig_call(&k, &c);
	rig_wait(&c);
	CHECK_EQ(c.items, WEFT_VOLRPC_LIST_MAX);
	/* Slot 5 is gone: the page ends one slot later. */
	list_from(&k, 0, TARGET_LIST_PAGE, TARGET_LIST_PAGE + 1);
	list_from(&k, TARGET_LIST_PAGE + 1, TARGET_LIST_PAGE, 2 * TARGET_LIST_PAGE + 1);
	list_from(&k, 2 * TARGET_LIST_PAGE + 1, MANY - 1 - (2 * TARGET_LIST_PAGE + 1), 0);
	/* A page that is full, and behind it nothing but a slot that is gone. */
	list_from(&k, MANY - 1 - TARGET_LIST_PAGE, TARGET_LIST_PAGE, 0);
	list_from(&k, MANY, 0, 0);
	list_from(&k, UINT32_MAX, 0, 0);
	atomic_store(&rig.t->nexports, 1);
	rig_disconnect(&k);
	rig_close();
}

WEFT_TEST_MAIN({"pages, and the first 32", test_pages})
