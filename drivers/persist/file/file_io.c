/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Writing pages to the medium: several writes at once by io_uring, or one after the other.
 *
 * The helper thread that holds the flush lock submits a batch to the medium's ring and sleeps, in
 * one call, until the whole batch has completed. So the ring needs no lock of its own, and no
 * completion is left for another thread. The polling thread does not submit: that would take it 10
 * us for a page and hundreds for scattered pages; instead it posts a semaphore. A single write uses
 * pwrite(), which is the same for the device and saves the ring's overhead.
 *
 * fdatasync() is a call after the batch rather than a link in it. The kernel gives it to a thread
 * of its own either way, and only after the batch can a short write be completed before it.
 */

#include <stdlib.h>

#include <liburing.h>

#include "file_priv.h"

WEFT_LOG_DECLARE(medium);

struct file_io {
	int fd;        /**< buffered */
	int direct_fd; /**< -1: none */
	bool uring;
	bool lost; /**< the ring has writes under way whose completion cannot be awaited */
	struct io_uring ring;
};

/** Octets of a run in whole pages, from *off on. */
static uint64_t
file_whole(const struct weft_persist *p, const struct file_run *run, uint64_t *off)
{
	uint64_t stop = RTE_MIN(run->end << WEFT_PERSIST_PAGE_SHIFT, p->bytes);

	*off = run->first << WEFT_PERSIST_PAGE_SHIFT;
	return (stop - *off) & ~(uint64_t)(WEFT_MEDIUM_PAGE - 1);
}

/** Write the run from its octet `done` on, one call after the other. */
static int
file_write_rest(const struct file_io *io, const struct weft_persist *p, const struct file_run *run,
                uint64_t done)
{
	int fd = io->direct_fd >= 0 ? io->direct_fd : io->fd;
	uint64_t off, whole = file_whole(p, run, &off);
	uint64_t stop = RTE_MIN(run->end << WEFT_PERSIST_PAGE_SHIFT, p->bytes);
	int r = 0;

	if (done < whole)
		r = weft_medium_pwrite(fd, p->base + off + done, whole - done, off + done);
	/* O_DIRECT cannot write a part of a page. */
	if (r == 0 && off + whole < stop)
		r = weft_medium_pwrite(io->fd, p->base + off + whole, stop - off - whole,
		                       off + whole);
	return r;
}

/* ---- io_uring ---- */

static void
file_ring_open(struct file_io *io)
{
	struct io_uring_probe *probe;

	if (io_uring_queue_init(FILE_BATCH, &io->ring, 0) != 0)
		return;
	probe = io_uring_get_probe_ring(&io->ring);
	io->uring = probe != NULL && io_uring_opcode_supported(probe, IORING_OP_WRITE);
	io_uring_free_probe(probe);
	if (!io->uring)
		io_uring_queue_exit(&io->ring);
}

/** Take a completion's result for its run; the rest of a short write is written at once. */
static void
file_ring_result(const struct file_io *io, const struct weft_persist *p, struct file_run *run,
                 int res)
{
	if (res == -EAGAIN || res == -EINTR)
		run->status = file_write_rest(io, p, run, 0);
	else if (res <= 0)
		run->status = res == 0 ? -EIO : res;
	else
		run->status = file_write_rest(io, p, run,
		                              (uint64_t)res & ~(uint64_t)(WEFT_MEDIUM_PAGE - 1));
}

/** Take completions and return their number. A run's result is in its status until all are in. */
static unsigned int
file_ring_reap(struct file_io *io, struct file_run *run, bool *in)
{
	struct io_uring_cqe *cqe;
	unsigned int head, n = 0;

	io_uring_for_each_cqe(&io->ring, head, cqe)
	{
		run[cqe->user_data].status = cqe->res;
		in[cqe->user_data] = true;
		n++;
	}
	io_uring_cq_advance(&io->ring, n);
	return n;
}

/**
 * The kernel accepts no more: wait for the writes under way, and stop using the ring. If even the
 * wait fails, an old write may come at any time and undo a newer one, so no later Flush succeeds.
 */
static void
file_ring_give_up(struct file_io *io, struct file_run *run, bool *in, unsigned int under_way, int r)
{
	unsigned int left = io_uring_sq_ready(&io->ring);
	struct io_uring_cqe *cqe;

	WEFT_LOG(medium, WARNING, "io_uring: %s; writing without it", strerror(-r));
	under_way -= RTE_MIN(left, under_way);
	while (under_way > 0) {
		r = io_uring_wait_cqe(&io->ring, &cqe);
		if (r != 0 && r != -EINTR) {
			WEFT_LOG(medium, ERR,
			         "io_uring: writes are lost: %s; no flush succeeds now",
			         strerror(-r));
			io->lost = true;
			return;
		}
		under_way -= RTE_MIN(file_ring_reap(io, run, in), under_way);
	}
	io_uring_queue_exit(&io->ring);
	io->uring = false;
}

/** Write runs by the ring. A run whose flag stays false was not written and is not under way. */
static void
file_ring_write(struct file_io *io, const struct weft_persist *p, struct file_run *run,
                unsigned int n, bool *in)
{
	unsigned int under_way = 0;

	for (unsigned int i = 0; i < n; i++) {
		uint64_t off, whole = file_whole(p, &run[i], &off);
		struct io_uring_sqe *sqe;

		in[i] = false;
		if (whole == 0)
			continue;
		sqe = io_uring_get_sqe(&io->ring); /* as many as a batch has */
		io_uring_prep_write(sqe, io->direct_fd, p->base + off, (unsigned int)whole, off);
		io_uring_sqe_set_data64(sqe, i);
		under_way++;
	}
	while (under_way > 0) {
		int r = io_uring_submit_and_wait(&io->ring, under_way);

		under_way -= RTE_MIN(file_ring_reap(io, run, in), under_way);
		if (r < 0 && r != -EINTR && under_way > 0) {
			file_ring_give_up(io, run, in, under_way, r);
			return;
		}
	}
}

/* ---- Both ---- */

void
file_io_write(struct file_io *io, const struct weft_persist *p, struct file_run *run,
              unsigned int n)
{
	bool in[FILE_BATCH] = {false};

	if (io->uring && !io->lost && n > 1)
		file_ring_write(io, p, run, n, in);
	for (unsigned int i = 0; i < n; i++) {
		if (io->lost)
			run[i].status = -EIO;
		else if (in[i])
			file_ring_result(io, p, &run[i], run[i].status);
		else
			run[i].status = file_write_rest(io, p, &run[i], 0);
	}
}

bool
file_io_is_uring(const struct file_io *io)
{
	return io->uring;
}

int
file_io_open(const char *how, const struct weft_medium *md, struct file_io **out)
{
	struct file_io *io = calloc(1, sizeof(*io));

	if (io == NULL)
		return -ENOMEM;
	io->fd = md->fd;
	io->direct_fd = md->direct_fd;
	/* A write into the page cache is a copy, and parallel copies gain nothing. */
	if (md->direct_fd >= 0 && strcmp(how, "pwrite") != 0)
		file_ring_open(io);
	if (!io->uring && strcmp(how, "uring") == 0) {
		file_io_close(io);
		return -ENOTSUP;
	}
	*out = io;
	return 0;
}

void
file_io_close(struct file_io *io)
{
	if (io == NULL)
		return;
	if (io->uring)
		io_uring_queue_exit(&io->ring);
	free(io);
}
