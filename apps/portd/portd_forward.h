/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PORTD_FORWARD_H
#define PORTD_FORWARD_H

/**
 * @file Moves frames between the device, the processes' net_memifs and the daemon's own stack, on
 * the daemon's one polling thread.
 *
 * The daemon's stack has the device. What is for processes is taken out of each of its receive
 * bursts, by a callback of ethdev, and put into their rings; what a ring has no room for is dropped
 * and counted, because one process must not hold up the others. Frames of processes are taken in
 * bursts, from each process in turn. What the device has no room for waits, PORTD_BURST frames of a
 * process at most, and nothing more is taken from this process meanwhile: its own ring fills, and
 * its stack waits.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "portd_switch.h"
#include <weft/worker.h>

struct rte_mempool;

#define PORTD_BURST 32U
#define PORTD_PROCS 64U /**< most processes at once */

/** Of one process. The polling thread counts, any thread reads. */
struct portd_counts {
	/** to the process: frames that it got, and those that its ring had no room for */
	_Atomic uint64_t in_frames, in_bytes, in_full;
	/** from the process: frames that left by the device or to a process */
	_Atomic uint64_t out_frames, out_bytes, out_local;
	_Atomic uint64_t out_waits; /**< times that the device had no room */
	_Atomic uint64_t resets;    /**< segments to ports without owner */
	/** bursts in which a driver's memory was unmapped: its process, or the device, ended */
	_Atomic uint64_t faults;
	_Atomic uint64_t dropped[PORTD_WHYS];
};

struct portd_forward_attr {
	const struct portd_switch *sw; /**< copied; its table is not */
	struct weft_worker *worker;
	struct weft_port *port; /**< of the stack; its device is */
	uint16_t port_id;
	struct rte_mempool *pool;
};

struct portd_forward;

/** The names of enum portd_why. */
extern const char *const portd_why_names[PORTD_WHYS];

/** Begins to take frames. Before the worker is polled. -ENOMEM, and the errors of ethdev. */
int portd_forward_create(const struct portd_forward_attr *attr, struct portd_forward **out);
/** After the worker's last poll. */
void portd_forward_destroy(struct portd_forward *f);

/** Process `proc` has the ring of device port_id from now on. Its counters begin at 0. Waits for
 * the polling thread, which polls until all processes are removed. Control thread. -ENOMEM. */
int portd_forward_add(struct portd_forward *f, uint32_t proc, uint16_t port_id);
/** No frame of the process' ring is in use any more when this returns. Likewise, but waits for
 * memory. 0. */
int portd_forward_remove(struct portd_forward *f, uint32_t proc);
/** Of the process that has or had the number last. Any thread. */
const struct portd_counts *portd_forward_counts(const struct portd_forward *f, uint32_t proc);
/** The sums over all processes, those that are gone included. Any thread. */
void portd_forward_sum(const struct portd_forward *f, struct portd_counts *sum);
/** Frames of the wire that were passed on, those that went to every process once. Any thread. */
uint64_t portd_forward_taken(const struct portd_forward *f);

#endif /* PORTD_FORWARD_H */
