/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Every Terminate that weft sends, octet by octet, and the effect of the peer's
 * Terminates. */

#include <stdlib.h>

#include "rdmap_rig.h"

#define MEM_BYTES 8192
#define BASE      0x10000ull

static uint8_t mem[MEM_BYTES] __rte_aligned(64);
static struct weft_mem_pd other_pd;

/* Regions of b, one for each cause of refusal. */
static struct {
	struct weft_mem_mr *all, *none, *alien;
} reg;

#define ALL                                                                                        \
	(WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |            \
	 WEFT_ACCESS_FLUSH_PERSISTENT | WEFT_ACCESS_FLUSH_VISIBLE | WEFT_ACCESS_VERIFY)

static struct rig_medium med;

static void
set_up(void)
{
	struct weft_mem_attr a = {.addr = mem,
	                          .len_bytes = MEM_BYTES,
	                          .base_to = BASE,
	                          .access = WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |
	                                    WEFT_ACCESS_FLUSH_VISIBLE};

	rig_open(4, 4, true);
	rig_medium_open(&med, MEM_BYTES);
	memset(mem, 0x77, sizeof(mem));
	memset(med.p.base, 0x77, MEM_BYTES);
	reg.all = rig_reg(&rig.b, med.p.base, MEM_BYTES, BASE, ALL, &med.p, &rig_hash);
	reg.none = rig_reg(&rig.b, mem, MEM_BYTES, BASE, WEFT_ACCESS_LOCAL_WRITE, NULL, NULL);
	other_pd = (struct weft_mem_pd){.mem = rig.b.mem};
	CHECK_EQ(weft_mem_reg(rig.b.mem, &other_pd, &a, &reg.alien), 0);
}

static void
tear_down(void)
{
	/* no octet has changed */
	for (unsigned int i = 0; i < MEM_BYTES; i++)
		CHECK(mem[i] == 0x77 && med.p.base[i] == 0x77);
	rig_unreg(&rig.b, reg.all);
	rig_unreg(&rig.b, reg.none);
	rig_unreg(&rig.b, reg.alien);
	rig_close();
	rig_medium_close(&med);
}

enum echo { ECHO_NONE, ECHO_DDP, ECHO_RDMA };

/* Check that b's next message is this Terminate, with the echo of segment `seg`, then FIN and
 * nothing more. */
static void
expect_term_of(int line, uint8_t layer, uint8_t etype, uint8_t code, enum echo echo,
               const uint8_t *seg, uint32_t seg_bytes)
{
	uint8_t u[128] = {0x41, 0x47};
	uint32_t n = 18, hdr = seg[0] & 0x80 ? 14 : 18;
	const struct rig_ev *e;

	weft_put_be32(u + 6, 2);
	weft_put_be32(u + 10, 1);
	u[n++] = (uint8_t)(layer << 4 | etype);
	u[n++] = code;
	u[n++] = echo == ECHO_RDMA ? 0xe0 : echo == ECHO_DDP ? 0xc0 : 0;
	u[n++] = 0;
	if (echo != ECHO_NONE) {
		weft_put_be16(u + n, (uint16_t)seg_bytes);
		memcpy(u + n + 2, seg, hdr);
		n += 2 + hdr;
	}
	if (echo == ECHO_RDMA) {
		memcpy(u + n, seg + 18, 28);
		n += 28;
	}
	rig_pump();
	rig_expect(__FILE__, line, &rig.b, u, n);
	if (!rig.b.fin || !TAILQ_EMPTY(&rig.b.out))
		test_fail(__FILE__, line, "no FIN right behind it");
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_TERMINATE);
	e = rig_ev(&rig.b, EV_STATE, 1);
	CHECK(e != NULL && e->status == WEFT_RDMAP_ST_TERMINATE && e->has_term && e->ours);
	CHECK(e->term.layer == layer && e->term.etype == etype && e->term.code == code);
	CHECK_EQ(weft_rdmap_stats(rig.b.r)->terminates_out, 1);
	/* the stream drops all that arrives later */
	rig_inject_tagged(&rig.b, 0x40, reg.all->stag, BASE, true, "xxxx", 4);
	rig_inject_untagged(&rig.b, 0x43, 0, 1, 0, true, 0, "x", 1);
	rig_pump();
	CHECK(TAILQ_EMPTY(&rig.b.out));
	/* the peer does not close, so the connection is reset after five seconds */
	rig_advance(4 * WEFT_NS_PER_S);
	CHECK(!rig.b.aborted);
	rig_advance(2 * WEFT_NS_PER_S);
	CHECK(rig.b.aborted);
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_ERROR);
	CHECK_EQ(rig_ev(&rig.b, EV_CLOSED, 0)->status, -ETIMEDOUT);
	CHECK_EQ(rig_ev_count(&rig.b, EV_CLOSED), 1);
}

#define EXPECT_TERM(layer, etype, code, echo)                                                      \
	do {                                                                                       \
		uint8_t seg_[64];                                                                  \
		memcpy(seg_, rig.last, 64);                                                        \
		expect_term_of(__LINE__, layer, etype, code, echo, seg_, rig.last_bytes);          \
	} while (0)

/* One stream, one injected message, one Terminate. */
#define CASE(inject, layer, etype, code, echo)                                                     \
	do {                                                                                       \
		set_up();                                                                          \
		inject;                                                                            \
		EXPECT_TERM(layer, etype, code, echo);                                             \
		tear_down();                                                                       \
	} while (0)

#define PLACE(op, stag, to, len, rest, n) rig_inject_place(&rig.b, op, 1, stag, to, len, rest, n)
#define TAGGED(ctrl, stag, to, p, n)      rig_inject_tagged(&rig.b, ctrl, stag, to, true, p, n)
#define UNTAGGED(ctrl, qn, p, n)          rig_inject_untagged(&rig.b, ctrl, qn, 1, 0, true, 0, p, n)

static void
test_version(void)
{
	static const uint8_t rv[] = {0x00, 0x80, 0xc0};

	for (unsigned int i = 0; i < 3; i++) {
		CASE(TAGGED(rv[i], reg.all->stag, BASE, "abcd", 4), 0, 2, 5, ECHO_DDP);
		CASE(UNTAGGED(rv[i] | 3, 0, "abcd", 4), 0, 2, 5, ECHO_DDP);
		CASE(UNTAGGED(rv[i] | 1, 1, "abcd", 4), 0, 2, 5, ECHO_DDP);
	}
}

static void
test_opcode(void)
{
	static const uint8_t untagged_qn[32] = {
	        [1] = 2,   [3] = 1,   [4] = 1,    [5] = 1,   [6] = 1,   [7] = 3,
	        [8] = 1,   [9] = 1,   [0xa] = 2,  [0xb] = 4, [0xc] = 2, [0xd] = 4,
	        [0xe] = 2, [0xf] = 4, [0x10] = 2, [0x11] = 4};

	/* opcodes of four bits: test_conform_opcode.c has all of five bits */
	for (uint8_t op = 0; op < 0x10; op++) {
		/* each opcode on every wrong queue, and tagged if it is not a tagged opcode */
		for (uint8_t qn = 0; qn < 4; qn++)
			if (untagged_qn[op] != qn + 1)
				CASE(UNTAGGED(0x40 | op, qn, NULL, 0), 0, 2, 6, ECHO_DDP);
		if (op != 0)
			CASE(TAGGED(0x40 | op, reg.all->stag, BASE, "abcd", 4), 0, 2, 6, ECHO_DDP);
	}
}

static void
write_stale(void)
{
	uint32_t stag = reg.none->stag;

	rig_unreg(&rig.b, reg.none);
	rig_pump();
	reg.none = rig_reg(&rig.b, mem, MEM_BYTES, BASE, WEFT_ACCESS_LOCAL_WRITE, NULL, NULL);
	TAGGED(0x40, stag, BASE, "abcd", 4);
}

static void
test_write(void)
{
	CASE(TAGGED(0x40, 0x12345678, BASE, "abcd", 4), 1, 1, 0, ECHO_DDP);
	CASE(write_stale(), 1, 1, 0, ECHO_DDP);
	CASE(TAGGED(0x40, reg.all->stag, BASE - 1, "abcd", 4), 1, 1, 1, ECHO_DDP);
	CASE(TAGGED(0x40, reg.all->stag, BASE + MEM_BYTES - 3, "abcd", 4), 1, 1, 1, ECHO_DDP);
	CASE(TAGGED(0x40, reg.alien->stag, BASE, "abcd", 4), 1, 1, 2, ECHO_DDP);
	CASE(TAGGED(0x40, reg.all->stag, UINT64_MAX - 2, "abcd", 4), 1, 1, 3, ECHO_DDP);
	CASE(TAGGED(0x40, reg.none->stag, BASE, "abcd", 4), 0, 1, 2, ECHO_DDP);
}

static void
test_ddp(void)
{
	static const uint8_t v0[14] = {0xc0, 0x40}, v2[18] = {0x42, 0x43}, runt[5] = {0x41};

	CASE(UNTAGGED(0x43, 4, "abcd", 4), 1, 2, 1, ECHO_DDP);
	CASE(UNTAGGED(0x43, 0x80000000, "abcd", 4), 1, 2, 1, ECHO_DDP);
	CASE(UNTAGGED(0x43, 0, "abcd", 4), 1, 2, 2, ECHO_DDP);
	CASE(rig_inject_untagged(&rig.b, 0x43, 0, 2, 0, true, 0, "abcd", 4), 1, 2, 3, ECHO_DDP);
	CASE(rig_inject_untagged(&rig.b, 0x43, 0, 1, 9, true, 0, "abcd", 4), 1, 2, 4, ECHO_DDP);
	/* draft-talpey-rdma-commit-02 appendix A has the MO "ignored"; RFC 5041 does not, and weft
	 * checks it */
	CASE(rig_inject_untagged(&rig.b, 0x4c, 1, 1, 9, true, 0, mem, 20), 1, 2, 4, ECHO_DDP);
	CASE(rig_inject(&rig.b, v0, 14), 1, 1, 4, ECHO_DDP);
	CASE(rig_inject(&rig.b, v2, 18), 1, 2, 6, ECHO_DDP);
	CASE(rig_inject(&rig.b, runt, 5), 1, 0, 0, ECHO_NONE);
	CASE(weft_ddp_mpa_ops.fault(rig.b.ddp, &(struct weft_term){2, 0, WEFT_MPA_ERR_CRC}), 2, 0,
	     WEFT_MPA_ERR_CRC, ECHO_NONE);
}

static void
send_segments(uint32_t first, uint8_t op2, uint32_t second)
{
	static uint8_t zero[8192];

	rig_post_recv(&rig.b, 1);
	rig_inject_untagged(&rig.b, 0x43, 0, 1, 0, false, 0, zero, first);
	rig_inject_untagged(&rig.b, op2, 0, 1, first, true, 0, zero, second);
}

static void
test_send(void)
{
	const struct rig_ev *e;

	set_up();
	rig.b.recv_size = 100;
	send_segments(50, 0x43, 51);
	EXPECT_TERM(1, 2, 5, ECHO_DDP);
	e = rig_ev(&rig.b, EV_RECV, 0);
	CHECK(e != NULL && e->status == WEFT_RDMAP_LOCAL_LENGTH && e->len_bytes == 50);
	CHECK_EQ(rig_ev_count(&rig.b, EV_RECV), 1);
	tear_down();

	set_up(); /* another kind of Send in the middle of one; its receive is returned */
	send_segments(50, 0x45, 10);
	EXPECT_TERM(0, 2, 6, ECHO_DDP);
	e = rig_ev(&rig.b, EV_RECV, 0);
	CHECK(e != NULL && e->status == WEFT_RDMAP_FLUSHED);
	tear_down();

	set_up(); /* s4.8 Figure 10: no RDMA header, which only a Read Request has */
	rig.b.inv_rc = -1;
	rig_post_recv(&rig.b, 1);
	rig_inject_untagged(&rig.b, 0x44, 0, 1, 0, true, 0xfeed, "abcd", 4);
	EXPECT_TERM(0, 1, 9, ECHO_DDP);
	CHECK_EQ(rig.b.inv_stag, 0xfeed);
	CHECK_EQ(rig_ev(&rig.b, EV_RECV, 0)->status, WEFT_RDMAP_FLUSHED);
	tear_down();
}

#define READ(stag, to, len)                                                                        \
	rig_inject_read(&rig.b, 1,                                                                 \
	                &(struct rdmap_read_req){.sink_stag = 7,                                   \
	                                         .sink_to = 8,                                     \
	                                         .len_bytes = len,                                 \
	                                         .src_stag = stag,                                 \
	                                         .src_to = to})

static void
test_read_req(void)
{
	static const uint8_t zero[64];

	CASE(READ(0x12345678, BASE, 4), 0, 1, 0, ECHO_RDMA);
	CASE(READ(reg.all->stag, BASE - 1, 4), 0, 1, 1, ECHO_RDMA);
	CASE(READ(reg.all->stag, BASE + MEM_BYTES - 3, 4), 0, 1, 1, ECHO_RDMA);
	CASE(READ(reg.all->stag, BASE, UINT32_MAX), 0, 1, 1, ECHO_RDMA);
	CASE(READ(reg.none->stag, BASE, 4), 0, 1, 2, ECHO_RDMA);
	CASE(READ(reg.alien->stag, BASE, 4), 0, 1, 3, ECHO_RDMA);
	CASE(READ(reg.all->stag, UINT64_MAX, 4), 0, 1, 4, ECHO_RDMA);
	CASE(UNTAGGED(0x41, 1, zero, 27), 0, 2, 0xff, ECHO_DDP);
	CASE(UNTAGGED(0x41, 1, zero, 29), 1, 2, 5, ECHO_DDP);
}

static void
flush_flags(uint32_t stag, uint64_t to, uint32_t len, uint32_t flags)
{
	uint8_t f[4];

	weft_put_be32(f, flags);
	PLACE(WEFT_RDMAP_FLUSH_REQ, stag, to, len, f, 4);
}

static void
flush_failing(int err, bool immediate)
{
	med.flush_err = err;
	med.immediate = immediate;
	flush_flags(reg.all->stag, BASE + 8, 100, 1);
}

static void
test_flush(void)
{
	static const uint8_t zero[64];
	const struct rig_ev *e;

	CASE(flush_flags(0x12345678, BASE, 4, 1), 0, 1, 0, ECHO_DDP);
	CASE(flush_flags(0x12345678, BASE, 0, 4 | 1), 0, 1, 0, ECHO_DDP);
	CASE(flush_flags(0x12345678, BASE, 0, 1), 0, 1, 0, ECHO_DDP);
	CASE(flush_flags(reg.all->stag, BASE + MEM_BYTES, 1, 2), 0, 1, 1, ECHO_DDP);
	CASE(flush_flags(reg.none->stag, BASE, 4, 1), 0, 1, 2, ECHO_DDP);
	CASE(flush_flags(reg.none->stag, BASE, 4, 2), 0, 1, 2, ECHO_DDP);
	CASE(flush_flags(reg.none->stag, BASE, 0, 2), 0, 1, 2, ECHO_DDP);
	CASE(flush_flags(reg.alien->stag, BASE, 4, 2), 0, 1, 3, ECHO_DDP);
	CASE(flush_flags(reg.all->stag, UINT64_MAX - 1, 4, 2), 0, 1, 4, ECHO_DDP);
	CASE(flush_flags(reg.all->stag, BASE, 4, 0), 0, 2, 0xff, ECHO_DDP);
	CASE(flush_flags(reg.all->stag, BASE, 4, 4), 0, 2, 0xff, ECHO_DDP);
	CASE(flush_flags(reg.all->stag, BASE, 4, 9), 0, 2, 0xff, ECHO_DDP);
	CASE(flush_flags(reg.all->stag, BASE, 4, 0x80000001), 0, 2, 0xff, ECHO_DDP);
	CASE(UNTAGGED(0x4c, 1, zero, 19), 0, 2, 0xff, ECHO_DDP);
	CASE(UNTAGGED(0x4c, 1, zero, 21), 1, 2, 5, ECHO_DDP);
	for (int immediate = 0; immediate < 2; immediate++) {
		set_up();
		flush_failing(-EIO, immediate);
		EXPECT_TERM(0, 2, WEFT_TERM_OP_FLUSH_FAILED, ECHO_DDP);
		e = rig_ev(&rig.b, EV_BAD_RANGE, 0);
		CHECK(e != NULL && e->status == WEFT_TERM_OP_FLUSH_FAILED);
		CHECK(e->to == BASE + 8 && e->len_bytes == 100);
		tear_down();
	}
}

static void
verify_hash(const void *hash, uint32_t hash_len)
{
	PLACE(WEFT_RDMAP_VERIFY_REQ, reg.all->stag, BASE + 8, 100, hash, hash_len);
}

static void
verify_read_error(void)
{
	med.read_err = -EIO;
	verify_hash(NULL, 0);
}

static void
test_verify(void)
{
	static const uint8_t zero[128];
	uint8_t good[8];
	const struct rig_ev *e;

	CASE(PLACE(WEFT_RDMAP_VERIFY_REQ, 0x12345678, BASE, 4, NULL, 0), 0, 1, 0, ECHO_DDP);
	CASE(PLACE(WEFT_RDMAP_VERIFY_REQ, reg.all->stag, BASE + 1, MEM_BYTES, NULL, 0), 0, 1, 1,
	     ECHO_DDP);
	CASE(PLACE(WEFT_RDMAP_VERIFY_REQ, reg.none->stag, BASE, 4, NULL, 0), 0, 1, 2, ECHO_DDP);
	CASE(PLACE(WEFT_RDMAP_VERIFY_REQ, reg.none->stag, BASE, 0, NULL, 0), 0, 1, 2, ECHO_DDP);
	CASE(PLACE(WEFT_RDMAP_VERIFY_REQ, reg.alien->stag, BASE, 4, NULL, 0), 0, 1, 3, ECHO_DDP);
	CASE(PLACE(WEFT_RDMAP_VERIFY_REQ, reg.all->stag, UINT64_MAX, 4, NULL, 0), 0, 1, 4,
	     ECHO_DDP);
	CASE(verify_hash(zero, 7), 0, 2, 0xff, ECHO_DDP);
	CASE(verify_hash(zero, 9), 0, 2, 0xff, ECHO_DDP);
	CASE(verify_hash(zero, 64), 0, 2, 0xff, ECHO_DDP);
	CASE(verify_hash(zero, 65), 1, 2, 5, ECHO_DDP);
	CASE(UNTAGGED(0x4e, 1, zero, 15), 0, 2, 0xff, ECHO_DDP);
	CASE(verify_hash(zero, 8), 0, 2, WEFT_TERM_OP_HASH_MISMATCH, ECHO_DDP);
	CASE(verify_read_error(), 0, 2, WEFT_TERM_OP_VERIFY_FAILED, ECHO_DDP);

	/* the medium changes and memory does not */
	set_up();
	memcpy(med.shadow, med.p.base, MEM_BYTES);
	{
		struct weft_hash_state st;

		rig_hash.init(&st, NULL, 0);
		rig_hash.update(&st, med.p.base + 8, 100);
		rig_hash.final(&st, good);
	}
	verify_hash(good, 8);
	rig_pump();
	{
		uint8_t u[26] = {0x41, 0x4f, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1};

		memcpy(u + 18, good, 8);
		EXPECT_ULPDU(&rig.b, u, 26);
	}
	med.shadow[107] ^= 1;
	rig_inject_place(&rig.b, WEFT_RDMAP_VERIFY_REQ, 2, reg.all->stag, BASE + 8, 100, good, 8);
	EXPECT_TERM(0, 2, WEFT_TERM_OP_HASH_MISMATCH, ECHO_DDP);
	e = rig_ev(&rig.b, EV_BAD_RANGE, 0);
	CHECK(e != NULL && e->status == WEFT_TERM_OP_HASH_MISMATCH && e->to == BASE + 8);
	tear_down();
}

#define AWRITE(stag, to, len) PLACE(WEFT_RDMAP_AWRITE_REQ, stag, to, len, "ABCDEFGH", 8)

static void
test_atomic_write(void)
{
	CASE(AWRITE(0x12345678, BASE, 8), 0, 1, 0, ECHO_DDP);
	CASE(AWRITE(reg.all->stag, BASE + MEM_BYTES, 8), 0, 1, 1, ECHO_DDP);
	CASE(AWRITE(reg.all->stag, BASE - 8, 8), 0, 1, 1, ECHO_DDP);
	CASE(AWRITE(reg.none->stag, BASE, 8), 0, 1, 2, ECHO_DDP);
	CASE(AWRITE(reg.alien->stag, BASE, 8), 0, 1, 3, ECHO_DDP);
	CASE(AWRITE(reg.all->stag, UINT64_MAX - 3, 8), 0, 1, 4, ECHO_DDP);
	CASE(AWRITE(reg.all->stag, BASE, 7), 0, 2, 0xff, ECHO_DDP);
	CASE(AWRITE(reg.all->stag, BASE, 16), 0, 2, 0xff, ECHO_DDP);
	CASE(AWRITE(reg.all->stag, BASE, 0), 0, 2, 0xff, ECHO_DDP);
	for (uint64_t off = 1; off < 8; off++)
		CASE(AWRITE(reg.all->stag, BASE + off, 8), 0, 2, 7, ECHO_DDP);
	CASE(PLACE(WEFT_RDMAP_AWRITE_REQ, reg.all->stag, BASE, 8, "ABCDEFG", 7), 0, 2, 0xff,
	     ECHO_DDP);
	CASE(PLACE(WEFT_RDMAP_AWRITE_REQ, reg.all->stag, BASE, 8, "ABCDEFGHI", 9), 1, 2, 5,
	     ECHO_DDP);
}

static void
overflow(void)
{
	med.eagain = 1000;
	for (uint32_t msn = 1; msn <= 5; msn++)
		rig_inject_place(&rig.b, WEFT_RDMAP_FLUSH_REQ, msn, reg.all->stag, BASE, 4,
		                 "\0\0\0\1", 4);
}

static void
test_ird(void)
{
	CASE(overflow(), 1, 2, 2, ECHO_DDP);
}

/* A failing Verify stops the Atomic Write behind it. Requests before it are answered first. */
static void
test_failure_in_order(void)
{
	static const uint8_t flushed[18] = {0x41, 0x4d, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1};
	uint8_t seg[64];
	uint32_t len;

	set_up();
	med.eagain = 3;
	rig_inject_place(&rig.b, WEFT_RDMAP_FLUSH_REQ, 1, reg.all->stag, BASE, 4, "\0\0\0\1", 4);
	rig_inject_place(&rig.b, WEFT_RDMAP_VERIFY_REQ, 2, reg.all->stag, BASE, 100, "12345678", 8);
	memcpy(seg, rig.last, 64);
	len = rig.last_bytes;
	rig_inject_place(&rig.b, WEFT_RDMAP_AWRITE_REQ, 3, reg.all->stag, BASE, 8, "ABCDEFGH", 8);
	rig_pump();
	EXPECT_ULPDU(&rig.b, flushed, 18);
	expect_term_of(__LINE__, 0, 2, WEFT_TERM_OP_HASH_MISMATCH, ECHO_DDP, seg, len);
	tear_down();

	/* the same for a request that is refused on arrival: a Read without the right, behind a
	 * slow Flush */
	set_up();
	med.eagain = 3;
	rig_inject_place(&rig.b, WEFT_RDMAP_FLUSH_REQ, 1, reg.all->stag, BASE, 4, "\0\0\0\1", 4);
	rig_inject_read(&rig.b, 2,
	                &(struct rdmap_read_req){.sink_stag = 0x0a0b0c0d,
	                                         .sink_to = 0x1112131415161718,
	                                         .len_bytes = 4,
	                                         .src_stag = reg.none->stag,
	                                         .src_to = BASE});
	memcpy(seg, rig.last, 64);
	len = rig.last_bytes;
	CHECK(TAILQ_EMPTY(&rig.b.out));
	/* later requests are dropped, even beyond IRD */
	for (uint32_t msn = 3; msn < 12; msn++)
		rig_inject_place(&rig.b, WEFT_RDMAP_AWRITE_REQ, msn, reg.all->stag, BASE, 8,
		                 "ABCDEFGH", 8);
	rig_pump();
	EXPECT_ULPDU(&rig.b, flushed, 18);
	expect_term_of(__LINE__, 0, 1, 2, ECHO_RDMA, seg, len);
	tear_down();
}

/* A Terminate without space waits for it, and nothing is sent before it. */
static void
test_terminate_waits(void)
{
	struct weft_rdmap_req w = {
	        .op = WEFT_RDMAP_WRITE, .nsge = 1, .sge = {{mem, 8}}, .len_bytes = 8};

	set_up();
	rig.b.space = 0;
	TAGGED(0x40, 0x12345678, BASE, "abcd", 4);
	weft_rdmap_post(rig.b.r, &w);
	rig_pump();
	CHECK(TAILQ_EMPTY(&rig.b.out) && !rig.b.fin);
	CHECK_EQ(rig_status(&rig.b, &w), WEFT_RDMAP_FLUSHED);
	rig.b.space = 1;
	EXPECT_TERM(1, 1, 0, ECHO_DDP);
	tear_down();
}

/* ---- The requester ---- */

static struct weft_rdmap_req out_req[4];

static void
post_out(uint8_t op, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		out_req[i] = (struct weft_rdmap_req){.op = op,
		                                     .len_bytes = 8,
		                                     .stag = 0x99,
		                                     .to = 64,
		                                     .flush_flags = 1,
		                                     .sink_stag = reg.all->stag,
		                                     .sink_to = BASE + 8 * i};
		weft_rdmap_post(rig.b.r, &out_req[i]);
	}
	rig_pump();
	for (unsigned int i = 0; i < n; i++)
		free(rig_pop(&rig.b));
	CHECK(TAILQ_EMPTY(&rig.b.out));
}

#define RESP_CASE(op, inject, layer, etype, code)                                                  \
	do {                                                                                       \
		set_up();                                                                          \
		post_out(op, 2);                                                                   \
		inject;                                                                            \
		EXPECT_TERM(layer, etype, code, ECHO_DDP);                                         \
		CHECK_EQ(rig_status(&rig.b, &out_req[0]), WEFT_RDMAP_FLUSHED);                     \
		CHECK_EQ(rig_status(&rig.b, &out_req[1]), WEFT_RDMAP_FLUSHED);                     \
		tear_down();                                                                       \
	} while (0)

#define RESP(ctrl, p, n) rig_inject_untagged(&rig.b, ctrl, 3, 1, 0, true, 0, p, n)

static void
test_responses(void)
{
	static const uint8_t zero[128];

	/* without a request */
	CASE(RESP(0x4d, NULL, 0), 1, 2, 2, ECHO_DDP);
	CASE(RESP(0x51, NULL, 0), 1, 2, 2, ECHO_DDP);
	CASE(RESP(0x4f, zero, 8), 1, 2, 2, ECHO_DDP);
	CASE(TAGGED(0x42, reg.all->stag, BASE, zero, 8), 0, 2, 6, ECHO_DDP);
	/* a response of another kind than the request */
	RESP_CASE(WEFT_RDMAP_FLUSH_REQ, RESP(0x51, NULL, 0), 0, 2, 6);
	RESP_CASE(WEFT_RDMAP_FLUSH_REQ, RESP(0x4f, zero, 8), 0, 2, 6);
	RESP_CASE(WEFT_RDMAP_READ_REQ, RESP(0x4d, NULL, 0), 0, 2, 6);
	RESP_CASE(WEFT_RDMAP_FLUSH_REQ, TAGGED(0x42, reg.all->stag, BASE, zero, 8), 0, 2, 6);
	/* of the wrong length */
	RESP_CASE(WEFT_RDMAP_FLUSH_REQ, RESP(0x4d, zero, 1), 1, 2, 5);
	RESP_CASE(WEFT_RDMAP_AWRITE_REQ, RESP(0x51, zero, 1), 1, 2, 5);
	RESP_CASE(WEFT_RDMAP_VERIFY_REQ, RESP(0x4f, NULL, 0), 0, 2, 0xff);
	RESP_CASE(WEFT_RDMAP_VERIFY_REQ, RESP(0x4f, zero, 65), 1, 2, 5);
	/* a Read Response to another STag or TO, too long, too short */
	RESP_CASE(WEFT_RDMAP_READ_REQ, TAGGED(0x42, reg.none->stag, BASE, zero, 8), 1, 1, 0);
	RESP_CASE(WEFT_RDMAP_READ_REQ, TAGGED(0x42, reg.all->stag, BASE + 1, zero, 7), 1, 1, 1);
	RESP_CASE(WEFT_RDMAP_READ_REQ, TAGGED(0x42, reg.all->stag, BASE, zero, 9), 1, 1, 1);
	RESP_CASE(WEFT_RDMAP_READ_REQ, TAGGED(0x42, reg.all->stag, BASE, zero, 7), 0, 2, 0xff);
	RESP_CASE(WEFT_RDMAP_READ_REQ, TAGGED(0x42, reg.all->stag, BASE, zero, 0), 0, 2, 0xff);
}

static void
test_sink_gone(void)
{
	static const uint8_t zero[8];

	set_up();
	post_out(WEFT_RDMAP_READ_REQ, 2);
	out_req[0].sink_stag ^= 1u << 31; /* as if the region had been registered again */
	TAGGED(0x42, out_req[0].sink_stag, BASE, zero, 8);
	EXPECT_TERM(1, 1, 0, ECHO_DDP);
	CHECK_EQ(rig_status(&rig.b, &out_req[0]), WEFT_RDMAP_LOCAL_PROT);
	CHECK_EQ(rig_status(&rig.b, &out_req[1]), WEFT_RDMAP_FLUSHED);
	tear_down();
}

/* A response to a Verify with another hash than the expected one is an error. */
static void
test_lying_responder(void)
{
	struct weft_rdmap_req v = {
	        .op = WEFT_RDMAP_VERIFY_REQ, .len_bytes = 8, .hash = "expected", .hash_bytes = 8};

	set_up();
	weft_rdmap_post(rig.b.r, &v);
	rig_pump();
	RESP(0x4f, "computed", 8);
	CHECK_EQ(rig_status(&rig.b, &v), WEFT_RDMAP_HASH_MISMATCH);
	CHECK_MEM(v.hash, "computed", 8);
	tear_down();
}

/* ---- The peer's Terminate ---- */

/* Four requests of kind op are outstanding (MSN 1..4). A Terminate echoes MSN msn. Check their
 * statuses. */
static void
check_received(uint8_t op, const uint8_t word[4], uint32_t msn, bool echo, const int want[4])
{
	uint8_t t[64] = {0};
	uint32_t n = 4;
	const struct rig_ev *e;

	set_up();
	post_out(op, 4);
	memcpy(t, word, 4);
	if (echo) {
		weft_put_be16(t + 4, 46);
		t[6] = 0x41;
		t[7] = 0x40 | op;
		weft_put_be32(t + 12, 1);
		weft_put_be32(t + 16, msn);
		n = 24;
	}
	UNTAGGED(0x47, 2, t, n);
	rig_pump();
	for (unsigned int i = 0; i < 4; i++) {
		CHECK_EQ(rig_status(&rig.b, &out_req[i]), want[i]);
		CHECK(rig_ev(&rig.b, EV_DONE, i)->req == &out_req[i]);
	}
	e = rig_ev(&rig.b, EV_STATE, 1);
	CHECK(e != NULL && e->status == WEFT_RDMAP_ST_TERMINATE && e->has_term && !e->ours);
	CHECK_EQ(e->term.code, word[1]);
	CHECK(rig.b.fin && TAILQ_EMPTY(&rig.b.out));
	CHECK_EQ(weft_rdmap_stats(rig.b.r)->terminates_in, 1);
	/* the peer closes: the stream ends in order */
	weft_ddp_mpa_ops.eof(rig.b.ddp);
	rig.b.live = false;
	rig.b.ddp->mpa->tcp = NULL;
	weft_ddp_mpa_ops.closed(rig.b.ddp, 0);
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_ERROR);
	CHECK_EQ(rig_ev_count(&rig.b, EV_CLOSED), 1);
	tear_down();
}

#define F WEFT_RDMAP_FLUSHED

static void
test_received(void)
{
	/* a Read without the right, with M, D (the R part is cut off, and the code still counts) */
	check_received(WEFT_RDMAP_READ_REQ, (const uint8_t[]){0x01, 2, 0xc0, 0}, 3, true,
	               (const int[]){F, F, WEFT_RDMAP_REMOTE_ACCESS, F});
	check_received(WEFT_RDMAP_READ_REQ, (const uint8_t[]){0x01, 2, 0xe0, 0}, 3, true,
	               (const int[]){F, F, WEFT_RDMAP_REMOTE_ACCESS, F});
	check_received(WEFT_RDMAP_FLUSH_REQ, (const uint8_t[]){0x02, 0x0a, 0xc0, 0}, 1, true,
	               (const int[]){WEFT_RDMAP_REMOTE_OP, F, F, F});
	check_received(WEFT_RDMAP_VERIFY_REQ, (const uint8_t[]){0x02, 0x0b, 0xc0, 0}, 4, true,
	               (const int[]){F, F, F, WEFT_RDMAP_HASH_MISMATCH});
	check_received(WEFT_RDMAP_AWRITE_REQ, (const uint8_t[]){0x02, 0x07, 0xc0, 0}, 2, true,
	               (const int[]){F, WEFT_RDMAP_REMOTE_OP, F, F});
	check_received(WEFT_RDMAP_READ_REQ, (const uint8_t[]){0x12, 0x02, 0xc0, 0}, 4, true,
	               (const int[]){F, F, F, WEFT_RDMAP_REMOTE_OP});
	/* without a header no request is to blame */
	check_received(WEFT_RDMAP_READ_REQ, (const uint8_t[]){0x20, 0x02, 0, 0}, 0, false,
	               (const int[]){F, F, F, F});
	/* siw: swapped layer and type, and a length in place of the MSN: the oldest request is to
	 * blame */
	check_received(WEFT_RDMAP_READ_REQ, (const uint8_t[]){0x10, 0x02, 0x03, 0}, 1000, true,
	               (const int[]){WEFT_RDMAP_REMOTE_ACCESS, F, F, F});
}

/* RFC 6581 s9.1: MPA's code 6 is sent only by an initiator and only as its first message. Otherwise
 * the word is siw's 0/2/06. */
static void
test_received_siw_opcode(void)
{
	static const struct {
		bool initiator;
		unsigned int fpdus_in;
		uint8_t layer, etype;
	} row[] = {{false, 1, 2, 0}, {true, 1, 0, 2}, {false, 2, 0, 2}};

	for (unsigned int i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		const struct rig_ev *e;

		set_up();
		rig.b.ddp->mpa->initiator = row[i].initiator;
		rig.b.ddp->mpa->stats.fpdus_in = row[i].fpdus_in;
		UNTAGGED(0x47, 2, ((uint8_t[]){0x20, 0x06, 0, 0}), 4);
		rig_pump();
		e = rig_ev(&rig.b, EV_STATE, 1);
		CHECK(e != NULL && e->has_term && !e->ours);
		CHECK_EQ(e->term.layer, row[i].layer);
		CHECK_EQ(e->term.etype, row[i].etype);
		CHECK_EQ(e->term.code, 6);
		tear_down();
	}
}

/* MSNs need not start at one: the first of four was answered before. */
static void
test_received_later(void)
{
	uint8_t t[24] = {0x02, 0x0a, 0xc0, 0, 0, 38, 0x41, 0x4c, 0, 0,
	                 0,    0,    0,    0, 0, 1,  0,    0,    0, 3};
	static const int want[] = {WEFT_RDMAP_OK, F, WEFT_RDMAP_REMOTE_OP, F};

	set_up();
	post_out(WEFT_RDMAP_FLUSH_REQ, 4);
	RESP(0x4d, NULL, 0);
	UNTAGGED(0x47, 2, t, sizeof(t));
	rig_pump();
	for (unsigned int i = 0; i < 4; i++)
		CHECK_EQ(rig_status(&rig.b, &out_req[i]), want[i]);
	tear_down();
}

/* A Write or Send is cut off by a Terminate that names it. */
static void
test_received_midway(void)
{
	uint8_t t[24] = {0x11, 0x01, 0xc0, 0, 5, 0xdc, 0x81, 0x40, 0, 0, 0, 9};
	uint8_t u[24] = {0x12, 0x05, 0xc0, 0, 5, 0xdc, 0x01, 0x43, [19] = 1};
	static uint8_t big[10000];

	for (unsigned int i = 0; i < 4; i++) {
		struct weft_rdmap_req w = {.op = i < 2 ? WEFT_RDMAP_WRITE : WEFT_RDMAP_SEND,
		                           .nsge = 1,
		                           .sge = {{big, sizeof(big)}},
		                           .len_bytes = sizeof(big),
		                           .stag = 9,
		                           .to = 1000};
		static const int want[] = {WEFT_RDMAP_REMOTE_ACCESS, F, WEFT_RDMAP_REMOTE_OP, F};

		set_up();
		rig.b.space = 2;
		weft_rdmap_post(rig.b.r, &w);
		rig_pump();
		weft_put_be64(t + 12, i == 1 ? 999 : 1001); /* an offset that was not sent yet */
		u[19] = i == 3 ? 2 : 1;                     /* a different message */
		UNTAGGED(0x47, 2, i < 2 ? t : u, i < 2 ? 20 : 24);
		rig_pump();
		CHECK_EQ(rig_status(&rig.b, &w), want[i]);
		tear_down();
	}
}

/* A Terminate names the next Send, which is not sent yet: it is not to blame. */
static void
test_received_ahead(void)
{
	uint8_t t[24] = {0x12, 0x05, 0xc0, 0, 5, 0xdc, 0x41, 0x43, [19] = 1};
	struct weft_rdmap_req s = {
	        .op = WEFT_RDMAP_SEND, .nsge = 1, .sge = {{mem, 8}}, .len_bytes = 8, .fence = true};

	set_up();
	post_out(WEFT_RDMAP_READ_REQ, 1);
	weft_rdmap_post(rig.b.r, &s);
	rig_pump();
	CHECK(TAILQ_EMPTY(&rig.b.out)); /* the Send waits for the Read */
	UNTAGGED(0x47, 2, t, sizeof(t));
	rig_pump();
	CHECK_EQ(rig_status(&rig.b, &out_req[0]), WEFT_RDMAP_FLUSHED);
	CHECK_EQ(rig_status(&rig.b, &s), WEFT_RDMAP_FLUSHED);
	tear_down();
}

/* An FPDU arrives on a stream that is not started: a Terminate without headers. */
static void
test_not_started(void)
{
	static const uint8_t term[22] = {0x41, 0x47, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1};

	rig.idle = true;
	rig_open(4, 4, true);
	UNTAGGED(0x43, 0, "abcd", 4);
	rig_pump();
	EXPECT_ULPDU(&rig.b, term, 22);
	CHECK(rig.b.fin);
	rig_close();
}

/* A fault that the layer above reports. */
static void
test_from_above(void)
{
	static const struct weft_term t = {2, 0, WEFT_MPA_ERR_IRD};
	static const uint8_t term[22] = {0x41, 0x47, 0, 0, 0, 0, 0, 0,    0, 2, 0,
	                                 0,    0,    1, 0, 0, 0, 0, 0x20, 6, 0, 0};

	rig_open(4, 4, true);
	weft_rdmap_terminate(rig.b.r, &t, rig.now_ns);
	weft_rdmap_terminate(rig.b.r, &t, rig.now_ns);
	EXPECT_ULPDU(&rig.b, term, 22);
	CHECK(rig.b.fin && TAILQ_EMPTY(&rig.b.out));
	CHECK_EQ(rig_ev_count(&rig.b, EV_STATE), 2);
	rig_close();
}

/* Terminates that are too short to decode, or too long, end the stream all the same. */
static void
test_received_odd(void)
{
	static const uint8_t junk[256];

	for (uint32_t n = 0; n <= 256; n += n < 60 ? 1 : 49) {
		set_up();
		post_out(WEFT_RDMAP_FLUSH_REQ, 1);
		UNTAGGED(0x47, 2, junk, n);
		rig_pump();
		CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_TERMINATE);
		CHECK(!rig_ev(&rig.b, EV_STATE, 1)->ours);
		CHECK_EQ(rig_status(&rig.b, &out_req[0]), WEFT_RDMAP_FLUSHED);
		tear_down();
	}
}

/* A request in two segments is unusual and legal. */
static void
test_split_request(void)
{
	static const uint8_t resp[18] = {0x41, 0x51, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1};
	uint8_t p[24];

	set_up();
	weft_put_be32(p, reg.all->stag);
	weft_put_be32(p + 4, 8);
	weft_put_be64(p + 8, BASE + 24);
	memset(p + 16, 0x77, 8);
	rig_inject_untagged(&rig.b, 0x50, 1, 1, 0, false, 0, p, 11);
	rig_inject_untagged(&rig.b, 0x50, 1, 1, 11, true, 0, p + 11, 13);
	rig_pump();
	EXPECT_ULPDU(&rig.b, resp, 18);
	rig_inject_untagged(&rig.b, 0x50, 1, 2, 0, false, 0, p, 11);
	rig_inject_untagged(&rig.b, 0x4c, 1, 2, 11, true, 0, p + 11, 13);
	EXPECT_TERM(0, 2, 6, ECHO_DDP);
	tear_down();
}

/* With ORD 0 a Read can never start. A Terminate is sent in its place (RFC 5040 s7.1). */
static void
test_ord_zero(void)
{
	static const uint8_t term[22] = {0x41, 0x47, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1};
	struct weft_rdmap_req w = {
	        .op = WEFT_RDMAP_WRITE, .nsge = 1, .sge = {{mem, 8}}, .len_bytes = 8};
	struct weft_rdmap_req q = {.op = WEFT_RDMAP_READ_REQ, .len_bytes = 8};

	rig_open(4, 0, true);
	weft_rdmap_post(rig.b.r, &w);
	weft_rdmap_post(rig.b.r, &q);
	rig_pump();
	CHECK_EQ(rig_status(&rig.b, &w), WEFT_RDMAP_OK);
	CHECK_EQ(rig_status(&rig.b, &q), WEFT_RDMAP_REMOTE_OP);
	free(rig_pop(&rig.b));
	EXPECT_ULPDU(&rig.b, term, 22);
	rig_close();
}

/* The octets of requests on the wire. */
static void
test_wire_form(void)
{
	static const uint8_t read[46] = {0x41, 0x41, 0, 0, 0, 0, 0, 0, 0, 1,    0, 0, 0, 1, 0, 0,
	                                 0,    0,    0, 0, 0, 2, 0, 0, 0, 0,    0, 0, 0, 3, 0, 0,
	                                 0,    4,    0, 0, 0, 1, 0, 0, 0, 0x10, 0, 0, 0, 0};
	static const uint8_t flush[38] = {0x41, 0x4c, 0, 0,    0, 0, 0, 0, 0, 1, 0, 0, 0,
	                                  2,    0,    0, 0,    0, 0, 0, 0, 1, 0, 0, 0, 4,
	                                  0,    0,    0, 0x10, 0, 0, 0, 0, 0, 0, 0, 6};
	static const uint8_t awrite[42] = {0x41, 0x50, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 3,
	                                   0,    0,    0, 0, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0,
	                                   0,    0x10, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};
	static const uint8_t verify[36] = {0x41, 0x4e, 0, 0, 0, 0,    0, 0, 0, 1, 0,   0,
	                                   0,    4,    0, 0, 0, 0,    0, 0, 0, 1, 0,   0,
	                                   0,    9,    0, 0, 0, 0x10, 0, 0, 0, 0, 'h', '!'};
	static const uint8_t inv[20] = {0x41, 0x46, 0xab, 0xcd, 0xef, 1, 0, 0, 0,   0,
	                                0,    0,    0,    1,    0,    0, 0, 0, 'o', 'k'};
	static const uint8_t write[16] = {0xc1, 0x40, 0, 0, 0, 1, 0,   0,
	                                  0,    0x10, 0, 0, 0, 5, 'o', 'k'};
	uint8_t ok[2] = "ok";
	struct weft_rdmap_req q[] = {
	        {.op = WEFT_RDMAP_READ_REQ,
	         .stag = 1,
	         .to = 0x1000000000,
	         .len_bytes = 4,
	         .sink_stag = 2,
	         .sink_to = 3},
	        {.op = WEFT_RDMAP_FLUSH_REQ,
	         .stag = 1,
	         .to = 0x1000000000,
	         .len_bytes = 4,
	         .flush_flags = 6},
	        {.op = WEFT_RDMAP_AWRITE_REQ,
	         .stag = 1,
	         .to = 0x1000000000,
	         .len_bytes = 8,
	         .hash = {1, 2, 3, 4, 5, 6, 7, 8}},
	        {.op = WEFT_RDMAP_VERIFY_REQ,
	         .stag = 1,
	         .to = 0x1000000000,
	         .len_bytes = 9,
	         .hash = "h!",
	         .hash_bytes = 2},
	        {.op = WEFT_RDMAP_SEND_SE_INV,
	         .stag = 0xabcdef01,
	         .nsge = 1,
	         .sge = {{ok, 2}},
	         .len_bytes = 2},
	        {.op = WEFT_RDMAP_WRITE,
	         .stag = 1,
	         .to = 0x1000000005,
	         .nsge = 1,
	         .sge = {{ok, 2}},
	         .len_bytes = 2},
	};

	rig_open(4, 4, true);
	for (unsigned int i = 0; i < RTE_DIM(q); i++)
		weft_rdmap_post(rig.b.r, &q[i]);
	rig_pump();
	EXPECT_ULPDU(&rig.b, read, 46);
	EXPECT_ULPDU(&rig.b, flush, 38);
	EXPECT_ULPDU(&rig.b, awrite, 42);
	EXPECT_ULPDU(&rig.b, verify, 36);
	EXPECT_ULPDU(&rig.b, inv, 20);
	EXPECT_ULPDU(&rig.b, write, 16);
	CHECK_EQ(rig.b.flushes, 1); /* packed: one flush behind all messages */
	rig_close();
}

/* Random segments, most nearly valid: nothing outside the region changes, and nothing is lost or
 * leaked. */
static void
test_fuzz(void)
{
	unsigned int rounds = test_seed_given() ? 1 : 4000;

	for (unsigned int round = 0; round < rounds; round++) {
		uint32_t msn[4] = {1, 1, 1, 1};
		uint8_t p[128];

		rig.rng = test_seed(7000 + round) * 0x9e3779b97f4a7c15ull + 1;
		set_up();
		rig.b.recv_posted = 2;
		rig.b.space = (uint32_t)(rig_random() % 20);
		post_out((uint8_t[]){1, 0xc, 0xe, 0x10}[rig_random() % 4],
		         (unsigned int)(rig.b.space == 0 ? 0
		                                         : RTE_MIN(rig_random() % 5, rig.b.space)));
		for (unsigned int n = 0; n < 8 && rig.b.live; n++) {
			uint8_t op = (uint8_t)(rig_random() % 0x12);
			const struct rdmap_op_row *row = &rdmap_ops[op];
			uint32_t stag = rig_random() % 4 ? reg.all->stag : reg.none->stag, len;

			for (unsigned int i = 0; i < sizeof(p); i++)
				p[i] = (uint8_t)rig_random();
			len = row->ulp ? (uint32_t)(rig_random() % 100) : row->min_bytes;
			if (rig_random() % 16 == 0)
				len = (uint32_t)(rig_random() % sizeof(p));
			weft_put_be32(p + (op == 1 ? 16 : 0), stag);
			weft_put_be32(p + (op == 1 ? 12 : 4), (uint32_t)(rig_random() % 300));
			weft_put_be64(p + (op == 1 ? 20 : 8), BASE + rig_random() % 300 * 8);
			weft_put_be32(p + 16 * (op == 0xc),
			              op == 0xc ? 1 + rig_random() % 7 : stag);
			if (rig_random() % 16 == 0)
				p[rig_random() % 28] ^= 1 << rig_random() % 8;
			if (row->tagged)
				rig_inject_tagged(&rig.b, 0x40 | op, stag,
				                  BASE + rig_random() % 300, rig_random() % 4, p,
				                  len);
			else
				rig_inject_untagged(&rig.b, 0x40 | op, row->qn, msn[row->qn]++, 0,
				                    rig_random() % 16, stag, p, len);
			if (rig_random() % 2)
				rig_step();
		}
		rig.b.space = UINT32_MAX;
		rig_pump();
		for (unsigned int i = 0; i < MEM_BYTES; i++)
			CHECK(mem[i] == 0x77);
		memset(med.p.base, 0x77, MEM_BYTES);
		tear_down();
	}
}

WEFT_TEST_MAIN({"wire_form", test_wire_form}, {"version", test_version}, {"opcode", test_opcode},
               {"write", test_write}, {"ddp", test_ddp}, {"send", test_send},
               {"read_req", test_read_req}, {"flush", test_flush}, {"verify", test_verify},
               {"atomic_write", test_atomic_write}, {"ird", test_ird},
               {"failure_in_order", test_failure_in_order},
               {"terminate_waits", test_terminate_waits}, {"responses", test_responses},
               {"sink_gone", test_sink_gone}, {"lying_responder", test_lying_responder},
               {"received", test_received}, {"received_siw_opcode", test_received_siw_opcode},
               {"received_later", test_received_later}, {"received_midway", test_received_midway},
               {"received_ahead", test_received_ahead}, {"not_started", test_not_started},
               {"from_above", test_from_above}, {"received_odd", test_received_odd},
               {"split_request", test_split_request}, {"ord_zero", test_ord_zero},
               {"fuzz", test_fuzz})
