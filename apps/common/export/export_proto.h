/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_EXPORT_PROTO_H
#define WEFT_APPS_EXPORT_PROTO_H

/** @file The export program: rpcgen's header of weft_export.x without its warnings, and bindings
 * of READ and WRITE. */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include "weft_export.h"
#pragma GCC diagnostic pop

#include <weft/rpcrdma.h>

/** xdr_void() has no parameters; xdrproc_t has. */
#define WEFT_EXPORT_XDR_VOID ((xdrproc_t)(void (*)(void))xdr_void)

/* ---- READ and WRITE: data that chunks carry is not copied ---- */

/** The arguments of a call by weft_export_read_binding: those of READ, and where its data goes. */
struct weft_export_read_call {
	weft_export_read_args args; /**< first member: the part that is encoded */
	/** args.count octets of the caller's; in use until the answer */
	void *into;
};

/** Binding of READ for client and server. The client's args are a struct weft_export_read_call. */
extern const struct weft_rpc_binding weft_export_read_binding;
/** Binding of WRITE for client and server. The client's data stays in use until the answer. */
extern const struct weft_rpc_binding weft_export_write_binding;

/**
 * XDR of the results of a READ; it neither allocates nor frees the data. Before the call (res_init)
 * the client sets data_val to its buffer and data_len to the count that it asked for, which is the
 * most that is accepted.
 */
bool_t weft_export_xdr_read_res(XDR *xdr, weft_export_read_res *res);

/**
 * XDR of the arguments of a WRITE. The server's data points into the message (weft_rpc_xdr_lend());
 * it is neither allocated nor freed.
 */
bool_t weft_export_xdr_write_args(XDR *xdr, weft_export_write_args *args);
/** Decode the part of a WRITE's arguments before its data, the data's length included. The
 * caller has to check the length. data_val is NULL. */
bool weft_export_write_ahead(XDR *xdr, weft_export_write_args *args);

#endif /* WEFT_APPS_EXPORT_PROTO_H */
