/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MPA_HELD_H
#define MPA_HELD_H

/** @file Received octets that are not yet handed up: a chain of mbufs, charged to the port. */

#include "mpa_priv.h"

void weft_mpa_free_chain(struct rte_mbuf *m);
/** Take ownership of a received chain. */
void weft_mpa_hold(struct weft_mpa *m, struct rte_mbuf *chain);
/** Move n (<= held_bytes) octets from the held chain to dst. */
void weft_mpa_take(struct weft_mpa *m, uint8_t *dst, uint32_t n);
/** Charge the held mbufs to the port's budget. False: no room, the charge is unchanged. */
bool weft_mpa_lend(struct weft_mpa *m);
/** Return the charge of mbufs that are no longer held. */
void weft_mpa_unlend(struct weft_mpa *m);

/** Skip n (<= held_bytes) octets, and free the mbufs that are used up. */
static inline void
mpa_consume(struct weft_mpa *m, uint32_t n)
{
	m->held_bytes -= n;
	while (n > 0) {
		struct rte_mbuf *seg = m->held_head;

		if (n < seg->data_len) {
			seg->data_off += n;
			seg->data_len -= n;
			return;
		}
		n -= seg->data_len;
		m->held_head = seg->next;
		if (m->held_head == NULL)
			m->held_tail = NULL;
		m->held_segs--;
		if (unlikely(m->lent_segs > m->held_segs))
			weft_mpa_unlend(m);
		rte_pktmbuf_free_seg(seg);
	}
}

#endif /* MPA_HELD_H */
