/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Events of weft, handed on. */

#include "async.h"
#include "cq.h"
#include "engine.h"
#include "qp.h"
#include "srq.h"
#include "ucm.h"

/** As the kernel's drivers tell them: who found the fault, and of what kind it is. */
static enum ibv_event_type
events_terminated(const struct weft_terminate *t)
{
	/* RFC 5040 s4.8: layer 0 is RDMAP, type 1 a remote protection error; layer 1, type 1: a
	 * tagged buffer of DDP. */
	if (!t->ours)
		return IBV_EVENT_QP_FATAL;
	return t->layer <= 1 && t->etype == 1 ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR;
}

static void
events_on(void *user, const struct weft_event *ev)
{
	struct wv_qp *q = ev->qp != NULL ? ev->user : NULL;

	(void)user;
	switch (ev->type) {
	case WEFT_EV_CONNECT_REQUEST:
		wv_ucm_request(ev->user, ev);
		break;
	case WEFT_EV_ESTABLISHED:
		wv_qp_up(q);
		if (q->id != NULL)
			wv_ucm_established(q->id, ev);
		break;
	case WEFT_EV_REJECTED:
	case WEFT_EV_CONNECT_ERROR:
		wv_qp_down(q);
		if (q->id != NULL)
			wv_ucm_failed(q->id, ev);
		break;
	case WEFT_EV_DISCONNECTED:
		wv_qp_down(q);
		if (q->id != NULL)
			wv_ucm_disconnected(q->id);
		break;
	case WEFT_EV_TERMINATED:
		if (q != NULL)
			wv_async_qp(q, events_terminated(&ev->term));
		break;
	case WEFT_EV_CQ_OVERRUN:
		if (q != NULL)
			wv_async_cq(q->scq, IBV_EVENT_CQ_ERR);
		break;
	case WEFT_EV_SRQ_LIMIT:
		wv_async_srq(ev->user, IBV_EVENT_SRQ_LIMIT_REACHED);
		break;
	case WEFT_EV_LAST_WQE:
		if (q != NULL)
			wv_async_qp(q, IBV_EVENT_QP_LAST_WQE_REACHED);
		break;
	case WEFT_EV_BAD_RANGE:
		/* No region here has a medium. */
		break;
	}
}

static const struct wv_engine_hooks events_hooks = {
        .on_event = events_on,
        .drain = wv_qp_drain_all,
        .helper = {.may_hold = wv_rq_low, .hold = wv_rq_hold},
};

static void __attribute__((constructor)) events_register(void)
{
	wv_engine_hook(&events_hooks);
}
