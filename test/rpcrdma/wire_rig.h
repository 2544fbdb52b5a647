/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_WIRE_RIG_H
#define RPCRDMA_WIRE_RIG_H

/** @file Shared by the tests of the header codec: XDR words, random headers, and comparison. */

#include <stdlib.h>
#include <string.h>

#include "rpcrdma_wire.h"
#include "test_xorshift.h"

/** Largest header that wire_random() makes: the maximum of segments, each as a Read list entry, and
 * the other fields. */
#define WIRE_MAX_BYTES 4096

/** Encode words of host order as XDR octets. Returns the number of octets. */
static inline uint32_t
wire_words(void *buf, const uint32_t *w, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		weft_put_be32((uint8_t *)buf + 4 * i, w[i]);
	return 4 * n;
}

/**
 * Decode from a buffer that has the exact length of the message, so that ASan detects overruns. hdr
 * may point into the buffer, which is freed by the second call after this one. hdr is filled with
 * arbitrary octets first.
 */
enum rpcrdma_verdict wire_decode(const void *buf, uint32_t len, const struct rpcrdma_limits *limits,
                                 struct rpcrdma_hdr *hdr);

/** The same for words in host order, at most 2 KiB. */
enum rpcrdma_verdict wire_decode_words(const uint32_t *w, unsigned int n, struct rpcrdma_hdr *hdr);

/** The same with the word at index `at` changed. */
enum rpcrdma_verdict wire_decode_changed(const uint32_t *w, unsigned int n, unsigned int at,
                                         uint32_t word);

/** Make a random header of this type. It has any content that the type may have, within
 * WIRE_MAX_BYTES. */
void wire_random(struct rpcrdma_hdr *h, uint32_t vers, uint32_t htype, uint64_t *s);
/** Whether both headers are equal. len_bytes is not compared. */
bool wire_equal(const struct rpcrdma_hdr *a, const struct rpcrdma_hdr *b);

/** Version and type of every header that is sent. {0, 0} ends the list. */
extern const uint32_t wire_types[][2];
#define WIRE_N_TYPES 13

#endif /* RPCRDMA_WIRE_RIG_H */
