/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NETIF_H
#define WEFT_NETIF_H

/**
 * @file
 * One queue of one port: Ethernet with at most one VLAN tag, ARP (RFC 826) and Neighbor Discovery
 * (RFC 4861), IPv4 (RFC 791) and IPv6 (RFC 8200), ICMP and ICMPv6, checksums. netif is the only
 * user of ethdev. The header is internal. The engine (receive) and TCP (transmit) call it on the
 * worker that owns the queue.
 *
 * Receive: netif takes a burst from the port and validates it: every length, the IP and the TCP
 * checksum (in software when the port does not report it). It hands the TCP segments up as one
 * burst. The data of each mbuf begins at the TCP header, and pkt_len is exact.
 *
 * Transmit: TCP gives mbufs whose data begins at the TCP header, with WEFT_NETIF_HEADROOM octets in
 * front. A queue in front of the port holds what the port does not take at once.
 * weft_netif_tx_room() is the back-pressure.
 *
 * Memory: one pool for received and one for sent packets, so that neither direction can take the
 * buffers that the other needs to continue.
 */

#include <rte_ether.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "weft_base.h"
#include "weft_netif_budget.h"
#include "weft_sched.h"
#include "weft_stat.h"

/** Octets that netif puts in front of a TCP header at most: Ethernet, one VLAN tag, IPv6. */
#define WEFT_NETIF_HEADROOM (14 + 4 + 40)
/** The size of a receive burst, and the largest burst handed up. */
#define WEFT_NETIF_BURST 32
/** The most segments that wait for the port. */
#define WEFT_NETIF_TXQ 1024
/** The most segments that one TSO packet is cut into (struct weft_netif_tx_how). */
#define WEFT_NETIF_TSO_SEGS 64

#define WEFT_NETIF_NEIGHS_MAX 65536

struct weft_netif;
struct weft_neigh;
struct weft_netif_group;

/** The ECN field of an IP header (RFC 3168 s5). */
enum weft_ecn {
	WEFT_ECN_NOT_ECT = 0,
	WEFT_ECN_ECT1 = 1,
	WEFT_ECN_ECT0 = 2,
	WEFT_ECN_CE = 3,
};

/** The private area of every mbuf of a weft pool. The pool's priv_size must be at least this.
 * Received segments use `rx`. Segments in TCP's send queue use `tx`, whose content TCP defines. A
 * received mbuf with refcnt > 1 (net_ring passes the sender's mbuf) is copied first, so the two
 * uses never conflict. */
struct weft_mbuf_priv {
	union {
		struct {
			struct weft_ip src; /**< IP source */
			struct weft_ip dst; /**< IP destination, one of our addresses */
			/** ECN field of the packet (RFC 3168 s5), enum weft_ecn */
			uint8_t ecn;
		} rx;
		uint64_t tx[8]; /**< holds struct tcp_seg */
	};
};

static inline struct weft_mbuf_priv *
weft_mbuf_priv(struct rte_mbuf *m)
{
	return (struct weft_mbuf_priv *)rte_mbuf_to_priv(m);
}

/** The device. NULL in the attributes means the ethdev queue. Simulations give their own functions,
 * with the contracts of rte_eth_rx_burst() and rte_eth_tx_burst(). */
struct weft_netif_dev {
	uint16_t (*rx)(void *dev, struct rte_mbuf **pkts, uint16_t n);
	uint16_t (*tx)(void *dev, struct rte_mbuf **pkts, uint16_t n);
	/** Whether there is a link now; must not wait. Asked once a second, or ten times a second
	 * while there is none. NULL: always a link. */
	bool (*link)(void *dev);
};

struct weft_netif_attr {
	const struct weft_netif_dev *dev; /**< NULL: ethdev port_id/queue_id */
	void *dev_arg;
	uint16_t port_id;
	uint16_t queue_id;
	uint64_t tx_offloads; /**< RTE_ETH_TX_OFFLOAD_* that the port was configured with */
	uint64_t rx_offloads; /**< RTE_ETH_RX_OFFLOAD_* that the port was configured with */
	/** the most mbufs that the port takes in one TSO packet; 0: any number */
	uint16_t tx_mbufs_max;
	/** pool of received mbufs; owned by the caller. Its priv_size is at least
	 * sizeof(struct weft_mbuf_priv). */
	struct rte_mempool *pool;
	/** pool of everything we send, with the same priv_size; owned by the caller. With a second
	 * pool, data that peers leave unacknowledged never takes the buffers that their ACKs need
	 * on receive. NULL: `pool` (weft_netif_attr() then returns it). */
	struct rte_mempool *tx_pool;
	/** mbufs of `pool` that all receive queues of the port hold permanently. They are never
	 * lent (weft_netif_budget.h). */
	uint32_t rx_desc;
	/** Netifs that use these pools; 0: the members of the group, or this netif alone. */
	unsigned int pool_sharers;
	struct rte_ether_addr mac;
	struct weft_ip addr;    /**< our IPv4 address; all zero: IPv6 only */
	uint8_t prefix_len;     /**< of the on-link network */
	struct weft_ip gateway; /**< all zero: none */
	/** our global or unique-local IPv6 address; all zero: none beside link-local */
	struct weft_ip addr6;
	uint8_t prefix6_len; /**< of the on-link IPv6 network */
	/** next hop of all other IPv6 addresses, on-link or link-local; all zero: none */
	struct weft_ip gateway6;
	/** no IPv6 at all; otherwise a link-local address is made from mac (RFC 4291 appendix A) */
	bool no_ipv6;
	/** VLAN tag that we send and require, 1..4094; 0: untagged only */
	uint16_t vlan_id;
	/** The group of the port's queues that share these addresses (weft_netif_group.h); NULL:
	 * this is the only queue. */
	struct weft_netif_group *group;
	unsigned int group_index; /**< the number of this member */
	uint16_t mtu_bytes;       /**< size of an IP packet; 0: 1500 */
	/** Next hops kept at once, in addition to the gateways. Each connection holds at most one,
	 * and packets to strangers need some more. 0: 1024. At most WEFT_NETIF_NEIGHS_MAX. */
	uint32_t max_neighs;
};

/** What an ICMP or ICMPv6 error reports about a segment of ours. */
enum weft_icmp_kind {
	/** net, host or route unreachable, time exceeded: may be temporary (RFC 1122 s4.2.3.9) */
	WEFT_ICMP_SOFT,
	WEFT_ICMP_HARD,    /**< protocol or port unreachable */
	WEFT_ICMP_TOO_BIG, /**< fragmentation needed (RFC 1191), packet too big (RFC 8201) */
};

/** From the quoted packet; `src` is one of our addresses. Nothing in it can be trusted before the
 * ports and seq are checked. */
struct weft_icmp_error {
	enum weft_icmp_kind kind;
	struct weft_ip src, dst;
	uint16_t src_port, dst_port;
	uint32_t seq;
	/** length of the quoted packet by its own IP header; 0: unknown */
	uint16_t quoted_bytes;
	/** TOO_BIG: MTU of the next hop, 0 when an old router does not report it; else 0 */
	uint16_t mtu_bytes;
};

/** Up-calls. */
struct weft_netif_ops {
	/** n >= 1 validated TCP segments of 20 octets or more. The callee owns the mbufs. They may
	 * be chains. The first mbuf of a chain holds the whole TCP header with its options. */
	void (*tcp_rx)(void *arg, struct weft_netif *nif, struct rte_mbuf **m, unsigned int n,
	               uint64_t now_ns);
	/** An ICMP error about one of our TCP segments. May be NULL. */
	void (*icmp_error)(void *arg, struct weft_netif *nif, const struct weft_icmp_error *e,
	                   uint64_t now_ns);
	/** A sibling of the group has handed a frame to this member, for weft_netif_poll() to take.
	 * Runs on the sibling's thread, once a burst. A worker that sleeps between polls must wake
	 * up here. Its last check before it sleeps is weft_netif_handed(). May be NULL. */
	void (*wake)(void *arg);
};

/** Counters of both families, in the order in which a packet meets them. All are 64-bit and
 * readable at any time. */
struct weft_netif_stats {
	uint64_t rx_packets, rx_bytes;
	uint64_t rx_bad_ether;    /**< too short, for another station, unknown type */
	uint64_t rx_vlan;         /**< tag of another VLAN, or none where ours is required */
	uint64_t rx_bad_ip;       /**< version, header length, total or payload length */
	uint64_t rx_bad_ip_cksum; /**< checksum of the IPv4 header */
	/** IPv6 extension headers: malformed, too many, or not supported */
	uint64_t rx_bad_ext;
	/** IP fragments, dropped; atomic fragments of IPv6 (RFC 6946) are accepted */
	uint64_t rx_fragment;
	/** another destination address or group, or a source that no host can have */
	uint64_t rx_not_ours;
	uint64_t rx_bad_tcp_cksum;
	uint64_t rx_bad_proto; /**< neither TCP nor ICMP */
	uint64_t rx_no_mbuf;   /**< a copy was needed and the pool was empty */
	uint64_t arp_rx, arp_tx, arp_bad;
	uint64_t icmp_rx, icmp_tx, icmp_bad; /**< ICMP and ICMPv6 */
	/** errors not sent: too many in a second (RFC 1812 s4.3.2.8, RFC 4443 s2.4) */
	uint64_t icmp_limited;
	/** part of ICMPv6: Neighbor Discovery; nd_bad includes MLD queries */
	uint64_t nd_rx, nd_tx, nd_bad;
	/** router solicitations and advertisements, redirects: routers are configured */
	uint64_t nd_ignored;
	uint64_t mld_rx, mld_tx; /**< queries about our groups; reports */
	/** times that the link came up, the first included (once for a device that reports no
	 * link) */
	uint64_t link_ups;
	/** another station used, or asked for, one of our addresses (RFC 5227, RFC 4862) */
	uint64_t addr_conflicts;
	/** IPv6 disabled: another station had the link-local address first (RFC 4862 s5.4.5) */
	uint64_t ip6_disabled;
	uint64_t neigh_full; /**< neighbours not kept: all entries are held */
	/** entries that no connection held, replaced by another neighbour */
	uint64_t neigh_evicted;
	uint64_t neigh_failed;  /**< neighbours that did not answer */
	uint64_t neigh_limited; /**< requests delayed: too many in a second */
	uint64_t tx_packets, tx_bytes;
	/** bursts in which the driver's memory was unmapped (netif_guard.c) */
	uint64_t dev_faults;
	uint64_t tx_queue_full; /**< segments refused or dropped because the queue was full */
	/** dropped: no answer from the next hop in time, or too many packets waited for it */
	uint64_t tx_unresolved;
	uint64_t tx_parked;    /**< packets that waited for the next hop's address */
	uint64_t tx_park_full; /**< part of tx_unresolved: too many waited (netif_park.c) */
	uint64_t tx_no_route;
	/** packets refused or dropped: no mbufs for the copy or the pieces that the port needs */
	uint64_t tx_no_mbuf;
	/** packets that the port's driver rejects (rte_eth_tx_prepare()), dropped */
	uint64_t tx_refused;
	/** buffers held on behalf of peers (weft_netif_budget.h) */
	struct weft_netif_budgets lent;
};

/** Creates a netif. Copies *attr. The first poll that finds a link announces the IPv4 address by
 * gratuitous ARP and starts Duplicate Address Detection for the IPv6 addresses (RFC 4862 s5.4). So
 * does the first poll after the link was lost; it then announces the IPv6 addresses that have
 * passed. An IPv6 address is used during detection (RFC 4429), and no longer if another station
 * objects within the second. If that address is the link-local one, IPv6 is disabled
 * (RFC 4862 s5.4.5). Set-up thread. -EINVAL (attributes), -ENOMEM. */
int weft_netif_create(const struct weft_netif_attr *attr, const struct weft_netif_ops *ops,
                      void *ops_arg, struct weft_sched *sched, struct weft_netif **out);
/** Frees queued packets and timers, and leaves the port alone. A member of a group first sends what
 * it and its siblings have queued, as far as the port takes it: no member may be polling, and
 * member 0 is destroyed last. */
void weft_netif_destroy(struct weft_netif *nif);

/** Receives one burst and hands it up. Returns the number of packets received. Polling thread. */
unsigned int weft_netif_poll(struct weft_netif *nif, uint64_t now_ns);
/** Whether siblings have handed over frames that a poll would take now. Polling thread. */
bool weft_netif_handed(const struct weft_netif *nif);
/** Gives the transmit queue to the port. Returns the number of packets taken. Polling thread. */
unsigned int weft_netif_flush(struct weft_netif *nif, uint64_t now_ns);
/** The number of segments that weft_netif_tx() will take now. */
unsigned int weft_netif_tx_room(const struct weft_netif *nif);

/** Gets the next hop to dst, resolved or not yet. A connection keeps it. The entry is counted and
 * cannot be evicted while it is held. -EHOSTUNREACH (no route), -ENOBUFS (all entries are held). */
int weft_netif_neigh_get(struct weft_netif *nif, const struct weft_ip *dst,
                         struct weft_neigh **out);
/** Like weft_netif_neigh_get(), for one answer to a peer of which no state is kept. There is
 * nothing to put. The entry is valid for one weft_netif_tx() right after. Address requests for
 * such answers have a limit of their own, so a flood of them delays no other request. */
int weft_netif_neigh_passing(struct weft_netif *nif, const struct weft_ip *dst,
                             struct weft_neigh **out);
/** Ends a weft_netif_neigh_get(). The entry may be evicted when no connection holds it. */
void weft_netif_neigh_put(struct weft_netif *nif, struct weft_neigh *n);
/** The part of a next hop that TCP writes in the data path. */
struct weft_neigh_progress {
	uint64_t seen_ns; /**< last confirmation by TCP; 0: none since the last request */
};
/** Confirms the next hop: a peer has acknowledged new data that went by it. It need not be asked
 * then (RFC 4861 s7.3.1; RFC 1122 s2.3.2.1 (4) for ARP). Has no effect while the next hop's
 * address is unknown. Polling thread. */
static inline void
weft_netif_neigh_confirm(struct weft_neigh *n, uint64_t now_ns)
{
	/* the first member of struct weft_neigh */
	((struct weft_neigh_progress *)n)->seen_ns = now_ns;
}
/** TCP reports that the next hop may be dead (several RTOs): asks for it again. */
void weft_netif_neigh_suspect(struct weft_netif *nif, struct weft_neigh *n);

/** How a segment is sent. */
struct weft_netif_tx_how {
	uint8_t ecn; /**< enum weft_ecn */
	/** 0: m is one segment. Otherwise m is several: the port cuts its payload into segments of
	 * this many octets; the last may be shorter. netif cuts it where the port lacks
	 * RTE_ETH_TX_OFFLOAD_TCP_TSO or what that needs. FIN and PSH are set on the last segment.
	 * m may then exceed the MTU, up to 65535 octets of IP packet and WEFT_NETIF_TSO_SEGS
	 * segments. netif sets CWR on the first segment alone (RFC 3168 s6.1.2). Ports differ, so
	 * do not set CWR for them. */
	uint16_t tso_segsz_bytes;
	bool may_fragment; /**< IPv4: DF stays clear */
};

/** Our source address for packets to dst (RFC 6724, as far as one interface with one global and one
 * link-local address needs it). NULL: none of that family or scope. */
const struct weft_ip *weft_netif_src(const struct weft_netif *nif, const struct weft_ip *dst);
/** Whether ip is one of our addresses. */
bool weft_netif_is_local(const struct weft_netif *nif, const struct weft_ip *ip);

/**
 * Sends one TCP segment. m's data begins at the TCP header, with WEFT_NETIF_HEADROOM in front.
 * netif writes the checksum field. m may be a chain whose first mbuf holds the whole TCP header.
 * Consumes one reference of m always, also on error. The headers stay in front: a holder of another
 * reference finds data_off, the lengths and the TX flags changed.
 *
 * 0, -ENOBUFS (queue full or no mbufs, counted; of several segments none is sent), -EMSGSIZE
 * (longer than the MTU, or no headroom). While the next hop's address is being asked for, segments
 * wait: the first of each connection and a few more (netif_park.c). Excess segments are dropped and
 * counted. All are dropped if no answer comes. TCP retransmits them.
 */
int weft_netif_tx(struct weft_netif *nif, struct weft_neigh *n, const struct weft_ip *src,
                  const struct weft_ip *dst, struct rte_mbuf *m, struct weft_netif_tx_how how,
                  uint64_t now_ns);

/** What the port accepts as one TSO packet. */
struct weft_netif_tso {
	/** TCP header and payload; 0: no TSO (netif would cut the packet, without gain) */
	uint16_t bytes;
	uint16_t mbufs;
};
/** The values for packets to dst. They never change. */
struct weft_netif_tso weft_netif_tso(const struct weft_netif *nif, const struct weft_ip *dst);

/** Allocates an mbuf of tx_pool with `headroom` octets reserved (WEFT_NETIF_HEADROOM and what TCP
 * adds). NULL: the pool is empty. */
struct rte_mbuf *weft_netif_alloc(struct weft_netif *nif, uint16_t headroom);

/** Follows a change of the port's MTU. -EINVAL: below the minimum of IPv4 or, if in use, IPv6, or
 * longer than the pools' mbufs allow. The caller tells TCP by weft_tcp_mtu_changed(). Queued
 * packets are sent unchanged. */
int weft_netif_set_mtu(struct weft_netif *nif, uint16_t mtu_bytes);
const struct weft_netif_attr *weft_netif_attr(const struct weft_netif *nif);
/** What this netif lends to peers (weft_netif_budget.h). Owned by the netif; charged on its
 * worker. */
struct weft_netif_budgets *weft_netif_budgets(struct weft_netif *nif);
const struct weft_netif_stats *weft_netif_stats(const struct weft_netif *nif);
/** Gives the names of the counters. Returns how many. Any thread. */
unsigned int weft_netif_stat_fields(const struct weft_stat_field **out);
/** Whether dst is on this interface's network, or with via_gw also by its gateway. */
bool weft_netif_reaches(const struct weft_netif *nif, const struct weft_ip *dst, bool via_gw);

/* ---- Ports: the configuration of an ethdev (netif_port.c) ---- */

struct weft_netif_port_attr {
	/** vdev string ("net_memif0,role=client,...": hot-plugged) or name of a probed port */
	const char *dev;
	uint16_t mtu_bytes;
	/** frames will carry a tag: the port inserts and strips it if it can */
	bool vlan;
	unsigned int mbufs; /**< in both pools together, half in each; at least 2 */
	uint16_t queues;    /**< workers that share the port; 1..64 */
	bool check;         /**< check the driver only: open a stand-in that uses no device */
	/** source of the Toeplitz key, which peers must not know; NULL: a public key */
	const struct weft_rand *rand;
};

/** An opened and started port. Plain data for the engine to read. */
struct weft_netif_port {
	uint16_t port_id;
	/** MTU that netif uses; the port itself may know only 1500 (net_memif) */
	uint16_t mtu_bytes;
	bool created;     /**< hot-plugged by us: closing removes it */
	char devname[64]; /**< the device's name, for removal */
	char driver[32];  /**< "net_memif", ... */
	/** negotiated: only what netif can also do in software */
	uint64_t rx_offloads, tx_offloads;
	uint16_t tx_mbufs_max; /**< for weft_netif_attr.tx_mbufs_max */
	struct rte_ether_addr mac;
	int socket;
	/** Each is the number of workers, or 1. Receive is 1 for a port without RSS. Transmit is 1
	 * for a port without enough queues for us alone. weft_netif_group.h then does the rest. */
	uint16_t rx_queues, tx_queues;
	bool rss; /**< the port steers by the key and the table below */
	/** key of the port, or for the group to steer by where the port does not */
	uint8_t rss_key[52];
	unsigned int rss_key_bytes;
	uint16_t reta[512]; /**< redirection table: entry to queue */
	unsigned int reta_size;
	uint32_t rx_desc;         /**< of all receive queues; a driver may hold an mbuf in each */
	struct rte_mempool *pool; /**< for receiving; the port's own queues are filled from it */
	struct rte_mempool *tx_pool; /**< for sending */
};

/**
 * Creates the device if necessary, sets its rings, negotiates offloads and starts it. Set-up
 * thread.
 *
 * -ENODEV (no such device, or it cannot be opened), -EINVAL (attr; an argument of dev without a
 * value, or more arguments than DPDK reads, which a driver would misread: one log line), -ENOMEM,
 * -ENOTSUP.
 *
 * With several queues the port steers by RSS if it offers RSS over TCP's four-tuple and tells its
 * key and table (or takes ours). Otherwise it has one receive queue, and member 0 of the group
 * distributes.
 *
 * A net_memif client needs a server that listens. A server that refuses (not started yet, or still
 * with another client) is asked again for up to 3 s; then the port opens without a link. The driver
 * never connects again when the server ends: close the port and open it anew. A socket file that a
 * killed server left is removed first.
 */
int weft_netif_port_open(const struct weft_netif_port_attr *attr, struct weft_netif_port *out);
/** Stops, closes and removes the port, and frees the pools. */
void weft_netif_port_close(struct weft_netif_port *p);
/** The link as the port reports it now, without waiting. */
bool weft_netif_port_link(const struct weft_netif_port *p);
/** The port's own count of packets dropped for lack of buffers. */
uint64_t weft_netif_port_missed(const struct weft_netif_port *p);
/** net_memif clients of this process's servers that left before the server's greeting. Any
 * thread. */
uint64_t weft_netif_memif_gone(void);

/** Creates a mempool for a netif. Each mbuf holds a whole frame of mtu_bytes. The name must be
 * unique in the process. -ENOMEM. */
int weft_netif_pool_create(const char *name, unsigned int mbufs, uint16_t mtu_bytes, int socket,
                           struct rte_mempool **out);

#endif /* WEFT_NETIF_H */
