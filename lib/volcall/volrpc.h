/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_VOLRPC_PROTO_H
#define WEFT_VOLRPC_PROTO_H

/**
 * @file The protocol of volumes for client and server: rpcgen's header of weft_volrpc.x without its
 * warnings, and bindings of READ, WRITE and COMPARE_WRITE with their XDR routines. These neither
 * allocate nor free the data, and limit every length. Used by libweft_volume and by weft-target,
 * each with a copy of the code.
 */

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include "weft_volrpc.h"
#pragma GCC diagnostic pop

#include <weft/rpcrdma.h>

/**
 * The arguments of a client's call by weft_volrpc_read_binding: those of READ, and where its data
 * goes.
 */
struct weft_volrpc_read_call {
	weft_volrpc_read_args args; /**< first member: the part that is encoded */
	/** args.count octets of the caller's; in use until the answer */
	void *into;
};

/**
 * READ: the data may come by a Write chunk, straight into the client's memory. The client's args
 * are a struct weft_volrpc_read_call; little data comes inline.
 */
extern const struct weft_rpc_binding weft_volrpc_read_binding;
/** WRITE: the data may be fetched by a Read chunk. The client's data stays in use until the answer.
 */
extern const struct weft_rpc_binding weft_volrpc_write_binding;
/** COMPARE_WRITE: as WRITE, with two arguments, `expect` and `data`. */
extern const struct weft_rpc_binding weft_volrpc_compare_binding;

/**
 * XDR of the results of a READ.
 * Server: data_val is the server's memory, which stays as it is until the answer is sent; XDR_FREE
 * leaves it alone.
 * Client: before the call (res_init) status is WEFT_VOLRPC_OK, data_val is the client's buffer, and
 * data_len is the count that it asked for, which is the most that is accepted. After it data_len
 * tells how much came, which the client compares with the count.
 * A fault's `why` is allocated by the decoder and freed by XDR_FREE: a server allocates it, too.
 */
bool_t weft_volrpc_xdr_read_res(XDR *xdr, weft_volrpc_read_res *res);

/**
 * XDR of the arguments of a WRITE. The server's data points into the message
 * (weft_rpc_xdr_lend()) and is valid until the answer. Without data data_val is NULL.
 */
bool_t weft_volrpc_xdr_write_args(XDR *xdr, weft_volrpc_write_args *args);
/**
 * For weft_rpc_proc.place: decode the arguments of a WRITE up to its data, with the data's length.
 * data_val is NULL. False: they cannot be decoded, or are longer than WEFT_VOLRPC_IO_MAX.
 */
bool weft_volrpc_write_ahead(XDR *xdr, weft_volrpc_write_args *args);

/**
 * XDR of the arguments of a COMPARE_WRITE. The server's data as of weft_volrpc_xdr_write_args().
 * Arguments whose `expect` and `data` differ in length are not decoded.
 */
bool_t weft_volrpc_xdr_compare_args(XDR *xdr, weft_volrpc_compare_args *args);

#endif /* WEFT_VOLRPC_PROTO_H */
