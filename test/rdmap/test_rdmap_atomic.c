/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Atomic Operations (RFC 7306 s5) over streams: their octets, results and order among Reads and
 * Flushes. Each is carried out once. Every error of s8, and responders that send wrong responses.
 */

#include <stdlib.h>

#include "rdmap_rig.h"
#include "weft_mem_place.h"

#define MEM_BYTES 8192
#define BASE      0x10000ull
#define ALL                                                                                        \
	(WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |            \
	 WEFT_ACCESS_REMOTE_ATOMIC | WEFT_ACCESS_FLUSH_VISIBLE)
#define ADD  WEFT_RDMAP_FETCH_ADD
#define SWAP WEFT_RDMAP_CMP_SWAP

static uint64_t mem[MEM_BYTES / 8] __rte_aligned(64);
static uint8_t buf[MEM_BYTES];

static struct weft_rdmap_req
op_add(const struct weft_mem_mr *mr, uint64_t to, uint64_t add, uint64_t mask)
{
	return (struct weft_rdmap_req){.op = WEFT_RDMAP_ATOMIC_REQ,
	                               .len_bytes = 8,
	                               .stag = mr->stag,
	                               .to = to,
	                               .atomic = {.aop = ADD, .data = add, .mask = mask}};
}

static struct weft_rdmap_req
op_swap(const struct weft_mem_mr *mr, uint64_t to, uint64_t cmp, uint64_t cmp_mask, uint64_t swap,
        uint64_t swap_mask)
{
	return (struct weft_rdmap_req){.op = WEFT_RDMAP_ATOMIC_REQ,
	                               .len_bytes = 8,
	                               .stag = mr->stag,
	                               .to = to,
	                               .atomic = {.aop = SWAP,
	                                          .data = swap,
	                                          .mask = swap_mask,
	                                          .cmp = cmp,
	                                          .cmp_mask = cmp_mask}};
}

/* The octets of a FetchAdd and a CmpSwap request, and of the response with the identifier of the
 * request. */
static void
test_wire_form(void)
{
	/* A.1: DDP header, code, identifier, STag, TO, data, mask, compare data, compare mask */
	static const uint8_t add[70] = {
	        0x41, 0x4a, 0, 0, 0, 0, 0, 0, 0,    1,    0,    0,    0,    1,    0,    0,    0, 0,
	        0,    0,    0, 0, 0, 0, 0, 1, 0,    0,    0,    7,    0,    0,    0,    0x10, 0, 0,
	        0,    8,    1, 2, 3, 4, 5, 6, 7,    8,    0x80, 0,    0,    0,    0x80, 0,    0, 0,
	        0,    0,    0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
	static const uint8_t swap[70] = {
	        0x41, 0x4a, 0,    0,    0,    0,    0,    0,    0,    1,    0,    0,    0,    2,
	        0,    0,    0,    0,    0,    0,    0,    2,    0,    0,    0,    2,    0,    0,
	        0,    7,    0,    0,    0,    0x10, 0,    0,    0,    8,    0x11, 0x12, 0x13, 0x14,
	        0x15, 0x16, 0x17, 0x18, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x31, 0x32,
	        0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48};
	/* A.2 */
	static const uint8_t resp[30] = {0x41, 0x4b, 0, 0, 0, 0,    0,    0,    0, 3,
	                                 0,    0,    0, 1, 0, 0,    0,    0,    0, 0xa1,
	                                 0xb2, 0xc3, 0, 0, 0, 0xfe, 0xdc, 0xba, 0, 1};
	struct weft_mem_mr other = {.stag = 7}, *mr;
	struct weft_rdmap_req q[2] = {
	        op_add(&other, 0x1000000008, 0x0102030405060708, 0x8000000080000000),
	        op_swap(&other, 0x1000000008, 0x3132333435363738, 0x4142434445464748,
	                0x1112131415161718, 0x2122232425262728)};
	uint8_t in[52];

	rig_open(4, 4, true);
	weft_rdmap_post(rig.b.r, &q[0]);
	weft_rdmap_post(rig.b.r, &q[1]);
	rig_pump();
	EXPECT_ULPDU(&rig.b, add, 70);
	EXPECT_ULPDU(&rig.b, swap, 70);

	/* the response has the identifier that the peer chose; reserved bits are ignored */
	mr = rig_reg(&rig.b, mem, sizeof(mem), BASE, WEFT_ACCESS_REMOTE_ATOMIC, NULL, NULL);
	mem[2] = 0x000000fedcba0001;
	memset(in, 0, sizeof(in));
	memset(in, 0xff, 3);
	in[3] = 0xf0;
	weft_put_be32(in + 4, 0x00a1b2c3);
	weft_put_be32(in + 8, mr->stag);
	weft_put_be64(in + 12, BASE + 16);
	weft_put_be64(in + 20, 0x10000);
	memset(in + 36, 0x5a, 16); /* a FetchAdd ignores the compare fields */
	rig_inject_untagged(&rig.b, 0x4a, 1, 1, 0, true, 0xdeadbeef, in, sizeof(in));
	rig_pump();
	EXPECT_ULPDU(&rig.b, resp, 30);
	CHECK_EQ(mem[2], 0x000000fedcbb0001);
	rig_unreg(&rig.b, mr);
	rig_close();
}

/* Results and memory, unmasked and masked, where addresses are aligned and TOs are not. */
static void
test_results(void)
{
	struct weft_mem_mr *mr, shadow_mr;
	static uint64_t shadow[MEM_BYTES / 8];
	enum { N = 64 };
	static struct weft_rdmap_req q[N];

	rig_open(8, 8, false);
	for (unsigned int i = 0; i < RTE_DIM(mem); i++)
		mem[i] = shadow[i] = rig_random();
	mr = rig_reg(&rig.b, mem, sizeof(mem), 3, WEFT_ACCESS_REMOTE_ATOMIC, NULL, NULL);
	shadow_mr = (struct weft_mem_mr){
	        .addr = (uint8_t *)shadow, .base_to = 3, .len_bytes = sizeof(shadow)};
	for (unsigned int round = 0; round < 100; round++) {
		uint64_t orig[N];

		for (unsigned int i = 0; i < N; i++) {
			uint64_t to = 3 + 8 * (rig_random() % 16), a = rig_random(),
			         b = rig_random();
			uint64_t now = shadow[(to - 3) / 8], m = rig_random() & rig_random();

			if (rig_random() % 2) {
				q[i] = op_add(mr, to, a, i % 4 ? b & m : 0);
				orig[i] = weft_mem_fetch_add(&shadow_mr, to, a, i % 4 ? b & m : 0);
			} else {
				q[i] = op_swap(mr, to, i % 3 ? now : a, m, b, ~m);
				orig[i] = weft_mem_cmp_swap(&shadow_mr, to, i % 3 ? now : a, m, b,
				                            ~m);
			}
			weft_rdmap_post(rig.a.r, &q[i]);
		}
		rig.a.nev = 0;
		rig_pump();
		for (unsigned int i = 0; i < N; i++) {
			CHECK_EQ(rig_status(&rig.a, &q[i]), WEFT_RDMAP_OK);
			CHECK(rig_ev(&rig.a, EV_DONE, i)->req == &q[i]);
			CHECK_EQ(q[i].atomic.orig, orig[i]);
		}
		CHECK_MEM(mem, shadow, sizeof(mem));
	}
	CHECK_EQ(rig.b.op_stats.in[WEFT_RDMAP_ATOMIC_REQ], 100 * N);
	CHECK_EQ(rig.b.op_stats.out[WEFT_RDMAP_ATOMIC_RESP], 100 * N);
	CHECK(weft_rdmap_stats(rig.a.r)->ord_stalls > 0);
	CHECK_EQ(rig.b.nev, 1); /* s5.2.1 rule 3: not delivered to the ULP; RTS only */
	rig_unreg(&rig.b, mr);
	rig_close();
}

/* One queue with Reads and Flushes: a slow Flush delays the requests behind it, which are carried
 * out in order. */
static void
test_strict_order(void)
{
	struct weft_rdmap_req q[6];
	struct weft_mem_mr *mr, *sink;
	struct rig_medium m;
	uint64_t *word;

	rig_open(8, 8, false);
	rig_medium_open(&m, 65536);
	mr = rig_reg(&rig.b, m.p.base, 65536, 0, ALL | WEFT_ACCESS_FLUSH_PERSISTENT, &m.p, NULL);
	sink = rig_reg(&rig.a, buf, sizeof(buf), 0, WEFT_ACCESS_LOCAL_WRITE, NULL, NULL);
	word = (uint64_t *)(void *)m.p.base;
	*word = 1;
	m.eagain = 5;
	q[0] = (struct weft_rdmap_req){.op = WEFT_RDMAP_FLUSH_REQ,
	                               .len_bytes = 4096,
	                               .stag = mr->stag,
	                               .flush_flags = WEFT_FLUSH_PERSISTENT};
	q[1] = rig_op_read(mr, 0, 8, sink, 0);
	q[2] = op_add(mr, 0, 10, 0);
	q[3] = rig_op_read(mr, 0, 8, sink, 8);
	q[4] = op_swap(mr, 0, 11, UINT64_MAX, 77, UINT64_MAX);
	q[5] = q[0];
	for (unsigned int i = 0; i < 6; i++)
		weft_rdmap_post(rig.a.r, &q[i]);
	for (unsigned int i = 0; i < 4; i++) {
		rig_step();
		CHECK_EQ(rig_ev_count(&rig.a, EV_DONE), 0);
		CHECK_EQ(*word, 1);
	}
	/* no Atomic is carried out before the Read in front of it is sent (RFC 7306 s7) */
	rig.b.space = 0;
	rig_pump();
	CHECK_EQ(*word, 1);
	rig.b.space = UINT32_MAX;
	rig_pump();
	for (unsigned int i = 0; i < 6; i++) {
		CHECK_EQ(rig_status(&rig.a, &q[i]), WEFT_RDMAP_OK);
		CHECK(rig_ev(&rig.a, EV_DONE, i)->req == &q[i]);
	}
	CHECK_EQ(*(uint64_t *)(void *)buf, 1);
	CHECK_EQ(*(uint64_t *)(void *)(buf + 8), 11);
	CHECK_EQ(q[2].atomic.orig, 1);
	CHECK_EQ(q[4].atomic.orig, 11);
	CHECK_EQ(*(uint64_t *)(void *)m.shadow, 77); /* the Flush behind flushed it */
	rig_unreg(&rig.b, mr);
	rig_unreg(&rig.a, sink);
	rig_close();
	rig_medium_close(&m);
}

/* ---- RFC 7306 s7, the rows with an Atomic ---- */

static struct {
	struct weft_mem_mr *mr, *sink;
	struct weft_rdmap_req first, second;
	uint64_t value;
} row;

static void
row_open(void)
{
	rig_open(8, 8, false);
	memset(mem, 0, sizeof(mem));
	memset(buf, 0xee, sizeof(buf));
	row.mr = rig_reg(&rig.b, mem, sizeof(mem), 0, ALL, NULL, NULL);
	row.sink = rig_reg(&rig.a, buf, sizeof(buf), 0, WEFT_ACCESS_LOCAL_WRITE, NULL, NULL);
	row.value = 0x1000;
}

static void
row_run(void)
{
	weft_rdmap_post(rig.a.r, &row.first);
	weft_rdmap_post(rig.a.r, &row.second);
	rig_pump();
	CHECK_EQ(rig_status(&rig.a, &row.first), WEFT_RDMAP_OK);
	CHECK_EQ(rig_status(&rig.a, &row.second), WEFT_RDMAP_OK);
}

static void
row_close(void)
{
	rig_unreg(&rig.b, row.mr);
	rig_unreg(&rig.a, row.sink);
	rig_close();
}

static unsigned int atomics_before;

/* A message on QN 0 is delivered before the Atomic behind it is carried out. */
static void
on_receive(struct rig_side *s, const struct rig_ev *e)
{
	(void)s;
	if (e->kind == EV_RECV || e->kind == EV_IMM)
		atomics_before += mem[0] != 0;
}

static void
test_order_table(void)
{
	/* RDMA Write, Atomic: the Write is placed before */
	row_open();
	row.first = rig_op_write(row.mr, 0, &row.value, 8);
	row.second = op_add(row.mr, 0, 1, 0);
	row_run();
	CHECK_EQ(row.second.atomic.orig, 0x1000);
	CHECK_EQ(mem[0], 0x1001);
	row_close();

	/* RDMA Read, Atomic: the Read is first; responses in order */
	row_open();
	row.first = rig_op_read(row.mr, 0, 8, row.sink, 0);
	row.second = op_add(row.mr, 0, 1, 0);
	row_run();
	CHECK_EQ(*(uint64_t *)(void *)buf, 0);
	CHECK(rig_ev(&rig.a, EV_DONE, 0)->req == &row.first);
	row_close();

	/* Atomic, RDMA Read: the Read sees the Atomic's result */
	row_open();
	row.first = op_add(row.mr, 0, 1, 0);
	row.second = rig_op_read(row.mr, 0, 8, row.sink, 0);
	row_run();
	CHECK_EQ(*(uint64_t *)(void *)buf, 1);
	CHECK(rig_ev(&rig.a, EV_DONE, 0)->req == &row.first);
	row_close();

	/* Atomic, Atomic: in order */
	row_open();
	row.first = op_add(row.mr, 0, 1, 0);
	row.second = op_swap(row.mr, 0, 1, UINT64_MAX, 5, UINT64_MAX);
	row_run();
	CHECK_EQ(row.second.atomic.orig, 1);
	CHECK_EQ(mem[0], 5);
	row_close();

	/* Send, Atomic and Immediate Data, Atomic: the message is completed before */
	for (unsigned int i = 0; i < 2; i++) {
		row_open();
		atomics_before = 0;
		rig.b.hook = on_receive;
		rig_post_recv(&rig.b, 1);
		row.first = rig_op_write(row.mr, 0, &row.value, 8);
		row.first.op = i == 0 ? WEFT_RDMAP_SEND : WEFT_RDMAP_IMM;
		if (i == 1)
			row.first.nsge = 0;
		row.second = op_add(row.mr, 0, 1, 0);
		row_run();
		CHECK_EQ(rig_ev_count(&rig.b, i == 0 ? EV_RECV : EV_IMM), 1);
		CHECK_EQ(atomics_before, 0);
		CHECK_EQ(mem[0], 1);
		row_close();
	}

	/* Atomic, Write / Send / Immediate Data: these may overtake the response, and all
	 * complete */
	for (unsigned int i = 0; i < 3; i++) {
		row_open();
		rig_post_recv(&rig.b, 1);
		rig.b.space = 0;
		row.first = op_add(row.mr, 0, 1, 0);
		row.second = rig_op_write(row.mr, 64, &row.value, 8);
		row.second.op = (uint8_t[]){WEFT_RDMAP_WRITE, WEFT_RDMAP_SEND, WEFT_RDMAP_IMM}[i];
		weft_rdmap_post(rig.a.r, &row.first);
		weft_rdmap_post(rig.a.r, &row.second);
		rig_pump();
		CHECK_EQ(rig_status(&rig.a, &row.first), -1);
		CHECK_EQ(rig_status(&rig.a, &row.second), WEFT_RDMAP_OK);
		if (i == 0)
			CHECK_EQ(mem[8], 0x1000);
		else
			CHECK_EQ(rig_ev_count(&rig.b, i == 1 ? EV_RECV : EV_IMM), 1);
		rig.b.space = UINT32_MAX;
		rig_pump();
		CHECK_EQ(rig_status(&rig.a, &row.first), WEFT_RDMAP_OK);
		CHECK_EQ(mem[0], 1);
		row_close();
	}
}

/* A fenced Write behind an Atomic waits for its response. */
static void
test_fence(void)
{
	row_open();
	rig.b.space = 0;
	row.first = op_add(row.mr, 0, 1, 0);
	row.second = rig_op_write(row.mr, 64, &row.value, 8);
	row.second.fence = true;
	weft_rdmap_post(rig.a.r, &row.first);
	weft_rdmap_post(rig.a.r, &row.second);
	rig_pump();
	CHECK_EQ(mem[8], 0);
	rig.b.space = UINT32_MAX;
	rig_pump();
	CHECK_EQ(mem[8], 0x1000);
	CHECK(rig_ev(&rig.a, EV_DONE, 0)->req == &row.first);
	row_close();
}

/* An Atomic is not idempotent: it is carried out once, however long its response waits for
 * space. */
static void
test_once(void)
{
	struct weft_rdmap_req q[4];

	row_open();
	rig.b.space = 0;
	for (unsigned int i = 0; i < 4; i++) {
		q[i] = op_add(row.mr, 0, 1, 0);
		weft_rdmap_post(rig.a.r, &q[i]);
	}
	rig_pump();
	for (unsigned int i = 0; i < 50; i++) {
		rig.b.ddp->mpa->ops->writable(rig.b.ddp->mpa->user); /* there is still no space */
		rig_pump();
	}
	CHECK_EQ(mem[0], 4);
	CHECK_EQ(rig_ev_count(&rig.a, EV_DONE), 0);
	/* a later change of the word by others does not change the responses */
	mem[0] = 1000;
	for (unsigned int i = 0; i < 4; i++) {
		rig.b.space = 1;
		rig_pump();
		CHECK_EQ(rig_status(&rig.a, &q[i]), WEFT_RDMAP_OK);
		CHECK_EQ(q[i].atomic.orig, i);
		CHECK_EQ(rig_ev_count(&rig.a, EV_DONE), i + 1);
	}
	CHECK_EQ(mem[0], 1000);
	row_close();
}

/* The STag is invalidated while the request waits: it is not carried out (RFC 5040 s8.1.1 item
 * 6). */
static void
test_revoked(void)
{
	struct weft_rdmap_req q[2];
	struct weft_mem_mr *mr;
	struct rig_medium m;
	const struct rig_ev *e;

	rig_open(8, 8, false);
	rig_medium_open(&m, 4096);
	mr = rig_reg(&rig.b, m.p.base, 4096, 0, ALL | WEFT_ACCESS_FLUSH_PERSISTENT, &m.p, NULL);
	m.eagain = 3;
	q[0] = (struct weft_rdmap_req){.op = WEFT_RDMAP_FLUSH_REQ,
	                               .len_bytes = 4096,
	                               .stag = mr->stag,
	                               .flush_flags = WEFT_FLUSH_PERSISTENT};
	q[1] = op_add(mr, 8, 5, 0);
	weft_rdmap_post(rig.a.r, &q[0]);
	weft_rdmap_post(rig.a.r, &q[1]);
	rig_step();
	rig_unreg(&rig.b, mr);
	rig_step();
	CHECK_EQ(rig.b.pd.regions, 1);
	rig_pump();
	CHECK_EQ(rig_status(&rig.a, &q[0]), WEFT_RDMAP_OK);
	CHECK_EQ(rig_status(&rig.a, &q[1]), WEFT_RDMAP_REMOTE_ACCESS);
	e = rig_ev(&rig.b, EV_STATE, 1);
	CHECK(e != NULL && e->ours && e->term.etype == 1 && e->term.code == 0);
	CHECK_EQ(((uint64_t *)(void *)m.p.base)[1], 0);
	CHECK_EQ(rig.b.pd.regions, 0);
	rig_close();
	rig_medium_close(&m);
}

/* ---- Errors of the peer, s8.2: octet by octet ---- */

static struct weft_mem_pd other_pd;
static struct {
	struct weft_mem_mr *all, *write, *alien;
} reg;

static void
set_up(void)
{
	struct weft_mem_attr a = {
	        .addr = (uint8_t *)mem, .len_bytes = MEM_BYTES, .base_to = BASE, .access = ALL};

	rig_open(4, 4, true);
	memset(mem, 0x77, sizeof(mem));
	reg.all = rig_reg(&rig.b, mem, MEM_BYTES, BASE, ALL, NULL, NULL);
	/* all rights but remote atomic */
	reg.write =
	        rig_reg(&rig.b, mem, MEM_BYTES, BASE, ALL & ~WEFT_ACCESS_REMOTE_ATOMIC, NULL, NULL);
	other_pd = (struct weft_mem_pd){.mem = rig.b.mem};
	CHECK_EQ(weft_mem_reg(rig.b.mem, &other_pd, &a, &reg.alien), 0);
}

static void
tear_down(void)
{
	for (unsigned int i = 0; i < RTE_DIM(mem); i++)
		CHECK_EQ(mem[i], 0x7777777777777777);
	rig_unreg(&rig.b, reg.all);
	rig_unreg(&rig.b, reg.write);
	rig_unreg(&rig.b, reg.alien);
	rig_close();
}

/*
 * Check that b sends this Terminate and closes. The DDP header is echoed. The RDMA header is not:
 * s8.1 case 2 has it zero, so it is left out (RFC 5040 s4.8).
 */
static void
expect_term(int line, uint8_t etype, uint8_t layer, uint8_t code, const uint8_t *seg,
            uint32_t seg_bytes)
{
	uint8_t u[42] = {0x41, 0x47};
	const struct rig_ev *e;

	weft_put_be32(u + 6, 2);
	weft_put_be32(u + 10, 1);
	u[18] = (uint8_t)(layer << 4 | etype);
	u[19] = code;
	u[20] = 0xc0;
	weft_put_be16(u + 22, (uint16_t)seg_bytes);
	memcpy(u + 24, seg, 18);
	rig_pump();
	rig_expect(__FILE__, line, &rig.b, u, sizeof(u));
	if (!rig.b.fin || !TAILQ_EMPTY(&rig.b.out))
		test_fail(__FILE__, line, "no FIN right behind it");
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_TERMINATE);
	e = rig_ev(&rig.b, EV_STATE, 1);
	CHECK(e != NULL && e->has_term && e->ours && e->term.code == code);
}

#define EXPECT_TERM(layer, etype, code)                                                            \
	do {                                                                                       \
		uint8_t seg_[18];                                                                  \
		memcpy(seg_, rig.last, 18);                                                        \
		expect_term(__LINE__, etype, layer, code, seg_, rig.last_bytes);                   \
	} while (0)

#define CASE(inject, layer, etype, code)                                                           \
	do {                                                                                       \
		set_up();                                                                          \
		inject;                                                                            \
		EXPECT_TERM(layer, etype, code);                                                   \
		tear_down();                                                                       \
	} while (0)

static void
inject_len(uint32_t msn, uint8_t aop, uint32_t stag, uint64_t to, uint32_t len)
{
	uint8_t p[64] = {0};

	rdmap_atomic_req_encode(&(struct rdmap_atomic_req){.aop = aop,
	                                                   .id = 0x1234,
	                                                   .stag = stag,
	                                                   .to = to,
	                                                   .data = 1,
	                                                   .mask = UINT64_MAX,
	                                                   .cmp = 0x7777777777777777,
	                                                   .cmp_mask = UINT64_MAX},
	                        p);
	rig_inject_untagged(&rig.b, 0x4a, 1, msn, 0, true, 0, p, len);
}

#define INJECT(aop, stag, to) inject_len(1, aop, stag, to, 52)

static void
test_errors(void)
{
	static const uint8_t aops[] = {ADD, SWAP};

	for (unsigned int i = 0; i < 2; i++) {
		uint8_t aop = aops[i];

		CASE(INJECT(aop, 0x12345678, BASE), 0, 1, 0);
		CASE(INJECT(aop, reg.all->stag, BASE - 8), 0, 1, 1);
		CASE(INJECT(aop, reg.all->stag, BASE + MEM_BYTES), 0, 1, 1);
		CASE(INJECT(aop, reg.all->stag, BASE + MEM_BYTES - 7), 0, 1, 1);
		CASE(INJECT(aop, reg.write->stag, BASE), 0, 1, 2);
		CASE(INJECT(aop, reg.alien->stag, BASE), 0, 1, 3);
		CASE(INJECT(aop, reg.all->stag, UINT64_MAX - 6), 0, 1, 4);
		/* s8.2: the address is not aligned to 64 bits */
		for (uint64_t off = 1; off < 8; off++)
			CASE(INJECT(aop, reg.all->stag, BASE + off), 0, 2, 7);
		CASE(inject_len(1, aop, reg.all->stag, BASE, 51), 0, 2, 0xff);
		CASE(inject_len(1, aop, reg.all->stag, BASE, 0), 0, 2, 0xff);
		CASE(inject_len(1, aop, reg.all->stag, BASE, 53), 1, 2, 5);
	}
	/* s5.2.1 rule 4: an unknown operation, with valid and with wrong other fields */
	for (uint8_t aop = 0; aop < 16; aop++)
		if (aop != ADD && aop != SWAP) {
			CASE(INJECT(aop, reg.all->stag, BASE), 0, 2, 6);
			CASE(INJECT(aop, 0x12345678, BASE + 1), 0, 2, 6);
		}
	/* errors of RFC 5040 and RFC 5041 */
	CASE(rig_inject_untagged(&rig.b, 0x0a, 1, 1, 0, true, 0, mem, 52), 0, 2, 5);
	CASE(rig_inject_untagged(&rig.b, 0x8a, 1, 1, 0, true, 0, mem, 52), 0, 2, 5);
	CASE(rig_inject_untagged(&rig.b, 0x4a, 0, 1, 0, true, 0, mem, 52), 0, 2, 6);
	CASE(rig_inject_untagged(&rig.b, 0x4a, 3, 1, 0, true, 0, mem, 52), 0, 2, 6);
	CASE(rig_inject_untagged(&rig.b, 0x4a, 1, 2, 0, true, 0, mem, 52), 1, 2, 3);
	CASE(rig_inject_untagged(&rig.b, 0x4a, 1, 1, 4, true, 0, mem, 52), 1, 2, 4);
}

/* The address must be aligned, not the offset: an aligned TO of an unaligned region is refused. */
static void
test_alignment(void)
{
	struct weft_mem_mr *mr;

	set_up();
	mr = rig_reg(&rig.b, (uint8_t *)mem + 1, 64, 0, ALL, NULL, NULL);
	INJECT(ADD, mr->stag, 8);
	EXPECT_TERM(0, 2, 7);
	rig_unreg(&rig.b, mr);
	tear_down();
}

/* Requests beyond IRD: Atomics alone and among Reads. Requests within IRD get no response then. */
static void
test_ird(void)
{
	for (unsigned int reads = 0; reads < 4; reads++) {
		set_up();
		rig.b.space = 0;
		for (uint32_t msn = 1; msn <= reads; msn++)
			rig_inject_read(&rig.b, msn,
			                &(struct rdmap_read_req){.len_bytes = 8,
			                                         .src_stag = reg.all->stag,
			                                         .src_to = BASE});
		for (uint32_t msn = reads + 1; msn <= 5; msn++)
			inject_len(msn, ADD, reg.all->stag, BASE, 52);
		rig.b.space = UINT32_MAX;
		EXPECT_TERM(1, 2, 2);
		tear_down(); /* no request was carried out */
	}
}

/* A refused request behind others: those are answered first, and requests behind it are dropped. */
static void
test_failure_in_order(void)
{
	uint8_t seg[18], resp[30] = {0x41, 0x4b, [9] = 3, [13] = 1, [20] = 0x12, [21] = 0x34};

	set_up();
	rig.b.space = 0;
	inject_len(1, ADD, reg.all->stag, BASE, 52);
	inject_len(2, ADD, reg.all->stag, BASE + 4, 52);
	memcpy(seg, rig.last, 18);
	inject_len(3, ADD, reg.all->stag, BASE + 8, 52);
	rig_pump();
	CHECK(mem[0] != 0x7777777777777777 && mem[1] == 0x7777777777777777);
	rig.b.space = UINT32_MAX;
	rig_pump();
	memset(resp + 22, 0x77, 8);
	EXPECT_ULPDU(&rig.b, resp, 30);
	expect_term(__LINE__, 2, 0, 7, seg, 70);
	mem[0] = 0x7777777777777777;
	tear_down();
}

/* ---- Responders that send wrong responses ---- */

static struct weft_rdmap_req out_req[4];

static void
post_out(uint8_t op, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		out_req[i] = (struct weft_rdmap_req){.op = op,
		                                     .len_bytes = 8,
		                                     .stag = 0x99,
		                                     .to = 64,
		                                     .flush_flags = WEFT_FLUSH_VISIBLE,
		                                     .sink_stag = reg.all->stag,
		                                     .sink_to = BASE};
		weft_rdmap_post(rig.b.r, &out_req[i]);
	}
	rig_pump();
	for (unsigned int i = 0; i < n; i++)
		free(rig_pop(&rig.b));
	CHECK(TAILQ_EMPTY(&rig.b.out));
}

static void
answer_len(uint32_t msn, uint32_t id, uint64_t orig, uint32_t len)
{
	uint8_t p[16] = {0};

	rdmap_atomic_resp_encode(&(struct rdmap_atomic_resp){.id = id, .orig = orig}, p);
	rig_inject_untagged(&rig.b, 0x4b, 3, msn, 0, true, 0, p, len);
}

#define ANSWER(id) answer_len(1, id, 5, 12)

#define ANSWER_CASE(op, inject, layer, etype, code)                                                \
	do {                                                                                       \
		set_up();                                                                          \
		post_out(op, 2);                                                                   \
		inject;                                                                            \
		EXPECT_TERM(layer, etype, code);                                                   \
		CHECK_EQ(rig_status(&rig.b, &out_req[0]), WEFT_RDMAP_FLUSHED);                     \
		CHECK_EQ(rig_status(&rig.b, &out_req[1]), WEFT_RDMAP_FLUSHED);                     \
		CHECK_EQ(out_req[0].atomic.orig, 0);                                               \
		tear_down();                                                                       \
	} while (0)

static void
test_lying_responder(void)
{
	static const uint8_t atomic = WEFT_RDMAP_ATOMIC_REQ;

	/* without a request */
	CASE(ANSWER(1), 1, 2, 2);
	/* with the identifier of another request, of a later one, of none (s5.2.2 rule 7) */
	ANSWER_CASE(atomic, ANSWER(2), 0, 2, 0xff);
	ANSWER_CASE(atomic, ANSWER(0), 0, 2, 0xff);
	ANSWER_CASE(atomic, ANSWER(3), 0, 2, 0xff);
	ANSWER_CASE(atomic, ANSWER(0x01000000), 0, 2, 0xff);
	/* a response of another kind than the request */
	ANSWER_CASE(WEFT_RDMAP_FLUSH_REQ, ANSWER(1), 0, 2, 6);
	ANSWER_CASE(WEFT_RDMAP_READ_REQ, ANSWER(1), 0, 2, 6);
	ANSWER_CASE(atomic, rig_inject_untagged(&rig.b, 0x4d, 3, 1, 0, true, 0, NULL, 0), 0, 2, 6);
	ANSWER_CASE(atomic, rig_inject_untagged(&rig.b, 0x4f, 3, 1, 0, true, 0, mem, 8), 0, 2, 6);
	/* of the wrong length; out of sequence */
	ANSWER_CASE(atomic, answer_len(1, 1, 5, 11), 0, 2, 0xff);
	ANSWER_CASE(atomic, answer_len(1, 1, 5, 13), 1, 2, 5);
	ANSWER_CASE(atomic, answer_len(2, 1, 5, 12), 1, 2, 3);

	/* the first response is accepted, the same response again is not */
	set_up();
	post_out(atomic, 3);
	ANSWER(1);
	CHECK_EQ(rig_status(&rig.b, &out_req[0]), WEFT_RDMAP_OK);
	CHECK_EQ(out_req[0].atomic.orig, 5);
	answer_len(2, 1, 5, 12);
	EXPECT_TERM(0, 2, 0xff);
	CHECK_EQ(rig_status(&rig.b, &out_req[1]), WEFT_RDMAP_FLUSHED);
	tear_down();
}

/* Identifiers follow the MSNs of their queue, over all kinds of requests. */
static void
test_identifiers(void)
{
	set_up();
	rig.b.ddp->tx_msn[1] = UINT32_MAX - 1;
	post_out(WEFT_RDMAP_FLUSH_REQ, 1);
	rig_inject_untagged(&rig.b, 0x4d, 3, 1, 0, true, 0, NULL, 0);
	CHECK_EQ(rig_status(&rig.b, &out_req[0]), WEFT_RDMAP_OK);
	rig.b.nev = 0;
	post_out(WEFT_RDMAP_ATOMIC_REQ, 3);
	answer_len(2, UINT32_MAX, 7, 12);
	answer_len(3, 0, 8, 12);
	answer_len(4, 1, 9, 12);
	for (unsigned int i = 0; i < 3; i++) {
		CHECK_EQ(rig_status(&rig.b, &out_req[i]), WEFT_RDMAP_OK);
		CHECK_EQ(out_req[i].atomic.orig, 7 + i);
	}
	tear_down();
}

/* ---- The peer's Terminate ---- */

static void
test_received(void)
{
	static const struct {
		uint8_t word[2];
		enum weft_rdmap_status status;
	} rows[] = {
	        {{0x02, 0x07}, WEFT_RDMAP_REMOTE_OP},     /* unaligned */
	        {{0x02, 0x06}, WEFT_RDMAP_REMOTE_OP},     /* s1.1: not supported */
	        {{0x01, 0x02}, WEFT_RDMAP_REMOTE_ACCESS}, /* without the right */
	        {{0x01, 0x01}, WEFT_RDMAP_REMOTE_ACCESS},
	};

	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		uint8_t t[24] = {[2] = 0xc0, [5] = 70, 0x41, 0x4a, [15] = 1, [19] = 2};

		set_up();
		post_out(WEFT_RDMAP_ATOMIC_REQ, 3);
		memcpy(t, rows[i].word, 2);
		rig_inject_untagged(&rig.b, 0x47, 2, 1, 0, true, 0, t, sizeof(t));
		rig_pump();
		CHECK_EQ(rig_status(&rig.b, &out_req[0]), WEFT_RDMAP_FLUSHED);
		CHECK_EQ(rig_status(&rig.b, &out_req[1]), rows[i].status);
		CHECK_EQ(rig_status(&rig.b, &out_req[2]), WEFT_RDMAP_FLUSHED);
		tear_down();
	}
}

/* A request in two segments is unusual and legal. It is carried out when it is complete. */
static void
test_split(void)
{
	uint8_t p[52], resp[30] = {0x41, 0x4b, [9] = 3, [13] = 1, [21] = 9};

	for (uint32_t cut = 0; cut <= 52; cut++) {
		set_up();
		rdmap_atomic_req_encode(&(struct rdmap_atomic_req){.aop = SWAP,
		                                                   .id = 9,
		                                                   .stag = reg.all->stag,
		                                                   .to = BASE,
		                                                   .data = 1,
		                                                   .mask = UINT64_MAX,
		                                                   .cmp_mask = UINT64_MAX},
		                        p);
		rig_inject_untagged(&rig.b, 0x4a, 1, 1, 0, false, 0, p, cut);
		rig_pump();
		CHECK(TAILQ_EMPTY(&rig.b.out));
		rig_inject_untagged(&rig.b, 0x4a, 1, 1, cut, true, 0, p + cut, 52 - cut);
		rig_pump();
		memset(resp + 22, 0x77, 8);
		EXPECT_ULPDU(&rig.b, resp, 30);
		tear_down(); /* the values differ: nothing changed */
	}
}

/* The stream is destroyed in the up-call that delivers the result. */
static void
test_destroy_in_done(void)
{
	struct weft_rdmap_req q[2];

	row_open();
	for (unsigned int i = 0; i < 2; i++) {
		q[i] = op_add(row.mr, 0, 1, 0);
		weft_rdmap_post(rig.a.r, &q[i]);
	}
	rig.a.destroy_at = 1;
	rig_pump();
	CHECK(rig.a.r == NULL);
	CHECK_EQ(q[0].atomic.orig, 0);
	row_close();
}

WEFT_TEST_MAIN({"wire_form", test_wire_form}, {"results", test_results},
               {"strict_order", test_strict_order}, {"order_table", test_order_table},
               {"fence", test_fence}, {"once", test_once}, {"revoked", test_revoked},
               {"errors", test_errors}, {"alignment", test_alignment}, {"ird", test_ird},
               {"failure_in_order", test_failure_in_order},
               {"lying_responder", test_lying_responder}, {"identifiers", test_identifiers},
               {"received", test_received}, {"split", test_split},
               {"destroy_in_done", test_destroy_in_done})
