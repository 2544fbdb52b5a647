/* SPDX-License-Identifier: BSD-3-Clause */
/** @file An MPA stream takes over a TCP connection, and takes its up-calls. */

#include <stdlib.h>

#include "mpa_ahead.h"
#include "mpa_held.h"
#include "mpa_priv.h"

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
	uint16_t mulpdu = weft_mpa_mulpdu(mss_bytes, m->tx_markers);

	if (mulpdu == m->mulpdu_bytes)
		return;
	m->mulpdu_bytes = mulpdu;
	if (m->state == WEFT_MPA_FULL)
		m->ops->mulpdu(m->user, mulpdu);
}

/** The peer closed or reset. Note if this is how a responder of revision 1 refuses the Request. */
static void
mpa_note_refusal(struct weft_mpa *m)
{
	if (m->state == WEFT_MPA_REQ_SENT && m->su->raw_bytes == 0 && m->su->req.enhanced)
		m->refused_rev2 = true;
}

static void
mpa_eof(void *user)
{
	struct weft_mpa *m = user;
	uint64_t now_ns = m->sched->now_ns;

	switch (m->state) {
	case WEFT_MPA_REQ_SENT:
	case WEFT_MPA_REQ_WAIT:
		mpa_startup_failed(m);
		mpa_note_refusal(m);
		weft_mpa_fail(m, m->su->raw_bytes > 0 ? -EPROTO : -ECONNRESET, now_ns);
		return;
	case WEFT_MPA_REQ_RCVD:
		weft_mpa_fail(m, -ECONNRESET, now_ns);
		return;
	case WEFT_MPA_FULL:
		if (m->drain == NULL && !weft_mpa_drain(m, now_ns))
			return;
		if (m->held_bytes + m->compact_bytes > 0 || m->shed) {
			weft_mpa_fail(m, -EPROTO, now_ns);
			return;
		}
		m->rx_eof = true;
		m->ops->eof(m->user);
		return;
	case WEFT_MPA_CLOSED:
		if (!m->tx_closed)
			weft_mpa_give_up(m, now_ns);
		return;
	case WEFT_MPA_IDLE:
		return;
	}
}

static void
mpa_closed(void *user, int err)
{
	struct weft_mpa *m = user;

	if (err == 0 || err == -ECONNRESET)
		mpa_note_refusal(m);
	m->tcp = NULL;
	weft_mpa_release(m);
	m->ops->closed(m->user, err);
}

static void
mpa_established(void *user)
{
	(void)user; /* MPA starts on established connections only */
}

static const struct weft_tcp_conn_ops weft_mpa_tcp_ops = {
        .established = mpa_established,
        .rx = mpa_rx,
        .ahead = mpa_ahead,
        .rx_ahead = mpa_rx_ahead,
        .writable = mpa_writable,
        .mss = mpa_mss,
        .eof = mpa_eof,
        .closed = mpa_closed,
};

static void
mpa_startup_timeout(struct weft_timer *t, uint64_t now_ns)
{
	struct weft_mpa *m = container_of(t, struct weft_mpa, startup);

	if (m->state == WEFT_MPA_CLOSED && !m->tx_closed) {
		weft_mpa_give_up(m, now_ns);
		return;
	}
	if (m->state != WEFT_MPA_CLOSED)
		mpa_startup_failed(m);
	weft_mpa_fail(m, -ETIMEDOUT, now_ns);
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
