/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_ICMP_H
#define NETIF_ICMP_H

/** @file ICMP (RFC 792, netif_icmp.c) and ICMPv6 (RFC 4443, netif_icmp6.c and netif_icmp6_tx.c). */

#include <stdbool.h>
#include <stdint.h>

#include "weft_base.h"

struct netif_vlan;
struct rte_ether_addr;
struct rte_mbuf;
struct weft_netif;

/* ---- netif_icmp.c: ICMP (RFC 792) ---- */

/** Handles an ICMP message that came on this VLAN. m stays the caller's. */
void netif_icmp_rx(struct netif_vlan *v, const struct rte_mbuf *m, uint32_t l3_off, uint32_t l4_off,
                   uint32_t l4_len);
/** Tells the sender of the packet at l3_off that it is unreachable here; rate-limited. m stays the
 * caller's. */
void netif_icmp_unreachable(struct netif_vlan *v, const struct rte_mbuf *m, uint32_t l3_off,
                            uint8_t code);
#define NETIF_ICMP_PROTO 2 /* RFC 792: codes of destination unreachable */
#define NETIF_ICMP_PORT  3

/** Whether an error may be sent to this address now. Counts the refusals. */
bool netif_icmp_may_send(struct weft_netif *nif, const struct weft_ip *to);

/* ---- netif_icmp6.c: ICMPv6 (RFC 4443) ---- */

/** A received ICMPv6 message. */
struct netif_icmp6 {
	const struct rte_mbuf *m;
	uint32_t l3_off, off, len; /**< offset of the packet; offset and length of the message */
	struct weft_ip src, dst;   /**< link-local ones with their zone */
	uint8_t hop_limit;
	bool alert; /**< with a router alert option (RFC 2711) */
};

/** Handles an ICMPv6 message. p->m stays the caller's. */
void netif_icmp6_rx(struct netif_vlan *v, const struct netif_icmp6 *p);

/* ---- netif_icmp6_tx.c ---- */

#define NETIF_ICMP6_LEN 8 /**< of the header of every message */

/** Sends the ICMPv6 message in m and writes its checksum. mac NULL: dst is a group. Consumes m.
 * False: dropped. */
bool netif_icmp6_send(struct netif_vlan *v, struct rte_mbuf *m, const struct weft_ip *src,
                      const struct weft_ip *dst, uint8_t hop_limit,
                      const struct rte_ether_addr *mac);
/** Reports an error to the sender of the packet at l3_off; rate-limited (RFC 4443 s2.4). */
void netif_icmp6_error(struct netif_vlan *v, const struct rte_mbuf *m, uint32_t l3_off,
                       uint8_t type, uint8_t code, uint32_t param);
#define NETIF_ICMP6_UNREACHABLE 1 /* RFC 4443 s2.1 */
#define NETIF_ICMP6_PARAM       4
#define NETIF_ICMP6_PORT        4 /* codes: s3.1, s3.4 */
#define NETIF_ICMP6_FIELD       0
#define NETIF_ICMP6_NEXT_HDR    1
#define NETIF_ICMP6_OPTION      2

#endif /* NETIF_ICMP_H */
