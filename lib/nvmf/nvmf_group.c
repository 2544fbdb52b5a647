/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A worker's part of the target: its memory, its queues' ends, its timers.
 */

#include <stdlib.h>

#include "nvmf_auth.h"

/** A Compare needs twice its length: the host's data, and the volume's. */
static uint64_t
group_max_req(const struct weft_nvmf *t)
{
	return 2ULL * t->attr.mdts_bytes;
}

static uint32_t
group_piece(const struct weft_nvmf *t)
{
	return (uint32_t)NVMF_MAX(group_max_req(t) / WEFT_STAGING_MAX_PIECES, WEFT_NVMF_PAGE_BYTES);
}

uint64_t
weft_nvmf_group_min_bytes(const struct weft_nvmf *t)
{
	return 2 * group_max_req(t);
}

int
weft_nvmf_group_open(struct weft_nvmf *t, const struct weft_nvmf_group_attr *attr,
                     struct weft_nvmf_group **out)
{
	const uint32_t piece = group_piece(t);
	const struct weft_staging_attr sa = {.memory = attr->memory,
	                                     .bytes = attr->bytes / piece * piece,
	                                     .piece_bytes = piece,
	                                     .max_req_bytes = group_max_req(t),
	                                     .leave_room = true};
	struct weft_nvmf_group *g;
	uint32_t i;
	int r;

	if (attr->memory == NULL || attr->bytes < weft_nvmf_group_min_bytes(t))
		return -EINVAL;
	g = calloc(1, sizeof(*g));
	if (g == NULL)
		return -ENOMEM;
	r = weft_staging_create(&sa, &g->memory);
	if (r != 0) {
		free(g);
		return r;
	}
	g->target = t;
	g->attr = *attr;
	g->next_ns = UINT64_MAX;
	TAILQ_INIT(&g->queues);
	TAILQ_INIT(&g->auth_done);
	LIST_INIT(&g->ctrls);
	LIST_INIT(&g->attached);
	LIST_INIT(&g->shares);
	weft_staging_client_init(&g->connecting);
	nvmf_lock(t);
	for (i = 0; i < WEFT_NVMF_MAX_GROUPS && t->groups[i] != NULL; i++)
		;
	if (i < WEFT_NVMF_MAX_GROUPS) {
		g->index = i;
		t->groups[i] = g;
	}
	nvmf_unlock(t);
	if (i == WEFT_NVMF_MAX_GROUPS) {
		(void)weft_staging_destroy(g->memory);
		free(g);
		return -ENOSPC;
	}
	*out = g;
	return 0;
}

/** The target keeps what a closed group has counted. With the lock. */
static void
group_keep_counts(struct weft_nvmf *t, const struct weft_nvmf_group *g)
{
	t->stats.commands += atomic_load_explicit(&g->commands, memory_order_relaxed);
	t->stats.errors += atomic_load_explicit(&g->errors, memory_order_relaxed);
	t->stats.memory_waits += atomic_load_explicit(&g->memory_waits, memory_order_relaxed);
	t->stats.memory_room_waits += atomic_load_explicit(&g->room_waits, memory_order_relaxed);
	t->stats.protocol_errors += atomic_load_explicit(&g->protocol_errors, memory_order_relaxed);
	t->stats.events += atomic_load_explicit(&g->events, memory_order_relaxed);
	t->stats.conflicts += atomic_load_explicit(&g->resv.conflicts, memory_order_relaxed);
	t->stats.lost_flushes_told += atomic_load_explicit(&g->told_lost, memory_order_relaxed);
}

/** Whether a namespace is attached still. With the lock. */
static bool
group_is_attached(const struct weft_nvmf_group *g)
{
	const struct weft_nvmf_subsys *s;
	const struct nvmf_ns *ns;

	LIST_FOREACH (s, &g->target->subsystems, link)
		for (uint32_t i = 0; i < s->max_nsid; i++) {
			ns = atomic_load_explicit(&s->ns[i], memory_order_acquire);
			if (ns != NULL && ns->at[g->index].chan != NULL)
				return true;
		}
	return false;
}

int
weft_nvmf_group_close(struct weft_nvmf_group *g)
{
	struct weft_nvmf *t;
	bool busy;

	if (g == NULL)
		return 0;
	if (g->nqueues > 0)
		return -EBUSY;
	t = g->target;
	nvmf_lock(t);
	busy = group_is_attached(g);
	if (!busy) {
		t->groups[g->index] = NULL;
		nvmf_resv_group_gone(t, g->index);
		group_keep_counts(t, g);
	}
	nvmf_unlock(t);
	if (busy)
		return -EBUSY;
	(void)weft_staging_destroy(g->memory);
	free(g);
	return 0;
}

void
weft_nvmf_group_stop(struct weft_nvmf_group *g, uint64_t grace_ns)
{
	/* not 0, which is no stop */
	g->stop_ns = NVMF_MAX(g->now_ns, 1U);
	g->stop_ns += NVMF_MIN(grace_ns, UINT64_MAX - g->stop_ns);
	g->next_ns = 0;
}

/** Whether a command of the queue is still to be answered. */
static bool
group_is_working(const struct weft_nvmf_queue *q)
{
	const struct nvmf_slot *s;

	TAILQ_FOREACH (s, &q->busy, link)
		if (s->state != NVMF_SLOT_HELD)
			return true;
	return false;
}

/** The group is stopped: close the queues that have answered all. The I/O queues of a controller,
 * of whatever group, are ended before its admin queue. */
static void
group_stop_poll(struct weft_nvmf_group *g)
{
	const bool late = g->now_ns >= g->stop_ns;
	struct weft_nvmf_queue *q;
	bool io;

	TAILQ_FOREACH (q, &g->queues, link) {
		if (q->closing || (group_is_working(q) && !late))
			continue;
		nvmf_lock(g->target);
		io = q->ctrl != NULL && q->qid == 0 && q->ctrl->io_queues > 0;
		nvmf_unlock(g->target);
		if (io && !late)
			continue;
		atomic_store_explicit(&q->doomed, true, memory_order_release);
		atomic_store_explicit(&g->attention, true, memory_order_release);
	}
	/* what ends elsewhere is looked for in the next poll */
	if (g->nqueues > 0)
		g->next_ns = 0;
}

uint32_t
weft_nvmf_group_queues(const struct weft_nvmf_group *g)
{
	return g->nqueues;
}

void *
weft_nvmf_group_owner(const struct weft_nvmf_group *g)
{
	return g->attr.owner;
}

static void
group_end_queue(struct weft_nvmf_queue *q)
{
	struct weft_nvmf_group *g = q->group;
	struct nvmf_slot *s;

	nvmf_ctrl_leave(q);
	nvmf_lock(g->target);
	g->target->queues--;
	nvmf_unlock(g->target);
	TAILQ_REMOVE(&g->queues, q, link);
	g->nqueues--;
	while ((s = TAILQ_FIRST(&q->idle)) != NULL) {
		TAILQ_REMOVE(&q->idle, s, link);
		free(s);
	}
	nvmf_auth_free(q->auth);
	nvmf_share_put(q->share);
	q->attr.ops->gone(q);
	free(q);
}

/** Close and end what has to be. Returns how many ended. */
static unsigned int
group_look(struct weft_nvmf_group *g)
{
	struct weft_nvmf_queue *q, *next;
	unsigned int n = 0;

	for (q = TAILQ_FIRST(&g->queues); q != NULL; q = next) {
		next = TAILQ_NEXT(q, link);
		if (atomic_load_explicit(&q->doomed, memory_order_acquire) && !q->closing) {
			q->closing = true;
			q->attr.ops->close(q);
		}
		if (!q->lost || !TAILQ_EMPTY(&q->busy) ||
		    (q->ctrl != NULL && q->qid == 0 && q->ctrl->shut_busy))
			continue;
		group_end_queue(q);
		n++;
	}
	return n;
}

/** Queues without Connect, or whose hosts do not prove their names. */
static void
group_timers(struct weft_nvmf_group *g)
{
	const uint64_t wait = g->target->attr.connect_ns;
	struct weft_nvmf_queue *q;

	TAILQ_FOREACH (q, &g->queues, link) {
		if (q->ctrl != NULL)
			nvmf_auth_due(q);
		if (q->ctrl != NULL || atomic_load_explicit(&q->doomed, memory_order_acquire) ||
		    q->closing)
			continue;
		if (g->now_ns - q->since_ns < wait) {
			g->next_ns = NVMF_MIN(g->next_ns, q->since_ns + wait);
			continue;
		}
		nvmf_lock(g->target);
		g->target->stats.connect_expired++;
		nvmf_unlock(g->target);
		atomic_store_explicit(&q->doomed, true, memory_order_release);
		atomic_store_explicit(&g->attention, true, memory_order_release);
	}
}

/** How long a command has been in its state, since a look has seen it there first. */
static uint64_t
group_age(struct nvmf_slot *s)
{
	const uint64_t now_ns = s->queue->group->now_ns;

	if (s->seen != s->state) {
		s->seen = s->state;
		s->seen_ns = now_ns;
	}
	return now_ns - s->seen_ns;
}

/** Whether a command waits for its host. */
static bool
group_is_host(const struct nvmf_slot *s)
{
	return s->state == NVMF_SLOT_PULL || s->state == NVMF_SLOT_ANSWER;
}

static bool
group_is_ending(const struct weft_nvmf_queue *q)
{
	return q->closing || atomic_load_explicit(&q->doomed, memory_order_acquire);
}

static void
group_doom(struct weft_nvmf_queue *q, uint64_t *counter)
{
	nvmf_lock(q->group->target);
	++*counter;
	nvmf_unlock(q->group->target);
	atomic_store_explicit(&q->doomed, true, memory_order_release);
	atomic_store_explicit(&q->group->attention, true, memory_order_release);
}

/** A command of the namespace that has waited for its host since a look of before. What waits just
 * now may be of a host that does all it should. */
static bool
group_host_keeps(const struct weft_nvmf_queue *q, const struct nvmf_at *at)
{
	struct nvmf_slot *s;
	bool keeps = false;

	TAILQ_FOREACH (s, &q->busy, link) {
		if (s->ns == NULL || &s->ns->at[q->group->index] != at)
			continue;
		keeps |= group_age(s) >= NVMF_LOOK_NS && group_is_host(s);
	}
	return keeps;
}

/** End a command that waits for memory, which another host may keep. False: there is none. */
static bool
group_end_waiting(struct weft_nvmf_queue *q, const struct nvmf_at *at)
{
	struct nvmf_slot *s;

	TAILQ_FOREACH (s, &q->busy, link)
		if (s->state == NVMF_SLOT_MEMORY && s->ns != NULL &&
		    &s->ns->at[q->group->index] == at) {
			weft_staging_put(q->group->memory, &s->mem);
			nvmf_complete(s, WEFT_NVMF_NS_NOT_READY);
			return true;
		}
	return false;
}

/**
 * A namespace is to be detached. A host that is alive, and neither gives its data nor takes its
 * answer, would keep it from that, and from all other hosts, for ever.
 */
static void
group_look_leaving(struct weft_nvmf_group *g, struct nvmf_at *at)
{
	struct weft_nvmf_queue *q;
	bool late, keeps;

	if (at->leave_ns == 0)
		at->leave_ns = NVMF_MAX(g->now_ns, 1U);
	late = g->now_ns - at->leave_ns >= g->target->attr.leave_ns;
	TAILQ_FOREACH (q, &g->queues, link) {
		keeps = group_host_keeps(q, at);
		/* These are answered now: their hosts are looked at the next time. */
		while (late && group_end_waiting(q, at))
			;
		if (late && keeps && !group_is_ending(q))
			group_doom(q, &g->target->stats.leave_expired);
	}
}

/** The share of which a queue keeps memory that a starved one may use; NULL: it does not. all: any
 * memory, and not only that of namespaces with the mark. */
static const struct weft_staging_client *
group_keeps_memory(const struct weft_nvmf_queue *q, bool all, uint64_t mark)
{
	const struct weft_staging_client *c = NULL;
	struct nvmf_slot *s;

	TAILQ_FOREACH (s, &q->busy, link) {
		const uint64_t age_ns = group_age(s);

		if (age_ns >= q->group->target->attr.keep_ns && group_is_host(s) &&
		    s->from->iovs > 0 &&
		    (all ||
		     (s->from->lane->group != NULL && s->from->lane->group->starved_mark == mark)))
			c = s->from->client;
	}
	return c;
}

/** Hosts have no memory, and others do not give back what they have. */
static void
group_look_starved(struct weft_nvmf_group *g)
{
	const uint64_t mark = NVMF_MAX(g->now_ns, 1U);
	const bool starved = weft_staging_mark_starved(g->memory, mark);
	const struct weft_staging_client *c, *most = NULL;
	struct weft_staging_stats stats;
	struct weft_nvmf_queue *q;
	bool ending = false, all;

	weft_staging_query(g->memory, &stats);
	if (stats.waiting > 0)
		g->next_ns = NVMF_MIN(g->next_ns, g->now_ns + NVMF_LOOK_NS);
	if (!starved)
		return;
	/* where there is memory, they wait for that of their namespaces */
	all = stats.free_bytes < weft_staging_max_req(g->memory);
	TAILQ_FOREACH (q, &g->queues, link) {
		c = group_keeps_memory(q, all, mark);
		if (c != NULL && (most == NULL || c->held_bytes > most->held_bytes))
			most = c;
		ending = ending || (c != NULL && group_is_ending(q));
	}
	/* what ends gives its memory back first */
	if (most == NULL || ending)
		return;
	TAILQ_FOREACH (q, &g->queues, link)
		if ((q->ctrl == NULL || q->share == NULL || &q->share->client == most) &&
		    group_keeps_memory(q, all, mark) == most)
			group_doom(q, &g->target->stats.memory_expired);
}

/**
 * A device that has ended nothing for a while keeps the memory of its commands. They are no part of
 * their controllers' shares any more, so these have all of their shares for other namespaces.
 * Commands that wait for their host's data are no matter of the device.
 */
static void
group_look_media(struct weft_nvmf_group *g)
{
	struct weft_staging_req *req;
	struct nvmf_at *at;

	LIST_FOREACH (at, &g->attached, link) {
		if (atomic_load_explicit(&at->under_way, memory_order_relaxed) == 0 ||
		    at->ended != at->seen) {
			at->seen = at->ended;
			at->seen_ns = g->now_ns;
		} else if (g->now_ns - at->seen_ns >= NVMF_STALL_NS) {
			LIST_FOREACH (req, &at->memory.held, group_link)
				if (((const struct nvmf_slot *)req->owner)->on_volume)
					weft_staging_set_apart(g->memory, req);
		}
		if (at->leaving)
			group_look_leaving(g, at);
		if (atomic_load_explicit(&at->under_way, memory_order_relaxed) > 0)
			g->next_ns = NVMF_MIN(g->next_ns, g->now_ns + NVMF_LOOK_NS);
	}
}

unsigned int
weft_nvmf_group_poll(struct weft_nvmf_group *g, uint64_t now_ns)
{
	unsigned int n;

	g->now_ns = now_ns;
	g->given = false;
	n = weft_staging_poll(g->memory);
	atomic_store_explicit(&g->room_waits, weft_staging_room_waits(g->memory),
	                      memory_order_relaxed);
	if (now_ns >= g->next_ns) {
		g->next_ns = UINT64_MAX;
		group_timers(g);
		group_look_media(g);
		group_look_starved(g);
		nvmf_ctrl_poll(g);
		if (g->stop_ns != 0)
			group_stop_poll(g);
	}
	if (atomic_load_explicit(&g->attention, memory_order_relaxed) &&
	    atomic_exchange_explicit(&g->attention, false, memory_order_acq_rel)) {
		nvmf_auth_poll(g);
		n += group_look(g);
		nvmf_ctrl_poll(g);
		nvmf_resv_poll(g);
	} else if (g->resv.fencing) {
		nvmf_resv_poll(g);
	}
	return n;
}

uint64_t
weft_nvmf_group_next_ns(const struct weft_nvmf_group *g)
{
	return g->given || atomic_load_explicit(&g->attention, memory_order_acquire) ? 0
	                                                                             : g->next_ns;
}
