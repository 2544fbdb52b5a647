/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Reports to the application what was recorded. */

#include <errno.h>

#include "log_event.h"
#include "log_priv.h"
#include "log_read.h"
#include "log_window.h"

const char *
weft_log_event_str(enum weft_log_event_type t)
{
	static const char *const names[] = {
	        [WEFT_LOG_EV_JOINED] = "joined", [WEFT_LOG_EV_OPEN] = "open",
	        [WEFT_LOG_EV_LIVE] = "live",     [WEFT_LOG_EV_DAMAGED] = "damaged",
	        [WEFT_LOG_EV_LOST] = "lost",     [WEFT_LOG_EV_LAGGING] = "lagging",
	        [WEFT_LOG_EV_ROOM] = "room",     [WEFT_LOG_EV_FAILED] = "failed",
	};

	return (unsigned int)t < LOG_DIM(names) ? names[t] : "?";
}

const char *
weft_log_damage_str(enum weft_log_damage d)
{
	static const char *const names[] = {
	        [WEFT_LOG_DAMAGE_WORDS] = "words",
	        [WEFT_LOG_DAMAGE_TAIL] = "last record",
	        [WEFT_LOG_DAMAGE_HEAD] = "first record",
	        [WEFT_LOG_DAMAGE_RECORD] = "record",
	        [WEFT_LOG_DAMAGE_SUPER] = "superblock",
	        [WEFT_LOG_DAMAGE_CARD] = "card",
	        [WEFT_LOG_DAMAGE_TAIL_WORD] = "tail word",
	        [WEFT_LOG_DAMAGE_HEAD_WORD] = "head word",
	        [WEFT_LOG_DAMAGE_UNFENCED] = "word of a writer that was not fenced",
	        [WEFT_LOG_DAMAGE_LIFE] = "life",
	};

	return (unsigned int)d < LOG_DIM(names) ? names[d] : "?";
}

static void
log_tell(struct weft_log *log, enum weft_log_event_type type, const struct log_target *t,
         int status)
{
	struct weft_log_event ev = {.type = type, .status = status};

	if (t != NULL) {
		ev.target = t->index;
		ev.target_user = type == WEFT_LOG_EV_LOST ? t->lost_user : t->user;
	}
	if (type == WEFT_LOG_EV_OPEN) {
		ev.epoch = log->epoch;
		ev.head = log->head;
		ev.end = log->dur;
	} else if (type == WEFT_LOG_EV_JOINED) {
		ev.epoch = t->card.epoch;
		ev.head.position = t->head;
		ev.end = t->end;
	} else if (type == WEFT_LOG_EV_DAMAGED) {
		ev.damage = t->damage;
		ev.position = t->damage_pos;
		ev.epoch = t->damage_epoch;
	}
	log->again = true;
	log->on_event(log->user, &ev);
}

/** Report one event of a target, if there is one. */
static bool
log_tell_target(struct weft_log *log, struct log_target *t)
{
	if (t->ev_damaged) {
		t->ev_damaged = false;
		log_tell(log, WEFT_LOG_EV_DAMAGED, t, -EBADMSG);
	} else if (t->ev_lost) {
		t->ev_lost = false;
		log_tell(log, WEFT_LOG_EV_LOST, t, t->lost_status);
	} else if (t->ev_joined) {
		t->ev_joined = false;
		log_tell(log, WEFT_LOG_EV_JOINED, t, 0);
	} else if (t->ev_live) {
		t->ev_live = false;
		log_tell(log, WEFT_LOG_EV_LIVE, t, 0);
	} else if (t->ev_lag) {
		t->ev_lag = false;
		log_tell(log, WEFT_LOG_EV_LAGGING, t, 0);
	} else {
		return false;
	}
	return true;
}

void
log_tell_all(struct weft_log *log)
{
	for (unsigned int i = 0; i < log->ntargets; i++)
		while (!log->dead && log_tell_target(log, &log->target[i]))
			;
	if (!log->dead && log->ev_open && log->state == WEFT_LOG_OPENED) {
		log->ev_open = false;
		log_tell(log, WEFT_LOG_EV_OPEN, NULL, 0);
	}
	if (!log->dead && log->ev_room && log->state == WEFT_LOG_OPENED) {
		log->ev_room = false;
		log_tell(log, WEFT_LOG_EV_ROOM, NULL, 0);
	}
	if (!log->dead && log->ev_failed) {
		log->ev_failed = false;
		log_end_appends(log, log->fail_status);
		if (!log->dead)
			log_read_end(log, log->fail_status);
		if (!log->dead)
			log_tell(log, WEFT_LOG_EV_FAILED, NULL, log->fail_status);
	}
}
