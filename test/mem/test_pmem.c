/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The pmem driver in both of its modes. libpmem decides once per process what is persistent memory,
 * so the DAX mode runs in a child of this program that has PMEM_IS_PMEM_FORCE=1 set.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "medium_test.h"
#include "weft_test.h"

#define PG 4096

static const uint32_t P = WEFT_FLUSH_PERSISTENT;
static bool forced; /**< this is the child */

static bool refuse_direct; /**< as some file systems do */

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

/** What it finds out late it undoes: the medium is as it was. */
static void
test_failed_open(void)
{
	const struct weft_persist_ops *ops = weft_persist_find("pmem");
	struct weft_persist_attr a = {.size = sizeof(a),
	                              .driver = "auto", /* by that name only DAX will do */
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

/** Pages that are mapped stay cached, so past O_DIRECT's refusal nothing reads the medium. */
static void
test_no_read_back(void)
{
	const char *path = scratch_path("nodirect");
	struct weft_persist *p;

	refuse_direct = true;
	if (forced) { /* does not need it */
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

static unsigned int dones;

static void
count_done(struct weft_persist_req *req)
{
	(void)req;
	dones++;
}

/** On DAX short flushes and read-backs are done at once, without an executor. */
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
	req.len_bytes = 32 << 10;
	CHECK_EQ(p->ops->flush(p, NULL, &req), 0);
	CHECK_EQ(dones, 3);
	/* what takes longer is a helper's */
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
	/* Asking for less must not cut the file, as libpmem's own creation would. */
	p = must_open("pmem", path, 2 * PG, true);
	CHECK_EQ(p->bytes, 2 * PG);
	weft_persist_close(p);
	CHECK_EQ(file_bytes(path), 4 * PG);
	CHECK_EQ(try_open("pmem", path, 1ULL << 50, true), -ENOSPC);
	CHECK_EQ(file_bytes(path), 4 * PG);
	CHECK_EQ(try_open("pmem", "/dev/null", PG, false), -ENOTSUP);
}

static char *self;

/** The same cases again in the other mode. */
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
		/* Its TAP is not ours: out of the way, but for diagnosis. */
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
	        {"read_back", test_read_back},
	        {"inline", test_inline},
	        {"sizes", test_sizes},
	        {"failed_open", test_failed_open},
	        {"no_read_back", test_no_read_back},
	        {"forced", test_forced},
	};

	self = argv[0];
	forced = getenv("WEFT_TEST_CHILD") != NULL;
	if (!forced) /* whoever set it did not mean this program */
		unsetenv("PMEM_IS_PMEM_FORCE");
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
