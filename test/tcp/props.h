/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PROPS_H
#define PROPS_H

/**
 * @file Properties of the TCP engine over a network drawn from a seed: the draw, the watch that
 * checks every segment on the link and every connection after each turn, and what disturbs a run.
 */

#include "tcp_net.h"

#define PROPS_CONNS  8
#define PROPS_OCTETS (1u << 20) /**< of one stream at most */

/** Fewer runs where each costs ten times as much. */
#ifdef __SANITIZE_ADDRESS__
#define PROPS_RUNS(n) ((n) / 10)
#else
#define PROPS_RUNS(n) (n)
#endif

/** What one end sends on one connection; offsets count octets of the stream from 0. */
struct props_half {
	bool syn, fin, fin_arrived, wscale_ok, has_ts;
	uint32_t iss;
	uint16_t mss;     /**< offered by this end */
	uint8_t wscale;   /**< likewise */
	uint64_t end;     /**< behind the highest octet sent */
	uint64_t fin_off; /**< of the FIN */
	uint64_t arrived; /**< all octets before it have reached the far end intact */
	uint64_t acked;   /**< told to this end: the far end has all before */
	/** Likewise, by segments that this end must accept; and without what came at this instant:
	 * a burst is worked through in order, and earlier segments of it have their effect
	 * first. */
	uint64_t acked_new, acked_sure, acked_new_ns;
	/** Told to this end: the far end's window ends here; now, before this instant, and ever. */
	uint64_t edge, edge_was, edge_ns, edge_max;
	uint64_t ack_out;  /**< of the other half's stream: acknowledged by this end */
	uint64_t edge_out; /**< likewise: this end's window, as sent */
	uint8_t *octet;    /**< PROPS_* for each */
	uint64_t segs, octets, retrans_segs, retrans_octets, lost_segs, arrived_segs;
	uint64_t timeout_segs; /**< not acknowledged when a retransmission timer fired */
};

#define PROPS_START   0x01 /**< a segment began here when it was first sent */
#define PROPS_ARRIVED 0x02
#define PROPS_SACKED  0x04 /**< the sender knows that it has arrived */
#define PROPS_UNSEEN  0x08 /**< lost before the link: the next hop's address was not known */

struct props_flow {
	uint16_t port[2]; /**< of node 0, of node 1 */
	struct props_half half[2];
};

/** One run. */
struct props {
	uint64_t seed, rng;
	struct net net;
	struct sim_link_cfg cfg[2];
	struct weft_tcp_attr attr[2];
	uint16_t mtu_bytes;
	struct props_flow flow[PROPS_CONNS];
	unsigned int nflows;
	/** Of the applications' connections, after the last turn. */
	uint32_t cwnd_before[NET_APPS];
	uint64_t acked_before[NET_APPS];
	uint64_t probes_before[NET_APPS]; /**< loss probes */
	uint64_t rtos_before[NET_APPS];
	/* What the scenario excuses. */
	bool may_split; /**< windows or MTU shrink: segments may be cut (RFC 5044 appendix A) */
	/** segments wait in front of the port: what they say may be old when they leave */
	bool stale_port;
	/** segments of connections that nobody opened here, or of earlier ones */
	bool strangers;
	bool attacked;     /**< somebody forges segments */
	bool window_moves; /**< the peer is no stack of ours: its window may shrink */
	/* Disturbance: act() at next_ns, which it sets anew. */
	void (*act)(struct props *p);
	uint64_t next_ns;
	unsigned int acts;
	void *act_arg;
};

extern struct props props;

/** Uniform in [0, n); n > 0. Its stream depends on the seed alone. */
uint64_t props_rand(struct props *p, uint64_t n);
/** True in `percent` of 100. */
bool props_chance(struct props *p, unsigned int percent);
/** Uniform in the logarithm, lo to hi; lo > 0. */
uint64_t props_log(struct props *p, uint64_t lo, uint64_t hi);

/** Forget the last run and start this one's draw. */
void props_begin(uint64_t seed);
/** Attributes of both ends: every option on or off, buffers, both congestion controls. */
void props_draw_attr(struct props *p);
/** A path without faults: delay, rate, MTU. */
void props_draw_path(struct props *p);
/** Every fault of the link, up to `loss_percent`. */
void props_draw_faults(struct props *p, unsigned int loss_percent);
/** Stacks up, watched; cfg, attr and mtu_bytes as drawn. */
void props_up(struct props *p);
/** Nobody has anything left: connections, timers, mbufs; stacks down. */
void props_down(struct props *p);
/** A round trip without queues, and the time of one full segment on the slower line. */
uint64_t props_rtt_ns(const struct props *p);
/** What an application sends, at most `most` octets, and in what pieces; it closes behind them. */
void props_draw_app(struct props *p, struct net_app *a, uint64_t most);
/** A connection from node 0 with such an application. */
struct net_app *props_connect(struct props *p, uint64_t most);
/** Every octet came, in order, both sides were closed in order. */
void props_check_complete(struct props *p, const struct net_app *a, const struct net_app *b);
/** The passive end of a's connection. */
struct net_app *props_peer_of(struct props *p, const struct net_app *a);

/** Register the watch on the link and the sampler among the nodes. */
void props_watch(struct props *p);
/** The flow of an application's connection, while it lives or after. */
struct props_flow *props_flow_of(struct props *p, const struct net_app *a);

#endif /* PROPS_H */
