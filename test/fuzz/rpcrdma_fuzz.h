/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_RPCRDMA_FUZZ_H
#define WEFT_RPCRDMA_FUZZ_H

/**
 * @file Checks of the header codec for the entries of both versions. The verdict equals that of
 * rpcgen's XDR and the additional rules. A decoded header lies within the message and is within its
 * limits. Encoded again, it is the same.
 */

#include <string.h>

#include "fuzz.h"

#include "wire_rig.h"
#include "xdr_oracle.h"

/** What the layer above relies on without a check. */
static void
rpcrdma_fuzz_chunks(const struct rpcrdma_chunks *c, uint32_t vers)
{
	unsigned int segs = c->call.n_segs + (c->has_reply ? c->reply.n_segs : 0);

	FUZZ_CHECK(c->n_reads <= RPCRDMA_MAX_READ_CHUNKS);
	FUZZ_CHECK(c->n_writes <= RPCRDMA_MAX_WRITE_CHUNKS);
	FUZZ_CHECK(c->n_segs <= RPCRDMA_MAX_SEGS);
	for (unsigned int i = 0; i < c->n_reads; i++) {
		const struct rpcrdma_chunk *k = &c->reads[i];

		FUZZ_CHECK(k->n_segs > 0 && k->first + k->n_segs <= c->n_segs);
		FUZZ_CHECK(k->position > 0 && k->position % 4 == 0);
		FUZZ_CHECK(i == 0 || k->position > c->reads[i - 1].position);
		segs += k->n_segs;
	}
	for (unsigned int i = 0; i < c->n_writes; i++) {
		FUZZ_CHECK(c->writes[i].first + c->writes[i].n_segs <= c->n_segs);
		segs += c->writes[i].n_segs;
	}
	FUZZ_CHECK(segs == c->n_segs);
	FUZZ_CHECK(vers == RPCRDMA_V2 || c->inv_handle == 0);
}

static void
rpcrdma_fuzz(const uint8_t *data, size_t size, uint32_t vers)
{
	uint8_t buf[WIRE_MAX_BYTES + 64], again[WIRE_MAX_BYTES];
	struct rpcrdma_limits few = {.read_chunks = 1, .write_chunks = 1, .segs = 3};
	struct rpcrdma_hdr h, back;
	enum rpcrdma_verdict v, want;
	uint32_t len = size < WIRE_MAX_BYTES ? (uint32_t)size : WIRE_MAX_BYTES, n, hdr_bytes = 0;
	bool props;

	memcpy(buf, data, len);
	if (len >= 8)
		weft_put_be32(buf + RPCRDMA_OFF_VERS, vers);
	v = wire_decode(buf, len, NULL, &h);
	want = oracle_verdict(buf, len, &hdr_bytes);
	FUZZ_CHECK(v == want || (want == RPCRDMA_BAD_XDR && v == RPCRDMA_BAD_PROPVAL));
	if (v == RPCRDMA_SHORT)
		return;
	(void)weft_rpcrdma_dir(&h, buf, v == RPCRDMA_BAD_HTYPE ? h.len_bytes : len);
	if (v != RPCRDMA_OK)
		return;
	FUZZ_CHECK(h.len_bytes == hdr_bytes && h.len_bytes <= len);
	(void)weft_rpcrdma_xid_ok(&h, buf, len);
	props = vers == RPCRDMA_V2 &&
	        (h.p.htype == RDMA2_CONNPROP_MIDDLE || h.p.htype == RDMA2_CONNPROP_FINAL);
	if (h.p.htype != RDMA2_ERROR && h.p.htype != RDMA2_GRANT && !props &&
	    (vers == RPCRDMA_V1 ||
	     (h.p.htype != RDMA2_CALL_MIDDLE && h.p.htype != RDMA2_REPLY_MIDDLE)))
		rpcrdma_fuzz_chunks(&h.chunks, vers);
	n = weft_rpcrdma_encode(again, sizeof(again), &h);
	FUZZ_CHECK(n > 0 && n == weft_rpcrdma_hdr_bytes(&h));
	if (!props || h.props.n_unknown <= RPCRDMA_MAX_UNKNOWN_PROPS) {
		/* The payload after a header is at least the xid. */
		n += n + 4 <= sizeof(again) ? wire_words(again + n, &h.p.xid, 1) : 0;
		FUZZ_CHECK(wire_decode(again, n, NULL, &back) == RPCRDMA_OK);
		FUZZ_CHECK(wire_equal(&h, &back));
	}
	/* Smaller limits cause a refusal, and change nothing else. */
	v = weft_rpcrdma_decode(buf, len, &few, &back);
	FUZZ_CHECK(v == RPCRDMA_MANY_READS || v == RPCRDMA_MANY_WRITES || v == RPCRDMA_MANY_SEGS ||
	           (v == RPCRDMA_OK && wire_equal(&h, &back)));
}

#endif /* WEFT_RPCRDMA_FUZZ_H */
