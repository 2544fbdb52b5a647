/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The states of an MPA stream, faults, close and release. */

#include <inttypes.h>
#include <stdlib.h>

#include "mpa_held.h"
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
weft_mpa_startup_arm(struct weft_mpa *m, uint32_t timeout_us, uint64_t now_ns)
{
	weft_timer_arm(&m->sched->wheel, &m->startup, now_ns + timeout_us * WEFT_NS_PER_US);
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

void
weft_mpa_fault(struct weft_mpa *m, uint8_t code)
{
	const struct weft_term term = {.layer = WEFT_TERM_LAYER_LLP, .code = code};

	/* RFC 5044 s8: "Once MPA delivers an error of any type, it MUST NOT pass or deliver any
	 * additional FPDUs on that half connection." */
	m->rx_dead = true;
	weft_mpa_keep_drop(m);
	m->ops->fault(m->user, &term);
}

/* Only the local catastrophic error (RFC 6581 s8) can report lack of memory. */
void
weft_mpa_no_memory(struct weft_mpa *m)
{
	WEFT_LOG_PEER(mpa, ERR, "no memory for an FPDU in pieces");
	weft_mpa_fault(m, WEFT_MPA_ERR_LOCAL);
}
