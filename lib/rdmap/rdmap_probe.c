/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * An initiator's first messages, when they go unread.
 *
 * A responder may reply before it listens for FPDUs: what comes meanwhile lies in its socket until
 * more comes. Linux's siw does; a client that sends one message and waits for the answer waits for
 * ever. So while nothing has been heard, a Write of no octets follows, which places nothing and
 * completes nothing (RFC 5040 s5.1; its STag is not looked at, RFC 5041 s5.2).
 */

#include <inttypes.h>

#include "rdmap_priv.h"

/** Behind the last there is none. */
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
	/* within a message, its next segment does as well; before the first, there is nothing to
	 * follow */
	if (weft_ddp_fpdus_out(&r->ddp) > 0 && r->mid == RDMAP_MID_NONE && !r->fin_sent &&
	    rdmap_tx_empty_write(r, now_ns)) {
		WEFT_LOG(rdmap, DEBUG, "stream %" PRIu64 ": nothing heard yet, an empty Write sent",
		         r->ddp.scope.stream);
		/* no message of the consumer's */
		if (r->op_stats != NULL)
			r->op_stats->out[WEFT_RDMAP_WRITE]++;
		weft_ddp_tx_flush(&r->ddp, now_ns);
	}
	if (probe_after_ns[++r->probes] == 0)
		return false;
	weft_timer_arm(&r->sched->wheel, &r->timer, now_ns + probe_after_ns[r->probes]);
	return true;
}
