/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What a member's stack asks its group about connections: owner, source port, counts. */

#include "netif_group_member.h"
#include "netif_shared.h"

unsigned int
weft_netif_group_owner(const struct weft_netif_group *g, const struct weft_ip *local,
                       uint16_t local_port, const struct weft_ip *remote, uint16_t remote_port)
{
	/* The port hashes what is in the packets. */
	const struct weft_ip to = weft_ip_bare(local), from = weft_ip_bare(remote);

	return group_owner(g, netif_steer_hash(&g->steer, &from, remote_port, &to, local_port));
}

/** The member's group, if its connections are counted, and the hash of a connection. */
static struct group_member *
group_counts(struct weft_netif *nif, const struct weft_netif_flow *f, uint32_t *hash)
{
	struct weft_netif_group *g = nif->attr.group;
	struct weft_ip to, from;

	if (g == NULL || !g->rss)
		return NULL;
	to = weft_ip_bare(f->local);
	from = weft_ip_bare(f->remote);
	*hash = netif_steer_hash(&g->steer, &from, f->remote_port, &to, f->local_port);
	return &g->member[nif->attr.group_index];
}

bool
weft_netif_flow_hold(struct weft_netif *nif, const struct weft_netif_flow *f)
{
	uint32_t hash;
	struct group_member *me = group_counts(nif, f, &hash);

	if (me == NULL || netif_flow_hold(me->g->flows, me->index, hash))
		return true;
	me->stats.owner_changed++;
	return false;
}

void
weft_netif_flow_release(struct weft_netif *nif, const struct weft_netif_flow *f)
{
	uint32_t hash;
	struct group_member *me = group_counts(nif, f, &hash);

	if (me != NULL)
		netif_flow_release(me->g->flows, me->index, hash);
}

void
weft_netif_flow_full(struct weft_netif *nif, bool full)
{
	struct weft_netif_group *g = nif->attr.group;

	if (g != NULL && g->rss)
		netif_flow_full(g->flows, nif->attr.group_index, full);
}

bool
weft_netif_flow_pin(struct weft_netif *nif, const struct weft_netif_flow *f)
{
	uint32_t hash;
	struct group_member *me = group_counts(nif, f, &hash);

	if (me == NULL || netif_flow_pin(me->g->flows, me->index, hash, netif_now(nif)))
		return true;
	me->stats.owner_changed++;
	return false;
}

int
weft_netif_pick_port(struct weft_netif *nif, const struct weft_ip *src, const struct weft_ip *dst,
                     uint16_t dst_port, const struct weft_rand *rand,
                     bool (*usable)(void *arg, uint16_t port), void *arg)
{
	const struct weft_ip from = weft_ip_bare(src), to = weft_ip_bare(dst);
	struct weft_netif_group *g = nif->attr.group;
	uint32_t first;
	int port;

	if (g != NULL && g->rss && netif_flow_adopts(g->flows)) {
		const struct netif_pick k = {.steer = &g->steer,
		                             .flows = g->flows,
		                             .learn = g->learn,
		                             .member = nif->attr.group_index,
		                             .src = &from,
		                             .dst = &to,
		                             .dst_port = dst_port,
		                             .now_ns = netif_now(nif),
		                             .rand = rand,
		                             .usable = usable,
		                             .arg = arg};
		struct weft_netif_group_stats *st = &g->member[k.member].stats;

		port = netif_pick_port(&k, &st->ports_learnt);
		st->no_port += port < 0;
		return port;
	}
	if (g != NULL) {
		port = netif_steer_pick(&g->steer, nif->attr.group_index, &from, &to, dst_port,
		                        rand, usable, arg);
		g->member[nif->attr.group_index].stats.no_port += port < 0;
		return port;
	}
	if (nif->attr.shared)
		return netif_shared_pick(nif, dst, dst_port, rand, usable, arg);
	/* RFC 6056 s3.3.1. */
	first = weft_rand_u32(rand) % WEFT_PORT_COUNT;
	for (uint32_t i = 0; i < WEFT_PORT_COUNT; i++) {
		uint16_t p = (uint16_t)(WEFT_PORT_FIRST + (first + i) % WEFT_PORT_COUNT);

		if (usable(arg, p))
			return p;
	}
	return -EADDRNOTAVAIL;
}

bool
weft_netif_port_leads(const struct weft_netif *nif, const struct weft_netif_flow *f)
{
	const struct weft_netif_group *g = nif->attr.group;

	if (g != NULL && weft_netif_group_owner(g, f->local, f->local_port, f->remote,
	                                        f->remote_port) != nif->attr.group_index)
		return false;
	return netif_shared_has(nif, f->local_port);
}
