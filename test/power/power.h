/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef POWER_H
#define POWER_H

/**
 * @file
 * Transactions against a target whose power can go at any step.
 *
 * An initiator (on node 0) commits transactions 1, 2, ...: Write..., Flush, Verify, Atomic Write of
 * the commit word, Flush of the commit word, several transactions in flight; by weft_commit(), or
 * posted one by one. The target's memory is on driver "sim": a commit word and a ring of slots,
 * transaction i in slot i modulo POWER_SLOTS. In between it reads the commit word, and counts by
 * RFC 7306 atomics: both are carried out in their turn among the rest, so each has one right
 * answer.
 *
 * Two initiators have a stream, a region and a commit word each, side by side on one medium; pages
 * they share.
 *
 * The medium at any moment is what a power cut at that moment would leave, so it is judged at every
 * step of the simulation. Now and then the power really goes: the stream is lost, memory is what
 * the medium held, the initiator connects anew, reads the commit word and goes on from there. Or
 * only the stream is lost, as when the initiator dies: then memory has more than the medium, and
 * who comes back flushes it before the commit word counts.
 */

#include "vt.h"
#include "weft_persist_sim.h"

#define POWER_SLOTS      8
#define POWER_SLOT_BYTES 6000 /**< the longest transaction: two read-backs */
#define POWER_DEPTH_MAX  4    /**< transactions in flight; fewer than slots */
#define POWER_INITS      2
#define POWER_ASIDES     8                       /**< Reads and atomics in flight */
#define POWER_STRIDE     (POWER_SLOT_BYTES + 48) /**< slots begin anywhere in a page */
#define POWER_FIRST      64 /**< the commit word has a cache line of its own, with the counter */
#define POWER_COUNTER    16
#define POWER_PART       (POWER_FIRST + POWER_SLOTS * POWER_STRIDE) /**< of one initiator */

/** In the lowest octet of a wr_id: the completion of a transaction; otherwise an opcode. */
#define POWER_LAST       0xffu
#define POWER_TXN(wr_id) ((wr_id) >> 8 & UINT32_MAX)

/** What a medium can have against it. */
enum power_verdict {
	POWER_SOUND,
	POWER_TORN,    /**< the commit word is none that was ever written whole */
	POWER_LOST,    /**< it is older than an acknowledged transaction */
	POWER_HOLE,    /**< a transaction that it covers is not there as it was sent */
	POWER_STOPPED, /**< the stream ended by itself: Verify does not find what was flushed */
	POWER_VERDICTS
};

/** How a transaction is posted. */
enum power_post { POWER_DRAWN, POWER_BY_HAND, POWER_COMMIT };

struct power_attr {
	uint64_t seed;
	unsigned int txns;  /**< to be committed, by each initiator */
	unsigned int inits; /**< [1] */
	unsigned int cuts;  /**< real ones, at most; a run without is judged all the same */
	enum power_post post;
	bool no_verify; /**< leave the Verifies out */
	bool no_asides; /**< and what comes between transactions */
	bool quick;     /**< links without loss */
	bool exact;     /**< no Flush of the whole region */
	bool swapped;   /**< the initiator commits before it flushes the data; by hand */
	/** it commits by a Write across two atoms in the place of an Atomic Write; by hand */
	bool plain;
	enum weft_rdmap_sabotage sabotage; /**< of the target */
};

struct power;

struct power_init {
	struct power *p;
	unsigned int id;
	struct weft_qp *qp[2]; /**< of either node */
	struct weft_mr *mr;    /**< the target's */
	unsigned int depth;
	uint64_t posted, acked;
	uint32_t len[POWER_SLOTS]; /**< of the transaction last sent from it */
	uint8_t expect[POWER_SLOTS][4];
	/* Reads and atomics */
	uint64_t asides_posted, asides_done;
	uint64_t want[POWER_ASIDES]; /**< a Read's right answer */
	bool counting;               /**< the counter is known since this stream began */
	uint64_t counter;            /**< as the last atomic left it */
	uint64_t odd;                /**< answers that were not right */
	uint64_t asides;             /**< answers that were looked at */
};

struct power {
	struct vt t;
	struct power_attr a;
	struct weft_persist_sim_cfg cfg;
	uint64_t rng;
	struct power_init in[POWER_INITS];
	bool no_verify, broken;
	bool running;
	uint64_t steps, cut_at; /**< steps of this life; the one at which the power goes */
	bool stream_only;       /**< it is the streams that go then, the target's power stays */
	unsigned int cuts_done, resets_done;
	uint64_t judged, units; /**< media; transactions by weft_commit() */
	enum power_verdict verdict;
	struct weft_wc failed; /**< the first completion that is no success */
	uint64_t nfailed;
	bool cut;
};

void power_open(struct power *p, const struct power_attr *a);
void power_close(struct power *p);
/** Until all is committed, or something is wrong; with its cuts. */
void power_run(struct power *p);
/** Until every transaction is committed or the stream has ended; no cuts. */
void power_run_life(struct power *p);
/** The commit word of memory or medium: a transaction's number, or UINT64_MAX. */
uint64_t power_word(const uint8_t *at);
/** Where transaction i lies in its initiator's part. */
uint64_t power_slot(uint64_t i);
const char *power_verdict_str(enum power_verdict v);

/* power_init.c */
uint64_t power_draw(struct power *p, uint64_t n);
/** Where the commit word lies in a part. */
uint64_t power_word_at(const struct power *p);
/** Tagged offset, at the target, of octet `at` of the initiator's part. */
uint64_t power_to(const struct power_init *in, uint64_t at);
struct weft_wr power_flush(struct power_init *in, uint64_t at, uint32_t len);
/** The next transaction; now and then something beside it. */
void power_post(struct power_init *in);
/** A completion of its stream. */
void power_on_wc(struct power_init *in, const struct weft_wc *wc);
/** A stream begins: what its transactions go on from. */
void power_resume(struct power_init *in, uint64_t word);

#endif /* POWER_H */
