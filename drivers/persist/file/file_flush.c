/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Which pages a Flush writes, and when they are durable.
 *
 * A writer of memory marks its pages dirty after it has written. A page goes dirty -> (mark
 * cleared, page written) -> unsynced -> (fdatasync) -> clean. A long Flush is a chain of jobs of
 * one slice each, so that other requests' short jobs on the same helper thread run in between; one
 * fdatasync ends the chain. Slices of several Flushes alternate, each under the flush lock. No
 * write is under way while the lock is free, so then every page whose mark is cleared is on the
 * medium, or written and unsynced. So a Flush that finds a mark cleared by another Flush need not
 * wait: unsynced pages in its range make it call fdatasync itself. Placement into a page that is
 * being written sets the page's mark again, whatever part of the page has reached the medium.
 *
 * A file that was truncated or removed while it is open still accepts writes, and a sync of it
 * succeeds. But the content of earlier Flushes is lost, and a write behind the file's end makes it
 * long enough again. So every job checks the file before it writes and after it has synced
 * (weft_medium_check()). From then on no Flush behind the shortest end of the file succeeds, and no
 * Flush at all after another process has written to the file. Where the kernel does not report such
 * a write, a Flush of the first 8 KiB also checks the first page (file_seal.c); there an export has
 * the word that commits the rest.
 *
 * When a write or a sync fails, every page that is not known to be on the medium gets its mark
 * back, and every Flush under way fails: its own sync could succeed without the data that the
 * failed one has lost.
 */

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "file_priv.h"
#include <weft/atomic_ref.h>

WEFT_LOG_DECLARE(medium);

/** Eight marks, read at once. */
typedef uint64_t __attribute__((may_alias)) file_marks;

static inline bool
file_is_clean(const uint8_t *dirty, uint64_t pg)
{
	return atomic_load_explicit(WEFT_ATOMIC_REF(dirty[pg]), memory_order_relaxed) == 0;
}

/** Whether eight pages are clean; pg is a multiple of 8. */
static inline bool
file_are_clean(const uint8_t *dirty, uint64_t pg)
{
	const file_marks *eight = (const void *)&dirty[pg];

	return atomic_load_explicit(WEFT_ATOMIC_REF(*eight), memory_order_relaxed) == 0;
}

/** The next dirty page in [pg, end); end when there is none. */
static uint64_t
file_next_dirty(const uint8_t *dirty, uint64_t pg, uint64_t end)
{
	while (pg < end && file_is_clean(dirty, pg)) {
		/* Eight pages at a time; a mark that is set meanwhile belongs to a later Flush. */
		while ((pg & 7) == 0 && pg + 8 <= end && file_are_clean(dirty, pg))
			pg += 8;
		if (pg < end && file_is_clean(dirty, pg))
			pg++;
	}
	return pg;
}

/** Set the marks of a run again, because its octets are not known to be on the medium. */
static void
file_remark(struct weft_persist *p, uint64_t first, uint64_t end)
{
	for (uint64_t pg = first; pg < end; pg++)
		atomic_store_explicit(WEFT_ATOMIC_REF(p->dirty[pg]), 1, memory_order_release);
}

/** Clear the marks of dirty runs from *pg on, at most *left pages. Returns the number of runs;
 * *pg is then behind the last. */
static unsigned int
file_take(struct weft_persist *p, uint64_t *pg, uint64_t end, uint64_t *left, struct file_run *run)
{
	struct file_priv *f = p->priv;
	unsigned int n = 0;

	while (*left > 0 && n < FILE_BATCH) {
		uint64_t max = RTE_MIN(*left, FILE_RUN_MAX_BYTES >> WEFT_PERSIST_PAGE_SHIFT);
		uint64_t first = file_next_dirty(p->dirty, *pg, end), at = first;

		/* Clear before reading the page: a write from now on marks it for the next flush.
		 */
		while (at < end && at - first < max &&
		       atomic_exchange_explicit(WEFT_ATOMIC_REF(p->dirty[at]), 0,
		                                memory_order_acq_rel) != 0)
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

/** Under the flush lock: make all earlier writes durable. Records the pages [first, end) as
 * synced. */
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
	/* The kernel reports a failure only once, whatever pages it concerns. */
	for (uint64_t pg = 0; pg < f->pages; pg++)
		if (f->unsynced[pg] != 0)
			file_remark(p, pg, pg + 1);
	f->failures++;
	return r;
}

/** Under the flush lock: one slice. fr->pg is the end of the range when the Flush is over. */
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
	/* With buffered I/O the sync does the writing, so each slice has its own. */
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
	/* The peer learns that the Flush failed, but not why. */
	if (fr->req->status < 0)
		WEFT_LOG_PEER(medium, ERR,
		              "a flush of %" PRIu64 " octets at %" PRIu64 " failed: %s",
		              fr->req->len_bytes, fr->req->off_bytes, strerror(-fr->req->status));
}

/** On the worker: submit the next slice, behind the requests that came meanwhile. */
static void
file_flush_done(struct weft_job *j)
{
	struct file_req *fr = (struct file_req *)j;
	struct weft_persist_req *req = fr->req;

	if (req->status == 0 && fr->pg < fr->end) {
		/* The executor has just freed this request's place; it refuses only when it
		 * ends. */
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
		/* Memory is coherent here, so ordering makes the data visible. */
		atomic_thread_fence(memory_order_seq_cst);
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
