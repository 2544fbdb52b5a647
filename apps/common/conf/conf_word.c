/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Lists of words, and the reasons why values are wrong. */

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "conf_key.h"

int
conf_why(char *why, size_t size, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, size, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

int
conf_word(const char **s, const char **word)
{
	const char *p = *s, *end;

	if (*p == '\0')
		return 0;
	p += strspn(p, " \t");
	*word = p;
	end = p + strcspn(p, ",");
	*s = *end == ',' ? end + 1 : end;
	while (end > p && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	if (end == p || (**s == '\0' && (*s)[-1] == ','))
		return -1;
	return (int)(end - p);
}
