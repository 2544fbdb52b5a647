/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A receiver, encoded by the test, that opens, shrinks and closes its window at random, and
 * loses window updates. The sender stays within the window, probes, and ends in order (RFC 9293
 * s3.8.6).
 */

#include "props.h"
#include "props_cases.h"

static struct {
	uint32_t iss, irs, rcv_nxt;
	uint32_t space; /**< offered window from rcv_nxt on */
	uint8_t wscale;
	uint16_t port;
	bool open, fin_in, fin_acked;
	unsigned int moves;
} peer;

static void
peer_say(struct props *p, uint8_t flags, uint32_t seq, const struct tcp_opts *o)
{
	struct tcp_hdr h = {
	        .src_port = 7,
	        .dst_port = peer.port,
	        .seq = seq,
	        .ack = peer.rcv_nxt,
	        .wnd = (uint16_t)(flags & TCP_SYN ? RTE_MIN(peer.space, 65535u)
	                                          : peer.space >> peer.wscale),
	        .flags = flags,
	};

	net_raw(&p->net, &h, o, 0, 0);
}

static void
peer_ack(struct props *p)
{
	peer_say(p, TCP_ACK, peer.iss + 1 + peer.fin_in, NULL);
}

/** Move the window's edge. After a number of moves the window stays open. */
static void
peer_move(struct props *p)
{
	if (++peer.moves > 60) {
		peer.space = 200000;
	} else {
		switch (props_rand(p, 4)) {
		case 0:
			peer.space = 0;
			break;
		case 1:
			peer.space = (uint32_t)props_rand(p, peer.space + 1);
			break;
		case 2:
			peer.space = (uint32_t)props_rand(p, 3000);
			break;
		default:
			peer.space = (uint32_t)props_rand(p, 100000);
			break;
		}
	}
	peer.space = RTE_MIN(peer.space, 65535u << peer.wscale) >> peer.wscale << peer.wscale;
}

static void
peer_rx(struct props *p, const struct net_seg *s)
{
	uint32_t old = peer.rcv_nxt - s->h.seq, fresh;

	if (s->h.flags & TCP_SYN) {
		struct tcp_opts o = {.mss_bytes = 1460, .has_wscale = true, .wscale = peer.wscale};

		peer.port = s->h.src_port;
		peer.irs = s->h.seq;
		peer.rcv_nxt = peer.irs + 1;
		o.has_wscale = s->opts.has_wscale;
		if (!o.has_wscale)
			peer.wscale = 0;
		peer_say(p, TCP_SYN | TCP_ACK, peer.iss, &o);
		peer.open = true;
		return;
	}
	CHECK((s->h.flags & TCP_RST) == 0);
	if (peer.fin_in && s->h.ack == peer.iss + 2)
		peer.fin_acked = true;
	if (s->len_bytes == 0 && (s->h.flags & TCP_FIN) == 0)
		return;
	if (old <= s->len_bytes && !peer.fin_in) {
		fresh = s->len_bytes - old;
		if (s->h.flags & TCP_FIN && fresh < peer.space) {
			peer.rcv_nxt += fresh + 1;
			peer.fin_in = true;
			peer_say(p, TCP_ACK | TCP_FIN, peer.iss + 1, NULL);
			return;
		}
		fresh = RTE_MIN(fresh, peer.space);
		peer.rcv_nxt += fresh;
		peer.space -= fresh;
		if (props_chance(p, 10))
			peer_move(p);
		else
			peer.space = peer.space >> peer.wscale << peer.wscale;
	}
	peer_ack(p);
}

/** The peer's turn, with a window update now and then. */
static void
window_act(struct props *p)
{
	struct net_node *nd = &p->net.node[1];

	if (p->net.app[0].closed || peer.fin_acked)
		return;
	p->next_ns = sim_now_ns(p->net.sim) + props_log(p, WEFT_NS_PER_MS, 3 * WEFT_NS_PER_S);
	if (!peer.open)
		return;
	if (peer.fin_in) {
		peer_say(p, TCP_ACK | TCP_FIN, peer.iss + 1, NULL);
	} else {
		peer_move(p);
		peer_ack(p);
	}
	(void)nd;
}

static void
peer_poll(void *arg, uint64_t now_ns)
{
	struct props *p = arg;
	struct net_node *nd = &p->net.node[1];

	(void)now_ns;
	for (unsigned int i = 0; i < nd->nsegs; i++)
		peer_rx(p, &nd->segs[i]);
	nd->nsegs = 0;
}

static uint64_t
peer_next(void *arg)
{
	(void)arg;
	return WEFT_NEVER;
}

static bool
over(void *arg)
{
	return ((struct props *)arg)->net.app[0].closed;
}

static void
run_window(struct props *p)
{
	props_draw_path(p);
	/* the last window that is announced must be the last that arrives */
	for (unsigned int i = 0; i < 2; i++)
		p->cfg[i].loss_ppm = props_chance(p, 60) ? (uint32_t)props_rand(p, 150000) : 0;
	props_draw_attr(p);
	p->window_moves = p->may_split = true;
	memset(&peer, 0, sizeof(peer));
	peer.iss = (uint32_t)props_rand(p, UINT32_MAX);
	peer.wscale = (uint8_t)props_rand(p, 8);
	peer.space = 30000u >> peer.wscale << peer.wscale;
	props_up(p);
	p->net.node[1].raw = true;
	sim_add_node(p->net.sim,
	             &(struct sim_node){.poll = peer_poll, .next = peer_next, .arg = p});
	p->act = window_act;
	p->next_ns = sim_now_ns(p->net.sim) + props_log(p, WEFT_NS_PER_MS, WEFT_NS_PER_S);
	props_connect(p, 250000);
	CHECK_MSG(net_run(&p->net, 3000 * WEFT_NS_PER_S, over, p),
	          "%s, %u of %" PRIu64 " octets, window %u",
	          weft_tcp_state_name(net_state(&p->net.app[0])), peer.rcv_nxt - peer.irs - 1,
	          p->net.app[0].to_send, peer.space);
	CHECK_EQ(p->net.app[0].err, 0);
	CHECK_EQ(peer.rcv_nxt - peer.irs - 2, p->net.app[0].to_send);
	props_down(p);
}

void
test_window(void)
{
	props_each(1500, run_window);
}
