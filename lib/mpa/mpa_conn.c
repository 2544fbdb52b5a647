/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The states of an MPA stream, the up-calls from TCP, close and release. */

#include <inttypes.h>
#include <stdlib.h>

#include "mpa_priv.h"

WEFT_LOG_REGISTER(mpa);

static const char *const mpa_state_names[] = {
        [WEFT_MPA_IDLE] = "idle",
        [WEFT_MPA_REQ_SENT] = "request sent",
        [WEFT_MPA_REQ_WAIT] = "request wait",
        [WEFT_MPA_REQ_RCVD] = "request received",
        [WEFT_MPA_FULL] = "full operation",
        [WEFT_MPA_CLOSED] = "closed",
};

#define TO(s) (1u << WEFT_MPA_##s)
/** The legal transitions from each state. */
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
	WEFT_LOG(mpa, DEBUG, "stream %" PRIu64 ": %s -> %s", m->stream, mpa_state_names[m->state],
	         mpa_state_names[to]);
	m->state = to;
}

/* ---- Close and release ---- */

void
weft_mpa_release(struct weft_mpa *m)
{
	if (m->sched != NULL) {
		weft_timer_cancel(&m->sched->wheel, &m->startup);
		weft_task_cancel(m->sched, &m->drain_task);
	}
	if (m->drain != NULL) {
		/* The running up-call may still use this memory: the receive loop frees it. */
		m->drain->gone = true;
		m->drain->orphan = m->held_head;
		m->drain->orphan_compact = m->compact;
		m->drain = NULL;
		m->held_head = NULL;
		m->compact = NULL;
	}
	if (m->sched != NULL)
		weft_mpa_keep_drop(m);
	m->shed = false;
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

/** Queue our FIN. TCP may make up-calls from here, so the caller uses nothing afterwards. */
static void
mpa_fin(struct weft_mpa *m, uint64_t now_ns)
{
	m->tx_closed = true;
	weft_tcp_close(m->tcp, now_ns);
}

static uint32_t
mpa_patience_us(const struct weft_mpa *m)
{
	return m->su != NULL ? m->su->timeout_us : MPA_STARTUP_TIMEOUT_US;
}

void
weft_mpa_give_up(struct weft_mpa *m, uint64_t now_ns)
{
	if (m->state != WEFT_MPA_CLOSED)
		weft_mpa_set_state(m, WEFT_MPA_CLOSED);
	weft_mpa_startup_arm(m, mpa_patience_us(m), now_ns);
	mpa_fin(m, now_ns);
}

void
weft_mpa_await_fin(struct weft_mpa *m, uint64_t now_ns)
{
	uint32_t wait_us = RTE_MIN(mpa_patience_us(m) / 2, MPA_REJECT_WAIT_US);

	if (m->tcp != NULL && !m->tx_closed)
		weft_mpa_startup_arm(m, wait_us, now_ns);
}

void
weft_mpa_close(struct weft_mpa *m, uint64_t now_ns)
{
	if (m->tcp == NULL || m->tx_closed)
		return;
	if (m->state != WEFT_MPA_FULL) {
		weft_mpa_give_up(m, now_ns);
		return;
	}
	weft_mpa_tx_flush(m, now_ns);
	mpa_fin(m, now_ns);
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
		m->stats.bad_startup++;
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

const struct weft_tcp_conn_ops weft_mpa_tcp_ops = {
        .established = mpa_established,
        .rx = mpa_rx,
        .writable = mpa_writable,
        .mss = mpa_mss,
        .eof = mpa_eof,
        .closed = mpa_closed,
};
