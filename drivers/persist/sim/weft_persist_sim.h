/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERSIST_SIM_H
#define WEFT_PERSIST_SIM_H

/**
 * @file Persist driver "sim": a simulated medium whose power tests can cut. Only test programs link
 * it; libweft and the programs do not have it, and no configuration can name it.
 *
 * The driver has two copies: the memory that peers and CPUs write, and the medium. The medium
 * starts as zeros and holds only what reached it:
 *
 * - A Flush for persistence takes a snapshot of what memory has in its range and the medium has
 *   not. When the Flush is done, every such atom (8 aligned octets) is on the medium, with its
 *   value at the submission or at the end. Until then any of them may be there; when the Flush
 *   fails, some are.
 * - Any other changed atom may reach the medium whenever the clock steps and whenever the driver is
 *   called, in any order, within a cache line too. An atom is never written in part.
 * - A Flush does not write a page that was not marked as written (weft_persist_mark()), as in the
 *   file driver. So a missing mark loses data.
 * - read_back copies from the medium, never from memory.
 *
 * Delays follow the clock that the test steps. A request that is due goes to the executor with
 * which it was submitted, and completes in that worker's poll. With delays nothing completes
 * without weft_persist_sim_step(), so weft_persist_flush_wait() must not be used.
 *
 * All choices follow from the seed. One thread. Every call scans the whole mapping, so mappings are
 * small.
 */

#include <weft/persist.h>

struct weft_persist_sim_cfg {
	uint64_t seed;
	/** Duration of a Flush or read-back, uniform between the two; both 0: it completes
	 * inside its submission. */
	uint64_t delay_min_ns, delay_max_ns;
	/** chance, per step and call, of each changed atom to reach the medium without a Flush */
	uint32_t leak_ppm;
	uint32_t busy_ppm; /**< chance of a submission to return -EAGAIN */
};

/** A fault that strikes once. */
enum weft_persist_sim_fault {
	/** a Flush of the range succeeds, then one bit of the range is flipped on the medium */
	WEFT_SIM_FLIP,
	WEFT_SIM_FLUSH_ERR, /**< a Flush fails with -EIO, after a part of it */
	WEFT_SIM_READ_ERR,  /**< a read-back fails with -EIO */
};

struct weft_persist_sim_stats {
	uint64_t flushes, read_backs; /**< done without an error */
	uint64_t flushed_atoms, leaked_atoms;
	uint64_t writes; /**< changes of the medium, flipped bits included */
	uint64_t busy;   /**< submissions refused */
	uint64_t faults; /**< faults of weft_persist_sim_fault() that struck */
	uint64_t boots;
};

/** Set the behaviour from now on; requests under way keep their time. A freshly opened medium
 * behaves as with all zeros. */
void weft_persist_sim_set(struct weft_persist *p, const struct weft_persist_sim_cfg *cfg);
/** Step the clock to now_ns: atoms may reach the medium, and requests that are due go to their
 * executor. */
void weft_persist_sim_step(struct weft_persist *p, uint64_t now_ns);
/** When the next request is due; UINT64_MAX: none is under way. */
uint64_t weft_persist_sim_next_ns(const struct weft_persist *p);
/** The content that would be left if the power were cut now; p->bytes octets, valid until the
 * close. */
const uint8_t *weft_persist_sim_medium(const struct weft_persist *p);
/** Flip one bit of the medium; memory does not change. Bit 0 is the lowest of the first octet. */
void weft_persist_sim_flip(struct weft_persist *p, uint64_t bit);
/**
 * Set the fault: of the requests of its kind that touch [off, off + len), `skip` are spared and the
 * next one fails. Replaces the fault set before.
 */
void weft_persist_sim_fault(struct weft_persist *p, enum weft_persist_sim_fault what,
                            uint64_t off_bytes, uint64_t len_bytes, unsigned int skip);
/** Cut the power: nothing reaches the medium any more. Requests under way and new ones end with
 * -EIO. */
void weft_persist_sim_cut(struct weft_persist *p);
/** Restore the power: memory becomes the medium's content. No request may be under way. */
void weft_persist_sim_boot(struct weft_persist *p);
const struct weft_persist_sim_stats *weft_persist_sim_stats(const struct weft_persist *p);

#endif /* WEFT_PERSIST_SIM_H */
