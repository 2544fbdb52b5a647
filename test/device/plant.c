/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A machine in a temporary folder. */

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plant.h"
#include "weft_test.h"

static char top[64], folders[4][80];
struct weft_device_roots plant_roots = {
        .sys = folders[0], .dev = folders[1], .proc = folders[2], .run = folders[3]};

static int
remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

void
plant_end(void)
{
	if (top[0] != '\0')
		(void)nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	top[0] = '\0';
}

void
plant_begin(void)
{
	static const char *const names[] = {"sys", "dev", "proc", "run"};

	plant_end();
	strcpy(top, "/tmp/weft.plant.XXXXXX");
	CHECK(mkdtemp(top) != NULL);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		snprintf(folders[i], sizeof(folders[i]), "%s/%s", top, names[i]);
	plant_dir("sys/bus/pci/devices");
	plant_dir("dev/vfio");
	plant_dir("proc/net");
	plant_dir("run");
}

/** The full path of a name. The folders above it are made. */
static void
plant_path(char path[PATH_MAX], const char *name)
{
	size_t n = strlen(top) + 1;

	CHECK(snprintf(path, PATH_MAX, "%s/%s", top, name) < PATH_MAX);
	for (char *p = path + n; (p = strchr(p, '/')) != NULL; p++) {
		*p = '\0';
		(void)mkdir(path, 0700);
		*p = '/';
	}
}

void
plant_dir(const char *fmt, ...)
{
	char path[PATH_MAX], name[PATH_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	plant_path(path, name);
	CHECK_MSG(mkdir(path, 0700) == 0 || errno == EEXIST, "%s", path);
}

void
plant_file(const char *name, const char *text)
{
	char path[PATH_MAX];
	FILE *f;

	plant_path(path, name);
	f = fopen(path, "we");
	CHECK_MSG(f != NULL, "%s", path);
	fputs(text, f);
	fclose(f);
}

void
plant_remove(const char *name)
{
	char path[PATH_MAX];

	plant_path(path, name);
	CHECK(unlink(path) == 0 || errno == ENOENT);
}

void
plant_link(const char *to, const char *name)
{
	char path[PATH_MAX];

	plant_remove(name);
	plant_path(path, name);
	CHECK_MSG(symlink(to, path) == 0, "%s", path);
}

static void plant_in(const char *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void
plant_in(const char *text, const char *fmt, ...)
{
	char name[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	plant_file(name, text);
}

void
plant_nic(const char *address, const char *driver, int group)
{
	char name[256], to[256];

	plant_in("0x8086\n", "sys/bus/pci/devices/%s/vendor", address);
	plant_in("0x10d3\n", "sys/bus/pci/devices/%s/device", address);
	plant_in("0x020000\n", "sys/bus/pci/devices/%s/class", address);
	plant_in("1\n", "sys/bus/pci/devices/%s/numa_node", address);
	plant_in("", "sys/bus/pci/devices/%s/config", address);
	plant_in("\n", "sys/bus/pci/devices/%s/driver_override", address);
	if (driver != NULL) {
		snprintf(name, sizeof(name), "sys/bus/pci/devices/%s/driver", address);
		snprintf(to, sizeof(to), "../../../../bus/pci/drivers/%s", driver);
		plant_dir("sys/bus/pci/drivers/%s", driver);
		plant_link(to, name);
	}
	if (group >= 0) {
		snprintf(name, sizeof(name), "sys/bus/pci/devices/%s/iommu_group", address);
		snprintf(to, sizeof(to), "../../../../kernel/iommu_groups/%d", group);
		plant_link(to, name);
	}
}

void
plant_group(int group, const char *address)
{
	plant_dir("sys/kernel/iommu_groups/%d/devices/%s", group, address);
}

void
plant_interface(const char *ifname, const char *address)
{
	if (address != NULL)
		plant_dir("sys/bus/pci/devices/%s/net/%s", address, ifname);
	plant_in("0x1003\n", "sys/class/net/%s/flags", ifname);
	plant_in("1\n", "sys/class/net/%s/carrier", ifname);
	plant_in("1500\n", "sys/class/net/%s/mtu", ifname);
	plant_in("10000\n", "sys/class/net/%s/speed", ifname);
}
