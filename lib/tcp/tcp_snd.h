/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TCP_SND_H
#define TCP_SND_H

/**
 * @file
 * The send side: the records of queued segments, the send queue, and what leaves within the
 * windows.
 */

#include <assert.h>

#include "weft_netif_mbuf.h"
#include "weft_netif_tx.h"

#include "tcp_conn.h"

/** Headroom in front of a payload: fits every header, and aligns the payload to a cache line. */
#define TCP_HEADROOM 128
static_assert(TCP_HEADROOM >= WEFT_NETIF_HEADROOM + TCP_HDR_MAX_LEN, "headers must fit");
/** Entries of netif's transmit queue that data segments leave free for ACKs and RSTs. */
#define TCP_TX_SLACK 64
/** Segments a connection may queue beyond what the windows allow, so that an ACK finds data to
 * send. */
#define TCP_QUEUE_AHEAD 4

/** A queued segment. The record lies in the private area of its first mbuf (weft_mbuf_priv.tx). */
struct tcp_seg {
	struct rte_mbuf *next;
	struct rte_mbuf *later, *prev; /**< in the list of its condition: flight or lost */
	uint64_t sent_ns;  /**< time of the last transmission; unique in the connection */
	uint64_t first_ns; /**< time of the first; 0: the segment has become shorter since */
	uint32_t seq;
	uint16_t len_bytes;
	uint16_t data_off; /**< start of the payload; netif changes the mbuf's own data_off */
	/** payload in the first mbuf; netif changes the mbuf's data_len */
	uint16_t head_len_bytes;
	uint16_t skip_bytes; /**< octets at the front that are acknowledged */
	uint16_t mbufs;      /**< the segment is the first so many mbufs of the chain */
	uint8_t xmits;       /**< number of transmissions, at most UINT8_MAX */
	uint8_t flags;       /**< TCP_SEG_* */
};

#define TCP_SEG_PUSH    0x01 /**< the user had no more data */
#define TCP_SEG_PROBED  0x10 /**< a window probe carried its first octet; xmits does not count it */
#define TCP_SEG_OWN_SUM 0x20 /**< the last transmission, not the first, had a checksum of ours */
#define TCP_SEG_TRAIN   0x40 /**< first sent as the second of a TSO packet */
#define TCP_SEG_WATCH   0x80 /**< tcp_offload_acked() is told of it in any case */
/* A sent segment has exactly one of these three. Only tcp_sack.c assigns them. */
#define TCP_SEG_SACKED 0x02 /**< the peer has received it (RFC 2018) */
#define TCP_SEG_LOST   0x04 /**< taken for lost; will be sent again */
#define TCP_SEG_FLIGHT 0x08 /**< in flight, as far as TCP knows */

static_assert(sizeof(struct tcp_seg) <= sizeof(((struct weft_mbuf_priv *)0)->tx), "tcp_seg");

/** Whether the segment left only once, so that an ACK belongs to that transmission. */
static inline bool
tcp_seg_once(const struct tcp_seg *s)
{
	return s->xmits == 1 && (s->flags & TCP_SEG_PROBED) == 0;
}

static inline struct tcp_seg *
tcp_seg(struct rte_mbuf *m)
{
	return (struct tcp_seg *)(void *)weft_mbuf_priv(m)->tx;
}

/* tcp_sq.c */
/** Frees what lies below snd_una; *sent_ns: when the last of it was sent. True: an RTT sample. */
bool tcp_sq_ack(struct weft_tcp_conn *c, uint64_t *sent_ns);
void tcp_sq_free(struct weft_tcp_conn *c);
/** Makes m's first `len` octets a segment of their own. False: no mbuf. */
bool tcp_sq_split(struct weft_tcp_conn *c, struct rte_mbuf *m, uint16_t len);
/** Appends a chain of indirect mbufs with the segment's payload to `front`. False: no mbuf. */
bool tcp_sq_show(struct weft_tcp_conn *c, struct rte_mbuf *m, struct rte_mbuf *front);
/** The first octet of m that is not acknowledged. */
uint8_t tcp_seg_first(const struct rte_mbuf *m);

/* tcp_space.c */
uint32_t tcp_space(const struct weft_tcp_conn *c);
/** Calls `writable` if the user waits and there is space. */
void tcp_tell_writable(struct weft_tcp_conn *c);

/* tcp_out.c */
/** How segments without data are sent. Their checksums cost little, and a connection must not
 * depend on what a device does with them. */
#define TCP_HOW_CTL ((struct weft_netif_tx_how){.own_sum = true})
/** Allocates an mbuf with TCP_HEADROOM. Counts a failure. */
struct rte_mbuf *tcp_alloc(struct weft_tcp *t, struct weft_netif *nif);
/** Gives netif a segment of c. Returns weft_netif_tx()'s result. */
int tcp_tx(struct weft_tcp_conn *c, struct rte_mbuf *m, struct weft_netif_tx_how how,
           uint64_t now_ns);
/** Transmits a queued segment once. False: no mbuf or no room, and nothing has changed. */
bool tcp_xmit(struct weft_tcp_conn *c, struct rte_mbuf *m, uint64_t now_ns);
/** Advances snd_nxt: m, the segment at snd_nxt, has been sent. */
void tcp_sent(struct weft_tcp_conn *c, struct rte_mbuf *m);
/** Sends the queued data that the windows allow. The caller has seen that nothing is lost. */
void tcp_output_new(struct weft_tcp_conn *c, uint64_t now_ns);
/** Something new was sent: sets the timers for its ACK. */
void tcp_output_timers(struct weft_tcp_conn *c, uint64_t now_ns);

/* tcp_due.c */
/** Sends what is lost, what is new and the FIN, as far as the windows allow it. */
void tcp_output(struct weft_tcp_conn *c, uint64_t now_ns);
/** Probes a closed window with one octet, or with what the window takes. */
void tcp_window_probe(struct weft_tcp_conn *c, uint64_t now_ns);

/* tcp_ctl.c */
/** The sequence number for a segment without octets: the highest that the peer accepts. */
uint32_t tcp_ctl_seq(const struct weft_tcp_conn *c);
void tcp_send_ack(struct weft_tcp_conn *c, uint64_t now_ns);
bool tcp_send_fin(struct weft_tcp_conn *c, uint64_t now_ns);
/** Our FIN was sent: it counts as an octet. */
void tcp_fin_advance(struct weft_tcp_conn *c);

/* tcp_offload.c */
/** Whether the next transmission of a segment that was sent before has a checksum of ours. */
bool tcp_resend_own_sum(const struct weft_tcp_conn *c, const struct tcp_seg *s);
/** A segment was acknowledged that was sent more than once, or has TCP_SEG_WATCH. */
void tcp_offload_acked(struct weft_tcp_conn *c, const struct tcp_seg *s);

static inline bool
tcp_fin_sent(const struct weft_tcp_conn *c)
{
	return c->fin_out && weft_seq_lt(c->snd_end, c->snd_max);
}

static inline bool
tcp_fin_acked(const struct weft_tcp_conn *c)
{
	return c->fin_out && weft_seq_lt(c->snd_end, c->snd_una);
}

#endif /* TCP_SND_H */
