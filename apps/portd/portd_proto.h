/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PORTD_PROTO_H
#define PORTD_PROTO_H

/**
 * @file What weft-portd and a process that shares its address say to each other. It stands alone.
 *
 * The control socket is a Unix socket of packets (SOCK_SEQPACKET). A message is one structure of
 * this file in one packet, in the machine's order of octets: both sides run on one machine. A
 * process sends struct portd_request, and each is answered by one struct portd_answer, in order.
 * The first request is PORTD_HELLO, and there is one of it. A request that the daemon cannot read
 * (wrong length, magic, version or type, or a second PORTD_HELLO) ends the process' part.
 *
 * When the socket is closed, which the end of a process does, the process' part ends: its net_memif
 * is removed, and its ports are no one's. They are *dead* for the time of TIME-WAIT before another
 * process gets them for its active opens. When the daemon is gone, the process reads the end of the
 * socket.
 *
 * Frames go over a net_memif: the daemon is its server, the process is its client. Frames are as on
 * the wire, with the MAC address and the addresses of the answer to PORTD_HELLO.
 */

#include <assert.h>
#include <stdint.h>

#define PORTD_MAGIC   0x64707477U /**< "wtpd" */
#define PORTD_VERSION 1

/** Dynamic ports (RFC 6335 s6), which are given to processes in blocks, for their active opens. */
#define PORTD_DYNAMIC_FIRST 49152U
#define PORTD_DYNAMIC_COUNT 16384U
#define PORTD_BLOCK_PORTS   128U
#define PORTD_BLOCKS        (PORTD_DYNAMIC_COUNT / PORTD_BLOCK_PORTS)

#define PORTD_MEMIF_NAME_BYTES   108U /**< as of a Unix socket */
#define PORTD_MEMIF_SECRET_BYTES 24U  /**< with the zero at its end */

enum portd_type {
	/** Attach. The answer has all members. -EBUSY: the daemon has as many processes as it
	 * takes; -ENOSPC: no block of dynamic ports is free; -EIO: there is no net_memif. After an
	 * error the daemon closes the socket. */
	PORTD_HELLO = 1,
	/** Have `port`, to listen on it. 0, also when the process has it already, or when it is
	 * dead and was claimed before; -EADDRINUSE: another process has it, or it is dead and was
	 * in a block; -ENOSPC: the process has as many ports as it may, or, for a dynamic port, as
	 * many blocks; -EINVAL: port 0. */
	PORTD_CLAIM,
	/** Give `port` back: no listener and no connection of the process has it, TIME-WAIT
	 * included. 0; -ENOENT: the process has not claimed it. */
	PORTD_RELEASE,
	/** Have another block of dynamic ports. 0 with first_port and last_port; -ENOSPC: none is
	 * free but those that are kept for processes that may still come, or the process has as
	 * many as it may. */
	PORTD_MORE,
	PORTD_TYPES
};

/** Of every message. */
struct portd_head {
	uint32_t magic;   /**< PORTD_MAGIC */
	uint16_t version; /**< PORTD_VERSION */
	uint16_t type;    /**< enum portd_type; an answer repeats the request's */
	uint32_t bytes;   /**< of the whole message */
	uint32_t seq;     /**< the process' count; an answer repeats the request's */
};

struct portd_request {
	struct portd_head head;
	uint16_t port; /**< of claims and releases, in the machine's order */
	uint8_t zero[6];
};
static_assert(sizeof(struct portd_request) == 24, "no padding");

/** An address, its network, and the next hop to other networks. */
struct portd_net {
	uint8_t addr[16];    /**< in the network's order; of IPv4 the first four; all zero: none */
	uint8_t gateway[16]; /**< likewise; all zero: none */
	uint8_t prefix_len;
	uint8_t zero[3];
};

struct portd_answer {
	struct portd_head head;
	int32_t status;                 /**< 0 or -errno; then the rest is zero */
	uint16_t first_port, last_port; /**< of HELLO and MORE: a block of dynamic ports */
	/* of HELLO alone: */
	uint32_t memif_id;
	uint16_t mtu_bytes;
	uint16_t vlan_id; /**< tag of all frames, 1..4094; 0: untagged */
	uint8_t mac[6];   /**< of the daemon's device, for every process */
	uint8_t zero[2];
	struct portd_net ipv4, ipv6;
	/** path of the net_memif's socket (socket-abstract=no) */
	char memif_name[PORTD_MEMIF_NAME_BYTES];
	char memif_secret[PORTD_MEMIF_SECRET_BYTES];
};
static_assert(sizeof(struct portd_answer) == 16 + 4 + 4 + 4 + 4 + 8 + 72 + 108 + 24, "no padding");

#endif /* PORTD_PROTO_H */
