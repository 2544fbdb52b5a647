/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_VERBS_POST_H
#define WEFT_APPS_VERBS_POST_H

/** @file Work requests of verbs as those of weft. */

#include <infiniband/verbs.h>

#include <weft/weft.h>

struct wv_qp;

#define WV_POST_BURST 32u /**< requests that are converted before they are posted together */

/** IBV_SEND_* as WEFT_WR_*, those that all requests have. */
static inline uint32_t
wv_post_flags(unsigned int f)
{
	return ((f & IBV_SEND_SIGNALED) != 0 ? WEFT_WR_SIGNALED : 0u) |
	       ((f & IBV_SEND_FENCE) != 0 ? WEFT_WR_FENCE : 0u);
}

/** Convert at most WV_POST_BURST and `most` receives from the list on. Returns how many. */
unsigned int wv_post_recv_fill(const struct ibv_recv_wr *wr, struct weft_recv_wr *w, uint32_t most);
/** Complete requests as flushed: the QP is in error and never had a connection. */
void wv_post_flush(struct wv_qp *q, uint64_t wr_id, enum ibv_wc_opcode opcode);
/** What a request completes as, when it is flushed here. */
enum ibv_wc_opcode wv_post_wc_opcode(enum weft_wr_opcode op);
/** The Immediate Data of a Write: the value, and the Write's length, which the message does not
 * have (RFC 7306 s6). */
void wv_post_imm(uint8_t data[8], __be32 imm, uint64_t len_bytes);
/** Whether requests of this kind need an ORD above zero. */
bool wv_post_needs_ord(enum weft_wr_opcode op);

#endif /* WEFT_APPS_VERBS_POST_H */
