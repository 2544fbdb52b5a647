/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Start-up of initiator and responder: RFC 5044 s7.1, RFC 6581. */

#include <stdlib.h>

#include "mpa_held.h"
#include "mpa_priv.h"

int
mpa_send_octets(struct weft_mpa *m, struct weft_tcp_conn *c, const uint8_t *buf, uint32_t len,
                uint64_t now_ns)
{
	struct rte_mbuf *piece[16];
	uint32_t mss = RTE_MAX((uint32_t)weft_tcp_mss(c), 64u), pos = 0;
	unsigned int n = 0;
	int rc = 0;

	while (pos < len && n < RTE_DIM(piece)) {
		struct rte_mbuf *b = weft_tcp_alloc(c);
		uint32_t k = RTE_MIN(len - pos, mss);
		char *dst;

		if (b == NULL)
			break;
		piece[n++] = b;
		dst = rte_pktmbuf_append(b, (uint16_t)k);
		if (dst == NULL)
			break;
		memcpy(dst, buf + pos, k);
		pos += k;
	}
	if (pos < len) {
		rte_pktmbuf_free_bulk(piece, n);
		return -ENOBUFS;
	}
	for (unsigned int i = 0; i < n; i++) {
		int sent = weft_tcp_send(c, piece[i], i == n - 1, now_ns);

		rc = rc == 0 ? sent : rc;
	}
	m->stats.segs_out += n;
	return rc;
}

void
mpa_rtr_flags(struct weft_mpa_frame *f, uint8_t rtr)
{
	f->rtr_send = rtr & WEFT_MPA_RTR_FPDU;
	f->rtr_write = rtr & WEFT_MPA_RTR_WRITE;
	f->rtr_read = rtr & WEFT_MPA_RTR_READ;
}

static uint8_t
mpa_rtr_mask(const struct weft_mpa_frame *f)
{
	return (f->rtr_send ? WEFT_MPA_RTR_FPDU : 0) | (f->rtr_write ? WEFT_MPA_RTR_WRITE : 0) |
	       (f->rtr_read ? WEFT_MPA_RTR_READ : 0);
}

/** Choose one of the RTR forms that both sides allow: the cheapest and most widely supported. */
static uint8_t
mpa_rtr_choose(uint8_t both)
{
	static const uint8_t order[] = {WEFT_MPA_RTR_WRITE, WEFT_MPA_RTR_FPDU, WEFT_MPA_RTR_READ};

	for (unsigned int i = 0; i < RTE_DIM(order); i++)
		if (both & order[i])
			return order[i];
	return 0;
}

/** Enter full operation: the Request and the Reply are exchanged, and FPDUs follow. */
static void
mpa_enter_full(struct weft_mpa *m, const struct weft_mpa_frame *req,
               const struct weft_mpa_frame *rep)
{
	/* RFC 5044 s7.1.1: M is about the direction that its sender receives. C in either frame
	 * turns CRC on in both directions. */
	m->rx_markers = m->initiator ? req->markers : rep->markers;
	m->tx_markers = m->initiator ? rep->markers : req->markers;
	m->crc = req->crc || rep->crc;
	m->rev = rep->rev;
	/* RFC 6581 s9.2: the Reply mirrors A. An A that the Request did not have is ignored. */
	m->p2p = req->p2p;
	if (m->p2p && m->initiator && rep->p2p) {
		uint8_t takes = mpa_rtr_mask(rep);

		if (rep->ird == 0) /* the responder has no queue entry for a Read */
			takes &= (uint8_t)~WEFT_MPA_RTR_READ;
		m->rtr = mpa_rtr_choose(mpa_rtr_mask(req) & takes);
	}
	m->mulpdu_bytes = weft_mpa_mulpdu(weft_tcp_mss(m->tcp), m->tx_markers);
	free(m->su);
	m->su = NULL;
	weft_timer_cancel(&m->sched->wheel, &m->startup);
	weft_mpa_watch_init(m);
	weft_mpa_set_state(m, WEFT_MPA_FULL);
}

uint16_t
weft_mpa_heard(const struct weft_mpa *m)
{
	return m->su != NULL ? m->su->raw_bytes : 0;
}

void
weft_mpa_set_opts(struct weft_mpa *m, const struct weft_mpa_opts *opts)
{
	if (m->su != NULL)
		m->su->opts = *opts;
	m->place_ahead = opts->place_ahead;
	if (opts->fpdu_timeout_us != 0)
		m->fpdu_timeout_us = opts->fpdu_timeout_us;
}

/**
 * The RTR forms of a Reply (RFC 6581 s9.2): the offered forms that the responder accepts. If there
 * are none: all that it accepts, so that the initiator knows them. A Read needs an IRD above 0.
 */
static uint8_t
mpa_rtr_answer(const struct weft_mpa_frame *req, uint8_t takes, uint16_t ird)
{
	uint8_t both;

	if (takes == 0)
		takes = WEFT_MPA_RTR_ALL;
	if (ird == 0)
		takes &= (uint8_t)~WEFT_MPA_RTR_READ;
	if (takes == 0)
		takes = WEFT_MPA_RTR_WRITE;
	both = mpa_rtr_mask(req) & takes;
	return both != 0 ? both : takes;
}

/** Build *rep as the Reply to m->su->req, with the consumer's values, and send it. */
static int
mpa_reply(struct weft_mpa *m, struct weft_mpa_frame *rep, bool reject, uint16_t ird, uint16_t ord,
          const void *pdata, uint16_t pdata_len_bytes, uint64_t now_ns)
{
	const struct weft_mpa_frame *req;
	uint8_t buf[MPA_FRAME_MAX_BYTES];
	int len;

	if (m->state != WEFT_MPA_REQ_RCVD)
		return -EBADFD;
	if (pdata_len_bytes > WEFT_MPA_MAX_PDATA)
		return -EINVAL;
	req = &m->su->req;
	memset(rep, 0, offsetof(struct weft_mpa_frame, pdata));
	rep->reply = true;
	rep->markers = m->su->opts.markers;
	/* RFC 5044 s7.1.1: one side is enough to have CRC. The Reply shows the result. */
	rep->crc = !m->su->opts.no_crc || req->crc;
	rep->reject = reject;
	rep->rev = req->rev;
	rep->enhanced = req->enhanced;
	if (req->enhanced) {
		/* RFC 6581 s9.1: 0x3fff is answered by 0x3fff in the other depth. */
		rep->ird = req->ord == WEFT_MPA_IRD_ORD_NONE ? WEFT_MPA_IRD_ORD_NONE : ird;
		rep->ord = req->ird == WEFT_MPA_IRD_ORD_NONE ? WEFT_MPA_IRD_ORD_NONE : ord;
		rep->p2p = req->p2p;
		if (req->p2p)
			mpa_rtr_flags(rep, mpa_rtr_answer(req, m->su->opts.rtr, ird));
	}
	rep->pdata_len_bytes = pdata_len_bytes;
	if (pdata_len_bytes > 0)
		memcpy(rep->pdata, pdata, pdata_len_bytes);
	len = weft_mpa_frame_encode(rep, buf, sizeof(buf));
	return len < 0 ? len : mpa_send_octets(m, m->tcp, buf, (uint32_t)len, now_ns);
}

int
weft_mpa_accept(struct weft_mpa *m, uint16_t ird, uint16_t ord, const void *pdata,
                uint16_t pdata_len_bytes, uint64_t now_ns)
{
	struct weft_mpa_frame rep;
	int rc = mpa_reply(m, &rep, false, ird, ord, pdata, pdata_len_bytes, now_ns);

	if (rc < 0)
		return rc;
	mpa_enter_full(m, &m->su->req, &rep);
	if (m->held_bytes > 0)
		weft_task_queue(m->sched, &m->drain_task);
	return 0;
}

int
weft_mpa_reject(struct weft_mpa *m, uint16_t ird, uint16_t ord, const void *pdata,
                uint16_t pdata_len_bytes, uint64_t now_ns)
{
	struct weft_mpa_frame rep;
	int rc = mpa_reply(m, &rep, true, ird, ord, pdata, pdata_len_bytes, now_ns);

	if (rc < 0)
		return rc;
	/* RFC 5044 s7.1.2 rule 2: exit MPA and leave the TCP connection open. */
	weft_timer_cancel(&m->sched->wheel, &m->startup);
	weft_mpa_set_state(m, WEFT_MPA_CLOSED);
	return 0;
}

/** Collect one frame in m->su and decode it. As weft_mpa_frame_decode(). */
static int
mpa_gather(struct weft_mpa *m, struct weft_mpa_frame *f)
{
	struct mpa_startup *su = m->su;
	int rc = -EAGAIN;

	while (rc == -EAGAIN && m->held_bytes > 0) {
		uint32_t want = MPA_FRAME_HDR_BYTES, n;

		/* Once the header is complete, the decoder has checked PD_Length. */
		if (su->raw_bytes >= MPA_FRAME_HDR_BYTES)
			want += weft_get_be16(su->raw + MPA_FRAME_PDLEN_OFF);
		n = RTE_MIN(want - su->raw_bytes, m->held_bytes);
		weft_mpa_take(m, su->raw + su->raw_bytes, n);
		su->raw_bytes += n;
		rc = weft_mpa_frame_decode(su->raw, su->raw_bytes, f);
	}
	return rc;
}

static void
mpa_rx_request(struct weft_mpa *m, const struct weft_mpa_frame *f, uint64_t now_ns)
{
	if (f->rev < 1 || f->rev > MPA_REV_MAX) {
		mpa_startup_failed(m);
		WEFT_LOG_PEER(mpa, WARNING, "Request of revision %u refused", f->rev);
		weft_mpa_fail(m, -EPROTONOSUPPORT, now_ns);
		return;
	}
	m->su->req = *f;
	weft_timer_cancel(&m->sched->wheel, &m->startup);
	weft_mpa_set_state(m, WEFT_MPA_REQ_RCVD);
	m->ops->request(m->user, f);
}

/** Take the Reply. True: in full operation, and m is not released. */
static bool
mpa_rx_reply(struct weft_mpa *m, const struct weft_mpa_frame *f, uint64_t now_ns)
{
	const struct weft_mpa_frame *req = &m->su->req;
	struct mpa_drain *d = m->drain;
	bool speaks = f->rev >= 1 && f->rev <= MPA_REV_MAX && f->enhanced == req->enhanced;

	m->refused_rev2 = req->enhanced && !f->enhanced && f->rev >= 1 && f->rev <= MPA_REV_MAX;
	/* A responder of revision 1 may reject with a Reply of revision 1. */
	if (!speaks && !f->reject) {
		mpa_startup_failed(m);
		WEFT_LOG_PEER(mpa, WARNING, "Reply refused: revision %u, %s", f->rev,
		              f->enhanced ? "enhanced" : "not enhanced");
		weft_mpa_fail(m, -EPROTONOSUPPORT, now_ns);
		return false;
	}
	weft_timer_cancel(&m->sched->wheel, &m->startup);
	if (f->reject) {
		/* s7.1.2 rule 3: "the implementation MUST exit MPA, leaving the TCP connection
		 * open". */
		weft_mpa_set_state(m, WEFT_MPA_CLOSED);
		m->ops->reply(m->user, f);
		return false;
	}
	mpa_enter_full(m, req, f);
	m->ops->reply(m->user, f);
	return !d->gone;
}

bool
weft_mpa_startup_step(struct weft_mpa *m, uint64_t now_ns)
{
	struct weft_mpa_frame f; /* not in su: an answer inside the up-call frees su */
	int rc = mpa_gather(m, &f);

	if (rc == -EAGAIN)
		return false;
	/* RFC 5044 s7.1.2 rule 8: an initiator needs a Reply, and a responder a Request. */
	if (rc < 0 || f.reply != m->initiator) {
		mpa_startup_failed(m);
		WEFT_LOG_PEER(mpa, WARNING, "malformed start-up frame");
		weft_mpa_fail(m, -EPROTO, now_ns);
		return false;
	}
	if (m->initiator)
		return mpa_rx_reply(m, &f, now_ns);
	mpa_rx_request(m, &f, now_ns);
	return false;
}
