/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_LINK_USE_H
#define WEFT_PERF_LINK_USE_H

/** @file The link that a run uses: its speed, and what went over it. */

#include <stdbool.h>
#include <stdint.h>

struct perf_side;

/** What the port has moved, by its own counters; and when. */
struct link_count {
	uint64_t at_ns;
	uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes;
};

/** Octets of a frame that the port's counters do not have: its check sequence, preamble and start,
 * and the gap behind it (IEEE 802.3 s3, s4.4.2). */
#define LINK_FRAME_BYTES 24

/** Read the counters of the side's port. False: it has several, or none that counts. */
bool link_now(const struct perf_side *side, struct link_count *c);
/** 10^6 bits a second since `from`, with the frames' overhead, in the direction that had more. 0:
 * not known. */
double link_used_mbps(const struct perf_side *side, const struct link_count *from);
/**
 * Speed of the side's link in 10^6 bits a second. 0: there is no link with one speed. Of a device
 * that sits on an interface of the kernel it is that interface's; a virtual device without one has
 * no link, whatever its driver says.
 */
uint32_t link_mbps(const struct perf_side *side);

#endif /* WEFT_PERF_LINK_USE_H */
