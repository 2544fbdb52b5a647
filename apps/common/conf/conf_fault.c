/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The first fault of a load, as one line with its place in the file. */

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "conf_reader.h"

void
conf_fault(struct conf_reader *l, int line, const char *key, const char *fmt, ...)
{
	char why[CONF_ERR_MAX];
	va_list ap;

	if (l->fault_line != 0)
		return;
	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	l->fault_line = line;
	snprintf(l->err, l->err_size, "%s:%d: [%s]%s%s: %s", l->name, line, l->sec_title,
	         key != NULL ? " " : "", key != NULL ? key : "", why);
	/* The message stays one line, whatever the file contains. */
	for (char *p = l->err; *p != '\0'; p++)
		if (iscntrl((unsigned char)*p))
			*p = '?';
}

int
conf_line_of(const struct conf_reader *l, const char *key)
{
	for (unsigned int i = 0; i < l->sec->nkeys; i++)
		if (strcmp(l->sec->keys[i].name, key) == 0 && l->key_line[i] != 0)
			return l->key_line[i];
	return l->sec_line;
}

int
conf_whole_fail(const struct whole *h, int line, const char *fmt, ...)
{
	const char *file = h->c->file[0] != '\0' ? h->c->file : "configuration";
	char why[CONF_ERR_MAX + CONF_PATH_MAX], at[16] = "";
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	if (line != 0)
		snprintf(at, sizeof(at), ":%d", line);
	snprintf(h->err, h->err_size, "%s%s: %s", file, at, why);
	return -EINVAL;
}
