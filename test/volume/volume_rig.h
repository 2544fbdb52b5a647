/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VOLUME_RIG_H
#define VOLUME_RIG_H

/**
 * @file A volume on a simulated device, its channels, and operations that are waited for. Time is
 * simulated: a poll of all channels is a microsecond.
 */

#include "weft_block_fault.h"
#include "weft_test.h"
#include "weft_volume_core.h"

#define RIG_CHANS 4

struct rig {
	struct weft_block *block;
	struct weft_vol *vol;
	struct weft_vol_chan *chan[RIG_CHANS];
	unsigned int nchans;
	bool sums; /**< rig_format() makes checksums */
	bool real; /**< the device takes real time */
	uint8_t *scratch;
	uint64_t now_ns;
	_Atomic unsigned int wakes; /**< calls of `wake` */
	struct weft_block_state state;
};

/** An operation, and what its callbacks saw. */
struct rig_op {
	struct weft_vol_op op;
	struct iovec iov[4];
	unsigned int done, late;
	unsigned int at; /**< when done() was called: a number that grows */
};

/** The device "mem", and over it "fault" if there is a seed. */
void rig_device(struct rig *r, uint64_t bytes, uint32_t block_bytes, uint64_t seed);
/** A file by the driver "uring". */
void rig_file(struct rig *r, const char *path, uint64_t bytes);
/** Format the device, and open volume and channels. bytes 0: all the room. */
void rig_format(struct rig *r, uint64_t bytes);
void rig_open(struct rig *r, unsigned int nchans, uint32_t pieces);
/** Close channels and volume. */
void rig_close(struct rig *r);
/** The same, and the device. */
void rig_end(struct rig *r);

/** Zero an operation and set what all have; mem is its memory, in one piece. */
struct rig_op *rig_op(struct rig_op *o, enum weft_vol_kind kind, uint64_t off, uint64_t len,
                      void *mem);
void rig_submit(struct rig *r, unsigned int chan, struct rig_op *o);
/** Poll all channels once. */
unsigned int rig_poll(struct rig *r);
/** Poll until the operation is done; returns its status. */
int rig_wait(struct rig *r, struct rig_op *o);
/** Submit on channel 0 and wait. */
int rig_do(struct rig *r, struct rig_op *o);
/** One call for the operations with memory. */
int rig_io(struct rig *r, enum weft_vol_kind kind, uint64_t off, uint64_t len, void *mem,
           uint32_t flags);
int rig_flush(struct rig *r);

/** The next number of a seeded sequence, 0 to n - 1. */
uint64_t rig_draw(uint64_t *seed, uint64_t n);

#endif /* VOLUME_RIG_H */
