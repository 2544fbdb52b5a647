/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A stream: from the connection that TCP offers to its end. */

#include <stdlib.h>

#include "cm_listen.h"
#include "cm_stream.h"

/** Octets that one call may write: some 10 us of copying. */
#define STREAM_TURN_BYTES (64U * 1024)

static void
stream_free(struct weft_work_item *m)
{
	struct weft_stream *s = container_of(m, struct weft_stream, later);

	weft_handle_free(&s->h, sizeof(s->h));
}

/** The connection is gone, or is to be without an up-call: give back all but the memory. */
static void
stream_release(struct weft_stream *s)
{
	struct cm_peer *peer = s->push.peer;

	cm_push_stream_leave(s->vw, &s->push);
	s->tcp = NULL;
	weft_task_cancel(&s->vw->sched, &s->task);
	if (s->seg != NULL)
		rte_pktmbuf_free(s->seg);
	s->seg = NULL;
	TAILQ_REMOVE(&s->vw->cm->streams, s, link);
	cm_peer_drop(peer);
}

/** Likewise, and the memory goes later: an up-call of it may be running. */
static void
stream_end(struct weft_stream *s)
{
	stream_release(s);
	weft_vworker_later(s->vw, &s->later);
}

static void
stream_seg_send(struct weft_stream *s, bool push)
{
	struct rte_mbuf *seg = s->seg;

	s->seg = NULL;
	/* On an error the connection is ending, and `closed` follows. */
	if (seg != NULL)
		(void)weft_tcp_send(s->tcp, seg, push, s->vw->sched.now_ns);
}

static void
stream_turn(struct weft_task *t, uint64_t now_ns)
{
	struct weft_stream *s = container_of(t, struct weft_stream, task);
	const bool again = s->wants_turn;

	(void)now_ns;
	s->wants_turn = false;
	if (again)
		s->ops->writable(s->user);
	if (s->tcp != NULL && !t->queued)
		stream_seg_send(s, true);
}

/* ---- Up-calls of TCP ---- */

static void
stream_established(void *user)
{
	(void)user; /* a listener's connections are established */
}

static void
stream_rx(void *user, struct rte_mbuf *m, uint64_t now_ns)
{
	struct weft_stream *s = user;

	(void)now_ns;
	for (const struct rte_mbuf *at = m; at != NULL && s->tcp != NULL; at = at->next)
		if (at->data_len > 0)
			s->ops->received(s->user, rte_pktmbuf_mtod(at, const void *), at->data_len);
	rte_pktmbuf_free(m);
}

static void
stream_writable(void *user)
{
	struct weft_stream *s = user;

	if (!s->closed)
		s->ops->writable(s->user);
}

static void
stream_mss(void *user, uint16_t mss_bytes)
{
	(void)user;
	(void)mss_bytes;
}

static void
stream_eof(void *user)
{
	struct weft_stream *s = user;

	s->ops->eof(s->user);
}

static void
stream_closed(void *user, int err)
{
	struct weft_stream *s = user;

	weft_handle_end(&s->h, WEFT_KIND(STREAM));
	stream_end(s);
	s->ops->ended(s->user, err);
}

static const struct weft_tcp_conn_ops stream_tcp_ops = {
        .established = stream_established,
        .rx = stream_rx,
        .writable = stream_writable,
        .mss = stream_mss,
        .eof = stream_eof,
        .closed = stream_closed,
};

/* ---- Acceptance ---- */

static int
stream_new(struct cm_stream_lsn *lsn, struct cm_peer *peer, struct weft_tcp_conn *c,
           const struct weft_tcp_info *ti)
{
	const struct weft_stream_listen_attr *a = &lsn->l->attr;
	struct weft_stream *s = calloc(1, sizeof(*s));
	struct sockaddr_storage remote;
	int rc;

	if (s == NULL) {
		cm_peer_drop(peer);
		return -ENOMEM;
	}
	s->vw = lsn->vw;
	s->tcp = c;
	cm_push_stream_enter(lsn->vw, &s->push, peer, c);
	s->later.fn = stream_free;
	weft_task_init(&s->task, stream_turn);
	weft_handle_init(&s->h, WEFT_KIND(STREAM));
	weft_tcp_set_user(c, &stream_tcp_ops, s);
	TAILQ_INSERT_TAIL(&lsn->vw->cm->streams, s, link);
	weft_ip_to_sockaddr(&ti->remote, ti->remote_port, &remote);
	rc = a->accept(a->user, s, (struct weft_worker *)lsn->vw, &remote);
	/* an owner that aborts what it was offered, or sets no callbacks, has refused it */
	if (rc == 0 && s->tcp != NULL && s->ops == NULL)
		rc = -ENOBUFS;
	if (s->tcp == NULL)
		return -ENOBUFS;
	if (rc != 0) {
		weft_handle_end(&s->h, WEFT_KIND(STREAM));
		stream_end(s);
		return -ENOBUFS;
	}
	cm_tcp_keepalive(c, a->keepalive_us);
	return 0;
}

int
cm_stream_accept(void *arg, struct weft_tcp_conn *c)
{
	struct cm_stream_lsn *lsn = arg;
	const struct weft_stream_listener *l = lsn->l;
	struct weft_vworker *vw = lsn->vw;
	struct weft_tcp_info ti;
	struct cm_peer *peer;
	uint32_t most;

	if (atomic_load_explicit(&l->closed, memory_order_acquire))
		return -ENOBUFS;
	weft_tcp_info(c, &ti);
	peer = cm_peer_hold(vw, &ti.remote);
	if (peer == NULL)
		return -ENOMEM;
	most = cm_admit_conns(vw, l->attr.max_conns_per_peer, l->attr.max_conns,
	                      weft_tcp_conns_most(c));
	if (peer->conns + peer->requests > most) {
		vw->stats.conns_refused_peer++;
		cm_peer_drop(peer);
		return -ENOBUFS;
	}
	return stream_new(lsn, peer, c, &ti);
}

void
cm_stream_free_all(struct weft_vworker *vw)
{
	struct weft_stream *s;

	while ((s = TAILQ_FIRST(&vw->cm->streams)) != NULL) {
		weft_tcp_abort(s->tcp, vw->sched.now_ns);
		weft_handle_end(&s->h, WEFT_KIND(STREAM));
		stream_release(s);
		stream_free(&s->later); /* the worker runs nothing later any more */
	}
}

/* ---- The owner's calls ---- */

/** Whether this call may not be made. -EINVAL, -EPERM. */
#define STREAM_BAD(s)                                                                              \
	(WEFT_HANDLE_BAD(s, STREAM)        ? -EINVAL                                               \
	 : weft_vworker_is_others((s)->vw) ? weft_wrong_thread(__func__)                           \
	                                   : 0)

int
weft_stream_set_user(struct weft_stream *s, const struct weft_stream_ops *ops, void *user)
{
	const int rc = STREAM_BAD(s);

	if (rc != 0)
		return rc;
	if (ops == NULL || ops->received == NULL || ops->writable == NULL || ops->eof == NULL ||
	    ops->ended == NULL)
		return -EINVAL;
	s->ops = ops;
	s->user = user;
	return 0;
}

/** Room for at least one octet. */
static bool
stream_room(struct weft_stream *s)
{
	if (s->seg != NULL)
		return true;
	s->seg = weft_tcp_begin(s->tcp);
	if (s->seg == NULL)
		return false;
	s->seg_room_bytes =
	        RTE_MIN((uint32_t)rte_pktmbuf_tailroom(s->seg), (uint32_t)weft_tcp_mss(s->tcp));
	return true;
}

/** Copy as much as the segment has room for, and send it when it is full. */
static uint32_t
stream_copy(struct weft_stream *s, const uint8_t *from, size_t bytes)
{
	const uint32_t k = (uint32_t)RTE_MIN(bytes, (size_t)s->seg_room_bytes);

	memcpy(rte_pktmbuf_append(s->seg, (uint16_t)k), from, k);
	s->seg_room_bytes -= k;
	if (s->seg_room_bytes == 0)
		stream_seg_send(s, false);
	return k;
}

ssize_t
weft_stream_write(struct weft_stream *s, const struct iovec *iov, unsigned int n)
{
	const int rc = STREAM_BAD(s);
	size_t all = 0, taken = 0;
	bool full = false;

	if (rc != 0)
		return rc;
	if ((iov == NULL && n > 0) || s->ops == NULL)
		return -EINVAL;
	if (s->closed || s->tcp == NULL)
		return -EPIPE;
	for (unsigned int i = 0; i < n; i++) {
		all += iov[i].iov_len;
		for (size_t at = 0; at < iov[i].iov_len && taken < STREAM_TURN_BYTES && !full;) {
			uint32_t k;

			full = !stream_room(s);
			if (full)
				break;
			k = stream_copy(s, (const uint8_t *)iov[i].iov_base + at,
			                iov[i].iov_len - at);
			at += k;
			taken += k;
		}
	}
	/* TCP calls `writable` only if it had no room. */
	s->wants_turn = s->wants_turn || (taken < all && !full);
	if (s->seg != NULL || s->wants_turn)
		weft_task_queue(&s->vw->sched, &s->task);
	return (ssize_t)taken;
}

int
weft_stream_close(struct weft_stream *s)
{
	const int rc = STREAM_BAD(s);

	if (rc != 0)
		return rc;
	if (s->closed || s->tcp == NULL)
		return 0;
	s->closed = true;
	s->wants_turn = false;
	stream_seg_send(s, true);
	weft_tcp_close(s->tcp, s->vw->sched.now_ns);
	return 0;
}

void
weft_stream_abort(struct weft_stream *s)
{
	if (STREAM_BAD(s) != 0)
		return;
	weft_handle_end(&s->h, WEFT_KIND(STREAM));
	if (s->tcp == NULL)
		return;
	weft_tcp_abort(s->tcp, s->vw->sched.now_ns);
	stream_end(s);
}
