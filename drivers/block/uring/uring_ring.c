/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The ring of a channel: reads and writes by io_uring, submitted and reaped by the worker.
 *
 * The kernel starts what it can without waiting, and gives the rest to threads of its own, so that
 * a submission does not block. It takes processor time, a few microseconds for each request, so a
 * poll hands over so much only. The memory that the device was told of is registered: the kernel
 * does not look its pages up again.
 *
 * What is left of a short transfer goes to a helper thread.
 */

#include <stdlib.h>

#include <liburing.h>

#include "uring_priv.h"

/**
 * Most requests that one poll hands over, and most results that it takes: some 50 us of the polling
 * core. A device may give many results at once, when it has nothing more to do. Their answers go
 * out, and new requests come in and reach the device, while the later ones are still taken.
 */
#define URING_BURST       6
#define URING_SQES        32 /**< also for what cancels requests */
#define URING_BURST_BYTES (1U << 20)
#define URING_REG_BYTES   (1ULL << 30) /**< the kernel's limit of one registered buffer */
#define URING_REG_MAX     64
/** Most requests of a worker that wait in the kernel, of all devices. */
#define URING_WAITING 4096

struct uring_ring {
	struct io_uring ring;
	struct uring_disk *disk;
	uint32_t gathered; /**< since the last poll */
	uint64_t gathered_bytes;
	struct iovec reg[URING_REG_MAX]; /**< registered, by index */
	unsigned int nreg;
	/** requests whose rest no helper thread had room for, by weft_job.next */
	struct weft_job *rest;
};

int
uring_ring_probe(void)
{
	struct io_uring_probe *probe;
	struct io_uring ring;
	int r = io_uring_queue_init(2, &ring, 0);

	if (r != 0)
		return r;
	probe = io_uring_get_probe_ring(&ring);
	if (probe == NULL || !io_uring_opcode_supported(probe, IORING_OP_WRITE_FIXED) ||
	    !io_uring_opcode_supported(probe, IORING_OP_READ))
		r = -ENOSYS;
	io_uring_free_probe(probe);
	io_uring_queue_exit(&ring);
	return r;
}

/** Register the device's memory, cut where the kernel wants it. */
static bool
uring_register(struct uring_ring *r)
{
	const struct uring_disk *d = r->disk;

	for (unsigned int i = 0; i < d->nmem; i++) {
		uint8_t *base = d->mem[i].iov_base;
		uint64_t left = d->mem[i].iov_len;

		while (left > 0) {
			uint64_t n = RTE_MIN(left, URING_REG_BYTES);

			if (r->nreg == URING_REG_MAX)
				break;
			r->reg[r->nreg++] = (struct iovec){base, n};
			base += n;
			left -= n;
		}
	}
	if (r->nreg > 0 && io_uring_register_buffers(&r->ring, r->reg, r->nreg) != 0)
		r->nreg = 0;
	return r->nreg > 0;
}

/** The worker polls: no interrupt has to tell it of each result (the cooperative flags). */
static int
uring_ring_init(struct uring_ring *r, uint32_t depth, unsigned int flags)
{
	/* The kernel keeps results beyond the queue, but then takes a call to give them. */
	struct io_uring_params p = {.flags = IORING_SETUP_CQSIZE | flags,
	                            .cq_entries = 2 * (depth + URING_SQES)};

	return io_uring_queue_init_params(URING_SQES, &r->ring, &p);
}

/**
 * A request that the kernel cannot do without waiting has a thread of the kernel's, of those that
 * all rings of a worker share. By default there are a few for each core, and a device that hangs
 * would have all of them: the requests of other devices would wait for it. They are made when they
 * are needed. A kernel before 5.15 keeps its number.
 */
static void
uring_let_wait(struct uring_ring *r)
{
	unsigned int most[2] = {URING_WAITING, 0}; /* of files and block devices; 0: as it is */

	(void)io_uring_register_iowq_max_workers(&r->ring, most);
}

int
uring_ring_open(struct uring_chan *c, uint32_t depth, struct uring_ring **out, bool *registered)
{
	struct uring_ring *r = calloc(1, sizeof(*r));
	int e;

	if (r == NULL)
		return -ENOMEM;
	r->disk = c->disk;
	e = uring_ring_init(r, depth, IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG);
	if (e == -EINVAL) /* a kernel before 5.19 */
		e = uring_ring_init(r, depth, 0);
	if (e != 0) {
		free(r);
		return e;
	}
	uring_let_wait(r);
	*registered = uring_register(r);
	*out = r;
	return 0;
}

void
uring_ring_close(struct uring_ring *r)
{
	if (r == NULL)
		return;
	io_uring_queue_exit(&r->ring);
	free(r);
}

int
uring_ring_fd(const struct uring_ring *r)
{
	return r->ring.ring_fd;
}

/** The registered buffer that holds all of a segment; -1: none. */
static int
uring_registered(const struct uring_ring *r, const struct iovec *v)
{
	for (unsigned int i = 0; i < r->nreg; i++) {
		uintptr_t off = (uintptr_t)v->iov_base - (uintptr_t)r->reg[i].iov_base;

		if (off < r->reg[i].iov_len && v->iov_len <= r->reg[i].iov_len - off)
			return (int)i;
	}
	return -1;
}

int
uring_ring_add(struct uring_ring *r, struct weft_block_req *req)
{
	const bool read = req->op == WEFT_BLOCK_READ;
	const struct iovec *v = req->iov;
	const int fd = r->disk->md.fd;
	struct io_uring_sqe *sqe;
	int reg;

	if (r->gathered == URING_BURST ||
	    (r->gathered > 0 && r->gathered_bytes + req->len_bytes > URING_BURST_BYTES))
		return -EAGAIN;
	sqe = io_uring_get_sqe(&r->ring);
	if (sqe == NULL)
		return -EAGAIN;
	r->gathered++;
	r->gathered_bytes += req->len_bytes;
	reg = req->iovs == 1 ? uring_registered(r, v) : -1;
	if (reg >= 0 && read)
		io_uring_prep_read_fixed(sqe, fd, v->iov_base, (unsigned int)v->iov_len,
		                         req->off_bytes, reg);
	else if (reg >= 0)
		io_uring_prep_write_fixed(sqe, fd, v->iov_base, (unsigned int)v->iov_len,
		                          req->off_bytes, reg);
	else if (read)
		io_uring_prep_readv(sqe, fd, v, req->iovs, req->off_bytes);
	else
		io_uring_prep_writev(sqe, fd, v, req->iovs, req->off_bytes);
	if ((req->flags & WEFT_BLOCK_FUA) != 0)
		sqe->rw_flags = RWF_DSYNC;
	io_uring_sqe_set_data(sqe, req);
	return 0;
}

bool
uring_ring_has_more(const struct uring_ring *r)
{
	return io_uring_sq_ready(&r->ring) > 0 || io_uring_cq_ready(&r->ring) > 0 ||
	       r->rest != NULL;
}

void
uring_ring_cancel(struct uring_ring *r, struct weft_block_req *req)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&r->ring);

	/* Without room it is not canceled, which is allowed. */
	if (sqe == NULL)
		return;
	io_uring_prep_cancel(sqe, req, 0);
	io_uring_sqe_set_data(sqe, NULL);
}

/** Give the rest of a request to a helper thread, now or in a later poll. */
static void
uring_ring_rest(struct uring_chan *c, struct weft_block_req *req)
{
	struct uring_ring *r = c->ring;

	if (uring_help(c, req) == 0)
		return;
	uring_req_of(req)->job.next = r->rest;
	r->rest = &uring_req_of(req)->job;
}

static void
uring_ring_retry(struct uring_chan *c)
{
	struct weft_job *j = c->ring->rest, *next;

	c->ring->rest = NULL;
	for (; j != NULL; j = next) {
		next = j->next;
		uring_ring_rest(c, (void *)((uint8_t *)j - offsetof(struct weft_block_req, drv)));
	}
}

static void
uring_ring_result(struct uring_chan *c, struct weft_block_req *req, int res)
{
	struct uring_req *ur = uring_req_of(req);

	if (res < 0 && res != -EAGAIN && res != -EINTR) {
		weft_block_done(req, res, 0);
		return;
	}
	ur->done_bytes = res < 0 ? 0 : (uint64_t)res;
	if (ur->done_bytes == req->len_bytes && (req->flags & WEFT_BLOCK_FUA) == 0) {
		weft_block_done(req, 0, req->len_bytes);
		return;
	}
	/* A helper thread does the rest. Of a write that is durable it looks at the file. */
	if (ur->done_bytes < req->len_bytes)
		ur->done_bytes &= ~(uint64_t)(c->disk->block_bytes - 1);
	uring_ring_rest(c, req);
}

/** Whether the kernel has results that only a call brings into the queue. */
static bool
uring_ring_holds(const struct uring_ring *r)
{
	return (IO_URING_READ_ONCE(*r->ring.sq.kflags) &
	        (IORING_SQ_CQ_OVERFLOW | IORING_SQ_TASKRUN)) != 0;
}

void
uring_ring_poll(struct uring_chan *c)
{
	struct uring_ring *r = c->ring;
	struct io_uring_cqe *cqe;
	unsigned int head, n = 0, taken = 0;

	if (unlikely(r->rest != NULL))
		uring_ring_retry(c);
	/* -EAGAIN and -EBUSY: the kernel has no memory or no room for results now. */
	if (io_uring_sq_ready(&r->ring) > 0)
		(void)io_uring_submit(&r->ring);
	else if (uring_ring_holds(r))
		(void)io_uring_get_events(&r->ring);
	r->gathered = 0;
	r->gathered_bytes = 0;
	io_uring_for_each_cqe(&r->ring, head, cqe)
	{
		struct weft_block_req *req = io_uring_cqe_get_data(cqe);

		/* What a cancellation says is taken with the result behind or before it. */
		if (req != NULL && taken == URING_BURST)
			break;
		n++;
		if (req == NULL)
			continue;
		taken++;
		uring_ring_result(c, req, cqe->res);
	}
	io_uring_cq_advance(&r->ring, n);
}
