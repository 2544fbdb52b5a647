/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_MPA_POLICY_H
#define WEFT_MPA_POLICY_H

/**
 * @file
 * What a program may choose about MPA (RFC 5044, RFC 6581), per context, listener or
 * connection. Installed; stands alone.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/api.h>

WEFT_API_BEGIN

/* Forms of the ready-to-receive indication, as a mask (RFC 6581 s9.2). */
#define WEFT_RTR_FPDU  0x1 /**< zero-length FPDU */
#define WEFT_RTR_WRITE 0x2 /**< zero-length RDMA Write */
#define WEFT_RTR_READ  0x4 /**< zero-length RDMA Read; takes a place of the responder's IRD */

/** Every member that is zero has its default. */
struct weft_mpa_policy {
	size_t size; /**< sizeof(struct weft_mpa_policy) */
	/**
	 * Initiator: 1 or 2; [0]: 2, and once more with 1 when the responder closes the connection
	 * without a word or answers without the enhanced data (RFC 6581 s10). In revision 1 IRD and
	 * ORD are the ULPs' to agree on. A responder speaks both.
	 */
	uint32_t rev;
	/**
	 * Initiator: ask for the peer-to-peer model, in which the responder may send first: an RTR
	 * goes out before anything that is posted. Revision 2 only: there is no second attempt.
	 * Where no RTR is agreed the connection ends by Terminate 2/0/07. A responder grants it
	 * when it is asked.
	 */
	bool p2p;
	uint32_t rtr; /**< WEFT_RTR_*: initiator: to offer; responder: to take; [0: all] */
	/** want to receive markers (RFC 5044 s4.3); the peer decides on the other direction */
	bool markers;
	/**
	 * Do without CRC if the peer does, too. RFC 5044 s4.4: only where something at least as
	 * strong protects the path from end to end. CRC is on when either side wants it.
	 */
	bool no_crc;
	/**
	 * Initiator: leave IRD and ORD to the ULPs: 0x3fff in revision 2 (RFC 6581 s9.1). Without
	 * p2p nothing is left to ask of it then: revision 1 is spoken at once, rev 2 is -EINVAL
	 * (s10).
	 */
	bool own_depths;
	/**
	 * [60000000] microseconds. A connection ends, with a Terminate (local catastrophic error,
	 * RFC 5044 s8), when the peer has begun an FPDU and sends no further octet of it for so
	 * long, or does not complete it in four times that. Looked at once a second.
	 */
	uint32_t fpdu_timeout_us;
};

/** What both sides agreed on. */
struct weft_mpa_info {
	uint8_t rev;
	bool p2p;
	uint8_t rtr; /**< the one WEFT_RTR_* that this side sends as initiator; 0: none */
	bool crc;
	bool rx_markers, tx_markers;
};

WEFT_API_END

#endif /* WEFT_MPA_POLICY_H */
