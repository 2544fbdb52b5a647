/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_PACKET_H
#define NETIF_PACKET_H

/**
 * @file The packet sockets below net_af_packet (netif_packet.c; packet(7)).
 *
 * The driver writes frames into a ring that it shares with the kernel, and then asks the kernel
 * once to send them. The kernel stops when the socket's send buffer is full, and the driver takes
 * that for success. What is left in the ring waits for the driver's next packet. At the end of a
 * transfer there is none: the peer's ACKs are for what was sent, TCP has nothing more to send, and
 * only its timeout causes another packet. So weft asks the kernel again until the ring is empty.
 *
 * The socket is also readable while received frames wait, so it ends an idle worker's sleep.
 */

#include <stdbool.h>
#include <stdint.h>

/** The most rings that one transmit queue has: one, or one of each slave of a bonded port. */
#define NETIF_PACKET_RINGS_MAX 8

/** The rings of one transmit queue. The thread that sends. */
struct netif_packet {
	int fd[NETIF_PACKET_RINGS_MAX]; /**< sockets */
	unsigned int n;                 /**< 0: the port has another driver */
	unsigned int asked;             /**< in vain, since the kernel last took a frame */
	bool due;                       /**< frames may stand in a ring */
	uint64_t at_ns;                 /**< when the kernel is asked next */
};

/** Learn the sockets that the driver has just made for a port on this interface of the kernel, one
 * for each of its queues. One log line if they are not found; the port works without. Set-up
 * thread. */
void netif_packet_find(uint16_t port_id, const char *iface, unsigned int queues);
/** The port is about to be removed, or was not found. Set-up thread. */
void netif_packet_forget(uint16_t port_id);
/** Add the ring of that queue of that port. Nothing, if it has none, or if p is full. */
void netif_packet_add(struct netif_packet *p, uint16_t port_id, uint16_t queue_id);
/** The driver was given frames. */
void netif_packet_sent(struct netif_packet *p, uint64_t now_ns);
/** Ask the kernel for what is left, if it is time. */
void netif_packet_look(struct netif_packet *p, uint64_t now_ns);

/** The socket of the only ring has ended a sleep. An error of the interface does so once then. */
void netif_packet_woke(const struct netif_packet *p);

#endif /* NETIF_PACKET_H */
