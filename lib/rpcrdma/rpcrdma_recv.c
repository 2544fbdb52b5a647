/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Receives of an endpoint: a peer that has not authenticated gets few. */

#include <errno.h>
#include <stdlib.h>

#include "rpcrdma_mem.h"
#include "rpcrdma_priv.h"

int
weft_rpcrdma_recv_again(struct weft_rpc *rpc, struct rpcrdma_slot *s)
{
	struct weft_sge sge = {.addr = s->buf, .len_bytes = rpc->recv_bytes};
	struct weft_recv_wr wr = {.wr_id = (uintptr_t)s, .sg_list = &sge, .num_sge = 1};
	int rc = weft_post_recv(rpc->qp, &wr, 1);

	return rc == 1 ? 0 : rc == 0 ? -EAGAIN : rc;
}

int
weft_rpcrdma_recvs(struct weft_rpc *rpc, unsigned int n)
{
	uint8_t *mem = calloc(n, rpc->recv_bytes);

	if (mem == NULL)
		return -ENOMEM;
	rpc->recv_mem[rpc->recv_mem[0] != NULL] = mem;
	for (unsigned int i = 0; i < n; i++) {
		struct rpcrdma_slot *s = &rpc->slots[rpc->n_posted];
		int rc;

		s->buf = mem + (size_t)i * rpc->recv_bytes;
		rc = weft_rpcrdma_recv_again(rpc, s);
		if (rc != 0)
			return rc;
		rpc->n_posted++;
	}
	return 0;
}

int
weft_rpcrdma_let_in(struct weft_rpc *rpc)
{
	int rc = rpc->n_posted < rpc->n_recv ? weft_rpcrdma_recvs(rpc, rpc->n_recv - rpc->n_posted)
	                                     : 0;

	if (rc == 0)
		rpc->credit.window = rpc->a.credits;
	return rc;
}
