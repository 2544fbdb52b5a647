/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The names of the tests, and what a job is called. */

#include <stdio.h>

#include "job.h"
#include "mix.h"

const char *
perf_job_name(const struct perf_job *job)
{
	return job->mix != NULL && job->mix->tests != NULL ? "mix" : perf_test_names[job->test];
}

double
perf_mean_bytes(const struct perf_job *job)
{
	return job->mix != NULL ? job->mix->mean_bytes : job->size_bytes;
}

const char *
perf_size_text(const struct perf_job *job, char *buf, size_t bytes)
{
	const bool several = job->mix != NULL && job->mix->sizes != NULL;

	snprintf(buf, bytes, "%.0f octets%s", perf_mean_bytes(job), several ? " on average" : "");
	return buf;
}

const char *const perf_test_names[PERF_NTESTS] = {
        [PERF_WRITE] = "write",
        [PERF_READ] = "read",
        [PERF_SEND] = "send",
        [PERF_ATOMIC_WRITE] = "atomic-write",
        [PERF_FETCH_ADD] = "fetch-add",
        [PERF_CMP_SWAP] = "cmp-swap",
        [PERF_WRITE_IMM] = "write-imm",
        [PERF_FLUSH] = "flush",
        [PERF_VERIFY] = "verify",
        [PERF_COMMIT] = "commit",
        [PERF_COMMIT_BARE] = "commit-bare",
        [PERF_TWO_SIDED] = "two-sided",
        [PERF_TWO_SIDED_2] = "two-sided-2",
        [PERF_LOG_APPEND] = "log-append",
        [PERF_RPC_NULL] = "rpc-null",
        [PERF_RPC_READ] = "rpc-read",
        [PERF_RPC_WRITE] = "rpc-write",
        [PERF_RPC_DURABLE] = "rpc-durable",
        [PERF_VOLUME_READ] = "volume-read",
        [PERF_VOLUME_WRITE] = "volume-write",
};
