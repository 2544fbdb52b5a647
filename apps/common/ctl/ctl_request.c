/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Requests and answers of JSON-RPC 2.0 as text. */

#include <stdlib.h>
#include <string.h>

#include "ctl_request.h"

json_t *
ctl_parse(const char *text, size_t len, struct ctl_fault *f)
{
	json_error_t e;
	json_t *v;

	/* jansson bounds the depth of nesting (JSON_PARSER_MAX_DEPTH). */
	v = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
	if (v == NULL) {
		ctl_fail(f, CTL_BAD_JSON, "not JSON: %s, at octet %d of the line", e.text,
		         e.position);
		return NULL;
	}
	if (json_is_array(v) && json_array_size(v) == 0)
		ctl_fail(f, CTL_BAD_REQUEST, "an empty batch");
	else if (json_is_array(v) && json_array_size(v) > CTL_BATCH_MAX)
		ctl_fail(f, CTL_BAD_REQUEST, "a batch of %zu requests; %u at most",
		         json_array_size(v), CTL_BATCH_MAX);
	else
		return v;
	json_decref(v);
	return NULL;
}

/** JSON-RPC 2.0 s4: a text, a number, or null. */
static bool
request_id_ok(const json_t *id)
{
	return json_is_string(id) || json_is_number(id) || json_is_null(id);
}

bool
ctl_request(const json_t *value, struct ctl_request *r, struct ctl_fault *f)
{
	const char *version, *name;
	json_t *id, *params;

	*r = (struct ctl_request){.id = json_null()};
	if (!json_is_object(value))
		return ctl_fail(f, CTL_BAD_REQUEST, "a request is an object");
	id = json_object_get(value, "id");
	if (id != NULL && !request_id_ok(id))
		return ctl_fail(f, CTL_BAD_REQUEST, "id is neither a text nor a number");
	if (id != NULL)
		r->id = json_incref(id);
	version = json_string_value(json_object_get(value, "jsonrpc"));
	name = json_string_value(json_object_get(value, "method"));
	if (version == NULL || strcmp(version, "2.0") != 0)
		return ctl_fail(f, CTL_BAD_REQUEST, "jsonrpc is not \"2.0\"");
	if (name == NULL)
		return ctl_fail(f, CTL_BAD_REQUEST, "method is not a text");
	/* It is a request now, and one without an id is a notification. */
	if (id == NULL)
		r->id = NULL;
	r->method = ctl_method_find(name);
	if (r->method == NULL)
		return ctl_fail(f, CTL_NO_METHOD,
		                "no method is named \"%.64s\"; docs/control.md has them", name);
	params = json_object_get(value, "params");
	if (params != NULL && !json_is_object(params) && !json_is_array(params))
		return ctl_fail(f, CTL_BAD_PARAMS, "params is neither an object nor an array");
	r->params = params != NULL ? json_incref(params) : json_object();
	if (r->params == NULL)
		return ctl_fail(f, CTL_INTERNAL, "out of memory");
	return ctl_check(r->method, &r->params, f);
}

void
ctl_request_free(struct ctl_request *r)
{
	json_decref(r->params);
	json_decref(r->id);
	*r = (struct ctl_request){0};
}

json_t *
ctl_answer(json_t *id, json_t *result)
{
	return json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "result", result);
}

json_t *
ctl_answer_fault(json_t *id, const struct ctl_fault *f)
{
	/* The text may have octets of a file's name or of the request: what is no UTF-8 is
	 * replaced. */
	char text[CTL_TEXT_MAX];
	json_t *message;

	snprintf(text, sizeof(text), "%s", f->text);
	message = json_string(text);
	if (message == NULL) {
		for (char *p = text; *p != '\0'; p++)
			if ((unsigned char)*p >= 0x80)
				*p = '?';
		message = json_string(text);
	}
	return json_pack("{s:s, s:O, s:{s:i, s:o, s:{s:s}}}", "jsonrpc", "2.0", "id", id, "error",
	                 "code", (int)f->code, "message", message, "data", "name",
	                 ctl_error_find(f->code)->name);
}

char *
ctl_text(const json_t *answer, size_t *len)
{
	char *s = answer != NULL ? json_dumps(answer, JSON_COMPACT) : NULL, *line;

	if (s == NULL)
		return NULL;
	*len = strlen(s) + 1;
	line = realloc(s, *len + 1);
	if (line == NULL) {
		free(s);
		return NULL;
	}
	line[*len - 1] = '\n';
	line[*len] = '\0';
	return line;
}
