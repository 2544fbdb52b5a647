/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FAKE_RING_H
#define FAKE_RING_H

/**
 * @file io_uring without the kernel: what is submitted is done by this program's pwrite(), in any
 * order. With this linked in, the file driver finds it in the place of liburing's own.
 */

#include <stdbool.h>
#include <stdint.h>

extern struct fake_ring {
	/* what the kernel is to be like */
	int refuse;    /**< errno of making a ring: EPERM in most containers; 0 */
	bool no_write; /**< so old that it knows no write */
	uint64_t seed; /**< 0: in order; else the order of a batch */
	/** of the next submission take so many, then say submit_errno; 0: all */
	unsigned int take;
	int submit_errno;
	int wait_errno;   /**< said by the next wait */
	unsigned int cut; /**< the n-th write from now ends half-way; 0: none */
	int again;        /**< the next write's result in its place, once: -EAGAIN */
	/* what was done */
	unsigned int rings; /**< that are there */
	unsigned int submits, writes;
} fake_ring;

#endif /* FAKE_RING_H */
