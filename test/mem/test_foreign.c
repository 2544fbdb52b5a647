/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Another process writes to a driver's file. Length, blocks and name are unchanged, or are the same
 * again at the next check. No Flush and no read-back succeeds from then on. This holds with
 * fanotify, which reports the writing process, and without it. A process that does not write has no
 * effect.
 */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "medium_test.h"
#include <weft/guard.h>
#include "weft_test.h"

#define PG    4096U
#define PAGES 64U
#define P     WEFT_FLUSH_PERSISTENT

static const char *const drivers[] = {"file", "file:pwrite", "pmem"};

/* fanotify is forbidden, as in a container. */
static bool forbidden;

int __real_fanotify_init(unsigned int flags, unsigned int event_f_flags);
int __wrap_fanotify_init(unsigned int flags, unsigned int event_f_flags);

int
__wrap_fanotify_init(unsigned int flags, unsigned int event_f_flags)
{
	if (!forbidden)
		return __real_fanotify_init(flags, event_f_flags);
	errno = EPERM;
	return -1;
}

enum what { FIRST, MIDDLE, ALL, REFILLED, APPENDED, WHATS };

static const char *const what_names[] = {"first page", "page in the middle", "all, as cp does",
                                         "emptied and filled", "appended"};

/** Change the file as another process does. */
static void
write_it(enum what what, const char *path)
{
	static uint8_t junk[PAGES * PG];
	int fd;

	memset(junk, 'z', sizeof(junk));
	fd = open(path, what == ALL || what == REFILLED ? O_RDWR | O_TRUNC : O_RDWR);
	if (fd < 0)
		_exit(1);
	if (what == FIRST && pwrite(fd, junk, PG, 0) != PG)
		_exit(1);
	if (what == MIDDLE && pwrite(fd, junk, PG, 9 * PG) != PG)
		_exit(1);
	if (what == ALL && pwrite(fd, junk, sizeof(junk), 0) != (ssize_t)sizeof(junk))
		_exit(1);
	if (what == REFILLED && posix_fallocate(fd, 0, PAGES * PG) != 0)
		_exit(1);
	if (what == APPENDED && pwrite(fd, junk, 1, PAGES * PG) != 1)
		_exit(1);
	_exit(0);
}

static void
by_another(enum what what, const char *path)
{
	pid_t pid = fork();
	int st;

	CHECK(pid >= 0);
	if (pid == 0)
		write_it(what, path);
	CHECK_EQ(waitpid(pid, &st, 0), pid);
	CHECK_EQ(st, 0);
}

static void
one(const char *driver, enum what what, bool looked)
{
	const char *path = scratch_path("theirs");
	static uint8_t page[PG], got[PG];
	struct weft_persist *p;
	struct weft_exec *e;

	unlink(path);
	p = must_open(driver, path, PAGES * PG, true);
	CHECK_EQ(weft_exec_create(1, &e), 0);
	memset(page, 'a', sizeof(page));
	for (unsigned int i = 0; i < PAGES; i++)
		put_mem(p, i * PG, page, PG);
	CHECK_EQ(flush(p, e, 0, p->bytes, P), 0);
	CHECK_EQ(weft_persist_check(p), 0);
	put_mem(p, PG, page, PG);
	by_another(what, path);
	if (looked)
		CHECK_EQ(weft_persist_check(p), -ESTALE);
	/* The page behind the first one. Exports keep their commit word in the first page. */
	CHECK_MSG(flush(p, e, PG, PG, P) < 0, "%s, %s, looked %d: a flush succeeds", driver,
	          what_names[what], looked);
	CHECK_MSG(flush(p, e, 0, p->bytes, P) < 0, "%s, %s: a flush of all succeeds", driver,
	          what_names[what]);
	CHECK_MSG(read_back(p, e, 20 * PG, PG, got) < 0, "%s, %s: a read-back succeeds", driver,
	          what_names[what]);
	CHECK_EQ(weft_persist_check(p), -ESTALE);
	CHECK_EQ(flush(p, e, 0, 0, P), 0);
	weft_exec_destroy(e);
	weft_persist_close(p);
	unlink(path);
}

static void
test_written(void)
{
	forbidden = false;
	for (unsigned int d = 0; d < sizeof(drivers) / sizeof(drivers[0]); d++)
		for (unsigned int w = 0; w < WHATS; w++) {
			one(drivers[d], (enum what)w, false);
			one(drivers[d], (enum what)w, true);
		}
}

/** Without fanotify, a driver that maps the file learns of writes by inotify. A driver that writes
 * the file itself learns of them by the first page's content. */
static void
test_written_forbidden(void)
{
	forbidden = true;
	for (unsigned int d = 0; d < sizeof(drivers) / sizeof(drivers[0]); d++)
		for (unsigned int w = 0; w < WHATS; w++) {
			if (strcmp(drivers[d], "pmem") != 0 && (w == MIDDLE || w == APPENDED))
				continue;
			one(drivers[d], (enum what)w, false);
			one(drivers[d], (enum what)w, true);
		}
	forbidden = false;
}

/** The driver's own flushes cause no error, before the first check and when the first page is
 * flushed again and again. */
static void
own_writes(const char *driver)
{
	const char *path = scratch_path("ours");
	struct weft_persist *p;
	uint8_t page[PG];
	struct weft_exec *e;

	unlink(path);
	p = must_open(driver, path, PAGES * PG, true);
	CHECK_EQ(weft_exec_create(2, &e), 0);
	/* Memory changes and is not flushed when the check runs. */
	for (unsigned int i = 0; i < 200; i++) {
		memset(page, (int)('a' + i % 2), sizeof(page));
		put_mem(p, 0, page, PG);
		put_mem(p, i % PAGES * PG, page, PG);
		CHECK_EQ(flush(p, e, i % 3 == 0 ? PG : 0, (i % 7 + 1) * PG, P), 0);
		if (i % 5 == 0)
			put_mem(p, 0, "back again", 10);
		if (i % 2 == 0)
			CHECK_EQ(weft_persist_check(p), 0);
		CHECK_EQ(read_back(p, e, PG, PG, page), 0);
	}
	weft_exec_destroy(e);
	weft_persist_close(p);
	unlink(path);
}

static void
test_own_writes(void)
{
	for (unsigned int k = 0; k < 2; k++) {
		forbidden = k == 1;
		for (unsigned int d = 0; d < sizeof(drivers) / sizeof(drivers[0]); d++)
			own_writes(drivers[d]);
	}
	forbidden = false;
}

/** Another process reads the file, opens it for writing without writing, asks for its lock, and
 * changes its times and mode. */
static void
be_harmless(const char *path)
{
	static uint8_t buf[PAGES * PG];
	int fd = open(path, O_RDWR);

	if (fd < 0 || pread(fd, buf, sizeof(buf), 0) != (ssize_t)sizeof(buf) ||
	    futimens(fd, NULL) != 0 || fchmod(fd, 0600) != 0 || fsync(fd) != 0)
		_exit(1);
	if (try_open("file", path, PAGES * PG, false) != -EBUSY ||
	    try_open("pmem", path, PAGES * PG, false) != -EBUSY)
		_exit(1);
	_exit(0);
}

static void
test_not_written(void)
{
	for (unsigned int i = 0; i < 2 * sizeof(drivers) / sizeof(drivers[0]); i++) {
		const char *path = scratch_path("read");
		struct weft_persist *p;
		uint8_t page[PG] = {3};
		struct weft_exec *e;
		pid_t pid;
		int st;

		forbidden = i % 2 != 0;
		unlink(path);
		p = must_open(drivers[i / 2], path, PAGES * PG, true);
		CHECK_EQ(weft_exec_create(1, &e), 0);
		put_mem(p, PG, page, PG);
		pid = fork();
		CHECK(pid >= 0);
		if (pid == 0)
			be_harmless(path);
		CHECK_EQ(waitpid(pid, &st, 0), pid);
		CHECK_EQ(st, 0);
		CHECK_EQ(weft_persist_check(p), 0);
		CHECK_EQ(flush(p, e, 0, p->bytes, P), 0);
		CHECK_EQ(weft_persist_check(p), 0);
		weft_exec_destroy(e);
		weft_persist_close(p);
		unlink(path);
	}
	forbidden = false;
}

/** Every one of many writes by many processes is noticed, and no descriptor is left open. */
static void
test_many(void)
{
	const char *path = scratch_path("many");
	int before = dup(0), after;
	struct weft_persist *p;

	close(before);
	for (unsigned int i = 0; i < 50; i++) {
		unlink(path);
		p = must_open(drivers[i % 3], path, PAGES * PG, true);
		for (unsigned int k = 0; k < i; k++)
			by_another(MIDDLE, path);
		CHECK_EQ(weft_persist_check(p), i == 0 ? 0 : -ESTALE);
		weft_persist_close(p);
		/* Changes before the medium was opened do not matter. */
		p = must_open(drivers[i % 3], path, PAGES * PG, false);
		CHECK_EQ(weft_persist_check(p), 0);
		weft_persist_close(p);
	}
	after = dup(0);
	close(after);
	CHECK_EQ(after, before);
	unlink(path);
}

int
main(int argc, char **argv)
{
	static const struct weft_test_case cases[] = {
	        {"written by another process", test_written},
	        {"written where fanotify is forbidden", test_written_forbidden},
	        {"own writes", test_own_writes},
	        {"not written", test_not_written},
	        {"many", test_many},
	};

	scratch(NULL);
	return test_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
