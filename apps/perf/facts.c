/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The facts of a machine and of a build that a figure depends on (host.h). */

#include <link.h>
#include <openssl/sha.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "host.h"
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

/* ---- Build IDs ---- */

/** The build IDs of the objects that were seen so far. */
struct fact_builds {
	uint8_t id[16 * 32];
	size_t bytes;
};

/** Add the ID of one segment of notes. A note is three words, its name and its content, each padded
 * to four octets (elf(5)). */
static void
fact_notes(struct fact_builds *b, const uint8_t *at, size_t bytes)
{
	ElfW(Nhdr) n;

	while (bytes >= sizeof(n)) {
		size_t name, desc;

		memcpy(&n, at, sizeof(n));
		name = ((size_t)n.n_namesz + 3) & ~(size_t)3;
		desc = ((size_t)n.n_descsz + 3) & ~(size_t)3;
		if (name + desc > bytes - sizeof(n))
			return;
		if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 &&
		    memcmp(at + sizeof(n), "GNU", 4) == 0 &&
		    n.n_descsz <= sizeof(b->id) - b->bytes) {
			memcpy(b->id + b->bytes, at + sizeof(n) + name, n.n_descsz);
			b->bytes += n.n_descsz;
		}
		at += sizeof(n) + name + desc;
		bytes -= sizeof(n) + name + desc;
	}
}

/** One object of the process: the program, whose name is empty, or a library. */
static int
fact_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	if (info->dlpi_name[0] != '\0' && strstr(info->dlpi_name, "/libweft") == NULL)
		return 0;
	for (unsigned int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_NOTE)
			fact_notes(arg,
			           (const uint8_t *)info->dlpi_addr + info->dlpi_phdr[i].p_vaddr,
			           info->dlpi_phdr[i].p_filesz);
	return 0;
}

static void
fact_build(uint8_t build[PERF_BUILD_BYTES])
{
	struct fact_builds b = {.bytes = 0};
	uint8_t sum[SHA256_DIGEST_LENGTH];

	dl_iterate_phdr(fact_object, &b);
	if (b.bytes == 0)
		return;
	SHA256(b.id, b.bytes, sum);
	memcpy(build, sum, PERF_BUILD_BYTES);
}

/* ---- All facts ---- */

/** Copy a text into zeroed memory; its end may be missing in the copy. */
static void
fact_text(char *to, size_t size, const char *from)
{
	memcpy(to, from, strnlen(from, size - 1));
}

void
perf_host_now(struct perf_host *h)
{
	struct utsname u;

	memset(h, 0, sizeof(*h));
	if (uname(&u) == 0) {
		fact_text(h->host, sizeof(h->host), u.nodename);
		fact_text(h->kernel, sizeof(h->kernel), u.release);
		fact_text(h->architecture, sizeof(h->architecture), u.machine);
	}
	fact_line("/proc/cpuinfo", "model name", h->cpu, sizeof(h->cpu));
	fact_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "", h->governor,
	          sizeof(h->governor));
	fact_text(h->version, sizeof(h->version), weft_version());
	h->cpus = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
	fact_build(h->build);
}

void
perf_host_json(struct json *j, const char *key, const struct perf_host *h)
{
	static const uint8_t none[PERF_BUILD_BYTES];
	char hex[2 * PERF_BUILD_BYTES + 1];

	json_obj(j, key);
	json_str(j, "host", h->host);
	json_str(j, "kernel", h->kernel);
	json_str(j, "architecture", h->architecture);
	json_str(j, "cpu", h->cpu);
	json_u64(j, "cpus", h->cpus);
	if (h->governor[0] != '\0')
		json_str(j, "governor", h->governor);
	json_str(j, "version", h->version);
	if (memcmp(h->build, none, sizeof(none)) != 0) {
		for (unsigned int i = 0; i < PERF_BUILD_BYTES; i++)
			snprintf(hex + 2 * i, 3, "%02x", h->build[i]);
		json_str(j, "build", hex);
	}
	json_obj_end(j);
}
