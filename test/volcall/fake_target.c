/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A target that serves one volume, a byte array. */

#include <stdlib.h>
#include <string.h>

#include "fake_target.h"
#include "vt.h"
#include "weft_test.h"

static char no_why[] = "";

/* Whether this call is to be refused; the fault goes to *out, with text of its own. */
static bool
refuses(struct fake_target *f, uint32_t proc, weft_volrpc_status *status, weft_volrpc_fault *out)
{
	if (f->bad_proc != proc || f->times == 0 || f->status == WEFT_VOLRPC_OK)
		return false;
	if (f->skip > 0) {
		f->skip--;
		return false;
	}
	f->times--;
	*status = f->status;
	*out = f->fault;
	out->why = strdup(f->fault.why != NULL ? f->fault.why : no_why);
	return true;
}

static bool
outside(const struct fake_target *f, uint32_t handle, uint64_t off, uint64_t len,
        weft_volrpc_status *status, weft_volrpc_fault *out)
{
	if (!f->open || handle != f->grant.handle)
		*status = WEFT_VOLRPC_STALE;
	else if (off > f->grant.bytes || len > f->grant.bytes - off)
		*status = WEFT_VOLRPC_INVAL;
	else
		return false;
	*out = (weft_volrpc_fault){.why = strdup("outside")};
	return true;
}

#define REFUSE(proc, r, u, handle, off, len)                                                       \
	do {                                                                                       \
		if (refuses(f, proc, &(r)->status, &(r)->u.fault) ||                               \
		    outside(f, handle, off, len, &(r)->status, &(r)->u.fault))                     \
			return;                                                                    \
		(r)->status = WEFT_VOLRPC_OK;                                                      \
	} while (0)

static void
serve_open(struct fake_target *f, const weft_volrpc_open_args *a, weft_volrpc_open_res *r)
{
	weft_volrpc_grant *g = &r->weft_volrpc_open_res_u.grant;

	if (refuses(f, WEFT_VOLRPC_OPEN, &r->status, &r->weft_volrpc_open_res_u.fault))
		return;
	r->status = strcmp(a->name, FAKE_NAME) == 0 ? WEFT_VOLRPC_OK : WEFT_VOLRPC_NOENT;
	if (r->status != WEFT_VOLRPC_OK) {
		r->weft_volrpc_open_res_u.fault.why = strdup("no such\nvolume");
		return;
	}
	f->open = true;
	f->grant.handle++;
	*g = f->grant;
	g->rights = a->rights != 0 ? a->rights : f->grant.rights;
	g->hash = strdup(f->grant.hash);
	g->mechanism = strdup(f->grant.mechanism);
}

static void
serve_close(struct fake_target *f, const weft_volrpc_close_args *a, weft_volrpc_res *r)
{
	REFUSE(WEFT_VOLRPC_CLOSE, r, weft_volrpc_res_u, a->handle, 0, 0);
	f->open = false;
	memset(f->window, 0, sizeof(f->window));
}

static void
serve_read(struct fake_target *f, const weft_volrpc_read_args *a, weft_volrpc_read_res *r)
{
	REFUSE(WEFT_VOLRPC_READ, r, weft_volrpc_read_res_u, a->handle, a->off, a->count);
	CHECK(a->count <= f->grant.io_bytes);
	r->weft_volrpc_read_res_u.data.data_val = (char *)f->mem + a->off;
	r->weft_volrpc_read_res_u.data.data_len = a->count;
}

static void
put(struct fake_target *f, uint64_t off, const void *data, uint64_t len, bool hole)
{
	if (data != NULL)
		memcpy(f->mem + off, data, len);
	else
		memset(f->mem + off, 0, len);
	for (uint64_t b = off / FAKE_BLOCK; len > 0 && b <= (off + len - 1) / FAKE_BLOCK; b++) {
		bool whole = off <= b * FAKE_BLOCK &&
		             (off + len >= (b + 1) * FAKE_BLOCK || off + len == FAKE_BYTES);

		f->hole[b] = hole && (whole || f->hole[b]);
	}
}

static void
serve_write(struct fake_target *f, const weft_volrpc_write_args *a, weft_volrpc_res *r)
{
	REFUSE(WEFT_VOLRPC_WRITE, r, weft_volrpc_res_u, a->handle, a->off, a->data.data_len);
	CHECK(a->data.data_len <= f->grant.io_bytes);
	put(f, a->off, a->data.data_val, a->data.data_len, false);
}

static void
serve_flush(struct fake_target *f, const weft_volrpc_range_args *a, weft_volrpc_res *r)
{
	REFUSE(WEFT_VOLRPC_FLUSH, r, weft_volrpc_res_u, a->handle, a->off, a->len);
}

static void
serve_verify(struct fake_target *f, const weft_volrpc_range_args *a, weft_volrpc_verify_res *r)
{
	uint8_t crc[4];

	REFUSE(WEFT_VOLRPC_VERIFY, r, weft_volrpc_verify_res_u, a->handle, a->off, a->len);
	CHECK(a->len <= f->grant.range_bytes);
	vt_crc32c(f->mem + a->off, a->len, crc);
	r->weft_volrpc_verify_res_u.found.hash.hash_val = calloc(1, WEFT_VOLRPC_HASH_MAX);
	memcpy(r->weft_volrpc_verify_res_u.found.hash.hash_val, crc, sizeof(crc));
	r->weft_volrpc_verify_res_u.found.hash.hash_len = sizeof(crc);
}

static void
serve_compare(struct fake_target *f, const weft_volrpc_compare_args *a, weft_volrpc_res *r)
{
	REFUSE(WEFT_VOLRPC_COMPARE_WRITE, r, weft_volrpc_res_u, a->handle, a->off,
	       a->data.data_len);
	for (u_int i = 0; i < a->data.data_len; i++)
		if (f->mem[a->off + i] != (uint8_t)a->expect.expect_val[i]) {
			r->status = WEFT_VOLRPC_MISMATCH;
			r->weft_volrpc_res_u.fault =
			        (weft_volrpc_fault){.at = a->off + i, .why = strdup("differs")};
			return;
		}
	put(f, a->off, a->data.data_val, a->data.data_len, false);
}

static void
serve_discard(struct fake_target *f, const weft_volrpc_range_args *a, weft_volrpc_res *r)
{
	REFUSE(WEFT_VOLRPC_DISCARD, r, weft_volrpc_res_u, a->handle, a->off, a->len);
	CHECK(a->len <= f->grant.range_bytes);
	put(f, a->off, NULL, a->len, true);
}

static void
serve_zeroes(struct fake_target *f, const weft_volrpc_range_args *a, weft_volrpc_res *r)
{
	REFUSE(WEFT_VOLRPC_ZEROES, r, weft_volrpc_res_u, a->handle, a->off, a->len);
	CHECK(a->len <= f->grant.range_bytes);
	put(f, a->off, NULL, a->len, !(a->flags & WEFT_VOLRPC_KEEP));
}

static void
serve_extents(struct fake_target *f, const weft_volrpc_range_args *a, weft_volrpc_extents_res *r)
{
	uint64_t off = a->off, end = a->off + a->len;
	weft_volrpc_extent *x;
	u_int n = 0;

	REFUSE(WEFT_VOLRPC_EXTENTS, r, weft_volrpc_extents_res_u, a->handle, a->off, a->len);
	x = calloc(WEFT_VOLRPC_EXTENTS_MAX, sizeof(*x));
	while (off < end && n < WEFT_VOLRPC_EXTENTS_MAX) {
		bool hole = f->hole[off / FAKE_BLOCK];

		x[n] = (weft_volrpc_extent){.off = off, .hole = hole};
		while (off < end && f->hole[off / FAKE_BLOCK] == hole)
			off = (off / FAKE_BLOCK + 1) * FAKE_BLOCK;
		if (off > end)
			off = end;
		x[n].len = off - x[n].off;
		n++;
	}
	r->weft_volrpc_extents_res_u.extents.list.list_val = x;
	r->weft_volrpc_extents_res_u.extents.list.list_len = n;
}

static char *
snapshot(struct fake_target *f, const char *name)
{
	for (unsigned int i = 0; i < FAKE_SNAPSHOTS; i++)
		if (strcmp(f->snapshot[i], name) == 0)
			return f->snapshot[i];
	return NULL;
}

static void
serve_snapshot(struct fake_target *f, const weft_volrpc_snap_args *a, weft_volrpc_made_res *r)
{
	REFUSE(WEFT_VOLRPC_SNAPSHOT, r, weft_volrpc_made_res_u, a->handle, 0, 0);
	CHECK(a->from[0] == '\0');
	if (snapshot(f, a->name) != NULL || snapshot(f, "") == NULL) {
		r->status = snapshot(f, a->name) != NULL ? WEFT_VOLRPC_EXIST : WEFT_VOLRPC_NOSPC;
		r->weft_volrpc_made_res_u.fault.why = strdup("there is one");
		return;
	}
	snprintf(snapshot(f, ""), WEFT_VOLUME_SNAP_NAME, "%s", a->name);
	r->weft_volrpc_made_res_u.made.place = strdup("disk.snap\n");
}

static int
name_order(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void
serve_snapshots(struct fake_target *f, const weft_volrpc_snap_args *a, weft_volrpc_snapshots_res *r)
{
	weft_volrpc_snapshots *found = &r->weft_volrpc_snapshots_res_u.found;

	REFUSE(WEFT_VOLRPC_SNAPSHOTS, r, weft_volrpc_snapshots_res_u, a->handle, 0, 0);
	qsort(f->snapshot, FAKE_SNAPSHOTS, sizeof(f->snapshot[0]), name_order);
	found->list.list_val = calloc(WEFT_VOLRPC_SNAPSHOTS_MAX, sizeof(weft_volrpc_snapshot));
	for (unsigned int i = 0; i < FAKE_SNAPSHOTS; i++) {
		if (f->snapshot[i][0] == '\0' || strcmp(f->snapshot[i], a->name) <= 0)
			continue;
		found->more = found->list.list_len == WEFT_VOLRPC_SNAPSHOTS_MAX;
		if (found->more)
			break;
		found->list.list_val[found->list.list_len++] = (weft_volrpc_snapshot){
		        .name = strdup(f->snapshot[i]), .bytes = 77, .created_ns = 78};
	}
}

static void
serve_unsnapshot(struct fake_target *f, const weft_volrpc_snap_args *a, weft_volrpc_res *r)
{
	char *s = snapshot(f, a->name);

	REFUSE(WEFT_VOLRPC_SNAPSHOT_REMOVE, r, weft_volrpc_res_u, a->handle, 0, 0);
	if (s == NULL) {
		r->status = WEFT_VOLRPC_NOENT;
		r->weft_volrpc_res_u.fault.why = strdup("there is none");
		return;
	}
	s[0] = '\0';
}

static void
serve_clone(struct fake_target *f, const weft_volrpc_snap_args *a, weft_volrpc_made_res *r)
{
	REFUSE(WEFT_VOLRPC_CLONE, r, weft_volrpc_made_res_u, a->handle, 0, 0);
	if (a->from[0] != '\0' && snapshot(f, a->from) == NULL) {
		r->status = WEFT_VOLRPC_NOENT;
		r->weft_volrpc_made_res_u.fault.why = strdup("there is none");
		return;
	}
	r->weft_volrpc_made_res_u.made.place = strdup(a->name);
}

static void
serve_verifier(struct fake_target *f, const weft_volrpc_verifier_args *a,
               weft_volrpc_verifier_res *r)
{
	REFUSE(WEFT_VOLRPC_VERIFIER, r, weft_volrpc_verifier_res_u, a->handle, 0, 0);
	r->weft_volrpc_verifier_res_u.verifier = f->verifier;
}

static struct fake_window *
window(struct fake_target *f, uint32_t id)
{
	for (unsigned int i = 0; i < FAKE_WINDOWS; i++)
		if (f->window[i].id == id)
			return &f->window[i];
	return NULL;
}

static void
serve_window_open(struct fake_target *f, const weft_volrpc_window_args *a,
                  weft_volrpc_window_res *r)
{
	struct fake_window *w = window(f, 0);

	REFUSE(WEFT_VOLRPC_WINDOW_OPEN, r, weft_volrpc_window_res_u, a->handle, a->off, a->len);
	if (w == NULL) {
		r->status = WEFT_VOLRPC_NORES;
		r->weft_volrpc_window_res_u.fault.why = strdup("all windows are in use");
		return;
	}
	*w = (struct fake_window){++f->last_window, a->off, a->len};
	r->weft_volrpc_window_res_u.window = (weft_volrpc_window){w->id, w->id * 256, a->off};
}

static void
serve_window_move(struct fake_target *f, const weft_volrpc_move_args *a, weft_volrpc_res *r)
{
	struct fake_window *w = window(f, a->window);

	CHECK(a->window != 0 && w != NULL);
	if (refuses(f, WEFT_VOLRPC_WINDOW_MOVE, &r->status, &r->weft_volrpc_res_u.fault)) {
		if (r->status != WEFT_VOLRPC_INVAL && r->status != WEFT_VOLRPC_BUSY &&
		    r->status != WEFT_VOLRPC_NOTSUP && r->status != WEFT_VOLRPC_PERM)
			w->id = 0;
		return;
	}
	REFUSE(WEFT_VOLRPC_WINDOW_MOVE, r, weft_volrpc_res_u, f->grant.handle, a->off, a->len);
	w->off = a->off;
	w->len = a->len;
}

static void
serve_window_close(struct fake_target *f, const weft_volrpc_window_close_args *a,
                   weft_volrpc_res *r)
{
	struct fake_window *w = window(f, a->window);

	REFUSE(WEFT_VOLRPC_WINDOW_CLOSE, r, weft_volrpc_res_u, f->grant.handle, 0, 0);
	CHECK(a->window != 0);
	if (w == NULL) {
		r->status = WEFT_VOLRPC_STALE;
		r->weft_volrpc_res_u.fault.why = strdup("no such window");
		return;
	}
	w->id = 0;
}

/* Answer it at fake_release(). */
static void
keep(struct fake_target *f, struct weft_rpc_req *req)
{
	CHECK(f->nheld < FAKE_HELD);
	f->held[f->nheld] = req;
	f->nheld++;
}

static void
answer(struct fake_target *f, uint32_t proc, struct weft_rpc_req *req, void *res)
{
	bool refuse = f->bad_proc == proc && f->status == WEFT_VOLRPC_OK && f->times > 0;

	f->served[proc]++;
	if (++f->now > f->most)
		f->most = f->now;
	if (f->spoil != NULL)
		f->spoil(proc, res);
	if (f->hold) {
		keep(f, req);
		return;
	}
	f->now--;
	f->times -= refuse;
	weft_rpc_done(req, refuse ? f->refusal : WEFT_RPC_OK);
}

#define SERVE(proc, name)                                                                          \
	static void later_##name(void *user, struct weft_rpc_req *req, void *args, void *res)      \
	{                                                                                          \
		struct fake_target *f = user;                                                      \
                                                                                                   \
		if (f->seen != NULL)                                                               \
			f->seen(proc, args);                                                       \
		if (f->deaf) {                                                                     \
			f->now++;                                                                  \
			keep(f, req);                                                              \
			return;                                                                    \
		}                                                                                  \
		serve_##name(user, args, res);                                                     \
		answer(user, proc, req, res);                                                      \
	}
SERVE(WEFT_VOLRPC_OPEN, open)
SERVE(WEFT_VOLRPC_CLOSE, close)
SERVE(WEFT_VOLRPC_READ, read)
SERVE(WEFT_VOLRPC_WRITE, write)
SERVE(WEFT_VOLRPC_FLUSH, flush)
SERVE(WEFT_VOLRPC_VERIFY, verify)
SERVE(WEFT_VOLRPC_COMPARE_WRITE, compare)
SERVE(WEFT_VOLRPC_DISCARD, discard)
SERVE(WEFT_VOLRPC_ZEROES, zeroes)
SERVE(WEFT_VOLRPC_EXTENTS, extents)
SERVE(WEFT_VOLRPC_WINDOW_OPEN, window_open)
SERVE(WEFT_VOLRPC_WINDOW_MOVE, window_move)
SERVE(WEFT_VOLRPC_WINDOW_CLOSE, window_close)
SERVE(WEFT_VOLRPC_SNAPSHOT, snapshot)
SERVE(WEFT_VOLRPC_SNAPSHOTS, snapshots)
SERVE(WEFT_VOLRPC_SNAPSHOT_REMOVE, unsnapshot)
SERVE(WEFT_VOLRPC_CLONE, clone)
SERVE(WEFT_VOLRPC_VERIFIER, verifier)

#define PROC(args, res, later)                                                                     \
	{                                                                                          \
		.xdr_args = (xdrproc_t)xdr_##args, .xdr_res = (xdrproc_t)xdr_##res,                \
		.args_bytes = sizeof(args), .res_bytes = sizeof(res), .serve_later = later         \
	}
static const struct weft_rpc_proc procs[] = {
        [WEFT_VOLRPC_OPEN] = PROC(weft_volrpc_open_args, weft_volrpc_open_res, later_open),
        [WEFT_VOLRPC_CLOSE] = PROC(weft_volrpc_close_args, weft_volrpc_res, later_close),
        [WEFT_VOLRPC_READ] = {.xdr_args = (xdrproc_t)xdr_weft_volrpc_read_args,
                              .xdr_res = (xdrproc_t)weft_volrpc_xdr_read_res,
                              .args_bytes = sizeof(weft_volrpc_read_args),
                              .res_bytes = sizeof(weft_volrpc_read_res),
                              .serve_later = later_read,
                              .binding = &weft_volrpc_read_binding},
        [WEFT_VOLRPC_WRITE] = {.xdr_args = (xdrproc_t)weft_volrpc_xdr_write_args,
                               .xdr_res = (xdrproc_t)xdr_weft_volrpc_res,
                               .args_bytes = sizeof(weft_volrpc_write_args),
                               .res_bytes = sizeof(weft_volrpc_res),
                               .serve_later = later_write,
                               .binding = &weft_volrpc_write_binding},
        [WEFT_VOLRPC_FLUSH] = PROC(weft_volrpc_range_args, weft_volrpc_res, later_flush),
        [WEFT_VOLRPC_VERIFY] = PROC(weft_volrpc_range_args, weft_volrpc_verify_res, later_verify),
        [WEFT_VOLRPC_COMPARE_WRITE] = {.xdr_args = (xdrproc_t)weft_volrpc_xdr_compare_args,
                                       .xdr_res = (xdrproc_t)xdr_weft_volrpc_res,
                                       .args_bytes = sizeof(weft_volrpc_compare_args),
                                       .res_bytes = sizeof(weft_volrpc_res),
                                       .serve_later = later_compare,
                                       .binding = &weft_volrpc_compare_binding,
                                       .once = true},
        [WEFT_VOLRPC_DISCARD] = PROC(weft_volrpc_range_args, weft_volrpc_res, later_discard),
        [WEFT_VOLRPC_ZEROES] = PROC(weft_volrpc_range_args, weft_volrpc_res, later_zeroes),
        [WEFT_VOLRPC_EXTENTS] =
                PROC(weft_volrpc_range_args, weft_volrpc_extents_res, later_extents),
        [WEFT_VOLRPC_WINDOW_OPEN] =
                PROC(weft_volrpc_window_args, weft_volrpc_window_res, later_window_open),
        [WEFT_VOLRPC_WINDOW_MOVE] = PROC(weft_volrpc_move_args, weft_volrpc_res, later_window_move),
        [WEFT_VOLRPC_WINDOW_CLOSE] =
                PROC(weft_volrpc_window_close_args, weft_volrpc_res, later_window_close),
        [WEFT_VOLRPC_SNAPSHOT] = PROC(weft_volrpc_snap_args, weft_volrpc_made_res, later_snapshot),
        [WEFT_VOLRPC_SNAPSHOTS] =
                PROC(weft_volrpc_snap_args, weft_volrpc_snapshots_res, later_snapshots),
        [WEFT_VOLRPC_SNAPSHOT_REMOVE] =
                PROC(weft_volrpc_snap_args, weft_volrpc_res, later_unsnapshot),
        [WEFT_VOLRPC_CLONE] = PROC(weft_volrpc_snap_args, weft_volrpc_made_res, later_clone),
        [WEFT_VOLRPC_VERIFIER] =
                PROC(weft_volrpc_verifier_args, weft_volrpc_verifier_res, later_verifier),
};

const struct weft_rpc_program fake_program = {
        .prog = WEFT_VOLRPC_PROG,
        .vers = WEFT_VOLRPC_V2,
        .procs = procs,
        .nprocs = sizeof(procs) / sizeof(procs[0]),
};

/* As far as REVOKE: what an older version has. */
const struct weft_rpc_program fake_older = {
        .prog = WEFT_VOLRPC_PROG,
        .vers = WEFT_VOLRPC_V2,
        .procs = procs,
        .nprocs = WEFT_VOLRPC_REVOKE,
};

void
fake_open(struct fake_target *f)
{
	static char hash[] = "crc32c", mechanism[] = "a byte array";

	memset(f, 0, sizeof(*f));
	f->mem = calloc(1, FAKE_BYTES);
	f->hole = malloc(FAKE_BYTES / FAKE_BLOCK + 1);
	memset(f->hole, true, FAKE_BYTES / FAKE_BLOCK + 1);
	f->grant = (weft_volrpc_grant){
	        .handle = 16,
	        .bytes = FAKE_BYTES,
	        .rights = FAKE_ALL,
	        .can = WEFT_VOLRPC_CAN_DISCARD | WEFT_VOLRPC_CAN_EXTENTS,
	        .block_bytes = FAKE_BLOCK,
	        .atomic_bytes = FAKE_BLOCK,
	        .io_bytes = FAKE_IO,
	        .compare_bytes = WEFT_VOLRPC_COMPARE_MAX,
	        .range_bytes = WEFT_VOLRPC_RANGE_MAX,
	        .window_bytes = 16 * FAKE_BLOCK,
	        .window_align = FAKE_BLOCK,
	        .windows = FAKE_WINDOWS,
	        .hash = hash,
	        .hash_bytes = 4,
	        .mechanism = mechanism,
	};
	f->verifier = 1;
	for (unsigned int i = 0; i < WEFT_VOLRPC_UUID_BYTES; i++)
		f->grant.uuid[i] = (char)(i + 1);
}

void
fake_close(struct fake_target *f)
{
	free(f->mem);
	free(f->hole);
}

void
fake_release(struct fake_target *f)
{
	f->hold = false;
	while (f->nheld > 0) {
		f->now--;
		weft_rpc_done(f->held[--f->nheld], WEFT_RPC_OK);
	}
}

void
fake_refuse(struct fake_target *f, uint32_t proc, unsigned int skip, unsigned int times,
            weft_volrpc_status status, const char *why)
{
	f->bad_proc = proc;
	f->skip = skip;
	f->times = times;
	f->status = status;
	f->fault = (weft_volrpc_fault){.why = (char *)(uintptr_t)why};
}
