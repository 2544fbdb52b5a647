/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMAP_ATOMIC_H
#define RDMAP_ATOMIC_H

/**
 * @file
 * Atomic Operations (RFC 7306 s5).
 */

#include "rdmap_irq.h"

/** The handlers of Atomic Request and Atomic Response. */
int rdmap_rx_atomic_req(struct weft_rdmap *r, const struct rdmap_msg *m, struct weft_term *term);
int rdmap_rx_atomic_resp(struct weft_rdmap *r, const struct rdmap_msg *m, struct weft_term *term);
/** Execute the Atomic Operation. The response replaces the operands in the entry. */
void rdmap_exec_atomic(struct rdmap_irq_ent *e);
/** Encode the payload of the request sent next. buf has RDMAP_CTL_MAX_BYTES. Returns its length. */
unsigned int rdmap_atomic_payload(const struct weft_rdmap *r, const struct weft_rdmap_req *req,
                                  uint8_t *buf);

#endif /* RDMAP_ATOMIC_H */
