/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file What a volume with a link does on a new connection before it goes on: it opens the export,
 * asks for the write verifier, and writes again what may be lost. And when it connects again.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "volcall_link.h"

#define LINK_RECONNECT_US 60000000ULL
#define LINK_CONNECT_US   2000000U
#define LINK_KEEP_US      500000U
#define LINK_KEEP_BYTES   (64ULL << 20)
/* A target that has come up answers at once: many short attempts find it sooner than a long one,
 * whose SYN was lost. */
#define LINK_FIRST_US 250000U
#define LINK_PAUSE_US 20000U
/* Both double each so many attempts, so often: no target is away for long, or it is for longer. */
#define LINK_TRIES   8
#define LINK_DOUBLES 4
#define LINK_BUSY_US 1000

/* ---- When ---- */

static void link_on_go(void *arg);

/* Let link_on_go() run. Without memory for an alarm the link has ended. */
static void
link_go(struct weft_volume *v, uint64_t us)
{
	struct volcall_link *l = v->link;

	if (l->go != NULL)
		weft_alarm_cancel(l->go);
	l->go = NULL;
	if (weft_alarm_set(v->worker, us, link_on_go, v, &l->go) != 0)
		l->ended = v->down = true;
}

/* No connection any more. What waits is ended by the pump. */
static void
link_end(struct weft_volume *v)
{
	struct volcall_link *l = v->link;

	if (l->ended)
		return;
	l->ended = v->down = l->tell = true;
	l->up = false;
	if (l->give_up != NULL)
		weft_alarm_cancel(l->give_up);
	l->give_up = NULL;
	if (v->state == VOLCALL_OPENING) {
		v->state = VOLCALL_FAILED;
		volcall_why(v->why, l->why);
		if (v->open_fn != NULL && v->open_status > 0)
			v->open_status = -ENOTCONN;
	}
	l->lost = true;
	link_go(v, 0);
}

static void
link_on_give_up(void *arg)
{
	struct weft_volume *v = arg;
	struct volcall_link *l = v->link;
	char why[VOLCALL_WHY_BYTES];

	l->give_up = NULL;
	snprintf(why, sizeof(why), "no connection for %.3g s: %.90s",
	         (double)l->attr.reconnect_us / 1e6, l->why);
	volcall_why(l->why, why);
	link_end(v);
	volcall_go_on(v);
}

/* From now on the time without progress counts. False: no memory for its alarm. */
static bool
link_give_up_later(struct weft_volume *v)
{
	struct volcall_link *l = v->link;

	if (l->give_up != NULL)
		weft_alarm_cancel(l->give_up);
	l->give_up = NULL;
	return weft_alarm_set(v->worker, l->attr.reconnect_us, link_on_give_up, v, &l->give_up) ==
	       0;
}

/* What is done again over the new connection goes on: its time begins anew. False: the link has
 * ended, because there is no memory for the alarm. */
static bool
link_moves(struct weft_volume *v)
{
	if (v->link->give_up == NULL || link_give_up_later(v))
		return true;
	link_end(v);
	return false;
}

static void
link_lost(struct weft_volume *v)
{
	struct volcall_link *l = v->link;

	if (l->lost || l->ended)
		return;
	l->lost = true;
	if (l->why[0] == '\0')
		volcall_why(l->why, "connection lost");
	/* A close does not connect again to give back a grant that has ended. */
	if (v->state == VOLCALL_OPENING || v->closing) {
		if (v->closing && !v->close_sent)
			v->close_status = -ENOTCONN;
		link_end(v);
		return;
	}
	l->tell = l->tell || l->up;
	l->up = false;
	volcall_window_lost(v);
	if (l->give_up == NULL && !link_give_up_later(v)) {
		link_end(v);
		return;
	}
	link_go(v, 0);
}

/* End the connection that is lost, and begin another one. */
static void
link_on_go(void *arg)
{
	struct weft_volume *v = arg;
	struct volcall_link *l = v->link;
	const unsigned int doubles = l->tries / LINK_TRIES,
	                   shift = doubles < LINK_DOUBLES ? doubles : LINK_DOUBLES;
	uint64_t time_us = (uint64_t)LINK_FIRST_US << shift;
	bool was = l->conn != NULL;
	int rc;

	l->go = NULL;
	/* The owner polls the worker in a callback. */
	if (v->pins > 0 || v->entered > 0 || (was && l->conn->entered > 0)) {
		link_go(v, LINK_BUSY_US);
		return;
	}
	v->entered++;
	l->step = VOLCALL_STEP_NONE;
	l->up = false;
	volcall_conn_end(l);
	l->lost = false;
	if (!l->ended && !v->closing && was) {
		link_go(v, l->tries > 0 ? (uint64_t)LINK_PAUSE_US << shift : 0);
	} else if (!l->ended && !v->closing) {
		l->tries++;
		l->stats.attempts++;
		if (time_us > l->attr.connect_us || v->state == VOLCALL_OPENING)
			time_us = l->attr.connect_us;
		l->step = VOLCALL_STEP_CONNECT;
		rc = volcall_conn_begin(v, time_us);
		if (rc != 0 && v->state == VOLCALL_OPENING)
			v->open_status = rc;
		if (rc != 0) {
			volcall_why(l->why, strerror(-rc));
			if (v->state == VOLCALL_OPENING)
				link_end(v);
			else
				link_go(v, (uint64_t)LINK_PAUSE_US << shift);
		}
	}
	v->entered--;
	volcall_go_on(v);
}

/* ---- The steps ---- */

static void link_next(struct weft_volume *v, enum volcall_step step);

/* A step's call has ended. False: the link goes no further. */
static bool
link_answered(struct weft_volume *v, enum weft_rpc_status status)
{
	v->calls--;
	if (status == WEFT_RPC_CONNLOST || status == WEFT_RPC_TIMEDOUT) {
		volcall_lost(v);
		return false;
	}
	return !v->link->lost && !v->link->ended;
}

/* The step did not succeed: say why, and try again with a new connection. */
static void
link_failed(struct weft_volume *v, const char *why)
{
	volcall_why(v->link->why, why);
	volcall_lost(v);
}

static void
link_stands(struct weft_volume *v)
{
	if (v->link->step == VOLCALL_STEP_CONNECT)
		link_next(v, VOLCALL_STEP_OPEN);
}

/* All is as it was: the volume goes on. */
static void
link_up(struct weft_volume *v)
{
	struct volcall_link *l = v->link;

	if (l->give_up != NULL)
		weft_alarm_cancel(l->give_up);
	l->give_up = NULL;
	l->step = VOLCALL_STEP_NONE;
	l->tries = 0;
	l->why[0] = '\0';
	l->up = true;
	/* The program may find that it was done, but not that it is lost later on. */
	if (l->unsure)
		l->unkept = ++l->number;
	l->unsure = false;
	v->handle = l->handle;
	if (v->state != VOLCALL_OPENING) {
		l->stats.reconnects++;
		l->tell = true;
		return;
	}
	v->state = VOLCALL_OPEN;
	if (v->open_fn != NULL && !v->closing)
		v->open_status = 0;
}

/* What keeps the volume from being used as before; NULL: nothing does. */
static const char *
link_differs(const struct weft_volume_info *was, const struct weft_volume_info *now)
{
	if (memcmp(was->uuid, now->uuid, sizeof(was->uuid)) != 0)
		return "the export is another volume than before";
	if (now->bytes < was->bytes)
		return "the volume is shorter than before";
	if (was->rights & ~now->rights)
		return "the target grants less than before";
	if (now->io_bytes < was->io_bytes || now->range_bytes < was->range_bytes ||
	    now->compare_bytes < was->compare_bytes || now->window_bytes < was->window_bytes ||
	    now->window_align != was->window_align || now->hash_bytes != was->hash_bytes ||
	    strcmp(now->hash, was->hash) != 0)
		return "the target takes less than before, or hashes otherwise";
	return NULL;
}

static void
link_on_open(void *arg, enum weft_rpc_status status, void *res)
{
	const weft_volrpc_open_res *r = res;
	struct weft_volume *v = arg;
	struct volcall_link *l = v->link;
	struct weft_volume_info info;
	const char *differs;
	int rc;

	if (link_answered(v, status)) {
		rc = volcall_open_result(l->why, status, r, &info, &l->handle);
		if (rc != 0 && v->state == VOLCALL_OPENING) {
			v->open_status = v->open_fn != NULL && !v->closing ? rc : v->open_status;
			link_end(v);
		} else if (rc != 0) {
			volcall_lost(v);
		} else if (v->state == VOLCALL_OPENING) {
			v->info = info;
			link_next(v, VOLCALL_STEP_ASK);
		} else if ((differs = link_differs(&v->info, &info)) != NULL) {
			volcall_why(l->why, differs);
			link_end(v);
		} else {
			link_next(v, VOLCALL_STEP_ASK);
		}
	}
	volcall_go_on(v);
}

/* Go on with the part behind next_end, or with a copy behind `next`. */
static void
link_rewrite_next(struct volcall_link *l)
{
	l->next_off = l->next_end;
	while (l->next != NULL && !volcall_kept_part(l->next, &l->next_off, &l->next_end)) {
		l->next = TAILQ_NEXT(l->next, entry);
		l->next_off = l->next != NULL ? l->next->off_bytes : 0;
	}
}

/* The verifier of the new grant. */
static void
link_asked(struct weft_volume *v, uint64_t verifier)
{
	struct volcall_link *l = v->link;
	const bool same = verifier != 0 && verifier == l->verifier;
	const bool flushed = l->flushed;

	l->flushed = false;
	if (TAILQ_EMPTY(&l->kept) && l->unkept == 0) {
		l->verifier = verifier;
		link_up(v);
	} else if (same && !flushed) {
		link_next(v, VOLCALL_STEP_FLUSH);
	} else if (same) {
		volcall_kept_done(l, l->number);
		link_up(v);
	} else {
		l->asked = verifier;
		if (l->unkept != 0) {
			l->stats.lost++;
			l->owed = -EIO;
			l->unkept = 0;
		}
		l->next = TAILQ_FIRST(&l->kept);
		l->next_end = l->next != NULL ? l->next->off_bytes : 0;
		link_rewrite_next(l);
		link_next(v, VOLCALL_STEP_REWRITE);
	}
}

static void
link_on_asked(void *arg, enum weft_rpc_status status, void *res)
{
	const weft_volrpc_verifier_res *r = res;
	struct weft_volume *v = arg;

	if (link_answered(v, status)) {
		if (status == WEFT_RPC_OK && r->status == WEFT_VOLRPC_OK)
			link_asked(v, r->weft_volrpc_verifier_res_u.verifier);
		else if (status == WEFT_RPC_PROC_UNAVAIL)
			link_asked(v, 0);
		else
			link_failed(v, "the target does not tell its verifier");
	}
	volcall_go_on(v);
}

static void
link_on_flushed(void *arg, enum weft_rpc_status status, void *res)
{
	const weft_volrpc_res *r = res;
	struct weft_volume *v = arg;

	if (link_answered(v, status)) {
		/* What has failed has another verifier, or is written again. */
		if (status != WEFT_RPC_OK || r->status != WEFT_VOLRPC_OK)
			v->link->verifier = 0;
		v->link->flushed = true;
		if (link_moves(v))
			link_next(v, VOLCALL_STEP_ASK);
	}
	volcall_go_on(v);
}

static void
link_on_rewritten(void *arg, enum weft_rpc_status status, void *res)
{
	const weft_volrpc_res *r = res;
	struct weft_volume *v = arg;
	struct volcall_link *l = v->link;

	if (link_answered(v, status)) {
		l->stats.rewritten++;
		if (status != WEFT_RPC_OK || r->status != WEFT_VOLRPC_OK) {
			l->stats.lost++;
			l->owed = -EIO;
		}
		link_rewrite_next(l);
		if (link_moves(v))
			link_next(v, VOLCALL_STEP_REWRITE);
	}
	volcall_go_on(v);
}

/* ---- Their calls ---- */

static int
link_call(struct weft_volume *v, struct weft_rpc_call_attr *a)
{
	int rc;

	a->size = sizeof(*a);
	a->prog = WEFT_VOLRPC_PROG;
	a->vers = WEFT_VOLRPC_V2;
	a->timeout_us = v->timeout_us;
	a->arg = v;
	v->calls++;
	rc = weft_rpc_call_with(v->rpc, a);
	if (rc != 0)
		v->calls--;
	return rc;
}

static int
link_send_open(struct weft_volume *v)
{
	weft_volrpc_open_args args = {.name = v->link->name, .rights = v->link->rights};
	struct weft_rpc_call_attr a = {.proc = WEFT_VOLRPC_OPEN,
	                               .xdr_args = (xdrproc_t)xdr_weft_volrpc_open_args,
	                               .args = &args,
	                               .xdr_res = (xdrproc_t)xdr_weft_volrpc_open_res,
	                               .res_bytes = sizeof(weft_volrpc_open_res),
	                               .fn = link_on_open};

	return link_call(v, &a);
}

static int
link_send_ask(struct weft_volume *v)
{
	const weft_volrpc_verifier_args args = {.handle = v->link->handle};
	struct weft_rpc_call_attr a = {.proc = WEFT_VOLRPC_VERIFIER,
	                               .xdr_args = (xdrproc_t)xdr_weft_volrpc_verifier_args,
	                               .args = &args,
	                               .xdr_res = (xdrproc_t)xdr_weft_volrpc_verifier_res,
	                               .res_bytes = sizeof(weft_volrpc_verifier_res),
	                               .fn = link_on_asked};

	return link_call(v, &a);
}

static int
link_send_range(struct weft_volume *v, uint32_t proc, const weft_volrpc_range_args *args,
                weft_rpc_fn fn)
{
	struct weft_rpc_call_attr a = {.proc = proc,
	                               .xdr_args = (xdrproc_t)xdr_weft_volrpc_range_args,
	                               .args = args,
	                               .xdr_res = (xdrproc_t)xdr_weft_volrpc_res,
	                               .res_bytes = sizeof(weft_volrpc_res),
	                               .fn = fn};

	return link_call(v, &a);
}

static int
link_send_rewrite(struct weft_volume *v)
{
	struct volcall_link *l = v->link;
	struct volcall_kept *k = l->next;
	const uint64_t off = l->next_off, len = l->next_end - off;
	const weft_volrpc_range_args range = {
	        .handle = l->handle, .off = off, .len = len, .flags = k->flags};
	struct weft_rpc_call_attr a = {.proc = WEFT_VOLRPC_WRITE,
	                               .xdr_args = (xdrproc_t)weft_volrpc_xdr_write_args,
	                               .args = &l->write,
	                               .xdr_res = (xdrproc_t)xdr_weft_volrpc_res,
	                               .res_bytes = sizeof(weft_volrpc_res),
	                               .binding = &weft_volrpc_write_binding,
	                               .fn = link_on_rewritten};

	if (k->proc != WEFT_VOLRPC_WRITE)
		return link_send_range(v, k->proc, &range, link_on_rewritten);
	l->write = (weft_volrpc_write_args){
	        .handle = l->handle,
	        .off = off,
	        .flags = k->flags,
	        .data = {(u_int)len, (char *)k->data + (off - k->off_bytes)}};
	return link_call(v, &a);
}

/* Go on with this step. Its call is sent at once, because the endpoint has no other calls. */
static void
link_next(struct weft_volume *v, enum volcall_step step)
{
	struct volcall_link *l = v->link;
	const weft_volrpc_range_args all = {.handle = l->handle};
	int rc = 0;

	if (step == VOLCALL_STEP_REWRITE && l->next == NULL) {
		l->verifier = l->asked;
		link_up(v);
		return;
	}
	l->step = step;
	switch (step) {
	case VOLCALL_STEP_OPEN:
		rc = link_send_open(v);
		break;
	case VOLCALL_STEP_ASK:
		rc = link_send_ask(v);
		break;
	case VOLCALL_STEP_FLUSH:
		rc = link_send_range(v, WEFT_VOLRPC_FLUSH, &all, link_on_flushed);
		break;
	case VOLCALL_STEP_REWRITE:
		rc = link_send_rewrite(v);
		break;
	case VOLCALL_STEP_NONE:
	case VOLCALL_STEP_CONNECT:
		break;
	}
	if (rc != 0)
		link_failed(v, strerror(-rc));
}

/* ---- While it stands ---- */

static void
link_relieved(struct weft_volume_req *req)
{
	struct volcall_link *l = req->owner;

	l->relieving = false;
	if (req->status != 0 && req->status != -ECANCELED && req->status != -ENOTCONN)
		l->owed = req->status;
}

bool
volcall_link_pump(struct weft_volume *v)
{
	struct volcall_link *l = v->link;

	if (l == NULL)
		return true;
	if (l->up && !l->lost && weft_rpc_is_down(v->rpc))
		volcall_lost(v);
	/* Nothing is left to be done on the connection. */
	if (v->closing && l->conn != NULL && !l->lost && v->live_first == NULL &&
	    (v->down || v->state != VOLCALL_OPEN || (v->close_sent && v->calls == 0))) {
		l->lost = true;
		link_go(v, 0);
	}
	if (l->up && volcall_kept_is_much(l) && !l->relieving && !v->closing) {
		l->relieving = true;
		l->relief = (struct weft_volume_req){
		        .op = WEFT_VOLUME_OP_FLUSH, .done = link_relieved, .owner = l};
		volcall_req_begin(v, &l->relief);
	}
	return l->up || v->down;
}

/* ---- Its begin and end ---- */

static void
link_free(struct weft_volume *v)
{
	struct volcall_link *l = v->link;

	volcall_kept_done(l, UINT64_MAX);
	if (l->go != NULL)
		weft_alarm_cancel(l->go);
	if (l->give_up != NULL)
		weft_alarm_cancel(l->give_up);
	free(l);
}

static const struct volcall_link_ops link_ops = {
        .stands = link_stands, .lost = link_lost, .free = link_free};

int
volcall_link_make(struct weft_volume *v, const struct weft_volume_link *attr, const char *name,
                  uint32_t rights)
{
	struct weft_volume_link a;
	struct volcall_link *l;
	int rc = weft_attr_copy(&a, sizeof(a), attr);

	if (rc != 0)
		return rc;
	if (a.ctx == NULL || a.pd == NULL || a.to == NULL || a.to_bytes == 0 ||
	    a.to_bytes > sizeof(l->to))
		return -EINVAL;
	l = calloc(1, sizeof(*l));
	if (l == NULL)
		return -ENOMEM;
	l->attr = a;
	memcpy(&l->to, a.to, a.to_bytes);
	l->attr.to = NULL;
	if (a.reconnect_us == 0)
		l->attr.reconnect_us = LINK_RECONNECT_US;
	if (a.connect_us == 0)
		l->attr.connect_us = LINK_CONNECT_US;
	if (a.keepalive_us == 0)
		l->attr.keepalive_us = LINK_KEEP_US;
	if (a.keep_bytes == 0)
		l->attr.keep_bytes = LINK_KEEP_BYTES;
	snprintf(l->name, sizeof(l->name), "%s", name);
	l->rights = rights;
	TAILQ_INIT(&l->kept);
	v->link = l;
	v->link_ops = &link_ops;
	return 0;
}

int
volcall_link_begin(struct weft_volume *v)
{
	return weft_alarm_set(v->worker, 0, link_on_go, v, &v->link->go) != 0 ? -ENOMEM : 0;
}

int
weft_volume_link_stats(const struct weft_volume *v, struct weft_volume_link_stats *out)
{
	if (weft_handle_check(v, &volcall_kind, __func__) < 0 || v->link == NULL || out == NULL)
		return -EINVAL;
	*out = v->link->stats;
	return 0;
}

struct weft_qp *
weft_volume_qp(const struct weft_volume *v)
{
	if (weft_handle_check(v, &volcall_kind, __func__) < 0 || v->link == NULL || !v->link->up)
		return NULL;
	return v->link->conn != NULL ? v->link->conn->qp : NULL;
}
