/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_ADDR_H
#define NETIF_ADDR_H

/** @file Our addresses and the networks they reach (netif_addr.c), and kinds of addresses. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rte_byteorder.h>

#include "weft_base.h"
#include "weft_timer.h"

struct weft_netif;
struct weft_netif_attr;

/** State of one of our addresses. IPv6 has optimistic Duplicate Address Detection (RFC 4429): the
 * address is used during detection, with restrictions that keep other hosts' caches correct. An
 * IPv4 address is always preferred. */
enum netif_net_state {
	NET_OPTIMISTIC, /**< detection runs, or has not started */
	NET_PREFERRED,  /**< no other station has it */
	NET_DUPLICATE,  /**< another station has it: not used (RFC 4862 s5.4.5) */
};

/** Defence of one address against other stations that claim it (RFC 5227 s2.4 (b)). */
struct netif_defence {
	uint64_t last_ns;
	bool done; /**< at least once */
};

/** One of our addresses, and the network that it is in. */
struct netif_net {
	struct weft_ip ip; /**< link-local: with its zone */
	uint32_t ip4;      /**< IPv4: network order */
	uint32_t mask4;    /**< of the on-link IPv4 network, network order */
	struct netif_vlan *vlan;
	uint8_t next; /**< chain of net_of: number of the next network, from 1; 0: the last */
	bool v4;
	/** enum netif_net_state; other threads read it */
	_Atomic uint8_t state;
	uint8_t bits;           /**< of the prefix, as weft_ip_same_prefix() counts them */
	struct weft_ip gateway; /**< all zero: none */
	struct netif_defence defence;
};

/** A VLAN, or the untagged frames, of a port: a link of its own. */
struct netif_vlan {
	struct weft_netif *nif;
	uint16_t id;   /**< 0: untagged */
	uint16_t zone; /**< of link-local addresses */
	bool has4;     /**< there is an IPv4 address */
	bool no_ipv6;
	bool mld_query;              /**< the next report answers a query */
	struct weft_timer mld_timer; /**< next membership report */
	struct netif_net *local;     /**< the link-local address; NULL: no_ipv6 since the start */
};

static inline bool
netif_net_usable(const struct netif_net *n)
{
	return atomic_load_explicit(&n->state, memory_order_relaxed) != NET_DUPLICATE;
}

static inline uint8_t
netif_net_state(const struct netif_net *n)
{
	return atomic_load_explicit(&n->state, memory_order_relaxed);
}

/* ---- Kinds of IPv4 addresses; addresses and masks in network order ---- */

/** Whether an address can be a single host on some network. */
static inline bool
netif_ip_is_host(uint32_t addr)
{
	uint8_t top = (uint8_t)(rte_be_to_cpu_32(addr) >> 24);

	/* RFC 1122 s3.2.1.3: not "this network" or loopback; not multicast, reserved, broadcast. */
	return top != 0 && top != 127 && top < 224;
}

/** Whether an address on the network of this mask is the network's own or its broadcast address. */
static inline bool
netif_ip_is_subnet_special(uint32_t addr, uint32_t mask)
{
	uint32_t host = addr & ~mask;

	/* RFC 3021: a network of two addresses or one has neither. */
	return rte_be_to_cpu_32(~mask) > 1 && (host == 0 || host == ~mask);
}

/* ---- Kinds of IPv6 addresses (RFC 4291 s2.4) ---- */

static inline bool
netif_ip6_is_multicast(const struct weft_ip *ip)
{
	return ip->b[0] == 0xff;
}

static inline bool
netif_ip_is_none(const struct weft_ip *ip)
{
	static const struct weft_ip none;

	return weft_ip_eq(ip, &none);
}

/* ---- netif_addr.c: our addresses, and the networks they reach ---- */

/** A way to a destination. */
struct netif_route {
	const struct netif_net *src; /**< our address and its network */
	struct netif_vlan *vlan;
	const struct weft_ip *hop; /**< the destination itself, or a gateway */
};

bool netif_attr_ok(const struct weft_netif_attr *a);
void netif_addr_init(struct weft_netif *nif);
/** Whether ip can be a single host, and is no IPv4-mapped address (RFC 4291 s2.5.5.2). */
bool netif_ip6_is_host(const struct weft_ip *ip);
/** The way to dst: from src, or from the address that fits best when NULL (RFC 6724, as far as
 * networks and gateways decide). False: none. */
bool netif_route(const struct weft_netif *nif, const struct weft_ip *src, const struct weft_ip *dst,
                 struct netif_route *out);
/** Of our usable networks on this VLAN that ip is in, the one with the longest prefix; NULL: ip is
 * not on-link there. */
const struct netif_net *netif_net_onlink(const struct netif_vlan *v, const struct weft_ip *ip);
/** Our IPv6 address on this VLAN for packets to dst; NULL: none of that scope. */
const struct netif_net *netif_net_src6(const struct netif_vlan *v, const struct weft_ip *dst);
/** Whether we listen to the group on this VLAN: all nodes, or the solicited nodes of our
 * addresses. */
bool netif_net_joined(const struct netif_vlan *v, const struct weft_ip *group);
/** Whether an address may be defended now (RFC 5227 s2.4 (b)). True counts as done. */
bool netif_defend(struct netif_defence *d, uint64_t now_ns);
/** RFC 4291 s2.7.1: ff02::1:ffXX:XXXX */
struct weft_ip netif_ip6_solicited(const struct weft_ip *ip);

#endif /* NETIF_ADDR_H */
