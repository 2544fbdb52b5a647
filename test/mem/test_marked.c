/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Marking by address: which media are marked, and media that open and close at the same
 * time. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "medium_priv.h"
#include "weft_test.h"

#define PAGE   4096
#define PAGES  4
#define ROUNDS 300

/** A medium of PAGES pages, without a driver. */
struct medium {
	struct weft_persist p;
	uint8_t dirty[PAGES];
};

static uint8_t memory[3 * PAGES * PAGE] __attribute__((aligned(PAGE)));

static void
medium_open(struct medium *m, unsigned int at)
{
	memset(m, 0, sizeof(*m));
	m->p.base = memory + (size_t)at * PAGES * PAGE;
	m->p.bytes = PAGES * PAGE;
	m->p.dirty = m->dirty;
	CHECK_EQ(medium_marked_add(&m->p), 0);
}

static unsigned int
marks(struct medium *m)
{
	unsigned int bits = 0;

	for (unsigned int i = 0; i < PAGES; i++)
		bits |= (unsigned int)atomic_exchange_explicit((_Atomic uint8_t *)&m->dirty[i], 0,
		                                               memory_order_acq_rel)
		        << i;
	return bits;
}

static void
test_by_address(void)
{
	struct medium a, b;

	weft_medium_mark_at(memory, 1); /* no medium is open */
	medium_open(&a, 0);
	medium_open(&b, 2);
	weft_medium_mark_at(memory + PAGE - 1, 2);
	CHECK_EQ(marks(&a), 3);
	CHECK_EQ(marks(&b), 0);
	weft_medium_mark_at(memory + PAGES * PAGE, PAGE); /* between the two */
	CHECK_EQ(marks(&a) | marks(&b), 0);
	weft_medium_mark_at(memory + PAGES * PAGE - 1, PAGES * PAGE + 2);
	CHECK_EQ(marks(&a), 1 << (PAGES - 1));
	CHECK_EQ(marks(&b), 1);
	medium_marked_del(&a.p);
	weft_medium_mark_at(memory, sizeof(memory));
	CHECK_EQ(marks(&a), 0);
	CHECK_EQ(marks(&b), (1 << PAGES) - 1);
	medium_marked_del(&b.p);
	CHECK(weft_medium_marked.to == 0);
	weft_medium_mark_at(memory, sizeof(memory));
	CHECK_EQ(marks(&a) | marks(&b), 0);
}

static atomic_bool stop;
static atomic_uint stores;

/** A worker: stores, and marks the memory. */
static void *
worker_main(void *arg)
{
	(void)arg;
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		weft_medium_mark_at(memory, sizeof(memory));
		atomic_fetch_add_explicit(&stores, 1, memory_order_release);
	}
	return NULL;
}

/* Two workers mark while media open and close. An open medium is marked by every store, a closed
 * one by none. */
static void
test_threads(void)
{
	struct medium stays, *goes = malloc(sizeof(*goes));
	pthread_t t[2];

	CHECK(goes != NULL);
	medium_open(&stays, 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, worker_main, NULL), 0);
	for (int i = 0; i < ROUNDS; i++) {
		unsigned int before;

		medium_open(goes, 1 + (unsigned int)i % 2);
		(void)marks(&stays);
		before = atomic_load_explicit(&stores, memory_order_acquire);
		/* Of three stores, at least one began after the marks were cleared. */
		while (atomic_load_explicit(&stores, memory_order_acquire) - before < 3)
			sched_yield();
		CHECK_EQ(marks(&stays), (1 << PAGES) - 1);
		medium_marked_del(&goes->p);
		(void)marks(goes);
		free(goes); /* AddressSanitizer and ThreadSanitizer report a later access */
		goes = malloc(sizeof(*goes));
		CHECK(goes != NULL);
	}
	atomic_store_explicit(&stop, true, memory_order_relaxed);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	medium_marked_del(&stays.p);
	free(goes);
}

WEFT_TEST_MAIN({"by address", test_by_address}, {"threads", test_threads})
