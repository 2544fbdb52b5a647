/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The way to a destination: our source address, its VLAN, and the next hop.
 *
 * A packet from one of our addresses leaves by that address's VLAN alone (the strong host model,
 * RFC 1122 s3.3.4.2): to the destination itself if a network of ours on that VLAN has it, else by
 * the gateway of the source's network, else by that of the first network with one on the VLAN. A
 * connection asks once, and keeps the neighbour.
 */

#include "netif_net.h"
#include "weft_netif_addr.h"

const struct netif_net *
netif_net_onlink(const struct netif_vlan *v, const struct weft_ip *ip)
{
	const struct weft_netif *nif = v->nif;
	const struct netif_net *best = NULL;

	if (weft_ip_is_link_local(ip))
		return weft_ip_zone(ip) == v->zone && v->local != NULL && netif_net_usable(v->local)
		               ? v->local
		               : NULL;
	for (unsigned int i = 0; i < nif->nnets_conf; i++) {
		const struct netif_net *n = &nif->net[i];

		/* RFC 5942 s4: on-link are the configured prefixes, and link-local addresses. */
		if (n->vlan == v && netif_net_usable(n) && n->v4 == weft_ip_is_v4(ip) &&
		    weft_ip_same_prefix(&n->ip, ip, n->bits) &&
		    (best == NULL || n->bits > best->bits))
			best = n;
	}
	return best;
}

/* The first usable network of the family with a gateway. v NULL: on any VLAN. */
static const struct netif_net *
route_gateway(const struct weft_netif *nif, const struct netif_vlan *v, bool v4)
{
	for (unsigned int i = 0; i < nif->nnets_conf; i++) {
		const struct netif_net *n = &nif->net[i];

		if ((v == NULL || n->vlan == v) && n->v4 == v4 && netif_net_usable(n) &&
		    !netif_ip_is_none(&n->gateway))
			return n;
	}
	return NULL;
}

/* The first usable configured address of the family. v NULL: on any VLAN. */
static const struct netif_net *
route_first(const struct weft_netif *nif, const struct netif_vlan *v, bool v4)
{
	for (unsigned int i = 0; i < nif->nnets_conf; i++)
		if ((v == NULL || nif->net[i].vlan == v) && nif->net[i].v4 == v4 &&
		    netif_net_usable(&nif->net[i]))
			return &nif->net[i];
	return NULL;
}

const struct netif_net *
netif_net_src6(const struct netif_vlan *v, const struct weft_ip *dst)
{
	const struct netif_net *n = netif_net_onlink(v, dst);

	if (n != NULL || weft_ip_is_link_local(dst))
		return n;
	n = route_gateway(v->nif, v, false);
	return n != NULL ? n : route_first(v->nif, v, false);
}

/* The network of ours that dst is in, on any VLAN. */
static const struct netif_net *
route_onlink(const struct weft_netif *nif, const struct weft_ip *dst)
{
	const struct netif_net *n = NULL;

	/* Networks of several VLANs do not overlap. */
	for (unsigned int i = 0; i < nif->nvlans && n == NULL; i++)
		n = netif_net_onlink(&nif->vlan[i], dst);
	return n;
}

/* Whether dst is a single host that is not us. On a shared port it may be another process. */
static bool
route_is_host(const struct weft_netif *nif, const struct weft_ip *dst)
{
	if (!(weft_ip_is_v4(dst) ? netif_ip_is_host(weft_ip_v4(dst)) : netif_ip6_is_host(dst)))
		return false;
	return nif->attr.shared || !weft_netif_is_local(nif, dst);
}

bool
netif_route(const struct weft_netif *nif, const struct weft_ip *src, const struct weft_ip *dst,
            struct netif_route *out)
{
	const struct netif_net *from = NULL, *on, *gw;
	bool v4 = weft_ip_is_v4(dst);

	if (nif->stats.dev_removed || !route_is_host(nif, dst))
		return false;
	if (src != NULL) {
		from = netif_net_usable_find((struct weft_netif *)(uintptr_t)nif, src);
		if (from == NULL || from->v4 != v4)
			return false;
	}
	on = from != NULL ? netif_net_onlink(from->vlan, dst) : route_onlink(nif, dst);
	if (on != NULL) {
		if (v4 && netif_ip_is_subnet_special(weft_ip_v4(dst), on->mask4))
			return false;
		*out = (struct netif_route){
		        .src = from != NULL ? from : on, .vlan = on->vlan, .hop = dst};
		return true;
	}
	/* RFC 4291 s2.5.6: no router forwards a packet from or to a link-local address. */
	if (weft_ip_is_link_local(dst) || (from != NULL && from == from->vlan->local))
		return false;
	gw = from != NULL && !netif_ip_is_none(&from->gateway)
	             ? from
	             : route_gateway(nif, from != NULL ? from->vlan : NULL, v4);
	if (gw == NULL)
		return false;
	*out = (struct netif_route){
	        .src = from != NULL ? from : gw, .vlan = gw->vlan, .hop = &gw->gateway};
	return true;
}

const struct weft_ip *
weft_netif_src(const struct weft_netif *nif, const struct weft_ip *dst)
{
	const struct netif_net *n;
	struct netif_route r;

	if (netif_route(nif, NULL, dst, &r))
		return &r.src->ip;
	n = weft_ip_is_link_local(dst) ? route_onlink(nif, dst)
	                               : route_first(nif, NULL, weft_ip_is_v4(dst));
	return n != NULL ? &n->ip : NULL;
}

bool
weft_netif_reaches(const struct weft_netif *nif, const struct weft_ip *src,
                   const struct weft_ip *dst, bool via_gw)
{
	struct netif_route r;

	return netif_route(nif, src, dst, &r) && (via_gw || r.hop == dst);
}
