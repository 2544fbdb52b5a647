/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The console's logs as their worker sees them: targets, appends, reads, events. */

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <weft/log_host.h>

#include "addr.h"
#include "console.h"
#include "log_side.h"
#include "worker_side.h"

#define READ_BYTES 65536u

/** A connection to a target: before it has joined, and then until it is lost. */
struct join {
	bool used;
	unsigned int log; /**< number */
	struct weft_qp *qp;
	int target; /**< -1: not joined yet */
	struct log_side_target at;
	atomic_int outcome; /**< read until the place is used again */
};

struct side {
	struct weft_log *log;
	struct weft_evq *evq;
	struct weft_log_super blank; /**< what a memory without a log is formatted with */
	struct join joins[WEFT_LOG_MAX_TARGETS];
	uint8_t *buf;
	struct weft_mr *mr;
	struct {
		bool on, trims;
		uint64_t seq, records;
		struct weft_log_at at;
	} read;
	atomic_int open_outcome;
};

/** A record that is appended; its text follows. */
struct append {
	unsigned int log;
	char text[];
};

static struct side sides[CONSOLE_MAX_LOGS + 1];

int
log_side_join_outcome(unsigned int n, unsigned int join)
{
	return atomic_load_explicit(&sides[n].joins[join].outcome, memory_order_acquire);
}

int
log_side_open_outcome(unsigned int n)
{
	return atomic_load_explicit(&sides[n].open_outcome, memory_order_acquire);
}

static void
decide(atomic_int *outcome, int rc)
{
	atomic_store_explicit(outcome, rc, memory_order_release);
}

static void
fail_if_waiting(atomic_int *outcome, int rc)
{
	if (atomic_load_explicit(outcome, memory_order_relaxed) == LOG_SIDE_WAITS)
		decide(outcome, rc != 0 ? rc : -ENOTCONN);
}

static void
log_event(void *user, const struct weft_log_event *ev)
{
	struct side *s = user;
	const unsigned int n = (unsigned int)(s - sides);
	struct join *j = ev->target_user;

	switch (ev->type) {
	case WEFT_LOG_EV_JOINED:
		note_add(NOTE_EVENT, NULL, NULL, "log %u: target %u has joined", n, ev->target);
		decide(&j->outcome, 0);
		return;
	case WEFT_LOG_EV_OPEN:
		note_add(NOTE_EVENT, NULL, NULL,
		         "log %u: open, epoch %" PRIu64 ", records %" PRIu64 " to %" PRIu64, n,
		         ev->epoch, ev->head.seq, ev->end.seq - 1);
		decide(&s->open_outcome, 0);
		return;
	case WEFT_LOG_EV_LIVE:
		note_add(NOTE_EVENT, NULL, NULL, "log %u: target %u is live", n, ev->target);
		return;
	case WEFT_LOG_EV_LOST:
		note_add(NOTE_EVENT, NULL, NULL, "log %u: target %u is lost: %s", n, ev->target,
		         strerror(-ev->status));
		j->used = false;
		fail_if_waiting(&j->outcome, ev->status);
		return;
	case WEFT_LOG_EV_DAMAGED:
		note_add(NOTE_EVENT, NULL, NULL, "log %u: target %u: %s is damaged at %" PRIu64, n,
		         ev->target, weft_log_damage_str(ev->damage), ev->position);
		return;
	case WEFT_LOG_EV_FAILED:
		note_add(NOTE_EVENT, NULL, NULL, "log %u: has ended: %s", n, strerror(-ev->status));
		fail_if_waiting(&s->open_outcome, ev->status);
		for (unsigned int i = 0; i < WEFT_LOG_MAX_TARGETS; i++)
			fail_if_waiting(&s->joins[i].outcome, ev->status);
		return;
	default:
		note_add(NOTE_EVENT, NULL, NULL, "log %u: %s", n, weft_log_event_str(ev->type));
	}
}

/** The connection is there: join, with the grant that is known or that came with it. */
static void
join_connected(struct side *s, struct join *j, const struct weft_event *ev)
{
	struct weft_log_target t = {.size = sizeof(t), .qp = j->qp, .user = j, .format = &s->blank};
	struct weft_log_grant grant;
	int rc = -ENODATA;

	t.stag = j->at.stag;
	t.to = j->at.to;
	t.len_bytes = j->at.len_bytes;
	if (!j->at.granted && ev->private_data_bytes == sizeof(grant)) {
		memcpy(&grant, ev->private_data, sizeof(grant));
		t.stag = grant.stag;
		t.to = grant.to;
		t.len_bytes = grant.len_bytes;
	}
	if (getrandom(s->blank.target_id, sizeof(s->blank.target_id), 0) < 0)
		rc = -errno;
	else if (j->at.granted || ev->private_data_bytes == sizeof(grant))
		rc = weft_log_join(s->log, &t);
	if (rc >= 0) {
		j->target = rc;
		return;
	}
	weft_qp_destroy(j->qp);
	j->used = false;
	decide(&j->outcome, rc);
}

/** Events of a target's connection. */
static void
conn_event(void *user, const struct weft_event *ev)
{
	struct side *s = user;
	struct join *j = ev->user;
	char text[160];

	switch (ev->type) {
	case WEFT_EV_ESTABLISHED:
		join_connected(s, j, ev);
		return;
	case WEFT_EV_TERMINATED:
		note_add(NOTE_EVENT, NULL, NULL, "log %u: Terminate %s: %s",
		         (unsigned int)(s - sides), ev->term.ours ? "sent" : "received",
		         weft_terminate_str(&ev->term, text, sizeof(text)));
		return;
	case WEFT_EV_REJECTED:
	case WEFT_EV_CONNECT_ERROR:
	case WEFT_EV_DISCONNECTED:
		/* Of a target that has joined, the log destroys the QP. */
		if (j->target >= 0) {
			weft_log_leave(s->log, j->qp);
			return;
		}
		weft_qp_destroy(j->qp);
		j->used = false;
		fail_if_waiting(&j->outcome, ev->status != 0 ? ev->status : -ECONNREFUSED);
		return;
	default:
		return;
	}
}

int
log_side_make(unsigned int n, uint32_t targets, uint32_t quorum)
{
	struct side *s = &sides[n];
	struct weft_evq_attr ea = {.size = sizeof(ea), .on_event = conn_event, .user = s};
	struct weft_log_attr la = {.size = sizeof(la),
	                           .ctx = con.stack.ctx,
	                           .pd = con.pd,
	                           .worker = con.stack.workers[con.log_worker[n]],
	                           .targets = targets,
	                           .quorum = quorum,
	                           .on_event = log_event,
	                           .user = s};
	struct weft_mr_attr ma = {
	        .size = sizeof(ma), .len_bytes = READ_BYTES, .access = WEFT_ACCESS_LOCAL_WRITE};
	int rc;

	memset(s, 0, sizeof(*s));
	s->blank.size = sizeof(s->blank);
	s->blank.targets = targets;
	s->blank.quorum = quorum;
	if (getrandom(s->blank.log_id, sizeof(s->blank.log_id), 0) < 0)
		return -errno;
	s->buf = malloc(READ_BYTES);
	if (s->buf == NULL)
		return -ENOMEM;
	ma.addr = s->buf;
	rc = weft_mr_reg(con.pd, &ma, &s->mr);
	if (rc == 0)
		rc = weft_evq_create(con.stack.ctx, &ea, &s->evq);
	if (rc == 0)
		rc = weft_log_create(&la, &s->log);
	if (rc != 0)
		log_side_destroy(n);
	return rc;
}

void
log_side_destroy(unsigned int n)
{
	struct side *s = &sides[n];

	if (s->log != NULL)
		weft_log_destroy(s->log);
	for (unsigned int i = 0; i < WEFT_LOG_MAX_TARGETS; i++)
		if (s->joins[i].used && s->joins[i].target < 0)
			weft_qp_destroy(s->joins[i].qp);
	if (s->evq != NULL)
		weft_evq_destroy(s->evq);
	if (s->mr == NULL || weft_mr_dereg(s->mr, free, s->buf) != 0)
		free(s->buf);
	memset(s, 0, sizeof(*s));
}

int
log_side_join(unsigned int n, const struct log_side_target *t, unsigned int *join)
{
	struct side *s = &sides[n];
	struct weft_qp_attr qa = {.size = sizeof(qa)};
	struct weft_conn_attr ca = {
	        .size = sizeof(ca), .timeout_us = 5000000, .keepalive_us = 5000000};
	struct join *j = NULL;
	int rc;

	for (unsigned int i = 0; i < WEFT_LOG_MAX_TARGETS && j == NULL; i++)
		if (!s->joins[i].used)
			j = &s->joins[i];
	if (j == NULL)
		return -ENOSPC;
	j->log = n;
	j->target = -1;
	j->at = *t;
	weft_log_qp_attr(s->log, &qa);
	qa.evq = s->evq;
	qa.user = j;
	rc = weft_qp_create(con.pd, &qa, &j->qp);
	if (rc != 0)
		return rc;
	decide(&j->outcome, LOG_SIDE_WAITS);
	rc = weft_connect(j->qp, (const struct sockaddr *)&t->address, addr_len(&t->address), &ca);
	if (rc != 0)
		weft_qp_destroy(j->qp);
	j->used = rc == 0;
	*join = (unsigned int)(j - s->joins);
	return rc;
}

void
log_side_join_end(unsigned int n, unsigned int join)
{
	struct side *s = &sides[n];
	struct join *j = &s->joins[join];

	if (!j->used)
		return;
	/* The event that the target is lost gives up the place. */
	if (j->target >= 0) {
		weft_log_leave(s->log, j->qp);
		return;
	}
	weft_qp_destroy(j->qp);
	j->used = false;
}

int
log_side_leave(unsigned int n, uint32_t target)
{
	struct side *s = &sides[n];

	for (unsigned int i = 0; i < WEFT_LOG_MAX_TARGETS; i++)
		if (s->joins[i].used && s->joins[i].target == (int)target)
			return weft_log_leave(s->log, s->joins[i].qp);
	return -ENOENT;
}

int
log_side_open(unsigned int n)
{
	int rc;

	decide(&sides[n].open_outcome, LOG_SIDE_WAITS);
	rc = weft_log_open(sides[n].log);
	if (rc != 0)
		decide(&sides[n].open_outcome, rc);
	return rc;
}

static void
durable(void *arg, const struct weft_log_at *at, int status)
{
	const struct append *a = arg;
	char seq[24];

	snprintf(seq, sizeof(seq), "%" PRIu64, at->seq);
	if (status == 0)
		note_add(NOTE_DONE, "record", seq, "log %u: record %s is durable", a->log, seq);
	else
		note_add(NOTE_FAILED, "record", seq, "log %u: record %s: %s", a->log, seq,
		         strerror(-status));
}

static void
released(void *arg, const struct weft_log_at *at)
{
	(void)at;
	free(arg);
}

int
log_side_append(unsigned int n, const char *text)
{
	const size_t bytes = strlen(text);
	struct append *a = malloc(sizeof(*a) + bytes + 1);
	struct weft_sge sge;
	struct weft_log_append append = {
	        .sg_list = &sge, .num_sge = 1, .durable = durable, .released = released, .arg = a};
	int rc;

	if (a == NULL)
		return -ENOMEM;
	a->log = n;
	memcpy(a->text, text, bytes + 1);
	sge = (struct weft_sge){a->text, (uint32_t)bytes, 0};
	rc = weft_log_append(sides[n].log, &append, NULL);
	if (rc != 0)
		free(a);
	return rc;
}

static void
read_over(struct side *s, int rc)
{
	const unsigned int n = (unsigned int)(s - sides);

	s->read.on = false;
	if (rc != 0)
		note_add(NOTE_FAILED, NULL, NULL, "log %u: %s: %s", n,
		         s->read.trims ? "trim" : "read",
		         s->read.trims && rc == -EINVAL ? "no record has this number, or it is not "
		                                          "durable yet"
		                                        : strerror(-rc));
	else if (s->read.trims)
		note_add(NOTE_DONE, NULL, NULL, "log %u: trim to record %" PRIu64, n,
		         s->read.at.seq);
	else
		note_add(NOTE_DONE, NULL, NULL, "log %u: %" PRIu64 " records read", n,
		         s->read.records);
}

static void read_chunk(void *arg, struct weft_log_chunk *chunk);

/** Read on. At the end of the log the read is over; a trim gives up all before it. */
static void
read_on(struct side *s)
{
	struct weft_sge sge = {s->buf, READ_BYTES, weft_mr_stag(s->mr)};
	int rc = weft_log_read(s->log, &s->read.at, &sge, read_chunk, s);

	if (rc == -ENODATA) {
		rc = 0;
		if (s->read.trims)
			rc = s->read.at.seq < s->read.seq ? -EINVAL
			                                  : weft_log_trim(s->log, &s->read.at);
		read_over(s, rc);
	} else if (rc != 0) {
		read_over(s, rc);
	}
}

static void
read_chunk(void *arg, struct weft_log_chunk *chunk)
{
	struct side *s = arg;
	struct weft_log_record rec;
	char text[VAR_BYTES];

	while (chunk->status == 0 && weft_log_chunk_next(chunk, &rec) == 1) {
		if (rec.at.seq < s->read.seq)
			continue;
		if (s->read.trims) {
			s->read.at = rec.at;
			read_over(s, weft_log_trim(s->log, &rec.at));
			return;
		}
		s->read.records++;
		snprintf(text, sizeof(text), "%.*s", (int)rec.len_bytes, (const char *)rec.data);
		note_add(NOTE_EVENT, "recv", text, "log %u: record %" PRIu64 ": %s",
		         (unsigned int)(s - sides), rec.at.seq, text);
	}
	s->read.at = chunk->at;
	if (chunk->status != 0)
		read_over(s, chunk->status);
	else
		read_on(s);
}

int
log_side_read(unsigned int n, uint64_t seq, bool trim)
{
	struct side *s = &sides[n];
	struct weft_log_info in;

	weft_log_query(s->log, &in);
	if (in.state != WEFT_LOG_OPENED)
		return in.state == WEFT_LOG_FAILED ? -EPIPE : -ENOTCONN;
	if (s->read.on)
		return -EALREADY;
	s->read.on = true;
	s->read.trims = trim;
	s->read.seq = seq;
	s->read.records = 0;
	s->read.at = in.head;
	read_on(s);
	return 0;
}

void
log_side_query(unsigned int n, struct weft_log_info *in)
{
	weft_log_query(sides[n].log, in);
}
