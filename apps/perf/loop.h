/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_LOOP_H
#define WEFT_PERF_LOOP_H

/**
 * @file How one thread of weft-perf drives one worker. Either it polls the worker, and completions
 * and connection events are callbacks of that poll. Or, with events, the worker runs on a thread of
 * its own that may sleep, and this thread sleeps until a completion queue is announced on its
 * descriptor (weft_cq_arm()).
 *
 * Both ways all callbacks run on the loop's thread, in loop_turn(), so that what they change needs
 * no lock.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <weft/weft.h>

struct loop_held;

/** A completion queue of a loop. Zero: none. */
struct loop_cq {
	struct weft_cq *cq;
	int fd; /**< with events */
	weft_cq_fn fn;
	void *user;
};

struct loop {
	struct weft_worker *w;
	bool events; /**< the worker runs on a thread of its own */
	bool naps;   /**< polling: sleep when there is nothing to do */
	/** called for each connection event that the loop takes */
	weft_event_fn on_event;
	void *user;
	struct weft_evq *evq; /**< of loop_begin() */
	/* the rest is the loop's own */
	int epoll_fd, wake_fd;
	pid_t worker_tid;       /**< with events: the worker's thread */
	uint64_t idle_since_ns; /**< 0: not idle */
	pthread_mutex_t lock;   /**< of the held events */
	struct loop_held *held, **held_end;
};

/** Note the CPUs that the process may use. Before EAL starts, which pins the calling thread. */
void loop_note_cpus(void);
/** Let the calling thread use the CPU `lcore`; -1: each of those that were noted. */
void loop_place_thread(int lcore);

/** Prepare a loop that polls w, with an event queue whose events go to on_event. 0 or -errno. */
int loop_begin(struct loop *l, struct weft_ctx *ctx, struct weft_worker *w, weft_event_fn on_event,
               void *user);
/** Free what the loop has, after everything that uses its event queue. It polls at the return. */
void loop_end(struct loop *l);
/** Let the worker run on a thread of its own, or poll it again. There is no CQ of the other kind.
 * Not in a callback of a poll. 0 or -errno. */
int loop_set_events(struct loop *l, bool events);

/** Create a completion queue whose completions go to fn, as the loop is now. 0 or -errno. */
int loop_cq_create(struct loop *l, struct weft_ctx *ctx, uint32_t depth, weft_cq_fn fn, void *user,
                   struct loop_cq *q);

/** Destroy it; it is zero then. -EBUSY: a QP uses it still. */
int loop_cq_destroy(struct loop *l, struct loop_cq *q);

/** Take a connection event: hand it to on_event, or hold it for the loop's thread. On the loop's
 * thread, or on its worker's. */
void loop_take_event(struct loop *l, const struct weft_event *ev);
/** Hold an event back, which on_event gets after the next poll. */
void loop_hold_event(struct loop *l, const struct weft_event *ev);

/**
 * Poll once, or sleep until there is something to do, at most wait_ns. The calling thread becomes
 * the one that polls. Returns how much was done; 0: nothing.
 */
int loop_turn(struct loop *l, uint64_t wait_ns);
/** Whether a turn may take long, so that the clock is looked at after each one. */
static inline bool
loop_is_slow(const struct loop *l)
{
	return l->events || l->naps;
}
/** Longest sleep of a turn whose caller waits for a completion or a signal. */
#define LOOP_WAIT_NS 10000000ull

#endif /* WEFT_PERF_LOOP_H */
