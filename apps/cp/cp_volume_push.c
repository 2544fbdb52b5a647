/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Push to a volume. Whole pages go by windows: each block has a window of its own, which
 * moves on to its next range when the block is durable and verified. The part of a page at either
 * end, and everything with --pull, goes by calls. Holes of the file become zeros without data on
 * the way.
 *
 * With --resume all is flushed, and then a Verify of each block comes first; only a block whose
 * hash differs is written.
 *
 * Windows are scarce. A block whose window was taken back opens another one, and a block that gets
 * none goes by a call, as do others without a window for some time.
 */

#include "cp_volume.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ui.h"
#include <weft/commit.h>

#define ZEROES_MAX (1ULL << 30) /* of one call */
/* The target had no window: blocks without one go by calls for so long. Then one of them asks. */
#define CALLS_NS 2000000000ULL

struct volume_push {
	struct cp_volume v; /* first member */
	struct cp_source file;
	uint32_t windows;          /* most windows; 0: all goes by calls */
	uint32_t rights;           /* of a window */
	uint32_t opens;            /* blocks whose windows are being opened */
	struct cp_block *failed;   /* the first one, if another call can find the cause */
	uint64_t no_window_ns;     /* when the target had none; 0: it always had one */
	uint64_t hole_to, data_to; /* the file has a hole, or data, up to here; both 0: not known */
	/* the hash of so many zeros; 0: of none */
	uint64_t zeros_bytes;
	uint8_t zeros_hash[WEFT_HASH_MAX_BYTES];
};

/** The block fails, and does not know why. */
static void
push_failed(struct cp_block *b)
{
	if (b->p->rc == 0)
		((struct volume_push *)b->p)->failed = b;
}

/* ---- Ranges that another client has ---- */

/** The target refuses the block, because another client has a part of its range: it waits, or fails
 * with what to do. False: it is refused for another reason. */
static bool
push_busy(struct cp_block *b, int status, const char *what, const char *why)
{
	char text[640];

	if (status != -EBUSY)
		return false;
	if (cp_block_again(b))
		return true;
	snprintf(text, sizeof(text),
	         "%s (for longer than %.1f s; a client that died is given up on after about twice "
	         "the target's keepalive_ms: wait for the other one, or longer with --wait)",
	         why[0] != '\0' ? why : strerror(-status),
	         (double)b->p->s->opt->range_wait_ns / 1e9);
	cp_block_fail(b, status, what, text);
	return true;
}

/* ---- By calls ---- */

static int
push_hash(struct cp_block *b, uint8_t *out)
{
	/* push_begin() has asked for the target's, and made it. */
	if (b->p->s->opt->resume) {
		memcpy(out, b->mine, sizeof(b->mine));
		return 0;
	}
	return cp_hash_of(&b->p->hash, b->buf, b->len_bytes, out);
}

static void
push_verified(struct weft_volume_req *req)
{
	struct cp_block *b = req->owner;
	uint8_t mine[WEFT_HASH_MAX_BYTES];

	if (req->status != 0)
		cp_block_fail(b, req->status, "the Verify", req->why);
	else if (push_hash(b, mine) != 0 ||
	         memcmp(mine, req->hash, b->p->hash.ops->result_bytes) != 0)
		cp_block_fail(b, -EIO, "the Verify", "the medium does not hold what was sent");
	else
		cp_block_end(b);
}

/** The hash of zeros. Most pieces are as long as the one before. */
static int
push_hash_zeros(struct volume_push *p, uint64_t len)
{
	static const uint8_t zeros[65536];
	const struct weft_hash_ops *h = p->v.hash.ops;
	struct weft_hash_state st;
	int rc = len != p->zeros_bytes ? h->init(&st, p->v.hash.key, p->v.hash.key_bytes) : 0;

	if (rc != 0 || len == p->zeros_bytes)
		return rc;
	for (uint64_t n, left = len; left > 0; left -= n) {
		n = left < sizeof(zeros) ? left : sizeof(zeros);
		h->update(&st, zeros, n);
	}
	h->final(&st, p->zeros_hash);
	p->zeros_bytes = len;
	return 0;
}

static void push_check_zeros(struct cp_block *b);

static void
push_zeros_checked(struct weft_volume_req *req)
{
	struct cp_block *b = req->owner;
	struct volume_push *p = (struct volume_push *)b->p;
	const bool hashed = req->op == WEFT_VOLUME_OP_VERIFY;
	uint64_t *to = hashed || b->piece.hole ? &b->at_bytes : &b->data_to_bytes;

	if (req->status == 0 && !hashed && (req->found == 0 || b->piece.len_bytes == 0))
		cp_block_fail(b, -EPROTO, "the Verify", "the target does not know its extents");
	else if (req->status != 0)
		cp_block_fail(b, req->status, "the Verify", req->why);
	else if (hashed && (push_hash_zeros(p, req->len_bytes) != 0 ||
	                    memcmp(p->zeros_hash, req->hash, p->v.hash.ops->result_bytes) != 0))
		cp_block_fail(b, -EIO, "the Verify", "the medium does not hold zeros");
	else {
		*to = req->off_bytes + (hashed ? req->len_bytes : b->piece.len_bytes);
		push_check_zeros(b);
	}
}

/**
 * Check that a range holds zeros. A hole, as the volume says, reads as zeros. Of what it has as
 * data, all of it where it does not know of holes, the hash has to be that of zeros.
 */
static void
push_check_zeros(struct cp_block *b)
{
	const struct weft_volume_info *i = b->p->info;
	const uint64_t end = b->off_bytes + b->len_bytes, at = b->at_bytes;
	const bool asks = (i->can & WEFT_VOLUME_HOLES) && b->data_to_bytes <= at;
	uint64_t len = (i->can & WEFT_VOLUME_HOLES) ? b->data_to_bytes - at : end - at;
	int rc;

	if (at == end) {
		cp_block_end(b);
		return;
	}
	if (asks)
		len = end - at;
	else if (len > i->range_bytes)
		len = i->range_bytes;
	b->req = (struct weft_volume_req){
	        .op = asks ? WEFT_VOLUME_OP_EXTENTS : WEFT_VOLUME_OP_VERIFY,
	        .off_bytes = at,
	        .len_bytes = len,
	        .pieces = &b->piece,
	        .max_pieces = 1,
	        .done = push_zeros_checked,
	        .owner = b,
	};
	rc = weft_volume_submit(b->p->v, &b->req);
	if (rc != 0)
		cp_block_fail(b, rc, "the Verify", "");
}

static void
push_written(struct weft_volume_req *req)
{
	struct cp_block *b = req->owner;
	const bool zeroes = req->op == WEFT_VOLUME_OP_ZEROES;
	const char *what = zeroes ? "the zeroing" : "the write";
	int rc;

	if (push_busy(b, req->status, what, req->why))
		return;
	if (req->status == -ESTALE) /* the grant is gone, and perhaps the export */
		push_failed(b);
	if (req->status != 0) {
		cp_block_fail(b, req->status, what, req->why);
		return;
	}
	if (b->p->hash.ops == NULL) {
		cp_block_end(b);
		return;
	}
	if (zeroes) {
		b->at_bytes = b->data_to_bytes = b->off_bytes;
		push_check_zeros(b);
		return;
	}
	req->op = WEFT_VOLUME_OP_VERIFY;
	req->flags = 0;
	req->done = push_verified;
	rc = weft_volume_submit(b->p->v, req);
	if (rc != 0)
		cp_block_fail(b, rc, "the Verify", "");
}

static void
push_call(struct cp_block *b, enum weft_volume_op op)
{
	const bool durable = !b->p->s->opt->no_flush;
	int rc;

	b->by_window = false;
	b->req = (struct weft_volume_req){
	        .op = op,
	        .flags = durable ? WEFT_VOLUME_F_DURABLE : 0,
	        .off_bytes = b->off_bytes,
	        .len_bytes = b->len_bytes,
	        .data = b->buf,
	        .done = push_written,
	        .owner = b,
	};
	rc = weft_volume_submit(b->p->v, &b->req);
	if (rc != 0)
		cp_block_fail(b, rc, "the write", "");
}

/* ---- By windows ---- */

static void push_closed(void *arg, int status, const char *why);

/** Close the window of a block that is done. */
static void
push_give_back(struct cp_block *b)
{
	b->give_back = false;
	if (b->win.id == 0)
		return;
	b->busy = true;
	b->p->busy++;
	if (weft_volume_window_close(&b->win, push_closed, b) != 0)
		push_closed(b, 0, "");
}

static void
push_on_wc(void *op, const struct weft_wc *wc)
{
	struct volume_push *p = op;
	struct cp_block *b = &p->v.block[wc->wr_id];

	if (wc->status != WEFT_WC_SUCCESS && wc->status != WEFT_WC_HASH_MISMATCH)
		push_failed(b);
	if (wc->status == WEFT_WC_SUCCESS) {
		cp_block_end(b);
		if (b->give_back)
			push_give_back(b);
	} else if (wc->status == WEFT_WC_FLUSHED)
		cp_block_fail(b, -ENOTCONN, "", "");
	else if (wc->status == WEFT_WC_HASH_MISMATCH)
		cp_block_fail(b, -EIO, "the Verify",
		              p->v.hash.key != NULL ? "the medium does not hold what was sent, or "
		                                      "--hash-key is another key than its"
		                                    : "the medium does not hold what was sent");
	else
		cp_block_fail(b, -EIO, weft_commit_step_str(wc->commit.step),
		              cp_why(p->v.s, wc->status));
}

static int push_by_window(struct cp_block *b);

/** The target has no window for the block (status). False: nor is there another way. */
static bool
push_other_way(struct cp_block *b, int status, bool opened)
{
	struct volume_push *p = (struct volume_push *)b->p;

	if (status != -ESTALE && status != -ENOMEM)
		return false;
	/* The window that was to move was taken back meanwhile. */
	b->give_back = b->give_back && b->win.id != 0;
	if (status == -ESTALE && !opened && push_by_window(b) == 0)
		return true;
	if (status == -ENOMEM)
		p->no_window_ns = ui_now_ns();
	push_call(b, WEFT_VOLUME_OP_WRITE);
	return true;
}

static void
push_window(void *arg, int status, const char *why)
{
	struct cp_block *b = arg;
	const bool opened = b->opens;
	struct cp_volume *p = b->p;
	uint8_t expect[WEFT_HASH_MAX_BYTES];
	struct weft_sge sge = {.addr = b->buf, .len_bytes = b->len_bytes};
	struct weft_commit_range range = {
	        .sg_list = &sge, .num_sge = 1, .stag = b->win.stag, .to = b->win.to};
	const struct weft_commit c = {
	        .wr_id = (uint64_t)(b - p->block),
	        .flags = WEFT_COMMIT_NO_WORD,
	        .ranges = &range,
	        .num_ranges = 1,
	};
	int rc = status;

	((struct volume_push *)p)->opens -= opened;
	b->opens = false;
	if (status != 0 &&
	    (push_other_way(b, status, opened) || push_busy(b, status, "a window", why)))
		return;
	if (rc == 0 && p->hash.ops != NULL) {
		rc = push_hash(b, expect);
		range.expect = expect;
		range.expect_bytes = (uint32_t)p->hash.ops->result_bytes;
	}
	if (rc == 0)
		rc = weft_commit(p->s->qp, &c);
	if (rc != 0)
		cp_block_fail(b, rc, "a window", status != 0 ? why : "");
}

static void
push_closed(void *arg, int status, const char *why)
{
	struct cp_block *b = arg;

	(void)status;
	(void)why;
	cp_block_drop(b);
}

/** The target wants the window for another client: it is closed when the block is done. */
static void
push_revoked(struct weft_volume_window *w, uint32_t deadline_ms)
{
	struct cp_block *b = w->owner;

	(void)deadline_ms;
	b->give_back = true;
	if (!b->busy)
		push_give_back(b);
}

static int
push_by_window(struct cp_block *b)
{
	struct volume_push *p = (struct volume_push *)b->p;
	int rc;

	b->by_window = true;
	b->win.revoked = push_revoked;
	b->win.owner = b;
	if (b->win.id != 0)
		return weft_volume_window_move(&b->win, b->off_bytes, b->len_bytes, 0, push_window,
		                               b);
	rc = weft_volume_window_open(p->v.v, &b->win, b->off_bytes, b->len_bytes, p->rights, 0,
	                             push_window, b);
	b->opens = rc == 0;
	p->opens += b->opens;
	return rc;
}

/** Ask again for a block whose range another client had. */
static void
push_again(struct cp_block *b)
{
	int rc;

	if (!b->by_window) {
		push_call(b, b->req.op);
		return;
	}
	rc = push_by_window(b);
	if (rc != 0)
		cp_block_fail(b, rc, "a window", "");
}

/** Whether the block may have a window: it has one, or may ask for one. */
static bool
push_may_open(const struct volume_push *p, const struct cp_block *b)
{
	return b->win.id != 0 || p->no_window_ns == 0 ||
	       (p->opens == 0 && ui_now_ns() - p->no_window_ns > CALLS_NS);
}

/* ---- What comes next ---- */

/** The next piece of the file begins at pos: is it a hole, and how long. */
static uint64_t
push_piece(struct volume_push *p, uint64_t pos, bool *hole)
{
	const uint64_t end = p->v.end_bytes - p->v.begin_bytes;
	off_t at;

	if (pos >= p->hole_to && pos >= p->data_to) {
		at = lseek(p->file.fd, (off_t)pos, SEEK_DATA);
		p->hole_to = at >= 0 ? (uint64_t)at : errno == ENXIO ? end : pos;
		at = lseek(p->file.fd, (off_t)p->hole_to, SEEK_HOLE);
		p->data_to = p->hole_to >= end ? end : at > (off_t)p->hole_to ? (uint64_t)at : end;
	}
	*hole = pos < p->hole_to;
	at = (off_t)(*hole ? p->hole_to : p->data_to);
	return ((uint64_t)at < end ? (uint64_t)at : end) - pos;
}

/** Octets of data at `off` that go in one block; *window: by a window. */
static uint32_t
push_cut(const struct volume_push *p, uint64_t off, uint64_t left, bool *window)
{
	const struct weft_volume_info *i = p->v.info;
	const uint64_t page = i->window_align != 0 ? i->window_align : 4096;
	uint64_t most = p->v.s->opt->block_bytes;

	if (most > i->range_bytes) /* a Verify has a block */
		most = i->range_bytes;
	*window = p->windows > 0 && off % page == 0 && (left >= page || off + left == i->bytes);
	if (*window && most > i->window_bytes)
		most = i->window_bytes;
	if (!*window && off % page != 0 && most > page - off % page)
		most = page - off % page;
	if (left < most)
		most = left;
	if (*window && off + most != i->bytes)
		most -= most % page;
	return (uint32_t)most;
}

/** Send a block, by its window or by a call. */
static int
push_send(struct cp_block *b)
{
	int rc;

	b->p->moved_bytes += b->len_bytes;
	if (!b->by_window) {
		push_call(b, WEFT_VOLUME_OP_WRITE);
		return 0;
	}
	rc = push_by_window(b);
	if (rc != 0)
		cp_block_fail(b, rc, "a window", "");
	return 0;
}

/** The target's hash of a block is known. Where it makes none, nothing is proved. */
static void
push_probed(struct weft_volume_req *req)
{
	struct cp_block *b = req->owner;

	if (req->status == -ENOTCONN) {
		cp_block_fail(b, req->status, "the Verify", req->why);
	} else if (req->status == 0 && cp_block_same(b)) {
		b->p->resumed_bytes += b->len_bytes;
		cp_block_end(b);
		if (b->give_back)
			push_give_back(b);
	} else {
		push_send(b);
	}
}

/** Begin with the block, of which buf has all. */
static int
push_begin(struct volume_push *p, struct cp_block *b, bool window)
{
	const uint64_t page = p->v.info->window_align != 0 ? p->v.info->window_align : 4096;
	const bool whole =
	        b->len_bytes % page == 0 || b->off_bytes + b->len_bytes == p->v.info->bytes;
	int rc;

	/* A stream may have ended in the middle of a page. */
	b->by_window = window && whole && push_may_open(p, b);
	if (!p->v.s->opt->resume)
		return push_send(b);
	rc = cp_block_verify(b, push_probed);
	if (rc != 0)
		cp_block_fail(b, rc, "the Verify", "");
	return 0;
}

static int
push_next(struct volume_push *p, uint64_t *pos)
{
	struct cp_volume *v = &p->v;
	uint64_t off = v->begin_bytes + *pos, n;
	struct cp_block *b;
	bool hole = false, window;
	int rc = cp_block_get(v, &b);

	if (rc != 0)
		return rc;
	n = p->file.stream ? v->end_bytes - off : push_piece(p, *pos, &hole);
	b->off_bytes = off;
	if (hole) {
		b->len_bytes = (uint32_t)(n < ZEROES_MAX ? n : ZEROES_MAX);
		*pos += b->len_bytes;
		p->file.read_bytes = *pos;
		push_call(b, WEFT_VOLUME_OP_ZEROES);
		return v->rc;
	}
	rc = cp_volume_source(v, &p->file, b, push_cut(p, off, n, &window));
	if (rc != 0)
		return rc;
	*pos += b->len_bytes;
	if (b->len_bytes == 0) {
		cp_block_drop(b);
		return 0;
	}
	push_begin(p, b, window);
	return v->rc;
}

/** A stream that goes on at the end of the volume does not fit. */
static int
push_ended(struct volume_push *p)
{
	struct cp_volume *v = &p->v;
	bool more;
	int rc = cp_volume_source_more(v, &p->file, &more);

	if (rc == 0 && more)
		return cp_fail(v->s, -EFBIG,
		               "%s: has more octets than fit behind octet %" PRIu64
		               " of volume %s, which ends at %" PRIu64 "; %s",
		               p->file.path, v->begin_bytes, v->s->url.export_name, v->info->bytes,
		               p->file.left);
	return rc;
}

/* ---- The push ---- */

static int
push_check(struct volume_push *p)
{
	struct cp_volume *v = &p->v;
	struct cp_session *s = v->s;

	if (!v->info->persistent && !s->opt->no_flush)
		return cp_fail(s, -EOPNOTSUPP,
		               "%s: volume %s is not persistent (%s); --no-flush pushes to it all "
		               "the same",
		               s->where, s->url.export_name, v->info->mechanism);
	if (s->opt->no_verify)
		return 0;
	return cp_volume_hash(v);
}

static void
push_report(struct volume_push *p)
{
	struct cp_report *r = p->v.r;

	cp_volume_report(&p->v);
	r->resume = p->v.s->opt->resume;
	r->flushed = !p->v.s->opt->no_flush;
	r->verified = p->v.hash.ops != NULL;
	r->fetched = p->windows == 0;
}

static int
push_data(struct volume_push *p)
{
	struct cp_volume *v = &p->v;
	const uint64_t total = v->end_bytes - v->begin_bytes;
	uint64_t pos = 0;
	int rc = v->s->opt->resume && !v->s->opt->no_flush ? cp_volume_flush(v) : 0;

	v->s->on_wc = push_on_wc;
	v->s->op = p;
	v->begin_ns = ui_now_ns();
	ui_progress_start(&v->bar, p->file.path,
	                  p->file.size_bytes == CP_SIZE_UNKNOWN ? CP_SIZE_UNKNOWN : total,
	                  v->s->opt->quiet);
	while (rc == 0 && pos < total && !p->file.ended)
		rc = push_next(p, &pos);
	if (rc == 0)
		rc = push_ended(p);
	v->end_bytes = v->begin_bytes + pos;
	if (rc == 0)
		rc = cp_volume_wait(v);
	if (rc == 0)
		rc = cp_source_check(v->s, &p->file);
	ui_progress_end(&v->bar);
	return rc;
}

/** Whether the target has ended the connection or the grant for a reason that a call may find. */
static bool
push_has_cause(const struct volume_push *p)
{
	const struct cp_session *s = p->v.s;

	return p->failed != NULL && *s->opt->stop == 0 &&
	       (p->v.rc == -ESTALE || (s->terminated && !s->term.ours));
}

int
cp_volume_push(struct cp_session *s, const char *path, struct cp_report *r)
{
	const uint32_t rights = WEFT_EXPORT_WRITE | (s->opt->no_flush ? 0 : WEFT_EXPORT_FLUSH) |
	                        (s->opt->no_verify ? 0 : WEFT_EXPORT_VERIFY | WEFT_EXPORT_READ);
	struct volume_push *p = cp_volume_new(s, sizeof(*p), "push", path, r);
	struct cp_volume *v = &p->v;
	int rc;

	if (p == NULL)
		return -ENOMEM;
	v->is_push = true;
	p->rights = rights;
	v->again = push_again;
	rc = cp_source_open(s, &p->file, path, CP_VOLUME_LEFT);
	if (rc == 0)
		rc = cp_volume_open(v, rights, 0);
	if (rc == 0)
		rc = push_check(p);
	if (rc == 0)
		rc = cp_volume_range(v, p->file.size_bytes);
	/* What lies in a window comes to the volume by a Flush alone. */
	if (rc == 0 && !s->opt->pull && !s->opt->no_flush && v->info->window_bytes != 0)
		p->windows = v->info->windows;
	if (rc == 0)
		rc = cp_volume_memory(v, p->windows != 0 ? p->windows : WEFT_RPC_MAX_CALLS);
	if (rc == 0)
		rc = push_data(p);
	if (rc == 0)
		push_report(p);
	else if (push_has_cause(p))
		rc = cp_volume_cause(v, rc, rights, p->failed);
	cp_source_close(&p->file);
	cp_volume_end(v, rc);
	free(p);
	return rc;
}
