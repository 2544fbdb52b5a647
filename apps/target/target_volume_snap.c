/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Procedures for snapshots and clones of a volume. Runs on workers; never blocks. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "target.h"
#include "target_opening.h"
#include "target_rpc.h"
#include "target_say.h"
#include "target_volume.h"
#include "target_volume_snap.h"
#include "ui.h"

/* Changes of all clients wait for a snapshot that waits for a change which hangs: not for long. */
#define VSNAP_DEADLINE_NS 10000000000ULL

/** What a call for snapshots needs beside its operation. */
struct target_vsnap {
	struct weft_vol_snap snap; /**< first member */
	char name[WEFT_BLOCK_SNAP_NAME_BYTES], from[WEFT_BLOCK_SNAP_NAME_BYTES];
	struct weft_block_snapshot list[WEFT_VOLRPC_SNAPSHOTS_MAX];
};

static const char *const what_names[] = {
        [WEFT_BLOCK_SNAP_CREATE] = "snapshot",
        [WEFT_BLOCK_SNAP_LIST] = "a list of snapshots",
        [WEFT_BLOCK_SNAP_REMOVE] = "the removal of snapshot",
        [WEFT_BLOCK_SNAP_CLONE] = "clone",
};

/** The reason of a status, as one line. */
static const char *
vsnap_why(const struct target_vio *io, int status)
{
	const struct weft_block_snap *b = &io->snap->snap.block;

	if (b->reason[0] != '\0')
		return b->reason;
	switch (status) {
	case -ETIMEDOUT:
		return "the changes before it have not ended in time";
	case -ECANCELED:
		return "it was given up";
	case -EROFS:
		return "it is open to be read only";
	default:
		return strerror(-status);
	}
}

static weft_volrpc_status
vsnap_status(int status)
{
	switch (status) {
	case -ENOENT:
		return WEFT_VOLRPC_NOENT;
	case -ENAMETOOLONG:
	case -ESTALE:
		return WEFT_VOLRPC_INVAL;
	case -EACCES:
	case -EPERM:
		return WEFT_VOLRPC_PERM;
	default:
		return target_vstatus(status);
	}
}

static bool
vsnap_fail(struct target_vio *io, int status)
{
	const struct weft_block_snap *b = &io->snap->snap.block;

	if (status == -EDQUOT)
		atomic_fetch_add_explicit(&io->g->ex->volume->snaps_refused, 1,
		                          memory_order_relaxed);
	if (weft_block_class_of(status) == WEFT_BLOCK_MEDIUM_FAILED && status != -EEXIST &&
	    status != -ENOENT && status != -EBUSY)
		target_log_export(UI_ERR "export %s: %s%s%s failed: %s", io->g->ex->conf->name,
		                  what_names[b->what], io->snap->name[0] != '\0' ? " " : "",
		                  io->snap->name, vsnap_why(io, status));
	return target_vfault(io->status, io->fault, vsnap_status(status), 0, 0, "%s",
	                     vsnap_why(io, status));
}

/* ---- Results ---- */

/** A snapshot or clone was made. */
static bool
vsnap_made(struct target_vio *io)
{
	const struct weft_block_snap *b = &io->snap->snap.block;
	weft_volrpc_made_res *res = io->res;
	target_log("export %s: %s %s was made for %s: %s", io->g->ex->conf->name,
	           what_names[b->what], io->snap->name, io->g->conn->peer, b->place);
	res->status = WEFT_VOLRPC_OK;
	res->weft_volrpc_made_res_u.made.place = strdup(b->place);
	return res->weft_volrpc_made_res_u.made.place != NULL;
}

static bool
vsnap_listed(struct target_vio *io)
{
	const struct weft_block_snap *b = &io->snap->snap.block;
	weft_volrpc_snapshots_res *res = io->res;
	weft_volrpc_snapshots *found = &res->weft_volrpc_snapshots_res_u.found;

	res->status = WEFT_VOLRPC_OK;
	*found = (weft_volrpc_snapshots){.more = b->more};
	found->list.list_val = calloc(b->found > 0 ? b->found : 1, sizeof(weft_volrpc_snapshot));
	if (found->list.list_val == NULL)
		return false;
	/* Each item that is encoded or freed is complete. */
	for (uint32_t i = 0; i < b->found; i++) {
		found->list.list_val[i] = (weft_volrpc_snapshot){
		        .name = strdup(b->list[i].name),
		        .bytes = b->list[i].bytes,
		        .created_ns = b->list[i].created_ns,
		};
		if (found->list.list_val[i].name == NULL)
			return false;
		found->list.list_len = i + 1;
	}
	return true;
}

static void
vsnap_done(struct weft_vol_op *op)
{
	struct target_vio *io = op->owner;
	const struct weft_block_snap *b = &io->snap->snap.block;
	bool ok = true;

	if (op->status == 0)
		atomic_fetch_add_explicit(&io->g->ex->volume->snaps[b->what], 1,
		                          memory_order_relaxed);
	if (op->status != 0) {
		ok = vsnap_fail(io, op->status);
	} else if (b->what == WEFT_BLOCK_SNAP_LIST) {
		ok = vsnap_listed(io);
	} else if (b->what == WEFT_BLOCK_SNAP_REMOVE) {
		target_log("export %s: snapshot %s was removed for %s", io->g->ex->conf->name,
		           io->snap->name, io->g->conn->peer);
		*io->status = WEFT_VOLRPC_OK;
	} else {
		ok = vsnap_made(io);
	}
	target_vio_answer(io, ok, false);
}

/* ---- Calls ---- */

/** Names that make sense, and a target that lets clients make snapshots. */
static bool
vsnap_check(struct target_vio *io, const weft_volrpc_snap_args *args,
            enum weft_block_snap_what what)
{
	const bool lists = what == WEFT_BLOCK_SNAP_LIST;

	if ((!lists || args->name[0] != '\0') && !weft_block_snap_name_ok(args->name)) {
		target_vio_refuse(io, WEFT_VOLRPC_INVAL,
		                  "a name has 1 to 63 of A-Z a-z 0-9 . _ - and begins with a "
		                  "letter or digit");
		return false;
	}
	if (args->from[0] != '\0' &&
	    (what != WEFT_BLOCK_SNAP_CLONE || !weft_block_snap_name_ok(args->from))) {
		target_vio_refuse(io, WEFT_VOLRPC_INVAL, "that cannot be the name of a snapshot");
		return false;
	}
	if (!lists && io->g->ex->conf->snapshots == 0) {
		atomic_fetch_add_explicit(&io->g->ex->volume->snaps_refused, 1,
		                          memory_order_relaxed);
		target_vio_refuse(io, WEFT_VOLRPC_PERM,
		                  "its target lets clients make and remove no snapshots (snapshots "
		                  "= N of [export] does)");
		return false;
	}
	return true;
}

static void
vsnap_serve(struct target_conn *c, struct weft_rpc_req *req, const weft_volrpc_snap_args *args,
            void *res, weft_volrpc_status *status, weft_volrpc_fault *fault,
            enum weft_block_snap_what what)
{
	struct target_vio *io = target_vio_begin(
	        c, req, args->handle,
	        what == WEFT_BLOCK_SNAP_LIST ? WEFT_EXPORT_READ : WEFT_EXPORT_WRITE, status, fault);
	struct weft_block_snap *b;
	struct timespec ts;
	int rc;

	if (io == NULL || !vsnap_check(io, args, what))
		return;
	io->snap = calloc(1, sizeof(*io->snap));
	if (io->snap == NULL || expfmt_uuid(io->snap->snap.uuid) != 0) {
		target_vio_refuse(io, WEFT_VOLRPC_NORES, "out of memory");
		return;
	}
	clock_gettime(CLOCK_REALTIME, &ts);
	snprintf(io->snap->name, sizeof(io->snap->name), "%s", args->name);
	snprintf(io->snap->from, sizeof(io->snap->from), "%s", args->from);
	b = &io->snap->snap.block;
	b->what = what;
	b->name = io->snap->name[0] != '\0' ? io->snap->name : NULL;
	b->from = io->snap->from[0] != '\0' ? io->snap->from : NULL;
	b->most = io->g->ex->conf->snapshots;
	b->created_ns = (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
	b->list = io->snap->list;
	b->max_list = WEFT_VOLRPC_SNAPSHOTS_MAX;
	io->res = res;
	io->op.kind = WEFT_VOL_SNAPSHOT;
	io->op.snap = &io->snap->snap;
	io->op.deadline_ns = weft_worker_now_ns(c->w->w) + VSNAP_DEADLINE_NS;
	io->op.done = vsnap_done;
	target_metrics_stage(&io->timing, METRICS_STAGING);
	rc = weft_vol_submit(io->g->vc->chan, &io->op);
	if (rc != 0)
		target_vio_answer(io, vsnap_fail(io, rc), false);
}

void
target_vserve_snapshot(void *user, struct weft_rpc_req *req, void *args, void *vres)
{
	weft_volrpc_made_res *res = vres;

	vsnap_serve(user, req, args, res, &res->status, &res->weft_volrpc_made_res_u.fault,
	            WEFT_BLOCK_SNAP_CREATE);
}

void
target_vserve_snapshots(void *user, struct weft_rpc_req *req, void *args, void *vres)
{
	weft_volrpc_snapshots_res *res = vres;

	vsnap_serve(user, req, args, res, &res->status, &res->weft_volrpc_snapshots_res_u.fault,
	            WEFT_BLOCK_SNAP_LIST);
}

void
target_vserve_unsnapshot(void *user, struct weft_rpc_req *req, void *args, void *vres)
{
	weft_volrpc_res *res = vres;

	vsnap_serve(user, req, args, res, &res->status, &res->weft_volrpc_res_u.fault,
	            WEFT_BLOCK_SNAP_REMOVE);
}

void
target_vserve_clone(void *user, struct weft_rpc_req *req, void *args, void *vres)
{
	weft_volrpc_made_res *res = vres;

	vsnap_serve(user, req, args, res, &res->status, &res->weft_volrpc_made_res_u.fault,
	            WEFT_BLOCK_SNAP_CLONE);
}
