/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Cases of the program objects: how connections end, and what is left of them. */

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "objects.h"

/** The connection has ended; a second rdma_disconnect() would wait for ever, as with the kernel. */
static void
late_close(struct end *e)
{
	MUST(ibv_dereg_mr(e->mr) == 0);
	rdma_destroy_ep(e->id);
	free(e->mem);
}

/** Ask the server for its last message; both receives are posted. */
static struct end
late_open(void)
{
	const struct ask a = {.order = BYE};
	struct end e;

	client_open(&e);
	post_recv(&e, NULL, 3);
	post_recv(&e, NULL, 4);
	post_send_inline(&e, &a, sizeof(a));
	return e;
}

/** Whether the event of the end is there, within `ms`; it is taken. */
static bool
late_told(const struct end *e, int ms)
{
	struct pollfd p = {.fd = e->id->channel->fd, .events = POLLIN};
	struct rdma_cm_event *ev;

	if (poll(&p, 1, ms) == 0)
		return false;
	MUST(rdma_get_cm_event(e->id->channel, &ev) == 0);
	MUST(ev->event == RDMA_CM_EVENT_DISCONNECTED && rdma_ack_cm_event(ev) == 0);
	return true;
}

static void
late_message(const struct end *e)
{
	wc_ok(e->id->send_cq, IBV_WC_SEND);
	MUST(wc_ok(e->id->recv_cq, IBV_WC_RECV).wr_id == 3);
	MUST(memcmp(e->mem + (size_t)3 * MSG, "bye", 4) == 0);
}

/**
 * A program that was away finds the last message and the end of the connection. It learns of the
 * message first: libfabric destroys the queue pair with its completions when it reads the event.
 */
void
case_late(void)
{
	struct end e = late_open();

	/* away: no call that weft knows */
	usleep(400000);
	MUST(!late_told(&e, 0));
	late_message(&e);
	MUST(late_told(&e, 10000));
	late_close(&e);
	/* a program that sleeps until the event comes gets it before it has polled */
	e = late_open();
	MUST(late_told(&e, 10000));
	late_message(&e);
	late_close(&e);
	/* and so does one that disconnects by itself */
	e = late_open();
	usleep(400000);
	MUST(rdma_disconnect(e.id) == 0);
	MUST(e.id->event->event == RDMA_CM_EVENT_DISCONNECTED);
	late_message(&e);
	late_close(&e);
	done("the end of a connection comes behind its last message");
}
