/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_MPA_H
#define WEFT_MPA_H

/**
 * @file
 * MPA (RFC 5044) with the enhanced start-up of RFC 6581: FPDUs, markers, CRC32c, the
 * Request and Reply frames of revision 1 and 2. Internal; between tcp and ddp,
 * on the connection's worker.
 *
 * Markers: each side says at start-up whether it wants to receive them, so either
 * direction may have them. CRC is on unless both sides do without it.
 *
 * Receive: an FPDU that lies whole in one mbuf is handed up in place; one that
 * straddles mbufs, or has markers inside, is handed up as the fragments between. CRC is checked
 * before, then the markers.
 *
 * Transmit: weft_mpa_tx_begin() returns where to write a ULPDU, inside the segment being
 * built; weft_mpa_tx_end() pads and seals it. FPDUs are packed into one segment while the
 * next one fits; weft_mpa_tx_flush() says that nothing more is queued.
 */

#include "weft_base.h"
#include "weft_mpa_keep.h"
#include "weft_sched.h"

struct rte_mbuf;
struct weft_netif_budget;
struct weft_tcp_conn;

#define WEFT_MPA_MAX_PDATA 512 /* RFC 5044 s7.1.1 */
#define WEFT_MPA_MAX_ULPDU 65535
/** Most mbufs that one FPDU is handed up from; a worse one is compacted first (counted). */
#define WEFT_MPA_MAX_FRAGS 64
/** Markers that an FPDU may have inside, and so many fragments more. */
#define WEFT_MPA_MAX_MARKERS 130

/** Value of IRD or ORD that means "do not negotiate" (RFC 6581 s9.1). */
#define WEFT_MPA_IRD_ORD_NONE 0x3fff

/* Forms of the ready-to-receive indication, as a mask (RFC 6581 s9.2: B, C, D). */
#define WEFT_MPA_RTR_FPDU  0x1 /**< zero-length FPDU */
#define WEFT_MPA_RTR_WRITE 0x2 /**< zero-length RDMA Write */
#define WEFT_MPA_RTR_READ  0x4 /**< zero-length RDMA Read */
#define WEFT_MPA_RTR_ALL   0x7

/** A start-up frame, decoded. */
struct weft_mpa_frame {
	bool reply;    /**< Reply rather than Request */
	bool markers;  /**< M: the sender wants to receive markers */
	bool crc;      /**< C */
	bool reject;   /**< R, Reply only */
	bool enhanced; /**< S: IRD/ORD word present (rev 2) */
	uint8_t rev;
	uint16_t ird, ord;                  /**< 14 bits each; valid when enhanced */
	bool p2p;                           /**< A: peer-to-peer model */
	bool rtr_send, rtr_write, rtr_read; /**< B, C, D */
	uint16_t pdata_len_bytes;           /**< the ULP's part, the IRD/ORD word taken off */
	uint8_t pdata[WEFT_MPA_MAX_PDATA];
};

/**
 * Decode one start-up frame from the head of buf. Returns octets consumed, -EAGAIN (more octets
 * needed), or -EPROTO (wrong key, PD_Length above 512, enhanced data too short).
 * Any revision is decoded; the caller judges it.
 */
int weft_mpa_frame_decode(const uint8_t *buf, size_t len_bytes, struct weft_mpa_frame *f);
/** Encode; returns octets written, -ENOSPC, or -EINVAL (private data too long). */
int weft_mpa_frame_encode(const struct weft_mpa_frame *f, uint8_t *buf, size_t size_bytes);

#define WEFT_MPA_MIN_MULPDU 128   /* RFC 5044 s3, s4.5 */
#define WEFT_MPA_MAX_MULPDU 64768 /* s3 */

/** MULPDU for an effective MSS (RFC 5044 s4.5), within the bounds of s3. */
static inline uint16_t
weft_mpa_mulpdu(uint16_t emss_bytes, bool markers)
{
	uint32_t over = 6 + emss_bytes % 4u + (markers ? 4 * ((emss_bytes + 511u) / 512) : 0);

	if (emss_bytes < WEFT_MPA_MIN_MULPDU + over)
		return WEFT_MPA_MIN_MULPDU;
	return (uint16_t)RTE_MIN(emss_bytes - over, (uint32_t)WEFT_MPA_MAX_MULPDU);
}

/** What a side wants; zero is the default. */
struct weft_mpa_opts {
	bool markers; /**< to receive them */
	/** CRC only if the peer asks for it (RFC 5044 s4.4: an administrator's wish) */
	bool no_crc;
	/**
	 * WEFT_MPA_RTR_*: initiator: which it may send; responder: which it takes. 0: all. A
	 * responder takes a Read only while its IRD has room for one.
	 */
	uint8_t rtr;
	/**
	 * [60000000] the stream ends when an incomplete FPDU got no octet for so long, or was not
	 * completed in four times that: fault with WEFT_MPA_ERR_LOCAL. Looked at once a second.
	 */
	uint32_t fpdu_timeout_us;
};

enum weft_mpa_state {
	WEFT_MPA_IDLE,
	WEFT_MPA_REQ_SENT, /**< initiator: waiting for the Reply */
	WEFT_MPA_REQ_WAIT, /**< responder: waiting for the Request */
	WEFT_MPA_REQ_RCVD, /**< responder: the consumer decides */
	WEFT_MPA_FULL,     /**< full operation */
	WEFT_MPA_CLOSED,   /**< nothing more is handed up */
};

struct weft_mpa;

/**
 * Up-calls, on the worker. `user` is the QP's DDP, or the connection request before there is a QP.
 * Before full operation only request, reply and closed are called; the others may be NULL until
 * then. Any of them may close, abort, move or fini the MPA (and free its owner).
 */
struct weft_mpa_ops {
	/** Responder: a valid Request came. Answer with weft_mpa_accept() or weft_mpa_reject(),
	 * now or later. */
	void (*request)(void *user, const struct weft_mpa_frame *req);
	/**
	 * Initiator: a valid Reply came. f->reject tells. On an accept MPA is in full operation
	 * already when this runs; after a reject MPA is over and TCP still open (RFC 5044 s7.1.2):
	 * weft_mpa_close().
	 */
	void (*reply)(void *user, const struct weft_mpa_frame *rep);
	/** One ULPDU, CRC and markers checked, in stream order. Fragments are valid during the
	 * call only. */
	void (*ulpdu)(void *user, const struct weft_frag *frag, unsigned int nfrags,
	              uint32_t len_bytes, uint64_t now_ns);
	/**
	 * Space to send again (after weft_mpa_tx_begin() returned NULL), or the first FPDU let a
	 * responder send. May come without need.
	 */
	void (*writable)(void *user);
	/** MULPDU changed. */
	void (*mulpdu)(void *user, uint16_t mulpdu_bytes);
	/** An FPDU was bad: term says how; nothing more will be handed up; the sending side still
	 * works. */
	void (*fault)(void *user, const struct weft_term *term);
	/** The peer closed its direction, on an FPDU boundary (else `closed` with -EPROTO). */
	void (*eof)(void *user);
	/**
	 * The stream is gone (as weft_tcp_conn_ops.closed; also -EPROTO for a malformed start-up
	 * frame, -ETIMEDOUT for a start-up that took too long, -EPROTONOSUPPORT for a revision that
	 * is not the one spoken). These are codes 1 and 4 of RFC 5044 s8. The MPA is idle again:
	 * weft_mpa_fini() it.
	 */
	void (*closed)(void *user, int err);
};

struct weft_mpa_stats {
	uint64_t fpdus_in, fpdus_out, segs_out;
	uint64_t fpdus_straddled; /**< received across mbufs */
	uint64_t fpdus_compacted; /**< of these, copied because they lay in too many pieces */
	uint64_t crc_errors, marker_errors, bad_startup;
	uint64_t fpdu_timeouts; /**< 1: the stream ended by its incomplete FPDU's deadline */
	/** 1: it ended because others needed the memory of its incomplete FPDU */
	uint64_t fpdus_shed;
};

struct mpa_drain;
struct mpa_startup;

/** Embedded in its owner, zero-filled before first use; treat as opaque outside lib/mpa. */
struct weft_mpa {
	struct weft_tcp_conn *tcp;
	const struct weft_mpa_ops *ops;
	void *user;
	struct weft_sched *sched;
	uint64_t stream; /**< the number of what is above, for logs; set by it before the start */
	enum weft_mpa_state state;
	bool initiator;
	/** an FPDU was received, so a responder may send (RFC 5044 s7.1.2 rule 4) */
	bool peer_spoke;
	/* agreed at start-up */
	bool crc; /**< one of the two asked for it, so both check */
	bool rx_markers, tx_markers;
	bool p2p;    /**< peer-to-peer: the initiator's first FPDU is its RTR */
	uint8_t rtr; /**< initiator: the one WEFT_MPA_RTR_* to send, 0: none agreed */
	uint8_t rev;
	bool refused_rev2; /**< see weft_mpa_peer_is_rev1() */
	/** with markers: stream octets since full operation, modulo 512 */
	uint16_t rx_pos, tx_pos;
	bool rx_dead;      /**< a fault was reported: everything that still comes is dropped */
	bool rx_eof;       /**< the peer's FIN came in order, behind its last FPDU */
	bool tx_closed;    /**< our FIN is queued */
	bool compact_used; /**< since the timer last looked */
	uint16_t mulpdu_bytes;
	/* transmit */
	struct rte_mbuf *seg;      /**< segment being filled, or NULL */
	uint8_t *fpdu;             /**< FPDU being written in it, or NULL */
	uint16_t fpdu_ulpdu_bytes; /**< its ULPDU length */
	uint32_t seg_room_bytes;   /**< octets that still fit the segment */
	/* receive */
	/** single segments in stream order, linked by next */
	struct rte_mbuf *held_head, *held_tail;
	uint32_t held_bytes, held_segs;
	uint32_t need_bytes; /**< octets of the FPDU at the head, where that is looked at */
	/** bounce for an FPDU in too many pieces; allocated on first need, freed at rest */
	uint8_t *compact;
	uint32_t compact_bytes; /**< octets in it: the head of the FPDU, before `held` */
	/** the receive loop on the stack above us, told when we go away */
	struct mpa_drain *drain;
	/** octets that came with a Request are parsed in a turn of their own */
	struct weft_task drain_task;
	struct mpa_startup *su; /**< frames and timeout, until full operation */
	/** start-up timeout; after a refusal, how long the peer has to close; then what looks after
	 * incomplete FPDUs */
	struct weft_timer startup;
	struct weft_mpa_stats stats;
	/* what an incomplete FPDU takes (mpa_keep.c) */
	struct weft_netif_budget *budget; /**< of mbufs; NULL: not asked yet */
	uint32_t lent_segs;               /**< of held_segs, charged to it */
	uint32_t compact_size_bytes;      /**< of `compact` */
	uint32_t keep_bytes;              /**< of that, charged to the worker's heap budget */
	uint32_t fpdu_timeout_us;
	/** of the incomplete FPDU: since when it waits, its last octet */
	uint64_t begun_ns, got_ns;
	TAILQ_ENTRY(weft_mpa) keep_link; /**< while keep_bytes > 0 */
	bool waits;                      /**< for the rest of an FPDU */
	bool shed;                       /**< the fault is to be told in a turn of its own */
};

/** What one side offers at start-up. */
struct weft_mpa_attr {
	uint8_t rev;       /**< initiator: 1 or 2 */
	uint16_t ird, ord; /**< rev 2; WEFT_MPA_IRD_ORD_NONE: not negotiated */
	const void *pdata;
	uint16_t pdata_len_bytes;    /**< at most 512, 508 with rev 2 */
	uint32_t startup_timeout_us; /**< 0: 10 s */
	bool p2p;                    /**< ask for the peer-to-peer model; rev 2 */
	struct weft_mpa_opts opts;
};

/**
 * Take over an established connection as initiator and send the Request. -EINVAL, -ENOBUFS,
 * -ENOMEM, or what weft_tcp_send() said. On an error the connection is still the caller's, to be
 * aborted.
 */
int weft_mpa_start(struct weft_mpa *m, struct weft_tcp_conn *c, struct weft_sched *s,
                   const struct weft_mpa_attr *attr, const struct weft_mpa_ops *ops, void *user,
                   uint64_t now_ns);
/** Octets of the peer's start-up frame so far; 0 once start-up is over. */
uint16_t weft_mpa_heard(const struct weft_mpa *m);

/**
 * Whether the start-up of revision 2 that just ended with `closed`, or with a reply, ended as with
 * a responder of revision 1: closed without a word, or answered without the enhanced data (RFC 6581
 * s10). Until the next start.
 */
static inline bool
weft_mpa_peer_is_rev1(const struct weft_mpa *m)
{
	return m->refused_rev2;
}
/** Take over an accepted connection as responder and wait for the Request. -ENOMEM. */
int weft_mpa_respond(struct weft_mpa *m, struct weft_tcp_conn *c, struct weft_sched *s,
                     uint32_t startup_timeout_us, const struct weft_mpa_ops *ops, void *user,
                     uint64_t now_ns);
/**
 * Move a responder in REQ_RCVD to its QP: `to` (idle) takes everything over, `from` is idle. Octets
 * that a hasty peer sent behind its Request are parsed in a later turn, after weft_mpa_accept().
 */
void weft_mpa_move(struct weft_mpa *to, struct weft_mpa *from, const struct weft_mpa_ops *ops,
                   void *user);
/** Responder, before it answers: what it wants other than by default. */
void weft_mpa_set_opts(struct weft_mpa *m, const struct weft_mpa_opts *opts);
/**
 * Answer a Request; ird/ord are put in the Reply of a rev 2 exchange (by RFC 6581 s9.1 the caller
 * has bounded them; WEFT_MPA_IRD_ORD_NONE is mirrored here). Revision, enhanced-ness and
 * peer-to-peer mode mirror the Request. -EINVAL, -EBADFD (no Request waits), -ENOBUFS (nothing was
 * sent; try again).
 */
int weft_mpa_accept(struct weft_mpa *m, uint16_t ird, uint16_t ord, const void *pdata,
                    uint16_t pdata_len_bytes, uint64_t now_ns);
/**
 * Reply with the reject bit. MPA is over, and TCP still open (RFC 5044 s7.1.2), for
 * weft_mpa_await_fin() or weft_mpa_close(); what the peer sends is dropped, its FIN is answered.
 * Errors as weft_mpa_accept().
 */
int weft_mpa_reject(struct weft_mpa *m, uint16_t ird, uint16_t ord, const void *pdata,
                    uint16_t pdata_len_bytes, uint64_t now_ns);

/**
 * After weft_mpa_reject(): close when the peer has, or after a second (half of the start-up time if
 * that is shorter). Some peers take a FIN for the answer when it comes with it. `closed` follows.
 */
void weft_mpa_await_fin(struct weft_mpa *m, uint64_t now_ns);

/** Whether an FPDU may be begun now. */
bool weft_mpa_tx_ready(const struct weft_mpa *m);
/**
 * Begin a ULPDU of exactly ulpdu_bytes (1..mulpdu_bytes; 0: an RTR). Returns where to write it
 * (contiguous, inside the segment), or NULL: no space or not allowed to send yet; `writable`
 * follows.
 */
uint8_t *weft_mpa_tx_begin(struct weft_mpa *m, uint16_t ulpdu_bytes, uint64_t now_ns);
/** Seal it: length, pad, markers, CRC. */
void weft_mpa_tx_end(struct weft_mpa *m, uint64_t now_ns);
/** Instead of sealing it: nothing of it is sent. */
void weft_mpa_tx_cancel(struct weft_mpa *m);
/** Whether no FPDU can ever be sent: a responder whose initiator's first one was damaged, or never
 * came before its FIN. */
static inline bool
weft_mpa_tx_impossible(const struct weft_mpa *m)
{
	return (m->rx_dead || m->rx_eof) && !m->initiator && !m->peer_spoke;
}
/** Nothing more is queued now: send the segment being built. */
void weft_mpa_tx_flush(struct weft_mpa *m, uint64_t now_ns);

/** Flush and close our direction (FIN); `closed` follows. During start-up nothing else is handed
 * up any more. */
void weft_mpa_close(struct weft_mpa *m, uint64_t now_ns);
/** Reset at once; no up-call follows. */
void weft_mpa_abort(struct weft_mpa *m, uint64_t now_ns);
/** Free held mbufs and timers; aborts the connection if it still lives. May be repeated. */
void weft_mpa_fini(struct weft_mpa *m);

#endif /* WEFT_MPA_H */
