/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef POWER_H
#define POWER_H

/**
 * @file
 * Transactions against a target whose power can go at any step.
 *
 * The initiator (node 0) commits transactions 1, 2, ...: Write..., Flush, Verify, Atomic Write of the
 * commit word, Flush of the commit word, several transactions in flight. The target's memory is on
 * driver "sim": a commit word and a ring of slots, transaction i in slot i modulo POWER_SLOTS.
 *
 * The medium at any moment is what a power cut at that moment would leave, so it is judged at every
 * step of the simulation. Now and then the power really goes: the stream is lost, memory is what the
 * medium held, the initiator connects anew, reads the commit word and goes on from there.
 * Or only the stream is lost, as when the initiator dies: then memory has more than the medium, and who
 * comes back flushes it before the commit word counts.
 */

#include "vt.h"
#include "weft_persist_sim.h"

#define POWER_SLOTS      8
#define POWER_SLOT_BYTES 6000 /**< the longest transaction: two read-backs */
#define POWER_DEPTH_MAX  4    /**< transactions in flight; fewer than slots */

/** What a medium can have against it. */
enum power_verdict {
	POWER_SOUND,
	POWER_TORN,    /**< the commit word is none that was ever written whole */
	POWER_LOST,    /**< it is older than an acknowledged transaction */
	POWER_HOLE,    /**< a transaction that it covers is not there as it was sent */
	POWER_STOPPED, /**< the stream ended by itself: Verify does not find what was flushed */
	POWER_VERDICTS
};

struct power_attr {
	uint64_t seed;
	unsigned int txns;  /**< to be committed */
	unsigned int cuts;  /**< real ones, at most; a run without is judged all the same */
	bool no_verify;     /**< leave the Verifies out */
	bool quick;         /**< links without loss */
	bool exact;         /**< no Flush of the whole region */
	bool swapped;       /**< the initiator commits before it flushes the data */
	bool plain;         /**< it commits by a Write across two atoms in the place of an Atomic Write */
	enum weft_rdmap_sabotage sabotage; /**< of the target */
};

struct power {
	struct vt t;
	struct power_attr a;
	struct weft_persist_sim_cfg cfg;
	uint64_t rng;
	unsigned int depth;
	bool no_verify, broken;
	uint64_t posted, acked;
	uint32_t len[POWER_SLOTS]; /**< of the transaction last sent from it */
	bool running;
	uint64_t steps, cut_at; /**< steps of this life; the one at which the power goes */
	bool stream_only; /**< it is the stream that goes then, the target's power stays */
	unsigned int cuts_done, resets_done;
	uint64_t judged;
	enum power_verdict verdict;
	struct weft_wc failed; /**< the first completion that is no success */
	uint64_t nfailed;
	uint8_t expect[POWER_SLOTS][4];
	bool cut;
};

void
power_open(struct power *p, const struct power_attr *a);
void
power_close(struct power *p);
/** Until all is committed, or something is wrong; with its cuts. */
void
power_run(struct power *p);
/** Until every transaction is committed or the stream has ended; no cuts. */
void
power_run_life(struct power *p);
/** The commit word of memory or medium: a transaction's number, or UINT64_MAX. */
uint64_t
power_word(const uint8_t *at);
/** Where transaction i lies. */
uint64_t
power_slot(uint64_t i);
const char *
power_verdict_str(enum power_verdict v);

#endif /* POWER_H */
