/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_FUZZ_TCP_H
#define WEFT_FUZZ_TCP_H

/** @file Shared by the files of the entry fuzz_tcp. */

#include "fuzz.h"

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_mempool.h>

#include "tcp_conn.h"
#include "weft_netif_attr.h"

#define FUZZ_PORT   7
#define FUZZ_PORT2  8
#define FUZZ_CONNS  12
#define FUZZ_OPS    400
#define FUZZ_OUT    256
#define FUZZ_HELD   1023
#define FUZZ_BURST  8
#define FUZZ_FRAME  65600
#define FUZZ_IDLE_S 4000
#define FUZZ_NEIGHS 16 /* the table is created for each input */

static const uint8_t mac_us[6] = {2, 0, 0, 0, 0, 1}, mac_peer[6] = {2, 0, 0, 0, 0, 2};
static const struct weft_ip ip6_us = {.b = {0xfd, [15] = 1}}, ip6_peer = {.b = {0xfd, [15] = 2}};

struct fuzz_tcp {
	struct weft_sched sched;
	struct weft_netif *nif;
	struct weft_tcp *tcp;
	struct weft_tcp_listener *l, *l2;
	uint64_t now_ns;
	struct fuzz_in in;
	bool stuck;                       /**< the port accepts no frame */
	bool refuse;                      /**< the accept callback refuses */
	uint8_t on_rx;                    /**< the user's action when octets arrive */
	struct rte_mbuf *held[FUZZ_HELD]; /**< mbufs taken to exhaust the pool */
	unsigned int nheld;
	struct rte_mbuf *rx[4]; /**< frames that wait for the interface */
	unsigned int nrx;
	struct rte_mbuf *burst[FUZZ_BURST]; /**< segments that arrive together with the next one */
	unsigned int nburst;
	bool silent; /**< ARP and Neighbor Discovery get no answers */
	bool tso;    /**< the port supports TSO */
	/** Our last answer to a SYN, which may be a cookie. */
	struct {
		struct weft_ip local, remote;
		struct tcp_hdr h;
		uint32_t ts_val;
		bool seen, has_ts;
	} synack;
};
extern struct fuzz_tcp z;

/** The state of a connection's user. It exists as long as the connection. */
struct fuzz_user {
	struct weft_tcp_conn *c; /**< NULL: free */
	uint32_t delivered;
	bool eof, synced;
	uint32_t next;
};

extern struct fuzz_user users[FUZZ_CONNS];

/** The octet with this sequence number, in either direction. */
static inline uint8_t
octet(uint32_t seq)
{
	return (uint8_t)(seq * 167u >> 5);
}

/* tcp_port.c */
extern const struct weft_netif_dev fuzz_tcp_port;
extern const struct weft_netif_ops fuzz_tcp_up;
/** An ARP frame with the peer's hardware address, the answer to our request. */
void inject_arp(void);

/* tcp_segs.c */
/** A segment as the input says. more: it arrives together with the next one. */
void inject(bool more);
void inject_icmp(void);
/** Deliver the segments that wait for the next one. */
void deliver_all(void);
/** A correct peer opens a connection to us. */
void handshake(uint8_t how);
/** A correct peer answers our SYN, or acknowledges everything that we sent. */
void good_answer(uint8_t which);

/* tcp_check.c */
/** Check the invariants of a connection. */
void check_conn(struct weft_tcp_conn *c);

/* fuzz_tcp.c */
/** One iteration of the poll loop. */
void turn(void);

#endif /* WEFT_FUZZ_TCP_H */
