/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMAP_IRQ_TX_H
#define RDMAP_IRQ_TX_H

/**
 * @file
 * The inbound request queue (IRQ): responses.
 */

#include "rdmap_tx.h"

/** Send the response at the head of the ring, or its next part. */
enum rdmap_tx rdmap_irq_send(struct weft_rdmap *r, int32_t *budget_bytes, uint64_t now_ns);
/**
 * Send the short responses to Reads at the head of the ring, one segment each, as long as they fit
 * the TCP segment under construction. Only while no request of this side, and no other response,
 * may come between them, and no message is partly sent. What cannot be sent here is left to
 * rdmap_irq_send().
 */
void rdmap_irq_packed(struct weft_rdmap *r, int32_t *budget_bytes);

#endif /* RDMAP_IRQ_TX_H */
