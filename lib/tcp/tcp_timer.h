/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TCP_TIMER_H
#define TCP_TIMER_H

/**
 * @file
 * The timers of a connection, and the round-trip time (RFC 6298) that sets them.
 */

#include "weft_tcp.h"

struct tcp_timer;

/** How often the end of a silent connection is put off while the receive ring may hold its
 * answer. */
#define TCP_LOOKS_MAX 255

/* tcp_rtt.c */
void tcp_rtt_init(struct weft_tcp_conn *c);
void tcp_rtt_sample(struct weft_tcp_conn *c, uint32_t rtt_us);
uint64_t tcp_rto_ns(const struct weft_tcp_conn *c);

/* tcp_timer.c */
void tcp_timers_init(struct weft_tcp_conn *c);

/* tcp_deadline.c */
void tcp_timers_stop(struct weft_tcp_conn *c);
void tcp_timer_set(struct weft_tcp_conn *c, struct tcp_timer *t, uint64_t at_ns);
/** Restarts the RTO and the loss probe from now, or stops them if nothing is outstanding. */
void tcp_rto_restart(struct weft_tcp_conn *c, uint64_t now_ns);
/** Sets the timer to the earliest of its deadlines. */
void tcp_rto_arm(struct weft_tcp_conn *c);
/** New data was sent: restarts the loss probe. */
void tcp_pto_restart(struct weft_tcp_conn *c, uint64_t now_ns);
/** The peer's window is closed and no ACK is expected: starts the timer of window probes. */
void tcp_persist(struct weft_tcp_conn *c, uint64_t now_ns);
void tcp_rto_stop(struct weft_tcp_conn *c);
/** Octets or our FIN enter an empty queue: starts the user timeout. */
void tcp_progress_begin(struct weft_tcp_conn *c, uint64_t now_ns);
/** When the user timeout ends; WEFT_NEVER: it does not run. */
uint64_t tcp_user_deadline(const struct weft_tcp_conn *c);
/** When FIN-WAIT-2 ends; WEFT_NEVER: it does not run. */
uint64_t tcp_fin_wait_2_deadline(const struct weft_tcp_conn *c);
/** When the peer's silence began to count: with the last segment, or when our own link came back,
 * at most the user timeout after that segment. So a link that comes and goes keeps no dead peer. */
uint64_t tcp_heard_ns(const struct weft_tcp_conn *c);
/** Sets the life timer to the next of its deadlines. */
void tcp_life_restart(struct weft_tcp_conn *c);
void tcp_keepalive_restart(struct weft_tcp_conn *c, uint64_t now_ns);

#endif /* TCP_TIMER_H */
