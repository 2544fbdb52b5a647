/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The endpoint: its life, its completions, and what each received message leads to. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpcrdma_priv.h"

const char *
weft_rpc_status_str(enum weft_rpc_status s)
{
	static const char *const names[] = {
	        [WEFT_RPC_OK] = "success",
	        [WEFT_RPC_CONNLOST] = "connection lost",
	        [WEFT_RPC_TIMEDOUT] = "timed out",
	        [WEFT_RPC_TRANSPORT] = "refused by the RPC transport",
	        [WEFT_RPC_DENIED] = "denied",
	        [WEFT_RPC_PROG_UNAVAIL] = "program unavailable",
	        [WEFT_RPC_PROG_MISMATCH] = "program version mismatch",
	        [WEFT_RPC_PROC_UNAVAIL] = "procedure unavailable",
	        [WEFT_RPC_GARBAGE_ARGS] = "arguments not understood",
	        [WEFT_RPC_SYSTEM_ERR] = "system error at the server",
	        [WEFT_RPC_BAD_REPLY] = "reply not understood",
	};

	return (unsigned int)s < sizeof(names) / sizeof(names[0]) ? names[s] : "unknown";
}

static int
rpc_post_recv(struct weft_rpc *rpc, struct rpcrdma_slot *s)
{
	struct weft_sge sge = {.addr = s->buf, .len_bytes = rpc->recv_bytes};
	struct weft_recv_wr wr = {.wr_id = (uintptr_t)s, .sg_list = &sge, .num_sge = 1};
	int rc = weft_post_recv(rpc->qp, &wr, 1);

	return rc == 1 ? 0 : rc == 0 ? -EAGAIN : rc;
}

static void
rpc_free(struct weft_rpc *rpc)
{
	for (unsigned int i = rpc->n_recv; rpc->slots != NULL && i < rpc->n_recv + rpc->n_send; i++)
		free(rpc->slots[i].buf);
	free(rpc->slots);
	free(rpc->recv_mem);
	free(rpc);
}

int
weft_rpc_create(const struct weft_rpc_attr *attr, struct weft_rpc **out)
{
	struct weft_rpc *rpc;
	int rc;

	if (attr == NULL || out == NULL || attr->size != sizeof(*attr) || attr->qp == NULL)
		return -EINVAL;
	if (attr->inline_bytes != 0 && (attr->inline_bytes < RPCRDMA_V1_INLINE_BYTES ||
	                                attr->inline_bytes > RPCRDMA_MAX_INLINE_BYTES))
		return -EINVAL;
	if (attr->credits == 1 || attr->credits > RPCRDMA_MAX_CREDITS)
		return -EINVAL;
	rpc = calloc(1, sizeof(*rpc));
	if (rpc == NULL)
		return -ENOMEM;
	rpc->qp = attr->qp;
	rpc->worker = weft_qp_worker(attr->qp);
	rpc->programs = attr->programs;
	rpc->user = attr->user;
	rpc->inline_bytes =
	        attr->inline_bytes != 0 ? attr->inline_bytes : RPCRDMA_DEFAULT_INLINE_BYTES;
	/* s4.2.2: without an exchange of properties the peer counts on the default. */
	rpc->recv_bytes = rpc->inline_bytes > RPCRDMA_DEFAULT_INLINE_BYTES
	                          ? rpc->inline_bytes
	                          : RPCRDMA_DEFAULT_INLINE_BYTES;
	rpc->peer = RPCRDMA_PROPS_DEFAULT;
	rpc->next_xid = 1;
	weft_rpcrdma_credit_init(&rpc->credit, attr->credits != 0 ? attr->credits : 8);
	STAILQ_INIT(&rpc->tx);
	STAILQ_INIT(&rpc->free);
	LIST_INIT(&rpc->calls);
	LIST_INIT(&rpc->free_calls);
	for (unsigned int i = 0; i < WEFT_RPC_MAX_CALLS; i++)
		LIST_INSERT_HEAD(&rpc->free_calls, &rpc->call_mem[i], entry);

	/*
	 * To send: our calls; the answers to what the peer may have on the way, twice over, because
	 * an answer's buffer is busy until its send completes; properties, grants.
	 */
	rpc->n_recv = rpc->credit.window + 1;
	rpc->n_send = WEFT_RPC_MAX_CALLS + 2 * rpc->credit.window + 8;
	rpc->slots = calloc(rpc->n_recv + rpc->n_send, sizeof(*rpc->slots));
	rpc->recv_mem = calloc(rpc->n_recv, rpc->recv_bytes);
	if (rpc->slots == NULL || rpc->recv_mem == NULL) {
		rpc_free(rpc);
		return -ENOMEM;
	}
	for (unsigned int i = rpc->n_recv; i < rpc->n_recv + rpc->n_send; i++)
		STAILQ_INSERT_TAIL(&rpc->free, &rpc->slots[i], next);
	for (unsigned int i = 0; i < rpc->n_recv; i++) {
		rpc->slots[i].buf = rpc->recv_mem + (size_t)i * rpc->recv_bytes;
		rc = rpc_post_recv(rpc, &rpc->slots[i]);
		if (rc != 0) {
			rpc_free(rpc);
			return rc;
		}
	}
	*out = rpc;
	return 0;
}

void
weft_rpcrdma_enter(struct weft_rpc *rpc)
{
	rpc->depth++;
}

void
weft_rpcrdma_leave(struct weft_rpc *rpc)
{
	if (rpc->depth == 1 && !rpc->down)
		weft_rpcrdma_pump(rpc);
	if (--rpc->depth == 0 && rpc->dead)
		rpc_free(rpc);
}

void
weft_rpcrdma_down(struct weft_rpc *rpc)
{
	struct rpcrdma_slot *s;

	if (rpc->down)
		return;
	rpc->down = true;
	if (rpc->retry != NULL)
		weft_alarm_cancel(rpc->retry);
	rpc->retry = NULL;
	while ((s = STAILQ_FIRST(&rpc->tx)) != NULL) {
		weft_rpcrdma_unqueue(rpc, s);
		weft_rpcrdma_slot_put(rpc, s);
	}
	weft_rpcrdma_calls_end(rpc, WEFT_RPC_CONNLOST);
}

void
weft_rpcrdma_fail(struct weft_rpc *rpc)
{
	if (!rpc->down)
		weft_disconnect(rpc->qp);
	weft_rpcrdma_down(rpc);
}

void
weft_rpc_destroy(struct weft_rpc *rpc)
{
	if (rpc == NULL || rpc->dead)
		return;
	weft_rpcrdma_enter(rpc);
	rpc->dead = true;
	weft_rpcrdma_down(rpc);
	weft_rpcrdma_leave(rpc);
}

void
weft_rpc_disconnected(struct weft_rpc *rpc)
{
	weft_rpcrdma_enter(rpc);
	weft_rpcrdma_down(rpc);
	weft_rpcrdma_leave(rpc);
}

const struct weft_rpc_stats *
weft_rpc_stats(const struct weft_rpc *rpc)
{
	return &rpc->stats;
}

/* ---- Messages in ---- */

static bool
rx_is_props(uint32_t htype)
{
	return htype == RDMA2_CONNPROP_MIDDLE || htype == RDMA2_CONNPROP_FINAL;
}

/* No program here reads or writes by chunks (s7.3.1, s7.3.2). A Reply chunk may go unused. */
static const struct rpcrdma_limits rx_limits = {.segs = RPCRDMA_MAX_SEGS};

/*
 * The verdict on a message for this endpoint: that on its header, and what is true of this
 * endpoint. DEVIATION: s6.1 requires every type of table 2. Message continuation and external
 * messages are answered with ERR_INVAL_HTYPE, as s7.1.3 foresees for a type that is not supported.
 */
static enum rpcrdma_verdict
rx_verdict(const uint8_t *buf, uint32_t len_bytes, struct rpcrdma_hdr *hdr)
{
	enum rpcrdma_verdict v = weft_rpcrdma_decode(buf, len_bytes, &rx_limits, hdr);

	if (v == RPCRDMA_SHORT)
		return v;
	if (hdr->p.vers != RPCRDMA_V2 &&
	    (v != RPCRDMA_OK || hdr->p.htype != RDMA2_ERROR || hdr->err.code != RDMA2_ERR_VERS))
		return RPCRDMA_BAD_VERS;
	switch (hdr->p.htype) {
	case RDMA2_CALL_EXTERNAL:
	case RDMA2_CALL_MIDDLE:
	case RDMA2_REPLY_EXTERNAL:
	case RDMA2_REPLY_MIDDLE:
		return RPCRDMA_BAD_HTYPE;
	case RDMA2_CALL_INLINE:
	case RDMA2_REPLY_INLINE:
		if (v == RPCRDMA_OK && !weft_rpcrdma_xid_ok(hdr, buf, len_bytes))
			return RPCRDMA_BAD_XDR;
		return v;
	default:
		return v;
	}
}

static void
rx_count(struct weft_rpc_stats *stats, enum rpcrdma_verdict v)
{
	uint64_t *const counter[RPCRDMA_N_VERDICTS] = {
	        [RPCRDMA_SHORT] = &stats->short_dropped,
	        [RPCRDMA_BAD_VERS] = &stats->bad_version,
	        [RPCRDMA_BAD_HTYPE] = &stats->bad_htype,
	        [RPCRDMA_BAD_XDR] = &stats->bad_xdr,
	        [RPCRDMA_BAD_PROPVAL] = &stats->bad_property,
	        [RPCRDMA_DISCARD] = &stats->discarded,
	        [RPCRDMA_MANY_READS] = &stats->over_limit,
	        [RPCRDMA_MANY_WRITES] = &stats->over_limit,
	        [RPCRDMA_MANY_SEGS] = &stats->over_limit,
	};

	if (counter[v] != NULL)
		(*counter[v])++;
}

/*
 * A message that is not well: s7 has an error for each case. Errors are answers to requests: a
 * reply ends its call instead, and an RDMA2_ERROR gets none, or two peers could go on for ever.
 */
static void
rx_fault(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr, enum rpcrdma_verdict v)
{
	struct rpcrdma_err err;

	if (hdr->p.htype == RDMA2_ERROR ||
	    !weft_rpcrdma_verdict_err(v, RPCRDMA_V2, &rx_limits, RPCRDMA_V2, RPCRDMA_V2, &err))
		return;
	if (v != RPCRDMA_BAD_VERS && weft_rpcrdma_dir(hdr, NULL, 0) == RPCRDMA_DIR_REPLY) {
		weft_rpcrdma_rx_bad_reply(rpc, hdr->p.xid);
		return;
	}
	/* s7.1.2: in the middle of a working connection it is another fault. */
	if (v == RPCRDMA_BAD_VERS && rpc->heard)
		err = (struct rpcrdma_err){.code = RDMA2_ERR_VERS_MISMATCH};
	/* s7.3.2: who writes no chunk at all cannot say how many are too many. */
	if (v == RPCRDMA_MANY_WRITES)
		err = (struct rpcrdma_err){.code = RDMA2_ERR_REPLY_RESOURCE};
	weft_rpcrdma_error(rpc, &hdr->p, &err);
}

static void
rx_message(struct weft_rpc *rpc, const uint8_t *buf, uint32_t len_bytes)
{
	struct rpcrdma_hdr hdr;
	enum rpcrdma_verdict v = rx_verdict(buf, len_bytes, &hdr);

	rx_count(&rpc->stats, v);
	rpc->refresh = true;
	rpc->refresh_payload |= v == RPCRDMA_SHORT || hdr.p.htype != RDMA2_GRANT;
	if (v == RPCRDMA_SHORT)
		return;
	if (hdr.p.vers == RPCRDMA_V2) {
		/* s4.2.1: "the most recently received message". Another version counts otherwise.
		 */
		rpc->credit.limit = hdr.p.credit;
		/* An error that refuses the version does not establish it (s4.3). */
		if (v != RPCRDMA_OK || hdr.p.htype != RDMA2_ERROR || hdr.err.code != RDMA2_ERR_VERS)
			rpc->heard = true;
	}
	/* s6.3.3: nothing comes between the parts of a set of properties. */
	if (rpc->props_in == RPCRDMA_PROPS_MIDDLE && !rx_is_props(hdr.p.htype) &&
	    hdr.p.htype != RDMA2_ERROR) {
		weft_rpcrdma_error(rpc, &hdr.p, &(struct rpcrdma_err){RDMA2_ERR_INVAL_CONT, 0, 0});
		return;
	}
	if (v != RPCRDMA_OK) {
		rx_fault(rpc, &hdr, v);
		return;
	}
	switch (hdr.p.htype) {
	case RDMA2_ERROR:
		weft_rpcrdma_rx_error(rpc, &hdr);
		break;
	case RDMA2_GRANT:
		rpc->stats.grants_in++;
		break;
	case RDMA2_CONNPROP_MIDDLE:
	case RDMA2_CONNPROP_FINAL:
		weft_rpcrdma_rx_props(rpc, &hdr);
		break;
	case RDMA2_CALL_INLINE:
		weft_rpcrdma_rx_call(rpc, &hdr, buf + hdr.len_bytes, len_bytes - hdr.len_bytes);
		break;
	case RDMA2_REPLY_INLINE:
		weft_rpcrdma_rx_reply(rpc, hdr.p.xid, buf + hdr.len_bytes,
		                      len_bytes - hdr.len_bytes);
		break;
	}
}

static struct rpcrdma_slot *
rpc_slot_of(const struct weft_rpc *rpc, uint64_t wr_id)
{
	uintptr_t off = (uintptr_t)wr_id - (uintptr_t)rpc->slots;

	if (wr_id < (uintptr_t)rpc->slots || off % sizeof(*rpc->slots) != 0 ||
	    off / sizeof(*rpc->slots) >= rpc->n_recv + rpc->n_send)
		return NULL;
	return &rpc->slots[off / sizeof(*rpc->slots)];
}

bool
weft_rpc_wc(struct weft_rpc *rpc, const struct weft_wc *wc)
{
	struct rpcrdma_slot *s = rpc_slot_of(rpc, wc->wr_id);

	weft_rpcrdma_enter(rpc);
	if (s == NULL) {
		/* The consumer's own. It may have made room in the send queue: leaving tries. */
	} else if ((unsigned int)(s - rpc->slots) >= rpc->n_recv) {
		weft_rpcrdma_slot_put(rpc, s);
		if (wc->status != WEFT_WC_SUCCESS)
			weft_rpcrdma_down(rpc);
	} else if (wc->status != WEFT_WC_SUCCESS || wc->len_bytes > rpc->recv_bytes) {
		weft_rpcrdma_down(rpc);
	} else if (!rpc->down) {
		rpc->credit.recvd++;
		rx_message(rpc, s->buf, wc->len_bytes);
		/* Posted again before anything goes out that says so. */
		if (!rpc->down && rpc_post_recv(rpc, s) != 0)
			weft_rpcrdma_fail(rpc);
	}
	weft_rpcrdma_leave(rpc);
	return s != NULL;
}
