/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_ANSWERS_H
#define WEFT_ANSWERS_H

/**
 * @file Rate limits of answers to hosts without a connection (resets, ICMP errors): one limit for
 * each peer and one for all peers together, per second.
 *
 * A peer that counts its answers must not learn what other hosts were sent. Idle scans use that;
 * RFC 5961 s7 and RFC 9293 s3.10.7.4 say it of challenge ACKs. So each peer has its own counter,
 * found by a keyed hash that changes every second. Both limits are random for each second, between
 * half and one and a half of the average. They depend on the key and the second alone, so other
 * hosts cannot change them.
 *
 * Two peers alone never reach the limit of all. A peer may get fewer answers because of others when
 * more than two peers reach that limit, or when more than four peers share one of the 64 sets. The
 * peer cannot tell how many others there are.
 *
 * One thread. Nothing is allocated.
 */

#include <stdbool.h>
#include <stdint.h>

struct weft_ip;

#define WEFT_ANSWERS_SETS 64
#define WEFT_ANSWERS_WAYS 4
/** The limit of one peer is the limit of all divided by this. */
#define WEFT_ANSWERS_PEERS 8

/** Zero-filled at first. */
struct weft_answers {
	uint64_t all_s; /**< the second that all_n counts, plus 1 */
	uint32_t all_n, all_max;
	struct weft_answers_peer {
		uint64_t tag; /**< keyed hash of the peer and the second */
		uint32_t s;   /**< the second that n counts, plus 1: low 32 bits */
		uint32_t n;
	} peer[WEFT_ANSWERS_SETS][WEFT_ANSWERS_WAYS];
};

/**
 * Whether one more answer may go to this address in the second of now_ns. If so, it is counted.
 * Addresses are counted by weft_ip_peer(): an IPv6 /64 is one peer. per_s: average limit of all
 * peers together, at least 1. One peer has an eighth of it, at least 1. key: secret, the same in
 * every call.
 */
bool weft_answers_take(struct weft_answers *a, const uint64_t key[2], const struct weft_ip *ip,
                       uint32_t per_s, uint64_t now_ns);
/** How many answers were counted in the second of now_ns. */
uint32_t weft_answers_taken(const struct weft_answers *a, uint64_t now_ns);

#endif /* WEFT_ANSWERS_H */
