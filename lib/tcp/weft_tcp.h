/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TCP_H
#define WEFT_TCP_H

/**
 * @file
 * TCP (RFC 9293) for one worker: in-order octets up, FPDU-aligned segments down.
 * Internal; the caller above is MPA, below is netif. Everything runs on the worker.
 *
 * Transmit keeps segment boundaries: the caller fills an mbuf, or a chain, of at most the MSS with
 * one or more whole FPDUs and queues it; that is a segment, sent and resent as it is. It is
 * split only when the MSS or the window shrank below it (RFC 5044 appendix A).
 *
 * An mbuf that a TX ring may still hold (refcnt > 1) is never written: a retransmission takes
 * a fresh header mbuf in front of an indirect one. The queue's reference is dropped exactly
 * once: when the segment is acknowledged or the connection dies.
 */

#include <rte_mbuf.h>

#include "weft_base.h"
#include "weft_sched.h"
#include "weft_stat.h"
#include <weft/tcp_attr.h>

struct weft_icmp_error;
struct weft_netif;
struct weft_netif_budget;

struct weft_tcp; /**< the machine of one worker */
struct weft_tcp_conn;
struct weft_tcp_listener;

/** RFC 9293 s3.3.2. */
enum weft_tcp_state {
	WEFT_TCP_CLOSED,
	WEFT_TCP_SYN_SENT,
	WEFT_TCP_SYN_RCVD,
	WEFT_TCP_ESTABLISHED,
	WEFT_TCP_FIN_WAIT_1,
	WEFT_TCP_FIN_WAIT_2,
	WEFT_TCP_CLOSE_WAIT,
	WEFT_TCP_CLOSING,
	WEFT_TCP_LAST_ACK,
	WEFT_TCP_TIME_WAIT,
	WEFT_TCP_NSTATES,
};

const char *weft_tcp_state_name(enum weft_tcp_state s);

/**
 * Up-calls of one connection. Set with weft_tcp_set_user() before they can happen (for a passive
 * connection: inside `accept`). Any of them may call any function here on the same connection,
 * weft_tcp_abort() included.
 */
struct weft_tcp_conn_ops {
	/** Active open finished. */
	void (*established)(void *user);
	/**
	 * In-order octets. The callee owns m (a single direct segment or a chain) from here on;
	 * the new octets are m's whole data. Held mbufs are the callee's to bound.
	 */
	void (*rx)(void *user, struct rte_mbuf *m, uint64_t now_ns);
	/** weft_tcp_send_space() went from too little to enough. */
	void (*writable)(void *user);
	/** The effective MSS changed, by path, peer or interface; never from within a call of the
	 * user's. */
	void (*mss)(void *user, uint16_t mss_bytes);
	/** The peer closed its direction: no more rx. */
	void (*eof)(void *user);
	/**
	 * The connection is dead and the pointer invalid after return. err: 0 (both directions
	 * closed in order), -ECONNRESET, -ECONNREFUSED, -ETIMEDOUT, -EHOSTUNREACH, -ECONNABORTED
	 * (our own abort is not reported).
	 */
	void (*closed)(void *user, int err);
};

struct weft_tcp_stats {
	uint64_t segs_in, segs_out, bytes_in, bytes_out;
	uint64_t rx_bad;     /**< header malformed */
	uint64_t rx_no_conn; /**< answered with RST */
	uint64_t rx_dup_bytes, rx_ooo_segs, rx_ooo_dropped, rx_out_of_window;
	uint64_t retrans_segs, rtos, fast_retrans, dupacks_in;
	uint64_t resets_in, resets_out, challenge_acks;
	uint64_t conns_opened, conns_accepted, conns_closed, accept_refused, conn_limit;
	uint64_t keepalive_probes, keepalive_drops;
	uint64_t no_mbuf;
	uint64_t user_timeouts;     /**< no progress for user_timeout_us */
	uint64_t half_open_evicted; /**< pushed out of a full backlog by a newer SYN */
	/* recovery */
	uint64_t sack_retrans, tlp_probes, tlp_recovered, rack_marked_lost, spurious_retrans,
	        recoveries, undos;
	uint64_t sack_blocks_in, sack_blocks_out, sack_blocks_bad, dsacks_in, dsacks_out;
	/** blocks so far from the last ones that marking waits for more ACKs */
	uint64_t sack_searches_cut;
	uint64_t ecn_ce_in, ecn_ece_in, ecn_reductions;
	/* defence */
	uint64_t paws_drops, ts_missing;
	uint64_t syns_in, syn_cookies_out, syn_cookies_ok, syn_cookies_bad, syns_dropped_rate,
	        syns_dropped_peer, syns_dropped_full;
	/** cookies and resets not sent: no route back, or no room among the neighbours */
	uint64_t answers_no_neigh;
	uint64_t rst_out_of_place, syn_in_window, acks_out_of_range, blind_drops,
	        challenge_acks_limited, resets_limited;
	uint64_t time_wait_reused, time_wait_evicted, fin_wait2_timeouts, urgent_in,
	        data_after_close;
	/* sizes; tso_segs: segments that left in a hand-over of several */
	uint64_t pmtu_evicted; /**< pushed out of the cache of path MTUs by another destination's */
	uint64_t pmtu_lowered, pmtu_ignored, pmtu_raised, blackholes, segs_split, tso_segs;
	uint64_t zero_window_probes, zero_windows_in;
	/* limits met */
	/** of rx_ooo_dropped: too far from the segments before it in a long queue */
	uint64_t rx_ooo_far;
	/** the user was made to wait by max_snd_segs or its part of what the port lends */
	uint64_t snd_segs_limit;
	uint64_t snd_buf_limit; /**< likewise by snd_buf_bytes */
	uint64_t syn_timeouts;  /**< given up after syn_retries */
	uint64_t data_timeouts; /**< given up after data_retries */
	uint64_t small_mss_in;  /**< offers below min_mss_bytes */
	/** out-of-order segments copied into the buffer of the one in front of them */
	uint64_t ooo_joined;
	/** times that a connection gave up out-of-order octets because others had fewer buffers */
	uint64_t ooo_shed;
	/** times that they were given up because their gap was not filled for ooo_timeout_us */
	uint64_t ooo_timeouts;
	/** connections ended by snd_stall_us while others needed the buffers */
	uint64_t snd_stalls;
	/** SYNs that found no transmit buffers left to set aside: a connection had to go for them,
	 * or they were dropped */
	uint64_t syns_no_buffers;
	/** connections not accepted or opened: no transmit buffers to set aside for them */
	uint64_t conns_no_buffers;
	/** segments outside the window whose answer was put off: too many in a second */
	uint64_t stray_acks_late;
	uint32_t conns_now, half_open_now, time_wait_now;
};

struct weft_tcp_info {
	enum weft_tcp_state state;
	struct weft_ip local, remote;
	uint16_t local_port, remote_port;
	uint32_t srtt_us, rttvar_us, rto_us;
	uint32_t cwnd_bytes, ssthresh_bytes, snd_wnd_bytes, rcv_wnd_bytes, unacked_bytes,
	        queued_bytes;
	uint16_t mss_bytes;
	uint64_t retrans_segs, rtos;
	const char *cc_name;
	uint8_t snd_wscale, rcv_wscale;
	/** in_recovery: of losses, by whatever found them, a timeout included */
	bool timestamps, sack, ecn, in_recovery;
	uint16_t pmtu_bytes;
	uint32_t rcv_nxt, snd_una, snd_nxt;
	uint64_t segs_in, segs_out;
	uint64_t bytes_in, bytes_out; /**< in order and delivered; sent, each octet once */
	uint64_t dupacks_in, sack_blocks_in, ooo_segs, dup_bytes_in, fast_retrans, tlp_probes,
	        spurious_retrans;
};

int weft_tcp_create(const struct weft_tcp_attr *attr, struct weft_sched *sched,
                    struct weft_tcp **out);
/** Aborts every connection (no up-calls) and frees everything. */
void weft_tcp_destroy(struct weft_tcp *t);

/** netif's up-call: a burst of validated segments. */
void weft_tcp_rx(struct weft_tcp *t, struct weft_netif *nif, struct rte_mbuf **m, unsigned int n,
                 uint64_t now_ns);
/** netif's up-call for ICMP errors about segments of ours. */
void weft_tcp_icmp_error(struct weft_tcp *t, struct weft_netif *nif,
                         const struct weft_icmp_error *e, uint64_t now_ns);

/** weft_netif_set_mtu() was called: every connection over nif follows. */
void weft_tcp_mtu_changed(struct weft_tcp *t, struct weft_netif *nif);

/**
 * Offered a connection whose handshake is complete. Return 0 after weft_tcp_set_user(), or
 * negative to have it reset.
 */
typedef int (*weft_tcp_accept_fn)(void *arg, struct weft_tcp_conn *c);

/** Listen on addr:port (all-zero addr: any of ours). -EADDRINUSE, -ENOMEM. backlog bounds
 * half-open ones: a SYN too many is answered with a cookie, or pushes out the oldest
 * (syn_cookies). */
int weft_tcp_listen(struct weft_tcp *t, const struct weft_ip *addr, uint16_t port,
                    unsigned int backlog, weft_tcp_accept_fn accept, void *arg,
                    struct weft_tcp_listener **out);
/** Congestion control of the connections that it accepts from now on. */
void weft_tcp_listener_set_cc(struct weft_tcp_listener *l, enum weft_tcp_cc cc);
/**
 * Asked when every connection of the machine is taken, none of them half-open or in TIME-WAIT, or
 * the port's buffers admit no more, and this remote address wants one. take: give one up now, by
 * weft_tcp_abort(); true when that was done. Else: whether it may be; a guess will do, and is to
 * cost little: it is asked for every SYN. It is asked to take only for an address that has answered
 * a cookie. own: likewise where there is room, and all that one peer may have (weft_ip_peer()) is
 * taken: by another address of this IPv6 peer. It is one of those that is to go.
 */
typedef bool (*weft_tcp_room_fn)(void *arg, const struct weft_ip *remote, bool own, bool take);

/** NULL (as at first): a full machine takes no more. arg is weft_tcp_listen()'s. */
void weft_tcp_listener_set_room(struct weft_tcp_listener *l, weft_tcp_room_fn room);
void weft_tcp_unlisten(struct weft_tcp *t, struct weft_tcp_listener *l);

/**
 * Active open over nif. The source port is chosen at random among the free ones (RFC 6056) whose
 * answers come to nif (weft_netif_group.h). 0: `established` or `closed` will follow.
 * -EADDRNOTAVAIL, -EHOSTUNREACH, -ENOMEM, -EMFILE (max_conns).
 */
int weft_tcp_connect(struct weft_tcp *t, struct weft_netif *nif, const struct weft_ip *dst,
                     uint16_t dst_port, const struct weft_tcp_conn_ops *ops, void *user,
                     struct weft_tcp_conn **out);
void weft_tcp_set_user(struct weft_tcp_conn *c, const struct weft_tcp_conn_ops *ops, void *user);

/** Change a connection's congestion control; from the first segment on when called before it is
 * open. */
void weft_tcp_set_cc(struct weft_tcp_conn *c, enum weft_tcp_cc cc);

/** Effective MSS: payload octets of one segment, options already taken off. */
uint16_t weft_tcp_mss(const struct weft_tcp_conn *c);
/**
 * Payload octets that may be queued now: what congestion and peer window leave, plus a little to
 * keep the pipe full, bounded by snd_buf_bytes, max_snd_segs (one MSS each at most) and by the room
 * of the port's queue. At least one MSS, or 0: `writable` will follow.
 */
uint32_t weft_tcp_send_space(const struct weft_tcp_conn *c);
/**
 * An empty mbuf for one segment: tailroom >= MSS, headroom for every header below. NULL: pool empty
 * or max_snd_segs reached; `writable` follows.
 */
struct rte_mbuf *weft_tcp_alloc(struct weft_tcp_conn *c);
/**
 * Queue m's data (1..MSS octets) as one segment and send what the windows allow. m is one mbuf, or
 * a chain whose first one is of weft_tcp_alloc() and whose others may have external buffers
 * (rte_pktmbuf_attach_extbuf()); each is released exactly once, when the segment is acknowledged or
 * the connection dies, and no transmit ring holds it any more. Their octets must not change until
 * then. Owns m always. push: the caller has nothing more to say now (sets PSH). Without it, a port
 * that takes several segments in one (TSO) may get m at the end of the turn, together with what
 * else was said in it. 0, -EPIPE (we closed), -ENOTCONN.
 */
int weft_tcp_send(struct weft_tcp_conn *c, struct rte_mbuf *m, bool push, uint64_t now_ns);
/** Close our direction after what is queued; `closed` follows when both are. */
void weft_tcp_close(struct weft_tcp_conn *c, uint64_t now_ns);
/** RST and forget, at once; no up-call follows and c is invalid after return. */
void weft_tcp_abort(struct weft_tcp_conn *c, uint64_t now_ns);
/** Turn keepalive on (or off with 0) for one connection. */
void weft_tcp_keepalive(struct weft_tcp_conn *c, uint32_t idle_us, uint32_t intvl_us,
                        uint32_t probes);

void weft_tcp_info(const struct weft_tcp_conn *c, struct weft_tcp_info *info);
/** When octets of the peer came last, or octets to it were acknowledged or queued first; 0: never.
 */
uint64_t weft_tcp_moved_ns(const struct weft_tcp_conn *c);
/** Connections that there can be over its interface: max_conns, or what the port's buffers admit.
 */
uint32_t weft_tcp_conns_most(const struct weft_tcp_conn *c);
struct weft_netif *weft_tcp_netif(const struct weft_tcp_conn *c);
/** Of the connection's port, for received mbufs that the user keeps; outlives the connection. */
struct weft_netif_budget *weft_tcp_fpdu_budget(const struct weft_tcp_conn *c);
const struct weft_tcp_stats *weft_tcp_stats(const struct weft_tcp *t);
/** Octets that one of max_conns costs at most in the machine, whether it is used or not. Any
 * thread. */
size_t weft_tcp_conn_bytes(void);
/** The counters' names; returns how many. Any thread. */
unsigned int weft_tcp_stat_fields(const struct weft_stat_field **out);
/** A number by which a connection is known while it lives; another may have it later. Below
 * max_conns. */
uint32_t weft_tcp_conn_id(const struct weft_tcp_conn *c);
/**
 * The living connection with the lowest number from *id on, looking at `looks` numbers at most;
 * NULL: none among them. *id becomes the number to go on from, UINT32_MAX after the last.
 */
struct weft_tcp_conn *weft_tcp_conn_next(struct weft_tcp *t, uint32_t *id, uint32_t looks);
/** Call fn for every connection (console, telemetry). fn must not open or close any. */
void weft_tcp_foreach(struct weft_tcp *t, void (*fn)(void *arg, struct weft_tcp_conn *c),
                      void *arg);

#endif /* WEFT_TCP_H */
