/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOG_TARGET_H
#define LOG_TARGET_H

/** @file What a log knows of one of its targets, and of giving it what it missed. */

#include "log_wire.h"
#include <weft/log.h>

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

#endif /* LOG_TARGET_H */
