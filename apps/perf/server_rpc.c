/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The RPC server of the tests: READ and WRITE of the export program, on the memory of the
 * test. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"

static bool
rpc_bounds(const struct session *s, uint64_t to, uint64_t len)
{
	return to <= s->mem_bytes && len <= s->mem_bytes - to;
}

static enum weft_rpc_status
rpc_read(void *user, void *vargs, void *vres)
{
	const weft_export_read_args *a = vargs;
	weft_export_read_res *res = vres;
	struct session *s = user;

	if (!rpc_bounds(s, a->to, a->count) || a->count > WEFT_EXPORT_IO_MAX)
		return WEFT_RPC_GARBAGE_ARGS;
	res->weft_export_read_res_u.data.data_val = (char *)s->mem + a->to;
	res->weft_export_read_res_u.data.data_len = a->count;
	return WEFT_RPC_OK;
}

/** Place the data of a WRITE directly, without a copy, as the peer's Writes are. */
static bool
rpc_place(void *user, XDR *xdr, uint32_t len_bytes, struct weft_rpc_place *out)
{
	weft_export_write_args a;
	struct session *s = user;

	if (!weft_export_write_ahead(xdr, &a) || a.data.data_len != len_bytes ||
	    !rpc_bounds(s, a.to, len_bytes))
		return false;
	*out = (struct weft_rpc_place){s->mem + a.to, weft_mr_stag(s->mr)};
	return true;
}

/** A durable WRITE whose flush is under way. */
struct rpc_flush {
	struct session *s;
	struct weft_rpc_req *req;
	struct weft_persist_req preq;
};

static void
rpc_flushed(struct weft_persist_req *preq)
{
	struct rpc_flush *f = preq->owner;
	struct weft_rpc_req *req = f->req;
	int status = preq->status;

	f->s->flushing--;
	free(f);
	weft_rpc_done(req, status == 0 ? WEFT_RPC_OK : WEFT_RPC_SYSTEM_ERR);
}

static void
rpc_write(void *user, struct weft_rpc_req *req, void *vargs, void *vres)
{
	const weft_export_write_args *a = vargs;
	weft_export_write_res *res = vres;
	struct session *s = user;
	struct rpc_flush *f;

	if (!rpc_bounds(s, a->to, a->data.data_len)) {
		weft_rpc_done(req, WEFT_RPC_GARBAGE_ARGS);
		return;
	}
	if (a->data.data_len > 0 && a->data.data_val != (char *)s->mem + a->to)
		memcpy(s->mem + a->to, a->data.data_val, a->data.data_len);
	if (s->persist != NULL)
		weft_persist_mark(s->persist, a->to, a->data.data_len);
	res->weft_export_write_res_u.written = (weft_export_written){a->data.data_len, a->stable};
	if (a->stable == WEFT_EXPORT_UNSTABLE || s->persist == NULL) {
		weft_rpc_done(req, WEFT_RPC_OK);
		return;
	}
	f = calloc(1, sizeof(*f));
	if (f == NULL) {
		weft_rpc_done(req, WEFT_RPC_SYSTEM_ERR);
		return;
	}
	*f = (struct rpc_flush){.s = s,
	                        .req = req,
	                        .preq = {.off_bytes = a->to,
	                                 .len_bytes = a->data.data_len,
	                                 .flags = s->persist->ops->persistent
	                                                  ? WEFT_FLUSH_PERSISTENT
	                                                  : WEFT_FLUSH_VISIBLE,
	                                 .done = rpc_flushed,
	                                 .owner = f}};
	s->flushing++;
	/* A client has fewer calls than the executor accepts. */
	if (s->persist->ops->flush(s->persist, weft_worker_exec(s->w), &f->preq) < 0) {
		f->preq.status = -EIO;
		rpc_flushed(&f->preq);
	}
}

static const struct weft_rpc_proc rpc_procs[] = {
        [WEFT_EXPORT_READ_DATA] = {.xdr_args = (xdrproc_t)xdr_weft_export_read_args,
                                   .xdr_res = (xdrproc_t)weft_export_xdr_read_res,
                                   .args_bytes = sizeof(weft_export_read_args),
                                   .res_bytes = sizeof(weft_export_read_res),
                                   .serve = rpc_read,
                                   .binding = &weft_export_read_binding},
        [WEFT_EXPORT_WRITE_DATA] = {.xdr_args = (xdrproc_t)weft_export_xdr_write_args,
                                    .xdr_res = (xdrproc_t)xdr_weft_export_write_res,
                                    .args_bytes = sizeof(weft_export_write_args),
                                    .res_bytes = sizeof(weft_export_write_res),
                                    .serve_later = rpc_write,
                                    .binding = &weft_export_write_binding,
                                    .place = rpc_place},
};

static const struct weft_rpc_program rpc_program = {
        .prog = WEFT_EXPORT_PROG,
        .vers = WEFT_EXPORT_V1,
        .procs = rpc_procs,
        .nprocs = sizeof(rpc_procs) / sizeof(rpc_procs[0]),
};

int
server_rpc_begin(struct session *s)
{
	static const struct weft_rpc_program *const programs[] = {&rpc_program, NULL};
	struct weft_rpc_attr ra = {
	        .size = sizeof(ra),
	        .qp = s->qp,
	        .credits = perf_rpc_credits(s->hello.depth),
	        .programs = programs,
	        .server = true,
	        .user = s,
	};

	return weft_rpc_create(&ra, &s->rpc);
}

void
server_rpc_end(struct session *s)
{
	if (s->rpc != NULL)
		weft_rpc_destroy(s->rpc);
	s->rpc = NULL;
	/* The medium is closed next, so its flushes must be over. */
	while (s->flushing > 0)
		if (weft_worker_poll(s->w) == 0)
			weft_worker_idle(s->w, 1000);
}
