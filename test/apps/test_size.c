/* SPDX-License-Identifier: BSD-3-Clause */
/** @file What memory a configuration needs, and what a machine of planted files has. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target_size.h"
#include "weft_test.h"

#define MIB ((uint64_t)1 << 20)

static char root[64];
static struct conf c;
static struct conf_export exports[3];

static void
plant(const char *path, const char *text)
{
	char name[256];
	FILE *f;

	snprintf(name, sizeof(name), "%s%s", root, path);
	for (char *p = name + strlen(root) + 1; (p = strchr(p, '/')) != NULL; p++) {
		*p = '\0';
		CHECK(mkdir(name, 0700) == 0 || errno == EEXIST);
		*p = '/';
	}
	f = fopen(name, "w");
	CHECK(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void
begin(void)
{
	strcpy(root, "/tmp/weft-size.XXXXXX");
	CHECK(mkdtemp(root) != NULL);
	memset(&c, 0, sizeof(c));
	c.weft.memory_mb = 256;
	c.target.staging_bytes = 256 * MIB;
	c.nports = c.nworkers = 1;
	strcpy(c.ports[0].name, "p0");
	strcpy(c.ports[0].dev, "net_ring0");
	c.ports[0].mtu_bytes = 1500;
	c.workers[0].nports = 1;
	strcpy(c.workers[0].ports[0], "p0");
}

static void
end(void)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -r '%s'", root);
	CHECK(system(cmd) == 0);
}

static void
test_meminfo(void)
{
	struct size_room r;

	begin();
	size_room(root, 0, &r);
	CHECK_EQ(r.bytes, UINT64_MAX);
	plant("/proc/meminfo", "MemTotal: 9 kB\nMemAvailable:  1048576 kB\nSwapFree: 1024 kB\n"
	                       "HugePages_Free:  7\nHugepagesize:  2048 kB\n");
	size_room(root, 0, &r);
	CHECK_EQ(r.bytes, 1025 * MIB);
	CHECK_EQ(r.huge_bytes, 14 * MIB);
	CHECK(!r.cgroup);
	end();
}

static void
test_cgroup(void)
{
	struct size_room r;

	begin();
	plant("/proc/meminfo", "MemAvailable: 1048576 kB\n");
	plant("/proc/self/cgroup", "3:cpu:/x\n0::/a/b\n");
	plant("/sys/fs/cgroup/a/b/memory.max", "max\n");
	plant("/sys/fs/cgroup/a/b/memory.current", "0\n");
	size_room(root, 0, &r);
	CHECK_EQ(r.bytes, 1024 * MIB);
	CHECK(!r.cgroup);
	/* The limit of a group above counts for those below. */
	plant("/sys/fs/cgroup/a/memory.max", "104857600\n");
	plant("/sys/fs/cgroup/a/memory.current", "4194304\n");
	size_room(root, 0, &r);
	CHECK_EQ(r.bytes, 96 * MIB);
	CHECK(r.cgroup);
	/* What the kernel takes back when it is asked for more is no use of memory. */
	plant("/sys/fs/cgroup/a/memory.current", "104857600\n");
	plant("/sys/fs/cgroup/a/memory.stat",
	      "anon 4194304\ninactive_file 50331648\nactive_file 41943040\n"
	      "slab_reclaimable 8388608\nslab_unreclaimable 9\n");
	size_room(root, 0, &r);
	CHECK_EQ(r.bytes, 96 * MIB);
	/* More is in use than is allowed since: nothing is left. */
	plant("/sys/fs/cgroup/a/memory.max", "4096\n");
	size_room(root, 0, &r);
	CHECK_EQ(r.bytes, 0);
	/* In a container of its own the group is the topmost one. */
	plant("/proc/self/cgroup", "0::/\n");
	plant("/sys/fs/cgroup/memory.max", "8388608\n");
	plant("/sys/fs/cgroup/memory.current", "0\n");
	size_room(root, 0, &r);
	CHECK_EQ(r.bytes, 8 * MIB);
	end();
}

/* Version 1: the controller has a hierarchy of its own, beside the one of version 2 that limits
 * nothing. A container without a namespace of groups finds its own group at the top. */
static void
test_cgroup_v1(void)
{
	struct size_room r;

	begin();
	plant("/proc/meminfo", "MemAvailable: 1048576 kB\n");
	plant("/proc/self/cgroup",
	      "9:name=systemd:/x\n5:hugetlb,memory:/pod/one\n3:cpuset:/y\n0::/pod/one\n");
	plant("/sys/fs/cgroup/memory/pod/one/memory.limit_in_bytes", "9223372036854771712\n");
	plant("/sys/fs/cgroup/memory/pod/one/memory.usage_in_bytes", "4096\n");
	size_room(root, 0, &r);
	CHECK_EQ(r.bytes, 1024 * MIB);
	CHECK(!r.cgroup);
	plant("/sys/fs/cgroup/memory/pod/memory.limit_in_bytes", "104857600\n");
	plant("/sys/fs/cgroup/memory/pod/memory.usage_in_bytes", "96468992\n");
	plant("/sys/fs/cgroup/memory/pod/memory.stat",
	      "inactive_file 1\ntotal_inactive_file 50331648\ntotal_active_file 41943040\n");
	size_room(root, 0, &r);
	CHECK_EQ(r.bytes, 96 * MIB);
	CHECK(r.cgroup);
	plant("/proc/self/cgroup", "4:memory:/elsewhere/two\n0::/elsewhere/two\n");
	plant("/sys/fs/cgroup/memory/memory.limit_in_bytes", "8388608\n");
	plant("/sys/fs/cgroup/memory/memory.usage_in_bytes", "4194304\n");
	size_room(root, 0, &r);
	CHECK_EQ(r.bytes, 4 * MIB);
	/* Both versions limit: the less counts. */
	plant("/sys/fs/cgroup/elsewhere/two/memory.max", "2097152\n");
	plant("/sys/fs/cgroup/elsewhere/two/memory.current", "0\n");
	size_room(root, 0, &r);
	CHECK_EQ(r.bytes, 2 * MIB);
	end();
}

/* The target that is replaced gives back what no file has, and hugepages. Its group counts. */
static void
test_beside(void)
{
	struct size_room r;

	begin();
	plant("/proc/meminfo",
	      "MemAvailable: 1048576 kB\nHugePages_Free: 1\nHugepagesize: 2048 kB\n");
	plant("/proc/self/cgroup", "0::/mine\n");
	plant("/sys/fs/cgroup/mine/memory.max", "4194304\n");
	plant("/sys/fs/cgroup/mine/memory.current", "0\n");
	plant("/proc/42/status", "Name:\tRssAnon: 7\nRssAnon:\t  2048 kB\nRssFile:\t 9000 kB\n"
	                         "RssShmem:\t1024 kB\nVmSwap:\t 1024 kB\nHugetlbPages:\t4096 kB\n");
	plant("/proc/42/cgroup", "0::/unit\n");
	plant("/sys/fs/cgroup/unit/memory.max", "max\n");
	plant("/sys/fs/cgroup/unit/memory.current", "0\n");
	size_room(root, 42, &r);
	CHECK_EQ(r.bytes, 1028 * MIB);
	CHECK_EQ(r.beside_bytes, 4 * MIB);
	CHECK_EQ(r.huge_bytes, 6 * MIB);
	plant("/sys/fs/cgroup/unit/memory.max", "16777216\n");
	plant("/sys/fs/cgroup/unit/memory.current", "12582912\n");
	plant("/sys/fs/cgroup/unit/memory.stat", "inactive_file 1048576\n");
	size_room(root, 42, &r);
	CHECK_EQ(r.bytes, 9 * MIB);
	CHECK(r.cgroup);
	/* Never more than the limit. */
	plant("/sys/fs/cgroup/unit/memory.current", "4096\n");
	size_room(root, 42, &r);
	CHECK_EQ(r.bytes, 16 * MIB);
	size_room(root, 43, &r);
	CHECK_EQ(r.bytes, 1024 * MIB);
	CHECK_EQ(r.beside_bytes, 0);
	size_room(root, 0, &r);
	CHECK_EQ(r.bytes, 4 * MIB);
	end();
}

static void
test_need(void)
{
	struct size_ask ask = {.volumes = UINT32_MAX, .clients = 0};
	/* Four maps of 64 KiB for each 2 TiB, and 64 KiB. */
	static const struct {
		uint64_t bytes, kib;
	} sums[] = {{0, 320},
	            {1 << 30, 320},
	            {2ull << 40, 320},
	            {(2ull << 40) + 1, 64 + 512},
	            {64ull << 40, 64 + 256 * 32}};
	struct size_need n, more;

	begin();
	size_of(&c, &ask, &n);
	CHECK_EQ(n.volumes, 0);
	CHECK_EQ(n.staging, 0);
	CHECK_EQ(n.buffers, 256 * MIB);
	CHECK_EQ(size_at_start(&n, true), n.program);
	c.exports = exports;
	c.exports[0] = (struct conf_export){.format = CONF_FORMAT_VOLUME, .size_bytes = 1ull << 40};
	c.exports[1] = (struct conf_export){.size_bytes = 64 * MIB};
	c.exports[2] = (struct conf_export){.size_bytes = 64 * MIB, .persist = CONF_PERSIST_PMEM};
	c.nexports = 3;
	size_of(&c, &ask, &n);
	CHECK_EQ(n.volumes, 1);
	CHECK(n.staging > 256 * MIB && n.staging < 260 * MIB);
	CHECK_EQ(n.exports, 64 * MIB);
	CHECK_EQ(n.conns + n.calls, 0);
	for (unsigned int i = 0; i < sizeof(sums) / sizeof(sums[0]); i++) {
		c.exports[0].size_bytes = sums[i].bytes;
		c.exports[0].checksums = true;
		size_of(&c, &ask, &more);
		CHECK_MSG(more.staging - n.staging == sums[i].kib << 10, "row %u: %" PRIu64, i,
		          more.staging - n.staging);
	}
	/* More of them are as the largest. */
	ask.volumes = 3;
	size_of(&c, &ask, &more);
	ask.volumes = 2;
	size_of(&c, &ask, &n);
	CHECK(more.staging - n.staging >= (64 + 256 * 32) << 10);
	c.exports[0].checksums = false;
	ask.volumes = UINT32_MAX;
	size_of(&c, &ask, &n);
	ask = (struct size_ask){.volumes = 101, .clients = 1000};
	size_of(&c, &ask, &more);
	CHECK(more.staging - n.staging >= 10 * MIB && more.staging - n.staging < 20 * MIB);
	CHECK(more.volume_ops >= 101 * MIB && more.volume_ops < 110 * MIB);
	CHECK_EQ(more.conns, 1000 * 72 * 1024);
	ask.clients = UINT32_MAX;
	size_of(&c, &ask, &more);
	CHECK_EQ(more.clients, 1024);
	end();
}

static void
test_check(void)
{
	struct size_room r = {.bytes = 290 * MIB};
	char err[256];

	begin();
	CHECK_EQ(size_check(&c, &r, err, sizeof(err)), -ENOMEM);
	CHECK_MSG(strstr(err, "302.00 MiB") != NULL && strstr(err, "290.00 MiB") != NULL, "%s",
	          err);
	CHECK(strstr(err, "available") != NULL);
	r.cgroup = true;
	CHECK_EQ(size_check(&c, &r, err, sizeof(err)), -ENOMEM);
	CHECK(strstr(err, "control group") != NULL);
	r.bytes = 302 * MIB;
	CHECK_EQ(size_check(&c, &r, err, sizeof(err)), 0);
	/* With hugepages for the buffers less of the rest suffices, unless none are to be used. */
	r = (struct size_room){.bytes = 50 * MIB, .huge_bytes = 256 * MIB, .huge_page = 2 * MIB};
	CHECK_EQ(size_check(&c, &r, err, sizeof(err)), 0);
	c.weft.hugepages = CONF_HUGE_NEVER;
	CHECK_EQ(size_check(&c, &r, err, sizeof(err)), -ENOMEM);
	r = (struct size_room){.bytes = UINT64_MAX};
	CHECK_EQ(size_check(&c, &r, err, sizeof(err)), 0);
	end();
}

WEFT_TEST_MAIN({"memory of the machine", test_meminfo},
               {"control groups, those above too", test_cgroup},
               {"control groups of version 1", test_cgroup_v1},
               {"a target that is replaced", test_beside}, {"what is needed", test_need},
               {"a start with too little is refused", test_check})
