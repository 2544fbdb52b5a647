/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The inbound request queue: Read, Atomic, Flush, Verify and Atomic Write of the peer.
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
 *
 * Long work is cut into slices (hashing) or asynchronous (the medium). Meanwhile no later request
 * of the stream starts, and other streams continue.
 */

#include <stdlib.h>

#include <rte_atomic.h>

#include "rdmap_priv.h"
#include "weft_mem_place.h"

/* Tests have a copy of this file whose responder is wrong where they say (test/sabotage). The
 * product's cannot be. */
#ifdef WEFT_TEST_HOOKS
#include "rdmap_sabotage.h"
#define RDMAP_SABOTAGED(r, fault) rdmap_sabotaged(r, WEFT_RDMAP_##fault)
#else
#define RDMAP_SABOTAGED(r, fault) ((void)(r), false)
#endif

void
rdmap_irq_size(struct weft_rdmap *r, uint16_t ird)
{
	free(r->work);
	r->work = NULL;
	r->irq_mask = rte_align32pow2(RTE_MAX(ird, 1)) - 1;
}

/* Allocate r->work at the first request after a rest. False: no memory. */
static bool
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
	                            r->work->pio_state == RDMAP_PIO_IDLE && r->work->hash == NULL &&
	                            r->work->turn.state == WEFT_TURN_NONE);

	r->irq_seen = r->irq_tail;
	if (idle) {
		free(r->work);
		r->work = NULL;
	}
	return idle;
}

/* ---- Arrival ---- */

static int
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

/* Mark the entry as failed in its place. Later segments of the peer are dropped. */
static void
rdmap_irq_set_failed(struct weft_rdmap *r, struct rdmap_irq_ent *e, const struct weft_term *term)
{
	e->state = RDMAP_IRQ_FAILED;
	e->term = *term;
	r->ddp.faulted = true;
	if (term->etype == WEFT_TERM_RDMA_OPERATION && term->code != WEFT_TERM_OP_FLUSH_FAILED &&
	    term->code != WEFT_TERM_OP_HASH_MISMATCH && term->code != WEFT_TERM_OP_VERIFY_FAILED &&
	    term->code != WEFT_TERM_OP_LOST)
		RDMAP_FAULT(r, requests_malformed);
}

static void
rdmap_irq_count_revoked(struct weft_rdmap *r, const struct rdmap_irq_ent *e)
{
	if (weft_mem_is_revoked(r->mem, e->stag))
		RDMAP_FAULT(r, refused_after_revoke);
}

int
rdmap_irq_check(struct weft_rdmap *r, struct rdmap_irq_ent *e, uint32_t access,
                struct weft_term *term)
{
	struct weft_mem_mr *mr = weft_mem_lookup(r->mem, e->stag);
	enum weft_mem_err err;

	if (mr == NULL) {
		rdmap_irq_count_revoked(r, e);
		return rdmap_irq_bad(term, WEFT_MEM_BAD_STAG);
	}
	if (e->op == WEFT_RDMAP_FLUSH_REQ && (e->flags & WEFT_FLUSH_REGION)) {
		/* draft-talpey-rdma-commit-02 s2.1.1: length and offset MUST be ignored */
		e->to = mr->base_to;
		e->len_bytes = weft_mem_len(mr);
		err = weft_mem_check(mr, r->pd, e->to, 0, access);
	} else {
		err = weft_mem_check(mr, r->pd, e->to, e->len_bytes, access);
	}
	if (err != WEFT_MEM_OK) {
		rdmap_irq_count_revoked(r, e);
		return rdmap_irq_bad(term, err);
	}
	if (e->op == WEFT_RDMAP_VERIFY_REQ && e->hash_bytes > 0 &&
	    e->hash_bytes != mr->hash->result_bytes)
		return rdmap_irq_refuse(term, WEFT_TERM_OP_UNSPECIFIED);
	/* draft s2.3.2; RFC 7306 s8.2, which has the code: the address must be aligned, not the TO
	 */
	if ((e->op == WEFT_RDMAP_AWRITE_REQ || e->op == WEFT_RDMAP_ATOMIC_REQ) &&
	    (uintptr_t)weft_mem_addr(mr, e->to) % 8 != 0)
		return rdmap_irq_refuse(term, WEFT_TERM_OP_STREAM);
	e->mr = mr;
	e->held = e->op == WEFT_RDMAP_FLUSH_REQ;
	if (e->held)
		weft_mem_ref(mr);
	return 0;
}

int
rdmap_irq_admit(struct weft_rdmap *r, const struct rdmap_msg *m, struct rdmap_irq_ent *e, int rc,
                struct weft_term *term)
{
	e->state = RDMAP_IRQ_QUEUED;
	if (rc < 0)
		rdmap_irq_set_failed(r, e, term);
	e->seg_bytes = m->seg_bytes;
	weft_ddp_hdr_encode(&m->h, e->hdr);
	r->irq_tail++;
	rdmap_kick(r);
	return 0;
}

struct rdmap_irq_ent *
rdmap_irq_slot(struct weft_rdmap *r, uint8_t op, struct weft_term *term, int *rc)
{
	struct rdmap_irq_ent *e;

	*rc = 0;
	if (r->fin_sent) {
		RDMAP_FAULT(r, requests_after_fin);
		return NULL;
	}
	if (rdmap_irq_depth(r) >= r->ird || rdmap_irq_depth(r) > r->irq_mask) {
		/* RFC 5040 s6.1: IRD is the number of buffers of QN 1 */
		RDMAP_FAULT(r, requests_beyond_ird);
		*rc = weft_fault(term, WEFT_TERM_LAYER_DDP, WEFT_TERM_DDP_UNTAGGED,
		                 WEFT_TERM_UNT_NO_BUFFER);
		return NULL;
	}
	if (unlikely(r->work == NULL) && !rdmap_irq_wake(r)) {
		*rc = weft_fault(term, WEFT_TERM_LAYER_RDMA, WEFT_TERM_RDMA_LOCAL, 0);
		return NULL;
	}
	e = rdmap_irq_at(r, r->irq_tail);
	e->op = op;
	e->hash_bytes = 0;
	e->mr = NULL; /* the last use of this slot left a stale one; a zero-length Read sets none */
	e->held = false;
	e->flags = 0;
	e->sent_bytes = 0;
	return e;
}

int
rdmap_rx_read_req(struct weft_rdmap *r, const struct rdmap_msg *m, struct weft_term *term)
{
	struct rdmap_irq_ent *e;
	struct rdmap_read_req q;
	int rc;

	e = rdmap_irq_slot(r, m->op, term, &rc);
	if (e == NULL)
		return rc;
	rdmap_read_req_decode(m->data, m->len_bytes, &q);
	e->stag = q.src_stag;
	e->to = q.src_to;
	e->len_bytes = q.len_bytes;
	e->sink_stag = q.sink_stag;
	e->sink_to = q.sink_to;
	/* RFC 5040 s5.2.1: a zero-length Read MUST NOT be validated */
	if (q.len_bytes > 0)
		rc = rdmap_irq_check(r, e, WEFT_ACCESS_REMOTE_READ, term);
	return rdmap_irq_admit(r, m, e, rc, term);
}

int
rdmap_rx_place_req(struct weft_rdmap *r, const struct rdmap_msg *m, struct weft_term *term)
{
	uint32_t access = 0;
	struct rdmap_irq_ent *e;
	struct rdmap_place_req q;
	int rc;

	e = rdmap_irq_slot(r, m->op, term, &rc);
	if (e == NULL)
		return rc;
	rdmap_place_req_decode(m->op, m->data, m->len_bytes, &q);
	e->stag = q.stag;
	e->to = q.to;
	e->len_bytes = q.len_bytes;
	e->flags = q.flags;
	e->hash_bytes = q.hash_bytes;
	switch (m->op) {
	case WEFT_RDMAP_FLUSH_REQ:
		if (q.flags & WEFT_FLUSH_PERSISTENT)
			access |= WEFT_ACCESS_FLUSH_PERSISTENT;
		if (q.flags & WEFT_FLUSH_VISIBLE)
			access |= WEFT_ACCESS_FLUSH_VISIBLE;
		if (access == 0 || (q.flags & ~(WEFT_FLUSH_PERSISTENT | WEFT_FLUSH_VISIBLE |
		                                WEFT_FLUSH_REGION)) != 0)
			rc = rdmap_irq_refuse(term, WEFT_TERM_OP_UNSPECIFIED);
		break;
	case WEFT_RDMAP_VERIFY_REQ:
		access = WEFT_MEM_TO_VERIFY;
		memcpy(e->hash, q.hash, q.hash_bytes);
		break;
	default:
		access = WEFT_ACCESS_REMOTE_WRITE;
		memcpy(e->hash, q.hash, RDMAP_AWRITE_BYTES);
		if (q.len_bytes != RDMAP_AWRITE_BYTES) /* draft s2.3.1: "MUST be 8" */
			rc = rdmap_irq_refuse(term, WEFT_TERM_OP_UNSPECIFIED);
		break;
	}
	if (rc == 0)
		rc = rdmap_irq_check(r, e, access, term);
	if (RDMAP_SABOTAGED(r, EARLY_AWRITE) && rc == 0 && m->op == WEFT_RDMAP_AWRITE_REQ)
		weft_mem_store8(e->mr, e->to, e->hash);
	return rdmap_irq_admit(r, m, e, rc, term);
}

/* ---- Execution ---- */

enum rdmap_step {
	RDMAP_STEP_DONE,
	RDMAP_STEP_WAIT,  /**< for the medium, or for a turn to use it: either queues the task */
	RDMAP_STEP_AGAIN, /**< the request needs another turn of the task */
	RDMAP_STEP_FAIL,
};

static void
rdmap_unref(struct weft_mem_mr **mr)
{
	if (*mr != NULL)
		weft_mem_unref(*mr);
	*mr = NULL;
}

static void
rdmap_irq_release(struct rdmap_irq_ent *e)
{
	if (e->held)
		weft_mem_unref(e->mr);
	e->held = false;
}

static void
rdmap_pio_drop(struct weft_rdmap *r)
{
	struct weft_persist *p = r->work->pio_mr->persist;

	if (r->work->pio_read && p->ops->release != NULL)
		p->ops->release(p, &r->work->pio);
	r->work->pio_state = RDMAP_PIO_IDLE;
	rdmap_unref(&r->work->pio_mr);
	weft_turn_put(r->sched, r->lane, &r->work->turn);
}

/* weft_persist_req.done: the executor calls it, or the submission itself does. On the worker. The
 * stream may have ended. */
static void
rdmap_pio_done(struct weft_persist_req *req)
{
	struct weft_rdmap *r = req->owner;

	r->work->pio_state = RDMAP_PIO_READY;
	if (r->dead) {
		rdmap_pio_drop(r);
		weft_task_queue(r->sched, &r->reap);
	} else if (rdmap_irq_depth(r) == 0) {
		rdmap_pio_drop(r);
	} else {
		rdmap_kick(r);
	}
}

static int
rdmap_pio_submit(struct weft_rdmap *r, struct rdmap_irq_ent *e, bool read, uint64_t pos,
                 uint64_t len)
{
	struct weft_persist *p = e->mr->persist;
	int rc;

	r->work->pio.off_bytes = e->mr->persist_off_bytes + (e->to - e->mr->base_to) + pos;
	r->work->pio.len_bytes = len;
	r->work->pio.flags = e->flags;
	r->work->pio.status = 0;
	r->work->pio.data = NULL;
	r->work->pio.done = rdmap_pio_done;
	r->work->pio.owner = r;
	r->work->pio_read = read;
	r->work->pio_off_bytes = 0;
	r->work->pio_mr = e->mr;
	weft_mem_ref(e->mr);
	r->work->pio_state = RDMAP_PIO_BUSY;
	rc = read ? p->ops->read_back(p, r->sched->exec, &r->work->pio)
	          : p->ops->flush(p, r->sched->exec, &r->work->pio);
	if (rc < 0) {
		r->work->pio_state = RDMAP_PIO_IDLE;
		rdmap_unref(&r->work->pio_mr);
	}
	return rc;
}

/* Whether this stream may do more long work in this poll. If not, it asks for more. */
static bool
rdmap_may_work(struct weft_rdmap *r)
{
	if (likely(weft_lane_left(r->sched, r->lane, &r->work->slice) > 0))
		return true;
	weft_lane_want(r->sched, r->lane, &r->work->slice);
	return false;
}

/* Charge a synchronous flush or read-back to the slice: this core wrote the range back, or evicted
 * it from the cache so that the hash reads the medium. */
static void
rdmap_pio_charge(struct weft_rdmap *r)
{
	if (r->work->pio_state == RDMAP_PIO_READY && r->work->pio_mr->persist->ops->persistent)
		weft_lane_take(r->sched, r->lane, &r->work->slice,
		               (uint32_t)RTE_MIN(r->work->pio.len_bytes, WEFT_SLICE_BYTES));
}

/* Whether the driver gives the Flush to the executor. Such a Flush needs a turn, so that many
 * streams of one peer do not occupy the executor. */
static bool
rdmap_flush_waits(const struct rdmap_irq_ent *e)
{
	const struct weft_persist *p = e->mr->persist;

	return (e->flags & WEFT_FLUSH_PERSISTENT) != 0 && p->ops->persistent &&
	       e->len_bytes > p->flush_now_max_bytes;
}

static enum rdmap_step
rdmap_exec_flush(struct weft_rdmap *r, struct rdmap_irq_ent *e)
{
	int rc;

	if (r->work->pio_state == RDMAP_PIO_IDLE) {
		if (RDMAP_SABOTAGED(r, DROP_FLUSH) || e->len_bytes == 0)
			return RDMAP_STEP_DONE;
		/* placed octets become visible before the response and any later store */
		rte_smp_wmb();
		if (e->mr->persist == NULL)
			return RDMAP_STEP_DONE;
		if (!rdmap_may_work(r))
			return RDMAP_STEP_AGAIN;
		if (rdmap_flush_waits(e) && !weft_turn_get(r->lane, &r->work->turn, &r->task))
			return RDMAP_STEP_WAIT;
		rc = rdmap_pio_submit(r, e, false, 0, e->len_bytes);
		if (rc < 0)
			return rc == -EAGAIN ? RDMAP_STEP_AGAIN : RDMAP_STEP_FAIL;
		if (e->flags & WEFT_FLUSH_PERSISTENT)
			rdmap_pio_charge(r);
		if (RDMAP_SABOTAGED(r, EARLY_RESPONSE))
			return RDMAP_STEP_DONE;
	}
	if (r->work->pio_state == RDMAP_PIO_BUSY)
		return RDMAP_STEP_WAIT;
	rc = r->work->pio.status;
	rdmap_pio_drop(r);
	return rc == 0 ? RDMAP_STEP_DONE : RDMAP_STEP_FAIL;
}

static void
rdmap_hash_drop(struct weft_rdmap *r, uint8_t *result)
{
	uint8_t scratch[WEFT_HASH_MAX_BYTES];

	if (r->work->hash != NULL)
		r->work->hash->final(&r->work->hash_state, result != NULL ? result : scratch);
	r->work->hash = NULL;
	/* leave the line for a read-back that will not start; a running one keeps its turn */
	if (r->work->pio_state == RDMAP_PIO_IDLE)
		weft_turn_put(r->sched, r->lane, &r->work->turn);
}

/* Hash the next octets: at most left_bytes, and no more than the slice allows. Returns how many. */
static uint32_t
rdmap_hash_update(struct weft_rdmap *r, const uint8_t *data, uint64_t left_bytes)
{
	const struct weft_hash_ops *hash = r->work->hash;
	uint32_t price = 1, n;

	/* the slice assumes a hash as fast as memory; a slower hash is charged more per octet */
	if (hash->slice_bytes > 0 && hash->slice_bytes < WEFT_SLICE_BYTES)
		price = WEFT_SLICE_BYTES / hash->slice_bytes;
	n = (weft_lane_left(r->sched, r->lane, &r->work->slice) + price - 1) / price;
	n = (uint32_t)RTE_MIN(left_bytes, n);
	hash->update(&r->work->hash_state, data, n);
	r->work->hash_pos_bytes += n;
	weft_lane_take(r->sched, r->lane, &r->work->slice, n * price);
	return n;
}

/* Start the next read-back, or hash the data of the last one as far as the slice allows. */
static enum rdmap_step
rdmap_verify_medium(struct weft_rdmap *r, struct rdmap_irq_ent *e)
{
	uint32_t max = e->mr->persist->ops->read_back_max_bytes;
	int rc;

	if (r->work->pio_state == RDMAP_PIO_IDLE) {
		uint64_t left = e->len_bytes - r->work->hash_pos_bytes;

		if (!weft_turn_get(r->lane, &r->work->turn, &r->task))
			return RDMAP_STEP_WAIT;
		rc = rdmap_pio_submit(r, e, true, r->work->hash_pos_bytes, RTE_MIN(left, max));
		if (rc < 0)
			return rc == -EAGAIN ? RDMAP_STEP_AGAIN : RDMAP_STEP_FAIL;
		rdmap_pio_charge(r);
		return r->work->pio_state == RDMAP_PIO_BUSY ? RDMAP_STEP_WAIT : RDMAP_STEP_DONE;
	}
	if (r->work->pio_state == RDMAP_PIO_BUSY)
		return RDMAP_STEP_WAIT;
	if (r->work->pio.status != 0)
		return RDMAP_STEP_FAIL;
	r->work->pio_off_bytes +=
	        rdmap_hash_update(r, r->work->pio.data + r->work->pio_off_bytes,
	                          r->work->pio.len_bytes - r->work->pio_off_bytes);
	if (r->work->pio_off_bytes == r->work->pio.len_bytes)
		rdmap_pio_drop(r);
	return RDMAP_STEP_DONE;
}

static enum rdmap_step
rdmap_exec_verify(struct weft_rdmap *r, struct rdmap_irq_ent *e, uint8_t *code)
{
	const struct weft_hash_ops *hash = e->mr->hash;
	uint8_t result[WEFT_HASH_MAX_BYTES];

	*code = WEFT_TERM_OP_VERIFY_FAILED;
	if (r->work->hash == NULL) {
		if (weft_mem_hash_init(e->mr, &r->work->hash_state) < 0)
			return RDMAP_STEP_FAIL;
		r->work->hash = hash;
		r->work->hash_pos_bytes = 0;
	}
	while (r->work->hash_pos_bytes < e->len_bytes) {
		if (!rdmap_may_work(r))
			return RDMAP_STEP_AGAIN;
		if (e->mr->persist != NULL && e->mr->persist->ops->read_back != NULL &&
		    !RDMAP_SABOTAGED(r, VERIFY_MEMORY)) {
			enum rdmap_step st = rdmap_verify_medium(r, e);

			if (st != RDMAP_STEP_DONE)
				return st;
		} else {
			rdmap_hash_update(r, weft_mem_addr(e->mr, e->to) + r->work->hash_pos_bytes,
			                  e->len_bytes - r->work->hash_pos_bytes);
		}
	}
	rdmap_hash_drop(r, result);
	if (e->hash_bytes > 0 && memcmp(result, e->hash, hash->result_bytes) != 0) {
		*code = WEFT_TERM_OP_HASH_MISMATCH;
		return RDMAP_STEP_FAIL;
	}
	e->hash_bytes = (uint8_t)hash->result_bytes;
	memcpy(e->hash, result, e->hash_bytes);
	return RDMAP_STEP_DONE;
}

/* Fail the entry in its place, and tell verbs of the bad range now. The Terminate follows when
 * every earlier request is answered. */
static void
rdmap_irq_fail(struct weft_rdmap *r, struct rdmap_irq_ent *e, uint8_t code)
{
	struct weft_mem_mr *mr = e->mr;
	uint64_t to = e->to, len_bytes = e->len_bytes;
	bool held = e->held;
	struct weft_term term;

	rdmap_hash_drop(r, NULL);
	if (r->work->pio_state == RDMAP_PIO_READY)
		rdmap_pio_drop(r);
	rdmap_irq_refuse(&term, code);
	rdmap_irq_set_failed(r, e, &term);
	/* the up-call may reset the ring, so this function keeps the entry's reference itself */
	e->held = false;
	r->ops->bad_range(r->user, mr, to, len_bytes, code);
	if (held)
		weft_mem_unref(mr);
}

/*
 * A request may read or change memory only while its STag is valid. After an invalidation (also by
 * a Send with Invalidate of the peer) the owner may use the memory for something else (RFC 5040
 * s8.1.1 item 6), and must not have to wait for this stream. So the STag is looked up and checked
 * again when the request executes, and for every segment of a Read's response: the STag may have
 * been registered anew, or with fewer rights or octets. A Flush neither reads out nor changes
 * memory; it is always executed.
 */
static bool
rdmap_irq_revoked(struct weft_rdmap *r, struct rdmap_irq_ent *e)
{
	static const uint32_t access[RDMAP_NOPCODES] = {
	        [WEFT_RDMAP_READ_REQ] = WEFT_ACCESS_REMOTE_READ,
	        [WEFT_RDMAP_ATOMIC_REQ] = WEFT_ACCESS_REMOTE_ATOMIC,
	        [WEFT_RDMAP_VERIFY_REQ] = WEFT_MEM_TO_VERIFY,
	        [WEFT_RDMAP_AWRITE_REQ] = WEFT_ACCESS_REMOTE_WRITE,
	};
	enum weft_mem_err err = WEFT_MEM_BAD_STAG;
	struct weft_term term;

	if (e->held || (e->op == WEFT_RDMAP_READ_REQ && e->len_bytes == 0))
		return false;
	if (e->op == WEFT_RDMAP_VERIFY_REQ && r->work->pio_state == RDMAP_PIO_BUSY) {
		e->mr = r->work->pio_mr;
		return false;
	}
	e->mr = weft_mem_lookup(r->mem, e->stag);
	if (likely(e->mr != NULL))
		err = weft_mem_check(e->mr, r->pd, e->to, e->len_bytes, access[e->op]);
	if (likely(err == WEFT_MEM_OK))
		return false;
	rdmap_hash_drop(r, NULL);
	if (r->work->pio_state == RDMAP_PIO_READY)
		rdmap_pio_drop(r);
	RDMAP_FAULT(r, requests_revoked);
	rdmap_irq_count_revoked(r, e);
	(void)rdmap_irq_bad(&term, err);
	rdmap_irq_set_failed(r, e, &term);
	return true;
}

/* Fail the request if its medium is gone. A flush or read-back that the driver has ends first. */
static bool
rdmap_irq_lost(struct weft_rdmap *r, struct rdmap_irq_ent *e)
{
	static const uint8_t code[RDMAP_NOPCODES] = {
	        [WEFT_RDMAP_READ_REQ] = WEFT_TERM_OP_LOST,
	        [WEFT_RDMAP_ATOMIC_REQ] = WEFT_TERM_OP_LOST,
	        [WEFT_RDMAP_FLUSH_REQ] = WEFT_TERM_OP_FLUSH_FAILED,
	        [WEFT_RDMAP_VERIFY_REQ] = WEFT_TERM_OP_VERIFY_FAILED,
	        [WEFT_RDMAP_AWRITE_REQ] = WEFT_TERM_OP_LOST,
	};

	if (likely(e->mr == NULL || !weft_mem_lost(e->mr)))
		return false;
	if (r->work->pio_state == RDMAP_PIO_BUSY && e->op != WEFT_RDMAP_READ_REQ)
		return false;
	RDMAP_FAULT(r, lost);
	rdmap_irq_fail(r, e, code[e->op]);
	return true;
}

#ifdef WEFT_TEST_HOOKS
/* WEFT_RDMAP_EARLY_RESPONSE: whether a Flush that is already answered is still with the driver. */
static bool
rdmap_irq_early(struct weft_rdmap *r)
{
	if (r->work->pio_state == RDMAP_PIO_READY && !r->work->pio_read)
		rdmap_pio_drop(r);
	return r->work->pio_state == RDMAP_PIO_BUSY && !r->work->pio_read;
}
#endif

void
rdmap_irq_run(struct weft_rdmap *r)
{
	while (r->irq_exec != r->irq_tail) {
		struct rdmap_irq_ent *e = rdmap_irq_at(r, r->irq_exec);
		enum rdmap_step st = RDMAP_STEP_DONE;
		uint8_t code = WEFT_TERM_OP_FLUSH_FAILED;

		if (e->state == RDMAP_IRQ_FAILED || e->op == WEFT_RDMAP_READ_REQ)
			return; /* a Read is executed by sending its response */
#ifdef WEFT_TEST_HOOKS
		if (RDMAP_SABOTAGED(r, EARLY_RESPONSE) && rdmap_irq_early(r))
			return;
#endif
		if (unlikely(rdmap_irq_revoked(r, e) || rdmap_irq_lost(r, e)))
			return;
		switch (e->op) {
		case WEFT_RDMAP_FLUSH_REQ:
			st = rdmap_exec_flush(r, e);
			break;
		case WEFT_RDMAP_VERIFY_REQ:
			st = rdmap_exec_verify(r, e, &code);
			break;
		case WEFT_RDMAP_ATOMIC_REQ:
			rdmap_exec_atomic(e);
			break;
		default:
			if (!RDMAP_SABOTAGED(r, EARLY_AWRITE))
				weft_mem_store8(e->mr, e->to, e->hash);
			break;
		}
		if (unlikely(rdmap_irq_lost(r, e)))
			return;
		switch (st) {
		case RDMAP_STEP_DONE:
			e->state = RDMAP_IRQ_DONE;
			rdmap_irq_release(e);
			r->irq_exec++;
			break;
		case RDMAP_STEP_AGAIN:
			rdmap_kick(r);
			return;
		case RDMAP_STEP_WAIT:
			return;
		case RDMAP_STEP_FAIL:
			rdmap_irq_fail(r, e, code);
			return;
		}
	}
}

/* ---- Responses ---- */

/* Send the Terminate of a failed request. For a Read its RDMA header shows the part not yet sent
 * (RFC 5040 s4.8). */
static enum rdmap_tx
rdmap_send_failure(struct weft_rdmap *r, const struct rdmap_irq_ent *e, uint64_t now_ns)
{
	uint8_t rdma[RDMAP_READ_REQ_BYTES], hdr[WEFT_DDP_UNTAGGED_HDR_BYTES];
	struct weft_term term = e->term;
	struct rdmap_read_req q = {.sink_stag = e->sink_stag,
	                           .sink_to = e->sink_to + e->sent_bytes,
	                           .len_bytes = (uint32_t)e->len_bytes - e->sent_bytes,
	                           .src_stag = e->stag,
	                           .src_to = e->to + e->sent_bytes};

	rdmap_read_req_encode(&q, rdma);
	memcpy(hdr, e->hdr, sizeof(hdr)); /* rdmap_term_send() resets the ring */
	rdmap_term_send(r, &term, hdr, sizeof(hdr), e->op == WEFT_RDMAP_READ_REQ ? rdma : NULL,
	                e->seg_bytes, now_ns);
	return RDMAP_TX_STOP;
}

/* Send the Terminate of a Read, unless the up-call bad_range() has ended the stream. */
static enum rdmap_tx
rdmap_read_failure(struct weft_rdmap *r, const struct rdmap_irq_ent *e, uint64_t now_ns)
{
	return rdmap_irq_depth(r) > 0 ? rdmap_send_failure(r, e, now_ns) : RDMAP_TX_STOP;
}

static enum rdmap_tx
rdmap_send_read(struct weft_rdmap *r, struct rdmap_irq_ent *e, int32_t *budget_bytes,
                uint64_t now_ns)
{
	struct weft_ddp_hdr h = {
	        .tagged = true, .rsvdulp = RDMAP_CTRL(WEFT_RDMAP_READ_RESP), .stag = e->sink_stag};

	for (;;) {
		uint32_t left = (uint32_t)e->len_bytes - e->sent_bytes;
		uint32_t n = RTE_MIN(left, weft_ddp_max_payload(&r->ddp, true));
		uint8_t *p;

		if (unlikely(rdmap_irq_revoked(r, e) || rdmap_irq_lost(r, e)))
			return rdmap_read_failure(r, e, now_ns);
		h.last = n == left;
		h.to = e->sink_to + e->sent_bytes;
		p = weft_ddp_tx_begin(&r->ddp, &h, n, now_ns);
		if (p == NULL)
			return RDMAP_TX_BLOCKED;
		if (n > 0)
			memcpy(p, weft_mem_addr(e->mr, e->to) + e->sent_bytes, n);
		if (unlikely(e->mr != NULL && weft_mem_lost(e->mr))) {
			weft_ddp_tx_cancel(&r->ddp, &h);
			(void)rdmap_irq_lost(r, e);
			return rdmap_read_failure(r, e, now_ns);
		}
		weft_ddp_tx_end(&r->ddp, now_ns);
		r->unflushed = true;
		r->mid = RDMAP_MID_RESP;
		e->sent_bytes += n;
		r->stats.bytes_out += n;
		*budget_bytes -= (int32_t)n + RDMAP_SEG_COST_BYTES;
		if (h.last)
			break;
		if (*budget_bytes <= 0)
			return RDMAP_TX_BUDGET;
	}
	r->mid = RDMAP_MID_NONE;
	rdmap_count_out(r, WEFT_RDMAP_READ_RESP);
	r->irq_exec++;
	r->irq_head++;
	return RDMAP_TX_SENT;
}

enum rdmap_tx
rdmap_irq_send(struct weft_rdmap *r, int32_t *budget_bytes, uint64_t now_ns)
{
	static const uint8_t answer[RDMAP_NOPCODES] = {
	        [WEFT_RDMAP_ATOMIC_REQ] = WEFT_RDMAP_ATOMIC_RESP,
	        [WEFT_RDMAP_FLUSH_REQ] = WEFT_RDMAP_FLUSH_RESP,
	        [WEFT_RDMAP_VERIFY_REQ] = WEFT_RDMAP_VERIFY_RESP,
	        [WEFT_RDMAP_AWRITE_REQ] = WEFT_RDMAP_AWRITE_RESP,
	};
	struct rdmap_irq_ent *e;
	uint32_t len;
	int rc;

	if (r->irq_head == r->irq_tail)
		return RDMAP_TX_NONE;
	e = rdmap_irq_at(r, r->irq_head);
	if (e->state == RDMAP_IRQ_FAILED)
		return rdmap_send_failure(r, e, now_ns);
	if (e->op == WEFT_RDMAP_READ_REQ)
		return rdmap_send_read(r, e, budget_bytes, now_ns);
	if (e->state != RDMAP_IRQ_DONE)
		return RDMAP_TX_NONE;
	len = e->hash_bytes; /* none for Flush and Atomic Write */
	rc = rdmap_tx_untagged(r, answer[e->op], e->hash, len, now_ns);
	if (rc == 0)
		return RDMAP_TX_BLOCKED;
	if (rc < 0) { /* the response does not fit a segment of this path */
		rdmap_irq_refuse(&e->term, WEFT_TERM_OP_STREAM);
		return rdmap_send_failure(r, e, now_ns);
	}
	*budget_bytes -= (int32_t)len + RDMAP_SEG_COST_BYTES;
	r->irq_head++;
	return RDMAP_TX_SENT;
}

void
rdmap_irq_reset(struct weft_rdmap *r)
{
	for (uint32_t i = r->irq_head; i != r->irq_tail; i++)
		rdmap_irq_release(rdmap_irq_at(r, i));
	r->irq_head = r->irq_exec = r->irq_tail;
	if (r->work == NULL)
		return;
	rdmap_hash_drop(r, NULL);
	if (r->work->pio_state == RDMAP_PIO_READY)
		rdmap_pio_drop(r);
}
