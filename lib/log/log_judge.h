/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOG_JUDGE_H
#define LOG_JUDGE_H

/**
 * @file What the words of one target say, and which of T1 to T6 (docs/log-format.md, "What is a
 * state") does not hold. For readers of an image: a mapping, or a medium that is read piece by
 * piece.
 */

#include <weft/log_format.h>

/** What a target is damaged in. */
enum log_fault {
	LOG_FAULT_NONE,
	LOG_FAULT_CARD,        /**< its check is wrong, or it has an impossible place or life */
	LOG_FAULT_TAIL,        /**< its check is wrong, or it names no place of the ring */
	LOG_FAULT_TAIL_RECORD, /**< T2: where it points there is no record of this log */
	LOG_FAULT_HEAD,        /**< its check is wrong, or T3 does not hold */
	LOG_FAULT_HEAD_RECORD, /**< T4: where it points there is no record of this log */
	LOG_FAULT_SEAT,        /**< T6: the last record does not know the card's life */
	LOG_FAULT_READ,        /**< a header could not be read */
};

struct log_verdict {
	enum log_fault fault;
	/** T5: the epoch of a writer that was not fenced and wrote the word; 0: none is known */
	uint64_t unfenced;
};

/** Where headers come from. */
struct log_judge {
	/** The WEFT_LOG_HEADER_BYTES octets at an octet of the ring, until the next call. NULL:
	 * they cannot be read. */
	const uint8_t *(*header)(void *owner, uint64_t off);
	void *owner;
};

/**
 * Judge card, tail and head, in this order in `words`, and fill in what is behind `super` of *i,
 * whose region and super are set. Reads the last record's header and the first one's. 0, or
 * - -ENODATA: the target gave up its records, or is being given them
 * - -EBADMSG: *v says what is damaged. Epoch, place, life, last and end of *i are set as far as
 *   they are known
 */
int log_judge_words(struct weft_log_image *i, const uint64_t words[3], const struct log_judge *from,
                    struct log_verdict *v);

#endif /* LOG_JUDGE_H */
