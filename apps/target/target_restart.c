/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The target replaces itself by the program that its file is now. */

#include "target_restart.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conf.h"
#include "target.h"
#include "target_service.h"
#include "ui.h"

#define CHECK_MS   50000                /* the check reads no data of the media */
#define BEFORE_ENV "WEFT_TARGET_BEFORE" /* the file descriptor of the program of before */
/** The process that runs the check. No option: the program may be of a version without it. */
#define BESIDE_ENV "WEFT_TARGET_BESIDE"
#define GONE       " (deleted)"

extern char **environ;

static struct {
	char exe[CONF_PATH_MAX];
	char **argv; /* as the program was begun */
	int before;  /* the program of before; -1: there is none */
	bool ready;
} restart = {.before = -1};

/* ---- A program that ends before it serves ---- */

static void
restart_go_back(void)
{
	const int fd = restart.before;

	restart.before = -1;
	if (fd < 0 || restart.ready)
		return;
	ui_msg("restart: this program ends before it serves; the one of before goes on");
	target_service_environment();
	(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	if (fd > 3)
		(void)close_range(3, (unsigned int)fd - 1, CLOSE_RANGE_CLOEXEC);
	(void)close_range((unsigned int)fd + 1, ~0U, CLOSE_RANGE_CLOEXEC);
	fexecve(fd, restart.argv, environ);
	ui_msg("restart: the program of before cannot be executed: %s", strerror(errno));
}

void
target_restart_begin(char **argv)
{
	const char *before = getenv(BEFORE_ENV);
	ssize_t n = readlink("/proc/self/exe", restart.exe, sizeof(restart.exe) - 1);
	const size_t gone = sizeof(GONE) - 1;
	uint64_t fd;
	int argc = 0;

	/* Ignored by the program that began this one, it would hide how the check ends. */
	(void)signal(SIGCHLD, SIG_DFL);
	/* Where the file was replaced, its name is the new one's. */
	if (n > (ssize_t)gone && memcmp(restart.exe + n - gone, GONE, gone) == 0)
		n -= (ssize_t)gone;
	restart.exe[n > 0 ? n : 0] = '\0';
	while (argv[argc] != NULL)
		argc++;
	restart.argv = calloc((size_t)argc + 1, sizeof(*argv));
	if (restart.argv != NULL)
		memcpy(restart.argv, argv, (size_t)argc * sizeof(*argv));
	if (before != NULL && ui_parse_u64(before, 3, 1 << 20, &fd) == 0 &&
	    fcntl((int)fd, F_GETFD) >= 0) {
		restart.before = (int)fd;
		(void)fcntl(restart.before, F_SETFD, FD_CLOEXEC);
		if (atexit(restart_go_back) != 0)
			restart.before = -1;
	}
	unsetenv(BEFORE_ENV);
}

void
target_restart_serves(void)
{
	restart.ready = true;
	if (restart.before >= 0)
		close(restart.before);
	restart.before = -1;
}

/* ---- The check ---- */

uint64_t
target_restart_beside(void)
{
	const char *beside = getenv(BESIDE_ENV);
	uint64_t pid;

	return beside != NULL && ui_parse_u64(beside, 1, INT32_MAX, &pid) == 0 ? pid : 0;
}

/** This program's environment, and BESIDE_ENV. The caller frees the array. NULL: no memory. */
static char **
restart_check_environment(char *beside)
{
	const size_t name = strcspn(beside, "=") + 1;
	size_t n = 0, have = 0;
	char **env;

	while (environ[n] != NULL)
		n++;
	env = calloc(n + 2, sizeof(*env));
	for (size_t i = 0; env != NULL && i < n; i++)
		if (strncmp(environ[i], beside, name) != 0)
			env[have++] = environ[i];
	if (env != NULL)
		env[have] = beside;
	return env;
}

/* Read what the check says until it ends its output: the octets; -1: it takes too long. */
static ssize_t
restart_hear(int fd, char *buf, size_t size)
{
	const uint64_t end = ui_now_ns() + CHECK_MS * 1000000ULL;
	char rest[256];
	size_t have = 0;

	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		const uint64_t now = ui_now_ns();
		char *to = have < size - 1 ? buf + have : rest;
		ssize_t n;

		if (now >= end || poll(&p, 1, (int)((end - now) / 1000000) + 1) == 0)
			return -1;
		n = read(fd, to, to == rest ? sizeof(rest) : size - 1 - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		if (to != rest)
			have += (size_t)n;
	}
	buf[have] = '\0';
	return (ssize_t)have;
}

/* The first line of what the check said, without the name of the program. */
static const char *
restart_line(char *said)
{
	static const char name[] = "weft-target: ";
	char *end = strchr(said, '\n');

	if (end != NULL)
		*end = '\0';
	return strncmp(said, name, sizeof(name) - 1) == 0 ? said + sizeof(name) - 1 : said;
}

static int
restart_spawn(const struct target *t, int out, pid_t *pid)
{
	char check[] = "--check-config", c[] = "-c", strict[] = "--strict";
	char *argv[] = {
	        restart.exe, c, (char *)(uintptr_t)t->conf_file, check, t->strict ? strict : NULL,
	        NULL};
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t at;
	char beside[40], **env;
	sigset_t none;
	int rc;

	snprintf(beside, sizeof(beside), BESIDE_ENV "=%ld", (long)getpid());
	env = restart_check_environment(beside);
	if (env == NULL)
		return -ENOMEM;
	sigemptyset(&none);
	posix_spawn_file_actions_init(&fa);
	posix_spawnattr_init(&at);
	posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigmask(&at, &none);
	rc = posix_spawn_file_actions_adddup2(&fa, out, STDOUT_FILENO);
	if (rc == 0)
		rc = posix_spawn_file_actions_adddup2(&fa, out, STDERR_FILENO);
	/* A device of this target must not stay open in another process. */
	if (rc == 0)
		rc = posix_spawn_file_actions_addclosefrom_np(&fa, 3);
	if (rc == 0)
		rc = posix_spawn(pid, restart.exe, &fa, &at, argv, env);
	free(env);
	posix_spawnattr_destroy(&at);
	posix_spawn_file_actions_destroy(&fa);
	return -rc;
}

int
target_restart_check(const struct target *t, char *err, size_t err_size)
{
	char said[CONF_ERR_MAX + CONF_PATH_MAX];
	int fds[2], status = 0, rc;
	pid_t pid, ended;
	ssize_t n;

	if (restart.argv == NULL || restart.exe[0] != '/' || pipe2(fds, O_CLOEXEC) != 0) {
		snprintf(err, err_size, "the program's file is not known, or no pipe");
		return -EINVAL;
	}
	rc = restart_spawn(t, fds[1], &pid);
	close(fds[1]);
	if (rc != 0) {
		close(fds[0]);
		snprintf(err, err_size, "%s cannot be executed: %s", restart.exe, strerror(-rc));
		return -EINVAL;
	}
	n = restart_hear(fds[0], said, sizeof(said));
	close(fds[0]);
	if (n < 0)
		kill(pid, SIGKILL);
	while ((ended = waitpid(pid, &status, 0)) < 0 && errno == EINTR)
		;
	if (ended != pid) {
		snprintf(err, err_size, "%s --check-config: its end is not known: %s", restart.exe,
		         strerror(errno));
		return -ECHILD;
	}
	if (n < 0) {
		snprintf(err, err_size, "%s --check-config takes longer than %d s", restart.exe,
		         CHECK_MS / 1000);
		return -ETIMEDOUT;
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (WIFSIGNALED(status))
		snprintf(err, err_size, "%s --check-config: ended by signal %d", restart.exe,
		         WTERMSIG(status));
	else
		snprintf(err, err_size, "%s --check-config: %s", restart.exe,
		         n > 0 ? restart_line(said) : "failed");
	return -EINVAL;
}

/* ---- The change ---- */

void
target_restart_now(void)
{
	char number[16];
	int fd = open("/proc/self/exe", O_RDONLY), low;

	/* What the libraries have left open, for threads that they have left, ends here. */
	low = fd < 0 ? -1 : fcntl(fd, F_DUPFD, 3);
	if (low < 0 || close_range((unsigned int)low + 1, ~0U, CLOSE_RANGE_CLOEXEC) != 0 ||
	    (low > 3 && close_range(3, (unsigned int)low - 1, CLOSE_RANGE_CLOEXEC) != 0)) {
		ui_msg("restart: %s", strerror(errno));
		return;
	}
	snprintf(number, sizeof(number), "%d", low);
	target_service_environment();
	if (setenv(BEFORE_ENV, number, 1) == 0)
		execv(restart.exe, restart.argv);
	ui_msg("restart: %s cannot be executed: %s", restart.exe, strerror(errno));
	/* It was checked a moment ago, and is this one or its successor. */
	unsetenv(BEFORE_ENV);
	(void)fcntl(low, F_SETFD, FD_CLOEXEC);
	fexecve(low, restart.argv, environ);
}
