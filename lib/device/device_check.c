/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What prevents a process from opening a PCI device, in one line with the remedy. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "weft_device.h"
#include "weft_base.h"

/** Memory that DPDK maps for a device beside that of memory_mb. */
#define CHECK_MEMLOCK_EXTRA (16ull << 20)

struct check {
	const struct weft_device_roots *at;
	const struct weft_device_process *as;
	const struct weft_device_need *need;
	struct weft_device_info info;
	char *why;
	size_t why_size;
};

static int check_says(const struct check *c, int rc, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

static int
check_says(const struct check *c, int rc, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (c->why != NULL && c->why_size > 0)
		(void)vsnprintf(c->why, c->why_size, fmt, ap);
	va_end(ap);
	return rc;
}

/** A device that a driver of the kernel, or none, has. */
static int
check_unbound(const struct check *c)
{
	const struct weft_device_info *i = &c->info;

	if (i->binding == WEFT_DEVICE_KERNEL && i->ifname[0] != '\0')
		return check_says(c, -EADDRINUSE,
		                  "%s is the kernel's interface %s (driver %s); if nothing needs "
		                  "it: ip link set %s down; dpdk-devbind.py -b vfio-pci %s",
		                  i->address, i->ifname, i->driver, i->ifname, i->address);
	if (i->binding == WEFT_DEVICE_KERNEL)
		return check_says(c, -EADDRINUSE,
		                  "%s belongs to the kernel's driver %s; if nothing needs it: "
		                  "dpdk-devbind.py -b vfio-pci %s",
		                  i->address, i->driver, i->address);
	if (i->iommu_group < 0)
		return check_says(c, -ENXIO,
		                  "%s has no driver, and no IOMMU: modprobe uio_pci_generic; "
		                  "dpdk-devbind.py -b uio_pci_generic %s (or start the kernel with "
		                  "intel_iommu=on or amd_iommu=on, then vfio-pci)",
		                  i->address, i->address);
	return check_says(c, -ENXIO,
	                  "%s has no driver: modprobe vfio-pci; dpdk-devbind.py -b vfio-pci %s",
	                  i->address, i->address);
}

/** RLIMIT_MEMLOCK: all memory that the device reaches is locked. */
static int
check_memlock(const struct check *c)
{
	uint64_t need = ((uint64_t)c->need->memory_mb << 20) + CHECK_MEMLOCK_EXTRA;

	if (c->as->root || c->as->memlock_bytes >= need)
		return 0;
	return check_says(c, -ENOMEM,
	                  "%s: locked memory is limited to %" PRIu64 " KiB, and %" PRIu64
	                  " KiB are needed: ulimit -l %" PRIu64
	                  " (LimitMEMLOCK= of systemd; memlock in limits.conf)",
	                  c->info.address, c->as->memlock_bytes >> 10, need >> 10, need >> 10);
}

static int
check_vfio(const struct check *c)
{
	const struct weft_device_info *i = &c->info;
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/vfio/%d", c->at->dev, i->iommu_group);
	if (access(path, F_OK) != 0) {
		/* Without an IOMMU vfio has its unsafe mode, with files of another name. */
		snprintf(path, sizeof(path), "%s/vfio/noiommu-%d", c->at->dev, i->iommu_group);
		if (access(path, F_OK) == 0 && !c->as->root)
			return check_says(c, -EACCES,
			                  "%s: vfio without an IOMMU needs root: run as root, or "
			                  "start the kernel with an IOMMU",
			                  i->address);
		if (access(path, F_OK) == 0)
			return 0;
		return check_says(c, -ENXIO,
		                  "%s: %s/vfio/%d is missing: modprobe vfio-pci; "
		                  "dpdk-devbind.py -b vfio-pci %s",
		                  i->address, c->at->dev, i->iommu_group, i->address);
	}
	/* The kernel lets one process open a group. Opening and closing it has no other effect. */
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 && errno == EBUSY)
		return check_says(c, -EBUSY, "%s: another program uses it (fuser -v %s)",
		                  i->address, path);
	if (fd < 0)
		return check_says(c, -EACCES, "%s: no permission for %s: as root, chown %u %s",
		                  i->address, path, (unsigned int)geteuid(), path);
	close(fd);
	return check_memlock(c);
}

static int
check_uio(const struct check *c)
{
	const struct weft_device_info *i = &c->info;

	if (!c->as->root)
		return check_says(
		        c, -EACCES,
		        "%s: %s needs root: run as root, or bind vfio-pci (with an IOMMU)",
		        i->address, i->driver);
	if (!c->need->hugepages)
		return check_says(c, -ENOTSUP,
		                  "%s: %s needs hugepages: echo %u > "
		                  "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
		                  i->address, i->driver, (c->need->memory_mb + 1) / 2);
	return 0;
}

int
weft_device_check_at(const struct weft_device_roots *at, const struct weft_device_process *as,
                     const char *dev, const struct weft_device_need *need, char *why,
                     size_t why_size)
{
	struct check c = {.at = at,
	                  .as = as,
	                  .need = need,
	                  .info = {.size = sizeof(c.info)},
	                  .why = why,
	                  .why_size = why_size};
	int rc, fd;

	if (why != NULL && why_size > 0)
		why[0] = '\0';
	if (need == NULL || need->size != sizeof(*need))
		return -EINVAL;
	rc = weft_device_info_at(at, dev, &c.info);
	if (rc == -EINVAL)
		return check_says(&c, -EINVAL, "%s is no PCI address (0000:3b:00.0)",
		                  dev != NULL ? dev : "");
	if (rc < 0)
		return check_says(&c, -ENODEV,
		                  "%s: there is no such PCI device (lspci -D shows those that are)",
		                  c.info.address);
	if (c.info.class_code >> 16 != WEFT_DEVICE_CLASS_NETWORK)
		return check_says(&c, -ENODEV,
		                  "%s is no network device (class %06x); lspci -D | grep -i net "
		                  "shows those",
		                  c.info.address, c.info.class_code);
	switch (c.info.binding) {
	case WEFT_DEVICE_VFIO:
		rc = check_vfio(&c);
		break;
	case WEFT_DEVICE_UIO:
		rc = check_uio(&c);
		break;
	case WEFT_DEVICE_BIFURCATED:
		rc = 0;
		break;
	default:
		return check_unbound(&c);
	}
	if (rc < 0 || c.info.binding == WEFT_DEVICE_BIFURCATED)
		return rc;
	rc = weft_device_lock(at, dev, &fd);
	if (rc == -EBUSY)
		return check_says(&c, rc, "%s: another program of weft uses it", c.info.address);
	if (rc == 0)
		close(fd);
	return 0;
}

int
weft_device_check(const char *dev, const struct weft_device_need *need, char *why, size_t why_size)
{
	struct weft_device_process as = {.root = geteuid() == 0, .memlock_bytes = UINT64_MAX};
	struct rlimit lim;

	if (getrlimit(RLIMIT_MEMLOCK, &lim) == 0 && lim.rlim_cur != RLIM_INFINITY)
		as.memlock_bytes = lim.rlim_cur;
	return weft_device_check_at(&weft_device_kernel, &as, dev, need, why, why_size);
}
