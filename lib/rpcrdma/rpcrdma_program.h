/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_PROGRAM_H
#define RPCRDMA_PROGRAM_H

/** @file The program that a call names, and the RPC headers of answers (RFC 5531 s9). */

#include <rpc/rpc.h>
#include <rpc/rpc_msg.h>

#include <weft/rpcrdma.h>

/** Find the procedure; NULL: the refusal is in reply. *null: the built-in procedure 0. */
const struct weft_rpc_proc *weft_rpcrdma_proc_find(const struct weft_rpc_program *const *programs,
                                                   const struct rpc_msg *call,
                                                   struct rpc_msg *reply, bool *null);
void weft_rpcrdma_accepted(struct rpc_msg *reply, enum accept_stat stat);
void weft_rpcrdma_auth_error(struct rpc_msg *reply, enum auth_stat why);
/** The header for a status of weft/rpcrdma.h; vers: the program's version. */
void weft_rpcrdma_status(struct rpc_msg *reply, enum weft_rpc_status status, uint32_t vers);

#endif /* RPCRDMA_PROGRAM_H */
