/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_FLOW_H
#define WEFT_PERF_FLOW_H

/**
 * @file One direction of traffic on one QP: work requests of a test, as many as its depth allows,
 * and what has become of them. Either side has one; the server's sends when traffic goes both ways.
 *
 * Beside the test's messages the two sides exchange a few of eight octets, by Immediate Data of RFC
 * 7306: they need no buffer, and stay in order with the messages.
 */

#include "perf.h"

/** What the first octet of Immediate Data says. Test data begin with 0. */
enum perf_ctl {
	PERF_CTL_NONE = 0,
	PERF_CTL_ACK,    /**< as many messages of the peer were taken as the other octets say */
	PERF_CTL_START,  /**< the measured part begins; the server answers alike */
	PERF_CTL_STOP,   /**< it is over: stop sending, and report */
	PERF_CTL_REPORT, /**< a struct perf_report is in the client's memory */
};

/** wr_id of the Read behind the last work request. */
#define FLOW_BARRIER_ID UINT64_MAX
/** Work requests that one call posts at most, and messages in a row that --post_list can ask for.
 */
#define FLOW_BATCH PERF_MAX_POST_LIST
/** Places of a send queue beyond the depth: answers, control messages, a barrier. */
#define FLOW_SQ_EXTRA 64

struct flow {
	struct weft_qp *qp;
	enum perf_test test;
	uint32_t size_bytes;
	uint32_t depth;        /**< work requests outstanding */
	uint32_t signal_every; /**< one completion for so many */
	uint32_t post_list;    /**< posted in one call; 0: what there is room for */
	bool is_inline;
	const struct mix *mix; /**< or NULL */
	uint64_t slots;        /**< messages of different content, here and at the peer; 1: none */
	uint8_t *mem;          /**< source of Writes and Sends, sink of Reads */
	uint32_t lkey;
	uint32_t stag; /**< the peer's region */
	uint64_t to;
	uint32_t peer_rq; /**< receives that the peer keeps posted */

	uint64_t posted, completed; /**< work requests */
	uint64_t barriers;          /**< completed ones with FLOW_BARRIER_ID */
	uint32_t unsignaled;        /**< posted since the last one that makes a completion */
	uint64_t acked;             /**< messages that the peer has taken, as it said */
	/* the other direction */
	uint64_t received; /**< messages of the test */
	uint32_t unacked;  /**< of these, not acknowledged yet */
	uint32_t rq_depth; /**< receives that this side keeps posted for them */
	uint32_t spent;    /**< with a list of receives: free ones, which are not posted yet */
};

/** Fill in the message number seq: each octet depends on seq and on its place. */
void flow_pattern(uint8_t *buf, uint32_t bytes, uint64_t seq);
/** The first octet that is not as flow_pattern() makes it; `bytes`: all are. */
uint32_t flow_compare(const uint8_t *buf, uint32_t bytes, uint64_t seq);
/** Set depth, signal_every and the like from the job; the rest is the caller's. */
void flow_init(struct flow *f, const struct perf_job *job);
/** Post as much as there is room for, up to `end` work requests in all. 0 or -errno. */
int flow_fill(struct flow *f, uint64_t end);
/** Fill in the work request number seq of the test; flags are the caller's. */
void flow_wr(struct flow *f, struct weft_wr *wr, struct weft_sge *sge, uint64_t seq);
/** Count a completion of what flow_fill() posted, or of the barrier. */
void flow_completed(struct flow *f, const struct weft_wc *wc);
/** Post a Read of one octet that completes behind everything posted. 0 or -errno. */
int flow_barrier(struct flow *f);
/** Send a control message. 0 or -errno. */
int flow_tell(struct weft_qp *qp, enum perf_ctl what, uint64_t value);
/** The control message of a completed receive; PERF_CTL_NONE: it is a message of the test. */
enum perf_ctl flow_told(const struct weft_wc *wc, uint64_t *value);
/** A receive is free: with `list` of them post as many in one call, all with this buffer. They are
 * beside those that rq_depth promises to the peer. */
void flow_repost_recv(struct flow *f, struct weft_qp *qp, const struct weft_sge *sge,
                      uint32_t list);
/** A message of the test was taken, and its receive is posted again: acknowledge now and then. */
void flow_took(struct flow *f);

#endif /* WEFT_PERF_FLOW_H */
