/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Reads and checks what a client sends with its Request (hello.h). */

#include <string.h>

#include "hello.h"

bool
hello_read(const void *data, size_t bytes, struct perf_hello *h)
{
	struct perf_job job;
	char why[256];

	if (bytes < sizeof(*h))
		return false;
	memcpy(h, data, sizeof(*h));
	if (memcmp(h->magic, PERF_MAGIC, sizeof(h->magic)) != 0 || h->version != PERF_VERSION)
		return false;
	/* What is a choice of two, and what the command line would not allow. */
	if ((h->latency | h->both_ways | h->verify | h->events | h->use_srq | h->no_crc |
	     h->markers | h->app_thread | h->app_medium) > 1 ||
	    h->size_bytes < 1 || h->test >= PERF_NTESTS)
		return false;
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
	        .both_ways = h->both_ways != 0,
	        .verify = h->verify != 0,
	        .events = h->events != 0,
	        .use_srq = h->use_srq != 0,
	};
	/* The workers of the client are its own affair; with --lat each has one QP. */
	job.workers = job.latency && h->qps <= PERF_MAX_WORKERS ? h->qps : 1;
	return perf_job_check(&job, why, sizeof(why));
}
