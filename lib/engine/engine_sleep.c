/* SPDX-License-Identifier: BSD-3-Clause */
/** @file How an idle worker sleeps, and what ends its sleep. */

#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "engine_priv.h"
#include "weft_netif.h"
#include "weft_netif_sleep.h"
#include "weft_netif_stats.h"
#include "weft_netif_tx.h"

/* An idle worker sleeps for a sixteenth of the time that it has been idle. So a packet waits for at
 * most that part of the pause in front of it. */
#define SLEEP_PART     16
#define SLEEP_FIRST_NS (20 * WEFT_NS_PER_US)
/** The longest sleep where every port has an interrupt. After it a port whose interrupt fails is
 * polled. */
#define SLEEP_LONG_NS (100 * WEFT_NS_PER_MS)
/** Descriptors that sleep_nap() adds to those of ports: of work items, the executor and pollers. */
#define SLEEP_FDS (2 + WEFT_POLLERS_MAX)

static bool
sleep_handed(const struct weft_cm_worker *cm)
{
	for (unsigned int i = 0; i < cm->nnif; i++)
		if (weft_netif_handed(cm->nif[i]))
			return true;
	return false;
}

/** Whether packets wait for room in a port. */
static bool
sleep_sends(const struct weft_cm_worker *cm)
{
	for (unsigned int i = 0; i < cm->nnif; i++)
		if (weft_netif_tx_waits(cm->nif[i]))
			return true;
	return false;
}

/**
 * Sleep until a descriptor is readable, or a timer or a poller is due, at most wait_ns. fds: `n`
 * descriptors of ports, behind two that this function fills in; behind them it adds those of
 * pollers. Returns what ppoll() returned, 0 when the time is over. Returns 1 without a sleep if
 * there is work.
 */
static int
sleep_nap(struct weft_worker *w, struct pollfd *fds, unsigned int n, uint64_t wait_ns)
{
	struct weft_vworker *v = &w->v;
	uint64_t now_ns, next_ns, drop;
	struct timespec ts;
	int rc = 1;

	fds[0] = (struct pollfd){.fd = v->work.wake_fd, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = weft_exec_fd(v->sched.exec), .events = POLLIN};
	n += 2;
	for (unsigned int i = 0; i < w->pollers.n; i++)
		fds[n++] = (struct pollfd){.fd = w->pollers.poller[i]->fd, .events = POLLIN};
	now_ns = weft_engine_clock_ns();
	next_ns = weft_engine_next_ns(w);
	if (next_ns <= now_ns)
		return rc;
	wait_ns = RTE_MIN(wait_ns, next_ns - now_ns);
	ts.tv_sec = (time_t)(wait_ns / WEFT_NS_PER_S);
	ts.tv_nsec = (long)(wait_ns % WEFT_NS_PER_S);
	weft_mem_offline(w->ctx->v.mem, v->id);
	/* The order of weft_work_wake(): set `sleeping`, then check for work once more. */
	atomic_store_explicit(&v->work.sleeping, 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	if (!weft_work_waits(&v->work) && !sleep_handed(&w->cm) &&
	    !atomic_load_explicit(&w->stop, memory_order_relaxed)) {
		rc = ppoll(fds, n, &ts, NULL);
		if (rc > 0 && (fds[0].revents & POLLIN) &&
		    read(v->work.wake_fd, &drop, sizeof(drop)) < 0) {
			/* EAGAIN: an earlier read has reset the counter. */
		}
	}
	atomic_store_explicit(&v->work.sleeping, 0, memory_order_relaxed);
	weft_mem_online(w->ctx->v.mem, v->id);
	/* Timers that the caller arms before its next poll count from this time. */
	v->sched.now_ns = weft_engine_clock_ns();
	return rc;
}

void
weft_worker_idle(struct weft_worker *w, uint32_t timeout_us)
{
	struct pollfd fds[SLEEP_FDS];

	if (unlikely(w == NULL || !weft_vworker_is_mine(weft_vworker_of(w))) &&
	    weft_engine_take_over(w) < 0)
		return;
	(void)sleep_nap(w, fds, 0, timeout_us * WEFT_NS_PER_US);
}

int
weft_engine_sleep(struct weft_worker *w, uint64_t idle_ns)
{
	uint64_t wait_ns = RTE_MAX(idle_ns / SLEEP_PART, (uint64_t)SLEEP_FIRST_NS);
	uint64_t before[RTE_DIM(w->cm.nif)];
	struct pollfd fds[SLEEP_FDS + RTE_DIM(w->cm.nif)];
	struct weft_cm_worker *cm = &w->cm;
	struct pollfd *at[RTE_DIM(w->cm.nif)];
	bool all = true, slept = false;
	unsigned int armed = 0;
	int n = 0, rc = 0;

	for (unsigned int i = 0; i < cm->nnif; i++) {
		int fd;

		if (weft_netif_sleep_begin(cm->nif[i], &fd) != WEFT_NETIF_WAKES)
			all = false;
		at[i] = fd < 0 ? NULL : &fds[2 + armed];
		if (fd >= 0)
			fds[2 + armed++] = (struct pollfd){.fd = fd, .events = POLLIN};
	}
	/* A packet that came before an interrupt was armed ends no sleep. */
	if (armed > 0)
		n = weft_worker_poll(w);
	if (n == 0) {
		wait_ns = RTE_MIN(wait_ns, w->idle_sleep_us * WEFT_NS_PER_US);
		if (all && cm->nnif > 0 && !sleep_sends(cm))
			wait_ns = RTE_MAX(wait_ns, (uint64_t)SLEEP_LONG_NS);
		rc = sleep_nap(w, fds, armed, wait_ns);
		slept = true;
	}
	for (unsigned int i = 0; i < cm->nnif && armed > 0; i++)
		weft_netif_sleep_end(cm->nif[i], slept && at[i] != NULL && at[i]->revents != 0);
	if (armed == 0 || !slept)
		return n;
	for (unsigned int i = 0; i < cm->nnif; i++)
		before[i] = weft_netif_stats(cm->nif[i])->rx_packets;
	n = weft_worker_poll(w);
	for (unsigned int i = 0; i < cm->nnif; i++)
		weft_netif_sleep_judge(cm->nif[i], at[i] != NULL && at[i]->revents != 0, rc == 0,
		                       weft_netif_stats(cm->nif[i])->rx_packets - before[i]);
	return n;
}

int
weft_worker_sleep(struct weft_worker *w, uint64_t idle_us)
{
	if (unlikely(w == NULL || !weft_vworker_is_mine(weft_vworker_of(w)))) {
		int rc = weft_engine_take_over(w);

		if (rc < 0)
			return rc;
	}
	return weft_engine_sleep(w, RTE_MIN(idle_us, UINT64_MAX / WEFT_NS_PER_US) * WEFT_NS_PER_US);
}
