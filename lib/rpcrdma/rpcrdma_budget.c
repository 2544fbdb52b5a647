/* SPDX-License-Identifier: BSD-3-Clause */
/** @file How much calls that are not whole may hold, by worker and by peer (weft_rpc_budget.h). */

#include "rpcrdma_budget.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
	weft_handle_init(&b->h, WEFT_HANDLE_RPC_BUDGET);
	*out = b;
	return 0;
}

void
weft_rpc_budget_destroy(struct weft_rpc_budget *b)
{
	if (b == NULL || WEFT_HANDLE_CLAIM(b, RPC_BUDGET) < 0)
		return;
	weft_handle_end(&b->h, WEFT_HANDLE_RPC_BUDGET);
	weft_handle_free(&b->h, sizeof(b->h));
}

void
weft_rpc_budget_info(const struct weft_rpc_budget *b, struct weft_rpc_budget_info *info)
{
	if (info == NULL)
		return;
	if (WEFT_HANDLE_BAD(b, RPC_BUDGET))
		memset(info, 0, sizeof(*info));
	else
		*info = b->info;
}

/** Of so many octets those that are charged. */
static uint64_t
budget_beyond(uint64_t bytes)
{
	return bytes > WEFT_RPC_BUDGET_OWN ? bytes - WEFT_RPC_BUDGET_OWN : 0;
}

/** The peer of that name, made when it is not there; as many as connections. NULL: no memory. */
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

/** h is charged nothing any more. */
static void
budget_leave(struct rpcrdma_holder *h)
{
	struct rpcrdma_budget_peer *p = h->peer;

	TAILQ_REMOVE(&p->holders, h, link);
	h->peer = NULL;
	if (!TAILQ_EMPTY(&p->holders))
		return;
	LIST_REMOVE(p, link);
	free(p);
}

/** Of those that have more than `mine`, one of whose connections has stopped and may go for h's:
 * the one with the most. */
static struct rpcrdma_budget_peer *
budget_most(const struct weft_rpc_budget *b, const struct rpcrdma_holder *h, uint64_t mine,
            uint64_t now_ns)
{
	struct rpcrdma_budget_peer *p, *most = NULL;

	LIST_FOREACH (p, &b->peers, link) {
		const struct rpcrdma_holder *first = TAILQ_FIRST(&p->holders);

		if (p->bytes > mine && (most == NULL || p->bytes > most->bytes) &&
		    now_ns - first->since_ns >= RPCRDMA_BUDGET_STALL_NS &&
		    (h->known || !first->known))
			most = p;
	}
	return most;
}

/** Make room for n octets that h, which has a peer, is to be charged. */
static bool
budget_room(struct weft_rpc_budget *b, const struct rpcrdma_holder *h, uint64_t n, uint64_t now_ns,
            rpcrdma_shed_fn shed)
{
	struct rpcrdma_budget_peer *p = h->peer, *most;

	if (p->bytes + n > b->info.limit_bytes / 2)
		return false;
	while (b->info.held_bytes + n > b->info.limit_bytes) {
		most = budget_most(b, h, p->bytes + n, now_ns);
		if (most == NULL)
			return false;
		b->info.shed++;
		shed(TAILQ_FIRST(&most->holders));
	}
	return true;
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
	if (!budget_room(b, h, more, now_ns, shed)) {
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
rpcrdma_budget_give(struct weft_rpc_budget *b, struct rpcrdma_holder *h, uint64_t n,
                    uint64_t now_ns)
{
	uint64_t less = budget_beyond(h->bytes) - budget_beyond(h->bytes - n);
	struct rpcrdma_budget_peer *p = h->peer;

	h->bytes -= n;
	if (p == NULL)
		return;
	p->bytes -= less;
	b->info.held_bytes -= less;
	if (budget_beyond(h->bytes) == 0) {
		budget_leave(h);
	} else if (n > 0) {
		h->since_ns = now_ns;
		TAILQ_REMOVE(&p->holders, h, link);
		TAILQ_INSERT_TAIL(&p->holders, h, link);
	}
}
