/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The limits of a job, for the command line, a sweep's plan and a client's hello alike. */

#include <stdarg.h>
#include <stdio.h>

#include "export_proto.h"
#include "job.h"
#include <weft/rpcrdma.h>
#include <weft/weft.h>

struct job_why {
	char *text;
	size_t bytes;
};

static bool __attribute__((format(printf, 2, 3)))
job_no(const struct job_why *why, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why->text, why->bytes, fmt, ap);
	va_end(ap);
	return false;
}

/** Numbers by themselves. */
static bool
job_numbers(const struct perf_job *j, const struct job_why *why)
{
	if (j->test >= PERF_NTESTS)
		return job_no(why, "there is no such test");
	if (j->size_bytes > PERF_MAX_BYTES)
		return job_no(why, "--size is %u at most", PERF_MAX_BYTES);
	if (j->depth < 1 || j->depth > PERF_MAX_DEPTH)
		return job_no(why, "--tx-depth is from 1 to %u", PERF_MAX_DEPTH);
	if (j->rx_depth > PERF_MAX_DEPTH || (j->rx_depth < 4 && perf_takes_receive(j->test)))
		return job_no(why, "--rx-depth is from 4 to %u", PERF_MAX_DEPTH);
	if (j->qps < 1 || j->qps > PERF_MAX_QPS)
		return job_no(why, "--qp is from 1 to %u", PERF_MAX_QPS);
	if (j->workers > PERF_MAX_WORKERS)
		return job_no(why, "--workers is %u at most", PERF_MAX_WORKERS);
	if (j->post_list > PERF_MAX_POST_LIST)
		return job_no(why, "--post_list is %u at most", PERF_MAX_POST_LIST);
	if (j->recv_list > PERF_MAX_POST_LIST)
		return job_no(why, "--recv_post_list is %u at most", PERF_MAX_POST_LIST);
	if (j->outs > PERF_MAX_OUTS)
		return job_no(why, "--outs is %u at most", PERF_MAX_OUTS);
	if (j->inline_bytes > WEFT_MAX_INLINE)
		return job_no(why, "--inline_size is %u at most", WEFT_MAX_INLINE);
	if (perf_is_rpc(j->test) && j->depth > WEFT_RPC_MAX_CALLS)
		return job_no(why, "%s: the depth is %u at most, not %u", perf_test_names[j->test],
		              WEFT_RPC_MAX_CALLS, j->depth);
	if (perf_is_volume(j->test) && !j->windows && j->depth > PERF_VOLUME_CALLS)
		return job_no(why, "%s: by calls the depth is %u at most, not %u; use more --qp",
		              perf_test_names[j->test], PERF_VOLUME_CALLS, j->depth);
	return true;
}

/** How much memory the messages under way take. */
static bool
job_memory(const struct perf_job *j, const struct job_why *why)
{
	const uint32_t apart = j->test == PERF_SEND ? j->rx_depth : j->depth;
	uint64_t most = PERF_MAX_BYTES;

	if (perf_is_rpc(j->test))
		most = WEFT_EXPORT_IO_MAX;
	else if (perf_is_place(j->test) || perf_is_volume(j->test))
		most = PERF_MAX_SLOTS_BYTES / perf_slots(j->test, j->depth);
	if (j->size_bytes > most)
		return job_no(why, "%s at depth %u takes up to %llu octets, not %u",
		              perf_test_names[j->test], j->depth, (unsigned long long)most,
		              j->size_bytes);
	if (j->keep_samples && j->iterations > PERF_MAX_SAMPLES / j->qps)
		return job_no(why, "--report-unsorted keeps each sample, %u in all: less --iters",
		              PERF_MAX_SAMPLES);
	if (j->verify && (uint64_t)j->size_bytes * apart > PERF_VERIFY_BYTES)
		return job_no(why, "--verify-data keeps all messages under way apart, 256M in all: "
		                   "less --size, --tx-depth or --rx-depth");
	return true;
}

/** How work requests are posted and completed. */
static bool
job_posting(const struct perf_job *j, const struct job_why *why)
{
	const uint32_t share = perf_rx_share(j->use_srq, j->rx_depth, j->qps);

	if (j->cq_mod > j->depth)
		return job_no(why, "--cq-mod %u would never complete with --tx-depth %u", j->cq_mod,
		              j->depth);
	if (j->post_list > j->depth)
		return job_no(why, "--post_list %u does not fit --tx-depth %u", j->post_list,
		              j->depth);
	if (j->use_srq && !perf_takes_receive(j->test))
		return job_no(why, "--use-srq is for send and write-imm: the others use up no "
		                   "receives");
	if (j->use_srq && share < 4)
		return job_no(why, "--use-srq gives each QP an equal share of --rx-depth, 4 at "
		                   "least");
	if (perf_takes_receive(j->test) && j->post_list > perf_list_most(share))
		return job_no(why,
		              "--post_list %u does not fit --rx-depth %u, which is "
		              "acknowledged in quarters",
		              j->post_list, j->rx_depth);
	if (j->recv_list != 0 &&
	    (!perf_takes_receive(j->test) || j->latency || j->use_srq || j->verify))
		return job_no(why, "--recv_post_list is for send and write-imm: no --lat, "
		                   "--use-srq or --verify-data");
	if (j->rate != 0 && (j->post_list > 1 || j->cq_mod > 1))
		return job_no(why, "a rate posts each message at its time: no --post_list or "
		                   "--cq-mod");
	return true;
}

/** Traffic from the server, and the parts of a duration. */
static bool
job_reversed(const struct perf_job *j, const struct job_why *why)
{
	if (j->reversed && (!perf_is_plain(j->test) || perf_is_word(j->test)))
		return job_no(why, "--reversed is for write, read, send and write-imm");
	if (j->reversed &&
	    (j->latency || j->both_ways || j->verify || j->rate != 0 || j->mix != NULL))
		return job_no(why, "--reversed is for one bandwidth: no --lat, --bidirectional, "
		                   "--verify-data, --sizes, rate or --run_infinitely");
	if (j->margin_s != 0 &&
	    (j->latency || j->both_ways || j->reversed || j->verify || j->rate != 0))
		return job_no(why, "--margin is for the bandwidth of the client: no --lat, "
		                   "--bidirectional, --reversed, --verify-data or rate");
	if (j->margin_s != 0 && j->duration_s <= 2 * j->margin_s)
		return job_no(why,
		              "--margin %u takes a --duration of more than %u: it is at "
		              "both ends",
		              j->margin_s, 2 * j->margin_s);
	return true;
}

/** What the test and the mode take. */
static bool
job_test(const struct perf_job *j, const struct job_why *why)
{
	const char *name = perf_test_names[j->test];
	const bool plain = perf_is_plain(j->test);

	if (perf_is_two_sided(j->test) && !j->latency)
		return job_no(why, "%s measures latency: --lat", name);
	if (j->outs != 0 &&
	    (!perf_is_told(j->test) || j->test == PERF_WRITE || perf_takes_receive(j->test)))
		return job_no(why, "--outs is for read, the atomics and the tests that flush or "
		                   "verify");
	if (!plain && !perf_is_volume(j->test) &&
	    (j->qps > 1 || j->both_ways || j->post_list != 0 || j->cq_mod != 0 ||
	     j->inline_bytes != 0 || j->workers > 1))
		return job_no(why,
		              "%s takes no --qp, --workers, --bidirectional, --rx-depth, "
		              "--cq-mod, --post_list or --inline_size",
		              name);
	if (j->workers > j->qps)
		return job_no(why, "--workers %u needs --qp %u at least, one for each", j->workers,
		              j->workers);
	if (j->latency && ((j->qps > 1 && j->qps != j->workers) || j->both_ways ||
	                   j->post_list > 1 || j->cq_mod > 1))
		return job_no(why, "--lat measures one message at a time on one QP of each worker: "
		                   "no --qp, --bidirectional, --post_list or --cq-mod");
	if (j->no_peak && j->latency)
		return job_no(why, "--noPeak is for bandwidth");
	if (j->keep_samples && j->duration_s != 0 && j->rate == 0)
		return job_no(why, "--report-unsorted keeps each sample: --iters, not --duration");
	if (j->keep_samples && !j->latency)
		return job_no(why, "--report-unsorted is for --lat");
	if (j->events && !perf_is_told(j->test))
		return job_no(why, "%s takes no --events: its completions are calls on the worker",
		              name);
	if (j->events && !perf_may_sleep(j->test, j->latency))
		return job_no(why, "a Write makes no completion where it arrives: --events with "
		                   "--lat is for send, write-imm, read, the atomics, flush, verify "
		                   "and commit");
	if (j->both_ways && perf_is_word(j->test))
		return job_no(why, "%s: both sides would change the same word; no --bidirectional",
		              name);
	if (j->verify && (!plain || j->test == PERF_ATOMIC_WRITE) && j->test != PERF_VOLUME_WRITE)
		return job_no(why, "--verify-data is for write, read, send, write-imm, fetch-add, "
		                   "cmp-swap and volume-write");
	if (j->verify && (j->latency || j->both_ways || j->rate != 0))
		return job_no(why, "--verify-data goes round by round: no --lat, --bidirectional, "
		                   "rate or --run_infinitely");
	if (j->rate != 0 &&
	    (perf_is_rpc(j->test) || perf_is_two_sided(j->test) || j->test == PERF_LOG_APPEND))
		return job_no(why, "%s takes no rate", name);
	if (j->rate != 0 && j->latency && j->test == PERF_WRITE)
		return job_no(why, "a Write has no answer of its own: --rate with --lat is for "
		                   "read, send, write-imm, the atomics, flush, verify and commit");
	if (j->rate != 0 && j->both_ways)
		return job_no(why, "--rate_limit is for one direction");
	return true;
}

/** Tests on a volume, and what only they take. */
static bool
job_volume(const struct perf_job *j, const struct job_why *why)
{
	const char *name = perf_test_names[j->test];
	const bool write = j->test == PERF_VOLUME_WRITE;

	if (!perf_is_volume(j->test)) {
		if (j->windows || j->stable || j->random || j->flush_every != 0 || j->seed != 0 ||
		    j->range_off_bytes != 0 || j->range_bytes != 0)
			return job_no(why, "--windows, --stable, --flush-every, --random, --seed "
			                   "and --range are for volume-read and volume-write");
		return true;
	}
	if (j->both_ways || j->post_list != 0 || j->cq_mod != 0 || j->inline_bytes != 0)
		return job_no(why,
		              "%s takes no --bidirectional, --cq-mod, --post_list or "
		              "--inline_size",
		              name);
	if (!write && (j->stable || j->flush_every != 0))
		return job_no(why, "--stable and --flush-every are for volume-write");
	if (j->windows && (j->stable || j->flush_every != 0))
		return job_no(why, "--windows flushes each write anyway: no --stable or "
		                   "--flush-every");
	if (j->stable && j->flush_every != 0)
		return job_no(why, "--stable or --flush-every, not both");
	if (j->windows && (j->random || j->mix != NULL))
		return job_no(why, "windows move through the range in order: no --random or "
		                   "--sizes");
	if (j->seed != 0 && !j->random)
		return job_no(why, "--seed is of --random");
	if (j->latency && j->rate != 0)
		return job_no(why, "%s takes --rate_limit for bandwidth alone", name);
	return true;
}

bool
perf_job_check(const struct perf_job *job, char *why, size_t why_bytes)
{
	const struct job_why w = {why, why_bytes};

	return job_numbers(job, &w) && job_test(job, &w) && job_reversed(job, &w) &&
	       job_volume(job, &w) && job_posting(job, &w) && job_memory(job, &w);
}
