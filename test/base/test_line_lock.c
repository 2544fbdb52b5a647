/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A lock that threads get in the order of their calls. One thread has it at a time, and no
 * thread gets it twice while another one waits. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "weft_line_lock.h"
#include "weft_test.h"

#define THREADS 4
#define ROUNDS  2000

static struct weft_line_lock lock;
static atomic_uint inside, two_at_once;
/* protected by the lock */
static unsigned int turns[THREADS], last, contended, twice;
static bool awaited; /* a thread was waiting when `last` released the lock */

/** The number of threads that wait behind the owner. It only grows while the owner has the lock. */
static uint64_t
in_line(void)
{
	uint64_t n;

	pthread_mutex_lock(&lock.m);
	n = lock.next - lock.serving - 1;
	pthread_mutex_unlock(&lock.m);
	return n;
}

static void *
greedy(void *arg)
{
	unsigned int who = (unsigned int)(uintptr_t)arg;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		weft_line_lock(&lock);
		if (atomic_fetch_add(&inside, 1) != 0)
			atomic_fetch_add(&two_at_once, 1);
		twice += awaited && last == who;
		turns[who]++;
		for (unsigned int n = 0; in_line() == 0 && n < 10; n++)
			usleep(1);
		last = who;
		awaited = in_line() > 0;
		contended += awaited;
		atomic_fetch_sub(&inside, 1);
		weft_line_unlock(&lock);
	}
	return NULL;
}

static void
test_in_line(void)
{
	pthread_t t[THREADS];

	weft_line_lock_init(&lock);
	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, greedy, (void *)i), 0);
	for (unsigned int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(t[i], NULL), 0);
	for (unsigned int i = 0; i < THREADS; i++)
		CHECK_EQ(turns[i], ROUNDS);
	CHECK_EQ(two_at_once, 0);
	CHECK_EQ(twice, 0);
	test_note("others were in line %u times of %u", contended, ROUNDS * THREADS);
	CHECK(contended > ROUNDS);
	weft_line_lock_fini(&lock);
}

/* A try succeeds only if no thread has the lock. It is then locked as by weft_line_lock(). */
static void
test_try(void)
{
	weft_line_lock_init(&lock);
	CHECK(weft_line_trylock(&lock));
	CHECK(!weft_line_trylock(&lock));
	weft_line_unlock(&lock);
	weft_line_lock(&lock);
	CHECK(!weft_line_trylock(&lock));
	weft_line_unlock(&lock);
	CHECK(weft_line_trylock(&lock));
	weft_line_unlock(&lock);
	weft_line_lock_fini(&lock);
}

WEFT_TEST_MAIN({"in line", test_in_line}, {"try", test_try})
