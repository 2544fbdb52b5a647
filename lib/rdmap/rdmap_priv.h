/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMAP_PRIV_H
#define RDMAP_PRIV_H

/**
 * @file
 * One RDMAP stream, as the files of this layer share it.
 *
 * Who may be destroyed when: any up-call may destroy the stream it comes from.
 * Every way in (ddp's up-calls, the task, the timer, the functions of the header)
 * runs between rdmap_enter() and rdmap_leave(); a destruction meanwhile only marks
 * the stream dead and a task frees it later, so code behind an up-call asks
 * r->dead and touches nothing else.
 */

#include "rdmap_wire.h"

WEFT_LOG_DECLARE(rdmap);

/** The price of a segment beside its payload, of what may be sent in a poll (WEFT_SEND_BYTES). */
#define RDMAP_SEG_COST_BYTES 256
/** After a Terminate: how long the peer may take to close (RFC 5040 s6.2.1 leaves it open). */
#define RDMAP_TERM_WAIT_NS (5 * WEFT_NS_PER_S)
/** Closing: how long nothing may move, before our FIN and after it. */
#define RDMAP_LINGER_NS (60 * WEFT_NS_PER_S)
/** What serves the peer's requests is given back after one to two of these without any. */
#define RDMAP_REST_NS (1 * WEFT_NS_PER_S)
/** An initiator that has heard nothing: when it asks for attention first (rdmap_probe.c). */
#define RDMAP_PROBE_NS (100 * WEFT_NS_PER_MS)

/** An untagged message that is no Send, being put together. */
struct rdmap_msg {
	struct weft_ddp_hdr h; /**< of its last segment */
	uint8_t op;
	uint32_t len_bytes;
	uint32_t seg_bytes; /**< of its last segment, header included */
	uint8_t data[RDMAP_CTL_MAX_BYTES];
};

/** The Send, or Immediate Data, being received; the buffer is verbs' and ours to fill. */
struct rdmap_rx_send {
	bool active;
	uint8_t op;
	uint8_t nsge;
	const struct weft_rdmap_sge *sge; /**< verbs' */
	union {
		uint64_t size_bytes;               /**< Send: of the buffer */
		uint8_t imm[WEFT_RDMAP_IMM_BYTES]; /**< Immediate Data: what has come of it */
	};
	uint32_t got_bytes;
};

enum rdmap_irq_state {
	RDMAP_IRQ_QUEUED, /**< not executed, or under way */
	RDMAP_IRQ_DONE,   /**< executed; the response may leave */
	RDMAP_IRQ_FAILED, /**< draws a Terminate when everything before it is answered */
};

/** One entry of the inbound request queue. */
struct rdmap_irq_ent {
	uint8_t op;
	uint8_t state;
	/** Verify: expected; when done: of the response, whatever it is to */
	uint8_t hash_bytes;
	struct weft_term term;  /**< FAILED */
	struct weft_mem_mr *mr; /**< while executed; NULL: zero-length Read; referenced if `held`,
	                           else of this poll */
	bool held;              /**< Flush: carried out whatever becomes of its STag */
	uint64_t to;
	uint64_t len_bytes; /**< a Flush of a region may be longer than 32 bits say */
	uint32_t stag;
	uint32_t flags;     /**< Flush; Atomic: Request Identifier */
	uint32_t sink_stag; /**< Read */
	uint64_t sink_to;
	uint32_t sent_bytes; /**< Read: streamed so far */
	uint32_t seg_bytes;  /**< for a Terminate: length and header of its segment */
	uint8_t hdr[WEFT_DDP_UNTAGGED_HDR_BYTES];
	union {
		/** Verify; Atomic Write: the data; Atomic, when done: the response */
		uint8_t hash[WEFT_HASH_MAX_BYTES];
		struct weft_rdmap_atomic atomic; /**< Atomic: the operands */
	};
};

/** The one persist request of the stream. */
enum rdmap_pio_state {
	RDMAP_PIO_IDLE,
	RDMAP_PIO_BUSY,  /**< with the driver */
	RDMAP_PIO_READY, /**< done: status, and for a read-back data to release */
};

/**
 * What a stream needs only while the peer asks it to read, flush, verify or write atomically. Made
 * at the first such request, given back when none came for RDMAP_REST_NS: an idle stream is small.
 */
struct rdmap_work {
	struct weft_persist_req pio;
	enum rdmap_pio_state pio_state;
	bool pio_read;                    /**< it is a read-back */
	struct weft_mem_mr *pio_mr;       /**< its own reference */
	uint32_t pio_off_bytes;           /**< of its data already hashed */
	const struct weft_hash_ops *hash; /**< of the Verify under way, else NULL */
	uint64_t hash_pos_bytes;
	struct weft_slice slice; /**< of this poll: hashing and flushing on the spot */
	struct weft_turn turn;   /**< to have a read-back under way */
	struct weft_hash_state hash_state;
	struct rdmap_irq_ent irq[]; /**< ring of a power of two, free-running indexes */
};

/** What a message under way forbids: another one in between. */
enum rdmap_tx_mid { RDMAP_MID_NONE, RDMAP_MID_REQ, RDMAP_MID_RESP };

struct weft_rdmap {
	struct weft_ddp ddp;
	struct weft_mem *mem;
	struct weft_mem_pd *pd; /**< the stream's scope in its domain */
	struct weft_sched *sched;
	struct weft_lane *lane; /**< of the peer; NULL: long work is not shared by peers */
	const struct weft_rdmap_ops *ops;
	void *user;
	enum weft_rdmap_state state;
	uint16_t ird, ord;
	uint8_t sabotage; /**< enum weft_rdmap_sabotage */
	bool dead;        /**< destroyed; freed when nobody is inside */
	bool gone;        /**< the connection below is no more */
	bool eof;         /**< the peer closed its direction: nothing will be answered */
	bool fin_sent;
	unsigned int depth; /**< calls of ours on the stack */
	/* outbound */
	struct weft_rdmap_req_list sq;   /**< posted, not wholly sent */
	struct weft_rdmap_req_list out;  /**< read-like ones that wait for their answer, in order */
	struct weft_rdmap_req_list flq;  /**< on their way to done() because the stream is over */
	struct weft_rdmap_req_list late; /**< posted outside RTS: to flq in the next turn */
	struct weft_rdmap_req *fail_req; /**< the one that a Terminate is about */
	enum weft_rdmap_status fail_status;
	uint16_t n_out;
	enum rdmap_tx_mid mid;
	uint8_t rtr;                    /**< enum weft_rdmap_rtr to be sent before anything else */
	struct weft_rdmap_req *rtr_req; /**< the Read that was one, ours; else NULL */
	bool resp_turn;                 /**< responses and requests take turns, a message each */
	bool hooked;                    /**< start() said WAIT in this turn */
	bool stalled;                   /**< the head of sq waits at ORD (counted once) */
	bool unflushed;                 /**< segments were written since the last flush */
	uint8_t probes;                 /**< times rdmap_probe() has looked */
	/* inbound */
	struct rdmap_rx_send rx_send;
	/** of several segments, while incomplete; else NULL */
	struct rdmap_msg *msg[WEFT_DDP_NQN];
	/* inbound request queue */
	struct rdmap_work *work; /**< NULL while the queue is empty, at rest */
	uint32_t irq_mask;       /**< of the ring in it */
	uint32_t irq_seen;       /**< irq_tail when the stream was last looked at for rest */
	uint32_t irq_head;       /**< next response to leave */
	uint32_t irq_exec;       /**< next to execute; everything before it is DONE */
	uint32_t irq_tail;
	/* Terminate */
	uint8_t term_msg[RDMAP_TERM_MAX_BYTES];
	uint8_t term_msg_bytes; /**< not 0: waits to be sent */
	/** probes; while messages flow: rest; then the peer's time to close */
	struct weft_timer timer;
	uint64_t moved; /**< rdmap_moved() when the timer was armed by rdmap_linger() */
	struct weft_task task;
	struct weft_task reap;
	struct weft_rdmap_op_stats *op_stats; /**< NULL: nobody's */
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

/** Count one of struct weft_rdmap_faults. */
#define RDMAP_FAULT(r, field)                                                                      \
	do {                                                                                       \
		if ((r)->op_stats != NULL)                                                         \
			(r)->op_stats->faults.field++;                                             \
	} while (0)

/** Whether a driver has a request of ours. */
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
/** Let go of a request: give it back to its owner. */
void rdmap_done(struct weft_rdmap *r, struct weft_rdmap_req *req, enum weft_rdmap_status status);
/** Move to s (a transition of the table) and tell; to ERROR: everything is flushed before. Asks for
 * r->dead afterwards. */
void rdmap_set_state(struct weft_rdmap *r, enum weft_rdmap_state s, const struct weft_term *term,
                     bool ours);
/** Give back what hangs on flq. */
void rdmap_drain(struct weft_rdmap *r);
/** Give every request back, those posted late included. */
void rdmap_flush(struct weft_rdmap *r);
/** Give back what was posted outside RTS. */
void rdmap_flush_late(struct weft_rdmap *r);
/** Close our direction, and wait wait_ns for the peer's. */
void rdmap_fin(struct weft_rdmap *r, uint64_t wait_ns, uint64_t now_ns);

/* rdmap_code.c */
/** A Terminate of ours, or the peer's. */
void rdmap_count_term(struct weft_rdmap *r, const struct weft_term *t, bool ours);

/* rdmap_tx.c */
/** One turn: execute, answer, send. */
void rdmap_turn(struct weft_rdmap *r, uint64_t now_ns);
/** One untagged message in one segment. 1 sent, 0 no space, -EMSGSIZE a segment is too small for
 * it. */
int rdmap_tx_untagged(struct weft_rdmap *r, uint8_t op, const void *data, uint32_t len_bytes,
                      uint64_t now_ns);

/** STag of messages without octets: nothing resolves it, it is not checked (RFC 5041 s5.2). */
#define RDMAP_EMPTY_STAG 1
/** A Write of no octets, which is nobody's work request; not counted, not flushed. False: no space.
 */
bool rdmap_tx_empty_write(struct weft_rdmap *r, uint64_t now_ns);

enum rdmap_tx {
	RDMAP_TX_NONE,    /**< nothing to send here now */
	RDMAP_TX_SENT,    /**< one message went out */
	RDMAP_TX_BLOCKED, /**< no space below; `writable` follows */
	RDMAP_TX_BUDGET,  /**< this turn has sent enough */
	RDMAP_TX_STOP,    /**< the stream is over */
};

/** A request that cannot be made: a Terminate goes in its place (RFC 5040 s7.1 case 1). */
enum rdmap_tx rdmap_tx_refuse(struct weft_rdmap *r, struct weft_rdmap_req *req,
                              enum weft_rdmap_status status, uint64_t now_ns);

/* rdmap_rtr.c */
/** Send r->rtr; false: no space yet, or the stream is over. */
bool rdmap_rtr_send(struct weft_rdmap *r, uint64_t now_ns);

/* rdmap_rx.c */
extern const struct weft_ddp_ops rdmap_ddp_ops;
int rdmap_unexpected(struct weft_term *term);
/** The oldest outstanding request is answered. */
void rdmap_answered(struct weft_rdmap *r, enum weft_rdmap_status status);
int rdmap_check_write(struct weft_rdmap *r, const struct weft_ddp_hdr *h, uint32_t len_bytes,
                      uint32_t *access, struct weft_term *term);
int rdmap_check_read_resp(struct weft_rdmap *r, const struct weft_ddp_hdr *h, uint32_t len_bytes,
                          uint32_t *access, struct weft_term *term);
int rdmap_rx_response(struct weft_rdmap *r, const struct rdmap_msg *m, struct weft_term *term);

/* rdmap_irq.c */
/** The queue shall have room for `ird` requests; it is empty. */
void rdmap_irq_size(struct weft_rdmap *r, uint16_t ird);
/** No request came since the last call, and none is there: give the memory back. True: nothing
 * left to give. */
bool rdmap_irq_rest(struct weft_rdmap *r);
int rdmap_irq_refuse(struct weft_term *term, uint8_t code);
/** The next free entry. NULL with rc 0: the request is dropped. NULL with -EPROTO: term says why
 * (beyond IRD, or no memory). */
struct rdmap_irq_ent *rdmap_irq_slot(struct weft_rdmap *r, uint8_t op, struct weft_term *term,
                                     int *rc);
/** Resolve the entry's region and check its range; a Flush takes a reference when it holds. */
int rdmap_irq_check(struct weft_rdmap *r, struct rdmap_irq_ent *e, uint32_t access,
                    struct weft_term *term);
/** Take what `e` holds into the ring, or (rc < 0) its refusal. */
int rdmap_irq_admit(struct weft_rdmap *r, const struct rdmap_msg *m, struct rdmap_irq_ent *e,
                    int rc, struct weft_term *term);
int rdmap_rx_read_req(struct weft_rdmap *r, const struct rdmap_msg *m, struct weft_term *term);
int rdmap_rx_place_req(struct weft_rdmap *r, const struct rdmap_msg *m, struct weft_term *term);
/** Execute what may be executed now; queues the task when time alone is missing. */
void rdmap_irq_run(struct weft_rdmap *r);
/** Send (the next part of) the response at the head. */
enum rdmap_tx rdmap_irq_send(struct weft_rdmap *r, int32_t *budget_bytes, uint64_t now_ns);
/** Drop every entry and every reference; what the driver has in flight ends by itself. */
void rdmap_irq_reset(struct weft_rdmap *r);

/* rdmap_atomic.c */
int rdmap_rx_atomic_req(struct weft_rdmap *r, const struct rdmap_msg *m, struct weft_term *term);
int rdmap_rx_atomic_resp(struct weft_rdmap *r, const struct rdmap_msg *m, struct weft_term *term);
/** Carry it out, and put the response in its operands' place. */
void rdmap_exec_atomic(struct rdmap_irq_ent *e);
/** The payload of the request that is sent next; buf holds RDMAP_CTL_MAX_BYTES. */
unsigned int rdmap_atomic_payload(const struct weft_rdmap *r, const struct weft_rdmap_req *req,
                                  uint8_t *buf);

/* rdmap_imm.c */
int rdmap_rx_imm(struct weft_rdmap *r, const struct rdmap_op_row *row, const struct weft_ddp_hdr *h,
                 struct weft_cur *c, uint32_t len_bytes, struct weft_term *term);
enum rdmap_tx rdmap_tx_imm(struct weft_rdmap *r, struct weft_rdmap_req *req, int32_t *budget_bytes,
                           uint64_t now_ns);

/* rdmap_term.c */
/** Our own detection: send a Terminate (ddp_hdr NULL: without headers) and end the stream. */
void rdmap_term_send(struct weft_rdmap *r, const struct weft_term *term, const uint8_t *ddp_hdr,
                     unsigned int ddp_hdr_bytes, const uint8_t *rdma_hdr, uint32_t seg_bytes,
                     uint64_t now_ns);
/** Try to send what rdmap_term_send() could not. */
void rdmap_term_push(struct weft_rdmap *r, uint64_t now_ns);
int rdmap_rx_terminate(struct weft_rdmap *r, const struct rdmap_msg *m, struct weft_term *term);
/** ddp's up-call. */
void rdmap_on_fault(void *user, const struct weft_term *term, const struct weft_ddp_hdr *h,
                    const uint8_t *hdr, unsigned int hdr_bytes, uint32_t seg_bytes,
                    uint64_t now_ns);

/* rdmap_probe.c */
/** In RTS: begin to watch whether an initiator is heard. */
void rdmap_probe_begin(struct weft_rdmap *r);
/** The timer has fired. True: it is armed again. */
bool rdmap_probe(struct weft_rdmap *r, uint64_t now_ns);

#endif /* RDMAP_PRIV_H */
