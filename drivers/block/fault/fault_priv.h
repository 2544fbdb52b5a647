/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FAULT_PRIV_H
#define FAULT_PRIV_H

/** @file What the sources of the block driver "fault" share. fault_cache.c is the volatile cache
 * and what becomes of it, block_fault.c the driver. */

#include <errno.h>
#include <stdlib.h>

#include "weft_base.h"
#include "weft_block_fault.h"

/** A write that is in the cache. */
struct fault_entry {
	TAILQ_ENTRY(fault_entry) link;
	uint64_t off_bytes, len_bytes;
	uint64_t number;
	bool leaks; /**< it is among those that reach the medium now */
	uint8_t data[];
};
TAILQ_HEAD(fault_entries, fault_entry);

/** A request with the driver. */
struct fault_req {
	TAILQ_ENTRY(fault_req) link;
	struct weft_block_req *req;
	uint64_t due_ns;
	uint64_t entries; /**< of a flush: the cache had so many when it was submitted */
	int fail;         /**< -errno with which it ends; 0: it succeeds */
	bool stuck;       /**< it does not end */
};

/** Requests that a test wants to be struck, and how many were. */
struct fault_rule {
	bool on;
	struct weft_block_fault_hit hit;
	uint64_t seen;
	int status;
};

struct fault_disk {
	struct weft_block *inner;
	struct weft_block_chan *chan; /**< of the inner device */
	uint64_t bytes;
	uint32_t block_bytes;
	uint64_t rand;
	struct weft_block_fault_cfg cfg;
	struct fault_entries cache; /**< oldest first */
	uint64_t entries;           /**< that the cache has ever had */
	struct fault_entry *ghost;  /**< a canceled write that lands with the next one */
	TAILQ_HEAD(, fault_req) reqs;
	struct fault_rule fail, stick;
	uint64_t requests;
	bool off; /**< the power is cut */
};

/** The next draw: 0 to n - 1. */
static inline uint64_t
fault_draw(struct fault_disk *f, uint64_t n)
{
	/* xorshift64* */
	f->rand ^= f->rand >> 12;
	f->rand ^= f->rand << 25;
	f->rand ^= f->rand >> 27;
	return n == 0 ? 0 : ((f->rand * 0x2545f4914f6cdd1dULL) >> 11) % n;
}

static inline bool
fault_chance(struct fault_disk *f, uint32_t ppm)
{
	return ppm > 0 && fault_draw(f, 1000000) < ppm;
}

/** Do a request on the inner device and wait for it. */
int fault_inner(struct fault_disk *f, struct weft_block_req *req);
/** The same with one piece of memory. */
int fault_inner_io(struct fault_disk *f, enum weft_block_op op, uint64_t off_bytes, void *data,
                   uint64_t len_bytes);

/** Take octets into the cache; data NULL: zeros. -ENOMEM. */
int fault_cache_put(struct fault_disk *f, uint64_t off_bytes, const void *data, uint64_t len_bytes);
/** Read a range as the device has it: the medium, and the cache over it. */
int fault_cache_read(struct fault_disk *f, uint64_t off_bytes, uint8_t *data, uint64_t len_bytes);
/** Put the entries up to this number on the medium, in order. */
int fault_cache_drain(struct fault_disk *f, uint64_t entries);
/** Put what overlaps a range on the medium, with the older entries that overlap it in turn. */
int fault_cache_leak(struct fault_disk *f, uint64_t off_bytes, uint64_t len_bytes);
/** Let entries reach the medium by chance. */
void fault_cache_leak_some(struct fault_disk *f);
/** Forget the cache. */
void fault_cache_drop(struct fault_disk *f);
/** The power is cut: each atom keeps its old octets or those of any entry. Empties the cache. */
void fault_cache_cut(struct fault_disk *f);
/** A write fails: each of its atoms lands or does not, behind the cache that overlaps it. */
void fault_cache_tear(struct fault_disk *f, uint64_t off_bytes, const uint8_t *data,
                      uint64_t len_bytes);

#endif /* FAULT_PRIV_H */
