/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Limits the memory of calls and their answers, by worker and by peer
 * (weft/rpc_budget.h). */

#include "rpcrdma_budget.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct weft_handle_kind rpcrdma_budget_kind = {.name = "RPC budget"};

int
weft_rpc_budget_create(uint64_t bytes, struct weft_rpc_budget **out)
{
	struct weft_rpc_budget *b;

	if (bytes == 0 || out == NULL)
		return -EINVAL;
	b = calloc(1, sizeof(*b));
	if (b == NULL)
		return -ENOMEM;
	b->info.limit_bytes = bytes;
	LIST_INIT(&b->peers);
	TAILQ_INIT(&b->waiters);
	weft_handle_init(&b->h, &rpcrdma_budget_kind);
	*out = b;
	return 0;
}

void
weft_rpc_budget_destroy(struct weft_rpc_budget *b)
{
	if (b == NULL || weft_handle_claim(b, &rpcrdma_budget_kind, __func__) < 0)
		return;
	weft_handle_end(&b->h, &rpcrdma_budget_kind);
	weft_handle_free(&b->h, sizeof(b->h));
}

void
weft_rpc_budget_info(const struct weft_rpc_budget *b, struct weft_rpc_budget_info *info)
{
	if (info == NULL)
		return;
	if (weft_handle_check(b, &rpcrdma_budget_kind, __func__) < 0)
		memset(info, 0, sizeof(*info));
	else
		*info = b->info;
}

/** Of `bytes` octets, those that are charged. */
static uint64_t
budget_beyond(uint64_t bytes)
{
	return bytes > WEFT_RPC_BUDGET_OWN ? bytes - WEFT_RPC_BUDGET_OWN : 0;
}

/** Find the peer of that name, or make it; there are as many as connections. NULL: no memory. */
static struct rpcrdma_budget_peer *
budget_peer(struct weft_rpc_budget *b, const uint8_t *name, uint32_t name_bytes)
{
	struct rpcrdma_budget_peer *p;

	LIST_FOREACH (p, &b->peers, link)
		if (p->name_bytes == name_bytes && memcmp(p->name, name, name_bytes) == 0)
			return p;
	p = calloc(1, sizeof(*p));
	if (p == NULL)
		return NULL;
	TAILQ_INIT(&p->holders);
	memcpy(p->name, name, name_bytes);
	p->name_bytes = name_bytes;
	LIST_INSERT_HEAD(&b->peers, p, link);
	return p;
}

/** Nothing is charged to h any more: remove it from its peer. */
static void
budget_leave(struct rpcrdma_holder *h)
{
	struct rpcrdma_budget_peer *p = h->peer;

	TAILQ_REMOVE(&p->holders, h, link);
	h->peer = NULL;
	h->gone = false;
	if (!TAILQ_EMPTY(&p->holders))
		return;
	LIST_REMOVE(p, link);
	free(p);
}

/** Of this peer's holders, the one that has stopped for the longest and may be ended for h;
 * NULL: none. */
static struct rpcrdma_holder *
budget_stopped(const struct rpcrdma_budget_peer *p, const struct rpcrdma_holder *h, uint64_t now_ns)
{
	struct rpcrdma_holder *it;

	TAILQ_FOREACH (it, &p->holders, link) {
		if (now_ns - it->since_ns < RPCRDMA_BUDGET_STALL_NS)
			return NULL;
		if (it != h && !it->gone && it->busy == 0 && (h->known || !it->known))
			return it;
	}
	return NULL;
}

/** Of the peers that hold more than `mine` and have a stopped holder that may be ended for h,
 * take the one that holds most, and return that holder. */
static struct rpcrdma_holder *
budget_most(const struct weft_rpc_budget *b, const struct rpcrdma_holder *h, uint64_t mine,
            uint64_t now_ns)
{
	struct rpcrdma_holder *it, *goes = NULL;
	struct rpcrdma_budget_peer *p;
	uint64_t most = mine;

	LIST_FOREACH (p, &b->peers, link) {
		if (p->bytes - p->going <= most)
			continue;
		it = budget_stopped(p, h, now_ns);
		if (it == NULL)
			continue;
		goes = it;
		most = p->bytes - p->going;
	}
	return goes;
}

static void
budget_shed(struct weft_rpc_budget *b, struct rpcrdma_holder *h, rpcrdma_shed_fn shed)
{
	uint64_t n = budget_beyond(h->bytes);

	b->info.shed++;
	h->gone = true;
	h->peer->going += n;
	b->going += n;
	shed(h);
}

/** Octets reserved for the holder whose turn is next, if its peer holds less than h's. */
static uint64_t
budget_promised(const struct weft_rpc_budget *b, const struct rpcrdma_holder *h)
{
	const struct rpcrdma_holder *next = TAILQ_FIRST(&b->waiters);

	if (next == NULL || next == h || next->gone)
		return 0;
	return h->peer->bytes > (next->peer != NULL ? next->peer->bytes : 0) ? next->wants : 0;
}

/** Make room to charge n octets to h, which has a peer. */
static bool
budget_room(struct weft_rpc_budget *b, struct rpcrdma_holder *h, uint64_t n, uint64_t now_ns,
            rpcrdma_shed_fn shed)
{
	struct rpcrdma_budget_peer *p = h->peer;
	uint64_t limit = b->info.limit_bytes;
	struct rpcrdma_holder *goes;

	h->wants = 0;
	if (n > limit / 2)
		return false;
	/* Of its own peer's holders, end the one that has stopped for the longest, if that holds
	 * more. */
	while (p->bytes - p->going + n > limit / 2) {
		goes = budget_stopped(p, h, now_ns);
		if (goes == NULL || goes->bytes <= h->bytes)
			return false;
		budget_shed(b, goes, shed);
	}
	if (p->bytes + n > limit / 2)
		return false;
	h->wants = n;
	while (b->info.held_bytes - b->going + n > limit) {
		goes = budget_most(b, h, p->bytes + n, now_ns);
		if (goes == NULL)
			return false;
		budget_shed(b, goes, shed);
	}
	return b->info.held_bytes + n + budget_promised(b, h) <= limit;
}

bool
rpcrdma_budget_never(const struct weft_rpc_budget *b, uint64_t n)
{
	return b != NULL && budget_beyond(n) > b->info.limit_bytes / 2;
}

bool
rpcrdma_budget_tight(const struct weft_rpc_budget *b, const struct rpcrdma_holder *h, uint64_t n)
{
	uint64_t more = budget_beyond(h->bytes + n) - budget_beyond(h->bytes);

	/* What can never fit needs no room. */
	return b != NULL && more > 0 && more <= b->info.limit_bytes / 2 &&
	       ((h->peer != NULL ? h->peer->bytes : 0) + more > b->info.limit_bytes / 2 ||
	        b->info.held_bytes + more > b->info.limit_bytes);
}

bool
rpcrdma_budget_wanted(const struct weft_rpc_budget *b, const struct rpcrdma_holder *h)
{
	const struct rpcrdma_holder *next = b != NULL ? TAILQ_FIRST(&b->waiters) : NULL;

	return next != NULL && h->peer != NULL &&
	       (next->wants != 0 || next->peer == NULL || next->peer == h->peer);
}

/** Let another holder of the peer give back what rests there. False: nothing rests. */
static bool
budget_rest_peer(struct rpcrdma_budget_peer *p, const struct rpcrdma_holder *h)
{
	struct rpcrdma_holder *it;

	TAILQ_FOREACH (it, &p->holders, link)
		if (it != h && it->rest != NULL && it->rest(it))
			return true;
	return false;
}

/** Let a holder give back what rests there, for n octets of h: one of its peer, or, where the
 * peer's half has room, one of any. False: nothing rests. */
static bool
budget_rest(struct weft_rpc_budget *b, const struct rpcrdma_holder *h, uint64_t n)
{
	uint64_t more = budget_beyond(h->bytes + n) - budget_beyond(h->bytes);
	struct rpcrdma_budget_peer *p;

	if (h->peer->bytes + more > b->info.limit_bytes / 2)
		return budget_rest_peer(h->peer, h);
	LIST_FOREACH (p, &b->peers, link)
		if (budget_rest_peer(p, h))
			return true;
	return false;
}

bool
rpcrdma_budget_take(struct weft_rpc_budget *b, struct rpcrdma_holder *h, const uint8_t *name,
                    uint32_t name_bytes, uint64_t n, uint64_t now_ns, rpcrdma_shed_fn shed)
{
	uint64_t more = budget_beyond(h->bytes + n) - budget_beyond(h->bytes);

	if (b == NULL || more == 0) {
		h->bytes += n;
		return true;
	}
	if (h->peer == NULL) {
		h->peer = budget_peer(b, name, name_bytes);
		if (h->peer == NULL)
			return false;
		h->since_ns = now_ns;
		TAILQ_INSERT_TAIL(&h->peer->holders, h, link);
	}
	while (rpcrdma_budget_tight(b, h, n) && budget_rest(b, h, n))
		;
	if (h->gone || !budget_room(b, h, more, now_ns, shed)) {
		b->info.refused++;
		if (budget_beyond(h->bytes) == 0)
			budget_leave(h);
		return false;
	}
	h->bytes += n;
	h->peer->bytes += more;
	b->info.held_bytes += more;
	if (b->info.held_bytes > b->info.most_bytes)
		b->info.most_bytes = b->info.held_bytes;
	return true;
}

void
rpcrdma_budget_give(struct weft_rpc_budget *b, struct rpcrdma_holder *h, uint64_t n)
{
	uint64_t less = budget_beyond(h->bytes) - budget_beyond(h->bytes - n);
	struct rpcrdma_budget_peer *p = h->peer;
	struct rpcrdma_holder *next;

	h->bytes -= n;
	if (p == NULL || less == 0)
		return;
	p->bytes -= less;
	b->info.held_bytes -= less;
	if (h->gone) {
		p->going -= less;
		b->going -= less;
	}
	if (budget_beyond(h->bytes) == 0)
		budget_leave(h);
	next = TAILQ_FIRST(&b->waiters);
	if (next != NULL)
		next->wake(next);
}

void
rpcrdma_budget_moved(struct rpcrdma_holder *h, uint64_t now_ns)
{
	if (h->peer == NULL)
		return;
	h->since_ns = now_ns;
	TAILQ_REMOVE(&h->peer->holders, h, link);
	TAILQ_INSERT_TAIL(&h->peer->holders, h, link);
}

void
rpcrdma_budget_wait(struct weft_rpc_budget *b, struct rpcrdma_holder *h, bool again)
{
	bool last = h->waits && again && h->wants == 0;
	struct rpcrdma_holder *next;

	if (h->waits && !last)
		return;
	if (h->waits)
		TAILQ_REMOVE(&b->waiters, h, wait_link);
	h->waits = true;
	TAILQ_INSERT_TAIL(&b->waiters, h, wait_link);
	next = TAILQ_FIRST(&b->waiters);
	if (last && next->wants != 0)
		next->wake(next);
}

void
rpcrdma_budget_unwait(struct weft_rpc_budget *b, struct rpcrdma_holder *h)
{
	struct rpcrdma_holder *next;

	if (!h->waits)
		return;
	h->waits = false;
	TAILQ_REMOVE(&b->waiters, h, wait_link);
	next = TAILQ_FIRST(&b->waiters);
	if (next != NULL)
		next->wake(next);
}
