/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Start-up in both roles (RFC 5044 s7.1, RFC 6581), TCP's up-calls, close and release. */

#include <stdlib.h>

#include "mpa_priv.h"

WEFT_LOG_REGISTER(mpa);

#define MPA_MIN_MULPDU 128 /* RFC 5044 s4.5 */
#define MPA_REV_MAX    2

static const char *const mpa_state_names[] = {
        [WEFT_MPA_IDLE] = "idle",
        [WEFT_MPA_REQ_SENT] = "request sent",
        [WEFT_MPA_REQ_WAIT] = "request wait",
        [WEFT_MPA_REQ_RCVD] = "request received",
        [WEFT_MPA_FULL] = "full operation",
        [WEFT_MPA_CLOSED] = "closed",
};

#define TO(s) (1u << WEFT_MPA_##s)
/** Where each state may go. */
static const uint8_t mpa_next[] = {
        [WEFT_MPA_IDLE] = TO(REQ_SENT) | TO(REQ_WAIT),
        [WEFT_MPA_REQ_SENT] = TO(FULL) | TO(CLOSED) | TO(IDLE),
        [WEFT_MPA_REQ_WAIT] = TO(REQ_RCVD) | TO(CLOSED) | TO(IDLE),
        [WEFT_MPA_REQ_RCVD] = TO(FULL) | TO(CLOSED) | TO(IDLE),
        [WEFT_MPA_FULL] = TO(IDLE),
        [WEFT_MPA_CLOSED] = TO(IDLE),
};
#undef TO

void
weft_mpa_set_state(struct weft_mpa *m, enum weft_mpa_state to)
{
	bool legal = mpa_next[m->state] & 1u << to;

	RTE_ASSERT(legal);
	RTE_SET_USED(legal);
	WEFT_LOG(mpa, DEBUG, "%p: %s -> %s", (void *)m, mpa_state_names[m->state],
	         mpa_state_names[to]);
	m->state = to;
}

/* ---- Going away ---- */

void
weft_mpa_release(struct weft_mpa *m)
{
	if (m->sched != NULL) {
		weft_timer_cancel(&m->sched->wheel, &m->startup);
		weft_task_cancel(m->sched, &m->drain_task);
	}
	if (m->drain != NULL) {
		/* The receive loop may have handed up a pointer into these: it frees them. */
		m->drain->gone = true;
		m->drain->orphan = m->held_head;
		m->drain->orphan_compact = m->compact;
		m->drain = NULL;
	} else {
		weft_mpa_free_chain(m->held_head);
		free(m->compact);
	}
	m->held_head = m->held_tail = NULL;
	m->held_bytes = m->held_segs = 0;
	m->need_bytes = 0;
	m->compact = NULL;
	m->compact_bytes = 0;
	rte_pktmbuf_free(m->seg);
	m->seg = NULL;
	m->fpdu = NULL;
	free(m->su);
	m->su = NULL;
	if (m->state != WEFT_MPA_IDLE)
		weft_mpa_set_state(m, WEFT_MPA_IDLE);
}

void
weft_mpa_abort(struct weft_mpa *m, uint64_t now_ns)
{
	struct weft_tcp_conn *c = m->tcp;

	m->tcp = NULL;
	weft_mpa_release(m);
	if (c != NULL)
		weft_tcp_abort(c, now_ns);
}

void
weft_mpa_fail(struct weft_mpa *m, int err, uint64_t now_ns)
{
	weft_mpa_abort(m, now_ns);
	m->ops->closed(m->user, err);
}

void
weft_mpa_fini(struct weft_mpa *m)
{
	if (m->tcp != NULL)
		weft_mpa_abort(m, m->sched->now_ns);
	else
		weft_mpa_release(m);
}

static void
mpa_arm(struct weft_mpa *m, uint32_t timeout_us, uint64_t now_ns)
{
	weft_timer_arm(&m->sched->wheel, &m->startup, now_ns + timeout_us * WEFT_NS_PER_US);
}

/** Queue our FIN; up-calls may come out of it, so nothing is touched afterwards. */
static void
mpa_fin(struct weft_mpa *m, uint64_t now_ns)
{
	m->tx_closed = true;
	weft_tcp_close(m->tcp, now_ns);
}

/** Give up during start-up: FIN, and a bound on how long the peer may take to follow. */
static void
mpa_give_up(struct weft_mpa *m, uint64_t now_ns)
{
	uint32_t timeout_us = m->su != NULL ? m->su->timeout_us : MPA_STARTUP_TIMEOUT_US;

	weft_mpa_set_state(m, WEFT_MPA_CLOSED);
	mpa_arm(m, timeout_us, now_ns);
	mpa_fin(m, now_ns);
}

void
weft_mpa_close(struct weft_mpa *m, uint64_t now_ns)
{
	if (m->tcp == NULL || m->tx_closed)
		return;
	if (m->state != WEFT_MPA_FULL) {
		mpa_give_up(m, now_ns);
		return;
	}
	weft_mpa_tx_flush(m, now_ns);
	mpa_fin(m, now_ns);
}

static void
mpa_startup_timeout(struct weft_timer *t, uint64_t now_ns)
{
	struct weft_mpa *m = container_of(t, struct weft_mpa, startup);

	if (m->state != WEFT_MPA_CLOSED)
		m->stats.bad_startup++;
	weft_mpa_fail(m, m->close_err != 0 ? m->close_err : -ETIMEDOUT, now_ns);
}

/* ---- Start-up frames ---- */

/** Send octets that are no FPDU, in as many segments as the MSS wants: all or -ENOBUFS. */
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
	(void)weft_mpa_drain(container_of(t, struct weft_mpa, drain_task), now_ns);
}

static uint16_t
mpa_mulpdu(uint16_t emss)
{
	return emss < MPA_MIN_MULPDU + 6 + 3 ? MPA_MIN_MULPDU : weft_mpa_mulpdu(emss);
}

/** A zeroed MPA on connection c with room for its start-up frames. */
static int
mpa_setup(struct weft_mpa *m, struct weft_tcp_conn *c, struct weft_sched *s, uint32_t timeout_us,
          const struct weft_mpa_ops *ops, void *user)
{
	memset(m, 0, sizeof(*m));
	m->su = calloc(1, sizeof(*m->su));
	if (m->su == NULL)
		return -ENOMEM;
	m->su->timeout_us = timeout_us != 0 ? timeout_us : MPA_STARTUP_TIMEOUT_US;
	m->tcp = c;
	m->ops = ops;
	m->user = user;
	m->sched = s;
	m->mulpdu_bytes = mpa_mulpdu(weft_tcp_mss(c));
	weft_timer_init(&m->startup, mpa_startup_timeout);
	weft_task_init(&m->drain_task, mpa_drain_later);
	return 0;
}

int
weft_mpa_start(struct weft_mpa *m, struct weft_tcp_conn *c, struct weft_sched *s,
               const struct weft_mpa_attr *attr, const struct weft_mpa_ops *ops, void *user,
               uint64_t now_ns)
{
	uint8_t buf[MPA_FRAME_MAX_BYTES];
	struct weft_mpa_frame *f;
	int rc, len;

	if (attr->rev < 1 || attr->rev > MPA_REV_MAX || attr->pdata_len_bytes > WEFT_MPA_MAX_PDATA)
		return -EINVAL;
	rc = mpa_setup(m, c, s, attr->startup_timeout_us, ops, user);
	if (rc < 0)
		return rc;
	f = &m->su->req;
	f->rev = attr->rev;
	f->crc = true;
	f->enhanced = attr->rev >= 2;
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
	mpa_arm(m, m->su->timeout_us, now_ns);
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
	mpa_arm(m, m->su->timeout_us, now_ns);
	weft_tcp_set_user(c, &weft_mpa_tcp_ops, m);
	return 0;
}

void
weft_mpa_move(struct weft_mpa *to, struct weft_mpa *from, const struct weft_mpa_ops *ops,
              void *user)
{
	RTE_ASSERT(from->state == WEFT_MPA_REQ_RCVD && to->tcp == NULL);
	/* In REQ_RCVD neither the timer nor the task is pending, and nothing is being sent. */
	if (from->drain != NULL) {
		from->drain->gone = true; /* it holds no fragment in this state */
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

/** The Reply to the Request in su, with the consumer's values. */
static int
mpa_reply(struct weft_mpa *m, bool reject, uint16_t ird, uint16_t ord, const void *pdata,
          uint16_t pdata_len_bytes, uint64_t now_ns)
{
	const struct weft_mpa_frame *req;
	uint8_t buf[MPA_FRAME_MAX_BYTES];
	struct weft_mpa_frame rep;
	int len;

	if (m->state != WEFT_MPA_REQ_RCVD && m->state != WEFT_MPA_REQ_WAIT)
		return -EBADFD;
	if (pdata_len_bytes > WEFT_MPA_MAX_PDATA)
		return -EINVAL;
	req = &m->su->req;
	memset(&rep, 0, offsetof(struct weft_mpa_frame, pdata));
	rep.reply = true;
	rep.crc = true;
	rep.reject = reject;
	rep.rev = req->rev;
	rep.enhanced = req->enhanced;
	if (req->enhanced) {
		/* RFC 6581 s9.1: 0x3fff is answered by 0x3fff in the other depth. */
		rep.ird = req->ord == WEFT_MPA_IRD_ORD_NONE ? WEFT_MPA_IRD_ORD_NONE : ird;
		rep.ord = req->ird == WEFT_MPA_IRD_ORD_NONE ? WEFT_MPA_IRD_ORD_NONE : ord;
		/* s9.2: A is mirrored, with those of the offered indications that we can take (a
		 * Read needs a place in our queue); if there are none, with one that we can. */
		rep.p2p = req->p2p;
		rep.rtr_send = req->rtr_send;
		rep.rtr_write = req->rtr_write;
		rep.rtr_read = req->rtr_read && rep.ird > 0;
		if (rep.p2p && !rep.rtr_send && !rep.rtr_write && !rep.rtr_read)
			rep.rtr_write = true;
	}
	rep.pdata_len_bytes = pdata_len_bytes;
	if (pdata_len_bytes > 0)
		memcpy(rep.pdata, pdata, pdata_len_bytes);
	len = weft_mpa_frame_encode(&rep, buf, sizeof(buf));
	return len < 0 ? len : mpa_send_octets(m, m->tcp, buf, (uint32_t)len, now_ns);
}

int
weft_mpa_accept(struct weft_mpa *m, uint16_t ird, uint16_t ord, const void *pdata,
                uint16_t pdata_len_bytes, uint64_t now_ns)
{
	int rc;

	if (m->state != WEFT_MPA_REQ_RCVD)
		return -EBADFD;
	rc = mpa_reply(m, false, ird, ord, pdata, pdata_len_bytes, now_ns);
	if (rc < 0)
		return rc;
	free(m->su);
	m->su = NULL;
	weft_mpa_set_state(m, WEFT_MPA_FULL);
	if (m->held_bytes > 0)
		weft_task_queue(m->sched, &m->drain_task);
	return 0;
}

int
weft_mpa_reject(struct weft_mpa *m, uint16_t ird, uint16_t ord, const void *pdata,
                uint16_t pdata_len_bytes, uint64_t now_ns)
{
	int rc;

	if (m->state != WEFT_MPA_REQ_RCVD)
		return -EBADFD;
	rc = mpa_reply(m, true, ird, ord, pdata, pdata_len_bytes, now_ns);
	if (rc < 0)
		return rc;
	mpa_give_up(m, now_ns);
	return 0;
}

/** Gather one frame; octets consumed, -EAGAIN or -EPROTO. */
static int
mpa_gather(struct weft_mpa *m, struct weft_mpa_frame *f)
{
	struct mpa_startup *su = m->su;
	int rc = -EAGAIN;

	while (rc == -EAGAIN && m->held_bytes > 0) {
		uint32_t want = MPA_FRAME_HDR_BYTES, n;

		/* PD_Length has been judged by the decoder once the header is there. */
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
	if (f->markers) {
		/* DEVIATION: RFC 5044 s7.1.1 has a receiver of M=1 add markers; we refuse, as a
		 * responder may refuse anything. */
		m->stats.bad_startup++;
		WEFT_LOG_PEER(mpa, WARNING, "Request that wants markers refused");
		m->close_err = -EPROTONOSUPPORT;
		if (mpa_reply(m, true, 0, 0, NULL, 0, now_ns) < 0)
			weft_mpa_fail(m, m->close_err, now_ns);
		else
			mpa_give_up(m, now_ns);
		return;
	}
	weft_mpa_set_state(m, WEFT_MPA_REQ_RCVD);
	m->ops->request(m->user, f);
}

/** True: in full operation and still there. */
static bool
mpa_rx_reply(struct weft_mpa *m, const struct weft_mpa_frame *f, uint64_t now_ns)
{
	const struct weft_mpa_frame *req = &m->su->req;
	struct mpa_drain *d = m->drain;
	bool speaks =
	        f->rev >= 1 && f->rev <= MPA_REV_MAX && f->enhanced == req->enhanced && !f->markers;

	/* A responder of the older revision may well reject in its own words. */
	if (!speaks && !f->reject) {
		m->stats.bad_startup++;
		WEFT_LOG_PEER(mpa, WARNING, "Reply refused: revision %u, %s, markers %s", f->rev,
		              f->enhanced ? "enhanced" : "not enhanced", f->markers ? "on" : "off");
		weft_mpa_fail(m, -EPROTONOSUPPORT, now_ns);
		return false;
	}
	weft_timer_cancel(&m->sched->wheel, &m->startup);
	if (f->reject) {
		/* s7.1.2 rule 3 leaves TCP to the ULP; ours has no other use for it. */
		m->ops->reply(m->user, f);
		if (!d->gone)
			weft_mpa_close(m, now_ns);
		return false;
	}
	free(m->su);
	m->su = NULL;
	weft_mpa_set_state(m, WEFT_MPA_FULL);
	m->ops->reply(m->user, f);
	return !d->gone;
}

bool
weft_mpa_startup_step(struct weft_mpa *m, uint64_t now_ns)
{
	struct weft_mpa_frame f; /* a copy: the up-call may answer, and su goes then */
	int rc = mpa_gather(m, &f);

	if (rc == -EAGAIN)
		return false;
	/* RFC 5044 s7.1.2 rule 8: a Request that meets a Request, a Reply that meets a Reply. */
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

/* ---- TCP's up-calls ---- */

static void
mpa_rx(void *user, struct rte_mbuf *b, uint64_t now_ns)
{
	struct weft_mpa *m = user;

	if (unlikely(m->rx_dead || m->state == WEFT_MPA_CLOSED || m->state == WEFT_MPA_IDLE)) {
		weft_mpa_free_chain(b);
		return;
	}
	weft_mpa_hold(m, b);
	if (likely(m->drain == NULL))
		(void)weft_mpa_drain(m, now_ns);
}

static void
mpa_writable(void *user)
{
	struct weft_mpa *m = user;

	if (m->state == WEFT_MPA_FULL && !m->tx_closed && (m->initiator || m->peer_spoke))
		m->ops->writable(m->user);
}

static void
mpa_mss(void *user, uint16_t mss_bytes)
{
	struct weft_mpa *m = user;
	uint16_t mulpdu = mpa_mulpdu(mss_bytes);

	if (mulpdu == m->mulpdu_bytes)
		return;
	m->mulpdu_bytes = mulpdu;
	if (m->state == WEFT_MPA_FULL)
		m->ops->mulpdu(m->user, mulpdu);
}

static void
mpa_eof(void *user)
{
	struct weft_mpa *m = user;
	uint64_t now_ns = m->sched->now_ns;

	switch (m->state) {
	case WEFT_MPA_REQ_SENT:
	case WEFT_MPA_REQ_WAIT:
		m->stats.bad_startup++;
		weft_mpa_fail(m, m->su->raw_bytes > 0 ? -EPROTO : -ECONNRESET, now_ns);
		return;
	case WEFT_MPA_REQ_RCVD:
		weft_mpa_fail(m, -ECONNRESET, now_ns);
		return;
	case WEFT_MPA_FULL:
		if (m->drain == NULL && !weft_mpa_drain(m, now_ns))
			return;
		if (m->held_bytes + m->compact_bytes > 0)
			weft_mpa_fail(m, -EPROTO, now_ns);
		else
			m->ops->eof(m->user);
		return;
	case WEFT_MPA_CLOSED:
	case WEFT_MPA_IDLE:
		return;
	}
}

static void
mpa_closed(void *user, int err)
{
	struct weft_mpa *m = user;

	if (m->close_err != 0)
		err = m->close_err;
	m->tcp = NULL;
	weft_mpa_release(m);
	m->ops->closed(m->user, err);
}

static void
mpa_established(void *user)
{
	(void)user; /* MPA is started on connections that are established */
}

const struct weft_tcp_conn_ops weft_mpa_tcp_ops = {
        .established = mpa_established,
        .rx = mpa_rx,
        .writable = mpa_writable,
        .mss = mpa_mss,
        .eof = mpa_eof,
        .closed = mpa_closed,
};
