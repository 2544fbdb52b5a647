/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VT_WIRE_H
#define VT_WIRE_H

/**
 * @file Records the opcodes of the RDMAP messages that node 0 sends. The link must not lose packets
 * and the connection must not use markers.
 */

#include "vt.h"

#define WIRE_MAX_MSGS 4096

struct wire {
	uint8_t buf[65536]; /* octets of the stream that are not decoded yet */
	uint32_t have, next_seq;
	bool synced, mpa_done;
	uint8_t op[WIRE_MAX_MSGS]; /* enum weft_rdmap_op of each complete message */
	unsigned int n;
	unsigned int pkts[2]; /* TCP packets delivered from each end */
};

static inline uint32_t
wire_be(const uint8_t *p, unsigned int bytes)
{
	uint32_t v = 0;

	while (bytes-- > 0)
		v = v << 8 | *p++;
	return v;
}

/** Length of the MPA frame or FPDU at the front of buf (RFC 5044 s3, s7.1); 0: it is incomplete. */
static inline uint32_t
wire_frame(struct wire *w)
{
	uint32_t n;

	if (!w->mpa_done) {
		if (w->have < 20 || w->have < 20 + wire_be(w->buf + 18, 2))
			return 0;
		w->mpa_done = true;
		return 20 + wire_be(w->buf + 18, 2);
	}
	n = w->have < 2 ? 0 : (2 + wire_be(w->buf, 2) + 3) / 4 * 4 + 4;
	if (n == 0 || w->have < n)
		return 0;
	/* The L bit marks the last segment of a message (RFC 5041 s4.1). The opcode (RFC 5040 s4.1)
	 * has five bits here. */
	if (w->buf[2] & 0x40) {
		CHECK(w->n < WIRE_MAX_MSGS);
		w->op[w->n++] = w->buf[3] & 0x1f;
	}
	return n;
}

static inline void
wire_tap(void *arg, unsigned int from_end, bool delivered, const uint8_t *frame, uint32_t len_bytes,
         uint64_t now_ns)
{
	struct wire *w = arg;
	const uint8_t *ip = frame + 14, *tcp = ip + (ip[0] & 15) * 4u;
	uint32_t head, n;

	(void)len_bytes;
	(void)now_ns;
	if (!delivered || wire_be(frame + 12, 2) != 0x0800 || ip[9] != 6)
		return;
	w->pkts[from_end]++;
	if (from_end != 0)
		return;
	if (tcp[13] & 0x02) { /* SYN */
		w->next_seq = wire_be(tcp + 4, 4) + 1;
		w->synced = true;
		return;
	}
	head = (uint32_t)(tcp - ip) + (tcp[12] >> 4) * 4u;
	n = wire_be(ip + 2, 2) - head;
	if (!w->synced || n == 0 || wire_be(tcp + 4, 4) != w->next_seq)
		return;
	CHECK(w->have + n <= sizeof(w->buf));
	memcpy(w->buf + w->have, ip + head, n);
	w->have += n;
	w->next_seq += n;
	while ((n = wire_frame(w)) > 0) {
		memmove(w->buf, w->buf + n, w->have - n);
		w->have -= n;
	}
}

#endif /* VT_WIRE_H */
