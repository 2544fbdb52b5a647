/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_ANSWERS_H
#define WEFT_ANSWERS_H

/**
 * @file How many answers strangers get in a second (resets, ICMP errors): so many each peer, and so
 * many all together.
 *
 * A peer that counts what it gets must not learn what others were sent (RFC 5961 s7 and RFC 9293
 * s3.10.7.4 of challenge ACKs; idle scans go by it): each peer has its own count, found by a keyed
 * hash that is another one each second, and both limits are drawn anew each second, between half
 * and one and a half of what is asked for. Limits are of the key and the second alone: what others
 * do moves none of them. Two peers never meet the limit of all. Where more than two do, or more
 * than four have places in one set (of 64), one gets less by others, and cannot tell by how many.
 * One thread; no allocation.
 */

#include <stdbool.h>
#include <stdint.h>

struct weft_ip;

#define WEFT_ANSWERS_SETS 64
#define WEFT_ANSWERS_WAYS 4
/** What one peer gets at most, of what all get. */
#define WEFT_ANSWERS_PEERS 8

/** All zero at first. */
struct weft_answers {
	uint64_t all_s; /**< the second, plus one, that all_n is of */
	uint32_t all_n, all_max;
	struct weft_answers_peer {
		uint64_t tag;
		uint32_t s; /**< likewise, its low half */
		uint32_t n;
	} peer[WEFT_ANSWERS_SETS][WEFT_ANSWERS_WAYS];
};

/**
 * Whether one more may be sent to this address (counted by weft_ip_peer(): an IPv6 /64 is one peer)
 * in the second of now_ns; it is counted then. per_s: of all peers together, on average; 1 or more.
 * Each has an eighth of it, or 1. key: secret, and always the same.
 */
bool weft_answers_take(struct weft_answers *a, const uint64_t key[2], const struct weft_ip *ip,
                       uint32_t per_s, uint64_t now_ns);

#endif /* WEFT_ANSWERS_H */
