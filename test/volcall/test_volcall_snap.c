/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Snapshots and clones of a client's volume, one rule a case. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "volcall_rig.h"

static struct weft_volume_req q;

static int
ask(struct vrig *r, enum weft_volume_op op, const char *name, const char *from)
{
	static struct weft_volume_snapshot list[64];

	q = (struct weft_volume_req){
	        .op = op, .name = name, .from = from, .snapshots = list, .max_snapshots = 64};
	return vrig_do(r, &q);
}

static void
test_all(void)
{
	struct vrig r;

	vrig_open(&r, test_seed(1));
	CHECK_EQ(ask(&r, WEFT_VOLUME_OP_SNAPSHOTS, NULL, NULL), 0);
	CHECK(q.found == 0 && !q.more);
	CHECK_EQ(ask(&r, WEFT_VOLUME_OP_SNAPSHOT, "b", NULL), 0);
	CHECK_MSG(strcmp(q.place, "disk.snap?") == 0, "%s", q.place); /* one line */
	CHECK_EQ(ask(&r, WEFT_VOLUME_OP_SNAPSHOT, "b", NULL), -EEXIST);
	CHECK(strcmp(q.why, "there is one") == 0 && q.place[0] == '\0');
	CHECK_EQ(ask(&r, WEFT_VOLUME_OP_CLONE, "c", "b"), 0);
	CHECK(strcmp(q.place, "c") == 0);
	CHECK_EQ(ask(&r, WEFT_VOLUME_OP_CLONE, "d", NULL), 0);
	CHECK_EQ(ask(&r, WEFT_VOLUME_OP_CLONE, "d", "x"), -ENOENT);
	CHECK_EQ(ask(&r, WEFT_VOLUME_OP_SNAPSHOTS, NULL, NULL), 0);
	CHECK(q.found == 1 && strcmp(q.snapshots[0].name, "b") == 0 && q.snapshots[0].bytes == 77 &&
	      q.snapshots[0].created_ns == 78);
	CHECK_EQ(ask(&r, WEFT_VOLUME_OP_SNAPSHOT_REMOVE, "b", NULL), 0);
	CHECK_EQ(ask(&r, WEFT_VOLUME_OP_SNAPSHOT_REMOVE, "b", NULL), -ENOENT);
	vrig_close(&r);
}

/** More snapshots than an answer has, and than the caller has room for. */
static void
test_pages(void)
{
	char name[8], last[64] = "";
	unsigned int n = 0, pages = 0;
	struct vrig r;

	vrig_open(&r, test_seed(2));
	for (unsigned int i = 0; i < FAKE_SNAPSHOTS; i++) {
		snprintf(name, sizeof(name), "s%02u", i);
		CHECK_EQ(ask(&r, WEFT_VOLUME_OP_SNAPSHOT, name, NULL), 0);
	}
	CHECK_EQ(ask(&r, WEFT_VOLUME_OP_SNAPSHOT, "more", NULL), -ENOSPC);
	do {
		CHECK_EQ(ask(&r, WEFT_VOLUME_OP_SNAPSHOTS, n > 0 ? last : NULL, NULL), 0);
		CHECK(q.found > 0);
		for (uint32_t i = 0; i < q.found; i++) {
			snprintf(name, sizeof(name), "s%02u", n++);
			CHECK(strcmp(q.snapshots[i].name, name) == 0);
		}
		snprintf(last, sizeof(last), "%s", name);
		pages++;
	} while (q.more);
	CHECK(n == FAKE_SNAPSHOTS && pages == 2);
	q.max_snapshots = 3;
	q.name = "s04";
	CHECK_EQ(vrig_do(&r, &q), 0);
	CHECK(q.found == 3 && q.more && strcmp(q.snapshots[2].name, "s07") == 0);
	vrig_close(&r);
}

/** A request that is not taken. */
static int
try(struct vrig *r, enum weft_volume_op op, const char *name, const char *from)
{
	static struct weft_volume_snapshot list[1];

	q = (struct weft_volume_req){.op = op,
	                             .name = name,
	                             .from = from,
	                             .snapshots = list,
	                             .max_snapshots = 1,
	                             .done = vrig_count};
	return weft_volume_submit(r->v, &q);
}

static void
test_refused(void)
{
	static const char *const bad[] = {NULL, "", ".a", "-", "a/b", "a b", "a\n", "\xc3\xa4"};
	char longest[65];
	struct vrig r;

	vrig_open(&r, test_seed(3));
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK_EQ(try(&r, WEFT_VOLUME_OP_SNAPSHOT, bad[i], NULL), -EINVAL);
		CHECK_EQ(try(&r, WEFT_VOLUME_OP_SNAPSHOT_REMOVE, bad[i], NULL), -EINVAL);
		CHECK_EQ(try(&r, WEFT_VOLUME_OP_CLONE, bad[i], NULL), -EINVAL);
		if (bad[i] == NULL)
			continue;
		CHECK_EQ(try(&r, WEFT_VOLUME_OP_CLONE, "a", bad[i]), -EINVAL);
		CHECK_EQ(try(&r, WEFT_VOLUME_OP_SNAPSHOTS, bad[i], NULL), -EINVAL);
	}
	memset(longest, 'x', sizeof(longest));
	longest[64] = '\0';
	CHECK_EQ(try(&r, WEFT_VOLUME_OP_SNAPSHOT, longest, NULL), -EINVAL);
	longest[63] = '\0';
	CHECK_EQ(ask(&r, WEFT_VOLUME_OP_SNAPSHOT, longest, NULL), 0);
	CHECK_EQ(ask(&r, WEFT_VOLUME_OP_SNAPSHOTS, NULL, NULL), 0);
	CHECK(strcmp(q.snapshots[0].name, longest) == 0);
	q = (struct weft_volume_req){.op = WEFT_VOLUME_OP_SNAPSHOTS, .done = vrig_count};
	CHECK_EQ(weft_volume_submit(r.v, &q), -EINVAL);
	q = (struct weft_volume_req){
	        .op = WEFT_VOLUME_OP_SNAPSHOT, .name = "a", .len_bytes = 1, .done = vrig_count};
	CHECK_EQ(weft_volume_submit(r.v, &q), -EINVAL);
	vrig_close(&r);
}

static void
test_statuses(void)
{
	static const struct {
		weft_volrpc_status status;
		int rc;
	} all[] = {{WEFT_VOLRPC_NOTSUP, -EOPNOTSUPP},
	           {WEFT_VOLRPC_EXIST, -EEXIST},
	           {WEFT_VOLRPC_NOENT, -ENOENT},
	           {WEFT_VOLRPC_BUSY, -EBUSY},
	           {WEFT_VOLRPC_NOSPC, -ENOSPC},
	           {WEFT_VOLRPC_PERM, -EACCES},
	           {WEFT_VOLRPC_IO, -EIO},
	           {WEFT_VOLRPC_TIMEDOUT, -ETIMEDOUT},
	           {WEFT_VOLRPC_STALE, -ESTALE},
	           {(weft_volrpc_status)18, -EPROTO},
	           {WEFT_VOLRPC_MISMATCH, -EPROTO}};
	static const struct {
		enum weft_volume_op op;
		uint32_t proc;
	} ops[] = {{WEFT_VOLUME_OP_SNAPSHOT, WEFT_VOLRPC_SNAPSHOT},
	           {WEFT_VOLUME_OP_SNAPSHOTS, WEFT_VOLRPC_SNAPSHOTS},
	           {WEFT_VOLUME_OP_SNAPSHOT_REMOVE, WEFT_VOLRPC_SNAPSHOT_REMOVE},
	           {WEFT_VOLUME_OP_CLONE, WEFT_VOLRPC_CLONE}};
	struct vrig r;

	vrig_open(&r, test_seed(4));
	for (unsigned int o = 0; o < sizeof(ops) / sizeof(ops[0]); o++)
		for (unsigned int i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
			fake_refuse(&r.f, ops[o].proc, 0, 1, all[i].status, "told why");
			CHECK_EQ(ask(&r, ops[o].op, "a", NULL), all[i].rc);
			CHECK(all[i].rc == -EPROTO ? q.why[0] != '\0'
			                           : strcmp(q.why, "told why") == 0);
		}
	vrig_close(&r);
}

/** A target of before snapshots. */
static void
test_older(void)
{
	static const struct weft_rpc_program *const older[] = {&fake_older, NULL};
	struct weft_volume_attr va;
	uint8_t octet = 7;
	struct vrig r;

	vrig_programs = older;
	vrig_connect(&r, test_seed(5), (struct weft_rpc_attr){0});
	vrig_programs = NULL;
	va = vrig_attr(&r);
	CHECK_EQ(vrig_open_volume(&r, &va), 0);
	CHECK_EQ(ask(&r, WEFT_VOLUME_OP_SNAPSHOT, "a", NULL), -EOPNOTSUPP);
	CHECK_MSG(strstr(q.why, "older version") != NULL, "%s", q.why);
	CHECK_EQ(ask(&r, WEFT_VOLUME_OP_SNAPSHOTS, NULL, NULL), -EOPNOTSUPP);
	CHECK_EQ(ask(&r, WEFT_VOLUME_OP_SNAPSHOT_REMOVE, "a", NULL), -EOPNOTSUPP);
	CHECK_EQ(ask(&r, WEFT_VOLUME_OP_CLONE, "a", NULL), -EOPNOTSUPP);
	/* All else is as before. */
	q = (struct weft_volume_req){.op = WEFT_VOLUME_OP_WRITE, .data = &octet, .len_bytes = 1};
	CHECK_EQ(vrig_do(&r, &q), 0);
	vrig_close(&r);
}

static unsigned int turn;

static void
spoil(uint32_t proc, void *res)
{
	weft_volrpc_snapshots *f =
	        &((weft_volrpc_snapshots_res *)res)->weft_volrpc_snapshots_res_u.found;

	if (proc != WEFT_VOLRPC_SNAPSHOTS)
		return;
	free(f->list.list_val[0].name);
	f->list.list_val[0].name = strdup(turn == 0   ? "b"
	                                  : turn == 1 ? "../x"
	                                  : turn == 2 ? ""
	                                              : "z");
}

/** A list that makes no sense. */
static void
test_garbage(void)
{
	struct vrig r;

	vrig_open(&r, test_seed(6));
	CHECK_EQ(ask(&r, WEFT_VOLUME_OP_SNAPSHOT, "a", NULL), 0);
	CHECK_EQ(ask(&r, WEFT_VOLUME_OP_SNAPSHOT, "b", NULL), 0);
	r.f.spoil = spoil;
	for (turn = 0; turn < 4; turn++) {
		CHECK_EQ(ask(&r, WEFT_VOLUME_OP_SNAPSHOTS, NULL, NULL), -EPROTO);
		CHECK(q.found == 0 && q.why[0] != '\0');
	}
	/* behind the name that was asked for, or the caller never comes to an end */
	turn = 3;
	r.f.snapshot[0][0] = r.f.snapshot[1][0] = '\0';
	CHECK_EQ(weft_volume_submit(r.v, &(struct weft_volume_req){0}), -EINVAL);
	vrig_close(&r);
}

WEFT_TEST_MAIN({"snapshots, clones and lists", test_all}, {"a list in several answers", test_pages},
               {"names that cannot be", test_refused}, {"each status has its errno", test_statuses},
               {"a target of an older version", test_older},
               {"a list that makes no sense is EPROTO", test_garbage})
