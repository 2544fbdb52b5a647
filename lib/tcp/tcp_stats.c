/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Queries from outside: names of the counters, connections by number. */

#include "tcp_conn.h"
#include "tcp_defend.h"
#include "tcp_instance.h"

#define F(field) WEFT_STAT(weft_tcp_stats, field)

static const struct weft_stat_field fields[] = {
        F(segs_in),
        F(segs_out),
        F(bytes_in),
        F(bytes_out),
        F(rx_bad),
        F(rx_no_conn),
        F(rx_dup_bytes),
        F(rx_ooo_segs),
        F(rx_ooo_dropped),
        F(rx_ooo_far),
        F(rx_out_of_window),
        F(retrans_segs),
        F(rtos),
        F(fast_retrans),
        F(dupacks_in),
        F(resets_in),
        F(resets_out),
        F(challenge_acks),
        F(conns_opened),
        F(conns_accepted),
        F(conns_closed),
        F(accept_refused),
        F(conn_limit),
        F(keepalive_probes),
        F(keepalive_drops),
        F(no_mbuf),
        F(user_timeouts),
        F(half_open_evicted),
        F(sack_retrans),
        F(tlp_probes),
        F(recovery_probes),
        F(tlp_recovered),
        F(rack_marked_lost),
        F(spurious_retrans),
        F(recoveries),
        F(undos),
        F(sack_blocks_in),
        F(sack_blocks_out),
        F(sack_blocks_bad),
        F(sack_searches_cut),
        F(dsacks_in),
        F(dsacks_out),
        F(ecn_ce_in),
        F(ecn_ece_in),
        F(ecn_reductions),
        F(paws_drops),
        F(ts_missing),
        F(syns_in),
        F(syn_cookies_out),
        F(syn_cookies_ok),
        F(syn_cookies_bad),
        F(syns_dropped_rate),
        F(syns_dropped_peer),
        F(syns_dropped_full),
        F(answers_no_neigh),
        F(rst_out_of_place),
        F(syn_in_window),
        F(acks_out_of_range),
        F(blind_drops),
        F(challenge_acks_limited),
        F(resets_limited),
        F(time_wait_reused),
        F(time_wait_evicted),
        F(fin_wait2_timeouts),
        F(urgent_in),
        F(data_after_close),
        F(pmtu_evicted),
        F(pmtu_lowered),
        F(pmtu_ignored),
        F(pmtu_raised),
        F(blackholes),
        F(blackhole_peers),
        F(segs_split),
        F(tso_segs),
        F(zero_window_probes),
        F(zero_windows_in),
        F(snd_segs_limit),
        F(snd_buf_limit),
        F(syn_timeouts),
        F(data_timeouts),
        F(small_mss_in),
        F(ooo_joined),
        F(ooo_taken),
        F(ooo_shed),
        F(ooo_timeouts),
        F(snd_stalls),
        F(syns_no_buffers),
        F(conns_no_buffers),
        F(stray_acks_late),
        F(conns_own_sum),
        F(conns_now),
        F(half_open_now),
        F(time_wait_now),
};

#undef F

unsigned int
weft_tcp_stat_fields(const struct weft_stat_field **out)
{
	*out = fields;
	return RTE_DIM(fields);
}

size_t
weft_tcp_conn_bytes(void)
{
	const struct weft_tcp *t = NULL;

	/* Each connection has two to four buckets, and may have a peer of its own. */
	return sizeof(t->conns[0]) + 4 * sizeof(t->buckets[0]) + tcp_peer_bytes();
}

uint32_t
weft_tcp_conn_id(const struct weft_tcp_conn *c)
{
	return (uint32_t)(c - c->t->conns);
}

struct weft_tcp_conn *
weft_tcp_conn_next(struct weft_tcp *t, uint32_t *id, uint32_t looks)
{
	for (; *id < t->attr.max_conns && looks > 0; looks--) {
		struct weft_tcp_conn *c = &t->conns[(*id)++];

		if (!c->dead)
			return c;
	}
	if (*id >= t->attr.max_conns)
		*id = UINT32_MAX;
	return NULL;
}
