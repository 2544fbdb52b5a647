/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_WIRE_H
#define WEFT_PERF_WIRE_H

/**
 * @file What the two sides of weft-perf say to each other: when they connect, at the end of the
 * measured part, and in two-sided tests. In the octet order of the hosts.
 */

#include <stdint.h>

#include <weft/log.h>
#include <weft/weft.h>

#include "host.h"

/** Private data of the Request: the job, and the client's own memory. */
struct perf_hello {
	uint8_t magic[8]; /**< "weftperf" */
	uint32_t version;
	uint32_t test;
	uint32_t latency;
	uint32_t size_bytes;
	uint32_t depth;
	uint32_t rx_depth;
	uint32_t cq_mod;
	uint32_t post_list;
	uint32_t inline_bytes;
	uint32_t both_ways;
	uint32_t reversed;
	uint32_t outs;
	uint32_t recv_list;
	uint32_t verify;
	uint32_t use_srq;
	uint32_t qps;     /**< connections of the run */
	uint32_t no_crc;  /**< leave CRC32c out */
	uint32_t markers; /**< ask for markers, too */
	uint32_t events;  /**< completions by event, at both sides */
	uint64_t run;     /**< the same on all connections of a run */
	uint16_t app_thread;
	uint16_t app_medium;
	uint32_t stag;
	uint64_t to;        /**< the buffer that the server writes to */
	uint64_t report_to; /**< place of a struct perf_report */
};

/** What the server says of one connection at the end of the measured part. */
struct perf_report {
	uint64_t worker;                    /**< the server's, counted from 0 */
	uint64_t ns;                        /**< time between PERF_CTL_START and PERF_CTL_STOP */
	uint64_t recv_msgs, recv_bytes;     /**< messages of RDMAP in that time, and their octets */
	uint64_t out_msgs, out_bytes;       /**< the same that this QP has sent */
	uint64_t sent_msgs, sent_bytes;     /**< of the test, with both_ways */
	uint64_t sent_ns;                   /**< time until they were placed */
	uint64_t cpu_ns, waited_ns, cycles; /**< of the polling thread (perf_self_now()) */
	uint64_t busy_ns;                   /**< time of the worker's polls that had work */
	uint64_t retrans_segs;
	uint32_t mpa_rev, crc, rx_markers, tx_markers; /**< as the connection has them */
	uint64_t verified, bad; /**< messages compared, and those with a wrong octet */
};

/** Private data of the Reply. */
struct perf_welcome {
	uint8_t magic[8];
	uint32_t version;
	uint32_t stag;
	uint64_t to;
	uint64_t len_bytes;
	uint32_t rq_depth;     /**< receives the server keeps posted */
	uint32_t persistent;   /**< a Flush of the region makes data persistent */
	char hash[24];         /**< hash of the region's Verify */
	char mechanism[96];    /**< mechanism of the region's Flush, as text */
	struct perf_host host; /**< the server's machine and build */
};

/** Message of a two-sided test: the slot, the hash that it must have, and the round. */
struct perf_order {
	uint32_t slot;
	uint32_t round; /**< 0: data and word; 1: the data; 2: the word */
	uint8_t expect[WEFT_HASH_MAX_BYTES];
};

/** The answer to a struct perf_order. */
struct perf_answer {
	uint32_t slot;
	uint32_t bad; /**< the data have another hash */
};

/** Offset of the commit word in the server's memory, which has the slots, the commit word, and
 * the place where a two-sided client puts the next word. */
static inline uint64_t
perf_word_at(uint64_t slots, uint32_t size_bytes)
{
	return (slots * size_bytes + 63) & ~63ull;
}

/** Length of a log's region: room for four times the appends that may be under way. */
static inline uint64_t
perf_log_bytes(uint32_t depth, uint32_t size_bytes)
{
	uint64_t ring = 4ull * depth * (size_bytes + 2 * WEFT_LOG_HEADER_BYTES);

	return WEFT_LOG_RING_OFF + (((ring > 1u << 20 ? ring : 1u << 20) + 4095) & ~4095ull);
}

#define PERF_NEXT_WORD 64  /**< behind the commit word */
#define PERF_WORDS     128 /**< both words */

/** What the server says in a Reject: how a text begins after which it is tried again, and the text
 * for what is no hello of this version. */
#define PERF_BUSY   "busy: "
#define PERF_UNLIKE "not a weft-perf client of this version"

#define PERF_MAGIC   "weftperf"
#define PERF_VERSION 7

#endif /* WEFT_PERF_WIRE_H */
