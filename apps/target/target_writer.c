/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The writer's place of an export: one client holds it at a time, and loses it when it does
 * not use it.
 *
 * A writer that was inactive for writer_idle_ms gives way to a client that asks. A writer that is
 * not authenticated gives way to a client that is, even while it writes. The grant is revoked as by
 * SIGHUP (target_revoke.c): its holder is warned, and after revoke_ms it cannot write any more.
 * Then the place is reserved for a while for the client that asked, so that the former writer does
 * not take it again first.
 *
 * A writer is active while its connection receives FPDUs, or while its requests are under way. Its
 * worker checks that now and then, and once more before it revokes the grant. Everything else is
 * under the export's lock.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target.h"
#include "target_grant.h"
#include "target_say.h"
#include "ui.h"

#define NS_PER_MS 1000000ULL
#define LOOKS     8 /* checks of a writer within writer_idle_ms */

/* How long the place is reserved for the client that asked. */
#define KEPT_NS       (2000 * NS_PER_MS)
#define KEPT_NAMED_NS (10000 * NS_PER_MS) /* time to read the message and try again */
#define LATE_NS       (1000 * NS_PER_MS)  /* after end_ns: the revocation has failed */

static bool
writer_is_named(const struct target_conn *c)
{
	return c->auth.state == HOST_AUTH_DONE;
}

static uint64_t
writer_idle_ns(const struct target *t)
{
	return t->conf.target.writer_idle_ms * NS_PER_MS;
}

/* ---- Whether a writer is active. On its worker. ---- */

/** Octets and messages that its connection has received; *requests: the peer's requests under
 * way. */
static uint64_t
writer_received(const struct target_grant *g, uint16_t *requests)
{
	struct weft_qp_info info;

	weft_qp_query(g->conn->qp, &info);
	if (requests != NULL)
		*requests = info.in_reads;
	return info.recv_msgs + info.recv_bytes;
}

static void
writer_look(struct target_grant *g, uint64_t now)
{
	struct target_writer *slot = &g->ex->slot;
	uint16_t requests;
	uint64_t moved = writer_received(g, &requests);

	pthread_mutex_lock(&g->ex->lock);
	if (g->ex->writer == g) {
		if (moved != g->moved || requests > 0 ||
		    atomic_load_explicit(&g->ex->ios, memory_order_relaxed) > 0)
			slot->moved_ns = now;
		slot->named = writer_is_named(g->conn);
	}
	pthread_mutex_unlock(&g->ex->lock);
	g->moved = moved;
}

static void writers_arm(struct target_worker *tw);

static void
writers_alarm(void *arg)
{
	struct target_worker *tw = arg;
	struct target_grant *g;
	uint64_t now = ui_now_ns();

	tw->writers_alarm = NULL;
	LIST_FOREACH (g, &tw->writers, writer_link)
		writer_look(g, now);
	writers_arm(tw);
}

static void
writers_arm(struct target_worker *tw)
{
	const uint64_t us = (uint64_t)tw->t->conf.target.writer_idle_ms * 1000 / LOOKS;

	/* Without memory for the alarm, the next writer sets it. Until then a writer may seem
	 * idle; it is checked once more before it has to give way. */
	if (tw->writers_alarm == NULL && !LIST_EMPTY(&tw->writers))
		(void)weft_alarm_set(tw->w, us, writers_alarm, tw, &tw->writers_alarm);
}

void
target_writer_fini(struct target_worker *tw)
{
	if (tw->writers_alarm != NULL)
		weft_alarm_cancel(tw->writers_alarm);
	tw->writers_alarm = NULL;
}

/* ---- A writer yields to another client ---- */

struct yield_call {
	struct target_worker *tw;
	struct target_export *ex;
	bool idle; /**< only if the writer is idle */
};

/** On the writer's worker. The writer may be gone. */
static void
writer_yield(void *arg)
{
	struct yield_call *call = arg;
	struct target_export *ex = call->ex;
	const uint64_t idle_ns = writer_idle_ns(call->tw->t);
	struct target_grant *g;
	bool stays;

	LIST_FOREACH (g, &call->tw->writers, writer_link)
		if (g->ex == ex)
			break;
	if (g != NULL) {
		uint64_t now = ui_now_ns();

		writer_look(g, now);
		pthread_mutex_lock(&ex->lock);
		stays = (call->idle || ex->slot.named) && now - ex->slot.moved_ns < idle_ns;
		if (stays)
			ex->slot.asked = false;
		else
			ex->slot.yields++;
		pthread_mutex_unlock(&ex->lock);
		if (!stays) {
			target_log_export(
			        "export %s: its writer %s %s; another client asks to write",
			        ex->conf->name, g->conn->peer,
			        call->idle ? "is inactive"
			                   : "is not authenticated, and the next one is");
			g->yields = true;
			call->tw->ops->revoke(g);
		}
	}
	free(call);
}

/** Ask the writer to give way, under the lock. The caller passes the result to writer_tell()
 * without the lock. */
static struct yield_call *
writer_ask(struct target_export *ex, bool idle, uint64_t now)
{
	struct target_worker *tw = ex->writer->conn->w;
	struct yield_call *call = malloc(sizeof(*call));

	if (call == NULL)
		return NULL;
	*call = (struct yield_call){tw, ex, idle};
	ex->slot.asked = true;
	ex->slot.end_ns =
	        now + atomic_load_explicit(&tw->t->revoke_ms, memory_order_relaxed) * NS_PER_MS;
	return call;
}

/** Run the call on the writer's worker; at once if that is the caller's. */
static void
writer_tell(struct yield_call *call)
{
	struct target_export *ex = call->ex;

	if (weft_worker_call(call->tw->w, writer_yield, call) == 0)
		return;
	free(call);
	pthread_mutex_lock(&ex->lock);
	ex->slot.asked = false;
	pthread_mutex_unlock(&ex->lock);
}

/* ---- Taking it ---- */

static bool
writer_kept_for(const struct target_writer *slot, const struct quota_id *id)
{
	return slot->kept.bytes == id->bytes &&
	       memcmp(slot->kept.octets, id->octets, id->bytes) == 0;
}

static void
writer_keep(struct target_writer *slot, const struct quota_id *id, bool named, uint64_t now)
{
	if (slot->kept.bytes > 0 && now < slot->kept_ns && !writer_kept_for(slot, id) &&
	    (slot->kept_named || !named))
		return;
	slot->kept = *id;
	slot->kept_named = named;
	slot->kept_ns =
	        (slot->end_ns > now ? slot->end_ns : now) + (named ? KEPT_NAMED_NS : KEPT_NS);
}

/** The reason of a refusal, and when to try again in seconds with tenths, never 0. */
static void
writer_why(const struct target_export *ex, uint64_t idle_ns, uint64_t now, char *buf, size_t size)
{
	const struct target_writer *slot = &ex->slot;
	uint64_t idle_end = slot->moved_ns + idle_ns;
	double s;

	if (ex->writer == NULL) {
		/* The reservation may have ended just now. */
		s = slot->kept.bytes > 0 && slot->kept_ns > now
		            ? (double)(slot->kept_ns - now) / 1e9
		            : 0;
		snprintf(buf, size,
		         "it is kept for a client that asked before; try again in %.1f s", s + 0.1);
	} else if (slot->asked) {
		s = slot->end_ns > now ? (double)(slot->end_ns - now) / 1e9 : 0;
		snprintf(buf, size,
		         "another writer holds it and has to give way; try again in %.1f s",
		         s + 0.1);
	} else {
		s = idle_end > now ? (double)(idle_end - now) / 1e9 : 0;
		snprintf(buf, size,
		         "another writer holds it; if nothing more comes of it, it gives way when "
		         "asked in %.1f s",
		         s + 0.1);
	}
}

/**
 * Another client holds the writer's place, or it is reserved for one; the export's lock is held.
 * The caller passes the result (NULL: none) to writer_tell() without the lock.
 */
static struct yield_call *
writer_busy(struct target_export *ex, const struct quota_id *id, bool named, uint64_t idle_ns,
            uint64_t now)
{
	struct target_writer *slot = &ex->slot;
	struct yield_call *call = NULL;

	slot->refused++;
	if (ex->writer == NULL)
		return NULL;
	if (slot->asked && now > slot->end_ns + LATE_NS)
		slot->asked = false;
	if (!slot->asked && named && !slot->named)
		call = writer_ask(ex, false, now);
	else if (!slot->asked && now - slot->moved_ns >= idle_ns)
		call = writer_ask(ex, true, now);
	if (slot->asked)
		writer_keep(slot, id, named, now);
	return call;
}

bool
target_writer_take(struct target_grant *g, char *buf, size_t size)
{
	struct target_export *ex = g->ex;
	struct target_conn *c = g->conn;
	struct target_writer *slot = &ex->slot;
	const uint64_t idle_ns = writer_idle_ns(c->w->t), now = ui_now_ns();
	const bool named = writer_is_named(c);
	struct yield_call *call = NULL;
	struct quota_id id;
	bool taken;

	quota_id(&id, named ? c->auth.name : NULL, &c->remote);
	g->moved = writer_received(g, NULL);
	pthread_mutex_lock(&ex->lock);
	taken = ex->writer == NULL && (slot->kept.bytes == 0 || now >= slot->kept_ns || named ||
	                               writer_kept_for(slot, &id));
	if (taken) {
		ex->writer = g;
		slot->named = named;
		slot->moved_ns = now;
		slot->asked = false;
		slot->kept.bytes = 0;
	} else {
		call = writer_busy(ex, &id, named, idle_ns, now);
	}
	pthread_mutex_unlock(&ex->lock);
	if (call != NULL)
		writer_tell(call);
	if (!taken) {
		pthread_mutex_lock(&ex->lock);
		writer_why(ex, idle_ns, now, buf, size);
		pthread_mutex_unlock(&ex->lock);
		return false;
	}
	g->is_writer = true;
	LIST_INSERT_HEAD(&c->w->writers, g, writer_link);
	writers_arm(c->w);
	return true;
}

bool
target_writer_keep(struct target_conn *c, struct target_export *ex, uint64_t ns, char *buf,
                   size_t size)
{
	struct target_writer *slot = &ex->slot;
	const uint64_t idle_ns = writer_idle_ns(c->w->t), now = ui_now_ns();
	const bool named = writer_is_named(c);
	struct yield_call *call = NULL;
	struct quota_id id;
	bool free, ours;

	quota_id(&id, named ? c->auth.name : NULL, &c->remote);
	pthread_mutex_lock(&ex->lock);
	ours = slot->kept.bytes > 0 && now < slot->kept_ns && writer_kept_for(slot, &id);
	free = ex->writer == NULL &&
	       (slot->kept.bytes == 0 || now >= slot->kept_ns || named || ours);
	/* Repeated requests do not extend the reservation. */
	if (free && !ours) {
		slot->kept = id;
		slot->kept_named = named;
		slot->kept_ns = now + ns;
	} else if (!free) {
		call = writer_busy(ex, &id, named, idle_ns, now);
	}
	pthread_mutex_unlock(&ex->lock);
	if (call != NULL)
		writer_tell(call);
	if (free)
		return true;
	pthread_mutex_lock(&ex->lock);
	writer_why(ex, idle_ns, now, buf, size);
	pthread_mutex_unlock(&ex->lock);
	return false;
}

void
target_writer_freed(struct target_grant *g)
{
	pthread_mutex_lock(&g->ex->lock);
	if (g->ex->writer == g) {
		g->ex->writer = NULL;
		g->ex->slot.asked = false;
	}
	pthread_mutex_unlock(&g->ex->lock);
}

void
target_writer_leave(struct target_grant *g)
{
	if (g->is_writer)
		LIST_REMOVE(g, writer_link);
	g->is_writer = false;
}

void
target_writer_undo(struct target_grant *g)
{
	target_writer_leave(g);
	target_writer_freed(g);
}
