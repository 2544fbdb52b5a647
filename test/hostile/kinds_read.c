/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Hostile peers that request much data and do not accept it. */

#include "export_proto.h"
#include "kinds.h"
#include "weft_rdmap.h"
#include "weft_test.h"

#define READ_BYTES (1u << 20)
#define READ_FIRST (3u << 20) /* acknowledged, to open the congestion window */

static void
reader_ulpdu(struct crowd_peer *p, const uint8_t *u, uint32_t have, uint32_t len)
{
	(void)len;
	if (p->stag == 0 && crowd_opened(p, u, have))
		for (unsigned int i = 0; i < 12; i++)
			crowd_read(p, 4096, READ_BYTES);
}

static void
reader_tick(struct crowd_peer *p, uint64_t now_ns)
{
	(void)now_ns;
	if (p->got_bytes > READ_FIRST)
		p->silent = true;
}

static const struct crowd_kind readers = {.name = "never_acknowledge",
                                          .peers = 24,
                                          .addrs = 24,
                                          .scaled = true,
                                          .up = crowd_start,
                                          .mpa = crowd_open_read,
                                          .ulpdu = reader_ulpdu,
                                          .tick = reader_tick};

static void
zero_tick(struct crowd_peer *p, uint64_t now_ns)
{
	(void)now_ns;
	if (p->got_bytes > READ_FIRST)
		p->wnd = 0;
}

static const struct crowd_kind zero_window = {.name = "zero_window",
                                              .peers = 24,
                                              .addrs = 24,
                                              .scaled = true,
                                              .up = crowd_start,
                                              .mpa = crowd_open_read,
                                              .ulpdu = reader_ulpdu,
                                              .tick = zero_tick};

/* Fifteen hundred segments of the least MSS that the target accepts. */
static void
mss1_tick(struct crowd_peer *p, uint64_t now_ns)
{
	(void)now_ns;
	if (p->got_bytes > 100000)
		p->silent = true;
}

static const struct crowd_kind mss1 = {.name = "mss_of_one",
                                       .peers = 48,
                                       .addrs = 48,
                                       .mss = 1,
                                       .up = crowd_start,
                                       .mpa = crowd_open_read,
                                       .ulpdu = reader_ulpdu,
                                       .tick = mss1_tick};

/* Small Reads, as many as the IRD allows. The peer does not acknowledge the responses. */
static void
small_unacked_ulpdu(struct crowd_peer *p, const uint8_t *u, uint32_t have, uint32_t len)
{
	(void)len;
	if (p->stag != 0 || !crowd_opened(p, u, have))
		return;
	for (unsigned int i = 0; i < 60; i++)
		crowd_read(p, 4096, 1400);
	p->silent = true;
}

static const struct crowd_kind small_unacked = {.name = "reads_unacknowledged",
                                                .peers = 200,
                                                .addrs = 200,
                                                .up = crowd_start,
                                                .mpa = crowd_open_read,
                                                .ulpdu = small_unacked_ulpdu};

/* ---- Answers of READ calls ---- */

#define CALLS    20u
#define DRIP_MS  250u
#define DRIP_WND 536u

/* A READ whose answer goes to the peer's Reply chunk (RFC 8166 s4.3.3). The target copies it, then
 * writes it. */
static void
call_read(struct crowd_peer *p, uint32_t xid)
{
	const uint32_t words[] = {xid,
	                          1,
	                          8,
	                          0,
	                          0,
	                          0,
	                          1,
	                          1,
	                          0x1234,
	                          2 * READ_BYTES,
	                          0,
	                          0,
	                          xid,
	                          0,
	                          2,
	                          WEFT_EXPORT_PROG,
	                          WEFT_EXPORT_V1,
	                          WEFT_EXPORT_READ_DATA,
	                          0,
	                          0,
	                          0,
	                          0,
	                          p->handle,
	                          0,
	                          0,
	                          READ_BYTES};
	uint8_t m[sizeof(words)];

	for (unsigned int i = 0; i < RTE_DIM(words); i++)
		weft_put_be32(m + 4 * i, words[i]);
	crowd_untagged(p, WEFT_RDMAP_SEND, 0, m, sizeof(m));
}

static void
replies_ulpdu(struct crowd_peer *p, const uint8_t *u, uint32_t have, uint32_t len)
{
	(void)len;
	if (p->stag != 0 || !crowd_opened(p, u, have))
		return;
	for (unsigned int i = 0; i < CALLS; i++)
		call_read(p, 100 + i);
	p->wnd = 0;
}

/* The peer's window is closed, so the answers wait. The target has accepted the calls. */
static const struct crowd_kind replies_unread = {.name = "replies_unread",
                                                 .peers = 40,
                                                 .addrs = 4,
                                                 .again = true,
                                                 .up = crowd_start,
                                                 .mpa = crowd_open_read,
                                                 .ulpdu = replies_ulpdu};

/* The peer accepts a little from time to time, so no stream stalls. */
static void
drip_tick(struct crowd_peer *p, uint64_t now_ns)
{
	if (p->stag == 0)
		return;
	p->wnd = (now_ns / 1000000 + p->n) % DRIP_MS == 0 ? DRIP_WND : 0;
	if (p->wnd != 0)
		crowd_seg(p, 0, 0, NULL, 0);
}

static const struct crowd_kind replies_dripped = {.name = "replies_dripped",
                                                  .peers = 40,
                                                  .addrs = 4,
                                                  .again = true,
                                                  .up = crowd_start,
                                                  .mpa = crowd_open_read,
                                                  .ulpdu = replies_ulpdu,
                                                  .tick = drip_tick};

const struct crowd_kind *const kinds_read[] = {
        &readers, &zero_window, &mss1, &small_unacked, &replies_unread, &replies_dripped, NULL};
