/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_SIDE_H
#define RPCRDMA_SIDE_H

/** @file An endpoint on one of the two whole stacks of vt.h, as its consumer runs it. */

#include "vt.h"
#include <weft/rpcrdma.h>

struct rpc_side {
	struct vt_node *n;
	struct weft_rpc *rpc; /**< NULL: destroyed */
	unsigned int disconnects;
};

/** Make the endpoint on the node's QP with these attributes; attr.qp is set here. */
void rpc_side_up(struct rpc_side *s, struct vt_node *n, struct weft_rpc_attr attr);
/** Destroy what is left of the QP, then of the endpoint. */
void rpc_side_down(struct rpc_side *s);
/** Pass the completions of the node to take(), then the end of the connection to the endpoint. */
void rpc_side_dispatch(struct rpc_side *s,
                       void (*take)(struct rpc_side *s, const struct weft_wc *wc));

#endif /* RPCRDMA_SIDE_H */
