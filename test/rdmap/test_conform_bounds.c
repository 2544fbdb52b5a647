/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Fields at their bounds (RFC 5041 s4, s5.2; RFC 5040 s4, s6.1): segments at every MULPDU, messages
 * cut at every octet, empty messages, numbers that wrap, messages of 2^32-1 octets.
 */

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "conform.h"

#define ALL                                                                                        \
	(WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE |            \
	 WEFT_ACCESS_FLUSH_VISIBLE)

static uint8_t src[1 << 18] __rte_aligned(64), dst[1 << 18] __rte_aligned(64);
static uint8_t rbuf[1 << 18];

static void
fill(uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(i * 167 + (i >> 8) * 13 + 1);
}

/* ---- Segmentation: RFC 5041 s5.2, s4.1 (L), s4.2, s4.3 ---- */

/* Check that `from` has sent one message of len octets, in segments of at most mulpdu octets. */
static void
check_segments(const struct rig_side *from, uint8_t op, uint32_t mulpdu, uint32_t len, uint64_t to)
{
	bool tagged = rdmap_ops[op].tagged;
	uint32_t hdr = tagged ? 14 : 18, off = 0, most = mulpdu - hdr;
	const struct rig_ulpdu *u, *first = TAILQ_FIRST(&from->out);

	CHECK(first != NULL);
	TAILQ_FOREACH (u, &from->out, link) {
		uint32_t n = RTE_MIN(most, len - off);
		bool last = off + n == len;

		CHECK_EQ(u->len_bytes, hdr + n);
		CHECK_EQ(u->data[0], (tagged ? 0x80 : 0) | (last ? 0x40 : 0) | 1);
		CHECK_EQ(u->data[1], 0x40 | op);
		CHECK_MEM(u->data + 2, first->data + 2,
		          tagged ? 4 : 12); /* STag; RsvdULP, QN, MSN */
		if (tagged)
			CHECK_EQ(weft_get_be64(u->data + 6), to + off);
		else
			CHECK_EQ(weft_get_be32(u->data + 14), off);
		CHECK_MEM(u->data + hdr, src + off, n);
		off += n;
		CHECK(!last || TAILQ_NEXT(u, link) == NULL); /* an empty message is one segment */
	}
	CHECK_EQ(off, len);
}

static struct weft_mem_mr *
mem_at(struct rig_side *s, void *p, uint64_t len, uint64_t to)
{
	return rig_reg(s, p, len, to, ALL, NULL, NULL);
}

static void
segment(uint8_t op, uint32_t mulpdu, uint32_t len)
{
	static const struct weft_rdmap_sge recv[2] = {{rbuf, 11}, {rbuf + 11, sizeof(rbuf) - 11}};
	struct rig_side *from = op == WEFT_RDMAP_READ_RESP ? &rig.b : &rig.a;
	struct weft_mem_mr *there, *here;
	struct weft_rdmap_req q;

	rig.mulpdu = mulpdu;
	rig_open(1, 1, false);
	there = mem_at(&rig.b, from == &rig.b ? src : dst, sizeof(dst), 16384);
	here = mem_at(&rig.a, dst, sizeof(dst), 16384);
	rig.b.recv_instead = recv;
	rig.b.recv_posted = 1;
	q = (struct weft_rdmap_req){.op = op == WEFT_RDMAP_READ_RESP ? WEFT_RDMAP_READ_REQ : op,
	                            .nsge = 2,
	                            .sge = {{src, len / 3}, {src + len / 3, len - len / 3}},
	                            .len_bytes = len,
	                            .stag = rdmap_ops[op].invalidate ? 0xfeed : there->stag,
	                            .to = 16384,
	                            .sink_stag = here->stag,
	                            .sink_to = 16384};
	memset(dst, 0, len + 1);
	memset(rbuf, 0, len + 1);
	weft_rdmap_post(rig.a.r, &q);
	if (from == &rig.b) {
		struct rig_ulpdu *u;

		weft_sched_run(&rig.a.sched, rig.now_ns);
		u = rig_pop(&rig.a);
		rig_inject(&rig.b, u->data, u->len_bytes);
		free(u);
	}
	while (weft_sched_run(&from->sched, rig.now_ns) > 0)
		; /* a poll sends a limited number of segments */
	check_segments(from, op, mulpdu, len, 16384);
	rig_pump();
	CHECK_EQ(rig_status(&rig.a, &q), WEFT_RDMAP_OK);
	if (rdmap_ops[op].tagged) {
		CHECK_MEM(dst, src, len);
		CHECK_EQ(dst[len], 0);
	} else {
		CHECK_EQ(rig_ev(&rig.b, EV_RECV, 0)->len_bytes, len);
		CHECK_MEM(rbuf, src, len);
		CHECK_EQ(rbuf[len], 0);
	}
	rig_unreg(&rig.a, here);
	rig_unreg(&rig.b, there);
	rig_close();
}

static void
test_every_mulpdu(void)
{
	static const uint8_t ops[] = {WEFT_RDMAP_WRITE,   WEFT_RDMAP_READ_RESP,
	                              WEFT_RDMAP_SEND,    WEFT_RDMAP_SEND_INV,
	                              WEFT_RDMAP_SEND_SE, WEFT_RDMAP_SEND_SE_INV};

	fill(src, sizeof(src));
	for (uint32_t m = 128; m <= 65535; m += m < 1500 ? 1 : m < 9100 ? 97 : 7001)
		for (unsigned int i = 0; i < RTE_DIM(ops); i++) {
			uint32_t most = m - (rdmap_ops[ops[i]].tagged ? 14 : 18);
			uint32_t len[] = {0, 1, most - 1, most, most + 1, 2 * most, 2 * most + 1};

			/* all lengths at the ends of the range of MULPDUs, one of them in
			 * between */
			for (unsigned int k = 0; k < RTE_DIM(len); k++)
				if (m < 136 || m > 1490 || k == (m + i) % RTE_DIM(len))
					segment(ops[i], m, len[k]);
		}
	/* the two examples of RFC 5041 s5.2 */
	segment(WEFT_RDMAP_SEND, 1500, 2048);
	segment(WEFT_RDMAP_WRITE, 1500, 2048);
}

/* ---- Every message, cut at every octet ---- */

/* clang-format off */
static const struct {
	uint8_t op;
	uint8_t ask; /* request that must be outstanding; 0xff: none */
	uint8_t len, min;
	const char *text;
} whole[] = {
	{WEFT_RDMAP_SEND, 0xff, 40, 0, "0123456789012345678901234567890123456789"},
	{WEFT_RDMAP_SEND_INV, 0xff, 40, 0, "0123456789012345678901234567890123456789"},
	{WEFT_RDMAP_SEND_SE, 0xff, 40, 0, "0123456789012345678901234567890123456789"},
	{WEFT_RDMAP_SEND_SE_INV, 0xff, 40, 0, "0123456789012345678901234567890123456789"},
	{WEFT_RDMAP_READ_REQ, 0xff, 28, 28,
	 "\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"},
	{WEFT_RDMAP_FLUSH_REQ, 0xff, 20, 20, NULL},
	{WEFT_RDMAP_VERIFY_REQ, 0xff, 16, 16, NULL},
	{WEFT_RDMAP_AWRITE_REQ, 0xff, 24, 24, NULL},
	{WEFT_RDMAP_FLUSH_RESP, WEFT_RDMAP_FLUSH_REQ, 0, 0, NULL},
	{WEFT_RDMAP_VERIFY_RESP, WEFT_RDMAP_VERIFY_REQ, 8, 1, "01234567"},
	{WEFT_RDMAP_AWRITE_RESP, WEFT_RDMAP_AWRITE_REQ, 0, 0, NULL},
	{WEFT_RDMAP_IMM, 0xff, 8, 8, "01234567"},
	{WEFT_RDMAP_IMM_SE, 0xff, 8, 8, "01234567"},
	{WEFT_RDMAP_ATOMIC_REQ, 0xff, 52, 52, NULL},
	{WEFT_RDMAP_ATOMIC_RESP, WEFT_RDMAP_ATOMIC_REQ, 12, 12, "\0\0\0\1" "01234567"},
};
/* clang-format on */

/* Inject the first n octets of message i, in segments cut at these offsets. */
static void
inject_cut(unsigned int i, uint32_t n, uint32_t cut1, uint32_t cut2)
{
	uint8_t p[64] = {0};
	uint8_t ctrl = 0x40 | whole[i].op, qn = rdmap_ops[whole[i].op].qn;

	if (whole[i].text != NULL) {
		memcpy(p, whole[i].text, whole[i].len);
	} else if (whole[i].op == WEFT_RDMAP_ATOMIC_REQ) { /* adds 0 */
		rdmap_atomic_req_encode(
		        &(struct rdmap_atomic_req){.stag = cf.all->stag, .to = CF_BASE}, p);
	} else if (whole[i].len > 0) {
		weft_put_be32(p, cf.all->stag);
		weft_put_be32(p + 4, 8);
		weft_put_be64(p + 8, CF_BASE);
		if (whole[i].op == WEFT_RDMAP_FLUSH_REQ)
			p[19] = 1;
		else
			memset(p + 16, CF_FILL, 8);
	}
	if (cut1 > 0)
		rig_inject_untagged(&rig.b, ctrl, qn, 1, 0, false, 0xfeed, p, cut1);
	if (cut2 > cut1)
		rig_inject_untagged(&rig.b, ctrl, qn, 1, cut1, false, 0xfeed, p + cut1,
		                    cut2 - cut1);
	cut2 = RTE_MAX(cut1, cut2);
	rig_inject_untagged(&rig.b, ctrl, qn, 1, cut2, true, 0xfeed, p + cut2, n - cut2);
}

static void
open_cut(unsigned int i)
{
	cf_open();
	rig_post_recv(&rig.b, 1);
	if (whole[i].ask != 0xff)
		cf_post(whole[i].ask, 1);
}

/* A message in two or three segments, cut anywhere, has the same effect as in one. */
static void
test_segmented_anywhere(void)
{
	for (unsigned int i = 0; i < RTE_DIM(whole); i++)
		for (uint32_t c1 = 0; c1 <= whole[i].len; c1++)
			for (uint32_t c2 = c1; c2 <= whole[i].len; c2 += 3) {
				struct rig_ulpdu *u;

				open_cut(i);
				inject_cut(i, whole[i].len, c1, c2);
				rig_pump();
				CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_RTS);
				if (whole[i].ask != 0xff)
					CHECK_EQ(rig_status(&rig.b, &cf.req[0]), WEFT_RDMAP_OK);
				else if (rdmap_ops[whole[i].op].imm)
					CHECK_MEM(rig_ev(&rig.b, EV_IMM, 0)->imm, "01234567", 8);
				else if (rdmap_ops[whole[i].op].qn == 0)
					CHECK_EQ(rig_ev(&rig.b, EV_RECV, 0)->len_bytes, 40);
				u = rig_pop(&rig.b);
				CHECK_EQ(u != NULL, rdmap_ops[whole[i].op].request &&
				                            rdmap_ops[whole[i].op].qn == 1);
				free(u);
				CHECK_EQ(rig.b.op_stats.in[whole[i].op], 1);
				cf_close();
			}
}

/* A message that ends too early is a shorter Send. For a message of fixed length it is the error
 * 0/2/FF. */
static void
test_cut_short(void)
{
	static const struct weft_term term = {0, 2, 0xff};

	for (unsigned int i = 0; i < RTE_DIM(whole); i++)
		for (uint32_t n = 0; n < whole[i].len; n++)
			for (uint32_t cut = 0; cut <= n; cut += RTE_MAX(1u, n)) {
				open_cut(i);
				inject_cut(i, n, cut, 0);
				if (n < whole[i].min) {
					cf_blame();
					cf_expect_term(&term, CF_DDP);
				} else if (rdmap_ops[whole[i].op].qn == 0) {
					CHECK_EQ(rig_ev(&rig.b, EV_RECV, 0)->len_bytes, n);
				}
				cf_close();
			}
}

/* A segment that ends inside its header causes 1/0/00. */
static void
test_cut_header(void)
{
	static const struct weft_term term = {1, 0, 0};
	uint8_t seg[18] = {0};

	for (unsigned int tagged = 0; tagged < 2; tagged++)
		for (uint32_t n = 0; n < (tagged ? 14 : 18); n++) {
			cf_open();
			seg[0] = tagged ? 0xc1 : 0x41;
			seg[1] = 0x43;
			rig_inject(&rig.b, seg, n);
			cf_expect_term(&term, CF_WORD);
			cf_close();
		}
}

/* ---- Empty messages ---- */

/* RFC 5041 s5.2, RFC 5040 s5.1, s5.2.1, s5.3: empty messages of each kind. STag and TO are not
 * checked. */
static void
test_empty(void)
{
	struct rig_ulpdu *u;

	cf_open();
	rig_post_recv(&rig.b, 5);
	CF_TAGGED(0x40, 0x12345678, UINT64_MAX, NULL, 0);
	CF_TAGGED(0x40, cf.ro->stag, 0, NULL, 0);
	CF_TAGGED(0x40, cf.alien->stag, CF_BASE + CF_BYTES + 1, NULL, 0);
	for (uint32_t k = 0; k < 4; k++)
		rig_inject_untagged(&rig.b, (uint8_t)(0x43 + k), 0, 1 + k, 0, true, 0xfeed, NULL,
		                    0);
	CHECK_EQ(rig_ev_count(&rig.b, EV_RECV), 4); /* each uses a receive */
	CHECK_EQ(rig.b.recv_taken, 4);
	CF_READ(1, 0x12345678, UINT64_MAX, 0);
	rig_pump();
	/* s5.2.1: answered, with the sink as in the request */
	EXPECT_ULPDU(&rig.b, "\xc1\x42\x0a\x0b\x0c\x0d\x11\x12\x13\x14\x15\x16\x17\x18", 14);
	cf_post(WEFT_RDMAP_READ_REQ, 1);
	cf.req[0].len_bytes = 0;
	CF_TAGGED(0x42, 0x12345678, UINT64_MAX, NULL, 0);
	CHECK_EQ(rig_status(&rig.b, &cf.req[0]), WEFT_RDMAP_OK);
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_RTS);
	/* Sent: one segment each. */
	for (uint8_t op = 0; op <= WEFT_RDMAP_SEND_SE_INV; op++) {
		if (!rdmap_ops[op].ulp || !rdmap_ops[op].request)
			continue;
		cf.req[1] = (struct weft_rdmap_req){.op = op};
		weft_rdmap_post(rig.b.r, &cf.req[1]);
		rig_pump();
		u = rig_pop(&rig.b);
		CHECK(u != NULL && u->len_bytes == (op == 0 ? 14 : 18) && (u->data[0] & 0x40));
		free(u);
		CHECK(TAILQ_EMPTY(&rig.b.out));
		rig.b.nev = 0;
	}
	cf_close();
}

/* ---- Tagged offsets ---- */

/* clang-format off */
static const struct {
	const char *name;
	uint64_t base, to;
	uint32_t region, len;
	int code; /* -1: placed */
} tos[] = {
	{"first octet", 0, 0, 16, 1, -1},
	{"all", 0, 0, 16, 16, -1},
	{"last octet", 0, 15, 16, 1, -1},
	{"one too many", 0, 0, 16, 17, WEFT_TERM_TAG_BOUNDS},
	{"one too far", 0, 1, 16, 16, WEFT_TERM_TAG_BOUNDS},
	{"just behind", 0, 16, 16, 1, WEFT_TERM_TAG_BOUNDS},
	{"far behind", 0, 1ull << 63, 16, 1, WEFT_TERM_TAG_BOUNDS},
	{"just before", 4096, 4095, 16, 1, WEFT_TERM_TAG_BOUNDS},
	{"from before into it", 4096, 4095, 16, 2, WEFT_TERM_TAG_BOUNDS},
	{"4 GiB before", 1ull << 33, 1ull << 32, 16, 1, WEFT_TERM_TAG_BOUNDS},
	{"across 2^32", (1ull << 32) - 8, (1ull << 32) - 8, 16, 16, -1},
	{"across 2^63", (1ull << 63) - 8, (1ull << 63) - 8, 16, 16, -1},
	{"up to 2^64", UINT64_MAX - 15, UINT64_MAX - 15, 16, 16, -1},
	{"octet 2^64-1", UINT64_MAX - 15, UINT64_MAX, 16, 1, -1},
	{"over 2^64 by one", UINT64_MAX - 15, UINT64_MAX, 16, 2, WEFT_TERM_TAG_TO_WRAP},
	{"over 2^64 into a region at 0", 0, UINT64_MAX - 3, 16, 8, WEFT_TERM_TAG_TO_WRAP},
};
/* clang-format on */

/* The same bounds apply to a Write and to the source of a Read. */
static void
test_tagged_offsets(void)
{
	for (unsigned int i = 0; i < RTE_DIM(tos); i++)
		for (unsigned int read = 0; read < 2; read++) {
			struct weft_term t = {read ? 0 : 1, 1, (uint8_t)tos[i].code};
			uint8_t m[48], text[32];
			struct weft_mem_mr *mr;
			struct rig_ulpdu *u;

			if (read && tos[i].code == WEFT_TERM_TAG_TO_WRAP)
				t.code = WEFT_TERM_PROT_TO_WRAP;
			memset(m, 'm', sizeof(m));
			memset(text, 't', sizeof(text));
			cf_open();
			mr = rig_reg(&rig.b, m + 16, tos[i].region, tos[i].base, ALL, NULL, NULL);
			if (read)
				CF_READ(1, mr->stag, tos[i].to, tos[i].len);
			else
				CF_TAGGED(0x40, mr->stag, tos[i].to, text, tos[i].len);
			if (tos[i].code >= 0) {
				cf_expect_term(&t, read ? CF_RDMA : CF_DDP);
			} else {
				rig_pump();
				CHECK_MSG(weft_rdmap_state(rig.b.r) == WEFT_RDMAP_ST_RTS, "%s",
				          tos[i].name);
				while ((u = rig_pop(&rig.b)) != NULL)
					free(u);
			}
			for (unsigned int k = 0; k < sizeof(m); k++) {
				uint64_t at = tos[i].base + k - 16;
				bool in = !read && tos[i].code < 0 && k >= 16 && k < 32 &&
				          at - tos[i].to < tos[i].len;

				CHECK_MSG(m[k] == (in ? 't' : 'm'), "%s: octet %u", tos[i].name, k);
			}
			rig_unreg(&rig.b, mr);
			cf_close();
		}
}

/* RFC 5040 s4.4: the sink of a Read is copied to the response without a check. */
static void
test_sink_uninterpreted(void)
{
	static const uint64_t sink[] = {0, UINT32_MAX, 1ull << 63, UINT64_MAX - 1000, UINT64_MAX};

	for (unsigned int i = 0; i < RTE_DIM(sink); i++) {
		struct rdmap_read_req q = {.sink_stag = UINT32_MAX,
		                           .sink_to = sink[i],
		                           .len_bytes = 4000,
		                           .src_to = CF_BASE};
		uint64_t at = sink[i];
		struct rig_ulpdu *u;

		cf_open();
		q.src_stag = cf.ro->stag;
		rig_inject_read(&rig.b, 1, &q);
		rig_pump();
		while ((u = rig_pop(&rig.b)) != NULL) {
			CHECK_EQ(weft_get_be32(u->data + 2), UINT32_MAX);
			CHECK_EQ(weft_get_be64(u->data + 6), at);
			/* modulo 2^64: the requester's DDP checks the sink */
			at += u->len_bytes - 14;
			free(u);
		}
		CHECK_EQ(at - sink[i], 4000);
		CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_RTS);
		cf_close();
	}
}

/* ---- Sequence numbers ---- */

/* RFC 5041 s4.3: MSNs count modulo 2^32, on each queue, sent and received. */
static void
test_msn_wraps(void)
{
	struct weft_mem_mr *mr, *sink;
	struct weft_rdmap_req q[18];

	rig_open(4, 4, false);
	mr = mem_at(&rig.b, dst, 4096, 0);
	sink = mem_at(&rig.a, src, 4096, 0);
	rig.b.recv_posted = 6;
	for (unsigned int k = 0; k < WEFT_DDP_NQN; k++) {
		rig.a.ddp->tx_msn[k] = rig.b.ddp->rx_msn[k] = UINT32_MAX - 2;
		rig.b.ddp->tx_msn[k] = rig.a.ddp->rx_msn[k] = UINT32_MAX - 1;
	}
	for (unsigned int i = 0; i < RTE_DIM(q); i++) {
		static const uint8_t ops[] = {WEFT_RDMAP_SEND, WEFT_RDMAP_READ_REQ,
		                              WEFT_RDMAP_FLUSH_REQ};

		q[i] = (struct weft_rdmap_req){.op = ops[i % 3],
		                               .nsge = 1,
		                               .sge = {{src, 3000}},
		                               .len_bytes = 3000,
		                               .stag = mr->stag,
		                               .flush_flags = WEFT_FLUSH_VISIBLE,
		                               .sink_stag = sink->stag};
		weft_rdmap_post(rig.a.r, &q[i]);
	}
	rig_pump();
	for (unsigned int i = 0; i < RTE_DIM(q); i++)
		CHECK_EQ(rig_status(&rig.a, &q[i]), WEFT_RDMAP_OK);
	CHECK_EQ(rig.a.ddp->tx_msn[WEFT_DDP_QN_SEND], 3);
	CHECK_EQ(rig.a.ddp->tx_msn[WEFT_DDP_QN_READ], 9);
	CHECK_EQ(rig.a.ddp->rx_msn[WEFT_DDP_QN_RESP], 4);
	rig_unreg(&rig.a, sink);
	rig_unreg(&rig.b, mr);
	rig_close();
}

/* Segments of messages on different queues, and tagged segments, may be interleaved. */
static void
test_interleaved_queues(void)
{
	uint8_t read[28] = {0, 0, 0, 1, [15] = 4, [21] = 0, [25] = 1};
	uint8_t flush[20] = {[7] = 8, [13] = 1, [19] = 1};

	cf_open();
	rig_post_recv(&rig.b, 2);
	weft_put_be32(read + 16, cf.ro->stag);
	weft_put_be32(flush, cf.all->stag);
	rig_inject_untagged(&rig.b, 0x43, 0, 1, 0, false, 0, "ab", 2);
	rig_inject_untagged(&rig.b, 0x41, 1, 1, 0, false, 0, read, 9);
	rig_inject_tagged(&rig.b, 0x40, cf.all->stag, CF_BASE, false, "w", 1);
	rig_inject_untagged(&rig.b, 0x43, 0, 1, 2, false, 0, "cd", 2);
	rig_inject_tagged(&rig.b, 0x40, cf.wo->stag, CF_BASE + 7, true, "x", 1);
	rig_inject_untagged(&rig.b, 0x41, 1, 1, 9, true, 0, read + 9, 19);
	rig_inject_untagged(&rig.b, 0x4c, 1, 2, 0, false, 0, flush, 20);
	rig_inject_tagged(&rig.b, 0x40, cf.all->stag, CF_BASE + 1, true, "y", 1);
	rig_inject_untagged(&rig.b, 0x43, 0, 1, 4, true, 0, "ef", 2);
	rig_inject_untagged(&rig.b, 0x4c, 1, 2, 20, true, 0, NULL, 0);
	rig_inject_untagged(&rig.b, 0x43, 0, 2, 0, true, 0, "gh", 2);
	rig_pump();
	CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_RTS);
	CHECK_MEM(rig.b.recv[0], "abcdef", 6);
	CHECK_MEM(rig.b.recv[1], "gh", 2);
	CHECK_MEM(cf.med.p.base, "wy", 2);
	CHECK_EQ(cf.mem[1][7], 'x');
	for (unsigned int i = 0; i < 2; i++) {
		struct rig_ulpdu *u = rig_pop(&rig.b);

		CHECK(u != NULL && u->data[1] == (i == 0 ? 0x42 : 0x4d));
		free(u);
	}
	cf.touched = true;
	cf_close();
}

/* ---- IRD and ORD: RFC 5040 s6.1 ---- */

static void
test_ird_ord(void)
{
	for (uint16_t ord = 1; ord <= 9; ord++)
		for (uint16_t ird = 1; ird <= 9; ird++) {
			struct weft_rdmap_req q[12];
			struct weft_mem_mr *mr, *sink;
			uint16_t out, in;

			rig_open(ird, ord, false);
			mr = mem_at(&rig.b, dst, 4096, 0);
			sink = mem_at(&rig.a, src, 4096, 0);
			rig.b.space = 0; /* no responses yet */
			for (unsigned int i = 0; i < RTE_DIM(q); i++) {
				q[i] = (struct weft_rdmap_req){.op = WEFT_RDMAP_READ_REQ,
				                               .len_bytes = 100,
				                               .stag = mr->stag,
				                               .sink_stag = sink->stag};
				weft_rdmap_post(rig.a.r, &q[i]);
			}
			rig_pump();
			weft_rdmap_depths(rig.a.r, &out, &in);
			CHECK_EQ(out, ord); /* exactly ORD requests are outstanding */
			weft_rdmap_depths(rig.b.r, &out, &in);
			if (ord <= ird) {
				CHECK_EQ(in, ord);
				rig.b.space = UINT32_MAX;
				rig_pump();
				for (unsigned int i = 0; i < RTE_DIM(q); i++)
					CHECK_EQ(rig_status(&rig.a, &q[i]), WEFT_RDMAP_OK);
			} else {
				CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_TERMINATE);
				CHECK_EQ(rig.b.op_stats.faults.requests_beyond_ird, 1);
				rig.b.space = UINT32_MAX;
				rig_pump();
				CHECK_EQ(rig_status(&rig.a, &q[ird]), WEFT_RDMAP_REMOTE_OP);
			}
			rig_unreg(&rig.a, sink);
			rig_unreg(&rig.b, mr);
			rig_close();
		}
}

/* ---- 2^32-1 octets ---- */

#define PIECE (2u << 20)
#define SPAN  (1ull << 32)

/* 4 GiB of addresses that map the same 2 MiB of memory again and again. */
static uint8_t *
alias_new(void)
{
	int fd = memfd_create("weft-test", 0);
	uint8_t *p =
	        mmap(NULL, SPAN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (fd < 0 || p == MAP_FAILED || ftruncate(fd, PIECE) != 0)
		test_skip("no room for 4 GiB of addresses");
	for (uint64_t off = 0; off < SPAN; off += PIECE)
		if (mmap(p + off, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
		    MAP_FAILED)
			test_skip("too many mappings");
	close(fd);
	return p;
}

/* RFC 5041 s5.2: "MUST be less than 2^32". The longest message of each kind is transferred
 * whole. */
static void
test_longest(void)
{
	static const uint8_t ops[] = {WEFT_RDMAP_WRITE, WEFT_RDMAP_SEND, WEFT_RDMAP_READ_REQ};
	uint8_t *from = alias_new(), *to = alias_new();

	fill(from, PIECE);
	for (unsigned int i = 0; i < RTE_DIM(ops); i++) {
		const struct weft_rdmap_sge recv[2] = {{to, 1u << 31},
		                                       {to + (1u << 31), 0x7fffffff}};
		struct weft_mem_mr *there, *here;
		struct weft_rdmap_req q = {
		        .op = ops[i],
		        .nsge = 2,
		        .sge = {{from, UINT32_MAX - 3}, {from + UINT32_MAX - 3, 3}},
		        .len_bytes = UINT32_MAX,
		        .to = 77,
		        .sink_to = UINT64_MAX - (UINT32_MAX - 1)};

		memset(to, 0, PIECE);
		rig.mulpdu = 65535;
		rig_open(1, 1, false);
		there = mem_at(&rig.b, ops[i] == WEFT_RDMAP_READ_REQ ? from : to, UINT32_MAX, 77);
		here = mem_at(&rig.a, to, UINT32_MAX, q.sink_to);
		rig.b.recv_instead = recv;
		rig.b.recv_posted = 1;
		q.stag = there->stag;
		q.sink_stag = here->stag;
		weft_rdmap_post(rig.a.r, &q);
		rig_pump();
		CHECK_EQ(rig_status(&rig.a, &q), WEFT_RDMAP_OK);
		CHECK_EQ(weft_rdmap_state(rig.b.r), WEFT_RDMAP_ST_RTS);
		CHECK_EQ(weft_rdmap_stats(rig.b.r)->bytes_in + weft_rdmap_stats(rig.b.r)->bytes_out,
		         UINT32_MAX);
		if (ops[i] == WEFT_RDMAP_SEND)
			CHECK_EQ(rig_ev(&rig.b, EV_RECV, 0)->len_bytes, UINT32_MAX);
		CHECK_MEM(to, from, PIECE);
		rig_unreg(&rig.a, here);
		rig_unreg(&rig.b, there);
		rig_close();
	}
	munmap(from, SPAN);
	munmap(to, SPAN);
}

WEFT_TEST_MAIN({"every_mulpdu", test_every_mulpdu}, {"segmented_anywhere", test_segmented_anywhere},
               {"cut_short", test_cut_short}, {"cut_header", test_cut_header},
               {"empty", test_empty}, {"tagged_offsets", test_tagged_offsets},
               {"sink_uninterpreted", test_sink_uninterpreted}, {"msn_wraps", test_msn_wraps},
               {"interleaved_queues", test_interleaved_queues}, {"ird_ord", test_ird_ord},
               {"longest", test_longest})
