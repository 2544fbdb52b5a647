/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Prints results as JSON, as comma-separated values and as a histogram. */

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "figures.h"
#include "host.h"
#include "json.h"
#include "mix.h"
#include "perf.h"
#include "samples.h"
#include "warn.h"
#include "wrap.h"

/** Percentiles that are printed, and what their keys are called. */
static const struct {
	double pct;
	const char *key;
} pcts[] = {{50, "t_p50_us"},    {90, "t_p90_us"},      {99, "t_p99_us"},
            {99.9, "t_p999_us"}, {99.99, "t_p9999_us"}, {99.999, "t_p99999_us"}};

#define NPCTS (sizeof(pcts) / sizeof(pcts[0]))

void
perf_print_histogram(FILE *f, const struct perf_result *r)
{
	const double unit = r->half ? 2000 : 1000;
	uint64_t left = r->hist->n, n = 0;

	fprintf(f, " t[usec] up to    samples    of all\n");
	/* A line for each quarter of an octave. */
	for (unsigned int i = 0; i < HIST_BUCKETS && left > 0; i++) {
		n += r->hist->bucket[i];
		if (i % (HIST_SUB / 4) != HIST_SUB / 4 - 1 || n == 0)
			continue;
		left -= n;
		fprintf(f, " %13.3f %10" PRIu64 "   %6.2f %%\n", (double)(hist_above(i)) / unit, n,
		        100 * (double)(r->hist->n - left) / (double)r->hist->n);
		n = 0;
	}
	for (unsigned int i = 0; i < NPCTS; i++)
		if (perf_samples_beyond(r, pcts[i].pct) >= 1)
			fprintf(f, " %g %% below %.2f usec, %.0f samples beyond\n", pcts[i].pct,
			        perf_pct_us(r, pcts[i].pct), perf_samples_beyond(r, pcts[i].pct));
}

/** What the two ends have agreed on, as one of them sees it. */
static void
print_json_mpa(struct json *j, uint32_t rev, bool crc, bool rx_markers, bool tx_markers)
{
	json_obj(j, "mpa");
	json_u64(j, "revision", rev);
	json_bool(j, "crc", crc);
	json_bool(j, "markers_in", rx_markers);
	json_bool(j, "markers_out", tx_markers);
	json_obj_end(j);
}

static size_t
mpa_end(char *line, size_t bytes, const char *end, bool crc, bool rx_markers, bool tx_markers)
{
	return (size_t)snprintf(line, bytes, "%s %s CRC, %s", end, crc ? "with" : "without",
	                        rx_markers && tx_markers ? "markers received and sent"
	                        : rx_markers             ? "markers received"
	                        : tx_markers             ? "markers sent"
	                                                 : "no markers");
}

void
perf_print_mpa(FILE *f, const struct perf_result *r)
{
	const struct perf_report *p = &r->peer;
	char line[192];
	size_t n = mpa_end(line, sizeof(line), " MPA: this side", r->mpa.crc, r->mpa.rx_markers,
	                   r->mpa.tx_markers);

	if (p->ns != 0)
		mpa_end(line + n, sizeof(line) - n, "; server", p->crc, p->rx_markers,
		        p->tx_markers);
	wrap_text(f, line);
}

/** How the messages go; in each result, so that runs that differ in one of these are told apart. */
static void
print_json_shape(struct json *j, const struct perf_job *job)
{
	json_u64(j, "cq_mod", job->cq_mod);
	json_u64(j, "post_list", job->post_list);
	json_u64(j, "inline_bytes", job->inline_bytes);
	json_u64(j, "workers", job->workers > 1 ? job->workers : 1);
	json_u64(j, "outs", job->outs);
	json_u64(j, "recv_post_list", job->recv_list);
	json_u64(j, "margin_s", job->margin_s);
	json_bool(j, "reversed", job->reversed);
	json_bool(j, "use_srq", job->use_srq);
	json_bool(j, "no_crc", job->no_crc);
	json_bool(j, "markers", job->markers);
	json_bool(j, "events", job->events);
	json_dbl(j, "rate_asked", job->rate, 3);
}

/** What a test on a volume does there, and what each connection got. */
static void
print_json_volume(struct json *j, const struct perf_result *r)
{
	const struct perf_job *job = &r->job;

	json_str(j, "way", job->windows ? "windows" : "calls");
	json_bool(j, "stable", job->stable);
	json_u64(j, "flush_every", job->flush_every);
	json_bool(j, "random", job->random);
	json_u64(j, "seed", job->seed);
	json_u64(j, "range_offset", job->range_off_bytes);
	json_u64(j, "range_bytes", job->range_bytes);
	if (job->qps == 1)
		return;
	json_arr(j, "messages_of_qp");
	for (uint32_t i = 0; i < job->qps; i++)
		json_u64(j, NULL, r->qp_messages[i]);
	json_arr_end(j);
}

/** How many samples lie beyond each percentile that is printed. */
static void
print_json_beyond(struct json *j, const struct perf_result *r)
{
	json_obj(j, "samples_beyond");
	for (unsigned int k = 0; k < NPCTS; k++) {
		const double n = perf_samples_beyond(r, pcts[k].pct);

		if (n >= 1)
			json_u64(j, pcts[k].key, (uint64_t)n);
	}
	json_obj_end(j);
}

static void
print_json_warning(void *arg, const char *text)
{
	json_str(arg, NULL, text);
}

/** What makes the result doubtful. */
static void
print_json_warnings(struct json *j, const struct perf_result *r)
{
	json_arr(j, "warnings");
	warn_each(r, print_json_warning, j);
	json_arr_end(j);
}

/** What RDMAP has counted at one end. */
static void
print_json_moved(struct json *j, uint64_t out_msgs, uint64_t out_bytes, uint64_t in_msgs,
                 uint64_t in_bytes)
{
	json_obj(j, "rdmap");
	json_u64(j, "sent_messages", out_msgs);
	json_u64(j, "sent_bytes", out_bytes);
	json_u64(j, "received_messages", in_msgs);
	json_u64(j, "received_bytes", in_bytes);
	json_obj_end(j);
}

/** What the server has reported. */
static void
print_json_peer(struct json *j, const struct perf_result *r)
{
	const struct perf_report *p = &r->peer;

	json_obj(j, "server");
	json_dbl(j, "cpu_percent", perf_percent(p->cpu_ns, p->ns), 1);
	json_dbl(j, "waited_percent", perf_percent(p->waited_ns, p->ns), 1);
	json_dbl(j, "busy_percent", perf_percent(p->busy_ns, p->ns), 1);
	json_u64(j, "received_messages", p->recv_msgs);
	json_u64(j, "received_bytes", p->recv_bytes);
	json_u64(j, "sent_messages", p->sent_msgs);
	json_u64(j, "sent_bytes", p->sent_bytes);
	json_u64(j, "busy_cycles", p->cycles);
	print_json_moved(j, p->out_msgs, p->out_bytes, p->recv_msgs, p->recv_bytes);
	print_json_mpa(j, p->mpa_rev, p->crc, p->rx_markers, p->tx_markers);
	json_obj_end(j);
}

/** The columns that came later, behind the earlier ones. */
static void
print_csv_shape(FILE *f, const struct perf_result *r)
{
	const struct perf_job *job = &r->job;

	fprintf(f, ",%u,%u,%u,%u,", r->round, job->workers > 1 ? job->workers : 1, job->post_list,
	        job->cq_mod);
	if (perf_takes_receive(job->test))
		fprintf(f, "%u", job->rx_depth);
	fprintf(f, ",%.3f,", job->rate);
	if (r->worst_mbps > 0)
		fprintf(f, "%.3f", r->worst_mbps);
	fprintf(f, ",%d,%u,%u,%u,%d,%d,", job->reversed, job->outs, job->recv_list, job->margin_s,
	        r->ended, r->interrupted);
	if (perf_is_volume(job->test))
		fprintf(f, "%s,%d,%d\n", job->windows ? "windows" : "calls", job->stable,
		        job->random);
	else
		fprintf(f, ",,\n");
}

void
perf_print_csv(FILE *f, const struct perf_result *res, unsigned int n)
{
	fprintf(f, "test,mode,bytes,iterations,depth,qps,bidirectional,seconds,peak_mb_s,"
	           "average_mb_s,mmsg_s,t_min_us,t_max_us,t_typical_us,t_avg_us,t_stdev_us");
	for (unsigned int k = 0; k < NPCTS; k++)
		fprintf(f, ",%s", pcts[k].key);
	fprintf(f, ",cycles_per_message,retransmitted_segments,cpu_percent,waited_percent,"
	           "sent_mb_s,received_mb_s,round,workers,post_list,cq_mod,rx_depth,rate_asked,"
	           "worst_10ms_mb_s,reversed,outs,recv_post_list,margin_s,ended,interrupted,"
	           "way,stable,random\n");
	for (unsigned int i = 0; i < n; i++) {
		const struct perf_result *r = &res[i];
		const bool lat = r->job.latency;

		fprintf(f, "%s,%s,%.0f,%" PRIu64 ",%u,%u,%d,%.6f", perf_job_name(&r->job),
		        lat ? "latency" : "bandwidth", perf_mean_bytes(&r->job), r->iterations,
		        r->job.depth, r->job.qps, r->job.both_ways, r->seconds);
		if (lat)
			fprintf(f, ",,,,%.3f,%.3f,%.3f,%.3f,%.3f", r->lat_min_us, r->lat_max_us,
			        r->lat_typical_us, r->lat_avg_us, r->lat_stdev_us);
		else if (r->job.no_peak)
			fprintf(f, ",,%.3f,%.6f,,,,,", r->avg_mbps, r->mmsgs);
		else
			fprintf(f, ",%.3f,%.3f,%.6f,,,,,", r->peak_mbps, r->avg_mbps, r->mmsgs);
		for (unsigned int k = 0; k < NPCTS; k++)
			if (lat && perf_samples_beyond(r, pcts[k].pct) >= 1)
				fprintf(f, ",%.3f", perf_pct_us(r, pcts[k].pct));
			else
				fputc(',', f);
		fprintf(f, ",%.1f,%" PRIu64 ",%.1f,%.1f", r->cycles_per_msg, r->retrans_segs,
		        perf_percent(r->self.cpu_ns, r->self.at_ns),
		        perf_percent(r->self.waited_ns, r->self.at_ns));
		if (r->job.both_ways)
			fprintf(f, ",%.3f,%.3f", r->sent_mbps, r->received_mbps);
		else
			fprintf(f, ",,");
		print_csv_shape(f, r);
	}
	fflush(f);
}

/** How the run was started. */
static void
print_json_about(struct json *j, const struct perf_about *about)
{
	json_str(j, "started", about->started);
	json_arr(j, "command");
	for (unsigned int i = 0; about->command[i] != NULL; i++)
		json_str(j, NULL, about->command[i]);
	json_arr_end(j);
	json_bool(j, "complete", about->failed == NULL);
	if (about->failed != NULL)
		json_str(j, "failed", about->failed);
	if (about->content == NULL)
		return;
	json_obj(j, "configuration");
	json_str(j, "file", about->config);
	json_str(j, "content", about->content);
	json_obj_end(j);
}

void
perf_print_json(FILE *f, const struct perf_about *about, const struct perf_result *res,
                unsigned int n)
{
	struct perf_host here;
	struct json j;

	perf_host_now(&here);
	json_start(&j, f);
	json_obj(&j, NULL);
	json_str(&j, "version", weft_version());
	json_u64(&j, "schema", PERF_SCHEMA);
	if (about != NULL)
		print_json_about(&j, about);
	perf_host_json(&j, "machine", &here);
	if (n > 0 && res[0].server.version[0] != '\0')
		perf_host_json(&j, "server_machine", &res[0].server);
	json_arr(&j, "results");
	for (unsigned int i = 0; i < n; i++) {
		const struct perf_result *r = &res[i];

		json_obj(&j, NULL);
		json_str(&j, "test", perf_job_name(&r->job));
		json_str(&j, "mode", r->job.latency ? "latency" : "bandwidth");
		if (r->job.mix != NULL) {
			json_dbl(&j, "bytes", r->job.mix->mean_bytes, 3);
			if (r->job.mix->sizes != NULL)
				json_str(&j, "sizes", r->job.mix->sizes);
			if (r->job.mix->tests != NULL)
				json_str(&j, "mix", r->job.mix->tests);
		} else {
			json_u64(&j, "bytes", r->job.size_bytes);
		}
		if (r->round != 0)
			json_u64(&j, "round", r->round);
		json_u64(&j, "iterations", r->iterations);
		json_u64(&j, "depth", r->job.depth);
		json_u64(&j, "qps", r->job.qps);
		json_bool(&j, "bidirectional", r->job.both_ways);
		if (perf_takes_receive(r->job.test))
			json_u64(&j, "rx_depth", r->job.rx_depth);
		print_json_shape(&j, &r->job);
		if (perf_is_volume(r->job.test))
			print_json_volume(&j, r);
		if (r->job.rate > 0)
			json_dbl(&j, "rate_error_percent", perf_rate_error(r), 3);
		if (r->job.verify)
			json_u64(&j, "verified_messages", r->verified);
		if (r->interrupted)
			json_bool(&j, "interrupted", true);
		if (r->ended)
			json_bool(&j, "ended", true);
		if (perf_is_rpc(r->job.test))
			json_u64(&j, "rpc_version", r->job.rpc_version);
		json_dbl(&j, "seconds", r->seconds, 6);
		if (r->job.latency) {
			json_dbl(&j, "t_min_us", r->lat_min_us, 3);
			json_dbl(&j, "t_max_us", r->lat_max_us, 3);
			json_dbl(&j, "t_typical_us", r->lat_typical_us, 3);
			json_dbl(&j, "t_avg_us", r->lat_avg_us, 3);
			json_dbl(&j, "t_stdev_us", r->lat_stdev_us, 3);
			for (unsigned int k = 0; k < NPCTS; k++)
				if (perf_samples_beyond(r, pcts[k].pct) >= 1)
					json_dbl(&j, pcts[k].key, perf_pct_us(r, pcts[k].pct), 3);
			print_json_beyond(&j, r);
			if (r->samples != NULL)
				perf_json_samples(&j, r);
		} else {
			if (!r->job.no_peak)
				json_dbl(&j, "peak_mb_s", r->peak_mbps, 6);
			json_dbl(&j, "average_mb_s", r->avg_mbps, 6);
			if (r->worst_mbps > 0)
				json_dbl(&j, "worst_10ms_mb_s", r->worst_mbps, 6);
			json_dbl(&j, "mmsg_s", r->mmsgs, 9);
			if (r->link_mbps > 0 && r->used_mbps > 0) {
				json_dbl(&j, "link_mbit_s", r->link_mbps, 0);
				json_dbl(&j, "used_mbit_s", r->used_mbps, 3);
			}
			if (r->job.both_ways) {
				json_dbl(&j, "sent_mb_s", r->sent_mbps, 6);
				json_dbl(&j, "received_mb_s", r->received_mbps, 6);
				json_dbl(&j, "sent_mmsg_s", r->sent_mmsgs, 9);
				json_dbl(&j, "received_mmsg_s", r->received_mmsgs, 9);
			}
		}
		json_dbl(&j, "cycles_per_message", r->cycles_per_msg, 1);
		json_u64(&j, "retransmitted_segments", r->retrans_segs);
		json_dbl(&j, "cpu_percent", perf_percent(r->self.cpu_ns, r->self.at_ns), 1);
		json_dbl(&j, "waited_percent", perf_percent(r->self.waited_ns, r->self.at_ns), 1);
		json_dbl(&j, "busy_percent", perf_percent(r->self.busy_ns, r->self.at_ns), 1);
		if (r->mpa.rev != 0)
			print_json_mpa(&j, r->mpa.rev, r->mpa.crc, r->mpa.rx_markers,
			               r->mpa.tx_markers);
		if (r->peer.ns != 0) {
			print_json_moved(&j, r->moved.out_msgs, r->moved.out_bytes,
			                 r->moved.in_msgs, r->moved.in_bytes);
			print_json_peer(&j, r);
		}
		print_json_warnings(&j, r);
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

double
perf_pct_us(const struct perf_result *r, double pct)
{
	return (double)hist_pct(r->hist, pct) / (r->half ? 2000 : 1000);
}

void
perf_latency(struct perf_result *r, struct hist *h, bool half)
{
	/* A ping-pong's sample is a round trip; perftest reports half of it. */
	double unit = half ? 2000.0 : 1000.0;

	r->hist = h;
	r->half = half;
	r->lat_min_us = (double)h->min / unit;
	r->lat_max_us = (double)h->max / unit;
	r->lat_typical_us = perf_pct_us(r, 50);
	r->lat_avg_us = hist_mean(h) / unit;
	r->lat_stdev_us = hist_stdev(h) / unit;
	r->lat_p99_us = perf_pct_us(r, 99);
	r->lat_p999_us = perf_pct_us(r, 99.9);
}

void
perf_result_free(struct perf_result *r)
{
	free(r->hist);
	free(r->samples);
	r->hist = NULL;
	r->samples = NULL;
}
