/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Attempts of a transfer in processes of their own, with waits in between that grow. */

#include "cp_retry.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ui.h"

#define RETRY_WAIT_MAX_NS 30000000000ULL
/* The waits of attempts that go on after a lost connection. */
#define RETRY_BACK_NS     100000000ULL
#define RETRY_BACK_MAX_NS 1000000000ULL

/** The signals that the waiting process takes by sigtimedwait(). */
static void
retry_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGCHLD);
}

/** Wait for the process and give it the signals that come: its exit status. */
static int
retry_wait(const struct cp_retry *r, pid_t pid, const sigset_t *set)
{
	int status;

	for (;;) {
		pid_t got = waitpid(pid, &status, WNOHANG);
		int sig;

		if (got < 0 && errno != EINTR)
			return CP_EXIT_FAIL;
		if (got == pid)
			break;
		sig = sigwaitinfo(set, NULL);
		if (sig == SIGINT || sig == SIGTERM) {
			*r->stop = sig;
			kill(pid, sig);
		}
	}
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	return 128 + WTERMSIG(status);
}

/** Wait before the next attempt. False: a signal came. */
static bool
retry_pause(const struct cp_retry *r, uint64_t ns, const sigset_t *set)
{
	const uint64_t end = ui_now_ns() + ns;
	uint64_t now;

	while (*r->stop == 0 && (now = ui_now_ns()) < end) {
		const struct timespec ts = {.tv_sec = (time_t)((end - now) / 1000000000ULL),
		                            .tv_nsec = (long)((end - now) % 1000000000ULL)};
		int sig = sigtimedwait(set, NULL, &ts);

		if (sig == SIGINT || sig == SIGTERM)
			*r->stop = sig;
	}
	return *r->stop == 0;
}

/** Start an attempt; the process, or -1. */
static pid_t
retry_start(const struct cp_retry *r, struct cp_shared *shared, bool again, const sigset_t *set,
            const sigset_t *before)
{
	const pid_t parent = getpid();
	pid_t pid;

	fflush(stdout);
	shared->err[0] = '\0';
	sigprocmask(SIG_BLOCK, set, NULL);
	pid = fork();
	if (pid != 0)
		return pid;
	/* The attempt ends with the process that would repeat it. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(CP_EXIT_FAIL);
	sigprocmask(SIG_SETMASK, before, NULL);
	exit(r->attempt(r->arg, shared, again));
}

/** Whether an attempt is made because the connection was lost. *lost_ns: when, 0 if it was not. */
static bool
retry_goes_on(const struct cp_retry *r, const struct cp_shared *shared, int status,
              uint64_t *lost_ns)
{
	const uint64_t now = ui_now_ns();
	/* A target that has come back may not serve the export yet. */
	const bool lost = status == CP_EXIT_LOST || (status == CP_EXIT_BUSY && *lost_ns != 0);

	if (!lost || !shared->begun || shared->consumed || r->reconnect_ns == 0)
		return false;
	if (*lost_ns == 0)
		*lost_ns = now;
	return now - *lost_ns < r->reconnect_ns;
}

static bool
retry_may_pass(int status)
{
	return status == CP_EXIT_LOST || status == CP_EXIT_BUSY;
}

/** Clients that a target's end has thrown out together do not come back together: the wait is drawn
 * from three quarters of the time to five. */
static uint64_t
retry_jitter(uint64_t ns)
{
	return ns / 4 * 3 + (uint64_t)((double)ns / 2 * drand48());
}

static int
retry_attempts(const struct cp_retry *r, struct cp_shared *shared, const sigset_t *set,
               const sigset_t *before)
{
	const char *what = "", *colon = "";
	uint64_t wait_ns = r->wait_ns, best = 0, ns;
	uint64_t lost_ns = r->lost_ns, pause_ns = RETRY_BACK_NS;
	uint32_t left = r->retries;
	bool again = lost_ns != 0, known;

	for (;;) {
		pid_t pid = retry_start(r, shared, again, set, before);
		int status;

		if (pid < 0) {
			ui_msg("%s%scannot start a process: %s", what, colon, strerror(errno));
			return CP_EXIT_FAIL;
		}
		status = retry_wait(r, pid, set);
		if (status == CP_EXIT_OK)
			return status;
		shared->err[sizeof(shared->err) - 1] = '\0';
		if (shared->err[0] == '\0')
			snprintf(shared->err, sizeof(shared->err),
			         "the transfer's process ended "
			         "with status %d",
			         status);
		/* Many reasons name the file themselves. */
		if (r->what != NULL && strncmp(shared->err, r->what, strlen(r->what)) != 0) {
			what = r->what;
			colon = ": ";
		}
		if (shared->done_bytes > best && lost_ns != 0) {
			lost_ns = 0;
			pause_ns = RETRY_BACK_NS;
		}
		known = lost_ns != 0;
		if (*r->stop == 0 && retry_goes_on(r, shared, status, &lost_ns)) {
			if (!known)
				cp_retry_say(r, shared->err);
			best = shared->done_bytes > best ? shared->done_bytes : best;
			if (!retry_pause(r, retry_jitter(pause_ns), set)) {
				ui_msg("%s%sinterrupted", what, colon);
				return 128 + *r->stop;
			}
			pause_ns =
			        2 * pause_ns < RETRY_BACK_MAX_NS ? 2 * pause_ns : RETRY_BACK_MAX_NS;
			again = true;
			continue;
		}
		if (*r->stop != 0 || !retry_may_pass(status) || r->retries == 0) {
			ui_msg("%s%s%s%s", what, colon, shared->err,
			       lost_ns != 0 && *r->stop == 0 && retry_may_pass(status)
			               ? "; the target has not come back"
			               : "");
			return status;
		}
		if (shared->done_bytes > best) {
			best = shared->done_bytes;
			left = r->retries;
			wait_ns = r->wait_ns;
		}
		if (left == 0 || shared->consumed) {
			ui_msg("%s%s%s%s", what, colon, shared->err,
			       shared->consumed ? "; not tried again: a pipe was read or written"
			                        : "; no retry is left");
			return status;
		}
		left--;
		ns = retry_jitter(wait_ns);
		ui_msg("%s%s%s; again in %.1f s, %u %s left", what, colon, shared->err,
		       (double)ns / 1e9, left + 1, left == 0 ? "retry" : "retries");
		if (!retry_pause(r, ns, set)) {
			ui_msg("%s%sinterrupted", what, colon);
			return 128 + *r->stop;
		}
		wait_ns = 2 * wait_ns < RETRY_WAIT_MAX_NS ? 2 * wait_ns : RETRY_WAIT_MAX_NS;
		again = true;
	}
}

void
cp_retry_say(const struct cp_retry *r, const char *err)
{
	ui_msg("%s%s%s; going on when the target is back, for up to %.3g s",
	       r->what != NULL ? r->what : "", r->what != NULL ? ": " : "", err,
	       (double)r->reconnect_ns / 1e9);
}

int
cp_retry_run(const struct cp_retry *r)
{
	struct cp_shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
	                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	sigset_t set, before;
	int status;

	if (shared == MAP_FAILED) {
		ui_msg("not enough memory");
		return CP_EXIT_FAIL;
	}
	shared->pid = getpid();
	shared->begun = r->lost_ns != 0;
	snprintf(shared->temp, sizeof(shared->temp), "%s", r->temp);
	srand48((long)(ui_now_ns() ^ (uint64_t)getpid()));
	retry_signals(&set);
	sigprocmask(SIG_BLOCK, &set, &before);
	status = retry_attempts(r, shared, &set, &before);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (status != CP_EXIT_OK && shared->temp[0] != '\0')
		unlink(shared->temp);
	munmap(shared, sizeof(*shared));
	return status;
}
