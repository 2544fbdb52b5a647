/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TCP_HDR_H
#define TCP_HDR_H

/**
 * @file
 * The header that a connection sends, its options, and the timestamps of both sides (RFC 7323).
 */

#include "tcp_conn.h"

struct tcp_in;

#define TCP_DEFAULT_MSS_V4 536  /* RFC 9293 s3.7.1 */
#define TCP_DEFAULT_MSS_V6 1220 /* RFC 9293 s3.7.1 */

/* tcp_out.c */
/** Header octets of a segment with payload and without SACK. The effective MSS assumes these. */
static inline uint32_t
tcp_hdr_len(const struct weft_tcp_conn *c)
{
	return TCP_HDR_LEN + (c->ts_ok ? TCP_OPTS_TSTAMP_LEN : 0);
}
/** Header octets of the next ACK with that payload. tcp_fill_hdr() writes options to match. */
uint32_t tcp_hdr_len_for(const struct weft_tcp_conn *c, uint32_t payload_bytes);
/** Writes the header at p, of tcp_hdr_len() or tcp_hdr_len_for() octets. Never for a SYN. A header
 * with ACK also settles every ACK that is due. */
void tcp_fill_hdr(struct weft_tcp_conn *c, uint8_t *p, uint8_t flags, uint32_t seq,
                  uint32_t hdr_len, uint64_t now_ns);
/** Sends new segments from snd_nxt on, as many as the windows allow, if their headers have no
 * options but timestamps. Returns how many; 0: tcp_output_one() decides about the next. */
unsigned int tcp_run_send(struct weft_tcp_conn *c, uint64_t now_ns);
/** A header with ACK has left: no other ACK is due. */
static inline void
tcp_ack_settled(struct weft_tcp_conn *c)
{
	c->last_ack_sent = c->rcv_nxt;
	c->rcv_unacked_bytes = 0;
	c->t_delack.at_ns = WEFT_NEVER;
	c->work &= (uint8_t)~TCP_WORK_ACK;
}
/** Writes the fixed part of the header. */
void tcp_fill_fixed(struct weft_tcp_conn *c, uint8_t *p, uint8_t flags, uint32_t seq,
                    uint32_t hdr_len);

/* tcp_ctl.c */
/** Sends a segment without payload and without SYN. False: no mbuf, or no room. */
bool tcp_send_ctl(struct weft_tcp_conn *c, uint8_t flags, uint32_t seq, uint64_t now_ns);
/** Sends our SYN, or in SYN-RECEIVED our SYN-ACK. */
void tcp_send_syn(struct weft_tcp_conn *c, uint64_t now_ns);

/* tcp_offer.c */
/** The offset of a connection's timestamp clock, from its addresses and ports. */
uint32_t tcp_ts_offset(const struct weft_tcp *t, const struct weft_ip *local, uint16_t local_port,
                       const struct weft_ip *remote, uint16_t remote_port);
static inline uint32_t
tcp_ts_clock(uint64_t now_ns)
{
	/* RFC 7323 s5.4: a tick of at least 1 ms keeps a peer's 24-day rule true. */
	return (uint32_t)(now_ns / WEFT_NS_PER_MS);
}
static inline uint32_t
tcp_ts_now(const struct weft_tcp_conn *c, uint64_t now_ns)
{
	return tcp_ts_clock(now_ns) + c->ts_offset;
}
/** Sets what we offer. The connection's addresses and ports must be known. */
void tcp_offer_init(struct weft_tcp_conn *c);
/** Applies the options of the peer's SYN. c->rcv_nxt is behind the SYN. */
void tcp_apply_syn_opts(struct weft_tcp_conn *c, const struct tcp_opts *o, uint64_t now_ns);
/** Applies the ECN bits of the peer's SYN. */
void tcp_apply_syn_ecn(struct weft_tcp_conn *c, uint8_t flags);

/* tcp_ts.c */
enum tcp_ts_verdict {
	TCP_TS_GOOD,
	TCP_TS_MISSING, /**< drop */
	TCP_TS_OLD,     /**< not acceptable (PAWS) */
};
/** Judges a segment of a connection with timestamps (RFC 7323 s5.3 R1). */
enum tcp_ts_verdict tcp_ts_judge(struct weft_tcp_conn *c, const struct tcp_in *in, uint64_t now_ns);
/** The segment and its ACK are acceptable: stores its timestamp if it is the one to echo. */
void tcp_ts_record(struct weft_tcp_conn *c, const struct tcp_in *in, uint64_t now_ns);
/** The round-trip time by the echoed timestamp. False: the echo gives none. */
bool tcp_ts_rtt(const struct weft_tcp_conn *c, const struct tcp_in *in, uint64_t now_ns,
                uint32_t *rtt_us);
/** RTTM (RFC 7323 s4.1) when an ACK covers a segment sent twice, the last time at sent_ns. */
void tcp_ts_sample(struct weft_tcp_conn *c, const struct tcp_in *in, uint64_t sent_ns,
                   uint64_t now_ns);

#endif /* TCP_HDR_H */
