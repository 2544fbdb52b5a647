/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A stream that its user has left: it closes by itself, and touches no memory of the user.
 *
 * What was sent is in the TCP stream, copied. What still arrives is dropped like the segments
 * behind a fault, so that TCP goes on to acknowledge it and the peer can finish.
 */

#include "rdmap_irq.h"
#include "rdmap_probe.h"
#include "rdmap_state.h"

/** Whether all that the user has posted is in the TCP stream, or will never be. */
static bool
rdmap_left_nothing(const struct weft_rdmap *r)
{
	return TAILQ_EMPTY(&r->sq) && TAILQ_EMPTY(&r->flush_list) && r->rtr == 0 &&
	       !rdmap_persist_busy(r);
}

bool
weft_rdmap_leave(struct weft_rdmap *r, const struct weft_rdmap_ops *ops, void *user,
                 uint64_t wait_ns)
{
	const uint64_t now_ns = r->sched->now_ns;

	if (r->dead || r->depth > 0 || !rdmap_stream_lives(r) ||
	    (r->state != WEFT_RDMAP_ST_CLOSING && r->state != WEFT_RDMAP_ST_TERMINATE) ||
	    !rdmap_left_nothing(r))
		return false;
	weft_ddp_expect(&r->ddp, 0, 0, 0, 0);
	r->ddp.faulted = true;
	rdmap_irq_reset(r);
	r->mid = RDMAP_MID_NONE; /* a response that was partly sent stays so */
	TAILQ_INIT(&r->out);
	TAILQ_INIT(&r->late);
	r->n_out = 0;
	r->rx_send.active = false;
	r->lane = NULL;
	r->ops = ops;
	r->user = user;
	r->left_end_ns = RTE_MAX(now_ns + wait_ns, 1U);
	/* The steps of rdmap_probe_closing() have a time of their own, which is short. */
	if (r->hold == 0 || r->fin_sent || r->state != WEFT_RDMAP_ST_CLOSING ||
	    wait_ns < RDMAP_PROBE_CLOSE_NS)
		weft_timer_arm(&r->sched->wheel, &r->timer, r->left_end_ns);
	rdmap_schedule(r);
	return true;
}
