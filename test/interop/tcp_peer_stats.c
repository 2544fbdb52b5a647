/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Counters as JSON. */

#include <inttypes.h>
#include <stdio.h>

#include "tcp_peer_stats.h"

/* clang-format off */
#define TCP_FIELDS \
	X(segs_in) X(segs_out) X(bytes_in) X(bytes_out) X(rx_bad) X(rx_no_conn) \
	X(rx_dup_bytes) X(rx_ooo_segs) X(rx_ooo_dropped) X(rx_out_of_window) X(retrans_segs) \
	X(rtos) X(fast_retrans) X(dupacks_in) X(resets_in) X(resets_out) X(challenge_acks) \
	X(conns_opened) X(conns_accepted) X(conns_closed) X(accept_refused) X(conn_limit) \
	X(keepalive_probes) X(keepalive_drops) X(no_mbuf) X(user_timeouts) \
	X(half_open_evicted) X(sack_retrans) X(tlp_probes) X(tlp_recovered) \
	X(rack_marked_lost) X(spurious_retrans) X(recoveries) X(undos) X(sack_blocks_in) \
	X(sack_blocks_out) X(sack_blocks_bad) X(sack_searches_cut) X(dsacks_in) X(dsacks_out) X(ecn_ce_in) \
	X(ecn_ece_in) X(ecn_reductions) X(paws_drops) X(ts_missing) X(syns_in) \
	X(syn_cookies_out) X(syn_cookies_ok) X(syn_cookies_bad) X(syns_dropped_rate) \
	X(syns_dropped_peer) X(syns_dropped_full) X(rst_out_of_place) X(syn_in_window) \
	X(acks_out_of_range) X(blind_drops) X(challenge_acks_limited) X(resets_limited) \
	X(time_wait_reused) X(time_wait_evicted) X(fin_wait2_timeouts) X(urgent_in) \
	X(data_after_close) X(pmtu_lowered) X(pmtu_ignored) X(pmtu_raised) X(blackholes) \
	X(segs_split) X(tso_segs) X(rx_cksum_bad) X(zero_window_probes) X(zero_windows_in) \
	X(conns_now) X(half_open_now) X(time_wait_now)

#define NETIF_FIELDS \
	X(rx_packets) X(rx_bytes) X(rx_bad_ether) X(rx_bad_ip) X(rx_bad_ip_cksum) \
	X(rx_fragment) X(rx_not_ours) X(rx_bad_tcp_cksum) X(rx_bad_proto) X(rx_no_mbuf) \
	X(arp_rx) X(arp_tx) X(arp_bad) X(icmp_rx) X(icmp_tx) X(icmp_bad) X(tx_packets) \
	X(tx_bytes) X(dev_faults) X(tx_queue_full) X(tx_unresolved) X(tx_no_route) \
	X(tx_no_mbuf) X(tx_refused)
/* clang-format on */

#define X(f) printf("%s\"" #f "\": %" PRIu64, sep, (uint64_t)st->f), sep = ", ";

void
peer_print_tcp_stats(const struct weft_tcp_stats *st)
{
	const char *sep = "{";

	TCP_FIELDS
	printf("}");
}

void
peer_print_netif_stats(const struct weft_netif_stats *st)
{
	const char *sep = "{";

	NETIF_FIELDS
	printf("}");
}
