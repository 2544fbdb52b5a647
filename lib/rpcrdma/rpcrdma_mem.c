/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Batches of work requests, and memory registered by them.
 *
 * A region stays reserved when it is put back, so after the first calls a registration costs two
 * work requests and no lock. What the peer could name is on `idle` only while it is not valid: the
 * end of a call waits for the invalidation (draft s7.4), or for the end of the connection, which
 * deregisters the region. Sinks of Reads are on a list of their own, valid until their next use.
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

/* A region of the list, or a new one; on `used` then. NULL and *rc: none. */
static struct rpcrdma_reg *
reg_take(struct weft_rpc *rpc, struct rpcrdma_reg_list *idle, int *rc)
{
	struct rpcrdma_reg *reg = LIST_FIRST(idle);

	if (reg != NULL) {
		LIST_REMOVE(reg, entry);
	} else {
		*rc = -ENOMEM;
		reg = calloc(1, sizeof(*reg));
		if (reg == NULL)
			return NULL;
		*rc = weft_mr_alloc(rpc->pd, &reg->mr);
		if (*rc != 0) {
			free(reg);
			return NULL;
		}
	}
	LIST_INSERT_HEAD(&rpc->regs_used, reg, entry);
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
	reg = reg_take(rpc, &rpc->regs_idle, &rc);
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
	reg = reg_take(rpc, &rpc->sinks_idle, &rc);
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
weft_rpcrdma_reg_free(struct rpcrdma_reg *reg)
{
	LIST_REMOVE(reg, entry);
	(void)weft_mr_dereg(reg->mr, NULL, NULL); /* no window is bound to it */
	free(reg);
}

static void
reg_rest(struct weft_rpc *rpc, struct rpcrdma_reg *reg, struct rpcrdma_reg_list *idle)
{
	if (rpc->down) {
		weft_rpcrdma_reg_free(reg);
		return;
	}
	LIST_REMOVE(reg, entry);
	LIST_INSERT_HEAD(idle, reg, entry);
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

static void
reg_no_longer_late(struct weft_rpc *rpc, struct rpcrdma_reg *reg)
{
	rpc->nlate--;
	weft_rpcrdma_reg_put(rpc, reg);
}

void
weft_rpcrdma_reg_put_late(struct weft_rpc *rpc, struct rpcrdma_reg *reg, uint32_t xid)
{
	struct rpcrdma_reg *oldest = NULL, *it;

	if (rpc->down) {
		weft_rpcrdma_reg_put(rpc, reg);
		return;
	}
	reg->valid = false;
	reg->late_xid = xid;
	LIST_REMOVE(reg, entry);
	LIST_INSERT_HEAD(&rpc->regs_late, reg, entry);
	if (++rpc->nlate <= RPCRDMA_LATE_MAX)
		return;
	LIST_FOREACH (it, &rpc->regs_late, entry)
		oldest = it;
	reg_no_longer_late(rpc, oldest);
}

void
weft_rpcrdma_reg_answered(struct weft_rpc *rpc, uint32_t xid)
{
	struct rpcrdma_reg *reg;

	LIST_FOREACH (reg, &rpc->regs_late, entry) {
		if (reg->late_xid == xid) {
			reg_no_longer_late(rpc, reg);
			return;
		}
	}
}

void
weft_rpcrdma_reg_invalidated(struct weft_rpc *rpc, uint32_t stag)
{
	struct rpcrdma_reg *reg;

	rpc->stats.invalidated++;
	LIST_FOREACH (reg, &rpc->regs_used, entry)
		if (reg->stag == stag)
			reg->valid = false;
}

void
weft_rpcrdma_regs_free(struct weft_rpc *rpc)
{
	while (!LIST_EMPTY(&rpc->regs_used))
		weft_rpcrdma_reg_free(LIST_FIRST(&rpc->regs_used));
	while (!LIST_EMPTY(&rpc->regs_idle))
		weft_rpcrdma_reg_free(LIST_FIRST(&rpc->regs_idle));
	while (!LIST_EMPTY(&rpc->sinks_idle))
		weft_rpcrdma_reg_free(LIST_FIRST(&rpc->sinks_idle));
	while (!LIST_EMPTY(&rpc->regs_late))
		weft_rpcrdma_reg_free(LIST_FIRST(&rpc->regs_late));
	rpc->nlate = 0;
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
