/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A line of the control socket: it is a request that fits the table of methods, or a fault of
 * one line. Either can be answered, and the answer is one line of JSON.
 */

#include "fuzz.h"

#include "ctl_request.h"

static void
answer(json_t *id, const struct ctl_fault *f)
{
	json_t *a = f->code != CTL_OK ? ctl_answer_fault(id, f) : ctl_answer(id, json_object());
	size_t len = 0;
	char *text = ctl_text(a, &len);

	FUZZ_CHECK(text != NULL && strlen(text) == len && strchr(text, '\n') == text + len - 1);
	free(text);
	json_decref(a);
}

static void
one(const json_t *value)
{
	struct ctl_fault f = {0};
	struct ctl_request r;
	const char *key;
	json_t *v;

	if (ctl_request(value, &r, &f)) {
		FUZZ_CHECK(f.code == CTL_OK && json_is_object(r.params));
		for (unsigned int i = 0; i < r.method->nparams; i++)
			FUZZ_CHECK(!r.method->params[i].required ||
			           json_object_get(r.params, r.method->params[i].name) != NULL);
		json_object_foreach(r.params, key, v) FUZZ_CHECK(r.method->nparams > 0);
	} else {
		FUZZ_CHECK(f.code != CTL_OK && f.text[0] != '\0' && strchr(f.text, '\n') == NULL);
	}
	if (r.id != NULL)
		answer(r.id, &f);
	ctl_request_free(&r);
}

void
fuzz_one(const uint8_t *data, size_t size)
{
	struct ctl_fault f = {0};
	json_t *v = ctl_parse((const char *)data, size, &f), *element;
	size_t i;

	if (v == NULL) {
		answer(json_null(), &f);
		return;
	}
	if (json_is_array(v))
		json_array_foreach(v, i, element) one(element);
	else
		one(v);
	json_decref(v);
}
