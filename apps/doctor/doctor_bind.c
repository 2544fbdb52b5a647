/* SPDX-License-Identifier: BSD-3-Clause */
/** @file weft-doctor bind and restore: a NIC goes to a driver for DPDK, and back to its former
 * driver. */

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor.h"
#include "weft_device_hold.h"

#define BIND_FOLDER "weft-doctor" /* in /run: a file for each NIC that was bound */

struct bind {
	const struct weft_device_roots *at;
	const struct doctor_kernel *k;
	struct weft_device_info info;
	char dir[PATH_MAX]; /* of the device in sysfs */
	int lock_fd;
	char *said; /* the answer, of at most `size` octets */
	size_t size;
};

static int bind_says(const struct bind *b, int rc, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

static int
bind_says(const struct bind *b, int rc, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(b->said, b->size, fmt, ap);
	va_end(ap);
	return rc;
}

/* ---- The kernel ---- */

static int
real_put(void *arg, const char *path, const char *text)
{
	size_t len = strlen(text);
	int fd = open(path, O_WRONLY | O_CLOEXEC), rc = 0;

	(void)arg;
	if (fd < 0)
		return -errno;
	if (write(fd, text, len) != (ssize_t)len)
		rc = errno != 0 ? -errno : -EIO;
	close(fd);
	return rc;
}

static int
real_load(void *arg, const char *module)
{
	char *const argv[] = {(char[]){"modprobe"}, (char[]){"-q"}, (char *)(uintptr_t)module,
	                      NULL};
	char *const env[] = {(char[]){"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, NULL};
	pid_t pid;
	int status, rc;

	(void)arg;
	rc = posix_spawnp(&pid, "modprobe", NULL, NULL, argv, env);
	if (rc != 0)
		return -rc;
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return -ENOENT;
	return 0;
}

const struct doctor_kernel doctor_real_kernel = {.put = real_put, .load = real_load};

/** Write to a file of the device, or of a driver. */
static int bind_put(const struct bind *b, const char *text, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));

static int
bind_put(const struct bind *b, const char *text, const char *fmt, ...)
{
	char path[PATH_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	return b->k->put(b->k->arg, path, text);
}

/** Whether a driver's name has no character by which a path would lead to another folder. */
static bool
bind_is_name(const char *s)
{
	if (*s == '\0')
		return false;
	for (; *s != '\0'; s++)
		if (!isalnum((unsigned char)*s) && *s != '_' && *s != '-')
			return false;
	return true;
}

/** Load the driver's module if the kernel does not have the driver. -ENOENT: there is none. */
static int
bind_driver(const struct bind *b, const char *driver)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/bus/pci/drivers/%s", b->at->sys, driver);
	if (access(path, F_OK) == 0)
		return 0;
	(void)b->k->load(b->k->arg, driver);
	return access(path, F_OK) == 0 ? 0 : -ENOENT;
}

/** Unbind the device from its driver, and bind it to this one. "": to the one that the kernel
 * chooses. */
static int
bind_move(struct bind *b, const char *driver, bool override)
{
	char address[sizeof(b->info.address)]; /* the second read of info overwrites it */
	int rc;

	memcpy(address, b->info.address, sizeof(address));
	rc = bind_put(b, override ? driver : "\n", "%s/driver_override", b->dir);
	if (rc == 0 && b->info.driver[0] != '\0')
		rc = bind_put(b, address, "%s/driver/unbind", b->dir);
	if (rc == 0 && driver[0] != '\0')
		rc = bind_put(b, address, "%s/bus/pci/drivers/%s/bind", b->at->sys, driver);
	else if (rc == 0)
		rc = bind_put(b, address, "%s/bus/pci/drivers_probe", b->at->sys);
	if (weft_device_info_at(b->at, address, &b->info) != 0)
		return -ENODEV;
	if (rc == 0 && driver[0] != '\0' && strcmp(b->info.driver, driver) != 0)
		return -EIO;
	return rc;
}

/* ---- The record: the former driver, and what was bound ---- */

static void
bind_record(const struct bind *b, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/" BIND_FOLDER "/%s", b->at->run, b->info.address);
}

/** Write down which driver the device has. */
static int
bind_remember(const struct bind *b)
{
	char path[PATH_MAX], line[64];
	int fd, rc = 0, n;

	snprintf(path, sizeof(path), "%s/" BIND_FOLDER, b->at->run);
	if (mkdir(path, 0755) != 0 && errno != EEXIST)
		return -errno;
	bind_record(b, path);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	n = snprintf(line, sizeof(line), "%s\n", b->info.driver);
	if (write(fd, line, (size_t)n) != n)
		rc = -EIO;
	close(fd);
	return rc;
}

/** The driver that is written down; false: none is. "": the device had none. */
static bool
bind_recall(const struct bind *b, char driver[32])
{
	char path[PATH_MAX];
	bool found;
	FILE *f;

	driver[0] = '\0';
	bind_record(b, path);
	f = fopen(path, "re");
	if (f == NULL)
		return false;
	found = fgets(driver, 32, f) != NULL;
	driver[strcspn(driver, "\n")] = '\0';
	fclose(f);
	if (driver[0] != '\0' && !bind_is_name(driver))
		driver[0] = '\0';
	return found;
}

static void
bind_forget(const struct bind *b)
{
	char path[PATH_MAX];

	bind_record(b, path);
	(void)unlink(path);
}

/* ---- Reasons to refuse ---- */

/** -EBUSY: a program has the device open. The kernel would wait until that program closes it. */
static int
bind_in_use(struct bind *b)
{
	char path[PATH_MAX];
	int rc = weft_device_lock(b->at, b->info.address, &b->lock_fd), fd;

	if (rc == -EBUSY)
		return bind_says(b, rc, "%s: another program of weft uses it", b->info.address);
	if (rc < 0)
		return bind_says(b, rc, "%s: %s", b->info.address, strerror(-rc));
	if (b->info.binding != WEFT_DEVICE_VFIO || b->info.iommu_group < 0)
		return 0;
	snprintf(path, sizeof(path), "%s/vfio/%d", b->at->dev, b->info.iommu_group);
	if (access(path, F_OK) != 0)
		snprintf(path, sizeof(path), "%s/vfio/noiommu-%d", b->at->dev, b->info.iommu_group);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 && errno == EBUSY)
		return bind_says(b, -EBUSY, "%s: another program uses it: fuser -v %s",
		                 b->info.address, path);
	if (fd >= 0)
		close(fd);
	return 0;
}

static int
bind_needed(const struct bind *b)
{
	struct weft_device_hold hold;
	int rc = weft_device_hold(b->at, b->info.address, &hold);

	if (rc < 0)
		return bind_says(b, rc, "%s: its routes cannot be read: %s", b->info.address,
		                 strerror(-rc));
	if (hold.kind == WEFT_HOLD_SSH)
		return bind_says(b, -EADDRINUSE,
		                 "%s: the SSH connection with %s uses its interface %s, and would "
		                 "end; --yes binds it all the same",
		                 b->info.address, hold.peer, hold.ifname);
	if (hold.kind == WEFT_HOLD_ROUTE)
		return bind_says(b, -EADDRINUSE,
		                 "%s: the default route uses its interface %s, and would be lost; "
		                 "--yes binds it all the same",
		                 b->info.address, hold.ifname);
	return 0;
}

/* ---- The two commands ---- */

static int
bind_begin(struct bind *b, const char *dev)
{
	int rc = weft_device_info_at(b->at, dev, &b->info);

	if (rc == -EINVAL)
		return bind_says(b, rc, "%s is no PCI address, such as 0000:3b:00.0", dev);
	if (rc < 0)
		return bind_says(b, -ENODEV,
		                 "%s: there is no such PCI device: lspci -D shows those that are",
		                 b->info.address);
	if (b->info.class_code >> 16 != WEFT_DEVICE_CLASS_NETWORK)
		return bind_says(b, -ENODEV, "%s is no network device (class %06x)",
		                 b->info.address, b->info.class_code);
	snprintf(b->dir, sizeof(b->dir), "%s/bus/pci/devices/%s", b->at->sys, b->info.address);
	return 0;
}

/** The driver for DPDK that this machine can use. */
static const char *
bind_choose(const struct bind *b)
{
	struct weft_machine_iommu iommu;

	weft_machine_iommu(b->at, &iommu);
	return b->info.iommu_group >= 0 || iommu.noiommu == 1 ? "vfio-pci" : "uio_pci_generic";
}

static int
bind_failed(struct bind *b, int rc, const char *driver, const char *former)
{
	char why[256];

	if (rc == -EACCES || rc == -EPERM)
		snprintf(why, sizeof(why), "this needs root");
	else if (rc == -EINVAL && strcmp(driver, "vfio-pci") == 0)
		snprintf(why, sizeof(why),
		         "vfio-pci does not take it without an IOMMU "
		         "(weft-doctor shows how to get one)");
	else
		snprintf(why, sizeof(why), "%s does not take it: %s", driver, strerror(-rc));
	/* Give the device back to its former driver, unless that one still has it. */
	if (strcmp(b->info.driver, former) == 0)
		(void)bind_put(b, "\n", "%s/driver_override", b->dir);
	else if (bind_move(b, former, false) != 0)
		return bind_says(b, rc, "%s: %s, and %s does not take it back", b->info.address,
		                 why, former[0] != '\0' ? former : "the kernel");
	return bind_says(b, rc, "%s: %s; it has its former driver", b->info.address, why);
}

static int
bind_to(struct bind *b, const char *driver)
{
	const bool from_kernel =
	        b->info.binding != WEFT_DEVICE_VFIO && b->info.binding != WEFT_DEVICE_UIO;
	char former[sizeof(b->info.driver)];
	int rc = bind_driver(b, driver);

	if (rc < 0)
		return bind_says(b, rc, "%s: there is no driver %s: modprobe %s", b->info.address,
		                 driver, driver);
	snprintf(former, sizeof(former), "%s", b->info.driver);
	/* Of two bindings in a row the first one knows what the kernel had. */
	if (from_kernel)
		rc = bind_remember(b);
	if (rc < 0)
		return bind_says(b, rc,
		                 "%s: its driver cannot be written down in %s/" BIND_FOLDER ": %s",
		                 b->info.address, b->at->run,
		                 rc == -EACCES ? "this needs root" : strerror(-rc));
	rc = bind_move(b, driver, true);
	if (rc < 0) {
		rc = bind_failed(b, rc, driver, former);
		if (from_kernel && strcmp(b->info.driver, former) == 0)
			bind_forget(b);
		return rc;
	}
	return bind_says(b, 0, "%s: bound to %s; back to %s: weft-doctor restore %s",
	                 b->info.address, driver, former[0] != '\0' ? former : "what it was",
	                 b->info.address);
}

static void
bind_end(const struct bind *b)
{
	if (b->lock_fd >= 0)
		close(b->lock_fd);
}

int
doctor_bind(const struct weft_device_roots *at, const struct doctor_kernel *k, const char *dev,
            const char *driver, bool yes, char *said, size_t size)
{
	static const char *const drivers[] = {"vfio-pci", "uio_pci_generic", "igb_uio"};
	struct bind b = {.at = at,
	                 .k = k,
	                 .info = {.size = sizeof(b.info)},
	                 .lock_fd = -1,
	                 .said = said,
	                 .size = size};
	int rc = bind_begin(&b, dev);
	bool known = false;

	if (rc < 0)
		return rc;
	if (driver == NULL)
		driver = bind_choose(&b);
	for (size_t i = 0; i < sizeof(drivers) / sizeof(drivers[0]); i++)
		known |= strcmp(driver, drivers[i]) == 0;
	if (!known)
		return bind_says(
		        &b, -EINVAL,
		        "%s is no driver for DPDK; there are vfio-pci, uio_pci_generic and "
		        "igb_uio",
		        driver);
	if (strcmp(b.info.driver, driver) == 0)
		return bind_says(&b, 0, "%s: has driver %s already", b.info.address, driver);
	if (b.info.binding == WEFT_DEVICE_BIFURCATED)
		return bind_says(&b, -EADDRINUSE,
		                 "%s: DPDK shares it with the kernel's driver %s, so it is ready "
		                 "as it is",
		                 b.info.address, b.info.driver);
	rc = bind_in_use(&b);
	if (rc == 0 && !yes)
		rc = bind_needed(&b);
	if (rc == 0)
		rc = bind_to(&b, driver);
	bind_end(&b);
	return rc;
}

int
doctor_restore(const struct weft_device_roots *at, const struct doctor_kernel *k, const char *dev,
               char *said, size_t size)
{
	struct bind b = {.at = at,
	                 .k = k,
	                 .info = {.size = sizeof(b.info)},
	                 .lock_fd = -1,
	                 .said = said,
	                 .size = size};
	char driver[sizeof(b.info.driver)];
	int rc = bind_begin(&b, dev);

	if (rc < 0)
		return rc;
	(void)bind_recall(&b, driver);
	if (b.info.binding == WEFT_DEVICE_KERNEL || b.info.binding == WEFT_DEVICE_BIFURCATED) {
		bind_forget(&b);
		return bind_says(&b, 0, "%s: has the kernel's driver %s already", b.info.address,
		                 b.info.driver);
	}
	rc = bind_in_use(&b);
	if (rc == 0 && driver[0] != '\0' && bind_driver(&b, driver) != 0)
		driver[0] = '\0'; /* the former driver exists no more: the kernel chooses */
	if (rc == 0) {
		rc = bind_move(&b, driver, false);
		if (rc == -EACCES || rc == -EPERM)
			(void)bind_says(&b, rc, "%s: this needs root", b.info.address);
		else if (rc < 0)
			(void)bind_says(&b, rc, "%s: %s does not take it back: %s", b.info.address,
			                driver[0] != '\0' ? driver : "the kernel", strerror(-rc));
	}
	if (rc == 0) {
		bind_forget(&b);
		if (b.info.driver[0] != '\0')
			(void)bind_says(&b, 0, "%s: has the kernel's driver %s", b.info.address,
			                b.info.driver);
		else
			(void)bind_says(&b, 0, "%s: no driver of the kernel takes it",
			                b.info.address);
	}
	bind_end(&b);
	return rc;
}
