/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The TCP ports of a port that several processes share (weft/shared_port.h). */

#include "engine_priv.h"
#include "weft_netif_shared.h"

#include <weft/shared_port.h>

/** The interface of a shared port, which one worker has. Its thread is the caller. */
static int
shared_netif(struct weft_port *port, const char *call, struct weft_netif **out)
{
	int rc = 0;

	if (WEFT_HANDLE_BAD(port, PORT) || !port->net.shared)
		return -EINVAL;
	pthread_mutex_lock(&port->lock);
	if (port->nnif == 0)
		rc = -ENOENT;
	else if (weft_vworker_is_others(&port->part[0].w->v))
		rc = weft_wrong_thread(call);
	else
		*out = port->nif[0];
	pthread_mutex_unlock(&port->lock);
	return rc;
}

int
weft_port_tcp_add(struct weft_port *port, uint16_t first, uint16_t last, bool opens)
{
	struct weft_netif *nif = NULL;
	int rc = shared_netif(port, __func__, &nif);

	return rc < 0 ? rc : weft_netif_ports_add(nif, first, last, opens);
}

int
weft_port_tcp_drop(struct weft_port *port, uint16_t tcp_port)
{
	struct weft_tcp_port_use use;
	struct weft_netif *nif = NULL;
	int rc = shared_netif(port, __func__, &nif);

	if (rc < 0 || tcp_port == 0)
		return rc < 0 ? rc : -EINVAL;
	weft_tcp_port_use(port->ctx->tcp_ports, tcp_port, &use);
	if (use.listeners != 0 || use.conns != 0)
		return -EBUSY;
	return weft_netif_ports_drop(nif, tcp_port, tcp_port);
}
