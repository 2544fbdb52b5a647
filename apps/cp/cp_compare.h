/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_CP_COMPARE_H
#define WEFT_APPS_CP_COMPARE_H

/** @file Comparing what is here with what the target has by hashes: no data moves
 * (cp_compare.c). */

#include "cp.h"
#include "cp_push.h"

/** Whether a hash of the target, by its name, can be made here: with its key, if it needs one. */
bool cp_hash_known(const struct cp_session *s, const char *name);
/** Find a hash of the target by its name, and its key among the options. -EPROTO, -ENOKEY. */
int cp_hash_find(struct cp_session *s, const char *name, struct cp_hash *h);
/** The hash of octets that are here, into WEFT_HASH_MAX_BYTES octets. */
int cp_hash_of(const struct cp_hash *h, const void *buf, uint32_t len_bytes, uint8_t *out);

/**
 * Ask the target for the hash of a range of the grant. The completion of the Verify has wr_id, and
 * `result` then has the hash. With `flush`, a Flush of the range precedes it, without a completion
 * of its own unless it fails: the Verify then proves what is durable. Without the Flush it might
 * prove what the medium has from earlier, while memory holds something newer that goes to the
 * medium later.
 */
int cp_probe(struct cp_session *s, const struct cp_hash *h, uint64_t wr_id, uint64_t to,
             uint32_t len_bytes, bool flush, uint8_t *result);

/** What a comparison found. */
struct cp_found {
	uint64_t equal_bytes, differ_bytes;
	uint64_t first_bytes; /**< where the first block that differs begins */
	uint64_t blocks;
};

/**
 * Compare a source, from where it is, with a slot's data of `slot_bytes` octets at `to`, block by
 * block. With `first` it ends at the first block that differs. Octets that only one of both has
 * differ; behind the slot one octet of a stream counts for all, and no more are read. -ECANCELED:
 * the target takes the export back, which is closed.
 */
int cp_compare(struct cp_session *s, struct cp_source *f, const struct cp_hash *h, uint64_t to,
               uint64_t slot_bytes, bool flush, bool first, struct cp_report *r,
               struct cp_found *found);

/** Whether the target has these octets at `to`, by their hash; with `flush` on its medium. */
int cp_compare_page(struct cp_session *s, const void *page, uint32_t len_bytes,
                    const struct cp_hash *h, uint64_t to, bool flush, bool *same);

/** Say where they differ; -EILSEQ. */
int cp_fail_differs(struct cp_session *s, const char *path, const struct cp_found *found);

#endif /* WEFT_APPS_CP_COMPARE_H */
