/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Event queues: events of connections, SRQs and CQs, by callback on the worker or polled. */

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "verbs_cq.h"
#include "verbs_srq.h"
#include "weft_verbs_mr.h"
#include "weft_verbs_ops.h"
#include "weft_verbs_qp.h"

int
weft_evq_create(struct weft_ctx *ctx, const struct weft_evq_attr *attr, struct weft_evq **out)
{
	struct weft_vctx *v = weft_vctx_of(ctx);
	struct weft_evq_attr a;
	struct weft_evq *evq;
	int rc;

	if (WEFT_HANDLE_BAD(ctx, CTX) || out == NULL)
		return -EINVAL;
	rc = weft_attr_copy(&a, sizeof(a), attr);
	if (rc < 0)
		return rc;
	evq = calloc(1, sizeof(*evq));
	if (evq == NULL)
		return -ENOMEM;
	evq->ctx = v;
	evq->on_event = a.on_event;
	evq->user = a.user;
	evq->fd = -1;
	atomic_init(&evq->refs, 1);
	TAILQ_INIT(&evq->list);
	if (a.on_event == NULL) {
		evq->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		if (evq->fd < 0) {
			rc = -errno;
			free(evq);
			return rc;
		}
	}
	pthread_mutex_init(&evq->lock, NULL);
	weft_handle_init(&evq->h, WEFT_KIND(EVQ));
	pthread_mutex_lock(&v->lock);
	TAILQ_INSERT_TAIL(&v->evqs, evq, all);
	pthread_mutex_unlock(&v->lock);
	*out = evq;
	return 0;
}

void
weft_verbs_ev_drop_node(struct weft_evnode *n)
{
	if (n == NULL || n->kept)
		return;
	if (n->srq != NULL)
		weft_verbs_srq_unref(n->srq);
	if (n->cq != NULL)
		weft_verbs_cq_unref(n->cq);
	free(n);
}

/**
 * The object of the event was destroyed on another thread. The purge there did not find this event,
 * because it came later or is queued for a callback. Of a polled queue the lock is held, as in the
 * purge.
 */
static bool
verbs_ev_unwanted(const struct weft_evnode *n)
{
	return (n->qp != NULL && atomic_load_explicit(&n->qp->dying, memory_order_acquire)) ||
	       (n->srq != NULL && weft_verbs_srq_is_dead(n->srq)) ||
	       (n->cq != NULL && atomic_load_explicit(&n->cq->dead, memory_order_acquire));
}

void
weft_verbs_ev_free(struct weft_evq *evq)
{
	struct weft_evnode *n;

	while ((n = TAILQ_FIRST(&evq->list)) != NULL) {
		TAILQ_REMOVE(&evq->list, n, link);
		weft_verbs_ev_drop_node(n);
	}
	if (evq->fd >= 0)
		close(evq->fd);
	pthread_mutex_destroy(&evq->lock);
	weft_handle_free(&evq->h, sizeof(evq->h));
}

void
weft_verbs_ev_unref(struct weft_evq *evq)
{
	if (atomic_fetch_sub_explicit(&evq->refs, 1, memory_order_acq_rel) == 1)
		weft_verbs_ev_free(evq);
}

int
weft_evq_destroy(struct weft_evq *evq)
{
	struct weft_vctx *v;

	if (WEFT_HANDLE_CLAIM(evq, EVQ) < 0)
		return -EINVAL;
	v = evq->ctx;
	if (weft_verbs_lock_unused(v, &evq->h, WEFT_KIND(EVQ), &evq->users) < 0)
		return -EBUSY;
	TAILQ_REMOVE(&v->evqs, evq, all);
	pthread_mutex_unlock(&v->lock);
	weft_handle_end(&evq->h, WEFT_KIND(EVQ));
	/*
	 * The requests in the queue were rejected when their listener was closed. An event that is
	 * queued on a worker for a callback holds a reference, and is dropped there.
	 */
	atomic_store_explicit(&evq->dead, true, memory_order_release);
	weft_verbs_ev_unref(evq);
	return 0;
}

struct weft_evnode *
weft_verbs_ev_new(void)
{
	struct verbs_evfull *f = calloc(1, sizeof(*f));

	return f != NULL ? &f->n : NULL;
}

struct weft_evnode *
weft_verbs_ev_new_brief(void)
{
	struct weft_evnode *n = calloc(1, sizeof(*n));

	if (n != NULL)
		n->brief = true;
	return n;
}

/** Take the next note of a kept node. */
static enum verbs_note
verbs_ev_next_note(struct weft_evnode *n)
{
	enum verbs_note note = (enum verbs_note)__builtin_ctz(n->notes);

	n->notes &= n->notes - 1;
	return note;
}

static void
verbs_ev_show_note(struct weft_evnode *n, struct weft_event *ev)
{
	struct weft_qp *qp = n->qp;

	switch (verbs_ev_next_note(n)) {
	case NOTE_BAD_RANGE:
		ev->type = WEFT_EV_BAD_RANGE;
		ev->status = qp->bad_range.status;
		ev->bad_range.stag = qp->bad_range.stag;
		ev->bad_range.to = qp->bad_range.to;
		ev->bad_range.len_bytes = qp->bad_range.len_bytes;
		break;
	case NOTE_OVERRUN:
		ev->type = WEFT_EV_CQ_OVERRUN;
		ev->status = -EOVERFLOW;
		ev->cq = qp->overrun_cq;
		atomic_store_explicit(&qp->overrun_told, true, memory_order_relaxed);
		break;
	case NOTE_TERMINATED:
		ev->type = WEFT_EV_TERMINATED;
		ev->status = -EPROTO;
		ev->term = qp->snap.term;
		break;
	case NOTE_LAST_WQE:
		ev->type = WEFT_EV_LAST_WQE;
		break;
	}
}

/** Build the event for the consumer; of a kept node, its next event. */
static void
verbs_ev_show(struct weft_evnode *n, struct weft_event *ev)
{
	if (!n->brief) {
		*ev = *verbs_ev_full(n);
	} else {
		memset(ev, 0, sizeof(*ev));
		if (n->qp != NULL)
			ev->user = n->qp->user;
		else
			ev->user = n->srq != NULL ? n->srq->user : n->cq->user;
		ev->srq = n->srq;
		ev->cq = n->cq;
		if (n->remote_port != 0)
			weft_ip_to_sockaddr(&n->remote, n->remote_port, &ev->remote);
	}
	ev->qp = n->qp;
	ev->connreq = n->connreq;
	if (n->kept) {
		verbs_ev_show_note(n, ev);
		return;
	}
	ev->type = n->type;
	ev->status = n->status;
}

/** Whether the event comes after completions. Events that open something come before them. */
static bool
verbs_ev_is_late(enum weft_event_type t)
{
	switch (t) {
	case WEFT_EV_CONNECT_REQUEST:
	case WEFT_EV_ESTABLISHED:
		return false;
	default:
		return true;
	}
}

/** The lock is held. Keeps the descriptor readable exactly while the list is not empty. */
static void
verbs_ev_unlink(struct weft_evq *evq, struct weft_evnode *n)
{
	uint64_t v;

	n->notes = 0;
	TAILQ_REMOVE(&evq->list, n, link);
	if (TAILQ_EMPTY(&evq->list) && read(evq->fd, &v, sizeof(v)) < 0) {
		/* Not readable: nothing to clear. */
	}
}

/** The lock is held. */
static void
verbs_ev_link(struct weft_evq *evq, struct weft_evnode *n)
{
	n->evq = evq;
	if (TAILQ_EMPTY(&evq->list)) {
		uint64_t one = 1;

		if (write(evq->fd, &one, sizeof(one)) < 0) {
			/* EAGAIN: readable already. */
		}
	}
	TAILQ_INSERT_TAIL(&evq->list, n, link);
}

void
weft_verbs_ev_note(struct weft_qp *qp, enum verbs_note note)
{
	struct weft_evnode *n = &qp->note;
	bool polled = qp->evq->on_event == NULL, queued;

	if (polled)
		pthread_mutex_lock(&qp->evq->lock);
	queued = n->notes != 0;
	if (!verbs_ev_unwanted(n))
		n->notes |= (uint8_t)(1u << note);
	if (!queued && n->notes != 0) {
		n->type = WEFT_EV_TERMINATED; /* delivered late, as all notes */
		n->remote = qp->snap.remote;
		n->remote_port = qp->snap.named ? qp->snap.remote_port : 0;
		if (polled)
			verbs_ev_link(qp->evq, n);
		else
			weft_verbs_ev_emit(qp->vw, qp->evq, n);
	}
	if (polled)
		pthread_mutex_unlock(&qp->evq->lock);
}

void
weft_verbs_ev_emit(struct weft_vworker *vw, struct weft_evq *evq, struct weft_evnode *n)
{
	bool unwanted;

	n->evq = evq;
	if (evq->on_event != NULL) {
		atomic_fetch_add_explicit(&evq->refs, 1, memory_order_relaxed);
		if (verbs_ev_is_late(n->type))
			TAILQ_INSERT_TAIL(&vw->late, n, link);
		else
			TAILQ_INSERT_TAIL(&vw->early, n, link);
		return;
	}
	pthread_mutex_lock(&evq->lock);
	unwanted = verbs_ev_unwanted(n);
	if (likely(!unwanted))
		verbs_ev_link(evq, n);
	pthread_mutex_unlock(&evq->lock);
	if (unlikely(unwanted))
		weft_verbs_ev_drop_node(n);
}

void
weft_verbs_ev_overrun(struct weft_qp *qp)
{
	struct weft_evnode *n = qp->last_ev != NULL ? qp->last_ev : weft_verbs_ev_new_brief();

	qp->last_ev = NULL;
	if (n == NULL) {
		WEFT_LOG_PEER(verbs, ERR, "qp %u: completions lost, and no memory to tell of it",
		              qp->qpn);
		return;
	}
	n->type = WEFT_EV_CQ_OVERRUN;
	n->status = -EOVERFLOW;
	n->cq = qp->overrun_cq;
	atomic_fetch_add_explicit(&n->cq->refs, 1, memory_order_relaxed);
	n->remote = qp->snap.remote;
	n->remote_port = qp->snap.named ? qp->snap.remote_port : 0;
	weft_verbs_ev_emit(qp->vw, qp->evq, n);
}

static void
verbs_ev_drop(struct weft_evnode_list *list, struct weft_evnode *n)
{
	TAILQ_REMOVE(list, n, link);
	n->notes = 0;
	weft_verbs_ev_unref(n->evq);
	weft_verbs_ev_drop_node(n);
}

void
weft_verbs_ev_purge_qp(struct weft_evq *evq, struct weft_vworker *vw, const struct weft_qp *qp)
{
	struct weft_evnode *n, *next;

	if (evq->on_event == NULL) {
		pthread_mutex_lock(&evq->lock);
		for (n = TAILQ_FIRST(&evq->list); n != NULL; n = next) {
			next = TAILQ_NEXT(n, link);
			if (n->qp == qp) {
				verbs_ev_unlink(evq, n);
				weft_verbs_ev_drop_node(n);
			}
		}
		pthread_mutex_unlock(&evq->lock);
		return;
	}
	if (vw == NULL)
		return;
	for (n = TAILQ_FIRST(&vw->early); n != NULL; n = next) {
		next = TAILQ_NEXT(n, link);
		if (n->qp == qp)
			verbs_ev_drop(&vw->early, n);
	}
	for (n = TAILQ_FIRST(&vw->late); n != NULL; n = next) {
		next = TAILQ_NEXT(n, link);
		if (n->qp == qp)
			verbs_ev_drop(&vw->late, n);
	}
}

void
weft_verbs_ev_purge_srq(struct weft_evq *evq, const struct weft_srq *srq)
{
	struct weft_evnode *n, *next;

	if (evq->on_event != NULL)
		return;
	pthread_mutex_lock(&evq->lock);
	for (n = TAILQ_FIRST(&evq->list); n != NULL; n = next) {
		next = TAILQ_NEXT(n, link);
		if (n->srq == srq) {
			verbs_ev_unlink(evq, n);
			weft_verbs_ev_drop_node(n);
		}
	}
	pthread_mutex_unlock(&evq->lock);
}

bool
weft_verbs_ev_withdraw(struct weft_evq *evq, struct weft_vworker *vw, const struct weft_connreq *r)
{
	struct weft_evnode *n;
	bool found = false;

	if (evq->on_event != NULL) {
		TAILQ_FOREACH (n, &vw->early, link)
			if (n->connreq == r) {
				verbs_ev_drop(&vw->early, n);
				return true;
			}
		return false;
	}
	pthread_mutex_lock(&evq->lock);
	TAILQ_FOREACH (n, &evq->list, link)
		if (n->connreq == r) {
			verbs_ev_unlink(evq, n);
			free(n);
			found = true;
			break;
		}
	pthread_mutex_unlock(&evq->lock);
	return found;
}

/**
 * Deliver an event by callback, unless its object or the queue was just destroyed on another
 * thread, which did not purge events for callbacks.
 */
static bool
verbs_ev_call(struct weft_evq *evq, struct weft_evnode *n)
{
	struct weft_event ev;

	if (atomic_load_explicit(&evq->dead, memory_order_acquire) || verbs_ev_unwanted(n))
		return false;
	verbs_ev_show(n, &ev);
	evq->on_event(evq->user, &ev);
	return true;
}

/** Deliver the notes of a QP. The callback may destroy the QP, and with it the node. */
static unsigned int
verbs_ev_tell_notes(struct weft_evnode *n)
{
	struct weft_evq *evq = n->evq;
	struct weft_qp *qp = n->qp;
	unsigned int total = 0;

	weft_verbs_qp_ref(qp);
	while (n->notes != 0)
		if (verbs_ev_call(evq, n))
			total++;
		else
			n->notes = 0;
	weft_verbs_qp_unref(qp);
	weft_verbs_ev_unref(evq);
	return total;
}

unsigned int
weft_verbs_ev_deliver(struct weft_vworker *vw, bool late)
{
	struct weft_evnode_list *list = late ? &vw->late : &vw->early;
	struct weft_evnode *n;
	unsigned int total = 0;

	while ((n = TAILQ_FIRST(list)) != NULL) {
		struct weft_evq *evq = n->evq;

		TAILQ_REMOVE(list, n, link);
		if (n->kept) {
			total += verbs_ev_tell_notes(n);
			continue;
		}
		if (verbs_ev_call(evq, n))
			total++;
		else if (n->type == WEFT_EV_CONNECT_REQUEST)
			evq->ctx->cm_ops->drop_request(
			        n->connreq); /* its listener is destroyed as well */
		weft_verbs_ev_drop_node(n);
		weft_verbs_ev_unref(evq);
	}
	return total;
}

int
weft_evq_poll(struct weft_evq *evq, struct weft_event *ev)
{
	struct weft_evnode *n, *done = NULL;

	if (WEFT_HANDLE_BAD(evq, EVQ) || ev == NULL)
		return -EINVAL;
	if (evq->on_event != NULL)
		return 0;
	pthread_mutex_lock(&evq->lock);
	while ((n = TAILQ_FIRST(&evq->list)) != NULL && unlikely(verbs_ev_unwanted(n))) {
		verbs_ev_unlink(evq, n);
		weft_verbs_ev_drop_node(n);
	}
	if (n != NULL) {
		/* Under the lock: the QP exists until its events are purged. */
		verbs_ev_show(n, ev);
		if (n->notes == 0)
			verbs_ev_unlink(evq, n);
		if (!n->kept)
			done = n;
	}
	pthread_mutex_unlock(&evq->lock);
	weft_verbs_ev_drop_node(done);
	return n != NULL;
}

int
weft_evq_fd(const struct weft_evq *evq)
{
	if (WEFT_HANDLE_BAD(evq, EVQ))
		return -EINVAL;
	return evq->fd;
}
