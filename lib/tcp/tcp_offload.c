/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Whether the peer receives what the port's device has summed and cut. A device that fills in wrong
 * checksums, or cuts TSO packets wrongly, looks like a path that loses packets. Two things tell
 * them apart: after TCP_SUM_TRIES transmissions a segment is sent with a checksum of ours, and
 * retransmissions are never cut by the device.
 *
 * A connection on which a checksum of ours has helped twice in sequence has all its checksums
 * computed. netif hears of each finding, and ends the offload of the port.
 */

#include "tcp_conn.h"
#include "tcp_instance.h"
#include "tcp_loss.h"
#include "tcp_snd.h"
#include "weft_netif_offload_trust.h"
#include "weft_tcp_damaged.h"

/** Transmissions of a segment with the device's checksum before one with ours. */
#define TCP_SUM_TRIES 2
/** Findings on one connection after which it uses its own checksums alone. */
#define TCP_SUM_RESCUES 2
/** Segments that arrive at first try with the device's checksum, after a finding, to forget it. */
#define TCP_SUM_ARRIVED 16

bool
tcp_resend_own_sum(const struct weft_tcp_conn *c, const struct tcp_seg *s)
{
	if (c->own_sum || !weft_netif_tx_summed(c->nif))
		return c->own_sum;
	return s->xmits >= (c->sum_rescues > 0 ? 1 : TCP_SUM_TRIES);
}

static void
tcp_sum_forget(struct weft_tcp_conn *c)
{
	c->sum_rescues = c->sum_arrived = 0;
	weft_netif_tx_resent(c->nif);
}

void
weft_tcp_rx_damaged(struct weft_tcp_conn *c)
{
	weft_netif_rx_damaged(c->nif);
}

void
tcp_offload_acked(struct weft_tcp_conn *c, const struct tcp_seg *s)
{
	uint64_t now_ns = c->t->sched->now_ns;

	/* 0: the segment was made shorter, which may have been the reason. */
	if (c->own_sum || s->first_ns == 0)
		return;
	if (s->xmits == 1) {
		if (s->flags & TCP_SEG_TRAIN)
			weft_netif_tso_arrived(c->nif);
		if (c->sum_rescues > 0 && ++c->sum_arrived >= TCP_SUM_ARRIVED)
			tcp_sum_forget(c);
		return;
	}
	/* Sooner than any answer comes: it is that of an earlier transmission. */
	if (now_ns - RTE_MIN(s->sent_ns, now_ns) < tcp_rack_min(c))
		return;
	if ((s->flags & TCP_SEG_OWN_SUM) == 0) {
		tcp_sum_forget(c);
		if (s->flags & TCP_SEG_TRAIN)
			weft_netif_tso_lost(c->nif, s->first_ns);
		return;
	}
	if (!weft_netif_tx_rescued(c->nif, s->first_ns))
		return;
	/* What left before the finding before tells the same. */
	if (c->sum_rescues > 0 && s->first_ns <= c->rescued_ns)
		return;
	c->rescued_ns = now_ns;
	c->sum_arrived = 0;
	if (++c->sum_rescues >= TCP_SUM_RESCUES) {
		c->own_sum = true;
		c->tso.bytes = 0;
		c->t->stats.conns_own_sum++;
	}
}
