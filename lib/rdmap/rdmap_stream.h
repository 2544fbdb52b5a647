/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMAP_STREAM_H
#define RDMAP_STREAM_H

/**
 * @file
 * The structure of an RDMAP stream, and what every file of this layer does with it.
 *
 * Destruction: an up-call may destroy the stream it comes from. Every entry point that makes
 * up-calls (ddp's up-calls, the task, the timer, the functions of weft_rdmap.h) runs between
 * rdmap_enter() and rdmap_leave(). weft_rdmap_destroy() in between sets r->dead; a task frees the
 * stream later. So code after an up-call checks r->dead, and touches nothing else when it is set.
 */

#include <stdalign.h>

#include "rdmap_wire.h"

WEFT_LOG_DECLARE(rdmap);

/** Reassembly of an untagged message other than a Send or Immediate Data. */
struct rdmap_msg {
	struct weft_ddp_hdr h; /**< of the last segment */
	uint8_t op;
	uint32_t len_bytes;
	uint32_t seg_bytes; /**< of the last segment, with its header */
	uint8_t data[RDMAP_CTL_MAX_BYTES];
};

/** The Send or Immediate Data being received. verbs owns the buffer; rdmap fills it. */
struct rdmap_rx_send {
	bool active;
	uint8_t op;
	uint8_t nsge;
	const struct weft_rdmap_sge *sge; /**< from recv_buf() */
	union {
		uint64_t size_bytes;               /**< Send: size of the buffer */
		uint8_t imm[WEFT_RDMAP_IMM_BYTES]; /**< Immediate Data: octets received so far */
	};
	uint32_t got_bytes;
};

struct rdmap_work;

/** The kind of message that is partly sent. No other message may start before its end. */
enum rdmap_tx_mid { RDMAP_MID_NONE, RDMAP_MID_REQ, RDMAP_MID_RESP };

/*
 * The members are in the order of their use, because a worker with many busy streams waits for
 * memory more than for anything else. A turn of a stream that sends short Writes uses the first
 * three cache lines, and ddp's first one; a received Write uses ddp's first line and the counters.
 */
struct weft_rdmap {
	/* every turn */
	alignas(64) struct weft_task task;
	struct weft_rdmap_req_list sq; /**< posted, not completely sent */
	enum weft_rdmap_state state;
	enum rdmap_tx_mid mid;
	struct weft_sched *sched;
	const struct weft_rdmap_ops *ops;
	void *user;
	struct weft_rdmap_req_list
	        late; /**< posted outside RTS; moved to flush_list in the next turn */
	/* inbound request queue */
	uint32_t irq_head; /**< next response to send */
	uint32_t irq_exec; /**< next request to execute; all before it are DONE */
	uint32_t irq_tail;
	uint16_t depth;         /**< nesting of rdmap_enter() */
	bool unflushed;         /**< segments were written since the last flush */
	uint8_t term_msg_bytes; /**< not 0: the Terminate waits to be sent */
	bool dead;              /**< destroyed; freed when depth is 0 and no driver has a request */
	bool gone;              /**< the connection below is gone */
	bool eof;               /**< the peer closed its direction: no answer can arrive */
	bool fin_sent;
	uint8_t rtr;         /**< enum weft_rdmap_rtr to send before anything else */
	bool resp_turn;      /**< responses and requests alternate, one message each */
	bool start_deferred; /**< start() answered WAIT in this turn */
	bool stalled;        /**< the head of sq waits at ORD (counted once) */
	/** weft_rdmap_leave() was called: when the stream is reset, if it has not closed; else 0 */
	uint64_t left_end_ns;
	alignas(64) struct weft_rdmap_op_stats *op_stats; /**< NULL: not counted */
	struct weft_rdmap_stats stats;
	struct weft_ddp ddp;
	/* requests that wait for an answer, and received messages of several segments */
	struct weft_rdmap_req_list out; /**< read-like requests without an answer yet, in order */
	uint16_t n_out;                 /**< length of `out` */
	uint16_t ird, ord;
	uint8_t probes; /**< intervals of rdmap_probe.c that have passed */
	uint8_t hold;   /**< steps of rdmap_probe_closing() that are left before our FIN */
	struct rdmap_rx_send rx_send;
	/** per queue: a message of several segments that is incomplete; else NULL */
	struct rdmap_msg *msg[WEFT_DDP_NQN];
	struct rdmap_work *work; /**< NULL while at rest; the queue is then empty */
	uint32_t irq_mask;       /**< size of the ring in `work`, minus 1 */
	uint32_t irq_seen;       /**< irq_tail at the last call of rdmap_irq_rest() */
	struct weft_mem *mem;
	struct weft_mem_pd *pd; /**< the stream's scope in its protection domain */
	struct weft_lane *lane; /**< the peer's; NULL: long work is not divided by peers */
	/* the end of the stream */
	struct weft_rdmap_req_list flush_list; /**< to be flushed by done(): the stream is ending */
	struct weft_rdmap_req *fail_req;       /**< the request that a Terminate is about */
	struct weft_rdmap_req *rtr_req; /**< a Read as RTR, allocated by rdmap_rtr.c; else NULL */
	uint8_t term_msg[RDMAP_TERM_MAX_BYTES];
	enum weft_rdmap_status fail_status; /**< of fail_req */
	/** in RTS: probes, then rest (RDMAP_REST_NS); later: the time to close */
	struct weft_timer timer;
	uint64_t moved; /**< rdmap_moved() when rdmap_linger() armed the timer */
	struct weft_task reap;
};

static_assert(offsetof(struct weft_rdmap, op_stats) == 128 &&
                      offsetof(struct weft_rdmap, ddp) % 64 == 0,
              "the cache lines of a turn");

static inline void
rdmap_enter(struct weft_rdmap *r)
{
	r->depth++;
}

static inline void
rdmap_leave(struct weft_rdmap *r)
{
	r->depth--;
}

static inline void
rdmap_schedule(struct weft_rdmap *r)
{
	weft_task_queue(r->sched, &r->task);
}

/** Whether messages may flow: RTS, or CLOSING with our direction still open. */
static inline bool
rdmap_flowing(const struct weft_rdmap *r)
{
	return !r->dead && !r->fin_sent &&
	       (r->state == WEFT_RDMAP_ST_RTS || r->state == WEFT_RDMAP_ST_CLOSING);
}

static inline void
rdmap_count_out(struct weft_rdmap *r, uint8_t op)
{
	r->stats.msgs_out++;
	if (r->op_stats != NULL)
		r->op_stats->out[op]++;
}

static inline void
rdmap_count_in(struct weft_rdmap *r, uint8_t op)
{
	r->stats.msgs_in++;
	if (r->op_stats != NULL)
		r->op_stats->in[op]++;
}

/** Take back what rdmap_count_in() has counted. */
static inline void
rdmap_count_in_undo(struct weft_rdmap *r, uint8_t op)
{
	r->stats.msgs_in--;
	if (r->op_stats != NULL)
		r->op_stats->in[op]--;
}

/** Add 1 to a counter of struct weft_rdmap_faults. */
#define RDMAP_FAULT(r, field)                                                                      \
	do {                                                                                       \
		if ((r)->op_stats != NULL)                                                         \
			(r)->op_stats->faults.field++;                                             \
	} while (0)

#endif /* RDMAP_STREAM_H */
