/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The counts of a stream, of a QP or of one that its QP has left. */

#include "weft_stat.h"
#include "weft_verbs_ops.h"
#include "weft_verbs_qp.h"

WEFT_STAT_READER void
weft_verbs_count(const struct weft_vctx *v, struct weft_rdmap *r, struct weft_vworker_stats *st)
{
	const struct weft_rdmap_stats *rs = weft_rdmap_stats(r);

	st->msgs_in += rs->msgs_in;
	st->msgs_out += rs->msgs_out;
	st->terminates_in += rs->terminates_in;
	st->terminates_out += rs->terminates_out;
	v->cm_ops->count(r, st);
}
