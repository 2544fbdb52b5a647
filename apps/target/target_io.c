/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file STAT, READ and WRITE of the export program, under a grant. They run on workers. A durable
 * WRITE is answered when the driver's flush is done.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target.h"
#include "target_metrics.h"
#include "target_rpc.h"
#include "target_say.h"
#include "target_slow.h"
#include "ui.h"
#include <weft/atomic_ref.h>

#define IO_AGAIN_US 100 /* delay of the next try after a full executor */

/** A durable WRITE whose flush is under way. It can outlive its connection and its grant. */
struct target_io {
	LIST_ENTRY(target_io) link; /**< in the ios of its worker */
	struct target_worker *w;
	struct target_export *ex;
	struct weft_rpc_req *req;
	weft_export_write_res *res;
	struct weft_persist_req preq;
	struct weft_alarm *again;
	struct metrics_timing timing;
	struct target_conn *conn; /**< may have ended; it is not freed meanwhile */
};

/* ---- Checks of every procedure ---- */

static struct target_grant *
io_grant(const struct target_conn *c, uint32_t handle)
{
	struct target_grant *g;

	LIST_FOREACH (g, &c->grants, link)
		if (g->handle == handle)
			return g;
	return NULL;
}

/* Check what RDMA would check: the grant, its rights, its bounds. OK, or the refusal with its
 * reason. */
static weft_export_status
io_check(const struct target_grant *g, uint32_t right, uint64_t to, uint64_t len, char **why)
{
	char rights[64];

	if (g == NULL) {
		*why = target_why("no such grant on this connection");
		return WEFT_EXPORT_STALE;
	}
	if ((g->rights & right) != right) {
		atomic_fetch_add_explicit(&g->ex->io_refused, 1, memory_order_relaxed);
		*why = target_why("only %s is granted",
		                  target_rights_str(g->rights, rights, sizeof(rights)));
		return WEFT_EXPORT_PERM;
	}
	if (len > WEFT_EXPORT_IO_MAX || to > target_region_bytes(g->ex) ||
	    len > target_region_bytes(g->ex) - to) {
		atomic_fetch_add_explicit(&g->ex->io_refused, 1, memory_order_relaxed);
		*why = target_why(
		        "%llu octets at %llu: beyond the grant, or more than a call takes",
		        (unsigned long long)len, (unsigned long long)to);
		return WEFT_EXPORT_INVAL;
	}
	return WEFT_EXPORT_OK;
}

/* Whether the medium has lost the range that a procedure is about to use. A loss may show only
 * now. */
static bool
io_lost(const struct target_export *ex, uint64_t off, uint64_t len)
{
	return ex->persist->ops->mapped && weft_guard_probe(ex->persist->base + off, len);
}

/* ---- Calls that wait for the rates of their client ---- */

struct held_call {
	struct weft_gate_wait wait;
	struct target_conn *conn;
	struct weft_rpc_req *req;
	void *args, *res;
	void (*serve)(const struct held_call *h);
	struct metrics_timing timing;
};

/** weft_gate_wait.go. The grant may have ended meanwhile; serve() finds that. */
static void
io_held_go(struct weft_gate_wait *w)
{
	struct held_call h = *(struct held_call *)w->owner;

	free(w->owner);
	target_metrics_stage(&h.timing, METRICS_RATE);
	h.serve(&h);
}

/** Serve the call, when the rates of its client let it. The end of the grant does, too. */
static void
io_serve(struct target_grant *g, uint64_t bytes, struct held_call *call)
{
	struct held_call *h = g != NULL && g->pass.gate.on ? malloc(sizeof(*h)) : NULL;

	target_metrics_op(&call->timing, call->req);
	if (h != NULL) {
		*h = *call;
		h->wait = (struct weft_gate_wait){.bytes = bytes, .go = io_held_go, .owner = h};
		if (!rate_enter(&g->pass, &h->wait))
			return;
		free(h);
	}
	call->serve(call);
}

/* ---- STAT ---- */

/* Fill in the object's state, which only a client with the right to read may learn. */
static enum weft_rpc_status
stat_content(const struct target_export *ex, const struct expfmt_commit *word,
             weft_export_state *st)
{
	uint8_t head[EXPFMT_HEADER_BYTES];
	struct expfmt_slot slot;

	/* Decode a copy, because a writer may change the header meanwhile; its checksum detects
	 * that. */
	memcpy(head, ex->persist->base + ex->super.slot_off[word->slot], sizeof(head));
	if (word->generation > 0 &&
	    expfmt_slot_decode(head, ex->super.capacity_bytes, &slot) == EXPFMT_OK &&
	    slot.generation == word->generation) {
		st->whole = TRUE;
		st->length = slot.length_bytes;
		st->mtime_ns = slot.mtime_ns;
		memcpy(st->crc, slot.data_crc, sizeof(st->crc));
		st->name = strdup(slot.name);
	} else {
		st->name = strdup("");
	}
	return st->name != NULL ? WEFT_RPC_OK : WEFT_RPC_SYSTEM_ERR;
}

static enum weft_rpc_status
stat_fill(struct target_export *ex, weft_export_state *st)
{
	const uint8_t *base = ex->persist->base;
	uint8_t octets[EXPFMT_COMMIT_BYTES];
	struct expfmt_commit word;
	uint64_t raw;

	st->capacity = ex->super.capacity_bytes;
	st->rights = target_may(ex);
	st->persistent = ex->persist->ops->persistent;
	pthread_mutex_lock(&ex->lock);
	st->busy = ex->writer != NULL;
	pthread_mutex_unlock(&ex->lock);
	if (!(st->rights & WEFT_EXPORT_READ)) {
		st->name = strdup("");
		return st->name != NULL ? WEFT_RPC_OK : WEFT_RPC_SYSTEM_ERR;
	}
	raw = atomic_load_explicit(weft_atomic_const_u64(base + EXPFMT_COMMIT_OFF),
	                           memory_order_acquire);
	memcpy(octets, &raw, sizeof(octets));
	expfmt_commit_decode(octets, &word);
	st->generation = word.generation;
	st->slot = word.slot;
	return stat_content(ex, &word, st);
}

static bool
stat_lost(const struct target_export *ex)
{
	return io_lost(ex, EXPFMT_COMMIT_OFF, EXPFMT_COMMIT_BYTES) ||
	       io_lost(ex, ex->super.slot_off[0], EXPFMT_HEADER_BYTES) ||
	       io_lost(ex, ex->super.slot_off[1], EXPFMT_HEADER_BYTES);
}

enum weft_rpc_status
target_serve_stat(void *conn_user, void *vargs, void *vres)
{
	struct target_conn *c = conn_user;
	const weft_export_stat_args *args = vargs;
	weft_export_stat_res *res = vres;
	struct target_export *ex = target_export_find(c->w->t, args->name);
	char off[WEFT_TEXT_MAX + 1];

	if (ex != NULL && !target_allows(ex, c)) {
		target_access_refuse(ex, c, off, sizeof(off));
		res->status = WEFT_EXPORT_PERM;
		res->weft_export_stat_res_u.why = target_why("%s", off);
	} else if (ex != NULL && target_export_why(ex, off, sizeof(off))) {
		res->status = WEFT_EXPORT_OFFLINE;
		res->weft_export_stat_res_u.why = target_why("%s", off);
	} else if (ex != NULL && target_may(ex) != 0) {
		if (target_is_log(ex) || target_is_volume(ex)) {
			res->status = WEFT_EXPORT_INVAL;
			res->weft_export_stat_res_u.why =
			        target_why("it holds a %s (format = %s), not an object",
			                   target_is_log(ex) ? "log" : "volume",
			                   target_is_log(ex) ? "log" : "volume");
			return res->weft_export_stat_res_u.why != NULL ? WEFT_RPC_OK
			                                               : WEFT_RPC_SYSTEM_ERR;
		}
		if (!stat_lost(ex)) {
			res->status = WEFT_EXPORT_OK;
			return stat_fill(ex, &res->weft_export_stat_res_u.state);
		}
		res->status = WEFT_EXPORT_IO;
		res->weft_export_stat_res_u.why = target_why("the medium has lost it");
	} else {
		res->status = WEFT_EXPORT_NOENT;
		res->weft_export_stat_res_u.why = target_why("no such export");
	}
	return res->weft_export_stat_res_u.why != NULL ? WEFT_RPC_OK : WEFT_RPC_SYSTEM_ERR;
}

/* ---- READ ---- */

static enum weft_rpc_status
read_fill(const struct held_call *h)
{
	const weft_export_read_args *args = h->args;
	struct target_conn *c = h->conn;
	struct target_read *r = h->res;
	weft_export_read_res *res = &r->res;
	struct target_grant *g = io_grant(c, args->handle);
	char *why = NULL;

	res->status = io_check(g, WEFT_EXPORT_READ, args->to, args->count, &why);
	if (res->status == WEFT_EXPORT_OK &&
	    io_lost(g->ex, EXPFMT_COMMIT_OFF + args->to, args->count)) {
		res->status = WEFT_EXPORT_IO;
		why = target_why("the medium has lost it");
	}
	if (res->status != WEFT_EXPORT_OK) {
		res->weft_export_read_res_u.why = why;
		return why != NULL ? WEFT_RPC_OK : WEFT_RPC_SYSTEM_ERR;
	}
	/* The data is sent from the medium. The medium stays open while the read is counted; the
	 * grant may end. */
	r->g = g;
	r->ex = g->ex;
	r->timing = h->timing;
	r->conn = c;
	r->off_bytes = EXPFMT_COMMIT_OFF + args->to;
	atomic_fetch_add_explicit(&g->ex->reads, 1, memory_order_relaxed);
	LIST_INSERT_HEAD(&c->reads, r, link);
	res->weft_export_read_res_u.data.data_val =
	        (char *)g->ex->persist->base + EXPFMT_COMMIT_OFF + args->to;
	res->weft_export_read_res_u.data.data_len = args->count;
	atomic_fetch_add_explicit(&g->ex->io_reads, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&g->ex->io_read_bytes, args->count, memory_order_relaxed);
	return WEFT_RPC_OK;
}

static void
read_serve(const struct held_call *h)
{
	weft_rpc_done(h->req, read_fill(h));
}

void
target_serve_read(void *conn_user, struct weft_rpc_req *req, void *vargs, void *vres)
{
	struct target_conn *c = conn_user;
	const weft_export_read_args *args = vargs;

	io_serve(io_grant(c, args->handle), args->count,
	         &(struct held_call){
	                 .conn = c, .req = req, .args = vargs, .res = vres, .serve = read_serve});
}

/* ---- WRITE ---- */

/* Record the range like that of a peer's Flush that failed. */
static void
io_bad_range(struct target_export *ex, uint64_t off, uint64_t len, const char *what, int status)
{
	target_bad_range_keep(ex, (struct target_bad_range){
	                                  .off_bytes = off, .len_bytes = len, .status = status});
	target_log_export(UI_ERR "export %s: BAD RANGE: %llu octets at offset %llu: %s failed: %s",
	                  ex->conf->name, (unsigned long long)len, (unsigned long long)off, what,
	                  strerror(-status));
}

static void
io_end(struct target_io *io, int status)
{
	struct weft_rpc_req *req = io->req;
	weft_export_write_res *res = io->res;
	bool ok = true;

	target_slow(io->w, &io->timing, METRICS_MEDIUM,
	            &(struct slow_what){.op = "write",
	                                .ex = io->ex,
	                                .peer = io->conn->peer,
	                                .client = target_slow_client(io->conn),
	                                .off_bytes = io->preq.off_bytes,
	                                .len_bytes = io->preq.len_bytes,
	                                .why = status != 0 ? strerror(-status) : NULL});
	if (status != 0) {
		res->status = WEFT_EXPORT_IO;
		res->weft_export_write_res_u.why =
		        target_why("flush failed: %s", strerror(-status));
		ok = res->weft_export_write_res_u.why != NULL;
		io_bad_range(io->ex, io->preq.off_bytes, io->preq.len_bytes, "the flush of a WRITE",
		             status);
		target_metrics_failed(io->ex);
	} else {
		target_metrics_stage(&io->timing, METRICS_MEDIUM);
		target_metrics_durable(io->ex, io->preq.len_bytes);
		target_metrics_done(&io->timing, METRICS_WRITE, io->ex, NULL);
	}
	LIST_REMOVE(io, link);
	atomic_fetch_sub_explicit(&io->ex->ios, 1, memory_order_release);
	atomic_fetch_sub_explicit(&io->conn->pending, 1, memory_order_release);
	free(io);
	weft_rpc_done(req, ok ? WEFT_RPC_OK : WEFT_RPC_SYSTEM_ERR);
}

static void
io_flushed(struct weft_persist_req *preq)
{
	struct target_io *io = preq->owner;

	io_end(io, preq->status);
}

static void io_flush(struct target_io *io);

static void
io_again(void *arg)
{
	struct target_io *io = arg;

	io->again = NULL;
	io_flush(io);
}

static void
io_flush(struct target_io *io)
{
	struct weft_persist *p = io->ex->persist;
	int rc = target_metrics_flush(p, weft_worker_exec(io->w->w), &io->preq);

	if (rc == -EAGAIN)
		rc = weft_alarm_set(io->w->w, IO_AGAIN_US, io_again, io, &io->again);
	if (rc < 0)
		io_end(io, rc);
}

/* Place the data as a peer's Write is placed; eight aligned octets in one piece, as by an Atomic
 * Write. */
static bool
io_place(struct target_export *ex, uint64_t off, const char *data, uint32_t len)
{
	uint8_t *at = ex->persist->base + off;
	uint64_t word;

	if (len == sizeof(word) && off % sizeof(word) == 0) {
		memcpy(&word, data, sizeof(word));
		atomic_store_explicit(weft_atomic_u64(at), word, memory_order_release);
	} else {
		memcpy(at, data, len);
	}
	weft_persist_mark(ex->persist, off, len);
	atomic_fetch_add_explicit(&ex->io_writes, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&ex->io_write_bytes, len, memory_order_relaxed);
	return !weft_guard_lost(at, len);
}

static void
write_serve(const struct held_call *h)
{
	const weft_export_write_args *args = h->args;
	weft_export_write_res *res = h->res;
	struct weft_rpc_req *req = h->req;
	struct target_conn *c = h->conn;
	struct target_grant *g = io_grant(c, args->handle);
	bool durable = args->stable != WEFT_EXPORT_UNSTABLE;
	uint32_t len = args->data.data_len;
	uint64_t off = EXPFMT_COMMIT_OFF + args->to;
	struct metrics_timing timing = h->timing;
	struct target_io *io = NULL;
	char *why = NULL;

	if (durable && args->stable != WEFT_EXPORT_DURABLE) {
		res->status = WEFT_EXPORT_INVAL;
		why = target_why("unknown stability %u", (unsigned int)args->stable);
	} else {
		res->status = io_check(g, WEFT_EXPORT_WRITE | (durable ? WEFT_EXPORT_FLUSH : 0),
		                       args->to, len, &why);
	}
	if (res->status == WEFT_EXPORT_OK && durable && len > 0) {
		io = calloc(1, sizeof(*io));
		if (io == NULL) {
			res->status = WEFT_EXPORT_NORES;
			why = target_why("out of memory");
		}
	}
	if (res->status != WEFT_EXPORT_OK) {
		res->weft_export_write_res_u.why = why;
		weft_rpc_done(req, why != NULL ? WEFT_RPC_OK : WEFT_RPC_SYSTEM_ERR);
		return;
	}
	if (len > 0 &&
	    (io_lost(g->ex, off, len) || !io_place(g->ex, off, args->data.data_val, len))) {
		io_bad_range(g->ex, off, len, "a WRITE", -EIO);
		free(io);
		res->status = WEFT_EXPORT_IO;
		res->weft_export_write_res_u.why = target_why("the medium has lost it");
		weft_rpc_done(req, res->weft_export_write_res_u.why != NULL ? WEFT_RPC_OK
		                                                            : WEFT_RPC_SYSTEM_ERR);
		return;
	}
	res->weft_export_write_res_u.written =
	        (weft_export_written){.count = len, .stable = args->stable};
	if (io == NULL) {
		target_slow(c->w, &timing, METRICS_STAGES,
		            &(struct slow_what){.op = "write",
		                                .ex = g->ex,
		                                .peer = c->peer,
		                                .client = target_slow_client(c),
		                                .off_bytes = off,
		                                .len_bytes = len});
		target_metrics_done(&timing, METRICS_WRITE, g->ex, c->peer);
		weft_rpc_done(req, WEFT_RPC_OK);
		return;
	}
	*io = (struct target_io){
	        .w = c->w,
	        .ex = g->ex,
	        .req = req,
	        .res = res,
	        .timing = timing,
	        .conn = c,
	        .preq = {.off_bytes = off,
	                 .len_bytes = len,
	                 .flags = WEFT_FLUSH_PERSISTENT,
	                 .done = io_flushed,
	                 .owner = io},
	};
	atomic_fetch_add_explicit(&c->pending, 1, memory_order_relaxed);
	LIST_INSERT_HEAD(&c->w->ios, io, link);
	atomic_fetch_add_explicit(&g->ex->io_durable, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&g->ex->ios, 1, memory_order_relaxed);
	io_flush(io);
}

void
target_serve_write(void *conn_user, struct weft_rpc_req *req, void *vargs, void *vres)
{
	struct target_conn *c = conn_user;
	const weft_export_write_args *args = vargs;

	io_serve(io_grant(c, args->handle), args->data.data_len,
	         &(struct held_call){
	                 .conn = c, .req = req, .args = vargs, .res = vres, .serve = write_serve});
}

void
target_io_fini(struct target_worker *tw)
{
	struct target_io *io;

	/* These jobs never began: the executor and the endpoints are gone. */
	while ((io = LIST_FIRST(&tw->ios)) != NULL)
		io_end(io, -ESHUTDOWN);
}
