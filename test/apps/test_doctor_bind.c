/* SPDX-License-Identifier: BSD-3-Clause */
/** @file bind and restore of weft-doctor, with a kernel that the test acts. */

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "doctor.h"
#include "plant.h"
#include "weft_test.h"

#define NIC "0000:03:00.0"
#define DIR "sys/bus/pci/devices/" NIC

/** The kernel: its drivers, and what it refuses. */
static struct {
	const char *own;    /* the driver that it chooses by itself; NULL: none */
	const char *refuse; /* the driver that refuses the device */
	int refuse_rc;
	const char *loads; /* the module that load() makes */
	int put_rc;        /* of every file */
	char did[1024];    /* what was written, in order */
} kernel;

static void
kernel_bind(const char *driver)
{
	char to[128];

	snprintf(to, sizeof(to), "../../../../bus/pci/drivers/%s", driver);
	plant_link(to, DIR "/driver");
}

static int
kernel_put(void *arg, const char *path, const char *text)
{
	const char *at = path + strlen(plant_roots.sys);
	char driver[64] = "";
	size_t n = strlen(kernel.did);

	(void)arg;
	CHECK(strncmp(path, plant_roots.sys, strlen(plant_roots.sys)) == 0);
	if (kernel.put_rc != 0)
		return kernel.put_rc;
	snprintf(kernel.did + n, sizeof(kernel.did) - n, "%s=%s;", strrchr(path, '/') + 1,
	         strcmp(text, "\n") == 0 ? "" : text);
	if (strcmp(at, "/bus/pci/devices/" NIC "/driver_override") == 0) {
		plant_file(DIR "/driver_override", text);
		return 0;
	}
	CHECK_STR(text, NIC);
	if (strcmp(at, "/bus/pci/devices/" NIC "/driver/unbind") == 0) {
		plant_remove(DIR "/driver");
		return 0;
	}
	if (strcmp(at, "/bus/pci/drivers_probe") == 0) {
		if (kernel.own != NULL)
			kernel_bind(kernel.own);
		return 0;
	}
	CHECK_MSG(sscanf(at, "/bus/pci/drivers/%63[^/]/bind", driver) == 1, "%s", at);
	if (kernel.refuse != NULL && strcmp(driver, kernel.refuse) == 0)
		return kernel.refuse_rc;
	kernel_bind(driver);
	return 0;
}

static int
kernel_load(void *arg, const char *module)
{
	(void)arg;
	if (kernel.loads == NULL || strcmp(module, kernel.loads) != 0)
		return -ENOENT;
	plant_dir("sys/bus/pci/drivers/%s", module);
	return 0;
}

static const struct doctor_kernel acted = {.put = kernel_put, .load = kernel_load};

static void
machine(const char *driver, int group)
{
	memset(&kernel, 0, sizeof(kernel));
	plant_begin();
	plant_dir("sys/bus/pci/drivers/vfio-pci");
	plant_dir("sys/bus/pci/drivers/uio_pci_generic");
	plant_nic(NIC, driver, group);
}

static void
bind_says(const char *driver, bool yes, int rc, const char *words)
{
	char said[512] = "";
	int got = doctor_bind(&plant_roots, &acted, NIC, driver, yes, said, sizeof(said));

	CHECK_MSG(got == rc, "%d, not %d: %s", got, rc, said);
	CHECK_MSG(strstr(said, words) != NULL, "\"%s\" lacks \"%s\"", said, words);
	CHECK(strchr(said, '\n') == NULL);
}

static void
restore_says(int rc, const char *words)
{
	char said[512] = "";
	int got = doctor_restore(&plant_roots, &acted, NIC, said, sizeof(said));

	CHECK_MSG(got == rc, "%d, not %d: %s", got, rc, said);
	CHECK_MSG(strstr(said, words) != NULL, "\"%s\" lacks \"%s\"", said, words);
}

static void
has_driver(const char *driver)
{
	struct weft_device_info info = {.size = sizeof(info)};

	CHECK_EQ(weft_device_info_at(&plant_roots, NIC, &info), 0);
	CHECK_STR(info.driver, driver);
}

/** What is written down of the device; NULL: nothing. */
static void
remembered(const char *text)
{
	char path[PATH_MAX], line[64] = "";
	FILE *f;

	snprintf(path, sizeof(path), "%s/weft-doctor/" NIC, plant_roots.run);
	f = fopen(path, "re");
	CHECK((f != NULL) == (text != NULL));
	if (f == NULL)
		return;
	CHECK(fgets(line, sizeof(line), f) != NULL);
	fclose(f);
	CHECK_STR(line, text);
}

static void
test_there_and_back(void)
{
	machine("ixgbe", 12);
	bind_says(NULL, false, 0, "bound to vfio-pci; back to ixgbe: weft-doctor restore " NIC);
	CHECK_STR(kernel.did, "driver_override=vfio-pci;unbind=" NIC ";bind=" NIC ";");
	has_driver("vfio-pci");
	remembered("ixgbe\n");
	kernel.did[0] = '\0';
	bind_says("vfio-pci", false, 0, "has driver vfio-pci already");
	CHECK_STR(kernel.did, "");
	restore_says(0, "has the kernel's driver ixgbe");
	CHECK_STR(kernel.did, "driver_override=;unbind=" NIC ";bind=" NIC ";");
	has_driver("ixgbe");
	remembered(NULL);
	restore_says(0, "has the kernel's driver ixgbe already");
	plant_end();
}

static void
test_choice(void)
{
	machine("ixgbe", -1);
	bind_says(NULL, false, 0, "bound to uio_pci_generic");
	machine("ixgbe", -1);
	plant_file("sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "Y\n");
	bind_says(NULL, false, 0, "bound to vfio-pci");
	/* The module is loaded if the driver is not there. */
	machine("ixgbe", -1);
	bind_says("igb_uio", false, -ENOENT, "no driver igb_uio: modprobe igb_uio");
	remembered(NULL);
	has_driver("ixgbe");
	kernel.loads = "igb_uio";
	bind_says("igb_uio", false, 0, "bound to igb_uio");
	bind_says("nvme", false, -EINVAL, "nvme is no driver for DPDK");
	bind_says("../x", false, -EINVAL, "../x is no driver for DPDK");
	plant_end();
}

/** From one driver for DPDK to another: what the kernel had is not forgotten. */
static void
test_twice(void)
{
	machine("ixgbe", 12);
	bind_says("uio_pci_generic", false, 0, "bound");
	bind_says("vfio-pci", false, 0, "bound");
	remembered("ixgbe\n");
	restore_says(0, "driver ixgbe");
	/* One that had no driver: the kernel chooses, and may choose none. */
	machine(NULL, 12);
	bind_says(NULL, false, 0, "back to what it was");
	remembered("\n");
	restore_says(0, "no driver of the kernel takes it");
	CHECK(strstr(kernel.did, "drivers_probe=" NIC) != NULL);
	has_driver("");
	/* After a restart of the machine, or bound by another program. */
	machine("vfio-pci", 12);
	kernel.own = "ice";
	restore_says(0, "has the kernel's driver ice");
	/* The driver is gone, and its module is loaded again. */
	machine("vfio-pci", 12);
	plant_file("run/weft-doctor/" NIC, "ixgbe\n");
	kernel.loads = "ixgbe";
	restore_says(0, "has the kernel's driver ixgbe");
	/* It cannot be loaded: the kernel chooses. A name that is none is not followed. */
	machine("vfio-pci", 12);
	plant_file("run/weft-doctor/" NIC, "../../evil\n");
	kernel.own = "ice";
	restore_says(0, "has the kernel's driver ice");
	CHECK(strstr(kernel.did, "evil") == NULL);
	plant_end();
}

static void
test_refused(void)
{
	machine("ixgbe", 12);
	kernel.refuse = "vfio-pci";
	kernel.refuse_rc = -EINVAL;
	bind_says(NULL, false, -EINVAL,
	          "vfio-pci does not take it without an IOMMU (weft-doctor shows how to get one); "
	          "it has its former driver");
	has_driver("ixgbe");
	remembered(NULL);
	CHECK(strstr(kernel.did, "driver_override=;") != NULL);
	kernel.refuse_rc = -ENODEV;
	bind_says(NULL, false, -ENODEV, "vfio-pci does not take it: No such device");
	has_driver("ixgbe");
	/* Without root nothing is written. */
	machine("ixgbe", 12);
	kernel.put_rc = -EACCES;
	bind_says(NULL, false, -EACCES, "this needs root");
	has_driver("ixgbe");
	remembered(NULL);
	machine("vfio-pci", 12);
	kernel.put_rc = -EACCES;
	restore_says(-EACCES, "this needs root");
	/* NVIDIA's stay with the kernel. */
	machine("mlx5_core", 12);
	bind_says(NULL, true, -EADDRINUSE, "DPDK shares it with the kernel's driver mlx5_core");
	CHECK_STR(kernel.did, "");
	machine("nvme", 12);
	plant_file(DIR "/class", "0x010802\n");
	bind_says(NULL, true, -ENODEV, "is no network device");
	machine("ixgbe", 12);
	CHECK_EQ(doctor_bind(&plant_roots, &acted, "0000:0f:00.0", NULL, true, (char[64]){0}, 64),
	         -ENODEV);
	CHECK_EQ(doctor_bind(&plant_roots, &acted, "eth0", NULL, true, (char[64]){0}, 64), -EINVAL);
	CHECK_EQ(doctor_restore(&plant_roots, &acted, "eth0", (char[64]){0}, 64), -EINVAL);
	plant_end();
}

/** The machine's own way out, and the way of who works on it. */
static void
test_needed(void)
{
	machine("ixgbe", 12);
	plant_interface("ens1", NIC);
	plant_file("proc/net/route",
	           "h\nens1\t00000000\t0102000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n");
	bind_says(NULL, false, -EADDRINUSE, "the default route uses its interface ens1");
	plant_file("proc/net/tcp", "h\n   0: 0102000A:0016 0902000A:9C40 01 0\n");
	bind_says(NULL, false, -EADDRINUSE,
	          "the SSH connection with 10.0.2.9 uses its interface ens1");
	CHECK_STR(kernel.did, "");
	has_driver("ixgbe");
	remembered(NULL);
	bind_says(NULL, true, 0, "bound to vfio-pci");
	plant_end();
}

/** The kernel would wait for a program that has the device. */
static void
test_in_use(void)
{
	int fd;

	machine("uio_pci_generic", 12);
	CHECK_EQ(weft_device_lock(&plant_roots, NIC, &fd), 0);
	restore_says(-EBUSY, "another program of weft uses it");
	bind_says("vfio-pci", true, -EBUSY, "another program of weft uses it");
	CHECK_STR(kernel.did, "");
	close(fd);
	bind_says("vfio-pci", false, 0, "bound to vfio-pci");
	/* The lock was given back. */
	CHECK_EQ(weft_device_lock(&plant_roots, NIC, &fd), 0);
	close(fd);
	plant_end();
}

WEFT_TEST_MAIN({"there_and_back", test_there_and_back}, {"choice", test_choice},
               {"twice", test_twice}, {"refused", test_refused}, {"needed", test_needed},
               {"in_use", test_in_use})
