/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Probes: empty RDMA Writes of an initiator whose first messages the responder has not read.
 *
 * Linux's siw sends the MPA Reply before it listens for FPDUs. An FPDU that arrives in between
 * stays in its socket until another one arrives. A client that sends one message and waits for the
 * answer would wait for ever. So while no FPDU has been received, the initiator sends an RDMA Write
 * without payload. It places nothing and completes nothing (RFC 5040 s5.1), and the responder does
 * not check its STag (RFC 5041 s5.2).
 */

#include <inttypes.h>

#include "rdmap_probe.h"
#include "rdmap_seg.h"

/* Interval before each probe. 0 ends the list. */
static const uint64_t probe_after_ns[] = {RDMAP_PROBE_NS, 10 * RDMAP_PROBE_NS, 0};

void
rdmap_probe_begin(struct weft_rdmap *r)
{
	if (weft_ddp_is_initiator(&r->ddp))
		weft_timer_arm(&r->sched->wheel, &r->timer, r->sched->now_ns + probe_after_ns[0]);
}

bool
rdmap_probe(struct weft_rdmap *r, uint64_t now_ns)
{
	if (!weft_ddp_is_initiator(&r->ddp) || weft_ddp_fpdus_in(&r->ddp) > 0 ||
	    probe_after_ns[r->probes] == 0)
		return false;
	/* No probe within a message: its next segment has the same effect. No probe before the
	 * first FPDU. */
	if (weft_ddp_fpdus_out(&r->ddp) > 0 && r->mid == RDMAP_MID_NONE && !r->fin_sent &&
	    rdmap_tx_empty_write(r, now_ns)) {
		WEFT_LOG(rdmap, DEBUG, "stream %" PRIu64 ": nothing heard yet, an empty Write sent",
		         r->ddp.scope.stream);
		/* counted by opcode only: the probe is no message of the consumer */
		if (r->op_stats != NULL)
			r->op_stats->out[WEFT_RDMAP_WRITE]++;
		weft_ddp_tx_flush(&r->ddp, now_ns);
	}
	if (probe_after_ns[++r->probes] == 0)
		return false;
	weft_timer_arm(&r->sched->wheel, &r->timer, now_ns + probe_after_ns[r->probes]);
	return true;
}
