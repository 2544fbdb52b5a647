/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Every Terminate that weft sends: one row for each cause, compared octet by octet with the form of
 * RFC 5040 s4.8 and the octets of the faulty segment. Each row is a case named after its cause. The
 * same cause with another opcode is another row.
 */

#include <stdlib.h>

#include "conform.h"

/* clang-format off */
static const uint8_t zero[256];

#define TAGGED(stag, to, n)    CF_TAGGED(0x40, stag, to, zero, n)
#define SEND(msn, mo, n)       CF_UNTAGGED(0x43, 0, msn, mo, zero, n)
#define PLACE(op, stag, to, n) rig_inject_place(&rig.b, op, 1, stag, to, n, "\0\0\0\1ABCDEFGH", 4)
#define LAST                   (CF_BASE + CF_BYTES - 1)

/* ---- Versions ---- */

#define RV(name, rv)                                                                               \
	static void name##_write(void)                                                             \
	{                                                                                          \
		CF_TAGGED((rv) << 6, cf.all->stag, CF_BASE, zero, 4);                              \
	}                                                                                          \
	static void name##_send(void)                                                              \
	{                                                                                          \
		rig_post_recv(&rig.b, 1);                                                          \
		CF_UNTAGGED((rv) << 6 | 3, 0, 1, 0, zero, 4);                                      \
	}                                                                                          \
	static void name##_read(void)                                                              \
	{                                                                                          \
		CF_UNTAGGED((rv) << 6 | 1, 1, 1, 0, zero, 28);                                     \
	}                                                                                          \
	static void name##_term(void)                                                              \
	{                                                                                          \
		CF_UNTAGGED((rv) << 6 | 7, 2, 1, 0, zero, 4);                                      \
	}
RV(rv00, 0)
RV(rv10, 2)
RV(rv11, 3)

static void
raw(uint8_t ctrl, uint32_t n)
{
	uint8_t seg[64] = {ctrl, ctrl & 0x80 ? 0x40 : 0x43};

	if (ctrl & 0x80)
		weft_put_be32(seg + 2, cf.all->stag);
	else
		seg[13] = 1;
	rig_inject(&rig.b, seg, n);
}

#define DV(v)                                                                                      \
	static void dv##v##_tagged(void) { raw(0xc0 | (v), 18); }                                  \
	static void dv##v##_untagged(void) { raw(0x40 | (v), 22); }
DV(0)
DV(2)
DV(3)

/* ---- Untagged: queue, sequence number, offset, length ---- */

static void qn_4(void) { CF_UNTAGGED(0x43, 4, 1, 0, zero, 4); }
static void qn_max(void) { CF_UNTAGGED(0x43, UINT32_MAX, 1, 0, zero, 4); }
static void no_receive(void) { SEND(1, 0, 4); }
static void no_receive_empty(void) { SEND(1, 0, 0); }
static void no_receive_first_part(void)
{
	rig_inject_untagged(&rig.b, 0x43, 0, 1, 0, false, 0, zero, 10);
}
static void second_without_receive(void)
{
	rig_post_recv(&rig.b, 1);
	SEND(1, 0, 4);
	SEND(2, 0, 4);
	CHECK_EQ(rig_ev(&rig.b, EV_RECV, 0)->status, WEFT_RDMAP_OK);
}
static void msn_0(void) { SEND(0, 0, 4); }
static void msn_ahead(void) { SEND(2, 0, 4); }
static void msn_far(void) { SEND(0x80000001, 0, 4); }
static void msn_again(void)
{
	rig_post_recv(&rig.b, 2);
	SEND(1, 0, 4);
	SEND(1, 0, 4);
}
static void msn_of_next_inside(void)
{
	rig_post_recv(&rig.b, 2);
	rig_inject_untagged(&rig.b, 0x43, 0, 1, 0, false, 0, zero, 10);
	SEND(2, 10, 4);
}
static void msn_read(void) { CF_READ(2, cf.all->stag, CF_BASE, 4); }
static void msn_terminate(void) { CF_UNTAGGED(0x47, 2, 2, 0, zero, 4); }
static void msn_response(void)
{
	cf_post(WEFT_RDMAP_FLUSH_REQ, 1);
	CF_UNTAGGED(0x4d, 3, 2, 0, NULL, 0);
}
static void mo_first(void) { SEND(1, 1, 4); }
static void mo_gap(void)
{
	rig_post_recv(&rig.b, 1);
	rig_inject_untagged(&rig.b, 0x43, 0, 1, 0, false, 0, zero, 10);
	SEND(1, 11, 4);
}
static void mo_overlap(void)
{
	rig_post_recv(&rig.b, 1);
	rig_inject_untagged(&rig.b, 0x43, 0, 1, 0, false, 0, zero, 10);
	SEND(1, 9, 4);
}
static void mo_read(void) { CF_UNTAGGED(0x41, 1, 1, 4, zero, 28); }
static void mo_terminate(void) { CF_UNTAGGED(0x47, 2, 1, 4, zero, 4); }
static void mo_max(void) { SEND(1, UINT32_MAX, 4); }
static void
long_by(uint32_t first, uint32_t second)
{
	rig.b.recv_size = 100;
	rig_post_recv(&rig.b, 1);
	if (first > 0)
		rig_inject_untagged(&rig.b, 0x43, 0, 1, 0, false, 0, zero, first);
	SEND(1, first, second);
	CHECK_EQ(rig_ev(&rig.b, EV_RECV, 0)->status, WEFT_RDMAP_LOCAL_LENGTH);
	CHECK_EQ(rig_ev(&rig.b, EV_RECV, 0)->len_bytes, first); /* octets in the buffer */
}
static void long_at_once(void) { long_by(0, 101); }
static void long_in_the_end(void) { long_by(100, 1); }
/* 2^32 - 10 octets have arrived, in a receive with more room */
static void long_2_32(void)
{
	static uint8_t byte[16];
	static const struct weft_rdmap_sge sge[] = {{byte, UINT32_MAX}, {byte, UINT32_MAX}};

	rig.b.r->rx_send = (struct rdmap_rx_send){.active = true,
	                                          .op = WEFT_RDMAP_SEND,
	                                          .nsge = 2,
	                                          .sge = sge,
	                                          .size_bytes = 2ull * UINT32_MAX};
	rig.b.recv_posted = rig.b.recv_taken = 1;
	rig.b.ddp->rx_mo[0] = UINT32_MAX - 9;
	SEND(1, UINT32_MAX - 9, 10);
}

/* ---- Tagged: Write ---- */

static void write_unknown(void) { TAGGED(0x12345678, CF_BASE, 4); }
static void write_stag_0(void) { TAGGED(0, CF_BASE, 4); }
static void write_neighbour_key(void) { TAGGED(cf.all->stag ^ 1u << 31, CF_BASE, 4); }
static void write_stale(void)
{
	uint32_t stag = cf.ro->stag;

	rig_unreg(&rig.b, cf.ro);
	rig_pump();
	cf.ro = rig_reg(&rig.b, cf.mem[0], CF_BYTES, CF_BASE, WEFT_ACCESS_REMOTE_WRITE, NULL, NULL);
	TAGGED(stag, CF_BASE, 4);
}
static void write_alien(void) { TAGGED(cf.alien->stag, CF_BASE, 4); }
static void write_below(void) { TAGGED(cf.all->stag, CF_BASE - 1, 4); }
static void write_beyond(void) { TAGGED(cf.all->stag, LAST + 1, 1); }
static void write_over_the_end(void) { TAGGED(cf.all->stag, LAST, 2); }
static void write_to_0(void) { TAGGED(cf.all->stag, 0, 4); }
static void write_to_max(void) { TAGGED(cf.all->stag, UINT64_MAX, 1); }
static void write_wraps(void) { TAGGED(cf.all->stag, UINT64_MAX, 2); }
static void write_wraps_far(void) { TAGGED(cf.all->stag, UINT64_MAX - 2, 200); }
static void write_read_only(void) { TAGGED(cf.ro->stag, CF_BASE, 4); }
static void write_local_only(void) { TAGGED(cf.lw->stag, CF_BASE, 4); }
static void write_second_part(void)
{
	rig_inject_tagged(&rig.b, 0x40, cf.all->stag, LAST - 3, false, "wwww", 4);
	TAGGED(cf.all->stag, LAST + 1, 4);
	CHECK_MEM(cf.med.p.base + CF_BYTES - 4, "wwww", 4);
	cf.touched = true;
}

/* ---- Read Request ---- */

static void read_unknown(void) { CF_READ(1, 0x12345678, CF_BASE, 4); }
static void read_below(void) { CF_READ(1, cf.all->stag, CF_BASE - 1, 4); }
static void read_beyond(void) { CF_READ(1, cf.all->stag, LAST + 1, 1); }
static void read_over_the_end(void) { CF_READ(1, cf.all->stag, LAST, 2); }
static void read_2_32(void) { CF_READ(1, cf.all->stag, CF_BASE, UINT32_MAX); }
static void read_write_only(void) { CF_READ(1, cf.wo->stag, CF_BASE, 4); }
static void read_local_only(void) { CF_READ(1, cf.lw->stag, CF_BASE, 4); }
static void read_alien(void) { CF_READ(1, cf.alien->stag, CF_BASE, 4); }
static void read_wraps(void) { CF_READ(1, cf.all->stag, UINT64_MAX, 2); }
static void read_short(void) { CF_UNTAGGED(0x41, 1, 1, 0, zero, 27); }
static void read_empty(void) { CF_UNTAGGED(0x41, 1, 1, 0, NULL, 0); }
static void read_long(void) { CF_UNTAGGED(0x41, 1, 1, 0, zero, 29); }
static void read_beyond_ird(void)
{
	rig.b.space = 0;
	for (uint32_t msn = 1; msn <= CF_IRD + 1; msn++)
		CF_READ(msn, cf.all->stag, CF_BASE, 4);
	rig.b.space = UINT32_MAX;
}
/* in two segments: the Terminate has the header of the second and the whole request */
static void read_cut(void)
{
	uint8_t p[28] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 0, 0, 4, 0x12, 0x34, 0x56, 0x78};

	memcpy(cf.rdma, p, 28);
	rig_inject_untagged(&rig.b, 0x41, 1, 1, 0, false, 0, p, 13);
	CF_UNTAGGED(0x41, 1, 1, 13, p + 13, 15);
}
/* its STag is invalidated while the request waits for space */
static void read_revoked(void)
{
	rig.b.space = 0;
	CF_READ(1, cf.ro->stag, CF_BASE + 16, 4);
	cf_blame();
	rig_pump();
	rig_unreg(&rig.b, cf.ro);
	cf.ro = NULL;
	rig.b.space = UINT32_MAX;
}
/* the STag is invalidated after 1386 octets of the response are sent: s4.8 wants the header to show
 * how far it came */
static void read_revoked_midway(void)
{
	struct rig_ulpdu *u;

	rig.b.space = 1;
	CF_READ(1, cf.ro->stag, CF_BASE + 16, 5000);
	cf_blame();
	memcpy(cf.rdma, rig.last + 18, 28);
	weft_put_be64(cf.rdma + 4, 0x1112131415161718 + 1386);
	weft_put_be32(cf.rdma + 12, 5000 - 1386);
	weft_put_be64(cf.rdma + 20, CF_BASE + 16 + 1386);
	rig_pump();
	u = rig_pop(&rig.b);
	CHECK(u != NULL && u->len_bytes == 1400);
	free(u);
	rig_unreg(&rig.b, cf.ro);
	cf.ro = NULL;
	rig.b.space = UINT32_MAX;
}

/* ---- Read Response ---- */

#define RESPONSE(stag, to, n) CF_TAGGED(0x42, stag, to, zero, n)

static void response_unasked(void) { RESPONSE(cf.all->stag, CF_BASE, 8); }
static void response_unasked_empty(void) { RESPONSE(cf.all->stag, CF_BASE, 0); }
static void response_to_flush(void)
{
	cf_post(WEFT_RDMAP_FLUSH_REQ, 1);
	RESPONSE(cf.all->stag, CF_BASE, 8);
}
#define ASKED(name, inject)                                                                        \
	static void name(void)                                                                     \
	{                                                                                          \
		cf_post(WEFT_RDMAP_READ_REQ, 2);                                                   \
		inject;                                                                            \
	}
ASKED(response_other_stag, RESPONSE(cf.wo->stag, CF_BASE, 8))
ASKED(response_other_to, RESPONSE(cf.all->stag, CF_BASE + 1, 7))
ASKED(response_of_the_second, RESPONSE(cf.all->stag, CF_BASE + 8, 8))
ASKED(response_too_long, RESPONSE(cf.all->stag, CF_BASE, 9))
ASKED(response_too_short, RESPONSE(cf.all->stag, CF_BASE, 7))
ASKED(response_empty, RESPONSE(cf.all->stag, CF_BASE, 0))
static void response_interleaved(void)
{
	cf_post(WEFT_RDMAP_READ_REQ, 2);
	rig_inject_tagged(&rig.b, 0x42, cf.all->stag, CF_BASE, false, zero, 4);
	cf.touched = true;
	RESPONSE(cf.all->stag, CF_BASE + 8, 8);
}
static void
response_into(uint32_t stag, uint64_t to, uint32_t n)
{
	cf_post(WEFT_RDMAP_READ_REQ, 1);
	cf.req[0].sink_stag = stag; /* as if verbs had not refused it */
	cf.req[0].sink_to = to;
	cf.req[0].len_bytes = n;
	RESPONSE(stag, to, n);
	rig_pump();
	CHECK_EQ(rig_status(&rig.b, &cf.req[0]), WEFT_RDMAP_LOCAL_PROT);
}
static void response_sink_gone(void) { response_into(cf.all->stag ^ 1u << 31, CF_BASE, 8); }
static void response_sink_alien(void) { response_into(cf.alien->stag, CF_BASE, 8); }
static void response_sink_not_writable(void) { response_into(cf.ro->stag, CF_BASE, 8); }
static void response_sink_bounds(void) { response_into(cf.all->stag, LAST, 8); }
static void response_sink_wraps(void) { response_into(cf.all->stag, UINT64_MAX - 2, 8); }

/* ---- Sends with Invalidate ---- */

static void
invalidate(uint8_t ctrl)
{
	rig.b.inv_rc = -1;
	rig_post_recv(&rig.b, 1);
	rig_inject_untagged(&rig.b, ctrl, 0, 1, 0, true, 0xfeed, zero, 4);
	CHECK_EQ(rig.b.inv_stag, 0xfeed);
}
static void invalidate_send(void) { invalidate(0x44); }
static void invalidate_send_se(void) { invalidate(0x46); }

/* ---- Opcodes in the middle of another message ---- */

static void send_changes_kind(void)
{
	rig_post_recv(&rig.b, 1);
	rig_inject_untagged(&rig.b, 0x43, 0, 1, 0, false, 0, zero, 10);
	CF_UNTAGGED(0x45, 0, 1, 10, zero, 4);
}
static void request_changes_kind(void)
{
	rig_inject_untagged(&rig.b, 0x41, 1, 1, 0, false, 0, zero, 10);
	CF_UNTAGGED(0x4c, 1, 1, 10, zero, 10);
}

/* ---- draft-talpey-rdma-commit-02 ---- */

static void flush_unknown(void) { PLACE(WEFT_RDMAP_FLUSH_REQ, 0x12345678, CF_BASE, 4); }
static void flush_alien(void) { PLACE(WEFT_RDMAP_FLUSH_REQ, cf.alien->stag, CF_BASE, 4); }
static void flush_bounds(void) { PLACE(WEFT_RDMAP_FLUSH_REQ, cf.all->stag, LAST, 2); }
static void flush_wraps(void) { PLACE(WEFT_RDMAP_FLUSH_REQ, cf.all->stag, UINT64_MAX, 2); }
static void flush_access(void) { PLACE(WEFT_RDMAP_FLUSH_REQ, cf.wo->stag, CF_BASE, 4); }
static void
flush_flags(uint32_t v)
{
	uint8_t f[4];

	weft_put_be32(f, v);
	rig_inject_place(&rig.b, WEFT_RDMAP_FLUSH_REQ, 1, cf.all->stag, CF_BASE, 4, f, 4);
}
static void flush_no_flag(void) { flush_flags(0); }
static void flush_unknown_flag(void) { flush_flags(0x80000001); }
static void flush_fails(void)
{
	cf.med.flush_err = -EIO;
	flush_flags(1);
}
static void
verify(uint32_t stag, uint64_t to, uint32_t n, uint32_t hash)
{
	rig_inject_place(&rig.b, WEFT_RDMAP_VERIFY_REQ, 1, stag, to, n, zero, hash);
}
static void verify_unknown(void) { verify(0x12345678, CF_BASE, 4, 0); }
static void verify_alien(void) { verify(cf.alien->stag, CF_BASE, 4, 0); }
static void verify_bounds(void) { verify(cf.all->stag, LAST, 2, 0); }
static void verify_wraps(void) { verify(cf.all->stag, UINT64_MAX, 2, 0); }
static void verify_access(void) { verify(cf.ro->stag, CF_BASE, 4, 0); }
static void verify_hash_length(void) { verify(cf.all->stag, CF_BASE, 4, 7); }
static void verify_hash_too_long(void) { verify(cf.all->stag, CF_BASE, 4, 65); }
static void verify_mismatch(void) { verify(cf.all->stag, CF_BASE, 4, 8); }
static void verify_unreadable(void)
{
	cf.med.read_err = -EIO;
	verify(cf.all->stag, CF_BASE, 4, 0);
}
static void
awrite(uint32_t stag, uint64_t to, uint32_t n, uint32_t data)
{
	rig_inject_place(&rig.b, WEFT_RDMAP_AWRITE_REQ, 1, stag, to, n, zero, data);
}
static void awrite_unknown(void) { awrite(0x12345678, CF_BASE, 8, 8); }
static void awrite_alien(void) { awrite(cf.alien->stag, CF_BASE, 8, 8); }
static void awrite_bounds(void) { awrite(cf.all->stag, LAST - 6, 8, 8); }
static void awrite_wraps(void) { awrite(cf.all->stag, UINT64_MAX - 3, 8, 8); }
static void awrite_access(void) { awrite(cf.ro->stag, CF_BASE, 8, 8); }
static void awrite_unaligned(void) { awrite(cf.all->stag, CF_BASE + 4, 8, 8); }
static void awrite_length(void) { awrite(cf.all->stag, CF_BASE, 4, 8); }
static void awrite_long(void) { awrite(cf.all->stag, CF_BASE, 8, 9); }
/* behind a slow Flush; its STag is invalidated meanwhile, and nothing is stored */
static void awrite_revoked(void)
{
	static const uint8_t flushed[18] = {0x41, 0x4d, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1};

	cf.med.eagain = 2;
	flush_flags(1);
	rig_inject_place(&rig.b, WEFT_RDMAP_AWRITE_REQ, 2, cf.wo->stag, CF_BASE, 8, zero, 8);
	cf_blame();
	rig_unreg(&rig.b, cf.wo);
	cf.wo = NULL;
	rig.b.space = 1;
	rig_pump();
	EXPECT_ULPDU(&rig.b, flushed, 18);
	rig.b.space = UINT32_MAX;
}
#include "term_place.h"
#include "term_lost.h"

static void unasked_flush_response(void) { CF_UNTAGGED(0x4d, 3, 1, 0, NULL, 0); }
static void unasked_verify_response(void) { CF_UNTAGGED(0x4f, 3, 1, 0, zero, 8); }
static void unasked_awrite_response(void) { CF_UNTAGGED(0x51, 3, 1, 0, NULL, 0); }
static void wrong_response(void)
{
	cf_post(WEFT_RDMAP_FLUSH_REQ, 1);
	CF_UNTAGGED(0x51, 3, 1, 0, NULL, 0);
}
static void response_overlong(void)
{
	cf_post(WEFT_RDMAP_FLUSH_REQ, 1);
	CF_UNTAGGED(0x4d, 3, 1, 0, zero, 1);
}

/* ---- RFC 7306; test_rdmap_atomic and test_rdmap_imm have more ---- */

static void atomic_unknown(void) { cf_atomic(1, 0x12345678, CF_BASE, 1, 52); }
static void atomic_alien(void) { cf_atomic(1, cf.alien->stag, CF_BASE, 1, 52); }
static void atomic_bounds(void) { cf_atomic(1, cf.all->stag, LAST - 6, 1, 52); }
static void atomic_wraps(void) { cf_atomic(1, cf.all->stag, UINT64_MAX - 3, 1, 52); }
static void atomic_access(void) { cf_atomic(1, cf.wo->stag, CF_BASE, 1, 52); }
static void atomic_unaligned(void) { cf_atomic(1, cf.all->stag, CF_BASE + 4, 1, 52); }
static void atomic_too_short(void) { cf_atomic(1, cf.all->stag, CF_BASE, 1, 51); }
static void atomic_too_long(void) { cf_atomic(1, cf.all->stag, CF_BASE, 1, 53); }
static void atomic_unasked(void) { CF_UNTAGGED(0x4b, 3, 1, 0, zero, 12); }
ASKED(atomic_answers_read, CF_UNTAGGED(0x4b, 3, 1, 0, zero, 12))
static void imm_no_receive(void) { CF_UNTAGGED(0x48, 0, 1, 0, zero, 8); }
static void imm_se_no_receive(void) { CF_UNTAGGED(0x49, 0, 1, 0, zero, 8); }
static void imm_short(void)
{
	rig_post_recv(&rig.b, 1);
	CF_UNTAGGED(0x48, 0, 1, 0, zero, 7);
}
static void imm_long(void)
{
	rig_post_recv(&rig.b, 1);
	CF_UNTAGGED(0x49, 0, 1, 0, zero, 9);
}

/* ---- Malformed segments, and faults of the layer below ---- */

static void runt_empty(void) { rig_inject(&rig.b, zero, 0); }
static void runt_tagged(void) { raw(0xc1, 13); }
static void runt_untagged(void) { raw(0x41, 17); }
static void
below(uint8_t code)
{
	weft_ddp_mpa_ops.fault(rig.b.ddp, &(struct weft_term){2, 0, code});
}
static void mpa_crc(void) { below(WEFT_MPA_ERR_CRC); }
static void mpa_marker(void) { below(WEFT_MPA_ERR_MARKER); }
static void
above(uint8_t layer, uint8_t etype, uint8_t code)
{
	weft_rdmap_terminate(rig.b.r, &(struct weft_term){layer, etype, code}, rig.now_ns);
}
static void above_local(void) { above(0, 0, 0); }
static void above_prot(void) { above(0, 1, 0xff); }
static void above_stream(void) { above(0, 2, 7); }
static void above_global(void) { above(0, 2, 8); }
static void above_invalidate(void) { above(0, 2, 9); }
static void above_mpa_local(void) { above(2, 0, 5); }
static void above_mpa_ird(void) { above(2, 0, 6); }
static void above_mpa_rtr(void) { above(2, 0, 7); }
static void ord_0(void)
{
	rig.b.r->ord = 0;
	cf.req[0] = (struct weft_rdmap_req){.op = WEFT_RDMAP_READ_REQ, .len_bytes = 8};
	weft_rdmap_post(rig.b.r, &cf.req[0]);
}
/* requests posted before it are sent, those posted after it are not */
static void refused_post(void)
{
	struct rig_ulpdu *u;

	for (unsigned int i = 0; i < 3; i++) {
		cf.req[i] = (struct weft_rdmap_req){.op = WEFT_RDMAP_WRITE, .hook = i == 1};
		weft_rdmap_post(rig.b.r, &cf.req[i]);
	}
	rig_pump();
	CHECK_EQ(rig_status(&rig.b, &cf.req[0]), WEFT_RDMAP_OK);
	CHECK_EQ(rig_status(&rig.b, &cf.req[1]), WEFT_RDMAP_LOCAL_PROT);
	CHECK_EQ(rig_status(&rig.b, &cf.req[2]), WEFT_RDMAP_FLUSHED);
	u = rig_pop(&rig.b);
	CHECK(u != NULL && u->data[1] == 0x40);
	free(u);
}

/* ---- The echo ---- */

/* Reserved bits are echoed unchanged (RFC 5041 s4.1: not checked on receive). */
static void reserved_tagged(void) { raw(0xfd, 14 + 4); }
static void reserved_untagged(void) { raw(0x7d, 18 + 4); }
static void reserved_request(void)
{
	uint8_t seg[46] = {0x7d, 0x61, 1, 2, 3, 4, 0, 0, 0, 1, 0, 0, 0, 1, [33] = 4, 0x12};

	rig_inject(&rig.b, seg, 46);
}
/* s7.1 case 4: the first error is reported, even if it must wait for a response before it */
static void first_of_two(void)
{
	static const uint8_t flushed[18] = {0x41, 0x4d, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1};

	cf.med.eagain = 2;
	flush_flags(1);
	CF_READ(2, 0x12345678, CF_BASE, 4);
	cf_blame();
	TAGGED(0x87654321, CF_BASE, 4);
	below(WEFT_MPA_ERR_CRC);
	rig.b.space = 1;
	rig_pump();
	EXPECT_ULPDU(&rig.b, flushed, 18);
	rig.b.space = UINT32_MAX;
}
static void no_space_yet(void)
{
	rig.b.space = 0;
	TAGGED(0x12345678, CF_BASE, 4);
	rig_pump();
	CHECK(TAILQ_EMPTY(&rig.b.out) && !rig.b.fin);
	rig.b.space = UINT32_MAX;
}

/** `count`: an additional counter beside that of the code; NULL: none. */
struct row {
	const char *name;
	void (*provoke)(void);
	struct weft_term term;
	enum cf_echo echo;
	const char *count;
};

static const struct row rows[] = {
#include "term_rows.h"
};
/* clang-format on */

static void
run_row(void)
{
	const struct row *t = &rows[test_case_index()];
	bool medium;

	cf_open();
	t->provoke();
	cf_expect_term(&t->term, t->echo);
	if (t->count != NULL)
		CHECK_EQ(cf_fault(t->count), 1);
	CHECK_EQ(cf_fault("requests_malformed"),
	         t->count != NULL && strcmp(t->count, "requests_malformed") == 0);
	/* both sides get a report (draft s1.6, s4.1 case 3): a failure of the medium is reported
	 * here first */
	medium = t->term.layer == 0 && t->term.etype == 2 && t->term.code >= 0x0a &&
	         t->term.code <= 0x0d;
	CHECK_EQ(rig_ev_count(&rig.b, EV_BAD_RANGE), medium);
	if (medium)
		CHECK_EQ(rig_ev(&rig.b, EV_BAD_RANGE, 0)->status, t->term.code);
	cf_close();
	lost_end();
}

/** The rows send every code except those that no stream can carry. */
static void
test_every_code(void)
{
	/* RFC 5044 s8: codes 1 and 4 are local; RFC 5041 s7.2: 1/3 is reserved for the lower
	 * layer */
	static const struct weft_term never[] = {{2, 0, 1}, {2, 0, 4}, {1, 3, 0}};
	bool seen[WEFT_TERM_NCODES] = {false};

	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		int k = weft_rdmap_term_index(&rows[i].term);

		CHECK_MSG(k >= 0, "%s", rows[i].name);
		seen[k] = true;
	}
	for (unsigned int i = 0; i < RTE_DIM(never); i++) {
		int k = weft_rdmap_term_index(&never[i]);

		CHECK(k >= 0 && !seen[k]);
		seen[k] = true;
	}
	for (unsigned int i = 0; i < WEFT_TERM_NCODES; i++)
		CHECK_MSG(seen[i], "no row sends code %u", i);
}

int
main(int argc, char **argv)
{
	static struct weft_test_case cases[RTE_DIM(rows) + 1];
	unsigned int n = 0;

	for (; n < RTE_DIM(rows); n++)
		cases[n] = (struct weft_test_case){rows[n].name, run_row};
	cases[n++] = (struct weft_test_case){"every_code", test_every_code};
	return test_main(argc, argv, cases, n);
}
