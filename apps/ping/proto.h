/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PING_PROTO_H
#define WEFT_PING_PROTO_H

/** @file rping's message and rping's data, as they are on the wire. */

#include <stddef.h>
#include <stdint.h>

#define PING_INFO_BYTES 16

/** A buffer of the client's. Wire: address 8, STag 4, length 4, each in network order. */
struct ping_info {
	uint64_t addr; /**< tagged offset of its first octet */
	uint32_t stag;
	uint32_t size_bytes;
};

/** Least that holds every "rdma-ping-N: " and the final 0. */
#define PING_SIZE_MIN 23u
/** rping itself stops below 64 KiB. */
#define PING_SIZE_MAX (16u << 20)

void ping_info_encode(const struct ping_info *info, uint8_t out[PING_INFO_BYTES]);
/** -EPROTO: len is not PING_INFO_BYTES. */
int ping_info_decode(const uint8_t *data, size_t len_bytes, struct ping_info *out);

/**
 * The data of ping seq (the first is 0): "rdma-ping-0: ABC…", characters A to z over and over, the
 * first one a further at each ping, and a final 0. size_bytes: at least PING_SIZE_MIN.
 */
void ping_fill(uint8_t *buf, uint32_t size_bytes, uint64_t seq);
/** Where a and b differ first; n when they do not. */
uint32_t ping_diff(const uint8_t *a, const uint8_t *b, uint32_t n);
/**
 * What of data, up to its first 0, may be shown on a terminal; the rest becomes '?'. Returns how
 * much of size_bytes was taken; buf is at least that long and one octet more.
 */
uint32_t ping_text(const uint8_t *data, uint32_t size_bytes, char *buf);

#endif /* WEFT_PING_PROTO_H */
