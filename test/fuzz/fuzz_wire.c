/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The headers of MPA's start-up, DDP and RDMAP, one for an input; the first octet selects it.
 * A decoded header lies within the input. Encoded again, it has the same octets except those that a
 * receiver ignores.
 */

#include <string.h>

#include "fuzz.h"

#include "mpa_wire.h"
#include "rdmap_wire.h"
#include "weft_ddp_wire.h"

static void
mpa_frame(const uint8_t *p, size_t len)
{
	static struct weft_mpa_frame f, again;
	uint8_t buf[MPA_FRAME_MAX_BYTES];
	int n = weft_mpa_frame_decode(p, len, &f), m;

	FUZZ_CHECK(n == -EPROTO || n == -EAGAIN || n >= MPA_FRAME_HDR_BYTES);
	if (n < 0)
		return;
	FUZZ_CHECK((size_t)n <= len && f.pdata_len_bytes <= n - MPA_FRAME_HDR_BYTES);
	m = weft_mpa_frame_encode(&f, buf, sizeof(buf));
	FUZZ_CHECK(m == n);
	/* Key, revision and the ULP's private data are the same. Reserved flags are 0. */
	FUZZ_CHECK(memcmp(buf, p, 16) == 0 && buf[17] == p[17]);
	FUZZ_CHECK((buf[16] & ~p[16]) == 0);
	FUZZ_CHECK(memcmp(buf + m - f.pdata_len_bytes, p + n - f.pdata_len_bytes,
	                  f.pdata_len_bytes) == 0);
	FUZZ_CHECK(weft_mpa_frame_decode(buf, (size_t)m, &again) == m);
	FUZZ_CHECK(again.ird == f.ird && again.ord == f.ord && again.p2p == f.p2p &&
	           again.rtr_send == f.rtr_send && again.rtr_write == f.rtr_write &&
	           again.rtr_read == f.rtr_read && again.reject == f.reject);
	/* Each shorter frame is incomplete. */
	FUZZ_CHECK(weft_mpa_frame_decode(p, (size_t)n - 1, &again) == -EAGAIN);
}

/** The first fragment has `cut` octets. */
static void
ddp_hdr(const uint8_t *p, size_t len, uint8_t cut)
{
	uint32_t first = cut < len ? cut : (uint32_t)len;
	const struct weft_frag frag[2] = {{p, first}, {p + first, (uint32_t)len - first}};
	uint8_t buf[WEFT_DDP_UNTAGGED_HDR_BYTES];
	struct weft_ddp_hdr h;
	struct weft_cur c;
	int n;

	weft_cur_init(&c, frag, 2);
	n = weft_ddp_hdr_decode(&c, &h);
	if (n < 0) {
		FUZZ_CHECK(n == -ENODATA && (len == 0 || len < (p[0] & 0x80 ? 14u : 18u)));
		return;
	}
	FUZZ_CHECK(n == (p[0] & 0x80 ? 14 : 18) && (size_t)n <= len);
	(void)rdmap_op_of(&h);
	if (h.version != 1)
		return;
	FUZZ_CHECK(weft_ddp_hdr_encode(&h, buf) == (unsigned int)n);
	FUZZ_CHECK((buf[0] & 0xc3) == (p[0] & 0xc3));
	FUZZ_CHECK(memcmp(buf + 1, p + 1, (size_t)n - 1) == 0);
}

static void
place_req(uint8_t op, const uint8_t *p, size_t len)
{
	uint8_t buf[RDMAP_CTL_MAX_BYTES];
	struct rdmap_ext_req q;
	int n = rdmap_ext_req_decode(op, p, len, &q);

	if (n < 0)
		return;
	FUZZ_CHECK((size_t)n <= len && q.hash_bytes <= WEFT_HASH_MAX_BYTES);
	FUZZ_CHECK(rdmap_ext_req_encode(op, &q, buf) == (unsigned int)n);
	FUZZ_CHECK(memcmp(buf, p, (size_t)n) == 0);
}

static void
atomics(uint8_t how, const uint8_t *p, size_t len)
{
	uint8_t buf[RDMAP_ATOMIC_REQ_BYTES];
	struct rdmap_atomic_resp a;
	struct rdmap_atomic_req q;
	struct rdmap_read_req r;
	int n;

	switch (how) {
	case 0:
		n = rdmap_read_req_decode(p, len, &r);
		if (n >= 0)
			FUZZ_CHECK(rdmap_read_req_encode(&r, buf) == (unsigned int)n);
		break;
	case 1:
		n = rdmap_atomic_resp_decode(p, len, &a);
		if (n >= 0)
			FUZZ_CHECK(rdmap_atomic_resp_encode(&a, buf) == (unsigned int)n);
		break;
	default:
		n = rdmap_atomic_req_decode(p, len, &q);
		if (n >= 0) {
			FUZZ_CHECK(rdmap_atomic_req_encode(&q, buf) == (unsigned int)n);
			/* the reserved bits before the opcode are ignored */
			FUZZ_CHECK(memcmp(buf + 4, p + 4, (size_t)n - 4) == 0);
			n = -1;
		}
		break;
	}
	FUZZ_CHECK(n < 0 || ((size_t)n <= len && memcmp(buf, p, (size_t)n) == 0));
}

static void
terminate(const uint8_t *p, size_t len)
{
	uint8_t buf[RDMAP_TERM_MAX_BYTES];
	struct rdmap_terminate t, again;
	int n = rdmap_terminate_decode(p, len, &t);
	unsigned int m;

	if (n < 0)
		return;
	FUZZ_CHECK((size_t)n <= len && n <= RDMAP_TERM_MAX_BYTES);
	m = rdmap_terminate_encode(&t, buf);
	FUZZ_CHECK(m <= sizeof(buf));
	if (t.swapped || t.has_len != t.has_ddp)
		return;
	FUZZ_CHECK(m == (unsigned int)n && rdmap_terminate_decode(buf, m, &again) == n);
	FUZZ_CHECK(again.term.layer == t.term.layer && again.term.etype == t.term.etype &&
	           again.term.code == t.term.code && again.seg_bytes == t.seg_bytes &&
	           again.has_ddp == t.has_ddp && again.has_rdma == t.has_rdma);
}

void
fuzz_one(const uint8_t *data, size_t size)
{
	if (size == 0)
		return;
	switch (data[0] & 7) {
	case 0:
		mpa_frame(data + 1, size - 1);
		break;
	case 1:
		ddp_hdr(data + 1, size - 1, data[0] >> 3);
		break;
	case 2:
		place_req(WEFT_RDMAP_FLUSH_REQ, data + 1, size - 1);
		break;
	case 3:
		place_req(WEFT_RDMAP_VERIFY_REQ, data + 1, size - 1);
		break;
	case 4:
		place_req(WEFT_RDMAP_AWRITE_REQ, data + 1, size - 1);
		break;
	case 5:
		terminate(data + 1, size - 1);
		break;
	default:
		atomics(data[0] >> 3 & 3, data + 1, size - 1);
		break;
	}
}
