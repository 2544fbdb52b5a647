/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TCP_PORTS_H
#define TCP_PORTS_H

/**
 * @file
 * Local ports: how many connections and listeners use each.
 */

#include "weft_tcp.h"

/* tcp_ports.c */
enum tcp_port_kind {
	TCP_PORT_LISTENER,
	TCP_PORT_CONN, /**< TIME-WAIT included */
	TCP_PORT_TIME_WAIT,
};
/**
 * Secrets that all instances of a context have in common: a tuple may be of one worker now and of
 * another one later, and its sequence numbers and timestamps go on from where they were.
 */
struct tcp_keys {
	uint64_t isn[2]; /**< RFC 6528 s3 */
	uint64_t ts[2];  /**< of the offsets of timestamp clocks */
};
/** The context's keys. *keys: drawn by the caller; the first caller's are taken. Any thread. */
void tcp_ports_keys(struct weft_tcp_ports *p, struct tcp_keys *keys);
/** Adds `by` to the use of a local port. All instances of the context see the counts. */
void tcp_port_count(struct weft_tcp *t, enum tcp_port_kind kind, uint16_t port, int by);
/** Whether an instance of the context listens on the port. */
bool tcp_port_listened(const struct weft_tcp *t, uint16_t port);

#endif /* TCP_PORTS_H */
