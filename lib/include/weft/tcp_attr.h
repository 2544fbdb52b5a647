/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TCP_ATTR_H
#define WEFT_TCP_ATTR_H

/**
 * @file Settings of TCP: limits, timers, and what is negotiated. Installed; stands alone.
 *
 * Each worker has one TCP instance. Every limit applies to one instance, also a limit of all
 * connections together: N workers admit N times as many. Each limit has a counter that tells when
 * it was reached (docs/visibility.md, `/weft/tcp`).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/api.h>

WEFT_API_BEGIN

struct weft_tcp_ports;

/** Congestion control of a connection. */
enum weft_tcp_cc {
	WEFT_TCP_CC_DEFAULT, /**< as in weft_tcp_attr.cc; there: CUBIC */
	WEFT_TCP_CC_CUBIC,   /**< RFC 9438 */
	WEFT_TCP_CC_NEWRENO, /**< RFC 5681 */
};

/** Explicit Congestion Notification (RFC 3168). */
enum weft_tcp_ecn {
	WEFT_TCP_ECN_DEFAULT, /**< PASSIVE */
	WEFT_TCP_ECN_OFF,
	WEFT_TCP_ECN_PASSIVE, /**< if the peer asks for it */
	WEFT_TCP_ECN_ON,      /**< this side asks for it, too */
};

/** SYN cookies (RFC 4987 s3.6). */
enum weft_tcp_cookies {
	WEFT_TCP_COOKIES_DEFAULT, /**< AUTO */
	WEFT_TCP_COOKIES_AUTO,    /**< while a backlog is full */
	WEFT_TCP_COOKIES_ALWAYS,
	WEFT_TCP_COOKIES_NEVER, /**< a full backlog drops its oldest entry */
};

/**
 * The local ports of all TCP instances of a context: for each port the number of listeners, of
 * connections (TIME-WAIT included) and of connections in TIME-WAIT. Each instance counts its own;
 * any thread reads. No lock.
 */
struct weft_tcp_ports;

struct weft_tcp_port_use {
	uint32_t listeners, conns, time_wait;
};

/** -ENOMEM. */
int weft_tcp_ports_create(struct weft_tcp_ports **out);
/** Called after all instances that use it are gone. */
void weft_tcp_ports_destroy(struct weft_tcp_ports *p);
/** Read the counts of one port; port 0: of all ports together. */
void weft_tcp_port_use(const struct weft_tcp_ports *p, uint16_t port,
                       struct weft_tcp_port_use *use);

/** Settings of one TCP instance. Zero means the default in brackets. Names end with their unit. */
struct weft_tcp_attr {
	size_t size;            /**< sizeof(struct weft_tcp_attr) */
	uint32_t max_conns;     /**< [1024] connections, TIME-WAIT included */
	uint32_t max_ooo_bytes; /**< [rcv_buf_bytes] out-of-order octets kept for each connection */
	uint32_t rcv_buf_bytes; /**< [1 MiB] largest receive window */
	/** [4 MiB] octets of a connection that are queued and not acknowledged */
	uint32_t snd_buf_bytes;
	/**
	 * [200000] lower bound of the RTO. RFC 6298 s2.4 asks for 1 s; docs/conformance.md says why
	 * not.
	 */
	uint32_t rto_min_us;
	uint32_t rto_max_us; /**< [60000000] upper bound of the RTO; below rto_min_us: -EINVAL */
	/**
	 * [1000000, moved between the two bounds] RFC 6298 s2.1; a value outside of them: -EINVAL
	 */
	uint32_t rto_initial_us;
	uint32_t syn_retries;  /**< [7: 183 s, RFC 9293's R2 for a SYN] */
	uint32_t data_retries; /**< [8] retransmission timeouts in a row before -ETIMEDOUT */
	uint32_t delack_us;    /**< [500] delayed ACK (RFC 9293 s3.8.6.3: below 500 ms) */
	/** [1000000] duration of TIME-WAIT, shorter than 2 MSL; docs/conformance.md says why */
	uint32_t time_wait_us;
	uint32_t keepalive_us;       /**< [0: off] idle time before the first probe */
	uint32_t keepalive_intvl_us; /**< [keepalive_us / 3] between probes */
	uint32_t keepalive_probes;   /**< [3] unanswered probes before -ETIMEDOUT */
	uint32_t initial_cwnd_segs;  /**< [10] RFC 6928 */
	/**
	 * [100000000: RFC 9293's R2] A connection ends with -ETIMEDOUT when nothing of its queued
	 * octets, or of its FIN, was acknowledged for this time (RFC 9293 s3.9.1, RFC 5482). This
	 * is so whatever the peer answers, also when it keeps its window closed.
	 */
	uint32_t user_timeout_us;
	/*
	 * The following limits count buffers, because a segment of few octets takes a whole buffer.
	 * A total is for one worker and one port. 0, or more than the port lends the worker, means
	 * what the port lends (weft_netif_budget.h). Every established connection has some buffers
	 * of its own. The rest is lent: the more connections borrow, the smaller is the part of
	 * each.
	 */
	/** [2048] segments of a connection that are queued and not acknowledged */
	uint32_t max_snd_segs;
	/**
	 * [five eighths of the port's transmit buffers, divided by its workers] the same for all
	 * connections
	 */
	uint32_t max_snd_segs_total;
	uint32_t max_ooo_mbufs; /**< [1024] mbufs with out-of-order octets, for each connection */
	bool no_timestamps;     /**< neither ask for nor grant timestamps (RFC 7323) */
	/**
	 * neither ask for nor grant selective acknowledgments (RFC 2018); recovery is then that of
	 * RFC 6582
	 */
	bool no_sack;
	bool no_window_scale; /**< neither ask for nor grant window scale (RFC 7323) */
	/**
	 * Delay acknowledgments always: also of the first segments, and after pauses and losses
	 * (RFC 9293 s3.8.6.3 permits the delay and does not demand it).
	 */
	bool no_quick_acks;
	/** Never give several segments to the port as one (TSO). */
	bool no_tso;
	/**
	 * No path MTU discovery: DF is clear and the MSS is that of the interface. Packet-too-big
	 * messages are ignored, and black holes are not searched.
	 */
	bool no_pmtu;
	enum weft_tcp_cc cc;
	enum weft_tcp_ecn ecn;
	enum weft_tcp_cookies syn_cookies;
	/** [max_conns / 4] half-open connections of all listeners together */
	uint32_t max_half_open;
	/**
	 * [half of max_conns, or of the number the port's buffers suffice for, at least 8]
	 * Connections that one remote address (for IPv6, one /64) may have opened to this side,
	 * half-open ones included. max_conns: no limit. If some of them are half-open, a further
	 * SYN is answered with a cookie (syn_cookies), and the peer's answer to the cookie pushes
	 * out the oldest half-open one. A SYN that is dropped is counted in syns_dropped_peer of
	 * /weft/tcp. A listener has a limit of the same name for its accepted connections and
	 * requests (weft_listen_attr.max_conns_per_peer).
	 */
	uint32_t max_conns_per_peer;
	/**
	 * [0: no limit] Connections accepted in a second. A SYN beyond it is dropped; the peer
	 * tries again.
	 */
	uint32_t max_accepts_per_s;
	/** [max_conns / 2] connections in TIME-WAIT; the oldest is dropped first */
	uint32_t max_time_wait;
	/** [1000] of the whole instance (RFC 5961 s7); each connection sends at most 10 */
	uint32_t challenge_acks_per_s;
	/**
	 * [1000] RSTs for segments without a connection. The actual limit is chosen anew each
	 * second, between half of this and one and a half of it. One remote address (for IPv6, one
	 * /64) gets an eighth of it.
	 */
	uint32_t resets_per_s;
	/** [60000000] time in FIN-WAIT-2 without anything from the peer; UINT32_MAX: no limit */
	uint32_t fin_wait2_us;
	uint32_t min_mss_bytes; /**< [64] a smaller MSS option of the peer is taken as this */
	/** [600000000] RFC 1191 s6.3: time until the larger size is tried again */
	uint32_t pmtu_raise_us;
	/**
	 * [3] timeouts in a row of one segment before a smaller size is tried (RFC 2923 s2.1); one
	 * more if segments of its size arrived before.
	 */
	uint32_t blackhole_rtos;
	/**
	 * [three eighths of the port's receive buffers, divided by its workers] mbufs with
	 * out-of-order octets, for all connections
	 */
	uint32_t max_ooo_mbufs_total;
	/**
	 * [30000000] Out-of-order octets are dropped when the gap before them is not filled for
	 * this time. The peer sends them again.
	 */
	uint32_t ooo_timeout_us;
	/**
	 * [30000000] A connection that borrows buffers is late if, after this time, not all octets
	 * that it had queued are acknowledged. A late connection ends with -ETIMEDOUT while another
	 * connection is refused buffers and could borrow less than half of what it could borrow
	 * without the late ones.
	 */
	uint32_t snd_stall_us;
	/**
	 * Shared by the instances of one context, so that an active open never takes a port on
	 * which another instance listens. A context sets its own, whatever is given here. NULL:
	 * only the listeners of this instance count.
	 */
	struct weft_tcp_ports *ports;
};

/**
 * Settings of a TCP instance that may change while it runs (weft_worker_set_tcp() of
 * weft/worker.h). They mean what the members of weft_tcp_attr with these names mean. Zero leaves a
 * setting as it is.
 */
struct weft_tcp_change {
	size_t size; /**< sizeof(struct weft_tcp_change) */
	/** of connections that are opened or accepted from now on; others keep theirs */
	enum weft_tcp_cc cc;
	/** More half-open connections than this stay until they are established or time out. */
	uint32_t max_half_open;
	/** More connections than this stay in TIME-WAIT until their time is over. */
	uint32_t max_time_wait;
	uint32_t max_accepts_per_s;    /**< UINT32_MAX: no limit */
	uint32_t resets_per_s;         /**< from the next second on */
	uint32_t challenge_acks_per_s; /**< from the next second on */
};

WEFT_API_END

#endif /* WEFT_TCP_ATTR_H */
