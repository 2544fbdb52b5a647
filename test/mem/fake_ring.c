/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A simulated io_uring. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <liburing.h>

#include "fake_ring.h"
#include "weft_test.h"

#define DEPTH 256

struct fake_ring fake_ring;

struct mem {
	unsigned int sq_head, cq_head, cq_tail, flags;
	struct io_uring_sqe sqe[DEPTH];
	struct io_uring_cqe cqe[DEPTH];
	/* submitted writes that complete only when the caller waits */
	struct io_uring_cqe held[DEPTH];
	unsigned int nheld;
};

static struct mem *
mem_of(const struct io_uring *ring)
{
	return ring->sq.ring_ptr;
}

int
io_uring_queue_init(unsigned int entries, struct io_uring *ring, unsigned int flags)
{
	struct mem *m;

	CHECK_EQ(flags, 0);
	CHECK(entries <= DEPTH);
	if (fake_ring.refuse != 0)
		return -fake_ring.refuse;
	m = calloc(1, sizeof(*m));
	CHECK(m != NULL);
	memset(ring, 0, sizeof(*ring));
	ring->sq.ring_ptr = m;
	ring->sq.khead = &m->sq_head;
	ring->sq.kflags = &m->flags;
	ring->sq.sqes = m->sqe;
	ring->sq.ring_entries = entries;
	ring->sq.ring_mask = DEPTH - 1;
	ring->cq.khead = &m->cq_head;
	ring->cq.ktail = &m->cq_tail;
	ring->cq.cqes = m->cqe;
	ring->cq.ring_entries = DEPTH;
	ring->cq.ring_mask = DEPTH - 1;
	ring->features = IORING_FEAT_EXT_ARG;
	fake_ring.rings++;
	return 0;
}

void
io_uring_queue_exit(struct io_uring *ring)
{
	free(mem_of(ring));
	fake_ring.rings--;
}

struct io_uring_probe *
io_uring_get_probe_ring(struct io_uring *ring)
{
	struct io_uring_probe *p = calloc(1, sizeof(*p) + 64 * sizeof(p->ops[0]));

	(void)ring;
	CHECK(p != NULL);
	p->last_op = IORING_OP_WRITE;
	p->ops[IORING_OP_WRITE].flags = fake_ring.no_write ? 0 : IO_URING_OP_SUPPORTED;
	return p;
}

void
io_uring_free_probe(struct io_uring_probe *probe)
{
	free(probe);
}

static int
do_write(const struct io_uring_sqe *sqe)
{
	size_t len = sqe->len;
	int again = fake_ring.again;
	ssize_t n;

	CHECK_EQ(sqe->opcode, IORING_OP_WRITE);
	CHECK_EQ(sqe->flags, 0);
	fake_ring.writes++;
	fake_ring.again = 0;
	if (again != 0)
		return again;
	if (fake_ring.cut > 0 && --fake_ring.cut == 0)
		len /= 2;
	n = pwrite(sqe->fd, (const void *)(uintptr_t)sqe->addr, len, (off_t)sqe->off);
	return n < 0 ? -errno : (int)n;
}

static void
complete(struct mem *m, const struct io_uring_cqe *cqe)
{
	m->cqe[m->cq_tail & (DEPTH - 1)] = *cqe;
	__atomic_store_n(&m->cq_tail, m->cq_tail + 1, __ATOMIC_RELEASE);
}

int
io_uring_submit_and_wait(struct io_uring *ring, unsigned int wait_nr)
{
	struct mem *m = mem_of(ring);
	unsigned int n = ring->sq.sqe_tail - m->sq_head, take = n;
	struct io_uring_sqe *sqe[DEPTH];

	fake_ring.submits++;
	if (fake_ring.submit_errno != 0)
		take = fake_ring.take < n ? fake_ring.take : n;
	else
		CHECK(wait_nr <= n + m->nheld); /* otherwise the wait would never end */
	for (unsigned int i = 0; i < take; i++)
		sqe[i] = &m->sqe[(m->sq_head + i) & (DEPTH - 1)];
	for (unsigned int i = take; fake_ring.seed != 0 && i > 1; i--) {
		struct io_uring_sqe *t = sqe[i - 1];
		unsigned int k;

		fake_ring.seed = fake_ring.seed * 6364136223846793005ULL + 1442695040888963407ULL;
		k = (unsigned int)((fake_ring.seed >> 33) % i);
		sqe[i - 1] = sqe[k];
		sqe[k] = t;
	}
	for (unsigned int i = 0; i < take; i++) {
		struct io_uring_cqe cqe = {.user_data = sqe[i]->user_data};

		cqe.res = do_write(sqe[i]);
		/* A part of the batch is refused. Half of the accepted writes complete later. */
		if (fake_ring.submit_errno != 0 && i % 2 == 0)
			memcpy(&m->held[m->nheld++], &cqe, sizeof(cqe));
		else
			complete(m, &cqe);
	}
	while (fake_ring.submit_errno == 0 && m->nheld > 0)
		complete(m, &m->held[--m->nheld]);
	m->sq_head += take;
	ring->sq.sqe_head = m->sq_head;
	if (fake_ring.submit_errno != 0) {
		int r = -fake_ring.submit_errno;

		fake_ring.submit_errno = 0;
		return r;
	}
	return (int)take;
}

/* Called by io_uring_wait_cqe(). */
int
__io_uring_get_cqe(struct io_uring *ring, struct io_uring_cqe **cqe, unsigned int submit,
                   unsigned int wait_nr, sigset_t *sigmask)
{
	struct mem *m = mem_of(ring);
	int r = -fake_ring.wait_errno;

	CHECK_EQ(submit, 0);
	CHECK_EQ(wait_nr, 1);
	CHECK(sigmask == NULL);
	fake_ring.wait_errno = 0;
	if (r != 0)
		return r;
	CHECK(m->nheld > 0);
	complete(m, &m->held[--m->nheld]);
	*cqe = &m->cqe[m->cq_head & (DEPTH - 1)];
	return 0;
}
