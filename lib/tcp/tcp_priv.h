/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TCP_PRIV_H
#define TCP_PRIV_H

/**
 * @file
 * The inside of lib/tcp: connection, machine, segment records and the calls between its files.
 *
 * Life of a connection: taken from the machine's pool, entered in the table, and given back by
 * tcp_conn_free(). Up-calls may end it at any moment, so every entry point that may call up
 * holds it (tcp_hold/tcp_release) and looks at `dead` afterwards; the memory goes back to the
 * pool when the last holder lets go.
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
/** Reserved in front of a payload: every header below, and the payload on a cache line. */
#define TCP_HEADROOM 128
static_assert(TCP_HEADROOM >= WEFT_NETIF_HEADROOM + TCP_HDR_MAX_LEN, "headers must fit");
/** Entries of netif's transmit queue that data leaves to ACKs and resets. */
#define TCP_TX_SLACK 64
/** Segments a connection may queue beyond what the windows let out, so that an ACK finds work. */
#define TCP_QUEUE_AHEAD 4
/** What one remote address may have at least, unless max_conns is less. */
#define TCP_PEER_CONNS_MIN  8u
#define TCP_CHALLENGE_PER_S 10 /* RFC 5961 s7 */
/** Segments outside the window answered at once; those beyond share an answer after a while. */
#define TCP_STRAY_PER_S   100
#define TCP_STRAY_LATE_NS (10 * WEFT_NS_PER_MS)
/** Segments acknowledged at once when a sender begins, or begins anew: RFC 6928's initial window.
 */
#define TCP_QUICK_ACKS 10
/** How often a verdict of silence is put off while what was received is still coming in. */
#define TCP_LOOKS_MAX 255
/** What one ACK may add to cwnd in slow start: an ACK for a receive burst is one for each segment.
 */
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

/** A queued segment; lies in the private area of its mbuf (weft_mbuf_priv.tx). */
struct tcp_seg {
	struct rte_mbuf *next;
	struct rte_mbuf *later, *prev; /**< on the connection's list of its condition */
	uint64_t sent_ns;              /**< last transmission, unlike any other of the connection */
	uint32_t seq;
	uint16_t len_bytes;
	uint16_t data_off;       /**< where the payload starts: netif moves the mbuf's own */
	uint16_t head_len_bytes; /**< payload in the first mbuf, likewise */
	uint16_t skip_bytes;     /**< at the front, acknowledged already */
	uint16_t mbufs;          /**< the first so many of the chain are this segment's */
	uint8_t xmits;           /**< transmissions, saturating */
	uint8_t flags;           /**< TCP_SEG_* */
};

#define TCP_SEG_PUSH   0x01 /**< the user had nothing more to say */
#define TCP_SEG_PROBED 0x10 /**< its first octet went out as a window probe, apart from xmits */
/* Once sent, one of these three; tcp_sack.c assigns them alone. */
#define TCP_SEG_SACKED 0x02 /**< the peer has it (RFC 2018) */
#define TCP_SEG_LOST   0x04 /**< taken for lost; to be sent again */
#define TCP_SEG_FLIGHT 0x08 /**< under way, as far as we know */

static_assert(sizeof(struct tcp_seg) <= sizeof(((struct weft_mbuf_priv *)0)->tx), "tcp_seg");

/** Whether an ACK of a segment can only be of its one transmission. */
static inline bool
tcp_seg_once(const struct tcp_seg *s)
{
	return s->xmits == 1 && (s->flags & TCP_SEG_PROBED) == 0;
}

/** A received segment waiting for a gap to fill; same place. */
struct tcp_ooo {
	struct rte_mbuf *next, *prev;
	uint32_t seq;
	uint32_t len_bytes;
	uint32_t charge_bytes; /**< what it counts against max_ooo_bytes */
	uint32_t mbufs;        /**< likewise against max_ooo_mbufs */
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

/**
 * A timer whose deadline moves often: moving it later only writes at_ns, and the wheel's
 * timer goes on to the new deadline when the old one fires.
 */
struct tcp_timer {
	struct weft_timer timer;
	uint64_t at_ns; /**< WEFT_NEVER: off */
};

/** Segments in one condition. */
struct tcp_seg_list {
	struct rte_mbuf *head, *tail;
};

/** All whole segments within [left, end) are marked, last is the last of them. */
struct tcp_sack_hint {
	struct rte_mbuf *last; /**< NULL: unused */
	uint32_t left, end;
};
/** One for each block of the last ACK and one for the highest mark. */
#define TCP_SACK_HINTS (TCP_SACK_MAX + 1)
/** Pieces that one out-of-order segment may have walked, from each place that a walk begins at. */
#define TCP_REASS_STEPS 64

/** RFC 9438 s4.1.2, windows in octets. */
struct tcp_cubic {
	uint64_t epoch_ns;          /**< t_epoch; 0: the next ACK begins a stage */
	uint64_t last_ns;           /**< t ran until then */
	uint64_t est_rem, cwnd_rem; /**< what the last divisions left over */
	uint32_t w_max, cwnd_prior, w_est;
	uint32_t k;           /**< in 2^18 ns */
	bool from_slow_start; /**< s4.8: the stage begins at its own plateau */
};

/** A congestion control algorithm; the slots without "may be NULL" are required. */
struct tcp_cc_ops {
	const char *name;
	/** Forget all of its own state. */
	void (*init)(struct weft_tcp_conn *c);
	/** A congestion event: the new ssthresh, at least 2 MSS; flight is FlightSize. */
	uint32_t (*ssthresh)(struct weft_tcp_conn *c, uint32_t flight, uint64_t now_ns);
	/** Congestion avoidance: raise cwnd for newly acknowledged octets. */
	void (*acked)(struct weft_tcp_conn *c, uint32_t acked, uint64_t now_ns);
	/** The event was a timeout; follows ssthresh. May be NULL. */
	void (*timeout)(struct weft_tcp_conn *c);
	/** The window was not what limited us until now. May be NULL. */
	void (*unused)(struct weft_tcp_conn *c, uint64_t now_ns);
};
extern const struct tcp_cc_ops tcp_cubic_ops, tcp_newreno_ops;

/** What one ACK has told; valid while it is processed. */
struct tcp_ack_state {
	uint64_t now_ns;
	uint64_t newest_ns; /**< the latest transmission among what it delivered; 0: none */
	uint64_t rtt_ns;    /**< of that one */
	uint32_t delivered; /**< octets acknowledged or SACKed for the first time */
	uint32_t ts_ecr;
	bool has_ts, has_sack, sacked_new, dsack;
	struct tcp_sack dsack_block;
};

/** Events of one second. */
struct tcp_rate {
	uint64_t since_ns;
	uint32_t n;
};

/** What a connection's task has to do. */
#define TCP_WORK_ACK    0x01 /**< acknowledge now */
#define TCP_WORK_OUTPUT 0x02 /**< send what the windows allow */
#define TCP_WORK_ABORT  0x04 /**< closed before it was open: report and forget */
#define TCP_WORK_MSS    0x08 /**< tell the user its new MSS */

struct weft_tcp_conn {
	/* Found by the table. */
	struct weft_tcp_conn *hash_next;
	uint64_t hash;
	struct weft_ip local, remote;
	uint16_t local_port, remote_port;
	uint8_t state; /**< enum weft_tcp_state; assigned by tcp_set_state() alone */
	bool in_table;
	bool dead;     /**< torn down; memory is kept while hold > 0 */
	bool detached; /**< `closed` was called: the user no longer knows us */
	uint32_t hold; /**< entry points that are inside this connection */

	/* Receive (RFC 9293 s3.3.1). */
	uint32_t rcv_nxt, rcv_wnd, irs;
	uint32_t fin_seq_in;        /**< of the peer's FIN when fin_in */
	uint32_t rcv_unacked_bytes; /**< delivered since our last ACK */
	uint16_t rcv_mss;           /**< the largest segment seen: what "full-sized" means */
	uint8_t rcv_wscale;         /**< applied to what we send */
	bool fin_in;                /**< FIN seen, perhaps ahead of data */
	uint8_t quick_acks;         /**< segments still to be acknowledged at once */
	/** both SYNs had it, or the one seen so far, as the next ones */
	bool wscale_ok;
	bool ts_ok;   /**< RFC 7323 s3.2: every segment has a timestamp */
	bool sack_ok; /**< RFC 2018 s2 */
	bool ecn_ok;  /**< RFC 3168 s6.1.1 */
	struct rte_mbuf *ooo_head, *ooo_tail;
	/** in that list, the last that was entered before others; NULL: none */
	struct rte_mbuf *ooo_at;
	uint32_t ooo_bytes; /**< charged */
	uint32_t ooo_mbufs;
	uint32_t ooo_gap_seq; /**< rcv_nxt when the list began */
	TAILQ_ENTRY(weft_tcp_conn) ooo_link;
	uint64_t ooo_since_ns;             /**< when it began, or its head was delivered last */
	uint32_t ts_offset;                /**< of our timestamp clock */
	uint32_t ts_recent, last_ack_sent; /**< RFC 7323 s4.3 */
	uint64_t ts_recent_ns;
	struct tcp_sack sack[TCP_SACK_MAX]; /**< to report, the newest first (RFC 2018 s4) */
	struct tcp_sack dsack;              /**< what came twice (RFC 2883) when dsack_due */
	uint8_t nsack;
	bool dsack_due;
	bool ece_due; /**< CE was seen, and no CWR since (RFC 3168 s6.1.3) */

	/* Send. */
	uint32_t snd_una, snd_nxt, snd_max; /**< snd_max is one ahead after a window probe */
	uint32_t snd_end; /**< behind the last queued octet; a FIN's sequence number */
	uint32_t snd_wnd, snd_wl1, snd_wl2, max_snd_wnd, iss;
	uint32_t snd_segs; /**< mbufs in the queue */
	/** snd_end at lap_ns; once it is acknowledged, the next lap begins */
	uint32_t lap_seq;
	uint64_t lap_ns;                     /**< tcp_share_lap() alone assigns the two */
	TAILQ_ENTRY(weft_tcp_conn) lap_link; /**< in tcp_share.lap, or .late, while `borrows` */
	/** last time that queued octets were acknowledged, or came into an empty queue */
	uint64_t progress_ns;
	uint8_t snd_wscale;
	uint16_t mss;       /**< effective, options taken off; tcp_mss_update() alone assigns it */
	uint16_t mss_local; /**< what the interface allows; what our SYN says */
	uint16_t mss_peer;  /**< what the peer's SYN said; both without options taken off */
	bool fin_out;       /**< FIN is to follow snd_end */
	bool starved;       /**< the user was told 0 and waits for `writable` */
	bool wants_mbuf;    /**< the pool was empty when the user asked */
	bool persist;       /**< the retransmission timer times the zero window */
	bool close_asked;   /**< weft_tcp_close() before ESTABLISHED */
	bool active;        /**< opened by us */
	bool peer_counted;  /**< against max_conns_per_peer */
	bool share_member;  /**< established: buffers are set aside for it */
	bool borrows;       /**< has queued more than what is set aside for it */
	bool late;          /**< and is in tcp_share.late */
	bool rtt_unknown;   /**< of the handshake: it was a cookie's */
	struct rte_mbuf *sq_head, *sq_tail, *sq_nxt; /**< queue; sq_nxt is the segment at snd_nxt */

	/* What the path carries (tcp_pmtu.c); sizes are of IP packets. */
	/** when to try the interface's size; WEFT_NEVER: it is in use */
	uint64_t pmtu_raise_ns;
	uint32_t pmtu_claim_seq;   /**< the quoted octet of a claim that waits for proof */
	uint16_t pmtu_claim_bytes; /**< 0: none */
	uint16_t pmtu_bytes;       /**< believed */
	/** what was in use before the last raise, until that holds */
	uint16_t pmtu_low_bytes;
	/** what was in use before timeouts lowered it; 0: they did not */
	uint16_t blackhole_from_bytes;
	uint16_t acked_max_bytes; /**< the longest segment that has arrived */
	uint8_t blackhole_again;  /**< doublings of the time to the next try */
	/** lowered or raised without word from the path: look at the next ACK */
	bool pmtu_watch;
	/** what the port takes of several segments in one; no_tso: nothing */
	struct weft_netif_tso tso;
	/** the path is narrower than any MSS may be: DF stays clear */
	bool may_fragment;

	/* The scoreboard (tcp_sack.c). */
	struct tcp_seg_list flight, lost; /**< in the order of transmission */
	uint32_t lost_bytes, sacked_bytes, sacked_segs;
	uint32_t fack;    /**< the highest octet known to have arrived, plus one (RFC 8985 s5.3) */
	uint64_t xmit_ns; /**< of the last transmission; sent_ns of the next is beyond */
	uint64_t fin_sent_ns;
	struct tcp_sack_hint sack_hint[TCP_SACK_HINTS];
	struct rte_mbuf *sack_at; /**< a search that was cut short goes on here; NULL: none */
	uint32_t sack_at_seq, sack_at_end; /**< of that segment */

	/* RACK-TLP (RFC 8985 s5.3). */
	uint64_t rack_xmit_ns, rack_rtt_ns, reo_wnd_ns;
	uint64_t min_rtt_ns[2], min_rtt_at_ns; /**< of this window and the last; 0: unknown */
	uint32_t dsack_end, tlp_end;
	struct tcp_sack dsack_told; /**< the latest that the peer has told */
	uint8_t reo_mult, reo_persist;
	bool dsack_round, reordering_seen;
	bool tlp_active, tlp_retrans; /**< a probe is out; it was a retransmission */
	bool tlp_sampled;             /**< an RTT sample was taken since the last probe */
	bool fin_lost;                /**< our FIN is to be sent again */

	/* Congestion control (RFC 5681, 6582, 6937) and RTO (RFC 6298). */
	const struct tcp_cc_ops *cc;
	uint32_t cwnd, ssthresh, recover, cwnd_acked;
	/** snd_nxt when cwnd was last the limit: it may grow by what is below */
	uint32_t cwnd_used;
	struct tcp_cubic cubic, undo_cubic;
	uint32_t prr_delivered, prr_out, prr_flight;
	uint32_t undo_cwnd, undo_ssthresh;
	uint32_t undo_seq;     /**< snd_una when the window was reduced */
	uint32_t undo_retrans; /**< retransmissions since that nobody has called needless */
	uint32_t undo_ts;      /**< timestamp of the first retransmission since */
	bool undo_valid;
	bool undo_ts_due; /**< the next ACK that advances tells by its echo (RFC 3522 s3.2) */
	uint32_t dupacks;
	bool in_recovery, partial_seen;
	bool after_rto;       /**< slow start is resending what a timeout declared lost */
	bool cwr_due;         /**< the next new data segment carries CWR (RFC 3168 s6.1.2) */
	uint8_t backoff;      /**< doublings of rto_us */
	uint32_t ece_recover; /**< ECE on an ACK up to here belongs to a reduction already made */
	uint32_t retries;     /**< timeouts in a row */
	uint32_t srtt8_us, rttvar4_us, rto_us; /**< scaled as in RFC 6298's arithmetic by 8 and 4 */
	uint32_t rtt_seq;                      /**< an ACK beyond this gives the next sample */
	/** likewise by timestamp, for what was sent twice */
	uint32_t ts_rtt_seq;
	uint64_t last_send_ns, last_rx_ns, last_text_ns;
	uint8_t looks; /**< verdicts of silence put off */

	struct weft_tcp *t;
	struct weft_netif *nif;
	struct tcp_share *share; /**< of nif */
	struct weft_neigh *neigh;
	const struct weft_tcp_conn_ops *ops;
	void *user;
	struct weft_tcp_listener *listener; /**< while half open */
	struct weft_task task;
	uint8_t work;
	bool waiting; /**< for room, in the machine's list */
	TAILQ_ENTRY(weft_tcp_conn) wait_link;
	struct tcp_timer t_rto; /**< retransmission, SYN, zero window, reordering, loss probe */
	uint64_t rto_at_ns, reo_at_ns, pto_at_ns; /**< t_rto is set to the earliest (RFC 8985 s8) */
	struct tcp_timer t_delack;
	struct tcp_timer t_life; /**< user timeout, keepalive, TIME-WAIT */
	uint64_t keep_at_ns;     /**< next look at keepalive; WEFT_NEVER: off */
	uint64_t syn_sent_ns, syn_first_ns;
	uint32_t keep_idle_us, keep_intvl_us, keep_probes, keep_sent;
	struct tcp_rate challenges, strays;
	int soft_err; /**< what ICMP said while the handshake was going on */
	uint64_t n_retrans, n_rtos;
	uint64_t n_segs_in, n_segs_out, n_bytes_in, n_bytes_out, n_ooo_segs, n_dup_bytes_in;
	uint64_t n_fast_retrans, n_tlp, n_spurious, n_sack_blocks, n_dupacks;
	/** free list, TIME-WAIT list or listener's half-open list */
	TAILQ_ENTRY(weft_tcp_conn) link;
} __rte_cache_aligned;

TAILQ_HEAD(tcp_conn_list, weft_tcp_conn);

struct weft_tcp_listener {
	TAILQ_ENTRY(weft_tcp_listener) link;
	struct weft_ip addr;
	uint16_t port;
	bool any_addr;
	unsigned int backlog, half_open;
	enum weft_tcp_cc cc;       /**< of what it accepts */
	struct tcp_conn_list half; /**< half-open connections, oldest first */
	weft_tcp_accept_fn accept;
	weft_tcp_room_fn room; /**< may be NULL */
	void *arg;
};

/** What connections over one interface have of its port's buffers (tcp_share.c). */
struct tcp_share {
	struct weft_netif *nif;
	struct weft_netif_budgets *lent;
	uint32_t conns;             /**< all; 0: free */
	uint32_t members;           /**< established: each has `own` */
	uint32_t snd_max, ooo_max;  /**< mbufs of all connections */
	uint32_t own;               /**< queued mbufs that each may always have */
	uint32_t fixed;             /**< of snd_max, set aside for that */
	uint32_t common, borrowers; /**< mbufs beyond `own`; connections that have any */
	uint32_t ooo_holders;       /**< connections with out-of-order octets */
	struct tcp_conn_list ooo;   /**< these */
	/** borrowers, the longest lap first, but for those that are `late` */
	struct tcp_conn_list lap;
	struct tcp_conn_list late; /**< likewise: known to be overdue, all before those of lap */
	uint32_t nlate;
	uint64_t refused_ns; /**< a connection was refused buffers last; 0: none was */
	uint64_t crowded_ns; /**< there was no room for one more connection last; 0: never */
	/** connections that there can be: max_conns, or what snd_max has buffers for */
	uint32_t most;
};
#define TCP_SHARES 8 /**< interfaces of one machine */

#define TCP_PMTU_SETS 64
#define TCP_PMTU_WAYS 4

/** A path MTU for connections to come; which set is a keyed hash's choice. */
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
	uint64_t hash_key[2]; /**< table */
	uint64_t isn_key[2];  /* RFC 6528 s3 */
	uint64_t ts_key[2];   /**< offsets of timestamp clocks */
	struct weft_tcp_conn **buckets;
	uint32_t bucket_mask;
	uint8_t rcv_wscale; /**< offered */
	uint32_t rcv_wnd;   /**< multiple of 1 << rcv_wscale */
	struct weft_tcp_conn *conns;
	struct tcp_conn_list free, time_wait;
	struct tcp_conn_list waiting; /**< for room, the longest first */
	uint32_t nwaiting;
	struct weft_task waker;
	struct weft_timer retry; /**< the waker, for what other threads release */
	bool released;           /**< since the waker's last turns */
	/** of the port's queue, when turns were in vain; UINT32_MAX: they were not */
	uint32_t vain_room;
	uint32_t snd_segs, ooo_mbufs; /**< of all connections */
	uint64_t ooo_steps;           /**< pieces walked for out-of-order segments */
	struct tcp_share share[TCP_SHARES];
	struct weft_timer sweep; /**< deadlines of buffers */
	uint32_t sweep_at;       /**< number of a connection */
	uint64_t sweep_steps;    /**< borrowers that it looked at */
	uint32_t in_state[WEFT_TCP_NSTATES];
	TAILQ_HEAD(, weft_tcp_listener) listeners;
	uint64_t cookie_key[2];
	uint64_t cookie_until_ns; /**< answers to cookies may come so long */
	struct tcp_rate accepts, challenges;
	struct weft_answers resets; /**< for segments that no connection wants */
	uint64_t busy_rx_ns;        /**< last burst so large that more may wait behind it */
	uint32_t challenge_max;     /**< of this second */
	bool peer_default; /**< max_conns_per_peer was not given: half of what there is room for */
	/** Connections per peer; NULL: the limit is max_conns. */
	struct tcp_peer_entry *peers;
	uint32_t *peer_buckets, peer_free; /**< indices plus one */
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

/** What a state may do; tcp_conn.c has the table. */
struct tcp_state_row {
	const char *name;
	uint16_t next;     /**< bit per state that may follow */
	bool synchronized; /**< RFC 9293 s3.5.1 */
	bool may_send;     /**< the user may queue data */
	bool may_rcv;      /**< the peer may send data */
};
extern const struct tcp_state_row tcp_states[WEFT_TCP_NSTATES];

/** A received segment between decode and delivery. */
struct tcp_in {
	struct rte_mbuf *m; /**< at the TCP header, later at the payload; NULL once given away */
	struct tcp_hdr h;
	const struct weft_ip *src, *dst; /**< in m's private area: gone when m is queued */
	uint64_t hash;                   /**< of the connection's addresses and ports */
	uint32_t len_bytes;              /**< payload */
	uint8_t ecn;                     /**< the packet's, enum weft_ecn */
	bool has_opts;                   /**< the header has options */
	struct tcp_opts opts;            /**< always valid */
};

/* tcp_conn.c */
void tcp_set_state(struct weft_tcp_conn *c, enum weft_tcp_state s);
struct weft_tcp_conn *tcp_lookup(struct weft_tcp *t, uint64_t hash, const struct weft_ip *local,
                                 uint16_t local_port, const struct weft_ip *remote,
                                 uint16_t remote_port);
uint64_t tcp_tuple_hash(const struct weft_tcp *t, const struct weft_ip *local, uint16_t local_port,
                        const struct weft_ip *remote, uint16_t remote_port);
/** A fresh connection in the table, state CLOSED. -EMFILE, or weft_netif_neigh_get()'s error. */
int tcp_conn_new(struct weft_tcp *t, struct weft_netif *nif, const struct weft_ip *local,
                 uint16_t local_port, const struct weft_ip *remote, uint16_t remote_port,
                 struct weft_tcp_conn **out);
/** weft_tcp_connect() from a source port that is known to be free. */
int tcp_open(struct weft_tcp *t, struct weft_netif *nif, uint16_t src_port,
             const struct weft_ip *dst, uint16_t dst_port, const struct weft_tcp_conn_ops *ops,
             void *user, struct weft_tcp_conn **out);
/** Tear down without up-call. The memory stays while held. */
void tcp_conn_free(struct weft_tcp_conn *c);
/** Tear down and tell the user. */
void tcp_conn_drop(struct weft_tcp_conn *c, int err);
/** The user's last up-call. Between a TIME-WAIT and the pool it does not know us any more. */
void tcp_detach(struct weft_tcp_conn *c, int err);
/** The handshake is complete by that segment; up-call. */
void tcp_established(struct weft_tcp_conn *c, const struct tcp_in *in, uint64_t now_ns);
void tcp_release(struct weft_tcp_conn *c);
void tcp_work(struct weft_tcp_conn *c, uint8_t bits);
/** The same when others must make room first (the port's queue, the pool, the machine's bounds): a
 * turn in the order of asking. */
void tcp_wait(struct weft_tcp_conn *c, uint8_t bits);
/** Buffers were released: who waits has a turn. */
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
/** One more or fewer that uses a local port, for all machines of the context to see. */
void tcp_port_count(struct weft_tcp *t, enum tcp_port_kind kind, uint16_t port, int by);
/** A free source port whose answers come to nif, or -EADDRNOTAVAIL. */
int tcp_pick_port(struct weft_tcp *t, struct weft_netif *nif, const struct weft_ip *src,
                  const struct weft_ip *dst, uint16_t dst_port);

/* tcp_in.c */
/** A segment of the connection's. */
void tcp_rx_conn(struct weft_tcp_conn *c, struct tcp_in *in, uint64_t now_ns);

/* tcp_listen.c */
struct weft_tcp_listener *tcp_listener_find(struct weft_tcp *t, const struct weft_ip *addr,
                                            uint16_t port);
/** Into, and out of, a listener's half-open connections. */
void tcp_half_open(struct weft_tcp_conn *c, struct weft_tcp_listener *l);
void tcp_not_half_open(struct weft_tcp_conn *c);
/**
 * A segment of no connection. iss_floor: NULL, or a sequence number that ours must be beyond (a
 * reused TIME-WAIT).
 */
void tcp_rx_no_conn(struct weft_tcp *t, struct weft_netif *nif, struct tcp_in *in,
                    const uint32_t *iss_floor, uint64_t now_ns);

/* tcp_close.c */
/** Our FIN is acknowledged, the peer's has not come. */
void tcp_fin_wait_2(struct weft_tcp_conn *c);
/** Both directions are closed in order: tell the user and stay for 2 MSL. */
void tcp_time_wait(struct weft_tcp_conn *c, uint64_t now_ns);
/** A segment for a connection in TIME-WAIT: true if it was a SYN that has taken its place. */
bool tcp_time_wait_reuse(struct weft_tcp_conn *c, struct weft_netif *nif, struct tcp_in *in,
                         uint64_t now_ns);

/* tcp_cookie.c */
struct tcp_cookie {
	struct tcp_opts opts; /**< as they would be in the SYN */
	bool ecn;
};
/** Which of its time slots that is. */
uint64_t tcp_cookie_slot(const struct weft_tcp *t, uint64_t now_ns);
/** Answer a SYN and keep nothing. */
void tcp_cookie_send(struct weft_tcp *t, struct weft_netif *nif, const struct tcp_in *in,
                     uint64_t now_ns);
/** Whether one has been sent that is still good. */
bool tcp_cookie_awaited(const struct weft_tcp *t, uint64_t now_ns);
/** Whether a segment acknowledges a cookie of ours, and what was in it. */
bool tcp_cookie_check(const struct weft_tcp *t, const struct tcp_in *in, uint64_t now_ns,
                      struct tcp_cookie *k);

/* tcp_defend.c */
/** Whether one more connection may be accepted in this second. */
bool tcp_accept_rate_ok(struct weft_tcp *t, uint64_t now_ns);
void tcp_accept_count(struct weft_tcp *t, uint64_t now_ns);
/** An ACK for what may be an attack: so many a second of the connection, and of all. */
void tcp_challenge_ack(struct weft_tcp_conn *c, uint64_t now_ns);
int tcp_peers_create(struct weft_tcp *t);
void tcp_peers_destroy(struct weft_tcp *t);
/** Octets of the table of addresses for each of max_conns, at most. */
size_t tcp_peer_bytes(void);
/** Answer text or a FIN outside the window: at once, or a little later when there are many. */
void tcp_stray_ack(struct weft_tcp_conn *c, uint64_t now_ns);
/** What max_conns_per_peer leaves a remote address. */
enum tcp_peer_room {
	TCP_PEER_ROOM, /**< one more connection */
	/** none, but some of its are half open, and anybody may have sent their SYNs */
	TCP_PEER_HALF,
	TCP_PEER_FULL,
};
/** Of connections over nif, whose buffers may admit fewer than the machine does. */
enum tcp_peer_room tcp_peer_room(struct weft_tcp *t, struct weft_netif *nif,
                                 const struct weft_ip *ip);
/** c became half open, or ceases to be. */
void tcp_peer_half(struct weft_tcp_conn *c, int n);
void tcp_peer_count(struct weft_tcp_conn *c);
void tcp_peer_uncount(struct weft_tcp_conn *c);
/** RST for a segment that no connection wants (RFC 9293 s3.10.7.1). */
void tcp_reset_reply(struct weft_tcp *t, struct weft_netif *nif, const struct tcp_in *in,
                     uint64_t now_ns);

/* tcp_hash.c */
uint32_t tcp_isn(const struct weft_tcp_conn *c, uint64_t now_ns);

/* tcp_reass.c */
/** Drop n octets at the front of a chain; the chain keeps at least one segment. */
struct rte_mbuf *tcp_trim_front(struct rte_mbuf *m, uint32_t n);
/** Drop n octets, fewer than there are, at the end of a chain. */
struct rte_mbuf *tcp_trim_tail(struct rte_mbuf *m, uint32_t n);
/** Queue m = [seq, seq + len) beyond rcv_nxt; trims overlaps; owns m. */
void tcp_reass_insert(struct weft_tcp_conn *c, struct rte_mbuf *m, uint32_t seq, uint32_t len);
/** The first queued piece if it joins on to rcv_nxt, trimmed to new octets; NULL otherwise. */
struct rte_mbuf *tcp_reass_pop(struct weft_tcp_conn *c, uint32_t *len);
/** Drop what lies from sequence number `end` on. */
void tcp_reass_cut(struct weft_tcp_conn *c, uint32_t end);
void tcp_reass_free(struct weft_tcp_conn *c);
/** Give the farthest octets up until `keep` mbufs are left (RFC 2018 s8). */
void tcp_reass_shed(struct weft_tcp_conn *c, uint32_t keep);

/* tcp_out.c */
void tcp_output(struct weft_tcp_conn *c, uint64_t now_ns);
/** The sequence number of a segment that takes none: the newest that the peer will accept. */
uint32_t tcp_ctl_seq(const struct weft_tcp_conn *c);
void tcp_send_ack(struct weft_tcp_conn *c, uint64_t now_ns);
bool tcp_send_fin(struct weft_tcp_conn *c, uint64_t now_ns);
/** The segment at the head of the queue again, whatever the windows say. */
void tcp_resend_head(struct weft_tcp_conn *c, uint64_t now_ns);
/** Into a closed window: one octet, or what fits. */
void tcp_window_probe(struct weft_tcp_conn *c, uint64_t now_ns);
/** cwnd, and a segment for each of the first two duplicate ACKs (RFC 3042). */
uint32_t tcp_cong_wnd(const struct weft_tcp_conn *c);
/** An mbuf with TCP_HEADROOM in front; a failure is counted. */
struct rte_mbuf *tcp_alloc(struct weft_tcp *t, struct weft_netif *nif);
/** Give netif a segment of c's. */
int tcp_tx(struct weft_tcp_conn *c, struct rte_mbuf *m, struct weft_netif_tx_how how,
           uint64_t now_ns);

/* tcp_hdr.c */
/** Of a segment with octets and without SACK: what the effective MSS is reckoned with. */
static inline uint32_t
tcp_hdr_len(const struct weft_tcp_conn *c)
{
	return TCP_HDR_LEN + (c->ts_ok ? TCP_OPTS_TSTAMP_LEN : 0);
}
/** Of the next segment with ACK and so many octets: tells tcp_fill_hdr() which options to write. */
uint32_t tcp_hdr_len_for(const struct weft_tcp_conn *c, uint32_t payload_bytes);
/**
 * Write the header at p, of tcp_hdr_len() or tcp_hdr_len_for() octets, never of a SYN; every
 * segment with ACK also settles what we owe the peer.
 */
void tcp_fill_hdr(struct weft_tcp_conn *c, uint8_t *p, uint8_t flags, uint32_t seq,
                  uint32_t hdr_len, uint64_t now_ns);
/** A segment without data and without SYN. False: no mbuf, or no room. */
bool tcp_send_ctl(struct weft_tcp_conn *c, uint8_t flags, uint32_t seq, uint64_t now_ns);
/** Our SYN, or in SYN-RECEIVED our answer to the peer's. */
void tcp_send_syn(struct weft_tcp_conn *c, uint64_t now_ns);
/** Of the timestamp clock of a connection, from its addresses and ports. */
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
/** What we ask for, or would: the connection's addresses and ports must be known. */
void tcp_offer_init(struct weft_tcp_conn *c);
/** Take the options of the peer's SYN; c->rcv_nxt is behind it. */
void tcp_apply_syn_opts(struct weft_tcp_conn *c, const struct tcp_opts *o, uint64_t now_ns);
/** And the ECN bits among its flags. */
void tcp_apply_syn_ecn(struct weft_tcp_conn *c, uint8_t flags);

/* tcp_ts.c */
enum tcp_ts_verdict {
	TCP_TS_GOOD,
	TCP_TS_MISSING, /**< drop */
	TCP_TS_OLD,     /**< not acceptable (PAWS) */
};
/** On a connection with timestamps; RFC 7323 s5.3 R1. */
enum tcp_ts_verdict tcp_ts_judge(struct weft_tcp_conn *c, const struct tcp_in *in, uint64_t now_ns);
/** The segment is acceptable and so is its ACK: perhaps its timestamp is the one to echo. */
void tcp_ts_record(struct weft_tcp_conn *c, const struct tcp_in *in, uint64_t now_ns);
/** The round trip by the echoed timestamp. False: it says nothing. */
bool tcp_ts_rtt(const struct weft_tcp_conn *c, const struct tcp_in *in, uint64_t now_ns,
                uint32_t *rtt_us);
/** snd_una has moved over what was sent twice, the last time then: RTTM (RFC 7323 s4.1). */
void tcp_ts_sample(struct weft_tcp_conn *c, const struct tcp_in *in, uint64_t sent_ns,
                   uint64_t now_ns);

/* tcp_sack_rx.c */
/** m has been queued ahead of a gap. */
void tcp_sack_note(struct weft_tcp_conn *c, struct rte_mbuf *m);
/** rcv_nxt has moved. */
void tcp_sack_prune(struct weft_tcp_conn *c);
/** Nothing from `end` on is queued any more. */
void tcp_sack_cut(struct weft_tcp_conn *c, uint32_t end);
/** [left, right) was here already; said with the next ACK. */
void tcp_dsack_note(struct weft_tcp_conn *c, uint32_t left, uint32_t right);

/* tcp_sq.c */
/** Free what is acknowledged below snd_una; a sample's time in *sent_ns if there is one. */
bool tcp_sq_ack(struct weft_tcp_conn *c, uint64_t *sent_ns);
void tcp_sq_free(struct weft_tcp_conn *c);
uint32_t tcp_space(const struct weft_tcp_conn *c);
/** Call `writable` if the user waits and there is space. */
void tcp_tell_writable(struct weft_tcp_conn *c);
/** Make m's first `len` octets a segment of their own. False: out of mbufs. */
bool tcp_sq_split(struct weft_tcp_conn *c, struct rte_mbuf *m, uint16_t len);
/** One transmission of a queued segment. False: out of mbufs or of room; nothing changed. */
bool tcp_xmit(struct weft_tcp_conn *c, struct rte_mbuf *m, uint64_t now_ns);
/**
 * How many queued segments from m on, none of them sent yet, may leave in one hand-over: of equal
 * length but for the last, of at most room_bytes together. 1: m goes alone.
 */
unsigned int tcp_train(const struct weft_tcp_conn *c, const struct rte_mbuf *m,
                       uint32_t room_bytes);
/** The first transmission of so many, 2 at least. Returns the last of them; NULL: nothing changed.
 */
struct rte_mbuf *tcp_xmit_train(struct weft_tcp_conn *c, struct rte_mbuf *m, unsigned int n,
                                uint64_t now_ns);
/** Its first octet that is not acknowledged. */
uint8_t tcp_seg_first(const struct rte_mbuf *m);
/** m, the segment at snd_nxt, has been sent. */
void tcp_sent(struct weft_tcp_conn *c, struct rte_mbuf *m);

/* tcp_share.c */
void tcp_share_init(struct weft_tcp *t);
/** Of an interface; NULL: too many have connections. */
struct tcp_share *tcp_share_of(struct weft_tcp *t, struct weft_netif *nif);
/** Whether one more connection over nif can have buffers for itself. */
bool tcp_share_room(struct weft_tcp *t, struct weft_netif *nif);
/** It could not, and was wanted: who is overdue goes by the next sweep. */
void tcp_share_crowded(struct weft_tcp *t, struct weft_netif *nif);
/** tcp_share_room(), at the cost of a connection of the listener's user if need be: for an address
 * that has shown that it is there. */
bool tcp_make_share_room(struct weft_tcp *t, struct weft_netif *nif,
                         const struct weft_tcp_listener *l, const struct weft_ip *ip);
/** The connection is established. False: nothing is left for it. */
bool tcp_share_join(struct weft_tcp_conn *c);
/** It queues nothing any more. */
void tcp_share_leave(struct weft_tcp_conn *c);
/**
 * Segments that the connection may still queue. 0 only while it has some queued: their
 * acknowledgment makes room, so it need not wait for others.
 */
uint32_t tcp_segs_room(const struct weft_tcp_conn *c);
/** tcp_segs_room() was 0 for one that has something to say. */
void tcp_share_refused(struct weft_tcp_conn *c);
/** All that was queued when the lap began is acknowledged, or the queue was empty: the next lap
 * begins. */
void tcp_share_lap(struct weft_tcp_conn *c, uint64_t now_ns);
/** Charge n mbufs of the send queue, whatever the room. */
void tcp_share_add(struct weft_tcp_conn *c, uint32_t n);
void tcp_share_sub(struct weft_tcp_conn *c, uint32_t n);
/** Whether a segment ahead of a gap would not be kept, for want of buffers. */
bool tcp_share_ooo_full(const struct weft_tcp_conn *c);
/** Room for n mbufs ahead of a gap, of which it gives `freed` back; at the cost of others that
 * have more. */
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
/** The effective MSS out of path, peer and options; on every change of one of them. */
void tcp_mss_update(struct weft_tcp_conn *c);
void tcp_pmtu_init(struct weft_tcp_conn *c);
/** ICMP says that a segment of c's was too big. */
void tcp_pmtu_too_big(struct weft_tcp_conn *c, const struct weft_icmp_error *e, uint64_t now_ns);
/** s is sent again while a claim waits for proof. */
void tcp_pmtu_lost(struct weft_tcp_conn *c, const struct tcp_seg *s, uint64_t now_ns);
/** The retransmission timer has fired, retries counts it. */
void tcp_pmtu_timeout(struct weft_tcp_conn *c, uint64_t now_ns);
/** Segments were acknowledged while pmtu_watch or a claim stands. */
void tcp_pmtu_progress(struct weft_tcp_conn *c);
/** pmtu_raise_ns has come. */
void tcp_pmtu_raise(struct weft_tcp_conn *c, uint64_t now_ns);
/** The interface's MTU may have changed. True: it is less than what was in use, and the MSS
 * followed. */
bool tcp_pmtu_clamp(struct weft_tcp_conn *c);

/* tcp_cc.c */
void tcp_cc_init(struct weft_tcp_conn *c, bool syn_lost);
/** Sending has stopped: whether cwnd was the reason, or nearly. */
void tcp_cc_used(struct weft_tcp_conn *c);
/** Octets acknowledged outside recovery. */
void tcp_cc_grow(struct weft_tcp_conn *c, uint32_t acked, uint64_t now_ns);
/** A congestion event: ssthresh, and what an undo needs. cwnd is the caller's. */
void tcp_cc_reduce(struct weft_tcp_conn *c, uint64_t now_ns);
void tcp_cc_timeout(struct weft_tcp_conn *c, uint64_t now_ns);
/** The last reduction was for nothing. */
void tcp_cc_undo(struct weft_tcp_conn *c);
/** An ACK with ECE on a connection that negotiated ECN: reduce once per window; CWR follows. */
void tcp_cc_ece(struct weft_tcp_conn *c, uint64_t now_ns);
/** Before sending after a pause (RFC 5681 s4.1). */
void tcp_cc_idle(struct weft_tcp_conn *c, uint64_t now_ns);

/* tcp_cubic.c: the curve, for its test */
uint32_t tcp_cubic_k(uint32_t deficit, uint16_t mss);
uint32_t tcp_cubic_w(const struct tcp_cubic *q, uint64_t t_ns, uint16_t mss);

/* tcp_sack.c */
/** A transmission of m has left; call before its xmits is counted up. */
void tcp_seg_sent(struct weft_tcp_conn *c, struct rte_mbuf *m, uint64_t now_ns);
/** m's first `got` octets are acknowledged; call before m is shortened or freed. */
void tcp_seg_acked(struct weft_tcp_conn *c, struct rte_mbuf *m, uint32_t got);
/** m's end is now rest, which has m's flags already. */
void tcp_seg_split(struct weft_tcp_conn *c, struct rte_mbuf *m, struct rte_mbuf *rest);
void tcp_seg_lost(struct weft_tcp_conn *c, struct rte_mbuf *m);
/** snd_una has moved on; call before segments are freed. */
void tcp_sack_advance(struct weft_tcp_conn *c);
/** The blocks of an ACK, once its cumulative part is done; `data`: the segment has octets, too. */
void tcp_sack_in(struct weft_tcp_conn *c, const struct tcp_opts *o, bool data);
/** After a timeout: no marks, and everything lost that was sent long enough ago. */
void tcp_sack_forget(struct weft_tcp_conn *c, uint64_t now_ns);
/** What is lost is in flight again. */
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
/** Mark what is lost and note when the next would be; whether any is new. */
bool tcp_rack_detect(struct weft_tcp_conn *c, uint64_t now_ns);
void tcp_rack_reo_fire(struct weft_tcp_conn *c, uint64_t now_ns);
void tcp_tlp_reset(struct weft_tcp_conn *c);
/** When to probe; WEFT_NEVER: not now. */
uint64_t tcp_tlp_at(const struct weft_tcp_conn *c, uint64_t now_ns);
void tcp_tlp_fire(struct weft_tcp_conn *c, uint64_t now_ns);
void tcp_tlp_ack(struct weft_tcp_conn *c, uint32_t ack, bool dup, uint64_t now_ns);

/* tcp_recovery.c */
/** After the cumulative part of an ACK. */
void tcp_recovery_ack(struct weft_tcp_conn *c, const struct tcp_in *in, uint32_t acked, bool dup,
                      uint64_t now_ns);
/** The reordering timer has found losses. */
void tcp_recovery_lost(struct weft_tcp_conn *c, uint64_t now_ns);
void tcp_recovery_rto(struct weft_tcp_conn *c, uint64_t now_ns);
/** Send what is lost, as far as cwnd goes. False: some is left, and new data must wait. */
bool tcp_retransmit(struct weft_tcp_conn *c, uint64_t now_ns);

/* tcp_timer.c */
void tcp_rtt_init(struct weft_tcp_conn *c);
void tcp_rtt_sample(struct weft_tcp_conn *c, uint32_t rtt_us);
uint64_t tcp_rto_ns(const struct weft_tcp_conn *c);
void tcp_timers_init(struct weft_tcp_conn *c);
void tcp_timers_stop(struct weft_tcp_conn *c);
void tcp_timer_set(struct weft_tcp_conn *c, struct tcp_timer *t, uint64_t at_ns);
/** Arm or leave off by what is outstanding; restart from now, and the loss probe with it. */
void tcp_rto_restart(struct weft_tcp_conn *c, uint64_t now_ns);
/** Set the timer to the earliest of its deadlines. */
void tcp_rto_arm(struct weft_tcp_conn *c);
/** New data went out: the loss probe waits for it. */
void tcp_pto_restart(struct weft_tcp_conn *c, uint64_t now_ns);
void tcp_rto_stop(struct weft_tcp_conn *c);
/** Octets or our FIN come into an empty queue: the user timeout begins. */
void tcp_progress_begin(struct weft_tcp_conn *c, uint64_t now_ns);
/** What the connection's life timer is to look at next. */
void tcp_life_restart(struct weft_tcp_conn *c);
void tcp_give_up(struct weft_tcp_conn *c, int err, uint64_t now_ns);
void tcp_keepalive_restart(struct weft_tcp_conn *c, uint64_t now_ns);

#endif /* TCP_PRIV_H */
