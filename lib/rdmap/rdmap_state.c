/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The states of a stream, and what ends with one: requests are flushed, our FIN is sent. */

#include <inttypes.h>
#include <stdlib.h>

#include "rdmap_irq.h"
#include "rdmap_state.h"
#include "rdmap_term.h"

#define TO(s) (1u << WEFT_RDMAP_ST_##s)

static const struct {
	const char *name;
	uint32_t next;
} rdmap_states[WEFT_RDMAP_ST_NSTATES] = {
        [WEFT_RDMAP_ST_IDLE] = {"IDLE", TO(RTS) | TO(CLOSING) | TO(TERMINATE) | TO(ERROR)},
        [WEFT_RDMAP_ST_RTS] = {"RTS", TO(CLOSING) | TO(TERMINATE) | TO(ERROR)},
        [WEFT_RDMAP_ST_CLOSING] = {"CLOSING", TO(TERMINATE) | TO(ERROR)},
        [WEFT_RDMAP_ST_TERMINATE] = {"TERMINATE", TO(ERROR)},
        [WEFT_RDMAP_ST_ERROR] = {"ERROR", 0},
};

const char *
weft_rdmap_state_name(enum weft_rdmap_state s)
{
	return (unsigned int)s < WEFT_RDMAP_ST_NSTATES ? rdmap_states[s].name : "?";
}

/* Complete, as flushed, the receive buffer that a message has begun to fill. */
static void
rdmap_flush_recv(struct weft_rdmap *r)
{
	if (r->dead || !r->rx_send.active)
		return;
	r->rx_send.active = false;
	r->ops->recv_done(r->user, WEFT_RDMAP_FLUSHED, 0, false, 0);
}

/* A number that changes whenever a message of either direction, or a Verify, makes progress. */
uint64_t
rdmap_moved(const struct weft_rdmap *r)
{
	return r->stats.bytes_in + r->stats.bytes_out + r->stats.msgs_in + r->stats.msgs_out +
	       r->irq_exec + (r->work != NULL ? r->work->hash_pos_bytes : 0);
}

/* Bound the time of closing. A live peer may never answer, or never read what this side sends. */
void
rdmap_linger(struct weft_rdmap *r, uint64_t now_ns)
{
	r->moved = rdmap_moved(r);
	weft_timer_arm(&r->sched->wheel, &r->timer, rdmap_no_later(r, now_ns + RDMAP_LINGER_NS));
}

/** Whether the peer's RDMA Writes and Sends are accepted: rdmap_judge(). */
static bool
rdmap_hears(enum weft_rdmap_state s)
{
	return s == WEFT_RDMAP_ST_RTS || s == WEFT_RDMAP_ST_CLOSING;
}

void
rdmap_set_state(struct weft_rdmap *r, enum weft_rdmap_state s, const struct weft_term *term,
                bool ours)
{
	RTE_ASSERT(rdmap_states[r->state].next & 1u << s);
	WEFT_LOG(rdmap, DEBUG, "stream %" PRIu64 ": %s -> %s", r->ddp.scope.stream,
	         weft_rdmap_state_name(r->state), weft_rdmap_state_name(s));
	r->state = s;
	weft_ddp_expect(&r->ddp, rdmap_hears(s) ? RDMAP_CTRL(WEFT_RDMAP_WRITE) : 0,
	                WEFT_ACCESS_REMOTE_WRITE,
	                rdmap_hears(s) && r->ops->recv_whole != NULL ? RDMAP_CTRL(WEFT_RDMAP_SEND)
	                                                             : 0,
	                rdmap_hears(s) ? RDMAP_CTRL(WEFT_RDMAP_READ_REQ) : 0);
	if (s == WEFT_RDMAP_ST_CLOSING && !r->fin_sent)
		rdmap_linger(r, r->sched->now_ns);
	if (s == WEFT_RDMAP_ST_ERROR) {
		weft_timer_cancel(&r->sched->wheel, &r->timer);
		rdmap_irq_reset(r);
		rdmap_flush(r);
		rdmap_flush_recv(r);
		if (r->dead)
			return;
	}
	r->ops->state(r->user, s, term, ours);
}

void
rdmap_done(struct weft_rdmap *r, struct weft_rdmap_req *req, enum weft_rdmap_status status)
{
	if (unlikely(req == r->rtr_req)) {
		free(req);
		r->rtr_req = NULL;
		return;
	}
	r->ops->done(r->user, req, status);
}

/*
 * done() may post: the request goes to `late`, so the loop ends. done() may abort the stream: a
 * nested call drains the rest of flush_list. done() may destroy the stream: the loop stops, and the
 * other requests are the caller's.
 */
void
rdmap_drain(struct weft_rdmap *r)
{
	struct weft_rdmap_req *req;

	while (!r->dead && (req = TAILQ_FIRST(&r->flush_list)) != NULL) {
		enum weft_rdmap_status st = WEFT_RDMAP_FLUSHED;

		TAILQ_REMOVE(&r->flush_list, req, link);
		if (req == r->fail_req) {
			st = r->fail_status;
			r->fail_req = NULL;
		}
		rdmap_done(r, req, st);
	}
}

void
rdmap_flush(struct weft_rdmap *r)
{
	r->n_out = 0;
	TAILQ_CONCAT(&r->flush_list, &r->out, link);
	TAILQ_CONCAT(&r->flush_list, &r->sq, link);
	TAILQ_CONCAT(&r->flush_list, &r->late, link);
	rdmap_drain(r);
}

void
rdmap_flush_late(struct weft_rdmap *r)
{
	/* What is put into flush_list is drained at once, so that line is not looked at. */
	if (likely(TAILQ_EMPTY(&r->late)))
		return;
	TAILQ_CONCAT(&r->flush_list, &r->late, link);
	rdmap_drain(r);
}

void
rdmap_fin(struct weft_rdmap *r, uint64_t wait_ns, uint64_t now_ns)
{
	if (r->fin_sent)
		return;
	r->fin_sent = true;
	if (!rdmap_stream_lives(r))
		return;
	weft_timer_arm(&r->sched->wheel, &r->timer, rdmap_no_later(r, now_ns + wait_ns));
	weft_ddp_close(&r->ddp, now_ns);
}

void
rdmap_answered(struct weft_rdmap *r, enum weft_rdmap_status status)
{
	struct weft_rdmap_req *req = TAILQ_FIRST(&r->out);

	TAILQ_REMOVE(&r->out, req, link);
	r->n_out--;
	if (!TAILQ_EMPTY(&r->sq) || r->state == WEFT_RDMAP_ST_CLOSING)
		rdmap_schedule(
		        r); /* a request at ORD, a fence or the close may wait for this answer */
	rdmap_done(r, req, status);
}
