/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TCP_WIRE_H
#define TCP_WIRE_H

/**
 * @file
 * The TCP header and its options (RFC 9293 s3.1, s3.2; RFC 7323; RFC 2018): conversion between
 * octets and host-order structs. The functions keep no state. Input of any length and content is
 * safe.
 */

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "weft_base.h"

#define TCP_HDR_LEN     20
#define TCP_HDR_MAX_LEN 60

/* Offsets in the header, RFC 9293 s3.1 figure 1. */
#define TCP_OFF_SRC_PORT 0
#define TCP_OFF_DST_PORT 2
#define TCP_OFF_SEQ      4
#define TCP_OFF_ACK      8
#define TCP_OFF_DATAOFF  12
#define TCP_OFF_FLAGS    13
#define TCP_OFF_WND      14
#define TCP_OFF_CKSUM    16
#define TCP_OFF_URG      18

/* RFC 9293 s3.1 */
#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_PSH 0x08
#define TCP_ACK 0x10
#define TCP_URG 0x20
#define TCP_ECE 0x40
#define TCP_CWR 0x80

#define TCP_OPT_EOL       0 /* RFC 9293 s3.2 */
#define TCP_OPT_NOP       1
#define TCP_OPT_MSS       2
#define TCP_OPT_WSCALE    3 /* RFC 7323 s2.2 */
#define TCP_OPT_SACK_PERM 4 /* RFC 2018 s2 */
#define TCP_OPT_SACK      5 /* RFC 2018 s3 */
#define TCP_OPT_TSTAMP    8 /* RFC 7323 s3.2 */

/** The layout of RFC 7323 appendix A: NOP, NOP, kind 8, length 10, two values. */
#define TCP_OPTS_TSTAMP_ALONE 0x0101080aU
#define TCP_OPTS_TSTAMP_LEN   12

#define TCP_WSCALE_MAX 14 /* RFC 7323 s2.3 */
#define TCP_SACK_MAX   4  /* blocks that fit into 40 octets of options */

struct tcp_hdr {
	uint16_t src_port, dst_port;
	uint32_t seq, ack;
	uint16_t wnd; /**< as on the wire, unscaled */
	uint8_t flags;
	uint8_t hdr_len_bytes; /**< options included */
};

struct tcp_sack {
	uint32_t left, right; /**< [left, right) has been received */
};

struct tcp_opts {
	uint16_t mss_bytes; /**< 0: absent */
	uint8_t wscale;     /**< already limited to TCP_WSCALE_MAX */
	uint8_t nsack;
	bool has_wscale, sack_perm, has_ts;
	uint32_t ts_val, ts_ecr;
	struct tcp_sack sack[TCP_SACK_MAX];
};

/**
 * Decodes the fixed header from at most len octets. Returns the header's length, options included.
 * -EPROTO: the octets cannot be a TCP header, or end within it.
 */
static inline int
tcp_wire_decode(const uint8_t *p, uint32_t len, struct tcp_hdr *h)
{
	if (len < TCP_HDR_LEN)
		return -EPROTO;
	h->src_port = weft_get_be16(p + TCP_OFF_SRC_PORT);
	h->dst_port = weft_get_be16(p + TCP_OFF_DST_PORT);
	h->seq = weft_get_be32(p + TCP_OFF_SEQ);
	h->ack = weft_get_be32(p + TCP_OFF_ACK);
	h->hdr_len_bytes = (uint8_t)((p[TCP_OFF_DATAOFF] >> 4) * 4);
	h->flags = p[TCP_OFF_FLAGS];
	h->wnd = weft_get_be16(p + TCP_OFF_WND);
	if (h->hdr_len_bytes < TCP_HDR_LEN || h->hdr_len_bytes > len)
		return -EPROTO;
	return h->hdr_len_bytes;
}

/** Writes the fixed header with checksum 0. h->hdr_len_bytes must be set. Returns TCP_HDR_LEN. */
unsigned int tcp_wire_encode(uint8_t *p, const struct tcp_hdr *h);

/**
 * Decodes the options area. Writes sack[] up to nsack only. Unknown options are skipped by their
 * length (RFC 9293 MUST-6). A known option with a wrong length is ignored. -EPROTO: a length is
 * below 2 or leads past the end (MUST-7).
 */
int tcp_wire_decode_any_opts(const uint8_t *p, uint32_t len, struct tcp_opts *o);
/** The same. The options of nearly every segment, none or timestamps alone (RFC 7323 appendix A),
 * take a few instructions. */
static inline int
tcp_wire_decode_opts(const uint8_t *p, uint32_t len, struct tcp_opts *o)
{
	if (len != 0 && (len != TCP_OPTS_TSTAMP_LEN || weft_get_be32(p) != TCP_OPTS_TSTAMP_ALONE))
		return tcp_wire_decode_any_opts(p, len, o);
	memset(o, 0, offsetof(struct tcp_opts, sack));
	if (len == 0)
		return 0;
	o->has_ts = true;
	o->ts_val = weft_get_be32(p + 4);
	o->ts_ecr = weft_get_be32(p + 8);
	return 0;
}
/** Writes the options, padded to a multiple of four octets. Returns the octets written, at most
 * 40. */
unsigned int tcp_wire_encode_opts(uint8_t *p, const struct tcp_opts *o);

#endif /* TCP_WIRE_H */
