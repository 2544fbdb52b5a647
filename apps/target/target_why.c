/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The text of a refusal. */

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "target_rpc.h"

char *
target_why(const char *fmt, ...)
{
	char why[WEFT_TEXT_MAX + 1];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	return strdup(why);
}
