/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_MPA_STARTUP_H
#define WEFT_MPA_STARTUP_H

/**
 * @file
 * Start-up of an MPA stream (RFC 5044 s7, RFC 6581): an initiator sends the Request, and a
 * responder answers it. Every call runs on the connection's worker.
 */

#include "weft_mpa.h"
#include "weft_mpa_frame.h"

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
	/** with markers and CRC: hand up ULPDUs behind a gap (struct weft_mpa_ops, ulpdu_ahead) */
	bool place_ahead;
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

#endif /* WEFT_MPA_STARTUP_H */
