/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FAKE_TCP_H
#define FAKE_TCP_H

/** @file A simulated TCP connection for the tests of MPA. It records sent octets, and the test
 * delivers received octets. */

#include <stdlib.h>

#include <rte_mbuf.h>

#include "weft_netif_budget.h"
#include "weft_netif_mbuf.h"
#include "weft_tcp.h"
#include "weft_test.h"

#define FAKE_OUT_MAX  (1 << 20)
#define FAKE_SEGS_MAX 4096

struct weft_tcp_conn {
	const struct weft_tcp_conn_ops *ops;
	void *user;
	struct rte_mempool *pool;
	struct weft_netif_budget *budget; /**< own_budget, or a budget that connections share */
	struct weft_netif_budget own_budget;
	uint16_t mss;
	uint32_t space;          /**< result of send_space; sending does not lower it */
	unsigned int fail_alloc; /**< this many allocations fail */
	uint16_t room;           /**< tailroom of an mbuf in octets; 0: unchanged */
	int send_rc;
	bool port_sums;           /**< the port computes TCP's checksum */
	unsigned int segs_summed; /**< segments that came with a sum of their octets */
	bool closed, aborted;
	uint32_t rcv_nxt;     /**< octets that fake_rx() has delivered */
	unsigned int damaged; /**< calls of weft_tcp_rx_damaged() */
	/* sent; fake_new() does not clear what follows the two counts */
	uint32_t out_bytes;
	unsigned int nsegs;
	struct {
		uint32_t off, len;
		bool push;
	} seg[FAKE_SEGS_MAX];
	uint8_t out[FAKE_OUT_MAX];
};

/** Create a connection. Its pool is created once per process. */
struct weft_tcp_conn *fake_new(uint16_t mss);
/** Free the connection. The case fails if an mbuf is not freed. */
void fake_free(struct weft_tcp_conn *c);
/** Copy the octets to a chain of mbufs of at most `piece` octets each (0: as few mbufs as
 * possible). */
struct rte_mbuf *fake_chain(struct weft_tcp_conn *c, const void *p, uint32_t len, uint32_t piece);
/** Deliver octets in up-calls of at most `piece` octets each (0: as few up-calls as possible). */
void fake_rx(struct weft_tcp_conn *c, const void *p, uint32_t len, uint32_t piece, uint64_t now_ns);
/** End the connection with the up-call closed and this error. */
void fake_die(struct weft_tcp_conn *c, int err);

/** CRC32c computed bit by bit. Shares no code with the library. */
uint32_t slow_crc32c(const uint8_t *p, size_t len);
/** Encode an FPDU octet by octet. Returns its length. */
uint32_t slow_fpdu(uint8_t *out, const uint8_t *ulpdu, uint16_t len);

#endif /* FAKE_TCP_H */
