/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The log's one loop: completions come in, work goes out, events are reported. */

#include <errno.h>

#include "log_base.h"
#include "log_catch.h"
#include "log_event.h"
#include "log_member.h"
#include "log_open.h"
#include "log_priv.h"
#include "log_read.h"
#include "log_run.h"
#include "log_send.h"
#include "log_trim.h"
#include "log_window.h"

void
log_kick(struct weft_log *log)
{
	for (unsigned int i = 0; i < log->ntargets; i++) {
		struct log_target *t = &log->target[i];

		if (t->state == WEFT_LOG_TARGET_LIVE && log_kick_live(log, t))
			log_admit(log, t);
		else if (t->state == WEFT_LOG_TARGET_CATCHING)
			log_catch_kick(log, t);
	}
}

static void log_waited(struct weft_log *log);

void
log_run(struct weft_log *log)
{
	log->again = true;
	if (log->running)
		return;
	log->running = true;
	log->owed = false;
	while (log->again && !log->dead) {
		log->again = false;
		if (log->state != WEFT_LOG_FAILED) {
			log_settle(log);
			if (!log->dead) {
				log_seat_next(log);
				log_window_tell(log);
				log_trim_run(log);
				log_read_run(log);
			}
			if (!log->dead)
				log_kick(log);
		}
		if (!log->dead)
			log_waited(log);
		if (!log->dead)
			log_tell_all(log);
	}
	log->running = false;
}

/* ---- Completions ---- */

static int
log_wc_status(enum weft_wc_status s)
{
	switch (s) {
	case WEFT_WC_REMOTE_ACCESS:
		return -EACCES;
	case WEFT_WC_REMOTE_OP:
		return -EIO;
	case WEFT_WC_HASH_MISMATCH:
		return -EILSEQ;
	case WEFT_WC_LOCAL_PROT:
	case WEFT_WC_LOCAL_LENGTH:
		return -EINVAL;
	default:
		return -ENOTCONN;
	}
}

static void
log_wc(struct weft_log *log, const struct weft_wc *wc)
{
	unsigned int index = wc->wr_id >> 40 & 0xff;
	struct log_target *t = &log->target[index];
	log_step_fn step;

	if (index >= log->ntargets || t->gen != wc->wr_id >> 48 || t->state == WEFT_LOG_TARGET_NONE)
		return;
	if (wc->status != WEFT_WC_SUCCESS) {
		log_lost(log, t, log_wc_status(wc->status));
		return;
	}
	switch ((enum log_wr)(wc->wr_id >> 32 & 0xff)) {
	case LOG_WR_TRANSACTION:
		log_transaction_done(log, t);
		break;
	case LOG_WR_TRIM:
		t->head_acked = t->head_sent;
		t->head_sent = 0;
		t->sq_used -= 2;
		break;
	case LOG_WR_STEP:
		t->sq_used -= t->step_places;
		step = t->step;
		t->step = NULL;
		step(log, t);
		log_catch_run(log, t);
		break;
	case LOG_WR_COPY:
		t->sq_used--;
		log_catch_read(log, t, (uint32_t)wc->wr_id);
		break;
	case LOG_WR_READ:
		t->sq_used--;
		log_read_done(log, t, (uint32_t)wc->wr_id);
		break;
	case LOG_WR_PROOF:
		t->sq_used--;
		log_trim_read(log, t);
		break;
	case LOG_WR_NONE:
		break;
	}
}

void
log_on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	struct weft_log *log = user;

	(void)cq;
	for (unsigned int i = 0; i < n; i++)
		log_wc(log, &wc[i]);
	log_run(log);
}

/* ---- A target is lost ---- */

static unsigned int
log_count(const struct weft_log *log, enum weft_log_target_state least)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < log->ntargets; i++)
		n += log->target[i].state >= least;
	return n;
}

static unsigned int
log_counted(const struct weft_log *log)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < log->ntargets; i++)
		n += log_counts(&log->target[i]);
	return n;
}

/** Whether the log has fewer targets than it needs. */
static bool
log_lacks(const struct weft_log *log)
{
	return log_counted(log) == 0 || log_count(log, WEFT_LOG_TARGET_CATCHING) < log->quorum;
}

static void
log_wait_ends(struct weft_log *log)
{
	log->waits = NULL;
	/* An append that found a full ring was told to wait. When it is refused again, that means
	 * trim. */
	if (log->refused_bytes != 0) {
		log->refused_bytes = 0;
		log->ev_room = true;
	}
	/* What could wait for another target's records asks again. */
	log->again = true;
}

static void
log_on_waited(void *arg)
{
	struct weft_log *log = arg;

	log_wait_ends(log);
	if (log->state == WEFT_LOG_OPENED && log_lacks(log))
		log_fail(log, -ENOTCONN);
	log_run(log);
}

/** Wait for targets, from the first loss on. False: the log does not wait. */
static bool
log_waits(struct weft_log *log)
{
	if (log->waits != NULL)
		return true;
	if (log->wait_us == 0 || log->state != WEFT_LOG_OPENED ||
	    weft_alarm_set(log->worker, log->wait_us, log_on_waited, log, &log->waits) != 0)
		return false;
	log->stats.waits++;
	return true;
}

/** The log has its targets again, or has ended: it waits no longer. */
static void
log_waited(struct weft_log *log)
{
	if (log->waits == NULL || (log->state == WEFT_LOG_OPENED && log_lacks(log)))
		return;
	weft_alarm_cancel(log->waits);
	log_wait_ends(log);
}

/** The target is lost: each part gives up what it had under way there. */
static void
log_on_lost(struct weft_log *log, struct log_target *t)
{
	log_read_lost(log, t);
	log_trim_lost(log, t);
	log_catch_lost(log, t);
	log_seat_lost(log, t);
	if (log->state == WEFT_LOG_NEW && log_count(log, WEFT_LOG_TARGET_LOOKING) == 0)
		log->have_geom = false;
	if (log->state == WEFT_LOG_OPENING && !log->begun)
		log_open_lost(log, t);
	else if (log->begun && log->state != WEFT_LOG_FAILED && log_lacks(log) && !log_waits(log))
		log_fail(log, -ENOTCONN);
}

const struct log_ops log_run_ops = {.run = log_run, .lost = log_on_lost};
