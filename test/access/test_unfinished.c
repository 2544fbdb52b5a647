/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Calls that a peer begins and never completes hold memory for a limited time. */

#include <string.h>

#include "by_hand.h"
#include "weft_test.h"

#define S 1000000u

static struct rig rig;

static void
part(struct rig_side *to, uint32_t xid, uint32_t done, uint32_t total, bool last)
{
	static uint8_t m[4096];
	struct rpcrdma_hdr h;
	uint32_t n;

	hand_header(&h, 2, last ? RDMA2_CALL_INLINE : RDMA2_CALL_MIDDLE, xid);
	h.remaining_bytes = total - done - 1000;
	n = weft_rpcrdma_encode(m, sizeof(m), &h);
	memset(m + n, 0, 1000);
	weft_put_be32(m + n, xid);
	fake_inject(&to->qp, m, n + 1000);
	while (fake_take(&to->qp, m, sizeof(m)) >= 0)
		fake_complete(&to->qp);
}

/* A call with an argument in a chunk of the peer, which never answers the RDMA Read. */
static void
chunk(struct rig_side *to, uint32_t xid)
{
	static uint8_t m[4096];
	struct rpcrdma_hdr h;

	hand_header(&h, 2, RDMA2_CALL_EXTERNAL, xid);
	h.chunks.call = (struct rpcrdma_chunk){.n_segs = 1, .len_bytes = 900000};
	h.chunks.segs[0] = (struct rpcrdma_segment){.handle = 7, .len_bytes = 900000};
	h.chunks.n_segs = 1;
	fake_inject(&to->qp, m, weft_rpcrdma_encode(m, sizeof(m), &h));
}

static bool
closed(unsigned int s)
{
	fake_advance(&rig.worker, (uint64_t)s * S);
	return rig.s.rpc->down;
}

static void
down(void)
{
	fake_break(&rig.c.qp);
	rig_down(&rig);
}

/* Parts that stop, parts that arrive slowly, and a Read that is not answered: the connection
 * ends after 30 to 60 s, and the memory is freed. */
static void
test_over(void)
{
	for (unsigned int how = 0; how < 3; how++) {
		unsigned int s = 0;

		rig_up(&rig, &(struct rig_opts){0});
		if (how == 2)
			chunk(&rig.s, 9);
		else
			part(&rig.s, 9, 0, 900000, false);
		CHECK(rig.s.rpc->cont.buf != NULL || rig.s.rpc->nreqs == 1);
		while (s < 200 && !closed(1)) {
			s++;
			if (how == 1 && s % 5 == 0)
				part(&rig.s, 9, s / 5 * 1000, 900000, false);
		}
		CHECK_MSG(s >= 29 && s <= 60, "kind %u: %u s", how, s);
		CHECK_EQ(rig.s.rpc->stats.unfinished, 1);
		CHECK_EQ(rig.s.qp.disconnects, 1);
		CHECK(rig.s.rpc->cont.buf == NULL);
		CHECK_EQ(rig.s.rpc->nreqs, 0);
		down();
	}
}

/* A peer that completes its calls may be slow for any time. The alarm of an earlier call does
 * not end a later one. */
static void
test_goes_on(void)
{
	rig_up(&rig, &(struct rig_opts){0});
	for (uint32_t xid = 1; xid <= 40; xid++) {
		part(&rig.s, xid, 0, 3000, false);
		CHECK(!closed(11));
		part(&rig.s, xid, 1000, 3000, false);
		CHECK(!closed(12));
		part(&rig.s, xid, 2000, 3000, true);
		CHECK(rig.s.rpc->cont.buf == NULL);
	}
	CHECK_EQ(rig.s.rpc->stats.unfinished, 0);
	CHECK_EQ(rig.s.rpc->stats.continued, 40);
	/* and without an incomplete call there is no check */
	CHECK(!closed(100));
	CHECK(rig.s.rpc->unfinished == NULL);
	down();
}

static uint32_t limit;

static void
see_credit(struct weft_qp *qp, const void *buf, uint32_t len_bytes)
{
	(void)qp;
	CHECK(len_bytes >= RPCRDMA_PREFIX_BYTES);
	limit = weft_get_be32((const uint8_t *)buf + RPCRDMA_OFF_CREDIT);
}

/* Calls with chunks, as many as there are credits, or more. No Read is answered. */
static void
test_chunks(void)
{
	for (unsigned int obeys = 0; obeys < 2; obeys++) {
		const uint64_t most = RPCRDMA_PULLED_HIGH + 10 * (uint64_t)(1048576 + 65536);
		uint32_t sent = 0;

		rig_up(&rig, &(struct rig_opts){0});
		rig.s.qp.on_post = see_credit;
		limit = 1;
		while (sent < 500 && !rig.s.rpc->down && (!obeys || sent < limit)) {
			chunk(&rig.s, 1000 + sent++);
			CHECK(rig.s.rpc->pulled_bytes <= most);
		}
		CHECK_EQ(rig.s.rpc->down, !obeys);
		CHECK_MSG(sent < 30, "%u calls", sent);
		CHECK_EQ(rig.s.rpc->pulled_bytes > 0, obeys);
		CHECK_EQ(closed(70), true);
		CHECK_EQ(rig.s.rpc->pulled_bytes, 0);
		down();
	}
}

WEFT_TEST_MAIN({"over in time", test_over}, {"a finished handshake goes on", test_goes_on},
               {"chunks without end", test_chunks})
