/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TCP_NET_H
#define TCP_NET_H

/**
 * @file
 * Two TCP stacks over one simulated link, and an application on each connection that sends
 * and checks a known stream of octets.
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
	uint8_t first; /**< octet of the payload */
	uint8_t ecn;   /**< of the packet */
	uint32_t bad;  /**< octets that are not the node's expected stream's */
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
	/** Packets that the port takes between two polls; 0: all. Set between net_up() and the
	 * first run. */
	unsigned int tx_limit, tx_used;
	bool tx_stuck;          /**< the port takes nothing */
	uint64_t held_until_ns; /**< its worker has no turn before */
	/** A ring that frees late: so many packets stay referenced behind their transmission, and
	 * must not change meanwhile. */
	unsigned int tx_keep, nkept;
	struct {
		struct rte_mbuf *m;
		uint64_t sum;
	} kept[NET_KEEP];
	bool lost_power; /**< what the stack still says reaches nobody */
	bool raw;        /**< segments go to segs, not to the stack */
	struct net_seg segs[NET_SEGS];
	unsigned int nsegs;
	uint8_t expect_key; /**< raw: the stream that begins at expect_seq; 0: not looked at */
	uint32_t expect_seq;
	struct weft_neigh *raw_neigh;
	uint8_t raw_ecn; /**< codepoint of what net_raw() sends */
};

#define NET_APPS 64

/** One end of one connection. */
struct net_app {
	struct net_node *node;
	struct weft_tcp_conn *c;
	uint64_t to_send, sent, received, expect; /**< octets */
	uint8_t tx_key, rx_key;                   /**< of the streams */
	uint32_t max_seg; /**< random segment lengths up to this; 0: always a full MSS */
	bool close_when_sent, close_on_eof, abort_on_rx, abort_on_eof, abort_on_established;
	bool established, eof, closed, bad_data, torn;
	int err;
	unsigned int writables, rx_calls, mss_calls;
	uint16_t mss;                    /**< of the last up-call */
	void (*push)(struct net_app *a); /**< instead of net_app_push()'s own way */
};

/** A port that does more than pass on what it is given. */
struct net_nic {
	uint64_t tx_offloads;
	uint16_t tx_mbufs_max;
	/** Owns the packets and puts frames on the wire by net_wire(). */
	void (*tx)(struct net_node *nd, struct rte_mbuf **pkts, uint16_t n);
};
/** Of the nodes that net_up() makes; NULL: the plain one. */
extern const struct net_nic *net_nic;

struct net {
	struct sim *sim;
	struct sim_link *link;
	struct net_node node[2];
	struct net_app app[NET_APPS];
	unsigned int napps;
	/** What an accepted connection gets; node, c and `established` are filled in. */
	struct net_app accept_as;
	bool refuse;
	unsigned int accepted, listen_node;
	struct weft_tcp_listener *listener;
};

/** The pool that all stacks and links share; made at first use. */
struct rte_mempool *net_pool(void);
/** attr: per node, may be NULL. cfg: per direction. */
void net_up(struct net *n, uint64_t seed, const struct sim_link_cfg cfg[2],
            const struct weft_tcp_attr attr[2], uint16_t mtu_bytes);
/** Both stacks down; fails the case if an mbuf, a timer or a connection is left. */
void net_down(struct net *n);
/** Both stacks down after a failed case: nothing is asked, nothing is said. */
void net_discard(struct net *n);
/** Node 1 (or `listen_node`) listens on port 7. */
void net_listen(struct net *n, unsigned int node);
/** Send a segment from raw node 1; a payload continues the stream 200 from octet `off`. */
void net_raw(struct net *n, const struct tcp_hdr *h, const struct tcp_opts *o, uint32_t off,
             uint32_t len);
/** A connection from node 0 to node 1 (or the other way). */
struct net_app *net_connect(struct net *n, unsigned int from, uint16_t port);
/** The same for an application that is filled in, from a given port. */
int net_connect_from(struct net_app *a, uint16_t src_port, uint16_t dst_port);
/** Octet `off` of the stream `key`: what every application sends and expects. Node 0 sends 100,
 * node 1 200. */
uint8_t net_stream(uint8_t key, uint64_t off);
/** The node loses its memory at once: its connections are gone without a word, a fresh stack is
 * there. */
void net_restart(struct net *n, unsigned int node, const struct weft_tcp_attr *attr);
void net_app_push(struct net_app *a);
/** Run for at most that long; true if done said so. */
bool net_run(struct net *n, uint64_t ns, bool (*done)(void *arg), void *arg);
/** Run until every application is closed. */
bool net_run_closed(struct net *n, uint64_t ns);
struct weft_ip net_ip(unsigned int node);
/** A frame as it is. */
void net_wire(struct net_node *nd, struct rte_mbuf *m);
/** Let the ring go of all but the last `left` packets that it keeps. */
void net_unkeep(struct net_node *nd, unsigned int left);
enum weft_tcp_state net_state(const struct net_app *a);
/** Wait for the TIME-WAITs to end and fail if a connection or a timer is left. */
void net_check_idle(struct net *n);

#endif /* TCP_NET_H */
