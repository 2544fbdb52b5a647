/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FAKE_RING_H
#define FAKE_RING_H

/**
 * @file io_uring without the kernel. This program's pwrite() carries out submitted writes, in any
 * order. When this file is linked in, the file driver uses it instead of liburing.
 */

#include <stdbool.h>
#include <stdint.h>

extern struct fake_ring {
	/* the kernel's behaviour */
	int refuse;    /**< errno of creating a ring, such as EPERM in most containers; 0: none */
	bool no_write; /**< as an old kernel that knows no write */
	/** 0: writes are carried out in order; otherwise the seed of a random order in each
	 * batch */
	uint64_t seed;
	/** the next submission accepts this many writes and returns submit_errno; 0: all */
	unsigned int take;
	int submit_errno;
	int wait_errno;   /**< errno of the next wait */
	unsigned int cut; /**< the n-th write from now is half done; 0: none */
	int again;        /**< result of the next write, once, such as -EAGAIN */
	/* counters */
	unsigned int rings; /**< open rings */
	unsigned int submits, writes;
} fake_ring;

#endif /* FAKE_RING_H */
