/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file What all files of the log stand on: the kind of its handle, faults of a target and of the
 * log, and the alarm at which they are reported.
 */

#include "log_base.h"
#include "log_priv.h"

struct weft_handle_kind log_kind = {.name = "log"};

void
log_end_targets(struct weft_log *log)
{
	for (unsigned int i = 0; i < log->ntargets; i++) {
		struct log_target *t = &log->target[i];

		if (t->state == WEFT_LOG_TARGET_NONE)
			continue;
		t->gen++;
		t->state = WEFT_LOG_TARGET_NONE;
		t->ntransactions = 0;
		weft_qp_destroy(t->qp);
	}
}

void
log_fail(struct weft_log *log, int status)
{
	if (log->state == WEFT_LOG_FAILED)
		return;
	log->state = WEFT_LOG_FAILED;
	log->fail_status = status;
	log->ev_failed = true;
	log_end_targets(log);
}

void
log_damaged(struct log_target *t, enum weft_log_damage what, uint64_t position)
{
	t->ev_damaged = true;
	t->damage = what;
	t->damage_pos = position;
	t->damage_epoch = 0;
}

void
log_lost(struct weft_log *log, struct log_target *t, int status)
{
	enum weft_log_target_state was = t->state;

	if (was == WEFT_LOG_TARGET_NONE)
		return;
	t->gen++;
	t->state = WEFT_LOG_TARGET_NONE;
	t->ntransactions = 0;
	t->pinned = false;
	t->ev_joined = t->ev_live = t->ev_lag = false;
	t->ev_lost = true;
	t->lost_status = status;
	t->lost_user = t->user;
	log->stats.lost++;
	/* Destroy the QP; on its worker that ends all work at once. */
	weft_qp_destroy(t->qp);
	t->qp = NULL;
	log->ops->lost(log, t);
}

static void
log_on_alarm(void *arg)
{
	struct weft_log *log = arg;

	log->alarm = NULL;
	log->ops->run(log);
}

void
log_later(struct weft_log *log)
{
	if (log->running)
		log->again = true;
	else if (log->alarm == NULL)
		log->owed = weft_alarm_set(log->worker, 0, log_on_alarm, log, &log->alarm) != 0;
}
