/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Faults on the console's ports: start, stop, figures; see inject.h. */

#include "inject.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_ethdev.h>

#include "console.h"
#include "inject_way.h"
#include "traffic.h"

/** The faults of a port one way. */
struct faults {
	bool on;
	uint16_t port_id;
	uint16_t nqueues;
	struct inject_want want;
	struct inject_queue *queue; /**< nqueues of them */
};

static struct port {
	char dev[RTE_ETH_NAME_MAX_LEN];
	struct faults way[INJECT_WAYS];
} ports[CONF_PORTS_MAX];

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

const char *
inject_way_str(enum inject_way w)
{
	return w == INJECT_TX ? "tx" : "rx";
}

static int
faults_open(const char *dev, enum inject_way way, struct faults *f, const struct inject_want *want)
{
	struct rte_eth_dev_info info;

	if (rte_eth_dev_get_port_by_name(dev, &f->port_id) != 0 ||
	    rte_eth_dev_info_get(f->port_id, &info) != 0)
		return -ENODEV;
	f->nqueues = way == INJECT_TX ? info.nb_tx_queues : info.nb_rx_queues;
	f->queue = calloc(f->nqueues, sizeof(*f->queue));
	if (f->queue == NULL)
		return -ENOMEM;
	f->want = *want;
	f->on = true;
	for (uint16_t i = 0; i < f->nqueues; i++) {
		f->queue[i].want = *want;
		f->queue[i].way = way;
		f->queue[i].random = want->seed + i;
	}
	return way == INJECT_TX ? inject_tx_on(f->port_id, f->queue, f->nqueues)
	                        : inject_rx_on(f->port_id, f->queue, f->nqueues);
}

int
inject_start(unsigned int i, enum inject_way way, const struct inject_want *want)
{
	int rc;

	inject_stop(i, way);
	rc = faults_open(ports[i].dev, way, &ports[i].way[way], want);
	if (rc != 0)
		inject_stop(i, way);
	return rc;
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

static void
end_on_worker(void *arg)
{
	inject_queue_end(arg);
}

/** Have what each queue holds freed by its worker: no alarm comes after that. False: one may. */
static bool
ended(struct faults *f)
{
	for (uint16_t k = 0; k < f->nqueues; k++)
		if (f->queue[k].worker != NULL)
			traffic_call(f->queue[k].worker, end_on_worker, &f->queue[k]);
		else
			inject_queue_end(&f->queue[k]);
	return settle();
}

int
inject_stop(unsigned int i, enum inject_way way)
{
	struct faults *f = &ports[i].way[way];
	bool settled;

	if (!f->on)
		return -ENOENT;
	if (way == INJECT_TX)
		inject_tx_off(f->port_id);
	else if (f->queue != NULL)
		inject_rx_off(f->port_id, f->queue, f->nqueues);
	/* A burst that runs now ends first, and what it has stored is seen. */
	settled = settle() && ended(f);
	/* Else a burst, or an alarm, may still write there. */
	if (settled) {
		if (way == INJECT_TX)
			inject_tx_free(f->port_id);
		else
			inject_rx_free(f->queue, f->nqueues);
		free(f->queue);
	}
	memset(f, 0, sizeof(*f));
	return settled ? 0 : -ETIMEDOUT;
}

bool
inject_get(unsigned int i, enum inject_way way, struct inject_figures *out)
{
	const struct faults *f = &ports[i].way[way];

	if (!f->on)
		return false;
	memset(out, 0, sizeof(*out));
	out->want = f->want;
	for (uint16_t k = 0; k < f->nqueues; k++) {
		struct inject_queue *q = &f->queue[k];

		out->packets += atomic_load_explicit(&q->packets, memory_order_relaxed);
		out->held += atomic_load_explicit(&q->held, memory_order_relaxed);
		out->undone += atomic_load_explicit(&q->undone, memory_order_relaxed);
		for (unsigned int n = 0; n < INJECT_FAULTS; n++)
			out->done[n] += atomic_load_explicit(&q->done[n], memory_order_relaxed);
	}
	return true;
}
