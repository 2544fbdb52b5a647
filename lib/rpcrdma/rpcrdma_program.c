/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The program that a call names, and the RPC headers of answers (RFC 5531 s9). */

#include "rpcrdma_program.h"

void
weft_rpcrdma_accepted(struct rpc_msg *reply, enum accept_stat stat)
{
	reply->rm_reply.rp_stat = MSG_ACCEPTED;
	reply->acpted_rply.ar_verf = _null_auth;
	reply->acpted_rply.ar_stat = stat;
	reply->acpted_rply.ar_results.proc = weft_rpc_xdr_void;
}

void
weft_rpcrdma_auth_error(struct rpc_msg *reply, enum auth_stat why)
{
	reply->rm_reply.rp_stat = MSG_DENIED;
	reply->rjcted_rply.rj_stat = AUTH_ERROR;
	reply->rjcted_rply.rj_why = why;
}

const struct weft_rpc_proc *
weft_rpcrdma_proc_find(const struct weft_rpc_program *const *programs, const struct rpc_msg *call,
                       struct rpc_msg *reply, bool *null)
{
	const struct weft_rpc_program *const *pp = programs;
	bool known = false;

	*null = false;
	for (; pp != NULL && *pp != NULL; pp++) {
		const struct weft_rpc_program *p = *pp;
		const struct weft_rpc_proc *proc;

		if (p->prog != call->rm_call.cb_prog)
			continue;
		if (p->vers == call->rm_call.cb_vers) {
			if (call->rm_call.cb_proc == NULLPROC) {
				*null = true;
				return NULL;
			}
			proc = call->rm_call.cb_proc < p->nprocs ? &p->procs[call->rm_call.cb_proc]
			                                         : NULL;
			if (proc != NULL && (proc->serve != NULL || proc->serve_later != NULL))
				return proc;
			weft_rpcrdma_accepted(reply, PROC_UNAVAIL);
			return NULL;
		}
		if (!known || p->vers < reply->acpted_rply.ar_vers.low)
			reply->acpted_rply.ar_vers.low = p->vers;
		if (!known || p->vers > reply->acpted_rply.ar_vers.high)
			reply->acpted_rply.ar_vers.high = p->vers;
		known = true;
	}
	weft_rpcrdma_accepted(reply, known ? PROG_MISMATCH : PROG_UNAVAIL);
	return NULL;
}

void
weft_rpcrdma_status(struct rpc_msg *reply, enum weft_rpc_status status, uint32_t vers)
{
	switch (status) {
	case WEFT_RPC_OK:
		weft_rpcrdma_accepted(reply, SUCCESS);
		break;
	case WEFT_RPC_DENIED:
		weft_rpcrdma_auth_error(reply, AUTH_TOOWEAK);
		break;
	case WEFT_RPC_PROG_UNAVAIL:
		weft_rpcrdma_accepted(reply, PROG_UNAVAIL);
		break;
	case WEFT_RPC_PROG_MISMATCH:
		weft_rpcrdma_accepted(reply, PROG_MISMATCH);
		reply->acpted_rply.ar_vers.low = vers;
		reply->acpted_rply.ar_vers.high = vers;
		break;
	case WEFT_RPC_PROC_UNAVAIL:
		weft_rpcrdma_accepted(reply, PROC_UNAVAIL);
		break;
	case WEFT_RPC_GARBAGE_ARGS:
		weft_rpcrdma_accepted(reply, GARBAGE_ARGS);
		break;
	default:
		weft_rpcrdma_accepted(reply, SYSTEM_ERR);
		break;
	}
}
