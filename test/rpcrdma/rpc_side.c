/* SPDX-License-Identifier: BSD-3-Clause */
/** @file An endpoint on a whole stack: its begin, its completions and events, its end. */

#include "rpc_side.h"

void
rpc_side_up(struct rpc_side *s, struct vt_node *n, struct weft_rpc_attr attr)
{
	s->n = n;
	attr.size = sizeof(attr);
	attr.qp = n->qp;
	CHECK_EQ(weft_rpc_create(&attr, &s->rpc), 0);
}

void
rpc_side_down(struct rpc_side *s)
{
	if (s->n->qp != NULL)
		weft_qp_destroy(s->n->qp);
	s->n->qp = NULL;
	weft_rpc_destroy(s->rpc);
	s->rpc = NULL;
}

void
rpc_side_dispatch(struct rpc_side *s, void (*take)(struct rpc_side *s, const struct weft_wc *wc))
{
	struct weft_event ev;
	struct weft_wc wc[8];
	int n;

	while ((n = weft_cq_poll(s->n->cq, wc, 8)) > 0)
		for (int k = 0; k < n; k++)
			take(s, &wc[k]);
	CHECK_EQ(n, 0);
	while (weft_evq_poll(s->n->evq, &ev) > 0) {
		if (ev.type != WEFT_EV_DISCONNECTED)
			continue;
		s->disconnects++;
		if (s->rpc != NULL)
			weft_rpc_disconnected(s->rpc);
	}
}
