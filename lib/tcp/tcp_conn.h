/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TCP_CONN_H
#define TCP_CONN_H

/**
 * @file
 * A connection and the small records that it holds. The functions of each part of a connection are
 * declared in a header of their own.
 */

#include <assert.h>
#include <stddef.h>

#include "weft_netif_tx.h"
#include "weft_tcp.h"

#include "tcp_wire.h"

/** A timer whose deadline moves often. A later deadline is only written to at_ns. When the wheel's
 * timer fires before at_ns, it is armed again. */
struct tcp_timer {
	struct weft_timer timer;
	uint64_t at_ns; /**< WEFT_NEVER: off */
};

/** The segments in one condition. */
struct tcp_seg_list {
	struct rte_mbuf *head, *tail;
};

/** A run of SACKed segments: all whole segments within [left, end) are marked; `last` ends it. */
struct tcp_sack_hint {
	struct rte_mbuf *last; /**< NULL: unused */
	uint32_t left, end;
};
/** One hint for each block of the last ACK and one for the highest mark. */
#define TCP_SACK_HINTS (TCP_SACK_MAX + 1)

/** RFC 9438 s4.1.2. Windows are in octets. */
struct tcp_cubic {
	uint64_t epoch_ns;          /**< t_epoch; 0: the next ACK begins a stage */
	uint64_t last_ns;           /**< time up to which t has advanced */
	uint64_t est_rem, cwnd_rem; /**< remainders of the last divisions */
	uint32_t w_max, cwnd_prior, w_est;
	uint32_t k;           /**< K, in units of 2^18 ns */
	bool from_slow_start; /**< s4.8: the next stage begins with K = 0 */
};

/**
 * How long the peer delays the ACK of a segment that is alone in flight (tcp_rtt.c). The samples
 * are counted in rounds of `need`.
 */
struct tcp_lone {
	uint32_t most_us[2]; /**< the longest delay of this round and of the one before */
	uint16_t n;          /**< samples of this round */
	uint16_t need;       /**< of a round; doubled by each probe that was not needed */
	bool known;          /**< a round is complete */
};

/** Events counted within one second. */
struct tcp_rate {
	uint64_t since_ns;
	uint32_t n;
};

/** What a connection's task has to do. */
#define TCP_WORK_ACK    0x01 /**< send an ACK now */
#define TCP_WORK_OUTPUT 0x02 /**< send what the windows allow */
#define TCP_WORK_ABORT  0x04 /**< closed before it was open: report the end, then free */
#define TCP_WORK_MSS    0x08 /**< tell the user its new MSS */
#define TCP_WORK_PROBE  0x10 /**< new data was sent: restart the loss probe */

/*
 * The members are in the order of their use, because a worker with many busy connections waits for
 * memory more than for anything else. A segment of plain text uses the first five cache lines, one
 * that is sent and acknowledged without a loss the first eleven.
 */
struct weft_tcp_conn {
	/* Every segment, in either direction. First the key in the connection table. */
	struct weft_tcp_conn *hash_next;
	uint64_t hash;
	struct weft_ip local, remote;
	uint16_t local_port, remote_port;
	uint8_t state; /**< enum weft_tcp_state; only tcp_set_state() assigns it */
	bool in_table;
	bool dead;                  /**< torn down; the memory stays while hold > 0 */
	bool detached;              /**< `closed` was called, or the user aborted */
	uint32_t hold;              /**< entry points that are executing on this connection */
	uint32_t rcv_nxt, rcv_wnd;  /**< RFC 9293 s3.3.1; so are those below */
	uint32_t rcv_unacked_bytes; /**< octets delivered since our last ACK */
	struct rte_mbuf *ooo_head;  /**< the first segment behind a gap */
	uint32_t snd_una, snd_wnd, snd_wl1, snd_wl2;
	uint32_t ts_offset;                /**< offset of our timestamp clock */
	uint32_t ts_recent, last_ack_sent; /**< RFC 7323 s4.3 */
	uint16_t rcv_mss;                  /**< largest segment received: defines "full-sized" */
	uint8_t rcv_wscale;                /**< scale of the windows that we announce */
	uint8_t snd_wscale;
	bool fin_in;        /**< a FIN was received, perhaps ahead of missing data */
	uint8_t quick_acks; /**< segments still to be acknowledged at once */
	/** in both SYNs; before the peer's SYN: we offer it. The next three likewise. */
	bool wscale_ok;
	bool ts_ok;    /**< RFC 7323 s3.2: every segment has a timestamp */
	bool sack_ok;  /**< RFC 2018 s2 */
	bool ecn_ok;   /**< RFC 3168 s6.1.1 */
	uint8_t nsack; /**< entries of `sack` */
	bool dsack_due;
	bool ece_due;       /**< CE was received, and no CWR since (RFC 3168 s6.1.3) */
	uint8_t backoff;    /**< doublings of rto_us by timeouts */
	uint32_t keep_sent; /**< keepalive probes without an answer */
	struct weft_tcp *t;
	struct weft_netif *nif;
	struct weft_neigh *neigh;
	const struct weft_tcp_conn_ops *ops;
	void *user;
	uint64_t last_rx_ns, last_text_ns;
	uint64_t n_segs_in, n_bytes_in, n_segs_out, n_bytes_out;
	struct weft_task task;
	uint8_t work;
	bool waiting; /**< for room; in weft_tcp.waiting */
	uint8_t dscp; /**< of all its segments */
	/** the path is narrower than TCP_PMTU_FLOOR_*: DF stays clear */
	bool may_fragment;
	uint32_t rto_us; /**< RTO (RFC 6298) */
	struct tcp_timer t_delack;

	/* Every segment that is sent, or acknowledged. Send queue: RFC 9293 s3.3.1. */
	uint64_t last_send_ns;
	struct tcp_share *share;   /**< buffers of nif's port */
	uint32_t snd_nxt, snd_max; /**< after a window probe snd_max is snd_nxt + 1 */
	uint32_t snd_end;          /**< end of the queued octets; our FIN's sequence number */
	uint32_t snd_segs;         /**< mbufs in the queue */
	struct rte_mbuf *sq_head, *sq_tail, *sq_nxt; /**< sq_nxt: segment at snd_nxt */
	uint16_t mss;    /**< effective, options subtracted; only tcp_mss_update() assigns it */
	bool fin_out;    /**< our FIN follows snd_end */
	bool starved;    /**< the user was told 0 and waits for `writable` */
	bool wants_mbuf; /**< weft_tcp_alloc() found the pool empty */
	bool persist;    /**< the retransmission timer times window probes */
	bool borrows;    /**< queues more than is reserved for it */
	bool late;       /**< overdue: in tcp_share.late */
	/** what the port takes as one TSO packet; with no_tso: nothing */
	struct weft_netif_tso tso;
	uint32_t cwnd, ssthresh;
	/** snd_nxt when cwnd was last the limit: ACKs below it may raise cwnd */
	uint32_t cwnd_used;
	/* the scoreboard (tcp_sack.c) */
	/** flight: in the order of transmission; lost: of the next retransmission */
	struct tcp_seg_list flight, lost;
	uint32_t lost_bytes, sacked_bytes, sacked_segs;
	uint32_t fack;    /**< the highest octet that has arrived, plus one (RFC 8985 s5.3) */
	uint64_t xmit_ns; /**< of the last transmission; the next sent_ns is later */
	uint32_t srtt8_us, rttvar4_us; /**< SRTT times 8, RTTVAR times 4 (RFC 6298) */
	uint64_t rto_at_ns, reo_at_ns,
	        pto_at_ns; /**< t_xmit is set to the earliest (RFC 8985 s8) */
	/** when to try the interface's size again; WEFT_NEVER: not planned */
	uint64_t pmtu_raise_ns;
	const struct tcp_cc_ops *cc;
	bool in_recovery, partial_seen;
	bool after_rto; /**< after a timeout: slow start resends what is lost */
	bool cwr_due;   /**< the next new data segment carries CWR (RFC 3168 s6.1.2) */
	bool tlp_active, tlp_retrans; /**< a probe is in flight; it was a retransmission */
	bool tlp_sampled;             /**< an RTT sample was taken since the last probe */
	bool fin_lost;                /**< our FIN must be sent again */
	bool undo_valid;
	bool undo_ts_due;    /**< the echo of the next ACK that advances decides (RFC 3522 s3.2) */
	uint8_t sum_rescues; /**< times in sequence; see rescued_ns */
	bool own_sum;        /**< all checksums are ours, and nothing is cut by the port */
	uint32_t dupacks;
	uint32_t rtt_seq; /**< an ACK beyond this gives the next RTT sample */
	uint32_t max_snd_wnd;
	uint64_t rack_xmit_ns, min_rtt_at_ns;
	/** when queued octets were last acknowledged, or entered an empty queue */
	uint64_t progress_ns;
	uint64_t lap_ns; /**< only tcp_share_lap() assigns lap_seq and lap_ns */
	/** snd_end at lap_ns. When it is acknowledged, the next lap begins (tcp_share.c). */
	uint32_t lap_seq;
	uint32_t recover, dsack_end, tlp_end;
	uint16_t pmtu_claim_bytes; /**< MTU of the last such message; 0: none */
	uint16_t acked_max_bytes;  /**< longest segment that was acknowledged */
	/** the size was changed without an ICMP message: the next ACK tells whether it passes */
	bool pmtu_watch;
	uint8_t reo_mult, reo_persist;
	bool dsack_round, reordering_seen;
	bool sack_hinted;        /**< sack_hint or sack_at may be in use */
	struct tcp_timer t_xmit; /**< retransmission, SYN, zero window, reordering or loss probe */
	struct tcp_lone lone;    /**< how long the peer delays the ACK of a lone segment */
	struct tcp_timer t_life; /**< user timeout, keepalive, TIME-WAIT */
	struct tcp_cubic cubic;  /**< its first two members are of every segment */

	/* Receive: segments behind a gap, and what is reported of them. */
	uint32_t irs;
	uint32_t fin_seq_in; /**< sequence number of the peer's FIN, if fin_in */
	struct rte_mbuf *ooo_tail;
	/** the last piece that was inserted before others; NULL: none */
	struct rte_mbuf *ooo_at;
	uint32_t ooo_bytes; /**< sum of charge_bytes */
	uint32_t ooo_mbufs;
	uint32_t ooo_gap_seq; /**< rcv_nxt when the list became non-empty */
	TAILQ_ENTRY(weft_tcp_conn) ooo_link;
	uint64_t ooo_since_ns; /**< when the list became non-empty or lost its head */
	uint64_t ts_recent_ns;
	struct tcp_sack sack[TCP_SACK_MAX]; /**< to report, newest first (RFC 2018 s4) */
	struct tcp_sack dsack;              /**< octets received twice (RFC 2883), if dsack_due */

	/* Send. */
	uint32_t iss;
	TAILQ_ENTRY(weft_tcp_conn) lap_link; /**< in tcp_share.lap or .late while `borrows` */
	uint16_t mss_local; /**< limit of the interface, in our SYN; options not subtracted */
	uint16_t mss_peer;  /**< MSS option of the peer's SYN; options not subtracted */
	bool close_asked;   /**< weft_tcp_close() was called before ESTABLISHED */
	bool active;        /**< active open */
	bool peer_counted;  /**< counted against max_conns_per_peer */
	bool share_member;  /**< established: buffers are reserved for it */
	bool rtt_unknown;   /**< opened by a SYN cookie: the handshake gave no RTT */

	/* What the path carries (tcp_pmtu.c). Sizes are of IP packets. */
	/** the lowest and the highest octet quoted by packet-too-big messages that await proof */
	uint32_t pmtu_claim_seq, pmtu_claim_last;
	uint16_t pmtu_bytes; /**< path MTU in use */
	/** path MTU before the last raise, until the larger size is confirmed; 0: none */
	uint16_t pmtu_low_bytes;
	/** path MTU before timeouts lowered it; 0: they did not */
	uint16_t blackhole_from_bytes;
	uint8_t blackhole_again; /**< doublings of the time until the next raise */
	/* What arrived of the checksums that the port fills in (tcp_offload.c). */
	uint64_t rescued_ns; /**< the latest time that a checksum of ours has helped */
	uint8_t sum_arrived; /**< segments with the port's checksum that arrived since */

	/* The scoreboard (tcp_sack.c). */
	uint64_t fin_sent_ns;
	struct tcp_sack_hint sack_hint[TCP_SACK_HINTS];
	struct rte_mbuf *sack_at; /**< where a search that was cut short continues; NULL: none */
	uint32_t sack_at_seq, sack_at_end; /**< bounds of that segment */

	/* RACK-TLP (RFC 8985 s5.3). */
	uint64_t rack_rtt_ns, reo_wnd_ns;
	/** minimum of the current and the previous window; 0: unknown */
	uint64_t min_rtt_ns[2];
	struct tcp_sack dsack_told; /**< latest D-SACK from the peer */

	/* Congestion control (RFC 5681, 6582, 6937) and RTO (RFC 6298). */
	uint32_t cwnd_acked;
	struct tcp_cubic undo_cubic;
	uint32_t prr_delivered, prr_out, prr_flight;
	uint32_t undo_cwnd, undo_ssthresh;
	uint32_t undo_seq;     /**< snd_una when the window was reduced */
	uint32_t undo_retrans; /**< retransmissions since that no D-SACK has reported */
	uint32_t undo_ts;      /**< our timestamp of the first retransmission since */
	uint32_t ece_recover;  /**< ECE on an ACK up to here belongs to a reduction already made */
	uint32_t retries;      /**< timeouts in a row */
	/** as rtt_seq, for samples by timestamp, of octets sent twice */
	uint32_t ts_rtt_seq;
	uint8_t looks; /**< how often the end of the silent connection was put off */

	struct weft_tcp_listener *listener; /**< while half-open */
	TAILQ_ENTRY(weft_tcp_conn) wait_link;
	uint64_t keep_at_ns; /**< next keepalive check; WEFT_NEVER: off */
	uint64_t syn_sent_ns, syn_first_ns;
	uint32_t keep_idle_us, keep_intvl_us, keep_probes;
	struct tcp_rate challenges, strays;
	int soft_err; /**< -errno of ICMP errors during the handshake */
	uint64_t n_retrans, n_rtos;
	uint64_t n_ooo_segs, n_dup_bytes_in;
	uint64_t n_fast_retrans, n_tlp, n_spurious, n_sack_blocks, n_dupacks;
	/** in the free list, the TIME-WAIT list or the listener's half-open list */
	TAILQ_ENTRY(weft_tcp_conn) link;
} __rte_cache_aligned;

static_assert(offsetof(struct weft_tcp_conn, t_delack) + sizeof(struct tcp_timer) <= 5 * 64 &&
                      offsetof(struct weft_tcp_conn, cubic.last_ns) + sizeof(uint64_t) <= 11 * 64,
              "the cache lines of a segment");

TAILQ_HEAD(tcp_conn_list, weft_tcp_conn);

#endif /* TCP_CONN_H */
