/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Receive: finding FPDUs in the octets from TCP, checking CRC and markers, handing ULPDUs
 * up. */

#include <stdlib.h>

#include "mpa_held.h"
#include "mpa_priv.h"
#include "mpa_strip.h"
#include "weft_tcp_damaged.h"

/** The length field at the head. At least two octets are held. */
static uint16_t
mpa_peek_len(const struct weft_mpa *m)
{
	const struct rte_mbuf *seg = m->held_head;
	const uint8_t *p = rte_pktmbuf_mtod(seg, const uint8_t *);

	if (likely(seg->data_len >= 2))
		return weft_get_be16(p);
	return (uint16_t)(p[0] << 8 | *rte_pktmbuf_mtod(seg->next, const uint8_t *));
}

static void
mpa_crc_fault(struct weft_mpa *m)
{
	m->stats.crc_errors++;
	weft_tcp_rx_damaged(m->tcp);
	WEFT_LOG_PEER(mpa, WARNING, "CRC of a received FPDU is wrong");
	weft_mpa_fault(m, WEFT_MPA_ERR_CRC);
}

/** Hand up the first FPDU. From then on a responder may send. */
static void
mpa_up_first(struct weft_mpa *m, struct mpa_drain *d, const struct weft_frag *frag,
             unsigned int nfrags, uint32_t len_bytes, uint64_t now_ns)
{
	m->stats.fpdus_in++;
	m->peer_spoke = true;
	/* RFC 6581 s9.2: an empty FPDU as RTR is for MPA alone, and does not go up. */
	if (len_bytes > 0 || !m->p2p || m->initiator)
		m->ops->ulpdu(m->user, frag, nfrags, len_bytes, now_ns);
	if (!d->gone && !m->initiator)
		m->ops->writable(m->user);
}

/** Hand up one checked ULPDU. The MPA may be released afterwards (d->gone). */
static void
mpa_up(struct weft_mpa *m, struct mpa_drain *d, const struct weft_frag *frag, unsigned int nfrags,
       uint32_t len_bytes, uint64_t now_ns)
{
	if (unlikely(!m->peer_spoke)) {
		mpa_up_first(m, d, frag, nfrags, len_bytes, now_ns);
		return;
	}
	m->stats.fpdus_in++;
	m->ops->ulpdu(m->user, frag, nfrags, len_bytes, now_ns);
}

/**
 * Check and hand up the FPDUs that are whole in the first mbuf: the usual case, several short ones
 * in a segment. False: not even the first one is.
 */
static bool
mpa_up_whole(struct weft_mpa *m, struct mpa_drain *d, uint64_t now_ns)
{
	struct rte_mbuf *seg = m->held_head;
	bool some = false;

	do {
		const uint8_t *p = rte_pktmbuf_mtod(seg, const uint8_t *);
		struct weft_frag frag = {.p = p + MPA_FPDU_LEN_BYTES};
		uint32_t covered, need;

		if (seg->data_len < MPA_FPDU_LEN_BYTES)
			break;
		frag.len_bytes = weft_get_be16(p);
		covered = mpa_fpdu_covered_bytes((uint16_t)frag.len_bytes);
		need = covered + MPA_FPDU_CRC_BYTES;
		if (seg->data_len < need)
			break;
		m->need_bytes = need;
		some = true;
		if (likely(m->crc) &&
		    unlikely(!mpa_crc_matches(p + covered,
		                              mpa_crc_update(MPA_CRC_INIT, p, covered)))) {
			mpa_crc_fault(m);
			break;
		}
		if (likely(m->peer_spoke)) {
			m->stats.fpdus_in++;
			m->ops->ulpdu(m->user, &frag, 1, frag.len_bytes, now_ns);
		} else {
			mpa_up_first(m, d, &frag, 1, frag.len_bytes, now_ns);
		}
		if (unlikely(d->gone))
			break;
		if (seg->data_len == need) {
			mpa_consume(m, need); /* frees the mbuf */
			break;
		}
		m->held_bytes -= need;
		seg->data_off = (uint16_t)(seg->data_off + need);
		seg->data_len = (uint16_t)(seg->data_len - need);
	} while (likely(!m->rx_dead));
	return some;
}

/** Check and hand up an FPDU that is in m->compact. */
static void
mpa_up_compacted(struct weft_mpa *m, struct mpa_drain *d, uint16_t len, uint64_t now_ns)
{
	uint32_t covered = m->need_bytes - MPA_FPDU_CRC_BYTES;
	struct weft_frag frag = {.p = m->compact + MPA_FPDU_LEN_BYTES, .len_bytes = len};

	if (m->crc && !mpa_crc_matches(m->compact + covered,
	                               mpa_crc_update(MPA_CRC_INIT, m->compact, covered))) {
		mpa_crc_fault(m);
		return;
	}
	m->stats.fpdus_straddled++;
	m->stats.fpdus_compacted++;
	m->waits = false;
	m->compact_bytes = 0;
	m->up_compacted = true;
	mpa_up(m, d, &frag, 1, len, now_ns);
	if (likely(!d->gone))
		m->up_compacted = false;
}

/** Check and hand up an FPDU that is in 2..MAX_FRAGS mbufs. */
static void
mpa_up_straddled(struct weft_mpa *m, struct mpa_drain *d, uint16_t len, uint64_t now_ns)
{
	struct weft_frag frag[WEFT_MPA_MAX_FRAGS];
	uint32_t need = m->need_bytes, crc = MPA_CRC_INIT, pos = 0;
	const uint32_t covered = need - MPA_FPDU_CRC_BYTES, end = MPA_FPDU_LEN_BYTES + len;
	uint8_t field[MPA_FPDU_CRC_BYTES] = {0};
	unsigned int n = 0;

	for (struct rte_mbuf *seg = m->held_head; pos < need; seg = seg->next) {
		const uint8_t *p = rte_pktmbuf_mtod(seg, const uint8_t *);
		uint32_t k = RTE_MIN(need - pos, (uint32_t)seg->data_len);
		/* In the piece [pos, pos + k): c octets covered by the CRC, [from, to) of ULPDU. */
		uint32_t c = pos < covered ? RTE_MIN(k, covered - pos) : 0;
		uint32_t from = RTE_MAX(pos, (uint32_t)MPA_FPDU_LEN_BYTES);
		uint32_t to = RTE_MIN(pos + k, end);

		if (likely(m->crc))
			crc = mpa_crc_update(crc, p, c);
		if (k > c)
			memcpy(field + (pos + c - covered), p + c, k - c);
		if (from < to)
			frag[n++] = (struct weft_frag){p + (from - pos), to - from};
		pos += k;
	}
	if (m->crc && !mpa_crc_matches(field, crc)) {
		mpa_crc_fault(m);
		return;
	}
	if (n == 0) /* an empty ULPDU goes up as one empty fragment */
		frag[n++] = (struct weft_frag){field, 0};
	m->stats.fpdus_straddled++;
	m->waits = false;
	mpa_up(m, d, frag, n, len, now_ns);
	if (!d->gone)
		mpa_consume(m, need);
}

/** Number of mbufs that hold the next n octets, counted up to MAX_FRAGS + 1. */
static unsigned int
mpa_span(const struct weft_mpa *m, uint32_t n)
{
	const struct rte_mbuf *seg = m->held_head;
	unsigned int segs = 1;

	while (n > seg->data_len && segs <= WEFT_MPA_MAX_FRAGS) {
		n -= seg->data_len;
		seg = seg->next;
		segs++;
	}
	return segs;
}

/** Whether an incomplete FPDU holds more mbufs than one connection may. */
static inline bool
mpa_pins_mbufs(const struct weft_mpa *m)
{
	return m->held_segs > MPA_HELD_MAX_SEGS ||
	       (m->held_segs > MPA_HELD_FREE_SEGS &&
	        m->held_bytes < m->held_segs * MPA_HELD_MIN_FILL_BYTES);
}

/** Keep the first part of an incomplete FPDU: in its mbufs within their limits, else copied. */
static void
mpa_wait(struct weft_mpa *m)
{
	weft_mpa_wait_begin(m);
	/* All held octets belong to this FPDU. */
	if ((m->compact_bytes > 0 || mpa_pins_mbufs(m) || !weft_mpa_lend(m)) &&
	    weft_mpa_compact(m, m->held_bytes) < 0)
		weft_mpa_no_memory(m);
}

/* ---- With markers ---- */

/** The 16-bit field at offset `at` of the received octets. It must have been received. */
static uint16_t
mpa_peek_at(const struct weft_mpa *m, uint32_t at)
{
	uint8_t b[MPA_FPDU_LEN_BYTES];

	for (unsigned int i = 0; i < MPA_FPDU_LEN_BYTES; i++, at++) {
		const struct rte_mbuf *seg;
		uint32_t off = at;

		if (off < m->compact_bytes) {
			b[i] = m->compact[off];
			continue;
		}
		off -= m->compact_bytes;
		for (seg = m->held_head; off >= seg->data_len; seg = seg->next)
			off -= seg->data_len;
		b[i] = *rte_pktmbuf_mtod_offset(seg, const uint8_t *, off);
	}
	return weft_get_be16(b);
}

/** Check and hand up an FPDU with markers, in m->compact or in at most MAX_FRAGS mbufs. */
static void
mpa_up_marked(struct weft_mpa *m, struct mpa_drain *d, uint16_t len, uint64_t now_ns)
{
	uint32_t need = m->need_bytes, bounced = m->compact_bytes;
	struct mpa_strip u;

	mpa_strip_begin(&u, m->rx_pos, need, len, m->crc);
	if (bounced > 0) {
		mpa_strip_piece(&u, m->compact, need);
	} else {
		for (const struct rte_mbuf *seg = m->held_head; u.at < need; seg = seg->next)
			mpa_strip_piece(&u, rte_pktmbuf_mtod(seg, const uint8_t *),
			                RTE_MIN(need - u.at, (uint32_t)seg->data_len));
	}
	if (m->crc && !mpa_crc_matches(u.field, u.crc)) {
		mpa_crc_fault(m);
		return;
	}
	/* RFC 5044 s8: code 3 is for an FPDU whose CRC is valid */
	if (u.fpduptr_bad) {
		m->stats.marker_errors++;
		WEFT_LOG_PEER(mpa, WARNING, "a marker and the length fields disagree");
		weft_mpa_fault(m, WEFT_MPA_ERR_MARKER);
		return;
	}
	if (u.n == 0)
		u.frag[u.n++] = (struct weft_frag){u.field, 0};
	if (bounced > 0 || m->held_head->data_len < need)
		m->stats.fpdus_straddled++;
	m->stats.fpdus_compacted += bounced > 0;
	m->rx_pos = (uint16_t)((m->rx_pos + need) % MPA_MARKER_PERIOD);
	m->waits = false;
	m->compact_bytes = 0;
	m->up_compacted = bounced > 0;
	mpa_up(m, d, u.frag, u.n, len, now_ns);
	if (d->gone)
		return;
	m->up_compacted = false;
	if (bounced == 0)
		mpa_consume(m, need);
}

/** mpa_fpdu_step() for a stream with markers. */
static bool
mpa_marked_step(struct weft_mpa *m, struct mpa_drain *d, uint64_t now_ns)
{
	uint32_t have = m->compact_bytes + m->held_bytes, lead = mpa_marker_lead(m->rx_pos), n;
	uint16_t len;

	if (m->rx_dead || have < lead + MPA_FPDU_LEN_BYTES) {
		if (have > 0)
			mpa_wait(m);
		return false;
	}
	len = mpa_peek_at(m, lead);
	n = mpa_fpdu_bytes(len);
	m->need_bytes = n + mpa_markers(m->rx_pos, n) * MPA_MARKER_BYTES;
	if (have < m->need_bytes) {
		mpa_wait(m);
		return false;
	}
	if ((m->compact_bytes > 0 || mpa_span(m, m->need_bytes) > WEFT_MPA_MAX_FRAGS) &&
	    weft_mpa_compact(m, m->need_bytes - m->compact_bytes) < 0)
		weft_mpa_no_memory(m);
	else
		mpa_up_marked(m, d, len, now_ns);
	return true;
}

/** Hand up one FPDU, or its fault. False: more octets are needed, or reception has ended. */
static bool
mpa_fpdu_step(struct weft_mpa *m, struct mpa_drain *d, uint64_t now_ns)
{
	uint32_t have = m->compact_bytes + m->held_bytes;
	uint16_t len;

	if (unlikely(m->rx_markers))
		return mpa_marked_step(m, d, now_ns);
	if (m->rx_dead || have < MPA_FPDU_LEN_BYTES) {
		if (unlikely(have > 0))
			mpa_wait(m);
		return false;
	}
	if (likely(m->compact_bytes == 0) && likely(mpa_up_whole(m, d, now_ns)))
		return true;
	len = m->compact_bytes > 0 ? weft_get_be16(m->compact) : mpa_peek_len(m);
	m->need_bytes = mpa_fpdu_bytes(len);
	if (have < m->need_bytes) {
		mpa_wait(m);
		return false;
	}
	if (m->compact_bytes == 0 && mpa_span(m, m->need_bytes) <= WEFT_MPA_MAX_FRAGS)
		mpa_up_straddled(m, d, len, now_ns);
	else if (weft_mpa_compact(m, m->need_bytes - m->compact_bytes) < 0)
		weft_mpa_no_memory(m);
	else
		mpa_up_compacted(m, d, len, now_ns);
	return true;
}

uint32_t
weft_mpa_fpdu_seq(const struct weft_mpa *m)
{
	uint32_t seq = weft_tcp_rcv_nxt(m->tcp) - m->held_bytes - m->compact_bytes;

	return m->up_compacted ? seq - m->need_bytes : seq;
}

static bool
mpa_step(struct weft_mpa *m, struct mpa_drain *d, uint64_t now_ns)
{
	switch (m->state) {
	case WEFT_MPA_FULL:
		return mpa_fpdu_step(m, d, now_ns);
	case WEFT_MPA_REQ_SENT:
	case WEFT_MPA_REQ_WAIT:
		return weft_mpa_startup_step(m, now_ns);
	case WEFT_MPA_REQ_RCVD:
		if (m->held_bytes > MPA_EARLY_MAX_BYTES || m->held_segs > MPA_EARLY_MAX_SEGS ||
		    !weft_mpa_lend(m)) {
			mpa_startup_failed(m);
			if (m->sched->mpa_keep != NULL)
				m->sched->mpa_keep->early_refused++;
			weft_mpa_fail(m, -EPROTO, now_ns);
		}
		break;
	case WEFT_MPA_IDLE:
	case WEFT_MPA_CLOSED:
		break;
	}
	return false;
}

bool
weft_mpa_drain(struct weft_mpa *m, uint64_t now_ns)
{
	struct mpa_drain d = {.gone = false};

	m->drain = &d;
	while (mpa_step(m, &d, now_ns) && !d.gone)
		;
	if (unlikely(d.gone)) {
		weft_mpa_free_chain(d.orphan);
		free(d.orphan_compact);
		return false;
	}
	m->drain = NULL;
	return true;
}
