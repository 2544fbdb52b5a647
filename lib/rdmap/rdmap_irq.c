/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The inbound request queue (IRQ): its ring, and what the request that executes holds.
 *
 * One ring has three positions. A request is checked on arrival (tail), executed strictly in order
 * (exec) and answered in order (head). A Read is executed by sending its response, so it is
 * executed at the head.
 *
 * A Flush holds a reference to its region from arrival on. Other requests hold none while they
 * wait: their STag is looked up again when their turn comes.
 *
 * A request that failed keeps its place until every earlier request is answered. Then the responder
 * sends the Terminate. The responder takes no request behind a failed one, so it reports the first
 * error (RFC 5040 s7.1 case 4).
 */

#include <stdlib.h>

#include "rdmap_irq.h"

void
rdmap_irq_size(struct weft_rdmap *r, uint16_t ird)
{
	free(r->work);
	r->work = NULL;
	r->irq_mask = rte_align32pow2(RTE_MAX(ird, 1)) - 1;
}

bool
rdmap_irq_wake(struct weft_rdmap *r)
{
	r->work = calloc(1, sizeof(*r->work) + (r->irq_mask + 1) * sizeof(r->work->irq[0]));
	if (r->work == NULL)
		return false;
	r->irq_seen = r->irq_tail;
	if (r->state == WEFT_RDMAP_ST_RTS)
		weft_timer_arm(&r->sched->wheel, &r->timer, r->sched->now_ns + RDMAP_REST_NS);
	return true;
}

bool
rdmap_irq_rest(struct weft_rdmap *r)
{
	bool idle =
	        r->work == NULL || (rdmap_irq_depth(r) == 0 && r->irq_seen == r->irq_tail &&
	                            r->work->persist_state == RDMAP_PIO_IDLE &&
	                            r->work->hash == NULL && r->work->turn.state == WEFT_TURN_NONE);

	r->irq_seen = r->irq_tail;
	if (idle) {
		free(r->work);
		r->work = NULL;
	}
	return idle;
}

int
rdmap_irq_bad(struct weft_term *term, enum weft_mem_err err)
{
	/* RFC 5040 s4.8 Figure 9 */
	static const uint8_t codes[] = {
	        [WEFT_MEM_BAD_STAG] = WEFT_TERM_PROT_BAD_STAG,
	        [WEFT_MEM_BAD_PD] = WEFT_TERM_PROT_BAD_PD,
	        [WEFT_MEM_TO_WRAP] = WEFT_TERM_PROT_TO_WRAP,
	        [WEFT_MEM_BOUNDS] = WEFT_TERM_PROT_BOUNDS,
	        [WEFT_MEM_ACCESS] = WEFT_TERM_PROT_ACCESS,
	};

	return weft_fault(term, WEFT_TERM_LAYER_RDMA, WEFT_TERM_RDMA_PROTECTION, codes[err]);
}

int
rdmap_irq_refuse(struct weft_term *term, uint8_t code)
{
	return weft_fault(term, WEFT_TERM_LAYER_RDMA, WEFT_TERM_RDMA_OPERATION, code);
}

void
rdmap_irq_leave(struct weft_rdmap *r)
{
	if (r->work == NULL || r->work->gated == NULL)
		return;
	if (r->work->gate.gate != NULL)
		r->work->gate.gate->leave(r->work->gate.gate, &r->work->gate);
	rdmap_unref(&r->work->gated);
}

void
rdmap_irq_set_failed(struct weft_rdmap *r, struct rdmap_irq_ent *e, const struct weft_term *term)
{
	if (e == rdmap_irq_at(r, r->irq_exec))
		rdmap_irq_leave(r);
	e->state = RDMAP_IRQ_FAILED;
	e->term = *term;
	r->ddp.faulted = true;
	if (term->etype == WEFT_TERM_RDMA_OPERATION && term->code != WEFT_TERM_OP_FLUSH_FAILED &&
	    term->code != WEFT_TERM_OP_HASH_MISMATCH && term->code != WEFT_TERM_OP_VERIFY_FAILED &&
	    term->code != WEFT_TERM_OP_LOST)
		RDMAP_FAULT(r, requests_malformed);
}

void
rdmap_irq_count_revoked(struct weft_rdmap *r, const struct rdmap_irq_ent *e)
{
	if (weft_mem_is_revoked(r->mem, e->stag))
		RDMAP_FAULT(r, refused_after_revoke);
}

void
rdmap_unref(struct weft_mem_mr **mr)
{
	if (*mr != NULL)
		weft_mem_unref(*mr);
	*mr = NULL;
}

void
rdmap_irq_release(struct rdmap_irq_ent *e)
{
	if (e->held)
		weft_mem_unref(e->mr);
	e->held = false;
}

void
rdmap_persist_drop(struct weft_rdmap *r)
{
	struct weft_persist *p = r->work->persist_mr->persist;

	if (r->work->persist_read && p->ops->release != NULL)
		p->ops->release(p, &r->work->persist);
	r->work->persist_state = RDMAP_PIO_IDLE;
	rdmap_unref(&r->work->persist_mr);
	weft_turn_put(r->sched, r->lane, &r->work->turn);
}

void
rdmap_hash_drop(struct weft_rdmap *r, uint8_t *result)
{
	uint8_t scratch[WEFT_HASH_MAX_BYTES];

	if (r->work->hash != NULL)
		r->work->hash->final(&r->work->hash_state, result != NULL ? result : scratch);
	r->work->hash = NULL;
	/* leave the line for a read-back that will not start; a running one keeps its turn */
	if (r->work->persist_state == RDMAP_PIO_IDLE)
		weft_turn_put(r->sched, r->lane, &r->work->turn);
}

void
rdmap_irq_reset(struct weft_rdmap *r)
{
	rdmap_irq_leave(r);
	for (uint32_t i = r->irq_head; i != r->irq_tail; i++)
		rdmap_irq_release(rdmap_irq_at(r, i));
	r->irq_head = r->irq_exec = r->irq_tail;
	if (r->work == NULL)
		return;
	rdmap_hash_drop(r, NULL);
	if (r->work->persist_state == RDMAP_PIO_READY)
		rdmap_persist_drop(r);
}
