/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_ADDR_H
#define NETIF_ADDR_H

/** @file Our addresses and the networks they reach (netif_addr.c), and kinds of addresses. */

#include <stdbool.h>
#include <stdint.h>

#include <rte_byteorder.h>

#include "weft_base.h"

struct weft_netif;
struct weft_netif_attr;

/** One of our IPv6 addresses. Optimistic Duplicate Address Detection (RFC 4429): the address is
 * used during detection, with restrictions that keep other hosts' caches correct. */
enum addr6_state {
	ADDR6_NONE,
	ADDR6_OPTIMISTIC, /**< detection runs, or has not started */
	ADDR6_PREFERRED,  /**< no other station has it */
	ADDR6_DUPLICATE,  /**< another station has it: not used (RFC 4862 s5.4.5) */
};

enum { NETIF_LINK_LOCAL, NETIF_GLOBAL, NETIF_ADDR6S };

/** Defence of one address against other stations that claim it (RFC 5227 s2.4 (b)). */
struct netif_defence {
	uint64_t last_ns;
	bool done; /**< at least once */
};

struct netif_addr6 {
	struct weft_ip ip;
	uint8_t state; /**< enum addr6_state */
	struct netif_defence defence;
};

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
netif_ip6_is_link_local(const struct weft_ip *ip)
{
	return ip->b[0] == 0xfe && (ip->b[1] & 0xc0) == 0x80;
}

static inline bool
netif_ip_is_none(const struct weft_ip *ip)
{
	static const struct weft_ip none;

	return weft_ip_eq(ip, &none);
}

/* ---- netif_addr.c: our addresses, and the networks they reach ---- */

bool netif_attr_ok(const struct weft_netif_attr *a);
void netif_addr_init(struct weft_netif *nif);
/** Whether ip can be a single host, and is no IPv4-mapped address (RFC 4291 s2.5.5.2). */
bool netif_ip6_is_host(const struct weft_ip *ip);
/** The entry of one of our usable IPv6 addresses; NULL: not ours. */
struct netif_addr6 *netif_addr6_find(struct weft_netif *nif, const struct weft_ip *ip);
/** Whether we listen to the group: all nodes, or the solicited nodes of our addresses. */
bool netif_addr6_joined(const struct weft_netif *nif, const struct weft_ip *group);
/** Whether an address may be defended now (RFC 5227 s2.4 (b)). True counts as done. */
bool netif_defend(struct netif_defence *d, uint64_t now_ns);
/** RFC 4291 s2.7.1: ff02::1:ffXX:XXXX */
struct weft_ip netif_ip6_solicited(const struct weft_ip *ip);

#endif /* NETIF_ADDR_H */
