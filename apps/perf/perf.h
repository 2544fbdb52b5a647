/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_H
#define WEFT_PERF_H

/**
 * @file What the sources of weft-perf share: the job and the result.
 *
 * One job is a test, a size, bandwidth or latency, over one connection or several alike. The
 * client's MPA Request carries the job in its private data; the server's Reply carries the region
 * that the test works on.
 */

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "hist.h"
#include <weft/weft.h>
#include "auth_arg.h"
#include "job.h"
#include "wire.h"

struct loop;

/** Of the JSON document: another number where a key changes its meaning or is gone. */
#define PERF_SCHEMA 2

#define PERF_MAX_ROUNDS 1000
#define PERF_PORT       18515 /**< perftest's default */
/** What the thread of a loop has used, and its worker's where that is another one; the differences
 * count. */
struct perf_self {
	uint64_t begun_ns;         /**< when the reading of the counts below began */
	uint64_t at_ns;            /**< when it had ended */
	unsigned int threads;      /**< whose CPU time is counted: 1 or 2 */
	uint64_t cpu_ns;           /**< time on a CPU */
	uint64_t waited_ns;        /**< time that it could run and had no CPU */
	uint64_t worker_waited_ns; /**< the same of the worker's thread; 0: it has none */
	uint64_t cycles;           /**< TSC cycles of the worker's polls that had work */
	uint64_t busy_ns;          /**< the same in time: their share says how busy the worker is */
};
/** Read them. On the loop's thread. */
void perf_self_now(const struct loop *l, struct perf_self *s);
/** The differences of two of them. at_ns: the time between the ends of the two readings. The times
 * are those of that time: none can be more than it, or cpu_ns more than `threads` times it. */
struct perf_self perf_self_between(const struct perf_self *from, const struct perf_self *to);
/** The same since `from`. */
struct perf_self perf_self_since(const struct loop *l, const struct perf_self *from);

/** Messages of RDMAP, and their octets, of all QPs of this side. */
struct perf_moved {
	uint64_t out_msgs, out_bytes, in_msgs, in_bytes;
};

struct perf_result {
	struct perf_job job;
	uint64_t iterations; /**< iterations done */
	double seconds;
	double peak_mbps, avg_mbps; /**< 10^6 octets a second */
	double paced_s;             /**< with a rate: time until the last message was posted */
	/** bandwidth: speed of the link, and what was used of it, in 10^6 bits a second; 0: not
	 * known */
	double link_mbps, used_mbps;
	double worst_mbps; /**< of the slowest 10 ms; 0: the run was too short */
	/** with both_ways: what this side and the server have sent, which are added above */
	double sent_mbps, received_mbps, sent_mmsgs, received_mmsgs;
	double mmsgs; /**< 10^6 messages a second */
	/** TSC cycles of this side's busy polls, per message; NAN: not measured */
	double cycles_per_msg;
	double lat_min_us, lat_max_us, lat_typical_us, lat_avg_us, lat_stdev_us, lat_p99_us,
	        lat_p999_us;
	struct hist *hist; /**< latency: the samples in ns; freed by perf_result_free() */
	bool half;         /**< a sample is a round trip, and the latency half of it */
	/** with keep_samples: the same samples in their order, hist->n of them, those of the first
	 * worker first; freed by perf_result_free() */
	uint64_t *samples;
	uint64_t samples_of[PERF_MAX_WORKERS]; /**< how many are of each worker */
	uint64_t verified;                     /**< messages whose octets were all compared */
	uint64_t qp_messages[PERF_MAX_QPS];    /**< tests on a volume: of each connection */
	bool interrupted;      /**< *job.stop ended it: fewer iterations than asked for */
	bool ended;            /**< it failed; these are the figures until then */
	uint64_t retrans_segs; /**< of both sides, where the server reports */
	/** the measuring thread; its peer, where the server reports (peer.ns is 0 otherwise) */
	struct perf_self self;
	struct perf_report peer; /**< sums of all connections */
	/** what this side has counted from the same begin to the server's report */
	struct perf_moved moved;
	/** durations of this side's polls that had work */
	double poll_p50_us, poll_p99_us, poll_max_us;
	struct weft_mpa_info mpa; /**< of the first connection; the server's is in peer */
	char region[128];         /**< medium and hash of tests that flush or verify; else empty */
	uint32_t round;           /**< with several rounds, from 1; 0: the only one */
	struct perf_host server;  /**< as the server has said; an empty version: it did not */
};

/** The memory that the server offers. */
struct perf_medium {
	const char *driver, *path; /**< NULL: ordinary memory, persist driver "volatile" */
	const char *hash;
	int app_cpu; /**< CPU of the application's own thread; -1: any */
	/** CPUs that the process could use before EAL pinned the main thread */
	cpu_set_t cpus;
};

/** What either side runs on. */
struct perf_side {
	struct weft_ctx *ctx;
	struct weft_worker *const *workers;
	uint32_t nworkers;
	/** of each worker: the CPU of its thread, or -1; and whether it never sleeps */
	int lcore[PERF_MAX_WORKERS];
	bool spin[PERF_MAX_WORKERS];
	struct weft_mpa_policy mpa; /**< of the configuration */
	struct weft_port *port;     /**< of all workers; NULL: they have several */
	const char *dev;            /**< its device, as the configuration has it */
};

/** What a document says of a run beside its results. */
struct perf_about {
	char *const *command;         /**< the arguments of the program, then NULL */
	const char *started;          /**< the time in UTC */
	const char *config, *content; /**< the configuration file and its text; NULL: none */
	const char *failed;           /**< why not all was measured; NULL: all was */
};
/** All results as one JSON document (docs/weft-perf.md has the keys). about: NULL: only the
 * results, and the machines. */
void perf_print_json(FILE *f, const struct perf_about *about, const struct perf_result *r,
                     unsigned int n);
/** The results as comma-separated values, with a line of names. */
void perf_print_csv(FILE *f, const struct perf_result *r, unsigned int n);
/** What the two ends agreed on in MPA, a line. */
void perf_print_mpa(FILE *f, const struct perf_result *r);
/** The samples of a latency test, a line for each part of an octave that has some. */
void perf_print_histogram(FILE *f, const struct perf_result *r);
/** The samples of a latency test in their order, as perftest prints them. */
void perf_print_samples(FILE *f, const struct perf_result *r);
/** The same of several results as comma-separated values, with a line of names. */
void perf_print_samples_csv(FILE *f, const struct perf_result *r, unsigned int n);
/** Set min, max, typical (median), average, deviation and percentiles from h, samples in ns; half:
 * a sample is a round trip. The result owns h from now on. */
void perf_latency(struct perf_result *r, struct hist *h, bool half);
/** A percentile of a latency test. */
double perf_pct_us(const struct perf_result *r, double pct);
void perf_result_free(struct perf_result *r);
/** Bandwidths are printed in 10^9 bits a second. Set before the first row. */
extern bool perf_gbits;

/**
 * Run one job against the server, with job->workers of the side; the first one's thread is this
 * one. 0, or -errno with one line in *why; out->ended is then set if something was measured before.
 * -EAGAIN: the server serves another client; -EMEDIUMTYPE: the job needs job->visible. The caller
 * frees *out by perf_result_free() in either case.
 */
int perf_client_run(const struct perf_side *side, const struct sockaddr *addr, socklen_t addr_len,
                    const struct perf_job *job, struct perf_result *out, char *why,
                    size_t why_bytes);
/** Serve clients until *stop; `once`: return after the first. */
int perf_server_run(const struct perf_side *side, const struct sockaddr *addr, socklen_t addr_len,
                    const struct perf_medium *medium, bool once, const volatile sig_atomic_t *stop);

#endif /* WEFT_PERF_H */
