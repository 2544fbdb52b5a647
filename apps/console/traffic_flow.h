/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CONSOLE_TRAFFIC_FLOW_H
#define WEFT_CONSOLE_TRAFFIC_FLOW_H

/**
 * @file One flow of traffic, between its worker (traffic_flow.c) and the main thread (traffic.c).
 * While the state is RUNNING or ENDING, the worker owns everything but the last members. The
 * counters are read by the main thread at any time.
 */

#include "traffic.h"

struct flow {
	struct traffic_want want;
	struct console_qp *q;
	struct weft_worker *worker;
	uint64_t id; /**< of its wr_ids: TRAFFIC_ID, its place in the table, its generation */
	_Atomic enum traffic_state state;
	uint64_t posted, taken; /**< messages; echoes of PING */
	uint64_t synced;        /**< SEND: messages that the peer has taken */
	uint64_t sync_at;       /**< SEND: posted, at the last Read of no octets */
	uint32_t outstanding;   /**< work requests, the Reads of no octets included */
	bool last_sync;         /**< the Read behind the last message is posted */
	bool give_up;           /**< PING: the alarm ends the wait for echoes */
	struct weft_alarm *alarm;
	struct weft_alarm *watch; /**< PING: looks whether echoes come */
	uint64_t heard_ns;        /**< PING: when nothing was awaited, or an echo came, last */
	uint64_t rate_from_ns, rate_base; /**< the rate is counted from here */
	/** ECHO: receives that are not sent back yet */
	struct {
		uint32_t recv, octets;
	} pending[CONSOLE_RECVS];
	uint32_t pending_at, npending;
	uint64_t sent_ns[TRAFFIC_DEPTH_MAX]; /**< PING: by message, modulo depth */
	uint8_t *buf;                        /**< SEND: a message; PING: depth of them */
	_Atomic uint64_t messages, octets, bad, rtt_min_ns, rtt_max_ns, rtt_sum_ns;
	_Atomic uint64_t end_ns;
	/* Valid in DONE. */
	int error;                  /**< of a post; 0: none failed */
	enum weft_wc_status status; /**< of the first completion that failed */
	bool lost;                  /**< the connection ended first */
	bool no_echo;               /**< PING: none came for TRAFFIC_ECHO_S */
	/* Of the main thread. */
	uint64_t begin_ns;
	uint64_t look_ns, look_messages, look_octets;
	bool told;    /**< its end was printed */
	bool dropped; /**< its QP was destroyed with work requests under way */
};

extern struct flow flows[TRAFFIC_MAX + 1]; /**< by number, from 1 */

/* Functions for weft_worker_call(); arg is a flow. */
void flow_begin(void *arg);
/** Send no more; end when all is complete. */
void flow_stop(void *arg);
/** The connection is gone: the same, and nothing more is expected of the peer. */
void flow_halt(void *arg);
/** The QP is destroyed: it ends at once. */
void flow_drop(void *arg);

#endif /* WEFT_CONSOLE_TRAFFIC_FLOW_H */
