/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The bindings of the protocol of volumes: which items chunks may carry (weft_volrpc.x). */

#include <string.h>

#include "volrpc.h"

/* So much data comes inline, also with version 1 (RFC 8166 s3.3.3). */
#define READ_INLINE_BYTES 512

static unsigned int
read_sinks(const void *args, struct weft_rpc_sink *sinks)
{
	const struct weft_volrpc_read_call *c = args;

	if (c->args.count <= READ_INLINE_BYTES)
		return 0;
	sinks[0] = (struct weft_rpc_sink){.addr = c->into,
	                                  .max_bytes = c->args.count < WEFT_VOLRPC_IO_MAX
	                                                       ? c->args.count
	                                                       : WEFT_VOLRPC_IO_MAX};
	return 1;
}

static unsigned int
read_results(const void *res, struct weft_rpc_item *items)
{
	const weft_volrpc_read_res *r = res;

	if (r->status != WEFT_VOLRPC_OK)
		return 0;
	items[0] = (struct weft_rpc_item){r->weft_volrpc_read_res_u.data.data_val,
	                                  r->weft_volrpc_read_res_u.data.data_len};
	return 1;
}

static unsigned int
write_args(const void *args, struct weft_rpc_item *items)
{
	const weft_volrpc_write_args *a = args;

	items[0] = (struct weft_rpc_item){a->data.data_val, a->data.data_len};
	return 1;
}

static unsigned int
compare_args(const void *args, struct weft_rpc_item *items)
{
	const weft_volrpc_compare_args *a = args;

	items[0] = (struct weft_rpc_item){a->expect.expect_val, a->expect.expect_len};
	items[1] = (struct weft_rpc_item){a->data.data_val, a->data.data_len};
	return 2;
}

const struct weft_rpc_binding weft_volrpc_read_binding = {
        .sinks = read_sinks, .results = read_results, .placed = read_results};
const struct weft_rpc_binding weft_volrpc_write_binding = {.args = write_args};
const struct weft_rpc_binding weft_volrpc_compare_binding = {.args = compare_args};

bool_t
weft_volrpc_xdr_read_res(XDR *xdr, weft_volrpc_read_res *res)
{
	/* The data is the caller's or the message's memory, and is not freed here. */
	if (xdr->x_op == XDR_FREE && res->status == WEFT_VOLRPC_OK)
		return TRUE;
	if (xdr->x_op != XDR_DECODE)
		return xdr_weft_volrpc_read_res(xdr, res);
	if (!xdr_weft_volrpc_status(xdr, &res->status))
		return FALSE;
	if (res->status == WEFT_VOLRPC_OK)
		return res->weft_volrpc_read_res_u.data.data_val != NULL &&
		       xdr_bytes(xdr, &res->weft_volrpc_read_res_u.data.data_val,
		                 &res->weft_volrpc_read_res_u.data.data_len,
		                 res->weft_volrpc_read_res_u.data.data_len);
	memset(&res->weft_volrpc_read_res_u, 0, sizeof(res->weft_volrpc_read_res_u));
	return xdr_weft_volrpc_fault(xdr, &res->weft_volrpc_read_res_u.fault);
}

/* An opaque of an argument, lent by the message. Empty: *val is NULL. */
static bool
lend(XDR *xdr, char **val, u_int len)
{
	*val = len > 0 ? weft_rpc_xdr_lend(xdr, len) : NULL;
	return len == 0 || *val != NULL;
}

bool
weft_volrpc_write_ahead(XDR *xdr, weft_volrpc_write_args *args)
{
	args->data.data_val = NULL;
	return xdr_u_int(xdr, &args->handle) && xdr_u_quad_t(xdr, &args->off) &&
	       xdr_u_int(xdr, &args->flags) && xdr_u_int(xdr, &args->data.data_len) &&
	       args->data.data_len <= WEFT_VOLRPC_IO_MAX;
}

bool_t
weft_volrpc_xdr_write_args(XDR *xdr, weft_volrpc_write_args *args)
{
	if (xdr->x_op == XDR_FREE)
		return TRUE;
	if (xdr->x_op != XDR_DECODE)
		return xdr_weft_volrpc_write_args(xdr, args);
	return weft_volrpc_write_ahead(xdr, args) &&
	       lend(xdr, &args->data.data_val, args->data.data_len);
}

bool_t
weft_volrpc_xdr_compare_args(XDR *xdr, weft_volrpc_compare_args *args)
{
	if (xdr->x_op == XDR_FREE)
		return TRUE;
	if (xdr->x_op != XDR_DECODE)
		return xdr_weft_volrpc_compare_args(xdr, args);
	return xdr_u_int(xdr, &args->handle) && xdr_u_quad_t(xdr, &args->off) &&
	       xdr_u_int(xdr, &args->flags) && xdr_u_int(xdr, &args->expect.expect_len) &&
	       args->expect.expect_len <= WEFT_VOLRPC_COMPARE_MAX &&
	       lend(xdr, &args->expect.expect_val, args->expect.expect_len) &&
	       xdr_u_int(xdr, &args->data.data_len) &&
	       args->data.data_len == args->expect.expect_len &&
	       lend(xdr, &args->data.data_val, args->data.data_len);
}
