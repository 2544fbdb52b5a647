/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Noun: show. Ports, connections, QPs, regions, counters. */

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "console.h"
#include "addr.h"
#include "link_str.h"
#include "script.h"
#include "show.h"
#include "show_print.h"

WORD(tok_show, verb, "show");
WORD(tok_port, noun, "port");
WORD(tok_conns, noun, "connections");
WORD(tok_qps, noun, "qps");
WORD(tok_regions, noun, "regions");
WORD(tok_counters, noun, "counters");
WORD(tok_polls, noun, "polls");
WORD(tok_drivers, noun, "drivers");
WORD(tok_events, noun, "events");

#define OFFLOADS_STR 160

/** In a console that is attached: what telemetry answers, in its form. */
static bool
attached_shows(struct cmdline *cl, const char *noun)
{
	if (con.attached)
		show_run(cl, noun, "");
	return con.attached;
}

/** The names of these offloads, each behind a blank; " none" without any. */
static const char *
offload_names(uint32_t offloads, char buf[OFFLOADS_STR])
{
	/* In the order of enum weft_offload. */
	static const char *const name[] = {"rx-checksum", "tx-checksum", "tso",
	                                   "scatter",     "gather",      "rss",
	                                   "vlan-strip",  "vlan-insert", "vlan-filter"};
	size_t n = 0;

	for (unsigned int i = 0; i < sizeof(name) / sizeof(name[0]); i++)
		if ((offloads & 1u << i) != 0)
			n += (size_t)snprintf(buf + n, OFFLOADS_STR - n, " %s", name[i]);
	return n > 0 ? buf : " none";
}

static void
show_networks(struct cmdline *cl, struct weft_port *p)
{
	char ip[ADDR_STR_MAX], gw[ADDR_STR_MAX], vlan[32];
	struct weft_network_info n;

	for (unsigned int i = 0; weft_port_network(p, i, &n) == 0; i++) {
		snprintf(vlan, sizeof(vlan), n.vlan_id != 0 ? "VLAN %u" : "untagged", n.vlan_id);
		cmdline_printf(cl, "  %s/%u, %s%s%s%s\n", addr_host_str(&n.addr, ip), n.prefix_len,
		               vlan, n.gateway.ss_family != 0 ? ", gateway " : "",
		               n.gateway.ss_family != 0 ? addr_host_str(&n.gateway, gw) : "",
		               n.duplicate   ? ", not used: another station has it"
		               : n.tentative ? ", tentative"
		                             : "");
	}
}

static void
show_port(void *arg, struct cmdline *cl, void *data)
{
	char names[OFFLOADS_STR], failed[OFFLOADS_STR];

	(void)arg;
	(void)data;
	if (attached_shows(cl, "port"))
		return;
	for (uint32_t i = 0; i < con.stack.nports; i++) {
		struct weft_port *p = con.stack.ports[i];
		struct weft_port_stats st;
		char link[LINK_STR_MAX];

		if (weft_port_stats(p, &st) != 0)
			continue;
		cmdline_printf(
		        cl,
		        "%s: link %s, mtu %u, mac %02x:%02x:%02x:%02x:%02x:%02x, numa %d\n"
		        "  rx %" PRIu64 " packets, %" PRIu64 " bytes, %" PRIu64 " bad, %" PRIu64
		        " dropped, %" PRIu64 " missed\n"
		        "  tx %" PRIu64 " packets, %" PRIu64 " bytes, %" PRIu64 " dropped\n"
		        "  offloads%s%s%s\n",
		        weft_port_name(p), link_str(&st, link), st.mtu_bytes, st.mac[0], st.mac[1],
		        st.mac[2], st.mac[3], st.mac[4], st.mac[5], st.numa_node, st.rx_packets,
		        st.rx_bytes, st.rx_bad, st.rx_dropped, st.rx_missed, st.tx_packets,
		        st.tx_bytes, st.tx_dropped, offload_names(st.offloads, names),
		        st.offloads_failed != 0 ? "; switched off, because incorrect:" : "",
		        st.offloads_failed != 0 ? offload_names(st.offloads_failed, failed) : "");
		if (st.slaves[0] != '\0')
			cmdline_printf(cl, "  slaves: %s\n", st.slaves);
		show_networks(cl, p);
	}
}

/** The next QP after number *n, which gets its number; NULL: there is none. */
static const struct console_qp *
next_qp(unsigned int *n, struct weft_qp_info *in)
{
	while (++*n <= CONSOLE_MAX_QPS)
		if (con.qps[*n].used) {
			weft_qp_query(con.qps[*n].qp, in);
			return &con.qps[*n];
		}
	return NULL;
}

static void
show_connections(void *arg, struct cmdline *cl, void *data)
{
	char local[ADDR_STR_MAX], remote[ADDR_STR_MAX];
	const struct console_qp *q;
	struct weft_qp_info in;
	unsigned int n = 0;

	(void)arg;
	(void)data;
	if (attached_shows(cl, "connections"))
		return;
	console_drain(cl);
	while ((q = next_qp(&n, &in)) != NULL)
		cmdline_printf(cl,
		               "qp %u: %s -> %s, %s, srtt %u us, mulpdu %u, retransmitted %" PRIu64
		               "\n",
		               n, addr_str(&in.local, local), addr_str(&in.remote, remote),
		               q->closed ? "closed"
		               : q->up   ? "established"
		                         : "starting",
		               in.srtt_us, in.mulpdu_bytes, in.retrans_segs);
}

static void
show_qps(void *arg, struct cmdline *cl, void *data)
{
	struct weft_qp_info in;
	unsigned int n = 0;

	(void)arg;
	(void)data;
	if (attached_shows(cl, "qps"))
		return;
	console_drain(cl);
	while (next_qp(&n, &in) != NULL) {
		cmdline_printf(cl,
		               "qp %u: %s, ird %u, ord %u, sq %u, rq %u, sent %" PRIu64
		               " messages %" PRIu64 " bytes, received %" PRIu64 " messages %" PRIu64
		               " bytes\n",
		               n, weft_qp_state_str(in.state), in.ird, in.ord, in.sq_used,
		               in.rq_used, in.sent_msgs, in.sent_bytes, in.recv_msgs,
		               in.recv_bytes);
		if (in.terminated) {
			char why[160];

			cmdline_printf(cl, "  terminated by %s: %s\n",
			               in.term.ours ? "us" : "the peer",
			               weft_terminate_str(&in.term, why, sizeof(why)));
		}
	}
}

static void
show_bad_ranges(struct cmdline *cl, struct weft_mr *mr)
{
	struct weft_bad_range s[WEFT_MAX_BAD_RANGES];
	unsigned int n = weft_mr_bad_ranges(mr, s, WEFT_MAX_BAD_RANGES);

	for (unsigned int i = 0; i < n && i < WEFT_MAX_BAD_RANGES; i++)
		cmdline_printf(cl,
		               "  bad range: offset %" PRIu64 ", %" PRIu64
		               " bytes, %s, %u failure%s%s\n",
		               s[i].to, s[i].len_bytes,
		               s[i].status == -EBADMSG ? "hash mismatch" : "the medium failed",
		               s[i].failures, s[i].failures == 1 ? "" : "s",
		               s[i].wide ? ", octets between them included" : "");
}

static void
show_regions(void *arg, struct cmdline *cl, void *data)
{
	struct weft_mr_info in;
	char names[48];

	(void)arg;
	(void)data;
	if (attached_shows(cl, "regions"))
		return;
	for (unsigned int n = 1; n <= CONSOLE_MAX_REGIONS; n++) {
		struct console_region *r = &con.regions[n];

		if (!r->used)
			continue;
		weft_mr_query(r->mr, &in);
		cmdline_printf(cl, "region %u: stag 0x%08x, %" PRIu64 " bytes, rights%s, %s%s\n", n,
		               weft_mr_stag(r->mr), r->bytes, console_rights_str(r->access, names),
		               r->persist->mechanism,
		               !r->fast   ? ""
		               : in.valid ? ", fast, valid"
		                          : ", fast, not valid");
		show_bad_ranges(cl, r->mr);
	}
}

static void
show_counters(void *arg, struct cmdline *cl, void *data)
{
	(void)arg;
	(void)data;
	if (attached_shows(cl, "counters"))
		return;
	for (uint32_t i = 0; i < con.stack.nworkers; i++) {
		struct weft_worker_stats s;

		weft_worker_stats(con.stack.workers[i], &s);
		cmdline_printf(cl,
		               "worker %u:\n"
		               "  polls %" PRIu64 ", busy %" PRIu64 ", longest %" PRIu64 " ns\n"
		               "  connections %" PRIu64 " now, %" PRIu64 " in all\n"
		               "  segments in %" PRIu64 ", out %" PRIu64 ", retransmitted %" PRIu64
		               ", timeouts %" PRIu64 "\n"
		               "  fpdus in %" PRIu64 ", out %" PRIu64 ", crc errors %" PRIu64
		               ", marker errors %" PRIu64 "\n"
		               "  messages in %" PRIu64 ", out %" PRIu64 "\n"
		               "  terminates in %" PRIu64 ", out %" PRIu64 "\n"
		               "  completions %" PRIu64 ", overruns %" PRIu64 "\n",
		               i, s.polls, s.busy_polls, s.poll_max_ns, s.conns, s.conns_total,
		               s.segs_in, s.segs_out, s.retrans_segs, s.rtos, s.fpdus_in,
		               s.fpdus_out, s.crc_errors, s.marker_errors, s.msgs_in, s.msgs_out,
		               s.terminates_in, s.terminates_out, s.wcs, s.cq_overruns);
	}
}

#define OCTAVES (WEFT_POLL_HIST_BUCKETS / 8)

/** Print a row for each octave that has samples, with a bar. */
static void
print_octaves(struct cmdline *cl, const struct weft_poll_hist *h)
{
	uint64_t polls[OCTAVES] = {0}, most = 1;

	for (unsigned int k = 0; k < OCTAVES; k++) {
		for (unsigned int b = 8 * k; b < 8 * k + 8; b++)
			polls[k] += h->bucket[b].polls;
		most = polls[k] > most ? polls[k] : most;
	}
	for (unsigned int k = 0; k < OCTAVES; k++)
		if (polls[k] > 0)
			show_print_bar(cl, h->bucket[8 * k + 7].below_ns, (double)polls[k],
			               (double)most);
}

static void
show_polls(void *arg, struct cmdline *cl, void *data)
{
	static struct weft_poll_hist h;

	(void)arg;
	(void)data;
	if (attached_shows(cl, "polls"))
		return;
	for (uint32_t i = 0; i < con.stack.nworkers; i++) {
		h.size = sizeof(h);
		if (weft_worker_poll_hist(con.stack.workers[i], &h) != 0)
			continue;
		cmdline_printf(cl,
		               "worker %u: %" PRIu64 " iterations with work; half below %.1f us, "
		               "99 %% below %.1f us, longest %.1f us\n",
		               i, h.polls, (double)weft_poll_hist_pct_ns(&h, 50) / 1e3,
		               (double)weft_poll_hist_pct_ns(&h, 99) / 1e3, (double)h.max_ns / 1e3);
		print_octaves(cl, &h);
	}
}

static void
show_drivers(void *arg, struct cmdline *cl, void *data)
{
	const struct weft_persist_ops *p;
	const struct weft_hash_ops *h;

	(void)arg;
	(void)data;
	if (attached_shows(cl, "drivers"))
		return;
	for (unsigned int i = 0; (p = weft_persist_get(i)) != NULL; i++)
		cmdline_printf(cl, "persist %s%s\n", p->name,
		               p->persistent ? "" : " (visibility only)");
	for (unsigned int i = 0; (h = weft_hash_get(i)) != NULL; i++)
		cmdline_printf(cl, "hash %s, %u octets\n", h->name, h->result_bytes);
}

static void
show_events(void *arg, struct cmdline *cl, void *data)
{
	(void)arg;
	(void)data;
	if (!console_has_stack(cl))
		return;
	console_drain(cl);
	heard_print(cl);
}

static CMD(cmd_port, show_port, "show port: ports and their packet counters", (void *)&tok_show,
           (void *)&tok_port);
static CMD(cmd_conns, show_connections, "show connections: addresses, round trip, retransmissions",
           (void *)&tok_show, (void *)&tok_conns);
static CMD(cmd_qps, show_qps, "show qps: states, depths, messages, Terminates", (void *)&tok_show,
           (void *)&tok_qps);
static CMD(cmd_regions, show_regions, "show regions: STags, sizes, rights, media",
           (void *)&tok_show, (void *)&tok_regions);
static CMD(cmd_counters, show_counters, "show counters: the worker's totals", (void *)&tok_show,
           (void *)&tok_counters);
static CMD(cmd_polls, show_polls, "show polls: how long the iterations of the poll loop take",
           (void *)&tok_show, (void *)&tok_polls);
static CMD(cmd_drivers, show_drivers, "show drivers: persist and hash drivers", (void *)&tok_show,
           (void *)&tok_drivers);

static CMD(cmd_events, show_events, "show events: the last hundred events and completions",
           (void *)&tok_show, (void *)&tok_events);

cmdline_parse_inst_t *const cmds_show[] = {&cmd_port,    &cmd_conns,    &cmd_qps,
                                           &cmd_regions, &cmd_counters, &cmd_polls,
                                           &cmd_drivers, &cmd_events,   NULL};
