/* SPDX-License-Identifier: BSD-3-Clause */
/** @file PCI devices by a sysfs of the test's own: addresses, facts, and what stands in the way. */

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

#include "weft_device.h"
#include "weft_test.h"

#define ADDR "0000:03:00.0"

static char top[64], sys_dir[80], dev_dir[80];
static struct weft_device_roots roots = {.sys = sys_dir, .dev = dev_dir};
static const struct weft_device_process root_user = {.root = true, .memlock_bytes = 64 << 10};
static const struct weft_device_need need = {
        .size = sizeof(need), .memory_mb = 256, .hugepages = true};

static int
remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static void
tree_end(void)
{
	if (top[0] != '\0')
		(void)nftw(top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	top[0] = '\0';
}

/** Make a folder below the test's own, with those above it. */
static void __attribute__((format(printf, 1, 2))) make_dir(const char *fmt, ...)
{
	char path[PATH_MAX];
	va_list ap;
	size_t n = (size_t)snprintf(path, sizeof(path), "%s/", top);

	va_start(ap, fmt);
	vsnprintf(path + n, sizeof(path) - n, fmt, ap);
	va_end(ap);
	for (char *p = path + n; (p = strchr(p, '/')) != NULL; p++) {
		*p = '\0';
		(void)mkdir(path, 0700);
		*p = '/';
	}
	CHECK(mkdir(path, 0700) == 0 || errno == EEXIST);
}

static void
write_file(const char *name, const char *text)
{
	char path[PATH_MAX];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", top, name);
	f = fopen(path, "we");
	CHECK_MSG(f != NULL, "%s", path);
	fputs(text, f);
	fclose(f);
}

static void
make_link(const char *to, const char *name)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", top, name);
	CHECK_EQ(symlink(to, path), 0);
}

/** A network device at an address; driver NULL: none is bound; group < 0: no IOMMU. */
static void
add_device(const char *address, const char *driver, int group)
{
	char name[256], to[256];

	make_dir("sys/bus/pci/devices/%s", address);
	snprintf(name, sizeof(name), "sys/bus/pci/devices/%s/", address);
#define IN(file) (strcpy(to, name), strcat(to, file))
	write_file(IN("vendor"), "0x8086\n");
	write_file(IN("device"), "0x10d3\n");
	write_file(IN("class"), "0x020000\n");
	write_file(IN("numa_node"), "1\n");
	write_file(IN("config"), "");
#undef IN
	if (driver != NULL) {
		snprintf(name, sizeof(name), "sys/bus/pci/devices/%s/driver", address);
		snprintf(to, sizeof(to), "../../../bus/pci/drivers/%s", driver);
		make_link(to, name);
	}
	if (group >= 0) {
		snprintf(name, sizeof(name), "sys/bus/pci/devices/%s/iommu_group", address);
		snprintf(to, sizeof(to), "../../../kernel/iommu_groups/%d", group);
		make_link(to, name);
	}
}

static void
tree(void)
{
	tree_end();
	strcpy(top, "/tmp/weft.device.XXXXXX");
	CHECK(mkdtemp(top) != NULL);
	snprintf(sys_dir, sizeof(sys_dir), "%s/sys", top);
	snprintf(dev_dir, sizeof(dev_dir), "%s/dev", top);
	make_dir("sys/bus/pci/devices");
	make_dir("dev/vfio");
}

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

static void
test_info(void)
{
	struct weft_device_info info = {.size = sizeof(info)};

	tree();
	add_device(ADDR, "e1000e", 12);
	make_dir("sys/bus/pci/devices/%s/net/enp3s0", ADDR);
	CHECK_EQ(weft_device_info_at(&roots, "03:00.0,x=1", &info), 0);
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
	add_device("0000:04:00.0", "virtio-pci", -1);
	make_dir("sys/bus/pci/devices/0000:04:00.0/virtio3/net/eth0");
	CHECK_EQ(weft_device_info_at(&roots, "0000:04:00.0", &info), 0);
	CHECK_STR(info.ifname, "eth0");
	CHECK_EQ(info.iommu_group, -1);

	add_device("0000:05:00.0", NULL, -1);
	CHECK_EQ(weft_device_info_at(&roots, "0000:05:00.0", &info), 0);
	CHECK_EQ(info.binding, WEFT_DEVICE_UNBOUND);
	CHECK_STR(info.driver, "");
	CHECK_STR(info.ifname, "");

	CHECK_EQ(weft_device_info_at(&roots, "0000:06:00.0", &info), -ENOENT);
	CHECK_EQ(weft_device_info_at(&roots, "eth0", &info), -EINVAL);
	CHECK_EQ(weft_device_info_at(&roots, ADDR, NULL), -EINVAL);
	info.size--;
	CHECK_EQ(weft_device_info_at(&roots, ADDR, &info), -EINVAL);
	tree_end();
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

	tree();
	CHECK_EQ(weft_device_each_at(&roots, gather, seen), 0);
	add_device("0000:04:00.0", NULL, -1);
	add_device("0000:03:00.1", NULL, -1);
	add_device("0000:03:00.0", NULL, -1);
	write_file("sys/bus/pci/devices/0000:03:00.1/class", "0x010802\n"); /* a disk */
	CHECK_EQ(weft_device_each_at(&roots, gather, seen), 0);
	CHECK_STR(seen, "0000:03:00.0 0000:04:00.0 ");
	add_device("0000:05:00.0", NULL, -1);
	add_device("0000:06:00.0", NULL, -1);
	seen[0] = '\0';
	CHECK_EQ(weft_device_each_at(&roots, gather, seen), 7);
	CHECK_STR(seen, "0000:03:00.0 0000:04:00.0 0000:05:00.0 ");
	tree_end();
	CHECK_EQ(weft_device_each_at(&roots, gather, seen), 0);
}

/** What the check says of ADDR: the error, and words that the line must have. */
static void
check_says(const struct weft_device_process *as, const struct weft_device_need *n, int rc,
           const char *words)
{
	char why[512];
	int got = weft_device_check_at(&roots, as, ADDR, n, why, sizeof(why));

	CHECK_MSG(got == rc, "%d, not %d: %s", got, rc, why);
	CHECK_MSG(strstr(why, words) != NULL, "\"%s\" lacks \"%s\"", why, words);
	CHECK_MSG(rc == 0 || strstr(why, ADDR) != NULL, "\"%s\" does not name the device", why);
	CHECK(strchr(why, '\n') == NULL);
}

static void
test_unbound(void)
{
	tree();
	check_says(&root_user, &need, -ENODEV, "no such PCI device");
	add_device(ADDR, NULL, 12);
	check_says(&root_user, &need, -ENXIO, "dpdk-devbind.py -b vfio-pci " ADDR);
	tree();
	add_device(ADDR, NULL, -1);
	check_says(&root_user, &need, -ENXIO, "dpdk-devbind.py -b uio_pci_generic " ADDR);
	tree();
	add_device(ADDR, "ixgbe", 12);
	check_says(&root_user, &need, -EADDRINUSE, "driver ixgbe");
	make_dir("sys/bus/pci/devices/%s/net/ens3", ADDR);
	check_says(&root_user, &need, -EADDRINUSE, "ip link set ens3 down");
	/* Nobody is told to take a bridge away from the kernel. */
	write_file("sys/bus/pci/devices/" ADDR "/class", "0x060400\n");
	check_says(&root_user, &need, -ENODEV, "no network device (class 060400)");
	tree();
	add_device(ADDR, "mlx5_core", 12);
	make_dir("sys/bus/pci/devices/%s/net/ens3", ADDR);
	check_says(&root_user, &need, 0, "");
	tree_end();
}

static void
test_vfio(void)
{
	struct weft_device_process user = {.memlock_bytes = 256 << 20};

	tree();
	add_device(ADDR, "vfio-pci", 12);
	check_says(&root_user, &need, -ENXIO, "/vfio/12 is missing");
	write_file("dev/vfio/noiommu-12", "");
	check_says(&root_user, &need, 0, "");
	check_says(&user, &need, -EACCES, "needs root");
	write_file("dev/vfio/12", "");
	check_says(&root_user, &need, 0, "");
	/* All of the memory is locked, and some more for the device itself. */
	check_says(&user, &need, -ENOMEM, "ulimit -l 278528");
	user.memlock_bytes = 272 << 20;
	check_says(&user, &need, 0, "");
	if (geteuid() != 0) {
		char path[128];

		snprintf(path, sizeof(path), "%s/dev/vfio/12", top);
		CHECK_EQ(chmod(path, 0), 0);
		check_says(&user, &need, -EACCES, "chown");
	}
	tree_end();
}

static void
test_uio(void)
{
	const struct weft_device_process user = {.memlock_bytes = UINT64_MAX};
	struct weft_device_need ordinary = need;

	tree();
	add_device(ADDR, "uio_pci_generic", -1);
	check_says(&root_user, &need, 0, "");
	check_says(&user, &need, -EACCES, "needs root");
	ordinary.hugepages = false;
	check_says(&root_user, &ordinary, -ENOTSUP, "echo 128 >");
	tree_end();
}

static void
test_lock(void)
{
	int a = -1, b = -1;

	tree();
	add_device(ADDR, "uio_pci_generic", -1);
	CHECK_EQ(weft_device_lock(&roots, "03:00.0,x=1", &a), 0);
	CHECK_EQ(weft_device_lock(&roots, ADDR, &b), -EBUSY);
	CHECK_EQ(b, -1);
	check_says(&root_user, &need, -EBUSY, "another program of weft");
	close(a);
	check_says(&root_user, &need, 0, "");
	/* The check leaves no lock behind. */
	CHECK_EQ(weft_device_lock(&roots, ADDR, &b), 0);
	close(b);
	CHECK_EQ(weft_device_lock(&roots, "0000:09:00.0", &b), -ENOENT);
	CHECK_EQ(weft_device_lock(&roots, "eth0", &b), -EINVAL);
	tree_end();
}

static void
misuse_check(void)
{
	struct weft_device_need bad = need;
	char why[24];

	tree();
	add_device(ADDR, NULL, 12);
	CHECK_EQ(weft_device_check_at(&roots, &root_user, ADDR, NULL, why, sizeof(why)), -EINVAL);
	bad.size++;
	CHECK_EQ(weft_device_check_at(&roots, &root_user, ADDR, &bad, why, sizeof(why)), -EINVAL);
	CHECK_EQ(weft_device_check_at(&roots, &root_user, "eth0", &need, why, sizeof(why)),
	         -EINVAL);
	CHECK_EQ(weft_device_check_at(&roots, &root_user, NULL, &need, why, sizeof(why)), -EINVAL);
	/* A line that does not fit is cut and ended; no line is wanted at all. */
	memset(why, 'x', sizeof(why));
	CHECK_EQ(weft_device_check_at(&roots, &root_user, ADDR, &need, why, sizeof(why)), -ENXIO);
	CHECK_EQ(strlen(why), sizeof(why) - 1);
	CHECK_EQ(weft_device_check_at(&roots, &root_user, ADDR, &need, NULL, 0), -ENXIO);
	tree_end();
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

WEFT_TEST_MAIN({"addresses", test_addresses}, {"info", test_info}, {"each", test_each},
               {"unbound", test_unbound}, {"vfio", test_vfio}, {"uio", test_uio},
               {"lock", test_lock}, {"weft_device_check", misuse_check},
               {"weft_device_info", misuse_info}, {"weft_device_each", misuse_each},
               {"weft_device_is_pci", misuse_is_pci})
