/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_XDR_ORACLE_H
#define RPCRDMA_XDR_ORACLE_H

/**
 * @file
 * An independent codec for headers. rpcgen makes its routines from the XDR of the RFC and the draft
 * (rpcrdma1.x, rpcrdma2.x). The rules that XDR does not express are checked on rpcgen's lists. It
 * shares only struct rpcrdma_hdr with the library's codec, and only as input.
 */

#include "rpcrdma_wire.h"

/** Encode the header with rpcgen's routine. Returns its length in octets, or 0 if it does not fit
 * or cannot be encoded. */
uint32_t oracle_encode(void *buf, uint32_t cap_bytes, const struct rpcrdma_hdr *hdr);
/**
 * Verdict on a message of at most WIRE_MAX_BYTES, with the limits RPCRDMA_MAX_*. If the verdict is
 * RPCRDMA_OK, *hdr_bytes is the length of its header.
 */
enum rpcrdma_verdict oracle_verdict(const void *buf, uint32_t len_bytes, uint32_t *hdr_bytes);

#endif /* RPCRDMA_XDR_ORACLE_H */
