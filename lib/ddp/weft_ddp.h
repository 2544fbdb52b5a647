/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_DDP_H
#define WEFT_DDP_H

/**
 * @file
 * DDP (RFC 5041): tagged and untagged segments, their headers, message sequence numbers,
 * segmentation and placement.
 *
 * Internal header. rdmap is the layer above and mpa is the layer below. Every call and every
 * up-call runs on the connection's worker. TCP and MPA deliver in order, so a segment out of
 * sequence is a fault of the peer. Placement is in order, too, unless weft_mpa_opts.place_ahead
 * lets tagged segments be placed behind a gap (ddp_ahead.h). What they do beyond placement, faults
 * included, happens in their turn.
 */

#include "weft_base.h"
#include "weft_mem.h"

struct ddp_ahead;
struct weft_mpa;
struct weft_mpa_frame;
struct weft_mpa_ops;

#define WEFT_DDP_TAGGED_HDR_BYTES   14 /* RFC 5041 s4.2: control, RsvdULP, STag, TO */
#define WEFT_DDP_UNTAGGED_HDR_BYTES 18 /* RFC 5041 s4.3: control, RsvdULP(5), QN, MSN, MO */

/* Queue numbers (RFC 5040 s4.4.., draft-talpey-rdma-commit-02 Figure 2). */
#define WEFT_DDP_QN_SEND 0
#define WEFT_DDP_QN_READ 1
#define WEFT_DDP_QN_TERM 2
#define WEFT_DDP_QN_RESP 3
#define WEFT_DDP_NQN     4

/** A DDP header in host order. */
struct weft_ddp_hdr {
	bool tagged, last;
	uint8_t version;    /**< DV; weft_ddp_tx_begin() sets it */
	uint8_t rsvd;       /**< reserved bits of the control octet, not shifted; 0 on transmit */
	uint8_t rsvdulp;    /**< RDMAP control octet */
	uint32_t rsvdulp32; /**< untagged: the other four RsvdULP octets (Invalidate STag) */
	uint32_t stag;      /**< tagged */
	uint64_t to;
	uint32_t qn, msn, mo; /**< untagged */
};

/**
 * Up-calls to rdmap, on the worker, in stream order. An up-call may abort or destroy the stream,
 * except tagged(), which must not. untagged() must return 0 when it destroyed the stream.
 */
struct weft_ddp_ops {
	/**
	 * A tagged segment has arrived. Its DDP version is checked and nothing is placed yet.
	 * Return 0 and the right that the STag needs in *access. ddp then checks STag, range and
	 * rights, places the payload, and calls tagged_placed(). -EPROTO with *term refuses the
	 * segment (unexpected opcode, RDMAP version, ...).
	 */
	int (*tagged)(void *user, const struct weft_ddp_hdr *h, uint32_t len_bytes,
	              uint32_t *access, struct weft_term *term);
	void (*tagged_placed)(void *user, const struct weft_ddp_hdr *h, uint32_t len_bytes,
	                      uint64_t now_ns);
	/** A segment that weft_ddp_expect() describes was placed, without a call of tagged(). */
	void (*written)(void *user, uint32_t len_bytes, bool last);
	/**
	 * A tagged segment has arrived in one piece, while weft_ddp_expect() is in force. It has
	 * len_bytes of payload, at least 1, and is not of the kind that written() is for. The right
	 * that the STag needs: it is an answer that rdmap awaits, and may be placed. 0: tagged()
	 * is asked, or says what is wrong. Changes nothing.
	 */
	uint32_t (*answer)(void *user, uint8_t rsvdulp, bool last, uint32_t stag, uint64_t to,
	                   uint32_t len_bytes);
	/** That segment was placed, without a call of tagged(). */
	void (*answered)(void *user, uint32_t len_bytes, bool last);
	/**
	 * A whole message in one untagged segment that weft_ddp_expect() describes has arrived, of
	 * len_bytes at p, valid during the call. True: rdmap took it, as untagged() does. False: it
	 * changed nothing that matters, and untagged() follows.
	 */
	bool (*sent)(void *user, const uint8_t *p, uint32_t len_bytes);
	/**
	 * The same on queue WEFT_DDP_QN_READ. seg: the segment, header included; the message has
	 * len_bytes.
	 */
	bool (*asked)(void *user, const uint8_t *seg, uint32_t len_bytes);
	/**
	 * A tagged segment has arrived behind a gap. False: it waits for its turn. True, with the
	 * right in *access: ddp may place it now; tagged() and tagged_placed() follow in its turn.
	 * Changes nothing. May be NULL.
	 */
	bool (*tagged_ahead)(void *user, const struct weft_ddp_hdr *h, uint32_t *access);
	/**
	 * An untagged segment has arrived. Its QN, MSN and MO are in sequence. The cursor c is at
	 * the payload of len_bytes, valid during the call. rdmap copies it into the receive buffer
	 * or parses it. -EPROTO with *term refuses the segment.
	 */
	int (*untagged)(void *user, const struct weft_ddp_hdr *h, struct weft_cur *c,
	                uint32_t len_bytes, struct weft_term *term, uint64_t now_ns);
	/**
	 * A segment had a fault: MPA or DDP detected it, or tagged() or untagged() refused the
	 * segment. h is NULL when the header is not known (CRC error). hdr: the first hdr_bytes of
	 * the segment as received, the DDP header and up to 28 octets of payload, for the
	 * Terminate; valid during the call. Later segments are dropped.
	 */
	void (*fault)(void *user, const struct weft_term *term, const struct weft_ddp_hdr *h,
	              const uint8_t *hdr, unsigned int hdr_bytes, uint32_t seg_bytes,
	              uint64_t now_ns);
	/** A segment after a fault was dropped. May be NULL. */
	void (*dropped)(void *user);
	/** The same as in struct weft_mpa_ops: reply, writable, eof, closed. */
	void (*reply)(void *user, const struct weft_mpa_frame *rep);
	void (*writable)(void *user);
	void (*eof)(void *user);
	void (*closed)(void *user, int err);
};

/** Embedded in rdmap. A received Write uses the first 64 octets. */
struct weft_ddp {
	/** the stream below; connection management starts, accepts and queries it */
	struct weft_mpa *mpa;
	struct weft_mem *mem;
	const struct weft_ddp_ops *ops;
	void *user;
	bool faulted; /**< drop later segments; ddp and rdmap set it */
	/** RsvdULP octet of the messages that sent() takes; 0: none */
	uint8_t expect_send;
	/** first two octets of a segment of weft_ddp_expect(), without the L bit; 0: none */
	uint16_t expect_ctrl;
	uint32_t expect_access;
	struct ddp_ahead *ahead; /**< what is placed before its turn; NULL: nothing */
	/** this stream's scope: its protection domain, and the windows bound to the stream */
	struct weft_mem_pd scope;
	/** MSN of the message being sent; starts at 1 (RFC 5041 s5.1) */
	uint32_t tx_msn[WEFT_DDP_NQN];
	uint32_t rx_msn[WEFT_DDP_NQN]; /**< MSN expected */
	uint32_t rx_mo[WEFT_DDP_NQN];  /**< MO expected */
	/** RsvdULP octet of the messages that asked() takes; 0: none */
	uint8_t expect_ask;
};

/** Size of a struct weft_mpa, which the owner of a weft_ddp allocates. */
size_t weft_ddp_mpa_bytes(void);
/** mpa: zero-filled, weft_ddp_mpa_bytes() long. The caller owns it and keeps it as long as d. */
void weft_ddp_init(struct weft_ddp *d, struct weft_mpa *mpa, struct weft_mem *mem,
                   struct weft_mem_pd *pd, const struct weft_ddp_ops *ops, void *user);
/** Free the memory that MPA holds, and reset the connection if it is open. May be repeated. */
void weft_ddp_fini(struct weft_ddp *d);
/**
 * Tagged segments whose RsvdULP octet is rsvdulp need no call of tagged() from now on: they are
 * placed with the right `access`, and written() is called. 0: none. For the usual segment, an RDMA
 * Write. Messages of one segment on queue 0 whose RsvdULP octet is `send` are offered to sent(), on
 * queue 1 with the octet `ask` to asked(). 0: none.
 */
void weft_ddp_expect(struct weft_ddp *d, uint8_t rsvdulp, uint32_t access, uint8_t send,
                     uint8_t ask);

/**
 * DDP's up-calls from MPA; `user` is the weft_ddp. An initiator calls weft_mpa_start(d->mpa, ...,
 * &weft_ddp_mpa_ops, d). A responder calls weft_mpa_move(d->mpa, &request->mpa, &weft_ddp_mpa_ops,
 * d).
 */
extern const struct weft_mpa_ops weft_ddp_mpa_ops;

/** Payload octets that one segment carries at most, by the present MULPDU. */
uint32_t weft_ddp_max_payload(const struct weft_ddp *d, bool tagged);
/**
 * Begin a segment and write its header. Untagged: the caller sets h->mo; this function sets h->msn,
 * and advances the queue's MSN when h->last is true. Returns where the caller writes len_bytes of
 * payload, valid until weft_ddp_tx_end(). NULL: no space; `writable` follows.
 */
uint8_t *weft_ddp_tx_begin(struct weft_ddp *d, struct weft_ddp_hdr *h, uint32_t len_bytes,
                           uint64_t now_ns);
/** A whole message in one segment, from contiguous memory. */
struct weft_ddp_msg {
	const uint8_t *src;
	uint64_t to;        /**< tagged */
	uint32_t len_bytes; /**< at most weft_ddp_max_payload() */
	uint32_t stag;      /**< untagged: weft_ddp_hdr.rsvdulp32 */
	uint8_t rsvdulp;
	bool tagged;
	uint8_t qn; /**< untagged: WEFT_DDP_QN_SEND or WEFT_DDP_QN_READ */
};

/**
 * Pack messages into the TCP segment that is under construction: the usual case within a burst of
 * short Writes and Sends. Returns how many of the n, from the first on: those that fit. None if
 * there is no such TCP segment, or some medium of the process is lost (src may be of it); use
 * weft_ddp_tx_begin() then.
 */
unsigned int weft_ddp_tx_pack(struct weft_ddp *d, const struct weft_ddp_msg *msg, unsigned int n);
/** Octets that are free in that TCP segment. The FPDU of a message has WEFT_DDP_MSG_MIN_BYTES more
 * than its payload, or some more. */
uint32_t weft_ddp_tx_room(const struct weft_ddp *d);
#define WEFT_DDP_MSG_MIN_BYTES (WEFT_DDP_TAGGED_HDR_BYTES + 6) /* length field, CRC */
/** Write the payload that weft_ddp_tx_begin() returned dst for, all of it at once. The source may
 * change meanwhile: the CRC is that of the copy. */
void weft_ddp_tx_copy(struct weft_ddp *d, uint8_t *dst, const void *src, uint32_t len_bytes);
/** Finish the segment: its payload is written. */
void weft_ddp_tx_end(struct weft_ddp *d, uint64_t now_ns);
/** Discard the segment, instead of weft_ddp_tx_end(). h: as weft_ddp_tx_begin() left it. */
void weft_ddp_tx_cancel(struct weft_ddp *d, const struct weft_ddp_hdr *h);
/** Give the TCP segment being filled to TCP: no more segments follow now. */
void weft_ddp_tx_flush(struct weft_ddp *d, uint64_t now_ns);
/** Send an empty FPDU, which is a ready-to-receive indication (RFC 6581 s9.2). False: no space. */
bool weft_ddp_tx_rtr(struct weft_ddp *d, uint64_t now_ns);
/** Whether no segment can ever be sent: weft_mpa_tx_impossible(). */
bool weft_ddp_tx_impossible(const struct weft_ddp *d);

/** weft_ddp_copy() while others are placed ahead. */
int weft_ddp_copy_turn(struct weft_ddp *d, uint8_t *dst, struct weft_cur *c, uint32_t len_bytes);
/**
 * Copy octets of the untagged segment that is up to memory, but not over octets that a later
 * segment has placed. -ENODATA: fewer are left, nothing was copied.
 */
static inline int
weft_ddp_copy(struct weft_ddp *d, uint8_t *dst, struct weft_cur *c, uint32_t len_bytes)
{
	if (likely(d->ahead == NULL))
		return weft_cur_read(c, dst, len_bytes);
	return weft_ddp_copy_turn(d, dst, c, len_bytes);
}

/** Whether there is a connection below. */
bool weft_ddp_is_open(const struct weft_ddp *d);
/** Whether this side is MPA's initiator. */
bool weft_ddp_is_initiator(const struct weft_ddp *d);
/** FPDUs received without a fault. */
uint64_t weft_ddp_fpdus_in(const struct weft_ddp *d);
/** FPDUs sent. */
uint64_t weft_ddp_fpdus_out(const struct weft_ddp *d);
/** Send queued segments, then FIN; `closed` follows. */
void weft_ddp_close(struct weft_ddp *d, uint64_t now_ns);
/** Reset the connection at once; no up-call follows. */
void weft_ddp_abort(struct weft_ddp *d, uint64_t now_ns);

#endif /* WEFT_DDP_H */
