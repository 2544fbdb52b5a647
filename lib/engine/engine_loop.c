/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The poll loop, the clock, sleeping, polling threads, and calls from other threads. */

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_launch.h>
#include <rte_lcore.h>
#include <rte_pause.h>

#include "engine_priv.h"
#include "weft_netif_sleep.h"
#include "weft_netif_stats.h"
#include "weft_netif_tx.h"
#include "weft_netif.h"

/* An idle worker sleeps for a sixteenth of the time that it has been idle. So a packet waits for at
 * most that part of the pause in front of it. */
#define SLEEP_PART     16
#define SLEEP_FIRST_NS (20 * WEFT_NS_PER_US)
/** With interrupts on all ports. The bound keeps a port whose interrupt fails from being lost. */
#define SLEEP_LONG_NS   (100 * WEFT_NS_PER_MS)
#define LOOP_ROUNDS     4 /**< at most so many rounds of callbacks and tasks in one poll */
#define LOOP_RECLAIM_NS (100 * WEFT_NS_PER_US)
#define LOOP_MAX_CALLS  4096

/* ---- The clock. Layers get the time from here. ---- */

/** least time over which the rate of the TSC is measured */
#define CLOCK_MIN_NS    (10 * WEFT_NS_PER_MS)
#define CLOCK_READS     8
#define CLOCK_SANE_PART 100 /**< the measured rate may differ from DPDK's by 1 / this */

static pthread_once_t clock_once = PTHREAD_ONCE_INIT;
static uint64_t clock_base_tsc, clock_mult; /* ns = ticks * mult / 2^32 */
static struct clock_moment {
	uint64_t tsc, ns;
} clock_birth; /**< time of loading the program: EAL's start makes the measured time long */
static pthread_key_t eal_thread_key, polled_key;
static cpu_set_t process_cpus;

/** Read both clocks at one moment. Of several readings, take the one that took the least time. */
static struct clock_moment
engine_moment(void)
{
	struct clock_moment best = {0};
	uint64_t width = UINT64_MAX;

	for (int i = 0; i < CLOCK_READS; i++) {
		uint64_t before = rte_rdtsc_precise(), after;
		struct timespec ts;

		clock_gettime(CLOCK_MONOTONIC, &ts);
		after = rte_rdtsc_precise();
		if (after - before >= width)
			continue;
		width = after - before;
		best.tsc = before + width / 2;
		best.ns = (uint64_t)ts.tv_sec * WEFT_NS_PER_S + (uint64_t)ts.tv_nsec;
	}
	return best;
}

/** Note the CPUs of the process before EAL pins its threads. An unpinned thread may use all. */
static void __attribute__((constructor)) engine_note_start(void)
{
	if (sched_getaffinity(0, sizeof(process_cpus), &process_cpus) != 0)
		CPU_ZERO(&process_cpus);
	clock_birth = engine_moment();
}

const cpu_set_t *
weft_engine_cpus(void)
{
	return &process_cpus;
}

static void
engine_thread_gone(void *arg)
{
	(void)arg;
	rte_thread_unregister();
}

/* All workers of the process, for engine_poller_gone(). */
static pthread_mutex_t workers_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, weft_worker) workers = LIST_HEAD_INITIALIZER(workers);

void
weft_engine_worker_known(struct weft_worker *w)
{
	pthread_mutex_lock(&workers_lock);
	LIST_INSERT_HEAD(&workers, w, known);
	pthread_mutex_unlock(&workers_lock);
}

void
weft_engine_worker_forget(struct weft_worker *w)
{
	pthread_mutex_lock(&workers_lock);
	LIST_REMOVE(w, known);
	pthread_mutex_unlock(&workers_lock);
}

/**
 * A thread that polled ends without weft_worker_detach(). Its mark as owner is removed from all
 * workers: the address of the mark may later belong to another thread. The worker stays online for
 * the RCU of regions, so freed regions wait until its next poll. Another thread may already have
 * taken the worker over.
 */
static void
engine_poller_gone(void *arg)
{
	struct weft_worker *w;

	(void)arg;
	pthread_mutex_lock(&workers_lock);
	LIST_FOREACH (w, &workers, known) {
		const char *mine = &weft_thread_mark;

		(void)atomic_compare_exchange_strong_explicit(
		        &w->v.owner, &mine, NULL, memory_order_release, memory_order_relaxed);
	}
	pthread_mutex_unlock(&workers_lock);
}

/** The rate of the TSC. DPDK rounds the frequency to 10 MHz, an error of 1.5 ms a second at 2596
 * MHz. The rate by the system's clock is better, unless that clock was changed meanwhile or the
 * computer slept. */
static uint64_t
engine_tsc_mult(void)
{
	uint64_t dpdk = (uint64_t)(((unsigned __int128)WEFT_NS_PER_S << 32) / rte_get_tsc_hz());
	struct clock_moment m = engine_moment();
	uint64_t ns = m.ns - clock_birth.ns, mult;

	if (m.tsc <= clock_birth.tsc || m.ns <= clock_birth.ns || ns < CLOCK_MIN_NS)
		return dpdk;
	mult = (uint64_t)(((unsigned __int128)ns << 32) / (m.tsc - clock_birth.tsc));
	return (mult > dpdk ? mult - dpdk : dpdk - mult) <= dpdk / CLOCK_SANE_PART ? mult : dpdk;
}

static void
engine_once(void)
{
	clock_base_tsc = rte_rdtsc();
	clock_mult = engine_tsc_mult();
	(void)pthread_key_create(&eal_thread_key, engine_thread_gone);
	(void)pthread_key_create(&polled_key, engine_poller_gone);
}

uint64_t
weft_engine_cycles_ns(uint64_t cycles)
{
	return (uint64_t)(((unsigned __int128)cycles * clock_mult) >> 32);
}

static inline uint64_t
engine_ns(uint64_t tsc)
{
	/* The clock starts at one second, so that a time shortly before its start does not wrap. */
	return WEFT_NS_PER_S + weft_engine_cycles_ns(tsc - clock_base_tsc);
}

uint64_t
weft_engine_clock_ns(void)
{
	pthread_once(&clock_once, engine_once);
	return engine_ns(rte_rdtsc());
}

struct weft_exec *
weft_worker_exec(struct weft_worker *w)
{
	if (WEFT_HANDLE_BAD(w, WORKER))
		return NULL;
	return w->v.sched.exec;
}

uint64_t
weft_worker_now_ns(const struct weft_worker *w)
{
	if (WEFT_HANDLE_BAD(w, WORKER))
		return 0;
	return w->v.sched.now_ns;
}

void
weft_worker_random(struct weft_worker *w, void *buf, size_t len_bytes)
{
	if (WEFT_HANDLE_BAD(w, WORKER) || buf == NULL)
		return;
	w->v.sched.rand.fill(w->v.sched.rand.arg, buf, len_bytes);
}

/* ---- One poll ---- */

void
weft_engine_adopt(struct weft_worker *w)
{
	static _Thread_local bool tried;

	pthread_once(&clock_once, engine_once);
	if (rte_lcore_id() == LCORE_ID_ANY && !tried) {
		tried = true; /* without an id all works, but mbuf caches are not used */
		if (rte_thread_register() == 0)
			(void)pthread_setspecific(eal_thread_key, &eal_thread_key);
		else
			WEFT_LOG(engine, WARNING, "%s: EAL has no room for this thread", w->name);
	}
	(void)pthread_setspecific(polled_key, &polled_key);
	atomic_store_explicit(&w->v.owner, &weft_thread_mark, memory_order_release);
	weft_mem_online(w->ctx->v.mem, w->v.id);
}

static unsigned int
engine_turn(struct weft_worker *w, uint64_t now_ns)
{
	struct weft_cm_worker *cm = &w->cm;
	struct weft_vworker *v = &w->v;
	struct weft_sched *s = &v->sched;
	unsigned int n;

	s->now_ns = now_ns;
	n = weft_work_run(&v->work);
	for (unsigned int i = 0; i < cm->nnif; i++)
		n += weft_netif_poll(cm->nif[i], now_ns);
	n += weft_exec_poll(s->exec);
	n += weft_timer_run(&s->wheel, now_ns);
	/* Callbacks run before tasks, so requests that they post are sent in this poll. Tasks
	 * complete work, which needs callbacks in turn. */
	for (unsigned int round = 0; round < LOOP_ROUNDS; round++) {
		n += weft_vworker_deliver(v);
		n += round == 0 ? weft_sched_run(s, now_ns) : weft_sched_run_more(s, now_ns);
		if (!weft_vworker_pending(v))
			break;
	}
	for (unsigned int i = 0; i < cm->nnif; i++)
		n += weft_netif_flush(cm->nif[i], now_ns);
	weft_mem_quiescent(w->ctx->v.mem, v->id);
	if (n == 0 || now_ns - w->reclaim_ns >= LOOP_RECLAIM_NS) {
		w->reclaim_ns = now_ns;
		n += weft_mem_reclaim(w->ctx->v.mem);
	}
	return n;
}

/** Let a thread that is not the owner take the worker over. -EBUSY: another thread is polling at
 * this moment. -EINVAL: the worker was destroyed. */
static __rte_noinline int
engine_take_over(struct weft_worker *w)
{
	if (WEFT_HANDLE_BAD(w, WORKER))
		return -EINVAL;
	if (atomic_load_explicit(&w->inside, memory_order_acquire) == 0) {
		weft_engine_adopt(w);
		return 0;
	}
	if (!atomic_exchange_explicit(&w->told, true, memory_order_relaxed))
		WEFT_LOG(engine, ERR,
		         "%s: polled by two threads at once; the second one is refused", w->name);
	return -EBUSY;
}

unsigned int
weft_engine_poll_at(struct weft_worker *w, uint64_t now_ns)
{
	unsigned int n;

	if (unlikely(!weft_vworker_is_mine(&w->v)))
		weft_engine_adopt(w);
	n = engine_turn(w, now_ns);
	w->polls++;
	w->busy_polls += n > 0;
	return n;
}

int
weft_worker_poll(struct weft_worker *w)
{
	unsigned int n, nested;
	uint64_t start;

	if (unlikely(w == NULL || !weft_vworker_is_mine(&w->v))) {
		int rc = engine_take_over(w);

		if (rc < 0)
			return rc;
	}
	/* Relaxed loads and stores cost nothing. They miss two threads that begin a poll within the
	 * same few nanoseconds. */
	nested = atomic_load_explicit(&w->inside, memory_order_relaxed); /* a callback may poll */
	atomic_store_explicit(&w->inside, 1, memory_order_relaxed);
	start = rte_rdtsc();
	n = weft_engine_poll_at(w, engine_ns(start));
	if (n > 0)
		weft_engine_hist_add(&w->hist, rte_rdtsc() - start);
	atomic_store_explicit(&w->inside, nested, memory_order_release);
	return (int)n;
}

/** Whether another poll would have work without new input. */
static bool
engine_has_work(const struct weft_worker *w)
{
	const struct weft_vworker *v = &w->v;

	return !TAILQ_EMPTY(&v->sched.run) || weft_work_waits(&v->work) ||
	       weft_vworker_pending(v) ||
	       (weft_exec_fd(v->sched.exec) < 0 && weft_exec_pending(v->sched.exec) > 0);
}

uint64_t
weft_engine_next_ns(struct weft_worker *w)
{
	return engine_has_work(w) ? w->v.sched.now_ns : weft_timer_next(&w->v.sched.wheel);
}

/* ---- Sleeping ---- */

static bool
engine_handed(const struct weft_cm_worker *cm)
{
	for (unsigned int i = 0; i < cm->nnif; i++)
		if (weft_netif_handed(cm->nif[i]))
			return true;
	return false;
}

/** Packets wait for room in a port, which tells nobody when it has some. */
static bool
engine_sends(const struct weft_cm_worker *cm)
{
	for (unsigned int i = 0; i < cm->nnif; i++)
		if (weft_netif_tx_room(cm->nif[i]) < WEFT_NETIF_TXQ)
			return true;
	return false;
}

/**
 * Sleep until a descriptor is readable or a timer is due, at most wait_ns. fds: `n` of the ports,
 * behind two that this function fills in. Returns what ppoll() does; 0 without a sleep: 1.
 */
static int
engine_nap(struct weft_worker *w, struct pollfd *fds, unsigned int n, uint64_t wait_ns)
{
	struct weft_vworker *v = &w->v;
	uint64_t now_ns, next_ns, drop;
	struct timespec ts;
	int rc = 1;

	fds[0] = (struct pollfd){.fd = v->work.wake_fd, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = weft_exec_fd(v->sched.exec), .events = POLLIN};
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
	if (!weft_work_waits(&v->work) && !engine_handed(&w->cm) &&
	    !atomic_load_explicit(&w->stop, memory_order_relaxed)) {
		rc = ppoll(fds, 2 + n, &ts, NULL);
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
	struct pollfd fds[2];

	if (unlikely(w == NULL || !weft_vworker_is_mine(weft_vworker_of(w))) &&
	    engine_take_over(w) < 0)
		return;
	(void)engine_nap(w, fds, 0, timeout_us * WEFT_NS_PER_US);
}

/**
 * The sleep of a worker that has been idle for idle_ns. Where every port has a receive interrupt
 * that is known to wake, and no packet waits for room in a port, the sleep is long. Else it grows
 * with the idle time, up to the worker's idle_sleep_us: a port without a link may have no room for
 * hours. Returns what the last weft_worker_poll() did.
 */
static int
engine_sleep(struct weft_worker *w, uint64_t idle_ns)
{
	uint64_t wait_ns = RTE_MAX(idle_ns / SLEEP_PART, (uint64_t)SLEEP_FIRST_NS);
	uint64_t before[RTE_DIM(w->cm.nif)];
	struct pollfd fds[2 + RTE_DIM(w->cm.nif)];
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
		if (all && cm->nnif > 0 && !engine_sends(cm))
			wait_ns = RTE_MAX(wait_ns, (uint64_t)SLEEP_LONG_NS);
		rc = engine_nap(w, fds, armed, wait_ns);
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

/* ---- Running ---- */

int
weft_worker_run(struct weft_worker *w)
{
	uint64_t idle_since_ns = 0, idle_ns;

	if (WEFT_HANDLE_BAD(w, WORKER))
		return -EINVAL;
	while (!atomic_load_explicit(&w->stop, memory_order_relaxed)) {
		int n = weft_worker_poll(w);

		if (unlikely(n < 0))
			return n;
		if (n > 0) {
			idle_since_ns = 0;
			continue;
		}
		if (idle_since_ns == 0)
			idle_since_ns = w->v.sched.now_ns;
		idle_ns = w->v.sched.now_ns - idle_since_ns;
		if (w->spin || idle_ns < w->idle_spin_ns) {
			rte_pause();
			continue;
		}
		n = engine_sleep(w, idle_ns);
		if (unlikely(n < 0))
			return n;
		if (n > 0)
			idle_since_ns = 0;
	}
	atomic_store_explicit(&w->stop, 0, memory_order_relaxed);
	weft_worker_detach(w);
	return 0;
}

static int
engine_lcore_main(void *arg)
{
	return weft_worker_run(arg);
}

static void *
engine_thread_main(void *arg)
{
	struct weft_worker *w = arg;

	/* The default timer slack of 50 us would double every short sleep. */
	(void)prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
	(void)weft_worker_run(w);
	return NULL;
}

static int
engine_thread_start(struct weft_worker *w)
{
	cpu_set_t cpus = process_cpus;
	pthread_attr_t attr;
	sigset_t old;
	char name[16];
	int rc;

	if (w->lcore >= 0) {
		if (w->lcore >= CPU_SETSIZE)
			return -EINVAL;
		CPU_ZERO(&cpus);
		CPU_SET((unsigned int)w->lcore, &cpus);
	}
	if (pthread_attr_init(&attr) != 0)
		return -ENOMEM;
	if (CPU_COUNT(&cpus) > 0)
		(void)pthread_attr_setaffinity_np(&attr, sizeof(cpus), &cpus);
	weft_block_signals(&old);
	rc = pthread_create(&w->thread, &attr, engine_thread_main, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (rc != 0)
		return -rc;
	snprintf(name, sizeof(name), "%.15s", w->name);
	(void)pthread_setname_np(w->thread, name);
	return 0;
}

int
weft_worker_start(struct weft_worker *w)
{
	int rc;

	if (WEFT_HANDLE_BAD(w, WORKER))
		return -EINVAL;
	if (w->started != RUN_NOT)
		return -EALREADY;
	/* Set before the worker runs: it may stop itself at once. */
	atomic_store_explicit(&w->v.runs, 1, memory_order_release);
	/* An lcore of EAL if it has that number and is not the main one; else a new thread. */
	if (w->lcore >= 0 && rte_lcore_is_enabled((unsigned int)w->lcore) &&
	    (unsigned int)w->lcore != rte_get_main_lcore()) {
		rc = rte_eal_remote_launch(engine_lcore_main, w, (unsigned int)w->lcore);
		if (rc < 0) {
			atomic_store_explicit(&w->v.runs, 0, memory_order_release);
			return rc;
		}
		w->started_lcore = (unsigned int)w->lcore;
		w->started = RUN_LCORE;
		return 0;
	}
	rc = engine_thread_start(w);
	if (rc == 0)
		w->started = RUN_THREAD;
	else
		atomic_store_explicit(&w->v.runs, 0, memory_order_release);
	return rc;
}

void
weft_worker_stop_async(struct weft_worker *w)
{
	uint64_t one = 1;

	/* Nothing is logged: the caller may be a signal handler. */
	if (!weft_handle_ok(WEFT_HANDLE_OF(w), WEFT_KIND(WORKER)))
		return;
	atomic_store_explicit(&w->v.runs, 0, memory_order_release);
	atomic_store_explicit(&w->stop, 1, memory_order_seq_cst);
	if (write(w->v.work.wake_fd, &one, sizeof(one)) < 0) {
		/* EAGAIN: the eventfd is already readable. */
	}
}

void
weft_worker_stop(struct weft_worker *w)
{
	if (WEFT_HANDLE_BAD(w, WORKER))
		return;
	weft_worker_stop_async(w);
	if (w->started == RUN_NOT || weft_vworker_is_mine(&w->v))
		return;
	if (w->started == RUN_LCORE)
		(void)rte_eal_wait_lcore(w->started_lcore);
	else
		(void)pthread_join(w->thread, NULL);
	w->started = RUN_NOT;
	/* weft_worker_run() may have returned before `stop` was set. */
	atomic_store_explicit(&w->stop, 0, memory_order_relaxed);
}

void
weft_worker_detach(struct weft_worker *w)
{
	if (w == NULL || !weft_vworker_is_mine(&w->v))
		return;
	weft_mem_offline(w->ctx->v.mem, w->v.id);
	atomic_store_explicit(&w->v.owner, NULL, memory_order_release);
}

bool
weft_worker_is_mine(const struct weft_worker *w)
{
	return w != NULL && weft_vworker_is_mine(&w->v);
}

/* ---- Calls ---- */

struct engine_call {
	struct weft_work_item work;
	struct weft_worker *w;
	void (*fn)(void *arg);
	void *arg;
};

static void
engine_call_run(struct weft_work_item *m)
{
	struct engine_call call = *container_of(m, struct engine_call, work);

	free(container_of(m, struct engine_call, work));
	atomic_fetch_sub_explicit(&call.w->calls, 1, memory_order_relaxed);
	call.fn(call.arg);
}

int
weft_worker_call(struct weft_worker *w, void (*fn)(void *arg), void *arg)
{
	struct engine_call *call;

	if (WEFT_HANDLE_BAD(w, WORKER) || fn == NULL)
		return -EINVAL;
	if (weft_vworker_is_mine(&w->v)) {
		fn(arg);
		return 0;
	}
	if (atomic_fetch_add_explicit(&w->calls, 1, memory_order_relaxed) >= LOOP_MAX_CALLS) {
		atomic_fetch_sub_explicit(&w->calls, 1, memory_order_relaxed);
		return -EAGAIN;
	}
	call = malloc(sizeof(*call));
	if (call == NULL) {
		atomic_fetch_sub_explicit(&w->calls, 1, memory_order_relaxed);
		return -ENOMEM;
	}
	call->work.fn = engine_call_run;
	call->w = w;
	call->fn = fn;
	call->arg = arg;
	weft_work_send(&w->v.work, &call->work);
	return 0;
}
