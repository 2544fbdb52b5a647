/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Queues: their commands, and their end.
 */

#include <stdlib.h>

#include "nvmf_auth.h"

int
weft_nvmf_queue_open(struct weft_nvmf_group *g, const struct weft_nvmf_queue_attr *attr,
                     struct weft_nvmf_queue **out)
{
	struct weft_nvmf *t = g->target;
	struct weft_nvmf_queue *q;
	bool full;

	if (attr->ops == NULL || attr->depth == 0 || attr->depth > WEFT_NVMF_MAX_DEPTH)
		return -EINVAL;
	q = calloc(1, sizeof(*q));
	if (q == NULL || nvmf_share_get(&g->shares, attr->remote, &q->share) != 0) {
		free(q);
		return -ENOMEM;
	}
	nvmf_lock(t);
	full = t->queues >= t->attr.max_queues;
	if (full)
		t->stats.refused_limit++;
	else
		t->queues++;
	nvmf_unlock(t);
	if (full) {
		nvmf_share_put(q->share);
		free(q);
		return -ENOSPC;
	}
	q->group = g;
	q->attr = *attr;
	q->attr.remote = NULL;
	q->size = attr->depth;
	q->since_ns = g->now_ns;
	TAILQ_INIT(&q->busy);
	TAILQ_INIT(&q->idle);
	TAILQ_INSERT_TAIL(&g->queues, q, link);
	g->nqueues++;
	g->next_ns = NVMF_MIN(g->next_ns, g->now_ns + t->attr.connect_ns);
	*out = q;
	return 0;
}

void
weft_nvmf_queue_proven(struct weft_nvmf_queue *q, const struct weft_nvmf_proven *p)
{
	q->proven = p;
}

void *
weft_nvmf_queue_owner(const struct weft_nvmf_queue *q)
{
	return q->attr.owner;
}

uint32_t
weft_nvmf_queue_inline_bytes(const struct weft_nvmf_queue *q)
{
	const uint32_t told = q->group->target->attr.inline_bytes;

	return q->ctrl != NULL && q->qid > 0 ? NVMF_MIN(told, q->attr.inline_bytes)
	                                     : q->attr.inline_bytes;
}

/** A slot for a command. NULL: errno says why. */
static struct nvmf_slot *
queue_slot(struct weft_nvmf_queue *q, int *error)
{
	struct nvmf_slot *s = TAILQ_FIRST(&q->idle);

	if (s != NULL) {
		TAILQ_REMOVE(&q->idle, s, link);
	} else {
		*error = -EAGAIN;
		if (q->slots >= q->attr.depth)
			return NULL;
		*error = -ENOMEM;
		s = calloc(1, sizeof(*s));
		if (s == NULL)
			return NULL;
		q->slots++;
		s->queue = q;
	}
	TAILQ_INSERT_TAIL(&q->busy, s, link);
	memset(&s->cmd, 0, sizeof(s->cmd));
	s->cmd.queue = q;
	s->row = NULL;
	s->need_bytes = s->room_bytes = s->step = 0;
	s->in = s->aborted = s->on_volume = false;
	s->seen = NVMF_SLOT_RUN;
	s->resv_step = NVMF_STEP_NONE;
	s->ns = NULL;
	s->result = 0;
	s->off_bytes = s->len_bytes = 0;
	s->other = s->aborter = NULL;
	s->from = &s->mem;
	s->from_bytes = 0;
	return s;
}

/** Find the command's row, or refuse it because of the state of queue and controller. */
static uint16_t
queue_row(struct nvmf_slot *s)
{
	const struct weft_nvmf_queue *q = s->queue;
	uint32_t state;

	if (s->sqe.opcode == WEFT_NVMF_OP_FABRICS) {
		s->row = nvmf_fabrics_row(s->sqe.fctype);
		return q->ctrl == NULL && s->sqe.fctype != WEFT_NVMF_FC_CONNECT ? WEFT_NVMF_SEQUENCE
		                                                                : WEFT_NVMF_OK;
	}
	if (q->ctrl == NULL)
		return WEFT_NVMF_SEQUENCE;
	if (nvmf_auth_lacks(q))
		return NVMF_NEVER(WEFT_NVMF_AUTH_REQUIRED);
	state = atomic_load_explicit(&q->ctrl->state, memory_order_acquire);
	if (q->qid > 0) {
		s->row = nvmf_io_row(s->sqe.opcode);
		return state == NVMF_CTRL_READY ? WEFT_NVMF_OK : WEFT_NVMF_SEQUENCE;
	}
	s->row = nvmf_admin_row(s->sqe.opcode);
	if (s->row != NULL && q->ctrl->subsys->discovery && !s->row->discovery)
		s->row = NULL;
	return state == NVMF_CTRL_READY || state == NVMF_CTRL_SHUTDOWN ? WEFT_NVMF_OK
	                                                               : WEFT_NVMF_SEQUENCE;
}

/** Fused commands come in pairs, one directly behind the other. */
static void
queue_fuse(struct nvmf_slot *s)
{
	struct weft_nvmf_queue *q = s->queue;
	struct nvmf_slot *first = q->fused;

	q->fused = NULL;
	if (first != NULL && s->sqe.fuse == 2) {
		nvmf_fused_start(first, s);
		return;
	}
	if (first != NULL)
		nvmf_complete(first, NVMF_NEVER(WEFT_NVMF_FUSED_MISSING));
	if (s->sqe.fuse == 2) {
		nvmf_complete(s, NVMF_NEVER(WEFT_NVMF_FUSED_MISSING));
	} else if (s->sqe.fuse == 1 && s->row != NULL && s->row->fusable) {
		s->state = NVMF_SLOT_FUSED;
		q->fused = s;
	} else {
		nvmf_start(s);
	}
}

/** A command that is not to be done: answer it, and the first half that waited for it. */
static void
queue_refuse(struct nvmf_slot *s, uint16_t status)
{
	struct nvmf_slot *first = s->queue->fused;

	s->queue->fused = NULL;
	if (first != NULL)
		nvmf_complete(first, s->sqe.fuse == 2 ? WEFT_NVMF_FUSED_FAILED
		                                      : NVMF_NEVER(WEFT_NVMF_FUSED_MISSING));
	nvmf_complete(s, status);
}

/** Take a capsule. `status`: of a command that is not to be done; WEFT_NVMF_OK: it is. */
static int
queue_command(struct weft_nvmf_queue *q, void *capsule, size_t bytes, uint16_t status)
{
	struct weft_nvmf_sqe sqe;
	struct nvmf_slot *s;
	int r = 0;

	if (q->closing || q->group->stop_ns != 0 ||
	    atomic_load_explicit(&q->doomed, memory_order_acquire))
		return -ESHUTDOWN;
	if (weft_nvmf_sqe_decode(capsule, bytes, &sqe) != 0 || q->under_way >= q->size ||
	    bytes > WEFT_NVMF_SQE_BYTES + (size_t)q->attr.inline_bytes) {
		nvmf_count(&q->group->protocol_errors, 1);
		return -EPROTO;
	}
	s = queue_slot(q, &r);
	if (s == NULL)
		return r;
	q->under_way++;
	s->sqe = sqe;
	s->cmd.cid = sqe.cid;
	s->capsule = capsule;
	s->inline_bytes = bytes - WEFT_NVMF_SQE_BYTES;
	s->state = NVMF_SLOT_RUN;
	if (q->ctrl != NULL && !atomic_load_explicit(&q->ctrl->traffic, memory_order_relaxed))
		atomic_store_explicit(&q->ctrl->traffic, true, memory_order_release);
	if (status == WEFT_NVMF_OK)
		status = queue_row(s);
	if (status != WEFT_NVMF_OK)
		queue_refuse(s, status);
	else if (sqe.fuse != 0 || q->fused != NULL)
		queue_fuse(s);
	else
		nvmf_start(s);
	return 0;
}

int
weft_nvmf_command(struct weft_nvmf_queue *q, void *capsule, size_t bytes)
{
	return queue_command(q, capsule, bytes, WEFT_NVMF_OK);
}

int
weft_nvmf_command_damaged(struct weft_nvmf_queue *q, void *capsule, size_t bytes)
{
	return queue_command(q, capsule, bytes, WEFT_NVMF_TRANSPORT_ERROR);
}

void
weft_nvmf_queue_lost(struct weft_nvmf_queue *q)
{
	struct nvmf_slot *s;
	bool again = true;

	q->lost = q->closing = true;
	if (q->ctrl != NULL && q->qid == 0)
		nvmf_event_drop(q->ctrl);
	/* An end of one may be the end of another: look again from the front. */
	while (again) {
		again = false;
		TAILQ_FOREACH (s, &q->busy, link) {
			if (s->aborted || s->state == NVMF_SLOT_ANSWER ||
			    (s->state == NVMF_SLOT_FUSED && s->other != NULL))
				continue;
			s->aborted = true;
			(void)nvmf_cancel(s);
			again = true;
			break;
		}
	}
	atomic_store_explicit(&q->group->attention, true, memory_order_release);
}
