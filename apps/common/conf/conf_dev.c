/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Checks of a configuration against this host: devices, CPUs, memory, DPDK's log levels. */

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "conf_key.h"

/* net_memif's defaults for arguments that a device string leaves out. */
#define MEMIF_DEFAULT_SOCKET "/run/memif.sock"

/* ---- Devices ---- */

int
conf_dev_arg(const char *dev, const char *key, char *buf, size_t size)
{
	size_t klen = strlen(key);

	for (const char *p = strchr(dev, ','); p != NULL; p = strchr(p, ',')) {
		size_t n;

		p++;
		if (strncmp(p, key, klen) != 0 || p[klen] != '=')
			continue;
		p += klen + 1;
		n = strcspn(p, ",");
		if (n >= size)
			return -ENOSPC;
		memcpy(buf, p, n);
		buf[n] = '\0';
		return 0;
	}
	return -ENOENT;
}

int
conf_memif_socket(const char *dev, char *buf, size_t size, bool *abstract)
{
	char yes[8];
	int rc;

	if (strncmp(dev, "net_memif", 9) != 0)
		return -ENOENT;
	*abstract = conf_dev_arg(dev, "socket-abstract", yes, sizeof(yes)) != 0 ||
	            strcmp(yes, "no") != 0;
	rc = conf_dev_arg(dev, "socket", buf, size);
	if (rc == -ENOENT)
		rc = (size_t)snprintf(buf, size, "%s", MEMIF_DEFAULT_SOCKET) < size ? 0 : -ENOSPC;
	return rc;
}

int
conf_check_dev(const char *dev, char *why, size_t why_size)
{
	char role[32], sock[CONF_PATH_MAX], dir[CONF_PATH_MAX], *slash;
	struct stat st;
	bool abstract;
	int rc;

	if (conf_check_dev_args(dev, why, why_size) != 0)
		return -EINVAL;
	if (strncmp(dev, "net_memif", 9) != 0)
		return 0;
	rc = conf_dev_arg(dev, "role", role, sizeof(role));
	if (rc != -ENOENT &&
	    (rc != 0 || (strcmp(role, "server") != 0 && strcmp(role, "client") != 0)))
		return conf_why(why, why_size, "role=%s: a net_memif is role=server or role=client",
		                rc == 0 ? role : "...");
	if (conf_memif_socket(dev, sock, sizeof(sock), &abstract) != 0 ||
	    strlen(sock) >= sizeof(((struct sockaddr_un *)0)->sun_path) - 1)
		return conf_why(why, why_size, "its socket's name is too long; %zu octets at most",
		                sizeof(((struct sockaddr_un *)0)->sun_path) - 2);
	if (abstract)
		return 0;
	/* The driver requires a folder in the name, and does not resolve it against the working
	 * directory. */
	strcpy(dir, sock);
	slash = strrchr(dir, '/');
	if (sock[0] != '/' || slash == dir)
		return conf_why(why, why_size,
		                "socket=%s: without socket-abstract it is /FOLDER/NAME", sock);
	*slash = '\0';
	if (stat(dir, &st) != 0)
		return conf_why(why, why_size, "socket=%s: %s: %s", sock, dir, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return conf_why(why, why_size, "socket=%s: %s is not a folder", sock, dir);
	if (stat(sock, &st) == 0 && !S_ISSOCK(st.st_mode))
		return conf_why(why, why_size, "socket=%s: exists and is not a socket", sock);
	/* Only a server creates the file, but the driver requires the same access of a client. */
	if (access(dir, R_OK | W_OK | X_OK) != 0)
		return conf_why(why, why_size, "socket=%s: %s: %s", sock, dir, strerror(errno));
	return 0;
}

/* ---- Cpus ---- */

static int
cpus_mine(cpu_set_t *set, char *list, size_t size)
{
	size_t n = 0;

	CPU_ZERO(set);
	list[0] = '\0';
	if (sched_getaffinity(0, sizeof(*set), set) != 0)
		return -errno; /* more CPUs than the set holds: EAL will judge */
	for (unsigned int c = 0, end; c < CPU_SETSIZE && n < size; c = end + 1) {
		end = c;
		if (!CPU_ISSET(c, set))
			continue;
		while (end + 1 < CPU_SETSIZE && CPU_ISSET(end + 1, set))
			end++;
		n += (size_t)snprintf(list + n, size - n, end > c ? "%s%u-%u" : "%s%u",
		                      n > 0 ? "," : "", c, end);
	}
	return 0;
}

int
conf_check_lcore(int32_t lcore, char *why, size_t why_size)
{
	char list[256];
	cpu_set_t set;

	if (lcore < 0 || cpus_mine(&set, list, sizeof(list)) != 0 || CPU_ISSET(lcore, &set))
		return 0;
	return conf_why(why, why_size,
	                "cpu %" PRId32 " is none that the process may use; those are %s", lcore,
	                list);
}

int
conf_check_lcores(const char *lcores, char *why, size_t why_size)
{
	const char *p = lcores;

	for (;;) {
		unsigned long from, to;
		char *end;
		int rc;

		if (!isdigit((unsigned char)*p))
			break;
		from = to = strtoul(p, &end, 10);
		if (*end == '-' && isdigit((unsigned char)end[1]))
			to = strtoul(end + 1, &end, 10);
		if ((*end != ',' && *end != '\0') || to < from)
			break;
		for (unsigned long c = from; c <= to; c++) {
			if (c >= CPU_SETSIZE)
				return conf_why(why, why_size, "there is no cpu %lu", c);
			rc = conf_check_lcore((int32_t)c, why, why_size);
			if (rc != 0)
				return rc;
		}
		if (*end == '\0')
			return 0;
		p = end + 1;
	}
	return conf_why(why, why_size, "\"%s\" is not a list of cpus; write it like 0,2 or 1-3",
	                lcores);
}

/* ---- DPDK's log levels ---- */

int
conf_check_log_level(const char *spec, char *why, size_t why_size)
{
	static const char *const levels[] = {"emergency", "alert",  "critical", "error",
	                                     "warning",   "notice", "info",     "debug"};
	const char *level = strpbrk(spec, ":,");
	char *end;
	unsigned long n;

	if (level == spec)
		return conf_why(why, why_size, "no log type before the %c; write weft.*:debug",
		                *spec);
	level = level != NULL ? level + 1 : spec;
	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
		if (strcmp(level, levels[i]) == 0)
			return 0;
	if (isdigit((unsigned char)*level)) {
		n = strtoul(level, &end, 10);
		if (*end == '\0' && n >= 1 && n <= sizeof(levels) / sizeof(levels[0]))
			return 0;
	}
	return conf_why(why, why_size,
	                "\"%s\" is no log level; there are emergency, alert, critical, error, "
	                "warning, notice, info, debug",
	                level);
}

/* ---- Memory ---- */

static uint64_t had_bytes, had_huge_bytes;

void
conf_memory_had(uint64_t bytes, uint64_t huge_bytes)
{
	had_bytes = bytes;
	had_huge_bytes = huge_bytes;
}

int
conf_check_memory(uint32_t memory_mb, char *why, size_t why_size)
{
	FILE *f = fopen("/proc/meminfo", "re");
	uint64_t avail_kib = 0, v, pages = 0, page_kib = 0;
	char line[128];
	bool known = false;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		if (sscanf(line, "MemAvailable: %" SCNu64, &v) == 1) {
			avail_kib = v;
			known = true;
		} else if (sscanf(line, "HugePages_Free: %" SCNu64, &v) == 1) {
			pages = v;
		} else if (sscanf(line, "Hugepagesize: %" SCNu64, &v) == 1) {
			page_kib = v;
		}
	}
	if (f != NULL)
		fclose(f);
	avail_kib += had_bytes >> 10;
	/* MemAvailable does not include free hugepages. */
	if (pages * page_kib + (had_huge_bytes >> 10) > avail_kib)
		avail_kib = pages * page_kib + (had_huge_bytes >> 10);
	if (!known || (uint64_t)memory_mb << 10 <= avail_kib)
		return 0;
	return conf_why(why, why_size,
	                "%" PRIu32 " MiB are more than is available now (%" PRIu64
	                " MiB); choose less",
	                memory_mb, avail_kib >> 10);
}
