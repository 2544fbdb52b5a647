/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ENGINE_PRIV_H
#define ENGINE_PRIV_H

/** @file The structures of contexts, ports, alarms and workers, for the sources of lib/engine. */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "weft_cm.h"
#include "weft_engine.h"
#include "weft_netif_attr.h"
#include "weft_netif_port.h"
#include "weft_vworker.h"

WEFT_LOG_DECLARE(engine);

#define ENGINE_NAME_LEN 32

/** A worker's part of a port, for the case that the port's device is removed. */
struct engine_part {
	struct weft_work_item work;
	struct weft_port *port;
	struct weft_worker *w;
	struct weft_netif *nif;
};

struct weft_port {
	struct weft_handle h;
	TAILQ_ENTRY(weft_port) link;
	struct weft_ctx *ctx;
	char name[ENGINE_NAME_LEN];
	struct weft_netif_port dev;
	struct weft_netif_attr net;     /**< networks, MTU and DSCP; the rest is each worker's */
	struct weft_netif_group *group; /**< NULL: one worker uses the port */
	unsigned int queues, nnif;
	struct weft_netif *nif[WEFT_MAX_WORKERS]; /**< one of each worker that has the port */
	/** of nnif, and of the removal of the device; not taken by polling threads */
	pthread_mutex_t lock;
	_Atomic uint32_t removed;                  /**< the device was removed */
	_Atomic uint32_t holders;                  /**< since then: workers that still use it */
	struct engine_part part[WEFT_MAX_WORKERS]; /**< of each in `nif` */
};

struct weft_ctx {
	struct weft_vctx v; /**< first member: the part that verbs uses */
	struct weft_cm cm;  /**< that of connection management */
	uint32_t max_workers;
	struct weft_tcp_attr tcp;
	TAILQ_HEAD(, weft_port) ports;
	struct weft_tcp_ports *tcp_ports;
	const struct weft_engine_observer *observer; /**< not NULL; its functions may be NULL */
};

struct weft_alarm {
	struct weft_handle h;
	struct weft_timer timer;
	struct weft_worker *w;
	void (*fn)(void *arg);
	void *arg;
	LIST_ENTRY(weft_alarm) link;
};

/** What the worker polls beside its ports, in the order in which it was added. */
struct engine_pollers {
	unsigned int n;
	bool polled;       /**< they are being polled; else `next` and `end` are 0 */
	unsigned int next; /**< the next one to poll */
	unsigned int end;  /**< behind the last one of this poll */
	struct weft_poller *poller[WEFT_POLLERS_MAX];
};

struct weft_worker {
	struct weft_vworker v; /**< first member: the part that verbs uses */
	struct weft_cm_worker
	        cm; /**< that of connection management, and the interfaces that are polled */
	struct weft_ctx *ctx;
	char name[ENGINE_NAME_LEN];
	int lcore;
	bool spin;
	uint64_t idle_spin_ns;
	uint32_t idle_sleep_us;
	uint64_t reclaim_ns; /**< time of the last weft_mem_reclaim() */
	struct engine_pollers pollers;
	LIST_HEAD(, weft_alarm) alarms;
	LIST_ENTRY(weft_worker) known; /**< in the list of all workers of the process */
	/* counters */
	uint64_t polls, busy_polls;
	struct weft_engine_hist hist; /**< duration of the busy polls */
	/* the loop */
	_Atomic uint32_t inside; /**< a thread is in weft_worker_poll() */
	atomic_bool told;        /**< a poll by two threads at once has been logged */
	_Atomic uint32_t stop;   /**< weft_worker_run() is to return */
	_Atomic uint32_t calls;  /**< weft_worker_call() that have not run */
	enum { RUN_NOT, RUN_LCORE, RUN_THREAD } started;
	unsigned int started_lcore;
	pthread_t thread;
};

/** Whether EAL was told which interrupts to use, perhaps not MSI-X, which receive interrupts need
 * (net_vmxnet3 crashes without). */
bool weft_engine_no_msix(void);
/** The CPUs that the process might use at its start, before EAL pinned threads. Static. */
const cpu_set_t *weft_engine_cpus(void);
/** Add w to the list of all workers. When a thread that polled w ends, it stops being the owner. */
void weft_engine_worker_known(struct weft_worker *w);
/** Remove w from that list. */
void weft_engine_worker_forget(struct weft_worker *w);
/** Make the calling thread the owner of w, which polls it. */
void weft_engine_adopt(struct weft_worker *w);
/** Let a thread that is not the owner take the worker over. -EBUSY: another thread is polling at
 * this moment. -EINVAL: the worker was destroyed. */
int weft_engine_take_over(struct weft_worker *w);
/** Start the clock, if it does not run yet. Any thread. */
void weft_engine_clock_start(void);
/** The time at which the TSC had this value. Valid after weft_engine_clock_start(). */
uint64_t weft_engine_tsc_ns(uint64_t tsc);
/**
 * The sleep of a worker that has been idle for idle_ns. Where every port has a receive interrupt
 * that is known to wake, and no packet waits for room in a port, the sleep is long. Else it grows
 * with the idle time, up to the worker's idle_sleep_us: a port without a link may have no room for
 * hours. Returns what the last weft_worker_poll() did.
 */
int weft_engine_sleep(struct weft_worker *w, uint64_t idle_ns);
/** Poll each poller once, but not those that are added meanwhile. Returns how much they did. */
unsigned int weft_engine_pollers_poll(struct weft_worker *w, uint64_t now_ns);
/** When the first of them has to be polled again. UINT64_MAX: there is none, or none has to be. */
uint64_t weft_engine_pollers_next_ns(const struct weft_worker *w);
/** Remove all of them from a worker that is freed. */
void weft_engine_pollers_end(struct weft_worker *w);
/** Watch the device of a port that was opened. -ENOMEM, -ENODEV. */
int weft_engine_port_watch(struct weft_port *port);
/** Teardown of a stopped worker, step 1: finish its jobs and tasks, and destroy its TCP. */
void weft_engine_worker_drain(struct weft_worker *w);
/** Step 2: destroy its interfaces that are member group_index of their groups. */
void weft_engine_worker_leave(struct weft_worker *w, unsigned int group_index);
/** Step 3: free the worker. */
void weft_engine_worker_free(struct weft_worker *w);

#endif /* ENGINE_PRIV_H */
