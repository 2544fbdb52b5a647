/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_FPDU_H
#define NETIF_FPDU_H

/**
 * @file
 * Which FPDUs a TCP segment has, for the opcode filter of a capture. A capture sees packets only:
 * it follows the MPA streams of the connections itself, by their sequence numbers.
 *
 * Of each direction of a connection one place is remembered: where the next FPDU begins. It is
 * known from the connection's start-up frames (RFC 5044 s7.1), or from a segment of which a chain
 * of FPDUs, each with the versions and lengths of RFC 5041 s4 and RFC 5040 s4, is a whole part. A
 * single header is believed when another one stands where its length says. A hole (a lost or a late
 * segment) ends this knowledge until the next such chain.
 */

#include <stdbool.h>
#include <stdint.h>

#include "weft_base.h"

struct rte_mbuf;

/** Beside the opcodes: octets of a start-up frame, the MPA Request or Reply (RFC 5044 s7.1.1). */
#define NETIF_FPDU_STARTUP (1u << 31)

/** The directions of connections that the interfaces of one queue have; one thread at a time. */
struct netif_fpdu_flows;

/** A TCP segment. */
struct netif_fpdu_seg {
	struct weft_ip src, dst;
	uint16_t sport, dport;
	bool syn;
	uint32_t seq; /**< of the first octet of payload */
	uint32_t len; /**< octets of payload */
	const struct rte_mbuf *m;
	uint32_t off; /**< of the payload in m */
};

/** Octets of a table, for an allocation that is all zero. */
size_t netif_fpdu_flows_size(void);
/** Forget all connections. */
void netif_fpdu_forget(struct netif_fpdu_flows *fl);
/**
 * The RDMAP opcodes, bit N for opcode N, of the FPDUs that have octets in this segment, as far as
 * known, and NETIF_FPDU_STARTUP. *unknown: there are octets of which the FPDU is not known.
 */
uint32_t netif_fpdu_opcodes(struct netif_fpdu_flows *fl, const struct netif_fpdu_seg *g,
                            bool *unknown);

#endif /* NETIF_FPDU_H */
