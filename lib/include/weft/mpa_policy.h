/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_MPA_POLICY_H
#define WEFT_MPA_POLICY_H

/**
 * @file What a program may choose about MPA (RFC 5044, RFC 6581) for a context, a listener or a
 * connection. Installed; stands alone.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/api.h>

WEFT_API_BEGIN

/* Forms of the ready-to-receive (RTR) indication, as a mask (RFC 6581 s9.2). */
#define WEFT_RTR_FPDU  0x1 /**< zero-length FPDU */
#define WEFT_RTR_WRITE 0x2 /**< zero-length RDMA Write */
#define WEFT_RTR_READ  0x4 /**< zero-length RDMA Read; counts against the responder's IRD */

/** A member that is zero has its default. */
struct weft_mpa_policy {
	size_t size; /**< sizeof(struct weft_mpa_policy) */
	/**
	 * Initiator: MPA revision, 1 or 2. [0]: revision 2; if the responder closes the connection
	 * without a Reply, or replies without the enhanced data, one more attempt with revision 1
	 * (RFC 6581 s10). In revision 1 the ULPs agree on IRD and ORD. A responder speaks both
	 * revisions.
	 */
	uint32_t rev;
	/**
	 * Initiator: ask for the peer-to-peer model, in which the responder may send first. The
	 * initiator sends an RTR before anything that is posted. Revision 2 only, so there is no
	 * second attempt with revision
	 * 1. If the two sides agree on no RTR, the connection ends with Terminate 2/0/07. A
	 *    responder always grants the model.
	 */
	bool p2p;
	/** WEFT_RTR_*, [0: all]. Initiator: forms to offer. Responder: forms to accept. */
	uint32_t rtr;
	/**
	 * this side wants to receive markers (RFC 5044 s4.3); the peer decides for its own
	 * direction
	 */
	bool markers;
	/**
	 * Do not use CRC if the peer does not want it either. CRC is used when one side wants it.
	 * RFC 5044 s4.4 allows this only where something at least as strong protects the path from
	 * end to end.
	 */
	bool no_crc;
	/**
	 * Initiator: the ULPs agree on IRD and ORD. Revision 2 then carries 0x3fff (RFC 6581 s9.1).
	 * Without p2p nothing of revision 2 is needed: the initiator speaks revision 1 at once, and
	 * rev 2 is refused with -EINVAL (s10).
	 */
	bool own_depths;
	/**
	 * [60000000] The connection ends with a Terminate (local catastrophic error, RFC 5044 s8)
	 * if the peer has begun an FPDU and then sends no octet of it for this time, or does not
	 * complete it in four times this time. Checked once a second.
	 */
	uint32_t fpdu_timeout_us;
	/**
	 * Place RDMA Writes that arrive behind a lost packet at once, not when the packet was sent
	 * again (RFC 5041 s5.3). Sends, Reads, Flushes and all else keep their turn, and so do
	 * completions and errors. This side then asks for markers, by which the Writes are found;
	 * nothing is placed early on a stream without CRC. What Writes and Sends store ends up
	 * as if it had been stored in the order sent. But a program that looks at the memory before
	 * it is told (RFC 5040 s5.5 rule 5) may see the end of a Write before its beginning.
	 */
	bool place_ahead;
};

/** What the two sides agreed on. */
struct weft_mpa_info {
	uint8_t rev;
	bool p2p;
	uint8_t rtr; /**< the WEFT_RTR_* that this side sends as initiator; 0: none */
	bool crc;
	bool rx_markers, tx_markers;
};

WEFT_API_END

#endif /* WEFT_MPA_POLICY_H */
