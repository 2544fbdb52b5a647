/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Whether the target is ready, and whether it can be stopped. Metrics thread. */

#include <stdarg.h>
#include <stdio.h>

#include "metrics_read.h"
#include "target.h"
#include "ui.h"

/** A look at files that takes as long says that a file system does not answer. */
#define FILES_SILENT_NS 10000000000u

struct lines {
	char *buf;
	size_t size, len;
};

static void __attribute__((format(printf, 2, 3))) say(struct lines *l, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (l->len + 1 >= l->size)
		return;
	va_start(ap, fmt);
	n = vsnprintf(l->buf + l->len, l->size - l->len, fmt, ap);
	va_end(ap);
	if (n > 0)
		l->len += (size_t)n < l->size - l->len ? (size_t)n : l->size - l->len - 1;
}

static const char *
why_not(const struct target_export *ex)
{
	if (atomic_load_explicit(&ex->held, memory_order_relaxed) != TARGET_HELD_NO)
		return "taken out of service by its operator";
	if (!target_export_up(ex))
		return "offline";
	return target_file_seen_lost(ex) ? "its file is lost" : NULL;
}

static bool
has_port(const struct target *t)
{
	for (uint32_t i = 0; i < t->conf.nports; i++)
		if (!weft_port_removed(t->stack.ports[i]))
			return true;
	return false;
}

/** How many seconds the look at the files has taken by now, if that is too long; else 0. What is
 * known of them is old then, and does not get newer. */
static unsigned int
files_silent_s(const struct target *t)
{
	const uint64_t since_ns = atomic_load_explicit(&t->watch_since_ns, memory_order_relaxed);
	const uint64_t now_ns = ui_now_ns();

	if (since_ns == 0 || now_ns < since_ns + FILES_SILENT_NS)
		return 0;
	return (unsigned int)((now_ns - since_ns) / 1000000000u);
}

bool
metrics_is_ready(const struct target *t, uint32_t exports, uint32_t served)
{
	return !atomic_load_explicit(&t->stopping, memory_order_relaxed) && has_port(t) &&
	       files_silent_s(t) == 0 && (served > 0 || exports == 0);
}

bool
metrics_ready(struct target *t, char *buf, size_t size)
{
	struct lines l = {buf, size, 0};
	const unsigned int silent_s = files_silent_s(t);
	uint32_t exports = 0, served = 0;

	buf[0] = '\0';
	if (silent_s > 0)
		say(&l, "a file system has not answered for %u s\n", silent_s);
	if (atomic_load_explicit(&t->stopping, memory_order_relaxed))
		say(&l, "it ends\n");
	if (!has_port(t))
		say(&l, "every port was removed\n");
	pthread_mutex_lock(&t->exports_lock);
	for (uint32_t i = 0; i < target_nexports(t); i++) {
		const struct target_export *ex = &t->exports[i];
		const char *why = target_export_gone(ex) ? NULL : why_not(ex);

		exports += !target_export_gone(ex);
		served += !target_export_gone(ex) && why == NULL;
		if (why != NULL)
			say(&l, "export %s: %s\n", ex->conf->name, why);
	}
	pthread_mutex_unlock(&t->exports_lock);
	if (exports > 0 && served == 0)
		say(&l, "no export is served\n");
	return metrics_is_ready(t, exports, served);
}

bool
metrics_safe_to_stop(struct target *t, char *buf, size_t size)
{
	struct lines l = {buf, size, 0};
	bool safe = true;

	buf[0] = '\0';
	pthread_mutex_lock(&t->exports_lock);
	for (uint32_t i = 0; i < target_nexports(t); i++) {
		const struct target_export *ex = &t->exports[i];
		const unsigned int grants = atomic_load_explicit(&ex->grants, memory_order_relaxed);
		const unsigned int ios = atomic_load_explicit(&ex->ios, memory_order_relaxed);
		const unsigned int reads = atomic_load_explicit(&ex->reads, memory_order_relaxed);

		if (target_export_gone(ex) || grants + ios + reads == 0)
			continue;
		safe = false;
		say(&l, "export %s: %u grants are held, %u writes and %u reads are under way\n",
		    ex->conf->name, grants, ios, reads);
	}
	pthread_mutex_unlock(&t->exports_lock);
	return safe;
}
