/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOG_PRIV_H
#define LOG_PRIV_H

/**
 * @file
 * The insides of a remote log. Everything runs on one worker's thread.
 *
 * Appends wait in a window of slots. Each live target has a cursor into it and takes from there
 * what its pipeline has room for, so one that is slow delays nobody, until the window is full. A
 * slot is durable when a quorum has it, and released when every live target has.
 *
 * Nothing calls back in the middle of a change: what there is to tell is noted, and log_run() tells
 * it.
 */

#include "log_target.h"
#include "log_wire.h"
#include <weft/commit.h>
#include <weft/log.h>
#include <weft/ulp.h>
#include <weft/worker.h>

#define LOG_SEND_SGE     16 /**< pieces of a Write */
#define LOG_UNIT_WRITES  8  /**< Writes of a unit, besides its filler's */
#define LOG_UNIT_PIECES  (LOG_SEND_SGE * LOG_UNIT_WRITES)
#define LOG_UNIT_PLACES  (LOG_UNIT_WRITES + 8) /**< what a unit takes of the send queue, at most */
#define LOG_CATCH_ROUNDS 8     /**< after these a target that catches up is waited for */
#define LOG_WORD_STRIDE  64    /**< octets from a word to the next */
#define LOG_BACK_STEPS   65536 /**< records looked at to find what a target has in common */

struct log_slot {
	struct weft_log_at at, next;
	uint64_t gap_bytes; /**< a filler in front takes so many; 0: there is none */
	uint64_t bytes;     /**< header, data, padding */
	uint32_t pad_bytes;
	uint32_t num_sge;
	uint32_t len_bytes;
	void (*durable)(void *arg, const struct weft_log_at *at, int status);
	void (*released)(void *arg, const struct weft_log_at *at);
	void *arg;
	uint8_t hdr[WEFT_LOG_HEADER_BYTES];
	uint8_t filler[WEFT_LOG_HEADER_BYTES];
	struct weft_sge sge[];
};

struct log_read {
	bool used;
	unsigned int target;
	uint32_t tried;
	uint32_t len_bytes;
	int status;    /**< 0: no answer yet; 1: records have come; else an error */
	uint64_t need; /**< of -EMSGSIZE */
	bool again;    /**< to be told, or posted once more */
	struct weft_sge buf;
	struct weft_log_at at;
	weft_log_read_fn fn;
	void *arg;
};

/** What is wrong with a log, for the tests of the tests. */
enum log_sabotage {
	LOG_SOUND,
	LOG_POINTER_FIRST,
	LOG_NO_FLUSH,
	LOG_EARLY_DURABLE,
	LOG_NO_STEP0,
	LOG_WORDS_ONLY,
	LOG_SEAT_EARLY,
	LOG_LONGEST,
	LOG_LAGGARD,
	LOG_NO_LIVES,
	LOG_FORGETS
};

extern struct weft_handle_kind log_kind;

struct weft_log {
	struct weft_handle h;
	struct weft_ctx *ctx;
	struct weft_pd *pd;
	struct weft_worker *worker;
	struct weft_cq *cq;
	struct weft_mr *mr;
	struct weft_alarm *alarm;
	uint8_t *bufs;
	weft_log_event_fn on_event;
	void *user;
	uint32_t ntargets, quorum, max_appends, max_sge, max_units, unit_bytes, copy_bytes;
	uint32_t flush_flags;
	char hash[32];
	bool verify;
	uint8_t key[WEFT_HASH_KEY_MAX_BYTES];
	uint32_t key_bytes;
	enum log_sabotage sabotage;
	bool dead, running, again;
	bool owed; /**< there was no memory for the alarm: run at the next call */
	enum weft_log_state state;
	int fail_status;
	bool ev_failed, ev_open, ev_room;
	bool have_geom;
	struct log_geom g;
	uint8_t log_id[16];
	uint64_t epoch;
	uint64_t lives;    /**< who the members are; version 1: 0 */
	uint64_t seat_seq; /**< of the record of the seat under way, 0: none */
	unsigned int seat_target, seat_place;
	bool seat_due;       /**< it waits for room in the window */
	uint32_t offered;    /**< targets that were offered a place */
	unsigned int truth;  /**< target, while opening */
	uint32_t head_tried; /**< targets whose record at the head is damaged: bit by index */
	/** another than the right one, which is asked for it; NULL: none */
	struct log_target *head_from;
	struct log_hdr head_hdr; /**< as another than the right one has it */
	bool fresh, begun;       /**< a target is live */
	uint64_t opening_seq;
	bool opening_due;        /**< its record waits for room that a trim gives */
	struct weft_log_at keep; /**< trim to it with the open; position 0: not */
	struct weft_log_at head; /**< as trimmed last */
	struct weft_log_at dur;  /**< behind the last durable one */
	struct weft_log_at end;  /**< behind the last one appended */
	uint64_t last_pos;       /**< of that */
	uint64_t told_seq;       /**< first whose end was not told; at most dur.seq */
	uint64_t rel_seq;        /**< first that is not released; at most told_seq */
	uint8_t before_raw[WEFT_LOG_HEADER_BYTES]; /**< header of the record before that */
	uint64_t refused_bytes; /**< of an append that the ring had no room for; 0: none */
	bool refused_window;
	size_t slot_bytes;
	uint8_t *slots;
	struct log_target target[WEFT_LOG_MAX_TARGETS];
	struct log_read read[WEFT_LOG_MAX_READS];
	struct weft_log_info stats; /**< its counters */
};

enum log_wr { LOG_WR_UNIT = 1, LOG_WR_TRIM, LOG_WR_STEP, LOG_WR_COPY, LOG_WR_READ, LOG_WR_NONE };

/** Whether it may be asked: a log, be it its end that is just told, and its worker's thread.
 * -EINVAL, -EPERM. */
static inline int
log_asked(const struct weft_log *log, const char *call)
{
	int rc = weft_handle_check(log, &log_kind, call);

	return rc < 0 ? rc : weft_worker_check_thread(log->worker, call);
}

/** Whether a call may go on: likewise, and it is not being destroyed. */
static inline int
log_call(const struct weft_log *log, const char *call)
{
	int rc = log_asked(log, call);

	return rc == 0 && log->dead ? weft_handle_refused(&log->h, &log_kind, call) : rc;
}

static inline struct log_slot *
log_slot(const struct weft_log *log, uint64_t seq)
{
	return (struct log_slot *)(log->slots + seq % log->max_appends * log->slot_bytes);
}

static inline uint64_t
log_wr_id(const struct log_target *t, enum log_wr kind, uint32_t index)
{
	return (uint64_t)t->gen << 48 | (uint64_t)t->index << 40 | (uint64_t)kind << 32 | index;
}

/** Memory of the target before this position may be written anew. */
static inline uint64_t
log_target_floor(const struct log_target *t)
{
	return t->acked_pos != 0 && t->acked_pos < t->head_acked ? t->acked_pos : t->head_acked;
}

/**
 * Its card says that it counts. Not one that was formatted anew, or that may have lost what it had,
 * until it holds everything that was durable when it joined.
 */
static inline bool
log_is_seated(const struct log_target *t)
{
	return t->card.seated;
}

/** What it acknowledges makes records durable. */
static inline bool
log_counts(const struct log_target *t)
{
	return t->state == WEFT_LOG_TARGET_LIVE && log_is_seated(t);
}

/**
 * Where its head may go: to that of the log, and never past the end of its own last record. So a
 * trim waits for nothing, and gives up what a target has that lags behind.
 */
static inline uint64_t
log_trim_to(const struct weft_log *log, const struct log_target *t)
{
	return log_min(log->head.position, t->acked.position);
}

/** The target's address of a position. */
static inline uint64_t
log_ring_to(const struct weft_log *log, const struct log_target *t, uint64_t position)
{
	return t->to + WEFT_LOG_RING_OFF + position % log->g.ring_bytes;
}

/* log.c */
/** Tell what there is to tell, and send what there is to send; not from inside a change. */
void log_run(struct weft_log *log);
/** The same soon, from where nobody may be called back. */
void log_later(struct weft_log *log);
/** On each call of the application: what could not be put off. */
static inline void
log_entered(struct weft_log *log)
{
	if (log->owed)
		log_later(log);
}
void log_lost(struct weft_log *log, struct log_target *t, int status);
/** Something there is not what it must be: to be told. */
void log_damaged(struct log_target *t, enum weft_log_damage what, uint64_t position);
void log_fail(struct weft_log *log, int status);
/** Tests only. */
void weft_log_sabotage(struct weft_log *log, enum log_sabotage s);

#endif /* LOG_PRIV_H */
