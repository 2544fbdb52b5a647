/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_GROUP_PRIV_H
#define NETIF_GROUP_PRIV_H

/** @file Steering tables, and a group's inside. */

#include <rte_ring.h>

#include "netif_priv.h"
#include "weft_netif_group.h"

#define STEER_TUPLE4 12 /**< octets hashed: addresses and ports */
#define STEER_TUPLE6 36
/** of a frame: no chain of headers that we walk is longer */
#define STEER_READ_BYTES NETIF_HEADERS_MAX

/** Of one address family: source ports by what they contribute to the table's index. */
struct steer_ports {
	uint16_t first[WEFT_GROUP_RETA_MAX + 1]; /**< where an index' list begins in `port` */
	uint16_t port[WEFT_PORT_COUNT];
};

/** Where a frame has the parts of its tuple; pointers into the frame, or into `buf` when it is
 * torn. */
struct steer_flow {
	const uint8_t *remote, *local, *remote_port, *local_port;
	uint8_t addr_bytes;
	bool syn;   /**< a segment with SYN */
	bool plain; /**< neither IPv4 options nor IPv6 extension headers in front of it */
	uint8_t buf[STEER_READ_BYTES];
};

/** Constant once made; read by all members. */
struct netif_steer {
	unsigned int members;
	uint32_t reta_mask;
	/** Toeplitz, four bits at a time: place of the nibble in the tuple, value. */
	uint32_t nib[2 * STEER_TUPLE6][16];
	uint8_t reta[WEFT_GROUP_RETA_MAX];
	/** a member's entries of the table, in `own` */
	uint16_t own_first[WEFT_GROUP_MEMBERS + 1];
	uint16_t own[WEFT_GROUP_RETA_MAX];
	struct steer_ports ports[2]; /**< IPv4, IPv6 */
};

/** What is to become of a frame. */
enum steer_verdict {
	STEER_HERE,  /**< not for one owner: whoever has it deals with it */
	STEER_OWNER, /**< a TCP segment */
	STEER_ICMP,  /**< an ICMP error about one */
	STEER_NEWS,  /**< ARP, Neighbor Discovery, MLD: for all */
};

/* ---- netif_rss.c: a port's RSS ---- */

/** Toeplitz key of ports and groups that have no other. */
extern const uint8_t netif_rss_key[WEFT_GROUP_KEY_MAX];

/**
 * Draw a key under which the source ports that we choose from reach every entry of any table, of
 * both families. rand NULL, or one that gives no such key: netif_rss_key.
 */
void netif_rss_draw(const struct weft_rand *rand, uint8_t key[WEFT_GROUP_KEY_MAX]);

/** How many queues the port gets for `queues` workers, and whether it is to steer itself. */
void netif_rss_plan(struct weft_netif_port *p, uint16_t queues,
                    const struct rte_eth_dev_info *info);
void netif_rss_conf(const struct weft_netif_port *p, const struct rte_eth_dev_info *info,
                    struct rte_eth_conf *conf);
/**
 * Key and table of a started port, set by us as far as it lets itself be told. -ENOTSUP: it does
 * not say.
 */
int netif_rss_read(struct weft_netif_port *p, const struct rte_eth_dev_info *info);

/* ---- netif_steer.c ---- */

void netif_steer_init(struct netif_steer *s, unsigned int members, const uint8_t *key,
                      const uint16_t *reta, unsigned int reta_size);
/** How many bits of a table's index, of WEFT_GROUP_RETA_MAX entries, source ports decide under
 * this key. */
unsigned int netif_steer_rank(const uint8_t *key, bool v6);
/** Toeplitz of a packet that comes in: `remote` is its source. */
uint32_t netif_steer_hash(const struct netif_steer *s, const struct weft_ip *remote,
                          uint16_t remote_port, const struct weft_ip *local, uint16_t local_port);
/** Look at a whole frame; *f is filled for OWNER and ICMP. */
enum steer_verdict netif_steer_look(const struct rte_mbuf *m, struct steer_flow *f);
/** Toeplitz of what netif_steer_look() found. */
uint32_t netif_steer_flow_hash(const struct netif_steer *s, const struct steer_flow *f);
/** weft_netif_pick_port() of a member. */
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
 * Put the group between nif, whose attributes are complete, and its device. -EINVAL: the place is
 * taken or there is none such.
 */
int netif_group_join(struct weft_netif *nif);
/** Send what is left to be sent, and go. No member polls any more; member 0 leaves last. */
void netif_group_leave(struct weft_netif *nif);
/** What the member that asks the port has seen of its link; another one's thread reads it. */
void netif_group_set_link(struct weft_netif *nif, bool up);
bool netif_group_link(const struct weft_netif *nif);
/** Frames that the member passed on or relayed since the last call. */
unsigned int netif_group_moved(struct weft_netif *nif);

#endif /* NETIF_GROUP_PRIV_H */
