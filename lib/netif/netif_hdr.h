/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_HDR_H
#define NETIF_HDR_H

/** @file Lengths and limits of the headers on the wire. */

#define NETIF_ETHER_LEN 14
#define NETIF_VLAN_LEN  4 /* IEEE 802.1Q */
#define NETIF_L2_MAX    (NETIF_ETHER_LEN + NETIF_VLAN_LEN)
#define NETIF_IPV4_LEN  20 /* RFC 791 s3.1, without options */
#define NETIF_IPV4_MAX  60
#define NETIF_IPV6_LEN  40 /* RFC 8200 s3 */
/* octets of extension headers that netif walks; a packet with more is dropped */
#define NETIF_EXT_MAX 256
#define NETIF_TCP_LEN 20
#define NETIF_TCP_MAX 60
/** Octets in the first mbuf of every received chain: all headers up to TCP's options. */
#define NETIF_HEADERS_MAX (NETIF_L2_MAX + NETIF_IPV6_LEN + NETIF_EXT_MAX + NETIF_TCP_MAX)
#define NETIF_MTU_MIN     128
#define NETIF_IP_MAX      65535 /* total length (RFC 791 s3.1); IPv6 packets stay below it, too */
#define NETIF_TTL         64    /* RFC 1700; also the hop limit */

#define NETIF_IPV6_MTU_MIN 1280 /* RFC 8200 s5 */

#endif /* NETIF_HDR_H */
