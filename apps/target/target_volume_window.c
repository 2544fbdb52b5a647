/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Windows of volumes: memory that a client reaches by RDMA, and that stands for a range. Runs
 * on workers; never blocks. target_volume_turn.c says how clients share them.
 *
 * A window ends in two steps. First its region is deregistered: when that is free no peer reaches
 * the memory. Then the slot is closed, which waits for what the device has of it. A Flush that the
 * device has keeps the region, so a window that is given up on is stopped meanwhile: its range is
 * free for others, whose changes wait for that Flush.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "target.h"
#include "target_rpc.h"
#include "target_say.h"
#include "target_volume.h"
#include "target_volume_client.h"
#include "target_volume_window.h"

#define VWINDOW_TEXT       128  /* room for a reason */
#define WINDOW_WAIT_MIN_MS 1000 /* a client waits so long for a slot, and revoke_ms more */

static void vwindow_end(struct target_vwindow *x);
static void vwindow_look(struct target_vworker *vw);
static void vwindow_press(struct target_vworker *vw);
static bool vwindow_start(struct target_vwindow *x);

/* ---- Answers ---- */

/** Answer the open or move that waits. */
static void
vwindow_answer(struct target_vwindow *x, weft_volrpc_status status, const char *why)
{
	struct weft_rpc_req *req = x->req;
	bool ok = true;

	if (req == NULL)
		return;
	x->req = NULL;
	if (status != WEFT_VOLRPC_OK && x->open_res != NULL)
		ok = target_vfault(&x->open_res->status,
		                   &x->open_res->weft_volrpc_window_res_u.fault, status, 0, 0, "%s",
		                   why);
	else if (status != WEFT_VOLRPC_OK)
		ok = target_vfault(&x->move_res->status, &x->move_res->weft_volrpc_res_u.fault,
		                   status, 0, 0, "%s", why);
	else if (x->open_res != NULL)
		*x->open_res = (weft_volrpc_window_res){
		        .status = WEFT_VOLRPC_OK,
		        .weft_volrpc_window_res_u.window = {
		                .window = x->id, .stag = x->stag, .to = 0}};
	else
		x->move_res->status = WEFT_VOLRPC_OK;
	x->open_res = NULL;
	x->move_res = NULL;
	weft_rpc_done(req, ok ? WEFT_RPC_OK : WEFT_RPC_SYSTEM_ERR);
}

static const char *
vwindow_why(int rc)
{
	switch (rc) {
	case -EBUSY:
		return "another window has a part of the range";
	case -EINVAL:
		return "the range is not aligned, longer than a window, or not in the volume";
	case -EAGAIN:
		return "a Flush or Verify of the window is under way";
	case -EROFS:
		return "the volume can only be read";
	case -EBADMSG:
		return "a block does not have its checksum";
	default:
		return strerror(-rc);
	}
}

const char *
target_vwindow_in_the_way(const struct target_vgrant *g, uint64_t off, uint64_t len, bool write,
                          const char *why, char *buf, size_t size)
{
	char who[sizeof(g->conn->peer)];

	if (!weft_vol_window_holder(g->vc->chan, off, len, write, who, sizeof(who)) ||
	    strcmp(who, g->conn->peer) == 0)
		return why;
	snprintf(buf, size, "%s: of %s", why, who);
	return buf;
}

/** vwindow_why() of an open or move to a range. */
static const char *
vwindow_why_range(const struct target_vwindow *x, uint64_t off, uint64_t len, int rc, char *buf,
                  size_t size)
{
	const char *why = vwindow_why(rc);

	return rc == -EBUSY
	               ? target_vwindow_in_the_way(x->g, off, len, x->attr.write, why, buf, size)
	               : why;
}

/* ---- Counters ---- */

/** Count it among the windows that its client keeps, or no longer. */
static void
vwindow_keep(struct target_vwindow *x, bool keep)
{
	struct target_vclient *cl = x->g->share;
	const uint32_t by = keep ? 1 : UINT32_MAX;

	if (x->kept == keep)
		return;
	x->kept = keep;
	x->g->keeps += by;
	cl->keeps += by;
	if (cl->top != cl)
		cl->top->keeps += by;
}

/** Its slot will be free, or it is. */
static void
vwindow_goes(struct target_vwindow *x, bool goes)
{
	struct target_vchan *vc = x->g->vc;
	const uint32_t by = goes ? 1 : UINT32_MAX;

	vwindow_keep(x, false);
	if (x->goes == goes)
		return;
	x->goes = goes;
	vc->ncoming += by;
	if (!vc->stalled)
		vc->vw->ncoming += by;
}

/** A slot is asked back for the client, or that is over. */
static void
vwindow_promise(struct target_vclient *cl, bool begins)
{
	const uint32_t by = begins ? 1 : UINT32_MAX;

	cl->promised += by;
	if (cl->top != cl)
		cl->top->promised += by;
	if (begins)
		target_vclient_ref(cl);
	else
		target_vclient_put(cl);
}

/** It no longer promises its slot. */
static void
vwindow_unpromise(struct target_vwindow *x)
{
	if (x->promised_to != NULL)
		vwindow_promise(x->promised_to, false);
	x->promised_to = NULL;
}

/** It waits no longer. */
static void
vwindow_unwait(struct target_vwindow *x)
{
	struct target_vgrant *g = x->g;
	struct target_vclient *cl = g->share;

	if (x->alarm != NULL)
		weft_alarm_cancel(x->alarm);
	x->alarm = NULL;
	TAILQ_REMOVE(&g->windows_waiting, x, turn);
	if (TAILQ_EMPTY(&g->windows_waiting))
		TAILQ_REMOVE(&cl->waiting, g, turn);
	g->vc->nwaiting--;
	cl->vw->nwaiting--;
	if (--cl->nwaiting == 0)
		TAILQ_REMOVE(&cl->vw->turns, cl, turn);
}

/* ---- The end of a window ---- */

static void
vwindow_free(struct target_vwindow *x)
{
	struct target_vgrant *g = x->g;

	if (x->alarm != NULL)
		weft_alarm_cancel(x->alarm);
	if (x->close_req != NULL)
		weft_rpc_done(x->close_req, WEFT_RPC_OK);
	vwindow_goes(x, false);
	vwindow_unpromise(x);
	if (x->w != NULL) {
		LIST_REMOVE(x, chan_link);
		g->vc->nwindows--;
	}
	LIST_REMOVE(x, link);
	g->nwindows--;
	if (x->rate.lane != NULL) {
		rate_pass_end(&x->rate);
		rate_pass_put(&x->rate);
	}
	free(x);
	target_vgrant_unref(g);
}

static void
vwindow_closed(void *owner)
{
	struct target_vwindow *x = owner;
	struct target_vworker *vw = x->g->vc->vw;

	vwindow_free(x);
	vwindow_press(vw);
}

static void
vwindow_close(struct target_vwindow *x)
{
	vwindow_goes(x, true);
	x->state = VWINDOW_CLOSING;
	weft_vol_window_close(x->w, vwindow_closed, x);
}

/** The region is free: no peer can reach the memory by it any more. Any worker's thread. */
static void
vwindow_region_free(void *arg)
{
	struct target_vwindow *x = arg;
	struct target_vworker *vw = x->g->vc->vw;

	atomic_store_explicit(&x->region_free, true, memory_order_release);
	(void)eventfd_write(vw->wake_fd, 1);
}

unsigned int
target_vwindows_poll(struct target_vworker *vw)
{
	struct target_vwindow *x, *next;
	unsigned int n = 0;

	for (x = TAILQ_FIRST(&vw->ending); x != NULL; x = next) {
		next = TAILQ_NEXT(x, turn);
		if (!atomic_load_explicit(&x->region_free, memory_order_acquire))
			continue;
		TAILQ_REMOVE(&vw->ending, x, turn);
		x->mr = NULL;
		vwindow_close(x);
		n++;
	}
	/* A look at those that wait goes on in the next poll, and ends when it has reached all. */
	if (vw->look_more && vw->looks > 0) {
		vw->looks--;
		vwindow_look(vw);
		n++;
	}
	return n;
}

static void
vwindow_end_region(struct target_vwindow *x)
{
	vwindow_goes(x, true);
	TAILQ_INSERT_TAIL(&x->g->vc->vw->ending, x, turn);
	x->state = VWINDOW_REGION;
	rate_pass_end(&x->rate);
	weft_mr_dereg(x->mr, vwindow_region_free, x);
}

static void
vwindow_end(struct target_vwindow *x)
{
	struct target_vworker *vw = x->g->vc->vw;

	switch (x->state) {
	case VWINDOW_WAITS:
		vwindow_unwait(x);
		vwindow_answer(x, WEFT_VOLRPC_CANCELED, "it was given up");
		vwindow_free(x);
		break;
	case VWINDOW_OPENING:
		/* Not only when it is ready: it may wait for a medium that does not answer, and
		 * its range is to be free for others. */
		vwindow_answer(x, WEFT_VOLRPC_CANCELED, "it was given up");
		if (x->mr == NULL)
			vwindow_close(x);
		else
			vwindow_end_region(x);
		break;
	case VWINDOW_OPEN:
		TAILQ_REMOVE(&vw->used, x, turn);
		vwindow_end_region(x);
		break;
	case VWINDOW_REGION:
	case VWINDOW_CLOSING:
		break;
	}
}

/** The window ends, whether its client wants it or not. */
static void
vwindow_give_up(struct target_vwindow *x)
{
	const bool has_region = x->mr != NULL;

	vwindow_end(x);
	/* The region ends behind a Flush that the medium has, however long that takes. The range is
	 * free at once. */
	if (has_region)
		weft_vol_window_stop(x->w);
}

void
target_vwindows_end(struct target_vgrant *g)
{
	struct target_vwindow *x, *next;

	/* First those that wait: the end of another one would give them its slot. */
	for (x = LIST_FIRST(&g->windows); x != NULL; x = next) {
		next = LIST_NEXT(x, link);
		if (x->state == VWINDOW_WAITS)
			vwindow_end(x);
	}
	for (x = LIST_FIRST(&g->windows); x != NULL; x = next) {
		next = LIST_NEXT(x, link);
		vwindow_give_up(x);
	}
}

/* ---- Pressure ---- */

static void
vwindow_time(void *arg)
{
	struct target_vwindow *x = arg;
	struct target_vworker *vw = x->g->vc->vw;

	x->alarm = NULL;
	if (x->state == VWINDOW_WAITS) {
		vwindow_unwait(x);
		vwindow_answer(x, WEFT_VOLRPC_NORES,
		               target_vchan_is_full(x->g->vc)
		                       ? "the volume has half of the windows, and all of these are "
		                         "in use; try again later"
		                       : "all windows are in use; try again later");
		vwindow_free(x);
		return;
	}
	target_log_export("export %s: a window of %s was taken back, because others wait for one",
	                  x->g->ex->conf->name, x->g->conn->peer);
	atomic_fetch_add_explicit(&vw->windows_taken_back, 1, memory_order_relaxed);
	vwindow_give_up(x);
}

static uint32_t
vwindow_revoke_ms(const struct target_vwindow *x)
{
	return atomic_load_explicit(&x->g->conn->w->t->revoke_ms, memory_order_relaxed);
}

static void
vwindow_ask_back(struct target_vwindow *x, struct target_vclient *cl)
{
	const uint32_t ms = vwindow_revoke_ms(x);
	const weft_volrpc_revoke_args args = {
	        .handle = x->g->handle, .window = x->id, .deadline_ms = ms};
	struct weft_rpc *rpc = x->g->conn->rpc;

	x->asked = true;
	vwindow_goes(x, true);
	x->promised_to = cl;
	vwindow_promise(cl, true);
	if (rpc != NULL && weft_rpc_version(rpc) == 2)
		(void)weft_rpc_call(rpc, WEFT_VOLRPC_PROG, WEFT_VOLRPC_V2, WEFT_VOLRPC_REVOKE,
		                    (xdrproc_t)xdr_weft_volrpc_revoke_args, &args, NULL, 0,
		                    (uint64_t)(ms > 0 ? ms : 1) * 1000, target_vtold, x->g->ex);
	if (ms == 0 ||
	    weft_alarm_set(x->g->conn->w->w, (uint64_t)ms * 1000, vwindow_time, x, &x->alarm) != 0)
		vwindow_time(x);
}

/** The look of vwindow_press(), at some of those that wait. */
static void
vwindow_look(struct target_vworker *vw)
{
	struct weft_vol_windows_stats s;
	struct target_vwindow *x, *victim;
	bool more = false, of_ask = false;

	vw->look_more = false;
	/* A window that cannot be opened for another reason leaves its slot to the next one. */
	for (;;) {
		weft_vol_windows_query(vw->windows, &s);
		if (s.open == s.slots || (x = target_vwindow_next(vw, false, &more)) == NULL)
			break;
		vwindow_unwait(x);
		(void)vwindow_start(x);
	}
	vw->look_more = more && s.open < s.slots;
	/* Slots that are on their way to other volumes do not help one that has its half. */
	x = target_vwindow_next(vw, true, &of_ask);
	if (x == NULL || (!target_vchan_is_full(x->g->vc) && vw->nwaiting <= vw->ncoming))
		return;
	victim = target_vwindow_victim(vw, x);
	if (victim != NULL)
		vwindow_ask_back(victim, x->g->share);
}

/** Give windows that wait the slots that are free; then ask one window back, if that is fair. */
static void
vwindow_press(struct target_vworker *vw)
{
	vw->looks = vw->nwaiting / TARGET_VWINDOW_LOOKS + 1;
	vwindow_look(vw);
}

void
target_vwindows_stall(struct target_vchan *vc, bool stalled)
{
	struct target_vwindow *x;

	if (vc->stalled == stalled)
		return;
	vc->stalled = stalled;
	vc->vw->ncoming += stalled ? -vc->ncoming : vc->ncoming;
	/* Others are asked for what these will not give. */
	if (stalled)
		LIST_FOREACH (x, &vc->windows, chan_link)
			vwindow_unpromise(x);
	vwindow_press(vc->vw);
}

/* ---- The beginning ---- */

static void
vwindow_ready(struct weft_vol_window *w, int status)
{
	struct target_vwindow *x = weft_vol_window_owner(w);
	struct target_vgrant *g = x->g;
	struct target_vworker *vw = g->vc->vw;
	const struct weft_persist *m = weft_vol_windows_medium(vw->windows);
	const bool moved = x->mr != NULL;
	const struct weft_mr_attr attr = {
	        .size = sizeof(attr),
	        .addr = m->base + weft_vol_window_at(w),
	        .len_bytes = (uint64_t)g->conn->w->t->conf.target.window_bytes,
	        .base_to = 0,
	        .access = target_access(x->rights),
	        .persist = weft_vol_windows_medium(vw->windows),
	        .hash = g->ex->conf->hash,
	        .hash_key = g->ex->hash_key.bytes > 0 ? g->ex->hash_key.key : NULL,
	        .hash_key_bytes = g->ex->hash_key.bytes,
	        .gate = &x->rate.gate,
	};
	int rc = status;

	if (status != 0 && !moved) {
		/* The slot is free already. */
		vwindow_answer(x, target_vstatus(status), vwindow_why(status));
		vwindow_free(x);
		vwindow_press(vw);
		return;
	}
	if (!moved) {
		rate_pass_beside(&x->rate, &g->rate);
		rc = weft_mr_reg(g->conn->pd, &attr, &x->mr);
	}
	if (!moved && rc != 0) {
		vwindow_answer(x, WEFT_VOLRPC_NORES, "no region is left for it");
		x->mr = NULL;
		vwindow_close(x);
		return;
	}
	if (!moved)
		x->stag = weft_mr_stag(x->mr);
	x->state = VWINDOW_OPEN;
	TAILQ_INSERT_TAIL(&vw->used, x, turn);
	vwindow_answer(x, target_vstatus(status), vwindow_why(status));
	/* A window that was moved and could not be filled stands for its new range, with zeros.
	 * The client may not know that, so nothing that it writes there may land. */
	if (status != 0)
		vwindow_end(x);
	vwindow_press(vw); /* it may be what a client waits for */
}

/** Open it. False: no slot is free for it. If that fails otherwise, it is answered and gone. */
static bool
vwindow_start(struct target_vwindow *x)
{
	struct target_vchan *vc = x->g->vc;
	char text[VWINDOW_TEXT];
	int rc;

	if (target_vchan_is_full(vc))
		return false;
	x->state = VWINDOW_OPENING;
	rc = weft_vol_window_open(vc->vw->windows, &x->attr, &x->w);
	if (rc == 0) {
		LIST_INSERT_HEAD(&vc->windows, x, chan_link);
		vc->nwindows++;
		vwindow_keep(x, true);
	}
	if (rc == 0 || rc == -ENOSPC)
		return rc == 0;
	vwindow_answer(
	        x, target_vstatus(rc),
	        vwindow_why_range(x, x->attr.off_bytes, x->attr.len_bytes, rc, text, sizeof(text)));
	vwindow_free(x);
	return true;
}

/** Wait for a slot, for some time. */
static void
vwindow_wait(struct target_vwindow *x)
{
	struct target_vgrant *g = x->g;
	struct target_vclient *cl = g->share;
	struct target_vworker *vw = cl->vw;

	if (weft_alarm_set(g->conn->w->w,
	                   (uint64_t)(WINDOW_WAIT_MIN_MS + vwindow_revoke_ms(x)) * 1000,
	                   vwindow_time, x, &x->alarm) != 0) {
		/* Without an alarm it would wait without a limit. */
		vwindow_answer(x, WEFT_VOLRPC_NORES, "out of memory");
		vwindow_free(x);
		return;
	}
	x->state = VWINDOW_WAITS;
	if (TAILQ_EMPTY(&g->windows_waiting))
		TAILQ_INSERT_TAIL(&cl->waiting, g, turn);
	TAILQ_INSERT_TAIL(&g->windows_waiting, x, turn);
	g->vc->nwaiting++;
	if (cl->nwaiting++ == 0)
		TAILQ_INSERT_TAIL(&vw->turns, cl, turn);
	vw->nwaiting++;
	atomic_fetch_add_explicit(&vw->windows_waited, 1, memory_order_relaxed);
	vwindow_press(vw);
}

/** The window of this number; NULL: not open, or ending. */
static struct target_vwindow *
vwindow_find(const struct target_conn *c, uint32_t id)
{
	struct target_vwindow *x;
	struct target_vgrant *g;

	LIST_FOREACH (g, &c->vgrants, link)
		LIST_FOREACH (x, &g->windows, link)
			if (x->id == id && id != 0 && !g->ended && x->state <= VWINDOW_OPEN)
				return x;
	return NULL;
}

uint64_t
target_vwindow_off(const struct target_conn *c, uint32_t stag, uint64_t to,
                   struct target_export **ex)
{
	struct target_vwindow *x;
	struct target_vgrant *g;

	LIST_FOREACH (g, &c->vgrants, link)
		LIST_FOREACH (x, &g->windows, link)
			if (x->mr != NULL && x->stag == stag) {
				*ex = g->ex;
				return weft_vol_window_off(x->w) + to;
			}
	return 0;
}

const struct target_vgrant *
target_vwindow_grant(const struct target_vworker *vw, uint64_t off)
{
	const struct target_vwindow *x = weft_vol_windows_owner_at(vw->windows, off);

	return x != NULL ? x->g : NULL;
}

uint64_t
target_vwindow_waited(const struct target_vworker *vw, uint64_t off)
{
	struct target_vwindow *x = weft_vol_windows_owner_at(vw->windows, off);

	return x != NULL && x->rate.lane != NULL ? rate_pass_waited(&x->rate) : 0;
}

void
target_vserve_window_open(void *user, struct weft_rpc_req *req, void *vargs, void *vres)
{
	struct target_conn *c = user;
	const weft_volrpc_window_args *args = vargs;
	weft_volrpc_window_res *res = vres;
	weft_volrpc_fault *fault = &res->weft_volrpc_window_res_u.fault;
	struct target_vgrant *g = target_vgrant_find(c, args->handle);
	struct target_vwindow *x = NULL;
	char text[64];
	bool ok;

	if (g == NULL)
		ok = target_vfault(&res->status, fault, WEFT_VOLRPC_STALE, 0, 0,
		                   "no such handle on this connection");
	else if (args->rights == 0 || (args->rights & g->rights) != args->rights)
		ok = target_vfault(&res->status, fault, WEFT_VOLRPC_PERM, 0, 0,
		                   "only %s is granted",
		                   target_rights_str(g->rights, text, sizeof(text)));
	else if (args->flags & ~(uint32_t)WEFT_VOLRPC_WINDOW_FILL)
		ok = target_vfault(&res->status, fault, WEFT_VOLRPC_INVAL, 0, 0, "unknown flags");
	else if (g->nwindows >= TARGET_VWINDOWS_MAX)
		ok = target_vfault(&res->status, fault, WEFT_VOLRPC_NORES, 0, 0,
		                   "as many windows as a grant may have (%u); close some",
		                   TARGET_VWINDOWS_MAX);
	else if ((x = calloc(1, sizeof(*x))) == NULL)
		ok = target_vfault(&res->status, fault, WEFT_VOLRPC_NORES, 0, 0, "out of memory");
	if (x == NULL) {
		weft_rpc_done(req, ok ? WEFT_RPC_OK : WEFT_RPC_SYSTEM_ERR);
		return;
	}
	x->g = g;
	x->id = atomic_fetch_add_explicit(&c->w->t->last_handle, 1, memory_order_relaxed) + 1;
	x->rights = args->rights;
	x->req = req;
	x->open_res = res;
	x->attr = (struct weft_vol_window_attr){
	        .chan = g->vc->chan,
	        .client = &g->client,
	        .off_bytes = args->off,
	        .len_bytes = args->len,
	        .write = (args->rights & WEFT_EXPORT_WRITE) != 0,
	        .fill = (args->flags & WEFT_VOLRPC_WINDOW_FILL) != 0,
	        .ready = vwindow_ready,
	        .owner = x,
	        .who = c->peer,
	};
	target_vgrant_ref(g);
	LIST_INSERT_HEAD(&g->windows, x, link);
	g->nwindows++;
	if (!vwindow_start(x))
		vwindow_wait(x);
}

void
target_vserve_window_move(void *user, struct weft_rpc_req *req, void *vargs, void *vres)
{
	const weft_volrpc_move_args *args = vargs;
	weft_volrpc_res *res = vres;
	struct target_vwindow *x = vwindow_find(user, args->window);
	char text[VWINDOW_TEXT];
	int rc = -EINVAL;
	bool ok;

	if (x == NULL || x->state != VWINDOW_OPEN || x->asked) {
		ok = target_vfault(&res->status, &res->weft_volrpc_res_u.fault, WEFT_VOLRPC_STALE,
		                   0, 0, "no such window, or it is taken back");
		/* The client takes a window that was asked back for gone from here on. */
		if (x != NULL && x->state == VWINDOW_OPEN)
			vwindow_end(x);
		weft_rpc_done(req, ok ? WEFT_RPC_OK : WEFT_RPC_SYSTEM_ERR);
		return;
	}
	if (!(args->flags & ~(uint32_t)WEFT_VOLRPC_WINDOW_FILL))
		rc = weft_vol_window_move(x->w, args->off, args->len,
		                          (args->flags & WEFT_VOLRPC_WINDOW_FILL) != 0);
	if (rc != 0) {
		ok = target_vfault(
		        &res->status, &res->weft_volrpc_res_u.fault,
		        rc == -EAGAIN ? WEFT_VOLRPC_BUSY : target_vstatus(rc), 0, 0, "%s",
		        vwindow_why_range(x, args->off, args->len, rc, text, sizeof(text)));
		/* After any other status the client takes the window for gone (weft_volrpc.x). */
		if (rc != -EINVAL && rc != -EBUSY && rc != -EAGAIN && rc != -EROFS &&
		    rc != -EOPNOTSUPP)
			vwindow_end(x);
		weft_rpc_done(req, ok ? WEFT_RPC_OK : WEFT_RPC_SYSTEM_ERR);
		return;
	}
	TAILQ_REMOVE(&x->g->vc->vw->used, x, turn);
	x->state = VWINDOW_OPENING;
	x->req = req;
	x->move_res = res;
}

void
target_vserve_window_close(void *user, struct weft_rpc_req *req, void *vargs, void *vres)
{
	const weft_volrpc_window_close_args *args = vargs;
	weft_volrpc_res *res = vres;
	struct target_vwindow *x = vwindow_find(user, args->window);
	bool ok;

	if (x == NULL || x->close_req != NULL) {
		ok = target_vfault(&res->status, &res->weft_volrpc_res_u.fault, WEFT_VOLRPC_STALE,
		                   0, 0, "no such window on this connection");
		weft_rpc_done(req, ok ? WEFT_RPC_OK : WEFT_RPC_SYSTEM_ERR);
		return;
	}
	res->status = WEFT_VOLRPC_OK;
	x->close_req = req;
	/* The call that opens or moves it has timed out at the client. It may wait for the medium
	 * for long, and its range is to be free for others. */
	if (x->state == VWINDOW_OPENING)
		vwindow_give_up(x);
	else
		vwindow_end(x);
}
