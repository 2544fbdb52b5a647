/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MT_RIG_H
#define MT_RIG_H

/**
 * @file
 * Two stacks on real threads and the real clock. Two workers run in threads of their own over a
 * pair of rings. Other threads drive them. A program has one rig at a time.
 */

#include "vt.h"
#include "weft_netif_attr.h"

/** One end of a wire of two rings. */
struct wire_end {
	struct rte_ring *in, *out;
};

extern const struct weft_netif_dev wire_dev;
/** Called on the thread of a worker that has taken frames, before it looks at them; NULL: not. */
extern void (*_Atomic wire_took)(const struct wire_end *end, struct rte_mbuf **pkts, uint16_t n);

struct rig {
	struct rte_ring *ring[2];
	struct wire_end end[2];
	struct rte_mempool *pool[2];
	struct weft_ctx *ctx[2];
	struct weft_worker *w[2];
	struct weft_pd *pd[2];
	struct weft_cq *cq[2];
	struct weft_evq *evq[2];
	struct weft_qp *qp[2];
	struct weft_listener *lsn;
	struct weft_mr *mr[2];
	uint8_t *mem[2];
};

#define RIG_MEM (1 << 20)
/** The CQ holds as many completions as any case posts, so a consumer without CPU time does not
 * overrun it. */
#define RIG_CQ_DEPTH 16384

void rig_open(struct rig *r);
/** Wait for the next event of node i. It must be of this type. */
struct weft_event rig_ev(struct rig *r, unsigned int i, enum weft_event_type type);
/** Start the workers, and connect node 0 to node 1. */
void rig_connect(struct rig *r);
/** Destroy the handles from this thread while the workers run. Then stop the workers and destroy
 * the contexts. */
void rig_close(struct rig *r);
/** Sleep on the CQ's descriptor until a completion arrives. */
int rig_wc(struct rig *r, unsigned int i, struct weft_wc *wc, unsigned int max);

#endif /* MT_RIG_H */
