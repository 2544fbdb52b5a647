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

#include "log_wire.h"
#include <weft/commit.h>
#include <weft/log.h>
#include "weft_vworker.h"
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

/** Under way to a target: records up to last_pos, durable with its completion. */
struct log_unit {
	struct weft_log_at end;
	uint64_t last_pos;
	uint32_t places;
};

struct log_target;
typedef void (*log_step_fn)(struct weft_log *log, struct log_target *t);

/** Giving a target what it missed. */
struct log_catch {
	struct weft_log_at at;   /**< it has everything before */
	struct weft_log_at next; /**< when what is under way has been written */
	uint64_t epoch;          /**< of the record before at */
	/** of the last record in what is under way; 0: a filler alone */
	uint64_t last_pos, last_epoch;
	struct weft_log_at last_end; /**< where that ends */
	/** it gets the last record of a log that is trimmed whole, in front of the head */
	bool last;
	uint64_t goal_seq;
	unsigned int rounds, back;
	struct log_hdr hdr; /**< of its own that is compared, or of the long one that is copied */
	uint8_t raw[WEFT_LOG_HEADER_BYTES];
	uint64_t big_off;
	uint32_t big_crc;
	uint32_t bad;     /**< sources whose copy is damaged here: bit by index */
	uint64_t records; /**< in what is under way */
	/* the read from a source */
	uint64_t src_pos;
	uint32_t src_bytes;
	unsigned int src;
	bool reading, waiting;
	log_step_fn got, wanted; /**< runs with it; what was to run when nobody had it */
};

/** What a target is to a log that is being opened, or is open. */
enum log_role {
	LOG_MEMBER, /**< seated: what it has may be the only copy */
	/** it has a place, and counts again when it has all that was durable when it joined */
	LOG_UNSEATED,
	LOG_STRANGER, /**< it gets a place by a record of its own */
};

struct log_target {
	enum weft_log_target_state state;
	unsigned int index;
	uint16_t gen; /**< of its QP: completions of one before are not its */
	struct weft_qp *qp;
	uint32_t stag;
	uint64_t to, len_bytes;
	void *user;
	uint32_t max_send_sge, sq_depth, sq_used;
	uint8_t *buf;
	uint32_t lkey;
	bool src_busy; /**< a Read from a source into buf is under way */
	/* the one step under way */
	log_step_fn step;
	uint32_t step_places;
	/* what it was found to have */
	bool has_format;
	struct weft_log_super format;
	uint8_t id[16];
	uint64_t words[3]; /**< card, tail, head, as they were read */
	struct log_card card, card_next;
	bool card_bad; /**< its check is wrong */
	/** damaged, and the log is open: it is begun anew without being counted */
	bool broken;
	/** tail 0: it names none; head 0: it says nothing */
	uint64_t head, tail, tail_epoch, tail_lives;
	bool anew;      /**< what it had is given up, and it has nothing yet */
	uint32_t knows; /**< sum of the lives that it knows */
	uint8_t tail_raw[WEFT_LOG_HEADER_BYTES];
	struct weft_log_at end;
	bool counts, claimed; /**< at the opening */
	enum log_role role;
	/* its words */
	uint32_t tail_seed, head_seed; /**< checks, but for the value (log_word_seed()) */
	bool tail_ours, head_ours;     /**< with the stamp of this epoch */
	uint64_t stamp_head;
	log_step_fn words_done;
	/* what it has */
	struct weft_log_at acked;       /**< behind the last record durable there */
	uint64_t acked_pos;             /**< where that begins, 0: there is none */
	uint64_t head_acked, head_sent; /**< durable there; under way, or 0 */
	uint64_t next_seq;              /**< to be sent */
	/** not seated: everything before this was durable without it */
	uint64_t owed_seq;
	/** what acked was when it was said to lag; 0: it was not */
	uint64_t lag_seq;
	bool pinned; /**< catching up, and the window waits */
	uint64_t pin_seq;
	struct log_unit *units;
	uint32_t unit_first, nunits;
	struct log_catch c;
	/* to be told */
	bool ev_joined, ev_live, ev_lost, ev_lag, ev_damaged;
	enum weft_log_damage damage;
	uint64_t damage_pos, damage_epoch;
	int lost_status;
	void *lost_user;
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
	int rc = weft_handle_check(WEFT_HANDLE_OF(log), WEFT_HANDLE_LOG, call);

	return rc < 0 ? rc : weft_vworker_check_thread(log->worker, call);
}

/** Whether a call may go on: likewise, and it is not being destroyed. */
static inline int
log_call(const struct weft_log *log, const char *call)
{
	int rc = log_asked(log, call);

	return rc == 0 && log->dead ? weft_handle_refused(&log->h, WEFT_HANDLE_LOG, call) : rc;
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
	return RTE_MIN(log->head.position, t->acked.position);
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

/* log_send.c */
void log_on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n);
/** Post all that can be. */
void log_kick(struct weft_log *log);
/** Change a word, durably; t->step runs then. */
void log_step_word(struct weft_log *log, struct log_target *t, uint32_t off, uint64_t value,
                   log_step_fn step);
/** Write octets of t->buf to the ring, durably, and have the tail name the record at `word` then,
 * unless 0. */
void log_step_copy(struct weft_log *log, struct log_target *t, uint64_t position,
                   uint32_t len_bytes, uint64_t word, log_step_fn step);
/** Read into t->buf. */
void log_step_read(struct weft_log *log, struct log_target *t, uint64_t to, uint32_t len_bytes,
                   log_step_fn step);
/** Post one commit as the step. */
void log_step_commit(struct weft_log *log, struct log_target *t, struct weft_commit *c,
                     log_step_fn step);
/** A Read of another target's: 0 or -EAGAIN. */
int log_post_read(struct weft_log *log, struct log_target *from, enum log_wr kind, uint32_t index,
                  uint64_t to, const struct weft_sge *sink);

/* log_append.c */
/** kind LOG_RECORD or LOG_OPENING; the same errors as weft_log_append(). */
int log_append(struct weft_log *log, enum log_kind kind, const struct weft_log_append *a,
               struct weft_log_at *at);
/** What came back: durable and released appends are told, room is. */
void log_settle(struct weft_log *log);
/** Append the record by which the epoch begins, or wait for the room of a trim. */
void log_append_opening(struct weft_log *log);
/** Append an opening, the room of the reserve taken, too; -EAGAIN: no room now. */
int log_append_seat(struct weft_log *log);

/* log_member.c: cards, words of this epoch, and who gets which place */
/** The epoch is known: what the checks of this target's words begin with. */
void log_words_begin(struct weft_log *log, struct log_target *t);
/** The tail word that names the record at this position, LOG_TAIL_NONE or log_tail_anew(). */
uint64_t log_tail_word(const struct weft_log *log, const struct log_target *t, uint64_t position);
void log_step_tail(struct weft_log *log, struct log_target *t, uint64_t position, log_step_fn step);
void log_step_head(struct weft_log *log, struct log_target *t, uint64_t position, log_step_fn step);
uint64_t log_head_word(const struct weft_log *log, const struct log_target *t, uint64_t position);
/** The card; what it says is t->card when the step runs. */
void log_step_card(struct weft_log *log, struct log_target *t, const struct log_card *card,
                   log_step_fn step);
/** Have tail (position, LOG_TAIL_NONE, log_tail_anew()) and head carry this epoch's stamp. */
void log_step_stamps(struct weft_log *log, struct log_target *t, uint64_t tail, uint64_t head,
                     log_step_fn step);
/** Its place is that of a target that came after it. */
bool log_is_replaced(const struct weft_log *log, const struct log_target *t);
/** What it is to the log. */
enum log_role log_role_of(const struct weft_log *log, const struct log_target *t);
/** Who it is when it is seated, with the log's epoch. */
struct log_card log_seat_card(const struct weft_log *log, const struct log_target *t);
/** The lowest place that nobody has who is here. */
uint8_t log_place_free(const struct weft_log *log);
/** Give a place to a stranger that waits for one. */
void log_seat_next(struct weft_log *log);
/** A target is gone. */
void log_seat_lost(struct weft_log *log, const struct log_target *t);
/** A target that is fed counts from now on, if it holds what it owes. */
void log_admit(struct weft_log *log, struct log_target *t);

/* log_join.c, log_open.c */
void log_open_lost(struct weft_log *log, struct log_target *t);
/** A target has been looked at; open already, it gets what it missed. */
void log_open_joined(struct weft_log *log, struct log_target *t);

/* log_catch.c */
void log_catch_start(struct weft_log *log, struct log_target *t);
/** A source was lost. */
void log_catch_lost(struct weft_log *log, struct log_target *src);
void log_catch_read(struct weft_log *log, struct log_target *src, uint32_t index);
/** Try again what had no room. */
void log_catch_kick(struct weft_log *log, struct log_target *t);

/* log_read.c */
void log_read_done(struct weft_log *log, struct log_target *t, uint32_t index);
void log_read_lost(struct weft_log *log, struct log_target *t);
void log_read_run(struct weft_log *log);
void log_read_end(struct weft_log *log, int status);

#endif /* LOG_PRIV_H */
