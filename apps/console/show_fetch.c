/* SPDX-License-Identifier: BSD-3-Clause */
/** @file How the objects of a noun are collected from telemetry. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "show_fetch.h"

/** The answer to a number that does not exist: it ends a list, and is no error. */
#define NOTHING "nothing has that name or number"

/** Most interfaces of a worker that are looked for. */
#define MAX_NETIFS 64

/** Append an object of the keys in `name`, then those of `from`; both are taken. */
static void
append(json_t *rows, json_t *name, json_t *from)
{
	json_object_update(name, from);
	json_decref(from);
	json_array_append_new(rows, name);
}

/** The number of workers, or -1. */
static int
count_workers(struct tel_client *t, char err[TEL_ERR_MAX])
{
	json_t *list = tel_client_ask(t, err, "/weft/workers");
	int n = list != NULL ? (int)json_array_size(list) : -1;

	json_decref(list);
	return n;
}

SHOW_FETCH(one)
{
	json_t *o = tel_client_ask(t, err, "%s", n->cmd);

	if (o == NULL)
		return -1;
	if (json_object_size(o) > 0)
		append(rows, json_object(), o);
	else
		json_decref(o);
	return 0;
}

SHOW_FETCH(workers)
{
	const int nworkers = count_workers(t, err);

	for (int w = 0; w < nworkers; w++) {
		json_t *o = tel_client_ask(t, err, "%s,%d", n->cmd, w);

		if (o == NULL)
			return -1;
		append(rows, json_pack("{si}", "worker", w), o);
	}
	return nworkers < 0 ? -1 : 0;
}

SHOW_FETCH(netifs)
{
	const int nworkers = count_workers(t, err);

	for (int w = 0; w < nworkers; w++)
		for (int i = 0; i < MAX_NETIFS; i++) {
			json_t *o = tel_client_ask(t, err, "%s,%d,%d", n->cmd, w, i);

			if (o == NULL && strcmp(err, NOTHING) == 0)
				break;
			if (o == NULL)
				return -1;
			append(rows, json_pack("{sisi}", "worker", w, "interface", i), o);
		}
	return nworkers < 0 ? -1 : 0;
}

/** One object by its name. An object that is gone by now is left out. */
static int
fetch_name(struct tel_client *t, const struct show_noun *n, const char *name, json_t *rows,
           char err[TEL_ERR_MAX])
{
	json_t *o = tel_client_ask(t, err, "%s,%s", n->cmd, name);

	if (o == NULL)
		return strcmp(err, NOTHING) == 0 ? 0 : -1;
	append(rows, json_pack("{ss}", n->ident, name), o);
	return 0;
}

SHOW_FETCH(named)
{
	json_t *list = tel_client_ask(t, err, "%s", n->list), *v;
	const char *key;
	char name[128];
	int rc = list != NULL ? 0 : -1;
	size_t i;

	if (json_is_array(list)) {
		json_array_foreach(list, i, v) if (rc == 0 && json_is_string(v)) rc =
		        fetch_name(t, n, json_string_value(v), rows, err);
	} else if (list != NULL) {
		json_object_foreach(list, key, v)
		{
			if (rc != 0 || !json_is_string(v))
				continue;
			/* Behind a colon: why it is not served. */
			snprintf(name, sizeof(name), "%.*s",
			         (int)strcspn(json_string_value(v), ":"), json_string_value(v));
			rc = fetch_name(t, n, name, rows, err);
		}
	}
	json_decref(list);
	return rc;
}

/** The objects by number behind "ASK,FIRST"; each gets the keys of `name`, and its number. */
static int
fetch_pages(struct tel_client *t, const char *ask, const json_t *name, json_t *rows,
            char err[TEL_ERR_MAX])
{
	json_int_t first = 0;

	for (bool more = true; more;) {
		json_t *page = tel_client_ask(t, err, "%s%lld", ask, (long long)first), *v;
		const char *key;

		if (page == NULL)
			return -1;
		more = false;
		json_object_foreach(page, key, v)
		{
			json_t *o;

			if (strcmp(key, "next") == 0) {
				more = json_integer_value(v) > first;
				first = json_integer_value(v);
				continue;
			}
			if (!json_is_object(v))
				continue;
			o = json_copy((json_t *)(uintptr_t)name);
			json_object_set_new(o, "number", json_integer(atoll(key)));
			append(rows, o, json_incref(v));
		}
		json_decref(page);
	}
	return 0;
}

SHOW_FETCH(numbered)
{
	json_t *o = tel_client_ask(t, err, "%s", n->cmd), *v;
	const char *key;

	json_object_foreach(o, key, v) if (json_is_object(v))
	        append(rows, json_pack("{sI}", "number", (json_int_t)atoll(key)), json_incref(v));
	json_decref(o);
	return o != NULL ? 0 : -1;
}

SHOW_FETCH(contexts)
{
	for (int c = 0;; c++) {
		json_t *o = tel_client_ask(t, err, "%s,%d", n->cmd, c);

		if (o == NULL)
			return strcmp(err, NOTHING) == 0 ? 0 : -1;
		append(rows, json_pack("{si}", "context", c), o);
	}
}

SHOW_FETCH(of_context)
{
	char ask[64];

	for (int c = 0;; c++) {
		json_t *name = json_pack("{si}", "context", c);
		int rc;

		snprintf(ask, sizeof(ask), "%s,%d,", n->cmd, c);
		rc = fetch_pages(t, ask, name, rows, err);
		json_decref(name);
		if (rc != 0)
			return strcmp(err, NOTHING) == 0 ? 0 : -1;
	}
}

SHOW_FETCH(of_worker)
{
	const int nworkers = count_workers(t, err);
	int rc = nworkers < 0 ? -1 : 0;
	char ask[64];

	for (int w = 0; w < nworkers && rc == 0; w++) {
		json_t *name = json_pack("{si}", "worker", w);

		snprintf(ask, sizeof(ask), "%s,%d,", n->cmd, w);
		rc = fetch_pages(t, ask, name, rows, err);
		json_decref(name);
	}
	return rc;
}

SHOW_FETCH(of_netif)
{
	const int nworkers = count_workers(t, err);
	char ask[64];

	for (int w = 0; w < nworkers; w++)
		for (int i = 0; i < MAX_NETIFS; i++) {
			json_t *name = json_pack("{sisi}", "worker", w, "interface", i);
			int rc;

			snprintf(ask, sizeof(ask), "%s,%d,%d,", n->cmd, w, i);
			rc = fetch_pages(t, ask, name, rows, err);
			json_decref(name);
			if (rc != 0 && strcmp(err, NOTHING) == 0)
				break;
			if (rc != 0)
				return -1;
		}
	return nworkers < 0 ? -1 : 0;
}

/** The connections of a page of /weft/conns. Returns the number to continue with, 0: none; -1. */
static json_int_t
conns_page(struct tel_client *t, const struct show_noun *n, int w, json_t *page, json_t *rows,
           char err[TEL_ERR_MAX])
{
	json_int_t next = 0;
	const char *key;
	json_t *v;

	json_object_foreach(page, key, v)
	{
		json_t *o;

		if (strcmp(key, "next") == 0) {
			next = json_integer_value(v);
			continue;
		}
		o = tel_client_ask(t, err, "%s,%d,%s", n->cmd, w, key);
		if (o == NULL && strcmp(err, NOTHING) == 0)
			continue; /* it has ended meanwhile */
		if (o == NULL)
			return -1;
		append(rows, json_pack("{sisI}", "worker", w, "number", (json_int_t)atoll(key)), o);
	}
	return next;
}

SHOW_FETCH(conns)
{
	const int nworkers = count_workers(t, err);

	for (int w = 0; w < nworkers; w++) {
		json_int_t next = 0;

		do {
			json_t *page =
			        tel_client_ask(t, err, "%s,%d,%lld", n->list, w, (long long)next);

			next = page != NULL ? conns_page(t, n, w, page, rows, err) : -1;
			json_decref(page);
		} while (next > 0);
		if (next < 0)
			return -1;
	}
	return nworkers < 0 ? -1 : 0;
}

/** The counters of one port's driver: an object for each. */
static int
port_xstats(struct tel_client *t, const char *port, json_t *rows, char err[TEL_ERR_MAX])
{
	json_t *o = tel_client_ask(t, err, "/weft/port,%s", port), *v;
	const char *key;
	json_int_t id;

	if (o == NULL)
		return -1;
	id = json_integer_value(json_object_get(o, "port_id"));
	json_decref(o);
	o = tel_client_ask(t, err, "/ethdev/xstats,%lld", (long long)id);
	if (o == NULL)
		return -1;
	json_object_foreach(o, key, v) json_array_append_new(
	        rows, json_pack("{sssssO}", "port", port, "counter", key, "value", v));
	json_decref(o);
	return 0;
}

SHOW_FETCH(xstats)
{
	json_t *list = tel_client_ask(t, err, "%s", n->list), *v;
	int rc = list != NULL ? 0 : -1;
	size_t i;

	json_array_foreach(list, i, v) if (rc == 0) rc =
	        port_xstats(t, json_string_value(v), rows, err);
	json_decref(list);
	return rc;
}
