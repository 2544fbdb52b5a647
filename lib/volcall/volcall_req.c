/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Requests and their calls. A long read, write, discard or zeroes is several calls at once.
 * Requests take turns: each sends one call, and then the next one does.
 */

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "volcall_link.h"

#define REQ_STALES 4 /* grants in a row that a target may end without a call with success */

/* Which longer requests are several calls. */
enum req_cuts {
	REQ_ONE,    /* none */
	REQ_IO,     /* than io_bytes */
	REQ_RANGES, /* than range_bytes; VOLCALL_RANGES at once */
};

/* What the operations differ in. */
static const struct {
	uint32_t proc;
	uint32_t flags; /* that it takes */
	enum req_cuts cuts;
	bool empty; /* a range of 0 octets is done at once */
	bool once;  /* what was sent and not answered is not sent again */
} req_ops[WEFT_VOLUME_OPS] = {
        [WEFT_VOLUME_OP_READ] = {WEFT_VOLRPC_READ, 0, REQ_IO, true},
        [WEFT_VOLUME_OP_WRITE] = {WEFT_VOLRPC_WRITE, WEFT_VOLUME_F_DURABLE | WEFT_VOLUME_F_WHOLE,
                                  REQ_IO, true},
        [WEFT_VOLUME_OP_FLUSH] = {WEFT_VOLRPC_FLUSH, 0, REQ_ONE, false},
        [WEFT_VOLUME_OP_VERIFY] = {WEFT_VOLRPC_VERIFY, 0, REQ_ONE, false},
        [WEFT_VOLUME_OP_COMPARE_WRITE] = {WEFT_VOLRPC_COMPARE_WRITE,
                                          WEFT_VOLUME_F_DURABLE | WEFT_VOLUME_F_WHOLE, REQ_ONE,
                                          true, true},
        [WEFT_VOLUME_OP_DISCARD] = {WEFT_VOLRPC_DISCARD, WEFT_VOLUME_F_DURABLE, REQ_RANGES, true},
        [WEFT_VOLUME_OP_ZEROES] = {WEFT_VOLRPC_ZEROES, WEFT_VOLUME_F_DURABLE | WEFT_VOLUME_F_KEEP,
                                   REQ_RANGES, true},
        [WEFT_VOLUME_OP_EXTENTS] = {WEFT_VOLRPC_EXTENTS, 0, REQ_ONE, true},
        [WEFT_VOLUME_OP_SNAPSHOT] = {WEFT_VOLRPC_SNAPSHOT, 0, REQ_ONE, false, true},
        [WEFT_VOLUME_OP_SNAPSHOTS] = {WEFT_VOLRPC_SNAPSHOTS, 0, REQ_ONE, false},
        [WEFT_VOLUME_OP_SNAPSHOT_REMOVE] = {WEFT_VOLRPC_SNAPSHOT_REMOVE, 0, REQ_ONE, false, true},
        [WEFT_VOLUME_OP_CLONE] = {WEFT_VOLRPC_CLONE, 0, REQ_ONE, false, true},
};

static_assert(WEFT_VOLUME_F_DURABLE == WEFT_VOLRPC_DURABLE &&
                      WEFT_VOLUME_F_WHOLE == WEFT_VOLRPC_WHOLE &&
                      WEFT_VOLUME_F_KEEP == WEFT_VOLRPC_KEEP,
              "flags travel as they are");
static_assert(WEFT_VOLUME_DISCARDS == WEFT_VOLRPC_CAN_DISCARD &&
                      WEFT_VOLUME_HOLES == WEFT_VOLRPC_CAN_EXTENTS &&
                      WEFT_VOLUME_MEDIUM == WEFT_VOLRPC_CAN_MEDIUM &&
                      WEFT_VOLUME_SUMS == WEFT_VOLRPC_CAN_SUMS,
              "abilities travel as they are");

int
volcall_req_check(const struct weft_volume *v, const struct weft_volume_req *req)
{
	bool data, expect;

	if (req == NULL || (unsigned int)req->op >= WEFT_VOLUME_OPS || req->done == NULL ||
	    (req->flags & ~req_ops[req->op].flags) != 0 || req->off_bytes > v->info.bytes ||
	    req->len_bytes > v->info.bytes - req->off_bytes)
		return -EINVAL;
	if (req->volume != NULL)
		return -EBUSY;
	expect = req->op == WEFT_VOLUME_OP_COMPARE_WRITE;
	data = expect || req->op == WEFT_VOLUME_OP_READ || req->op == WEFT_VOLUME_OP_WRITE;
	if (req->len_bytes > 0 && ((data && req->data == NULL) || (expect && req->expect == NULL)))
		return -EINVAL;
	if (volcall_is_snap(req->op) && !volcall_snap_ok(req))
		return -EINVAL;
	if (req->op == WEFT_VOLUME_OP_EXTENTS && (req->pieces == NULL || req->max_pieces == 0))
		return -EINVAL;
	/* Each part of a write that is cut would be whole, and the write not. The hashes of parts
	 * are not the hash of their range. */
	if ((expect && req->len_bytes > v->info.compare_bytes) ||
	    ((req->flags & WEFT_VOLUME_F_WHOLE) && req->len_bytes > v->info.io_bytes) ||
	    (req->op == WEFT_VOLUME_OP_VERIFY && req->len_bytes > v->info.range_bytes))
		return -EMSGSIZE;
	return 0;
}

/* ---- The end of a call and of a request ---- */

/* The first fault of a range counts: what is done is in front of it. */
static void
req_fault(struct weft_volume_req *req, uint64_t from_bytes, const struct volcall_outcome *o)
{
	if (req->status != 0 && req->done_bytes <= from_bytes + o->done_bytes)
		return;
	req->status = o->status;
	req->done_bytes = from_bytes + o->done_bytes;
	req->at_bytes = o->at_bytes;
	volcall_why(req->why, o->why);
}

/* No further call of the request is sent. */
static void
req_stop(struct weft_volume *v, struct weft_volume_req *req, int status, const char *why)
{
	const struct volcall_outcome o = {.status = status, .why = why};

	if (req->sent_bytes != VOLCALL_ALL_SENT)
		req_fault(req, req->sent_bytes != VOLCALL_AGAIN ? req->sent_bytes : 0, &o);
	volcall_remove(&v->pending, req);
	req->sent_bytes = VOLCALL_ALL_SENT;
}

/* As if nothing of it had been sent. */
static void
req_reset(struct weft_volume_req *req)
{
	req->status = 0;
	req->done_bytes = req->len_bytes;
	req->at_bytes = 0;
	req->found = 0;
	req->why[0] = req->place[0] = '\0';
	req->more = false;
	req->sent_bytes = 0;
}

/* A call of it was not answered, and all of it is sent again: those octets that were answered as
 * well, which does no harm as nothing that has an order with it comes between. */
static void
req_again(struct weft_volume *v, struct weft_volume_req *req)
{
	volcall_remove(&v->pending, req);
	req->sent_bytes = VOLCALL_AGAIN;
}

static void
req_try_finish(struct weft_volume *v, struct weft_volume_req *req)
{
	if (req->calls > 0)
		return;
	if (req->sent_bytes == VOLCALL_AGAIN && req->status == 0 && volcall_repeats(v)) {
		v->link->stats.repeated++;
		req_reset(req);
		volcall_push(&v->pending, req);
		return;
	}
	if (req->sent_bytes == VOLCALL_AGAIN && req->status == 0)
		req_stop(v, req, -ENOTCONN, "connection lost");
	else if (req->sent_bytes == VOLCALL_AGAIN)
		req->sent_bytes = VOLCALL_ALL_SENT;
	if (req->sent_bytes != VOLCALL_ALL_SENT)
		return;
	volcall_order_end(v, req);
	volcall_push(&v->finished, req);
}

/* A call of the request has ended; its slot is free. */
static void
req_answered(struct weft_volume *v, struct weft_volume_req *req)
{
	req->calls--;
	/* What was not sent is behind the fault. */
	if (req->status != 0 && req->sent_bytes != VOLCALL_ALL_SENT &&
	    req->sent_bytes != VOLCALL_AGAIN)
		req_stop(v, req, req->status, req->why);
	req_try_finish(v, req);
	volcall_go_on(v);
}

/* The results of a call, which are NULL unless status is OK; req's own are set. */
static void
req_results(struct volcall_slot *s, const void *res, struct volcall_outcome *o)
{
	struct weft_volume_req *req = s->req;
	uint64_t off = req->off_bytes + s->from_bytes;
	const weft_volrpc_extents_res *x = res;
	const weft_volrpc_verify_res *h = res;
	const weft_volrpc_read_res *r = res;
	const weft_volrpc_res *plain = res;

	*o = (struct volcall_outcome){.status = -EPROTO, .done_bytes = 0};
	/* The status is the first member of all of them. */
	if (plain->status != WEFT_VOLRPC_OK) {
		const weft_volrpc_fault *f =
		        req->op == WEFT_VOLUME_OP_READ      ? &r->weft_volrpc_read_res_u.fault
		        : req->op == WEFT_VOLUME_OP_VERIFY  ? &h->weft_volrpc_verify_res_u.fault
		        : req->op == WEFT_VOLUME_OP_EXTENTS ? &x->weft_volrpc_extents_res_u.fault
		        : volcall_is_snap(req->op)          ? volcall_snap_fault(req->op, res)
		                                            : &plain->weft_volrpc_res_u.fault;

		volcall_fault(o, plain->status, f, off, s->len_bytes, s->v->info.bytes);
		if (o->status == -EILSEQ && req->op != WEFT_VOLUME_OP_COMPARE_WRITE)
			*o = (struct volcall_outcome){
			        .status = -EPROTO, .why = "a mismatch, and nothing was compared"};
		return;
	}
	if (volcall_is_snap(req->op)) {
		o->why = volcall_snap_results(req, res);
		if (o->why != NULL)
			return;
	} else if (req->op == WEFT_VOLUME_OP_READ) {
		if (r->weft_volrpc_read_res_u.data.data_len != s->len_bytes) {
			o->why = "the target has read less than it was asked for";
			return;
		}
	} else if (req->op == WEFT_VOLUME_OP_VERIFY) {
		const weft_volrpc_hash *found = &h->weft_volrpc_verify_res_u.found;

		if (found->hash.hash_len != s->v->info.hash_bytes) {
			o->why = "the target's hash has another length than it said";
			return;
		}
		memcpy(req->hash, found->hash.hash_val, found->hash.hash_len);
	} else if (req->op == WEFT_VOLUME_OP_EXTENTS) {
		const weft_volrpc_extents *e = &x->weft_volrpc_extents_res_u.extents;

		if (!volcall_extents_ok(e, off, s->len_bytes)) {
			o->why = "the target's extents do not describe the range";
			return;
		}
		req->done_bytes = 0;
		for (; req->found < e->list.list_len && req->found < req->max_pieces;
		     req->found++) {
			const weft_volrpc_extent *p = &e->list.list_val[req->found];

			req->pieces[req->found] =
			        (struct weft_volume_piece){p->off, p->len, p->hole};
			req->done_bytes += p->len;
		}
	}
	o->status = 0;
}

/* The target has ended the grant, and has not done the call. True: another connection gets another
 * grant. A target that ends each grant at once is believed in the end. */
static bool
req_grant_ended(struct weft_volume *v)
{
	if (!volcall_repeats(v))
		return false;
	if (!v->link->lost && v->link->stales >= REQ_STALES) {
		v->link->stales = 0; /* the next request may have another grant */
		return false;
	}
	if (!v->link->lost) {
		v->link->stales++;
		volcall_why(v->link->why, "the target has ended the grant");
		volcall_lost(v);
	}
	return true;
}

static void
req_on_answer(void *arg, enum weft_rpc_status status, void *res)
{
	struct volcall_slot *s = arg;
	struct weft_volume_req *req = s->req;
	struct weft_volume *v = s->v;
	struct volcall_outcome o = {.status = volcall_rpc_errno(status),
	                            .why = weft_rpc_status_str(status)};
	bool again = false;

	if (status == WEFT_RPC_CONNLOST) {
		volcall_lost(v);
		if (volcall_repeats(v) && req_ops[req->op].once) {
			o.why = "the connection was lost before the answer: it was done, or not";
			volcall_kept_unsure(s);
		}
		again = volcall_repeats(v) && !req_ops[req->op].once;
	}
	if (status == WEFT_RPC_PROC_UNAVAIL && volcall_is_snap(req->op))
		o.why = "the target is of an older version, without snapshots";
	if (status == WEFT_RPC_OK)
		req_results(s, res, &o);
	if (o.status == -ESTALE && req_grant_ended(v) && !req_ops[req->op].once)
		again = true;
	/* The close has overtaken a call whose data the target had to fetch first. */
	if (v->closing && o.status == -ESTALE)
		o = (struct volcall_outcome){.status = -ECANCELED};
	if (o.status == 0) {
		if (v->link != NULL)
			v->link->stales = 0;
		o.status = volcall_kept_end(s);
		if (o.status != 0)
			o.why = "the connection was lost, and with it changes that were answered "
			        "before";
	}
	if (!again && o.status != 0 && (status == WEFT_RPC_TIMEDOUT || o.done_bytes > 0))
		volcall_kept_failed(s);
	if (again)
		req_again(v, req);
	else if (o.status != 0)
		req_fault(req, s->from_bytes, &o);
	volcall_kept_drop(s);
	volcall_slot_put(s);
	req_answered(v, req);
}

/* ---- Sending ---- */

static uint32_t
req_extents_bytes(const void *args)
{
	(void)args;
	return 64 + WEFT_VOLRPC_EXTENTS_MAX * 20;
}

static const struct weft_rpc_binding req_extents_binding = {.reply_bytes = req_extents_bytes};

/* The length of a call that begins here. The next one begins at a block. Of discards and zeroes it
 * begins at a multiple of the longest range, so that the pieces that the device discards as a whole
 * are not cut. */
static uint64_t
req_cut(const struct weft_volume *v, enum req_cuts cuts, uint64_t off_bytes, uint64_t left_bytes)
{
	uint64_t n = cuts == REQ_RANGES ? v->info.range_bytes : v->info.io_bytes;
	uint64_t unit = cuts == REQ_RANGES ? n : v->info.block_bytes, over;

	if (left_bytes <= n || cuts == REQ_ONE)
		return left_bytes;
	over = (off_bytes + n) % unit;
	return over < n ? n - over : n;
}

static void
req_args(struct volcall_slot *s, struct weft_rpc_call_attr *a, weft_volrpc_read_res *init)
{
	struct weft_volume_req *req = s->req;
	uint64_t off = req->off_bytes + s->from_bytes;
	char *data = req->data != NULL ? (char *)req->data + s->from_bytes : NULL;
	uint32_t handle = s->v->handle, len = (uint32_t)s->len_bytes;

	a->args = &s->args;
	a->xdr_res = (xdrproc_t)xdr_weft_volrpc_res;
	a->res_bytes = sizeof(weft_volrpc_res);
	if (volcall_is_snap(req->op)) {
		volcall_snap_args(s, a);
		return;
	}
	switch (req->op) {
	case WEFT_VOLUME_OP_READ:
		s->args.read = (struct weft_volrpc_read_call){
		        .args = {.handle = handle, .off = off, .count = len}, .into = data};
		*init = (weft_volrpc_read_res){.weft_volrpc_read_res_u.data = {len, data}};
		a->xdr_args = (xdrproc_t)xdr_weft_volrpc_read_args;
		a->xdr_res = (xdrproc_t)weft_volrpc_xdr_read_res;
		a->res_bytes = sizeof(*init);
		a->res_init = init;
		a->binding = &weft_volrpc_read_binding;
		return;
	case WEFT_VOLUME_OP_WRITE:
		s->args.write = (weft_volrpc_write_args){
		        .handle = handle, .off = off, .flags = s->flags, .data = {len, data}};
		a->xdr_args = (xdrproc_t)weft_volrpc_xdr_write_args;
		a->binding = &weft_volrpc_write_binding;
		return;
	case WEFT_VOLUME_OP_COMPARE_WRITE:
		s->args.compare =
		        (weft_volrpc_compare_args){.handle = handle,
		                                   .off = off,
		                                   .flags = s->flags,
		                                   .expect = {len, (char *)(uintptr_t)req->expect},
		                                   .data = {len, data}};
		a->xdr_args = (xdrproc_t)weft_volrpc_xdr_compare_args;
		a->binding = &weft_volrpc_compare_binding;
		a->once = true;
		return;
	case WEFT_VOLUME_OP_VERIFY:
		a->xdr_res = (xdrproc_t)xdr_weft_volrpc_verify_res;
		a->res_bytes = sizeof(weft_volrpc_verify_res);
		break;
	case WEFT_VOLUME_OP_EXTENTS:
		a->xdr_res = (xdrproc_t)xdr_weft_volrpc_extents_res;
		a->res_bytes = sizeof(weft_volrpc_extents_res);
		a->binding = &req_extents_binding;
		break;
	default:
		break;
	}
	a->xdr_args = (xdrproc_t)xdr_weft_volrpc_range_args;
	s->args.range = (weft_volrpc_range_args){
	        .handle = handle, .off = off, .len = s->len_bytes, .flags = s->flags};
}

/* Send the request's next call. The request is in no queue, and `calls` counts this function, so
 * that it does not finish in here. */
static int
req_send(struct weft_volume *v, struct weft_volume_req *req)
{
	struct weft_rpc_call_attr a = {.size = sizeof(a),
	                               .prog = WEFT_VOLRPC_PROG,
	                               .vers = WEFT_VOLRPC_V2,
	                               .proc = req_ops[req->op].proc,
	                               .timeout_us = v->timeout_us,
	                               .fn = req_on_answer};
	struct volcall_slot *s = volcall_slot_get(v);
	uint64_t from = req->sent_bytes, left = req->len_bytes - from;
	weft_volrpc_read_res init;
	int rc;

	if (s == NULL)
		return -EAGAIN;
	s->req = req;
	s->from_bytes = from;
	s->len_bytes = req_cut(v, req_ops[req->op].cuts, req->off_bytes + from, left);
	volcall_kept_begin(s);
	req_args(s, &a, &init);
	a.arg = s;
	req->sent_bytes = s->len_bytes == left ? VOLCALL_ALL_SENT : from + s->len_bytes;
	req->calls++;
	rc = weft_rpc_call_with(v->rpc, &a);
	if (rc == 0)
		return 0;
	req->calls--;
	if (req->sent_bytes != VOLCALL_AGAIN)
		req->sent_bytes = from;
	volcall_kept_drop(s);
	volcall_slot_put(s);
	return rc;
}

/* The request that sends a call next. NULL: there is none, or as many calls as may be of each are
 * under way. */
static struct weft_volume_req *
req_whose_turn(const struct weft_volume *v)
{
	struct weft_volume_req *req = v->pending.first;

	while (req != NULL && req_ops[req->op].cuts == REQ_RANGES && req->calls >= VOLCALL_RANGES)
		req = req->next;
	return req;
}

bool
volcall_req_pump(struct weft_volume *v)
{
	struct weft_volume_req *req;
	int rc;

	while ((req = req_whose_turn(v)) != NULL) {
		if (volcall_is_down(v)) {
			volcall_req_end_all(v, -ENOTCONN);
			return false;
		}
		if (SLIST_EMPTY(&v->free))
			return false;
		volcall_remove(&v->pending, req);
		req->calls++;
		rc = req_send(v, req);
		req->calls--;
		if (rc == -EAGAIN && req->sent_bytes != VOLCALL_AGAIN) {
			volcall_push_front(&v->pending, req);
			return true;
		}
		if (rc == -ENOTCONN && volcall_repeats(v)) {
			volcall_lost(v);
			if (req->sent_bytes != VOLCALL_AGAIN)
				volcall_push_front(&v->pending, req);
			else
				req_try_finish(v, req);
			return false;
		}
		if (req->sent_bytes == VOLCALL_AGAIN)
			;
		else if (rc != 0 || req->status != 0)
			req_stop(v, req, rc != 0 ? rc : req->status, req->why);
		else if (req->sent_bytes != VOLCALL_ALL_SENT)
			volcall_push(&v->pending, req);
		req_try_finish(v, req);
	}
	return false;
}

void
volcall_req_end_all(struct weft_volume *v, int status)
{
	struct weft_volume_req *req, *next;

	for (req = v->live_first; req != NULL; req = next) {
		next = req->live_next;
		if (req->sent_bytes == VOLCALL_ALL_SENT)
			continue;
		req_stop(v, req, status, status == -ENOTCONN ? "connection lost" : "");
		req_try_finish(v, req);
	}
}

void
volcall_req_begin(struct weft_volume *v, struct weft_volume_req *req)
{
	req->volume = v;
	req->next = NULL;
	req->calls = 0;
	req_reset(req);
	if (req->len_bytes > 0 || !req_ops[req->op].empty) {
		if (volcall_order_take(v, req))
			volcall_push(&v->pending, req);
		return;
	}
	req->sent_bytes = VOLCALL_ALL_SENT;
	volcall_push(&v->finished, req);
}
