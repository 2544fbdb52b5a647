/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The result of a run: the sum of what its threads have measured, in their common time. */

#include <errno.h>
#include <string.h>

#include "client.h"
#include "link_use.h"

/** What the server's workers have reported, in all. */
static void
merge_peer(const struct crew *crew, struct perf_report *out)
{
	for (uint32_t w = 0; w < PERF_MAX_WORKERS; w++) {
		struct perf_report sum = {0};

		for (uint32_t i = 0; i < crew->n; i++)
			if (crew->run[i].by[w].ns != 0)
				report_add(&sum, &crew->run[i].by[w]);
		if (sum.ns == 0)
			continue;
		out->ns = sum.ns > out->ns ? sum.ns : out->ns;
		out->sent_ns = sum.sent_ns > out->sent_ns ? sum.sent_ns : out->sent_ns;
		out->waited_ns = sum.waited_ns > out->waited_ns ? sum.waited_ns : out->waited_ns;
		out->recv_msgs += sum.recv_msgs;
		out->recv_bytes += sum.recv_bytes;
		out->out_msgs += sum.out_msgs;
		out->out_bytes += sum.out_bytes;
		out->sent_msgs += sum.sent_msgs;
		out->sent_bytes += sum.sent_bytes;
		out->retrans_segs += sum.retrans_segs;
		out->verified += sum.verified;
		out->bad += sum.bad;
		out->mpa_rev = sum.mpa_rev;
		out->crc = sum.crc;
		out->rx_markers = sum.rx_markers;
		out->tx_markers = sum.tx_markers;
		out->cpu_ns += sum.cpu_ns;
		out->cycles += sum.cycles;
		out->busy_ns = sum.busy_ns > out->busy_ns ? sum.busy_ns : out->busy_ns;
	}
}

static double
greater(double a, double b)
{
	return a > b ? a : b;
}

/** Bandwidth in the time from the first thread's begin to the last one's end. */
static void
merge_bandwidth(struct perf_result *out)
{
	const struct perf_report *peer = &out->peer;

	out->avg_mbps = (double)out->iterations * perf_mean_bytes(&out->job) / out->seconds / 1e6;
	out->mmsgs = (double)out->iterations / out->seconds / 1e6;
	if (out->job.both_ways) {
		/* The parts are of one direction. */
		out->peak_mbps = out->worst_mbps = 0;
		out->sent_mbps = out->avg_mbps;
		out->sent_mmsgs = out->mmsgs;
		if (peer->sent_ns != 0) {
			double peer_s = (double)peer->sent_ns / 1e9;

			out->received_mbps = (double)peer->sent_bytes / peer_s / 1e6;
			out->received_mmsgs = (double)peer->sent_msgs / peer_s / 1e6;
		}
		out->avg_mbps += out->received_mbps;
		out->mmsgs += out->received_mmsgs;
	}
	if (out->peak_mbps < out->avg_mbps && !out->job.no_peak)
		out->peak_mbps = out->avg_mbps;
}

/** Put the samples of all threads behind each other. 0 or -ENOMEM. */
static int
merge_samples(const struct crew *crew, struct perf_result *out)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < crew->n; i++)
		n += crew->run[i].hist->n;
	out->samples = calloc(n + 1, sizeof(*out->samples));
	if (out->samples == NULL)
		return -ENOMEM;
	n = 0;
	for (uint32_t i = 0; i < crew->n; i++) {
		out->samples_of[i] = crew->run[i].hist->n;
		memcpy(out->samples + n, crew->run[i].samples,
		       out->samples_of[i] * sizeof(*out->samples));
		n += out->samples_of[i];
	}
	return 0;
}

int
crew_merge(struct crew *crew, struct perf_result *out)
{
	const struct perf_job *job = crew->job;
	uint64_t begin_ns = UINT64_MAX, end_ns = 0;
	struct hist *h = crew->run[0].hist;
	bool half = false;

	if (job->keep_samples && merge_samples(crew, out) != 0)
		return -ENOMEM;
	merge_peer(crew, &out->peer);
	out->retrans_segs = out->peer.retrans_segs;
	for (uint32_t i = 0; i < crew->n; i++) {
		struct run *r = &crew->run[i];
		const struct perf_result *o = &r->out;

		begin_ns = r->begin_ns < begin_ns ? r->begin_ns : begin_ns;
		end_ns = r->end_ns > end_ns ? r->end_ns : end_ns;
		out->iterations += o->iterations;
		out->verified += o->verified;
		out->moved.out_msgs += o->moved.out_msgs;
		out->moved.out_bytes += o->moved.out_bytes;
		out->moved.in_msgs += o->moved.in_msgs;
		out->moved.in_bytes += o->moved.in_bytes;
		out->interrupted |= o->interrupted;
		out->retrans_segs += o->retrans_segs;
		out->self.cpu_ns += o->self.cpu_ns;
		out->self.cycles += o->self.cycles;
		if (o->self.busy_ns > out->self.busy_ns)
			out->self.busy_ns = o->self.busy_ns;
		/* The time of what was used, which goes on behind the last message where the peer
		 * has ended. */
		if (o->self.at_ns > out->self.at_ns)
			out->self.at_ns = o->self.at_ns;
		if (o->self.waited_ns > out->self.waited_ns)
			out->self.waited_ns = o->self.waited_ns;
		out->paced_s = greater(out->paced_s, o->paced_s);
		out->poll_p50_us = greater(out->poll_p50_us, o->poll_p50_us);
		out->poll_p99_us = greater(out->poll_p99_us, o->poll_p99_us);
		out->poll_max_us = greater(out->poll_max_us, o->poll_max_us);
		half |= o->half;
		for (uint32_t k = 0; r->lane != NULL && k < r->job.qps; k++)
			out->qp_messages[r->lane[k].number] =
			        r->lane[k].f.completed - r->lane[k].done_before;
		if (i > 0 && r->hist != NULL && h != NULL)
			hist_merge(h, r->hist);
	}
	memcpy(out->region, crew->run[0].out.region, sizeof(out->region));
	out->server = crew->run[0].out.server;
	out->mpa = crew->run[0].out.mpa;
	out->seconds = (double)(end_ns - begin_ns) / 1e9;
	out->cycles_per_msg =
	        (double)out->self.cycles / (double)(out->iterations + out->peer.sent_msgs);
	if (job->reversed) { /* the server has counted, and has the time */
		out->iterations = out->peer.sent_msgs;
		out->seconds = (double)out->peer.sent_ns / 1e9;
	}
	if (job->latency) {
		perf_latency(out, h, half);
		crew->run[0].hist = NULL;
	} else {
		/* The first thread looks at what all have shown. */
		out->peak_mbps = crew->run[0].out.peak_mbps;
		out->used_mbps = crew->run[0].out.used_mbps;
		out->link_mbps = link_mbps(crew->side);
		out->worst_mbps = crew->run[0].out.worst_mbps;
		merge_bandwidth(out);
	}
	return out->iterations == 0 ? -ENODATA : 0;
}
