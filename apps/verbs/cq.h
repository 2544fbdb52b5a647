/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_VERBS_CQ_H
#define WEFT_APPS_VERBS_CQ_H

/**
 * @file Completion queues and completion channels.
 *
 * A completion queue of the program is a ring of this library. Each QP has a queue of weft with a
 * callback, which fills the rings; it is as deep as the QP's queues, so weft never loses a
 * completion, and a ring may be resized at any time.
 */

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include <weft/weft.h>

#include "fdq.h"

struct wv_channel {
	struct ibv_comp_channel ibv;
	struct wv_fdq q;          /**< of wv_cq.node */
	pthread_mutex_t cqs_lock; /**< of `cqs`; taken before the lock of a queue */
	LIST_HEAD(, wv_cq) cqs;
};

struct wv_cqe {
	struct ibv_wc wc;
	uint64_t time_ns; /**< when it was made; 0: the queue has no timestamps */
};

enum wv_arm { WV_ARM_NONE, WV_ARM_SOLICITED, WV_ARM_ANY };

struct wv_cq {
	union {
		struct ibv_cq ibv;
		struct ibv_cq_ex ex;
	};
	pthread_spinlock_t lock; /**< of the ring and of `armed` */
	struct wv_cqe *ring;
	uint32_t mask;
	_Atomic uint32_t head,
	        tail; /**< changed under the lock; the next to be polled and to be filled */
	enum wv_arm armed;
	bool overrun;
	bool timed;
	uint32_t users; /**< queues of QPs, under the engine's lock */
	LIST_ENTRY(wv_cq) of_channel;
	uint64_t serial;         /**< no other queue of the process has it */
	struct wv_fdq_node node; /**< in the channel's queue */
	uint32_t more;           /**< events beside the one queued, under its lock */
	uint32_t comp_reported;  /**< events that the program has taken */
	uint32_t async_reported; /**< likewise */
	struct wv_cqe now;       /**< of an extended queue: the completion being read */
	bool shared;             /**< `now` has a lock, as more than one thread may read */
	pthread_mutex_t reading; /**< from ibv_start_poll() to ibv_end_poll(); no lock before it */
};

static inline struct wv_cq *
wv_cq(struct ibv_cq *c)
{
	return (struct wv_cq *)(void *)c;
}

/** Completions that the program has not taken: a hint, without a lock. */
static inline uint32_t
wv_cq_unread(struct wv_cq *c)
{
	return atomic_load_explicit(&c->tail, memory_order_relaxed) -
	       atomic_load_explicit(&c->head, memory_order_relaxed);
}

/** Append a completion, under the engine's lock. False: no room; the queue is in error. */
bool wv_cq_put(struct wv_cq *c, const struct ibv_wc *wc, bool solicited);
/** Append that a request of a QP without a connection is flushed. Under the engine's lock. */
void wv_cq_put_flushed(struct wv_cq *c, uint64_t wr_id, enum ibv_wc_opcode opcode, uint32_t qp_num);
/**
 * Behind the last successful completion of a QP that the program has not taken; where the queue
 * begins, if there is none. Any thread.
 */
uint32_t wv_cq_upto(struct wv_cq *c, uint32_t qp_num);
/** Whether the program has not taken all completions up to there. A hint, without a lock. */
bool wv_cq_before(struct wv_cq *c, uint32_t upto);
/** Remove the completions of a QP that is destroyed or reset. */
void wv_cq_clean(struct wv_cq *c, uint32_t qp_num);

/**
 * The calling thread has found the queue empty when `head` completions had been taken from it. Any
 * thread, without a lock.
 */
void wv_channel_saw_empty(const struct wv_cq *c, uint32_t head);
/** The calling thread has taken a completion of the queue: what it saw before is no matter. */
void wv_channel_took(const struct wv_cq *c);
/** Whether the queue has an event that the program has not taken. */
bool wv_channel_has_event(struct wv_cq *c);
/** The queue belongs to its channel from now on, and until the end. */
void wv_channel_join(struct wv_cq *c);
void wv_channel_leave(struct wv_cq *c);

int wv_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int wv_req_notify_cq(struct ibv_cq *cq, int solicited_only);
struct ibv_cq_ex *wv_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
/** Make a queue: of both kinds. NULL with errno. */
struct wv_cq *wv_cq_new(struct ibv_context *context, uint32_t cqe, void *user,
                        struct ibv_comp_channel *channel, uint32_t vector);
/** Take one completion. False: there is none. */
bool wv_cq_take(struct wv_cq *c, struct wv_cqe *out);

#endif /* WEFT_APPS_VERBS_CQ_H */
