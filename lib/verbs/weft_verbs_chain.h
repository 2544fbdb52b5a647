/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_VERBS_CHAIN_H
#define WEFT_VERBS_CHAIN_H

/**
 * @file Chains: several send work requests with one completion, which a transaction is made of; and
 * the watch list, the ranges with a Verify under way that a transaction must not write.
 *
 * The parts of a chain are adjacent in the send queue and leave it together, when the last one is
 * done. So a Write that was copied long ago keeps its place, and a Terminate that names it can be
 * matched.
 *
 * A chain is posted in steps, on any thread: weft_verbs_chain_reserve(), weft_verbs_chain_open(),
 * weft_verbs_chain_part() for each part, weft_verbs_chain_close(). The completion has the status of
 * the part that failed, and its `step` and `range` in weft_wc.commit.
 */

#include <rte_ring.h>
#include <rte_ring_elem.h>

#include <weft/verbs.h>

/** A chain that is being posted. */
struct weft_verbs_chain {
	struct weft_qp *qp;
	uint32_t places; /**< of its parts: adjacent, except where the ring wraps */
	uint32_t n;      /**< parts filled so far */
	bool mine;       /**< posted by the QP's worker */
	uint8_t *at[2];
	uint32_t n1;           /**< number of places at at[0] */
	struct rte_ring *ring; /**< of another thread's post */
};

/**
 * Reserve as many places of the send queue as the chain has parts. -EMSGSIZE: it never has so many.
 * -EAGAIN: now it has not. -ENOMEM.
 */
int weft_verbs_chain_reserve(struct weft_qp *qp, uint32_t places, struct weft_verbs_chain *u);
/** Give the places back; instead of weft_verbs_chain_open(). */
void weft_verbs_chain_cancel(struct weft_verbs_chain *u);
/**
 * Begin to fill them. Earlier posts of other threads come before the chain. -EAGAIN, -ENOMEM: the
 * places are given back.
 */
int weft_verbs_chain_open(struct weft_verbs_chain *u);
/**
 * Fill the next part, as weft_post_send() does. watch: number of a Verify in the watch list, which
 * leaves it with the chain; negative: none. After an error only weft_verbs_chain_close() follows.
 */
int weft_verbs_chain_part(struct weft_verbs_chain *u, const struct weft_wr *wr, uint8_t step,
                          uint32_t range, int watch);
/** All parts are filled (rc 0): post them. Else nothing is posted. Returns 0 or the error. */
int weft_verbs_chain_close(struct weft_verbs_chain *u, int rc);

/* ---- The watch list (verbs_watch.c). Any thread. ---- */

struct verbs_watch;

/**
 * Add a range to the watch list: with a Verify, from before the post until the answer; with
 * `writing`, a range that the caller is about to write, until it is posted. Returns its number, or
 * -ENOMEM.
 */
int weft_verbs_watch_add(struct weft_qp *qp, uint32_t stag, uint64_t to, uint32_t len_bytes,
                         bool writing);
void weft_verbs_watch_del(struct weft_qp *qp, uint32_t i);
/**
 * Whether the range overlaps an entry, except those in own[]. `writes` false: only entries that are
 * about to be written count. The caller has added all its own ranges before.
 */
bool weft_verbs_watch_hit(struct weft_qp *qp, uint32_t stag, uint64_t to, uint32_t len_bytes,
                          bool writes, const uint32_t *own, unsigned int n_own);
void weft_verbs_watch_free(struct verbs_watch *w);

#endif /* WEFT_VERBS_CHAIN_H */
