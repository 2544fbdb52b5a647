/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Completions of weft as verbs tell them. */

#include "cq.h"
#include "mem.h"
#include "newer.h"
#include "qp.h"

#include <endian.h>
#include <string.h>

static enum ibv_wc_status
post_status(enum weft_wc_status s)
{
	switch (s) {
	case WEFT_WC_SUCCESS:
		return IBV_WC_SUCCESS;
	case WEFT_WC_FLUSHED:
		return IBV_WC_WR_FLUSH_ERR;
	case WEFT_WC_REMOTE_ACCESS:
		return IBV_WC_REM_ACCESS_ERR;
	case WEFT_WC_REMOTE_OP:
	case WEFT_WC_HASH_MISMATCH:
		return IBV_WC_REM_OP_ERR;
	case WEFT_WC_LOCAL_LENGTH:
		return IBV_WC_LOC_LEN_ERR;
	case WEFT_WC_LOCAL_PROT:
		return IBV_WC_LOC_PROT_ERR;
	}
	return IBV_WC_GENERAL_ERR;
}

static enum ibv_wc_opcode
post_wc_opcode(enum weft_wc_opcode op)
{
	switch (op) {
	case WEFT_WC_WRITE:
		return IBV_WC_RDMA_WRITE;
	case WEFT_WC_READ:
		return IBV_WC_RDMA_READ;
	case WEFT_WC_ATOMIC_WRITE:
		return IBV_WC_ATOMIC_WRITE;
	case WEFT_WC_FETCH_ADD:
		return IBV_WC_FETCH_ADD;
	case WEFT_WC_CMP_SWAP:
		return IBV_WC_COMP_SWAP;
	case WEFT_WC_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	case WEFT_WC_BIND_MW:
		return IBV_WC_BIND_MW;
	case WEFT_WC_FLUSH:
		return (enum ibv_wc_opcode)WV_WC_FLUSH;
	case WEFT_WC_RECV:
		return IBV_WC_RECV;
	case WEFT_WC_RECV_IMM:
		return IBV_WC_RECV_RDMA_WITH_IMM;
	default:
		return IBV_WC_SEND;
	}
}

void
wv_post_done(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	struct wv_qp *q = user;
	uint32_t taken = 0;

	(void)cq;
	for (unsigned int i = 0; i < n; i++) {
		const bool ok = wc[i].status == WEFT_WC_SUCCESS;
		const bool recv = wc[i].opcode >= WEFT_WC_RECV;
		const bool bind = !ok && wc[i].opcode == WEFT_WC_BIND_MW;
		struct ibv_wc w = {
		        .wr_id = wc[i].wr_id,
		        .status = bind && wc[i].status == WEFT_WC_LOCAL_PROT
		                          ? IBV_WC_MW_BIND_ERR
		                          : post_status(wc[i].status),
		        .opcode = post_wc_opcode(wc[i].opcode),
		        .byte_len = wc[i].len_bytes,
		        .qp_num = q->ibv.qp_num,
		};

		if (ok && (wc[i].flags & WEFT_WC_INV) != 0) {
			w.wc_flags = IBV_WC_WITH_INV;
			w.invalidated_rkey = wc[i].inv_stag;
		} else if (ok && wc[i].opcode == WEFT_WC_RECV_IMM) {
			uint32_t len;

			w.wc_flags = IBV_WC_WITH_IMM;
			memcpy(&w.imm_data, wc[i].imm, 4);
			memcpy(&len, wc[i].imm + 4, 4);
			w.byte_len = be32toh(len);
		}
		if ((wc[i].opcode == WEFT_WC_LOCAL_INV || wc[i].opcode == WEFT_WC_BIND_MW) &&
		    !wv_mw_done(q, &w))
			continue;
		if (!wv_cq_put(recv ? q->rcq : q->scq, &w,
		               !ok || (wc[i].flags & WEFT_WC_SOLICITED) != 0))
			wv_qp_abort(q);
		taken += recv;
	}
	if (taken > 0 && q->srq == NULL)
		wv_rq_taken(q, taken);
}
