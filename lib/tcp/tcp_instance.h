/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TCP_INSTANCE_H
#define TCP_INSTANCE_H

/**
 * @file
 * The TCP instance of a worker: the table of connections, the listeners, what the connections
 * share, and the counters.
 */

#include "tcp_ports.h"
#include "weft_answers.h"

#include "tcp_conn.h"

WEFT_LOG_DECLARE(tcp);

/** What one ACK has reported. Valid while the ACK is processed. */
struct tcp_ack_state {
	uint64_t now_ns;
	uint64_t newest_ns; /**< latest transmission among the delivered segments; 0: none */
	uint64_t rtt_ns;    /**< RTT of that segment */
	uint32_t delivered; /**< octets acknowledged or SACKed for the first time */
	uint32_t ts_ecr;
	bool has_ts, has_sack, sacked_new, dsack;
	struct tcp_sack dsack_block;
};

/**
 * Segments that the user of one connection may begin without another look at the limits: they were
 * found free by one look (weft_tcp_begin()). It ends with whatever may change a limit: the next
 * poll, another connection's grant, and each event of a connection (tcp_hold()).
 */
struct tcp_grant {
	const struct weft_tcp_conn *conn; /**< NULL: none */
	uint64_t now_ns;                  /**< the poll that it is valid in */
	uint32_t segs;
};

struct weft_tcp_listener {
	TAILQ_ENTRY(weft_tcp_listener) link;
	struct weft_ip addr;
	uint8_t bits; /**< of addr that a local address must have (weft_ip_same_prefix()); 0: any */
	uint16_t port;
	unsigned int backlog, half_open;
	enum weft_tcp_cc cc;       /**< of the connections it accepts */
	int dscp;                  /**< likewise, and of its SYN cookies; -1: the port's */
	struct tcp_conn_list half; /**< half-open connections, oldest first */
	weft_tcp_accept_fn accept;
	weft_tcp_room_fn room; /**< may be NULL */
	void *arg;
};

/** How the connections over one interface share the buffers of its port (tcp_share.c). */
struct tcp_share {
	struct weft_netif *nif;
	struct weft_netif_budgets *lent;
	uint32_t conns;             /**< all connections; 0: the entry is free */
	uint32_t members;           /**< established connections; each has `own` */
	uint32_t snd_max, ooo_max;  /**< limits of all connections together, in mbufs */
	uint32_t own;               /**< queued mbufs that each member may always have */
	uint32_t fixed;             /**< part of snd_max, reserved for `own` */
	uint32_t common, borrowers; /**< mbufs beyond `own`; connections with such mbufs */
	uint32_t ooo_holders;       /**< connections with out-of-order octets */
	struct tcp_conn_list ooo;   /**< those connections */
	/** borrowers that are not overdue, the oldest lap first */
	struct tcp_conn_list lap;
	struct tcp_conn_list late; /**< overdue borrowers, the oldest lap first */
	uint32_t nlate;
	uint64_t refused_ns; /**< when a connection was last refused buffers; 0: never */
	uint64_t crowded_ns; /**< when room for one more connection was last missing; 0: never */
	/** the most connections: max_conns, or as many as snd_max has buffers for */
	uint32_t most;
};
#define TCP_SHARES 8 /**< interfaces of one instance */

#define TCP_PMTU_SETS 64
#define TCP_PMTU_WAYS 4

/** A path MTU for later connections. A keyed hash chooses its set. */
struct tcp_pmtu {
	struct weft_ip dst;
	uint16_t mtu_bytes;
	/** size that vanishes, by the log line about this destination; 0: there was none */
	uint16_t named_bytes;
	uint16_t found_bytes; /**< size that has vanished at least once; 0: none */
	uint64_t until_ns;    /**< 0: free */
};

struct weft_tcp {
	struct weft_sched *sched;
	struct weft_tcp_attr attr;
	struct weft_tcp_stats stats;
	struct tcp_ack_state ack;
	struct tcp_grant grant;
	uint64_t hash_key[2]; /**< of the connection table */
	struct tcp_keys keys;
	struct weft_tcp_conn **buckets;
	uint32_t bucket_mask;
	uint8_t rcv_wscale; /**< scale that we offer */
	uint32_t rcv_wnd;   /**< a multiple of 1 << rcv_wscale */
	struct weft_tcp_conn *conns;
	struct tcp_conn_list free, time_wait;
	struct tcp_conn_list waiting; /**< connections that wait for room, the longest wait first */
	uint32_t nwaiting;
	struct weft_task waker;
	struct weft_timer retry; /**< runs the waker: other threads release buffers silently */
	bool released;           /**< buffers were released since the waker last ran */
	/** room of the port's queue when turns found too little; UINT32_MAX: they found enough */
	uint32_t vain_room;
	uint32_t snd_segs, ooo_mbufs; /**< sums of all connections */
	uint64_t ooo_steps;           /**< list pieces walked for out-of-order segments */
	struct tcp_share share[TCP_SHARES];
	struct weft_timer sweep; /**< checks the deadlines of held buffers */
	uint32_t sweep_at;       /**< number of the next connection to check */
	uint64_t sweep_steps;    /**< borrowers checked */
	uint32_t in_state[WEFT_TCP_NSTATES];
	TAILQ_HEAD(, weft_tcp_listener) listeners;
	uint64_t cookie_key[2];
	uint64_t cookie_until_ns; /**< ACKs of cookies may arrive until then */
	struct tcp_rate accepts, challenges;
	struct weft_answers resets; /**< limit of RSTs for segments of no connection */
	uint64_t busy_rx_ns;        /**< last burst so large that the ring may hold more */
	uint32_t challenge_max;     /**< limit of this second */
	bool peer_default;          /**< max_conns_per_peer was not set: half of `most` */
	/** Connections per peer; NULL: the limit is max_conns. */
	struct tcp_peer_entry *peers;
	uint32_t *peer_buckets, peer_free; /**< indices plus one; 0: none */
	struct tcp_pmtu pmtu[TCP_PMTU_SETS * TCP_PMTU_WAYS];
};

static inline void
tcp_count_dup(struct weft_tcp_conn *c, uint32_t bytes)
{
	c->t->stats.rx_dup_bytes += bytes;
	c->n_dup_bytes_in += bytes;
}

static inline void
tcp_count_out(struct weft_tcp_conn *c, uint32_t bytes)
{
	c->t->stats.bytes_out += bytes;
	c->n_bytes_out += bytes;
}

#endif /* TCP_INSTANCE_H */
