/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BLOCK_SCRIPT_H
#define BLOCK_SCRIPT_H

/**
 * @file The block driver "script": the test decides when a request ends, and how. It keeps no data.
 */

#include <weft/block.h>

#define SCRIPT_MAX 64

/** What the driver was given. One thread, except where a test with threads says otherwise. */
struct script {
	struct weft_block_req *got[SCRIPT_MAX]; /**< not yet ended, in the order of submission */
	unsigned int n;
	unsigned int submits, cancels, fences;
	unsigned int room;  /**< submit() takes so many more; else -EAGAIN */
	int refuse;         /**< if not 0, submit() returns this */
	bool cancel_works;  /**< cancel() ends the request with -ECANCELED */
	int fence_status;   /**< what fence() returns */
	int open_status;    /**< what open() returns */
	int chan_status;    /**< what chan_open() returns */
	uint32_t can;       /**< abilities at the next open */
	uint64_t next_ns;   /**< what next_ns() returns */
	uint32_t mem_align; /**< mem_align_bytes at the next open */
};
extern struct script script;

/** As at the start: every ability, room for all. */
void script_reset(void);
/** End the i-th request that the driver has. */
void script_end(unsigned int i, int status);

#endif /* BLOCK_SCRIPT_H */
