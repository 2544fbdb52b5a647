/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_DRC_SUM_H
#define RPCRDMA_DRC_SUM_H

/**
 * @file The keyed sum by which the duplicate request cache compares calls: GMAC (NIST SP 800-38D)
 * under a random key of the cache, with a constant nonce. In this use it is a universal hash: two
 * different inputs of at most L octets have the same sum with a probability of L / 2^124, as long
 * as neither the key nor any sum leaves the cache. It takes no lock and looks up no provider of
 * libcrypto; a computation makes one small allocation. Any thread.
 */

#include <stddef.h>
#include <stdint.h>

#define RPCRDMA_DRC_SUM_KEY_BYTES 16
#define RPCRDMA_DRC_SUM_BYTES     16

struct rpcrdma_drc_secret;
struct rpcrdma_drc_sum;

/** NULL: no memory. */
struct rpcrdma_drc_secret *weft_rpcrdma_drc_secret_new(
        const uint8_t key[RPCRDMA_DRC_SUM_KEY_BYTES]);
/** NULL is fine. */
void weft_rpcrdma_drc_secret_free(struct rpcrdma_drc_secret *s);

/** Begin a sum; s must outlive it. NULL: no memory. */
struct rpcrdma_drc_sum *weft_rpcrdma_drc_sum_new(const struct rpcrdma_drc_secret *s);
void weft_rpcrdma_drc_sum_add(struct rpcrdma_drc_sum *sum, const void *data, size_t len_bytes);
/** Write the sum of all octets added, and free it. */
void weft_rpcrdma_drc_sum_end(struct rpcrdma_drc_sum *sum, uint8_t out[RPCRDMA_DRC_SUM_BYTES]);

#endif /* RPCRDMA_DRC_SUM_H */
