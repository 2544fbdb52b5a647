/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Credits: our interpretation of draft sections 4.2.1 and 4.3, in this one place.
 *
 * The draft: rdma_credit = "Sent message count" + "Advertised credits". A message must not be
 * posted when "Sent message count is greater than Received credits", which start at one. Both sides
 * keep a "Received message count" that no formula uses. One receive more than advertised is posted,
 * for an RDMA2_GRANT.
 *
 * 1. The count of sent messages that is compared includes the message about to be posted.
 *    Otherwise initial credits of one would permit two, where s4.3 allows one.
 * 2. The value sent limits what the *peer* may have sent in all, because the peer compares it with
 *    that. So the value is made to be our Received message count (the peer's Sent message count as
 *    far as we know it) plus the receives that the peer may still use. Our Advertised credits,
 *    which we may choose, are the difference. With the plain sum, each RDMA2_GRANT would promise
 *    one receive too many, because it raises our own count and uses none of our receives. Where
 *    calls and replies alternate, the two values are equal.
 * 3. A promise is never withdrawn: the value does not decrease.
 * 4. Replies that wait for the peer's credit are subtracted from what is advertised, down to two.
 *    So a peer that takes few answers at a time does not make us queue more and more of them. (Two,
 *    not one: see 6.)
 * 5. An RDMA2_GRANT counts as a message on both sides, and may exceed the limit by one. The receive
 *    in reserve is for that.
 * 6. A refresh is due when half of the window is used ("before half its credit limit is
 *    exceeded"). A received RDMA2_GRANT causes one only when no credit is left, and at least two
 *    are advertised at a time. Otherwise two peers could grant each other for ever, because each
 *    grant would use the only credit that the other's grant gave.
 *
 * All comparisons are modulo 2^32; windows are far below 2^31 - 1.
 */

#include "rpcrdma_credit.h"

#define CREDIT_MIN 2 /* least credits advertised: see 4 and 6 above */

/* a <= b as serial numbers. */
static bool
credit_leq(uint32_t a, uint32_t b)
{
	return (int32_t)(b - a) >= 0;
}

void
weft_rpcrdma_credit_init(struct rpcrdma_credit *c, uint32_t window)
{
	*c = (struct rpcrdma_credit){.limit = 1, .promised = 1, .window = window};
}

bool
weft_rpcrdma_credit_may_send(const struct rpcrdma_credit *c)
{
	return credit_leq(c->sent + 1, c->limit);
}

bool
weft_rpcrdma_credit_may_grant(const struct rpcrdma_credit *c)
{
	return credit_leq(c->sent, c->limit);
}

uint32_t
weft_rpcrdma_credit_field(const struct rpcrdma_credit *c, uint32_t backlog)
{
	uint32_t ahead = backlog + CREDIT_MIN < c->window ? c->window - backlog : CREDIT_MIN;
	uint32_t field = c->recvd + ahead;

	return credit_leq(field, c->promised) ? c->promised : field;
}

void
weft_rpcrdma_credit_posted(struct rpcrdma_credit *c, uint32_t field)
{
	c->sent++;
	c->promised = field;
}

bool
weft_rpcrdma_credit_wants_refresh(const struct rpcrdma_credit *c, uint32_t backlog, bool payload)
{
	int32_t left = (int32_t)(c->promised - c->recvd);

	if (weft_rpcrdma_credit_field(c, backlog) == c->promised)
		return false;
	return payload ? left <= (int32_t)(c->window / 2) : left <= 0;
}
