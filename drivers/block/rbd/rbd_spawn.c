/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The process weft-rbd: found, started, called and ended.
 *
 * A process is known by its pidfd, so that a number that the kernel has given to another one is
 * never killed, and its end is seen although the program may take the exit status itself. It has
 * no descriptor of the program but those that are given to it, its own group (a signal of the
 * terminal is the program's), and the affinity of the thread that starts it.
 */

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rbd_priv.h"

#define RBD_OPEN_MS  120000 /**< longest open; the process gives up earlier */
#define RBD_FENCE_MS 20000
#define RBD_CALL_MS  10000
#define RBD_CLOSE_MS 20000
#define RBD_KILL_MS  5000
#define RBD_ARGS     20
#define RBD_HIGH_FD  16 /**< first number of copies, above those that the process gets */
#define RBD_P_PIDFD  3  /**< waitid(2): P_PIDFD */

extern char **environ;

/* ---- The program ---- */

/** Whether a file can be run; if so it becomes d->program. */
static bool
rbd_is_program(struct rbd_disk *d, const char *dir, const char *rest)
{
	int n = snprintf(d->program, sizeof(d->program), "%s%s", dir, rest);

	return n > 0 && (size_t)n < sizeof(d->program) && access(d->program, X_OK) == 0;
}

int
rbd_find_program(struct rbd_disk *d, const struct weft_block_attr *attr)
{
	const char *named = secure_getenv("WEFT_RBD");
	char dir[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", dir, sizeof(dir) - 1);

	if (named != NULL && named[0] != '\0')
		return rbd_is_program(d, named, "")
		               ? 0
		               : weft_block_refuse(attr, -ENOTSUP,
		                                   "WEFT_RBD is %s, which cannot be run", named);
	dir[n > 0 ? n : 0] = '\0';
	if (strrchr(dir, '/') != NULL) {
		*strrchr(dir, '/') = '\0';
		/* beside the program, and where the build has it */
		if (rbd_is_program(d, dir, "/weft-rbd") ||
		    rbd_is_program(d, dir, "/../rbd/weft-rbd"))
			return 0;
	}
	if (rbd_is_program(d, WEFT_RBD_DIR, "/weft-rbd"))
		return 0;
	return weft_block_refuse(attr, -ENOTSUP,
	                         "weft-rbd is missing, beside the program and in %s: weft has to "
	                         "be built where librbd-dev is installed",
	                         WEFT_RBD_DIR);
}

/* ---- Processes ---- */

static void
rbd_close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/** Start a program with descriptors fds, which become 3 and following. 0 or -errno. */
static int
rbd_spawn(const char *program, char *const argv[], const int *fds, unsigned int nfds,
          struct rbd_proc *p)
{
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t sa;
	sigset_t none, all;
	int high[RBD_FDS], r = 0;
	unsigned int n;

	sigemptyset(&none);
	sigfillset(&all);
	if (posix_spawn_file_actions_init(&fa) != 0)
		return -ENOMEM;
	if (posix_spawnattr_init(&sa) != 0) {
		posix_spawn_file_actions_destroy(&fa);
		return -ENOMEM;
	}
	/* Copies above all numbers that are given, so that none is overwritten before its turn. */
	for (n = 0; n < nfds && r == 0; n++) {
		high[n] = fcntl(fds[n], F_DUPFD_CLOEXEC, RBD_HIGH_FD);
		r = high[n] < 0 ? -errno
		                : -posix_spawn_file_actions_adddup2(&fa, high[n], 3 + (int)n);
	}
	if (r == 0)
		r = -posix_spawn_file_actions_addclosefrom_np(&fa, 3 + (int)nfds);
	if (r == 0)
		r = -posix_spawnattr_setflags(&sa, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
		                                           POSIX_SPAWN_SETPGROUP);
	if (r == 0) {
		posix_spawnattr_setsigmask(&sa, &none);
		posix_spawnattr_setsigdefault(&sa, &all);
		r = -posix_spawn(&p->pid, program, &fa, &sa, argv, environ);
	}
	while (n > 0)
		rbd_close_fd(&high[--n]);
	posix_spawnattr_destroy(&sa);
	posix_spawn_file_actions_destroy(&fa);
	if (r != 0)
		return r;
	p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	if (p->pidfd < 0) {
		r = -errno;
		/* Not waited for, so the number is still its own. */
		kill(p->pid, SIGKILL);
		waitpid(p->pid, NULL, 0);
		return r;
	}
	fcntl(p->pidfd, F_SETFD, FD_CLOEXEC);
	return 0;
}

void
rbd_kill(const struct rbd_proc *p)
{
	if (p->pidfd >= 0)
		(void)syscall(SYS_pidfd_send_signal, p->pidfd, SIGKILL, NULL, 0);
}

/** poll(2) of one descriptor. 0: it is ready; -ETIMEDOUT. */
static int
rbd_wait_fd(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int r;

	do
		r = poll(&p, 1, ms);
	while (r < 0 && errno == EINTR);
	return r > 0 ? 0 : -ETIMEDOUT;
}

int
rbd_wait_exit(struct rbd_proc *p, int ms, int *status)
{
	siginfo_t si = {.si_code = 0};

	*status = -1;
	if (p->pidfd < 0)
		return 0;
	if (rbd_wait_fd(p->pidfd, ms) != 0)
		return -ETIMEDOUT;
	/* The program may have taken the status before. */
	if (waitid(RBD_P_PIDFD, (id_t)p->pidfd, &si, WEXITED) == 0 && si.si_code == CLD_EXITED)
		*status = si.si_status;
	rbd_close_fd(&p->pidfd);
	return 0;
}

/** End a process that is of no use. */
static void
rbd_end(struct rbd_proc *p)
{
	int status;

	rbd_kill(p);
	(void)rbd_wait_exit(p, RBD_KILL_MS, &status);
	rbd_close_fd(&p->pidfd);
}

/** Append to a list of arguments. */
static void
rbd_arg(const char **argv, unsigned int *n, const char *option, const char *value)
{
	if (value != NULL && value[0] == '\0')
		return;
	argv[(*n)++] = option;
	if (value != NULL)
		argv[(*n)++] = value;
}

static void
rbd_common_args(const struct rbd_disk *d, const char **argv, unsigned int *n)
{
	rbd_arg(argv, n, "--conf", d->conf);
	rbd_arg(argv, n, "--id", d->id);
	rbd_arg(argv, n, "--keyring", d->keyring);
	rbd_arg(argv, n, "--timeout", d->timeout);
}

/* ---- Calls ---- */

int
rbd_memory(uint64_t bytes, void **base, int *fd)
{
	int r;

	*fd = memfd_create("weft-rbd", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0)
		return -errno;
	/* Memory that is missing, or was cut off, would be a SIGBUS in a poll. */
	do
		r = -posix_fallocate(*fd, 0, (off_t)bytes);
	while (r == -EINTR);
	if (r == 0 && fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
		r = -errno;
	if (r == 0) {
		*base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
		if (*base == MAP_FAILED)
			r = -errno;
	}
	if (r != 0)
		rbd_close_fd(fd);
	return r;
}

/** Receive the first packet, `ms` at most. */
static int
rbd_hello(int fd, int ms, struct rbd_hello *h)
{
	ssize_t n;

	if (rbd_wait_fd(fd, ms) != 0)
		return -ETIMEDOUT;
	n = recv(fd, h, sizeof(*h), MSG_DONTWAIT);
	if (n == 0 || (n < 0 && errno == ECONNRESET))
		return -EPIPE;
	if (n != (ssize_t)sizeof(*h) || h->magic != RBD_MAGIC || h->version != RBD_VERSION ||
	    h->status > 0)
		return -EPROTO;
	h->address[sizeof(h->address) - 1] = '\0';
	h->mechanism[sizeof(h->mechanism) - 1] = '\0';
	h->reason[sizeof(h->reason) - 1] = '\0';
	for (char *c = h->reason; *c != '\0'; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	return 0;
}

/** Send a call, with three descriptors or none. Never blocks. */
static int
rbd_send(int fd, const struct rbd_call *call, const int *fds)
{
	union {
		struct cmsghdr h;
		uint8_t room[CMSG_SPACE(3 * sizeof(int))];
	} control = {.room = {0}};
	struct iovec iov = {(void *)(uintptr_t)call, sizeof(*call)};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fds != NULL) {
		m.msg_control = &control;
		m.msg_controllen = sizeof(control);
		control.h.cmsg_level = SOL_SOCKET;
		control.h.cmsg_type = SCM_RIGHTS;
		control.h.cmsg_len = CMSG_LEN(3 * sizeof(int));
		memcpy(CMSG_DATA(&control.h), fds, 3 * sizeof(int));
	}
	return sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof(*call) ? 0 : -EIO;
}

static int
rbd_call_wait(struct rbd_disk *d, const struct rbd_call *call, const int *fds, int ms)
{
	struct rbd_answer a;
	int r = rbd_send(d->call_fd, call, fds);

	if (r != 0 || call->what == RBD_CHAN_CLOSE)
		return r;
	if (rbd_wait_fd(d->call_fd, ms) != 0)
		return -EIO;
	if (recv(d->call_fd, &a, sizeof(a), MSG_DONTWAIT) != (ssize_t)sizeof(a))
		return -EIO;
	if (a.what != call->what || a.chan != call->chan || a.status > 0)
		return -EPROTO;
	return a.status;
}

int
rbd_call(struct rbd_disk *d, const struct rbd_call *call, const int *fds)
{
	int r;

	/* The channel's thread tells that it closes, and waits for nothing. */
	if (call->what == RBD_CHAN_CLOSE)
		return rbd_call_wait(d, call, NULL, 0);
	pthread_mutex_lock(&d->call_lock);
	r = rbd_call_wait(d, call, fds, RBD_CALL_MS);
	pthread_mutex_unlock(&d->call_lock);
	return r;
}

/* ---- Start and stop ---- */

/** Say why the process has not opened the image. */
static int
rbd_refuse(struct rbd_disk *d, const struct weft_block_attr *attr, int r)
{
	int status;

	if (r == 0)
		return weft_block_refuse(attr, d->hello.status, "%s", d->hello.reason);
	if (r == -EPROTO)
		return weft_block_refuse(attr, -ENOTSUP, "%s is of another version", d->program);
	if (r == -ETIMEDOUT)
		return weft_block_refuse(attr, -EIO, "%s: the cluster does not answer", attr->path);
	(void)rbd_wait_exit(&d->proc, RBD_KILL_MS, &status);
	if (status == 127)
		return weft_block_refuse(attr, -ENOTSUP,
		                         "%s cannot be started: the package librbd1 is missing",
		                         d->program);
	return weft_block_refuse(attr, -EIO, "%s: %s ended before the image was open", attr->path,
	                         d->program);
}

int
rbd_start(struct rbd_disk *d, const struct weft_block_attr *attr, bool take_over)
{
	const char *argv[RBD_ARGS] = {d->program, "serve", attr->path};
	int call[2] = {-1, -1}, page_fd = -1, r = 0;
	unsigned int n = 3;
	void *page;

	rbd_common_args(d, argv, &n);
	if (take_over)
		rbd_arg(argv, &n, "--take-over", NULL);
	if (attr->read_only)
		rbd_arg(argv, &n, "--read-only", NULL);
	d->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (d->event_fd < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, call) != 0)
		r = -errno;
	if (r == 0)
		r = rbd_memory(RBD_PAGE, &page, &page_fd);
	if (r == 0) {
		int fds[] = {call[1], page_fd, d->event_fd};

		d->page = page;
		r = rbd_spawn(d->program, (char *const *)(uintptr_t)argv, fds, 3, &d->proc);
	}
	rbd_close_fd(&call[1]);
	rbd_close_fd(&page_fd);
	d->call_fd = call[0];
	if (r == 0) {
		r = rbd_hello(d->call_fd, RBD_OPEN_MS, &d->hello);
		if (r != 0 || d->hello.status != 0)
			r = rbd_refuse(d, attr, r);
	} else {
		(void)weft_block_refuse(attr, r, "%s cannot be started: %s", d->program,
		                        strerror(-r));
	}
	if (r != 0)
		rbd_stop(d);
	return r;
}

void
rbd_stop(struct rbd_disk *d)
{
	const struct rbd_call call = {.what = RBD_CLOSE};
	int status;

	/* A process that is not open yet sees the end of the socket. */
	if (d->hello.magic == RBD_MAGIC && d->hello.status == 0 && d->proc.pidfd >= 0)
		(void)rbd_call_wait(d, &call, NULL, RBD_CLOSE_MS);
	rbd_close_fd(&d->call_fd);
	if (rbd_wait_exit(&d->proc, RBD_KILL_MS, &status) != 0)
		rbd_end(&d->proc);
	rbd_close_fd(&d->event_fd);
	if (d->page != NULL)
		munmap(d->page, RBD_PAGE);
	d->page = NULL;
}

int
rbd_blocklist(const struct rbd_disk *d)
{
	const char *argv[RBD_ARGS] = {d->program, "blocklist", d->hello.address};
	struct rbd_proc p = {-1, -1};
	struct rbd_hello *h = calloc(1, sizeof(*h));
	int call[2], r, status;
	unsigned int n = 3;

	if (h == NULL || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, call) != 0) {
		free(h);
		return -ENOMEM;
	}
	rbd_common_args(d, argv, &n);
	r = rbd_spawn(d->program, (char *const *)(uintptr_t)argv, &call[1], 1, &p);
	close(call[1]);
	if (r == 0)
		r = rbd_hello(call[0], RBD_FENCE_MS, h);
	if (r == 0)
		r = h->status;
	close(call[0]);
	if (p.pidfd >= 0 && rbd_wait_exit(&p, r == 0 ? RBD_KILL_MS : 0, &status) != 0)
		rbd_end(&p);
	free(h);
	return r;
}
