/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Shared by measuring programs; see bench.h. */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

#include "bench.h"

void
bench_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

void
bench_must(int rc, const char *what)
{
	if (rc < 0)
		bench_die("%s: %s", what, strerror(-rc));
}

double
bench_now_s(void)
{
	return (double)rte_rdtsc() / (double)rte_get_tsc_hz();
}

static int
bench_by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

double
bench_median(double *v, uint32_t n)
{
	qsort(v, n, sizeof(v[0]), bench_by_value);
	return v[n / 2];
}
