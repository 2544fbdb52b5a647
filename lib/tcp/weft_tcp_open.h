/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TCP_OPEN_H
#define WEFT_TCP_OPEN_H

/** @file Active opens, the DSCP of connections (RFC 2474 s3), and the link below them. weft_tcp.h
 * includes this. Internal.
 */

#include "weft_base.h"

struct weft_netif;
struct weft_tcp;
struct weft_tcp_conn;
struct weft_tcp_conn_ops;
struct weft_tcp_listener;

/** In place of a DSCP, which is 0..63: that of the port (weft_netif_attr.dscp). */
#define WEFT_TCP_DSCP_PORT (-1)

/** The DSCP of SYN-ACKs and of accepted connections; WEFT_TCP_DSCP_PORT is the initial value. */
void weft_tcp_listener_set_dscp(struct weft_tcp_listener *l, int dscp);
/** Changes the DSCP of a connection's later segments. */
void weft_tcp_set_dscp(struct weft_tcp_conn *c, int dscp);

/**
 * Opens a connection over nif, from its address src (NULL: weft_netif_src()). With src_port 0 the
 * source port is a random one (RFC 6056) among the free ports whose replies arrive at nif
 * (weft_netif_group.h). All segments have the DSCP, the SYN included. 0, and `established` or
 * `closed` follows; or -EADDRNOTAVAIL (no source address or port, dst_port 0, or replies to
 * src_port do not arrive at nif), -EADDRINUSE (a connection has these two ends, be it in TIME-WAIT,
 * or src_port is a listener's), -EHOSTUNREACH (from src), -ENOMEM, -EMFILE (max_conns).
 */
int weft_tcp_connect_as(struct weft_tcp *t, struct weft_netif *nif, const struct weft_ip *src,
                        uint16_t src_port, const struct weft_ip *dst, uint16_t dst_port, int dscp,
                        const struct weft_tcp_conn_ops *ops, void *user,
                        struct weft_tcp_conn **out);

/** The same with the port's DSCP. */
static inline int
weft_tcp_connect(struct weft_tcp *t, struct weft_netif *nif, const struct weft_ip *src,
                 const struct weft_ip *dst, uint16_t dst_port, const struct weft_tcp_conn_ops *ops,
                 void *user, struct weft_tcp_conn **out)
{
	return weft_tcp_connect_as(t, nif, src, 0, dst, dst_port, WEFT_TCP_DSCP_PORT, ops, user,
	                           out);
}

/** The link of nif is back: what waits for an acknowledgment is sent again soon, and not only when
 * a backed-off timeout ends. */
void weft_tcp_link_up(struct weft_tcp *t, struct weft_netif *nif, uint64_t now_ns);

#endif /* WEFT_TCP_OPEN_H */
