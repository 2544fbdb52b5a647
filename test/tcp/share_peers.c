/* SPDX-License-Identifier: BSD-3-Clause */
/** @file See share_peers.h. */

#include "share_peers.h"
#include "tcp_math.h"
#include "tcp_share.h"
#include "weft_netif_budget.h"

void
hand_seg(unsigned int i, uint8_t flags, uint32_t off, uint32_t ack, uint16_t wnd, uint32_t len)
{
	struct tcp_hdr h = {.src_port = (uint16_t)(PORT + i),
	                    .dst_port = 7,
	                    .seq = IRS + 1 + off,
	                    .ack = ack,
	                    .wnd = wnd,
	                    .flags = flags};

	net_raw(&net, &h, NULL, off, len);
}

bool
hand_open(unsigned int i)
{
	struct tcp_opts o = {.mss_bytes = MSS, .has_wscale = true, .wscale = 7, .sack_perm = true};
	struct tcp_hdr h = {.src_port = (uint16_t)(PORT + i),
	                    .dst_port = 7,
	                    .seq = IRS,
	                    .wnd = 65535,
	                    .flags = TCP_SYN};
	unsigned int before = net.accepted;
	uint32_t iss_of = 0;
	bool found = false;

	net_raw(&net, &h, &o, 0, 0);
	run_for(20 * WEFT_NS_PER_US);
	for (unsigned int k = 0; k < net.node[1].nsegs; k++)
		if (net.node[1].segs[k].h.dst_port == PORT + i &&
		    net.node[1].segs[k].h.flags & TCP_SYN)
			iss_of = net.node[1].segs[k].h.seq, found = true;
	if (!found)
		return false;
	hand_seg(i, TCP_ACK, 0, iss_of + 1, 65535, 0);
	run_for(20 * WEFT_NS_PER_US);
	return net.accepted == before + 1;
}

struct weft_tcp_conn *
conn(unsigned int i)
{
	return net.app[i].c;
}

void
hand_ack(unsigned int i)
{
	hand_seg(i, TCP_ACK, 0, conn(i)->snd_max, 65535, 0);
	run_for(20 * WEFT_NS_PER_US);
}

struct tcp_share *
share(void)
{
	return tcp_share_of(net.node[0].tcp, net.node[0].nif);
}

void
check_share(unsigned int conns)
{
	const struct tcp_share *s = share();
	uint32_t segs = 0, common = 0, borrowers = 0, late = 0, ooo = 0;

	for (unsigned int i = 0; i < conns; i++) {
		const struct weft_tcp_conn *c = conn(i);

		if (c == NULL)
			continue;
		segs += c->snd_segs;
		common += tcp_left(c->snd_segs, s->own);
		borrowers += c->snd_segs > s->own;
		late += c->late;
		ooo += c->ooo_mbufs;
	}
	CHECK_EQ(s->lent->snd.held, segs);
	CHECK_EQ(s->common, common);
	CHECK_EQ(s->borrowers, borrowers);
	CHECK_EQ(s->nlate, late);
	CHECK_EQ(s->lent->ooo.held, ooo);
}
