/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Who calls: what each remote address has of a worker, so that a listener can limit it. */

#include <stdlib.h>

#include "verbs_priv.h"

#define PEER_BUCKETS 256

LIST_HEAD(verbs_peer_list, verbs_peer);

static struct verbs_peer_list *
peer_bucket(const struct weft_vworker *vw, const struct weft_ip *ip)
{
	uint64_t w[2];

	/* As many entries as connections, whatever addresses they come from. */
	memcpy(w, ip->b, sizeof(w));
	w[0] = (w[0] ^ w[1]) * 0x9e3779b97f4a7c15ULL;
	return &vw->peers[(w[0] >> 32) % PEER_BUCKETS];
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
weft_verbs_peer_call(struct weft_vworker *vw, const struct weft_ip *ip)
{
	struct verbs_peer_list *bucket;
	struct verbs_peer *p;

	if (vw->peers == NULL) {
		vw->peers = calloc(PEER_BUCKETS, sizeof(*vw->peers));
		if (vw->peers == NULL)
			return NULL;
	}
	bucket = peer_bucket(vw, ip);
	LIST_FOREACH (p, bucket, link)
		if (weft_ip_eq(&p->ip, ip))
			break;
	if (p == NULL) {
		p = calloc(1, sizeof(*p));
		if (p == NULL)
			return NULL;
		p->ip = *ip;
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
}

void
weft_verbs_peer_leave(struct weft_qp *qp)
{
	struct verbs_peer *p = qp->peer;

	if (p == NULL)
		return;
	qp->peer = NULL;
	p->conns--;
	peer_put(p);
}
