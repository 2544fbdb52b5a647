/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The facts of a machine that a figure depends on. */

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "json.h"
#include "perf.h"

/** The value behind the first line of a file that begins with `key`; empty without one. */
static void
fact_line(const char *file, const char *key, char *buf, size_t size)
{
	char line[512];
	FILE *f = fopen(file, "re");

	*buf = '\0';
	while (f != NULL && *buf == '\0' && fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, key, strlen(key)) == 0) {
			const char *v = line + strlen(key);

			v += strspn(v, " \t:");
			snprintf(buf, size, "%.*s", (int)strcspn(v, "\n"), v);
		}
	if (f != NULL)
		fclose(f);
}

void
perf_facts_json(struct json *j)
{
	char text[256];
	struct utsname u;

	json_obj(j, "machine");
	if (uname(&u) == 0) {
		json_str(j, "host", u.nodename);
		json_str(j, "kernel", u.release);
		json_str(j, "architecture", u.machine);
	}
	fact_line("/proc/cpuinfo", "model name", text, sizeof(text));
	json_str(j, "cpu", text);
	json_u64(j, "cpus", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	fact_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "", text, sizeof(text));
	if (text[0] != '\0')
		json_str(j, "governor", text);
	json_obj_end(j);
}
