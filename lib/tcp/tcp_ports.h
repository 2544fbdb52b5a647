/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TCP_PORTS_H
#define TCP_PORTS_H

/**
 * @file
 * Local ports: how many connections and listeners use each, and which are free.
 */

#include "weft_tcp.h"

/* tcp_ports.c */
enum tcp_port_kind {
	TCP_PORT_LISTENER,
	TCP_PORT_CONN, /**< TIME-WAIT included */
	TCP_PORT_TIME_WAIT,
};
/** Adds `by` to the use of a local port. All instances of the context see the counts. */
void tcp_port_count(struct weft_tcp *t, enum tcp_port_kind kind, uint16_t port, int by);
/** Returns a free source port whose replies arrive at nif, or -EADDRNOTAVAIL. */
int tcp_pick_port(struct weft_tcp *t, struct weft_netif *nif, const struct weft_ip *src,
                  const struct weft_ip *dst, uint16_t dst_port);

#endif /* TCP_PORTS_H */
