/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_WIRE_RIG_H
#define RPCRDMA_WIRE_RIG_H

/** @file What the tests of the header codec share: words, random headers, comparison. */

#include <stdlib.h>
#include <string.h>

#include "rpcrdma_wire.h"

/** Largest header that wire_random() makes: all segments, each a Read entry, and the rest. */
#define WIRE_MAX_BYTES 4096

static inline uint64_t
wire_next(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

/** Words in host order as octets; how many. */
static inline uint32_t
wire_words(void *buf, const uint32_t *w, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		weft_put_be32((uint8_t *)buf + 4 * i, w[i]);
	return 4 * n;
}

/**
 * Decode from a buffer that ends where the message does, so that a sanitizer sees a read beyond it.
 * It stays until the next call but one, for what hdr points to. hdr is filled with junk first.
 */
enum rpcrdma_verdict wire_decode(const void *buf, uint32_t len, const struct rpcrdma_limits *limits,
                                 struct rpcrdma_hdr *hdr);

/** The same of words, 2 KiB at most. */
enum rpcrdma_verdict wire_decode_words(const uint32_t *w, unsigned int n, struct rpcrdma_hdr *hdr);

/** A header of this type with anything in it that the type may have, within WIRE_MAX_BYTES. */
void wire_random(struct rpcrdma_hdr *h, uint32_t vers, uint32_t htype, uint64_t *s);
/** Whether both say the same; len_bytes is not looked at. */
bool wire_equal(const struct rpcrdma_hdr *a, const struct rpcrdma_hdr *b);

/** Every header type that is sent: version and type, {0, 0} at the end. */
extern const uint32_t wire_types[][2];
#define WIRE_N_TYPES 13

#endif /* RPCRDMA_WIRE_RIG_H */
