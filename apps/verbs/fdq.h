/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_VERBS_FDQ_H
#define WEFT_APPS_VERBS_FDQ_H

/**
 * @file A queue of events with a descriptor, which is readable while the queue is not empty. It
 * stands for the descriptors that the kernel gives: of completion channels, of asynchronous events
 * and of connection management. Programs poll and epoll them, and set O_NONBLOCK; with EPOLLET each
 * event is an edge.
 */

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct wv_fdq_node {
	TAILQ_ENTRY(wv_fdq_node) link;
	bool queued; /**< under the queue's lock */
};

struct wv_fdq {
	pthread_mutex_t lock;
	TAILQ_HEAD(, wv_fdq_node) nodes;
	uint32_t sleepers; /**< threads in wv_fdq_sleep() */
	sem_t wake;        /**< raised with each event while there are any */
	int fd;            /**< an eventfd, closed by wv_fdq_fini(); -1: by wv_fdq_close() */
};

/** -errno. */
int wv_fdq_init(struct wv_fdq *q);
/** Close the descriptor of a queue that is empty and stays so. */
void wv_fdq_close(struct wv_fdq *q);
/** The queue is empty or its nodes are not used any more. */
void wv_fdq_fini(struct wv_fdq *q);
/** Append a node that is not queued. */
void wv_fdq_put(struct wv_fdq *q, struct wv_fdq_node *n);
/** Append a node, or count it in *more if it is queued already. */
void wv_fdq_put_again(struct wv_fdq *q, struct wv_fdq_node *n, uint32_t *more);
/** Remove the first node; NULL: there is none. */
struct wv_fdq_node *wv_fdq_take(struct wv_fdq *q);
/** Remove a node wherever it is. False: it is not queued. */
bool wv_fdq_drop(struct wv_fdq *q, struct wv_fdq_node *n);
/** Whether the node is queued. */
bool wv_fdq_has(struct wv_fdq *q, const struct wv_fdq_node *n);
/** Whether a thread sleeps until a node comes. */
bool wv_fdq_has_sleeper(struct wv_fdq *q);
/** Call match(n, arg) for each node and remove the first for which it is true. NULL: none. */
struct wv_fdq_node *wv_fdq_find(struct wv_fdq *q,
                                bool (*match)(const struct wv_fdq_node *n, const void *arg),
                                const void *arg);
/**
 * Poll for some microseconds, then sleep until there is a node, or another thread has taken it. A
 * point at which a thread may be cancelled. 0, or -EINTR: a handler without SA_RESTART has run, as
 * in read(2).
 */
int wv_fdq_sleep(struct wv_fdq *q);
/**
 * The node is taken, and the lock is still held: the thread that destroys the node's object sees
 * it queued, or sees what this function has counted. True: put the node back, behind the others.
 */
typedef bool wv_fdq_taken_fn(struct wv_fdq_node *n);
/**
 * Wait for a node and remove it, as read(2) of the kernel's descriptor would. 0, -EAGAIN if the
 * program has set O_NONBLOCK, -EINTR, -EPERM in a child of fork().
 */
int wv_fdq_wait(struct wv_fdq *q, wv_fdq_taken_fn *taken, struct wv_fdq_node **out);

#endif /* WEFT_APPS_VERBS_FDQ_H */
