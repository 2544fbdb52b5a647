/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Namespaces: what they are, and each group's way to them.
 *
 * A command counts itself in `under_way` of its group, and then looks whether the namespace is
 * active. A remover makes it inactive, and then looks at the counts. So one of the two sees the
 * other. The object stays for the next namespace of its number, so a pointer to it is always valid.
 */

#include <stdlib.h>

#include "nvmf_cmd.h"

struct nvmf_ns *
nvmf_ns_active(const struct weft_nvmf_subsys *s, uint32_t nsid)
{
	struct nvmf_ns *ns;

	if (nsid == 0 || nsid > s->max_nsid)
		return NULL;
	ns = atomic_load_explicit(&s->ns[nsid - 1], memory_order_acquire);
	return ns != NULL && atomic_load_explicit(&ns->active, memory_order_seq_cst) ? ns : NULL;
}

uint16_t
nvmf_ns_hold(struct nvmf_slot *s)
{
	return nvmf_ns_hold_at(s, s->sqe.nsid);
}

uint16_t
nvmf_ns_hold_at(struct nvmf_slot *s, uint32_t nsid)
{
	const struct weft_nvmf_subsys *sub = s->queue->ctrl->subsys;
	const uint32_t g = s->queue->group->index;
	struct nvmf_ns *ns = nvmf_ns_active(sub, nsid);

	if (nsid == 0 || nsid > sub->max_nsid)
		return NVMF_NEVER(WEFT_NVMF_INVALID_NS);
	/* A host that has the namespace by another path, or from before a restart, has not looked
	 * yet what there is: its command is right, on the other path. */
	if (ns == NULL)
		return sub->ana.on ? WEFT_NVMF_ANA_NO_ACCESS : NVMF_NEVER(WEFT_NVMF_INVALID_FIELD);
	atomic_fetch_add_explicit(&ns->at[g].under_way, 1, memory_order_seq_cst);
	if (!atomic_load_explicit(&ns->active, memory_order_seq_cst) || ns->at[g].chan == NULL ||
	    ns->at[g].leaving) {
		atomic_fetch_sub_explicit(&ns->at[g].under_way, 1, memory_order_seq_cst);
		return nvmf_ana_away(ns);
	}
	s->ns = ns;
	if (atomic_load_explicit(&ns->ana.state, memory_order_seq_cst) ==
	    WEFT_NVMF_ANA_INACCESSIBLE)
		return WEFT_NVMF_ANA_NO_ACCESS;
	if (!nvmf_resv_lets(s)) {
		nvmf_count(&s->queue->group->resv.conflicts, 1);
		return NVMF_NEVER(WEFT_NVMF_CONFLICT);
	}
	return WEFT_NVMF_OK;
}

/** The host of each controller of the subsystem is told. With the lock. */
static void
ns_tell(struct weft_nvmf_subsys *s, uint32_t nsid)
{
	struct nvmf_ctrl *c;

	LIST_FOREACH (c, &s->target->ctrls, link) {
		if (c->subsys != s)
			continue;
		c->changed[nsid / 8] |= (uint8_t)(1U << nsid % 8);
		atomic_store_explicit(&c->ns_changed, true, memory_order_release);
		if (c->admin != NULL)
			nvmf_wake(c->group);
	}
}

/** The length of a logical block, or a negative errno. */
static int
ns_lba_bytes(const struct weft_nvmf_ns_attr *attr, const struct weft_vol_info *info)
{
	uint32_t lba = attr->lba_bytes;

	if (lba == 0)
		lba = info->atomic_bytes >= 4096 && info->bytes >= 4096 ? 4096 : 512;
	if ((lba != 512 && lba != 4096) || info->bytes < lba)
		return -EINVAL;
	/* AWUPF: no power failure shows a part of a logical block */
	if (attr->persistent && info->atomic_bytes < lba)
		return -EOPNOTSUPP;
	return (int)lba;
}

/** Whether a group has a way to it, or a command holds it. With the lock. */
static bool
ns_is_used(const struct nvmf_ns *ns)
{
	for (uint32_t g = 0; g < WEFT_NVMF_MAX_GROUPS; g++)
		if (atomic_load_explicit(&ns->at[g].under_way, memory_order_seq_cst) > 0 ||
		    atomic_load_explicit(&ns->at[g].attached, memory_order_seq_cst))
			return true;
	return false;
}

/** NULL: there is none of this number. With the lock. */
static struct nvmf_ns *
ns_present(const struct weft_nvmf_subsys *s, uint32_t nsid)
{
	struct nvmf_ns *ns = nsid > 0 && nsid <= s->max_nsid ? s->ns[nsid - 1] : NULL;

	return ns != NULL && ns->present ? ns : NULL;
}

/** What it is from now on. With the lock; no command holds it. */
static void
ns_set(struct nvmf_ns *ns, const struct weft_nvmf_ns_attr *attr, const struct weft_vol_info *info,
       int lba)
{
	ns->attr = *attr;
	ns->attr.resv = NULL; /* the caller's */
	ns->info = *info;
	ns->lba_shift = lba == 512 ? 9 : 12;
	ns->blocks = info->bytes >> ns->lba_shift;
	ns->vwc = attr->volatile_cache && !attr->write_through;
	atomic_store_explicit(&ns->read_only, attr->read_only || info->read_only,
	                      memory_order_relaxed);
}

int
weft_nvmf_ns_add(struct weft_nvmf_subsys *s, const struct weft_nvmf_ns_attr *attr)
{
	const struct weft_vol_info *info;
	struct nvmf_resv *resv = NULL;
	struct nvmf_ns *ns, *fresh;
	int lba, r;

	if (attr->nsid == 0 || attr->nsid > s->max_nsid || attr->vol == NULL)
		return -EINVAL;
	info = weft_vol_info(attr->vol);
	lba = ns_lba_bytes(attr, info);
	if (lba < 0)
		return lba;
	fresh = calloc(1, sizeof(*fresh));
	if (fresh == NULL)
		return -ENOMEM;
	nvmf_lock(s->target);
	ns = s->ns[attr->nsid - 1];
	if (ns != NULL && ns->present)
		r = -EEXIST;
	else
		r = nvmf_resv_get(s->target, attr, info->super.uuid, &resv);
	if (r == 0) {
		if (ns == NULL) {
			ns = fresh;
			fresh = NULL;
			ns->subsys = s;
			ns->nsid = attr->nsid;
			atomic_store_explicit(&s->ns[attr->nsid - 1], ns, memory_order_release);
		}
		ns_set(ns, attr, info, lba);
		ns->present = true;
		nvmf_resv_enter(resv, ns);
		nvmf_ana_look(ns);
		atomic_store_explicit(&ns->active, true, memory_order_seq_cst);
		ns_tell(s, attr->nsid);
	}
	nvmf_unlock(s->target);
	free(fresh);
	return r;
}

int
weft_nvmf_ns_remove(struct weft_nvmf_subsys *s, uint32_t nsid)
{
	struct nvmf_ns *ns;
	bool busy;

	nvmf_lock(s->target);
	ns = ns_present(s, nsid);
	if (ns == NULL) {
		nvmf_unlock(s->target);
		return -ENOENT;
	}
	if (atomic_exchange_explicit(&ns->active, false, memory_order_seq_cst))
		ns_tell(s, nsid);
	busy = ns_is_used(ns);
	if (!busy) {
		ns->present = false;
		nvmf_resv_leave_ns(ns);
	}
	nvmf_unlock(s->target);
	return busy ? -EAGAIN : 0;
}

int
weft_nvmf_ns_renew(struct weft_nvmf_subsys *s, const struct weft_nvmf_ns_attr *attr)
{
	const struct weft_vol_info *info = weft_vol_info(attr->vol);
	const int lba = ns_lba_bytes(attr, info);
	struct nvmf_ns *ns;
	int r = 0;

	if (lba < 0)
		return lba;
	nvmf_lock(s->target);
	ns = ns_present(s, attr->nsid);
	if (ns == NULL)
		r = -ENOENT;
	else if (ns_is_used(ns))
		r = -EAGAIN;
	else if (memcmp(ns->info.super.uuid, info->super.uuid, sizeof(info->super.uuid)) != 0 ||
	         1 << ns->lba_shift != lba)
		r = -ESTALE;
	if (r == 0) {
		ns_set(ns, attr, info, lba);
		ns_tell(s, attr->nsid);
	}
	nvmf_unlock(s->target);
	return r;
}

int
weft_nvmf_ns_read_only(struct weft_nvmf_subsys *s, uint32_t nsid, bool read_only)
{
	struct nvmf_ns *ns;
	bool now;

	nvmf_lock(s->target);
	ns = ns_present(s, nsid);
	if (ns != NULL) {
		ns->attr.read_only = read_only;
		now = read_only || ns->info.read_only;
		if (atomic_exchange_explicit(&ns->read_only, now, memory_order_relaxed) != now)
			ns_tell(s, nsid);
	}
	nvmf_unlock(s->target);
	return ns == NULL ? -ENOENT : 0;
}

int
weft_nvmf_ns_query(struct weft_nvmf_subsys *s, uint32_t nsid, struct weft_nvmf_ns_stats *stats)
{
	const struct nvmf_ns *ns;

	memset(stats, 0, sizeof(*stats));
	nvmf_lock(s->target);
	ns = ns_present(s, nsid);
	for (uint32_t g = 0; ns != NULL && g < WEFT_NVMF_MAX_GROUPS; g++) {
		const struct nvmf_at *at = &ns->at[g];

		stats->reads += atomic_load_explicit(&at->reads, memory_order_relaxed);
		stats->writes += atomic_load_explicit(&at->writes, memory_order_relaxed);
		stats->read_bytes += atomic_load_explicit(&at->read_bytes, memory_order_relaxed);
		stats->written_bytes +=
		        atomic_load_explicit(&at->written_bytes, memory_order_relaxed);
		stats->media_errors +=
		        atomic_load_explicit(&at->media_errors, memory_order_relaxed);
		stats->attached += atomic_load_explicit(&at->attached, memory_order_relaxed);
	}
	if (ns != NULL) {
		stats->resv_type = ns->resv->now.type;
		stats->registrants = ns->resv->now.hosts;
		stats->resv_generation = ns->resv->now.generation;
		stats->resv_persist = ns->resv->now.persist;
		stats->ana = atomic_load_explicit(&ns->ana.state, memory_order_relaxed);
		stats->others = (enum weft_nvmf_others)nvmf_resv_may(&ns->resv->now, NULL);
	}
	nvmf_unlock(s->target);
	return ns == NULL ? -ENOENT : 0;
}

/** Attach to a namespace, which cannot be removed meanwhile. With the lock. */
static int
ns_attach(struct weft_nvmf_group *g, struct nvmf_ns *ns, struct weft_vol_chan *chan)
{
	struct nvmf_at *at;

	if (ns == NULL)
		return -ENOENT;
	at = &ns->at[g->index];
	if (at->chan != NULL && (!at->leaving || at->chan != chan))
		return -EEXIST;
	at->leaving = false;
	if (at->chan != NULL)
		return 0;
	memset(&at->memory, 0, sizeof(at->memory));
	/* a medium that is stuck leaves others a quarter */
	at->memory.max_bytes = NVMF_MAX(weft_staging_max_req(g->memory), g->attr.bytes / 4 * 3);
	LIST_INIT(&at->memory.held);
	at->chan = chan;
	at->seen = at->ended;
	at->seen_ns = g->now_ns;
	LIST_INSERT_HEAD(&g->attached, at, link);
	atomic_store_explicit(&at->attached, true, memory_order_seq_cst);
	nvmf_ana_look(ns);
	return 0;
}

int
weft_nvmf_group_attach(struct weft_nvmf_group *g, struct weft_nvmf_subsys *s, uint32_t nsid,
                       struct weft_vol_chan *chan)
{
	int r;

	nvmf_lock(g->target);
	r = ns_attach(g, nvmf_ns_active(s, nsid), chan);
	nvmf_unlock(g->target);
	return r;
}

int
weft_nvmf_group_detach(struct weft_nvmf_group *g, struct weft_nvmf_subsys *s, uint32_t nsid)
{
	struct nvmf_at *at;

	if (nsid == 0 || nsid > s->max_nsid || s->ns[nsid - 1] == NULL ||
	    s->ns[nsid - 1]->at[g->index].chan == NULL)
		return -ENOENT;
	at = &s->ns[nsid - 1]->at[g->index];
	if (!at->leaving) {
		at->leaving = true;
		at->leave_ns = 0;
		g->next_ns = 0; /* the next poll has the time */
	}
	if (atomic_load_explicit(&at->under_way, memory_order_seq_cst) > 0)
		return -EAGAIN;
	at->chan = NULL;
	at->leaving = false;
	LIST_REMOVE(at, link);
	nvmf_lock(g->target);
	atomic_store_explicit(&at->attached, false, memory_order_seq_cst);
	nvmf_ana_look(s->ns[nsid - 1]);
	nvmf_unlock(g->target);
	return 0;
}
