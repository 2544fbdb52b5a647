/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What passes between the main thread and a worker: calls, and notes. */

#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <weft/worker.h>

#include "worker_side.h"

struct call {
	void (*fn)(void *arg);
	void *arg;
	sem_t done;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct note *first, **last = &first; /* under the lock */
static int fd = -1;

static void
call_run(void *arg)
{
	struct call *c = arg;

	c->fn(c->arg);
	sem_post(&c->done);
}

int
worker_side_call(struct weft_worker *w, void (*fn)(void *arg), void *arg)
{
	struct call c = {.fn = fn, .arg = arg};
	int rc;

	sem_init(&c.done, 0, 0);
	rc = weft_worker_call(w, call_run, &c);
	/* A signal interrupts the wait. c must live until the call has run. */
	while (rc == 0 && sem_wait(&c.done) != 0)
		;
	sem_destroy(&c.done);
	return rc;
}

static void
fd_make(void)
{
	fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

int
note_fd(void)
{
	pthread_once(&once, fd_make);
	return fd;
}

void
note_add(enum note_kind kind, const char *var, const char *value, const char *fmt, ...)
{
	struct note *n = malloc(sizeof(*n));
	const uint64_t one = 1;
	va_list ap;

	if (n == NULL)
		return;
	n->kind = kind;
	n->next = NULL;
	snprintf(n->var, sizeof(n->var), "%s", var != NULL ? var : "");
	snprintf(n->value, sizeof(n->value), "%s", var != NULL ? value : "");
	va_start(ap, fmt);
	vsnprintf(n->line, sizeof(n->line), fmt, ap);
	va_end(ap);
	pthread_mutex_lock(&lock);
	*last = n;
	last = &n->next;
	/* It fails only when the count is at its end, and then it is readable. */
	if (write(note_fd(), &one, sizeof(one)) < 0)
		n = NULL;
	pthread_mutex_unlock(&lock);
}

bool
note_take(struct note *out)
{
	struct note *n;
	uint64_t count;

	pthread_mutex_lock(&lock);
	n = first;
	if (n != NULL)
		first = n->next;
	if (first == NULL) {
		last = &first;
		/* Under the lock, so that no note comes in between. */
		if (read(note_fd(), &count, sizeof(count)) < 0)
			count = 0;
	}
	pthread_mutex_unlock(&lock);
	if (n == NULL)
		return false;
	*out = *n;
	free(n);
	return true;
}
