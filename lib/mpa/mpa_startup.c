/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Start-up of initiator and responder: RFC 5044 s7.1, RFC 6581. */

#include <stdlib.h>

#include "mpa_priv.h"

#define MPA_REV_MAX 2

void
weft_mpa_startup_arm(struct weft_mpa *m, uint32_t timeout_us, uint64_t now_ns)
{
	weft_timer_arm(&m->sched->wheel, &m->startup, now_ns + timeout_us * WEFT_NS_PER_US);
}

static void
mpa_startup_timeout(struct weft_timer *t, uint64_t now_ns)
{
	struct weft_mpa *m = container_of(t, struct weft_mpa, startup);

	if (m->state == WEFT_MPA_CLOSED && !m->tx_closed) {
		weft_mpa_give_up(m, now_ns);
		return;
	}
	if (m->state != WEFT_MPA_CLOSED)
		m->stats.bad_startup++;
	weft_mpa_fail(m, -ETIMEDOUT, now_ns);
}

/** Send a start-up frame in segments of at most the MSS. 0, -ENOBUFS (nothing was sent), or an
 * error of weft_tcp_send(). */
static int
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

static void
mpa_drain_later(struct weft_task *t, uint64_t now_ns)
{
	struct weft_mpa *m = container_of(t, struct weft_mpa, drain_task);

	if (unlikely(m->shed)) {
		m->shed = false;
		weft_mpa_fault(m, WEFT_MPA_ERR_LOCAL);
		return;
	}
	(void)weft_mpa_drain(m, now_ns);
}

/** Set up m on connection c, with m->su. Everything but m->stream is reset. 0, or -ENOMEM. */
static int
mpa_setup(struct weft_mpa *m, struct weft_tcp_conn *c, struct weft_sched *s, uint32_t timeout_us,
          const struct weft_mpa_ops *ops, void *user)
{
	const uint64_t stream = m->stream;

	memset(m, 0, sizeof(*m));
	m->stream = stream;
	m->su = calloc(1, sizeof(*m->su));
	if (m->su == NULL)
		return -ENOMEM;
	m->su->timeout_us = timeout_us != 0 ? timeout_us : MPA_STARTUP_TIMEOUT_US;
	m->tcp = c;
	m->ops = ops;
	m->user = user;
	m->sched = s;
	m->fpdu_timeout_us = MPA_FPDU_TIMEOUT_US;
	m->mulpdu_bytes = weft_mpa_mulpdu(weft_tcp_mss(c), false);
	weft_timer_init(&m->startup, mpa_startup_timeout);
	weft_task_init(&m->drain_task, mpa_drain_later);
	return 0;
}

/** Set the RTR forms that a frame offers or accepts. */
static void
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

int
weft_mpa_start(struct weft_mpa *m, struct weft_tcp_conn *c, struct weft_sched *s,
               const struct weft_mpa_attr *attr, const struct weft_mpa_ops *ops, void *user,
               uint64_t now_ns)
{
	uint8_t buf[MPA_FRAME_MAX_BYTES];
	struct weft_mpa_frame *f;
	int rc, len;

	if (attr->rev < 1 || attr->rev > MPA_REV_MAX ||
	    attr->pdata_len_bytes > WEFT_MPA_MAX_PDATA || (attr->p2p && attr->rev < 2) ||
	    (attr->opts.rtr & ~WEFT_MPA_RTR_ALL) != 0)
		return -EINVAL;
	rc = mpa_setup(m, c, s, attr->startup_timeout_us, ops, user);
	if (rc < 0)
		return rc;
	weft_mpa_set_opts(m, &attr->opts);
	f = &m->su->req;
	f->rev = attr->rev;
	f->markers = attr->opts.markers;
	f->crc = !attr->opts.no_crc;
	f->enhanced = attr->rev >= 2;
	f->p2p = attr->p2p;
	if (attr->p2p)
		mpa_rtr_flags(f, attr->opts.rtr != 0 ? attr->opts.rtr : WEFT_MPA_RTR_ALL);
	f->ird = attr->ird;
	f->ord = attr->ord;
	f->pdata_len_bytes = attr->pdata_len_bytes;
	if (attr->pdata_len_bytes > 0)
		memcpy(f->pdata, attr->pdata, attr->pdata_len_bytes);
	len = weft_mpa_frame_encode(f, buf, sizeof(buf));
	rc = len < 0 ? len : mpa_send_octets(m, c, buf, (uint32_t)len, now_ns);
	if (rc < 0) {
		m->tcp = NULL;
		weft_mpa_release(m);
		return rc;
	}
	m->initiator = true;
	weft_mpa_set_state(m, WEFT_MPA_REQ_SENT);
	weft_mpa_startup_arm(m, m->su->timeout_us, now_ns);
	weft_tcp_set_user(c, &weft_mpa_tcp_ops, m);
	return 0;
}

int
weft_mpa_respond(struct weft_mpa *m, struct weft_tcp_conn *c, struct weft_sched *s,
                 uint32_t startup_timeout_us, const struct weft_mpa_ops *ops, void *user,
                 uint64_t now_ns)
{
	int rc = mpa_setup(m, c, s, startup_timeout_us, ops, user);

	if (rc < 0)
		return rc;
	weft_mpa_set_state(m, WEFT_MPA_REQ_WAIT);
	weft_mpa_startup_arm(m, m->su->timeout_us, now_ns);
	weft_tcp_set_user(c, &weft_mpa_tcp_ops, m);
	return 0;
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
	if (opts->fpdu_timeout_us != 0)
		m->fpdu_timeout_us = opts->fpdu_timeout_us;
}

void
weft_mpa_move(struct weft_mpa *to, struct weft_mpa *from, const struct weft_mpa_ops *ops,
              void *user)
{
	RTE_ASSERT(from->state == WEFT_MPA_REQ_RCVD && to->tcp == NULL);
	/* In REQ_RCVD neither the timer nor the task is pending, and no segment is being built. */
	if (from->drain != NULL) {
		from->drain->gone = true; /* the loop holds no fragments in this state */
		from->drain = NULL;
	}
	*to = *from;
	to->ops = ops;
	to->user = user;
	weft_timer_init(&to->startup, mpa_startup_timeout);
	weft_task_init(&to->drain_task, mpa_drain_later);
	weft_tcp_set_user(to->tcp, &weft_mpa_tcp_ops, to);
	memset(from, 0, sizeof(*from));
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
		m->stats.bad_startup++;
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
		m->stats.bad_startup++;
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
		m->stats.bad_startup++;
		WEFT_LOG_PEER(mpa, WARNING, "malformed start-up frame");
		weft_mpa_fail(m, -EPROTO, now_ns);
		return false;
	}
	if (m->initiator)
		return mpa_rx_reply(m, &f, now_ns);
	mpa_rx_request(m, &f, now_ns);
	return false;
}
