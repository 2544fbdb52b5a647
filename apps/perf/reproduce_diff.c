/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What differs between a run and an earlier one, beside the figures. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reproduce.h"

void
reproduce_diff_add(json_t *list, const char *what, const char *then, const char *now)
{
	json_t *o;

	if (strcmp(then, now) == 0)
		return;
	o = json_object();
	json_object_set_new(o, "what", json_string(what));
	json_object_set_new(o, "then", json_string(then));
	json_object_set_new(o, "now", json_string(now));
	json_array_append_new(list, o);
}

/** The facts of one side. */
static void
diff_machine(json_t *list, const char *side, const json_t *then, const json_t *now)
{
	static const char *const keys[] = {"host", "kernel",   "architecture", "cpu",
	                                   "cpus", "governor", "version",      "build"};
	char what[64], a[256], b[256];

	if (!json_is_object(then) || !json_is_object(now)) {
		snprintf(what, sizeof(what), "facts of the %s", side);
		reproduce_diff_add(list, what, json_is_object(then) ? "known" : "unknown",
		                   json_is_object(now) ? "known" : "unknown");
		return;
	}
	for (unsigned int i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		snprintf(what, sizeof(what), "%s of the %s", keys[i], side);
		reproduce_diff_add(list, what, doc_value(then, keys[i], a, sizeof(a)),
		                   doc_value(now, keys[i], b, sizeof(b)));
	}
}

/** The first result whose text `key` is another one. */
static void
diff_results(json_t *list, const char *key, const char *what, const json_t *then, const json_t *now)
{
	const json_t *a = json_object_get(then, "results"), *b = json_object_get(now, "results");

	for (size_t i = 0; i < json_array_size(a) && i < json_array_size(b); i++) {
		const char *x = doc_text(json_array_get(a, i), key);
		const char *y = doc_text(json_array_get(b, i), key);

		if (strcmp(x, y) == 0)
			continue;
		reproduce_diff_add(list, what, x, y);
		return;
	}
}

json_t *
reproduce_diff(const json_t *then, const json_t *now, const char *then_line, const char *now_line)
{
	json_t *list = json_array();

	if (list == NULL)
		return NULL;
	reproduce_diff_add(list, "command", then_line, now_line);
	diff_machine(list, "client", json_object_get(then, "machine"),
	             json_object_get(now, "machine"));
	diff_machine(list, "server", json_object_get(then, "server_machine"),
	             json_object_get(now, "server_machine"));
	diff_results(list, "region", "region of the server", then, now);
	return list;
}
