/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Whole transactions and sudden ends, over links that lose, reorder, duplicate and corrupt packets,
 * for many seeds. WEFT_TEST_SEED=N replays seed N.
 */

#include "vt.h"

#define BLOCK_MAX 20000
#define NBLOCKS   8
#define REGION    (4096 + NBLOCKS * BLOCK_MAX)
#define RIGHTS                                                                                     \
	(WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |            \
	 WEFT_ACCESS_REMOTE_ATOMIC | WEFT_ACCESS_FLUSH_VISIBLE | WEFT_ACCESS_VERIFY)

/** Run fn for each seed, or only for WEFT_TEST_SEED. */
static void
each_seed(uint64_t from, unsigned int n, void (*fn)(uint64_t seed))
{
	if (test_seed_given()) {
		fn(test_seed(0));
		return;
	}
	for (uint64_t s = from; s < from + n; s++)
		fn(s);
}

#define SEED_CHECK(cond) CHECK_MSG(cond, "seed %" PRIu64, seed)

static struct sim_link_cfg
hostile(uint64_t seed)
{
	/* Each kind of damage alone and all together, by turns. */
	return (struct sim_link_cfg){
	        .delay_ns = 10000 + (seed * 7919) % 500000,
	        .jitter_ns = seed % 3 == 0 ? 20000 : 0,
	        .loss_ppm = seed % 2 == 0 ? 20000 : 0,
	        .burst_loss_ppm = seed % 7 == 0 ? 2000 : 0,
	        .burst_len = 5,
	        .dup_ppm = seed % 3 != 1 ? 10000 : 0,
	        .reorder_ppm = seed % 5 < 3 ? 20000 : 0,
	        .reorder_ns = 300000,
	        .corrupt_ppm = seed % 4 == 1 ? 10000 : 0,
	};
}

/** Connect both nodes. With half of the seeds they place Writes behind gaps. */
static void
connect_as_seed(struct vt *t, uint64_t seed)
{
	static const struct weft_mpa_policy ahead = {.size = sizeof(ahead), .place_ahead = true};
	const struct weft_mpa_policy *mpa = seed / 2 % 2 == 0 ? &ahead : NULL;
	const struct weft_conn_attr ca[2] = {{.size = sizeof(ca[0]), .mpa = mpa},
	                                     {.size = sizeof(ca[1]), .mpa = mpa}};
	const struct weft_qp_attr qa[2] = {vt_qp_attr(&t->n[0]), vt_qp_attr(&t->n[1])};

	vt_connect_as(t, qa, ca);
}

/** For each block WRITE, FLUSH and VERIFY, posted together. Then the commit word and its FLUSH. */
static void
commit(uint64_t seed)
{
	struct vt_attr a = {.seed = seed, .link = hostile(seed)};
	struct weft_wr wr[3 * NBLOCKS + 2] = {{0}};
	struct weft_sge sg[NBLOCKS];
	uint8_t crc[NBLOCKS][4], word[8];
	unsigned int n = 0;
	uint64_t off = 0, to = 0x200000000ULL;
	uint32_t stag;
	struct vt t;

	vt_open(&t, &a);
	vt_mem(&t.n[0], REGION, WEFT_ACCESS_LOCAL_WRITE);
	vt_mem(&t.n[1], REGION, RIGHTS);
	connect_as_seed(&t, seed);
	vt_fill(t.n[0].mem, REGION, seed);
	vt_fill(word, 8, seed + 1);
	stag = weft_mr_stag(t.n[1].mr);
	for (unsigned int b = 0; b < NBLOCKS; b++) {
		uint32_t len = 1 + (uint32_t)(sim_random(t.sim) % BLOCK_MAX);
		uint8_t *src = t.n[0].mem + 4096 + off;

		sg[b] = (struct weft_sge){.addr = src, .len_bytes = len};
		vt_crc32c(src, len, crc[b]);
		wr[n] = (struct weft_wr){.opcode = WEFT_WR_WRITE,
		                         .sg_list = &sg[b],
		                         .num_sge = 1,
		                         .rdma = {stag, to + 4096 + off}};
		wr[n + 1] =
		        (struct weft_wr){.opcode = WEFT_WR_FLUSH,
		                         .flush = {stag, to + 4096 + off, len, WEFT_FLUSH_VISIBLE}};
		wr[n + 2] = (struct weft_wr){.opcode = WEFT_WR_VERIFY,
		                             .verify = {.stag = stag,
		                                        .to = to + 4096 + off,
		                                        .len_bytes = len,
		                                        .expect = crc[b],
		                                        .expect_bytes = 4}};
		n += 3;
		off += len;
	}
	wr[n] = (struct weft_wr){.opcode = WEFT_WR_ATOMIC_WRITE,
	                         .atomic_write = {.stag = stag, .to = to}};
	memcpy(wr[n++].atomic_write.data, word, 8);
	wr[n++] = (struct weft_wr){.opcode = WEFT_WR_FLUSH,
	                           .flush = {stag, to, 8, WEFT_FLUSH_VISIBLE}};
	for (unsigned int i = 0; i < n; i++) {
		wr[i].wr_id = i;
		wr[i].flags = WEFT_WR_SIGNALED;
	}
	SEED_CHECK(weft_post_send(t.n[0].qp, wr, n) == (int)n);
	for (unsigned int i = 0; i < n; i++) {
		struct weft_wc wc = vt_wc(&t.n[0]);

		CHECK_MSG(wc.status == WEFT_WC_SUCCESS, "seed %" PRIu64 ": wr %u: %s", seed, i,
		          weft_wc_status_str(wc.status));
		SEED_CHECK(wc.wr_id == i);
	}
	SEED_CHECK(memcmp(t.n[1].mem + 4096, t.n[0].mem + 4096, off) == 0);
	SEED_CHECK(memcmp(t.n[1].mem, word, 8) == 0);
	SEED_CHECK(weft_disconnect(t.n[seed % 2].qp) == 0);
	vt_ev(&t.n[0], WEFT_EV_DISCONNECTED);
	vt_ev(&t.n[1], WEFT_EV_DISCONNECTED);
	vt_close(&t);
}

static void
test_commit(void)
{
	each_seed(1000, 1000, commit);
}

/* ---- Sudden ends ---- */

#define NWR 64

struct side {
	struct vt_node *n;
	unsigned int posted, recvs, next_wc;
	uint8_t recv_seen[NWR];
	unsigned int recv_next;
	unsigned int terminated, disconnected, others;
	uint8_t buf[NWR][256];
	bool destroyed;
};

static void
side_collect(struct side *s, uint64_t seed)
{
	struct weft_wc wc[8];
	struct weft_event ev;
	int n;

	while ((n = weft_cq_poll(s->n->cq, wc, 8)) != 0) {
		SEED_CHECK(n > 0);
		for (int i = 0; i < n; i++) {
			if (wc[i].opcode >= WEFT_WC_RECV) {
				SEED_CHECK(wc[i].wr_id == s->recv_next);
				s->recv_next++;
			} else {
				/* exactly once, in the order of the posts */
				SEED_CHECK(wc[i].wr_id == s->next_wc);
				s->next_wc++;
			}
		}
	}
	while (weft_evq_poll(s->n->evq, &ev) == 1) {
		s->disconnected += ev.type == WEFT_EV_DISCONNECTED;
		s->terminated += ev.type == WEFT_EV_TERMINATED;
		s->others += ev.type != WEFT_EV_DISCONNECTED && ev.type != WEFT_EV_TERMINATED;
	}
}

static void
side_post(struct side *s, struct vt *t)
{
	struct vt_node *peer = &t->n[!s->n->id];
	uint32_t stag = weft_mr_stag(peer->mr);
	uint64_t to = 0x100000000ULL * (peer->id + 1);
	uint64_t r = sim_random(t->sim);
	uint32_t len = (uint32_t)(r >> 32) % 5000;
	struct weft_sge sg = {s->n->mem, len, weft_mr_stag(s->n->mr)};
	struct weft_wr wr = {
	        .wr_id = s->posted, .flags = WEFT_WR_SIGNALED, .sg_list = &sg, .num_sge = 1};

	switch (r % 9) {
	case 6:
		wr.opcode = WEFT_WR_MASKED_FETCH_ADD;
		sg = (struct weft_sge){s->n->mem + 8, 8, r & 1024 ? weft_mr_stag(s->n->mr) : 0};
		wr.atomic.stag = stag;
		wr.atomic.to = to + 16384 + 8 * (r % 100);
		wr.atomic.data = r;
		wr.atomic.mask = r >> 8;
		break;
	case 7:
		wr.opcode = WEFT_WR_IMM;
		wr.num_sge = 0;
		break;
	case 8:
		wr.opcode = WEFT_WR_WRITE_IMM;
		wr.write_imm.stag = stag;
		wr.write_imm.to = to;
		break;
	case 0:
		wr.opcode = WEFT_WR_SEND;
		sg.len_bytes = len % 256;
		break;
	case 1:
		wr.opcode = WEFT_WR_WRITE;
		wr.rdma.stag = stag;
		wr.rdma.to = to;
		break;
	case 2:
		wr.opcode = WEFT_WR_READ;
		sg.addr = s->n->mem + 8192;
		wr.rdma.stag = stag;
		wr.rdma.to = to;
		break;
	case 3:
		wr.opcode = WEFT_WR_FLUSH;
		wr.flush.stag = stag;
		wr.flush.to = to;
		wr.flush.len_bytes = len;
		wr.flush.flags = WEFT_FLUSH_VISIBLE;
		break;
	case 4:
		wr.opcode = WEFT_WR_VERIFY;
		wr.verify.stag = stag;
		wr.verify.to = to;
		wr.verify.len_bytes = len;
		break;
	default:
		wr.opcode = WEFT_WR_ATOMIC_WRITE;
		wr.atomic_write.stag = stag;
		wr.atomic_write.to = to + 16384 + 8 * (r % 100);
		break;
	}
	if (weft_post_send(s->n->qp, &wr, 1) == 1)
		s->posted++;
}

static void
sudden(uint64_t seed)
{
	struct vt_attr a = {.seed = seed, .link = hostile(seed)};
	struct sim_link_cfg dead = {.loss_ppm = 1000000, .delay_ns = 1000};
	struct side s[2] = {{0}};
	unsigned int what;
	struct vt t;

	vt_open(&t, &a);
	for (unsigned int i = 0; i < 2; i++)
		vt_mem(&t.n[i], 32768, RIGHTS);
	connect_as_seed(&t, seed);
	what = (unsigned int)(sim_random(t.sim) % 5);
	for (unsigned int i = 0; i < 2; i++) {
		s[i].n = &t.n[i];
		for (; s[i].recvs < NWR; s[i].recvs++)
			vt_post_recv(&t.n[i], s[i].buf[s[i].recvs], 256, s[i].recvs);
	}
	for (unsigned int i = 0; i < NWR; i++) {
		side_post(&s[sim_random(t.sim) % 2], &t);
		if (sim_random(t.sim) % 4 == 0)
			vt_run(&t, sim_random(t.sim) % 300000);
	}
	vt_run(&t, sim_random(t.sim) % 3000000);
	switch (what) {
	case 0:
		weft_disconnect(t.n[seed % 2].qp);
		break;
	case 1: /* both nodes */
		weft_disconnect(t.n[0].qp);
		weft_disconnect(t.n[1].qp);
		break;
	case 2:
		weft_qp_destroy(t.n[seed % 2].qp);
		t.n[seed % 2].qp = NULL;
		s[seed % 2].destroyed = true;
		break;
	case 3:
		sim_link_set(t.link, 0, &dead);
		sim_link_set(t.link, 1, &dead);
		break;
	default: { /* a Write without the right for it */
		struct weft_sge sg = {.addr = t.n[0].mem, .len_bytes = 8};
		struct weft_wr wr = {.wr_id = s[0].posted,
		                     .opcode = WEFT_WR_WRITE,
		                     .flags = WEFT_WR_SIGNALED,
		                     .sg_list = &sg,
		                     .num_sge = 1,
		                     .rdma = {0xdeadbeef, 0}};
		if (weft_post_send(t.n[0].qp, &wr, 1) == 1)
			s[0].posted++;
		break;
	}
	}
	for (unsigned int i = 0; i < 5; i++) { /* posting goes on during the end */
		side_post(t.n[0].qp != NULL ? &s[0] : &s[1], &t);
		vt_run(&t, sim_random(t.sim) % 1000000);
	}
	/* a node that neither sends nor probes does not notice a dead link, so it disconnects */
	vt_run(&t, 10 * VT_S);
	for (unsigned int i = 0; i < 2; i++)
		if (t.n[i].qp != NULL)
			weft_disconnect(t.n[i].qp);
	vt_run(&t, 900 * VT_S);
	for (unsigned int i = 0; i < 2; i++) {
		side_collect(&s[i], seed);
		CHECK_MSG(s[i].next_wc == s[i].posted,
		          "seed %" PRIu64 ", end %u, what %u: %u of %u", seed, i, what,
		          s[i].next_wc, s[i].posted);
		CHECK_MSG(s[i].recv_next == s[i].recvs,
		          "seed %" PRIu64 ", end %u, what %u: %u of %u receives", seed, i, what,
		          s[i].recv_next, s[i].recvs);
		CHECK_MSG(s[i].disconnected == (s[i].destroyed ? 0 : 1),
		          "seed %" PRIu64 ", end %u: %u", seed, i, s[i].disconnected);
		SEED_CHECK(s[i].others == 0 && s[i].terminated <= 1);
	}
	vt_close(&t);
}

static void
test_sudden(void)
{
	each_seed(5000, 1000, sudden);
}

WEFT_TEST_MAIN({"commits under hostile links", test_commit}, {"sudden ends", test_sudden})
