/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The JSON writer (RFC 8259). */

#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

unsigned int
json_utf8_len(const unsigned char *s)
{
	unsigned char lo = 0x80, hi = 0xbf;
	unsigned int n;

	if (s[0] < 0x80)
		return 1;
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		n = 2;
	else if (s[0] >= 0xe0 && s[0] <= 0xef)
		n = 3;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		n = 4;
	else
		return 0;
	/* Overlong forms, surrogates and what lies beyond U+10FFFF show in the second octet. */
	if (s[0] == 0xe0)
		lo = 0xa0;
	else if (s[0] == 0xed)
		hi = 0x9f;
	else if (s[0] == 0xf0)
		lo = 0x90;
	else if (s[0] == 0xf4)
		hi = 0x8f;
	if (s[1] < lo || s[1] > hi)
		return 0;
	for (unsigned int i = 2; i < n; i++)
		if (s[i] < 0x80 || s[i] > 0xbf)
			return 0;
	return n;
}

unsigned int
json_escape(const char *v, char out[JSON_ESCAPED + 1])
{
	const unsigned char *s = (const unsigned char *)v;
	const unsigned int n = json_utf8_len(s);

	if (n == 0)
		snprintf(out, JSON_ESCAPED + 1, "\\ufffd");
	else if (*s == '"' || *s == '\\')
		snprintf(out, JSON_ESCAPED + 1, "\\%c", *s);
	else if (*s == '\n')
		snprintf(out, JSON_ESCAPED + 1, "\\n");
	else if (*s == '\t')
		snprintf(out, JSON_ESCAPED + 1, "\\t");
	else if (*s < 0x20 || *s == 0x7f)
		snprintf(out, JSON_ESCAPED + 1, "\\u%04x", *s);
	else if (*s == 0xc2 && s[1] < 0xa0) /* U+0080 to U+009F control terminals, too */
		snprintf(out, JSON_ESCAPED + 1, "\\u%04x", s[1]);
	else
		snprintf(out, JSON_ESCAPED + 1, "%.*s", (int)n, v);
	return n > 0 ? n : 1;
}

static void
json_quote(FILE *out, const char *v)
{
	char c[JSON_ESCAPED + 1];

	fputc('"', out);
	while (*v != '\0') {
		v += json_escape(v, c);
		fputs(c, out);
	}
	fputc('"', out);
}

static void
json_indent(struct json *j)
{
	if (j->depth == 0)
		return;
	fputc('\n', j->out);
	for (unsigned int i = 0; i < j->depth; i++)
		fputs("  ", j->out);
}

/* Write what precedes a value: comma, line, key. */
static void
json_lead(struct json *j, const char *key)
{
	if (j->more & (1ULL << j->depth))
		fputc(',', j->out);
	j->more |= 1ULL << j->depth;
	json_indent(j);
	if (key != NULL) {
		json_quote(j->out, key);
		fputs(": ", j->out);
	}
}

static void
json_open(struct json *j, const char *key, char c)
{
	json_lead(j, key);
	fputc(c, j->out);
	j->depth++;
	j->more &= ~(1ULL << j->depth);
}

static void
json_close(struct json *j, char c)
{
	bool any = j->more & (1ULL << j->depth);

	j->depth--;
	if (any) {
		if (j->depth == 0)
			fputc('\n', j->out);
		else
			json_indent(j);
	}
	fputc(c, j->out);
}

void
json_start(struct json *j, FILE *out)
{
	memset(j, 0, sizeof(*j));
	j->out = out;
}

void
json_obj(struct json *j, const char *key)
{
	json_open(j, key, '{');
}

void
json_obj_end(struct json *j)
{
	json_close(j, '}');
}

void
json_arr(struct json *j, const char *key)
{
	json_open(j, key, '[');
}

void
json_arr_end(struct json *j)
{
	json_close(j, ']');
}

void
json_str(struct json *j, const char *key, const char *v)
{
	json_lead(j, key);
	if (v == NULL)
		fputs("null", j->out);
	else
		json_quote(j->out, v);
}

void
json_u64(struct json *j, const char *key, uint64_t v)
{
	json_lead(j, key);
	fprintf(j->out, "%" PRIu64, v);
}

void
json_i64(struct json *j, const char *key, int64_t v)
{
	json_lead(j, key);
	fprintf(j->out, "%" PRId64, v);
}

void
json_dbl(struct json *j, const char *key, double v, int decimals)
{
	json_lead(j, key);
	if (isfinite(v))
		fprintf(j->out, "%.*f", decimals, v);
	else
		fputs("null", j->out);
}

void
json_bool(struct json *j, const char *key, bool v)
{
	json_lead(j, key);
	fputs(v ? "true" : "false", j->out);
}

void
json_finish(struct json *j)
{
	fputc('\n', j->out);
	fflush(j->out);
}
