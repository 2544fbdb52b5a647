/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A session with a target: connecting, the export program's calls, and the poll loop. */

#include "cp.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ui.h"
#include "addr.h"
#include "connect_why.h"
#include <weft/volume.h>

#define CP_SPIN_NS  200000ULL /* after this time without work the loop sleeps between polls */
#define CP_SLEEP_US 50
/* how long a lost link is awaited: user_timeout_us of [tcp], whose default this is */
#define CP_LINK_WAIT_US 100000000u
/* after this time without anything received the link is checked */
#define CP_LINK_NS  1000000000ULL
#define CP_ASK_NS   100000000ULL  /* between two questions to the port: they go to the kernel */
#define CP_CLOSE_NS 1000000000ULL /* for a close in order */
#define CP_RETRY_NS 50000000ULL   /* between two OPENs of a busy export */
#define CP_RPC_SQ   32

int
cp_fail(struct cp_session *s, int rc, const char *fmt, ...)
{
	va_list ap;

	if (s->err[0] != '\0')
		return rc; /* the first one is the cause */
	va_start(ap, fmt);
	vsnprintf(s->err, sizeof(s->err), fmt, ap);
	va_end(ap);
	return rc;
}

int
cp_exit_status(const struct cp_session *s, int rc)
{
	if (rc == -EINTR && *s->opt->stop != 0)
		return 128 + *s->opt->stop;
	if (s->exit != 0)
		return s->exit;
	switch (rc) {
	case -ENOTCONN:
	case -ECONNRESET:
	case -ECONNREFUSED:
	case -ECONNABORTED:
	case -ETIMEDOUT:
	case -ENETDOWN:
	case -ENETUNREACH:
	case -EHOSTUNREACH:
		return CP_EXIT_LOST;
	case -EBUSY:
	case -EAGAIN:
	case -ENXIO:
	case -ENODEV:
	case -ESTALE:
	case -ESHUTDOWN:
	case -ECANCELED: /* revoked: perhaps for a time */
		return CP_EXIT_BUSY;
	default:
		return CP_EXIT_FAIL;
	}
}

void
cp_progress(struct cp_session *s, struct ui_progress *bar, uint64_t done_bytes)
{
	if (s->shared != NULL && s->shared->done_bytes < done_bytes)
		s->shared->done_bytes = done_bytes;
	ui_progress_update(bar, done_bytes);
}

/* ---- Callbacks ---- */

static void
session_on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	struct cp_session *s = user;

	(void)cq;
	s->last_ns = ui_now_ns();
	for (unsigned int i = 0; i < n; i++) {
		if (s->rpc != NULL && weft_rpc_wc(s->rpc, &wc[i]))
			continue;
		if (s->on_wc != NULL)
			s->on_wc(s->op, &wc[i]);
	}
}

static void
session_on_event(void *user, const struct weft_event *ev)
{
	struct cp_session *s = user;

	switch (ev->type) {
	case WEFT_EV_ESTABLISHED:
		s->established = true;
		if (s->shared != NULL)
			s->shared->begun = true;
		break;
	case WEFT_EV_REJECTED:
		s->refused = true;
		s->gone = true;
		break;
	case WEFT_EV_CONNECT_ERROR:
	case WEFT_EV_DISCONNECTED:
		s->status = ev->status;
		s->gone = true;
		if (s->rpc != NULL)
			weft_rpc_disconnected(s->rpc);
		break;
	case WEFT_EV_TERMINATED:
		s->terminated = true;
		s->term = ev->term;
		break;
	case WEFT_EV_CONNECT_REQUEST:
	case WEFT_EV_CQ_OVERRUN:
	case WEFT_EV_BAD_RANGE:
	case WEFT_EV_SRQ_LIMIT:
	case WEFT_EV_LAST_WQE:
		break;
	}
}

/* ---- The loop ---- */

int
cp_turn(struct cp_session *s, bool waiting)
{
	struct weft_port_stats ps;
	uint64_t now;

	if (*s->opt->stop != 0)
		return -EINTR;
	if (weft_worker_poll(s->w) > 0) {
		s->idle_ns = 0;
		return s->gone ? -ENOTCONN : 0;
	}
	if (s->gone)
		return -ENOTCONN;
	now = ui_now_ns();
	/* The silence of a peer that owes nothing, for example while a pipe is waited for. */
	if (!waiting)
		s->last_ns = now;
	if (s->idle_ns == 0)
		s->idle_ns = now;
	if (now - s->idle_ns < CP_SPIN_NS)
		return 0;
	if (waiting && now - s->last_ns > CP_LINK_NS) {
		/* On a connection, a link that is down ends the wait earlier, or has it continue:
		 * the target cannot be heard before the link is back, for which TCP waits, too. */
		if (s->established && now >= s->link_ask_ns &&
		    weft_port_stats(s->stack.ports[0], &ps) == 0) {
			s->link_down = !ps.link_up;
			s->link_returns = ps.link_returns;
			s->link_ask_ns = now + CP_ASK_NS;
		}
		if (s->established && s->link_down) {
			if (!s->link_returns || now - s->last_ns > s->link_wait_ns)
				return -ENETDOWN;
			s->link_lost = true;
		} else if (s->link_lost) {
			s->link_lost = false;
			s->last_ns = now;
		} else if (now - s->last_ns > s->opt->silence_ns) {
			return -ETIMEDOUT;
		}
	}
	weft_worker_idle(s->w, CP_SLEEP_US);
	return 0;
}

bool
cp_ahead(const struct cp_session *s, uint64_t begin_ns, uint64_t bytes)
{
	double secs = (double)(ui_now_ns() - begin_ns) / 1e9;

	return s->opt->rate_bytes != 0 && (double)bytes > secs * (double)s->opt->rate_bytes;
}

const char *
cp_why(struct cp_session *s, enum weft_wc_status status)
{
	static char text[160];

	if (status != WEFT_WC_REMOTE_OP && status != WEFT_WC_REMOTE_ACCESS)
		return weft_wc_status_str(status);
	/* The Terminate's event may come a poll or two after the completion. */
	for (uint64_t end = ui_now_ns() + CP_CLOSE_NS;
	     !s->terminated && !s->gone && ui_now_ns() < end;)
		(void)weft_worker_poll(s->w);
	return s->terminated ? weft_terminate_str(&s->term, text, sizeof(text))
	                     : weft_wc_status_str(status);
}

/* What a failure means before the operation knows more. */
static const char *
early_consequence(const struct cp_session *s)
{
	if (s->consequence == NULL)
		return "";
	return s->opt->again ? "; a try before may have committed" : s->consequence;
}

int
cp_fail_conn(struct cp_session *s, int rc, const char *consequence)
{
	char text[160];

	if (rc == -EINTR)
		return cp_fail(s, rc, "interrupted%s", consequence);
	/* The event with the reason may come a poll or two after the first flushed completion. */
	for (uint64_t end = ui_now_ns() + CP_CLOSE_NS;
	     rc == -ENOTCONN && !s->gone && ui_now_ns() < end;)
		(void)weft_worker_poll(s->w);
	if (s->terminated)
		return cp_fail(s, rc, "%s: %s ended the connection: %s%s", s->where,
		               s->term.ours ? "we" : "the target",
		               weft_terminate_str(&s->term, text, sizeof(text)), consequence);
	if (rc == -ETIMEDOUT || rc == -ENETDOWN)
		s->silent = true;
	if (rc == -ETIMEDOUT)
		return cp_fail(s, rc,
		               "%s: the target does not answer any more (%llu s of silence)%s",
		               s->where, (unsigned long long)(s->opt->silence_ns / 1000000000ULL),
		               consequence);
	if (rc == -ENETDOWN)
		return cp_fail(s, rc, "%s: the target is gone (the link is down)%s", s->where,
		               consequence);
	if (s->status == -ENODEV)
		return cp_fail(s, rc, "%s: the connection is lost: the port's device was removed%s",
		               s->where, consequence);
	return cp_fail(s, rc, "%s: the target closed the connection%s%s%s", s->where,
	               s->status != 0 ? ": " : "", s->status != 0 ? strerror(-s->status) : "",
	               consequence);
}

int
cp_post(struct cp_session *s, const struct weft_wr *wr, unsigned int n)
{
	int rc = weft_post_send(s->qp, wr, n);

	if (rc == (int)n)
		return 0;
	/* The queue is as deep as the pipeline, so it never fills. */
	return cp_fail(s, rc < 0 ? rc : -EAGAIN, "%s: posting work failed: %s", s->where,
	               strerror(rc < 0 ? -rc : EAGAIN));
}

/* ---- Connecting ---- */

static int
make_qp(struct cp_session *s)
{
	struct weft_cq_attr ca = {.size = sizeof(ca), .on_wc = session_on_wc, .user = s};
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = session_on_event, .user = s};
	struct weft_qp_attr qa = {.size = sizeof(qa), .worker = s->w, .user = s};
	struct weft_rpc_attr ra = {.size = sizeof(ra),
	                           .inline_bytes = WEFT_VOLUME_INLINE_BYTES,
	                           .user = s,
	                           .auth = cp_auth(s)};
	struct weft_mr_attr ma = {
	        .size = sizeof(ma),
	        .len_bytes = CP_CTL_BYTES,
	        .access = WEFT_ACCESS_LOCAL_WRITE,
	};
	int rc;

	if (s->programs != NULL) {
		ra.programs = s->programs;
		ra.reverse = WEFT_RPC_REVERSE_SIMPLE;
	}
	/* Three requests a block (with --pull one Verify), five for header and commit, and those
	 * of the calls. */
	qa.sq_depth = 3 * (s->opt->depth + 2) + CP_RPC_SQ;
	qa.rq_depth = CP_RPC_SQ;
	qa.ord = (uint16_t)(2 * s->opt->depth < 8 ? 8 : 2 * s->opt->depth);
	ca.depth = 2 * qa.sq_depth;
	rc = weft_pd_alloc(s->stack.ctx, &s->pd);
	if (rc == 0)
		rc = weft_cq_create(s->stack.ctx, &ca, &s->cq);
	if (rc == 0)
		rc = weft_evq_create(s->stack.ctx, &ea, &s->evq);
	qa.send_cq = qa.recv_cq = s->cq;
	qa.evq = s->evq;
	if (rc == 0)
		rc = weft_qp_create(s->pd, &qa, &s->qp);
	ra.qp = s->qp;
	if (rc == 0)
		rc = weft_rpc_create(&ra, &s->rpc);
	if (rc == 0) {
		s->ctl = aligned_alloc(4096, CP_CTL_BYTES);
		ma.addr = s->ctl;
		rc = s->ctl == NULL ? -ENOMEM : weft_mr_reg(s->pd, &ma, &s->ctl_mr);
	}
	if (rc != 0)
		return cp_fail(s, rc, "cannot start: queue pair: %s", strerror(-rc));
	return 0;
}

/** Free the QP and all that goes with it. */
static void
session_drop(struct cp_session *s)
{
	if (s->ctl_mr != NULL)
		weft_mr_dereg(s->ctl_mr, NULL, NULL);
	if (s->qp != NULL)
		weft_qp_destroy(s->qp);
	/* Deliver the flushed completions while the endpoint still exists. */
	if (s->w != NULL)
		for (int i = 0; i < 8; i++)
			(void)weft_worker_poll(s->w);
	if (s->rpc != NULL)
		weft_rpc_destroy(s->rpc);
	stack_release(NULL, s->cq, s->evq, s->pd);
	free(s->ctl);
	s->ctl_mr = NULL;
	s->qp = NULL;
	s->rpc = NULL;
	s->cq = NULL;
	s->evq = NULL;
	s->pd = NULL;
	s->ctl = NULL;
}

/** Connect the QP, and wait until it is. */
static int
connect_qp(struct cp_session *s)
{
	struct weft_conn_attr ca = {
	        .size = sizeof(ca),
	        .timeout_us = (uint32_t)(s->opt->connect_ns / 1000),
	        .keepalive_us = 2000000,
	};
	bool answered = false;
	const char *no_link;
	uint64_t begin_ns;
	int rc;

	s->last_ns = begin_ns = ui_now_ns();
	rc = weft_connect(s->qp, (const struct sockaddr *)&s->to, addr_len(&s->to), &ca);
	if (rc != 0)
		return cp_fail(s, rc, "%s: cannot connect: %s", s->where, strerror(-rc));
	/* weft ends the attempt itself; the clock here only guards against a fault of that. */
	while (!s->established && !s->gone) {
		struct weft_qp_info info;

		rc = cp_turn(s, false);
		/* A measured round trip shows that TCP is connected. */
		weft_qp_query(s->qp, &info);
		answered = answered || info.srtt_us != 0;
		if (rc == 0 && ui_now_ns() - begin_ns > s->opt->connect_ns + CP_CLOSE_NS)
			rc = -ETIMEDOUT;
		if (rc == -EINTR)
			return cp_fail(s, rc, "interrupted");
		if (rc == -ETIMEDOUT && !s->gone) {
			s->gone = true;
			s->status = -ETIMEDOUT;
		}
	}
	if (s->refused)
		return cp_fail(s, -ECONNREFUSED, "%s: the target refuses connections now",
		               s->where);
	no_link = s->established || s->status != -ETIMEDOUT ? NULL
	                                                    : connect_no_link(s->stack.ports[0]);
	if (no_link != NULL)
		return cp_fail(s, -EBUSY, "%s: %s", s->where, no_link);
	if (!s->established && answered)
		return cp_fail(s, s->status != 0 ? s->status : -ENOTCONN,
		               "%s: something listens there, and does not answer as a target does "
		               "(%s)",
		               s->where,
		               s->status == -ETIMEDOUT
		                       ? "it said nothing in time"
		                       : strerror(s->status != 0 ? -s->status : ENOTCONN));
	if (!s->established && s->status == -ETIMEDOUT)
		return cp_fail(s, -ETIMEDOUT,
		               "%s: no target listening (no answer within %llu s); is weft-target "
		               "running there, and the address right?",
		               s->where, (unsigned long long)(s->opt->connect_ns / 1000000000ULL));
	if (!s->established)
		return cp_fail(s, s->status != 0 ? s->status : -ENOTCONN,
		               "%s: no target listening (%s); is weft-target running there, and "
		               "the port of the URL right?",
		               s->where, strerror(s->status != 0 ? -s->status : ENOTCONN));
	return 0;
}

int
cp_connect(struct cp_session *s)
{
	static struct conf one;
	struct stack_opt so = {.progname = "weft-cp", .quiet = true};
	char why[CP_ERR_MAX];
	const char *unknown;
	int rc;

	snprintf(s->where, sizeof(s->where), "weft://%s:%u", s->url.host, s->url.port);
	unknown = addr_resolve(s->url.host, s->url.port, &s->to);
	if (unknown != NULL)
		return cp_fail(s, -ENOENT, "%s: host %s cannot be resolved: %s", s->where,
		               s->url.host, unknown);
	rc = conf_one_port(s->conf, &s->to, NULL, &one, why, sizeof(why));
	if (rc != 0) {
		s->exit = CP_EXIT_FAIL;
		return cp_fail(s, rc, "%s: %s", s->where, why);
	}
	s->link_wait_ns =
	        (one.tcp.user_timeout_us != 0 ? one.tcp.user_timeout_us : CP_LINK_WAIT_US) *
	        1000ULL;
	rc = stack_up(&one, &so, &s->stack, why, sizeof(why));
	if (rc != 0) {
		/* The client's end of a memif exists only beside its server. */
		s->exit = rc != -ENOMEM && strncmp(one.ports[0].dev, "net_memif", 9) == 0
		                  ? CP_EXIT_LOST
		                  : CP_EXIT_FAIL;
		return cp_fail(s, rc, "%s", why);
	}
	s->w = s->stack.workers[0];
	rc = make_qp(s);
	if (rc != 0)
		return rc;
	cp_auth_called(s, &s->to);
	stack_await_partner(&s->stack, s->opt->stop);
	if (*s->opt->stop != 0)
		return cp_fail(s, -EINTR, "interrupted");
	return connect_qp(s);
}

int
cp_connect_again(struct cp_session *s)
{
	int rc;

	session_drop(s);
	s->established = s->gone = s->refused = s->terminated = s->silent = s->open = false;
	s->link_down = s->link_returns = s->link_lost = false;
	s->status = 0;
	s->idle_ns = s->link_ask_ns = 0;
	rc = make_qp(s);
	if (rc != 0)
		return rc;
	cp_auth_called(s, &s->to);
	return connect_qp(s);
}

bool
cp_is_connected(const struct cp_session *s)
{
	return s->established && !s->gone;
}

/* ---- Calls ---- */

struct call {
	struct cp_session *s;
	bool done;
	enum weft_rpc_status status;
	void (*take)(struct call *c, void *res); /* res is valid only inside take() */
	void *arg;
	bool older;   /* a target that does not know the procedure is no fault: */
	bool unknown; /* it was one */
	weft_export_status export_status;
	char why[WEFT_TEXT_MAX + 1];
};

static void
call_done(void *arg, enum weft_rpc_status status, void *res)
{
	struct call *c = arg;

	c->done = true;
	c->status = status;
	if (status == WEFT_RPC_OK)
		c->take(c, res);
}

/* Whether the target refused the connection before its first answer, because our properties lack
 * what it requires. */
static bool
was_refused(const struct cp_session *s, const struct call *c)
{
	const struct weft_rpc_stats *st = weft_rpc_stats(s->rpc);

	return c->status == WEFT_RPC_CONNLOST && st->errors_in > 0 && st->replies_in == 0;
}

static int
call(struct call *c, uint32_t proc, xdrproc_t xdr_args, const void *args, xdrproc_t xdr_res,
     size_t res_bytes, uint64_t timeout_ns)
{
	struct cp_session *s = c->s;
	int rc;

	c->done = false;
	s->last_ns = ui_now_ns();
	rc = weft_rpc_call(s->rpc, WEFT_EXPORT_PROG, WEFT_EXPORT_V1, proc, xdr_args, args, xdr_res,
	                   res_bytes, timeout_ns / 1000, call_done, c);
	if (rc != 0)
		return cp_fail(s, rc, "%s: call failed: %s", s->where, strerror(-rc));
	/* Every call is answered, also on a broken connection. */
	while (!c->done) {
		rc = cp_turn(s, true);
		if (rc == -ENOTCONN && !c->done)
			weft_rpc_disconnected(s->rpc);
		if (rc != 0 && !c->done) {
			/* End the endpoint, so that `c` cannot be answered later. */
			weft_rpc_disconnected(s->rpc);
			return cp_fail_conn(s, rc, early_consequence(s));
		}
	}
	if (cp_auth_failure(s) != NULL)
		return cp_fail(s, -EACCES, "%s: host authentication as %s failed: %s", s->where,
		               s->auth.name, cp_auth_failure(s));
	c->unknown = c->older && c->status == WEFT_RPC_PROC_UNAVAIL;
	if (c->unknown)
		return -EOPNOTSUPP;
	if (s->auth.name[0] == '\0' && (c->status == WEFT_RPC_TRANSPORT || was_refused(s, c)))
		return cp_fail(s, -EPROTO,
		               "%s: call failed: refused (does the target want --auth?)", s->where);
	if (c->status == WEFT_RPC_CONNLOST)
		return cp_fail_conn(s, -ENOTCONN, early_consequence(s));
	if (c->status != WEFT_RPC_OK)
		return cp_fail(s, -EPROTO, "%s: call failed: %s", s->where,
		               weft_rpc_status_str(c->status));
	return 0;
}

static void
take_open(struct call *c, void *vres)
{
	const weft_export_open_res *res = vres;
	const weft_export_grant *a = &res->weft_export_open_res_u.grant;
	struct cp_grant *g = &c->s->grant;

	c->export_status = res->status;
	if (res->status != WEFT_EXPORT_OK) {
		snprintf(c->why, sizeof(c->why), "%s", res->weft_export_open_res_u.why);
		return;
	}
	*g = (struct cp_grant){
	        .handle = a->handle,
	        .stag = a->stag,
	        .rights = a->rights,
	        .header_bytes = a->header_bytes,
	        .hash_bytes = a->hash_bytes,
	        .commit_to = a->commit_to,
	        .slot_to = {a->slot_to[0], a->slot_to[1]},
	        .capacity_bytes = a->capacity,
	        .persistent = a->persistent,
	};
	snprintf(g->hash, sizeof(g->hash), "%s", a->hash);
	snprintf(g->mechanism, sizeof(g->mechanism), "%s", a->mechanism);
}

/* Check that this program can use the grant. */
static int
check_grant(struct cp_session *s)
{
	const struct weft_hash_ops *ops = weft_hash_find(s->grant.hash);

	if (s->grant.header_bytes != EXPFMT_HEADER_BYTES)
		return cp_fail(s, -EPROTO,
		               "%s: export %s has slot headers of %u octets, we know %u", s->where,
		               s->url.export_name, s->grant.header_bytes, EXPFMT_HEADER_BYTES);
	if (ops == NULL || ops->result_bytes != s->grant.hash_bytes)
		return cp_fail(s, -EPROTO, "%s: export %s hashes by %s, which we do not know",
		               s->where, s->url.export_name, s->grant.hash);
	return 0;
}

int
cp_open(struct cp_session *s, uint32_t rights, uint32_t wish)
{
	const uint32_t all = wish & ~rights;
	weft_export_open_args args = {.name = s->url.export_name, .rights = rights | all};
	struct call c = {.s = s, .take = take_open};
	uint64_t end = ui_now_ns() + s->opt->wait_ns;
	int rc;

	wish = all;
	for (;;) {
		rc = call(&c, WEFT_EXPORT_OPEN, (xdrproc_t)xdr_weft_export_open_args, &args,
		          (xdrproc_t)xdr_weft_export_open_res, sizeof(weft_export_open_res),
		          s->opt->silence_ns);
		if (rc != 0)
			return rc;
		if (c.export_status == WEFT_EXPORT_PERM && args.rights != rights) {
			/* The next smaller part of what is wished. */
			wish = (wish - 1) & all;
			args.rights = rights | wish;
			continue;
		}
		if (c.export_status != WEFT_EXPORT_BUSY || ui_now_ns() >= end)
			break;
		for (uint64_t until = ui_now_ns() + CP_RETRY_NS; ui_now_ns() < until;) {
			rc = cp_turn(s, false);
			if (rc != 0)
				return cp_fail_conn(s, rc, early_consequence(s));
		}
	}
	switch (c.export_status) {
	case WEFT_EXPORT_OK:
		s->open = true;
		return check_grant(s);
	case WEFT_EXPORT_NOENT:
		return cp_fail(s, -ENOENT,
		               "%s: no export \"%s\" (weft-cp --list %s shows what there is)",
		               s->where, s->url.export_name, s->where);
	case WEFT_EXPORT_BUSY:
		return cp_fail(s, -EBUSY, "%s: export %s is busy: %s", s->where, s->url.export_name,
		               c.why);
	case WEFT_EXPORT_OFFLINE:
		return cp_fail(s, -ENXIO, "%s: export %s is not served: %s", s->where,
		               s->url.export_name, c.why);
	case WEFT_EXPORT_PERM:
		return cp_fail(s, -EPERM, "%s: export %s: not permitted: %s", s->where,
		               s->url.export_name, c.why);
	case WEFT_EXPORT_INVAL:
		/* Perhaps it holds a volume, which the second version of the program opens. */
		memcpy(s->no_object, c.why, sizeof(s->no_object));
		return -EMEDIUMTYPE;
	default:
		return cp_fail(s, -EIO, "%s: export %s cannot be opened: %s", s->where,
		               s->url.export_name, c.why);
	}
}

static void
take_close(struct call *c, void *vres)
{
	c->export_status = ((const weft_export_close_res *)vres)->status;
}

void
cp_close(struct cp_session *s)
{
	weft_export_close_args args = {.handle = s->grant.handle};
	struct call c = {.s = s, .take = take_close};

	if (!s->open || s->gone)
		return;
	s->open = false;
	if (call(&c, WEFT_EXPORT_CLOSE, (xdrproc_t)xdr_weft_export_close_args, &args,
	         (xdrproc_t)xdr_weft_export_close_res, sizeof(weft_export_close_res),
	         s->opt->silence_ns) != 0) {
		ui_msg("closing the export: %s", s->err);
		s->err[0] = '\0';
	} else if (c.export_status != WEFT_EXPORT_OK &&
	           !(s->revoked && c.export_status == WEFT_EXPORT_STALE)) {
		/* A revoked grant may be gone by now, which was reported. */
		ui_msg("closing the export: the target says status %d", (int)c.export_status);
	}
}

struct list {
	void (*fn)(void *arg, const weft_export_item *it);
	void *arg;
	u_int from; /**< of the next page; 0: there is none */
};

static void
take_items(const struct list *l, const weft_export_item *items, u_int n)
{
	for (u_int i = 0; i < n; i++)
		l->fn(l->arg, &items[i]);
}

static void
take_list(struct call *c, void *vres)
{
	const weft_export_list *res = vres;

	take_items(c->arg, res->items.items_val, res->items.items_len);
}

static void
take_page(struct call *c, void *vres)
{
	const weft_export_page *res = vres;
	struct list *l = c->arg;

	take_items(l, res->items.items_val, res->items.items_len);
	/* A target that turned back would be asked for ever. */
	l->from = res->next > l->from ? res->next : 0;
}

int
cp_list(struct cp_session *s, void (*fn)(void *arg, const weft_export_item *it), void *arg)
{
	struct list l = {.fn = fn, .arg = arg};
	struct call c;
	int rc;

	do {
		const weft_export_list_args args = {.from = l.from};

		c = (struct call){.s = s, .take = take_page, .arg = &l, .older = l.from == 0};
		rc = call(&c, WEFT_EXPORT_LIST_FROM, (xdrproc_t)xdr_weft_export_list_args, &args,
		          (xdrproc_t)xdr_weft_export_page, sizeof(weft_export_page),
		          s->opt->silence_ns);
	} while (rc == 0 && l.from != 0);
	if (rc == 0 || !c.unknown)
		return rc;
	/* An older target: it has no more exports than LIST tells of. */
	c = (struct call){.s = s, .take = take_list, .arg = &l};
	return call(&c, WEFT_EXPORT_LIST, WEFT_EXPORT_XDR_VOID, NULL,
	            (xdrproc_t)xdr_weft_export_list, sizeof(weft_export_list), s->opt->silence_ns);
}

/* ---- Small reads ---- */

static void
ctl_on_wc(void *op, const struct weft_wc *wc)
{
	struct cp_done *d = op;

	if (d->status == WEFT_WC_SUCCESS)
		d->status = wc->status;
	d->left--;
}

/* Post n signaled work requests, and wait for all completions. */
static int
ctl_do(struct cp_session *s, const struct weft_wr *wr, unsigned int n, const char *what)
{
	struct cp_done d = {.left = n, .status = WEFT_WC_SUCCESS};
	int rc;

	s->on_wc = ctl_on_wc;
	s->op = &d;
	s->last_ns = ui_now_ns();
	rc = cp_post(s, wr, n);
	while (rc == 0 && d.left > 0) {
		rc = cp_turn(s, true);
		if (rc != 0 && d.left > 0)
			rc = cp_fail_conn(s, rc, early_consequence(s));
		else
			rc = 0;
	}
	s->on_wc = NULL;
	if (rc != 0)
		return rc;
	if (d.status == WEFT_WC_FLUSHED)
		return cp_fail_conn(s, -ENOTCONN, early_consequence(s));
	if (d.status != WEFT_WC_SUCCESS)
		return cp_fail(s, -EIO, "%s: export %s: %s failed: %s%s", s->where,
		               s->url.export_name, what, cp_why(s, d.status), early_consequence(s));
	return 0;
}

int
cp_read_ctl(struct cp_session *s, uint64_t to, uint32_t len, uint32_t off)
{
	struct weft_sge sge = {
	        .addr = s->ctl + off, .len_bytes = len, .lkey = weft_mr_stag(s->ctl_mr)};
	const struct weft_wr wr = {
	        .opcode = WEFT_WR_READ,
	        .flags = WEFT_WR_SIGNALED,
	        .sg_list = &sge,
	        .num_sge = 1,
	        .rdma = {.stag = s->grant.stag, .to = to},
	};

	return ctl_do(s, &wr, 1, "reading");
}

int
cp_read_word(struct cp_session *s, bool flush, struct expfmt_commit *word)
{
	struct weft_sge sge = {.addr = s->ctl + CP_CTL_WORD,
	                       .len_bytes = EXPFMT_COMMIT_BYTES,
	                       .lkey = weft_mr_stag(s->ctl_mr)};
	const struct weft_wr wr[2] = {
	        {
	                .opcode = WEFT_WR_FLUSH,
	                .flags = WEFT_WR_SIGNALED,
	                .flush = {.stag = s->grant.stag,
	                          .to = s->grant.commit_to,
	                          .len_bytes = EXPFMT_COMMIT_BYTES,
	                          .flags = WEFT_FLUSH_PERSISTENT},
	        },
	        {
	                .opcode = WEFT_WR_READ,
	                .flags = WEFT_WR_SIGNALED,
	                .sg_list = &sge,
	                .num_sge = 1,
	                .rdma = {.stag = s->grant.stag, .to = s->grant.commit_to},
	        },
	};
	int rc = flush ? ctl_do(s, wr, 2, "flushing and reading the commit word")
	               : ctl_do(s, wr + 1, 1, "reading the commit word");

	if (rc == 0)
		expfmt_commit_decode(s->ctl + CP_CTL_WORD, word);
	return rc;
}

/* ---- The end ---- */

void
cp_end(struct cp_session *s)
{
	uint64_t end = ui_now_ns() + CP_CLOSE_NS;

	s->on_wc = NULL;
	if (s->qp != NULL && s->established && !s->gone && !s->silent &&
	    weft_disconnect(s->qp) == 0)
		while (!s->gone && ui_now_ns() < end)
			if (weft_worker_poll(s->w) == 0)
				weft_worker_idle(s->w, CP_SLEEP_US);
	session_drop(s);
	stack_down(&s->stack);
}
