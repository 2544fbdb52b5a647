/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The list of what was found. */

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "doctor.h"

struct doctor_finding *
doctor_add(struct doctor *d, enum doctor_level level, const char *topic, const char *subject)
{
	struct doctor_finding *f;

	if (d->nfindings < DOCTOR_FINDINGS_MAX)
		d->nfindings++;
	f = &d->findings[d->nfindings - 1];
	*f = (struct doctor_finding){.level = level, .topic = topic};
	snprintf(f->subject, sizeof(f->subject), "%s", subject);
	return f;
}

void
doctor_what(struct doctor_finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->what, sizeof(f->what), fmt, ap);
	va_end(ap);
}

void
doctor_mend(struct doctor_finding *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->mend, sizeof(f->mend), fmt, ap);
	va_end(ap);
}

unsigned int
doctor_count(const struct doctor *d, enum doctor_level level)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < d->nfindings; i++)
		n += d->findings[i].level == level;
	return n;
}
