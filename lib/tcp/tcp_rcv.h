/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TCP_RCV_H
#define TCP_RCV_H

/**
 * @file
 * The receive side: a received segment, the octets ahead of a gap (RFC 9293 s3.10.7.4), and the
 * SACK blocks that report them (RFC 2018).
 */

#include "weft_netif_mbuf.h"
#include "weft_tcp.h"

#include "tcp_wire.h"

/** A received segment between decoding and delivery. */
struct tcp_in {
	/** starts at the TCP header, later at the payload; NULL once handed on */
	struct rte_mbuf *m;
	struct tcp_hdr h;
	const struct weft_ip *src, *dst; /**< in m's private area: invalid once m is queued */
	uint64_t hash;                   /**< of addresses and ports */
	uint32_t len_bytes;              /**< payload */
	uint8_t ecn;                     /**< ECN field of the packet, enum weft_ecn */
	bool has_opts;                   /**< the header has options */
	bool follows;                    /**< of the same connection as the segment before it */
	struct tcp_opts opts;            /**< always valid */
};

/** A received segment ahead of a gap. The record lies in the same private area. */
struct tcp_ooo {
	struct rte_mbuf *next, *prev;
	uint32_t seq;
	uint32_t len_bytes;
	uint32_t charge_bytes; /**< octets counted against max_ooo_bytes */
	uint32_t mbufs;        /**< mbufs counted against max_ooo_mbufs */
	bool taken; /**< the user has taken the octets: the mbuf has its records (ops.ahead) */
};
static_assert(sizeof(struct tcp_ooo) <= sizeof(((struct weft_mbuf_priv *)0)->tx), "tcp_ooo");

static inline struct tcp_ooo *
tcp_ooo(struct rte_mbuf *m)
{
	return (struct tcp_ooo *)(void *)weft_mbuf_priv(m)->tx;
}

/** List pieces that one out-of-order segment may walk, from each starting point. */
#define TCP_REASS_STEPS 64
/** Segments acknowledged at once after the start, a pause or a loss: RFC 6928's initial window. */
#define TCP_QUICK_ACKS 10

/* tcp_in.c */
/** Processes n segments of the connection, at least one, and frees what of them is not handed on.
 * Returns how many: fewer if the connection has ended or is in TIME-WAIT. */
unsigned int tcp_rx_conn(struct weft_tcp_conn *c, struct tcp_in *in, unsigned int n,
                         uint64_t now_ns);

/* tcp_reass.c */
/** Drops n octets at the front of a chain. The chain keeps at least one mbuf. */
struct rte_mbuf *tcp_trim_front(struct rte_mbuf *m, uint32_t n);
/** Drops n octets, fewer than there are, at the end of a chain. */
struct rte_mbuf *tcp_trim_tail(struct rte_mbuf *m, uint32_t n);
/** Queues m = [seq, seq + len), which lies beyond rcv_nxt. Trims overlaps. Owns m. */
void tcp_reass_insert(struct weft_tcp_conn *c, struct rte_mbuf *m, uint32_t seq, uint32_t len);
/** Takes the first queued piece if rcv_nxt has reached it, trimmed to new octets; else NULL. */
struct rte_mbuf *tcp_reass_pop(struct weft_tcp_conn *c, uint32_t *len, bool *taken);
/** Cuts m, the octets [rcv_nxt, rcv_nxt + *len), to those before the first ones that the user has
 * taken. What lies behind these is queued. */
struct rte_mbuf *tcp_reass_front(struct weft_tcp_conn *c, struct rte_mbuf *m, uint32_t *len);
/** Drops the queued octets from sequence number `end` on. */
void tcp_reass_cut(struct weft_tcp_conn *c, uint32_t end);
void tcp_reass_free(struct weft_tcp_conn *c);
/** Drops the farthest octets until at most `keep` mbufs are left (RFC 2018 s8). */
void tcp_reass_shed(struct weft_tcp_conn *c, uint32_t keep);

/* tcp_sack_rx.c */
/** Notes that m has been queued ahead of a gap. */
void tcp_sack_note(struct weft_tcp_conn *c, struct rte_mbuf *m);
/** Drops blocks that rcv_nxt has passed. */
void tcp_sack_prune(struct weft_tcp_conn *c);
/** Drops blocks from `end` on: nothing of them is queued any more. */
void tcp_sack_cut(struct weft_tcp_conn *c, uint32_t end);
/** Notes that [left, right) came twice, for the next ACK. */
void tcp_dsack_note(struct weft_tcp_conn *c, uint32_t left, uint32_t right);

#endif /* TCP_RCV_H */
