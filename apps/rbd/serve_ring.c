/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The rings of a channel, as the process sees them. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/block.h>

#include "serve.h"

#define SERVE_BURST 32 /**< requests of one channel before the others have their turn */

struct serve_chan *
serve_chan_new(const struct rbd_call *call, const int fds[3])
{
	struct serve_chan *c;
	struct stat st;

	if (call->tags == 0 || call->tags > RBD_MAX_TAGS || (call->tags & (call->tags - 1)) != 0 ||
	    call->slots > RBD_MAX_SLOTS || call->chan >= RBD_MAX_CHANS)
		return NULL;
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return NULL;
	c->number = call->chan;
	c->tags = call->tags;
	c->slots = call->slots;
	c->base_bytes = rbd_ring_bytes(c->tags, c->slots);
	c->req = calloc(c->tags, sizeof(*c->req));
	c->base = MAP_FAILED;
	if (c->req != NULL && fstat(fds[0], &st) == 0 && (uint64_t)st.st_size >= c->base_bytes)
		c->base = mmap(NULL, c->base_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	if (c->base == MAP_FAILED) {
		free(c->req);
		free(c);
		return NULL;
	}
	close(fds[0]);
	c->kick_fd = fds[1];
	c->bell_fd = fds[2];
	c->ring = c->base;
	return c;
}

void
serve_chan_free(struct serve_chan *c)
{
	munmap(c->base, c->base_bytes);
	close(c->kick_fd);
	close(c->bell_fd);
	free(c->req);
	free(c);
}

static void *
serve_slot(const struct serve_chan *c, uint16_t slot)
{
	return (uint8_t *)c->base + rbd_slots_off(c->tags) + (uint64_t)slot * RBD_SLOT_BYTES;
}

/** How many slots an entry uses; -1: it is wrong. */
static int
serve_slots_of(const struct serve_chan *c, const struct rbd_sqe *e)
{
	int n = 0;

	if (e->op == WEFT_BLOCK_READ || e->op == WEFT_BLOCK_WRITE) {
		if (e->len_bytes > RBD_MAX_BYTES)
			return -1;
		n = (int)((e->len_bytes + RBD_SLOT_BYTES - 1) / RBD_SLOT_BYTES);
	} else if (e->op == WEFT_BLOCK_COMPARE_WRITE) {
		if (e->len_bytes > RBD_SLOT_BYTES)
			return -1;
		n = 2;
	} else if (e->op == WEFT_BLOCK_SNAPSHOT) {
		n = 2;
	} else if (e->op == WEFT_BLOCK_EXTENTS) {
		if (e->max_extents > RBD_MAX_EXTENTS)
			return -1;
		n = 1;
	}
	for (int i = 0; i < n; i++)
		if (e->slot[i] >= c->slots)
			return -1;
	return n;
}

/** Fill in a request. False: the entry is wrong. */
static bool
serve_decode(struct serve_chan *c, const struct rbd_sqe *e, struct serve_req *r)
{
	int n = serve_slots_of(c, e);
	uint64_t left = e->len_bytes;

	if (n < 0)
		return false;
	*r = (struct serve_req){.chan = c,
	                        .tag = e->tag,
	                        .run = e->run,
	                        .op = e->op,
	                        .flags = e->flags,
	                        .off_bytes = e->off_bytes,
	                        .len_bytes = e->len_bytes,
	                        .max_extents = e->max_extents,
	                        .busy = true};
	if (e->op == WEFT_BLOCK_EXTENTS) {
		r->extents = serve_slot(c, e->slot[0]);
		return true;
	}
	if (e->op == WEFT_BLOCK_SNAPSHOT) {
		r->snap = serve_slot(c, e->slot[0]);
		r->snap_data = serve_slot(c, e->slot[1]);
		return true;
	}
	if (e->op == WEFT_BLOCK_COMPARE_WRITE) {
		r->expect = serve_slot(c, e->slot[1]);
		n = 1;
	}
	for (r->iovs = 0; r->iovs < n; r->iovs++) {
		uint64_t part = left < RBD_SLOT_BYTES ? left : RBD_SLOT_BYTES;

		r->iov[r->iovs] = (struct iovec){serve_slot(c, e->slot[r->iovs]), part};
		left -= part;
	}
	return true;
}

bool
serve_chan_take(struct serve_chan *c, const struct serve_backend *b)
{
	uint32_t tail = atomic_load_explicit(&c->ring->sq_tail, memory_order_acquire);
	uint32_t n = 0;

	while (c->sq_head != tail && n < SERVE_BURST) {
		struct rbd_sqe e;

		memcpy(&e, &rbd_sq(c->base)[c->sq_head++ & (c->tags - 1)], sizeof(e));
		n++;
		/* The driver is broken: its requests have no end that could be told. */
		if (e.tag >= c->tags || c->req[e.tag].busy)
			continue;
		c->under_way++;
		if (!serve_decode(c, &e, &c->req[e.tag])) {
			c->req[e.tag] = (struct serve_req){.chan = c, .tag = e.tag, .run = e.run};
			serve_done(&c->req[e.tag], -EINVAL, 0, 0);
			continue;
		}
		b->submit(&c->req[e.tag]);
	}
	return n > 0;
}

/** A change has ended without a result: it may still land. */
static bool serve_doubt;

bool
serve_in_doubt(void)
{
	return serve_doubt;
}

void
serve_done(struct serve_req *r, int status, uint64_t done_bytes, uint32_t extents)
{
	struct serve_chan *c = r->chan;

	rbd_cq(c->base, c->tags)[c->cq_tail & (c->tags - 1)] =
	        (struct rbd_cqe){.tag = r->tag,
	                         .run = r->run,
	                         .status = status,
	                         .extents = extents,
	                         .done_bytes = done_bytes};
	r->busy = false;
	c->under_way--;
	if (status == -ETIMEDOUT && r->op != WEFT_BLOCK_READ && r->op != WEFT_BLOCK_EXTENTS)
		serve_doubt = true;
	atomic_store_explicit(&c->ring->cq_tail, ++c->cq_tail, memory_order_release);
}

void
serve_chan_tell(struct serve_chan *c)
{
	const uint64_t one = 1;

	if (c->told == c->cq_tail)
		return;
	c->told = c->cq_tail;
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&c->ring->driver_sleeps, memory_order_relaxed) == 0)
		return;
	atomic_store_explicit(&c->ring->driver_sleeps, 0, memory_order_relaxed);
	(void)!write(c->bell_fd, &one, sizeof(one));
}

bool
serve_chan_sleep(struct serve_chan *c)
{
	atomic_store_explicit(&c->ring->process_sleeps, 1, memory_order_seq_cst);
	return atomic_load_explicit(&c->ring->sq_tail, memory_order_seq_cst) == c->sq_head;
}

void
serve_chan_wake(struct serve_chan *c)
{
	uint64_t n;

	atomic_store_explicit(&c->ring->process_sleeps, 0, memory_order_relaxed);
	(void)!read(c->kick_fd, &n, sizeof(n));
}
