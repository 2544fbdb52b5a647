/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TCP_LIFE_H
#define TCP_LIFE_H

/**
 * @file
 * The life of a connection: states, opening, listeners, up-calls, closing.
 *
 * tcp_conn_new() takes a connection from the instance's pool and enters it in the table.
 * tcp_conn_free() tears it down. An up-call may end the connection at any moment. So an entry point
 * that may call up holds the connection (tcp_hold(), tcp_release()) and checks `dead` afterwards.
 * The memory returns to the pool when the last holder releases the connection.
 */

#include "tcp_instance.h"

struct tcp_in;

/** What a connection may do in a state. tcp_state.c has the table. */
struct tcp_state_row {
	const char *name;
	uint16_t next;     /**< one bit for each state that may follow */
	bool synchronized; /**< RFC 9293 s3.5.1 */
	bool may_send;     /**< the user may queue data */
	bool may_rcv;      /**< the peer may send data */
};
extern const struct tcp_state_row tcp_states[WEFT_TCP_NSTATES];

/* tcp_state.c */
/** Changes the state and the counts of states. Checks the transition by tcp_states. */
void tcp_set_state(struct weft_tcp_conn *c, enum weft_tcp_state s);

/* tcp_table.c */
/** The connection with these addresses and ports, and their hash; NULL: none. */
struct weft_tcp_conn *tcp_lookup(struct weft_tcp *t, uint64_t hash, const struct weft_ip *local,
                                 uint16_t local_port, const struct weft_ip *remote,
                                 uint16_t remote_port);
void tcp_table_add(struct weft_tcp_conn *c);
/** May be repeated. */
void tcp_table_del(struct weft_tcp_conn *c);
/** The listener of an address and port; NULL: none. */
struct weft_tcp_listener *tcp_listener_find(struct weft_tcp *t, const struct weft_ip *addr,
                                            uint16_t port);

/* tcp_open.c */
/** Takes a connection from the pool into the table, state CLOSED. 0, -EMFILE, -ENOBUFS (too many
 * interfaces), or weft_netif_neigh_get()'s error. */
int tcp_conn_new(struct weft_tcp *t, struct weft_netif *nif, const struct weft_ip *local,
                 uint16_t local_port, const struct weft_ip *remote, uint16_t remote_port,
                 struct weft_tcp_conn **out);
/** Like weft_tcp_connect_as(), from a source port that is known to be free. */
int tcp_open(struct weft_tcp *t, struct weft_netif *nif, const struct weft_ip *src,
             uint16_t src_port, const struct weft_ip *dst, uint16_t dst_port, int dscp,
             const struct weft_tcp_conn_ops *ops, void *user, struct weft_tcp_conn **out);
/** Segment `in` has completed the handshake. Calls up. */
void tcp_established(struct weft_tcp_conn *c, const struct tcp_in *in, uint64_t now_ns);

/* tcp_conn.c */
/** Tears down without an up-call. The memory stays while the connection is held. */
void tcp_conn_free(struct weft_tcp_conn *c);
/** Tears down and reports err to the user. */
void tcp_conn_drop(struct weft_tcp_conn *c, int err);
/** Makes the user's last up-call. A connection in TIME-WAIT lives on without its user. */
void tcp_detach(struct weft_tcp_conn *c, int err);
/** Resets the connection and reports err to the user. */
void tcp_give_up(struct weft_tcp_conn *c, int err, uint64_t now_ns);
/** Ends a tcp_hold(). The last one returns a dead connection to the pool. */
void tcp_release(struct weft_tcp_conn *c);

/* tcp_work.c */
/** Adds `bits` to the work of the connection's task and queues the task. */
static inline void
tcp_work(struct weft_tcp_conn *c, uint8_t bits)
{
	if (unlikely(c->dead))
		return;
	c->work |= bits;
	if (!c->task.queued)
		weft_task_queue(c->t->sched, &c->task);
}
/** Like tcp_work() for a connection that needs room first: in the port's queue, in the pool or
 * within the instance's limits. Waiting connections take turns in the order of waiting. */
void tcp_wait(struct weft_tcp_conn *c, uint8_t bits);
/** Takes c off the list of those that wait for room. */
void tcp_not_waiting(struct weft_tcp_conn *c);
/** Buffers were released: the waiting connections have a turn. */
static inline void
tcp_released(struct weft_tcp *t)
{
	t->released = true;
	weft_task_queue(t->sched, &t->waker);
}

static inline void
tcp_hold(struct weft_tcp_conn *c)
{
	c->hold++;
	c->t->grant.conn = NULL;
}

/* tcp_turn.c */
/** The functions of a connection's task, and of the task and the timer of those that wait. */
void tcp_task(struct weft_task *task, uint64_t now_ns);
void tcp_wake(struct weft_task *task, uint64_t now_ns);
void tcp_retry(struct weft_timer *timer, uint64_t now_ns);

/* tcp_defend.c */
/** Enters c among the listener's half-open connections, and removes it. */
void tcp_half_open(struct weft_tcp_conn *c, struct weft_tcp_listener *l);
void tcp_not_half_open(struct weft_tcp_conn *c);

/* tcp_listen.c */
/** Processes a segment that belongs to no connection. iss_floor: NULL, or a sequence number that
 * our ISS must exceed (a reused TIME-WAIT). */
void tcp_rx_no_conn(struct weft_tcp *t, struct weft_netif *nif, struct tcp_in *in,
                    const uint32_t *iss_floor, uint64_t now_ns);

/* tcp_close.c */
/** Our FIN is acknowledged, the peer's FIN has not come: enters FIN-WAIT-2. */
void tcp_fin_wait_2(struct weft_tcp_conn *c);
/** Both directions are closed in order: reports `closed` and stays in TIME-WAIT for 2 MSL. */
void tcp_time_wait(struct weft_tcp_conn *c, uint64_t now_ns);

/* tcp_hash.c */
uint64_t tcp_tuple_hash(const struct weft_tcp *t, const struct weft_ip *local, uint16_t local_port,
                        const struct weft_ip *remote, uint16_t remote_port);
uint32_t tcp_isn(const struct weft_tcp_conn *c, uint64_t now_ns);

#endif /* TCP_LIFE_H */
