/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Buffers for segments, and the way down to netif. */

#include "tcp_conn.h"
#include "tcp_instance.h"
#include "tcp_snd.h"
#include "weft_netif_mbuf.h"
#include "weft_netif_tx.h"

struct rte_mbuf *
tcp_alloc(struct weft_tcp *t, struct weft_netif *nif)
{
	struct rte_mbuf *m = weft_netif_alloc(nif, TCP_HEADROOM);

	if (m == NULL)
		t->stats.no_mbuf++;
	return m;
}

int
tcp_tx(struct weft_tcp_conn *c, struct rte_mbuf *m, struct weft_netif_tx_how how, uint64_t now_ns)
{
	int rc;

	how.dscp = c->dscp;
	how.may_fragment = c->may_fragment || c->t->attr.no_pmtu;
	rc = weft_netif_tx(c->nif, c->neigh, &c->local, &c->remote, m, how, now_ns);

	if (rc == 0) {
		c->t->stats.segs_out++;
		c->n_segs_out++;
	}
	return rc;
}
