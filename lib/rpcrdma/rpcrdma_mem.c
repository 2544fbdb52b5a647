/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Batches of work requests, and memory registered by them.
 *
 * A region stays reserved when it is put back, so after the first calls a registration costs two
 * work requests and no lock. What the peer could name is on `idle` only while it is not valid: the
 * end of a call waits for the invalidation (draft s7.4), or for the end of the connection, which
 * deregisters the region. Sinks of Reads are on lists of their own: with memory, valid as long as
 * they exist; without, valid until their next use.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpcrdma_mem.h"
#include "rpcrdma_priv.h"

/* ---- Batches ---- */

/* The capacity, at least `cap` and at least 8, that holds n. */
static unsigned int
batch_cap(unsigned int cap, unsigned int n)
{
	if (cap == 0)
		cap = 8;
	while (cap < n)
		cap *= 2;
	return cap;
}

uint64_t
weft_rpcrdma_batch_bytes(unsigned int n)
{
	return batch_cap(0, n) * (uint64_t)(sizeof(struct weft_wr) + sizeof(struct weft_sge));
}

int
weft_rpcrdma_batch_room(struct rpcrdma_batch *b, unsigned int n)
{
	unsigned int cap = batch_cap(b->cap, b->n + n);
	struct weft_wr *wr;
	struct weft_sge *sge;

	if (cap == b->cap)
		return 0;
	wr = realloc(b->wr, cap * sizeof(*wr));
	if (wr == NULL)
		return -ENOMEM;
	b->wr = wr;
	sge = realloc(b->sge, cap * sizeof(*sge));
	if (sge == NULL)
		return -ENOMEM;
	b->sge = sge;
	b->cap = cap;
	return 0;
}

struct weft_wr *
weft_rpcrdma_batch_add(struct rpcrdma_batch *b, void *addr, uint32_t len_bytes)
{
	struct weft_wr *wr = &b->wr[b->n];

	memset(wr, 0, sizeof(*wr));
	b->sge[b->n] = (struct weft_sge){.addr = addr, .len_bytes = len_bytes};
	wr->num_sge = addr != NULL;
	b->n++;
	return wr;
}

void
weft_rpcrdma_batch_free(struct rpcrdma_batch *b)
{
	free(b->wr);
	free(b->sge);
	memset(b, 0, sizeof(*b));
}

void
weft_rpcrdma_batch_queue(struct weft_rpc *rpc, struct rpcrdma_batch *b)
{
	b->posted = 0;
	b->slot = NULL;
	STAILQ_INSERT_TAIL(&rpc->batches, b, next);
}

void
weft_rpcrdma_batch_forget(struct weft_rpc *rpc, struct rpcrdma_batch *b)
{
	struct rpcrdma_batch *it;

	if (b->slot != NULL)
		b->slot->batch = NULL;
	b->slot = NULL;
	STAILQ_FOREACH (it, &rpc->batches, next) {
		if (it == b) {
			STAILQ_REMOVE(&rpc->batches, b, rpcrdma_batch, next);
			return;
		}
	}
}

/* ---- Regions ---- */

/** rpcrdma_holder.rest */
static bool
kept_rest(struct rpcrdma_holder *h)
{
	struct weft_rpc *rpc = (struct weft_rpc *)((char *)h - offsetof(struct weft_rpc, holder));

	if (rpc->sinks_kept.n == 0)
		return false;
	weft_rpcrdma_kept_trim(rpc, 0);
	return true;
}

void
weft_rpcrdma_regs_init(struct weft_rpc *rpc)
{
	TAILQ_INIT(&rpc->regs_used.regs);
	TAILQ_INIT(&rpc->regs_idle.regs);
	TAILQ_INIT(&rpc->regs_late.regs);
	TAILQ_INIT(&rpc->sinks_idle.regs);
	TAILQ_INIT(&rpc->sinks_kept.regs);
	rpc->idle_min = RPCRDMA_IDLE_MIN;
	rpc->holder.rest = kept_rest;
}

static void
reg_leave(struct rpcrdma_reg *reg)
{
	TAILQ_REMOVE(&reg->list->regs, reg, entry);
	reg->list->n--;
	reg->list->bytes -= reg->buf_bytes;
}

static void
reg_join(struct rpcrdma_reg_list *list, struct rpcrdma_reg *reg)
{
	reg->list = list;
	list->n++;
	list->bytes += reg->buf_bytes;
	TAILQ_INSERT_TAIL(&list->regs, reg, entry);
}

static void
reg_move(struct rpcrdma_reg *reg, struct rpcrdma_reg_list *to)
{
	reg_leave(reg);
	reg_join(to, reg);
}

/* A new region, on `used`. NULL and *rc: none. */
static struct rpcrdma_reg *
reg_new(struct weft_rpc *rpc, int *rc)
{
	struct rpcrdma_reg *reg = calloc(1, sizeof(*reg));

	*rc = -ENOMEM;
	if (reg == NULL)
		return NULL;
	*rc = weft_mr_alloc(rpc->pd, &reg->mr);
	if (*rc != 0) {
		free(reg);
		return NULL;
	}
	reg_join(&rpc->regs_used, reg);
	return reg;
}

/*
 * A region of the list, or a new one; on `used` then. NULL and *rc: none. The list keeps `min`
 * while there are others: a registration waits for what the region was before, and holds up all
 * work requests behind it.
 */
static struct rpcrdma_reg *
reg_take(struct weft_rpc *rpc, struct rpcrdma_reg_list *idle, unsigned int min, int *rc)
{
	struct rpcrdma_reg *reg = idle->n < min ? reg_new(rpc, rc) : NULL;

	if (reg != NULL)
		return reg;
	if (idle->n < min && *rc == -ENOSPC)
		rpc->idle_min = 1;
	reg = TAILQ_FIRST(&idle->regs);
	if (reg != NULL)
		reg_move(reg, &rpc->regs_used);
	return reg;
}

/* Add the registration of a region that is not valid when its turn comes; the batch has room. */
static void
reg_add(struct rpcrdma_batch *b, struct rpcrdma_reg *reg, void *addr, uint32_t len_bytes,
        uint32_t access)
{
	struct weft_wr *wr;

	reg->stag = weft_mr_next_stag(reg->mr);
	reg->valid = true;
	reg->batch = b;
	reg->at = b->n;
	wr = weft_rpcrdma_batch_add(b, NULL, 0);
	wr->opcode = WEFT_WR_FAST_REG;
	wr->fast_reg.mr = reg->mr;
	wr->fast_reg.addr = addr;
	wr->fast_reg.len_bytes = len_bytes;
	wr->fast_reg.access = access;
	/* For this stream, so that the peer may invalidate it although the domain has other
	 * streams. Not for a local sink. */
	wr->fast_reg.stream = (access & (WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE)) != 0;
}

/* Add the invalidation of a region that is valid; the batch has room. */
static void
reg_inv_add(struct rpcrdma_batch *b, const struct rpcrdma_reg *reg)
{
	struct weft_wr *wr;

	if (!reg->valid)
		return;
	wr = weft_rpcrdma_batch_add(b, NULL, 0);
	wr->opcode = WEFT_WR_LOCAL_INV;
	wr->local_inv.stag = reg->stag;
}

int
weft_rpcrdma_reg_get(struct weft_rpc *rpc, struct rpcrdma_batch *b, void *addr, uint32_t len_bytes,
                     uint32_t access, struct rpcrdma_reg **out)
{
	int rc = weft_rpcrdma_batch_room(b, 1);
	struct rpcrdma_reg *reg;

	if (rc != 0)
		return rc;
	reg = reg_take(rpc, &rpc->regs_idle, rpc->idle_min, &rc);
	if (reg == NULL)
		return rc;
	reg_add(b, reg, addr, len_bytes, access);
	*out = reg;
	return 0;
}

int
weft_rpcrdma_sink_get(struct weft_rpc *rpc, struct rpcrdma_batch *b, void *addr, uint32_t len_bytes,
                      struct rpcrdma_reg **out)
{
	int rc = weft_rpcrdma_batch_room(b, 2);
	struct rpcrdma_reg *reg;

	if (rc != 0)
		return rc;
	reg = reg_take(rpc, &rpc->sinks_idle, 1, &rc);
	if (reg == NULL)
		return rc;
	reg_inv_add(b, reg);
	reg_add(b, reg, addr, len_bytes, WEFT_ACCESS_LOCAL_WRITE);
	*out = reg;
	return 0;
}

int
weft_rpcrdma_reg_inv(struct rpcrdma_batch *b, struct rpcrdma_reg *const *reg, unsigned int n)
{
	int rc = weft_rpcrdma_batch_room(b, n);

	if (rc != 0)
		return rc;
	for (unsigned int i = 0; i < n; i++)
		reg_inv_add(b, reg[i]);
	return 0;
}

void
weft_rpcrdma_reg_free(struct weft_rpc *rpc, struct rpcrdma_reg *reg)
{
	free(weft_rpcrdma_kept_take(rpc, reg));
	reg_leave(reg);
	if (reg->mr != NULL)
		(void)weft_mr_dereg(reg->mr, NULL, NULL); /* no window is bound to it */
	free(reg);
}

static void
reg_rest(struct weft_rpc *rpc, struct rpcrdma_reg *reg, struct rpcrdma_reg_list *idle)
{
	if (rpc->down)
		weft_rpcrdma_reg_free(rpc, reg);
	else
		reg_move(reg, idle);
}

void
weft_rpcrdma_reg_put(struct weft_rpc *rpc, struct rpcrdma_reg *reg)
{
	reg->valid = false;
	reg_rest(rpc, reg, &rpc->regs_idle);
}

void
weft_rpcrdma_sink_put(struct weft_rpc *rpc, struct rpcrdma_reg *reg)
{
	reg_rest(rpc, reg, &rpc->sinks_idle);
}

void
weft_rpcrdma_reg_put_late(struct weft_rpc *rpc, struct rpcrdma_reg *reg, uint32_t xid)
{
	if (rpc->down) {
		weft_rpcrdma_reg_put(rpc, reg);
		return;
	}
	reg->valid = false;
	reg->late_xid = xid;
	reg_move(reg, &rpc->regs_late);
	if (rpc->regs_late.n > RPCRDMA_LATE_MAX)
		weft_rpcrdma_reg_put(rpc, TAILQ_FIRST(&rpc->regs_late.regs));
}

void
weft_rpcrdma_reg_answered(struct weft_rpc *rpc, uint32_t xid)
{
	struct rpcrdma_reg *reg;

	TAILQ_FOREACH (reg, &rpc->regs_late.regs, entry) {
		if (reg->late_xid == xid) {
			weft_rpcrdma_reg_put(rpc, reg);
			return;
		}
	}
}

void
weft_rpcrdma_reg_invalidated(struct weft_rpc *rpc, uint32_t stag)
{
	struct rpcrdma_reg *reg;

	rpc->stats.invalidated++;
	TAILQ_FOREACH (reg, &rpc->regs_used.regs, entry)
		if (reg->stag == stag)
			reg->valid = false;
}

static void
regs_free(struct weft_rpc *rpc, struct rpcrdma_reg_list *list)
{
	while (list->n > 0)
		weft_rpcrdma_reg_free(rpc, TAILQ_FIRST(&list->regs));
}

void
weft_rpcrdma_regs_free(struct weft_rpc *rpc)
{
	regs_free(rpc, &rpc->regs_used);
	regs_free(rpc, &rpc->regs_idle);
	regs_free(rpc, &rpc->sinks_idle);
	regs_free(rpc, &rpc->sinks_kept);
	regs_free(rpc, &rpc->regs_late);
}

/* ---- Sinks with memory ---- */

/* Memory, which is charged, on `used`. Its region is made when it is to be registered. */
static int
kept_new(struct weft_rpc *rpc, uint32_t buf_bytes, struct rpcrdma_reg **out)
{
	struct rpcrdma_reg *reg;
	void *buf = NULL;

	if (!weft_rpcrdma_hold(rpc, buf_bytes))
		return -EAGAIN;
	reg = calloc(1, sizeof(*reg));
	if (reg == NULL || posix_memalign(&buf, RPCRDMA_KEPT_ALIGN, buf_bytes) != 0) {
		free(reg);
		weft_rpcrdma_let_go(rpc, buf_bytes);
		return -ENOMEM;
	}
	reg->buf = buf;
	reg->buf_bytes = buf_bytes;
	reg_join(&rpc->regs_used, reg);
	*out = reg;
	return 0;
}

/* One of just that length; else any with room. The one that was used last comes first: its memory
 * may still be in the cache. region: one that has a region. */
static struct rpcrdma_reg *
kept_find(const struct weft_rpc *rpc, uint32_t buf_bytes, bool region)
{
	struct rpcrdma_reg *reg, *any = NULL;

	TAILQ_FOREACH_REVERSE(reg, &rpc->sinks_kept.regs, rpcrdma_reg_queue, entry)
	{
		if (region && reg->mr == NULL)
			continue;
		if (reg->buf_bytes == buf_bytes)
			return reg;
		if (any == NULL && reg->buf_bytes > buf_bytes)
			any = reg;
	}
	return any;
}

/* One that rests, or a new one; on `used` then. -EAGAIN: the budget has too little room. -ENOSPC:
 * none that rests has a region, and the domain has no more. */
static int
kept_take_one(struct weft_rpc *rpc, uint32_t buf_bytes, bool region, struct rpcrdma_reg **out)
{
	*out = kept_find(rpc, buf_bytes, region);
	if (*out != NULL) {
		reg_move(*out, &rpc->regs_used);
		WEFT_UNPOISON((*out)->buf, (*out)->buf_bytes);
		return 0;
	}
	if (region)
		return -ENOSPC;
	return rpcrdma_budget_tight(rpc->a.budget, &rpc->holder, buf_bytes)
	               ? -EAGAIN
	               : kept_new(rpc, buf_bytes, out);
}

int
weft_rpcrdma_kept_get(struct weft_rpc *rpc, struct rpcrdma_batch *b, uint32_t len_bytes,
                      struct rpcrdma_reg **out)
{
	int rc = b != NULL ? weft_rpcrdma_batch_room(b, 1) : 0;
	uint32_t n = RPCRDMA_KEPT_ALIGN;
	struct rpcrdma_reg *reg;

	while (n < len_bytes)
		n *= 2;
	if (rc == 0)
		rc = kept_take_one(rpc, n, b != NULL && rpc->idle_min == 1, &reg);
	if (rc != 0)
		return rc;
	if (b != NULL && reg->mr == NULL)
		rc = weft_mr_alloc(rpc->pd, &reg->mr);
	if (rc != 0) {
		if (rc == -ENOSPC)
			rpc->idle_min = 1;
		weft_rpcrdma_kept_put(rpc, reg);
		return rc;
	}
	if (b != NULL && !reg->valid)
		reg_add(b, reg, reg->buf, reg->buf_bytes, WEFT_ACCESS_LOCAL_WRITE);
	*out = reg;
	return 0;
}

void
weft_rpcrdma_kept_put(struct weft_rpc *rpc, struct rpcrdma_reg *reg)
{
	if (rpcrdma_budget_wanted(rpc->a.budget, &rpc->holder)) {
		weft_rpcrdma_reg_free(rpc, reg);
		return;
	}
	WEFT_POISON(reg->buf, reg->buf_bytes);
	reg_rest(rpc, reg, &rpc->sinks_kept);
	weft_rpcrdma_kept_trim(rpc, rpc->a.credits);
}

uint8_t *
weft_rpcrdma_kept_take(struct weft_rpc *rpc, struct rpcrdma_reg *reg)
{
	uint8_t *buf = reg->buf;

	if (buf == NULL)
		return NULL;
	WEFT_UNPOISON(buf, reg->buf_bytes);
	reg_leave(reg);
	weft_rpcrdma_let_go(rpc, reg->buf_bytes);
	reg->buf = NULL;
	reg->buf_bytes = 0;
	reg_join(reg->list, reg);
	return buf;
}

void
weft_rpcrdma_kept_trim(struct weft_rpc *rpc, unsigned int n)
{
	while (rpc->sinks_kept.n > n)
		weft_rpcrdma_reg_free(rpc, TAILQ_FIRST(&rpc->sinks_kept.regs));
}

unsigned int
weft_rpcrdma_reg_segs(const struct rpcrdma_reg *reg, uint32_t len_bytes, uint32_t max_bytes,
                      struct rpcrdma_segment *segs, unsigned int cap)
{
	unsigned int n = 0;

	/* One region, so that one invalidation ends it; each segment is a part of the region. */
	for (uint32_t off = 0; off < len_bytes; off += segs[n++].len_bytes) {
		if (n == cap)
			return 0;
		segs[n] = (struct rpcrdma_segment){
		        .handle = reg->stag,
		        .len_bytes = len_bytes - off < max_bytes ? len_bytes - off : max_bytes,
		        .offset = off,
		};
	}
	return n;
}
