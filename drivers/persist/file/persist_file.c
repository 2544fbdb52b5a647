/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * "file": an ordinary file or block device behind populated anonymous memory.
 *
 * The content is read in at open. Whoever writes memory marks its pages dirty afterwards; a flush
 * for persistence writes the dirty pages of its range from a helper thread and makes them durable.
 * What was not flushed is gone with the process. Reading back goes to the medium, past the page
 * cache where the file system allows that.
 *
 * A page goes dirty -> (mark cleared, page written) -> unsynced -> (fdatasync) -> clean. A long
 * flush is a chain of jobs, a slice each, so that short work of others on the same helper thread
 * gets in between; one fdatasync ends it. Slices of several flushes alternate, each under the
 * flush lock, and whenever that is free every page whose mark is cleared is either on the medium
 * or written and unsynced. So a flush that finds a mark cleared by another one has nothing to wait
 * for: unsynced pages in its range make it sync by itself. When a write or a sync fails, what is
 * not known to be on the medium gets its mark back, and every flush under way fails: its own sync
 * might succeed without what the failed one has lost.
 */

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "weft_base.h"
#include "weft_medium.h"
#include "weft_persist.h"

#define FILE_RUN_MAX_BYTES (4U << 20) /* octets of one write */
#define FILE_SLICE_MAX_BYTES                                                                       \
	(8U << 20) /* octets that one job writes: some 10 ms of a slow disk                        \
	            */

/** Eight marks at once. */
typedef uint64_t __attribute__((may_alias)) file_marks;

struct file_priv {
	struct weft_medium md;
	struct weft_bounce bounce;
	pthread_mutex_t flush_lock; /**< helper threads only */
	uint8_t *unsynced; /**< under it: an octet per page, written and not known to be durable */
	uint64_t failures; /**< under it: writes and syncs that have failed */
	uint64_t pages;
};

/** What lies over weft_persist_req.drv. */
struct file_req {
	struct weft_job job;
	struct weft_persist *p;
	struct weft_persist_req *req;
	uint64_t pg;       /**< of a flush: everything before it is written */
	uint64_t end;      /**< page behind the range */
	uint64_t failures; /**< of the medium when it began */
	struct weft_exec *exec;
	bool begun;
	int buf; /**< bounce buffer of a read-back, -1: none */
};
static_assert(sizeof(struct file_req) <= sizeof(((struct weft_persist_req *)0)->drv),
              "a file request fits the room that requests have for drivers");

static inline struct file_req *
file_req_of(struct weft_persist_req *req)
{
	return (struct file_req *)req->drv;
}

static bool
file_inside(const struct weft_persist *p, const struct weft_persist_req *req)
{
	return req->off_bytes <= p->bytes && req->len_bytes <= p->bytes - req->off_bytes;
}

static void
file_read_done(struct weft_job *j)
{
	struct weft_persist_req *req = ((struct file_req *)j)->req;

	req->done(req);
}

/* ---- Flush ---- */

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

/** Write pages [first, end) whole; the last page of the mapping only as far as it is mapped. */
static int
file_write_pages(const struct weft_persist *p, uint64_t first, uint64_t end)
{
	const struct file_priv *f = p->priv;
	uint64_t off = first << WEFT_PERSIST_PAGE_SHIFT;
	uint64_t stop = RTE_MIN(end << WEFT_PERSIST_PAGE_SHIFT, p->bytes);
	uint64_t whole = (stop - off) & ~(uint64_t)(WEFT_MEDIUM_PAGE - 1);
	int r = 0;

	if (whole > 0)
		r = weft_medium_pwrite(f->md.direct_fd >= 0 ? f->md.direct_fd : f->md.fd,
		                       p->base + off, whole, off);
	if (r == 0 && off + whole < stop)
		r = weft_medium_pwrite(f->md.fd, p->base + off + whole, stop - off - whole,
		                       off + whole);
	return r;
}

/** Under the flush lock: take the marks of a run of dirty pages from `pg` on and write it. */
static int
file_flush_run(struct weft_persist *p, uint64_t *pg, uint64_t end, uint64_t max)
{
	struct file_priv *f = p->priv;
	uint64_t first = *pg, at = first;
	int r;

	/* Clear before reading the page: a write from now on marks it for the next flush. */
	while (at < end && at - first < max &&
	       __atomic_exchange_n(&p->dirty[at], 0, __ATOMIC_ACQ_REL) != 0)
		f->unsynced[at++] = 1;
	*pg = at;
	r = at > first ? file_write_pages(p, first, at) : 0;
	if (r != 0) {
		file_remark(p, first, at);
		f->failures++;
	}
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
	uint64_t left = FILE_SLICE_MAX_BYTES >> WEFT_PERSIST_PAGE_SHIFT;
	int r = 0;

	if (!fr->begun)
		fr->failures = f->failures;
	fr->begun = true;
	if (fr->failures != f->failures)
		return -EIO;
	while (r == 0 && left > 0) {
		uint64_t from = fr->pg = file_next_dirty(p->dirty, fr->pg, fr->end);

		if (from >= fr->end)
			break;
		r = file_flush_run(p, &fr->pg, fr->end,
		                   RTE_MIN(left, FILE_RUN_MAX_BYTES >> WEFT_PERSIST_PAGE_SHIFT));
		left -= fr->pg - from;
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

	pthread_mutex_lock(&f->flush_lock);
	fr->req->status = file_flush_slice(fr);
	pthread_mutex_unlock(&f->flush_lock);
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

static int
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

/* ---- Read-back ---- */

static void
file_read_run(struct weft_job *j)
{
	struct file_req *fr = (struct file_req *)j;
	struct file_priv *f = fr->p->priv;
	struct weft_persist_req *req = fr->req;

	req->status = weft_bounce_read(&f->bounce, fr->buf, &f->md, req->off_bytes, req->len_bytes,
	                               &req->data);
	if (req->status != 0)
		req->data = NULL;
}

static void
file_release(struct weft_persist *p, struct weft_persist_req *req)
{
	struct file_priv *f = p->priv;
	struct file_req *fr = file_req_of(req);

	if (fr->buf >= 0)
		weft_bounce_put(&f->bounce, fr->buf);
	fr->buf = -1;
	req->data = NULL;
}

static int
file_read_back(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req)
{
	struct file_priv *f = p->priv;
	struct file_req *fr = file_req_of(req);
	int r;

	fr->buf = -1;
	req->data = NULL;
	if (!file_inside(p, req) || req->len_bytes > WEFT_BOUNCE_MAX_BYTES || exec == NULL)
		return -EINVAL;
	fr->job.run = file_read_run;
	fr->job.done = file_read_done;
	fr->p = p;
	fr->req = req;
	r = weft_bounce_get(&f->bounce);
	if (r < 0)
		return r;
	fr->buf = r;
	r = weft_exec_submit(exec, &fr->job);
	if (r != 0)
		file_release(p, req);
	return r;
}

/* ---- Open and close ---- */

static void
file_free(struct weft_persist *p)
{
	struct file_priv *f = p->priv;

	weft_numa_free(p->base, p->bytes);
	free(p->dirty);
	weft_bounce_fini(&f->bounce);
	weft_medium_close(&f->md);
	pthread_mutex_destroy(&f->flush_lock);
	free(f);
}

/** Read the content in, past the page cache where possible: it would only hold it twice. */
static int
file_load(const struct weft_persist *p)
{
	const struct file_priv *f = p->priv;
	uint64_t whole = f->md.direct_fd < 0 ? 0 : p->bytes & ~(uint64_t)(WEFT_MEDIUM_PAGE - 1);
	int r = weft_medium_pread(f->md.direct_fd, p->base, whole, 0);

	return r != 0 ? r : weft_medium_pread(f->md.fd, p->base + whole, p->bytes - whole, whole);
}

static int
file_open(struct weft_persist *p, const struct weft_persist_attr *attr)
{
	struct file_priv *f = calloc(1, sizeof(*f));
	int r;

	if (f == NULL)
		return -ENOMEM;
	pthread_mutex_init(&f->flush_lock, NULL);
	p->priv = f;
	r = weft_medium_open(attr, &f->md);
	if (r == 0 && f->md.char_dev)
		r = -ENOTSUP;
	if (r != 0)
		goto fail;
	p->bytes = f->md.bytes;
	f->pages = RTE_ALIGN_CEIL(p->bytes, (uint64_t)WEFT_MEDIUM_PAGE) >> WEFT_PERSIST_PAGE_SHIFT;
	r = weft_numa_alloc(p->bytes, attr->numa_node, &p->base, &p->numa_node);
	if (r != 0)
		goto fail;
	/* The marks, and behind them this driver's own; word-aligned for the scan. */
	r = posix_memalign((void **)&p->dirty, RTE_CACHE_LINE_SIZE, 2 * f->pages) != 0 ? -ENOMEM
	                                                                               : 0;
	if (r != 0) {
		p->dirty = NULL;
		goto fail;
	}
	f->unsynced = p->dirty + f->pages;
	memset(p->dirty, 0, 2 * f->pages); /* present, too: a placement must not fault on it */
	r = weft_bounce_init(&f->bounce);
	if (r == 0)
		r = file_load(p);
	if (r != 0)
		goto fail;
	snprintf(p->mechanism, sizeof(p->mechanism), "%s to %s%s",
	         f->md.direct_fd >= 0 ? "direct I/O" : "buffered I/O and fdatasync",
	         f->md.block_dev ? "a block device" : "an ordinary file",
	         f->md.tmpfs ? " on tmpfs, which is memory" : "");
	return 0;
fail:
	weft_medium_undo(attr, &f->md);
	file_free(p);
	return r;
}

static const struct weft_persist_ops file_ops = {
        .name = "file",
        .persistent = true,
        .open = file_open,
        .close = file_free,
        .flush = file_flush,
        .read_back = file_read_back,
        .release = file_release,
        .read_back_max_bytes = WEFT_BOUNCE_MAX_BYTES,
};

WEFT_PERSIST_REGISTER(file, file_ops)
