/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Procedures that read and change volumes. Runs on workers; never blocks. */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target.h"
#include "target_rpc.h"
#include "target_say.h"
#include "target_slow.h"
#include "target_volume.h"
#include "target_volume_client.h"
#include "target_volume_window.h"
#include "ui.h"

/** Calls whose memory a worker keeps. */
#define SPARE_VIOS 64

/* ---- Answers ---- */

static void
vio_free(struct target_vio *io)
{
	struct target_vgrant *g = io->g;

	weft_staging_put(g->vc->vw->staging, &io->staging);
	free(io->extents);
	free(io->snap);
	weft_spare_put(&g->vc->vw->spare_vios, io, SPARE_VIOS);
	target_vgrant_unref(g);
}

void
target_vio_answer(struct target_vio *io, bool ok, bool held)
{
	struct weft_rpc_req *req = io->req;

	target_slow_vio(io, held);
	target_metrics_vio(io, held);
	/* The call is freed by the answer when the results hold it. */
	if (!held)
		vio_free(io);
	weft_rpc_done(req, ok ? WEFT_RPC_OK : WEFT_RPC_SYSTEM_ERR);
}

void
target_vio_refuse(struct target_vio *io, weft_volrpc_status status, const char *why)
{
	target_vio_answer(io, target_vfault(io->status, io->fault, status, 0, 0, "%s", why), false);
}

static const char *const op_names[WEFT_VOL_KINDS] = {
        [WEFT_VOL_READ] = "a READ",
        [WEFT_VOL_WRITE] = "a WRITE",
        [WEFT_VOL_FLUSH] = "a FLUSH",
        [WEFT_VOL_VERIFY] = "a VERIFY",
        [WEFT_VOL_COMPARE_WRITE] = "a COMPARE_WRITE",
        [WEFT_VOL_DISCARD] = "a DISCARD",
        [WEFT_VOL_ZEROES] = "a ZEROES",
        [WEFT_VOL_EXTENTS] = "an EXTENTS",
        [WEFT_VOL_SCRUB] = "a scrub",
        [WEFT_VOL_SNAPSHOT] = "a snapshot",
};

static bool
vio_fail(struct target_vio *io, int status)
{
	struct target_export *ex = io->g->ex;
	const struct weft_vol_op *op = &io->op;
	uint64_t at = 0;
	char text[128];

	if (op->kind == WEFT_VOL_FLUSH)
		snprintf(text, sizeof(text), "the medium has lost what was written%s%s",
		         status == -EIO ? "" : ": ", status == -EIO ? "" : strerror(-status));
	if (status == -EILSEQ)
		at = op->off_bytes + op->done_bytes;
	else if (status == -EBADMSG)
		at = op->damaged_off_bytes;
	if (target_is_bad_range(status)) {
		target_bad_range_keep(ex, (struct target_bad_range){.off_bytes = op->off_bytes,
		                                                    .len_bytes = op->len_bytes,
		                                                    .status = status});
		target_log_export(UI_ERR
		                  "export %s: BAD RANGE: %llu octets at offset %llu: %s failed: %s",
		                  ex->conf->name, (unsigned long long)op->len_bytes,
		                  (unsigned long long)op->off_bytes, op_names[op->kind],
		                  status == -EBADMSG ? "a block does not have its checksum"
		                                     : strerror(-status));
	}
	return target_vfault(
	        io->status, io->fault, target_vstatus(status), at,
	        status == -EILSEQ ? 0 : op->done_bytes, "%s",
	        status == -EBADMSG ? "a block does not have its checksum"
	        : op->kind == WEFT_VOL_FLUSH &&
	                        (status == -EIO || weft_block_class_of(status) == WEFT_BLOCK_SPACE)
	                ? text
	        : status == -EILSEQ ? "the octets differ"
	        : status == -EBUSY  ? target_vwindow_in_the_way(
	                                      io->g, op->off_bytes, op->len_bytes, false,
	                                      "a window that may write has a part of the range",
	                                      text, sizeof(text))
	        : status == -ECANCELED ? "it was given up"
	                               : strerror(-status));
}

/* ---- Beginning ---- */

/* A client waits for 30 s where it says nothing else. What the device does not have by then is not
 * begun; what it has is late, and counted. */
#define VIO_DEADLINE_NS 20000000000ULL

struct target_vio *
target_vio_begin(struct target_conn *c, struct weft_rpc_req *req, uint32_t handle, uint32_t rights,
                 weft_volrpc_status *status, weft_volrpc_fault *fault)
{
	struct target_vgrant *g = target_vgrant_find(c, handle);
	struct target_vio *io = NULL;
	char text[64];
	bool ok;

	if (g == NULL)
		ok = target_vfault(status, fault, WEFT_VOLRPC_STALE, 0, 0,
		                   "no such handle on this connection");
	else if ((g->rights & rights) != rights) {
		atomic_fetch_add_explicit(&g->ex->io_refused, 1, memory_order_relaxed);
		ok = target_vfault(status, fault, WEFT_VOLRPC_PERM, 0, 0, "only %s is granted",
		                   target_rights_str(g->rights, text, sizeof(text)));
	} else if ((io = weft_spare_get(&g->vc->vw->spare_vios, sizeof(*io))) == NULL)
		ok = target_vfault(status, fault, WEFT_VOLRPC_NORES, 0, 0, "out of memory");
	else {
		io->g = g;
		io->req = req;
		io->status = status;
		io->fault = fault;
		io->op.client = &g->client;
		io->op.owner = io;
		io->op.deadline_ns = weft_worker_now_ns(c->w->w) + VIO_DEADLINE_NS;
		target_metrics_op(&io->timing, req);
		target_vgrant_ref(g);
		return io;
	}
	weft_rpc_done(req, ok ? WEFT_RPC_OK : WEFT_RPC_SYSTEM_ERR);
	return NULL;
}

static void
vio_begin(struct target_vio *io)
{
	int rc;

	target_metrics_stage(&io->timing, METRICS_STAGING);
	rc = weft_vol_submit(io->g->vc->chan, &io->op);

	if (rc == 0)
		return;
	io->timing.began_ns = 0;
	if (rc == -EINVAL) {
		atomic_fetch_add_explicit(&io->g->ex->io_refused, 1, memory_order_relaxed);
		target_vio_answer(io,
		                  target_vfault(io->status, io->fault, WEFT_VOLRPC_INVAL, 0, 0,
		                                "%llu octets at %llu are not in the volume",
		                                (unsigned long long)io->op.len_bytes,
		                                (unsigned long long)io->op.off_bytes),
		                  false);
		return;
	}
	/* It was not begun, so its results say nothing. */
	io->op.done_bytes = 0;
	target_vio_answer(io, vio_fail(io, rc), false);
}

/** weft_gate_wait.go */
static void
vio_go(struct weft_gate_wait *w)
{
	struct target_vio *io = w->owner;

	target_metrics_stage(&io->timing, METRICS_RATE);
	if (io->g->ended)
		target_vio_refuse(io, WEFT_VOLRPC_CANCELED, "it was given up");
	else
		vio_begin(io);
}

/** Whether the client's rates let the call begin now. If not, go() follows. */
static bool
vio_may(struct target_vio *io, uint64_t bytes, void (*go)(struct weft_gate_wait *w))
{
	io->wait.bytes = bytes;
	io->wait.go = go;
	io->wait.owner = io;
	return rate_enter(&io->g->rate, &io->wait);
}

static void
vio_submit(struct target_vio *io)
{
	const bool moves = io->op.kind == WEFT_VOL_WRITE || io->op.kind == WEFT_VOL_COMPARE_WRITE;

	if (vio_may(io, moves ? io->op.len_bytes : 0, vio_go))
		vio_begin(io);
}

/** The status is the answer. */
static void
vio_done(struct weft_vol_op *op)
{
	struct target_vio *io = op->owner;
	struct target_export *ex = io->g->ex;
	bool ok = true;

	*io->status = WEFT_VOLRPC_OK;
	if (op->status != 0)
		ok = vio_fail(io, op->status);
	else if (op->kind == WEFT_VOL_WRITE || op->kind == WEFT_VOL_COMPARE_WRITE) {
		atomic_fetch_add_explicit(&ex->io_writes, 1, memory_order_relaxed);
		atomic_fetch_add_explicit(&ex->io_write_bytes, op->len_bytes, memory_order_relaxed);
		if (op->flags & WEFT_VOL_DURABLE)
			atomic_fetch_add_explicit(&ex->io_durable, 1, memory_order_relaxed);
	}
	target_vio_answer(io, ok, false);
}

/** Rights of a change with these flags of the protocol; *flags: those of the volume. */
static bool
vio_flags(uint32_t flags, uint32_t allowed, uint32_t *rights, uint32_t *to)
{
	*rights = WEFT_EXPORT_WRITE | (flags & WEFT_VOLRPC_DURABLE ? WEFT_EXPORT_FLUSH : 0);
	*to = (flags & WEFT_VOLRPC_DURABLE ? WEFT_VOL_DURABLE : 0) |
	      (flags & WEFT_VOLRPC_WHOLE ? WEFT_VOL_WHOLE : 0) |
	      (flags & WEFT_VOLRPC_KEEP ? WEFT_VOL_KEEP : 0);
	return (flags & ~allowed) == 0;
}

/** Whether a VERIFY, DISCARD or ZEROES is so short that others may wait for its end; else it is
 * refused. */
static bool
vio_is_short(struct target_vio *io, uint64_t len_bytes)
{
	if (len_bytes <= WEFT_VOLRPC_RANGE_MAX)
		return true;
	target_vio_refuse(io, WEFT_VOLRPC_TOO_LONG,
	                  "a VERIFY, DISCARD or ZEROES is of up to 64 MiB");
	return false;
}

/* ---- READ ---- */

bool_t
target_xdr_vread(XDR *xdr, struct target_vread *r)
{
	struct target_vio *io = r->io;
	bool_t ok = weft_volrpc_xdr_read_res(xdr, &r->res);

	if (xdr->x_op == XDR_FREE && io != NULL) {
		r->io = NULL;
		target_slow_vio_taken(io);
		target_metrics_vio_taken(io);
		target_vuntaken_remove(io);
		vio_free(io);
	}
	return ok;
}

static void
read_done(struct weft_vol_op *op)
{
	struct target_vio *io = op->owner;
	struct target_vread *r = io->res;
	struct target_export *ex = io->g->ex;

	if (op->status != 0) {
		target_vio_answer(io, vio_fail(io, op->status), false);
		return;
	}
	/* The memory is free again when the peer has taken the answer. */
	r->io = io;
	target_vuntaken_add(io);
	r->res.status = WEFT_VOLRPC_OK;
	r->res.weft_volrpc_read_res_u.data.data_val = io->iov.iov_base;
	r->res.weft_volrpc_read_res_u.data.data_len = (u_int)op->len_bytes;
	atomic_fetch_add_explicit(&ex->io_reads, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&ex->io_read_bytes, op->len_bytes, memory_order_relaxed);
	target_vio_answer(io, true, true);
}

bool
target_vread_is_under_way(const struct target_vio *io)
{
	return ((const struct target_vread *)io->res)->io == NULL;
}

static void
read_go(struct target_vio *io)
{
	io->iov = (struct iovec){io->staging.iov[0].iov_base, io->op.len_bytes};
	/* Aligned in memory as in the volume, so that the device can have it directly. */
	io->op.iov = &io->iov;
	io->op.iovs = 1;
	vio_begin(io);
}

static void
read_wait(struct target_vio *io)
{
	LIST_INSERT_HEAD(&io->g->waiting, io, link);
	io->g->vc->vw->named_waiting += target_vclient_is_named(io->g->share);
}

static void
read_unwait(struct target_vio *io)
{
	LIST_REMOVE(io, link);
	io->g->vc->vw->named_waiting -= target_vclient_is_named(io->g->share);
}

static void
read_granted(struct weft_staging_req *req)
{
	struct target_vio *io = req->owner;

	read_unwait(io);
	read_go(io);
}

void
target_vio_end_waiting(struct target_vgrant *g)
{
	struct target_vio *io;

	while ((io = LIST_FIRST(&g->waiting)) != NULL) {
		read_unwait(io);
		target_vio_refuse(io, WEFT_VOLRPC_CANCELED, "it was given up");
	}
}

/** The rates let it go on: it takes memory. */
static void
read_memory(struct target_vio *io)
{
	const int rc = weft_staging_get(io->g->vc->vw->staging, &io->staging);

	if (rc == 0)
		read_go(io);
	else if (rc == -EINPROGRESS)
		read_wait(io);
	else
		target_vio_refuse(io, WEFT_VOLRPC_NORES, "no memory for the data");
}

static void
read_may(struct weft_gate_wait *w)
{
	struct target_vio *io = w->owner;

	target_metrics_stage(&io->timing, METRICS_RATE);
	if (io->g->ended)
		target_vio_refuse(io, WEFT_VOLRPC_CANCELED, "it was given up");
	else
		read_memory(io);
}

void
target_vserve_read(void *user, struct weft_rpc_req *req, void *vargs, void *vres)
{
	const weft_volrpc_read_args *args = vargs;
	struct target_vread *r = vres;
	struct target_vio *io =
	        target_vio_begin(user, req, args->handle, WEFT_EXPORT_READ, &r->res.status,
	                         &r->res.weft_volrpc_read_res_u.fault);

	if (io == NULL)
		return;
	if (args->count == 0 || args->count > weft_staging_max_req(io->g->vc->vw->staging)) {
		target_vio_refuse(io, WEFT_VOLRPC_TOO_LONG, "a READ is of 1 octet to 1 MiB");
		return;
	}
	io->res = r;
	io->op.kind = WEFT_VOL_READ;
	io->op.off_bytes = args->off;
	io->op.len_bytes = args->count;
	io->op.done = read_done;
	io->staging.client = &io->g->share->top->staging;
	io->staging.lane = &io->g->lane;
	io->staging.bytes = args->count;
	io->staging.contiguous = true;
	io->staging.granted = read_granted;
	io->staging.owner = io;
	if (vio_may(io, args->count, read_may))
		read_memory(io);
}

/* ---- Changes ---- */

void
target_vserve_write(void *user, struct weft_rpc_req *req, void *vargs, void *vres)
{
	const weft_volrpc_write_args *args = vargs;
	weft_volrpc_res *res = vres;
	uint32_t rights, flags;
	const bool known =
	        vio_flags(args->flags, WEFT_VOLRPC_DURABLE | WEFT_VOLRPC_WHOLE, &rights, &flags);
	struct target_vio *io = target_vio_begin(user, req, args->handle, rights, &res->status,
	                                         &res->weft_volrpc_res_u.fault);

	if (io == NULL)
		return;
	if (!known) {
		target_vio_refuse(io, WEFT_VOLRPC_INVAL, "unknown flags");
		return;
	}
	io->iov = (struct iovec){args->data.data_val, args->data.data_len};
	io->op.kind = WEFT_VOL_WRITE;
	io->op.flags = flags;
	io->op.off_bytes = args->off;
	io->op.len_bytes = args->data.data_len;
	io->op.iov = &io->iov;
	io->op.iovs = 1;
	io->op.done = vio_done;
	vio_submit(io);
}

void
target_vserve_compare(void *user, struct weft_rpc_req *req, void *vargs, void *vres)
{
	const weft_volrpc_compare_args *args = vargs;
	weft_volrpc_res *res = vres;
	uint32_t rights, flags;
	const bool known =
	        vio_flags(args->flags, WEFT_VOLRPC_DURABLE | WEFT_VOLRPC_WHOLE, &rights, &flags);
	struct target_vio *io = target_vio_begin(user, req, args->handle, rights | WEFT_EXPORT_READ,
	                                         &res->status, &res->weft_volrpc_res_u.fault);

	if (io == NULL)
		return;
	if (!known || args->expect.expect_len != args->data.data_len) {
		target_vio_refuse(io, WEFT_VOLRPC_INVAL,
		                  known ? "as many octets are expected as written"
		                        : "unknown flags");
		return;
	}
	io->iov = (struct iovec){args->data.data_val, args->data.data_len};
	io->op.kind = WEFT_VOL_COMPARE_WRITE;
	io->op.flags = flags;
	io->op.off_bytes = args->off;
	io->op.len_bytes = args->data.data_len;
	io->op.iov = &io->iov;
	io->op.iovs = 1;
	io->op.expect = args->expect.expect_val;
	io->op.done = vio_done;
	vio_submit(io);
}

/** DISCARD, ZEROES and FLUSH. */
static void
serve_range(void *user, struct weft_rpc_req *req, const weft_volrpc_range_args *args,
            weft_volrpc_res *res, enum weft_vol_kind kind, uint32_t allowed)
{
	uint32_t rights, flags;
	const bool known = vio_flags(args->flags, allowed, &rights, &flags);
	struct target_vio *io;

	if (kind == WEFT_VOL_FLUSH)
		rights = WEFT_EXPORT_FLUSH;
	io = target_vio_begin(user, req, args->handle, rights, &res->status,
	                      &res->weft_volrpc_res_u.fault);
	if (io == NULL)
		return;
	if (!known) {
		target_vio_refuse(io, WEFT_VOLRPC_INVAL, "unknown flags");
		return;
	}
	if (kind != WEFT_VOL_FLUSH && !vio_is_short(io, args->len))
		return;
	io->op.kind = kind;
	io->op.flags = flags;
	io->op.off_bytes = args->off;
	io->op.len_bytes = args->len;
	io->op.done = vio_done;
	vio_submit(io);
}

void
target_vserve_flush(void *user, struct weft_rpc_req *req, void *args, void *res)
{
	serve_range(user, req, args, res, WEFT_VOL_FLUSH, 0);
}

void
target_vserve_discard(void *user, struct weft_rpc_req *req, void *args, void *res)
{
	serve_range(user, req, args, res, WEFT_VOL_DISCARD, WEFT_VOLRPC_DURABLE);
}

void
target_vserve_zeroes(void *user, struct weft_rpc_req *req, void *args, void *res)
{
	serve_range(user, req, args, res, WEFT_VOL_ZEROES, WEFT_VOLRPC_DURABLE | WEFT_VOLRPC_KEEP);
}

/* ---- VERIFY, EXTENTS ---- */

static void
verify_done(struct weft_vol_op *op)
{
	struct target_vio *io = op->owner;
	weft_volrpc_verify_res *res = io->res;
	bool ok = true;
	char *copy;

	if (op->status != 0) {
		ok = vio_fail(io, op->status);
	} else {
		copy = malloc(op->hash->result_bytes);
		ok = copy != NULL;
		if (ok)
			memcpy(copy, op->hash_result, op->hash->result_bytes);
		res->status = WEFT_VOLRPC_OK;
		res->weft_volrpc_verify_res_u.found.hash.hash_val = copy;
		res->weft_volrpc_verify_res_u.found.hash.hash_len =
		        ok ? (u_int)op->hash->result_bytes : 0;
	}
	target_vio_answer(io, ok, false);
}

void
target_vserve_verify(void *user, struct weft_rpc_req *req, void *vargs, void *vres)
{
	const weft_volrpc_range_args *args = vargs;
	weft_volrpc_verify_res *res = vres;
	struct target_vio *io =
	        target_vio_begin(user, req, args->handle, WEFT_EXPORT_VERIFY, &res->status,
	                         &res->weft_volrpc_verify_res_u.fault);

	if (io == NULL)
		return;
	if (args->flags != 0) {
		target_vio_refuse(io, WEFT_VOLRPC_INVAL, "unknown flags");
		return;
	}
	if (!vio_is_short(io, args->len))
		return;
	io->res = res;
	io->op.kind = WEFT_VOL_VERIFY;
	io->op.off_bytes = args->off;
	io->op.len_bytes = args->len;
	io->op.hash = weft_hash_find(io->g->ex->conf->hash);
	if (io->g->ex->hash_key.bytes > 0) {
		io->op.key = io->g->ex->hash_key.key;
		io->op.key_bytes = io->g->ex->hash_key.bytes;
	}
	io->op.done = verify_done;
	vio_submit(io);
}

static void
extents_done(struct weft_vol_op *op)
{
	struct target_vio *io = op->owner;
	weft_volrpc_extents_res *res = io->res;
	weft_volrpc_extent *list;
	bool ok = true;

	if (op->status != 0) {
		ok = vio_fail(io, op->status);
	} else {
		list = calloc(op->extents_found > 0 ? op->extents_found : 1, sizeof(*list));
		ok = list != NULL;
		for (uint32_t i = 0; ok && i < op->extents_found; i++)
			list[i] = (weft_volrpc_extent){.off = op->extents[i].off_bytes,
			                               .len = op->extents[i].len_bytes,
			                               .hole = op->extents[i].hole};
		res->status = WEFT_VOLRPC_OK;
		res->weft_volrpc_extents_res_u.extents.list.list_val = list;
		res->weft_volrpc_extents_res_u.extents.list.list_len = ok ? op->extents_found : 0;
	}
	target_vio_answer(io, ok, false);
}

#define EXTENTS_AT_ONCE 128U /* what an answer of one message holds */

void
target_vserve_extents(void *user, struct weft_rpc_req *req, void *vargs, void *vres)
{
	const weft_volrpc_range_args *args = vargs;
	weft_volrpc_extents_res *res = vres;
	struct target_vio *io =
	        target_vio_begin(user, req, args->handle, WEFT_EXPORT_READ, &res->status,
	                         &res->weft_volrpc_extents_res_u.fault);

	if (io == NULL)
		return;
	if (args->flags != 0) {
		target_vio_refuse(io, WEFT_VOLRPC_INVAL, "unknown flags");
		return;
	}
	io->extents = calloc(EXTENTS_AT_ONCE, sizeof(*io->extents));
	if (io->extents == NULL) {
		target_vio_refuse(io, WEFT_VOLRPC_NORES, "out of memory");
		return;
	}
	io->res = res;
	io->op.kind = WEFT_VOL_EXTENTS;
	io->op.off_bytes = args->off;
	io->op.len_bytes = args->len;
	io->op.extents = io->extents;
	io->op.max_extents = EXTENTS_AT_ONCE;
	io->op.done = extents_done;
	vio_submit(io);
}
