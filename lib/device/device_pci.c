/* SPDX-License-Identifier: BSD-3-Clause */
/** @file PCI devices in sysfs: address, driver, interface, and a lock on each. */

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <rte_string_fns.h>

#include "weft_device.h"
#include "weft_base.h"

const struct weft_device_roots weft_device_kernel = {.sys = "/sys", .dev = "/dev"};

/** The octets of hexadecimal digits at s; at most `max` of them. */
static size_t
pci_hex(const char *s, size_t max)
{
	size_t n = 0;

	while (n < max && isxdigit((unsigned char)s[n]))
		n++;
	return n;
}

int
weft_device_address(const char *dev, char address[16])
{
	unsigned int domain = 0, bus, slot, function;
	const char *p = dev;
	int used = 0;

	if (dev == NULL)
		return -EINVAL;
	if (pci_hex(p, 5) == 4 && p[4] == ':') {
		domain = (unsigned int)strtoul(p, NULL, 16);
		p += 5;
	}
	if (pci_hex(p, 3) != 2 || p[2] != ':' || pci_hex(p + 3, 3) != 2 || p[5] != '.' ||
	    p[6] < '0' || p[6] > '7' || (p[7] != '\0' && p[7] != ','))
		return -EINVAL;
	if (sscanf(p, "%2x:%2x.%1x%n", &bus, &slot, &function, &used) != 3 || used != 7 ||
	    slot > 31)
		return -EINVAL;
	snprintf(address, 16, "%04x:%02x:%02x.%x", domain, bus & 0xff, slot & 0x1f, function & 7);
	return 0;
}

const char *
weft_device_args(const char *dev)
{
	const char *comma = strchr(dev, ',');

	return comma != NULL ? comma + 1 : "";
}

bool
weft_device_is_pci(const char *dev)
{
	char address[16];

	return weft_device_address(dev, address) == 0;
}

/** The number in a file of the device; `none`: there is no such file, or no number in it. */
static long
pci_number(const char *dir, const char *file, int base, long none)
{
	char path[PATH_MAX], line[64], *end;
	long v = none;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	f = fopen(path, "re");
	if (f == NULL)
		return none;
	if (fgets(line, sizeof(line), f) != NULL) {
		v = strtol(line, &end, base);
		if (end == line)
			v = none;
	}
	fclose(f);
	return v;
}

/** The last part of what a link of the device leads to; "": there is no such link. */
static void
pci_link(const char *dir, const char *link, char *name, size_t size)
{
	char path[PATH_MAX], to[PATH_MAX];
	const char *slash;
	ssize_t n;

	name[0] = '\0';
	snprintf(path, sizeof(path), "%s/%s", dir, link);
	n = readlink(path, to, sizeof(to) - 1);
	if (n <= 0)
		return;
	to[n] = '\0';
	slash = strrchr(to, '/');
	(void)rte_strscpy(name, slash != NULL ? slash + 1 : to, size);
}

/** The first interface in the order of names. virtio has one below its virtioN folder. */
static void
pci_ifname(const char *dir, char *name, size_t size)
{
	struct dirent **found;
	char path[PATH_MAX];
	int n;

	name[0] = '\0';
	snprintf(path, sizeof(path), "%s/net", dir);
	n = scandir(path, &found, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		if (name[0] == '\0' && found[i]->d_name[0] != '.')
			(void)rte_strscpy(name, found[i]->d_name, size);
		free(found[i]);
	}
	if (n >= 0)
		free(found);
}

static void
pci_interface(const char *dir, char *name, size_t size)
{
	char path[PATH_MAX + NAME_MAX + 2];
	struct dirent *d;
	DIR *all;

	pci_ifname(dir, name, size);
	if (name[0] != '\0')
		return;
	all = opendir(dir);
	if (all == NULL)
		return;
	while (name[0] == '\0' && (d = readdir(all)) != NULL) {
		if (strncmp(d->d_name, "virtio", 6) != 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, d->d_name);
		pci_ifname(path, name, size);
	}
	closedir(all);
}

static enum weft_device_binding
pci_binding(const char *driver)
{
	static const struct {
		const char *driver;
		enum weft_device_binding binding;
	} known[] = {
	        {"vfio-pci", WEFT_DEVICE_VFIO},        {"uio_pci_generic", WEFT_DEVICE_UIO},
	        {"igb_uio", WEFT_DEVICE_UIO},          {"mlx4_core", WEFT_DEVICE_BIFURCATED},
	        {"mlx5_core", WEFT_DEVICE_BIFURCATED},
	};

	if (driver[0] == '\0')
		return WEFT_DEVICE_UNBOUND;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(driver, known[i].driver) == 0)
			return known[i].binding;
	return WEFT_DEVICE_KERNEL;
}

int
weft_device_info_at(const struct weft_device_roots *at, const char *dev,
                    struct weft_device_info *info)
{
	char dir[PATH_MAX], group[32];

	if (info == NULL || info->size != sizeof(*info))
		return -EINVAL;
	*info = (struct weft_device_info){.size = sizeof(*info)};
	if (weft_device_address(dev, info->address) < 0)
		return -EINVAL;
	snprintf(dir, sizeof(dir), "%s/bus/pci/devices/%s", at->sys, info->address);
	if (access(dir, F_OK) != 0)
		return -ENOENT;
	info->vendor_id = (uint16_t)pci_number(dir, "vendor", 16, 0);
	info->device_id = (uint16_t)pci_number(dir, "device", 16, 0);
	info->class_code = (uint32_t)pci_number(dir, "class", 16, 0);
	info->numa_node = (int)pci_number(dir, "numa_node", 10, -1);
	pci_link(dir, "driver", info->driver, sizeof(info->driver));
	info->binding = pci_binding(info->driver);
	pci_interface(dir, info->ifname, sizeof(info->ifname));
	pci_link(dir, "iommu_group", group, sizeof(group));
	info->iommu_group = group[0] != '\0' ? atoi(group) : -1;
	return 0;
}

int
weft_device_info(const char *dev, struct weft_device_info *info)
{
	return weft_device_info_at(&weft_device_kernel, dev, info);
}

int
weft_device_each_at(const struct weft_device_roots *at,
                    int (*fn)(const struct weft_device_info *info, void *arg), void *arg)
{
	struct weft_device_info info = {.size = sizeof(info)};
	struct dirent **found;
	char path[PATH_MAX];
	int n, rc = 0;

	snprintf(path, sizeof(path), "%s/bus/pci/devices", at->sys);
	n = scandir(path, &found, NULL, alphasort);
	if (n < 0)
		return errno == ENOMEM ? -ENOMEM : 0; /* a machine without PCI */
	for (int i = 0; i < n; i++) {
		if (rc == 0 && weft_device_is_pci(found[i]->d_name) &&
		    weft_device_info_at(at, found[i]->d_name, &info) == 0 &&
		    info.class_code >> 16 == WEFT_DEVICE_CLASS_NETWORK)
			rc = fn(&info, arg);
		free(found[i]);
	}
	free(found);
	return rc;
}

int
weft_device_each(int (*fn)(const struct weft_device_info *info, void *arg), void *arg)
{
	return fn == NULL ? -EINVAL : weft_device_each_at(&weft_device_kernel, fn, arg);
}

int
weft_device_lock(const struct weft_device_roots *at, const char *dev, int *fd)
{
	char address[16], path[PATH_MAX];

	if (weft_device_address(dev, address) < 0)
		return -EINVAL;
	/* Every user may open this file for reading. */
	snprintf(path, sizeof(path), "%s/bus/pci/devices/%s/config", at->sys, address);
	*fd = open(path, O_RDONLY | O_CLOEXEC);
	if (*fd < 0)
		return errno == ENOENT ? -ENOENT : -errno;
	if (flock(*fd, LOCK_EX | LOCK_NB) != 0) {
		close(*fd);
		*fd = -1;
		return -EBUSY;
	}
	return 0;
}
