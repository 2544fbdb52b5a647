/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_ADDR_H
#define WEFT_APPS_ADDR_H

/** @file IPv4 and IPv6 addresses: parsing, printing and comparing. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/** Room for the longest text and its final 0. */
#define ADDR_STR_MAX 56

#define ADDR_ZONE_MAX 4095

/** Parse "10.0.0.1", "fd00::1" or "[fd00::1]" and set this port. A link-local address may have the
 * number of a VLAN behind it, "fe80::1%7". -EINVAL. */
int addr_parse(const char *s, uint16_t port, struct sockaddr_storage *out);
/** The same, and also names that the system's resolver knows, IPv4 preferred. Returns NULL, or
 * the reason of the failure (static). May block. */
const char *addr_resolve(const char *s, uint16_t port, struct sockaddr_storage *out);
/** Length of the socket address of its family. */
socklen_t addr_len(const struct sockaddr_storage *a);
/** "10.0.0.1:7471", "[fd00::1]:7471"; "-" for no address. Returns buf. */
const char *addr_str(const struct sockaddr_storage *a, char buf[ADDR_STR_MAX]);
/** The same without port and brackets. */
const char *addr_host_str(const struct sockaddr_storage *a, char buf[ADDR_STR_MAX]);
/** Whether both are of one family and agree in the first prefix_len bits. */
bool addr_same_net(const struct sockaddr_storage *a, const struct sockaddr_storage *b,
                   uint32_t prefix_len);
/** Whether both are the same address; ports are ignored. */
bool addr_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b);
/** Whether it is 0.0.0.0 or ::. */
bool addr_is_any(const struct sockaddr_storage *a);
/** Whether it is an IPv6 link-local address (RFC 4291 s2.5.6). */
bool addr_is_link_local(const struct sockaddr_storage *a);

#define ADDR_NET6_BYTES 8
/**
 * Write the prefix by which an IPv6 address is counted as one peer: its /64. All link-local
 * addresses (fe80::/10) are one peer, because a neighbour can use any number of them. Returns the
 * octets written; 0: not IPv6.
 */
unsigned int addr_net6(const struct sockaddr_storage *a, uint8_t net[ADDR_NET6_BYTES]);

#endif /* WEFT_APPS_ADDR_H */
