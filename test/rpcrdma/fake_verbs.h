/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FAKE_VERBS_H
#define FAKE_VERBS_H

/**
 * @file The verbs that RPC-over-RDMA uses, over a simulated wire: work requests executed in order,
 * receives, regions with access rights, completions, and alarms. Nothing happens unless the test
 * asks for it: fake_deliver() delivers one message, fake_complete() completes one send,
 * fake_advance() advances the clock.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <weft/verbs.h>
#include <weft/worker.h>

struct fake_msg {
	STAILQ_ENTRY(fake_msg) next;
	struct weft_wr wr; /* a work request of the send queue */
	void *local;       /* memory of a Read or Write; its lkey follows */
	uint32_t lkey;
	uint64_t wr_id; /* of the send or of the posted receive */
	void *buf;
	uint32_t len_bytes; /* of the message, or of the receive buffer */
	bool signaled;
};

STAILQ_HEAD(fake_msgs, fake_msg);

struct weft_alarm {
	LIST_ENTRY(weft_alarm) entry;
	struct weft_worker *w;
	uint64_t at_us;
	void (*fn)(void *arg);
	void *arg;
};

/* A region that a work request registers. All regions of a test are in one table with unique STags.
 */
struct weft_mr {
	LIST_ENTRY(weft_mr) entry;
	uint32_t stag, next_stag;
	uint8_t *addr;
	uint64_t len_bytes;
	uint32_t access;
	bool valid, gone;
	bool by_peer; /* invalidated by the peer's Send with Invalidate */
};

struct fake_call {
	STAILQ_ENTRY(fake_call) next;
	void (*fn)(void *arg);
	void *arg;
};

struct weft_worker {
	uint64_t now_us;
	uint32_t random; /* state of weft_worker_random(); 0: it returns zeros */
	LIST_HEAD(, weft_alarm) alarms;
	bool no_memory;                 /* weft_alarm_set() fails */
	STAILQ_HEAD(, fake_call) calls; /* under a lock, for calls of any thread */
	bool deaf;                      /* weft_worker_call() fails */
};

struct weft_qp {
	struct weft_worker *worker;
	void *user;
	struct weft_qp *peer;
	bool connected, dead;
	struct fake_msgs recvs; /* posted receives */
	struct fake_msgs wire;  /* sent, not delivered */
	struct fake_msgs done;  /* delivered sends that are not completed */
	unsigned int nrecvs, sq_used, sq_depth, rq_depth;
	unsigned int disconnects;
	unsigned int overruns; /* messages that arrived without a posted receive */
	unsigned int reads, writes;
	unsigned int sends, solicited; /* sends posted; those with a solicited event */
	unsigned int access_errors;    /* accesses that the peer refused */
	unsigned int sink_errors;      /* Read Responses that were refused here */
	unsigned int refuse;           /* 1 << enum weft_wr_opcode: posting these fails */
	/* Called for each access to the peer's memory, and for each region of the peer that a Send
	 * with Invalidate invalidates. */
	void (*on_access)(struct weft_qp *qp, bool write, uint32_t stag, uint64_t to,
	                  uint32_t len_bytes);
	void (*on_invalidate)(struct weft_qp *qp, const void *buf, uint32_t len_bytes,
	                      uint32_t stag);
	/* Called for each completion. */
	void (*on_wc)(void *user, const struct weft_wc *wc);
	/* Called for an observer when a message is posted and when it arrives. */
	void (*on_post)(struct weft_qp *qp, const void *buf, uint32_t len_bytes);
	void (*on_arrive)(struct weft_qp *to, const void *buf, uint32_t len_bytes);
};

void fake_worker_init(struct weft_worker *w);
/** Advance the clock by us microseconds and run the alarms that expire. */
void fake_advance(struct weft_worker *w, uint64_t us);
unsigned int fake_alarms(const struct weft_worker *w);
/** Run the calls that weft_worker_call() has queued, on the worker's thread. Returns their number.
 */
unsigned int fake_calls(struct weft_worker *w);
/** From now on the calling thread polls w, and its weft_worker_call() on w runs the call at once.
 * NULL: the thread polls no worker. */
void fake_mine(struct weft_worker *w);

/** How often weft_worker_now_ns() was called. */
extern unsigned int fake_clock_reads;

/** Valid regions that a peer can name: those with remote rights. */
unsigned int fake_regions(void);
/** Valid regions that only this side can name. */
unsigned int fake_sinks(void);
/** Forget all regions. Each later invalidation of one, by either side, fails. */
void fake_forget_regions(void);
/** Number of regions that are not freed. */
unsigned int fake_mrs(void);

void fake_qp_init(struct weft_qp *qp, struct weft_worker *w, void *user,
                  void (*on_wc)(void *user, const struct weft_wc *wc));
void fake_qp_fini(struct weft_qp *qp);
void fake_connect(struct weft_qp *a, struct weft_qp *b);
/** Break the connection: complete all outstanding work of both sides with errors. */
void fake_break(struct weft_qp *qp);

/** Deliver the oldest message that qp sent. False: there is none, or no receive is posted (counted
 * in overruns). */
bool fake_deliver(struct weft_qp *qp);
/** Complete the oldest delivered send of qp. False: there is none. */
bool fake_complete(struct weft_qp *qp);
/** Deliver and complete until qp and its peer have nothing in flight. */
void fake_settle(struct weft_qp *qp);
/** Deliver a message to qp that its peer did not send. */
void fake_inject(struct weft_qp *qp, const void *buf, uint32_t len_bytes);
/** Remove the oldest message that qp sent from the wire. Returns its length, or -1 if there is
 * none. */
int fake_take(struct weft_qp *qp, void *buf, uint32_t cap_bytes);

#endif /* FAKE_VERBS_H */
