/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Peers: how many requests and connections each remote address has on a worker, so that a
 * listener can limit them.
 */

#include <stdlib.h>

#include "verbs_conn.h"
#include "weft_siphash.h"

static struct verbs_peer_list *
peer_bucket(const struct weft_vworker *vw, const struct weft_ip *ip)
{
	uint64_t w[2];

	/*
	 * The table has as many entries as there are connections. The hash has a secret key,
	 * because a peer chooses its address.
	 */
	memcpy(w, ip->b, sizeof(w));
	return &vw->peers[weft_siphash(vw->peer_key, w, 2, 1, 3) % VERBS_PEER_BUCKETS];
}

static void
peer_put(struct verbs_peer *p)
{
	if (p->requests > 0 || p->conns > 0)
		return;
	LIST_REMOVE(p, link);
	free(p);
}

struct verbs_peer *
weft_verbs_peer_of(const struct weft_vworker *vw, const struct weft_ip *ip)
{
	struct weft_ip name = weft_ip_peer(ip);
	struct verbs_peer *p;

	if (vw->peers == NULL)
		return NULL;
	LIST_FOREACH (p, peer_bucket(vw, &name), link)
		if (weft_ip_eq(&p->ip, &name))
			return p;
	return NULL;
}

uint32_t
weft_verbs_peer_requests(const struct weft_vworker *vw, const struct weft_ip *ip)
{
	const struct verbs_peer *p = weft_verbs_peer_of(vw, ip);

	return p != NULL ? p->requests : 0;
}

struct verbs_peer *
weft_verbs_peer_call(struct weft_vworker *vw, const struct weft_ip *ip)
{
	const struct weft_rand *rand = &vw->sched.rand;
	struct weft_ip name = weft_ip_peer(ip);
	struct verbs_peer_list *bucket;
	struct verbs_peer *p;

	if (vw->peers == NULL) {
		vw->peers = calloc(VERBS_PEER_BUCKETS, sizeof(*vw->peers));
		if (vw->peers == NULL)
			return NULL;
		rand->fill(rand->arg, vw->peer_key, sizeof(vw->peer_key));
		weft_lanes_init(&vw->lanes, vw->peer_key);
		if (weft_verbs_push_init(vw) < 0) {
			free(vw->peers);
			vw->peers = NULL;
			return NULL;
		}
	}
	bucket = peer_bucket(vw, &name);
	LIST_FOREACH (p, bucket, link)
		if (weft_ip_eq(&p->ip, &name))
			break;
	if (p == NULL) {
		p = calloc(1, sizeof(*p));
		if (p == NULL)
			return NULL;
		p->ip = name;
		LIST_INSERT_HEAD(bucket, p, link);
	}
	p->requests++;
	return p;
}

void
weft_verbs_peer_hang_up(struct verbs_peer *p)
{
	p->requests--;
	peer_put(p);
}

void
weft_verbs_peer_enter(struct verbs_peer *p, struct weft_qp *qp)
{
	p->conns++;
	qp->peer = p;
	weft_verbs_push_enter(qp);
}

void
weft_verbs_peer_leave(struct weft_qp *qp)
{
	struct verbs_peer *p = qp->peer;

	if (p == NULL)
		return;
	weft_verbs_push_leave(qp);
	qp->peer = NULL;
	p->conns--;
	peer_put(p);
}
