/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_XDR_ORACLE_H
#define RPCRDMA_XDR_ORACLE_H

/**
 * @file
 * A second opinion about headers, from the routines that rpcgen makes of the texts' own XDR
 * (rpcrdma1.x, rpcrdma2.x), and from the rules beside it as they are written, on rpcgen's lists.
 * It shares nothing with the codec but struct rpcrdma_hdr, which goes in only.
 */

#include "rpcrdma_wire.h"

/** The header as rpcgen encodes it; its octets, 0 when it does not fit or encode. */
uint32_t oracle_encode(void *buf, uint32_t cap_bytes, const struct rpcrdma_hdr *hdr);
/**
 * The verdict on a message of at most WIRE_MAX_BYTES, with the limits RPCRDMA_MAX_*. *len_bytes:
 * of its header, when the verdict is RPCRDMA_OK.
 */
enum rpcrdma_verdict oracle_verdict(const void *buf, uint32_t len_bytes, uint32_t *hdr_bytes);

#endif /* RPCRDMA_XDR_ORACLE_H */
