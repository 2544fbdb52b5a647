/* SPDX-License-Identifier: BSD-3-Clause */
/** @file TCP's header and options: a decoded header, encoded again, decodes to the same values. */

#include <string.h>

#include "fuzz.h"

#include "tcp_wire.h"

static void
options(const uint8_t *p, uint32_t len)
{
	struct tcp_opts o = {0}, again = {0};
	uint8_t buf[40];
	unsigned int n;

	if (tcp_wire_decode_opts(p, len, &o) != 0)
		return;
	FUZZ_CHECK(o.wscale <= TCP_WSCALE_MAX && o.nsack <= TCP_SACK_MAX);
	/* the stack never sends more options than 40 octets can hold */
	if (o.has_ts && o.nsack > 3)
		o.nsack = 3;
	if (o.mss_bytes != 0 || o.has_wscale || o.sack_perm)
		o.nsack = 0;
	n = tcp_wire_encode_opts(buf, &o);
	FUZZ_CHECK(n <= sizeof(buf) && n % 4 == 0);
	FUZZ_CHECK(tcp_wire_decode_opts(buf, n, &again) == 0);
	FUZZ_CHECK(again.mss_bytes == o.mss_bytes && again.has_wscale == o.has_wscale &&
	           again.sack_perm == o.sack_perm && again.has_ts == o.has_ts &&
	           again.nsack == o.nsack);
	FUZZ_CHECK(!o.has_wscale || again.wscale == o.wscale);
	FUZZ_CHECK(!o.has_ts || (again.ts_val == o.ts_val && again.ts_ecr == o.ts_ecr));
	for (unsigned int i = 0; i < o.nsack; i++)
		FUZZ_CHECK(again.sack[i].left == o.sack[i].left &&
		           again.sack[i].right == o.sack[i].right);
}

void
fuzz_one(const uint8_t *data, size_t size)
{
	struct tcp_hdr h, again;
	uint8_t buf[TCP_HDR_LEN];
	int len;

	options(data, (uint32_t)size);
	len = tcp_wire_decode(data, (uint32_t)size, &h);
	if (len < 0)
		return;
	FUZZ_CHECK(len >= TCP_HDR_LEN && (size_t)len <= size && len == h.hdr_len_bytes);
	options(data + TCP_HDR_LEN, (uint32_t)len - TCP_HDR_LEN);
	FUZZ_CHECK(tcp_wire_encode(buf, &h) == TCP_HDR_LEN);
	h.hdr_len_bytes = TCP_HDR_LEN;
	tcp_wire_encode(buf, &h);
	FUZZ_CHECK(tcp_wire_decode(buf, sizeof(buf), &again) == TCP_HDR_LEN);
	FUZZ_CHECK(again.seq == h.seq && again.ack == h.ack && again.flags == h.flags &&
	           again.wnd == h.wnd && again.src_port == h.src_port &&
	           again.dst_port == h.dst_port);
}
