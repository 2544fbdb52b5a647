/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERSIST_SIM_H
#define WEFT_PERSIST_SIM_H

/**
 * @file "sim": a medium whose power can be cut, for tests. Linked into test programs only; libweft
 * and the programs do not have it, and no configuration can name it.
 *
 * The driver keeps the memory that peers and CPUs write, and beside it the medium, which starts as
 * zeros and holds only what reached it:
 *
 * - A Flush for persistence takes a snapshot of what its range has that the medium has not. When
 *   the Flush is done every such atom (8 octets, aligned) is on the medium, as it was at the
 *   submission or as it is at the end. Until then any of them may be there, and when it fails some
 *   are.
 * - Any other changed atom may reach the medium whenever the clock steps and whenever the driver is
 *   called, in any order, within a cache line too. No atom is ever half there.
 * - A page that nobody marked as written (weft_persist_mark()) is not written by a Flush, as the
 *   file driver has it: who forgets to mark loses data.
 * - read_back copies from the medium, never from memory.
 *
 * Delays are of the clock that the test steps: a request that is due goes to the executor it was
 * submitted with, and completes in that worker's poll. With delays nothing completes without
 * weft_persist_sim_step(), so weft_persist_flush_wait() is not for such a medium.
 *
 * All choices come from the seed. One thread. Every call looks at the whole mapping: small ones.
 */

#include <weft/persist.h>

struct weft_persist_sim_cfg {
	uint64_t seed;
	/** Time a Flush or read-back takes, uniform between the two; both 0: done inside its
	 * submission. */
	uint64_t delay_min_ns, delay_max_ns;
	/** chance, per step and call, of each changed atom to reach the medium unasked */
	uint32_t leak_ppm;
	uint32_t busy_ppm; /**< chance of a submission to be refused with -EAGAIN */
};

/** What shall go wrong, once. */
enum weft_persist_sim_fault {
	/** a Flush of the range is done, and then one bit of it is another on the medium */
	WEFT_SIM_FLIP,
	WEFT_SIM_FLUSH_ERR, /**< a Flush fails with -EIO, done in part */
	WEFT_SIM_READ_ERR,  /**< a read-back fails with -EIO */
};

struct weft_persist_sim_stats {
	uint64_t flushes, read_backs; /**< done without an error */
	uint64_t flushed_atoms, leaked_atoms;
	uint64_t busy;   /**< submissions refused */
	uint64_t faults; /**< of weft_persist_sim_fault(), that struck */
	uint64_t boots;
};

/** From now on; requests under way keep their time. A freshly opened one behaves as all zeros say.
 */
void weft_persist_sim_set(struct weft_persist *p, const struct weft_persist_sim_cfg *cfg);
/** It is now_ns: atoms leak, and what is due goes to its executor. */
void weft_persist_sim_step(struct weft_persist *p, uint64_t now_ns);
/** When the next request is due; UINT64_MAX: none is under way. */
uint64_t weft_persist_sim_next_ns(const struct weft_persist *p);
/** What would be left if the power went now; p->bytes octets, good until the close. */
const uint8_t *weft_persist_sim_medium(const struct weft_persist *p);
/** Change one bit of the medium now, memory knows nothing of it. bit counts from the first octet's
 * lowest. */
void weft_persist_sim_flip(struct weft_persist *p, uint64_t bit);
/**
 * Of the requests of that kind that touch [off, off + len), `skip` are spared and the next has this
 * fault. In the place of what was asked before.
 */
void weft_persist_sim_fault(struct weft_persist *p, enum weft_persist_sim_fault what,
                            uint64_t off_bytes, uint64_t len_bytes, unsigned int skip);
/** The power goes: nothing reaches the medium any more. What is under way, or comes, ends with
 * -EIO. */
void weft_persist_sim_cut(struct weft_persist *p);
/** It is back: memory is what the medium holds. Nothing may be under way. */
void weft_persist_sim_boot(struct weft_persist *p);
const struct weft_persist_sim_stats *weft_persist_sim_stats(const struct weft_persist *p);

#endif /* WEFT_PERSIST_SIM_H */
