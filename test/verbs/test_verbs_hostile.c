/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A peer that sends anything: ULPDUs drawn at random, and valid ULPDUs with changed octets, all
 * with a valid CRC. Memory outside the granted regions does not change: inaccessible pages and
 * octets with known values surround every region. Another stream of the same worker carries checked
 * traffic. Every attacked stream that ends has a counted cause, and no resource is lost.
 */

#include <sys/mman.h>
#include <unistd.h>

#include "weft_mpa.h"
#include "weft_verbs_qp.h"
#include "weft_ddp.h"
#include "test_xorshift.h"
#include "vt.h"
#include "weft_mem_find.h"

#define PAGE   4096u
#define LEN    (3 * PAGE - 2 * SLACK) /* octets of a region */
#define SLACK  104u                   /* octets between a region and its guard pages */
#define CANARY 0xc5
#define TO     0x5000000000ULL
#define RECVS  8u
#define STEPS  24u

#define RIGHTS_RW                                                                                  \
	(WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |            \
	 WEFT_ACCESS_REMOTE_ATOMIC)

enum { RW, RO, LOCAL, GOOD, RECV, NREGIONS };

struct hostile {
	struct vt t;
	struct weft_pd *pd;     /* of node 1, for the attacked stream */
	struct weft_qp *h[2];   /* the QPs of the attacked stream */
	uint8_t *map[NREGIONS]; /* five pages each, the outer two inaccessible */
	uint8_t *mem[NREGIONS];
	struct weft_mr *mr[NREGIONS];
	uint8_t shadow[LEN]; /* expected content of GOOD */
	uint8_t *good;       /* node 0's memory of the good stream: source, then sink */

	uint64_t rng;
	unsigned int calm; /**< one choice of this many is a bad one */

	uint32_t msn[4];
	uint32_t stale_stag;
};

static uint64_t
rnd(struct hostile *x)
{
	return test_xorshift(&x->rng);
}

/* ---- Memory with guards ---- */

static void
region(struct hostile *x, unsigned int i, struct weft_pd *pd, uint32_t access)
{
	struct weft_mr_attr a = {
	        .size = sizeof(a), .len_bytes = LEN, .base_to = TO, .access = access};

	x->map[i] = mmap(NULL, 5 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(x->map[i] != MAP_FAILED);
	CHECK_EQ(mprotect(x->map[i] + PAGE, 3 * PAGE, PROT_READ | PROT_WRITE), 0);
	memset(x->map[i] + PAGE, CANARY, 3 * PAGE);
	x->mem[i] = x->map[i] + PAGE + SLACK;
	a.addr = x->mem[i];
	if (access != 0)
		CHECK_EQ(weft_mr_reg(pd, &a, &x->mr[i]), 0);
}

/* Register a region again if a Send with Invalidate has invalidated it. */
static void
regrant(struct hostile *x, unsigned int i, uint32_t access)
{
	struct weft_mr_attr a = {.size = sizeof(a),
	                         .addr = x->mem[i],
	                         .len_bytes = LEN,
	                         .base_to = TO,
	                         .access = access};

	if (weft_mem_lookup(inside_mem(x->t.n[1].ctx), weft_mr_stag(x->mr[i])) != NULL)
		return;
	x->stale_stag = weft_mr_stag(x->mr[i]);
	weft_mr_dereg(x->mr[i], NULL, NULL);
	CHECK_EQ(weft_mr_reg(x->pd, &a, &x->mr[i]), 0);
}

static void
check_guards(const struct hostile *x)
{
	for (unsigned int i = 0; i < NREGIONS; i++) {
		bool whole = i == RO || i == LOCAL;
		const uint8_t *p = x->map[i] + PAGE;

		for (uint32_t k = 0; k < 3 * PAGE; k++)
			if (whole || k < SLACK || k >= SLACK + LEN)
				CHECK_MSG(p[k] == CANARY, "region %u, octet %d: seed %" PRIu64, i,
				          (int)k - (int)SLACK, x->t.seed);
	}
	CHECK_MSG(memcmp(x->mem[GOOD], x->shadow, LEN) == 0,
	          "the other stream's region: seed %" PRIu64, x->t.seed);
}

/* ---- The good stream ---- */

static void
good_round(struct hostile *x)
{
	uint32_t off = (uint32_t)(rnd(x) % LEN), n = (uint32_t)(rnd(x) % (LEN - off)) + 1;
	uint32_t lkey = weft_mr_stag(x->t.n[0].mr);
	struct weft_sge sg = {.addr = x->good, .len_bytes = n};
	struct weft_wr wr = {.wr_id = 7,
	                     .opcode = WEFT_WR_WRITE,
	                     .flags = WEFT_WR_SIGNALED,
	                     .sg_list = &sg,
	                     .num_sge = 1,
	                     .rdma = {.stag = weft_mr_stag(x->mr[GOOD]), .to = TO + off}};
	struct weft_wc wc;

	vt_fill(x->good, n, rnd(x));
	memcpy(x->shadow + off, x->good, n);
	vt_post(&x->t.n[0], &wr);
	wc = vt_wc(&x->t.n[0]);
	CHECK(wc.status == WEFT_WC_SUCCESS && wc.qp == x->t.n[0].qp);
	sg = (struct weft_sge){x->good + LEN, n, lkey};
	wr.opcode = WEFT_WR_READ;
	vt_post(&x->t.n[0], &wr);
	wc = vt_wc(&x->t.n[0]);
	CHECK_MSG(wc.status == WEFT_WC_SUCCESS && wc.qp == x->t.n[0].qp, "seed %" PRIu64,
	          x->t.seed);
	CHECK_MSG(memcmp(x->good, x->good + LEN, n) == 0, "seed %" PRIu64, x->t.seed);
}

/* ---- The hostile stream ---- */

static void
drain(struct vt_node *n)
{
	struct weft_event ev;
	struct weft_wc wc;

	while (weft_evq_poll(n->evq, &ev) == 1)
		;
	while (weft_cq_poll(n->cq, &wc, 1) == 1)
		;
}

static void
hostile_connect(struct hostile *x)
{
	struct weft_qp_attr qa[2] = {vt_qp_attr(&x->t.n[0]), vt_qp_attr(&x->t.n[1])};
	struct weft_sge sg = {.addr = x->mem[RECV], .len_bytes = LEN};
	struct weft_recv_wr rw = {.sg_list = &sg, .num_sge = 1};
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	struct weft_event ev;

	qa[0].ird = qa[0].ord = qa[1].ird = qa[1].ord = 4;
	CHECK_EQ(weft_qp_create(x->t.n[0].pd, &qa[0], &x->h[0]), 0);
	CHECK_EQ(weft_qp_create(x->pd, &qa[1], &x->h[1]), 0);
	CHECK_EQ(weft_connect(x->h[0], (struct sockaddr *)&sa, sizeof(sa), NULL), 0);
	ev = vt_ev(&x->t.n[1], WEFT_EV_CONNECT_REQUEST);
	CHECK_EQ(weft_accept(ev.connreq, x->h[1], NULL), 0);
	vt_ev(&x->t.n[1], WEFT_EV_ESTABLISHED);
	vt_ev(&x->t.n[0], WEFT_EV_ESTABLISHED);
	for (unsigned int i = 0; i < RECVS; i++)
		CHECK_EQ(weft_post_recv(x->h[1], &rw, 1), 1);
	/* the hostile QP ignores all input and goes on */
	weft_rdmap_ddp(x->h[0]->rdmap)->faulted = true;
	for (unsigned int i = 0; i < 4; i++)
		x->msn[i] = 1;
}

static bool
bad(struct hostile *x)
{
	return rnd(x) % x->calm == 0;
}

/* Post a receive for each that was used. */
static void
repost(struct hostile *x)
{
	struct weft_sge sg = {.addr = x->mem[RECV], .len_bytes = LEN};
	struct weft_recv_wr rw = {.sg_list = &sg, .num_sge = 1};
	struct weft_wc wc;

	while (weft_cq_poll(x->t.n[1].cq, &wc, 1) == 1)
		if (wc.qp == x->h[1] && wc.status == WEFT_WC_SUCCESS)
			CHECK_EQ(weft_post_recv(x->h[1], &rw, 1), 1);
}

static uint32_t
some_stag(struct hostile *x)
{
	switch (bad(x) ? rnd(x) % 5 : 5) {
	case 0:
		return weft_mr_stag(x->mr[RO]);
	case 1:
		return weft_mr_stag(x->mr[LOCAL]);
	case 2:
		return weft_mr_stag(x->mr[GOOD]);
	case 3:
		return x->stale_stag;
	case 4:
		return (uint32_t)rnd(x);
	default:
		return weft_mr_stag(x->mr[RW]);
	}
}

static uint64_t
some_to(struct hostile *x)
{
	switch (bad(x) ? rnd(x) % 4 : 4) {
	case 0:
		return TO + LEN - rnd(x) % 64;
	case 1:
		return TO - rnd(x) % 64;
	case 2:
		return UINT64_MAX - rnd(x) % 64;
	case 3:
		return rnd(x);
	default:

		return TO + rnd(x) % (LEN - 1300);
	}
}

/* Draw a segment that is valid or nearly valid. */
static uint32_t
draw_segment(struct hostile *x, uint8_t *u)
{
	static const uint8_t qns[16] = {0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 1, 3, 1, 3, 1, 3};
	static const uint8_t fixed[16] = {[1] = 28, [0xa] = 52, [0xb] = 12, [0xc] = 20, [0xe] = 16};
	uint8_t op = (uint8_t)(rnd(x) % (bad(x) ? 18 : 7));
	uint32_t n = (uint32_t)(rnd(x) % (rnd(x) % 4 == 0 ? 1200 : 80)), hdr, qn;
	bool tagged, last = rnd(x) % 4 != 0;
	uint8_t *p;

	if ((op == 2 || op == 4 || op == 6) &&
	    !bad(x)) /* no request was posted, and few STags can be invalidated */
		op = (uint8_t)(rnd(x) % 2);
	tagged = op == 0 || op == 2;

	u[0] = (uint8_t)((tagged ? 0x80 : 0) | (last ? 0x40 : 0) | 1);
	u[1] = 0x40 | op;
	hdr = tagged ? 14 : 18;
	p = u + hdr;
	for (uint32_t i = 0; i < n + 64; i++)
		p[i] = (uint8_t)rnd(x);
	if (tagged) {
		weft_put_be32(u + 2, some_stag(x));
		weft_put_be64(u + 6, some_to(x));
		return hdr + n;
	}
	qn = qns[op & 0xf];
	weft_put_be32(u + 2, some_stag(x));
	weft_put_be32(u + 6, qn);
	weft_put_be32(u + 10, x->msn[qn]);
	weft_put_be32(u + 14, 0);
	if (!bad(x))
		u[0] |= 0x40;
	if (qn != 0 && !bad(x)) {
		u[0] |= 0x40;
		n = op == 0x10 ? 24 : fixed[op & 0xf];
	}
	if (op == 1) {
		weft_put_be32(p + 12, (uint32_t)(rnd(x) % (bad(x) ? 2 * LEN : 1300)));
		weft_put_be32(p + 16, some_stag(x));
		weft_put_be64(p + 20, some_to(x));
	} else if (qn == 1) {
		unsigned int at = op == 0xa ? 8 : 0;

		weft_put_be32(p + at, some_stag(x));
		weft_put_be32(p + 4, op == 0x10 ? 8 : (uint32_t)(rnd(x) % LEN));
		weft_put_be64(p + 8 + (op == 0xa ? 4 : 0), some_to(x));
		if (op == 0xc)
			weft_put_be32(p + 16, 2);
	}
	if (u[0] & 0x40)
		x->msn[qn]++;
	return hdr + n;
}

static void
hostile_send(struct hostile *x, unsigned int count)
{
	struct weft_ddp *d = weft_rdmap_ddp(x->h[0]->rdmap);
	uint64_t now_ns = sim_now_ns(x->t.sim);
	uint8_t u[2048];

	for (unsigned int i = 0; i < count; i++) {
		uint32_t n = draw_segment(x, u);
		uint8_t *p;

		switch (bad(x) ? rnd(x) % 3 : 3) {

		case 0: /* arbitrary octets */
			n = (uint32_t)(rnd(x) % 100) + 1;
			for (uint32_t k = 0; k < n; k++)
				u[k] = (uint8_t)rnd(x);
			break;
		case 1: /* one bit of the first octets */
			u[rnd(x) % RTE_MIN(n, 46u)] ^= (uint8_t)(1 << rnd(x) % 8);
			break;
		case 2: /* shortened */
			n = (uint32_t)(rnd(x) % n) + 1;
			break;
		default:
			break;
		}
		if (d->mpa->tcp == NULL)
			return;
		p = weft_mpa_tx_begin(d->mpa, (uint16_t)RTE_MIN(n, d->mpa->mulpdu_bytes), now_ns);
		if (p == NULL)
			return;
		memcpy(p, u, RTE_MIN(n, d->mpa->mulpdu_bytes));
		weft_mpa_tx_end(d->mpa, now_ns);
	}
	if (d->mpa->tcp != NULL)
		weft_mpa_tx_flush(d->mpa, now_ns);
}

/* ---- All together ---- */

static uint64_t
causes(const struct vt_node *n, bool ours)
{
	const struct weft_rdmap_faults *f = &weft_vworker_of(n->w)->op_stats.faults;
	uint64_t sum = ours ? f->terminates_out_other : f->terminates_in_other;

	for (unsigned int i = 0; i < WEFT_TERM_NCODES; i++)
		sum += ours ? f->term[i].out : f->term[i].in;
	return sum;
}

static void
run(uint64_t seed, unsigned int streams, unsigned int *ends, uint64_t *msgs)
{
	struct hostile *x = calloc(1, sizeof(*x));
	struct vt_attr a = {.seed = seed};

	x->rng = seed * 0x9e3779b97f4a7c15ULL + 1;
	vt_open(&x->t, &a);
	vt_mem(&x->t.n[0], 2 * LEN, WEFT_ACCESS_LOCAL_WRITE);
	x->good = x->t.n[0].mem;
	CHECK_EQ(weft_pd_alloc(x->t.n[1].ctx, &x->pd), 0);
	region(x, RW, x->pd, RIGHTS_RW);
	x->stale_stag = weft_mr_stag(x->mr[RW]);
	weft_mr_dereg(x->mr[RW], NULL, NULL);
	vt_run(&x->t, VT_MS);
	munmap(x->map[RW], 5 * PAGE);
	region(x, RW, x->pd, RIGHTS_RW);
	region(x, RO, x->pd, WEFT_ACCESS_REMOTE_READ);
	region(x, LOCAL, x->pd, WEFT_ACCESS_LOCAL_WRITE);
	region(x, GOOD, x->t.n[1].pd, RIGHTS_RW);
	region(x, RECV, NULL, 0);
	memset(x->shadow, CANARY, LEN);
	vt_connect(&x->t, NULL, NULL);
	for (unsigned int s = 0; s < streams; s++) {
		x->calm = 2u << 2 * (s % 4);

		uint64_t out = causes(&x->t.n[1], true), in = causes(&x->t.n[1], false);
		enum weft_qp_state st = WEFT_QP_RTS;
		struct weft_qp_info info;

		hostile_connect(x);
		for (unsigned int k = 0; k < STEPS && st == WEFT_QP_RTS; k++) {
			hostile_send(x, 1 + (unsigned int)(rnd(x) % 4));
			good_round(x);
			repost(x);
			weft_qp_query(x->h[1], &info);
			st = info.state;
		}
		vt_run(&x->t, VT_MS);
		weft_qp_query(x->h[1], &info);
		check_guards(x);
		/* a stream that ended did so by one Terminate, of node 1 or of the hostile QP */
		out = causes(&x->t.n[1], true) - out;
		in = causes(&x->t.n[1], false) - in;
		CHECK_MSG(out + in == (info.state != WEFT_QP_RTS),
		          "%u causes, state %s: seed %" PRIu64, (unsigned int)(out + in),
		          weft_qp_state_str(info.state), seed);
		CHECK_EQ(info.terminated, info.state != WEFT_QP_RTS);
		*ends += info.state != WEFT_QP_RTS;
		*msgs += info.recv_msgs;
		weft_qp_destroy(x->h[0]);
		weft_qp_destroy(x->h[1]);
		vt_run(&x->t, VT_MS);
		drain(&x->t.n[0]);
		drain(&x->t.n[1]);
		regrant(x, RW, RIGHTS_RW);
		regrant(x, RO, WEFT_ACCESS_REMOTE_READ);
	}
	good_round(x);
	check_guards(x);
	for (unsigned int i = 0; i < NREGIONS; i++)
		if (x->mr[i] != NULL)
			weft_mr_dereg(x->mr[i], NULL, NULL);
	vt_run(&x->t, 10 * VT_MS);
	CHECK_EQ(weft_pd_dealloc(x->pd), 0);
	vt_close(&x->t);
	for (unsigned int i = 0; i < NREGIONS; i++)
		munmap(x->map[i], 5 * PAGE);
	free(x);
}

static void
test_hostile(void)
{
	unsigned int rounds = test_seed_given() ? 1 : 150, ends = 0;
	uint64_t msgs = 0;

	for (unsigned int i = 0; i < rounds; i++)
		run(test_seed(9000 + i), 12, &ends, &msgs);
	test_note("%u of %u streams ended, after %" PRIu64 " messages", ends, rounds * 12, msgs);
	CHECK(test_seed_given() || (ends > 1000 && msgs > 10000));
}

WEFT_TEST_MAIN({"hostile", test_hostile})
