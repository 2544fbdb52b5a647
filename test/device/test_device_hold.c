/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Which NICs the machine itself needs, by planted tables of routes and connections. */

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "plant.h"
#include "weft_device_hold.h"
#include "weft_test.h"

#define NIC   "0000:03:00.0"
#define OTHER "0000:04:00.0"
#define ROUTE "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
#define NET4  "\t0002000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n" /* 10.0.2.0/24 */
#define TCP   "  sl  local_address rem_address   st tx_queue rx_queue\n"
#define ZERO6 "00000000000000000000000000000000"
#define REST6 " 00000400 00000002 00000000 "

/** NIC has ens1, OTHER has ens2, and there are no routes. */
static void
machine(void)
{
	plant_begin();
	plant_nic(NIC, "ixgbe", -1);
	plant_interface("ens1", NIC);
	plant_nic(OTHER, "ixgbe", -1);
	plant_interface("ens2", OTHER);
}

static void
held(const char *dev, enum weft_device_hold_kind kind, const char *ifname, const char *peer)
{
	struct weft_device_hold h;

	CHECK_EQ(weft_device_hold(&plant_roots, dev, &h), 0);
	CHECK_MSG(h.kind == kind, "%s: %d by %s %s, not %d", dev, h.kind, h.ifname, h.peer, kind);
	if (kind == WEFT_HOLD_NONE)
		return;
	CHECK_STR(h.ifname, ifname);
	CHECK_STR(h.peer, peer);
}

static void
none(const char *dev)
{
	held(dev, WEFT_HOLD_NONE, "", "");
}

static void
test_default_route(void)
{
	machine();
	none(NIC);
	plant_file("proc/net/route",
	           ROUTE "ens1\t00000000\t0102000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
	                 "ens2" NET4);
	held(NIC, WEFT_HOLD_ROUTE, "ens1", "");
	held("03:00.0,arg=1", WEFT_HOLD_ROUTE, "ens1", "");
	none(OTHER);
	/* A route that refuses packets, or is not up. */
	plant_file("proc/net/route",
	           ROUTE "ens1\t00000000\t0102000A\t0203\t0\t0\t0\t00000000\t0\t0\t0\n"
	                 "ens2\t00000000\t0102000A\t0002\t0\t0\t0\t00000000\t0\t0\t0\n");
	none(NIC);
	none(OTHER);
	/* Two halves, as VPNs make. */
	plant_file("proc/net/route",
	           ROUTE "ens1\t00000080\t0102000A\t0003\t0\t0\t0\t00000080\t0\t0\t0\n");
	held(NIC, WEFT_HOLD_ROUTE, "ens1", "");
	plant_remove("proc/net/route");
	plant_file("proc/net/ipv6_route",
	           ZERO6 " 00 " ZERO6 " 00 fe800000000000000000000000000001" REST6
	                 "00000003     ens2\n" ZERO6 " 00 " ZERO6 " 00 " ZERO6 REST6
	                 "00200200       lo\n");
	none(NIC);
	held(OTHER, WEFT_HOLD_ROUTE, "ens2", "");
	plant_end();
}

static void
test_built_on(void)
{
	machine();
	/* A VLAN on a bond on the NIC. */
	plant_link("../bond0", "sys/class/net/ens1/upper_bond0");
	plant_interface("bond0", NULL);
	plant_link("../bond0.5", "sys/class/net/bond0/upper_bond0.5");
	plant_interface("bond0.5", NULL);
	plant_file("proc/net/route",
	           ROUTE "bond0.5\t00000000\t0102000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n");
	held(NIC, WEFT_HOLD_ROUTE, "bond0.5", "");
	none(OTHER);
	/* virtio's interface is one folder deeper, and a NIC may have several. */
	plant_nic("0000:05:00.0", "virtio-pci", -1);
	plant_dir("sys/bus/pci/devices/0000:05:00.0/virtio3/net/eth0");
	plant_dir("sys/bus/pci/devices/" OTHER "/net/ens2d1");
	plant_file("proc/net/route",
	           ROUTE "eth0\t00000000\t0102000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
	                 "ens2d1\t00000000\t0102000A\t0003\t0\t0\t9\t00000000\t0\t0\t0\n");
	held("0000:05:00.0", WEFT_HOLD_ROUTE, "eth0", "");
	held(OTHER, WEFT_HOLD_ROUTE, "ens2d1", "");
	/* Without an interface nothing can be lost. */
	plant_nic("0000:06:00.0", "vfio-pci", 3);
	none("0000:06:00.0");
	plant_end();
}

static void
test_sockets(void)
{
	machine();
	plant_file("proc/net/route", ROUTE "ens1" NET4);
	/* 10.0.2.1:22 from 10.0.2.9:40000, in each state that does not count, and a port that does
	 * not. */
	plant_file("proc/net/tcp", TCP "   0: 0102000A:0016 0902000A:9C40 0A 0\n"
	                               "   1: 0102000A:0016 0902000A:9C40 06 0\n"
	                               "   2: 0102000A:0017 0902000A:9C40 01 0\n"
	                               "   3: 0100007F:0016 0100007F:9C40 01 0\n");
	none(NIC);
	plant_file("proc/net/tcp", TCP "   0: 0102000A:0016 0902000A:9C40 01 0\n");
	held(NIC, WEFT_HOLD_SSH, "ens1", "10.0.2.9");
	none(OTHER);
	/* From here to another host. */
	plant_file("proc/net/tcp", TCP "   0: 0102000A:9C40 0902000A:0016 01 0\n");
	held(NIC, WEFT_HOLD_SSH, "ens1", "10.0.2.9");
	/* A socket of IPv6 that has a peer of IPv4. */
	plant_remove("proc/net/tcp");
	plant_file("proc/net/tcp6", TCP "   0: 0000000000000000FFFF00000102000A:0016 "
	                                "0000000000000000FFFF00000902000A:9C40 01 0\n");
	held(NIC, WEFT_HOLD_SSH, "ens1", "10.0.2.9");
	/* The best route is by the other NIC; the own address is still this one's. */
	plant_file("proc/net/route", ROUTE
	           "ens1" NET4 "ens2\t0902000A\t00000000\t0005\t0\t0\t0\tFFFFFFFF\t0\t0\t0\n");
	held(NIC, WEFT_HOLD_SSH, "ens1", "10.0.2.9");
	held(OTHER, WEFT_HOLD_SSH, "ens2", "10.0.2.9");
	plant_end();
}

static void
test_sockets6(void)
{
	machine();
	/* fd00::1 here, fd01::9 there, by fd01::/16. */
	plant_file("proc/net/ipv6_route", "fd010000000000000000000000000000 10 " ZERO6
	                                  " 00 " ZERO6 REST6 "00000001     ens1\n"
	                                  "fe800000000000000000000000000000 40 " ZERO6
	                                  " 00 " ZERO6 REST6 "00000001     ens1\n"
	                                  "fe800000000000000000000000000000 40 " ZERO6
	                                  " 00 " ZERO6 REST6 "00000001     ens2\n");
	plant_file("proc/net/tcp6", TCP "   0: 000000FD000000000000000001000000:0016 "
	                                "000001FD000000000000000009000000:9C40 01 0\n");
	held(NIC, WEFT_HOLD_SSH, "ens1", "fd01::9");
	none(OTHER);
	/* The interface with the own address. */
	plant_file("proc/net/if_inet6", "fd000000000000000000000000000001 03 40 00 80     ens2\n");
	held(OTHER, WEFT_HOLD_SSH, "ens2", "fd01::9");
	/* Link-local: each interface has such a route. The own address decides. */
	plant_file("proc/net/tcp6", TCP "   0: 000080FE000000000000000001000000:0016 "
	                                "000080FE000000000000000009000000:9C40 01 0\n");
	none(NIC);
	none(OTHER);
	plant_file("proc/net/if_inet6", "fe800000000000000000000000000001 03 40 20 80     ens2\n");
	none(NIC);
	held(OTHER, WEFT_HOLD_SSH, "ens2", "fe80::9");
	plant_end();
}

static void
environment(long pid, long parent, const char *words, size_t len)
{
	char name[64], text[512];

	snprintf(name, sizeof(name), "proc/%ld/status", pid);
	snprintf(text, sizeof(text), "Name:\tx\nPPid:\t%ld\n", parent);
	plant_file(name, text);
	snprintf(name, sizeof(name), "%s/%ld/environ", plant_roots.proc, pid);
	CHECK(len < sizeof(text));

	FILE *f = fopen(name, "we");

	CHECK(f != NULL);
	CHECK_EQ(fwrite(words, 1, len, f), len);
	fclose(f);
}

#define ENV(words) words, sizeof(words)

static void
test_environment(void)
{
	const long pid = (long)getpid();

	machine();
	plant_file("proc/net/route", ROUTE "ens1" NET4);
	environment(pid, 0, ENV("A=1\0SSH_CONNECTION=10.0.2.9 40000 10.0.2.1 2222"));
	held(NIC, WEFT_HOLD_SSH, "ens1", "10.0.2.9");
	none(OTHER);
	/* sudo removes it from this process; the shell above has it. */
	environment(pid, 900001, ENV("A=1"));
	environment(900001, 900002, ENV("B=1"));
	environment(900002, 0, ENV("SSH_CONNECTION=10.0.2.9 40000 10.0.2.1 2222"));
	held(NIC, WEFT_HOLD_SSH, "ens1", "10.0.2.9");
	/* The zone of a link-local address names the interface. */
	environment(pid, 0, ENV("SSH_CONNECTION=fe80::9%ens2 40000 fe80::1%ens2 22"));
	none(NIC);
	held(OTHER, WEFT_HOLD_SSH, "ens2", "fe80::9");
	/* What is none. */
	static const char *const bad[] = {"SSH_CONNECTION=",
	                                  "SSH_CONNECTION=10.0.2.9",
	                                  "SSH_CONNECTION=10.0.2.9 40000",
	                                  "SSH_CONNECTION=10.0.2.9 40000 ",
	                                  "SSH_CONNECTION=ten 40000 10.0.2.1 22",
	                                  "SSH_CONNECTION=127.0.0.1 40000 127.0.0.1 22"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		environment(pid, 0, bad[i], strlen(bad[i]) + 1);
		none(NIC);
	}
	plant_end();
}

/** Tables of any length: the route that counts is the last one. */
static void
test_many(void)
{
	static char text[3000 * 80];
	size_t n = (size_t)snprintf(text, sizeof(text), ROUTE);

	machine();
	for (unsigned int i = 0; i < 2500; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n,
		                      "ens2\t%08X\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n",
		                      0x0a + (i << 8));
	n += (size_t)snprintf(text + n, sizeof(text) - n,
	                      "ens1\t00000000\t0102000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n");
	CHECK(n < sizeof(text));
	plant_file("proc/net/route", text);
	held(NIC, WEFT_HOLD_ROUTE, "ens1", "");
	none(OTHER);
	plant_end();
}

static void
test_misuse(void)
{
	struct weft_device_hold h;

	plant_begin();
	CHECK_EQ(weft_device_hold(&plant_roots, "eth0", &h), -EINVAL);
	CHECK_EQ(h.kind, WEFT_HOLD_NONE);
	none("0000:0f:00.0"); /* there is no such device */
	plant_end();
}

WEFT_TEST_MAIN({"default_route", test_default_route}, {"built_on", test_built_on},
               {"sockets", test_sockets}, {"sockets6", test_sockets6},
               {"environment", test_environment}, {"many", test_many}, {"misuse", test_misuse})
