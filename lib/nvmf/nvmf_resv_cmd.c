/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The reservation commands (NVMe Base 2.0 s7.2 to s7.5), and Reservation Persistence (feature
 * 83h). One that changes reservations waits until the change before it is over, and is answered
 * when its own is durable and seen by all.
 */

#include "nvmf_cmd.h"

/* CDW10 */
#define RESV_ACTION     0x7U
#define RESV_IEKEY      (1U << 3)
#define RESV_RTYPE(cdw) ((uint8_t)((cdw) >> 8))
#define RESV_CPTPL(cdw) ((cdw) >> 30)
#define CPTPL_RESERVED  1U
#define CPTPL_OFF       2U
#define CPTPL_ON        3U
#define REPORT_EDS      1U /**< CDW11: host identifiers of 128 bits */

#define RESV_BYTES    16U /**< of Register and Acquire: two keys */
#define RELEASE_BYTES 8U
#define REPORT_HEAD   64U
#define REPORT_HOST   64U
#define FENCES        16U /**< volumes that a group looks at in one poll */
#define FENCE_LOOK_NS NVMF_NS_PER_MS

/** What all of them need. */
static uint16_t
resv_start(struct nvmf_slot *s)
{
	static const uint8_t nobody[16];
	const uint16_t status = nvmf_ns_hold(s);

	s->in = true;
	s->need_bytes = RESV_BYTES;
	if (status != WEFT_NVMF_OK)
		return status;
	/* hosts that all say 0 are not one host */
	if (memcmp(s->queue->ctrl->hostid, nobody, sizeof(nobody)) == 0)
		return NVMF_NEVER(WEFT_NVMF_SEQUENCE);
	return WEFT_NVMF_OK;
}

uint16_t
nvmf_resv_register_start(struct nvmf_slot *s)
{
	const uint16_t status = resv_start(s);
	const uint32_t cptpl = RESV_CPTPL(s->sqe.cdw[10]);

	if (status != WEFT_NVMF_OK)
		return status;
	if ((s->sqe.cdw[10] & RESV_ACTION) > NVMF_RREGA_REPLACE || cptpl == CPTPL_RESERVED ||
	    (cptpl == CPTPL_ON && !s->queue->group->target->attr.resv.persists))
		return NVMF_NEVER(WEFT_NVMF_INVALID_FIELD);
	return WEFT_NVMF_OK;
}

uint16_t
nvmf_resv_acquire_start(struct nvmf_slot *s)
{
	return resv_start(s);
}

uint16_t
nvmf_resv_release_start(struct nvmf_slot *s)
{
	const uint16_t status = resv_start(s);

	/* Linux sends two keys with this one, too */
	if (s->cmd.sgl.bytes != RESV_BYTES)
		s->need_bytes = RELEASE_BYTES;
	return status;
}

/** The command as a change of r->next. Returns a status. With the lock. */
static uint16_t
resv_apply(const struct nvmf_slot *s, struct nvmf_resv *r)
{
	const uint32_t cdw10 = s->sqe.cdw[10], cptpl = RESV_CPTPL(cdw10);
	struct nvmf_resv_cmd cmd = {.hostid = s->queue->ctrl->hostid,
	                            .action = cdw10 & RESV_ACTION,
	                            .ignore_key = (cdw10 & RESV_IEKEY) != 0,
	                            .type = RESV_RTYPE(cdw10)};
	uint8_t p[RESV_BYTES] = {0};
	uint16_t status;

	r->next = r->now;
	r->told.n = 0;
	r->fence = false;
	if (s->queue->qid == 0) {
		r->next.persist = (s->sqe.cdw[11] & 1) != 0;
		return WEFT_NVMF_OK;
	}
	nvmf_get(s, 0, p, NVMF_MIN(s->need_bytes, sizeof(p)));
	cmd.key = weft_nvmf_get64(p);
	cmd.other = weft_nvmf_get64(p + 8);
	switch (s->sqe.opcode) {
	case WEFT_NVMF_IO_RESV_REGISTER:
		status = nvmf_resv_register(&r->next, &cmd, &r->told);
		if (cptpl >= CPTPL_OFF)
			r->next.persist = cptpl == CPTPL_ON;
		if (status == NVMF_NEVER(WEFT_NVMF_INTERNAL))
			s->queue->group->target->stats.resv_full++;
		return status;
	case WEFT_NVMF_IO_RESV_ACQUIRE:
		r->fence = cmd.action == NVMF_RACQA_PREEMPT_ABORT;
		return nvmf_resv_acquire(&r->next, &cmd, &r->told);
	default:
		return nvmf_resv_release(&r->next, &cmd, &r->told);
	}
}

/** Begin, or wait. True: it has its result, *status. */
static bool
resv_try(struct nvmf_slot *s, uint16_t *status)
{
	struct weft_nvmf *t = s->queue->group->target;
	struct nvmf_resv *r = s->ns->resv;
	bool over = true;

	nvmf_lock(t);
	if (nvmf_resv_turn(s)) {
		*status = resv_apply(s, r);
		if (*status == WEFT_NVMF_OK) {
			r->slot = s;
			s->resv_step = NVMF_STEP_OWNS;
			nvmf_resv_begin(t, r);
			over = nvmf_resv_is_over(r);
		}
		if (over)
			nvmf_resv_next(t, r);
	} else {
		over = false;
	}
	nvmf_unlock(t);
	return over;
}

static void
resv_let_go(struct nvmf_slot *s)
{
	atomic_fetch_sub_explicit(&s->ns->at[s->queue->group->index].under_way, 1,
	                          memory_order_seq_cst);
	s->ns = NULL;
}

/** Set Features of all namespaces: hold the next one. False: there are no more. */
static bool
resv_next_ns(struct nvmf_slot *s)
{
	const struct weft_nvmf_subsys *sub = s->queue->ctrl->subsys;
	uint16_t status = WEFT_NVMF_OK;

	if (s->queue->qid > 0 || s->sqe.nsid != WEFT_NVMF_NSID_ALL)
		return false;
	do {
		s->mark = s->mark == WEFT_NVMF_OK ? status : s->mark;
		if (s->ns != NULL)
			resv_let_go(s);
		while (s->step < sub->max_nsid && nvmf_ns_active(sub, s->step + 1) == NULL)
			s->step++;
		if (s->step == sub->max_nsid)
			return false;
		s->step++;
		status = s->aborted ? WEFT_NVMF_ABORTED : nvmf_ns_hold_at(s, s->step);
	} while (status != WEFT_NVMF_OK);
	return true;
}

/** It has its result: that of all namespaces is the first error. */
static void
resv_result(struct nvmf_slot *s, uint16_t status)
{
	s->resv_step = NVMF_STEP_NONE;
	s->mark = s->mark == WEFT_NVMF_OK ? status : s->mark;
	while (resv_next_ns(s)) {
		if (!resv_try(s, &status))
			return;
		s->resv_step = NVMF_STEP_NONE;
		s->mark = s->mark == WEFT_NVMF_OK ? status : s->mark;
	}
	nvmf_complete(s, (uint16_t)s->mark);
}

void
nvmf_resv_run(struct nvmf_slot *s)
{
	uint16_t status = WEFT_NVMF_OK;

	s->mark = WEFT_NVMF_OK;
	if (s->ns == NULL || resv_try(s, &status))
		resv_result(s, status);
}

/* ---- Waiting ---- */

/** A command of the group that can go on. *over: it has its result, *status. */
static struct nvmf_slot *
resv_ready(struct weft_nvmf_group *g, bool *over, uint16_t *status)
{
	struct nvmf_resv *r;

	LIST_FOREACH (r, &g->target->resvs, link) {
		struct nvmf_slot *s = r->slot != NULL ? r->slot : TAILQ_FIRST(&r->waits);

		if (s == NULL || s->queue->group != g || s->state == NVMF_SLOT_ANSWER)
			continue;
		*over = r->slot != NULL;
		if (!*over)
			return s;
		if (nvmf_resv_is_over(r)) {
			*status = r->status;
			nvmf_resv_next(g->target, r);
			return s;
		}
	}
	return NULL;
}

/** Whether a command is one of those that the change ends. What waits for its host's data or for
 * memory never begins, whatever its host may do by then: the change does not wait for that. */
static bool
resv_is_fenced(const struct nvmf_slot *s, const struct nvmf_resv *r)
{
	return s->ns != NULL && s->ns->resv == r && s->row->resv != NVMF_GROUP_FREE &&
	       (s->state == NVMF_SLOT_RUN || s->state == NVMF_SLOT_PULL ||
	        s->state == NVMF_SLOT_MEMORY);
}

static bool
resv_is_told(const struct nvmf_resv *r, const struct nvmf_ctrl *c)
{
	for (uint32_t i = 0; c != NULL && i < r->told.n; i++)
		if (r->told.at[i].notice == NVMF_NOTICE_UNREGISTERED &&
		    memcmp(r->told.at[i].hostid, c->hostid, sizeof(c->hostid)) == 0)
			return true;
	return false;
}

/** A command that was not asked to end yet; *left: whether the change waits for any at all. */
static struct nvmf_slot *
resv_find_fenced(const struct weft_nvmf_group *g, const struct nvmf_resv *r, bool *left)
{
	const struct weft_nvmf_queue *q;
	struct nvmf_slot *s;

	*left = false;
	TAILQ_FOREACH (q, &g->queues, link) {
		if (!resv_is_told(r, q->ctrl))
			continue;
		TAILQ_FOREACH (s, &q->busy, link) {
			if (!resv_is_fenced(s, r))
				continue;
			*left = *left || s->state == NVMF_SLOT_RUN;
			if (!s->aborted)
				return s;
		}
	}
	return NULL;
}

/** End the commands of hosts that have lost their registration. */
static void
resv_fence(struct weft_nvmf_group *g)
{
	struct weft_nvmf *t = g->target;
	struct nvmf_resv *list[FENCES], *r;
	struct nvmf_slot *s;
	uint32_t n = 0;
	bool left;

	nvmf_lock(t);
	LIST_FOREACH (r, &t->resvs, link)
		if ((r->fences & 1ULL << g->index) != 0 && n < FENCES)
			list[n++] = r;
	nvmf_unlock(t);
	g->resv.fencing = false;
	/* they stay as they are until this group has its bit cleared */
	for (uint32_t i = 0; i < n; i++) {
		while ((s = resv_find_fenced(g, list[i], &left)) != NULL) {
			s->aborted = true;
			(void)nvmf_cancel(s);
		}
		if (left) {
			g->resv.fencing = true;
			continue;
		}
		nvmf_lock(t);
		nvmf_resv_fenced(t, list[i], g->index);
		nvmf_unlock(t);
	}
	if (n == FENCES)
		g->resv.fencing = true;
	if (g->resv.fencing)
		g->next_ns = NVMF_MIN(g->next_ns, g->now_ns + FENCE_LOOK_NS);
}

/** Have more controllers see a change that a command of the group has made. */
static void
resv_go_on(struct weft_nvmf_group *g)
{
	struct nvmf_resv *r;

	nvmf_lock(g->target);
	LIST_FOREACH (r, &g->target->resvs, link)
		if (r->showing && r->slot != NULL && r->slot->queue->group == g)
			break;
	if (r != NULL) {
		nvmf_resv_show(g->target, r);
		/* the next poll goes on with it, or looks for another one */
		g->resv.fencing = true;
		g->next_ns = 0;
	}
	nvmf_unlock(g->target);
}

void
nvmf_resv_poll(struct weft_nvmf_group *g)
{
	uint16_t status = WEFT_NVMF_OK;
	struct nvmf_slot *s;
	bool over;

	if (!atomic_exchange_explicit(&g->resv.work, false, memory_order_acq_rel) &&
	    !g->resv.fencing)
		return;
	resv_fence(g);
	resv_go_on(g);
	for (;;) {
		nvmf_lock(g->target);
		s = resv_ready(g, &over, &status);
		nvmf_unlock(g->target);
		if (s == NULL)
			break;
		if (over || resv_try(s, &status))
			resv_result(s, status);
	}
}

/* ---- Report ---- */

uint16_t
nvmf_resv_report_start(struct nvmf_slot *s)
{
	const uint64_t bytes = 4ULL * s->sqe.cdw[10] + 4;
	const uint16_t status = nvmf_ns_hold(s);

	if (status != WEFT_NVMF_OK)
		return status;
	/* hosts of Fabrics have identifiers of 128 bits, which the short form has no room for */
	if ((s->sqe.cdw[11] & REPORT_EDS) == 0)
		return NVMF_NEVER(WEFT_NVMF_HOSTID_FORMAT);
	if (bytes > s->queue->group->target->attr.mdts_bytes)
		return NVMF_NEVER(WEFT_NVMF_INVALID_FIELD);
	s->need_bytes = (uint32_t)bytes;
	return WEFT_NVMF_OK;
}

void
nvmf_resv_report(struct nvmf_slot *s)
{
	uint8_t p[REPORT_HEAD + REPORT_HOST * NVMF_RESV_HOSTS] = {0};
	struct weft_nvmf *t = s->queue->group->target;
	const struct nvmf_resv_state *r = &s->ns->resv->now;

	nvmf_zero(s);
	nvmf_lock(t);
	weft_nvmf_put32(p, r->generation);
	p[4] = r->type;
	weft_nvmf_put16(p + 5, (uint16_t)r->hosts);
	p[9] = r->persist;
	for (uint32_t i = 0; i < r->hosts; i++) {
		uint8_t *at = p + REPORT_HEAD + (size_t)REPORT_HOST * i;

		/* controllers are dynamic: a host is named once, with none of them */
		weft_nvmf_put16(at, 0xffff);
		at[2] = nvmf_resv_holds(r, i);
		weft_nvmf_put64(at + 8, r->host[i].key);
		memcpy(at + 16, r->host[i].hostid, 16);
	}
	nvmf_unlock(t);
	nvmf_put(s, 0, p, NVMF_MIN(s->need_bytes, sizeof(p)));
	nvmf_complete(s, WEFT_NVMF_OK);
}
