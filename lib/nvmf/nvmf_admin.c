/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The admin commands: their table, and those that need no source of their own.
 */

#include "nvmf_cmd.h"

#define EFFECT_SUPPORTED 1U

static uint16_t
admin_start(struct nvmf_slot *s)
{
	(void)s;
	return WEFT_NVMF_OK;
}

static void
admin_keep_alive(struct nvmf_slot *s)
{
	nvmf_ctrl_keep_alive(s->queue->ctrl, s->queue->ctrl->kato_ms);
	nvmf_complete(s, WEFT_NVMF_OK);
}

/** The queue of an Abort, if its commands belong to this thread. */
static struct weft_nvmf_queue *
admin_abort_queue(struct nvmf_slot *s, uint16_t sqid)
{
	struct nvmf_ctrl *c = s->queue->ctrl;
	struct weft_nvmf_queue *q = NULL;

	nvmf_lock(c->target);
	if (sqid == 0)
		q = c->admin;
	else if (sqid <= c->target->attr.max_io_queues)
		q = c->ioq[sqid - 1];
	/* Under the lock: one of another thread may be freed then. */
	if (q != NULL && q->group != s->queue->group)
		q = NULL;
	nvmf_unlock(c->target);
	return q;
}

/**
 * Abort. A command that another thread has, or that is nearly done, is not aborted, which the host
 * is told (DW0 bit 0).
 */
static void
admin_abort(struct nvmf_slot *s)
{
	const uint16_t cid = (uint16_t)(s->sqe.cdw[10] >> 16);
	struct weft_nvmf_queue *q = admin_abort_queue(s, (uint16_t)s->sqe.cdw[10]);
	struct nvmf_slot *o = NULL;

	s->result = 1;
	if (q != NULL) {
		TAILQ_FOREACH (o, &q->busy, link)
			if (o != s && o->sqe.cid == cid && o->state != NVMF_SLOT_ANSWER)
				break;
	}
	/* An Abort that waits ends with its command, and is not waited for. */
	if (o != NULL && (o->aborter != NULL || o->row == s->row))
		o = NULL;
	if (o != NULL && o->state == NVMF_SLOT_HELD) {
		nvmf_event_abort(o);
		s->result = 0;
	} else if (o != NULL) {
		o->aborter = s;
		/* One that ends in the call has answered both. */
		if (nvmf_cancel(o) || o->aborter != s)
			return;
		o->aborter = NULL;
	}
	nvmf_complete(s, WEFT_NVMF_OK);
}

static void admin_get_log(struct nvmf_slot *s);

static const struct nvmf_row admin_rows[] = {
        [WEFT_NVMF_ADMIN_GET_LOG] = {.name = "get log page",
                                     .start = nvmf_get_log_start,
                                     .run = admin_get_log,
                                     .discovery = true},
        [WEFT_NVMF_ADMIN_IDENTIFY] = {.name = "identify",
                                      .start = nvmf_identify_start,
                                      .run = nvmf_identify_run,
                                      .discovery = true},
        [WEFT_NVMF_ADMIN_ABORT] = {.name = "abort", .start = admin_start, .run = admin_abort},
        [WEFT_NVMF_ADMIN_SET_FEATURES] = {.name = "set features",
                                          .start = nvmf_set_features_start,
                                          .run = nvmf_set_features_run,
                                          .discovery = true},
        [WEFT_NVMF_ADMIN_GET_FEATURES] = {.name = "get features",
                                          .start = nvmf_get_features_start,
                                          .run = nvmf_get_features_run,
                                          .discovery = true},
        [WEFT_NVMF_ADMIN_AER] = {.name = "asynchronous event request",
                                 .start = admin_start,
                                 .run = nvmf_event_request,
                                 .discovery = true},
        [WEFT_NVMF_ADMIN_KEEP_ALIVE] = {.name = "keep alive",
                                        .start = admin_start,
                                        .run = admin_keep_alive,
                                        .discovery = true},
};

const struct nvmf_row *
nvmf_admin_row(uint8_t opcode)
{
	if (opcode >= sizeof(admin_rows) / sizeof(admin_rows[0]) || admin_rows[opcode].name == NULL)
		return NULL;
	return &admin_rows[opcode];
}

/** Get Log Page, with the page of commands and their effects. */
static void
admin_get_log(struct nvmf_slot *s)
{
	uint8_t effects[4096] = {0};

	for (uint32_t i = 0; i < 256; i++) {
		const struct nvmf_row *admin = nvmf_admin_row((uint8_t)i);
		const struct nvmf_row *io = nvmf_io_row((uint8_t)i);

		if (admin != NULL)
			weft_nvmf_put32(effects + 4 * i, EFFECT_SUPPORTED | admin->effects);
		if (io != NULL)
			weft_nvmf_put32(effects + 1024 + 4 * i, EFFECT_SUPPORTED | io->effects);
	}
	nvmf_log(s, effects);
}
