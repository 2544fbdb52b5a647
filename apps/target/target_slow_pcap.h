/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_SLOW_PCAP_H
#define WEFT_APPS_TARGET_SLOW_PCAP_H

/**
 * @file Slow operations keep their packets while captures run that the control socket has started.
 *
 * A thread asks the workers several times a second for their new slow operations, and takes the
 * packets of each one's connection out of the files of the captures, from a moment before its
 * begin to a moment behind its end, before the ring writes over them. They stay in memory, within
 * SLOW_PCAP_BYTES for each and SLOW_PCAP_ALL for all: the oldest ones go first. A look at the files
 * has as much again. A worker does nothing for it but copy its ring.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLOW_PCAP_BYTES (1U << 20)  /**< octets of the packets of one operation */
#define SLOW_PCAP_ALL   (16U << 20) /**< of all */
#define SLOW_PCAP_KEPT  256U        /**< operations */

struct target;

/** What is kept of an operation. */
struct slow_pcap_info {
	bool looked;      /**< its packets were looked for; there may be none */
	uint32_t packets; /**< that are kept */
	uint32_t left;    /**< that were there, and not kept: SLOW_PCAP_BYTES */
};

/** A capture was started: begin to keep packets. Does nothing if that is so already, or no slow
 * operations are looked for. The program's thread. */
void slow_pcap_begin(struct target *t);
/** End the thread. The workers run. The program's thread. */
void slow_pcap_end(struct target *t);
/** The workers are stopped: free what is kept. */
void slow_pcap_free(struct target *t);
/** What is kept of the operation `number` of a worker. Any thread but workers. */
struct slow_pcap_info slow_pcap_look(struct target *t, uint32_t worker, uint64_t number);
/** A copy of its packets, as a pcapng file, which the caller frees. NULL: none are kept, or no
 * memory. Any thread but workers. */
uint8_t *slow_pcap_copy(struct target *t, uint32_t worker, uint64_t number, size_t *len);

#endif /* WEFT_APPS_TARGET_SLOW_PCAP_H */
