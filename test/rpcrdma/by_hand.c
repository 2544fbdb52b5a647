/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Messages that a test encodes and decodes itself. */

#include "by_hand.h"
#include "weft_test.h"

void
hand_header(struct rpcrdma_hdr *h, uint32_t vers, uint32_t htype, uint32_t xid)
{
	weft_rpcrdma_hdr_init(h, vers, htype, xid);
	h->p.credit = 1000;
}

uint32_t
hand_add(uint8_t *m, const struct rpcrdma_hdr *h)
{
	uint32_t len = weft_rpcrdma_encode(m, 4096, h);
	uint8_t raw[256];

	CHECK(len > 0);
	rig_raw_add(raw, h->p.xid, 0, 1, 2);
	memcpy(m + len, raw + 32, 48);
	return len + 48;
}

int
hand_said(struct weft_qp *qp, struct rpcrdma_hdr *h)
{
	struct rpcrdma_hdr mine;
	uint8_t out[16384];
	int n;

	if (h == NULL)
		h = &mine;
	while ((n = fake_take(qp, out, sizeof(out))) >= 0) {
		fake_complete(qp);
		/* Decoding may fail for an error in a version that does not define it. The fields
		 * decoded until then are used. */
		(void)weft_rpcrdma_decode(out, (uint32_t)n, NULL, h);
		if (h->p.vers == 2 && h->p.htype == RDMA2_GRANT)
			continue;
		return h->p.htype == RDMA2_ERROR ? (int)weft_get_be32(out + 16) : -1;
	}
	return 0;
}

int
hand_error(struct weft_qp *qp, struct rpcrdma_err *e)
{
	struct rpcrdma_hdr h;
	int code = hand_said(qp, &h);

	if (e != NULL)
		*e = h.err;
	return code;
}

void
hand_unanswered(struct rig_answer *ans, unsigned int n)
{
	memset(ans, 0, n * sizeof(*ans));
	for (unsigned int i = 0; i < n; i++)
		ans[i].status = WEFT_RPC_CONNLOST;
}

void
hand_greet(struct rig *r, struct rig_answer *ans)
{
	CHECK_EQ(rig_add(&r->c, 1, 2, ans), 0);
	rig_settle(r);
	CHECK_EQ(ans->status, WEFT_RPC_OK);
}
