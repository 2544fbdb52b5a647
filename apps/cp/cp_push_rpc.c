/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Pushing a file by WRITEs of the export program: the target fetches the data. Each WRITE is
 * durable before its reply, and then this client posts a Verify of the medium's content. First go
 * the data, several blocks in flight; when all are good, the slot's header; when that is good, the
 * commit word. With --resume a Flush and a Verify of each block come first, and only a block whose
 * hash differs is written.
 *
 * Step 0 is a READ of the word and a durable WRITE of the same word. No other client may write, so
 * the word is then known to be durable.
 */

#include "cp_compare.h"
#include "cp_push.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ui.h"

#define RPC_DEPTH_MAX 32 /* calls in flight; the target usually grants fewer credits */

struct rpc_push;

/* One WRITE under way, or a free entry. */
struct rpc_block {
	struct rpc_push *p;
	weft_export_write_args args;
	uint64_t off; /* in the object */
	uint64_t post_ns;
	bool busy, data; /* data: a block of the object */
	bool verify;     /* verify it after the WRITE */
	/* a probe is under way, has found that the block is not there */
	bool probing, missing;
	uint8_t mine[WEFT_HASH_MAX_BYTES], theirs[WEFT_HASH_MAX_BYTES];
	uint32_t len;
	uint8_t *buf;
};

struct rpc_push {
	struct cp_push base; /* first member */
	weft_export_stability stable;
	unsigned int used, to_write; /* to_write: blocks that are missing */
	struct rpc_block block[RPC_DEPTH_MAX];
	uint8_t word[EXPFMT_COMMIT_BYTES];
	uint64_t last_ns;
	bool commit_sent;
	/* the first call that failed or was refused */
	bool failed;
	enum weft_rpc_status rpc_status;
	weft_export_status status;
	enum weft_wc_status verify_status; /* of a Verify */
	int verify_rc;                     /* error of a Verify that could not be posted */
	uint64_t bad_off;
	char why[WEFT_TEXT_MAX + 1];
};

/* ---- Answers ---- */

static void
fetch_failed(struct rpc_push *p, enum weft_rpc_status rpc_status, weft_export_status status,
             const char *why, uint64_t off)
{
	if (p->failed)
		return;
	p->failed = true;
	p->rpc_status = rpc_status;
	p->status = status;
	p->bad_off = off;
	snprintf(p->why, sizeof(p->why), "%s", why);
}

/* The block is written, and verified if that was asked for. */
static void
fetch_block_done(struct rpc_block *b)
{
	struct rpc_push *p = b->p;

	b->busy = false;
	p->used--;
	p->last_ns = ui_now_ns();
	if (!b->data)
		return;
	p->base.done_bytes += b->len;
	p->base.r->blocks++;
	hist_add(&p->base.r->lat, p->last_ns - b->post_ns);
}

static void
fetch_verify_failed(struct rpc_block *b, enum weft_wc_status status)
{
	b->busy = false;
	b->p->used--;
	if (!b->p->failed)
		b->p->verify_status = status;
	fetch_failed(b->p, WEFT_RPC_OK, WEFT_EXPORT_OK, "", b->off);
}

static void
fetch_verify_unasked(struct rpc_block *b, int rc)
{
	if (!b->p->failed)
		b->p->verify_rc = rc;
	fetch_verify_failed(b, WEFT_WC_SUCCESS);
}

static void
fetch_on_wc(void *op, const struct weft_wc *wc)
{
	struct rpc_push *p = op;
	struct rpc_block *b = &p->block[wc->wr_id];

	if (wc->status != WEFT_WC_SUCCESS) {
		/* A Flush that fails has the completion of its Verify behind it. */
		if (b->busy)
			fetch_verify_failed(b, wc->status);
		return;
	}
	if (!b->probing) {
		fetch_block_done(b);
	} else if (memcmp(b->mine, b->theirs, p->base.hash.ops->result_bytes) == 0) {
		p->base.resumed_bytes += b->len;
		fetch_block_done(b);
	} else {
		b->missing = true;
		p->to_write++;
	}
}

/* Post the Verify of what the target wrote. Negative: it could not be posted. */
static int
fetch_verify(struct rpc_block *b)
{
	struct rpc_push *p = b->p;
	struct weft_sge sge = {.addr = b->args.data.data_val, .len_bytes = b->args.data.data_len};
	const bool hashed = b->data && p->base.s->opt->resume; /* by the probe */
	uint8_t expect[WEFT_HASH_MAX_BYTES];
	struct weft_wr wr = {
	        .wr_id = (uint64_t)(b - p->block),
	        .opcode = WEFT_WR_VERIFY,
	        .flags = WEFT_WR_SIGNALED,
	        .verify = {.stag = p->base.s->grant.stag,
	                   .to = b->args.to,
	                   .len_bytes = sge.len_bytes,
	                   .expect = hashed ? b->mine : expect},
	};
	int rc = hashed ? 0 : cp_hash_of(&p->base.hash, sge.addr, sge.len_bytes, expect);

	if (rc != 0)
		return rc;
	wr.verify.expect_bytes = (uint32_t)p->base.hash.ops->result_bytes;
	rc = weft_post_send(p->base.s->qp, &wr, 1);
	return rc == 1 ? 0 : rc < 0 ? rc : -EAGAIN;
}

/* Whether the block's WRITE did all that was asked for. */
static bool
fetch_wrote_all(const struct rpc_block *b, const weft_export_write_res *res)
{
	const weft_export_written *w = &res->weft_export_write_res_u.written;

	return res->status == WEFT_EXPORT_OK && w->count == b->args.data.data_len &&
	       w->stable >= b->p->stable;
}

static void
fetch_wrote(void *arg, enum weft_rpc_status status, void *vres)
{
	const weft_export_write_res *res = vres;
	struct rpc_block *b = arg;
	struct rpc_push *p = b->p;
	int rc;

	if (status == WEFT_RPC_OK && fetch_wrote_all(b, res)) {
		rc = b->verify ? fetch_verify(b) : 0;
		if (!b->verify)
			fetch_block_done(b);
		else if (rc == -ENOTCONN)
			fetch_verify_failed(b, WEFT_WC_FLUSHED);
		else if (rc != 0)
			fetch_verify_unasked(b, rc);
		return;
	}
	b->busy = false;
	p->used--;
	p->last_ns = ui_now_ns();
	if (status != WEFT_RPC_OK)
		fetch_failed(p, status, WEFT_EXPORT_OK, "", b->off);
	else if (res->status != WEFT_EXPORT_OK)
		fetch_failed(p, status, res->status, res->weft_export_write_res_u.why, b->off);
	else
		fetch_failed(p, status, WEFT_EXPORT_IO, "less was done than asked for", b->off);
}

static void
fetch_read_word(void *arg, enum weft_rpc_status status, void *vres)
{
	const weft_export_read_res *res = vres;
	struct rpc_push *p = arg;

	p->used--;
	if (status != WEFT_RPC_OK)
		fetch_failed(p, status, WEFT_EXPORT_OK, "", 0);
	else if (res->status != WEFT_EXPORT_OK)
		fetch_failed(p, status, res->status, res->weft_export_read_res_u.why, 0);
	else if (res->weft_export_read_res_u.data.data_len != EXPFMT_COMMIT_BYTES)
		fetch_failed(p, status, WEFT_EXPORT_IO, "less was read than asked for", 0);
}

/* ---- Waiting ---- */

static int
fetch_fail(struct rpc_push *p)
{
	struct cp_session *s = p->base.s;
	char cons[200];

	/* A refused call was not executed; a lost answer leaves that unknown. */
	cp_push_consequence(p->base.old.generation,
	                    p->commit_sent &&
	                            (p->rpc_status != WEFT_RPC_OK || p->status == WEFT_EXPORT_IO),
	                    cons, sizeof(cons));
	if (p->verify_rc != 0)
		return cp_fail(
		        s, p->verify_rc,
		        "%s: export %s: no Verify could be asked for at octet %" PRIu64 ": %s%s",
		        s->where, s->url.export_name, p->bad_off, strerror(-p->verify_rc), cons);
	if (p->verify_status == WEFT_WC_HASH_MISMATCH)
		return cp_fail(s, -EIO,
		               "%s: export %s: verify failed: the medium does not hold what was "
		               "fetched at octet %" PRIu64 "%s%s",
		               s->where, s->url.export_name, p->bad_off,
		               p->base.hash.key != NULL ? ", or --hash-key is another key than its"
		                                        : "",
		               cons);
	if (p->verify_status != WEFT_WC_SUCCESS && p->verify_status != WEFT_WC_FLUSHED)
		return cp_fail(s, -EIO, "%s: export %s: verify failed at octet %" PRIu64 ": %s%s",
		               s->where, s->url.export_name, p->bad_off,
		               weft_wc_status_str(p->verify_status), cons);
	if (p->rpc_status == WEFT_RPC_CONNLOST || p->verify_status == WEFT_WC_FLUSHED)
		return cp_fail_conn(s, -ENOTCONN, cons);
	if (p->rpc_status == WEFT_RPC_TIMEDOUT)
		return cp_fail_conn(s, -ETIMEDOUT, cons);
	if (p->rpc_status != WEFT_RPC_OK)
		return cp_fail(s, -EPROTO, "%s: export %s: call failed: %s%s", s->where,
		               s->url.export_name, weft_rpc_status_str(p->rpc_status), cons);
	return cp_fail(s, -EIO, "%s: export %s: refused at octet %" PRIu64 ": %s%s", s->where,
	               s->url.export_name, p->bad_off, p->why, cons);
}

static int fetch_write_missing(struct rpc_push *p);

static int
fetch_turn(struct rpc_push *p)
{
	char cons[200];
	int rc = p->to_write > 0 && !p->failed ? fetch_write_missing(p) : 0;

	if (rc == 0)
		rc = cp_turn(p->base.s, p->used > 0);
	else
		return rc;

	if (p->failed)
		return fetch_fail(p);
	if (rc != 0)
		return cp_fail_conn(p->base.s, rc,
		                    cp_push_consequence(p->base.old.generation, p->commit_sent,
		                                        cons, sizeof(cons)));
	cp_progress(p->base.s, &p->base.bar, p->base.done_bytes);
	return 0;
}

static int
fetch_wait(struct rpc_push *p)
{
	int rc = 0;

	while (rc == 0 && (p->used > 0 || p->failed))
		rc = fetch_turn(p);
	return rc;
}

/* ---- Calls ---- */

static int
fetch_call(struct rpc_push *p, struct weft_rpc_call_attr *a)
{
	struct cp_session *s = p->base.s;
	int rc;

	a->size = sizeof(*a);
	a->prog = WEFT_EXPORT_PROG;
	a->vers = WEFT_EXPORT_V1;
	a->timeout_us = s->opt->silence_ns / 1000;
	if (p->used == 0)
		s->last_ns = ui_now_ns();
	p->used++;
	rc = weft_rpc_call_with(s->rpc, a);
	if (rc == 0)
		return 0;
	p->used--;
	return cp_fail(s, rc, "%s: call failed: %s", s->where, strerror(-rc));
}

static int
fetch_write(struct rpc_block *b, uint64_t to, void *data, uint32_t len)
{
	struct rpc_push *p = b->p;
	struct weft_rpc_call_attr a = {
	        .proc = WEFT_EXPORT_WRITE_DATA,
	        .xdr_args = (xdrproc_t)xdr_weft_export_write_args,
	        .args = &b->args,
	        .xdr_res = (xdrproc_t)xdr_weft_export_write_res,
	        .res_bytes = sizeof(weft_export_write_res),
	        .binding = &weft_export_write_binding,
	        .fn = fetch_wrote,
	        .arg = b,
	        .once = true,
	};
	int rc;

	b->args = (weft_export_write_args){p->base.s->grant.handle, to, p->stable, {len, data}};
	b->busy = true;
	b->len = len;
	b->probing = b->missing = false;
	b->post_ns = ui_now_ns();
	rc = fetch_call(p, &a);
	if (rc != 0)
		b->busy = false;
	return rc;
}

static uint64_t
fetch_to(const struct rpc_block *b)
{
	return b->p->base.slot_to + EXPFMT_HEADER_BYTES + b->off;
}

/* Write the blocks that are not there. */
static int
fetch_write_missing(struct rpc_push *p)
{
	int rc = 0;

	for (unsigned int i = 0; rc == 0 && p->to_write > 0 && i < p->base.depth; i++) {
		struct rpc_block *b = &p->block[i];

		if (!b->missing)
			continue;
		p->to_write--;
		p->used--; /* fetch_call() counts it again */
		p->base.moved_bytes += b->len;
		rc = fetch_write(b, fetch_to(b), b->buf, b->len);
	}
	return rc;
}

/* Ask whether the block is there. */
static int
fetch_probe(struct rpc_block *b)
{
	struct rpc_push *p = b->p;
	struct cp_session *s = p->base.s;
	int rc = cp_hash_of(&p->base.hash, b->buf, b->len, b->mine);

	if (rc != 0)
		return cp_fail(s, rc, "hashing by %s: %s", p->base.hash.ops->name, strerror(-rc));
	b->probing = b->busy = true;
	b->missing = false;
	b->post_ns = ui_now_ns();
	if (p->used == 0)
		s->last_ns = b->post_ns;
	p->used++;
	memset(b->theirs, 0, sizeof(b->theirs));
	return cp_probe(s, &p->base.hash, (uint64_t)(b - p->block), fetch_to(b), b->len,
	                !s->opt->no_flush, b->theirs);
}

/* Make one WRITE alone and wait for it. */
static int
fetch_write_alone(struct rpc_push *p, uint64_t to, void *data, uint32_t len, bool verify)
{
	struct rpc_block *b = &p->block[0];
	int rc;

	b->off = 0;
	b->data = false;
	b->verify = verify && p->base.hash.ops != NULL;
	rc = fetch_write(b, to, data, len);
	return rc != 0 ? rc : fetch_wait(p);
}

/* ---- The push as a whole ---- */

static int
fetch_step_0(struct cp_push *base)
{
	struct rpc_push *p = (struct rpc_push *)base;
	struct cp_session *s = base->s;
	struct weft_export_read_call c = {{s->grant.handle, s->grant.commit_to, sizeof(p->word)},
	                                  p->word};
	const weft_export_read_res init = {
	        .weft_export_read_res_u.data = {sizeof(p->word), (char *)p->word}};
	struct weft_rpc_call_attr a = {
	        .proc = WEFT_EXPORT_READ_DATA,
	        .xdr_args = (xdrproc_t)xdr_weft_export_read_args,
	        .args = &c,
	        .xdr_res = (xdrproc_t)weft_export_xdr_read_res,
	        .res_bytes = sizeof(weft_export_read_res),
	        .res_init = &init,
	        .binding = &weft_export_read_binding,
	        .fn = fetch_read_word,
	        .arg = p,
	};
	int rc;

	p->stable = s->opt->no_flush ? WEFT_EXPORT_UNSTABLE : WEFT_EXPORT_DURABLE;
	for (uint32_t i = 0; i < base->depth; i++) {
		p->block[i].p = p;
		p->block[i].buf = base->mem + i * base->stride;
	}
	s->on_wc = fetch_on_wc;
	s->op = p;
	rc = fetch_call(p, &a);

	if (rc == 0)
		rc = fetch_wait(p);
	/* The target's memory and its medium may differ: see cp_push(). */
	if (rc == 0 && p->stable == WEFT_EXPORT_DURABLE)
		rc = fetch_write_alone(p, s->grant.commit_to, p->word, sizeof(p->word), false);
	if (rc != 0)
		return rc;
	expfmt_commit_decode(p->word, &base->old);
	return 0;
}

static struct rpc_block *
fetch_free_block(struct rpc_push *p)
{
	for (unsigned int i = 0; i < p->base.depth; i++)
		if (!p->block[i].busy)
			return &p->block[i];
	return NULL;
}

static int
fetch_leave(struct rpc_push *p)
{
	char what[200];
	int rc = fetch_wait(p);

	if (rc != 0)
		return rc;
	return cp_leave(p->base.s,
	                cp_push_consequence(p->base.old.generation, false, what, sizeof(what)));
}

/* Fill a free block with what comes next, and write it. -EAGAIN: a stream has not so much yet. */
static int
fetch_next(struct rpc_push *p, struct rpc_block *b)
{
	struct cp_session *s = p->base.s;
	int rc;

	b->off = p->base.file.read_bytes;
	b->data = true;
	b->verify = p->base.hash.ops != NULL;
	rc = cp_source_next(s, &p->base.file, b->buf, s->opt->block_bytes, &b->len);
	if (rc == 0)
		rc = cp_source_fits(s, &p->base.file);
	if (rc != 0 || b->len == 0)
		return rc;
	if (s->opt->resume)
		return fetch_probe(b);
	p->base.moved_bytes += b->len;
	return fetch_write(b, fetch_to(b), b->buf, b->len);
}

static int
fetch_data(struct cp_push *base)
{
	struct rpc_push *p = (struct rpc_push *)base;
	struct cp_session *s = base->s;
	struct rpc_block *filling = NULL;
	int rc = 0;

	while (rc == 0 && cp_source_more(&base->file)) {
		if (cp_must_leave(s, s->grant.rights, base->begin_ns, base->file.read_bytes,
		                  base->file.size_bytes))
			return fetch_leave(p);
		if (filling == NULL && !cp_ahead(s, base->begin_ns, base->moved_bytes))
			filling = fetch_free_block(p);
		if (filling != NULL) {
			rc = fetch_next(p, filling);
			if (rc == 0)
				filling = NULL;
			else if (rc == -EAGAIN && s->err[0] == '\0')
				rc = 0;
		}
		if (rc == 0)
			rc = fetch_turn(p);
	}
	return rc != 0 ? rc : fetch_wait(p);
}

static int
fetch_commit(struct cp_push *base)
{
	struct rpc_push *p = (struct rpc_push *)base;
	uint64_t posted = ui_now_ns(), last = p->base.r->blocks > 0 ? p->last_ns : posted;
	uint8_t header[EXPFMT_HEADER_BYTES];
	int rc;

	cp_source_header(&p->base.file, p->base.new.generation, p->base.r->crc, header);
	rc = fetch_write_alone(p, p->base.slot_to, header, sizeof(header), true);
	if (rc != 0)
		return rc;
	expfmt_commit_encode(&p->base.new, p->word);
	p->commit_sent = true;
	rc = fetch_write_alone(p, p->base.s->grant.commit_to, p->word, sizeof(p->word), false);
	p->base.r->commit_ns = p->last_ns - last;
	p->base.r->commit_post_ns = p->last_ns - posted;
	return rc;
}

static void
fetch_report(struct cp_push *base)
{
	const struct rpc_push *p = (struct rpc_push *)base;

	base->r->transfer_ns = p->last_ns - base->begin_ns;
	base->r->fetched = true;
}

const struct cp_push_ops cp_push_rpc = {
        .bytes = sizeof(struct rpc_push),
        .depth_max = RPC_DEPTH_MAX,
        .on_wc = fetch_on_wc,
        .read_word = fetch_step_0,
        .data = fetch_data,
        .commit = fetch_commit,
        .report = fetch_report,
};
