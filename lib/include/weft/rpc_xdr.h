/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_RPC_XDR_H
#define WEFT_RPC_XDR_H

/**
 * @file XDR routines for counted arrays and optional data that may travel in chunks. Installed;
 * needs libtirpc's <rpc/rpc.h> and no other header of weft.
 *
 * An XDR routine gives a stream the numbers of an array one by one, so the stream cannot see where
 * the array begins and ends. The three routines of this header do the same as those of libtirpc,
 * with the same arguments, and also tell weft's streams where the item is. So a binding can name
 * the item by the address of its first element, or of its data (WEFT_RPC_XDR in weft/rpcrdma.h).
 * With other streams they behave as libtirpc's.
 *
 * These lines, before the types of a program in rpcgen's language, make its XDR routines use them:
 *
 *     #ifdef RPC_XDR
 *     %#include <weft/rpc_xdr.h>
 *     #endif
 *
 * In a file with this header the names of libtirpc's routines stand for these routines. Define
 * WEFT_RPC_XDR_NO_NAMES before the header to keep libtirpc's names.
 */

#include <rpc/rpc.h>

#include <weft/api.h>

WEFT_API_BEGIN

/** xdr_array(3): at most max elements from *p on. When decoding, *p is allocated if it is NULL. */
bool_t weft_rpc_xdr_array(XDR *xdr, caddr_t *p, u_int *count, u_int max, u_int size_bytes,
                          xdrproc_t proc);
/** xdr_pointer(3): a flag and, unless *p is NULL, what *p points to. */
bool_t weft_rpc_xdr_pointer(XDR *xdr, char **p, u_int size_bytes, xdrproc_t proc);
/** xdr_reference(3): what *p points to; *p is never NULL after decoding. */
bool_t weft_rpc_xdr_reference(XDR *xdr, caddr_t *p, u_int size_bytes, xdrproc_t proc);

#ifndef WEFT_RPC_XDR_NO_NAMES
#define xdr_array     weft_rpc_xdr_array
#define xdr_pointer   weft_rpc_xdr_pointer
#define xdr_reference weft_rpc_xdr_reference
#endif

WEFT_API_END

#endif /* WEFT_RPC_XDR_H */
