/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Received octets that are not yet handed up, and what their mbufs are charged to. */

#include "mpa_held.h"
#include "weft_netif_budget.h"

void
weft_mpa_free_chain(struct rte_mbuf *m)
{
	while (m != NULL) {
		struct rte_mbuf *next = m->next;

		rte_pktmbuf_free_seg(m);
		m = next;
	}
}

bool
weft_mpa_lend(struct weft_mpa *m)
{
	if (m->budget == NULL)
		m->budget = weft_tcp_fpdu_budget(m->tcp);
	if (m->held_segs > m->lent_segs) {
		if (!weft_netif_budget_take(m->budget, m->held_segs - m->lent_segs))
			return false;
		m->lent_segs = m->held_segs;
	}
	return true;
}

void
weft_mpa_unlend(struct weft_mpa *m)
{
	weft_netif_budget_give(m->budget, m->lent_segs - m->held_segs);
	m->lent_segs = m->held_segs;
}

void
weft_mpa_hold(struct weft_mpa *m, struct rte_mbuf *chain)
{
	while (chain != NULL) {
		struct rte_mbuf *next = chain->next;

		if (unlikely(chain->data_len == 0)) {
			rte_pktmbuf_free_seg(chain);
			chain = next;
			continue;
		}
		chain->next = NULL;
		chain->nb_segs = 1;
		if (m->held_tail == NULL)
			m->held_head = chain;
		else
			m->held_tail->next = chain;
		m->held_tail = chain;
		m->held_bytes += chain->data_len;
		m->held_segs++;
		chain = next;
	}
}

void
weft_mpa_take(struct weft_mpa *m, uint8_t *dst, uint32_t n)
{
	while (n > 0) {
		uint32_t k = RTE_MIN(n, (uint32_t)m->held_head->data_len);

		memcpy(dst, rte_pktmbuf_mtod(m->held_head, const uint8_t *), k);
		mpa_consume(m, k);
		dst += k;
		n -= k;
	}
}
