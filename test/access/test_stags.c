/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Clients that use a former STag after all STag values have been used once. By then another
 * client's memory has the same STag. No operation of the first client reaches that memory, and its
 * stream ends.
 */

#include <errno.h>

#include "mem_priv.h"
#include "vt_fast.h"
#include "weft_mem_find.h"

#define VERIFIED (RW | WEFT_ACCESS_REMOTE_ATOMIC | WEFT_ACCESS_FLUSH_VISIBLE | WEFT_ACCESS_VERIFY)

static uint8_t memory[4096] __attribute__((aligned(64)));

static struct weft_mr *
reg(struct weft_pd *pd)
{
	const struct weft_mr_attr a = {.size = sizeof(a),
	                               .addr = memory,
	                               .len_bytes = sizeof(memory),
	                               .access = VERIFIED,
	                               .hash = "crc32c"};
	struct weft_mr *mr;

	CHECK_EQ(weft_mr_reg(pd, &a, &mr), 0);
	return mr;
}

/** Register memory of another domain under this STag, without the millions of registrations
 * before it. */
static struct weft_mr *
same_stag(struct vt *t, struct weft_pd *pd, uint32_t stag)
{
	struct weft_mem *m = inside_mem(t->n[1].ctx);
	uint32_t slot = weft_mem_slot_of(&m->t, stag);
	uint64_t use = 0;

	while (mem_stag_value(m, slot, use) != stag)
		use++;
	for (unsigned int n = 0; n < 100000; n++) {
		struct weft_mr *mr;

		atomic_store_explicit(&m->uses[slot], use, memory_order_relaxed);
		mr = reg(pd);
		if (weft_mr_stag(mr) == stag)
			return mr;
		CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
		if (n % 1000 == 999)
			vt_run(t, VT_MS);
	}
	CHECK(false);
	return NULL;
}

static void
test_stale(void)
{
	static const struct {
		const char *what;
		enum weft_wr_opcode op;
		uint8_t layer, code;
	} rows[] = {
	        {"Write", WEFT_WR_WRITE, 1, 2},
	        {"Read", WEFT_WR_READ, 0, 3},
	        {"Flush", WEFT_WR_FLUSH, 0, 3},
	        {"Verify", WEFT_WR_VERIFY, 0, 3},
	        {"Atomic Write", WEFT_WR_ATOMIC_WRITE, 0, 3},
	        {"FetchAdd", WEFT_WR_FETCH_ADD, 0, 3},
	        {"Send with Invalidate", WEFT_WR_SEND_INV, 0, 9},
	};

	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		uint8_t in[8], hash[WEFT_HASH_MAX_BYTES] = {0};
		struct weft_pd *other;
		struct weft_mr *mr;
		struct weft_sge sg;
		struct weft_wr wr;
		uint32_t stag;
		struct vt t;

		open_pair(&t, NULL);
		vt_mem(&t.n[0], 64, WEFT_ACCESS_LOCAL_WRITE);
		mr = reg(t.n[1].pd);
		stag = weft_mr_stag(mr);
		CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
		vt_run(&t, VT_MS);
		CHECK_EQ(weft_pd_alloc(t.n[1].ctx, &other), 0);
		mr = same_stag(&t, other, stag);
		memset(memory, 0xca, sizeof(memory));

		vt_post_recv(&t.n[1], in, sizeof(in), 0);
		sg = (struct weft_sge){
		        .addr = t.n[0].mem, .len_bytes = 8, .lkey = weft_mr_stag(t.n[0].mr)};
		wr = wr_rdma(rows[i].op, &sg, stag, 0);
		switch (rows[i].op) {
		case WEFT_WR_FLUSH:
			wr = (struct weft_wr){.opcode = WEFT_WR_FLUSH,
			                      .flush = {.stag = stag,
			                                .len_bytes = 8,
			                                .flags = WEFT_FLUSH_VISIBLE}};
			break;
		case WEFT_WR_VERIFY:
			wr = (struct weft_wr){.opcode = WEFT_WR_VERIFY,
			                      .verify = {.stag = stag,
			                                 .len_bytes = 8,
			                                 .result = hash,
			                                 .result_bytes = sizeof(hash)}};
			break;
		case WEFT_WR_ATOMIC_WRITE:
			wr = (struct weft_wr){.opcode = WEFT_WR_ATOMIC_WRITE,
			                      .atomic_write = {.stag = stag}};
			break;
		case WEFT_WR_FETCH_ADD:
			wr.atomic.stag = stag;
			wr.atomic.to = 0;
			wr.atomic.data = 1;
			break;
		case WEFT_WR_SEND_INV:
			wr.num_sge = 0;
			wr.send.inv_stag = stag;
			break;
		default:
			break;
		}
		wr.flags |= WEFT_WR_SIGNALED;
		vt_post(&t.n[0], &wr);
		want_term(&t.n[1], rows[i].layer, 1, rows[i].code, true);
		want_term(&t.n[0], rows[i].layer, 1, rows[i].code, false);
		for (size_t k = 0; k < sizeof(memory); k++)
			CHECK_MSG(memory[k] == 0xca, "%s changed octet %zu", rows[i].what, k);
		for (unsigned int k = 0; k < 8; k++)
			CHECK_MSG(t.n[0].mem[k] == 0 && hash[k] == 0, "%s read", rows[i].what);
		/* The other client's region still exists. */
		CHECK(weft_mem_lookup(inside_mem(t.n[1].ctx), stag) != NULL);
		CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
		vt_run(&t, VT_S);
		CHECK_EQ(weft_pd_dealloc(other), 0);
		vt_close(&t);
	}
}

WEFT_TEST_MAIN({"kept until it is another client's", test_stale})
