/* SPDX-License-Identifier: BSD-3-Clause */
/** @file After the first calls, weft_commit() does not allocate memory, on the worker and on
 * another thread. */

#include <pthread.h>

#include "vt_commit.h"

#ifndef __SANITIZE_ADDRESS__
extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t k, size_t n);
extern void *__libc_realloc(void *p, size_t n);

static _Thread_local bool heap_watched;
static _Thread_local unsigned int heap_calls;

void *
malloc(size_t n)
{
	heap_calls += heap_watched;
	return __libc_malloc(n);
}

void *
calloc(size_t k, size_t n)
{
	heap_calls += heap_watched;
	return __libc_calloc(k, n);
}

void *
realloc(void *p, size_t n)
{
	heap_calls += heap_watched;
	return __libc_realloc(p, n);
}

static void *
heap_post(void *arg)
{
	struct vt *t = arg;

	heap_calls = 0;
	for (unsigned int i = 0; i < 4; i++) {
		struct ct x;
		int rc;

		ct_make(t, &x, i, 1000);
		heap_watched = true;
		rc = weft_commit(t->n[0].qp, &x.c);
		heap_watched = false;
		if (rc != 0)
			return (void *)UINTPTR_MAX;
	}
	return (void *)(uintptr_t)heap_calls;
}

static void
test_no_heap(void)
{
	struct vt t;

	ct_open(&t, NULL, NULL);
	for (unsigned int round = 0; round < 20; round++) {
		void *calls = NULL;
		pthread_t th;

		if (round % 2 == 0) {
			calls = heap_post(&t);
		} else {
			CHECK_EQ(pthread_create(&th, NULL, heap_post, &t), 0);
			pthread_join(th, &calls);
		}
		/* the first call allocates the watch, and the first call of another thread the
		 * ring */
		CHECK_MSG((uintptr_t)calls == 0 || round < 2, "round %u: %zu", round,
		          (size_t)calls);
		CHECK((uintptr_t)calls < 3);
		for (unsigned int i = 0; i < 4; i++)
			ct_done(&t, 100 + i);
	}
	vt_close(&t);
}
#else
static void
test_no_heap(void)
{
	test_skip("the sanitizer has the heap");
}
#endif

WEFT_TEST_MAIN({"no heap", test_no_heap})
