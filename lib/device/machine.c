/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The machine in sysfs and procfs: memory, processors, interfaces, IOMMU, clock, name. */

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_string_fns.h>

#include "device_file.h"
#include "weft_machine.h"

#define NODE_DIR "%s/devices/system/node"
#define CPU_DIR  "%s/devices/system/cpu"

/* ---- Memory and nodes ---- */

/** The list of nodes that are online; false: the kernel has none. */
static bool
machine_online_nodes(const struct weft_device_roots *at, char *list, size_t size)
{
	return device_line(list, size, NODE_DIR "/online", at->sys) && list[0] != '\0';
}

unsigned int
weft_machine_nodes(const struct weft_device_roots *at)
{
	char list[256];
	unsigned int n = 0;

	if (!machine_online_nodes(at, list, sizeof(list)))
		return 1;
	for (unsigned int i = 0; i < WEFT_MACHINE_NODES_MAX; i++)
		n += device_list_has(list, i);
	return n;
}

static int
machine_by_page(const void *a, const void *b)
{
	const struct weft_machine_huge *x = a, *y = b;

	return (x->page_bytes > y->page_bytes) - (x->page_bytes < y->page_bytes);
}

/** The sizes in a folder of hugepages, of a node or of the whole machine. */
static unsigned int
machine_huge_in(const char *folder, int node, struct weft_machine_huge *h, unsigned int max)
{
	DIR *dir = opendir(folder);
	struct dirent *d;
	unsigned int n = 0;

	while (dir != NULL && n < max && (d = readdir(dir)) != NULL) {
		uint64_t kib;

		if (sscanf(d->d_name, "hugepages-%" SCNu64 "kB", &kib) != 1 || kib == 0)
			continue;
		h[n++] = (struct weft_machine_huge){
		        .node = node,
		        .page_bytes = kib << 10,
		        .pages = (uint64_t)device_number(10, 0, "%s/%s/nr_hugepages", folder,
		                                         d->d_name),
		        .free_pages = (uint64_t)device_number(10, 0, "%s/%s/free_hugepages", folder,
		                                              d->d_name),
		};
	}
	if (dir != NULL)
		closedir(dir);
	qsort(h, n, sizeof(*h), machine_by_page);
	return n;
}

unsigned int
weft_machine_huge(const struct weft_device_roots *at, struct weft_machine_huge *h, unsigned int max)
{
	char list[256], folder[PATH_MAX];
	unsigned int n = 0;

	if (!machine_online_nodes(at, list, sizeof(list))) {
		snprintf(folder, sizeof(folder), "%s/kernel/mm/hugepages", at->sys);
		return machine_huge_in(folder, -1, h, max);
	}
	for (unsigned int i = 0; i < WEFT_MACHINE_NODES_MAX; i++) {
		if (!device_list_has(list, i))
			continue;
		snprintf(folder, sizeof(folder), NODE_DIR "/node%u/hugepages", at->sys, i);
		n += machine_huge_in(folder, (int)i, h + n, max - n);
	}
	return n;
}

/* ---- Processors ---- */

void
weft_machine_node_cpus(const struct weft_device_roots *at, int node, char *list, size_t size)
{
	(void)device_line(list, size, NODE_DIR "/node%d/cpulist", at->sys, node);
}

static int
machine_node_of(const struct weft_device_roots *at, unsigned int cpu)
{
	char nodes[256], cpus[1024];

	if (!machine_online_nodes(at, nodes, sizeof(nodes)))
		return -1;
	for (int i = 0; i < WEFT_MACHINE_NODES_MAX; i++) {
		if (!device_list_has(nodes, (unsigned int)i))
			continue;
		weft_machine_node_cpus(at, i, cpus, sizeof(cpus));
		if (device_list_has(cpus, cpu))
			return i;
	}
	return -1;
}

int
weft_machine_cpu(const struct weft_device_roots *at, unsigned int cpu, struct weft_machine_cpu *c)
{
	char list[1024];

	if (!device_exists(CPU_DIR "/cpu%u", at->sys, cpu))
		return -ENOENT;
	*c = (struct weft_machine_cpu){.node = machine_node_of(at, cpu), .sibling = -1};
	(void)device_line(list, sizeof(list), CPU_DIR "/online", at->sys);
	c->online = device_list_has(list, cpu);
	(void)device_line(list, sizeof(list), CPU_DIR "/isolated", at->sys);
	c->isolated = device_list_has(list, cpu);
	(void)device_line(list, sizeof(list), CPU_DIR "/nohz_full", at->sys);
	c->nohz_full = device_list_has(list, cpu);
	(void)device_line(list, sizeof(list), CPU_DIR "/cpu%u/topology/thread_siblings_list",
	                  at->sys, cpu);
	for (unsigned int i = 0; i < WEFT_MACHINE_CPUS_MAX && c->sibling < 0; i++)
		if (i != cpu && device_list_has(list, i))
			c->sibling = (int)i;
	(void)device_line(c->governor, sizeof(c->governor),
	                  CPU_DIR "/cpu%u/cpufreq/scaling_governor", at->sys, cpu);
	return 0;
}

/* ---- Interfaces ---- */

int
weft_machine_link(const struct weft_device_roots *at, const char *ifname,
                  struct weft_machine_link *l)
{
	long speed;

	if (ifname[0] == '\0' || ifname[0] == '.' || strchr(ifname, '/') != NULL ||
	    !device_exists("%s/class/net/%s", at->sys, ifname))
		return -ENOENT;
	l->up = device_number(16, 0, "%s/class/net/%s/flags", at->sys, ifname) & 1; /* IFF_UP */
	l->carrier = device_number(10, 0, "%s/class/net/%s/carrier", at->sys, ifname) == 1;
	l->mtu_bytes = (uint32_t)device_number(10, 0, "%s/class/net/%s/mtu", at->sys, ifname);
	speed = device_number(10, 0, "%s/class/net/%s/speed", at->sys, ifname);
	l->speed_mbps = speed > 0 && speed < INT32_MAX ? (uint32_t)speed : 0;
	return 0;
}

/* ---- IOMMU ---- */

void
weft_machine_iommu(const struct weft_device_roots *at, struct weft_machine_iommu *i)
{
	char path[PATH_MAX], on[8];
	struct dirent *d;
	DIR *dir;

	*i = (struct weft_machine_iommu){.noiommu = -1};
	snprintf(path, sizeof(path), "%s/kernel/iommu_groups", at->sys);
	dir = opendir(path);
	while (dir != NULL && (d = readdir(dir)) != NULL)
		i->groups += d->d_name[0] != '.';
	if (dir != NULL)
		closedir(dir);
	i->firmware = device_exists("%s/firmware/acpi/tables/DMAR", at->sys) ||
	              device_exists("%s/firmware/acpi/tables/IVRS", at->sys);
	i->vfio = device_exists("%s/bus/pci/drivers/vfio-pci", at->sys);
	if (device_line(on, sizeof(on), "%s/module/vfio/parameters/enable_unsafe_noiommu_mode",
	                at->sys))
		i->noiommu = on[0] == 'Y' || on[0] == '1';
}

/* ---- Clock ---- */

/** The value of the first line of /proc/cpuinfo with that key; false: there is none. */
static bool
machine_cpuinfo(const struct weft_device_roots *at, const char *key, char *value, size_t size)
{
	char path[PATH_MAX], line[4096];
	const size_t n = strlen(key);
	bool found = false;
	FILE *f;

	value[0] = '\0';
	snprintf(path, sizeof(path), "%s/cpuinfo", at->proc);
	f = fopen(path, "re");
	while (f != NULL && !found && fgets(line, sizeof(line), f) != NULL) {
		const char *colon = strchr(line, ':');

		if (strncmp(line, key, n) != 0 || colon == NULL ||
		    line[n + strspn(line + n, " \t")] != ':')
			continue;
		colon += 1 + strspn(colon + 1, " \t");
		snprintf(value, size, "%.*s", (int)strcspn(colon, "\n"), colon);
		found = true;
	}
	if (f != NULL)
		fclose(f);
	return found;
}

static bool
machine_has_word(const char *words, const char *word)
{
	const size_t n = strlen(word);

	for (const char *p = words; (p = strstr(p, word)) != NULL; p += n)
		if ((p == words || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0'))
			return true;
	return false;
}

void
weft_machine_clock(const struct weft_device_roots *at, struct weft_machine_clock *c)
{
	char flags[4096];

	(void)device_line(c->current, sizeof(c->current),
	                  "%s/devices/system/clocksource/clocksource0/current_clocksource",
	                  at->sys);
	(void)device_line(c->available, sizeof(c->available),
	                  "%s/devices/system/clocksource/clocksource0/available_clocksource",
	                  at->sys);
	c->x86 = machine_cpuinfo(at, "flags", flags, sizeof(flags));
	c->invariant =
	        machine_has_word(flags, "constant_tsc") && machine_has_word(flags, "nonstop_tsc");
}

/* ---- Identity ---- */

void
weft_machine_identity(const struct weft_device_roots *at, struct weft_machine_identity *m)
{
	static const struct {
		const char *file, *begins;
		enum weft_machine_cloud cloud;
	} marks[] = {
	        {"sys_vendor", "Amazon EC2", WEFT_CLOUD_EC2},
	        {"product_name", "Google Compute Engine", WEFT_CLOUD_GCE},
	        /* Azure's own tag: Hyper-V has the same vendor elsewhere. */
	        {"chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77", WEFT_CLOUD_AZURE},
	        {"chassis_asset_tag", "OracleCloud.com", WEFT_CLOUD_ORACLE},
	        {"sys_vendor", "Alibaba Cloud", WEFT_CLOUD_ALIBABA},
	        {"product_name", "OpenStack", WEFT_CLOUD_OPENSTACK},
	        {"sys_vendor", "OpenStack", WEFT_CLOUD_OPENSTACK},
	        {"sys_vendor", "DigitalOcean", WEFT_CLOUD_OTHER},
	        {"sys_vendor", "Hetzner", WEFT_CLOUD_OTHER},
	        {"sys_vendor", "Scaleway", WEFT_CLOUD_OTHER},
	        {"sys_vendor", "Vultr", WEFT_CLOUD_OTHER},
	};
	char text[4096];

	*m = (struct weft_machine_identity){.cloud = WEFT_CLOUD_NONE};
	(void)device_line(m->vendor, sizeof(m->vendor), "%s/class/dmi/id/sys_vendor", at->sys);
	(void)device_line(m->product, sizeof(m->product), "%s/class/dmi/id/product_name", at->sys);
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		(void)device_line(text, sizeof(text), "%s/class/dmi/id/%s", at->sys, marks[i].file);
		if (m->cloud == WEFT_CLOUD_NONE &&
		    strncmp(text, marks[i].begins, strlen(marks[i].begins)) == 0)
			m->cloud = marks[i].cloud;
	}
	(void)device_line(m->kernel, sizeof(m->kernel), "%s/sys/kernel/osrelease", at->proc);
	(void)machine_cpuinfo(at, "vendor_id", m->cpu_vendor, sizeof(m->cpu_vendor));
	m->hypervisor = machine_cpuinfo(at, "flags", text, sizeof(text)) &&
	                machine_has_word(text, "hypervisor");
	(void)device_line(text, sizeof(text), CPU_DIR "/online", at->sys);
	for (unsigned int i = 0; i < WEFT_MACHINE_CPUS_MAX; i++)
		m->cpus += device_list_has(text, i);
}

uint64_t
weft_machine_caps(const struct weft_device_roots *at)
{
	char path[PATH_MAX], line[256];
	uint64_t caps = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/self/status", at->proc);
	f = fopen(path, "re");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "CapEff: %" SCNx64, &caps) == 1)
			break;
	if (f != NULL)
		fclose(f);
	return caps;
}
