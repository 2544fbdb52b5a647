/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Reads and checks what a client sends with its Request (hello.h). */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "hello.h"

/** Whether the choices of two and the test are what the command line can give. */
static bool
hello_choices(const struct perf_hello *h)
{
	return (h->latency | h->both_ways | h->reversed | h->verify | h->events | h->use_srq |
	        h->no_crc | h->markers | h->app_thread | h->app_medium) <= 1 &&
	       h->size_bytes >= 1 && h->test < PERF_NTESTS && !perf_is_volume(h->test);
}

int
hello_read(const void *data, size_t bytes, struct perf_hello *h, char *why, size_t why_bytes)
{
	struct perf_job job;
	char limit[256];

	snprintf(why, why_bytes, PERF_UNLIKE);
	if (bytes < sizeof(*h))
		return -EPROTO;
	memcpy(h, data, sizeof(*h));
	if (memcmp(h->magic, PERF_MAGIC, sizeof(h->magic)) != 0 || h->version != PERF_VERSION)
		return -EPROTO;
	snprintf(why, why_bytes,
	         "beyond a limit of this server: a choice, test or size that does "
	         "not exist");
	if (!hello_choices(h))
		return -ERANGE;
	job = (struct perf_job){
	        .test = h->test,
	        .latency = h->latency != 0,
	        .size_bytes = h->size_bytes,
	        .depth = h->depth,
	        .rx_depth = h->rx_depth,
	        .cq_mod = h->cq_mod,
	        .post_list = h->post_list,
	        .inline_bytes = h->inline_bytes,
	        .qps = h->qps,
	        .outs = h->outs,
	        .recv_list = h->recv_list,
	        .both_ways = h->both_ways != 0,
	        .reversed = h->reversed != 0,
	        .verify = h->verify != 0,
	        .events = h->events != 0,
	        .use_srq = h->use_srq != 0,
	};
	/* The workers of the client are its own affair; with --lat each has one QP. */
	job.workers = job.latency && h->qps <= PERF_MAX_WORKERS ? h->qps : 1;
	if (perf_job_check(&job, limit, sizeof(limit)))
		return 0;
	snprintf(why, why_bytes, "beyond a limit of this server: %s", limit);
	return -ERANGE;
}
