/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Order (RFC 5040 s5.5, Figure 17; RFC 7306 s7 and draft-talpey-rdma-commit-02 s3 for the others):
 * every operation followed by every other on the same memory, with and without a fence, over a link
 * that loses, reorders and duplicates. A pair is a case.
 *
 * Placement is in order here, which the RFC permits and does not ask for; so what is checked at the
 * end is more than Figure 17 promises, and what a Read may see is what Figure 17 says.
 */

#include "vt.h"

#define LEN 12000u
#define RIGHTS                                                                                     \
	(WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |            \
	 WEFT_ACCESS_FLUSH_VISIBLE | WEFT_ACCESS_VERIFY)

enum kind { SEND, WRITE, READ, FLUSH, AWRITE, NKINDS };

static const char *const names[NKINDS] = {"Send", "Write", "Read", "Flush", "Atomic Write"};

/* Node 1: the target, then the barrier's receive. Node 0: what is sent (2), what is read (2). */
struct pair {
	struct vt t;
	enum kind op[2];
	bool fence;
	uint8_t before[LEN];   /* of the target */
	uint8_t data[2][LEN];  /* what each puts there, if it does */
	unsigned int received; /* receives completed at node 1 */
};

/** Octets that the operation puts into the target: all, eight, or none. */
static uint32_t
pair_puts(enum kind k)
{
	return k == SEND || k == WRITE ? LEN : k == AWRITE ? 8 : 0;
}

static uint8_t
after(const struct pair *p, unsigned int ops, uint32_t i)
{
	uint8_t v = p->before[i];

	for (unsigned int k = 0; k < ops; k++)
		if (i < pair_puts(p->op[k]))
			v = p->data[k][i];
	return v;
}

/*
 * What may stand in the target once all is done. Like a Read Response, an Atomic Write is carried
 * out in its turn, which may be after a later Write or Send has been placed, unless that is fenced
 * (RFC 7306 s7 has it so for Atomics).
 */
static bool
ends_as(const struct pair *p, uint32_t i, uint8_t v)
{
	if (p->op[0] == AWRITE && !p->fence && i < 8 && v == p->data[0][i])
		return true;
	return v == after(p, 2, i);
}

static void
post_op(struct pair *p, unsigned int k)
{
	struct vt_node *a = &p->t.n[0], *b = &p->t.n[1];
	struct weft_sge sg = {.addr = p->data[k], .len_bytes = LEN};
	struct weft_wr wr = {.wr_id = k + 1,
	                     .flags = WEFT_WR_SIGNALED | (k == 1 && p->fence ? WEFT_WR_FENCE : 0),
	                     .sg_list = &sg,
	                     .num_sge = 1};
	uint32_t stag = weft_mr_stag(b->mr);
	uint64_t to = 0x200000000ULL;

	switch (p->op[k]) {
	case SEND:
		wr.opcode = WEFT_WR_SEND;
		break;
	case WRITE:
		wr.opcode = WEFT_WR_WRITE;
		wr.rdma.stag = stag;
		wr.rdma.to = to;
		break;
	case READ:
		wr.opcode = WEFT_WR_READ;
		sg.addr = a->mem + k * LEN;
		sg.lkey = weft_mr_stag(a->mr);
		wr.rdma.stag = stag;
		wr.rdma.to = to;
		break;
	case FLUSH:
		wr.opcode = WEFT_WR_FLUSH;
		wr.num_sge = 0;
		wr.flush.stag = stag;
		wr.flush.to = to;
		wr.flush.len_bytes = LEN;
		wr.flush.flags = WEFT_FLUSH_VISIBLE;
		break;
	default:
		wr.opcode = WEFT_WR_ATOMIC_WRITE;
		wr.num_sge = 0;
		wr.atomic_write.stag = stag;
		wr.atomic_write.to = to;
		memcpy(wr.atomic_write.data, p->data[k], 8);
		break;
	}
	vt_post(a, &wr);
}

/* Node 1 looks at each moment: what has been delivered holds what it must (rules 10, 16). */
static bool
barrier_came(void *arg)
{
	struct pair *p = arg;
	struct vt_node *b = &p->t.n[1];
	struct weft_wc wc;

	while (weft_cq_poll(b->cq, &wc, 1) == 1) {
		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
		p->received++;
		CHECK_MSG(wc.wr_id == p->received, "receives out of order");
		if (p->received == 1u + (p->op[0] == SEND) + (p->op[1] == SEND)) {
			for (uint32_t i = 0; i < LEN; i++)
				CHECK_MSG(ends_as(p, i, b->mem[i]), "octet %u behind the last Send",
				          i);
			CHECK_MEM(b->mem + LEN, "barrier", 7);
			return true;
		}
		CHECK_EQ(wc.len_bytes, LEN);
		/* the first Send of two, or the only one; what comes behind it may be there already
		 */
		for (uint32_t i = 0; i < LEN; i++) {
			unsigned int k = p->op[0] == SEND && p->received == 1 ? 1 : 2;

			CHECK_MSG(b->mem[i] == after(p, k, i) || ends_as(p, i, b->mem[i]),
			          "octet %u of a delivered Send", i);
		}
	}
	return false;
}

/* Rule 12 and Figure 17: a Read sees all that went before it, and may see what comes behind. */
static void
check_read(const struct pair *p, unsigned int k)
{
	const uint8_t *got = p->t.n[0].mem + k * LEN;
	bool may_see_later = k == 0 && !p->fence;

	for (uint32_t i = 0; i < LEN; i++)
		CHECK_MSG(got[i] == after(p, k, i) || (may_see_later && ends_as(p, i, got[i])),
		          "octet %u of Read %u", i, k + 1);
}

static void
run_pair(enum kind first, enum kind later, bool fence, uint64_t seed)
{
	struct pair *p = calloc(1, sizeof(*p));
	static char barrier[] = "barrier";
	struct weft_sge sg = {.addr = barrier, .len_bytes = 7};
	struct weft_wr wr = {.wr_id = 3,
	                     .opcode = WEFT_WR_SEND,
	                     .flags = WEFT_WR_SIGNALED,
	                     .sg_list = &sg,
	                     .num_sge = 1};
	struct vt_attr a = {.seed = seed,
	                    .link = {.loss_ppm = 20000,
	                             .reorder_ppm = 50000,
	                             .reorder_ns = 100000,
	                             .dup_ppm = 10000,
	                             .delay_ns = 20000}};
	unsigned int receives = 0;

	p->op[0] = first;
	p->op[1] = later;
	p->fence = fence;
	vt_open(&p->t, &a);
	vt_mem(&p->t.n[0], 2 * LEN, RIGHTS);
	vt_mem(&p->t.n[1], 2 * LEN, RIGHTS);
	vt_connect(&p->t, NULL, NULL);
	vt_fill(p->before, LEN, seed + 1);
	vt_fill(p->data[0], LEN, seed + 2);
	vt_fill(p->data[1], LEN, seed + 3);
	memcpy(p->t.n[1].mem, p->before, LEN);
	for (unsigned int k = 0; k < 2; k++)
		if (p->op[k] == SEND)
			vt_post_recv(&p->t.n[1], p->t.n[1].mem, LEN, ++receives);
	vt_post_recv(&p->t.n[1], p->t.n[1].mem + LEN, 100, ++receives);
	post_op(p, 0);
	post_op(p, 1);
	wr.flags |= WEFT_WR_FENCE;
	vt_post(&p->t.n[0], &wr);
	CHECK_MSG(vt_until(&p->t, 120 * VT_S, barrier_came, p), "seed %" PRIu64, seed);
	/* rule 15: completed in the order submitted */
	for (unsigned int k = 1; k <= 3; k++) {
		struct weft_wc wc = vt_wc(&p->t.n[0]);

		CHECK_EQ(wc.wr_id, k);
		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
	}
	for (unsigned int k = 0; k < 2; k++)
		if (p->op[k] == READ)
			check_read(p, k);
	vt_close(&p->t);
	free(p);
}

static void
run_case(void)
{
	unsigned int i = test_case_index();
	unsigned int rounds = test_seed_given() ? 1 : 4;

	for (unsigned int r = 0; r < rounds; r++)
		run_pair(i / 2 / NKINDS, i / 2 % NKINDS, i % 2, test_seed(100 * i + r + 1));
}

int
main(int argc, char **argv)
{
	static struct weft_test_case cases[NKINDS * NKINDS * 2];
	static char text[NKINDS * NKINDS * 2][48];

	for (unsigned int i = 0; i < NKINDS * NKINDS * 2; i++) {
		snprintf(text[i], sizeof(text[i]), "%s then %s%s", names[i / 2 / NKINDS],
		         names[i / 2 % NKINDS], i % 2 ? ", fenced" : "");
		cases[i] = (struct weft_test_case){text[i], run_case};
	}
	return test_main(argc, argv, cases, NKINDS * NKINDS * 2);
}
