/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Reservations: each command by type and holder, keys, preemption, notices, what survives a
 * restart, and that a change is answered when it is durable and seen by all.
 */

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "nvmf_priv.h"
#include "nvmf_rig.h"

#define NEVER(status) ((uint16_t)((status) | WEFT_NVMF_DNR))
#define CONFLICT      NEVER(WEFT_NVMF_CONFLICT)
#define FIELD         NEVER(WEFT_NVMF_INVALID_FIELD)
#define IEKEY         (1U << 3)
#define HOSTS         3
#define HOLDER        0 /**< of the hosts */
#define REGISTRANT    1
#define OTHER         2

/** A host: a controller with an I/O queue. */
struct host {
	struct nv_queue admin, io;
	uint64_t key;
};

static struct nv n;
static struct host h[HOSTS];
static uint8_t buf[8192];

/* ---- What the target's owner keeps ---- */

static struct {
	struct weft_nvmf_resv_change change;
	bool asked, hold;
	int fail;
	uint8_t kept[NVMF_RESV_SAVED_BYTES];
	size_t bytes;
	unsigned int changes;
} owner;

static void
owner_change(void *arg, struct weft_nvmf_resv_change *c)
{
	CHECK(arg == &owner);
	CHECK(!owner.asked);
	owner.change = *c;
	owner.asked = true;
	owner.changes++;
}

/** Do what was asked. */
static void
owner_do(void)
{
	owner.asked = false;
	if (owner.fail == 0 && owner.change.keep) {
		memcpy(owner.kept, owner.change.data, owner.change.bytes);
		owner.bytes = owner.change.bytes;
	}
	weft_nvmf_resv_changed(n.target, owner.change.uuid, owner.fail);
}

/** Whether what is kept brings registrations back. */
static bool
kept_persists(void)
{
	struct nvmf_resv_state r;

	CHECK_EQ(nvmf_resv_load(owner.kept, owner.bytes, owner.change.uuid, &r), 0);
	CHECK(r.persist || r.hosts == 0);
	return r.persist;
}

/** Poll, and let the owner do what it is asked. */
static uint16_t
wait_for(struct nv_queue *q, uint16_t cid)
{
	uint16_t status = 0;

	for (unsigned int i = 0; !nv_answered(q, cid, &status); i++) {
		CHECK(i < 100000);
		if (owner.asked && !owner.hold)
			owner_do();
		nv_poll(&n);
	}
	return status;
}

/* ---- Commands ---- */

static struct weft_nvmf_sqe
resv_sqe(uint8_t opcode, uint32_t cdw10)
{
	return nv_sqe(opcode, 1, cdw10, 0, 0);
}

/** Send one with its keys; they lie in `data`. */
static uint16_t
resv_send(struct host *a, uint8_t opcode, uint32_t cdw10, uint64_t key, uint64_t other,
          uint8_t data[16])
{
	struct weft_nvmf_sqe sqe = resv_sqe(opcode, cdw10);

	weft_nvmf_put64(data, key);
	weft_nvmf_put64(data + 8, other);
	nv_keyed(&sqe, data, 16);
	CHECK_EQ(nv_send(&a->io, &sqe, NULL, 0), 0);
	return sqe.cid;
}

static uint16_t
resv_do(struct host *a, uint8_t opcode, uint32_t cdw10, uint64_t key, uint64_t other)
{
	uint8_t data[16];

	return wait_for(&a->io, resv_send(a, opcode, cdw10, key, other, data));
}

static uint16_t
reg(struct host *a, uint32_t cdw10, uint64_t key, uint64_t fresh)
{
	return resv_do(a, WEFT_NVMF_IO_RESV_REGISTER, cdw10, key, fresh);
}

static uint16_t
acquire(struct host *a, uint32_t action, uint32_t type, uint64_t key, uint64_t other)
{
	return resv_do(a, WEFT_NVMF_IO_RESV_ACQUIRE, action | type << 8, key, other);
}

static uint16_t
release(struct host *a, uint32_t action, uint32_t type, uint64_t key)
{
	return resv_do(a, WEFT_NVMF_IO_RESV_RELEASE, action | type << 8, key, 0);
}

/** Report, of `bytes` octets. */
static void
report(struct host *a, void *to, uint32_t bytes)
{
	struct weft_nvmf_sqe sqe = nv_sqe(WEFT_NVMF_IO_RESV_REPORT, 1, bytes / 4 - 1, 1, 0);

	memset(to, 0xee, bytes);
	CHECK_EQ(nv_do(&a->io, &sqe, to, bytes), 0);
}

static uint32_t
generation(struct host *a)
{
	uint8_t p[64];

	report(a, p, sizeof(p));
	return weft_nvmf_get32(p);
}

/** RTYPE, and how many are registered. */
static void
check_state(struct host *a, uint8_t type, unsigned int hosts)
{
	uint8_t p[64];

	report(a, p, sizeof(p));
	CHECK_EQ(p[4], type);
	CHECK_EQ(weft_nvmf_get16(p + 5), hosts);
}

static void
host_up(struct host *a, unsigned int i)
{
	n.host = (uint8_t)(i + 1);
	nv_admin(&n, i % 2, &a->admin, NV_SUBSYS);
	/* the queue is on the other group */
	nv_io(&n, (i + 1) % 2, &a->io, &a->admin, 1);
	a->key = 0xa0 + i;
}

static void
host_down(struct host *a)
{
	nv_close(&a->io);
	nv_close(&a->admin);
}

static void
begin_of(bool keeps, uint32_t ctrls)
{
	memset(&n, 0, sizeof(n));
	memset(&owner, 0, sizeof(owner));
	n.attr.max_ctrls = ctrls;
	if (keeps)
		n.attr.resv = (struct weft_nvmf_resv_ops){
		        .change = owner_change, .persists = true, .owner = &owner};
	n.ns.volatile_cache = true;
	nv_start(&n);
	for (unsigned int i = 0; i < HOSTS; i++)
		host_up(&h[i], i);
}

static void
begin_with(bool keeps)
{
	begin_of(keeps, 0);
}

static void
begin(void)
{
	begin_with(true);
}

static void
end(void)
{
	for (unsigned int i = 0; i < HOSTS; i++)
		host_down(&h[i]);
	nv_end(&n);
}

/** The first two hosts are registered, and the first one holds a reservation. */
static void
hold(uint32_t type)
{
	CHECK_EQ(reg(&h[HOLDER], NVMF_RREGA_REGISTER, 0, h[HOLDER].key), 0);
	CHECK_EQ(reg(&h[REGISTRANT], NVMF_RREGA_REGISTER, 0, h[REGISTRANT].key), 0);
	CHECK_EQ(acquire(&h[HOLDER], NVMF_RACQA_ACQUIRE, type, h[HOLDER].key, 0), 0);
}

/* ---- The commands of others ---- */

/** Do it on the host's queue; a fused pair is of two. */
static uint16_t
other_do(struct host *a, uint8_t opcode, bool fused)
{
	struct weft_nvmf_sqe sqe = nv_sqe(opcode, 1, 0, 0, 0), two;
	uint16_t first;

	memset(buf, 0, sizeof(buf));
	if (fused) {
		two = nv_sqe(WEFT_NVMF_IO_WRITE, 1, 0, 0, 0);
		sqe.fuse = 1;
		two.fuse = 2;
		nv_keyed(&sqe, buf, 512);
		nv_keyed(&two, buf, 512);
		CHECK_EQ(nv_send(&a->io, &sqe, NULL, 0), 0);
		CHECK_EQ(nv_send(&a->io, &two, NULL, 0), 0);
		first = nv_wait(&a->io, sqe.cid);
		CHECK_EQ(nv_wait(&a->io, two.cid), first == 0 ? 0 : WEFT_NVMF_FUSED_FAILED);
		return first;
	}
	switch (opcode) {
	case WEFT_NVMF_IO_DSM:
		sqe.cdw[11] = 4;
		weft_nvmf_put32(buf + 4, 1);
		return nv_do(&a->io, &sqe, buf, 16);
	case WEFT_NVMF_IO_FLUSH:
	case WEFT_NVMF_IO_WRITE_ZEROES:
	case WEFT_NVMF_IO_VERIFY:
		return nv_do(&a->io, &sqe, NULL, 0);
	default:
		return nv_do(&a->io, &sqe, buf, 512);
	}
}

static void
test_table(void)
{
	static const struct {
		uint8_t opcode;
		bool fused, write;
	} cmd[] = {
	        {WEFT_NVMF_IO_READ, false, false},        {WEFT_NVMF_IO_COMPARE, false, false},
	        {WEFT_NVMF_IO_VERIFY, false, false},      {WEFT_NVMF_IO_WRITE, false, true},
	        {WEFT_NVMF_IO_FLUSH, false, true},        {WEFT_NVMF_IO_DSM, false, true},
	        {WEFT_NVMF_IO_WRITE_ZEROES, false, true}, {WEFT_NVMF_IO_COMPARE, true, true},
	};
	/* by type: whether a registrant, and another host, may read and write */
	static const bool may[NVMF_RESV_TYPES][2][2] = {
	        [NVMF_RESV_NONE] = {{true, true}, {true, true}},
	        [NVMF_RESV_WRITE] = {{true, false}, {true, false}},
	        [NVMF_RESV_ACCESS] = {{false, false}, {false, false}},
	        [NVMF_RESV_WRITE_REG] = {{true, true}, {true, false}},
	        [NVMF_RESV_ACCESS_REG] = {{true, true}, {false, false}},
	        [NVMF_RESV_WRITE_ALL] = {{true, true}, {true, false}},
	        [NVMF_RESV_ACCESS_ALL] = {{true, true}, {false, false}},
	};
	struct weft_nvmf_stats stats;
	uint64_t conflicts = 0;

	begin();
	for (uint32_t type = 1; type < NVMF_RESV_TYPES; type++) {
		hold(type);
		for (unsigned int c = 0; c < sizeof(cmd) / sizeof(cmd[0]); c++)
			for (unsigned int i = 0; i < HOSTS; i++) {
				const bool ok = i == HOLDER || may[type][i - 1][cmd[c].write];
				const uint16_t status =
				        other_do(&h[i], cmd[c].opcode, cmd[c].fused);

				CHECK_MSG(status == (ok ? 0 : CONFLICT),
				          "type %u, opcode %x, host %u: %x", type, cmd[c].opcode, i,
				          status);
				conflicts += !ok;
			}
		/* commands of reservations: a host that is no registrant may report and register */
		check_state(&h[OTHER], (uint8_t)type, 2);
		CHECK_EQ(acquire(&h[OTHER], NVMF_RACQA_ACQUIRE, type, 1, 0), CONFLICT);
		CHECK_EQ(release(&h[OTHER], NVMF_RRELA_RELEASE, type, 1), CONFLICT);
		CHECK_EQ(reg(&h[OTHER], NVMF_RREGA_REGISTER, 0, 5), 0);
		CHECK_EQ(release(&h[OTHER], NVMF_RRELA_CLEAR, 0, 5), 0);
		check_state(&h[OTHER], NVMF_RESV_NONE, 0);
	}
	for (unsigned int i = 0; i < HOSTS; i++)
		CHECK_EQ(other_do(&h[i], WEFT_NVMF_IO_WRITE, false), 0);
	weft_nvmf_query_stats(n.target, &stats);
	CHECK_EQ(stats.conflicts, conflicts);
	end();
}

/* ---- Register ---- */

static void
test_register(void)
{
	uint32_t gen;

	begin();
	CHECK_EQ(generation(&h[0]), 0);
	CHECK_EQ(reg(&h[0], NVMF_RREGA_REGISTER, 99, 7), 0);
	CHECK_EQ(generation(&h[0]), 1);
	/* again: with the same key */
	CHECK_EQ(reg(&h[0], NVMF_RREGA_REGISTER, 0, 7), 0);
	CHECK_EQ(reg(&h[0], NVMF_RREGA_REGISTER, 7, 8), CONFLICT);
	CHECK_EQ(reg(&h[0], NVMF_RREGA_REGISTER | IEKEY, 7, 8), CONFLICT);
	CHECK_EQ(generation(&h[0]), 2);
	/* a key of 0 is none */
	CHECK_EQ(reg(&h[1], NVMF_RREGA_REGISTER, 0, 0), FIELD);
	CHECK_EQ(reg(&h[0], NVMF_RREGA_REPLACE, 7, 0), FIELD);
	for (uint32_t action = 3; action < 8; action++)
		CHECK_EQ(reg(&h[0], action, 7, 8), FIELD);
	/* CPTPL 01b is reserved */
	CHECK_EQ(reg(&h[0], NVMF_RREGA_REPLACE | 1U << 30, 7, 8), FIELD);
	CHECK_EQ(generation(&h[0]), 2);

	CHECK_EQ(reg(&h[0], NVMF_RREGA_REPLACE, 6, 8), CONFLICT);
	CHECK_EQ(reg(&h[0], NVMF_RREGA_REPLACE, 7, 8), 0);
	CHECK_EQ(reg(&h[0], NVMF_RREGA_REPLACE | IEKEY, 1, 9), 0);
	CHECK_EQ(reg(&h[1], NVMF_RREGA_REPLACE, 0, 9), CONFLICT);
	CHECK_EQ(reg(&h[1], NVMF_RREGA_REPLACE | IEKEY, 0, 9), 0);
	check_state(&h[2], 0, 2);

	CHECK_EQ(reg(&h[2], NVMF_RREGA_UNREGISTER, 9, 0), CONFLICT);
	CHECK_EQ(reg(&h[2], NVMF_RREGA_UNREGISTER | IEKEY, 9, 0), CONFLICT);
	CHECK_EQ(reg(&h[1], NVMF_RREGA_UNREGISTER, 8, 0), CONFLICT);
	gen = generation(&h[1]);
	CHECK_EQ(reg(&h[1], NVMF_RREGA_UNREGISTER, 9, 0), 0);
	CHECK_EQ(reg(&h[0], NVMF_RREGA_UNREGISTER | IEKEY, 0, 0), 0);
	CHECK_EQ(generation(&h[1]), gen + 2);
	check_state(&h[2], 0, 0);
	end();
}

static void
test_hostid_zero(void)
{
	struct nv_queue admin, io;
	struct weft_nvmf_connect c = {.cntlid = 0xffff};
	struct weft_nvmf_sqe sqe = nv_sqe(WEFT_NVMF_OP_FABRICS, 0, 0, 31, 0);
	uint8_t data[WEFT_NVMF_CONNECT_BYTES];
	begin();
	strcpy(c.subnqn, NV_SUBSYS);
	strcpy(c.hostnqn, NV_HOST);
	sqe.fctype = WEFT_NVMF_FC_CONNECT;
	nv_open(&n, 0, &admin);
	nv_connect_encode(&c, data);
	CHECK_EQ(nv_do(&admin, &sqe, data, sizeof(data)), 0);
	c.cntlid = (uint16_t)admin.result;
	CHECK_EQ(nv_property_set(&admin, WEFT_NVMF_PROP_CC, 0x460001), 0);
	sqe.cdw[10] = 1U << 16;
	nv_open(&n, 0, &io);
	nv_connect_encode(&c, data);
	CHECK_EQ(nv_do(&io, &sqe, data, sizeof(data)), 0);
	sqe = resv_sqe(WEFT_NVMF_IO_RESV_REGISTER, NVMF_RREGA_REGISTER);
	CHECK_EQ(nv_do(&io, &sqe, data, 16), NEVER(WEFT_NVMF_SEQUENCE));
	sqe = resv_sqe(WEFT_NVMF_IO_RESV_ACQUIRE, 1U << 8);
	CHECK_EQ(nv_do(&io, &sqe, data, 16), NEVER(WEFT_NVMF_SEQUENCE));
	sqe = resv_sqe(WEFT_NVMF_IO_RESV_RELEASE, 1U << 8);
	CHECK_EQ(nv_do(&io, &sqe, data, 16), NEVER(WEFT_NVMF_SEQUENCE));
	nv_close(&io);
	nv_close(&admin);
	end();
}

/** A volume has so many registrants; the next one is refused, and counted. */
static void
test_full(void)
{
	struct weft_nvmf_stats stats;
	struct nvmf_resv_state r = {0};
	struct nvmf_resv_told told;
	uint8_t hostid[16] = {1};
	struct nvmf_resv_cmd cmd = {.hostid = hostid, .other = 1};
	struct weft_nvmf_ns_attr attr;
	uint8_t saved[NVMF_RESV_SAVED_BYTES];

	begin();
	for (unsigned int i = 0; i < NVMF_RESV_HOSTS; i++) {
		hostid[1] = (uint8_t)i;
		CHECK_EQ(nvmf_resv_register(&r, &cmd, &told), 0);
	}
	r.persist = true;
	attr = n.ns;
	attr.nsid = 2;
	attr.resv = saved;
	attr.resv_bytes = nvmf_resv_save(&r, weft_vol_info(n.vol.vol)->super.uuid, saved);
	CHECK_EQ(attr.resv_bytes, NVMF_RESV_SAVED_BYTES);
	/* the target knows the volume: what was kept is of before */
	CHECK_EQ(weft_nvmf_ns_add(n.subsys, &attr), 0);
	check_state(&h[0], 0, 0);
	CHECK_EQ(weft_nvmf_ns_remove(n.subsys, 2), 0);
	for (unsigned int g = 0; g < NV_GROUPS; g++)
		CHECK_EQ(weft_nvmf_group_detach(n.group[g], n.subsys, 1), 0);
	CHECK_EQ(weft_nvmf_ns_remove(n.subsys, 1), 0);
	attr.nsid = 1;
	CHECK_EQ(weft_nvmf_ns_add(n.subsys, &attr), 0);
	for (unsigned int g = 0; g < NV_GROUPS; g++)
		CHECK_EQ(weft_nvmf_group_attach(n.group[g], n.subsys, 1, n.vol.chan[g]), 0);
	check_state(&h[0], 0, NVMF_RESV_HOSTS);
	CHECK_EQ(reg(&h[0], NVMF_RREGA_REGISTER, 0, 1), NEVER(WEFT_NVMF_INTERNAL));
	weft_nvmf_query_stats(n.target, &stats);
	CHECK_EQ(stats.resv_full, 1);
	check_state(&h[0], 0, NVMF_RESV_HOSTS);
	end();
}

/* ---- Acquire, Release ---- */

static void
test_acquire(void)
{
	begin();
	hold(NVMF_RESV_WRITE);
	/* types that are none; IEKEY, which this command has no more; actions */
	CHECK_EQ(acquire(&h[0], NVMF_RACQA_ACQUIRE, 0, h[0].key, 0), FIELD);
	for (uint32_t type = NVMF_RESV_TYPES; type < 256; type += 31)
		CHECK_EQ(acquire(&h[0], NVMF_RACQA_ACQUIRE, type, h[0].key, 0), FIELD);
	CHECK_EQ(acquire(&h[0], NVMF_RACQA_ACQUIRE | IEKEY, 1, h[0].key, 0), FIELD);
	for (uint32_t action = 3; action < 8; action++)
		CHECK_EQ(acquire(&h[0], action, 1, h[0].key, 0), FIELD);
	/* it holds it: the same type is nothing new, another one a conflict */
	CHECK_EQ(acquire(&h[0], NVMF_RACQA_ACQUIRE, NVMF_RESV_WRITE, h[0].key, 0), 0);
	CHECK_EQ(acquire(&h[0], NVMF_RACQA_ACQUIRE, NVMF_RESV_WRITE, 1, 0), CONFLICT);
	CHECK_EQ(acquire(&h[0], NVMF_RACQA_ACQUIRE, NVMF_RESV_ACCESS, h[0].key, 0), CONFLICT);
	CHECK_EQ(acquire(&h[1], NVMF_RACQA_ACQUIRE, NVMF_RESV_WRITE, h[1].key, 0), CONFLICT);
	CHECK_EQ(generation(&h[0]), 2);

	/* Release: of another's, of another type, of its own, of none */
	CHECK_EQ(release(&h[1], NVMF_RRELA_RELEASE, NVMF_RESV_ACCESS, h[1].key), 0);
	CHECK_EQ(release(&h[0], NVMF_RRELA_RELEASE, NVMF_RESV_ACCESS, h[0].key), FIELD);
	CHECK_EQ(release(&h[0], NVMF_RRELA_RELEASE, NVMF_RESV_WRITE, 1), CONFLICT);
	CHECK_EQ(release(&h[0], NVMF_RRELA_RELEASE | IEKEY, NVMF_RESV_WRITE, h[0].key), FIELD);
	for (uint32_t action = 2; action < 8; action++)
		CHECK_EQ(release(&h[0], action, NVMF_RESV_WRITE, h[0].key), FIELD);
	check_state(&h[0], NVMF_RESV_WRITE, 2);
	CHECK_EQ(release(&h[0], NVMF_RRELA_RELEASE, NVMF_RESV_WRITE, h[0].key), 0);
	CHECK_EQ(release(&h[0], NVMF_RRELA_RELEASE, NVMF_RESV_WRITE, h[0].key), 0);
	check_state(&h[0], 0, 2);
	CHECK_EQ(generation(&h[0]), 2);

	/* all registrants hold it: each may acquire and release it */
	CHECK_EQ(acquire(&h[0], NVMF_RACQA_ACQUIRE, NVMF_RESV_WRITE_ALL, h[0].key, 0), 0);
	CHECK_EQ(acquire(&h[1], NVMF_RACQA_ACQUIRE, NVMF_RESV_WRITE_ALL, h[1].key, 0), 0);
	CHECK_EQ(acquire(&h[1], NVMF_RACQA_ACQUIRE, NVMF_RESV_ACCESS_ALL, h[1].key, 0), CONFLICT);
	/* it stays until the last of them is gone */
	CHECK_EQ(reg(&h[0], NVMF_RREGA_UNREGISTER, h[0].key, 0), 0);
	check_state(&h[0], NVMF_RESV_WRITE_ALL, 1);
	CHECK_EQ(other_do(&h[0], WEFT_NVMF_IO_WRITE, false), CONFLICT);
	CHECK_EQ(release(&h[1], NVMF_RRELA_RELEASE, NVMF_RESV_WRITE_ALL, h[1].key), 0);
	check_state(&h[0], 0, 1);
	CHECK_EQ(acquire(&h[1], NVMF_RACQA_ACQUIRE, NVMF_RESV_WRITE_ALL, h[1].key, 0), 0);
	CHECK_EQ(reg(&h[1], NVMF_RREGA_UNREGISTER, h[1].key, 0), 0);
	check_state(&h[0], 0, 0);
	CHECK_EQ(other_do(&h[0], WEFT_NVMF_IO_WRITE, false), 0);

	/* the only holder's end is that of the reservation */
	hold(NVMF_RESV_ACCESS_REG);
	CHECK_EQ(reg(&h[HOLDER], NVMF_RREGA_UNREGISTER, h[HOLDER].key, 0), 0);
	check_state(&h[0], 0, 1);
	CHECK_EQ(other_do(&h[OTHER], WEFT_NVMF_IO_WRITE, false), 0);
	end();
}

/** Data of a length that the command does not have. Linux sends 16 octets with a Release. */
static void
test_lengths(void)
{
	static const struct {
		uint8_t opcode;
		uint32_t cdw10;
	} cmd[] = {{WEFT_NVMF_IO_RESV_REGISTER, 0},
	           {WEFT_NVMF_IO_RESV_ACQUIRE, 1U << 8},
	           {WEFT_NVMF_IO_RESV_RELEASE, 1U << 8}};

	begin();
	for (unsigned int c = 0; c < 3; c++)
		for (uint32_t bytes = 4; bytes <= 24; bytes += 4) {
			const bool ok = bytes == 16 || (c == 2 && bytes == 8);
			struct weft_nvmf_sqe sqe = resv_sqe(cmd[c].opcode, cmd[c].cdw10);
			uint8_t data[24] = {0};
			uint16_t status;

			status = nv_do(&h[0].io, &sqe, data, bytes);
			CHECK_EQ(status, !ok      ? NEVER(WEFT_NVMF_SGL_LENGTH)
			                 : c == 0 ? FIELD
			                          : CONFLICT);
		}
	end();
}

/* ---- Preempt ---- */

static void
test_preempt(void)
{
	uint32_t gen;

	begin();
	/* no reservation: registrations of a key go, and none is made */
	CHECK_EQ(reg(&h[0], 0, 0, h[0].key), 0);
	CHECK_EQ(reg(&h[1], 0, 0, 5), 0);
	CHECK_EQ(reg(&h[2], 0, 0, 5), 0);
	gen = generation(&h[0]);
	CHECK_EQ(acquire(&h[0], NVMF_RACQA_PREEMPT, 1, h[0].key, 6), CONFLICT);
	CHECK_EQ(acquire(&h[0], NVMF_RACQA_PREEMPT, 1, h[0].key, 0), FIELD);
	CHECK_EQ(acquire(&h[0], NVMF_RACQA_PREEMPT, 1, 1, 5), CONFLICT);
	CHECK_EQ(generation(&h[0]), gen);
	CHECK_EQ(acquire(&h[0], NVMF_RACQA_PREEMPT, 1, h[0].key, 5), 0);
	CHECK_EQ(generation(&h[0]), gen + 1);
	check_state(&h[0], 0, 1);

	/* of the holder: its reservation goes with it, and is the preempter's */
	CHECK_EQ(reg(&h[1], 0, 0, h[1].key), 0);
	CHECK_EQ(reg(&h[2], 0, 0, h[2].key), 0);
	CHECK_EQ(acquire(&h[0], NVMF_RACQA_ACQUIRE, NVMF_RESV_WRITE, h[0].key, 0), 0);
	CHECK_EQ(acquire(&h[1], NVMF_RACQA_PREEMPT, NVMF_RESV_ACCESS, h[1].key, 0), FIELD);
	CHECK_EQ(acquire(&h[1], NVMF_RACQA_PREEMPT, NVMF_RESV_ACCESS, h[1].key, h[0].key), 0);
	check_state(&h[0], NVMF_RESV_ACCESS, 2);
	CHECK_EQ(other_do(&h[1], WEFT_NVMF_IO_WRITE, false), 0);
	CHECK_EQ(other_do(&h[0], WEFT_NVMF_IO_READ, false), CONFLICT);
	CHECK_EQ(other_do(&h[2], WEFT_NVMF_IO_READ, false), CONFLICT);
	CHECK_EQ(acquire(&h[0], NVMF_RACQA_PREEMPT, 1, h[0].key, h[1].key), CONFLICT);

	/* of itself: another type in one step */
	CHECK_EQ(acquire(&h[1], NVMF_RACQA_PREEMPT, NVMF_RESV_WRITE_REG, h[1].key, h[1].key), 0);
	check_state(&h[0], NVMF_RESV_WRITE_REG, 2);
	CHECK_EQ(other_do(&h[2], WEFT_NVMF_IO_WRITE, false), 0);
	/* of a registrant that is no holder: the reservation stays */
	CHECK_EQ(acquire(&h[1], NVMF_RACQA_PREEMPT, NVMF_RESV_WRITE, h[1].key, h[2].key), 0);
	check_state(&h[0], NVMF_RESV_WRITE_REG, 1);
	CHECK_EQ(other_do(&h[2], WEFT_NVMF_IO_WRITE, false), CONFLICT);
	CHECK_EQ(release(&h[1], NVMF_RRELA_CLEAR, 0, h[1].key), 0);

	/* all registrants: with key 0 all others go; with a key, those that have it */
	hold(NVMF_RESV_WRITE_ALL);
	CHECK_EQ(reg(&h[2], 0, 0, h[2].key), 0);
	CHECK_EQ(acquire(&h[2], NVMF_RACQA_PREEMPT, NVMF_RESV_ACCESS, h[2].key, 77), CONFLICT);
	CHECK_EQ(acquire(&h[2], NVMF_RACQA_PREEMPT, NVMF_RESV_ACCESS, h[2].key, h[0].key), 0);
	check_state(&h[0], NVMF_RESV_WRITE_ALL, 2);
	CHECK_EQ(acquire(&h[2], NVMF_RACQA_PREEMPT, NVMF_RESV_ACCESS, h[2].key, 0), 0);
	check_state(&h[0], NVMF_RESV_ACCESS, 1);
	CHECK_EQ(other_do(&h[2], WEFT_NVMF_IO_WRITE, false), 0);
	CHECK_EQ(other_do(&h[1], WEFT_NVMF_IO_READ, false), CONFLICT);
	end();
}

/** Preempt and Abort is answered when the other host's commands have ended. What waits for its
 * host's data does not keep it from that, and never reaches the volume. */
static void
test_abort(void)
{
	const struct weft_block_fault_hit hit = {.ops = 1U << WEFT_BLOCK_WRITE};
	struct weft_nvmf_sqe w = nv_sqe(WEFT_NVMF_IO_WRITE, 1, 0, 0, 7), late = w;
	uint8_t keys[16];
	uint16_t status, cid;

	memset(&n, 0, sizeof(n));
	memset(&owner, 0, sizeof(owner));
	n.seed = 7;
	n.disk_block = 4096;
	nv_start(&n);
	for (unsigned int i = 0; i < HOSTS; i++)
		host_up(&h[i], i);
	hold(NVMF_RESV_WRITE_REG);
	weft_block_fault_stick(n.vol.block, &hit);
	memset(buf, 0x55, sizeof(buf));
	w.cdw[12] = late.cdw[12] = 0;
	nv_keyed(&w, buf, 4096);
	CHECK_EQ(nv_send(&h[REGISTRANT].io, &w, NULL, 0), 0);
	h[REGISTRANT].io.hold_pulls = true;
	late.cdw[10] = 64;
	nv_keyed(&late, buf, 4096);
	CHECK_EQ(nv_send(&h[REGISTRANT].io, &late, NULL, 0), 0);
	for (unsigned int i = 0; i < 100; i++)
		nv_poll(&n);
	cid = resv_send(&h[HOLDER], WEFT_NVMF_IO_RESV_ACQUIRE,
	                NVMF_RACQA_PREEMPT_ABORT | NVMF_RESV_WRITE << 8, h[HOLDER].key,
	                h[REGISTRANT].key, keys);
	for (unsigned int i = 0; i < 100; i++)
		nv_poll(&n);
	CHECK(!nv_answered(&h[HOLDER].io, cid, &status));
	/* commands that come now are refused */
	CHECK_EQ(other_do(&h[REGISTRANT], WEFT_NVMF_IO_FLUSH, false), CONFLICT);
	weft_block_fault_stick(n.vol.block, NULL);
	CHECK_EQ(nv_wait(&h[HOLDER].io, cid), 0);
	CHECK(nv_answered(&h[REGISTRANT].io, w.cid, &status));
	CHECK(!nv_answered(&h[REGISTRANT].io, late.cid, &status));
	/* its data comes, too late */
	h[REGISTRANT].io.hold_pulls = false;
	CHECK_EQ(h[REGISTRANT].io.pulls, 1);
	h[REGISTRANT].io.pulls = 0;
	weft_nvmf_pulled(h[REGISTRANT].io.pull[0], 0);
	CHECK_EQ(nv_wait(&h[REGISTRANT].io, late.cid), WEFT_NVMF_ABORTED);
	CHECK_EQ(nv_rw(&h[HOLDER].io, WEFT_NVMF_IO_READ, 64, 1, buf, 4096, 0), 0);
	for (unsigned int i = 0; i < 4096; i++)
		CHECK_EQ(buf[i], 0);
	end();
}

/** A command that waited for its host's data, or for memory, while its host was preempted never
 * reaches the volume, whatever the host may do by then: without a reservation it may write, and
 * when it has registered again, too. */
static void
test_abort_old(void)
{
	static const uint8_t types[] = {NVMF_RESV_NONE, NVMF_RESV_WRITE_REG, NVMF_RESV_ACCESS_REG};
	struct weft_nvmf_stats stats;
	struct weft_nvmf_sqe w[31];
	struct nv_queue *q = &h[REGISTRANT].io;
	static uint8_t data[131072];
	uint8_t back[512];
	unsigned int pulls;
	uint16_t status;

	for (unsigned int k = 0; k < sizeof(types); k++) {
		/* with a reservation there is memory to register again */
		const unsigned int sent = types[k] == NVMF_RESV_NONE ? 31 : 2;

		begin();
		if (types[k] == NVMF_RESV_NONE) {
			CHECK_EQ(reg(&h[HOLDER], 0, 0, h[HOLDER].key), 0);
			CHECK_EQ(reg(&h[REGISTRANT], 0, 0, h[REGISTRANT].key), 0);
		} else {
			hold(types[k]);
		}
		memset(data, 0x55, sizeof(data));
		q->hold_pulls = true;
		for (unsigned int i = 0; i < sent; i++) {
			w[i] = nv_sqe(WEFT_NVMF_IO_WRITE, 1, 64, 0, sizeof(data) / 512 - 1);
			nv_keyed(&w[i], data, sizeof(data));
			CHECK_EQ(nv_send(q, &w[i], NULL, 0), 0);
		}
		pulls = q->pulls;
		weft_nvmf_query_stats(n.target, &stats);
		CHECK(pulls > 0);
		CHECK_EQ(stats.memory_waits, sent - pulls);
		CHECK((stats.memory_waits > 0) == (sent > 2));
		CHECK_EQ(acquire(&h[HOLDER], NVMF_RACQA_PREEMPT_ABORT,
		                 types[k] == NVMF_RESV_NONE ? NVMF_RESV_WRITE : types[k],
		                 h[HOLDER].key, h[REGISTRANT].key),
		         0);
		/* what waited for memory has ended */
		for (unsigned int i = pulls; i < sent; i++) {
			CHECK(nv_answered(q, w[i].cid, &status));
			CHECK_EQ(status, WEFT_NVMF_ABORTED);
		}
		q->hold_pulls = false;
		q->pulls = 0;
		if (types[k] != NVMF_RESV_NONE)
			CHECK_EQ(reg(&h[REGISTRANT], 0, 0, h[REGISTRANT].key), 0);
		for (unsigned int i = 0; i < pulls; i++)
			weft_nvmf_pulled(q->pull[i], 0);
		for (unsigned int i = 0; i < pulls; i++)
			CHECK_EQ(nv_wait(q, w[i].cid), WEFT_NVMF_ABORTED);
		CHECK_EQ(nv_rw(&h[HOLDER].io, WEFT_NVMF_IO_READ, 64, 1, back, 512, 0), 0);
		for (unsigned int i = 0; i < sizeof(back); i++)
			CHECK_EQ(back[i], 0);
		/* a new one is done */
		CHECK_EQ(other_do(&h[REGISTRANT], WEFT_NVMF_IO_WRITE, false), 0);
		end();
	}
}

/** The queue of a command that waits is lost; the next one in the row goes on. */
static void
test_lost_queue(void)
{
	uint8_t k0[16], k1[16], k2[16];
	uint16_t c1, c2;

	begin();
	owner.hold = true;
	(void)resv_send(&h[0], WEFT_NVMF_IO_RESV_REGISTER, 3U << 30, 0, 1, k0);
	nv_poll(&n);
	CHECK(owner.asked);
	c1 = resv_send(&h[1], WEFT_NVMF_IO_RESV_REGISTER, 0, 0, 2, k1);
	c2 = resv_send(&h[2], WEFT_NVMF_IO_RESV_REGISTER, 0, 0, 3, k2);
	nv_poll(&n);
	(void)c1;
	weft_nvmf_queue_lost(h[0].io.q);
	weft_nvmf_queue_lost(h[1].io.q);
	for (unsigned int i = 0; i < 100; i++)
		nv_poll(&n);
	/* the device of the state decides when the first one ends */
	CHECK(!h[0].io.gone);
	owner.hold = false;
	CHECK_EQ(wait_for(&h[2].io, c2), 0);
	for (unsigned int i = 0; i < 100; i++)
		nv_poll(&n);
	CHECK(h[0].io.gone && h[1].io.gone);
	/* the first was begun, the second was not */
	check_state(&h[2], 0, 2);
	end();
}

/** A host that always has two reservation commands under way does not keep another one waiting. */
static void
test_turns(void)
{
	struct host *a = &h[0], *b = &h[2];
	uint8_t k[2][16], kb[16];
	unsigned int answers = 0;
	uint16_t cid[2], wait, status;

	begin();
	CHECK_EQ(reg(a, 3U << 30, 0, a->key), 0);
	CHECK_EQ(reg(b, 0, 0, b->key), 0);
	for (unsigned int i = 0; i < 2; i++)
		cid[i] = resv_send(a, WEFT_NVMF_IO_RESV_REGISTER, NVMF_RREGA_REPLACE, a->key,
		                   a->key, k[i]);
	wait = resv_send(b, WEFT_NVMF_IO_RESV_ACQUIRE, NVMF_RACQA_PREEMPT | NVMF_RESV_WRITE << 8,
	                 b->key, a->key, kb);
	while (!nv_answered(&b->io, wait, &status)) {
		for (unsigned int i = 0; i < 2; i++) {
			if (!nv_answered(&a->io, cid[i], &status))
				continue;
			CHECK_EQ(status, 0);
			answers++;
			cid[i] = resv_send(a, WEFT_NVMF_IO_RESV_REGISTER, NVMF_RREGA_REPLACE,
			                   a->key, a->key, k[i]);
		}
		CHECK(answers <= 2);
		if (owner.asked)
			owner_do();
		nv_poll(&n);
	}
	CHECK_EQ(status, 0);
	for (unsigned int i = 0; i < 2; i++)
		CHECK_EQ(wait_for(&a->io, cid[i]), CONFLICT);
	check_state(b, 0, 1);
	end();
}

/** One that waits for its turn ends at once when it is aborted, and the next one goes on. */
static void
test_abort_waits(void)
{
	struct weft_nvmf_sqe abort = nv_sqe(WEFT_NVMF_ADMIN_ABORT, 0, 0, 0, 0);
	struct host own;
	uint8_t k0[16], k1[16], k2[16];
	uint16_t c0, c1, c2, status;

	begin();
	own.admin = h[1].admin;
	/* Abort reaches the commands of its own group */
	n.host = 2;
	nv_io(&n, 1, &own.io, &h[1].admin, 2);
	owner.hold = true;
	c0 = resv_send(&h[0], WEFT_NVMF_IO_RESV_REGISTER, 3U << 30, 0, 1, k0);
	c1 = resv_send(&own, WEFT_NVMF_IO_RESV_REGISTER, 0, 0, 2, k1);
	c2 = resv_send(&h[2], WEFT_NVMF_IO_RESV_REGISTER, 0, 0, 3, k2);
	nv_poll(&n);
	CHECK(owner.asked);
	abort.cdw[10] = (uint32_t)c1 << 16 | 2;
	CHECK_EQ(nv_do(&h[1].admin, &abort, NULL, 0), 0);
	CHECK_EQ(h[1].admin.result, 0);
	CHECK(nv_answered(&own.io, c1, &status));
	CHECK_EQ(status, WEFT_NVMF_ABORTED);
	nv_close(&own.io);
	owner.hold = false;
	CHECK_EQ(wait_for(&h[0].io, c0), 0);
	CHECK_EQ(wait_for(&h[2].io, c2), 0);
	check_state(&h[2], 0, 2);
	end();
}

/* ---- Report ---- */

static void
test_report(void)
{
	uint8_t p[64 + 3 * 64 + 64], part[68];
	struct weft_nvmf_sqe sqe = nv_sqe(WEFT_NVMF_IO_RESV_REPORT, 1, 15, 0, 0);
	struct weft_nvmf_ns_stats stats;

	begin();
	/* identifiers of 64 bits: hosts of Fabrics have 128 */
	CHECK_EQ(nv_do(&h[0].io, &sqe, p, 64), NEVER(WEFT_NVMF_HOSTID_FORMAT));
	sqe = nv_sqe(WEFT_NVMF_IO_RESV_REPORT, 1, 0xffffffff, 1, 0);
	CHECK_EQ(nv_do(&h[0].io, &sqe, p, 64), FIELD);
	sqe = nv_sqe(WEFT_NVMF_IO_RESV_REPORT, 2, 15, 1, 0);
	CHECK_EQ(nv_do(&h[0].io, &sqe, p, 64), FIELD);
	sqe = nv_sqe(WEFT_NVMF_IO_RESV_REPORT, 9, 15, 1, 0);
	CHECK_EQ(nv_do(&h[0].io, &sqe, p, 64), NEVER(WEFT_NVMF_INVALID_NS));
	sqe = nv_sqe(WEFT_NVMF_IO_RESV_REPORT, 1, 15, 1, 0);
	CHECK_EQ(nv_do(&h[0].io, &sqe, p, 60), NEVER(WEFT_NVMF_SGL_LENGTH));

	hold(NVMF_RESV_WRITE_REG);
	report(&h[2], p, sizeof(p));
	CHECK_EQ(weft_nvmf_get32(p), 2);
	CHECK_EQ(p[4], NVMF_RESV_WRITE_REG);
	CHECK_EQ(weft_nvmf_get16(p + 5), 2);
	CHECK_EQ(p[9], 0);
	for (unsigned int i = 0; i < 2; i++) {
		const uint8_t id[16] = {5, 6, 7, [15] = (uint8_t)(i + 1)};
		const uint8_t *at = p + 64 + 64 * (size_t)i;

		CHECK_EQ(weft_nvmf_get16(at), 0xffff);
		CHECK_EQ(at[2], i == HOLDER);
		CHECK_EQ(weft_nvmf_get64(at + 8), h[i].key);
		CHECK_MEM(at + 16, id, 16);
	}
	for (unsigned int i = 64 + 2 * 64; i < sizeof(p); i++)
		CHECK_EQ(p[i], 0);
	/* a part of it */
	report(&h[2], part, sizeof(part));
	CHECK_MEM(part, p, sizeof(part));
	CHECK_EQ(weft_nvmf_ns_query(n.subsys, 1, &stats), 0);
	CHECK_EQ(stats.resv_type, NVMF_RESV_WRITE_REG);
	CHECK_EQ(stats.registrants, 2);
	CHECK_EQ(stats.resv_generation, 2);
	/* all registrants hold it */
	CHECK_EQ(release(&h[0], NVMF_RRELA_CLEAR, 0, h[0].key), 0);
	hold(NVMF_RESV_ACCESS_ALL);
	report(&h[2], p, sizeof(p));
	CHECK_EQ(p[64 + 2], 1);
	CHECK_EQ(p[128 + 2], 1);
	end();
}

static void
test_identify(void)
{
	uint8_t page[4096];

	begin();
	CHECK_EQ(nv_identify(&h[0].admin, WEFT_NVMF_CNS_CTRL, 0, page), 0);
	CHECK_EQ(page[520] & 0x20, 0x20);
	CHECK_EQ(nv_identify(&h[0].admin, WEFT_NVMF_CNS_NS, 1, page), 0);
	CHECK_EQ(page[30] & 1, 1);
	CHECK_EQ(page[31], 0xff);
	CHECK_EQ(nv_log(&h[0].admin, WEFT_NVMF_LOG_EFFECTS, false, 1024, page, 1024), 0);
	for (uint32_t op = 0x0d; op <= 0x15; op++)
		CHECK_EQ(page[4 * op] & 1, op == 0x0d || op == 0x0e || op == 0x11 || op == 0x15);
	end();
	/* nothing keeps them */
	begin_with(false);
	CHECK_EQ(nv_identify(&h[0].admin, WEFT_NVMF_CNS_NS, 1, page), 0);
	CHECK_EQ(page[31], 0xfe);
	CHECK_EQ(reg(&h[0], 3U << 30, 0, 1), FIELD);
	CHECK_EQ(reg(&h[0], 2U << 30, 0, 1), 0);
	end();
}

/* ---- Notices ---- */

/** Set or get feature 82h or 83h. */
static uint16_t
feature(struct host *a, bool set, uint8_t fid, uint32_t nsid, uint32_t value)
{
	struct weft_nvmf_sqe sqe =
	        nv_sqe(set ? WEFT_NVMF_ADMIN_SET_FEATURES : WEFT_NVMF_ADMIN_GET_FEATURES, nsid, fid,
	               value, 0);

	CHECK_EQ(nv_send(&a->admin, &sqe, NULL, 0), 0);
	return wait_for(&a->admin, sqe.cid);
}

/** The notice that the host reads. */
static void
check_notice(struct host *a, uint64_t count, uint8_t notice, uint8_t more)
{
	uint8_t p[64];

	CHECK_EQ(nv_log(&a->admin, WEFT_NVMF_LOG_RESV, false, 0, p, sizeof(p)), 0);
	CHECK_EQ(weft_nvmf_get64(p), count);
	CHECK_EQ(p[8], notice);
	CHECK_EQ(p[9], more);
	CHECK_EQ(weft_nvmf_get32(p + 12), count == 0 ? 0 : 1);
}

static void
test_notices(void)
{
	struct weft_nvmf_sqe aer = nv_sqe(WEFT_NVMF_ADMIN_AER, 0, 0, 0, 0);
	struct weft_nvmf_stats stats;
	uint8_t p[68];
	uint16_t status;

	begin();
	check_notice(&h[1], 0, NVMF_NOTICE_NONE, 0);
	CHECK_EQ(nv_send(&h[1].admin, &aer, NULL, 0), 0);
	/* Release: of types by which others had access */
	hold(NVMF_RESV_WRITE);
	CHECK_EQ(release(&h[0], NVMF_RRELA_RELEASE, NVMF_RESV_WRITE, h[0].key), 0);
	nv_poll(&n);
	CHECK(!nv_answered(&h[1].admin, aer.cid, &status));
	CHECK_EQ(acquire(&h[0], 0, NVMF_RESV_ACCESS_REG, h[0].key, 0), 0);
	CHECK_EQ(release(&h[0], NVMF_RRELA_RELEASE, NVMF_RESV_ACCESS_REG, h[0].key), 0);
	CHECK_EQ(nv_wait(&h[1].admin, aer.cid), 0);
	CHECK_EQ(h[1].admin.result, 0x00800006);
	/* the next event comes when the log was read */
	CHECK_EQ(nv_send(&h[1].admin, &aer, NULL, 0), 0);
	CHECK_EQ(acquire(&h[0], 0, NVMF_RESV_WRITE_REG, h[0].key, 0), 0);
	CHECK_EQ(reg(&h[0], NVMF_RREGA_UNREGISTER, h[0].key, 0), 0);
	nv_poll(&n);
	CHECK(!nv_answered(&h[1].admin, aer.cid, &status));
	/* to read with RAE takes nothing away */
	CHECK_EQ(nv_log(&h[1].admin, WEFT_NVMF_LOG_RESV, true, 0, p, 64), 0);
	CHECK_EQ(p[9], 1);
	check_notice(&h[1], 1, NVMF_NOTICE_RELEASED, 1);
	CHECK_EQ(nv_wait(&h[1].admin, aer.cid), 0);
	check_notice(&h[1], 2, NVMF_NOTICE_RELEASED, 0);
	/* the host that has done it is told of nothing, nor is one that is no registrant */
	check_notice(&h[0], 0, NVMF_NOTICE_NONE, 0);
	check_notice(&h[2], 0, NVMF_NOTICE_NONE, 0);

	/* Preempt, with another type; Clear */
	CHECK_EQ(reg(&h[0], 0, 0, h[0].key), 0);
	CHECK_EQ(reg(&h[2], 0, 0, h[2].key), 0);
	CHECK_EQ(acquire(&h[0], 0, NVMF_RESV_WRITE_REG, h[0].key, 0), 0);
	CHECK_EQ(acquire(&h[1], NVMF_RACQA_PREEMPT, NVMF_RESV_WRITE, h[1].key, h[0].key), 0);
	check_notice(&h[0], 1, NVMF_NOTICE_UNREGISTERED, 0);
	check_notice(&h[2], 1, NVMF_NOTICE_RELEASED, 0);
	CHECK_EQ(release(&h[2], NVMF_RRELA_CLEAR, 0, h[2].key), 0);
	check_notice(&h[1], 3, NVMF_NOTICE_PREEMPTED, 0);
	check_notice(&h[0], 0, NVMF_NOTICE_NONE, 0);

	/* the mask */
	CHECK_EQ(feature(&h[1], true, WEFT_NVMF_FEAT_RESV_MASK, 1, 1U << NVMF_NOTICE_PREEMPTED), 0);
	hold(NVMF_RESV_WRITE_REG);
	CHECK_EQ(release(&h[0], NVMF_RRELA_CLEAR, 0, h[0].key), 0);
	check_notice(&h[1], 0, NVMF_NOTICE_NONE, 0);
	/* too many: the oldest goes */
	for (unsigned int i = 0; i < 33; i++) {
		hold(NVMF_RESV_WRITE_REG);
		CHECK_EQ(release(&h[0], 0, NVMF_RESV_WRITE_REG, h[0].key), 0);
		CHECK_EQ(reg(&h[0], NVMF_RREGA_UNREGISTER, h[0].key, 0), 0);
		CHECK_EQ(reg(&h[1], NVMF_RREGA_UNREGISTER, h[1].key, 0), 0);
	}
	weft_nvmf_query_stats(n.target, &stats);
	CHECK_EQ(stats.notices_lost, 1);
	check_notice(&h[1], 5, NVMF_NOTICE_RELEASED, 31);
	/* what is behind the page is refused or zero */
	CHECK_EQ(nv_log(&h[1].admin, WEFT_NVMF_LOG_RESV, true, 0, p, 68), 0);
	CHECK_EQ(weft_nvmf_get32(p + 64), 0);
	CHECK_EQ(nv_log(&h[1].admin, WEFT_NVMF_LOG_RESV, true, 68, p, 4), FIELD);
	/* a reset forgets them */
	nv_close(&h[1].io);
	CHECK_EQ(nv_property_set(&h[1].admin, WEFT_NVMF_PROP_CC, 0), 0);
	CHECK_EQ(nv_property_set(&h[1].admin, WEFT_NVMF_PROP_CC, 0x460001), 0);
	check_notice(&h[1], 0, NVMF_NOTICE_NONE, 0);
	CHECK_EQ(feature(&h[1], false, WEFT_NVMF_FEAT_RESV_MASK, 1, 0), 0);
	CHECK_EQ(h[1].admin.result, 0);
	end();
}

static void
test_features(void)
{
	struct weft_nvmf_ns_attr attr;
	struct weft_nvmf_sqe sqe;
	uint8_t fid[] = {WEFT_NVMF_FEAT_RESV_MASK, WEFT_NVMF_FEAT_RESV_PERSIST};

	begin();
	for (unsigned int i = 0; i < 2; i++)
		for (unsigned int set = 0; set < 2; set++) {
			CHECK_EQ(feature(&h[0], set, fid[i], 0, 0), NEVER(WEFT_NVMF_INVALID_NS));
			CHECK_EQ(feature(&h[0], set, fid[i], 9, 0), NEVER(WEFT_NVMF_INVALID_NS));
			CHECK_EQ(feature(&h[0], set, fid[i], 2, 0), FIELD);
			CHECK_EQ(feature(&h[0], set, fid[i], 1, 0), 0);
			CHECK_EQ(feature(&h[0], set, fid[i], WEFT_NVMF_NSID_ALL, 0),
			         set ? 0 : FIELD);
		}
	/* ONCS bit 4: nothing is saved, and no other value is selected */
	for (unsigned int i = 0; i < 2; i++) {
		sqe = nv_sqe(WEFT_NVMF_ADMIN_SET_FEATURES, 1, fid[i] | 1U << 31, 1, 0);
		CHECK_EQ(nv_do(&h[0].admin, &sqe, NULL, 0), NEVER(WEFT_NVMF_NOT_SAVEABLE));
		for (uint32_t sel = 1; sel < 8; sel++) {
			sqe = nv_sqe(WEFT_NVMF_ADMIN_GET_FEATURES, 1, fid[i] | sel << 8, 0, 0);
			CHECK_EQ(nv_do(&h[0].admin, &sqe, NULL, 0), FIELD);
		}
		CHECK_EQ(feature(&h[0], false, fid[i], 1, 0), 0);
		CHECK_EQ(h[0].admin.result, 0);
	}
	CHECK_EQ(feature(&h[0], true, WEFT_NVMF_FEAT_RESV_MASK, WEFT_NVMF_NSID_ALL, 0xffffffff), 0);
	CHECK_EQ(feature(&h[0], false, WEFT_NVMF_FEAT_RESV_MASK, 1, 0), 0);
	CHECK_EQ(h[0].admin.result, 0xe);
	CHECK_EQ(feature(&h[1], false, WEFT_NVMF_FEAT_RESV_MASK, 1, 0), 0);
	CHECK_EQ(h[1].admin.result, 0);

	/* 83h: of the volume, for all hosts */
	attr = n.ns;
	attr.nsid = 3;
	CHECK_EQ(weft_nvmf_ns_add(n.subsys, &attr), 0);
	/* 82h of all was of those that there were; one that comes begins with the default, 0 */
	CHECK_EQ(feature(&h[0], false, WEFT_NVMF_FEAT_RESV_MASK, 3, 0), 0);
	CHECK_EQ(h[0].admin.result, 0);
	CHECK_EQ(feature(&h[0], true, WEFT_NVMF_FEAT_RESV_MASK, 3, 2), 0);
	CHECK_EQ(weft_nvmf_ns_remove(n.subsys, 3), 0);
	CHECK_EQ(weft_nvmf_ns_add(n.subsys, &attr), 0);
	CHECK_EQ(feature(&h[0], false, WEFT_NVMF_FEAT_RESV_MASK, 3, 0), 0);
	CHECK_EQ(h[0].admin.result, 0);
	CHECK_EQ(feature(&h[0], false, WEFT_NVMF_FEAT_RESV_MASK, 1, 0), 0);
	CHECK_EQ(h[0].admin.result, 0xe);
	CHECK_EQ(feature(&h[0], true, WEFT_NVMF_FEAT_RESV_PERSIST, 3, 1), WEFT_NVMF_NS_NOT_READY);
	CHECK_EQ(feature(&h[0], true, WEFT_NVMF_FEAT_RESV_PERSIST, 1, 1), 0);
	CHECK_EQ(feature(&h[1], false, WEFT_NVMF_FEAT_RESV_PERSIST, 3, 0), 0);
	CHECK_EQ(h[1].admin.result, 1);
	CHECK(kept_persists());
	CHECK_EQ(feature(&h[0], true, WEFT_NVMF_FEAT_RESV_PERSIST, 1, 0), 0);
	CHECK(!kept_persists());
	for (unsigned int g = 0; g < NV_GROUPS; g++)
		CHECK_EQ(weft_nvmf_group_attach(n.group[g], n.subsys, 3, n.vol.chan[g]), 0);
	CHECK_EQ(feature(&h[0], true, WEFT_NVMF_FEAT_RESV_PERSIST, WEFT_NVMF_NSID_ALL, 1), 0);
	CHECK(kept_persists());
	/* of all: one that cannot be set does not keep the others from it, and is told of */
	CHECK_EQ(feature(&h[0], true, WEFT_NVMF_FEAT_RESV_PERSIST, WEFT_NVMF_NSID_ALL, 0), 0);
	CHECK(!kept_persists());
	CHECK_EQ(weft_nvmf_group_detach(n.group[0], n.subsys, 1), 0);
	CHECK_EQ(feature(&h[0], true, WEFT_NVMF_FEAT_RESV_PERSIST, WEFT_NVMF_NSID_ALL, 1),
	         WEFT_NVMF_NS_NOT_READY);
	CHECK(kept_persists());
	CHECK_EQ(weft_nvmf_group_attach(n.group[0], n.subsys, 1, n.vol.chan[0]), 0);
	owner.fail = -EIO;
	owner.changes = 0;
	CHECK_EQ(feature(&h[0], true, WEFT_NVMF_FEAT_RESV_PERSIST, WEFT_NVMF_NSID_ALL, 0),
	         WEFT_NVMF_INTERNAL);
	CHECK_EQ(owner.changes, 2);
	owner.fail = 0;
	for (unsigned int g = 0; g < NV_GROUPS; g++)
		CHECK_EQ(weft_nvmf_group_detach(n.group[g], n.subsys, 3), 0);
	CHECK_EQ(weft_nvmf_ns_remove(n.subsys, 3), 0);
	end();
	begin_with(false);
	CHECK_EQ(feature(&h[0], true, WEFT_NVMF_FEAT_RESV_PERSIST, 1, 1), FIELD);
	CHECK_EQ(feature(&h[0], true, WEFT_NVMF_FEAT_RESV_PERSIST, 1, 0), 0);
	end();
}

/* ---- What survives ---- */

/** No answer, and no effect, before the state is kept; and none at all if it cannot be. */
static void
test_keep(void)
{
	struct weft_nvmf_stats stats;
	uint8_t keys[16], more[16];
	uint16_t cid, next, status;

	begin();
	CHECK_EQ(reg(&h[0], 3U << 30, 0, h[0].key), 0);
	CHECK_EQ(owner.changes, 1);
	owner.hold = true;
	cid = resv_send(&h[0], WEFT_NVMF_IO_RESV_ACQUIRE, NVMF_RESV_ACCESS << 8, h[0].key, 0, keys);
	next = resv_send(&h[1], WEFT_NVMF_IO_RESV_REGISTER, 0, 0, h[1].key, more);
	for (unsigned int i = 0; i < 100; i++)
		nv_poll(&n);
	CHECK(!nv_answered(&h[0].io, cid, &status));
	CHECK(!nv_answered(&h[1].io, next, &status));
	CHECK_EQ(owner.change.others, WEFT_NVMF_OTHERS_NOTHING);
	CHECK_EQ(other_do(&h[2], WEFT_NVMF_IO_WRITE, false), 0);
	check_state(&h[0], 0, 1);
	owner_do();
	CHECK_EQ(nv_wait(&h[0].io, cid), 0);
	CHECK_EQ(other_do(&h[2], WEFT_NVMF_IO_WRITE, false), CONFLICT);
	owner.hold = false;
	CHECK_EQ(wait_for(&h[1].io, next), 0);
	/* it cannot be kept */
	owner.fail = -EIO;
	CHECK_EQ(release(&h[0], NVMF_RRELA_CLEAR, 0, h[0].key), WEFT_NVMF_INTERNAL);
	check_state(&h[0], NVMF_RESV_ACCESS, 2);
	weft_nvmf_query_stats(n.target, &stats);
	CHECK_EQ(stats.resv_failed, 1);
	owner.fail = 0;
	/* no registration is to survive: what was kept goes */
	CHECK_EQ(reg(&h[1], NVMF_RREGA_REPLACE | 2U << 30, h[1].key, 9), 0);
	CHECK(!kept_persists());
	/* others are told of a type all the same, and of nothing else */
	owner.changes = 0;
	CHECK_EQ(reg(&h[1], NVMF_RREGA_REPLACE, 9, h[1].key), 0);
	CHECK_EQ(owner.changes, 0);
	CHECK_EQ(release(&h[0], NVMF_RRELA_RELEASE, NVMF_RESV_ACCESS, h[0].key), 0);
	CHECK_EQ(owner.changes, 1);
	CHECK_EQ(owner.change.others, WEFT_NVMF_OTHERS_ALL);
	CHECK(!owner.change.keep);
	end();
}

/** The target ends with a reservation that persists; the next one has it before a host comes. */
static void
test_restart(void)
{
	uint8_t before[64 + 2 * 64], after[64 + 2 * 64];

	begin();
	hold(NVMF_RESV_WRITE_REG);
	CHECK_EQ(feature(&h[0], true, WEFT_NVMF_FEAT_RESV_PERSIST, 1, 1), 0);
	report(&h[2], before, sizeof(before));
	CHECK_EQ(before[9], 1);
	for (unsigned int i = 0; i < HOSTS; i++)
		host_down(&h[i]);
	for (unsigned int g = 0; g < NV_GROUPS; g++) {
		CHECK_EQ(weft_nvmf_group_detach(n.group[g], n.subsys, 1), 0);
		CHECK_EQ(weft_nvmf_group_close(n.group[g]), 0);
		free(n.memory[g]);
	}
	CHECK_EQ(weft_nvmf_destroy(n.target), 0);
	rig_close(&n.vol);
	/* the same device again */
	rig_open(&n.vol, NV_GROUPS, 0);
	CHECK_EQ(weft_nvmf_create(&n.attr, &n.target), 0);
	{
		const struct weft_nvmf_subsys_attr sa = {
		        .nqn = NV_SUBSYS, .serial = "WEFT-1234", .any_host = true, .max_nsid = 8};

		CHECK_EQ(weft_nvmf_subsys_add(n.target, &sa, &n.subsys), 0);
	}
	n.ns.vol = n.vol.vol;
	n.ns.resv = owner.kept;
	n.ns.resv_bytes = owner.bytes - 1;
	CHECK_EQ(weft_nvmf_ns_add(n.subsys, &n.ns), -EBADMSG);
	n.ns.resv_bytes = owner.bytes;
	CHECK_EQ(weft_nvmf_ns_add(n.subsys, &n.ns), 0);
	for (unsigned int i = 0; i < NV_GROUPS; i++) {
		struct weft_nvmf_group_attr ga = {.bytes = weft_nvmf_group_min_bytes(n.target),
		                                  .owner = &n};

		CHECK(posix_memalign((void **)&n.memory[i], 4096, ga.bytes) == 0);
		ga.memory = n.memory[i];
		CHECK_EQ(weft_nvmf_group_open(n.target, &ga, &n.group[i]), 0);
		CHECK_EQ(weft_nvmf_group_attach(n.group[i], n.subsys, 1, n.vol.chan[i]), 0);
	}
	for (unsigned int i = 0; i < HOSTS; i++)
		host_up(&h[i], i);
	report(&h[2], after, sizeof(after));
	CHECK_MEM(before, after, sizeof(before));
	CHECK_EQ(other_do(&h[OTHER], WEFT_NVMF_IO_WRITE, false), CONFLICT);
	CHECK_EQ(other_do(&h[REGISTRANT], WEFT_NVMF_IO_WRITE, false), 0);
	CHECK_EQ(release(&h[HOLDER], NVMF_RRELA_RELEASE, NVMF_RESV_WRITE_REG, h[HOLDER].key), 0);
	end();
}

/* ---- Many controllers ---- */

#define MANY (NVMF_RESV_SHOW * 6)

/** How many controllers of hosts without a registration may not write. *all: how many there are. */
static unsigned int
many_see(unsigned int *all)
{
	const struct nvmf_ctrl *c;
	unsigned int see = 0;

	*all = 0;
	LIST_FOREACH (c, &n.target->ctrls, link) {
		if (c->hostid[15] <= HOSTS)
			continue;
		++*all;
		see += atomic_load(&c->resv->may[0]) == NVMF_MAY_READ;
	}
	return see;
}

/** Some controllers at a time see a change; it is answered when all do, also if controllers come
 * and go meanwhile. */
static void
test_many(void)
{
	static struct nv_queue many[MANY], more;

	for (unsigned int keeps = 0; keeps < 2; keeps++) {
		unsigned int all = 0, see = 0, polls = 0;
		const struct nvmf_ctrl *next;
		struct nv_queue *gone = NULL;
		uint16_t cid, status = 0;
		bool moved = false;
		uint8_t data[16];

		begin_of(keeps != 0, MANY + 16);
		CHECK_EQ(reg(&h[HOLDER], keeps != 0 ? 3U << 30 : 0, 0, h[HOLDER].key), 0);
		for (unsigned int i = 0; i < MANY; i++) {
			n.host = (uint8_t)(HOSTS + 1 + i);
			nv_admin(&n, i % 2, &many[i], NV_SUBSYS);
		}
		cid = resv_send(&h[HOLDER], WEFT_NVMF_IO_RESV_ACQUIRE, NVMF_RESV_WRITE << 8,
		                h[HOLDER].key, 0, data);
		while (!nv_answered(&h[HOLDER].io, cid, &status)) {
			const unsigned int before = many_see(&all);

			CHECK(polls++ < 1000);
			if (owner.asked)
				owner_do();
			nv_poll(&n);
			see = many_see(&all);
			/* by the owner, and by each group */
			CHECK(see <= before + 2 * NVMF_RESV_SHOW);
			if (see == 0 || see == all || moved)
				continue;
			moved = true;
			/* the one that is next goes, and another one comes */
			next = LIST_FIRST(&n.target->resvs)->show;
			CHECK(next != NULL && next->hostid[15] > HOSTS);
			gone = &many[next->hostid[15] - HOSTS - 1];
			nv_close(gone);
			n.host = (uint8_t)(HOSTS + 1 + MANY);
			nv_admin(&n, 0, &more, NV_SUBSYS);
		}
		CHECK_EQ(status, 0);
		CHECK(moved);
		CHECK_EQ(many_see(&all), all);
		CHECK_EQ(all, MANY);
		for (unsigned int i = 0; i < MANY; i++)
			if (&many[i] != gone)
				nv_close(&many[i]);
		nv_close(&more);
		end();
	}
}

/** A volume that is given up: its next namespace has none of its reservations. */
static void
test_forget(void)
{
	begin();
	hold(NVMF_RESV_WRITE);
	CHECK_EQ(weft_nvmf_resv_forget(n.target, owner.change.uuid), -EBUSY);
	for (unsigned int again = 0; again < 2; again++) {
		for (unsigned int g = 0; g < NV_GROUPS; g++)
			CHECK_EQ(weft_nvmf_group_detach(n.group[g], n.subsys, 1), 0);
		CHECK_EQ(weft_nvmf_ns_remove(n.subsys, 1), 0);
		if (again > 0) {
			CHECK_EQ(weft_nvmf_resv_forget(n.target, owner.change.uuid), 0);
			CHECK_EQ(weft_nvmf_resv_forget(n.target, owner.change.uuid), 0);
		}
		CHECK_EQ(weft_nvmf_ns_add(n.subsys, &n.ns), 0);
		for (unsigned int g = 0; g < NV_GROUPS; g++)
			CHECK_EQ(weft_nvmf_group_attach(n.group[g], n.subsys, 1, n.vol.chan[g]), 0);
		check_state(&h[OTHER], again > 0 ? 0 : NVMF_RESV_WRITE, again > 0 ? 0 : 2);
		CHECK_EQ(other_do(&h[OTHER], WEFT_NVMF_IO_WRITE, false), again > 0 ? 0 : CONFLICT);
	}
	end();
}

/** A saved state that is cut or changed anywhere, or of another volume, is none. */
static void
test_saved(void)
{
	uint8_t uuid[16] = {1, 2}, id[16] = {0}, p[NVMF_RESV_SAVED_BYTES];
	struct nvmf_resv_state r = {0}, back;
	struct nvmf_resv_told told;
	struct nvmf_resv_cmd cmd = {.hostid = id, .other = 3, .key = 3, .type = 1};
	size_t bytes;

	for (id[3] = 0; id[3] < 3; id[3]++)
		CHECK_EQ(nvmf_resv_register(&r, &cmd, &told), 0);
	id[3] = 1;
	CHECK_EQ(nvmf_resv_acquire(&r, &cmd, &told), 0);
	r.persist = true;
	/* what it leaves to others */
	for (r.type = 1; r.type < NVMF_RESV_TYPES; r.type++) {
		enum weft_nvmf_others others;

		bytes = nvmf_resv_save(&r, uuid, p);
		CHECK_EQ(weft_nvmf_resv_others(p, bytes, uuid, &others), 0);
		CHECK_EQ(others, r.type == NVMF_RESV_ACCESS || r.type == NVMF_RESV_ACCESS_REG ||
		                                 r.type == NVMF_RESV_ACCESS_ALL
		                         ? WEFT_NVMF_OTHERS_NOTHING
		                         : WEFT_NVMF_OTHERS_READ);
		CHECK_EQ(weft_nvmf_resv_others(p, bytes - 1, uuid, &others), -EBADMSG);
	}
	r.type = 1;
	bytes = nvmf_resv_save(&r, uuid, p);
	CHECK_EQ(nvmf_resv_load(p, bytes, uuid, &back), 0);
	CHECK_MEM(&r, &back, sizeof(r));
	for (size_t i = 0; i < bytes; i++) {
		uint8_t *cut = test_heap_copy(p, i);

		CHECK_EQ(nvmf_resv_load(cut, i, uuid, &back), -EBADMSG);
		free(cut);
		for (unsigned int bit = 0; bit < 8; bit++) {
			p[i] ^= (uint8_t)(1U << bit);
			CHECK_EQ(nvmf_resv_load(p, bytes, uuid, &back), -EBADMSG);
			p[i] ^= (uint8_t)(1U << bit);
		}
	}
	uuid[0]++;
	CHECK_EQ(nvmf_resv_load(p, bytes, uuid, &back), -EBADMSG);
}

/* ---- Several ways to one volume ---- */

static void
test_subsystems(void)
{
	const struct weft_nvmf_subsys_attr sa = {.nqn = "nqn.2026-01.org.example:other",
	                                         .serial = "WEFT-5",
	                                         .any_host = true,
	                                         .max_nsid = 4};
	struct weft_nvmf_ns_attr attr;
	struct weft_nvmf_subsys *s;
	struct nv_queue admin, io;
	struct weft_nvmf_sqe sqe = nv_sqe(WEFT_NVMF_IO_READ, 4, 0, 0, 0);

	begin();
	hold(NVMF_RESV_ACCESS);
	CHECK_EQ(weft_nvmf_subsys_add(n.target, &sa, &s), 0);
	attr = n.ns;
	attr.nsid = 4;
	n.host = 9;
	nv_admin(&n, 0, &admin, sa.nqn);
	CHECK_EQ(weft_nvmf_ns_add(s, &attr), 0);
	CHECK_EQ(weft_nvmf_group_attach(n.group[1], s, 4, n.vol.chan[1]), 0);
	nv_open(&n, 1, &io);
	CHECK_EQ(nv_connect(&io, sa.nqn, NV_HOST, admin.cntlid, 1, 31, 0), 0);
	CHECK_EQ(nv_do(&io, &sqe, buf, 512), CONFLICT);
	CHECK_EQ(release(&h[0], NVMF_RRELA_RELEASE, NVMF_RESV_ACCESS, h[0].key), 0);
	CHECK_EQ(nv_do(&io, &sqe, buf, 512), 0);
	/* a controller that comes later sees it, too */
	CHECK_EQ(acquire(&h[0], 0, NVMF_RESV_ACCESS, h[0].key, 0), 0);
	nv_close(&io);
	nv_close(&admin);
	nv_admin(&n, 0, &admin, sa.nqn);
	nv_open(&n, 1, &io);
	CHECK_EQ(nv_connect(&io, sa.nqn, NV_HOST, admin.cntlid, 1, 31, 0), 0);
	CHECK_EQ(nv_do(&io, &sqe, buf, 512), CONFLICT);
	nv_close(&io);
	nv_close(&admin);
	CHECK_EQ(weft_nvmf_group_detach(n.group[1], s, 4), 0);
	CHECK_EQ(weft_nvmf_ns_remove(s, 4), 0);
	CHECK_EQ(weft_nvmf_subsys_remove(s), 0);
	end();
}

/* ---- Threads ---- */

#define MT_ROUNDS 3000U
#define MT_BYTES  4096U

static atomic_uint mt_held, mt_taken, mt_wrong, mt_stuck, mt_begun, mt_over;

/** Send and wait: for the other thread, too, if need be. A check would end this thread alone. */
static uint16_t
mt_do(struct nv_queue *q, struct weft_nvmf_sqe *sqe, void *data, uint32_t bytes)
{
	const uint64_t end_us = test_now_us() + TEST_WAIT_US;
	uint16_t status = 0xffff;

	nv_keyed(sqe, data, bytes);
	if (nv_send(q, sqe, NULL, 0) != 0)
		return status;
	while (!nv_answered(q, sqe->cid, &status) && test_now_us() < end_us)
		nv_poll(q->nv);
	atomic_fetch_add(&mt_stuck, status == 0xffff);
	return status;
}

static uint16_t
mt_resv(struct nv_queue *q, uint8_t opcode, uint32_t cdw10, uint64_t key, uint64_t other)
{
	struct weft_nvmf_sqe sqe = resv_sqe(opcode, cdw10);
	uint8_t data[16];

	weft_nvmf_put64(data, key);
	weft_nvmf_put64(data + 8, other);
	return mt_do(q, &sqe, data, sizeof(data));
}

/** Read or write the first eight blocks. */
static uint16_t
mt_rw(struct nv_queue *q, uint8_t opcode, void *data)
{
	struct weft_nvmf_sqe sqe = nv_sqe(opcode, 1, 0, 0, 7);

	return mt_do(q, &sqe, data, MT_BYTES);
}

/** A host that takes the volume for itself, writes, and reads what it has written: unless it was
 * preempted, nothing of the other host can be there. */
static void *
mt_host(void *arg)
{
	struct nv *own = arg;
	const unsigned int me = own->host - 1U;
	const uint64_t key = 10 + me, others = 11 - me;
	const uint32_t access = NVMF_RESV_ACCESS << 8;
	uint8_t out[MT_BYTES], in[MT_BYTES];
	struct nv_queue a, q;

	nv_admin(own, me, &a, NV_SUBSYS);
	nv_io(own, me, &q, &a, 1);
	atomic_fetch_add(&mt_begun, 1);
	while (atomic_load(&mt_begun) < 2)
		nv_poll(own);
	for (unsigned int i = 0; i < MT_ROUNDS && atomic_load(&mt_stuck) == 0; i++) {
		uint16_t status;
		bool differs;

		(void)mt_resv(&q, WEFT_NVMF_IO_RESV_REGISTER, NVMF_RREGA_REGISTER, 0, key);
		status = mt_resv(&q, WEFT_NVMF_IO_RESV_ACQUIRE, access, key, 0);
		if (status == CONFLICT && i % 3 == 0) {
			status = mt_resv(&q, WEFT_NVMF_IO_RESV_ACQUIRE,
			                 NVMF_RACQA_PREEMPT_ABORT | access, key, others);
			atomic_fetch_add(&mt_taken, status == 0);
			/* if none was held by then, the other host was preempted, and none is
			 * this host's yet */
			if (status == 0)
				status = mt_resv(&q, WEFT_NVMF_IO_RESV_ACQUIRE, access, key, 0);
		}
		if (status != 0)
			continue;
		atomic_fetch_add(&mt_held, 1);
		memset(out, (int)(i * 2 + me), sizeof(out));
		differs = mt_rw(&q, WEFT_NVMF_IO_WRITE, out) == 0 &&
		          mt_rw(&q, WEFT_NVMF_IO_READ, in) == 0 && memcmp(in, out, sizeof(in)) != 0;
		/* a host that was preempted may read again after the other one's Release; but then
		 * it is registered no more */
		status = mt_resv(&q, WEFT_NVMF_IO_RESV_RELEASE, access, key, 0);
		atomic_fetch_add(&mt_wrong, differs && status == 0);
	}
	/* the other host may wait for this group */
	atomic_fetch_add(&mt_over, 1);
	while (atomic_load(&mt_over) < 2)
		nv_poll(own);
	nv_close(&q);
	nv_close(&a);
	return NULL;
}

static void
test_threads(void)
{
	static struct nv own[2];
	pthread_t t[2];

	memset(&n, 0, sizeof(n));
	n.ns.lba_bytes = 512;
	nv_start(&n);
	for (unsigned int i = 0; i < 2; i++) {
		nv_of_thread(&n, i, &own[i]);
		own[i].host = (uint8_t)(i + 1);
	}
	for (unsigned int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, mt_host, &own[i]), 0);
	for (unsigned int i = 0; i < 2; i++)
		CHECK_EQ(pthread_join(t[i], NULL), 0);
	CHECK_EQ(atomic_load(&mt_stuck), 0);
	CHECK_EQ(atomic_load(&mt_wrong), 0);
	CHECK(atomic_load(&mt_held) > MT_ROUNDS / 10);
	test_note("held %u times, %u of them by preemption", atomic_load(&mt_held),
	          atomic_load(&mt_taken));
	nv_end(&n);
}

WEFT_TEST_MAIN({"each command by type and holder", test_table},
               {"register: keys and fields", test_register},
               {"a host identifier of zero", test_hostid_zero},
               {"register: too many hosts", test_full}, {"acquire and release", test_acquire},
               {"lengths of data", test_lengths}, {"preempt", test_preempt},
               {"preempt and abort: commands under way", test_abort},
               {"preempt and abort: commands that had not begun", test_abort_old},
               {"a queue is lost while its command waits", test_lost_queue},
               {"commands take turns", test_turns},
               {"a command that waits for its turn is aborted", test_abort_waits},
               {"report", test_report}, {"identify and effects", test_identify},
               {"notices and events", test_notices}, {"features 82h and 83h", test_features},
               {"a change is kept before it is seen", test_keep}, {"a restart", test_restart},
               {"many controllers see a change", test_many},
               {"a volume that is given up", test_forget},
               {"a saved state: cuts and bits", test_saved}, {"two subsystems", test_subsystems},
               {"threads", test_threads})
