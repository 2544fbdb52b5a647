/* SPDX-License-Identifier: BSD-3-Clause */
/** @file See sack_peer.h. */

#include "sack_peer.h"

uint32_t first;
const struct weft_tcp_stats *st;
struct weft_tcp_conn *c;

void
open_with(const struct weft_tcp_attr *attr, unsigned int segs, const struct tcp_opts *o)
{
	up(attr);
	net.accept_as = (struct net_app){.to_send = (uint64_t)segs * MSS};
	syn(IRS, o);
	iss = last().h.seq;
	CHECK(last().opts.sack_perm);
	run_for(RTT_NS - 20 * WEFT_NS_PER_US);
	seg_wait(TCP_ACK, IRS + 1, iss + 1, 65535, 0, 0);
	app = &net.app[0];
	c = app->c;
	first = iss + 1;
	st = weft_tcp_stats(net.node[0].tcp);
	CHECK(c->sack_ok);
}

void
open_sack(const struct weft_tcp_attr *attr, unsigned int segs)
{
	struct tcp_opts o = {.mss_bytes = MSS, .sack_perm = true, .has_wscale = true, .wscale = 7};

	open_with(attr, segs, &o);
}

void
sack2(unsigned int upto, const int *b)
{
	struct tcp_hdr h = {.src_port = PORT,
	                    .dst_port = 7,
	                    .seq = IRS + 1,
	                    .ack = first + upto * MSS,
	                    .wnd = 65535,
	                    .flags = TCP_ACK};
	struct tcp_opts o = {0};

	for (; *b >= 0; b += 2) {
		o.sack[o.nsack].left = first + (uint32_t)b[0] * (MSS / 2);
		o.sack[o.nsack++].right = first + (uint32_t)b[1] * (MSS / 2);
	}
	net_raw(&net, &h, &o, 0, 0);
	run_for(20 * WEFT_NS_PER_US);
}

void
sack(unsigned int upto, int from, int to)
{
	sack2(upto, from == to ? (const int[]){-1} : (const int[]){2 * from, 2 * to, -1});
}

unsigned int
sent(unsigned int i)
{
	CHECK_MSG(i < net.node[1].nsegs, "only %u segments", net.node[1].nsegs);
	return (net.node[1].segs[i].h.seq - first) / MSS;
}
