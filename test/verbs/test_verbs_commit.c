/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Transactions in one call (draft-talpey-rdma-commit-02 s2): what goes out, in which order,
 * what completes and when, and what is refused.
 */

#include "vt_commit.h"

static void
test_one(void)
{
	struct vt t;
	struct ct x;

	ct_open(&t, NULL, NULL);
	ct_make(&t, &x, 0, 5000);
	CHECK_EQ(weft_commit_places(&x.c), 5);
	CHECK_EQ(weft_commit(t.n[0].qp, &x.c), 0);
	ct_done(&t, 100);
	CHECK_MEM(t.n[1].mem, t.n[0].mem, 5000);
	CHECK_EQ(ct_word(&t), 1);
	ct_silence(&t);
	vt_close(&t);
}

WEFT_TEST_MAIN({"one", test_one})
