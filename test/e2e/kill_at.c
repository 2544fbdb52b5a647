/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file For LD_PRELOAD into weft-target: kills the process before a step of its first thread that
 * changes a file. The file that WEFT_KILL_AT names has the number of the step, counted from when
 * that file is there. Without it nothing is counted.
 */

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static void
step(void)
{
	static unsigned long seen;
	const char *file = getenv("WEFT_KILL_AT");
	char text[24] = "";
	long fd;

	if (file == NULL || syscall(SYS_gettid) != getpid())
		return;
	fd = syscall(SYS_openat, AT_FDCWD, file, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		seen = 0;
		return;
	}
	if (syscall(SYS_read, fd, text, sizeof(text) - 1) > 0 && ++seen == strtoul(text, NULL, 10))
		(void)syscall(SYS_kill, getpid(), SIGKILL);
	(void)syscall(SYS_close, fd);
}

/** Replace a function: a step, then the C library's. */
#define STEP(result, name, params, args)                                                           \
	result name params;                                                                        \
	result name params                                                                         \
	{                                                                                          \
		static result(*next) params;                                                       \
                                                                                                   \
		if (next == NULL)                                                                  \
			next = (result(*) params)dlsym(RTLD_NEXT, #name);                          \
		step();                                                                            \
		return next args;                                                                  \
	}

#undef ftruncate
#undef pwrite
#undef fallocate
STEP(int, fsync, (int fd), (fd))
STEP(int, fdatasync, (int fd), (fd))
STEP(int, rename, (const char *a, const char *b), (a, b))
STEP(int, link, (const char *a, const char *b), (a, b))
STEP(int, unlink, (const char *a), (a))
STEP(int, ftruncate64, (int fd, off_t n), (fd, n))
STEP(int, fallocate64, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n))
STEP(int, posix_fallocate64, (int fd, off_t at, off_t n), (fd, at, n))
STEP(ssize_t, pwrite64, (int fd, const void *p, size_t n, off_t at), (fd, p, n, at))
STEP(ssize_t, write, (int fd, const void *p, size_t n), (fd, p, n))

int open64(const char *path, int flags, ...);
int
open64(const char *path, int flags, ...)
{
	va_list ap;
	int mode;

	va_start(ap, flags);
	mode = va_arg(ap, int);
	va_end(ap);
	if (flags & O_CREAT)
		step();
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
