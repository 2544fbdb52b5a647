/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Local ports: their use by all instances of a context. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "tcp_instance.h"
#include "tcp_ports.h"

/**
 * All instances write the counts, and any thread reads them. The counts order no other memory
 * access. A reader that comes a moment too early sees what an earlier reader saw, so relaxed order
 * is enough.
 */
struct port_counts {
	_Atomic uint32_t listeners, conns, time_wait;
};

struct weft_tcp_ports {
	pthread_mutex_t lock; /**< of the keys */
	bool keyed;
	struct tcp_keys keys;
	struct port_counts total;
	struct port_counts port[UINT16_MAX + 1];
};

int
weft_tcp_ports_create(struct weft_tcp_ports **out)
{
	/* Pages of ports without a count are never touched. */
	*out = calloc(1, sizeof(**out));
	if (*out == NULL)
		return -ENOMEM;
	pthread_mutex_init(&(*out)->lock, NULL);
	return 0;
}

void
weft_tcp_ports_destroy(struct weft_tcp_ports *p)
{
	if (p != NULL)
		pthread_mutex_destroy(&p->lock);
	free(p);
}

void
tcp_ports_keys(struct weft_tcp_ports *p, struct tcp_keys *keys)
{
	pthread_mutex_lock(&p->lock);
	if (!p->keyed)
		p->keys = *keys;
	p->keyed = true;
	*keys = p->keys;
	pthread_mutex_unlock(&p->lock);
}

void
weft_tcp_port_use(const struct weft_tcp_ports *p, uint16_t port, struct weft_tcp_port_use *use)
{
	const struct port_counts *u = port != 0 ? &p->port[port] : &p->total;

	use->listeners = atomic_load_explicit(&u->listeners, memory_order_relaxed);
	use->conns = atomic_load_explicit(&u->conns, memory_order_relaxed);
	use->time_wait = atomic_load_explicit(&u->time_wait, memory_order_relaxed);
}

void
tcp_port_count(struct weft_tcp *t, enum tcp_port_kind kind, uint16_t port, int by)
{
	struct weft_tcp_ports *p = t->attr.ports;

	if (p == NULL)
		return;
	for (unsigned int i = 0; i < 2; i++) {
		struct port_counts *u = i == 0 ? &p->port[port] : &p->total;
		_Atomic uint32_t *n = kind == TCP_PORT_LISTENER ? &u->listeners
		                      : kind == TCP_PORT_CONN   ? &u->conns
		                                                : &u->time_wait;

		atomic_fetch_add_explicit(n, (uint32_t)by, memory_order_relaxed);
	}
}

bool
tcp_port_listened(const struct weft_tcp *t, uint16_t port)
{
	const struct weft_tcp_ports *p = t->attr.ports;

	return p != NULL &&
	       atomic_load_explicit(&p->port[port].listeners, memory_order_relaxed) != 0;
}
