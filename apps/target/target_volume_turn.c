/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Whose turn it is to have a window of a worker, and which window is to be given back for
 * that. Runs on workers; never blocks.
 *
 * The slots of a worker are shared fairly among clients (target_volume_client.h). A window that
 * finds none waits. A slot that becomes free goes to the waiting client with the fewest windows.
 * Meanwhile the client that has the most windows, if these are two more than the waiting one has,
 * is told to give back the one that it has used least recently; after revoke_ms that window ends.
 *
 * A device may hang, and then keeps the slots of windows that it flushes. So where a target has
 * several volumes, one of them has at most half of the slots. A window of a volume that has its
 * half waits for a slot of that volume, and holds up no windows of others. Among its clients they
 * are shared like all slots are. Windows of a volume that has stalled are not waited for.
 */

#include "target_volume_client.h"
#include "target_volume_window.h"

bool
target_vchan_is_full(const struct target_vchan *vc)
{
	return vc->vw->volume_windows > 0 && vc->nwindows >= vc->vw->volume_windows;
}

/**
 * Of the windows of a client that wait, the next one: that of the grant with the fewest windows, of
 * the first grants. NULL: none of them can have a slot. It can if its volume has less than it may
 * have; with `ask`, also if another window of its volume may be asked back. *more: none of those
 * that were looked at can, and there are others.
 */
static struct target_vwindow *
vclient_waiter(struct target_vclient *cl, bool ask, bool *more)
{
	struct target_vgrant *g, *next, *moved = NULL, *best = NULL;
	const struct target_vchan *vc;
	unsigned int looks = TARGET_VWINDOW_LOOKS;

	for (g = TAILQ_FIRST(&cl->waiting); g != NULL && g != moved && looks > 0;
	     g = next, looks--) {
		next = TAILQ_NEXT(g, turn);
		vc = g->vc;
		if (target_vchan_is_full(vc) &&
		    (!ask || vc->stalled || vc->nwaiting <= vc->ncoming)) {
			/* The next look sees those behind it. */
			TAILQ_REMOVE(&cl->waiting, g, turn);
			TAILQ_INSERT_TAIL(&cl->waiting, g, turn);
			if (moved == NULL)
				moved = g;
		} else if (best == NULL || g->keeps < best->keeps) {
			best = g;
		}
	}
	*more = *more || (best == NULL && g != NULL && g != moved);
	return best != NULL ? TAILQ_FIRST(&best->windows_waiting) : NULL;
}

struct target_vwindow *
target_vwindow_next(const struct target_vworker *vw, bool ask, bool *more)
{
	struct target_vwindow *x, *best = NULL;
	struct target_vclient *cl;
	uint64_t least = UINT64_MAX, n;

	TAILQ_FOREACH (cl, &vw->turns, turn) {
		if (ask && cl->promised >= cl->nwaiting)
			continue;
		n = (uint64_t)(cl->top->keeps + (ask ? cl->top->promised : 0)) << 32;
		n += cl->keeps + (ask ? cl->promised : 0);
		if (n >= least || (x = vclient_waiter(cl, ask, more)) == NULL)
			continue;
		least = n;
		best = x;
	}
	return best;
}

/** Count how many windows of a volume each client keeps: `here`, of this client as well. */
static void
vwindow_count_here(const struct target_vchan *vc, struct target_vclient *cl)
{
	const struct target_vwindow *x;

	cl->here = cl->top->here = 0;
	LIST_FOREACH (x, &vc->windows, chan_link)
		x->g->share->here = x->g->share->top->here = 0;
	LIST_FOREACH (x, &vc->windows, chan_link) {
		struct target_vclient *of = x->g->share;

		of->here += x->kept;
		if (of->top != of)
			of->top->here += x->kept;
	}
}

/**
 * How many windows more the client of x has than that of the waiter, for which others were asked
 * back already; with `here`, windows of its volume. Among the grants of one client, for example
 * several connections of a host: of the grant.
 */
static int64_t
vwindow_more(const struct target_vwindow *x, const struct target_vwindow *waiter, bool here)
{
	const struct target_vclient *of = x->g->share, *cl = waiter->g->share;

	if (of == cl)
		return (int64_t)x->g->keeps - waiter->g->keeps - cl->promised;
	if (of->top != cl->top) {
		of = of->top;
		cl = cl->top;
	}
	return (int64_t)(here ? of->here : of->keeps) - (here ? cl->here : cl->keeps) -
	       cl->promised;
}

struct target_vwindow *
target_vwindow_victim(const struct target_vworker *vw, const struct target_vwindow *waiter)
{
	const struct target_vchan *vc = waiter->g->vc;
	const bool here = target_vchan_is_full(vc);
	struct target_vwindow *x, *best = NULL;
	int64_t most = 2, n;

	if (here)
		vwindow_count_here(vc, waiter->g->share);
	TAILQ_FOREACH (x, &vw->used, turn) {
		if (x->goes || x->g->vc->stalled || (here && x->g->vc != vc))
			continue;
		n = vwindow_more(x, waiter, here);
		if (n < most)
			continue;
		if (best == NULL || n > most || x->g->share->keeps > best->g->share->keeps ||
		    (x->g->share->keeps == best->g->share->keeps &&
		     weft_vol_window_used_ns(x->w) < weft_vol_window_used_ns(best->w))) {
			most = n;
			best = x;
		}
	}
	return best;
}
