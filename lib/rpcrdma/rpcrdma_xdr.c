/* SPDX-License-Identifier: BSD-3-Clause */
/** @file XDR streams that leave items out, or find them elsewhere. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpcrdma_wire.h"
#include "rpcrdma_xdr.h"

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
	if (cap < OUT_FIRST_BYTES)
		cap = OUT_FIRST_BYTES;
	while (cap < need)
		cap *= 2;
	if (cap > UINT32_MAX)
		cap = UINT32_MAX;
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
	rpcrdma_put32(o->buf + o->len_bytes, (uint32_t)*v);
	o->len_bytes += 4;
	o->pad_bytes = 0;
	return TRUE;
}

/* An item to be removed, not yet met. */
static bool
out_is_item(struct rpcrdma_out *o, const char *addr, uint32_t len_bytes)
{
	for (unsigned int i = 0; i < o->nitems; i++) {
		if (o->items[i].addr != addr || o->items[i].len_bytes != len_bytes ||
		    o->pos[i] != UINT32_MAX)
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
	o->error = 0;
	for (unsigned int i = 0; i < WEFT_RPC_MAX_ITEMS; i++)
		o->pos[i] = UINT32_MAX;
}

void
rpcrdma_out_free(struct rpcrdma_out *o)
{
	free(o->buf);
	o->buf = NULL;
	o->cap_bytes = o->len_bytes = 0;
}

/* ---- Decoding ---- */

/* Where the stream ends, or has to give way to the next item by position. */
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
	if (to != from) /* or it was placed where it belongs */
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
	return !in->by_order && in->next < in->nitems &&
	       (in->in_item_bytes > 0 || in->items[in->next].where == in->pos_bytes);
}

/* The roundup of an item that was moved: XDR wants it, and nobody sent it. */
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
	*v = (long)(int32_t)rpcrdma_get32(b);
	return TRUE;
}

/* Of results: the opaque whose turn it is may be the one that a Write chunk brought. */
static bool
in_by_order(struct rpcrdma_in *in, void *to, uint32_t len_bytes)
{
	uint32_t pad = xdr_roundup(in->last_bytes);

	if (pad != 0 && len_bytes == pad) {
		in->last_bytes = 0;
		return in_from_stream(in, to, len_bytes);
	}
	in->last_bytes = len_bytes;
	if (in->next < in->nitems && in->items[in->next].where == in->opaques++) {
		in->last_bytes = 0;
		return len_bytes == in->items[in->next].len_bytes &&
		       in_from_item(in, to, len_bytes);
	}
	return in_from_stream(in, to, len_bytes);
}

static bool_t
in_getbytes(XDR *xdr, char *to, u_int len)
{
	struct rpcrdma_in *in = xdr->x_private;

	if (len == 0)
		return TRUE;
	if (in->pad_bytes > 0)
		return in_pad(in, to, len);
	if (in->counting)
		return in_by_order(in, to, len);
	return in_at_item(in) ? in_from_item(in, to, len) : in_from_stream(in, to, len);
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

void
rpcrdma_in_open(struct rpcrdma_in *in, XDR *xdr)
{
	memset(xdr, 0, sizeof(*xdr));
	xdr->x_op = XDR_DECODE;
	xdr->x_ops = &in_ops;
	xdr->x_private = in;
	in->at_bytes = in->pos_bytes = in->next = in->in_item_bytes = in->pad_bytes = 0;
	in->opaques = in->last_bytes = 0;
	in->counting = false;
}

void
rpcrdma_in_results(struct rpcrdma_in *in)
{
	in->counting = in->by_order;
	in->opaques = in->last_bytes = 0;
}

bool
rpcrdma_in_drained(const struct rpcrdma_in *in)
{
	return in->next == in->nitems && in->in_item_bytes == 0 && in->pad_bytes == 0 &&
	       in->at_bytes == in->len_bytes;
}
