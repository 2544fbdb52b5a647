/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Workers: creation, adding ports, counters, alarms and teardown. */

#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine_priv.h"
#include "weft_netif.h"
#include "weft_netif_attr.h"
#include "weft_netif_icmp.h"
#include "weft_netif_tx.h"
#include "weft_tcp.h"
#include "weft_stat.h"

/** At the end of a worker its ports are looked at so often, 5 ms in all. */
#define REST_LOOKS   50
#define REST_LOOK_US 100

#define WORKER_DEFAULT_SPIN_US  200
#define WORKER_DEFAULT_SLEEP_US 8000
#define WORKER_DEFAULT_CONNS    1024
#define WORKER_DEFAULT_HELPERS  1

static int
engine_worker_make(struct weft_ctx *ctx, const struct weft_worker_attr *attr,
                   const struct weft_tcp_attr *tcp_attr, const struct weft_rand *rand,
                   uint64_t now_ns, bool helpers, struct weft_worker **out)
{
	struct weft_worker_attr a = {.lcore = -1};
	struct weft_tcp_attr ta;
	struct weft_worker *w;
	int rc;

	ta = ctx->tcp;
	if (attr != NULL) {
		rc = weft_attr_copy(&a, sizeof(a), attr);
		if (rc < 0)
			return rc;
	}
	if (tcp_attr != NULL)
		ta = *tcp_attr;
	ta.ports = ctx->tcp_ports;
	if (a.max_conns != 0)
		ta.max_conns = a.max_conns;
	if (ta.max_conns == 0)
		ta.max_conns = WORKER_DEFAULT_CONNS;
	if (ctx->tcp.rto_min_us != 0)
		ta.rto_min_us = ctx->tcp.rto_min_us;
	w = aligned_alloc(64, RTE_ALIGN_CEIL(sizeof(*w), 64));
	if (w == NULL)
		return -ENOMEM;
	memset(w, 0, sizeof(*w));
	weft_vworker_init(&w->v, &ctx->v);
	weft_cm_worker_init(&w->cm, &w->v);
	w->ctx = ctx;
	w->lcore = a.lcore;
	w->spin = a.spin;
	w->idle_spin_ns =
	        (a.idle_spin_us != 0 ? a.idle_spin_us : WORKER_DEFAULT_SPIN_US) * WEFT_NS_PER_US;
	w->idle_sleep_us = a.idle_sleep_us != 0 ? a.idle_sleep_us : WORKER_DEFAULT_SLEEP_US;
	w->v.max_qps = ta.max_conns;
	LIST_INIT(&w->alarms);
	TAILQ_INIT(&w->v.sched.run);
	weft_wheel_init(&w->v.sched.wheel, now_ns);
	w->v.sched.rand = *rand;
	w->v.sched.now_ns = now_ns;

	pthread_mutex_lock(&ctx->v.lock);
	rc = -ENOSPC;
	if (weft_vctx_nworkers(&ctx->v) >= ctx->max_workers)
		goto fail;
	w->v.id = weft_vctx_nworkers(&ctx->v);
	if (a.name != NULL)
		snprintf(w->name, sizeof(w->name), "%s", a.name);
	else
		snprintf(w->name, sizeof(w->name), "worker%u", w->v.id);
	rc = -ENOMEM;
	w->v.work.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (w->v.work.wake_fd < 0)
		goto fail;
	rc = weft_exec_create(helpers ? (a.helpers != 0 ? a.helpers : WORKER_DEFAULT_HELPERS) : 0,
	                      &w->v.sched.exec);
	if (rc < 0)
		goto fail;
	rc = weft_tcp_create(&ta, &w->v.sched, &w->cm.tcp);
	if (rc < 0)
		goto fail;
	rc = weft_mem_reader_register(ctx->v.mem, w->v.id);
	if (rc < 0)
		goto fail;
	weft_handle_init(&w->v.h, WEFT_KIND(WORKER));
	ctx->v.worker[w->v.id] = &w->v;
	atomic_store_explicit(&ctx->v.nworkers, w->v.id + 1, memory_order_release);
	pthread_mutex_unlock(&ctx->v.lock);
	weft_engine_worker_known(w);
	*out = w;
	return 0;
fail:
	pthread_mutex_unlock(&ctx->v.lock);
	if (w->cm.tcp != NULL)
		weft_tcp_destroy(w->cm.tcp);
	weft_exec_destroy(w->v.sched.exec);
	if (w->v.work.wake_fd >= 0)
		close(w->v.work.wake_fd);
	free(w);
	return rc;
}

int
weft_worker_create(struct weft_ctx *ctx, const struct weft_worker_attr *attr,
                   struct weft_worker **out)
{
	static const struct weft_rand sys = {.fill = weft_rand_system};

	if (WEFT_HANDLE_BAD(ctx, CTX) || out == NULL)
		return -EINVAL;
	weft_log_clock(
	        weft_engine_clock_ns); /* weft_env_init() did it, unless EAL is the program's */
	return engine_worker_make(ctx, attr, NULL, &sys, weft_engine_clock_ns(), true, out);
}

int
weft_engine_worker_create(struct weft_ctx *ctx, const struct weft_worker_attr *attr,
                          const struct weft_tcp_attr *tcp_attr, const struct weft_rand *rand,
                          uint64_t now_ns, struct weft_worker **out)
{
	return engine_worker_make(ctx, attr, tcp_attr, rand, now_ns, false, out);
}

static void
engine_tcp_rx(void *arg, struct weft_netif *nif, struct rte_mbuf **m, unsigned int n,
              uint64_t now_ns)
{
	weft_tcp_rx(((struct weft_worker *)arg)->cm.tcp, nif, m, n, now_ns);
}

static void
engine_icmp_error(void *arg, struct weft_netif *nif, const struct weft_icmp_error *e,
                  uint64_t now_ns)
{
	weft_tcp_icmp_error(((struct weft_worker *)arg)->cm.tcp, nif, e, now_ns);
}

static void
engine_wake(void *arg)
{
	weft_work_wake(&((struct weft_worker *)arg)->v.work);
}

static void
engine_link_up(void *arg, struct weft_netif *nif, uint64_t now_ns)
{
	weft_tcp_link_up(((struct weft_worker *)arg)->cm.tcp, nif, now_ns);
}

int
weft_engine_add_netif(struct weft_worker *w, const struct weft_netif_attr *attr)
{
	static const struct weft_netif_ops ops = {
	        .tcp_rx = engine_tcp_rx,
	        .icmp_error = engine_icmp_error,
	        .wake = engine_wake,
	        .link_up = engine_link_up,
	};
	uint32_t want = w->v.max_qps + RTE_MAX(w->v.max_qps / 2, 256u);
	struct weft_netif_attr a = *attr;
	int rc;

	if (w->cm.nnif == WEFT_MAX_NETIFS)
		return -ENOSPC;
	/* One neighbour for each connection, and some for hosts without a connection. */
	if (a.max_neighs == 0)
		a.max_neighs = RTE_MIN(want, (uint32_t)WEFT_NETIF_NEIGHS_MAX);
	rc = weft_netif_create(&a, &ops, w, &w->v.sched, &w->cm.nif[w->cm.nnif]);
	if (rc == 0)
		w->cm.nnif++;
	return rc;
}

/** Whether the worker has a queue of the port, or can get none. The port's lock is held. */
static bool
worker_has_port(const struct weft_worker *w, const struct weft_port *port)
{
	for (unsigned int i = 0; i < port->nnif; i++)
		if (port->part[i].w == w)
			return true;
	return port->nnif == port->queues || w->polls > 0;
}

int
weft_worker_add_port(struct weft_worker *w, struct weft_port *port)
{
	struct weft_netif_attr na;
	unsigned int i;
	int rc;

	if (WEFT_HANDLE_BAD(w, WORKER) || WEFT_HANDLE_BAD(port, PORT))
		return -EINVAL;
	na = port->net;
	na.port_id = port->dev.port_id;
	na.tx_offloads = port->dev.tx_offloads;
	na.rx_intr = port->dev.rx_intr;
	na.tx_mbufs_max = port->dev.tx_mbufs_max;
	na.rx_offloads = port->dev.rx_offloads;
	na.pool = port->dev.pool;
	na.tx_pool = port->dev.tx_pool;
	na.rx_desc = port->dev.rx_desc;
	na.mac = port->dev.mac;
	na.mtu_bytes = port->dev.mtu_bytes;
	if (port->ctx != w->ctx)
		return -EINVAL;
	pthread_mutex_lock(&port->lock);
	i = port->nnif;
	rc = weft_port_removed(port) ? -ENODEV : worker_has_port(w, port) ? -EBUSY : 0;
	if (rc == 0) {
		na.group = port->group;
		na.group_index = i;
		na.queue_id = port->dev.rx_queues > 1 || port->dev.tx_queues > 1 ? (uint16_t)i : 0;
		rc = weft_engine_add_netif(w, &na);
	}
	if (rc == 0) {
		port->nif[i] = w->cm.nif[w->cm.nnif - 1];
		port->part[i] = (struct engine_part){.port = port, .w = w, .nif = port->nif[i]};
		port->nnif++;
	}
	pthread_mutex_unlock(&port->lock);
	return rc;
}

WEFT_STAT_READER void
weft_worker_stats(struct weft_worker *w, struct weft_worker_stats *st)
{
	const struct weft_tcp_stats *ts;
	struct weft_vworker_stats vs;

	if (st == NULL)
		return;
	if (WEFT_HANDLE_BAD(w, WORKER)) {
		memset(st, 0, sizeof(*st));
		return;
	}
	ts = weft_tcp_stats(w->cm.tcp);
	weft_vworker_stats(&w->v, &vs);
	*st = (struct weft_worker_stats){
	        .polls = w->polls,
	        .busy_polls = w->busy_polls,
	        .busy_cycles = weft_engine_hist_read(&w->hist.busy_cycles),
	        .poll_max_ns = weft_engine_cycles_ns(weft_engine_hist_read(&w->hist.max_cycles)),
	        .conns = ts->conns_now,
	        .conns_total = vs.conns_total,
	        .segs_in = ts->segs_in,
	        .segs_out = ts->segs_out,
	        .retrans_segs = ts->retrans_segs,
	        .rtos = ts->rtos,
	        .fpdus_in = vs.fpdus_in,
	        .fpdus_out = vs.fpdus_out,
	        .crc_errors = vs.crc_errors,
	        .marker_errors = vs.marker_errors,
	        .mpa_fallbacks = vs.mpa_fallbacks,
	        .msgs_in = vs.msgs_in,
	        .msgs_out = vs.msgs_out,
	        .terminates_in = vs.terminates_in,
	        .terminates_out = vs.terminates_out,
	        .wcs = vs.wcs,
	        .cq_overruns = vs.cq_overruns,
	        .requests_refused = vs.requests_refused,
	        .requests_refused_peer = vs.requests_refused_peer,
	        .requests_evicted = vs.requests_evicted,
	        .conns_pushed_out = vs.conns_pushed_out,
	        .left_now = vs.left_now,
	        .left_total = vs.left_total,
	        .left_timeouts = vs.left_timeouts,
	        .left_cut = vs.left_cut,
	        .medium_waits = w->cm.lanes.waits,
	        .bad_ranges = vs.bad_ranges,
	        .revocations = vs.revocations,
	        .revocations_reduced = vs.revocations_reduced,
	        .revocations_invalidated = vs.revocations_invalidated,
	        .revocations_failed = vs.revocations_failed,
	        .refused_after_revoke = w->v.op_stats.faults.refused_after_revoke,
	        .conns_refused_peer = vs.conns_refused_peer,
	        .fpdu_timeouts = w->cm.mpa_keep.timeouts,
	        .fpdus_shed = w->cm.mpa_keep.shed,
	        .fpdus_moved = w->cm.mpa_keep.moved,
	        .fpdus_ahead = w->cm.mpa_keep.ahead,
	        .fpdu_heap_bytes = w->cm.mpa_keep.heap_bytes,
	        .early_refused = w->cm.mpa_keep.early_refused,
	        .bad_startup = w->cm.mpa_keep.bad_startup,
	};
}

struct weft_worker *
weft_engine_worker_at(const struct weft_ctx *ctx, unsigned int i)
{
	if (i >= atomic_load_explicit(&ctx->v.nworkers, memory_order_acquire))
		return NULL;
	return (struct weft_worker *)ctx->v.worker[i];
}

struct weft_worker *
weft_worker_get(struct weft_ctx *ctx, unsigned int i)
{
	return WEFT_HANDLE_BAD(ctx, CTX) ? NULL : weft_engine_worker_at(ctx, i);
}

struct weft_tcp *
weft_engine_tcp(struct weft_worker *w)
{
	return w->cm.tcp;
}

struct weft_netif *
weft_engine_netif(struct weft_worker *w, unsigned int i)
{
	return i < w->cm.nnif ? w->cm.nif[i] : NULL;
}

struct weft_ctx *
weft_engine_ctx(struct weft_worker *w)
{
	return w->ctx;
}

const char *
weft_engine_worker_name(const struct weft_worker *w)
{
	return w->name;
}

const struct weft_rdmap_op_stats *
weft_engine_op_stats(const struct weft_worker *w)
{
	return &w->v.op_stats;
}

const struct weft_engine_hist *
weft_engine_hist(const struct weft_worker *w)
{
	return &w->hist;
}

/* ---- Alarms ---- */

static void
engine_alarm(struct weft_timer *t, uint64_t now_ns)
{
	struct weft_alarm *a = container_of(t, struct weft_alarm, timer);
	void (*fn)(void *arg) = a->fn;
	void *arg = a->arg;

	(void)now_ns;
	LIST_REMOVE(a, link);
	weft_handle_end(&a->h, WEFT_KIND(ALARM));
	weft_handle_free(&a->h, sizeof(a->h));
	fn(arg);
}

int
weft_alarm_set(struct weft_worker *w, uint64_t delay_us, void (*fn)(void *arg), void *arg,
               struct weft_alarm **out)
{
	struct weft_alarm *a;

	if (WEFT_HANDLE_BAD(w, WORKER) || fn == NULL)
		return -EINVAL;
	if (weft_vworker_is_others(&w->v))
		return weft_wrong_thread(__func__);
	a = calloc(1, sizeof(*a));
	if (a == NULL)
		return -ENOMEM;
	a->w = w;
	a->fn = fn;
	a->arg = arg;
	weft_handle_init(&a->h, WEFT_KIND(ALARM));
	weft_timer_init(&a->timer, engine_alarm);
	LIST_INSERT_HEAD(&w->alarms, a, link);
	delay_us = RTE_MIN(delay_us, (uint64_t)INT64_MAX / WEFT_NS_PER_US);
	weft_timer_arm(&w->v.sched.wheel, &a->timer, w->v.sched.now_ns + delay_us * WEFT_NS_PER_US);
	if (out != NULL)
		*out = a;
	return 0;
}

static void
engine_alarm_end(struct weft_alarm *a)
{
	weft_timer_cancel(&a->w->v.sched.wheel, &a->timer);
	LIST_REMOVE(a, link);
	weft_handle_end(&a->h, WEFT_KIND(ALARM));
	weft_handle_free(&a->h, sizeof(a->h));
}

void
weft_alarm_cancel(struct weft_alarm *a)
{
	if (WEFT_HANDLE_BAD(a, ALARM))
		return;
	if (weft_vworker_is_others(&a->w->v)) {
		(void)weft_wrong_thread(__func__);
		return;
	}
	engine_alarm_end(a);
}

/* ---- Teardown ---- */

/** Send what the connections leave behind, RSTs among it. The port is closed next, and what waits
 * for room in it or in the kernel below it would be dropped. */
static void
worker_send_rest(struct weft_worker *w)
{
	for (unsigned int look = 0; look < REST_LOOKS; look++) {
		const uint64_t now_ns = weft_engine_clock_ns();
		bool waits = false;

		for (unsigned int i = 0; i < w->cm.nnif; i++) {
			weft_netif_flush(w->cm.nif[i], now_ns);
			waits |= weft_netif_tx_waits(w->cm.nif[i]);
		}
		if (!waits)
			return;
		usleep(REST_LOOK_US);
	}
}

void
weft_engine_worker_drain(struct weft_worker *w)
{
	struct weft_sched *s = &w->v.sched;

	/* First: a connection in TIME-WAIT may wait for room in a port that takes nothing more, and
	 * TCP's task for it is queued until there is some. QPs, streams and requests are gone. */
	weft_tcp_destroy(w->cm.tcp);
	w->cm.tcp = NULL;
	/* Wait for the jobs of drivers. Streams that waited for a job are then freed by a task. */
	for (;;) {
		weft_exec_poll(s->exec);
		weft_sched_run(s, s->now_ns);
		if (weft_exec_pending(s->exec) == 0 && TAILQ_EMPTY(&s->run))
			break;
		usleep(100);
	}
	worker_send_rest(w);
	weft_mem_reader_unregister(w->ctx->v.mem, w->v.id);
}

void
weft_engine_worker_leave(struct weft_worker *w, unsigned int group_index)
{
	for (unsigned int i = 0; i < w->cm.nnif; i++) {
		struct weft_netif *nif = w->cm.nif[i];

		if (nif == NULL || weft_netif_attr(nif)->group_index != group_index)
			continue;
		weft_netif_destroy(nif);
		w->cm.nif[i] = NULL;
	}
}

void
weft_engine_worker_free(struct weft_worker *w)
{
	struct weft_alarm *a;

	weft_engine_worker_forget(w);
	while ((a = LIST_FIRST(&w->alarms)) != NULL)
		engine_alarm_end(a);
	weft_engine_pollers_end(w);
	weft_exec_destroy(w->v.sched.exec);
	close(w->v.work.wake_fd);
	/* weft_worker_poll() checks the owner first: without one it checks the handle. */
	atomic_store_explicit(&w->v.owner, NULL, memory_order_release);
	weft_handle_end(&w->v.h, WEFT_KIND(WORKER));
	weft_handle_free(&w->v.h, offsetof(struct weft_vworker, owner) + sizeof(w->v.owner));
}

/* ---- What a worker gives to its program ---- */

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
