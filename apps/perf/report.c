/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Prints results in perftest's columns, and as JSON. */

#include <inttypes.h>

#include "json.h"
#include "perf.h"

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
};

void
perf_print_head(FILE *f, const struct perf_job *job)
{
	if (job->latency)
		fprintf(f, " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    "
		           "t_avg[usec]    t_stdev[usec]   99%% percentile[usec]   99.9%% "
		           "percentile[usec]   cycles/msg\n");
	else
		fprintf(f, " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   "
		           "MsgRate[Mpps]   cycles/msg\n");
}

void
perf_print_row(FILE *f, const struct perf_result *r)
{
	if (r->job.latency)
		fprintf(f,
		        " %-7u %-10" PRIu64
		        "     %-12.2f   %-11.2f  %-15.2f    %-11.2f    %-13.2f   "
		        "%-21.2f   %-22.2f   %.0f\n",
		        r->job.size_bytes, r->iterations, r->lat_min_us, r->lat_max_us,
		        r->lat_typical_us, r->lat_avg_us, r->lat_stdev_us, r->lat_p99_us,
		        r->lat_p999_us, r->cycles_per_msg);
	else
		fprintf(f, " %-10u %-10" PRIu64 "       %-15.2f    %-18.2f   %-13.6f   %.0f\n",
		        r->job.size_bytes, r->iterations, r->peak_mbps, r->avg_mbps, r->mmsgs,
		        r->cycles_per_msg);
	fflush(f);
}

void
perf_print_json(FILE *f, const struct perf_result *res, unsigned int n)
{
	struct json j;

	json_start(&j, f);
	json_obj(&j, NULL);
	json_str(&j, "version", weft_version());
	json_arr(&j, "results");
	for (unsigned int i = 0; i < n; i++) {
		const struct perf_result *r = &res[i];

		json_obj(&j, NULL);
		json_str(&j, "test", perf_test_names[r->job.test]);
		json_str(&j, "mode", r->job.latency ? "latency" : "bandwidth");
		json_u64(&j, "bytes", r->job.size_bytes);
		json_u64(&j, "iterations", r->iterations);
		json_u64(&j, "depth", r->job.latency ? 1 : r->job.depth);
		if (perf_is_rpc(r->job.test))
			json_u64(&j, "rpc_version", r->job.rpc_version);
		json_dbl(&j, "seconds", r->seconds, 6);
		if (r->job.latency) {
			json_dbl(&j, "t_min_us", r->lat_min_us, 3);
			json_dbl(&j, "t_max_us", r->lat_max_us, 3);
			json_dbl(&j, "t_typical_us", r->lat_typical_us, 3);
			json_dbl(&j, "t_avg_us", r->lat_avg_us, 3);
			json_dbl(&j, "t_stdev_us", r->lat_stdev_us, 3);
			json_dbl(&j, "t_p99_us", r->lat_p99_us, 3);
			json_dbl(&j, "t_p999_us", r->lat_p999_us, 3);
		} else {
			json_dbl(&j, "peak_mb_s", r->peak_mbps, 3);
			json_dbl(&j, "average_mb_s", r->avg_mbps, 3);
			json_dbl(&j, "mmsg_s", r->mmsgs, 6);
		}
		json_dbl(&j, "cycles_per_message", r->cycles_per_msg, 1);
		json_u64(&j, "retransmitted_segments", r->retrans_segs);
		json_dbl(&j, "poll_p50_us", r->poll_p50_us, 3);
		json_dbl(&j, "poll_p99_us", r->poll_p99_us, 3);
		json_dbl(&j, "poll_max_us", r->poll_max_us, 3);
		if (r->region[0] != '\0')
			json_str(&j, "region", r->region);
		json_obj_end(&j);
	}
	json_arr_end(&j);
	json_obj_end(&j);
	json_finish(&j);
}

void
perf_latency(struct perf_result *r, const struct hist *h, bool half)
{
	/* A ping-pong's sample is a round trip; perftest reports half of it. */
	double unit = half ? 2000.0 : 1000.0;

	r->lat_min_us = (double)h->min / unit;
	r->lat_max_us = (double)h->max / unit;
	r->lat_typical_us = (double)hist_pct(h, 50) / unit;
	r->lat_avg_us = hist_mean(h) / unit;
	r->lat_stdev_us = hist_stdev(h) / unit;
	r->lat_p99_us = (double)hist_pct(h, 99) / unit;
	r->lat_p999_us = (double)hist_pct(h, 99.9) / unit;
}
