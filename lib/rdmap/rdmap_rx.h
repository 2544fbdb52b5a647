/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMAP_RX_H
#define RDMAP_RX_H

/**
 * @file
 * The up-calls from ddp.
 */

#include "rdmap_stream.h"

extern const struct weft_ddp_ops rdmap_ddp_ops;

/** Per opcode: takes a whole untagged message that is neither a Send nor Immediate Data. 0, or
 * -EPROTO with *term. */
extern int (*const rdmap_handlers[RDMAP_NOPCODES])(struct weft_rdmap *r, const struct rdmap_msg *m,
                                                   struct weft_term *term);

#endif /* RDMAP_RX_H */
