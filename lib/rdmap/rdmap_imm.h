/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMAP_IMM_H
#define RDMAP_IMM_H

/**
 * @file
 * Immediate Data (RFC 7306 s6).
 */

#include "rdmap_tx.h"

/** Take a segment of Immediate Data. 0, or -EPROTO with *term. */
int rdmap_rx_imm(struct weft_rdmap *r, const struct rdmap_op_row *row, const struct weft_ddp_hdr *h,
                 struct weft_cur *c, uint32_t len_bytes, struct weft_term *term);
/** Send the Immediate Data at the head of the send queue. */
enum rdmap_tx rdmap_tx_imm(struct weft_rdmap *r, struct weft_rdmap_req *req, int32_t *budget_bytes,
                           uint64_t now_ns);

#endif /* RDMAP_IMM_H */
