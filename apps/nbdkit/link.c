/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The plug-in's volume: its opening, and operations that outlive it. */

#include "link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "addr.h"
#include "ui.h"

#define LINK_AGAIN_US 100000u
#define NS_PER_US     1000u

/* ---- Callbacks, on the worker ---- */

static int
link_auth_step(void *user, const uint8_t *in, uint32_t in_bytes, uint8_t *out, uint32_t *out_bytes)
{
	struct link *l = user;

	return host_auth_step(&l->auth, in, in_bytes, out, WEFT_RPC_AUTH_MAX_BYTES, out_bytes);
}

static int
link_prepare(void *user, struct weft_qp_attr *qp, struct weft_rpc_attr *rpc)
{
	static const struct weft_rpc_auth auth = {.step = link_auth_step, .required = true};
	struct link *l = user;

	(void)qp;
	rpc->user = l;
	if (l->attr->auth.name[0] == '\0')
		return 0;
	l->auth = (struct host_auth){.keys = &l->attr->auth.keys};
	strcpy(l->auth.name, l->attr->auth.name);
	(void)host_auth_place(&l->to, &l->auth.place);
	rpc->auth = &auth;
	return 0;
}

static void
link_moved(void *user, bool up, bool ended, const char *why)
{
	struct link *l = user;

	(void)up;
	(void)why;
	if (!ended)
		return;
	pthread_mutex_lock(&l->lock);
	l->ended = true;
	pthread_mutex_unlock(&l->lock);
}

/* ---- Opening ---- */

static uint32_t
link_rights(const struct link_attr *a)
{
	return a->read_only ? WEFT_VOLUME_RIGHT_READ
	                    : WEFT_VOLUME_RIGHT_READ | WEFT_VOLUME_RIGHT_WRITE |
	                              WEFT_VOLUME_RIGHT_FLUSH |
	                              (a->verify ? WEFT_VOLUME_RIGHT_VERIFY : 0);
}

/** Open the volume once. first: it may be any. */
static int
link_volume(struct link *l, bool first, struct weft_volume **out, char *why)
{
	const struct weft_volume_link k = {.size = sizeof(k),
	                                   .ctx = l->stack.ctx,
	                                   .pd = l->pd,
	                                   .to = (const struct sockaddr *)&l->to,
	                                   .to_bytes = addr_len(&l->to),
	                                   .reconnect_us = l->attr->timeout_ns / NS_PER_US,
	                                   .prepare = link_prepare,
	                                   .moved = link_moved,
	                                   .user = l};
	const struct weft_volume_attr a = {.size = sizeof(a),
	                                   .worker = l->w,
	                                   .name = l->attr->url.export_name,
	                                   .rights = link_rights(l->attr),
	                                   .timeout_us = l->attr->timeout_ns / NS_PER_US,
	                                   .link = &k};
	struct weft_volume *v = NULL;
	int rc = weft_volume_open_wait(&a, why, LINK_WHY, &v);

	if (rc != 0)
		return rc;
	if (first) {
		l->info = *weft_volume_info(v);
	} else if (memcmp(weft_volume_info(v)->uuid, l->info.uuid, sizeof(l->info.uuid)) != 0 ||
	           weft_volume_info(v)->bytes < l->info.bytes) {
		snprintf(why, LINK_WHY, "the export is another volume than before");
		weft_volume_close_wait(v);
		return -ESTALE;
	}
	*out = v;
	return 0;
}

/** Open the volume anew, once. Under l->lock, which is released meanwhile. */
static int
link_anew(struct link *l)
{
	struct weft_volume *old = l->v, *v = NULL;
	char why[LINK_WHY];
	int rc;

	l->opening = true;
	l->v = NULL;
	while (l->users > 0)
		pthread_cond_wait(&l->moved, &l->lock);
	/* The copies end with the old one. */
	if (old != NULL && l->changes > l->flushed)
		l->owed = -EIO;
	l->flushed = l->changes;
	l->ended = false;
	pthread_mutex_unlock(&l->lock);
	weft_volume_close_wait(old);
	rc = link_volume(l, false, &v, why);
	pthread_mutex_lock(&l->lock);
	l->v = v;
	l->opening = false;
	pthread_cond_broadcast(&l->moved);
	return rc;
}

/** Get the volume for one operation. Under l->lock. */
static int
link_get(struct link *l, struct weft_volume **out)
{
	const uint64_t give_up_ns = ui_now_ns() + l->attr->timeout_ns;
	int rc = 0;

	for (;;) {
		while (l->opening)
			pthread_cond_wait(&l->moved, &l->lock);
		if (l->v != NULL && !l->ended) {
			l->users++;
			*out = l->v;
			return 0;
		}
		/* Others that waited before have tried meanwhile, perhaps for long. */
		if (ui_now_ns() >= give_up_ns)
			return -ENOTCONN;
		rc = link_anew(l);
		if (rc == -ESTALE)
			return rc;
		if (rc != 0) {
			pthread_mutex_unlock(&l->lock);
			usleep(LINK_AGAIN_US);
			pthread_mutex_lock(&l->lock);
		}
	}
}

static bool
link_changes(const struct weft_volume_req *req)
{
	return req->op == WEFT_VOLUME_OP_WRITE || req->op == WEFT_VOLUME_OP_ZEROES ||
	       req->op == WEFT_VOLUME_OP_DISCARD;
}

int
link_op(struct link *l, struct weft_volume_req *req)
{
	struct weft_volume *v;
	uint64_t changes;
	int rc;

	pthread_mutex_lock(&l->lock);
	rc = link_get(l, &v);
	if (rc == 0) {
		changes = l->changes;
		pthread_mutex_unlock(&l->lock);
		rc = weft_volume_submit_wait(v, req);
		pthread_mutex_lock(&l->lock);
		if (rc == 0 && link_changes(req) && !(req->flags & WEFT_VOLUME_F_DURABLE))
			l->changes++;
		if (rc == 0 && req->op == WEFT_VOLUME_OP_FLUSH) {
			if (l->flushed < changes)
				l->flushed = changes;
			rc = l->owed;
			l->owed = 0;
		}
		l->users--;
		pthread_cond_broadcast(&l->moved);
	}
	pthread_mutex_unlock(&l->lock);
	return rc;
}

/* ---- Begin and end ---- */

static int
link_first(struct link *l, char why[LINK_WHY])
{
	const struct link_attr *attr = l->attr;
	const uint64_t end_ns = ui_now_ns() + attr->timeout_ns;
	int rc;

	for (;;) {
		rc = link_volume(l, true, &l->v, why);
		if (rc != -ENOTCONN || ui_now_ns() >= end_ns)
			break;
		usleep(LINK_AGAIN_US);
	}
	if (rc == -ENOTCONN || (rc != 0 && why[0] == '\0'))
		snprintf(why, LINK_WHY, "no weft-target answers at weft://%s:%u (%s)",
		         attr->url.host, attr->url.port, strerror(-rc));
	return rc;
}

int
link_open(struct link *l, const struct link_attr *attr, char why[LINK_WHY])
{
	static struct conf one;
	const struct stack_opt so = {.progname = "nbdkit-weft-plugin", .quiet = true};
	const char *unknown;
	int rc;

	memset(l, 0, sizeof(*l));
	l->attr = attr;
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->moved, NULL);
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
	if (rc != 0) {
		snprintf(why, LINK_WHY, "cannot start: %s", strerror(-rc));
		return rc;
	}
	rc = stack_start(&l->stack, why, LINK_WHY);
	return rc != 0 ? rc : link_first(l, why);
}

void
link_close(struct link *l)
{
	weft_volume_close_wait(l->v);
	if (l->w != NULL)
		stack_stop(&l->stack);
	stack_release(NULL, NULL, NULL, l->pd);
	stack_down(&l->stack);
	pthread_cond_destroy(&l->moved);
	pthread_mutex_destroy(&l->lock);
}
