/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What the control socket tells of connections and clients. Each worker copies a row of each
 * of its connections (target_control_collect.c); the rest is done here, on the control thread. */

#include <stdlib.h>
#include <string.h>

#include "addr.h"
#include "target.h"
#include "target_control_conns.h"
#include "target_grant.h"
#include "target_volume.h"

#define CONNS_MORE 64U   /* rows for connections that come meanwhile */
#define HOLDS_MORE 1024U /* likewise for grants, and for those that end */

bool
control_conns_prepare(struct control_job *job)
{
	const uint32_t n = atomic_load_explicit(&job->t->nconns, memory_order_relaxed) + CONNS_MORE;
	struct quota_stats s;

	quota_stats(job->t->quota, &s);
	/* Any of them may be on any worker. What is not written to takes no memory. */
	for (uint32_t i = 0; i < job->t->stack.nworkers; i++) {
		job->part[i].rows = calloc(n, sizeof(struct control_conn));
		job->part[i].max_rows = n;
		job->part[i].max_holds = 2 * s.grants + HOLDS_MORE;
		job->part[i].holds = calloc(job->part[i].max_holds, sizeof(uint32_t));
		if (job->part[i].rows == NULL || job->part[i].holds == NULL)
			return ctl_fail(&job->fault, CTL_INTERNAL, "out of memory");
	}
	return true;
}

static int
by_number(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/** Add the names of the exports that the row holds to an object, as keys. */
static void
add_exports(const struct control_part *part, const struct control_conn *row, json_t *names)
{
	struct target *t = part->tw->t;
	uint32_t *holds = part->holds + row->hold_at;

	qsort(holds, row->nholds, sizeof(*holds), by_number);
	pthread_mutex_lock(&t->exports_lock);
	for (uint32_t i = 0; i < row->nholds; i++)
		if (!target_export_gone(&t->exports[holds[i]]))
			(void)json_object_set_new(names, t->exports[holds[i]].conf->name,
			                          json_true());
	pthread_mutex_unlock(&t->exports_lock);
}

/** The keys of an object as an array; takes the object. */
static json_t *
keys_of(json_t *object)
{
	json_t *array = json_array(), *value;
	const char *key;

	json_object_foreach(object, key, value)(void)
	        json_array_append_new(array, json_string(key));
	json_decref(object);
	return array;
}

json_int_t
control_left_out(const struct control_job *job)
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
			json_t *exports = json_object();

			add_exports(&job->part[i], c, exports);
			exports = keys_of(exports);
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
	control_job_result(job, json_pack("{s:o, s:I}", "connections", rows, "left_out",
	                                  control_left_out(job)));
}

/** The connection as it was in the first sample, from *at on: rows keep their order, and new
 * connections are in front. NULL: it is new. */
static const struct control_conn *
conn_before(const struct control_part *part, const struct control_conn *c, uint32_t *at)
{
	for (uint32_t i = *at; i < part->nbefore; i++)
		if (part->before[i].qpn == c->qpn) {
			*at = i + 1;
			return &part->before[i];
		}
	return NULL;
}

/** The client of a connection in an object of all of them. NULL: no memory. */
static json_t *
client_of(json_t *all, const struct control_conn *c)
{
	/* A name may look like an address. */
	const bool named = c->name[0] != '\0';
	char key[sizeof(c->name) + ADDR_STR_MAX + 1];
	json_t *one;

	snprintf(key, sizeof(key), "%c%s", named ? '=' : '@', named ? c->name : c->host);
	one = json_object_get(all, key);
	if (one != NULL)
		return one;
	one = json_pack("{s:s, s:b, s:b, s:i, s:i, s:{}, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}",
	                "client", key + 1, "authenticated", (int)named, "tls", 0, "connections", 0,
	                "grants", 0, "exports", "recv_bytes_per_s", 0, "sent_bytes_per_s", 0,
	                "ops_per_s", 0, "recv_bytes", 0, "sent_bytes", 0, "recv_msgs", 0,
	                "sent_msgs", 0, "windows", 0);
	return one != NULL && json_object_set_new(all, key, one) == 0 ? one : NULL;
}

/** Names that were collected as keys become an array. */
static void
clients_exports(json_t *all)
{
	const char *key;
	json_t *one;

	json_object_foreach(all, key, one)(void) json_object_set_new(
	        one, "exports", keys_of(json_incref(json_object_get(one, "exports"))));
}

/** Sums become rates. */
static void
clients_rates(const struct control_job *job, json_t *all)
{
	static const char *const of[] = {"recv_bytes_per_s", "sent_bytes_per_s", "ops_per_s"};
	const char *key;
	json_t *one;

	json_object_foreach(all, key, one) for (unsigned int i = 0; i < 3; i++) json_object_set_new(
	        one, of[i],
	        control_rate(job, (uint64_t)json_integer_value(json_object_get(one, of[i]))));
}

json_t *
control_clients_of(const struct control_job *job)
{
	static const struct control_conn none;
	json_t *all = json_object();

	for (uint32_t i = 0; i < job->t->stack.nworkers; i++) {
		const struct control_part *part = &job->part[i];
		uint32_t at = 0;

		for (uint32_t k = 0; k < part->nrows; k++) {
			const struct control_conn *c = &part->rows[k], *was;
			json_t *one = client_of(all, c);

			if (one == NULL)
				continue;
			was = conn_before(part, c, &at);
			was = was != NULL ? was : &none;
			control_add_to(one, "connections", 1);
			control_add_to(one, "grants", c->grants);
			control_add_to(one, "recv_bytes_per_s",
			               control_since(was->recv_bytes, c->recv_bytes));
			control_add_to(one, "sent_bytes_per_s",
			               control_since(was->sent_bytes, c->sent_bytes));
			control_add_to(one, "ops_per_s",
			               control_since(was->recv_msgs, c->recv_msgs));
			control_add_to(one, "recv_bytes", c->recv_bytes);
			control_add_to(one, "sent_bytes", c->sent_bytes);
			control_add_to(one, "recv_msgs", c->recv_msgs);
			control_add_to(one, "sent_msgs", c->sent_msgs);
			control_add_to(one, "windows", c->windows);
			add_exports(part, c, json_object_get(one, "exports"));
		}
	}
	clients_exports(all);
	clients_rates(job, all);
	return all;
}

json_t *
control_values_of(const json_t *object)
{
	json_t *array = json_array(), *value;
	const char *key;

	json_object_foreach((json_t *)object, key, value)(void) json_array_append(array, value);
	return array;
}

void
control_conns_sample(struct control_job *job)
{
	for (uint32_t i = 0; i < job->t->stack.nworkers; i++) {
		struct control_part *part = &job->part[i];

		part->before = part->rows;
		part->nbefore = part->nrows;
		part->rows = NULL;
		part->nrows = part->left_out = 0;
		free(part->holds);
		part->holds = NULL;
		part->nholds = 0;
	}
	control_nvmf_sample(job);
}

void
control_clients(struct control_job *job)
{
	json_t *all = control_clients_of(job), *clients = control_values_of(all);

	control_nvmf_clients(job, clients);
	control_job_result(job, json_pack("{s:I, s:o, s:I}", "interval_ms",
	                                  (json_int_t)(job->took_s * 1000), "clients", clients,
	                                  "left_out", control_left_out(job)));
	json_decref(all);
}
