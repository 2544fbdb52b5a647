/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The cost of a piece of the thread's work, as the kernel and the processor account it,
 * and samples of it. */

#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include <rte_common.h>

#include "bench.h"
#include "slicing.h"

#define PROBE_PIECE_NS 8000

/* ---- Samples ---- */

void
samples_add(struct samples *s, uint64_t ns)
{
	if (s->n == s->room) {
		s->room = s->room == 0 ? 1 << 16 : 2 * s->room;
		s->ns = realloc(s->ns, s->room * sizeof(s->ns[0]));
		if (s->ns == NULL)
			bench_die("no memory");
	}
	s->ns[s->n++] = (uint32_t)RTE_MIN(ns, UINT32_MAX);
	s->sorted = false;
}

static int
samples_by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

double
samples_pct_us(struct samples *s, double pct)
{
	if (s->n == 0)
		return 0;
	if (!s->sorted)
		qsort(s->ns, s->n, sizeof(s->ns[0]), samples_by_value);
	s->sorted = true;
	return s->ns[RTE_MIN(s->n - 1, (size_t)((double)s->n * pct / 100))] / 1e3;
}

uint64_t
samples_below(const struct samples *s, double us)
{
	uint64_t n = 0;

	for (size_t i = 0; i < s->n; i++)
		n += s->ns[i] < us * 1e3;
	return n;
}

/* ---- Clock and counters ---- */

static uint64_t
probe_cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/** Arithmetic without a memory access. Returns its duration. */
static uint64_t
probe_arithmetic(uint64_t steps)
{
	uint64_t t0 = probe_cpu_ns(), x = 1;

	for (uint64_t i = 0; i < steps; i++) {
		x = x * 6364136223846793005u + 1;
		__asm__ volatile("" : "+r"(x));
	}
	return probe_cpu_ns() - t0;
}

static void
probe_rusage(struct probe *p, int sign)
{
	struct rusage ru;

	getrusage(RUSAGE_THREAD, &ru);
	p->faults += sign * (ru.ru_minflt + ru.ru_majflt);
	p->waits += sign * ru.ru_nvcsw;
	p->preempted += sign * ru.ru_nivcsw;
}

void
probe_begin(struct probe *p)
{
	*p = (struct probe){0};
	probe_rusage(p, -1);
	p->cpu_ns = probe_cpu_ns();
}

void
probe_end(struct probe *p)
{
	p->cpu_ns = probe_cpu_ns() - p->cpu_ns;
	probe_rusage(p, 1);
}

void
probe_floor(struct samples *s, double seconds)
{
	uint64_t steps = 20000, best = UINT64_MAX;

	for (int i = 0; i < 50; i++)
		best = RTE_MIN(best, probe_arithmetic(steps));
	steps = steps * PROBE_PIECE_NS / best;
	for (double end = bench_now_s() + seconds; bench_now_s() < end;) {
		struct probe p = {0};
		uint64_t ns;

		probe_rusage(&p, -1);
		ns = probe_arithmetic(steps);
		probe_rusage(&p, 1);
		if (p.preempted == 0 && p.waits == 0)
			samples_add(s, ns);
	}
}
