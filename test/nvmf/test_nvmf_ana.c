/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Asymmetric namespace access, and what two targets of one subsystem have to keep apart.
 */

#include <errno.h>

#include "nvmf_rig.h"

#define NEVER(status) ((uint16_t)((status) | WEFT_NVMF_DNR))
#define RGO           0x01U /**< of LSP */
#define EVENT_ANA     0x000c0302U

static struct nv n;
static struct nv_queue admin, io;
static uint8_t page[4096], buf[4096];

static void
begin(enum weft_nvmf_ana_state ana)
{
	memset(&n, 0, sizeof(n));
	n.ana = ana;
	nv_start(&n);
	nv_admin(&n, 0, &admin, NV_SUBSYS);
	nv_io(&n, 1, &io, &admin, 1);
}

static void
end(void)
{
	nv_close(&io);
	nv_close(&admin);
	nv_end(&n);
}

/** Log page 0Ch from an offset on. */
static uint16_t
ana_log(uint8_t lsp, bool rae, uint32_t off, void *to, uint32_t bytes)
{
	struct weft_nvmf_sqe sqe = nv_sqe(WEFT_NVMF_ADMIN_GET_LOG, WEFT_NVMF_NSID_ALL,
	                                  WEFT_NVMF_LOG_ANA | (uint32_t)lsp << 8 |
	                                          (uint32_t)rae << 15 | (bytes / 4 - 1) << 16,
	                                  0, off);

	memset(to, 0xee, bytes);
	return nv_do(&admin, &sqe, to, bytes);
}

/** The state of the only group, which is namespace 1. */
static uint8_t
state_told(void)
{
	uint8_t p[52];

	CHECK_EQ(ana_log(0, false, 0, p, sizeof(p)), 0);
	CHECK_EQ(weft_nvmf_get16(p + 8), 1);
	return p[16 + 16];
}

static uint16_t
rd(void)
{
	return nv_rw(&io, WEFT_NVMF_IO_READ, 0, 1, buf, 512, 0);
}

static void
test_off(void)
{
	begin(WEFT_NVMF_ANA_OFF);
	CHECK_EQ(nv_identify(&admin, WEFT_NVMF_CNS_CTRL, 0, page), 0);
	CHECK_EQ(page[76], 0x03);
	CHECK_EQ(weft_nvmf_get32(page + 92), 0x100);
	for (unsigned int i = 342; i < 352; i++)
		CHECK_EQ(page[i], 0);
	CHECK_EQ(nv_identify(&admin, WEFT_NVMF_CNS_NS, 1, page), 0);
	CHECK_EQ(weft_nvmf_get32(page + 92), 0);
	CHECK_EQ(ana_log(0, false, 0, page, 16), NEVER(WEFT_NVMF_INVALID_LOG));
	CHECK_EQ(weft_nvmf_ana(n.subsys, WEFT_NVMF_ANA_INACCESSIBLE), -EINVAL);
	CHECK_EQ(rd(), 0);
	end();
}

static void
test_identify(void)
{
	begin(WEFT_NVMF_ANA_NON_OPTIMIZED);
	CHECK_EQ(nv_identify(&admin, WEFT_NVMF_CNS_CTRL, 0, page), 0);
	CHECK_EQ(page[76], 0x0b);
	CHECK_EQ(weft_nvmf_get32(page + 92), 0x900);
	CHECK_EQ(page[342], 10);
	CHECK_EQ(page[343], 0x57);
	CHECK_EQ(weft_nvmf_get32(page + 344), 8);
	CHECK_EQ(weft_nvmf_get32(page + 348), 8);
	CHECK_EQ(nv_identify(&admin, WEFT_NVMF_CNS_NS, 1, page), 0);
	CHECK_EQ(weft_nvmf_get32(page + 92), 1);
	CHECK_EQ(page[30] & 1, 1);
	/* a path that is not the best one is one all the same */
	CHECK_EQ(rd(), 0);
	end();
}

static void
test_log(void)
{
	struct weft_nvmf_ns_attr attr;
	uint8_t p[96], part[8];

	begin(WEFT_NVMF_ANA_OPTIMIZED);
	attr = n.ns;
	attr.nsid = 7;
	CHECK_EQ(weft_nvmf_ns_add(n.subsys, &attr), 0);
	CHECK_EQ(ana_log(0, false, 0, p, sizeof(p)), 0);
	CHECK_EQ(weft_nvmf_get64(p), 3); /* namespace 1 came, and was attached; 7 came */
	CHECK_EQ(weft_nvmf_get16(p + 8), 2);
	CHECK_EQ(weft_nvmf_get32(p + 16), 1);
	CHECK_EQ(weft_nvmf_get32(p + 20), 1);
	CHECK_EQ(weft_nvmf_get64(p + 24), 2);
	CHECK_EQ(p[32], WEFT_NVMF_ANA_OPTIMIZED);
	CHECK_EQ(weft_nvmf_get32(p + 48), 1);
	CHECK_EQ(weft_nvmf_get32(p + 52), 7);
	CHECK_EQ(weft_nvmf_get64(p + 60), 3);
	CHECK_EQ(p[68], WEFT_NVMF_ANA_INACCESSIBLE); /* no group has a way to it */
	CHECK_EQ(weft_nvmf_get32(p + 84), 7);
	for (unsigned int i = 88; i < 96; i++)
		CHECK_EQ(p[i], 0);
	/* groups alone */
	CHECK_EQ(ana_log(RGO, false, 0, p, sizeof(p)), 0);
	CHECK_EQ(weft_nvmf_get16(p + 8), 2);
	CHECK_EQ(weft_nvmf_get32(p + 20), 0);
	CHECK_EQ(weft_nvmf_get32(p + 48), 7);
	CHECK_EQ(weft_nvmf_get32(p + 52), 0);
	CHECK_EQ(p[64], WEFT_NVMF_ANA_INACCESSIBLE);
	for (unsigned int i = 80; i < 96; i++)
		CHECK_EQ(p[i], 0);
	/* parts of it */
	CHECK_EQ(ana_log(0, false, 84, part, 4), 0);
	CHECK_EQ(weft_nvmf_get32(part), 7);
	CHECK_EQ(ana_log(0, false, 88, part, 4), 0);
	CHECK_EQ(weft_nvmf_get32(part), 0);
	CHECK_EQ(ana_log(0, false, 92, part, 4), NEVER(WEFT_NVMF_INVALID_FIELD));
	CHECK_EQ(ana_log(RGO, false, 84, part, 4), NEVER(WEFT_NVMF_INVALID_FIELD));
	CHECK_EQ(ana_log(0, false, 2, part, 4), NEVER(WEFT_NVMF_INVALID_FIELD));
	CHECK_EQ(weft_nvmf_ns_remove(n.subsys, 7), 0);
	CHECK_EQ(ana_log(0, false, 0, p, sizeof(p)), 0);
	CHECK_EQ(weft_nvmf_get16(p + 8), 1);
	end();
}

/** The configuration's state changes: each command of the namespace is refused while it is
 * inaccessible, so that the host sends it on another path. */
static void
test_states(void)
{
	static const uint8_t cmd[] = {
	        WEFT_NVMF_IO_FLUSH,        WEFT_NVMF_IO_WRITE,         WEFT_NVMF_IO_READ,
	        WEFT_NVMF_IO_COMPARE,      WEFT_NVMF_IO_WRITE_ZEROES,  WEFT_NVMF_IO_DSM,
	        WEFT_NVMF_IO_VERIFY,       WEFT_NVMF_IO_RESV_REGISTER, WEFT_NVMF_IO_RESV_REPORT,
	        WEFT_NVMF_IO_RESV_ACQUIRE, WEFT_NVMF_IO_RESV_RELEASE};
	struct weft_nvmf_sqe aer = nv_sqe(WEFT_NVMF_ADMIN_AER, 0, 0, 0, 0);
	struct weft_nvmf_sqe on = nv_sqe(WEFT_NVMF_ADMIN_SET_FEATURES, 0, 0xb, 0x900, 0);
	struct weft_nvmf_ns_stats stats;
	struct weft_nvmf_sqe sqe;
	uint8_t p[16];
	uint16_t status;

	begin(WEFT_NVMF_ANA_OPTIMIZED);
	CHECK_EQ(state_told(), WEFT_NVMF_ANA_OPTIMIZED);
	CHECK_EQ(nv_do(&admin, &on, NULL, 0), 0);
	CHECK_EQ(nv_send(&admin, &aer, NULL, 0), 0);
	nv_poll(&n);
	CHECK(!nv_answered(&admin, aer.cid, &status));
	CHECK_EQ(weft_nvmf_ana(n.subsys, WEFT_NVMF_ANA_OFF), -EINVAL);
	CHECK_EQ(weft_nvmf_ana(n.subsys, WEFT_NVMF_ANA_INACCESSIBLE + 1), -EINVAL);
	/* the same state is no change */
	CHECK_EQ(weft_nvmf_ana(n.subsys, WEFT_NVMF_ANA_OPTIMIZED), 0);
	nv_poll(&n);
	CHECK(!nv_answered(&admin, aer.cid, &status));
	CHECK_EQ(weft_nvmf_ana(n.subsys, WEFT_NVMF_ANA_INACCESSIBLE), 0);
	CHECK_EQ(nv_wait(&admin, aer.cid), 0);
	CHECK_EQ(admin.result, EVENT_ANA);
	for (unsigned int i = 0; i < sizeof(cmd); i++) {
		sqe = nv_sqe(cmd[i], 1, 0, 1, 0);
		CHECK_EQ(nv_do(&io, &sqe, NULL, 0), WEFT_NVMF_ANA_NO_ACCESS);
	}
	sqe = nv_sqe(WEFT_NVMF_ADMIN_SET_FEATURES, 1, WEFT_NVMF_FEAT_RESV_PERSIST, 0, 0);
	CHECK_EQ(nv_do(&admin, &sqe, NULL, 0), WEFT_NVMF_ANA_NO_ACCESS);
	CHECK_EQ(weft_nvmf_ns_query(n.subsys, 1, &stats), 0);
	CHECK_EQ(stats.ana, WEFT_NVMF_ANA_INACCESSIBLE);
	/* what it is can be asked for all the same */
	CHECK_EQ(nv_identify(&admin, WEFT_NVMF_CNS_NS, 1, page), 0);
	CHECK(weft_nvmf_get64(page) > 0);

	/* the next event comes when the log was read without RAE */
	CHECK_EQ(nv_send(&admin, &aer, NULL, 0), 0);
	CHECK_EQ(weft_nvmf_ana(n.subsys, WEFT_NVMF_ANA_NON_OPTIMIZED), 0);
	nv_poll(&n);
	CHECK(!nv_answered(&admin, aer.cid, &status));
	CHECK_EQ(ana_log(0, true, 0, p, sizeof(p)), 0);
	nv_poll(&n);
	CHECK(!nv_answered(&admin, aer.cid, &status));
	CHECK_EQ(state_told(), WEFT_NVMF_ANA_NON_OPTIMIZED);
	nv_poll(&n);
	CHECK(!nv_answered(&admin, aer.cid, &status)); /* it has just read it */
	CHECK_EQ(rd(), 0);
	CHECK_EQ(weft_nvmf_ana(n.subsys, WEFT_NVMF_ANA_OPTIMIZED), 0);
	CHECK_EQ(nv_wait(&admin, aer.cid), 0);
	end();
}

/** The volume goes away and comes back: so does the path. */
static void
test_backend(void)
{
	struct weft_nvmf_sqe aer = nv_sqe(WEFT_NVMF_ADMIN_AER, 0, 0, 0, 0);
	struct weft_nvmf_sqe on = nv_sqe(WEFT_NVMF_ADMIN_SET_FEATURES, 0, 0xb, 0x800, 0);

	begin(WEFT_NVMF_ANA_OPTIMIZED);
	CHECK_EQ(state_told(), WEFT_NVMF_ANA_OPTIMIZED);
	CHECK_EQ(nv_do(&admin, &on, NULL, 0), 0);
	CHECK_EQ(nv_send(&admin, &aer, NULL, 0), 0);
	/* the host's own group first: another one has it still */
	CHECK_EQ(weft_nvmf_group_detach(n.group[1], n.subsys, 1), 0);
	CHECK_EQ(rd(), WEFT_NVMF_ANA_CHANGES);
	CHECK_EQ(state_told(), WEFT_NVMF_ANA_OPTIMIZED);
	CHECK_EQ(weft_nvmf_group_detach(n.group[0], n.subsys, 1), 0);
	CHECK_EQ(nv_wait(&admin, aer.cid), 0);
	CHECK_EQ(admin.result, EVENT_ANA);
	CHECK_EQ(rd(), WEFT_NVMF_ANA_NO_ACCESS);
	CHECK_EQ(state_told(), WEFT_NVMF_ANA_INACCESSIBLE);
	CHECK_EQ(nv_send(&admin, &aer, NULL, 0), 0);
	/* it is opened again */
	CHECK_EQ(weft_nvmf_ns_renew(n.subsys, &n.ns), 0);
	CHECK_EQ(state_told(), WEFT_NVMF_ANA_INACCESSIBLE);
	for (unsigned int g = 0; g < NV_GROUPS; g++)
		CHECK_EQ(weft_nvmf_group_attach(n.group[g], n.subsys, 1, n.vol.chan[g]), 0);
	CHECK_EQ(nv_wait(&admin, aer.cid), 0);
	CHECK_EQ(state_told(), WEFT_NVMF_ANA_OPTIMIZED);
	CHECK_EQ(rd(), 0);
	end();
}

/** A namespace that this target does not have, and that the host knows from another path, or from
 * before a restart of this target: it is told to use the other path, and not that its command is
 * wrong, which its file system would take for a fault of the disk. */
static void
test_not_here(void)
{
	struct weft_nvmf_sqe sqe;

	begin(WEFT_NVMF_ANA_OPTIMIZED);
	for (unsigned int g = 0; g < NV_GROUPS; g++)
		CHECK_EQ(weft_nvmf_group_detach(n.group[g], n.subsys, 1), 0);
	CHECK_EQ(weft_nvmf_ns_remove(n.subsys, 1), 0);
	CHECK_EQ(rd(), WEFT_NVMF_ANA_NO_ACCESS);
	sqe = nv_sqe(WEFT_NVMF_IO_FLUSH, 1, 0, 0, 0);
	CHECK_EQ(nv_do(&io, &sqe, NULL, 0), WEFT_NVMF_ANA_NO_ACCESS);
	sqe = nv_sqe(WEFT_NVMF_IO_FLUSH, 9, 0, 0, 0);
	CHECK_EQ(nv_do(&io, &sqe, NULL, 0), NEVER(WEFT_NVMF_INVALID_NS));
	end();
	begin(WEFT_NVMF_ANA_OFF);
	for (unsigned int g = 0; g < NV_GROUPS; g++)
		CHECK_EQ(weft_nvmf_group_detach(n.group[g], n.subsys, 1), 0);
	CHECK_EQ(weft_nvmf_ns_remove(n.subsys, 1), 0);
	CHECK_EQ(rd(), NEVER(WEFT_NVMF_INVALID_FIELD));
	end();
}

/** Its device is gone before the groups let go of it: what a command is told is what log page 0Ch
 * allows. */
static void
test_device(void)
{
	memset(&n, 0, sizeof(n));
	n.ana = WEFT_NVMF_ANA_NON_OPTIMIZED;
	n.seed = 7;
	nv_start(&n);
	nv_admin(&n, 0, &admin, NV_SUBSYS);
	nv_io(&n, 1, &io, &admin, 1);
	CHECK_EQ(rd(), 0);
	weft_block_fault_cut(n.vol.block);
	CHECK_EQ(state_told(), WEFT_NVMF_ANA_NON_OPTIMIZED);
	CHECK_EQ(rd(), WEFT_NVMF_ANA_CHANGES);
	for (unsigned int g = 0; g < NV_GROUPS; g++)
		CHECK_EQ(weft_nvmf_group_detach(n.group[g], n.subsys, 1), 0);
	CHECK_EQ(state_told(), WEFT_NVMF_ANA_INACCESSIBLE);
	CHECK_EQ(rd(), WEFT_NVMF_ANA_NO_ACCESS);
	weft_block_fault_boot(n.vol.block);
	end();
}

/** Two targets of a subsystem number their controllers from ranges that do not overlap. */
static void
test_numbers(void)
{
	struct weft_nvmf_subsys_attr sa = {.nqn = "nqn.2026-01.org.example:two",
	                                   .serial = "S",
	                                   .any_host = true,
	                                   .cntlid_min = 7,
	                                   .cntlid_max = 6};
	struct weft_nvmf_subsys *s;
	struct nv_queue a, b, c, d, e, f;
	uint16_t last;

	memset(&n, 0, sizeof(n));
	n.cntlid_min = 100;
	n.cntlid_max = 101;
	nv_start(&n);
	nv_admin(&n, 0, &a, NV_SUBSYS);
	nv_admin(&n, 1, &b, NV_SUBSYS);
	CHECK_EQ(a.cntlid, 100);
	CHECK_EQ(b.cntlid, 101);
	nv_open(&n, 0, &c);
	CHECK_EQ(nv_connect(&c, NV_SUBSYS, NV_HOST, 0xffff, 0, 31, 0), WEFT_NVMF_CONNECT_BUSY);
	nv_close(&c);
	CHECK_EQ(nv_identify(&a, WEFT_NVMF_CNS_CTRL, 0, page), 0);
	CHECK_EQ(weft_nvmf_get16(page + 78), 100);
	nv_close(&a);
	nv_admin(&n, 0, &a, NV_SUBSYS);
	CHECK_EQ(a.cntlid, 100);
	/* discovery is of each target alone */
	nv_admin(&n, 0, &c, WEFT_NVMF_DISCOVERY_NQN);
	last = c.cntlid;
	CHECK(last != 100 && last != 101);
	nv_close(&c);
	nv_close(&a);
	nv_close(&b);
	CHECK_EQ(weft_nvmf_subsys_add(n.target, &sa, &s), -EINVAL);
	sa.cntlid_max = 0xfff0;
	CHECK_EQ(weft_nvmf_subsys_add(n.target, &sa, &s), -EINVAL);
	sa.cntlid_min = 0xfff0;
	sa.cntlid_max = 0;
	CHECK_EQ(weft_nvmf_subsys_add(n.target, &sa, &s), -EINVAL);
	sa.cntlid_min = 0xffef;
	CHECK_EQ(weft_nvmf_subsys_add(n.target, &sa, &s), 0);
	nv_admin(&n, 0, &a, sa.nqn);
	CHECK_EQ(a.cntlid, 0xffef);
	nv_close(&a);
	CHECK_EQ(weft_nvmf_subsys_remove(s), 0);
	nv_end(&n);
	/* those of discovery, and of a subsystem without a range, are no part of a range */
	memset(&n, 0, sizeof(n));
	n.cntlid_min = 2;
	n.cntlid_max = 3;
	nv_start(&n);
	sa.cntlid_min = sa.cntlid_max = 0;
	CHECK_EQ(weft_nvmf_subsys_add(n.target, &sa, &s), 0);
	nv_admin(&n, 0, &c, WEFT_NVMF_DISCOVERY_NQN);
	nv_admin(&n, 0, &d, WEFT_NVMF_DISCOVERY_NQN);
	nv_admin(&n, 0, &e, sa.nqn);
	nv_admin(&n, 0, &f, sa.nqn);
	nv_admin(&n, 0, &a, NV_SUBSYS);
	nv_admin(&n, 0, &b, NV_SUBSYS);
	CHECK_EQ(a.cntlid, 2);
	CHECK_EQ(b.cntlid, 3);
	nv_close(&a);
	nv_close(&b);
	nv_close(&c);
	nv_close(&d);
	nv_close(&e);
	nv_close(&f);
	CHECK_EQ(weft_nvmf_subsys_remove(s), 0);
	/* where ranges leave nothing else, they are used */
	sa.cntlid_min = 1;
	sa.cntlid_max = 0xffee;
	CHECK_EQ(weft_nvmf_subsys_add(n.target, &sa, &s), 0);
	nv_admin(&n, 0, &c, WEFT_NVMF_DISCOVERY_NQN);
	CHECK_EQ(c.cntlid, 0xffef);
	nv_admin(&n, 0, &d, WEFT_NVMF_DISCOVERY_NQN);
	CHECK(d.cntlid != 0xffef);
	nv_close(&c);
	nv_close(&d);
	CHECK_EQ(weft_nvmf_subsys_remove(s), 0);
	nv_end(&n);
}

WEFT_TEST_MAIN({"without it", test_off}, {"identify", test_identify}, {"log page 0Ch", test_log},
               {"states and events", test_states}, {"the volume goes and comes back", test_backend},
               {"no such namespace here", test_not_here}, {"the device is gone", test_device},
               {"numbers of controllers", test_numbers})
