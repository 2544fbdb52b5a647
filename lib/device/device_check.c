/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What prevents a process from opening a PCI device, in one line with the remedy. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "weft_device.h"
#include "weft_device_hold.h"
#include "weft_base.h"

/** Memory that DPDK maps for a device beside that of memory_mb. */
#define CHECK_MEMLOCK_EXTRA (16ull << 20)
#define CHECK_CLASS_BRIDGE  0x06 /* the upper octet of a class code */

struct check {
	const struct weft_device_roots *at;
	const struct weft_device_process *as;
	const struct weft_device_need *need;
	struct weft_device_info info;
	struct weft_device_verdict *v;
};

static int check_says(const struct check *c, int rc, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
static void check_mend(const struct check *c, const char *fmt, ...)
        __attribute__((format(printf, 2, 3)));

static int
check_says(const struct check *c, int rc, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(c->v->what, sizeof(c->v->what), fmt, ap);
	va_end(ap);
	return rc;
}

static void
check_mend(const struct check *c, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(c->v->mend, sizeof(c->v->mend), fmt, ap);
	va_end(ap);
}

/** A device that a driver of the kernel, or none, has. */
static int
check_unbound(const struct check *c)
{
	const struct weft_device_info *i = &c->info;

	check_mend(c, "weft-doctor bind %s", i->address);
	if (i->binding == WEFT_DEVICE_KERNEL && i->ifname[0] != '\0')
		return check_says(c, -EADDRINUSE, "the kernel has it as interface %s (driver %s)",
		                  i->ifname, i->driver);
	if (i->binding == WEFT_DEVICE_KERNEL)
		return check_says(c, -EADDRINUSE, "it belongs to the kernel's driver %s",
		                  i->driver);
	return check_says(c, -ENXIO, "it has no driver%s",
	                  i->iommu_group < 0 ? ", and no IOMMU translates for it" : "");
}

/** RLIMIT_MEMLOCK: all memory that the device reaches is locked. */
static int
check_memlock(const struct check *c)
{
	uint64_t need = ((uint64_t)c->need->memory_mb << 20) + CHECK_MEMLOCK_EXTRA;

	if (c->as->memlock_bytes >= need)
		return 0;
	check_mend(c, "ulimit -l %" PRIu64, need >> 10);
	return check_says(c, -ENOMEM,
	                  "locked memory is limited to %" PRIu64 " KiB, and %" PRIu64
	                  " KiB are needed (LimitMEMLOCK= of systemd; memlock in limits.conf)",
	                  c->as->memlock_bytes >> 10, need >> 10);
}

/** vfio gives a group to one program as a whole: no driver of the kernel may have a part of it. */
static int
check_group(const struct check *c)
{
	struct weft_device_info other = {.size = sizeof(other)};
	struct dirent **found;
	char path[PATH_MAX];
	int n, rc = 0;

	snprintf(path, sizeof(path), "%s/kernel/iommu_groups/%d/devices", c->at->sys,
	         c->info.iommu_group);
	n = scandir(path, &found, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		/* Bridges stay with the kernel. Linux's driver pci-stub reserves a device and does
		 * not use it, so vfio permits it in the group. */
		if (rc == 0 && weft_device_info_at(c->at, found[i]->d_name, &other) == 0 &&
		    other.class_code >> 16 != CHECK_CLASS_BRIDGE && other.driver[0] != '\0' &&
		    other.binding != WEFT_DEVICE_VFIO && strcmp(other.driver, "pci-stub") != 0) {
			if (other.class_code >> 16 == WEFT_DEVICE_CLASS_NETWORK)
				check_mend(c, "weft-doctor bind %s", other.address);
			else
				check_mend(c, "echo %s > /sys/bus/pci/devices/%s/driver/unbind",
				           other.address, other.address);
			rc = check_says(c, -EADDRINUSE,
			                "the kernel's driver %s has %s, which is in the same IOMMU "
			                "group %d",
			                other.driver, other.address, c->info.iommu_group);
		}
		free(found[i]);
	}
	if (n >= 0)
		free(found);
	return rc;
}

static int
check_vfio(const struct check *c)
{
	const struct weft_device_info *i = &c->info;
	char path[PATH_MAX];
	int fd, rc;

	snprintf(path, sizeof(path), "%s/vfio/%d", c->at->dev, i->iommu_group);
	if (access(path, F_OK) != 0) {
		/* Without an IOMMU vfio has its unsafe mode, with files of another name. */
		snprintf(path, sizeof(path), "%s/vfio/noiommu-%d", c->at->dev, i->iommu_group);
		if (access(path, F_OK) == 0 && !c->as->root) {
			check_mend(c, "run as root, or start the kernel with an IOMMU");
			return check_says(c, -EACCES, "vfio without an IOMMU needs root");
		}
		if (access(path, F_OK) == 0)
			return 0;
		check_mend(c, "modprobe vfio-pci; weft-doctor restore %s; weft-doctor bind %s",
		           i->address, i->address);
		return check_says(c, -ENXIO, "%s/vfio/%d is missing", c->at->dev, i->iommu_group);
	}
	rc = check_group(c);
	if (rc < 0)
		return rc;
	/* The kernel lets one process open a group. Opening and closing it has no other effect. */
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 && errno == EBUSY) {
		check_mend(c, "fuser -v %s", path);
		return check_says(c, -EBUSY, "another program uses it");
	}
	if (fd < 0 && errno != EACCES && errno != EPERM)
		return check_says(c, -errno, "cannot open %s: %s", path, strerror(errno));
	if (fd < 0) {
		check_mend(c, "sudo chown %u %s", (unsigned int)geteuid(), path);
		return check_says(c, -EACCES, "no permission for %s", path);
	}
	close(fd);
	return check_memlock(c);
}

static int
check_uio(const struct check *c)
{
	const struct weft_device_info *i = &c->info;

	if (!c->as->root) {
		check_mend(c, "run as root, or bind vfio-pci (with an IOMMU)");
		return check_says(c, -EACCES, "%s needs root", i->driver);
	}
	if (!c->need->hugepages) {
		check_mend(c, "echo %u > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
		           (c->need->memory_mb + 1) / 2);
		return check_says(c, -ENOTSUP, "%s needs hugepages", i->driver);
	}
	return 0;
}

/** The kernel keeps the interface of a device that it shares. Its frames go to the port. */
static int
check_needed(const struct check *c, const char *dev)
{
	struct weft_device_hold hold;
	int rc;

	if (c->need->take_needed)
		return 0;
	rc = weft_device_hold(c->at, dev, &hold);
	if (rc < 0)
		return check_says(c, rc, "its routes cannot be read: %s", strerror(-rc));
	if (hold.kind == WEFT_HOLD_NONE)
		return 0;
	check_mend(c, "name another one, or set take_needed = yes in [weft]");
	if (hold.kind == WEFT_HOLD_SSH)
		return check_says(c, -EADDRINUSE,
		                  "the port would take the frames of interface %s, and the SSH "
		                  "connection with %s uses it",
		                  hold.ifname, hold.peer);
	return check_says(c, -EADDRINUSE,
	                  "the port would take the frames of interface %s, and the default route "
	                  "uses it",
	                  hold.ifname);
}

int
weft_device_judge(const struct weft_device_roots *at, const struct weft_device_process *as,
                  const char *dev, const struct weft_device_need *need,
                  struct weft_device_verdict *v)
{
	struct check c = {
	        .at = at, .as = as, .need = need, .info = {.size = sizeof(c.info)}, .v = v};
	int rc, fd;

	v->what[0] = v->mend[0] = '\0';
	if (need == NULL || need->size != sizeof(*need))
		return check_says(&c, -EINVAL, "the program does not say what it needs");
	if (weft_device_is_xdp(dev))
		return check_needed(&c, dev);
	rc = weft_device_info_at(at, dev, &c.info);
	if (rc == -EINVAL)
		return check_says(&c, -EINVAL, "it has no PCI address, such as 0000:3b:00.0");
	if (rc < 0) {
		check_mend(&c, "lspci -D shows those that are");
		return check_says(&c, -ENODEV, "there is no such PCI device");
	}
	if (c.info.class_code >> 16 != WEFT_DEVICE_CLASS_NETWORK) {
		check_mend(&c, "lspci -D | grep -i net shows those");
		return check_says(&c, -ENODEV, "it is no network device (class %06x)",
		                  c.info.class_code);
	}
	switch (c.info.binding) {
	case WEFT_DEVICE_VFIO:
		rc = check_vfio(&c);
		break;
	case WEFT_DEVICE_UIO:
		rc = check_uio(&c);
		break;
	case WEFT_DEVICE_BIFURCATED:
		rc = check_needed(&c, dev);
		break;
	default:
		return check_unbound(&c);
	}
	if (rc < 0 || c.info.binding == WEFT_DEVICE_BIFURCATED)
		return rc;
	rc = weft_device_lock(at, dev, &fd);
	if (rc == -EBUSY)
		return check_says(&c, rc, "another program of weft uses it");
	if (rc == 0)
		close(fd);
	return 0;
}

int
weft_device_check_at(const struct weft_device_roots *at, const struct weft_device_process *as,
                     const char *dev, const struct weft_device_need *need, char *why,
                     size_t why_size)
{
	struct weft_device_verdict v;
	int rc = weft_device_judge(at, as, dev, need, &v);

	if (why != NULL && why_size > 0)
		(void)snprintf(why, why_size, "%s%s%s", v.what, v.mend[0] != '\0' ? ": " : "",
		               v.mend);
	return rc;
}

static bool
check_may_lock(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	return syscall(SYS_capget, &head, data) == 0 &&
	       (data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK)) != 0;
}

void
weft_device_self(struct weft_device_process *as)
{
	struct rlimit lim;

	*as = (struct weft_device_process){.root = geteuid() == 0, .memlock_bytes = UINT64_MAX};
	if (!check_may_lock() && getrlimit(RLIMIT_MEMLOCK, &lim) == 0 &&
	    lim.rlim_cur != RLIM_INFINITY)
		as->memlock_bytes = lim.rlim_cur;
}

int
weft_device_check(const char *dev, const struct weft_device_need *need, char *why, size_t why_size)
{
	struct weft_device_process as;

	weft_device_self(&as);
	return weft_device_check_at(&weft_device_kernel, &as, dev, need, why, why_size);
}
