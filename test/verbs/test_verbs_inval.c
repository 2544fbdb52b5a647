/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Local and remote invalidation of fast-registered regions: what an invalidation waits for, which
 * requests fail when they are carried out, and what remains if the stream ends at any point.
 */

#include "weft_verbs_qp.h"
#include "vt_fast.h"
#include "weft_mem_find.h"

/**
 * An invalidation completes when the memory is no longer accessed. By then another stream that
 * answers a Read from the region has found the STag invalid. Requests behind the invalidation wait
 * for it.
 */
static void
test_drains(void)
{
	enum { LEN = 4 << 20 };
	struct vt_attr attr = {.link = {.delay_ns = 1000000}};
	uint8_t *src = malloc(LEN), *copy = malloc(LEN), small[8] = {0};
	const struct weft_mem_mr *m;
	struct weft_wr wr, list[2];
	struct weft_qp *first[2];
	struct weft_mr *mr;
	struct weft_sge sg;
	uint32_t stag, got;
	struct vt t;

	CHECK(src != NULL && copy != NULL);
	open_pair(&t, &attr);
	vt_second_stream(&t, first);
	vt_fill(src, LEN, 4);
	memcpy(copy, src, LEN);
	vt_mem(&t.n[0], LEN, WEFT_ACCESS_LOCAL_WRITE);
	CHECK_EQ(weft_mr_alloc(t.n[1].pd, &mr), 0);
	stag = fast_reg(&t.n[1], mr, src, LEN, 0, WEFT_ACCESS_REMOTE_READ);
	m = weft_mem_lookup(inside_mem(t.n[1].ctx), stag);
	sg = (struct weft_sge){
	        .addr = t.n[0].mem, .len_bytes = LEN, .lkey = weft_mr_stag(t.n[0].mr)};
	wr = wr_rdma(WEFT_WR_READ, &sg, stag, 0);
	vt_post(&t.n[0], &wr);
	vt_run(&t, 5 * VT_MS); /* the Read is under way */
	CHECK_EQ(m->refs, 0);
	list[0] = wr_inv(stag);
	list[1] = wr_fast(mr, small, sizeof(small), 0, WEFT_ACCESS_REMOTE_READ);
	CHECK_EQ(weft_post_send(first[1], list, 2), 2);
	vt_run(&t, 1000);
	CHECK(weft_mem_lookup(inside_mem(t.n[1].ctx), stag) == NULL);
	want_wc(&t.n[1], WEFT_WC_LOCAL_INV, WEFT_WC_SUCCESS);
	/* From here on the memory belongs to the owner alone. */
	memset(src, 0xee, LEN);
	want_wc(&t.n[1], WEFT_WC_FAST_REG, WEFT_WC_SUCCESS);
	/* RFC 5040 s8.1.1 item 6: the Read ends midway. */
	want_term(&t.n[1], 0, 1, 0, true);
	want_wc(&t.n[0], WEFT_WC_READ, WEFT_WC_REMOTE_ACCESS);
	for (got = 0; got < LEN && t.n[0].mem[got] == copy[got];)
		got++;
	CHECK(got > 0 && got < LEN);
	for (; got < LEN && t.n[0].mem[got] != 0xee;)
		got++;
	CHECK_MSG(got == LEN, "what was ours by then has been read");
	CHECK(weft_mem_lookup(inside_mem(t.n[1].ctx), weft_mr_stag(mr)) == m);
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	weft_qp_destroy(first[0]);
	weft_qp_destroy(first[1]);
	vt_close(&t);
	free(src);
	free(copy);
}

/**
 * An invalidation does not wait for a peer that accepts no more data. The requests of a stalled
 * stream, a Read under way and an Atomic behind it, hold no reference to the region.
 */
static void
test_stalled(void)
{
	enum { LEN = 4 << 20 };
	struct vt_attr attr = {.link = {.rate_bps = 1000000000, .delay_ns = 20000}};
	struct sim_link_cfg down = {.down = true, .delay_ns = 20000};
	uint8_t *src = aligned_alloc(8, LEN), orig[8];
	uint32_t access = WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_ATOMIC;
	struct weft_qp *first[2];
	struct weft_sge sg, old = {.addr = orig, .len_bytes = sizeof(orig)};
	struct weft_mr *mr;
	struct weft_wr wr;
	uint64_t began;
	struct vt t;

	memset(src, 0x11, LEN);
	open_pair(&t, &attr);
	vt_mem(&t.n[0], LEN, RW);
	vt_second_stream(&t, first);
	CHECK_EQ(weft_mr_alloc(t.n[1].pd, &mr), 0);
	wr = wr_fast(mr, src, LEN, 0, access | WEFT_ACCESS_LOCAL_WRITE);
	CHECK_EQ(weft_post_send(t.n[1].qp, &wr, 1), 1);
	want_wc(&t.n[1], WEFT_WC_FAST_REG, WEFT_WC_SUCCESS);
	sg = (struct weft_sge){t.n[0].mem, LEN, weft_mr_stag(t.n[0].mr)};
	wr = wr_rdma(WEFT_WR_READ, &sg, weft_mr_stag(mr), 0);
	CHECK_EQ(weft_post_send(first[0], &wr, 1), 1);
	wr = (struct weft_wr){.opcode = WEFT_WR_FETCH_ADD,
	                      .flags = WEFT_WR_SIGNALED,
	                      .sg_list = &old,
	                      .num_sge = 1,
	                      .atomic = {.stag = weft_mr_stag(mr), .data = 1}};
	CHECK_EQ(weft_post_send(first[0], &wr, 1), 1);
	vt_run(&t, 1 * VT_MS);
	/* From here on nothing arrives from the peer: the stream's send buffer stays full. */
	sim_link_set(t.link, 0, &down);
	vt_run(&t, 100 * VT_MS);
	began = sim_now_ns(t.sim);
	wr = wr_inv(weft_mr_stag(mr));
	CHECK_EQ(weft_post_send(t.n[1].qp, &wr, 1), 1);
	want_wc(&t.n[1], WEFT_WC_LOCAL_INV, WEFT_WC_SUCCESS);
	CHECK(sim_now_ns(t.sim) - began < 10 * VT_MS);
	memset(src, 0xee, LEN);
	sim_link_set(t.link, 0, &attr.link);
	/* Data sent before the invalidation arrives. Then the Read ends midway. */
	want_term(&t.n[1], 0, 1, 0, true);
	want_wc(&t.n[0], WEFT_WC_READ, WEFT_WC_REMOTE_ACCESS);
	for (size_t i = 0; i < LEN; i++)
		CHECK_MSG(t.n[0].mem[i] != 0xee, "octet %zu was read later", i);
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	weft_qp_destroy(first[0]);
	weft_qp_destroy(first[1]);
	vt_close(&t);
	free(src);
}

/* ---- By the peer ---- */

static void
send_inv(struct vt *t, uint32_t stag)
{
	struct weft_wr wr = {.opcode = WEFT_WR_SEND_INV, .send.inv_stag = stag};

	vt_post(&t->n[0], &wr);
}

/** RFC 5040 s5.3: Send with Invalidate of a fast-registered region, many times. */
static void
test_remote(void)
{
	struct guarded g;
	struct weft_mr *mr;
	struct weft_wc wc;
	uint8_t in[8];
	uint32_t stag;
	struct vt t;

	open_pair(&t, NULL);
	guard(&g, 100);
	CHECK_EQ(weft_mr_alloc(t.n[1].pd, &mr), 0);
	for (unsigned int i = 0; i < 20; i++) {
		stag = fast_reg(&t.n[1], mr, g.mem, g.len, i, RW);
		vt_post_recv(&t.n[1], in, sizeof(in), i);
		send_inv(&t, stag);
		wc = vt_wc(&t.n[1]);
		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
		CHECK_EQ(wc.flags, WEFT_WC_INV);
		CHECK_EQ(wc.inv_stag, stag);
		CHECK(weft_mem_lookup(inside_mem(t.n[1].ctx), stag) == NULL);
	}
	/* An STag that is already invalid is refused. */
	vt_post_recv(&t.n[1], in, sizeof(in), 99);
	send_inv(&t, stag);
	want_wc(&t.n[1], WEFT_WC_RECV, WEFT_WC_FLUSHED);
	want_term(&t.n[1], 0, 1, 9, true);
	want_term(&t.n[0], 0, 1, 9, false);
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	vt_close(&t);
	unguard(&g);
}

/** STags that the peer may not invalidate. */
static void
test_remote_refused(void)
{
	for (unsigned int what = 0; what < 4; what++) {
		static uint8_t mem[64];
		struct weft_pd *other;
		struct weft_mr *mr;
		uint8_t in[8];
		uint32_t stag;
		struct vt t;

		open_pair(&t, NULL);
		CHECK_EQ(weft_pd_alloc(t.n[1].ctx, &other), 0);
		if (what == 0) { /* of another domain: RFC 5042 s6.1.1 */
			struct weft_mr_attr a = {.size = sizeof(a),
			                         .addr = mem,
			                         .len_bytes = sizeof(mem),
			                         .access = RW};

			CHECK_EQ(weft_mr_reg(other, &a, &mr), 0);
			stag = weft_mr_stag(mr);
		} else {
			CHECK_EQ(weft_mr_alloc(t.n[1].pd, &mr), 0);
			stag = weft_mr_next_stag(mr);
			if (what == 1) /* without remote rights */
				fast_reg(&t.n[1], mr, mem, sizeof(mem), 0, WEFT_ACCESS_LOCAL_WRITE);
			else if (what == 2) /* allocated but not registered */
				CHECK(stag != 0);
			else
				stag = 0;
		}
		vt_post_recv(&t.n[1], in, sizeof(in), 0);
		send_inv(&t, stag);
		want_term(&t.n[1], 0, 1, 9, true);
		want_term(&t.n[0], 0, 1, 9, false);
		if (what < 2)
			CHECK(weft_mem_lookup(inside_mem(t.n[1].ctx), stag) != NULL);
		CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
		vt_run(&t, VT_S);
		CHECK_EQ(weft_pd_dealloc(other), 0);
		vt_close(&t);
	}
}

/** Kinds of regions, for RFC 5040 s8.1.1 item 7. */
enum shared { S_PLAIN, S_FAST, S_STREAM, NSHARED };

static struct weft_mr *
shared_region(struct vt *t, enum shared kind, struct weft_qp *qp, uint8_t *mem, uint64_t len)
{
	const struct weft_mr_attr a = {
	        .size = sizeof(a), .addr = mem, .len_bytes = len, .access = RW};
	struct weft_wr wr;
	struct weft_mr *mr;

	if (kind == S_PLAIN) {
		CHECK_EQ(weft_mr_reg(t->n[1].pd, &a, &mr), 0);
		return mr;
	}
	CHECK_EQ(weft_mr_alloc(t->n[1].pd, &mr), 0);
	wr = wr_fast(mr, mem, len, 0, RW);
	wr.fast_reg.stream = kind == S_STREAM;
	CHECK_EQ(weft_post_send(qp, &wr, 1), 1);
	want_wc(&t->n[1], WEFT_WC_FAST_REG, WEFT_WC_SUCCESS);
	return mr;
}

static bool
resolves(struct vt *t, uint32_t stag)
{
	return weft_mem_lookup(inside_mem(t->n[1].ctx), stag) != NULL;
}

/** Write one octet on the stream of this QP of node 0, and wait until it arrives. */
static void
write_on(struct vt *t, struct weft_qp *qp, uint32_t stag, uint8_t *at, uint8_t octet)
{
	struct weft_sge sg = {.addr = &octet, .len_bytes = 1};
	struct weft_wr wr = wr_rdma(WEFT_WR_WRITE, &sg, stag, 0);

	CHECK_EQ(weft_post_send(qp, &wr, 1), 1);
	want_wc(&t->n[0], WEFT_WC_WRITE, WEFT_WC_SUCCESS);
	vt_run(t, VT_S);
	CHECK_EQ(*at, octet);
}

/** RFC 5040 s8.1.1 item 7: the peer of one stream may not invalidate a region that several streams
 * share. */
static void
test_shared(void)
{
	static uint8_t mem[64];

	for (unsigned int kind = 0; kind < NSHARED; kind++) {
		for (unsigned int who = 0; who < 2;
		     who++) { /* the stream of its registration, then the other */
			const bool may = kind == S_STREAM && who == 0;
			struct weft_qp *first[2];
			struct weft_mr *mr;
			uint8_t in[8];
			uint32_t stag;
			struct vt t;

			open_pair(&t, NULL);
			vt_second_stream(&t, first);
			/* vt_ev() and send_inv() act on the second stream. */
			mr = shared_region(&t, kind, who == 0 ? t.n[1].qp : first[1], mem,
			                   sizeof(mem));
			stag = weft_mr_stag(mr);
			vt_post_recv(&t.n[1], in, sizeof(in), 0);
			send_inv(&t, stag);
			if (may) {
				want_wc(&t.n[1], WEFT_WC_RECV, WEFT_WC_SUCCESS);
				CHECK(!resolves(&t, stag));
			} else {
				want_wc(&t.n[1], WEFT_WC_RECV, WEFT_WC_FLUSHED);
				want_term(&t.n[1], 0, 1, 9, true);
				want_term(&t.n[0], 0, 1, 9, false);
				CHECK(resolves(&t, stag));
				/* The other stream still uses the region. */
				if (kind != S_STREAM || who == 1)
					write_on(&t, first[0], stag, mem, (uint8_t)(kind + 1));
			}
			CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
			weft_qp_destroy(first[0]);
			weft_qp_destroy(first[1]);
			vt_close(&t);
		}
	}
}

/** When the other stream has ended, the region is no longer shared. */
static void
test_shared_no_more(void)
{
	static uint8_t mem[64];

	for (unsigned int kind = 0; kind < NSHARED; kind++) {
		struct weft_qp *first[2];
		struct weft_mr *mr;
		uint8_t in[8];
		struct vt t;

		open_pair(&t, NULL);
		vt_second_stream(&t, first);
		mr = shared_region(&t, kind, t.n[1].qp, mem, sizeof(mem));
		weft_qp_destroy(first[0]);
		weft_qp_destroy(first[1]);
		vt_run(&t, VT_S);
		vt_post_recv(&t.n[1], in, sizeof(in), 0);
		send_inv(&t, weft_mr_stag(mr));
		want_wc(&t.n[1], WEFT_WC_RECV, WEFT_WC_SUCCESS);
		CHECK(!resolves(&t, weft_mr_stag(mr)));
		CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
		vt_close(&t);
	}
}

/**
 * A region of one stream belongs to that stream alone. No other stream can read or write it, nor
 * can a later stream whose scope is allocated at the same address. Any QP of the domain may
 * invalidate it.
 */
static void
test_of_one_stream(void)
{
	static const struct {
		enum weft_wr_opcode op;
		uint8_t layer, code;
	} rows[] = {{WEFT_WR_WRITE, 1, 2}, {WEFT_WR_READ, 0, 3}};

	for (unsigned int later = 0; later < 2; later++) {
		for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
			static uint8_t mem[64];
			struct weft_qp *first[2];
			const struct weft_mem_mr *m;
			struct weft_mr *mr;
			struct weft_sge sg;
			struct weft_wr wr;
			uint32_t stag;
			struct vt t;

			memset(mem, 0xca, sizeof(mem));
			open_pair(&t, NULL);
			vt_mem(&t.n[0], 64, WEFT_ACCESS_LOCAL_WRITE);
			mr = shared_region(&t, S_STREAM, t.n[1].qp, mem, sizeof(mem));
			stag = weft_mr_stag(mr);
			if (later) {
				weft_qp_destroy(t.n[0].qp);
				weft_qp_destroy(t.n[1].qp);
				vt_run(&t, VT_S);
			}
			vt_second_stream(&t, first);
			/* As if the second stream's scope had the address of the first one's. */
			m = weft_mem_lookup(inside_mem(t.n[1].ctx), stag);
			CHECK(m != NULL);
			((struct weft_mem_mr *)(uintptr_t)m)->pd =
			        weft_rdmap_scope(t.n[1].qp->rdmap);
			sg = (struct weft_sge){.addr = t.n[0].mem,
			                       .len_bytes = 1,
			                       .lkey = weft_mr_stag(t.n[0].mr)};
			wr = wr_rdma(rows[i].op, &sg, stag, 0);
			vt_post(&t.n[0], &wr);
			want_term(&t.n[1], rows[i].layer, 1, rows[i].code, true);
			want_term(&t.n[0], rows[i].layer, 1, rows[i].code, false);
			CHECK_EQ(mem[0], 0xca);
			CHECK_EQ(t.n[0].mem[0], 0);
			/* the Write completed when it was sent, the Read was refused */
			(void)vt_wc(&t.n[0]);
			vt_run(&t, 10 * VT_S);
			/* Invalidated through another QP of the domain, and registered for that
			 * QP's stream. */
			weft_qp_destroy(t.n[0].qp);
			weft_qp_destroy(t.n[1].qp);
			vt_run(&t, VT_S);
			if (later) {
				vt_second_stream(&t, first);
			} else {
				t.n[0].qp = first[0];
				t.n[1].qp = first[1];
			}
			wr = wr_inv(stag);
			vt_post(&t.n[1], &wr);
			want_wc(&t.n[1], WEFT_WC_LOCAL_INV, WEFT_WC_SUCCESS);
			CHECK(!resolves(&t, stag));
			wr = wr_fast(mr, mem, sizeof(mem), 0, RW);
			wr.fast_reg.stream = true;
			vt_post(&t.n[1], &wr);
			want_wc(&t.n[1], WEFT_WC_FAST_REG, WEFT_WC_SUCCESS);
			write_on(&t, t.n[0].qp, weft_mr_stag(mr), mem, 0x55);
			CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
			vt_close(&t);
		}
	}
}

/** Errors that are found when the request is carried out: an error completion and a Terminate 0/0
 * (RFC 5040 s7.1 case 1). */
static void
test_turns(void)
{
	for (unsigned int what = 0; what < 5; what++) {
		static uint8_t mem[64];
		struct weft_wr wr, after = {.opcode = WEFT_WR_SEND};
		unsigned int op = WEFT_WC_LOCAL_INV;
		struct weft_pd *other;
		struct weft_mr *mr;
		uint32_t stag;
		struct vt t;

		open_pair(&t, NULL);
		CHECK_EQ(weft_pd_alloc(t.n[0].ctx, &other), 0);
		CHECK_EQ(weft_mr_alloc(what == 3 ? other : t.n[0].pd, &mr), 0);
		stag = weft_mr_next_stag(mr);
		switch (what) {
		case 0: /* registered twice */
			fast_reg(&t.n[0], mr, mem, sizeof(mem), 0, RW);
			wr = wr_fast(mr, mem, sizeof(mem), 0, RW);
			op = WEFT_WC_FAST_REG;
			break;
		case 1: /* not valid */
			wr = wr_inv(stag);
			break;
		case 2: /* invalidated twice */
			stag = fast_reg(&t.n[0], mr, mem, sizeof(mem), 0, RW);
			wr = wr_inv(stag);
			vt_post(&t.n[0], &wr);
			want_wc(&t.n[0], WEFT_WC_LOCAL_INV, WEFT_WC_SUCCESS);
			break;
		case 3: /* of another domain */
			CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
			CHECK_EQ(weft_mr_reg(
			                 other,
			                 &(struct weft_mr_attr){.size = sizeof(struct weft_mr_attr),
			                                        .addr = mem,
			                                        .len_bytes = sizeof(mem),
			                                        .access = RW},
			                 &mr),
			         0);
			wr = wr_inv(weft_mr_stag(mr));
			break;
		default:
			wr = wr_inv(0);
			break;
		}
		wr.flags = 0; /* unsignaled: an error completes all the same */
		vt_post(&t.n[0], &wr);
		after.flags = WEFT_WR_SIGNALED;
		vt_post(&t.n[0], &after);
		want_wc(&t.n[0], op, WEFT_WC_LOCAL_PROT);
		want_wc(&t.n[0], WEFT_WC_SEND, WEFT_WC_FLUSHED);
		want_term(&t.n[0], 0, 0, 0, true);
		want_term(&t.n[1], 0, 0, 0, false);
		CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
		vt_run(&t, VT_S);
		CHECK_EQ(weft_pd_dealloc(other), 0);
		vt_close(&t);
	}
}

/* ---- Both at once ---- */

static void
peer_inv(struct vt_node *n, uint32_t stag)
{
	struct weft_wr wr = {
	        .opcode = WEFT_WR_SEND_INV, .flags = WEFT_WR_SIGNALED, .send = {.inv_stag = stag}};

	vt_post(n, &wr);
}

static void
want_inv(struct vt_node *n, uint32_t stag)
{
	struct weft_wc wc = vt_wc(n);

	CHECK_EQ(wc.opcode, WEFT_WC_RECV);
	CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
	CHECK(wc.flags & WEFT_WC_INV);
	CHECK_EQ(wc.inv_stag, stag);
}

/**
 * The owner's invalidation and the peer's Send with Invalidate cross, in either order. Neither side
 * could know of the other's, and the stream lives. Invalidations that do not cross are still
 * refused.
 */
static void
test_crossing(void)
{
	enum { PEER_FIRST, OWNER_FIRST, AT_ONCE, STALE, PEER_TWICE, AGAIN, NCASES };

	for (unsigned int what = 0; what < NCASES; what++) {
		struct vt_attr attr = {.link = {.delay_ns = 1000000}};
		static uint8_t mem[64], in[8];
		struct weft_mr *mr;
		struct weft_wr wr;
		uint32_t stag;
		struct vt t;

		open_pair(&t, &attr);
		for (unsigned int i = 0; i < 3; i++)
			vt_post_recv(&t.n[0], in, sizeof(in), 0);
		CHECK_EQ(weft_mr_alloc(t.n[0].pd, &mr), 0);
		stag = fast_reg(&t.n[0], mr, mem, sizeof(mem), 0, RW);
		wr = wr_inv(stag);
		if (what == PEER_FIRST || what >= PEER_TWICE) {
			peer_inv(&t.n[1], stag);
			want_inv(&t.n[0], stag);
			want_wc(&t.n[1], WEFT_WC_SEND, WEFT_WC_SUCCESS);
		}
		if (what != PEER_TWICE) {
			if (what == AT_ONCE)
				peer_inv(&t.n[1], stag);
			vt_post(&t.n[0], &wr);
			want_wc(&t.n[0], WEFT_WC_LOCAL_INV, WEFT_WC_SUCCESS);
		}
		if (what == OWNER_FIRST)
			peer_inv(&t.n[1], stag);
		if (what == AT_ONCE || what == OWNER_FIRST) {
			want_inv(&t.n[0], stag);
			want_wc(&t.n[1], WEFT_WC_SEND, WEFT_WC_SUCCESS);
		}
		if (what <= AT_ONCE) {
			/* The region can be registered again, and the peer can invalidate it. */
			uint32_t next = fast_reg(&t.n[0], mr, mem, sizeof(mem), 0, RW);

			CHECK(next != stag);
			peer_inv(&t.n[1], next);
			want_inv(&t.n[0], next);
			want_wc(&t.n[1], WEFT_WC_SEND, WEFT_WC_SUCCESS);
		} else {
			/* The STag of an earlier registration, or one that has crossed before. */
			if (what == STALE)
				fast_reg(&t.n[0], mr, mem, sizeof(mem), 0, RW);
			peer_inv(&t.n[1], stag);
			want_term(&t.n[0], 0, 1, 0x09, true);
		}
		CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
		vt_run(&t, VT_S);
		vt_close(&t);
	}
}

/* ---- Death at each step ---- */

/** Run a sequence with every kind of request. After `steps` polls the stream ends or a QP is
 * destroyed. */
static unsigned int
die_after(unsigned int steps, unsigned int how)
{
	struct weft_mr_info info;
	struct weft_wr list[6];
	struct weft_mr *mr, *sink;
	uint8_t in[64], stag_out[4];
	struct guarded g, g0;
	struct weft_sge sg, sg0;
	unsigned int wcs = 0, n = 0;
	uint32_t stag, stag0;
	struct weft_wc wc;
	struct vt t;

	open_pair(&t, NULL);
	guard(&g, 3000);
	guard(&g0, 3000);
	CHECK_EQ(weft_mr_alloc(t.n[1].pd, &mr), 0);
	CHECK_EQ(weft_mr_alloc(t.n[0].pd, &sink), 0);
	vt_post_recv(&t.n[0], in, sizeof(in), 0);
	stag = weft_mr_next_stag(mr);
	memcpy(stag_out, &stag, 4);
	sg = (struct weft_sge){.addr = stag_out, .len_bytes = 4};
	list[n++] = wr_fast(mr, g.mem, g.len, 0, RW);
	list[n++] = (struct weft_wr){
	        .opcode = WEFT_WR_SEND, .flags = WEFT_WR_SIGNALED, .sg_list = &sg, .num_sge = 1};
	CHECK_EQ(weft_post_send(t.n[1].qp, list, n), (int)n);
	/* The peer gets the STag without a message, which is faster. */
	stag0 = weft_mr_next_stag(sink);
	sg0 = (struct weft_sge){.addr = g0.mem, .len_bytes = 3000, .lkey = stag0};
	list[0] = wr_fast(sink, g0.mem, g0.len, 0, WEFT_ACCESS_LOCAL_WRITE);
	vt_run(&t, 10000);
	list[1] = wr_rdma(WEFT_WR_WRITE, &(struct weft_sge){.addr = g0.mem, .len_bytes = 3000},
	                  stag, 0);
	list[2] = wr_rdma(WEFT_WR_READ, &sg0, stag, 0);
	list[3] = wr_inv(stag0);
	list[3].flags |= WEFT_WR_FENCE;
	list[4] = (struct weft_wr){
	        .opcode = WEFT_WR_SEND_INV, .flags = WEFT_WR_SIGNALED, .send.inv_stag = stag};
	CHECK_EQ(weft_post_send(t.n[0].qp, list, 5), 5);
	vt_post_recv(&t.n[1], in, sizeof(in), 1);
	for (unsigned int i = 0; i < steps; i++)
		vt_run(&t, 5000);
	switch (how) {
	case 0:
		weft_qp_destroy(t.n[0].qp);
		t.n[0].qp = NULL;
		break;
	case 1:
		weft_qp_destroy(t.n[1].qp);
		t.n[1].qp = NULL;
		break;
	default: /* both QPs at once, with the regions */
		weft_qp_destroy(t.n[0].qp);
		weft_qp_destroy(t.n[1].qp);
		t.n[0].qp = t.n[1].qp = NULL;
		break;
	}
	if (how == 2)
		CHECK_EQ(weft_mr_dereg(mr, NULL, NULL) + weft_mr_dereg(sink, NULL, NULL), 0);
	vt_run(&t, 10 * VT_S);
	while (weft_cq_poll(t.n[0].cq, &wc, 1) == 1)
		wcs += wc.status == WEFT_WC_SUCCESS;
	while (weft_cq_poll(t.n[1].cq, &wc, 1) == 1)
		wcs += wc.status == WEFT_WC_SUCCESS;
	if (how != 2) {
		weft_mr_query(mr, &info);
		CHECK_EQ(info.valid, weft_mem_lookup(inside_mem(t.n[1].ctx), stag) != NULL);
		CHECK_EQ(weft_mr_dereg(mr, NULL, NULL) + weft_mr_dereg(sink, NULL, NULL), 0);
	}
	CHECK(weft_mem_lookup(inside_mem(t.n[1].ctx), stag) == NULL);
	CHECK(weft_mem_lookup(inside_mem(t.n[0].ctx), stag0) == NULL);
	vt_close(&t); /* checks that no region is left */
	unguard(&g);
	unguard(&g0);
	return wcs;
}

static void
test_death(void)
{
	unsigned int most = 0, least = 100;

	for (unsigned int how = 0; how < 3; how++)
		for (unsigned int steps = 0; steps < 40; steps++) {
			unsigned int n = die_after(steps, how);

			most = n > most ? n : most;
			least = n < least ? n : least;
		}
	/* The steps reach from before the first completion to after the last one. */
	CHECK_MSG(least <= 3 && most == 9, "%u to %u done", least, most);
}

/* ---- Deregistration of a region that the peer has invalidated ---- */

struct freed {
	struct weft_mr *mr;
	pthread_t by;
	bool inside;
	unsigned int calls, calls_inside;
};

static void
on_freed(void *arg)
{
	struct freed *f = arg;

	f->calls++;
	f->calls_inside += f->inside;
	f->by = pthread_self();
}

static void *
dereg(void *arg)
{
	struct freed *f = arg;

	f->inside = true;
	CHECK_EQ(weft_mr_dereg(f->mr, on_freed, f), 0);
	f->inside = false;
	return NULL;
}

/** freed() runs on a worker's thread and not inside weft_mr_dereg(), whether or not the peer
 * invalidated first, and on whichever thread the region is deregistered. */
static void
test_freed(void)
{
	for (unsigned int i = 0; i < 4; i++) {
		bool peer = i % 2 == 1, foreign = i >= 2;
		struct weft_wr wr = {.opcode = WEFT_WR_SEND};
		struct freed f = {0};
		uint8_t in[1];
		pthread_t th;
		struct vt t;

		open_pair(&t, NULL);
		vt_mem(&t.n[1], 4096, WEFT_ACCESS_REMOTE_WRITE);
		f.mr = t.n[1].mr;
		t.n[1].mr = NULL;
		if (peer) {
			wr.opcode = WEFT_WR_SEND_INV;
			wr.send.inv_stag = weft_mr_stag(f.mr);
		}
		vt_post_recv(&t.n[1], in, 1, 0);
		vt_post(&t.n[0], &wr);
		want_wc(&t.n[1], WEFT_WC_RECV, WEFT_WC_SUCCESS);
		vt_run(&t, VT_S);
		if (foreign) {
			CHECK_EQ(pthread_create(&th, NULL, dereg, &f), 0);
			CHECK_EQ(pthread_join(th, NULL), 0);
		} else {
			dereg(&f);
		}
		CHECK_EQ(f.calls, 0);
		vt_run(&t, VT_S);
		CHECK(f.calls == 1 && f.calls_inside == 0);
		CHECK(pthread_equal(f.by, pthread_self()));
		vt_close(&t);
	}
}

/** freed() runs on a worker that polls. It does not wait for a worker that does not. */
static void
test_freed_elsewhere(void)
{
	struct weft_worker_attr wa = {.size = sizeof(wa), .lcore = -1};
	struct weft_wr wr = {.opcode = WEFT_WR_SEND_INV};
	struct weft_tcp_attr ta = {0};
	struct weft_worker *other;
	struct freed f = {0};
	struct weft_rand rand;
	uint8_t in[1];
	pthread_t th;
	struct vt t;

	open_pair(&t, NULL);
	vt_mem(&t.n[1], 4096, WEFT_ACCESS_REMOTE_WRITE);
	f.mr = t.n[1].mr;
	t.n[1].mr = NULL;
	wr.send.inv_stag = weft_mr_stag(f.mr);
	vt_post_recv(&t.n[1], in, 1, 0);
	vt_post(&t.n[0], &wr);
	want_wc(&t.n[1], WEFT_WC_RECV, WEFT_WC_SUCCESS);
	vt_run(&t, VT_S);
	weft_worker_detach(t.n[1].w);
	rand = sim_rand(t.sim, 2);
	CHECK_EQ(weft_engine_worker_create(t.n[1].ctx, &wa, &ta, &rand, sim_now_ns(t.sim), &other),
	         0);
	weft_engine_poll_at(other, sim_now_ns(t.sim));
	CHECK_EQ(pthread_create(&th, NULL, dereg, &f), 0);
	CHECK_EQ(pthread_join(th, NULL), 0);
	CHECK_EQ(f.calls, 0);
	weft_engine_poll_at(other, sim_now_ns(t.sim));
	CHECK_EQ(f.calls, 1);
	weft_worker_detach(other);
	vt_close(&t);
}

WEFT_TEST_MAIN({"drains", test_drains}, {"stalled", test_stalled}, {"remote", test_remote},
               {"remote refused", test_remote_refused}, {"shared", test_shared},
               {"shared no more", test_shared_no_more}, {"of one stream", test_of_one_stream},
               {"turns", test_turns}, {"crossing", test_crossing}, {"death", test_death},
               {"freed", test_freed}, {"freed elsewhere", test_freed_elsewhere})
