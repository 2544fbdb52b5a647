/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_VERBS_IFADDR_H
#define WEFT_APPS_VERBS_IFADDR_H

/**
 * @file Weft's addresses in getifaddrs(3): libfabric and others look there for the addresses of
 * RDMA devices, and the kernel does not have weft's.
 */

#include <ifaddrs.h>

/** Put an interface "weft0" with each address of the configuration in front of the list. */
void wv_ifaddr_add(struct ifaddrs **list);
/** Free what wv_ifaddr_add() put in front. Returns the rest, which is libc's. */
struct ifaddrs *wv_ifaddr_remove(struct ifaddrs *list);

#endif /* WEFT_APPS_VERBS_IFADDR_H */
