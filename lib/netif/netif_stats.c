/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Names of the interface's counters. */

#include <rte_common.h>

#include "weft_netif_group.h"
#include "weft_netif_stats.h"
#include "weft_stat.h"

#define F(field) WEFT_STAT(weft_netif_stats, field)

#define B1(kind, field)                                                                            \
	{                                                                                          \
#kind "_" #field, offsetof(struct weft_netif_stats, lent.kind.field),              \
		        sizeof(((struct weft_netif_stats *)0)->lent.kind.field)                    \
	}
#define B(kind) B1(kind, limit), B1(kind, held), B1(kind, most), B1(kind, refused)

/* One counter in each line. */
/* clang-format off */
static const struct weft_stat_field fields[] = {
        F(rx_packets),
        F(rx_bytes),
        F(rx_bad_ether),
        F(rx_vlan),
        F(rx_bad_ip),
        F(rx_cut),
        F(rx_bad_ip_cksum),
        F(rx_bad_ext),
        F(rx_fragment),
        F(rx_not_ours),
        F(rx_bad_tcp_cksum),
        F(rx_bad_proto),
        F(rx_not_our_port),
        F(rx_no_mbuf),
        F(arp_rx),
        F(arp_tx),
        F(arp_bad),
        F(icmp_rx),
        F(icmp_tx),
        F(icmp_bad),
        F(icmp_limited),
        F(nd_rx),
        F(nd_tx),
        F(nd_bad),
        F(nd_ignored),
        F(mld_rx),
        F(mld_tx),
        F(link_ups),
        F(link_downs),
        F(link_moves),
        F(addr_conflicts),
        F(ip6_disabled),
        F(neigh_full),
        F(neigh_evicted),
        F(neigh_failed),
        F(neigh_limited),
        F(tx_packets),
        F(tx_bytes),
        F(dev_faults),
        F(tx_stalls),
        F(tx_resets),
        F(rx_cksum_checked),
        F(rx_cksum_false_good),
        F(rx_cksum_false_bad),
        F(rx_cksum_rechecks),
        F(tx_cksum_rescued),
        F(tso_lost),
        F(rx_cksum_off),
        F(tx_cksum_off),
        F(tso_off),
        F(rx_wakes),
        F(tx_queue_full),
        F(tx_unresolved),
        F(tx_parked),
        F(tx_park_full),
        F(tx_no_route),
        F(tx_no_mbuf),
        F(tx_refused),
        F(dev_removed),
        F(tx_removed),
        B(ooo),
        B(fpdu),
        B(snd),
        B(park),
};
/* clang-format on */

#undef B
#undef B1
#undef F

unsigned int
weft_netif_stat_fields(const struct weft_stat_field **out)
{
	*out = fields;
	return RTE_DIM(fields);
}

#define G(field) WEFT_STAT(weft_netif_group_stats, field)

static const struct weft_stat_field group_fields[] = {
        G(handed_out),   G(handed_in),    G(handover_drops), G(icmp_handed),   G(copies_out),
        G(copy_drops),   G(relay_out),    G(relay_full),     G(leave_drops),   G(hash_mismatch),
        G(hash_missing), G(strays),       G(queue_mismatch), G(queue_wrong),   G(no_port),
        G(adopted),      G(ports_learnt), G(learn_wrong),    G(owner_changed),
};

#undef G

unsigned int
weft_netif_group_stat_fields(const struct weft_stat_field **out)
{
	*out = group_fields;
	return RTE_DIM(group_fields);
}
