/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NETIF_ICMP_H
#define WEFT_NETIF_ICMP_H

/** @file The ICMP and ICMPv6 errors that go up. Internal. */

#include <stdint.h>

#include "weft_base.h"

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

#endif /* WEFT_NETIF_ICMP_H */
