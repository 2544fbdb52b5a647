/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef IO_WATCH_H
#define IO_WATCH_H

/**
 * @file Every call of this program that asks a medium for something, noted as it begins and as it
 * returns: those of the C library, io_uring's submissions with their completions, libpmem's. They
 * are carried out, but for what is to fail. Linked into a program it stands in front of the
 * libraries' own.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum io_what {
	IO_WRITE,   /**< pwrite, or a write of io_uring */
	IO_SYNC,    /**< fdatasync */
	IO_MSYNC,   /**< msync with MS_SYNC */
	IO_PERSIST, /**< pmem_persist: cache lines written back */
	IO_READ,    /**< pread */
	IO_DROP,    /**< posix_fadvise: pages out of the cache */
	IO_KINDS
};

struct io_call {
	enum io_what what;
	bool direct; /**< on a descriptor with O_DIRECT */
	bool uring;
	uint64_t off, len;     /**< in the mapping */
	int rc;                /**< 0 or -errno */
	uint64_t begun, ended; /**< of one count for all calls; ended 0: it has not returned */
};

#define IO_CALLS 4096

extern struct io_watch {
	const uint8_t *base; /**< of the mapping */
	/** What to hide from the notes, as if nobody called it: for testing who reads them; -1
	 * none. */
	int blind;
	bool no_direct; /**< refuse O_DIRECT at open */
	/** the n-th call of the kind from now fails with EIO; 0: none */
	unsigned int fail[IO_KINDS];
	bool flip_read; /**< the next read gets another bit than the medium has */
	uint64_t clock;
	unsigned int n;
	struct io_call call[IO_CALLS];
} io_watch;

#endif /* IO_WATCH_H */
