/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What the control socket tells of connections, clients and limits. Each worker copies a row
 * of each of its connections; the rest is done on the control thread. */

#include <stdlib.h>
#include <string.h>

#include "addr.h"
#include "target.h"
#include "target_control.h"
#include "target_grant.h"
#include "target_volume.h"

#define CONNS_MORE 64U /* rows for connections that come meanwhile */
#define TOP        5U  /* clients of a limit */
/* The library's defaults (weft_tcp_attr, weft_listen_attr). */
#define CONNS_DEFAULT 1024U
#define PEER_LEAST    8U

/** One connection, as its worker saw it. */
struct control_conn {
	char peer[64], host[ADDR_STR_MAX], name[HOST_AUTH_NAME_MAX + 1];
	bool is_log, holds[CONF_EXPORTS_MAX];
	enum weft_qp_state state;
	uint32_t qpn, grants, windows, tickets, srtt_us, unacked_bytes;
	uint64_t recv_bytes, sent_bytes, recv_msgs, sent_msgs, retrans_segs;
};

bool
control_conns_prepare(struct control_job *job)
{
	const uint32_t n = atomic_load_explicit(&job->t->nconns, memory_order_relaxed) + CONNS_MORE;

	/* Any of them may be on any worker. What is not written to takes no memory. */
	for (uint32_t i = 0; i < job->t->stack.nworkers; i++) {
		job->part[i].rows = calloc(n, sizeof(struct control_conn));
		job->part[i].max_rows = n;
		if (job->part[i].rows == NULL)
			return ctl_fail(&job->fault, CTL_INTERNAL, "out of memory");
	}
	return true;
}

static void
conn_row(const struct target *t, const struct target_conn *c, struct control_conn *row)
{
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
	LIST_FOREACH (g, &c->grants, link)
		row->holds[g->ex - t->exports] = true;
	LIST_FOREACH (v, &c->vgrants, link) {
		row->holds[v->ex - t->exports] = true;
		row->windows += v->nwindows;
	}
}

void
control_conns_collect(struct control_part *part)
{
	const struct target_conn *c;

	LIST_FOREACH (c, &part->tw->conns, link)
		if (part->nrows < part->max_rows)
			conn_row(part->tw->t, c, &part->rows[part->nrows++]);
		else
			part->left_out++;
}

/* ---- On the control thread ---- */

/** Add the names of the exports that the row holds. */
static void
add_exports(struct target *t, const struct control_conn *row, json_t *names)
{
	pthread_mutex_lock(&t->exports_lock);
	for (uint32_t i = 0; i < target_nexports(t); i++) {
		const char *name;
		size_t k = 0;

		if (!row->holds[i] || target_export_gone(&t->exports[i]))
			continue;
		name = t->exports[i].conf->name;
		while (k < json_array_size(names) &&
		       strcmp(json_string_value(json_array_get(names, k)), name) != 0)
			k++;
		if (k == json_array_size(names))
			(void)json_array_append_new(names, json_string(name));
	}
	pthread_mutex_unlock(&t->exports_lock);
}

static json_int_t
left_out(const struct control_job *job)
{
	json_int_t n = 0;

	for (uint32_t i = 0; i < job->t->stack.nworkers; i++)
		n += job->part[i].left_out;
	return n;
}

void
control_connections(struct control_job *job)
{
	json_t *rows = json_array();

	for (uint32_t i = 0; i < job->t->stack.nworkers; i++)
		for (uint32_t k = 0; k < job->part[i].nrows; k++) {
			const struct control_conn *c = &job->part[i].rows[k];
			json_t *exports = json_array();

			add_exports(job->t, c, exports);
			(void)json_array_append_new(
			        rows,
			        json_pack("{s:s, s:s, s:i, s:s, s:s, s:i, s:o, s:I, s:I, s:I, s:I, "
			                  "s:I, s:I, s:I, s:I, s:i, s:i}",
			                  "peer", c->peer, "client", c->name, "worker", (int)i,
			                  "kind", c->is_log ? "log" : "rpc", "state",
			                  weft_qp_state_str(c->state), "grants", (int)c->grants,
			                  "exports", exports, "recv_bytes",
			                  (json_int_t)c->recv_bytes, "sent_bytes",
			                  (json_int_t)c->sent_bytes, "recv_msgs",
			                  (json_int_t)c->recv_msgs, "sent_msgs",
			                  (json_int_t)c->sent_msgs, "qpn", (json_int_t)c->qpn,
			                  "srtt_us", (json_int_t)c->srtt_us, "retrans_segs",
			                  (json_int_t)c->retrans_segs, "unacked_bytes",
			                  (json_int_t)c->unacked_bytes, "windows", (int)c->windows,
			                  "tickets", (int)c->tickets));
		}
	control_job_result(job,
	                   json_pack("{s:o, s:I}", "connections", rows, "left_out", left_out(job)));
}

static void
add_to(json_t *object, const char *key, uint64_t n)
{
	json_t *v = json_object_get(object, key);

	(void)json_integer_set(v, json_integer_value(v) + (json_int_t)n);
}

/** An object of the clients, by name or else by address. NULL: no memory. */
static json_t *
clients_of(const struct control_job *job)
{
	json_t *all = json_object();

	for (uint32_t i = 0; i < job->t->stack.nworkers; i++)
		for (uint32_t k = 0; k < job->part[i].nrows; k++) {
			const struct control_conn *c = &job->part[i].rows[k];
			/* A name may look like an address. */
			const bool named = c->name[0] != '\0';
			char key[sizeof(c->name) + ADDR_STR_MAX + 1];
			json_t *one;

			snprintf(key, sizeof(key), "%c%s", named ? '=' : '@',
			         named ? c->name : c->host);
			one = json_object_get(all, key);
			if (one == NULL) {
				one = json_pack("{s:s, s:b, s:i, s:i, s:[], s:i, s:i, s:i, s:i, "
				                "s:i}",
				                "client", key + 1, "authenticated", (int)named,
				                "connections", 0, "grants", 0, "exports",
				                "recv_bytes", 0, "sent_bytes", 0, "recv_msgs", 0,
				                "sent_msgs", 0, "windows", 0);
				if (one == NULL || json_object_set_new(all, key, one) != 0)
					continue;
			}
			add_to(one, "connections", 1);
			add_to(one, "grants", c->grants);
			add_to(one, "recv_bytes", c->recv_bytes);
			add_to(one, "sent_bytes", c->sent_bytes);
			add_to(one, "recv_msgs", c->recv_msgs);
			add_to(one, "sent_msgs", c->sent_msgs);
			add_to(one, "windows", c->windows);
			add_exports(job->t, c, json_object_get(one, "exports"));
		}
	return all;
}

/** The values of an object as an array. */
static json_t *
values_of(const json_t *object)
{
	json_t *array = json_array(), *value;
	const char *key;

	json_object_foreach((json_t *)object, key, value)(void) json_array_append(array, value);
	return array;
}

void
control_clients(struct control_job *job)
{
	json_t *all = clients_of(job);

	control_job_result(
	        job, json_pack("{s:o, s:I}", "clients", values_of(all), "left_out", left_out(job)));
	json_decref(all);
}

/* ---- Limits ---- */

/** The clients with the most of a member, as "NAME: N"; *most: that of the first. */
static json_t *
top_of(const json_t *clients, const char *member, uint64_t *most)
{
	json_t *who = json_array();
	const json_t *taken[TOP] = {NULL};

	*most = 0;
	for (unsigned int n = 0; n < TOP; n++) {
		const json_t *best = NULL;
		json_t *one;
		size_t i;
		char text[128];

		json_array_foreach((json_t *)clients, i, one)
		{
			bool seen = false;

			for (unsigned int k = 0; k < n; k++)
				seen = seen || taken[k] == one;
			if (!seen && (best == NULL ||
			              json_integer_value(json_object_get(one, member)) >
			                      json_integer_value(json_object_get(best, member))))
				best = one;
		}
		if (best == NULL || json_integer_value(json_object_get(best, member)) == 0)
			break;
		taken[n] = best;
		if (n == 0)
			*most = (uint64_t)json_integer_value(json_object_get(best, member));
		snprintf(text, sizeof(text), "%s: %lld",
		         json_string_value(json_object_get(best, "client")),
		         (long long)json_integer_value(json_object_get(best, member)));
		(void)json_array_append_new(who, json_string(text));
	}
	return who;
}

#define NOT_KNOWN UINT64_MAX /* null in the answer */

static json_t *
limit_number(uint64_t n)
{
	return n == NOT_KNOWN ? json_null() : json_integer((json_int_t)n);
}

static void
limit_add(json_t *rows, const char *limit, uint64_t now, uint64_t max, uint64_t refused,
          const char *key, json_t *who)
{
	(void)json_array_append_new(rows,
	                            json_pack("{s:s, s:o, s:o, s:I, s:s, s:o}", "limit", limit,
	                                      "now", limit_number(now), "max", limit_number(max),
	                                      "refused", (json_int_t)refused, "key", key, "who",
	                                      who != NULL ? who : json_array()));
}

static void
limits_memory(struct target *t, json_t *rows)
{
	struct weft_rpc_budget_info calls = {0}, one;
	struct weft_rpc_drc_info drc;
	uint64_t free_bytes = 0, windows = 0, open = 0, waited = 0, shed = 0;
	bool volumes = false;

	for (uint32_t i = 0; i < t->stack.nworkers; i++) {
		const struct target_vworker *vw = t->workers[i].volumes;

		weft_rpc_budget_info(t->workers[i].budget, &one);
		calls.limit_bytes += one.limit_bytes;
		calls.held_bytes += one.held_bytes;
		calls.shed += one.shed;
		calls.refused += one.refused;
		if (vw == NULL)
			continue;
		volumes = true;
		free_bytes += atomic_load_explicit(&vw->shown[TARGET_VSHOWN_STAGING_FREE],
		                                   memory_order_relaxed);
		windows += atomic_load_explicit(&vw->shown[TARGET_VSHOWN_WINDOWS],
		                                memory_order_relaxed);
		open += atomic_load_explicit(&vw->shown[TARGET_VSHOWN_WINDOWS_OPEN],
		                             memory_order_relaxed);
		shed += atomic_load_explicit(&vw->staging_shed, memory_order_relaxed);
		waited += atomic_load_explicit(&vw->windows_waited, memory_order_relaxed);
	}
	weft_rpc_drc_info(t->drc, &drc);
	limit_add(rows, "octets of calls and answers", calls.held_bytes, calls.limit_bytes,
	          calls.shed + calls.refused, "", NULL);
	limit_add(rows, "replies that are kept", drc.replies, drc.max_replies, drc.evicted, "",
	          NULL);
	if (!volumes)
		return;
	limit_add(rows, "octets of staging for reads",
	          t->conf.target.staging_bytes / 2 - free_bytes, t->conf.target.staging_bytes / 2,
	          shed, "staging", NULL);
	limit_add(rows, "windows of volumes", open, windows, waited, "window", NULL);
}

void
control_limits(struct control_job *job)
{
	struct target *t = job->t;
	const struct control_counters *control = t->control_counters;
	const uint64_t per_worker =
	        t->conf.tcp.max_conns != 0 ? t->conf.tcp.max_conns : CONNS_DEFAULT;
	uint64_t of_peer = t->conf.target.max_conns_per_peer, most, exports = 0;
	json_t *rows = json_array(), *all = clients_of(job), *clients = values_of(all), *who;
	struct quota_stats s;

	if (of_peer == 0)
		of_peer = per_worker / 2 > PEER_LEAST ? per_worker / 2 : PEER_LEAST;
	quota_stats(t->quota, &s);
	who = top_of(clients, "connections", &most);
	limit_add(rows, "connections", atomic_load_explicit(&t->nconns, memory_order_relaxed),
	          per_worker * t->stack.nworkers, 0, "max_conns", who);
	limit_add(rows, "connections of a client", most, of_peer * t->stack.nworkers, 0,
	          "max_conns_per_peer", json_incref(who));
	who = top_of(clients, "grants", &most);
	limit_add(rows, "grants", s.grants, s.grants_max, s.refused_all, "", who);
	limit_add(rows, "grants of a client", most, t->conf.target.max_grants_per_client,
	          s.refused_client + s.refused_net, "max_grants_per_client", json_incref(who));
	for (uint32_t i = 0; i < target_nexports(t); i++)
		exports += !target_export_gone(&t->exports[i]);
	limit_add(rows, "exports", exports, CONF_EXPORTS_MAX, 0, "", NULL);
	limit_add(rows, "OPENs of a client in a second", NOT_KNOWN,
	          t->conf.target.max_opens_per_s != 0 ? t->conf.target.max_opens_per_s : NOT_KNOWN,
	          s.opens_limited, "max_opens_per_s", NULL);
	limits_memory(t, rows);
	limit_add(rows, "clients of the control socket",
	          atomic_load_explicit(&control->clients, memory_order_relaxed), CONTROL_CLIENTS,
	          atomic_load_explicit(&control->refused, memory_order_relaxed), "", NULL);
	json_decref(clients);
	json_decref(all);
	control_job_result(job, json_pack("{s:o}", "limits", rows));
}
