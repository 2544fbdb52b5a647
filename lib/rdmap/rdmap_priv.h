/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMAP_PRIV_H
#define RDMAP_PRIV_H

/**
 * @file
 * The structure of an RDMAP stream, and the functions that the files of this layer share.
 *
 * Destruction: an up-call may destroy the stream it comes from. Every entry point that makes
 * up-calls (ddp's up-calls, the task, the timer, the functions of weft_rdmap.h) runs between
 * rdmap_enter() and rdmap_leave(). weft_rdmap_destroy() in between sets r->dead; a task frees the
 * stream later. So code after an up-call checks r->dead, and touches nothing else when it is set.
 */

#include "rdmap_wire.h"

WEFT_LOG_DECLARE(rdmap);

/** What a segment costs beside its payload in a poll's send budget (WEFT_SEND_BYTES). */
#define RDMAP_SEG_COST_BYTES 256
/** Time for the peer to close after a Terminate. RFC 5040 s6.2.1 gives no value. */
#define RDMAP_TERM_WAIT_NS (5 * WEFT_NS_PER_S)
/** Closing: longest time without progress before our FIN; time for the peer to close after it. */
#define RDMAP_LINGER_NS (60 * WEFT_NS_PER_S)
/** struct rdmap_work is freed after one to two of these without a request of the peer. */
#define RDMAP_REST_NS (1 * WEFT_NS_PER_S)
/** An initiator that has received no FPDU sends its first probe then (rdmap_probe.c). */
#define RDMAP_PROBE_NS (100 * WEFT_NS_PER_MS)

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

enum rdmap_irq_state {
	RDMAP_IRQ_QUEUED, /**< waiting or being executed */
	RDMAP_IRQ_DONE,   /**< executed; the response may be sent */
	RDMAP_IRQ_FAILED, /**< a Terminate follows when every earlier request is answered */
};

/** One entry of the inbound request queue. */
struct rdmap_irq_ent {
	uint8_t op;
	uint8_t state;
	/** Verify, QUEUED: octets of the expected hash. DONE: octets of the response's payload. */
	uint8_t hash_bytes;
	struct weft_term term;  /**< FAILED: the Terminate */
	struct weft_mem_mr *mr; /**< valid while executed; NULL for a zero-length Read. With `held`
	                           the entry has a reference; else valid in this poll only. */
	bool held;              /**< Flush: executed even when its STag is invalidated meanwhile */
	uint64_t to;
	uint64_t len_bytes; /**< a Flush of a whole region may exceed 32 bits */
	uint32_t stag;
	uint32_t flags;     /**< Flush: disposition; Atomic: Request Identifier */
	uint32_t sink_stag; /**< Read */
	uint64_t sink_to;
	uint32_t sent_bytes; /**< Read: octets of the response sent so far */
	uint32_t seg_bytes;  /**< for a Terminate: length of the request's segment, and header */
	uint8_t hdr[WEFT_DDP_UNTAGGED_HDR_BYTES];
	union {
		/** Verify: the hash; Atomic Write: the data; Atomic, DONE: the response */
		uint8_t hash[WEFT_HASH_MAX_BYTES];
		struct weft_rdmap_atomic atomic; /**< Atomic, QUEUED: the operands */
	};
};

/** State of the one persist request that a stream may have. */
enum rdmap_pio_state {
	RDMAP_PIO_IDLE,
	RDMAP_PIO_BUSY,  /**< the driver has the request */
	RDMAP_PIO_READY, /**< complete: status is valid; data of a read-back is not yet released */
};

/**
 * State for executing the peer's Reads, Flushes, Verifies, Atomics and Atomic Writes. Allocated at
 * the first such request and freed after RDMAP_REST_NS without one, so an idle stream is small.
 */
struct rdmap_work {
	struct weft_persist_req pio;
	enum rdmap_pio_state pio_state;
	bool pio_read;                    /**< the persist request is a read-back */
	struct weft_mem_mr *pio_mr;       /**< the persist request's own reference */
	uint32_t pio_off_bytes;           /**< octets of the read-back's data hashed so far */
	const struct weft_hash_ops *hash; /**< of the Verify being executed, else NULL */
	uint64_t hash_pos_bytes;
	struct weft_slice slice; /**< budget of hashing and of synchronous flushes and read-backs */
	struct weft_turn turn;   /**< turn for a read-back or a flush that blocks */
	struct weft_hash_state hash_state;
	struct rdmap_irq_ent irq[]; /**< ring; size a power of two, free-running indexes */
};

/** The kind of message that is partly sent. No other message may start before its end. */
enum rdmap_tx_mid { RDMAP_MID_NONE, RDMAP_MID_REQ, RDMAP_MID_RESP };

struct weft_rdmap {
	struct weft_ddp ddp;
	struct weft_mem *mem;
	struct weft_mem_pd *pd; /**< the stream's scope in its protection domain */
	struct weft_sched *sched;
	struct weft_lane *lane; /**< the peer's; NULL: long work is not divided by peers */
	const struct weft_rdmap_ops *ops;
	void *user;
	enum weft_rdmap_state state;
	uint16_t ird, ord;
	bool dead; /**< destroyed; freed when depth is 0 and no driver has a request */
	bool gone; /**< the connection below is gone */
	bool eof;  /**< the peer closed its direction: no answer can arrive */
	bool fin_sent;
	unsigned int depth; /**< nesting of rdmap_enter() */
	/* outbound */
	struct weft_rdmap_req_list sq;   /**< posted, not completely sent */
	struct weft_rdmap_req_list out;  /**< read-like requests without an answer yet, in order */
	struct weft_rdmap_req_list flq;  /**< to be flushed by done(): the stream is ending */
	struct weft_rdmap_req_list late; /**< posted outside RTS; moved to flq in the next turn */
	struct weft_rdmap_req *fail_req; /**< the request that a Terminate is about */
	enum weft_rdmap_status fail_status;
	uint16_t n_out; /**< length of `out` */
	enum rdmap_tx_mid mid;
	uint8_t rtr;                    /**< enum weft_rdmap_rtr to send before anything else */
	struct weft_rdmap_req *rtr_req; /**< a Read as RTR, allocated by rdmap_rtr.c; else NULL */
	bool resp_turn;                 /**< responses and requests alternate, one message each */
	bool hooked;                    /**< start() answered WAIT in this turn */
	bool stalled;                   /**< the head of sq waits at ORD (counted once) */
	bool unflushed;                 /**< segments were written since the last flush */
	uint8_t probes;                 /**< intervals of rdmap_probe.c that have passed */
	/* inbound */
	struct rdmap_rx_send rx_send;
	/** per queue: a message of several segments that is incomplete; else NULL */
	struct rdmap_msg *msg[WEFT_DDP_NQN];
	/* inbound request queue */
	struct rdmap_work *work; /**< NULL while at rest; the queue is then empty */
	uint32_t irq_mask;       /**< size of the ring in `work`, minus 1 */
	uint32_t irq_seen;       /**< irq_tail at the last call of rdmap_irq_rest() */
	uint32_t irq_head;       /**< next response to send */
	uint32_t irq_exec;       /**< next request to execute; all before it are DONE */
	uint32_t irq_tail;
	/* Terminate */
	uint8_t term_msg[RDMAP_TERM_MAX_BYTES];
	uint8_t term_msg_bytes; /**< not 0: the Terminate waits to be sent */
	/** in RTS: probes, then rest (RDMAP_REST_NS); later: the time to close */
	struct weft_timer timer;
	uint64_t moved; /**< rdmap_moved() when rdmap_linger() armed the timer */
	struct weft_task task;
	struct weft_task reap;
	struct weft_rdmap_op_stats *op_stats; /**< NULL: not counted */
	struct weft_rdmap_stats stats;
};

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
rdmap_kick(struct weft_rdmap *r)
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

/** Add 1 to a counter of struct weft_rdmap_faults. */
#define RDMAP_FAULT(r, field)                                                                      \
	do {                                                                                       \
		if ((r)->op_stats != NULL)                                                         \
			(r)->op_stats->faults.field++;                                             \
	} while (0)

/** Whether a persist driver has the stream's persist request. */
static inline bool
rdmap_pio_busy(const struct weft_rdmap *r)
{
	return r->work != NULL && r->work->pio_state == RDMAP_PIO_BUSY;
}

static inline struct rdmap_irq_ent *
rdmap_irq_at(const struct weft_rdmap *r, uint32_t i)
{
	return &r->work->irq[i & r->irq_mask];
}

static inline uint32_t
rdmap_irq_depth(const struct weft_rdmap *r)
{
	return r->irq_tail - r->irq_head;
}

/* rdmap_conn.c */
/** Return a request to its owner by done(). The Read of rdmap_rtr.c is freed instead. */
void rdmap_done(struct weft_rdmap *r, struct weft_rdmap_req *req, enum weft_rdmap_status status);
/** Change the state to s and call state(). The table must allow the transition. Before ERROR every
 * request is flushed. The caller checks r->dead afterwards. */
void rdmap_set_state(struct weft_rdmap *r, enum weft_rdmap_state s, const struct weft_term *term,
                     bool ours);
/** Return every request of flq to its owner. */
void rdmap_drain(struct weft_rdmap *r);
/** Flush every request, those posted outside RTS included. */
void rdmap_flush(struct weft_rdmap *r);
/** Flush the requests posted outside RTS. */
void rdmap_flush_late(struct weft_rdmap *r);
/** Send our FIN, and arm the timer: the peer has wait_ns to close. */
void rdmap_fin(struct weft_rdmap *r, uint64_t wait_ns, uint64_t now_ns);

/* rdmap_code.c */
/** Count a Terminate that was sent (ours) or received. */
void rdmap_count_term(struct weft_rdmap *r, const struct weft_term *t, bool ours);

/* rdmap_tx.c */
/** One turn of the stream's task: execute requests of the peer, send responses and requests. */
void rdmap_turn(struct weft_rdmap *r, uint64_t now_ns);
/** Send one untagged message in one segment. 1: sent. 0: no space below. -EMSGSIZE: a segment is
 * too small for the message. */
int rdmap_tx_untagged(struct weft_rdmap *r, uint8_t op, const void *data, uint32_t len_bytes,
                      uint64_t now_ns);

/** STag of a message without payload. The receiver does not check it (RFC 5041 s5.2). */
#define RDMAP_EMPTY_STAG 1
/** Send an empty RDMA Write of no request. The caller counts and flushes it. False: no space. */
bool rdmap_tx_empty_write(struct weft_rdmap *r, uint64_t now_ns);

enum rdmap_tx {
	RDMAP_TX_NONE,    /**< nothing to send now */
	RDMAP_TX_SENT,    /**< one message was sent */
	RDMAP_TX_BLOCKED, /**< no space below; `writable` follows */
	RDMAP_TX_BUDGET,  /**< the budget of this turn is used up */
	RDMAP_TX_STOP,    /**< the stream is ending */
};

/** The request cannot be sent: send a Terminate instead (RFC 5040 s7.1 case 1). */
enum rdmap_tx rdmap_tx_refuse(struct weft_rdmap *r, struct weft_rdmap_req *req,
                              enum weft_rdmap_status status, uint64_t now_ns);

/* rdmap_rtr.c */
/** Send the indication r->rtr. False: no space below yet, or the stream is ending. */
bool rdmap_rtr_send(struct weft_rdmap *r, uint64_t now_ns);

/* rdmap_rx.c */
extern const struct weft_ddp_ops rdmap_ddp_ops;
/** Fill *term with 0/2/06, unexpected opcode. -EPROTO. */
int rdmap_unexpected(struct weft_term *term);
/** Complete the oldest outstanding request: its answer has arrived. */
void rdmap_answered(struct weft_rdmap *r, enum weft_rdmap_status status);
int rdmap_check_write(struct weft_rdmap *r, const struct weft_ddp_hdr *h, uint32_t len_bytes,
                      uint32_t *access, struct weft_term *term);
int rdmap_check_read_resp(struct weft_rdmap *r, const struct weft_ddp_hdr *h, uint32_t len_bytes,
                          uint32_t *access, struct weft_term *term);
int rdmap_rx_response(struct weft_rdmap *r, const struct rdmap_msg *m, struct weft_term *term);

/* rdmap_irq.c */
/** Set the size of the queue, which must be empty: room for `ird` requests. */
void rdmap_irq_size(struct weft_rdmap *r, uint16_t ird);
/** Free r->work if idle and no request arrived since the last call. True: r->work is NULL. */
bool rdmap_irq_rest(struct weft_rdmap *r);
/** Fill *term: layer RDMA, remote operation error, code. -EPROTO. */
int rdmap_irq_refuse(struct weft_term *term, uint8_t code);
/** The next free entry. NULL with *rc 0: our FIN is sent, the request is dropped. NULL with *rc
 * -EPROTO: beyond IRD or no memory, by *term. */
struct rdmap_irq_ent *rdmap_irq_slot(struct weft_rdmap *r, uint8_t op, struct weft_term *term,
                                     int *rc);
/** Look up the entry's region, and check range, rights, hash length and alignment. A Flush that
 * passes takes a reference. 0, or -EPROTO with *term. */
int rdmap_irq_check(struct weft_rdmap *r, struct rdmap_irq_ent *e, uint32_t access,
                    struct weft_term *term);
/** Append `e` to the ring as a request, or (rc < 0) as a failed one with *term. Returns 0. */
int rdmap_irq_admit(struct weft_rdmap *r, const struct rdmap_msg *m, struct rdmap_irq_ent *e,
                    int rc, struct weft_term *term);
int rdmap_rx_read_req(struct weft_rdmap *r, const struct rdmap_msg *m, struct weft_term *term);
int rdmap_rx_place_req(struct weft_rdmap *r, const struct rdmap_msg *m, struct weft_term *term);
/** Execute requests as far as possible. Queues the task when only this poll's slice is used up. */
void rdmap_irq_run(struct weft_rdmap *r);
/** Send the response at the head of the ring, or its next part. */
enum rdmap_tx rdmap_irq_send(struct weft_rdmap *r, int32_t *budget_bytes, uint64_t now_ns);
/** Drop every entry and its reference. A request that a driver has completes on its own. */
void rdmap_irq_reset(struct weft_rdmap *r);

/* rdmap_atomic.c */
int rdmap_rx_atomic_req(struct weft_rdmap *r, const struct rdmap_msg *m, struct weft_term *term);
int rdmap_rx_atomic_resp(struct weft_rdmap *r, const struct rdmap_msg *m, struct weft_term *term);
/** Execute the Atomic Operation. The response replaces the operands in the entry. */
void rdmap_exec_atomic(struct rdmap_irq_ent *e);
/** Encode the payload of the request sent next. buf has RDMAP_CTL_MAX_BYTES. Returns its length. */
unsigned int rdmap_atomic_payload(const struct weft_rdmap *r, const struct weft_rdmap_req *req,
                                  uint8_t *buf);

/* rdmap_imm.c */
int rdmap_rx_imm(struct weft_rdmap *r, const struct rdmap_op_row *row, const struct weft_ddp_hdr *h,
                 struct weft_cur *c, uint32_t len_bytes, struct weft_term *term);
enum rdmap_tx rdmap_tx_imm(struct weft_rdmap *r, struct weft_rdmap_req *req, int32_t *budget_bytes,
                           uint64_t now_ns);

/* rdmap_term.c */
/** Send a Terminate for a fault detected here, and end the stream. ddp_hdr NULL: no headers. */
void rdmap_term_send(struct weft_rdmap *r, const struct weft_term *term, const uint8_t *ddp_hdr,
                     unsigned int ddp_hdr_bytes, const uint8_t *rdma_hdr, uint32_t seg_bytes,
                     uint64_t now_ns);
/** Send the Terminate of rdmap_term_send() when there is space, and then our FIN. */
void rdmap_term_push(struct weft_rdmap *r, uint64_t now_ns);
int rdmap_rx_terminate(struct weft_rdmap *r, const struct rdmap_msg *m, struct weft_term *term);
/** weft_ddp_ops.fault. */
void rdmap_on_fault(void *user, const struct weft_term *term, const struct weft_ddp_hdr *h,
                    const uint8_t *hdr, unsigned int hdr_bytes, uint32_t seg_bytes,
                    uint64_t now_ns);

/* rdmap_probe.c */
/** At RTS: an initiator arms the timer of the first probe. */
void rdmap_probe_begin(struct weft_rdmap *r);
/** The timer has fired: send a probe if no FPDU was received. True: the timer is armed again. */
bool rdmap_probe(struct weft_rdmap *r, uint64_t now_ns);

#endif /* RDMAP_PRIV_H */
