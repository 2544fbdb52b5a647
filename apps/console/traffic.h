/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CONSOLE_TRAFFIC_H
#define WEFT_CONSOLE_TRAFFIC_H

/**
 * @file Traffic: messages that a QP's worker sends, takes or sends back without the main thread,
 * until a count is reached or `stop`. Completions of the console's QPs come to the worker first
 * (inbox.h); traffic_take() keeps those of traffic.
 *
 * A Write or a Send completes when TCP has its octets, so a flow ends with an RDMA Read of no
 * octets: its answer says that the peer has taken everything before it. A Send needs a receive of
 * the peer, and RDMAP has no flow control. So such a Read follows each half of a window of Sends,
 * and at most a window of Sends is without an answer.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "console.h"

#define TRAFFIC_MAX       16
#define TRAFFIC_DEPTH_MAX 128u
/** A ping whose echoes do not come for so many seconds ends. */
#define TRAFFIC_ECHO_S 5u
/** Octets of a Send and a ping: the console's receives are no longer. */
#define TRAFFIC_SEND_MAX CONSOLE_RECV_BYTES
/** Octets of a Write and a Read. */
#define TRAFFIC_RDMA_MAX (64u << 20)
/** Marks the wr_id of a work request of traffic; TRAFFIC_AT has its number in the table. */
#define TRAFFIC_ID   (1ull << 62)
#define TRAFFIC_SYNC (1ull << 61) /**< a Read of no octets */
#define TRAFFIC_AT   48
/** Marks the wr_id of a receive; the low bits are the buffer's number. */
#define RECV_ID (1ull << 63)

enum traffic_kind {
	TRAFFIC_WRITE,
	TRAFFIC_READ,
	TRAFFIC_SEND,
	TRAFFIC_PING, /**< Sends that the peer sends back */
	TRAFFIC_SINK, /**< takes receives and posts them again */
	TRAFFIC_ECHO, /**< sends each message back */
};

enum traffic_state {
	TRAFFIC_FREE, /**< no traffic has this number */
	TRAFFIC_RUNNING,
	TRAFFIC_ENDING, /**< nothing more is sent; completions are under way */
	TRAFFIC_DONE,
};

/** What a user asks for. */
struct traffic_want {
	enum traffic_kind kind;
	uint32_t size, depth;
	uint64_t count; /**< 0: until stopped */
	uint64_t rate;  /**< messages a second; 0: as fast as possible */
	uint8_t *mem;   /**< WRITE, READ: the local octets, with their lkey; else not used */
	uint32_t lkey;
	/** Message k is at offset k * size of mem and of the peer's region, modulo span. */
	uint64_t span;
	uint32_t stag; /**< of the peer */
	uint64_t to;   /**< offset in the peer's region */
};

/** A flow as the main thread sees it. */
struct traffic_figures {
	unsigned int number;
	struct traffic_want want;
	unsigned int qp;
	enum traffic_state state;
	uint64_t messages, octets; /**< complete, taken, or sent back */
	uint64_t bad;              /**< PING: echoes that are not what was sent */
	uint64_t ns;               /**< since the start, or from the start to the end */
	/** PING: the least, the most and the sum of the times from a message to its echo */
	uint64_t rtt_min_ns, rtt_max_ns, rtt_sum_ns;
	uint64_t since_ns, since_messages, since_octets; /**< since the last look */
	char why[80];                                    /**< why it ended early; else empty */
};

/**
 * Begin traffic on a QP that is connected. Returns its number, from 1. -EBUSY: the QP's receives
 * are taken by other traffic; -EOPNOTSUPP: its receives are an SRQ's; -ENOSPC: 16 run; -ENOMEM;
 * errors of weft_mr_reg(). Main thread, as all functions but traffic_take().
 */
int traffic_start(struct console_qp *q, const struct traffic_want *want);
/** Stop traffic in order, wait for that at most 5 s, and leave its figures until traffic_free(). */
void traffic_stop(unsigned int number);
/** Free the number. The QP of traffic that has not ended is destroyed before. */
void traffic_free(unsigned int number);
/** Figures of the traffic with this number. False: there is none. */
bool traffic_get(unsigned int number, struct traffic_figures *f);
/** Begin the next span of since_ns here. */
void traffic_looked(unsigned int number);
const char *traffic_kind_str(enum traffic_kind k);
/** One line about traffic: "write on qp 1: 1000 messages, ..."; returns buf. */
const char *traffic_str(const struct traffic_figures *f, char *buf, size_t size);
/** A line about traffic that reached its count, or that ended because a post failed or no echo
 * came. Each is returned once; false: there is none. */
bool traffic_news(char *buf, size_t size);
/** A QP's connection has ended: its traffic ends. Appends to buf what of it ended. */
void traffic_lost(const struct console_qp *q, char *buf, size_t size);
/** Have the worker run fn(arg) as soon as it takes calls: waits while it takes none. */
void traffic_call(struct weft_worker *w, void (*fn)(void *arg), void *arg);
/** Before a QP is destroyed: its traffic ends at once. */
void traffic_drop(struct console_qp *q);
/**
 * Before what a destroyed QP used is freed: waits until its worker is done with it, at most 5 s.
 * False: it is not; what it uses must not be freed.
 */
bool traffic_settle(struct weft_worker *w);

/** What traffic_take() did with a completion. */
enum traffic_taken {
	TRAFFIC_NOT_MINE, /**< it is the main thread's */
	TRAFFIC_TAKEN,
	TRAFFIC_ENDED, /**< and thereby traffic has ended */
};

/** Have fn called, on a worker, when traffic ends without a completion. Before the first one. */
void traffic_on_end(void (*fn)(void));
/** Take a completion of traffic. On the worker of its QP. */
enum traffic_taken traffic_take(const struct weft_wc *wc);

#endif /* WEFT_CONSOLE_TRAFFIC_H */
