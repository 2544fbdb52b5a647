/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The completion of a queue pair's request; a QP that loses one is reset. */

#include "verbs_queue.h"

const uint8_t weft_verbs_wc_status[] = {
        [WEFT_RDMAP_OK] = WEFT_WC_SUCCESS,
        [WEFT_RDMAP_FLUSHED] = WEFT_WC_FLUSHED,
        [WEFT_RDMAP_REMOTE_ACCESS] = WEFT_WC_REMOTE_ACCESS,
        [WEFT_RDMAP_REMOTE_OP] = WEFT_WC_REMOTE_OP,
        [WEFT_RDMAP_HASH_MISMATCH] = WEFT_WC_HASH_MISMATCH,
        [WEFT_RDMAP_LOCAL_LENGTH] = WEFT_WC_LOCAL_LENGTH,
        [WEFT_RDMAP_LOCAL_PROT] = WEFT_WC_LOCAL_PROT,
};

__rte_noinline void
weft_verbs_overrun(struct weft_qp *qp, struct weft_cq_shard *sub)
{
	if (qp->overrun || qp->dead)
		return;
	qp->overrun = true;
	qp->overrun_cq = sub->cq;
	weft_verbs_ev_note(qp, NOTE_OVERRUN);
	weft_verbs_qp_abort_later(qp);
}
