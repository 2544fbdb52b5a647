/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Every operation in both directions, with its data checked, for each combination of markers, CRC,
 * revision, ready-to-receive form and MTU, over links that lose, reorder, duplicate and corrupt
 * packets. Memory around the granted region must not change. WEFT_TEST_SEED=N replays run N.
 */

#include "vt.h"

/* A node's memory. The part that the peer may access lies between guards. The part that only the
 * node uses comes behind. */
#define GUARD     4096
#define WROTE     GUARD           /* the peer writes here */
#define WROTE2    (WROTE + AREA)  /* the peer writes here with Immediate Data */
#define READ      (WROTE2 + AREA) /* the peer reads here */
#define WORDS     (READ + AREA)   /* the peer changes these words */
#define GRANT_END (WORDS + GUARD)
#define SRC       (GRANT_END + GUARD)
#define SINK      (SRC + AREA)
#define PRIOR     (SINK + AREA) /* results of Atomics */
#define RECVS     (PRIOR + GUARD)
#define AREA      28672u
#define REGION    (RECVS + NSENDS * AREA)

#define NSENDS 5
#define NRECVS (NSENDS + 3)

static const unsigned int mtus[] = {1500, 9000, 1301, 4099, 65535};

/** One combination. */
struct combo {
	uint64_t n; /**< number and seed of the run */
	bool markers[2], no_crc[2];
	uint8_t rev;
	uint32_t rtr; /**< 0: no peer-to-peer model */
	uint16_t mtu_bytes;
};

#define NMODES  5 /* revision 1; revision 2; revision 2 peer-to-peer with each RTR */
#define NCOMBOS (4 * 4 * NMODES * RTE_DIM(mtus))
#define ROUNDS  6 /* each over another link */

static struct combo
combo(uint64_t n)
{
	static const uint32_t rtr[NMODES] = {0, 0, WEFT_RTR_FPDU, WEFT_RTR_WRITE, WEFT_RTR_READ};
	unsigned int mode = (unsigned int)(n / 16 % NMODES);

	return (struct combo){
	        .n = n,
	        .markers = {(n & 1) != 0, (n & 2) != 0},
	        .no_crc = {(n & 4) != 0, (n & 8) != 0},
	        .rev = mode == 0 ? 1 : 2,
	        .rtr = rtr[mode],
	        .mtu_bytes = (uint16_t)mtus[n / (16 * NMODES) % RTE_DIM(mtus)],
	};
}

static struct sim_link_cfg
hostile(uint64_t n)
{
	n = (n + 1) * 0x9e3779b97f4a7c15ULL >>
	    40; /* mixes the bits, so that each kind of loss meets each kind of start-up */
	return (struct sim_link_cfg){
	        .delay_ns = 10000 + (n * 7919) % 300000,
	        .loss_ppm = n % 2 == 0 ? 20000 : 0,
	        .dup_ppm = n % 3 != 1 ? 10000 : 0,
	        .reorder_ppm = n % 5 < 3 ? 20000 : 0,
	        .reorder_ns = 300000,
	        .corrupt_ppm = n % 3 == 1 ? 10000 : 0,
	};
}

/** The requests of one direction, from node `from` to the other. */
struct work {
	struct vt *t;
	const struct combo *c;
	struct vt_node *from, *to;
	struct weft_mr *grant, *inv[2]; /**< of the target */
	uint32_t inv_stag[2];
	uint32_t len[NSENDS], write_bytes, write2_bytes, read_bytes;
	uint64_t word[4]; /**< in the target's memory, before the run */
	uint8_t aword[8], imm[2][8];
	unsigned int posted, done, received;
};

#define MUST(w, cond) CHECK_MSG(cond, "run %" PRIu64, (w)->c->n)

static uint32_t
draw_len(struct work *w)
{
	static const uint32_t some[] = {1,    2,    3,    4,    127,   508, 512,
	                                1000, 1440, 2920, 8930, 20000, AREA};
	struct sim *s = w->t->sim;

	return sim_random(s) % 2 == 0 ? some[sim_random(s) % RTE_DIM(some)]
	                              : 1 + (uint32_t)(sim_random(s) % AREA);
}

static struct weft_mr *
grant(struct vt_node *n, uint64_t off, uint64_t len, uint32_t access)
{
	struct weft_mr_attr a = {
	        .size = sizeof(a),
	        .addr = n->mem + off,
	        .len_bytes = len,
	        .base_to = off,
	        .access = access,
	        .persist = n->persist,
	        .hash = (access & WEFT_ACCESS_VERIFY) != 0 ? "crc32c" : NULL,
	};
	struct weft_mr *mr;

	CHECK_EQ(weft_mr_reg(n->pd, &a, &mr), 0);
	return mr;
}

static void
work_open(struct work *w, struct vt *t, const struct combo *c, unsigned int from)
{
	memset(w, 0, sizeof(*w));
	w->t = t;
	w->c = c;
	w->from = &t->n[from];
	w->to = &t->n[1 - from];
	w->grant = grant(w->to, GUARD, GRANT_END - GUARD,
	                 WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |
	                         WEFT_ACCESS_REMOTE_ATOMIC | WEFT_ACCESS_FLUSH_VISIBLE |
	                         WEFT_ACCESS_VERIFY);
	for (unsigned int i = 0; i < 2; i++) {
		w->inv[i] = grant(w->to, WROTE, 8, WEFT_ACCESS_REMOTE_READ);
		w->inv_stag[i] = weft_mr_stag(w->inv[i]);
	}
	for (unsigned int i = 0; i < NSENDS; i++)
		w->len[i] = i == NSENDS - 1 ? 0 : draw_len(w);
	w->write_bytes = RTE_MAX(draw_len(w), 3u);
	w->write2_bytes = draw_len(w);
	w->read_bytes = draw_len(w);
	for (unsigned int i = 0; i < RTE_DIM(w->word); i++)
		memcpy(&w->word[i], w->to->mem + WORDS + 8 * i, 8);
	vt_fill(w->aword, 8, c->n + from + 77);
	vt_fill(w->imm[0], 16, c->n + from + 99);
	for (unsigned int i = 0; i < NRECVS; i++) {
		/* Immediate Data uses a receive but not its memory. */
		bool send = i < NSENDS;

		vt_post_recv(w->to, send ? w->to->mem + RECVS + i * AREA : NULL, send ? AREA : 0,
		             i);
	}
}

/** Check a completion of `from`: they arrive in order. */
static void
take(struct work *w, const struct weft_wc *wc)
{
	static const enum weft_wc_opcode sent[] = {
	        WEFT_WC_SEND,      WEFT_WC_SEND,         WEFT_WC_SEND,     WEFT_WC_SEND,
	        WEFT_WC_SEND,      WEFT_WC_WRITE,        WEFT_WC_WRITE,    WEFT_WC_FLUSH,
	        WEFT_WC_VERIFY,    WEFT_WC_ATOMIC_WRITE, WEFT_WC_READ,     WEFT_WC_READ,
	        WEFT_WC_FETCH_ADD, WEFT_WC_FETCH_ADD,    WEFT_WC_CMP_SWAP, WEFT_WC_CMP_SWAP,
	        WEFT_WC_IMM,       WEFT_WC_IMM,          WEFT_WC_WRITE,    WEFT_WC_FLUSH};

	CHECK_MSG(wc->status == WEFT_WC_SUCCESS, "run %" PRIu64 ": request %u: %s", w->c->n,
	          w->done, weft_wc_status_str(wc->status));
	CHECK_MSG(wc->wr_id == w->done && wc->opcode == sent[w->done],
	          "run %" PRIu64 ": request %u", w->c->n, w->done);
	w->done++;
}

static void
take_recv(struct work *w, const struct weft_wc *wc)
{
	unsigned int i = w->received++;

	CHECK_MSG(wc->status == WEFT_WC_SUCCESS && wc->wr_id == i,
	          "run %" PRIu64 ": receive %u: %s", w->c->n, i, weft_wc_status_str(wc->status));
	if (i < NSENDS) {
		MUST(w, wc->opcode == WEFT_WC_RECV && wc->len_bytes == w->len[i]);
		MUST(w, ((wc->flags & WEFT_WC_SOLICITED) != 0) == (i == 1 || i == 3));
		MUST(w, ((wc->flags & WEFT_WC_INV) != 0) == (i == 2 || i == 3));
		MUST(w, (i != 2 && i != 3) || wc->inv_stag == w->inv_stag[i - 2]);
		MUST(w, memcmp(w->to->mem + RECVS + i * AREA, w->from->mem + SRC, w->len[i]) == 0);
		return;
	}
	MUST(w, wc->opcode == WEFT_WC_RECV_IMM);
	MUST(w, ((wc->flags & WEFT_WC_SOLICITED) != 0) == (i == NSENDS + 1));
	MUST(w, memcmp(wc->imm, w->imm[i == NSENDS + 2], 8) == 0);
	/* RFC 7306 s6: when Immediate Data is delivered, the Write before it is placed. */
	MUST(w, i != NSENDS + 2 ||
	                memcmp(w->to->mem + WROTE2, w->from->mem + SRC, w->write2_bytes) == 0);
}

static void
work_post(struct work *w)
{
	uint32_t stag = weft_mr_stag(w->grant), key = weft_mr_stag(w->from->mr);
	uint8_t *src = w->from->mem + SRC, *sink = w->from->mem + SINK, crc[4];
	struct weft_sge send[NSENDS][2], write[3], write2, read, none, prior[4];
	struct weft_wr wr[20] = {{0}};
	unsigned int n = 0;

	for (unsigned int i = 0; i < NSENDS; i++, n++) {
		uint32_t half = w->len[i] / 2;

		send[i][0] = (struct weft_sge){.addr = src, .len_bytes = half};
		send[i][1] = (struct weft_sge){.addr = src + half, .len_bytes = w->len[i] - half};
		wr[n] = (struct weft_wr){
		        .opcode = i == 2 || i == 3 ? WEFT_WR_SEND_INV : WEFT_WR_SEND,
		        .flags = i == 1 || i == 3 ? WEFT_WR_SOLICITED : 0,
		        .sg_list = send[i],
		        .num_sge = w->len[i] == 0 ? 0 : 2,
		};
		if (i == 2 || i == 3)
			wr[n].send.inv_stag = w->inv_stag[i - 2];
	}
	write[0] = (struct weft_sge){.addr = src, .len_bytes = 1};
	write[1] = (struct weft_sge){.addr = src + 1, .len_bytes = w->write_bytes - 2};
	write[2] = (struct weft_sge){.addr = src + w->write_bytes - 1, .len_bytes = 1};
	wr[n++] = (struct weft_wr){
	        .opcode = WEFT_WR_WRITE, .sg_list = write, .num_sge = 3, .rdma = {stag, WROTE}};
	/* RFC 5041 s5.2: the STag of a message of zero length is not checked. */
	wr[n++] = (struct weft_wr){.opcode = WEFT_WR_WRITE, .rdma = {0xdeadbeef, 0}};
	wr[n++] = (struct weft_wr){.opcode = WEFT_WR_FLUSH,
	                           .flush = {stag, WROTE, w->write_bytes, WEFT_FLUSH_VISIBLE}};
	vt_crc32c(src, w->write_bytes, crc);
	wr[n++] = (struct weft_wr){.opcode = WEFT_WR_VERIFY,
	                           .verify = {.stag = stag,
	                                      .to = WROTE,
	                                      .len_bytes = w->write_bytes,
	                                      .expect = crc,
	                                      .expect_bytes = 4}};
	wr[n] = (struct weft_wr){.opcode = WEFT_WR_ATOMIC_WRITE,
	                         .atomic_write = {.stag = stag, .to = WORDS + 32}};
	memcpy(wr[n++].atomic_write.data, w->aword, 8);
	read = (struct weft_sge){.addr = sink, .len_bytes = w->read_bytes, .lkey = key};
	wr[n++] = (struct weft_wr){
	        .opcode = WEFT_WR_READ, .sg_list = &read, .num_sge = 1, .rdma = {stag, READ}};
	none = (struct weft_sge){.addr = sink, .lkey = key};
	wr[n++] = (struct weft_wr){
	        .opcode = WEFT_WR_READ, .sg_list = &none, .num_sge = 1, .rdma = {stag, READ}};
	for (unsigned int i = 0; i < 4; i++) {
		prior[i] = (struct weft_sge){
		        .addr = w->from->mem + PRIOR + 8 * i, .len_bytes = 8, .lkey = key};
		wr[n] = (struct weft_wr){.sg_list = &prior[i], .num_sge = 1};
		wr[n++].atomic.to = WORDS + 8 * i;
	}
	wr[n - 4].opcode = WEFT_WR_FETCH_ADD;
	wr[n - 4].atomic.data = 0x0123456789abcdefULL;
	wr[n - 3].opcode = WEFT_WR_MASKED_FETCH_ADD;
	wr[n - 3].atomic.data = 0xffffffff00000001ULL;
	wr[n - 3].atomic.mask = 0x8000000080000000ULL; /* two sums of 32 bits */
	wr[n - 2].opcode = WEFT_WR_CMP_SWAP;
	wr[n - 2].atomic.compare = w->word[2];
	wr[n - 2].atomic.data = ~w->word[2];
	wr[n - 1].opcode = WEFT_WR_MASKED_CMP_SWAP;
	wr[n - 1].atomic.compare = w->word[3];
	wr[n - 1].atomic.compare_mask = 0xff;
	wr[n - 1].atomic.data = ~w->word[3];
	wr[n - 1].atomic.mask = 0xff00;
	for (unsigned int i = 1; i <= 4; i++)
		wr[n - i].atomic.stag = stag;
	for (unsigned int i = 0; i < 2; i++) {
		wr[n] = (struct weft_wr){.opcode = WEFT_WR_IMM,
		                         .flags = i == 1 ? WEFT_WR_SOLICITED : 0};
		memcpy(wr[n++].imm.data, w->imm[0], 8);
	}
	write2 = (struct weft_sge){.addr = src, .len_bytes = w->write2_bytes};
	wr[n] = (struct weft_wr){.opcode = WEFT_WR_WRITE_IMM,
	                         .sg_list = &write2,
	                         .num_sge = 1,
	                         .write_imm = {.stag = stag, .to = WROTE2}};
	memcpy(wr[n++].write_imm.data, w->imm[1], 8);
	wr[n++] = (struct weft_wr){
	        .opcode = WEFT_WR_FLUSH,
	        .flush = {.stag = stag, .flags = WEFT_FLUSH_VISIBLE | WEFT_FLUSH_REGION}};
	for (unsigned int i = 0; i < n; i++) {
		wr[i].wr_id = i;
		wr[i].flags |= WEFT_WR_SIGNALED;
	}
	MUST(w, n == RTE_DIM(wr));
	MUST(w, weft_post_send(w->from->qp, wr, n) == (int)n);
	w->posted = n;
}

static uint64_t
word_at(const struct vt_node *n, unsigned int off)
{
	uint64_t v;

	memcpy(&v, n->mem + off, 8);
	return v;
}

/** Check the target's memory. Memory that no request changed is as in `before`. */
static void
work_check(struct work *w, uint8_t *before)
{
	uint64_t add = 0x0123456789abcdefULL, x = w->word[1];
	uint8_t *mem = w->to->mem;

	MUST(w, memcmp(w->from->mem + SINK, mem + READ, w->read_bytes) == 0);
	for (unsigned int i = 0; i < 4; i++)
		MUST(w, word_at(w->from, PRIOR + 8 * i) == w->word[i]);
	w->word[0] += add;
	w->word[1] = (uint64_t)(uint32_t)((uint32_t)(x >> 32) + 0xffffffffu) << 32 |
	             (uint32_t)((uint32_t)x + 1);
	w->word[2] = ~w->word[2];
	w->word[3] ^= 0xff00;
	memcpy(before + WROTE, w->from->mem + SRC, w->write_bytes);
	memcpy(before + WROTE2, w->from->mem + SRC, w->write2_bytes);
	memcpy(before + WORDS, w->word, sizeof(w->word));
	memcpy(before + WORDS + 32, w->aword, 8);
	MUST(w, memcmp(before, mem, SRC) == 0);
}

static bool
poll_both(void *arg)
{
	struct work *w = arg;
	bool all = true;

	for (unsigned int i = 0; i < 2; i++) {
		struct weft_wc wc;

		/* A node's CQ has completions of its own requests and of receives of the other's
		 * messages. */
		while (weft_cq_poll(w[i].from->cq, &wc, 1) == 1) {
			if (wc.opcode == WEFT_WC_RECV || wc.opcode == WEFT_WC_RECV_IMM)
				take_recv(&w[1 - i], &wc);
			else
				take(&w[i], &wc);
		}
		all = all && w[i].done == w[i].posted &&
		      (w[i].posted == 0 || w[i].received == NRECVS);
	}
	return all;
}

static void
check_agreed(struct vt *t, const struct combo *c)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct weft_qp_info q;

		weft_qp_query(t->n[i].qp, &q);
		CHECK_MSG(q.mpa.rev == c->rev && q.mpa.p2p == (c->rtr != 0) &&
		                  q.mpa.rtr == (i == 0 ? c->rtr : 0) &&
		                  q.mpa.crc == !(c->no_crc[0] && c->no_crc[1]) &&
		                  q.mpa.rx_markers == c->markers[i] &&
		                  q.mpa.tx_markers == c->markers[1 - i],
		          "run %" PRIu64 ", node %u", c->n, i);
	}
}

static void
connect_as(struct vt *t, const struct combo *c)
{
	struct weft_mpa_policy pol[2];
	struct weft_qp_attr qa[2] = {vt_qp_attr(&t->n[0]), vt_qp_attr(&t->n[1])};
	struct weft_conn_attr ca[2];

	for (unsigned int i = 0; i < 2; i++) {
		pol[i] = (struct weft_mpa_policy){
		        .size = sizeof(pol[i]), .markers = c->markers[i], .no_crc = c->no_crc[i]};
		ca[i] = (struct weft_conn_attr){.size = sizeof(ca[i]), .mpa = &pol[i]};
	}
	pol[0].rev = c->rev;
	pol[0].p2p = c->rtr != 0;
	pol[0].rtr = c->rtr;
	vt_connect_as(t, qa, ca);
}

static void
run(uint64_t n)
{
	struct combo c = combo(n);
	struct vt_attr a = {.seed = n + 1,
	                    .link = hostile(n),
	                    .mtu_bytes = c.mtu_bytes,
	                    .tcp = {.no_timestamps = true}};
	uint8_t *before[2];
	struct work w[2];
	struct vt t;

	vt_open(&t, &a);
	for (unsigned int i = 0; i < 2; i++) {
		vt_mem(&t.n[i], REGION, WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_FLUSH_VISIBLE);
		vt_fill(t.n[i].mem, REGION, 2 * n + i + 1);
	}
	connect_as(&t, &c);
	check_agreed(&t, &c);
	for (unsigned int i = 0; i < 2; i++) {
		before[i] = malloc(SRC);
		CHECK(before[i] != NULL);
		memcpy(before[i], t.n[i].mem, SRC);
		work_open(&w[i], &t, &c, i);
	}
	/* In the peer-to-peer model the responder may be first (RFC 6581 s9.2). */
	work_post(&w[1]);
	if (c.rtr != 0)
		CHECK_MSG(vt_until(&t, 120 * VT_S, poll_both, w), "run %" PRIu64, n);
	work_post(&w[0]);
	CHECK_MSG(vt_until(&t, 120 * VT_S, poll_both, w),
	          "run %" PRIu64 ": %u and %u of %u, %u and %u received", n, w[0].done, w[1].done,
	          w[0].posted, w[0].received, w[1].received);
	for (unsigned int i = 0; i < 2; i++) {
		work_check(&w[i], before[1 - i]);
		for (unsigned int k = 0; k < 2; k++)
			weft_mr_dereg(w[i].inv[k], NULL, NULL);
		weft_mr_dereg(w[i].grant, NULL, NULL);
	}
	free(before[0]);
	free(before[1]);
	CHECK_EQ(weft_disconnect(t.n[n % 2].qp), 0);
	vt_ev(&t.n[0], WEFT_EV_DISCONNECTED);
	vt_ev(&t.n[1], WEFT_EV_DISCONNECTED);
	vt_close(&t);
}

static void
test_matrix(void)
{
	if (test_seed_given()) {
		run(test_seed(0));
		return;
	}
	for (uint64_t n = 0; n < ROUNDS * NCOMBOS; n++)
		run(n);
	test_note("%u combinations, each over %u links", (unsigned int)NCOMBOS, ROUNDS);
}

WEFT_TEST_MAIN({"matrix", test_matrix})
