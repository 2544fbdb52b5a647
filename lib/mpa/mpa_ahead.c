/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * FPDUs that arrive behind a gap of the stream are handed up before the gap is filled, and again,
 * as records, in stream order.
 *
 * RFC 5044 s6 names the only ways to find an FPDU unambiguously. Behind a gap these are a marker
 * (way 2), and the length fields from an FPDU on that was found so (way 3). Where a segment begins
 * proves nothing: a sender or a middlebox may cut the stream anywhere, and octets of a payload may
 * look like an FPDU with a valid CRC. So without markers, and without CRC, nothing is handed up
 * ahead.
 *
 * The stream in order stays the authority. A segment that has anything wrong with it is left to
 * TCP as it is, and its fault is found when its turn comes.
 */

#include <stdlib.h>

#include "mpa_ahead.h"
#include "mpa_held.h"
#include "mpa_priv.h"
#include "mpa_strip.h"

/** FPDUs of one segment. A segment with more waits for its turn. */
#define MPA_AHEAD_FPDUS 64

/** What is kept of an FPDU that went up ahead, in place of its octets. */
struct mpa_ahead_rec {
	uint16_t ulpdu_bytes;
	uint8_t head[WEFT_MPA_AHEAD_HEAD_BYTES];
};
static_assert(sizeof(struct mpa_ahead_rec) == 16, "mpa_ahead_rec");

/** Octets of an FPDU with its markers. */
static uint32_t
mpa_ahead_raw(uint16_t pos, uint16_t ulpdu_bytes)
{
	uint32_t n = mpa_fpdu_bytes(ulpdu_bytes);

	return n + mpa_markers(pos, n) * MPA_MARKER_BYTES;
}

/**
 * Hand up the FPDU of `have` or fewer octets at p. Returns its octets, or 0: not whole, not valid,
 * or not taken. *marked: a marker in it points to its start.
 */
static uint32_t
mpa_ahead_one(struct weft_mpa *m, const uint8_t *p, uint32_t have, uint16_t pos, uint32_t seq,
              bool found, struct mpa_ahead_rec *rec)
{
	uint32_t lead = mpa_marker_lead(pos), raw;
	struct mpa_strip u;
	struct weft_cur c;

	if (have < lead + MPA_FPDU_LEN_BYTES)
		return 0;
	rec->ulpdu_bytes = weft_get_be16(p + lead);
	raw = mpa_ahead_raw(pos, rec->ulpdu_bytes);
	if (raw > have || rec->ulpdu_bytes < sizeof(rec->head))
		return 0;
	/* The first FPDU is known by a marker in it, or because it follows one that is known. */
	if (!found && mpa_to_marker(pos) >= raw)
		return 0;
	mpa_strip_begin(&u, pos, raw, rec->ulpdu_bytes, true);
	mpa_strip_piece(&u, p, raw);
	if (!mpa_crc_matches(u.field, u.crc) || u.fpduptr_bad)
		return 0;
	weft_cur_init(&c, u.frag, u.n);
	(void)weft_cur_read(&c, rec->head, sizeof(rec->head));
	if (!m->ops->ulpdu_ahead(m->user, u.frag, u.n, rec->ulpdu_bytes, seq, seq + raw))
		return 0;
	return raw;
}

bool
mpa_ahead(void *user, struct rte_mbuf *b, uint32_t seq, uint32_t gap_bytes, bool follows)
{
	struct mpa_ahead_rec rec[MPA_AHEAD_FPDUS];
	const uint8_t *p = rte_pktmbuf_mtod(b, const uint8_t *);
	struct weft_mpa *m = user;
	uint32_t at = 0, n = 0;

	/* The responder's first FPDU opens its own direction, and must be seen in order. */
	if (m->state != WEFT_MPA_FULL || !m->place_ahead || !m->rx_markers || !m->crc ||
	    m->rx_dead || !m->peer_spoke || m->drain != NULL || m->ops->ulpdu_ahead == NULL ||
	    b->nb_segs != 1)
		return false;
	while (at < b->data_len) {
		uint32_t pos = m->rx_pos + m->held_bytes + m->compact_bytes + gap_bytes + at, raw;

		if (n == MPA_AHEAD_FPDUS)
			return false;
		raw = mpa_ahead_one(m, p + at, b->data_len - at,
		                    (uint16_t)(pos % MPA_MARKER_PERIOD), seq + at, follows || n > 0,
		                    &rec[n]);
		if (raw == 0)
			return false;
		at += raw;
		n++;
	}
	/* An FPDU is longer than its record. */
	memcpy(rte_pktmbuf_mtod(b, void *), rec, n * sizeof(rec[0]));
	b->data_len = (uint16_t)(n * sizeof(rec[0]));
	b->pkt_len = b->data_len;
	m->stats.fpdus_ahead += n;
	if (mpa_keep(m) != NULL)
		mpa_keep(m)->ahead += n;
	return true;
}

void
mpa_rx_ahead(void *user, struct rte_mbuf *b, uint32_t seq, uint32_t len_bytes, uint64_t now_ns)
{
	struct weft_mpa *m = user;
	struct mpa_drain d = {.gone = false};
	uint32_t left = b->data_len;
	const uint8_t *p = rte_pktmbuf_mtod(b, const uint8_t *);

	if (m->rx_dead || m->state != WEFT_MPA_FULL) {
		rte_pktmbuf_free(b);
		return;
	}
	/* The markers said that an FPDU begins here, and the length fields say another place. */
	if (m->held_bytes + m->compact_bytes > 0) {
		rte_pktmbuf_free(b);
		m->stats.marker_errors++;
		WEFT_LOG_PEER(mpa, WARNING, "a marker and the length fields disagree");
		weft_mpa_fault(m, WEFT_MPA_ERR_MARKER);
		return;
	}
	RTE_SET_USED(len_bytes);
	m->drain = &d;
	for (; left > 0 && !d.gone && !m->rx_dead;
	     p += sizeof(struct mpa_ahead_rec), left -= (uint32_t)sizeof(struct mpa_ahead_rec)) {
		struct mpa_ahead_rec rec;
		uint32_t raw;

		memcpy(&rec, p, sizeof(rec));
		raw = mpa_ahead_raw(m->rx_pos, rec.ulpdu_bytes);
		m->rx_pos = (uint16_t)((m->rx_pos + raw) % MPA_MARKER_PERIOD);
		m->stats.fpdus_in++;
		m->ops->ulpdu_placed(m->user, rec.head, rec.ulpdu_bytes, seq, seq + raw, now_ns);
		seq += raw;
	}
	if (unlikely(d.gone)) {
		weft_mpa_free_chain(d.orphan);
		free(d.orphan_compact);
	} else {
		m->drain = NULL;
	}
	rte_pktmbuf_free(b);
}
