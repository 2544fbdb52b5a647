/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file "pmem": a file mapped by libpmem, in one of two modes, which the mechanism names.
 *
 * On DAX the mapping is the medium. A Flush is pmem_persist(), CPU work that is done at once when
 * it is short and on a helper thread when it is long. A read-back first flushes the lines with an
 * instruction that also evicts them, so that the loads that follow read the medium.
 *
 * Without DAX the mapping is the page cache. pmem_persist() would write CPU caches back to ordinary
 * memory, and make nothing durable. There a Flush is pmem_msync() and a read-back is O_DIRECT, both
 * on a helper thread. The kernel write-protects the pages that it writes, so the next store to each
 * page faults into the file system on the polling core: 2 us, but 60 to 250 us where the page cache
 * has pages of 2 MiB. This mode is used only when it is asked for by name; "auto" chooses "file"
 * instead.
 *
 * In both modes a long Flush is a chain of jobs, so that other requests' short jobs on the same
 * helper thread run in between.
 */

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include <pthread.h>

#include <libpmem.h>

#include "weft_base.h"
#include <weft/atomic_ref.h>
#include <weft/guard.h>
#include "weft_line_lock.h"
#include "weft_medium_file.h"
#include <weft/persist.h>

WEFT_LOG_DECLARE(medium);

/* a few us; rdmap may begin one Flush of this length beyond its slice */
#define PMEM_INLINE_BYTES    (32U << 10)
#define PMEM_PIECE_BYTES     (128U << 10) /* a piece of pmem_write_out() */
#define PMEM_STEP_BYTES      (2U << 20)   /* what one job writes out, and one page table maps */
#define PMEM_DAX_STEP_BYTES  (8U << 20)   /* what one job writes back */
#define PMEM_READ_BACK_BYTES (256U << 10)
#define PMEM_EVICT_BYTES     (32U << 10) /* a read-back on DAX by the polling core */

#define PMEM_WRITE_AND_WAIT                                                                        \
	(SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER)

struct pmem_priv {
	struct weft_medium md;
	struct weft_bounce bounce; /**< without DAX */
	size_t mapped_bytes;
	bool dax;
	/* without DAX: one msync at a time, so that a failure is known before the next one
	 * succeeds */
	struct weft_line_lock sync_lock;
	bool doubt; /**< the kernel may treat pages as clean that never reached the medium */
};

/** This driver's part of a request, stored in weft_persist_req.drv. */
struct pmem_req {
	struct weft_job job;
	struct weft_persist *p;
	struct weft_persist_req *req;
	struct weft_exec *exec; /**< Flush: the executor of its jobs */
	uint64_t at;            /**< Flush: the octets before this offset need no further job */
	int buf;                /**< bounce buffer of a read-back, -1: none */
};
static_assert(sizeof(struct pmem_req) <= sizeof(((struct weft_persist_req *)0)->drv),
              "a pmem request fits the room that requests have for drivers");

static inline struct pmem_req *
pmem_req_of(struct weft_persist_req *req)
{
	return (struct pmem_req *)req->drv;
}

static bool
pmem_inside(const struct weft_persist *p, const struct weft_persist_req *req)
{
	return req->off_bytes <= p->bytes && req->len_bytes <= p->bytes - req->off_bytes;
}

/** Result of a Flush or read-back: the CPU may have written to a page that is no longer the
 * medium's. */
static int
pmem_status(const struct weft_persist *p, const struct weft_persist_req *req)
{
	return weft_guard_lost(p->base + req->off_bytes, req->len_bytes) ? -EIO : 0;
}

/** On a polling core: do not check the file, but use what earlier checks have found. */
static int
pmem_known(const struct weft_persist *p, const struct weft_persist_req *req)
{
	const struct pmem_priv *f = p->priv;

	return weft_medium_known_lost(&f->md, req->off_bytes + req->len_bytes)
	               ? -EIO
	               : pmem_status(p, req);
}

static int
pmem_complete(struct weft_persist_req *req, int status)
{
	req->status = status;
	req->done(req);
	return 0;
}

/* ---- Flush ---- */

static inline uint64_t
pmem_end(const struct weft_persist_req *req)
{
	return req->off_bytes + req->len_bytes;
}

/*
 * Without DAX: a long range is written out before msync, in pieces whose end is awaited. A polling
 * core can pay for two effects of one long msync. First, the kernel ends a write, however long, in
 * an interrupt on some core: 1 GiB by one msync made polls of 5 ms. Second, it write-protects page
 * after page, each with an interrupt to all cores of this process. Pages that are unmapped first go
 * by whole page tables of 512. A job does one table.
 */
static int
pmem_write_out(struct pmem_req *pr)
{
	const struct pmem_priv *f = pr->p->priv;
	const uint64_t all = pmem_end(pr->req),
	               end = RTE_MIN(all,
	                             RTE_ALIGN_FLOOR(pr->at, PMEM_STEP_BYTES) + PMEM_STEP_BYTES),
	               first = RTE_ALIGN_FLOOR(pr->at, WEFT_MEDIUM_PAGE),
	               last = RTE_ALIGN_CEIL(end, WEFT_MEDIUM_PAGE);
	int r = 0;

	/* A shared mapping loses nothing: the next access maps the page again. */
	(void)madvise(pr->p->base + first, last - first, MADV_DONTNEED);
	for (uint64_t next; pr->at < end; pr->at = next) {
		next = RTE_MIN(end, RTE_ALIGN_FLOOR(pr->at, PMEM_PIECE_BYTES) + PMEM_PIECE_BYTES);
		if (sync_file_range(f->md.fd, (off_t)pr->at, (off_t)(next - pr->at),
		                    PMEM_WRITE_AND_WAIT) == 0)
			continue;
		/* Where the kernel refuses, msync does all of it. */
		r = errno == EIO || errno == ENOSPC || errno == EDQUOT ? -errno : 0;
		next = all;
	}
	/* Map the pages again, so that loads do not fault either. Older kernels lack this
	 * advice. */
	(void)madvise(pr->p->base + first, last - first, MADV_POPULATE_READ);
	return r;
}

/*
 * After a failure. Linux leaves pages clean that it could not write, and reports that once for each
 * open file, whichever pages they were. So the next msync, of whatever range, would succeed.
 * Therefore all pages of the mapping are dirtied again, by stores that change nothing and lose no
 * store of a peer, and written. What both open files still report then dates from before, and is
 * ignored.
 */
static int
pmem_renew(const struct weft_persist *p, struct pmem_priv *f)
{
	struct stat st;

	if (likely(!f->doubt))
		return 0;
	(void)sync_file_range(f->md.fd, 0, 1, PMEM_WRITE_AND_WAIT);
	(void)pmem_msync(p->base, 1);
	if (fstat(f->md.fd, &st) != 0)
		return -errno;
	for (uint64_t at = 0; at < RTE_MIN(p->bytes, (uint64_t)st.st_size); at += WEFT_MEDIUM_PAGE)
		atomic_fetch_or_explicit(weft_atomic_u64(p->base + at), 0, memory_order_relaxed);
	if (pmem_msync(p->base, p->bytes) != 0)
		return errno != 0 ? -errno : -EIO;
	f->doubt = false;
	return 0;
}

/**
 * Without DAX: end a Flush; r is the result of its writing out, 0 or -errno. A failure of another
 * Flush between its jobs is visible here as `doubt`.
 */
static int
pmem_sync(const struct weft_persist *p, const struct weft_persist_req *req, int r)
{
	struct pmem_priv *f = p->priv;

	weft_line_lock(&f->sync_lock);
	if (r == 0)
		r = pmem_renew(p, f);
	if (r == 0 && pmem_msync(p->base + req->off_bytes, req->len_bytes) != 0)
		r = errno != 0 ? -errno : -EIO;
	f->doubt |= r != 0;
	weft_line_unlock(&f->sync_lock);
	return r;
}

/** msync calls it success when pages behind the end of a truncated file are not written. */
static int
pmem_sync_whole(const struct weft_persist *p, const struct weft_persist_req *req, int r)
{
	struct pmem_priv *f = p->priv;

	r = pmem_sync(p, req, r);
	if (r == 0)
		r = weft_medium_check(&f->md, pmem_end(req));
	return r != 0 ? r : pmem_status(p, req);
}

static void
pmem_sync_run(struct weft_job *j)
{
	struct pmem_req *pr = (struct pmem_req *)j;
	struct weft_persist_req *req = pr->req;
	int r = 0;

	if (req->len_bytes > PMEM_PIECE_BYTES)
		r = pmem_write_out(pr);
	else
		pr->at = pmem_end(req);
	/* A failure sets `doubt` at once, because other Flushes may end before done() is called. */
	if (r != 0 || pr->at >= pmem_end(req))
		r = pmem_sync_whole(pr->p, req, r);
	req->status = r;
	/* The peer learns that the Flush failed, but not why. */
	if (r < 0)
		WEFT_LOG_PEER(medium, ERR,
		              "a flush of %" PRIu64 " octets at %" PRIu64 " failed: %s",
		              req->len_bytes, req->off_bytes, strerror(-r));
}

/** On DAX. Each job has its own fence, because the next job may run on another CPU and fence
 * only that. */
static void
pmem_persist_run(struct weft_job *j)
{
	struct pmem_req *pr = (struct pmem_req *)j;
	struct pmem_priv *f = pr->p->priv;
	struct weft_persist_req *req = pr->req;
	const uint64_t len = RTE_MIN(pmem_end(req) - pr->at, (uint64_t)PMEM_DAX_STEP_BYTES);

	/* other CPUs' lines are written back too: clwb is coherent */
	pmem_persist(pr->p->base + pr->at, len);
	pr->at += len;
	req->status = weft_medium_check(&f->md, pmem_end(req));
	if (req->status == 0)
		req->status = pmem_status(pr->p, req);
}

/** On the worker: submit a Flush's next job, behind the requests that came meanwhile. */
static void
pmem_flush_done(struct weft_job *j)
{
	struct pmem_req *pr = (struct pmem_req *)j;
	struct weft_persist_req *req = pr->req;

	if (req->status == 0 && pr->at < pmem_end(req)) {
		/* The executor has just freed this request's place; it refuses only when it
		 * ends. */
		if (weft_exec_submit(pr->exec, &pr->job) == 0)
			return;
		req->status = -ECANCELED;
	}
	req->done(req);
}

static int
pmem_flush_op(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req)
{
	const struct pmem_priv *f = p->priv;
	struct pmem_req *pr = pmem_req_of(req);

	pr->buf = -1;
	if (!pmem_inside(p, req))
		return -EINVAL;
	if (!(req->flags & WEFT_FLUSH_PERSISTENT) || req->len_bytes == 0) {
		atomic_thread_fence(memory_order_seq_cst);
		return pmem_complete(req, pmem_status(p, req));
	}
	if (req->len_bytes <= p->flush_now_max_bytes) {
		pmem_persist(p->base + req->off_bytes, req->len_bytes);
		return pmem_complete(req, pmem_known(p, req));
	}
	if (exec == NULL)
		return -EINVAL;
	pr->job.run = f->dax ? pmem_persist_run : pmem_sync_run;
	pr->job.done = pmem_flush_done;
	pr->p = p;
	pr->req = req;
	pr->exec = exec;
	pr->at = req->off_bytes;
	return weft_exec_submit(exec, &pr->job);
}

/* ---- Read-back ---- */

#if defined(__x86_64__)
static bool pmem_has_clflushopt;

static void __attribute__((constructor)) pmem_probe_cpu(void)
{
	unsigned int a, b, c, d;

	pmem_has_clflushopt = __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_CLFLUSHOPT) != 0;
}

static void __attribute__((target("clflushopt"))) pmem_evict_opt(uint8_t *p, const uint8_t *end)
{
	for (; p < end; p += 64)
		_mm_clflushopt(p);
}

/** Write back and evict the lines of a range; pmem_flush() may keep them in the cache (clwb). */
static void
pmem_evict(uint8_t *at, uint64_t len_bytes)
{
	uint8_t *p = at - ((uintptr_t)at & 63);

	_mm_mfence();
	if (pmem_has_clflushopt) {
		pmem_evict_opt(p, at + len_bytes);
	} else {
		for (; p < at + len_bytes; p += 64)
			_mm_clflush(p);
	}
	_mm_mfence(); /* no load of the range before its lines are gone */
}
#define PMEM_CAN_EVICT 1
#else
static void
pmem_evict(uint8_t *at, uint64_t len_bytes)
{
	RTE_SET_USED(at);
	RTE_SET_USED(len_bytes);
}
#define PMEM_CAN_EVICT 0
#endif

static void
pmem_read_run(struct weft_job *j)
{
	struct pmem_req *pr = (struct pmem_req *)j;
	struct pmem_priv *f = pr->p->priv;
	struct weft_persist_req *req = pr->req;

	req->status = weft_bounce_read(&f->bounce, pr->buf, &f->md, req->off_bytes, req->len_bytes,
	                               &req->data);
	if (req->status == 0)
		req->status = weft_medium_check(&f->md, pmem_end(req));
	if (req->status != 0)
		req->data = NULL;
}

static void
pmem_read_done(struct weft_job *j)
{
	struct weft_persist_req *req = ((struct pmem_req *)j)->req;

	req->done(req);
}

static void
pmem_release(struct weft_persist *p, struct weft_persist_req *req)
{
	struct pmem_priv *f = p->priv;
	struct pmem_req *pr = pmem_req_of(req);

	if (pr->buf >= 0)
		weft_bounce_put(&f->bounce, pr->buf);
	pr->buf = -1;
	req->data = NULL;
}

static int
pmem_read_back(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req)
{
	struct pmem_priv *f = p->priv;
	struct pmem_req *pr = pmem_req_of(req);
	int r;

	pr->buf = -1;
	req->data = NULL;
	if (!pmem_inside(p, req) || req->len_bytes > PMEM_READ_BACK_BYTES)
		return -EINVAL;
	if (f->dax) {
		req->len_bytes = RTE_MIN(req->len_bytes, (uint64_t)PMEM_EVICT_BYTES);
		pmem_evict(p->base + req->off_bytes, req->len_bytes);
		req->data = p->base + req->off_bytes;
		return pmem_complete(req, pmem_known(p, req));
	}
	if (exec == NULL)
		return -EINVAL;
	r = weft_bounce_get(&f->bounce);
	if (r < 0)
		return r;
	pr->job.run = pmem_read_run;
	pr->job.done = pmem_read_done;
	pr->p = p;
	pr->req = req;
	pr->buf = r;
	r = weft_exec_submit(exec, &pr->job);
	if (r != 0)
		pmem_release(p, req);
	return r;
}

/* ---- Open and close ---- */

static void
pmem_close(struct weft_persist *p)
{
	struct pmem_priv *f = p->priv;

	if (p->base != NULL)
		pmem_unmap(p->base, f->mapped_bytes);
	weft_bounce_fini(&f->bounce);
	weft_medium_close(&f->md);
	weft_line_lock_fini(&f->sync_lock);
	free(f);
}

static int
pmem_map(struct weft_persist *p, const struct weft_persist_attr *attr)
{
	struct pmem_priv *f = p->priv;
	int is_pmem = 0;

	/* Without PMEM_FILE_CREATE, which would truncate a longer file. weft_medium_open() has
	 * set the size. */
	p->base = pmem_map_file(attr->path, 0, 0, 0, &f->mapped_bytes, &is_pmem);
	if (p->base == NULL)
		return errno == ENOMEM ? -ENOMEM : -ENOTSUP;
	f->dax = is_pmem != 0 && PMEM_CAN_EVICT;
	p->flush_now_max_bytes = f->dax ? PMEM_INLINE_BYTES : 0;
	p->bytes = f->md.bytes != 0 ? f->md.bytes : f->mapped_bytes;
	if (p->bytes > f->mapped_bytes)
		return -EINVAL;
	if (!f->dax && (f->md.char_dev || strcmp(attr->driver, "auto") == 0))
		return -ENOTSUP;
	/* Mapped pages stay cached, so without O_DIRECT a Verify could not read the medium. */
	if (!f->dax && f->md.direct_fd < 0 && !f->md.tmpfs)
		return -ENOTSUP;
	return 0;
}

static int
pmem_open(struct weft_persist *p, const struct weft_persist_attr *attr)
{
	struct pmem_priv *f = calloc(1, sizeof(*f));
	int r;

	if (f == NULL)
		return -ENOMEM;
	p->priv = f;
	weft_line_lock_init(&f->sync_lock);
	r = weft_medium_open(attr, &f->md);
	if (r == 0 && f->md.block_dev)
		r = -ENOTSUP; /* libpmem maps files and device DAX */
	if (r == 0) {
		weft_medium_watch(&f->md, false);
		r = pmem_map(p, attr);
	}
	if (r == 0)
		r = weft_numa_populate(p->base, p->bytes);
	if (r == 0 && !f->dax)
		r = weft_bounce_init(&f->bounce);
	if (r != 0) {
		weft_medium_undo(attr, &f->md);
		pmem_close(p);
		return r;
	}
	/* The medium's node is fixed; the node asked for cannot change it. */
	p->numa_node = weft_numa_node_of(p->base, p->bytes);
	snprintf(p->mechanism, sizeof(p->mechanism), "%s",
	         f->dax ? "libpmem on DAX" : "libpmem msync to a file that is not on DAX");
	return 0;
}

static int
pmem_check(struct weft_persist *p)
{
	struct pmem_priv *f = p->priv;

	return weft_medium_check(&f->md, p->bytes);
}

static const struct weft_persist_ops pmem_ops = {
        .name = "pmem",
        .persistent = true,
        .mapped = true,
        .open = pmem_open,
        .close = pmem_close,
        .flush = pmem_flush_op,
        .read_back = pmem_read_back,
        .release = pmem_release,
        .check = pmem_check,
        .read_back_max_bytes = PMEM_READ_BACK_BYTES,
};

WEFT_PERSIST_REGISTER(pmem, pmem_ops)
