/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Look-ups in the table of methods, and the check of parameters against it. */

#include <stdarg.h>
#include <string.h>

#include "ctl_api.h"

bool
ctl_fail(struct ctl_fault *f, enum ctl_code code, const char *fmt, ...)
{
	va_list ap;

	f->code = code;
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof(f->text), fmt, ap);
	va_end(ap);
	return false;
}

const struct ctl_method *
ctl_method_find(const char *name)
{
	for (unsigned int i = 0; i < ctl_nmethods; i++)
		if (strcmp(ctl_methods[i].name, name) == 0)
			return &ctl_methods[i];
	return NULL;
}

const struct ctl_error *
ctl_error_find(int code)
{
	const struct ctl_error *failed = &ctl_errors[0];

	for (unsigned int i = 0; i < ctl_nerrors; i++) {
		if ((int)ctl_errors[i].code == code)
			return &ctl_errors[i];
		if (ctl_errors[i].code == CTL_FAILED)
			failed = &ctl_errors[i];
	}
	return failed;
}

/** Whether each value of an object is a text. */
static bool
check_texts(const json_t *object)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value) if (!json_is_string(value)) return false;
	return true;
}

static bool
check_type(const json_t *v, enum ctl_type type)
{
	switch (type) {
	case CTL_TEXT:
	case CTL_STR:
		return json_is_string(v);
	case CTL_COUNT:
	case CTL_BYTES:
	case CTL_MS:
	case CTL_S:
		return json_is_integer(v) && json_integer_value(v) >= 0;
	case CTL_BYTES_PER_S:
	case CTL_PER_S:
		return json_is_number(v);
	case CTL_BOOL:
		return json_is_boolean(v);
	case CTL_NAMES:
		return json_is_array(v);
	case CTL_SIZE:
		return json_is_string(v) || (json_is_integer(v) && json_integer_value(v) >= 0);
	case CTL_KEYS:
		return json_is_object(v) && check_texts(v);
	}
	return false;
}

/** By position (JSON-RPC 2.0 s4.2): the object with the names. NULL: too many, or no memory. */
static json_t *
check_by_position(const struct ctl_method *m, const json_t *array)
{
	json_t *object = json_object();

	for (size_t i = 0; object != NULL && i < json_array_size(array); i++)
		if (i >= m->nparams ||
		    json_object_set(object, m->params[i].name, json_array_get(array, i)) != 0) {
			json_decref(object);
			object = NULL;
		}
	return object;
}

bool
ctl_check(const struct ctl_method *m, json_t **params, struct ctl_fault *f)
{
	const char *key;
	json_t *value;

	if (json_is_array(*params)) {
		json_t *object = check_by_position(m, *params);

		if (object == NULL)
			return ctl_fail(f, CTL_BAD_PARAMS, "%s: more than its %u parameters",
			                m->name, m->nparams);
		json_decref(*params);
		*params = object;
	}
	json_object_foreach(*params, key, value)
	{
		unsigned int i = 0;

		while (i < m->nparams && strcmp(m->params[i].name, key) != 0)
			i++;
		if (i == m->nparams)
			return ctl_fail(f, CTL_BAD_PARAMS, "%s: no parameter is named \"%.64s\"",
			                m->name, key);
		if (!check_type(value, m->params[i].type))
			return ctl_fail(f, CTL_BAD_PARAMS, "%s: %s is not %s", m->name, key,
			                ctl_type_str(m->params[i].type));
	}
	for (unsigned int i = 0; i < m->nparams; i++)
		if (m->params[i].required && json_object_get(*params, m->params[i].name) == NULL)
			return ctl_fail(f, CTL_BAD_PARAMS, "%s: %s is missing", m->name,
			                m->params[i].name);
	return true;
}
