/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Asynchronous events (NVMe Base 2.0 s5.2): requests that are held, and what they are
 * answered with. An event of a kind is sent once, until the host has read the kind's log page.
 */

#include "nvmf_cmd.h"

#define EVENTS_NS        (1U << 8)
#define EVENTS_ANA       (1U << 11)
#define EVENTS_DISCOVERY (1U << 31)

void
nvmf_event_request(struct nvmf_slot *s)
{
	struct nvmf_ctrl *c = s->queue->ctrl;

	if (c->aers == NVMF_AERS) {
		nvmf_complete(s, NVMF_NEVER(WEFT_NVMF_AER_LIMIT));
		return;
	}
	s->state = NVMF_SLOT_HELD;
	c->aer[c->aers++] = s;
	nvmf_event_send(c);
}

/** Answer the oldest request. False: none is held. */
static bool
event_answer(struct nvmf_ctrl *c, uint32_t event)
{
	struct nvmf_slot *s = c->aer[0];

	if (c->aers == 0)
		return false;
	memmove(c->aer, c->aer + 1, --c->aers * sizeof(c->aer[0]));
	s->result = event;
	nvmf_count(&s->queue->group->events, 1);
	nvmf_complete(s, WEFT_NVMF_OK);
	return true;
}

void
nvmf_event_send(struct nvmf_ctrl *c)
{
	if (atomic_load_explicit(&c->ns_changed, memory_order_acquire) && !c->ns_masked &&
	    (c->events_on & EVENTS_NS) != 0 && c->aers > 0) {
		atomic_store_explicit(&c->ns_changed, false, memory_order_release);
		c->ns_masked = event_answer(c, NVMF_EVENT_NS);
	}
	if (atomic_load_explicit(&c->ana.changed, memory_order_acquire) && !c->ana.masked &&
	    (c->events_on & EVENTS_ANA) != 0 && c->aers > 0) {
		atomic_store_explicit(&c->ana.changed, false, memory_order_release);
		c->ana.masked = event_answer(c, NVMF_EVENT_ANA);
	}
	if (c->resv != NULL && atomic_load_explicit(&c->resv->ready, memory_order_acquire) &&
	    !c->resv->masked && c->aers > 0) {
		atomic_store_explicit(&c->resv->ready, false, memory_order_release);
		c->resv->masked = event_answer(c, NVMF_EVENT_RESV);
	}
	if (atomic_load_explicit(&c->log_changed, memory_order_acquire) && !c->log_masked &&
	    (c->events_on & EVENTS_DISCOVERY) != 0 && c->aers > 0) {
		atomic_store_explicit(&c->log_changed, false, memory_order_release);
		c->log_masked = event_answer(c, NVMF_EVENT_DISCOVERY);
	}
}

void
nvmf_event_drop(struct nvmf_ctrl *c)
{
	while (c->aers > 0)
		nvmf_finish(c->aer[--c->aers]);
}

void
nvmf_event_abort(struct nvmf_slot *s)
{
	struct nvmf_ctrl *c = s->queue->ctrl;

	for (uint32_t i = 0; i < c->aers; i++)
		if (c->aer[i] == s) {
			c->aers--;
			memmove(c->aer + i, c->aer + i + 1, (c->aers - i) * sizeof(c->aer[0]));
			nvmf_complete(s, WEFT_NVMF_ABORTED);
			return;
		}
}
