/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FAKE_VERBS_H
#define FAKE_VERBS_H

/**
 * @file The few verbs that RPC-over-RDMA uses, over a wire in memory: work that is carried out in
 * order, receives, regions with rights, completions, alarms on a clock that stands still until
 * told. Nothing happens by itself; fake_deliver() and fake_complete() move one thing.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <weft/verbs.h>
#include <weft/worker.h>

struct fake_msg {
	STAILQ_ENTRY(fake_msg) next;
	struct weft_wr wr; /* of the send queue */
	void *local;       /* memory of a Read or Write, and its lkey */
	uint32_t lkey;
	uint64_t wr_id; /* of the send, or of the receive while posted */
	void *buf;
	uint32_t len_bytes; /* of the message, or of the receive's room */
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

/* A region by work request; all of a test are in one table, told apart by STag. */
struct weft_mr {
	LIST_ENTRY(weft_mr) entry;
	uint32_t stag, next_stag;
	uint8_t *addr;
	uint64_t len_bytes;
	uint32_t access;
	bool valid, gone;
	bool by_peer; /* a Send with Invalidate named it */
};

struct fake_call {
	STAILQ_ENTRY(fake_call) next;
	void (*fn)(void *arg);
	void *arg;
};

struct weft_worker {
	uint64_t now_us;
	uint32_t random; /* what weft_worker_random() goes on from; 0: zeros */
	LIST_HEAD(, weft_alarm) alarms;
	bool no_memory;                 /* weft_alarm_set() fails */
	STAILQ_HEAD(, fake_call) calls; /* under a lock: weft_worker_call() is any thread's */
	bool deaf;                      /* weft_worker_call() fails */
};

struct weft_qp {
	struct weft_worker *worker;
	void *user;
	struct weft_qp *peer;
	bool connected, dead;
	struct fake_msgs recvs; /* posted */
	struct fake_msgs wire;  /* sent by us, on the way */
	struct fake_msgs done;  /* sends whose completion is on the way */
	unsigned int nrecvs, sq_used, sq_depth, rq_depth;
	unsigned int disconnects;
	unsigned int overruns; /* messages that found no receive */
	unsigned int reads, writes;
	unsigned int sends, solicited; /* posted; of them with a solicited event */
	unsigned int access_errors;    /* of ours at the peer: the connection broke */
	unsigned int sink_errors;      /* of what our Reads brought: likewise */
	unsigned int refuse;           /* 1 << enum weft_wr_opcode: posting these fails */
	/* Each piece of memory that we try to read or write at the peer, each region we invalidate.
	 */
	void (*on_access)(struct weft_qp *qp, bool write, uint32_t stag, uint64_t to,
	                  uint32_t len_bytes);
	void (*on_invalidate)(struct weft_qp *qp, const void *buf, uint32_t len_bytes,
	                      uint32_t stag);
	/* Completions go here. */
	void (*on_wc)(void *user, const struct weft_wc *wc);
	/* What an observer on the wire sees, as a message is posted and as it arrives. */
	void (*on_post)(struct weft_qp *qp, const void *buf, uint32_t len_bytes);
	void (*on_arrive)(struct weft_qp *to, const void *buf, uint32_t len_bytes);
};

void fake_worker_init(struct weft_worker *w);
/** Let the clock run, with the alarms that fall due. */
void fake_advance(struct weft_worker *w, uint64_t us);
unsigned int fake_alarms(const struct weft_worker *w);
/** What weft_worker_call() put aside, on the worker's own thread; returns how many. */
unsigned int fake_calls(struct weft_worker *w);
/** The calling thread polls w from here on: weft_worker_call() on it acts at once. NULL: no worker.
 */
void fake_mine(struct weft_worker *w);

/** Regions that are valid now, anywhere. */
unsigned int fake_regions(void);
/** All of them are lost: invalidating one fails, by whoever. */
void fake_forget_regions(void);
/** Regions not given back. */
unsigned int fake_mrs(void);

void fake_qp_init(struct weft_qp *qp, struct weft_worker *w, void *user,
                  void (*on_wc)(void *user, const struct weft_wc *wc));
void fake_qp_fini(struct weft_qp *qp);
void fake_connect(struct weft_qp *a, struct weft_qp *b);
/** Flush everything outstanding with error completions, both sides. */
void fake_break(struct weft_qp *qp);

/** Deliver the first message qp sent; false: none, or no receive (counted). */
bool fake_deliver(struct weft_qp *qp);
/** Complete the first send of qp that was delivered; false: none. */
bool fake_complete(struct weft_qp *qp);
/** Until nothing moves between qp and its peer. */
void fake_settle(struct weft_qp *qp);
/** A message to qp out of nowhere. */
void fake_inject(struct weft_qp *qp, const void *buf, uint32_t len_bytes);
/** Take the first message off the wire: its length, or -1. */
int fake_take(struct weft_qp *qp, void *buf, uint32_t cap_bytes);

#endif /* FAKE_VERBS_H */
