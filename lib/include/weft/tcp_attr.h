/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TCP_ATTR_H
#define WEFT_TCP_ATTR_H

/**
 * @file What may be set of TCP: limits, timers, what is negotiated. Installed; stands alone. All
 * limits are per worker, of which each has a machine of its own, also where they speak of all
 * together. Each limit has a counter that tells when it was reached (docs/visibility.md,
 * `/weft/tcp`).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/api.h>

WEFT_API_BEGIN

struct weft_tcp_ports;

/** Congestion control of a connection. */
enum weft_tcp_cc {
	WEFT_TCP_CC_DEFAULT, /**< what the machine's attributes say; there: CUBIC */
	WEFT_TCP_CC_CUBIC,   /**< RFC 9438 */
	WEFT_TCP_CC_NEWRENO, /**< RFC 5681 */
};

/** Explicit Congestion Notification (RFC 3168). */
enum weft_tcp_ecn {
	WEFT_TCP_ECN_DEFAULT, /**< PASSIVE */
	WEFT_TCP_ECN_OFF,
	WEFT_TCP_ECN_PASSIVE, /**< when the peer asks for it */
	WEFT_TCP_ECN_ON,      /**< ask for it, too */
};

/** SYN cookies (RFC 4987 s3.6). */
enum weft_tcp_cookies {
	WEFT_TCP_COOKIES_DEFAULT, /**< AUTO */
	WEFT_TCP_COOKIES_AUTO,    /**< while a backlog is full */
	WEFT_TCP_COOKIES_ALWAYS,
	WEFT_TCP_COOKIES_NEVER, /**< a full backlog loses its oldest */
};

/**
 * Local ports of all machines of a context: how many listeners, connections (TIME-WAIT included)
 * and TIME-WAITs each has. Any thread reads; a machine counts its own. No lock.
 */
struct weft_tcp_ports;

struct weft_tcp_port_use {
	uint32_t listeners, conns, time_wait;
};

/** -ENOMEM. */
int weft_tcp_ports_create(struct weft_tcp_ports **out);
/** After the machines that were given it. */
void weft_tcp_ports_destroy(struct weft_tcp_ports *p);
/** port 0: of all ports together. */
void weft_tcp_port_use(const struct weft_tcp_ports *p, uint16_t port,
                       struct weft_tcp_port_use *use);

/** Per machine; zero means the default in brackets. Units last in the names. */
struct weft_tcp_attr {
	size_t size;            /**< sizeof(struct weft_tcp_attr) */
	uint32_t max_conns;     /**< [1024] live connections, TIME-WAIT included */
	uint32_t max_ooo_bytes; /**< [rcv_buf_bytes] out-of-order octets kept per connection */
	uint32_t rcv_buf_bytes; /**< [1 MiB] receive window offered */
	/** [4 MiB] octets a connection may have queued and unacknowledged */
	uint32_t snd_buf_bytes;
	/** [200000] lower bound of RTO; RFC 6298 s2.4 says 1 s, docs/conformance.md why not */
	uint32_t rto_min_us;
	uint32_t rto_max_us; /**< [60000000] less than rto_min_us: -EINVAL */
	/** [1000000, or the nearest between the two] RFC 6298 s2.1; not between them: -EINVAL */
	uint32_t rto_initial_us;
	uint32_t syn_retries;  /**< [7: 183 s, RFC 9293's R2 for a SYN] */
	uint32_t data_retries; /**< [8] RTOs in a row before -ETIMEDOUT */
	uint32_t delack_us;    /**< [500] delayed ACK (RFC 9293 s3.8.6.3: below 500 ms) */
	/** [1000000] 2 MSL, shortened; docs/conformance.md says why */
	uint32_t time_wait_us;
	uint32_t keepalive_us;       /**< [0: off] idle time before the first probe */
	uint32_t keepalive_intvl_us; /**< [keepalive_us / 3] between probes */
	uint32_t keepalive_probes;   /**< [3] unanswered ones before -ETIMEDOUT */
	uint32_t initial_cwnd_segs;  /**< [10] RFC 6928 */
	/**
	 * [100000000: RFC 9293's R2] queued octets, or our FIN, of which nothing was acknowledged
	 * for that long end the connection with -ETIMEDOUT (RFC 9293 s3.9.1, RFC 5482), whatever
	 * the peer answers: a window held shut, too.
	 */
	uint32_t user_timeout_us;
	/**
	 * What follows counts buffers: a segment of few octets costs a whole one. Totals are of one
	 * worker and port; 0, or more than the port lends the worker, means what it lends
	 * (weft_netif_budget.h). Every established connection has some buffers for itself; of the
	 * rest it has a part, the smaller the more connections borrow.
	 */
	/** [2048] segments queued and unacknowledged per connection */
	uint32_t max_snd_segs;
	/** [five eighths of the port's for sending, by its workers] likewise, all connections */
	uint32_t max_snd_segs_total;
	uint32_t max_ooo_mbufs; /**< [1024] mbufs with out-of-order octets per connection */
	bool no_timestamps;     /**< neither ask for RFC 7323's timestamps nor grant them */
	/** likewise RFC 2018's selective acknowledgments; recovery is then RFC 6582's */
	bool no_sack;
	bool no_window_scale; /**< likewise RFC 7323's window scale */
	/** delay acknowledgments from the first segment on, after pauses and losses, too (RFC 9293
	 * s3.8.6.3 permits, never demands) */
	bool no_quick_acks;
	/** never hand several segments as one to the port, where it takes them */
	bool no_tso;
	/** DF clear and MSS from the interface alone: neither believe packet-too-big nor look for
	 * black holes */
	bool no_pmtu;
	enum weft_tcp_cc cc;
	enum weft_tcp_ecn ecn;
	enum weft_tcp_cookies syn_cookies;
	/** [max_conns / 4] half-open connections of all listeners together; like every limit and
	 * rate of connections here per worker: N workers admit N times as many */
	uint32_t max_half_open;
	/** [half of max_conns, or of what the port's buffers admit, at least 8] connections that
	 * one remote address (of IPv6 one /64) may have opened to us, half-open ones included,
	 * max_conns: no limit: where those fill it a SYN is answered with a cookie, and the peer's
	 * answer to that pushes out the oldest of them (syn_cookies); per worker, too */
	uint32_t max_conns_per_peer;
	/** [0: no limit] connections accepted in a second; a SYN beyond is dropped, the peer tries
	 * again */
	uint32_t max_accepts_per_s;
	uint32_t max_time_wait; /**< [max_conns / 2] the oldest goes first */
	/** [1000] of the whole machine (RFC 5961 s7); each connection has at most 10 */
	uint32_t challenge_acks_per_s;
	/** [1000] RSTs for segments that no connection wants, drawn anew each second, between half
	 * and one and a half of it; an eighth of that to one remote address (of IPv6 one /64) */
	uint32_t resets_per_s;
	/** [60000000] half-closed without anything from the peer; 0 means the default, UINT32_MAX
	 * never */
	uint32_t fin_wait2_us;
	uint32_t min_mss_bytes; /**< [64] a smaller offer is taken as this */
	uint32_t pmtu_raise_us; /**< [600000000] RFC 1191 s6.3: try the larger size again */
	/** [3] timeouts in a row of one segment before a smaller size is tried (RFC 2923 s2.1); one
	 * more where its size did arrive before */
	uint32_t blackhole_rtos;
	/** [three eighths of the port's for receiving, by its workers] likewise, all connections */
	uint32_t max_ooo_mbufs_total;
	/** [30000000] out-of-order octets are given up when their gap is not filled for so long;
	 * the peer sends them again */
	uint32_t ooo_timeout_us;
	/**
	 * [30000000] a connection that borrows buffers and has not had acknowledged, in so long,
	 * all that it had queued ends with -ETIMEDOUT while another one is refused buffers and
	 * could borrow less than half of what it could without those that are late.
	 */
	uint32_t snd_stall_us;
	/**
	 * Shared by the machines of one context, so that an active open never takes a port that
	 * another one listens on; a context sets its own whatever stands here. NULL: only the
	 * machine's own listeners count.
	 */
	struct weft_tcp_ports *ports;
};

WEFT_API_END

#endif /* WEFT_TCP_ATTR_H */
