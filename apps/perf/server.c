/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The serving side: any number of clients, run to completion on the calling thread. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"
#include "ui.h"
#include "stack.h"

static void
server_event(void *user, const struct weft_event *ev)
{
	struct server *server;
	struct session *s;

	switch (ev->type) {
	case WEFT_EV_CONNECT_REQUEST:
		server = user;
		s = session_begin(server, ev);
		if (s == NULL)
			break;
		s->next = server->sessions;
		server->sessions = s;
		server->n++;
		server->mem_bytes += s->takes_bytes;
		break;
	case WEFT_EV_DISCONNECTED:
	case WEFT_EV_CONNECT_ERROR:
		s = ev->user;
		s->gone = true;
		break;
	default:
		break;
	}
}

/** Sleep while there is no client. *since_ns: the first call since a packet came; 0: this one. */
static void
server_nap(struct weft_worker *w, uint64_t *since_ns)
{
	uint64_t now_ns = ui_now_ns(), nap_us;

	if (*since_ns == 0)
		*since_ns = now_ns;
	nap_us = (now_ns - *since_ns) / 1000 / SERVER_NAP_SHARE;
	weft_worker_idle(w, nap_us < SERVER_IDLE_US ? (uint32_t)nap_us : SERVER_IDLE_US);
}

/** Free the sessions whose client has left; all: every one. */
static void
server_reap(struct server *server, bool all)
{
	struct session **at = &server->sessions, *s;

	while ((s = *at) != NULL) {
		if ((!s->gone && !all) || !session_end(s)) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		server->n--;
		server->served += s->admitted;
		server->mem_bytes -= s->takes_bytes;
		free(s);
	}
}

static bool
server_any_gone(const struct server *server)
{
	for (const struct session *s = server->sessions; s != NULL; s = s->next)
		if (s->gone)
			return true;
	return false;
}

int
perf_server_run(struct weft_ctx *ctx, struct weft_worker *w, const struct sockaddr *addr,
                socklen_t addr_len, const struct perf_medium *medium, bool once,
                const volatile sig_atomic_t *stop)
{
	struct server server = {.ctx = ctx, .w = w, .medium = medium};
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = server_event, .user = &server};
	struct weft_listen_attr la = {.size = sizeof(la), .keepalive_us = 2000000, .user = &server};
	struct weft_listener *l = NULL;
	uint64_t since_ns = 0;
	int rc;

	rc = weft_evq_create(ctx, &ea, &server.evq);
	if (rc == 0)
		rc = weft_pd_alloc(ctx, &server.pd);
	la.evq = server.evq;
	if (rc == 0)
		rc = weft_listen(ctx, addr, addr_len, &la, &l);
	while (rc == 0 && !*stop) {
		if (weft_worker_poll(w) > 0 || server.n > 0)
			since_ns = 0;
		else
			server_nap(w, &since_ns);
		if (server.n == 0 && weft_port_removed(weft_port_get(ctx, 0)))
			rc = -ENODEV;
		for (struct session *s = server.sessions; s != NULL; s = s->next)
			session_turn(s);
		if (server_any_gone(&server))
			server_reap(&server, false);
		if (once && server.served > 0 && server.n == 0)
			break;
	}
	if (l != NULL)
		weft_unlisten(l);
	while (server.sessions != NULL) {
		server_reap(&server, true);
		weft_worker_poll(w);
	}
	stack_release(w, NULL, server.evq, server.pd);
	return rc;
}
