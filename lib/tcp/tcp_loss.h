/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TCP_LOSS_H
#define TCP_LOSS_H

/**
 * @file
 * Loss detection and recovery: the scoreboard (RFC 2018), RACK-TLP (RFC 8985), retransmission
 * (RFC 6675, RFC 6937).
 */

#include "tcp_conn.h"

struct tcp_in;

#define TCP_DUPTHRESH 3 /* RFC 5681 s3.2 */

/* tcp_sack.c */
/** m was transmitted. Call before its xmits is incremented. */
void tcp_seg_sent(struct weft_tcp_conn *c, struct rte_mbuf *m, uint64_t now_ns);
/** n segments were transmitted for the first time, outside recovery, in the order of the queue. */
void tcp_flight_new(struct weft_tcp_conn *c, struct rte_mbuf *const *m, unsigned int n,
                    uint64_t now_ns);
/** m's first `got` octets are acknowledged. Call before m is shortened or freed. */
void tcp_seg_acked(struct weft_tcp_conn *c, struct rte_mbuf *m, uint32_t got);
/**
 * Takes segments at the head of the queue out of flight, at most `max`, that the cumulative ACK
 * covers: those that are one mbuf and were sent once, in the order of the queue, with none SACKed
 * behind them. Returns how many; the rest is for tcp_seg_acked().
 */
unsigned int tcp_flight_acked(struct weft_tcp_conn *c, struct rte_mbuf **acked, unsigned int max);
/** m's end is now `rest`, which already has m's flags. */
void tcp_seg_split(struct weft_tcp_conn *c, struct rte_mbuf *m, struct rte_mbuf *rest);
void tcp_seg_lost(struct weft_tcp_conn *c, struct rte_mbuf *m);
/** snd_una has advanced. Call before segments are freed. */
void tcp_sack_advance(struct weft_tcp_conn *c);
/** Processes an ACK's blocks after its cumulative part. `data`: the segment has octets, too. */
void tcp_sack_in(struct weft_tcp_conn *c, const struct tcp_opts *o, bool data);
/** After a timeout: clears all marks; what was sent long enough ago is lost. */
void tcp_sack_forget(struct weft_tcp_conn *c, uint64_t now_ns);
/** Puts all lost segments back in flight. */
void tcp_sack_unlose(struct weft_tcp_conn *c);

/** Octets in flight (RFC 6675's pipe, with RFC 8985's idea of what is lost). */
static inline uint32_t
tcp_pipe(const struct weft_tcp_conn *c)
{
	return c->snd_max - c->snd_una - c->sacked_bytes - c->lost_bytes;
}

/* tcp_rtt.c */
void tcp_rack_min_rtt(struct weft_tcp_conn *c, uint64_t rtt_ns, uint64_t now_ns);
/** RACK.min_RTT; 0: unknown. */
uint64_t tcp_rack_min(const struct weft_tcp_conn *c);
/** The peer's ACK of a segment that was alone in flight, and was sent once, took rtt_ns. */
void tcp_lone_sample(struct weft_tcp_conn *c, uint64_t rtt_ns);
/** A loss probe was not needed: the ACK was only late. */
void tcp_lone_forget(struct weft_tcp_conn *c);
/** TLP.max_ack_delay (RFC 8985 s7.2). */
uint32_t tcp_lone_delay_us(const struct weft_tcp_conn *c);

/* tcp_deadline.c */
/** When to send a loss probe; WEFT_NEVER: not now. */
uint64_t tcp_tlp_at(const struct weft_tcp_conn *c, uint64_t now_ns);

/* tcp_rack.c */
void tcp_rack_update(struct weft_tcp_conn *c);
void tcp_rack_dsack(struct weft_tcp_conn *c, bool dsack, bool recovered);
/** Marks lost segments and sets reo_at_ns for the next. True: some are newly lost. */
bool tcp_rack_detect(struct weft_tcp_conn *c, uint64_t now_ns);
void tcp_tlp_reset(struct weft_tcp_conn *c);
void tcp_tlp_fire(struct weft_tcp_conn *c, uint64_t now_ns);
void tcp_tlp_ack(struct weft_tcp_conn *c, uint32_t ack, bool dup, uint64_t now_ns);

/* tcp_recovery.c */
/** Processes an ACK after its cumulative part. */
void tcp_recovery_ack(struct weft_tcp_conn *c, const struct tcp_in *in, uint32_t acked, bool dup,
                      uint64_t now_ns);
/** The reordering timer has found losses. */
void tcp_recovery_lost(struct weft_tcp_conn *c, uint64_t now_ns);
/** The retransmission timeout: sends the first segment again. tcp_output() sends what else is
 * lost. */
void tcp_recovery_rto(struct weft_tcp_conn *c, uint64_t now_ns);
/** Sends what is lost, as far as cwnd allows. False: some is left, and new data must wait. */
bool tcp_retransmit(struct weft_tcp_conn *c, uint64_t now_ns);
/** Sends the segment at the head of the queue again, whatever the windows are. */
void tcp_resend_head(struct weft_tcp_conn *c, uint64_t now_ns);

#endif /* TCP_LOSS_H */
