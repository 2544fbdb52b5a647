/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Transmit: building FPDUs from ULPDUs, and packing them into TCP segments. */

#include "mpa_priv.h"
#include "mpa_sum.h"
#include "weft_netif_mbuf.h"
#include "weft_mpa_tx.h"

/** From here on a copy and its CRC in one pass are faster than one after the other. */
#define MPA_TX_COPY_LEAST_BYTES 128

static inline bool
mpa_may_send(const struct weft_mpa *m)
{
	/* RFC 5044 s7.1.2 rule 4: a responder "MUST receive and validate at least one FPDU before
	 * sending any FPDUs". */
	return m->state == WEFT_MPA_FULL && !m->tx_closed && (m->initiator || m->peer_spoke);
}

static void
mpa_seg_send(struct weft_mpa *m, bool push, uint64_t now_ns)
{
	struct rte_mbuf *seg = m->seg;

	m->seg = NULL;
	m->stats.segs_out++;
	/* On an error the connection is ending, and `closed` follows. */
	(void)weft_tcp_send(m->tcp, seg, push, now_ns);
}

/** Start a segment with room for an FPDU of `total` octets. False: no space or no mbuf. */
static bool
mpa_seg_begin(struct weft_mpa *m, uint32_t total)
{
	uint32_t want;

	m->seg = weft_tcp_begin(m->tcp);
	if (m->seg == NULL)
		return false;
	/* With an MSS below 136 an FPDU of the smallest MULPDU exceeds the MSS (RFC 5044 s4.5
	 * allows it). TCP then splits the segment. */
	want = RTE_MAX((uint32_t)weft_tcp_mss(m->tcp), total);
	m->seg_room_bytes = RTE_MIN((uint32_t)rte_pktmbuf_tailroom(m->seg), want);
	if (unlikely(m->seg_room_bytes < total)) {
		rte_pktmbuf_free(m->seg);
		m->seg = NULL;
		return false;
	}
	return true;
}

uint8_t *
weft_mpa_tx_begin(struct weft_mpa *m, uint16_t ulpdu_bytes, uint64_t now_ns)
{
	uint32_t total = mpa_fpdu_bytes(ulpdu_bytes), marks = 0;

	RTE_ASSERT(m->fpdu == NULL);
	if (unlikely(!mpa_may_send(m)))
		return NULL;
	if (unlikely(m->tx_markers)) {
		marks = mpa_markers(m->tx_pos, total) * MPA_MARKER_BYTES;
		total += marks;
	}
	if (m->seg != NULL && m->seg_room_bytes < total)
		mpa_seg_send(m, false, now_ns);
	if (m->seg == NULL && !mpa_seg_begin(m, total))
		return NULL;
	m->fpdu = rte_pktmbuf_mtod_offset(m->seg, uint8_t *, m->seg->data_len);
	m->fpdu_ulpdu_bytes = ulpdu_bytes;
	m->fpdu_crc_bytes = 0;
	weft_put_be16(m->fpdu + marks, ulpdu_bytes);
	return m->fpdu + marks + MPA_FPDU_LEN_BYTES;
}

/** Not inline: its registers would be saved in every call of weft_mpa_tx_copy(). */
static __rte_noinline void
mpa_tx_copy_wide(struct weft_mpa *m, uint8_t *dst, const void *src, uint32_t len_bytes)
{
	const uint32_t ahead = (uint32_t)(dst - m->fpdu);
	uint32_t sum = 0;

	m->fpdu_crc = mpa_crc_update(MPA_CRC_INIT, m->fpdu, ahead);
	if (weft_mbuf_priv(m->seg)->tx_sum.wanted) {
		m->fpdu_crc = mpa_crc_wide_copy_sum(m->fpdu_crc, dst, src, len_bytes, &sum);
		m->fpdu_sum = weft_sum_add(ahead % 2 != 0 ? weft_sum_odd(sum) : sum,
		                           mpa_sum(m->fpdu, ahead));
	} else {
		m->fpdu_crc = mpa_crc_wide_copy(m->fpdu_crc, dst, src, len_bytes);
	}
	m->fpdu_crc_bytes = (uint16_t)(ahead + len_bytes);
}

void
weft_mpa_tx_copy(struct weft_mpa *m, uint8_t *dst, const void *src, uint32_t len_bytes)
{
	RTE_ASSERT(m->fpdu != NULL && dst > m->fpdu);
	/* mpa_mark() moves what is copied. */
	if (!mpa_crc_wide || !m->crc || m->tx_markers || len_bytes < MPA_TX_COPY_LEAST_BYTES) {
		memcpy(dst, src, len_bytes);
		return;
	}
	mpa_tx_copy_wide(m, dst, src, len_bytes);
}

/**
 * Pad the FPDU and insert its markers. It was written behind room for all of them. Each piece moves
 * to the front, by the length of the markers that follow it. Returns the octets before the CRC.
 */
static __rte_noinline uint32_t
mpa_mark(struct weft_mpa *m, uint32_t covered)
{
	uint32_t marks = mpa_markers(m->tx_pos, covered + MPA_FPDU_CRC_BYTES);
	uint32_t lead = mpa_marker_lead(m->tx_pos), run = mpa_to_marker(m->tx_pos);
	uint32_t all = covered + marks * MPA_MARKER_BYTES;
	uint32_t end = marks * MPA_MARKER_BYTES + MPA_FPDU_LEN_BYTES + m->fpdu_ulpdu_bytes;
	uint8_t *dst = m->fpdu;

	memset(m->fpdu + end, 0, all - end);
	for (; marks > 0; marks--) {
		memmove(dst, dst + marks * MPA_MARKER_BYTES, run);
		dst += run;
		weft_put_be16(dst, 0);
		weft_put_be16(dst + MPA_MARKER_PTR_OFF,
		              mpa_marker_ptr((uint32_t)(dst - m->fpdu), lead));
		dst += MPA_MARKER_BYTES;
		run = MPA_MARKER_PERIOD - MPA_MARKER_BYTES;
	}
	m->tx_pos = (uint16_t)((m->tx_pos + all + MPA_FPDU_CRC_BYTES) % MPA_MARKER_PERIOD);
	return all;
}

/**
 * Ends an FPDU of `covered` octets, whose payload weft_mpa_tx_copy() has copied: the rest of its
 * CRC; and its sum, if the segment has that of all FPDUs before. An FPDU is a multiple of four
 * octets.
 */
static __rte_noinline void
mpa_tx_end_wide(struct weft_mpa *m, uint32_t covered)
{
	struct weft_mbuf_sum *s = &weft_mbuf_priv(m->seg)->tx_sum;
	const uint32_t done = m->fpdu_crc_bytes, rest = covered - done;
	uint32_t sum;

	mpa_crc_put(m->fpdu + covered, mpa_crc_update(m->fpdu_crc, m->fpdu + done, rest));
	if (!s->wanted || s->bytes != m->seg->data_len)
		return;
	sum = weft_sum_add(0, mpa_sum(m->fpdu + done, rest));
	s->sum = weft_sum_add(s->sum, m->fpdu_sum);
	s->sum = weft_sum_add(s->sum, done % 2 != 0 ? weft_sum_odd(sum) : sum);
	s->sum = weft_sum_add(s->sum, mpa_sum(m->fpdu + covered, MPA_FPDU_CRC_BYTES));
	s->bytes = (uint16_t)(s->bytes + covered + MPA_FPDU_CRC_BYTES);
}

void
weft_mpa_tx_end(struct weft_mpa *m, uint64_t now_ns)
{
	uint32_t end = MPA_FPDU_LEN_BYTES + m->fpdu_ulpdu_bytes;
	uint32_t covered = mpa_fpdu_covered_bytes(m->fpdu_ulpdu_bytes);

	(void)now_ns;
	RTE_ASSERT(m->fpdu != NULL);
	if (unlikely(m->tx_markers))
		covered = mpa_mark(m, covered);
	else /* the pad, in one store: the CRC overwrites the rest of the four octets */
		memset(m->fpdu + end, 0, MPA_FPDU_CRC_BYTES);
	if (m->fpdu_crc_bytes != 0)
		mpa_tx_end_wide(m, covered);
	else
		weft_mpa_tx_seal(m->fpdu, covered, m->crc);
	covered += MPA_FPDU_CRC_BYTES;
	m->seg->data_len = (uint16_t)(m->seg->data_len + covered);
	m->seg->pkt_len += covered;
	m->seg_room_bytes -= covered;
	m->stats.fpdus_out++;
	m->fpdu = NULL;
}

void
weft_mpa_tx_cancel(struct weft_mpa *m)
{
	RTE_ASSERT(m->fpdu != NULL);
	m->fpdu = NULL;
	if (m->seg->data_len > 0)
		return;
	rte_pktmbuf_free(m->seg);
	m->seg = NULL;
}

void
weft_mpa_tx_flush(struct weft_mpa *m, uint64_t now_ns)
{
	RTE_ASSERT(m->fpdu == NULL);
	if (m->seg != NULL)
		mpa_seg_send(m, true, now_ns);
}
