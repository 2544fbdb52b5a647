/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Hostile peers that hold one connection, or as many as the target accepts. */

#include <stdlib.h>

#include "export_proto.h"
#include "kinds.h"
#include "mpa_wire.h"
#include "rdmap_wire.h"
#include "rpcrdma_wire.h"
#include "weft_ddp_wire.h"
#include "weft_test.h"

#define ACK 0x10
#define MS  1000000ULL

/* ---- Messages that do not end ---- */

/* The head of an FPDU with a large ULPDU_Length, then parts of its payload in full segments or in
 * segments of one octet. The FPDU does not end. */
static void
half_fpdu_begin(struct crowd_peer *p)
{
	const struct weft_ddp_hdr h = {
	        .version = 1, .rsvdulp = RDMAP_CTRL(WEFT_RDMAP_SEND), .msn = 1};
	uint8_t m[32];

	weft_put_be16(m, 60000);
	crowd_say(p, m, 2 + weft_ddp_hdr_encode(&h, m + 2));
}

static void
half_fpdu_more(struct crowd_peer *p, uint32_t seg, unsigned int segs)
{
	static const uint8_t octets[1460];

	if (p->mpa_done && p->tx_len == 0 && p->step < segs) {
		p->seg_bytes = (uint16_t)seg;
		p->step++;
		crowd_say(p, octets, seg);
	}
}

static void
half_fpdu_tick(struct crowd_peer *p, uint64_t now_ns)
{
	(void)now_ns;
	half_fpdu_more(p, 1400, 15);
}

static const struct crowd_kind half_fpdu = {.name = "half_fpdu",
                                            .peers = 270,
                                            .addrs = 270,
                                            .up = crowd_start,
                                            .mpa = half_fpdu_begin,
                                            .tick = half_fpdu_tick};

static void
bit_fpdu_tick(struct crowd_peer *p, uint64_t now_ns)
{
	(void)now_ns;
	half_fpdu_more(p, 1, 400);
}

static const struct crowd_kind bit_fpdu = {.name = "fpdu_by_octets",
                                           .peers = 270,
                                           .addrs = 270,
                                           .up = crowd_start,
                                           .mpa = half_fpdu_begin,
                                           .tick = bit_fpdu_tick};

/* Octets of an FPDU directly after the MPA Request. They wait for the MPA Reply. */
static void
early_up(struct crowd_peer *p)
{
	uint8_t m[CROWD_TX / 2] = {0};
	uint32_t n = crowd_mpa_request(m);

	weft_put_be16(m + n, 60000);
	p->seg_bytes = 24;
	crowd_say(p, m, n + 1200);
}

static const struct crowd_kind early = {
        .name = "before_the_reply", .peers = 270, .addrs = 270, .up = early_up};

static void
slow_tick(struct crowd_peer *p, uint64_t now_ns)
{
	static const char key[] = "MPA ID Req Frame";

	if (p->tx_len == 0 && p->step < 16 && now_ns - p->said_ns > 100 * MS)
		crowd_say(p, &key[p->step++], 1);
}

static const struct crowd_kind slow_start = {
        .name = "slow_startup", .peers = 300, .addrs = 4, .again = true, .tick = slow_tick};

static const struct crowd_kind silent = {.name = "silent", .peers = 300, .addrs = 4, .again = true};
static const struct crowd_kind silent_many = {
        .name = "silent_many", .peers = 300, .addrs = 300, .again = true};

/* As many established, idle connections as the target accepts. */
static const struct crowd_kind idle = {
        .name = "idle_conns", .peers = 1500, .addrs = 1, .again = true, .up = crowd_start};

/* All connections that the target accepts, from n addresses: idle (idle_of_), or with a grant each
 * (grants_of_). */
#define IDLE_OF(n)                                                                                 \
	static const struct crowd_kind idle##n = {.name = "idle_of_" #n,                           \
	                                          .peers = 2048,                                   \
	                                          .addrs = n,                                      \
	                                          .again = true,                                   \
	                                          .up = crowd_start};                              \
	static const struct crowd_kind hold##n = {.name = "grants_of_" #n,                         \
	                                          .peers = 2048,                                   \
	                                          .addrs = n,                                      \
	                                          .again = true,                                   \
	                                          .up = crowd_start,                               \
	                                          .mpa = crowd_open_read}
/* One address for each connection: as many as the target has connections, and twice as many. */
static const struct crowd_kind hold1024 = {.name = "grants_of_1024",
                                           .peers = 1024,
                                           .addrs = 1024,
                                           .again = true,
                                           .up = crowd_start,
                                           .mpa = crowd_open_read};

/* Each connection also makes a call from time to time. */
static void
drip_tick(struct crowd_peer *p, uint64_t now_ns)
{
	if (p->mpa_done && p->tx_len == 0 && now_ns - p->said_ns > 300 * MS)
		crowd_call(p, 0, NULL, 0);
}

static const struct crowd_kind drip2048 = {.name = "calls_of_2048",
                                           .peers = 2048,
                                           .addrs = 2048,
                                           .again = true,
                                           .up = crowd_start,
                                           .tick = drip_tick};

IDLE_OF(2048);
IDLE_OF(2);
IDLE_OF(4);
IDLE_OF(300);

#define PART_BYTES    960
#define MESSAGE_BYTES ((1u << 20) + (64u << 10)) /* weft_rpc_attr.max_message_bytes */

/* Send one more part of a call of the maximum length (RPC-over-RDMA version 2, s6.3.6). */
static void
parts_mpa(struct crowd_peer *p)
{
	uint8_t m[1024];
	struct rpcrdma_hdr h;
	uint32_t n;

	weft_rpcrdma_hdr_init(&h, 2, RDMA2_CALL_MIDDLE, 0x77000000u + p->n);
	h.p.credit = 8;
	h.remaining_bytes = MESSAGE_BYTES - PART_BYTES * ++p->step;
	n = weft_rpcrdma_encode(m, sizeof(m), &h);
	CHECK(n > 0 && n + PART_BYTES <= sizeof(m));
	memset(m + n, 0, PART_BYTES);
	weft_put_be32(m + n, h.p.xid);
	crowd_untagged(p, WEFT_RDMAP_SEND, 0, m, n + PART_BYTES);
}

static void
parts_tick(struct crowd_peer *p, uint64_t now_ns)
{
	(void)now_ns;
	if (p->mpa_done && p->tx_len == 0 && p->step > 0 && p->step < p->kind->steps)
		parts_mpa(p);
}

static const struct crowd_kind rpc_parts = {.name = "rpc_parts",
                                            .peers = 400,
                                            .addrs = 400,
                                            .again = true,
                                            .steps = 200,
                                            .up = crowd_start,
                                            .mpa = parts_mpa,
                                            .tick = parts_tick};

/* Calls of 1 MiB each in Read chunks, as many as the credit permits. The peer does not answer the
 * target's RDMA Reads. */
static void
chunks_mpa(struct crowd_peer *p)
{
	/* RFC 8166 s4.1: RDMA_NOMSG, one Read segment at position zero, no other list. */
	for (uint32_t i = 0; i < 8; i++) {
		const uint32_t w[] = {0x66000000u + i, 1, 8, 1, 1, 0, 77, 1u << 20, 0, 0, 0, 0, 0};
		uint8_t m[sizeof(w)];

		for (unsigned int k = 0; k < RTE_DIM(w); k++)
			weft_put_be32(m + 4 * k, w[k]);
		crowd_untagged(p, WEFT_RDMAP_SEND, 0, m, sizeof(m));
	}
}

static const struct crowd_kind rpc_chunks = {.name = "rpc_chunks",
                                             .peers = 100,
                                             .addrs = 100,
                                             .again = true,
                                             .up = crowd_start,
                                             .mpa = chunks_mpa};

/* ---- Octets beyond a gap in the sequence space ---- */

static void
gap_tick(struct crowd_peer *p, uint64_t now_ns)
{
	uint8_t octet = (uint8_t)now_ns;

	if (p->mpa_done && p->step < 1000)
		crowd_seg(p, 0, 2 + 2 * p->step++, &octet, 1);
}

static const struct crowd_kind gap_octets = {.name = "gap_octets",
                                             .peers = 44,
                                             .addrs = 44,
                                             .again = true,
                                             .up = crowd_start,
                                             .tick = gap_tick};

static void
gap_full_tick(struct crowd_peer *p, uint64_t now_ns)
{
	static const uint8_t octets[1460];

	(void)now_ns;
	if (p->mpa_done && p->step < 700)
		crowd_seg(p, 0, 2 + 1460 * p->step++, octets, 1460);
}

static const struct crowd_kind gap_full = {.name = "gap_segments",
                                           .peers = 44,
                                           .addrs = 44,
                                           .again = true,
                                           .up = crowd_start,
                                           .tick = gap_full_tick};

/* Before the MPA start-up, when the peer is not known yet. */
static void
gap_early_tick(struct crowd_peer *p, uint64_t now_ns)
{
	uint8_t octet = (uint8_t)now_ns;

	if (p->step < 1000)
		crowd_seg(p, 0, 30 + 2 * p->step++, &octet, 1);
}

static const struct crowd_kind gap_early = {.name = "gap_in_startup",
                                            .peers = 120,
                                            .addrs = 120,
                                            .again = true,
                                            .tick = gap_early_tick};

/* ---- Requests ---- */

/* Endless RDMA Reads of one octet. */
static void
endless_ulpdu(struct crowd_peer *p, const uint8_t *u, uint32_t have, uint32_t len)
{
	(void)len;
	if (p->stag == 0 && crowd_opened(p, u, have))
		for (unsigned int i = 0; i < 40; i++)
			crowd_read(p, 4096, 1);
}

static void
endless_tick(struct crowd_peer *p, uint64_t now_ns)
{
	(void)now_ns;
	if (p->stag != 0 && p->tx_len == 0)
		crowd_read(p, 4096, 1);
}

static const struct crowd_kind small_reads = {.name = "endless_small_reads",
                                              .peers = 16,
                                              .addrs = 16,
                                              .up = crowd_start,
                                              .mpa = crowd_open_read,
                                              .ulpdu = endless_ulpdu,
                                              .tick = endless_tick};
/* More Reads than the IRD allows end in a Terminate. The peer then connects again. */
static void
beyond_ird_ulpdu(struct crowd_peer *p, const uint8_t *u, uint32_t have, uint32_t len)
{
	(void)len;
	if (p->stag == 0 && crowd_opened(p, u, have))
		for (unsigned int i = 0; i < 78; i++)
			crowd_read(p, 4096, 1u << 16);
}

static const struct crowd_kind too_many_reads = {.name = "reads_beyond_ird",
                                                 .peers = 16,
                                                 .addrs = 16,
                                                 .again = true,
                                                 .up = crowd_start,
                                                 .mpa = crowd_open_read,
                                                 .ulpdu = beyond_ird_ulpdu};

/* Calls whose answers the peer does not acknowledge. */
static void
calls_mpa(struct crowd_peer *p)
{
	for (unsigned int i = 0; i < 12; i++)
		crowd_call(p, WEFT_EXPORT_LIST, NULL, 0);
	p->silent = true;
}

static const struct crowd_kind calls_unacked = {.name = "calls_unacknowledged",
                                                .peers = 300,
                                                .addrs = 300,
                                                .up = crowd_start,
                                                .mpa = calls_mpa};

/* CLOSEs of handles that were never granted. The target keeps the reply of each. */
static void
close_stale(struct crowd_peer *p)
{
	uint8_t args[4] = {0xff, 0xff, 0xff, 0xff};

	crowd_call(p, WEFT_EXPORT_CLOSE, args, sizeof(args));
}

static void
closes_mpa(struct crowd_peer *p)
{
	for (unsigned int i = 0; i < 6; i++)
		close_stale(p);
}

static void
closes_ulpdu(struct crowd_peer *p, const uint8_t *u, uint32_t have, uint32_t len)
{
	(void)u;
	(void)have;
	(void)len;
	if (p->step++ < p->kind->steps)
		close_stale(p);
}

static const struct crowd_kind stale_closes = {.name = "stale_closes",
                                               .peers = 16,
                                               .addrs = 16,
                                               .steps = 500,
                                               .again = true,
                                               .up = crowd_start,
                                               .mpa = closes_mpa,
                                               .ulpdu = closes_ulpdu};

/* OPENs. Each makes the target register a region. */
static void
hog_mpa(struct crowd_peer *p)
{
	p->step++;
	crowd_open_read(p);
}

static void
hog_ulpdu(struct crowd_peer *p, const uint8_t *u, uint32_t have, uint32_t len)
{
	(void)u;
	(void)have;
	(void)len;
	if (p->step < 200)
		hog_mpa(p);
}

static const struct crowd_kind grants = {.name = "grants",
                                         .peers = 70,
                                         .addrs = 2,
                                         .again = true,
                                         .up = crowd_start,
                                         .mpa = hog_mpa,
                                         .ulpdu = hog_ulpdu};

/* ---- Errors that end the stream, repeatedly ---- */

static void
sends_mpa(struct crowd_peer *p)
{
	uint8_t m[8] = {0};

	for (unsigned int i = 0; i < 64; i++)
		crowd_untagged(p, WEFT_RDMAP_SEND, 0, m, sizeof(m));
}

static const struct crowd_kind sends = {.name = "sends_without_receives",
                                        .peers = 64,
                                        .addrs = 64,
                                        .again = true,
                                        .up = crowd_start,
                                        .mpa = sends_mpa};

static void
terminate_mpa(struct crowd_peer *p)
{
	const uint8_t m[4] = {(uint8_t)crowd_rand(p->c, 256), (uint8_t)crowd_rand(p->c, 256)};

	crowd_untagged(p, WEFT_RDMAP_TERMINATE, WEFT_DDP_QN_TERM, m, sizeof(m));
	crowd_untagged(p, WEFT_RDMAP_TERMINATE, WEFT_DDP_QN_TERM, m, sizeof(m));
}

static const struct crowd_kind terminates = {.name = "terminates",
                                             .peers = 64,
                                             .addrs = 64,
                                             .again = true,
                                             .up = crowd_start,
                                             .mpa = terminate_mpa};

/* Messages to an invalid STag. The target answers each with a Terminate, which the peer does not
 * acknowledge. */
static void
bad_mpa(struct crowd_peer *p)
{
	const struct weft_ddp_hdr h = {.tagged = true,
	                               .last = true,
	                               .version = 1,
	                               .rsvdulp = RDMAP_CTRL(WEFT_RDMAP_WRITE),
	                               .stag = (uint32_t)crowd_rand(p->c, UINT32_MAX)};
	uint8_t u[512] = {0}, out[544];

	weft_ddp_hdr_encode(&h, u);
	p->wnd = 0;
	crowd_say(p, out, crowd_fpdu(out, u, sizeof(u)));
}

static const struct crowd_kind bad_writes = {.name = "terminate_untaken",
                                             .peers = 200,
                                             .addrs = 200,
                                             .again = true,
                                             .up = crowd_start,
                                             .mpa = bad_mpa};

static void
garbage_up(struct crowd_peer *p)
{
	uint8_t m[600];

	for (unsigned int i = 0; i < sizeof(m); i++)
		m[i] = (uint8_t)crowd_rand(p->c, 256);
	crowd_say(p, m, sizeof(m));
}

static const struct crowd_kind garbage = {
        .name = "garbage", .peers = 100, .addrs = 100, .again = true, .up = garbage_up};

/* Peers that send FIN and then accept neither the target's octets nor its FIN. */
static void
half_closed_mpa(struct crowd_peer *p)
{
	crowd_seg(p, 0x01, 0, NULL, 0);
	p->silent = true;
}

static const struct crowd_kind half_closed = {.name = "half_closed",
                                              .peers = 300,
                                              .addrs = 300,
                                              .up = crowd_start,
                                              .mpa = half_closed_mpa};

static void
churn_mpa(struct crowd_peer *p)
{
	crowd_reset(p);
	p->said_ns = sim_now_ns(p->c->sim);
}

static const struct crowd_kind churn = {.name = "churn",
                                        .peers = 100,
                                        .addrs = 4,
                                        .again = true,
                                        .up = crowd_start,
                                        .mpa = churn_mpa};

const struct crowd_kind *const kinds_conn[] = {
        &half_fpdu,   &bit_fpdu,       &early,         &slow_start, &silent,   &silent_many,
        &idle,        &rpc_parts,      &rpc_chunks,    &gap_octets, &gap_full, &gap_early,
        &small_reads, &too_many_reads, &calls_unacked, &grants,     &sends,    &terminates,
        &bad_writes,  &garbage,        &half_closed,   &churn,      &idle2,    &idle4,
        &idle300,     &hold2,          &hold4,         &hold300,    &idle2048, &hold1024,
        &hold2048,    &drip2048,       NULL,
};

/* Their state at the target stays after they leave. Used by hostile_limits only. */
const struct crowd_kind *const kinds_kept[] = {&stale_closes, NULL};

const struct crowd_kind *const kinds_small[] = {&idle, &idle2, &idle4, &hold4, NULL};
