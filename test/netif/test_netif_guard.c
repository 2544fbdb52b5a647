/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A driver's memory disappears during a burst: the burst ends, and the process continues. */

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../lib/netif/netif_guard.h"
#include "weft_test.h"

static volatile uint8_t *ring;

static uint16_t
touching_burst(void *arg, struct rte_mbuf **pkts, uint16_t n)
{
	(void)arg;
	(void)pkts;
	return ring[64] == 0 ? n : 0;
}

static void
map_ring(void)
{
	ring = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(ring != MAP_FAILED);
}

static void
test_fault(void)
{
	uint64_t faults = 0;

	netif_guard_install();
	map_ring();
	CHECK_EQ(netif_guard_burst(touching_burst, NULL, NULL, 32, 0, &faults), 32);
	munmap((void *)ring, 4096);
	/* Repeated, because the signal must not stay blocked. */
	for (unsigned int i = 1; i <= 100; i++) {
		CHECK_EQ(netif_guard_burst(touching_burst, NULL, NULL, 32, i % 2 ? 0 : 32, &faults),
		         i % 2 ? 0 : 32);
		CHECK_EQ(faults, i);
	}
	map_ring();
	CHECK_EQ(netif_guard_burst(touching_burst, NULL, NULL, 7, 0, &faults), 7);
	munmap((void *)ring, 4096);
}

static uint16_t
nesting_burst(void *arg, struct rte_mbuf **pkts, uint16_t n)
{
	uint64_t *inner = arg;

	/* A callback of ethdev that forwards frames to another such device. */
	CHECK_EQ(netif_guard_burst(touching_burst, NULL, pkts, n, 3, inner), 3);
	return touching_burst(NULL, pkts, n);
}

static void
test_nested(void)
{
	uint64_t inner = 0, outer = 0;

	netif_guard_install();
	map_ring();
	munmap((void *)ring, 4096);
	CHECK_EQ(netif_guard_burst(nesting_burst, &inner, NULL, 32, 5, &outer), 5);
	CHECK_EQ(inner, 1);
	CHECK_EQ(outer, 1);
}

static void *
poll_ring(void *arg)
{
	uint64_t *faults = arg;

	while (__atomic_load_n(faults, __ATOMIC_RELAXED) == 0)
		netif_guard_burst(touching_burst, NULL, NULL, 32, 0, faults);
	return NULL;
}

/** Another thread unmaps the memory while this one polls, as EAL's interrupt thread does. */
static void
test_unmapped_by_another_thread(void)
{
	netif_guard_install();
	for (unsigned int i = 0; i < 50; i++) {
		uint64_t faults = 0;
		pthread_t t;

		map_ring();
		CHECK_EQ(pthread_create(&t, NULL, poll_ring, &faults), 0);
		/* Reserve the addresses, so that no other mapping takes them before this thread
		 * accesses them. */
		CHECK(mmap((void *)ring, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		           -1, 0) == (void *)ring);
		pthread_join(t, NULL);
		CHECK_EQ(faults, 1);
		munmap((void *)ring, 4096);
	}
}

/** A fault outside a guarded burst still ends the process. */
static void
test_other_faults(void)
{
	int status;
	pid_t pid;

	netif_guard_install();
	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		fclose(stderr);
		map_ring();
		munmap((void *)ring, 4096);
		ring[0] = 1;
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
}

/** So does a signal sent by a process. */
static void
test_sent_signal(void)
{
	int status;
	pid_t pid;

	netif_guard_install();
	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		fclose(stderr);
		kill(getpid(), SIGSEGV);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != 0);
}

WEFT_TEST_MAIN({"fault", test_fault},
               {"a guarded burst inside another one: each ends alone", test_nested},
               {"unmapped by another thread", test_unmapped_by_another_thread},
               {"other faults", test_other_faults}, {"sent signal", test_sent_signal})
