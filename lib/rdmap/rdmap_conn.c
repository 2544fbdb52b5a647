/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A stream: creation, start, close, abort, timer, destruction. */

#include <inttypes.h>
#include <stdlib.h>

#include "rdmap_irq.h"
#include "rdmap_probe.h"
#include "rdmap_rx.h"
#include "rdmap_state.h"
#include "rdmap_tx.h"
#include "rdmap_wire.h"
#include "weft_stat.h"

WEFT_LOG_REGISTER(rdmap);

/* Reset the connection. ddp makes no more up-calls, and segments that still arrive are dropped. */
static void
rdmap_cut(struct weft_rdmap *r, uint64_t now_ns)
{
	bool lived = rdmap_stream_lives(r);

	r->gone = true;
	r->ddp.faulted = true;
	r->term_msg_bytes = 0;
	if (lived)
		weft_ddp_abort(&r->ddp, now_ns);
}

static void
rdmap_on_timer(struct weft_timer *t, uint64_t now_ns)
{
	struct weft_rdmap *r = container_of(t, struct weft_rdmap, timer);
	bool again;

	if (r->state == WEFT_RDMAP_ST_RTS) {
		rdmap_enter(r);
		again = rdmap_probe(r, now_ns);
		if (!r->dead && r->state == WEFT_RDMAP_ST_RTS && !again && !rdmap_irq_rest(r))
			weft_timer_arm(&r->sched->wheel, &r->timer, now_ns + RDMAP_REST_NS);
		rdmap_leave(r);
		return;
	}
	rdmap_enter(r);
	again = rdmap_probe_closing(r, now_ns);
	rdmap_leave(r);
	if (again)
		return;
	/* before our FIN: wait on while there is progress */
	if (r->state == WEFT_RDMAP_ST_CLOSING && !r->fin_sent && r->left_end_ns == 0 &&
	    (rdmap_persist_busy(r) || r->moved != rdmap_moved(r))) {
		rdmap_linger(r, now_ns);
		return;
	}
	rdmap_enter(r);
	WEFT_LOG_PEER(rdmap, INFO, "the peer did not close; reset");
	RDMAP_FAULT(r, close_timeouts);
	rdmap_cut(r, now_ns);
	if (r->state != WEFT_RDMAP_ST_ERROR)
		rdmap_set_state(r, WEFT_RDMAP_ST_ERROR, NULL, true);
	if (!r->dead)
		r->ops->closed(r->user, -ETIMEDOUT);
	rdmap_leave(r);
}

static void
rdmap_free(struct weft_rdmap *r)
{
	weft_ddp_fini(&r->ddp);
	for (unsigned int i = 0; i < WEFT_DDP_NQN; i++)
		free(r->msg[i]);
	free(r->work);
	free(r->rtr_req);
	free(r);
}

static void
rdmap_on_reap(struct weft_task *t, uint64_t now_ns)
{
	struct weft_rdmap *r = container_of(t, struct weft_rdmap, reap);

	(void)now_ns;
	/* the completion of a request that a driver still has queues this task again */
	if (!rdmap_persist_busy(r))
		rdmap_free(r);
}

int
weft_rdmap_create(const struct weft_rdmap_attr *attr, const struct weft_rdmap_ops *ops, void *user,
                  struct weft_rdmap **out)
{
	const size_t bytes = RTE_ALIGN_CEIL(sizeof(struct weft_rdmap) + weft_ddp_mpa_bytes(),
	                                    alignof(struct weft_rdmap));
	struct weft_rdmap *r = aligned_alloc(alignof(struct weft_rdmap), bytes);

	if (r == NULL)
		return -ENOMEM;
	memset(r, 0, bytes);
	r->mem = attr->mem;
	r->sched = attr->sched;
	r->ops = ops;
	r->user = user;
	r->ird = attr->ird;
	r->ord = attr->ord;
	TAILQ_INIT(&r->sq);
	TAILQ_INIT(&r->out);
	TAILQ_INIT(&r->flush_list);
	TAILQ_INIT(&r->late);
	weft_task_init(&r->task, rdmap_on_task);
	weft_task_init(&r->reap, rdmap_on_reap);
	weft_timer_init(&r->timer, rdmap_on_timer);
	r->op_stats = attr->op_stats;
	rdmap_irq_size(r, attr->ird);
	weft_ddp_init(&r->ddp, (struct weft_mpa *)(void *)(r + 1), attr->mem, attr->pd,
	              &rdmap_ddp_ops, r);
	r->pd = &r->ddp.scope;
	*out = r;
	return 0;
}

void
weft_rdmap_destroy(struct weft_rdmap *r)
{
	if (r->dead)
		return;
	r->dead = true;
	weft_ddp_expect(&r->ddp, 0, 0, 0, 0);
	weft_task_cancel(r->sched, &r->task);
	weft_timer_cancel(&r->sched->wheel, &r->timer);
	rdmap_cut(r, r->sched->now_ns);
	rdmap_irq_reset(r);
	TAILQ_INIT(&r->sq);
	TAILQ_INIT(&r->out);
	TAILQ_INIT(&r->flush_list);
	TAILQ_INIT(&r->late);
	r->rx_send.active = false;
	if (r->depth > 0)
		weft_task_queue(r->sched, &r->reap);
	else if (!rdmap_persist_busy(r))
		rdmap_free(r);
}

struct weft_ddp *
weft_rdmap_ddp(struct weft_rdmap *r)
{
	return &r->ddp;
}

void
weft_rdmap_start(struct weft_rdmap *r, uint16_t ird, uint16_t ord)
{
	if (r->state != WEFT_RDMAP_ST_IDLE)
		return;
	rdmap_enter(r);
	r->ord = ord;
	if (ird > r->irq_mask + 1)
		rdmap_irq_size(r, ird);
	r->ird = ird;
	rdmap_set_state(r, WEFT_RDMAP_ST_RTS, NULL, false);
	if (!r->dead && r->state == WEFT_RDMAP_ST_RTS)
		rdmap_probe_begin(r);
	if (!r->dead)
		rdmap_schedule(r);
	rdmap_leave(r);
}

void
weft_rdmap_lane(struct weft_rdmap *r, struct weft_lane *lane)
{
	r->lane = lane;
}

void
weft_rdmap_resume(struct weft_rdmap *r)
{
	rdmap_schedule(r);
}

struct weft_mem_pd *
weft_rdmap_scope(struct weft_rdmap *r)
{
	return &r->ddp.scope;
}

void
weft_rdmap_close(struct weft_rdmap *r, uint64_t now_ns)
{
	if (r->state != WEFT_RDMAP_ST_RTS &&
	    (r->state != WEFT_RDMAP_ST_IDLE || !rdmap_stream_lives(r)))
		return;
	rdmap_enter(r);
	if (r->state == WEFT_RDMAP_ST_IDLE)
		rdmap_fin(r, RDMAP_TERM_WAIT_NS, now_ns);
	/* the close may already have ended the stream */
	if (!r->dead && r->state != WEFT_RDMAP_ST_ERROR)
		rdmap_set_state(r, WEFT_RDMAP_ST_CLOSING, NULL, true);
	if (!r->dead)
		rdmap_schedule(r);
	rdmap_leave(r);
}

void
weft_rdmap_abort(struct weft_rdmap *r, uint64_t now_ns)
{
	if (r->dead || r->state == WEFT_RDMAP_ST_ERROR)
		return;
	rdmap_enter(r);
	rdmap_cut(r, now_ns);
	rdmap_set_state(r, WEFT_RDMAP_ST_ERROR, NULL, true);
	rdmap_leave(r);
}

enum weft_rdmap_state
weft_rdmap_state(const struct weft_rdmap *r)
{
	return r->state;
}

const struct weft_rdmap_stats *
weft_rdmap_stats(const struct weft_rdmap *r)
{
	return &r->stats;
}

WEFT_STAT_READER void
weft_rdmap_depths(const struct weft_rdmap *r, uint16_t *out, uint16_t *in)
{
	*out = r->n_out;
	*in = (uint16_t)rdmap_irq_depth(r);
}
