/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The clock: layers get the time from here. */

#include <pthread.h>
#include <time.h>

#include <rte_cycles.h>

#include "engine_priv.h"

/** least time over which the rate of the TSC is measured */
#define CLOCK_MIN_NS    (10 * WEFT_NS_PER_MS)
#define CLOCK_READS     8
#define CLOCK_SANE_PART 100 /**< the measured rate may differ from DPDK's by 1 / this */

static pthread_once_t clock_once = PTHREAD_ONCE_INIT;
static uint64_t clock_base_tsc, clock_mult; /* ns = ticks * mult / 2^32 */
/** Time of loading the program, by the monotonic clock. EAL makes the measured time long. */
static struct weft_engine_moment clock_birth;

/** Read the TSC and a clock at one moment. Of several readings, take the one that took the least
 * time. */
static struct weft_engine_moment
clock_read(clockid_t clock)
{
	struct weft_engine_moment best = {0};
	uint64_t width = UINT64_MAX;

	for (int i = 0; i < CLOCK_READS; i++) {
		uint64_t before = rte_rdtsc_precise(), after;
		struct timespec ts;

		clock_gettime(clock, &ts);
		after = rte_rdtsc_precise();
		if (after - before >= width)
			continue;
		width = after - before;
		best.tsc = before + width / 2;
		best.ns = (uint64_t)ts.tv_sec * WEFT_NS_PER_S + (uint64_t)ts.tv_nsec;
	}
	return best;
}

static void __attribute__((constructor)) clock_note_start(void)
{
	clock_birth = clock_read(CLOCK_MONOTONIC);
}

/** The rate of the TSC. DPDK rounds the frequency to 10 MHz, an error of 1.5 ms a second at 2596
 * MHz. The rate by the system's clock is better, unless that clock was changed meanwhile or the
 * computer slept. */
static uint64_t
clock_tsc_mult(void)
{
	uint64_t dpdk = (uint64_t)(((unsigned __int128)WEFT_NS_PER_S << 32) / rte_get_tsc_hz());
	struct weft_engine_moment m = clock_read(CLOCK_MONOTONIC);
	uint64_t ns = m.ns - clock_birth.ns, mult;

	if (m.tsc <= clock_birth.tsc || m.ns <= clock_birth.ns || ns < CLOCK_MIN_NS)
		return dpdk;
	mult = (uint64_t)(((unsigned __int128)ns << 32) / (m.tsc - clock_birth.tsc));
	return (mult > dpdk ? mult - dpdk : dpdk - mult) <= dpdk / CLOCK_SANE_PART ? mult : dpdk;
}

static void
clock_init(void)
{
	clock_base_tsc = rte_rdtsc();
	clock_mult = clock_tsc_mult();
}

void
weft_engine_clock_start(void)
{
	pthread_once(&clock_once, clock_init);
}

uint64_t
weft_engine_cycles_ns(uint64_t cycles)
{
	return (uint64_t)(((unsigned __int128)cycles * clock_mult) >> 32);
}

uint64_t
weft_engine_tsc_ns(uint64_t tsc)
{
	/* The clock starts at one second, so that a time shortly before its start does not wrap. */
	return WEFT_NS_PER_S + weft_engine_cycles_ns(tsc - clock_base_tsc);
}

uint64_t
weft_engine_clock_ns(void)
{
	weft_engine_clock_start();
	return weft_engine_tsc_ns(rte_rdtsc());
}

struct weft_engine_moment
weft_engine_moment_now(void)
{
	weft_engine_clock_start();
	return clock_read(CLOCK_REALTIME);
}

uint64_t
weft_engine_moment_of(const struct weft_engine_moment *now, uint64_t tsc)
{
	/* The TSCs of two processors may differ a little. */
	return now->ns - (tsc < now->tsc ? weft_engine_cycles_ns(now->tsc - tsc) : 0);
}
