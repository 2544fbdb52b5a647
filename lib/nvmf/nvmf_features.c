/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Get Features and Set Features (NVMe Base 2.0 s5.15, s5.27). None can be saved.
 */

#include "nvmf_cmd.h"

#define FEATURE_SAVE   (1U << 31) /**< of Set Features: SV */
#define BEHAVIOR_BYTES 512U       /**< of Host Behavior Support; the first octet is ACRE */
#define RESV_MASK      0x0eU      /**< of Reservation Notification Mask: three notices */
#define FEATURE_SELECT 0x700U     /**< of Get Features: SEL; ONCS says that there is none */

/** A feature that each namespace has of its own: 82h, 83h. */
static uint16_t
features_ns(const struct nvmf_slot *s, bool set)
{
	const struct weft_nvmf_subsys *sub = s->queue->ctrl->subsys;

	if (s->sqe.nsid == WEFT_NVMF_NSID_ALL)
		return set ? WEFT_NVMF_OK : NVMF_NEVER(WEFT_NVMF_INVALID_FIELD);
	if (s->sqe.nsid == 0 || s->sqe.nsid > sub->max_nsid)
		return NVMF_NEVER(WEFT_NVMF_INVALID_NS);
	return nvmf_ns_active(sub, s->sqe.nsid) == NULL ? NVMF_NEVER(WEFT_NVMF_INVALID_FIELD)
	                                                : WEFT_NVMF_OK;
}

/** Get 82h or 83h of a namespace, which may have gone meanwhile. */
static uint32_t
features_resv(const struct nvmf_slot *s)
{
	struct nvmf_ctrl *c = s->queue->ctrl;
	const struct nvmf_ns *ns;
	uint32_t value;

	nvmf_lock(c->target);
	ns = nvmf_ns_active(c->subsys, s->sqe.nsid);
	if ((uint8_t)s->sqe.cdw[10] == WEFT_NVMF_FEAT_RESV_MASK)
		value = c->resv->mask[s->sqe.nsid - 1];
	else
		value = ns != NULL && ns->resv->now.persist;
	nvmf_unlock(c->target);
	return value;
}

/** Set 82h: of one namespace, or of all that there are. */
static void
features_set_mask(const struct nvmf_slot *s)
{
	struct nvmf_ctrl *c = s->queue->ctrl;
	const uint8_t mask = s->sqe.cdw[11] & RESV_MASK;

	nvmf_lock(c->target);
	if (s->sqe.nsid != WEFT_NVMF_NSID_ALL) {
		c->resv->mask[s->sqe.nsid - 1] = mask;
	} else {
		for (uint32_t nsid = 1; nsid <= c->subsys->max_nsid; nsid++)
			if (nvmf_ns_active(c->subsys, nsid) != NULL)
				c->resv->mask[nsid - 1] = mask;
	}
	nvmf_unlock(c->target);
}

/** Set 83h: nvmf_resv_run() does it. */
static uint16_t
features_start_persist(struct nvmf_slot *s)
{
	uint16_t status = features_ns(s, true);

	if (status != WEFT_NVMF_OK)
		return status;
	if ((s->sqe.cdw[11] & 1) != 0 && !s->queue->group->target->attr.resv.persists)
		return NVMF_NEVER(WEFT_NVMF_INVALID_FIELD);
	return s->sqe.nsid == WEFT_NVMF_NSID_ALL ? WEFT_NVMF_OK : nvmf_ns_hold(s);
}

uint16_t
nvmf_get_features_start(struct nvmf_slot *s)
{
	const bool discovery = s->queue->ctrl->subsys->discovery;
	const uint8_t fid = (uint8_t)s->sqe.cdw[10];

	if ((s->sqe.cdw[10] & FEATURE_SELECT) != 0)
		return NVMF_NEVER(WEFT_NVMF_INVALID_FIELD);
	switch (fid) {
	case WEFT_NVMF_FEAT_EVENTS:
	case WEFT_NVMF_FEAT_KATO:
		return WEFT_NVMF_OK;
	case WEFT_NVMF_FEAT_ARBITRATION:
	case WEFT_NVMF_FEAT_POWER:
	case WEFT_NVMF_FEAT_TEMPERATURE:
	case WEFT_NVMF_FEAT_ERROR_RECOVERY:
	case WEFT_NVMF_FEAT_WRITE_CACHE:
	case WEFT_NVMF_FEAT_QUEUES:
	case WEFT_NVMF_FEAT_WRITE_ATOMICITY:
		break;
	case WEFT_NVMF_FEAT_HOST_BEHAVIOR:
		s->need_bytes = BEHAVIOR_BYTES;
		break;
	case WEFT_NVMF_FEAT_HOST_ID:
		/* EXHID: Fabrics has the long one alone */
		if ((s->sqe.cdw[11] & 1) == 0)
			return NVMF_NEVER(WEFT_NVMF_INVALID_FIELD);
		s->need_bytes = 16;
		break;
	case WEFT_NVMF_FEAT_RESV_MASK:
	case WEFT_NVMF_FEAT_RESV_PERSIST:
		if (!discovery)
			return features_ns(s, false);
		break;
	default:
		return NVMF_NEVER(WEFT_NVMF_INVALID_FIELD);
	}
	return discovery ? NVMF_NEVER(WEFT_NVMF_INVALID_FIELD) : WEFT_NVMF_OK;
}

void
nvmf_get_features_run(struct nvmf_slot *s)
{
	struct nvmf_ctrl *c = s->queue->ctrl;
	uint32_t granted = atomic_load_explicit(&c->granted, memory_order_acquire);
	uint8_t acre;

	granted = granted == 0 ? c->target->attr.max_io_queues : granted;
	switch ((uint8_t)s->sqe.cdw[10]) {
	case WEFT_NVMF_FEAT_EVENTS:
		s->result = c->events_on;
		break;
	case WEFT_NVMF_FEAT_KATO:
		s->result = c->kato_ms;
		break;
	case WEFT_NVMF_FEAT_WRITE_CACHE:
		s->result = !atomic_load_explicit(&c->write_through, memory_order_acquire);
		break;
	case WEFT_NVMF_FEAT_QUEUES:
		s->result = (granted - 1) | (granted - 1) << 16;
		break;
	case WEFT_NVMF_FEAT_HOST_ID:
		nvmf_put(s, 0, c->hostid, 16);
		break;
	case WEFT_NVMF_FEAT_RESV_MASK:
	case WEFT_NVMF_FEAT_RESV_PERSIST:
		s->result = features_resv(s);
		break;
	case WEFT_NVMF_FEAT_HOST_BEHAVIOR:
		nvmf_zero(s);
		acre = atomic_load_explicit(&c->delays, memory_order_relaxed);
		nvmf_put(s, 0, &acre, 1);
		break;
	default:
		s->result = c->features[(uint8_t)s->sqe.cdw[10]];
	}
	nvmf_complete(s, WEFT_NVMF_OK);
}

/** Number of Queues: both numbers are 0-based. */
static uint16_t
features_queues(struct nvmf_slot *s)
{
	struct nvmf_ctrl *c = s->queue->ctrl;
	const uint32_t sq = s->sqe.cdw[11] & 0xffff, cq = s->sqe.cdw[11] >> 16;
	uint32_t n;
	bool had;

	if (sq == 0xffff || cq == 0xffff)
		return NVMF_NEVER(WEFT_NVMF_INVALID_FIELD);
	nvmf_lock(c->target);
	had = c->had_io_queue;
	nvmf_unlock(c->target);
	if (had)
		return NVMF_NEVER(WEFT_NVMF_SEQUENCE);
	/* a queue here is a pair */
	n = NVMF_MIN(NVMF_MAX(sq, cq) + 1, c->target->attr.max_io_queues);
	atomic_store_explicit(&c->granted, n, memory_order_release);
	s->result = (n - 1) | (n - 1) << 16;
	return WEFT_NVMF_OK;
}

uint16_t
nvmf_set_features_start(struct nvmf_slot *s)
{
	const bool discovery = s->queue->ctrl->subsys->discovery;
	const uint8_t fid = (uint8_t)s->sqe.cdw[10];

	if ((s->sqe.cdw[10] & FEATURE_SAVE) != 0)
		return NVMF_NEVER(WEFT_NVMF_NOT_SAVEABLE);
	if (fid == WEFT_NVMF_FEAT_EVENTS || fid == WEFT_NVMF_FEAT_KATO)
		return WEFT_NVMF_OK;
	if (discovery)
		return NVMF_NEVER(WEFT_NVMF_INVALID_FIELD);
	switch (fid) {
	case WEFT_NVMF_FEAT_POWER: /* one power state: 0 */
		return (s->sqe.cdw[11] & 0x1f) == 0 ? WEFT_NVMF_OK
		                                    : NVMF_NEVER(WEFT_NVMF_INVALID_FIELD);
	case WEFT_NVMF_FEAT_ARBITRATION:
	case WEFT_NVMF_FEAT_TEMPERATURE:
	case WEFT_NVMF_FEAT_ERROR_RECOVERY:
	case WEFT_NVMF_FEAT_WRITE_CACHE:
	case WEFT_NVMF_FEAT_QUEUES:
	case WEFT_NVMF_FEAT_WRITE_ATOMICITY:
		return WEFT_NVMF_OK;
	case WEFT_NVMF_FEAT_HOST_BEHAVIOR:
		s->in = true;
		s->need_bytes = BEHAVIOR_BYTES;
		return WEFT_NVMF_OK;
	case WEFT_NVMF_FEAT_RESV_MASK:
		return features_ns(s, true);
	case WEFT_NVMF_FEAT_RESV_PERSIST:
		return features_start_persist(s);
	case WEFT_NVMF_FEAT_HOST_ID: /* Connect has set it (NVMe over Fabrics) */
		return NVMF_NEVER(WEFT_NVMF_SEQUENCE);
	default:
		return NVMF_NEVER(WEFT_NVMF_INVALID_FIELD);
	}
}

void
nvmf_set_features_run(struct nvmf_slot *s)
{
	struct nvmf_ctrl *c = s->queue->ctrl;
	const uint32_t value = s->sqe.cdw[11];
	uint16_t status = WEFT_NVMF_OK;
	uint8_t acre;

	switch ((uint8_t)s->sqe.cdw[10]) {
	case WEFT_NVMF_FEAT_EVENTS:
		c->events_on = value;
		nvmf_event_send(c);
		break;
	case WEFT_NVMF_FEAT_KATO:
		if (value == 0 && c->kato_ms > 0)
			status = NVMF_NEVER(WEFT_NVMF_KATO_INVALID);
		else
			nvmf_ctrl_keep_alive(c, value);
		break;
	case WEFT_NVMF_FEAT_WRITE_CACHE:
		atomic_store_explicit(&c->write_through, (value & 1) == 0, memory_order_release);
		break;
	case WEFT_NVMF_FEAT_QUEUES:
		status = features_queues(s);
		break;
	case WEFT_NVMF_FEAT_RESV_MASK:
		features_set_mask(s);
		break;
	case WEFT_NVMF_FEAT_RESV_PERSIST:
		nvmf_resv_run(s);
		return;
	case WEFT_NVMF_FEAT_HOST_BEHAVIOR:
		nvmf_get(s, 0, &acre, 1);
		if (acre > 1)
			status = NVMF_NEVER(WEFT_NVMF_INVALID_FIELD);
		else
			atomic_store_explicit(&c->delays, acre != 0, memory_order_relaxed);
		break;
	default:
		c->features[(uint8_t)s->sqe.cdw[10]] = value;
	}
	nvmf_complete(s, status);
}
