/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Peers: how many requests and connections each remote address has on a worker, so that a
 * listener can limit them.
 */

#include <stdlib.h>

#include "cm_conn.h"
#include "weft_siphash.h"

static struct cm_peer_list *
peer_bucket(const struct weft_vworker *vw, const struct weft_ip *ip)
{
	uint64_t w[2];

	/*
	 * The table has as many entries as there are connections. The hash has a secret key,
	 * because a peer chooses its address.
	 */
	memcpy(w, ip->b, sizeof(w));
	return &vw->cm->peers[weft_siphash(vw->cm->peer_key, w, 2, 1, 3) % CM_PEER_BUCKETS];
}

static void
peer_put(struct cm_peer *p)
{
	if (p->requests > 0 || p->conns > 0)
		return;
	LIST_REMOVE(p, link);
	free(p);
}

struct cm_peer *
cm_peer_of(const struct weft_vworker *vw, const struct weft_ip *ip)
{
	struct weft_ip name = weft_ip_peer(ip);
	struct cm_peer *p;

	if (vw->cm->peers == NULL)
		return NULL;
	LIST_FOREACH (p, peer_bucket(vw, &name), link)
		if (weft_ip_eq(&p->ip, &name))
			return p;
	return NULL;
}

uint32_t
cm_peer_requests(const struct weft_vworker *vw, const struct weft_ip *ip)
{
	const struct cm_peer *p = cm_peer_of(vw, ip);

	return p != NULL ? p->requests : 0;
}

struct cm_peer *
cm_peer_call(struct weft_vworker *vw, const struct weft_ip *ip)
{
	const struct weft_rand *rand = &vw->sched.rand;
	struct weft_ip name = weft_ip_peer(ip);
	struct cm_peer_list *bucket;
	struct cm_peer *p;

	if (vw->cm->peers == NULL) {
		vw->cm->peers = calloc(CM_PEER_BUCKETS, sizeof(*vw->cm->peers));
		if (vw->cm->peers == NULL)
			return NULL;
		rand->fill(rand->arg, vw->cm->peer_key, sizeof(vw->cm->peer_key));
		weft_lanes_init(&vw->cm->lanes, vw->cm->peer_key);
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
		TAILQ_INIT(&p->streams);
		LIST_INSERT_HEAD(bucket, p, link);
	}
	p->requests++;
	return p;
}

struct cm_peer *
cm_peer_hold(struct weft_vworker *vw, const struct weft_ip *ip)
{
	struct cm_peer *p = cm_peer_call(vw, ip);

	if (p == NULL)
		return NULL;
	p->requests--;
	p->conns++;
	return p;
}

void
cm_peer_drop(struct cm_peer *p)
{
	p->conns--;
	peer_put(p);
}

void
cm_peer_hang_up(struct cm_peer *p)
{
	p->requests--;
	peer_put(p);
}

void
cm_peer_enter(struct cm_peer *p, struct weft_cm_conn *c)
{
	p->conns++;
	c->peer = p;
}

void
cm_peer_leave(struct weft_cm_conn *c)
{
	struct cm_peer *p = c->peer;

	if (p == NULL)
		return;
	c->peer = NULL;
	p->conns--;
	peer_put(p);
}
