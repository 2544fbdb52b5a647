/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef IO_WATCH_H
#define IO_WATCH_H

/**
 * @file Records when each call of this program that uses a persistent medium begins and returns:
 * calls of the C library and of libpmem, and io_uring submissions with their completions. The calls
 * are executed, except those that must fail. A program that links this file calls these wrappers in
 * place of the libraries' functions.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum io_what {
	IO_WRITE,   /**< pwrite, or an io_uring write */
	IO_SYNC,    /**< fdatasync */
	IO_MSYNC,   /**< msync with MS_SYNC */
	IO_PERSIST, /**< pmem_persist: cache lines written back */
	IO_READ,    /**< pread */
	IO_DROP,    /**< posix_fadvise: drops pages from the page cache */
	IO_KINDS
};

struct io_call {
	enum io_what what;
	bool direct; /**< the descriptor has O_DIRECT */
	bool uring;
	uint64_t off, len;     /**< range in the mapping */
	int rc;                /**< 0 or -errno */
	uint64_t begun, ended; /**< one counter for all calls; ended 0: not returned */
};

#define IO_CALLS 4096

extern struct io_watch {
	const uint8_t *base; /**< start of the mapping */
	/** The kind of call that is not recorded, to test the checks that use the records; -1:
	 * none. */
	int blind;
	bool no_direct; /**< refuse O_DIRECT at open */
	/** n: the n-th call of the kind from now fails with EIO. 0: none fails. */
	unsigned int fail[IO_KINDS];
	bool flip_read; /**< the next read returns one inverted bit */
	uint64_t clock;
	unsigned int n;
	struct io_call call[IO_CALLS];
} io_watch;

#endif /* IO_WATCH_H */
