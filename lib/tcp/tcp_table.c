/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Which connection or listener has these addresses and ports. */

#include "tcp_conn.h"
#include "tcp_instance.h"
#include "tcp_life.h"
#include "tcp_ports.h"

struct weft_tcp_conn *
tcp_lookup(struct weft_tcp *t, uint64_t hash, const struct weft_ip *local, uint16_t local_port,
           const struct weft_ip *remote, uint16_t remote_port)
{
	struct weft_tcp_conn *c = t->buckets[hash & t->bucket_mask];

	while (c != NULL &&
	       !(c->hash == hash && c->local_port == local_port && c->remote_port == remote_port &&
	         weft_ip_eq(&c->remote, remote) && weft_ip_eq(&c->local, local)))
		c = c->hash_next;
	return c;
}

void
tcp_table_add(struct weft_tcp_conn *c)
{
	struct weft_tcp_conn **b = &c->t->buckets[c->hash & c->t->bucket_mask];

	c->hash_next = *b;
	*b = c;
	c->in_table = true;
	tcp_port_count(c->t, TCP_PORT_CONN, c->local_port, 1);
}

void
tcp_table_del(struct weft_tcp_conn *c)
{
	struct weft_tcp_conn **p = &c->t->buckets[c->hash & c->t->bucket_mask];

	if (!c->in_table)
		return;
	while (*p != c)
		p = &(*p)->hash_next;
	*p = c->hash_next;
	c->in_table = false;
	tcp_port_count(c->t, TCP_PORT_CONN, c->local_port, -1);
}

struct weft_tcp_listener *
tcp_listener_find(struct weft_tcp *t, const struct weft_ip *addr, uint16_t port)
{
	struct weft_tcp_listener *l;

	/* Listeners of one port do not overlap. */
	TAILQ_FOREACH (l, &t->listeners, link)
		if (l->port == port && weft_ip_same_prefix(&l->addr, addr, l->bits))
			return l;
	return NULL;
}
