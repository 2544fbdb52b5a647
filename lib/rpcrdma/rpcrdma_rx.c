/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Incoming messages: version, faults of the header (draft s7.1, s7.2; RFC 8166 s4.5),
 * assembly of parts, and dispatch.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpcrdma_call.h"
#include "rpcrdma_mem.h"
#include "rpcrdma_msg.h"
#include "rpcrdma_priv.h"
#include "rpcrdma_req.h"

static bool
rx_is_props(const struct rpcrdma_prefix *p)
{
	return p->htype == RDMA2_CONNPROP_MIDDLE || p->htype == RDMA2_CONNPROP_FINAL;
}

static bool
rx_is_middle(const struct rpcrdma_prefix *p)
{
	return p->htype == RDMA2_CALL_MIDDLE || p->htype == RDMA2_REPLY_MIDDLE;
}

/* Whether a message is a part of a call or reply; also the only or last part. */
static bool
rx_is_part(const struct rpcrdma_prefix *p)
{
	return rx_is_middle(p) || p->htype == RDMA2_CALL_INLINE || p->htype == RDMA2_REPLY_INLINE;
}

static bool
rx_is_payload(const struct rpcrdma_prefix *p)
{
	return rx_is_part(p) || p->htype == RDMA2_CALL_EXTERNAL || p->htype == RDMA2_REPLY_EXTERNAL;
}

static bool
rx_is_reply(const struct rpcrdma_prefix *p)
{
	return p->vers == RPCRDMA_V2 &&
	       (p->htype == RDMA2_REPLY_EXTERNAL || p->htype == RDMA2_REPLY_MIDDLE ||
	        p->htype == RDMA2_REPLY_INLINE);
}

/*
 * RFC 8166 s4.2.4: a requester sends no RDMA_ERROR. A message that does not decode has no
 * direction. It counts as a reply if this endpoint serves nothing, or if it has the xid of one of
 * its calls.
 */
static bool
rx_is_reply_1(struct weft_rpc *rpc, const struct rpcrdma_prefix *p)
{
	return p->vers == RPCRDMA_V1 && ((rpc->a.programs == NULL && rpc->raw == NULL) ||
	                                 weft_rpcrdma_call_find(rpc, p->xid) != NULL);
}

static bool
rx_is_error(const struct rpcrdma_prefix *p)
{
	return p->htype == RDMA2_ERROR; /* 4 in both versions */
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

static void
rx_refuse(struct weft_rpc *rpc, const struct rpcrdma_prefix *p, uint32_t code)
{
	weft_rpcrdma_error(rpc, p, &(struct rpcrdma_err){.code = code});
}

/*
 * A message does not decode: s7 has an error for each case. Errors answer requests. A bad reply
 * ends its call instead, and an RDMA2_ERROR is not answered, because two peers could otherwise
 * continue for ever.
 */
static void
rx_fault(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr, enum rpcrdma_verdict v)
{
	struct rpcrdma_err err;

	if (rx_is_error(&hdr->p) || v == RPCRDMA_DISCARD)
		return;
	if (rx_is_reply(&hdr->p) || rx_is_reply_1(rpc, &hdr->p)) {
		weft_rpcrdma_rx_bad_reply(rpc, hdr->p.xid);
		return;
	}
	if (weft_rpcrdma_verdict_err(v, hdr->p.vers, &rpc->limits, rpc->a.min_vers, rpc->a.max_vers,
	                             &err))
		weft_rpcrdma_error(rpc, &hdr->p, &err);
}

/* Whether the message has the connection's version, which the first good message settles. */
static bool
rx_version(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr, enum rpcrdma_verdict v)
{
	uint32_t vers = hdr->p.vers;

	/* An error that refuses the version does not establish it, and may have any version
	 * (s4.3.2). */
	if (v == RPCRDMA_OK && rx_is_error(&hdr->p) && hdr->err.code == RDMA2_ERR_VERS)
		return true;
	if (v == RPCRDMA_BAD_VERS || vers < rpc->a.min_vers || vers > rpc->a.max_vers) {
		struct rpcrdma_err err = {RDMA2_ERR_VERS, rpc->a.min_vers, rpc->a.max_vers};

		rpc->stats.bad_version += v != RPCRDMA_BAD_VERS;
		if (rpc->heard && rpc->vers == RPCRDMA_V2)
			err = (struct rpcrdma_err){.code = RDMA2_ERR_VERS_MISMATCH};
		if (!rx_is_error(&hdr->p))
			weft_rpcrdma_error(rpc, &hdr->p, &err);
		return false;
	}
	if (vers != rpc->vers && (rpc->heard || !rpc->a.server)) {
		/* s7.1.2, once a version is settled. Before that, a client's peer answers in the
		 * version of the client's message, or not at all. */
		rpc->stats.bad_version++;
		if (rpc->heard && !rx_is_error(&hdr->p))
			rx_refuse(rpc, &hdr->p, RDMA2_ERR_VERS_MISMATCH);
		return false;
	}
	rpc->vers = vers;
	rpc->heard = true;
	return true;
}

/* ---- Parts ---- */

static void
rx_cont_end(struct weft_rpc *rpc)
{
	struct rpcrdma_cont *c = &rpc->cont;

	weft_rpcrdma_let_go(rpc, c->len_bytes);
	free(c->buf);
	c->buf = NULL;
	c->len_bytes = 0;
	c->active = false;
}

void
weft_rpcrdma_cont_drop(struct weft_rpc *rpc)
{
	rx_cont_end(rpc);
	rpc->cont.nskips = 0;
}

static void
rx_skip_add(struct rpcrdma_cont *c, uint32_t xid, bool call)
{
	/* Of the earlier messages, only the one that was just cut off can still have parts under
	 * way. */
	if (c->nskips == 2)
		c->skip[0] = c->skip[--c->nskips];
	c->skip[c->nskips++] = (struct rpcrdma_skip){xid, call};
}

/* s7.1.4: whether the part belongs to a refused message. Any other part begins anew, and ends
 * what was before. */
static bool
rx_skips(struct rpcrdma_cont *c, const struct rpcrdma_prefix *p)
{
	unsigned int i;

	if (!rx_is_part(p)) {
		if (rx_is_payload(p))
			c->nskips = 0;
		return false;
	}
	for (i = 0; i < c->nskips; i++)
		if (c->skip[i].xid == p->xid && c->skip[i].call == !rx_is_reply(p))
			break;
	if (i == c->nskips) {
		c->nskips = 0;
		return false;
	}
	if (!rx_is_middle(p))
		c->skip[i] = c->skip[--c->nskips];
	return true;
}

/* s7.1.4: send the error once, and ignore further parts of that message. */
static void
rx_cont_fault(struct weft_rpc *rpc, const struct rpcrdma_prefix *p, bool call, bool more)
{
	rx_cont_end(rpc);
	rpc->stats.bad_cont++;
	if (more)
		rx_skip_add(&rpc->cont, p->xid, call);
	if (call)
		rx_refuse(rpc, p, RDMA2_ERR_INVAL_CONT);
	else
		weft_rpcrdma_rx_bad_reply(rpc, p->xid);
}

/*
 * A part is refused because of its header, and the message with it; the header's error says more
 * than ERR_INVAL_CONT.
 */
static void
rx_part_fault(struct weft_rpc *rpc, const struct rpcrdma_prefix *p)
{
	struct rpcrdma_cont *c = &rpc->cont;

	if (!rx_is_middle(p) && !(c->active && rx_is_part(p)))
		return;
	rx_cont_end(rpc);
	rpc->stats.bad_cont++;
	if (rx_is_middle(p))
		rx_skip_add(c, p->xid, !rx_is_reply(p));
}

static bool
rx_cont_add(struct weft_rpc *rpc, const uint8_t *buf, uint32_t len_bytes)
{
	uint8_t *p;

	if (!weft_rpcrdma_hold(rpc, len_bytes))
		return false;
	p = realloc(rpc->cont.buf, (size_t)rpc->cont.len_bytes + len_bytes + 1);
	if (p == NULL) {
		weft_rpcrdma_let_go(rpc, len_bytes);
		return false;
	}
	rpc->cont.buf = p;
	memcpy(p + rpc->cont.len_bytes, buf, len_bytes);
	rpc->cont.len_bytes += len_bytes;
	return true;
}

static void
rx_middle(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr, const uint8_t *buf,
          uint32_t len_bytes)
{
	struct rpcrdma_cont *c = &rpc->cont;
	bool call = hdr->p.htype == RDMA2_CALL_MIDDLE;
	uint64_t total = (uint64_t)c->len_bytes + len_bytes + hdr->remaining_bytes;

	if (c->active && (c->htype != hdr->p.htype || c->xid != hdr->p.xid ||
	                  c->remaining_bytes != len_bytes + (uint64_t)hdr->remaining_bytes))
		goto fault;
	if (!c->active && !call) {
		struct rpcrdma_call *mine = weft_rpcrdma_call_find(rpc, hdr->p.xid);

		if (mine == NULL || mine->ended) {
			/* A call that timed out, for example: its parts are ignored. */
			rpc->stats.bad_xid++;
			rx_skip_add(c, hdr->p.xid, false);
			return;
		}
	}
	if (total > rpc->a.max_message_bytes || hdr->remaining_bytes == 0) {
		rpc->stats.over_limit += hdr->remaining_bytes != 0;
		goto fault;
	}
	if (call && rpc->a.server == false && rpc->a.reverse < WEFT_RPC_REVERSE_CONT)
		goto fault; /* s4.6.4: the peer has promised less */
	if (!rx_cont_add(rpc, buf, len_bytes)) {
		weft_rpcrdma_fail(rpc);
		return;
	}
	if (!c->active) {
		c->old = false;
		weft_rpcrdma_unfinished(rpc);
	}
	c->active = true;
	c->xid = hdr->p.xid;
	c->htype = hdr->p.htype;
	c->remaining_bytes = hdr->remaining_bytes;
	return;

fault:
	rx_cont_fault(rpc, &hdr->p, call, true);
}

/* The last part of a message: the whole is in *buf, which the caller frees, or NULL. False:
 * nothing to continue with. */
static bool
rx_last(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr, const uint8_t **buf,
        uint32_t *len_bytes, uint8_t **own)
{
	struct rpcrdma_cont *c = &rpc->cont;

	*own = NULL;
	if (!c->active)
		return true;
	if (c->remaining_bytes != *len_bytes) {
		rx_cont_fault(rpc, &hdr->p, hdr->p.htype == RDMA2_CALL_INLINE, false);
		return false;
	}
	if (!rx_cont_add(rpc, *buf, *len_bytes)) {
		weft_rpcrdma_fail(rpc);
		return false;
	}
	*buf = *own = c->buf;
	*len_bytes = c->len_bytes;
	c->buf = NULL;
	rx_cont_end(rpc);
	rpc->stats.continued++;
	return true;
}

/* s6.3.6, s6.3.9: only its next part may follow a part; a grant and an error may, too
 * (docs/conformance.md). */
static bool
rx_in_turn(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr)
{
	const struct rpcrdma_cont *c = &rpc->cont;
	uint32_t t = hdr->p.htype;

	if (rx_is_error(&hdr->p) || t == RDMA2_GRANT)
		return true;
	if (rpc->props_in == RPCRDMA_PROPS_MIDDLE && !rx_is_props(&hdr->p))
		return false;
	if (!c->active)
		return true;
	if (c->htype == RDMA2_CALL_MIDDLE)
		return (t == RDMA2_CALL_MIDDLE || t == RDMA2_CALL_INLINE) && c->xid == hdr->p.xid;
	return (t == RDMA2_REPLY_MIDDLE || t == RDMA2_REPLY_INLINE) && c->xid == hdr->p.xid;
}

/*
 * Both messages are lost: the one that was cut off, and the one that came instead. The peer is told
 * of the latter, also when it is a reply (s6.3.9, s6.3.3).
 */
static void
rx_out_of_turn(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr)
{
	struct rpcrdma_cont *c = &rpc->cont;
	bool part = c->active, call = c->htype == RDMA2_CALL_MIDDLE;
	struct rpcrdma_prefix cut = hdr->p;

	cut.xid = c->xid;
	if (part)
		rx_cont_fault(rpc, &cut, call, true);
	if (rpc->down)
		return;
	if (rx_is_middle(&hdr->p))
		rx_skip_add(c, hdr->p.xid, !rx_is_reply(&hdr->p));
	if (!part || !call || cut.xid != hdr->p.xid)
		rx_refuse(rpc, &hdr->p, RDMA2_ERR_INVAL_CONT);
	if (rx_is_reply(&hdr->p) && !rpc->down)
		weft_rpcrdma_rx_bad_reply(rpc, hdr->p.xid);
}

/* ---- Strangers ---- */

/* Whether the message is more than an authentication: of version 1 everything but an error,
 * because that version has none. Other versions are refused as such. */
static bool
rx_is_more_than_props(const struct weft_rpc *rpc, const struct rpcrdma_prefix *p)
{
	if (p->vers < rpc->a.min_vers || p->vers > rpc->a.max_vers)
		return false;
	return p->vers == RPCRDMA_V1 ? !rx_is_error(p) : rx_is_payload(p);
}

/* Whether an error is sent: for a call, and for properties. An answer is not answered, and a
 * client sends no error in version 1 (RFC 8166 s4.2.4). */
static bool
rx_is_told(const struct weft_rpc *rpc, const struct rpcrdma_prefix *p)
{
	if (p->vers == RPCRDMA_V1)
		return rpc->a.server && !rx_is_error(p);
	return rx_is_props(p) || (rx_is_payload(p) && !rx_is_reply(p));
}

/*
 * A peer that has to authenticate does so before it sends anything else, and in few messages. No
 * part of another message is kept, and the first one ends the connection. An exchange of properties
 * without an end does so, too, for any peer. False: refused.
 */
static bool
rx_admitted(struct weft_rpc *rpc, const struct rpcrdma_prefix *p)
{
	bool stranger = weft_rpcrdma_stranger(rpc);

	if (!stranger && rpc->props_in != RPCRDMA_PROPS_MIDDLE)
		return true;
	if (++rpc->stranger_msgs <= RPCRDMA_STRANGER_MSGS &&
	    !(stranger && rx_is_more_than_props(rpc, p)))
		return true;
	rpc->stats.auth_refused += rpc->a.auth != NULL && !rpc->authentic;
	rpc->stats.over_limit += rpc->stranger_msgs > RPCRDMA_STRANGER_MSGS;
	if (rx_is_told(rpc, p))
		rx_refuse(rpc, p, RDMA2_ERR_SYSTEM);
	rpc->closing = true;
	return false;
}

/* ---- Whole messages ---- */

/* Whether a reverse call keeps to what both peers promised (s4.6.4). */
static bool
rx_reverse_ok(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr)
{
	const struct rpcrdma_chunks *k = &hdr->chunks;

	if (rpc->a.server || rpc->a.reverse == WEFT_RPC_REVERSE_GENERAL)
		return true;
	if (k->n_reads > 0 || k->call.n_segs > 0) {
		weft_rpcrdma_error(rpc, &hdr->p,
		                   &(struct rpcrdma_err){.code = RDMA2_ERR_READ_CHUNKS});
		return false;
	}
	/* s7.3.2: without chunks the answer would have to be continued, which was not promised
	 * either. */
	if (k->n_writes > 0 || k->has_reply) {
		weft_rpcrdma_error(
		        rpc, &hdr->p,
		        &(struct rpcrdma_err){.code = rpc->a.reverse < WEFT_RPC_REVERSE_CONT
		                                              ? RDMA2_ERR_REPLY_RESOURCE
		                                              : RDMA2_ERR_WRITE_CHUNKS});
		return false;
	}
	return true;
}

static void
rx_payload(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr, const uint8_t *buf,
           uint32_t len_bytes)
{
	const uint8_t *msg = buf + hdr->len_bytes;
	uint32_t msg_bytes = len_bytes - hdr->len_bytes;
	enum rpcrdma_dir dir = weft_rpcrdma_dir(hdr, buf, len_bytes);
	/* The type tells; octets behind such a header have no meaning. */
	bool external =
	        hdr->p.vers == RPCRDMA_V2 ? !rx_is_part(&hdr->p) : hdr->p.htype == RDMA1_NOMSG;
	uint8_t *own = NULL;

	if (dir == RPCRDMA_DIR_NONE) {
		rx_fault(rpc, hdr, RPCRDMA_BAD_XDR);
		return;
	}
	if (external)
		msg = NULL;
	else if (!rpc->cont.active && !weft_rpcrdma_xid_ok(hdr, buf, len_bytes)) {
		rx_fault(rpc, hdr, RPCRDMA_BAD_XDR);
		return;
	} else if (!rx_last(rpc, hdr, &msg, &msg_bytes, &own)) {
		return;
	}
	if (msg != NULL && own == NULL)
		rpc->stats.simple++;
	if (msg == NULL)
		rpc->stats.special++;
	if (dir == RPCRDMA_DIR_CALL) {
		if (rx_reverse_ok(rpc, hdr))
			weft_rpcrdma_rx_call(rpc, hdr, msg, msg_bytes, own);
		else
			free(own);
		return;
	}
	if (hdr->p.vers == RPCRDMA_V1)
		rpc->credit1.granted = hdr->p.credit;
	weft_rpcrdma_rx_reply(rpc, hdr, msg, msg_bytes);
	free(own);
}

/*
 * The limits for chunks that a peer offers (s5.2.4). A reply returns those that this endpoint
 * offered, which may be more. In version 1 a reply has the xid of one of its calls.
 */
static struct rpcrdma_limits
rx_limits(struct weft_rpc *rpc, const uint8_t *buf, uint32_t len_bytes)
{
	struct rpcrdma_limits limits = rpc->limits;
	struct rpcrdma_prefix p;

	if (limits.segs >= RPCRDMA_CALL_SEGS || len_bytes < RPCRDMA_PREFIX_BYTES)
		return limits;
	p = (struct rpcrdma_prefix){.xid = weft_get_be32(buf + RPCRDMA_OFF_XID),
	                            .vers = weft_get_be32(buf + RPCRDMA_OFF_VERS),
	                            .htype = weft_get_be32(buf + RPCRDMA_OFF_HTYPE)};
	if (rx_is_reply(&p) || (p.vers == RPCRDMA_V1 && weft_rpcrdma_call_find(rpc, p.xid) != NULL))
		limits.segs = RPCRDMA_CALL_SEGS;
	return limits;
}

void
weft_rpcrdma_rx(struct weft_rpc *rpc, const uint8_t *buf, const struct weft_wc *wc)
{
	uint32_t len_bytes = wc->len_bytes;
	struct rpcrdma_limits limits = rx_limits(rpc, buf, len_bytes);
	struct rpcrdma_hdr hdr;
	enum rpcrdma_verdict v = weft_rpcrdma_decode(buf, len_bytes, &limits, &hdr);

	rpc->refresh = true;
	rpc->refresh_payload |=
	        v == RPCRDMA_SHORT || hdr.p.vers != RPCRDMA_V2 || hdr.p.htype != RDMA2_GRANT;
	if (wc->flags & WEFT_WC_INV)
		weft_rpcrdma_reg_invalidated(rpc, wc->inv_stag);
	rx_count(&rpc->stats, v);
	if (v == RPCRDMA_SHORT)
		hdr.p = (struct rpcrdma_prefix){.vers = RPCRDMA_V2, .htype = RDMA2_GRANT};
	/* Before any reaction, and before its version becomes the connection's. */
	if (!rx_admitted(rpc, &hdr.p) || v == RPCRDMA_SHORT)
		return;
	if (!rx_version(rpc, &hdr, v))
		return;
	/* s4.2.1: "the most recently received message". Version 1 counts otherwise. */
	if (hdr.p.vers == RPCRDMA_V2)
		rpc->credit.limit = hdr.p.credit;
	if (hdr.p.vers == RPCRDMA_V2 && v != RPCRDMA_BAD_HTYPE) {
		if (!rx_in_turn(rpc, &hdr)) {
			rx_out_of_turn(rpc, &hdr);
			return;
		}
		if (rx_skips(&rpc->cont, &hdr.p))
			return;
		if (v != RPCRDMA_OK)
			rx_part_fault(rpc, &hdr.p);
	}
	if (v != RPCRDMA_OK) {
		rx_fault(rpc, &hdr, v);
		return;
	}
	if (rx_is_error(&hdr.p)) {
		weft_rpcrdma_rx_error(rpc, &hdr);
		return;
	}
	if (hdr.p.vers == RPCRDMA_V2) {
		switch (hdr.p.htype) {
		case RDMA2_GRANT:
			rpc->stats.grants_in++;
			return;
		case RDMA2_CONNPROP_MIDDLE:
		case RDMA2_CONNPROP_FINAL:
			weft_rpcrdma_rx_props(rpc, &hdr);
			return;
		case RDMA2_CALL_MIDDLE:
		case RDMA2_REPLY_MIDDLE:
			if (!rpc->cont.active && !weft_rpcrdma_xid_ok(&hdr, buf, len_bytes)) {
				rx_cont_fault(rpc, &hdr.p, !rx_is_reply(&hdr.p), true);
				return;
			}
			rx_middle(rpc, &hdr, buf + hdr.len_bytes, len_bytes - hdr.len_bytes);
			return;
		}
	}
	rx_payload(rpc, &hdr, buf, len_bytes);
}
