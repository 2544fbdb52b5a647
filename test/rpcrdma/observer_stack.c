/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Attaches the observer to two complete stacks. */

#include "rpcrdma_mem.h"
#include "observer_stack.h"

#include <string.h>

#include "rpcrdma_priv.h"
#include "weft_test.h"

static const struct obs *watched;
static uint64_t own;

/* weft_post_send() itself. The linker's --wrap directs its callers to the wrapper below. */
int __real_weft_post_send(struct weft_qp *qp, const struct weft_wr *wr, unsigned int n);
int __wrap_weft_post_send(struct weft_qp *qp, const struct weft_wr *wr, unsigned int n);

int
__wrap_weft_post_send(struct weft_qp *qp, const struct weft_wr *wr, unsigned int n)
{
	static uint8_t m[RPCRDMA_MAX_INLINE_BYTES];
	int posted = __real_weft_post_send(qp, wr, n);

	for (int i = 0;
	     i < posted && watched != NULL && (qp == watched->qp[0] || qp == watched->qp[1]); i++) {
		uint32_t len = 0;

		if (own != 0 && wr[i].wr_id == own)
			continue;

		if (wr[i].opcode == WEFT_WR_SEND || wr[i].opcode == WEFT_WR_SEND_INV) {
			for (unsigned int k = 0; k < wr[i].num_sge; k++) {
				const struct weft_sge *s = &wr[i].sg_list[k];

				CHECK(s->len_bytes <= sizeof(m) - len);
				memcpy(m + len, s->addr, s->len_bytes);
				len += s->len_bytes;
			}
			if (wr[i].opcode == WEFT_WR_SEND_INV)
				obs_on_invalidate(qp, m, len, wr[i].send.inv_stag);
			obs_on_post(qp, m, len);
		} else if (wr[i].opcode == WEFT_WR_WRITE || wr[i].opcode == WEFT_WR_READ) {
			for (unsigned int k = 0; k < wr[i].num_sge; k++)
				len += wr[i].sg_list[k].len_bytes;
			obs_on_access(qp, wr[i].opcode == WEFT_WR_WRITE, wr[i].rdma.stag,
			              wr[i].rdma.to, len);
		}
	}
	return posted;
}

void
obs_stack_wc(struct weft_qp *qp, const struct weft_wc *wc)
{
	const struct rpcrdma_slot *slot = (const struct rpcrdma_slot *)(uintptr_t)wc->wr_id;

	if (wc->status == WEFT_WC_SUCCESS && wc->opcode == WEFT_WC_RECV)
		obs_on_arrive(qp, slot->buf, wc->len_bytes);
}

void
obs_stack(struct obs *o, const struct weft_qp *client, const struct weft_qp *server,
          uint64_t own_wr_id)
{
	obs_begin(o, client, server);
	watched = o;
	own = own_wr_id;
}
