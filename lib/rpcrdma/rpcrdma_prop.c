/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Transport properties (draft s5, s6.3.3, s6.3.4). The exchange is optional; we start it only
 * when the first message would break a default, and answer a peer's with ours, once.
 */

#include "rpcrdma_priv.h"

static struct rpcrdma_slot *
prop_message(struct weft_rpc *rpc, uint32_t xid)
{
	struct rpcrdma_slot *s = weft_rpcrdma_slot_get(rpc, RPCRDMA_CONTROL);
	struct rpcrdma_hdr hdr;

	if (s == NULL)
		return NULL;
	weft_rpcrdma_hdr_init(&hdr, RPCRDMA_V2, RDMA2_CONNPROP_FINAL, xid);
	hdr.props.present =
	        1u << RDMA2_PROPID_SBSIZ | 1u << RDMA2_PROPID_RBSIZ | 1u << RDMA2_PROPID_BRS;
	hdr.props.send_bytes = rpc->inline_bytes;
	hdr.props.recv_bytes = rpc->recv_bytes;
	hdr.props.reverse = rpc->programs != NULL ? RDMA2_RVRSDIR_SIMPLE : RDMA2_RVRSDIR_NONE;
	s->len_bytes = weft_rpcrdma_encode(s->buf, rpc->inline_bytes, &hdr);
	rpc->props_out = RPCRDMA_PROPS_FINAL;
	return s;
}

bool
weft_rpcrdma_props_first(struct weft_rpc *rpc)
{
	struct rpcrdma_slot *s;

	rpc->props_xid = rpc->next_xid++;
	s = prop_message(rpc, rpc->props_xid);
	if (s == NULL)
		return false;
	s->queued = true;
	STAILQ_INSERT_HEAD(&rpc->tx, s, next);
	return true;
}

void
weft_rpcrdma_rx_props(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr)
{
	struct rpcrdma_slot *s;

	if (rpc->props_in == RPCRDMA_PROPS_FINAL) {
		weft_rpcrdma_error(rpc, &hdr->p, &(struct rpcrdma_err){RDMA2_ERR_INVAL_CONT, 0, 0});
		return;
	}
	rpc->stats.unknown_props += hdr->props.n_unknown;
	weft_rpcrdma_props_apply(&rpc->peer, &hdr->props);
	if (hdr->p.htype == RDMA2_CONNPROP_MIDDLE) {
		rpc->props_in = RPCRDMA_PROPS_MIDDLE;
		return;
	}
	rpc->props_in = RPCRDMA_PROPS_FINAL;
	if (rpc->props_out == RPCRDMA_PROPS_FINAL)
		return;
	s = prop_message(rpc, hdr->p.xid);
	if (s == NULL)
		weft_rpcrdma_fail(rpc);
	else
		weft_rpcrdma_queue(rpc, s);
}
