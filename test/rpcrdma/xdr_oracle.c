/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Headers encoded and decoded by rpcgen's routines, and checked by the rules of the RFC and
 * the draft. */

#include "rpcrdma1.h"
#include "rpcrdma2.h"

#include "wire_rig.h"
#include "xdr_oracle.h"

/* ---- Lists for the encoder; the nodes of both versions differ in their names alone ---- */

#define MAX_NODES (RPCRDMA_MAX_SEGS + 1)

static struct rpcrdma2_segment segs2[MAX_NODES];
static struct rpcrdma2_read_list reads2[MAX_NODES];
static struct rpcrdma2_write_list writes2[RPCRDMA_MAX_WRITE_CHUNKS];
static struct rpcrdma2_write_chunk reply2;
static struct xdr_rdma_segment segs1[MAX_NODES];
static struct xdr_read_list reads1[MAX_NODES];
static struct xdr_write_list writes1[RPCRDMA_MAX_WRITE_CHUNKS];
static struct xdr_write_chunk reply1;

static void
fill_segs(const struct rpcrdma_chunks *c)
{
	for (unsigned int i = 0; i < c->n_segs; i++) {
		segs2[i] = (struct rpcrdma2_segment){c->segs[i].handle, c->segs[i].len_bytes,
		                                     c->segs[i].offset};
		segs1[i] = (struct xdr_rdma_segment){c->segs[i].handle, c->segs[i].len_bytes,
		                                     c->segs[i].offset};
	}
}

/* Make list nodes from index n on of the segments of a Read chunk. Returns the next index. */
static unsigned int
fill_read(const struct rpcrdma_chunk *k, unsigned int n)
{
	for (unsigned int i = 0; i < k->n_segs; i++, n++) {
		reads2[n] = (struct rpcrdma2_read_list){{k->position, segs2[k->first + i]},
		                                        &reads2[n + 1]};
		reads1[n] =
		        (struct xdr_read_list){{k->position, segs1[k->first + i]}, &reads1[n + 1]};
	}
	return n;
}

struct lists {
	unsigned int call_end, reads_end; /* nodes [0, call_end) are the Call chunk */
};

static struct lists
fill_lists(const struct rpcrdma_chunks *c)
{
	struct lists l;
	unsigned int n;

	fill_segs(c);
	n = l.call_end = fill_read(&c->call, 0);
	for (unsigned int i = 0; i < c->n_reads; i++)
		n = fill_read(&c->reads[i], n);
	l.reads_end = n;
	for (unsigned int i = 0; i < c->n_writes; i++) {
		const struct rpcrdma_chunk *k = &c->writes[i];

		writes2[i] =
		        (struct rpcrdma2_write_list){{{k->n_segs, &segs2[k->first]}},
		                                     i + 1 < c->n_writes ? &writes2[i + 1] : NULL};
		writes1[i] = (struct xdr_write_list){{{k->n_segs, &segs1[k->first]}},
		                                     i + 1 < c->n_writes ? &writes1[i + 1] : NULL};
	}
	reply2 = (struct rpcrdma2_write_chunk){{c->reply.n_segs, &segs2[c->reply.first]}};
	reply1 = (struct xdr_write_chunk){{c->reply.n_segs, &segs1[c->reply.first]}};
	return l;
}

static struct rpcrdma2_read_list *
list2(unsigned int from, unsigned int end)
{
	if (from == end)
		return NULL;
	reads2[end - 1].rdma_next = NULL;
	return &reads2[from];
}

static bool_t
enc_chunks2(XDR *x, const struct rpcrdma_hdr *h)
{
	const struct rpcrdma_chunks *c = &h->chunks;
	struct lists l = fill_lists(c);
	struct rpcrdma2_read_list *call = list2(0, l.call_end);
	struct rpcrdma2_read_list *reads = list2(l.call_end, l.reads_end);
	struct rpcrdma2_write_list *writes = c->n_writes > 0 ? writes2 : NULL;
	struct rpcrdma2_write_chunk *reply = c->has_reply ? &reply2 : NULL;

	switch (h->p.htype) {
	case RDMA2_CALL_EXTERNAL: {
		rpcrdma2_hdr_call_external v = {c->inv_handle, call, reads, writes, reply};

		return xdr_rpcrdma2_hdr_call_external(x, &v);
	}
	case RDMA2_CALL_INLINE: {
		rpcrdma2_hdr_call_inline v = {c->inv_handle, reads, writes, reply, h->p.xid};

		return xdr_rpcrdma2_hdr_call_inline(x, &v);
	}
	case RDMA2_REPLY_EXTERNAL: {
		rpcrdma2_hdr_reply_external v = {writes, reply};

		return xdr_rpcrdma2_hdr_reply_external(x, &v);
	}
	default: {
		rpcrdma2_hdr_reply_inline v = {writes, h->p.xid};

		return xdr_rpcrdma2_hdr_reply_inline(x, &v);
	}
	}
}

/* Encode a property's value with libtirpc's routine for its type. */
static bool_t
enc_prop(rpcrdma2_propval *v, char *mem, uint32_t cap, const struct rpcrdma_propset *set,
         uint32_t id)
{
	u_int word = id == RDMA2_PROPID_SBSIZ   ? set->send_bytes
	             : id == RDMA2_PROPID_RBSIZ ? set->recv_bytes
	             : id == RDMA2_PROPID_RSSIZ ? set->seg_bytes
	             : id == RDMA2_PROPID_RCSIZ ? set->segs
	                                        : set->reverse;
	rpcrdma2_prop_hostauth auth = {set->hostauth.len_bytes,
	                               (char *)(uintptr_t)set->hostauth.data};
	bool_t ok;
	XDR x;

	*v = (rpcrdma2_propval){.rdma_which = id, .rdma_data = {0, mem}};
	if (set->dflt & 1u << id)
		return TRUE;
	xdrmem_create(&x, mem, cap, XDR_ENCODE);
	ok = id == RDMA2_PROPID_HOSTAUTH ? xdr_rpcrdma2_prop_hostauth(&x, &auth)
	                                 : xdr_u_int(&x, &word);
	v->rdma_data.rdma_data_len = xdr_getpos(&x);
	return ok;
}

static bool_t
enc_props2(XDR *x, const struct rpcrdma_propset *set)
{
	static char mem[RDMA2_PROPID_HOSTAUTH + 1][1024];
	rpcrdma2_propval v[RDMA2_PROPID_HOSTAUTH + RPCRDMA_MAX_UNKNOWN_PROPS];
	rpcrdma2_hdr_connprop h = {.rdma_props = {0, v}};
	u_int n = 0;

	for (uint32_t id = RDMA2_PROPID_SBSIZ; id <= RDMA2_PROPID_HOSTAUTH; id++)
		if ((set->present & 1u << id) &&
		    !enc_prop(&v[n++], mem[id], sizeof(mem[id]), set, id))
			return FALSE;
	for (uint32_t i = 0; i < set->n_unknown; i++)
		v[n++] = (rpcrdma2_propval){set->unknown[i].id,
		                            {set->unknown[i].value.len_bytes,
		                             (char *)(uintptr_t)set->unknown[i].value.data}};
	h.rdma_props.rpcrdma2_propset_len = n;
	return xdr_rpcrdma2_hdr_connprop(x, &h);
}

static bool_t
enc_err2(XDR *x, const struct rpcrdma_err *err)
{
	rpcrdma2_hdr_error e = {.rdma_err = err->code};

	switch (err->code) {
	case RDMA2_ERR_VERS:
		e.rpcrdma2_hdr_error_u.rdma_vrange = (rpcrdma2_err_vers){err->a, err->b};
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
		e.rpcrdma2_hdr_error_u.rdma_writeres = (rpcrdma2_err_write){err->a, err->b};
		break;
	case RDMA2_ERR_REPLY_RESOURCE:
		e.rpcrdma2_hdr_error_u.rdma_reply_length_needed = err->a;
		break;
	}
	return xdr_rpcrdma2_hdr_error(x, &e);
}

static bool_t
enc_body2(XDR *x, const struct rpcrdma_hdr *h)
{
	rpcrdma2_hdr_call_middle call = {h->remaining_bytes, h->p.xid};
	rpcrdma2_hdr_reply_middle reply = {h->remaining_bytes, h->p.xid};

	switch (h->p.htype) {
	case RDMA2_ERROR:
		return enc_err2(x, &h->err);
	case RDMA2_GRANT:
		return TRUE;
	case RDMA2_CONNPROP_MIDDLE:
	case RDMA2_CONNPROP_FINAL:
		return enc_props2(x, &h->props);
	case RDMA2_CALL_MIDDLE:
		return xdr_rpcrdma2_hdr_call_middle(x, &call);
	case RDMA2_REPLY_MIDDLE:
		return xdr_rpcrdma2_hdr_reply_middle(x, &reply);
	default:
		return enc_chunks2(x, h);
	}
}

static bool_t
enc_1(XDR *x, const struct rpcrdma_hdr *h)
{
	struct rdma_msg m = {h->p.xid, h->p.vers, h->p.credit, {.proc = (rdma_proc)h->p.htype}};
	const struct rpcrdma_chunks *c = &h->chunks;

	if (h->p.htype == RDMA_ERROR) {
		m.body.rdma_body_u.rdma_error.err = (rpc_rdma_errcode)h->err.code;
		m.body.rdma_body_u.rdma_error.rpc_rdma_error_u.range =
		        (rpc_rdma_errvers){h->err.a, h->err.b};
	} else {
		struct lists l = fill_lists(c);

		if (l.reads_end > 0)
			reads1[l.reads_end - 1].next = NULL;
		/* RDMA_MSG and RDMA_NOMSG have the same members. */
		m.body.rdma_body_u.rdma_msg = (rpc_rdma_header){l.reads_end > 0 ? reads1 : NULL,
		                                                c->n_writes > 0 ? writes1 : NULL,
		                                                c->has_reply ? &reply1 : NULL};
	}
	return xdr_rdma_msg(x, &m);
}

uint32_t
oracle_encode(void *buf, uint32_t cap_bytes, const struct rpcrdma_hdr *h)
{
	rpcrdma2_hdr_prefix prefix = {{h->p.xid, h->p.vers, h->p.credit, h->p.htype}};
	bool first_word = h->p.vers == 2 && h->p.htype != RDMA2_CALL_EXTERNAL &&
	                  h->p.htype != RDMA2_REPLY_EXTERNAL && h->p.htype >= RDMA2_CALL_EXTERNAL;
	XDR x;

	xdrmem_create(&x, buf, cap_bytes, XDR_ENCODE);
	if (h->p.vers == 1)
		return enc_1(&x, h) ? xdr_getpos(&x) : 0;
	if (!xdr_rpcrdma2_hdr_prefix(&x, &prefix) || !enc_body2(&x, h))
		return 0;
	return xdr_getpos(&x) - (first_word ? 4 : 0);
}

/* ---- The rules, on rpcgen's lists: each function returns a verdict ---- */

struct counts {
	unsigned int segs, positions, writes;
	uint32_t position[RPCRDMA_MAX_READ_CHUNKS];
	enum rpcrdma_verdict over;
};

static void
over(struct counts *n, enum rpcrdma_verdict v)
{
	if (n->over == RPCRDMA_OK)
		n->over = v;
}

static void
count_seg(struct counts *n)
{
	if (++n->segs > RPCRDMA_MAX_SEGS)
		over(n, RPCRDMA_MANY_SEGS);
}

static void
count_read(struct counts *n, uint32_t position)
{
	unsigned int i = 0;

	while (i < n->positions && n->position[i] != position)
		i++;
	if (position != 0 && i == n->positions) {
		if (n->positions == RPCRDMA_MAX_READ_CHUNKS)
			over(n, RPCRDMA_MANY_READS);
		else
			n->position[n->positions++] = position;
	}
	count_seg(n);
}

static void
count_write(struct counts *n, unsigned int segs)
{
	if (++n->writes > RPCRDMA_MAX_WRITE_CHUNKS)
		over(n, RPCRDMA_MANY_WRITES);
	while (segs-- > 0)
		count_seg(n);
}

static void
count_reply(struct counts *n, unsigned int segs)
{
	while (segs-- > 0)
		count_seg(n);
}

static bool
rule_reads2(struct counts *n, const struct rpcrdma2_read_list *l, bool call)
{
	uint32_t last = 0;

	for (; l != NULL; l = l->rdma_next) {
		uint32_t p = l->rdma_entry.rdma_position;

		if (call ? p != 0 : p == 0 || p % 4 != 0 || p < last)
			return false;
		last = p;
		count_read(n, p);
	}
	return true;
}

static void
rule_writes2(struct counts *n, const struct rpcrdma2_write_list *l)
{
	for (; l != NULL; l = l->rdma_next)
		count_write(n, l->rdma_entry.rdma_target.rdma_target_len);
}

static enum rpcrdma_verdict
rule_chunks1(const rpc_rdma_header *h, uint32_t proc)
{
	struct counts n = {0};
	bool zero = false;

	for (const struct xdr_read_list *l = h->rdma_reads; l != NULL; l = l->next) {
		if (l->entry.position % 4 != 0)
			return RPCRDMA_BAD_XDR;
		zero |= l->entry.position == 0;
		count_read(&n, l->entry.position);
	}
	for (const struct xdr_write_list *l = h->rdma_writes; l != NULL; l = l->next)
		count_write(&n, l->entry.target.target_len);
	if (h->rdma_reply != NULL)
		count_reply(&n, h->rdma_reply->target.target_len);
	if (proc == RDMA_MSGP)
		return RPCRDMA_BAD_HTYPE;
	if (n.over != RPCRDMA_OK)
		return n.over;
	if (proc == RDMA_MSG ? zero : !zero && h->rdma_reply == NULL)
		return RPCRDMA_BAD_XDR;
	return RPCRDMA_OK;
}

/* ---- Messages ---- */

/*
 * Whether encoding a decoded object gives the same octets. Needed because libtirpc decodes any word
 * but 0 as "true" (RFC 4506 s4.4 allows 0 and 1 only).
 */
static bool
canonical(xdrproc_t proc, void *obj, const uint8_t *in, uint32_t len)
{
	char out[2 * WIRE_MAX_BYTES];
	XDR x;

	xdrmem_create(&x, out, sizeof(out), XDR_ENCODE);
	return proc(&x, obj) && xdr_getpos(&x) == len && memcmp(out, in, len) == 0;
}

static enum rpcrdma_verdict
judge_chunks2(uint32_t htype, void *obj)
{
	struct counts n = {0};
	bool ok = true;

	switch (htype) {
	case RDMA2_CALL_EXTERNAL: {
		rpcrdma2_hdr_call_external *v = obj;

		ok = v->rdma_call != NULL && rule_reads2(&n, v->rdma_call, true) &&
		     rule_reads2(&n, v->rdma_reads, false);
		rule_writes2(&n, v->rdma_provisional_writes);
		if (v->rdma_provisional_reply != NULL)
			count_reply(&n, v->rdma_provisional_reply->rdma_target.rdma_target_len);
		break;
	}
	case RDMA2_CALL_INLINE: {
		rpcrdma2_hdr_call_inline *v = obj;

		ok = rule_reads2(&n, v->rdma_reads, false);
		rule_writes2(&n, v->rdma_provisional_writes);
		if (v->rdma_provisional_reply != NULL)
			count_reply(&n, v->rdma_provisional_reply->rdma_target.rdma_target_len);
		break;
	}
	case RDMA2_REPLY_EXTERNAL: {
		rpcrdma2_hdr_reply_external *v = obj;

		rule_writes2(&n, v->rdma_writes);
		if (v->rdma_reply != NULL)
			count_reply(&n, v->rdma_reply->rdma_target.rdma_target_len);
		ok = v->rdma_reply != NULL || n.over != RPCRDMA_OK;
		break;
	}
	case RDMA2_REPLY_INLINE:
		rule_writes2(&n, ((rpcrdma2_hdr_reply_inline *)obj)->rdma_writes);
		break;
	}
	return ok ? n.over : RPCRDMA_BAD_XDR;
}

static enum rpcrdma_verdict
judge_props(const rpcrdma2_propset *set)
{
	for (u_int i = 0; i < set->rpcrdma2_propset_len; i++) {
		const rpcrdma2_propval *v = &set->rpcrdma2_propset_val[i];
		rpcrdma2_prop_hostauth auth = {0};
		bool_t ok = TRUE;
		u_int word;
		XDR x;

		if (v->rdma_data.rdma_data_len == 0 || v->rdma_which == 0 ||
		    v->rdma_which > RDMA2_PROPID_HOSTAUTH)
			continue;
		xdrmem_create(&x, v->rdma_data.rdma_data_val, v->rdma_data.rdma_data_len,
		              XDR_DECODE);
		if (v->rdma_which != RDMA2_PROPID_HOSTAUTH) {
			ok = xdr_u_int(&x, &word);
		} else {
			/* libtirpc allocates by the count before it checks the count. */
			u_int n = v->rdma_data.rdma_data_len < 4
			                  ? 0
			                  : weft_get_be32(v->rdma_data.rdma_data_val);

			ok = n <= v->rdma_data.rdma_data_len &&
			     xdr_rpcrdma2_prop_hostauth(&x, &auth);
		}
		ok = ok && xdr_getpos(&x) == v->rdma_data.rdma_data_len;
		xdr_free((xdrproc_t)xdr_rpcrdma2_prop_hostauth, &auth);
		if (!ok)
			return RPCRDMA_BAD_PROPVAL;
	}
	return RPCRDMA_OK;
}

static bool
known_error(uint32_t code)
{
	return (code >= 1 && code <= 11) || code == 100;
}

static bool_t
nothing(XDR *x, ...)
{
	(void)x;
	return TRUE;
}

static enum rpcrdma_verdict
verdict_2(const uint8_t *buf, uint32_t len, uint32_t htype, uint32_t *hdr_bytes)
{
	static const struct {
		xdrproc_t proc;
		bool payload;
	} types[] = {
	        [RDMA2_ERROR] = {(xdrproc_t)xdr_rpcrdma2_hdr_error, false},
	        [RDMA2_GRANT] = {nothing, false},
	        [RDMA2_CONNPROP_MIDDLE] = {(xdrproc_t)xdr_rpcrdma2_hdr_connprop, false},
	        [RDMA2_CONNPROP_FINAL] = {(xdrproc_t)xdr_rpcrdma2_hdr_connprop, false},
	        [RDMA2_CALL_EXTERNAL] = {(xdrproc_t)xdr_rpcrdma2_hdr_call_external, false},
	        [RDMA2_CALL_MIDDLE] = {(xdrproc_t)xdr_rpcrdma2_hdr_call_middle, true},
	        [RDMA2_CALL_INLINE] = {(xdrproc_t)xdr_rpcrdma2_hdr_call_inline, true},
	        [RDMA2_REPLY_EXTERNAL] = {(xdrproc_t)xdr_rpcrdma2_hdr_reply_external, false},
	        [RDMA2_REPLY_MIDDLE] = {(xdrproc_t)xdr_rpcrdma2_hdr_reply_middle, true},
	        [RDMA2_REPLY_INLINE] = {(xdrproc_t)xdr_rpcrdma2_hdr_reply_inline, true},
	};
	union {
		rpcrdma2_hdr_error error;
		rpcrdma2_hdr_connprop props;
		rpcrdma2_hdr_call_external external;
		rpcrdma2_hdr_call_inline in;
	} obj = {0};
	enum rpcrdma_verdict v = RPCRDMA_OK;
	bool props = htype == RDMA2_CONNPROP_MIDDLE || htype == RDMA2_CONNPROP_FINAL;
	XDR x;

	if (htype >= sizeof(types) / sizeof(types[0]) || types[htype].proc == NULL)
		return RPCRDMA_BAD_HTYPE;
	xdrmem_create(&x, (char *)(uintptr_t)(buf + 16), len - 16, XDR_DECODE);
	if (!types[htype].proc(&x, &obj))
		v = RPCRDMA_BAD_XDR;
	else if (props)
		v = judge_props(&obj.props.rdma_props);
	else if (!canonical(types[htype].proc, &obj, buf + 16, xdr_getpos(&x)))
		v = RPCRDMA_BAD_XDR;
	else if (htype == RDMA2_ERROR)
		v = known_error(obj.error.rdma_err) ? RPCRDMA_OK : RPCRDMA_DISCARD;
	else
		v = judge_chunks2(htype, &obj);
	*hdr_bytes = 16 + xdr_getpos(&x) - (types[htype].payload ? 4 : 0);
	xdr_free(types[htype].proc, &obj);
	return v;
}

static enum rpcrdma_verdict
verdict_1(const uint8_t *buf, uint32_t len, uint32_t proc, uint32_t *hdr_bytes)
{
	enum rpcrdma_verdict v;
	struct rdma_msg m = {0};
	XDR x;

	if (proc != RDMA_ERROR && len < 28)
		return RPCRDMA_SHORT;
	if (proc > RDMA_ERROR)
		return RPCRDMA_BAD_HTYPE;
	if (proc == RDMA_DONE)
		return RPCRDMA_DISCARD;
	if (proc == RDMA_ERROR && len >= 20 && weft_get_be32(buf + 16) != ERR_VERS &&
	    weft_get_be32(buf + 16) != ERR_CHUNK)
		return RPCRDMA_DISCARD;
	xdrmem_create(&x, (char *)(uintptr_t)buf, len, XDR_DECODE);
	if (!xdr_rdma_msg(&x, &m))
		v = RPCRDMA_BAD_XDR;
	else if (!canonical((xdrproc_t)xdr_rdma_msg, &m, buf, xdr_getpos(&x)))
		v = RPCRDMA_BAD_XDR;
	else if ((proc == RDMA_MSG || proc == RDMA_MSGP) && len - xdr_getpos(&x) < 4)
		v = RPCRDMA_BAD_XDR;
	else if (proc == RDMA_ERROR)
		v = RPCRDMA_OK;
	else if (proc == RDMA_MSGP)
		v = rule_chunks1(&(rpc_rdma_header){m.body.rdma_body_u.rdma_msgp.rdma_reads,
		                                    m.body.rdma_body_u.rdma_msgp.rdma_writes,
		                                    m.body.rdma_body_u.rdma_msgp.rdma_reply},
		                 proc);
	else
		v = rule_chunks1(&m.body.rdma_body_u.rdma_msg, proc);
	*hdr_bytes = xdr_getpos(&x);
	xdr_free((xdrproc_t)xdr_rdma_msg, &m);
	return v;
}

enum rpcrdma_verdict
oracle_verdict(const void *buf, uint32_t len, uint32_t *hdr_bytes)
{
	const uint8_t *b = buf;

	if (len < 16)
		return RPCRDMA_SHORT;
	switch (weft_get_be32(b + 4)) {
	case 1:
		return verdict_1(b, len, weft_get_be32(b + 12), hdr_bytes);
	case 2:
		return verdict_2(b, len, weft_get_be32(b + 12), hdr_bytes);
	default:
		*hdr_bytes = 28;
		return weft_get_be32(b + 12) == 4 && len >= 28 && weft_get_be32(b + 16) == 1
		               ? RPCRDMA_OK
		               : RPCRDMA_BAD_VERS;
	}
}
