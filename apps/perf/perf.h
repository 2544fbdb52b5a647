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
#include "wire.h"
#include <weft/log.h>

struct json;
struct loop;

/** Of the JSON document: another number where a key changes its meaning or is gone. */
#define PERF_SCHEMA 2

#define PERF_PORT      18515        /**< perftest's default */
#define PERF_MAX_BYTES (256u << 20) /**< each side allocates two of them */

#define PERF_MAX_DEPTH 4096
/** Messages of different content on one QP, in all. */
#define PERF_VERIFY_BYTES (256u << 20)
#define PERF_MAX_QPS      256
#define PERF_MAX_WORKERS  8 /**< of a configuration */
/** A duration whose end never comes: a run until it is stopped. */
#define PERF_FOREVER_S (100u * 365 * 86400)
/** Receives kept posted, more than one receive burst can carry. */
#define PERF_RX_DEPTH        4096
#define PERF_MAX_SLOTS_BYTES (1ull << 30) /**< limit of the slots of tests that flush or verify */

enum perf_test {
	PERF_WRITE,
	PERF_READ,
	PERF_SEND,
	PERF_ATOMIC_WRITE,
	PERF_FETCH_ADD,
	PERF_CMP_SWAP,
	PERF_WRITE_IMM,
	PERF_FLUSH,       /**< a Write and a Flush of it */
	PERF_VERIFY,      /**< the hash alone */
	PERF_COMMIT,      /**< weft_commit(): Write, Flush, Verify, Atomic Write, Flush */
	PERF_COMMIT_BARE, /**< Write and Atomic Write */
	/** the work of a commit, done by the server's application, in one round */
	PERF_TWO_SIDED,
	PERF_TWO_SIDED_2, /**< the same in two rounds */
	PERF_LOG_APPEND,  /**< weft_log_append() until durable, one target */
	PERF_RPC_NULL,    /**< a call that does nothing */
	PERF_RPC_READ,    /**< READ of the export program */
	PERF_RPC_WRITE,   /**< its WRITE, unstable */
	PERF_RPC_DURABLE, /**< its WRITE, durable before the reply */
	PERF_NTESTS,
};

/** Whether the test works on a word of eight octets, whatever the size asked for. */
static inline bool
perf_is_word(enum perf_test t)
{
	return t == PERF_ATOMIC_WRITE || t == PERF_FETCH_ADD || t == PERF_CMP_SWAP;
}

/** Whether each message uses up a receive. The server then tells when it has posted more. */
static inline bool
perf_takes_receive(uint32_t t)
{
	return t == PERF_SEND || t == PERF_WRITE_IMM;
}

/** Whether the test works on a region of the server's medium with rights to flush and verify. */
static inline bool
perf_is_place(uint32_t t)
{
	return t >= PERF_FLUSH && t <= PERF_LOG_APPEND;
}

/** Whether the test makes calls of RPC-over-RDMA. */
static inline bool
perf_is_rpc(uint32_t t)
{
	return t >= PERF_RPC_NULL && t <= PERF_RPC_DURABLE;
}

/** Messages that each side is prepared to receive. */
static inline uint32_t
perf_rpc_credits(uint32_t depth)
{
	return depth < 8 ? 8 : depth > 64 ? 64 : depth;
}

/** Whether the test is a transaction: slots of data, and a commit word behind them. */
static inline bool
perf_is_commit(uint32_t t)
{
	return t >= PERF_COMMIT && t <= PERF_TWO_SIDED_2;
}

/** Whether the server's application does the work and answers by a Send. */
static inline bool
perf_is_two_sided(uint32_t t)
{
	return t == PERF_TWO_SIDED || t == PERF_TWO_SIDED_2;
}

/** Whether the QP's receives are the test's own, so that the server can be told when the measured
 * part begins and ends (flow.h). */
static inline bool
perf_is_told(uint32_t t)
{
	return !perf_is_rpc(t) && !perf_is_two_sided(t) && t != PERF_LOG_APPEND;
}

/** least number of data slots, so that transactions do not touch the same cache lines */
#define PERF_SLOTS 16

/** Slots of data in the region of a test, and in the client's own. */
static inline uint64_t
perf_slots(uint32_t t, uint32_t depth)
{
	if (perf_is_rpc(t))
		return depth;
	return !perf_is_place(t) ? 1 : depth > PERF_SLOTS ? depth : PERF_SLOTS;
}

/** log-append: the targets that host the log. */
struct perf_hosts {
	uint32_t n, quorum; /**< quorum 0: more than half */
	struct {
		struct sockaddr_storage to;
		char export_name[256];
	} at[WEFT_LOG_MAX_TARGETS];
	struct auth_arg auth;
};

/** One second of a bandwidth test. */
struct perf_tick {
	const struct perf_job *job;
	uint64_t messages;   /**< in this second, sent by this side */
	uint64_t elapsed_ns; /**< since the beginning of the measured part */
	uint64_t second_ns;  /**< the length of this second */
	uint64_t done, all;  /**< messages so far, and in all; all is 0 with a duration */
};

struct perf_job {
	enum perf_test test;
	bool latency; /**< else bandwidth */
	uint32_t size_bytes;
	uint64_t iterations;   /**< measured, of each QP; 0 with a duration */
	uint32_t duration_s;   /**< bandwidth only; 0: by iterations */
	uint32_t qps;          /**< connections */
	uint32_t depth;        /**< work requests outstanding on each QP */
	uint32_t rx_depth;     /**< receives that each side keeps posted on each QP */
	uint32_t warmup;       /**< iterations before the measured ones, of each QP */
	uint32_t cq_mod;       /**< one completion for so many work requests; 0: chosen by depth */
	uint32_t post_list;    /**< work requests posted in one call; 0: what there is room for */
	uint32_t inline_bytes; /**< messages up to this size are copied when they are posted */
	bool both_ways;        /**< the server sends as well */
	const struct mix *mix; /**< several sizes or tests; NULL: one of each */
	bool verify;           /**< each octet is compared with what was sent */
	bool no_crc;           /**< no CRC32c, at both sides */
	bool markers;          /**< MPA's markers, in both directions */
	bool events;           /**< completions by event: threads sleep instead of polling */
	uint32_t workers;      /**< over which the connections are spread, each with its thread */
	/** messages a second of all QPs; 0: as many as there are. With latency each has its
	 * intended start, whatever became of the ones before it (an open loop). */
	double rate;
	/** two-sided: the server's application runs on a thread of its own */
	bool app_thread;
	/** two-sided: the application hashes the medium's content, as a Verify does */
	bool app_medium;
	uint8_t rpc_version; /**< of RPC-over-RDMA */
	/** log-append: Flush for visibility, because the server's medium has no other */
	bool visible;
	/** log-append: the weft-targets; NULL: the log is at a weft-perf server */
	const struct perf_hosts *hosts;
	/** bandwidth: *stop ends the measured part early; NULL: nothing does */
	const volatile sig_atomic_t *stop;
	/** bandwidth: called once a second with what was done since the last call; or NULL */
	void (*tick)(const struct perf_tick *t);
};

/** What the thread of a loop has used, and its worker's where that is another one; the differences
 * count. */
struct perf_self {
	uint64_t at_ns;
	uint64_t cpu_ns;           /**< time on a CPU */
	uint64_t waited_ns;        /**< time that it could run and had no CPU */
	uint64_t worker_waited_ns; /**< the same of the worker's thread; 0: it has none */
	uint64_t cycles;           /**< TSC cycles of the worker's polls that had work */
};
/** Read them. On the loop's thread. */
void perf_self_now(const struct loop *l, struct perf_self *s);
/** Since `from`. */
struct perf_self perf_self_since(const struct loop *l, const struct perf_self *from);

struct perf_result {
	struct perf_job job;
	uint64_t iterations; /**< iterations done */
	double seconds;
	double peak_mbps, avg_mbps; /**< 10^6 octets a second */
	double paced_s;             /**< with a rate: time until the last message was posted */
	double worst_mbps;          /**< of the slowest 10 ms; 0: the run was too short */
	double mmsgs;               /**< 10^6 messages a second */
	double cycles_per_msg;      /**< TSC cycles of this side's busy polls, per message */
	double lat_min_us, lat_max_us, lat_typical_us, lat_avg_us, lat_stdev_us, lat_p99_us,
	        lat_p999_us;
	struct hist *hist;     /**< latency: the samples in ns; freed by perf_result_free() */
	bool half;             /**< a sample is a round trip, and the latency half of it */
	uint64_t verified;     /**< messages whose octets were all compared */
	bool interrupted;      /**< *job.stop ended it: fewer iterations than asked for */
	uint64_t retrans_segs; /**< of both sides, where the server reports */
	/** the measuring thread; its peer, where the server reports (peer.ns is 0 otherwise) */
	struct perf_self self;
	struct perf_report peer; /**< sums of all connections */
	/** durations of this side's polls that had work */
	double poll_p50_us, poll_p99_us, poll_max_us;
	struct weft_mpa_info mpa; /**< of the first connection; the server's is in peer */
	char region[128];         /**< medium and hash of tests that flush or verify; else empty */
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
};

extern const char *const perf_test_names[PERF_NTESTS];
/** The name of a job's test; "mix" with several. */
const char *perf_job_name(const struct perf_job *job);
/** Octets of a message, in the mean. */
double perf_mean_bytes(const struct perf_job *job);

/** Print the heading of perftest's table, then rows. */
void perf_print_head(FILE *f, const struct perf_job *job);
void perf_print_row(FILE *f, const struct perf_result *r);
/** All results as one JSON document; command: the arguments of the program, or NULL
 * (docs/weft-perf.md has the keys). */
void perf_print_json(FILE *f, char *const *command, const struct perf_result *r, unsigned int n);
/** Write the facts of this machine that a figure depends on, as the object "machine". */
void perf_facts_json(struct json *j);
/** The results as comma-separated values, with a line of names. */
void perf_print_csv(FILE *f, const struct perf_result *r, unsigned int n);
/** What the two ends agreed on in MPA, a line. */
void perf_print_mpa(FILE *f, const struct perf_result *r);
/** The samples of a latency test, a line for each part of an octave that has some. */
void perf_print_histogram(FILE *f, const struct perf_result *r);
/** Print on standard error what makes a result doubtful, a line each. */
void perf_warn(const struct perf_result *r);
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
 * one. 0, or -errno with one line in *why. -EAGAIN: the server serves another client;
 * -EMEDIUMTYPE: the job needs job->visible.
 */
int perf_client_run(const struct perf_side *side, const struct sockaddr *addr, socklen_t addr_len,
                    const struct perf_job *job, struct perf_result *out, char *why,
                    size_t why_bytes);
/** Serve clients until *stop; `once`: return after the first. */
int perf_server_run(const struct perf_side *side, const struct sockaddr *addr, socklen_t addr_len,
                    const struct perf_medium *medium, bool once, const volatile sig_atomic_t *stop);

#endif /* WEFT_PERF_H */
