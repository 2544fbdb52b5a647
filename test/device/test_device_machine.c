/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What is read of a planted machine: memory, processors, interfaces, IOMMU, clock, name. */

#include <errno.h>
#include <string.h>

#include "plant.h"
#include "weft_machine.h"
#include "weft_test.h"

static void
test_huge(void)
{
	struct weft_machine_huge h[8];

	plant_begin();
	CHECK_EQ(weft_machine_huge(&plant_roots, h, 8), 0);
	CHECK_EQ(weft_machine_nodes(&plant_roots), 1);
	/* A kernel without NUMA. */
	plant_file("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "16\n");
	plant_file("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "5\n");
	CHECK_EQ(weft_machine_huge(&plant_roots, h, 8), 1);
	CHECK_EQ(h[0].node, -1);
	CHECK_EQ(h[0].page_bytes, 2 << 20);
	CHECK_EQ(h[0].pages, 16);
	CHECK_EQ(h[0].free_pages, 5);
	/* Two nodes, of which the second has two sizes. */
	plant_file("sys/devices/system/node/online", "0,2\n");
	CHECK_EQ(weft_machine_nodes(&plant_roots), 2);
	plant_file("sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "3\n");
	plant_file("sys/devices/system/node/node2/hugepages/hugepages-1048576kB/nr_hugepages",
	           "1\n");
	plant_file("sys/devices/system/node/node2/hugepages/hugepages-1048576kB/free_hugepages",
	           "1\n");
	plant_file("sys/devices/system/node/node2/hugepages/hugepages-2048kB/nr_hugepages", "7\n");
	CHECK_EQ(weft_machine_huge(&plant_roots, h, 8), 3);
	CHECK_EQ(h[0].node, 0);
	CHECK_EQ(h[0].pages, 3);
	CHECK_EQ(h[0].free_pages, 0);
	CHECK_EQ(h[1].node, 2);
	CHECK_EQ(h[1].page_bytes, 2 << 20);
	CHECK_EQ(h[2].page_bytes, 1 << 30);
	CHECK_EQ(h[2].free_pages, 1);
	CHECK_EQ(weft_machine_huge(&plant_roots, h, 1), 1);
	plant_end();
}

static void
test_cpu(void)
{
	struct weft_machine_cpu c;
	char list[64];

	plant_begin();
	CHECK_EQ(weft_machine_cpu(&plant_roots, 0, &c), -ENOENT);
	plant_file("sys/devices/system/cpu/online", "0-2,4\n");
	plant_file("sys/devices/system/cpu/isolated", "2,4\n");
	plant_file("sys/devices/system/cpu/nohz_full", "4\n");
	plant_file("sys/devices/system/node/online", "0-1\n");
	plant_file("sys/devices/system/node/node0/cpulist", "0-1\n");
	plant_file("sys/devices/system/node/node1/cpulist", "2-5\n");
	plant_file("sys/devices/system/cpu/cpu4/topology/thread_siblings_list", "2,4\n");
	plant_file("sys/devices/system/cpu/cpu4/cpufreq/scaling_governor", "powersave\n");
	plant_dir("sys/devices/system/cpu/cpu0");
	plant_dir("sys/devices/system/cpu/cpu3");
	CHECK_EQ(weft_machine_cpu(&plant_roots, 4, &c), 0);
	CHECK(c.online && c.isolated && c.nohz_full);
	CHECK_EQ(c.node, 1);
	CHECK_EQ(c.sibling, 2);
	CHECK_STR(c.governor, "powersave");
	CHECK_EQ(weft_machine_cpu(&plant_roots, 0, &c), 0);
	CHECK(c.online && !c.isolated && !c.nohz_full);
	CHECK_EQ(c.node, 0);
	CHECK_EQ(c.sibling, -1);
	CHECK_STR(c.governor, "");
	CHECK_EQ(weft_machine_cpu(&plant_roots, 3, &c), 0);
	CHECK(!c.online);
	weft_machine_node_cpus(&plant_roots, 1, list, sizeof(list));
	CHECK_STR(list, "2-5");
	weft_machine_node_cpus(&plant_roots, 7, list, sizeof(list));
	CHECK_STR(list, "");
	plant_end();
}

static void
test_link(void)
{
	struct weft_machine_link l;

	plant_begin();
	plant_interface("eth0", NULL);
	CHECK_EQ(weft_machine_link(&plant_roots, "eth0", &l), 0);
	CHECK(l.up && l.carrier);
	CHECK_EQ(l.mtu_bytes, 1500);
	CHECK_EQ(l.speed_mbps, 10000);
	plant_file("sys/class/net/eth0/flags", "0x1002\n");
	plant_file("sys/class/net/eth0/carrier", ""); /* as a file that cannot be read */
	plant_file("sys/class/net/eth0/speed", "-1\n");
	CHECK_EQ(weft_machine_link(&plant_roots, "eth0", &l), 0);
	CHECK(!l.up && !l.carrier);
	CHECK_EQ(l.speed_mbps, 0);
	CHECK_EQ(weft_machine_link(&plant_roots, "eth1", &l), -ENOENT);
	CHECK_EQ(weft_machine_link(&plant_roots, "", &l), -ENOENT);
	CHECK_EQ(weft_machine_link(&plant_roots, "..", &l), -ENOENT);
	CHECK_EQ(weft_machine_link(&plant_roots, "eth0/queues", &l), -ENOENT);
	plant_end();
}

static void
test_iommu(void)
{
	struct weft_machine_iommu i;

	plant_begin();
	weft_machine_iommu(&plant_roots, &i);
	CHECK_EQ(i.groups, 0);
	CHECK(!i.firmware && !i.vfio);
	CHECK_EQ(i.noiommu, -1);
	plant_dir("sys/kernel/iommu_groups/0");
	plant_dir("sys/kernel/iommu_groups/1");
	plant_file("sys/firmware/acpi/tables/IVRS", "");
	plant_dir("sys/bus/pci/drivers/vfio-pci");
	plant_file("sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "N\n");
	weft_machine_iommu(&plant_roots, &i);
	CHECK_EQ(i.groups, 2);
	CHECK(i.firmware && i.vfio);
	CHECK_EQ(i.noiommu, 0);
	plant_file("sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "Y\n");
	weft_machine_iommu(&plant_roots, &i);
	CHECK_EQ(i.noiommu, 1);
	plant_end();
}

#define CLOCK "sys/devices/system/clocksource/clocksource0/"

static void
test_clock(void)
{
	struct weft_machine_clock c;

	plant_begin();
	weft_machine_clock(&plant_roots, &c);
	CHECK_STR(c.current, "");
	CHECK(!c.x86 && !c.invariant);
	plant_file(CLOCK "current_clocksource", "hpet\n");
	plant_file(CLOCK "available_clocksource", "hpet acpi_pm \n");
	plant_file("proc/cpuinfo", "vendor_id\t: GenuineIntel\nflags\t\t: fpu xnonstop_tsc "
	                           "constant_tsc\n");
	weft_machine_clock(&plant_roots, &c);
	CHECK_STR(c.current, "hpet");
	CHECK_STR(c.available, "hpet acpi_pm");
	CHECK(c.x86 && !c.invariant);
	plant_file("proc/cpuinfo", "flags\t\t: nonstop_tsc constant_tsc\n");
	weft_machine_clock(&plant_roots, &c);
	CHECK(c.x86 && c.invariant);
	plant_end();
}

static void
test_identity(void)
{
	static const struct {
		const char *file, *text;
		enum weft_machine_cloud cloud;
	} rows[] = {
	        {"sys_vendor", "Amazon EC2\n", WEFT_CLOUD_EC2},
	        {"product_name", "Google Compute Engine\n", WEFT_CLOUD_GCE},
	        {"chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77\n", WEFT_CLOUD_AZURE},
	        {"chassis_asset_tag", "OracleCloud.com\n", WEFT_CLOUD_ORACLE},
	        {"sys_vendor", "Alibaba Cloud\n", WEFT_CLOUD_ALIBABA},
	        {"product_name", "OpenStack Nova\n", WEFT_CLOUD_OPENSTACK},
	        {"sys_vendor", "DigitalOcean\n", WEFT_CLOUD_OTHER},
	        {"sys_vendor", "Dell Inc.\n", WEFT_CLOUD_NONE},
	        /* Hyper-V that is not Azure's */
	        {"sys_vendor", "Microsoft Corporation\n", WEFT_CLOUD_NONE},
	};
	struct weft_machine_identity m;
	char name[64];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		plant_begin();
		snprintf(name, sizeof(name), "sys/class/dmi/id/%s", rows[i].file);
		plant_file(name, rows[i].text);
		weft_machine_identity(&plant_roots, &m);
		CHECK_MSG(m.cloud == rows[i].cloud, "%s%d", rows[i].text, m.cloud);
		CHECK(!m.hypervisor);
	}
	plant_begin();
	plant_file("sys/class/dmi/id/sys_vendor", "QEMU\n");
	plant_file("sys/class/dmi/id/product_name", "Standard PC\n");
	plant_file("proc/cpuinfo", "vendor_id\t: AuthenticAMD\nflags\t\t: tsc hypervisor\n");
	plant_file("proc/sys/kernel/osrelease", "6.1.0\n");
	plant_file("sys/devices/system/cpu/online", "0-3,8-9\n");
	weft_machine_identity(&plant_roots, &m);
	CHECK_STR(m.vendor, "QEMU");
	CHECK_STR(m.product, "Standard PC");
	CHECK_STR(m.cpu_vendor, "AuthenticAMD");
	CHECK_STR(m.kernel, "6.1.0");
	CHECK(m.hypervisor);
	CHECK_EQ(m.cpus, 6);
	plant_end();
}

static void
test_caps(void)
{
	plant_begin();
	CHECK_EQ(weft_machine_caps(&plant_roots), 0);
	plant_file("proc/self/status", "Name:\tx\nCapPrm:\t0000000000000001\n"
	                               "CapEff:\t0000000000003000\n");
	CHECK_EQ(weft_machine_caps(&plant_roots), 0x3000);
	plant_end();
}

WEFT_TEST_MAIN({"huge", test_huge}, {"cpu", test_cpu}, {"link", test_link}, {"iommu", test_iommu},
               {"clock", test_clock}, {"identity", test_identity}, {"caps", test_caps})
