/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Running programs with telemetry: finding one, and connecting to it. */

#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach.h"

#define PATTERN_MAX 256
#define LIST_MAX    160

/** Where EAL keeps the folders of its programs, as rte_eal_get_runtime_dir() chooses it. */
static const char *
runtime_folder(void)
{
	const char *xdg = getenv("XDG_RUNTIME_DIR");

	return getuid() == 0 ? "/var/run/dpdk" : xdg != NULL && *xdg != '\0' ? xdg : "/tmp";
}

/** All sockets of the programs whose prefix matches. 0, or an error of glob(). */
static int
sockets(const char *prefix, glob_t *g)
{
	const bool root = getuid() == 0;
	char pattern[PATTERN_MAX];

	/* A second instance with the same prefix has a socket with a suffix. */
	snprintf(pattern, sizeof(pattern), "%s%s/%s/dpdk_telemetry.v2*", runtime_folder(),
	         root ? "" : "/dpdk", prefix);
	return glob(pattern, GLOB_NOSORT, NULL, g);
}

/** The name of the program with this id, for people. */
static const char *
program_name(pid_t pid, char name[32])
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	f = fopen(path, "re");
	if (f == NULL || fgets(name, 32, f) == NULL)
		snprintf(name, 32, "?");
	name[strcspn(name, "\n")] = '\0';
	if (f != NULL)
		fclose(f);
	return name;
}

static bool
all_digits(const char *s)
{
	for (; *s != '\0'; s++)
		if (!isdigit((unsigned char)*s))
			return false;
	return true;
}

/**
 * Connect to the only program whose prefix and process id agree; pid 0: any. `self` is left out.
 * Returns how many there are, and their list in `list`; *t is connected if it is one.
 */
static unsigned int
find(struct tel_client *t, const char *prefix, pid_t pid, char list[LIST_MAX])
{
	struct tel_client one;
	unsigned int found = 0;
	char name[32];
	size_t n = 0;
	glob_t g = {0};

	list[0] = '\0';
	if (sockets(prefix, &g) != 0)
		return 0;
	for (size_t i = 0; i < g.gl_pathc; i++) {
		if (tel_client_open(&one, g.gl_pathv[i]) != 0)
			continue;
		if (pid != 0 ? one.pid != pid : one.pid == getpid()) {
			tel_client_close(&one);
			continue;
		}
		if (n < LIST_MAX)
			n += (size_t)snprintf(list + n, LIST_MAX - n, "%s%d (%s)",
			                      found > 0 ? ", " : "", (int)one.pid,
			                      program_name(one.pid, name));
		if (found++ == 0)
			*t = one;
		else
			tel_client_close(&one);
	}
	globfree(&g);
	if (found > 1)
		tel_client_close(t);
	return found;
}

static int
attach_socket(struct tel_client *t, const char *path, char *err, size_t err_size)
{
	int rc = tel_client_open(t, path);

	if (rc == -ECONNREFUSED)
		snprintf(err, err_size, "%s: its program has ended", path);
	else if (rc == -EPROTO)
		snprintf(err, err_size, "%s: this is not a socket of DPDK's telemetry (v2)", path);
	else if (rc != 0)
		snprintf(err, err_size, "%s: %s", path, strerror(-rc));
	return rc;
}

int
attach_open(struct tel_client *t, const char *what, char *err, size_t err_size)
{
	char list[LIST_MAX];
	unsigned int n;

	*t = (struct tel_client){.fd = -1};
	if (what != NULL && strchr(what, '/') != NULL)
		return attach_socket(t, what, err, err_size);
	if (what == NULL)
		n = find(t, "*", 0, list);
	else if (all_digits(what))
		n = find(t, "*", (pid_t)strtol(what, NULL, 10), list);
	else
		n = find(t, what, 0, list);
	if (n == 1)
		return 0;
	if (n > 1)
		snprintf(err, err_size, "--attach: %u programs run: %s; name one", n, list);
	else if (what == NULL)
		snprintf(err, err_size,
		         "--attach: no program with telemetry runs; a target has it with "
		         "`telemetry = yes` in [weft]");
	else
		snprintf(err, err_size,
		         "--attach: %s: no such program with telemetry runs (`telemetry = yes` in "
		         "[weft])",
		         what);
	return n > 1 ? -EEXIST : -ENOENT;
}

int
attach_self(struct tel_client *t)
{
	char list[LIST_MAX], prefix[32];

	*t = (struct tel_client){.fd = -1};
	snprintf(prefix, sizeof(prefix), "weft-%d", (int)getpid());
	if (find(t, prefix, getpid(), list) == 1)
		return 0;
	return find(t, "*", getpid(), list) == 1 ? 0 : -ENOENT;
}
