/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_SAMPLES_H
#define WEFT_PERF_SAMPLES_H

/** @file The samples of a latency test one by one, as part of a JSON document. */

struct json;
struct perf_result;

/** Write them as `samples_us`, and with several workers how many are of each. */
void perf_json_samples(struct json *j, const struct perf_result *r);

#endif /* WEFT_PERF_SAMPLES_H */
