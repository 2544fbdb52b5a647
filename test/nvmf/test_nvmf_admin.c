/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Controllers as hosts see them: discovery, Connect and its refusals, properties, Identify,
 * features, log pages, events, Abort, Keep Alive, reset and shutdown.
 */

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "nvmf_rig.h"

#define NEVER(status) ((status) | WEFT_NVMF_DNR)

static struct nv n;
static uint8_t page[65536];

static void
start(void)
{
	memset(&n, 0, sizeof(n));
	nv_start(&n);
}

/** As Linux 6.1 does it, against the capture's order. */
static void
test_first_commands(void)
{
	static const uint8_t uuid[16] = {1, 2, 3};
	struct nv_queue a, io;
	uint64_t v;

	start();
	nv_open(&n, 0, &a);
	CHECK_EQ(nv_connect(&a, NV_SUBSYS, NV_HOST, 0xffff, 0, 31, 5000), 0);
	CHECK_EQ(a.cntlid, 1);
	CHECK_EQ(a.sqhd, 1);
	CHECK_EQ(a.invalidated, NV_KEY);
	CHECK_EQ(nv_property_get(&a, WEFT_NVMF_PROP_CAP, true, &v), 0);
	CHECK_EQ(v, 0x000000201e01007fULL);
	CHECK_EQ(a.sqhd, 2);
	/* not before CC.EN */
	CHECK_EQ(nv_identify(&a, 1, 0, page), WEFT_NVMF_SEQUENCE);
	CHECK_EQ(nv_property_set(&a, WEFT_NVMF_PROP_CC, 0x460000), 0);
	CHECK_EQ(nv_property_set(&a, WEFT_NVMF_PROP_CC, 0x460001), 0);
	CHECK_EQ(nv_property_get(&a, WEFT_NVMF_PROP_CSTS, false, &v), 0);
	CHECK_EQ(v, 1);
	CHECK_EQ(nv_property_get(&a, WEFT_NVMF_PROP_VS, false, &v), 0);
	CHECK_EQ(v, 0x10400);
	CHECK_EQ(nv_identify(&a, 1, 0, page), 0);
	CHECK_MEM(page + 4, "WEFT-1234           weft  ", 26);
	CHECK_MEM(page + 64, "1.0     ", 8);
	CHECK_EQ(page[77], 8);
	CHECK_EQ(weft_nvmf_get16(page + 78), a.cntlid);
	CHECK_EQ(weft_nvmf_get32(page + 80), 0x10400);
	CHECK_EQ(page[111], 1);
	CHECK_EQ(weft_nvmf_get16(page + 320), 10);
	CHECK_EQ(weft_nvmf_get32(page + 516), 8);
	CHECK_EQ(weft_nvmf_get16(page + 520), 0xad);
	/* a namespace with a volatile cache may come when the host has asked already */
	CHECK_EQ(page[525], 5);
	CHECK_EQ(weft_nvmf_get32(page + 536), 0x100005);
	CHECK_STR((char *)page + 768, NV_SUBSYS);
	CHECK_EQ(weft_nvmf_get32(page + 1792), 260);
	/* one queue pair */
	struct weft_nvmf_sqe sqe = nv_sqe(WEFT_NVMF_ADMIN_SET_FEATURES, 0, 7, 0, 0);
	CHECK_EQ(nv_do(&a, &sqe, NULL, 0), 0);
	CHECK_EQ(a.result, 0);
	nv_io(&n, 1, &io, &a, 1);
	CHECK_EQ(nv_identify(&a, 2, 0, page), 0);
	CHECK_EQ(weft_nvmf_get32(page), 1);
	CHECK_EQ(weft_nvmf_get32(page + 4), 0);
	CHECK_EQ(nv_identify(&a, 3, 1, page), 0);
	CHECK_EQ(page[0], 3);
	CHECK_EQ(page[1], 16);
	CHECK_MEM(page + 4, uuid, 16);
	CHECK_EQ(page[20], 4);
	CHECK_EQ(nv_identify(&a, 0, 1, page), 0);
	CHECK_EQ(weft_nvmf_get64(page),
	         n.ns.vol == NULL ? 0 : weft_vol_info(n.ns.vol)->bytes / 512);
	CHECK_EQ(weft_nvmf_get32(page + 128), 9 << 16);
	CHECK_EQ(page[25], 0);
	CHECK_EQ(nv_rw(&io, WEFT_NVMF_IO_READ, 0, 8, page, 4096, 0), 0);
	nv_close(&io);
	nv_close(&a);
	nv_end(&n);
}

static void
test_connect_refusals(void)
{
	struct nv_queue a, b, io;
	struct weft_nvmf_sqe sqe;
	struct weft_nvmf_stats stats;

	start();
	nv_open(&n, 0, &b);
	/* nothing but Connect */
	sqe = nv_sqe(WEFT_NVMF_ADMIN_IDENTIFY, 0, 1, 0, 0);
	CHECK_EQ(nv_do(&b, &sqe, page, 4096), WEFT_NVMF_SEQUENCE);
#define REFUSED(expect_status, expect_result, ...)                                                 \
	do {                                                                                       \
		CHECK_EQ(nv_connect(&b, __VA_ARGS__), (expect_status));                            \
		CHECK_EQ(b.result, (expect_result));                                               \
	} while (0)
	REFUSED(NEVER(WEFT_NVMF_CONNECT_PARAM), 0x10100, "nqn.2026-01.org.example:none", NV_HOST,
	        0xffff, 0, 31, 0);
	REFUSED(NEVER(WEFT_NVMF_CONNECT_PARAM), 0x10010, NV_SUBSYS, NV_HOST, 1, 0, 31, 0);
	REFUSED(NEVER(WEFT_NVMF_CONNECT_PARAM), 0x10100, "", NV_HOST, 0xffff, 0, 31, 0);
	REFUSED(NEVER(WEFT_NVMF_CONNECT_PARAM), 0x10200, NV_SUBSYS, "", 0xffff, 0, 31, 0);
	REFUSED(NEVER(WEFT_NVMF_CONNECT_PARAM), 0x2c, NV_SUBSYS, NV_HOST, 0xffff, 0, 0, 0);
	REFUSED(NEVER(WEFT_NVMF_CONNECT_PARAM), 0x2c, NV_SUBSYS, NV_HOST, 0xffff, 0, 32, 0);
	/* an I/O queue without a controller */
	REFUSED(NEVER(WEFT_NVMF_CONNECT_PARAM), 0x10010, NV_SUBSYS, NV_HOST, 7, 1, 31, 0);
	sqe = nv_sqe(WEFT_NVMF_OP_FABRICS, 0, 1, 31, 0);
	sqe.fctype = WEFT_NVMF_FC_CONNECT;
	CHECK_EQ(nv_do(&b, &sqe, page, 1024), NEVER(WEFT_NVMF_CONNECT_FORMAT));
	/* Connect's data has 1024 octets */
	sqe = nv_sqe(WEFT_NVMF_OP_FABRICS, 0, 0, 31, 0);
	sqe.fctype = WEFT_NVMF_FC_CONNECT;
	CHECK_EQ(nv_do(&b, &sqe, page, 1023), NEVER(WEFT_NVMF_SGL_LENGTH));
	CHECK_EQ(nv_do(&b, &sqe, NULL, 0), NEVER(WEFT_NVMF_SGL_LENGTH));

	nv_admin(&n, 0, &a, NV_SUBSYS);
	/* a second Connect on one queue */
	CHECK_EQ(nv_connect(&a, NV_SUBSYS, NV_HOST, 0xffff, 0, 31, 0), NEVER(WEFT_NVMF_SEQUENCE));
	sqe = nv_sqe(WEFT_NVMF_ADMIN_SET_FEATURES, 0, 7, 1 | 1 << 16, 0);
	CHECK_EQ(nv_do(&a, &sqe, NULL, 0), 0);
	CHECK_EQ(a.result, 0x10001);
	REFUSED(NEVER(WEFT_NVMF_CONNECT_PARAM), 0x2a, NV_SUBSYS, NV_HOST, a.cntlid, 3, 31, 0);
	REFUSED(NEVER(WEFT_NVMF_CONNECT_PARAM), 0x10200, NV_SUBSYS, NV_OTHER, a.cntlid, 1, 31, 0);
	REFUSED(NEVER(WEFT_NVMF_CONNECT_PARAM), 0x10100, WEFT_NVMF_DISCOVERY_NQN, NV_HOST, a.cntlid,
	        1, 31, 0);
	nv_io(&n, 1, &io, &a, 1);
	/* in use: the host may try again */
	REFUSED(WEFT_NVMF_SEQUENCE, 0, NV_SUBSYS, NV_HOST, a.cntlid, 1, 31, 0);
	/* the number of queues is fixed now */
	sqe = nv_sqe(WEFT_NVMF_ADMIN_SET_FEATURES, 0, 7, 0, 0);
	CHECK_EQ(nv_do(&a, &sqe, NULL, 0), NEVER(WEFT_NVMF_SEQUENCE));
#undef REFUSED
	weft_nvmf_query_stats(n.target, &stats);
	CHECK_EQ(stats.connects, 2);
	CHECK_EQ(stats.ctrls, 1);
	CHECK_EQ(stats.queues, 3);
	nv_close(&io);
	nv_close(&a);
	nv_close(&b);
	nv_end(&n);
}

static void
test_limits(void)
{
	struct nv_queue a, b, c;
	struct weft_nvmf_queue_attr qa = {.depth = 0};
	struct weft_nvmf_queue *q;
	struct weft_nvmf_stats stats;

	memset(&n, 0, sizeof(n));
	n.attr.max_ctrls = 1;
	n.attr.max_queues = 3;
	nv_start(&n);
	nv_admin(&n, 0, &a, NV_SUBSYS);
	nv_open(&n, 1, &b);
	CHECK_EQ(nv_connect(&b, NV_SUBSYS, NV_OTHER, 0xffff, 0, 31, 0), WEFT_NVMF_CONNECT_BUSY);
	nv_open(&n, 1, &c);
	CHECK_EQ(weft_nvmf_queue_open(n.group[0], &qa, &q), -EINVAL);
	weft_nvmf_query_stats(n.target, &stats);
	CHECK_EQ(stats.refused_limit, 1);
	CHECK_EQ(stats.queues, 3);
	/* the first one's end makes room */
	nv_close(&a);
	CHECK_EQ(nv_connect(&b, NV_SUBSYS, NV_OTHER, 0xffff, 0, 31, 0), 0);
	CHECK_EQ(b.cntlid, 2);
	nv_close(&b);
	nv_close(&c);
	nv_end(&n);
	/* discovery, which every host may use, leaves three quarters to others */
	memset(&n, 0, sizeof(n));
	n.attr.max_ctrls = 4;
	nv_start(&n);
	nv_admin(&n, 0, &a, WEFT_NVMF_DISCOVERY_NQN);
	nv_open(&n, 1, &b);
	CHECK_EQ(nv_connect(&b, WEFT_NVMF_DISCOVERY_NQN, NV_OTHER, 0xffff, 0, 31, 0),
	         WEFT_NVMF_CONNECT_BUSY);
	CHECK_EQ(nv_connect(&b, NV_SUBSYS, NV_OTHER, 0xffff, 0, 31, 0), 0);
	nv_close(&b);
	nv_close(&a);
	nv_end(&n);
}

static void
test_hosts(void)
{
	const struct weft_nvmf_subsys_attr sa = {.nqn = "nqn.2026-01.org.example:private",
	                                         .serial = "2"};
	struct nv_queue a, b, io;
	struct weft_nvmf_subsys *s;
	struct weft_nvmf_stats stats;

	start();
	CHECK_EQ(weft_nvmf_subsys_add(n.target, &sa, &s), 0);
	CHECK_EQ(weft_nvmf_subsys_add(n.target, &sa, &s), -EEXIST);
	CHECK_EQ(weft_nvmf_host_allow(s, NV_HOST), 0);
	CHECK_EQ(weft_nvmf_host_allow(s, NV_HOST), -EEXIST);
	CHECK_EQ(weft_nvmf_host_allow(s, "host"), -EINVAL);
	CHECK_EQ(weft_nvmf_host_deny(s, NV_OTHER), -ENOENT);
	nv_open(&n, 0, &b);
	CHECK_EQ(nv_connect(&b, sa.nqn, NV_OTHER, 0xffff, 0, 31, 0), NEVER(WEFT_NVMF_CONNECT_HOST));
	nv_admin(&n, 0, &a, sa.nqn);
	nv_open(&n, 1, &io);
	CHECK_EQ(nv_connect(&io, sa.nqn, NV_HOST, a.cntlid, 1, 31, 0), 0);
	/* denied while it is connected: its queues are closed on both threads */
	CHECK_EQ(weft_nvmf_host_deny(s, NV_HOST), 0);
	nv_poll(&n);
	CHECK(a.closed && io.closed);
	CHECK_EQ(weft_nvmf_subsys_remove(s), -EAGAIN);
	nv_close(&a);
	nv_close(&io);
	CHECK_EQ(weft_nvmf_subsys_remove(s), 0);
	weft_nvmf_query_stats(n.target, &stats);
	CHECK_EQ(stats.refused_host, 1);
	nv_close(&b);
	nv_end(&n);
}

static void
test_discovery(void)
{
	const struct weft_nvmf_listener l = {.trtype = 1,
	                                     .adrfam = 1,
	                                     .rdma_prtype = 5,
	                                     .portid = 1,
	                                     .traddr = "10.0.0.1",
	                                     .trsvcid = "4420"};
	const struct weft_nvmf_subsys_attr sa = {.nqn = "nqn.2026-01.org.example:private",
	                                         .serial = "2"};
	struct weft_nvmf_sqe sqe, aer;
	struct weft_nvmf_subsys *s;
	struct nv_queue a;
	uint64_t generation;

	start();
	CHECK_EQ(weft_nvmf_listener_add(n.target, &l), 0);
	CHECK_EQ(weft_nvmf_listener_add(n.target, &l), -EEXIST);
	nv_admin(&n, 0, &a, WEFT_NVMF_DISCOVERY_NQN);
	CHECK_EQ(nv_identify(&a, 1, 0, page), 0);
	CHECK_EQ(page[111], 2);
	CHECK_EQ(weft_nvmf_get32(page + 92), 0x80000000);
	CHECK_STR((char *)page + 768, WEFT_NVMF_DISCOVERY_NQN);
	/* it has no namespaces, and no SMART */
	CHECK_EQ(nv_identify(&a, 2, 0, page), NEVER(WEFT_NVMF_INVALID_FIELD));
	CHECK_EQ(nv_log(&a, WEFT_NVMF_LOG_SMART, false, 0, page, 512),
	         NEVER(WEFT_NVMF_INVALID_LOG));
	sqe = nv_sqe(WEFT_NVMF_ADMIN_ABORT, 0, 0, 0, 0);
	CHECK_EQ(nv_do(&a, &sqe, NULL, 0), NEVER(WEFT_NVMF_INVALID_OPCODE));
	sqe = nv_sqe(WEFT_NVMF_ADMIN_SET_FEATURES, 0, 0xb, 0x80000000, 0);
	CHECK_EQ(nv_do(&a, &sqe, NULL, 0), 0);
	CHECK_EQ(nv_log(&a, 0x70, true, 0, page, 1024), 0);
	generation = weft_nvmf_get64(page);
	CHECK_EQ(weft_nvmf_get64(page + 8), 2);
	CHECK_EQ(nv_log(&a, 0x70, false, 0, page, 3072), 0);
	CHECK_EQ(page[1024 + 2], 3);
	CHECK_EQ(page[2048], 1);
	CHECK_EQ(page[2048 + 1], 1);
	CHECK_EQ(page[2048 + 2], 2);
	CHECK_EQ(weft_nvmf_get16(page + 2048 + 6), 0xffff);
	CHECK_STR((char *)page + 2048 + 32, "4420");
	CHECK_STR((char *)page + 2048 + 256, NV_SUBSYS);
	CHECK_STR((char *)page + 2048 + 512, "10.0.0.1");
	CHECK_EQ(page[2048 + 768], 1);
	CHECK_EQ(page[2048 + 769], 5);
	/* a part; behind the end there are zeros; an offset behind the end is refused */
	CHECK_EQ(nv_log(&a, 0x70, false, 2048 + 256, page, 16), 0);
	CHECK_MEM(page, NV_SUBSYS, 16);
	CHECK_EQ(nv_log(&a, 0x70, false, 3072, page, 16), 0);
	CHECK_EQ(page[0], 0);
	CHECK_EQ(nv_log(&a, 0x70, false, 3076, page, 16), NEVER(WEFT_NVMF_INVALID_FIELD));
	CHECK_EQ(nv_log(&a, 0x70, false, 2, page, 16), NEVER(WEFT_NVMF_INVALID_FIELD));
	CHECK_EQ(nv_log(&a, 0x70, false, UINT64_MAX - 3, page, 16), NEVER(WEFT_NVMF_INVALID_FIELD));
	/* what the host may not use is not shown; when it may, it is told */
	aer = nv_sqe(WEFT_NVMF_ADMIN_AER, 0, 0, 0, 0);
	CHECK_EQ(nv_send(&a, &aer, NULL, 0), 0);
	CHECK_EQ(weft_nvmf_subsys_add(n.target, &sa, &s), 0);
	CHECK_EQ(nv_wait(&a, aer.cid), 0);
	CHECK_EQ(a.result, 0x0070f002);
	/* once, until the log is read */
	CHECK_EQ(nv_send(&a, &aer, NULL, 0), 0);
	CHECK_EQ(weft_nvmf_host_allow(s, NV_OTHER), 0);
	nv_poll(&n);
	CHECK_EQ(a.answers, 0);
	CHECK_EQ(nv_log(&a, 0x70, false, 0, page, 1024), 0);
	CHECK_EQ(nv_wait(&a, aer.cid), 0);
	CHECK_EQ(nv_log(&a, 0x70, false, 0, page, 1024), 0);
	CHECK_EQ(weft_nvmf_get64(page + 8), 2);
	CHECK(weft_nvmf_get64(page) > generation);
	CHECK_EQ(weft_nvmf_host_allow(s, NV_HOST), 0);
	CHECK_EQ(nv_send(&a, &aer, NULL, 0), 0);
	CHECK_EQ(nv_wait(&a, aer.cid), 0);
	CHECK_EQ(nv_log(&a, 0x70, false, 0, page, 4096), 0);
	CHECK_EQ(weft_nvmf_get64(page + 8), 3);
	CHECK_EQ(weft_nvmf_subsys_remove(s), 0);
	CHECK_EQ(weft_nvmf_listener_remove(n.target, &l), 0);
	CHECK_EQ(weft_nvmf_listener_remove(n.target, &l), -ENOENT);
	nv_close(&a);
	nv_end(&n);
}

static void
test_properties(void)
{
	struct nv_queue a, io;
	uint64_t v;

	start();
	nv_admin(&n, 0, &a, NV_SUBSYS);
	/* half of an 8-octet one is legal; the rest is not */
	CHECK_EQ(nv_property_get(&a, WEFT_NVMF_PROP_CAP + 4, false, &v), 0);
	CHECK_EQ(v, 0x20);
	CHECK_EQ(nv_property_get(&a, WEFT_NVMF_PROP_CAP, false, &v), 0);
	CHECK_EQ(v, 0x1e01007f);
	for (uint32_t at = 0; at < 0x80; at++)
		CHECK_EQ(nv_property_get(&a, at, at == 8, &v),
		         at == 0 || at == 4 || at == 0x14 || at == 0x1c
		                 ? 0
		                 : NEVER(WEFT_NVMF_CONNECT_PARAM));
	for (uint32_t at = 0; at < 0x80; at++)
		if (at != WEFT_NVMF_PROP_CC)
			CHECK_EQ(nv_property_set(&a, at, 0), NEVER(WEFT_NVMF_CONNECT_PARAM));
	/* what CC may not have when it enables */
	CHECK_EQ(nv_property_set(&a, WEFT_NVMF_PROP_CC, 0), 0);
	CHECK_EQ(nv_property_get(&a, WEFT_NVMF_PROP_CSTS, false, &v), 0);
	CHECK_EQ(v, 0);
	CHECK_EQ(nv_property_set(&a, WEFT_NVMF_PROP_CC, 1), NEVER(WEFT_NVMF_CONNECT_PARAM));
	CHECK_EQ(nv_property_set(&a, WEFT_NVMF_PROP_CC, 0x460061), NEVER(WEFT_NVMF_CONNECT_PARAM));
	CHECK_EQ(nv_property_set(&a, WEFT_NVMF_PROP_CC, 0x460081), NEVER(WEFT_NVMF_CONNECT_PARAM));
	/* no I/O queue while it is off */
	nv_open(&n, 1, &io);
	CHECK_EQ(nv_connect(&io, NV_SUBSYS, NV_HOST, a.cntlid, 1, 31, 0), WEFT_NVMF_SEQUENCE);
	CHECK_EQ(nv_property_set(&a, WEFT_NVMF_PROP_CC, 0x460001), 0);
	CHECK_EQ(nv_connect(&io, NV_SUBSYS, NV_HOST, a.cntlid, 1, 31, 0), 0);
	/* on the admin queue alone */
	CHECK_EQ(nv_property_get(&io, WEFT_NVMF_PROP_CAP, true, &v),
	         NEVER(WEFT_NVMF_INVALID_FIELD));
	nv_close(&io);
	nv_close(&a);
	nv_end(&n);
}

/** A reset ends the I/O queues of all threads before RDY is 0; requests for events get no answer;
 * features are forgotten. */
static void
test_reset(void)
{
	struct nv_queue a, io;
	struct weft_nvmf_sqe sqe, aer = nv_sqe(WEFT_NVMF_ADMIN_AER, 0, 0, 0, 0);
	uint64_t v;

	start();
	nv_admin(&n, 0, &a, NV_SUBSYS);
	nv_io(&n, 1, &io, &a, 1);
	sqe = nv_sqe(WEFT_NVMF_ADMIN_SET_FEATURES, 0, 6, 0, 0);
	CHECK_EQ(nv_do(&a, &sqe, NULL, 0), 0);
	CHECK_EQ(nv_send(&a, &aer, NULL, 0), 0);
	CHECK_EQ(nv_property_set(&a, WEFT_NVMF_PROP_CC, 0x460000), 0);
	nv_poll(&n);
	CHECK(io.closed && !a.closed);
	CHECK_EQ(nv_property_get(&a, WEFT_NVMF_PROP_CSTS, false, &v), 0);
	CHECK_EQ(v, 1);
	/* nothing is taken on the old queue, and it cannot be enabled again yet */
	sqe = nv_sqe(WEFT_NVMF_IO_FLUSH, 1, 0, 0, 0);
	CHECK_EQ(nv_send(&io, &sqe, NULL, 0), -ESHUTDOWN);
	CHECK_EQ(nv_property_set(&a, WEFT_NVMF_PROP_CC, 0x460001), WEFT_NVMF_SEQUENCE);
	nv_close(&io);
	CHECK_EQ(nv_property_get(&a, WEFT_NVMF_PROP_CSTS, false, &v), 0);
	CHECK_EQ(v, 0);
	CHECK_EQ(nv_property_set(&a, WEFT_NVMF_PROP_CC, 0x460001), 0);
	sqe = nv_sqe(WEFT_NVMF_ADMIN_GET_FEATURES, 0, 6, 0, 0);
	CHECK_EQ(nv_do(&a, &sqe, NULL, 0), 0);
	CHECK_EQ(a.result, 1);
	CHECK_EQ(a.answers, 0);
	nv_io(&n, 0, &io, &a, 1);
	nv_close(&io);
	nv_close(&a);
	nv_end(&n);
}

/** SHN: complete when the I/O queues are gone, and unflushed writes are durable. */
static void
test_shutdown(void)
{
	struct nv_queue a, io;
	uint64_t v, flushes;
	struct weft_vol_stats vs;

	memset(&n, 0, sizeof(n));
	n.ns.volatile_cache = true;
	nv_start(&n);
	nv_admin(&n, 0, &a, NV_SUBSYS);
	nv_io(&n, 1, &io, &a, 1);
	CHECK_EQ(nv_rw(&io, WEFT_NVMF_IO_WRITE, 0, 8, page, 4096, 0), 0);
	weft_vol_query_stats(n.vol.chan[0], &vs);
	flushes = vs.ops[WEFT_VOL_FLUSH];
	CHECK_EQ(nv_property_set(&a, WEFT_NVMF_PROP_CC, 0x464001), 0);
	nv_poll(&n);
	CHECK(io.closed);
	CHECK_EQ(nv_property_get(&a, WEFT_NVMF_PROP_CSTS, false, &v), 0);
	CHECK_EQ(v, 1 | WEFT_NVMF_CSTS_SHST_ON);
	nv_close(&io);
	nv_poll(&n);
	nv_poll(&n);
	CHECK_EQ(nv_property_get(&a, WEFT_NVMF_PROP_CSTS, false, &v), 0);
	CHECK_EQ(v, 1 | WEFT_NVMF_CSTS_SHST_END);
	weft_vol_query_stats(n.vol.chan[0], &vs);
	CHECK_EQ(vs.ops[WEFT_VOL_FLUSH], flushes + 1);
	nv_close(&a);
	nv_end(&n);
}

/** A host resets in a shutdown, and asks for the next one, before the first one's flush is done.
 */
static void
test_shutdown_again(void)
{
	struct nv_queue a, io;
	uint64_t v;

	memset(&n, 0, sizeof(n));
	n.ns.volatile_cache = true;
	nv_start(&n);
	nv_admin(&n, 0, &a, NV_SUBSYS);
	nv_io(&n, 1, &io, &a, 1);
	CHECK_EQ(nv_rw(&io, WEFT_NVMF_IO_WRITE, 0, 8, page, 4096, 0), 0);
	nv_close(&io);
	CHECK_EQ(nv_property_set(&a, WEFT_NVMF_PROP_CC, 0x464001), 0);
	CHECK_EQ(nv_property_set(&a, WEFT_NVMF_PROP_CC, 0x460000), 0);
	CHECK_EQ(nv_property_set(&a, WEFT_NVMF_PROP_CC, 0x464000), 0);
	CHECK_EQ(nv_property_get(&a, WEFT_NVMF_PROP_CSTS, false, &v), 0);
	CHECK_EQ(v, WEFT_NVMF_CSTS_SHST_ON);
	nv_poll(&n);
	nv_poll(&n);
	CHECK_EQ(nv_property_get(&a, WEFT_NVMF_PROP_CSTS, false, &v), 0);
	CHECK_EQ(v, WEFT_NVMF_CSTS_SHST_END);
	nv_close(&a);
	nv_end(&n);
}

static void
test_keep_alive(void)
{
	struct weft_nvmf_sqe sqe, ka = nv_sqe(WEFT_NVMF_ADMIN_KEEP_ALIVE, 0, 0, 0, 0);
	struct nv_queue a, io, d, silent;
	struct weft_nvmf_stats stats;

	start();
	nv_open(&n, 0, &silent);
	nv_open(&n, 0, &a);
	CHECK_EQ(nv_connect(&a, NV_SUBSYS, NV_HOST, 0xffff, 0, 31, 5000), 0);
	CHECK_EQ(nv_property_set(&a, WEFT_NVMF_PROP_CC, 0x460001), 0);
	nv_admin(&n, 1, &d, WEFT_NVMF_DISCOVERY_NQN);
	nv_io(&n, 1, &io, &a, 1);
	sqe = nv_sqe(WEFT_NVMF_ADMIN_GET_FEATURES, 0, 0xf, 0, 0);
	CHECK_EQ(nv_do(&a, &sqe, NULL, 0), 0);
	CHECK_EQ(a.result, 5000);
	for (unsigned int i = 0; i < 5; i++) {
		nv_pass(&n, 4900);
		CHECK(!a.closed);
		CHECK_EQ(nv_do(&a, &ka, NULL, 0), 0);
	}
	/* a queue that was never connected has had its 10 s */
	CHECK(silent.closed);
	nv_close(&silent);
	/* any command of any queue counts: within the time, and not beyond */
	nv_pass(&n, 100);
	CHECK_EQ(nv_rw(&io, WEFT_NVMF_IO_READ, 0, 8, page, 4096, 0), 0);
	nv_pass(&n, 5000);
	CHECK(!a.closed);
	nv_pass(&n, 4900);
	CHECK(!a.closed);
	nv_pass(&n, 200);
	CHECK(a.closed && io.closed);
	weft_nvmf_query_stats(n.target, &stats);
	CHECK_EQ(stats.kato_expired, 1);
	CHECK_EQ(stats.connect_expired, 1);
	/* a discovery controller without Keep Alive has two minutes */
	CHECK(!d.closed);
	nv_close(&a);
	nv_close(&io);
	nv_pass(&n, 121000);
	nv_pass(&n, 121000);
	CHECK(d.closed);
	nv_close(&d);
	nv_end(&n);
}

/** A shutdown ends the Keep Alive; the next enable begins it again. A host that never comes back
 * after its shutdown does not keep its controller. */
static void
test_keep_alive_shutdown(void)
{
	struct nv_queue a, b;
	uint64_t v;

	start();
	nv_open(&n, 0, &a);
	nv_open(&n, 0, &b);
	CHECK_EQ(nv_connect(&a, NV_SUBSYS, NV_HOST, 0xffff, 0, 31, 5000), 0);
	CHECK_EQ(nv_connect(&b, NV_SUBSYS, NV_HOST, 0xffff, 0, 31, 0), 0);
	CHECK_EQ(nv_property_set(&b, WEFT_NVMF_PROP_CC, 0x460001), 0);
	CHECK_EQ(nv_property_set(&b, WEFT_NVMF_PROP_CC, 0x464001), 0);
	/* a shutdown while it is off */
	CHECK_EQ(nv_property_set(&a, WEFT_NVMF_PROP_CC, 0x464000), 0);
	nv_pass(&n, 11000);
	nv_pass(&n, 11000);
	CHECK(!a.closed);
	CHECK_EQ(nv_property_get(&a, WEFT_NVMF_PROP_CSTS, false, &v), 0);
	CHECK_EQ(v, WEFT_NVMF_CSTS_SHST_END);
	CHECK_EQ(nv_property_set(&a, WEFT_NVMF_PROP_CC, 0x460001), 0);
	CHECK_EQ(nv_property_get(&a, WEFT_NVMF_PROP_CSTS, false, &v), 0);
	CHECK_EQ(v, WEFT_NVMF_CSTS_RDY);
	nv_pass(&n, 5000);
	nv_pass(&n, 5000);
	CHECK(a.closed && !b.closed);
	nv_close(&a);
	nv_pass(&n, 121000);
	nv_pass(&n, 121000);
	CHECK(b.closed);
	nv_close(&b);
	nv_end(&n);
}

static void
test_features(void)
{
	static const uint8_t known[] = {1, 2, 4, 5, 6, 7, 0xa, 0xb, 0xf};
	struct nv_queue a;
	struct weft_nvmf_sqe sqe;

	start();
	nv_admin(&n, 0, &a, NV_SUBSYS);
	for (uint32_t fid = 0; fid < 256; fid++) {
		const bool have = memchr(known, (int)fid, sizeof(known)) != NULL;

		/* it has data: test_delays(); these are of namespaces: test_nvmf_resv.c */
		if (fid == WEFT_NVMF_FEAT_HOST_BEHAVIOR || fid == WEFT_NVMF_FEAT_RESV_MASK ||
		    fid == WEFT_NVMF_FEAT_RESV_PERSIST)
			continue;
		sqe = nv_sqe(WEFT_NVMF_ADMIN_GET_FEATURES, 0, fid, 0, 0);
		CHECK_EQ(nv_do(&a, &sqe, NULL, 0), have ? 0 : NEVER(WEFT_NVMF_INVALID_FIELD));
		sqe = nv_sqe(WEFT_NVMF_ADMIN_SET_FEATURES, 0, fid | 1U << 31, 0, 0);
		CHECK_EQ(nv_do(&a, &sqe, NULL, 0), NEVER(WEFT_NVMF_NOT_SAVEABLE));
		sqe = nv_sqe(WEFT_NVMF_ADMIN_SET_FEATURES, 0, fid, 0, 0);
		CHECK_EQ(nv_do(&a, &sqe, NULL, 0), have          ? 0
		                                   : fid == 0x81 ? NEVER(WEFT_NVMF_SEQUENCE)
		                                                 : NEVER(WEFT_NVMF_INVALID_FIELD));
	}
	sqe = nv_sqe(WEFT_NVMF_ADMIN_GET_FEATURES, 0, 0x100 | 6, 0, 0);
	CHECK_EQ(nv_do(&a, &sqe, NULL, 0), NEVER(WEFT_NVMF_INVALID_FIELD));
	sqe = nv_sqe(WEFT_NVMF_ADMIN_GET_FEATURES, 0, 0x81, 1, 0);
	CHECK_EQ(nv_do(&a, &sqe, page, 16), 0);
	CHECK_MEM(page, "\5\6\7\0", 4);
	CHECK_EQ(nv_do(&a, &sqe, page, 8), NEVER(WEFT_NVMF_SGL_LENGTH));
	sqe = nv_sqe(WEFT_NVMF_ADMIN_SET_FEATURES, 0, 7, 0xffff, 0);
	CHECK_EQ(nv_do(&a, &sqe, NULL, 0), NEVER(WEFT_NVMF_INVALID_FIELD));
	sqe = nv_sqe(WEFT_NVMF_ADMIN_SET_FEATURES, 0, 7, 0x00ff00ff, 0);
	CHECK_EQ(nv_do(&a, &sqe, NULL, 0), 0);
	CHECK_EQ(a.result, 0x000f000f);
	/* the time of a controller is not taken away */
	sqe = nv_sqe(WEFT_NVMF_ADMIN_SET_FEATURES, 0, 0xf, 1500, 0);
	CHECK_EQ(nv_do(&a, &sqe, NULL, 0), 0);
	sqe = nv_sqe(WEFT_NVMF_ADMIN_SET_FEATURES, 0, 0xf, 0, 0);
	CHECK_EQ(nv_do(&a, &sqe, NULL, 0), NEVER(WEFT_NVMF_KATO_INVALID));
	sqe = nv_sqe(WEFT_NVMF_ADMIN_GET_FEATURES, 0, 0xf, 0, 0);
	CHECK_EQ(nv_do(&a, &sqe, NULL, 0), 0);
	CHECK_EQ(a.result, 2000);
	nv_close(&a);
	nv_end(&n);
}

static void
test_identify_refusals(void)
{
	struct nv_queue a;

	start();
	nv_admin(&n, 0, &a, NV_SUBSYS);
	for (uint32_t cns = 4; cns < 256; cns++)
		CHECK_EQ(nv_identify(&a, cns, 1, page), NEVER(WEFT_NVMF_INVALID_FIELD));
	/* beyond NN; within, and not there */
	for (uint32_t cns = 0; cns <= 3; cns += 3) {
		CHECK_EQ(nv_identify(&a, cns, 0, page), NEVER(WEFT_NVMF_INVALID_NS));
		CHECK_EQ(nv_identify(&a, cns, 9, page), NEVER(WEFT_NVMF_INVALID_NS));
		CHECK_EQ(nv_identify(&a, cns, WEFT_NVMF_NSID_ALL, page),
		         NEVER(WEFT_NVMF_INVALID_NS));
	}
	CHECK_EQ(nv_identify(&a, 0, 2, page), 0);
	CHECK_EQ(weft_nvmf_get64(page), 0);
	CHECK_EQ(nv_identify(&a, 3, 2, page), NEVER(WEFT_NVMF_INVALID_FIELD));
	CHECK_EQ(nv_identify(&a, 2, 1, page), 0);
	CHECK_EQ(weft_nvmf_get32(page), 0);
	CHECK_EQ(nv_identify(&a, 2, 0xfffffffe, page), NEVER(WEFT_NVMF_INVALID_NS));
	nv_close(&a);
	nv_end(&n);
}

static void
test_logs(void)
{
	struct nv_queue a, io;
	struct weft_nvmf_sqe sqe;

	start();
	nv_admin(&n, 0, &a, NV_SUBSYS);
	nv_io(&n, 1, &io, &a, 1);
	for (unsigned int lid = 0; lid < 256; lid++)
		CHECK_EQ(nv_log(&a, (uint8_t)lid, true, 0, page, 512),
		         (lid >= 1 && lid <= 5) || lid == 0x80 ? 0 : NEVER(WEFT_NVMF_INVALID_LOG));
	/* effects: what is there, and nothing else */
	CHECK_EQ(nv_log(&a, WEFT_NVMF_LOG_EFFECTS, true, 0, page, 4096), 0);
	for (unsigned int i = 0; i < 256; i++) {
		sqe = nv_sqe((uint8_t)i, 1, 0, 0, 0);
		if (i == WEFT_NVMF_OP_FABRICS || i == WEFT_NVMF_ADMIN_AER)
			continue;
		CHECK_EQ((weft_nvmf_get32(page + 4 * i) & 1) == 0,
		         nv_do(&a, &sqe, NULL, 0) == NEVER(WEFT_NVMF_INVALID_OPCODE));
		CHECK_EQ((weft_nvmf_get32(page + 1024 + 4 * i) & 1) == 0,
		         nv_do(&io, &sqe, NULL, 0) == NEVER(WEFT_NVMF_INVALID_OPCODE));
	}
	/* errors: the newest first */
	CHECK_EQ(nv_rw(&io, WEFT_NVMF_IO_READ, UINT32_MAX, 8, page, 4096, 0),
	         NEVER(WEFT_NVMF_LBA_RANGE));
	CHECK_EQ(nv_log(&a, WEFT_NVMF_LOG_ERROR, true, 0, page, 1024), 0);
	CHECK_EQ(weft_nvmf_get16(page + 8), 1);
	CHECK_EQ(weft_nvmf_get16(page + 10), 0x1000 + io.cid - 1);
	CHECK_EQ(weft_nvmf_get16(page + 12) >> 1, NEVER(WEFT_NVMF_LBA_RANGE));
	CHECK_EQ(weft_nvmf_get64(page + 16), UINT32_MAX);
	CHECK_EQ(weft_nvmf_get32(page + 24), 1);
	CHECK_EQ(weft_nvmf_get64(page) - 1, weft_nvmf_get64(page + 64));
	/* SMART */
	CHECK_EQ(nv_rw(&io, WEFT_NVMF_IO_READ, 0, 8, page, 4096, 0), 0);
	CHECK_EQ(nv_log(&a, WEFT_NVMF_LOG_SMART, true, 0, page, 512), 0);
	CHECK_EQ(weft_nvmf_get64(page + 32), 1);
	CHECK_EQ(weft_nvmf_get64(page + 64), 1);
	CHECK(weft_nvmf_get64(page + 176) > 100);
	sqe = nv_sqe(WEFT_NVMF_ADMIN_GET_LOG, 1, 2 | 127 << 16, 0, 0);
	CHECK_EQ(nv_do(&a, &sqe, page, 512), NEVER(WEFT_NVMF_INVALID_FIELD));
	/* longer than MDTS */
	sqe = nv_sqe(WEFT_NVMF_ADMIN_GET_LOG, 0, 1 | 0xffffU << 16, 0xffff, 0);
	CHECK_EQ(nv_do(&a, &sqe, page, 512), NEVER(WEFT_NVMF_INVALID_FIELD));
	/* an index in place of an offset */
	sqe = nv_sqe(WEFT_NVMF_ADMIN_GET_LOG, 0, 1 | 127 << 16, 0, 0);
	sqe.cdw[14] = 1U << 23;
	CHECK_EQ(nv_do(&a, &sqe, page, 512), NEVER(WEFT_NVMF_INVALID_FIELD));
	nv_close(&io);
	nv_close(&a);
	nv_end(&n);
}

/** Namespaces come and go while hosts are connected. */
static void
test_namespaces(void)
{
	struct weft_nvmf_sqe sqe, aer = nv_sqe(WEFT_NVMF_ADMIN_AER, 0, 0, 0, 0);
	struct weft_nvmf_ns_attr attr;
	struct nv_queue a, io;
	uint16_t status;

	start();
	nv_admin(&n, 0, &a, NV_SUBSYS);
	nv_io(&n, 1, &io, &a, 1);
	sqe = nv_sqe(WEFT_NVMF_ADMIN_SET_FEATURES, 0, 0xb, 0x100, 0);
	CHECK_EQ(nv_do(&a, &sqe, NULL, 0), 0);
	CHECK_EQ(nv_send(&a, &aer, NULL, 0), 0);
	attr = n.ns;
	CHECK_EQ(weft_nvmf_ns_add(n.subsys, &attr), -EEXIST);
	attr.nsid = 9;
	CHECK_EQ(weft_nvmf_ns_add(n.subsys, &attr), -EINVAL);
	attr.nsid = 3;
	attr.lba_bytes = 1024;
	CHECK_EQ(weft_nvmf_ns_add(n.subsys, &attr), -EINVAL);
	attr.lba_bytes = 4096;
	attr.persistent = true; /* the device writes 8 octets atomically */
	CHECK_EQ(weft_nvmf_ns_add(n.subsys, &attr), -EOPNOTSUPP);
	attr.persistent = false;
	CHECK_EQ(weft_nvmf_ns_add(n.subsys, &attr), 0);
	nv_poll(&n);
	CHECK(nv_answered(&a, aer.cid, &status));
	CHECK_EQ(status, 0);
	CHECK_EQ(a.result, 0x00040002);
	/* masked until the log is read without RAE */
	CHECK_EQ(nv_send(&a, &aer, NULL, 0), 0);
	CHECK_EQ(weft_nvmf_ns_remove(n.subsys, 3), 0);
	nv_poll(&n);
	CHECK(!nv_answered(&a, aer.cid, &status));
	CHECK_EQ(nv_log(&a, WEFT_NVMF_LOG_CHANGED_NS, true, 0, page, 4096), 0);
	CHECK_EQ(weft_nvmf_get32(page), 3);
	CHECK_EQ(weft_nvmf_get32(page + 4), 0);
	CHECK_EQ(nv_log(&a, WEFT_NVMF_LOG_CHANGED_NS, false, 0, page, 4096), 0);
	CHECK_EQ(weft_nvmf_get32(page), 3);
	CHECK_EQ(nv_log(&a, WEFT_NVMF_LOG_CHANGED_NS, false, 0, page, 4096), 0);
	CHECK_EQ(weft_nvmf_get32(page), 0);
	/* the next one, with blocks of 4096 octets; without a channel it is not ready */
	CHECK_EQ(weft_nvmf_ns_add(n.subsys, &attr), 0);
	nv_poll(&n);
	CHECK(nv_answered(&a, aer.cid, &status));
	CHECK_EQ(nv_identify(&a, 0, 3, page), 0);
	CHECK_EQ(weft_nvmf_get32(page + 128), 12 << 16);
	sqe = nv_sqe(WEFT_NVMF_IO_READ, 3, 0, 0, 0);
	CHECK_EQ(nv_do(&io, &sqe, page, 4096), WEFT_NVMF_NS_NOT_READY);
	CHECK_EQ(weft_nvmf_group_attach(n.group[1], n.subsys, 3, n.vol.chan[1]), 0);
	CHECK_EQ(weft_nvmf_group_attach(n.group[1], n.subsys, 3, n.vol.chan[1]), -EEXIST);
	CHECK_EQ(nv_do(&io, &sqe, page, 4096), 0);
	/* it goes while a command is under way */
	CHECK_EQ(nv_send(&io, &sqe, NULL, 0), 0);
	CHECK_EQ(weft_nvmf_ns_remove(n.subsys, 3), -EAGAIN);
	CHECK_EQ(weft_nvmf_group_detach(n.group[1], n.subsys, 3), -EAGAIN);
	CHECK_EQ(nv_wait(&io, sqe.cid), 0);
	CHECK_EQ(weft_nvmf_ns_remove(n.subsys, 3), -EAGAIN);
	CHECK_EQ(weft_nvmf_group_detach(n.group[1], n.subsys, 3), 0);
	CHECK_EQ(weft_nvmf_ns_remove(n.subsys, 3), 0);
	CHECK_EQ(weft_nvmf_ns_remove(n.subsys, 3), -ENOENT);
	CHECK_EQ(nv_do(&io, &sqe, page, 4096), NEVER(WEFT_NVMF_INVALID_FIELD));
	nv_close(&io);
	nv_close(&a);
	/* the next group of this number would have the channel */
	CHECK_EQ(weft_nvmf_group_close(n.group[0]), -EBUSY);
	nv_end(&n);
}

/** The volume of a namespace is closed and opened again, with another size. */
static void
test_renew(void)
{
	struct weft_nvmf_sqe sqe = nv_sqe(WEFT_NVMF_IO_READ, 1, 0, 0, 0), held = sqe;
	struct weft_nvmf_sqe aer = nv_sqe(WEFT_NVMF_ADMIN_AER, 0, 0, 0, 0);
	struct weft_nvmf_ns_attr attr;
	struct weft_nvmf_ns_stats stats;
	struct nv_queue a, io;
	uint16_t status;
	uint8_t uuid;

	start();
	attr = n.ns;
	nv_admin(&n, 0, &a, NV_SUBSYS);
	nv_io(&n, 1, &io, &a, 1);
	CHECK_EQ(weft_nvmf_ns_renew(n.subsys, &attr), -EAGAIN);
	/* a command is under way: it ends, and no other begins */
	io.hold_answers = true;
	nv_keyed(&held, page, 512);
	CHECK_EQ(nv_send(&io, &held, NULL, 0), 0);
	CHECK_EQ(weft_nvmf_group_detach(n.group[1], n.subsys, 1), -EAGAIN);
	CHECK_EQ(nv_wait(&io, held.cid), 0);
	io.hold_answers = false;
	CHECK_EQ(nv_do(&io, &sqe, page, 512), WEFT_NVMF_NS_NOT_READY);
	CHECK_EQ(weft_nvmf_group_detach(n.group[1], n.subsys, 1), -EAGAIN);
	/* the owner has changed its mind */
	CHECK_EQ(weft_nvmf_group_attach(n.group[1], n.subsys, 1, n.vol.chan[0]), -EEXIST);
	CHECK_EQ(weft_nvmf_group_attach(n.group[1], n.subsys, 1, n.vol.chan[1]), 0);
	CHECK_EQ(nv_do(&io, &sqe, page, 512), 0);
	weft_nvmf_sent(io.send[0]);
	for (unsigned int i = 0; i < NV_GROUPS; i++)
		CHECK_EQ(weft_nvmf_group_detach(n.group[i], n.subsys, 1), 0);
	/* it is there, and is not ready */
	CHECK_EQ(nv_identify(&a, 0, 1, page), 0);
	CHECK(weft_nvmf_get64(page) > 0);
	CHECK_EQ(nv_do(&io, &sqe, page, 512), WEFT_NVMF_NS_NOT_READY);
	CHECK_EQ(weft_nvmf_ns_query(n.subsys, 1, &stats), 0);
	CHECK_EQ(stats.attached, 0);
	CHECK_EQ(stats.reads, 2);
	attr.nsid = 2;
	CHECK_EQ(weft_nvmf_ns_renew(n.subsys, &attr), -ENOENT);
	attr.nsid = 1;
	attr.lba_bytes = 4096;
	CHECK_EQ(weft_nvmf_ns_renew(n.subsys, &attr), -ESTALE);
	attr.lba_bytes = 0;
	CHECK_EQ(nv_send(&a, &aer, NULL, 0), 0);
	sqe = nv_sqe(WEFT_NVMF_ADMIN_SET_FEATURES, 0, 0xb, 0x100, 0);
	CHECK_EQ(nv_do(&a, &sqe, NULL, 0), 0);
	attr.read_only = true;
	CHECK_EQ(weft_nvmf_ns_renew(n.subsys, &attr), 0);
	nv_poll(&n);
	CHECK(nv_answered(&a, aer.cid, &status));
	for (unsigned int i = 0; i < NV_GROUPS; i++)
		CHECK_EQ(weft_nvmf_group_attach(n.group[i], n.subsys, 1, n.vol.chan[i]), 0);
	CHECK_EQ(nv_rw(&io, WEFT_NVMF_IO_READ, 0, 1, page, 512, 0), 0);
	CHECK_EQ(nv_rw(&io, WEFT_NVMF_IO_WRITE, 0, 1, page, 512, 0), NEVER(WEFT_NVMF_READ_ONLY));
	CHECK_EQ(weft_nvmf_ns_read_only(n.subsys, 1, false), 0);
	CHECK_EQ(weft_nvmf_ns_read_only(n.subsys, 2, false), -ENOENT);
	CHECK_EQ(nv_rw(&io, WEFT_NVMF_IO_WRITE, 0, 1, page, 512, 0), 0);
	/* another volume has another UUID */
	for (unsigned int i = 0; i < NV_GROUPS; i++)
		CHECK_EQ(weft_nvmf_group_detach(n.group[i], n.subsys, 1), 0);
	uuid = weft_vol_info(n.vol.vol)->super.uuid[0];
	((struct weft_vol_info *)(uintptr_t)weft_vol_info(n.vol.vol))->super.uuid[0] ^= 1;
	CHECK_EQ(weft_nvmf_ns_renew(n.subsys, &attr), -ESTALE);
	((struct weft_vol_info *)(uintptr_t)weft_vol_info(n.vol.vol))->super.uuid[0] = uuid;
	CHECK_EQ(weft_nvmf_ns_renew(n.subsys, &attr), 0);
	nv_close(&io);
	nv_close(&a);
	nv_end(&n);
}

/** A host that can wait is told to, before it sends again what was refused as not ready. */
static void
test_delays(void)
{
	struct weft_nvmf_sqe set = nv_sqe(WEFT_NVMF_ADMIN_SET_FEATURES, 0, 0x16, 0, 0);
	struct weft_nvmf_sqe get = nv_sqe(WEFT_NVMF_ADMIN_GET_FEATURES, 0, 0x16, 0, 0);
	struct nv_queue a, io;

	start();
	nv_admin(&n, 0, &a, NV_SUBSYS);
	nv_io(&n, 1, &io, &a, 1);
	CHECK_EQ(nv_identify(&a, 1, 0, page), 0);
	CHECK_EQ(weft_nvmf_get16(page + 128), 20); /* CRDT1: 2 s */
	CHECK_EQ(weft_nvmf_group_detach(n.group[1], n.subsys, 1), 0);
	CHECK_EQ(nv_rw(&io, WEFT_NVMF_IO_READ, 0, 1, page, 512, 0), WEFT_NVMF_NS_NOT_READY);
	CHECK_EQ(nv_do(&a, &set, NULL, 0), NEVER(WEFT_NVMF_SGL_LENGTH));
	memset(page, 0, 512);
	page[0] = 2;
	CHECK_EQ(nv_do(&a, &set, page, 512), NEVER(WEFT_NVMF_INVALID_FIELD));
	page[0] = 1;
	CHECK_EQ(nv_do(&a, &set, page, 512), 0);
	memset(page, 0x5a, 512);
	CHECK_EQ(nv_do(&a, &get, page, 512), 0);
	CHECK(page[0] == 1 && page[1] == 0 && page[511] == 0);
	CHECK_EQ(nv_rw(&io, WEFT_NVMF_IO_READ, 0, 1, page, 512, 0),
	         WEFT_NVMF_NS_NOT_READY | WEFT_NVMF_CRD1);
	CHECK_EQ(nv_rw(&io, WEFT_NVMF_IO_READ, 1U << 30, 1, page, 512, 0),
	         WEFT_NVMF_NS_NOT_READY | WEFT_NVMF_CRD1);
	CHECK_EQ(weft_nvmf_group_attach(n.group[1], n.subsys, 1, n.vol.chan[1]), 0);
	CHECK_EQ(nv_rw(&io, WEFT_NVMF_IO_READ, 1U << 30, 1, page, 512, 0),
	         NEVER(WEFT_NVMF_LBA_RANGE));
	nv_close(&io);
	nv_close(&a);
	nv_end(&n);
}

struct seen {
	unsigned int n;
	struct weft_nvmf_ctrl_info last;
};

static void
see(void *arg, const struct weft_nvmf_ctrl_info *info)
{
	struct seen *s = arg;

	s->n++;
	s->last = *info;
}

/** What the owner of the target sees of controllers, and that it can end them. */
static void
test_ctrl_list(void)
{
	struct nv_queue a, io, d;
	struct seen s = {0};

	start();
	weft_nvmf_each_ctrl(n.target, see, &s);
	CHECK_EQ(s.n, 0);
	nv_admin(&n, 0, &a, NV_SUBSYS);
	nv_io(&n, 1, &io, &a, 1);
	CHECK_EQ(nv_rw(&io, WEFT_NVMF_IO_WRITE, 0, 2, page, 1024, 0), 0);
	CHECK_EQ(nv_rw(&io, WEFT_NVMF_IO_READ, 0, 1, page, 512, 0), 0);
	CHECK_EQ(nv_rw(&io, WEFT_NVMF_IO_READ, 1U << 30, 1, page, 512, 0),
	         NEVER(WEFT_NVMF_LBA_RANGE));
	weft_nvmf_each_ctrl(n.target, see, &s);
	CHECK_EQ(s.n, 1);
	CHECK_EQ(strcmp(s.last.hostnqn, NV_HOST), 0);
	CHECK_EQ(strcmp(s.last.subnqn, NV_SUBSYS), 0);
	CHECK_EQ(strcmp(s.last.state, "ready"), 0);
	CHECK_EQ(s.last.queues, 2);
	CHECK_EQ(s.last.queue[0].qid, 0);
	CHECK_EQ(s.last.queue[1].qid, 1);
	CHECK_EQ(s.last.queue[1].group, 1);
	/* Connect is the queue's, and not yet the controller's when it is answered */
	CHECK_EQ(s.last.queue[1].commands, 4);
	CHECK_EQ(s.last.queue[1].errors, 1);
	CHECK_EQ(s.last.errors, 1);
	CHECK_EQ(s.last.read_bytes, 512);
	CHECK_EQ(s.last.written_bytes, 1024);
	CHECK_EQ(weft_nvmf_host_drop(n.target, NV_OTHER, 0), 0);
	nv_admin(&n, 0, &d, WEFT_NVMF_DISCOVERY_NQN);
	CHECK_EQ(weft_nvmf_host_drop(n.target, NULL, d.cntlid), 1);
	nv_poll(&n);
	CHECK(d.closed && !a.closed);
	nv_close(&d);
	CHECK_EQ(weft_nvmf_host_drop(n.target, NV_HOST, 0), 1);
	nv_poll(&n);
	CHECK(a.closed && io.closed);
	nv_close(&io);
	nv_close(&a);
	/* a host that is in no list, when lists count */
	nv_admin(&n, 0, &a, NV_SUBSYS);
	weft_nvmf_any_host(n.subsys, false);
	nv_poll(&n);
	CHECK(a.closed);
	nv_close(&a);
	nv_end(&n);
}

/** Pass that time at the pace at which a worker looks. */
static void
pass_slowly(uint64_t ms)
{
	for (uint64_t i = 0; i < ms; i += 50)
		nv_pass(&n, 50);
}

/**
 * A host is alive, and does not give the data of a write, or take the answer of a read: its queue
 * ends after a second, and the namespace goes. Others stay connected. A command that waits for the
 * memory of such a host is refused.
 */
static void
test_leave(void)
{
	static uint8_t data[1 << 20];
	struct nv_queue a, io, good, rest;
	struct weft_nvmf_stats stats;
	uint16_t status;

	for (unsigned int kind = 0; kind < 3; kind++) {
		const bool pull = kind != 1, full = kind == 2;
		const uint32_t blocks = full ? 2048 : 8;
		struct weft_nvmf_sqe sqe =
		        nv_sqe(pull ? WEFT_NVMF_IO_WRITE : WEFT_NVMF_IO_READ, 1, 0, 0, blocks - 1);
		struct weft_nvmf_sqe late[3];

		start();
		nv_admin(&n, 0, &a, NV_SUBSYS);
		nv_io(&n, 0, &io, &a, 1);
		nv_io(&n, 0, &good, &a, 2);
		nv_io(&n, 0, &rest, &a, 3);
		/* a worker that has slept does not take that for the host's time */
		n.vol.now_ns += 5000000000;
		io.hold_pulls = io.hold_answers = true;
		nv_keyed(&sqe, data, blocks * 512);
		CHECK_EQ(nv_send(&io, &sqe, NULL, 0), 0);
		for (unsigned int i = 0; full && i < 3; i++) {
			/* these find no memory */
			late[i] = nv_sqe(WEFT_NVMF_IO_READ, 1, 0, 0, 2047);
			nv_keyed(&late[i], data, sizeof(data));
			good.hold_pulls = true;
			late[i].opcode = i < 2 ? WEFT_NVMF_IO_WRITE : WEFT_NVMF_IO_READ;
			CHECK_EQ(nv_send(i < 2 ? &io : &good, &late[i], NULL, 0), 0);
		}
		nv_poll(&n);
		CHECK_EQ(weft_nvmf_group_detach(n.group[0], n.subsys, 1), -EAGAIN);
		pass_slowly(900);
		CHECK(!io.closed && !a.closed);
		CHECK_EQ(weft_nvmf_group_detach(n.group[0], n.subsys, 1), -EAGAIN);
		/* the refusal takes a while to be taken, as each answer does */
		good.hold_answers = full;
		for (unsigned int i = 0; i < 6 && !io.closed; i++)
			pass_slowly(50);
		CHECK(io.closed && !good.closed);
		CHECK_EQ(good.sends, full);
		if (full)
			nv_take(&good);
		pass_slowly(200);
		CHECK(!good.closed && !rest.closed && !a.closed);
		if (full)
			CHECK_EQ(nv_wait(&good, late[2].cid), WEFT_NVMF_NS_NOT_READY);
		weft_nvmf_query_stats(n.target, &stats);
		CHECK_EQ(stats.leave_expired, 1);
		nv_close(&io);
		CHECK_EQ(weft_nvmf_group_detach(n.group[0], n.subsys, 1), 0);
		CHECK_EQ(weft_nvmf_group_attach(n.group[0], n.subsys, 1, n.vol.chan[0]), 0);
		/* one that is attached again has its time again */
		good.hold_pulls = false;
		CHECK_EQ(nv_rw(&good, WEFT_NVMF_IO_READ, 0, 8, page, 4096, 0), 0);
		good.hold_answers = true;
		sqe = nv_sqe(WEFT_NVMF_IO_READ, 1, 0, 0, 0);
		nv_keyed(&sqe, page, 512);
		CHECK_EQ(nv_send(&good, &sqe, NULL, 0), 0);
		pass_slowly(2000);
		CHECK(nv_answered(&good, sqe.cid, &status));
		CHECK_EQ(weft_nvmf_group_detach(n.group[0], n.subsys, 1), -EAGAIN);
		pass_slowly(500);
		CHECK(!good.closed);
		CHECK_EQ(weft_nvmf_group_attach(n.group[0], n.subsys, 1, n.vol.chan[0]), 0);
		pass_slowly(2000);
		CHECK(!good.closed);
		nv_close(&good);
		nv_close(&rest);
		nv_close(&a);
		nv_end(&n);
	}
}

/** A group that stops answers what is under way, and closes I/O queues first. */
static void
test_stop(void)
{
	struct weft_nvmf_sqe rd = nv_sqe(WEFT_NVMF_IO_READ, 1, 0, 0, 0), late = rd;
	struct weft_nvmf_sqe aer = nv_sqe(WEFT_NVMF_ADMIN_AER, 0, 0, 0, 0);
	struct nv_queue a, io;
	uint16_t status;

	for (unsigned int stuck = 0; stuck < 2; stuck++) {
		start();
		nv_admin(&n, 0, &a, NV_SUBSYS);
		nv_io(&n, 1, &io, &a, 1);
		CHECK_EQ(nv_send(&a, &aer, NULL, 0), 0);
		io.hold_answers = true;
		nv_keyed(&rd, page, 512);
		CHECK_EQ(nv_send(&io, &rd, NULL, 0), 0);
		for (unsigned int i = 0; i < NV_GROUPS; i++)
			weft_nvmf_group_stop(n.group[i], 500000000);
		CHECK_EQ(nv_send(&io, &late, NULL, 0), -ESHUTDOWN);
		nv_poll(&n);
		nv_poll(&n);
		CHECK(nv_answered(&io, rd.cid, &status));
		CHECK(!io.closed && !a.closed);
		CHECK_EQ(weft_nvmf_group_next_ns(n.group[1]), 0);
		if (stuck == 0) {
			weft_nvmf_sent(io.send[0]);
			nv_poll(&n);
			nv_poll(&n);
			CHECK(io.closed && !a.closed);
			nv_close(&io);
			nv_poll(&n);
			CHECK(a.closed);
		} else {
			nv_pass(&n, 501);
			CHECK(io.closed && a.closed);
			weft_nvmf_sent(io.send[0]);
			nv_close(&io);
		}
		nv_close(&a);
		nv_end(&n);
	}
}

static void
test_abort(void)
{
	struct weft_nvmf_sqe sqe, again, aer[5], rd = nv_sqe(WEFT_NVMF_IO_WRITE, 1, 0, 0, 7);
	struct nv_queue a, io;
	uint16_t status;

	start();
	nv_admin(&n, 0, &a, NV_SUBSYS);
	nv_io(&n, 0, &io, &a, 1);
	for (unsigned int i = 0; i < 5; i++) {
		aer[i] = nv_sqe(WEFT_NVMF_ADMIN_AER, 0, 0, 0, 0);
		CHECK_EQ(nv_send(&a, &aer[i], NULL, 0), 0);
	}
	/* one too many */
	CHECK_EQ(nv_wait(&a, aer[4].cid), NEVER(WEFT_NVMF_AER_LIMIT));
	sqe = nv_sqe(WEFT_NVMF_ADMIN_ABORT, 0, (uint32_t)aer[2].cid << 16, 0, 0);
	CHECK_EQ(nv_do(&a, &sqe, NULL, 0), 0);
	CHECK_EQ(a.result, 0);
	CHECK(nv_answered(&a, aer[2].cid, &status));
	CHECK_EQ(status, WEFT_NVMF_ABORTED);
	/* none of that name */
	sqe = nv_sqe(WEFT_NVMF_ADMIN_ABORT, 0, 0x77770001, 0, 0);
	CHECK_EQ(nv_do(&a, &sqe, NULL, 0), 0);
	CHECK_EQ(a.result, 1);
	/* one whose data is on its way: it changes nothing */
	io.hold_pulls = true;
	nv_keyed(&rd, page, 4096);
	CHECK_EQ(nv_send(&io, &rd, NULL, 0), 0);
	sqe = nv_sqe(WEFT_NVMF_ADMIN_ABORT, 0, 1 | (uint32_t)rd.cid << 16, 0, 0);
	CHECK_EQ(nv_send(&a, &sqe, NULL, 0), 0);
	nv_poll(&n);
	/* its answer is in front of the Abort's, and a second Abort does not wait */
	CHECK(!nv_answered(&a, sqe.cid, &status));
	again = nv_sqe(WEFT_NVMF_ADMIN_ABORT, 0, 1 | (uint32_t)rd.cid << 16, 0, 0);
	CHECK_EQ(nv_do(&a, &again, NULL, 0), 0);
	CHECK_EQ(a.result, 1);
	CHECK_EQ(io.pulls, 1);
	io.pulls = 0;
	weft_nvmf_pulled(io.pull[0], 0);
	CHECK_EQ(nv_wait(&io, rd.cid), WEFT_NVMF_ABORTED);
	CHECK_EQ(nv_wait(&a, sqe.cid), 0);
	CHECK_EQ(a.result, 0);
	/* one that the volume has done before it could be cancelled */
	rd = nv_sqe(WEFT_NVMF_IO_READ, 1, 0, 0, 7);
	io.hold_pulls = false;
	nv_keyed(&rd, page, 4096);
	CHECK_EQ(nv_send(&io, &rd, NULL, 0), 0);
	sqe = nv_sqe(WEFT_NVMF_ADMIN_ABORT, 0, 1 | (uint32_t)rd.cid << 16, 0, 0);
	CHECK_EQ(nv_do(&a, &sqe, NULL, 0), 0);
	status = nv_wait(&io, rd.cid);
	CHECK_EQ(a.result, status == WEFT_NVMF_ABORTED ? 0 : 1);
	nv_close(&io);
	nv_close(&a);
	nv_end(&n);
}

/* ---- Threads ---- */

#define MT_ROUNDS 60

static _Atomic uint16_t mt_cntlid;
static _Atomic bool mt_stop;
static _Atomic unsigned int mt_written;

/** Send and wait. False: the queue is being closed. */
static bool
mt_do(struct nv_queue *q, struct weft_nvmf_sqe *sqe, void *data, uint32_t bytes)
{
	int r;

	if (data != NULL)
		nv_keyed(sqe, data, bytes);
	r = nv_send(q, sqe, NULL, 0);
	CHECK(r == 0 || r == -ESHUTDOWN);
	if (r == 0)
		(void)nv_wait(q, sqe->cid);
	return r == 0;
}

static bool
mt_configure(struct nv_queue *q, uint32_t cc)
{
	struct weft_nvmf_sqe sqe = nv_sqe(WEFT_NVMF_OP_FABRICS, 0, 0, WEFT_NVMF_PROP_CC, cc);

	sqe.fctype = WEFT_NVMF_FC_PROPERTY_SET;
	return mt_do(q, &sqe, NULL, 0);
}

/** Group 0: admin queues. Controllers are reset, shut down, and left. */
static void *
mt_admin(void *arg)
{
	static uint8_t data[4096];
	struct nv *own = arg;
	struct nv_queue q;

	for (unsigned int round = 0; round < MT_ROUNDS; round++) {
		struct weft_nvmf_sqe sqe = nv_sqe(WEFT_NVMF_ADMIN_SET_FEATURES, 0, 0xb, 0x100, 0);
		const unsigned int until = atomic_load(&mt_written) + 20;
		bool up;

		nv_open(own, 0, &q);
		CHECK_EQ(nv_connect(&q, NV_SUBSYS, NV_HOST, 0xffff, 0, 31, 0), 0);
		up = mt_configure(&q, 0x460001) && mt_do(&q, &sqe, NULL, 0);
		sqe = nv_sqe(WEFT_NVMF_ADMIN_AER, 0, 0, 0, 0);
		if (up)
			(void)nv_send(&q, &sqe, NULL, 0);
		atomic_store(&mt_cntlid, q.cntlid);
		while (up && atomic_load(&mt_written) < until) {
			sqe = nv_sqe(WEFT_NVMF_ADMIN_IDENTIFY, 3, 0, 0, 0);
			up = mt_do(&q, &sqe, data, sizeof(data));
			sqe = nv_sqe(WEFT_NVMF_ADMIN_GET_LOG, WEFT_NVMF_NSID_ALL, 2 | 127 << 16, 0,
			             0);
			up = up && mt_do(&q, &sqe, data, 512);
			/* Of a queue of the other thread, which may be ending. */
			sqe = nv_sqe(WEFT_NVMF_ADMIN_ABORT, 0, 7U << 16 | 1, 0, 0);
			up = up && mt_do(&q, &sqe, NULL, 0);
			nv_poll(own);
		}
		if (round % 3 == 0)
			(void)mt_configure(&q, 0x460000);
		else if (round % 3 == 1)
			(void)mt_configure(&q, 0x464001);
		for (unsigned int i = 0; i < 50; i++)
			nv_poll(own);
		atomic_store(&mt_cntlid, 0);
		nv_close(&q);
	}
	atomic_store(&mt_stop, true);
	return NULL;
}

/** Group 1: I/O queues of these controllers, until they are closed. */
static void *
mt_io(void *arg)
{
	static uint8_t data[4096];
	struct nv *own = arg;
	struct nv_queue q;

	while (!atomic_load(&mt_stop)) {
		const uint16_t cntlid = atomic_load(&mt_cntlid);
		bool up;

		nv_poll(own);
		if (cntlid == 0)
			continue;
		nv_open(own, 1, &q);
		up = nv_connect(&q, NV_SUBSYS, NV_HOST, cntlid, 1, 31, 0) == 0;
		for (unsigned int i = 0; up && i < 30; i++) {
			struct weft_nvmf_sqe w = nv_sqe(WEFT_NVMF_IO_WRITE, 1, i, 0, 7);
			struct weft_nvmf_sqe f = nv_sqe(WEFT_NVMF_IO_FLUSH, 1, 0, 0, 0);

			up = mt_do(&q, &w, data, sizeof(data)) &&
			     (i % 4 != 0 || mt_do(&q, &f, NULL, 0));
			atomic_fetch_add(&mt_written, up);
		}
		nv_close(&q);
	}
	return NULL;
}

/** Two groups on their own threads, and a third thread that manages the target. */
static void
test_threads(void)
{
	const struct weft_nvmf_listener l = {.trtype = 1, .traddr = "10.0.0.1", .trsvcid = "1"};
	struct weft_nvmf_ns_attr attr;
	static struct nv own[2];
	struct weft_nvmf_stats stats;
	pthread_t t[2];

	memset(&n, 0, sizeof(n));
	n.ns.volatile_cache = true;
	nv_start(&n);
	attr = n.ns;
	attr.nsid = 3;
	for (unsigned int i = 0; i < 2; i++)
		nv_of_thread(&n, i, &own[i]);
	CHECK_EQ(pthread_create(&t[0], NULL, mt_admin, &own[0]), 0);
	CHECK_EQ(pthread_create(&t[1], NULL, mt_io, &own[1]), 0);
	for (unsigned int i = 0; !atomic_load(&mt_stop); i++) {
		CHECK_EQ(weft_nvmf_ns_add(n.subsys, &attr), 0);
		CHECK_EQ(weft_nvmf_listener_add(n.target, &l), 0);
		weft_nvmf_query_stats(n.target, &stats);
		CHECK_EQ(weft_nvmf_listener_remove(n.target, &l), 0);
		CHECK_EQ(weft_nvmf_ns_remove(n.subsys, 3), 0);
		if (i % 64 == 63) {
			CHECK_EQ(weft_nvmf_host_allow(n.subsys, NV_HOST), 0);
			CHECK_EQ(weft_nvmf_host_deny(n.subsys, NV_HOST), 0);
		}
		usleep(50);
	}
	for (unsigned int i = 0; i < 2; i++)
		CHECK_EQ(pthread_join(t[i], NULL), 0);
	CHECK(atomic_load(&mt_written) > 100);
	nv_end(&n);
}

WEFT_TEST_MAIN({"the first commands of Linux", test_first_commands},
               {"connect: refusals", test_connect_refusals}, {"connect: limits", test_limits},
               {"hosts: allowed, denied", test_hosts},
               {"discovery: log, parts of it, events", test_discovery},
               {"properties", test_properties}, {"reset", test_reset}, {"shutdown", test_shutdown},
               {"shutdown: a reset within, and the next", test_shutdown_again},
               {"keep alive", test_keep_alive},
               {"keep alive: shutdown, and after it", test_keep_alive_shutdown},
               {"features: every number", test_features},
               {"identify: refusals", test_identify_refusals},
               {"log pages: every number", test_logs}, {"namespaces come and go", test_namespaces},
               {"namespaces: a volume is opened again", test_renew},
               {"not ready: a delay", test_delays}, {"controllers: list, drop", test_ctrl_list},
               {"a namespace goes, and a host keeps its command", test_leave},
               {"a group stops", test_stop}, {"abort", test_abort}, {"threads", test_threads})
