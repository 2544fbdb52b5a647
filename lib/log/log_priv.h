/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOG_PRIV_H
#define LOG_PRIV_H

/**
 * @file The state of a remote log. Everything runs on one worker's thread.
 *
 * Appends wait in a window of slots. Each live target has a cursor into the window, and takes from
 * there what its pipeline has room for. So a slow target delays no other target until the window is
 * full. A slot is durable when a quorum has it, and released when every live target has it.
 *
 * No callback runs in the middle of a change. Events are recorded, and log_run() reports them.
 */

#include "log_base.h"
#include "log_target.h"
#include "log_wire.h"
#include <weft/commit.h>
#include <weft/log.h>
#include <weft/ulp.h>
#include <weft/worker.h>

/* Tests have a copy of the sources that use this, whose log is wrong where they say
 * (test/sabotage). The product's cannot be. */
#ifdef WEFT_TEST_HOOKS
#include "log_sabotage.h"
#define LOG_SABOTAGED(log, fault) log_sabotaged(log, LOG_##fault)
#else
#define LOG_SABOTAGED(log, fault) ((void)(log), false)
#endif

#define LOG_SEND_SGE           16 /**< scatter/gather elements of a Write */
#define LOG_TRANSACTION_WRITES 8  /**< Writes of a transaction, besides its filler's */
#define LOG_TRANSACTION_PIECES (LOG_SEND_SGE * LOG_TRANSACTION_WRITES)
/** send queue entries of a transaction, at most */
#define LOG_TRANSACTION_PLACES (LOG_TRANSACTION_WRITES + 8)
/** after these rounds appends wait for the target that catches up */
#define LOG_CATCH_ROUNDS 8
#define LOG_WORD_STRIDE  64 /**< octets from one word to the next */
/** records examined to find the last one that a target shares with the log */
#define LOG_BACK_STEPS 65536

struct log_slot {
	struct weft_log_at at, next;
	uint64_t gap_bytes; /**< octets of the filler in front; 0: none */
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
	int status;    /**< 0: no answer yet; 1: records have arrived; else an error */
	uint64_t need; /**< octets needed, with -EMSGSIZE */
	bool again;    /**< to be reported, or posted again */
	struct weft_sge buf;
	struct weft_log_at at;
	weft_log_read_fn fn;
	void *arg;
};

/** The target whose head an open examines. */
enum log_head_of {
	LOG_HEAD_MEMBER, /**< of a member that is not the authoritative target */
	LOG_HEAD_KEEP,   /**< the place that the application names */
	/** of the authoritative target: where the record is not whole, it is damaged */
	LOG_HEAD_AUTHORITATIVE,
};

/** A trim whose place is looked up at a target. */
struct log_proof {
	struct weft_log_at keep; /**< number 0: none */
	struct weft_log_at next; /**< the highest one asked for meanwhile */
	bool due;                /**< a target is to be asked */
	/** the target is asked for the record that shows whether a filler covers the place */
	bool lap;
	bool filler;         /**< a filler begins at the place */
	unsigned int target; /**< the one that is asked */
	uint32_t tried;      /**< targets that have another record there: one bit per index */
};

extern struct weft_handle_kind log_kind;

struct weft_log {
	struct weft_handle h;
	const struct log_ops *ops;
	struct weft_ctx *ctx;
	struct weft_pd *pd;
	struct weft_worker *worker;
	struct weft_cq *cq;
	struct weft_mr *mr;
	struct weft_alarm *alarm;
	uint8_t *bufs;
	weft_log_event_fn on_event;
	void *user;
	uint32_t ntargets, quorum, max_appends, max_sge, max_transactions, transaction_bytes,
	        copy_bytes;
	uint32_t flush_flags;
	char hash[32];
	bool verify;
	uint8_t key[WEFT_HASH_KEY_MAX_BYTES];
	uint32_t key_bytes;
	uint64_t wait_us;         /**< for targets that an open log lacks; 0: it ends */
	struct weft_alarm *waits; /**< the end of that time; NULL: it lacks none */
	bool dead, running, again;
	bool owed; /**< the alarm found no memory: log_run() at the next call */
	enum weft_log_state state;
	int fail_status;
	bool ev_failed, ev_open, ev_room;
	bool have_geom;
	struct log_geom g;
	uint8_t log_id[16];
	uint64_t epoch;
	uint64_t lives;    /**< the membership; version 1: 0 */
	uint64_t seat_seq; /**< number of the record of the seat under way; 0: none */
	unsigned int seat_target, seat_place;
	uint32_t offered;           /**< number of targets that were offered a place */
	unsigned int authoritative; /**< index of the authoritative target, while opening */
	/* The head that an open considers, and the targets' bits by index. */
	uint32_t head_asked; /**< members whose head was considered */
	uint32_t head_tried; /**< targets that do not have the record at this head whole */
	uint64_t head_want;  /**< the number that the record there must have; 0: any */
	enum log_head_of head_of;
	/** the target, other than the authoritative one, that is asked for the record at the head;
	 * NULL: none */
	struct log_target *head_from;
	struct log_hdr head_hdr; /**< header of that record, as that target has it */
	bool fresh, begun;       /**< begun: a target is live */
	uint64_t opening_seq;
	bool opening_due;        /**< the opening record waits for room from a trim */
	struct weft_log_at keep; /**< trim to it at the open; position 0: do not trim */
	struct weft_log_at head; /**< the last trim */
	struct weft_log_at dur;  /**< end of the last durable record */
	struct weft_log_at end;  /**< end of the last record appended */
	uint64_t last_pos;       /**< position of the last record appended */
	/** the first append whose result was not reported; at most dur.seq */
	uint64_t told_seq;
	uint64_t rel_seq; /**< the first append that is not released; at most told_seq */
	uint8_t before_raw[WEFT_LOG_HEADER_BYTES]; /**< header of the record before rel_seq */
	uint64_t refused_bytes; /**< length of an append that found no room in the ring; 0: none */
	bool refused_window;
	/** max_appends, and some for the records of seats: while the appends wait for a seat, these
	 * do not wait for the appends */
	uint32_t num_slots;
	size_t slot_bytes;
	uint8_t *slots;
	struct log_target target[WEFT_LOG_MAX_TARGETS];
	struct log_read read[WEFT_LOG_MAX_READS];
	struct log_proof proof;
	struct weft_log_info stats; /**< counters */
};

enum log_wr {
	LOG_WR_TRANSACTION = 1,
	LOG_WR_TRIM,
	LOG_WR_STEP,
	LOG_WR_COPY,
	LOG_WR_READ,
	LOG_WR_PROOF,
	LOG_WR_NONE
};

/** Check a query: the handle is a log's, also inside the callback of its end, and the caller is
 * on its worker's thread. -EINVAL, -EPERM. */
static inline int
log_asked(const struct weft_log *log, const char *call)
{
	int rc = weft_handle_check(log, &log_kind, call);

	return rc < 0 ? rc : weft_worker_check_thread(log->worker, call);
}

/** Check a call: as log_asked(), and the log is not being destroyed. */
static inline int
log_call(const struct weft_log *log, const char *call)
{
	int rc = log_asked(log, call);

	return rc == 0 && log->dead ? weft_handle_refused(&log->h, &log_kind, call) : rc;
}

static inline struct log_slot *
log_slot(const struct weft_log *log, uint64_t seq)
{
	return (struct log_slot *)(log->slots + seq % log->num_slots * log->slot_bytes);
}

static inline uint64_t
log_wr_id(const struct log_target *t, enum log_wr kind, uint32_t index)
{
	return (uint64_t)t->gen << 48 | (uint64_t)t->index << 40 | (uint64_t)kind << 32 | index;
}

/** The target's memory before this position may be overwritten. */
static inline uint64_t
log_target_floor(const struct log_target *t)
{
	return t->acked_pos != 0 && t->acked_pos < t->head_acked ? t->acked_pos : t->head_acked;
}

/**
 * In a log that waits for its targets, whether one that is not in `tried` (one bit per index) may
 * soon have the record at this position, which no live target has now. When the wait is over, the
 * ones that have it may still catch up, and the live ones may get it from the window.
 */
static inline bool
log_may_have(const struct weft_log *log, uint32_t tried, uint64_t position)
{
	for (unsigned int i = 0; log->wait_us != 0 && i < log->ntargets; i++) {
		const struct log_target *t = &log->target[i];

		if ((tried & 1U << i) == 0 &&
		    (t->state == WEFT_LOG_TARGET_CATCHING ||
		     (t->state == WEFT_LOG_TARGET_LIVE && t->acked.position <= position)))
			return true;
	}
	return log->waits != NULL;
}

/**
 * Whether the target's card says that it counts. A target that was formatted anew, or that may have
 * lost records, does not count until it holds everything that was durable when it joined.
 */
static inline bool
log_is_seated(const struct log_target *t)
{
	return t->card.seated;
}

/** Whether the target's acknowledgements make records durable. */
static inline bool
log_counts(const struct log_target *t)
{
	return t->state == WEFT_LOG_TARGET_LIVE && log_is_seated(t);
}

/**
 * How far the target's head may go: to the head of the log, but not past the end of the target's
 * own last record. So a trim waits for no target, and a target that lags gives up its trimmed
 * records.
 */
static inline uint64_t
log_trim_to(const struct weft_log *log, const struct log_target *t)
{
	return log_min(log->head.position, t->acked.position);
}

/** The tagged offset of a position in the target's ring. */
static inline uint64_t
log_ring_to(const struct weft_log *log, const struct log_target *t, uint64_t position)
{
	return t->to + WEFT_LOG_RING_OFF + position % log->g.ring_bytes;
}

/** At each call of the application: run what the alarm should have run. */
static inline void
log_entered(struct weft_log *log)
{
	if (log->owed)
		log_later(log);
}

#endif /* LOG_PRIV_H */
