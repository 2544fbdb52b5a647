/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file "pmem": a file in persistent memory, as a block device. The medium is that of the persist
 * driver of the same name, with its checks, its lock and its guard.
 *
 * A read is a copy from the mapping. A write is a copy into it and a flush of its range, so it is
 * durable when it is done, and a flush has nothing to do. A read of the medium is a read-back of
 * the persist driver. As the mapping is the medium, a caller may register regions on it and move
 * data without requests: weft_block_info.persist.
 *
 * On a file that is not on DAX each write is an msync: correct, and slow. There the driver "uring"
 * is the right one.
 */

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "weft_base.h"
#include "weft_medium.h"
#include <weft/block.h>
#include <weft/exec.h>

#define PMEM_BLOCK     512U
#define PMEM_MAX_BYTES (256U << 10) /**< one request: some 30 us of the polling core */
#define PMEM_SLOTS     256U         /**< requests of a channel under way */
#define PMEM_HELPERS   2

struct pmem_disk {
	struct weft_persist *p;
	/** One compare-and-write at a time. No thread holds it for longer than a copy. */
	pthread_mutex_t compare_lock;
};

struct pmem_chan;

/** A request that the persist driver has a part of. */
struct pmem_slot {
	struct weft_persist_req preq;
	struct pmem_chan *c;
	struct weft_block_req *req;
	uint64_t done_bytes;    /**< of a read of the medium */
	struct pmem_slot *next; /**< free, or to be tried again */
};

struct pmem_chan {
	struct weft_persist *p;
	struct weft_exec *exec; /**< of this channel alone: a medium may hang */
	struct pmem_slot *free, *again;
	struct pmem_slot slot[PMEM_SLOTS];
};

/* ---- Open and close ---- */

static void
pmem_close(struct weft_block *b)
{
	struct pmem_disk *d = b->priv;

	weft_persist_close(d->p);
	pthread_mutex_destroy(&d->compare_lock);
	free(d);
}

static int
pmem_open(struct weft_block *b, const struct weft_block_attr *attr, uint64_t *bytes)
{
	const struct weft_persist_attr pa = {.size = sizeof(pa),
	                                     .driver = "pmem",
	                                     .path = attr->path,
	                                     .bytes = attr->bytes,
	                                     .create = attr->create,
	                                     .numa_node = attr->numa_node};
	struct pmem_disk *d;
	int r;

	if (attr->path == NULL || attr->path[0] == '\0')
		return weft_block_refuse(attr, -EINVAL, "pmem: no path");
	if (attr->read_only)
		return weft_block_refuse(attr, -ENOTSUP, "%s: pmem opens for writing only",
		                         attr->path);
	if (attr->bytes % PMEM_BLOCK != 0)
		return weft_block_refuse(attr, -EINVAL, "%s: the length is no multiple of %u",
		                         attr->path, PMEM_BLOCK);
	d = calloc(1, sizeof(*d));
	if (d == NULL)
		return -ENOMEM;
	r = weft_persist_open(&pa, &d->p);
	if (r != 0) {
		free(d);
		return r;
	}
	pthread_mutex_init(&d->compare_lock, NULL);
	b->priv = d;
	*bytes = d->p->bytes;
	b->info = (struct weft_block_info){
	        .can = WEFT_BLOCK_CAN_WRITE | WEFT_BLOCK_CAN_FUA | WEFT_BLOCK_CAN_ZEROES |
	               WEFT_BLOCK_CAN_COMPARE_WRITE | WEFT_BLOCK_CAN_MEDIUM |
	               WEFT_BLOCK_CAN_UNALIGNED,
	        .block_bytes = PMEM_BLOCK,
	        .physical_bytes = PMEM_BLOCK,
	        .optimal_bytes = 4096,
	        .max_bytes = PMEM_MAX_BYTES,
	        .max_iovs = 1024,
	        .mem_align_bytes = 1,
	        .atomic_bytes = 8, /* an aligned store */
	        .compare_write_bytes = 4096,
	        .discard_bytes = PMEM_BLOCK,
	        .max_zeroes_bytes = PMEM_MAX_BYTES,
	        .persistent = true,
	        .fencing = WEFT_BLOCK_FENCING_HOST,
	        .numa_node = d->p->numa_node,
	        .persist = d->p,
	        /* The first store to a page that a snapshot shares is a fault that copies it, which
	         * a polling core must not wait for. */
	        .no_snapshot =
	                "a mapping of persistent memory has no snapshots: its pages cannot be "
	                "shared with another file; persist = file, on XFS or btrfs, has",
	};
	snprintf(b->info.mechanism, sizeof(b->info.mechanism), "%s", d->p->mechanism);
	return 0;
}

static void
pmem_check(struct weft_block *b)
{
	struct pmem_disk *d = b->priv;

	weft_block_set_state(b, d->p->bytes, weft_persist_check(d->p));
}

static int
pmem_chan_open(struct weft_block_chan *chan)
{
	struct pmem_disk *d = chan->block->priv;
	struct pmem_chan *c = calloc(1, sizeof(*c));
	int r;

	if (c == NULL)
		return -ENOMEM;
	r = chan->waits ? weft_exec_create(0, &c->exec)
	                : weft_exec_create_on_demand(PMEM_HELPERS, &c->exec);
	if (r != 0) {
		free(c);
		return r;
	}
	c->p = d->p;
	for (unsigned int i = 0; i < PMEM_SLOTS; i++) {
		c->slot[i].c = c;
		c->slot[i].next = c->free;
		c->free = &c->slot[i];
	}
	chan->priv = c;
	return 0;
}

static void
pmem_chan_close(struct weft_block_chan *chan)
{
	struct pmem_chan *c = chan->priv;

	weft_exec_destroy(c->exec);
	free(c);
}

/* ---- Requests ---- */

static void
pmem_finish(struct pmem_slot *s, int status)
{
	struct pmem_chan *c = s->c;
	const struct weft_block_req *req = s->req;

	/* A page that was lost meanwhile is of no medium any more. */
	if (status == 0 && weft_medium_lost_at(c->p->base + req->off_bytes, req->len_bytes))
		status = -EIO;
	s->next = c->free;
	c->free = s;
	weft_block_done(s->req, status, 0);
}

static void
pmem_flushed(struct weft_persist_req *preq)
{
	pmem_finish(preq->owner, preq->status);
}

/** Copy octets to the request's memory, from its octet `at` on. */
static void
pmem_scatter(const struct weft_block_req *req, uint64_t at, const uint8_t *data, uint64_t len)
{
	for (uint32_t i = 0; i < req->iovs && len > 0; i++) {
		uint64_t has = req->iov[i].iov_len, n;

		if (at >= has) {
			at -= has;
			continue;
		}
		n = RTE_MIN(has - at, len);
		memcpy((uint8_t *)req->iov[i].iov_base + at, data, n);
		data += n;
		len -= n;
		at = 0;
	}
}

static void pmem_read_back(struct pmem_slot *s);

static void
pmem_was_read_back(struct weft_persist_req *preq)
{
	struct pmem_slot *s = preq->owner;
	struct weft_persist *p = s->c->p;
	int r = preq->status;

	if (r == 0) {
		pmem_scatter(s->req, s->done_bytes, preq->data, preq->len_bytes);
		s->done_bytes += preq->len_bytes;
	}
	if (p->ops->release != NULL)
		p->ops->release(p, preq);
	if (r != 0 || s->done_bytes == s->req->len_bytes) {
		pmem_finish(s, r);
		return;
	}
	/* The next part, in a poll: this may be a call out of the submission. */
	s->next = s->c->again;
	s->c->again = s;
}

/** Read the next part of the medium. */
static void
pmem_read_back(struct pmem_slot *s)
{
	struct weft_persist *p = s->c->p;
	int r;

	s->preq = (struct weft_persist_req){.off_bytes = s->req->off_bytes + s->done_bytes,
	                                    .len_bytes =
	                                            RTE_MIN(s->req->len_bytes - s->done_bytes,
	                                                    (uint64_t)p->ops->read_back_max_bytes),
	                                    .done = pmem_was_read_back,
	                                    .owner = s};
	r = p->ops->read_back(p, s->c->exec, &s->preq);
	if (r == -EAGAIN) {
		s->next = s->c->again;
		s->c->again = s;
	} else if (r != 0) {
		pmem_finish(s, r);
	}
}

/** Make the range of a request durable. */
static void
pmem_flush(struct pmem_slot *s)
{
	struct weft_persist *p = s->c->p;
	int r;

	weft_persist_mark(p, s->req->off_bytes, s->req->len_bytes);
	s->preq = (struct weft_persist_req){.off_bytes = s->req->off_bytes,
	                                    .len_bytes = s->req->len_bytes,
	                                    .flags = WEFT_FLUSH_PERSISTENT,
	                                    .done = pmem_flushed,
	                                    .owner = s};
	r = p->ops->flush(p, s->c->exec, &s->preq);
	if (r != 0) /* the executor has room for all slots */
		pmem_finish(s, r);
}

static void
pmem_store(const struct weft_persist *p, const struct weft_block_req *req)
{
	uint8_t *at = p->base + req->off_bytes;

	for (uint32_t i = 0; i < req->iovs; at += req->iov[i++].iov_len)
		memcpy(at, req->iov[i].iov_base, req->iov[i].iov_len);
}

/** Returns 0, or -EILSEQ with the offset of the first octet that differs. */
static int
pmem_compare_store(struct pmem_disk *d, const struct weft_block_req *req, uint64_t *differs)
{
	const uint8_t *is = d->p->base + req->off_bytes, *expect = req->expect;
	int r = 0;

	pthread_mutex_lock(&d->compare_lock);
	for (*differs = 0; *differs < req->len_bytes; ++*differs) {
		if (is[*differs] != expect[*differs]) {
			r = -EILSEQ;
			break;
		}
	}
	if (r == 0)
		pmem_store(d->p, req);
	pthread_mutex_unlock(&d->compare_lock);
	return r;
}

static int
pmem_submit(struct weft_block_chan *chan, struct weft_block_req *req)
{
	struct pmem_disk *d = chan->block->priv;
	struct pmem_chan *c = chan->priv;
	struct pmem_slot *s = c->free;
	uint64_t differs = 0;
	int r = 0;

	if (s == NULL)
		return -EAGAIN;
	c->free = s->next;
	s->req = req;
	s->done_bytes = 0;
	switch (req->op) {
	case WEFT_BLOCK_READ:
		if ((req->flags & WEFT_BLOCK_MEDIUM) != 0) {
			pmem_read_back(s);
			return 0;
		}
		pmem_scatter(req, 0, c->p->base + req->off_bytes, req->len_bytes);
		pmem_finish(s, 0);
		return 0;
	case WEFT_BLOCK_WRITE:
		pmem_store(c->p, req);
		break;
	case WEFT_BLOCK_ZEROES:
		memset(c->p->base + req->off_bytes, 0, req->len_bytes);
		break;
	case WEFT_BLOCK_COMPARE_WRITE:
		r = pmem_compare_store(d, req, &differs);
		break;
	default: /* a flush: each write is durable when it is done */
		pmem_finish(s, 0);
		return 0;
	}
	if (r != 0) {
		s->next = c->free;
		c->free = s;
		weft_block_done(req, r, differs);
		return 0;
	}
	pmem_flush(s);
	return 0;
}

static void
pmem_poll(struct weft_block_chan *chan, uint64_t now_ns)
{
	struct pmem_chan *c = chan->priv;
	struct pmem_slot *s = c->again, *next;

	RTE_SET_USED(now_ns);
	c->again = NULL;
	for (; s != NULL; s = next) {
		next = s->next;
		pmem_read_back(s);
	}
	weft_exec_poll(c->exec);
}

static int
pmem_fd(const struct weft_block_chan *chan)
{
	return weft_exec_fd(((const struct pmem_chan *)chan->priv)->exec);
}

static uint64_t
pmem_next_ns(const struct weft_block_chan *chan)
{
	return ((const struct pmem_chan *)chan->priv)->again != NULL ? 0 : UINT64_MAX;
}

static const struct weft_block_ops pmem_block_ops = {
        .name = "pmem",
        .open = pmem_open,
        .close = pmem_close,
        .check = pmem_check,
        .chan_open = pmem_chan_open,
        .chan_close = pmem_chan_close,
        .submit = pmem_submit,
        .poll = pmem_poll,
        .fd = pmem_fd,
        .next_ns = pmem_next_ns,
};

WEFT_BLOCK_REGISTER(pmem, pmem_block_ops)
