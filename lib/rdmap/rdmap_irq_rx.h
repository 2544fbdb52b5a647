/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMAP_IRQ_RX_H
#define RDMAP_IRQ_RX_H

/**
 * @file
 * The inbound request queue (IRQ): a request arrives.
 */

#include "rdmap_irq.h"

/** The next free entry. NULL with *rc 0: our FIN is sent, the request is dropped. NULL with *rc
 * -EPROTO: beyond IRD or no memory, by *term. */
struct rdmap_irq_ent *rdmap_irq_slot(struct weft_rdmap *r, uint8_t op, struct weft_term *term,
                                     int *rc);
/** Look up the entry's region, and check range, rights, hash length and alignment. A Flush that
 * passes takes a reference. 0, or -EPROTO with *term. */
int rdmap_irq_check(struct weft_rdmap *r, struct rdmap_irq_ent *e, uint32_t access,
                    struct weft_term *term);
/** Append `e` to the ring as a request, or (rc < 0) as a failed one with *term. Returns 0. */
int rdmap_irq_admit(struct weft_rdmap *r, const struct rdmap_msg *m, struct rdmap_irq_ent *e,
                    int rc, struct weft_term *term);
/**
 * Append a valid Read Request, which is at seg with its DDP header, and has RDMAP_READ_REQ_BYTES.
 * False: nothing was done; rdmap_rx_read_req() does it, or says what is wrong.
 */
bool rdmap_rx_read_usual(struct weft_rdmap *r, const uint8_t *seg);
/** The handlers of a Read, and of a Flush, Verify or Atomic Write Request. */
int rdmap_rx_read_req(struct weft_rdmap *r, const struct rdmap_msg *m, struct weft_term *term);
int rdmap_rx_ext_req(struct weft_rdmap *r, const struct rdmap_msg *m, struct weft_term *term);

#endif /* RDMAP_IRQ_RX_H */
