/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Volumes of a client, one rule a case. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "volcall_rig.h"

static uint8_t a[FAKE_BYTES], b[FAKE_BYTES];

/* ---- Opening and closing ---- */

static void
test_open(void)
{
	const struct weft_volume_info *i;
	struct vrig r;

	vrig_open(&r, test_seed(1));
	i = weft_volume_info(r.v);
	CHECK(i != NULL);
	CHECK_EQ(i->bytes, FAKE_BYTES);
	CHECK_EQ(i->rights, FAKE_ALL);
	CHECK_EQ(i->can, WEFT_VOLUME_DISCARDS | WEFT_VOLUME_HOLES);
	CHECK_EQ(i->block_bytes, FAKE_BLOCK);
	CHECK_EQ(i->io_bytes, FAKE_IO);
	CHECK_EQ(i->compare_bytes, 65536);
	CHECK_EQ(i->range_bytes, 64 << 20);
	CHECK_EQ(i->window_bytes, 16 * FAKE_BLOCK);
	CHECK_EQ(i->uuid[15], 16);
	CHECK(strcmp(i->hash, "crc32c") == 0 && i->hash_bytes == 4);
	CHECK(strcmp(i->mechanism, "a byte array") == 0);
	CHECK(weft_volume_user(r.v) == &r);
	CHECK_EQ(vrig_close_volume(&r), 0);
	CHECK_EQ(r.f.served[WEFT_VOLRPC_CLOSE], 1);
	CHECK(!r.f.open);
	vrig_close(&r);
}

static void
test_open_refused(void)
{
	static const struct {
		weft_volrpc_status status;
		int rc;
	} refusals[] = {{WEFT_VOLRPC_NOENT, -ENOENT},      {WEFT_VOLRPC_PERM, -EACCES},
	                {WEFT_VOLRPC_OFFLINE, -ENODEV},    {WEFT_VOLRPC_NORES, -ENOMEM},
	                {WEFT_VOLRPC_FENCED, -ESHUTDOWN},  {WEFT_VOLRPC_NOTSUP, -EOPNOTSUPP},
	                {(weft_volrpc_status)77, -EPROTO}, {(weft_volrpc_status)-1, -EPROTO}};
	struct weft_volume_attr va;
	struct vrig r;

	vrig_connect(&r, test_seed(2), (struct weft_rpc_attr){0});
	va = vrig_attr(&r);
	for (unsigned int i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		fake_refuse(&r.f, WEFT_VOLRPC_OPEN, 0, 1, refusals[i].status, "because");
		CHECK_EQ(vrig_open_volume(&r, &va), refusals[i].rc);
		CHECK(refusals[i].rc == -EPROTO || strcmp(r.why, "because") == 0);
		CHECK(weft_volume_info(r.v) == NULL);
		CHECK_EQ(weft_volume_submit(r.v,
		                            &(struct weft_volume_req){.op = WEFT_VOLUME_OP_FLUSH,
		                                                      .done = vrig_count}),
		         -EINVAL);
		CHECK_EQ(vrig_close_volume(&r), 0);
	}
	va.name = "other";
	CHECK_EQ(vrig_open_volume(&r, &va), -ENOENT);
	CHECK(strcmp(r.why, "no such?volume") == 0); /* one line, whatever the target says */
	CHECK_EQ(vrig_close_volume(&r), 0);
	CHECK_EQ(r.f.served[WEFT_VOLRPC_CLOSE], 0);
	vrig_close(&r);
}

static void
test_open_old_target(void)
{
	static const struct weft_rpc_program old = {.prog = WEFT_VOLRPC_PROG, .vers = 1};
	static const struct weft_rpc_program *const olds[] = {&old, NULL};
	struct weft_volume_attr va;
	struct vrig r;

	vrig_programs = olds;
	vrig_connect(&r, test_seed(3), (struct weft_rpc_attr){0});
	vrig_programs = NULL;
	va = vrig_attr(&r);
	CHECK_EQ(vrig_open_volume(&r, &va), -EPROTONOSUPPORT);
	CHECK(strstr(r.why, "no volumes") != NULL);
	vrig_close(&r);
}

static void
spoil_grant(uint32_t proc, void *res)
{
	weft_volrpc_open_res *o = res;
	weft_volrpc_grant *g = &o->weft_volrpc_open_res_u.grant;
	static unsigned int turn;

	if (proc != WEFT_VOLRPC_OPEN)
		return;
	switch (turn++ % 7) {
	case 0:
		g->bytes = 0;
		break;
	case 1:
		g->bytes = UINT64_MAX;
		break;
	case 2:
		g->io_bytes = 0;
		break;
	case 3:
		g->block_bytes = 0;
		break;
	case 4:
		g->hash_bytes = 65;
		break;
	case 5:
		g->range_bytes = 0;
		break;
	default:
		g->window_align = 0;
		break;
	}
}

static void
test_open_garbage(void)
{
	struct weft_volume_attr va;
	struct vrig r;

	vrig_connect(&r, test_seed(4), (struct weft_rpc_attr){0});
	va = vrig_attr(&r);
	r.f.spoil = spoil_grant;
	for (unsigned int i = 0; i < 7; i++) {
		CHECK_EQ(vrig_open_volume(&r, &va), -EPROTO);
		CHECK_EQ(vrig_close_volume(&r), 0);
	}
	vrig_close(&r);
}

static void
test_close_while_opening(void)
{
	struct weft_volume_attr va;
	struct vrig r, closed = {0};

	vrig_connect(&r, test_seed(5), (struct weft_rpc_attr){0});
	va = vrig_attr(&r);
	CHECK_EQ(weft_volume_open(&va, vrig_told, &r, &r.v), 0);
	weft_volume_close(r.v, vrig_told, &closed);
	r.v = NULL;
	CHECK_EQ(r.told, 0);
	vrig_run(&r, 10 * VT_MS);
	CHECK_EQ(r.told, 1);
	CHECK_EQ(r.status, -ECANCELED);
	CHECK_EQ(closed.told, 1);
	CHECK_EQ(closed.status, 0);
	CHECK(!r.f.open);
	vrig_close(&r);
}

static void
test_close_cancels(void)
{
	struct weft_volume_req big = {
	        .op = WEFT_VOLUME_OP_WRITE, .len_bytes = FAKE_BYTES, .data = a, .done = vrig_count};
	struct weft_volume_req late = {
	        .op = WEFT_VOLUME_OP_READ, .len_bytes = 10, .data = b, .done = vrig_count};
	unsigned int n = 0;
	struct vrig r;

	vrig_open(&r, test_seed(6));
	r.f.grant.io_bytes = 4096;
	CHECK_EQ(vrig_close_volume(&r), 0);
	{
		struct weft_volume_attr va = vrig_attr(&r);

		CHECK_EQ(vrig_open_volume(&r, &va), 0);
	}
	r.f.hold = true;
	big.owner = late.owner = &n;
	CHECK_EQ(weft_volume_submit(r.v, &big), 0);
	CHECK_EQ(weft_volume_submit(r.v, &late), 0);
	vrig_run(&r, 10 * VT_MS);
	CHECK_EQ(n, 0);
	r.told = 0;
	weft_volume_close(r.v, vrig_told, &r);
	r.v = NULL;
	CHECK_EQ(n, 0);
	vrig_run(&r, 10 * VT_MS);
	CHECK_EQ(n, 1); /* that of which no call was under way */
	CHECK_EQ(late.status, -ECANCELED);
	CHECK_EQ(late.done_bytes, 0);
	CHECK_EQ(r.told, 0);
	fake_release(&r.f);
	vrig_run(&r, 10 * VT_MS);
	CHECK_EQ(n, 2);
	CHECK_EQ(big.status, -ECANCELED);
	CHECK(big.done_bytes > 0 && big.done_bytes < FAKE_BYTES);
	CHECK_EQ(r.told, 1);
	vrig_close(&r);
}

/* ---- Requests ---- */

static void
test_read_write(void)
{
	static const uint64_t lens[] = {0, 1, 3, 511, 512, 513, 4096, 65536, 65537, 300001};
	struct vrig r;

	vrig_open(&r, test_seed(7));
	for (unsigned int i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		struct weft_volume_req w = {.op = WEFT_VOLUME_OP_WRITE,
		                            .off_bytes = 77 * i,
		                            .len_bytes = lens[i],
		                            .data = a};
		struct weft_volume_req rd = {.op = WEFT_VOLUME_OP_READ,
		                             .off_bytes = 77 * i,
		                             .len_bytes = lens[i],
		                             .data = b};

		vt_fill(a, lens[i], i + 1);
		memset(b, 0x5a, lens[i] + 8);
		CHECK_EQ(vrig_do(&r, &w), 0);
		CHECK(memcmp(r.f.mem + 77 * i, a, lens[i]) == 0);
		CHECK_EQ(vrig_do(&r, &rd), 0);
		CHECK(memcmp(a, b, lens[i]) == 0);
		CHECK_EQ(b[lens[i]], 0x5a);
	}
	vrig_close(&r);
}

static void
test_others(void)
{
	struct weft_volume_piece p[4];
	struct weft_volume_req q = {.op = WEFT_VOLUME_OP_WRITE,
	                            .flags = WEFT_VOLUME_F_DURABLE | WEFT_VOLUME_F_WHOLE,
	                            .off_bytes = FAKE_BLOCK,
	                            .len_bytes = 100,
	                            .data = a};
	uint8_t crc[4];
	struct vrig r;

	vrig_open(&r, test_seed(8));
	vt_fill(a, 100, 5);
	CHECK_EQ(vrig_do(&r, &q), 0);
	q = (struct weft_volume_req){.op = WEFT_VOLUME_OP_FLUSH};
	CHECK_EQ(vrig_do(&r, &q), 0);
	CHECK_EQ(r.f.served[WEFT_VOLRPC_FLUSH], 1);
	q = (struct weft_volume_req){.op = WEFT_VOLUME_OP_VERIFY, .len_bytes = FAKE_BYTES};
	CHECK_EQ(vrig_do(&r, &q), 0);
	vt_crc32c(r.f.mem, FAKE_BYTES, crc);
	CHECK(memcmp(q.hash, crc, 4) == 0);
	q = (struct weft_volume_req){.op = WEFT_VOLUME_OP_EXTENTS,
	                             .off_bytes = 10,
	                             .len_bytes = FAKE_BYTES - 10,
	                             .pieces = p,
	                             .max_pieces = 4};
	CHECK_EQ(vrig_do(&r, &q), 0);
	CHECK_EQ(q.found, 3);
	CHECK_EQ(q.done_bytes, FAKE_BYTES - 10);
	CHECK(p[0].hole && !p[1].hole && p[2].hole);
	CHECK_EQ(p[1].off_bytes, FAKE_BLOCK);
	CHECK_EQ(p[1].len_bytes, FAKE_BLOCK);
	q.max_pieces = 2; /* less room than there are */
	CHECK_EQ(vrig_do(&r, &q), 0);
	CHECK_EQ(q.found, 2);
	CHECK_EQ(q.done_bytes, 2 * FAKE_BLOCK - 10);
	q = (struct weft_volume_req){.op = WEFT_VOLUME_OP_COMPARE_WRITE,
	                             .off_bytes = FAKE_BLOCK,
	                             .len_bytes = 100,
	                             .expect = a,
	                             .data = b};
	memset(b, 7, 100);
	CHECK_EQ(vrig_do(&r, &q), 0);
	CHECK(memcmp(r.f.mem + FAKE_BLOCK, b, 100) == 0);
	b[50] = 9;
	q.expect = b;
	CHECK_EQ(vrig_do(&r, &q), -EILSEQ);
	CHECK_EQ(q.at_bytes, FAKE_BLOCK + 50);
	CHECK_EQ(q.done_bytes, 0);
	q = (struct weft_volume_req){.op = WEFT_VOLUME_OP_ZEROES, .len_bytes = 2 * FAKE_BLOCK};
	CHECK_EQ(vrig_do(&r, &q), 0);
	CHECK_EQ(r.f.mem[FAKE_BLOCK], 0);
	q.op = WEFT_VOLUME_OP_DISCARD;
	CHECK_EQ(vrig_do(&r, &q), 0);
	CHECK(r.f.hole[1]);
	vrig_close(&r);
}

/* Requests that are not taken. */
static void
test_requests_refused(void)
{
	struct weft_volume_piece p[1];
	const struct weft_volume_req good = {.op = WEFT_VOLUME_OP_READ,
	                                     .len_bytes = 8,
	                                     .data = a,
	                                     .expect = b,
	                                     .pieces = p,
	                                     .max_pieces = 1,
	                                     .done = vrig_count};
	struct weft_volume_req q;
	struct vrig r;

#define REFUSED(...)                                                                               \
	do {                                                                                       \
		q = good;                                                                          \
		__VA_ARGS__;                                                                       \
		CHECK_EQ(weft_volume_submit(r.v, &q), -EINVAL);                                    \
	} while (0)
	vrig_open(&r, test_seed(22));
	CHECK_EQ(weft_volume_submit(r.v, NULL), -EINVAL);
	REFUSED(q.op = WEFT_VOLUME_OPS);
	REFUSED(q.op = (enum weft_volume_op) - 1);
	REFUSED(q.done = NULL);
	REFUSED(q.data = NULL);
	REFUSED(q.flags = WEFT_VOLUME_F_DURABLE);
	REFUSED(q.off_bytes = FAKE_BYTES - 7);
	REFUSED(q.off_bytes = UINT64_MAX - 3);
	REFUSED(q.len_bytes = UINT64_MAX);
	REFUSED(q.off_bytes = FAKE_BYTES + 1; q.len_bytes = 0);
	REFUSED(q.op = WEFT_VOLUME_OP_WRITE; q.flags = WEFT_VOLUME_F_KEEP);
	REFUSED(q.op = WEFT_VOLUME_OP_WRITE; q.flags = 8);
	REFUSED(q.op = WEFT_VOLUME_OP_FLUSH; q.flags = WEFT_VOLUME_F_DURABLE);
	REFUSED(q.op = WEFT_VOLUME_OP_COMPARE_WRITE; q.expect = NULL);
	REFUSED(q.op = WEFT_VOLUME_OP_EXTENTS; q.pieces = NULL);
	REFUSED(q.op = WEFT_VOLUME_OP_EXTENTS; q.max_pieces = 0);
	q = good;
	q.op = WEFT_VOLUME_OP_WRITE;
	q.flags = WEFT_VOLUME_F_WHOLE;
	q.len_bytes = FAKE_IO + 1;
	CHECK_EQ(weft_volume_submit(r.v, &q), -EMSGSIZE);
	CHECK(q.volume == NULL);
	vrig_close(&r);
}

static void
test_big_compare(void)
{
	struct weft_volume_req q = {.op = WEFT_VOLUME_OP_COMPARE_WRITE,
	                            .off_bytes = 3,
	                            .len_bytes = 65536,
	                            .expect = a,
	                            .data = a + 70000};
	struct vrig r;

	vrig_open(&r, test_seed(9));
	memset(a, 0, 65536);
	vt_fill(a + 70000, 65536, 11);
	CHECK_EQ(vrig_do(&r, &q), 0);
	CHECK(memcmp(r.f.mem + 3, a + 70000, 65536) == 0);
	CHECK_EQ(r.f.served[WEFT_VOLRPC_COMPARE_WRITE], 1);
	CHECK_EQ(weft_rpc_stats(r.side[1].rpc)->read_chunks, 2);
	q.len_bytes++;
	q.done = vrig_count;
	CHECK_EQ(weft_volume_submit(r.v, &q), -EMSGSIZE);
	vrig_close(&r);
}

static void
test_each_status(void)
{
	static const struct {
		weft_volrpc_status status;
		int rc;
	} all[] = {{WEFT_VOLRPC_NOENT, -ENOENT},       {WEFT_VOLRPC_IO, -EIO},
	           {WEFT_VOLRPC_OFFLINE, -ENODEV},     {WEFT_VOLRPC_PERM, -EACCES},
	           {WEFT_VOLRPC_BUSY, -EBUSY},         {WEFT_VOLRPC_INVAL, -EINVAL},
	           {WEFT_VOLRPC_NOSPC, -ENOSPC},       {WEFT_VOLRPC_DAMAGED, -EBADMSG},
	           {WEFT_VOLRPC_TOO_LONG, -EMSGSIZE},  {WEFT_VOLRPC_NOTSUP, -EOPNOTSUPP},
	           {WEFT_VOLRPC_NORES, -ENOMEM},       {WEFT_VOLRPC_FENCED, -ESHUTDOWN},
	           {WEFT_VOLRPC_TIMEDOUT, -ETIMEDOUT}, {WEFT_VOLRPC_STALE, -ESTALE},
	           {WEFT_VOLRPC_CANCELED, -ECANCELED}, {(weft_volrpc_status)1, -EPROTO},
	           {WEFT_VOLRPC_MISMATCH, -EPROTO}};
	static const struct {
		enum weft_volume_op op;
		uint32_t proc;
	} ops[] = {{WEFT_VOLUME_OP_READ, WEFT_VOLRPC_READ},
	           {WEFT_VOLUME_OP_WRITE, WEFT_VOLRPC_WRITE},
	           {WEFT_VOLUME_OP_FLUSH, WEFT_VOLRPC_FLUSH},
	           {WEFT_VOLUME_OP_VERIFY, WEFT_VOLRPC_VERIFY},
	           {WEFT_VOLUME_OP_COMPARE_WRITE, WEFT_VOLRPC_COMPARE_WRITE},
	           {WEFT_VOLUME_OP_DISCARD, WEFT_VOLRPC_DISCARD},
	           {WEFT_VOLUME_OP_ZEROES, WEFT_VOLRPC_ZEROES},
	           {WEFT_VOLUME_OP_EXTENTS, WEFT_VOLRPC_EXTENTS}};
	struct weft_volume_piece p[1];
	struct vrig r;

	vrig_open(&r, test_seed(10));
	for (unsigned int o = 0; o < sizeof(ops) / sizeof(ops[0]); o++) {
		for (unsigned int i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
			struct weft_volume_req q = {.op = ops[o].op,
			                            .off_bytes = 8192,
			                            .len_bytes = 1000,
			                            .data = a,
			                            .expect = b,
			                            .pieces = p,
			                            .max_pieces = 1};

			fake_refuse(&r.f, ops[o].proc, 0, 1, all[i].status, "told why");
			r.f.fault.at = 4096;
			r.f.fault.done = 100;
			CHECK_MSG(vrig_do(&r, &q) == all[i].rc, "op %u, status %d: %d", o,
			          (int)all[i].status, q.status);
			if (all[i].rc != -EPROTO) {
				CHECK(strcmp(q.why, "told why") == 0);
				CHECK_EQ(q.done_bytes, 100);
			} else {
				CHECK(q.why[0] != '\0');
				CHECK_EQ(q.done_bytes, 0);
			}
			CHECK_EQ(q.at_bytes, all[i].rc == -EBADMSG ? 4096 : 0);
		}
	}
	vrig_close(&r);
}

/* Numbers of a fault that are outside of the range or the volume. */
static void
test_fault_garbage(void)
{
	struct weft_volume_req q = {.op = WEFT_VOLUME_OP_COMPARE_WRITE,
	                            .off_bytes = 8192,
	                            .len_bytes = 1000,
	                            .data = a,
	                            .expect = b};
	static const struct {
		weft_volrpc_status status;
		uint64_t at, done;
	} bad[] = {{WEFT_VOLRPC_MISMATCH, 8191, 0},       {WEFT_VOLRPC_MISMATCH, 9192, 0},
	           {WEFT_VOLRPC_MISMATCH, UINT64_MAX, 0}, {WEFT_VOLRPC_DAMAGED, FAKE_BYTES, 0},
	           {WEFT_VOLRPC_DAMAGED, UINT64_MAX, 0},  {WEFT_VOLRPC_IO, 0, 1001},
	           {WEFT_VOLRPC_IO, 0, UINT64_MAX - 8191}};
	struct vrig r;

	vrig_open(&r, test_seed(11));
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		fake_refuse(&r.f, WEFT_VOLRPC_COMPARE_WRITE, 0, 1, bad[i].status, "x");
		r.f.fault.at = bad[i].at;
		r.f.fault.done = bad[i].done;
		CHECK_MSG(vrig_do(&r, &q) == -EPROTO, "fault %u: %d", i, q.status);
		CHECK_EQ(q.done_bytes, 0);
		CHECK_EQ(q.at_bytes, 0);
	}
	vrig_close(&r);
}

static unsigned int spoil_turn;

static void
spoil_results(uint32_t proc, void *res)
{
	weft_volrpc_extents_res *x = res;
	weft_volrpc_extents *e = &x->weft_volrpc_extents_res_u.extents;
	weft_volrpc_verify_res *h = res;
	weft_volrpc_read_res *d = res;

	if (proc == WEFT_VOLRPC_READ)
		d->weft_volrpc_read_res_u.data.data_len -= 1 + spoil_turn % 3;
	if (proc == WEFT_VOLRPC_VERIFY)
		h->weft_volrpc_verify_res_u.found.hash.hash_len = spoil_turn % 2 == 0 ? 3 : 64;
	if (proc != WEFT_VOLRPC_EXTENTS)
		return;
	switch (spoil_turn % 5) {
	case 0:
		e->list.list_len = 0;
		break;
	case 1:
		e->list.list_val[0].off++;
		break;
	case 2:
		e->list.list_val[0].len = UINT64_MAX;
		break;
	case 3:
		e->list.list_val[0].len = 0;
		break;
	default:
		e->list.list_val[e->list.list_len++] = (weft_volrpc_extent){0, 1, false};
		break;
	}
}

static void
test_results_garbage(void)
{
	static const enum weft_volume_op ops[] = {WEFT_VOLUME_OP_READ, WEFT_VOLUME_OP_VERIFY,
	                                          WEFT_VOLUME_OP_EXTENTS};
	struct weft_volume_piece p[8];
	struct vrig r;

	vrig_open(&r, test_seed(12));
	r.f.spoil = spoil_results;
	for (spoil_turn = 0; spoil_turn < 30; spoil_turn++) {
		struct weft_volume_req q = {.op = ops[spoil_turn % 3],
		                            .off_bytes = 4096,
		                            .len_bytes = spoil_turn < 15 ? 100 : 30000,
		                            .data = a,
		                            .pieces = p,
		                            .max_pieces = 8};

		CHECK_EQ(vrig_do(&r, &q), -EPROTO);
		CHECK_EQ(q.done_bytes, 0);
		CHECK_EQ(q.found, 0);
		CHECK(q.why[0] != '\0');
	}
	vrig_close(&r);
}

/* Of a read that is several calls, one fails: the first fault counts. */
static void
test_part_fails(void)
{
	struct weft_volume_req q = {
	        .op = WEFT_VOLUME_OP_READ, .off_bytes = 5, .len_bytes = 10 * FAKE_IO, .data = a};
	struct vrig r;

	vrig_open(&r, test_seed(13));
	for (unsigned int skip = 0; skip < 10; skip++) {
		fake_refuse(&r.f, WEFT_VOLRPC_READ, skip, 2, WEFT_VOLRPC_IO, "broken");
		r.f.fault.done = 4096;
		CHECK_EQ(vrig_do(&r, &q), -EIO);
		CHECK(strcmp(q.why, "broken") == 0);
		/* The first call ends at a multiple of a block. */
		CHECK_EQ(q.done_bytes, skip == 0 ? 4096 : skip * (uint64_t)FAKE_IO - 5 + 4096);
		CHECK_EQ(q.calls, 0);
		r.f.times = 0;
		CHECK_EQ(vrig_do(&r, &q), 0);
	}
	vrig_close(&r);
}

/* Open the volume again, at a target that takes ranges of 65536 octets in one call. */
static void
open_short(struct vrig *r, uint64_t seed)
{
	struct weft_volume_attr va;

	vrig_connect(r, seed, (struct weft_rpc_attr){.credits = 64});
	r->f.grant.range_bytes = 65536;
	va = vrig_attr(r);
	CHECK_EQ(vrig_open_volume(r, &va), 0);
	CHECK_EQ(weft_volume_info(r->v)->range_bytes, 65536);
}

/* A discard and zeroes that are longer than the longest range are several calls, a few at once. */
static void
test_ranges_are_cut(void)
{
	static const struct {
		enum weft_volume_op op;
		uint32_t proc;
	} ops[] = {{WEFT_VOLUME_OP_DISCARD, WEFT_VOLRPC_DISCARD},
	           {WEFT_VOLUME_OP_ZEROES, WEFT_VOLRPC_ZEROES}};
	struct weft_volume_req q;
	struct vrig r;

	open_short(&r, test_seed(26));
	for (unsigned int i = 0; i < 2; i++) {
		memset(r.f.mem, 0x77, FAKE_BYTES);
		r.f.most = 0;
		q = (struct weft_volume_req){
		        .op = ops[i].op, .off_bytes = 65530, .len_bytes = 65536 * 9 + 7};
		CHECK_EQ(vrig_do(&r, &q), 0);
		/* To 65536, nine whole ones, and one octet. */
		CHECK_EQ(r.f.served[ops[i].proc], 11);
		CHECK_EQ(r.f.mem[65529], 0x77);
		for (uint64_t k = 65530; k < 65537 + 65536 * 9; k++)
			CHECK_EQ(r.f.mem[k], 0);
		CHECK_EQ(r.f.mem[65537 + 65536 * 9], 0x77);
		q.off_bytes = 5;
		q.len_bytes = 65536;
		CHECK_EQ(vrig_do(&r, &q), 0);
		CHECK_EQ(r.f.served[ops[i].proc], 12);
		/* The third call fails: two are done, and a part of it. */
		fake_refuse(&r.f, ops[i].proc, 2, 1, WEFT_VOLRPC_IO, "broken");
		r.f.fault.done = 512;
		q.len_bytes = 65536 * 12;
		CHECK_EQ(vrig_do(&r, &q), -EIO);
		CHECK_EQ(q.done_bytes, 2 * 65536 - 5 + 512);
		CHECK_EQ(q.calls, 0);
	}
	vrig_close(&r);
}

/* While as many calls of long ranges as may be are under way, others begin. */
static void
test_ranges_leave_room(void)
{
	struct weft_volume_req z[2], rd = {.op = WEFT_VOLUME_OP_READ,
	                                   .off_bytes = 65536 * 14,
	                                   .len_bytes = 10,
	                                   .data = b,
	                                   .done = vrig_count};
	unsigned int n = 0;
	struct vrig r;

	open_short(&r, test_seed(27));
	memset(r.f.mem, 0x77, FAKE_BYTES);
	r.f.hold = true;
	rd.owner = &n;
	for (unsigned int i = 0; i < 2; i++) {
		z[i] = (struct weft_volume_req){.op = WEFT_VOLUME_OP_ZEROES,
		                                .off_bytes = i * 65536 * 7,
		                                .len_bytes = 65536 * 7,
		                                .done = vrig_count,
		                                .owner = &n};
		CHECK_EQ(weft_volume_submit(r.v, &z[i]), 0);
	}
	vrig_run(&r, 10 * VT_MS);
	CHECK_EQ(r.f.nheld, 8); /* four of each */
	CHECK_EQ(weft_volume_submit(r.v, &rd), 0);
	vrig_run(&r, 10 * VT_MS);
	CHECK_EQ(r.f.nheld, 9);
	CHECK_EQ(r.f.served[WEFT_VOLRPC_READ], 1);
	/* What was not sent is never sent after a close. */
	r.told = 0;
	weft_volume_close(r.v, vrig_told, &r);
	r.v = NULL;
	vrig_run(&r, 10 * VT_MS);
	CHECK_EQ(n, 0);
	fake_release(&r.f);
	vrig_run(&r, 10 * VT_MS);
	CHECK_EQ(n, 3);
	CHECK_EQ(rd.status, 0);
	for (unsigned int i = 0; i < 2; i++) {
		CHECK_EQ(z[i].status, -ECANCELED);
		CHECK_EQ(z[i].done_bytes, 65536 * 4);
	}
	CHECK_EQ(r.f.served[WEFT_VOLRPC_ZEROES], 8);
	CHECK_EQ(r.told, 1);
	vrig_close(&r);
}

/* A hash of pieces is not the hash of all, so the owner cuts a verify. Others are never cut. */
static void
test_ranges_not_cut(void)
{
	struct weft_volume_req q = {.op = WEFT_VOLUME_OP_VERIFY,
	                            .off_bytes = 3,
	                            .len_bytes = 65537,
	                            .done = vrig_count};
	struct weft_volume_piece p[4];
	struct vrig r;

	open_short(&r, test_seed(28));
	CHECK_EQ(weft_volume_submit(r.v, &q), -EMSGSIZE);
	CHECK(q.volume == NULL);
	CHECK_EQ(r.f.served[WEFT_VOLRPC_VERIFY], 0);
	q.len_bytes--;
	CHECK_EQ(vrig_do(&r, &q), 0);
	q = (struct weft_volume_req){.op = WEFT_VOLUME_OP_FLUSH, .len_bytes = FAKE_BYTES};
	CHECK_EQ(vrig_do(&r, &q), 0);
	CHECK_EQ(r.f.served[WEFT_VOLRPC_FLUSH], 1);
	q = (struct weft_volume_req){.op = WEFT_VOLUME_OP_EXTENTS,
	                             .len_bytes = FAKE_BYTES,
	                             .pieces = p,
	                             .max_pieces = 4};
	CHECK_EQ(vrig_do(&r, &q), 0);
	CHECK_EQ(q.done_bytes, FAKE_BYTES);
	CHECK_EQ(r.f.served[WEFT_VOLRPC_EXTENTS], 1);
	vrig_close(&r);
}

/* A request fails while it waits behind two others; those and a fourth one go on. */
static void
test_last_fails(void)
{
	static struct weft_volume_req q[4];
	struct weft_volume_attr va;
	unsigned int n = 0;
	struct vrig r;

	vrig_connect(&r, test_seed(23), (struct weft_rpc_attr){.credits = 2});
	r.f.grant.io_bytes = 1000;
	va = vrig_attr(&r);
	CHECK_EQ(vrig_open_volume(&r, &va), 0);
	fake_refuse(&r.f, WEFT_VOLRPC_READ, 1, 1, WEFT_VOLRPC_IO, "broken");
	for (unsigned int i = 0; i < 4; i++)
		q[i] = (struct weft_volume_req){.op = WEFT_VOLUME_OP_READ,
		                                .len_bytes = 100000,
		                                .data = a + i * 100000,
		                                .done = vrig_count,
		                                .owner = &n};
	for (unsigned int i = 0; i < 3; i++)
		CHECK_EQ(weft_volume_submit(r.v, &q[i]), 0);
	for (unsigned int i = 0; q[0].status == 0; i++) {
		CHECK(i < 1000);
		vrig_run(&r, 10000);
	}
	CHECK_EQ(weft_volume_submit(r.v, &q[3]), 0);
	vrig_run(&r, VT_S);
	CHECK_EQ(n, 4);
	CHECK_EQ(q[0].status, -EIO);
	for (unsigned int i = 1; i < 4; i++)
		CHECK_EQ(q[i].status, 0);
	vrig_close(&r);
}

static enum weft_rpc_status args_status;

static void
args_answered(void *arg, enum weft_rpc_status status, void *res)
{
	unsigned int *n = arg;

	(void)res;
	args_status = status;
	++*n;
}

static enum weft_rpc_status
call_with(struct vrig *r, uint32_t proc, xdrproc_t xdr_args, const void *args,
          const struct weft_rpc_binding *binding)
{
	struct weft_rpc_call_attr ca = {.size = sizeof(ca),
	                                .prog = WEFT_VOLRPC_PROG,
	                                .vers = WEFT_VOLRPC_V2,
	                                .proc = proc,
	                                .xdr_args = xdr_args,
	                                .args = args,
	                                .xdr_res = (xdrproc_t)xdr_weft_volrpc_res,
	                                .res_bytes = sizeof(weft_volrpc_res),
	                                .binding = binding,
	                                .fn = args_answered};
	unsigned int n = 0;

	ca.arg = &n;
	CHECK_EQ(weft_rpc_call_with(r->side[0].rpc, &ca), 0);
	vrig_run(r, 50 * VT_MS);
	CHECK_EQ(n, 1);
	return args_status;
}

/* XDR that weft_volrpc.x does not allow, of a client that does as it likes. */
static bool_t
xdr_too_much(XDR *x, weft_volrpc_write_args *w)
{
	return xdr_u_int(x, &w->handle) && xdr_u_quad_t(x, &w->off) && xdr_u_int(x, &w->flags) &&
	       xdr_bytes(x, &w->data.data_val, &w->data.data_len, UINT32_MAX);
}

/* The server's side of the bindings (volrpc.h). */
static void
test_arguments(void)
{
	weft_volrpc_compare_args c = {.handle = 1};
	weft_volrpc_write_args w = {.handle = 1};
	char *big = calloc(1, WEFT_VOLRPC_IO_MAX + 1);
	struct vrig r;

	vrig_open(&r, test_seed(24));
	for (unsigned int len = 8; len <= 32768; len *= 4096) {
		for (int more = -1; more <= 1; more++) {
			c.expect.expect_val = c.data.data_val = big;
			c.expect.expect_len = len;
			c.data.data_len = len + (unsigned int)(4 * more);
			CHECK_EQ(call_with(&r, WEFT_VOLRPC_COMPARE_WRITE,
			                   (xdrproc_t)xdr_weft_volrpc_compare_args, &c,
			                   &weft_volrpc_compare_binding),
			         more == 0 ? WEFT_RPC_OK : WEFT_RPC_GARBAGE_ARGS);
		}
	}
	CHECK_EQ(r.f.served[WEFT_VOLRPC_COMPARE_WRITE], 2);
	w.data.data_val = big;
	w.data.data_len = WEFT_VOLRPC_IO_MAX + 1;
	CHECK_EQ(call_with(&r, WEFT_VOLRPC_WRITE, (xdrproc_t)xdr_too_much, &w,
	                   &weft_volrpc_write_binding),
	         WEFT_RPC_GARBAGE_ARGS);
	CHECK_EQ(r.f.served[WEFT_VOLRPC_WRITE], 0);
	vrig_close(&r);
	free(big);
}

static void
spoil_longer(uint32_t proc, void *res)
{
	weft_volrpc_read_res *d = res;

	if (proc == WEFT_VOLRPC_READ)
		d->weft_volrpc_read_res_u.data.data_len += 8;
}

/* The target returns more than was asked for. */
static void
test_too_much(void)
{
	struct vrig r;

	vrig_open(&r, test_seed(25));
	r.f.spoil = spoil_longer;
	for (unsigned int len = 100; len <= 51200; len *= 8) {
		struct weft_volume_req q = {.op = WEFT_VOLUME_OP_READ, .len_bytes = len, .data = b};

		b[len] = 0x5a;
		memset(r.f.mem, 1, FAKE_BYTES);
		CHECK(vrig_do(&r, &q) < 0);
		CHECK_EQ(b[len], 0x5a);
	}
	vrig_close(&r);
}

static void
test_rpc_refusals(void)
{
	static const struct {
		enum weft_rpc_status status;
		int rc;
	} all[] = {{WEFT_RPC_SYSTEM_ERR, -EPROTO},
	           {WEFT_RPC_GARBAGE_ARGS, -EPROTO},
	           {WEFT_RPC_PROC_UNAVAIL, -EOPNOTSUPP}};
	struct weft_volume_req q = {.op = WEFT_VOLUME_OP_FLUSH};
	struct vrig r;

	vrig_open(&r, test_seed(14));
	for (unsigned int i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		fake_refuse(&r.f, WEFT_VOLRPC_FLUSH, 0, 1, WEFT_VOLRPC_OK, NULL);
		r.f.refusal = all[i].status;
		CHECK_EQ(vrig_do(&r, &q), all[i].rc);
		CHECK(q.why[0] != '\0');
	}
	vrig_close(&r);
}

static void
test_timeout(void)
{
	struct weft_volume_req q = {.op = WEFT_VOLUME_OP_READ, .len_bytes = 3 * FAKE_IO, .data = b};
	struct weft_volume_attr va;
	struct vrig r;

	vrig_connect(&r, test_seed(15), (struct weft_rpc_attr){0});
	va = vrig_attr(&r);
	va.timeout_us = 50000;
	CHECK_EQ(vrig_open_volume(&r, &va), 0);
	r.f.hold = true;
	CHECK_EQ(vrig_do(&r, &q), -ETIMEDOUT);
	CHECK_EQ(q.done_bytes, 0);
	/* Its memory is the caller's again: a late answer does not touch it. */
	memset(b, 0x77, 3 * FAKE_IO);
	memset(r.f.mem, 0x11, FAKE_BYTES);
	fake_release(&r.f);
	vrig_run(&r, 20 * VT_MS);
	for (unsigned int i = 0; i < 3 * FAKE_IO; i++)
		CHECK_EQ(b[i], 0x77);
	vrig_close(&r);
}

/* ---- Many at once ---- */

static void
test_many(void)
{
	enum { N = 300 };
	static struct weft_volume_req q[N];
	struct weft_volume_attr va;
	struct weft_volume *second;
	unsigned int n = 0;
	struct vrig r;

	vrig_connect(&r, test_seed(16), (struct weft_rpc_attr){.credits = 64});
	va = vrig_attr(&r);
	CHECK_EQ(vrig_open_volume(&r, &va), 0);
	second = r.v;
	r.f.grant.handle--; /* the fake has one volume, and both opens give its handle */
	CHECK_EQ(vrig_open_volume(&r, &va), 0);
	memset(q, 0, sizeof(q));
	vt_fill(r.f.mem, FAKE_BYTES, 3);
	for (unsigned int i = 0; i < N; i++) {
		q[i] = (struct weft_volume_req){.op = WEFT_VOLUME_OP_READ,
		                                .off_bytes = i * 3000,
		                                .len_bytes = 3000,
		                                .data = a + i * 3000,
		                                .done = vrig_count,
		                                .owner = &n};
		CHECK_EQ(weft_volume_submit(i % 3 == 0 ? second : r.v, &q[i]), 0);
		CHECK_EQ(weft_volume_submit(i % 3 == 0 ? second : r.v, &q[i]), -EBUSY);
	}
	CHECK_EQ(n, 0);
	vrig_run(&r, VT_S);
	CHECK_EQ(n, N);
	for (unsigned int i = 0; i < N; i++)
		CHECK_EQ(q[i].status, 0);
	CHECK(memcmp(a, r.f.mem, N * 3000) == 0);
	r.told = 0;
	weft_volume_close(second, vrig_told, &r);
	vrig_run(&r, 10 * VT_MS);
	CHECK_EQ(r.told, 1);
	r.f.open = true;
	vrig_close(&r);
}

static unsigned int foreign;

static void
foreign_done(void *arg, enum weft_rpc_status status, void *res)
{
	(void)arg;
	(void)status;
	(void)res;
	foreign++;
}

/* Let all calls of the endpoint be outstanding, none of them the volume's. */
static unsigned int
fill_calls(struct vrig *r)
{
	unsigned int sent = 0;

	foreign = 0;
	while (weft_rpc_call(r->side[0].rpc, WEFT_VOLRPC_PROG, WEFT_VOLRPC_V2, WEFT_VOLRPC_NULL,
	                     weft_rpc_xdr_void, NULL, weft_rpc_xdr_void, 0, 0, foreign_done,
	                     NULL) == 0)
		sent++;
	CHECK_EQ(sent, WEFT_RPC_MAX_CALLS);
	return sent;
}

/* The volume tries again, with a request, a window and its close. */
static void
test_no_calls_left(void)
{
	struct weft_volume_req q = {
	        .op = WEFT_VOLUME_OP_READ, .len_bytes = 100, .data = b, .done = vrig_count};
	struct weft_volume_window w = {0};
	unsigned int n = 0, sent;
	struct vrig r;

	vrig_open(&r, test_seed(17));
	sent = fill_calls(&r);
	q.owner = &n;
	CHECK_EQ(weft_volume_submit(r.v, &q), 0);
	CHECK_EQ(n, 0);
	vrig_run(&r, 20 * VT_MS);
	CHECK_EQ(foreign, sent);
	CHECK_EQ(n, 1);
	CHECK_EQ(q.status, 0);
	sent = fill_calls(&r);
	r.told = 0;
	CHECK_EQ(weft_volume_window_open(r.v, &w, 0, 4096, 0, 0, vrig_told, &r), 0);
	vrig_run(&r, 20 * VT_MS);
	CHECK_EQ(foreign, sent);
	CHECK_EQ(r.told, 1);
	CHECK(w.id != 0);
	sent = fill_calls(&r);
	CHECK_EQ(vrig_close_volume(&r), 0);
	CHECK_EQ(foreign, sent);
	CHECK_EQ(r.f.served[WEFT_VOLRPC_CLOSE], 1);
	CHECK(!r.f.open);
	vrig_close(&r);
}

/* An alarm that cannot be set, once. */
static bool no_alarm;

int __real_weft_alarm_set(struct weft_worker *w, uint64_t delay_us, void (*fn)(void *arg),
                          void *arg, struct weft_alarm **out);
int __wrap_weft_alarm_set(struct weft_worker *w, uint64_t delay_us, void (*fn)(void *arg),
                          void *arg, struct weft_alarm **out);

int
__wrap_weft_alarm_set(struct weft_worker *w, uint64_t delay_us, void (*fn)(void *arg), void *arg,
                      struct weft_alarm **out)
{
	if (!no_alarm)
		return __real_weft_alarm_set(w, delay_us, fn, arg, out);
	no_alarm = false;
	return -ENOMEM;
}

/* The volume cannot even try again: what was not sent fails, and a window without a call stays. */
static void
test_no_alarm(void)
{
	struct weft_volume_req q = {
	        .op = WEFT_VOLUME_OP_READ, .len_bytes = 100, .data = b, .done = vrig_count};
	struct weft_volume_window w = {0}, other = {0};
	unsigned int n = 0;
	struct vrig r;
	uint32_t id;

	vrig_open(&r, test_seed(18));
	q.owner = &n;
	r.told = 0;
	CHECK_EQ(weft_volume_window_open(r.v, &w, 0, 4096, 0, 0, vrig_told, &r), 0);
	vrig_run(&r, 20 * VT_MS);
	CHECK(r.told == 1 && r.status == 0 && w.id != 0);
	id = w.id;
	(void)fill_calls(&r);
	no_alarm = true;
	CHECK_EQ(weft_volume_submit(r.v, &q), 0);
	CHECK(!no_alarm);
	vrig_run(&r, 20 * VT_MS);
	CHECK(n == 1 && q.status == -ENOMEM);
	CHECK(w.id == id && w.volume == r.v);
	/* A move leaves it as it was; an opening fails. */
	for (unsigned int i = 0; i < 2; i++) {
		(void)fill_calls(&r);
		no_alarm = true;
		r.told = 0;
		CHECK_EQ(i == 0 ? weft_volume_window_move(&w, 8192, 4096, 0, vrig_told, &r)
		                : weft_volume_window_open(r.v, &other, 65536, 4096, 0, 0, vrig_told,
		                                          &r),
		         0);
		vrig_run(&r, 20 * VT_MS);
		CHECK(r.told == 1 && r.status == -ENOMEM);
		CHECK(w.id == id && w.off_bytes == 0 && other.id == 0 && other.volume == NULL);
	}
	CHECK_EQ(r.f.served[WEFT_VOLRPC_WINDOW_MOVE], 0);
	r.told = 0;
	CHECK_EQ(weft_volume_window_close(&w, vrig_told, &r), 0);
	vrig_run(&r, 20 * VT_MS);
	CHECK(r.told == 1 && r.status == 0);
	CHECK_EQ(vrig_close_volume(&r), 0);
	vrig_close(&r);
}

static struct weft_volume_req again_req;
static unsigned int again_left;

static void
again_done(struct weft_volume_req *req)
{
	CHECK_EQ(req->status, 0);
	if (again_left > 0) {
		again_left--;
		CHECK_EQ(weft_volume_submit(req->owner, req), 0);
	}
}

static void
test_submit_in_done(void)
{
	struct vrig r;

	vrig_open(&r, test_seed(18));
	for (unsigned int len = 0; len <= 100; len += 100) {
		again_req = (struct weft_volume_req){.op = WEFT_VOLUME_OP_READ,
		                                     .len_bytes = len,
		                                     .data = b,
		                                     .done = again_done,
		                                     .owner = r.v};
		again_left = 50;
		CHECK_EQ(weft_volume_submit(r.v, &again_req), 0);
		vrig_run(&r, 50 * VT_MS);
		CHECK_EQ(again_left, 0);
		CHECK(again_req.volume == NULL);
	}
	vrig_close(&r);
}

static void
close_in_done(struct weft_volume_req *req)
{
	struct vrig *r = req->owner;

	weft_volume_close(r->v, vrig_told, r);
	r->v = NULL;
}

static void
test_close_in_done(void)
{
	struct weft_volume_req q = {
	        .op = WEFT_VOLUME_OP_READ, .len_bytes = 100, .data = b, .done = close_in_done};
	struct vrig r;

	vrig_open(&r, test_seed(19));
	q.owner = &r;
	r.told = 0;
	CHECK_EQ(weft_volume_submit(r.v, &q), 0);
	vrig_run(&r, 20 * VT_MS);
	CHECK_EQ(r.told, 1);
	CHECK_EQ(r.status, 0);
	vrig_close(&r);
}

/* ---- The lost connection ---- */

static void
test_lost(void)
{
	enum { N = 40 };
	static struct weft_volume_req q[N];
	struct vrig r;

	for (unsigned int k = 0; k < 30; k++) {
		unsigned int n = 0;

		vrig_open(&r, test_seed(20) + k);
		memset(q, 0, sizeof(q));
		for (unsigned int i = 0; i < N; i++) {
			q[i] = (struct weft_volume_req){.op = i % 2 ? WEFT_VOLUME_OP_READ
			                                            : WEFT_VOLUME_OP_WRITE,
			                                .off_bytes = i * 20000,
			                                .len_bytes = 20000,
			                                .data = a + i * 20000,
			                                .done = vrig_count,
			                                .owner = &n};
			CHECK_EQ(weft_volume_submit(r.v, &q[i]), 0);
		}
		vrig_run(&r, k * 20000ULL);
		if (k % 2 == 0) {
			vrig_cut(&r);
		} else {
			weft_qp_destroy(r.t.n[1].qp);
			r.t.n[1].qp = NULL;
			weft_rpc_destroy(r.side[1].rpc);
			r.side[1].rpc = NULL;
		}
		vrig_run(&r, 100 * VT_MS);
		CHECK_EQ(n, N);
		for (unsigned int i = 0; i < N; i++)
			CHECK(q[i].status == 0 || q[i].status == -ENOTCONN);
		CHECK_EQ(weft_volume_submit(r.v, &q[0]), -ENOTCONN);
		CHECK(weft_volume_info(r.v) != NULL);
		CHECK_EQ(vrig_close_volume(&r), -ENOTCONN);
		vrig_close(&r);
	}
}

static void
test_lost_while_opening(void)
{
	struct weft_volume_attr va;
	struct vrig r;

	vrig_connect(&r, test_seed(21), (struct weft_rpc_attr){0});
	va = vrig_attr(&r);
	CHECK_EQ(weft_volume_open(&va, vrig_told, &r, &r.v), 0);
	vrig_cut(&r);
	vrig_run(&r, VT_MS);
	CHECK_EQ(r.told, 1);
	CHECK_EQ(r.status, -ENOTCONN);
	CHECK_EQ(vrig_close_volume(&r), -ENOTCONN);
	vrig_close(&r);
}

WEFT_TEST_MAIN({"an open gives the volume's constants", test_open},
               {"each refusal of an open has its errno", test_open_refused},
               {"a target without volumes is named as such", test_open_old_target},
               {"a grant that makes no sense is EPROTO", test_open_garbage},
               {"a close while the open is under way", test_close_while_opening},
               {"a close cancels what is not sent and waits for the rest", test_close_cancels},
               {"reads and writes of all lengths", test_read_write},
               {"the other operations", test_others},
               {"requests that make no sense are not taken", test_requests_refused},
               {"the longest compare-and-write is one call, by chunks", test_big_compare},
               {"each status has its errno for each operation", test_each_status},
               {"a fault outside of the range is EPROTO", test_fault_garbage},
               {"results that make no sense are EPROTO", test_results_garbage},
               {"a part fails: the first fault counts", test_part_fails},
               {"the last of those that wait fails", test_last_fails},
               {"long discards and zeroes are several calls", test_ranges_are_cut},
               {"long discards and zeroes leave room to others", test_ranges_leave_room},
               {"a long verify is refused, a flush and extents are not cut", test_ranges_not_cut},
               {"arguments that the bindings refuse", test_arguments},
               {"more than was asked for", test_too_much}, {"refusals of RPC", test_rpc_refusals},
               {"a timeout, and a late answer", test_timeout},
               {"more requests than calls, two volumes", test_many},
               {"all calls of the endpoint are in use", test_no_calls_left},
               {"no calls left, and no alarm", test_no_alarm},
               {"submit in done()", test_submit_in_done}, {"close in done()", test_close_in_done},
               {"the connection is lost", test_lost},
               {"the connection is lost while a volume is opened", test_lost_while_opening})
