/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Prints the samples of a latency test one by one, in the order of the messages. */

#include <inttypes.h>

#include "json.h"
#include "perf.h"
#include "samples.h"

static double
sample_us(const struct perf_result *r, uint64_t i)
{
	return (double)r->samples[i] / (r->half ? 2000 : 1000);
}

/** The worker, counted from 0, whose samples those from number i on are; *end: behind its last. */
static uint32_t
sample_worker(const struct perf_result *r, uint64_t i, uint64_t *end)
{
	uint32_t w = 0;

	*end = r->samples_of[0];
	while (*end <= i && w + 1 < PERF_MAX_WORKERS)
		*end += r->samples_of[++w];
	return w;
}

void
perf_print_samples(FILE *f, const struct perf_result *r)
{
	const bool several = r->job.workers > 1;
	uint64_t end = 0, n = 0;
	uint32_t w = 0;

	fprintf(f, several ? "#, usec, worker\n" : "#, usec\n");
	for (uint64_t i = 0; i < r->hist->n; i++) {
		if (i >= end) {
			w = sample_worker(r, i, &end);
			n = 0;
		}
		fprintf(f, "%" PRIu64 ", %.3f", ++n, sample_us(r, i));
		if (several)
			fprintf(f, ", %u", w);
		fputc('\n', f);
	}
	fflush(f);
}

void
perf_print_samples_csv(FILE *f, const struct perf_result *res, unsigned int n)
{
	fprintf(f, "test,bytes,worker,sample,t_us\n");
	for (unsigned int k = 0; k < n; k++) {
		const struct perf_result *r = &res[k];
		uint64_t end = 0, at = 0;
		uint32_t w = 0;

		for (uint64_t i = 0; i < r->hist->n; i++) {
			if (i >= end) {
				w = sample_worker(r, i, &end);
				at = 0;
			}
			fprintf(f, "%s,%u,%u,%" PRIu64 ",%.3f\n", perf_job_name(&r->job),
			        r->job.size_bytes, w, ++at, sample_us(r, i));
		}
	}
	fflush(f);
}

void
perf_json_samples(struct json *j, const struct perf_result *r)
{
	json_arr(j, "samples_us");
	for (uint64_t i = 0; i < r->hist->n; i++)
		json_dbl(j, NULL, sample_us(r, i), 3);
	json_arr_end(j);
	if (r->job.workers <= 1)
		return;
	json_arr(j, "samples_of_worker");
	for (uint32_t i = 0; i < r->job.workers; i++)
		json_u64(j, NULL, r->samples_of[i]);
	json_arr_end(j);
}
