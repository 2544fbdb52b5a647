/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * A registration is reduced under its STag (draft-talpey-rdma-commit-02 s6): the rules. And readers
 * on any thread: during the change a reader never sees more than before it, and after the change
 * never more than is left.
 */

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "weft_mem_fast.h"
#include "weft_test.h"
#include "weft_mem_find.h"

static uint64_t seed_state;
static uint8_t memory[8192] __attribute__((aligned(4096)));

static void
rng_fill(void *arg, void *buf, size_t len)
{
	uint64_t *x = arg;

	for (size_t i = 0; i < len; i++) {
		*x = *x * 6364136223846793005ULL + 1442695040888963407ULL;
		((uint8_t *)buf)[i] = (uint8_t)(*x >> 33);
	}
}

static struct weft_mem *
table(unsigned int workers)
{
	struct weft_mem *m;

	seed_state = test_seed(7);
	CHECK_EQ(weft_mem_create(16, workers, &(struct weft_rand){rng_fill, &seed_state}, &m), 0);
	return m;
}

static struct weft_mem_attr
attr_of(uint64_t len, uint32_t access)
{
	return (struct weft_mem_attr){
	        .addr = memory, .len_bytes = len, .base_to = 0x1000, .access = access};
}

#define FULL (WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE)

/* ---- The rules ---- */

static int
toy_init(struct weft_hash_state *st, const void *key, size_t key_bytes)
{
	(void)st;
	(void)key;
	return key_bytes == 0 ? 0 : -EINVAL;
}

static void
toy_update(struct weft_hash_state *st, const void *data, size_t len)
{
	(void)st;
	(void)data;
	(void)len;
}

static void
toy_final(struct weft_hash_state *st, void *result)
{
	(void)st;
	memset(result, 0, 4);
}

static void
test_rules(void)
{
	static const struct weft_hash_ops toy = {.name = "toy",
	                                         .result_bytes = 4,
	                                         .init = toy_init,
	                                         .update = toy_update,
	                                         .final = toy_final};
	struct weft_mem *m = table(1);
	struct weft_mem_pd pd = {.mem = m};
	struct weft_mem_attr a = attr_of(100, FULL | WEFT_ACCESS_VERIFY);
	struct weft_mem_mr *mr, snap;
	uint64_t token;
	_Atomic uint32_t bound = 0;

	a.hash = &toy;
	a.bound = &bound;
	CHECK_EQ(weft_mem_reader_register(m, 0), 0);
	weft_mem_online(m, 0);
	CHECK_EQ(weft_mem_reg(m, &pd, &a, &mr), 0);
	CHECK_EQ(weft_mem_narrow(m, mr->stag ^ 1, 0, 1, &token), -ENOENT);
	CHECK_EQ(weft_mem_narrow(m, mr->stag, FULL, 0, &token), -EINVAL);
	CHECK_EQ(weft_mem_narrow(m, mr->stag, FULL, 101, &token), -EINVAL);
	CHECK_EQ(weft_mem_narrow(m, mr->stag, FULL | WEFT_ACCESS_REMOTE_ATOMIC, 100, &token),
	         -EINVAL);
	CHECK_EQ(weft_mem_narrow(m, mr->stag, WEFT_ACCESS_VERIFY, 100, &token), -EOPNOTSUPP);
	bound = 1; /* a bound window */
	CHECK_EQ(weft_mem_narrow(m, mr->stag, FULL, 100, &token), -EBUSY);
	CHECK_EQ(bound, 1);
	bound = 0;
	CHECK(!weft_mem_is_revoked(m, mr->stag));
	weft_mem_snapshot(m, mr, &snap);
	CHECK(snap.access == a.access && snap.len_bytes == 100 && snap.stag == mr->stag);
	CHECK_EQ(weft_mem_narrow(m, mr->stag, WEFT_ACCESS_REMOTE_READ, 60, &token), 0);
	CHECK_EQ(bound, 0);
	CHECK(weft_mem_is_revoked(m, mr->stag) && !weft_mem_is_revoked(m, mr->stag ^ 1));
	CHECK(!weft_mem_narrowed(m, token)); /* this reader might still use the old values */
	weft_mem_quiescent(m, 0);
	CHECK(weft_mem_narrowed(m, token));
	CHECK(weft_mem_lookup(m, mr->stag) == mr);
	weft_mem_snapshot(m, mr, &snap);
	CHECK(snap.access == WEFT_ACCESS_REMOTE_READ && snap.len_bytes == 60);
	CHECK_EQ(weft_mem_check(mr, &pd, 0x1000, 60, WEFT_ACCESS_REMOTE_READ), WEFT_MEM_OK);
	CHECK_EQ(weft_mem_check(mr, &pd, 0x1001, 60, WEFT_ACCESS_REMOTE_READ), WEFT_MEM_BOUNDS);
	CHECK_EQ(weft_mem_check(mr, &pd, 0x103c, 1, WEFT_ACCESS_REMOTE_READ), WEFT_MEM_BOUNDS);
	CHECK_EQ(weft_mem_check(mr, &pd, 0x1000, 1, WEFT_ACCESS_REMOTE_WRITE), WEFT_MEM_ACCESS);
	/* A registration can only be reduced. */
	CHECK_EQ(weft_mem_narrow(m, mr->stag, FULL, 60, &token), -EINVAL);
	CHECK_EQ(weft_mem_narrow(m, mr->stag, WEFT_ACCESS_REMOTE_READ, 61, &token), -EINVAL);
	/* A thread that is reducing it does not prevent another one from invalidating it. */
	bound = WEFT_MEM_NARROWING;
	CHECK_EQ(weft_mem_narrow(m, mr->stag, 0, 1, &token), -EBUSY);
	CHECK_EQ(weft_mem_close(&bound), 0);
	CHECK_EQ(weft_mem_narrow(m, mr->stag, 0, 1, &token), -ENOENT);
	weft_mem_invalidate(m, mr, NULL, NULL);
	weft_mem_reader_unregister(m, 0);
	weft_mem_destroy(m);
}

/* ---- Against readers ---- */

#define KEEP 64

struct race {
	struct weft_mem *m;
	struct weft_mem_pd *pd;
	uint32_t stag;     /**< atomic */
	uint32_t narrowed; /**< atomic: the STag that weft_mem_narrowed() reported */
	bool stop;
	uint64_t looks[2];    /**< atomic */
	uint64_t wide, small; /**< atomic: accesses beyond KEEP that were granted, and refused */
};

/** Check octets beyond the later end, and a right that is removed later. Each is granted or
 * refused. */
static void *
reader(void *arg)
{
	struct race *x = arg;
	static const uint64_t off[] = {0, KEEP - 1, KEEP, KEEP + 1, 4000, 8191};

	weft_mem_online(x->m, 1);
	for (unsigned int i = 0; !__atomic_load_n(&x->stop, __ATOMIC_ACQUIRE); i++) {
		uint64_t o = off[i % RTE_DIM(off)], n = 1 + i % 2 * (8191 - o);
		uint32_t over = __atomic_load_n(&x->narrowed, __ATOMIC_ACQUIRE);
		uint32_t stag = __atomic_load_n(&x->stag, __ATOMIC_ACQUIRE);
		struct weft_mem_mr *mr = weft_mem_lookup(x->m, stag);
		bool rest = o + n <= KEEP;

		if (mr != NULL) {
			enum weft_mem_err e =
			        weft_mem_check(mr, x->pd, 0x1000 + o, n, WEFT_ACCESS_REMOTE_READ);

			CHECK(e == WEFT_MEM_OK || e == WEFT_MEM_BOUNDS);
			CHECK(!rest || e == WEFT_MEM_OK);
			if (over == stag)
				CHECK(rest || e == WEFT_MEM_BOUNDS);
			if (!rest)
				__atomic_fetch_add(e == WEFT_MEM_OK ? &x->wide : &x->small, 1,
				                   __ATOMIC_RELAXED);
			e = weft_mem_check(mr, x->pd, 0x1000, 1, WEFT_ACCESS_REMOTE_WRITE);
			CHECK(e == WEFT_MEM_OK || e == WEFT_MEM_ACCESS);
			if (over == stag)
				CHECK_EQ(e, WEFT_MEM_ACCESS);
		}
		weft_mem_quiescent(x->m, 1);
	}
	weft_mem_offline(x->m, 1);
	return NULL;
}

/** Wait until the reader has checked once more. */
static void
look_again(struct weft_mem *m, const uint64_t *count)
{
	uint64_t was = __atomic_load_n(count, __ATOMIC_RELAXED);

	while (__atomic_load_n(count, __ATOMIC_RELAXED) == was) {
		weft_mem_quiescent(m, 0);
		sched_yield();
	}
}

/* In most rounds the reader runs freely. In some the owner waits until it has checked before and
 * after. */
static void
test_readers(void)
{
	struct weft_mem *m = table(2);
	struct weft_mem_pd pd = {.mem = m};
	struct weft_mem_attr a = attr_of(sizeof(memory), FULL);
	struct race x = {.m = m, .pd = &pd};
	struct weft_mem_mr *mr;
	uint64_t token;
	pthread_t th;

	CHECK_EQ(weft_mem_reader_register(m, 0), 0);
	CHECK_EQ(weft_mem_reader_register(m, 1), 0);
	weft_mem_online(m, 0);
	CHECK_EQ(pthread_create(&th, NULL, reader, &x), 0);
	for (unsigned int i = 0; i < 3000; i++) {
		CHECK_EQ(weft_mem_reg(m, &pd, &a, &mr), 0);
		__atomic_store_n(&x.stag, mr->stag, __ATOMIC_RELEASE);
		if (i % 100 == 0)
			look_again(m, &x.wide);
		else if (i % 3 == 0)
			sched_yield();
		CHECK_EQ(weft_mem_narrow(m, mr->stag, WEFT_ACCESS_REMOTE_READ, KEEP, &token), 0);
		while (!weft_mem_narrowed(m, token)) {
			weft_mem_quiescent(m, 0);
			sched_yield();
		}
		__atomic_store_n(&x.narrowed, mr->stag, __ATOMIC_RELEASE);
		if (i % 100 == 0)
			look_again(m, &x.small);
		else if (i % 5 == 0)
			sched_yield();
		weft_mem_invalidate(m, mr, NULL, NULL);
		weft_mem_quiescent(m, 0);
		weft_mem_reclaim(m);
	}
	__atomic_store_n(&x.stop, true, __ATOMIC_RELEASE);
	CHECK_EQ(pthread_join(th, NULL), 0);
	weft_mem_reader_unregister(m, 0);
	weft_mem_reader_unregister(m, 1);
	weft_mem_destroy(m);
}

/* ---- Against invalidation and the next registration ---- */

static void *
narrower(void *arg)
{
	struct race *x = arg;
	uint64_t token;

	weft_mem_online(x->m, 1);
	while (!__atomic_load_n(&x->stop, __ATOMIC_ACQUIRE)) {
		int r = weft_mem_narrow(x->m, __atomic_load_n(&x->stag, __ATOMIC_ACQUIRE),
		                        WEFT_ACCESS_REMOTE_READ, KEEP, &token);

		CHECK(r == 0 || r == -ENOENT);
		__atomic_fetch_add(&x->looks[r == 0], 1, __ATOMIC_RELAXED);
		weft_mem_quiescent(x->m, 1);
	}
	weft_mem_offline(x->m, 1);
	return NULL;
}

/** Whether the other thread met registrations that were there, and ones that were gone. */
static bool
refill_seen(const struct race *x)
{
	return __atomic_load_n(&x->looks[0], __ATOMIC_RELAXED) >= 100 &&
	       __atomic_load_n(&x->looks[1], __ATOMIC_RELAXED) > 0;
}

/** A thread narrows a registration that is invalidated at this moment. It never changes the next
 * registration. */
static void
test_refill(void)
{
	struct weft_mem *m = table(2);
	struct weft_mem_pd pd = {.mem = m};
	struct weft_mem_attr a = attr_of(sizeof(memory), FULL);
	struct race x = {.m = m, .pd = &pd};
	struct weft_mem_mr *mr, snap;
	pthread_t th;
	uint64_t end;

	CHECK_EQ(weft_mem_reader_register(m, 0), 0);
	CHECK_EQ(weft_mem_reader_register(m, 1), 0);
	weft_mem_online(m, 0);
	CHECK_EQ(weft_mem_alloc(m, &pd, WEFT_MEM_FAST, NULL, NULL, &mr), 0);
	CHECK_EQ(pthread_create(&th, NULL, narrower, &x), 0);
	end = test_now_us() + TEST_WAIT_US;
	for (unsigned int i = 0; i < 3000 || (!refill_seen(&x) && test_now_us() < end); i++) {
		uint32_t stag = weft_mem_take_stag(m, mr);
		int r;

		while ((r = weft_mem_fill(m, mr, &pd, NULL, &a, stag)) == -EAGAIN) {
			weft_mem_quiescent(m, 0);
			sched_yield();
		}
		CHECK_EQ(r, 0);
		/* No other thread knows the new STag. */
		for (unsigned int k = 0; k < 20; k++) {
			CHECK_EQ(weft_mem_access(mr), FULL);
			CHECK_EQ(weft_mem_len(mr), sizeof(memory));
		}
		__atomic_store_n(&x.stag, stag, __ATOMIC_RELEASE);
		if (i % 4 == 0)
			sched_yield();
		weft_mem_snapshot(m, mr, &snap);
		CHECK((snap.access == FULL && snap.len_bytes == sizeof(memory)) ||
		      (snap.access == WEFT_ACCESS_REMOTE_READ && snap.len_bytes == KEEP));
		CHECK_EQ(weft_mem_fast_invalidate(m, mr), 0);
		weft_mem_quiescent(m, 0);
	}
	__atomic_store_n(&x.stop, true, __ATOMIC_RELEASE);
	CHECK_EQ(pthread_join(th, NULL), 0);
	CHECK(x.looks[0] > 0 && x.looks[1] > 0);
	CHECK_EQ(weft_mem_dealloc(m, mr, NULL, NULL), 0);
	weft_mem_reader_unregister(m, 0);
	weft_mem_reader_unregister(m, 1);
	weft_mem_destroy(m);
}

WEFT_TEST_MAIN({"rules", test_rules}, {"readers", test_readers}, {"refill", test_refill})
