/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_EXT_H
#define NETIF_EXT_H

/**
 * @file
 * The walk along IPv6's extension headers. Receive and steering share it. They must agree on which
 * packets carry a segment, and where. Otherwise a worker that does not own the connection would get
 * the segment.
 */

#include <stdint.h>

#include "netif_hdr.h"
#include "weft_base.h"

/* Next headers (RFC 8200 s4, IANA). */
#define IP6_HOP_BY_HOP   0
#define IP6_ROUTING      43
#define IP6_FRAGMENT     44
#define IP6_NONE         59
#define IP6_DST_OPTIONS  60
#define IP6_FRAG_MORE    0x0001
#define IP6_FRAG_OFFSET  0xfff8
#define IP6_NEXT_HDR_OFF 6 /* offset of the field in the fixed header */

/** The position of the walk. Offsets count from the IPv6 header. */
struct netif_ext {
	uint32_t off, left; /**< offset of the next header; octets from there to the packet's end */
	uint32_t next_at;   /**< offset of the field that gives the next header's type */
	uint32_t len;       /**< length of the extension header at `off` */
	uint8_t next;
};

enum netif_ext_kind {
	NETIF_EXT_NONE,     /**< no extension header: the packet's payload is at `off` */
	NETIF_EXT_WHOLE,    /**< a header of `len` octets; examine it, then step over it */
	NETIF_EXT_ORDER,    /**< hop-by-hop options that do not come first (RFC 8200 s4.1) */
	NETIF_EXT_BAD,      /**< truncated, or more headers than the walk allows */
	NETIF_EXT_FRAGMENT, /**< the packet is a fragment */
};

/** Examines the header at w->off of the IPv6 header at ip. w->off + w->left octets are present. */
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
	/* Dropped like IPv4's fragments; an atomic fragment is accepted (RFC 6946 s4). */
	if (w->next == IP6_FRAGMENT &&
	    (weft_get_be16(p + 2) & (IP6_FRAG_OFFSET | IP6_FRAG_MORE)) != 0)
		return NETIF_EXT_FRAGMENT;
	return NETIF_EXT_WHOLE;
}

/** Steps over the header that netif_ext_look() found to be whole. */
static inline void
netif_ext_step(struct netif_ext *w, const uint8_t *ip)
{
	w->next_at = w->off;
	w->next = ip[w->off];
	w->off += w->len;
	w->left -= w->len;
}

#endif /* NETIF_EXT_H */
