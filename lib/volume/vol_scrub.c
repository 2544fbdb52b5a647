/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The scrubber: one group after the other, each not before the rate allows it.
 */

#include "vol_priv.h"
#include "weft_volume_scrub.h"

#define SCRUB_LOOK_NS 100000000ULL /* so often it looks whether something was changed */

/** How long the rate gives to so many octets. */
static uint64_t
scrub_ns(const struct weft_vol_scrub *s, uint64_t bytes)
{
	return (uint64_t)((double)bytes * 1e9 / (double)s->bytes_per_s);
}

static void
scrub_done(struct weft_vol_op *op)
{
	struct weft_vol_scrub *s = op->owner;
	const uint64_t at = op->off_bytes;
	const bool stale = s->stale, canceled = (!s->on || stale) && op->status == -ECANCELED;

	s->busy = s->stale = false;
	s->damaged += op->damaged;
	if (op->damaged > 0 && s->damage != NULL)
		s->damage(s, op->damaged_off_bytes, op->damaged);
	if (op->status != 0 && !canceled) {
		s->errors++;
		if (s->failed != NULL)
			s->failed(s, at, op->status);
	}
	if (stale)
		return;
	s->off_bytes = at + op->len_bytes;
	/* The next look for a group in doubt finds the end. */
	if (s->only_doubted)
		return;
	if (s->off_bytes < weft_vol_info(s->chan->vol)->bytes)
		return;
	s->off_bytes = 0;
	s->passes++;
	if (s->pass != NULL)
		s->pass(s);
}

void
weft_vol_scrub_start(struct weft_vol_scrub *s, struct weft_vol_chan *c, uint64_t now_ns)
{
	s->chan = c;
	s->off_bytes = 0;
	s->next_ns = now_ns;
	s->on = true;
	s->told = false;
	s->stale = s->busy;
}

static void
scrub_tidied(struct weft_vol_op *op)
{
	struct weft_vol_scrub *s = op->owner;

	s->busy = s->stale = false;
	if (op->status == 0)
		s->tidied = s->noted;
	else
		s->next_ns = s->chan->now_ns + WEFT_VOL_SCRUB_AGAIN_NS;
}

/** Nothing is in doubt: have the maps cleared, if they name groups that are not changed now. */
static void
scrub_tidy(struct weft_vol_scrub *s, uint64_t now_ns, bool now)
{
	struct vol_sums *sums = s->chan->vol->sums;
	const uint64_t noted = atomic_load_explicit(&sums->noted, memory_order_relaxed);

	/* A bit is set before its change begins. */
	if (noted != s->noted)
		s->quiet_ns = now_ns;
	s->noted = noted;
	if (noted == s->tidied)
		return;
	/* Not at each poll: the workers would set it again each time. */
	if (now_ns - s->looked_ns >= SCRUB_LOOK_NS ||
	    now_ns - s->quiet_ns >= WEFT_VOL_SCRUB_QUIET_NS) {
		s->looked_ns = now_ns;
		if (atomic_exchange_explicit(&sums->changed, false, memory_order_relaxed))
			s->quiet_ns = now_ns;
	}
	if (!now && now_ns - s->quiet_ns < WEFT_VOL_SCRUB_QUIET_NS)
		return;
	memset(&s->op, 0, sizeof(s->op));
	memset(&s->snap, 0, sizeof(s->snap));
	s->snap.block.what = WEFT_BLOCK_SNAP_CREATE;
	s->snap.maps_only = true;
	s->op.kind = WEFT_VOL_SNAPSHOT;
	s->op.snap = &s->snap;
	s->op.deadline_ns = now_ns + WEFT_VOL_SCRUB_TIDY_NS;
	s->op.done = scrub_tidied;
	s->op.owner = s;
	s->busy = true;
	s->op.status = weft_vol_submit(s->chan, &s->op);
	if (s->op.status != 0)
		scrub_tidied(&s->op);
}

/** Go to the next group in doubt. False: there is none, or it is not yet its time. */
static bool
scrub_find(struct weft_vol_scrub *s, uint64_t now_ns)
{
	const struct weft_vol *v = s->chan->vol;
	const uint64_t n = weft_vol_in_doubt(v);
	const bool ended = n == 0 && s->told;
	uint64_t group;

	if (v->sums == NULL || v->info.read_only)
		return false;
	if ((n > 0) != s->told) {
		s->told = n > 0;
		if (s->doubt != NULL)
			s->doubt(s, n);
	}
	if (n == 0) {
		s->off_bytes = 0;
		scrub_tidy(s, now_ns, ended);
		return false;
	}
	/* next_ns is when the last one has had its time. */
	if (!weft_vol_is_idle(s->chan) &&
	    now_ns - s->next_ns < 7 * scrub_ns(s, WEFT_VOL_GROUP_BYTES))
		return false;
	group = vol_sums_next_doubt(v->sums, s->off_bytes / WEFT_VOL_GROUP_BYTES);
	if (group == UINT64_MAX) {
		/* What is in front of it has stayed in doubt. Of the first look: it came later. */
		if (s->off_bytes > 0)
			s->next_ns = now_ns + WEFT_VOL_SCRUB_AGAIN_NS;
		s->off_bytes = 0;
		s->passes++;
		if (s->pass != NULL)
			s->pass(s);
		return false;
	}
	s->off_bytes = group * WEFT_VOL_GROUP_BYTES;
	return true;
}

uint64_t
weft_vol_scrub_poll(struct weft_vol_scrub *s, uint64_t now_ns)
{
	uint64_t left;
	int r;

	if (!s->on || s->busy)
		return UINT64_MAX;
	if (now_ns < s->next_ns)
		return s->next_ns;
	if (s->only_doubted && !scrub_find(s, now_ns))
		return UINT64_MAX;
	left = weft_vol_info(s->chan->vol)->bytes - s->off_bytes;
	memset(&s->op, 0, sizeof(s->op));
	s->op.kind = WEFT_VOL_SCRUB;
	s->op.off_bytes = s->off_bytes;
	s->op.len_bytes = VOL_MIN(left, WEFT_VOL_GROUP_BYTES);
	s->op.done = scrub_done;
	s->op.owner = s;
	/* Time that was lost, by a slow device or a busy worker, is not made up for. */
	s->next_ns = now_ns + scrub_ns(s, s->op.len_bytes);
	s->busy = true;
	r = weft_vol_submit(s->chan, &s->op);
	if (r != 0) {
		s->op.status = r;
		s->op.damaged = 0;
		scrub_done(&s->op);
		return s->next_ns;
	}
	return UINT64_MAX;
}

void
weft_vol_scrub_stop(struct weft_vol_scrub *s)
{
	s->on = false;
	if (s->busy)
		(void)weft_vol_cancel(s->chan, &s->op);
}
