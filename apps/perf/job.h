/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_JOB_H
#define WEFT_PERF_JOB_H

/** @file One job of weft-perf: a test, a size, bandwidth or latency, the shape of its traffic. */

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "auth_arg.h"
#include <weft/log.h>

#define PERF_MAX_BYTES (256u << 20) /**< each side allocates two of them */

#define PERF_MAX_DEPTH 4096
/** Messages of different content on one QP, in all. */
#define PERF_VERIFY_BYTES (256u << 20)
/** Messages that one call posts at most. */
#define PERF_MAX_POST_LIST 64
#define PERF_MAX_OUTS      256
#define PERF_MAX_QPS       256
#define PERF_MAX_WORKERS   8 /**< of a configuration */
/** Samples that are kept one by one, of all workers. */
#define PERF_MAX_SAMPLES 10000000u
/** Time to connect, unless --timeout says another. */
#define PERF_CONNECT_S 5
/** Calls that one connection to a volume has under way at most. */
#define PERF_VOLUME_CALLS 32
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
	PERF_VOLUME_READ, /**< a volume of a weft-target is read */
	PERF_VOLUME_WRITE,
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

/** The longest list for a peer that keeps so many receives posted: it acknowledges in quarters, so
 * a part of them may be free and not known to be. */
static inline uint32_t
perf_list_most(uint32_t peer_rq)
{
	return peer_rq - peer_rq / 4;
}

/** Receives of rx_depth that each of `qps` connections may use up without an acknowledgement. */
static inline uint32_t
perf_rx_share(bool use_srq, uint32_t rx_depth, uint32_t qps)
{
	return use_srq ? rx_depth / qps : rx_depth;
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

/** Whether the test is on a volume of a weft-target. */
static inline bool
perf_is_volume(uint32_t t)
{
	return t == PERF_VOLUME_READ || t == PERF_VOLUME_WRITE;
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
	return !perf_is_rpc(t) && !perf_is_two_sided(t) && !perf_is_volume(t) &&
	       t != PERF_LOG_APPEND;
}

/** least number of data slots, so that transactions do not touch the same cache lines */
#define PERF_SLOTS 16

/** Slots of data in the region of a test, and in the client's own. */
static inline uint64_t
perf_slots(uint32_t t, uint32_t depth)
{
	if (perf_is_rpc(t) || perf_is_volume(t))
		return depth;
	return !perf_is_place(t) ? 1 : depth > PERF_SLOTS ? depth : PERF_SLOTS;
}

/** log-append: the targets that host the log. Tests on a volume: its only target. */
struct perf_hosts {
	uint32_t n, quorum; /**< quorum 0: more than half */
	struct {
		struct sockaddr_storage to;
		char export_name[256];
	} at[WEFT_LOG_MAX_TARGETS];
	struct auth_arg auth;
};

/** One second of a run. */
struct perf_tick {
	const struct perf_job *job;
	/** in this second: sent by this side, answered (latency), or compared (verify) */
	uint64_t messages;
	uint64_t elapsed_ns; /**< since the beginning of the measured part */
	uint64_t second_ns;  /**< the length of this second */
	uint64_t done, all;  /**< messages so far, and in all; all is 0 with a duration */
};

struct perf_job {
	enum perf_test test;
	bool latency; /**< else bandwidth */
	uint32_t size_bytes;
	uint64_t iterations;   /**< measured, of each QP; 0 with a duration */
	uint32_t duration_s;   /**< without a rate of latency; 0: by iterations */
	uint32_t qps;          /**< connections */
	uint32_t depth;        /**< work requests outstanding on each QP */
	uint32_t rx_depth;     /**< receives that each side keeps posted on each QP */
	uint32_t warmup;       /**< iterations before the measured ones, of each QP */
	uint32_t cq_mod;       /**< one completion for so many work requests; 0: chosen by depth */
	uint32_t post_list;    /**< work requests posted in one call; 0: what there is room for */
	uint32_t inline_bytes; /**< messages up to this size are copied when they are posted */
	uint32_t outs;         /**< Reads and atomics outstanding on each QP; 0: by depth */
	uint32_t recv_list;    /**< receives posted in one call; 0: each as soon as it is free */
	uint32_t margin_s;     /**< of duration_s, at either end: sent and not measured */
	uint32_t connect_s;    /**< longest time to connect */
	bool both_ways;        /**< the server sends as well */
	bool reversed;         /**< the server sends in place of the client */
	const struct mix *mix; /**< several sizes or tests; NULL: one of each */
	bool no_peak;          /**< bandwidth: neither peak nor worst 10 ms are looked for */
	bool verify;           /**< each octet is compared with what was sent */
	bool use_srq;          /**< the receives of a side come from one SRQ of rx_depth */
	bool no_crc;           /**< no CRC32c, at both sides */
	bool markers;          /**< MPA's markers, in both directions */
	bool keep_samples;     /**< latency: each sample is kept, in its order */
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
	/** log-append: the weft-targets; NULL: the log is at a weft-perf server. Tests on a volume:
	 * its target */
	const struct perf_hosts *hosts;
	/* tests on a volume */
	bool windows; /**< by windows, not by calls */
	bool stable;  /**< each write is durable when it is answered */
	bool random;  /**< places in an order that depends on seed; else one after the other */
	uint32_t flush_every; /**< a FLUSH behind so many writes; 0: none */
	uint64_t seed;
	uint64_t range_off_bytes, range_bytes; /**< what is used; 0 octets: to the volume's end */
	/** bandwidth: *stop ends the measured part early; NULL: nothing does */
	const volatile sig_atomic_t *stop;
	/** called once a second with what was done since the last call, on a thread of its own; or
	 * NULL */
	void (*tick)(const struct perf_tick *t);
};

/** Whether several QPs, lists and both directions are for this test: plain work requests. */
static inline bool
perf_is_plain(uint32_t t)
{
	return perf_is_told(t) && !perf_is_place(t);
}

/** Whether a test's completions may come by event. A Write makes none where it arrives. */
static inline bool
perf_may_sleep(uint32_t t, bool latency)
{
	return perf_is_told(t) && !(latency && t == PERF_WRITE);
}

/** The depth of a job that names none. */
static inline uint32_t
perf_default_depth(uint32_t t)
{
	return perf_is_rpc(t) || perf_is_volume(t) ? 32 : 128;
}

/**
 * Whether a job can be run: each of its numbers is within its limit, and none excludes another. The
 * size is the greatest of the job; 0: it is not known yet. False: one line in why, which speaks of
 * the options of the command line.
 */
bool perf_job_check(const struct perf_job *job, char *why, size_t why_bytes);

extern const char *const perf_test_names[PERF_NTESTS];
/** The name of a job's test; "mix" with several. */
const char *perf_job_name(const struct perf_job *job);
/** Octets of a message, in the mean. */
double perf_mean_bytes(const struct perf_job *job);
/** The same in words: "4096 octets"; "2304 octets on average" with several sizes. Returns buf. */
const char *perf_size_text(const struct perf_job *job, char *buf, size_t bytes);

#endif /* WEFT_PERF_JOB_H */
