/* SPDX-License-Identifier: BSD-3-Clause */
/** @file DDP without the layers above: headers, every error code, rules of sequence, placement,
 * segmentation. */

#include "../mpa/fake_tcp.h"
#include "test_xorshift.h"
#include "weft_ddp_wire.h"
#include "weft_mpa.h"
#include "weft_mpa_startup.h"
#include "test_xorshift.h"

#define MSS      1448
#define MEM_SIZE 4096
#define BASE_TO  0x100000ULL
#define NOW      (1000 * WEFT_NS_PER_MS)

/* ---- Headers ---- */

/* RFC 5044 Figure 5's ULPDU: Send, last, MSN 1. */
static const uint8_t fig5_hdr[18] = {0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0};
/* The header of a Read Response segment. */
static const uint8_t tagged_hdr[14] = {0xc1, 0x42, 0x12, 0x34, 0x56, 0x78, 0x00,
                                       0x00, 0x55, 0x8e, 0x01, 0x02, 0x03, 0x04};

static int
decode_at(const uint8_t *p, uint32_t len, uint32_t piece, struct weft_ddp_hdr *h,
          uint32_t *left_bytes)
{
	struct weft_frag frag[64];
	struct weft_cur c;
	unsigned int n = 0;
	uint8_t *b = malloc(len + 1);
	int rc;

	memcpy(b, p, len);
	for (uint32_t pos = 0; pos < len; pos += piece)
		frag[n++] = (struct weft_frag){b + pos, RTE_MIN(piece, len - pos)};
	if (n == 0)
		frag[n++] = (struct weft_frag){b, 0};
	weft_cur_init(&c, frag, n);
	rc = weft_ddp_hdr_decode(&c, h);
	*left_bytes = c.left_bytes;
	free(b);
	return rc;
}

static void
test_hdr_vectors(void)
{
	struct weft_ddp_hdr h;
	uint8_t b[18], more[30] = {0};
	uint32_t left;

	for (uint32_t piece = 1; piece <= 18; piece++) {
		memset(&h, 0xff, sizeof(h));
		CHECK_EQ(decode_at(fig5_hdr, 18, piece, &h, &left), 18);
		CHECK_EQ(left, 0);
		CHECK(!h.tagged && h.last && h.version == 1 && h.rsvdulp == 0x43);
		CHECK(h.rsvdulp32 == 0 && h.qn == 0 && h.msn == 1 && h.mo == 0);
		CHECK(h.stag == 0 && h.to == 0); /* members that the header does not have */
		memset(&h, 0xff, sizeof(h));
		CHECK_EQ(decode_at(tagged_hdr, 14, piece, &h, &left), 14);
		CHECK(h.rsvdulp32 == 0 && h.qn == 0 && h.msn == 0 && h.mo == 0);
		CHECK(h.tagged && h.last && h.version == 1 && h.rsvdulp == 0x42);
		CHECK_EQ(h.stag, 0x12345678);
		CHECK_EQ(h.to, 0x558e01020304);
		CHECK_EQ(weft_ddp_hdr_encode(&h, b), 14);
		CHECK_MEM(b, tagged_hdr, 14);
		memcpy(more, tagged_hdr, 14);
		CHECK_EQ(decode_at(more, 30, piece, &h, &left), 14);
		CHECK_EQ(left, 16);
	}
	h = (struct weft_ddp_hdr){.version = 1,
	                          .rsvdulp = 0x44,
	                          .rsvdulp32 = 0x01020304,
	                          .qn = 3,
	                          .msn = 0xfffffffe,
	                          .mo = 0x80000001};
	CHECK_EQ(weft_ddp_hdr_encode(&h, b), 18);
	CHECK_MEM(b, "\x01\x44\x01\x02\x03\x04\x00\x00\x00\x03\xff\xff\xff\xfe\x80\x00\x00\x01",
	          18);
}

static void
test_hdr_cut(void)
{
	struct weft_ddp_hdr h;
	uint32_t left;

	for (uint32_t piece = 1; piece <= 18; piece += 5) {
		for (uint32_t n = 0; n < 18; n++) {
			CHECK_EQ(decode_at(fig5_hdr, n, piece, &h, &left), -ENODATA);
			CHECK_EQ(left, n); /* no octet was consumed */
		}
		for (uint32_t n = 0; n < 14; n++)
			CHECK_EQ(decode_at(tagged_hdr, n, piece, &h, &left), -ENODATA);
	}
}

/** All 2^8 control octets are unchanged after encoding and decoding: a Terminate echoes reserved
 * bits as received. */
static void
test_hdr_control(void)
{
	uint8_t in[18] = {0}, out[18];
	struct weft_ddp_hdr h;
	uint32_t left;

	for (unsigned int ctrl = 0; ctrl < 256; ctrl++) {
		in[0] = ctrl;
		CHECK_EQ(decode_at(in, 18, 18, &h, &left), ctrl & 0x80 ? 14 : 18);
		weft_ddp_hdr_encode(&h, out);
		CHECK_EQ(out[0], ctrl);
	}
}

/* ---- A stream ---- */

struct ulp {
	struct weft_ddp d;
	struct weft_mpa mpa;
	struct weft_tcp_conn *c;
	struct weft_sched *s;
	struct weft_mem *mem;
	struct weft_mem_pd pd, other_pd;
	struct weft_mem_mr *mr, *mr_other, *mr_ro;
	uint8_t *buf;
	/* results of up-calls */
	unsigned int tagged, placed, written, lasts, untagged, faults, dropped, writables, eofs,
	        closeds, replies;
	struct weft_ddp_hdr h;
	uint32_t len;
	uint8_t payload[2048];
	struct weft_term term;
	bool fault_hdr;
	uint8_t echo[64];
	unsigned int echo_bytes;
	uint32_t seg_bytes;
	unsigned int sent; /**< calls of sent() that took the message */
	unsigned int asked;
	bool decline; /**< sent() and asked() take nothing */
	bool refuse;  /**< tagged() and untagged() refuse the segment */
	bool wait;    /**< tagged_ahead() declines */
	unsigned int answered;
	uint32_t answer_access; /**< what answer() says of RsvdULP octet 0x42 */
};

/** Whether new streams expect RDMA Writes: weft_ddp_expect(). */
static bool ulp_expects;

static void
ulp_rand(void *arg, void *buf, size_t len)
{
	uint64_t *x = arg;

	for (size_t i = 0; i < len; i++) {
		*x = *x * 6364136223846793005ULL + 1442695040888963407ULL;
		((uint8_t *)buf)[i] = *x >> 56;
	}
}

static int
ulp_tagged(void *user, const struct weft_ddp_hdr *h, uint32_t len_bytes, uint32_t *access,
           struct weft_term *term)
{
	struct ulp *u = user;

	if (u->refuse)
		return weft_fault(term, 0, 2, 6);
	u->tagged++;
	u->h = *h;
	u->len = len_bytes;
	*access = WEFT_ACCESS_REMOTE_WRITE;
	return 0;
}

static bool
ulp_tagged_ahead(void *user, const struct weft_ddp_hdr *h, uint32_t *access)
{
	(void)h;
	*access = WEFT_ACCESS_REMOTE_WRITE;
	return !((struct ulp *)user)->wait;
}

static void
ulp_placed(void *user, const struct weft_ddp_hdr *h, uint32_t len_bytes, uint64_t now_ns)
{
	struct ulp *u = user;

	(void)h;
	(void)now_ns;
	u->placed++;
	u->len = len_bytes;
}

static void
ulp_written(void *user, uint32_t len_bytes, bool last)
{
	struct ulp *u = user;

	u->written++;
	u->lasts += last;
	u->len = len_bytes;
}

static uint32_t
ulp_answer(void *user, uint8_t rsvdulp, bool last, uint32_t stag, uint64_t to, uint32_t len_bytes)
{
	struct ulp *u = user;

	CHECK(len_bytes > 0);
	u->h = (struct weft_ddp_hdr){
	        .tagged = true, .last = last, .rsvdulp = rsvdulp, .stag = stag, .to = to};
	return rsvdulp == 0x42 && !u->refuse ? u->answer_access : 0;
}

static void
ulp_answered(void *user, uint32_t len_bytes, bool last)
{
	struct ulp *u = user;

	CHECK_EQ(last, u->h.last);
	u->answered++;
	u->len = len_bytes;
}

static bool
ulp_sent(void *user, const uint8_t *p, uint32_t len_bytes)
{
	struct ulp *u = user;

	if (u->decline || u->refuse)
		return false;
	u->sent++;
	u->len = len_bytes;
	memcpy(u->payload, p, len_bytes);
	return true;
}

static bool
ulp_asked(void *user, const uint8_t *seg, uint32_t len_bytes)
{
	struct ulp *u = user;

	CHECK_EQ(weft_get_be32(seg + 6), WEFT_DDP_QN_READ);
	if (u->decline || u->refuse)
		return false;
	u->asked++;
	u->len = len_bytes;
	memcpy(u->payload, seg + 18, len_bytes);
	return true;
}

static int
ulp_untagged(void *user, const struct weft_ddp_hdr *h, struct weft_cur *c, uint32_t len_bytes,
             struct weft_term *term, uint64_t now_ns)
{
	struct ulp *u = user;

	(void)now_ns;
	if (u->refuse)
		return weft_fault(term, 1, 2, WEFT_TERM_UNT_NO_BUFFER);
	u->untagged++;
	u->h = *h;
	u->len = len_bytes;
	CHECK_EQ(c->left_bytes, len_bytes);
	CHECK_EQ(weft_cur_read(c, u->payload, len_bytes), 0);
	return 0;
}

static void
ulp_fault(void *user, const struct weft_term *term, const struct weft_ddp_hdr *h,
          const uint8_t *hdr, unsigned int hdr_bytes, uint32_t seg_bytes, uint64_t now_ns)
{
	struct ulp *u = user;

	(void)now_ns;
	u->faults++;
	u->term = *term;
	u->fault_hdr = h != NULL;
	CHECK(hdr_bytes <= 18 + 28);
	if (hdr_bytes > 0)
		memcpy(u->echo, hdr, hdr_bytes);
	u->echo_bytes = hdr_bytes;
	u->seg_bytes = seg_bytes;
}

static void
ulp_dropped(void *user)
{
	((struct ulp *)user)->dropped++;
}

static void
ulp_reply(void *user, const struct weft_mpa_frame *rep)
{
	(void)rep;
	((struct ulp *)user)->replies++;
}

static void
ulp_writable(void *user)
{
	((struct ulp *)user)->writables++;
}

static void
ulp_eof(void *user)
{
	((struct ulp *)user)->eofs++;
}

static void
ulp_closed(void *user, int err)
{
	(void)err;
	((struct ulp *)user)->closeds++;
}

static const struct weft_ddp_ops ulp_ops = {
        .tagged = ulp_tagged,
        .tagged_placed = ulp_placed,
        .written = ulp_written,
        .answer = ulp_answer,
        .answered = ulp_answered,
        .sent = ulp_sent,
        .asked = ulp_asked,
        .tagged_ahead = ulp_tagged_ahead,
        .untagged = ulp_untagged,
        .fault = ulp_fault,
        .dropped = ulp_dropped,
        .reply = ulp_reply,
        .writable = ulp_writable,
        .eof = ulp_eof,
        .closed = ulp_closed,
};

static struct ulp *
ulp_new(void)
{
	static const uint8_t rep[] = "MPA ID Rep Frame\x40\x01\x00\x00";
	static uint64_t seed = 1;
	struct weft_rand rand = {.fill = ulp_rand, .arg = &seed};
	struct weft_mpa_attr attr = {.rev = 1};
	struct ulp *u = calloc(1, sizeof(*u));
	struct weft_mem_attr ma = {.len_bytes = MEM_SIZE,
	                           .base_to = BASE_TO,
	                           .access = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_WRITE};

	u->c = fake_new(MSS);
	u->s = calloc(1, sizeof(*u->s));
	TAILQ_INIT(&u->s->run);
	weft_wheel_init(&u->s->wheel, NOW);
	u->s->now_ns = NOW;
	u->buf = aligned_alloc(4096, MEM_SIZE);
	memset(u->buf, 0, MEM_SIZE);
	CHECK_EQ(weft_mem_create(64, 1, &rand, &u->mem), 0);
	u->pd.mem = u->other_pd.mem = u->mem;
	CHECK_EQ(weft_mem_reader_register(u->mem, 0), 0);
	weft_mem_online(u->mem, 0);
	ma.addr = u->buf;
	CHECK_EQ(weft_mem_reg(u->mem, &u->pd, &ma, &u->mr), 0);
	CHECK_EQ(weft_mem_reg(u->mem, &u->other_pd, &ma, &u->mr_other), 0);
	ma.access = WEFT_ACCESS_REMOTE_READ;
	CHECK_EQ(weft_mem_reg(u->mem, &u->pd, &ma, &u->mr_ro), 0);
	weft_ddp_init(&u->d, &u->mpa, u->mem, &u->pd, &ulp_ops, u);
	CHECK_EQ(weft_mpa_start(u->d.mpa, u->c, u->s, &attr, &weft_ddp_mpa_ops, &u->d, NOW), 0);
	fake_rx(u->c, rep, 20, 0, NOW);
	CHECK_EQ(u->replies, 1);
	u->c->out_bytes = 0;
	u->c->nsegs = 0;
	if (ulp_expects)
		weft_ddp_expect(&u->d, 0x40, WEFT_ACCESS_REMOTE_WRITE, 0x43, 0x41);
	return u;
}

static void
ulp_free(struct ulp *u)
{
	weft_ddp_fini(&u->d);
	weft_mem_offline(u->mem, 0);
	weft_mem_invalidate(u->mem, u->mr, NULL, NULL);
	weft_mem_invalidate(u->mem, u->mr_other, NULL, NULL);
	weft_mem_invalidate(u->mem, u->mr_ro, NULL, NULL);
	weft_mem_reader_unregister(u->mem, 0);
	weft_mem_destroy(u->mem);
	free(u->buf);
	free(u->s);
	fake_free(u->c);
	free(u);
}

/** Deliver one segment. Its FPDU arrives in pieces of `piece` octets (0: whole). */
static void
rx_raw(struct ulp *u, const uint8_t *seg, uint32_t len, uint32_t piece)
{
	uint8_t fpdu[4096];
	uint32_t n = slow_fpdu(fpdu, seg, len);

	fake_rx(u->c, fpdu, n, piece, NOW);
}

static void
rx_seg(struct ulp *u, const struct weft_ddp_hdr *h, const void *pl, uint32_t len, uint32_t piece)
{
	uint8_t seg[4096];
	uint32_t n = weft_ddp_hdr_encode(h, seg);

	memcpy(seg + n, pl, len);
	rx_raw(u, seg, n + len, piece);
}

static struct weft_ddp_hdr
tagged(struct ulp *u, uint64_t off)
{
	return (struct weft_ddp_hdr){.tagged = true,
	                             .last = true,
	                             .version = 1,
	                             .rsvdulp = 0x40,
	                             .stag = u->mr->stag,
	                             .to = BASE_TO + off};
}

static struct weft_ddp_hdr
untagged(uint32_t qn, uint32_t msn, uint32_t mo, bool last)
{
	return (struct weft_ddp_hdr){
	        .last = last, .version = 1, .rsvdulp = 0x43, .qn = qn, .msn = msn, .mo = mo};
}

static uint8_t pattern[2048];

static void
test_tagged_place(void)
{
	struct ulp *u = ulp_new();
	uint8_t want[MEM_SIZE] = {0};

	for (unsigned int i = 0; i < sizeof(pattern); i++)
		pattern[i] = i * 13 + 1;
	for (uint32_t piece = 0; piece < 40; piece += 3) {
		uint32_t off = piece * 61, len = 1 + piece * 30;
		struct weft_ddp_hdr h = tagged(u, off);

		rx_seg(u, &h, pattern, len, piece);
		memcpy(want + off, pattern, len);
		CHECK_MEM(u->buf, want, MEM_SIZE);
		CHECK_EQ(u->len, len);
	}
	CHECK_EQ(u->tagged, 14);
	CHECK_EQ(u->placed, 14);
	/* the first and the last octet of the region */
	struct weft_ddp_hdr h = tagged(u, 0);
	rx_seg(u, &h, "A", 1, 0);
	h = tagged(u, MEM_SIZE - 1);
	rx_seg(u, &h, "Z", 1, 0);
	CHECK_EQ(u->buf[0], 'A');
	CHECK_EQ(u->buf[MEM_SIZE - 1], 'Z');
	CHECK_EQ(u->faults, 0);
	ulp_free(u);
}

/** "The STag and TO fields MUST NOT be checked for a zero-length Tagged DDP Message." */
static void
test_tagged_zero(void)
{
	struct ulp *u = ulp_new();
	struct weft_ddp_hdr h = tagged(u, 0);

	h.stag = 0xdeadbeef;
	h.to = UINT64_MAX;
	rx_seg(u, &h, "", 0, 0);
	CHECK_EQ(u->faults, 0);
	CHECK_EQ(u->placed, 1);
	CHECK_EQ(u->len, 0);
	ulp_free(u);
}

/** End a case of one fault: check the report and the echoed octets, and that later segments are
 * dropped. */
static void
check_fault(struct ulp *u, uint8_t layer, uint8_t etype, uint8_t code, const uint8_t *seg,
            uint32_t len, bool hdr)
{
	static const uint8_t zero[MEM_SIZE];
	struct weft_ddp_hdr h = tagged(u, 0), s = untagged(0, 1, 0, true);
	unsigned int placed = u->placed, got = u->untagged;

	CHECK_EQ(u->faults, 1);
	CHECK_EQ(u->dropped, 0);
	CHECK_MSG(u->term.layer == layer && u->term.etype == etype && u->term.code == code,
	          "%u/%u/%u", u->term.layer, u->term.etype, u->term.code);
	CHECK_EQ(u->fault_hdr, hdr);
	CHECK_EQ(u->seg_bytes, len);
	CHECK_EQ(u->echo_bytes, RTE_MIN(len, (seg[0] & 0x80 && hdr ? 14u : 18u) + 28));
	CHECK_MEM(u->echo, seg, u->echo_bytes);
	CHECK_MEM(u->buf, zero, MEM_SIZE);
	rx_seg(u, &h, "x", 1, 0);
	rx_seg(u, &s, "x", 1, 0);
	CHECK_EQ(u->faults, 1);
	CHECK_EQ(u->dropped, 2);
	CHECK_EQ(u->placed, placed);
	CHECK_EQ(u->untagged, got);
	CHECK_MEM(u->buf, zero, MEM_SIZE);
	/* one more message may be sent: the Terminate */
	h = untagged(WEFT_DDP_QN_TERM, 0, 0, true);
	CHECK(weft_ddp_tx_begin(&u->d, &h, 4, NOW) != NULL);
	weft_ddp_tx_end(&u->d, NOW);
	weft_ddp_tx_flush(&u->d, NOW);
	CHECK_EQ(u->c->nsegs, 1);
	ulp_free(u);
}

static void
expect(struct ulp *u, struct weft_ddp_hdr h, uint32_t len, uint32_t piece, uint8_t layer,
       uint8_t etype, uint8_t code)
{
	uint8_t seg[2048];
	uint32_t n = weft_ddp_hdr_encode(&h, seg);

	memset(seg + n, 0x77, len);
	rx_raw(u, seg, n + len, piece);
	check_fault(u, layer, etype, code, seg, n + len, true);
}

static void
test_tagged_errors(void)
{
	for (uint32_t piece = 0; piece < 30; piece += 5) {
		struct ulp *u = ulp_new();
		struct weft_ddp_hdr h = tagged(u, 0);

		h.stag ^= 1;
		expect(u, h, 10, piece, 1, 1, 0x00);
		u = ulp_new();
		h = tagged(u, 0);
		h.stag = 0;
		expect(u, h, 10, piece, 1, 1, 0x00);
		u = ulp_new();
		h = tagged(u, MEM_SIZE - 9); /* one octet beyond the end */
		expect(u, h, 10, piece, 1, 1, 0x01);
		u = ulp_new();
		h = tagged(u, -1ULL); /* one octet before the start */
		expect(u, h, 10, piece, 1, 1, 0x01);
		u = ulp_new();
		h = tagged(u, MEM_SIZE);
		expect(u, h, 1, piece, 1, 1, 0x01);
		u = ulp_new();
		h = tagged(u, 0);
		h.stag = u->mr_other->stag;
		expect(u, h, 100, piece, 1, 1, 0x02);
		u = ulp_new();
		h = tagged(u, 0);
		h.to = UINT64_MAX - 8; /* TO + 10 wraps */
		expect(u, h, 10, piece, 1, 1, 0x03);
		u = ulp_new();
		h = tagged(u, 0);
		h.version = 2;
		expect(u, h, 10, piece, 1, 1, 0x04);
		u = ulp_new();
		h = tagged(u, 0);
		/* without the right to write: RDMAP's protection error, access */
		h.stag = u->mr_ro->stag;
		expect(u, h, 10, piece, 0, 1, 0x02);
		if (!ulp_expects) { /* else tagged() is not called */
			u = ulp_new();
			u->refuse = true;
			expect(u, tagged(u, 0), 60, piece, 0, 2, 6);
		}
	}
	/* An STag that is no longer valid. */
	struct ulp *u = ulp_new();
	struct weft_ddp_hdr h = tagged(u, 0);
	struct weft_mem_attr ma = {
	        .addr = u->buf, .len_bytes = 64, .access = WEFT_ACCESS_REMOTE_READ};

	weft_mem_invalidate(u->mem, u->mr, NULL, NULL);
	weft_mem_quiescent(u->mem, 0);
	CHECK_EQ(weft_mem_reg(u->mem, &u->pd, &ma, &u->mr), 0);
	expect(u, h, 10, 0, 1, 1, 0x00);
}

static void
test_untagged_errors(void)
{
	static const uint32_t bad_qn[] = {4, 5, 0x80000000, UINT32_MAX};

	for (unsigned int i = 0; i < RTE_DIM(bad_qn); i++)
		expect(ulp_new(), untagged(bad_qn[i], 1, 0, true), 10, i, 1, 2, 0x01);
	for (uint32_t qn = 0; qn < WEFT_DDP_NQN; qn++) {
		expect(ulp_new(), untagged(qn, 0, 0, true), 10, 0, 1, 2, 0x03);
		expect(ulp_new(), untagged(qn, 2, 0, true), 10, 0, 1, 2, 0x03);
		expect(ulp_new(), untagged(qn, 2, 0, true), 0, 0, 1, 2, 0x03);
		expect(ulp_new(), untagged(qn, 1, 1, true), 10, 0, 1, 2, 0x04);
		expect(ulp_new(), untagged(qn, 1, UINT32_MAX, false), 10, 0, 1, 2, 0x04);
	}
	struct weft_ddp_hdr h = untagged(0, 1, 0, true);
	struct ulp *u;

	for (uint8_t v = 0; v < 4; v++)
		if (v != 1) {
			h.version = v;
			expect(ulp_new(), h, 40, 0, 1, 2, 0x06);
		}
	u = ulp_new();
	u->refuse = true;
	expect(u, untagged(0, 1, 0, true), 40, 7, 1, 2, WEFT_TERM_UNT_NO_BUFFER);
	/* A message must be shorter than 2^32 octets. */
	u = ulp_new();
	u->d.rx_mo[0] = UINT32_MAX - 9;
	expect(u, untagged(0, 1, UINT32_MAX - 9, true), 10, 0, 1, 2, 0x05);
	u = ulp_new();
	u->d.rx_mo[0] = UINT32_MAX - 9;
	h = untagged(0, 1, UINT32_MAX - 9, true);
	rx_seg(u, &h, "123456789", 9, 0);
	CHECK_EQ(u->faults, 0);
	CHECK_EQ(u->untagged, 1);
	ulp_free(u);
}

/** Segments shorter than their header, also empty ones. */
static void
test_short(void)
{
	uint8_t seg[18] = {0};

	for (int t = 0; t < 2; t++)
		for (uint32_t n = 0; n < (t ? 14u : 18u); n++)
			for (uint32_t piece = 0; piece < 4; piece += 3) {
				struct ulp *u = ulp_new();

				seg[0] = t ? 0xc1 : 0x41;
				rx_raw(u, seg, n, piece);
				check_fault(u, 1, 0, 0, seg, n, false);
			}
}

static void
test_crc_fault(void)
{
	struct ulp *u = ulp_new();
	uint8_t fpdu[100];
	uint32_t n = slow_fpdu(fpdu, fig5_hdr, 18);

	fpdu[n - 1] ^= 1;
	fake_rx(u->c, fpdu, n, 0, NOW);
	CHECK_EQ(u->faults, 1);
	CHECK(u->term.layer == 2 && u->term.etype == 0 && u->term.code == 2);
	CHECK(!u->fault_hdr);
	CHECK_EQ(u->echo_bytes, 0);
	CHECK_EQ(u->untagged, 0);
	/* RFC 5041 s7.1: later segments are dropped, even if MPA still delivers them. The fault is
	 * reported once. */
	u->d.mpa->ops->ulpdu(u->d.mpa->user, &(struct weft_frag){fig5_hdr, 18}, 1, 18, NOW);
	u->d.mpa->ops->fault(u->d.mpa->user, &u->term);
	CHECK_EQ(u->untagged, 0);
	CHECK_EQ(u->faults, 1);
	ulp_free(u);
}

static void
test_untagged_sequence(void)
{
	struct ulp *u = ulp_new();
	struct weft_ddp_hdr h;

	/* Messages of three segments on two queues, interleaved: each queue has its own MSN and
	 * MO. */
	for (uint32_t msn = 1; msn <= 2; msn++)
		for (uint32_t i = 0; i < 3; i++)
			for (uint32_t qn = 0; qn < 2; qn++) {
				h = untagged(qn, msn, i * 100, i == 2);
				h.rsvdulp32 = 0xabcd0123;
				rx_seg(u, &h, pattern, i == 2 ? 7 : 100, 11);
				CHECK_EQ(u->faults, 0);
				CHECK_EQ(u->h.mo, i * 100);
				CHECK_EQ(u->h.rsvdulp32, 0xabcd0123);
				CHECK_MEM(u->payload, pattern, u->len);
			}
	CHECK_EQ(u->untagged, 12);
	/* A zero-length message uses an MSN. */
	h = untagged(3, 1, 0, true);
	rx_seg(u, &h, "", 0, 0);
	CHECK_EQ(u->untagged, 13);
	CHECK_EQ(u->len, 0);
	h.msn = 2;
	rx_seg(u, &h, "", 0, 0);
	CHECK_EQ(u->untagged, 14);
	/* "The MSN value MUST wrap to 0 after a value of 0xFFFFFFFF." */
	u->d.rx_msn[2] = UINT32_MAX;
	h = untagged(2, UINT32_MAX, 0, true);
	rx_seg(u, &h, "a", 1, 0);
	h = untagged(2, 0, 0, true);
	rx_seg(u, &h, "b", 1, 0);
	CHECK_EQ(u->untagged, 16);
	CHECK_EQ(u->faults, 0);
	/* A segment in the middle of a message is missing. */
	h = untagged(0, 3, 0, false);
	rx_seg(u, &h, "0123456789", 10, 0);
	h.mo = 20;
	rx_seg(u, &h, "0123456789", 10, 0);
	CHECK_EQ(u->faults, 1);
	CHECK(u->term.layer == 1 && u->term.etype == 2 && u->term.code == WEFT_TERM_UNT_BAD_MO);
	ulp_free(u);
}

static void
test_passing_up(void)
{
	struct ulp *u = ulp_new();

	u->c->ops->writable(u->c->user);
	CHECK_EQ(u->writables, 1);
	u->c->mss = 1000;
	u->c->ops->mss(u->c->user, 1000);
	CHECK_EQ(weft_ddp_max_payload(&u->d, true), 994 - 14);
	u->c->ops->eof(u->c->user);
	CHECK_EQ(u->eofs, 1);
	fake_die(u->c, 0);
	CHECK_EQ(u->closeds, 1);
	ulp_free(u);
}

/** RFC 5041 s5.2: payloads of at most MULPDU - 18 and MULPDU - 14. The MSN advances with the L bit.
 * The octets sent are those passed. */
static void
test_tx(void)
{
	struct ulp *u = ulp_new();
	struct weft_ddp_hdr h = untagged(0, 77, 0, false);
	uint8_t want[4096];
	uint32_t n = 0;

	CHECK_EQ(weft_ddp_max_payload(&u->d, false), 1442 - 18);
	CHECK_EQ(weft_ddp_max_payload(&u->d, true), 1442 - 14);
	for (unsigned int i = 0; i < 4; i++) {
		uint8_t seg[100];
		uint8_t *p;

		h.mo = i % 2 * 10;
		h.last = i % 2;
		h.version = 0;
		p = weft_ddp_tx_begin(&u->d, &h, 10, NOW);
		CHECK(p != NULL);
		CHECK_EQ(h.msn, 1 + i / 2);
		memcpy(p, "0123456789", 10);
		weft_ddp_tx_end(&u->d, NOW);
		CHECK_EQ(weft_ddp_hdr_encode(&h, seg), 18);
		CHECK_EQ(seg[0] & 3, 1);
		memcpy(seg + 18, "0123456789", 10);
		n += slow_fpdu(want + n, seg, 28);
	}
	h = untagged(2, 0, 0, true);
	CHECK(weft_ddp_tx_begin(&u->d, &h, 0, NOW) != NULL);
	weft_ddp_tx_end(&u->d, NOW);
	CHECK_EQ(h.msn, 1);
	weft_ddp_tx_flush(&u->d, NOW);
	CHECK_EQ(u->c->nsegs, 1);
	CHECK_MEM(u->c->out, want, n);

	/* Without space no MSN is used. */
	u->c->space = 0;
	h = untagged(2, 0, 0, true);
	CHECK(weft_ddp_tx_begin(&u->d, &h, 0, NOW) == NULL);
	u->c->space = 100000;
	u->d.tx_msn[2] = UINT32_MAX;
	CHECK(weft_ddp_tx_begin(&u->d, &h, 0, NOW) != NULL);
	weft_ddp_tx_end(&u->d, NOW);
	CHECK_EQ(h.msn, UINT32_MAX);
	CHECK_EQ(u->d.tx_msn[2], 0);
	/* A full tagged segment has exactly the MSS. */
	h = tagged(u, 5);
	CHECK(weft_ddp_tx_begin(&u->d, &h, 1442 - 14, NOW) != NULL);
	weft_ddp_tx_end(&u->d, NOW);
	weft_ddp_tx_flush(&u->d, NOW);
	CHECK_EQ(u->c->seg[u->c->nsegs - 1].len, MSS);
	CHECK_EQ(u->c->out[u->c->seg[u->c->nsegs - 1].off + 2], 0xc1);
	/* A second stream receives what this one has sent. */
	{
		struct ulp *v = ulp_new();

		fake_rx(v->c, want, n, 0, NOW);
		CHECK_EQ(v->untagged, 4);
		CHECK_EQ(v->faults, 0);
		ulp_free(v);
	}
	ulp_free(u);
}

/** A segment that is cancelled uses no MSN, whatever message it belongs to. */
static void
test_tx_cancel(void)
{
	for (unsigned int k = 0; k < 4; k++) {
		struct ulp *u = ulp_new();
		struct weft_ddp_hdr h = untagged(0, 0, 0, k & 1);

		h.tagged = k & 2;
		CHECK(weft_ddp_tx_begin(&u->d, &h, 10, NOW) != NULL);
		weft_ddp_tx_cancel(&u->d, &h);
		h = untagged(0, 0, 0, true);
		CHECK(weft_ddp_tx_begin(&u->d, &h, 0, NOW) != NULL);
		weft_ddp_tx_end(&u->d, NOW);
		CHECK_EQ(h.msn, 1);
		ulp_free(u);
	}
}

/** Each stream has a unique number. MPA knows it, so that the logs of both layers name the
 * stream. */
static void
test_number(void)
{
	struct ulp *u = ulp_new(), *v = ulp_new();

	CHECK_EQ(u->d.mpa->stream, u->d.scope.stream);
	CHECK_EQ(v->d.mpa->stream, v->d.scope.stream);
	CHECK(u->d.mpa->stream != v->d.mpa->stream);
	ulp_free(v);
	ulp_free(u);
}

/** Expected segments go to written() alone, if they are whole and have a payload. */
static void
test_expected(void)
{
	static const uint8_t other[] = {0x00, 0x41, 0x42, 0x80, 0xc0};
	struct ulp *u = ulp_new();
	struct weft_ddp_hdr h = tagged(u, 0);

	weft_ddp_expect(&u->d, 0x40, WEFT_ACCESS_REMOTE_WRITE, 0, 0);
	for (uint32_t len = 1; len <= 80; len++) {
		h = tagged(u, len * 40);
		h.last = len & 1;
		rx_seg(u, &h, pattern + len, len, 0);
		CHECK_EQ(u->len, len);
		CHECK_MEM(u->buf + len * 40, pattern + len, len);
		CHECK_EQ(u->buf[len * 40 + len], 0);
	}
	CHECK_EQ(u->written, 80);
	CHECK_EQ(u->lasts, 40);
	CHECK_EQ(u->tagged, 0);
	/* in pieces; without a payload; with reserved bits */
	h = tagged(u, 0);
	rx_seg(u, &h, "x", 1, 5);
	rx_seg(u, &h, "", 0, 0);
	h.rsvd = 0x3c;
	rx_seg(u, &h, "y", 1, 0);
	CHECK_EQ(u->tagged, 3);
	CHECK_EQ(u->placed, 3);
	/* another RsvdULP octet */
	for (unsigned int i = 0; i < sizeof(other); i++) {
		h = tagged(u, 0);
		h.rsvdulp = other[i];
		rx_seg(u, &h, "z", 1, 0);
		CHECK_EQ(u->tagged, 4 + i);
	}
	/* no more */
	weft_ddp_expect(&u->d, 0, 0, 0, 0);
	h = tagged(u, 0);
	rx_seg(u, &h, "z", 1, 0);
	h.rsvdulp = 0;
	rx_seg(u, &h, "z", 1, 0);
	CHECK_EQ(u->tagged, 3 + sizeof(other) + 2);
	CHECK_EQ(u->written, 80);
	CHECK_EQ(u->faults, 0);
	/* another right */
	weft_ddp_expect(&u->d, 0x40, WEFT_ACCESS_REMOTE_READ, 0, 0);
	h = tagged(u, 0);
	h.stag = u->mr_ro->stag;
	rx_seg(u, &h, "r", 1, 0);
	CHECK_EQ(u->written, 81);
	ulp_free(u);
}

/** An answer is placed with the right that answer() names, if nothing is wrong with it. */
static void
test_expected_answers(void)
{
	struct ulp *u = ulp_new();
	struct weft_ddp_hdr h = tagged(u, 0);

	weft_ddp_expect(&u->d, 0x40, WEFT_ACCESS_REMOTE_WRITE, 0, 0);
	u->answer_access = WEFT_ACCESS_LOCAL_WRITE;
	for (uint32_t len = 1; len <= 80; len++) {
		h = tagged(u, len * 40);
		h.rsvdulp = 0x42;
		h.last = len & 1;
		rx_seg(u, &h, pattern + len, len, 0);
		CHECK_EQ(u->answered, len);
		CHECK_EQ(u->len, len);
		CHECK_EQ(u->h.rsvdulp, 0x42);
		CHECK_EQ(u->h.stag, u->mr->stag);
		CHECK_EQ(u->h.to, BASE_TO + len * 40);
		CHECK_EQ(u->h.last, len & 1);
		CHECK_MEM(u->buf + len * 40, pattern + len, len);
		CHECK_EQ(u->buf[len * 40 + len], 0);
	}
	CHECK_EQ(u->tagged, 0);
	/* in pieces; without a payload; with reserved bits; none that is awaited */
	rx_seg(u, &h, "x", 1, 5);
	rx_seg(u, &h, "", 0, 0);
	h.rsvd = 0x3c;
	rx_seg(u, &h, "y", 1, 0);
	h.rsvd = 0;
	u->answer_access = 0;
	rx_seg(u, &h, "z", 1, 0);
	CHECK_EQ(u->tagged, 4);
	u->answer_access = WEFT_ACCESS_LOCAL_WRITE;
	weft_ddp_expect(&u->d, 0, 0, 0, 0);
	rx_seg(u, &h, "z", 1, 0);
	CHECK_EQ(u->tagged, 5);
	CHECK_EQ(u->written, 0);
	CHECK_EQ(u->answered, 80);
	CHECK_EQ(u->faults, 0);
	/* outside the region, and without the right: refused by the general way, nothing placed */
	weft_ddp_expect(&u->d, 0x40, WEFT_ACCESS_REMOTE_WRITE, 0, 0);
	h = tagged(u, MEM_SIZE - 1);
	h.rsvdulp = 0x42;
	rx_seg(u, &h, "zz", 2, 0);
	CHECK_EQ(u->faults, 1);
	CHECK_EQ(u->buf[MEM_SIZE - 1], 0);
	ulp_free(u);

	u = ulp_new();
	weft_ddp_expect(&u->d, 0x40, WEFT_ACCESS_REMOTE_WRITE, 0, 0);
	u->answer_access = WEFT_ACCESS_LOCAL_WRITE;
	h = tagged(u, 0);
	h.rsvdulp = 0x42;
	h.stag = u->mr_ro->stag;
	rx_seg(u, &h, "z", 1, 0);
	CHECK_EQ(u->answered, 0);
	CHECK_EQ(u->faults, 1);
	CHECK_EQ(u->buf[0], 0);
	ulp_free(u);
}

/** A whole Send that is in sequence goes to sent() alone; all else, and what it declines, not. */
static void
test_expected_sends(void)
{
	struct ulp *u = ulp_new();
	struct weft_ddp_hdr h;
	uint32_t msn = 1;

	weft_ddp_expect(&u->d, 0, 0, 0x43, 0);
	for (uint32_t len = 0; len <= 100; len++) {
		h = untagged(0, msn++, 0, true);
		u->decline = len % 5 == 4;
		rx_seg(u, &h, pattern + len, len, 0);
		CHECK_EQ(u->len, len);
		CHECK_MEM(u->payload, pattern + len, len);
		CHECK_EQ(u->untagged, (len + 1) / 5);
		CHECK_EQ(u->sent, len + 1 - u->untagged);
	}
	u->decline = false;
	u->sent = u->untagged = 0;
	/* in two segments; a Send of another kind; another queue; reserved bits; in pieces */
	h = untagged(0, msn, 0, false);
	rx_seg(u, &h, "ab", 2, 0);
	h = untagged(0, msn++, 2, true);
	rx_seg(u, &h, "cd", 2, 0);
	CHECK_EQ(u->untagged, 2);
	h = untagged(0, msn++, 0, true);
	h.rsvdulp = 0x45;
	rx_seg(u, &h, "ab", 2, 0);
	h = untagged(1, 1, 0, true);
	rx_seg(u, &h, "ab", 2, 0);
	h = untagged(0, msn++, 0, true);
	h.rsvd = 0x3c;
	rx_seg(u, &h, "ab", 2, 0);
	h = untagged(0, msn++, 0, true);
	rx_seg(u, &h, "ab", 2, 15);
	CHECK_EQ(u->untagged, 6);
	CHECK_EQ(u->sent, 0);
	/* the beginning of a message is followed by another one's: MO is wrong */
	h = untagged(0, msn, 0, false);
	rx_seg(u, &h, "ab", 2, 0);
	h = untagged(0, msn, 0, true);
	rx_seg(u, &h, "cd", 2, 0);
	CHECK_EQ(u->sent, 0);
	CHECK_EQ(u->faults, 1);
	/* then nothing is taken any more */
	h = untagged(0, msn, 2, true);
	rx_seg(u, &h, "cd", 2, 0);
	CHECK_EQ(u->sent, 0);
	CHECK_EQ(u->dropped, 1);
	ulp_free(u);
}

static struct weft_ddp_hdr
request(uint32_t msn, uint32_t mo, bool last)
{
	struct weft_ddp_hdr h = untagged(1, msn, mo, last);

	h.rsvdulp = 0x41;
	return h;
}

/** So does a whole message of queue 1, with the octet that is named, to asked(). */
static void
test_expected_requests(void)
{
	struct ulp *u = ulp_new();
	struct weft_ddp_hdr h;
	uint32_t msn = 1;

	/* not before anything is expected */
	h = request(msn++, 0, true);
	rx_seg(u, &h, "ab", 2, 0);
	CHECK_EQ(u->untagged, 1);
	weft_ddp_expect(&u->d, 0x40, WEFT_ACCESS_REMOTE_WRITE, 0x43, 0x41);
	u->untagged = 0;
	for (uint32_t len = 0; len <= 100; len++) {
		h = request(msn++, 0, true);
		u->decline = len % 5 == 4;
		rx_seg(u, &h, pattern + len, len, 0);
		CHECK_EQ(u->len, len);
		CHECK_MEM(u->payload, pattern + len, len);
		CHECK_EQ(u->untagged, (len + 1) / 5);
		CHECK_EQ(u->asked, len + 1 - u->untagged);
	}
	u->decline = false;
	u->asked = u->untagged = 0;
	/* in two segments; another queue; another octet; reserved bits; in pieces */
	h = request(msn, 0, false);
	rx_seg(u, &h, "ab", 2, 0);
	h = request(msn++, 2, true);
	rx_seg(u, &h, "cd", 2, 0);
	h = untagged(3, 1, 0, true);
	h.rsvdulp = 0x41;
	rx_seg(u, &h, "ab", 2, 0);
	h = request(msn++, 0, true);
	h.rsvdulp = 0x4c;
	rx_seg(u, &h, "ab", 2, 0);
	h = request(msn++, 0, true);
	h.rsvd = 0x3c;
	rx_seg(u, &h, "ab", 2, 0);
	h = request(msn++, 0, true);
	rx_seg(u, &h, "ab", 2, 15);
	CHECK_EQ(u->untagged, 6);
	CHECK_EQ(u->asked, 0);
	CHECK_EQ(u->faults, 0);
	/* of another version; then nothing is taken any more */
	h = request(msn, 0, true);
	h.version = 2;
	rx_seg(u, &h, "cd", 2, 0);
	h.version = 1;
	rx_seg(u, &h, "cd", 2, 0);
	CHECK_EQ(u->asked, 0);
	CHECK_EQ(u->faults, 1);
	CHECK_EQ(u->dropped, 1);
	ulp_free(u);

	/* out of sequence, and in the middle of a message */
	for (unsigned int k = 0; k < 3; k++) {
		u = ulp_new();
		weft_ddp_expect(&u->d, 0x40, WEFT_ACCESS_REMOTE_WRITE, 0x43, 0x41);
		h = request(k == 0 ? 2 : 1, k == 1 ? 1 : 0, k != 2);
		rx_seg(u, &h, "ab", 2, 0);
		h = request(1, 0, true);
		rx_seg(u, &h, "cd", 2, 0);
		CHECK_EQ(u->asked, 0);
		CHECK_EQ(u->faults, 1);
		ulp_free(u);
	}
}

/** Expected segments that are wrong are refused as all others. */
static void
test_expected_errors(void)
{
	ulp_expects = true;
	test_tagged_zero();
	test_tagged_errors();
	test_untagged_errors();
	test_short();
	test_crc_fault();
	ulp_expects = false;
}

static void
tx_one(struct ulp *u, const struct weft_ddp_msg *m)
{
	struct weft_ddp_hdr h = {.tagged = m->tagged,
	                         .last = true,
	                         .rsvdulp = m->rsvdulp,
	                         .rsvdulp32 = m->tagged ? 0 : m->stag,
	                         .stag = m->stag,
	                         .to = m->to,
	                         .qn = m->qn};
	uint8_t *p = weft_ddp_tx_begin(&u->d, &h, m->len_bytes, NOW);

	CHECK(p != NULL);
	memcpy(p, m->src, m->len_bytes);
	weft_ddp_tx_end(&u->d, NOW);
}

/** Packed or not, the octets sent are the same. */
static void
test_tx_packed(void)
{
	struct weft_ddp_msg msg[6];
	uint64_t x = test_seed(5);

	for (unsigned int round = 0; round < 40; round++) {
		struct ulp *u = ulp_new(), *v = ulp_new();
		unsigned int packed = 0;

		u->c->space = v->c->space = 1 << 20;
		for (unsigned int i = 0; i < 60;) {
			unsigned int n = 1 + (unsigned int)(test_xorshift(&x) % RTE_DIM(msg)), done;

			for (unsigned int k = 0; k < n; k++) {
				uint32_t most = test_xorshift(&x) % 4 == 0 ? 1424 : 100;

				msg[k] = (struct weft_ddp_msg){
				        .src = pattern + k,
				        .to = test_xorshift(&x),
				        .len_bytes = (uint32_t)(test_xorshift(&x) % (most + 1)),
				        .stag = (uint32_t)test_xorshift(&x),
				        .rsvdulp = (uint8_t)test_xorshift(&x),
				        .tagged = test_xorshift(&x) & 1,
				        .qn = test_xorshift(&x) & 1};
			}
			done = weft_ddp_tx_pack(&u->d, msg, n);
			CHECK(done <= n);
			packed += done;
			i += n;
			for (unsigned int k = 0; k < n; k++) {
				if (k >= done)
					tx_one(u, &msg[k]);
				tx_one(v, &msg[k]);
			}
			if (test_xorshift(&x) % 8 == 0) {
				weft_ddp_tx_flush(&u->d, NOW);
				weft_ddp_tx_flush(&v->d, NOW);
			}
		}
		weft_ddp_tx_flush(&u->d, NOW);
		weft_ddp_tx_flush(&v->d, NOW);
		CHECK(packed > 10 && packed < 60);
		CHECK_EQ(u->c->nsegs, v->c->nsegs);
		CHECK_EQ(u->c->out_bytes, v->c->out_bytes);
		CHECK_MEM(u->c->out, v->c->out, v->c->out_bytes);
		CHECK_EQ(u->mpa.stats.fpdus_out, v->mpa.stats.fpdus_out);
		/* never without a segment under construction */
		CHECK_EQ(weft_ddp_tx_pack(&u->d, msg, 1), 0);
		CHECK_EQ(weft_ddp_tx_room(&u->d), 0);
		ulp_free(u);
		ulp_free(v);
	}
}

/* ---- Segments behind a gap ---- */

/** Offer a segment of the stream octets [seq, end_seq) before its turn. */
static bool
ahead(struct ulp *u, const uint8_t *seg, uint32_t len, uint32_t seq, uint32_t end_seq)
{
	uint8_t *copy = test_heap_copy(seg, len);
	struct weft_frag frag[2] = {{copy, len / 2}, {copy + len / 2, len - len / 2}};
	bool placed = weft_ddp_mpa_ops.ulpdu_ahead(&u->d, frag, 2, len, seq, end_seq);

	free(copy);
	return placed;
}

/**
 * Tagged segments to overlapping places, and some of them are placed before their turn, in any
 * order; some of these come again as octets, as after a receiver that dropped them. When all had
 * their turn, the memory is as if they had been placed in order.
 */
static void
test_ahead_order(void)
{
	enum { N = 40, MAX = 300 };

	for (unsigned int run = 0; run < 300 && (run == 0 || !test_seed_given()); run++) {
		uint64_t seed = test_seed(1 + run), x = seed * 2 + 1;
		struct ulp *u = ulp_new();
		static uint8_t seg[N][MAX + 14], model[MEM_SIZE];
		uint32_t len[N], seq[N + 1];
		bool taken[N] = {false};
		unsigned int early = 0;

		test_seed_note(seed);
		memset(model, 0, sizeof(model));
		u->c->rcv_nxt = seq[0] = 0xffffff00; /* the numbers wrap */
		for (unsigned int i = 0; i < N; i++) {
			uint32_t off = (uint32_t)(test_xorshift(&x) % (MEM_SIZE - MAX));
			uint32_t n = 1 + (uint32_t)(test_xorshift(&x) % MAX);
			struct weft_ddp_hdr h;

			/* Often the place behind the one before, so that ranges join. */
			if (i > 0 && test_xorshift(&x) % 2 == 0) {
				off = (uint32_t)(weft_get_be64(seg[i - 1] + 6) - BASE_TO) +
				      len[i - 1] - 14;
				off = RTE_MIN(off, (uint32_t)(MEM_SIZE - MAX));
			}
			h = tagged(u, off);
			h.version = 1;
			len[i] = n + weft_ddp_hdr_encode(&h, seg[i]);
			for (uint32_t k = 14; k < len[i]; k++)
				seg[i][k] = (uint8_t)test_xorshift(&x);
			memcpy(model + off, seg[i] + 14, n);
			seq[i + 1] = seq[i] + 2 + RTE_ALIGN_CEIL(len[i] + 2, 4) - 2 + 4;
		}
		for (unsigned int i = 0; i < N; i++) {
			for (unsigned int k = test_xorshift(&x) % 4; k > 0; k--) {
				unsigned int j = i + (unsigned int)(test_xorshift(&x) % (N - i));

				if (j > i && test_xorshift(&x) % 4 != 0)
					taken[j] = ahead(u, seg[j], len[j], seq[j], seq[j + 1]);
				else if (j > i)
					taken[j] = false;
				early += taken[j];
			}
			CHECK_EQ(u->c->rcv_nxt, seq[i]);
			if (!taken[i]) {
				rx_raw(u, seg[i], len[i], test_xorshift(&x) % 2 == 0 ? 0 : 50);
				continue;
			}
			u->c->rcv_nxt = seq[i + 1];
			weft_ddp_mpa_ops.ulpdu_placed(&u->d, seg[i], len[i], seq[i], seq[i + 1],
			                              NOW);
		}
		CHECK(early > 0);
		CHECK_EQ(u->placed, N);
		CHECK_EQ(u->faults, 0);
		CHECK_MEM(u->buf, model, MEM_SIZE);
		CHECK(u->d.ahead == NULL);
		ulp_free(u);
	}
}

/** What is not placed before its turn: no fault is reported, and nothing is written. */
static void
test_ahead_waits(void)
{
	static const uint8_t zero[MEM_SIZE];

	for (unsigned int how = 0; how < 10; how++) {
		struct ulp *u = ulp_new();
		struct weft_ddp_hdr h = tagged(u, 100);
		uint8_t seg[64];
		uint32_t len = 20, n;

		h.version = 1;
		if (how == 0)
			h.tagged = false;
		if (how == 1)
			len = 0;
		if (how == 2)
			h.stag ^= 1;
		if (how == 3)
			h.stag = u->mr_other->stag;
		if (how == 4)
			h.stag = u->mr_ro->stag;
		if (how == 5)
			h.to = BASE_TO + MEM_SIZE - 10;
		if (how == 6)
			h.version = 2;
		u->wait = how == 7;
		u->d.faulted = how == 8;
		memset(seg, 0xab, sizeof(seg));
		n = weft_ddp_hdr_encode(&h, seg) + len;
		CHECK_EQ(ahead(u, seg, how == 9 ? 10 : n, 1000, 1100), false);
		CHECK_EQ(u->faults + u->tagged + u->placed + u->untagged, 0);
		CHECK_MEM(u->buf, zero, MEM_SIZE);
		CHECK(u->d.ahead == NULL);
		ulp_free(u);
	}
}

/** A stream remembers a limited number of ranges. A segment beyond it waits. */
static void
test_ahead_limit(void)
{
	struct ulp *u = ulp_new();
	uint8_t seg[2][14 + 8];
	unsigned int n = 0;

	memset(seg, 0xab, sizeof(seg));
	for (unsigned int i = 0; i < 60; i++) {
		struct weft_ddp_hdr h = tagged(u, i * 16);

		h.version = 1;
		weft_ddp_hdr_encode(&h, seg[i > 0]);
		if (ahead(u, seg[i > 0], sizeof(seg[0]), i * 100, i * 100 + 50))
			n++;
		else
			CHECK_EQ(u->buf[i * 16], 0);
	}
	CHECK_EQ(n, 32);
	/* The turn of the first makes room for one. */
	weft_ddp_mpa_ops.ulpdu_placed(&u->d, seg[0], sizeof(seg[0]), 0, 50, NOW);
	CHECK(ahead(u, seg[1], sizeof(seg[0]), 5900, 5950));
	CHECK(!ahead(u, seg[1], sizeof(seg[0]), 6900, 6950));
	ulp_free(u);
}

/** Its turn finds that the STag is not valid any more: the fault has the header and the length. */
static void
test_ahead_refused(void)
{
	struct ulp *u = ulp_new();
	struct weft_ddp_hdr h = tagged(u, 100);
	uint8_t seg[14 + 30];

	h.version = 1;
	memset(seg, 0xab, sizeof(seg));
	weft_ddp_hdr_encode(&h, seg);
	CHECK(ahead(u, seg, sizeof(seg), 1000, 1100));
	CHECK_EQ(u->buf[100], 0xab);
	u->refuse = true;
	weft_ddp_mpa_ops.ulpdu_placed(&u->d, seg, sizeof(seg), 1000, 1100, NOW);
	CHECK_EQ(u->faults, 1);
	CHECK_EQ(u->placed, 0);
	CHECK_EQ(u->seg_bytes, sizeof(seg));
	CHECK_EQ(u->echo_bytes, 14);
	CHECK_MEM(u->echo, seg, 14);
	weft_ddp_mpa_ops.ulpdu_placed(&u->d, seg, sizeof(seg), 1100, 1200, NOW);
	CHECK_EQ(u->dropped, 1);
	ulp_free(u);
}

WEFT_TEST_MAIN({"header vectors", test_hdr_vectors}, {"header cut", test_hdr_cut},
               {"header control octet", test_hdr_control}, {"tagged placement", test_tagged_place},
               {"tagged zero length", test_tagged_zero}, {"tagged errors", test_tagged_errors},
               {"untagged errors", test_untagged_errors}, {"short segments", test_short},
               {"crc fault", test_crc_fault}, {"untagged sequence", test_untagged_sequence},
               {"passing up", test_passing_up}, {"transmit", test_tx}, {"given up", test_tx_cancel},
               {"stream number", test_number}, {"expected", test_expected},
               {"expected answers", test_expected_answers}, {"expected sends", test_expected_sends},
               {"expected requests", test_expected_requests},
               {"expected errors", test_expected_errors}, {"transmit packed", test_tx_packed},
               {"ahead, in the order sent", test_ahead_order},
               {"ahead, what waits", test_ahead_waits}, {"ahead, the limit", test_ahead_limit},
               {"ahead, refused in its turn", test_ahead_refused})
