/* SPDX-License-Identifier: BSD-3-Clause */
/** @file NVMe over Fabrics: each worker's part, where hosts connect, and the end. */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "addr.h"
#include "target.h"
#include "target_nvmf.h"
#include "target_round.h"
#include "target_say.h"
#include "ui.h"

#define NVMF_LOOK_NS     (100 * 1000000ULL)
#define NVMF_NS_PER_MS   1000000ULL
#define NVMF_TRTYPE_RDMA 1
#define NVMF_TRTYPE_TCP  3
#define NVMF_IPV4        1
#define NVMF_IPV6        2
#define NVMF_IWARP       5
#define NVMF_MAX_CONNS   65536U

/* ---- The poller ---- */

/** The counters of both transports. Returns how many connections there are. */
static uint32_t
worker_count(const struct target_nvmf_worker *nw, uint64_t now[TARGET_NVMF_SHOWN])
{
	struct weft_nvmf_rdma_stats s;

	weft_nvmf_rdma_query(nw->rdma, &s);
	now[TARGET_NVMF_ACCEPTED] = s.accepted;
	now[TARGET_NVMF_REJECTED] = s.rejected;
	now[TARGET_NVMF_READS] = s.reads;
	now[TARGET_NVMF_READ_BYTES] = s.read_bytes;
	now[TARGET_NVMF_READ_WAITS] = s.read_waits;
	now[TARGET_NVMF_CAPSULE_WAITS] = s.capsule_waits;
	now[TARGET_NVMF_ABORTED] = s.aborted;
	return s.conns + target_nvmf_tcp_count(nw, now);
}

static void
worker_show(struct target_nvmf_worker *nw)
{
	uint64_t now[TARGET_NVMF_SHOWN];
	const uint32_t conns = worker_count(nw, now);

	for (unsigned int i = 0; i < TARGET_NVMF_SHOWN; i++)
		atomic_store_explicit(&nw->shown[i], now[i], memory_order_relaxed);
	/* A release: the thread that reads 0 finds nothing under way. */
	atomic_store_explicit(&nw->busy, conns + weft_nvmf_group_queues(nw->group),
	                      memory_order_release);
}

/** Whether a counter has changed since it was shown. */
static bool
worker_is_behind(const struct target_nvmf_worker *nw)
{
	uint64_t now[TARGET_NVMF_SHOWN];

	(void)worker_count(nw, now);
	for (unsigned int i = 0; i < TARGET_NVMF_SHOWN; i++)
		if (atomic_load_explicit(&nw->shown[i], memory_order_relaxed) != now[i])
			return true;
	return false;
}

static unsigned int
worker_poll(void *arg, uint64_t now_ns)
{
	struct target_nvmf_worker *nw = arg;
	unsigned int done;

	done = weft_nvmf_group_poll(nw->group, now_ns);
	weft_nvmf_rdma_poll(nw->rdma, now_ns);
	weft_nvmf_tcp_poll(nw->tcp, now_ns);
	if (now_ns >= nw->look_ns ||
	    atomic_load_explicit(&nw->n->t->stopping, memory_order_relaxed)) {
		nw->look_ns = now_ns + NVMF_LOOK_NS;
		worker_show(nw);
	}
	return done;
}

static uint64_t
worker_next_ns(void *arg)
{
	struct target_nvmf_worker *nw = arg;
	uint64_t next = weft_nvmf_group_next_ns(nw->group);
	const uint64_t rdma = weft_nvmf_rdma_next_ns(nw->rdma);
	const uint64_t tcp = weft_nvmf_tcp_next_ns(nw->tcp);
	eventfd_t v;

	/* The worker is about to sleep: what has been told by now is seen here. */
	if (eventfd_read(nw->wake_fd, &v) == 0)
		return 0;
	next = rdma < next ? rdma : next;
	next = tcp < next ? tcp : next;
	/* A worker that sleeps for long has shown what it has counted. */
	return nw->look_ns < next && worker_is_behind(nw) ? nw->look_ns : next;
}

/** Any thread. */
static void
worker_wake(struct weft_nvmf_group *g)
{
	const struct target_nvmf_worker *nw = weft_nvmf_group_owner(g);

	(void)eventfd_write(nw->wake_fd, 1);
}

/* ---- Set-up ---- */

static int
worker_up(struct target_nvmf *n, uint32_t i)
{
	const struct conf_nvmf *c = &n->t->conf.nvmf;
	struct target_nvmf_worker *nw = &n->workers[i];
	struct weft_nvmf_group_attr ga = {.wake = worker_wake,
	                                  .ended = target_nvmf_ended,
	                                  .clock = target_nvmf_clock,
	                                  .auth_failed = target_nvmf_auth_failed,
	                                  .unproven = target_nvmf_unproven,
	                                  .owner = nw};
	struct weft_nvmf_rdma_attr ra = {
	        .ctx = n->t->stack.ctx,
	        .worker = n->t->stack.workers[i],
	        .depth = c->queue_depth,
	        .max_conns = c->max_queues < NVMF_MAX_CONNS ? c->max_queues : NVMF_MAX_CONNS,
	        .keepalive_us = n->t->conf.target.keepalive_ms * 1000,
	};
	int rc;

	nw->n = n;
	nw->tw = &n->t->workers[i];
	nw->w = ra.worker;
	nw->bytes = n->bytes / n->t->stack.nworkers / 4096 * 4096;
	nw->memory = n->memory + i * nw->bytes;
	ga.memory = ra.memory = nw->memory;
	ga.bytes = ra.bytes = nw->bytes;
	nw->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (nw->wake_fd < 0)
		return -errno;
	rc = weft_nvmf_group_open(n->nvmf, &ga, &nw->group);
	ra.group = nw->group;
	if (rc == 0)
		rc = weft_nvmf_rdma_open(&ra, &nw->rdma);
	if (rc == 0)
		rc = target_nvmf_tcp_up(nw);
	nw->poller = (struct weft_poller){
	        .poll = worker_poll, .next_ns = worker_next_ns, .fd = nw->wake_fd, .arg = nw};
	return rc != 0 ? rc : weft_poller_add(nw->w, &nw->poller);
}

/** Of weft_nvmf_attr. At most 256 octets, which come as a whole. */
static int
nvmf_random(void *to, size_t bytes)
{
	return getrandom(to, bytes, 0) == (ssize_t)bytes ? 0 : -EIO;
}

static int
nvmf_make(struct target_nvmf *n)
{
	const struct conf_nvmf *c = &n->t->conf.nvmf;
	struct weft_nvmf_attr a = {.max_ctrls = c->max_controllers,
	                           .max_queues = c->max_queues,
	                           .max_io_queues = c->io_queues,
	                           .depth = c->queue_depth,
	                           .mdts_bytes = (uint32_t)c->max_transfer_bytes,
	                           .random = nvmf_random};
	void *at;
	int rc;

	/* FR of Identify has room for eight octets. */
	snprintf(a.firmware, sizeof(a.firmware), "%.8s", WEFT_VERSION);
	n->bytes = c->staging_bytes;
	at = target_staging_make(n->bytes);
	if (at == NULL)
		return -ENOMEM;
	n->memory = at;
	rc = target_nvmf_resv_up(n, &a.resv);
	if (rc == 0)
		rc = weft_nvmf_create(&a, &n->nvmf);
	if (rc == 0)
		rc = target_nvmf_tcp_keys(n);
	for (uint32_t i = 0; i < n->t->stack.nworkers && rc == 0; i++)
		rc = worker_up(n, i);
	return rc;
}

int
target_nvmf_up(struct target *t, char *err, size_t err_size)
{
	struct target_nvmf *n;
	int rc;

	if (t->conf.nsubsys == 0)
		return 0;
	n = calloc(1, sizeof(*n));
	if (n == NULL) {
		snprintf(err, err_size, "[nvmf]: out of memory");
		return -ENOMEM;
	}
	n->t = t;
	pthread_mutex_init(&n->lock, NULL);
	pthread_mutex_init(&n->resv_lock, NULL);
	for (uint32_t i = 0; i < CONF_WORKERS_MAX; i++)
		n->workers[i].wake_fd = -1;
	t->nvmf = n;
	rc = nvmf_make(n);
	if (rc != 0)
		snprintf(err, err_size,
		         "[nvmf]: its memory (staging) or its state cannot be had: "
		         "%s",
		         strerror(-rc));
	return rc != 0 ? rc : target_nvmf_subsystems(t, err, err_size);
}

/* ---- Connections ---- */

/** On the worker of the connection. */
static void
on_event(void *user, const struct weft_event *ev)
{
	struct target_nvmf *n = user;
	struct target_nvmf_worker *nw;
	int rc;

	if (ev->type != WEFT_EV_CONNECT_REQUEST)
		return;
	nw = target_nvmf_at(n, weft_connreq_worker(ev->connreq));
	if (nw == NULL || !target_nvmf_admits(n, &ev->remote)) {
		weft_reject(ev->connreq, NULL, 0);
		return;
	}
	rc = weft_nvmf_rdma_request(nw->rdma, ev);
	if (rc != 0)
		target_nvmf_refused(&ev->remote, rc);
}

/** Whether hosts connect to this address of ours. */
static bool
nvmf_listens(const struct target *t, const struct sockaddr_storage *addr)
{
	const struct conf_nvmf *c = &t->conf.nvmf;

	return c->nlisten_on > 0 ? conf_has_addr(c->listen_on, c->nlisten_on, addr)
	                         : target_listens(t, addr);
}

/** Discovery names an address of port i, and the TCP port there of a transport. */
static void
nvmf_address(struct target_nvmf *n, uint32_t i, const struct sockaddr_storage *a, uint8_t trtype,
             uint32_t tcp_port)
{
	struct weft_nvmf_listener l = {.trtype = trtype,
	                               .adrfam = a->ss_family == AF_INET6 ? NVMF_IPV6 : NVMF_IPV4,
	                               .rdma_prtype = NVMF_IWARP,
	                               .portid = (uint16_t)(i + 1)};
	char host[ADDR_STR_MAX];

	if (tcp_port == 0)
		return;
	if (trtype == NVMF_TRTYPE_TCP)
		l.tls = (uint8_t)n->t->conf.nvmf.tls;
	snprintf(l.traddr, sizeof(l.traddr), "%s", addr_host_str(a, host));
	snprintf(l.trsvcid, sizeof(l.trsvcid), "%u", tcp_port);
	if (n->naddrs < 2 * CONF_LISTEN_MAX && weft_nvmf_listener_add(n->nvmf, &l) == 0)
		n->addrs[n->naddrs++] = l;
	else
		ui_msg(UI_WARNING
		       "[nvmf]: discovery does not name %s: there are too many addresses",
		       l.traddr);
}

/** Discovery names each address, by both transports. */
static void
nvmf_addresses(struct target_nvmf *n)
{
	const struct target *t = n->t;
	const struct conf_nvmf *c = &t->conf.nvmf;

	for (uint32_t i = 0; i < t->conf.nports; i++)
		for (uint32_t k = 0; k < t->conf.ports[i].nnets; k++) {
			const struct sockaddr_storage *a = &t->conf.ports[i].nets[k].addr;

			if (!nvmf_listens(t, a))
				continue;
			nvmf_address(n, i, a, NVMF_TRTYPE_RDMA, c->listen_port);
			nvmf_address(n, i, a, NVMF_TRTYPE_TCP, c->tcp_listen_port);
		}
}

/** Accept hosts at an address, by both transports. */
static int
nvmf_listen_at(struct target_nvmf *n, const struct conf_listen *at, struct weft_listen_attr *la,
               uint32_t *tcp_port)
{
	struct target *t = n->t;
	int rc;

	*tcp_port = t->conf.nvmf.listen_port;
	rc = target_listen_at(t, at, *tcp_port, la, &n->listeners[n->nlisteners]);
	n->nlisteners += rc == 0;
	if (rc != 0 || t->conf.nvmf.tcp_listen_port == 0)
		return rc;
	*tcp_port = t->conf.nvmf.tcp_listen_port;
	return target_nvmf_tcp_listen(n, at);
}

int
target_nvmf_listen(struct target *t, char *err, size_t err_size)
{
	struct target_nvmf *n = t->nvmf;
	const struct conf_listen any = {.addr.ss_family = AF_INET};
	const struct conf_listen *list = t->conf.nvmf.nlisten_on > 0     ? t->conf.nvmf.listen_on
	                                 : t->conf.target.nlisten_on > 0 ? t->conf.target.listen_on
	                                                                 : &any;
	uint32_t count =
	        t->conf.nvmf.nlisten_on > 0 ? t->conf.nvmf.nlisten_on : t->conf.target.nlisten_on;
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = on_event, .user = n};
	struct weft_listen_attr la = {
	        .size = sizeof(la),
	        .keepalive_us = t->conf.target.keepalive_ms * 1000,
	        .max_conns_per_peer = t->conf.target.max_conns_per_peer,
	        .max_conns = target_nvmf_conns(&t->conf.nvmf),
	        .max_requests_per_peer = t->conf.target.max_requests_per_peer,
	        .push_out = true,
	};
	char text[ADDR_STR_MAX];
	uint32_t tcp_port;
	int rc;

	if (n == NULL)
		return 0;
	count = count > 0 ? count : 1;
	rc = weft_evq_create(t->stack.ctx, &ea, &n->evq);
	la.evq = n->evq;
	for (uint32_t i = 0; i < count && rc == 0; i++) {
		rc = nvmf_listen_at(n, &list[i], &la, &tcp_port);
		if (rc != 0)
			snprintf(err, err_size, "cannot listen on %s%sport %u for hosts: %s",
			         list == &any
			                 ? ""
			                 : conf_net_str(&list[i].addr, list[i].prefix_len, text),
			         list == &any ? "" : ", ", tcp_port, strerror(-rc));
	}
	if (rc == 0)
		nvmf_addresses(n);
	return rc;
}

/* ---- The end ---- */

static void
worker_stop(void *arg)
{
	const struct target_nvmf_worker *nw = arg;

	weft_nvmf_group_stop(nw->group, nw->n->grace_ms * NVMF_NS_PER_MS);
}

static void
worker_abort(void *arg)
{
	const struct target_nvmf_worker *nw = arg;

	weft_nvmf_rdma_abort(nw->rdma);
	weft_nvmf_tcp_abort(nw->tcp);
}

static bool
nvmf_wait(struct target_nvmf *n, unsigned int timeout_ms)
{
	for (unsigned int ms = 0;; ms++) {
		unsigned int busy = 0;

		for (uint32_t i = 0; i < n->t->stack.nworkers; i++)
			busy += atomic_load_explicit(&n->workers[i].busy, memory_order_acquire);
		if (busy == 0 || ms >= timeout_ms)
			return busy == 0;
		usleep(1000);
	}
}

void
target_nvmf_hang_up(struct target *t, unsigned int timeout_ms)
{
	struct target_nvmf *n = t->nvmf;

	if (n == NULL)
		return;
	atomic_store_explicit(&t->stopping, true, memory_order_relaxed); /* for the calls below */
	n->grace_ms = timeout_ms / 2;
	for (uint32_t i = 0; i < n->nlisteners; i++)
		weft_unlisten(n->listeners[i]);
	n->nlisteners = 0;
	for (uint32_t i = 0; i < n->nstreams; i++)
		weft_stream_unlisten(n->streams[i]);
	n->nstreams = 0;
	while (n->naddrs > 0)
		(void)weft_nvmf_listener_remove(n->nvmf, &n->addrs[--n->naddrs]);
	for (uint32_t i = 0; i < t->stack.nworkers; i++) {
		/* until the worker has seen it */
		atomic_fetch_add_explicit(&n->workers[i].busy, 1, memory_order_relaxed);
		(void)weft_worker_call(n->workers[i].w, worker_stop, &n->workers[i]);
	}
	if (nvmf_wait(n, timeout_ms))
		return;
	for (uint32_t i = 0; i < t->stack.nworkers; i++)
		(void)weft_worker_call(n->workers[i].w, worker_abort, &n->workers[i]);
	(void)nvmf_wait(n, timeout_ms);
}

/** False: something of it is in use still. */
static bool
worker_down(struct target_nvmf_worker *nw)
{
	weft_poller_remove(&nw->poller);
	if (weft_nvmf_rdma_close(nw->rdma) != 0 || weft_nvmf_tcp_close(nw->tcp) != 0 ||
	    weft_nvmf_group_close(nw->group) != 0)
		return false;
	if (nw->wake_fd >= 0)
		close(nw->wake_fd);
	return true;
}

void
target_nvmf_down(struct target *t)
{
	struct target_nvmf *n = t->nvmf;
	bool ok = true;

	if (n == NULL)
		return;
	for (uint32_t i = 0; i < target_nexports(t); i++)
		ok = target_nvmf_leave(t, &t->exports[i]) && ok;
	for (uint32_t i = 0; i < t->stack.nworkers; i++)
		ok = worker_down(&n->workers[i]) && ok;
	t->nvmf = NULL;
	target_nvmf_resv_down(n);
	/* The medium may still write to the memory. */
	if (!ok) {
		ui_msg(UI_WARNING "commands of NVMe hosts are under way still: they are given up "
		                  "on");
		return;
	}
	if (n->evq != NULL)
		(void)weft_evq_destroy(n->evq);
	(void)weft_nvmf_destroy(n->nvmf);
	weft_nvmf_tls_destroy(n->tls);
	target_staging_free(n->memory, n->bytes);
	pthread_mutex_destroy(&n->resv_lock);
	pthread_mutex_destroy(&n->lock);
	free(n);
}
