/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The states of a connection (RFC 9293 s3.3.2) and their transitions. */

#include <rte_debug.h>

#include "tcp_conn.h"
#include "tcp_instance.h"
#include "tcp_life.h"
#include "tcp_ports.h"

#define S(s) (1u << WEFT_TCP_##s)

/** RFC 9293 s3.3.2 figure 5. CLOSED may follow every state (reset, timeout, abort). */
const struct tcp_state_row tcp_states[WEFT_TCP_NSTATES] = {
        [WEFT_TCP_CLOSED] = {.name = "closed", .next = S(SYN_SENT) | S(SYN_RCVD)},
        [WEFT_TCP_SYN_SENT] = {.name = "syn-sent",
                               .next = S(CLOSED) | S(SYN_RCVD) | S(ESTABLISHED)},
        [WEFT_TCP_SYN_RCVD] = {.name = "syn-rcvd",
                               .next = S(CLOSED) | S(ESTABLISHED),
                               .synchronized = true,
                               .may_rcv = true},
        [WEFT_TCP_ESTABLISHED] = {.name = "established",
                                  .next = S(CLOSED) | S(FIN_WAIT_1) | S(CLOSE_WAIT),
                                  .synchronized = true,
                                  .may_send = true,
                                  .may_rcv = true},
        [WEFT_TCP_FIN_WAIT_1] = {.name = "fin-wait-1",
                                 .next = S(CLOSED) | S(FIN_WAIT_2) | S(CLOSING) | S(TIME_WAIT),
                                 .synchronized = true,
                                 .may_rcv = true},
        [WEFT_TCP_FIN_WAIT_2] = {.name = "fin-wait-2",
                                 .next = S(CLOSED) | S(TIME_WAIT),
                                 .synchronized = true,
                                 .may_rcv = true},
        [WEFT_TCP_CLOSE_WAIT] = {.name = "close-wait",
                                 .next = S(CLOSED) | S(LAST_ACK),
                                 .synchronized = true,
                                 .may_send = true},
        [WEFT_TCP_CLOSING] = {.name = "closing",
                              .next = S(CLOSED) | S(TIME_WAIT),
                              .synchronized = true},
        [WEFT_TCP_LAST_ACK] = {.name = "last-ack", .next = S(CLOSED), .synchronized = true},
        [WEFT_TCP_TIME_WAIT] = {.name = "time-wait", .next = S(CLOSED), .synchronized = true},
};

#undef S

const char *
weft_tcp_state_name(enum weft_tcp_state s)
{
	return (unsigned int)s < WEFT_TCP_NSTATES ? tcp_states[s].name : "?";
}

void
tcp_set_state(struct weft_tcp_conn *c, enum weft_tcp_state s)
{
	struct weft_tcp *t = c->t;

	RTE_ASSERT((tcp_states[c->state].next & 1u << s) != 0);
	WEFT_LOG(tcp, DEBUG, "port %u to %u: %s -> %s", c->local_port, c->remote_port,
	         tcp_states[c->state].name, tcp_states[s].name);
	if (c->state != WEFT_TCP_CLOSED)
		t->in_state[c->state]--;
	if (s != WEFT_TCP_CLOSED)
		t->in_state[s]++;
	if (c->state == WEFT_TCP_TIME_WAIT || s == WEFT_TCP_TIME_WAIT)
		tcp_port_count(t, TCP_PORT_TIME_WAIT, c->local_port,
		               s == WEFT_TCP_TIME_WAIT ? 1 : -1);
	c->state = (uint8_t)s;
	t->grant.conn = NULL;
}
