/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_EXT_H
#define NETIF_EXT_H

/**
 * @file
 * The walk along IPv6's extension headers, one for receive and for steering: which packets carry a
 * segment, and where, must not have two answers, or a segment goes up at a worker that does not own
 * its connection.
 */

#include "netif_priv.h"

/* Next headers (RFC 8200 s4, IANA). */
#define IP6_HOP_BY_HOP   0
#define IP6_ROUTING      43
#define IP6_FRAGMENT     44
#define IP6_NONE         59
#define IP6_DST_OPTIONS  60
#define IP6_FRAG_MORE    0x0001
#define IP6_FRAG_OFFSET  0xfff8
#define IP6_NEXT_HDR_OFF 6 /* of the field in the fixed header */

/** Where the walk stands; offsets count from the IPv6 header. */
struct netif_ext {
	uint32_t off, left; /**< next header; octets from there to the packet's end */
	uint32_t next_at;   /**< the field that says what it is */
	uint32_t len;       /**< of the extension header at `off` */
	uint8_t next;
};

enum netif_ext_kind {
	NETIF_EXT_NONE,     /**< none: at `off` is what the packet carries */
	NETIF_EXT_WHOLE,    /**< one of `len` octets, to be looked at, then stepped over */
	NETIF_EXT_ORDER,    /**< hop-by-hop options that do not come first (RFC 8200 s4.1) */
	NETIF_EXT_BAD,      /**< cut short, or more of them than are walked */
	NETIF_EXT_FRAGMENT, /**< the packet is a part of one */
};

/** What lies at w->off of the IPv6 header at ip, of which w->off + w->left octets are there. */
static inline enum netif_ext_kind
netif_ext_look(struct netif_ext *w, const uint8_t *ip)
{
	const uint8_t *p = ip + w->off;

	switch (w->next) {
	case IP6_HOP_BY_HOP:
	case IP6_DST_OPTIONS:
	case IP6_ROUTING:
	case IP6_FRAGMENT:
		break;
	default:
		return NETIF_EXT_NONE;
	}
	if (w->next == IP6_HOP_BY_HOP && w->off != NETIF_IPV6_LEN)
		return NETIF_EXT_ORDER;
	w->len = 8;
	if (w->left < w->len)
		return NETIF_EXT_BAD;
	if (w->next != IP6_FRAGMENT)
		w->len = (p[1] + 1u) * 8;
	if (w->left < w->len || w->off + w->len > NETIF_IPV6_LEN + NETIF_EXT_MAX)
		return NETIF_EXT_BAD;
	/* As IPv4's; but one that is whole is taken (RFC 6946 s4). */
	if (w->next == IP6_FRAGMENT &&
	    (weft_get_be16(p + 2) & (IP6_FRAG_OFFSET | IP6_FRAG_MORE)) != 0)
		return NETIF_EXT_FRAGMENT;
	return NETIF_EXT_WHOLE;
}

/** Over the whole one that netif_ext_look() saw. */
static inline void
netif_ext_step(struct netif_ext *w, const uint8_t *ip)
{
	w->next_at = w->off;
	w->next = ip[w->off];
	w->off += w->len;
	w->left -= w->len;
}

#endif /* NETIF_EXT_H */
