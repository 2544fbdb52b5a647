/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Disconnections that are told late. A peer may send its last message and close at once. A
 * program that has to wait for a processor then finds the completion and the event together. Some
 * programs read the event first, and destroy the queue pair with its completions: libfabric does,
 * and waits for the message for ever. Where the kernel receives, the gap is too short for that;
 * here the helper thread receives while the program waits. So the event comes when the program has
 * polled what completed before it, or shows that it will not: it sleeps without an event of its
 * queue, or disconnects by itself.
 */

#include "ucm_priv.h"

#include "cq.h"
#include "engine.h"
#include "qp.h"

#define LATE_LOOK_US 1000
#define LATE_MOST_NS (1000 * 1000 * 1000ULL)

/** Ids whose event waits, under cm_lock. */
static LIST_HEAD(, wv_cm_id) late = LIST_HEAD_INITIALIZER(late);
/** The next look is planned; under the engine's lock. */
static bool late_planned;

static void
late_tell(struct wv_cm_id *id)
{
	LIST_REMOVE(id, late.link);
	cm_event_put(id->late.ev);
	id->late.ev = NULL;
}

/** Whether the program is on its way to the completions of this queue. */
static bool
late_for(struct wv_cq *c, uint32_t upto)
{
	return wv_cq_before(c, upto) && (!wv_is_waiting() || wv_channel_has_event(c));
}

static bool
late_waits(const struct wv_cm_id *id, uint64_t now_ns)
{
	if (id->qp == NULL || now_ns >= id->late.end_ns || wv_fdq_has_sleeper(&id->chan->q))
		return false;
	return late_for(id->qp->scq, id->late.send_upto) ||
	       late_for(id->qp->rcq, id->late.recv_upto);
}

static bool late_plan(void);

static void
late_look(void *arg)
{
	const uint64_t now_ns = wv_now_ns();
	struct wv_cm_id *id, *next;
	bool again;

	(void)arg;
	late_planned = false;
	pthread_mutex_lock(&cm_lock);
	again = !LIST_EMPTY(&late) && late_plan();
	for (id = LIST_FIRST(&late); id != NULL; id = next) {
		next = LIST_NEXT(id, late.link);
		if (!again || !late_waits(id, now_ns))
			late_tell(id);
	}
	pthread_mutex_unlock(&cm_lock);
}

static bool
late_plan(void)
{
	struct weft_alarm *alarm;

	late_planned = late_planned ||
	               weft_alarm_set(wv_engine.worker, LATE_LOOK_US, late_look, NULL, &alarm) == 0;
	return late_planned;
}

void
cm_late_put(struct wv_cm_id *id, struct cm_event *ev)
{
	struct wv_qp *q = id->qp;

	if (ev == NULL)
		return;
	id->late.ev = ev;
	LIST_INSERT_HEAD(&late, id, late.link);
	if (q != NULL) {
		id->late.end_ns = wv_now_ns() + LATE_MOST_NS;
		id->late.send_upto = wv_cq_upto(q->scq, q->ibv.qp_num);
		id->late.recv_upto = wv_cq_upto(q->rcq, q->ibv.qp_num);
	}
	if (!late_waits(id, wv_now_ns()) || !late_plan())
		late_tell(id);
}

void
cm_late_tell(struct wv_cm_id *id)
{
	if (id->late.ev != NULL)
		late_tell(id);
}
