/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The bindings of the export program: which items chunks may carry (weft_export.x). */

#include "export_proto.h"

/* Room for inline data, also with version 1 (RFC 8166 s3.3.3). */
#define READ_INLINE_BYTES 512

static unsigned int
read_sinks(const void *args, struct weft_rpc_sink *sinks)
{
	const struct weft_export_read_call *c = args;

	if (c->args.count <= READ_INLINE_BYTES)
		return 0;
	sinks[0] = (struct weft_rpc_sink){.addr = c->into,
	                                  .max_bytes = c->args.count < WEFT_EXPORT_IO_MAX
	                                                       ? c->args.count
	                                                       : WEFT_EXPORT_IO_MAX};
	return 1;
}

static unsigned int
read_results(const void *res, struct weft_rpc_item *items)
{
	const weft_export_read_res *r = res;

	if (r->status != WEFT_EXPORT_OK)
		return 0;
	items[0] = (struct weft_rpc_item){r->weft_export_read_res_u.data.data_val,
	                                  r->weft_export_read_res_u.data.data_len};
	return 1;
}

static unsigned int
write_args(const void *args, struct weft_rpc_item *items)
{
	const weft_export_write_args *a = args;

	items[0] = (struct weft_rpc_item){a->data.data_val, a->data.data_len};
	return 1;
}

const struct weft_rpc_binding weft_export_read_binding = {
        .sinks = read_sinks, .results = read_results, .placed = read_results};
const struct weft_rpc_binding weft_export_write_binding = {.args = write_args};

bool_t
weft_export_xdr_read_res(XDR *xdr, weft_export_read_res *res)
{
	/* The data is the caller's or the message's memory, and is not freed here. */
	if (xdr->x_op == XDR_FREE && res->status == WEFT_EXPORT_OK)
		return TRUE;
	if (xdr->x_op != XDR_DECODE)
		return xdr_weft_export_read_res(xdr, res);
	if (!xdr_weft_export_status(xdr, &res->status))
		return FALSE;
	if (res->status == WEFT_EXPORT_OK)
		return res->weft_export_read_res_u.data.data_val != NULL &&
		       xdr_bytes(xdr, &res->weft_export_read_res_u.data.data_val,
		                 &res->weft_export_read_res_u.data.data_len,
		                 res->weft_export_read_res_u.data.data_len);
	res->weft_export_read_res_u.why = NULL;
	return xdr_string(xdr, &res->weft_export_read_res_u.why, WEFT_TEXT_MAX);
}

bool
weft_export_write_ahead(XDR *xdr, weft_export_write_args *args)
{
	args->data.data_val = NULL;
	return xdr_u_int(xdr, &args->handle) && xdr_u_quad_t(xdr, &args->to) &&
	       xdr_weft_export_stability(xdr, &args->stable) &&
	       xdr_u_int(xdr, &args->data.data_len);
}

bool_t
weft_export_xdr_write_args(XDR *xdr, weft_export_write_args *args)
{
	u_int *len = &args->data.data_len;

	if (xdr->x_op == XDR_FREE)
		return TRUE;
	if (xdr->x_op != XDR_DECODE)
		return xdr_weft_export_write_args(xdr, args);
	if (!weft_export_write_ahead(xdr, args) || *len > WEFT_EXPORT_IO_MAX)
		return FALSE;
	if (*len > 0)
		args->data.data_val = weft_rpc_xdr_lend(xdr, *len);
	return *len == 0 || args->data.data_val != NULL;
}
