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
 *
 * An initiator that closes before the first probe would leave siw with unread FPDUs for ever: they
 * are lost, and in the peer-to-peer model the end of a connection that siw does not take as
 * established stops its kernel's connection manager (BUG in iwcm.c). So such an initiator sends the
 * probe first, a short time after the close, and its FIN as long after that.
 */

#include <inttypes.h>

#include "rdmap_probe.h"
#include "rdmap_seg.h"
#include "rdmap_state.h"

/* Interval before each probe. 0 ends the list. */
static const uint64_t probe_after_ns[] = {RDMAP_PROBE_NS, 10 * RDMAP_PROBE_NS, 0};

void
rdmap_probe_begin(struct weft_rdmap *r)
{
	if (weft_ddp_is_initiator(&r->ddp))
		weft_timer_arm(&r->sched->wheel, &r->timer, r->sched->now_ns + probe_after_ns[0]);
}

/** Whether this side sent FPDUs as initiator and received none. */
static bool
probe_unheard(struct weft_rdmap *r)
{
	return weft_ddp_is_initiator(&r->ddp) && weft_ddp_fpdus_in(&r->ddp) == 0 &&
	       weft_ddp_fpdus_out(&r->ddp) > 0;
}

static void
probe_send(struct weft_rdmap *r, uint64_t now_ns)
{
	/* No probe within a message: its next segment has the same effect. */
	if (!probe_unheard(r) || r->mid != RDMAP_MID_NONE || r->fin_sent ||
	    !rdmap_tx_empty_write(r, now_ns))
		return;
	WEFT_LOG(rdmap, DEBUG, "stream %" PRIu64 ": nothing heard yet, an empty Write sent",
	         r->ddp.scope.stream);
	/* counted by opcode only: the probe is no message of the consumer */
	if (r->op_stats != NULL)
		r->op_stats->out[WEFT_RDMAP_WRITE]++;
	weft_ddp_tx_flush(&r->ddp, now_ns);
}

bool
rdmap_probe(struct weft_rdmap *r, uint64_t now_ns)
{
	if (!weft_ddp_is_initiator(&r->ddp) || weft_ddp_fpdus_in(&r->ddp) > 0 ||
	    probe_after_ns[r->probes] == 0)
		return false;
	probe_send(r, now_ns);
	if (probe_after_ns[++r->probes] == 0)
		return false;
	weft_timer_arm(&r->sched->wheel, &r->timer, now_ns + probe_after_ns[r->probes]);
	return true;
}

bool
rdmap_probe_hold(struct weft_rdmap *r, uint64_t now_ns)
{
	if (!probe_unheard(r) || r->eof || r->gone)
		return false;
	if (r->hold > 0 || r->probes > 0)
		return r->hold > 0;
	r->hold = 2;
	weft_timer_arm(&r->sched->wheel, &r->timer,
	               rdmap_no_later(r, now_ns + RDMAP_PROBE_CLOSE_NS));
	return true;
}

bool
rdmap_probe_closing(struct weft_rdmap *r, uint64_t now_ns)
{
	/* A Terminate has a wait of its own, which this one must not make longer. */
	if (r->hold == 0 || r->fin_sent || r->state != WEFT_RDMAP_ST_CLOSING)
		return false;
	if (r->left_end_ns != 0 && now_ns >= r->left_end_ns)
		return false;
	if (--r->hold > 0) {
		probe_send(r, now_ns);
		if (r->dead)
			return true;
		r->probes = 1;
		weft_timer_arm(&r->sched->wheel, &r->timer,
		               rdmap_no_later(r, now_ns + RDMAP_PROBE_CLOSE_NS));
		return true;
	}
	rdmap_linger(r, now_ns);
	rdmap_schedule(r);
	return true;
}
