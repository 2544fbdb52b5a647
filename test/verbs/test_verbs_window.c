/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Memory windows: bind, use, invalidate from both sides, bind again. A window belongs to one stream
 * (RFC 5042 s2.2.5). Which rights a region can give, and which objects end with which.
 */

#include "vt_fast.h"
#include "weft_mem_find.h"

#define REGION 8192
#define OFF    1000
#define LEN    500
/* Rights of a window. A window can give no local rights. */
#define REMOTE_RW (WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE)

/** Connect. Node 1 has a region with these rights and a window. Node 0 has memory to read into. */
static struct weft_mw *
window_pair(struct vt *t, uint32_t access)
{
	struct weft_mw *mw;

	vt_open(t, NULL);
	vt_connect(t, NULL, NULL);
	vt_speak(t);
	vt_mem(&t->n[0], REGION, WEFT_ACCESS_LOCAL_WRITE);
	vt_mem(&t->n[1], REGION, access);
	memset(t->n[1].mem, 0xca, REGION);
	CHECK_EQ(weft_mw_alloc(t->n[1].pd, &mw), 0);
	return mw;
}

static uint32_t
bound(struct vt *t, struct weft_mw *mw, uint64_t base_to, uint32_t access)
{
	struct weft_wr wr = wr_bind(mw, t->n[1].mr, t->n[1].mem + OFF, LEN, base_to, access);

	vt_post(&t->n[1], &wr);
	want_wc(&t->n[1], WEFT_WC_BIND_MW, WEFT_WC_SUCCESS);
	return weft_mw_stag(mw);
}

static bool
resolves(struct vt *t, uint32_t stag)
{
	return weft_mem_lookup(inside_mem(t->n[1].ctx), stag) != NULL;
}

static uint32_t
windows(const struct weft_mr *mr)
{
	struct weft_mr_info info;

	weft_mr_query(mr, &info);
	return info.windows;
}

/** Check that nothing outside the window has changed. */
static void
canaries(struct vt *t)
{
	for (unsigned int i = 0; i < REGION; i++)
		if (i < OFF || i >= OFF + LEN)
			CHECK_MSG(t->n[1].mem[i] == 0xca, "octet %u", i);
}

#define BASIC (WEFT_ACCESS_MW_BIND | WEFT_ACCESS_LOCAL_WRITE)

/** Bind the window and send its STag in one list, write and read at both ends of it, and bind it
 * again. */
static void
test_life(void)
{
	static const uint64_t base[] = {0, 1ULL << 40, UINT64_MAX - (LEN - 1)};
	struct weft_mw_info info;
	uint8_t out[LEN], in[4];
	struct weft_wr list[2], wr;
	uint32_t stag, last = 0;
	struct weft_sge sg;
	struct weft_mw *mw;
	struct vt t;

	mw = window_pair(&t, BASIC);
	CHECK_EQ(weft_mw_stag(mw), 0);
	weft_mw_query(mw, &info);
	CHECK(!info.valid && info.addr == NULL && info.stag == 0);
	for (unsigned int i = 0; i < sizeof(base) / sizeof(base[0]); i++) {
		vt_fill(out, sizeof(out), i);
		stag = weft_mw_next_stag(mw);
		CHECK(stag != last);
		sg = (struct weft_sge){.addr = &stag, .len_bytes = 4};
		list[0] = wr_bind(mw, t.n[1].mr, t.n[1].mem + OFF, LEN, base[i], REMOTE_RW);
		list[1] = (struct weft_wr){.opcode = WEFT_WR_SEND, .sg_list = &sg, .num_sge = 1};
		vt_post_recv(&t.n[0], in, sizeof(in), 0);
		CHECK_EQ(weft_post_send(t.n[1].qp, list, 2), 2);
		want_wc(&t.n[1], WEFT_WC_BIND_MW, WEFT_WC_SUCCESS);
		want_wc(&t.n[0], WEFT_WC_RECV, WEFT_WC_SUCCESS);
		CHECK_MEM(in, &stag, 4);
		CHECK_EQ(windows(t.n[1].mr), 1);
		weft_mw_query(mw, &info);
		CHECK(info.valid && info.addr == t.n[1].mem + OFF && info.len_bytes == LEN &&
		      info.base_to == base[i] && info.access == REMOTE_RW && info.stag == stag);
		CHECK(last == 0 || !resolves(&t, last));

		sg = (struct weft_sge){.addr = out, .len_bytes = LEN};
		wr = wr_rdma(WEFT_WR_WRITE, &sg, stag, base[i]);
		vt_post(&t.n[0], &wr);
		want_wc(&t.n[0], WEFT_WC_WRITE, WEFT_WC_SUCCESS);
		sg = (struct weft_sge){
		        .addr = t.n[0].mem, .len_bytes = 1, .lkey = weft_mr_stag(t.n[0].mr)};
		wr = wr_rdma(WEFT_WR_READ, &sg, stag, base[i] + LEN - 1);
		vt_post(&t.n[0], &wr);
		want_wc(&t.n[0], WEFT_WC_READ, WEFT_WC_SUCCESS);
		CHECK_EQ(t.n[0].mem[0], out[LEN - 1]);
		CHECK_MEM(t.n[1].mem + OFF, out, LEN);
		canaries(&t);
		wr = wr_inv(stag);
		vt_post(&t.n[1], &wr);
		want_wc(&t.n[1], WEFT_WC_LOCAL_INV, WEFT_WC_SUCCESS);
		CHECK(!resolves(&t, stag));
		CHECK_EQ(windows(t.n[1].mr), 0);
		weft_mw_query(mw, &info);
		CHECK(!info.valid && info.stag == stag);
		last = stag;
	}
	weft_mw_dealloc(mw);
	vt_close(&t);
}

/** Access to one octet beyond the window, inside the region, and access without the window's
 * right. */
static void
test_bounds(void)
{
	static const struct {
		enum weft_wr_opcode op;
		uint32_t access;
		uint64_t to;
		uint32_t len;
		uint8_t layer, code;
	} rows[] = {
	        {WEFT_WR_WRITE, REMOTE_RW, LEN, 1, 1, 1},
	        {WEFT_WR_WRITE, REMOTE_RW, 0, LEN + 1, 1, 1},
	        {WEFT_WR_WRITE, REMOTE_RW, UINT64_MAX, 2, 1, 3},
	        {WEFT_WR_WRITE, REMOTE_RW, UINT64_MAX, 1, 1, 1},
	        {WEFT_WR_READ, REMOTE_RW, LEN - 1, 2, 0, 1},
	        {WEFT_WR_READ, REMOTE_RW, UINT64_MAX, 2, 0, 4},
	        {WEFT_WR_WRITE, WEFT_ACCESS_REMOTE_READ, 0, 1, 0, 2},
	        {WEFT_WR_READ, WEFT_ACCESS_REMOTE_WRITE, 0, 1, 0, 2},
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weft_sge sg;
		struct weft_mw *mw;
		struct weft_wr wr;
		uint32_t stag;
		struct vt t;

		mw = window_pair(&t, BASIC | REMOTE_RW);
		stag = bound(&t, mw, 0, rows[i].access);
		sg = (struct weft_sge){.addr = t.n[0].mem,
		                       .len_bytes = rows[i].len,
		                       .lkey = weft_mr_stag(t.n[0].mr)};
		wr = wr_rdma(rows[i].op, &sg, stag, rows[i].to);
		vt_post(&t.n[0], &wr);
		want_term(&t.n[1], rows[i].layer, 1, rows[i].code, true);
		want_term(&t.n[0], rows[i].layer, 1, rows[i].code, false);
		canaries(&t);
		for (unsigned int k = OFF; k < OFF + LEN; k++)
			CHECK_EQ(t.n[1].mem[k], 0xca);
		/* The stream has ended, and the window with it. */
		vt_run(&t, 10 * VT_S);
		CHECK(!resolves(&t, stag));
		CHECK_EQ(windows(t.n[1].mr), 0);
		weft_mw_dealloc(mw);
		vt_close(&t);
	}
}

/** RFC 5042 s6.1.1: no other stream can use the window, even of the same domain. The Terminate has
 * the code of the layer that refuses. */
static void
test_other_stream(void)
{
	static const struct {
		enum weft_wr_opcode op;
		uint8_t layer, code;
	} rows[] = {{WEFT_WR_WRITE, 1, 2}, {WEFT_WR_READ, 0, 3}, {WEFT_WR_SEND_INV, 0, 9}};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weft_qp *first[2];
		struct weft_sge sg;
		struct weft_mw *mw;
		struct weft_wr wr;
		uint8_t in[8], one = 0x77;
		uint32_t stag;
		struct vt t;

		mw = window_pair(&t, BASIC);
		stag = bound(&t, mw, 0, REMOTE_RW);
		first[0] = t.n[0].qp;
		first[1] = t.n[1].qp;
		vt_connect(&t, NULL, NULL);
		vt_speak(&t);
		vt_post_recv(&t.n[1], in, sizeof(in), 0);
		sg = (struct weft_sge){
		        .addr = t.n[0].mem, .len_bytes = 1, .lkey = weft_mr_stag(t.n[0].mr)};
		wr = wr_rdma(rows[i].op, &sg, stag, 0);
		if (rows[i].op == WEFT_WR_SEND_INV)
			wr.send.inv_stag = stag;
		vt_post(&t.n[0], &wr);
		want_term(&t.n[1], rows[i].layer, 1, rows[i].code, true);
		want_term(&t.n[0], rows[i].layer, 1, rows[i].code, false);
		CHECK_EQ(t.n[1].mem[OFF], 0xca);
		vt_run(&t, 10 * VT_S);
		/* The window's own stream can still use it. */
		CHECK(resolves(&t, stag));
		sg = (struct weft_sge){.addr = &one, .len_bytes = 1};
		wr = wr_rdma(WEFT_WR_WRITE, &sg, stag, 0);
		CHECK_EQ(weft_post_send(first[0], &wr, 1), 1);
		vt_run(&t, VT_S);
		CHECK_EQ(t.n[1].mem[OFF], 0x77);
		/* The window's own stream can invalidate it, too. */
		wr = wr_inv(stag);
		CHECK_EQ(weft_post_send(first[1], &wr, 1), 1);
		vt_run(&t, VT_S);
		CHECK(!resolves(&t, stag));
		weft_mw_dealloc(mw);
		weft_qp_destroy(first[0]);
		weft_qp_destroy(first[1]);
		vt_close(&t);
	}
}

/** RFC 5042 s6.1.1: a local invalidation is only accepted on the window's own stream. The window's
 * STag is no lkey. */
static void
test_own_only(void)
{
	struct weft_qp *first[2];
	struct weft_sge sg;
	struct weft_mw *mw;
	struct weft_wr wr;
	uint32_t stag;
	struct vt t;

	mw = window_pair(&t, BASIC);
	stag = bound(&t, mw, 0, REMOTE_RW);
	sg = (struct weft_sge){.addr = t.n[1].mem + OFF, .len_bytes = 1, .lkey = stag};
	wr = wr_rdma(WEFT_WR_READ, &sg, 1, 0);
	CHECK_EQ(weft_post_send(t.n[1].qp, &wr, 1), -EINVAL);
	wr = wr_rdma(WEFT_WR_SEND, &sg, 0, 0);
	CHECK_EQ(weft_post_send(t.n[1].qp, &wr, 1), -EINVAL);
	first[0] = t.n[0].qp;
	first[1] = t.n[1].qp;
	vt_connect(&t, NULL, NULL);
	vt_speak(&t);
	wr = wr_inv(stag);
	vt_post(&t.n[1], &wr);
	want_wc(&t.n[1], WEFT_WC_LOCAL_INV, WEFT_WC_LOCAL_PROT);
	CHECK(resolves(&t, stag));
	weft_mw_dealloc(mw);
	CHECK(!resolves(&t, stag));
	weft_qp_destroy(first[0]);
	weft_qp_destroy(first[1]);
	vt_close(&t);
}

/** Which rights a region can give to a window. */
static void
test_rights(void)
{
	const uint32_t b = WEFT_ACCESS_MW_BIND, r = WEFT_ACCESS_REMOTE_READ,
	               w = WEFT_ACCESS_REMOTE_WRITE, l = WEFT_ACCESS_LOCAL_WRITE,
	               a = WEFT_ACCESS_REMOTE_ATOMIC, fv = WEFT_ACCESS_FLUSH_VISIBLE,
	               v = WEFT_ACCESS_VERIFY;
	const struct {
		uint32_t region, window;
		uint64_t off, len;
		enum weft_wc_status status;
	} rows[] = {
	        {b, r, 0, REGION, WEFT_WC_SUCCESS},
	        {b, 0, 0, REGION, WEFT_WC_SUCCESS},
	        {b | l, r | w | a, 0, 1, WEFT_WC_SUCCESS},
	        {b | w, w, REGION - 1, 1, WEFT_WC_SUCCESS},
	        {b | a, a, 0, 8, WEFT_WC_SUCCESS},
	        {b | r | v | fv, r | v | fv, 0, 8, WEFT_WC_SUCCESS},
	        {r | w | l, r, 0, 1, WEFT_WC_LOCAL_PROT}, /* the region does not allow windows */
	        {b | r, w, 0, 1, WEFT_WC_LOCAL_PROT},
	        {b | r, a, 0, 1, WEFT_WC_LOCAL_PROT},
	        {b | w, a, 0, 1, WEFT_WC_LOCAL_PROT},
	        {b | l, fv, 0, 1, WEFT_WC_LOCAL_PROT},
	        {b | l | r, v, 0, 1, WEFT_WC_LOCAL_PROT},
	        {b | r | v, v, 0, 1, WEFT_WC_LOCAL_PROT}, /* without the right to read */
	        {b, r, 0, REGION + 1, WEFT_WC_LOCAL_PROT},
	        {b, r, REGION, 1, WEFT_WC_LOCAL_PROT},
	        {b, r, UINT64_MAX, 1, WEFT_WC_LOCAL_PROT}, /* begins before the region */
	        {b, r, UINT64_MAX, 2, WEFT_WC_LOCAL_PROT},
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weft_mw *mw;
		struct weft_wr wr;
		struct weft_wc wc;
		struct vt t;

		mw = window_pair(&t, rows[i].region);
		wr = wr_bind(mw, t.n[1].mr, t.n[1].mem + rows[i].off, rows[i].len, 0,
		             rows[i].window);
		vt_post(&t.n[1], &wr);
		wc = vt_wc(&t.n[1]);
		CHECK_MSG(wc.opcode == WEFT_WC_BIND_MW && wc.status == rows[i].status, "row %u: %s",
		          i, weft_wc_status_str(wc.status));
		CHECK_EQ(resolves(&t, weft_mw_stag(mw)), wc.status == WEFT_WC_SUCCESS);
		CHECK_EQ(windows(t.n[1].mr), wc.status == WEFT_WC_SUCCESS);
		if (wc.status != WEFT_WC_SUCCESS) {
			want_term(&t.n[1], 0, 0, 0, true);
			want_term(&t.n[0], 0, 0, 0, false);
		}
		weft_mw_dealloc(mw);
		vt_close(&t);
	}
}

/** Binds that weft_post_send() refuses. */
static void
test_posts(void)
{
	struct weft_mw *mw, *foreign;
	struct weft_pd *other;
	uint32_t next;
	struct vt t;

	mw = window_pair(&t, BASIC | REMOTE_RW);
	CHECK_EQ(weft_pd_alloc(t.n[1].ctx, &other), 0);
	CHECK_EQ(weft_mw_alloc(other, &foreign), 0);
	next = weft_mw_next_stag(mw);
	const struct weft_wr rows[] = {
	        wr_bind(NULL, t.n[1].mr, t.n[1].mem, 1, 0, REMOTE_RW),
	        wr_bind(mw, NULL, t.n[1].mem, 1, 0, REMOTE_RW),
	        wr_bind(foreign, t.n[1].mr, t.n[1].mem, 1, 0, REMOTE_RW),
	        wr_bind(mw, t.n[1].mr, NULL, 1, 0, REMOTE_RW),
	        wr_bind(mw, t.n[1].mr, t.n[1].mem, 0, 0, REMOTE_RW),
	        wr_bind(mw, t.n[1].mr, t.n[1].mem, 2, UINT64_MAX, REMOTE_RW),
	        wr_bind(mw, t.n[1].mr, t.n[1].mem, 1, 0, WEFT_ACCESS_LOCAL_WRITE),
	        wr_bind(mw, t.n[1].mr, t.n[1].mem, 1, 0, WEFT_ACCESS_MW_BIND),
	        wr_bind(mw, t.n[1].mr, t.n[1].mem, 1, 0, 0x100),
	};
	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		CHECK_MSG(weft_post_send(t.n[1].qp, &rows[i], 1) == -EINVAL, "row %u", i);
	CHECK_EQ(weft_mw_next_stag(mw), next);
	weft_mw_dealloc(foreign);
	weft_mw_dealloc(mw);
	vt_run(&t, VT_S);
	CHECK_EQ(weft_pd_dealloc(other), 0);
	vt_close(&t);
}

/** A type 2 window is invalidated before it is bound again. */
static void
test_bound_twice(void)
{
	struct weft_mw *mw;
	struct weft_wr wr;
	uint32_t stag;
	struct vt t;

	mw = window_pair(&t, BASIC);
	stag = bound(&t, mw, 0, REMOTE_RW);
	wr = wr_bind(mw, t.n[1].mr, t.n[1].mem, 1, 0, REMOTE_RW);
	vt_post(&t.n[1], &wr);
	want_wc(&t.n[1], WEFT_WC_BIND_MW, WEFT_WC_LOCAL_PROT);
	CHECK(weft_mw_stag(mw) != stag && !resolves(&t, weft_mw_stag(mw)));
	vt_run(&t, 10 * VT_S);
	CHECK_EQ(windows(t.n[1].mr), 0);
	weft_mw_dealloc(mw);
	vt_close(&t);
}

/** RFC 5040 s5.3: the peer invalidates the window, which is bound again with another STag. */
static void
test_remote(void)
{
	uint32_t stag, last = 0;
	struct weft_mw *mw;
	struct weft_wr wr;
	struct weft_wc wc;
	uint8_t in[8];
	struct vt t;

	mw = window_pair(&t, BASIC);
	for (unsigned int i = 0; i < 10; i++) {
		stag = bound(&t, mw, 0, i % 2 ? REMOTE_RW : WEFT_ACCESS_REMOTE_WRITE);
		CHECK(stag != last);
		vt_post_recv(&t.n[1], in, sizeof(in), 0);
		wr = (struct weft_wr){.opcode = WEFT_WR_SEND_INV, .send.inv_stag = stag};
		vt_post(&t.n[0], &wr);
		wc = vt_wc(&t.n[1]);
		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
		CHECK_EQ(wc.flags, WEFT_WC_INV);
		CHECK_EQ(wc.inv_stag, stag);
		CHECK(!resolves(&t, stag));
		CHECK_EQ(windows(t.n[1].mr), 0);
		last = stag;
	}
	weft_mw_dealloc(mw);
	vt_close(&t);
}

/** Bind with a key of the consumer's. Returns the STag. */
static uint32_t
bound_keyed(struct vt *t, struct weft_mw *mw, uint8_t key)
{
	struct weft_wr wr = wr_bind(mw, t->n[1].mr, t->n[1].mem + OFF, LEN, 0, REMOTE_RW);

	wr.bind_mw.stag = weft_mw_keyed_stag(mw, key);
	vt_post(&t->n[1], &wr);
	want_wc(&t->n[1], WEFT_WC_BIND_MW, WEFT_WC_SUCCESS);
	CHECK_EQ(weft_mw_stag(mw), wr.bind_mw.stag);
	return wr.bind_mw.stag;
}

/** The consumer chooses keys: each names the window as long as the window is bound with it. */
static void
test_keyed(void)
{
	uint8_t in[8], keys[24] = {0, 255, 1};
	struct weft_mw *mw, *other;
	uint32_t stag, foreign;
	struct weft_sge sg;
	struct weft_wr wr;
	struct vt t;

	mw = window_pair(&t, BASIC);
	CHECK_EQ(weft_mw_alloc(t.n[1].pd, &other), 0);
	vt_fill(keys + 3, sizeof(keys) - 3, 1);
	stag = weft_mw_keyed_stag(mw, 0);
	CHECK(stag != 0 && (stag & 0xff) == 0);
	CHECK(weft_mw_keyed_stag(other, 0) != stag);
	for (unsigned int i = 0; i < sizeof(keys); i++) {
		uint8_t out[LEN];

		stag = bound_keyed(&t, mw, keys[i]);
		CHECK_EQ(stag, weft_mw_keyed_stag(mw, 0) | keys[i]);
		for (unsigned int k = 0; k < 256; k++)
			CHECK_EQ(resolves(&t, weft_mw_keyed_stag(mw, (uint8_t)k)), k == keys[i]);
		vt_fill(out, sizeof(out), i);
		sg = (struct weft_sge){.addr = out, .len_bytes = LEN};
		wr = wr_rdma(WEFT_WR_WRITE, &sg, stag, 0);
		vt_post(&t.n[0], &wr);
		want_wc(&t.n[0], WEFT_WC_WRITE, WEFT_WC_SUCCESS);
		vt_post_recv(&t.n[1], in, sizeof(in), 0);
		wr = (struct weft_wr){.opcode = WEFT_WR_SEND_INV, .send.inv_stag = stag};
		if (i % 2 == 0)
			wr.opcode = WEFT_WR_SEND;
		vt_post(&t.n[0], &wr);
		want_wc(&t.n[1], WEFT_WC_RECV, WEFT_WC_SUCCESS);
		CHECK_MEM(t.n[1].mem + OFF, out, LEN);
		if (i % 2 == 0) {
			wr = wr_inv(stag);
			vt_post(&t.n[1], &wr);
			want_wc(&t.n[1], WEFT_WC_LOCAL_INV, WEFT_WC_SUCCESS);
		}
		CHECK(!resolves(&t, stag));
		/* without a key of the consumer's it goes on as ever */
		if (i % 8 == 7) {
			wr = wr_inv(bound(&t, mw, 0, REMOTE_RW));
			vt_post(&t.n[1], &wr);
			want_wc(&t.n[1], WEFT_WC_LOCAL_INV, WEFT_WC_SUCCESS);
		}
	}
	canaries(&t);
	/* STags that are not this window's */
	foreign = weft_mw_keyed_stag(other, 7);
	for (unsigned int bit = 8; bit <= 32; bit++) {
		wr = wr_bind(mw, t.n[1].mr, t.n[1].mem, 1, 0, REMOTE_RW);
		wr.bind_mw.stag = bit < 32 ? stag ^ 1u << bit : foreign;
		CHECK_EQ(weft_post_send(t.n[1].qp, &wr, 1), -EINVAL);
	}
	/* a bound window is not bound again, and the stream ends */
	stag = bound_keyed(&t, mw, 5);
	wr = wr_bind(mw, t.n[1].mr, t.n[1].mem, 1, 0, REMOTE_RW);
	wr.bind_mw.stag = weft_mw_keyed_stag(mw, 6);
	vt_post(&t.n[1], &wr);
	want_wc(&t.n[1], WEFT_WC_BIND_MW, WEFT_WC_LOCAL_PROT);
	CHECK(!resolves(&t, wr.bind_mw.stag));
	vt_run(&t, 10 * VT_S);
	CHECK(!resolves(&t, stag));
	weft_mw_dealloc(other);
	weft_mw_dealloc(mw);
	vt_close(&t);
}

/** Neither the owner nor the peer can invalidate a region while windows are bound to it. */
static void
test_region_stays(void)
{
	for (unsigned int how = 0; how < 2; how++) {
		struct weft_mw *mw;
		struct weft_wr wr;
		uint32_t stag, region;
		uint8_t in[8];
		struct vt t;

		mw = window_pair(&t, BASIC | REMOTE_RW);
		stag = bound(&t, mw, 0, REMOTE_RW);
		region = weft_mr_stag(t.n[1].mr);
		CHECK_EQ(weft_mr_dereg(t.n[1].mr, NULL, NULL), -EBUSY);
		CHECK(resolves(&t, region) && resolves(&t, stag));
		/* the peer may use the STag of the region, but not invalidate it now */
		if (how == 0) {
			vt_post_recv(&t.n[1], in, sizeof(in), 0);
			wr = (struct weft_wr){.opcode = WEFT_WR_SEND_INV, .send.inv_stag = region};
			vt_post(&t.n[0], &wr);
			want_term(&t.n[1], 0, 2, 9, true);
			want_term(&t.n[0], 0, 2, 9, false);
		} else {
			wr = wr_inv(region);
			vt_post(&t.n[1], &wr);
			want_wc(&t.n[1], WEFT_WC_LOCAL_INV, WEFT_WC_LOCAL_PROT);
		}
		CHECK(resolves(&t, region));
		vt_run(&t, 10 * VT_S); /* the window ends with its stream */
		CHECK(!resolves(&t, stag));
		CHECK_EQ(weft_mr_dereg(t.n[1].mr, NULL, NULL), 0);
		t.n[1].mr = NULL;
		weft_mw_dealloc(mw);
		vt_close(&t);
	}
}

static void
count_freed(void *arg)
{
	++*(unsigned int *)arg;
}

/** A fast-registered region, its window, a use, and the invalidation of both, in one list. */
static void
test_of_fast(void)
{
	static uint8_t mem[256];
	struct weft_wr list[6];
	uint32_t rs, ws, n = 0;
	struct weft_mr *mr;
	struct weft_mw *mw;
	struct vt t;

	mw = window_pair(&t, BASIC);
	CHECK_EQ(weft_mr_alloc(t.n[1].pd, &mr), 0);
	for (unsigned int i = 0; i < 5; i++) {
		rs = weft_mr_next_stag(mr);
		ws = weft_mw_next_stag(mw);
		n = 0;
		list[n] = (struct weft_wr){.opcode = WEFT_WR_FAST_REG, .flags = WEFT_WR_SIGNALED};
		list[n].fast_reg.mr = mr;
		list[n].fast_reg.addr = mem;
		list[n].fast_reg.len_bytes = sizeof(mem);
		list[n++].fast_reg.access = WEFT_ACCESS_MW_BIND;
		list[n++] = wr_bind(mw, mr, mem + 5, 7, 0, WEFT_ACCESS_REMOTE_READ);
		list[n++] = wr_inv(ws);
		list[n++] = wr_inv(rs);
		CHECK_EQ(weft_post_send(t.n[1].qp, list, n), (int)n);
		want_wc(&t.n[1], WEFT_WC_FAST_REG, WEFT_WC_SUCCESS);
		want_wc(&t.n[1], WEFT_WC_BIND_MW, WEFT_WC_SUCCESS);
		want_wc(&t.n[1], WEFT_WC_LOCAL_INV, WEFT_WC_SUCCESS);
		want_wc(&t.n[1], WEFT_WC_LOCAL_INV, WEFT_WC_SUCCESS);
		CHECK(!resolves(&t, rs) && !resolves(&t, ws));
	}
	/* A window of an invalid region. */
	list[0] = wr_bind(mw, mr, mem, 1, 0, WEFT_ACCESS_REMOTE_READ);
	vt_post(&t.n[1], &list[0]);
	want_wc(&t.n[1], WEFT_WC_BIND_MW, WEFT_WC_LOCAL_PROT);
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	weft_mw_dealloc(mw);
	vt_close(&t);
}

/** Verify and Flush through a window cover the window's range of the medium. */
static void
test_medium(void)
{
	struct weft_wr wr;
	struct weft_mw *mw;
	uint8_t want[4], got[4];
	uint32_t stag;
	struct vt t;

	mw = window_pair(&t, BASIC | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_FLUSH_VISIBLE |
	                             WEFT_ACCESS_VERIFY);
	vt_fill(t.n[1].mem, REGION, 5);
	vt_crc32c(t.n[1].mem + OFF + 10, 20, want);
	stag = bound(&t, mw, 100,
	             WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_FLUSH_VISIBLE | WEFT_ACCESS_VERIFY);
	wr = (struct weft_wr){
	        .opcode = WEFT_WR_FLUSH,
	        .flags = WEFT_WR_SIGNALED,
	        .flush = {.stag = stag, .flags = WEFT_FLUSH_VISIBLE | WEFT_FLUSH_REGION}};
	vt_post(&t.n[0], &wr);
	want_wc(&t.n[0], WEFT_WC_FLUSH, WEFT_WC_SUCCESS);
	wr = (struct weft_wr){.opcode = WEFT_WR_VERIFY,
	                      .flags = WEFT_WR_SIGNALED,
	                      .verify = {.stag = stag,
	                                 .to = 110,
	                                 .len_bytes = 20,
	                                 .result = got,
	                                 .result_bytes = 4}};
	vt_post(&t.n[0], &wr);
	want_wc(&t.n[0], WEFT_WC_VERIFY, WEFT_WC_SUCCESS);
	CHECK_MEM(got, want, 4);
	weft_mw_dealloc(mw);
	vt_close(&t);
}

/* ---- Which object ends with which ---- */

static void *
dealloc_thread(void *arg)
{
	weft_mw_dealloc(arg);
	return NULL;
}

/** Window, QP, stream and region are destroyed in every order, with a Read through the window under
 * way. */
static void
test_death(void)
{
	enum { BIG = 1 << 20 };

	for (unsigned int how = 0; how < 6; how++)
		for (unsigned int steps = 0; steps < 12; steps++) {
			struct weft_mw_info info;
			unsigned int freed = 0;
			struct weft_sge sg;
			struct weft_wr wr;
			struct weft_mw *mw;
			pthread_t th;
			uint32_t stag;
			struct vt t;

			vt_open(&t, NULL);
			vt_connect(&t, NULL, NULL);
			vt_speak(&t);
			vt_mem(&t.n[0], BIG, WEFT_ACCESS_LOCAL_WRITE);
			vt_mem(&t.n[1], BIG, BASIC);
			CHECK_EQ(weft_mw_alloc(t.n[1].pd, &mw), 0);
			stag = weft_mw_next_stag(mw);
			wr = wr_bind(mw, t.n[1].mr, t.n[1].mem, BIG, 0, REMOTE_RW);
			vt_post(&t.n[1], &wr);
			if (how < 5)
				vt_run(&t, 1000);
			sg = (struct weft_sge){.addr = t.n[0].mem,
			                       .len_bytes = BIG,
			                       .lkey = weft_mr_stag(t.n[0].mr)};
			wr = wr_rdma(WEFT_WR_READ, &sg, stag, 0);
			vt_post(&t.n[0], &wr);
			for (unsigned int i = 0; i < steps; i++)
				vt_run(&t, 20000);
			switch (how) {
			case 0: /* the QP that the window is bound to is destroyed */
			case 5: /* the same, before the bind was carried out */
				weft_qp_destroy(t.n[1].qp);
				t.n[1].qp = NULL;
				CHECK(!resolves(&t, stag));
				break;
			case 1: /* the peer's QP is destroyed */
				weft_qp_destroy(t.n[0].qp);
				t.n[0].qp = NULL;
				vt_run(&t, VT_S);
				CHECK(!resolves(&t, stag));
				break;
			case 2: /* the window is deallocated */
				weft_mw_dealloc(mw);
				mw = NULL;
				CHECK(!resolves(&t, stag));
				break;
			case 3: /* the same on another thread, and the region directly after it */
				CHECK_EQ(pthread_create(&th, NULL, dealloc_thread, mw), 0);
				CHECK_EQ(pthread_join(th, NULL), 0);
				mw = NULL;
				CHECK(!resolves(&t, stag));
				break;
			default: /* the connection ends in order */
				CHECK_EQ(weft_disconnect(t.n[1].qp), 0);
				vt_run(&t, 10 * VT_S);
				CHECK(!resolves(&t, stag));
				break;
			}
			CHECK_EQ(windows(t.n[1].mr), 0);
			CHECK_EQ(weft_mr_dereg(t.n[1].mr, count_freed, &freed), 0);
			t.n[1].mr = NULL;
			vt_run(&t, 10 * VT_S);
			CHECK_EQ(freed, 1);
			if (mw != NULL) {
				weft_mw_query(mw, &info);
				CHECK(!info.valid);
				weft_mw_dealloc(mw);
			}
			vt_close(&t);
		}
}

WEFT_TEST_MAIN({"life", test_life}, {"bounds", test_bounds}, {"other stream", test_other_stream},
               {"own only", test_own_only}, {"rights", test_rights}, {"posts", test_posts},
               {"bound twice", test_bound_twice}, {"remote", test_remote}, {"keyed", test_keyed},
               {"region stays", test_region_stays}, {"of fast", test_of_fast},
               {"medium", test_medium}, {"death", test_death})
