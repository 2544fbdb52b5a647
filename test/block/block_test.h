/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BLOCK_TEST_H
#define BLOCK_TEST_H

/** @file Shared by the tests of block drivers: a device with a channel, requests with a wait,
 * draws. */

#include <weft/block.h>

/** A device with one channel. */
struct disk {
	struct weft_block *b;
	struct weft_block_chan *c;
	struct weft_block_info info;
	uint64_t bytes;
	uint64_t now_ns;  /**< if not 0: the time of a simulation */
	uint64_t step_ns; /**< of the simulation, for each poll */
};

/** Open a device and a channel. The case fails if that fails. */
void disk_open(struct disk *d, const struct weft_block_attr *attr, uint32_t depth);
/** Close both. The case fails if something is under way. */
void disk_close(struct disk *d);
/** Poll the channel once. */
unsigned int disk_poll(struct disk *d);
/** Poll it, and sleep for a while if there was nothing. */
void disk_turn(struct disk *d);
/** Submit, and poll until it is done. Returns the submission's error, or the status. */
int disk_do(struct disk *d, struct weft_block_req *req);
/** The same with one piece of memory. */
int disk_io(struct disk *d, enum weft_block_op op, uint32_t flags, uint64_t off, void *data,
            uint64_t len);

/** Aligned memory for any device, until disk_memory_free() or the end of the program. */
uint8_t *disk_memory(uint64_t bytes);
void disk_memory_free(void);

struct draw {
	uint64_t state;
};
/** 0 to n - 1. */
uint64_t draw(struct draw *d, uint64_t n);
/** Octets that tell their place and version. */
void fill(uint8_t *data, uint64_t len, uint64_t off, uint64_t version);

#endif /* BLOCK_TEST_H */
