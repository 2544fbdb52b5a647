/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Encoding and decoding of TCP headers and options. */

#include "weft_base.h"

#include "tcp_wire.h"

unsigned int
tcp_wire_encode(uint8_t *p, const struct tcp_hdr *h)
{
	weft_put_be16(p + TCP_OFF_SRC_PORT, h->src_port);
	weft_put_be16(p + TCP_OFF_DST_PORT, h->dst_port);
	weft_put_be32(p + TCP_OFF_SEQ, h->seq);
	weft_put_be32(p + TCP_OFF_ACK, h->ack);
	p[TCP_OFF_DATAOFF] = (uint8_t)(h->hdr_len_bytes / 4 << 4);
	p[TCP_OFF_FLAGS] = h->flags;
	weft_put_be16(p + TCP_OFF_WND, h->wnd);
	weft_put_be16(p + TCP_OFF_CKSUM, 0);
	weft_put_be16(p + TCP_OFF_URG, 0);
	return TCP_HDR_LEN;
}

static void
tcp_opt(const uint8_t *p, uint8_t kind, uint8_t len, struct tcp_opts *o)
{
	switch (kind) {
	case TCP_OPT_MSS:
		if (len == 4)
			o->mss_bytes = weft_get_be16(p + 2);
		break;
	case TCP_OPT_WSCALE:
		if (len == 3) {
			o->has_wscale = true;
			/* RFC 7323 s2.3: larger than 14 MUST be taken as 14 */
			o->wscale = RTE_MIN(p[2], (uint8_t)TCP_WSCALE_MAX);
		}
		break;
	case TCP_OPT_SACK_PERM:
		if (len == 2)
			o->sack_perm = true;
		break;
	case TCP_OPT_SACK:
		if (len < 10 || (len - 2) % 8 != 0)
			break;
		o->nsack = (uint8_t)RTE_MIN((len - 2) / 8, TCP_SACK_MAX);
		for (unsigned int i = 0; i < o->nsack; i++) {
			o->sack[i].left = weft_get_be32(p + 2 + 8 * i);
			o->sack[i].right = weft_get_be32(p + 6 + 8 * i);
		}
		break;
	case TCP_OPT_TSTAMP:
		if (len == 10) {
			o->has_ts = true;
			o->ts_val = weft_get_be32(p + 2);
			o->ts_ecr = weft_get_be32(p + 6);
		}
		break;
	default:
		break;
	}
}

int
tcp_wire_decode_any_opts(const uint8_t *p, uint32_t len, struct tcp_opts *o)
{
	memset(o, 0, sizeof(*o));
	for (uint32_t off = 0; off < len;) {
		uint8_t optlen;

		if (p[off] == TCP_OPT_EOL)
			break;
		if (p[off] == TCP_OPT_NOP) {
			off++;
			continue;
		}
		if (off + 1 >= len)
			return -EPROTO;
		optlen = p[off + 1];
		if (optlen < 2 || optlen > len - off)
			return -EPROTO;
		tcp_opt(p + off, p[off], optlen, o);
		off += optlen;
	}
	return 0;
}

unsigned int
tcp_wire_encode_opts(uint8_t *p, const struct tcp_opts *o)
{
	unsigned int n = 0;

	if (o->mss_bytes != 0) {
		p[n] = TCP_OPT_MSS;
		p[n + 1] = 4;
		weft_put_be16(p + n + 2, o->mss_bytes);
		n += 4;
	}
	if (o->has_wscale) {
		p[n] = TCP_OPT_NOP;
		p[n + 1] = TCP_OPT_WSCALE;
		p[n + 2] = 3;
		p[n + 3] = o->wscale;
		n += 4;
	}
	if (o->sack_perm) {
		p[n] = TCP_OPT_NOP;
		p[n + 1] = TCP_OPT_NOP;
		p[n + 2] = TCP_OPT_SACK_PERM;
		p[n + 3] = 2;
		n += 4;
	}
	if (o->has_ts) {
		p[n] = TCP_OPT_NOP;
		p[n + 1] = TCP_OPT_NOP;
		p[n + 2] = TCP_OPT_TSTAMP;
		p[n + 3] = 10;
		weft_put_be32(p + n + 4, o->ts_val);
		weft_put_be32(p + n + 8, o->ts_ecr);
		n += 12;
	}
	if (o->nsack > 0) {
		/* The rest of 40 octets, after two octets of padding and two of kind and length. */
		unsigned int k = RTE_MIN((unsigned int)o->nsack,
		                         (TCP_HDR_MAX_LEN - TCP_HDR_LEN - n - 4) / 8);

		if (k > 0) {
			p[n] = TCP_OPT_NOP;
			p[n + 1] = TCP_OPT_NOP;
			p[n + 2] = TCP_OPT_SACK;
			p[n + 3] = (uint8_t)(2 + 8 * k);
			n += 4;
		}
		for (unsigned int i = 0; i < k; i++, n += 8) {
			weft_put_be32(p + n, o->sack[i].left);
			weft_put_be32(p + n + 4, o->sack[i].right);
		}
	}
	return n;
}
