/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Variables: those that `let` and -D set, the results that the console sets, and their
 * substitution in a line. */

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "script.h"

#define VARS_MAX 128

struct var {
	char name[VAR_NAME_BYTES];
	char value[VAR_BYTES];
	bool result; /**< set by the console only */
	bool set;
};

/* The results stand first. docs/console.md says what each is. */
static struct var vars[VARS_MAX] = {
        {.name = "qp", .result = true},     {.name = "accepted", .result = true},
        {.name = "region", .result = true}, {.name = "stag", .result = true},
        {.name = "wr", .result = true},     {.name = "status", .result = true},
        {.name = "hash", .result = true},   {.name = "was", .result = true},
        {.name = "recv", .result = true},   {.name = "imm", .result = true},
        {.name = "term", .result = true},   {.name = "round", .result = true},
        {.name = "window", .result = true}, {.name = "srq", .result = true},
        {.name = "inv", .result = true},    {.name = "log", .result = true},
        {.name = "record", .result = true}, {.name = "rpc", .result = true},
        {.name = "reply", .result = true},  {.name = "traffic", .result = true},
};

static bool
name_octet(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static size_t
name_len(const char *s)
{
	size_t n = 0;

	if (isdigit((unsigned char)s[0]))
		return 0;
	while (name_octet(s[n]))
		n++;
	return n;
}

bool
vars_name_ok(const char *name)
{
	const size_t n = name_len(name);

	return n > 0 && name[n] == '\0' && n < VAR_NAME_BYTES;
}

static struct var *
var_of(const char *name, size_t n)
{
	for (unsigned int i = 0; i < VARS_MAX && vars[i].name[0] != '\0'; i++)
		if (strncmp(vars[i].name, name, n) == 0 && vars[i].name[n] == '\0')
			return &vars[i];
	return NULL;
}

int
vars_set(const char *name, const char *value)
{
	struct var *v;

	if (!vars_name_ok(name))
		return -EINVAL;
	if (strlen(value) >= VAR_BYTES)
		return -E2BIG;
	v = var_of(name, strlen(name));
	if (v != NULL && v->result)
		return -EPERM;
	for (unsigned int i = 0; v == NULL && i < VARS_MAX; i++)
		if (vars[i].name[0] == '\0')
			v = &vars[i];
	if (v == NULL)
		return -ENOSPC;
	snprintf(v->name, sizeof(v->name), "%s", name);
	snprintf(v->value, sizeof(v->value), "%s", value);
	v->set = true;
	return 0;
}

const char *
vars_strerror(int rc)
{
	return rc == -EINVAL   ? "a name has letters, digits and _, at most 31, no digit first"
	       : rc == -EPERM  ? "the console sets this one itself"
	       : rc == -E2BIG  ? "the value has more than 255 octets"
	       : rc == -ENOSPC ? "there are too many variables"
	                       : strerror(-rc);
}

void
vars_result(const char *name, const char *fmt, ...)
{
	struct var *v = var_of(name, strlen(name));
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(v->value, sizeof(v->value), fmt, ap);
	va_end(ap);
	v->set = true;
}

void
vars_print(struct cmdline *cl)
{
	for (unsigned int i = 0; i < VARS_MAX && vars[i].name[0] != '\0'; i++)
		if (vars[i].set)
			cmdline_printf(cl, "%s = %s\n", vars[i].name, vars[i].value);
}

const char *
vars_names(char *buf, size_t size)
{
	size_t n = 0;

	buf[0] = '\0';
	for (unsigned int i = 0; i < VARS_MAX && vars[i].name[0] != '\0'; i++)
		if (vars[i].set && n + sizeof(vars[i].name) + 3 < size)
			n += (size_t)snprintf(buf + n, size - n, "$%s ", vars[i].name);
	return buf;
}

/**
 * The value of the variable at the front of in, behind its $, and how many octets name it. NULL:
 * why has the reason.
 */
static const char *
var_at(const char *in, size_t left, size_t *used, char *why, size_t why_size)
{
	const bool braces = left > 0 && in[0] == '{';
	const char *name = in + braces;
	size_t n = name_len(name);
	const struct var *v;

	if (n > left - braces)
		n = left - braces;
	if (braces && (n == 0 || n + 1 >= left || name[n] != '}')) {
		snprintf(why, why_size, "'${' is not followed by a name and '}'");
		return NULL;
	}
	v = var_of(name, n);
	if (v == NULL || !v->set) {
		snprintf(why, why_size, "$%.*s is not set", (int)n, name);
		return NULL;
	}
	*used = n + (braces ? 2 : 0);
	return v->value;
}

const char *
vars_expand(const char *in, size_t n, char *out, size_t size)
{
	static char why[VAR_NAME_BYTES + 64];
	size_t have = 0;

	for (size_t i = 0; i < n;) {
		const bool dollar = in[i] == '$' && i + 1 < n;
		const char *value = in + i;
		size_t used = 1, bytes = 1;

		if (dollar && in[i + 1] == '$') {
			used = 2;
		} else if (dollar && (in[i + 1] == '{' || name_len(in + i + 1) > 0)) {
			value = var_at(in + i + 1, n - i - 1, &used, why, sizeof(why));
			if (value == NULL)
				return why;
			used++;
			bytes = strlen(value);
		}
		if (bytes >= size - have)
			return "the line is too long with its variables";
		memcpy(out + have, value, bytes);
		have += bytes;
		i += used;
	}
	out[have] = '\0';
	return NULL;
}
