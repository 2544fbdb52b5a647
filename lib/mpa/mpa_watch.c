/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The timer of incomplete FPDUs: what waits too long is copied, or ends the stream. */

#include "mpa_held.h"
#include "mpa_priv.h"

static bool
mpa_overdue(const struct weft_mpa *m, uint64_t now_ns)
{
	uint64_t limit_ns = m->fpdu_timeout_us * WEFT_NS_PER_US;

	return now_ns >= m->got_ns + limit_ns ||
	       now_ns >= m->begun_ns + MPA_FPDU_TIMEOUTS * limit_ns;
}

/**
 * The timer of an incomplete FPDU, once a second. Ends the stream at the deadline. Copies octets
 * older than a second to m->compact, so that their mbufs return to the port. Frees m->compact when
 * it was not used for a second, so that an idle stream is small.
 */
static void
mpa_watch(struct weft_timer *t, uint64_t now_ns)
{
	struct weft_mpa *m = container_of(t, struct weft_mpa, startup);

	if (m->waits && mpa_overdue(m, now_ns)) {
		m->stats.fpdu_timeouts++;
		if (mpa_keep(m) != NULL)
			mpa_keep(m)->timeouts++;
		WEFT_LOG_PEER(mpa, WARNING, "stream ended: an FPDU was not completed in time");
		weft_mpa_fault(m, WEFT_MPA_ERR_LOCAL);
		return;
	}
	if (m->waits) {
		if (m->held_segs > 0 && now_ns >= m->begun_ns + MPA_WATCH_NS &&
		    weft_mpa_compact(m, m->held_bytes) < 0) {
			weft_mpa_no_memory(m);
			return;
		}
	} else if (m->compact == NULL) {
		return;
	} else if (!m->compact_used) {
		weft_mpa_keep_drop(m);
		return;
	}
	m->compact_used = false;
	weft_timer_arm(&m->sched->wheel, t, now_ns + MPA_WATCH_NS);
}

void
weft_mpa_watch_init(struct weft_mpa *m)
{
	weft_timer_init(&m->startup, mpa_watch);
}
