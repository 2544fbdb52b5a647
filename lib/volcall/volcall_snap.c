/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Snapshots and clones: what a request has to have, its call, and its answer. */

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "volcall_priv.h"
#include <weft/block.h>

static_assert(WEFT_VOLUME_SNAP_NAME == WEFT_VOLRPC_SNAP_NAME_MAX + 1, "room for each name");
static_assert(WEFT_VOLUME_SNAP_NAME == WEFT_BLOCK_SNAP_NAME_BYTES, "one rule for names");
static_assert(sizeof(((struct weft_volume_req *)0)->place) == VOLCALL_WHY_BYTES, "one length");

#define SNAP_LIST_BYTES (64 + WEFT_VOLRPC_SNAPSHOTS_MAX * (4 + WEFT_VOLUME_SNAP_NAME + 16))

bool
volcall_is_snap(enum weft_volume_op op)
{
	return op == WEFT_VOLUME_OP_SNAPSHOT || op == WEFT_VOLUME_OP_SNAPSHOTS ||
	       op == WEFT_VOLUME_OP_SNAPSHOT_REMOVE || op == WEFT_VOLUME_OP_CLONE;
}

bool
volcall_snap_ok(const struct weft_volume_req *req)
{
	if (req->off_bytes != 0 || req->len_bytes != 0)
		return false;
	if (req->op == WEFT_VOLUME_OP_SNAPSHOTS)
		return (req->name == NULL || weft_block_snap_name_ok(req->name)) &&
		       req->snapshots != NULL && req->max_snapshots > 0;
	return weft_block_snap_name_ok(req->name) &&
	       (req->op != WEFT_VOLUME_OP_CLONE || req->from == NULL ||
	        weft_block_snap_name_ok(req->from));
}

static uint32_t
snap_list_bytes(const void *args)
{
	(void)args;
	return SNAP_LIST_BYTES;
}

static const struct weft_rpc_binding snap_list_binding = {.reply_bytes = snap_list_bytes};

void
volcall_snap_args(struct volcall_slot *s, struct weft_rpc_call_attr *a)
{
	static char none[] = "";
	const struct weft_volume_req *req = s->req;
	const bool clone = req->op == WEFT_VOLUME_OP_CLONE;

	s->args.snap = (weft_volrpc_snap_args){
	        .handle = s->v->handle,
	        .name = req->name != NULL ? (char *)(uintptr_t)req->name : none,
	        .from = clone && req->from != NULL ? (char *)(uintptr_t)req->from : none,
	};
	a->xdr_args = (xdrproc_t)xdr_weft_volrpc_snap_args;
	a->once = req->op != WEFT_VOLUME_OP_SNAPSHOTS;
	if (req->op == WEFT_VOLUME_OP_SNAPSHOTS) {
		a->xdr_res = (xdrproc_t)xdr_weft_volrpc_snapshots_res;
		a->res_bytes = sizeof(weft_volrpc_snapshots_res);
		a->binding = &snap_list_binding;
	} else if (req->op != WEFT_VOLUME_OP_SNAPSHOT_REMOVE) {
		a->xdr_res = (xdrproc_t)xdr_weft_volrpc_made_res;
		a->res_bytes = sizeof(weft_volrpc_made_res);
	}
}

const weft_volrpc_fault *
volcall_snap_fault(enum weft_volume_op op, const void *res)
{
	const weft_volrpc_snapshots_res *l = res;
	const weft_volrpc_made_res *m = res;
	const weft_volrpc_res *plain = res;

	return op == WEFT_VOLUME_OP_SNAPSHOTS         ? &l->weft_volrpc_snapshots_res_u.fault
	       : op == WEFT_VOLUME_OP_SNAPSHOT_REMOVE ? &plain->weft_volrpc_res_u.fault
	                                              : &m->weft_volrpc_made_res_u.fault;
}

const char *
volcall_snap_results(struct weft_volume_req *req, const void *res)
{
	const weft_volrpc_made_res *m = res;
	const weft_volrpc_snapshots_res *l = res;
	const weft_volrpc_snapshots *found = &l->weft_volrpc_snapshots_res_u.found;
	const char *last = req->name != NULL ? req->name : "";

	if (req->op == WEFT_VOLUME_OP_SNAPSHOT || req->op == WEFT_VOLUME_OP_CLONE)
		volcall_why(req->place, m->weft_volrpc_made_res_u.made.place);
	if (req->op != WEFT_VOLUME_OP_SNAPSHOTS)
		return NULL;
	for (u_int i = 0; i < found->list.list_len; i++) {
		const weft_volrpc_snapshot *s = &found->list.list_val[i];

		/* In order, or a caller that goes on behind the last one would never end. */
		if (!weft_block_snap_name_ok(s->name) || strcmp(s->name, last) <= 0) {
			req->found = 0;
			return "the target's snapshots have wrong names, or are not in order";
		}
		last = s->name;
		if (req->found == req->max_snapshots) {
			req->more = true;
			continue;
		}
		snprintf(req->snapshots[req->found].name, WEFT_VOLUME_SNAP_NAME, "%s", s->name);
		req->snapshots[req->found].bytes = s->bytes;
		req->snapshots[req->found++].created_ns = s->created_ns;
	}
	req->more |= found->more != 0 && found->list.list_len > 0;
	return NULL;
}
