/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The target: its subsystems, who may use them, and where hosts connect to.
 */

#include <ctype.h>
#include <stdlib.h>

#include "nvmf_auth.h"
#include "nvmf_loss.h"

static int
target_defaults(struct weft_nvmf_attr *a)
{
	a->max_ctrls = a->max_ctrls == 0 ? 64 : a->max_ctrls;
	a->max_queues = a->max_queues == 0 ? 1024 : a->max_queues;
	a->max_io_queues = a->max_io_queues == 0 ? 16 : a->max_io_queues;
	a->depth = a->depth == 0 ? 128 : a->depth;
	a->mdts_bytes = a->mdts_bytes == 0 ? 1U << 20 : a->mdts_bytes;
	a->inline_bytes = a->inline_bytes == 0 ? 4096 : a->inline_bytes;
	a->connect_ns = a->connect_ns == 0 ? 10000 * NVMF_NS_PER_MS : a->connect_ns;
	a->leave_ns = a->leave_ns == 0 ? 1000 * NVMF_NS_PER_MS : a->leave_ns;
	a->keep_ns = a->keep_ns == 0 ? 5000 * NVMF_NS_PER_MS : a->keep_ns;
	a->discovery_ns = a->discovery_ns == 0 ? 120000 * NVMF_NS_PER_MS : a->discovery_ns;
	if (a->max_ctrls > 4096 || a->max_io_queues > 64 || a->depth < 16 ||
	    a->depth > WEFT_NVMF_MAX_DEPTH || a->mdts_bytes < WEFT_NVMF_PAGE_BYTES ||
	    a->mdts_bytes > 1U << 20 || (a->mdts_bytes & (a->mdts_bytes - 1)) != 0 ||
	    a->inline_bytes % 16 != 0 || a->inline_bytes > 65536 ||
	    memchr(a->firmware, 0, sizeof(a->firmware)) == NULL)
		return -EINVAL;
	return 0;
}

int
weft_nvmf_create(const struct weft_nvmf_attr *attr, struct weft_nvmf **out)
{
	struct weft_nvmf *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return -ENOMEM;
	t->attr = *attr;
	if (target_defaults(&t->attr) != 0) {
		free(t);
		return -EINVAL;
	}
	pthread_mutex_init(&t->lock, NULL);
	LIST_INIT(&t->subsystems);
	LIST_INIT(&t->ctrls);
	LIST_INIT(&t->resvs);
	t->discovery.target = t;
	t->discovery.ana.cntlid_min = 1;
	t->discovery.ana.cntlid_max = NVMF_CNTLID_MAX;
	t->discovery.discovery = t->discovery.any_host = true;
	strcpy(t->discovery.nqn, WEFT_NVMF_DISCOVERY_NQN);
	strcpy(t->discovery.serial, "weft-discovery");
	strcpy(t->discovery.model, "weft");
	LIST_INIT(&t->discovery.hosts);
	TAILQ_INIT(&t->discovery.losses);
	if (attr->random != NULL && nvmf_auth_jobs_up(t) != 0) {
		(void)weft_nvmf_destroy(t);
		return -ENOMEM;
	}
	*out = t;
	return 0;
}

struct weft_nvmf_subsys *
weft_nvmf_discovery(struct weft_nvmf *t)
{
	return &t->discovery;
}

static void
target_auth_free(struct weft_nvmf_subsys *s)
{
	if (s->auth != NULL)
		explicit_bzero(s->auth, s->nauth * sizeof(s->auth[0]));
	free(s->auth);
}

static void
target_subsys_free(struct weft_nvmf_subsys *s)
{
	struct nvmf_host *h;

	while ((h = LIST_FIRST(&s->hosts)) != NULL) {
		LIST_REMOVE(h, link);
		free(h);
	}
	nvmf_loss_end(s);
	target_auth_free(s);
	for (uint32_t i = 0; i < s->max_nsid; i++)
		free(s->ns[i]);
	free(s->ns);
	free(s);
}

int
weft_nvmf_destroy(struct weft_nvmf *t)
{
	struct weft_nvmf_subsys *s;

	if (t == NULL)
		return 0;
	for (uint32_t i = 0; i < WEFT_NVMF_MAX_GROUPS; i++)
		if (t->groups[i] != NULL)
			return -EBUSY;
	nvmf_auth_jobs_down(t);
	while ((s = LIST_FIRST(&t->subsystems)) != NULL) {
		LIST_REMOVE(s, link);
		target_subsys_free(s);
	}
	target_auth_free(&t->discovery);
	nvmf_resv_end(t);
	pthread_mutex_destroy(&t->lock);
	free(t);
	return 0;
}

/** Add what the namespaces have counted. */
static void
target_add_ns(const struct weft_nvmf_subsys *s, struct weft_nvmf_stats *stats)
{
	for (uint32_t i = 0; i < s->max_nsid; i++) {
		for (uint32_t g = 0; s->ns[i] != NULL && g < WEFT_NVMF_MAX_GROUPS; g++) {
			stats->read_bytes += atomic_load_explicit(&s->ns[i]->at[g].read_bytes,
			                                          memory_order_relaxed);
			stats->written_bytes += atomic_load_explicit(&s->ns[i]->at[g].written_bytes,
			                                             memory_order_relaxed);
		}
	}
}

void
weft_nvmf_query_stats(struct weft_nvmf *t, struct weft_nvmf_stats *stats)
{
	const struct weft_nvmf_subsys *s;

	nvmf_lock(t);
	*stats = t->stats;
	stats->queues = t->queues;
	for (uint32_t i = 0; i < WEFT_NVMF_MAX_GROUPS; i++) {
		const struct weft_nvmf_group *g = t->groups[i];

		if (g == NULL)
			continue;
		stats->commands += atomic_load_explicit(&g->commands, memory_order_relaxed);
		stats->errors += atomic_load_explicit(&g->errors, memory_order_relaxed);
		stats->memory_waits += atomic_load_explicit(&g->memory_waits, memory_order_relaxed);
		stats->memory_room_waits +=
		        atomic_load_explicit(&g->room_waits, memory_order_relaxed);
		stats->protocol_errors +=
		        atomic_load_explicit(&g->protocol_errors, memory_order_relaxed);
		stats->events += atomic_load_explicit(&g->events, memory_order_relaxed);
		stats->conflicts += atomic_load_explicit(&g->resv.conflicts, memory_order_relaxed);
		stats->lost_flushes_told +=
		        atomic_load_explicit(&g->told_lost, memory_order_relaxed);
	}
	LIST_FOREACH (s, &t->subsystems, link)
		target_add_ns(s, stats);
	nvmf_unlock(t);
}

void
nvmf_discovery_changed(struct weft_nvmf *t)
{
	struct nvmf_ctrl *c;

	t->generation++;
	LIST_FOREACH (c, &t->ctrls, link)
		if (c->subsys->discovery && c->admin != NULL) {
			atomic_store_explicit(&c->log_changed, true, memory_order_release);
			nvmf_wake(c->group);
		}
}

/* ---- Listeners ---- */

static struct weft_nvmf_listener *
target_listener(struct weft_nvmf *t, const struct weft_nvmf_listener *l)
{
	for (uint32_t i = 0; i < t->nlisteners; i++)
		if (t->listeners[i].trtype == l->trtype && t->listeners[i].adrfam == l->adrfam &&
		    strcmp(t->listeners[i].traddr, l->traddr) == 0 &&
		    strcmp(t->listeners[i].trsvcid, l->trsvcid) == 0)
			return &t->listeners[i];
	return NULL;
}

int
weft_nvmf_listener_add(struct weft_nvmf *t, const struct weft_nvmf_listener *l)
{
	int r = 0;

	nvmf_lock(t);
	if (target_listener(t, l) != NULL) {
		r = -EEXIST;
	} else if (t->nlisteners == NVMF_MAX_LISTENERS) {
		r = -ENOSPC;
	} else {
		t->listeners[t->nlisteners++] = *l;
		nvmf_discovery_changed(t);
	}
	nvmf_unlock(t);
	return r;
}

int
weft_nvmf_listener_remove(struct weft_nvmf *t, const struct weft_nvmf_listener *l)
{
	struct weft_nvmf_listener *at;

	nvmf_lock(t);
	at = target_listener(t, l);
	if (at != NULL) {
		*at = t->listeners[--t->nlisteners];
		nvmf_discovery_changed(t);
	}
	nvmf_unlock(t);
	return at == NULL ? -ENOENT : 0;
}

/* ---- Subsystems ---- */

struct weft_nvmf_subsys *
nvmf_subsys_find(struct weft_nvmf *t, const char *nqn)
{
	struct weft_nvmf_subsys *s;

	if (strcmp(nqn, WEFT_NVMF_DISCOVERY_NQN) == 0)
		return &t->discovery;
	LIST_FOREACH (s, &t->subsystems, link)
		if (!s->ending && strcmp(s->nqn, nqn) == 0)
			return s;
	return NULL;
}

static bool
target_printable(const char *text, size_t max)
{
	const size_t len = strnlen(text, max + 1);

	for (size_t i = 0; i < len; i++)
		if (!isprint((unsigned char)text[i]))
			return false;
	return len > 0 && len <= max;
}

int
weft_nvmf_subsys_add(struct weft_nvmf *t, const struct weft_nvmf_subsys_attr *attr,
                     struct weft_nvmf_subsys **out)
{
	const char *model = attr->model == NULL ? "weft" : attr->model;
	struct weft_nvmf_subsys *s;
	int r = 0;

	if (!weft_nvmf_nqn_ok(attr->nqn) || attr->serial == NULL ||
	    !target_printable(attr->serial, sizeof(s->serial) - 1) ||
	    !target_printable(model, sizeof(s->model) - 1) || attr->max_nsid > WEFT_NVMF_MAX_NSID ||
	    attr->ana > WEFT_NVMF_ANA_INACCESSIBLE || attr->cntlid_max > NVMF_CNTLID_MAX ||
	    (attr->cntlid_max != 0 && attr->cntlid_min > attr->cntlid_max) ||
	    attr->cntlid_min > NVMF_CNTLID_MAX)
		return -EINVAL;
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return -ENOMEM;
	s->target = t;
	strcpy(s->nqn, attr->nqn);
	strcpy(s->serial, attr->serial);
	strcpy(s->model, model);
	s->any_host = attr->any_host;
	s->max_nsid = attr->max_nsid == 0 ? 32 : attr->max_nsid;
	s->ana.on = attr->ana != WEFT_NVMF_ANA_OFF;
	s->ana.state = (uint8_t)attr->ana;
	s->ana.cntlid_min = attr->cntlid_min == 0 ? 1 : attr->cntlid_min;
	s->ana.cntlid_max = attr->cntlid_max == 0 ? NVMF_CNTLID_MAX : attr->cntlid_max;
	LIST_INIT(&s->hosts);
	TAILQ_INIT(&s->losses);
	s->ns = calloc(s->max_nsid, sizeof(s->ns[0]));
	if (s->ns == NULL) {
		free(s);
		return -ENOMEM;
	}
	nvmf_lock(t);
	if (nvmf_subsys_find(t, s->nqn) != NULL) {
		r = -EEXIST;
	} else {
		LIST_INSERT_HEAD(&t->subsystems, s, link);
		nvmf_discovery_changed(t);
	}
	nvmf_unlock(t);
	if (r != 0) {
		target_subsys_free(s);
		return r;
	}
	*out = s;
	return 0;
}

int
weft_nvmf_subsys_remove(struct weft_nvmf_subsys *s)
{
	struct weft_nvmf *t = s->target;
	struct nvmf_ctrl *c;
	bool busy;

	nvmf_lock(t);
	if (!s->ending) {
		s->ending = true;
		nvmf_discovery_changed(t);
		LIST_FOREACH (c, &t->ctrls, link)
			if (c->subsys == s)
				nvmf_ctrl_end(c);
	}
	busy = s->ctrls > 0;
	for (uint32_t i = 0; i < s->max_nsid; i++)
		busy = busy || (s->ns[i] != NULL && s->ns[i]->present);
	if (!busy)
		LIST_REMOVE(s, link);
	nvmf_unlock(t);
	if (busy)
		return -EAGAIN;
	target_subsys_free(s);
	return 0;
}

/* ---- Hosts ---- */

static struct nvmf_host *
target_host(const struct weft_nvmf_subsys *s, const char *hostnqn)
{
	struct nvmf_host *h;

	LIST_FOREACH (h, &s->hosts, link)
		if (strcmp(h->nqn, hostnqn) == 0)
			return h;
	return NULL;
}

bool
nvmf_host_ok(const struct weft_nvmf_subsys *s, const char *hostnqn)
{
	/* with keys, a host that has none and needs one is refused */
	return (s->any_host || target_host(s, hostnqn) != NULL) &&
	       (s->nauth == 0 || nvmf_auth_find(s, hostnqn) != NULL);
}

int
weft_nvmf_host_allow(struct weft_nvmf_subsys *s, const char *hostnqn)
{
	struct nvmf_host *h;
	int r = 0;

	if (!weft_nvmf_nqn_ok(hostnqn))
		return -EINVAL;
	h = calloc(1, sizeof(*h));
	if (h == NULL)
		return -ENOMEM;
	strcpy(h->nqn, hostnqn);
	nvmf_lock(s->target);
	if (target_host(s, hostnqn) != NULL) {
		r = -EEXIST;
	} else {
		LIST_INSERT_HEAD(&s->hosts, h, link);
		nvmf_discovery_changed(s->target);
	}
	nvmf_unlock(s->target);
	if (r != 0)
		free(h);
	return r;
}

void
weft_nvmf_any_host(struct weft_nvmf_subsys *s, bool any)
{
	struct nvmf_ctrl *c;

	nvmf_lock(s->target);
	if (s->any_host != any) {
		s->any_host = any;
		nvmf_discovery_changed(s->target);
	}
	LIST_FOREACH (c, &s->target->ctrls, link)
		if (c->subsys == s && !nvmf_host_ok(s, c->hostnqn))
			nvmf_ctrl_end(c);
	nvmf_unlock(s->target);
}

void
weft_nvmf_proven_only(struct weft_nvmf_subsys *s, bool only)
{
	struct nvmf_ctrl *c;

	nvmf_lock(s->target);
	if (s->proven_only != only)
		nvmf_discovery_changed(s->target);
	s->proven_only = only;
	LIST_FOREACH (c, &s->target->ctrls, link)
		if (only && c->subsys == s && (c->admin == NULL || c->admin->proven == NULL))
			nvmf_ctrl_end(c);
	nvmf_unlock(s->target);
}

int
weft_nvmf_host_deny(struct weft_nvmf_subsys *s, const char *hostnqn)
{
	struct nvmf_host *h;
	struct nvmf_ctrl *c;

	nvmf_lock(s->target);
	h = target_host(s, hostnqn);
	if (h != NULL) {
		LIST_REMOVE(h, link);
		nvmf_discovery_changed(s->target);
		LIST_FOREACH (c, &s->target->ctrls, link)
			if (c->subsys == s && strcmp(c->hostnqn, hostnqn) == 0)
				nvmf_ctrl_end(c);
	}
	nvmf_unlock(s->target);
	free(h);
	return h == NULL ? -ENOENT : 0;
}
