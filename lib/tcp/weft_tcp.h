/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TCP_H
#define WEFT_TCP_H

/**
 * @file
 * TCP (RFC 9293) for one worker. TCP delivers in-order octets to MPA above and takes FPDU-aligned
 * segments from MPA. netif is the layer below. The header is internal. Every function runs on the
 * worker's thread unless its comment says otherwise.
 *
 * Transmit keeps segment boundaries. The caller fills an mbuf, or a chain of mbufs, with one or
 * more whole FPDUs of at most one MSS together and queues it. The chain is one segment, and TCP
 * sends and retransmits it unchanged. TCP splits a segment only when the MSS or the peer's window
 * has become smaller than the segment (RFC 5044 appendix A).
 *
 * TCP never writes to an mbuf that a transmit ring may still hold (refcnt > 1). A retransmission of
 * such an mbuf takes a new header mbuf in front of an indirect mbuf. The queue drops its reference
 * exactly once: when the segment is acknowledged or when the connection ends.
 */

#include <rte_mbuf.h>

#include "weft_base.h"
#include "weft_sched.h"
#include "weft_stat.h"
#include "weft_tcp_info.h"
#include <weft/tcp_attr.h>

struct weft_icmp_error;
struct weft_netif;
struct weft_netif_budget;

struct weft_tcp; /**< the TCP instance of one worker */
struct weft_tcp_conn;
struct weft_tcp_listener;

const char *weft_tcp_state_name(enum weft_tcp_state s);

/**
 * Up-calls of one connection. The user sets them with weft_tcp_set_user() before the first one can
 * happen; for a passive connection that is inside `accept`. An up-call may call any function of
 * this header on the same connection, weft_tcp_abort() included.
 */
struct weft_tcp_conn_ops {
	/** The active open has finished. */
	void (*established)(void *user);
	/**
	 * Delivers in-order octets. The callee owns m, one direct mbuf or a chain, from here on.
	 * All data of m is new. The callee limits how many mbufs it keeps.
	 */
	void (*rx)(void *user, struct rte_mbuf *m, uint64_t now_ns);
	/**
	 * Octets have arrived behind a gap: m's octets begin at sequence number seq, gap_bytes
	 * behind the next octet that rx() delivers. follows: the user has taken the octets right
	 * before them. The user may take the octets: it writes a record over the front of m's data,
	 * shortens the data to it, and returns true. TCP keeps m and delivers it in order by
	 * rx_ahead(). False: m is unchanged, and rx() delivers it. TCP may drop octets that were
	 * taken (RFC 2018 s8); then they arrive again. May be NULL.
	 */
	bool (*ahead)(void *user, struct rte_mbuf *m, uint32_t seq, uint32_t gap_bytes,
	              bool follows);
	/** In place of rx(): the next len_bytes octets of the stream, from seq on, were taken. m
	 * has the records of ahead(), in order; the callee owns it. Not NULL if ahead is not. */
	void (*rx_ahead)(void *user, struct rte_mbuf *m, uint32_t seq, uint32_t len_bytes,
	                 uint64_t now_ns);
	/** Follows a weft_tcp_send_space() of 0 or a weft_tcp_alloc() of NULL: the user may queue
	 * again. */
	void (*writable)(void *user);
	/** The effective MSS has changed because of the path, the peer or the interface. TCP never
	 * makes this up-call from inside a function that the user has called. */
	void (*mss)(void *user, uint16_t mss_bytes);
	/** The peer has closed its direction. No rx follows. */
	void (*eof)(void *user);
	/**
	 * The connection has ended. The pointer is invalid after return. err is 0 when both
	 * directions were closed in order, else -ECONNRESET, -ECONNREFUSED, -ETIMEDOUT,
	 * -EHOSTUNREACH, -ECONNABORTED, -ENOBUFS or -ENODEV (the port's device was removed). TCP
	 * does not report the user's own abort.
	 */
	void (*closed)(void *user, int err);
};

struct weft_tcp_stats {
	uint64_t segs_in, segs_out, bytes_in, bytes_out;
	uint64_t rx_bad;     /**< malformed header */
	uint64_t rx_no_conn; /**< no connection; answered with RST */
	uint64_t rx_dup_bytes, rx_ooo_segs, rx_ooo_dropped, rx_out_of_window;
	uint64_t retrans_segs, rtos, fast_retrans, dupacks_in;
	uint64_t resets_in, resets_out, challenge_acks;
	uint64_t conns_opened, conns_accepted, conns_closed, accept_refused, conn_limit;
	uint64_t keepalive_probes, keepalive_drops;
	uint64_t no_mbuf;
	uint64_t user_timeouts;     /**< no progress for user_timeout_us */
	uint64_t half_open_evicted; /**< removed from a full backlog by a newer SYN */
	/* Loss recovery. */
	/** recovery_probes: loss probes sent in recovery, when no ACK came any more */
	uint64_t sack_retrans, tlp_probes, recovery_probes, tlp_recovered, rack_marked_lost,
	        spurious_retrans, recoveries, undos;
	uint64_t sack_blocks_in, sack_blocks_out, sack_blocks_bad, dsacks_in, dsacks_out;
	/** SACK blocks so far from the previous ones that their marking waits for the next ACKs */
	uint64_t sack_searches_cut;
	uint64_t ecn_ce_in, ecn_ece_in, ecn_reductions;
	/* Defence against attacks. */
	uint64_t paws_drops, ts_missing;
	uint64_t syns_in, syn_cookies_out, syn_cookies_ok, syn_cookies_bad, syns_dropped_rate,
	        syns_dropped_peer, syns_dropped_full;
	/** cookies and RSTs not sent: no route back, or the neighbour table is full */
	uint64_t answers_no_neigh;
	uint64_t rst_out_of_place, syn_in_window, acks_out_of_range, blind_drops,
	        challenge_acks_limited, resets_limited;
	uint64_t time_wait_reused, time_wait_evicted, fin_wait2_timeouts, urgent_in,
	        data_after_close;
	/* Segment sizes. tso_segs: segments handed to the port several at a time. */
	uint64_t pmtu_evicted; /**< path MTU entries replaced by those of other destinations */
	uint64_t pmtu_lowered, pmtu_ignored, pmtu_raised, blackholes, segs_split, tso_segs;
	uint64_t blackhole_peers; /**< peers named in the log: their large segments vanish */
	uint64_t zero_window_probes, zero_windows_in;
	/* Limits reached. */
	/** part of rx_ooo_dropped: too far from the neighbouring segments of a long queue */
	uint64_t rx_ooo_far;
	/** the user had to wait because of max_snd_segs or its share of the port's buffers */
	uint64_t snd_segs_limit;
	uint64_t snd_buf_limit; /**< the user had to wait because of snd_buf_bytes */
	uint64_t syn_timeouts;  /**< ended after syn_retries */
	uint64_t data_timeouts; /**< ended after data_retries */
	uint64_t small_mss_in;  /**< MSS options below min_mss_bytes */
	/** out-of-order segments copied into the buffer of the preceding segment */
	uint64_t ooo_joined;
	/** out-of-order segments whose octets the user has taken, so that a record remains */
	uint64_t ooo_taken;
	/** times a connection dropped out-of-order octets because others had fewer buffers */
	uint64_t ooo_shed;
	/** times a connection dropped out-of-order octets whose gap stayed for ooo_timeout_us */
	uint64_t ooo_timeouts;
	/** connections ended by snd_stall_us while others needed the buffers */
	uint64_t snd_stalls;
	/** SYNs for which no transmit buffers were left to reserve. Another connection had to end,
	 * or the SYN was dropped. */
	uint64_t syns_no_buffers;
	/** connections neither accepted nor opened: no transmit buffers were left to reserve */
	uint64_t conns_no_buffers;
	/** segments outside the window whose ACK was delayed: too many within a second */
	uint64_t stray_acks_late;
	uint64_t conns_own_sum; /**< connections whose checksums are all ours (tcp_offload.c) */
	uint32_t conns_now, half_open_now, time_wait_now;
};

/** Creates an instance. Zero fields of *attr, and attr NULL, mean the defaults. -EINVAL (the limits
 * of the RTO contradict each other), -ENOMEM. */
int weft_tcp_create(const struct weft_tcp_attr *attr, struct weft_sched *sched,
                    struct weft_tcp **out);
/** Changes settings while the instance runs; zero fields stay. On the worker. */
void weft_tcp_change(struct weft_tcp *t, const struct weft_tcp_change *change);
/** Aborts every connection without up-calls and frees everything. */
void weft_tcp_destroy(struct weft_tcp *t);

/** netif delivers a burst of validated segments. TCP owns the mbufs from here on. */
void weft_tcp_rx(struct weft_tcp *t, struct weft_netif *nif, struct rte_mbuf **m, unsigned int n,
                 uint64_t now_ns);
/** netif reports an ICMP error about a segment that TCP sent. */
void weft_tcp_icmp_error(struct weft_tcp *t, struct weft_netif *nif,
                         const struct weft_icmp_error *e, uint64_t now_ns);

/** Call after weft_netif_set_mtu(): every connection over nif adapts its MSS. */
void weft_tcp_mtu_changed(struct weft_tcp *t, struct weft_netif *nif);

/** Call after weft_netif_remove(): every connection over nif ends. Its user learns -ENODEV; the
 * peer learns nothing. */
void weft_tcp_netif_removed(struct weft_tcp *t, const struct weft_netif *nif);

/**
 * Offers a connection whose handshake is complete. The callee returns 0 after weft_tcp_set_user(),
 * or a negative value. TCP then resets the connection.
 */
typedef int (*weft_tcp_accept_fn)(void *arg, struct weft_tcp_conn *c);

/** Listens on port of the local addresses that agree with addr in `bits` (weft_ip_same_prefix();
 * 128: addr alone; addr all zero: every one). backlog limits the half-open connections. TCP answers
 * a SYN beyond it with a cookie, or removes the oldest half-open connection
 * (weft_tcp_attr.syn_cookies). 0, -EADDRINUSE (another listener overlaps), -ENOMEM. */
int weft_tcp_listen(struct weft_tcp *t, const struct weft_ip *addr, unsigned int bits,
                    uint16_t port, unsigned int backlog, weft_tcp_accept_fn accept, void *arg,
                    struct weft_tcp_listener **out);
/**
 * Asks the listener's user for room for one more connection from `remote`.
 *
 * own false: the instance has no free, half-open or TIME-WAIT connection left, or the port's
 * buffers admit no more connections. own true: there is room, but the peer of `remote` (an IPv6
 * /64, weft_ip_peer()) has all connections it may have; the user may only give up a connection of
 * another address of that peer.
 *
 * take false: the user says whether it could give up a connection. TCP asks this for every such
 * SYN, so the answer should be cheap; an estimate is enough. take true: the user gives up one
 * connection now by weft_tcp_abort() and returns true, or returns false. TCP sets `take` only for
 * an address that has completed a handshake, by a cookie or without.
 */
typedef bool (*weft_tcp_room_fn)(void *arg, const struct weft_ip *remote, bool own, bool take);

/** room NULL, initially: the user gives up no connection. arg is that of weft_tcp_listen(). */
void weft_tcp_listener_set_room(struct weft_tcp_listener *l, weft_tcp_room_fn room);
/** Ends listening, aborts the listener's half-open connections and frees l. */
void weft_tcp_unlisten(struct weft_tcp *t, struct weft_tcp_listener *l);

void weft_tcp_set_user(struct weft_tcp_conn *c, const struct weft_tcp_conn_ops *ops, void *user);

/** Changes a connection's congestion control. Before the connection is open, the change applies
 * from the first segment on. */
void weft_tcp_set_cc(struct weft_tcp_conn *c, enum weft_tcp_cc cc);

/** The effective MSS in octets: the payload of one segment, TCP options already subtracted. */
uint16_t weft_tcp_mss(const struct weft_tcp_conn *c);
/**
 * Octets of payload that the user may queue now. The congestion window and the peer's window limit
 * them, with a little more to keep the pipe full; so do snd_buf_bytes, max_snd_segs (at most one
 * MSS each) and the room in the port's transmit queue. The result is at least one MSS, or 0. After
 * 0, `writable` follows.
 */
uint32_t weft_tcp_send_space(const struct weft_tcp_conn *c);
/**
 * Allocates an empty mbuf for one segment. Its tailroom is at least one MSS and its headroom fits
 * every header below. Returns NULL when the pool is empty or the connection has reached
 * max_snd_segs or its share of the port's buffers; `writable` follows.
 */
struct rte_mbuf *weft_tcp_alloc(struct weft_tcp_conn *c);
/** weft_tcp_send_space() and, unless that is 0, weft_tcp_alloc(). NULL: either has nothing;
 * `writable` follows. */
struct rte_mbuf *weft_tcp_begin(struct weft_tcp_conn *c);
/**
 * Queues m's data, 1 to MSS octets, as one segment and sends what the windows allow.
 *
 * m is one mbuf from weft_tcp_alloc(), or a chain that begins with one. Later mbufs of the chain
 * may have external buffers (rte_pktmbuf_attach_extbuf()). TCP owns m in every case, errors
 * included. TCP drops its reference to an mbuf when the segment is acknowledged (tcp_sq_ack()) or
 * the connection ends (tcp_sq_free()). The port drops the reference of each transmission when its
 * transmit ring has sent the mbuf. The later of these frees the mbuf. Until then the octets must
 * not change.
 *
 * push: the caller has no more data now, and TCP sets PSH. Without push, the port may get m at the
 * end of the connection's next turn, together with other data queued until then: a port with TSO,
 * or any port while earlier data is in flight.
 *
 * Returns 0, -EPIPE (the user has closed its direction) or -ENOTCONN.
 */
int weft_tcp_send(struct weft_tcp_conn *c, struct rte_mbuf *m, bool push, uint64_t now_ns);
/** Closes the user's direction after the queued data. `closed` follows when both directions are
 * closed; with -ECONNABORTED, soon, if the SYN is not answered yet. */
void weft_tcp_close(struct weft_tcp_conn *c, uint64_t now_ns);
/** Ends the connection at once, with a RST where RFC 9293 s3.10.5 asks for one. No up-call follows.
 * c is invalid after return. */
void weft_tcp_abort(struct weft_tcp_conn *c, uint64_t now_ns);
/** Turns keepalive on for one connection, or off with idle_us 0. */
void weft_tcp_keepalive(struct weft_tcp_conn *c, uint32_t idle_us, uint32_t intvl_us,
                        uint32_t probes);

/** The latest time at which octets arrived from the peer, queued octets were acknowledged, or
 * octets were queued into an empty queue. 0: never. */
uint64_t weft_tcp_moved_ns(const struct weft_tcp_conn *c);
/** The most connections that its interface admits: max_conns, or fewer if the port's buffers admit
 * fewer. */
uint32_t weft_tcp_conns_most(const struct weft_tcp_conn *c);
/** The budget, of the connection's port, for received mbufs that the user keeps. Outlives the
 * connection. */
struct weft_netif_budget *weft_tcp_fpdu_budget(const struct weft_tcp_conn *c);
const struct weft_tcp_stats *weft_tcp_stats(const struct weft_tcp *t);
/** The most octets of memory that each of max_conns costs the instance, used or not. Any thread. */
size_t weft_tcp_conn_bytes(void);
/** Gives the names of the counters. Returns how many. Any thread. */
unsigned int weft_tcp_stat_fields(const struct weft_stat_field **out);
/** The number of the next octet that rx() delivers. */
uint32_t weft_tcp_rcv_nxt(const struct weft_tcp_conn *c);
/** A number that identifies a living connection, below max_conns. A later connection may have the
 * same number. */
uint32_t weft_tcp_conn_id(const struct weft_tcp_conn *c);
/**
 * Returns the living connection with the lowest number from *id on, or NULL. The function examines
 * at most `looks` numbers. *id becomes the number to continue from, or UINT32_MAX after the last.
 */
struct weft_tcp_conn *weft_tcp_conn_next(struct weft_tcp *t, uint32_t *id, uint32_t looks);

#include "weft_tcp_open.h"

#endif /* WEFT_TCP_H */
