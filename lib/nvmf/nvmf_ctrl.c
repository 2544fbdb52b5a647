/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The life of a controller. What hosts see of it:
 *
 *     Connect -> OFF <-> READY -> SHUTDOWN -> OFF      (CC.EN, CC.SHN)
 *     any -> DEAD: the admin queue has ended, the host was silent, or is denied
 *
 * A state other than READY ends the I/O queues. They are ended by their own threads: this one sets
 * `doomed`, and wakes the other. RDY is told as 0, and a shutdown as complete, when none is left.
 */

#include <stdlib.h>

#include "nvmf_auth.h"
#include "nvmf_loss.h"

/* CC (NVMe Base 2.0 s3.1.3.5) */
#define CC_CSS_MPS_AMS 0x00003ff0U /**< the NVM command set, pages of 4 KiB, round robin: 0 */
#define CC_ENTRIES     0x00ff0000U
#define CC_ENTRY_SIZES 0x00460000U /**< 64 and 16 octets */

static void
ctrl_doom(struct weft_nvmf_queue *q)
{
	if (q == NULL)
		return;
	atomic_store_explicit(&q->doomed, true, memory_order_release);
	nvmf_wake(q->group);
}

static void
ctrl_doom_io(struct nvmf_ctrl *c)
{
	for (uint32_t i = 0; i < c->target->attr.max_io_queues; i++)
		ctrl_doom(c->ioq[i]);
}

void
nvmf_ctrl_end(struct nvmf_ctrl *c)
{
	atomic_store_explicit(&c->state, NVMF_CTRL_DEAD, memory_order_release);
	ctrl_doom_io(c);
	ctrl_doom(c->admin);
}

/** The last number of a range of another subsystem that n is in; 0: it is in none. Where nothing is
 * configured, the range is of all numbers, and none. */
static uint16_t
ctrl_range_of(const struct weft_nvmf *t, const struct weft_nvmf_subsys *s, uint16_t n)
{
	const struct weft_nvmf_subsys *o;

	LIST_FOREACH (o, &t->subsystems, link)
		if (o != s && n >= o->ana.cntlid_min && n <= o->ana.cntlid_max &&
		    (o->ana.cntlid_min > 1 || o->ana.cntlid_max < NVMF_CNTLID_MAX))
			return o->ana.cntlid_max;
	return 0;
}

/** A number of the subsystem's that no controller of the target has; 0: there is none. `shared`:
 * also one that is in a range of another subsystem. */
static uint16_t
ctrl_number_of(const struct weft_nvmf *t, struct weft_nvmf_subsys *s, bool shared)
{
	const uint32_t all = s->ana.cntlid_max - s->ana.cntlid_min + 1U;
	const struct nvmf_ctrl *c;

	for (uint32_t i = 0; i < all; i++) {
		const uint16_t n = (uint16_t)(s->ana.cntlid_min + s->ana.next_cntlid++ % all);
		const uint16_t last = shared ? 0 : ctrl_range_of(t, s, n);

		if (last != 0) {
			const uint32_t skip = NVMF_MIN(last, s->ana.cntlid_max) - n;

			s->ana.next_cntlid += skip;
			i += skip;
			continue;
		}
		LIST_FOREACH (c, &t->ctrls, link)
			if (c->cntlid == n)
				break;
		if (c == NULL)
			return n;
	}
	return 0;
}

/** Likewise; at best one that no other subsystem with a range needs. */
static uint16_t
ctrl_number(const struct weft_nvmf *t, struct weft_nvmf_subsys *s)
{
	const uint16_t n = ctrl_number_of(t, s, false);

	return n != 0 ? n : ctrl_number_of(t, s, true);
}

static void
ctrl_free(struct nvmf_ctrl *c)
{
	pthread_mutex_destroy(&c->lock);
	free(c->resv);
	free(c->ioq);
	free(c);
}

struct nvmf_ctrl *
nvmf_ctrl_new(struct weft_nvmf_queue *admin, struct weft_nvmf_subsys *s,
              const struct weft_nvmf_connect *data)
{
	struct weft_nvmf *t = admin->group->target;
	struct nvmf_ctrl *c;

	/* every host may use discovery: it leaves room for hosts that may use a disk */
	if (t->stats.ctrls >= t->attr.max_ctrls ||
	    (s->discovery && s->ctrls >= NVMF_MAX(t->attr.max_ctrls / 4, 1U)))
		return NULL;
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return NULL;
	pthread_mutex_init(&c->lock, NULL);
	c->target = t;
	c->subsys = s;
	c->cntlid = ctrl_number(t, s);
	c->ioq = calloc(t->attr.max_io_queues, sizeof(struct weft_nvmf_queue *));
	if (!s->discovery && c->ioq != NULL && c->cntlid != 0)
		c->losses = nvmf_loss_get(s, data->hostnqn, data->hostid);
	strcpy(c->hostnqn, data->hostnqn);
	memcpy(c->hostid, data->hostid, sizeof(c->hostid));
	if (c->ioq == NULL || c->cntlid == 0 ||
	    (!s->discovery && (c->losses == NULL || nvmf_resv_ctrl(c) != 0))) {
		nvmf_loss_put(s, c->losses);
		ctrl_free(c);
		return NULL;
	}
	c->group = admin->group;
	c->due_ns = UINT64_MAX;
	LIST_INSERT_HEAD(&t->ctrls, c, link);
	LIST_INSERT_HEAD(&c->group->ctrls, c, at_link);
	t->stats.ctrls++;
	s->ctrls++;
	return c;
}

void
nvmf_ctrl_join(struct nvmf_ctrl *c, struct weft_nvmf_queue *q, uint16_t qid)
{
	struct nvmf_ctrl_at *at = &c->at[q->group->index];

	q->ctrl = c;
	q->qid = qid;
	if (at->queues++ == 0)
		weft_staging_client_init(&at->client);
	if (qid == 0) {
		c->admin = q;
	} else {
		c->ioq[qid - 1] = q;
		c->io_queues++;
		c->had_io_queue = true;
	}
}

void
nvmf_ctrl_leave(struct weft_nvmf_queue *q)
{
	struct nvmf_ctrl *c = q->ctrl;
	struct weft_nvmf *t = q->group->target;
	bool over;

	if (c == NULL)
		return;
	nvmf_lock(t);
	c->at[q->group->index].queues--;
	if (q->qid == 0) {
		c->admin = NULL;
		LIST_REMOVE(c, at_link);
		nvmf_ctrl_end(c);
	} else {
		c->ioq[q->qid - 1] = NULL;
		c->io_queues--;
		if (c->admin != NULL)
			nvmf_wake(c->group);
	}
	over = c->admin == NULL && c->io_queues == 0;
	if (over) {
		nvmf_resv_ctrl_gone(c);
		LIST_REMOVE(c, link);
		nvmf_loss_put(c->subsys, c->losses);
		t->stats.ctrls--;
		c->subsys->ctrls--;
	}
	nvmf_unlock(t);
	if (over)
		ctrl_free(c);
}

/* ---- CC and CSTS ---- */

/** What a reset forgets. With the lock. */
static void
ctrl_reset(struct nvmf_ctrl *c)
{
	atomic_store_explicit(&c->state, NVMF_CTRL_OFF, memory_order_release);
	atomic_store_explicit(&c->write_through, false, memory_order_release);
	atomic_store_explicit(&c->delays, false, memory_order_relaxed);
	atomic_store_explicit(&c->ns_changed, false, memory_order_release);
	atomic_store_explicit(&c->log_changed, false, memory_order_release);
	memset(c->changed, 0, sizeof(c->changed));
	memset(c->features, 0, sizeof(c->features));
	c->events_on = 0;
	atomic_store_explicit(&c->granted, 0, memory_order_release);
	c->ns_masked = c->log_masked = c->had_io_queue = false;
	atomic_store_explicit(&c->ana.changed, false, memory_order_release);
	c->ana.masked = false;
	if (c->resv != NULL) {
		memset(c->resv->mask, 0, sizeof(c->resv->mask));
		atomic_store_explicit(&c->resv->ready, false, memory_order_release);
		c->resv->notices = 0;
		c->resv->count = 0;
		c->resv->masked = false;
	}
	c->shut = c->shut_asked = false;
	ctrl_doom_io(c);
}

uint16_t
nvmf_ctrl_configure(struct nvmf_ctrl *c, uint32_t cc)
{
	const bool on = (cc & WEFT_NVMF_CC_EN) != 0, was = (c->cc & WEFT_NVMF_CC_EN) != 0;
	uint16_t status = WEFT_NVMF_OK;

	if (on && !was && ((cc & CC_CSS_MPS_AMS) != 0 || (cc & CC_ENTRIES) != CC_ENTRY_SIZES))
		return NVMF_NEVER(WEFT_NVMF_CONNECT_PARAM);
	if (was && !on)
		nvmf_event_drop(c);
	nvmf_lock(c->target);
	if (atomic_load_explicit(&c->state, memory_order_acquire) == NVMF_CTRL_DEAD) {
		status = WEFT_NVMF_SEQUENCE;
	} else if (was && !on) {
		ctrl_reset(c);
	} else if (on && !was) {
		/* CSTS.RDY is still 1 */
		if (c->io_queues > 0 || c->shut_busy) {
			status = WEFT_NVMF_SEQUENCE;
		} else {
			atomic_store_explicit(&c->state, NVMF_CTRL_READY, memory_order_release);
			c->shut = c->shut_asked = c->shut_lost = false;
			nvmf_ctrl_keep_alive(c, c->kato_ms);
		}
	}
	if (status == WEFT_NVMF_OK && (cc & WEFT_NVMF_CC_SHN) != 0 && !c->shut_asked) {
		c->shut_asked = true;
		c->shut_lost = false;
		c->shut_ns = 0;
		nvmf_ctrl_keep_alive(c, c->kato_ms);
		if (atomic_load_explicit(&c->state, memory_order_acquire) == NVMF_CTRL_READY)
			atomic_store_explicit(&c->state, NVMF_CTRL_SHUTDOWN, memory_order_release);
		ctrl_doom_io(c);
	}
	nvmf_unlock(c->target);
	if (status == WEFT_NVMF_OK) {
		c->cc = cc;
		nvmf_ctrl_poll(c->group);
	}
	return status;
}

uint32_t
nvmf_ctrl_csts(struct nvmf_ctrl *c)
{
	uint32_t csts = 0, state;

	nvmf_lock(c->target);
	state = atomic_load_explicit(&c->state, memory_order_acquire);
	if (state == NVMF_CTRL_READY || state == NVMF_CTRL_SHUTDOWN || c->io_queues > 0)
		csts = WEFT_NVMF_CSTS_RDY;
	/* no answer can tell that a shutdown has not made all writes durable */
	if (state == NVMF_CTRL_DEAD || (c->shut_asked && c->shut_lost))
		csts |= WEFT_NVMF_CSTS_CFS;
	if (c->shut_asked)
		csts |= c->shut ? WEFT_NVMF_CSTS_SHST_END : WEFT_NVMF_CSTS_SHST_ON;
	nvmf_unlock(c->target);
	return csts;
}

/* ---- Timers, shutdown ---- */

void
nvmf_ctrl_keep_alive(struct nvmf_ctrl *c, uint32_t kato_ms)
{
	uint64_t ms = ((uint64_t)kato_ms + NVMF_KAS_MS - 1) / NVMF_KAS_MS * NVMF_KAS_MS;

	c->kato_ms = (uint32_t)NVMF_MIN(ms, UINT32_MAX / NVMF_KAS_MS * NVMF_KAS_MS);
	/* after a shutdown the host owes no Keep Alive (NVMe Base 2.0 s3.9), and may be gone */
	if (c->shut_asked || (c->subsys->discovery && c->kato_ms == 0))
		c->due_ns = c->group->now_ns + c->target->attr.discovery_ns;
	else if (c->kato_ms > 0)
		c->due_ns = c->group->now_ns + c->kato_ms * NVMF_NS_PER_MS;
	else
		c->due_ns = UINT64_MAX;
	c->group->next_ns = NVMF_MIN(c->group->next_ns, c->due_ns);
	atomic_store_explicit(&c->traffic, false, memory_order_release);
}

/** The time is over. With traffic since its start it starts again (CTRATT.TBKAS). */
static void
ctrl_due(struct nvmf_ctrl *c)
{
	if (atomic_load_explicit(&c->traffic, memory_order_acquire)) {
		nvmf_ctrl_keep_alive(c, c->kato_ms);
		return;
	}
	c->due_ns = UINT64_MAX;
	nvmf_lock(c->target);
	c->target->stats.kato_expired++;
	nvmf_ctrl_end(c);
	nvmf_unlock(c->target);
}

static void
ctrl_flushed(struct weft_vol_op *op)
{
	struct nvmf_ctrl *c = op->owner;

	if (op->status != 0 ||
	    nvmf_loss_flushed(c->losses, c->shut_at->nsid, c->shut_mark, op->lost_flushes, false))
		c->shut_lost = true;
	/* shut_ns may have begun again: the next shutdown does not wait for this flush */
	c->shut_busy = false;
	atomic_fetch_sub_explicit(&c->shut_at->at[c->group->index].under_way, 1,
	                          memory_order_seq_cst);
	atomic_store_explicit(&c->group->attention, true, memory_order_release);
}

/** Flush the next volume that has unflushed writes of the controller. False: there are no more. */
static bool
ctrl_flush_next(struct nvmf_ctrl *c)
{
	while (c->shut_ns < c->subsys->max_nsid) {
		struct nvmf_ns *ns = nvmf_ns_active(c->subsys, ++c->shut_ns);
		struct nvmf_at *at;
		bool dirty;

		c->shut_mark = nvmf_loss_mark(c->losses, c->shut_ns, &dirty);
		if (!dirty || ns == NULL)
			continue;
		at = &ns->at[c->group->index];
		atomic_fetch_add_explicit(&at->under_way, 1, memory_order_seq_cst);
		c->shut_op.kind = WEFT_VOL_FLUSH;
		c->shut_op.done = ctrl_flushed;
		c->shut_op.owner = c;
		if (atomic_load_explicit(&ns->active, memory_order_seq_cst) && at->chan != NULL &&
		    weft_vol_submit(at->chan, &c->shut_op) == 0) {
			c->shut_busy = true;
			c->shut_at = ns;
			return true;
		}
		atomic_fetch_sub_explicit(&at->under_way, 1, memory_order_seq_cst);
		c->shut_lost = true;
	}
	return false;
}

void
nvmf_ctrl_poll(struct weft_nvmf_group *g)
{
	struct nvmf_ctrl *c;
	bool io;

	LIST_FOREACH (c, &g->ctrls, at_link) {
		if (g->now_ns >= c->due_ns)
			ctrl_due(c);
		g->next_ns = NVMF_MIN(g->next_ns, c->due_ns);
		nvmf_event_send(c);
		if (!c->shut_asked || c->shut || c->shut_busy)
			continue;
		nvmf_lock(c->target);
		io = c->io_queues > 0;
		nvmf_unlock(c->target);
		if (!io && !ctrl_flush_next(c))
			c->shut = true;
	}
}

/* ---- For the target's owner ---- */

static void
ctrl_queue_info(const struct weft_nvmf_queue *q, struct weft_nvmf_ctrl_info *info)
{
	struct weft_nvmf_queue_info *to = &info->queue[info->queues];

	if (q == NULL)
		return;
	to->qid = q->qid;
	to->group = q->group->index;
	to->size = q->size;
	to->commands = atomic_load_explicit(&q->commands, memory_order_relaxed);
	to->errors = atomic_load_explicit(&q->errors, memory_order_relaxed);
	info->queues++;
}

static void
ctrl_info(const struct nvmf_ctrl *c, struct weft_nvmf_ctrl_info *info)
{
	static const char *const states[] = {[NVMF_CTRL_OFF] = "off",
	                                     [NVMF_CTRL_READY] = "ready",
	                                     [NVMF_CTRL_SHUTDOWN] = "shutdown",
	                                     [NVMF_CTRL_DEAD] = "ending"};

	memset(info, 0, sizeof(*info));
	info->cntlid = c->cntlid;
	strcpy(info->hostnqn, c->hostnqn);
	strcpy(info->subnqn, c->subsys->nqn);
	memcpy(info->hostid, c->hostid, sizeof(info->hostid));
	info->transport = c->admin != NULL ? c->admin->attr.ops->name : "";
	info->state = states[atomic_load_explicit(&c->state, memory_order_acquire)];
	info->discovery = c->subsys->discovery;
	info->proves = c->admin != NULL && c->admin->auth != NULL;
	info->tls = c->admin != NULL && c->admin->proven != NULL;
	info->proved = info->proves && !nvmf_auth_lacks(c->admin);
	info->kato_ms = atomic_load_explicit(&c->kato_ms, memory_order_relaxed);
	for (uint32_t g = 0; g < WEFT_NVMF_MAX_GROUPS; g++) {
		const struct nvmf_ctrl_at *at = &c->at[g];

		info->commands += atomic_load_explicit(&at->commands, memory_order_relaxed);
		info->errors += atomic_load_explicit(&at->errors, memory_order_relaxed);
		info->read_bytes += atomic_load_explicit(&at->read_bytes, memory_order_relaxed);
		info->written_bytes +=
		        atomic_load_explicit(&at->written_bytes, memory_order_relaxed);
	}
	ctrl_queue_info(c->admin, info);
	for (uint32_t i = 0; i < c->target->attr.max_io_queues; i++)
		ctrl_queue_info(c->ioq[i], info);
}

void
weft_nvmf_each_ctrl(struct weft_nvmf *t,
                    void (*fn)(void *arg, const struct weft_nvmf_ctrl_info *info), void *arg)
{
	struct weft_nvmf_ctrl_info info;
	const struct nvmf_ctrl *c;

	nvmf_lock(t);
	LIST_FOREACH (c, &t->ctrls, link) {
		ctrl_info(c, &info);
		fn(arg, &info);
	}
	nvmf_unlock(t);
}

uint32_t
weft_nvmf_host_drop(struct weft_nvmf *t, const char *hostnqn, uint16_t cntlid)
{
	struct nvmf_ctrl *c;
	uint32_t n = 0;

	nvmf_lock(t);
	LIST_FOREACH (c, &t->ctrls, link)
		if (cntlid != 0 ? c->cntlid == cntlid : strcmp(c->hostnqn, hostnqn) == 0) {
			nvmf_ctrl_end(c);
			n++;
		}
	nvmf_unlock(t);
	return n;
}
