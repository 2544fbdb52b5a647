/* SPDX-License-Identifier: BSD-3-Clause */
/** @file ARP (RFC 826; conflicts after RFC 5227): asks for IPv4 neighbours and answers requests. */

#include <rte_arp.h>

#include "netif_arp.h"
#include "netif_frame.h"
#include "netif_neigh.h"
#include "netif_net.h"
#include "netif_txq.h"

#define ARP_LEN 28

/* ---- Frames ---- */

static bool
arp_send(const struct netif_net *from, uint16_t opcode, const struct rte_ether_addr *eth_dst,
         const struct rte_ether_addr *target_mac, uint32_t target_ip)
{
	struct weft_netif *nif = from->vlan->nif;
	struct rte_mbuf *m = netif_ctrl_alloc(nif, ARP_LEN);
	struct rte_arp_hdr *arp;

	if (m == NULL)
		return false; /* the caller asks again later */
	arp = rte_pktmbuf_mtod(m, struct rte_arp_hdr *);
	arp->arp_hardware = RTE_BE16(RTE_ARP_HRD_ETHER);
	arp->arp_protocol = RTE_BE16(RTE_ETHER_TYPE_IPV4);
	arp->arp_hlen = RTE_ETHER_ADDR_LEN;
	arp->arp_plen = sizeof(uint32_t);
	arp->arp_opcode = rte_cpu_to_be_16(opcode);
	arp->arp_data.arp_sha = nif->attr.mac;
	arp->arp_data.arp_sip = from->ip4;
	arp->arp_data.arp_tha = *target_mac;
	arp->arp_data.arp_tip = target_ip;
	netif_push_ether(nif, from->vlan->id, m, RTE_BE16(RTE_ETHER_TYPE_ARP), eth_dst);
	nif->stats.arp_tx++;
	return netif_enqueue(nif, m, true) == 0;
}

static const struct rte_ether_addr arp_everybody = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};

static const struct rte_ether_addr arp_nobody;

bool
netif_arp_ask(struct netif_vlan *v, const struct weft_ip *addr, const struct rte_ether_addr *mac)
{
	/* A neighbour's address is on-link. The question comes from our address beside it. */
	const struct netif_net *from = netif_net_onlink(v, addr);

	return from == NULL ||
	       arp_send(from, RTE_ARP_OP_REQUEST, mac != NULL ? mac : &arp_everybody, &arp_nobody,
	                weft_ip_v4(addr));
}

/* RFC 5227 s2.3 */
static void
arp_announce(const struct netif_net *n)
{
	(void)arp_send(n, RTE_ARP_OP_REQUEST, &arp_everybody, &arp_nobody, n->ip4);
}

void
netif_arp_announce(struct weft_netif *nif)
{
	for (unsigned int i = 0; i < nif->nnets_conf; i++)
		if (nif->net[i].v4)
			arp_announce(&nif->net[i]);
}

/* ---- Receive ---- */

/* Another station claims our address (RFC 5227 s2.4 (b): defend it, at a limited rate). */
static void
arp_conflict(struct netif_net *n, const struct rte_ether_addr *mac)
{
	struct weft_netif *nif = n->vlan->nif;
	char buf[WEFT_ADDR_STR_LEN];

	if (!netif_answers(nif))
		return;
	nif->stats.addr_conflicts++;
	WEFT_LOG_PEER(netif, WARNING,
	              "duplicate address: %s is also used by " RTE_ETHER_ADDR_PRT_FMT,
	              weft_ip_str(&n->ip, buf), RTE_ETHER_ADDR_BYTES(mac));
	if (netif_defend(&n->defence, netif_now(nif)))
		arp_announce(n);
}

void
netif_arp_rx(struct netif_vlan *v, const struct rte_mbuf *m, uint32_t l3_off)
{
	struct weft_netif *nif = v->nif;
	const struct rte_arp_hdr *arp;
	const struct rte_ether_addr *sha;
	const struct netif_net *on;
	struct netif_net *asked, *own;
	struct weft_neigh *n;
	struct weft_ip sender;
	uint32_t sip, tip;
	uint16_t op;

	nif->stats.arp_rx++;
	if (m->data_len < l3_off + ARP_LEN)
		goto bad;
	if (!v->has4)
		return; /* no IPv4 here */
	arp = rte_pktmbuf_mtod_offset(m, const struct rte_arp_hdr *, l3_off);
	op = rte_be_to_cpu_16(arp->arp_opcode);
	if (arp->arp_hardware != RTE_BE16(RTE_ARP_HRD_ETHER) ||
	    arp->arp_protocol != RTE_BE16(RTE_ETHER_TYPE_IPV4) ||
	    arp->arp_hlen != RTE_ETHER_ADDR_LEN || arp->arp_plen != sizeof(uint32_t) ||
	    (op != RTE_ARP_OP_REQUEST && op != RTE_ARP_OP_REPLY))
		goto bad;
	sha = &arp->arp_data.arp_sha;
	sip = arp->arp_data.arp_sip;
	tip = arp->arp_data.arp_tip;
	if (!rte_is_valid_assigned_ether_addr(sha))
		goto bad;
	own = netif_net4_find(nif, sip);
	if (own != NULL && own->vlan == v) {
		/* Our own frame, returned by a loop on the link, or a conflict. */
		if (!rte_is_same_ether_addr(sha, &nif->attr.mac))
			arp_conflict(own, sha);
		return;
	}
	asked = op == RTE_ARP_OP_REQUEST ? netif_net4_find(nif, tip) : NULL;
	if (asked != NULL && asked->vlan != v)
		asked = NULL; /* each address is known on its own VLAN alone */
	if (sip == 0) {       /* RFC 5227 s2.1.1: a probe has no sender address to learn */
		if (asked != NULL && netif_answers(nif))
			arp_send(asked, RTE_ARP_OP_REPLY, sha, sha, 0);
		return;
	}
	sender = weft_ip_from_v4(sip);
	on = netif_ip_is_host(sip) ? netif_net_onlink(v, &sender) : NULL;
	if (on == NULL || netif_ip_is_subnet_special(sip, on->mask4))
		goto bad;
	/* RFC 826: update a known sender; enter a sender that asks for us. */
	n = asked != NULL ? netif_neigh_make(v, &sender) : netif_neigh_find(v, &sender);
	/* The answer first: the sender waits for it. */
	if (asked != NULL && netif_answers(nif))
		arp_send(asked, RTE_ARP_OP_REPLY, sha, sha, sip);
	if (n != NULL)
		netif_neigh_confirm(n, sha, true);
	return;
bad:
	nif->stats.arp_bad++;
}
