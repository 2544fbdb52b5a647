/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The receive buffer that a Send or Immediate Data consumes. */

#include "rdmap_recv.h"
#include "rdmap_term.h"

int
rdmap_recv_take(struct weft_rdmap *r, uint8_t op, const struct weft_ddp_hdr *h,
                struct weft_term *term)
{
	struct rdmap_rx_send *s = &r->rx_send;

	if (h->mo != 0 || s->active)
		return rdmap_unexpected(term);
	s->nsge = 0;
	s->sge = r->ops->recv_buf(r->user, &s->nsge);
	if (s->sge == NULL && s->nsge > 0)
		return weft_fault(term, WEFT_TERM_LAYER_RDMA, WEFT_TERM_RDMA_LOCAL, 0);
	if (s->sge == NULL) {
		RDMAP_FAULT(r, sends_without_receive);
		return weft_fault(term, WEFT_TERM_LAYER_DDP, WEFT_TERM_DDP_UNTAGGED,
		                  WEFT_TERM_UNT_NO_BUFFER);
	}
	s->active = true;
	s->op = op;
	s->got_bytes = 0;
	s->size_bytes = 0;
	for (unsigned int i = 0; i < s->nsge; i++)
		s->size_bytes += s->sge[i].len_bytes;
	return 0;
}
