/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Frames between the device, the processes and the daemon's own stack. */

#include "portd_forward.h"

#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>

#include "netif_guard.h"

/* An idle daemon sleeps for a sixteenth of the time that nothing came, as an idle worker does
 * (docs/internals/polling.md): net_memif has no interrupt that could wake it. */
#define FORWARD_SLEEP_PART   16U
#define FORWARD_SLEEP_MIN_NS 20000ULL
#define FORWARD_SLEEP_MAX_NS 8000000ULL
#define FORWARD_FULL_NS      20000ULL /* until the device is asked for room again */
#define FORWARD_ASK_NS       1000000L

struct ring {
	bool on;
	uint16_t port_id;
	unsigned int nto, nwait;
	struct rte_mbuf *to[PORTD_BURST];   /**< for the process, until the burst is complete */
	struct rte_mbuf *wait[PORTD_BURST]; /**< of the process, until the device has room */
	struct portd_counts counts;
};

struct portd_forward {
	struct portd_switch sw;
	struct weft_worker *worker;
	struct weft_port *port;
	uint16_t port_id;
	struct rte_mempool *pool;
	const struct rte_eth_rxtx_callback *callback;
	struct weft_poller poller;
	unsigned int first; /**< whose turn it is to be first */
	unsigned int done;  /**< frames taken out of bursts since the last poll */
	uint64_t busy_ns;   /**< when a frame was moved last */
	_Atomic uint64_t taken;
	struct portd_counts past; /**< of processes that are gone */
	struct ring ring[PORTD_PROCS];
};

const char *const portd_why_names[PORTD_WHYS] = {
        [PORTD_WHY_LENGTH] = "length", [PORTD_WHY_MAC] = "mac",   [PORTD_WHY_VLAN] = "vlan",
        [PORTD_WHY_ADDR] = "addr",     [PORTD_WHY_PORT] = "port", [PORTD_WHY_NEIGH] = "neighbour",
        [PORTD_WHY_OTHER] = "other",
};

/** One thread counts. */
static void
count(_Atomic uint64_t *c, uint64_t n)
{
	atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n,
	                      memory_order_relaxed);
}

#define COUNTS (sizeof(struct portd_counts) / sizeof(_Atomic uint64_t))

/** Add all counters of one to another's. */
static void
counts_add(struct portd_counts *to, const struct portd_counts *from)
{
	_Atomic uint64_t *t = (void *)to;
	const _Atomic uint64_t *c = (const void *)from;

	for (size_t i = 0; i < COUNTS; i++)
		count(&t[i], atomic_load_explicit(&c[i], memory_order_relaxed));
}

/* ---- Bursts ---- */

/*
 * EAL's interrupt thread unmaps a net_memif's rings when its process ends, also during a burst
 * (lib/netif/netif_guard.c). What a burst that faulted had taken from the pool, or had not freed,
 * is lost: PORTD_BURST buffers at most. The device may be a net_memif, too.
 */

static uint16_t
burst_rx(void *arg, struct rte_mbuf **pkts, uint16_t n)
{
	return rte_eth_rx_burst(*(const uint16_t *)arg, 0, pkts, n);
}

static uint16_t
burst_tx(void *arg, struct rte_mbuf **pkts, uint16_t n)
{
	return rte_eth_tx_burst(*(const uint16_t *)arg, 0, pkts, n);
}

static uint16_t
ring_rx(struct ring *r, struct rte_mbuf **pkts, uint16_t n)
{
	uint64_t faults = 0;

	n = netif_guard_burst(burst_rx, &r->port_id, pkts, n, 0, &faults);
	if (unlikely(faults > 0))
		count(&r->counts.faults, faults);
	return n;
}

/** Frames of the ring's process, or for it, to a device. After a fault all are its own: which ones
 * it has freed is unknown. */
static uint16_t
ring_tx(struct ring *r, uint16_t port_id, struct rte_mbuf **pkts, uint16_t n)
{
	uint64_t faults = 0;

	n = netif_guard_burst(burst_tx, &port_id, pkts, n, n, &faults);
	if (unlikely(faults > 0))
		count(&r->counts.faults, faults);
	return n;
}

/* ---- To a process ---- */

static void
ring_flush(struct ring *r)
{
	uint64_t bytes[PORTD_BURST], sum = 0;
	uint16_t n;

	if (r->nto == 0)
		return;
	for (unsigned int i = 0; i < r->nto; i++)
		bytes[i] = r->to[i]->pkt_len;
	n = ring_tx(r, r->port_id, r->to, (uint16_t)r->nto);
	for (unsigned int i = 0; i < n; i++)
		sum += bytes[i];
	count(&r->counts.in_frames, n);
	count(&r->counts.in_bytes, sum);
	if (n < r->nto) {
		count(&r->counts.in_full, r->nto - n);
		rte_pktmbuf_free_bulk(r->to + n, r->nto - n);
	}
	r->nto = 0;
}

/** The ring has the mbuf. */
static void
ring_give(struct ring *r, struct rte_mbuf *m)
{
	if (r->nto == PORTD_BURST)
		ring_flush(r);
	r->to[r->nto++] = m;
}

static void
forward_flush(struct portd_forward *f)
{
	for (unsigned int i = 0; i < PORTD_PROCS; i++)
		if (f->ring[i].on)
			ring_flush(&f->ring[i]);
}

/** The caller keeps the mbuf: net_memif copies it. */
static void
forward_all(struct portd_forward *f, struct rte_mbuf *m)
{
	for (unsigned int i = 0; i < PORTD_PROCS; i++) {
		if (!f->ring[i].on)
			continue;
		rte_pktmbuf_refcnt_update(m, 1);
		ring_give(&f->ring[i], m);
	}
}

static uint16_t
forward_rx(uint16_t port_id, uint16_t queue, struct rte_mbuf **pkts, uint16_t n, uint16_t max,
           void *arg)
{
	struct portd_forward *f = arg;
	uint16_t kept = 0;

	(void)port_id;
	(void)queue;
	(void)max;
	for (uint16_t i = 0; i < n; i++)
		rte_prefetch0(rte_pktmbuf_mtod(pkts[i], void *));
	for (uint16_t i = 0; i < n; i++) {
		uint32_t proc = PORTD_NO_PROC;
		enum portd_to to = portd_switch_in(&f->sw, pkts[i], &proc);

		if (to == PORTD_TO_PROC && f->ring[proc].on) {
			ring_give(&f->ring[proc], pkts[i]);
			continue;
		}
		if (to == PORTD_TO_ALL)
			forward_all(f, pkts[i]);
		pkts[kept++] = pkts[i];
	}
	if (n > 0)
		forward_flush(f);
	f->done += (unsigned int)(n - kept);
	count(&f->taken, (uint64_t)(n - kept));
	return kept;
}

/* ---- From a process ---- */

/** Gives the device what waits. True: nothing waits any more. */
static bool
ring_drain(struct portd_forward *f, struct ring *r)
{
	uint16_t n;

	if (r->nwait == 0)
		return true;
	n = ring_tx(r, f->port_id, r->wait, (uint16_t)r->nwait);
	memmove(r->wait, r->wait + n, (r->nwait - n) * sizeof(r->wait[0]));
	r->nwait -= n;
	f->done += n;
	return r->nwait == 0;
}

/** Answer a segment in the process' own mbuf, if it fits. */
static void
forward_reset(struct ring *r, struct rte_mbuf *m)
{
	uint8_t frame[PORTD_RESET_BYTES];
	const unsigned int n = portd_switch_reset(m, frame);
	struct rte_mbuf *own = m;

	count(&r->counts.resets, 1);
	/* A segment has the headers of its answer, so it is long enough. */
	if (n == 0 || own->data_len < n || own->nb_segs != 1) {
		rte_pktmbuf_free(m);
		return;
	}
	memcpy(rte_pktmbuf_mtod(own, void *), frame, n);
	(void)rte_pktmbuf_trim(own, (uint16_t)(own->data_len - n));
	ring_give(r, own);
}

static void
forward_out(struct portd_forward *f, uint32_t from, struct rte_mbuf *m)
{
	struct ring *r = &f->ring[from];
	uint32_t proc = PORTD_NO_PROC;
	enum portd_why why = PORTD_WHY_OTHER;

	switch (portd_switch_out(&f->sw, from, m, &proc, &why)) {
	case PORTD_TO_WIRE:
		count(&r->counts.out_bytes, m->pkt_len);
		count(&r->counts.out_frames, 1);
		r->wait[r->nwait++] = m;
		return;
	case PORTD_TO_PROC:
		if (!f->ring[proc].on)
			break;
		count(&r->counts.out_bytes, m->pkt_len);
		count(&r->counts.out_frames, 1);
		count(&r->counts.out_local, 1);
		ring_give(&f->ring[proc], m);
		return;
	case PORTD_TO_RESET:
		forward_reset(r, m);
		return;
	default:
		count(&r->counts.dropped[why], 1);
		break;
	}
	rte_pktmbuf_free(m);
}

static void
forward_from(struct portd_forward *f, uint32_t from)
{
	struct ring *r = &f->ring[from];
	struct rte_mbuf *m[PORTD_BURST];
	uint16_t n;

	if (!ring_drain(f, r)) {
		count(&r->counts.out_waits, 1);
		return;
	}
	n = ring_rx(r, m, PORTD_BURST);
	for (uint16_t i = 0; i < n; i++)
		rte_prefetch0(rte_pktmbuf_mtod(m[i], void *));
	for (uint16_t i = 0; i < n; i++)
		forward_out(f, from, m[i]);
	f->done += n;
	(void)ring_drain(f, r);
}

static unsigned int
forward_poll(void *arg, uint64_t now_ns)
{
	struct portd_forward *f = arg;
	unsigned int done;

	/* The device is gone with its driver's memory: the program ends. */
	if (!weft_port_removed(f->port))
		for (unsigned int i = 0; i < PORTD_PROCS; i++) {
			const unsigned int proc = (f->first + i) % PORTD_PROCS;

			if (f->ring[proc].on)
				forward_from(f, proc);
		}
	forward_flush(f);
	f->first = (f->first + 1) % PORTD_PROCS;
	done = f->done;
	f->done = 0;
	if (done > 0)
		f->busy_ns = now_ns;
	return done;
}

static uint64_t
forward_next_ns(void *arg)
{
	const struct portd_forward *f = arg;
	const uint64_t now_ns = weft_worker_now_ns(f->worker);
	uint64_t wait_ns = (now_ns - f->busy_ns) / FORWARD_SLEEP_PART;
	bool any = false;

	for (unsigned int i = 0; i < PORTD_PROCS; i++) {
		if (f->ring[i].on && f->ring[i].nwait > 0)
			return now_ns + FORWARD_FULL_NS;
		any = any || f->ring[i].on;
	}
	if (!any)
		return UINT64_MAX;
	wait_ns = RTE_MAX(wait_ns, FORWARD_SLEEP_MIN_NS);
	return now_ns + RTE_MIN(wait_ns, FORWARD_SLEEP_MAX_NS);
}

/* ---- Processes come and go ---- */

struct change {
	struct portd_forward *f;
	uint32_t proc;
	uint16_t port_id;
	bool on;
	sem_t done;
};

static void
forward_change(void *arg)
{
	struct change *c = arg;
	struct ring *r = &c->f->ring[c->proc];

	/* Rings of others have no frame of this one: net_memif copies, and a device's frames are of
	 * the daemon's own pool. */
	if (r->on)
		rte_pktmbuf_free_bulk(r->wait, r->nwait);
	r->nwait = r->nto = 0;
	if (c->on) {
		counts_add(&c->f->past, &r->counts);
		memset((void *)&r->counts, 0, sizeof(r->counts));
		c->f->busy_ns = weft_worker_now_ns(c->f->worker);
	}
	r->port_id = c->port_id;
	r->on = c->on;
	sem_post(&c->done);
}

static int
forward_ask(struct portd_forward *f, uint32_t proc, uint16_t port_id, bool on)
{
	struct change c = {.f = f, .proc = proc, .port_id = port_id, .on = on};
	const struct timespec nap = {.tv_nsec = FORWARD_ASK_NS};
	int rc = -EAGAIN;

	sem_init(&c.done, 0, 0);
	/* An end cannot fail: the ring is about to be unmapped. */
	while (rc == -EAGAIN || (rc == -ENOMEM && !on)) {
		rc = weft_worker_call(f->worker, forward_change, &c);
		if (rc == -EAGAIN || rc == -ENOMEM)
			(void)nanosleep(&nap, NULL);
	}
	while (rc == 0 && sem_wait(&c.done) != 0) {
		/* EINTR */
	}
	sem_destroy(&c.done);
	return rc;
}

int
portd_forward_add(struct portd_forward *f, uint32_t proc, uint16_t port_id)
{
	return forward_ask(f, proc, port_id, true);
}

int
portd_forward_remove(struct portd_forward *f, uint32_t proc)
{
	return forward_ask(f, proc, 0, false);
}

int
portd_forward_create(const struct portd_forward_attr *attr, struct portd_forward **out)
{
	struct portd_forward *f = calloc(1, sizeof(*f));
	int rc;

	if (f == NULL)
		return -ENOMEM;
	f->sw = *attr->sw;
	f->worker = attr->worker;
	f->port = attr->port;
	f->port_id = attr->port_id;
	f->pool = attr->pool;
	f->poller = (struct weft_poller){
	        .poll = forward_poll, .next_ns = forward_next_ns, .fd = -1, .arg = f};
	netif_guard_install();
	rc = weft_poller_add(f->worker, &f->poller);
	if (rc == 0) {
		f->callback = rte_eth_add_rx_callback(f->port_id, 0, forward_rx, f);
		if (f->callback == NULL) {
			rc = -rte_errno;
			weft_poller_remove(&f->poller);
		}
	}
	if (rc != 0) {
		free(f);
		return rc;
	}
	*out = f;
	return 0;
}

void
portd_forward_destroy(struct portd_forward *f)
{
	if (f == NULL)
		return;
	weft_poller_remove(&f->poller);
	(void)rte_eth_remove_rx_callback(f->port_id, 0, f->callback);
	rte_free((void *)(uintptr_t)f->callback);
	for (unsigned int i = 0; i < PORTD_PROCS; i++)
		rte_pktmbuf_free_bulk(f->ring[i].wait, f->ring[i].nwait);
	free(f);
}

const struct portd_counts *
portd_forward_counts(const struct portd_forward *f, uint32_t proc)
{
	return &f->ring[proc].counts;
}

void
portd_forward_sum(const struct portd_forward *f, struct portd_counts *sum)
{
	memset((void *)sum, 0, sizeof(*sum));
	counts_add(sum, &f->past);
	for (unsigned int i = 0; i < PORTD_PROCS; i++)
		counts_add(sum, &f->ring[i].counts);
}

uint64_t
portd_forward_taken(const struct portd_forward *f)
{
	return atomic_load_explicit(&f->taken, memory_order_relaxed);
}
