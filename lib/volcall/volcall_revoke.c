/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Calls of the target: it takes a window back, or all of a grant. */

#include "volcall_priv.h"

static bool
revoke_has_window(const struct weft_volume *v, const void *arg)
{
	const weft_volrpc_revoke_args *args = arg;
	const struct weft_volume_window *w;

	for (w = v->windows; w != NULL; w = w->next)
		if (w->id == args->window)
			return true;
	return false;
}

static bool
revoke_has_handle(const struct weft_volume *v, const void *arg)
{
	const weft_volrpc_revoke_args *args = arg;

	return v->handle == args->handle && !v->closing;
}

static void
revoke_serve(void *conn_user, struct weft_rpc_req *req, void *vargs, void *res)
{
	const weft_volrpc_revoke_args args = *(const weft_volrpc_revoke_args *)vargs;
	const struct weft_rpc *rpc = weft_rpc_req_endpoint(req);
	struct weft_volume *v = NULL;

	(void)conn_user;
	(void)res;
	if (rpc != NULL)
		v = volcall_of(rpc, args.window != 0 ? revoke_has_window : revoke_has_handle,
		               &args);
	/* First the answer: the owner may end the endpoint when it is told. */
	weft_rpc_done(req, WEFT_RPC_OK);
	if (v != NULL && volcall_window_revoked(v, args.window, args.deadline_ms))
		volcall_go_on(v);
}

static const struct weft_rpc_proc revoke_procs[] = {
        [WEFT_VOLRPC_REVOKE] = {.xdr_args = (xdrproc_t)xdr_weft_volrpc_revoke_args,
                                .args_bytes = sizeof(weft_volrpc_revoke_args),
                                .serve_later = revoke_serve},
};

const struct weft_rpc_program weft_volume_revokes = {
        .prog = WEFT_VOLRPC_PROG,
        .vers = WEFT_VOLRPC_V2,
        .procs = revoke_procs,
        .nprocs = sizeof(revoke_procs) / sizeof(revoke_procs[0]),
};
