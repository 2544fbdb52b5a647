/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Transport properties (draft s5, s6.3.3, s6.3.4), and host authentication, which is one of
 * them (s5.2.6).
 *
 * The exchange is optional. A client starts it when its first message would exceed a default, or
 * when the server has to know one of the properties. A peer's exchange is answered with our
 * properties, once. During an authentication each message is an RDMA2_CONNPROP_MIDDLE, which the
 * next one answers; the side that has no more to send sends the FINAL.
 */

#include <stdlib.h>
#include <string.h>

#include "rpcrdma_call.h"
#include "rpcrdma_msg.h"
#include "rpcrdma_priv.h"

static uint32_t
prop_reverse(const struct weft_rpc *rpc)
{
	switch (rpc->a.reverse) {
	case WEFT_RPC_REVERSE_SIMPLE:
		return RDMA2_RVRSDIR_SIMPLE;
	case WEFT_RPC_REVERSE_CONT:
		return RDMA2_RVRSDIR_CONT;
	case WEFT_RPC_REVERSE_GENERAL:
		return RDMA2_RVRSDIR_GENL;
	default:
		return RDMA2_RVRSDIR_NONE;
	}
}

/*
 * Make one message; the first one has the property values. auth NULL: no authentication. The octets
 * of hostauth are copied into the message.
 */
static struct rpcrdma_msg *
prop_message(struct weft_rpc *rpc, uint32_t xid, const uint8_t *auth, uint32_t auth_bytes,
             bool final)
{
	struct rpcrdma_msg *m;
	struct rpcrdma_propset *set;

	m = weft_rpcrdma_msg_new(rpc, RPCRDMA_CONTROL,
	                         final ? RDMA2_CONNPROP_FINAL : RDMA2_CONNPROP_MIDDLE, xid);
	if (m == NULL)
		return NULL;
	set = &m->hdr.props;
	if (rpc->props_out == RPCRDMA_PROPS_NONE) {
		set->present = 1u << RDMA2_PROPID_SBSIZ | 1u << RDMA2_PROPID_RBSIZ |
		               1u << RDMA2_PROPID_RSSIZ | 1u << RDMA2_PROPID_RCSIZ |
		               1u << RDMA2_PROPID_BRS;
		set->send_bytes = rpc->a.inline_bytes;
		set->recv_bytes = rpc->recv_bytes;
		set->seg_bytes = rpc->a.max_segment_bytes;
		set->segs = rpc->a.max_segments;
		set->reverse = prop_reverse(rpc);
	}
	if (auth != NULL && auth_bytes > 0) {
		m->own = malloc(auth_bytes);
		if (m->own == NULL) {
			weft_rpcrdma_msg_free(rpc, m);
			return NULL;
		}
		memcpy(m->own, auth, auth_bytes);
		set->present |= 1u << RDMA2_PROPID_HOSTAUTH;
		set->hostauth = (struct rpcrdma_opaque){m->own, auth_bytes};
	}
	rpc->props_out = final ? RPCRDMA_PROPS_FINAL : RPCRDMA_PROPS_MIDDLE;
	return m;
}

/* Make our step of the authentication. 0: it continues, or is over; negative: refused. */
static int
prop_step(struct weft_rpc *rpc, const struct rpcrdma_opaque *in, uint8_t *out, uint32_t *out_bytes)
{
	int rc;

	*out_bytes = 0;
	if (rpc->a.auth == NULL || rpc->authentic)
		return 0;
	rc = rpc->a.auth->step(rpc->a.user, in != NULL ? in->data : NULL,
	                       in != NULL ? in->len_bytes : 0, out, out_bytes);
	if (rc == 1) {
		rc = weft_rpcrdma_let_in(rpc);
		rpc->authentic = rc == 0;
	}
	return rc < 0 ? rc : 0;
}

bool
weft_rpcrdma_props_first(struct weft_rpc *rpc)
{
	uint8_t out[WEFT_RPC_AUTH_MAX_BYTES];
	struct rpcrdma_msg *m;
	uint32_t out_bytes;

	rpc->props_xid = weft_rpcrdma_new_xid(rpc);
	if (prop_step(rpc, NULL, out, &out_bytes) < 0) {
		rpc->stats.auth_refused++;
		return false;
	}
	m = prop_message(rpc, rpc->props_xid, out, out_bytes,
	                 rpc->a.auth == NULL || rpc->authentic);
	if (m == NULL)
		return false;
	weft_rpcrdma_queue_first(rpc, m);
	return true;
}

/* Send the refusal, if that is still possible, and close the connection. */
static void
prop_refuse(struct weft_rpc *rpc, const struct rpcrdma_prefix *p)
{
	rpc->stats.auth_refused++;
	weft_rpcrdma_error(rpc, p, &(struct rpcrdma_err){.code = RDMA2_ERR_BAD_PROPVAL});
	rpc->closing = true;
}

void
weft_rpcrdma_rx_props(struct weft_rpc *rpc, const struct rpcrdma_hdr *hdr)
{
	const struct rpcrdma_propset *set = &hdr->props;
	struct rpcrdma_props said = rpc->peer;
	bool told = set->present & 1u << RDMA2_PROPID_HOSTAUTH;
	bool last = hdr->p.htype == RDMA2_CONNPROP_FINAL, final;
	uint8_t out[WEFT_RPC_AUTH_MAX_BYTES];
	struct rpcrdma_msg *m;
	uint32_t out_bytes;

	if (rpc->props_in == RPCRDMA_PROPS_FINAL) {
		weft_rpcrdma_error(rpc, &hdr->p,
		                   &(struct rpcrdma_err){.code = RDMA2_ERR_INVAL_CONT});
		return;
	}
	rpc->stats.unknown_props += set->n_unknown;
	weft_rpcrdma_props_apply(&said, set);
	if (said.recv_bytes < RPCRDMA_LEAST_INLINE_BYTES) { /* no message would fit */
		rpc->stats.bad_property++;
		weft_rpcrdma_error(rpc, &hdr->p,
		                   &(struct rpcrdma_err){.code = RDMA2_ERR_BAD_PROPVAL});
		return;
	}
	/* s5.2.5 has four levels, and no error for other values (s5.1: it is a uint32). The
	 * meaning of another value is unknown. */
	if (said.reverse > RDMA2_RVRSDIR_GENL)
		said.reverse = RDMA2_RVRSDIR_NONE;
	rpc->peer = said;
	rpc->props_in = last ? RPCRDMA_PROPS_FINAL : RPCRDMA_PROPS_MIDDLE;
	out_bytes = 0;
	if ((told && prop_step(rpc, &set->hostauth, out, &out_bytes) < 0) ||
	    (last && rpc->a.auth != NULL && rpc->a.auth->required && !rpc->authentic &&
	     rpc->props_out == RPCRDMA_PROPS_FINAL)) {
		prop_refuse(rpc, &hdr->p);
		return;
	}
	if (rpc->props_out == RPCRDMA_PROPS_FINAL)
		return;
	/* Our exchange continues only while there is something to answer. */
	final = last || rpc->a.auth == NULL || rpc->authentic;
	if (!last && rpc->a.auth == NULL && !told)
		/* the peer has more properties than fit a message; it asks for ours when it is
		 * done */
		return;
	m = rpc->controls_queued < RPCRDMA_CONTROL_MAX
	            ? prop_message(rpc, hdr->p.xid, out, out_bytes, final)
	            : NULL;
	if (m == NULL) {
		weft_rpcrdma_fail(rpc);
		return;
	}
	if (!rpc->a.server)
		rpc->props_xid = hdr->p.xid;
	weft_rpcrdma_queue_first(rpc, m);
	if (final && last && rpc->a.auth != NULL && rpc->a.auth->required && !rpc->authentic)
		prop_refuse(rpc, &hdr->p);
}
