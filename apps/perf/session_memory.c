/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The memory of one connection of the serving side: on the medium if one was named or the
 * test needs one. A client may ask for a GiB, which takes most of a second to clear, and a tenth of
 * one to free. Both are done by a thread beside the worker's, which serves its other connections
 * meanwhile.
 */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"

/** So much is cleared at once, in some 100 us. */
#define MEMORY_AT_ONCE (1u << 20)

enum {
	MEMORY_NONE,
	MEMORY_MADE, /**< by a thread; it ends */
};

/** Whether making the memory may take long: a file may have to grow. */
static bool
memory_is_slow(const struct session *s)
{
	return s->mem_bytes > MEMORY_AT_ONCE || s->medium->path != NULL;
}

/** Get the memory, with the content that the test begins with. Any thread. 0 or -errno. */
static int
memory_make(struct session *s)
{
	const struct perf_medium *m = s->medium;
	const uint64_t bytes = (s->mem_bytes + 4095) & ~4095ull;
	struct weft_persist_attr pa = {.size = sizeof(pa),
	                               .driver = m->driver != NULL ? m->driver : "volatile",
	                               .path = m->path,
	                               .bytes = bytes,
	                               .create = true,
	                               .numa_node = -1};
	int rc;

	if (m->driver == NULL && !perf_is_place(s->hello.test) &&
	    s->hello.test != PERF_RPC_DURABLE) {
		s->mem = aligned_alloc(4096, bytes);
		if (s->mem == NULL)
			return -ENOMEM;
	} else {
		rc = weft_persist_open(&pa, &s->persist);
		if (rc != 0)
			return rc;
		s->mem = s->persist->base;
	}
	memset(s->mem, 0, s->mem_bytes);
	if (s->hello.verify != 0 && s->hello.test == PERF_READ)
		for (uint64_t i = 0; i < s->hello.depth; i++)
			flow_pattern(s->mem + i * s->hello.size_bytes, s->hello.size_bytes, i);
	return 0;
}

/** Start a thread that takes no signals. 0 or -errno. */
static int
memory_thread(pthread_t *thread, void *(*fn)(void *), void *arg)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(thread, NULL, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -rc;
}

static void *
memory_maker(void *arg)
{
	struct session *s = arg;

	loop_place_thread(-1);
	s->memory_rc = memory_make(s);
	atomic_store_explicit(&s->memory, MEMORY_MADE, memory_order_release);
	return NULL;
}

int
session_memory_begin(struct session *s)
{
	atomic_init(&s->memory, MEMORY_NONE);
	if (!memory_is_slow(s) || memory_thread(&s->maker, memory_maker, s) != 0)
		return memory_make(s);
	s->making = true;
	return -EINPROGRESS;
}

bool
session_memory_ready(struct session *s, int *rc)
{
	if (atomic_load_explicit(&s->memory, memory_order_acquire) != MEMORY_MADE)
		return false;
	session_memory_wait(s);
	*rc = s->memory_rc;
	return true;
}

void
session_memory_wait(struct session *s)
{
	if (s->making)
		pthread_join(s->maker, NULL);
	s->making = false;
}

/* ---- Freeing ---- */

static void
memory_free(struct session *s)
{
	if (s->persist != NULL)
		weft_persist_close(s->persist);
	else
		free(s->mem);
	s->persist = NULL;
	s->mem = NULL;
	/* The session may be gone with the next octet. */
	atomic_store_explicit(&s->closing, false, memory_order_release);
}

static void *
memory_freer(void *arg)
{
	loop_place_thread(-1);
	memory_free(arg);
	return NULL;
}

/** Nothing uses the memory any more. */
static void
memory_drop(void *arg)
{
	struct session *s = arg;
	pthread_t thread;

	if (memory_is_slow(s) && memory_thread(&thread, memory_freer, s) == 0)
		(void)pthread_detach(thread);
	else
		memory_free(s);
}

void
session_memory_end(struct session *s)
{
	session_memory_wait(s);
	s->closing = s->mem != NULL;
	/* The next client may use the same medium, so it waits until nothing accesses it for
	 * this one. */
	if (s->host != NULL)
		weft_log_host_destroy(s->host, memory_drop, s);
	else if (s->mr != NULL)
		weft_mr_dereg(s->mr, memory_drop, s);
	else if (s->mem != NULL)
		memory_drop(s);
	s->host = NULL;
	s->mr = NULL;
}
