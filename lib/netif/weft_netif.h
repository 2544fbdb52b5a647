/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NETIF_H
#define WEFT_NETIF_H

/**
 * @file
 * One queue of one port: Ethernet with at most one VLAN tag, ARP (RFC 826) and Neighbor
 * Discovery (RFC 4861), IPv4 (RFC 791) and IPv6 (RFC 8200), ICMP and ICMPv6, checksums.
 * The only user of ethdev. Internal; called by engine (receive) and tcp (transmit), on the
 * worker that owns the queue.
 *
 * Receive: a burst is fetched, validated (every length, IP and TCP checksum; in
 * software when the port does not say), and the TCP segments among it are handed
 * up as one burst with mbuf data at the TCP header and pkt_len exact.
 *
 * Transmit: TCP hands mbufs whose data starts at the TCP header and which have
 * WEFT_NETIF_HEADROOM octets in front. A queue in front of the port holds what
 * the port does not take at once; weft_netif_tx_room() is the back-pressure.
 *
 * Memory: one pool for what comes in and one for what goes out, so that neither direction can
 * take the buffers that the other needs to get on.
 */

#include <rte_ether.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "weft_base.h"
#include "weft_netif_budget.h"
#include "weft_sched.h"
#include "weft_stat.h"

/** Octets netif may put in front of a TCP header: Ethernet, one VLAN tag, IPv6. */
#define WEFT_NETIF_HEADROOM (14 + 4 + 40)
/** Receive burst, and the largest burst handed up. */
#define WEFT_NETIF_BURST 32
/** Segments that may wait for the port. */
#define WEFT_NETIF_TXQ 1024
/** Segments that one hand-over may become (struct weft_netif_tx_how). */
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

/**
 * Private area of every mbuf of a weft pool (the pool's priv_size must be at least this).
 * Received segments use `rx`; segments in TCP's send queue use `tx` as TCP likes.
 * A received mbuf with refcnt > 1 (net_ring passes the sender's) is copied first, so the
 * two uses never meet.
 */
struct weft_mbuf_priv {
	union {
		struct {
			struct weft_ip src; /**< IP source */
			struct weft_ip dst; /**< IP destination, one of ours */
			/** ECN field of the packet (RFC 3168 s5), enum weft_ecn */
			uint8_t ecn;
		} rx;
		uint64_t tx[8]; /**< struct tcp_seg lies here */
	};
};

static inline struct weft_mbuf_priv *
weft_mbuf_priv(struct rte_mbuf *m)
{
	return (struct weft_mbuf_priv *)rte_mbuf_to_priv(m);
}

/**
 * Where packets come from and go to. NULL in the attributes means the ethdev queue;
 * simulations give their own. Same contracts as rte_eth_rx_burst / rte_eth_tx_burst.
 */
struct weft_netif_dev {
	uint16_t (*rx)(void *dev, struct rte_mbuf **pkts, uint16_t n);
	uint16_t (*tx)(void *dev, struct rte_mbuf **pkts, uint16_t n);
	/** Whether there is a link now, without waiting; asked once in a second, in a tenth while
	 * there is none. NULL: always. */
	bool (*link)(void *dev);
};

struct weft_netif_attr {
	const struct weft_netif_dev *dev; /**< NULL: ethdev port_id/queue_id */
	void *dev_arg;
	uint16_t port_id;
	uint16_t queue_id;
	uint64_t tx_offloads; /**< RTE_ETH_TX_OFFLOAD_* that the port was configured with */
	uint64_t rx_offloads; /**< RTE_ETH_RX_OFFLOAD_* likewise */
	/** mbufs that the port takes of several segments in one (TSO); 0: any number */
	uint16_t tx_mbufs_max;
	/** ours, what is received; priv_size >= sizeof(struct weft_mbuf_priv) */
	struct rte_mempool *pool;
	/**
	 * Likewise, everything we send: what peers leave unacknowledged never takes the buffers
	 * that their acknowledgements need to come in. NULL: `pool` (weft_netif_attr() then says
	 * so).
	 */
	struct rte_mempool *tx_pool;
	/** mbufs of `pool` that all receive queues of the port hold for good; they are never lent
	 * (weft_netif_budget.h). */
	uint32_t rx_desc;
	/** Netifs that use these pools; 0: the members of the group, or this one alone. */
	unsigned int pool_sharers;
	struct rte_ether_addr mac;
	struct weft_ip addr;    /**< our IPv4 address; all zero: IPv6 only */
	uint8_t prefix_len;     /**< of the on-link network */
	struct weft_ip gateway; /**< all zero: none */
	/** our global or unique-local IPv6 address; all zero: none beside link-local */
	struct weft_ip addr6;
	uint8_t prefix6_len; /**< of its on-link network */
	/** next hop of everything else, on link or link-local; all zero: none */
	struct weft_ip gateway6;
	/** not even a link-local address (which is otherwise made from mac, RFC 4291 appendix A) */
	bool no_ipv6;
	/** tag that we send and insist on, 1..4094; 0: untagged only */
	uint16_t vlan_id;
	/** The queues of one port that share these addresses (weft_netif_group.h); NULL: this is
	 * the only one. */
	struct weft_netif_group *group;
	unsigned int group_index; /**< which of them this is */
	uint16_t mtu_bytes;       /**< IP packet size; 1500 when 0 */
	/**
	 * Next hops kept at once, the gateways beside them; connections hold one each at most, and
	 * strangers' need some more. 1024 when 0, at most WEFT_NETIF_NEIGHS_MAX.
	 */
	uint32_t max_neighs;
};

/** What an ICMP or ICMPv6 error said about a segment of ours. */
enum weft_icmp_kind {
	/** net, host or route unreachable, time exceeded: may pass (RFC 1122 s4.2.3.9) */
	WEFT_ICMP_SOFT,
	WEFT_ICMP_HARD,    /**< protocol or port unreachable */
	WEFT_ICMP_TOO_BIG, /**< fragmentation needed (RFC 1191), packet too big (RFC 8201) */
};

/** From the quoted packet: `src` is one of our addresses. Nothing in it is to be trusted before
 * the ports and seq are checked. */
struct weft_icmp_error {
	enum weft_icmp_kind kind;
	struct weft_ip src, dst;
	uint16_t src_port, dst_port;
	uint32_t seq;
	/** the packet that was quoted, as its own header has it; 0: not known */
	uint16_t quoted_bytes;
	/** TOO_BIG: the next hop's, 0 when an old router does not say; else 0 */
	uint16_t mtu_bytes;
};

/** Up-calls. */
struct weft_netif_ops {
	/**
	 * n >= 1 validated TCP segments of 20 octets or more; the callee owns the mbufs. They may
	 * be chains; the first segment then holds the TCP header with any options whole.
	 */
	void (*tcp_rx)(void *arg, struct weft_netif *nif, struct rte_mbuf **m, unsigned int n,
	               uint64_t now_ns);
	/** An ICMP error about one of our TCP segments, or NULL. */
	void (*icmp_error)(void *arg, struct weft_netif *nif, const struct weft_icmp_error *e,
	                   uint64_t now_ns);
	/**
	 * A sibling has handed something over, for weft_netif_poll() to take. On the sibling's
	 * thread, once a burst; whoever sleeps between polls is woken here, having asked
	 * weft_netif_handed() last. May be NULL.
	 */
	void (*wake)(void *arg);
};

/** Counters in the order a packet meets them; all 64-bit, all readable at any time. Both families.
 */
struct weft_netif_stats {
	uint64_t rx_packets, rx_bytes;
	uint64_t rx_bad_ether;    /**< too short, for another station, unknown type */
	uint64_t rx_vlan;         /**< another VLAN's, or none where we insist on ours */
	uint64_t rx_bad_ip;       /**< version, header length, total or payload length */
	uint64_t rx_bad_ip_cksum; /**< of the IPv4 header */
	/** IPv6 extension headers: malformed, too many, not to be processed */
	uint64_t rx_bad_ext;
	/** IP fragments, dropped; IPv6's atomic ones (RFC 6946) are not */
	uint64_t rx_fragment;
	/** other destination address or group, or a source no host can have */
	uint64_t rx_not_ours;
	uint64_t rx_bad_tcp_cksum;
	uint64_t rx_bad_proto; /**< neither TCP nor ICMP */
	uint64_t rx_no_mbuf;   /**< a copy was needed and the pool was empty */
	uint64_t arp_rx, arp_tx, arp_bad;
	uint64_t icmp_rx, icmp_tx, icmp_bad; /**< ICMP and ICMPv6 */
	/** errors not sent: too many a second (RFC 1812 s4.3.2.8, RFC 4443 s2.4) */
	uint64_t icmp_limited;
	/** of ICMPv6: Neighbor Discovery; nd_bad: MLD queries, too */
	uint64_t nd_rx, nd_tx, nd_bad;
	/** router solicitations and advertisements, redirects: routers are configured */
	uint64_t nd_ignored;
	uint64_t mld_rx, mld_tx; /**< queries about groups of ours, reports */
	/** times that the link came, the first included (a device that does not tell has it once)
	 */
	uint64_t link_ups;
	/** somebody else used, or asked for, an address of ours (RFC 5227, RFC 4862) */
	uint64_t addr_conflicts;
	/** IPv6 given up: somebody had the link-local address first (RFC 4862 s5.4.5) */
	uint64_t ip6_disabled;
	uint64_t neigh_full;    /**< a neighbour not kept: all entries are held */
	uint64_t neigh_evicted; /**< entries that nobody held, forgotten for another one */
	uint64_t neigh_failed;  /**< neighbours that did not answer */
	uint64_t neigh_limited; /**< requests put off: too many at once */
	uint64_t tx_packets, tx_bytes;
	/** bursts in which the driver's memory went away (netif_guard.c) */
	uint64_t dev_faults;
	uint64_t tx_queue_full; /**< segments refused or dropped because the queue was full */
	/** dropped: no answer from the next hop in time, or its waiting room was full */
	uint64_t tx_unresolved;
	uint64_t tx_parked;    /**< that waited for the next hop's address */
	uint64_t tx_park_full; /**< of tx_unresolved: too many waited (netif_park.c) */
	uint64_t tx_no_route;
	/** packets refused or dropped: no buffers for the copy or the pieces that the port needs */
	uint64_t tx_no_mbuf;
	/** packets that the port's driver calls impossible (rte_eth_tx_prepare()), dropped */
	uint64_t tx_refused;
	struct weft_netif_budgets
	        lent; /**< buffers held on behalf of peers (weft_netif_budget.h) */
};

/**
 * Make one. Copies *attr. The first poll that finds a link announces the IPv4 address by gratuitous
 * ARP and asks whether the IPv6 ones are ours alone (RFC 4862 s5.4), and so does the first one
 * after the link was away (addresses that passed are announced then); they are used meanwhile (RFC
 * 4429), and no more when somebody objects within the second; when the link-local one is disputed
 * then, IPv6 is given up altogether (RFC 4862 s5.4.5). -EINVAL (attributes), -ENOMEM. Set-up
 * thread.
 */
int weft_netif_create(const struct weft_netif_attr *attr, const struct weft_netif_ops *ops,
                      void *ops_arg, struct weft_sched *sched, struct weft_netif **out);
/**
 * Frees queued packets and timers; the port itself is left alone. A member of a group sends before
 * what it and its siblings have queued, as far as the port takes it: no member may be polling, and
 * member 0 goes last.
 */
void weft_netif_destroy(struct weft_netif *nif);

/** Receive one burst and hand it up. Returns packets seen. Polling thread. */
unsigned int weft_netif_poll(struct weft_netif *nif, uint64_t now_ns);
/** Whether siblings of its group have handed over what a poll would take now. Polling thread. */
bool weft_netif_handed(const struct weft_netif *nif);
/** Push the transmit queue to the port. Returns packets taken. Polling thread. */
unsigned int weft_netif_flush(struct weft_netif *nif, uint64_t now_ns);
/** Segments that weft_netif_tx() will take now. */
unsigned int weft_netif_tx_room(const struct weft_netif *nif);

/**
 * The next hop to dst, resolved or being resolved; a connection keeps it.
 * The entry is counted and cannot be evicted while held. -EHOSTUNREACH (no route),
 * -ENOBUFS (cache full of held entries).
 */
int weft_netif_neigh_get(struct weft_netif *nif, const struct weft_ip *dst,
                         struct weft_neigh **out);
/**
 * The same for one answer to somebody of whom nothing is kept, with nothing to put: it is good for
 * a weft_netif_tx() right after. Such answers have a budget of their own of questions to the link,
 * so floods of them delay nobody else's.
 */
int weft_netif_neigh_passing(struct weft_netif *nif, const struct weft_ip *dst,
                             struct weft_neigh **out);
void weft_netif_neigh_put(struct weft_netif *nif, struct weft_neigh *n);
/** What of a next hop changes hands in the data path. */
struct weft_neigh_progress {
	uint64_t seen_ns; /**< last confirmation by TCP; 0: none since the last question */
};
/**
 * What went by this next hop arrived: a peer acknowledged something new. It need not be asked then
 * (RFC 4861 s7.3.1; RFC 1122 s2.3.2.1 (4) for ARP). Says nothing of a next hop whose address is not
 * known. Polling thread.
 */
static inline void
weft_netif_neigh_confirm(struct weft_neigh *n, uint64_t now_ns)
{
	((struct weft_neigh_progress *)n)->seen_ns = now_ns; /* its first member */
}
/** TCP's hint that the next hop may be dead (several RTOs): ask for it again. */
void weft_netif_neigh_suspect(struct weft_netif *nif, struct weft_neigh *n);

/** How a segment is to travel. */
struct weft_netif_tx_how {
	uint8_t ecn; /**< enum weft_ecn */
	/**
	 * 0: m is one segment. Else m is several: the port (or netif, where the port does not offer
	 * RTE_ETH_TX_OFFLOAD_TCP_TSO and what that needs) cuts its payload into segments of so many
	 * octets, the last one may be shorter; FIN and PSH go on the last. m may then exceed the
	 * MTU, up to 65535 octets of IP packet and WEFT_NETIF_TSO_SEGS segments. What netif cuts
	 * has CWR on the first alone (RFC 3168 s6.1.2); ports differ, so do not ask them.
	 */
	uint16_t tso_segsz_bytes;
	bool may_fragment; /**< IPv4: DF stays clear */
};

/**
 * Our address that packets to dst bear as their source (RFC 6724 as far as one interface with one
 * global and one link-local address needs it); NULL: none of that family or scope.
 */
const struct weft_ip *weft_netif_src(const struct weft_netif *nif, const struct weft_ip *dst);
/** Whether ip is one of our addresses. */
bool weft_netif_is_local(const struct weft_netif *nif, const struct weft_ip *ip);

/**
 * Send one TCP segment: m's data starts at the TCP header, checksum field zero or not (it is
 * written here), WEFT_NETIF_HEADROOM in front. Consumes one reference of m always, also on error. m
 * may be a chain whose TCP header lies whole in its first segment. Headers are put in front for
 * good: whoever keeps another reference finds data_off, the lengths and the TX flags changed. 0,
 * -ENOBUFS (queue full or no buffers, counted; of several segments none is then sent), -EMSGSIZE
 * (longer than the MTU, or no headroom). While the next hop is being asked for, segments wait: the
 * first of each connection and a few more (netif_park.c). What is too much is dropped, counted, and
 * so are all when nobody answers: TCP retransmits.
 */
int weft_netif_tx(struct weft_netif *nif, struct weft_neigh *n, const struct weft_ip *src,
                  const struct weft_ip *dst, struct rte_mbuf *m, struct weft_netif_tx_how how,
                  uint64_t now_ns);

/** What the port takes of several segments in one. */
struct weft_netif_tso {
	/** TCP header and payload; 0: it takes none (netif would cut them, at no gain) */
	uint16_t bytes;
	uint16_t mbufs;
};
/** For packets to dst. Never changes. */
struct weft_netif_tso weft_netif_tso(const struct weft_netif *nif, const struct weft_ip *dst);

/** A fresh mbuf of tx_pool with `headroom` octets reserved (WEFT_NETIF_HEADROOM + what TCP wants),
 * or NULL. */
struct rte_mbuf *weft_netif_alloc(struct weft_netif *nif, uint16_t headroom);

/**
 * The port's MTU was changed. -EINVAL: below what IPv4 or, where it is spoken, IPv6 asks of a link,
 * or longer than what the pools were made for. TCP is told by weft_tcp_mtu_changed(). What is
 * queued leaves as it is.
 */
int weft_netif_set_mtu(struct weft_netif *nif, uint16_t mtu_bytes);
const struct weft_netif_attr *weft_netif_attr(const struct weft_netif *nif);
/** What this netif lends to peers (weft_netif_budget.h). The netif's own; charged on its worker. */
struct weft_netif_budgets *weft_netif_budgets(struct weft_netif *nif);
const struct weft_netif_stats *weft_netif_stats(const struct weft_netif *nif);
/** The counters' names; returns how many. Any thread. */
unsigned int weft_netif_stat_fields(const struct weft_stat_field **out);
/** Whether dst is on this interface's network (or reachable by its gateway when `via_gw`). */
bool weft_netif_reaches(const struct weft_netif *nif, const struct weft_ip *dst, bool via_gw);

/* ---- Ports: everything that configures an ethdev (netif_port.c) ---- */

struct weft_netif_port_attr {
	/** vdev string ("net_memif0,role=client,...": hot-plugged) or name of a probed port */
	const char *dev;
	uint16_t mtu_bytes;
	/** frames will bear a tag: let the port put it in and take it off if it can */
	bool vlan;
	unsigned int mbufs; /**< in both pools together, half of them in each; at least 2 */
	uint16_t queues;    /**< how many workers share the port; 1..64 */
	bool check;         /**< look for the driver, and open a stand-in that touches nothing */
	/** for the Toeplitz key, which peers must not know; NULL: a public one */
	const struct weft_rand *rand;
};

/** An opened and started port; plain data for the engine to read. */
struct weft_netif_port {
	uint16_t port_id;
	/** what netif uses; the port itself may know only 1500 (net_memif) */
	uint16_t mtu_bytes;
	bool created;                      /**< we hot-plugged it, so closing removes it */
	char devname[64];                  /**< the device's name, for removal */
	char driver[32];                   /**< "net_memif", ... */
	uint64_t rx_offloads, tx_offloads; /**< negotiated: only what the software path also does */
	uint16_t tx_mbufs_max;             /**< for the attribute of that name */
	struct rte_ether_addr mac;
	int socket;
	/**
	 * As many of each as workers share the port, or 1 where the port has no RSS (receive) or
	 * not so many queues that are ours alone (transmit): weft_netif_group.h then does the rest.
	 */
	uint16_t rx_queues, tx_queues;
	bool rss; /**< the port steers by what follows */
	/** the port's, or for the group to steer by where the port does not */
	uint8_t rss_key[52];
	unsigned int rss_key_bytes;
	uint16_t reta[512]; /**< redirection table: entry to queue */
	unsigned int reta_size;
	uint32_t rx_desc; /**< descriptors of all receive queues; a driver may hold an mbuf in each
	                   */
	struct rte_mempool *pool;    /**< for receiving; the port's own queue fills from it */
	struct rte_mempool *tx_pool; /**< for sending */
};

/**
 * Create the device if need be, size its rings, negotiate offloads, start it. -ENODEV (no such
 * device, or it cannot be opened), -EINVAL (attr; an argument of dev without a value, or more than
 * DPDK reads, which a driver would take badly: one log line), -ENOMEM, -ENOTSUP. Set-up thread.
 * With several queues the port steers by RSS when it offers that over TCP's four-tuple and tells
 * its key and table (or takes ours); else it has one receive queue and member 0 of the group
 * distributes. A net_memif client needs a server that listens already; one that turns it away (not
 * started yet, or still with another client) is asked again for up to 3 s, then the port opens
 * without a link. Its driver never connects again when the server dies: close the port and open it
 * anew. A socket file left by a killed server is removed first.
 */
int weft_netif_port_open(const struct weft_netif_port_attr *attr, struct weft_netif_port *out);
/** Stop, close, remove, free the pools. */
void weft_netif_port_close(struct weft_netif_port *p);
/** Link as the port reports it now, never waiting. */
bool weft_netif_port_link(const struct weft_netif_port *p);
/** The port's own count of packets it had to drop for want of buffers. */
uint64_t weft_netif_port_missed(const struct weft_netif_port *p);
/** net_memif clients of the process's servers that were gone before their greeting. Any thread. */
uint64_t weft_netif_memif_gone(void);

/**
 * Create the mempool a netif needs: each mbuf holds a whole frame of mtu_bytes in one segment.
 * -ENOMEM. Name must be unique in the process.
 */
int weft_netif_pool_create(const char *name, unsigned int mbufs, uint16_t mtu_bytes, int socket,
                           struct rte_mempool **out);

#endif /* WEFT_NETIF_H */
