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

#include "device_file.h"
#include "weft_device.h"
#include "weft_base.h"

const struct weft_device_roots weft_device_kernel = {
        .sys = "/sys", .dev = "/dev", .proc = "/proc", .run = "/run"};

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

/** Add the interfaces of a folder, in the order of names. */
static unsigned int
pci_ifnames_in(const char *dir, char names[][16], unsigned int n, unsigned int max)
{
	struct dirent **found;
	char path[PATH_MAX];
	int all;

	snprintf(path, sizeof(path), "%s/net", dir);
	all = scandir(path, &found, NULL, alphasort);
	for (int i = 0; i < all; i++) {
		if (n < max && found[i]->d_name[0] != '.')
			(void)rte_strscpy(names[n++], found[i]->d_name, sizeof(names[0]));
		free(found[i]);
	}
	if (all >= 0)
		free(found);
	return n;
}

unsigned int
weft_device_ifnames(const struct weft_device_roots *at, const char *dev, char names[][16],
                    unsigned int max)
{
	char address[16], dir[PATH_MAX], path[PATH_MAX + NAME_MAX + 2];
	unsigned int n;
	struct dirent *d;
	DIR *all;

	if (weft_device_address(dev, address) < 0)
		return 0;
	snprintf(dir, sizeof(dir), "%s/bus/pci/devices/%s", at->sys, address);
	n = pci_ifnames_in(dir, names, 0, max);
	/* virtio has its interface below the folder virtioN. */
	all = opendir(dir);
	while (all != NULL && (d = readdir(all)) != NULL) {
		if (strncmp(d->d_name, "virtio", 6) != 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, d->d_name);
		n = pci_ifnames_in(path, names, n, max);
	}
	if (all != NULL)
		closedir(all);
	return n;
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
	char dir[PATH_MAX], group[32], ifname[1][16];

	if (info == NULL || info->size != sizeof(*info))
		return -EINVAL;
	*info = (struct weft_device_info){.size = sizeof(*info)};
	if (weft_device_address(dev, info->address) < 0)
		return -EINVAL;
	snprintf(dir, sizeof(dir), "%s/bus/pci/devices/%s", at->sys, info->address);
	if (access(dir, F_OK) != 0)
		return -ENOENT;
	info->vendor_id = (uint16_t)device_number(16, 0, "%s/vendor", dir);
	info->device_id = (uint16_t)device_number(16, 0, "%s/device", dir);
	info->class_code = (uint32_t)device_number(16, 0, "%s/class", dir);
	info->numa_node = (int)device_number(10, -1, "%s/numa_node", dir);
	device_link(info->driver, sizeof(info->driver), "%s/driver", dir);
	info->binding = pci_binding(info->driver);
	if (weft_device_ifnames(at, info->address, ifname, 1) > 0)
		(void)rte_strscpy(info->ifname, ifname[0], sizeof(info->ifname));
	device_link(group, sizeof(group), "%s/iommu_group", dir);
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
weft_device_open(const struct weft_device_roots *at, const char *dev, int *fd)
{
	char address[16], path[PATH_MAX];

	if (weft_device_address(dev, address) < 0)
		return -EINVAL;
	/* Every user may open this file for reading. */
	snprintf(path, sizeof(path), "%s/bus/pci/devices/%s/config", at->sys, address);
	*fd = open(path, O_RDONLY | O_CLOEXEC);
	return *fd < 0 ? -errno : 0;
}

enum weft_device_answer
weft_device_ask(int fd)
{
	uint8_t vendor[2];
	ssize_t n = pread(fd, vendor, sizeof(vendor), 0);

	if (n < 0)
		return errno == EINTR ? WEFT_DEVICE_ANSWERS : WEFT_DEVICE_REMOVED;
	return n == sizeof(vendor) && vendor[0] == 0xff && vendor[1] == 0xff ? WEFT_DEVICE_SILENT
	                                                                     : WEFT_DEVICE_ANSWERS;
}

int
weft_device_lock(const struct weft_device_roots *at, const char *dev, int *fd)
{
	int rc = weft_device_open(at, dev, fd);

	if (rc < 0)
		return rc;
	if (flock(*fd, LOCK_EX | LOCK_NB) != 0) {
		close(*fd);
		*fd = -1;
		return -EBUSY;
	}
	return 0;
}
