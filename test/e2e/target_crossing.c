/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file weft-target, in which of each three moves of a window one meets the end of that window: the
 * target asks for the window back while the client's MOVE is on its way. Linked with the program's
 * own objects (link_args --wrap).
 */

#include "target.h"
#include "target_grant.h"
#include "target_volume_window.h"

#define EACH        3
#define DEADLINE_MS 2000

void __real_target_vserve_window_move(void *user, struct weft_rpc_req *req, void *vargs, void *res);
void __wrap_target_vserve_window_move(void *user, struct weft_rpc_req *req, void *vargs, void *res);

static void
ask_back(struct target_conn *c, struct target_vwindow *x)
{
	const weft_volrpc_revoke_args args = {
	        .handle = x->g->handle, .window = x->id, .deadline_ms = DEADLINE_MS};

	x->asked = true;
	(void)weft_rpc_call(c->rpc, WEFT_VOLRPC_PROG, WEFT_VOLRPC_V2, WEFT_VOLRPC_REVOKE,
	                    (xdrproc_t)xdr_weft_volrpc_revoke_args, &args, NULL, 0,
	                    DEADLINE_MS * 1000, target_vtold, x->g->ex);
}

void
__wrap_target_vserve_window_move(void *user, struct weft_rpc_req *req, void *vargs, void *res)
{
	static unsigned int moves; /* the test's target has one worker */
	const weft_volrpc_move_args *args = vargs;
	struct target_conn *c = user;
	struct target_vwindow *x;
	struct target_vgrant *g;

	if (++moves % EACH == 0)
		LIST_FOREACH (g, &c->vgrants, link)
			LIST_FOREACH (x, &g->windows, link)
				if (x->id == args->window && x->state == VWINDOW_OPEN)
					ask_back(c, x);
	__real_target_vserve_window_move(user, req, vargs, res);
}
