/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Faults on the console's ports; see inject.h. */

#include "inject.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_ethdev.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>

#include "console.h"
#include "traffic.h"
#include "ui.h"

#define INJECT_HELD  2048u /**< packets held of a queue; a power of two */
#define INJECT_BURST 256u

/** Packets that wait, in order. */
struct held {
	struct rte_mbuf *m[INJECT_HELD];
	uint64_t due_ns[INJECT_HELD];
	uint32_t head, n;
};

/** One receive queue. Its worker owns all but the counters and the callback's handle. */
struct queue {
	const struct rte_eth_rxtx_callback *callback;
	struct inject_want want;
	struct weft_worker *worker;
	struct weft_alarm *alarm;
	uint64_t random;
	uint64_t seen[INJECT_FAULTS];
	struct held late;  /**< delayed: all by the same time */
	struct held ready; /**< those that a burst had no place for */
	_Atomic uint64_t packets, done[INJECT_FAULTS], held, undone;
};

static struct port {
	char dev[RTE_ETH_NAME_MAX_LEN];
	bool on;
	uint16_t id;
	uint16_t nqueues;
	struct inject_want want;
	struct queue *queue; /**< nqueues of them */
} ports[CONF_PORTS_MAX];

static void
add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
	                      memory_order_relaxed);
}

/** SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t
draw(struct queue *q)
{
	uint64_t z = q->random += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static bool
happens(struct queue *q, enum inject_fault f)
{
	const struct inject_often *o = &q->want.often[f];

	if (o->every > 0)
		return ++q->seen[f] % o->every == 0;
	return o->probability > 0 && (double)(draw(q) >> 11) * 0x1p-53 < o->probability;
}

static bool
hold(struct held *h, struct rte_mbuf *m, uint64_t due_ns)
{
	const uint32_t at = (h->head + h->n) % INJECT_HELD;

	if (h->n == INJECT_HELD)
		return false;
	h->m[at] = m;
	h->due_ns[at] = due_ns;
	h->n++;
	return true;
}

/** Deliver those that are due. Returns how many the burst has then. */
static uint16_t
release(struct held *h, uint64_t now_ns, struct rte_mbuf **out, uint16_t n, uint16_t max)
{
	while (h->n > 0 && n < max && h->due_ns[h->head] <= now_ns) {
		out[n++] = h->m[h->head];
		h->head = (h->head + 1) % INJECT_HELD;
		h->n--;
	}
	return n;
}

/** Where the IP packet begins; 0: there is none. */
static uint32_t
ip_at(const struct rte_mbuf *m)
{
	uint8_t buf[2];
	uint32_t at = RTE_ETHER_HDR_LEN;
	const uint8_t *p = rte_pktmbuf_read(m, at - 2, 2, buf);

	if (p != NULL && p[0] == 0x81 && p[1] == 0) {
		at += RTE_VLAN_HLEN;
		p = rte_pktmbuf_read(m, at - 2, 2, buf);
	}
	return p != NULL && ((p[0] == 0x08 && p[1] == 0) || (p[0] == 0x86 && p[1] == 0xdd)) ? at
	                                                                                    : 0;
}

/**
 * A copy with one bit of the IP packet changed, in its place. What the port said of the checksums
 * does not hold for it. ARP has no checksum, so it stays as it is.
 */
static struct rte_mbuf *
corrupt(struct queue *q, struct rte_mbuf *m)
{
	const uint32_t at = ip_at(m);
	struct rte_mbuf *copy, *seg;
	uint32_t off;

	if (at == 0 || m->pkt_len <= at)
		return m;
	copy = rte_pktmbuf_copy(m, m->pool, 0, UINT32_MAX);
	if (copy == NULL) {
		add(&q->undone, 1);
		return m;
	}
	copy->ol_flags &= ~(RTE_MBUF_F_RX_IP_CKSUM_MASK | RTE_MBUF_F_RX_L4_CKSUM_MASK);
	off = at + (uint32_t)(draw(q) % (m->pkt_len - at));
	for (seg = copy; off >= seg->data_len; seg = seg->next)
		off -= seg->data_len;
	*rte_pktmbuf_mtod_offset(seg, uint8_t *, off) ^= (uint8_t)(1u << draw(q) % 8);
	add(&q->done[INJECT_CORRUPT], 1);
	rte_pktmbuf_free(m);
	return copy;
}

/** Into the burst, or the next one. */
static uint16_t
deliver(struct queue *q, struct rte_mbuf *m, struct rte_mbuf **out, uint16_t n, uint16_t max)
{
	if (n < max) {
		out[n++] = m;
	} else if (!hold(&q->ready, m, 0)) {
		add(&q->undone, 1);
		rte_pktmbuf_free(m);
	}
	return n;
}

static uint16_t
take(struct queue *q, struct rte_mbuf *m, uint64_t now_ns, struct rte_mbuf **out, uint16_t n,
     uint16_t max)
{
	struct rte_mbuf *twin = NULL;

	if (happens(q, INJECT_DROP)) {
		add(&q->done[INJECT_DROP], 1);
		rte_pktmbuf_free(m);
		return n;
	}
	if (happens(q, INJECT_CORRUPT))
		m = corrupt(q, m);
	if (happens(q, INJECT_DUPLICATE)) {
		twin = rte_pktmbuf_copy(m, m->pool, 0, UINT32_MAX);
		add(twin != NULL ? &q->done[INJECT_DUPLICATE] : &q->undone, 1);
	}
	if (happens(q, INJECT_DELAY) && hold(&q->late, m, now_ns + q->want.delay_us * 1000))
		add(&q->done[INJECT_DELAY], 1);
	else
		n = deliver(q, m, out, n, max);
	return twin != NULL ? deliver(q, twin, out, n, max) : n;
}

static void
on_alarm(void *arg)
{
	/* The poll that runs this receives, too. */
	((struct queue *)arg)->alarm = NULL;
}

/** A worker that sleeps must wake up for a packet that is held. */
static void
wake_up(struct queue *q, uint64_t now_ns)
{
	const uint64_t due = q->late.n > 0 ? q->late.due_ns[q->late.head] : now_ns;

	for (uint32_t i = 0; q->worker == NULL && i < con.stack.nworkers; i++)
		if (weft_worker_is_mine(con.stack.workers[i]))
			q->worker = con.stack.workers[i];
	if (q->worker != NULL && q->alarm == NULL)
		(void)weft_alarm_set(q->worker, due > now_ns ? (due - now_ns) / 1000 : 0, on_alarm,
		                     q, &q->alarm);
}

static uint16_t
on_rx(uint16_t port, uint16_t queue, struct rte_mbuf **pkts, uint16_t n, uint16_t max, void *arg)
{
	struct queue *q = arg;
	struct rte_mbuf *in[INJECT_BURST];
	const uint64_t now_ns = ui_now_ns();
	uint16_t out = 0;

	(void)port;
	(void)queue;
	if (n > INJECT_BURST) {
		add(&q->undone, n);
		return n;
	}
	memcpy(in, pkts, n * sizeof(in[0]));
	out = release(&q->ready, now_ns, pkts, out, max);
	out = release(&q->late, now_ns, pkts, out, max);
	for (uint16_t i = 0; i < n; i++)
		out = take(q, in[i], now_ns, pkts, out, max);
	add(&q->packets, n);
	atomic_store_explicit(&q->held, q->late.n + q->ready.n, memory_order_relaxed);
	if (q->late.n + q->ready.n > 0)
		wake_up(q, now_ns);
	return out;
}

/* ---- The main thread ---- */

void
inject_init(const struct conf *c)
{
	for (unsigned int i = 0; i < c->nports; i++) {
		snprintf(ports[i].dev, sizeof(ports[i].dev), "%.*s",
		         (int)strcspn(c->ports[i].dev, ","), c->ports[i].dev);
	}
}

const char *
inject_fault_str(enum inject_fault f)
{
	static const char *const names[] = {"drop", "delay", "duplicate", "corrupt"};

	return names[f];
}

static int
inject_open(struct port *p, const struct inject_want *want)
{
	struct rte_eth_dev_info info;

	if (rte_eth_dev_get_port_by_name(p->dev, &p->id) != 0 ||
	    rte_eth_dev_info_get(p->id, &info) != 0)
		return -ENODEV;
	p->nqueues = info.nb_rx_queues;
	p->queue = calloc(p->nqueues, sizeof(*p->queue));
	if (p->queue == NULL)
		return -ENOMEM;
	p->want = *want;
	p->on = true;
	for (uint16_t i = 0; i < p->nqueues; i++) {
		p->queue[i].want = *want;
		p->queue[i].random = want->seed + i;
		p->queue[i].callback = rte_eth_add_rx_callback(p->id, i, on_rx, &p->queue[i]);
		if (p->queue[i].callback == NULL)
			return -rte_errno;
	}
	return 0;
}

int
inject_start(unsigned int i, const struct inject_want *want)
{
	int rc;

	inject_stop(i);
	rc = inject_open(&ports[i], want);
	if (rc != 0)
		inject_stop(i);
	return rc;
}

static void
lose(struct held *h)
{
	for (; h->n > 0; h->n--) {
		rte_pktmbuf_free(h->m[h->head]);
		h->head = (h->head + 1) % INJECT_HELD;
	}
}

/** On the worker: no alarm comes after this. */
static void
cancel(void *arg)
{
	struct queue *q = arg;

	if (q->alarm != NULL)
		weft_alarm_cancel(q->alarm);
	q->alarm = NULL;
}

/** Wait until each worker has ended what it runs now, and the calls before. False: one has not. */
static bool
settle(void)
{
	bool settled = true;

	for (uint32_t w = 0; settled && w < con.stack.nworkers; w++)
		settled = traffic_settle(con.stack.workers[w]);
	return settled;
}

/** Have each alarm cancelled by its worker. False: one may still come. */
static bool
no_alarms(struct port *p)
{
	for (uint16_t k = 0; k < p->nqueues; k++)
		if (p->queue[k].alarm != NULL)
			traffic_call(p->queue[k].worker, cancel, &p->queue[k]);
	return settle();
}

int
inject_stop(unsigned int i)
{
	struct port *p = &ports[i];
	bool settled;

	if (!p->on)
		return -ENOENT;
	for (uint16_t k = 0; k < p->nqueues; k++)
		if (p->queue[k].callback != NULL)
			rte_eth_remove_rx_callback(p->id, k, p->queue[k].callback);
	/* A burst that runs now ends first, and what it has stored is seen. */
	settled = settle() && no_alarms(p);
	for (uint16_t k = 0; settled && k < p->nqueues; k++) {
		lose(&p->queue[k].late);
		lose(&p->queue[k].ready);
		rte_free((void *)(uintptr_t)p->queue[k].callback);
	}
	/* Else a burst, or an alarm, may still write there. */
	if (settled)
		free(p->queue);
	p->queue = NULL;
	p->on = false;
	return settled ? 0 : -ETIMEDOUT;
}

bool
inject_get(unsigned int i, struct inject_figures *f)
{
	if (!ports[i].on)
		return false;
	memset(f, 0, sizeof(*f));
	f->want = ports[i].want;
	for (uint16_t k = 0; k < ports[i].nqueues; k++) {
		struct queue *q = &ports[i].queue[k];

		f->packets += atomic_load_explicit(&q->packets, memory_order_relaxed);
		f->held += atomic_load_explicit(&q->held, memory_order_relaxed);
		f->undone += atomic_load_explicit(&q->undone, memory_order_relaxed);
		for (unsigned int n = 0; n < INJECT_FAULTS; n++)
			f->done[n] += atomic_load_explicit(&q->done[n], memory_order_relaxed);
	}
	return true;
}
