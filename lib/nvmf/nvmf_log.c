/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Get Log Page (NVMe Base 2.0 s5.16). A host may ask for any part of a page. What is behind
 * the end of a page reads as zeros; an offset behind its end is refused.
 */

#include "nvmf_cmd.h"

#define LOG_RAE   (1U << 15) /**< CDW10: keep the event masked */
#define LOG_OT    (1U << 23) /**< CDW14: the offset is an index */
#define LOG_SMALL 512U       /**< SMART, firmware */
#define LOG_RESV  64U        /**< reservation notification */
#define LOG_RGO   (1U << 8)  /**< CDW10, asymmetric access: groups without their NSIDs */

/* asymmetric namespace access */
#define ANA_HEAD  16U
#define ANA_GROUP 32U

/* entries of the discovery log (NVMe over Fabrics 1.1 s5.3) */
#define DISC_BYTES   1024U
#define DISC_TRTYPE  0
#define DISC_ADRFAM  1
#define DISC_SUBTYPE 2
#define DISC_TREQ    3
#define DISC_PORTID  4
#define DISC_CNTLID  6
#define DISC_ASQSZ   8
#define DISC_TRSVCID 32
#define DISC_SUBNQN  256
#define DISC_TRADDR  512
#define DISC_TSAS    768

static uint64_t
log_offset(const struct nvmf_slot *s)
{
	return s->sqe.cdw[12] | (uint64_t)s->sqe.cdw[13] << 32;
}

/** Subsystems that the controller's host may use. With the lock. */
/** Whether the host may use the subsystem by this listener. */
static bool
log_shows(const struct nvmf_slot *s, const struct weft_nvmf_subsys *sub,
          const struct weft_nvmf_listener *l)
{
	return !sub->ending && nvmf_host_ok(sub, s->queue->ctrl->hostnqn) &&
	       (!sub->proven_only || l->tls != WEFT_NVMF_LISTENER_PLAIN);
}

static uint64_t
log_discovery_records(const struct nvmf_slot *s)
{
	struct weft_nvmf *t = s->queue->group->target;
	const struct weft_nvmf_subsys *sub;
	uint64_t n = t->nlisteners; /* the discovery subsystem */

	for (uint32_t i = 0; i < t->nlisteners; i++)
		LIST_FOREACH (sub, &t->subsystems, link)
			n += log_shows(s, sub, &t->listeners[i]);
	return n;
}

/** Whether NSID i + 1 is a group of asymmetric access. With the lock. */
static const struct nvmf_ns *
log_group(const struct weft_nvmf_subsys *sub, uint32_t i)
{
	const struct nvmf_ns *ns = atomic_load_explicit(&sub->ns[i], memory_order_acquire);

	return ns != NULL && atomic_load_explicit(&ns->active, memory_order_seq_cst) ? ns : NULL;
}

static uint64_t
log_ana_bytes(const struct nvmf_slot *s)
{
	const struct weft_nvmf_subsys *sub = s->queue->ctrl->subsys;
	uint64_t n = 0;

	if (!sub->ana.on)
		return 0;
	nvmf_lock(sub->target);
	for (uint32_t i = 0; i < sub->max_nsid; i++)
		n += log_group(sub, i) != NULL;
	nvmf_unlock(sub->target);
	return ANA_HEAD + n * (ANA_GROUP + ((s->sqe.cdw[10] & LOG_RGO) != 0 ? 0 : 4));
}

/** Length of a page; 0: the controller has no such page. */
static uint64_t
log_bytes(const struct nvmf_slot *s, uint8_t lid)
{
	struct weft_nvmf *t = s->queue->group->target;
	uint64_t n;

	if (s->queue->ctrl->subsys->discovery) {
		if (lid != WEFT_NVMF_LOG_DISCOVERY)
			return 0;
		nvmf_lock(t);
		n = log_discovery_records(s);
		nvmf_unlock(t);
		return (n + 1) * DISC_BYTES;
	}
	switch (lid) {
	case WEFT_NVMF_LOG_ERROR:
		return (uint64_t)NVMF_ERRORS * 64;
	case WEFT_NVMF_LOG_SMART:
	case WEFT_NVMF_LOG_FIRMWARE:
		return LOG_SMALL;
	case WEFT_NVMF_LOG_CHANGED_NS:
	case WEFT_NVMF_LOG_EFFECTS:
		return 4096;
	case WEFT_NVMF_LOG_RESV:
		return LOG_RESV;
	case WEFT_NVMF_LOG_ANA:
		return log_ana_bytes(s);
	default:
		return 0;
	}
}

uint16_t
nvmf_get_log_start(struct nvmf_slot *s)
{
	const uint8_t lid = (uint8_t)s->sqe.cdw[10];
	const uint64_t dwords =
	        ((uint64_t)(s->sqe.cdw[11] & 0xffff) << 16 | s->sqe.cdw[10] >> 16) + 1;
	const uint64_t bytes = log_bytes(s, lid);

	if (bytes == 0)
		return NVMF_NEVER(WEFT_NVMF_INVALID_LOG);
	if (log_offset(s) % 4 != 0 || log_offset(s) > bytes || (s->sqe.cdw[14] & LOG_OT) != 0 ||
	    dwords * 4 > s->queue->group->target->attr.mdts_bytes)
		return NVMF_NEVER(WEFT_NVMF_INVALID_FIELD);
	if (lid == WEFT_NVMF_LOG_SMART && s->sqe.nsid != 0 && s->sqe.nsid != WEFT_NVMF_NSID_ALL)
		return NVMF_NEVER(WEFT_NVMF_INVALID_FIELD);
	s->need_bytes = (uint32_t)(dwords * 4);
	return WEFT_NVMF_OK;
}

/** Octets of the page from `at` on: those that the host asks for are copied. */
static void
log_put(struct nvmf_slot *s, uint64_t at, const void *data, uint64_t bytes)
{
	const uint64_t from = log_offset(s), end = from + s->need_bytes;
	const uint64_t first = NVMF_MAX(at, from), last = NVMF_MIN(at + bytes, end);

	if (first < last)
		nvmf_put(s, first - from, (const uint8_t *)data + (first - at), last - first);
}

static void
log_error(struct nvmf_slot *s)
{
	struct nvmf_ctrl *c = s->queue->ctrl;
	struct nvmf_error error[NVMF_ERRORS];
	uint64_t n;

	pthread_mutex_lock(&c->lock);
	memcpy(error, c->error, sizeof(error));
	n = c->errors;
	pthread_mutex_unlock(&c->lock);
	/* the newest first */
	for (uint32_t i = 0; i < NVMF_MIN(n, NVMF_ERRORS); i++) {
		const struct nvmf_error *e = &error[(n - 1 - i) % NVMF_ERRORS];
		uint8_t p[64] = {0};

		weft_nvmf_put64(p, e->count);
		weft_nvmf_put16(p + 8, e->sqid);
		weft_nvmf_put16(p + 10, e->cid);
		weft_nvmf_put16(p + 12, (uint16_t)(e->status << 1));
		weft_nvmf_put16(p + 14, 0xffff); /* the field that is wrong: not told */
		weft_nvmf_put64(p + 16, e->lba);
		weft_nvmf_put32(p + 24, e->nsid);
		log_put(s, i * sizeof(p), p, sizeof(p));
	}
}

/** SMART: what the subsystem's namespaces have done since the target has them. */
static void
log_smart(struct nvmf_slot *s)
{
	const struct weft_nvmf_subsys *sub = s->queue->ctrl->subsys;
	uint64_t reads = 0, writes = 0, in = 0, out = 0, media = 0;
	uint8_t p[LOG_SMALL] = {0};

	for (uint32_t i = 0; i < sub->max_nsid; i++) {
		struct nvmf_ns *ns = atomic_load_explicit(&sub->ns[i], memory_order_acquire);

		for (uint32_t g = 0; ns != NULL && g < WEFT_NVMF_MAX_GROUPS; g++) {
			reads += atomic_load_explicit(&ns->at[g].reads, memory_order_relaxed);
			writes += atomic_load_explicit(&ns->at[g].writes, memory_order_relaxed);
			out += atomic_load_explicit(&ns->at[g].read_bytes, memory_order_relaxed);
			in += atomic_load_explicit(&ns->at[g].written_bytes, memory_order_relaxed);
			media +=
			        atomic_load_explicit(&ns->at[g].media_errors, memory_order_relaxed);
		}
	}
	p[3] = 100; /* spare capacity, percent */
	/* units of 1000 times 512 octets, rounded up */
	weft_nvmf_put64(p + 32, (out + 511999) / 512000);
	weft_nvmf_put64(p + 48, (in + 511999) / 512000);
	weft_nvmf_put64(p + 64, reads);
	weft_nvmf_put64(p + 80, writes);
	weft_nvmf_put64(p + 160, media);
	pthread_mutex_lock(&s->queue->ctrl->lock);
	weft_nvmf_put64(p + 176, s->queue->ctrl->errors);
	pthread_mutex_unlock(&s->queue->ctrl->lock);
	log_put(s, 0, p, sizeof(p));
}

static void
log_firmware(struct nvmf_slot *s)
{
	uint8_t p[LOG_SMALL] = {1};
	const char *fr = s->queue->group->target->attr.firmware;

	memset(p + 8, ' ', 8);
	memcpy(p + 8, fr, strlen(fr));
	log_put(s, 0, p, sizeof(p));
}

static void
log_changed(struct nvmf_slot *s)
{
	struct nvmf_ctrl *c = s->queue->ctrl;
	const bool keep = (s->sqe.cdw[10] & LOG_RAE) != 0;
	uint8_t p[4096] = {0};
	uint32_t n = 0;

	nvmf_lock(c->target);
	for (uint32_t i = 1; i <= c->subsys->max_nsid && n < 1024; i++)
		if ((c->changed[i / 8] & 1U << i % 8) != 0)
			weft_nvmf_put32(p + 4 * n++, i);
	if (!keep) {
		memset(c->changed, 0, sizeof(c->changed));
		atomic_store_explicit(&c->ns_changed, false, memory_order_release);
	}
	nvmf_unlock(c->target);
	if (!keep)
		c->ns_masked = false;
	log_put(s, 0, p, sizeof(p));
}

/** The oldest notice of a reservation, which goes by that, unless the event is to stay masked. */
static void
log_resv(struct nvmf_slot *s)
{
	struct nvmf_ctrl *c = s->queue->ctrl;
	struct nvmf_ctrl_resv *cr = c->resv;
	const bool keep = (s->sqe.cdw[10] & LOG_RAE) != 0;
	uint8_t p[LOG_RESV] = {0};

	nvmf_lock(c->target);
	if (cr->notices > 0) {
		weft_nvmf_put64(p, cr->notice[0].count);
		p[8] = cr->notice[0].notice;
		p[9] = (uint8_t)(cr->notices - 1);
		weft_nvmf_put32(p + 12, cr->notice[0].nsid);
	}
	if (!keep && cr->notices > 0)
		memmove(&cr->notice[0], &cr->notice[1], --cr->notices * sizeof(cr->notice[0]));
	if (!keep)
		atomic_store_explicit(&cr->ready, cr->notices > 0, memory_order_release);
	nvmf_unlock(c->target);
	if (!keep)
		cr->masked = false;
	log_put(s, 0, p, sizeof(p));
}

/** Asymmetric access: each namespace is a group. */
static void
log_ana(struct nvmf_slot *s)
{
	struct nvmf_ctrl *c = s->queue->ctrl;
	const struct weft_nvmf_subsys *sub = c->subsys;
	const bool rgo = (s->sqe.cdw[10] & LOG_RGO) != 0;
	uint8_t head[ANA_HEAD] = {0}, p[ANA_GROUP + 4];
	uint64_t at = ANA_HEAD;
	uint16_t groups = 0;

	nvmf_lock(c->target);
	for (uint32_t i = 0; i < sub->max_nsid; i++) {
		const struct nvmf_ns *ns = log_group(sub, i);

		if (ns == NULL)
			continue;
		memset(p, 0, sizeof(p));
		weft_nvmf_put32(p, i + 1);
		weft_nvmf_put32(p + 4, rgo ? 0 : 1);
		weft_nvmf_put64(p + 8, ns->ana.count);
		p[16] = atomic_load_explicit(&ns->ana.state, memory_order_relaxed);
		weft_nvmf_put32(p + ANA_GROUP, i + 1);
		log_put(s, at, p, rgo ? ANA_GROUP : sizeof(p));
		at += rgo ? ANA_GROUP : sizeof(p);
		groups++;
	}
	weft_nvmf_put64(head, sub->ana.count);
	weft_nvmf_put16(head + 8, groups);
	log_put(s, 0, head, sizeof(head));
	if ((s->sqe.cdw[10] & LOG_RAE) == 0)
		atomic_store_explicit(&c->ana.changed, false, memory_order_release);
	nvmf_unlock(c->target);
	if ((s->sqe.cdw[10] & LOG_RAE) == 0)
		c->ana.masked = false;
}

static void
log_discovery_entry(uint8_t *p, const struct weft_nvmf_listener *l,
                    const struct weft_nvmf_subsys *sub)
{
	memset(p, 0, DISC_BYTES);
	p[DISC_TRTYPE] = l->trtype;
	p[DISC_ADRFAM] = l->adrfam;
	p[DISC_SUBTYPE] = sub->discovery ? 3 : 2;
	/* a secure channel is required; is not */
	p[DISC_TREQ] = l->tls == WEFT_NVMF_LISTENER_TLS_ONLY ? 1 : 2;
	weft_nvmf_put16(p + DISC_PORTID, l->portid);
	weft_nvmf_put16(p + DISC_CNTLID, 0xffff);
	weft_nvmf_put16(p + DISC_ASQSZ, NVMF_ADMIN_DEPTH);
	memcpy(p + DISC_TRSVCID, l->trsvcid, strnlen(l->trsvcid, sizeof(l->trsvcid) - 1));
	memcpy(p + DISC_SUBNQN, sub->nqn, strlen(sub->nqn));
	memcpy(p + DISC_TRADDR, l->traddr, strnlen(l->traddr, sizeof(l->traddr) - 1));
	if (l->trtype == 1) {
		p[DISC_TSAS] = 1; /* connected */
		p[DISC_TSAS + 1] = l->rdma_prtype;
		p[DISC_TSAS + 2] = 1; /* RDMA_CM */
	} else if (l->tls != WEFT_NVMF_LISTENER_PLAIN) {
		p[DISC_TSAS] = 2; /* SECTYPE: TLS 1.3 */
	}
}

static void
log_discovery(struct nvmf_slot *s)
{
	struct weft_nvmf *t = s->queue->group->target;
	const struct weft_nvmf_subsys *sub;
	uint8_t p[DISC_BYTES] = {0};
	uint64_t at = DISC_BYTES;

	nvmf_lock(t);
	weft_nvmf_put64(p, t->generation);
	weft_nvmf_put64(p + 8, log_discovery_records(s));
	log_put(s, 0, p, sizeof(p));
	for (uint32_t i = 0; i < t->nlisteners; i++) {
		log_discovery_entry(p, &t->listeners[i], &t->discovery);
		log_put(s, at, p, sizeof(p));
		at += DISC_BYTES;
		LIST_FOREACH (sub, &t->subsystems, link) {
			if (!log_shows(s, sub, &t->listeners[i]))
				continue;
			log_discovery_entry(p, &t->listeners[i], sub);
			log_put(s, at, p, sizeof(p));
			at += DISC_BYTES;
		}
	}
	nvmf_unlock(t);
	if ((s->sqe.cdw[10] & LOG_RAE) == 0)
		s->queue->ctrl->log_masked = false;
}

void
nvmf_log(struct nvmf_slot *s, const uint8_t effects[4096])
{
	struct nvmf_ctrl *c = s->queue->ctrl;

	nvmf_zero(s);
	switch ((uint8_t)s->sqe.cdw[10]) {
	case WEFT_NVMF_LOG_ERROR:
		log_error(s);
		break;
	case WEFT_NVMF_LOG_SMART:
		log_smart(s);
		break;
	case WEFT_NVMF_LOG_FIRMWARE:
		log_firmware(s);
		break;
	case WEFT_NVMF_LOG_CHANGED_NS:
		log_changed(s);
		break;
	case WEFT_NVMF_LOG_EFFECTS:
		log_put(s, 0, effects, 4096);
		break;
	case WEFT_NVMF_LOG_RESV:
		log_resv(s);
		break;
	case WEFT_NVMF_LOG_ANA:
		log_ana(s);
		break;
	default:
		log_discovery(s);
	}
	nvmf_complete(s, WEFT_NVMF_OK);
	nvmf_event_send(c);
}
