/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file READs of volumes that are answered, and whose data the peer has not taken yet. Runs on
 * workers; never blocks.
 *
 * Such an answer holds staging memory until the peer has acknowledged it. A peer that stops would
 * hold it for as long as its connection lasts. So when others wait for staging memory, a connection
 * ends that has taken no answer for half a second, as the RPC budget does it (weft/rpc_budget.h):
 * the one that has stopped for the longest, of a client that holds more than its share, or of which
 * another connection waits. A connection of a client with a name gives way only to another client
 * with a name.
 */

#include "target.h"
#include "target_say.h"
#include "target_volume.h"
#include "target_volume_client.h"
#include "ui.h"

#define STALL_NS 500000000ULL

void
target_vuntaken_add(struct target_vio *io)
{
	struct target_conn *c = io->g->conn;

	if (LIST_EMPTY(&c->untaken)) {
		c->untaken_ns = weft_worker_now_ns(c->w->w);
		TAILQ_INSERT_TAIL(&c->w->volumes->untaken, c, untaken_link);
	}
	LIST_INSERT_HEAD(&c->untaken, io, link);
}

void
target_vuntaken_remove(struct target_vio *io)
{
	struct target_conn *c = io->g->conn;
	struct target_vworker *vw = c->w->volumes;

	LIST_REMOVE(io, link);
	TAILQ_REMOVE(&vw->untaken, c, untaken_link);
	if (LIST_EMPTY(&c->untaken))
		return;
	c->untaken_ns = weft_worker_now_ns(c->w->w);
	TAILQ_INSERT_TAIL(&vw->untaken, c, untaken_link);
}

/** Whether another connection of the client waits. */
static bool
untaken_has_other(const struct target_vclient *cl, const struct target_conn *c)
{
	const struct weft_staging_lane *lane;

	/* A lane is of a grant. */
	TAILQ_FOREACH (lane, &cl->staging.lanes, link) {
		const struct target_vio *io = TAILQ_FIRST(&lane->waiting)->owner;

		if (io->g->conn != c)
			return true;
	}
	return false;
}

/** The share of a client that reads this volume: where the volume has all that it may have, of
 * that. */
static uint64_t
untaken_share(const struct target_vworker *vw, const struct target_vchan *vc, uint32_t clients)
{
	const struct weft_staging_group *g = &vc->staging;

	if (g->max_bytes > 0 && g->held_bytes + weft_staging_max_req(vw->staging) > g->max_bytes)
		return g->max_bytes / clients;
	return weft_staging_share(vw->staging);
}

static bool
untaken_may_end(const struct target_vworker *vw, const struct target_conn *c, uint32_t clients)
{
	const struct target_vgrant *g = LIST_FIRST(&c->untaken)->g;
	const struct target_vclient *cl = g->share->top;

	if (target_vclient_is_named(g->share) && vw->named_waiting == 0)
		return false;
	return cl->staging.held_bytes > untaken_share(vw, g->vc, clients) ||
	       untaken_has_other(cl, c);
}

void
target_vuntaken_look(struct target_vworker *vw, uint64_t now_ns)
{
	struct weft_staging_stats s;
	struct target_conn *c;

	weft_staging_query(vw->staging, &s);
	if (s.waiting == 0)
		return;
	TAILQ_FOREACH (c, &vw->untaken, untaken_link) {
		if (now_ns < c->untaken_ns + STALL_NS)
			return;
		/* One in each look: what it holds may do. */
		if (!c->dead && !c->untaken_ends && untaken_may_end(vw, c, s.clients))
			break;
	}
	if (c == NULL)
		return;
	c->untaken_ends = true;
	atomic_fetch_add_explicit(&vw->staging_shed, 1, memory_order_relaxed);
	target_log(UI_WARNING
	           "%s: it has taken none of what it has read of a volume for %llu ms, and others "
	           "wait for the memory: its connection ends",
	           c->peer, (unsigned long long)((now_ns - c->untaken_ns) / 1000000));
	if (target_conn_close_later(c) != 0)
		(void)weft_abort(c->qp);
}
