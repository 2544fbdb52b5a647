/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NETIF_ADDR_H
#define WEFT_NETIF_ADDR_H

/** @file An interface's own addresses, and what they reach. Internal. */

#include <stdbool.h>

struct weft_ip;
struct weft_netif;

/** Our source address for packets to dst (RFC 6724, as far as one interface with one global and one
 * link-local address needs it). NULL: none of that family or scope. */
const struct weft_ip *weft_netif_src(const struct weft_netif *nif, const struct weft_ip *dst);
/** Whether ip is one of our addresses. */
bool weft_netif_is_local(const struct weft_netif *nif, const struct weft_ip *ip);
/** Whether dst is on this interface's network, or with via_gw also by its gateway. */
bool weft_netif_reaches(const struct weft_netif *nif, const struct weft_ip *dst, bool via_gw);

#endif /* WEFT_NETIF_ADDR_H */
