/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Random requests on a volume against a byte array, with refusals, answers that come late and
 * in another order, closes and lost connections; and a target that answers anything at all.
 * WEFT_VOLCALL_RUNS is the number of seeds.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "test_xorshift.h"
#include "volcall_rig.h"

/* Those before the snapshots, which have no range. */
#define RANGE_OPS WEFT_VOLUME_OP_SNAPSHOT

#define OPS    24
#define PIECES 16

struct op {
	struct weft_volume_req req;
	struct weft_volume_piece piece[PIECES];
	uint8_t *data, *expect; /* of len_bytes */
	bool busy;
};

static struct {
	struct vrig r;
	uint64_t rng;
	uint8_t shadow[FAKE_BYTES];
	struct op op[OPS];
	unsigned int begun, ended, failed, busy;
	bool lost;
} m;

static uint64_t
rnd(uint64_t n)
{
	return test_xorshift(&m.rng) % n;
}

static unsigned int
runs(unsigned int dflt)
{
	const char *s = getenv("WEFT_VOLCALL_RUNS");

	return s != NULL ? (unsigned int)strtoul(s, NULL, 10) : dflt;
}

static bool
changes(const struct weft_volume_req *q)
{
	return q->op == WEFT_VOLUME_OP_WRITE || q->op == WEFT_VOLUME_OP_COMPARE_WRITE ||
	       q->op == WEFT_VOLUME_OP_DISCARD || q->op == WEFT_VOLUME_OP_ZEROES;
}

/* ---- What has ended ---- */

static void
check_extents(const struct op *o)
{
	uint64_t at = o->req.off_bytes;

	for (unsigned int i = 0; i < o->req.found; i++) {
		CHECK_EQ(o->piece[i].off_bytes, at);
		for (uint64_t k = 0; o->piece[i].hole && k < o->piece[i].len_bytes; k++)
			CHECK_EQ(m.shadow[at + k], 0);
		at += o->piece[i].len_bytes;
	}
	CHECK_EQ(o->req.done_bytes, at - o->req.off_bytes);
	CHECK(o->req.found == PIECES || o->req.done_bytes == o->req.len_bytes);
}

static void
check_good(struct op *o)
{
	const struct weft_volume_req *q = &o->req;
	uint8_t crc[4], *at = m.shadow + q->off_bytes;

	switch (q->op) {
	case WEFT_VOLUME_OP_READ:
		CHECK(memcmp(o->data, at, q->len_bytes) == 0);
		break;
	case WEFT_VOLUME_OP_COMPARE_WRITE:
		CHECK(memcmp(o->expect, at, q->len_bytes) == 0);
		memcpy(at, o->data, q->len_bytes);
		break;
	case WEFT_VOLUME_OP_WRITE:
		memcpy(at, o->data, q->len_bytes);
		break;
	case WEFT_VOLUME_OP_DISCARD:
	case WEFT_VOLUME_OP_ZEROES:
		memset(at, 0, q->len_bytes);
		break;
	case WEFT_VOLUME_OP_VERIFY:
		vt_crc32c(at, q->len_bytes, crc);
		CHECK(memcmp(q->hash, crc, 4) == 0);
		break;
	case WEFT_VOLUME_OP_EXTENTS:
		check_extents(o);
		break;
	default:
		break;
	}
	if (changes(q))
		CHECK(memcmp(at, m.r.f.mem + q->off_bytes, q->len_bytes) == 0);
}

/* What failed may be done in part: each octet is old or new, and in front of done_bytes new. */
static void
check_bad(struct op *o)
{
	const struct weft_volume_req *q = &o->req;
	const uint8_t *is = m.r.f.mem + q->off_bytes;
	uint8_t *at = m.shadow + q->off_bytes;

	m.failed++;
	if (q->status == -EILSEQ) {
		uint64_t i = q->at_bytes - q->off_bytes;

		CHECK_EQ(q->op, WEFT_VOLUME_OP_COMPARE_WRITE);
		CHECK(memcmp(o->expect, at, i) == 0);
		CHECK(o->expect[i] != at[i]);
	}
	for (uint64_t i = 0; changes(q) && i < q->len_bytes; i++) {
		uint8_t new = o->data != NULL && (q->op == WEFT_VOLUME_OP_WRITE ||
		                                  q->op == WEFT_VOLUME_OP_COMPARE_WRITE)
		                      ? o->data[i]
		                      : 0;

		CHECK(is[i] == new || (is[i] == at[i] && i >= q->done_bytes));
		at[i] = is[i];
	}
	for (uint64_t i = 0; q->op == WEFT_VOLUME_OP_READ && i < q->done_bytes; i++)
		CHECK_EQ(o->data[i], at[i]);
}

static void
on_done(struct weft_volume_req *q)
{
	struct op *o = q->owner;

	CHECK(o->busy);
	CHECK(q->volume == NULL);
	CHECK_MSG(q->status == 0 || q->status == -EIO || q->status == -EILSEQ ||
	                  q->status == -ECANCELED || (q->status == -ENOTCONN && m.lost),
	          "operation %d: status %d, %s", (int)q->op, q->status, q->why);
	if (q->status == 0)
		check_good(o);
	else if (!m.lost)
		check_bad(o);
	free(o->data);
	free(o->expect);
	o->data = o->expect = NULL;
	o->busy = false;
	m.busy--;
	m.ended++;
}

/* ---- What begins ---- */

static bool
is_free(uint64_t off, uint64_t len)
{
	for (unsigned int i = 0; i < OPS; i++)
		if (m.op[i].busy && off < m.op[i].req.off_bytes + m.op[i].req.len_bytes &&
		    m.op[i].req.off_bytes < off + len)
			return false;
	return true;
}

static void
begin(struct op *o)
{
	static const uint64_t longest[] = {1, 100, 600, 5000, 70000, 400000};
	enum weft_volume_op op = (enum weft_volume_op)rnd(RANGE_OPS);
	uint64_t len = rnd(longest[rnd(6)] + 1), off;

	if (op == WEFT_VOLUME_OP_COMPARE_WRITE && len > 65536)
		len = 65536;
	if (op == WEFT_VOLUME_OP_VERIFY && len > m.r.f.grant.range_bytes)
		len = m.r.f.grant.range_bytes;
	off = rnd(FAKE_BYTES - len + 1);
	if (!is_free(off, len))
		return;
	o->req = (struct weft_volume_req){.op = op,
	                                  .off_bytes = off,
	                                  .len_bytes = len,
	                                  .pieces = o->piece,
	                                  .max_pieces = PIECES,
	                                  .done = on_done,
	                                  .owner = o};
	if (changes(&o->req) && rnd(2) == 0)
		o->req.flags = WEFT_VOLUME_F_DURABLE;
	o->req.data = o->data = malloc(len + 1);
	o->req.expect = o->expect = malloc(len + 1);
	vt_fill(o->data, len, test_xorshift(&m.rng));
	memcpy(o->expect, m.shadow + off, len);
	if (len > 0 && rnd(3) == 0)
		o->expect[rnd(len)] ^= 1;
	o->busy = true;
	m.busy++;
	m.begun++;
	CHECK_EQ(weft_volume_submit(m.r.v, &o->req), 0);
}

static void
refuse(void)
{
	static const uint32_t procs[] = {WEFT_VOLRPC_READ,    WEFT_VOLRPC_WRITE,
	                                 WEFT_VOLRPC_FLUSH,   WEFT_VOLRPC_VERIFY,
	                                 WEFT_VOLRPC_DISCARD, WEFT_VOLRPC_COMPARE_WRITE,
	                                 WEFT_VOLRPC_ZEROES,  WEFT_VOLRPC_EXTENTS};

	fake_refuse(&m.r.f, procs[rnd(8)], (unsigned int)rnd(6), (unsigned int)rnd(4),
	            WEFT_VOLRPC_IO, "broken");
}

/* The volume is closed with requests under way, and opened again. */
static void
reopen(void)
{
	struct weft_volume_attr va = vrig_attr(&m.r);

	m.r.f.times = 0;
	fake_release(&m.r.f);
	CHECK_EQ(vrig_close_volume(&m.r), 0);
	CHECK_EQ(m.busy, 0);
	CHECK_EQ(vrig_open_volume(&m.r, &va), 0);
}

static void
one_run(uint64_t seed)
{
	memset(&m, 0, sizeof(m));
	m.rng = seed * 2654435761u + 1;
	vrig_connect(&m.r, seed, (struct weft_rpc_attr){.credits = 2 + (uint32_t)rnd(40)});
	m.r.f.grant.io_bytes = (uint32_t[]){FAKE_IO, 4096, 10000, 1000}[rnd(4)];
	m.r.f.grant.range_bytes = (uint32_t[]){FAKE_BYTES, 65536, 30000, 4096}[rnd(4)];
	{
		struct weft_volume_attr va = vrig_attr(&m.r);

		CHECK_EQ(vrig_open_volume(&m.r, &va), 0);
	}
	for (unsigned int i = 0; i < 400; i++) {
		struct op *o = &m.op[rnd(OPS)];

		if (!o->busy)
			begin(o);
		vrig_run(&m.r, rnd(20) * 10000);
		switch (rnd(40)) {
		case 0:
			refuse();
			break;
		case 1:
			m.r.f.hold = true;
			break;
		case 2:
			fake_release(&m.r.f);
			break;
		case 3:
			if (rnd(4) == 0)
				reopen();
			break;
		default:
			break;
		}
	}
	if (rnd(2) == 0) {
		m.lost = true;
		vrig_cut(&m.r);
	}
	fake_release(&m.r.f);
	vrig_run(&m.r, VT_S / 2);
	CHECK_EQ(m.busy, 0);
	CHECK_EQ(m.begun, m.ended);
	CHECK(m.lost || memcmp(m.shadow, m.r.f.mem, FAKE_BYTES) == 0);
	vrig_close(&m.r);
}

static void
test_model(void)
{
	uint64_t seed = test_seed(1);
	unsigned int begun = 0, failed = 0, n = test_seed_given() ? 1 : runs(25);

	for (unsigned int i = 0; i < n; i++) {
		test_seed_note(seed + i);
		one_run(seed + i);
		begun += m.begun;
		failed += m.failed;
	}
	CHECK(n == 1 || (begun > n * 150 && failed > n));
}

/* ---- A target that answers anything ---- */

static struct {
	bool sane; /* OPEN is answered well */
	uint32_t xid, proc;
} any;

static void
put(XDR *x, uint32_t v)
{
	u_int u = v;

	CHECK(xdr_u_int(x, &u));
}

static bool
encode_any(void *arg, XDR *x)
{
	struct vrig *r = arg;
	weft_volrpc_open_res good = {.status = WEFT_VOLRPC_OK,
	                             .weft_volrpc_open_res_u.grant = r->f.grant};
	uint32_t words = (uint32_t)rnd(rnd(4) == 0 ? 300 : 12);

	put(x, any.xid);
	put(x, 1);                                   /* REPLY */
	put(x, rnd(40) == 0 ? (uint32_t)rnd(3) : 0); /* MSG_ACCEPTED */
	put(x, 0);
	put(x, 0);
	put(x, rnd(40) == 0 ? (uint32_t)rnd(7) : 0); /* SUCCESS */
	if (any.proc == WEFT_VOLRPC_OPEN && any.sane)
		return xdr_weft_volrpc_open_res(x, &good);
	for (uint32_t i = 0; i < words; i++) {
		static const uint32_t likely[] = {0, 1, 2, 3, 4, 5, 64, 74, 84, 4096, 65536};

		put(x, rnd(8) == 0 ? (uint32_t)test_xorshift(&m.rng) : likely[rnd(11)]);
	}
	return true;
}

static void
serve_any(void *user, struct weft_rpc_req *req, XDR *xdr)
{
	u_int w[6];

	(void)user;
	for (unsigned int i = 0; i < 6; i++)
		CHECK(xdr_u_int(xdr, &w[i]));
	any.xid = w[0];
	any.proc = w[5];
	weft_rpc_raw_reply(req, encode_any, &m.r, NULL, 0);
}

static unsigned int win_told;

static void
win_fn(void *arg, int status, const char *why)
{
	(void)arg;
	CHECK(status <= 0);
	CHECK(strlen(why) < 128);
	win_told++;
}

static void
any_done(struct weft_volume_req *q)
{
	struct op *o = q->owner;

	CHECK(o->busy);
	CHECK(q->status <= 0);
	CHECK(q->done_bytes <= q->len_bytes);
	CHECK(q->at_bytes < FAKE_BYTES);
	CHECK(q->found <= PIECES);
	o->busy = false;
	m.ended++;
}

static void
any_run(uint64_t seed)
{
	static uint8_t data[100000], expect[100000];
	struct weft_volume_window w[4] = {0};
	struct weft_volume_attr va;
	unsigned int asked = 0;

	memset(&m, 0, sizeof(m));
	win_told = 0;
	m.rng = seed * 2654435761u + 1;
	vrig_connect(&m.r, seed, (struct weft_rpc_attr){0});
	weft_rpc_set_raw(m.r.side[1].rpc, serve_any);
	va = vrig_attr(&m.r);
	any.sane = rnd(4) > 0;
	if (vrig_open_volume(&m.r, &va) != 0) {
		CHECK(!any.sane || m.r.status == -EPROTO || m.r.status == -EACCES ||
		      m.r.status == -EPROTONOSUPPORT || m.r.status == -EOPNOTSUPP);
		vrig_close(&m.r);
		return;
	}
	for (unsigned int i = 0; i < 100; i++) {
		struct op *o = &m.op[i % OPS];
		struct weft_volume_window *x = &w[rnd(4)];

		if (!o->busy) {
			enum weft_volume_op op = (enum weft_volume_op)rnd(RANGE_OPS);
			const struct weft_volume_info *info = weft_volume_info(m.r.v);
			uint64_t len = rnd(60000);

			o->req = (struct weft_volume_req){.op = op,
			                                  .len_bytes = len % (info->bytes + 1),
			                                  .data = data,
			                                  .expect = expect,
			                                  .pieces = o->piece,
			                                  .max_pieces = PIECES,
			                                  .done = any_done,
			                                  .owner = o};
			o->busy = weft_volume_submit(m.r.v, &o->req) == 0;
			m.begun += o->busy;
		}
		asked += weft_volume_window_open(m.r.v, x, 0, 4096, 0, 0, win_fn, NULL) == 0;
		asked += weft_volume_window_move(x, 4096, 4096, 0, win_fn, NULL) == 0;
		if (rnd(3) == 0)
			asked += weft_volume_window_close(x, win_fn, NULL) == 0;
		vrig_run(&m.r, rnd(10) * 10000);
	}
	(void)vrig_close_volume(&m.r);
	CHECK_EQ(m.begun, m.ended);
	CHECK_EQ(asked, win_told);
	vrig_close(&m.r);
}

static void
test_anything(void)
{
	uint64_t seed = test_seed(1000);
	unsigned int n = test_seed_given() ? 1 : runs(60);

	for (unsigned int i = 0; i < n; i++) {
		test_seed_note(seed + i);
		any_run(seed + i);
	}
}

WEFT_TEST_MAIN({"random requests against a byte array", test_model},
               {"a target that answers anything", test_anything})
