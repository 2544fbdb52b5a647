/* SPDX-License-Identifier: BSD-3-Clause */
/** @file PCI devices by a planted sysfs: addresses, facts, and what stands in the way. */

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plant.h"
#include "weft_device.h"
#include "weft_test.h"

#define ADDR "0000:03:00.0"

static const struct weft_device_process root_user = {.root = true, .memlock_bytes = UINT64_MAX};
static const struct weft_device_need need = {
        .size = sizeof(need), .memory_mb = 256, .hugepages = true};

static void
test_addresses(void)
{
	static const struct {
		const char *dev, *address; /* NULL: it is none */
	} rows[] = {
	        {"0000:3b:00.0", "0000:3b:00.0"},
	        {"3b:00.1", "0000:3b:00.1"},
	        {"3B:1f.7", "0000:3b:1f.7"},
	        {"10ab:00:01.2,representor=[0-3]", "10ab:00:01.2"},
	        {"3b:00.0,", "0000:3b:00.0"},
	        {"", NULL},
	        {"net_memif0,role=server", NULL},
	        {"3b:00.8", NULL},
	        {"3b:20.0", NULL},
	        {"3b:00.0x", NULL},
	        {"3b:00", NULL},
	        {"03b:00.0", NULL},
	        {"00000:3b:00.0", NULL},
	        {"000:3b:00.0", NULL},
	        {"0000:3b:00.0.1", NULL},
	        {" 3b:00.0", NULL},
	        {"-3b:00.0", NULL},
	        {"+1:00.0", NULL},
	        {"0x:00.0", NULL},
	        {"3b:+0.0", NULL},
	};
	char address[16];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int rc = weft_device_address(rows[i].dev, address);

		CHECK_MSG(rc == (rows[i].address != NULL ? 0 : -EINVAL), "%s: %d", rows[i].dev, rc);
		CHECK_EQ(weft_device_is_pci(rows[i].dev), rows[i].address != NULL);
		if (rc == 0)
			CHECK_STR(address, rows[i].address);
	}
	CHECK_EQ(weft_device_address(NULL, address), -EINVAL);
	CHECK(!weft_device_is_pci(NULL));
	CHECK_STR(weft_device_args("3b:00.0,a=1,b=2"), "a=1,b=2");
	CHECK_STR(weft_device_args("3b:00.0"), "");
}

/* A bonded port stands for its slaves, and any other device for itself. */
static void
test_members(void)
{
	static const struct {
		const char *dev, *member[4];
	} rows[] = {
	        {"net_memif0,role=client,id=0", {"net_memif0,role=client,id=0"}},
	        {"3b:00.0,a=1", {"3b:00.0,a=1"}},
	        {"net_bonding0", {NULL}},
	        {"net_bonding0,mode=1,slave=", {NULL}},
	        {"net_bonding0,mode=1,slave=3b:00.0,slave=0000:3b:00.1",
	         {"3b:00.0", "0000:3b:00.1"}},
	        {"net_bonding0,slave=[3b:00.0,x=1,y=2],mode=4,slave=[net_af_packet0,iface=a],mac=b",
	         {"3b:00.0,x=1,y=2", "net_af_packet0,iface=a"}},
	        {"eth_bond0,slave=a,primary=a,slave=b", {"a", "b"}},
	        {"net_bonding0,slave=[a,b", {"[a,b"}},
	        {"net_bonding0,xslave=a,slave=[]", {""}},
	};
	char buf[64];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		unsigned int n = 0;

		for (; rows[i].member[n] != NULL; n++) {
			CHECK_MSG(weft_device_member(rows[i].dev, n, buf, sizeof(buf)) == 0,
			          "%s: no member %u", rows[i].dev, n);
			CHECK_STR(buf, rows[i].member[n]);
			CHECK_EQ(weft_device_member(rows[i].dev, n, buf, strlen(rows[i].member[n])),
			         rows[i].member[n][0] == '\0' ? -EINVAL : -ENOSPC);
		}
		CHECK_EQ(weft_device_member(rows[i].dev, n, buf, sizeof(buf)), -ENOENT);
	}
}

static void
test_zero_copy(void)
{
	static const char *const yes[] = {
	        "net_memif0,zero-copy=yes",
	        "net_memif7,role=client,id=0,zero-copy=yes,rsize=8",
	        "net_memif0,zero-copy=yes,role=slave",
	};
	static const char *const no[] = {
	        "net_memif0",
	        "net_memif0,zero-copy=no",
	        "net_memif0,zero-copy=yes,role=server",
	        "net_memif0,role=master,zero-copy=yes",
	        "net_memif0,zero-copy=yess",
	        "net_memif0,xzero-copy=yes",
	        "net_ring0,zero-copy=yes",
	        "",
	};

	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		CHECK_MSG(weft_device_is_zero_copy(yes[i]), "%s", yes[i]);
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		CHECK_MSG(!weft_device_is_zero_copy(no[i]), "%s", no[i]);
	CHECK(!weft_device_is_zero_copy(NULL));
}

static void
test_info(void)
{
	struct weft_device_info info = {.size = sizeof(info)};

	plant_begin();
	plant_nic(ADDR, "e1000e", 12);
	plant_dir("sys/bus/pci/devices/%s/net/enp3s0", ADDR);
	CHECK_EQ(weft_device_info_at(&plant_roots, "03:00.0,x=1", &info), 0);
	CHECK_STR(info.address, ADDR);
	CHECK_EQ(info.vendor_id, 0x8086);
	CHECK_EQ(info.device_id, 0x10d3);
	CHECK_EQ(info.class_code, 0x020000);
	CHECK_EQ(info.numa_node, 1);
	CHECK_EQ(info.iommu_group, 12);
	CHECK_EQ(info.binding, WEFT_DEVICE_KERNEL);
	CHECK_STR(info.driver, "e1000e");
	CHECK_STR(info.ifname, "enp3s0");

	/* virtio: the interface is one folder deeper; no IOMMU. */
	plant_nic("0000:04:00.0", "virtio-pci", -1);
	plant_dir("sys/bus/pci/devices/0000:04:00.0/virtio3/net/eth0");
	CHECK_EQ(weft_device_info_at(&plant_roots, "0000:04:00.0", &info), 0);
	CHECK_STR(info.ifname, "eth0");
	CHECK_EQ(info.iommu_group, -1);

	plant_nic("0000:05:00.0", NULL, -1);
	CHECK_EQ(weft_device_info_at(&plant_roots, "0000:05:00.0", &info), 0);
	CHECK_EQ(info.binding, WEFT_DEVICE_UNBOUND);
	CHECK_STR(info.driver, "");
	CHECK_STR(info.ifname, "");

	CHECK_EQ(weft_device_info_at(&plant_roots, "0000:06:00.0", &info), -ENOENT);
	CHECK_EQ(weft_device_info_at(&plant_roots, "eth0", &info), -EINVAL);
	CHECK_EQ(weft_device_info_at(&plant_roots, ADDR, NULL), -EINVAL);
	info.size--;
	CHECK_EQ(weft_device_info_at(&plant_roots, ADDR, &info), -EINVAL);
	plant_end();
}

static int
gather(const struct weft_device_info *info, void *arg)
{
	strcat(arg, info->address);
	strcat(arg, " ");
	return strcmp(info->address, "0000:05:00.0") == 0 ? 7 : 0;
}

static void
test_each(void)
{
	char seen[256] = "";

	plant_begin();
	CHECK_EQ(weft_device_each_at(&plant_roots, gather, seen), 0);
	plant_nic("0000:04:00.0", NULL, -1);
	plant_nic("0000:03:00.1", NULL, -1);
	plant_nic("0000:03:00.0", NULL, -1);
	plant_file("sys/bus/pci/devices/0000:03:00.1/class", "0x010802\n"); /* a disk */
	CHECK_EQ(weft_device_each_at(&plant_roots, gather, seen), 0);
	CHECK_STR(seen, "0000:03:00.0 0000:04:00.0 ");
	plant_nic("0000:05:00.0", NULL, -1);
	plant_nic("0000:06:00.0", NULL, -1);
	seen[0] = '\0';
	CHECK_EQ(weft_device_each_at(&plant_roots, gather, seen), 7);
	CHECK_STR(seen, "0000:03:00.0 0000:04:00.0 0000:05:00.0 ");
	plant_end();
	CHECK_EQ(weft_device_each_at(&plant_roots, gather, seen), 0);
}

/** What the check says of ADDR: the error, and words that the line must have. */
static void
check_says(const struct weft_device_process *as, const struct weft_device_need *n, int rc,
           const char *words)
{
	char why[512];
	int got = weft_device_check_at(&plant_roots, as, ADDR, n, why, sizeof(why));

	CHECK_MSG(got == rc, "%d, not %d: %s", got, rc, why);
	CHECK_MSG(strstr(why, words) != NULL, "\"%s\" lacks \"%s\"", why, words);
	CHECK_MSG((got == 0) == (why[0] == '\0'), "%d, and \"%s\"", got, why);
	CHECK_MSG(strncmp(why, ADDR, strlen(ADDR)) != 0, "\"%s\" begins with the device", why);
	CHECK(strchr(why, '\n') == NULL);
}

static void
test_unbound(void)
{
	plant_begin();
	check_says(&root_user, &need, -ENODEV, "no such PCI device");
	plant_nic(ADDR, NULL, 12);
	check_says(&root_user, &need, -ENXIO, "it has no driver: weft-doctor bind " ADDR);
	plant_begin();
	plant_nic(ADDR, NULL, -1);
	check_says(&root_user, &need, -ENXIO, "no IOMMU translates for it: weft-doctor bind " ADDR);
	plant_begin();
	plant_nic(ADDR, "ixgbe", 12);
	check_says(&root_user, &need, -EADDRINUSE, "driver ixgbe");
	plant_dir("sys/bus/pci/devices/%s/net/ens3", ADDR);
	check_says(&root_user, &need, -EADDRINUSE,
	           "interface ens3 (driver ixgbe): weft-doctor bind " ADDR);
	/* Nobody is told to take a bridge away from the kernel. */
	plant_file("sys/bus/pci/devices/" ADDR "/class", "0x060400\n");
	check_says(&root_user, &need, -ENODEV, "no network device (class 060400)");
	plant_begin();
	plant_nic(ADDR, "mlx5_core", 12);
	plant_dir("sys/bus/pci/devices/%s/net/ens3", ADDR);
	check_says(&root_user, &need, 0, "");
	plant_end();
}

/** The kernel keeps the interface of such devices, and an open port takes its frames. */
static void
test_needed(void)
{
	static const char *const xdp[] = {"net_af_xdp0,iface=ens3", "net_af_xdp7,start_queue=1,"
	                                                            "iface=ens3"};
	struct weft_device_need take = need;
	char why[256];

	take.take_needed = true;
	plant_begin();
	plant_nic(ADDR, "mlx5_core", 12);
	plant_interface("ens3", ADDR);
	check_says(&root_user, &need, 0, "");
	plant_file("proc/net/route",
	           "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow"
	           "\tIRTT\nens3\t00000000\t0102000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n");
	check_says(&root_user, &need, -EADDRINUSE,
	           "would take the frames of interface ens3, and the default route uses it: name "
	           "another one, or set take_needed = yes");
	check_says(&root_user, &take, 0, "");
	for (unsigned int i = 0; i < sizeof(xdp) / sizeof(xdp[0]); i++) {
		CHECK_EQ(weft_device_check_at(&plant_roots, &root_user, xdp[i], &need, why,
		                              sizeof(why)),
		         -EADDRINUSE);
		CHECK(strstr(why, "the default route uses it") != NULL);
		CHECK_EQ(weft_device_check_at(&plant_roots, &root_user, xdp[i], &take, why,
		                              sizeof(why)),
		         0);
	}
	/* Another interface; a program of the user's, which chooses the frames; none named. */
	CHECK_EQ(weft_device_check_at(&plant_roots, &root_user, "net_af_xdp0,iface=ens4", &need,
	                              why, sizeof(why)),
	         0);
	CHECK_EQ(weft_device_check_at(&plant_roots, &root_user,
	                              "net_af_xdp0,iface=ens3,xdp_prog=/f.o", &need, why,
	                              sizeof(why)),
	         0);
	CHECK_EQ(weft_device_check_at(&plant_roots, &root_user, "net_af_xdp0", &need, why,
	                              sizeof(why)),
	         0);
	plant_end();
}

static void
test_vfio(void)
{
	struct weft_device_process user = {.memlock_bytes = 256 << 20},
	                           bounded_root = {.root = true, .memlock_bytes = 64 << 10};

	plant_begin();
	plant_nic(ADDR, "vfio-pci", 12);
	check_says(&root_user, &need, -ENXIO, "/vfio/12 is missing");
	plant_file("dev/vfio/noiommu-12", "");
	check_says(&root_user, &need, 0, "");
	check_says(&user, &need, -EACCES, "needs root");
	plant_file("dev/vfio/12", "");
	check_says(&root_user, &need, 0, "");
	/* All of the memory is locked, and some more for the device itself. */
	check_says(&user, &need, -ENOMEM, ": ulimit -l 278528");
	/* root of a container, without CAP_IPC_LOCK */
	check_says(&bounded_root, &need, -ENOMEM, ": ulimit -l 278528");
	user.memlock_bytes = 272 << 20;
	check_says(&user, &need, 0, "");
	if (geteuid() != 0) {
		char path[128];

		snprintf(path, sizeof(path), "%s/vfio/12", plant_roots.dev);
		CHECK_EQ(chmod(path, 0), 0);
		check_says(&user, &need, -EACCES, "chown");
	}
	plant_end();
}

/** vfio opens a group only as a whole. */
static void
test_group(void)
{
	plant_begin();
	plant_nic(ADDR, "vfio-pci", 12);
	plant_file("dev/vfio/12", "");
	plant_group(12, ADDR);
	plant_nic("0000:03:00.1", "ixgbe", 12);
	plant_group(12, "0000:03:00.1");
	check_says(&root_user, &need, -EADDRINUSE,
	           "0000:03:00.1, which is in the same IOMMU group");
	check_says(&root_user, &need, -EADDRINUSE, ": weft-doctor bind 0000:03:00.1");
	/* Not a NIC: its driver lets go of it. */
	plant_file("sys/bus/pci/devices/0000:03:00.1/class", "0x0c0330\n");
	check_says(&root_user, &need, -EADDRINUSE,
	           "echo 0000:03:00.1 > /sys/bus/pci/devices/0000:03:00.1/driver/unbind");
	/* A bridge stays with the kernel. */
	plant_file("sys/bus/pci/devices/0000:03:00.1/class", "0x060400\n");
	check_says(&root_user, &need, 0, "");
	plant_nic("0000:03:00.2", NULL, 12);
	plant_group(12, "0000:03:00.2");
	plant_nic("0000:03:00.3", "vfio-pci", 12);
	plant_group(12, "0000:03:00.3");
	check_says(&root_user, &need, 0, "");
	plant_end();
}

static void
test_uio(void)
{
	const struct weft_device_process user = {.memlock_bytes = UINT64_MAX};
	struct weft_device_need ordinary = need;

	plant_begin();
	plant_nic(ADDR, "uio_pci_generic", -1);
	check_says(&root_user, &need, 0, "");
	check_says(&user, &need, -EACCES, "needs root");
	ordinary.hugepages = false;
	check_says(&root_user, &ordinary, -ENOTSUP, "echo 128 >");
	plant_end();
}

static void
test_lock(void)
{
	int a = -1, b = -1;

	plant_begin();
	plant_nic(ADDR, "uio_pci_generic", -1);
	CHECK_EQ(weft_device_lock(&plant_roots, "03:00.0,x=1", &a), 0);
	CHECK_EQ(weft_device_lock(&plant_roots, ADDR, &b), -EBUSY);
	CHECK_EQ(b, -1);
	check_says(&root_user, &need, -EBUSY, "another program of weft");
	close(a);
	check_says(&root_user, &need, 0, "");
	/* The check leaves no lock behind. */
	CHECK_EQ(weft_device_lock(&plant_roots, ADDR, &b), 0);
	close(b);
	CHECK_EQ(weft_device_lock(&plant_roots, "0000:09:00.0", &b), -ENOENT);
	CHECK_EQ(weft_device_lock(&plant_roots, "eth0", &b), -EINVAL);
	plant_end();
}

static void
test_ask(void)
{
	int fd = -1;

	plant_begin();
	CHECK_EQ(weft_device_open(&plant_roots, ADDR, &fd), -ENOENT);
	CHECK_EQ(weft_device_open(&plant_roots, "eth0", &fd), -EINVAL);
	plant_nic(ADDR, "vfio-pci", 12);
	plant_file("sys/bus/pci/devices/" ADDR "/config", "\x86\x80");
	CHECK_EQ(weft_device_open(&plant_roots, ADDR, &fd), 0);
	CHECK_EQ(weft_device_ask(fd), WEFT_DEVICE_ANSWERS);
	plant_file("sys/bus/pci/devices/" ADDR "/config", "\xff\xff");
	CHECK_EQ(weft_device_ask(fd), WEFT_DEVICE_SILENT);
	plant_file("sys/bus/pci/devices/" ADDR "/config", "\xff");
	CHECK_EQ(weft_device_ask(fd), WEFT_DEVICE_ANSWERS);
	close(fd);
	/* The file of a device that the kernel has removed fails each read. */
	CHECK_EQ(weft_device_ask(fd), WEFT_DEVICE_REMOVED);
	plant_end();
}

static void
misuse_check(void)
{
	struct weft_device_need bad = need;
	char why[24];

	plant_begin();
	plant_nic(ADDR, NULL, 12);
	CHECK_EQ(weft_device_check_at(&plant_roots, &root_user, ADDR, NULL, why, sizeof(why)),
	         -EINVAL);
	bad.size++;
	CHECK_EQ(weft_device_check_at(&plant_roots, &root_user, ADDR, &bad, why, sizeof(why)),
	         -EINVAL);
	CHECK(why[0] != '\0');
	CHECK_EQ(weft_device_check_at(&plant_roots, &root_user, "eth0", &need, why, sizeof(why)),
	         -EINVAL);
	CHECK_EQ(weft_device_check_at(&plant_roots, &root_user, NULL, &need, why, sizeof(why)),
	         -EINVAL);
	/* A line that does not fit is cut and ended; no line is wanted at all. */
	memset(why, 'x', sizeof(why));
	CHECK_EQ(weft_device_check_at(&plant_roots, &root_user, ADDR, &need, why, sizeof(why)),
	         -ENXIO);
	CHECK_EQ(strlen(why), sizeof(why) - 1);
	CHECK_EQ(weft_device_check_at(&plant_roots, &root_user, ADDR, &need, NULL, 0), -ENXIO);
	plant_end();
	CHECK_EQ(weft_device_check("eth0", &need, why, sizeof(why)), -EINVAL);
}

static void
misuse_info(void)
{
	struct weft_device_info info = {.size = sizeof(info)};

	CHECK_EQ(weft_device_info("ffff:ff:1f.7", &info), -ENOENT);
	CHECK_EQ(weft_device_info(NULL, &info), -EINVAL);
	CHECK_EQ(weft_device_info("ffff:ff:1f.7", NULL), -EINVAL);
	info.size = 0;
	CHECK_EQ(weft_device_info("ffff:ff:1f.7", &info), -EINVAL);
}

static void
misuse_each(void)
{
	CHECK_EQ(weft_device_each(NULL, NULL), -EINVAL);
}

static void
misuse_is_pci(void)
{
	CHECK(!weft_device_is_pci(NULL));
	CHECK(!weft_device_is_pci(""));
}

static void
misuse_member(void)
{
	char buf[8];

	CHECK_EQ(weft_device_member(NULL, 0, buf, sizeof(buf)), -EINVAL);
	CHECK_EQ(weft_device_member("a", 0, NULL, sizeof(buf)), -EINVAL);
	CHECK_EQ(weft_device_member("a", 0, buf, 0), -EINVAL);
}

/* What can be shown of a device; and what is short of room. */
static void
test_clean(void)
{
	static const struct {
		const char *dev, *shown;
	} rows[] = {
	        {"net_memif0,role=client,secret=abc,mac=2:0:0:0:0:1",
	         "net_memif0,role=client,secret=(removed),mac=2:0:0:0:0:1"},
	        {"net_memif0,secret=a=b", "net_memif0,secret=(removed)"},
	        {"net_memif0,SECRET=a", "net_memif0,SECRET=(removed)"},
	        {"net_memif0,secret=", "net_memif0,secret="},
	        {"net_memif0,secret", "net_memif0,secret"},
	        {"secret=a,id=0", "secret=(removed),id=0"},
	        {"net_bonding0,mode=1,slave=[net_memif0,secret=a],slave=[net_memif1,secret=b]",
	         "net_bonding0,mode=1,slave=[net_memif0,secret=(removed)],slave=[net_memif1,"
	         "secret=(removed)]"},
	        {"3b:00.0,auth_token=7,api-key=x,password=y",
	         "3b:00.0,auth_token=(removed),api-key=(removed),password=(removed)"},
	        /* Blanks and brackets are octets of a value. */
	        {"secret=a b,id=0", "secret=(removed),id=0"},
	        {"a0,secret = a,id=0", "a0,secret =(removed),id=0"},
	        {"a0,secret= a", "a0,secret=(removed)"},
	        {"a0,\tsecret\t=a", "a0,\tsecret\t=(removed)"},
	        {"a0,secret=[a]", "a0,secret=(removed)"},
	        {"a0,secret=[a,b],id=0", "a0,secret=(removed),id=0"},
	        {"a0,secret=a[b", "a0,secret=(removed)"},
	        {"a0,secret=a[b,c", "a0,secret=(removed)"},
	        {"a0,secret=a]b", "a0,secret=(removed)"},
	        {"a0,secret=a],id=0", "a0,secret=(removed),id=0"},
	        {"b0,slave=[a0,secret=[x]y z],mode=1", "b0,slave=[a0,secret=(removed)],mode=1"},
	        {"b0,slave=[a0,secret=x]y],mode=1", "b0,slave=[a0,secret=(removed)],mode=1"},
	        {"--vdev=a0,id=1 secret=a", "--vdev=a0,id=1 secret=(removed)"},
	        {"net_ring0", "net_ring0"},
	        {"", ""},
	};
	char buf[256];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CHECK(weft_device_clean(rows[i].dev, buf, sizeof(buf)) == buf);
		CHECK_STR(buf, rows[i].shown);
		for (size_t n = 1; n <= strlen(rows[i].shown); n++) {
			memset(buf, 'x', sizeof(buf));
			(void)weft_device_clean(rows[i].dev, buf, n);
			CHECK(strlen(buf) == n - 1 && memcmp(buf, rows[i].shown, n - 1) == 0);
			CHECK_EQ(buf[n], 'x');
		}
	}
	CHECK(weft_device_is_secret("secret", 6) && !weft_device_is_secret("secret", 5));
}

static void
misuse_clean(void)
{
	char buf[8];

	CHECK_STR(weft_device_clean("a", NULL, sizeof(buf)), "");
	CHECK_STR(weft_device_clean("a", buf, 0), "");
	CHECK_STR(weft_device_clean(NULL, buf, sizeof(buf)), "");
}

static void
misuse_is_secret(void)
{
	CHECK(!weft_device_is_secret(NULL, 6));
	CHECK(!weft_device_is_secret("secret", 0));
}

WEFT_TEST_MAIN({"addresses", test_addresses}, {"members of a bonded port", test_members},
               {"a client of net_memif that shares its buffers", test_zero_copy},
               {"what can be shown", test_clean}, {"weft_device_clean", misuse_clean},
               {"weft_device_is_secret", misuse_is_secret}, {"weft_device_member", misuse_member},
               {"info", test_info}, {"each", test_each}, {"unbound", test_unbound},
               {"a device that the machine needs", test_needed}, {"vfio", test_vfio},
               {"group", test_group}, {"uio", test_uio}, {"lock", test_lock},
               {"a device answers, is silent, is removed", test_ask},
               {"weft_device_check", misuse_check}, {"weft_device_info", misuse_info},
               {"weft_device_each", misuse_each}, {"weft_device_is_pci", misuse_is_pci})
