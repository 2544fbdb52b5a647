/* SPDX-License-Identifier: BSD-3-Clause */
/** @file XDR streams that leave items out, or take them from chunks. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpcrdma_wire.h"
#include "rpcrdma_xdr.h"
#define WEFT_RPC_XDR_NO_NAMES /* libtirpc's are meant here */
#include <weft/rpc_xdr.h>

#define OUT_FIRST_BYTES 1024u /* most messages fit */

static uint32_t
xdr_roundup(uint32_t len_bytes)
{
	return (4 - len_bytes % 4) % 4;
}

static int32_t *
no_inline(XDR *xdr, u_int len)
{
	(void)xdr;
	(void)len;
	return NULL;
}

static bool_t
no_setpos(XDR *xdr, u_int pos)
{
	(void)xdr;
	(void)pos;
	return FALSE;
}

static void
no_destroy(XDR *xdr)
{
	(void)xdr;
}

static bool_t
no_control(XDR *xdr, int req, void *info)
{
	(void)xdr;
	(void)req;
	(void)info;
	return FALSE;
}

/* ---- Encoding ---- */

static bool
out_may(struct rpcrdma_out *o, uint64_t n)
{
	if (o->more == NULL || o->more(o->owner, n))
		return true;
	o->error = -EAGAIN;
	return false;
}

static bool
out_room(struct rpcrdma_out *o, uint32_t len_bytes)
{
	uint64_t need = (uint64_t)o->len_bytes + len_bytes, cap = o->cap_bytes;
	uint8_t *buf;

	if (need + o->removed_bytes > o->max_bytes) {
		o->error = -EMSGSIZE;
		return false;
	}
	if (need <= cap)
		return true;
	cap = len_bytes < cap ? 2 * cap : 0; /* a large piece is usually followed by little */
	if (cap < need)
		cap = need + OUT_FIRST_BYTES;
	if (o->cap_bytes == 0 && need <= OUT_FIRST_BYTES)
		cap = OUT_FIRST_BYTES;
	if (cap > UINT32_MAX)
		cap = UINT32_MAX;
	if (!out_may(o, cap - o->cap_bytes))
		return false;
	buf = realloc(o->buf, cap);
	if (buf == NULL) {
		o->error = -ENOMEM;
		return false;
	}
	o->buf = buf;
	o->cap_bytes = (uint32_t)cap;
	return true;
}

static bool_t
out_putlong(XDR *xdr, const long *v)
{
	struct rpcrdma_out *o = xdr->x_private;

	if (!out_room(o, 4))
		return FALSE;
	weft_put_be32(o->buf + o->len_bytes, (uint32_t)*v);
	o->len_bytes += 4;
	o->pad_bytes = 0;
	return TRUE;
}

/* Whether this is an item to remove that was not met yet. */
static bool
out_is_item(struct rpcrdma_out *o, const char *addr, uint32_t len_bytes)
{
	for (unsigned int i = 0; i < o->nitems && !o->inside; i++) {
		if (o->items[i].kind != WEFT_RPC_OCTETS || o->items[i].addr != addr ||
		    o->items[i].len_bytes != len_bytes || o->pos[i] != UINT32_MAX)
			continue;
		o->pos[i] = o->len_bytes + o->removed_bytes;
		return true;
	}
	return false;
}

static bool_t
out_putbytes(XDR *xdr, const char *addr, u_int len)
{
	struct rpcrdma_out *o = xdr->x_private;

	if (len == 0)
		return TRUE;
	if (o->pad_bytes != 0 && len == o->pad_bytes) {
		o->pad_bytes = 0;
		return TRUE;
	}
	o->pad_bytes = 0;
	if (o->nitems > 0 && out_is_item(o, addr, len)) {
		uint64_t gone = (uint64_t)o->removed_bytes + len + xdr_roundup(len);

		if (gone + o->len_bytes > o->max_bytes) {
			o->error = -EMSGSIZE;
			return FALSE;
		}
		o->removed_bytes = (uint32_t)gone;
		o->pad_bytes = xdr_roundup(len);
		return TRUE;
	}
	if (!out_room(o, len))
		return FALSE;
	memcpy(o->buf + o->len_bytes, addr, len);
	o->len_bytes += len;
	return TRUE;
}

/* An array or optional data begins: the index of its item, or -1. */
static int
out_begin(struct rpcrdma_out *o, const void *addr)
{
	for (unsigned int i = 0; i < o->nitems && !o->inside; i++) {
		if (o->items[i].kind != WEFT_RPC_XDR || o->items[i].addr != addr ||
		    o->pos[i] != UINT32_MAX)
			continue;
		o->pos[i] = o->len_bytes + o->removed_bytes;
		o->inside = true;
		return (int)i;
	}
	return -1;
}

/* Take the item out of the stream, where it is the last. */
static bool
out_end(struct rpcrdma_out *o, int i)
{
	uint32_t at, n;

	if (i < 0)
		return true;
	o->inside = false;
	at = o->pos[i] - o->removed_bytes;
	n = o->len_bytes - at;
	o->items[i].len_bytes = n;
	if (n == 0) { /* elements without octets */
		o->pos[i] = UINT32_MAX;
		return true;
	}
	free(o->moved[i]);
	o->moved[i] = NULL;
	if (!out_may(o, n))
		return false;
	o->moved[i] = malloc(n);
	if (o->moved[i] == NULL) {
		o->error = -ENOMEM;
		return false;
	}
	o->items[i].addr = memcpy(o->moved[i], o->buf + at, n);
	o->items[i].kind = WEFT_RPC_OCTETS;
	o->len_bytes = at;
	o->removed_bytes += n;
	return true;
}

static u_int
out_getpos(XDR *xdr)
{
	const struct rpcrdma_out *o = xdr->x_private;

	return o->len_bytes + o->removed_bytes;
}

static bool_t
out_getlong(XDR *xdr, long *v)
{
	(void)xdr;
	(void)v;
	return FALSE;
}

static bool_t
out_getbytes(XDR *xdr, char *addr, u_int len)
{
	(void)xdr;
	(void)addr;
	(void)len;
	return FALSE;
}

static const struct xdr_ops out_ops = {
        .x_getlong = out_getlong,
        .x_putlong = out_putlong,
        .x_getbytes = out_getbytes,
        .x_putbytes = out_putbytes,
        .x_getpostn = out_getpos,
        .x_setpostn = no_setpos,
        .x_inline = no_inline,
        .x_destroy = no_destroy,
        .x_control = no_control,
};

void
rpcrdma_out_open(struct rpcrdma_out *o, XDR *xdr)
{
	memset(xdr, 0, sizeof(*xdr));
	xdr->x_op = XDR_ENCODE;
	xdr->x_ops = &out_ops;
	xdr->x_private = o;
	o->len_bytes = o->removed_bytes = o->pad_bytes = 0;
	o->inside = false;
	o->error = 0;
	for (unsigned int i = 0; i < WEFT_RPC_MAX_ITEMS; i++)
		o->pos[i] = UINT32_MAX;
}

void
rpcrdma_out_free(struct rpcrdma_out *o)
{
	for (unsigned int i = 0; i < WEFT_RPC_MAX_ITEMS; i++) {
		free(o->moved[i]);
		o->moved[i] = NULL;
	}
	free(o->buf);
	o->buf = NULL;
	o->cap_bytes = o->len_bytes = 0;
}

/* ---- Decoding ---- */

/* Octets until the stream ends, or until the next item by position. */
static uint32_t
in_stream_left(const struct rpcrdma_in *in)
{
	uint32_t left = in->len_bytes - in->at_bytes, gap;

	if (in->by_order || in->next == in->nitems)
		return left;
	gap = in->items[in->next].where - in->pos_bytes;
	return gap < left ? gap : left;
}

static bool
in_from_stream(struct rpcrdma_in *in, void *to, uint32_t len_bytes)
{
	if (len_bytes > in_stream_left(in))
		return false;
	memcpy(to, in->buf + in->at_bytes, len_bytes);
	in->at_bytes += len_bytes;
	in->pos_bytes += len_bytes;
	return true;
}

static bool
in_from_item(struct rpcrdma_in *in, void *to, uint32_t len_bytes)
{
	const struct rpcrdma_in_item *it = &in->items[in->next];
	const uint8_t *from = it->data + in->in_item_bytes;

	if (len_bytes > it->len_bytes - in->in_item_bytes)
		return false;
	if (to != from) /* else it was placed at its destination */
		memcpy(to, from, len_bytes);
	in->in_item_bytes += len_bytes;
	in->pos_bytes += len_bytes;
	if (in->in_item_bytes == it->len_bytes) {
		in->pad_bytes = xdr_roundup(it->len_bytes);
		in->in_item_bytes = 0;
		in->next++;
	}
	return true;
}

static bool
in_at_item(const struct rpcrdma_in *in)
{
	if (in->by_order)
		return in->open != 0 && in->next + 1 == in->open;
	return in->next < in->nitems &&
	       (in->in_item_bytes > 0 || in->items[in->next].where == in->pos_bytes);
}

/* Provide the roundup of a moved item, which XDR expects and the peer does not send. */
static bool
in_pad(struct rpcrdma_in *in, void *to, uint32_t len_bytes)
{
	if (len_bytes != in->pad_bytes)
		return false;
	memset(to, 0, len_bytes);
	in->pos_bytes += len_bytes;
	in->pad_bytes = 0;
	return true;
}

static bool_t
in_getlong(XDR *xdr, long *v)
{
	struct rpcrdma_in *in = xdr->x_private;
	uint8_t b[4];

	in->last_bytes = 0;
	if (in->pad_bytes > 0)
		return FALSE;
	if (!(in_at_item(in) ? in_from_item(in, b, 4) : in_from_stream(in, b, 4)))
		return FALSE;
	*v = (long)(int32_t)weft_get_be32(b);
	in->zeros += *v == 0;
	return TRUE;
}

/*
 * An empty opaque shows only as a zero word, like other zeros, so this opaque may be a later one
 * than it seems. If empty ones may precede it, and the rest of the message is too short for it,
 * then it is the item looked for.
 */
static bool
in_behind_empty(const struct rpcrdma_in *in, uint32_t nth, uint32_t len_bytes)
{
	const struct rpcrdma_in_item *it = &in->items[in->next];

	return it->where > nth && it->where - nth <= in->zeros && it->offered &&
	       it->len_bytes == len_bytes && in->len_bytes - in->at_bytes < len_bytes;
}

/*
 * Results: whether this one, which is not empty, is eligible, and so has the next Write chunk (RFC
 * 8166 s4.3.2.2). len_bytes 0: it is no opaque.
 */
static bool
in_eligible(struct rpcrdma_in *in, const void *to, uint32_t len_bytes)
{
	struct weft_rpc_item items[WEFT_RPC_MAX_ITEMS];
	uint32_t nth = in->opaques++;
	unsigned int n;

	if (in->next == in->nitems)
		return false;
	if (in->placed == NULL)
		return in->items[in->next].where == nth ||
		       (len_bytes > 0 && in_behind_empty(in, nth, len_bytes));
	n = in->placed(in->res, items);
	for (unsigned int i = 0; i < n; i++)
		if (items[i].addr == to)
			return true;
	return false;
}

/* Results: opaques outside of arrays and optional data. */
static bool
in_by_order(struct rpcrdma_in *in, void *to, uint32_t len_bytes)
{
	uint32_t pad = xdr_roundup(in->last_bytes);

	if (pad != 0 && len_bytes == pad) {
		in->last_bytes = 0;
		return in_from_stream(in, to, len_bytes);
	}
	in->last_bytes = len_bytes;
	if (!in_eligible(in, to, len_bytes))
		return in_from_stream(in, to, len_bytes);
	if (!in->items[in->next].offered) {
		in->next++;
		return in_from_stream(in, to, len_bytes);
	}
	in->last_bytes = 0;
	/* A result in the message, in spite of the Write list, would have another length. */
	return len_bytes == in->items[in->next].len_bytes && in_from_item(in, to, len_bytes);
}

static bool_t
in_getbytes(XDR *xdr, char *to, u_int len)
{
	struct rpcrdma_in *in = xdr->x_private;

	if (len == 0)
		return TRUE;
	if (in->pad_bytes > 0)
		return in_pad(in, to, len);
	if (in->counting && in->depth == 0)
		return in_by_order(in, to, len);
	if (!in_at_item(in))
		return in_from_stream(in, to, len);
	if (in->in_item_bytes == 0 && in->open == 0)
		in->items[in->next].to = to;
	return in_from_item(in, to, len);
}

/* An array or optional data begins. False: it is not at its position. */
static bool
in_begin(struct rpcrdma_in *in, const void *addr)
{
	bool outer = in->depth++ == 0;

	in->last_bytes = 0;
	if (in->open != 0)
		return true;
	if (in->counting) {
		if (!outer || !in_eligible(in, addr, 0))
			return true;
		if (!in->items[in->next].offered) {
			in->next++;
			return true;
		}
		if (in->items[in->next].len_bytes == 0)
			return false;
	} else if (in->by_order || in->in_item_bytes > 0 || !in_at_item(in)) {
		return true;
	}
	in->items[in->next].to = addr;
	in->items[in->next].is_xdr = true;
	in->open = in->next + 1;
	in->open_bytes = in->pos_bytes;
	in->open_depth = in->depth;
	return true;
}

/* A chunk has one whole item (s4.5.3). */
static bool
in_end(struct rpcrdma_in *in)
{
	unsigned int open = in->open, depth = in->depth--;

	if (open == 0 || depth != in->open_depth)
		return true;
	in->open = 0;
	return in->next == open && in->in_item_bytes == 0 &&
	       in->pos_bytes - in->open_bytes == in->items[open - 1].len_bytes;
}

static bool_t
in_putlong(XDR *xdr, const long *v)
{
	(void)xdr;
	(void)v;
	return FALSE;
}

static bool_t
in_putbytes(XDR *xdr, const char *addr, u_int len)
{
	(void)xdr;
	(void)addr;
	(void)len;
	return FALSE;
}

static u_int
in_getpos(XDR *xdr)
{
	const struct rpcrdma_in *in = xdr->x_private;

	return in->pos_bytes;
}

static const struct xdr_ops in_ops = {
        .x_getlong = in_getlong,
        .x_putlong = in_putlong,
        .x_getbytes = in_getbytes,
        .x_putbytes = in_putbytes,
        .x_getpostn = in_getpos,
        .x_setpostn = no_setpos,
        .x_inline = no_inline,
        .x_destroy = no_destroy,
        .x_control = no_control,
};

/* An item by position is lent whole, with or without its roundup (RFC 8166 s3.4.5). */
static const uint8_t *
in_lend_item(struct rpcrdma_in *in, uint32_t len_bytes)
{
	struct rpcrdma_in_item *it = &in->items[in->next];
	uint32_t pad = xdr_roundup(len_bytes);

	if (in->in_item_bytes > 0 ||
	    (it->len_bytes != len_bytes && it->len_bytes != (uint64_t)len_bytes + pad))
		return NULL;
	it->to = it->data;
	in->pos_bytes += len_bytes + pad;
	in->next++;
	return it->data;
}

void *
weft_rpc_xdr_lend(XDR *xdr, uint32_t len_bytes)
{
	uint64_t whole = (uint64_t)len_bytes + xdr_roundup(len_bytes);
	const uint8_t *p = NULL;
	struct rpcrdma_in *in;

	if (xdr == NULL || xdr->x_ops != &in_ops || len_bytes == 0)
		return NULL;
	in = xdr->x_private;
	if (in->by_order || in->open != 0 || in->pad_bytes > 0)
		return NULL;
	if (in_at_item(in)) {
		p = in_lend_item(in, len_bytes);
	} else if (whole <= in_stream_left(in)) {
		p = in->buf + in->at_bytes;
		in->at_bytes += (uint32_t)whole;
		in->pos_bytes += (uint32_t)whole;
	}
	return (void *)(uintptr_t)p;
}

void
rpcrdma_in_open(struct rpcrdma_in *in, XDR *xdr)
{
	memset(xdr, 0, sizeof(*xdr));
	xdr->x_op = XDR_DECODE;
	xdr->x_ops = &in_ops;
	xdr->x_private = in;
	in->at_bytes = in->pos_bytes = in->next = in->in_item_bytes = in->pad_bytes = 0;
	in->opaques = in->last_bytes = in->open_bytes = 0;
	in->depth = in->open = in->open_depth = 0;
	in->counting = false;
	for (unsigned int i = 0; i < in->nitems; i++) {
		in->items[i].to = NULL;
		in->items[i].is_xdr = false;
	}
}

void
rpcrdma_in_results(struct rpcrdma_in *in, const void *res)
{
	in->counting = in->by_order;
	in->opaques = in->last_bytes = in->zeros = 0;
	in->res = res;
}

bool_t
weft_rpc_xdr_void(XDR *xdr, ...)
{
	(void)xdr;
	return TRUE;
}

bool
rpcrdma_in_args_ok(const struct rpcrdma_in *in, const struct weft_rpc_binding *b, const void *args)
{
	struct weft_rpc_item items[WEFT_RPC_MAX_ITEMS];
	unsigned int n;

	if (in->nitems == 0)
		return true;
	if (in->next != in->nitems || b == NULL || b->args == NULL || b->call_only)
		return false;
	n = b->args(args, items);
	for (unsigned int i = 0; i < in->nitems; i++) {
		const struct rpcrdma_in_item *it = &in->items[i];
		unsigned int k;

		for (k = 0; k < n; k++)
			if (items[k].len_bytes > 0 && items[k].addr == it->to &&
			    it->is_xdr == (items[k].kind == WEFT_RPC_XDR))
				break;
		if (it->to == NULL || k == n)
			return false;
	}
	return true;
}

bool
rpcrdma_in_results_ok(const struct rpcrdma_in *in)
{
	for (unsigned int i = in->next; i < in->nitems; i++)
		if (in->items[i].len_bytes > 0)
			return false;
	return true;
}

/* ---- Brackets (weft/rpc_xdr.h) ---- */

static bool
item_begin(XDR *xdr, const void *addr, int *mark)
{
	*mark = -1;
	if (xdr->x_ops == &out_ops)
		*mark = out_begin(xdr->x_private, addr);
	return xdr->x_ops != &in_ops || in_begin(xdr->x_private, addr);
}

static bool
item_end(XDR *xdr, int mark)
{
	if (xdr->x_ops == &out_ops)
		return out_end(xdr->x_private, mark);
	return xdr->x_ops != &in_ops || in_end(xdr->x_private);
}

bool_t
weft_rpc_xdr_reference(XDR *xdr, caddr_t *p, u_int size_bytes, xdrproc_t proc)
{
	int mark;

	if (xdr->x_op == XDR_FREE)
		return xdr_reference(xdr, p, size_bytes, proc);
	if (*p == NULL && xdr->x_op == XDR_DECODE)
		*p = calloc(1, size_bytes != 0 ? size_bytes : 1);
	if (*p == NULL)
		return FALSE;
	return item_begin(xdr, *p, &mark) && proc(xdr, *p) && item_end(xdr, mark);
}

bool_t
weft_rpc_xdr_pointer(XDR *xdr, char **p, u_int size_bytes, xdrproc_t proc)
{
	bool_t there = *p != NULL;

	if (!xdr_bool(xdr, &there))
		return FALSE;
	if (there)
		return weft_rpc_xdr_reference(xdr, p, size_bytes, proc);
	*p = NULL;
	return TRUE;
}

bool_t
weft_rpc_xdr_array(XDR *xdr, caddr_t *p, u_int *count, u_int max, u_int size_bytes, xdrproc_t proc)
{
	int mark;

	if (xdr->x_op == XDR_FREE)
		return xdr_array(xdr, p, count, max, size_bytes, proc);
	if (!xdr_u_int(xdr, count) || *count > max)
		return FALSE;
	if (*count == 0)
		return TRUE;
	if (*p == NULL && xdr->x_op == XDR_DECODE)
		*p = calloc(*count, size_bytes);
	if (*p == NULL || !item_begin(xdr, *p, &mark))
		return FALSE;
	for (u_int i = 0; i < *count; i++)
		if (!proc(xdr, *p + (size_t)i * size_bytes))
			return FALSE;
	return item_end(xdr, mark);
}
