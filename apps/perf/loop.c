/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Polls a worker, or sleeps until a completion is announced (loop.h). */

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "loop.h"
#include "ui.h"

/** Completions that one call takes, and calls before other queues have their turn. */
#define LOOP_WCS    64
#define LOOP_ROUNDS 16
/** Descriptors that one sleep reports. */
#define LOOP_READY 32
/* A nap is a sixteenth of the time without work, from NAP_AFTER_NS on, as a worker that runs by
 * itself sleeps. */
#define NAP_AFTER_NS 100000u
#define NAP_SHARE    16
#define NAP_MIN_US   20u
#define NAP_MAX_US   8000u

/** A connection event that waits for the loop's thread. */
struct loop_held {
	struct loop_held *next;
	struct weft_event ev;
};

static cpu_set_t noted;

void
loop_note_cpus(void)
{
	if (sched_getaffinity(0, sizeof(noted), &noted) != 0)
		CPU_ZERO(&noted);
}

void
loop_place_thread(int lcore)
{
	cpu_set_t cpus = noted;

	if (lcore >= 0 && lcore < CPU_SETSIZE) {
		CPU_ZERO(&cpus);
		CPU_SET((unsigned int)lcore, &cpus);
	}
	if (CPU_COUNT(&cpus) > 0)
		(void)pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);
}

/* ---- Connection events ---- */

void
loop_hold_event(struct loop *l, const struct weft_event *ev)
{
	struct loop_held *h = malloc(sizeof(*h));

	if (h == NULL)
		return; /* a request that is not answered ends by its timeout */
	h->next = NULL;
	h->ev = *ev;
	pthread_mutex_lock(&l->lock);
	*l->held_end = h;
	l->held_end = &h->next;
	pthread_mutex_unlock(&l->lock);
	if (l->events)
		(void)eventfd_write(l->wake_fd, 1);
}

void
loop_take_event(struct loop *l, const struct weft_event *ev)
{
	/* With events this is the worker's thread. */
	if (l->events)
		loop_hold_event(l, ev);
	else
		l->on_event(l->user, ev);
}

static void
loop_evq_event(void *user, const struct weft_event *ev)
{
	loop_take_event(user, ev);
}

/** Hand the held events over. Returns how many. */
static int
loop_release_held(struct loop *l)
{
	struct loop_held *h, *next;
	int n = 0;

	pthread_mutex_lock(&l->lock);
	h = l->held;
	l->held = NULL;
	l->held_end = &l->held;
	pthread_mutex_unlock(&l->lock);
	for (; h != NULL; h = next, n++) {
		next = h->next;
		l->on_event(l->user, &h->ev);
		free(h);
	}
	return n;
}

/* ---- Begin and end ---- */

int
loop_begin(struct loop *l, struct weft_ctx *ctx, struct weft_worker *w, weft_event_fn on_event,
           void *user)
{
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = loop_evq_event, .user = l};

	l->w = w;
	l->on_event = on_event;
	l->user = user;
	l->epoll_fd = l->wake_fd = -1;
	l->held_end = &l->held;
	pthread_mutex_init(&l->lock, NULL);
	return weft_evq_create(ctx, &ea, &l->evq);
}

struct loop_ask {
	_Atomic pid_t tid;
};

static void
loop_say_tid(void *arg)
{
	struct loop_ask *a = arg;

	atomic_store_explicit(&a->tid, gettid(), memory_order_release);
}

static int
loop_events_on(struct loop *l)
{
	struct epoll_event ee = {.events = EPOLLIN};
	struct loop_ask ask = {0};
	int rc;

	if (l->epoll_fd < 0) {
		l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
		l->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		if (l->epoll_fd < 0 || l->wake_fd < 0 ||
		    epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, l->wake_fd, &ee) != 0)
			return -errno;
	}
	weft_worker_detach(l->w);
	l->events = true;
	rc = weft_worker_start(l->w);
	if (rc != 0) {
		l->events = false;
		return rc;
	}
	/* Whose time counts (self.c). */
	rc = weft_worker_call(l->w, loop_say_tid, &ask);
	while (rc == 0 && atomic_load_explicit(&ask.tid, memory_order_acquire) == 0)
		usleep(20);
	l->worker_tid = ask.tid;
	if (l->held != NULL)
		(void)eventfd_write(l->wake_fd, 1);
	return 0;
}

int
loop_set_events(struct loop *l, bool events)
{
	if (events == l->events)
		return 0;
	if (events)
		return loop_events_on(l);
	weft_worker_stop(l->w);
	l->events = false;
	l->worker_tid = 0;
	l->idle_since_ns = 0;
	return 0;
}

void
loop_end(struct loop *l)
{
	if (l->w == NULL)
		return;
	loop_set_events(l, false);
	if (l->epoll_fd >= 0)
		close(l->epoll_fd);
	if (l->wake_fd >= 0)
		close(l->wake_fd);
	for (struct loop_held *h = l->held, *next; h != NULL; h = next) {
		next = h->next;
		free(h);
	}
	if (l->evq != NULL)
		(void)weft_evq_destroy(l->evq);
	pthread_mutex_destroy(&l->lock);
	*l = (struct loop){0};
}

/* ---- Completions ---- */

int
loop_cq_create(struct loop *l, struct weft_ctx *ctx, uint32_t depth, weft_cq_fn fn, void *user,
               struct loop_cq *q)
{
	struct weft_cq_attr ca = {.size = sizeof(ca), .depth = depth, .want_fd = l->events};
	struct epoll_event ee = {.events = EPOLLIN, .data = {.ptr = q}};
	int rc;

	*q = (struct loop_cq){.fn = fn, .user = user, .fd = -1};
	if (!l->events) {
		ca.on_wc = fn;
		ca.user = user;
	}
	rc = weft_cq_create(ctx, &ca, &q->cq);
	if (rc != 0 || !l->events)
		return rc;
	q->fd = weft_cq_fd(q->cq);
	/* The descriptor leaves the set when the CQ closes it. */
	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, q->fd, &ee) != 0)
		rc = -errno;
	else
		rc = weft_cq_arm(q->cq, false);
	return rc < 0 ? rc : 0;
}

int
loop_cq_destroy(struct loop *l, struct loop_cq *q)
{
	if (q->cq == NULL)
		return 0;
	if (q->fd >= 0)
		(void)epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, q->fd, NULL);
	if (weft_cq_destroy(q->cq) == -EBUSY)
		return -EBUSY;
	*q = (struct loop_cq){.fd = -1};
	return 0;
}

/** A queue was announced: take its completions until it is empty, and arm it again. */
static int
loop_take_wcs(struct loop_cq *q)
{
	struct weft_wc wc[LOOP_WCS];
	eventfd_t drop;
	int taken = 0, n;

	(void)eventfd_read(q->fd, &drop);
	for (unsigned int i = 0; i < LOOP_ROUNDS; i++) {
		n = weft_cq_poll(q->cq, wc, LOOP_WCS);
		if (n > 0) {
			q->fn(q->user, q->cq, wc, (unsigned int)n);
			taken += n;
		} else if (weft_cq_arm(q->cq, false) != 1) {
			return taken;
		}
	}
	/* The others come first; the next turn goes on here. */
	(void)eventfd_write(q->fd, 1);
	return taken;
}

static int
loop_sleep(struct loop *l, uint64_t wait_ns)
{
	const struct timespec ts = {(time_t)(wait_ns / 1000000000u), (long)(wait_ns % 1000000000u)};
	struct epoll_event ready[LOOP_READY];
	eventfd_t drop;
	int n = epoll_pwait2(l->epoll_fd, ready, LOOP_READY, &ts, NULL), done = 0;

	for (int i = 0; i < n; i++) {
		if (ready[i].data.ptr != NULL) {
			done += loop_take_wcs(ready[i].data.ptr);
			continue;
		}
		(void)eventfd_read(l->wake_fd, &drop);
		done += loop_release_held(l);
		/* The set of queues may be another one now. */
		break;
	}
	return done;
}

static void
loop_nap(struct loop *l, uint64_t wait_ns)
{
	uint64_t now_ns = ui_now_ns(), us;

	if (l->idle_since_ns == 0)
		l->idle_since_ns = now_ns;
	if (now_ns - l->idle_since_ns < NAP_AFTER_NS)
		return;
	us = (now_ns - l->idle_since_ns) / 1000 / NAP_SHARE;
	us = us < NAP_MIN_US ? NAP_MIN_US : us < NAP_MAX_US ? us : NAP_MAX_US;
	weft_worker_idle(l->w, (uint32_t)(us < wait_ns / 1000 ? us : wait_ns / 1000));
}

int
loop_turn(struct loop *l, uint64_t wait_ns)
{
	int n;

	if (l->events)
		return loop_sleep(l, wait_ns);
	n = weft_worker_poll(l->w);
	if (l->held != NULL)
		n += loop_release_held(l);
	if (n > 0)
		l->idle_since_ns = 0;
	else if (l->naps)
		loop_nap(l, wait_ns);
	return n;
}
