/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The link to a volume: the connection, and operations that outlive it. */

#include "link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "addr.h"
#include "ui.h"

#define LINK_CONNECT_US 2000000u
#define LINK_KEEP_US    500000u
#define LINK_AGAIN_US   100000u
#define LINK_CALL_US    10000000u

/* ---- Functions on the worker ---- */

struct errand {
	struct link *l;
	int (*fn)(struct link *l);
	int rc;
	bool done;
	pthread_mutex_t lock;
	pthread_cond_t cond;
};

static void
errand_run(void *arg)
{
	struct errand *e = arg;
	int rc = e->fn(e->l);

	pthread_mutex_lock(&e->lock);
	e->rc = rc;
	e->done = true;
	pthread_cond_signal(&e->cond);
	pthread_mutex_unlock(&e->lock);
}

/** Run fn on the worker, and wait for its result. */
static int
errand(struct link *l, int (*fn)(struct link *l))
{
	struct errand e = {.l = l, .fn = fn};
	int rc;

	pthread_mutex_init(&e.lock, NULL);
	pthread_cond_init(&e.cond, NULL);
	while ((rc = weft_worker_call(l->w, errand_run, &e)) == -EAGAIN)
		usleep(1000);
	pthread_mutex_lock(&e.lock);
	while (rc == 0 && !e.done)
		pthread_cond_wait(&e.cond, &e.lock);
	pthread_mutex_unlock(&e.lock);
	pthread_cond_destroy(&e.cond);
	pthread_mutex_destroy(&e.lock);
	return rc != 0 ? rc : e.rc;
}

static void
link_tell(struct link *l, bool *what)
{
	pthread_mutex_lock(&l->lock);
	*what = true;
	pthread_cond_broadcast(&l->moved);
	pthread_mutex_unlock(&l->lock);
}

static void
link_on_wc(void *user, struct weft_cq *cq, const struct weft_wc *wc, unsigned int n)
{
	(void)user;
	(void)cq;
	for (unsigned int i = 0; i < n; i++) {
		struct link_conn *c = wc[i].qp_user;

		if (c->rpc != NULL)
			(void)weft_rpc_wc(c->rpc, &wc[i]);
	}
}

static void
link_on_event(void *user, const struct weft_event *ev)
{
	struct link *l = user;
	struct link_conn *c = ev->user;

	switch (ev->type) {
	case WEFT_EV_ESTABLISHED:
		link_tell(l, &c->established);
		break;
	case WEFT_EV_REJECTED:
	case WEFT_EV_CONNECT_ERROR:
	case WEFT_EV_DISCONNECTED:
		if (c->rpc != NULL)
			weft_rpc_disconnected(c->rpc);
		link_tell(l, &c->gone);
		break;
	case WEFT_EV_TERMINATED:
	case WEFT_EV_CONNECT_REQUEST:
	case WEFT_EV_CQ_OVERRUN:
	case WEFT_EV_BAD_RANGE:
	case WEFT_EV_SRQ_LIMIT:
	case WEFT_EV_LAST_WQE:
		break;
	}
}

static int
link_auth_step(void *user, const uint8_t *in, uint32_t in_bytes, uint8_t *out, uint32_t *out_bytes)
{
	struct link *l = user;

	return host_auth_step(&l->auth, in, in_bytes, out, WEFT_RPC_AUTH_MAX_BYTES, out_bytes);
}

/** Begin a connection. */
static int
link_begin(struct link *l)
{
	static const struct weft_rpc_auth auth = {.step = link_auth_step, .required = true};
	static const struct weft_rpc_program *const programs[] = {&weft_volume_revokes, NULL};
	struct weft_qp_attr qa = {.size = sizeof(qa),
	                          .worker = l->w,
	                          .send_cq = l->cq,
	                          .recv_cq = l->cq,
	                          .evq = l->evq,
	                          .sq_depth = 512,
	                          .rq_depth = 128};
	struct weft_rpc_attr ra = {.size = sizeof(ra),
	                           .user = l,
	                           .inline_bytes = WEFT_VOLUME_INLINE_BYTES,
	                           .credits = 64,
	                           .programs = programs,
	                           .reverse = WEFT_RPC_REVERSE_SIMPLE};
	const struct weft_conn_attr na = {
	        .size = sizeof(na), .timeout_us = LINK_CONNECT_US, .keepalive_us = LINK_KEEP_US};
	struct link_conn *c = calloc(1, sizeof(*c));
	int rc;

	if (c == NULL)
		return -ENOMEM;
	c->l = l;
	c->next = l->conn;
	l->conn = c;
	qa.user = c;
	rc = weft_qp_create(l->pd, &qa, &c->qp);
	if (rc != 0)
		return rc;
	if (l->attr->auth.name[0] != '\0') {
		l->auth = (struct host_auth){.keys = &l->attr->auth.keys};
		strcpy(l->auth.name, l->attr->auth.name);
		(void)host_auth_place(&l->to, &l->auth.place);
		ra.auth = &auth;
	}
	ra.qp = c->qp;
	rc = weft_rpc_create(&ra, &c->rpc);
	if (rc == 0)
		rc = weft_connect(c->qp, (const struct sockaddr *)&l->to, addr_len(&l->to), &na);
	return rc;
}

/** End the connection. */
static int
link_end(struct link *l)
{
	struct link_conn *c = l->conn;

	if (c == NULL)
		return 0;
	if (c->rpc != NULL)
		weft_rpc_disconnected(c->rpc);
	if (c->qp != NULL)
		weft_qp_destroy(c->qp);
	c->qp = NULL;
	if (c->rpc != NULL)
		weft_rpc_destroy(c->rpc);
	c->rpc = NULL;
	return 0;
}

/* ---- The connection ---- */

static uint64_t
link_now_ns(void)
{
	return ui_now_ns();
}

/** Wait until the connection stands or has failed. */
static int
link_stands(struct link *l)
{
	struct link_conn *c = l->conn;
	int rc;

	pthread_mutex_lock(&l->lock);
	while (!c->established && !c->gone)
		pthread_cond_wait(&l->moved, &l->lock);
	rc = c->gone ? -ENOTCONN : 0;
	pthread_mutex_unlock(&l->lock);
	return rc;
}

/** Open the volume; do again what may be lost. The caller is the one thread that makes the
 * connection. */
static int
link_volume(struct link *l, struct weft_volume **out, char *why)
{
	const struct weft_volume_attr a = {
	        .size = sizeof(a),
	        .rpc = l->conn->rpc,
	        .worker = l->w,
	        .name = l->attr->url.export_name,
	        .rights = l->attr->read_only
	                          ? WEFT_VOLUME_RIGHT_READ
	                          : WEFT_VOLUME_RIGHT_READ | WEFT_VOLUME_RIGHT_WRITE |
	                                    WEFT_VOLUME_RIGHT_FLUSH |
	                                    (l->attr->verify ? WEFT_VOLUME_RIGHT_VERIFY : 0),
	        .timeout_us = LINK_CALL_US,
	};
	struct weft_volume *v = NULL;
	int rc = weft_volume_open_wait(&a, why, LINK_WHY, &v);

	if (rc == 0 && l->generation > 0 &&
	    memcmp(weft_volume_info(v)->uuid, l->info.uuid, sizeof(l->info.uuid)) != 0) {
		snprintf(why, LINK_WHY, "the export is another volume than before");
		rc = -ESTALE;
	}
	if (rc == 0)
		rc = link_kept_again(l, v);
	if (rc != 0) {
		weft_volume_close_wait(v);
		return rc;
	}
	*out = v;
	return 0;
}

/** Make the connection once. Under l->lock, which is released meanwhile. */
static int
link_make(struct link *l, char *why)
{
	struct weft_volume *v = NULL, *old = l->v;
	int rc;

	l->making = true;
	l->v = NULL;
	while (l->users > 0)
		pthread_cond_wait(&l->moved, &l->lock);
	pthread_mutex_unlock(&l->lock);
	why[0] = '\0';
	weft_volume_close_wait(old);
	(void)errand(l, link_end);
	rc = errand(l, link_begin);
	if (rc == 0)
		rc = link_stands(l);
	if (rc == 0)
		rc = link_volume(l, &v, why);
	pthread_mutex_lock(&l->lock);
	if (rc == 0) {
		if (l->generation++ == 0)
			l->info = *weft_volume_info(v);
		else
			l->reconnects++;
		l->v = v;
	}
	l->making = false;
	pthread_cond_broadcast(&l->moved);
	return rc;
}

/** Get the volume for one operation. Under l->lock. */
static int
link_get(struct link *l, uint64_t give_up_ns, struct weft_volume **out)
{
	char why[LINK_WHY];

	for (;;) {
		while (l->making)
			pthread_cond_wait(&l->moved, &l->lock);
		if (l->v != NULL) {
			l->users++;
			*out = l->v;
			return 0;
		}
		if (link_now_ns() >= give_up_ns)
			return -ENOTCONN;
		if (link_make(l, why) != 0) {
			pthread_mutex_unlock(&l->lock);
			usleep(LINK_AGAIN_US);
			pthread_mutex_lock(&l->lock);
		}
	}
}

/** Whether the status says nothing of the volume, but of the connection. */
static bool
link_is_lost(int rc)
{
	return rc == -ENOTCONN || rc == -ESTALE || rc == -ETIMEDOUT || rc == -EPROTO;
}

/** Flush because the copies have grown. */
static void
link_relieve(struct link *l, struct weft_volume *v, uint64_t number)
{
	struct weft_volume_req req = {.op = WEFT_VOLUME_OP_FLUSH};

	const int rc = weft_volume_submit_wait(v, &req);

	pthread_mutex_lock(&l->lock);
	if (rc == 0)
		link_kept_done(l, number);
	else if (!link_is_lost(rc))
		l->owed = rc;
	pthread_mutex_unlock(&l->lock);
}

int
link_op(struct link *l, struct weft_volume_req *req)
{
	const struct weft_volume_req ask = *req;
	const uint64_t give_up_ns = link_now_ns() + l->attr->timeout_ns;
	struct link_kept *kept = link_kept_new(req);
	uint64_t number = 0, generation;
	struct weft_volume *v;
	bool relieve;
	int rc;

	/* Without a copy it is durable at once. */
	if (kept == NULL && (req->op == WEFT_VOLUME_OP_WRITE || req->op == WEFT_VOLUME_OP_ZEROES ||
	                     req->op == WEFT_VOLUME_OP_DISCARD))
		req->flags |= WEFT_VOLUME_F_DURABLE;
	pthread_mutex_lock(&l->lock);
	for (;;) {
		rc = link_get(l, give_up_ns, &v);
		if (rc != 0)
			break;
		number = l->number;
		generation = l->generation;
		pthread_mutex_unlock(&l->lock);
		rc = weft_volume_submit_wait(v, req);
		pthread_mutex_lock(&l->lock);
		if (rc == 0 && kept != NULL) {
			link_kept_add(l, kept);
			kept = NULL;
		}
		if (rc == 0 && req->op == WEFT_VOLUME_OP_FLUSH) {
			link_kept_done(l, number);
			rc = l->owed;
			l->owed = 0;
		}
		relieve = rc == 0 && l->kept_bytes > LINK_KEPT_MAX;
		if (relieve) {
			number = l->number;
			pthread_mutex_unlock(&l->lock);
			link_relieve(l, v, number);
			pthread_mutex_lock(&l->lock);
		}
		l->users--;
		pthread_cond_broadcast(&l->moved);
		if (!link_is_lost(rc))
			break;
		/* One of those that saw the loss makes the connection again. */
		if (l->generation == generation && l->v == v && !l->making) {
			char why[LINK_WHY];

			(void)link_make(l, why);
		}
		*req = ask;
		if (kept == NULL && link_now_ns() >= give_up_ns) {
			rc = -ENOTCONN;
			break;
		}
	}
	pthread_mutex_unlock(&l->lock);
	free(kept);
	return rc;
}

/* ---- Open, close ---- */

int
link_open(struct link *l, const struct link_attr *attr, char why[LINK_WHY])
{
	static struct conf one;
	const struct stack_opt so = {.progname = "nbdkit-weft-plugin", .quiet = true};
	struct weft_cq_attr ca = {
	        .size = sizeof(ca), .depth = 4096, .on_wc = link_on_wc, .user = l};
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = link_on_event, .user = l};
	const char *unknown;
	uint64_t end_ns;
	int rc;

	memset(l, 0, sizeof(*l));
	l->attr = attr;
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->moved, NULL);
	TAILQ_INIT(&l->kept);
	unknown = addr_resolve(attr->url.host, attr->url.port, &l->to);
	if (unknown != NULL) {
		snprintf(why, LINK_WHY, "host %s cannot be resolved: %s", attr->url.host, unknown);
		return -ENOENT;
	}
	rc = conf_one_port(&attr->conf, &l->to, NULL, &one, why, LINK_WHY);
	if (rc == 0)
		rc = stack_up(&one, &so, &l->stack, why, LINK_WHY);
	if (rc != 0)
		return rc;
	l->w = l->stack.workers[0];
	rc = weft_pd_alloc(l->stack.ctx, &l->pd);
	if (rc == 0)
		rc = weft_cq_create(l->stack.ctx, &ca, &l->cq);
	if (rc == 0)
		rc = weft_evq_create(l->stack.ctx, &ea, &l->evq);
	if (rc != 0) {
		snprintf(why, LINK_WHY, "cannot start: %s", strerror(-rc));
		return rc;
	}
	rc = stack_start(&l->stack, why, LINK_WHY);
	if (rc != 0)
		return rc;
	end_ns = link_now_ns() + attr->timeout_ns;
	do {
		pthread_mutex_lock(&l->lock);
		rc = link_make(l, why);
		pthread_mutex_unlock(&l->lock);
		if (rc == -ENOTCONN)
			usleep(LINK_AGAIN_US);
	} while (rc == -ENOTCONN && link_now_ns() < end_ns);
	if (rc != 0 && why[0] == '\0')
		snprintf(why, LINK_WHY, "no weft-target answers at weft://%s:%u (%s)",
		         attr->url.host, attr->url.port, strerror(-rc));
	return rc;
}

void
link_close(struct link *l)
{
	struct link_conn *c;

	if (l->v != NULL)
		weft_volume_close_wait(l->v);
	if (l->w != NULL && l->conn != NULL)
		(void)errand(l, link_end);
	if (l->w != NULL)
		stack_stop(&l->stack);
	stack_release(NULL, l->cq, l->evq, l->pd);
	stack_down(&l->stack);
	while ((c = l->conn) != NULL) {
		l->conn = c->next;
		free(c);
	}
	link_kept_done(l, UINT64_MAX);
	pthread_cond_destroy(&l->moved);
	pthread_mutex_destroy(&l->lock);
}
