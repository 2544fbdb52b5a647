/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Long Verifies, Flushes and messages do not block a worker (docs/internals/polling.md;
 * draft-talpey-rdma-commit-02 s2.1, s2.2). The tests count the octets that one poll hashes, writes
 * back, reads back or sends, for one stream and for many. They also count the round trips of other
 * streams meanwhile. They measure no time.
 */

#include <errno.h>

#include "vt.h"

#define NLONG            40
#define NFLUSH           20 /* streams of Flushes, and Flushes of each: */
#define FLUSHES          4
#define MIXED_ROUNDS     10
#define BASE_TO          0x700000000ull
#define SLOW_SLICE_BYTES 2048

static uint8_t memory[8 << 20];

/* ---- Work in each poll of the target ---- */

static struct {
	struct weft_worker *w;
	uint64_t poll;         /**< number of the poll that is being counted */
	uint64_t poll_bytes;   /**< octets in this poll */
	uint64_t most_bytes;   /**< the most in any poll */
	uint64_t polls, bytes; /**< of all polls */
} seen;

static void
see(uint64_t bytes)
{
	static struct weft_worker_stats st;

	if (seen.w == NULL) /* a context tests every hash when it is created */
		return;
	weft_worker_stats(seen.w, &st);
	if (seen.polls == 0 || st.polls != seen.poll) {
		seen.poll = st.polls;
		seen.poll_bytes = 0;
		seen.polls++;
	}
	seen.poll_bytes += bytes;
	seen.bytes += bytes;
	seen.most_bytes = RTE_MAX(seen.most_bytes, seen.poll_bytes);
}

static void
see_from_now(struct vt *t)
{
	memset(&seen, 0, sizeof(seen));
	seen.w = t->n[1].w;
}

/* ---- Hashes that count: one as fast as memory, one that asks for short slices ---- */

static int
seen_init(struct weft_hash_state *st, const void *key, size_t key_bytes)
{
	(void)key;
	st->opaque[0] = 0;
	return key_bytes > 0 ? -EINVAL : 0;
}

static void
seen_update(struct weft_hash_state *st, const void *data, size_t len_bytes)
{
	st->opaque[0] += len_bytes + ((const uint8_t *)data)[0];
	see(len_bytes);
}

static void
seen_final(struct weft_hash_state *st, void *result)
{
	memcpy(result, &st->opaque[0], 8);
}

static const struct weft_hash_ops seen_fast = {.name = "seen",
                                               .result_bytes = 8,
                                               .init = seen_init,
                                               .update = seen_update,
                                               .final = seen_final};
static const struct weft_hash_ops seen_slow = {.name = "seen-slow",
                                               .result_bytes = 8,
                                               .slice_bytes = SLOW_SLICE_BYTES,
                                               .init = seen_init,
                                               .update = seen_update,
                                               .final = seen_final};

WEFT_HASH_REGISTER(seen_fast, seen_fast)
WEFT_HASH_REGISTER(seen_slow, seen_slow)

/* ---- A hash that calls another driver ---- */

static const struct weft_hash_ops *real;

static int
through_init(struct weft_hash_state *st, const void *key, size_t key_bytes)
{
	return real == NULL ? -ENOTSUP : real->init(st, key, key_bytes);
}

static void
through_update(struct weft_hash_state *st, const void *data, size_t len_bytes)
{
	real->update(st, data, len_bytes);
	see(len_bytes);
}

static void
through_final(struct weft_hash_state *st, void *result)
{
	real->final(st, result);
}

static struct weft_hash_ops through = {.name = "through",
                                       .result_bytes = 1,
                                       .init = through_init,
                                       .update = through_update,
                                       .final = through_final};

WEFT_HASH_REGISTER(through, through)

static void
through_to(const struct weft_hash_ops *h)
{
	real = h;
	through.result_bytes = h->result_bytes;
	through.key_min_bytes = h->key_min_bytes;
	through.key_max_bytes = h->key_max_bytes;
	through.slice_bytes = h->slice_bytes;
}

/* ---- A medium that works on the polling core, with limits as drivers have ---- */

#define CORE_FLUSH_BYTES (16 * 1024)
#define CORE_READ_BYTES  (8 * 1024)
#define CORE_MOST_BYTES  (64 * 1024) /* twice the limit of drivers */

static uint64_t read_bytes;

static int
core_open(struct weft_persist *p, const struct weft_persist_attr *attr)
{
	p->base = memory;
	p->bytes = attr->bytes;
	return 0;
}

static void
core_close(struct weft_persist *p)
{
	(void)p;
}

static int
core_flush(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req)
{
	(void)p;
	(void)exec;
	see(req->len_bytes);
	req->status = 0;
	req->done(req);
	return 0;
}

/** Reads back less than asked for, as a driver does that evicts the cache on the polling core. */
static int
core_read_back(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req)
{
	(void)exec;
	req->len_bytes = RTE_MIN(req->len_bytes, (uint64_t)CORE_READ_BYTES);
	read_bytes += req->len_bytes;
	see(req->len_bytes);
	req->data = p->base + req->off_bytes;
	req->status = 0;
	req->done(req);
	return 0;
}

static const struct weft_persist_ops core_ops = {.name = "core",
                                                 .persistent = true,
                                                 .open = core_open,
                                                 .close = core_close,
                                                 .flush = core_flush,
                                                 .read_back = core_read_back,
                                                 .read_back_max_bytes = 1 << 20};

WEFT_PERSIST_REGISTER(core, core_ops)

/* ---- The rig: NLONG streams for long work, and the first pair's stream for short work ---- */

struct rig {
	struct vt t;
	struct weft_qp *qp[2][NLONG];
	struct weft_mr *mr;
	struct weft_persist *p;
	unsigned int done, pings;
	unsigned int of[NLONG];  /**< completions of each stream */
	unsigned int most_ahead; /**< the greatest difference between two streams' completions */
	unsigned int n;          /**< number of compared streams */
};

/** wr_id of completions. */
enum { WR_PING = 1, WR_LONG /**< plus the number of the stream */ };

static void
rig_open_seeded(struct rig *r, unsigned int n, const char *hash, const char *medium, uint64_t seed)
{
	struct weft_persist_attr pa = {
	        .size = sizeof(pa), .driver = medium, .bytes = sizeof(memory), .numa_node = -1};
	struct weft_mr_attr a = {.size = sizeof(a),
	                         .addr = memory,
	                         .len_bytes = sizeof(memory),
	                         .base_to = BASE_TO,
	                         .access = WEFT_ACCESS_VERIFY | WEFT_ACCESS_FLUSH_VISIBLE |
	                                   WEFT_ACCESS_REMOTE_READ,
	                         .hash = hash,
	                         .hash_key = "key",
	                         .hash_key_bytes = weft_hash_find(hash)->key_min_bytes};
	struct vt_attr va = {.seed = seed, .link = {.delay_ns = 1000}};

	memset(r, 0, sizeof(*r));
	read_bytes = 0;
	vt_open(&r->t, &va);
	for (unsigned int i = 0; i < n; i++) {
		vt_connect(&r->t, NULL, NULL);
		for (unsigned int k = 0; k < 2; k++)
			r->qp[k][i] = r->t.n[k].qp;
	}
	vt_connect(&r->t, NULL, NULL);
	vt_mem(&r->t.n[0], 4096, WEFT_ACCESS_LOCAL_WRITE);
	vt_mem(&r->t.n[1], 4096, WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE);
	if (medium != NULL) {
		CHECK_EQ(weft_persist_open(&pa, &r->p), 0);
		a.persist = r->p;
		a.access |= WEFT_ACCESS_FLUSH_PERSISTENT;
	}
	CHECK_EQ(weft_mr_reg(r->t.n[1].pd, &a, &r->mr), 0);
	see_from_now(&r->t);
}

static void
rig_open_on(struct rig *r, unsigned int n, const char *hash, const char *medium)
{
	rig_open_seeded(r, n, hash, medium, 0);
}

static void
rig_shut(struct rig *r)
{
	seen.w = NULL;
	for (unsigned int i = 0; i < NLONG; i++)
		for (unsigned int k = 0; k < 2; k++)
			if (r->qp[k][i] != NULL)
				weft_qp_destroy(r->qp[k][i]);
	CHECK_EQ(weft_mr_dereg(r->mr, NULL, NULL), 0);
	vt_run(&r->t, VT_MS);
	vt_close(&r->t);
	if (r->p != NULL)
		weft_persist_close(r->p);
}

static void
verify(struct rig *r, unsigned int i, uint32_t len)
{
	struct weft_wr wr = {
	        .opcode = WEFT_WR_VERIFY,
	        .flags = WEFT_WR_SIGNALED,
	        .wr_id = WR_LONG + i,
	        .verify = {.stag = weft_mr_stag(r->mr), .to = BASE_TO, .len_bytes = len}};

	CHECK_EQ(weft_post_send(r->qp[0][i], &wr, 1), 1);
}

static void
long_done(struct rig *r, unsigned int i)
{
	unsigned int least = UINT32_MAX, most = 0;

	r->of[i]++;
	for (unsigned int k = 0; k < r->n; k++) {
		least = RTE_MIN(least, r->of[k]);
		most = RTE_MAX(most, r->of[k]);
	}
	r->most_ahead = RTE_MAX(r->most_ahead, most - least);
}

/** On the stream for short work, read 64 octets again and again until n long requests are
 * complete. */
static void
ping_until_done(struct rig *r, unsigned int n)
{
	struct vt_node *a = &r->t.n[0];
	struct weft_sge sge = {a->mem, 64, weft_mr_stag(a->mr)};
	struct weft_wr wr = {.opcode = WEFT_WR_READ,
	                     .flags = WEFT_WR_SIGNALED,
	                     .wr_id = WR_PING,
	                     .sg_list = &sge,
	                     .num_sge = 1,
	                     .rdma = {weft_mr_stag(r->t.n[1].mr), 0x200000000ull}};
	bool out = false;

	while (r->done < n || out) {
		struct weft_wc wc;

		if (!out)
			CHECK_EQ(weft_post_send(a->qp, &wr, 1), 1);
		out = true;
		wc = vt_wc(a);
		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
		if (wc.wr_id == WR_PING) {
			r->pings++;
			out = false;
		} else {
			r->done++;
			long_done(r, (unsigned int)(wc.wr_id - WR_LONG));
		}
	}
}

/* ---- */

/** One Verify of 8 MiB takes exactly 32 KiB a poll. The other stream's Reads go on meanwhile. */
static void
test_one(void)
{
	struct rig r;

	rig_open_on(&r, 1, "seen", NULL);
	verify(&r, 0, sizeof(memory));
	ping_until_done(&r, 1);
	CHECK_EQ(seen.bytes, sizeof(memory));
	CHECK(seen.most_bytes <= WEFT_SLICE_BYTES);
	CHECK(seen.polls >= sizeof(memory) / WEFT_SLICE_BYTES);
	CHECK(seen.polls <= sizeof(memory) / WEFT_SLICE_BYTES + 4); /* and no less */
	rig_shut(&r);

	rig_open_on(&r, 1, "seen-slow", NULL);
	verify(&r, 0, sizeof(memory));
	ping_until_done(&r, 1);
	CHECK_EQ(seen.bytes, sizeof(memory));
	CHECK(seen.most_bytes <= SLOW_SLICE_BYTES);
	CHECK(r.pings >= 10);
	rig_shut(&r);
}

/** The octets that each hash may take in one poll. A hash that is slower than memory asks for
 * less. */
static void
test_every_hash(void)
{
	static const struct {
		const char *name;
		uint32_t most_bytes; /**< 0: a hash of this program, which counts itself */
	} rows[] = {
	        {"crc32c", 32768},
	        {"crc64-ecma-182", 32768},
	        {"crc64-xz", 32768},
	        {"crc64-go-iso", 32768},
	        {"crc64-redis", 32768},
	        {"crc16-t10-dif", 32768},
	        {"sha256", 4096},
	        {"hmac-sha256", 4096},
	        {"seen", 0},
	        {"seen-slow", 0},
	        {"through", 0},
	};
	const struct weft_hash_ops *h;

	for (unsigned int i = 0; (h = weft_hash_get(i)) != NULL; i++) {
		unsigned int k = 0;
		struct rig r;

		while (k < RTE_DIM(rows) && strcmp(rows[k].name, h->name) != 0)
			k++;
		CHECK_MSG(k < RTE_DIM(rows), "%s: what may it cost?", h->name);
		if (rows[k].most_bytes == 0)
			continue;
		through_to(h);
		rig_open_on(&r, 2, "through", NULL);
		verify(&r, 0, 1 << 20);
		verify(&r, 1, 1 << 20);
		ping_until_done(&r, 2);
		CHECK_EQ(seen.bytes, 2 << 20);
		CHECK_MSG(seen.most_bytes <= rows[k].most_bytes, "%s: %" PRIu64 " octets", h->name,
		          seen.most_bytes);
		CHECK(seen.polls <= 2 * (1 << 20) / rows[k].most_bytes + 4);
		rig_shut(&r);
	}
	real = NULL;
}

/** Many Verifies at once all make progress. A poll does no more than for one. */
static void
test_many(void)
{
	struct rig r;

	rig_open_on(&r, NLONG, "seen", NULL);
	for (unsigned int i = 0; i < NLONG; i++)
		verify(&r, i, 1 << 20);
	ping_until_done(&r, NLONG);
	CHECK_EQ(seen.bytes, (uint64_t)NLONG << 20);
	CHECK(seen.most_bytes <= WEFT_SLICE_BYTES);
	CHECK(r.pings >= 5);
	rig_shut(&r);
}

/** No stream starves: the Verifies complete at about the same time, although the first one is
 * always first in the queue. */
static void
test_fair(void)
{
	uint64_t first_ns = 0, last_ns = 0, begin_ns;
	struct rig r;

	rig_open_on(&r, 4, "seen", NULL);
	begin_ns = sim_now_ns(r.t.sim);
	for (unsigned int i = 0; i < 4; i++)
		verify(&r, i, sizeof(memory));
	for (unsigned int i = 0; i < 4; i++) {
		struct weft_wc wc = vt_wc(&r.t.n[0]);

		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
		last_ns = sim_now_ns(r.t.sim);
		if (i == 0)
			first_ns = last_ns;
	}
	CHECK(first_ns - begin_ns >= (last_ns - begin_ns) / 2);
	rig_shut(&r);
}

/** Flushes that are done on the polling core share its slice: a poll does not do a whole queue of
 * them. */
static void
test_flushes(void)
{
	struct weft_wr wr[16];
	struct rig r;

	rig_open_on(&r, 2, "seen", "core");
	for (unsigned int i = 0; i < 16; i++)
		wr[i] = (struct weft_wr){.opcode = WEFT_WR_FLUSH,
		                         .flags = WEFT_WR_SIGNALED,
		                         .wr_id = WR_LONG,
		                         .flush = {.stag = weft_mr_stag(r.mr),
		                                   .to = BASE_TO,
		                                   .len_bytes = CORE_FLUSH_BYTES,
		                                   .flags = WEFT_FLUSH_PERSISTENT}};
	CHECK_EQ(weft_post_send(r.qp[0][0], wr, 16), 16);
	CHECK_EQ(weft_post_send(r.qp[0][1], wr, 16), 16);
	ping_until_done(&r, 32);
	CHECK_EQ(seen.bytes, 32 * CORE_FLUSH_BYTES);
	/* a Flush may begin while a part of the slice is left */
	CHECK(seen.most_bytes < WEFT_SLICE_BYTES + CORE_FLUSH_BYTES);
	rig_shut(&r);
}

/* Post FLUSHES Flushes on each of NFLUSH streams, each of least_bytes to CORE_MOST_BYTES octets. */
static void
post_flushes(struct rig *r, struct weft_rand *rnd, uint32_t least_bytes)
{
	for (unsigned int i = 0; i < NFLUSH; i++) {
		for (unsigned int k = 0; k < FLUSHES; k++) {
			uint32_t spare = CORE_MOST_BYTES - least_bytes;
			uint32_t len = least_bytes;
			struct weft_wr wr;

			if (spare > 0)
				len += weft_rand_u32(rnd) % (spare + 1);
			wr = (struct weft_wr){.opcode = WEFT_WR_FLUSH,
			                      .flags = WEFT_WR_SIGNALED,
			                      .wr_id = WR_LONG + i,
			                      .flush = {.stag = weft_mr_stag(r->mr),
			                                .to = BASE_TO,
			                                .len_bytes = len,
			                                .flags = WEFT_FLUSH_PERSISTENT}};
			CHECK_EQ(weft_post_send(r->qp[0][i], &wr, 1), 1);
		}
	}
	r->n = NFLUSH;
}

/** However many streams flush, a poll writes back its slice and at most the rest of a Flush that it
 * has begun. */
static void
test_many_flushes(void)
{
	struct weft_rand rnd;
	struct rig r;

	rig_open_on(&r, NFLUSH, "seen", "core");
	rnd = sim_rand(r.t.sim, 1000);
	post_flushes(&r, &rnd, CORE_MOST_BYTES);
	ping_until_done(&r, NFLUSH * FLUSHES);
	CHECK_EQ(seen.bytes, (uint64_t)NFLUSH * FLUSHES * CORE_MOST_BYTES);
	CHECK(seen.most_bytes < WEFT_SLICE_BYTES + CORE_MOST_BYTES);
	/* in turn: no stream's third Flush before every stream's first */
	CHECK(r.most_ahead <= 2);
	rig_shut(&r);
}

/** Flushes of any length beside a Verify: a poll is bounded, and all complete. */
static void
test_mixed(void)
{
	for (unsigned int round = 0; round < MIXED_ROUNDS; round++) {
		uint64_t seed = test_seed(100 + round);
		struct weft_rand rnd;
		struct rig r;

		test_seed_note(seed);
		rig_open_seeded(&r, NFLUSH + 1, "seen", "core", seed);
		rnd = sim_rand(r.t.sim, 1000);
		post_flushes(&r, &rnd, 1);
		verify(&r, NFLUSH, 2 * WEFT_SLICE_BYTES);
		ping_until_done(&r, NFLUSH * FLUSHES + 1);
		CHECK(seen.most_bytes < WEFT_SLICE_BYTES + CORE_MOST_BYTES);
		rig_shut(&r);
		if (test_seed_given())
			break;
	}
}

/** The core's time to read back is bounded over all streams, too. */
static void
test_many_read_backs(void)
{
	struct rig r;

	rig_open_on(&r, NLONG, "seen", "core");
	for (unsigned int i = 0; i < NLONG; i++)
		verify(&r, i, 64 << 10);
	ping_until_done(&r, NLONG);
	CHECK_EQ(seen.bytes, (uint64_t)NLONG * 2 * (64 << 10));
	CHECK(seen.most_bytes < WEFT_SLICE_BYTES + CORE_READ_BYTES);
	rig_shut(&r);
}

/** A driver that reads back less than asked for is asked again. All octets are hashed once. */
static void
test_short_read_back(void)
{
	struct rig r;

	rig_open_on(&r, 1, "seen", "core");
	verify(&r, 0, 1000001);
	ping_until_done(&r, 1);
	CHECK_EQ(seen.bytes, 2 * 1000001); /* read back and hashed */
	CHECK_EQ(read_bytes, 1000001);
	CHECK(seen.most_bytes <= WEFT_SLICE_BYTES + CORE_READ_BYTES);
	rig_shut(&r);
}

/* ---- Messages ---- */

#define READ_BYTES (64 << 10)
#define READS      4
#define FULL_BYTES 1400 /**< least payload of a full segment at an MTU of 1500 */
#define SEG_BYTES  256  /**< cost of a segment besides its payload */

static struct {
	unsigned int want;
	uint64_t poll, fpdus, most_fpdus;
} sent;

/** After every poll of the target: count the segments that it sent and the completions. */
static bool
see_sent(void *arg)
{
	struct weft_worker_stats st;
	struct rig *r = arg;
	struct weft_wc wc;

	weft_worker_stats(r->t.n[1].w, &st);
	if (st.polls == sent.poll + 1)
		sent.most_fpdus = RTE_MAX(sent.most_fpdus, st.fpdus_out - sent.fpdus);
	sent.poll = st.polls;
	sent.fpdus = st.fpdus_out;
	while (weft_cq_poll(r->t.n[0].cq, &wc, 1) == 1) {
		CHECK_EQ(wc.status, WEFT_WC_SUCCESS);
		r->done++;
		long_done(r, (unsigned int)(wc.wr_id - WR_LONG));
	}
	return r->done >= sent.want;
}

static void
send_to(unsigned int n)
{
	static uint8_t sink[READ_BYTES];
	struct weft_mr_attr a = {.size = sizeof(a),
	                         .addr = sink,
	                         .len_bytes = sizeof(sink),
	                         .access = WEFT_ACCESS_LOCAL_WRITE};
	struct weft_mr *mr;
	struct rig r;

	rig_open_on(&r, n, "seen", NULL);
	CHECK_EQ(weft_mr_reg(r.t.n[0].pd, &a, &mr), 0);
	memset(&sent, 0, sizeof(sent));
	sent.want = n * READS;
	r.n = n;
	for (unsigned int i = 0; i < n; i++) {
		struct weft_sge sge = {sink, READ_BYTES, weft_mr_stag(mr)};
		struct weft_wr wr = {.opcode = WEFT_WR_READ,
		                     .flags = WEFT_WR_SIGNALED,
		                     .wr_id = WR_LONG + i,
		                     .sg_list = &sge,
		                     .num_sge = 1,
		                     .rdma = {weft_mr_stag(r.mr), BASE_TO}};

		for (unsigned int k = 0; k < READS; k++)
			CHECK_EQ(weft_post_send(r.qp[0][i], &wr, 1), 1);
	}
	CHECK(vt_until(&r.t, 120 * VT_S, see_sent, &r));
	CHECK(sent.most_fpdus > 1);
	/* One more segment may begin while a part of the slice is left. The last segments of
	 * messages are shorter. */
	CHECK_MSG(sent.most_fpdus * (FULL_BYTES + SEG_BYTES) < WEFT_SEND_BYTES * 5 / 4,
	          "%u streams: %" PRIu64 " segments in a poll", n, sent.most_fpdus);
	/* in turn, as far as TCP lets each send: no stream's last Read before every stream's
	 * first */
	CHECK_MSG(r.most_ahead < READS, "%u streams: one is %u ahead", n, r.most_ahead);
	CHECK_EQ(weft_mr_dereg(mr, NULL, NULL), 0);
	rig_shut(&r);
}

/** However many streams have much to send, a poll sends a bounded amount, and all streams make
 * progress. */
static void
test_sends(void)
{
	send_to(1);
	send_to(2);
	send_to(8);
	send_to(NLONG);
}

WEFT_TEST_MAIN({"one", test_one}, {"every hash", test_every_hash}, {"many", test_many},
               {"fair", test_fair}, {"flushes", test_flushes}, {"many flushes", test_many_flushes},
               {"mixed", test_mixed}, {"many read-backs", test_many_read_backs},
               {"short read-back", test_short_read_back}, {"sends", test_sends})
