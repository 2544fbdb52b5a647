/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PORTD_SWITCH_H
#define PORTD_SWITCH_H

/**
 * @file Where a frame goes: to which process, to the wire, or to the daemon's own stack. It sorts
 * as the members of a group do (netif_steer_look() of lib/netif), with the owner of the local port
 * as the owner of a segment. Nothing here keeps a frame or changes it.
 *
 * Neither the wire nor a process is trusted: a frame is looked at where it is present, and no
 * further.
 */

#include <stdbool.h>
#include <stdint.h>

#include "portd_table.h"

struct rte_mbuf;

#define PORTD_ADDRS6 2 /**< global or unique-local, and link-local */

/** What the device and its processes have in common. Addresses are in the network's order. */
struct portd_switch {
	const struct portd_table *table; /**< its owners are read */
	uint8_t mac[6];
	uint16_t vlan_id; /**< 0: untagged */
	uint16_t mtu_bytes;
	bool has_ipv4;
	uint8_t ipv4[4];
	unsigned int nipv6;
	uint8_t ipv6[PORTD_ADDRS6][16];
};

enum portd_to {
	PORTD_TO_DAEMON, /**< the daemon's own stack, which answers, refuses or counts it */
	PORTD_TO_PROC,   /**< *proc */
	PORTD_TO_ALL,    /**< every process, and the daemon's stack */
	PORTD_TO_WIRE,
	PORTD_TO_RESET, /**< the process that has sent it gets portd_switch_reset() */
	PORTD_TO_DROP,  /**< for enum portd_why */
};

/** Why a frame of a process is dropped. */
enum portd_why {
	PORTD_WHY_LENGTH, /**< too short for a header, or longer than the MTU allows */
	PORTD_WHY_MAC,    /**< its source is not the device's, or its destination is wrong */
	PORTD_WHY_VLAN,
	PORTD_WHY_ADDR,  /**< its source is not the shared address */
	PORTD_WHY_PORT,  /**< its local port is not the process' */
	PORTD_WHY_NEIGH, /**< ARP or Neighbor Discovery that only the daemon may send */
	PORTD_WHY_OTHER, /**< neither a whole TCP segment nor a question for a neighbour */
	PORTD_WHYS
};

/** A frame of the device. *proc: of PORTD_TO_PROC. Polling thread. */
enum portd_to portd_switch_in(const struct portd_switch *s, const struct rte_mbuf *m,
                              uint32_t *proc);
/** A frame of process `from`. *proc: of PORTD_TO_PROC; *why: of PORTD_TO_DROP. Polling thread. */
enum portd_to portd_switch_out(const struct portd_switch *s, uint32_t from,
                               const struct rte_mbuf *m, uint32_t *proc, enum portd_why *why);

/** Octets that a reset has at most: a tag, IPv6 and TCP. */
#define PORTD_RESET_BYTES (14U + 4U + 40U + 20U)
/**
 * Makes the answer to a segment for a port that no process has (RFC 9293 s3.10.7.1), as a frame.
 * `m` got the verdict PORTD_TO_RESET. Returns the octets of `out`, or 0: a segment with RST is not
 * answered. Polling thread.
 */
unsigned int portd_switch_reset(const struct rte_mbuf *m, uint8_t out[PORTD_RESET_BYTES]);

#endif /* PORTD_SWITCH_H */
