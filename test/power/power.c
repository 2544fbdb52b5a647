/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Transactions against a target whose power can go at any step; see power.h. */

#include "power.h"

#define POWER_STRIDE (POWER_SLOT_BYTES + 48) /**< slots begin anywhere in a page */
#define POWER_FIRST  64                      /**< the commit word has a cache line of its own */
#define POWER_BYTES  (POWER_FIRST + POWER_SLOTS * POWER_STRIDE)
#define POWER_WORD                                                                                 \
	0x9e3779b97f4a7c15ULL /**< commit word 1; odd, so that every word has one number */
#define POWER_LAST 6ULL       /**< in a wr_id: the Flush that makes a transaction durable */

static uint64_t
power_draw(struct power *p, uint64_t n)
{
	p->rng ^= p->rng >> 12;
	p->rng ^= p->rng << 25;
	p->rng ^= p->rng >> 27;
	return (p->rng * 0x2545f4914f6cdd1dULL >> 20) % n;
}

static uint64_t
power_base_to(const struct vt_node *n)
{
	return 0x100000000ULL * (n->id + 1);
}

uint64_t
power_slot(uint64_t i)
{
	return POWER_FIRST + i % POWER_SLOTS * POWER_STRIDE;
}

uint64_t
power_word(const uint8_t *at)
{
	uint64_t inverse = POWER_WORD, v;

	for (unsigned int i = 0; i < 6; i++) /* Newton's method, modulo 2^64 */
		inverse *= 2 - POWER_WORD * inverse;
	memcpy(&v, at, 8);
	v *= inverse;
	return v < 1 << 20 ? v : UINT64_MAX;
}

const char *
power_verdict_str(enum power_verdict v)
{
	static const char *const names[POWER_VERDICTS] = {
	        "sound", "torn commit word", "acknowledged and lost", "committed and not there",
	        "stopped by itself"};

	return names[v];
}

static uint64_t
power_word_at(const struct power *p)
{
	return p->a.plain ? 4 : 0;
}

/* ---- The judge ---- */

/** What would be recovered now is a prefix of the transactions, with every acknowledged one. */
static void
power_judge(struct power *p)
{
	const uint8_t *medium = weft_persist_sim_medium(p->t.n[1].persist);
	uint64_t word = power_word(medium + power_word_at(p)), j;

	p->judged++;
	if (p->verdict != POWER_SOUND)
		return;
	if (word > p->posted) {
		p->verdict = POWER_TORN;
		return;
	}
	if (word < p->acked) {
		p->verdict = POWER_LOST;
		return;
	}
	/* The slots of older ones may have been taken by what is in flight. */
	j = word + p->depth > POWER_SLOTS ? word + p->depth - POWER_SLOTS : 0;
	while (++j <= word)
		if (memcmp(medium + power_slot(j), p->t.n[0].mem + power_slot(j),
		           p->len[j % POWER_SLOTS]) != 0)
			p->verdict = POWER_HOLE;
}

/* ---- The initiator ---- */

static void
power_writes(struct power *p, struct weft_wr wr[3], struct weft_sge sg[3], unsigned int n,
             uint64_t at, uint32_t len)
{
	uint32_t done = 0;

	for (unsigned int i = 0; i < n; i++) {
		uint32_t part = i + 1 == n ? len - done : (uint32_t)power_draw(p, len - done);

		sg[i] = (struct weft_sge){.addr = p->t.n[0].mem + at + done, .len_bytes = part};
		wr[i] = (struct weft_wr){.opcode = WEFT_WR_WRITE,
		                         .sg_list = &sg[i],
		                         .num_sge = 1,
		                         .rdma = {.stag = weft_mr_stag(p->t.n[1].mr),
		                                  .to = power_base_to(&p->t.n[1]) + at + done}};
		done += part;
	}
}

static struct weft_wr
power_flush(struct power *p, uint64_t at, uint32_t len)
{
	struct weft_wr wr = {.opcode = WEFT_WR_FLUSH,
	                     .flush = {.stag = weft_mr_stag(p->t.n[1].mr),
	                               .to = power_base_to(&p->t.n[1]) + at,
	                               .len_bytes = len,
	                               .flags = WEFT_FLUSH_PERSISTENT}};

	if (power_draw(p, 4) == 0)
		wr.flush.flags |= WEFT_FLUSH_VISIBLE;
	if (!p->a.exact && power_draw(p, 8) == 0)
		wr.flush.flags |= WEFT_FLUSH_REGION;
	return wr;
}

/** Where p->t.n[0].mem has the commit word, it is written from there. */
static struct weft_wr
power_plain(struct power *p, const uint64_t *word)
{
	static struct weft_sge sg;

	memcpy(p->t.n[0].mem, word, 8);
	sg = (struct weft_sge){.addr = p->t.n[0].mem, .len_bytes = 8};
	return (struct weft_wr){.opcode = WEFT_WR_WRITE,
	                        .flags = WEFT_WR_INLINE | WEFT_WR_FENCE,
	                        .sg_list = &sg,
	                        .num_sge = 1,
	                        .rdma = {.stag = weft_mr_stag(p->t.n[1].mr),
	                                 .to = power_base_to(&p->t.n[1]) + power_word_at(p)}};
}

static void
power_post(struct power *p)
{
	uint64_t i = ++p->posted, at = power_slot(i), word = i * POWER_WORD;
	uint32_t slot = i % POWER_SLOTS;
	uint32_t len =
	        8 + (uint32_t)power_draw(p, power_draw(p, 8) == 0 ? POWER_SLOT_BYTES - 8 : 600);
	struct weft_wr wr[8];
	struct weft_sge sg[3];
	unsigned int n = 1 + (unsigned int)power_draw(p, 3), commit;

	p->len[slot] = len;
	vt_fill(p->t.n[0].mem + at, len, p->rng);
	vt_crc32c(p->t.n[0].mem + at, len, p->expect[slot]);
	power_writes(p, wr, sg, n, at, len);
	wr[n++] = power_flush(p, at, len);
	if (!p->no_verify)
		wr[n++] = (struct weft_wr){.opcode = WEFT_WR_VERIFY,
		                           .verify = {.stag = weft_mr_stag(p->t.n[1].mr),
		                                      .to = power_base_to(&p->t.n[1]) + at,
		                                      .len_bytes = len,
		                                      .expect = p->expect[slot],
		                                      .expect_bytes = 4}};
	commit = n++;
	wr[commit] = (struct weft_wr){.opcode = WEFT_WR_ATOMIC_WRITE,
	                              .atomic_write = {.stag = weft_mr_stag(p->t.n[1].mr),
	                                               .to = power_base_to(&p->t.n[1])}};
	memcpy(wr[commit].atomic_write.data, &word, 8);
	if (p->a.plain)
		wr[commit] = power_plain(p, &word);
	wr[n++] = power_flush(p, power_word_at(p), 8);
	if (p->a.swapped) {
		/* the Writes, the commit word and its Flush, and only then the data's */
		struct weft_wr data[2];
		unsigned int k = p->no_verify ? 1 : 2;

		memcpy(data, &wr[commit - k], k * sizeof(wr[0]));
		memmove(&wr[commit - k], &wr[commit], 2 * sizeof(wr[0]));
		memcpy(&wr[commit - k + 2], data, k * sizeof(wr[0]));
	}
	for (unsigned int k = 0; k < n; k++)
		wr[k].wr_id = i << 4 | (k + 1 == n ? POWER_LAST : wr[k].opcode % POWER_LAST);
	wr[n - 1].flags = WEFT_WR_SIGNALED;
	CHECK_EQ(weft_post_send(p->t.n[0].qp, wr, n), n);
}

static void
power_reap(struct power *p)
{
	struct weft_wc wc;

	while (weft_cq_poll(p->t.n[0].cq, &wc, 1) == 1) {
		if (wc.status != WEFT_WC_SUCCESS) {
			if (p->nfailed++ == 0)
				p->failed = wc;
			p->broken = true;
		} else if ((wc.wr_id & 15) == POWER_LAST) {
			CHECK_EQ(wc.wr_id >> 4, p->acked + 1);
			p->acked++;
		}
	}
}

/* ---- The steps ---- */

static void
power_link(struct power *p, bool down)
{
	struct sim_link_cfg cfg = {.delay_ns = 20000, .down = down};

	if (!p->a.quick && p->a.seed % 4 == 0)
		cfg.loss_ppm = 20000;
	for (unsigned int i = 0; i < 2; i++)
		sim_link_set(p->t.link, i, &cfg);
}

/** Behind the workers in each round. */
static void
power_poll(void *arg, uint64_t now_ns)
{
	struct power *p = arg;

	if (p->running) {
		power_reap(p);
		power_judge(p);
		while (!p->broken && p->posted < p->a.txns && p->posted < p->acked + p->depth)
			power_post(p);
	}
	weft_persist_sim_step(p->t.n[1].persist, now_ns);
	if (!p->running)
		return;
	power_judge(p);
	if (++p->steps == p->cut_at) {
		if (!p->stream_only)
			weft_persist_sim_cut(p->t.n[1].persist);
		power_link(p, true);
		p->running = false;
		p->cut = true;
	}
}

static uint64_t
power_next(void *arg)
{
	return weft_persist_sim_next_ns(((struct power *)arg)->t.n[1].persist);
}

static bool
power_over(void *arg)
{
	struct power *p = arg;

	return p->cut || p->broken || p->verdict != POWER_SOUND || p->acked == p->a.txns;
}

/* ---- Lives ---- */

static void
power_register(struct power *p)
{
	struct vt_node *n = &p->t.n[1];
	struct weft_mr_attr a = {
	        .size = sizeof(a),
	        .addr = n->mem,
	        .len_bytes = POWER_BYTES,
	        .base_to = power_base_to(n),
	        .access = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ |
	                  WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_FLUSH_PERSISTENT |
	                  WEFT_ACCESS_FLUSH_VISIBLE | WEFT_ACCESS_VERIFY,
	        .persist = n->persist,
	        .hash = "crc32c",
	};

	CHECK_EQ(weft_mr_reg(n->pd, &a, &n->mr), 0);
}

void
power_open(struct power *p, const struct power_attr *a)
{
	static const uint32_t leaks[] = {0, 2000, 100000};
	struct weft_persist_attr pa = {
	        .size = sizeof(pa), .driver = "sim", .bytes = POWER_BYTES, .numa_node = -1};
	struct vt_attr va = {.seed = a->seed};
	struct sim_node sn = {.poll = power_poll, .next = power_next, .arg = p};

	memset(p, 0, sizeof(*p));
	p->a = *a;
	p->rng = (a->seed + 1) * 0x9e3779b97f4a7c15ULL | 1;
	for (unsigned int i = 0; i < 4; i++)
		(void)power_draw(p, 1);
	p->depth = 1 + (unsigned int)power_draw(p, POWER_DEPTH_MAX);
	p->no_verify = a->no_verify;
	p->cfg = (struct weft_persist_sim_cfg){
	        .seed = a->seed,
	        .leak_ppm = leaks[power_draw(p, 3)],
	        .busy_ppm = power_draw(p, 3) == 0 ? 200000 : 0,
	};
	if (power_draw(p, 4) != 0) { /* else done in the submission */
		p->cfg.delay_min_ns = 100 * power_draw(p, 100);
		p->cfg.delay_max_ns = p->cfg.delay_min_ns + 1000 * power_draw(p, 200);
	}
	vt_open(&p->t, &va);
	weft_engine_sabotage(p->t.n[1].ctx, a->sabotage);
	CHECK_EQ(weft_persist_open(&pa, &p->t.n[1].persist), 0);
	weft_persist_sim_set(p->t.n[1].persist, &p->cfg);
	p->t.n[1].mem = p->t.n[1].persist->base;
	power_register(p);
	vt_mem(&p->t.n[0], POWER_BYTES, WEFT_ACCESS_LOCAL_WRITE);
	sim_add_node(p->t.sim, &sn);
}

void
power_close(struct power *p)
{
	p->running = false;
	vt_close(&p->t);
}

static void
power_drain(struct vt_node *n)
{
	struct weft_event ev;
	struct weft_wc wc;

	while (weft_cq_poll(n->cq, &wc, 1) != 0)
		;
	while (weft_evq_poll(n->evq, &ev) != 0)
		;
}

static void
power_connect(struct power *p)
{
	struct weft_qp_attr qa = vt_qp_attr(&p->t.n[0]);

	qa.max_inline_bytes = 8;
	vt_connect(&p->t, &qa, NULL);
}

/** The power, or the stream, is back: both sides begin anew, the initiator with what the commit
 * word says. */
static void
power_boot(struct power *p)
{
	struct weft_sge sg = {.addr = p->t.n[0].mem, .len_bytes = 8};
	struct weft_wr wr = {
	        .opcode = WEFT_WR_READ, .flags = WEFT_WR_SIGNALED, .sg_list = &sg, .num_sge = 1};
	struct weft_wr flush;
	uint64_t word;

	for (unsigned int i = 0; i < 2; i++) {
		weft_qp_destroy(p->t.n[i].qp);
		p->t.n[i].qp = NULL;
	}
	if (!p->stream_only) {
		weft_mr_dereg(p->t.n[1].mr, NULL, NULL);
		vt_run(&p->t, VT_MS);
		weft_persist_sim_boot(p->t.n[1].persist);
		power_register(p);
	}
	for (unsigned int i = 0; i < 2; i++)
		power_drain(&p->t.n[i]);
	power_link(p, false);
	power_connect(p);
	sg.lkey = weft_mr_stag(p->t.n[0].mr);
	wr.rdma.stag = weft_mr_stag(p->t.n[1].mr);
	wr.rdma.to = power_base_to(&p->t.n[1]) + power_word_at(p);
	if (p->stream_only) {
		flush = power_flush(p, power_word_at(p), 8);
		flush.flags = WEFT_WR_SIGNALED;
		vt_post(&p->t.n[0], &flush);
		CHECK_EQ(vt_wc(&p->t.n[0]).status, WEFT_WC_SUCCESS);
	}
	vt_post(&p->t.n[0], &wr);
	CHECK_EQ(vt_wc(&p->t.n[0]).status, WEFT_WC_SUCCESS);
	word = power_word(p->t.n[0].mem);
	CHECK_MSG(word <= p->posted && word >= p->acked,
	          "seed %" PRIu64 ": recovered %" PRIu64 ", acknowledged %" PRIu64
	          ", posted %" PRIu64,
	          p->a.seed, word, p->acked, p->posted);
	p->posted = p->acked = word;
	p->cuts_done += !p->stream_only;
	p->resets_done += p->stream_only;
}

void
power_run_life(struct power *p)
{
	p->cut = false;
	p->steps = 0;
	p->running = true;
	CHECK_MSG(vt_until(&p->t, 600 * VT_S, power_over, p),
	          "seed %" PRIu64 ": stuck at %" PRIu64 " of %" PRIu64, p->a.seed, p->acked,
	          p->posted);
	p->running = false;
	if (p->broken && p->verdict == POWER_SOUND)
		p->verdict = POWER_STOPPED;
}

void
power_run(struct power *p)
{
	power_link(p, false);
	power_connect(p);
	for (unsigned int life = 0;; life++) {
		/* mostly within the steps that a life has, some hundreds */
		p->cut_at =
		        life < p->a.cuts ? 1 + power_draw(p, 1 + power_draw(p, 300)) : UINT64_MAX;
		p->stream_only = power_draw(p, 3) == 0;
		power_run_life(p);
		if (!p->cut || p->verdict != POWER_SOUND)
			return;
		power_boot(p);
	}
}
