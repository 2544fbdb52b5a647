/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The pmem driver in both of its modes. libpmem decides once per process which memory is
 * persistent. So the DAX mode runs in a child of this program with PMEM_IS_PMEM_FORCE=1.
 */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <libpmem.h>
#include <rte_common.h>

#include "medium_test.h"
#include <weft/guard.h>
#include "weft_test.h"

#define PG 4096

static const uint32_t P = WEFT_FLUSH_PERSISTENT;
static bool forced; /**< this process is the child */

static bool refuse_direct; /**< O_DIRECT fails, as on some file systems */

int
open(const char *path, int flags, ...)
{
	va_list ap;
	int mode;

	va_start(ap, flags);
	mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, int) : 0;
	va_end(ap);
	if (refuse_direct && flags & __O_DIRECT) {
		errno = EINVAL;
		return -1;
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

/** An open that fails late undoes its work: the medium is unchanged. */
static void
test_failed_open(void)
{
	const struct weft_persist_ops *ops = weft_persist_find("pmem");
	struct weft_persist_attr a = {.size = sizeof(a),
	                              .driver = "auto", /* by this name only DAX is accepted */
	                              .path = scratch_path("late"),
	                              .bytes = 64 * PG,
	                              .create = true,
	                              .numa_node = -1};
	struct weft_persist p = {.ops = ops};

	if (forced)
		test_skip("only where the mapping is the page cache");
	CHECK_EQ(ops->open(&p, &a), -ENOTSUP);
	CHECK_EQ(file_bytes(a.path), UINT64_MAX);
	put_file(a.path, 3 * PG, 'x');
	memset(&p, 0, sizeof(p));
	CHECK_EQ(ops->open(&p, &a), -ENOTSUP);
	CHECK_EQ(file_bytes(a.path), 3 * PG);
}

/** Mapped pages stay cached, so without O_DIRECT the medium cannot be read. */
static void
test_no_read_back(void)
{
	const char *path = scratch_path("nodirect");
	struct weft_persist *p;

	refuse_direct = true;
	if (forced) { /* DAX does not need O_DIRECT */
		p = must_open("pmem", path, 64 * PG, true);
		weft_persist_close(p);
	} else {
		CHECK_EQ(try_open("pmem", path, 64 * PG, true), -ENOTSUP);
		CHECK_EQ(file_bytes(path), UINT64_MAX);
		CHECK_EQ(try_open("file", path, 64 * PG, true), 0);
	}
	refuse_direct = false;
}

static void
test_modes(void)
{
	const char *path = scratch_path("modes");
	struct weft_persist *p = must_open("pmem", path, 64 * PG, true);

	CHECK_STR(p->mechanism,
	          forced ? "libpmem on DAX" : "libpmem msync to a file that is not on DAX");
	CHECK(p->ops->persistent);
	CHECK_EQ(p->bytes, 64 * PG);
	CHECK_EQ(file_bytes(path), 64 * PG);
	CHECK_EQ(try_open("pmem", path, 0, false), -EBUSY);
	CHECK_EQ(try_open("file", path, 0, false), -EBUSY);
	weft_persist_close(p);
	p = must_open("auto", path, 0, false);
	CHECK_STR(p->ops->name, forced ? "pmem" : "file");
	weft_persist_close(p);
}

static void
test_flush(void)
{
	const char *path = scratch_path("flush");
	struct weft_persist *p = must_open("pmem", path, 4 << 20, true);
	static uint8_t got[4 << 20];
	struct weft_exec *e;

	CHECK_EQ(weft_exec_create(1, &e), 0);
	for (uint64_t i = 0; i < p->bytes; i += 8)
		memcpy(p->base + i, &i, 8);
	CHECK_EQ(flush(p, e, 5, 64, P), 0);
	CHECK_EQ(flush(p, e, 1 << 20, 1 << 20, P), 0);
	CHECK_EQ(flush(p, e, (1 << 20) - 7, (1 << 20) + 1, P), 0); /* longer than one turn */
	CHECK_EQ(flush(p, e, 0, p->bytes, P), 0);
	CHECK_EQ(flush(p, e, 0, p->bytes, WEFT_FLUSH_VISIBLE), 0);
	CHECK_EQ(flush(p, e, 0, 0, P), 0);
	CHECK_EQ(flush(p, e, 1, p->bytes, P), -EINVAL);
	CHECK_EQ(flush(p, e, UINT64_MAX, 2, P), -EINVAL);
	CHECK_EQ(weft_persist_flush_wait(p, 0, p->bytes), 0);
	CHECK_EQ(get_file(path, got, p->bytes, 0), 0);
	CHECK_MEM(got, p->base, p->bytes);
	weft_persist_close(p);
	p = must_open("pmem", path, 0, false);
	CHECK_MEM(got, p->base, p->bytes);
	weft_persist_close(p);
	weft_exec_destroy(e);
}

/* ---- Calls to the kernel, not on DAX ---- */

static struct {
	uint64_t longest, sum; /**< of the pieces written out */
	unsigned int syncs;    /**< msyncs; sum_then: octets written out before the last of them */
	uint64_t sum_then;
	uintptr_t low, high;    /**< range of all madvise(MADV_DONTNEED) */
	int refuse;             /**< errno of a piece; 0: none */
	unsigned int refuse_at; /**< number of that piece */
	/** number of the msync that fails and leaves its pages clean, as Linux does */
	unsigned int lose;
	uint64_t last_len;   /**< of the last msync, without those of single octets */
	uint64_t most_dirty; /**< most dirty octets of `watched` at any msync */
	unsigned int pieces;
} calls;

static const uint8_t *watched; /**< a mapping whose dirty pages are counted at each msync */

/** The dirty octets of the mapping that begins at base, as the kernel counts them. */
static uint64_t
dirty_bytes(const uint8_t *base)
{
	char line[256], head[32];
	uint64_t sum = 0, kib;
	bool mine = false;
	FILE *f = fopen("/proc/self/smaps", "r");

	CHECK(f != NULL);
	snprintf(head, sizeof(head), "%lx-", (unsigned long)(uintptr_t)base);
	while (fgets(line, sizeof(line), f) != NULL) {
		if (strchr(line, '-') != NULL && strchr(line, ':') != NULL &&
		    strstr(line, " rw") != NULL)
			mine = strncmp(line, head, strlen(head)) == 0;
		else if (mine && (sscanf(line, "Shared_Dirty: %lu", &kib) == 1 ||
		                  sscanf(line, "Private_Dirty: %lu", &kib) == 1))
			sum += kib << 10;
	}
	fclose(f);
	return sum;
}

int
sync_file_range(int fd, off_t off, off_t len, unsigned int flags)
{
	CHECK_EQ(flags,
	         SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
	if (++calls.pieces == calls.refuse_at && calls.refuse != 0) {
		errno = calls.refuse;
		return -1;
	}
	calls.longest = RTE_MAX(calls.longest, (uint64_t)len);
	calls.sum += (uint64_t)len;
	return (int)syscall(SYS_sync_file_range, fd, off, len, flags);
}

int
msync(void *at, size_t len, int flags)
{
	calls.syncs++;
	calls.sum_then = calls.sum;
	if (watched != NULL) {
		calls.most_dirty = RTE_MAX(calls.most_dirty, dirty_bytes(watched));
		if (len > PG)
			calls.last_len = len;
	}
	if (syscall(SYS_msync, at, len, flags) != 0)
		return -1;
	if (calls.syncs == calls.lose) {
		errno = EIO;
		return -1;
	}
	return 0;
}

int
madvise(void *at, size_t len, int advice)
{
	if (advice == MADV_DONTNEED) {
		calls.low = RTE_MIN(calls.low, (uintptr_t)at);
		calls.high = RTE_MAX(calls.high, (uintptr_t)at + len);
	}
	return (int)syscall(SYS_madvise, at, len, advice);
}

static void
ask_from_now(int refuse)
{
	memset(&calls, 0, sizeof(calls));
	calls.low = UINTPTR_MAX;
	calls.refuse = refuse;
	calls.refuse_at = 3;
}

static struct {
	struct weft_persist *p;
	bool stop;
} store;

/** Change words of all pages again and again, as a peer might. */
static void *
store_main(void *arg)
{
	for (uint64_t i = 0; !__atomic_load_n(&store.stop, __ATOMIC_RELAXED); i++) {
		void *at = store.p->base + i * (PG + 8) % store.p->bytes;

		__atomic_fetch_add((uint64_t *)at, i, __ATOMIC_RELAXED);
	}
	return arg;
}

/**
 * A long range is written out in pieces before the msync, so that each call of the polling thread
 * into the kernel is short. Stores in the meantime are not lost.
 */
static void
test_pieces(void)
{
	const uint64_t off = (1 << 20) + 5, len = (5 << 20) + 3000, most = 128 << 10;
	const char *path = scratch_path("pieces");
	static uint8_t got[8 << 20];
	struct weft_persist *p;
	struct weft_exec *e;
	pthread_t t;

	if (forced)
		test_skip("only where the mapping is the page cache");
	p = must_open("pmem", path, 8 << 20, true);
	CHECK_EQ(weft_exec_create(1, &e), 0);
	memset(p->base, 0x11, p->bytes);
	ask_from_now(0);
	CHECK_EQ(flush(p, e, off, len, P), 0);
	CHECK_EQ(calls.longest, most);
	CHECK_EQ(calls.sum, len);
	CHECK_EQ(calls.syncs, 1);
	CHECK_EQ(calls.sum_then, len);
	CHECK_EQ(calls.low, (uintptr_t)p->base + (1 << 20));
	CHECK_EQ(calls.high, (uintptr_t)p->base + RTE_ALIGN_CEIL(off + len, (uint64_t)PG));
	/* a short range is not split */
	ask_from_now(0);
	CHECK_EQ(flush(p, e, off, most, P), 0);
	CHECK_EQ(calls.pieces + calls.high, 0);
	CHECK_EQ(calls.syncs, 1);
	/* if the kernel refuses a piece, msync does the work; if the medium fails, the flush
	 * fails */
	ask_from_now(EPERM);
	CHECK_EQ(flush(p, e, off, len, P), 0);
	CHECK_EQ(calls.syncs, 1);
	ask_from_now(EIO);
	CHECK_EQ(flush(p, e, off, len, P), -EIO);
	CHECK_EQ(calls.syncs, 0);
	/* with stores at the same time */
	ask_from_now(0);
	store.p = p;
	store.stop = false;
	CHECK_EQ(pthread_create(&t, NULL, store_main, NULL), 0);
	for (unsigned int i = 0; i < 8; i++)
		CHECK_EQ(flush(p, e, 0, p->bytes, P), 0);
	__atomic_store_n(&store.stop, true, __ATOMIC_RELAXED);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK_EQ(flush(p, e, 0, p->bytes, P), 0);
	memcpy(got, p->base, p->bytes);
	for (uint64_t at = 0; at < p->bytes; at += p->ops->read_back_max_bytes)
		CHECK_EQ(read_back(p, e, at, p->ops->read_back_max_bytes, got + at), 0);
	CHECK_MEM(got, p->base, p->bytes);
	weft_exec_destroy(e);
	weft_persist_close(p);
}

/**
 * After a failure the whole medium is written again before a Flush succeeds. The kernel keeps pages
 * that it could not write as clean, and does not report them again.
 */
static void
test_anew(void)
{
	const char *path = scratch_path("anew");
	struct weft_persist *p;
	struct weft_exec *e;

	if (forced)
		test_skip("only where the mapping is the page cache");
	p = must_open("pmem", path, 4 << 20, true);
	CHECK_EQ(weft_exec_create(1, &e), 0);
	watched = p->base;
	for (unsigned int i = 0; i < 3; i++) {
		memset(p->base, (int)i + 1, p->bytes);
		CHECK_EQ(flush(p, e, 0, p->bytes, P), 0);
		ask_from_now(0);
		if (i == 2)
			calls.refuse = EIO; /* a piece of a long range */
		else
			calls.lose = 1;
		CHECK_EQ(flush(p, e, 0, i == 2 ? p->bytes : 2 * PG, P), -EIO);
		/* The medium still fails: no Flush succeeds. */
		ask_from_now(0);
		calls.lose = 2; /* the result of the first is not used */
		CHECK_EQ(flush(p, e, 64 * PG, PG, P), -EIO);
		ask_from_now(0);
		CHECK_EQ(flush(p, e, 64 * PG, PG, P), 0);
		CHECK_EQ(calls.syncs, 3);
		CHECK_EQ(calls.last_len, p->bytes);
		CHECK(calls.most_dirty >= p->bytes);
		/* only once */
		ask_from_now(0);
		CHECK_EQ(flush(p, e, 0, 2 * PG, P), 0);
		CHECK_EQ(calls.syncs, 1);
		CHECK_EQ(calls.last_len, 2 * PG);
	}
	watched = NULL;
	weft_exec_destroy(e);
	weft_persist_close(p);
}

/* ---- A long Flush and other requests on one helper ---- */

#define STEP (forced ? 8ULL << 20 : 2ULL << 20)

static unsigned int dones;

static void
count_done(struct weft_persist_req *req)
{
	++*(req->owner != NULL ? (unsigned int *)req->owner : &dones);
}

static struct {
	uint64_t longest, sum;
	const uint8_t *next; /**< the end of the last piece */
} persisted;

void
pmem_persist(const void *at, size_t len)
{
	void (*real)(const void *, size_t) = dlsym(RTLD_NEXT, "pmem_persist");

	CHECK(real != NULL);
	persisted.longest = RTE_MAX(persisted.longest, (uint64_t)len);
	persisted.sum += len;
	persisted.next = (const uint8_t *)at + len;
	real(at, len);
}

static struct weft_persist_req
flush_of(uint64_t off, uint64_t len, unsigned int *done)
{
	*done = 0;
	return (struct weft_persist_req){.off_bytes = off,
	                                 .len_bytes = len,
	                                 .flags = P,
	                                 .done = count_done,
	                                 .owner = done,
	                                 .status = -ENOMSG};
}

/** A request submitted during a long Flush waits for at most one job of it. */
static void
test_turns(void)
{
	const uint64_t off = (1 << 20) + 5, len = (25 << 20) + 100;
	const char *path = scratch_path("long");
	struct weft_persist *a = must_open("pmem", path, 28 << 20, true);
	struct weft_persist *b = must_open("pmem", scratch_path("short"), 1 << 20, true);
	struct weft_persist_req along, brief;
	unsigned int done, brief_done, turns = 0;
	static uint8_t got[28 << 20];
	struct weft_exec *e;

	CHECK_EQ(weft_exec_create(0, &e), 0);
	for (uint64_t i = 0; i < a->bytes; i += 8)
		memcpy(a->base + i, &i, 8);
	along = flush_of(off, len, &done);
	CHECK_EQ(a->ops->flush(a, e, &along), 0);
	for (; done == 0; turns++) {
		/* on DAX a Verify does not wait for a job */
		bool verify = !forced && turns % 2 != 0;

		CHECK(turns < 64);
		brief = flush_of(PG, forced ? 64 << 10 : PG, &brief_done);
		CHECK_EQ((verify ? b->ops->read_back : b->ops->flush)(b, e, &brief), 0);
		ask_from_now(0);
		memset(&persisted, 0, sizeof(persisted));
		CHECK_EQ(weft_exec_poll(e), 1); /* a job of the long Flush */
		CHECK_EQ(brief_done, 0);
		CHECK(calls.sum <= STEP && persisted.longest <= STEP && persisted.sum <= STEP);
		CHECK_EQ(calls.syncs, !forced && done != 0); /* once, at the end */
		if (forced && done != 0)
			CHECK(persisted.next == a->base + off + len);
		CHECK_EQ(weft_exec_poll(e), 1); /* the other request */
		CHECK_EQ(brief_done, 1);
		CHECK_EQ(brief.status, 0);
		if (verify)
			b->ops->release(b, &brief);
	}
	CHECK_EQ(done, 1);
	CHECK_EQ(along.status, 0);
	CHECK(turns >= len / STEP && turns <= len / STEP + 2);
	CHECK_EQ(weft_exec_pending(e), 0);
	CHECK_EQ(get_file(path, got, len, off), 0);
	CHECK_MEM(got, a->base + off, len);
	weft_exec_destroy(e);
	weft_persist_close(a);
	weft_persist_close(b);
}

/** Several helpers run the jobs of one Flush, with jobs of another Flush between. */
static void
test_helpers(void)
{
	struct weft_persist *p = must_open("pmem", scratch_path("helpers"), 16 << 20, true);
	struct weft_persist_req req[3];
	unsigned int done[3];
	struct weft_exec *e;

	CHECK_EQ(weft_exec_create(2, &e), 0);
	for (unsigned int round = 0; round < 4; round++) {
		memset(p->base, (int)round + 1, p->bytes);
		for (unsigned int i = 0; i < 3; i++) {
			req[i] = flush_of(i << 20, p->bytes - (2 * i << 20), &done[i]);
			CHECK_EQ(p->ops->flush(p, e, &req[i]), 0);
		}
		while (weft_exec_pending(e) > 0) {
			struct pollfd pf = {.fd = weft_exec_fd(e), .events = POLLIN};

			if (weft_exec_poll(e) == 0)
				CHECK_EQ(poll(&pf, 1, 30000), 1);
		}
		for (unsigned int i = 0; i < 3; i++) {
			CHECK_EQ(done[i], 1);
			CHECK_EQ(req[i].status, 0);
		}
	}
	weft_exec_destroy(e);
	weft_persist_close(p);
}

/**
 * The executor is destroyed during a Flush. No Flush reports success, and each request completes at
 * most once.
 */
static void
test_cut_off(void)
{
	struct weft_persist *p = must_open("pmem", scratch_path("off"), 16 << 20, true);

	memset(p->base, 3, p->bytes);
	for (unsigned int threads = 0; threads < 3; threads++) {
		unsigned int done;
		struct weft_persist_req req = flush_of(0, p->bytes, &done);
		struct weft_exec *e;

		CHECK_EQ(weft_exec_create(threads, &e), 0);
		CHECK_EQ(p->ops->flush(p, e, &req), 0);
		if (threads == 0) {
			weft_exec_poll(e);
		} else {
			struct pollfd pf = {.fd = weft_exec_fd(e), .events = POLLIN};

			CHECK_EQ(poll(&pf, 1, 30000), 1);
		}
		CHECK_EQ(done, 0);
		weft_exec_destroy(e);
		CHECK_EQ(done, threads > 0); /* a job that has not begun is dropped */
		if (threads > 0)
			CHECK_EQ(req.status, -ECANCELED);
		CHECK_EQ(weft_persist_flush_wait(p, 0, p->bytes), 0);
	}
	weft_persist_close(p);
}

/** A page that disappears during a Flush makes it fail. The Flush ends early if a job accesses the
 * page. */
static void
test_goes_away(void)
{
	const char *path = scratch_path("goes");
	struct weft_persist *p = must_open("pmem", path, 32 << 20, true);
	unsigned int done, jobs = 1;
	struct weft_persist_req req = flush_of(0, p->bytes, &done);
	struct weft_exec *e;

	CHECK_EQ(weft_guard_install(), 0);
	CHECK_EQ(weft_exec_create(0, &e), 0);
	memset(p->base, 5, p->bytes);
	CHECK_EQ(p->ops->flush(p, e, &req), 0);
	CHECK_EQ(weft_exec_poll(e), 1);
	CHECK_EQ(done, 0);
	CHECK_EQ(truncate(path, PG), 0);
	for (; done == 0; jobs++)
		CHECK(jobs < 64 && weft_exec_poll(e) == 1);
	CHECK_EQ(done, 1);
	CHECK_EQ(req.status, -EIO);
	CHECK_EQ(jobs, forced ? 2 : p->bytes / STEP);
	weft_exec_destroy(e);
	CHECK_EQ(weft_guard_remove(), 0);
	weft_persist_close(p);
}

/** An error of a piece has the same effect in a later job as in the first. */
static void
test_later_piece(void)
{
	struct weft_persist *p;
	struct weft_persist_req req;
	unsigned int done;
	struct weft_exec *e;

	if (forced)
		test_skip("only where the mapping is the page cache");
	p = must_open("pmem", scratch_path("later"), 8 << 20, true);
	memset(p->base, 4, p->bytes);
	CHECK_EQ(weft_exec_create(0, &e), 0);
	for (unsigned int fails = 0; fails < 2; fails++) {
		ask_from_now(fails ? EIO : EPERM);
		calls.refuse_at = 20;
		req = flush_of(0, p->bytes, &done);
		CHECK_EQ(p->ops->flush(p, e, &req), 0);
		CHECK_EQ(weft_exec_poll(e), 1);
		CHECK_EQ(done, 0);
		CHECK_EQ(weft_exec_poll(e), 1);
		CHECK_EQ(done, 1);
		CHECK_EQ(req.status, fails ? -EIO : 0);
		CHECK_EQ(calls.pieces, 20);
		CHECK_EQ(calls.syncs, !fails);
		CHECK_EQ(weft_exec_pending(e), 0);
	}
	weft_exec_destroy(e);
	weft_persist_close(p);
}

/**
 * A Flush fails while another Flush of the same medium is between two jobs. Pages that the other
 * has written may be lost and clean. So it writes the whole medium again before it succeeds, and
 * fails if that fails.
 */
static void
test_fails_between(void)
{
	struct weft_persist *p;
	struct weft_persist_req req[2];
	unsigned int done[2];
	struct weft_exec *e[2];

	if (forced)
		test_skip("only where the mapping is the page cache");
	p = must_open("pmem", scratch_path("between"), 8 << 20, true);
	for (unsigned int i = 0; i < 2; i++)
		CHECK_EQ(weft_exec_create(0, &e[i]), 0);
	/* a failing piece or msync; then the medium works, or still fails */
	for (unsigned int how = 0; how < 4; how++) {
		memset(p->base, (int)how + 1, p->bytes);
		ask_from_now(0);
		req[0] = flush_of(0, p->bytes, &done[0]);
		CHECK_EQ(p->ops->flush(p, e[0], &req[0]), 0);
		CHECK_EQ(weft_exec_poll(e[0]), 1);
		ask_from_now(how % 2 ? EIO : 0);
		calls.lose = how % 2 ? 0 : 1;
		req[1] = flush_of(0, how % 2 ? p->bytes : PG, &done[1]);
		CHECK_EQ(p->ops->flush(p, e[1], &req[1]), 0);
		CHECK_EQ(weft_exec_poll(e[1]), 1);
		CHECK_EQ(done[1], 1);
		CHECK_EQ(req[1].status, -EIO);
		CHECK_EQ(done[0], 0);
		watched = p->base;
		ask_from_now(0);
		calls.lose = how < 2 ? 0 : 2;
		while (done[0] == 0)
			CHECK_EQ(weft_exec_poll(e[0]), 1);
		watched = NULL;
		CHECK_EQ(req[0].status, how < 2 ? 0 : -EIO);
		CHECK_EQ(calls.syncs, how < 2 ? 3 : 2);
		CHECK(calls.most_dirty >= p->bytes);
		CHECK_EQ(weft_persist_flush_wait(p, 0, p->bytes), 0);
	}
	for (unsigned int i = 0; i < 2; i++)
		weft_exec_destroy(e[i]);
	weft_persist_close(p);
}

static void
test_read_back(void)
{
	const char *path = scratch_path("back");
	struct weft_persist *p = must_open("pmem", path, 2 << 20, true);
	static uint8_t got[1 << 20];
	uint32_t max = p->ops->read_back_max_bytes;
	struct weft_exec *e;

	CHECK_EQ(weft_exec_create(1, &e), 0);
	for (uint64_t i = 0; i < p->bytes; i += 8)
		memcpy(p->base + i, &i, 8);
	CHECK_EQ(flush(p, e, 0, p->bytes, P), 0);
	CHECK(max > 0 && max <= sizeof(got));
	for (unsigned int off = 0; off < 5000; off += 777) {
		CHECK_EQ(read_back(p, e, off, 1000 + off, got), 0);
		CHECK_MEM(got, p->base + off, 1000 + off);
	}
	CHECK_EQ(read_back(p, e, p->bytes - max, max, got), 0);
	CHECK_MEM(got, p->base + p->bytes - max, max);
	CHECK_EQ(read_back(p, e, 0, (uint64_t)max + 1, got), -EINVAL);
	CHECK_EQ(read_back(p, e, p->bytes, 1, got), -EINVAL);
	CHECK_EQ(read_back(p, e, UINT64_MAX, 2, got), -EINVAL);
	weft_exec_destroy(e);
	weft_persist_close(p);
}

/** On DAX short flushes and read-backs are done inside the call, without an executor. */
static void
test_inline(void)
{
	struct weft_persist_req req = {
	        .off_bytes = 77, .len_bytes = 1000, .flags = P, .done = count_done};
	struct weft_persist *p;

	if (!forced)
		test_skip("only in the DAX mode");
	p = must_open("pmem", scratch_path("inline"), 1 << 20, true);
	CHECK_EQ(p->ops->flush(p, NULL, &req), 0);
	CHECK_EQ(dones, 1);
	CHECK_EQ(p->ops->read_back(p, NULL, &req), 0);
	CHECK_EQ(dones, 2);
	CHECK(req.data == p->base + 77);
	p->ops->release(p, &req);
	/* of a long read-back, as much as a poll may evict and read */
	req.len_bytes = 200 << 10;
	CHECK_EQ(p->ops->read_back(p, NULL, &req), 0);
	CHECK_EQ(dones, 3);
	CHECK_EQ(req.len_bytes, 32 << 10);
	p->ops->release(p, &req);
	CHECK_EQ(p->ops->flush(p, NULL, &req), 0);
	CHECK_EQ(dones, 4);
	/* a longer flush needs a helper */
	req.len_bytes++;
	CHECK_EQ(p->ops->flush(p, NULL, &req), -EINVAL);
	weft_persist_close(p);
}

static void
test_sizes(void)
{
	const char *path = scratch_path("sizes");
	struct weft_persist *p;

	CHECK_EQ(try_open("pmem", path, 4 * PG, false), -ENOENT);
	CHECK_EQ(try_open("pmem", path, 0, true), -EINVAL);
	CHECK_EQ(file_bytes(path), UINT64_MAX);
	CHECK_EQ(try_open("pmem", path, 4 * PG, true), 0);
	CHECK_EQ(try_open("pmem", path, 8 * PG, false), -EINVAL);
	/* A smaller size must not truncate the file, as libpmem's own creation would. */
	p = must_open("pmem", path, 2 * PG, true);
	CHECK_EQ(p->bytes, 2 * PG);
	weft_persist_close(p);
	CHECK_EQ(file_bytes(path), 4 * PG);
	CHECK_EQ(try_open("pmem", path, 1ULL << 50, true), -ENOSPC);
	CHECK_EQ(file_bytes(path), 4 * PG);
	CHECK_EQ(try_open("pmem", "/dev/null", PG, false), -ENOTSUP);
}

static char *self;

/** The same cases in the other mode. */
static void
test_forced(void)
{
	int st;
	pid_t pid;

	if (forced)
		test_skip("this is the child");
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		setenv("PMEM_IS_PMEM_FORCE", "1", 1);
		setenv("WEFT_TEST_CHILD", "1", 1);
		/* The child's TAP output is not this program's. It goes to stderr for diagnosis. */
		dup2(STDERR_FILENO, STDOUT_FILENO);
		execl("/proc/self/exe", self, (char *)NULL);
		_exit(127);
	}
	CHECK(pid > 0);
	CHECK_EQ(waitpid(pid, &st, 0), pid);
	CHECK_MSG(WIFEXITED(st) && WEXITSTATUS(st) == 0, "the child ended with %x", st);
}

int
main(int argc, char **argv)
{
	static const struct weft_test_case cases[] = {
	        {"modes", test_modes},
	        {"flush", test_flush},
	        {"pieces", test_pieces},
	        {"written anew", test_anew},
	        {"turns", test_turns},
	        {"helpers", test_helpers},
	        {"cut off", test_cut_off},
	        {"goes away", test_goes_away},
	        {"later piece", test_later_piece},
	        {"fails between", test_fails_between},
	        {"read_back", test_read_back},
	        {"inline", test_inline},
	        {"sizes", test_sizes},
	        {"failed_open", test_failed_open},
	        {"no_read_back", test_no_read_back},
	        {"forced", test_forced},
	};

	self = argv[0];
	forced = getenv("WEFT_TEST_CHILD") != NULL;
	if (!forced) /* the variable of the environment is not meant for this program */
		unsetenv("PMEM_IS_PMEM_FORCE");
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
