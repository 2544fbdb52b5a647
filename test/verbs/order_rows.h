/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ORDER_ROWS_H
#define ORDER_ROWS_H

/**
 * @file
 * One table of the orders of RFC 5040 appendix B (Figure 17), RFC 7306 section 7 and
 * draft-talpey-rdma-commit-02 section 3. Rows that the draft leaves open are completed.
 * docs/ordering.md explains the table. The tests verbs_order and verbs_slow prove it.
 */

#include <stdbool.h>

/** Send stands for its four kinds, Immediate Data for both kinds, Flush for any flags. */
enum order_op { O_SEND, O_IMM, O_WRITE, O_READ, O_ATOMIC, O_FLUSH, O_VERIFY, O_AWRITE, ORDER_NOPS };

static const char *const order_ops[ORDER_NOPS] = {
        "Send", "Immediate Data", "Write", "Read", "Atomic", "Flush", "Verify", "Atomic Write"};

/** Placement at the remote peer. */
enum order_remote {
	R_NONE,   /**< either message may be placed first */
	R_PLACED, /**< placed in order */
	R_BEFORE, /**< the first is placed, or done, before the second is carried out */
};

static const char *const order_remotes[] = {
        [R_NONE] = "none", [R_PLACED] = "in order", [R_BEFORE] = "first before second"};

/** Placement at the local peer. */
enum order_local {
	L_NA,
	L_NONE,  /**< no order between the two responses */
	L_AFTER, /**< the response is placed after the first is placed at the remote peer */
	L_MAY,   /**< the second may be placed there before the first's response is generated */
};

static const char *const order_locals[] = {[L_NA] = "n/a",
                                           [L_NONE] = "none",
                                           [L_AFTER] = "response after the first is placed",
                                           [L_MAY] = "second may be placed before the response"};

/** Order at the remote peer. */
enum order_order {
	P_NA,
	P_ORDER,     /**< completed in order */
	P_AFTER,     /**< the response is generated after the first is completed */
	P_PLACED,    /**< completed after the Write is placed and delivered */
	P_RESPONSES, /**< the second response is generated after the first */
	/** as P_RESPONSES, and only if the first succeeds: its failure ends the stream */
	P_SUCCESS,
};

static const char *const order_orders[] = {[P_NA] = "n/a",
                                           [P_ORDER] = "completed in order",
                                           [P_AFTER] = "response after the first is completed",
                                           [P_PLACED] = "completed after the Write is placed",
                                           [P_RESPONSES] = "responses in order",
                                           [P_SUCCESS] = "responses in order, only on success"};

#define OURS "**ours**"

struct order_row {
	enum order_remote remote;
	enum order_local local;
	enum order_order order;
	const char *source;
};

#define FIG17   "RFC 5040"
#define S7      "RFC 7306"
#define FIG8    "draft s3"
#define STRICT  "draft s2.1.2"
#define COMMITS "draft s2.3.2"

/* clang-format off */
static const struct order_row order_rows[ORDER_NOPS][ORDER_NOPS] = {
	[O_SEND] = {
		[O_SEND]   = {R_NONE, L_NA, P_ORDER, FIG17},
		[O_IMM]    = {R_NONE, L_NA, P_ORDER, S7},
		[O_WRITE]  = {R_NONE, L_NA, P_NA, FIG17},
		[O_READ]   = {R_NONE, L_AFTER, P_AFTER, FIG17},
		[O_ATOMIC] = {R_NONE, L_AFTER, P_AFTER, S7},
		[O_FLUSH]  = {R_BEFORE, L_NA, P_AFTER, OURS},
		[O_VERIFY] = {R_BEFORE, L_AFTER, P_AFTER, OURS},
		[O_AWRITE] = {R_BEFORE, L_NA, P_AFTER, OURS},
	},
	[O_IMM] = {
		[O_SEND]   = {R_NONE, L_NA, P_ORDER, S7},
		[O_IMM]    = {R_NONE, L_NA, P_ORDER, S7},
		[O_WRITE]  = {R_NONE, L_NA, P_NA, S7},
		[O_READ]   = {R_NONE, L_AFTER, P_AFTER, S7},
		[O_ATOMIC] = {R_NONE, L_AFTER, P_AFTER, S7},
		[O_FLUSH]  = {R_NONE, L_NA, P_AFTER, OURS},
		[O_VERIFY] = {R_NONE, L_AFTER, P_AFTER, OURS},
		[O_AWRITE] = {R_NONE, L_NA, P_AFTER, OURS},
	},
	[O_WRITE] = {
		[O_SEND]   = {R_NONE, L_NA, P_NA, FIG17},
		[O_IMM]    = {R_NONE, L_NA, P_PLACED, S7},
		[O_WRITE]  = {R_NONE, L_NA, P_NA, FIG17},
		[O_READ]   = {R_NONE, L_AFTER, P_NA, FIG17},
		[O_ATOMIC] = {R_NONE, L_AFTER, P_NA, S7},
		[O_FLUSH]  = {R_BEFORE, L_NA, P_NA, FIG8},
		[O_VERIFY] = {R_BEFORE, L_AFTER, P_NA, "draft s2.2"},
		[O_AWRITE] = {R_BEFORE, L_NA, P_NA, OURS},
	},
	[O_READ] = {
		[O_SEND]   = {R_NONE, L_MAY, P_NA, FIG17},
		[O_IMM]    = {R_NONE, L_MAY, P_NA, S7},
		[O_WRITE]  = {R_NONE, L_MAY, P_NA, FIG17},
		[O_READ]   = {R_NONE, L_NONE, P_RESPONSES, FIG17},
		[O_ATOMIC] = {R_NONE, L_NONE, P_RESPONSES, S7},
		[O_FLUSH]  = {R_BEFORE, L_NA, P_RESPONSES, OURS},
		[O_VERIFY] = {R_BEFORE, L_NONE, P_RESPONSES, OURS},
		[O_AWRITE] = {R_BEFORE, L_NA, P_RESPONSES, OURS},
	},
	[O_ATOMIC] = {
		[O_SEND]   = {R_NONE, L_MAY, P_NA, S7},
		[O_IMM]    = {R_NONE, L_MAY, P_NA, S7},
		[O_WRITE]  = {R_NONE, L_MAY, P_NA, S7},
		[O_READ]   = {R_NONE, L_NONE, P_RESPONSES, S7},
		[O_ATOMIC] = {R_PLACED, L_NONE, P_RESPONSES, S7},
		[O_FLUSH]  = {R_BEFORE, L_NA, P_RESPONSES, OURS},
		[O_VERIFY] = {R_BEFORE, L_NONE, P_RESPONSES, OURS},
		[O_AWRITE] = {R_BEFORE, L_NA, P_RESPONSES, OURS},
	},
	[O_FLUSH] = {
		[O_SEND]   = {R_NONE, L_MAY, P_NA, OURS},
		[O_IMM]    = {R_NONE, L_MAY, P_NA, OURS},
		[O_WRITE]  = {R_NONE, L_MAY, P_NA, OURS},
		[O_READ]   = {R_BEFORE, L_NONE, P_SUCCESS, OURS},
		[O_ATOMIC] = {R_BEFORE, L_NONE, P_SUCCESS, OURS},
		[O_FLUSH]  = {R_BEFORE, L_NA, P_SUCCESS, STRICT},
		[O_VERIFY] = {R_BEFORE, L_NA, P_SUCCESS, FIG8},
		[O_AWRITE] = {R_BEFORE, L_NA, P_SUCCESS, COMMITS},
	},
	[O_VERIFY] = {
		[O_SEND]   = {R_NONE, L_MAY, P_NA, OURS},
		[O_IMM]    = {R_NONE, L_MAY, P_NA, OURS},
		[O_WRITE]  = {R_NONE, L_MAY, P_NA, OURS},
		[O_READ]   = {R_BEFORE, L_NONE, P_SUCCESS, OURS},
		[O_ATOMIC] = {R_BEFORE, L_NONE, P_SUCCESS, OURS},
		[O_FLUSH]  = {R_BEFORE, L_NA, P_SUCCESS, STRICT},
		[O_VERIFY] = {R_BEFORE, L_NONE, P_SUCCESS, STRICT},
		[O_AWRITE] = {R_BEFORE, L_NA, P_SUCCESS, COMMITS},
	},
	[O_AWRITE] = {
		[O_SEND]   = {R_NONE, L_MAY, P_NA, OURS},
		[O_IMM]    = {R_NONE, L_MAY, P_NA, OURS},
		[O_WRITE]  = {R_NONE, L_MAY, P_NA, OURS},
		[O_READ]   = {R_BEFORE, L_NONE, P_RESPONSES, OURS},
		[O_ATOMIC] = {R_BEFORE, L_NONE, P_RESPONSES, OURS},
		[O_FLUSH]  = {R_BEFORE, L_NA, P_RESPONSES, STRICT},
		[O_VERIFY] = {R_BEFORE, L_NONE, P_RESPONSES, STRICT},
		[O_AWRITE] = {R_BEFORE, L_NA, P_RESPONSES, STRICT},
	},
};
/* clang-format on */

/** Whether the second operation may take effect before the first is carried out. */
static inline bool
order_may_overtake(enum order_op first, enum order_op second)
{
	return order_rows[first][second].local == L_MAY;
}

#endif /* ORDER_ROWS_H */
