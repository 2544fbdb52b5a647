/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Ctrl-C: SIGINT ends the command that runs, and no more. If it was ignored, it stays so. */

#include "script.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

static atomic_bool came;
static int wake = -1;

static void
on_sigint(int sig)
{
	const int saved = errno;
	const uint64_t one = 1;

	/* The command has not taken the last one: the next one after this ends the program. */
	if (atomic_exchange_explicit(&came, true, memory_order_relaxed))
		signal(sig, SIG_DFL);
	if (write(wake, &one, sizeof(one)) < 0)
		errno = saved;
	errno = saved;
}

static int
catch_sigint(void)
{
	struct sigaction sa = {.sa_handler = on_sigint, .sa_flags = SA_RESTART};

	sigemptyset(&sa.sa_mask);
	return sigaction(SIGINT, &sa, NULL) == 0 ? 0 : -errno;
}

int
interrupt_init(void)
{
	struct sigaction was;

	wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wake < 0 || sigaction(SIGINT, NULL, &was) != 0)
		return -errno;
	/* A shell ignores it in what runs in the background. */
	return was.sa_handler == SIG_IGN ? 0 : catch_sigint();
}

bool
interrupted(void)
{
	return atomic_load_explicit(&came, memory_order_relaxed);
}

int
interrupt_fd(void)
{
	return wake;
}

void
interrupt_clear(void)
{
	uint64_t n;

	if (!interrupted())
		return;
	while (read(wake, &n, sizeof(n)) > 0)
		;
	atomic_store_explicit(&came, false, memory_order_relaxed);
	catch_sigint();
}
