/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_CREDIT_H
#define RPCRDMA_CREDIT_H

/** @file Credits of both versions; rpcrdma_credit.c has our interpretation of section 4.2.1. */

#include <stdbool.h>
#include <stdint.h>

struct rpcrdma_credit {
	uint32_t sent;  /**< messages posted, all kinds */
	uint32_t recvd; /**< receives completed */
	uint32_t limit; /**< "Received credits": the messages that we may have sent in all */
	/** the highest rdma_credit sent: the messages that the peer may have sent in all */
	uint32_t promised;
	/** messages that we are prepared to receive; one more receive is posted */
	uint32_t window;
};

void weft_rpcrdma_credit_init(struct rpcrdma_credit *c, uint32_t window);
/** Whether one more message may be posted. */
bool weft_rpcrdma_credit_may_send(const struct rpcrdma_credit *c);
/** The same for an RDMA2_GRANT, which may use the receive kept in reserve for it. */
bool weft_rpcrdma_credit_may_grant(const struct rpcrdma_credit *c);
/** The rdma_credit of a message posted now, while `backlog` replies wait for credit. */
uint32_t weft_rpcrdma_credit_field(const struct rpcrdma_credit *c, uint32_t backlog);
/** A message that carried `field` was posted. */
void weft_rpcrdma_credit_posted(struct rpcrdma_credit *c, uint32_t field);
/** Whether the peer needs an RDMA2_GRANT, when no other message is about to carry the credit. */
bool weft_rpcrdma_credit_wants_refresh(const struct rpcrdma_credit *c, uint32_t backlog,
                                       bool payload);

/**
 * Version 1 (RFC 8166 s3.3.1, RFC 8167 s4.1): the number of calls that may be unanswered. Replies
 * grant it; each direction has its own. Replies need no credit.
 */
struct rpcrdma_credit1 {
	uint32_t granted; /**< by the peer's last reply; 1 before the first */
	uint32_t calls;   /**< our unanswered calls */
	uint32_t lost;    /**< of these, calls that ended without the answer, which is still owed */
};

#endif /* RPCRDMA_CREDIT_H */
