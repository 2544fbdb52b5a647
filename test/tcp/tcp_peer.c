/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A TCP peer whose segments the test makes. */

#include "tcp_peer.h"

struct net net;
struct net_app *app;
uint32_t iss;

struct net_seg
last(void)
{
	CHECK(net.node[1].nsegs > 0);
	return net.node[1].segs[net.node[1].nsegs - 1];
}

void
run_for(uint64_t ns)
{
	net.node[1].nsegs = 0;
	net_run(&net, ns, NULL, NULL);
}

void
seg(uint8_t flags, uint32_t seq, uint32_t ack, uint16_t wnd, uint32_t off, uint32_t len)
{
	struct tcp_hdr h = {.src_port = PORT,
	                    .dst_port = 7,
	                    .seq = seq,
	                    .ack = ack,
	                    .wnd = wnd,
	                    .flags = flags};

	net_raw(&net, &h, NULL, off, len);
}

void
seg_wait(uint8_t flags, uint32_t seq, uint32_t ack, uint16_t wnd, uint32_t off, uint32_t len)
{
	seg(flags, seq, ack, wnd, off, len);
	run_for(20 * WEFT_NS_PER_US);
}

void
up(const struct weft_tcp_attr *attr)
{
	struct weft_tcp_attr both[2] = {{0}, {0}};

	if (attr != NULL)
		both[0] = *attr;
	net_up(&net, 1, NULL, both, 1500);
	net.node[1].raw = true;
	net_listen(&net, 0);
	run_for(WEFT_NS_PER_MS);
	/* After this RST both ends know each other's MAC address, so no later segment waits for
	 * ARP. */
	seg(TCP_RST, 1, 0, 0, 0, 0);
	run_for(WEFT_NS_PER_MS);
	CHECK_EQ(net.node[1].nsegs, 0);
}

void
syn(uint32_t seq, const struct tcp_opts *o)
{
	struct tcp_hdr h = {
	        .src_port = PORT, .dst_port = 7, .seq = seq, .wnd = 65535, .flags = TCP_SYN};

	net_raw(&net, &h, o, 0, 0);
	run_for(20 * WEFT_NS_PER_US);
}

void
open_conn(const struct weft_tcp_attr *attr, const struct net_app *as)
{
	struct tcp_opts o = {.mss_bytes = MSS};

	up(attr);
	if (as != NULL)
		net.accept_as = *as;
	syn(IRS, &o);
	CHECK_EQ(net.node[1].nsegs, 1);
	CHECK_EQ(last().h.flags, TCP_SYN | TCP_ACK);
	CHECK_EQ(last().h.ack, IRS + 1);
	iss = last().h.seq;
	seg_wait(TCP_ACK, IRS + 1, iss + 1, 65535, 0, 0);
	CHECK_EQ(net.accepted, 1);
	app = &net.app[0];
}

void
down(void)
{
	CHECK(!app->bad_data && !app->torn);
	net_down(&net);
}
