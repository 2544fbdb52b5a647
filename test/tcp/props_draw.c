/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The parameters of a run, drawn from its seed. */

#include "props.h"

struct props props;

uint64_t
props_rand(struct props *p, uint64_t n)
{
	uint64_t z = p->rng += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return (z ^ (z >> 31)) % n;
}

bool
props_chance(struct props *p, unsigned int percent)
{
	return props_rand(p, 100) < percent;
}

uint64_t
props_log(struct props *p, uint64_t lo, uint64_t hi)
{
	unsigned int octaves = 0;
	uint64_t base;

	while (lo << (octaves + 1) <= hi)
		octaves++;
	base = lo << props_rand(p, octaves + 1);
	return RTE_MIN(base + props_rand(p, base), hi);
}

void
props_begin(uint64_t seed)
{
	/* a run that failed has not destroyed its stacks */
	if (props.net.sim != NULL)
		net_discard(&props.net);
	props.nflows = 0;
	props.seed = seed;
	props.rng = seed;
	props.mtu_bytes = 1500;
	props.may_split = props.stale_port = props.strangers = props.window_moves = props.attacked =
	        false;
	props.act = NULL;
	props.next_ns = WEFT_NEVER;
	props.acts = 0;
	memset(props.cfg, 0, sizeof(props.cfg));
	memset(props.attr, 0, sizeof(props.attr));
	memset(props.probes_before, 0, sizeof(props.probes_before));
	memset(props.acked_before, 0, sizeof(props.acked_before));
	memset(props.rtos_before, 0, sizeof(props.rtos_before));
	memset(props.cwnd_before, 0, sizeof(props.cwnd_before));
	test_seed_note(seed);
}

void
props_draw_attr(struct props *p)
{
	static const uint32_t rto_max[] = {1000000, 2000000, 4000000};
	static const uint32_t rcv_buf[] = {0, 0, 0, 20000, 65535, 200000};

	for (unsigned int i = 0; i < 2; i++) {
		struct weft_tcp_attr *a = &p->attr[i];

		a->max_conns = 16;
		a->no_sack = props_chance(p, 30);
		a->no_timestamps = props_chance(p, 30);
		a->no_window_scale = props_chance(p, 20);
		a->no_tso = props_chance(p, 30);
		a->cc = props_chance(p, 50) ? WEFT_TCP_CC_CUBIC : WEFT_TCP_CC_NEWRENO;
		a->ecn = WEFT_TCP_ECN_OFF + (unsigned int)props_rand(p, 3);
		a->initial_cwnd_segs = 1 + (uint32_t)props_rand(p, 10);
		a->rcv_buf_bytes = rcv_buf[props_rand(p, RTE_DIM(rcv_buf))];
		a->max_ooo_bytes = props_chance(p, 15) ? 8000 : 0;
		a->delack_us = props_chance(p, 30) ? (uint32_t)props_log(p, 10, 40000) : 0;
		a->rto_min_us = props_chance(p, 30) ? (uint32_t)props_log(p, 5000, 900000) : 0;
		a->rto_max_us = rto_max[props_rand(p, RTE_DIM(rto_max))];
		/* So that loss alone never ends a connection: 0.36^40 for 20 % in both
		 * directions. */
		a->data_retries = a->syn_retries = 40;
		a->user_timeout_us = 4000000000u;
		/* Longer than all repetitions of the last FIN, so that it is always answered. */
		a->time_wait_us = 120000000;
		/* A window smaller than the queued data splits a segment (RFC 9293 s3.8.6.2.1). */
		if (a->rcv_buf_bytes != 0 || a->no_window_scale)
			p->may_split = true;
	}
}

void
props_draw_path(struct props *p)
{
	static const uint16_t mtu[] = {1500, 1500, 1500, 9000, 576};
	uint64_t delay = props_log(p, 5 * WEFT_NS_PER_US, 50 * WEFT_NS_PER_MS);

	p->mtu_bytes = props_chance(p, 20) ? (uint16_t)(576 + props_rand(p, 8424))
	                                   : mtu[props_rand(p, RTE_DIM(mtu))];
	for (unsigned int i = 0; i < 2; i++) {
		p->cfg[i].delay_ns = props_chance(p, 80) ? delay : delay * (1 + props_rand(p, 8));
		if (props_chance(p, 70)) {
			p->cfg[i].rate_bps = props_log(p, 2000000, 40000000000ULL);
			p->cfg[i].queue_pkts = (uint32_t)props_log(p, 12, 1000);
		}
	}
}

static void
draw_loss(struct props *p, struct sim_link_cfg *c, unsigned int percent)
{
	uint32_t ppm = 1 + (uint32_t)props_rand(p, percent * 10000);

	switch (props_rand(p, 5)) {
	case 0:
		c->loss_ppm = ppm;
		break;
	case 1:
		c->burst_len = 2 + (uint32_t)props_rand(p, 9);
		c->burst_loss_ppm = ppm / c->burst_len;
		break;
	case 2: /* those of the first packets whose bits are set */
		c->loss_mask = props_rand(p, UINT64_MAX) & props_rand(p, UINT64_MAX) &
		               ((1ULL << (1 + props_rand(p, 20))) - 1);
		break;
	case 3:
		c->ack_loss_ppm = ppm;
		break;
	default:
		break;
	}
}

void
props_draw_faults(struct props *p, unsigned int loss_percent)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct sim_link_cfg *c = &p->cfg[i];

		draw_loss(p, c, loss_percent);
		if (props_chance(p, 30)) {
			c->reorder_ppm = (uint32_t)props_rand(p, 60000);
			c->reorder_ns = props_log(p, 1 + c->delay_ns / 16, 1 + 3 * c->delay_ns);
		}
		if (props_chance(p, 30)) {
			c->jitter_ns = props_log(p, 1 + c->delay_ns / 64, 1 + 2 * c->delay_ns);
			c->jitter_reorders = props_chance(p, 40);
		}
		if (props_chance(p, 25))
			c->dup_ppm = (uint32_t)props_rand(p, 60000);
		if (props_chance(p, 25))
			c->corrupt_ppm = (uint32_t)props_rand(p, 40000);
		if (props_chance(p, 25))
			c->ce_ppm = (uint32_t)props_rand(p, 200000);
	}
}

void
props_up(struct props *p)
{
	net_up(&p->net, p->seed, p->cfg, p->attr, p->mtu_bytes);
	props_watch(p);
	net_listen(&p->net, 1);
}

void
props_down(struct props *p)
{
	p->act = NULL;
	p->next_ns = WEFT_NEVER;
	net_check_idle(&p->net);
	/* No damaged segment was accepted: each one was detected. */
	net_down(&p->net);
}

uint64_t
props_rtt_ns(const struct props *p)
{
	uint64_t ns = 0;

	for (unsigned int i = 0; i < 2; i++) {
		const struct sim_link_cfg *c = &p->cfg[i];

		ns += c->delay_ns + c->jitter_ns + c->reorder_ns;
		if (c->rate_bps != 0)
			ns += (p->mtu_bytes + 14u) * 8 * WEFT_NS_PER_S / c->rate_bps;
	}
	return ns;
}

void
props_draw_app(struct props *p, struct net_app *a, uint64_t most)
{
	uint64_t n = props_chance(p, 10) ? props_rand(p, 3) : props_log(p, 1, most);

	a->max_seg = props_chance(p, 40) ? (uint32_t)props_log(p, 8, 9000) : 0;
	/* Few segments in comparison with the limit of all connections: a connection that waits
	 * for others tries in each turn. */
	a->to_send = a->max_seg != 0 ? RTE_MIN(n, 300ull * a->max_seg) : n;
	a->close_when_sent = true;
	a->close_on_eof = false;
}

struct net_app *
props_connect(struct props *p, uint64_t most)
{
	struct net_app *a = net_connect(&p->net, 0, 7);

	props_draw_app(p, a, most);
	return a;
}

struct net_app *
props_peer_of(struct props *p, const struct net_app *a)
{
	struct props_flow *f = props_flow_of(p, a);

	for (unsigned int i = 0; f != NULL && i < p->net.napps; i++) {
		struct net_app *b = &p->net.app[i];

		if (b != a && b->c != NULL && props_flow_of(p, b) == f)
			return b;
	}
	return NULL;
}

void
props_check_complete(struct props *p, const struct net_app *a, const struct net_app *b)
{
	(void)p;
	CHECK(!a->bad_data && !b->bad_data && !a->torn && !b->torn);
	CHECK_MSG(a->err == 0 && b->err == 0, "%d %d", a->err, b->err);
	CHECK_MSG(b->received == a->to_send && a->received == b->to_send,
	          "%" PRIu64 " of %" PRIu64 ", %" PRIu64 " of %" PRIu64, b->received, a->to_send,
	          a->received, b->to_send);
	CHECK_MSG(a->eof && b->eof, "%d %d", a->eof, b->eof);
}
