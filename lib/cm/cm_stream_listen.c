/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Listening for streams: a listener, and its part on each worker. */

#include <stdlib.h>
#include <unistd.h>

#include "cm_listen.h"
#include "cm_stream.h"

/** Drop a reference of the listener. */
static void
stream_lsn_unref(struct weft_stream_listener *l)
{
	if (atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) == 1)
		weft_handle_free(&l->h, sizeof(l->h));
}

/** TCP has no connection left, or no buffers for one more: an idle one with MPA may go. */
static bool
stream_lsn_room(void *arg, const struct weft_ip *remote, bool own, bool take)
{
	return cm_admit_make_room(((const struct cm_stream_lsn *)arg)->vw, remote, own, take);
}

static int
stream_lsn_open(struct cm_stream_lsn *lsn)
{
	const struct weft_stream_listener *l = lsn->l;
	int rc = weft_tcp_listen(lsn->vw->cm->tcp, &lsn->addr, l->bits, l->port,
	                         RTE_MAX(l->attr.backlog, (uint32_t)LISTEN_DEFAULT_BACKLOG),
	                         cm_stream_accept, lsn, &lsn->tcp);

	if (rc == 0) {
		weft_tcp_listener_set_room(lsn->tcp, stream_lsn_room);
		weft_tcp_listener_set_dscp(lsn->tcp, l->dscp);
	}
	return rc;
}

static void
stream_lsn_open_run(struct weft_work_item *m)
{
	struct cm_stream_lsn *lsn = container_of(m, struct cm_stream_lsn, open);
	struct weft_stream_listener *l = lsn->l;
	int rc = atomic_load_explicit(&l->closed, memory_order_acquire) ? 0 : stream_lsn_open(lsn);

	if (rc < 0)
		WEFT_LOG(cm, ERR, "worker %u cannot listen: %s", lsn->vw->id, strerror(-rc));
	atomic_store_explicit(&lsn->answered, true, memory_order_release);
	stream_lsn_unref(l);
}

static void
stream_lsn_close(struct cm_stream_lsn *lsn)
{
	if (lsn->tcp != NULL)
		weft_tcp_unlisten(lsn->vw->cm->tcp, lsn->tcp);
	lsn->tcp = NULL;
}

static void
stream_lsn_close_run(struct weft_work_item *m)
{
	struct cm_stream_lsn *lsn = container_of(m, struct cm_stream_lsn, close);

	stream_lsn_close(lsn);
	stream_lsn_unref(lsn->l);
}

/** Wait until the workers listen, as weft_listen() does. */
static void
stream_lsn_await(const struct weft_stream_listener *l)
{
	for (unsigned int i = 0; i < l->nparts; i++)
		if (weft_vworker_is_mine(l->part[i].vw))
			return;
	for (unsigned int i = 0, turns = 0; i < l->nparts && turns < LISTEN_AWAIT_TURNS; turns++) {
		if (!cm_listen_waits(l->part[i].vw, &l->part[i].answered))
			i++;
		else
			usleep(LISTEN_AWAIT_US);
	}
}

/** Take attributes and address. */
static int
stream_lsn_set(struct weft_stream_listener *l, const struct sockaddr *addr, socklen_t addr_len,
               const struct weft_stream_listen_attr *attr)
{
	int rc = weft_attr_copy(&l->attr, sizeof(l->attr), attr);
	bool any;

	if (rc == 0)
		rc = cm_attr_addr(addr, addr_len, &l->addr, &l->port);
	if (rc < 0)
		return rc;
	if (l->attr.accept == NULL || l->port == 0 || !cm_attr_dscp(l->attr.dscp, &l->dscp))
		return -EINVAL;
	any = cm_listen_any(&l->addr);
	rc = cm_listen_bits(&l->addr, any, l->attr.prefix_len);
	if (rc < 0)
		return rc;
	l->bits = (uint8_t)rc;
	if (any)
		memset(&l->addr, 0, sizeof(l->addr)); /* the form that TCP uses for any address */
	atomic_init(&l->refs, 1);
	return 0;
}

/** The listener's parts, and its place in the context. */
static int
stream_lsn_enter(struct weft_stream_listener *l, struct weft_vctx *v)
{
	int rc = 0;

	l->ctx = v;
	pthread_mutex_lock(&v->lock);
	if (cm_listen_taken(v, &l->addr, l->bits, l->port))
		rc = -EADDRINUSE;
	for (uint32_t i = 0; i < weft_vctx_nworkers(v) && rc == 0; i++) {
		struct cm_stream_lsn *lsn = &l->part[l->nparts];

		if (!cm_listen_local(v->worker[i], &l->addr, l->bits, &lsn->addr))
			continue;
		lsn->l = l;
		lsn->vw = v->worker[i];
		l->nparts++;
	}
	if (rc == 0 && l->nparts == 0)
		rc = -EADDRNOTAVAIL;
	if (rc == 0) {
		weft_handle_init(&l->h, WEFT_KIND(STREAM_LISTENER));
		TAILQ_INSERT_TAIL(&v->cm->stream_listeners, l, all);
	}
	pthread_mutex_unlock(&v->lock);
	return rc;
}

int
weft_stream_listen(struct weft_ctx *ctx, const struct sockaddr *addr, socklen_t addr_len,
                   const struct weft_stream_listen_attr *attr, struct weft_stream_listener **out)
{
	struct weft_stream_listener *l;
	int rc;

	if (WEFT_HANDLE_BAD(ctx, CTX) || out == NULL)
		return -EINVAL;
	l = calloc(1, sizeof(*l));
	if (l == NULL)
		return -ENOMEM;
	rc = stream_lsn_set(l, addr, addr_len, attr);
	if (rc == 0)
		rc = stream_lsn_enter(l, weft_vctx_of(ctx));
	if (rc < 0) {
		free(l);
		return rc;
	}
	for (unsigned int i = 0; i < l->nparts && rc == 0; i++) {
		struct cm_stream_lsn *lsn = &l->part[i];

		if (weft_vworker_is_mine(lsn->vw)) {
			rc = stream_lsn_open(lsn);
			continue;
		}
		lsn->open.fn = stream_lsn_open_run;
		atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
		weft_work_send(&lsn->vw->work, &lsn->open);
	}
	if (rc < 0) {
		weft_stream_unlisten(l);
		return rc;
	}
	stream_lsn_await(l);
	*out = l;
	return 0;
}

void
weft_stream_unlisten(struct weft_stream_listener *l)
{
	struct weft_vctx *v;

	if (WEFT_HANDLE_CLAIM(l, STREAM_LISTENER) < 0)
		return;
	weft_handle_end(&l->h, WEFT_KIND(STREAM_LISTENER));
	v = l->ctx;
	pthread_mutex_lock(&v->lock);
	TAILQ_REMOVE(&v->cm->stream_listeners, l, all);
	pthread_mutex_unlock(&v->lock);
	atomic_store_explicit(&l->closed, true, memory_order_release);
	for (unsigned int i = 0; i < l->nparts; i++) {
		struct cm_stream_lsn *lsn = &l->part[i];

		if (weft_vworker_is_mine(lsn->vw)) {
			stream_lsn_close(lsn);
			continue;
		}
		lsn->close.fn = stream_lsn_close_run;
		atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
		weft_work_send(&lsn->vw->work, &lsn->close);
	}
	stream_lsn_unref(l);
}

void
cm_stream_unlisten_all(struct weft_vctx *v)
{
	struct weft_stream_listener *l;

	while ((l = TAILQ_FIRST(&v->cm->stream_listeners)) != NULL)
		weft_stream_unlisten(l);
}
