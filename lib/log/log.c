/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Creation, end and counters of a remote log. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log_base.h"
#include "log_priv.h"
#include "log_read.h"
#include "log_run.h"
#include "log_window.h"

#define LOG_MAX_APPENDS      65536
#define LOG_MAX_TRANSACTIONS 64
#define LOG_SEAT_SLOTS       WEFT_LOG_MAX_TARGETS

static const struct weft_log_attr log_defaults = {
        .targets = 1,
        .max_appends = 256,
        .max_sge = 4,
        .max_transactions = 8,
        .transaction_bytes = 262144,
        .copy_bytes = 65536,
        .flush_flags = WEFT_FLUSH_PERSISTENT,
};

static int
log_attr(struct weft_log_attr *a, const struct weft_log_attr *in)
{
	int rc = weft_attr_copy(a, sizeof(*a), in);

	if (rc < 0)
		return rc;
	if (a->targets == 0)
		a->targets = log_defaults.targets;
	if (a->quorum == 0)
		a->quorum = a->targets / 2 + 1;
	if (a->max_appends == 0)
		a->max_appends = log_defaults.max_appends;
	if (a->max_sge == 0)
		a->max_sge = log_defaults.max_sge;
	if (a->max_transactions == 0)
		a->max_transactions = log_defaults.max_transactions;
	if (a->transaction_bytes == 0)
		a->transaction_bytes = log_defaults.transaction_bytes;
	if (a->copy_bytes == 0)
		a->copy_bytes = log_defaults.copy_bytes;
	if (a->flush_flags == 0)
		a->flush_flags = log_defaults.flush_flags;
	if (weft_ctx_check(a->ctx, __func__) < 0 || weft_pd_check(a->pd, __func__) < 0 ||
	    weft_worker_check(a->worker, __func__) < 0 || a->on_event == NULL ||
	    a->targets > WEFT_LOG_MAX_TARGETS || a->quorum > a->targets ||
	    a->max_appends > LOG_MAX_APPENDS || a->max_sge > WEFT_LOG_MAX_SGE ||
	    a->max_transactions > LOG_MAX_TRANSACTIONS || a->copy_bytes < WEFT_LOG_RING_OFF ||
	    a->copy_bytes > (1U << 30) || (a->flush_flags & WEFT_FLUSH_REGION) != 0 ||
	    (a->verify_hash == NULL && a->hash_key != NULL) ||
	    a->hash_key_bytes > WEFT_HASH_KEY_MAX_BYTES ||
	    (a->hash_key == NULL) != (a->hash_key_bytes == 0))
		return -EINVAL;
	if (a->verify_hash != NULL) {
		const struct weft_hash_ops *h = weft_hash_find(a->verify_hash);

		if (h == NULL)
			return -ENOENT;
		if (weft_hash_check_key(h, a->hash_key, a->hash_key_bytes) != 0)
			return -EINVAL;
	}
	return 0;
}

/** Send queue of a target's QP. */
static uint32_t
log_sq_depth(const struct weft_log *log)
{
	return (log->max_transactions + 2) * LOG_TRANSACTION_PLACES + WEFT_LOG_MAX_READS +
	       WEFT_LOG_MAX_TARGETS;
}

static void
log_free(void *arg)
{
	struct weft_log *log = arg;

	for (unsigned int i = 0; i < log->ntargets; i++)
		free(log->target[i].transactions);
	free(log->slots);
	free(log->bufs);
	explicit_bzero(log->key, sizeof(log->key));
	weft_handle_free(&log->h, sizeof(log->h));
}

static int
log_alloc(struct weft_log *log)
{
	struct weft_cq_attr ca = {.size = sizeof(ca), .on_wc = log_on_wc, .user = log};
	struct weft_mr_attr ma = {.size = sizeof(ma), .access = WEFT_ACCESS_LOCAL_WRITE};
	int rc;

	log->slot_bytes = sizeof(struct log_slot) + log->max_sge * sizeof(struct weft_sge);
	log->slots = calloc(log->num_slots, log->slot_bytes);
	ma.len_bytes = (uint64_t)log->ntargets * log->copy_bytes;
	log->bufs = aligned_alloc(4096, log_align(ma.len_bytes, (uint64_t)4096));
	if (log->slots == NULL || log->bufs == NULL)
		return -ENOMEM;
	memset(log->bufs, 0, ma.len_bytes);
	ma.addr = log->bufs;
	/* A lost QP may leave its completions when its successor exists already, so there is
	 * room for both. */
	ca.depth = 2 * (log->ntargets + 1) * log_sq_depth(log);
	rc = weft_cq_create(log->ctx, &ca, &log->cq);
	if (rc == 0)
		rc = weft_mr_reg(log->pd, &ma, &log->mr);
	for (unsigned int i = 0; rc == 0 && i < log->ntargets; i++) {
		struct log_target *t = &log->target[i];

		t->index = i;
		t->buf = log->bufs + (size_t)i * log->copy_bytes;
		t->lkey = weft_mr_stag(log->mr);
		t->transactions = calloc(log->max_transactions, sizeof(*t->transactions));
		if (t->transactions == NULL)
			rc = -ENOMEM;
	}
	return rc;
}

int
weft_log_create(const struct weft_log_attr *attr, struct weft_log **out)
{
	struct weft_log_attr a;
	struct weft_log *log;
	int rc = out == NULL ? -EINVAL : log_attr(&a, attr);

	if (rc == 0)
		rc = weft_worker_check_thread(a.worker, __func__);
	if (rc != 0)
		return rc;
	log = calloc(1, sizeof(*log));
	if (log == NULL)
		return -ENOMEM;
	log->ops = &log_run_ops;
	log->ctx = a.ctx;
	log->pd = a.pd;
	log->worker = a.worker;
	log->on_event = a.on_event;
	log->user = a.user;
	log->ntargets = a.targets;
	log->quorum = a.quorum;
	log->max_appends = log_pow2(a.max_appends);
	log->num_slots = log->max_appends + LOG_SEAT_SLOTS;
	log->max_sge = a.max_sge;
	log->max_transactions = a.max_transactions;
	log->transaction_bytes = a.transaction_bytes;
	log->copy_bytes = a.copy_bytes / 8 * 8;
	log->flush_flags = a.flush_flags;
	log->wait_us = a.wait_us;
	if (a.verify_hash != NULL) {
		log->verify = true;
		snprintf(log->hash, sizeof(log->hash), "%s", a.verify_hash);
		log->key_bytes = a.hash_key_bytes;
		if (a.hash_key_bytes > 0)
			memcpy(log->key, a.hash_key, a.hash_key_bytes);
	}
	rc = log_alloc(log);
	if (rc != 0) {
		if (log->cq != NULL)
			weft_cq_destroy(log->cq);
		if (log->mr != NULL)
			weft_mr_dereg(log->mr, log_free, log);
		else
			log_free(log);
		return rc;
	}
	weft_handle_init(&log->h, &log_kind);
	*out = log;
	return 0;
}

void
weft_log_destroy(struct weft_log *log)
{
	if (log_call(log, __func__) < 0)
		return;
	log->dead = true;
	log_end_targets(log);
	if (log->alarm != NULL)
		weft_alarm_cancel(log->alarm);
	if (log->waits != NULL)
		weft_alarm_cancel(log->waits);
	log->waits = NULL;
	log_end_appends(log, -ECANCELED);
	log_read_end(log, -ECANCELED);
	/* The callbacks above might still query the log. */
	weft_handle_end(&log->h, &log_kind);
	weft_cq_destroy(log->cq);
	/* A callback of this log may be the caller, and returns into the log before the region
	 * is free. */
	weft_mr_dereg(log->mr, log_free, log);
}

void
weft_log_qp_attr(struct weft_log *log, struct weft_qp_attr *qa)
{
	struct weft_ctx_info ci;
	uint32_t ord;

	if (qa == NULL)
		return;
	if (log_call(log, __func__) < 0) {
		memset(qa, 0, sizeof(*qa));
		return;
	}
	ord = log->max_transactions * (log->verify ? 5 : 4);
	weft_ctx_query(log->ctx, &ci);
	*qa = (struct weft_qp_attr){
	        .size = sizeof(*qa),
	        .worker = log->worker,
	        .send_cq = log->cq,
	        .recv_cq = log->cq,
	        .sq_depth = log_sq_depth(log),
	        .rq_depth = 1,
	        .ird = 1,
	        .ord = (uint16_t)log_min(ord, (uint32_t)ci.max_ord),
	        .max_sge = 1,
	        .max_send_sge = LOG_SEND_SGE,
	};
}

int
weft_log_leave(struct weft_log *log, struct weft_qp *qp)
{
	int rc = log_call(log, __func__);

	if (rc < 0)
		return rc;
	for (unsigned int i = 0; i < log->ntargets; i++) {
		struct log_target *t = &log->target[i];

		if (t->state == WEFT_LOG_TARGET_NONE || t->qp != qp)
			continue;
		log_lost(log, t, -ECANCELED);
		log_run(log);
		return 0;
	}
	return -ENOENT;
}

void
weft_log_query(const struct weft_log *log, struct weft_log_info *info)
{
	if (info == NULL)
		return;
	if (log_asked(log, __func__) < 0) {
		memset(info, 0, sizeof(*info));
		return;
	}
	*info = log->stats;
	info->state = log->state;
	info->epoch = log->epoch;
	info->head = log->head;
	info->durable = log->dur;
	info->end = log->end;
	info->version = log->have_geom ? log->g.version : 0;
	info->ring_bytes = log->g.ring_bytes;
	info->max_record_bytes = log->have_geom ? log_max_record(log->g.ring_bytes) : 0;
	for (unsigned int i = 0; i < log->ntargets; i++) {
		const struct log_target *t = &log->target[i];

		/* A target that is fed but not counted is reported as catching up. */
		info->target[i].state = t->state == WEFT_LOG_TARGET_LIVE && !log_is_seated(t)
		                                ? WEFT_LOG_TARGET_CATCHING
		                                : t->state;
		info->target[i].user = t->user;
		memcpy(info->target[i].id, t->id, sizeof(t->id));
		info->target[i].durable = t->acked;
		info->target[i].head = t->head_acked;
		info->target[i].transactions = t->ntransactions;
		info->target[i].place = t->card.place;
		info->target[i].life = t->card.life;
	}
}
