/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_BY_HAND_H
#define RPCRDMA_BY_HAND_H

/** @file Messages that a test encodes and decodes itself, between the two sides of the rig. */

#include "rig.h"

/** Fill in a header of any type, with enough credit for the whole test. */
void hand_header(struct rpcrdma_hdr *h, uint32_t vers, uint32_t htype, uint32_t xid);
/** Encode the header, followed by a call of RIG_ADD if the header's type carries one. Returns the
 * length in octets. */
uint32_t hand_add(uint8_t *m, const struct rpcrdma_hdr *h);
/** Take the next message of a side that is not a grant. Returns the code of its error, 0 if there
 * is no message, -1 if the message is not an error. h may be NULL. */
int hand_said(struct weft_qp *qp, struct rpcrdma_hdr *h);
/** The same, with the error alone; e may be NULL. */
int hand_error(struct weft_qp *qp, struct rpcrdma_err *e);

/** Initialise n answers so that an answer can be told from none. */
void hand_unanswered(struct rig_answer *ans, unsigned int n);
/** Make one call that is answered, so that both sides know the version. */
void hand_greet(struct rig *r, struct rig_answer *ans);

#endif /* RPCRDMA_BY_HAND_H */
