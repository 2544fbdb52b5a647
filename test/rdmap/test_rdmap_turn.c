/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Limits of a stream in one turn: octets sent, as requester and as responder. Failing
 * allocations. */

#include <errno.h>
#include <stdlib.h>

#include "rdmap_rig.h"
#include "rdmap_seg.h"

void *__wrap_calloc(size_t n, size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);

static bool no_memory;

void *
__wrap_calloc(size_t n, size_t size)
{
	return no_memory ? NULL : __real_calloc(n, size);
}

void *
__wrap_aligned_alloc(size_t align, size_t size)
{
	return no_memory ? NULL : __real_aligned_alloc(align, size);
}

static uint8_t src[1 << 20];

/* Count and free the octets that b has sent. */
static uint32_t
sent(void)
{
	struct rig_ulpdu *u;
	uint32_t n = 0;

	while ((u = rig_pop(&rig.b)) != NULL) {
		n += u->len_bytes;
		free(u);
	}
	return n;
}

/* A megabyte, read or written, takes many turns, each within the limit of a poll. */
static void
test_budget(void)
{
	for (unsigned int reads = 0; reads < 2; reads++) {
		struct weft_rdmap_req w = {.op = WEFT_RDMAP_WRITE, .stag = 0x11, .nsge = 1};
		struct rdmap_read_req q = {.sink_stag = 0x22, .len_bytes = sizeof(src)};
		struct weft_mem_mr *mr;
		uint32_t all = 0, most = 0, n;

		rig_open(2, 2, true);
		mr = rig_reg(&rig.b, src, sizeof(src), 0,
		             WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_LOCAL_WRITE, NULL, NULL);
		if (reads) {
			q.src_stag = mr->stag;
			rig_inject_read(&rig.b, 1, &q);
		} else {
			w.sge[0] = (struct weft_rdmap_sge){src, sizeof(src)};
			w.len_bytes = sizeof(src);
			weft_rdmap_post(rig.b.r, &w);
		}
		while (all < sizeof(src)) {
			rig.now_ns += 1000;
			weft_sched_run(&rig.b.sched, rig.now_ns);
			n = sent();
			CHECK(n > 0);
			most = RTE_MAX(most, n);
			all += n;
		}
		CHECK_MSG(most <= WEFT_SEND_BYTES + 2 * 1500, "%u octets in one turn", most);
		rig_unreg(&rig.b, mr);
		rig_close();
	}
}

/* The same for small messages, each of which costs more than its octets: a long queue of them does
 * not block the worker's other streams. */
static void
test_budget_small(void)
{
	enum { N = 2000 };
	static const uint8_t op[] = {WEFT_RDMAP_SEND, WEFT_RDMAP_WRITE, WEFT_RDMAP_IMM};
	static struct weft_rdmap_req q[N];

	for (unsigned int k = 0; k < RTE_DIM(op); k++) {
		const unsigned int cost = RDMAP_SEG_COST_BYTES;
		unsigned int all = 0, turns = 0;

		rig_open(2, 2, true);
		for (unsigned int i = 0; i < N; i++) {
			q[i] = (struct weft_rdmap_req){.op = op[k], .stag = 0x11};
			weft_rdmap_post(rig.b.r, &q[i]);
		}
		for (; all < N; turns++) {
			struct rig_ulpdu *u;
			unsigned int n = 0;

			rig.now_ns += 1000;
			weft_sched_run(&rig.b.sched, rig.now_ns);
			for (; (u = rig_pop(&rig.b)) != NULL; free(u))
				n++;
			CHECK_MSG(n > 0 && n <= WEFT_SEND_BYTES / cost + 1,
			          "op %u: %u messages in one turn", op[k], n);
			all += n;
		}
		CHECK_EQ(all, N);
		CHECK(turns > 1);
		rig_close();
	}
}

/* Without memory for a stream, or for the peer's requests, the call fails and frees everything. */
static void
test_no_memory(void)
{
	struct weft_rdmap_attr a = {0};
	struct rdmap_read_req q = {.sink_stag = 0x22, .len_bytes = 100};
	struct weft_rdmap *r = NULL;
	struct weft_mem_mr *mr;
	int rc;

	no_memory = true;
	rc = weft_rdmap_create(&a, NULL, NULL, &r);
	no_memory = false;
	CHECK_EQ(rc, -ENOMEM);
	CHECK(r == NULL);

	rig_open(2, 2, true);
	mr = rig_reg(&rig.b, src, sizeof(src), 0, WEFT_ACCESS_REMOTE_READ, NULL, NULL);
	q.src_stag = mr->stag;
	no_memory = true;
	rig_inject_read(&rig.b, 1, &q);
	no_memory = false;
	rig_pump();
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_TERMINATE);
	CHECK_EQ(weft_rdmap_stats(rig.b.r)->terminates_out, 1);
	CHECK(sent() > 0);
	rig_unreg(&rig.b, mr);
	rig_close();
}

WEFT_TEST_MAIN({"budget", test_budget}, {"budget of small ones", test_budget_small},
               {"no memory", test_no_memory})
