/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_COMMIT_H
#define WEFT_COMMIT_H

/**
 * @file A transaction on remote memory as one work request: the data written, made durable and
 * proved to be on the medium as sent, and only then a commit word changed and made durable
 * (draft-talpey-rdma-commit-02 s2). Installed; stands alone.
 *
 * One call posts, in this order and without waiting in between,
 *
 * 	WRITE ...  FLUSH ...  VERIFY ...  ATOMIC WRITE of the commit word  FLUSH of the commit word
 *
 * The peer begins a Flush when every Write before it is placed, a Verify after the Flushes, the
 * Atomic Write only when all of these have succeeded (s2.3.2): so the word never names data that
 * are not durable and intact, and one round trip is all there is to wait for. A successful
 * completion is the last response, that of the Flush of the word: an Atomic Write is not durable by
 * itself (s2.3.2).
 *
 * The unit is taken whole or not at all, stands in the send queue in one piece whoever else posts,
 * and makes one completion, WEFT_WC_COMMIT, however it ends. Any number may be under way: those of
 * one QP are carried out, and complete, in the order of the calls.
 *
 * What a crash leaves. The ranges are not atomic: of a unit that did not succeed any octet of them
 * may be old or new, in the peer's memory and, after a power cut, on its medium, in any mixture (a
 * sector that is being written keeps its old octets or has its new ones, docs/drivers.md). The word
 * alone is atomic, so write ranges where nothing that the word names is: a second slot, the free
 * part of a ring. Without a successful completion the word may be the old or the new one; if it is
 * new, the ranges are durable and whole.
 *
 * Who builds on a word that another wrote, or that he wrote himself before a crash of either side,
 * flushes it and then reads it, in this order on one QP: what memory has the medium may not have
 * yet, and a word that is read without the Flush can be an older one after the next power cut. The
 * same goes for all that is read with it, a header that says how the medium is laid out for one.
 * And he makes sure first that no earlier writer's operations are still under way: an Atomic Write
 * is not conditional, so only the owner of the memory can, by ending the old grant and waiting
 * until nothing that came by it touches the memory (weft/log_host.h does that for logs).
 */

#include <weft/api.h>
#include <weft/verbs.h>

WEFT_API_BEGIN

#define WEFT_COMMIT_MAX_RANGES 32 /**< of one unit */

/** A piece of the peer's memory that belongs to the transaction. */
struct weft_commit_range {
	/**
	 * What is written there; as in struct weft_wr: copied at the post, at most max_send_sge
	 * pieces, and the octets stay weft's until the completion. None: they were written before,
	 * by WEFT_WR_WRITE on this QP.
	 */
	const struct weft_sge *sg_list;
	uint32_t num_sge;
	uint32_t flags; /**< WEFT_COMMIT_INLINE */
	uint32_t stag;  /**< remote */
	/**
	 * Octets that are flushed and verified; 0: as many as sg_list has. More: the ones behind
	 * those of sg_list were written before. Fewer: -EINVAL.
	 */
	uint32_t len_bytes;
	uint64_t to;
	/**
	 * Hash of these octets, as the peer's region computes it (weft_commit_hash()), copied at
	 * the post. NULL: this range is not verified.
	 */
	const void *expect;
	uint32_t expect_bytes;
};

/** of a range: the payload is copied at the post, at most max_inline_bytes */
#define WEFT_COMMIT_INLINE 0x1

/** no Flush of anything: memory that forgets anyway. A Verify needs none there */
#define WEFT_COMMIT_NO_FLUSH 0x1
/**
 * No commit word: data made durable and proved, for a commit that follows. The completion comes
 * with the last response of the ranges (of Writes alone: when they are copied).
 */
#define WEFT_COMMIT_NO_WORD 0x2
#define WEFT_COMMIT_FENCE   0x4 /**< as WEFT_WR_FENCE, for the unit's begin */

struct weft_commit {
	uint64_t wr_id;
	uint32_t flags; /**< WEFT_COMMIT_NO_FLUSH, ... */
	/**
	 * [WEFT_FLUSH_PERSISTENT] Of all Flushes. With WEFT_FLUSH_REGION the data's are one for
	 * each run of ranges with the same STag, and take in that region whole; the word's takes in
	 * the word.
	 */
	uint32_t flush_flags;
	/** In the order they are written; each Flush comes behind all Writes, each Verify behind
	 * all Flushes. */
	const struct weft_commit_range *ranges;
	uint32_t num_ranges; /**< 0: the commit word alone */
	struct {
		uint32_t stag;
		uint64_t to;     /**< the target address must be 8-octet aligned */
		uint8_t data[8]; /**< memory gets these octets in this order, at once */
	} word;                  /**< not looked at with WEFT_COMMIT_NO_WORD */
};

/** What a completion WEFT_WC_COMMIT that is no success names: weft_wc.commit.step. */
enum weft_commit_step {
	WEFT_COMMIT_STEP_WRITE,
	WEFT_COMMIT_STEP_FLUSH,
	WEFT_COMMIT_STEP_VERIFY,
	WEFT_COMMIT_STEP_WORD, /**< the Atomic Write */
	WEFT_COMMIT_STEP_WORD_FLUSH,
};

/** "write", "flush", "verify", "atomic write of the commit word", "flush of the commit word";
 * static. */
const char *weft_commit_step_str(uint32_t step);

/**
 * Post a transaction. 0: it is taken, and makes one completion: opcode WEFT_WC_COMMIT, wr_id, and
 *
 * - WEFT_WC_SUCCESS: the last response has come, or
 * - what became of the first step that did not succeed, which weft_wc.commit.step and .range (index
 *   into ranges; 0 of the word's steps) name: WEFT_WC_REMOTE_ACCESS, WEFT_WC_REMOTE_OP,
 *   WEFT_WC_HASH_MISMATCH (of a Verify) when the peer's Terminate says that it was this one;
 *   WEFT_WC_LOCAL_PROT for an lkey that turned out bad on the worker; WEFT_WC_FLUSHED when the
 *   stream ended for any other reason, the step then being the first one that was not done (a Write
 *   is done once it is copied).
 *
 * Failed with another status than WEFT_WC_FLUSHED before step WORD_FLUSH: the word keeps its old
 * value. Failed at WORD_FLUSH, the peer's memory has the new word, its medium the old or the new
 * one. WEFT_WC_FLUSHED says nothing of the peer: whoever connects anew finds the old or the new
 * word, the transaction whole with it. A Write is told by the STag and offset that the Terminate
 * names: when several under way have these, all are WEFT_WC_FLUSHED; a Write of weft_post_send() to
 * the same octets while the unit is under way may be taken for its. A peer that answers a Verify
 * with another hash than was expected and sends no Terminate breaks the draft (s2.2.2):
 * WEFT_WC_HASH_MISMATCH, but such a peer may have changed the word, and the QP lives on.
 *
 * It takes weft_commit_places() places of the send queue, which come back with the completion, and
 * of the peer's inbound requests one for each Flush, Verify and Atomic Write; with a smaller ORD
 * than that it works, and waits for answers in between. No heap, but at the first call on a QP, or
 * when more than 32 more Verifies are under way than ever before.
 *
 * Refused, nothing was posted:
 *  -EAGAIN    the send queue has no room for all of it now
 *  -EMSGSIZE  nor will it ever have: more places than sq_depth
 *  -EBUSY     a range to be written overlaps one with a Verify under way on this QP (below)
 *  -EINVAL    no QP, or destroyed; c is NULL; malformed: unknown flags; more ranges than
 *             WEFT_COMMIT_MAX_RANGES; an empty range, or one with fewer octets than are written;
 *             more pieces than max_send_sge; 4 GiB or more in one range; an inline payload longer
 *             than max_inline_bytes; a bad lkey (struct weft_sge); an expected hash of no or more
 *             octets than WEFT_HASH_MAX_BYTES; nothing to do
 *  -ENOTCONN  not established yet
 *  -ENOMEM    see above
 * On a QP that has left RTS it is taken, and completes as flushed.
 *
 * A range with a Verify under way must not be written: what the Verify finds would be undefined
 * (s2.2.2), and a mismatch ends the stream. Under way is every Verify, of a unit or posted as
 * WEFT_WR_VERIFY, from the call that posts it until its completion can be polled (of a unit: the
 * unit's). Ranges overlap when they name the same STag and share octets; that two STags name the
 * same memory cannot be seen from here. The commit word is not looked at: an Atomic Write waits for
 * every Verify before it. weft_post_send() refuses nothing.
 *
 * Any thread. Whatever was posted by a call that has returned is seen, wherever it was made; of two
 * units that race for a range at least one is refused, both may be. A weft_post_send() of a Verify
 * that runs at the same time as this call may go either way, and be ahead of the unit in the queue:
 * order such calls.
 */
int weft_commit(struct weft_qp *qp, const struct weft_commit *c);

/** Places of the send queue that the unit takes; -EINVAL as far as that needs no QP. */
int weft_commit_places(const struct weft_commit *c);

/**
 * Hash what a list of pieces holds, as a region registered with this hash and key does: the
 * expected hash of a range. hash: name of a driver ("crc32c"); key: NULL/0 for a hash that takes
 * none. Not more than the list is hashed: a range that is longer than its sg_list needs a hash of
 * all of it. Octets of the result, or -ENOENT (no such driver), -EINVAL (the key does not suit; a
 * piece without an address; hash or result is NULL), -ENOSPC (result_bytes too small), -ENOMEM, or
 * the driver's. Takes as long as hashing takes, on the caller's thread.
 */
int weft_commit_hash(const char *hash, const void *key, uint32_t key_bytes,
                     const struct weft_sge *sg_list, uint32_t num_sge, void *result,
                     uint32_t result_bytes);

WEFT_API_END

#endif /* WEFT_COMMIT_H */
