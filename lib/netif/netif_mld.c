/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Multicast Listener Discovery version 2 (RFC 3810) for a host whose only groups are those of
 * its own addresses. It sends a report at the start, a second one, and one for each query. So
 * switches that snoop deliver our solicitations.
 */

#include "netif_cksum.h"
#include "netif_frame.h"
#include "netif_icmp.h"
#include "netif_nd.h"
#include "netif_net.h"
#include "netif_txq.h"
#include "weft_timer.h"

#define MLD_REPORT         143 /* RFC 3810 s5.2 */
#define MLD_IS_EXCLUDE     2   /* s5.2.12: a record of the current state */
#define MLD_TO_EXCLUDE     4   /* a record of a change */
#define MLD_RECORD         20
#define MLD_QUERY_V1_LEN   24
#define MLD_DELAY_OFF      4
#define MLD_GROUP_OFF      8
#define MLD_REPEAT_NS      (1 * WEFT_NS_PER_S) /* s9.11: within the Unsolicited Report Interval */
#define MLD_DELAY_MANTISSA 0x1000
#define ROUTER_ALERT_LEN   8

/* The content of a report: which groups, that of the link-local address first. Returns how many. */
static unsigned int
mld_groups(const struct netif_vlan *v, struct weft_ip g[NETIF_NETS_ALL])
{
	const struct weft_netif *nif = v->nif;
	unsigned int n = 0;

	for (unsigned int i = 0; i < nif->nnets; i++) {
		const struct netif_net *a = &nif->net[(nif->nnets_conf + i) % nif->nnets];
		unsigned int k = 0;

		if (a->vlan != v || a->v4)
			continue;
		g[n] = netif_ip6_solicited(&a->ip);
		while (!weft_ip_eq(&g[k], &g[n]))
			k++;
		n += k == n; /* else two addresses have the same group */
	}
	return n;
}

static void
mld_send(struct netif_vlan *v, uint8_t record)
{
	struct weft_netif *nif = v->nif;
	/* Next header ICMPv6, one unit; router alert for MLD (RFC 2711 s2.1); PadN. */
	static const uint8_t alert[ROUTER_ALERT_LEN] = {IPPROTO_ICMPV6, 0, 5, 2, 0, 0, 1, 0};
	static const struct weft_ip routers = {.b = {0xff, 0x02, [15] = 0x16}};
	static const struct rte_ether_addr mac = {{0x33, 0x33, 0, 0, 0, 0x16}};
	struct weft_ip src = {0}, g[NETIF_NETS_ALL];
	unsigned int n = mld_groups(v, g);
	struct rte_mbuf *m = netif_ctrl_alloc(nif, (uint16_t)(8 + n * MLD_RECORD));
	uint8_t *p;
	uint16_t sum;

	if (m == NULL || n == 0) {
		rte_pktmbuf_free(m);
		return;
	}
	/* RFC 3590 s4: the unspecified source until our address has passed detection */
	if (netif_net_state(v->local) == NET_PREFERRED)
		src = weft_ip_bare(&v->local->ip);
	p = rte_pktmbuf_mtod(m, uint8_t *);
	p[0] = MLD_REPORT;
	weft_put_be16(p + 6, (uint16_t)n);
	for (unsigned int i = 0; i < n; i++) {
		p[8 + i * MLD_RECORD] = record;
		memcpy(p + 8 + i * MLD_RECORD + 4, g[i].b, sizeof(g[i].b));
	}
	sum = (uint16_t)~netif_fold(
	        (uint64_t)netif_sum_pseudo6(&src, &routers, IPPROTO_ICMPV6, m->pkt_len) +
	        netif_sum_mbuf(m, 0, m->pkt_len));
	memcpy(p + 2, &sum, sizeof(sum));
	memcpy(rte_pktmbuf_prepend(m, sizeof(alert)), alert, sizeof(alert));
	netif_push_ip6(m, &src, &routers, 0, 1, 0); /* next header hop-by-hop, hop limit 1 */
	netif_push_ether(nif, v->id, m, RTE_BE16(RTE_ETHER_TYPE_IPV6), &mac);
	nif->stats.mld_tx++;
	netif_enqueue(nif, m, true);
}

static void
mld_timer(struct weft_timer *t, uint64_t now_ns)
{
	struct netif_vlan *v = container_of(t, struct netif_vlan, mld_timer);

	v->nif->now_ns = RTE_MAX(v->nif->now_ns, now_ns);
	mld_send(v, v->mld_query ? MLD_IS_EXCLUDE : MLD_TO_EXCLUDE);
	v->mld_query = false;
}

void
netif_mld_init(struct netif_vlan *v)
{
	weft_timer_init(&v->mld_timer, mld_timer);
}

void
netif_mld_report(struct netif_vlan *v)
{
	mld_send(v, MLD_TO_EXCLUDE);
	weft_timer_arm(&v->nif->sched->wheel, &v->mld_timer, netif_now(v->nif) + MLD_REPEAT_NS);
}

void
netif_mld_query(struct netif_vlan *v, const struct netif_icmp6 *p, const uint8_t *msg)
{
	struct weft_netif *nif = v->nif;
	uint32_t delay_ms = weft_get_be16(msg + MLD_DELAY_OFF);
	uint64_t due_ns;
	struct weft_ip group;

	/* s5.1.14, s6.2: valid from the link, with a router alert, about all groups or one of
	 * ours */
	if (p->len < MLD_QUERY_V1_LEN || p->hop_limit != 1 || !p->alert ||
	    !weft_ip_is_link_local(&p->src)) {
		nif->stats.nd_bad++;
		return;
	}
	nif->stats.mld_rx++;
	memcpy(group.b, msg + MLD_GROUP_OFF, sizeof(group.b));
	if (!netif_answers(nif) || (!netif_ip_is_none(&group) && !netif_net_joined(v, &group)))
		return;
	if (p->len > MLD_QUERY_V1_LEN && delay_ms >= 0x8000) /* s5.1.3: a floating-point value */
		delay_ms = ((delay_ms & 0xfff) | MLD_DELAY_MANTISSA) << ((delay_ms >> 12 & 7) + 3);
	/* A random delay within the maximum, so that the hosts of a link do not answer at once. */
	if (nif->sched->rand.fill != NULL)
		delay_ms = delay_ms == 0 ? 0 : weft_rand_u32(&nif->sched->rand) % delay_ms;
	due_ns = netif_now(nif) + delay_ms * WEFT_NS_PER_MS;
	v->mld_query = true;
	if (!v->mld_timer.armed || v->mld_timer.deadline_ns > due_ns)
		weft_timer_arm(&nif->sched->wheel, &v->mld_timer, due_ns);
}
