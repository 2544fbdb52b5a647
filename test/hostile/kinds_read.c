/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Hostile peers that ask for much and do not take it. */

#include "export_proto.h"
#include "kinds.h"
#include "weft_test.h"

#define READ_BYTES (1u << 20)
#define READ_FIRST (3u << 20) /* acknowledged, so that the congestion window grows */

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
		p->mute = true;
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

/* Fifteen hundred segments of the least MSS that the target believes. */
static void
mss1_tick(struct crowd_peer *p, uint64_t now_ns)
{
	(void)now_ns;
	if (p->got_bytes > 100000)
		p->mute = true;
}

static const struct crowd_kind mss1 = {.name = "mss_of_one",
                                       .peers = 48,
                                       .addrs = 48,
                                       .mss = 1,
                                       .up = crowd_start,
                                       .mpa = crowd_open_read,
                                       .ulpdu = reader_ulpdu,
                                       .tick = mss1_tick};

/* Small Reads, as many as the depth lets, that nobody acknowledges. */
static void
small_unacked_ulpdu(struct crowd_peer *p, const uint8_t *u, uint32_t have, uint32_t len)
{
	(void)len;
	if (p->stag != 0 || !crowd_opened(p, u, have))
		return;
	for (unsigned int i = 0; i < 60; i++)
		crowd_read(p, 4096, 1400);
	p->mute = true;
}

static const struct crowd_kind small_unacked = {.name = "reads_unacknowledged",
                                                .peers = 200,
                                                .addrs = 200,
                                                .up = crowd_start,
                                                .mpa = crowd_open_read,
                                                .ulpdu = small_unacked_ulpdu};

const struct crowd_kind *const kinds_read[] = {&readers, &zero_window, &mss1, &small_unacked, NULL};
