/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The codec of the transport headers: rpcgen's XDR framed by the rules it cannot say. */

#include <errno.h>
#include <string.h>

#include "rpcrdma_wire.h"

/* A body decoder: xdr stands behind the prefix, and at the RPC message on return. */
typedef int (*body_decode_fn)(XDR *xdr, const struct rpcrdma_props *props, struct rpcrdma_hdr *hdr);

/*
 * The RPC message starts with its first word, which the XDR counts to the header
 * (rdma_rpc_first_word) and which s7.2 wants equal to rdma_xid. Step back over it.
 */
static int
wire_mark_rpc(XDR *xdr, uint32_t first_word, const struct rpcrdma_hdr *hdr)
{
	if (first_word != hdr->p.xid)
		return -EBADMSG;
	return xdr_setpos(xdr, xdr_getpos(xdr) - BYTES_PER_XDR_UNIT) ? 0 : -EBADMSG;
}

static unsigned int
wire_count_writes(const rpcrdma2_write_list *l)
{
	unsigned int n = 0;

	for (; l != NULL; l = l->rdma_next)
		n++;
	return n;
}

static int
wire_dec_call_inline(XDR *xdr, const struct rpcrdma_props *props, struct rpcrdma_hdr *hdr)
{
	rpcrdma2_hdr_call_inline h = {0};
	int rc = -EBADMSG;

	(void)props;
	if (xdr_rpcrdma2_hdr_call_inline(xdr, &h)) {
		hdr->chunks = (struct rpcrdma_chunks){
		        .inv_handle = h.rdma_inv_handle,
		        .writes = wire_count_writes(h.rdma_provisional_writes),
		        .reply = h.rdma_provisional_reply != NULL,
		};
		for (const rpcrdma2_read_list *l = h.rdma_reads; l != NULL; l = l->rdma_next)
			hdr->chunks.reads++;
		rc = wire_mark_rpc(xdr, h.rdma_rpc_first_word, hdr);
	}
	xdr_free((xdrproc_t)xdr_rpcrdma2_hdr_call_inline, &h);
	return rc;
}

static int
wire_dec_reply_inline(XDR *xdr, const struct rpcrdma_props *props, struct rpcrdma_hdr *hdr)
{
	rpcrdma2_hdr_reply_inline h = {0};
	int rc = -EBADMSG;

	(void)props;
	if (xdr_rpcrdma2_hdr_reply_inline(xdr, &h)) {
		hdr->chunks = (struct rpcrdma_chunks){
		        .writes = wire_count_writes(h.rdma_writes),
		};
		rc = wire_mark_rpc(xdr, h.rdma_rpc_first_word, hdr);
	}
	xdr_free((xdrproc_t)xdr_rpcrdma2_hdr_reply_inline, &h);
	return rc;
}

static int
wire_dec_grant(XDR *xdr, const struct rpcrdma_props *props, struct rpcrdma_hdr *hdr)
{
	(void)xdr;
	(void)props;
	(void)hdr;
	return 0;
}

static int
wire_dec_error(XDR *xdr, const struct rpcrdma_props *props, struct rpcrdma_hdr *hdr)
{
	rpcrdma2_hdr_error e = {0};

	(void)props;
	if (!xdr_rpcrdma2_hdr_error(xdr, &e))
		return -EBADMSG;
	hdr->err = (struct rpcrdma_err){.code = e.rdma_err};
	switch (e.rdma_err) {
	case RDMA2_ERR_VERS:
		hdr->err.a = e.rpcrdma2_hdr_error_u.rdma_vrange.rdma_vers_low;
		hdr->err.b = e.rpcrdma2_hdr_error_u.rdma_vrange.rdma_vers_high;
		break;
	case RDMA2_ERR_READ_CHUNKS:
		hdr->err.a = e.rpcrdma2_hdr_error_u.rdma_max_read_chunks;
		break;
	case RDMA2_ERR_WRITE_CHUNKS:
		hdr->err.a = e.rpcrdma2_hdr_error_u.rdma_max_write_chunks;
		break;
	case RDMA2_ERR_SEGMENTS:
		hdr->err.a = e.rpcrdma2_hdr_error_u.rdma_max_segments;
		break;
	case RDMA2_ERR_WRITE_RESOURCE:
		hdr->err.a = e.rpcrdma2_hdr_error_u.rdma_writeres.rdma_chunk_index;
		hdr->err.b = e.rpcrdma2_hdr_error_u.rdma_writeres.rdma_length_needed;
		break;
	case RDMA2_ERR_REPLY_RESOURCE:
		hdr->err.a = e.rpcrdma2_hdr_error_u.rdma_reply_length_needed;
		break;
	}
	return 0;
}

/* One property; unknown ones are nothing to us (s5.1). */
static int
wire_apply_prop(const rpcrdma2_propval *v, struct rpcrdma_props *props)
{
	static const uint32_t dflt[] = {
	        [RDMA2_PROPID_SBSIZ] = RPCRDMA_DEFAULT_INLINE_BYTES,
	        [RDMA2_PROPID_RBSIZ] = RPCRDMA_DEFAULT_INLINE_BYTES,
	        [RDMA2_PROPID_RSSIZ] = 1048576,
	        [RDMA2_PROPID_RCSIZ] = 16,
	        [RDMA2_PROPID_BRS] = RDMA2_RVRSDIR_NONE,
	};
	uint32_t len = v->rdma_data.rdma_data_len, word;
	const char *data = v->rdma_data.rdma_data_val;

	switch (v->rdma_which) {
	case RDMA2_PROPID_SBSIZ:
	case RDMA2_PROPID_RBSIZ:
	case RDMA2_PROPID_RSSIZ:
	case RDMA2_PROPID_RCSIZ:
	case RDMA2_PROPID_BRS:
		/* Nothing stands for the default (s5.1). */
		if (len != 0 && len != BYTES_PER_XDR_UNIT)
			return -EILSEQ;
		word = len == 0 ? dflt[v->rdma_which] : rpcrdma_get32(data);
		if (v->rdma_which == RDMA2_PROPID_SBSIZ)
			props->send_bytes = word;
		else if (v->rdma_which == RDMA2_PROPID_RBSIZ)
			props->recv_bytes = word;
		else if (v->rdma_which == RDMA2_PROPID_BRS)
			props->reverse = word;
		return 0;
	case RDMA2_PROPID_HOSTAUTH:
		/* An opaque<> inside the opaque: its count, its octets, its fill. Not acted upon.
		 */
		if (len == 0)
			return 0;
		if (len < BYTES_PER_XDR_UNIT)
			return -EILSEQ;
		word = rpcrdma_get32(data);
		if (word > len || RNDUP(word) != len - BYTES_PER_XDR_UNIT)
			return -EILSEQ;
		return 0;
	default:
		return 0;
	}
}

/*
 * Why a property set did not parse. A value longer than the message is ERR_BAD_PROPVAL by
 * s5.1's own example; everything else is the stream's fault.
 */
static int
wire_propset_fault(const uint8_t *p, uint32_t len_bytes)
{
	uint32_t n, data_bytes;

	if (len_bytes < 4)
		return -EBADMSG;
	n = rpcrdma_get32(p);
	p += 4;
	len_bytes -= 4;
	for (; n > 0 && len_bytes >= 8; n--) {
		data_bytes = rpcrdma_get32(p + 4);
		p += 8;
		len_bytes -= 8;
		if (data_bytes > len_bytes)
			return -EILSEQ;
		if (RNDUP(data_bytes) > len_bytes)
			return -EBADMSG;
		p += RNDUP(data_bytes);
		len_bytes -= RNDUP(data_bytes);
	}
	return -EBADMSG;
}

static int
wire_dec_connprop(XDR *xdr, const struct rpcrdma_props *props, struct rpcrdma_hdr *hdr)
{
	rpcrdma2_hdr_connprop h = {0};
	int rc = 0;

	hdr->props = *props;
	if (!xdr_rpcrdma2_hdr_connprop(xdr, &h)) {
		rc = -EBADMSG;
	} else {
		for (uint32_t i = 0; i < h.rdma_props.rpcrdma2_propset_len && rc == 0; i++)
			rc = wire_apply_prop(&h.rdma_props.rpcrdma2_propset_val[i], &hdr->props);
	}
	xdr_free((xdrproc_t)xdr_rpcrdma2_hdr_connprop, &h);
	return rc;
}

/*
 * s6.1 table 2.
 * DEVIATION: s6.1 requires every type of table 2. Message continuation and external messages
 * are answered with ERR_INVAL_HTYPE, as s7.1.3 foresees for a type that is not supported.
 */
static const struct {
	const char *name;
	body_decode_fn decode; /**< NULL: not supported */
} htypes[] = {
        [RDMA2_ERROR] = {"error", wire_dec_error},
        [RDMA2_GRANT] = {"grant", wire_dec_grant},
        [RDMA2_CONNPROP_MIDDLE] = {"connprop_middle", wire_dec_connprop},
        [RDMA2_CONNPROP_FINAL] = {"connprop_final", wire_dec_connprop},
        [RDMA2_CALL_EXTERNAL] = {"call_external", NULL},
        [RDMA2_CALL_MIDDLE] = {"call_middle", NULL},
        [RDMA2_CALL_INLINE] = {"call_inline", wire_dec_call_inline},
        [RDMA2_REPLY_EXTERNAL] = {"reply_external", NULL},
        [RDMA2_REPLY_MIDDLE] = {"reply_middle", NULL},
        [RDMA2_REPLY_INLINE] = {"reply_inline", wire_dec_reply_inline},
};

#define N_HTYPES (sizeof(htypes) / sizeof(htypes[0]))

const char *
weft_rpcrdma_htype_str(uint32_t htype)
{
	return htype < N_HTYPES && htypes[htype].name != NULL ? htypes[htype].name : "?";
}

int
weft_rpcrdma_hdr_decode(const void *buf, uint32_t len_bytes, const struct rpcrdma_props *props,
                        struct rpcrdma_hdr *hdr)
{
	const uint8_t *b = buf;
	XDR xdr;
	int rc;

	/*
	 * s7 names 20 octets for struct rpcrdma2_hdr_prefix; it has four words, and an RDMA2_GRANT
	 * is nothing but it (s6.3.2). So 16.
	 */
	if (len_bytes < RPCRDMA_PREFIX_BYTES)
		return -ENODATA;
	hdr->p.xid = rpcrdma_get32(b + RPCRDMA_OFF_XID);
	hdr->p.vers = rpcrdma_get32(b + RPCRDMA_OFF_VERS);
	hdr->p.credit = rpcrdma_get32(b + RPCRDMA_OFF_CREDIT);
	hdr->p.htype = rpcrdma_get32(b + RPCRDMA_OFF_HTYPE);
	hdr->len_bytes = RPCRDMA_PREFIX_BYTES;
	if (hdr->p.vers != RPCRDMA_VERS && hdr->p.htype != RDMA2_ERROR)
		return -EPROTONOSUPPORT;
	if (hdr->p.htype >= N_HTYPES || htypes[hdr->p.htype].decode == NULL)
		return -EOPNOTSUPP;

	xdrmem_create(&xdr, (char *)(uintptr_t)(b + RPCRDMA_PREFIX_BYTES),
	              len_bytes - RPCRDMA_PREFIX_BYTES, XDR_DECODE);
	rc = htypes[hdr->p.htype].decode(&xdr, props, hdr);
	hdr->len_bytes = RPCRDMA_PREFIX_BYTES + xdr_getpos(&xdr);
	if (rc == -EBADMSG &&
	    (hdr->p.htype == RDMA2_CONNPROP_MIDDLE || hdr->p.htype == RDMA2_CONNPROP_FINAL))
		rc = wire_propset_fault(b + RPCRDMA_PREFIX_BYTES, len_bytes - RPCRDMA_PREFIX_BYTES);
	if (rc == 0 && hdr->p.vers != RPCRDMA_VERS && hdr->err.code != RDMA2_ERR_VERS)
		rc = -EPROTONOSUPPORT;
	return rc;
}

/* Prefix, then the body by its rpcgen routine; back_bytes are left to the RPC message. */
static uint32_t
wire_encode(void *buf, uint32_t cap_bytes, const struct rpcrdma_prefix *p, xdrproc_t body, void *h,
            uint32_t back_bytes)
{
	rpcrdma2_hdr_prefix prefix = {
	        .rdma_start = {.rdma_xid = p->xid, .rdma_vers = p->vers, .rdma_htype = p->htype},
	};
	XDR xdr;

	xdrmem_create(&xdr, buf, cap_bytes, XDR_ENCODE);
	if (!xdr_rpcrdma2_hdr_prefix(&xdr, &prefix))
		return 0;
	if (body != NULL && !body(&xdr, h))
		return 0;
	return xdr_getpos(&xdr) - back_bytes;
}

uint32_t
weft_rpcrdma_call_encode(void *buf, uint32_t cap_bytes, uint32_t xid)
{
	/* No chunks, nothing to invalidate (s6.5). */
	rpcrdma2_hdr_call_inline h = {.rdma_rpc_first_word = xid};
	struct rpcrdma_prefix p = {.xid = xid, .vers = RPCRDMA_VERS, .htype = RDMA2_CALL_INLINE};

	return wire_encode(buf, cap_bytes, &p, (xdrproc_t)xdr_rpcrdma2_hdr_call_inline, &h,
	                   BYTES_PER_XDR_UNIT);
}

uint32_t
weft_rpcrdma_reply_encode(void *buf, uint32_t cap_bytes, uint32_t xid)
{
	rpcrdma2_hdr_reply_inline h = {.rdma_rpc_first_word = xid};
	struct rpcrdma_prefix p = {.xid = xid, .vers = RPCRDMA_VERS, .htype = RDMA2_REPLY_INLINE};

	return wire_encode(buf, cap_bytes, &p, (xdrproc_t)xdr_rpcrdma2_hdr_reply_inline, &h,
	                   BYTES_PER_XDR_UNIT);
}

uint32_t
weft_rpcrdma_grant_encode(void *buf, uint32_t cap_bytes)
{
	/* s6.3.2: "Senders MUST set the rdma_xid field to zero". */
	struct rpcrdma_prefix p = {.vers = RPCRDMA_VERS, .htype = RDMA2_GRANT};

	return wire_encode(buf, cap_bytes, &p, NULL, NULL, 0);
}

uint32_t
weft_rpcrdma_error_encode(void *buf, uint32_t cap_bytes, uint32_t xid, uint32_t vers,
                          const struct rpcrdma_err *err)
{
	struct rpcrdma_prefix p = {.xid = xid, .vers = vers, .htype = RDMA2_ERROR};
	rpcrdma2_hdr_error e = {.rdma_err = err->code};

	switch (err->code) {
	case RDMA2_ERR_VERS:
		e.rpcrdma2_hdr_error_u.rdma_vrange.rdma_vers_low = err->a;
		e.rpcrdma2_hdr_error_u.rdma_vrange.rdma_vers_high = err->b;
		break;
	case RDMA2_ERR_READ_CHUNKS:
		e.rpcrdma2_hdr_error_u.rdma_max_read_chunks = err->a;
		break;
	case RDMA2_ERR_WRITE_CHUNKS:
		e.rpcrdma2_hdr_error_u.rdma_max_write_chunks = err->a;
		break;
	case RDMA2_ERR_SEGMENTS:
		e.rpcrdma2_hdr_error_u.rdma_max_segments = err->a;
		break;
	case RDMA2_ERR_WRITE_RESOURCE:
		e.rpcrdma2_hdr_error_u.rdma_writeres.rdma_chunk_index = err->a;
		e.rpcrdma2_hdr_error_u.rdma_writeres.rdma_length_needed = err->b;
		break;
	case RDMA2_ERR_REPLY_RESOURCE:
		e.rpcrdma2_hdr_error_u.rdma_reply_length_needed = err->a;
		break;
	}
	return wire_encode(buf, cap_bytes, &p, (xdrproc_t)xdr_rpcrdma2_hdr_error, &e, 0);
}

uint32_t
weft_rpcrdma_connprop_encode(void *buf, uint32_t cap_bytes, uint32_t xid,
                             const struct rpcrdma_props *props)
{
	struct rpcrdma_prefix p = {.xid = xid, .vers = RPCRDMA_VERS, .htype = RDMA2_CONNPROP_FINAL};
	char word[3][BYTES_PER_XDR_UNIT];
	rpcrdma2_propval val[] = {
	        {RDMA2_PROPID_SBSIZ, {sizeof(word[0]), word[0]}},
	        {RDMA2_PROPID_RBSIZ, {sizeof(word[1]), word[1]}},
	        {RDMA2_PROPID_BRS, {sizeof(word[2]), word[2]}},
	};
	rpcrdma2_hdr_connprop h = {.rdma_props = {sizeof(val) / sizeof(val[0]), val}};

	rpcrdma_put32(word[0], props->send_bytes);
	rpcrdma_put32(word[1], props->recv_bytes);
	rpcrdma_put32(word[2], props->reverse);
	return wire_encode(buf, cap_bytes, &p, (xdrproc_t)xdr_rpcrdma2_hdr_connprop, &h, 0);
}
