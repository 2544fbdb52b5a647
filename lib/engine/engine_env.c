/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Initialization of EAL for programs that do not do it: without root or files, and of the
 * PCI bus only the devices that the program names. */

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <linux/mman.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>

#include "engine_priv.h"
#include "weft_device.h"
#include "weft_netif_removal.h"

#define ENV_DEFAULT_MEMORY_MB 256
#define ENV_MAX_ARGS          64
#define ENV_DEFAULT_LCORES    2

static enum { ENV_NONE, ENV_OURS, ENV_OVER } env_state;
/* EAL keeps pointers to its arguments, and reorders the array that it gets. */
static char *env_argv[ENV_MAX_ARGS + 1];
static char *env_shuffled[ENV_MAX_ARGS + 1];
static int env_argc;
static char env_msg[512];

static int env_arg(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static int
env_arg(const char *fmt, ...)
{
	va_list ap;
	int n;

	if (env_argc == ENV_MAX_ARGS)
		return -E2BIG;
	va_start(ap, fmt);
	n = vasprintf(&env_argv[env_argc], fmt, ap);
	va_end(ap);
	if (n < 0)
		return -ENOMEM;
	env_argv[++env_argc] = NULL;
	return 0;
}

static void
env_args_free(void)
{
	while (env_argc > 0)
		free(env_argv[--env_argc]);
}

static char env_dir[PATH_MAX]; /**< EAL's runtime directory */
static FILE *env_huge_lock;    /**< locked from counting free hugepages until EAL has them */

/** Whether memory_mb of hugepages of one size are free and this process may use them. If so,
 * env_huge_lock is held. */
static bool
env_hugepages(uint32_t memory_mb)
{
	uint64_t want = (uint64_t)memory_mb << 20;
	struct dirent *d;
	bool ok = false;
	DIR *dir = opendir("/sys/kernel/mm/hugepages");

	if (dir == NULL)
		return false;
	while (!ok && (d = readdir(dir)) != NULL) {
		uint64_t page_kb, pages = 0, page, bytes;
		char path[512];
		void *p;
		FILE *f;

		if (sscanf(d->d_name, "hugepages-%" SCNu64 "kB", &page_kb) != 1)
			continue;
		snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/%s/free_hugepages",
		         d->d_name);
		f = fopen(path, "re");
		if (f == NULL)
			continue;
		/* Processes that start together would see the same free pages. So each holds the
		 * lock until EAL has reserved its pages. */
		(void)flock(fileno(f), LOCK_EX);
		if (fscanf(f, "%" SCNu64, &pages) != 1)
			pages = 0;
		page = page_kb << 10;
		if (page == 0 || pages < (want + page - 1) / page) {
			fclose(f);
			continue;
		}
		/* EAL cannot be started a second time. So try first whether the pages can be
		 * mapped, and unmap them. */
		bytes = RTE_ALIGN_CEIL(want, page);
		p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		         MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB |
		                 (int)((unsigned int)rte_log2_u64(page) << MAP_HUGE_SHIFT),
		         -1, 0);
		if (p != MAP_FAILED) {
			munmap(p, bytes);
			ok = true;
			env_huge_lock = f;
		} else {
			fclose(f);
		}
	}
	closedir(dir);
	return ok;
}

/** Give EAL two lcores that are not pinned: their threads may use all CPUs of the process. */
static int
env_lcores(void)
{
	const cpu_set_t *cpus = weft_engine_cpus();
	char list[1024] = "", one[64];
	unsigned int n = 0;

	for (unsigned int c = 0; c < CPU_SETSIZE && n < ENV_DEFAULT_LCORES; c++) {
		if (!CPU_ISSET(c, cpus))
			continue;
		snprintf(one, sizeof(one), "%s%u", n == 0 ? "" : ",", c);
		strncat(list, one, sizeof(list) - strlen(list) - 1);
		n++;
	}
	if (n == 0)
		return 0; /* EAL detects the CPUs itself */
	if (n == 1)
		return env_arg("--lcores=0@%s", list);
	return env_arg("--lcores=0@(%s),1@(%s)", list, list);
}

/* ---- PCI devices ---- */

#define ENV_MAX_DEVICES 64
#define ENV_DEVICE_MAX  1024 /**< octets of a device with its arguments */

static int env_locks[ENV_MAX_DEVICES]; /**< locks of the devices in use */
static unsigned int env_nlocks;

static void
env_unlock(void)
{
	while (env_nlocks > 0)
		close(env_locks[--env_nlocks]);
}

/** Name the slaves of bonded ports in place of these. */
static int
env_members(struct weft_env_attr *a)
{
	static char text[ENV_MAX_DEVICES + 1][ENV_DEVICE_MAX]; /* the last one is never used */
	static const char *all[ENV_MAX_DEVICES + 1];
	unsigned int n = 0;

	for (unsigned int i = 0; a->devices != NULL && a->devices[i] != NULL; i++)
		for (unsigned int k = 0;; k++, n++) {
			int rc = weft_device_member(a->devices[i], k, text[n], sizeof(text[n]));

			if (rc == -ENOENT)
				break;
			if (rc < 0) {
				snprintf(env_msg, sizeof(env_msg),
				         "the device '%.32s...' is longer than %d octets",
				         a->devices[i], ENV_DEVICE_MAX - 1);
				return rc;
			}
			if (n == ENV_MAX_DEVICES) {
				snprintf(env_msg, sizeof(env_msg),
				         "more than %d devices, slaves of bonds included",
				         ENV_MAX_DEVICES);
				return -E2BIG;
			}
			all[n] = text[n];
		}
	all[n] = NULL;
	if (a->devices != NULL)
		a->devices = all;
	return 0;
}

/** Refuse a list that names one device twice, in whatever notation: the second lock would fail as
 * if another program had the first. Items that are no PCI device are passed over. */
static int
env_devices_differ(const char *const *devices)
{
	char address[16], other[16];

	for (unsigned int i = 0; devices != NULL && devices[i] != NULL; i++) {
		if (weft_device_address(devices[i], address) < 0)
			continue;
		for (unsigned int j = 0; j < i; j++) {
			if (weft_device_address(devices[j], other) < 0 ||
			    strcmp(address, other) != 0)
				continue;
			snprintf(env_msg, sizeof(env_msg), "%s: the program names it twice",
			         address);
			return -EINVAL;
		}
	}
	return 0;
}

/** Look at each device and lock it, before EAL touches it. env_msg says why a device cannot be
 * used. */
static int
env_devices(const struct weft_env_attr *a, bool huge)
{
	const struct weft_device_need need = {.size = sizeof(need),
	                                      .memory_mb = a->memory_mb,
	                                      .hugepages = huge,
	                                      .take_needed = a->take_needed};
	char why[sizeof(env_msg) / 2];
	int rc = 0;

	for (unsigned int i = 0; a->devices != NULL && a->devices[i] != NULL && rc == 0; i++) {
		const char *dev = a->devices[i];
		char address[16];
		bool pci = weft_device_address(dev, address) == 0;

		if (!pci && !weft_device_is_xdp(dev))
			continue;
		rc = weft_device_check(dev, &need, why, sizeof(why));
		if (!pci) {
			if (rc != 0)
				snprintf(env_msg, sizeof(env_msg), "%.32s: %s", dev, why);
			continue;
		}
		if (rc == 0 && env_nlocks == ENV_MAX_DEVICES)
			rc = -E2BIG;
		if (rc == 0)
			rc = weft_device_lock(&weft_device_kernel, dev, &env_locks[env_nlocks]);
		if (rc == 0)
			env_nlocks++;
		else
			snprintf(env_msg, sizeof(env_msg), "%s: %s", address,
			         why[0] != '\0' ? why : strerror(-rc));
	}
	if (rc != 0)
		env_unlock();
	return rc;
}

/** The bus: exactly the named devices. A list of the program's own in `extra` is respected. */
static int
env_bus_args(const struct weft_env_attr *a)
{
	char address[16];
	int rc = 0;

	for (unsigned int i = 0; a->extra != NULL && a->extra[i] != NULL; i++)
		if (strncmp(a->extra[i], "-a", 2) == 0 || strncmp(a->extra[i], "--allow", 7) == 0)
			return 0;
	if (env_nlocks == 0)
		return env_arg("--no-pci");
	for (unsigned int i = 0; rc == 0 && a->devices[i] != NULL; i++) {
		const char *args = weft_device_args(a->devices[i]);

		if (weft_device_address(a->devices[i], address) < 0)
			continue;
		rc = env_arg("-a");
		if (rc == 0)
			rc = env_arg("%s%s%s", address, args[0] != '\0' ? "," : "", args);
	}
	return rc;
}

static int
env_args(const struct weft_env_attr *a, bool huge)
{
	int rc = env_arg("%s", a->progname != NULL ? a->progname : "weft");

	if (rc == 0)
		rc = env_bus_args(a);
	if (rc == 0 && !a->telemetry)
		rc = env_arg("--no-telemetry");
	/* EAL makes a directory with this name for its files. Telemetry has a socket there, and
	 * env_clean_dir() removes the directory. Without telemetry EAL has no file: "." is the
	 * parent, and a process that is killed while it starts leaves no directory. */
	if (rc == 0 && a->telemetry)
		rc = env_arg("--file-prefix=weft-%ld", (long)getpid());
	else if (rc == 0)
		rc = env_arg("--file-prefix=.");
	if (rc == 0)
		rc = huge ? env_arg("--in-memory") : env_arg("--no-huge");
	if (rc == 0 && !huge)
		rc = env_arg("--no-shconf");
	/* Else net_memif refuses such a port. */
	for (unsigned int i = 0; rc == 0 && a->devices != NULL && a->devices[i] != NULL; i++)
		if (weft_device_is_zero_copy(a->devices[i])) {
			rc = env_arg("--single-file-segments");
			break;
		}
	if (rc == 0)
		rc = env_arg("-m");
	if (rc == 0)
		rc = env_arg("%u", a->memory_mb);
	if (rc == 0 && a->lcores != NULL) {
		rc = env_arg("-l");
		if (rc == 0)
			rc = env_arg("%s", a->lcores);
	} else if (rc == 0) {
		rc = env_lcores();
	}
	if (rc == 0 && a->log_level != NULL)
		rc = env_arg("--log-level=%s", a->log_level);
	/* By default suppress EAL's messages about ordinary memory and missing NICs, which are
	 * expected here. net_memif warns at every port that it cannot serve secondary processes;
	 * weft_port_open() reports its errors. */
	if (rc == 0 && a->log_level == NULL)
		rc = env_arg("--log-level=lib.eal:error");
	if (rc == 0 && a->log_level == NULL)
		rc = env_arg("--log-level=pmd.net.memif:critical");
	/* net_bonding stops slaves that are stopped, and each time a line says so. */
	if (rc == 0 && a->log_level == NULL)
		rc = env_arg("--log-level=lib.ethdev:notice");
	/* Telemetry has a line about a socket of its first version, which no tool uses any more. */
	if (rc == 0 && a->log_level == NULL)
		rc = env_arg("--log-level=lib.telemetry:error");
	for (unsigned int i = 0; rc == 0 && a->extra != NULL && a->extra[i] != NULL; i++)
		rc = env_arg("%s", a->extra[i]);
	return rc;
}

/** Remove EAL's runtime directory of this process if it is empty. Its parent belongs to all DPDK
 * programs and stays: another one may have just created it in order to
 * create its own directory there, and could not start without it. */
static void
env_clean_dir(void)
{
	if (env_dir[0] != '\0')
		(void)rmdir(env_dir);
}

int
weft_env_init(const struct weft_env_attr *attr, const char **msg)
{
	struct weft_env_attr a = {0};
	bool huge;
	int rc;

	if (msg != NULL)
		*msg = NULL;
	if (attr != NULL) {
		rc = weft_attr_copy(&a, sizeof(a), attr);
		if (rc < 0)
			return rc;
	}
	if (env_state == ENV_OVER)
		return -ENOTSUP; /* EAL starts once in a process */
	if (env_state == ENV_OURS || rte_lcore_count() > 0)
		return -EALREADY;
	if (a.memory_mb == 0)
		a.memory_mb = ENV_DEFAULT_MEMORY_MB;
	huge = !a.no_huge && env_hugepages(a.memory_mb);
	env_msg[0] = '\0';
	rc = env_members(&a);
	if (rc == 0)
		rc = env_devices_differ(a.devices);
	if (rc == 0)
		rc = env_devices(&a, huge);
	if (rc < 0)
		goto out;
	rc = env_args(&a, huge);
	if (rc < 0) {
		env_args_free();
		env_unlock();
		snprintf(env_msg, sizeof(env_msg), "cannot start DPDK: %s", strerror(-rc));
		goto out;
	}
	/* atexit handlers run in reverse order: this one runs after EAL's, which removes its
	 * telemetry socket. */
	if (a.telemetry)
		(void)atexit(env_clean_dir);
	memcpy(env_shuffled, env_argv, sizeof(env_shuffled));
	if (rte_eal_init(env_argc, env_shuffled) < 0) {
		rc = rte_errno != 0 ? -rte_errno : -ENODEV;
		snprintf(env_msg, sizeof(env_msg), "cannot start DPDK with %u MB of %s: %s",
		         a.memory_mb, huge ? "hugepages" : "ordinary memory", rte_strerror(-rc));
		env_state = ENV_OVER;
		env_unlock();
	} else {
		env_state = ENV_OURS;
		weft_log_clock(weft_engine_clock_ns);
		rc = 0;
	}
	if (a.telemetry && rte_eal_get_runtime_dir() != NULL)
		snprintf(env_dir, sizeof(env_dir), "%s", rte_eal_get_runtime_dir());
out:
	if (env_huge_lock != NULL)
		fclose(env_huge_lock);
	env_huge_lock = NULL;
	if (msg != NULL && rc < 0)
		*msg = env_msg;
	return rc;
}

void
weft_env_fini(void)
{
	if (env_state != ENV_OURS)
		return;
	env_state = ENV_OVER;
	if (!weft_netif_port_abandoned())
		(void)rte_eal_cleanup();
	env_unlock();
}

bool
weft_engine_no_msix(void)
{
	for (int i = 0; i < env_argc; i++)
		if (strncmp(env_argv[i], "--vfio-intr", 11) == 0)
			return true;
	return false;
}

bool
weft_env_huge(void)
{
	return rte_eal_has_hugepages() != 0;
}
