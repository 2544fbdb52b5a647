/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Order (RFC 5040 s5.5, Figure 17; RFC 7306 s7 and draft-talpey-rdma-commit-02 s3 for the other
 * operations). Every operation is followed by every other on the same memory, with and without a
 * fence, over a link that loses, reorders and duplicates packets. Each pair is a case. order_rows.h
 * states which operation may overtake which.
 *
 * weft places segments in order, which the RFC permits and does not require. So the checks are
 * stricter than the tables, except where the tables let the second operation come before the first.
 */

#include "order_rows.h"
#include "vt.h"

#define LEN 12000u
#define RIGHTS                                                                                     \
	(WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |            \
	 WEFT_ACCESS_REMOTE_ATOMIC | WEFT_ACCESS_FLUSH_VISIBLE | WEFT_ACCESS_VERIFY)

enum kind {
	SEND,
	SEND_INV,
	WRITE,
	READ,
	FLUSH,
	FLUSH_R,
	VERIFY,
	AWRITE,
	SWAP,
	IMM,
	WRITE_IMM,
	NKINDS
};

static const char *const names[NKINDS] = {"Send",
                                          "Send with Invalidate",
                                          "Write",
                                          "Read",
                                          "Flush",
                                          "Flush of the region",
                                          "Verify",
                                          "Atomic Write",
                                          "CmpSwap",
                                          "Immediate Data",
                                          "Write with Immediate Data"};

/* A Write with Immediate Data is two messages. Their rows agree on what may overtake. */
static const enum order_op rows_of[NKINDS] = {
        [SEND] = O_SEND,   [SEND_INV] = O_SEND, [WRITE] = O_WRITE,    [READ] = O_READ,
        [FLUSH] = O_FLUSH, [FLUSH_R] = O_FLUSH, [VERIFY] = O_VERIFY,  [AWRITE] = O_AWRITE,
        [SWAP] = O_ATOMIC, [IMM] = O_IMM,       [WRITE_IMM] = O_WRITE};

/* Node 1: the target, then the barrier's receive. Node 0: sources (2), Read sinks (2). */
struct pair {
	struct vt t;
	enum kind op[2];
	bool fence, ahead;    /**< ahead: the target places Writes behind gaps */
	uint8_t before[LEN];  /* content of the target before the operations */
	uint8_t data[2][LEN]; /* data that each operation puts there, if it writes */
	uint64_t was[2];      /* result of a CmpSwap */
	uint8_t hash[2][4];   /* result of a Verify */
	uint8_t lent[2][8];   /* memory whose STag a Send with Invalidate invalidates */
	struct weft_mr *lent_mr[2];
	unsigned int received; /* receives completed at node 1 */
};

/** Octets of the target that the operation writes: all, eight, or none. */
static uint32_t
pair_puts(enum kind k)
{
	if (k == SEND || k == SEND_INV || k == WRITE || k == WRITE_IMM)
		return LEN;
	return k == AWRITE || k == SWAP ? 8 : 0;
}

static bool
takes_receive(enum kind k)
{
	return k == SEND || k == SEND_INV || k == IMM || k == WRITE_IMM;
}

/** Whether the second operation may be carried out before the first: the table allows it, and there
 * is no fence. */
static bool
may_overtake(const struct pair *p)
{
	return order_may_overtake(rows_of[p->op[0]], rows_of[p->op[1]]) && !p->fence;
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
 * Whether octet i of the target may be v after both operations. An Atomic Write may be carried out
 * after a later Write or Send is placed.
 */
static bool
ends_as(const struct pair *p, uint32_t i, uint8_t v)
{
	if (may_overtake(p) && i < pair_puts(p->op[0]) && v == p->data[0][i])
		return true;
	return v == after(p, 2, i);
}

/* Whether octet i may be v when the message of operation k is delivered. */
static bool
delivered_as(const struct pair *p, unsigned int k, uint32_t i, uint8_t v)
{
	/* RFC 7306 s7: a Send or Immediate Data may be delivered before an earlier Atomic is
	 * carried out */
	if (k == 1 && may_overtake(p) &&
	    v == (i < pair_puts(p->op[1]) ? p->data[1][i] : p->before[i]))
		return true;
	return v == after(p, k + 1, i) || ends_as(p, i, v);
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
	case SEND_INV:
		wr.opcode = WEFT_WR_SEND_INV;
		wr.send.inv_stag = weft_mr_stag(p->lent_mr[k]);
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
	case FLUSH_R:
		wr.opcode = WEFT_WR_FLUSH;
		wr.num_sge = 0;
		wr.flush.stag = stag;
		wr.flush.to = to;
		wr.flush.len_bytes = LEN;
		wr.flush.flags = WEFT_FLUSH_VISIBLE | (p->op[k] == FLUSH_R ? WEFT_FLUSH_REGION : 0);
		break;
	case VERIFY:
		wr.opcode = WEFT_WR_VERIFY;
		wr.num_sge = 0;
		wr.verify.stag = stag;
		wr.verify.to = to;
		wr.verify.len_bytes = LEN;
		wr.verify.result = p->hash[k];
		wr.verify.result_bytes = sizeof(p->hash[k]);
		break;
	case SWAP: /* with any content */
		wr.opcode = WEFT_WR_MASKED_CMP_SWAP;
		sg = (struct weft_sge){&p->was[k], 8, 0};
		wr.atomic.stag = stag;
		wr.atomic.to = to;
		wr.atomic.mask = UINT64_MAX;
		memcpy(&wr.atomic.data, p->data[k], 8);
		break;
	case IMM:
		wr.opcode = WEFT_WR_IMM;
		wr.num_sge = 0;
		memcpy(wr.imm.data, names[IMM], 8);
		break;
	case WRITE_IMM:
		wr.opcode = WEFT_WR_WRITE_IMM;
		wr.write_imm.stag = stag;
		wr.write_imm.to = to;
		memcpy(wr.write_imm.data, names[IMM], 8);
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

/* Node 1 checks at each delivery that the memory is as required (rules 10, 16). */
static bool
barrier_came(void *arg)
{
	struct pair *p = arg;
	struct vt_node *b = &p->t.n[1];
	struct weft_wc wc;

	while (weft_cq_poll(b->cq, &wc, 1) == 1) {
		unsigned int k = takes_receive(p->op[0]) && p->received == 0 ? 0 : 1;

		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
		p->received++;
		CHECK_MSG(wc.wr_id == p->received, "receives out of order");
		if (p->received == 1u + takes_receive(p->op[0]) + takes_receive(p->op[1])) {
			for (uint32_t i = 0; i < LEN; i++)
				CHECK_MSG(ends_as(p, i, b->mem[i]), "octet %u behind the last Send",
				          i);
			CHECK_MEM(b->mem + LEN, "barrier", 7);
			return true;
		}
		if (p->op[k] == SEND || p->op[k] == SEND_INV) {
			CHECK_EQ(wc.len_bytes, LEN);
			CHECK_EQ(!!(wc.flags & WEFT_WC_INV), p->op[k] == SEND_INV);
		} else {
			CHECK_EQ(wc.opcode, WEFT_WC_RECV_IMM);
			CHECK_MEM(wc.imm, names[IMM], 8);
		}
		/* data of later operations may be there already */
		for (uint32_t i = 0; i < LEN; i++)
			CHECK_MSG(delivered_as(p, k, i, b->mem[i]), "octet %u when %s is delivered",
			          i, names[p->op[k]]);
	}
	return false;
}

/* Rule 12 and Figure 17, RFC 7306 s7: a Read or Atomic sees all earlier operations and may see
 * later ones. */
static void
check_read(const struct pair *p, unsigned int k)
{
	bool read = p->op[k] == READ, may_see_later = k == 0 && may_overtake(p);
	const uint8_t *got = read ? p->t.n[0].mem + k * LEN : (const uint8_t *)&p->was[k];

	for (uint32_t i = 0; i < (read ? LEN : 8); i++)
		CHECK_MSG(got[i] == after(p, k, i) || (may_see_later && ends_as(p, i, got[i])),
		          "octet %u of %s %u", i, names[p->op[k]], k + 1);
}

/*
 * A Verify hashes the result of all earlier operations. Of a later operation it may see what is
 * already placed, which is a prefix of its segments; with place_ahead any of them, and nothing can
 * be said of the hash.
 */
static void
check_verify(const struct pair *p, unsigned int k)
{
	uint8_t want[LEN], later[LEN], crc[4];
	uint32_t puts = k == 0 && may_overtake(p) ? pair_puts(p->op[1]) : 0;

	if (puts > 0 && p->ahead)
		return;
	for (uint32_t i = 0; i < LEN; i++) {
		want[i] = after(p, k, i);
		later[i] = after(p, 2, i);
	}
	for (uint32_t n = 0; n <= puts; n++) {
		if (n > 0)
			want[n - 1] = later[n - 1];
		vt_crc32c(want, LEN, crc);
		if (memcmp(crc, p->hash[k], 4) == 0)
			return;
	}
	CHECK_MSG(false, "the hash of Verify %u", k + 1);
}

/** mpa: of the target; NULL: the default. */
static void
run_pair(enum kind first, enum kind later, bool fence, uint64_t seed,
         const struct weft_mpa_policy *mpa)
{
	const struct weft_conn_attr ca[2] = {{.size = sizeof(ca[0])},
	                                     {.size = sizeof(ca[1]), .mpa = mpa}};
	struct weft_qp_attr qa[2];
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
	p->ahead = mpa != NULL;
	vt_open(&p->t, &a);
	vt_mem(&p->t.n[0], 2 * LEN, RIGHTS);
	vt_mem(&p->t.n[1], 2 * LEN, RIGHTS);
	for (unsigned int k = 0; k < 2; k++)
		qa[k] = vt_qp_attr(&p->t.n[k]);
	vt_connect_as(&p->t, qa, ca);
	vt_fill(p->before, LEN, seed + 1);
	vt_fill(p->data[0], LEN, seed + 2);
	vt_fill(p->data[1], LEN, seed + 3);
	memcpy(p->t.n[1].mem, p->before, LEN);
	for (unsigned int k = 0; k < 2; k++) {
		struct weft_mr_attr ma = {.size = sizeof(ma),
		                          .addr = p->lent[k],
		                          .len_bytes = sizeof(p->lent[k]),
		                          .access = WEFT_ACCESS_REMOTE_READ};

		CHECK_EQ(weft_mr_reg(p->t.n[1].pd, &ma, &p->lent_mr[k]), 0);
	}
	for (unsigned int k = 0; k < 2; k++)
		if (takes_receive(p->op[k]))
			vt_post_recv(&p->t.n[1], p->t.n[1].mem, LEN, ++receives);
	vt_post_recv(&p->t.n[1], p->t.n[1].mem + LEN, 100, ++receives);
	post_op(p, 0);
	post_op(p, 1);
	wr.flags |= WEFT_WR_FENCE;
	vt_post(&p->t.n[0], &wr);
	CHECK_MSG(vt_until(&p->t, 120 * VT_S, barrier_came, p), "seed %" PRIu64, seed);
	/* rule 15: completed in the order of the posts */
	for (unsigned int k = 1; k <= 3; k++) {
		struct weft_wc wc = vt_wc(&p->t.n[0]);

		CHECK_EQ(wc.wr_id, k);
		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
	}
	for (unsigned int k = 0; k < 2; k++)
		if (p->op[k] == READ || p->op[k] == SWAP)
			check_read(p, k);
		else if (p->op[k] == VERIFY)
			check_verify(p, k);
	for (unsigned int k = 0; k < 2; k++)
		CHECK_EQ(weft_mr_dereg(p->lent_mr[k], NULL, NULL), 0);
	vt_close(&p->t);
	free(p);
}

static void
run_case(void)
{
	unsigned int i = test_case_index();
	unsigned int rounds = test_seed_given() ? 1 : 4;
	static const struct weft_mpa_policy ahead = {.size = sizeof(ahead), .place_ahead = true};

	for (unsigned int r = 0; r < rounds; r++) {
		uint64_t seed = test_seed(100 * i + r + 1);

		run_pair(i / 2 / NKINDS, i / 2 % NKINDS, i % 2, seed, NULL);
		run_pair(i / 2 / NKINDS, i / 2 % NKINDS, i % 2, seed, &ahead);
	}
}

/** docs/ordering.md has exactly these rows, in this order. */
static void
test_doc(void)
{
	FILE *f = fopen(WEFT_SOURCE_DIR "/docs/ordering.md", "r");
	unsigned int rows = 0;
	char line[512], want[512];

	CHECK(f != NULL);
	while (fgets(line, sizeof(line), f) != NULL) {
		unsigned int i = rows / ORDER_NOPS, k = rows % ORDER_NOPS;
		const struct order_row *r;

		if (line[0] != '|' || line[1] != ' ' || strncmp(line, "| first |", 9) == 0)
			continue;
		CHECK_MSG(i < ORDER_NOPS, "a row too many: %s", line);
		r = &order_rows[i][k];
		snprintf(want, sizeof(want), "| %s | %s | %s | %s | %s | %s |\n", order_ops[i],
		         order_ops[k], order_remotes[r->remote], order_locals[r->local],
		         order_orders[r->order], r->source);
		CHECK_MSG(strcmp(line, want) == 0, "docs/ordering.md has %snot %s", line, want);
		rows++;
	}
	fclose(f);
	CHECK_EQ(rows, ORDER_NOPS * ORDER_NOPS);
}

#define NPAIRS (NKINDS * NKINDS * 2)

int
main(int argc, char **argv)
{
	static struct weft_test_case cases[NPAIRS + 1];
	static char text[NPAIRS][64];

	for (unsigned int i = 0; i < NPAIRS; i++) {
		snprintf(text[i], sizeof(text[i]), "%s then %s%s", names[i / 2 / NKINDS],
		         names[i / 2 % NKINDS], i % 2 ? ", fenced" : "");
		cases[i] = (struct weft_test_case){text[i], run_case};
	}
	cases[NPAIRS] = (struct weft_test_case){"docs/ordering.md", test_doc};
	return test_main(argc, argv, cases, NPAIRS + 1);
}
