/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Commands of telemetry about an interface's neighbours and routes. */

#include <stdio.h>

#include "observe_ask.h"
#include "observe_objects.h"
#include "weft_netif_addr.h"
#include "weft_netif_neigh.h"

#define NET_NEIGHS 48 /**< in one answer, which has at most 16 KiB */

/* ---- Neighbours: read by their worker ---- */

struct net_neighs {
	uint32_t interface, next, n;
	bool none; /**< there is no such interface */
	bool more;
	uint64_t now_ns;
	uint32_t number[NET_NEIGHS];
	struct weft_netif_neigh_info info[NET_NEIGHS];
};

static void
net_collect(struct weft_worker *w, void *data)
{
	struct net_neighs *q = data;
	const struct weft_netif *nif = weft_engine_netif(w, q->interface);

	q->none = nif == NULL;
	q->now_ns = weft_engine_clock_ns();
	while (nif != NULL && q->n < NET_NEIGHS &&
	       weft_netif_neigh_next(nif, &q->next, &q->info[q->n]) == 0)
		q->number[q->n++] = q->next - 1;
	q->more = q->n == NET_NEIGHS;
}

static void
net_neigh(struct rte_tel_data *d, const struct weft_netif_neigh_info *i, uint64_t now_ns)
{
	char text[WEFT_ADDR_STR_LEN];

	rte_tel_data_add_dict_string(d, "address", weft_ip_str(&i->addr, text));
	rte_tel_data_add_dict_u64(d, "vlan", i->vlan_id);
	rte_tel_data_add_dict_string(d, "state", i->state);
	snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", i->mac.addr_bytes[0],
	         i->mac.addr_bytes[1], i->mac.addr_bytes[2], i->mac.addr_bytes[3],
	         i->mac.addr_bytes[4], i->mac.addr_bytes[5]);
	rte_tel_data_add_dict_string(d, "mac", rte_is_zero_ether_addr(&i->mac) ? "" : text);
	rte_tel_data_add_dict_u64(d, "gateway", i->gateway);
	rte_tel_data_add_dict_u64(d, "connections", i->refs);
	if (i->heard_ns != 0)
		rte_tel_data_add_dict_u64(
		        d, "heard_ms",
		        now_ns > i->heard_ns ? (now_ns - i->heard_ns) / WEFT_NS_PER_MS : 0);
}

int
observe_neighbours(const char *cmd, const char *params, struct rte_tel_data *d)
{
	struct net_neighs *q;
	uint32_t v[OBSERVE_MAX_PARAMS] = {0};
	int rc = observe_params(params, v);

	(void)cmd;
	if (rc < 2)
		return -EINVAL;
	q = observe_ask_new(sizeof(*q));
	if (q == NULL)
		return -ENOMEM;
	q->interface = v[1];
	q->next = v[2];
	rc = observe_ask(v[0], net_collect, q);
	if (rc < 0)
		return rc;
	rte_tel_data_start_dict(d);
	for (uint32_t i = 0; i < q->n; i++) {
		struct rte_tel_data *one = observe_item(d, q->number[i]);

		if (one != NULL)
			net_neigh(one, &q->info[i], q->now_ns);
	}
	if (q->more)
		rte_tel_data_add_dict_u64(d, "next", q->next);
	rc = q->none ? -ENOENT : 0;
	observe_ask_free(q);
	return rc;
}

/* ---- Routes ---- */

static void
net_route(struct rte_tel_data *d, unsigned int number, const struct weft_netif_net_info *n,
          bool via)
{
	char addr[WEFT_ADDR_STR_LEN], text[WEFT_ADDR_STR_LEN + 8];
	struct rte_tel_data *one = observe_item(d, number);
	struct weft_ip net = n->net.addr;
	const bool v4 = weft_ip_is_v4(&net);
	const unsigned int bits = n->net.prefix_len + (v4 ? 96u : 0u);

	if (one == NULL)
		return;
	for (unsigned int bit = bits; bit < 128; bit++)
		net.b[bit / 8] &= (uint8_t) ~(0x80u >> bit % 8);
	snprintf(text, sizeof(text), "%s/%u", weft_ip_str(&net, addr), n->net.prefix_len);
	rte_tel_data_add_dict_string(one, "destination", via ? v4 ? "default" : "default6" : text);
	rte_tel_data_add_dict_string(one, "gateway", via ? weft_ip_str(&n->net.gateway, addr) : "");
	rte_tel_data_add_dict_string(one, "source", weft_ip_str(&n->net.addr, addr));
	rte_tel_data_add_dict_u64(one, "vlan", n->net.vlan_id);
	rte_tel_data_add_dict_string(one, "state",
	                             n->duplicate   ? "duplicate"
	                             : n->tentative ? "tentative"
	                                            : "in use");
}

int
observe_routes(const char *cmd, const char *params, struct rte_tel_data *d)
{
	uint32_t v[OBSERVE_MAX_PARAMS] = {0};
	struct weft_netif_net_info n;
	struct weft_netif *nif = NULL;
	struct weft_worker *w;
	unsigned int routes = 0;
	int rc = observe_params(params, v);

	(void)cmd;
	if (rc < 2)
		return -EINVAL;
	rte_tel_data_start_dict(d);
	pthread_mutex_lock(&observe_lock);
	w = observe_worker(v[0]);
	if (w != NULL)
		nif = weft_engine_netif(w, v[1]);
	for (unsigned int i = 0; nif != NULL && weft_netif_net_info(nif, i, &n) == 0; i++) {
		net_route(d, routes++, &n, false);
		if (memcmp(n.net.gateway.b, (uint8_t[16]){0}, 16) != 0)
			net_route(d, routes++, &n, true);
	}
	pthread_mutex_unlock(&observe_lock);
	return nif != NULL ? 0 : -ENOENT;
}
