/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_MPA_H
#define WEFT_MPA_H

/**
 * @file
 * An MPA stream (RFC 5044): FPDUs, markers, CRC32c. Internal header, between tcp and ddp. Every
 * call and every up-call runs on the connection's worker.
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
 *
 * weft_mpa_startup.h leads to full operation, by the frames of weft_mpa_frame.h.
 */

#include "weft_base.h"
#include "weft_mpa_keep.h"
#include "weft_sched.h"

struct rte_mbuf;
struct weft_mpa_frame;
struct weft_netif_budget;
struct weft_tcp_conn;

#define WEFT_MPA_MAX_ULPDU 65535
/** An FPDU in more mbufs than this is copied into one buffer first (fpdus_compacted). */
#define WEFT_MPA_MAX_FRAGS 64
/** Most markers in an FPDU. Each adds a fragment to its ULPDU. */
#define WEFT_MPA_MAX_MARKERS 130

/** Octets of a ULPDU that are kept when it goes up ahead: a DDP header of a tagged segment. */
#define WEFT_MPA_AHEAD_HEAD_BYTES 14

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
	 * One ULPDU behind a gap of the stream, its CRC and markers checked: the stream octets
	 * [seq, end_seq) as TCP numbers them. Places what may be placed before its turn, and
	 * returns true; ulpdu_placed() follows in stream order, unless the stream ends or TCP drops
	 * the octets. Then, and after false, ulpdu() follows. A ULPDU may come more than once. Must
	 * not end the stream. NULL: nothing goes up ahead.
	 */
	bool (*ulpdu_ahead)(void *user, const struct weft_frag *frag, unsigned int nfrags,
	                    uint32_t len_bytes, uint32_t seq, uint32_t end_seq);
	/** In place of ulpdu(): the turn of a ULPDU that ulpdu_ahead() has taken. head: its first
	 * WEFT_MPA_AHEAD_HEAD_BYTES octets. */
	void (*ulpdu_placed)(void *user, const uint8_t *head, uint32_t len_bytes, uint32_t seq,
	                     uint32_t end_seq, uint64_t now_ns);
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
	uint64_t fpdus_ahead; /**< handed up behind a gap */
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
	bool place_ahead;  /**< weft_mpa_opts.place_ahead */
	bool up_compacted; /**< the ULPDU that is up is no longer among the received octets */
	bool p2p;          /**< peer-to-peer: the initiator's first FPDU is its RTR */
	uint8_t rtr;       /**< initiator: the WEFT_MPA_RTR_* form to send; 0: none agreed */
	uint8_t rev;
	bool refused_rev2; /**< see weft_mpa_peer_is_rev1() */
	/** with markers: stream octets since full operation, modulo 512 */
	uint16_t rx_pos, tx_pos;
	bool rx_dead;      /**< a fault was detected: later octets are dropped */
	bool rx_eof;       /**< the peer's FIN has arrived at an FPDU boundary */
	bool tx_closed;    /**< our FIN is queued */
	bool compact_used; /**< `compact` was used since the timer last fired */
	bool waits;        /**< an FPDU is incomplete */
	bool shed;         /**< drain_task has to report the fault of a shed FPDU */
	uint16_t mulpdu_bytes;
	/* transmit */
	struct rte_mbuf *seg;      /**< segment being filled, or NULL */
	uint8_t *fpdu;             /**< FPDU being written in it, or NULL */
	uint16_t fpdu_ulpdu_bytes; /**< its ULPDU length */
	/** octets of it with a CRC and a sum, by weft_mpa_tx_copy(); 0: not begun */
	uint16_t fpdu_crc_bytes;
	uint32_t fpdu_crc;       /**< of these octets */
	uint32_t fpdu_sum;       /**< the sum of them, if the segment wants it */
	uint32_t seg_room_bytes; /**< octets still free in the segment */
	/* receive */
	/** received octets not yet handed up: mbufs of one segment each, linked by next */
	struct rte_mbuf *held_head, *held_tail;
	uint32_t held_bytes, held_segs;
	/** record of the receive loop on the stack; weft_mpa_release() tells it */
	struct mpa_drain *drain;
	uint32_t compact_bytes; /**< octets in `compact`, which go before those held */
	uint32_t lent_segs;     /**< mbufs of held_segs that are charged to the port's budget */
	/* less often used */
	struct weft_mpa_stats stats;
	uint32_t need_bytes; /**< length of the FPDU at the head, with markers */
	/** buffer that an FPDU in too many pieces is copied to; allocated on need, freed at rest */
	uint8_t *compact;
	/** parses octets that arrived behind a Request, and reports a shed FPDU */
	struct weft_task drain_task;
	struct mpa_startup *su; /**< frames and timeout, until full operation */
	/** timer of the start-up; after a reject or close in start-up, of the peer's close; in full
	 * operation, of incomplete FPDUs */
	struct weft_timer startup;
	/* memory of an incomplete FPDU (mpa_keep.c) */
	struct weft_netif_budget *budget; /**< the port's budget of mbufs; NULL: not yet known */
	uint32_t compact_size_bytes;      /**< size of `compact` */
	uint32_t keep_bytes;              /**< octets of it charged to the worker's heap budget */
	uint32_t fpdu_timeout_us;
	uint64_t begun_ns, got_ns; /**< incomplete FPDU: time of its first and latest octets */
	TAILQ_ENTRY(weft_mpa) keep_link; /**< while keep_bytes > 0 */
};

/**
 * Begin an FPDU with a ULPDU of exactly ulpdu_bytes (1..mulpdu_bytes; 0: an RTR). Returns where to
 * write the ULPDU (contiguous, inside the segment), valid until weft_mpa_tx_end(). NULL: no space,
 * or a responder may not send yet; `writable` follows.
 */
uint8_t *weft_mpa_tx_begin(struct weft_mpa *m, uint16_t ulpdu_bytes, uint64_t now_ns);
/**
 * Copy len_bytes of the ULPDU to dst, a place in what weft_mpa_tx_begin() returned. Where the
 * processor can, the CRC is computed in the same pass, over what is stored, and so is the sum for
 * TCP's checksum if netif has to compute that (struct weft_mbuf_sum). So all octets before
 * dst have their final content, and none up to dst + len_bytes is written afterwards. At most once
 * for an FPDU.
 */
void weft_mpa_tx_copy(struct weft_mpa *m, uint8_t *dst, const void *src, uint32_t len_bytes);
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
/** TCP's number of the first octet of the FPDU that is up by ulpdu(). */
uint32_t weft_mpa_fpdu_seq(const struct weft_mpa *m);
/** Give the segment being built to TCP: no more FPDUs follow now. */
void weft_mpa_tx_flush(struct weft_mpa *m, uint64_t now_ns);

/** Flush and send our FIN; `closed` follows. During start-up no other up-call follows. */
void weft_mpa_close(struct weft_mpa *m, uint64_t now_ns);
/** Reset the connection at once; no up-call follows. */
void weft_mpa_abort(struct weft_mpa *m, uint64_t now_ns);
/** Free held mbufs and timers; reset the connection if it is open. May be repeated. */
void weft_mpa_fini(struct weft_mpa *m);

#endif /* WEFT_MPA_H */
