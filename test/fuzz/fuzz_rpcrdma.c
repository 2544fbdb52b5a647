/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The transport header of RPC-over-RDMA: what decodes lies within the message. */

#include <errno.h>

#include "fuzz.h"

#include "rpcrdma_wire.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rpcrdma_props props = {4096, 4096, RDMA2_RVRSDIR_NONE};
	struct rpcrdma_hdr h, again;
	uint8_t buf[256];
	uint32_t n = 0;
	int rc;

	memset(&h, 0xa5, sizeof(h));
	rc = weft_rpcrdma_hdr_decode(data, (uint32_t)size, &props, &h);
	FUZZ_CHECK(rc == 0 || rc == -ENODATA || rc == -EPROTONOSUPPORT || rc == -EOPNOTSUPP ||
	           rc == -EBADMSG || rc == -EILSEQ);
	FUZZ_CHECK((rc == -ENODATA) == (size < RPCRDMA_PREFIX_BYTES));
	if (rc != -ENODATA)
		(void)weft_rpcrdma_htype_str(h.p.htype);
	if (rc != 0)
		return 0;
	FUZZ_CHECK(h.len_bytes >= RPCRDMA_PREFIX_BYTES && h.len_bytes <= size);
	if (h.p.htype == RDMA2_ERROR)
		n = weft_rpcrdma_error_encode(buf, sizeof(buf), h.p.xid, h.p.vers, &h.err);
	else if (h.p.htype == RDMA2_CONNPROP_MIDDLE || h.p.htype == RDMA2_CONNPROP_FINAL)
		n = weft_rpcrdma_connprop_encode(buf, sizeof(buf), h.p.xid, &h.props);
	if (n == 0)
		return 0;
	FUZZ_CHECK(weft_rpcrdma_hdr_decode(buf, n, &props, &again) == 0);
	if (h.p.htype == RDMA2_ERROR)
		FUZZ_CHECK(again.err.code == h.err.code);
	else
		FUZZ_CHECK(again.props.send_bytes == h.props.send_bytes &&
		           again.props.recv_bytes == h.props.recv_bytes &&
		           again.props.reverse == h.props.reverse);
	return 0;
}
