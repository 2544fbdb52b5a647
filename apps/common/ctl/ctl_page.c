/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The reference of the methods, printed from their table. */

#include <string.h>

#include "ctl_api.h"

const char *
ctl_type_str(enum ctl_type type)
{
	static const char *const is[] = {
	        [CTL_STR] = "a text",
	        [CTL_COUNT] = "a number",
	        [CTL_BYTES] = "a number of octets",
	        [CTL_MS] = "a number of milliseconds",
	        [CTL_S] = "a number of seconds",
	        [CTL_BYTES_PER_S] = "a number of octets in a second",
	        [CTL_PER_S] = "a number, in a second",
	        [CTL_BOOL] = "true or false",
	        [CTL_TEXT] = "a text of several lines",
	        [CTL_NAMES] = "an array of texts",
	        [CTL_SIZE] = "a number of octets, or a text as \"16M\"",
	        [CTL_KEYS] = "an object of texts",
	};

	return is[type];
}

const char *
ctl_usage(const struct ctl_method *m, char *buf, size_t size)
{
	size_t n = 0;

	buf[0] = '\0';
	for (unsigned int i = 0; i < m->nparams && n < size; i++) {
		const struct ctl_param *p = &m->params[i];
		char one[96];

		switch (p->given) {
		case CTL_WORD:
			snprintf(one, sizeof(one), "%s", p->name);
			for (char *c = one; *c != '\0'; c++)
				if (*c >= 'a' && *c <= 'z')
					*c -= 'a' - 'A';
			break;
		case CTL_OPTION:
			snprintf(one, sizeof(one), p->type == CTL_BOOL ? "--%s" : "--%s VALUE",
			         p->name);
			for (char *c = one; *c != '\0'; c++)
				if (*c == '_')
					*c = '-';
			break;
		case CTL_FILE:
			snprintf(one, sizeof(one), "FILE");
			break;
		case CTL_PAIRS:
		default:
			snprintf(one, sizeof(one), "KEY=VALUE...");
			break;
		}
		n += (size_t)snprintf(buf + n, size - n, p->required ? "%s%s" : "%s[%s]",
		                      n > 0 ? " " : "", one);
	}
	if (m->saves != NULL && n < size)
		snprintf(buf + n, size - n, " FILE");
	return buf;
}

static void
page_fields(FILE *out, const struct ctl_field *f, unsigned int n)
{
	fputs("| field | is | meaning |\n|---|---|---|\n", out);
	for (unsigned int i = 0; i < n; i++)
		fprintf(out, "| `%s` | %s | %s |\n", f[i].name, ctl_type_str(f[i].type), f[i].help);
	fputc('\n', out);
}

static void
page_method(FILE *out, const struct ctl_method *m)
{
	char usage[256];

	ctl_usage(m, usage, sizeof(usage));
	fprintf(out, "### %s\n\n`weft-ctl %s%s%s`\n\n%s", m->name, m->command,
	        usage[0] != '\0' ? " " : "", usage, m->help);
	fprintf(out, " It is answered within %u s.\n\n", m->limit_ms / 1000);
	if (m->nparams > 0) {
		fputs("| parameter | is | meaning |\n|---|---|---|\n", out);
		for (unsigned int i = 0; i < m->nparams; i++)
			fprintf(out, "| `%s` | %s%s | %s |\n", m->params[i].name,
			        ctl_type_str(m->params[i].type),
			        m->params[i].required ? "; needed" : "", m->params[i].help);
		fputc('\n', out);
	}
	if (m->nfields > 0) {
		fputs("Result:\n\n", out);
		page_fields(out, m->fields, m->nfields);
	}
	if (m->rows_name != NULL) {
		fprintf(out, "Each element of the array `%s` of the result:\n\n", m->rows_name);
		page_fields(out, m->rows, m->nrows);
	}
}

void
ctl_print_reference(FILE *out)
{
	fputs("## Methods\n\n", out);
	for (unsigned int i = 0; i < ctl_nmethods; i++)
		page_method(out, &ctl_methods[i]);
	fputs("## Errors and exit statuses\n\n"
	      "| code | name | exit status of weft-ctl | when |\n|---|---|---|---|\n",
	      out);
	for (unsigned int i = 0; i < ctl_nerrors; i++)
		fprintf(out, "| %d | `%s` | %d | %s |\n", ctl_errors[i].code, ctl_errors[i].name,
		        ctl_errors[i].exit, ctl_errors[i].help);
	fprintf(out,
	        "| | | %d | done; `diff` found that something differs |\n"
	        "| | | %d | the target cannot be reached, or has gone away |\n",
	        CTL_EXIT_DIFFERS, CTL_EXIT_UNREACHABLE);
}
