/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Requests by librbd. Writes are submitted without a copy: the slot stays as it is until the
 * completion. With the cache off, a write that is complete is durable on all copies.
 *
 * Completions come by callback, on threads of librbd. Its other way, an eventfd of the image, never
 * tells of a compare-and-write (librbd 1.16).
 */

#include <errno.h>

#include <weft/block.h>

#include "ceph.h"

static bool
ceph_changes(const struct serve_req *r)
{
	return r->op != WEFT_BLOCK_READ && r->op != WEFT_BLOCK_FLUSH && r->op != WEFT_BLOCK_EXTENTS;
}

/** End a request with what librbd says. */
static void
ceph_end(struct serve_req *r)
{
	const int64_t result = r->result;
	int status = result < 0 ? (int)result : 0;
	uint64_t done = 0;

	if (r->op == WEFT_BLOCK_READ && result >= 0 && (uint64_t)result != r->len_bytes)
		status = -EIO; /* the image ends there now */
	if (r->op == WEFT_BLOCK_COMPARE_WRITE && status == -EILSEQ)
		done = r->at % ceph.unit_bytes; /* it counts from the object's beginning */
	if (done >= r->len_bytes)
		done = 0;
	/* Blocklisted; or another client has the lock, without having blocklisted this one. */
	if (status == -ESHUTDOWN || (status == -EROFS && ceph_changes(r) && !ceph.read_only)) {
		serve_tell(0, -ESHUTDOWN);
		status = -EIO;
	}
	/* These two would say that nothing was changed. */
	if (status == -ECANCELED || status == -ENODEV)
		status = -EIO;
	serve_done(r, status, done,
	           r->op == WEFT_BLOCK_EXTENTS && status == 0 ? (uint32_t)result : 0);
}

static void
ceph_on_done(rbd_completion_t comp, void *arg)
{
	struct serve_req *r = arg;

	r->result = rbd_aio_get_return_value(comp);
	rbd_aio_release(comp);
	ceph_ended(r);
}

void
ceph_submit(struct serve_req *r)
{
	rbd_completion_t comp;
	int e;

	if (r->op == WEFT_BLOCK_EXTENTS || r->op == WEFT_BLOCK_SNAPSHOT) {
		ceph_task_add(r->op == WEFT_BLOCK_EXTENTS ? &ceph_extents : &ceph_snaps, r);
		return;
	}
	e = rbd_aio_create_completion(r, ceph_on_done, &comp);
	if (e < 0) {
		r->result = e;
		ceph_end(r);
		return;
	}
	switch (r->op) {
	case WEFT_BLOCK_READ:
		e = rbd_aio_readv(ceph.image, r->iov, r->iovs, r->off_bytes, comp);
		break;
	case WEFT_BLOCK_WRITE:
		e = rbd_aio_writev(ceph.image, r->iov, r->iovs, r->off_bytes, comp);
		break;
	case WEFT_BLOCK_FLUSH:
		e = rbd_aio_flush(ceph.image, comp);
		break;
	case WEFT_BLOCK_DISCARD:
		e = rbd_aio_discard(ceph.image, r->off_bytes, r->len_bytes, comp);
		break;
	case WEFT_BLOCK_ZEROES:
		e = rbd_aio_write_zeroes(ceph.image, r->off_bytes, r->len_bytes, comp,
		                         (r->flags & WEFT_BLOCK_KEEP) != 0
		                                 ? RBD_WRITE_ZEROES_FLAG_THICK_PROVISION
		                                 : 0,
		                         0);
		break;
	case WEFT_BLOCK_COMPARE_WRITE:
		e = (int)rbd_aio_compare_and_write(ceph.image, r->off_bytes, r->len_bytes,
		                                   r->expect, r->iov[0].iov_base, comp, &r->at, 0);
		break;
	default:
		e = -EOPNOTSUPP;
		break;
	}
	if (e < 0) { /* then there is no callback */
		rbd_aio_release(comp);
		r->result = e;
		ceph_end(r);
	}
}

void
ceph_poll(void)
{
	struct serve_req *r, *next;

	for (r = ceph_ended_take(); r != NULL; r = next) {
		next = r->next;
		ceph_end(r);
	}
}
