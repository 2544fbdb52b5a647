/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_PARTS_H
#define WEFT_PERF_PARTS_H

/**
 * @file The fastest part of a bandwidth test, and its slowest 10 ms.
 *
 * A Write, a Send and a Write with immediate data are complete when they are copied: the first ones
 * fill the send buffer as fast as memory is. So of these tests the octets count that the peer's TCP
 * has acknowledged. Of all others a completion shows that the message was carried out, and messages
 * count.
 */

#include <stdbool.h>
#include <stdint.h>

struct run;

struct parts {
	double peak_mbps;  /**< the fastest part so far */
	double worst_mbps; /**< the slowest 10 ms; 0: the run was too short */
	/* the rest is parts.c's own */
	bool acked;     /**< what was acknowledged counts */
	double payload; /**< share of the messages in the octets that TCP has */
	uint64_t every_ns, least_ns, looked_ns;
	uint64_t at_ns, ten_ns; /**< where the present part began, and the present 10 ms */
	double at_bytes, ten_bytes;
};

/** The measured part begins. On the run's thread. */
void parts_begin(struct parts *p, struct run *r, uint64_t now_ns);
/** Look at what has come so far: each thread at its own connections, the first one at the sum of
 * all. n: messages that all threads have shown. */
void parts_look(struct parts *p, struct run *r, uint64_t now_ns, uint64_t n);

#endif /* WEFT_PERF_PARTS_H */
