/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The order of requests of one opening. The target serves a call without chunks at once, and
 * a call with a Read chunk when it has read the data, so calls change places on their way: what has
 * an order has to be sent in order. WEFT_VOLCALL_RUNS is the number of seeds.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "test_xorshift.h"
#include "volcall_rig.h"

#define OPS 24

static uint8_t a[FAKE_BYTES], b[FAKE_BYTES];

/* ---- Single rules ---- */

static struct {
	unsigned int n;
	uint32_t proc[64];
	uint64_t off[64];
} order;

static void
log_seen(uint32_t proc, const void *args)
{
	const weft_volrpc_range_args *range = args;
	const weft_volrpc_write_args *w = args;
	const weft_volrpc_read_args *rd = args;

	CHECK(order.n < 64);
	order.proc[order.n] = proc;
	order.off[order.n] = proc == WEFT_VOLRPC_WRITE   ? w->off
	                     : proc == WEFT_VOLRPC_READ  ? rd->off
	                     : proc == WEFT_VOLRPC_CLOSE ? 0 /* it has no range */
	                                                 : range->off;
	order.n++;
}

static void
begin(struct vrig *r, uint64_t seed)
{
	vrig_open(r, seed);
	memset(&order, 0, sizeof(order));
	r->f.seen = log_seen;
}

static void
submit(struct vrig *r, struct weft_volume_req *q, enum weft_volume_op op, uint64_t off,
       uint64_t len, unsigned int *n)
{
	*q = (struct weft_volume_req){.op = op,
	                              .off_bytes = off,
	                              .len_bytes = len,
	                              .data = op == WEFT_VOLUME_OP_READ ? b : a,
	                              .expect = b,
	                              .done = vrig_count,
	                              .owner = n};
	CHECK_EQ(weft_volume_submit(r->v, q), 0);
}

/* Flushes of the range and of all come after each part of a write by chunks. */
static void
test_flush_behind_write(void)
{
	struct weft_volume_req w, f[2];
	unsigned int n = 0;
	struct vrig r;

	for (unsigned int i = 0; i < 2; i++) {
		begin(&r, test_seed(1) + i);
		submit(&r, &w, WEFT_VOLUME_OP_WRITE, 5, 8 * FAKE_IO, &n);
		submit(&r, &f[0], WEFT_VOLUME_OP_FLUSH, 0, i == 0 ? 0 : 6, &n);
		submit(&r, &f[1], WEFT_VOLUME_OP_FLUSH, 8 * FAKE_IO, 100, &n);
		vrig_run(&r, 100 * VT_MS);
		CHECK_EQ(n, 3);
		CHECK_EQ(order.n, 11);
		for (unsigned int k = 0; k < order.n; k++)
			CHECK_EQ(order.proc[k], k < 9 ? WEFT_VOLRPC_WRITE : WEFT_VOLRPC_FLUSH);
		n = 0;
		vrig_close(&r);
	}
}

/* Each change, and what has to come after it. */
static void
test_pairs(void)
{
	static const struct {
		enum weft_volume_op op;
		uint32_t proc;
		bool changes;
	} ops[] = {{WEFT_VOLUME_OP_READ, WEFT_VOLRPC_READ, false},
	           {WEFT_VOLUME_OP_WRITE, WEFT_VOLRPC_WRITE, true},
	           {WEFT_VOLUME_OP_FLUSH, WEFT_VOLRPC_FLUSH, false},
	           {WEFT_VOLUME_OP_VERIFY, WEFT_VOLRPC_VERIFY, false},
	           {WEFT_VOLUME_OP_COMPARE_WRITE, WEFT_VOLRPC_COMPARE_WRITE, true},
	           {WEFT_VOLUME_OP_DISCARD, WEFT_VOLRPC_DISCARD, true},
	           {WEFT_VOLUME_OP_ZEROES, WEFT_VOLRPC_ZEROES, true},
	           {WEFT_VOLUME_OP_EXTENTS, WEFT_VOLRPC_EXTENTS, false}};
	struct weft_volume_piece piece[4];
	struct weft_volume_req q[2];
	struct vrig r;

	memset(a, 0, sizeof(a));
	memset(b, 0, sizeof(b));
	begin(&r, test_seed(2));
	for (unsigned int i = 0; i < 8 * 8 * 2; i++) {
		unsigned int one = i % 8, two = i / 8 % 8, n = 0;
		bool overlap = i >= 64, ordered = overlap && (ops[one].changes || ops[two].changes);

		/* A flush comes behind changes, and nothing comes behind a flush. */
		ordered &= ops[one].op != WEFT_VOLUME_OP_FLUSH;
		if (ops[two].op == WEFT_VOLUME_OP_FLUSH && !ops[one].changes)
			ordered = false;
		order.n = 0;
		r.f.hold = true;
		for (unsigned int k = 0; k < 2; k++) {
			q[k] = (struct weft_volume_req){.op = ops[k == 0 ? one : two].op,
			                                .off_bytes = k == 0    ? 100
			                                             : overlap ? 9099
			                                                       : 9100,
			                                .len_bytes = 9000,
			                                .data = a,
			                                .expect = b,
			                                .pieces = piece,
			                                .max_pieces = 4,
			                                .done = vrig_count,
			                                .owner = &n};
			CHECK_EQ(weft_volume_submit(r.v, &q[k]), 0);
		}
		vrig_run(&r, VT_MS);
		CHECK_MSG(order.n == (ordered ? 1u : 2u), "operations %u, %u: %u sent", one, two,
		          order.n);
		fake_release(&r.f);
		vrig_run(&r, VT_MS);
		CHECK_EQ(n, 2);
		CHECK_EQ(order.n, 2);
		CHECK(!ordered ||
		      (order.proc[0] == ops[one].proc && order.proc[1] == ops[two].proc));
	}
	vrig_close(&r);
}

/* Writes stay parallel, and a flush that waits holds nothing else, not even what it covers. */
static void
test_others_go_on(void)
{
	struct weft_volume_req q[6];
	unsigned int n = 0;
	struct vrig r;

	begin(&r, test_seed(3));
	r.f.hold = true;
	submit(&r, &q[0], WEFT_VOLUME_OP_WRITE, 0, 20000, &n);
	submit(&r, &q[1], WEFT_VOLUME_OP_WRITE, 20000, 20000, &n);
	submit(&r, &q[2], WEFT_VOLUME_OP_FLUSH, 0, 0, &n);
	submit(&r, &q[3], WEFT_VOLUME_OP_WRITE, 40000, 20000, &n);
	submit(&r, &q[4], WEFT_VOLUME_OP_READ, 60000, 20000, &n);
	submit(&r, &q[5], WEFT_VOLUME_OP_FLUSH, 70000, 1, &n);
	vrig_run(&r, 10 * VT_MS);
	CHECK_EQ(r.f.served[WEFT_VOLRPC_WRITE], 3);
	CHECK_EQ(r.f.served[WEFT_VOLRPC_READ], 1);
	CHECK_EQ(r.f.served[WEFT_VOLRPC_FLUSH], 1); /* that of other octets */
	fake_release(&r.f);
	vrig_run(&r, 10 * VT_MS);
	CHECK_EQ(n, 6);
	CHECK_EQ(order.proc[order.n - 1], WEFT_VOLRPC_FLUSH);
	vrig_close(&r);
}

/* One that fails lets those behind it go; a close and a lost connection end those that wait. */
static void
test_ends(void)
{
	struct weft_volume_req q[4];
	struct vrig r;

	for (unsigned int i = 0; i < 4; i++) {
		unsigned int n = 0;

		begin(&r, test_seed(4) + i);
		r.f.hold = true;
		if (i == 0)
			fake_refuse(&r.f, WEFT_VOLRPC_WRITE, 0, 1, WEFT_VOLRPC_IO, "broken");
		submit(&r, &q[0], WEFT_VOLUME_OP_WRITE, 0, 20000, &n);
		submit(&r, &q[1], WEFT_VOLUME_OP_READ, 10000, 20000, &n);
		submit(&r, &q[2], WEFT_VOLUME_OP_ZEROES, 15000, 10, &n);
		submit(&r, &q[3], WEFT_VOLUME_OP_FLUSH, 0, 0, &n);
		vrig_run(&r, VT_MS);
		CHECK_EQ(n, 0);
		if (i == 1) {
			r.told = 0;
			weft_volume_close(r.v, vrig_told, &r);
			r.v = NULL;
		} else if (i >= 2) {
			vrig_cut(&r);
		}
		if (i != 3)
			fake_release(&r.f);
		vrig_run(&r, 10 * VT_MS);
		CHECK_EQ(n, 4);
		for (unsigned int k = 1; k < 4; k++)
			CHECK_EQ(q[k].status, i == 0 ? 0 : i == 1 ? -ECANCELED : -ENOTCONN);
		CHECK_EQ(q[0].status, i == 0 ? -EIO : i == 1 ? 0 : -ENOTCONN);
		CHECK_EQ(r.f.served[WEFT_VOLRPC_READ], i == 0);
		CHECK(i != 1 || r.told == 1);
		fake_release(&r.f); /* also of an endpoint that is gone */
		vrig_close(&r);
	}
}

/* A window of a range has the changes that were submitted before it. */
static void
test_windows(void)
{
	struct weft_volume_window w = {0}, other = {0};
	struct weft_volume_req q[2];
	unsigned int n = 0;
	struct vrig r;

	begin(&r, test_seed(5));
	r.told = 0;
	r.f.hold = true;
	submit(&r, &q[0], WEFT_VOLUME_OP_WRITE, 4096, 20000, &n);
	CHECK_EQ(weft_volume_window_open(r.v, &w, 8192, 4096, 0, 0, vrig_told, &r), 0);
	CHECK_EQ(weft_volume_window_open(r.v, &other, 65536, 4096, 0, 0, vrig_told, &r), 0);
	/* What comes behind the window is not what it waits for. */
	submit(&r, &q[1], WEFT_VOLUME_OP_WRITE, 65536, 20000, &n);
	vrig_run(&r, VT_MS);
	CHECK_EQ(r.f.served[WEFT_VOLRPC_WINDOW_OPEN], 1);
	fake_release(&r.f);
	vrig_run(&r, VT_MS);
	CHECK_EQ(n, 2);
	CHECK_EQ(r.told, 2);
	r.told = 0;
	r.f.hold = true;
	submit(&r, &q[0], WEFT_VOLUME_OP_DISCARD, 0, 4096, &n);
	CHECK_EQ(weft_volume_window_move(&w, 0, 4096, 0, vrig_told, &r), 0);
	vrig_run(&r, VT_MS);
	CHECK_EQ(r.f.served[WEFT_VOLRPC_WINDOW_MOVE], 0);
	fake_release(&r.f);
	vrig_run(&r, VT_MS);
	CHECK_EQ(r.f.served[WEFT_VOLRPC_WINDOW_MOVE], 1);
	CHECK_EQ(r.told, 1);
	vrig_close(&r);
}

/* ---- Random requests that overlap ---- */

struct op {
	struct weft_volume_req req;
	uint64_t number;
	uint8_t *data, *expect; /* of len_bytes */
	uint64_t differs;       /* compare-and-write: the first octet; len_bytes: none */
	uint8_t crc[4];
	bool busy, seen;
};

static struct {
	struct vrig r;
	uint64_t rng;
	uint8_t shadow[FAKE_BYTES]; /* when all that was submitted is done */
	struct op op[OPS];
	uint64_t begun, ended, overlaps, flushes;
} m;

static uint64_t
rnd(uint64_t n)
{
	return test_xorshift(&m.rng) % n;
}

static bool
changes(const struct weft_volume_req *q)
{
	return q->op == WEFT_VOLUME_OP_WRITE || q->op == WEFT_VOLUME_OP_COMPARE_WRITE ||
	       q->op == WEFT_VOLUME_OP_DISCARD || q->op == WEFT_VOLUME_OP_ZEROES;
}

static bool
overlap(const struct weft_volume_req *q, uint64_t off, uint64_t len)
{
	return off < q->off_bytes + q->len_bytes && q->off_bytes < off + len;
}

/* A FLUSH has come to the target: no change that it covers is under way. */
static void
flush_seen(uint32_t proc, const void *vargs)
{
	const weft_volrpc_range_args *args = vargs;
	struct op *f = NULL;

	if (proc != WEFT_VOLRPC_FLUSH)
		return;
	for (unsigned int i = 0; i < OPS; i++) {
		struct op *o = &m.op[i];

		if (o->busy && !o->seen && o->req.op == WEFT_VOLUME_OP_FLUSH &&
		    o->req.off_bytes == args->off && o->req.len_bytes == args->len &&
		    (f == NULL || o->number < f->number))
			f = o;
	}
	CHECK(f != NULL);
	f->seen = true;
	m.flushes++;
	for (unsigned int i = 0; i < OPS; i++) {
		const struct op *o = &m.op[i];

		CHECK_MSG(!o->busy || o->number > f->number || !changes(&o->req) ||
		                  (f->req.len_bytes != 0 &&
		                   !overlap(&o->req, f->req.off_bytes, f->req.len_bytes)),
		          "a flush has overtaken operation %d", (int)o->req.op);
	}
}

static void
on_done(struct weft_volume_req *q)
{
	struct op *o = q->owner;

	CHECK(o->busy);
	if (q->op == WEFT_VOLUME_OP_COMPARE_WRITE && o->differs < q->len_bytes) {
		CHECK_EQ(q->status, -EILSEQ);
		CHECK_EQ(q->at_bytes, q->off_bytes + o->differs);
	} else {
		CHECK_MSG(q->status == 0, "operation %d: %d", (int)q->op, q->status);
	}
	if (q->op == WEFT_VOLUME_OP_READ)
		CHECK(memcmp(o->data, o->expect, q->len_bytes) == 0);
	if (q->op == WEFT_VOLUME_OP_VERIFY)
		CHECK(memcmp(q->hash, o->crc, 4) == 0);
	free(o->data);
	free(o->expect);
	o->busy = false;
	m.ended++;
}

static void
op_begin(struct op *o)
{
	static const uint64_t longest[] = {1, 100, 600, 5000, 70000, 400000};
	enum weft_volume_op op = (enum weft_volume_op)rnd(WEFT_VOLUME_OP_EXTENTS);
	uint64_t len = 1 + rnd(longest[rnd(6)]), off;

	if (op == WEFT_VOLUME_OP_COMPARE_WRITE && len > 65536)
		len = 65536;
	if (op == WEFT_VOLUME_OP_VERIFY && len > m.r.f.grant.range_bytes)
		len = m.r.f.grant.range_bytes;
	/* A part of the volume, so that many overlap. */
	off = rnd(2) == 0 ? rnd(FAKE_BYTES - len + 1) : rnd(20000);
	if (op == WEFT_VOLUME_OP_FLUSH && rnd(3) == 0)
		off = len = 0;
	*o = (struct op){
	        .req = {.op = op, .off_bytes = off, .len_bytes = len, .done = on_done, .owner = o},
	        .number = m.begun++,
	        .differs = len,
	        .busy = true};
	for (unsigned int i = 0; i < OPS; i++)
		m.overlaps += m.op[i].busy && &m.op[i] != o && overlap(&m.op[i].req, off, len);
	o->req.data = o->data = malloc(len + 1);
	o->req.expect = o->expect = malloc(len + 1);
	vt_fill(o->data, len, test_xorshift(&m.rng));
	memcpy(o->expect, m.shadow + off, len);
	vt_crc32c(m.shadow + off, len, o->crc);
	if (op == WEFT_VOLUME_OP_COMPARE_WRITE && rnd(3) == 0) {
		o->differs = rnd(len);
		o->expect[o->differs] ^= 1;
	}
	if (op == WEFT_VOLUME_OP_WRITE || (op == WEFT_VOLUME_OP_COMPARE_WRITE && o->differs == len))
		memcpy(m.shadow + off, o->data, len);
	if (op == WEFT_VOLUME_OP_DISCARD || op == WEFT_VOLUME_OP_ZEROES)
		memset(m.shadow + off, 0, len);
	CHECK_EQ(weft_volume_submit(m.r.v, &o->req), 0);
}

static void
one_run(uint64_t seed)
{
	struct weft_volume_attr va;

	memset(&m, 0, sizeof(m));
	m.rng = seed * 2654435761u + 1;
	vrig_connect(&m.r, seed, (struct weft_rpc_attr){.credits = 2 + (uint32_t)rnd(40)});
	m.r.f.grant.io_bytes = (uint32_t[]){FAKE_IO, 4096, 10000, 1000}[rnd(4)];
	m.r.f.grant.range_bytes = (uint32_t[]){FAKE_BYTES, 65536, 30000, 4096}[rnd(4)];
	va = vrig_attr(&m.r);
	CHECK_EQ(vrig_open_volume(&m.r, &va), 0);
	m.r.f.seen = flush_seen;
	for (unsigned int i = 0; i < 300; i++) {
		struct op *o = &m.op[rnd(OPS)];

		if (!o->busy)
			op_begin(o);
		vrig_run(&m.r, rnd(6) * 10000);
		if (rnd(20) == 0)
			m.r.f.hold = true;
		else if (rnd(10) == 0)
			fake_release(&m.r.f);
	}
	fake_release(&m.r.f);
	vrig_run(&m.r, VT_S);
	CHECK_EQ(m.begun, m.ended);
	CHECK(memcmp(m.shadow, m.r.f.mem, FAKE_BYTES) == 0);
	vrig_close(&m.r);
}

static void
test_model(void)
{
	const char *s = getenv("WEFT_VOLCALL_RUNS");
	uint64_t seed = test_seed(6), overlaps = 0, flushes = 0;
	unsigned int n = test_seed_given() ? 1
	                 : s != NULL       ? (unsigned int)strtoul(s, NULL, 10)
	                                   : 25;

	for (unsigned int i = 0; i < n; i++) {
		test_seed_note(seed + i);
		one_run(seed + i);
		overlaps += m.overlaps;
		flushes += m.flushes;
	}
	CHECK(n == 1 || (overlaps > n * 50 && flushes > n));
}

WEFT_TEST_MAIN({"a flush comes behind the writes before it", test_flush_behind_write},
               {"each pair of operations", test_pairs},
               {"what has no order is not held", test_others_go_on},
               {"failures, a close, a lost connection", test_ends},
               {"a window comes behind the changes before it", test_windows},
               {"random requests that overlap", test_model})
