/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Ranges of a medium for which a Flush or Verify has failed: a line, and what telemetry
 * shows. */

#include <errno.h>
#include <string.h>

#include "target_conn.h"
#include "target_grant.h"
#include "target_say.h"
#include "target_volume.h"
#include "target_volume_window.h"
#include "ui.h"

#define NS_PER_S 1000000000ULL

bool
target_is_bad_range(int status)
{
	switch (status) {
	case -EBUSY: /* a window has a part of the range */
	case -EROFS: /* the volume can only be read */
	case -EMSGSIZE:
	case -ENOMEM:
		return false;
	default:
		break;
	}
	switch (weft_block_class_of(status)) {
	case WEFT_BLOCK_SPACE:
	case WEFT_BLOCK_MEDIUM_FAILED:
		return true;
	case WEFT_BLOCK_OK:
	case WEFT_BLOCK_MISMATCH:
	case WEFT_BLOCK_GIVEN_UP:
	case WEFT_BLOCK_OFFLINE:
	case WEFT_BLOCK_FENCED:
	case WEFT_BLOCK_CALLER:
		break;
	}
	return false;
}

void
target_bad_range_keep(struct target_export *ex, struct target_bad_range s)
{
	struct target_bad_ranges *of = s.status == -EBADMSG ? &ex->mismatches : &ex->failures;

	s.at_s = ui_now_ns() / NS_PER_S;
	pthread_mutex_lock(&ex->lock);
	of->last[of->n++ % TARGET_BAD_RANGES] = s;
	pthread_mutex_unlock(&ex->lock);
	atomic_fetch_add_explicit(&ex->bad_ranges, 1, memory_order_relaxed);
}

void
target_bad_range(struct target_conn *c, const struct weft_event *ev)
{
	const bool mismatch = ev->status == -EBADMSG;
	const char *why = mismatch ? "the medium holds something else" : "the medium failed: ";
	const char *cause = mismatch ? "" : strerror(-ev->status);
	struct target_bad_range s = {.len_bytes = ev->bad_range.len_bytes, .status = ev->status};
	struct target_export *ex;
	struct target_grant *g;

	LIST_FOREACH (g, &c->grants, link)
		if (weft_mr_stag(g->mr) == ev->bad_range.stag)
			break;
	ex = g != NULL ? g->ex : NULL;
	if (g != NULL)
		s.off_bytes = ev->bad_range.to + target_region_off(ex);
	else
		s.off_bytes = target_vwindow_off(c, ev->bad_range.stag, ev->bad_range.to, &ex);
	if (!target_is_bad_range(ev->status)) {
		target_log(UI_WARNING
		           "%s: a Flush or Verify of %llu octets at offset %llu ended: %s",
		           c->peer, (unsigned long long)s.len_bytes,
		           (unsigned long long)(ex != NULL ? s.off_bytes : ev->bad_range.to),
		           strerror(-ev->status));
		return;
	}
	if (ex == NULL) {
		target_log(UI_ERR "%s: a Flush or Verify failed at offset %llu, %llu octets: %s%s",
		           c->peer, (unsigned long long)ev->bad_range.to,
		           (unsigned long long)ev->bad_range.len_bytes, why, cause);
		return;
	}
	target_bad_range_keep(ex, s);
	/* A client that may Verify can cause mismatches at will; they must not use up the log
	 * lines of failures. */
	(s.status == -EBADMSG ? target_log : target_log_export)(
	        UI_ERR "export %s: BAD RANGE: %llu octets at offset %llu of %s: %s%s (by %s)",
	        ex->conf->name, (unsigned long long)s.len_bytes, (unsigned long long)s.off_bytes,
	        target_place(ex->conf), why, cause, c->peer);
}
