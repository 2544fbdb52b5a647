/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Creation, counters and destruction of contexts and ports. */

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine_priv.h"
#include "weft_netif_addr.h"
#include "weft_place.h"

static const struct weft_rand engine_rand = {.fill = weft_rand_system};
#include "weft_netif_group.h"
#include "weft_netif_removal.h"
#include "weft_netif_stats.h"
#include "weft_stat.h"

WEFT_LOG_REGISTER(engine);

#define CTX_DEFAULT_REGIONS 4096
#define CTX_DEFAULT_WORKERS 8
#define PORT_DEFAULT_MTU    1500
#define PORT_MIN_MTU        576 /* RFC 791: every host accepts datagrams of this size */

static_assert(offsetof(struct weft_ctx, v) == 0, "verbs casts the handle");
static_assert(offsetof(struct weft_worker, v) == 0, "verbs casts the handle");

const char *
weft_version(void)
{
	return WEFT_VERSION;
}

/** Free a context whose workers, regions and ports are gone. */
static void
ctx_free(struct weft_ctx *ctx)
{
	weft_tcp_ports_destroy(ctx->tcp_ports);
	pthread_mutex_destroy(&ctx->v.lock);
	weft_handle_end(&ctx->v.h, WEFT_KIND(CTX));
	weft_handle_free(&ctx->v.h, sizeof(ctx->v.h));
}

int
weft_engine_ctx_create(const struct weft_ctx_attr *attr, const struct weft_rand *rand,
                       const struct weft_engine_observer *observer, struct weft_ctx **out)
{
	static const struct weft_engine_observer none;
	struct weft_ctx_attr a = {0};
	struct weft_tcp_attr tcp = {0};
	struct weft_mpa_policy mpa = {0};
	struct weft_mem *mem;
	struct weft_ctx *ctx;
	int rc;

	if (out == NULL)
		return -EINVAL;
	if (attr != NULL) {
		rc = weft_attr_copy(&a, sizeof(a), attr);
		if (rc < 0)
			return rc;
	}
	if (a.tcp != NULL) {
		rc = weft_attr_copy(&tcp, sizeof(tcp), a.tcp);
		if (rc < 0)
			return rc;
	}
	rc = weft_cm_mpa_policy(a.mpa, &mpa, &mpa);
	if (rc < 0)
		return rc;
	if (a.max_regions == 0)
		a.max_regions = CTX_DEFAULT_REGIONS;
	if (a.max_workers == 0)
		a.max_workers = CTX_DEFAULT_WORKERS;
	if (a.max_workers > WEFT_MAX_WORKERS)
		return -EINVAL;
	ctx = calloc(1, sizeof(*ctx));
	if (ctx == NULL)
		return -ENOMEM;
	rc = weft_tcp_ports_create(&ctx->tcp_ports);
	if (rc < 0) {
		free(ctx);
		return rc;
	}
	rc = weft_mem_create(a.max_regions, a.max_workers, rand, &mem);
	if (rc < 0) {
		weft_tcp_ports_destroy(ctx->tcp_ports);
		free(ctx);
		return rc;
	}
	weft_vctx_init(&ctx->v, mem, &weft_cm_ops, &weft_place_ops);
	weft_cm_init(&ctx->cm, &ctx->v);
	ctx->cm.mpa = mpa;
	ctx->v.max_pd_regions = a.max_pd_regions;
	ctx->v.max_pd_windows = a.max_pd_windows;
	ctx->max_workers = a.max_workers;
	ctx->tcp = tcp;
	if (a.tcp_rto_min_us != 0)
		ctx->tcp.rto_min_us = a.tcp_rto_min_us;
	TAILQ_INIT(&ctx->ports);
	weft_handle_init(&ctx->v.h, WEFT_KIND(CTX));
	ctx->observer = observer != NULL ? observer : &none;
	rc = ctx->observer->made != NULL ? ctx->observer->made(ctx) : 0;
	if (rc < 0) {
		weft_vctx_fini(&ctx->v);
		weft_mem_destroy(ctx->v.mem);
		ctx_free(ctx);
		return rc;
	}
	*out = ctx;
	return 0;
}

void
weft_ctx_destroy(struct weft_ctx *ctx)
{
	struct weft_worker *w[WEFT_MAX_WORKERS];
	struct weft_port *port;
	unsigned int n;

	if (WEFT_HANDLE_CLAIM(ctx, CTX) < 0)
		return;
	n = weft_vctx_nworkers(&ctx->v);
	TAILQ_FOREACH (port, &ctx->ports, link)
		weft_netif_port_unwatch(&port->dev);
	if (ctx->observer->ends != NULL)
		ctx->observer->ends(ctx);
	if (ctx->observer->port_ends != NULL)
		TAILQ_FOREACH (port, &ctx->ports, link)
			ctx->observer->port_ends(port);
	weft_vctx_quiesce(&ctx->v);
	for (unsigned int i = n; i-- > 0;) {
		w[i] = (struct weft_worker *)ctx->v.worker[i];
		weft_engine_worker_drain(w[i]);
	}
	/* On every port member 0, which may send for the others, leaves last. */
	for (unsigned int member = WEFT_GROUP_MEMBERS; member-- > 0;)
		for (unsigned int i = 0; i < n; i++)
			weft_engine_worker_leave(w[i], member);
	weft_vctx_fini(&ctx->v);
	for (unsigned int i = 0; i < n; i++)
		weft_engine_worker_free(w[i]);
	weft_mem_destroy(ctx->v.mem);
	while ((port = TAILQ_FIRST(&ctx->ports)) != NULL) {
		TAILQ_REMOVE(&ctx->ports, port, link);
		weft_netif_group_destroy(port->group);
		weft_netif_port_close(&port->dev);
		pthread_mutex_destroy(&port->lock);
		weft_handle_end(&port->h, WEFT_KIND(PORT));
		weft_handle_free(&port->h, sizeof(port->h));
	}
	ctx_free(ctx);
}

struct weft_tcp_ports *
weft_engine_tcp_ports(struct weft_ctx *ctx)
{
	return ctx->tcp_ports;
}

/* ---- Ports ---- */

static int
port_make_group(struct weft_port *port)
{
	const struct weft_netif_port *d = &port->dev;
	const struct weft_netif_group_attr ga = {
	        .members = port->queues,
	        .key = d->rss_key,
	        .key_bytes = d->rss_key_bytes,
	        .reta = d->rss ? d->reta : NULL,
	        .reta_size = d->reta_size,
	        .rx_queues = d->rx_queues,
	        .tx_queues = d->tx_queues,
	        .astray = d->rss_astray,
	        .pool_mbufs = d->pool->size,
	        .socket = d->socket,
	};

	return weft_netif_group_create(&ga, &port->group);
}

/* Convert an address of the attributes: of this family, or none (all zero). */
static int
port_addr(const struct sockaddr_storage *ss, sa_family_t family, struct weft_ip *out)
{
	uint16_t unused;

	memset(out, 0, sizeof(*out));
	if (ss->ss_family == 0)
		return 0;
	if (ss->ss_family != family)
		return -EINVAL;
	return weft_ip_from_sockaddr((const struct sockaddr *)ss, out, &unused);
}

/* Convert one of the further networks. */
static int
port_network(const struct weft_network_attr *attr, struct weft_netif_net *out)
{
	struct weft_network_attr n;
	bool v4;

	if (weft_attr_copy(&n, sizeof(n), attr) < 0)
		return -EINVAL;
	v4 = n.addr.ss_family == AF_INET;
	if (n.addr.ss_family == 0 || n.prefix_len == 0 || n.prefix_len > (v4 ? 32 : 128))
		return -EINVAL;
	if (port_addr(&n.addr, v4 ? AF_INET : AF_INET6, &out->addr) < 0 ||
	    port_addr(&n.gateway, v4 ? AF_INET : AF_INET6, &out->gateway) < 0)
		return -EINVAL;
	out->prefix_len = n.prefix_len;
	out->vlan_id = n.vlan_id;
	return 0;
}

static int
port_addrs(const struct weft_port_attr *a, struct weft_netif_attr *net)
{
	const struct weft_network_attr *n = a->networks;

	if (port_addr(&a->addr, AF_INET, &net->addr) < 0 ||
	    port_addr(&a->gateway, AF_INET, &net->gateway) < 0 ||
	    port_addr(&a->addr6, AF_INET6, &net->addr6) < 0 ||
	    port_addr(&a->gateway6, AF_INET6, &net->gateway6) < 0)
		return -EINVAL;
	if ((a->addr.ss_family == 0 && a->addr6.ss_family == 0 && a->nnetworks == 0) ||
	    a->nnetworks > WEFT_MAX_NETWORKS || (n == NULL && a->nnetworks > 0))
		return -EINVAL;
	if (a->addr.ss_family != 0 && (a->prefix_len == 0 || a->prefix_len > 32))
		return -EINVAL;
	if (a->addr6.ss_family != 0 && (a->prefix6_len == 0 || a->prefix6_len > 128))
		return -EINVAL;
	for (; net->nnets < a->nnetworks; net->nnets++) {
		if (port_network(n, &net->nets[net->nnets]) < 0)
			return -EINVAL;
		n = (const void *)((const uint8_t *)n + n->size);
	}
	net->prefix_len = a->prefix_len;
	net->prefix6_len = a->prefix6_len;
	net->no_ipv6 = a->no_ipv6;
	net->vlan_id = a->vlan_id;
	net->dscp = (uint8_t)a->dscp;
	net->mtu_bytes = a->mtu_bytes;
	net->shared = a->shared != 0;
	return weft_netif_nets_ok(net) ? 0 : -EINVAL;
}

static void
port_add_vlan(struct weft_netif_port_attr *pa, uint16_t vlan_id)
{
	for (unsigned int i = 0; i < pa->nvlans; i++)
		if (pa->vlans[i] == vlan_id)
			return;
	pa->vlans[pa->nvlans++] = vlan_id;
}

/* The VLANs of all networks, each once. */
static void
port_vlans(const struct weft_port_attr *a, const struct weft_netif_attr *net,
           struct weft_netif_port_attr *pa)
{
	if (a->addr.ss_family != 0 || a->addr6.ss_family != 0)
		port_add_vlan(pa, net->vlan_id);
	for (unsigned int i = 0; i < net->nnets; i++)
		port_add_vlan(pa, net->nets[i].vlan_id);
}

static void
port_log_network(const struct weft_port *port, const struct weft_netif_net *n)
{
	static const struct weft_ip none;
	char addr[WEFT_ADDR_STR_LEN], gw[WEFT_ADDR_STR_LEN];
	bool via = !weft_ip_eq(&n->gateway, &none);

	if (!weft_ip_eq(&n->addr, &none))
		WEFT_LOG(engine, INFO, "port %s: %s/%u, VLAN %u%s%s", port->name,
		         weft_ip_str(&n->addr, addr), n->prefix_len, n->vlan_id,
		         via ? ", gateway " : "", via ? weft_ip_str(&n->gateway, gw) : "");
}

static void
port_log_networks(const struct weft_port *port)
{
	const struct weft_netif_attr *a = &port->net;

	port_log_network(port,
	                 &(struct weft_netif_net){a->addr, a->gateway, a->prefix_len, a->vlan_id});
	port_log_network(
	        port, &(struct weft_netif_net){a->addr6, a->gateway6, a->prefix6_len, a->vlan_id});
	for (unsigned int i = 0; i < a->nnets; i++)
		port_log_network(port, &a->nets[i]);
}

int
weft_port_open(struct weft_ctx *ctx, const struct weft_port_attr *attr, struct weft_port **out)
{
	struct weft_netif_port_attr pa = {0};
	struct weft_port_attr a;
	struct weft_port *port, *other;
	int rc;

	if (WEFT_HANDLE_BAD(ctx, CTX) || out == NULL)
		return -EINVAL;
	rc = weft_attr_copy(&a, sizeof(a), attr);
	if (rc < 0)
		return rc;
	if (a.name == NULL || a.dev == NULL || a.name[0] == '\0' ||
	    strlen(a.name) >= ENGINE_NAME_LEN || a.vlan_id > 4094)
		return -EINVAL;
	if (a.queues > WEFT_MAX_WORKERS || a.check > 1 || a.selftest > 1 || a.dscp > 63 ||
	    a.shared > 1 || (a.shared != 0 && a.queues > 1) ||
	    (a.no_offloads & ~(uint64_t)WEFT_OFFLOAD_ALL) != 0)
		return -EINVAL;
	pa.rand = &engine_rand;
	pa.queues = (uint16_t)RTE_MAX(a.queues, 1u);
	pa.dev = a.dev;
	pa.no_intr = weft_engine_no_msix();
	pa.check = a.check != 0;
	pa.selftest = a.selftest != 0;
	pa.no_offloads = (uint32_t)a.no_offloads;
	pa.mtu_bytes = a.mtu_bytes != 0 ? a.mtu_bytes : PORT_DEFAULT_MTU;
	pa.mbufs = a.mbufs != 0 ? a.mbufs : WEFT_PORT_MBUFS(pa.mtu_bytes);
	if (pa.mtu_bytes < PORT_MIN_MTU)
		return -EINVAL;
	TAILQ_FOREACH (other, &ctx->ports, link)
		if (strcmp(other->name, a.name) == 0)
			return -EEXIST;
	port = calloc(1, sizeof(*port));
	if (port == NULL)
		return -ENOMEM;
	port->ctx = ctx;
	snprintf(port->name, sizeof(port->name), "%s", a.name);
	rc = port_addrs(&a, &port->net);
	if (rc < 0) {
		free(port);
		return rc;
	}
	port_vlans(&a, &port->net, &pa);
	port->queues = pa.queues;
	rc = weft_netif_port_open(&pa, &port->dev);
	if (rc == 0) {
		if (port->queues > 1)
			rc = port_make_group(port);
		if (rc == 0)
			rc = weft_engine_port_watch(port);
		if (rc < 0) {
			weft_netif_group_destroy(port->group);
			weft_netif_port_close(&port->dev);
		}
	}
	if (rc < 0) {
		free(port);
		return rc;
	}
	weft_handle_init(&port->h, WEFT_KIND(PORT));
	TAILQ_INSERT_TAIL(&ctx->ports, port, link);
	port_log_networks(port);
	*out = port;
	return 0;
}

static WEFT_STAT_READER void
port_add_stats(const struct weft_netif *nif, struct weft_port_stats *st)
{
	const struct weft_netif_stats *s = weft_netif_stats(nif);

	/* Member 0 watches for all: the others see the same a little later. */
	st->link_ups = RTE_MAX(st->link_ups, s->link_ups);
	st->link_downs = RTE_MAX(st->link_downs, s->link_downs);
	st->rx_packets += s->rx_packets;
	st->rx_bytes += s->rx_bytes;
	st->tx_packets += s->tx_packets;
	st->tx_bytes += s->tx_bytes;
	st->rx_bad += s->rx_bad_ether + s->rx_bad_ip + s->rx_cut + s->rx_bad_ip_cksum +
	              s->rx_bad_ext + s->rx_bad_tcp_cksum + s->rx_bad_proto + s->arp_bad +
	              s->icmp_bad + s->nd_bad;
	st->rx_dropped += s->rx_vlan + s->rx_fragment + s->rx_not_ours + s->rx_no_mbuf;
	st->offloads_failed |= weft_netif_offloads_off(nif);
	st->tx_dropped += s->tx_queue_full + s->tx_unresolved + s->tx_no_route + s->tx_no_mbuf +
	                  s->tx_refused;
}

WEFT_STAT_READER int
weft_port_stats(struct weft_port *port, struct weft_port_stats *st)
{
	struct weft_netif_link link;

	if (WEFT_HANDLE_BAD(port, PORT) || st == NULL)
		return -EINVAL;
	memset(st, 0, sizeof(*st));
	for (unsigned int i = 0; i < port->nnif; i++)
		port_add_stats(port->nif[i], st);
	for (unsigned int i = 0; i < port->queues && port->group != NULL; i++) {
		const struct weft_netif_group_stats *g = weft_netif_group_stats(port->group, i);

		st->handed_over += g->handed_out;
		st->handover_dropped += g->handover_drops;
	}
	st->queues = port->queues;
	st->rss = port->dev.rss;
	st->rx_missed = weft_netif_port_missed(&port->dev);
	weft_netif_port_link_info(&port->dev, &link);
	st->link_up = link.up;
	st->speed_mbps = link.speed_mbps;
	st->full_duplex = link.full_duplex;
	st->pause_rx = link.pause_rx;
	st->pause_tx = link.pause_tx;
	memcpy(st->slaves, link.slaves, sizeof(st->slaves));
	st->link_returns = strcmp(port->dev.driver, "net_memif") != 0;
	st->removed = weft_port_removed(port);
	st->mtu_bytes = port->dev.mtu_bytes;
	memcpy(st->mac, port->dev.mac.addr_bytes, sizeof(st->mac));
	st->numa_node = port->dev.socket;
	st->offloads = weft_netif_port_offloads(&port->dev) & ~st->offloads_failed;
	st->offloads_failed |= port->dev.selftest_failed;
	st->selftest_frames = port->dev.selftest_frames;
	st->selftest_wrong = port->dev.selftest_wrong;
	return 0;
}

int
weft_port_network(struct weft_port *port, unsigned int i, struct weft_network_info *info)
{
	struct weft_netif_net_info n;
	struct weft_netif *nif;

	if (WEFT_HANDLE_BAD(port, PORT) || info == NULL)
		return -EINVAL;
	nif = weft_engine_port_netif(port, 0);
	if (nif == NULL || weft_netif_net_info(nif, i, &n) < 0)
		return -ENOENT;
	memset(info, 0, sizeof(*info));
	weft_ip_to_sockaddr(&n.net.addr, 0, &info->addr);
	if (weft_ip_is_v4(&n.net.gateway) || memcmp(n.net.gateway.b, (uint8_t[16]){0}, 16) != 0)
		weft_ip_to_sockaddr(&n.net.gateway, 0, &info->gateway);
	info->vlan_id = n.net.vlan_id;
	info->prefix_len = n.net.prefix_len;
	info->tentative = n.tentative;
	info->duplicate = n.duplicate;
	return 0;
}

const char *
weft_port_name(const struct weft_port *port)
{
	if (WEFT_HANDLE_BAD(port, PORT))
		return NULL;
	return port->name;
}

struct weft_port *
weft_engine_port_at(const struct weft_ctx *ctx, unsigned int i)
{
	struct weft_port *port;

	TAILQ_FOREACH (port, &ctx->ports, link)
		if (i-- == 0)
			return port;
	return NULL;
}

struct weft_port *
weft_port_get(struct weft_ctx *ctx, unsigned int i)
{
	return WEFT_HANDLE_BAD(ctx, CTX) ? NULL : weft_engine_port_at(ctx, i);
}

const struct weft_netif_port *
weft_engine_port_dev(const struct weft_port *port)
{
	return &port->dev;
}

struct weft_netif *
weft_engine_port_netif(const struct weft_port *port, unsigned int i)
{
	return i < port->nnif ? port->nif[i] : NULL;
}
