/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Snapshots and clones of a volume: what is in them, after power cuts too, with checksums and
 * without; an error at each request; a device that hangs.
 */

#include <errno.h>
#include <stdlib.h>

#include "volume_rig.h"
#include "volume_sabotage.h"

#define DISK_BYTES (16U << 20)
#define GROUP      WEFT_VOL_GROUP_BYTES
#define VOL_BYTES  (2U * GROUP)
#define CELLS      24U
#define CELL_BYTES 1024U
#define CHANS      3U

static uint8_t mem[65536], is[65536];
static unsigned int disks;
static char disk[32];

/* ---- Devices ---- */

/** A device over which snapshots can be made, with a name that no other one has. */
static void
begin(struct rig *r, uint64_t seed, bool sums)
{
	char options[96], reason[128] = "";
	struct weft_block_attr a = {.size = sizeof(a),
	                            .driver = seed == 0 ? "mem" : "fault",
	                            .path = disk,
	                            .options = options,
	                            .bytes = DISK_BYTES,
	                            .reason = reason,
	                            .reason_bytes = sizeof(reason)};

	*r = (struct rig){.sums = sums};
	snprintf(disk, sizeof(disk), "disk%u", disks++);
	snprintf(options, sizeof(options),
	         seed == 0 ? "block=512" : "inner=mem,inner.block=512,seed=%" PRIu64, seed);
	CHECK_MSG(weft_block_open(&a, &r->block) == 0, "%s", reason);
	rig_format(r, VOL_BYTES);
	rig_open(r, CHANS, 0);
}

/** Open a snapshot ("snap.x") or a clone ("clone.x"). */
static void
open_other(struct rig *r, const char *which, bool read_only)
{
	char path[160], reason[128] = "";
	struct weft_block_attr a = {.size = sizeof(a),
	                            .driver = "mem",
	                            .path = path,
	                            .read_only = read_only,
	                            .reason = reason,
	                            .reason_bytes = sizeof(reason)};

	*r = (struct rig){0};
	snprintf(path, sizeof(path), "%s.%s", disk, which);
	CHECK_MSG(weft_block_open(&a, &r->block) == 0, "%s", reason);
	rig_open(r, 1, 0);
	CHECK_EQ(weft_vol_info(r->vol)->read_only, read_only);
}

/* ---- Operations ---- */

static struct weft_vol_snap snap;

static struct rig_op *
snap_op(struct rig_op *o, enum weft_block_snap_what what, const char *name, const char *from)
{
	rig_op(o, WEFT_VOL_SNAPSHOT, 0, 0, NULL);
	memset(&snap, 0, sizeof(snap));
	snap.block.what = what;
	snap.block.name = name;
	snap.block.from = from;
	snap.block.created_ns = 77;
	memset(snap.uuid, 0x5a, sizeof(snap.uuid));
	o->op.snap = &snap;
	return o;
}

static int
make(struct rig *r, const char *name)
{
	struct rig_op o;

	return rig_do(r, snap_op(&o, WEFT_BLOCK_SNAP_CREATE, name, NULL));
}

static int
make_clone(struct rig *r, const char *name, const char *from)
{
	struct rig_op o;

	return rig_do(r, snap_op(&o, WEFT_BLOCK_SNAP_CLONE, name, from));
}

static int
drop(struct rig *r, const char *name)
{
	struct rig_op o;

	return rig_do(r, snap_op(&o, WEFT_BLOCK_SNAP_REMOVE, name, NULL));
}

static unsigned int
listed(struct rig *r)
{
	static struct weft_block_snapshot list[4];
	struct rig_op o;

	snap_op(&o, WEFT_BLOCK_SNAP_LIST, NULL, NULL);
	snap.block.list = list;
	snap.block.max_list = 4;
	CHECK_EQ(rig_do(r, &o), 0);
	return snap.block.found;
}

static void
put(struct rig *r, uint64_t off, uint8_t octet)
{
	memset(mem, octet, 4096);
	CHECK_EQ(rig_io(r, WEFT_VOL_WRITE, off, 4096, mem, 0), 0);
}

static bool
holds(struct rig *r, uint64_t off, uint8_t octet)
{
	memset(mem, octet, 4096);
	CHECK_EQ(rig_io(r, WEFT_VOL_READ, off, 4096, is, 0), 0);
	return memcmp(is, mem, 4096) == 0;
}

/* ---- Rules ---- */

static void
basics(bool sums)
{
	struct weft_vol_stats st;
	struct rig r, s;
	uint8_t uuid[16];

	begin(&r, 0, sums);
	memcpy(uuid, weft_vol_info(r.vol)->super.uuid, 16);
	put(&r, 0, 1);
	put(&r, GROUP, 1);
	CHECK_EQ(make(&r, "one"), 0);
	CHECK(strstr(snap.block.place, ".snap.one") != NULL);
	put(&r, 0, 2);
	CHECK_EQ(make_clone(&r, "a", "one"), 0);
	CHECK_EQ(make_clone(&r, "b", NULL), 0);
	CHECK_EQ(listed(&r), 1);
	/* A snapshot has the volume's UUID, and cannot be written. */
	open_other(&s, "snap.one", true);
	CHECK(holds(&s, 0, 1) && holds(&s, GROUP, 1));
	CHECK(weft_vol_info(s.vol)->super.ro_compat == WEFT_VOL_RO_COMPAT_SNAPSHOT);
	CHECK_MEM(weft_vol_info(s.vol)->super.uuid, uuid, 16);
	CHECK(!weft_vol_info(s.vol)->in_doubt && !weft_vol_info(s.vol)->second_copy);
	weft_vol_query_stats(s.chan[0], &st);
	CHECK_EQ(st.unverified, 0);
	{
		struct rig_op o;

		CHECK_EQ(weft_vol_submit(s.chan[0],
		                         &snap_op(&o, WEFT_BLOCK_SNAP_CREATE, "x", NULL)->op),
		         -EROFS);
		rig_op(&o, WEFT_VOL_WRITE, 0, 512, mem);
		CHECK_EQ(weft_vol_submit(s.chan[0], &o.op), -EROFS);
		/* It can be scrubbed: compared, and nothing is changed. */
		CHECK_EQ(rig_io(&s, WEFT_VOL_SCRUB, 0, VOL_BYTES, NULL, 0), 0);
		weft_vol_query_stats(s.chan[0], &st);
		CHECK(st.unverified == 0 && st.damaged == 0);
	}
	CHECK_EQ(drop(&r, "one"), -EBUSY);
	rig_end(&s);
	CHECK_EQ(drop(&r, "one"), 0);
	CHECK_EQ(listed(&r), 0);
	/* A clone has another one, and can. */
	open_other(&s, "clone.a", false);
	CHECK(holds(&s, 0, 1) && weft_vol_info(s.vol)->super.ro_compat == 0);
	CHECK(weft_vol_info(s.vol)->super.uuid[3] == 0x5a &&
	      weft_vol_info(s.vol)->super.created_ns == 77 && !weft_vol_info(s.vol)->second_copy);
	put(&s, 0, 9);
	CHECK(holds(&s, 0, 9) && holds(&r, 0, 2));
	/* It has no snapshots of its own until it is opened anew: its name is its own. */
	rig_end(&s);
	open_other(&s, "clone.b", false);
	CHECK(holds(&s, 0, 2));
	CHECK_EQ(make(&s, "one"), 0);
	rig_end(&s);
	rig_end(&r);
}

static void
test_basics(void)
{
	basics(false);
}

static void
test_basics_sums(void)
{
	basics(true);
}

/** A snapshot of before a format is of another volume. */
static void
test_reformat(void)
{
	struct weft_vol_format f = {.uuid = {9}, .created_ns = 4, .force = true, .bytes = GROUP};
	struct rig r;

	begin(&r, 0, true);
	CHECK_EQ(make(&r, "one"), 0);
	rig_close(&r);
	CHECK_EQ(weft_vol_format(r.block, &f, NULL, 0), 0);
	rig_open(&r, CHANS, 0);
	CHECK_EQ(make_clone(&r, "a", "one"), -ESTALE);
	CHECK_EQ(make_clone(&r, "a", NULL), 0);
	rig_end(&r);
}

/** A snapshot of before a resize has another length than the volume says now. */
static void
test_resized(void)
{
	char reason[160];
	struct rig r;

	begin(&r, 0, false);
	CHECK_EQ(make(&r, "one"), 0);
	rig_close(&r);
	CHECK_EQ(weft_vol_resize(r.block, GROUP, reason, sizeof(reason)), 0);
	rig_open(&r, CHANS, 0);
	CHECK_EQ(make_clone(&r, "a", "one"), -ESTALE);
	CHECK_EQ(make(&r, "two"), 0);
	CHECK_EQ(make_clone(&r, "a", "two"), 0);
	rig_end(&r);
}

/** Reads go on beside it, changes wait for it, and it waits for those before it. */
static void
test_order(void)
{
	const struct weft_block_fault_hit writes = {.ops = 1U << WEFT_BLOCK_WRITE};
	const struct weft_block_fault_hit snaps = {.ops = 1U << WEFT_BLOCK_SNAPSHOT};
	struct rig_op before, after, other, o;
	struct rig r;

	begin(&r, 3, false);
	memset(mem, 7, sizeof(mem));
	weft_block_fault_stick(r.block, &writes);
	rig_op(&before, WEFT_VOL_WRITE, 0, 4096, mem);
	rig_submit(&r, 0, &before);
	rig_submit(&r, 1, snap_op(&o, WEFT_BLOCK_SNAP_CREATE, "one", NULL));
	rig_op(&after, WEFT_VOL_WRITE, GROUP, 4096, mem);
	rig_submit(&r, 2, &after);
	for (unsigned int i = 0; i < 100; i++)
		rig_poll(&r);
	CHECK(before.done == 0 && o.done == 0 && after.done == 0);
	/* A read of another place does not wait. */
	rig_op(&other, WEFT_VOL_READ, GROUP + 65536, 4096, is);
	rig_submit(&r, 0, &other);
	CHECK_EQ(rig_wait(&r, &other), 0);
	weft_block_fault_stick(r.block, NULL);
	weft_block_fault_stick(r.block, &snaps);
	for (unsigned int i = 0; i < 100; i++)
		rig_poll(&r);
	CHECK(before.done == 1 && o.done == 0 && after.done == 0);
	weft_block_fault_stick(r.block, NULL);
	CHECK_EQ(rig_wait(&r, &after), 0);
	CHECK(o.done == 1 && o.op.status == 0 && o.at < after.at);
	rig_end(&r);
}

/** A change that hangs: the snapshot gives up, and the changes behind it go on. */
static void
test_deadline(void)
{
	const struct weft_block_fault_hit writes = {.ops = 1U << WEFT_BLOCK_WRITE};
	const struct weft_block_fault_hit snaps = {.ops = 1U << WEFT_BLOCK_SNAPSHOT};
	struct rig_op before, after, o;
	struct rig r;

	begin(&r, 4, true);
	memset(mem, 7, sizeof(mem));
	weft_block_fault_stick(r.block, &writes);
	rig_op(&before, WEFT_VOL_WRITE, 0, 4096, mem);
	rig_submit(&r, 0, &before);
	for (unsigned int i = 0; i < 20; i++)
		rig_poll(&r);
	snap_op(&o, WEFT_BLOCK_SNAP_CREATE, "one", NULL);
	o.op.deadline_ns = r.now_ns + 100000;
	rig_submit(&r, 1, &o);
	rig_op(&after, WEFT_VOL_WRITE, GROUP, 4096, mem);
	rig_submit(&r, 2, &after);
	CHECK_EQ(rig_wait(&r, &o), -ETIMEDOUT);
	CHECK_EQ(rig_wait(&r, &after), 0);
	CHECK_EQ(before.done, 0);
	weft_block_fault_stick(r.block, NULL);
	CHECK_EQ(rig_wait(&r, &before), 0);
	CHECK_EQ(listed(&r), 0);
	/* A device that does not answer: late, and then done. */
	weft_block_fault_stick(r.block, &snaps);
	snap_op(&o, WEFT_BLOCK_SNAP_CREATE, "one", NULL);
	o.op.deadline_ns = r.now_ns + 200000;
	rig_submit(&r, 1, &o);
	for (unsigned int i = 0; i < 1000; i++)
		rig_poll(&r);
	CHECK(o.late == 1 && o.done == 0);
	weft_block_fault_stick(r.block, NULL);
	CHECK_EQ(rig_wait(&r, &o), 0);
	rig_end(&r);
}

static struct rig_op *
tidy_op(struct rig_op *o, struct weft_vol_snap *t)
{
	rig_op(o, WEFT_VOL_SNAPSHOT, 0, 0, NULL)->op.snap = t;
	*t = (struct weft_vol_snap){.block.what = WEFT_BLOCK_SNAP_CREATE, .maps_only = true};
	return o;
}

/** A snapshot that meets an operation which only clears the maps sleeps until that has ended. */
static void
test_behind_tidy(void)
{
	const struct weft_block_fault_hit writes = {.ops = 1U << WEFT_BLOCK_WRITE};
	struct rig_op tidy, o, late, canceled;
	struct weft_vol_snap t[3];
	struct rig r;

	begin(&r, 7, true);
	put(&r, 0, 1);
	weft_block_fault_stick(r.block, &writes);
	rig_submit(&r, 0, tidy_op(&tidy, &t[0]));
	for (unsigned int i = 0; i < 100; i++)
		rig_poll(&r);
	r.wakes = 0;
	rig_submit(&r, 1, snap_op(&o, WEFT_BLOCK_SNAP_CREATE, "one", NULL));
	tidy_op(&late, &t[1])->op.deadline_ns = r.now_ns + 300000;
	rig_submit(&r, 1, &late);
	rig_submit(&r, 2, tidy_op(&canceled, &t[2]));
	for (unsigned int i = 0; i < 100; i++)
		rig_poll(&r);
	CHECK(tidy.done == 0 && o.done == 0 && late.done == 0 && canceled.done == 0);
	CHECK(weft_vol_next_ns(r.chan[1]) > r.now_ns && weft_vol_next_ns(r.chan[2]) > r.now_ns);
	CHECK_EQ(weft_vol_cancel(r.chan[2], &canceled.op), 0);
	CHECK_EQ(rig_wait(&r, &canceled), -ECANCELED);
	CHECK_EQ(rig_wait(&r, &late), -ETIMEDOUT);
	CHECK(o.done == 0 && r.wakes == 0);
	weft_block_fault_stick(r.block, NULL);
	CHECK_EQ(rig_wait(&r, &o), 0);
	CHECK(tidy.done == 1 && tidy.op.status == 0 && r.wakes == 1);
	CHECK_EQ(listed(&r), 1);
	CHECK_EQ(make(&r, "two"), 0);
	rig_end(&r);
}

/** A client that is given up on. */
static void
test_revoked(void)
{
	const struct weft_block_fault_hit writes = {.ops = 1U << WEFT_BLOCK_WRITE};
	struct weft_vol_client client = {0};
	struct rig_op before, o;
	struct rig r;

	begin(&r, 5, true);
	memset(mem, 7, sizeof(mem));
	weft_vol_client_open(r.chan[1], &client);
	weft_block_fault_stick(r.block, &writes);
	rig_op(&before, WEFT_VOL_WRITE, 0, 4096, mem);
	rig_submit(&r, 0, &before);
	snap_op(&o, WEFT_BLOCK_SNAP_CREATE, "one", NULL);
	o.op.client = &client;
	rig_submit(&r, 1, &o);
	CHECK_EQ(weft_vol_revoke(&client), 1);
	CHECK_EQ(rig_wait(&r, &o), -ECANCELED);
	CHECK_EQ(weft_vol_client_close(&client), 0);
	weft_block_fault_stick(r.block, NULL);
	CHECK_EQ(rig_wait(&r, &before), 0);
	CHECK_EQ(make(&r, "one"), 0);
	rig_end(&r);
}

/** A lost flush: the client's changes are not all in a snapshot, so there is none. */
static void
test_lost(void)
{
	const struct weft_block_fault_hit flushes = {.ops = 1U << WEFT_BLOCK_FLUSH};
	struct weft_vol_client client = {0};
	struct rig_op o;
	struct rig r;

	begin(&r, 6, false);
	weft_vol_client_open(r.chan[0], &client);
	memset(mem, 7, sizeof(mem));
	rig_op(&o, WEFT_VOL_WRITE, 0, 4096, mem)->op.client = &client;
	CHECK_EQ(rig_do(&r, &o), 0);
	weft_block_fault_fail(r.block, &flushes, -EIO);
	CHECK_EQ(rig_flush(&r), -EIO);
	weft_block_fault_fail(r.block, NULL, 0);
	snap_op(&o, WEFT_BLOCK_SNAP_CREATE, "one", NULL)->op.client = &client;
	CHECK_EQ(rig_do(&r, &o), -EIO);
	CHECK(strstr(snap.block.reason, "lost") != NULL);
	/* Its flush tells it. */
	rig_op(&o, WEFT_VOL_FLUSH, 0, 0, NULL)->op.client = &client;
	CHECK_EQ(rig_do(&r, &o), -EIO);
	rig_op(&o, WEFT_VOL_WRITE, 0, 4096, mem)->op.client = &client;
	CHECK_EQ(rig_do(&r, &o), 0);
	snap_op(&o, WEFT_BLOCK_SNAP_CREATE, "one", NULL)->op.client = &client;
	CHECK_EQ(rig_do(&r, &o), 0);
	CHECK_EQ(weft_vol_client_close(&client), 0);
	rig_end(&r);
}

/** An error at each request of a snapshot in turn: there is none, and the volume goes on. */
static void
test_errors(void)
{
	unsigned int steps = 0;

	for (bool done = false; !done; steps++) {
		const struct weft_block_fault_hit hit = {.skip = steps};
		struct rig r, s;
		int status;

		begin(&r, 100 + steps, true);
		for (unsigned int i = 0; i < CHANS; i++) {
			struct rig_op o;

			memset(mem, (int)i + 1, 4096);
			rig_op(&o, WEFT_VOL_WRITE, i * 65536ULL, 4096, mem);
			rig_submit(&r, i, &o);
			CHECK_EQ(rig_wait(&r, &o), 0);
		}
		weft_block_fault_fail(r.block, &hit, -EIO);
		status = make(&r, "one");
		weft_block_fault_fail(r.block, NULL, 0);
		done = status == 0;
		CHECK_MSG(done || status == -EIO, "%d", status);
		CHECK(done || snap.block.reason[0] != '\0');
		CHECK_EQ(listed(&r), done ? 1 : 0);
		/* It goes on, and the next one is whole. */
		for (unsigned int i = 0; i < CHANS; i++)
			put(&r, i * 65536ULL, (uint8_t)(i + 11));
		CHECK_EQ(make(&r, "two"), 0);
		open_other(&s, "snap.two", true);
		for (unsigned int i = 0; i < CHANS; i++)
			CHECK(holds(&s, i * 65536ULL, (uint8_t)(i + 11)));
		rig_end(&s);
		rig_end(&r);
	}
	test_note("%u requests", steps - 1);
	CHECK(steps > 5);
}

/* ---- Random writes, snapshots and power cuts ---- */

struct cell {
	struct rig_op o;
	uint8_t data[CELL_BYTES];
	uint32_t sent, acked;       /**< versions */
	uint32_t at_sent, at_acked; /**< when the snapshot was submitted */
	bool busy;
};

struct run {
	struct rig r;
	struct cell cell[CELLS];
	uint64_t seed;
	bool sums;
	unsigned int wrong;
	struct rig_op tidy; /**< the maps are cleared without a snapshot */
	struct weft_vol_snap tidy_snap;
	bool tidies;
	unsigned int tidied;
};

static uint64_t
cell_off(unsigned int i)
{
	/* Blocks of 4 cells, in both groups: neighbours are read, changed and written. */
	return (i % 2) * (uint64_t)GROUP + (i / 8) * 131072ULL + (i / 2 % 4) * CELL_BYTES;
}

/** The version that a cell holds; UINT32_MAX: several. */
static uint32_t
version_of(const uint8_t *data)
{
	uint32_t first, other;

	memcpy(&first, data, 4);
	for (unsigned int i = 4; i < CELL_BYTES; i += 4) {
		memcpy(&other, data + i, 4);
		if (other != first)
			return UINT32_MAX;
	}
	return first;
}

static void
cells_turn(struct run *p)
{
	for (unsigned int i = 0; i < CELLS; i++) {
		struct cell *c = &p->cell[i];

		if (c->busy && c->o.done == 1) {
			c->busy = false;
			if (c->o.op.status == 0)
				c->acked = c->sent;
		}
		if (!c->busy && rig_draw(&p->seed, 3) == 0) {
			c->sent++;
			for (unsigned int k = 0; k < CELL_BYTES; k += 4)
				memcpy(c->data + k, &c->sent, 4);
			rig_op(&c->o, WEFT_VOL_WRITE, cell_off(i), CELL_BYTES, c->data);
			c->busy = weft_vol_submit(p->r.chan[rig_draw(&p->seed, CHANS)], &c->o.op) ==
			          0;
		}
	}
	if (p->tidies && p->tidy.done == 1) {
		p->tidies = false;
		p->tidied += p->tidy.op.status == 0;
		/* Another one is being made. */
		p->wrong += p->tidy.op.status != 0 && p->tidy.op.status != -EBUSY &&
		            p->tidy.op.status != -ENODEV;
	}
	if (p->sums && !p->tidies && rig_draw(&p->seed, 20) == 0) {
		memset(&p->tidy_snap, 0, sizeof(p->tidy_snap));
		p->tidy_snap.block.what = WEFT_BLOCK_SNAP_CREATE;
		p->tidy_snap.maps_only = true;
		rig_op(&p->tidy, WEFT_VOL_SNAPSHOT, 0, 0, NULL)->op.snap = &p->tidy_snap;
		p->tidies = weft_vol_submit(p->r.chan[rig_draw(&p->seed, CHANS)], &p->tidy.op) == 0;
	}
	rig_poll(&p->r);
}

/** A snapshot holds of each cell what was acknowledged before it, or what was under way then. */
static void
check_snapshot(struct run *p)
{
	struct weft_vol_stats st;
	struct rig s;

	open_other(&s, "snap.s", true);
	for (unsigned int i = 0; i < CELLS; i++) {
		const struct cell *c = &p->cell[i];
		int r = rig_io(&s, WEFT_VOL_READ, cell_off(i), CELL_BYTES, is, 0);
		uint32_t v = version_of(is);

		if (r != 0 || v == UINT32_MAX || v < c->at_acked || v > c->at_sent)
			p->wrong++;
	}
	/* Its checksums were compared. */
	weft_vol_query_stats(s.chan[0], &st);
	p->wrong += st.unverified > 0 || st.damaged > 0;
	rig_end(&s);
}

static void
check_volume(struct run *p)
{
	for (unsigned int i = 0; i < CELLS; i++)
		p->wrong += rig_io(&p->r, WEFT_VOL_READ, cell_off(i), CELL_BYTES, is, 0) != 0;
}

static void
run_drain(struct run *p)
{
	for (unsigned int i = 0; i < CELLS; i++) {
		while (p->cell[i].busy && p->cell[i].o.done == 0)
			rig_poll(&p->r);
		p->cell[i].busy = false;
	}
	while (p->tidies && p->tidy.done == 0)
		rig_poll(&p->r);
	p->tidies = false;
}

static unsigned int all_tidied;

/** Returns how many cells or reads break a promise. */
static unsigned int
run_once(uint64_t seed, bool sums)
{
	const struct weft_block_fault_cfg cfg = {
	        .delay_max_ns = 8000, .leak_ppm = 30000, .busy_ppm = 20000, .atom_bytes = 512};
	struct run *p = calloc(1, sizeof(*p));
	unsigned int wrong, cut, i;
	struct rig_op o;
	bool there;

	CHECK(p != NULL);
	p->seed = seed;
	p->sums = sums;
	begin(&p->r, seed | 1, sums);
	weft_block_fault_set(p->r.block, &cfg);
	for (unsigned int round = 0; round < 3; round++) {
		for (i = 0; i < 20 + rig_draw(&p->seed, 60); i++)
			cells_turn(p);
		for (i = 0; i < CELLS; i++) {
			p->cell[i].at_acked = p->cell[i].acked;
			p->cell[i].at_sent = p->cell[i].sent;
		}
		cut = round == 2 ? (unsigned int)rig_draw(&p->seed, 200) : UINT32_MAX;
		rig_submit(&p->r, (unsigned int)rig_draw(&p->seed, CHANS),
		           snap_op(&o, WEFT_BLOCK_SNAP_CREATE, "s", NULL));
		for (i = 0; o.done == 0 && i < cut; i++)
			cells_turn(p);
		there = o.done == 1 && o.op.status == 0;
		p->wrong += o.done == 1 && o.op.status != 0;
		for (i = 0; i < rig_draw(&p->seed, 40) && round < 2; i++)
			cells_turn(p);
		if (round < 2) {
			check_snapshot(p);
			CHECK_EQ(drop(&p->r, "s"), 0);
		}
	}
	for (i = 0; i < rig_draw(&p->seed, 60); i++)
		cells_turn(p);
	weft_block_fault_cut(p->r.block);
	run_drain(p);
	while (o.done == 0)
		rig_poll(&p->r);
	there |= o.op.status == 0;
	rig_close(&p->r);
	weft_block_fault_boot(p->r.block);
	rig_open(&p->r, CHANS, 0);
	/* What was answered is there; what was under way is there as a whole, or not. */
	if (there)
		check_snapshot(p);
	else
		p->wrong += listed(&p->r) != 0 && o.op.status != -ENODEV && o.op.status != -EIO;
	check_volume(p);
	rig_end(&p->r);
	wrong = p->wrong;
	all_tidied += p->tidied;
	free(p);
	return wrong;
}

static unsigned int
run_count(unsigned int dflt)
{
	const char *env = getenv("WEFT_VOLUME_RUNS");

	if (test_seed_given())
		return 1;
	return env == NULL ? dflt : (unsigned int)strtoul(env, NULL, 0);
}

static void
test_model(void)
{
	const uint64_t seed = test_seed(1);

	for (unsigned int i = 0; i < run_count(150); i++) {
		unsigned int wrong = run_once(seed + i, (seed + i) % 3 != 0);

		CHECK_MSG(wrong == 0, "seed %" PRIu64 ": %u", seed + i, wrong);
	}
	test_note("the maps were cleared %u times without a snapshot", all_tidied);
	CHECK(all_tidied > 0 || test_seed_given());
}

static void
test_mutants(void)
{
	static const struct {
		enum volume_sabotage fault;
		const char *what;
	} mutants[] = {
	        {VOLUME_SNAP_NO_FLUSH, "a snapshot without a flush"},
	        {VOLUME_SNAP_NO_WAIT, "a snapshot that does not wait, and is not waited for"},
	        {VOLUME_SNAP_MAPS_KEPT, "a snapshot with all of its groups in doubt"}};

	for (unsigned int i = 0; i < sizeof(mutants) / sizeof(mutants[0]); i++) {
		unsigned int found = 0;

		volume_sabotage = mutants[i].fault;
		for (unsigned int k = 0; k < 20; k++)
			found += run_once(9001 + k, true) > 0;
		volume_sabotage = VOLUME_SOUND;
		CHECK_MSG(found > 0, "not found: %s", mutants[i].what);
		test_note("%s: found in %u of 20 runs", mutants[i].what, found);
	}
}

WEFT_TEST_MAIN({"snapshots, lists, clones and their superblocks", test_basics},
               {"the same with checksums: none is in doubt", test_basics_sums},
               {"no clone of a snapshot of before a format", test_reformat},
               {"a snapshot of before a resize", test_resized},
               {"changes wait for it, and it waits for those before it", test_order},
               {"a change that hangs keeps others for a bounded time", test_deadline},
               {"one that waits for the maps sleeps", test_behind_tidy},
               {"a client that is given up on", test_revoked},
               {"none after a lost flush of which its client was not told", test_lost},
               {"an error at each request", test_errors},
               {"random writes, snapshots and power cuts", test_model},
               {"faults on purpose are found", test_mutants})
