/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file How much memory a configuration needs: the sum of what the start allocates, and the most
 * that clients add (docs/limits.md). Test e2e `size` compares with what a target takes.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "stack.h"
#include "target_size.h"
#include "ui.h"
#include <weft/room.h>

#define MIB ((uint64_t)1 << 20)
#define KIB ((uint64_t)1 << 10)

#define SIZE_PROGRAM      (42 * MIB) /* code, EAL, threads, tables of the default limits */
#define SIZE_WORKER       (4 * MIB)
#define SIZE_VOLUME       (160 * KIB)  /* of each worker: its ring, threads, tables */
#define SIZE_VOLUME_OPS   (1056 * KIB) /* of each worker, at most: scratch memory of operations */
#define SIZE_SUMS         (64 * KIB) /* of a volume with checksums, beside the maps: the scrubber */
#define SIZE_MAP          (64 * KIB) /* one map of such a volume, for each SIZE_MAP_OF or part */
#define SIZE_MAP_OF       ((uint64_t)2 << 40) /* a bit for 4 MiB */
#define SIZE_MAPS         4 /* in doubt, in use, saved; those of the workers, which are sparse */
#define SIZE_EXPORT       (40 * KIB) /* of each export: its state and configuration */
#define SIZE_EXPORT_OF    (4 * KIB)  /* likewise on each worker: its counters */
#define SIZE_CONN         (72 * KIB) /* docs/limits.md, "connections" */
#define SIZE_CONN_CALLS   (64 * KIB) /* beyond the budget: "calls begun", "answers not taken" */
#define SIZE_CALLS_BUDGET (64 * MIB) /* of a worker */
#define SIZE_HOSTS_WORKER (6 * MIB)  /* completions of NVMe hosts' queues */
#define SIZE_ENTRY        (10 * KIB) /* of a queue: a command, and a capsule with its data */
#define SIZE_ENTRY_TCP    (14 * KIB) /* the same of NVMe/TCP, whose capsules have up to 8 KiB */
#define SIZE_TLS          (72 * KIB) /* a session of TLS, with a record each way */
#define SIZE_PAGE         4096
#define SIZE_LINE         256

static uint64_t
size_buffers(const struct conf *c)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < c->nports; i++) {
		const struct weft_port_attr attr = {
		        .size = sizeof(attr),
		        .dev = c->ports[i].dev,
		        .mtu_bytes = (uint16_t)c->ports[i].mtu_bytes,
		        .mbufs = c->ports[i].mbufs,
		        .queues = stack_sharers(c, c->nworkers, c->ports[i].name),
		};

		bytes += weft_room_bytes(&attr, SIZE_PAGE);
	}
	return bytes > c->weft.memory_mb * MIB ? bytes : c->weft.memory_mb * MIB;
}

static uint64_t
size_medium(const struct conf_export *e)
{
	struct stat st;

	if (e->size_bytes == 0 && e->path[0] != '\0' && stat(e->path, &st) == 0)
		return (uint64_t)st.st_size;
	return e->size_bytes;
}

static uint64_t
size_export(const struct conf_export *e)
{
	return e->persist == CONF_PERSIST_PMEM ? 0 : size_medium(e);
}

/** What checksums add to a volume. */
static uint64_t
size_sums(const struct conf_export *e)
{
	const uint64_t bytes = size_medium(e);
	const uint64_t pieces = bytes / SIZE_MAP_OF + (bytes % SIZE_MAP_OF != 0 || bytes == 0);

	return SIZE_SUMS + SIZE_MAPS * SIZE_MAP * pieces;
}

/* Connections that all workers admit together. */
static uint32_t
size_most_clients(const struct conf *c)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < c->nports; i++) {
		uint32_t workers = stack_sharers(c, c->nworkers, c->ports[i].name);

		n += (uint64_t)workers * weft_room_conns(&c->tcp, c->ports[i].mbufs, workers);
	}
	return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/** Queues of hosts, first those that take the most. */
static void
size_queues(const struct conf *c, struct size_need *n)
{
	const uint32_t most = n->workers * CONF_NVMF_CONNS(c->nvmf.queue_depth);
	const uint32_t all = c->nvmf.tcp_listen_port != 0 ? 2 * most : most;
	uint32_t tcp = c->nvmf.tcp_listen_port != 0 ? most : 0;

	n->queues = all < c->nvmf.max_queues ? all : c->nvmf.max_queues;
	tcp = tcp < n->queues ? tcp : n->queues;
	n->queue_bytes =
	        ((uint64_t)tcp * SIZE_ENTRY_TCP + (uint64_t)(n->queues - tcp) * SIZE_ENTRY) *
	        c->nvmf.queue_depth;
	if (c->nvmf.tls != CONF_TLS_OFF)
		n->queue_bytes += tcp * SIZE_TLS;
}

void
size_of(const struct conf *c, const struct size_ask *ask, struct size_need *n)
{
	uint32_t nexports = 0;            /* but volumes, whose memory is SIZE_VOLUME's */
	uint64_t sums = 0, sums_most = 0; /* of volumes with checksums; of the largest */

	*n = (struct size_need){.workers = c->nworkers > 0 ? c->nworkers : 1,
	                        .clients = size_most_clients(c)};
	for (uint32_t i = 0; i < c->nexports; i++) {
		const struct conf_export *e = &c->exports[i];
		uint64_t maps;

		if (e->format != CONF_FORMAT_VOLUME) {
			nexports++;
			n->exports += size_export(e);
			continue;
		}
		maps = e->checksums ? size_sums(e) : 0;
		sums += maps;
		sums_most = maps > sums_most ? maps : sums_most;
		n->volumes++;
	}
	/* Those that are asked for are as those that there are. */
	if (ask->volumes != UINT32_MAX) {
		sums = ask->volumes * sums_most;
		n->volumes = ask->volumes;
	}
	if (ask->clients != UINT32_MAX)
		n->clients = ask->clients;
	n->buffers = size_buffers(c);
	n->program = SIZE_PROGRAM + n->workers * SIZE_WORKER +
	             (uint64_t)nexports * (SIZE_EXPORT + n->workers * SIZE_EXPORT_OF);
	if (n->volumes > 0)
		n->staging = c->target.staging_bytes + n->volumes * n->workers * SIZE_VOLUME + sums;
	n->volume_ops = (uint64_t)n->volumes * n->workers * SIZE_VOLUME_OPS;
	if (c->nsubsys > 0) {
		n->hosts = c->nvmf.staging_bytes + n->workers * SIZE_HOSTS_WORKER;
		size_queues(c, n);
	}
	n->conns = n->clients * SIZE_CONN;
	n->calls =
	        n->clients > 0 ? n->workers * SIZE_CALLS_BUDGET + n->clients * SIZE_CONN_CALLS : 0;
}

uint64_t
size_at_start(const struct size_need *n, bool huge)
{
	return (huge ? 0 : n->buffers) + n->staging + n->hosts + n->program;
}

/* ---- What there is ---- */

static FILE *
size_open(const char *root, const char *path)
{
	char name[CONF_PATH_MAX];

	if ((size_t)snprintf(name, sizeof(name), "%s%s", root, path) >= sizeof(name))
		return NULL;
	return fopen(name, "re");
}

/** Where a version of control groups has what of memory. */
static const struct size_cgroup {
	const char *dir;  /**< its hierarchy */
	const char *most; /**< a group's limit; "max": none */
	const char *now;  /**< what it and those below it use */
	const char
	        *total; /**< what begins the names in memory.stat that are of those below it, too */
} size_cgroup_of[] = {
        {"/sys/fs/cgroup", "memory.max", "memory.current", ""},
        {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_"},
};

static FILE *
size_open_group(const char *root, const struct size_cgroup *cg, const char *group, const char *file)
{
	char path[CONF_PATH_MAX];

	if ((size_t)snprintf(path, sizeof(path), "%s%s/%s", cg->dir, group, file) >= sizeof(path))
		return NULL;
	return size_open(root, path);
}

/* The number in a file. "max", which a group without a limit has, is none. */
static bool
size_number(const char *root, const struct size_cgroup *cg, const char *group, const char *file,
            uint64_t *v)
{
	FILE *f = size_open_group(root, cg, group, file);
	int n = 0;

	if (f != NULL) {
		n = fscanf(f, "%" SCNu64, v);
		fclose(f);
	}
	return n == 1;
}

/* Of what a group uses, the memory that the kernel takes back when it is asked for more: file cache
 * without changes, and caches of its own. */
static uint64_t
size_reclaimable(const char *root, const struct size_cgroup *cg, const char *group)
{
	static const char *const names[] = {"inactive_file", "active_file", "slab_reclaimable"};
	const size_t skip = strlen(cg->total);
	FILE *f = size_open_group(root, cg, group, "memory.stat");
	char line[128], name[64];
	uint64_t sum = 0, v;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			if (sscanf(line, "%63s %" SCNu64, name, &v) == 2 &&
			    strncmp(name, cg->total, skip) == 0 &&
			    strcmp(name + skip, names[i]) == 0)
				sum += v;
	if (f != NULL)
		fclose(f);
	return sum;
}

static FILE *
size_open_proc(const char *root, uint64_t pid, const char *file)
{
	char path[64] = "/proc/self/";

	if (pid != 0)
		snprintf(path, sizeof(path), "/proc/%" PRIu64 "/", pid);
	strncat(path, file, sizeof(path) - strlen(path) - 1);
	return size_open(root, path);
}

/* What a process gives back when it ends. Pages of files are reclaimable and counted as such. */
static void
size_beside(const char *root, uint64_t pid, struct size_room *r)
{
	FILE *f = size_open_proc(root, pid, "status");
	char line[SIZE_LINE], name[64];
	uint64_t v;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		if (sscanf(line, "%63[^:]: %" SCNu64, name, &v) != 2)
			continue;
		if (strcmp(name, "RssAnon") == 0 || strcmp(name, "RssShmem") == 0 ||
		    strcmp(name, "VmSwap") == 0)
			r->beside_bytes += v * KIB;
		else if (strcmp(name, "HugetlbPages") == 0)
			r->beside_huge_bytes = v * KIB;
	}
	if (f != NULL)
		fclose(f);
}

/* A group's name in a line of /proc/PID/cgroup: "0::NAME" of version 2, and "4:memory:NAME" or
 * "4:hugetlb,memory:NAME" of version 1. NULL: the line is of no group that limits memory. */
static char *
size_group_name(char *line, const struct size_cgroup **cg)
{
	char *of = strchr(line, ':'), *name = of != NULL ? strchr(of + 1, ':') : NULL, *word, *more;

	if (name == NULL || name[1] != '/')
		return NULL;
	*name++ = '\0';
	name[strcspn(name, "\n")] = '\0';
	*cg = &size_cgroup_of[0];
	if (strcmp(line, "0:") == 0)
		return name;
	*cg = &size_cgroup_of[1];
	for (word = strtok_r(of + 1, ",", &more); word != NULL; word = strtok_r(NULL, ",", &more))
		if (strcmp(word, "memory") == 0)
			return name;
	return NULL;
}

/* The least that a group and those above it leave. A container may see its own group as the topmost
 * one, and a name that is of outside: what is not there is passed by on the way up. */
static void
size_group(const char *root, const struct size_cgroup *cg, char *group, struct size_room *r)
{
	uint64_t most, now;
	char *last;

	for (;;) {
		if (strcmp(group, "/") == 0)
			*group = '\0'; /* a group of a container's own, or the topmost one */
		if (size_number(root, cg, group, cg->most, &most) &&
		    size_number(root, cg, group, cg->now, &now)) {
			uint64_t back = size_reclaimable(root, cg, group) + r->beside_bytes, left;

			now -= back < now ? back : now;
			left = most > now ? most - now : 0;

			if (left < r->bytes) {
				r->bytes = left;
				r->cgroup = true;
			}
		}
		if ((last = strrchr(group, '/')) == NULL)
			return;
		*last = '\0';
	}
}

/* A machine may have groups of both versions. */
static void
size_cgroups(const char *root, uint64_t beside, struct size_room *r)
{
	FILE *f = size_open_proc(root, beside, "cgroup");
	const struct size_cgroup *cg;
	char line[CONF_PATH_MAX], *group;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if ((group = size_group_name(line, &cg)) != NULL)
			size_group(root, cg, group, r);
	if (f != NULL)
		fclose(f);
}

void
size_room(const char *root, uint64_t beside, struct size_room *r)
{
	FILE *f = size_open(root, "/proc/meminfo");
	uint64_t v, avail = UINT64_MAX, swap = 0, pages = 0;
	char line[SIZE_LINE];

	*r = (struct size_room){.bytes = UINT64_MAX};
	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		if (sscanf(line, "MemAvailable: %" SCNu64, &v) == 1)
			avail = v * KIB;
		else if (sscanf(line, "SwapFree: %" SCNu64, &v) == 1)
			swap = v * KIB;
		else if (sscanf(line, "HugePages_Free: %" SCNu64, &v) == 1)
			pages = v;
		else if (sscanf(line, "Hugepagesize: %" SCNu64, &v) == 1)
			r->huge_page = v * KIB;
	}
	if (f != NULL)
		fclose(f);
	if (beside != 0)
		size_beside(root, beside, r);
	if (avail != UINT64_MAX)
		r->bytes = avail + swap + r->beside_bytes;
	r->huge_bytes = pages * r->huge_page + r->beside_huge_bytes;
	size_cgroups(root, beside, r);
}

/* ---- Both ---- */

static bool
size_huge(const struct conf *c, const struct size_need *n, const struct size_room *r)
{
	return c->weft.hugepages != CONF_HUGE_NEVER && r->huge_bytes >= n->buffers;
}

static const char *
size_of_what(const struct size_room *r)
{
	return r->cgroup ? "its control group leaves" : "are available";
}

int
size_check(const struct conf *c, const struct size_room *r, char *err, size_t err_size)
{
	const struct size_ask ask = {.volumes = UINT32_MAX, .clients = 0};
	struct size_need n;
	char b1[32], b2[32];
	uint64_t need;

	size_of(c, &ask, &n);
	need = size_at_start(&n, size_huge(c, &n, r));
	if (need <= r->bytes)
		return 0;
	snprintf(err, err_size,
	         "not enough memory: a start needs %s, %s %s; weft-target --size tells what for",
	         ui_bytes(need, b1, sizeof(b1)), ui_bytes(r->bytes, b2, sizeof(b2)),
	         size_of_what(r));
	return -ENOMEM;
}

static void
size_row(FILE *out, const char *what, uint64_t bytes, const char *why)
{
	char b[32];

	fprintf(out, "%-26s %12s  %s\n", what, ui_bytes(bytes, b, sizeof(b)), why);
}

int
size_print(const struct conf *c, const struct size_ask *ask, const struct size_room *r, FILE *out)
{
	struct size_need n;
	char why[128];
	bool huge;

	size_of(c, ask, &n);
	huge = size_huge(c, &n, r);
	snprintf(why, sizeof(why), "%" PRIu32 " port%s; the more of this and [weft] memory_mb",
	         c->nports, c->nports == 1 ? "" : "s");
	size_row(out, "packet buffers", n.buffers, why);
	snprintf(why, sizeof(why), "with %" PRIu32 " worker%s", n.workers,
	         n.workers == 1 ? "" : "s");
	size_row(out, "the program", n.program, why);
	snprintf(why, sizeof(why), "%" PRIu32 " volume%s: [target] staging, and 160 KiB a worker",
	         n.volumes, n.volumes == 1 ? "" : "s");
	size_row(out, "volumes", n.staging, why);
	if (n.hosts > 0)
		size_row(out, "NVMe hosts", n.hosts,
		         "[nvmf] staging, and completions of the workers");
	size_row(out, "needed to start", size_at_start(&n, false),
	         huge ? "packet buffers in hugepages" : "all in ordinary pages");
	size_row(out, "objects and logs", n.exports, "which lie in memory, but on DAX");
	snprintf(why, sizeof(why), "%" PRIu32 " connection%s", n.clients,
	         n.clients == 1 ? "" : "s");
	size_row(out, "clients", n.conns, why);
	size_row(out, "calls and answers", n.calls, "at most, under load");
	if (n.volumes > 0)
		size_row(out, "operations of volumes", n.volume_ops,
		         "at most, under load of all at once");
	snprintf(why, sizeof(why), "at most, by %" PRIu32 " queues of hosts in full use", n.queues);
	if (n.queues > 0)
		size_row(out, "commands of NVMe hosts", n.queue_bytes, why);
	size_row(out, "in all",
	         size_at_start(&n, false) + n.exports + n.conns + n.calls + n.volume_ops +
	                 n.queue_bytes,
	         "");
	if (r->huge_page > 0) {
		snprintf(why, sizeof(why), "%" PRIu64 " of %" PRIu64 " KiB for packet buffers",
		         (n.buffers + r->huge_page - 1) / r->huge_page, r->huge_page / KIB);
		size_row(out, "hugepages, if wanted", n.buffers, why);
		size_row(out, "hugepages, free", r->huge_bytes, "");
	}
	if (r->bytes == UINT64_MAX)
		return 0;
	size_row(out, "memory, available", r->bytes,
	         r->cgroup ? "by the limit of the control group" : "");
	if (r->beside_bytes + r->beside_huge_bytes > 0)
		size_row(out, "of which runs beside", r->beside_bytes,
		         "what the target that ends first gives back (--beside)");
	return size_at_start(&n, huge) <= r->bytes ? 0 : -ENOMEM;
}
