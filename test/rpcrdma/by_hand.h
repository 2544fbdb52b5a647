/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_BY_HAND_H
#define RPCRDMA_BY_HAND_H

/** @file Messages that a test makes and reads itself, between two sides of the rig. */

#include "rig.h"

/** A header of any kind, with credit for all that follows. */
void hand_header(struct rpcrdma_hdr *h, uint32_t vers, uint32_t htype, uint32_t xid);
/** The header, and a call of RIG_ADD behind it, or what is sent in place of one; octets in all. */
uint32_t hand_add(uint8_t *m, const struct rpcrdma_hdr *h);
/** What a side says next that is no grant: its error's code; 0: nothing; -1: no error. h may be
 * NULL. */
int hand_said(struct weft_qp *qp, struct rpcrdma_hdr *h);

/** An answer that is told from none. */
void hand_unanswered(struct rig_answer *ans, unsigned int n);
/** One call that is answered, so that both sides know the version. */
void hand_greet(struct rig *r, struct rig_answer *ans);

#endif /* RPCRDMA_BY_HAND_H */
