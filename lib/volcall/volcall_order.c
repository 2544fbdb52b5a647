/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The order of requests. A target serves a call without chunks as it comes, and a call with a
 * Read chunk when it has read the data, so calls change places on their way. What has an order
 * (weft/volume.h) is therefore sent when that before it has ended.
 *
 * A request counts those that it waits for. To take one, and to end one, costs a look at each
 * request that was taken and has not ended, unless none of them changes anything.
 */

#include "volcall_priv.h"

/* What an operation does with its range. */
enum order_use {
	ORDER_NONE, /* it has no order */
	ORDER_READS,
	ORDER_CHANGES,
	ORDER_COVERS, /* changes before it; nothing waits for it */
};

static const enum order_use order_uses[WEFT_VOLUME_OPS] = {
        [WEFT_VOLUME_OP_READ] = ORDER_READS,
        [WEFT_VOLUME_OP_WRITE] = ORDER_CHANGES,
        [WEFT_VOLUME_OP_FLUSH] = ORDER_COVERS,
        [WEFT_VOLUME_OP_VERIFY] = ORDER_READS,
        [WEFT_VOLUME_OP_COMPARE_WRITE] = ORDER_CHANGES,
        [WEFT_VOLUME_OP_DISCARD] = ORDER_CHANGES,
        [WEFT_VOLUME_OP_ZEROES] = ORDER_CHANGES,
        [WEFT_VOLUME_OP_EXTENTS] = ORDER_READS,
};

/* Ranges lie in the volume, so their ends do not wrap. */
static bool
order_meets(const struct weft_volume_req *req, uint64_t off_bytes, uint64_t len_bytes)
{
	return off_bytes < req->off_bytes + req->len_bytes &&
	       req->off_bytes < off_bytes + len_bytes;
}

static bool
order_is_all(const struct weft_volume_req *req)
{
	return req->op == WEFT_VOLUME_OP_FLUSH && req->off_bytes == 0 && req->len_bytes == 0;
}

static bool
order_waits(const struct weft_volume_req *later, const struct weft_volume_req *earlier)
{
	const enum order_use first = order_uses[earlier->op], then = order_uses[later->op];

	if (first == ORDER_CHANGES ? then == ORDER_NONE
	                           : first != ORDER_READS || then != ORDER_CHANGES)
		return false;
	return order_is_all(later) || order_meets(earlier, later->off_bytes, later->len_bytes);
}

bool
volcall_order_take(struct weft_volume *v, struct weft_volume_req *req)
{
	const bool changes = order_uses[req->op] == ORDER_CHANGES;
	const struct weft_volume_req *r;

	req->waits = 0;
	req->number = ++v->taken;
	if (changes || v->changes > 0)
		for (r = v->live_first; r != NULL; r = r->live_next)
			req->waits += order_waits(req, r);
	v->changes += changes;
	req->live_next = NULL;
	req->live_prev = v->live_last;
	if (v->live_last != NULL)
		v->live_last->live_next = req;
	else
		v->live_first = req;
	v->live_last = req;
	return req->waits == 0;
}

void
volcall_order_end(struct weft_volume *v, struct weft_volume_req *req)
{
	const bool look = v->changes > 0;
	struct weft_volume_req *r = req->live_next;

	if (req->live_prev != NULL)
		req->live_prev->live_next = req->live_next;
	else
		v->live_first = req->live_next;
	if (req->live_next != NULL)
		req->live_next->live_prev = req->live_prev;
	else
		v->live_last = req->live_prev;
	req->live_next = req->live_prev = NULL;
	v->changes -= order_uses[req->op] == ORDER_CHANGES;
	for (; look && r != NULL; r = r->live_next)
		if (order_waits(r, req) && --r->waits == 0)
			volcall_push(&v->pending, r);
}

bool
volcall_order_holds(const struct weft_volume *v, const struct weft_volume_window *w)
{
	const struct weft_volume_req *r = v->changes > 0 ? v->live_first : NULL;

	for (; r != NULL && r->number <= w->behind; r = r->live_next)
		if (order_uses[r->op] == ORDER_CHANGES &&
		    order_meets(r, w->want_off_bytes, w->want_len_bytes))
			return true;
	return false;
}
