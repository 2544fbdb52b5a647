/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The configuration loader: accepted files, and the exact message for every refused one. */

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conf_key.h"
#include <weft/offload.h>
#include "weft_test.h"

static struct conf conf;
static char err[CONF_ERR_MAX + CONF_PATH_MAX];

static int
load(const char *text)
{
	err[0] = '\0';
	conf_free(&conf);
	return conf_load_string("t.ini", text, strlen(text), &conf, err, sizeof(err));
}

#define PORT "[port p0]\ndev = net_null0\naddress = 10.0.0.1/24\n"

#define PORT6 "[port p0]\ndev = net_null0\naddress6 = fd00::1/64\n"

struct bad {
	const char *text, *message;
};

static void
check_bad(const struct bad *b, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		int rc = load(b[i].text);

		if (rc != -EINVAL || strcmp(err, b[i].message) != 0)
			test_fail(__FILE__, __LINE__, "case %u: %d\n  got  %s\n  want %s", i, rc,
			          err, b[i].message);
	}
}

#define CHECK_BAD(t) check_bad((t), sizeof(t) / sizeof((t)[0]))

static void
test_defaults(void)
{
	CHECK_EQ(load(PORT), 0);
	CHECK_EQ(conf.weft.memory_mb, 256);
	CHECK_EQ(conf.weft.hugepages, CONF_HUGE_AUTO);
	CHECK_STR(conf.weft.lcores, "");
	CHECK_EQ(conf.nports, 1);
	CHECK_STR(conf.ports[0].name, "p0");
	CHECK_STR(conf.ports[0].dev, "net_null0");
	CHECK_EQ(conf.ports[0].net.prefix_len, 24);
	CHECK_EQ(conf.ports[0].mtu_bytes, 1500);
	CHECK_EQ(conf.ports[0].mbufs, 8192);
	CHECK_EQ(load(PORT "mtu = 9600\n"), 0);
	CHECK_EQ(conf.ports[0].mbufs, 8192);
	CHECK_EQ(load(PORT "mtu = 9601\n"), 0);
	CHECK_EQ(conf.ports[0].mbufs, 2048);
	CHECK_EQ(load(PORT "mtu = 65535\nmbufs = 8192\n"), 0);
	CHECK_EQ(conf.ports[0].mbufs, 8192);
	CHECK_EQ(conf.ports[0].mtu_bytes, 65535);
	CHECK_EQ(load(PORT), 0);
	CHECK_EQ(conf.ports[0].net.gateway.ss_family, 0);
	CHECK_EQ(conf.nworkers, 1);
	CHECK_EQ(conf.workers[0].lcore, -1);
	CHECK_EQ(conf.workers[0].nports, 1);
	CHECK_STR(conf.workers[0].ports[0], "p0");
	CHECK(!conf.workers[0].spin);
	CHECK_EQ(conf.target.listen_port, 7471);
	CHECK_EQ(conf.target.keepalive_ms, 2000);
	CHECK_EQ(conf.target.credits, 8);
	CHECK_EQ(conf.target.max_conns_per_peer, 0);
	CHECK_EQ(conf.target.max_requests_per_peer, 0);
	CHECK_EQ(conf.nexports, 0);
}

static void
test_everything(void)
{
	static const char text[] =
	        "\xef\xbb\xbf; a comment\r\n"
	        "[weft]\r\n"
	        "lcores = 0,1\r\n"
	        "memory_mb=512 ; behind a value\r\n"
	        "log_level = weft.*:debug\n"
	        "hugepages = never\n"
	        "\n"
	        "  [port  a]\n"
	        "\tdev = net_memif0,role=server,socket=/dev/y.sock\n"
	        "\taddress = 192.168.7.9/30\n"
	        "gateway = 192.168.7.10\naddress6 = 2001:db8::7/48\ngateway6 = fe80::1\nvlan = 7\n"
	        "mtu = 9000\nmbufs = 4096\noffloads = no-tso , no-vlan-filter\n"
	        "selftest = yes\n"
	        "dscp = AF41\n"
	        "[port b] # behind a section\n"
	        "dev: net_ring0\naddress = 10.1.0.2/31\n"
	        "[worker one]\nports = a\nlcore = 1\nspin = yes\nhelpers = 3\nidle_sleep_us = 200\n"
	        "[worker two]\nports = b\n"
	        "[mpa]\nrevision = 2\nmarkers = yes\nrtr = fpdu+write\n"
	        "[tcp]\ncc = newreno\necn = on\nno_sack = yes\nmax_half_open = 77\n"
	        "[target]\nlisten = 20049\nkeepalive_ms = 500\ncredits = 16\n"
	        "max_conns_per_peer = 4\nmax_requests_per_peer = 2\n"
	        "[export e-1]\npath = /data/e1\nsize = 16M\npersist = file\nrights = read , "
	        "verify\n"
	        "numa_node = 1\n"
	        "[export e.2]\nsize = 1048576\npersist = volatile";

	CHECK_MSG(load(text) == 0, "%s", err);
	CHECK_STR(conf.weft.lcores, "0,1");
	CHECK_EQ(conf.weft.memory_mb, 512);
	CHECK_STR(conf.weft.log_level, "weft.*:debug");
	CHECK_EQ(conf.weft.hugepages, CONF_HUGE_NEVER);
	CHECK_EQ(conf.nports, 2);
	CHECK_STR(conf.ports[0].dev, "net_memif0,role=server,socket=/dev/y.sock");
	CHECK_EQ(ntohl(((struct sockaddr_in *)&conf.ports[0].net.addr)->sin_addr.s_addr),
	         0xc0a80709);
	CHECK_EQ(conf.ports[0].net.addr6.ss_family, AF_INET6);
	CHECK_EQ(conf.ports[0].net.prefix6_len, 48);
	CHECK_EQ(conf.ports[0].net.gateway6.ss_family, AF_INET6);
	CHECK_EQ(conf.ports[0].net.vlan_id, 7);
	CHECK_EQ(ntohl(((struct sockaddr_in *)&conf.ports[0].net.gateway)->sin_addr.s_addr),
	         0xc0a8070a);
	CHECK_EQ(conf.ports[0].mtu_bytes, 9000);
	CHECK_EQ(conf.ports[0].no_offloads, WEFT_OFFLOAD_TSO | WEFT_OFFLOAD_VLAN_FILTER);
	CHECK(conf.ports[0].selftest && !conf.ports[1].selftest);
	CHECK_EQ(conf.ports[0].dscp, 34);
	CHECK_EQ(conf.ports[1].dscp, 0);
	CHECK_STR(conf.ports[1].dev, "net_ring0");
	CHECK_EQ(conf.ports[1].no_offloads, 0);
	CHECK_EQ(conf.nworkers, 2);
	CHECK_EQ(conf.workers[0].lcore, 1);
	CHECK(conf.workers[0].spin);
	CHECK_EQ(conf.workers[0].helpers, 3);
	CHECK_EQ(conf.workers[0].idle_sleep_us, 200);
	CHECK_STR(conf.workers[1].ports[0], "b");
	CHECK_EQ(conf.mpa.rev, 2);
	CHECK(conf.mpa.markers && !conf.mpa.no_crc && !conf.mpa.p2p);
	CHECK_EQ(conf.mpa.rtr, WEFT_RTR_FPDU | WEFT_RTR_WRITE);
	CHECK_EQ(conf.tcp.cc, WEFT_TCP_CC_NEWRENO);
	CHECK_EQ(conf.tcp.ecn, WEFT_TCP_ECN_ON);
	CHECK(conf.tcp.no_sack && !conf.tcp.no_timestamps);
	CHECK_EQ(conf.tcp.max_half_open, 77);
	CHECK_EQ(conf.tcp.rto_min_us, 0);
	CHECK_EQ(conf.target.listen_port, 20049);
	CHECK_EQ(conf.target.credits, 16);
	CHECK_EQ(conf.target.max_conns_per_peer, 4);
	CHECK_EQ(conf.target.max_requests_per_peer, 2);
	CHECK_EQ(conf.nexports, 2);
	CHECK_STR(conf.exports[0].path, "/data/e1");
	CHECK_EQ(conf.exports[0].size_bytes, 16 << 20);
	CHECK_EQ(conf.exports[0].rights, CONF_RIGHT_READ | CONF_RIGHT_VERIFY);
	CHECK_EQ(conf.exports[0].numa_node, 1);
	CHECK_EQ(conf.exports[0].persist, CONF_PERSIST_FILE);
	/* By default a right that the medium cannot honour is not granted. */
	CHECK_EQ(conf.exports[1].rights, CONF_RIGHT_READ | CONF_RIGHT_WRITE | CONF_RIGHT_VERIFY);
	CHECK_STR(conf.exports[1].hash, "crc32c");
}

/* Numbers and the names of IANA's registry; nothing that only looks like one. */
static void
test_dscp(void)
{
	static const struct {
		const char *text;
		int dscp; /* -1: refused */
	} t[] = {{"0", 0},     {"63", 63},   {"cs0", 0},    {"cs1", 8},        {"CS7", 56},
	         {"af11", 10}, {"af13", 14}, {"af21", 18},  {"AF43", 38},      {"ef", 46},
	         {"EF", 46},   {"va", 44},   {"le", 1},     {"64", -1},        {"-1", -1},
	         {"cs8", -1},  {"cs", -1},   {"cs10", -1},  {"af01", -1},      {"af14", -1},
	         {"af51", -1}, {"af1", -1},  {"af111", -1}, {"0x2e", -1},      {"46 ", 46},
	         {"1e1", -1},  {"be", -1},   {"eff", -1},   {"4294967342", -1}};

	for (unsigned int i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		char text[256];

		snprintf(text, sizeof(text), PORT "dscp = %s\n", t[i].text);
		CHECK_MSG((load(text) == 0) == (t[i].dscp >= 0), "%s: %s", t[i].text, err);
		if (t[i].dscp >= 0)
			CHECK_EQ(conf.ports[0].dscp, t[i].dscp);
	}
}

static void
test_lines(void)
{
	static const struct bad t[] = {
	        {PORT "mtu 1500\n",
	         "t.ini:4: [port p0]: neither a [SECTION], nor key = value, nor a comment; "
	         "begin comments with # or ;"},
	        /* The first fault in the file is reported. */
	        {PORT "junk\nmtu = x\n",
	         "t.ini:4: [port p0]: neither a [SECTION], nor key = value, nor a comment; "
	         "begin comments with # or ;"},
	        {PORT "mtu = x\njunk\n",
	         "t.ini:4: [port p0] mtu: \"x\" is not a number; give one from 576 to 65535"},
	        {"mtu = 1\n" PORT,
	         "t.ini:1: [] mtu: outside any section; put it below a [SECTION] line"},
	        {"[port p0\n",
	         "t.ini:1: [port p0]: no closing ]; write [SECTION] alone on its line"},
	        {"[weft] x = 1\n",
	         "t.ini:1: [weft]: something behind the ]; write [SECTION] alone on its line"},
	        {PORT "mtu = 1500\nmtu = 1500\n",
	         "t.ini:5: [port p0] mtu: given twice, first on line 4; keep one"},
	        {PORT "mut = 1500\n",
	         "t.ini:4: [port p0] mut: unknown key; there are dev, "
	         "address, gateway, address6, gateway6, vlan, mtu, mbufs, offloads, selftest, "
	         "dscp"},
	        {PORT "MTU = 1500\n",
	         "t.ini:4: [port p0] MTU: unknown key; there are dev, "
	         "address, gateway, address6, gateway6, vlan, mtu, mbufs, offloads, selftest, "
	         "dscp"},
	        {PORT "mtu =\n",
	         "t.ini:4: [port p0] mtu: empty; give a value or leave the line out"},
	        {PORT "m\x01u = 1\n",
	         "t.ini:4: [port p0] m?u: unknown key; there are dev, "
	         "address, gateway, address6, gateway6, vlan, mtu, mbufs, offloads, selftest, "
	         "dscp"},
	};
	static const char nul[] = PORT "mtu\0 = 1\n";

	CHECK_BAD(t);
	CHECK_EQ(conf_load_string("t.ini", nul, sizeof(nul) - 1, &conf, err, sizeof(err)), -EINVAL);
	CHECK_STR(err, "t.ini:4: [port p0]: an octet 0 in the line; this is no text file");
}

static void
test_sections(void)
{
	static const struct bad t[] = {
	        {"[prot p0]\n",
	         "t.ini:1: [prot p0]: unknown section; there are [weft], [port NAME], "
	         "[network NAME], [worker NAME], [tcp], [mpa], [target], [export NAME], [client "
	         "NAME], [nvmf], [subsystem NQN]"},
	        {"[]\n",
	         "t.ini:1: []: unknown section; there are [weft], [port NAME], [network NAME], "
	         "[worker NAME], [tcp], [mpa], [target], [export NAME], [client NAME], [nvmf], "
	         "[subsystem NQN]"},
	        {"[port]\n", "t.ini:1: [port]: no name; write [port NAME]"},
	        {"[mpa]\nrevision = 1\npeer_to_peer = yes\n",
	         "t.ini:3: [mpa] peer_to_peer: MPA revision 1 has no such model; leave `revision` "
	         "out, or make it 2"},
	        {"[mpa]\nrtr = send\n", "t.ini:2: [mpa] rtr: \"send\" is not one of "
	                                "all|fpdu|write|fpdu+write|read|fpdu+read|write+read"},
	        {"[target x]\n", "t.ini:1: [target x]: takes no name; write [target]"},
	        {PORT "[export a/b]\n",
	         "t.ini:4: [export a/b]: bad name; use letters, digits, '.', '_' and '-' only"},
	        {PORT "[export 0123456789012345678901234567890123456789x]\n",
	         "t.ini:4: [export 0123456789012345678901234567890123456789x]: name too long; 40 "
	         "octets at most"},
	        {PORT PORT, "t.ini:4: [port p0]: second section of this name, the first is on line "
	                    "1; rename or "
	                    "join them"},
	        {"[port p0]\n", "t.ini:1: [port p0] dev: missing; every [port NAME] needs it"},
	        /* An empty section is checked, too, wherever it is. */
	        {"[port p0]\ndev = x\n[weft]\n",
	         "t.ini:1: [port p0] address: missing; give address, address6 or a "
	         "[network NAME]"},
	        {"", "t.ini: no port; add a [port NAME] section with dev and address or address6"},
	};
	char many[4096] = "";

	CHECK_BAD(t);
	/* Sections without a name: a second one would silently continue the first. */
	CHECK_EQ(load(PORT "[weft]\nmemory_mb = 64\n[weft]\nmemory_mb = 65\n"), -EINVAL);
	CHECK_STR(err, "t.ini:6: [weft]: second section of this name, the first is on line 4; "
	               "rename or join "
	               "them");
	for (int i = 0; i < 9; i++)
		snprintf(many + strlen(many), sizeof(many) - strlen(many),
		         "[port p%d]\ndev = x\naddress = 10.0.0.%d/24\n", i, i + 1);
	CHECK_EQ(load(many), -EINVAL);
	CHECK_STR(err, "t.ini:25: [port p8]: too many; 8 sections [port NAME] at most");
}

#define EXPORT PORT "[export e]\npath = /x\n"

static void
test_values(void)
{
	static const struct bad t[] = {
	        {EXPORT "size = 64X\n",
	         "t.ini:6: [export e] size: \"64X\" is not a size; give octets, or a "
	         "number with K, M, G or T"},
	        {EXPORT "size = -1\n",
	         "t.ini:6: [export e] size: \"-1\" is not a size; give octets, or a number "
	         "with K, M, G or T"},
	        {EXPORT "size = 1.5G\n",
	         "t.ini:6: [export e] size: \"1.5G\" is not a size; give octets, or a "
	         "number with K, M, G or T"},
	        {EXPORT "size = 99999999999999999999\n",
	         "t.ini:6: [export e] size: \"99999999999999999999\" is too large"},
	        {EXPORT "size = 9999999999G\n",
	         "t.ini:6: [export e] size: \"9999999999G\" is too large"},
	        {EXPORT "size = 4096\n",
	         "t.ini:6: [export e] size: \"4096\" is too small; at least 24576 octets"},
	        {EXPORT "persist = disk\n",
	         "t.ini:6: [export e] persist: \"disk\" is not one of auto|pmem|file|volatile"},
	        {EXPORT "rights = read,fly\n",
	         "t.ini:6: [export e] rights: unknown right \"fly\"; there are "
	         "read, write, flush, verify"},
	        {EXPORT "allow_clients = a,,b\n",
	         "t.ini:6: [export e] allow_clients: empty word in the list; write names with "
	         "commas between"},
	        {EXPORT "allow_clients = a b\n",
	         "t.ini:6: [export e] allow_clients: \"a b\" is no name of a client; use up to 63 "
	         "letters, digits, '-', '_' and '.'"},
	        {EXPORT "allow_clients = a, any\n",
	         "t.ini:6: [export e] allow_clients: any stands alone; leave the names out, or "
	         "\"any\""},
	        {EXPORT "allow_from = 10.0.0.0/24, 10.0.0.1\n",
	         "t.ini:6: [export e] allow_from: 10.0.0.0/24 and 10.0.0.1 overlap; leave one out"},
	        {EXPORT "rights = read,,write\n", "t.ini:6: [export e] rights: empty word in the "
	                                          "list; write read,write,flush,verify"},
	        {EXPORT "rights = read,\n", "t.ini:6: [export e] rights: empty word in the list; "
	                                    "write read,write,flush,verify"},
	        {EXPORT "rights = read,read\n",
	         "t.ini:6: [export e] rights: right \"read\" twice; name it once"},
	        {EXPORT "rights = verify\n",
	         "t.ini:6: [export e] rights: who may verify can find out every octet, "
	         "so verify needs read; add read, or leave verify out"},
	        {EXPORT "hash = md5\n",
	         "t.ini:6: [export e] hash: no hash driver \"md5\"; there are: crc32c, "
	         "crc64-ecma-182, crc64-xz, crc64-go-iso, crc64-redis, crc16-t10-dif, sha256, "
	         "hmac-sha256"},
	        {EXPORT "hash = hmac-sha256\n",
	         "t.ini:6: [export e] hash: hmac-sha256 needs a key; name its file with "
	         "hash_key_file"},
	        {EXPORT "hash = sha256\nhash_key_file = k\n",
	         "t.ini:7: [export e] hash_key_file: sha256 takes no key; leave it out, or say "
	         "hash = hmac-sha256"},
	        {EXPORT "hash_key_file = k\n",
	         "t.ini:6: [export e] hash_key_file: crc32c takes no key; leave it out, or say "
	         "hash = hmac-sha256"},
	        {EXPORT "hash = crc64-xz\nrights = verify\n",
	         "t.ini:7: [export e] rights: who may verify can find out every octet, "
	         "so verify needs read; add read, or leave verify out"},
	        {EXPORT "hash = sha256\nrights = write,verify\n",
	         "t.ini:7: [export e] rights: who may verify can find out every octet, "
	         "so verify needs read; add read, or leave verify out"},
	        {EXPORT "rights = write,verify\nhash = hmac-sha256\nhash_key_file = k\n",
	         "t.ini:6: [export e] rights: who may verify can find out every octet, "
	         "so verify needs read; add read, or leave verify out"},
	        {EXPORT "numa_node = -2\n",
	         "t.ini:6: [export e] numa_node: -2 is out of range; give -1 to 1023"},
	        {PORT "[export e]\nsize = 1M\n",
	         "t.ini:4: [export e] path: missing; name a file, or say persist = volatile"},
	        {EXPORT "format = logs\n",
	         "t.ini:6: [export e] format: \"logs\" is not one of object|log|volume"},
	        {EXPORT "checksums = yes\n",
	         "t.ini:6: [export e] checksums: only a volume has them; say format = volume, or "
	         "leave it out"},
	        {EXPORT "snapshots = 10\n",
	         "t.ini:6: [export e] snapshots: only a volume has them; say format = volume, or "
	         "leave it out"},
	        {EXPORT "scrub = 10\n",
	         "t.ini:6: [export e] scrub: only a volume is scrubbed; say format = volume, or "
	         "leave it out"},
	        {EXPORT "format = volume\nsize = 1M\n",
	         "t.ini:7: [export e] size: a volume has at least 2M, of which its superblock "
	         "takes the first"},
	        {PORT "[target]\nwindow = 3M\n[export e]\npath = /e\nformat = volume\n",
	         "t.ini: [target] window: 3145728 is no power of 2 up to 64 MiB"},
	        {PORT "[target]\nwindow = 128M\n[export e]\npath = /e\nformat = volume\n",
	         "t.ini: [target] window: 134217728 is no power of 2 up to 64 MiB"},
	        {PORT
	         "[target]\nstaging = 7M\nwindow = 2M\n[export e]\npath = /e\nformat = volume\n",
	         "t.ini: [target] staging: 1 workers and windows of 2097152 octets need at least "
	         "8388608 octets"},
	        {PORT "[export e]\nformat = log\nsize = 1M\npersist = volatile\n",
	         "t.ini:7: [export e] persist: the writer of a log needs Flush, which a volatile "
	         "export cannot promise; choose another persist"},
	        {EXPORT "format = log\nrights = read,write\n",
	         "t.ini:7: [export e] rights: who writes a log reads and flushes it; add read and "
	         "flush, or leave write out"},
	        {EXPORT "rights = write,flush\nformat = log\n",
	         "t.ini:6: [export e] rights: who writes a log reads and flushes it; add read and "
	         "flush, or leave write out"},
	        {EXPORT "persist = volatile\nsize = 1M\n",
	         "t.ini:5: [export e] path: a volatile export has no file; leave path or persist = "
	         "volatile out"},
	        {PORT "[export e]\npersist = volatile\n",
	         "t.ini:4: [export e] size: missing; a volatile export needs it"},
	        {PORT "[export e]\npersist = volatile\nsize = 1M\nrights = read,flush\n",
	         "t.ini:7: [export e] rights: a volatile export cannot promise flush; leave it out "
	         "or choose "
	         "another persist"},
	        /* the limits of an endpoint: with 1 every connection would be refused */
	        {PORT "[target]\ncredits = 1\n",
	         "t.ini:5: [target] credits: 1 is out of range; give 2 to 256"},
	        {PORT "mtu = 99999\n",
	         "t.ini:4: [port p0] mtu: 99999 is out of range; give 576 to 65535"},
	        {PORT "mtu = 1500b\n",
	         "t.ini:4: [port p0] mtu: \"1500b\" is not a number; give one from 576 to 65535"},
	        {PORT "mbufs = 9999999999999999999999\n",
	         "t.ini:4: [port p0] mbufs: 9999999999999999999999 is out of range; give 1024 to "
	         "1048576"},
	        {PORT "gateway = 10.0.1.1\n", "t.ini:4: [port p0] gateway: not in the network of "
	                                      "address; give a neighbour's address"},
	        {PORT "gateway = 10.0.0.1\n",
	         "t.ini:4: [port p0] gateway: is our own address; give a neighbour's address"},
	        {PORT "gateway = fred\n",
	         "t.ini:4: [port p0] gateway: \"fred\" is not a host's IPv4 address; "
	         "write it like 10.0.0.254"},
	        {PORT "address6 = 10.0.0.1/24\n",
	         "t.ini:4: [port p0] address6: \"10.0.0.1/24\" is not a host's IPv6 address with "
	         "prefix length; write it like fd00::1/64"},
	        {PORT "address6 = fe80::1/64\n",
	         "t.ini:4: [port p0] address6: \"fe80::1/64\" is not a host's IPv6 address with "
	         "prefix length; write it like fd00::1/64"},
	        {PORT "address6 = fd00::1/129\n",
	         "t.ini:4: [port p0] address6: \"fd00::1/129\" is not a host's IPv6 address with "
	         "prefix length; write it like fd00::1/64"},
	        {PORT "address6 = fd00::1/64\nmtu = 1279\n",
	         "t.ini:4: [port p0] address6: IPv6 wants an mtu of 1280 or more"},
	        {PORT "gateway6 = fe80::1\n",
	         "t.ini:4: [port p0] gateway6: there is no address6; give one"},
	        {PORT "address6 = fd00::1/64\ngateway6 = fd00:1::1\n",
	         "t.ini:5: [port p0] gateway6: not in the network of address6; give a neighbour's "
	         "address"},
	        {PORT "address6 = fd00::1/64\ngateway6 = fd00::1\n",
	         "t.ini:5: [port p0] gateway6: is our own address; give a neighbour's address"},
	        {PORT "gateway6 = ff02::1\n",
	         "t.ini:4: [port p0] gateway6: \"ff02::1\" is not a host's IPv6 address; write it "
	         "like fd00::fffe"},
	        {PORT "vlan = 4095\n",
	         "t.ini:4: [port p0] vlan: 4095 is out of range; give 0 to 4094"},
	        {PORT "offloads = tso\n",
	         "t.ini:4: [port p0] offloads: \"tso\" names no offload to leave out; write auto, "
	         "none, or a list of "
	         "no-rx-checksum, no-tx-checksum, no-tso, no-scatter, no-gather, no-rss, "
	         "no-vlan-strip, no-vlan-insert, no-vlan-filter"},
	        {PORT "offloads = no-tso, auto\n",
	         "t.ini:4: [port p0] offloads: \"auto\" names no offload to leave out; write auto, "
	         "none, or a list of "
	         "no-rx-checksum, no-tx-checksum, no-tso, no-scatter, no-gather, no-rss, "
	         "no-vlan-strip, no-vlan-insert, no-vlan-filter"},
	        {PORT "offloads = no-rss,no-rss\n",
	         "t.ini:4: [port p0] offloads: no-rss twice; name it once"},
	        {PORT "offloads = no-rss,\n",
	         "t.ini:4: [port p0] offloads: empty word in the list; write no-tso,no-rss"},
	        {PORT "dscp = 64\n",
	         "t.ini:4: [port p0] dscp: \"64\" is no DSCP; give 0 to 63, or cs0 to cs7, af11 to "
	         "af43, ef, va, le"},
	        {PORT "[client alice]\n",
	         "t.ini:4: [client alice] key_file: missing; every [client NAME] needs it"},
	        {PORT "[target]\nhost_auth = required\n",
	         "t.ini: [target] host_auth: no client can authenticate; add a [client NAME] "
	         "section with "
	         "key_file"},
	        {PORT "[target]\nhost_auth = yes\n",
	         "t.ini:5: [target] host_auth: \"yes\" is not one of none|optional|required"},
	        {PORT "[worker w]\nspin = maybe\n",
	         "t.ini:5: [worker w] spin: \"maybe\" is neither yes nor no"},
	        {PORT "[worker w]\nports = a,a\n",
	         "t.ini:5: [worker w] ports: port \"a\" twice; name it once"},
	        {PORT "[weft]\nhugepages = sometimes\n",
	         "t.ini:5: [weft] hugepages: \"sometimes\" is not one of auto|never"},
	};
	static const char *const address[] = {
	        "10.0.0.1",      "10.0.0.1/33", "10.0.0.1/0",   "10.0.0/24", "10.0.0.0/24",
	        "10.0.0.255/24", "127.0.0.1/8", "224.0.0.1/24", "0.1.2.3/8", "10.0.0.1/24x",
	        "fe80::1/64",    "10.0.0.1/-1", "300.0.0.1/8",  "/24"};

	CHECK_BAD(t);
	for (unsigned int i = 0; i < sizeof(address) / sizeof(address[0]); i++) {
		char text[256], want[256];

		snprintf(text, sizeof(text), "[port p0]\ndev = x\naddress = %s\n", address[i]);
		snprintf(want, sizeof(want),
		         "t.ini:3: [port p0] address: \"%s\" is not a host's IPv4 address with "
		         "prefix length; "
		         "write it like 10.0.0.1/24",
		         address[i]);
		CHECK_EQ(load(text), -EINVAL);
		CHECK_STR(err, want);
	}
}

#define DISK PORT "[export d]\nformat = volume\npath = /d\n"
#define NQN  "nqn.2026-01.org.example:disk"
#define SUB  DISK "[subsystem " NQN "]\n" /* its keys begin on line 8 */

static void
test_nvmf(void)
{
	static const struct bad t[] = {
	        {DISK "[subsystem disk]\n",
	         "t.ini:7: [subsystem disk]: no NQN; write nqn.YYYY-MM.DOMAIN:NAME, as "
	         "nqn.2026-01.org.example:disk, of at most 223 octets"},
	        {DISK "[subsystem nqn.2026-01.org.example:\xc3\xa4]\n",
	         "t.ini:7: [subsystem nqn.2026-01.org.example:\xc3\xa4]: no NQN; write "
	         "nqn.YYYY-MM.DOMAIN:NAME, as nqn.2026-01.org.example:disk, of at most 223 octets"},
	        {DISK "[subsystem]\n", "t.ini:7: [subsystem]: no name; write [subsystem NQN]"},
	        {SUB "hosts = any\n", "t.ini:7: [subsystem " NQN
	                              "] namespaces: missing; every [subsystem NQN] needs it"},
	        {SUB "namespaces = 1=d\n",
	         "t.ini:7: [subsystem " NQN "] hosts: missing; every [subsystem NQN] needs it"},
	        {SUB "namespaces = d\n",
	         "t.ini:8: [subsystem " NQN "] namespaces: \"d\" is no namespace; write "
	         "NUMBER=EXPORT, as 1=disk, with a number from 1 to 1024"},
	        {SUB "namespaces = 1025=d\n",
	         "t.ini:8: [subsystem " NQN "] namespaces: \"1025=d\" is no namespace; write "
	         "NUMBER=EXPORT, as 1=disk, with a number from 1 to 1024"},
	        {SUB "namespaces = 1=d,2=d\n",
	         "t.ini:8: [subsystem " NQN
	         "] namespaces: 1=d and 2=d: give each namespace its number and export"},
	        {SUB "namespaces = 1=d,\n",
	         "t.ini:8: [subsystem " NQN
	         "] namespaces: empty word in the list; write 1=EXPORT, 2=EXPORT"},
	        {SUB "hosts = any, " NQN "\n",
	         "t.ini:8: [subsystem " NQN "] hosts: \"any\" is no NQN of a host; write the "
	         "line of its /etc/nvme/hostnqn, or any alone"},
	        {SUB "hosts = " NQN "," NQN "\n",
	         "t.ini:8: [subsystem " NQN "] hosts: \"" NQN "\" twice; name it once"},
	        {SUB "serial = 123456789012345678901\n",
	         "t.ini:8: [subsystem " NQN "] serial: too long; 20 octets at most"},
	        {SUB "hosts = any\nnamespaces = 1=d\nmodel = a\tb\n",
	         "t.ini:10: [subsystem " NQN "] model: a character that is not printable ASCII"},
	        {SUB "hosts = any\nnamespaces = 1=d\naccess = best\n",
	         "t.ini:10: [subsystem " NQN "] access: \"best\" is not one of "
	         "alone|optimized|non_optimized|inaccessible"},
	        {SUB "first_controller = 0\n",
	         "t.ini:8: [subsystem " NQN
	         "] first_controller: 0 is out of range; give 1 to 65519"},
	        {SUB "hosts = any\nnamespaces = 1=d\nfirst_controller = 9\nlast_controller = 8\n",
	         "t.ini:11: [subsystem " NQN "] last_controller: below first_controller, 9"},
	        {SUB "hosts = any\nnamespaces = 1=d, 2=e\n",
	         "t.ini:7: [subsystem " NQN
	         "] namespaces: no [export e]; add it, or name another one"},
	        {PORT "[export d]\npath = /d\n[subsystem " NQN "]\nhosts = any\nnamespaces = 1=d\n",
	         "t.ini:6: [subsystem " NQN "] namespaces: export d: only a volume can be a "
	         "namespace; say format = volume there"},
	        {DISK "rights = write\n[subsystem " NQN "]\nhosts = any\nnamespaces = 1=d\n",
	         "t.ini:8: [subsystem " NQN "] namespaces: export d: a namespace can be read; add "
	         "read to its rights"},
	        {DISK "allow_from = 10.0.0.7\n[subsystem " NQN "]\nhosts = any\nnamespaces = 1=d\n",
	         "t.ini:8: [subsystem " NQN "] namespaces: export d: its allow_from would not "
	         "hold for hosts; use allow_from of [nvmf], and leave it out there"},
	        {"[nvmf]\nmax_transfer = 96K\n",
	         "t.ini:2: [nvmf] max_transfer: 98304 is no power of 2 up to 1M"},
	        {SUB
	         "hosts = any\nnamespaces = 1=d\naccess = optimized\n[nvmf]\nmax_transfer = 32K\n",
	         "t.ini:7: [subsystem " NQN "] access: needs max_transfer of at least 64K in "
	         "[nvmf]: hosts read the states of all paths in one transfer, or do without them"},
	        {"[nvmf]\nlisten_on = 10.9.0.1\n" PORT,
	         "t.ini: [nvmf] listen_on: no port has the address 10.9.0.1; name addresses or "
	         "networks of this file"},
	        {SUB "hosts = any\nnamespaces = 1=d\ntls_keys = /k\n",
	         "t.ini:7: [subsystem " NQN "] tls_keys: tls of [nvmf] is off; write allowed or "
	         "required there"},
	        {SUB "hosts = any\nnamespaces = 1=d\n[nvmf]\ntls = allowed\n",
	         "t.ini: [nvmf] tls: no [subsystem NQN] has tls_keys"},
	        {SUB "hosts = any\nnamespaces = 1=d\ntls_keys = /k\n[nvmf]\ntls = required\n"
	             "tcp_listen = 0\n",
	         "t.ini: [nvmf] tls: tcp_listen is 0; TLS is for NVMe/TCP"},
	        {"[nvmf]\ntls = maybe\n",
	         "t.ini:2: [nvmf] tls: \"maybe\" is not one of off|allowed|required"},
	        {SUB "hosts = any\nnamespaces = 1=d\n[nvmf]\nstaging = 1M\n",
	         "t.ini: [nvmf] staging: 1 workers and transfers of 1048576 octets need at least "
	         "4194304 octets"},
	};
	char serial[CONF_SERIAL_MAX + 1];

	CHECK_BAD(t);
	CHECK_MSG(load(SUB "hosts = " NQN ", nqn.2014-08.org.nvmexpress:uuid:1\n"
	                   "namespaces = 7=d\n") == 0,
	          "%s", err);
	CHECK_EQ(conf.nsubsys, 1);
	CHECK_STR(conf.subsys[0].nqn, NQN);
	CHECK_STR(conf.subsys[0].hosts, NQN ",nqn.2014-08.org.nvmexpress:uuid:1");
	CHECK_STR(conf.subsys[0].model, "weft");
	CHECK_EQ(conf.subsys[0].access, 0);
	CHECK_EQ(conf.subsys[0].first_controller, 1);
	CHECK_EQ(conf.subsys[0].last_controller, 65519);
	CHECK_EQ(conf.subsys[0].nns, 1);
	CHECK_EQ(conf.subsys[0].ns[0].nsid, 7);
	CHECK_STR(conf.subsys[0].ns[0].export, "d");
	CHECK_EQ(conf.nvmf.listen_port, 4420);
	/* it is the same in each run, and another one for another NQN */
	CHECK_EQ(strlen(conf.subsys[0].serial), 20);
	strcpy(serial, conf.subsys[0].serial);
	CHECK_EQ(load(SUB "hosts = any\nnamespaces = 7=d\n"), 0);
	CHECK_STR(conf.subsys[0].serial, serial);
	CHECK_STR(conf.subsys[0].hosts, "any");
	CHECK_STR(conf.subsys[0].secrets, "");
	CHECK_EQ(load(SUB "hosts = any\nnamespaces = 7=d\nsecrets = /s\n"), 0);
	CHECK_STR(conf.subsys[0].secrets, "/s");
	CHECK_EQ(conf.subsys[0].secrets_group, 1);
	CHECK_EQ(load(SUB "hosts = any\nnamespaces = 7=d\nsecrets_group = null\n"), 0);
	CHECK_EQ(conf.subsys[0].secrets_group, 0);
	CHECK_STR(conf.subsys[0].tls_keys, "");
	CHECK_EQ(conf.nvmf.tls, CONF_TLS_OFF);
	CHECK_EQ(conf.nvmf.tls_derivation, 0);
	CHECK_STR(conf.nvmf.discovery_secrets, "");
	CHECK_EQ(load("[nvmf]\ndiscovery_secrets = /d\n" SUB "hosts = any\nnamespaces = 7=d\n"), 0);
	CHECK_STR(conf.nvmf.discovery_secrets, "/d");
	CHECK_EQ(load("[nvmf]\ntls = required\ntls_derivation = compat\n" SUB
	              "hosts = any\nnamespaces = 7=d\ntls_keys = /k\n"),
	         0);
	CHECK_STR(conf.subsys[0].tls_keys, "/k");
	CHECK_EQ(conf.nvmf.tls, CONF_TLS_REQUIRED);
	CHECK_EQ(conf.nvmf.tls_derivation, 2);
	CHECK_EQ(load(DISK "[subsystem " NQN "2]\nhosts = any\nnamespaces = 7=d\n"), 0);
	CHECK(strcmp(conf.subsys[0].serial, serial) != 0);
}

#define PORT1 "[port p1]\ndev = net_null1\naddress = 10.0.1.1/24\n"
#define NIC0  "[port p0]\ndev = 0000:3b:00.0\naddress = 10.0.0.1/24\n"

static void
test_whole(void)
{
	static const struct bad t[] = {
	        {PORT "[port p1]\ndev = y\naddress = 10.0.0.1/16\n",
	         "t.ini:4: [port p1] address: the same as that of [port p0]; give each port its "
	         "own"},
	        {NIC0 "[port p1]\ndev = 3b:00.0\naddress = 10.0.1.1/24\n",
	         "t.ini:5: [port p1] dev: device 0000:3b:00.0 belongs to [port p0]; give each port "
	         "its own"},
	        {NIC0 "[port p1]\ndev = 0000:3B:00.0,x=1\naddress = 10.0.1.1/24\n",
	         "t.ini:5: [port p1] dev: device 0000:3b:00.0 belongs to [port p0]; give each port "
	         "its own"},
	        {PORT "[worker w]\nports = p7\n",
	         "t.ini:5: [worker w] ports: no [port p7]; name ports of this file"},
	        {PORT PORT1 "[worker w]\nports = p0\n",
	         "t.ini:4: [port p1]: no worker serves it; add it to the ports of a [worker NAME]"},
	        {PORT PORT1 "[worker v]\nports = p0,p1\n[worker w]\nports = p1,p1\n",
	         "t.ini:10: [worker w] ports: port \"p1\" twice; name it once"},
	        {"[weft]\nworkers = 2\n" PORT "[worker w]\nports = p0\n",
	         "t.ini: [weft] workers: there are [worker NAME] sections; give either"},
	        {PORT PORT1
	         "[worker v]\nports = p0\nlcore = 1\n[worker w]\nports = p1\nlcore = 1\n",
	         "t.ini:10: [worker w] lcore: 1 belongs to [worker v]; give each worker its own"},
	        {PORT PORT1 "[worker v]\nports = p0\n[worker w]\nspin = no\n",
	         "t.ini:9: [worker w] ports: missing; say which ports it serves"},
	        {EXPORT "[export f]\npath = /x\n", "t.ini:6: [export f] path: the same as that of "
	                                           "[export e]; give each export its own file"},
	};

	CHECK_BAD(t);
	CHECK_MSG(load(PORT PORT1) == 0, "%s", err);
	CHECK_EQ(conf.workers[0].nports, 2);
	/* A function, a bus and a domain of other numbers are other devices. */
	CHECK_MSG(load(NIC0 "[port p1]\ndev = 3b:00.1\naddress = 10.0.1.1/24\n"
	                    "[port p2]\ndev = 3c:00.0\naddress = 10.0.2.1/24\n"
	                    "[port p3]\ndev = 0001:3b:00.0\naddress = 10.0.3.1/24\n") == 0,
	          "%s", err);
	CHECK_MSG(load(PORT PORT1 "[worker w]\nlcore = 0\n") == 0, "%s", err);
	CHECK_EQ(conf.workers[0].nports, 2);
	/* Shared ports. */
	CHECK_MSG(load(PORT PORT1 "[worker v]\nports = p0,p1\n[worker w]\nports = p1\n") == 0, "%s",
	          err);
	CHECK_EQ(conf.nworkers, 2);
	CHECK_MSG(load("[weft]\nworkers = 3\n" PORT PORT1) == 0, "%s", err);
	CHECK_EQ(conf.nworkers, 3);
	for (unsigned int i = 0; i < 3; i++) {
		CHECK_EQ(conf.workers[i].nports, 2);
		CHECK_EQ(conf.workers[i].lcore, -1);
	}
	CHECK_STR(conf.workers[2].name, "w2");
}

/* inih's buffer is 200 octets; a value may be longer. */
static void
test_long_lines(void)
{
	char text[8192], value[4096];

	memset(value, 'x', sizeof(value));
	for (unsigned int n = 150; n <= 1000; n++) {
		snprintf(text, sizeof(text),
		         "[port p0]\ndev = x,v=%.*s ; comment\naddress = 10.0.0.1/24\n", (int)n - 4,
		         value);
		CHECK_MSG(load(text) == 0, "%u octets: %s", n, err);
		CHECK_EQ(strlen(conf.ports[0].dev), n);
		CHECK_EQ(strspn(conf.ports[0].dev + 4, "x"), n - 4);
	}
	snprintf(text, sizeof(text), "[port p0]\ndev = %.1024s\naddress = 10.0.0.1/24\n", value);
	CHECK_EQ(load(text), -EINVAL);
	CHECK_STR(err, "t.ini:2: [port p0] dev: too long; 1023 octets at most");
	snprintf(text, sizeof(text), "[port p0]\ndev = %.2000s\naddress = 10.0.0.1/24\n", value);
	CHECK_EQ(load(text), -EINVAL);
	CHECK_STR(err, "t.ini:2: [port p0]: line too long; 2000 octets at most");
	/* A comment may be as long as a line. */
	snprintf(text, sizeof(text), "# %.1900s = 5\n" PORT, value);
	CHECK_MSG(load(text) == 0, "%s", err);
}

static void
test_file(void)
{
	char dir[] = "/tmp/weft-conf-XXXXXX", path[64], want[CONF_PATH_MAX];
	FILE *f;

	CHECK(mkdtemp(dir) != NULL);
	snprintf(path, sizeof(path), "%s/a.ini", dir);
	CHECK_EQ(conf_load(path, &conf, err, sizeof(err)), -ENOENT);
	snprintf(want, sizeof(want), "%s: cannot be read: No such file or directory", path);
	CHECK_STR(err, want);
	CHECK_EQ(conf_load(dir, &conf, err, sizeof(err)), -EISDIR);
	snprintf(want, sizeof(want), "%s: is a directory; name a file", dir);
	CHECK_STR(err, want);
	/* No process writes to the FIFO, and the loader must not wait for one. */
	CHECK_EQ(mkfifo(path, 0600), 0);
	CHECK_EQ(conf_load(path, &conf, err, sizeof(err)), -EINVAL);
	snprintf(want, sizeof(want), "%s: is not a regular file (a FIFO)", path);
	CHECK_STR(err, want);
	unlink(path);
	f = fopen(path, "w");
	CHECK(f != NULL);
	fputs(PORT "[export e]\npath = sub/e.weft\n", f);
	fclose(f);
	conf_free(&conf);
	CHECK_MSG(conf_load(path, &conf, err, sizeof(err)) == 0, "%s", err);
	snprintf(want, sizeof(want), "%s/sub/e.weft", dir);
	CHECK_STR(conf.exports[0].path, want);
	unlink(path);
	rmdir(dir);
	/* Next to the working directory the path stays relative. */
	CHECK_EQ(load(PORT "[export e]\npath = e.weft\n"), 0);
	CHECK_STR(conf.exports[0].path, "e.weft");
}

static void
test_command_line(void)
{
	conf_free(&conf);
	conf_defaults(&conf);
	CHECK_EQ(conf_add_port(&conf, "p0", "net_null0", "10.0.0.2/24", 9000, err, sizeof(err)), 0);
	CHECK_EQ(conf_finish(&conf, err, sizeof(err)), 0);
	CHECK_EQ(conf.ports[0].mtu_bytes, 9000);
	CHECK_EQ(conf.ports[0].mbufs, 8192);
	CHECK_STR(conf.workers[0].ports[0], "p0");
	CHECK_EQ(conf_add_port(&conf, "p1", "net_null1", "10.0.0.2", 0, err, sizeof(err)), -EINVAL);
	CHECK_STR(err, "\"10.0.0.2\" is not a host's IPv4 address with prefix length; write it "
	               "like 10.0.0.2/24");
	CHECK_EQ(conf.nports, 1);
}

/* A port with IPv6 only: from a file, from a command line, and with options that do not fit it. */
static void
test_ipv6_only(void)
{
	static const struct bad t[] = {
	        {PORT6 "gateway = 10.0.0.254\n",
	         "t.ini:4: [port p0] gateway: there is no address; give one"},
	        {PORT6 "mtu = 1279\n",
	         "t.ini:3: [port p0] address6: IPv6 wants an mtu of 1280 or more"},
	        {PORT6 "[port p1]\ndev = y\naddress6 = fd00::1/48\n",
	         "t.ini:4: [port p1] address6: the same as that of [port p0]; give each port its "
	         "own"},
	};

	CHECK_BAD(t);
	CHECK_MSG(load(PORT6 "gateway6 = fe80::1\n") == 0, "%s", err);
	CHECK_EQ(conf.ports[0].net.addr.ss_family, 0);
	CHECK_EQ(conf.ports[0].net.addr6.ss_family, AF_INET6);
	CHECK_EQ(conf.ports[0].net.prefix6_len, 64);
	/* Two ports without IPv4 do not have the same IPv4 address. */
	CHECK_MSG(load(PORT6 "[port p1]\ndev = y\naddress6 = fd00:1::1/64\n") == 0, "%s", err);
	conf_defaults(&conf);
	CHECK_EQ(conf_add_port(&conf, "p0", "net_null0", "fd00::2/64", 0, err, sizeof(err)), 0);
	CHECK_EQ(conf.ports[0].net.addr.ss_family, 0);
	CHECK_EQ(conf.ports[0].net.addr6.ss_family, AF_INET6);
	CHECK_EQ(conf_add_port(&conf, "p1", "net_null1", "10.0.0.2/24,fd00::3/64", 0, err,
	                       sizeof(err)),
	         0);
	CHECK_EQ(conf.ports[1].net.addr.ss_family, AF_INET);
	CHECK_EQ(conf.ports[1].net.addr6.ss_family, AF_INET6);
	CHECK_EQ(conf_finish(&conf, err, sizeof(err)), 0);
	CHECK_EQ(conf_add_port(&conf, "p2", "net_null2", "fd00::4", 0, err, sizeof(err)), -EINVAL);
	CHECK_STR(err, "\"fd00::4\" is not a host's IPv6 address with prefix length; write it "
	               "like fd00::2/64");
	CHECK_EQ(conf_add_port(&conf, "p2", "net_null2", "fd00::4/64", 1000, err, sizeof(err)),
	         -EINVAL);
	CHECK_STR(err, "port p2: IPv6 wants an mtu of 1280 or more");
	CHECK_EQ(conf.nports, 2);
}

/* Several networks and VLANs on a port. PORT has 10.0.0.1/24. */
static void
test_networks(void)
{
	static const struct bad t[] = {
	        {PORT "[network a]\nvlan = 7\n",
	         "t.ini:4: [network a] address: missing; give address, address6 or both"},
	        {PORT "[network a]\nport = p1\naddress = 10.7.0.1/24\n",
	         "t.ini:5: [network a] port: no [port p1]; name a port of this file"},
	        {PORT "[port p1]\ndev = y\naddress = 10.1.0.1/24\n[network a]\naddress = "
	              "10.7.0.1/24\n",
	         "t.ini:7: [network a] port: missing; say which port has these addresses"},
	        {PORT "[network a]\naddress = 10.7.0.1/24\ngateway = 10.8.0.1\n",
	         "t.ini:6: [network a] gateway: not in the network of address; give a neighbour's "
	         "address"},
	        {PORT "[network a]\naddress = 10.7.0.1/24\ngateway = 10.7.0.1\n",
	         "t.ini:6: [network a] gateway: is our own address; give a neighbour's address"},
	        {PORT "[network a]\naddress = 10.0.0.9/16\ngateway = 10.0.0.1\n",
	         "t.ini:6: [network a] gateway: is our own address, of [port p0]; give a "
	         "neighbour's address"},
	        {PORT "[network a]\naddress6 = fd00::1/64\ngateway6 = fd01::1\n",
	         "t.ini:6: [network a] gateway6: not in the network of address6; give a "
	         "neighbour's address"},
	        {PORT "[network a]\naddress = 10.7.0.1/24\ngateway6 = fe80::1\n",
	         "t.ini:6: [network a] gateway6: there is no address6; give one"},
	        {PORT "[network a]\naddress = 10.0.0.1/24\n",
	         "t.ini:5: [network a] address: the same as that of [port p0]; give each network "
	         "its own"},
	        {PORT "[network a]\nvlan = 7\naddress = 10.0.0.2/24\n",
	         "t.ini:6: [network a] address: its network overlaps with that of [port p0] on "
	         "another VLAN; give each VLAN networks of its own"},
	        {PORT "[network a]\nvlan = 7\naddress = 10.7.0.1/24\n[network b]\nvlan = 8\n"
	              "address = 10.7.9.1/16\n",
	         "t.ini:9: [network b] address: its network overlaps with that of [network a] on "
	         "another VLAN; give each VLAN networks of its own"},
	        {PORT "[network a]\nvlan = 7\naddress6 = fd00::1/64\n[network b]\nvlan = 7\n"
	              "address6 = fd00::2/64\n",
	         "t.ini:9: [network b] address6: its network and VLAN are those of [network a]; "
	         "give a further address in a network the prefix length 128"},
	        {PORT "[network a]\naddress = 10.0.0.2/24\n",
	         "t.ini:5: [network a] address: its network and VLAN are those of [port p0]; give "
	         "a further address in a network the prefix length 32"},
	        {PORT "mtu = 1279\n[network a]\naddress6 = fd00::1/64\n",
	         "t.ini:6: [network a] address6: IPv6 wants an mtu of 1280 or more of [port p0]"},
	        {PORT "[network a]\nvlan = 4095\n",
	         "t.ini:5: [network a] vlan: 4095 is out of range; give 0 to 4094"},
	        {PORT "[target]\nlisten_on = 10.0.0.1, 10.9.0.0/16\n",
	         "t.ini: [target] listen_on: no port has an address in 10.9.0.0/16; name "
	         "addresses or networks of this file"},
	        {PORT "[target]\nlisten_on = 10.0.0.2\n",
	         "t.ini: [target] listen_on: no port has the address 10.0.0.2; name addresses or "
	         "networks of this file"},
	        {PORT "[target]\nlisten_on = 10.0.0.1/24\n",
	         "t.ini:5: [target] listen_on: \"10.0.0.1/24\" has bits set behind its prefix; "
	         "write the network's address, or the address alone"},
	        {PORT "[target]\nlisten_on = 10.0.0.1, 10.0.0.0/8\n",
	         "t.ini:5: [target] listen_on: 10.0.0.1 and 10.0.0.0/8 overlap; leave one out"},
	        {PORT "[target]\nlisten_on = fred\n",
	         "t.ini:5: [target] listen_on: \"fred\" is neither an address nor a network; "
	         "write 10.0.0.1 or 10.7.0.0/24"},
	        {PORT "[target]\nlisten_on = 10.0.0.1,\n",
	         "t.ini:5: [target] listen_on: empty word in the list; write addresses with commas "
	         "between"},
	};
	char many[4096] = PORT;
	struct sockaddr_storage to;
	struct conf one;

	CHECK_BAD(t);
	for (int i = 0; i < 8; i++)
		snprintf(many + strlen(many), sizeof(many) - strlen(many),
		         "[network n%d]\nport = p0\naddress = 10.1.%d.1/24\naddress6 = "
		         "fd00:%d::1/64\n",
		         i, i, i + 1);
	CHECK_EQ(load(many), -EINVAL);
	CHECK_STR(err, "t.ini:33: [network n7] port: too many; [port p0] has 16 addresses at most");

	CHECK_MSG(load("[port p0]\ndev = net_null0\n[network a]\nvlan = 7\naddress = "
	               "10.7.0.1/24\ngateway = 10.7.0.254\naddress6 = fd00:7::1/64\n"
	               "[network b]\nvlan = 7\naddress = 10.7.0.5/32\n"
	               "[network c]\naddress = 10.8.0.1/24\n"
	               "[target]\nlisten_on = 10.7.0.5, 10.8.0.0/16, fd00:7::/64, fe80::1%7\n") ==
	                  0,
	          "%s", err);
	CHECK_EQ(conf.ports[0].nnets, 4);
	CHECK_STR(conf.networks[0].port, "p0");
	CHECK_EQ(conf.ports[0].nets[0].vlan_id, 7);
	CHECK_EQ(conf.ports[0].nets[1].prefix_len, 64);
	CHECK_EQ(conf.ports[0].nets[2].prefix_len, 32);
	CHECK_EQ(conf.ports[0].nets[3].vlan_id, 0);
	CHECK_EQ(conf.target.nlisten_on, 4);
	CHECK_EQ(conf.target.listen_on[1].prefix_len, 16);
	CHECK_EQ(conf_finish(&conf, err, sizeof(err)), 0); /* once more changes nothing */
	CHECK_EQ(conf.ports[0].nnets, 4);
	/* The port of a host: by any of its networks, or a gateway of one. */
	CHECK_EQ(addr_parse("10.8.0.9", 1, &to), 0);
	CHECK_EQ(conf_one_port(&conf, &to, NULL, &one, err, sizeof(err)), 0);
	CHECK_EQ(addr_parse("192.0.2.9", 1, &to), 0);
	CHECK_EQ(conf_one_port(&conf, &to, NULL, &one, err, sizeof(err)), 0);
	CHECK_EQ(addr_parse("fd01::1", 1, &to), 0);
	CHECK_EQ(conf_one_port(&conf, &to, NULL, &one, err, sizeof(err)), -ENETUNREACH);
	CHECK_STR(err, "no port reaches fd01::1 (port p0 has fd00:7::1/64 and no gateway)");
	CHECK_EQ(addr_parse("10.7.0.5", 1, &to), 0);
	CHECK_EQ(conf_one_port(&conf, &to, NULL, &one, err, sizeof(err)), -EINVAL);
}

static void
test_sizes(void)
{
	uint64_t v;

	CHECK_EQ(conf_parse_size("0", &v), 0);
	CHECK_EQ(v, 0);
	CHECK_EQ(conf_parse_size("4096", &v), 0);
	CHECK_EQ(v, 4096);
	CHECK_EQ(conf_parse_size("3k", &v), 0);
	CHECK_EQ(v, 3072);
	CHECK_EQ(conf_parse_size("2MiB", &v), 0);
	CHECK_EQ(v, 2 << 20);
	CHECK_EQ(conf_parse_size("5T", &v), 0);
	CHECK_EQ(v, 5LL << 40);
	CHECK_EQ(conf_parse_size("8388607T", &v), 0);
	CHECK_EQ(conf_parse_size("8388608T", &v), -ERANGE);
	CHECK_EQ(conf_parse_size("18446744073709551616", &v), -ERANGE);
	CHECK_EQ(conf_parse_size("", &v), -EINVAL);
	CHECK_EQ(conf_parse_size("K", &v), -EINVAL);
	CHECK_EQ(conf_parse_size("4iB", &v), -EINVAL);
	CHECK_EQ(conf_parse_size("4KK", &v), -EINVAL);
	CHECK_EQ(conf_parse_size(" 4", &v), -EINVAL);
	CHECK_EQ(conf_parse_size("0x10", &v), -EINVAL);
}

/* The reference states for each key what applies without it. */
static void
test_defaults_are_stated(void)
{
	for (unsigned int i = 0; i < conf_nsections; i++)
		for (unsigned int j = 0; j < conf_sections[i].nkeys; j++) {
			const struct conf_key *k = &conf_sections[i].keys[j];

			CHECK_MSG(k->required + (k->dflt != NULL) + (k->unset != NULL) == 1,
			          "[%s] %s", conf_sections[i].name, k->name);
			CHECK_MSG(k->help != NULL && strchr(k->help, '|') == NULL, "[%s] %s",
			          conf_sections[i].name, k->name);
		}
}

/* The table of keys and the document are compared: they must be equal. */
static void
test_document(void)
{
	char *want = NULL, *have;
	size_t want_len = 0, n;
	FILE *out = open_memstream(&want, &want_len),
	     *doc = fopen(DOCS_DIR "/configuration.md", "r");

	CHECK(out != NULL && doc != NULL);
	conf_print_reference(out);
	fclose(out);
	have = calloc(1, 1 << 16);
	n = fread(have, 1, (1 << 16) - 1, doc);
	fclose(doc);
	CHECK(n > want_len);
	CHECK_MSG(
	        strcmp(have + n - want_len, want) == 0,
	        "docs/configuration.md does not end with the output of weft-target --help-config");
	free(have);
	free(want);
}

/** A file of n exports, the last one of this name and path. The caller frees it. */
static char *
many_exports(unsigned int n, const char *name, const char *file)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	CHECK(f != NULL);
	fputs(PORT, f);
	for (unsigned int i = 0; i + 1 < n; i++)
		fprintf(f, "[export e%u]\npath = /d/%u\n", i, i);
	fprintf(f, "[export %s]\npath = %s\n", name, file);
	CHECK_EQ(fclose(f), 0);
	return text;
}

/* As many exports as there may be, and one more; a name and a file that there are among them. */
static void
test_many(void)
{
	static const struct {
		unsigned int n;
		const char *name, *file, *message;
	} t[] = {
	        {CONF_EXPORTS_MAX, "last", "/d/last", NULL},
	        {CONF_EXPORTS_MAX + 1, "last", "/d/last",
	         "t.ini:8196: [export last]: too many; 4096 sections [export NAME] at most"},
	        {3000, "e7", "/d/last",
	         "t.ini:6002: [export e7]: second section of this name, the first is on line 18; "
	         "rename or join them"},
	        {3000, "last", "/d/2001",
	         "t.ini:6002: [export last] path: the same as that of [export e2001]; give each "
	         "export its own file"},
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		char *text = many_exports(t[i].n, t[i].name, t[i].file);

		if (t[i].message == NULL) {
			CHECK_MSG(load(text) == 0, "%s", err);
			CHECK_EQ(conf.nexports, t[i].n);
			CHECK_STR(conf.exports[2345].name, "e2345");
			CHECK_STR(conf.exports[t[i].n - 1].path, "/d/last");
		} else {
			CHECK_EQ(load(text), -EINVAL);
			CHECK_STR(err, t[i].message);
			CHECK_EQ(conf.nexports, 0);
		}
		free(text);
	}
}

/* The shipped example must load. */
static void
test_example(void)
{
	conf_free(&conf);
	CHECK_MSG(conf_load(DOCS_DIR "/../apps/target/weft-target.ini.example", &conf, err,
	                    sizeof(err)) == 0,
	          "%s", err);
	CHECK_EQ(conf.nexports, 1);
	CHECK_STR(conf.exports[0].name, "demo");
	CHECK_EQ(conf.ports[0].mtu_bytes, 9000);
}

/* What the example shows as a comment loads, too, without its mark. */
static void
test_example_metrics(void)
{
	FILE *f = fopen(DOCS_DIR "/../apps/target/weft-target.ini.example", "r");
	char *text = calloc(1, 1 << 16), *at;
	size_t n;

	CHECK(f != NULL && text != NULL);
	n = fread(text, 1, (1 << 16) - 1, f);
	fclose(f);
	at = strstr(text, "\n# metrics = 9471\n");
	CHECK_MSG(at != NULL, "weft-target.ini.example does not show `metrics`");
	memmove(at + 1, at + 3, n - (size_t)(at + 3 - text) + 1);
	conf_free(&conf);
	CHECK_MSG(conf_load_string("e.ini", text, n - 2, &conf, err, sizeof(err)) == 0, "%s", err);
	CHECK_STR(conf.target.metrics, "9471");
	free(text);
}

/* Limits that depend on the computer. The messages name its values. */
static void
test_machine(void)
{
	static const struct {
		const char *text, *begin;
	} t[] = {
	        {"[weft]\nlcores = 1023\n" PORT, "t.ini:2: [weft] lcores: cpu 1023 is none that "},
	        {"[weft]\nlcores = 99999\n" PORT, "t.ini:2: [weft] lcores: there is no cpu 99999"},
	        {"[weft]\nlcores = 0-\n" PORT, "t.ini:2: [weft] lcores: \"0-\" is not a list of "},
	        {"[weft]\nlcores = a\n" PORT, "t.ini:2: [weft] lcores: \"a\" is not a list of "},
	        {"[weft]\nlog_level = bogus\n" PORT,
	         "t.ini:2: [weft] log_level: \"bogus\" is no log level; "},
	        {"[weft]\nlog_level = weft.*:9\n" PORT,
	         "t.ini:2: [weft] log_level: \"9\" is no log level; "},
	        {"[weft]\nlog_level = :debug\n" PORT,
	         "t.ini:2: [weft] log_level: no log type before the :"},
	        {"[weft]\nmemory_mb = 1048576\n" PORT,
	         "t.ini:2: [weft] memory_mb: 1048576 MiB are more than is available now ("},
	        {PORT "[worker w]\nlcore = 1023\n",
	         "t.ini:5: [worker w] lcore: cpu 1023 is none that the process may use; "},
	        {"[port p]\ndev = net_memif0,role=nonsense\naddress = 10.0.0.1/24\n",
	         "t.ini:2: [port p] dev: role=nonsense: a net_memif is role=server or "},
	        {"[port p]\ndev = net_memif0,role\naddress = 10.0.0.1/24\n",
	         "t.ini:2: [port p] dev: role has no value; write role=..."},
	        {"[port p]\ndev = net_null0,size\naddress = 10.0.0.1/24\n",
	         "t.ini:2: [port p] dev: size has no value; write size=..."},
	        {"[port p]\ndev = nothing0,k\naddress = 10.0.0.1/24\n",
	         "t.ini:2: [port p] dev: k has no value; write k=..."},
	        {"[port p]\ndev = net_memif0,rsize=15\naddress = 10.0.0.1/24\n",
	         "t.ini:2: [port p] dev: rsize=15: 1 to 14 are possible"},
	        {"[port p]\ndev = eth_null0,nosuch=1\naddress = 10.0.0.1/24\n",
	         "t.ini:2: [port p] dev: nosuch: a net_null has no such argument; there are size, "
	         "copy, no-rx"},
	        {"[port p]\ndev = net_bonding0,slave=a\naddress = 10.0.0.1/24\n",
	         "t.ini:2: [port p] dev: mode is missing; mode=1 is active-backup, mode=4 is LACP"},
	        {"[port p]\ndev = net_bonding0,mode=1\naddress = 10.0.0.1/24\n",
	         "t.ini:2: [port p] dev: slave is missing; write slave=DEVICE, or "},
	        {"[port p]\ndev = net_bonding0,mode=1,slave=a,slave=a\naddress = 10.0.0.1/24\n",
	         "t.ini:2: [port p] dev: slave a is named twice"},
	        {"[port p]\ndev = net_bonding0,mode=1,slave=a,primary=b\naddress = 10.0.0.1/24\n",
	         "t.ini:2: [port p] dev: primary=b: is none of the slaves"},
	        {"[port p]\ndev = net_bonding0,mode=1,slave=[net_af_packet0]\naddress = "
	         "10.0.0.1/24\n",
	         "t.ini:2: [port p] dev: slave=[net_af_packet0]: iface is missing"},
	        {"[port p]\ndev = net_bonding0,mode=1,slave=net_bonding1\naddress = 10.0.0.1/24\n",
	         "t.ini:2: [port p] dev: slave=net_bonding1: is a bonded port itself"},
	        {"[port p]\ndev = net_bonding0,mode=1,slave=[a\naddress = 10.0.0.1/24\n",
	         "t.ini:2: [port p] dev: slave=[a: a slave with arguments is "},
	        {"[port p]\ndev = net_bonding0,mode=1,slave=a,xmit_policy=l4\naddress = "
	         "10.0.0.1/24\n",
	         "t.ini:2: [port p] dev: xmit_policy=l4: is none of l2|l23|l34"},
	        {"[port p]\ndev = net_bonding0,mode=1,slave=a,up_delay=1\naddress = 10.0.0.1/24\n",
	         "t.ini:2: [port p] dev: up_delay: a net_bonding has no such argument"},
	        {"[port p]\ndev = net_bonding0,mode=1,slave=3B:00.0\naddress = 10.0.0.1/24\n"
	         "[port q]\naddress = 10.1.0.1/24\ndev = 0000:3b:00.0\n",
	         "t.ini:6: [port q] dev: device 0000:3b:00.0 belongs to [port p]; "},
	        {"[port p]\ndev = net_memif0,socket=/no-such/x,socket-abstract=no\n"
	         "address = 10.0.0.1/24\n",
	         "t.ini:2: [port p] dev: socket=/no-such/x: /no-such: No such file"},
	        {"[port p]\ndev = net_memif0,socket=/dev/null,socket-abstract=no\n"
	         "address = 10.0.0.1/24\n",
	         "t.ini:2: [port p] dev: socket=/dev/null: exists and is not a socket"},
	        {PORT "[port q]\naddress = 10.1.0.1/24\ndev = net_null0,copy=1\n",
	         "t.ini:6: [port q] dev: device net_null0 belongs to [port p0]; "},
	        {"[port a]\ndev = net_memif0,role=server,socket=s\naddress = 10.0.0.1/24\n"
	         "[port b]\ndev = net_memif1,id=1,socket=s,role=server\naddress = 10.1.0.1/24\n",
	         "t.ini:5: [port b] dev: socket s belongs to [port a]; "},
	};

	for (unsigned int i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		int rc = load(t[i].text);

		if (rc != -EINVAL || strncmp(err, t[i].begin, strlen(t[i].begin)) != 0)
			test_fail(__FILE__, __LINE__, "case %u: %d\n  got  %s\n  want %s...", i, rc,
			          err, t[i].begin);
	}
	CHECK_MSG(load("[port p]\ndev = net_bonding0,mode=4,slave=[net_af_packet0,iface=lo,"
	               "qdisc_bypass=0],slave=3b:00.0,xmit_policy=l34,primary=net_af_packet0\n"
	               "address = 10.0.0.1/24\n") == 0,
	          "%s", err);
	/* A comma in brackets does not separate DPDK's device arguments. */
	CHECK_MSG(load("[port p]\ndev = nothing0,k=x[1,2],l=[3]\naddress = 10.0.0.1/24\n") == 0,
	          "%s", err);
	CHECK(!conf_dev_known("nothing0,k=v") && conf_dev_unseen("nothing0,k=v"));
	CHECK(!conf_dev_unseen("0000:01:00.0") && !conf_dev_unseen("net_memif0,role"));
	CHECK_MSG(load("[weft]\nlog_level = info\n" PORT) == 0, "%s", err);
	CHECK_MSG(load("[weft]\nlog_level = pmd.net.memif,7\n" PORT) == 0, "%s", err);
	/* the advice of stack.c where no driver takes a device */
	CHECK_MSG(load("[weft]\nlog_level = *:debug\n" PORT) == 0, "%s", err);
	CHECK_MSG(
	        load("[port a]\ndev = net_memif0,role=server,socket=s\naddress = 10.0.0.1/24\n"
	             "[port b]\ndev = net_memif1,role=server,socket=t\naddress = 10.1.0.1/24\n") ==
	                0,
	        "%s", err);
}

WEFT_TEST_MAIN({"machine", test_machine}, {"defaults", test_defaults},
               {"everything", test_everything}, {"lines", test_lines}, {"sections", test_sections},
               {"nvmf", test_nvmf}, {"values", test_values}, {"whole", test_whole},
               {"long_lines", test_long_lines}, {"file", test_file},
               {"command_line", test_command_line}, {"sizes", test_sizes},
               {"ipv6_only", test_ipv6_only}, {"several networks of a port", test_networks},
               {"dscp", test_dscp},
               {"each key states what applies without it", test_defaults_are_stated},
               {"thousands of exports", test_many}, {"document", test_document},
               {"example", test_example}, {"the metrics of the example", test_example_metrics})
