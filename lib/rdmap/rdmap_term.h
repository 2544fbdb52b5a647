/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMAP_TERM_H
#define RDMAP_TERM_H

/**
 * @file
 * Terminate: sent, received, counted.
 */

#include "rdmap_tx.h"

/** Count a Terminate that was sent (ours) or received. */
void rdmap_count_term(struct weft_rdmap *r, const struct weft_term *t, bool ours);
/** Fill *term with 0/2/06, unexpected opcode. -EPROTO. */
int rdmap_unexpected(struct weft_term *term);
/** Send a Terminate for a fault detected here, and end the stream. ddp_hdr NULL: no headers. */
void rdmap_term_send(struct weft_rdmap *r, const struct weft_term *term, const uint8_t *ddp_hdr,
                     unsigned int ddp_hdr_bytes, const uint8_t *rdma_hdr, uint32_t seg_bytes,
                     uint64_t now_ns);
/** The request cannot be sent: send a Terminate instead (RFC 5040 s7.1 case 1). */
enum rdmap_tx rdmap_tx_refuse(struct weft_rdmap *r, struct weft_rdmap_req *req,
                              enum weft_rdmap_status status, uint64_t now_ns);
/** Send the Terminate of rdmap_term_send() when there is space, and then our FIN. */
void rdmap_term_push(struct weft_rdmap *r, uint64_t now_ns);
/** The handler of a Terminate. */
int rdmap_rx_terminate(struct weft_rdmap *r, const struct rdmap_msg *m, struct weft_term *term);
/** weft_ddp_ops.fault. */
void rdmap_on_fault(void *user, const struct weft_term *term, const struct weft_ddp_hdr *h,
                    const uint8_t *hdr, unsigned int hdr_bytes, uint32_t seg_bytes,
                    uint64_t now_ns);

#endif /* RDMAP_TERM_H */
