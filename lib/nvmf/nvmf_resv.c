/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Reservations of volumes as objects: who sees a change, and when. See nvmf_resv.h.
 */

#include <assert.h>
#include <stdlib.h>

#include "nvmf_cmd.h"

static_assert(NVMF_RESV_SAVED_BYTES <= WEFT_NVMF_RESV_MAX_BYTES, "what an owner has room for");

static void
resv_set(const struct nvmf_ctrl *c, uint32_t i, const struct nvmf_resv *r)
{
	atomic_store_explicit(&c->resv->may[i], (uint8_t)nvmf_resv_may(&r->now, c->hostid),
	                      memory_order_seq_cst);
}

void
nvmf_resv_enter(struct nvmf_resv *r, struct nvmf_ns *ns)
{
	struct nvmf_ctrl *c;

	ns->resv = r;
	TAILQ_INSERT_TAIL(&r->ns, ns, resv_link);
	LIST_FOREACH (c, &ns->subsys->target->ctrls, link) {
		if (c->subsys != ns->subsys)
			continue;
		resv_set(c, ns->nsid - 1, ns->resv);
		/* what a host has set was of another namespace */
		c->resv->mask[ns->nsid - 1] = 0;
	}
}

int
nvmf_resv_ctrl(struct nvmf_ctrl *c)
{
	c->resv = calloc(1, sizeof(*c->resv));
	if (c->resv == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < c->subsys->max_nsid; i++) {
		const struct nvmf_ns *ns =
		        atomic_load_explicit(&c->subsys->ns[i], memory_order_acquire);

		if (ns != NULL && ns->present)
			resv_set(c, i, ns->resv);
	}
	return 0;
}

/* ---- Notices ---- */

static void
resv_notice(struct nvmf_ctrl *c, uint32_t nsid, uint8_t notice)
{
	struct nvmf_ctrl_resv *cr = c->resv;

	if ((cr->mask[nsid - 1] & 1U << notice) != 0)
		return;
	if (cr->notices == NVMF_NOTICES) {
		memmove(&cr->notice[0], &cr->notice[1], (NVMF_NOTICES - 1) * sizeof(cr->notice[0]));
		cr->notices--;
		c->target->stats.notices_lost++;
	}
	/* it wraps to 1: 0 is no notice */
	cr->count = cr->count == UINT64_MAX ? 1 : cr->count + 1;
	cr->notice[cr->notices].count = cr->count;
	cr->notice[cr->notices].nsid = nsid;
	cr->notice[cr->notices++].notice = notice;
	atomic_store_explicit(&cr->ready, true, memory_order_release);
	if (c->admin != NULL)
		nvmf_wake(c->group);
}

static uint8_t
resv_told(const struct nvmf_resv_told *told, const uint8_t *hostid)
{
	for (uint32_t i = 0; i < told->n; i++)
		if (memcmp(told->at[i].hostid, hostid, sizeof(told->at[i].hostid)) == 0)
			return told->at[i].notice;
	return NVMF_NOTICE_NONE;
}

/** A controller sees the change, and its host is told of it. */
static void
resv_show_ctrl(struct nvmf_ctrl *c, const struct nvmf_resv *r)
{
	const uint8_t notice = c->resv == NULL ? 0 : resv_told(&r->told, c->hostid);
	const struct nvmf_ns *ns;

	TAILQ_FOREACH (ns, &r->ns, resv_link) {
		if (ns->subsys != c->subsys)
			continue;
		resv_set(c, ns->nsid - 1, r);
		if (notice != NVMF_NOTICE_NONE)
			resv_notice(c, ns->nsid, notice);
	}
}

void
nvmf_resv_ctrl_gone(struct nvmf_ctrl *c)
{
	struct nvmf_resv *r;

	LIST_FOREACH (r, &c->target->resvs, link)
		if (r->show == c)
			r->show = LIST_NEXT(c, link);
}

/* ---- A change ---- */

void
nvmf_resv_wake(struct weft_nvmf *t)
{
	for (uint32_t i = 0; i < WEFT_NVMF_MAX_GROUPS; i++) {
		if (t->groups[i] == NULL)
			continue;
		atomic_store_explicit(&t->groups[i]->resv.work, true, memory_order_release);
		nvmf_wake(t->groups[i]);
	}
}

bool
nvmf_resv_turn(struct nvmf_slot *s)
{
	struct nvmf_resv *r = s->ns->resv;
	const struct nvmf_slot *first = TAILQ_FIRST(&r->waits);

	if (r->slot != NULL || (first != NULL && first != s)) {
		if (s->resv_step != NVMF_STEP_WAITS)
			TAILQ_INSERT_TAIL(&r->waits, s, resv_link);
		s->resv_step = NVMF_STEP_WAITS;
		return false;
	}
	if (first == s)
		TAILQ_REMOVE(&r->waits, s, resv_link);
	s->resv_step = NVMF_STEP_NONE;
	return true;
}

void
nvmf_resv_next(struct weft_nvmf *t, struct nvmf_resv *r)
{
	r->slot = NULL;
	if (!TAILQ_EMPTY(&r->waits))
		nvmf_resv_wake(t);
}

void
nvmf_resv_leave(struct nvmf_slot *s)
{
	struct weft_nvmf *t = s->queue->group->target;
	struct nvmf_resv *r = s->ns->resv;

	nvmf_lock(t);
	TAILQ_REMOVE(&r->waits, s, resv_link);
	s->resv_step = NVMF_STEP_NONE;
	if (r->slot == NULL)
		nvmf_resv_next(t, r);
	nvmf_unlock(t);
}

void
nvmf_resv_show(struct weft_nvmf *t, struct nvmf_resv *r)
{
	for (uint32_t i = 0; i < NVMF_RESV_SHOW && r->show != NULL; i++) {
		resv_show_ctrl(r->show, r);
		r->show = LIST_NEXT(r->show, link);
	}
	if (r->show != NULL)
		return;
	r->showing = false;
	for (uint32_t i = 0; r->fence && r->told.n > 0 && i < WEFT_NVMF_MAX_GROUPS; i++)
		if (t->groups[i] != NULL)
			r->fences |= 1ULL << i;
	if (r->fences != 0)
		nvmf_resv_wake(t);
}

/** Controllers that come from now on see it as they come. */
static void
resv_commit(struct weft_nvmf *t, struct nvmf_resv *r)
{
	r->now = r->next;
	r->showing = true;
	r->show = LIST_FIRST(&t->ctrls);
	nvmf_resv_show(t, r);
	if (r->showing)
		nvmf_resv_wake(t);
}

static enum weft_nvmf_others
resv_others(const struct nvmf_resv_state *s)
{
	return (enum weft_nvmf_others)nvmf_resv_may(s, NULL);
}

int
weft_nvmf_resv_others(const void *data, size_t bytes, const uint8_t uuid[16],
                      enum weft_nvmf_others *others)
{
	struct nvmf_resv_state s;
	const int rc = nvmf_resv_load(data, bytes, uuid, &s);

	if (rc == 0)
		*others = resv_others(&s);
	return rc;
}

void
nvmf_resv_begin(struct weft_nvmf *t, struct nvmf_resv *r)
{
	const struct weft_nvmf_resv_ops *ops = &t->attr.resv;
	const bool keep = ops->persists && (r->now.persist || r->next.persist);
	const struct nvmf_resv_state none = {.generation = r->next.generation};

	r->status = WEFT_NVMF_OK;
	r->fences = 0;
	if (ops->change == NULL || (!keep && resv_others(&r->now) == resv_others(&r->next))) {
		resv_commit(t, r);
		return;
	}
	r->change.others = resv_others(&r->next);
	r->change.keep = keep;
	r->change.data = r->saved;
	r->change.bytes = 0;
	if (keep)
		r->change.bytes =
		        nvmf_resv_save(r->next.persist ? &r->next : &none, r->uuid, r->saved);
	r->change.owner = r->slot->ns->attr.owner;
	r->keeping = true;
	ops->change(ops->owner, &r->change);
}

static struct nvmf_resv *
resv_find(struct weft_nvmf *t, const uint8_t uuid[16])
{
	struct nvmf_resv *r;

	LIST_FOREACH (r, &t->resvs, link)
		if (memcmp(r->uuid, uuid, sizeof(r->uuid)) == 0)
			return r;
	return NULL;
}

void
weft_nvmf_resv_changed(struct weft_nvmf *t, const uint8_t uuid[16], int status)
{
	struct nvmf_resv *r;

	nvmf_lock(t);
	r = resv_find(t, uuid);
	if (r != NULL && r->keeping) {
		r->keeping = false;
		if (status == 0) {
			resv_commit(t, r);
		} else {
			r->status = WEFT_NVMF_INTERNAL;
			t->stats.resv_failed++;
		}
		nvmf_resv_wake(t);
	}
	nvmf_unlock(t);
}

bool
nvmf_resv_is_over(const struct nvmf_resv *r)
{
	return !r->keeping && !r->showing && r->fences == 0;
}

void
nvmf_resv_fenced(struct weft_nvmf *t, struct nvmf_resv *r, uint32_t group)
{
	if ((r->fences & 1ULL << group) == 0)
		return;
	r->fences &= ~(1ULL << group);
	if (r->fences == 0)
		nvmf_resv_wake(t);
}

void
nvmf_resv_group_gone(struct weft_nvmf *t, uint32_t group)
{
	struct nvmf_resv *r;

	LIST_FOREACH (r, &t->resvs, link)
		nvmf_resv_fenced(t, r, group);
}

/* ---- Its life ---- */

int
nvmf_resv_get(struct weft_nvmf *t, const struct weft_nvmf_ns_attr *attr, const uint8_t uuid[16],
              struct nvmf_resv **out)
{
	struct nvmf_resv *r = resv_find(t, uuid);
	int rc = 0;

	if (r == NULL) {
		r = calloc(1, sizeof(*r));
		if (r == NULL)
			return -ENOMEM;
		if (attr->resv != NULL)
			rc = nvmf_resv_load(attr->resv, attr->resv_bytes, uuid, &r->now);
		if (rc != 0) {
			free(r);
			return rc;
		}
		TAILQ_INIT(&r->waits);
		TAILQ_INIT(&r->ns);
		memcpy(r->uuid, uuid, sizeof(r->uuid));
		memcpy(r->change.uuid, uuid, sizeof(r->uuid));
		LIST_INSERT_HEAD(&t->resvs, r, link);
	}
	*out = r;
	return 0;
}

void
nvmf_resv_leave_ns(struct nvmf_ns *ns)
{
	struct nvmf_resv *r = ns->resv;

	ns->resv = NULL;
	TAILQ_REMOVE(&r->ns, ns, resv_link);
	if (!TAILQ_EMPTY(&r->ns) || r->now.hosts > 0 || r->now.persist)
		return;
	LIST_REMOVE(r, link);
	free(r);
}

int
weft_nvmf_resv_forget(struct weft_nvmf *t, const uint8_t uuid[16])
{
	struct nvmf_resv *r;
	int rc = 0;

	nvmf_lock(t);
	r = resv_find(t, uuid);
	if (r != NULL && !TAILQ_EMPTY(&r->ns)) {
		rc = -EBUSY;
	} else if (r != NULL) {
		LIST_REMOVE(r, link);
		free(r);
	}
	nvmf_unlock(t);
	return rc;
}

void
nvmf_resv_end(struct weft_nvmf *t)
{
	struct nvmf_resv *r;

	while ((r = LIST_FIRST(&t->resvs)) != NULL) {
		LIST_REMOVE(r, link);
		free(r);
	}
}
