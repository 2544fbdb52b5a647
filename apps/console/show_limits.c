/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What can be full: buffers of ports, connections, objects of verbs; and who holds most. */

#include <stdio.h>
#include <string.h>

#include "show_fetch.h"

static json_int_t
number(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

/** Append one limit. worker, interface: -1: of none. `of` 0: there is no limit. */
static json_t *
add(json_t *rows, const char *limit, json_int_t worker, json_int_t interface, json_int_t held,
    json_int_t of)
{
	json_t *row = json_pack("{ss}", "limit", limit);
	char text[48];

	if (worker >= 0)
		json_object_set_new(row, "worker", json_integer(worker));
	if (interface >= 0)
		json_object_set_new(row, "interface", json_integer(interface));
	if (interface >= 0)
		snprintf(text, sizeof(text), "%lld/%lld", (long long)worker, (long long)interface);
	else
		snprintf(text, sizeof(text), "%lld", (long long)worker);
	json_object_set_new(row, "at", json_string(worker >= 0 ? text : ""));
	json_object_set_new(row, "held", json_integer(held));
	json_object_set_new(row, "of", json_integer(of));
	if (of > 0)
		snprintf(text, sizeof(text), "%.0f %%", 100.0 * (double)held / (double)of);
	else
		strcpy(text, "-"); /* no limit */
	json_object_set_new(row, "full", json_string(text));
	json_array_append_new(rows, row);
	return row;
}

/** The connection of the worker with the most of `key`, as text; "": none has any. */
static const char *
who_has_most(const json_t *conns, json_int_t worker, const char *key, char *buf, size_t size)
{
	json_int_t most = 0;
	json_t *c;
	size_t i;

	buf[0] = '\0';
	json_array_foreach(conns, i, c)
	{
		if (number(c, "worker") != worker || number(c, key) <= most)
			continue;
		most = number(c, key);
		snprintf(buf, size, "%s", json_string_value(json_object_get(c, "remote")));
	}
	return buf;
}

/** The buffers that an interface holds on behalf of peers: X_limit, X_held, X_most, X_refused. */
static void
add_budgets(json_t *rows, const json_t *nif, const json_t *conns)
{
	static const struct {
		const char *kind, *name, *conn_key;
	} kinds[] = {{"ooo", "ahead of a gap", "ooo_mbufs"},
	             {"fpdu", "incomplete FPDUs", NULL},
	             {"snd", "not acknowledged", "snd_mbufs"},
	             {"park", "unknown neighbours", NULL}};
	char key[32], who[96];

	for (unsigned int i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		json_int_t held, of;
		json_t *row;

		snprintf(key, sizeof(key), "%s_limit", kinds[i].kind);
		of = number(nif, key);
		snprintf(key, sizeof(key), "%s_held", kinds[i].kind);
		held = number(nif, key);
		row = add(rows, kinds[i].name, number(nif, "worker"), number(nif, "interface"),
		          held, of);
		snprintf(key, sizeof(key), "%s_most", kinds[i].kind);
		json_object_set(row, "most", json_object_get(nif, key));
		snprintf(key, sizeof(key), "%s_refused", kinds[i].kind);
		json_object_set(row, "refused", json_object_get(nif, key));
		if (kinds[i].conn_key != NULL)
			json_object_set_new(
			        row, "who",
			        json_string(who_has_most(conns, number(nif, "worker"),
			                                 kinds[i].conn_key, who, sizeof(who))));
	}
}

static void
add_pool(json_t *rows, const json_t *pool)
{
	add(rows, "receive mbufs", number(pool, "worker"), number(pool, "interface"),
	    number(pool, "rx_in_use"), number(pool, "rx_mbufs"));
	add(rows, "transmit mbufs", number(pool, "worker"), number(pool, "interface"),
	    number(pool, "tx_in_use"), number(pool, "tx_mbufs"));
}

/** What TCP of a worker may have at once, or do in a second; `counters` has what was refused. */
static void
add_tcp(json_t *rows, const json_t *tcp, const json_t *counters)
{
	static const struct {
		const char *name, *held, *of, *refused;
	} limits[] = {
	        {"connections", "conns", "max_conns", "conn_limit"},
	        {"half-open", "half_open", "max_half_open", "half_open_evicted"},
	        {"time-wait", "time_wait", "max_time_wait", "time_wait_evicted"},
	        {"accepts in a second", "accepts", "max_accepts_per_s", "syns_dropped_rate"},
	        {"resets in a second", "resets", "resets_per_s", "resets_limited"},
	        {"challenge-acks in a second", "challenge_acks", "challenge_acks_per_s",
	         "challenge_acks_limited"},
	};

	for (unsigned int i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		json_t *row = add(rows, limits[i].name, number(tcp, "worker"), -1,
		                  number(tcp, limits[i].held), number(tcp, limits[i].of));

		json_object_set(row, "refused", json_object_get(counters, limits[i].refused));
	}
}

/** The objects of a noun; NULL: err says why. */
static json_t *
fetch(struct tel_client *t, const char *noun, char err[TEL_ERR_MAX])
{
	const struct show_noun *n = show_noun_find(noun);
	json_t *rows = json_array();

	if (n->fetch(t, n, rows, err) == 0)
		return rows;
	json_decref(rows);
	return NULL;
}

/** No noun of its own. */
static const struct show_noun tcp_limits = {.cmd = "/weft/tcp_limits", .ident = "worker"};

SHOW_FETCH(limits)
{
	json_t *nifs = fetch(t, "interfaces", err), *o;
	json_t *conns = nifs != NULL ? fetch(t, "tcp", err) : NULL;
	json_t *pools = conns != NULL ? fetch(t, "pools", err) : NULL;
	json_t *ctxs = pools != NULL ? fetch(t, "objects", err) : NULL;
	json_t *counters = ctxs != NULL ? fetch(t, "tcp-counters", err) : NULL;
	json_t *tcp = json_array();
	int rc = counters == NULL ? -1 : 0;
	size_t i;

	if (rc == 0)
		rc = show_fetch_workers(t, &tcp_limits, tcp, err);
	/* A program of an earlier version does not answer that. */
	if (rc != 0 && counters != NULL && !t->lost) {
		json_array_clear(tcp);
		rc = 0;
	}
	json_array_foreach(tcp, i, o) if (rc == 0) add_tcp(rows, o, json_array_get(counters, i));
	(void)n;
	json_array_foreach(nifs, i, o) add_budgets(rows, o, conns);
	json_array_foreach(pools, i, o) add_pool(rows, o);
	json_array_foreach(ctxs, i, o)
	{
		add(rows, "queue pairs", -1, -1, number(o, "qps"), number(o, "max_qps"));
		add(rows, "memory regions", -1, -1, number(o, "regions"), number(o, "max_regions"));
	}
	json_decref(nifs);
	json_decref(conns);
	json_decref(pools);
	json_decref(ctxs);
	json_decref(counters);
	json_decref(tcp);
	return rc;
}
