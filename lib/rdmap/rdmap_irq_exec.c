/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The inbound request queue (IRQ): requests are executed, in order.
 *
 * Long work is cut into slices (hashing) or asynchronous (the medium). Meanwhile no later request
 * of the stream starts, and other streams continue.
 */

#include <rte_atomic.h>

#include "rdmap_atomic.h"
#include "rdmap_hook.h"
#include "rdmap_irq.h"
#include "rdmap_irq_exec.h"
#include "weft_mem_place.h"
#include "weft_mem_find.h"

enum rdmap_step {
	RDMAP_STEP_DONE,
	RDMAP_STEP_WAIT,  /**< for the medium, or for a turn to use it: either queues the task */
	RDMAP_STEP_AGAIN, /**< the request needs another turn of the task */
	RDMAP_STEP_FAIL,
};

/* weft_persist_req.done: the executor calls it, or the submission itself does. On the worker. The
 * stream may have ended. */
static void
rdmap_persist_done(struct weft_persist_req *req)
{
	struct weft_rdmap *r = req->owner;

	r->work->persist_state = RDMAP_PIO_READY;
	if (r->dead) {
		rdmap_persist_drop(r);
		weft_task_queue(r->sched, &r->reap);
	} else if (rdmap_irq_depth(r) == 0) {
		rdmap_persist_drop(r);
	} else {
		rdmap_schedule(r);
	}
}

static int
rdmap_persist_submit(struct weft_rdmap *r, struct rdmap_irq_ent *e, bool read, uint64_t pos,
                     uint64_t len)
{
	struct weft_persist *p = e->mr->persist;
	int rc;

	r->work->persist.off_bytes = e->mr->persist_off_bytes + (e->to - e->mr->base_to) + pos;
	r->work->persist.len_bytes = len;
	r->work->persist.flags = e->flags;
	r->work->persist.status = 0;
	r->work->persist.data = NULL;
	r->work->persist.done = rdmap_persist_done;
	r->work->persist.owner = r;
	r->work->persist_read = read;
	r->work->persist_off_bytes = 0;
	r->work->persist_mr = e->mr;
	weft_mem_ref(e->mr);
	r->work->persist_state = RDMAP_PIO_BUSY;
	rc = read ? p->ops->read_back(p, r->sched->exec, &r->work->persist)
	          : p->ops->flush(p, r->sched->exec, &r->work->persist);
	if (rc < 0) {
		r->work->persist_state = RDMAP_PIO_IDLE;
		rdmap_unref(&r->work->persist_mr);
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
rdmap_persist_charge(struct weft_rdmap *r)
{
	if (r->work->persist_state == RDMAP_PIO_READY &&
	    r->work->persist_mr->persist->ops->persistent)
		weft_lane_take(r->sched, r->lane, &r->work->slice,
		               (uint32_t)RTE_MIN(r->work->persist.len_bytes, WEFT_SLICE_BYTES));
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
rdmap_exec_flush(struct weft_rdmap *r, struct rdmap_irq_ent *e, int *status)
{
	int rc;

	if (r->work->persist_state == RDMAP_PIO_IDLE) {
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
		*status = rc = rdmap_persist_submit(r, e, false, 0, e->len_bytes);
		if (rc < 0)
			return rc == -EAGAIN ? RDMAP_STEP_AGAIN : RDMAP_STEP_FAIL;
		if (e->flags & WEFT_FLUSH_PERSISTENT)
			rdmap_persist_charge(r);
		if (RDMAP_SABOTAGED(r, EARLY_RESPONSE))
			return RDMAP_STEP_DONE;
	}
	if (r->work->persist_state == RDMAP_PIO_BUSY)
		return RDMAP_STEP_WAIT;
	*status = rc = r->work->persist.status;
	rdmap_persist_drop(r);
	return rc == 0 ? RDMAP_STEP_DONE : RDMAP_STEP_FAIL;
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
rdmap_verify_medium(struct weft_rdmap *r, struct rdmap_irq_ent *e, int *status)
{
	uint32_t max = e->mr->persist->ops->read_back_max_bytes;
	int rc;

	if (r->work->persist_state == RDMAP_PIO_IDLE) {
		uint64_t left = e->len_bytes - r->work->hash_pos_bytes;

		if (!weft_turn_get(r->lane, &r->work->turn, &r->task))
			return RDMAP_STEP_WAIT;
		*status = rc = rdmap_persist_submit(r, e, true, r->work->hash_pos_bytes,
		                                    RTE_MIN(left, max));
		if (rc < 0)
			return rc == -EAGAIN ? RDMAP_STEP_AGAIN : RDMAP_STEP_FAIL;
		rdmap_persist_charge(r);
		return r->work->persist_state == RDMAP_PIO_BUSY ? RDMAP_STEP_WAIT : RDMAP_STEP_DONE;
	}
	if (r->work->persist_state == RDMAP_PIO_BUSY)
		return RDMAP_STEP_WAIT;
	*status = r->work->persist.status;
	if (*status != 0)
		return RDMAP_STEP_FAIL;
	r->work->persist_off_bytes +=
	        rdmap_hash_update(r, r->work->persist.data + r->work->persist_off_bytes,
	                          r->work->persist.len_bytes - r->work->persist_off_bytes);
	if (r->work->persist_off_bytes == r->work->persist.len_bytes)
		rdmap_persist_drop(r);
	return RDMAP_STEP_DONE;
}

static enum rdmap_step
rdmap_exec_verify(struct weft_rdmap *r, struct rdmap_irq_ent *e, uint8_t *code, int *status)
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
			enum rdmap_step st = rdmap_verify_medium(r, e, status);

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
		*status = 0;
		return RDMAP_STEP_FAIL;
	}
	e->hash_bytes = (uint8_t)hash->result_bytes;
	memcpy(e->hash, result, e->hash_bytes);
	return RDMAP_STEP_DONE;
}

/* Fail the entry in its place, and tell verbs of the bad range now. The Terminate follows when
 * every earlier request is answered. status: of the persist driver; 0: not of it. */
static void
rdmap_irq_fail(struct weft_rdmap *r, struct rdmap_irq_ent *e, uint8_t code, int status)
{
	struct weft_mem_mr *mr = e->mr;
	uint64_t to = e->to, len_bytes = e->len_bytes;
	bool held = e->held;
	struct weft_term term;

	rdmap_hash_drop(r, NULL);
	if (r->work->persist_state == RDMAP_PIO_READY)
		rdmap_persist_drop(r);
	rdmap_irq_refuse(&term, code);
	rdmap_irq_set_failed(r, e, &term);
	/* the up-call may reset the ring, so this function keeps the entry's reference itself */
	e->held = false;
	r->ops->bad_range(r->user, mr, to, len_bytes, code, status);
	if (held)
		weft_mem_unref(mr);
}

/*
 * A request may read or change memory only while its STag is valid. After an invalidation (also by
 * a Send with Invalidate of the peer) the owner may use the memory for something else (RFC 5040
 * s8.1.1 item 6), and must not have to wait for this stream. So the STag is looked up and checked
 * again when the request executes, and for every segment of a Read's response: the STag may have
 * been registered again, or with fewer rights or octets. A Flush neither reads out nor changes
 * memory; it is always executed.
 */
bool
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
	if (e->op == WEFT_RDMAP_VERIFY_REQ && r->work->persist_state == RDMAP_PIO_BUSY) {
		e->mr = r->work->persist_mr;
		return false;
	}
	e->mr = weft_mem_lookup(r->mem, e->stag);
	if (likely(e->mr != NULL))
		err = weft_mem_check(e->mr, r->pd, e->to, e->len_bytes, access[e->op]);
	if (likely(err == WEFT_MEM_OK))
		return false;
	rdmap_hash_drop(r, NULL);
	if (r->work->persist_state == RDMAP_PIO_READY)
		rdmap_persist_drop(r);
	RDMAP_FAULT(r, requests_revoked);
	rdmap_irq_count_revoked(r, e);
	(void)rdmap_irq_bad(&term, err);
	rdmap_irq_set_failed(r, e, &term);
	return true;
}

/* Fail the request if its medium is gone. A flush or read-back that the driver has ends first. */
bool
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
	if (r->work->persist_state == RDMAP_PIO_BUSY && e->op != WEFT_RDMAP_READ_REQ)
		return false;
	RDMAP_FAULT(r, lost);
	rdmap_irq_fail(r, e, code[e->op], 0);
	return true;
}

/* weft_gate_wait.go, of a request that has waited. */
static void
rdmap_gate_go(struct weft_gate_wait *w)
{
	struct weft_rdmap *r = w->owner;

	rdmap_irq_at(r, r->irq_exec)->passed = true;
	rdmap_schedule(r);
}

/* Octets that the request is charged (struct weft_gate_wait). */
static uint64_t
rdmap_gate_bytes(struct weft_rdmap *r, const struct rdmap_irq_ent *e)
{
	/* The Writes before requests behind this one may have arrived already: they are theirs. */
	const uint64_t left = r->stats.bytes_in - r->work->gate_bytes;

	if (e->op == WEFT_RDMAP_READ_REQ)
		return e->len_bytes;
	r->work->gate_bytes += RTE_MIN(left, e->len_bytes);
	return RTE_MIN(left, e->len_bytes);
}

/* The gate has let the request go, and it is not to be executed. */
static void
rdmap_gate_refused(struct weft_rdmap *r, struct rdmap_irq_ent *e)
{
	struct weft_term term;

	RDMAP_FAULT(r, requests_revoked);
	rdmap_irq_count_revoked(r, e);
	(void)rdmap_irq_bad(&term, WEFT_MEM_BAD_STAG);
	rdmap_irq_set_failed(r, e, &term);
	/* The owner waits for its region. */
	rdmap_irq_release(e);
}

static bool
rdmap_gate_waits(struct weft_rdmap *r, struct rdmap_irq_ent *e)
{
	struct weft_gate *g = e->mr->gate;
	struct weft_gate_wait *w = &r->work->gate;

	if (e->passed && r->work->gated != NULL) {
		rdmap_irq_leave(r);
		if (w->refused) {
			rdmap_gate_refused(r, e);
			return true;
		}
	}
	if (e->passed || w->gate != NULL)
		return !e->passed;
	if (!g->on)
		return false;
	w->refused = false;
	w->bytes = rdmap_gate_bytes(r, e);
	w->go = rdmap_gate_go;
	w->owner = r;
	e->passed = g->enter(g, w);
	/* The gate exists as long as the region. */
	if (!e->passed) {
		r->work->gated = e->mr;
		weft_mem_ref(e->mr);
	}
	return !e->passed;
}

bool
rdmap_irq_waits(struct weft_rdmap *r, struct rdmap_irq_ent *e)
{
	return unlikely(e->mr != NULL && e->mr->gate != NULL) && rdmap_gate_waits(r, e);
}

#ifdef WEFT_TEST_HOOKS
/* WEFT_RDMAP_EARLY_RESPONSE: whether a Flush that is already answered is still with the driver. */
static bool
rdmap_irq_early(struct weft_rdmap *r)
{
	if (r->work->persist_state == RDMAP_PIO_READY && !r->work->persist_read)
		rdmap_persist_drop(r);
	return r->work->persist_state == RDMAP_PIO_BUSY && !r->work->persist_read;
}
#endif

void
rdmap_irq_run(struct weft_rdmap *r)
{
	while (r->irq_exec != r->irq_tail) {
		struct rdmap_irq_ent *e = rdmap_irq_at(r, r->irq_exec);
		enum rdmap_step st = RDMAP_STEP_DONE;
		uint8_t code = WEFT_TERM_OP_FLUSH_FAILED;
		int status = 0;

		if (e->state == RDMAP_IRQ_FAILED || e->op == WEFT_RDMAP_READ_REQ)
			return; /* a Read is executed by sending its response */
#ifdef WEFT_TEST_HOOKS
		if (RDMAP_SABOTAGED(r, EARLY_RESPONSE) && rdmap_irq_early(r))
			return;
#endif
		if (unlikely(rdmap_irq_revoked(r, e) || rdmap_irq_lost(r, e) ||
		             rdmap_irq_waits(r, e)))
			return;
		switch (e->op) {
		case WEFT_RDMAP_FLUSH_REQ:
			st = rdmap_exec_flush(r, e, &status);
			break;
		case WEFT_RDMAP_VERIFY_REQ:
			st = rdmap_exec_verify(r, e, &code, &status);
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
			rdmap_schedule(r);
			return;
		case RDMAP_STEP_WAIT:
			return;
		case RDMAP_STEP_FAIL:
			rdmap_irq_fail(r, e, code, status);
			return;
		}
	}
}
