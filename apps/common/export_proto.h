/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_EXPORT_PROTO_H
#define WEFT_APPS_EXPORT_PROTO_H

/** @file What rpcgen makes of weft_export.x, without its warnings. */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include "weft_export.h"
#pragma GCC diagnostic pop

#include <weft/rpcrdma.h>

/** xdr_void() has no parameters; xdrproc_t has. */
#define WEFT_EXPORT_XDR_VOID ((xdrproc_t)(void (*)(void))xdr_void)

/* ---- READ and WRITE: data is not copied where chunks carry it ---- */

/** The arguments of a READ, with where its data goes: what a call by weft_export_read_binding is
 * given. */
struct weft_export_read_call {
	weft_export_read_args args; /**< first: what is encoded */
	void *into;                 /**< args.count octets, the caller's until the answer */
};

/** Both sides of READ; the caller's args are a struct weft_export_read_call. */
extern const struct weft_rpc_binding weft_export_read_binding;
/** Both sides of WRITE: the data stays the caller's until the answer. */
extern const struct weft_rpc_binding weft_export_write_binding;

/**
 * For the results of a READ. Data is never allocated nor freed by it. The caller begins with
 * (res_init) data_val where the data goes and data_len what it asked for: the most that is taken.
 */
bool_t weft_export_xdr_read_res(XDR *xdr, weft_export_read_res *res);

/**
 * For the arguments of a WRITE. The server's data is lent by the message (weft_rpc_xdr_lend()),
 * never allocated nor freed.
 */
bool_t weft_export_xdr_write_args(XDR *xdr, weft_export_write_args *args);
/** What stands before a WRITE's data, its length included, of which the caller has to judge.
 * data_val is NULL. */
bool weft_export_write_ahead(XDR *xdr, weft_export_write_args *args);

#endif /* WEFT_APPS_EXPORT_PROTO_H */
