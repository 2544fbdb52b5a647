/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TCP_PRIV_H
#define TCP_PRIV_H

/**
 * @file
 * The private declarations of lib/tcp: connection, TCP instance, segment records, and the functions
 * that its files call in each other.
 *
 * tcp_conn_new() takes a connection from the instance's pool and enters it in the table.
 * tcp_conn_free() tears it down. An up-call may end the connection at any moment. So an entry point
 * that may call up holds the connection (tcp_hold(), tcp_release()) and checks `dead` afterwards.
 * The memory returns to the pool when the last holder releases the connection.
 */

#include <assert.h>

#include <rte_debug.h>

#include "weft_answers.h"
#include "weft_netif.h"
#include "weft_siphash.h"
#include "weft_tcp.h"

#include "tcp_wire.h"

WEFT_LOG_DECLARE(tcp);

#define TCP_DEFAULT_MSS_V4 536  /* RFC 9293 s3.7.1 */
#define TCP_DEFAULT_MSS_V6 1220 /* RFC 9293 s3.7.1 */
#define TCP_DUPTHRESH      3    /* RFC 5681 s3.2 */
/** Headroom in front of a payload: fits every header, and aligns the payload to a cache line. */
#define TCP_HEADROOM 128
static_assert(TCP_HEADROOM >= WEFT_NETIF_HEADROOM + TCP_HDR_MAX_LEN, "headers must fit");
/** Entries of netif's transmit queue that data segments leave free for ACKs and RSTs. */
#define TCP_TX_SLACK 64
/** Segments a connection may queue beyond what the windows allow, so that an ACK finds data to
 * send. */
#define TCP_QUEUE_AHEAD 4
/** Connections that one remote address may have at least, unless max_conns is smaller. */
#define TCP_PEER_CONNS_MIN  8u
#define TCP_CHALLENGE_PER_S 10 /* RFC 5961 s7 */
/** Segments outside the window that are answered at once, per second. Later ones share one ACK. */
#define TCP_STRAY_PER_S   100
#define TCP_STRAY_LATE_NS (10 * WEFT_NS_PER_MS)
/** Segments acknowledged at once after the start, a pause or a loss: RFC 6928's initial window. */
#define TCP_QUICK_ACKS 10
/** How often the end of a silent connection is put off while the receive ring may hold its
 * answer. */
#define TCP_LOOKS_MAX 255
/** The most segments that one ACK adds to cwnd in slow start: weft sends one ACK per receive
 * burst. */
#define TCP_SLOW_START_SEGS WEFT_NETIF_BURST

static inline uint32_t
tcp_clamp(uint64_t v, uint32_t lo, uint32_t hi)
{
	return v < lo ? lo : v > hi ? hi : (uint32_t)v;
}

static inline uint32_t
tcp_left(uint32_t max, uint32_t used)
{
	return used < max ? max - used : 0;
}

/** A queued segment. The record lies in the private area of its first mbuf (weft_mbuf_priv.tx). */
struct tcp_seg {
	struct rte_mbuf *next;
	struct rte_mbuf *later, *prev; /**< in the list of its condition: flight or lost */
	uint64_t sent_ns; /**< time of the last transmission; unique in the connection */
	uint32_t seq;
	uint16_t len_bytes;
	uint16_t data_off; /**< start of the payload; netif changes the mbuf's own data_off */
	/** payload in the first mbuf; netif changes the mbuf's data_len */
	uint16_t head_len_bytes;
	uint16_t skip_bytes; /**< octets at the front that are acknowledged */
	uint16_t mbufs;      /**< the segment is the first so many mbufs of the chain */
	uint8_t xmits;       /**< number of transmissions, at most UINT8_MAX */
	uint8_t flags;       /**< TCP_SEG_* */
};

#define TCP_SEG_PUSH   0x01 /**< the user had no more data */
#define TCP_SEG_PROBED 0x10 /**< a window probe carried its first octet; xmits does not count it */
/* A sent segment has exactly one of these three. Only tcp_sack.c assigns them. */
#define TCP_SEG_SACKED 0x02 /**< the peer has received it (RFC 2018) */
#define TCP_SEG_LOST   0x04 /**< taken for lost; will be sent again */
#define TCP_SEG_FLIGHT 0x08 /**< in flight, as far as TCP knows */

static_assert(sizeof(struct tcp_seg) <= sizeof(((struct weft_mbuf_priv *)0)->tx), "tcp_seg");

/** Whether the segment left only once, so that an ACK belongs to that transmission. */
static inline bool
tcp_seg_once(const struct tcp_seg *s)
{
	return s->xmits == 1 && (s->flags & TCP_SEG_PROBED) == 0;
}

/** A received segment ahead of a gap. The record lies in the same private area. */
struct tcp_ooo {
	struct rte_mbuf *next, *prev;
	uint32_t seq;
	uint32_t len_bytes;
	uint32_t charge_bytes; /**< octets counted against max_ooo_bytes */
	uint32_t mbufs;        /**< mbufs counted against max_ooo_mbufs */
};
static_assert(sizeof(struct tcp_ooo) <= sizeof(((struct weft_mbuf_priv *)0)->tx), "tcp_ooo");

static inline struct tcp_seg *
tcp_seg(struct rte_mbuf *m)
{
	return (struct tcp_seg *)(void *)weft_mbuf_priv(m)->tx;
}

static inline struct tcp_ooo *
tcp_ooo(struct rte_mbuf *m)
{
	return (struct tcp_ooo *)(void *)weft_mbuf_priv(m)->tx;
}

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
/** List pieces that one out-of-order segment may walk, from each starting point. */
#define TCP_REASS_STEPS 64

/** RFC 9438 s4.1.2. Windows are in octets. */
struct tcp_cubic {
	uint64_t epoch_ns;          /**< t_epoch; 0: the next ACK begins a stage */
	uint64_t last_ns;           /**< time up to which t has advanced */
	uint64_t est_rem, cwnd_rem; /**< remainders of the last divisions */
	uint32_t w_max, cwnd_prior, w_est;
	uint32_t k;           /**< K, in units of 2^18 ns */
	bool from_slow_start; /**< s4.8: the next stage begins with K = 0 */
};

/** A congestion control algorithm. A slot is required unless its comment says "may be NULL". */
struct tcp_cc_ops {
	const char *name;
	/** Resets the algorithm's own state. */
	void (*init)(struct weft_tcp_conn *c);
	/** A congestion event. Returns the new ssthresh, at least 2 MSS. flight is FlightSize. */
	uint32_t (*ssthresh)(struct weft_tcp_conn *c, uint32_t flight, uint64_t now_ns);
	/** Congestion avoidance: raises cwnd for newly acknowledged octets. */
	void (*acked)(struct weft_tcp_conn *c, uint32_t acked, uint64_t now_ns);
	/** The event was a timeout. Called after ssthresh. May be NULL. */
	void (*timeout)(struct weft_tcp_conn *c);
	/** cwnd has not been the limit until now. May be NULL. */
	void (*unused)(struct weft_tcp_conn *c, uint64_t now_ns);
};
extern const struct tcp_cc_ops tcp_cubic_ops, tcp_newreno_ops;

/** What one ACK has reported. Valid while the ACK is processed. */
struct tcp_ack_state {
	uint64_t now_ns;
	uint64_t newest_ns; /**< latest transmission among the delivered segments; 0: none */
	uint64_t rtt_ns;    /**< RTT of that segment */
	uint32_t delivered; /**< octets acknowledged or SACKed for the first time */
	uint32_t ts_ecr;
	bool has_ts, has_sack, sacked_new, dsack;
	struct tcp_sack dsack_block;
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

struct weft_tcp_conn {
	/* The key in the connection table. */
	struct weft_tcp_conn *hash_next;
	uint64_t hash;
	struct weft_ip local, remote;
	uint16_t local_port, remote_port;
	uint8_t state; /**< enum weft_tcp_state; only tcp_set_state() assigns it */
	bool in_table;
	bool dead;     /**< torn down; the memory stays while hold > 0 */
	bool detached; /**< `closed` was called, or the user aborted */
	uint32_t hold; /**< entry points that are executing on this connection */

	/* Receive (RFC 9293 s3.3.1). */
	uint32_t rcv_nxt, rcv_wnd, irs;
	uint32_t fin_seq_in;        /**< sequence number of the peer's FIN, if fin_in */
	uint32_t rcv_unacked_bytes; /**< octets delivered since our last ACK */
	uint16_t rcv_mss;           /**< largest segment received: defines "full-sized" */
	uint8_t rcv_wscale;         /**< scale of the windows that we announce */
	bool fin_in;                /**< a FIN was received, perhaps ahead of missing data */
	uint8_t quick_acks;         /**< segments still to be acknowledged at once */
	/** in both SYNs; before the peer's SYN: we offer it. The next three likewise. */
	bool wscale_ok;
	bool ts_ok;   /**< RFC 7323 s3.2: every segment has a timestamp */
	bool sack_ok; /**< RFC 2018 s2 */
	bool ecn_ok;  /**< RFC 3168 s6.1.1 */
	struct rte_mbuf *ooo_head, *ooo_tail;
	/** the last piece that was inserted before others; NULL: none */
	struct rte_mbuf *ooo_at;
	uint32_t ooo_bytes; /**< sum of charge_bytes */
	uint32_t ooo_mbufs;
	uint32_t ooo_gap_seq; /**< rcv_nxt when the list became non-empty */
	TAILQ_ENTRY(weft_tcp_conn) ooo_link;
	uint64_t ooo_since_ns;             /**< when the list became non-empty or lost its head */
	uint32_t ts_offset;                /**< offset of our timestamp clock */
	uint32_t ts_recent, last_ack_sent; /**< RFC 7323 s4.3 */
	uint64_t ts_recent_ns;
	struct tcp_sack sack[TCP_SACK_MAX]; /**< to report, newest first (RFC 2018 s4) */
	struct tcp_sack dsack;              /**< octets received twice (RFC 2883), if dsack_due */
	uint8_t nsack;
	bool dsack_due;
	bool ece_due; /**< CE was received, and no CWR since (RFC 3168 s6.1.3) */

	/* Send (RFC 9293 s3.3.1). */
	uint32_t snd_una, snd_nxt, snd_max; /**< after a window probe snd_max is snd_nxt + 1 */
	uint32_t snd_end; /**< end of the queued octets; our FIN's sequence number */
	uint32_t snd_wnd, snd_wl1, snd_wl2, max_snd_wnd, iss;
	uint32_t snd_segs; /**< mbufs in the queue */
	/** snd_end at lap_ns. When it is acknowledged, the next lap begins (tcp_share.c). */
	uint32_t lap_seq;
	uint64_t lap_ns;                     /**< only tcp_share_lap() assigns lap_seq and lap_ns */
	TAILQ_ENTRY(weft_tcp_conn) lap_link; /**< in tcp_share.lap or .late while `borrows` */
	/** when queued octets were last acknowledged, or entered an empty queue */
	uint64_t progress_ns;
	uint8_t snd_wscale;
	uint16_t mss;       /**< effective, options subtracted; only tcp_mss_update() assigns it */
	uint16_t mss_local; /**< limit of the interface, in our SYN; options not subtracted */
	uint16_t mss_peer;  /**< MSS option of the peer's SYN; options not subtracted */
	bool fin_out;       /**< our FIN follows snd_end */
	bool starved;       /**< the user was told 0 and waits for `writable` */
	bool wants_mbuf;    /**< weft_tcp_alloc() found the pool empty */
	bool persist;       /**< the retransmission timer times window probes */
	bool close_asked;   /**< weft_tcp_close() was called before ESTABLISHED */
	bool active;        /**< active open */
	bool peer_counted;  /**< counted against max_conns_per_peer */
	bool share_member;  /**< established: buffers are reserved for it */
	bool borrows;       /**< queues more than is reserved for it */
	bool late;          /**< overdue: in tcp_share.late */
	bool rtt_unknown;   /**< opened by a SYN cookie: the handshake gave no RTT */
	struct rte_mbuf *sq_head, *sq_tail, *sq_nxt; /**< sq_nxt: segment at snd_nxt */

	/* What the path carries (tcp_pmtu.c). Sizes are of IP packets. */
	/** when to try the interface's size again; WEFT_NEVER: not planned */
	uint64_t pmtu_raise_ns;
	uint32_t pmtu_claim_seq;   /**< octet quoted by a packet-too-big that awaits proof */
	uint16_t pmtu_claim_bytes; /**< MTU of that message; 0: none */
	uint16_t pmtu_bytes;       /**< path MTU in use */
	/** path MTU before the last raise, until the larger size is confirmed; 0: none */
	uint16_t pmtu_low_bytes;
	/** path MTU before timeouts lowered it; 0: they did not */
	uint16_t blackhole_from_bytes;
	uint16_t acked_max_bytes; /**< longest segment that was acknowledged */
	uint8_t blackhole_again;  /**< doublings of the time until the next raise */
	/** the size was changed without an ICMP message: the next ACK tells whether it passes */
	bool pmtu_watch;
	/** what the port takes as one TSO packet; with no_tso: nothing */
	struct weft_netif_tso tso;
	/** the path is narrower than TCP_PMTU_FLOOR_*: DF stays clear */
	bool may_fragment;

	/* The scoreboard (tcp_sack.c). */
	/** flight: in the order of transmission; lost: of the next retransmission */
	struct tcp_seg_list flight, lost;
	uint32_t lost_bytes, sacked_bytes, sacked_segs;
	uint32_t fack;    /**< the highest octet that has arrived, plus one (RFC 8985 s5.3) */
	uint64_t xmit_ns; /**< of the last transmission; the next sent_ns is later */
	uint64_t fin_sent_ns;
	struct tcp_sack_hint sack_hint[TCP_SACK_HINTS];
	struct rte_mbuf *sack_at; /**< where a search that was cut short continues; NULL: none */
	uint32_t sack_at_seq, sack_at_end; /**< bounds of that segment */

	/* RACK-TLP (RFC 8985 s5.3). */
	uint64_t rack_xmit_ns, rack_rtt_ns, reo_wnd_ns;
	/** minimum of the current and the previous window; 0: unknown */
	uint64_t min_rtt_ns[2], min_rtt_at_ns;
	uint32_t dsack_end, tlp_end;
	struct tcp_sack dsack_told; /**< latest D-SACK from the peer */
	uint8_t reo_mult, reo_persist;
	bool dsack_round, reordering_seen;
	bool tlp_active, tlp_retrans; /**< a probe is in flight; it was a retransmission */
	bool tlp_sampled;             /**< an RTT sample was taken since the last probe */
	bool fin_lost;                /**< our FIN must be sent again */

	/* Congestion control (RFC 5681, 6582, 6937) and RTO (RFC 6298). */
	const struct tcp_cc_ops *cc;
	uint32_t cwnd, ssthresh, recover, cwnd_acked;
	/** snd_nxt when cwnd was last the limit: ACKs below it may raise cwnd */
	uint32_t cwnd_used;
	struct tcp_cubic cubic, undo_cubic;
	uint32_t prr_delivered, prr_out, prr_flight;
	uint32_t undo_cwnd, undo_ssthresh;
	uint32_t undo_seq;     /**< snd_una when the window was reduced */
	uint32_t undo_retrans; /**< retransmissions since that no D-SACK has reported */
	uint32_t undo_ts;      /**< our timestamp of the first retransmission since */
	bool undo_valid;
	bool undo_ts_due; /**< the echo of the next ACK that advances decides (RFC 3522 s3.2) */
	uint32_t dupacks;
	bool in_recovery, partial_seen;
	bool after_rto;       /**< after a timeout: slow start resends what is lost */
	bool cwr_due;         /**< the next new data segment carries CWR (RFC 3168 s6.1.2) */
	uint8_t backoff;      /**< doublings of rto_us by timeouts */
	uint32_t ece_recover; /**< ECE on an ACK up to here belongs to a reduction already made */
	uint32_t retries;     /**< timeouts in a row */
	uint32_t srtt8_us, rttvar4_us, rto_us; /**< SRTT times 8, RTTVAR times 4, RTO (RFC 6298) */
	uint32_t rtt_seq;                      /**< an ACK beyond this gives the next RTT sample */
	/** the same for samples by timestamp, of octets sent twice */
	uint32_t ts_rtt_seq;
	uint64_t last_send_ns, last_rx_ns, last_text_ns;
	uint8_t looks; /**< how often the end of the silent connection was put off */

	struct weft_tcp *t;
	struct weft_netif *nif;
	struct tcp_share *share; /**< buffers of nif's port */
	struct weft_neigh *neigh;
	const struct weft_tcp_conn_ops *ops;
	void *user;
	struct weft_tcp_listener *listener; /**< while half-open */
	struct weft_task task;
	uint8_t work;
	bool waiting; /**< for room; in weft_tcp.waiting */
	TAILQ_ENTRY(weft_tcp_conn) wait_link;
	struct tcp_timer t_rto; /**< retransmission, SYN, zero window, reordering or loss probe */
	uint64_t rto_at_ns, reo_at_ns, pto_at_ns; /**< t_rto is set to the earliest (RFC 8985 s8) */
	struct tcp_timer t_delack;
	struct tcp_timer t_life; /**< user timeout, keepalive, TIME-WAIT */
	uint64_t keep_at_ns;     /**< next keepalive check; WEFT_NEVER: off */
	uint64_t syn_sent_ns, syn_first_ns;
	uint32_t keep_idle_us, keep_intvl_us, keep_probes, keep_sent;
	struct tcp_rate challenges, strays;
	int soft_err; /**< -errno of ICMP errors during the handshake */
	uint64_t n_retrans, n_rtos;
	uint64_t n_segs_in, n_segs_out, n_bytes_in, n_bytes_out, n_ooo_segs, n_dup_bytes_in;
	uint64_t n_fast_retrans, n_tlp, n_spurious, n_sack_blocks, n_dupacks;
	/** in the free list, the TIME-WAIT list or the listener's half-open list */
	TAILQ_ENTRY(weft_tcp_conn) link;
} __rte_cache_aligned;

TAILQ_HEAD(tcp_conn_list, weft_tcp_conn);

struct weft_tcp_listener {
	TAILQ_ENTRY(weft_tcp_listener) link;
	struct weft_ip addr;
	uint16_t port;
	bool any_addr;
	unsigned int backlog, half_open;
	enum weft_tcp_cc cc;       /**< of the connections it accepts */
	struct tcp_conn_list half; /**< half-open connections, oldest first */
	weft_tcp_accept_fn accept;
	weft_tcp_room_fn room; /**< may be NULL */
	void *arg;
};

/** How the connections over one interface share the buffers of its port (tcp_share.c). */
struct tcp_share {
	struct weft_netif *nif;
	struct weft_netif_budgets *lent;
	uint32_t conns;             /**< all connections; 0: the entry is free */
	uint32_t members;           /**< established connections; each has `own` */
	uint32_t snd_max, ooo_max;  /**< limits of all connections together, in mbufs */
	uint32_t own;               /**< queued mbufs that each member may always have */
	uint32_t fixed;             /**< part of snd_max, reserved for `own` */
	uint32_t common, borrowers; /**< mbufs beyond `own`; connections with such mbufs */
	uint32_t ooo_holders;       /**< connections with out-of-order octets */
	struct tcp_conn_list ooo;   /**< those connections */
	/** borrowers that are not overdue, the oldest lap first */
	struct tcp_conn_list lap;
	struct tcp_conn_list late; /**< overdue borrowers, the oldest lap first */
	uint32_t nlate;
	uint64_t refused_ns; /**< when a connection was last refused buffers; 0: never */
	uint64_t crowded_ns; /**< when room for one more connection was last missing; 0: never */
	/** the most connections: max_conns, or as many as snd_max has buffers for */
	uint32_t most;
};
#define TCP_SHARES 8 /**< interfaces of one instance */

#define TCP_PMTU_SETS 64
#define TCP_PMTU_WAYS 4

/** A path MTU for later connections. A keyed hash chooses its set. */
struct tcp_pmtu {
	struct weft_ip dst;
	uint16_t mtu_bytes;
	uint64_t until_ns; /**< 0: free */
};

struct weft_tcp {
	struct weft_sched *sched;
	struct weft_tcp_attr attr;
	struct weft_tcp_stats stats;
	struct tcp_ack_state ack;
	uint64_t hash_key[2]; /**< of the connection table */
	uint64_t isn_key[2];  /* RFC 6528 s3 */
	uint64_t ts_key[2];   /**< of the offsets of timestamp clocks */
	struct weft_tcp_conn **buckets;
	uint32_t bucket_mask;
	uint8_t rcv_wscale; /**< scale that we offer */
	uint32_t rcv_wnd;   /**< a multiple of 1 << rcv_wscale */
	struct weft_tcp_conn *conns;
	struct tcp_conn_list free, time_wait;
	struct tcp_conn_list waiting; /**< connections that wait for room, the longest wait first */
	uint32_t nwaiting;
	struct weft_task waker;
	struct weft_timer retry; /**< runs the waker: other threads release buffers silently */
	bool released;           /**< buffers were released since the waker last ran */
	/** room of the port's queue when turns found too little; UINT32_MAX: they found enough */
	uint32_t vain_room;
	uint32_t snd_segs, ooo_mbufs; /**< sums of all connections */
	uint64_t ooo_steps;           /**< list pieces walked for out-of-order segments */
	struct tcp_share share[TCP_SHARES];
	struct weft_timer sweep; /**< checks the deadlines of held buffers */
	uint32_t sweep_at;       /**< number of the next connection to check */
	uint64_t sweep_steps;    /**< borrowers checked */
	uint32_t in_state[WEFT_TCP_NSTATES];
	TAILQ_HEAD(, weft_tcp_listener) listeners;
	uint64_t cookie_key[2];
	uint64_t cookie_until_ns; /**< ACKs of cookies may arrive until then */
	struct tcp_rate accepts, challenges;
	struct weft_answers resets; /**< limit of RSTs for segments of no connection */
	uint64_t busy_rx_ns;        /**< last burst so large that the ring may hold more */
	uint32_t challenge_max;     /**< limit of this second */
	bool peer_default;          /**< max_conns_per_peer was not set: half of `most` */
	/** Connections per peer; NULL: the limit is max_conns. */
	struct tcp_peer_entry *peers;
	uint32_t *peer_buckets, peer_free; /**< indices plus one; 0: none */
	struct tcp_pmtu pmtu[TCP_PMTU_SETS * TCP_PMTU_WAYS];
};

static inline void
tcp_count_dup(struct weft_tcp_conn *c, uint32_t bytes)
{
	c->t->stats.rx_dup_bytes += bytes;
	c->n_dup_bytes_in += bytes;
}

static inline void
tcp_count_out(struct weft_tcp_conn *c, uint32_t bytes)
{
	c->t->stats.bytes_out += bytes;
	c->n_bytes_out += bytes;
}

/** What a connection may do in a state. tcp_conn.c has the table. */
struct tcp_state_row {
	const char *name;
	uint16_t next;     /**< one bit for each state that may follow */
	bool synchronized; /**< RFC 9293 s3.5.1 */
	bool may_send;     /**< the user may queue data */
	bool may_rcv;      /**< the peer may send data */
};
extern const struct tcp_state_row tcp_states[WEFT_TCP_NSTATES];

/** A received segment between decoding and delivery. */
struct tcp_in {
	/** starts at the TCP header, later at the payload; NULL once handed on */
	struct rte_mbuf *m;
	struct tcp_hdr h;
	const struct weft_ip *src, *dst; /**< in m's private area: invalid once m is queued */
	uint64_t hash;                   /**< of addresses and ports */
	uint32_t len_bytes;              /**< payload */
	uint8_t ecn;                     /**< ECN field of the packet, enum weft_ecn */
	bool has_opts;                   /**< the header has options */
	struct tcp_opts opts;            /**< always valid */
};

/* tcp_conn.c */
/** Changes the state and the counts of states. Checks the transition by tcp_states. */
void tcp_set_state(struct weft_tcp_conn *c, enum weft_tcp_state s);
/** The connection with these addresses and ports, and their hash; NULL: none. */
struct weft_tcp_conn *tcp_lookup(struct weft_tcp *t, uint64_t hash, const struct weft_ip *local,
                                 uint16_t local_port, const struct weft_ip *remote,
                                 uint16_t remote_port);
uint64_t tcp_tuple_hash(const struct weft_tcp *t, const struct weft_ip *local, uint16_t local_port,
                        const struct weft_ip *remote, uint16_t remote_port);
/** Takes a connection from the pool into the table, state CLOSED. 0, -EMFILE, -ENOBUFS (too many
 * interfaces), or weft_netif_neigh_get()'s error. */
int tcp_conn_new(struct weft_tcp *t, struct weft_netif *nif, const struct weft_ip *local,
                 uint16_t local_port, const struct weft_ip *remote, uint16_t remote_port,
                 struct weft_tcp_conn **out);
/** Like weft_tcp_connect(), from a source port that is known to be free. */
int tcp_open(struct weft_tcp *t, struct weft_netif *nif, uint16_t src_port,
             const struct weft_ip *dst, uint16_t dst_port, const struct weft_tcp_conn_ops *ops,
             void *user, struct weft_tcp_conn **out);
/** Tears down without an up-call. The memory stays while the connection is held. */
void tcp_conn_free(struct weft_tcp_conn *c);
/** Tears down and reports err to the user. */
void tcp_conn_drop(struct weft_tcp_conn *c, int err);
/** Makes the user's last up-call. A connection in TIME-WAIT lives on without its user. */
void tcp_detach(struct weft_tcp_conn *c, int err);
/** Segment `in` has completed the handshake. Calls up. */
void tcp_established(struct weft_tcp_conn *c, const struct tcp_in *in, uint64_t now_ns);
/** Ends a tcp_hold(). The last one returns a dead connection to the pool. */
void tcp_release(struct weft_tcp_conn *c);
/** Adds `bits` to the work of the connection's task and queues the task. */
void tcp_work(struct weft_tcp_conn *c, uint8_t bits);
/** Like tcp_work() for a connection that needs room first: in the port's queue, in the pool or
 * within the instance's limits. Waiting connections take turns in the order of waiting. */
void tcp_wait(struct weft_tcp_conn *c, uint8_t bits);
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
}

/* tcp_ports.c */
enum tcp_port_kind {
	TCP_PORT_LISTENER,
	TCP_PORT_CONN, /**< TIME-WAIT included */
	TCP_PORT_TIME_WAIT,
};
/** Adds `by` to the use of a local port. All instances of the context see the counts. */
void tcp_port_count(struct weft_tcp *t, enum tcp_port_kind kind, uint16_t port, int by);
/** Returns a free source port whose replies arrive at nif, or -EADDRNOTAVAIL. */
int tcp_pick_port(struct weft_tcp *t, struct weft_netif *nif, const struct weft_ip *src,
                  const struct weft_ip *dst, uint16_t dst_port);

/* tcp_in.c */
/** Processes a segment of the connection. */
void tcp_rx_conn(struct weft_tcp_conn *c, struct tcp_in *in, uint64_t now_ns);

/* tcp_listen.c */
struct weft_tcp_listener *tcp_listener_find(struct weft_tcp *t, const struct weft_ip *addr,
                                            uint16_t port);
/** Enters c among the listener's half-open connections, and removes it. */
void tcp_half_open(struct weft_tcp_conn *c, struct weft_tcp_listener *l);
void tcp_not_half_open(struct weft_tcp_conn *c);
/** Processes a segment of no connection. iss_floor: NULL, or a sequence number that our ISS must
 * exceed (a reused TIME-WAIT). */
void tcp_rx_no_conn(struct weft_tcp *t, struct weft_netif *nif, struct tcp_in *in,
                    const uint32_t *iss_floor, uint64_t now_ns);

/* tcp_close.c */
/** Our FIN is acknowledged, the peer's FIN has not come: enters FIN-WAIT-2. */
void tcp_fin_wait_2(struct weft_tcp_conn *c);
/** Both directions are closed in order: reports `closed` and stays in TIME-WAIT for 2 MSL. */
void tcp_time_wait(struct weft_tcp_conn *c, uint64_t now_ns);
/** Handles a segment for a connection in TIME-WAIT. True: it was the SYN of a new incarnation; c is
 * freed and the SYN processed. */
bool tcp_time_wait_reuse(struct weft_tcp_conn *c, struct weft_netif *nif, struct tcp_in *in,
                         uint64_t now_ns);

/* tcp_cookie.c */
struct tcp_cookie {
	struct tcp_opts opts; /**< of the SYN; the MSS rounded down */
	bool ecn;
};
/** The time slot of now_ns. */
uint64_t tcp_cookie_slot(const struct weft_tcp *t, uint64_t now_ns);
/** Answers a SYN with a cookie and keeps no state. */
void tcp_cookie_send(struct weft_tcp *t, struct weft_netif *nif, const struct tcp_in *in,
                     uint64_t now_ns);
/** Whether a valid ACK of a cookie may still arrive. */
bool tcp_cookie_awaited(const struct weft_tcp *t, uint64_t now_ns);
/** Whether the segment acknowledges a cookie of ours. Fills k with what the cookie holds. */
bool tcp_cookie_check(const struct weft_tcp *t, const struct tcp_in *in, uint64_t now_ns,
                      struct tcp_cookie *k);

/* tcp_defend.c */
/** Whether one more connection may be accepted in this second. */
bool tcp_accept_rate_ok(struct weft_tcp *t, uint64_t now_ns);
void tcp_accept_count(struct weft_tcp *t, uint64_t now_ns);
/** Sends a challenge ACK, within the limits per second of the connection and of the instance. */
void tcp_challenge_ack(struct weft_tcp_conn *c, uint64_t now_ns);
int tcp_peers_create(struct weft_tcp *t);
void tcp_peers_destroy(struct weft_tcp *t);
/** The most octets that the table of peers takes for each of max_conns. */
size_t tcp_peer_bytes(void);
/** Answers data or a FIN outside the window: at once, or later when there are many. */
void tcp_stray_ack(struct weft_tcp_conn *c, uint64_t now_ns);
/** What max_conns_per_peer allows a peer. */
enum tcp_peer_room {
	TCP_PEER_ROOM, /**< one more connection */
	/** none, but some of its connections are half-open and their SYNs may be forged */
	TCP_PEER_HALF,
	TCP_PEER_FULL,
};
/** The room for connections over nif, whose buffers may admit fewer than max_conns. */
enum tcp_peer_room tcp_peer_room(struct weft_tcp *t, struct weft_netif *nif,
                                 const struct weft_ip *ip);
/** Counts c as half-open (n = 1), or no longer (n = -1). */
void tcp_peer_half(struct weft_tcp_conn *c, int n);
void tcp_peer_count(struct weft_tcp_conn *c);
void tcp_peer_uncount(struct weft_tcp_conn *c);
/** Answers a segment that no connection wants with a RST (RFC 9293 s3.10.7.1). */
void tcp_reset_reply(struct weft_tcp *t, struct weft_netif *nif, const struct tcp_in *in,
                     uint64_t now_ns);

/* tcp_hash.c */
uint32_t tcp_isn(const struct weft_tcp_conn *c, uint64_t now_ns);

/* tcp_reass.c */
/** Drops n octets at the front of a chain. The chain keeps at least one mbuf. */
struct rte_mbuf *tcp_trim_front(struct rte_mbuf *m, uint32_t n);
/** Drops n octets, fewer than there are, at the end of a chain. */
struct rte_mbuf *tcp_trim_tail(struct rte_mbuf *m, uint32_t n);
/** Queues m = [seq, seq + len), which lies beyond rcv_nxt. Trims overlaps. Owns m. */
void tcp_reass_insert(struct weft_tcp_conn *c, struct rte_mbuf *m, uint32_t seq, uint32_t len);
/** Takes the first queued piece if rcv_nxt has reached it, trimmed to new octets; else NULL. */
struct rte_mbuf *tcp_reass_pop(struct weft_tcp_conn *c, uint32_t *len);
/** Drops the queued octets from sequence number `end` on. */
void tcp_reass_cut(struct weft_tcp_conn *c, uint32_t end);
void tcp_reass_free(struct weft_tcp_conn *c);
/** Drops the farthest octets until at most `keep` mbufs are left (RFC 2018 s8). */
void tcp_reass_shed(struct weft_tcp_conn *c, uint32_t keep);

/* tcp_out.c */
void tcp_output(struct weft_tcp_conn *c, uint64_t now_ns);
/** The sequence number for a segment without octets: the highest that the peer accepts. */
uint32_t tcp_ctl_seq(const struct weft_tcp_conn *c);
void tcp_send_ack(struct weft_tcp_conn *c, uint64_t now_ns);
bool tcp_send_fin(struct weft_tcp_conn *c, uint64_t now_ns);
/** Sends the segment at the head of the queue again, whatever the windows are. */
void tcp_resend_head(struct weft_tcp_conn *c, uint64_t now_ns);
/** Probes a closed window with one octet, or with what the window takes. */
void tcp_window_probe(struct weft_tcp_conn *c, uint64_t now_ns);
/** cwnd, plus one segment for each of the first two duplicate ACKs (RFC 3042). */
uint32_t tcp_cong_wnd(const struct weft_tcp_conn *c);
/** Allocates an mbuf with TCP_HEADROOM. Counts a failure. */
struct rte_mbuf *tcp_alloc(struct weft_tcp *t, struct weft_netif *nif);
/** Gives netif a segment of c. Returns weft_netif_tx()'s result. */
int tcp_tx(struct weft_tcp_conn *c, struct rte_mbuf *m, struct weft_netif_tx_how how,
           uint64_t now_ns);

/* tcp_hdr.c */
/** Header octets of a segment with payload and without SACK. The effective MSS assumes these. */
static inline uint32_t
tcp_hdr_len(const struct weft_tcp_conn *c)
{
	return TCP_HDR_LEN + (c->ts_ok ? TCP_OPTS_TSTAMP_LEN : 0);
}
/** Header octets of the next ACK with that payload. tcp_fill_hdr() writes options to match. */
uint32_t tcp_hdr_len_for(const struct weft_tcp_conn *c, uint32_t payload_bytes);
/** Writes the header at p, of tcp_hdr_len() or tcp_hdr_len_for() octets. Never for a SYN. A header
 * with ACK also settles every ACK that is due. */
void tcp_fill_hdr(struct weft_tcp_conn *c, uint8_t *p, uint8_t flags, uint32_t seq,
                  uint32_t hdr_len, uint64_t now_ns);
/** Sends a segment without payload and without SYN. False: no mbuf, or no room. */
bool tcp_send_ctl(struct weft_tcp_conn *c, uint8_t flags, uint32_t seq, uint64_t now_ns);
/** Sends our SYN, or in SYN-RECEIVED our SYN-ACK. */
void tcp_send_syn(struct weft_tcp_conn *c, uint64_t now_ns);
/** The offset of a connection's timestamp clock, from its addresses and ports. */
uint32_t tcp_ts_offset(const struct weft_tcp *t, const struct weft_ip *local, uint16_t local_port,
                       const struct weft_ip *remote, uint16_t remote_port);
static inline uint32_t
tcp_ts_clock(uint64_t now_ns)
{
	/* RFC 7323 s5.4: a tick of at least 1 ms keeps a peer's 24-day rule true. */
	return (uint32_t)(now_ns / WEFT_NS_PER_MS);
}
static inline uint32_t
tcp_ts_now(const struct weft_tcp_conn *c, uint64_t now_ns)
{
	return tcp_ts_clock(now_ns) + c->ts_offset;
}
/** Sets what we offer. The connection's addresses and ports must be known. */
void tcp_offer_init(struct weft_tcp_conn *c);
/** Applies the options of the peer's SYN. c->rcv_nxt is behind the SYN. */
void tcp_apply_syn_opts(struct weft_tcp_conn *c, const struct tcp_opts *o, uint64_t now_ns);
/** Applies the ECN bits of the peer's SYN. */
void tcp_apply_syn_ecn(struct weft_tcp_conn *c, uint8_t flags);

/* tcp_ts.c */
enum tcp_ts_verdict {
	TCP_TS_GOOD,
	TCP_TS_MISSING, /**< drop */
	TCP_TS_OLD,     /**< not acceptable (PAWS) */
};
/** Judges a segment of a connection with timestamps (RFC 7323 s5.3 R1). */
enum tcp_ts_verdict tcp_ts_judge(struct weft_tcp_conn *c, const struct tcp_in *in, uint64_t now_ns);
/** The segment and its ACK are acceptable: stores its timestamp if it is the one to echo. */
void tcp_ts_record(struct weft_tcp_conn *c, const struct tcp_in *in, uint64_t now_ns);
/** The round-trip time by the echoed timestamp. False: the echo gives none. */
bool tcp_ts_rtt(const struct weft_tcp_conn *c, const struct tcp_in *in, uint64_t now_ns,
                uint32_t *rtt_us);
/** RTTM (RFC 7323 s4.1) when an ACK covers a segment sent twice, the last time at sent_ns. */
void tcp_ts_sample(struct weft_tcp_conn *c, const struct tcp_in *in, uint64_t sent_ns,
                   uint64_t now_ns);

/* tcp_sack_rx.c */
/** Notes that m has been queued ahead of a gap. */
void tcp_sack_note(struct weft_tcp_conn *c, struct rte_mbuf *m);
/** Drops blocks that rcv_nxt has passed. */
void tcp_sack_prune(struct weft_tcp_conn *c);
/** Drops blocks from `end` on: nothing of them is queued any more. */
void tcp_sack_cut(struct weft_tcp_conn *c, uint32_t end);
/** Notes that [left, right) came twice, for the next ACK. */
void tcp_dsack_note(struct weft_tcp_conn *c, uint32_t left, uint32_t right);

/* tcp_sq.c */
/** Frees what lies below snd_una; *sent_ns: when the last of it was sent. True: an RTT sample. */
bool tcp_sq_ack(struct weft_tcp_conn *c, uint64_t *sent_ns);
void tcp_sq_free(struct weft_tcp_conn *c);
uint32_t tcp_space(const struct weft_tcp_conn *c);
/** Calls `writable` if the user waits and there is space. */
void tcp_tell_writable(struct weft_tcp_conn *c);
/** Makes m's first `len` octets a segment of their own. False: no mbuf. */
bool tcp_sq_split(struct weft_tcp_conn *c, struct rte_mbuf *m, uint16_t len);
/** Transmits a queued segment once. False: no mbuf or no room, and nothing has changed. */
bool tcp_xmit(struct weft_tcp_conn *c, struct rte_mbuf *m, uint64_t now_ns);
/** How many queued segments from m on, none of them sent yet, may leave in one TSO packet: of equal
 * length but for the last, room_bytes together at most. 1: m leaves alone. */
unsigned int tcp_train(const struct weft_tcp_conn *c, const struct rte_mbuf *m,
                       uint32_t room_bytes);
/** First transmission of n segments, at least 2. Returns the last; NULL: nothing changed. */
struct rte_mbuf *tcp_xmit_train(struct weft_tcp_conn *c, struct rte_mbuf *m, unsigned int n,
                                uint64_t now_ns);
/** The first octet of m that is not acknowledged. */
uint8_t tcp_seg_first(const struct rte_mbuf *m);
/** Advances snd_nxt: m, the segment at snd_nxt, has been sent. */
void tcp_sent(struct weft_tcp_conn *c, struct rte_mbuf *m);

/* tcp_share.c */
void tcp_share_init(struct weft_tcp *t);
/** The share of an interface. NULL: too many interfaces have connections. */
struct tcp_share *tcp_share_of(struct weft_tcp *t, struct weft_netif *nif);
/** Whether buffers can be reserved for one more connection over nif. */
bool tcp_share_room(struct weft_tcp *t, struct weft_netif *nif);
/** A connection was wanted and had no buffers: the next sweep ends overdue borrowers. */
void tcp_share_crowded(struct weft_tcp *t, struct weft_netif *nif);
/** Like tcp_share_room(); may end a connection of the listener's user. For an address that has
 * completed a handshake. */
bool tcp_make_share_room(struct weft_tcp *t, struct weft_netif *nif,
                         const struct weft_tcp_listener *l, const struct weft_ip *ip);
/** Reserves buffers for a connection that is established. False: none are left. */
bool tcp_share_join(struct weft_tcp_conn *c);
/** Ends the reservation: the connection queues nothing any more. */
void tcp_share_leave(struct weft_tcp_conn *c);
/** Segments that the connection may still queue. 0 only while it has segments queued: their ACK
 * makes room, so the connection need not wait for others. */
uint32_t tcp_segs_room(const struct weft_tcp_conn *c);
/** Notes that tcp_segs_room() was 0 for a connection with data to queue. */
void tcp_share_refused(struct weft_tcp_conn *c);
/** Begins the next lap: all that was queued at the last one's start is acknowledged, or the queue
 * was empty. */
void tcp_share_lap(struct weft_tcp_conn *c, uint64_t now_ns);
/** Charges n mbufs of the send queue, whatever the room. */
void tcp_share_add(struct weft_tcp_conn *c, uint32_t n);
void tcp_share_sub(struct weft_tcp_conn *c, uint32_t n);
/** Whether a segment ahead of a gap would be dropped for lack of buffers. */
bool tcp_share_ooo_full(const struct weft_tcp_conn *c);
/** Makes room for n mbufs ahead of a gap, of which the connection frees `freed`. Other connections
 * that have more may lose octets. */
bool tcp_share_ooo_room(struct weft_tcp_conn *c, uint32_t n, uint32_t freed);
void tcp_share_ooo_add(struct weft_tcp_conn *c, uint32_t n);
void tcp_share_ooo_sub(struct weft_tcp_conn *c, uint32_t n);

static inline bool
tcp_fin_sent(const struct weft_tcp_conn *c)
{
	return c->fin_out && weft_seq_lt(c->snd_end, c->snd_max);
}

static inline bool
tcp_fin_acked(const struct weft_tcp_conn *c)
{
	return c->fin_out && weft_seq_lt(c->snd_end, c->snd_una);
}

/* tcp_pmtu.c */
/** Computes the effective MSS from path, peer and options. Call on every change of these. */
void tcp_mss_update(struct weft_tcp_conn *c);
void tcp_pmtu_init(struct weft_tcp_conn *c);
/** Processes an ICMP packet-too-big about a segment of c. */
void tcp_pmtu_too_big(struct weft_tcp_conn *c, const struct weft_icmp_error *e, uint64_t now_ns);
/** s is sent again while a packet-too-big awaits proof. */
void tcp_pmtu_lost(struct weft_tcp_conn *c, const struct tcp_seg *s, uint64_t now_ns);
/** The retransmission timer has fired; `retries` counts it. */
void tcp_pmtu_timeout(struct weft_tcp_conn *c, uint64_t now_ns);
/** Segments were acknowledged while pmtu_watch is set or a packet-too-big awaits proof. */
void tcp_pmtu_progress(struct weft_tcp_conn *c);
/** pmtu_raise_ns is reached. */
void tcp_pmtu_raise(struct weft_tcp_conn *c, uint64_t now_ns);
/** Follows the interface's MTU. True: it is less than the size in use, and the MSS followed. */
bool tcp_pmtu_clamp(struct weft_tcp_conn *c);

/* tcp_cc.c */
void tcp_cc_init(struct weft_tcp_conn *c, bool syn_lost);
/** Sending has stopped: notes whether cwnd was the reason, or nearly. */
void tcp_cc_used(struct weft_tcp_conn *c);
/** Grows cwnd for octets acknowledged outside recovery. */
void tcp_cc_grow(struct weft_tcp_conn *c, uint32_t acked, uint64_t now_ns);
/** A congestion event: sets ssthresh and saves the state for an undo. The caller sets cwnd. */
void tcp_cc_reduce(struct weft_tcp_conn *c, uint64_t now_ns);
void tcp_cc_timeout(struct weft_tcp_conn *c, uint64_t now_ns);
/** Takes the last reduction back: it was spurious. */
void tcp_cc_undo(struct weft_tcp_conn *c);
/** An ACK with ECE on a connection with ECN: reduces once per window; CWR follows. */
void tcp_cc_ece(struct weft_tcp_conn *c, uint64_t now_ns);
/** Before data is sent after a pause (RFC 5681 s4.1). */
void tcp_cc_idle(struct weft_tcp_conn *c, uint64_t now_ns);

/* tcp_cubic.c: the curve, for its test */
uint32_t tcp_cubic_k(uint32_t deficit, uint16_t mss);
uint32_t tcp_cubic_w(const struct tcp_cubic *q, uint64_t t_ns, uint16_t mss);

/* tcp_sack.c */
/** m was transmitted. Call before its xmits is incremented. */
void tcp_seg_sent(struct weft_tcp_conn *c, struct rte_mbuf *m, uint64_t now_ns);
/** m's first `got` octets are acknowledged. Call before m is shortened or freed. */
void tcp_seg_acked(struct weft_tcp_conn *c, struct rte_mbuf *m, uint32_t got);
/** m's end is now `rest`, which already has m's flags. */
void tcp_seg_split(struct weft_tcp_conn *c, struct rte_mbuf *m, struct rte_mbuf *rest);
void tcp_seg_lost(struct weft_tcp_conn *c, struct rte_mbuf *m);
/** snd_una has advanced. Call before segments are freed. */
void tcp_sack_advance(struct weft_tcp_conn *c);
/** Processes an ACK's blocks after its cumulative part. `data`: the segment has octets, too. */
void tcp_sack_in(struct weft_tcp_conn *c, const struct tcp_opts *o, bool data);
/** After a timeout: clears all marks; what was sent long enough ago is lost. */
void tcp_sack_forget(struct weft_tcp_conn *c, uint64_t now_ns);
/** Puts all lost segments back in flight. */
void tcp_sack_unlose(struct weft_tcp_conn *c);

/** Octets in flight (RFC 6675's pipe, with RFC 8985's idea of what is lost). */
static inline uint32_t
tcp_pipe(const struct weft_tcp_conn *c)
{
	return c->snd_max - c->snd_una - c->sacked_bytes - c->lost_bytes;
}

/* tcp_rack.c */
void tcp_rack_min_rtt(struct weft_tcp_conn *c, uint64_t rtt_ns, uint64_t now_ns);
/** RACK.min_RTT; 0: unknown. */
uint64_t tcp_rack_min(const struct weft_tcp_conn *c);
void tcp_rack_update(struct weft_tcp_conn *c);
void tcp_rack_dsack(struct weft_tcp_conn *c, bool dsack, bool recovered);
/** Marks lost segments and sets reo_at_ns for the next. True: some are newly lost. */
bool tcp_rack_detect(struct weft_tcp_conn *c, uint64_t now_ns);
void tcp_rack_reo_fire(struct weft_tcp_conn *c, uint64_t now_ns);
void tcp_tlp_reset(struct weft_tcp_conn *c);
/** When to send a loss probe; WEFT_NEVER: not now. */
uint64_t tcp_tlp_at(const struct weft_tcp_conn *c, uint64_t now_ns);
void tcp_tlp_fire(struct weft_tcp_conn *c, uint64_t now_ns);
void tcp_tlp_ack(struct weft_tcp_conn *c, uint32_t ack, bool dup, uint64_t now_ns);

/* tcp_recovery.c */
/** Processes an ACK after its cumulative part. */
void tcp_recovery_ack(struct weft_tcp_conn *c, const struct tcp_in *in, uint32_t acked, bool dup,
                      uint64_t now_ns);
/** The reordering timer has found losses. */
void tcp_recovery_lost(struct weft_tcp_conn *c, uint64_t now_ns);
void tcp_recovery_rto(struct weft_tcp_conn *c, uint64_t now_ns);
/** Sends what is lost, as far as cwnd allows. False: some is left, and new data must wait. */
bool tcp_retransmit(struct weft_tcp_conn *c, uint64_t now_ns);

/* tcp_timer.c */
void tcp_rtt_init(struct weft_tcp_conn *c);
void tcp_rtt_sample(struct weft_tcp_conn *c, uint32_t rtt_us);
uint64_t tcp_rto_ns(const struct weft_tcp_conn *c);
void tcp_timers_init(struct weft_tcp_conn *c);
void tcp_timers_stop(struct weft_tcp_conn *c);
void tcp_timer_set(struct weft_tcp_conn *c, struct tcp_timer *t, uint64_t at_ns);
/** Restarts the RTO and the loss probe from now, or stops them if nothing is outstanding. */
void tcp_rto_restart(struct weft_tcp_conn *c, uint64_t now_ns);
/** Sets the timer to the earliest of its deadlines. */
void tcp_rto_arm(struct weft_tcp_conn *c);
/** New data was sent: restarts the loss probe. */
void tcp_pto_restart(struct weft_tcp_conn *c, uint64_t now_ns);
void tcp_rto_stop(struct weft_tcp_conn *c);
/** Octets or our FIN enter an empty queue: starts the user timeout. */
void tcp_progress_begin(struct weft_tcp_conn *c, uint64_t now_ns);
/** Sets the life timer to the next of its deadlines. */
void tcp_life_restart(struct weft_tcp_conn *c);
void tcp_give_up(struct weft_tcp_conn *c, int err, uint64_t now_ns);
void tcp_keepalive_restart(struct weft_tcp_conn *c, uint64_t now_ns);

#endif /* TCP_PRIV_H */
