/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_ADDR_H
#define WEFT_APPS_ADDR_H

/** @file Addresses of either family as people write them, and what they have in common. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/** "[2001:db8::1]:65535" and its end. */
#define ADDR_STR_MAX 56

/** "10.0.0.1", "fd00::1" or "[fd00::1]", with this port. -EINVAL. */
int addr_parse(const char *s, uint16_t port, struct sockaddr_storage *out);
/** The same, or a name that the system's resolver knows, IPv4 first. NULL, or why not (static).
 * May block. */
const char *addr_resolve(const char *s, uint16_t port, struct sockaddr_storage *out);
/** The length that goes with its family. */
socklen_t addr_len(const struct sockaddr_storage *a);
/** "10.0.0.1:7471", "[fd00::1]:7471"; "-" for no address. Returns buf. */
const char *addr_str(const struct sockaddr_storage *a, char buf[ADDR_STR_MAX]);
/** The same without port and brackets. */
const char *addr_host_str(const struct sockaddr_storage *a, char buf[ADDR_STR_MAX]);
/** Whether both are of one family and the first prefix_len bits are the same. */
bool addr_same_net(const struct sockaddr_storage *a, const struct sockaddr_storage *b,
                   uint32_t prefix_len);
/** Whether both are the same, ports aside. */
bool addr_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b);
/** 0.0.0.0 or ::. */
bool addr_is_any(const struct sockaddr_storage *a);
/** IPv6 and link-local (RFC 4291 s2.5.6). */
bool addr_is_link_local(const struct sockaddr_storage *a);

#define ADDR_NET6_BYTES 8
/**
 * What counts as one peer: of IPv6 the /64; all link-local addresses (fe80::/10) are one, for a
 * neighbour has as many as it likes. Octets written; 0: not IPv6.
 */
unsigned int addr_net6(const struct sockaddr_storage *a, uint8_t net[ADDR_NET6_BYTES]);

#endif /* WEFT_APPS_ADDR_H */
