/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_MPA_H
#define WEFT_MPA_H

/**
 * @file
 * MPA (RFC 5044) with the enhanced start-up of RFC 6581: FPDUs, markers, CRC32c, the Request and
 * Reply frames of revision 1 and 2. Internal header, between tcp and ddp. Every call and every
 * up-call runs on the connection's worker.
 *
 * Markers: each side says at start-up whether it wants to receive them, so either direction may
 * have them. CRC is on unless both sides ask for none.
 *
 * Receive: CRC is checked first, then the markers. A ULPDU that is whole in one mbuf without
 * markers goes up in place. Other ULPDUs go up as the fragments between mbuf ends and markers.
 *
 * Transmit: weft_mpa_tx_begin() returns where to write a ULPDU, inside the TCP segment being built.
 * weft_mpa_tx_end() adds pad, markers and CRC. A segment takes further FPDUs while they fit.
 * weft_mpa_tx_flush() gives the segment to TCP.
 */

#include "weft_base.h"
#include "weft_mpa_keep.h"
#include "weft_sched.h"

struct rte_mbuf;
struct weft_netif_budget;
struct weft_tcp_conn;

#define WEFT_MPA_MAX_PDATA 512 /* RFC 5044 s7.1.1 */
#define WEFT_MPA_MAX_ULPDU 65535
/** An FPDU in more mbufs than this is copied into one buffer first (fpdus_compacted). */
#define WEFT_MPA_MAX_FRAGS 64
/** Most markers in an FPDU. Each adds a fragment to its ULPDU. */
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
	uint16_t pdata_len_bytes;           /**< private data without the IRD/ORD word */
	uint8_t pdata[WEFT_MPA_MAX_PDATA];
};

/**
 * Decode one start-up frame from the head of buf. Returns octets consumed, -EAGAIN (more octets
 * needed), or -EPROTO (wrong key, PD_Length above 512, enhanced data too short). Any revision is
 * decoded; the caller checks it.
 */
int weft_mpa_frame_decode(const uint8_t *buf, size_t len_bytes, struct weft_mpa_frame *f);
/** Encode a frame. Returns octets written; -ENOSPC: buf is too small; -EINVAL: private data too
 * long, or enhanced with revision 1 or a depth above 14 bits. */
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

/** Options of one side; zero is the default. */
struct weft_mpa_opts {
	bool markers; /**< receive markers */
	/** CRC only if the peer asks for it (RFC 5044 s4.4: configured by an administrator) */
	bool no_crc;
	/**
	 * WEFT_MPA_RTR_*: the forms that an initiator may send, or that a responder accepts. 0:
	 * all. A responder accepts a Read only with an IRD above 0.
	 */
	uint8_t rtr;
	/**
	 * [60000000] Longest time without an octet of an incomplete FPDU. The whole FPDU has four
	 * times that. Then fault() with WEFT_MPA_ERR_LOCAL. Checked once a second.
	 */
	uint32_t fpdu_timeout_us;
};

enum weft_mpa_state {
	WEFT_MPA_IDLE,
	WEFT_MPA_REQ_SENT, /**< initiator: waiting for the Reply */
	WEFT_MPA_REQ_WAIT, /**< responder: waiting for the Request */
	WEFT_MPA_REQ_RCVD, /**< responder: the consumer has not answered the Request */
	WEFT_MPA_FULL,     /**< full operation */
	WEFT_MPA_CLOSED,   /**< rejected or closed during start-up: only closed() follows */
};

struct weft_mpa;

/**
 * Up-calls, on the worker. `user` is the QP's DDP, or the connection request before there is a QP.
 * Before full operation MPA calls request, reply and closed only; the others may be NULL until
 * then. An up-call may close, abort, move or fini the MPA (and free its owner).
 */
struct weft_mpa_ops {
	/** Responder: a valid Request has arrived. The consumer answers by weft_mpa_accept() or
	 * weft_mpa_reject(), now or later. req is valid during the call. */
	void (*request)(void *user, const struct weft_mpa_frame *req);
	/**
	 * Initiator: a valid Reply has arrived, valid during the call. It accepts: MPA is already
	 * in full operation. rep->reject: MPA has ended and TCP is still open (RFC 5044 s7.1.2);
	 * the consumer calls weft_mpa_close().
	 */
	void (*reply)(void *user, const struct weft_mpa_frame *rep);
	/** One ULPDU in stream order, its CRC and markers checked. The fragments are valid during
	 * the call only. */
	void (*ulpdu)(void *user, const struct weft_frag *frag, unsigned int nfrags,
	              uint32_t len_bytes, uint64_t now_ns);
	/**
	 * There may be space again after weft_mpa_tx_begin() returned NULL, or the first FPDU
	 * allows a responder to send. Also called when nothing waits.
	 */
	void (*writable)(void *user);
	/** The MULPDU changed. */
	void (*mulpdu)(void *user, uint16_t mulpdu_bytes);
	/** An FPDU was bad or could not be kept, as *term says. No ULPDU follows. Sending still
	 * works. */
	void (*fault)(void *user, const struct weft_term *term);
	/** The peer closed its direction at an FPDU boundary. Elsewhere: closed() with -EPROTO. */
	void (*eof)(void *user);
	/**
	 * The connection is gone: err as weft_tcp_conn_ops.closed, or -EPROTO (bad start-up frame,
	 * FIN inside an FPDU), -ETIMEDOUT (start-up, or the close that ends it, took too long),
	 * -EPROTONOSUPPORT (the peer's revision). These are codes 1 and 4 of RFC 5044 s8. The MPA
	 * is idle; the owner calls weft_mpa_fini().
	 */
	void (*closed)(void *user, int err);
};

struct weft_mpa_stats {
	uint64_t fpdus_in, fpdus_out, segs_out;
	uint64_t fpdus_straddled; /**< received in several mbufs */
	uint64_t fpdus_compacted; /**< of these, copied into one buffer */
	uint64_t crc_errors, marker_errors, bad_startup;
	uint64_t fpdu_timeouts; /**< 1: an incomplete FPDU was not completed in time */
	/** 1: the stream ended because other streams needed the memory of its incomplete FPDU */
	uint64_t fpdus_shed;
};

struct mpa_drain;
struct mpa_startup;

/** Embedded in its owner, zero-filled at first. Layers above read it and write only `stream`. */
struct weft_mpa {
	struct weft_tcp_conn *tcp;
	const struct weft_mpa_ops *ops;
	void *user;
	struct weft_sched *sched;
	uint64_t stream; /**< number of the stream in logs; DDP sets it before the start */
	enum weft_mpa_state state;
	bool initiator;
	/** an FPDU was received, so a responder may send (RFC 5044 s7.1.2 rule 4) */
	bool peer_spoke;
	/* agreed at start-up */
	bool crc; /**< at least one side asked for CRC, so both check it */
	bool rx_markers, tx_markers;
	bool p2p;    /**< peer-to-peer: the initiator's first FPDU is its RTR */
	uint8_t rtr; /**< initiator: the WEFT_MPA_RTR_* form to send; 0: none agreed */
	uint8_t rev;
	bool refused_rev2; /**< see weft_mpa_peer_is_rev1() */
	/** with markers: stream octets since full operation, modulo 512 */
	uint16_t rx_pos, tx_pos;
	bool rx_dead;      /**< a fault was detected: later octets are dropped */
	bool rx_eof;       /**< the peer's FIN has arrived at an FPDU boundary */
	bool tx_closed;    /**< our FIN is queued */
	bool compact_used; /**< `compact` was used since the timer last fired */
	uint16_t mulpdu_bytes;
	/* transmit */
	struct rte_mbuf *seg;      /**< segment being filled, or NULL */
	uint8_t *fpdu;             /**< FPDU being written in it, or NULL */
	uint16_t fpdu_ulpdu_bytes; /**< its ULPDU length */
	uint32_t seg_room_bytes;   /**< octets still free in the segment */
	/* receive */
	/** received octets not yet handed up: mbufs of one segment each, linked by next */
	struct rte_mbuf *held_head, *held_tail;
	uint32_t held_bytes, held_segs;
	uint32_t need_bytes; /**< length of the FPDU at the head, with markers */
	/** buffer that an FPDU in too many pieces is copied to; allocated on need, freed at rest */
	uint8_t *compact;
	uint32_t compact_bytes; /**< octets in it: the first part of the FPDU, before `held` */
	/** record of the receive loop on the stack; weft_mpa_release() tells it */
	struct mpa_drain *drain;
	/** parses octets that arrived behind a Request, and reports a shed FPDU */
	struct weft_task drain_task;
	struct mpa_startup *su; /**< frames and timeout, until full operation */
	/** timer of the start-up; after a reject or close in start-up, of the peer's close; in full
	 * operation, of incomplete FPDUs */
	struct weft_timer startup;
	struct weft_mpa_stats stats;
	/* memory of an incomplete FPDU (mpa_keep.c) */
	struct weft_netif_budget *budget; /**< the port's budget of mbufs; NULL: not yet known */
	uint32_t lent_segs;               /**< mbufs of held_segs that are charged to it */
	uint32_t compact_size_bytes;      /**< size of `compact` */
	uint32_t keep_bytes;              /**< octets of it charged to the worker's heap budget */
	uint32_t fpdu_timeout_us;
	uint64_t begun_ns, got_ns; /**< incomplete FPDU: time of its first and latest octets */
	TAILQ_ENTRY(weft_mpa) keep_link; /**< while keep_bytes > 0 */
	bool waits;                      /**< an FPDU is incomplete */
	bool shed;                       /**< drain_task has to report the fault of a shed FPDU */
};

/** What one side offers at start-up. */
struct weft_mpa_attr {
	uint8_t rev;       /**< initiator: 1 or 2 */
	uint16_t ird, ord; /**< rev 2; WEFT_MPA_IRD_ORD_NONE: not negotiated */
	const void *pdata;
	uint16_t pdata_len_bytes;    /**< at most 512, 508 with rev 2 */
	uint32_t startup_timeout_us; /**< 0: 10 s */
	bool p2p;                    /**< ask for the peer-to-peer model; needs rev 2 */
	struct weft_mpa_opts opts;
};

/**
 * Take over an established connection as initiator and send the Request. 0, -EINVAL (*attr),
 * -ENOBUFS, -ENOMEM, or an error of weft_tcp_send(). On an error the caller still owns the
 * connection and aborts it.
 */
int weft_mpa_start(struct weft_mpa *m, struct weft_tcp_conn *c, struct weft_sched *s,
                   const struct weft_mpa_attr *attr, const struct weft_mpa_ops *ops, void *user,
                   uint64_t now_ns);
/** Octets of the peer's start-up frame received so far; 0 after start-up. */
uint16_t weft_mpa_heard(const struct weft_mpa *m);

/**
 * Whether the last start-up with revision 2 ended as a responder of revision 1 ends it: it closed
 * without a frame, or its Reply had no enhanced data (RFC 6581 s10). Valid until the next start.
 */
static inline bool
weft_mpa_peer_is_rev1(const struct weft_mpa *m)
{
	return m->refused_rev2;
}
/** Take over an accepted connection as responder. On -ENOMEM the caller still owns it. */
int weft_mpa_respond(struct weft_mpa *m, struct weft_tcp_conn *c, struct weft_sched *s,
                     uint32_t startup_timeout_us, const struct weft_mpa_ops *ops, void *user,
                     uint64_t now_ns);
/**
 * Move a responder in REQ_RCVD from the connection request to its QP. `to` must be idle and takes
 * everything; `from` is idle afterwards. Octets that arrived behind the Request are parsed in a
 * later turn, after weft_mpa_accept().
 */
void weft_mpa_move(struct weft_mpa *to, struct weft_mpa *from, const struct weft_mpa_ops *ops,
                   void *user);
/** Responder, before it answers: set its options. *opts is copied. */
void weft_mpa_set_opts(struct weft_mpa *m, const struct weft_mpa_opts *opts);
/**
 * Accept a Request: send the Reply and enter full operation. Revision, enhanced data and
 * peer-to-peer model are those of the Request. ird and ord go into a Reply of revision 2. The
 * caller has bounded them (RFC 6581 s9.1); where the Request says WEFT_MPA_IRD_ORD_NONE, so does
 * the Reply. 0, -EINVAL (private data too long, a depth above 14 bits), -EBADFD (no Request waits),
 * -ENOBUFS (nothing was sent; try again), or an error of weft_tcp_send().
 */
int weft_mpa_accept(struct weft_mpa *m, uint16_t ird, uint16_t ord, const void *pdata,
                    uint16_t pdata_len_bytes, uint64_t now_ns);
/**
 * Reject a Request: reply with the reject bit. MPA ends and TCP stays open (RFC 5044 s7.1.2) until
 * weft_mpa_await_fin() or weft_mpa_close(). Octets of the peer are dropped; its FIN is answered.
 * Errors as weft_mpa_accept().
 */
int weft_mpa_reject(struct weft_mpa *m, uint16_t ird, uint16_t ord, const void *pdata,
                    uint16_t pdata_len_bytes, uint64_t now_ns);

/**
 * After weft_mpa_reject(): close when the peer closes, or after a second (half of the start-up
 * timeout if that is shorter). Some peers mistake a FIN with the Reply for the answer. `closed`
 * follows.
 */
void weft_mpa_await_fin(struct weft_mpa *m, uint64_t now_ns);

/** Whether an FPDU may start now. */
bool weft_mpa_tx_ready(const struct weft_mpa *m);
/**
 * Begin an FPDU with a ULPDU of exactly ulpdu_bytes (1..mulpdu_bytes; 0: an RTR). Returns where to
 * write the ULPDU (contiguous, inside the segment), valid until weft_mpa_tx_end(). NULL: no space,
 * or a responder may not send yet; `writable` follows.
 */
uint8_t *weft_mpa_tx_begin(struct weft_mpa *m, uint16_t ulpdu_bytes, uint64_t now_ns);
/** Finish the FPDU: pad, markers, CRC. */
void weft_mpa_tx_end(struct weft_mpa *m, uint64_t now_ns);
/** Discard the FPDU, instead of weft_mpa_tx_end(). */
void weft_mpa_tx_cancel(struct weft_mpa *m);
/** Whether a responder can never send an FPDU: the initiator's first FPDU was damaged, or its FIN
 * arrived without one. */
static inline bool
weft_mpa_tx_impossible(const struct weft_mpa *m)
{
	return (m->rx_dead || m->rx_eof) && !m->initiator && !m->peer_spoke;
}
/** Give the segment being built to TCP: no more FPDUs follow now. */
void weft_mpa_tx_flush(struct weft_mpa *m, uint64_t now_ns);

/** Flush and send our FIN; `closed` follows. During start-up no other up-call follows. */
void weft_mpa_close(struct weft_mpa *m, uint64_t now_ns);
/** Reset the connection at once; no up-call follows. */
void weft_mpa_abort(struct weft_mpa *m, uint64_t now_ns);
/** Free held mbufs and timers; reset the connection if it is open. May be repeated. */
void weft_mpa_fini(struct weft_mpa *m);

#endif /* WEFT_MPA_H */
