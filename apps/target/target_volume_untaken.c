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

static bool
untaken_may_end(const struct target_vworker *vw, const struct target_conn *c)
{
	const struct target_vclient *cl = LIST_FIRST(&c->untaken)->g->share->top;

	if (target_vclient_is_named(cl) && vw->named_waiting == 0)
		return false;
	return cl->staging.held_bytes > weft_staging_share(vw->staging) || untaken_has_other(cl, c);
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
		/* One at a time: what it holds may do. */
		if (now_ns < c->untaken_ns + STALL_NS || c->dead || c->untaken_ends)
			return;
		if (untaken_may_end(vw, c))
			break;
	}
	if (c == NULL)
		return;
	c->untaken_ends = true;
	atomic_fetch_add_explicit(&vw->staging_shed, 1, memory_order_relaxed);
	target_log("%s: it has taken none of what it has read of a volume for %llu ms, and others "
	           "wait for the memory: its connection ends",
	           c->peer, (unsigned long long)((now_ns - c->untaken_ns) / 1000000));
	if (target_conn_close_later(c) != 0)
		(void)weft_abort(c->qp);
}
