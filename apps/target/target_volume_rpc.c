/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The table of procedures of version 2 of the export program, LIST, OPEN and CLOSE. Runs on
 * workers; never blocks. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target.h"
#include "target_grant.h"
#include "target_rpc.h"
#include "target_say.h"
#include "target_volume.h"
#include "target_volume_snap.h"
#include "target_volume_window.h"

_Static_assert(TARGET_LIST_PAGE <= WEFT_VOLRPC_LIST_MAX, "LIST_FROM has room");

#define VERIFIER_STEP 0x9e3779b97f4a7c14ULL /* even: bit 0 keeps a verifier from being 0 */

static const weft_volrpc_kind kinds[] = {
        [CONF_FORMAT_OBJECT] = WEFT_VOLRPC_KIND_OBJECT,
        [CONF_FORMAT_LOG] = WEFT_VOLRPC_KIND_LOG,
        [CONF_FORMAT_VOLUME] = WEFT_VOLRPC_KIND_VOLUME,
};

/** Fill in an item. False: no memory. */
static bool
vlist_item(const struct target_conn *c, struct target_export *ex, weft_volrpc_item *it)
{
	char why[WEFT_VOLRPC_TEXT_MAX + 1];
	const bool off = target_export_off(ex, c, why, sizeof(why));

	it->name = strdup(ex->conf->name);
	it->kind = kinds[ex->conf->format];
	it->rights = target_may_client(ex, c);
	it->bytes = off ? 0 : target_export_bytes(ex);
	it->hash = strdup(off ? "" : ex->conf->hash);
	it->mechanism = strdup(off ? why : target_export_mechanism(ex, why, sizeof(why)));
	if (it->name != NULL && it->hash != NULL && it->mechanism != NULL)
		return true;
	/* Every item that is encoded or freed has to be complete. */
	free(it->name);
	free(it->hash);
	free(it->mechanism);
	return false;
}

/** Fill in items from slot *at on, `most` at most; *at: the slot behind the last one that was
 * looked at. False: no memory. */
static bool
vlist_items(const struct target_conn *c, uint32_t *at, uint32_t most, weft_volrpc_item **items,
            u_int *n)
{
	struct target_export *ex;

	*n = 0;
	*items = calloc(most, sizeof(**items));
	while (*items != NULL && *n < most && (ex = target_export_next(c->w->t, at)) != NULL) {
		if (!vlist_item(c, ex, *items + *n))
			return false;
		++*n;
	}
	return *items != NULL;
}

static enum weft_rpc_status
vserve_list(void *user, void *vargs, void *vres)
{
	weft_volrpc_list *res = vres;
	uint32_t at = 0;

	(void)vargs;
	return vlist_items(user, &at, WEFT_VOLRPC_LIST_MAX, &res->items.items_val,
	                   &res->items.items_len)
	               ? WEFT_RPC_OK
	               : WEFT_RPC_SYSTEM_ERR;
}

static enum weft_rpc_status
vserve_list_from(void *user, void *vargs, void *vres)
{
	const struct target_conn *c = user;
	const weft_volrpc_list_args *args = vargs;
	weft_volrpc_page *res = vres;
	uint32_t at = args->from, more;

	if (!vlist_items(c, &at, TARGET_LIST_PAGE, &res->items.items_val, &res->items.items_len))
		return WEFT_RPC_SYSTEM_ERR;
	more = at;
	res->next = target_export_next(c->w->t, &more) != NULL ? at : 0;
	return WEFT_RPC_OK;
}

static enum weft_rpc_status
open_answer(const struct target_vgrant *g, weft_volrpc_open_res *res)
{
	const struct weft_vol_info *i = weft_vol_info(g->ex->volume->vol);
	struct target *t = g->conn->w->t;
	weft_volrpc_grant *a = &res->weft_volrpc_open_res_u.grant;
	struct weft_block_info dev;

	weft_block_query(g->ex->volume->block, &dev);
	*a = (weft_volrpc_grant){
	        .handle = g->handle,
	        .bytes = i->super.bytes,
	        .rights = g->rights,
	        .can = (i->discards ? WEFT_VOLRPC_CAN_DISCARD : 0) |
	               (dev.can & WEFT_BLOCK_CAN_EXTENTS ? WEFT_VOLRPC_CAN_EXTENTS : 0) |
	               (i->verify_medium ? WEFT_VOLRPC_CAN_MEDIUM : 0) |
	               (i->sums ? WEFT_VOLRPC_CAN_SUMS : 0),
	        .block_bytes = i->block_bytes,
	        .atomic_bytes = i->atomic_bytes,
	        .io_bytes = WEFT_VOLRPC_IO_MAX,
	        .compare_bytes = i->compare_bytes,
	        .range_bytes = WEFT_VOLRPC_RANGE_MAX,
	        .window_bytes = (u_int)t->conf.target.window_bytes,
	        .window_align = WEFT_VOL_WINDOW_ALIGN,
	        .windows = TARGET_VWINDOWS_MAX,
	        .hash = strdup(g->ex->conf->hash),
	        .hash_bytes = (u_int)weft_hash_find(g->ex->conf->hash)->result_bytes,
	        .persistent = dev.persistent,
	        .mechanism = strdup(dev.mechanism),
	};
	memcpy(a->uuid, i->super.uuid, sizeof(a->uuid));
	res->status = WEFT_VOLRPC_OK;
	return a->hash != NULL && a->mechanism != NULL ? WEFT_RPC_OK : WEFT_RPC_SYSTEM_ERR;
}

static enum weft_rpc_status
vserve_open(void *user, void *vargs, void *vres)
{
	struct target_conn *c = user;
	const weft_volrpc_open_args *args = vargs;
	weft_volrpc_open_res *res = vres;
	weft_volrpc_fault *fault = &res->weft_volrpc_open_res_u.fault;
	struct target_export *ex = target_export_find(c->w->t, args->name);
	uint32_t rights = args->rights != 0 || ex == NULL
	                          ? args->rights
	                          : target_may(ex) & target_left_by_hosts(ex);
	char why[WEFT_VOLRPC_TEXT_MAX + 1];
	weft_volrpc_status status;
	struct target_vgrant *g;

	/* The two versions of the program give their statuses the same numbers. */
	status = (weft_volrpc_status)target_open_check(c, ex, rights, args->cred.cred_len, why,
	                                               sizeof(why));
	if (status == WEFT_VOLRPC_OK && !target_is_volume(ex)) {
		status = WEFT_VOLRPC_INVAL;
		snprintf(why, sizeof(why), "it holds %s, not a volume",
		         target_is_log(ex) ? "a log" : "an object");
	}
	if (status == WEFT_VOLRPC_OK)
		status = target_vgrant_open(c, ex, rights, &g, why, sizeof(why));
	if (status != WEFT_VOLRPC_OK)
		return target_vfault(&res->status, fault, status, 0, 0, "%s", why)
		               ? WEFT_RPC_OK
		               : WEFT_RPC_SYSTEM_ERR;
	if (open_answer(g, res) != WEFT_RPC_OK) {
		target_vgrant_end(g);
		return WEFT_RPC_SYSTEM_ERR;
	}
	return WEFT_RPC_OK;
}

static void
vserve_close(void *user, struct weft_rpc_req *req, void *vargs, void *vres)
{
	const weft_volrpc_close_args *args = vargs;
	weft_volrpc_res *res = vres;
	struct target_vgrant *g = target_vgrant_find(user, args->handle);
	bool ok;

	if (g == NULL) {
		ok = target_vfault(&res->status, &res->weft_volrpc_res_u.fault, WEFT_VOLRPC_STALE,
		                   0, 0, "no such handle on this connection");
		weft_rpc_done(req, ok ? WEFT_RPC_OK : WEFT_RPC_SYSTEM_ERR);
		return;
	}
	res->status = WEFT_VOLRPC_OK;
	target_log("export %s: closed by %s", g->ex->conf->name, g->conn->peer);
	g->close_req = req;
	target_vgrant_end(g);
}

static enum weft_rpc_status
vserve_verifier(void *user, void *vargs, void *vres)
{
	const weft_volrpc_verifier_args *args = vargs;
	weft_volrpc_verifier_res *res = vres;
	const struct target_vgrant *g = target_vgrant_find(user, args->handle);
	struct weft_block_state state;

	if (g == NULL)
		return target_vfault(&res->status, &res->weft_volrpc_verifier_res_u.fault,
		                     WEFT_VOLRPC_STALE, 0, 0, "no such handle on this connection")
		               ? WEFT_RPC_OK
		               : WEFT_RPC_SYSTEM_ERR;
	weft_block_query_state(g->ex->volume->block, &state);
	res->status = WEFT_VOLRPC_OK;
	res->weft_volrpc_verifier_res_u.verifier =
	        (g->ex->volume->verifier + state.lost_flushes * VERIFIER_STEP) | 1;
	return WEFT_RPC_OK;
}

#define PROC(args, res)                                                                            \
	.xdr_args = (xdrproc_t)xdr_weft_volrpc_##args,                                             \
	.xdr_res = (xdrproc_t)xdr_weft_volrpc_##res, .args_bytes = sizeof(weft_volrpc_##args),     \
	.res_bytes = sizeof(weft_volrpc_##res)

/*
 * `once`: a second execution would undo what was written in between, or find what the first one has
 * written, or end what came after it. OPEN may be executed twice, because its grant ends with the
 * connection. WRITE has no `once`, whose cache would hash all of its data: it names a handle, which
 * is open on one connection alone, so a WRITE that is sent again on another one is refused (STALE).
 */
static const struct weft_rpc_proc volume_procs[] = {
        [WEFT_VOLRPC_LIST] = {.xdr_args = WEFT_EXPORT_XDR_VOID,
                              .xdr_res = (xdrproc_t)xdr_weft_volrpc_list,
                              .res_bytes = sizeof(weft_volrpc_list),
                              .serve = vserve_list},
        [WEFT_VOLRPC_LIST_FROM] = {PROC(list_args, page), .serve = vserve_list_from},
        [WEFT_VOLRPC_OPEN] = {PROC(open_args, open_res), .serve = vserve_open},
        [WEFT_VOLRPC_CLOSE] = {PROC(close_args, res), .serve_later = vserve_close, .once = true},
        [WEFT_VOLRPC_READ] = {.xdr_args = (xdrproc_t)xdr_weft_volrpc_read_args,
                              .xdr_res = (xdrproc_t)target_xdr_vread,
                              .args_bytes = sizeof(weft_volrpc_read_args),
                              .res_bytes = sizeof(struct target_vread),
                              .serve_later = target_vserve_read,
                              .binding = &weft_volrpc_read_binding},
        [WEFT_VOLRPC_WRITE] = {.xdr_args = (xdrproc_t)weft_volrpc_xdr_write_args,
                               .xdr_res = (xdrproc_t)xdr_weft_volrpc_res,
                               .args_bytes = sizeof(weft_volrpc_write_args),
                               .res_bytes = sizeof(weft_volrpc_res),
                               .serve_later = target_vserve_write,
                               .binding = &weft_volrpc_write_binding},
        [WEFT_VOLRPC_FLUSH] = {PROC(range_args, res), .serve_later = target_vserve_flush},
        [WEFT_VOLRPC_VERIFY] = {PROC(range_args, verify_res), .serve_later = target_vserve_verify},
        [WEFT_VOLRPC_COMPARE_WRITE] = {.xdr_args = (xdrproc_t)weft_volrpc_xdr_compare_args,
                                       .xdr_res = (xdrproc_t)xdr_weft_volrpc_res,
                                       .args_bytes = sizeof(weft_volrpc_compare_args),
                                       .res_bytes = sizeof(weft_volrpc_res),
                                       .serve_later = target_vserve_compare,
                                       .binding = &weft_volrpc_compare_binding,
                                       .once = true},
        [WEFT_VOLRPC_DISCARD] = {PROC(range_args, res), .serve_later = target_vserve_discard,
                                 .once = true},
        [WEFT_VOLRPC_ZEROES] = {PROC(range_args, res), .serve_later = target_vserve_zeroes,
                                .once = true},
        [WEFT_VOLRPC_EXTENTS] = {PROC(range_args, extents_res),
                                 .serve_later = target_vserve_extents},
        [WEFT_VOLRPC_WINDOW_OPEN] = {PROC(window_args, window_res),
                                     .serve_later = target_vserve_window_open},
        [WEFT_VOLRPC_WINDOW_MOVE] = {PROC(move_args, res), .serve_later = target_vserve_window_move,
                                     .once = true},
        [WEFT_VOLRPC_WINDOW_CLOSE] = {PROC(window_close_args, res),
                                      .serve_later = target_vserve_window_close, .once = true},
        [WEFT_VOLRPC_SNAPSHOT] = {PROC(snap_args, made_res), .serve_later = target_vserve_snapshot,
                                  .once = true},
        [WEFT_VOLRPC_SNAPSHOTS] = {PROC(snap_args, snapshots_res),
                                   .serve_later = target_vserve_snapshots},
        [WEFT_VOLRPC_SNAPSHOT_REMOVE] = {PROC(snap_args, res),
                                         .serve_later = target_vserve_unsnapshot, .once = true},
        [WEFT_VOLRPC_CLONE] = {PROC(snap_args, made_res), .serve_later = target_vserve_clone,
                               .once = true},
        [WEFT_VOLRPC_VERIFIER] = {PROC(verifier_args, verifier_res), .serve = vserve_verifier},
};

const struct weft_rpc_program target_volume_program = {
        .prog = WEFT_VOLRPC_PROG,
        .vers = WEFT_VOLRPC_V2,
        .procs = volume_procs,
        .nprocs = sizeof(volume_procs) / sizeof(volume_procs[0]),
};
