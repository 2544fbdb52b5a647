/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOG_TARGET_H
#define LOG_TARGET_H

/** @file The log's state of one of its targets, and of its catch-up. */

#include "log_wire.h"
#include <weft/log.h>

/** A transaction under way to a target: records up to last_pos, durable with its completion. */
struct log_transaction {
	struct weft_log_at end;
	uint64_t last_pos;
	uint32_t places;
};

struct log_target;
typedef void (*log_step_fn)(struct weft_log *log, struct log_target *t);

/** The parts of a target's catch-up (log_catch_part.h). */
enum log_catch_part {
	LOG_CATCH_WAIT, /**< a step or a Read is under way, or the target is fed */
	LOG_CATCH_COMPARE,
	LOG_CATCH_COMMON, /**< hdr is the last record that target and log share */
	LOG_CATCH_COPY,
	LOG_CATCH_ANEW,
	LOG_CATCH_UNSEAT,
	LOG_CATCH_END, /**< the missing records are in the window */
};

/** State of a target's catch-up. */
struct log_catch {
	enum log_catch_part part, todo; /**< under way; to be done next */
	struct weft_log_at at;          /**< the target has everything before */
	struct weft_log_at next;        /**< `at` after the write under way */
	uint64_t epoch;                 /**< epoch of the record before at */
	/** of the last record in the write under way; 0: it is a filler alone */
	uint64_t last_pos, last_epoch;
	struct weft_log_at last_end; /**< end of that record */
	/** the target gets the last record of a log that is trimmed completely, in front of the
	 * head */
	bool last;
	uint64_t goal_seq;
	unsigned int rounds, back;
	/** header of the target's own record that is compared, or of the long one that is copied */
	struct log_hdr hdr;
	uint8_t raw[WEFT_LOG_HEADER_BYTES];
	/** its record that no source has (log_catch_doubt.c); position 0: none */
	struct log_hdr doubt;
	uint8_t doubt_raw[WEFT_LOG_HEADER_BYTES];
	uint32_t doubt_bad; /**< those sources: one bit per index */
	uint32_t holes;     /**< sources without a header where hdr is, which another has */
	uint64_t big_off;
	uint32_t big_crc;
	uint32_t bad;     /**< sources whose copy of this record is damaged: one bit per index */
	uint64_t records; /**< records in the write under way */
	/* the read from a source */
	uint64_t src_pos;
	uint32_t src_bytes;
	unsigned int src;
	bool reading, waiting;
	log_step_fn got; /**< runs with the data */
};

/** A target's role in a log that is being opened, or is open. */
enum log_role {
	LOG_MEMBER, /**< seated: its records may be the only copy */
	/** it has a place, and counts again when it has everything that was durable when it
	 * joined */
	LOG_UNSEATED,
	LOG_STRANGER, /**< it gets a place by a record of its own */
};

struct log_target {
	enum weft_log_target_state state;
	unsigned int index;
	uint16_t gen; /**< generation of its QP: completions of earlier QPs are ignored */
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
	/* the target's content, as it was found */
	bool has_format;
	struct weft_log_super format;
	uint8_t id[16];
	uint64_t words[3]; /**< card, tail, head, as they were read */
	struct log_card card, card_next;
	bool card_bad; /**< the card's check is wrong */
	/** damaged while the log is open: it is begun anew without being counted */
	bool broken;
	/** tail 0: it names no record; head 0: it is not valid */
	uint64_t head, tail, tail_epoch, tail_lives;
	uint64_t head_seq; /**< number of the record at the head, before the open; 0: not known */
	bool anew;         /**< its records are given up, and it has none yet */
	uint32_t knows;    /**< sum of the lives that the target knows */
	uint8_t tail_raw[WEFT_LOG_HEADER_BYTES];
	struct weft_log_at end;
	bool counts, claimed; /**< flags of the opening */
	enum log_role role;
	/* its words */
	uint32_t tail_seed, head_seed; /**< checks, but for the value (log_word_seed()) */
	bool tail_ours, head_ours;     /**< whether they carry the stamp of this epoch */
	uint64_t stamp_head;
	log_step_fn words_done;
	/* the target's progress */
	struct weft_log_at acked;       /**< end of the last record durable there */
	uint64_t acked_pos;             /**< position of that record; 0: none */
	uint64_t head_acked, head_sent; /**< head durable there; head under way, or 0 */
	uint64_t next_seq;              /**< next number to be sent */
	/** not seated: everything before this was made durable without this target */
	uint64_t owed_seq;
	/** `acked` when the target was reported as lagging; 0: it was not */
	uint64_t lag_seq;
	bool pinned; /**< the target catches up, and the window waits for it */
	uint64_t pin_seq;
	struct log_transaction *transactions;
	uint32_t transaction_first, ntransactions;
	struct log_catch c;
	/* events to be reported */
	bool ev_joined, ev_live, ev_lost, ev_lag, ev_damaged;
	enum weft_log_damage damage;
	uint64_t damage_pos, damage_epoch;
	int lost_status;
	void *lost_user;
};

#endif /* LOG_TARGET_H */
