/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Appends to a remote log on one target; a record is durable when its completion comes. */

#include <errno.h>
#include <string.h>

#include "client.h"
#include "client_wait.h"
#include "ui.h"

static void
log_event(void *user, const struct weft_log_event *ev)
{
	struct client *c = user;

	switch (ev->type) {
	case WEFT_LOG_EV_OPEN:
		c->log_open = true;
		break;
	case WEFT_LOG_EV_LOST:
		c->qp = NULL;
		/* fall through */
	case WEFT_LOG_EV_FAILED:
		if (!c->dead)
			c->err = ev->status;
		c->dead = true;
		break;
	default:
		break;
	}
}

static void
log_durable(void *arg, const struct weft_log_at *at, int status)
{
	struct client *c = arg;

	if (status != 0)
		return; /* the FAILED event has the reason */
	c->log_at = *at;
	c->f.completed++;
}

int
client_log_make(struct client *c, struct weft_ctx *ctx, struct weft_qp_attr *qa)
{
	struct weft_log_attr la = {.size = sizeof(la),
	                           .ctx = ctx,
	                           .pd = c->pd,
	                           .worker = c->w,
	                           .max_appends = c->job.depth,
	                           .max_sge = 1,
	                           .targets = c->job.hosts != NULL ? c->job.hosts->n : 1,
	                           .quorum = c->job.hosts != NULL ? c->job.hosts->quorum : 1,
	                           .flush_flags = c->job.visible ? WEFT_FLUSH_VISIBLE
	                                                         : WEFT_FLUSH_PERSISTENT,
	                           .on_event = log_event,
	                           .user = c};
	int rc = weft_log_create(&la, &c->log);

	if (rc != 0)
		return rc;
	weft_log_qp_attr(c->log, qa);
	qa->evq = c->loop->evq;
	qa->user = c;
	return 0;
}

static bool
log_joined(const struct client *c)
{
	struct weft_log_info info;

	weft_log_query(c->log, &info);
	return info.target[0].state == WEFT_LOG_TARGET_JOINED;
}

static bool
log_is_open(const struct client *c)
{
	return c->log_open;
}

int
client_log_open(struct client *c)
{
	struct weft_log_info info;
	int rc = weft_log_open(c->log);

	if (rc == 0)
		rc = client_wait(c, log_is_open);
	if (rc != 0)
		return rc;
	weft_log_query(c->log, &info);
	c->log_ring_bytes = info.ring_bytes;
	c->log_trimmed = c->log_at = info.head;
	return 0;
}

int
client_log_begin(struct client *c)
{
	struct weft_log_super super = {
	        .size = sizeof(super), .log_id = "weft-perf log", .target_id = "weft-perf target"};
	struct weft_log_target t = {.size = sizeof(t),
	                            .qp = c->qp,
	                            .stag = c->server.stag,
	                            .to = c->server.to,
	                            .len_bytes = c->server.len_bytes,
	                            .format = &super};
	int rc;

	if (!c->server.persistent && !c->job.visible)
		return -EMEDIUMTYPE;
	rc = weft_log_join(c->log, &t);
	c->log_joined = rc >= 0;
	if (rc >= 0)
		rc = client_wait(c, log_joined);
	return rc == 0 ? client_log_open(c) : rc;
}

int
client_log_append(struct client *c)
{
	struct weft_sge sge = {c->mem, c->job.size_bytes, c->lkey};
	struct weft_log_append a = {
	        .sg_list = &sge, .num_sge = 1, .durable = log_durable, .arg = c};
	int rc;

	if (c->log_at.position - c->log_trimmed.position > c->log_ring_bytes / 2) {
		rc = weft_log_trim(c->log, &c->log_at);
		if (rc < 0)
			return rc;
		c->log_trimmed = c->log_at;
	}
	rc = weft_log_append(c->log, &a, NULL);
	return rc == -ENOSPC ? -EAGAIN : rc;
}

void
client_log_end(struct client *c)
{
	if (c->log == NULL)
		return;
	weft_log_destroy(c->log);
	c->log = NULL;
	if (c->log_joined)
		c->qp = NULL;
}
