/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Ranges that failed a Flush or a Verify: counted, marked by lib/place, and reported once as
 * an event.
 */

#include "verbs_queue.h"
#include "weft_verbs_mr.h"
#include "weft_verbs_ops.h"

/** The region of a registration or window. *to becomes the offset in the region. */
static struct weft_mr *
verbs_region_of(const struct weft_mem_mr *m, uint64_t *to)
{
	const struct weft_mem_mr *region = m->parent != NULL ? m->parent : m;

	*to = region->base_to + (uint64_t)(m->addr - region->addr) + (*to - m->base_to);
	return region->owner;
}

void
weft_verbs_bad_range(void *user, struct weft_mem_mr *m, uint64_t to, uint64_t len_bytes,
                     uint8_t code, int status)
{
	struct weft_qp *qp = user;
	struct weft_vctx *v = qp->vw->ctx;
	uint64_t region_to = to;
	struct weft_mr *mr = verbs_region_of(m, &region_to);
	const bool mismatch = code == WEFT_TERM_OP_HASH_MISMATCH;

	qp->vw->stats.bad_ranges++;
	if (len_bytes > 0 &&
	    !v->place->bad_range(mr, region_to, len_bytes, mismatch ? -EBADMSG : -EIO))
		WEFT_LOG_PEER(verbs, ERR,
		              "stag 0x%08x: no memory to mark %" PRIu64 " octets at %" PRIu64
		              " as bad",
		              m->stag, len_bytes, to);
	/* A failure ends the stream, so only the first one is reported. */
	if (qp->bad_range.status != 0)
		return;
	/* Only a mismatch is told as -EBADMSG. */
	if (mismatch || status == 0 || status == -EBADMSG)
		status = mismatch ? -EBADMSG : -EIO;
	qp->bad_range = (struct verbs_bad_range){
	        .stag = m->stag, .to = to, .len_bytes = len_bytes, .status = status};
	weft_verbs_ev_note(qp, NOTE_BAD_RANGE);
}
