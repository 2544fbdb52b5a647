/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Requester: the results of an own call. These are the peer's reply, or a transport error
 * and the reaction to it. */

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <rpc/rpc.h>
#include <rpc/rpc_msg.h>

#include "rpcrdma_call.h"
#include "rpcrdma_mem.h"
#include "rpcrdma_msg.h"
#include "rpcrdma_priv.h"

/* ---- Replies ---- */

static enum weft_rpc_status
reply_status(const struct rpc_msg *msg)
{
	static const enum weft_rpc_status accepted[] = {
	        [SUCCESS] = WEFT_RPC_OK,
	        [PROG_UNAVAIL] = WEFT_RPC_PROG_UNAVAIL,
	        [PROG_MISMATCH] = WEFT_RPC_PROG_MISMATCH,
	        [PROC_UNAVAIL] = WEFT_RPC_PROC_UNAVAIL,
	        [GARBAGE_ARGS] = WEFT_RPC_GARBAGE_ARGS,
	        [SYSTEM_ERR] = WEFT_RPC_SYSTEM_ERR,
	};
	unsigned int stat = msg->acpted_rply.ar_stat;

	if (msg->rm_reply.rp_stat == MSG_DENIED)
		return WEFT_RPC_DENIED;
	return stat < sizeof(accepted) / sizeof(accepted[0]) ? accepted[stat] : WEFT_RPC_BAD_REPLY;
}

void
weft_rpc_xdr_results(XDR *xdr, const void *res)
{
	if (xdr != NULL)
		rpcrdma_in_results(xdr->x_private, res);
}

/* Argument of the results' XDR routine; tells where the results begin. */
struct reply_results {
	struct rpcrdma_call *call;
	struct rpcrdma_in *in;
};

static bool_t
reply_xdr_results(XDR *xdr, ...)
{
	struct reply_results *r;
	va_list ap;

	va_start(ap, xdr);
	r = va_arg(ap, struct reply_results *);
	va_end(ap);
	rpcrdma_in_results(r->in, r->call->res);
	return r->call->a.xdr_res(xdr, r->call->res);
}

/* RFC 8166 s6.1: data in a Write chunk that is no eligible result ends the call with an error. */
static enum weft_rpc_status
reply_checked(const struct rpcrdma_in *in, enum weft_rpc_status status)
{
	return status == WEFT_RPC_OK && !rpcrdma_in_results_ok(in) ? WEFT_RPC_BAD_REPLY : status;
}

static enum weft_rpc_status
reply_decode(struct rpcrdma_call *call, struct rpcrdma_in *in)
{
	struct reply_results r = {call, in};
	char verf[MAX_AUTH_BYTES];
	struct rpc_msg msg = {0};
	XDR xdr;

	rpcrdma_in_open(in, &xdr);
	if (call->a.decode != NULL)
		return reply_checked(in, call->a.decode(call->a.arg, &xdr));
	call->res = calloc(1, call->a.res_bytes != 0 ? call->a.res_bytes : 1);
	if (call->res == NULL)
		return WEFT_RPC_BAD_REPLY;
	if (call->res_init != NULL)
		memcpy(call->res, call->res_init, call->a.res_bytes);
	msg.acpted_rply.ar_verf.oa_base = verf; /* or the decoder would allocate */
	msg.acpted_rply.ar_results.proc = reply_xdr_results;
	msg.acpted_rply.ar_results.where = (caddr_t)&r;
	return xdr_replymsg(&xdr, &msg) ? reply_checked(in, reply_status(&msg))
	                                : WEFT_RPC_BAD_REPLY;
}

/*
 * Take the lengths of the Write chunks. The peer returns the chunks with changed lengths
 * (s4.5.2.1); a length beyond the chunk's room is refused.
 */
static bool
reply_sinks(struct rpcrdma_call *call, const struct rpcrdma_hdr *hdr, struct rpcrdma_in *in)
{
	const struct rpcrdma_chunks *c = &hdr->chunks;

	in->by_order = true;
	in->placed = call->a.binding != NULL ? call->a.binding->placed : NULL;
	if (call->no_writes)
		return c->n_writes == 0;
	if (c->n_writes > call->nsinks)
		return false;
	for (unsigned int i = 0; i < c->n_writes; i++) {
		if (c->writes[i].len_bytes > call->room_bytes[i])
			return false;
		in->items[in->nitems++] = (struct rpcrdma_in_item){
		        .data = call->sink[i].addr,
		        .len_bytes = (uint32_t)c->writes[i].len_bytes,
		        .where = call->sink[i].nth,
		        .offered = call->room_bytes[i] > 0,
		};
	}
	return true;
}

/* Handle an answer to a call that is over, is ending, or was never sent. */
static void
result_late(struct weft_rpc *rpc, struct rpcrdma_call *call, uint32_t xid)
{
	rpc->stats.bad_xid++;
	if (call != NULL && call->ended)
		call->late = false;
	weft_rpcrdma_reg_answered(rpc, xid);
	weft_rpcrdma_call_late(rpc);
}

void
weft_rpcrdma_rx_reply(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr, const uint8_t *buf,
                      uint32_t len_bytes)
{
	struct rpcrdma_call *call = weft_rpcrdma_call_find(rpc, hdr->p.xid);
	struct rpcrdma_in in = {.buf = buf, .len_bytes = len_bytes};
	enum weft_rpc_status status = WEFT_RPC_BAD_REPLY;

	/* A call whose message was not sent cannot have been answered. */
	if (call == NULL || call->ended || (call->msg != NULL && call->msg->queued)) {
		result_late(rpc, call, hdr->p.xid);
		return;
	}
	rpc->stats.replies_in++;
	if (buf == NULL) {
		if (call->reply == NULL || !hdr->chunks.has_reply ||
		    hdr->chunks.reply.len_bytes > call->reply_bytes)
			goto end;
		in.buf = call->reply;
		in.len_bytes = (uint32_t)hdr->chunks.reply.len_bytes;
		if (in.len_bytes < 4 || weft_get_be32(in.buf) != call->xid)
			goto end;
	}
	if (reply_sinks(call, hdr, &in))
		status = reply_decode(call, &in);
end:
	weft_rpcrdma_call_end(call, status);
}

void
weft_rpcrdma_rx_bad_reply(struct weft_rpc *rpc, uint32_t xid)
{
	struct rpcrdma_call *call = weft_rpcrdma_call_find(rpc, xid);

	if (call == NULL || call->ended)
		rpc->stats.bad_xid++;
	else
		weft_rpcrdma_call_end(call, WEFT_RPC_BAD_REPLY);
}

/* ---- Errors (draft s7, RFC 8166 s4.5) ---- */

/* Encode the next try in new memory, because the peer may still read this one's Call chunk. */
static bool
result_fresh_out(struct rpcrdma_call *call)
{
	uint8_t *buf = malloc(call->out.cap_bytes);

	if (buf == NULL)
		return false;
	memcpy(buf, call->out.buf, call->out.len_bytes);
	call->outgrown[call->noutgrown++] = call->out.buf;
	call->out.buf = buf;
	return true;
}

/*
 * Try the call again. The previous try's registrations are invalidated at the end of the call, with
 * those of the next: the peer has refused the message, and needs them no more.
 */
static bool
result_retry(struct rpcrdma_call *call)
{
	struct weft_rpc *rpc = call->rpc;

	if (++call->tries >= RPCRDMA_CALL_TRIES ||
	    call->nregs + RPCRDMA_CALL_REGS / 2 > RPCRDMA_CALL_REGS)
		return false;
	/* The offered regions stay, and their registration was posted. The next message may have
	 * the address of this one. */
	for (unsigned int i = 0; i < call->nregs; i++)
		call->reg[i]->batch = NULL;
	/* Only with a binding's items do the arguments still exist. */
	if (call->out.nitems > 0 && call->nregs > 0 && !result_fresh_out(call))
		return false;
	if (call->no_reads && call->out.nitems > 0 && weft_rpcrdma_call_encode(call, false) != 0)
		return false;
	if (call->counted)
		rpc->credit1.calls--;
	call->counted = false;
	if (call->msg != NULL)
		call->msg->call = NULL; /* its Send has not completed yet */
	call->msg = NULL;
	if (weft_rpcrdma_call_queue(call) != 0)
		return false;
	rpc->stats.retries++;
	return true;
}

/* Whether the call can succeed with other resources, which are then asked for. A call that was
 * executed is not tried again. */
static bool
result_other_way(struct rpcrdma_call *call, const struct rpcrdma_err *err)
{
	uint32_t max = call->rpc->a.max_message_bytes;

	switch (err->code) {
	case RDMA2_ERR_READ_CHUNKS:
		/* s7.3.1: "zero" means none at all, not even the Call chunk. */
		if (call->external && (call->no_reads || call->out.nitems == 0 || err->a == 0)) {
			call->no_reads = call->no_external = true;
			return true;
		}
		if (call->no_reads || call->out.nitems == 0)
			return false;
		call->no_reads = true;
		return true;
	case RDMA2_ERR_SEGMENTS:
		/* s7.3.3: the most segments of a chunk. Ours are as long as possible, so from
		 * now on a header has no more than that; if it had no more already, it uses fewer
		 * kinds of chunks. */
		if (err->a >= call->nsegs)
			return call->nsegs > 0 && weft_rpcrdma_call_leaner(call);
		call->rpc->peer.segs = err->a;
		return true;
	case RDMA2_ERR_WRITE_CHUNKS:
		if (call->no_writes || call->nsinks == 0)
			return false;
		call->no_writes = true;
		return true;
	case RDMA2_ERR_REPLY_RESOURCE:
		/* s5.2.5: no Reply chunk may be offered. */
		if (call->rpc->a.server && call->rpc->vers == RPCRDMA_V2 &&
		    call->rpc->peer.reverse < RDMA2_RVRSDIR_GENL)
			return false;
		if (call->a.once || err->a == 0 || err->a > max || err->a <= call->reply_bytes)
			return false;
		call->want_reply_bytes = err->a;
		return true;
	case RDMA2_ERR_WRITE_RESOURCE:
		/* Sinks have the size that the binding gives for results, so use a whole reply
		 * instead. */
		if (call->a.once || call->no_writes || err->b == 0 || err->b > max)
			return false;
		call->no_writes = true;
		call->want_reply_bytes = err->b + 1024;
		return true;
	default:
		return false;
	}
}

/* Map version 1's two codes to those of version 2; ERR_CHUNK does not tell which chunk was too
 * small. */
static struct rpcrdma_err
result_map(const struct rpcrdma_hdr *hdr)
{
	struct rpcrdma_err err = hdr->err;

	if (hdr->p.vers == RPCRDMA_V1 && err.code == RDMA1_ERR_CHUNK)
		err = (struct rpcrdma_err){.code = RDMA2_ERR_REPLY_RESOURCE};
	return err;
}

/* s4.3.2: everything that was sent is sent again in the other version, on this connection. */
static void
result_fall_back(struct weft_rpc *rpc)
{
	struct rpcrdma_call *call;

	rpc->vers = RPCRDMA_V1;
	rpc->props_out = rpc->props_in = RPCRDMA_PROPS_NONE;
	rpc->authentic = rpc->a.auth == NULL || !rpc->a.auth->required;
	if (!rpc->authentic) {
		/* Version 1 has no authentication. */
		rpc->bad_vers = true;
		weft_rpcrdma_calls_end(rpc, WEFT_RPC_TRANSPORT);
		return;
	}
	LIST_FOREACH (call, &rpc->calls, entry) {
		if (call->ended)
			continue;
		if (call->msg == NULL || !call->msg->queued) {
			if (!result_retry(call))
				call->error = RDMA2_ERR_VERS;
		} else if (!call->msg->begun && call->msg->pre.n == 0) {
			/* The call was laid out for version 2 and waits for credit: lay it out
			 * again. */
			call->msg->payload = NULL;
		}
	}
	for (;;) {
		LIST_FOREACH (call, &rpc->calls, entry)
			if (!call->ended && call->error == RDMA2_ERR_VERS)
				break;
		if (call == NULL)
			return;
		weft_rpcrdma_call_end(call, WEFT_RPC_TRANSPORT);
	}
}

/* s7.1.1: messages that wait in the refused version are not sent; calls are laid out again. */
static void
result_drop_control(struct weft_rpc *rpc)
{
	struct rpcrdma_msg *m, *next;

	for (m = STAILQ_FIRST(&rpc->tx); m != NULL; m = next) {
		next = STAILQ_NEXT(m, next);
		if (m->kind == RPCRDMA_CONTROL && m->hdr.p.vers == rpc->vers)
			weft_rpcrdma_msg_free(rpc, m);
	}
}

static void
result_bad_vers(struct weft_rpc *rpc, const struct rpcrdma_err *err)
{
	struct rpcrdma_call *call;

	/* Only a client chooses the version (s4.3.2), so a server ignores this error. */
	if (rpc->a.server) {
		rpc->stats.discarded++;
		return;
	}
	result_drop_control(rpc);
	if (rpc->vers == RPCRDMA_V2 && err->a <= RPCRDMA_V1 && err->b >= RPCRDMA_V1 &&
	    rpc->a.min_vers <= RPCRDMA_V1) {
		result_fall_back(rpc);
		return;
	}
	/* s7.1.1: a version that the peer does not speak must not be sent again. */
	rpc->bad_vers = true;
	LIST_FOREACH (call, &rpc->calls, entry)
		call->error = RDMA2_ERR_VERS;
	weft_rpcrdma_calls_end(rpc, WEFT_RPC_TRANSPORT);
}

/* The peer refuses to exchange properties: the defaults hold, and there is no authentication
 * (s5.2.6). */
static void
result_props_refused(struct weft_rpc *rpc)
{
	rpc->props_in = rpc->props_out = RPCRDMA_PROPS_FINAL;
	if (rpc->a.auth == NULL || !rpc->a.auth->required || rpc->authentic)
		return;
	rpc->stats.auth_refused++;
	rpc->closing = true;
	weft_rpcrdma_calls_end(rpc, WEFT_RPC_TRANSPORT);
}

void
weft_rpcrdma_rx_error(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr)
{
	struct rpcrdma_err err = result_map(hdr);
	struct rpcrdma_call *call = weft_rpcrdma_call_find(rpc, hdr->p.xid);

	rpc->stats.errors_in++;
	if (err.code == RDMA2_ERR_VERS && !rpc->heard) {
		result_bad_vers(rpc, &err);
		return;
	}
	if (rpc->props_out != RPCRDMA_PROPS_NONE && hdr->p.xid == rpc->props_xid &&
	    rpc->props_in != RPCRDMA_PROPS_FINAL) {
		result_props_refused(rpc);
		return;
	}
	if (call == NULL || call->ended ||
	    (call->msg != NULL && call->msg->queued && !call->msg->begun)) {
		result_late(rpc, call, hdr->p.xid);
		return;
	}
	call->error = err.code;
	/*
	 * The remaining parts of a continued call are still sent, and the peer discards them
	 * (s7.1.4).
	 */
	if (call->msg != NULL && call->msg->queued) {
		weft_rpcrdma_call_end(call, WEFT_RPC_TRANSPORT);
		return;
	}
	if (result_other_way(call, &err) && result_retry(call))
		return;
	weft_rpcrdma_call_end(call, err.code == RDMA2_ERR_REPLY_RESOURCE ||
	                                            err.code == RDMA2_ERR_WRITE_RESOURCE
	                                    ? WEFT_RPC_TOO_LONG
	                                    : WEFT_RPC_TRANSPORT);
}
