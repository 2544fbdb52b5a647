/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What weft-doctor says of planted machines, one verdict each. */

#include <string.h>

#include "doctor.h"
#include "plant.h"
#include "weft_test.h"

#define NIC    "0000:03:00.0"
#define OTHER  "0000:04:00.0"
#define PCI    "sys/bus/pci/devices/"
#define NODES  "sys/devices/system/node/"
#define CPUS   "sys/devices/system/cpu/"
#define HUGE2M "hugepages/hugepages-2048kB/"
#define NET    "address = 10.0.0.1/24\n"
#define PORT   "[port p0]\ndev = " NIC "\n" NET
#define ROUTE  "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"

static struct doctor d;

/** A machine of one node and two CPUs, with nothing wrong: a NIC under vfio, hugepages, a clock. */
static void
machine(void)
{
	plant_begin();
	plant_nic(NIC, "vfio-pci", 12);
	plant_file(PCI NIC "/numa_node", "0\n");
	plant_group(12, NIC);
	plant_file("dev/vfio/12", "");
	plant_file(NODES "online", "0\n");
	plant_file(NODES "node0/cpulist", "0-1\n");
	plant_file(NODES "node0/" HUGE2M "nr_hugepages", "200\n");
	plant_file(NODES "node0/" HUGE2M "free_hugepages", "150\n");
	plant_file(CPUS "online", "0-1\n");
	plant_dir(CPUS "cpu0");
	plant_dir(CPUS "cpu1");
	plant_file("proc/cpuinfo",
	           "vendor_id\t: GenuineIntel\nflags\t\t: constant_tsc nonstop_tsc\n");
	plant_file("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
	plant_file("sys/devices/system/clocksource/clocksource0/available_clocksource",
	           "tsc hpet\n");
}

/** CPUs of the workers, instead of those of the configuration, which only takes CPUs of this host;
 * -1: none. */
static int32_t pins[2] = {-1, -1};

/** The device of port 0, instead of that of the configuration, which only takes interfaces of this
 * host; NULL: none. */
static const char *dev0;

/** Look with the rights of root, with this configuration; NULL: none. */
static void
look(const char *ini)
{
	char err[CONF_ERR_MAX] = "";

	memset(&d, 0, sizeof(d));
	d.at = &plant_roots;
	d.as = (struct weft_device_process){.root = true, .memlock_bytes = UINT64_MAX};
	conf_defaults(&d.conf);
	d.configured = ini != NULL;
	if (ini != NULL)
		CHECK_MSG(conf_load_string("t.ini", ini, strlen(ini), &d.conf, err, sizeof(err)) ==
		                  0,
		          "%s", err);
	for (uint32_t i = 0; i < d.conf.nworkers && i < 2; i++)
		d.conf.workers[i].lcore = pins[i];
	if (dev0 != NULL)
		(void)snprintf(d.conf.ports[0].dev, sizeof(d.conf.ports[0].dev), "%s", dev0);
	doctor_look(&d);
}

static void
look_pinned(const char *ini, int32_t first, int32_t second)
{
	pins[0] = first;
	pins[1] = second;
	look(ini);
	pins[0] = pins[1] = -1;
}

static const char *const levels[] = {"ok", "note", "STOP"};

/** That there is such a finding: words of what is so, and of what mends it ("": nothing does). */
static void
found(enum doctor_level level, const char *topic, const char *subject, const char *what,
      const char *mend)
{
	for (unsigned int i = 0; i < d.nfindings; i++) {
		const struct doctor_finding *f = &d.findings[i];

		if (f->level == level && strcmp(f->topic, topic) == 0 &&
		    strcmp(f->subject, subject) == 0 && strstr(f->what, what) != NULL &&
		    (*mend != '\0' ? strstr(f->mend, mend) != NULL : f->mend[0] == '\0')) {
			CHECK(strchr(f->what, '\n') == NULL && strchr(f->mend, '\n') == NULL);
			return;
		}
	}
	for (unsigned int i = 0; i < d.nfindings; i++)
		test_note("%s %s/%s: %s | %s", levels[d.findings[i].level], d.findings[i].topic,
		          d.findings[i].subject, d.findings[i].what, d.findings[i].mend);
	test_fail(__FILE__, __LINE__, "no finding: %s %s/%s: %s | %s", levels[level], topic,
	          subject, what, mend);
}

/** That nothing of the topic is worse than OK. */
static void
good(const char *topic)
{
	for (unsigned int i = 0; i < d.nfindings; i++)
		CHECK_MSG(strcmp(d.findings[i].topic, topic) != 0 ||
		                  d.findings[i].level == DOCTOR_OK,
		          "%s: %s", d.findings[i].subject, d.findings[i].what);
}

static void
test_all_good(void)
{
	machine();
	look(PORT);
	CHECK_EQ(doctor_count(&d, DOCTOR_STOP), 0);
	CHECK_EQ(doctor_count(&d, DOCTOR_NOTE), 0);
	found(DOCTOR_OK, "nic", NIC " (port p0)", "ready: driver vfio-pci, IOMMU group 12", "");
	found(DOCTOR_OK, "hugepages", "hugepages", "128 of 2 MiB are needed, and 150 are free", "");
	found(DOCTOR_OK, "clock", "clock", "clock source is tsc", "");
	/* Without a configuration: all NICs. */
	look(NULL);
	CHECK_EQ(doctor_count(&d, DOCTOR_STOP), 0);
	found(DOCTOR_OK, "nic", NIC, "ready", "");
	plant_end();
}

static void
test_nic(void)
{
	machine();
	look("[port p0]\ndev = 0000:09:00.0\n" NET);
	found(DOCTOR_STOP, "nic", "0000:09:00.0 (port p0)", "no such PCI device", "lspci -D");
	plant_nic(NIC, "ixgbe", 12);
	plant_interface("ens1", NIC);
	look(PORT);
	found(DOCTOR_STOP, "nic", NIC " (port p0)", "interface ens1 (driver ixgbe)",
	      "weft-doctor bind " NIC);
	plant_file("sys/class/net/ens1/carrier", "0\n");
	look(PORT);
	found(DOCTOR_NOTE, "link", NIC " (port p0)", "ens1 has no link", "ethtool ens1");
	/* Nobody is told to cut the machine off. */
	plant_file("proc/net/route",
	           ROUTE "ens1\t00000000\t0102000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n");
	look(PORT);
	found(DOCTOR_STOP, "nic", NIC " (port p0)", "the default route uses ens1",
	      "name another NIC in [port p0]");
	plant_file("proc/net/tcp", "h\n   0: 0102000A:0016 0902000A:9C40 01 0\n");
	look(PORT);
	found(DOCTOR_STOP, "nic", NIC " (port p0)", "the SSH connection with 10.0.2.9 uses ens1",
	      "name another NIC");
	/* take_needed is for NICs that DPDK shares with the kernel. */
	look("[weft]\ntake_needed = yes\n" PORT);
	found(DOCTOR_STOP, "nic", NIC " (port p0)", "the SSH connection with 10.0.2.9 uses ens1",
	      "name another NIC");
	/* A NIC that DPDK shares with the kernel: an open port takes its frames all the same. */
	plant_nic(NIC, "mlx5_core", 12);
	look(PORT);
	found(DOCTOR_STOP, "nic", NIC " (port p0)", "the SSH connection with 10.0.2.9 uses ens1",
	      "name another NIC");
	look(NULL);
	found(DOCTOR_NOTE, "nic", NIC, "the machine needs it", "leave it to the kernel");
	look("[weft]\ntake_needed = yes\n" PORT);
	found(DOCTOR_NOTE, "nic", NIC " (port p0)", "the machine needs it", "");
	/* So does a port of net_af_xdp. */
	dev0 = "net_af_xdp0,iface=ens1";
	look(PORT);
	found(DOCTOR_STOP, "nic", "port p0", "the SSH connection with 10.0.2.9 uses ens1",
	      "name another NIC in [port p0]");
	dev0 = "net_af_packet0,iface=ens1";
	look(PORT);
	good("nic");
	dev0 = NULL;
	plant_file("proc/net/route", ROUTE);
	plant_file("proc/net/tcp", "h\n");
	look(PORT);
	found(DOCTOR_OK, "nic", NIC " (port p0)", "shares it with the kernel's driver mlx5_core",
	      "");
	plant_end();
}

/** The slaves of a bonded port are looked at like ports of their own. */
static void
test_bond(void)
{
	static const char nics[] = "[port p0]\ndev = net_bonding0,mode=1,slave=" NIC
	                           ",slave=[0000:04:00.0,arg=1]\n" NET;
	static const char mixed[] = "[port p0]\ndev = net_bonding0,mode=1,slave=" NIC
	                            ",slave=[net_af_packet0,iface=lo]\n" NET;

	machine();
	plant_nic(OTHER, "ixgbe", 13);
	plant_interface("ens2", OTHER);
	look(nics);
	found(DOCTOR_OK, "nic", NIC " (port p0)", "ready", "");
	found(DOCTOR_STOP, "nic", OTHER " (port p0)", "interface ens2 (driver ixgbe)",
	      "weft-doctor bind " OTHER);
	/* The buffers of the port are counted once. */
	plant_file(PCI OTHER "/numa_node", "0\n");
	plant_file(NODES "node0/" HUGE2M "free_hugepages", "128\n");
	look(nics);
	good("hugepages");
	/* One slave without a link leaves the other one. */
	plant_interface("lo", NULL);
	plant_file("sys/class/net/lo/carrier", "0\n");
	look(mixed);
	found(DOCTOR_NOTE, "link", "port p0, slave net_af_packet0", "lo has no link", "ethtool lo");
	found(DOCTOR_OK, "nic", NIC " (port p0)", "ready", "");
	plant_end();
}

static void
test_no_configuration(void)
{
	machine();
	plant_nic(NIC, "ixgbe", 12);
	plant_interface("ens1", NIC);
	plant_nic(OTHER, NULL, 13);
	plant_file("proc/net/route",
	           ROUTE "ens1\t00000000\t0102000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n");
	look(NULL);
	found(DOCTOR_NOTE, "nic", NIC, "the machine needs it: the default route uses ens1", "");
	found(DOCTOR_NOTE, "nic", OTHER, "it has no driver", "weft-doctor bind " OTHER);
	found(DOCTOR_STOP, "nic", "NICs", "none of 2 is ready", "choose one");
	/* The machine needs all that it has. */
	plant_file(PCI OTHER "/class", "0x010802\n");
	look(NULL);
	found(DOCTOR_STOP, "nic", "NICs", "the machine needs each of them",
	      "dev = net_af_packet0,iface=ens1");
	plant_file(PCI NIC "/class", "0x010802\n");
	look(NULL);
	found(DOCTOR_STOP, "nic", "NICs", "has no NIC", "net_memif");
	plant_end();
}

static void
test_rights(void)
{
	machine();
	look(PORT);
	d.as = (struct weft_device_process){.root = false, .memlock_bytes = 8 << 20};
	d.nfindings = d.nnics = 0;
	doctor_look(&d);
	found(DOCTOR_STOP, "nic", NIC " (port p0)", "locked memory is limited to 8192 KiB",
	      "ulimit -l 278528");
	/* Sockets of the kernel need capabilities. */
	plant_interface("lo", NULL);
	look("[port p0]\ndev = net_af_packet0,iface=lo\n" NET);
	good("rights");
	d.as.root = false;
	d.nfindings = d.nnics = 0;
	doctor_look(&d);
	found(DOCTOR_STOP, "rights", "port p0", "net_af_packet needs the capability cap_net_raw",
	      "setcap cap_net_raw+ep");
	plant_file("proc/self/status", "CapEff:\t0000000000002000\n");
	d.nfindings = d.nnics = 0;
	doctor_look(&d);
	good("rights");
	plant_end();
}

static void
test_iommu(void)
{
	machine();
	look(PORT);
	found(DOCTOR_OK, "iommu", "IOMMU", "on, with 1 groups", "");
	plant_begin();
	plant_nic(NIC, "uio_pci_generic", -1);
	plant_file("proc/cpuinfo", "vendor_id\t: GenuineIntel\n");
	look(PORT);
	found(DOCTOR_NOTE, "iommu", "IOMMU", "need uio_pci_generic, root and hugepages",
	      "in the firmware's setup, and start the kernel with intel_iommu=on");
	plant_file("sys/firmware/acpi/tables/DMAR", "");
	look(PORT);
	found(DOCTOR_NOTE, "iommu", "IOMMU", "though the firmware describes one",
	      "intel_iommu=on iommu=pt /' /etc/default/grub && update-grub && reboot");
	plant_file("proc/cpuinfo", "vendor_id\t: AuthenticAMD\n");
	look(PORT);
	found(DOCTOR_NOTE, "iommu", "IOMMU", "", "amd_iommu=on");
	plant_remove("sys/firmware/acpi/tables/DMAR");
	plant_file("proc/cpuinfo", "vendor_id\t: GenuineIntel\nflags\t: hypervisor\n");
	look(PORT);
	found(DOCTOR_NOTE, "iommu", "IOMMU", "none", "QEMU: -device intel-iommu");
	plant_file("sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "N\n");
	look(PORT);
	found(DOCTOR_NOTE, "iommu", "IOMMU", "none", "echo Y > /sys/module/vfio/parameters/");
	plant_file("sys/module/vfio/parameters/enable_unsafe_noiommu_mode", "Y\n");
	look(PORT);
	found(DOCTOR_NOTE, "iommu", "IOMMU", "unsafe mode", "");
	/* A NIC of NVIDIA needs none. */
	plant_nic(NIC, "mlx5_core", -1);
	look(PORT);
	good("iommu");
	plant_end();
}

static void
test_hugepages(void)
{
	char need[64];

	machine();
	plant_file(NODES "node0/" HUGE2M "free_hugepages", "120\n");
	look(PORT);
	/* 200 are there, and 8 more must be free. */
	found(DOCTOR_NOTE, "hugepages", "hugepages", "128 of 2 MiB are needed, and 120 are free",
	      "echo 208 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages");
	/* The driver decides: uio can do nothing without them. */
	plant_nic(NIC, "uio_pci_generic", -1);
	look(PORT);
	found(DOCTOR_STOP, "nic", NIC " (port p0)", "uio_pci_generic needs hugepages",
	      "echo 128 >");
	plant_nic(NIC, "vfio-pci", 12);
	/* Another size has enough. */
	plant_file(NODES "node0/hugepages/hugepages-1048576kB/free_hugepages", "1\n");
	look(PORT);
	found(DOCTOR_OK, "hugepages", "hugepages", "1 of 1024 MiB are needed, and 1 are free", "");
	look("[weft]\nhugepages = never\n" PORT);
	found(DOCTOR_OK, "hugepages", "hugepages", "hugepages = never", "");
	/* The buffers need more than memory_mb: what netif would take decides. */
	plant_remove(NODES "node0/hugepages/hugepages-1048576kB/free_hugepages");
	plant_file(NODES "node0/" HUGE2M "free_hugepages", "50\n");
	look("[weft]\nmemory_mb = 64\n" PORT "mbufs = 65536\n");
	snprintf(need, sizeof(need), "%llu of 2 MiB are needed",
	         (unsigned long long)(doctor_need_mb(&d, 2 << 20) + 1) / 2);
	CHECK(doctor_need_mb(&d, 2 << 20) > 65536ull * 2048 >> 20);
	found(DOCTOR_NOTE, "hugepages", "hugepages", need, "nr_hugepages");
	found(DOCTOR_STOP, "memory", "memory_mb", "memory_mb allows 64 MiB", "memory_mb = ");
	/* A kernel without any. */
	plant_begin();
	look("[port p0]\ndev = net_null0\n" NET);
	found(DOCTOR_NOTE, "hugepages", "hugepages", "the kernel has none", "");
	good("memory");
	plant_end();
}

/** Two nodes: the NIC is on node 1. */
static void
two_nodes(void)
{
	machine();
	plant_file(PCI NIC "/numa_node", "1\n");
	plant_file(NODES "online", "0-1\n");
	plant_file(NODES "node1/cpulist", "2-3\n");
	plant_file(CPUS "online", "0-3\n");
	plant_dir(CPUS "cpu2");
	plant_dir(CPUS "cpu3");
}

static void
test_numa(void)
{
	two_nodes();
	plant_file(NODES "node1/" HUGE2M "nr_hugepages", "4\n");
	plant_file(NODES "node1/" HUGE2M "free_hugepages", "2\n");
	look_pinned(PORT "[worker w]\n", 0, -1);
	found(DOCTOR_STOP, "hugepages", "hugepages of node 1", "and 2 are free",
	      "/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages");
	found(DOCTOR_NOTE, "numa", "worker w",
	      "runs on CPU 0 of node 0, and its NIC " NIC " is on node 1",
	      "lcore = 2 in [worker w]");
	plant_file(NODES "node1/" HUGE2M "free_hugepages", "100\n");
	look(PORT);
	good("hugepages");
	found(DOCTOR_NOTE, "numa", "worker w0", "may run on any node", "lcore = 2 in [worker w0]");
	plant_end();
}

static void
test_cpus(void)
{
	machine();
	plant_file(CPUS "cpu0/cpufreq/scaling_governor", "powersave\n");
	plant_file(CPUS "cpu1/cpufreq/scaling_governor", "performance\n");
	look_pinned(PORT "[worker w]\n", 1, -1);
	good("frequency");
	found(DOCTOR_NOTE, "isolation", "worker w", "may run others on its CPU 1",
	      "isolcpus=1 nohz_full=1");
	plant_file(CPUS "isolated", "1\n");
	look_pinned(PORT "[worker w]\n", 1, -1);
	found(DOCTOR_NOTE, "isolation", "worker w", "the timer tick", "nohz_full=1");
	plant_file(CPUS "nohz_full", "1\n");
	look_pinned(PORT "[worker w]\n", 1, -1);
	good("isolation");
	found(DOCTOR_OK, "cpu", "worker w", "CPU 1 for itself", "");
	look(PORT);
	found(DOCTOR_NOTE, "frequency", "CPU frequency", "of 1 CPU (CPU 0 first) is powersave",
	      "echo performance | tee");
	look(NULL);
	found(DOCTOR_NOTE, "frequency", "CPU frequency", "powersave", "echo performance");
	/* Two workers on one core. */
	plant_file(CPUS "cpu1/topology/thread_siblings_list", "0-1\n");
	look_pinned(PORT "[worker a]\nports = p0\n[worker b]\nports = p0\n", 0, 1);
	found(DOCTOR_NOTE, "cpu", "worker b", "shares the core of its CPU with worker a",
	      "[worker b]");
	plant_file(CPUS "online", "0\n");
	look_pinned(PORT "[worker w]\n", 1, -1);
	found(DOCTOR_STOP, "cpu", "worker w", "CPU 1 is not online", "cpu1/online");
	plant_end();
}

static void
test_links(void)
{
	static const char port[] = "[port p0]\ndev = net_af_packet0,iface=lo\nmtu = 2000\n" NET;

	machine();
	look(port);
	found(DOCTOR_STOP, "link", "port p0", "no interface lo", "ip -brief link");
	plant_interface("lo", NULL);
	look(port);
	found(DOCTOR_STOP, "mtu", "port p0", "the MTU of lo is 1500, and the port's is 2000",
	      "ip link set dev lo mtu 2000");
	plant_file("sys/class/net/lo/mtu", "9000\n");
	look(port);
	found(DOCTOR_OK, "link", "port p0", "lo has a link, 10000 Mbit/s, MTU 9000", "");
	plant_file("sys/class/net/lo/carrier", "0\n");
	look(port);
	found(DOCTOR_STOP, "link", "port p0", "lo has no link", "ethtool lo");
	plant_file("sys/class/net/lo/flags", "0x1002\n");
	look(port);
	found(DOCTOR_STOP, "link", "port p0", "lo is down", "ip link set dev lo up");
	/* A NIC that the kernel keeps is up like any interface; its MTU is DPDK's matter. */
	plant_nic(NIC, "mlx5_core", 12);
	plant_interface("ens1", NIC);
	look(PORT "mtu = 9000\n");
	good("mtu");
	good("link");
	plant_file("sys/class/net/ens1/flags", "0x1002\n");
	look(PORT);
	found(DOCTOR_STOP, "link", NIC " (port p0)", "ens1 is down", "ip link set dev ens1 up");
	plant_end();
}

static void
test_clock(void)
{
	static const char path[] =
	        "sys/devices/system/clocksource/clocksource0/current_clocksource";

	machine();
	plant_file(path, "hpet\n");
	look(PORT);
	found(DOCTOR_NOTE, "clock", "clock", "clock source is hpet", "echo tsc >");
	plant_file("sys/devices/system/clocksource/clocksource0/available_clocksource", "hpet\n");
	look(PORT);
	found(DOCTOR_NOTE, "clock", "clock", "clock source is hpet", "");
	plant_file(path, "kvm-clock\n");
	look(PORT);
	good("clock");
	plant_file("proc/cpuinfo", "flags\t\t: tsc constant_tsc\n");
	look(PORT);
	found(DOCTOR_NOTE, "clock", "TSC", "changes its rate or stops", "");
	plant_file("proc/cpuinfo", "flags\t\t: tsc hypervisor\n");
	look(PORT);
	found(DOCTOR_NOTE, "clock", "TSC", "changes its rate or stops", "+invtsc");
	plant_end();
}

static void
test_clouds(void)
{
	static const struct {
		const char *file, *text, *name, *assign, *open;
	} rows[] = {
	        {"sys_vendor", "Amazon EC2", "Amazon EC2", "aws ec2 assign-private",
	         "--port 7777 --cidr"},
	        {"product_name", "Google Compute Engine", "Google Compute Engine", "gcloud compute",
	         "--allow tcp:7777"},
	        {"chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77", "Microsoft Azure",
	         "az network nic", "ranges 7777"},
	        {"chassis_asset_tag", "OracleCloud.com", "Oracle Cloud", "oci network vnic",
	         "TCP port 7777"},
	        {"sys_vendor", "Alibaba Cloud", "Alibaba Cloud", "aliyun ecs", "7777/7777"},
	        {"product_name", "OpenStack Nova", "OpenStack", "openstack port set",
	         "--dst-port 7777"},
	        {"sys_vendor", "Hetzner", "Hetzner", "provider's console", "TCP port 7777"},
	};
	char name[64];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		machine();
		snprintf(name, sizeof(name), "sys/class/dmi/id/%s", rows[i].file);
		plant_file(name, rows[i].text);
		look(PORT "[target]\nlisten = 7777\n");
		found(DOCTOR_NOTE, "cloud", rows[i].name, "use an address that is assigned",
		      rows[i].assign);
		found(DOCTOR_NOTE, "cloud", rows[i].name, "clients need TCP port 7777",
		      rows[i].open);
		/* Shared memory does not meet the cloud's network. */
		look("[port p0]\ndev = net_memif0,role=server,id=0\n" NET);
		good("cloud");
	}
	plant_end();
}

/** More NICs than fit, and the report of all that was found. */
static void
test_print(void)
{
	char address[16], text[4096] = "";
	FILE *out = fmemopen(text, sizeof(text) - 1, "w");

	machine();
	for (unsigned int i = 0; i < DOCTOR_NICS_MAX + 4; i++) {
		snprintf(address, sizeof(address), "0000:%02x:%02x.0", 0x20 + i / 32, i % 32);
		plant_nic(address, NULL, -1);
	}
	look(NULL);
	CHECK_EQ(d.nnics, DOCTOR_NICS_MAX);
	d.nnics = 0;
	d.nfindings = 0;
	doctor_what(doctor_add(&d, DOCTOR_OK, "a", "first"), "good");
	doctor_what(doctor_add(&d, DOCTOR_NOTE, "b", "second"), "slow");
	doctor_print(&d, false, out);
	doctor_mend(doctor_add(&d, DOCTOR_STOP, "c", "third"), "do %d", 5);
	doctor_print(&d, true, out);
	fclose(out);
	CHECK_STR(strchr(text, '\n') + 1, "ok    first: good\n"
	                                  "note  second: slow\n"
	                                  "nothing stands in the way of a target; 1 note\n"
	                                  "STOP  third: \n"
	                                  "        do 5\n"
	                                  "1 thing stands in the way of a target\n");
	plant_end();
}

WEFT_TEST_MAIN({"all_good", test_all_good}, {"nic", test_nic}, {"bond", test_bond},
               {"no_configuration", test_no_configuration}, {"rights", test_rights},
               {"iommu", test_iommu}, {"hugepages", test_hugepages}, {"numa", test_numa},
               {"cpus", test_cpus}, {"links", test_links}, {"clock", test_clock},
               {"clouds", test_clouds}, {"print", test_print})
