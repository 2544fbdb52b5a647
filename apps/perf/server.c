/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The serving side: any number of clients, by a thread for each worker. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "server.h"
#include "ui.h"
#include "stack.h"

/** What a client is told that comes while the server ends. */
#define SERVER_ENDS "it ends"

/* ---- Connections ---- */

static void
server_request(struct server *server, const struct weft_event *ev)
{
	struct session *s;

	if (atomic_load_explicit(&server->all->rc, memory_order_acquire) != 0) {
		weft_reject(ev->connreq, SERVER_ENDS, sizeof(SERVER_ENDS) - 1);
		return;
	}
	/* Between two clients the loop may change to what the next one wants; not in this callback
	 * of its poll. */
	if (server->n == 0 && session_wants_events(ev) != server->loop.events) {
		server->change = true;
		loop_hold_event(&server->loop, ev);
		return;
	}
	s = session_begin(server, ev);
	if (s == NULL)
		return;
	s->next = server->sessions;
	server->sessions = s;
	server->n++;
}

/** An event, on the thread of the worker's loop. */
static void
server_event(void *user, const struct weft_event *ev)
{
	struct session *s;

	switch (ev->type) {
	case WEFT_EV_CONNECT_REQUEST:
		server_request(user, ev);
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

/** A request at the listener, on the thread of the worker that has the connection. */
static void
served_event(void *user, const struct weft_event *ev)
{
	struct served *all = user;

	for (unsigned int i = 0; ev->type == WEFT_EV_CONNECT_REQUEST && i < all->nservers; i++)
		if (all->server[i].loop.w == weft_connreq_worker(ev->connreq))
			loop_take_event(&all->server[i].loop, ev);
}

/** Free the sessions whose client has left; all: every one. */
static void
server_reap(struct server *server, bool all)
{
	struct session **at = &server->sessions, *s;
	struct served *served = server->all;

	while ((s = *at) != NULL) {
		if ((!s->gone && !all) || !session_end(s)) {
			at = &s->next;
			continue;
		}
		/* session_end() polls, so a new client may have put its session in front. */
		at = &server->sessions;
		while (*at != s)
			at = &(*at)->next;
		*at = s->next;
		server->n--;
		pthread_mutex_lock(&served->lock);
		served->n--;
		served->mem_bytes -= s->takes_bytes;
		pthread_mutex_unlock(&served->lock);
		atomic_fetch_add_explicit(&served->gone, s->admitted, memory_order_acq_rel);
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

static bool
server_any_waits(const struct server *server)
{
	for (const struct session *s = server->sessions; s != NULL; s = s->next)
		if (s->making || s->gone)
			return true;
	return false;
}

/* ---- Threads ---- */

/** Whether the only client that is asked for has come and left. */
static bool
served_all(struct served *all)
{
	bool none;

	if (!all->once || atomic_load_explicit(&all->gone, memory_order_acquire) == 0)
		return false;
	pthread_mutex_lock(&all->lock);
	none = all->n == 0;
	pthread_mutex_unlock(&all->lock);
	return none;
}

/** Let the calling thread run where the configuration wants the worker. With events the worker has
 * a thread of its own there, and this one may be anywhere. */
static void
server_place(const struct server *server)
{
	if (server->lcore >= 0)
		loop_place_thread(server->loop.events ? -1 : server->lcore);
}

/** One turn of a worker's thread. 0 or -errno. */
static int
server_turn(struct server *server)
{
	/* A session whose memory is being made or freed is looked at often. */
	const uint64_t wait_ns = server_any_waits(server) ? SERVER_SOON_NS : SERVER_WAIT_NS;
	int rc = 0;

	server->loop.naps = server->naps || server->n == 0;
	loop_turn(&server->loop, wait_ns);
	if (server->change && server->n == 0) {
		rc = loop_set_events(&server->loop, !server->loop.events);
		server_place(server);
	}
	server->change = false;
	if (server->n == 0 && weft_port_removed(weft_port_get(server->all->ctx, 0)))
		rc = -ENODEV;
	for (struct session *s = server->sessions; s != NULL; s = s->next)
		session_turn(s);
	if (server_any_gone(server))
		server_reap(server, false);
	return rc;
}

/** The thread of one worker, until all end. */
static void
server_go(struct server *server)
{
	struct served *all = server->all;
	int none = 0, rc = 0;

	while (rc == 0 && !*all->stop &&
	       atomic_load_explicit(&all->rc, memory_order_acquire) == 0) {
		rc = server_turn(server);
		if (served_all(all))
			break;
	}
	atomic_compare_exchange_strong_explicit(&all->rc, &none, rc != 0 ? rc : 1,
	                                        memory_order_acq_rel, memory_order_acquire);
}

/** Whether any worker has a session. */
static bool
served_any(struct served *all)
{
	bool any;

	pthread_mutex_lock(&all->lock);
	any = all->n > 0;
	pthread_mutex_unlock(&all->lock);
	return any;
}

/**
 * Close the connections of a worker in order, and wait for the clients to close theirs. A reset
 * alone may never reach a client: the last frames of net_memif are lost when the port is closed.
 * All workers wait until no session of any is left, because one may receive what is for another.
 */
static void
server_hang_up(struct server *server)
{
	const uint64_t until_ns = ui_now_ns() + SERVER_END_NS;

	for (struct session *s = server->sessions; s != NULL; s = s->next)
		if (s->qp == NULL || weft_disconnect(s->qp) != 0)
			s->gone = true;
	while (served_any(server->all) && ui_now_ns() < until_ns) {
		server_reap(server, false);
		loop_turn(&server->loop, 0);
	}
}

/** End the connections of a worker, by polls of the calling thread. */
static void
server_end(struct server *server)
{
	(void)loop_set_events(&server->loop, false);
	server_hang_up(server);
	while (server->sessions != NULL) {
		server_reap(server, true);
		loop_turn(&server->loop, 0);
	}
}

static void *
server_thread(void *arg)
{
	struct server *server = arg;

	loop_place_thread(server->lcore);
	server_go(server);
	server_end(server);
	weft_worker_detach(server->loop.w);
	return NULL;
}

/** Prepare the workers, and start the threads of all but the first. 0 or -errno. */
static int
served_begin(struct served *all, const struct perf_side *side)
{
	sigset_t every, old;
	int rc = 0;

	for (unsigned int i = 0; i < all->nservers && rc == 0; i++) {
		struct server *s = &all->server[i];

		s->all = all;
		s->lcore = side->lcore[i];
		s->naps = all->nservers > 1 && !side->spin[i];
		rc = loop_begin(&s->loop, all->ctx, side->workers[i], server_event, s);
	}
	/* Signals go to the first thread. */
	sigfillset(&every);
	pthread_sigmask(SIG_SETMASK, &every, &old);
	for (unsigned int i = 1; i < all->nservers && rc == 0; i++) {
		rc = -pthread_create(&all->server[i].thread, NULL, server_thread, &all->server[i]);
		all->server[i].is_thread = rc == 0;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}

static void
served_end(struct served *all, struct weft_evq *evq)
{
	for (unsigned int i = 0; i < all->nservers; i++)
		if (all->server[i].is_thread)
			pthread_join(all->server[i].thread, NULL);
		else if (all->server[i].loop.w != NULL)
			server_end(&all->server[i]);
	/* Regions and listeners are freed when all workers have polled. */
	for (unsigned int k = 0; k < 64; k++)
		for (unsigned int i = 0; i < all->nservers; i++)
			if (all->server[i].loop.w != NULL)
				weft_worker_poll(all->server[i].loop.w);
	for (unsigned int i = 0; i < all->nservers; i++)
		loop_end(&all->server[i].loop);
	stack_release(NULL, NULL, evq, all->pd);
	pthread_mutex_destroy(&all->lock);
	free(all->server);
}

int
perf_server_run(const struct perf_side *side, const struct sockaddr *addr, socklen_t addr_len,
                const struct perf_medium *medium, bool once, const volatile sig_atomic_t *stop)
{
	struct served all = {.ctx = side->ctx,
	                     .mpa = side->mpa,
	                     .medium = medium,
	                     .nservers = side->nworkers,
	                     .once = once,
	                     .stop = stop,
	                     .server = calloc(side->nworkers, sizeof(*all.server)),
	                     .lock = PTHREAD_MUTEX_INITIALIZER};
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = served_event, .user = &all};
	/* All QPs of a client may ask at once, while the worker changes between polling and
	 * sleeping. */
	struct weft_listen_attr la = {.size = sizeof(la),
	                              .keepalive_us = 2000000,
	                              .backlog = SERVER_MAX_SESSIONS,
	                              .max_requests_per_peer = SERVER_MAX_SESSIONS};
	struct weft_listener *l = NULL;
	int rc;

	if (all.server == NULL)
		return -ENOMEM;
	perf_host_now(&all.host);
	rc = weft_evq_create(side->ctx, &ea, &la.evq);
	if (rc == 0)
		rc = weft_pd_alloc(side->ctx, &all.pd);
	if (rc == 0)
		rc = served_begin(&all, side);
	if (rc == 0)
		rc = weft_listen(side->ctx, addr, addr_len, &la, &l);
	if (rc == 0) {
		server_place(&all.server[0]);
		server_go(&all.server[0]);
		rc = atomic_load_explicit(&all.rc, memory_order_acquire);
		rc = rc < 0 ? rc : 0;
	} else {
		atomic_store_explicit(&all.rc, rc, memory_order_release);
	}
	if (l != NULL)
		weft_unlisten(l);
	served_end(&all, la.evq);
	return rc;
}
