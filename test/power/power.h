/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef POWER_H
#define POWER_H

/**
 * @file
 * Transactions to a target that can lose power at any step.
 *
 * An initiator (on node 0) commits transactions 1, 2, ... Each consists of Writes, a Flush, a
 * Verify, an Atomic Write of the commit word, and a Flush of the commit word. It is posted with
 * weft_commit() or as single work requests. Several transactions are in flight. The target's memory
 * is on the driver "sim". It has a commit word and a ring of slots; transaction i uses slot i
 * modulo POWER_SLOTS. Between transactions the initiator reads the commit word and increments a
 * counter with RFC 7306 atomics. The target executes both in order with the transactions, so each
 * has exactly one correct answer.
 *
 * Two initiators have a stream, a region and a commit word each. Their regions are adjacent on one
 * medium and share a page.
 *
 * The content of the medium at any moment is what a power cut would leave, so it is checked at
 * every step of the simulation. In some runs the power is cut: the stream is lost and memory gets
 * the content of the medium. The initiator connects again, reads the commit word and resumes after
 * that transaction. In other runs only the stream is lost, as when the initiator crashes. Memory is
 * then newer than the medium, so the initiator flushes the commit word before it reads it.
 */

#include "rdmap_sabotage.h"
#include "vt.h"
#include "weft_persist_sim.h"

#define POWER_SLOTS      8
#define POWER_SLOT_BYTES 6000 /**< longest transaction: two read-backs */
#define POWER_DEPTH_MAX  4    /**< transactions in flight, fewer than slots */
#define POWER_INITS      2
#define POWER_ASIDES     8 /**< Reads and atomics in flight */
/** Distance of slots. It is no multiple of the page size, so slots begin anywhere in a page. */
#define POWER_STRIDE (POWER_SLOT_BYTES + 48)
/** Offset of the first slot. The commit word and the counter have a cache line of their own. */
#define POWER_FIRST   64
#define POWER_COUNTER 16
#define POWER_PART    (POWER_FIRST + POWER_SLOTS * POWER_STRIDE) /**< part of one initiator */

/** Lowest octet of a wr_id: this value for the last work request of a transaction, else the opcode.
 */
#define POWER_LAST       0xffu
#define POWER_TXN(wr_id) ((wr_id) >> 8 & UINT32_MAX)

/** Result of a check of the medium. */
enum power_verdict {
	POWER_SOUND,
	POWER_TORN,    /**< the commit word has a value that was never written */
	POWER_LOST,    /**< the commit word is older than an acknowledged transaction */
	POWER_HOLE,    /**< a transaction that the commit word covers differs from the one sent */
	POWER_STOPPED, /**< the stream ended with an error: a Verify did not match */
	POWER_VERDICTS
};

/** How a transaction is posted. */
enum power_post { POWER_DRAWN, POWER_BY_HAND, POWER_COMMIT };

struct power_attr {
	uint64_t seed;
	unsigned int txns;  /**< transactions that each initiator commits */
	unsigned int inits; /**< initiators [1] */
	unsigned int cuts;  /**< most power cuts; the medium is checked also without cuts */
	enum power_post post;
	bool no_verify; /**< no Verifies */
	bool no_asides; /**< no Reads and atomics between transactions */
	bool quick;     /**< links without loss */
	bool exact;     /**< no Flush covers the whole region */
	bool swapped;   /**< commits before it flushes the data; single work requests only */
	/** Commits with a Write across two atoms in place of an Atomic Write; single work requests
	 * only. */
	bool plain;
	enum weft_rdmap_sabotage sabotage; /**< sabotage of the target's stack */
};

struct power;

struct power_init {
	struct power *p;
	unsigned int id;
	struct weft_qp *qp[2]; /**< QP of each node */
	struct weft_mr *mr;    /**< region of the target */
	unsigned int depth;
	uint64_t posted, acked;
	uint32_t len[POWER_SLOTS]; /**< length of the last transaction sent from the slot */
	uint8_t expect[POWER_SLOTS][4];
	/* Reads and atomics */
	uint64_t asides_posted, asides_done;
	uint64_t want[POWER_ASIDES]; /**< correct answers of Reads */
	bool counting;               /**< counter is known on this stream */
	uint64_t counter;            /**< value after the last atomic */
	uint64_t odd;                /**< wrong answers */
	uint64_t asides;             /**< checked answers */
};

struct power {
	struct vt t;
	struct power_attr a;
	struct weft_persist_sim_cfg cfg;
	uint64_t rng;
	struct power_init in[POWER_INITS];
	bool no_verify, broken;
	bool running;
	uint64_t steps, cut_at; /**< steps of this life; step of the power cut */
	bool stream_only;       /**< at cut_at only the streams are lost */
	unsigned int cuts_done, resets_done;
	uint64_t judged, units; /**< checks of the medium; transactions by weft_commit() */
	enum power_verdict verdict;
	struct weft_wc failed; /**< the first completion with an error */
	uint64_t nfailed;
	bool cut;
};

void power_open(struct power *p, const struct power_attr *a);
void power_close(struct power *p);
/** Run, with power cuts, until every transaction is committed or a check fails. */
void power_run(struct power *p);
/** Run one life: until every transaction is committed, the stream has ended or step cut_at is
 * reached. */
void power_run_life(struct power *p);
/** Decode a commit word of memory or medium. Returns the transaction's number, or UINT64_MAX if the
 * word is not valid. */
uint64_t power_word(const uint8_t *at);
/** Offset of transaction i in its initiator's part. */
uint64_t power_slot(uint64_t i);
const char *power_verdict_str(enum power_verdict v);

/* power_init.c */
uint64_t power_draw(struct power *p, uint64_t n);
/** Offset of the commit word in a part. */
uint64_t power_word_at(const struct power *p);
/** Tagged offset (TO) at the target of octet `at` of the initiator's part. */
uint64_t power_to(const struct power_init *in, uint64_t at);
struct weft_wr power_flush(struct power_init *in, uint64_t at, uint32_t len);
/** Post the next transaction, and sometimes a Read or an atomic. */
void power_post(struct power_init *in);
/** Process a completion of the initiator's stream. */
void power_on_wc(struct power_init *in, const struct weft_wc *wc);
/** Start on a new stream after the transaction of the given number. */
void power_resume(struct power_init *in, uint64_t word);

#endif /* POWER_H */
