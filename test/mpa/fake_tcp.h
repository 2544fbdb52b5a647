/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FAKE_TCP_H
#define FAKE_TCP_H

/** @file One connection that records what is sent and lets a test say what arrives: lib/mpa without
 * TCP. */

#include <stdlib.h>

#include <rte_mbuf.h>

#include "weft_netif.h"
#include "weft_tcp.h"
#include "weft_test.h"

#define FAKE_OUT_MAX  (1 << 20)
#define FAKE_SEGS_MAX 4096

struct weft_tcp_conn {
	const struct weft_tcp_conn_ops *ops;
	void *user;
	struct rte_mempool *pool;
	struct weft_netif_budget *budget; /**< own_budget, or one that connections share */
	struct weft_netif_budget own_budget;
	uint16_t mss;
	uint32_t space;          /**< what send_space answers; sending does not lower it */
	unsigned int fail_alloc; /**< so many allocations fail */
	uint16_t room;           /**< octets that an mbuf has room for; 0: all of it */
	int send_rc;
	bool closed, aborted;
	/* sent; what lies behind the two counts is left as it was when a connection begins */
	uint32_t out_bytes;
	unsigned int nsegs;
	struct {
		uint32_t off, len;
		bool push;
	} seg[FAKE_SEGS_MAX];
	uint8_t out[FAKE_OUT_MAX];
};

/** A fresh connection; its pool is made once per process. */
struct weft_tcp_conn *fake_new(uint16_t mss);
/** Fails the case when an mbuf is still out. */
void fake_free(struct weft_tcp_conn *c);
/** The octets as one chain of mbufs of at most `piece` octets each (0: as few as fit). */
struct rte_mbuf *fake_chain(struct weft_tcp_conn *c, const void *p, uint32_t len, uint32_t piece);
/** Deliver octets in separate up-calls of at most `piece` octets each (0: as few as fit). */
void fake_rx(struct weft_tcp_conn *c, const void *p, uint32_t len, uint32_t piece, uint64_t now_ns);
/** The connection dies: up-call closed. */
void fake_die(struct weft_tcp_conn *c, int err);

/** CRC32c bit by bit: shares nothing with the code under test. */
uint32_t slow_crc32c(const uint8_t *p, size_t len);
/** An FPDU made octet by octet; returns its length. */
uint32_t slow_fpdu(uint8_t *out, const uint8_t *ulpdu, uint16_t len);

#endif /* FAKE_TCP_H */
