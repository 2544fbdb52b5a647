/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PROPS_H
#define PROPS_H

/**
 * @file Properties of TCP over a random network that a seed determines: the choice of the network,
 * the watch that checks every segment on the link and every connection after each turn, and the
 * disturbances of a run.
 */

#include "tcp_net.h"

#define PROPS_CONNS  8
#define PROPS_OCTETS (1u << 20) /**< most octets of one stream */

/** Fewer runs under a sanitizer, where each takes ten times as long. */
#ifdef __SANITIZE_ADDRESS__
#define PROPS_RUNS(n) ((n) / 10)
#else
#define PROPS_RUNS(n) (n)
#endif

/** The stream that one end of a connection sends. Offsets count its octets from 0. */
struct props_half {
	bool syn, fin, fin_arrived, wscale_ok, has_ts;
	uint32_t iss;
	uint16_t mss;     /**< MSS option of this end */
	uint8_t wscale;   /**< window scale option of this end */
	uint64_t end;     /**< offset after the highest octet sent */
	uint64_t fin_off; /**< offset of the FIN */
	uint64_t arrived; /**< the far end has received all octets before this offset */
	uint64_t acked;   /**< highest acknowledgment that reached this end */
	/** The same for segments that this end must accept, and without those that arrived at
	 * this instant: a burst is processed in order, and its earlier segments take effect first.
	 */
	uint64_t acked_new, acked_sure, acked_new_ns;
	/** Right edge of the far end's window, as it reached this end: now, before this instant,
	 * and the highest ever. */
	uint64_t edge, edge_was, edge_ns, edge_max;
	uint64_t ack_out;  /**< this end's acknowledgment of the other stream */
	uint64_t edge_out; /**< right edge of the window that this end sent */
	uint8_t *octet;    /**< flags PROPS_* of each octet */
	uint64_t segs, octets, retrans_segs, retrans_octets, lost_segs, arrived_segs;
	uint64_t timeout_segs; /**< segments unacknowledged when the RTO timer expired */
};

#define PROPS_START   0x01 /**< the first octet of a segment when first sent */
#define PROPS_ARRIVED 0x02
#define PROPS_SACKED  0x04 /**< the sender has a SACK for the octet */
#define PROPS_UNSEEN  0x08 /**< dropped before the link: neighbour not resolved */

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
	/* What the scenario permits. */
	bool may_split; /**< windows or MTU shrink: segments may be cut (RFC 5044 appendix A) */
	/** Segments wait before the port, so their acknowledgments may be old when they leave. */
	bool stale_port;
	/** There are segments of connections that were not opened here, or of earlier ones. */
	bool strangers;
	bool attacked;     /**< an attacker forges segments */
	bool window_moves; /**< the peer is simulated, and its window may shrink */
	/* Disturbance: act() runs at next_ns and sets next_ns again. */
	void (*act)(struct props *p);
	uint64_t next_ns;
	unsigned int acts;
	void *act_arg;
};

extern struct props props;

/** A random number, uniform in [0, n), n > 0. The sequence depends only on the seed. */
uint64_t props_rand(struct props *p, uint64_t n);
/** True with a probability of `percent` in 100. */
bool props_chance(struct props *p, unsigned int percent);
/** A random number from lo to hi whose logarithm is uniform. lo > 0. */
uint64_t props_log(struct props *p, uint64_t lo, uint64_t hi);

/** Start a new run and its random numbers. */
void props_begin(uint64_t seed);
/** Choose the attributes of both ends: each option on or off, buffer sizes, the congestion control.
 */
void props_draw_attr(struct props *p);
/** Choose a path without faults: delay, rate, MTU. */
void props_draw_path(struct props *p);
/** Choose the faults of the link, with a loss of at most `loss_percent`. */
void props_draw_faults(struct props *p, unsigned int loss_percent);
/** Create the stacks with the chosen cfg, attr and mtu_bytes, and watch them. */
void props_up(struct props *p);
/** Destroy the stacks. Checks that no connection, timer or mbuf is left. */
void props_down(struct props *p);
/** Longest round-trip time without queues: delay, jitter, reordering, and the transmission time of
 * one full segment, in both directions. */
uint64_t props_rtt_ns(const struct props *p);
/** Choose how much an application sends (at most `most` octets) and in which lengths. It closes
 * after that. */
void props_draw_app(struct props *p, struct net_app *a, uint64_t most);
/** Open a connection from node 0 with such an application. */
struct net_app *props_connect(struct props *p, uint64_t most);
/** Check that every octet arrived in order and that both sides closed with FIN. */
void props_check_complete(struct props *p, const struct net_app *a, const struct net_app *b);
/** The application at the passive end of a's connection. */
struct net_app *props_peer_of(struct props *p, const struct net_app *a);

/** Register the watch on the link and the sampler among the nodes. */
void props_watch(struct props *p);
/** The flow of an application's connection, also after the connection has ended. */
struct props_flow *props_flow_of(struct props *p, const struct net_app *a);

#endif /* PROPS_H */
