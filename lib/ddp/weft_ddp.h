/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_DDP_H
#define WEFT_DDP_H

/**
 * @file
 * DDP (RFC 5041): tagged and untagged segments, their headers, message
 * sequence numbers, segmentation and placement. Internal; rdmap above, mpa below.
 *
 * Placement is in order: TCP delivers in order and MPA hands up in order, so a
 * segment out of sequence is a fault of the peer.
 */

#include "weft_base.h"
#include "weft_mem.h"

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
	uint8_t version;    /**< DV; of what is sent, ddp writes it */
	uint8_t rsvd;       /**< reserved bits as received, where they stand; 0 on transmit */
	uint8_t rsvdulp;    /**< RDMAP control octet */
	uint32_t rsvdulp32; /**< untagged: the other four RsvdULP octets (Invalidate STag) */
	uint32_t stag;      /**< tagged */
	uint64_t to;
	uint32_t qn, msn, mo; /**< untagged */
};

/** Header octets consumed, or -ENODATA (shorter than its own kind of header). Version is not
 * judged here. */
int weft_ddp_hdr_decode(struct weft_cur *c, struct weft_ddp_hdr *h);
/** Octets written (14 or 18). */
unsigned int weft_ddp_hdr_encode(const struct weft_ddp_hdr *h, uint8_t *buf);

/**
 * What lib/rdmap implements; on the worker, in stream order. Any of them may abort or destroy the
 * stream; tagged() and untagged() must return 0 (tagged() must not do it at all) when they
 * destroyed it.
 */
struct weft_ddp_ops {
	/**
	 * A tagged segment, header checked for version, nothing placed yet: say which right the
	 * STag needs (*access), or -EPROTO with *term (unexpected opcode, RDMAP version...). ddp
	 * then checks STag, range and rights, places, and calls tagged_placed().
	 */
	int (*tagged)(void *user, const struct weft_ddp_hdr *h, uint32_t len_bytes,
	              uint32_t *access, struct weft_term *term);
	void (*tagged_placed)(void *user, const struct weft_ddp_hdr *h, uint32_t len_bytes,
	                      uint64_t now_ns);
	/**
	 * An untagged segment, its QN, MSN and MO in sequence. The payload is under c (len_bytes
	 * octets); rdmap copies it into the receive buffer or parses it. -EPROTO with *term refuses
	 * it.
	 */
	int (*untagged)(void *user, const struct weft_ddp_hdr *h, struct weft_cur *c,
	                uint32_t len_bytes, struct weft_term *term, uint64_t now_ns);
	/**
	 * A fault of the peer in a segment (from MPA, DDP, or what the two calls above refused). h
	 * is NULL when no header could be had (CRC error). hdr/hdr_bytes: the segment's first
	 * octets as received, DDP header and then up to 28 of payload, for the Terminate. Nothing
	 * is handed up after it.
	 */
	void (*fault)(void *user, const struct weft_term *term, const struct weft_ddp_hdr *h,
	              const uint8_t *hdr, unsigned int hdr_bytes, uint32_t seg_bytes,
	              uint64_t now_ns);
	/** A segment behind a fault was dropped. May be NULL. */
	void (*dropped)(void *user);
	/** Initiator start-up: MPA's reply, passed through. */
	void (*reply)(void *user, const struct weft_mpa_frame *rep);
	void (*writable)(void *user);
	void (*eof)(void *user);
	void (*closed)(void *user, int err);
};

/** Embedded in rdmap. */
struct weft_ddp {
	/** the stream below; connection management starts, accepts and asks it */
	struct weft_mpa *mpa;
	struct weft_mem *mem;
	/** this stream's: what it may use of its domain, and its windows */
	struct weft_mem_pd scope;
	const struct weft_ddp_ops *ops;
	void *user;
	/** MSN of the message being sent; starts at 1 (RFC 5041 s5.1) */
	uint32_t tx_msn[WEFT_DDP_NQN];
	uint32_t rx_msn[WEFT_DDP_NQN]; /**< MSN expected */
	uint32_t rx_mo[WEFT_DDP_NQN];  /**< MO expected */
	bool faulted;                  /**< drop everything that still comes; rdmap sets it, too */
};

/** Octets of a struct weft_mpa, for the owner of a weft_ddp to set aside. */
size_t weft_ddp_mpa_bytes(void);
/** mpa: room of so many octets, zero-filled, as long as d lives. */
void weft_ddp_init(struct weft_ddp *d, struct weft_mpa *mpa, struct weft_mem *mem,
                   struct weft_mem_pd *pd, const struct weft_ddp_ops *ops, void *user);
/** Free what MPA holds; reset the connection if it still lives. May be repeated. */
void weft_ddp_fini(struct weft_ddp *d);
/**
 * The table to give MPA, with the weft_ddp as user: weft_mpa_start(d->mpa, ..., &weft_ddp_mpa_ops,
 * d) for an initiator, weft_mpa_move(d->mpa, &request->mpa, &weft_ddp_mpa_ops, d) for a responder.
 */
extern const struct weft_mpa_ops weft_ddp_mpa_ops;

/** Payload octets one segment carries now. */
uint32_t weft_ddp_max_payload(const struct weft_ddp *d, bool tagged);
/**
 * Begin a segment: header is written (MSN and MO from h->mo for untagged: MSN is filled in here and
 * moves on when h->last), returns where len_bytes of payload go, or NULL (no space: `writable`
 * follows).
 */
uint8_t *weft_ddp_tx_begin(struct weft_ddp *d, struct weft_ddp_hdr *h, uint32_t len_bytes,
                           uint64_t now_ns);
void weft_ddp_tx_end(struct weft_ddp *d, uint64_t now_ns);
/** Instead of weft_ddp_tx_end(), with the header of weft_ddp_tx_begin(): the segment never was. */
void weft_ddp_tx_cancel(struct weft_ddp *d, const struct weft_ddp_hdr *h);
void weft_ddp_tx_flush(struct weft_ddp *d, uint64_t now_ns);
/** Send an empty FPDU, which is a ready-to-receive indication (RFC 6581 s9.2). False: no space. */
bool weft_ddp_tx_rtr(struct weft_ddp *d, uint64_t now_ns);
/** Whether no segment can ever be sent: weft_mpa_tx_impossible(). */
bool weft_ddp_tx_impossible(const struct weft_ddp *d);

/** Whether there is a connection below. */
bool weft_ddp_is_open(const struct weft_ddp *d);
/** Whether this side asked for the connection. */
bool weft_ddp_is_initiator(const struct weft_ddp *d);
/** FPDUs received without a fault, and sent. */
uint64_t weft_ddp_fpdus_in(const struct weft_ddp *d);
uint64_t weft_ddp_fpdus_out(const struct weft_ddp *d);
/** Send what is queued, then close our direction; `closed` follows. */
void weft_ddp_close(struct weft_ddp *d, uint64_t now_ns);
/** Reset at once; no up-call follows. */
void weft_ddp_abort(struct weft_ddp *d, uint64_t now_ns);

#endif /* WEFT_DDP_H */
