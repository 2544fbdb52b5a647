/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What the control socket tells of limits, and of the clients at them. Each worker copies
 * its connections, and what clients were charged on exports that have limits
 * (target_control_collect.c). */

#include <stdlib.h>
#include <string.h>

#include "rate.h"
#include "target.h"
#include "target_control_conns.h"
#include "target_nvmf.h"
#include "target_volume.h"

#define TOP       5U    /* clients of a limit */
#define LANES_MAX 8192U /* clients of limited exports that a worker tells of */
/* The library's defaults (weft_tcp_attr, weft_listen_attr). */
#define CONNS_DEFAULT 1024U
#define PEER_LEAST    8U

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
		snprintf(text, sizeof(text), "%s: %lld%s",
		         json_string_value(json_object_get(best, "client")),
		         (long long)json_integer_value(json_object_get(best, member)),
		         json_is_true(json_object_get(best, "waits")) ? ", waits" : "");
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

/* ---- Limits of exports ---- */

static bool
has_rates(const struct conf_export *c)
{
	return (c->max_bytes_per_s | c->client_bytes_per_s | c->max_ops_per_s |
	        c->client_ops_per_s) != 0;
}

/** The exports that have rates: workers look at no others. */
static bool
limited_find(struct control_job *job)
{
	struct target *t = job->t;
	const uint32_t n = target_nexports(t);

	free(job->limited);
	job->nlimited = 0;
	job->limited = malloc((n + 1) * sizeof(*job->limited));
	if (job->limited == NULL)
		return false;
	pthread_mutex_lock(&t->exports_lock);
	for (uint32_t i = 0; i < n; i++)
		if (!target_export_gone(&t->exports[i]) && has_rates(t->exports[i].conf))
			job->limited[job->nlimited++] = i;
	pthread_mutex_unlock(&t->exports_lock);
	return true;
}

bool
control_limits_prepare(struct control_job *job)
{
	bool ok = limited_find(job);

	for (uint32_t i = 0; i < job->t->stack.nworkers && ok; i++) {
		/* What is not written to takes no memory. */
		job->part[i].lanes = calloc(LANES_MAX, sizeof(struct control_lane));
		job->part[i].max_lanes = LANES_MAX;
		ok = job->part[i].lanes != NULL;
	}
	return ok ? control_conns_prepare(job)
	          : ctl_fail(&job->fault, CTL_INTERNAL, "out of memory");
}

void
control_limits_sample(struct control_job *job)
{
	control_conns_sample(job);
	control_exports_sample(job);
	for (uint32_t i = 0; i < job->t->stack.nworkers; i++) {
		struct control_part *part = &job->part[i];

		part->lanes_before = part->lanes;
		part->nlanes_before = part->nlanes;
		part->lanes = NULL;
		part->nlanes = 0;
	}
}

/** The object of a client of an export. NULL: no memory. */
static json_t *
one_of(json_t *all, const char *client)
{
	json_t *one = json_object_get(all, client);

	if (one == NULL) {
		one = json_pack("{s:s, s:i, s:i, s:i}", "client", client, "bytes", 0, "ops", 0,
		                "conns", 0);
		if (one != NULL && json_object_set_new(all, client, one) != 0)
			return NULL;
	}
	return one;
}

/** What the lane was charged until the first sample. It began anew if that is more than now. Lanes
 * mostly keep their places: the search begins at that of now. */
static struct control_lane
lane_before(const struct control_part *part, const struct control_lane *l)
{
	const uint32_t n = part->nlanes_before, at = (uint32_t)(l - part->lanes);

	for (uint32_t i = 0; i < n; i++) {
		const struct control_lane *b = &part->lanes_before[(at + i) % n];

		if (b->export == l->export && b->id.bytes == l->id.bytes &&
		    memcmp(b->id.octets, l->id.octets, l->id.bytes) == 0 && b->ops <= l->ops)
			return *b;
	}
	return (struct control_lane){0};
}

static bool
conn_holds(const struct control_part *part, const struct control_conn *c, uint32_t slot)
{
	for (uint32_t i = 0; i < c->nholds; i++)
		if (part->holds[c->hold_at + i] == slot)
			return true;
	return false;
}

/** The clients of an export: their rates in the time that was measured, and their connections. */
static json_t *
clients_at(const struct control_job *job, uint32_t slot)
{
	json_t *all = json_object();

	for (uint32_t i = 0; i < job->t->stack.nworkers; i++) {
		const struct control_part *part = &job->part[i];

		for (uint32_t k = 0; k < part->nlanes; k++) {
			const struct control_lane *l = &part->lanes[k];
			char name[QUOTA_ID_STR_MAX];
			json_t *one;

			if (l->export != slot ||
			    (one = one_of(all, quota_id_str(&l->id, name))) == NULL)
				continue;
			if (job->took_s > 0) {
				const struct control_lane b = lane_before(part, l);

				control_add_to(one, "bytes",
				               (uint64_t)((double)control_since(b.bytes, l->bytes) /
				                          job->took_s));
				control_add_to(one, "ops",
				               (uint64_t)((double)control_since(b.ops, l->ops) /
				                          job->took_s));
			}
			if (l->waits)
				json_object_set_new(one, "waits", json_true());
		}
		for (uint32_t k = 0; k < part->nrows; k++) {
			const struct control_conn *c = &part->rows[k];
			json_t *one = conn_holds(part, c, slot)
			                      ? one_of(all, c->name[0] != '\0' ? c->name : c->host)
			                      : NULL;

			if (one != NULL)
				control_add_to(one, "conns", 1);
		}
	}
	return all;
}

/** A rate of an export, and that of each client. */
static void
limits_rate(const struct control_job *job, uint32_t slot, const json_t *clients, const char *of,
            uint64_t max, uint64_t client_max, uint64_t now)
{
	const struct target *t = job->t;
	const bool bytes = strcmp(of, "bytes") == 0;
	const char *name = t->exports[slot].conf->name, *what = bytes ? "octets" : "operations";
	const uint64_t waits = atomic_load_explicit(&t->rates[slot].waits, memory_order_relaxed);
	char limit[CONF_NAME_MAX + 64];
	uint64_t most;
	json_t *who;

	if (max == 0 && client_max == 0)
		return;
	who = top_of(clients, of, &most);
	snprintf(limit, sizeof(limit), "export %s: %s in a second", name, what);
	if (max != 0)
		limit_add(job->rows, limit, job->took_s > 0 ? now : NOT_KNOWN, max, waits,
		          bytes ? "max_bytes_per_s" : "max_ops_per_s", json_incref(who));
	snprintf(limit, sizeof(limit), "export %s: %s of a client in a second", name, what);
	if (client_max != 0)
		limit_add(job->rows, limit, job->took_s > 0 ? most : NOT_KNOWN, client_max, waits,
		          bytes ? "client_bytes_per_s" : "client_ops_per_s", json_incref(who));
	json_decref(who);
}

static uint64_t
limit_rate(const struct control_job *job, uint64_t was, const atomic_ullong *now)
{
	return (uint64_t)((double)control_since(was,
	                                        atomic_load_explicit(now, memory_order_relaxed)) /
	                  job->took_s);
}

static void
limits_export(const struct control_job *job, uint32_t slot)
{
	const struct target_export *ex = &job->t->exports[slot];
	const struct rate_export *x = &job->t->rates[slot];
	const struct control_export_sample *b = job->before != NULL ? &job->before[slot] : NULL;
	const struct conf_export *c = ex->conf;
	char limit[CONF_NAME_MAX + 64];
	json_t *all, *clients;
	uint64_t most, bytes = 0, ops = 0;

	if (!has_rates(c) && c->max_conns == 0)
		return;
	if (b != NULL && job->took_s > 0) {
		bytes = limit_rate(job, b->charged_bytes, &x->bytes);
		ops = limit_rate(job, b->charged_ops, &x->ops);
	}
	all = clients_at(job, slot);
	clients = control_values_of(all);
	limits_rate(job, slot, clients, "bytes", c->max_bytes_per_s, c->client_bytes_per_s, bytes);
	limits_rate(job, slot, clients, "ops", c->max_ops_per_s, c->client_ops_per_s, ops);
	if (c->max_conns != 0) {
		snprintf(limit, sizeof(limit), "export %s: connections", c->name);
		limit_add(job->rows, limit, atomic_load_explicit(&ex->conns, memory_order_relaxed),
		          c->max_conns,
		          atomic_load_explicit(&ex->conns_refused, memory_order_relaxed),
		          "max_conns", top_of(clients, "conns", &most));
	}
	json_decref(clients);
	json_decref(all);
}

void
control_limits(struct control_job *job)
{
	struct target *t = job->t;
	const struct control_counters *control = t->control_counters;
	const uint64_t per_worker =
	        t->conf.tcp.max_conns != 0 ? t->conf.tcp.max_conns : CONNS_DEFAULT;
	uint64_t of_peer = t->conf.target.max_conns_per_peer, most, exports = 0;
	json_t *rows = json_array(), *all = control_clients_of(job),
	       *clients = control_values_of(all), *who;
	struct weft_nvmf_stats hosts;
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
	limit_add(rows, "exports", exports, CONF_EXPORTS_MAX,
	          atomic_load_explicit(&t->exports_refused, memory_order_relaxed), "", NULL);
	limit_add(rows, "OPENs of a client in a second", NOT_KNOWN,
	          t->conf.target.max_opens_per_s != 0 ? t->conf.target.max_opens_per_s : NOT_KNOWN,
	          s.opens_limited, "max_opens_per_s", NULL);
	limits_memory(t, rows);
	if (t->nvmf != NULL) {
		weft_nvmf_query_stats(t->nvmf->nvmf, &hosts);
		limit_add(rows, "controllers of NVMe hosts", hosts.ctrls,
		          t->conf.nvmf.max_controllers, hosts.refused_limit, "max_controllers",
		          NULL);
		limit_add(rows, "queues of NVMe hosts", hosts.queues, t->conf.nvmf.max_queues, 0,
		          "max_queues", NULL);
	}
	limit_add(rows, "clients of the control socket",
	          atomic_load_explicit(&control->clients, memory_order_relaxed), CONTROL_CLIENTS,
	          atomic_load_explicit(&control->refused, memory_order_relaxed), "", NULL);
	json_decref(clients);
	json_decref(all);
	job->rows = rows;
	pthread_mutex_lock(&t->exports_lock);
	for (uint32_t i = 0; i < target_nexports(t); i++)
		if (!target_export_gone(&t->exports[i]))
			limits_export(job, i);
	pthread_mutex_unlock(&t->exports_lock);
	control_job_result(job, json_pack("{s:I, s:I, s:o}", "interval_ms",
	                                  (json_int_t)(job->took_s * 1000), "left_out",
	                                  control_left_out(job), "limits", rows));
}
