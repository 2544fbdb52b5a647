/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_RPC_XDR_H
#define WEFT_RPC_XDR_H

/**
 * @file XDR of counted arrays and optional data that may travel by chunks. Installed; needs
 * libtirpc's <rpc/rpc.h> and nothing else of weft.
 *
 * XDR routines give a stream an array's numbers one by one, and the stream cannot see where they
 * begin and end. These three do what libtirpc's do, with the same arguments, and tell weft's
 * streams where the item is, so that a binding can name it by the address of the first element, or
 * of the data (WEFT_RPC_XDR in weft/rpcrdma.h). With streams of others they are libtirpc's.
 *
 * In front of the types of a program in rpcgen's language
 *
 *     #ifdef RPC_XDR
 *     %#include <weft/rpc_xdr.h>
 *     #endif
 *
 * makes its XDR routines use them: the names of libtirpc's are theirs in a file that has this
 * header. Define WEFT_RPC_XDR_NO_NAMES before it where they are to be called by their own.
 */

#include <rpc/rpc.h>

#include <weft/api.h>

WEFT_API_BEGIN

/** xdr_array(3): elements from *p on, which is allocated if NULL when decoding; at most max of
 * them. */
bool_t weft_rpc_xdr_array(XDR *xdr, caddr_t *p, u_int *count, u_int max, u_int size_bytes,
                          xdrproc_t proc);
/** xdr_pointer(3): a flag and, unless *p is NULL, what it points to. */
bool_t weft_rpc_xdr_pointer(XDR *xdr, char **p, u_int size_bytes, xdrproc_t proc);
/** xdr_reference(3): what *p points to, which is never NULL. */
bool_t weft_rpc_xdr_reference(XDR *xdr, caddr_t *p, u_int size_bytes, xdrproc_t proc);

#ifndef WEFT_RPC_XDR_NO_NAMES
#define xdr_array     weft_rpc_xdr_array
#define xdr_pointer   weft_rpc_xdr_pointer
#define xdr_reference weft_rpc_xdr_reference
#endif

WEFT_API_END

#endif /* WEFT_RPC_XDR_H */
