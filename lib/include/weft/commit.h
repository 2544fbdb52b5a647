/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_COMMIT_H
#define WEFT_COMMIT_H

/**
 * @file A transaction on remote memory in one call. The data is written, made durable, and verified
 * on the medium. Only then the commit word is changed and made durable (draft-talpey-rdma-commit-02
 * s2). Installed; stands alone.
 *
 * One call posts these operations, in this order, without waiting in between:
 *
 * 	WRITE ...  FLUSH ...  VERIFY ...  ATOMIC WRITE of the commit word  FLUSH of the commit word
 *
 * The responder begins a Flush when all Writes before it are placed. It begins a Verify after the
 * Flushes. It begins the Atomic Write only when all of these have succeeded (s2.3.2). So the commit
 * word never names data that is not durable and intact, and the initiator waits for one round trip
 * only. An Atomic Write is not durable by itself (s2.3.2). Therefore the transaction completes
 * successfully when the last response, that of the Flush of the commit word, arrives. test/power
 * ("power cuts") shows it, with a medium that loses power between any two packets.
 *
 * A transaction is accepted as a whole or refused as a whole. Its operations stand next to each
 * other in the send queue, also when other threads post at the same time. It makes exactly one
 * completion, WEFT_WC_COMMIT. Any number of transactions may be under way. Transactions of one QP
 * are executed, and complete, in the order of the calls.
 *
 * What a crash leaves. RANGES ARE NOT ATOMIC. If a transaction did not succeed, each octet of its
 * ranges may be old or new, in any mixture: in the responder's memory and, after a power failure,
 * on its medium. (A sector that is being written keeps its old octets or has its new ones, see
 * docs/drivers.md.) Only the commit word is atomic. So write the ranges to a place that the present
 * commit word does not name, for example a second slot or the free part of a ring. Without a
 * successful completion the commit word is the old or the new one. If it is the new one, the ranges
 * are durable and whole.
 *
 * Before building on a commit word. An initiator that did not write the word itself, or that wrote
 * it before a crash of either side, does the following before it relies on the word:
 *
 * 1. It makes sure that no operation of an earlier writer is still under way. An Atomic Write is
 *    not conditional, so a late one would overwrite the word. Only the owner of the memory can make
 *    sure: it ends the old grant and waits until no operation of that grant touches the memory.
 *    (weft/log_host.h does this for logs.)
 * 2. It flushes the word.
 * 3. It reads the word, on the same QP as the Flush.
 *
 * The Flush comes first because memory may hold a word that the medium does not hold yet. A word
 * that is read without the Flush may be replaced by an older word at the next power failure. The
 * same applies to everything that is read together with the word, for example a header that
 * describes the layout of the medium.
 */

#include <weft/api.h>
#include <weft/verbs.h>

WEFT_API_BEGIN

#define WEFT_COMMIT_MAX_RANGES 32 /**< ranges of one transaction */

/** A range of the responder's memory that belongs to the transaction. */
struct weft_commit_range {
	/**
	 * The octets to be written, as in struct weft_wr. The list is copied at the post and has at
	 * most max_send_sge pieces. The memory it names belongs to weft until the completion. An
	 * empty list: the octets were written before, by WEFT_WR_WRITE on this QP.
	 */
	const struct weft_sge *sg_list;
	uint32_t num_sge;
	uint32_t flags; /**< WEFT_COMMIT_INLINE */
	uint32_t stag;  /**< STag at the responder */
	/**
	 * Octets that are flushed and verified. 0: as many as sg_list has. More than sg_list has:
	 * the octets behind those of sg_list were written before. Less: -EINVAL.
	 */
	uint32_t len_bytes;
	uint64_t to;
	/**
	 * Expected hash of these len_bytes octets, by the hash of the responder's region
	 * (weft_commit_hash() computes it). Copied at the post. NULL: the range is not verified.
	 */
	const void *expect;
	uint32_t expect_bytes;
};

/** Flag of a range: the payload, at most max_inline_bytes, is copied at the post. */
#define WEFT_COMMIT_INLINE 0x1

/** No Flush at all, for memory that is volatile anyway. A Verify of such memory needs no Flush. */
#define WEFT_COMMIT_NO_FLUSH 0x1
/**
 * No commit word: the data is made durable and verified, and a later transaction commits it. The
 * completion comes with the last response for the ranges. If there are only Writes, it comes when
 * their payload is copied.
 */
#define WEFT_COMMIT_NO_WORD 0x2
#define WEFT_COMMIT_FENCE   0x4 /**< as WEFT_WR_FENCE, before the transaction begins */

struct weft_commit {
	uint64_t wr_id;
	uint32_t flags; /**< WEFT_COMMIT_NO_FLUSH, ... */
	/**
	 * [WEFT_FLUSH_PERSISTENT] Flags of all Flushes. With WEFT_FLUSH_REGION, each run of ranges
	 * with the same STag gets one Flush, which covers the whole region. The Flush of the commit
	 * word covers the eight octets of the word, with any flags.
	 */
	uint32_t flush_flags;
	/**
	 * In the order in which they are written. Every Flush comes after all Writes, and every
	 * Verify after all Flushes.
	 */
	const struct weft_commit_range *ranges;
	uint32_t num_ranges; /**< 0: the commit word alone */
	struct {
		uint32_t stag;
		uint64_t to; /**< the target address must be 8-octet aligned */
		/** the octets in memory order; the responder stores them at once */
		uint8_t data[8];
	} word; /**< ignored with WEFT_COMMIT_NO_WORD */
};

/** weft_wc.commit.step: the step that did not succeed, if the status is not WEFT_WC_SUCCESS. */
enum weft_commit_step {
	WEFT_COMMIT_STEP_WRITE,
	WEFT_COMMIT_STEP_FLUSH,
	WEFT_COMMIT_STEP_VERIFY,
	WEFT_COMMIT_STEP_WORD, /**< the Atomic Write */
	WEFT_COMMIT_STEP_WORD_FLUSH,
};

/**
 * "write", "flush", "verify", "atomic write of the commit word", "flush of the commit word". The
 * string is static.
 */
const char *weft_commit_step_str(uint32_t step);

/**
 * Post a transaction. Returns 0 when it is accepted. It then makes one completion with opcode
 * WEFT_WC_COMMIT and the wr_id of c. The status is
 *
 * - WEFT_WC_SUCCESS: the last response has arrived.
 * - WEFT_WC_REMOTE_ACCESS, WEFT_WC_REMOTE_OP or, of a Verify, WEFT_WC_HASH_MISMATCH: the
 *   responder's Terminate names this step.
 * - WEFT_WC_LOCAL_PROT: the worker found an lkey to be invalid.
 * - WEFT_WC_FLUSHED: the stream ended for any other reason.
 *
 * Unless the status is success, weft_wc.commit.step is the first step that did not succeed, and
 * weft_wc.commit.range is the index of its range (0 for the steps of the word). With
 * WEFT_WC_FLUSHED it is the first step that was not done. A Write is done when its payload is
 * copied.
 *
 * What a failure says about the commit word:
 *
 * - A status other than WEFT_WC_FLUSHED before step WORD_FLUSH: the word keeps its old value.
 * - The same at step WORD_FLUSH: the responder's memory has the new word. Its medium has the old or
 *   the new word.
 * - WEFT_WC_FLUSHED: nothing is known. After a new connection the word is found old or new. If it
 *   is new, the whole transaction is there.
 *
 * Two limits of this report. A Terminate names a refused Write only by its STag and offset. If
 * several Writes under way have these, all of them are WEFT_WC_FLUSHED. A Write of weft_post_send()
 * to the same octets at the same time may be taken for a Write of the transaction. A responder that
 * answers a Verify with another hash than the expected one, and sends no Terminate, violates the
 * draft (s2.2.2). The status is then WEFT_WC_HASH_MISMATCH, but the word may have changed, and the
 * QP stays connected.
 *
 * A transaction takes weft_commit_places() places of the send queue. They are free again after its
 * completion. At the responder each Flush, Verify and Atomic Write is one inbound request. If ORD
 * is smaller than their number, the transaction still works and waits for responses in between.
 * Heap memory is allocated only at the first call on a QP, and when more than 32 Verifies more than
 * ever before are under way.
 *
 * Errors; nothing was posted:
 *
 * -EAGAIN    the send queue has too few free places now
 * -EMSGSIZE  the transaction needs more places than sq_depth
 * -EBUSY     a range to be written overlaps one with a Verify under way on this QP, or a range
 *            overlaps one of a transaction that another thread is just posting (below)
 * -EINVAL    no QP, or it is destroyed; c is NULL; unknown flags; more ranges than
 *            WEFT_COMMIT_MAX_RANGES; an empty range, or one with fewer octets than are written;
 *            more pieces than max_send_sge; 4 GiB or more in one range; an inline payload longer
 *            than max_inline_bytes; a bad lkey (struct weft_sge); an expected hash of no octets or
 *            of more than WEFT_HASH_MAX_BYTES; nothing to do
 * -ENOTCONN  not established yet
 * -ENOMEM    no heap memory, see above
 *
 * On a QP that has left RTS the transaction is accepted and completes as flushed.
 *
 * A range with a Verify under way must not be written: the result of the Verify would be undefined
 * (s2.2.2), and a mismatch ends the stream. This call refuses such a transaction; weft_post_send()
 * does not check. A Verify, of a transaction or of WEFT_WR_VERIFY, is under way from the call that
 * posts it until its completion (that of its transaction) can be polled. Two ranges overlap when
 * they name the same STag and share octets. Two STags for the same memory are not detected. The
 * commit word is not checked, because an Atomic Write waits for all Verifies before it.
 *
 * Any thread. The check covers everything that was posted, on any thread, by calls that have
 * returned. If two threads post transactions with overlapping ranges at the same time, at least one
 * of the two is refused, and possibly both. If another thread posts a Verify by weft_post_send()
 * during this call, the check may miss it, and the Verify may come before the transaction in the
 * queue. The program orders such calls itself.
 */
int weft_commit(struct weft_qp *qp, const struct weft_commit *c);

/**
 * How many places of the send queue the transaction takes. -EINVAL: c is malformed, as far as that
 * can be seen without a QP.
 */
int weft_commit_places(const struct weft_commit *c);

/**
 * Compute the expected hash of a range: hash the octets of a list of pieces as a region registered
 * with this hash and key does. hash is the name of a driver ("crc32c"). key is NULL and key_bytes 0
 * for a hash without a key. Only the octets of the list are hashed. A range that is longer than its
 * sg_list needs the hash of the whole range. Runs on the caller's thread until all octets are
 * hashed. Returns the octets written to result, or
 * - -ENOENT: no such driver
 * - -EINVAL: the key does not fit; a piece has no address; hash or result is NULL
 * - -ENOSPC: result_bytes is too small
 * - -ENOMEM, or the driver's error
 */
int weft_commit_hash(const char *hash, const void *key, uint32_t key_bytes,
                     const struct weft_sge *sg_list, uint32_t num_sge, void *result,
                     uint32_t result_bytes);

WEFT_API_END

#endif /* WEFT_COMMIT_H */
