/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Keeps and logs slow operations. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "metrics_read.h"
#include "target.h"
#include "target_grant.h"
#include "target_say.h"
#include "target_slow.h"
#include "target_volume.h"
#include "ui.h"

#define NS_PER_MS 1000000ULL
#define NO_STAGE  UINT64_MAX

int
target_slow_up(struct target *t)
{
	target_slow_set(t, t->conf.target.slow_ms);
	for (uint32_t i = 0; i < t->stack.nworkers; i++) {
		/* What is not written to takes no memory. */
		t->workers[i].slow = calloc(1, sizeof(struct slow_ring));
		if (t->workers[i].slow == NULL)
			return -ENOMEM;
		if (getrandom(&t->workers[i].slow->key, sizeof(t->workers[i].slow->key), 0) !=
		    sizeof(t->workers[i].slow->key))
			return -EIO;
	}
	return 0;
}

void
target_slow_down(struct target *t)
{
	for (uint32_t i = 0; i < t->stack.nworkers; i++) {
		free(t->workers[i].slow);
		t->workers[i].slow = NULL;
	}
}

void
target_slow_set(struct target *t, uint32_t slow_ms)
{
	atomic_store_explicit(&t->slow_ns, slow_ms != 0 ? slow_ms * NS_PER_MS : UINT64_MAX,
	                      memory_order_relaxed);
}

const char *
target_slow_client(const struct target_conn *c)
{
	return c->auth.state == HOST_AUTH_DONE ? c->auth.name : NULL;
}

/** " rate 1200 ms", for a stage of at least a tenth of a millisecond. */
static size_t
say_stage(char *text, size_t size, size_t n, const char *name, uint64_t ns)
{
	if (ns == NO_STAGE || ns < NS_PER_MS / 10 || n >= size)
		return n;
	return n + (size_t)snprintf(text + n, size - n, "%s %s %.1f ms", n > 0 ? "," : "", name,
	                            (double)ns / (double)NS_PER_MS);
}

static void
slow_say(struct slow_ring *r, const struct slow_op *s)
{
	char text[256] = "", at[40] = "";
	size_t n = 0;

	if (!slow_may_say(r, s->who, s->at_ns) || !target_may_log_slow())
		return;
	slow_said(r, s->who, s->at_ns);
	for (unsigned int i = 0; i < METRICS_STAGES; i++)
		n = say_stage(text, sizeof(text), n, metrics_stage_names[i], s->stage_ns[i]);
	if (!s->in_window)
		snprintf(at, sizeof(at), " at offset %" PRIu64, s->off_bytes);
	target_log_slow(UI_WARNING "export %s: SLOW: %s of %" PRIu64
	                           " octets%s by %s%s%s took %.1f ms:%s%s%s",
	                s->export, s->op, s->len_bytes, at,
	                s->peer[0] == '\0' && s->client[0] == '\0' ? "a client that has gone"
	                                                           : s->peer,
	                s->peer[0] != '\0' && s->client[0] != '\0' ? " " : "", s->client,
	                (double)s->total_ns / (double)NS_PER_MS, text,
	                s->why[0] != '\0' ? "; failed: " : "", s->why);
}

/** The next record of a worker. */
static struct slow_op *
slow_next(const struct target_worker *tw, const struct slow_what *what, uint64_t total_ns)
{
	const char *client = what->client != NULL ? what->client : "";
	const char *peer = what->peer != NULL ? what->peer : "";
	struct slow_op *s = slow_place(tw->slow, slow_class(tw->slow, client, peer));

	s->at_ns = ui_now_ns();
	s->total_ns = total_ns;
	s->off_bytes = what->off_bytes;
	s->len_bytes = what->len_bytes;
	s->in_window = what->in_window;
	s->op = what->op;
	snprintf(s->why, sizeof(s->why), "%s", what->why != NULL ? what->why : "");
	snprintf(s->export, sizeof(s->export), "%s", what->ex->conf->name);
	snprintf(s->peer, sizeof(s->peer), "%s", peer);
	snprintf(s->client, sizeof(s->client), "%s", client);
	return s;
}

static bool
is_slow(const struct target_worker *tw, uint64_t ns)
{
	return ns >= atomic_load_explicit(&tw->t->slow_ns, memory_order_relaxed);
}

void
target_slow(const struct target_worker *tw, const struct metrics_timing *tm,
            enum metrics_stage last, const struct slow_what *what)
{
	uint64_t now, total_ns;
	struct slow_op *s;

	if (tm->began_ns == 0)
		return;
	now = weft_worker_now_ns(tw->w);
	total_ns = now - tm->began_ns;
	if (!is_slow(tw, total_ns))
		return;
	s = slow_next(tw, what, total_ns);
	memcpy(s->stage_ns, tm->stage_ns, sizeof(s->stage_ns));
	if (last < METRICS_STAGES)
		s->stage_ns[last] = now - tm->at_ns;
	slow_say(tw->slow, s);
}

/* ---- Calls to volumes ---- */

static const char *const vio_names[WEFT_VOL_KINDS] = {
        [WEFT_VOL_READ] = "read",
        [WEFT_VOL_WRITE] = "write",
        [WEFT_VOL_FLUSH] = "flush",
        [WEFT_VOL_VERIFY] = "verify",
        [WEFT_VOL_COMPARE_WRITE] = "compare_write",
        [WEFT_VOL_DISCARD] = "discard",
        [WEFT_VOL_ZEROES] = "zeroes",
        [WEFT_VOL_EXTENTS] = "extents",
        [WEFT_VOL_SCRUB] = "verify", /* no call asks for it */
        [WEFT_VOL_SNAPSHOT] = "snapshot",
};

static void
slow_vio(const struct target_vio *io, enum metrics_stage last)
{
	const struct target_conn *c = io->g->conn;
	const int status = io->op.status;

	target_slow(c->w, &io->timing, last,
	            &(struct slow_what){
	                    .op = vio_names[io->op.kind],
	                    .ex = io->g->ex,
	                    .peer = c->peer,
	                    .client = target_slow_client(c),
	                    .off_bytes = io->op.off_bytes,
	                    .len_bytes = io->op.len_bytes,
	                    .why = status != 0                     ? strerror(-status)
	                           : *io->status != WEFT_VOLRPC_OK ? "it was refused"
	                                                           : NULL,
	            });
}

void
target_slow_vio(const struct target_vio *io, bool held)
{
	/* One that was refused before the volume had it has waited for memory or its turn. */
	if (!held)
		slow_vio(io, io->timing.stage_ns[METRICS_STAGING] == NO_STAGE ? METRICS_STAGING
		                                                              : METRICS_MEDIUM);
}

void
target_slow_vio_taken(const struct target_vio *io)
{
	if (!io->g->conn->dead)
		slow_vio(io, METRICS_ANSWER);
}

/* ---- Pushes ---- */

void
target_slow_push(const struct target_worker *tw, enum metrics_op op, const struct target_export *ex,
                 const struct target_conn *conn, uint64_t off_bytes, uint64_t len_bytes, int status,
                 const uint64_t stage_ns[METRICS_STAGES])
{
	const bool in_window = conn != NULL;
	const struct target_grant *g;
	struct slow_op *s;
	uint64_t ns = 0;

	for (unsigned int i = 0; i < METRICS_STAGES; i++)
		ns += stage_ns[i] != NO_STAGE ? stage_ns[i] : 0;
	if (!is_slow(tw, ns))
		return;
	if (conn == NULL)
		LIST_FOREACH (g, &tw->writers, writer_link)
			if (g->ex == ex)
				conn = g->conn;
	s = slow_next(tw,
	              &(struct slow_what){
	                      .op = metrics_op_names[op],
	                      .ex = ex,
	                      .peer = conn != NULL ? conn->peer : NULL,
	                      .client = conn != NULL ? target_slow_client(conn) : NULL,
	                      .off_bytes = in_window ? 0 : off_bytes,
	                      .len_bytes = len_bytes,
	                      .in_window = in_window,
	                      .why = status != 0 ? strerror(-status) : NULL,
	              },
	              ns);
	memcpy(s->stage_ns, stage_ns, sizeof(s->stage_ns));
	slow_say(tw->slow, s);
}
