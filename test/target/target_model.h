/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TARGET_MODEL_H
#define TARGET_MODEL_H

/**
 * @file What a volume may hold, octet by octet, as docs/volumes.md promises it. Values are 0 to 63.
 * Of each octet there are two sets of values, as masks: what a read may find, and what the medium
 * may have when the power fails.
 */

#include <stdbool.h>
#include <stdint.h>

struct model {
	uint64_t bytes;
	uint64_t *seen, *held;
	/** A flush may have been lost: what was not flushed may be old again at any time. */
	bool lossy;
	unsigned int wrong; /**< octets that were none of the values */
	uint64_t wrong_at;  /**< the first of them */
};

/** All octets are zero, and durable. */
void model_open(struct model *m, uint64_t bytes);
void model_close(struct model *m);
/** A change to `value` begins: from now on old and new octets are possible. */
void model_begin(struct model *m, uint64_t off, uint64_t len, uint8_t value);
/** It was acknowledged. */
void model_done(struct model *m, uint64_t off, uint64_t len, uint8_t value, bool durable);
/** A flush of the range was acknowledged. */
void model_flushed(struct model *m, uint64_t off, uint64_t len);
/** A flush of a client says that what was not durable of its range may be old again. */
void model_lost(struct model *m, uint64_t off, uint64_t len);
/** Octets that were read, or that the medium has. Others than possible are counted. */
void model_read(struct model *m, uint64_t off, const uint8_t *is, uint64_t len);
void model_medium(struct model *m, uint64_t off, const uint8_t *is, uint64_t len);
/** Octets that can be there; whether there is only one possibility, in cache and medium. */
bool model_expect(const struct model *m, uint64_t off, uint8_t *to, uint64_t len, bool medium);

#endif /* TARGET_MODEL_H */
