/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TCP_NET_H
#define TCP_NET_H

/**
 * @file
 * Two TCP stacks over one simulated link. An application on each end of each connection sends and
 * checks a known stream of octets.
 */

#include "sim.h"
#include "weft_tcp.h"
#include "weft_test.h"
#include "tcp_wire.h"

/** A segment that a raw node received. */
struct net_seg {
	struct tcp_hdr h;
	struct tcp_opts opts;
	uint32_t len_bytes;
	uint8_t first; /**< first octet of the payload */
	uint8_t ecn;   /**< ECN codepoint of the packet */
	uint32_t bad;  /**< octets that differ from the expected stream */
	uint64_t at_ns;
};

#define NET_SEGS 4096
#define NET_KEEP 64

struct net_node {
	struct net *net;
	unsigned int id;
	struct weft_sched sched;
	struct weft_netif *nif;
	struct weft_tcp *tcp;
	struct weft_netif_attr nif_attr;
	const struct net_nic *nic;
	/** tx_limit: packets that the port accepts between two polls; 0: all. Set it between
	 * net_up() and the first run. */
	unsigned int tx_limit, tx_used;
	bool tx_stuck;          /**< the port accepts no packet */
	uint64_t held_until_ns; /**< the node is not polled before this time */
	/** A transmit ring that frees late. The port keeps a reference to the last tx_keep packets
	 * after their transmission, and checks that they do not change. */
	unsigned int tx_keep, nkept;
	struct {
		struct rte_mbuf *m;
		uint64_t sum;
	} kept[NET_KEEP];
	bool lost_power; /**< packets that the stack still sends are dropped */
	bool raw;        /**< received segments go to segs, not to the stack */
	struct net_seg segs[NET_SEGS];
	unsigned int nsegs;
	/** Raw node: the stream expected from expect_seq on. 0: payload is not checked. */
	uint8_t expect_key;
	uint32_t expect_seq;
	struct weft_neigh *raw_neigh;
	uint8_t raw_ecn; /**< ECN codepoint of packets that net_raw() sends */
};

#define NET_APPS 64

/** The application at one end of a connection. */
struct net_app {
	struct net_node *node;
	struct weft_tcp_conn *c;
	uint64_t to_send, sent, received, expect; /**< octets */
	uint8_t tx_key, rx_key;                   /**< keys of the streams, see net_stream() */
	uint32_t max_seg; /**< random segment lengths up to this; 0: always the MSS */
	bool close_when_sent, close_on_eof, abort_on_rx, abort_on_eof, abort_on_established;
	bool established, eof, closed, bad_data, torn;
	int err;
	unsigned int writables, rx_calls, mss_calls;
	uint16_t mss;                    /**< MSS of the last mss up-call */
	void (*push)(struct net_app *a); /**< replaces net_app_push() if not NULL */
};

/** A port that processes packets before it sends them. */
struct net_nic {
	uint64_t tx_offloads;
	uint16_t tx_mbufs_max;
	/** Takes ownership of the packets. Sends frames with net_wire(). */
	void (*tx)(struct net_node *nd, struct rte_mbuf **pkts, uint16_t n);
};
/** The port of the nodes that net_up() makes. NULL: a port that sends packets unchanged. */
extern const struct net_nic *net_nic;

struct net {
	struct sim *sim;
	struct sim_link *link;
	struct net_node node[2];
	struct net_app app[NET_APPS];
	unsigned int napps;
	/** The application of each accepted connection. node, c and `established` are set on
	 * acceptance. */
	struct net_app accept_as;
	bool refuse;
	unsigned int accepted, listen_node;
	struct weft_tcp_listener *listener;
};

/** The mempool that all stacks and links share. It is created at first use. */
struct rte_mempool *net_pool(void);
/** Create two stacks. cfg has the configuration of each direction, attr the attributes of each
 * node's stack. Either may be NULL. */
void net_up(struct net *n, uint64_t seed, const struct sim_link_cfg cfg[2],
            const struct weft_tcp_attr attr[2], uint16_t mtu_bytes);
/** Destroy both stacks. The case fails if an mbuf, a timer or a connection is left. */
void net_down(struct net *n);
/** Destroy both stacks after a failed case, without checks and without messages. */
void net_discard(struct net *n);
/** The node listens on port 7. */
void net_listen(struct net *n, unsigned int node);
/** Send a segment from raw node 1. Its payload is part of the stream 200, from octet `off` on. */
void net_raw(struct net *n, const struct tcp_hdr *h, const struct tcp_opts *o, uint32_t off,
             uint32_t len);
/** Open a connection from one node to the other. */
struct net_app *net_connect(struct net *n, unsigned int from, uint16_t port);
/** The same for an application that the caller has filled in, from a given source port. */
int net_connect_from(struct net_app *a, uint16_t src_port, uint16_t dst_port);
/** Octet `off` of the stream `key`. Applications send and expect these streams. Node 0 sends the
 * stream 100, node 1 the stream 200. */
uint8_t net_stream(uint8_t key, uint64_t off);
/** The node restarts: its connections disappear without FIN or RST, and a new stack replaces the
 * old one. */
void net_restart(struct net *n, unsigned int node, const struct weft_tcp_attr *attr);
void net_app_push(struct net_app *a);
/** Run for at most ns. Returns true if done() returned true. */
bool net_run(struct net *n, uint64_t ns, bool (*done)(void *arg), void *arg);
/** Run until every application is closed. */
bool net_run_closed(struct net *n, uint64_t ns);
struct weft_ip net_ip(unsigned int node);
/** Send a frame unchanged. */
void net_wire(struct net_node *nd, struct rte_mbuf *m);
/** Free all packets that the transmit ring keeps except the last `left`. */
void net_unkeep(struct net_node *nd, unsigned int left);
enum weft_tcp_state net_state(const struct net_app *a);
/** Wait until every TIME-WAIT has ended. The case fails if a connection or a timer is left. */
void net_check_idle(struct net *n);

#endif /* TCP_NET_H */
