/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Which pages a flush writes, and when they are durable.
 *
 * Whoever writes memory marks its pages dirty afterwards. A page goes dirty -> (mark cleared, page
 * written) -> unsynced -> (fdatasync) -> clean. A long flush is a chain of jobs, a slice each, so
 * that short work of others on the same helper thread gets in between; one fdatasync ends it.
 * Slices of several flushes alternate, each under the flush lock, and whenever that is free every
 * page whose mark is cleared is either on the medium or written and unsynced: no write is under way
 * then. So a flush that finds a mark cleared by another one has nothing to wait for: unsynced pages
 * in its range make it sync by itself. A page that is placed into while it is being written has its
 * mark set again by that, whatever of it has got to the medium.
 *
 * A file that was cut, or removed, while it is open takes writes all the same, and a sync of it
 * succeeds. What earlier flushes had put there is gone, and a write behind its end makes it long
 * enough again. So every job looks at the file before it writes and after it has synced
 * (weft_medium_check()), and no flush of what was behind
 * its shortest end succeeds from then on, nor any when somebody else wrote to it. Where the kernel
 * does not tell of that, a flush of the first 8 KiB, where exports have the word that commits the
 * rest, looks at the first page as well (file_seal.c).
 *
 * When a write or a sync fails, what is not known to be on the medium gets its mark back, and every
 * flush under way fails: its own sync might succeed without what the failed one has lost.
 */

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "file_priv.h"

WEFT_LOG_DECLARE(medium);

/** Eight marks at once. */
typedef uint64_t __attribute__((may_alias)) file_marks;

/** The next dirty page in [pg, end); end when there is none. */
static uint64_t
file_next_dirty(const uint8_t *dirty, uint64_t pg, uint64_t end)
{
	while (pg < end && __atomic_load_n(&dirty[pg], __ATOMIC_RELAXED) == 0) {
		/* Eight pages a look; a mark set meanwhile belongs to a later flush. */
		while ((pg & 7) == 0 && pg + 8 <= end &&
		       __atomic_load_n((const file_marks *)(const void *)&dirty[pg],
		                       __ATOMIC_RELAXED) == 0)
			pg += 8;
		if (pg < end && __atomic_load_n(&dirty[pg], __ATOMIC_RELAXED) == 0)
			pg++;
	}
	return pg;
}

/** Put the marks of a run back: its octets are not known to be on the medium. */
static void
file_remark(struct weft_persist *p, uint64_t first, uint64_t end)
{
	for (uint64_t pg = first; pg < end; pg++)
		__atomic_store_n(&p->dirty[pg], 1, __ATOMIC_RELEASE);
}

/** Take the marks of dirty runs from *pg on, at most *left pages. How many runs; *pg is behind
 * them. */
static unsigned int
file_take(struct weft_persist *p, uint64_t *pg, uint64_t end, uint64_t *left, struct file_run *run)
{
	struct file_priv *f = p->priv;
	unsigned int n = 0;

	while (n<FILE_BATCH && * left> 0) {
		uint64_t max = RTE_MIN(*left, FILE_RUN_MAX_BYTES >> WEFT_PERSIST_PAGE_SHIFT);
		uint64_t first = file_next_dirty(p->dirty, *pg, end), at = first;

		/* Clear before reading the page: a write from now on marks it for the next flush.
		 */
		while (at < end && at - first < max &&
		       __atomic_exchange_n(&p->dirty[at], 0, __ATOMIC_ACQ_REL) != 0)
			f->unsynced[at++] = 1;
		*pg = at;
		if (at == first)
			break;
		f->sealed &= first > 0;
		*left -= at - first;
		run[n++] = (struct file_run){.first = first, .end = at};
	}
	return n;
}

/** Write runs whose marks are taken. */
static int
file_write_runs(struct weft_persist *p, struct file_run *run, unsigned int n)
{
	struct file_priv *f = p->priv;
	int r = 0;

	file_io_write(f->io, p, run, n);
	for (unsigned int i = 0; i < n; i++) {
		if (run[i].status == 0)
			continue;
		file_remark(p, run[i].first, run[i].end);
		if (r == 0)
			r = run[i].status;
	}
	if (r != 0)
		f->failures++;
	return r;
}

/** Under the flush lock: everything written so far becomes durable, of which [first, end) is noted.
 */
static int
file_sync(struct weft_persist *p, uint64_t first, uint64_t end)
{
	struct file_priv *f = p->priv;
	int r;

	if (memchr(f->unsynced + first, 1, end - first) == NULL)
		return 0;
	if (fdatasync(f->md.fd) == 0) {
		memset(f->unsynced + first, 0, end - first);
		return 0;
	}
	r = -errno;
	/* The kernel says so once and then forgets, whoever's pages they were. */
	for (uint64_t pg = 0; pg < f->pages; pg++)
		if (f->unsynced[pg] != 0)
			file_remark(p, pg, pg + 1);
	f->failures++;
	return r;
}

/** Under the flush lock. One slice; fr->pg is the end when the flush is over. */
static int
file_flush_slice(struct file_req *fr)
{
	struct weft_persist *p = fr->p;
	struct file_priv *f = p->priv;
	const uint64_t first = fr->req->off_bytes >> WEFT_PERSIST_PAGE_SHIFT;
	struct file_run run[FILE_BATCH];
	uint64_t left = FILE_SLICE_MAX_BYTES >> WEFT_PERSIST_PAGE_SHIFT;
	int r = 0;

	if (!fr->begun)
		fr->failures = f->failures;
	fr->begun = true;
	if (fr->failures != f->failures)
		return -EIO;
	while (r == 0 && left > 0 && fr->pg < fr->end) {
		unsigned int n = file_take(p, &fr->pg, fr->end, &left, run);

		if (n == 0)
			break;
		r = file_write_runs(p, run, n);
	}
	/* Buffered, the writing is in the sync: a slice of it, too. */
	if (r == 0 && (fr->pg >= fr->end || f->md.direct_fd < 0))
		r = file_sync(p, first, RTE_MIN(fr->pg, fr->end));
	return r;
}

static void
file_flush_job(struct weft_job *j)
{
	struct file_req *fr = (struct file_req *)j;
	struct file_priv *f = fr->p->priv;
	const uint64_t end = fr->req->off_bytes + fr->req->len_bytes;

	weft_line_lock(&f->flush_lock);
	fr->req->status = weft_medium_check(&f->md, end);
	if (fr->req->status == 0)
		fr->req->status = file_flush_slice(fr);
	if (fr->req->status == 0)
		fr->req->status = weft_medium_check(&f->md, end);
	if (fr->req->status == 0 && f->md.tell_fd < 0 && fr->pg >= fr->end &&
	    fr->req->off_bytes < FILE_SEAL_NEAR_BYTES)
		fr->req->status = file_seal_look(f);
	weft_line_unlock(&f->flush_lock);
	/* A peer is told that it failed, and not why. */
	if (fr->req->status < 0)
		WEFT_LOG_PEER(medium, ERR,
		              "a flush of %" PRIu64 " octets at %" PRIu64 " failed: %s",
		              fr->req->len_bytes, fr->req->off_bytes, strerror(-fr->req->status));
}

/** On the worker: behind what others have submitted meanwhile, the next slice. */
static void
file_flush_done(struct weft_job *j)
{
	struct file_req *fr = (struct file_req *)j;
	struct weft_persist_req *req = fr->req;

	if (req->status == 0 && fr->pg < fr->end) {
		/* Its place in the executor has just become free: only one that ends refuses. */
		if (weft_exec_submit(fr->exec, &fr->job) == 0)
			return;
		req->status = -ECANCELED;
	}
	req->done(req);
}

int
file_flush(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req)
{
	struct file_req *fr = file_req_of(req);

	fr->buf = -1;
	if (!file_inside(p, req))
		return -EINVAL;
	if (!(req->flags & WEFT_FLUSH_PERSISTENT) || req->len_bytes == 0) {
		/* Memory is coherent here: in order is visible. */
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		req->status = 0;
		req->done(req);
		return 0;
	}
	if (exec == NULL)
		return -EINVAL;
	fr->job.run = file_flush_job;
	fr->job.done = file_flush_done;
	fr->p = p;
	fr->req = req;
	fr->exec = exec;
	fr->begun = false;
	fr->pg = req->off_bytes >> WEFT_PERSIST_PAGE_SHIFT;
	fr->end = ((req->off_bytes + req->len_bytes - 1) >> WEFT_PERSIST_PAGE_SHIFT) + 1;
	return weft_exec_submit(exec, &fr->job);
}
