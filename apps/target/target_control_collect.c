/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What a worker does for the control socket with its connections: it copies them, and what
 * clients were charged on exports that have rates, or closes those of one client. It looks at
 * CONTROL_SLICE of them in one poll, so that no poll becomes long, however many there are. Each one
 * that is there from the first slice to the last is looked at once. */

#include <string.h>

#include "addr.h"
#include "rate.h"
#include "target.h"
#include "target_control_conns.h"
#include "target_grant.h"
#include "target_rate.h"
#include "target_volume.h"

/** The next connection; NULL: there is none. *more: of how many it may be one in this poll. */
static struct target_conn *
next_conn(struct control_part *part, unsigned int *more)
{
	struct target_conn *c = part->next_conn;

	if (c == NULL || *more == 0)
		return NULL;
	--*more;
	part->next_conn = LIST_NEXT(c, link);
	return c;
}

static void
look_begin(struct control_part *part)
{
	if (part->looks)
		return;
	part->looks = true;
	part->next_conn = LIST_FIRST(&part->tw->conns);
	LIST_INSERT_HEAD(&part->tw->looking, part, looking);
}

static void
look_end(struct control_part *part)
{
	part->looks = false;
	LIST_REMOVE(part, looking);
}

void
target_control_conn_gone(const struct target_conn *c)
{
	struct control_part *part;

	LIST_FOREACH (part, &c->w->looking, looking)
		if (part->next_conn == c)
			part->next_conn = LIST_NEXT(c, link);
}

void
target_control_stopped(struct target *t)
{
	for (uint32_t i = 0; i < t->stack.nworkers; i++) {
		struct control_part *part;

		while ((part = LIST_FIRST(&t->workers[i].looking)) != NULL) {
			look_end(part);
			rate_walk_end(&part->walk);
			if (part->alarm != NULL)
				weft_alarm_cancel(part->alarm);
			control_job_put(part->job);
		}
	}
}

/* ---- Rows ---- */

/** A connection holds an export; once for each grant. False: there is no room. */
static bool
row_hold(struct control_part *part, struct control_conn *row, const struct target_export *ex)
{
	if (part->nholds == part->max_holds)
		return false;
	part->holds[part->nholds++] = (uint32_t)(ex - part->tw->t->exports);
	row->nholds++;
	return true;
}

/** False: there was no room for all of the exports that it holds. */
static bool
conn_row(struct control_part *part, const struct target_conn *c, struct control_conn *row)
{
	bool room = true;
	const struct target_grant *g;
	const struct target_vgrant *v;
	struct weft_qp_info info;

	weft_qp_query(c->qp, &info);
	memcpy(row->peer, c->peer, sizeof(row->peer));
	addr_host_str(&c->remote, row->host);
	if (c->auth.state == HOST_AUTH_DONE)
		memcpy(row->name, c->auth.name, sizeof(row->name));
	row->is_log = c->rpc == NULL;
	row->state = info.state;
	row->qpn = info.qpn;
	row->grants = c->ngrants;
	row->tickets = atomic_load_explicit(&c->ntickets, memory_order_relaxed);
	row->srtt_us = info.srtt_us;
	row->unacked_bytes = info.unacked_bytes;
	row->recv_bytes = info.recv_bytes;
	row->sent_bytes = info.sent_bytes;
	row->recv_msgs = info.recv_msgs;
	row->sent_msgs = info.sent_msgs;
	row->retrans_segs = info.retrans_segs;
	row->hold_at = part->nholds;
	LIST_FOREACH (g, &c->grants, link)
		room = row_hold(part, row, g->ex) && room;
	LIST_FOREACH (v, &c->vgrants, link) {
		room = row_hold(part, row, v->ex) && room;
		row->windows += v->nwindows;
	}
	return room;
}

/** A slice of the rows; whether that was the last one. */
static bool
rows_copy(struct control_part *part)
{
	unsigned int more = CONTROL_SLICE;
	const struct target_conn *c;

	look_begin(part);
	while ((c = next_conn(part, &more)) != NULL)
		if (part->nrows == part->max_rows || !conn_row(part, c, &part->rows[part->nrows++]))
			part->left_out++;
	return part->next_conn == NULL;
}

bool
control_conns_collect(struct control_part *part)
{
	if (!rows_copy(part))
		return false;
	look_end(part);
	return true;
}

/* ---- Clients of limited exports ---- */

/** A client of an export; counts it where there is no room. */
static bool
lane_row(void *arg, const struct quota_id *id, uint64_t ops, uint64_t bytes, bool waits)
{
	struct control_part *part = arg;

	if (part->nlanes == part->max_lanes) {
		part->left_out++;
		return true;
	}
	part->lanes[part->nlanes++] =
	        (struct control_lane){.export = part->job->limited[part->next_limited],
	                              .id = *id,
	                              .ops = ops,
	                              .bytes = bytes,
	                              .waits = waits};
	return true;
}

bool
control_limits_collect(struct control_part *part)
{
	const struct target *t = part->tw->t;
	const struct control_job *job = part->job;
	unsigned int more = CONTROL_SLICE;

	if (!part->conns_done) {
		part->conns_done = rows_copy(part);
		return false;
	}
	while (part->next_limited < job->nlimited && more > 0) {
		more -= target_rate_clients(part->tw, &t->exports[job->limited[part->next_limited]],
		                            &part->walk, more, lane_row, part);
		if (part->walk.open)
			continue;
		part->next_limited++;
		more -= more > 0;
	}
	if (part->next_limited < job->nlimited)
		return false;
	/* A second sample begins anew. */
	part->next_limited = 0;
	part->conns_done = false;
	look_end(part);
	return true;
}

/* ---- One client's connections end ---- */

/** Whether a connection belongs to who is named: a name, an address, or address and port. */
static bool
drop_meant(const struct target_conn *c, const char *who)
{
	char host[ADDR_STR_MAX];

	if (c->auth.state == HOST_AUTH_DONE && strcmp(c->auth.name, who) == 0)
		return true;
	return strcmp(c->peer, who) == 0 || strcmp(addr_host_str(&c->remote, host), who) == 0;
}

bool
control_drop_collect(struct control_part *part)
{
	/* The worker reads the parameter; no thread writes it while the job exists. */
	const char *who = control_param(part->job, "client");
	unsigned int more = CONTROL_SLICE;
	struct target_conn *c;

	look_begin(part);
	while ((c = next_conn(part, &more)) != NULL) {
		if (!drop_meant(c, who))
			continue;
		part->closed++;
		/* At once: a peer that does not answer any more could delay an end in order. */
		part->tw->ops->close(c);
	}
	if (part->next_conn != NULL)
		return false;
	look_end(part);
	return true;
}
