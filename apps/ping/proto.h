/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PING_PROTO_H
#define WEFT_PING_PROTO_H

/** @file Codec of rping's message and data. */

#include <stddef.h>
#include <stdint.h>

#define PING_INFO_BYTES 16

/** A buffer of the client. On the wire: address 8, STag 4, length 4, in network order. */
struct ping_info {
	uint64_t addr; /**< tagged offset of its first octet */
	uint32_t stag;
	uint32_t size_bytes;
};

/** The least size that holds every "rdma-ping-N: " and the final 0. */
#define PING_SIZE_MIN 23u
/** weft-ping's limit; rping's is below 64 KiB. */
#define PING_SIZE_MAX (16u << 20)

void ping_info_encode(const struct ping_info *info, uint8_t out[PING_INFO_BYTES]);
/** -EPROTO: len is not PING_INFO_BYTES. */
int ping_info_decode(const uint8_t *data, size_t len_bytes, struct ping_info *out);

/**
 * Write the data of ping seq (the first is 0): "rdma-ping-0: ABC…", the characters A to z repeated,
 * and a final 0. Each ping begins one character further. size_bytes: at least PING_SIZE_MIN.
 */
void ping_fill(uint8_t *buf, uint32_t size_bytes, uint64_t seq);
/** Offset of the first difference of a and b; n: they are equal. */
uint32_t ping_diff(const uint8_t *a, const uint8_t *b, uint32_t n);
/**
 * Copy data, up to its first 0, with '?' for what must not be shown on a terminal. Returns the
 * octets copied; buf has room for size_bytes + 1.
 */
uint32_t ping_text(const uint8_t *data, uint32_t size_bytes, char *buf);

#endif /* WEFT_PING_PROTO_H */
