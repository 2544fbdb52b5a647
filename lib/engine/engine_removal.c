/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A port whose device is removed: its workers let go of it, and its connections end. */

#include "engine_priv.h"
#include "weft_netif_removal.h"

/** On the worker, between two bursts. */
static void
removal_let_go(struct weft_work_item *item)
{
	struct engine_part *part = container_of(item, struct engine_part, work);
	struct weft_port *port = part->port;

	weft_netif_remove(part->nif);
	weft_tcp_netif_removed(part->w->cm.tcp, part->nif);
	if (atomic_fetch_sub_explicit(&port->holders, 1, memory_order_acq_rel) == 1)
		weft_netif_port_give_back(&port->dev);
}

/** On EAL's interrupt thread. */
static void
removal_begin(void *arg, const char *how)
{
	struct weft_port *port = arg;

	WEFT_LOG(engine, WARNING, "port %s: its device %s was removed (%s); its connections end",
	         port->name, port->dev.devname, how);
	pthread_mutex_lock(&port->lock);
	atomic_store_explicit(&port->removed, 1, memory_order_release);
	/* One more, so that no worker is the last one before all are told. */
	atomic_store_explicit(&port->holders, port->nnif + 1, memory_order_relaxed);
	for (unsigned int i = 0; i < port->nnif; i++) {
		port->part[i].work.fn = removal_let_go;
		weft_work_send(&port->part[i].w->v.work, &port->part[i].work);
	}
	pthread_mutex_unlock(&port->lock);
	if (atomic_fetch_sub_explicit(&port->holders, 1, memory_order_acq_rel) == 1)
		weft_netif_port_give_back(&port->dev);
}

int
weft_engine_port_watch(struct weft_port *port)
{
	int rc;

	pthread_mutex_init(&port->lock, NULL);
	rc = weft_netif_port_watch(&port->dev, removal_begin, port);
	if (rc < 0)
		pthread_mutex_destroy(&port->lock);
	return rc;
}

bool
weft_port_removed(const struct weft_port *port)
{
	if (WEFT_HANDLE_BAD(port, PORT))
		return false;
	return atomic_load_explicit(&port->removed, memory_order_acquire) != 0;
}
