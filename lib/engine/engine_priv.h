/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ENGINE_PRIV_H
#define ENGINE_PRIV_H

/** @file Contexts, ports and workers as the files of the engine share them. */

#include <pthread.h>
#include <sched.h>

#include "weft_engine.h"
#include "weft_netif_group.h"
#include "weft_vworker.h"

WEFT_LOG_DECLARE(engine);

#define ENGINE_NAME_LEN 32

struct weft_port {
	struct weft_handle h;
	TAILQ_ENTRY(weft_port) link;
	struct weft_ctx *ctx;
	char name[ENGINE_NAME_LEN];
	struct weft_netif_port dev;
	struct weft_ip addr, gateway, addr6, gateway6; /**< all zero: none */
	uint8_t prefix_len, prefix6_len;
	bool no_ipv6;
	uint16_t vlan_id;
	struct weft_netif_group *group; /**< NULL: one worker alone */
	unsigned int queues, nnif;
	struct weft_netif *nif[WEFT_MAX_WORKERS]; /**< of the workers that have it */
};

struct weft_ctx {
	struct weft_vctx v; /**< first: what verbs sees */
	uint32_t max_workers;
	struct weft_tcp_attr tcp;
	TAILQ_HEAD(, weft_port) ports;
	struct weft_tcp_ports *tcp_ports;
	const struct weft_engine_observer *observer; /**< never NULL; its functions may be */
};

struct weft_alarm {
	struct weft_handle h;
	struct weft_timer timer;
	struct weft_worker *w;
	void (*fn)(void *arg);
	void *arg;
	LIST_ENTRY(weft_alarm) link;
};

struct weft_worker {
	struct weft_vworker v; /**< first: what verbs sees */
	struct weft_ctx *ctx;
	char name[ENGINE_NAME_LEN];
	int lcore;
	bool spin;
	uint64_t idle_spin_ns;
	uint32_t idle_sleep_us;
	uint64_t reclaim_ns; /**< when regions were last looked after */
	LIST_HEAD(, weft_alarm) alarms;
	LIST_ENTRY(weft_worker) known; /**< of all there are */
	/* counters */
	uint64_t polls, busy_polls;
	struct weft_engine_hist hist; /**< of the busy ones */
	/* the loop */
	uint32_t inside; /**< atomic: a thread is in weft_worker_poll() */
	bool told;       /**< atomic: that two threads poll it was logged */
	uint32_t stop;   /**< atomic */
	uint32_t calls;  /**< atomic: weft_worker_call() on their way */
	enum { RUN_NOT, RUN_LCORE, RUN_THREAD } started;
	unsigned int started_lcore;
	pthread_t thread;
};

/** The cpus the process might use before EAL pinned anybody. */
const cpu_set_t *weft_engine_cpus(void);
/** There is one more: a thread that ends lets go of it. */
void weft_engine_worker_known(struct weft_worker *w);
void weft_engine_worker_forget(struct weft_worker *w);
/** Make the calling thread the one that polls w. */
void weft_engine_adopt(struct weft_worker *w);
/** Teardown of stopped workers, in three steps: what they have under way; their interfaces;
 * themselves. */
void weft_engine_worker_drain(struct weft_worker *w);
/** Destroy its interfaces of this place in their groups. */
void weft_engine_worker_leave(struct weft_worker *w, unsigned int group_index);
void weft_engine_worker_free(struct weft_worker *w);

#endif /* ENGINE_PRIV_H */
