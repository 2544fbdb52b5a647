/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_GROUP_PRIV_H
#define NETIF_GROUP_PRIV_H

/** @file Steering tables, and the private functions of groups. */

#include <rte_ethdev.h>

#include "netif_hdr.h"
#include "weft_base.h"
#include "weft_netif_group.h"
#include "weft_netif_port.h"

#define STEER_TUPLE4 12 /**< octets hashed: addresses and ports */
#define STEER_TUPLE6 36
/** octets of a frame that are examined; the longest chain of headers fits */
#define STEER_READ_BYTES NETIF_HEADERS_MAX

/** For one address family: source ports, sorted by their contribution to the table's index. */
struct steer_ports {
	uint16_t first[WEFT_GROUP_RETA_MAX + 1]; /**< where the list of an index begins in `port` */
	uint16_t port[WEFT_PORT_COUNT];
};

/** Where the parts of a frame's tuple are. The pointers lead into the frame, or into `buf` if the
 * headers are split over mbufs. */
struct steer_flow {
	const uint8_t *remote, *local, *remote_port, *local_port;
	uint8_t addr_bytes;
	bool syn;   /**< a segment with SYN */
	bool ack;   /**< a segment with ACK */
	bool plain; /**< neither IPv4 options nor IPv6 extension headers in front of it */
	uint8_t buf[STEER_READ_BYTES];
};

struct weft_netif_dev;

/** Constant after creation. All members read it. */
struct netif_steer {
	unsigned int members;
	uint32_t reta_mask;
	/** Toeplitz in steps of four bits: place of the nibble in the tuple, value of the nibble.
	 */
	uint32_t nib[2 * STEER_TUPLE6][16];
	uint8_t reta[WEFT_GROUP_RETA_MAX];
	/** each member's entries of the table: bounds in `own` */
	uint16_t own_first[WEFT_GROUP_MEMBERS + 1];
	uint16_t own[WEFT_GROUP_RETA_MAX];
	struct steer_ports ports[2]; /**< IPv4, IPv6 */
};

/** The owner of a frame. */
enum steer_verdict {
	STEER_HERE,  /**< no owner: the member that has the frame handles it */
	STEER_OWNER, /**< a TCP segment: the owner of its connection */
	STEER_ICMP,  /**< an ICMP error: the owner of the quoted segment */
	STEER_ALL,   /**< ARP, Neighbor Discovery, MLD: all members */
};

/* ---- netif_rss.c: a port's RSS ---- */

/** Toeplitz key of ports and groups without a key of their own. */
extern const uint8_t netif_rss_key[WEFT_GROUP_KEY_MAX];

/**
 * Draws a key with which our source ports reach every entry of any table, in both families. rand
 * NULL, or no such key found: netif_rss_key.
 */
void netif_rss_draw(const struct weft_rand *rand, uint8_t key[WEFT_GROUP_KEY_MAX]);

/** Decides how many queues the port gets for `queues` workers, and whether it steers itself, which
 * it may with `rss`. */
void netif_rss_plan(struct weft_netif_port *p, uint16_t queues, const struct rte_eth_dev_info *info,
                    bool rss);
void netif_rss_conf(const struct weft_netif_port *p, const struct rte_eth_dev_info *info,
                    struct rte_eth_conf *conf);
/**
 * Sets key and table of a started port, as far as the port allows, and reads them. -ENOTSUP: the
 * port does not report them.
 */
int netif_rss_read(struct weft_netif_port *p, const struct rte_eth_dev_info *info);

/* ---- netif_steer.c ---- */

void netif_steer_init(struct netif_steer *s, unsigned int members, const uint8_t *key,
                      const uint16_t *reta, unsigned int reta_size);
/** The number of index bits, of a table of WEFT_GROUP_RETA_MAX entries, that source ports decide
 * with this key. */
unsigned int netif_steer_rank(const uint8_t *key, bool v6);
/** Toeplitz of a received packet; `remote` is its source. */
uint32_t netif_steer_hash(const struct netif_steer *s, const struct weft_ip *remote,
                          uint16_t remote_port, const struct weft_ip *local, uint16_t local_port);
/** Examines a whole frame. Fills *f for OWNER and ICMP. */
enum steer_verdict netif_steer_look(const struct rte_mbuf *m, struct steer_flow *f);
/** Toeplitz of the tuple that netif_steer_look() found. */
uint32_t netif_steer_flow_hash(const struct netif_steer *s, const struct steer_flow *f);
/** weft_netif_pick_port() for a member of a group. */
int netif_steer_pick(const struct netif_steer *s, unsigned int member, const struct weft_ip *src,
                     const struct weft_ip *dst, uint16_t dst_port, const struct weft_rand *rand,
                     bool (*usable)(void *arg, uint16_t port), void *arg);

static inline unsigned int
netif_steer_member(const struct netif_steer *s, uint32_t hash)
{
	return s->reta[hash & s->reta_mask];
}

/* ---- netif_group.c ---- */

/**
 * Puts the group between nif, whose attributes are complete, and its device. -EINVAL: the member's
 * number is taken or too high.
 */
int netif_group_join(struct weft_netif *nif);
/** Sends what is queued, then leaves the group. No member may be polling. Member 0 leaves last. */
void netif_group_leave(struct weft_netif *nif);
/** Exchanges the device below the member; its thread. */
void netif_group_set_dev(struct weft_netif *nif, const struct weft_netif_dev *dev, void *dev_arg);
/** Stores the link state that member 0 has seen. Other members' threads read it. */
void netif_group_set_link(struct weft_netif *nif, bool up);
bool netif_group_link(const struct weft_netif *nif);
/** Frames that the member handed over or relayed since the last call. */
unsigned int netif_group_moved(struct weft_netif *nif);

#endif /* NETIF_GROUP_PRIV_H */
