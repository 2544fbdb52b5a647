/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Initiators: transactions posted with weft_commit() or as single work requests, and Reads
 * and atomics between them; see power.h. */

#include "power.h"
#include <weft/commit.h>

#define POWER_WORD                                                                                 \
	0x9e3779b97f4a7c15ULL /**< commit word 1. It is odd, so each word stands for one number. */
#define POWER_SINKS (POWER_INITS * POWER_PART) /**< sinks of Reads in node 0's memory */

uint64_t
power_draw(struct power *p, uint64_t n)
{
	p->rng ^= p->rng >> 12;
	p->rng ^= p->rng << 25;
	p->rng ^= p->rng >> 27;
	return (p->rng * 0x2545f4914f6cdd1dULL >> 20) % n;
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

uint64_t
power_word_at(const struct power *p)
{
	return p->a.plain ? 4 : 0;
}

/** The initiator's own copy of octet `at` of its part. */
static uint8_t *
init_mem(const struct power_init *in, uint64_t at)
{
	return in->p->t.n[0].mem + in->id * POWER_PART + at;
}

uint64_t
power_to(const struct power_init *in, uint64_t at)
{
	return 0x200000000ULL + in->id * POWER_PART + at;
}

static uint64_t
init_wr_id(const struct power_init *in, uint64_t i, unsigned int kind)
{
	return (uint64_t)in->id << 56 | i << 8 | kind;
}

static uint32_t
init_flush_flags(struct power *p)
{
	uint32_t flags = WEFT_FLUSH_PERSISTENT;

	if (power_draw(p, 4) == 0)
		flags |= WEFT_FLUSH_VISIBLE;
	if (!p->a.exact && power_draw(p, 8) == 0)
		flags |= WEFT_FLUSH_REGION;
	return flags;
}

struct weft_wr
power_flush(struct power_init *in, uint64_t at, uint32_t len)
{
	return (struct weft_wr){.opcode = WEFT_WR_FLUSH,
	                        .flush = {.stag = weft_mr_stag(in->mr),
	                                  .to = power_to(in, at),
	                                  .len_bytes = len,
	                                  .flags = init_flush_flags(in->p)}};
}

/* ---- A transaction ---- */

/** Divide a transaction of len octets into n Writes. part[] gets their lengths. */
static void
init_parts(struct power *p, uint32_t *part, unsigned int n, uint32_t len)
{
	uint32_t done = 0;

	for (unsigned int i = 0; i < n; i++) {
		part[i] = i + 1 == n ? len - done : (uint32_t)power_draw(p, len - done);
		done += part[i];
	}
}

/** Post a transaction with weft_commit(), as one range or as one range for each of its Writes. */
static void
init_post_unit(struct power_init *in, uint64_t i, const uint32_t *part, unsigned int n,
               uint32_t len)
{
	struct power *p = in->p;
	uint64_t at = power_slot(i), word = i * POWER_WORD;
	bool whole = n == 1 || p->a.exact || power_draw(p, 2) == 0;
	uint8_t expect[3][4];
	struct weft_sge sg[3];
	struct weft_commit_range r[3];
	struct weft_commit c = {.wr_id = init_wr_id(in, i, POWER_LAST),
	                        .flush_flags = init_flush_flags(p),
	                        .ranges = r,
	                        .word = {.stag = weft_mr_stag(in->mr), .to = power_to(in, 0)}};

	for (unsigned int k = 0; k < n; k++) {
		unsigned int j = c.num_ranges;

		sg[k] = (struct weft_sge){.addr = init_mem(in, at), .len_bytes = part[k]};
		r[j] = (struct weft_commit_range){.sg_list = &sg[k],
		                                  .num_sge = 1,
		                                  .stag = weft_mr_stag(in->mr),
		                                  .to = power_to(in, at),
		                                  .expect = p->no_verify ? NULL : expect[j],
		                                  .expect_bytes = p->no_verify ? 0 : 4};
		vt_crc32c(sg[k].addr, part[k], expect[j]);
		c.num_ranges += part[k] > 0;
		at += part[k];
	}
	if (whole) {
		r[0].sg_list = sg;
		r[0].num_sge = n;
		r[0].len_bytes = len;
		r[0].to = power_to(in, power_slot(i));
		memcpy(expect[0], in->expect[i % POWER_SLOTS], 4);
		c.num_ranges = 1;
	}
	memcpy(c.word.data, &word, 8);
	CHECK_EQ(weft_commit(in->qp[0], &c), 0);
	p->units++;
}

/** Work request that writes the commit word from the initiator's copy. */
static struct weft_wr
init_plain(struct power_init *in, const uint64_t *word, struct weft_sge *sg)
{
	memcpy(init_mem(in, 0), word, 8);
	*sg = (struct weft_sge){.addr = init_mem(in, 0), .len_bytes = 8};
	return (struct weft_wr){
	        .opcode = WEFT_WR_WRITE,
	        .flags = WEFT_WR_INLINE | WEFT_WR_FENCE,
	        .sg_list = sg,
	        .num_sge = 1,
	        .rdma = {.stag = weft_mr_stag(in->mr), .to = power_to(in, power_word_at(in->p))}};
}

static void
init_post_by_hand(struct power_init *in, uint64_t i, const uint32_t *part, unsigned int n,
                  uint32_t len)
{
	struct power *p = in->p;
	uint64_t at = power_slot(i), word = i * POWER_WORD;
	uint32_t stag = weft_mr_stag(in->mr), done = 0;
	struct weft_sge sg[4];
	struct weft_wr wr[8];
	unsigned int commit;

	for (unsigned int k = 0; k < n; k++) {
		sg[k] = (struct weft_sge){.addr = init_mem(in, at + done), .len_bytes = part[k]};
		wr[k] = (struct weft_wr){.opcode = WEFT_WR_WRITE,
		                         .sg_list = &sg[k],
		                         .num_sge = 1,
		                         .rdma = {.stag = stag, .to = power_to(in, at + done)}};
		done += part[k];
	}
	wr[n++] = power_flush(in, at, len);
	if (!p->no_verify)
		wr[n++] = (struct weft_wr){.opcode = WEFT_WR_VERIFY,
		                           .verify = {.stag = stag,
		                                      .to = power_to(in, at),
		                                      .len_bytes = len,
		                                      .expect = in->expect[i % POWER_SLOTS],
		                                      .expect_bytes = 4}};
	commit = n++;
	wr[commit] = (struct weft_wr){.opcode = WEFT_WR_ATOMIC_WRITE,
	                              .atomic_write = {.stag = stag, .to = power_to(in, 0)}};
	memcpy(wr[commit].atomic_write.data, &word, 8);
	if (p->a.plain)
		wr[commit] = init_plain(in, &word, &sg[3]);
	wr[n++] = power_flush(in, power_word_at(p), 8);
	if (p->a.swapped) {
		/* The Flush of the data follows the commit word and its Flush. */
		struct weft_wr data[2];
		unsigned int k = p->no_verify ? 1 : 2;

		memcpy(data, &wr[commit - k], k * sizeof(wr[0]));
		memmove(&wr[commit - k], &wr[commit], 2 * sizeof(wr[0]));
		memcpy(&wr[commit - k + 2], data, k * sizeof(wr[0]));
	}
	for (unsigned int k = 0; k < n; k++)
		wr[k].wr_id =
		        init_wr_id(in, i, k + 1 == n ? POWER_LAST : (unsigned int)wr[k].opcode);
	wr[n - 1].flags = WEFT_WR_SIGNALED;
	CHECK_EQ(weft_post_send(in->qp[0], wr, n), n);
}

/* ---- Reads and atomics between transactions ---- */

/** Post a Read. Its correct answer is the commit word of the last posted transaction. */
static void
init_post_read(struct power_init *in, uint64_t i)
{
	struct weft_sge sg = {.addr = in->p->t.n[0].mem + POWER_SINKS +
	                              (in->id * POWER_ASIDES + i % POWER_ASIDES) * 8,
	                      .len_bytes = 8,
	                      .lkey = weft_mr_stag(in->p->t.n[0].mr)};
	struct weft_wr wr = {
	        .wr_id = init_wr_id(in, i, WEFT_WR_READ),
	        .opcode = WEFT_WR_READ,
	        .flags = WEFT_WR_SIGNALED,
	        .sg_list = &sg,
	        .num_sge = 1,
	        .rdma = {.stag = weft_mr_stag(in->mr), .to = power_to(in, power_word_at(in->p))}};

	in->want[i % POWER_ASIDES] = in->posted * POWER_WORD;
	CHECK_EQ(weft_post_send(in->qp[0], &wr, 1), 1);
}

/** Post an atomic that adds one: FetchAdd, or CmpSwap if the counter's value is known. */
static void
init_post_count(struct power_init *in, uint64_t i)
{
	struct weft_sge sg = {.addr = in->p->t.n[0].mem + POWER_SINKS +
	                              (in->id * POWER_ASIDES + i % POWER_ASIDES) * 8,
	                      .len_bytes = 8};
	struct weft_wr wr = {.opcode = WEFT_WR_FETCH_ADD,
	                     .flags = WEFT_WR_SIGNALED,
	                     .sg_list = &sg,
	                     .num_sge = 1,
	                     .atomic = {.stag = weft_mr_stag(in->mr),
	                                .to = power_to(in, POWER_COUNTER),
	                                .data = 1}};

	if (in->counting && in->asides_done == in->asides_posted - 1 && power_draw(in->p, 2) == 0) {
		wr.opcode = WEFT_WR_CMP_SWAP;
		wr.atomic.compare = in->counter;
		wr.atomic.data = in->counter + 1;
	}
	wr.wr_id = init_wr_id(in, i, wr.opcode);
	CHECK_EQ(weft_post_send(in->qp[0], &wr, 1), 1);
}

static void
init_post_aside(struct power_init *in)
{
	struct power *p = in->p;
	uint64_t i;

	if (in->asides_posted - in->asides_done == POWER_ASIDES)
		return;
	i = in->asides_posted++;
	if (power_draw(p, 2) == 0)
		init_post_read(in, i);
	else
		init_post_count(in, i);
}

static void
init_aside_done(struct power_init *in, uint64_t i, bool read)
{
	uint64_t v;

	CHECK_EQ(i, in->asides_done & UINT32_MAX);
	memcpy(&v, in->p->t.n[0].mem + POWER_SINKS + (in->id * POWER_ASIDES + i % POWER_ASIDES) * 8,
	       8);
	in->asides_done++;
	in->asides++;
	if (read) {
		in->odd += v != in->want[i % POWER_ASIDES];
		return;
	}
	/* Unacknowledged atomics of an earlier life may have been executed or not. */
	in->odd += in->counting ? v != in->counter : v > in->asides_posted;
	in->counting = true;
	in->counter = v + 1;
}

void
power_post(struct power_init *in)
{
	struct power *p = in->p;
	uint64_t i;
	uint32_t len =
	        8 + (uint32_t)power_draw(p, power_draw(p, 8) == 0 ? POWER_SLOT_BYTES - 8 : 600);
	unsigned int n = 1 + (unsigned int)power_draw(p, 3);
	bool unit = p->a.post == POWER_COMMIT;
	uint32_t part[3];
	uint8_t *src;

	if (p->a.post == POWER_DRAWN && !p->a.plain && !p->a.swapped)
		unit = power_draw(p, 2) == 0;
	if (!p->a.no_asides && power_draw(p, 3) == 0)
		init_post_aside(in);
	i = ++in->posted;
	src = init_mem(in, power_slot(i));
	in->len[i % POWER_SLOTS] = len;
	vt_fill(src, len, p->rng);
	vt_crc32c(src, len, in->expect[i % POWER_SLOTS]);
	init_parts(p, part, n, len);
	if (unit)
		init_post_unit(in, i, part, n, len);
	else
		init_post_by_hand(in, i, part, n, len);
	if (!p->a.no_asides && power_draw(p, 3) == 0)
		init_post_aside(in);
}

void
power_on_wc(struct power_init *in, const struct weft_wc *wc)
{
	struct power *p = in->p;
	unsigned int kind = wc->wr_id & 0xff;

	if (wc->status != WEFT_WC_SUCCESS) {
		if (p->nfailed++ == 0)
			p->failed = *wc;
		p->broken = true;
	} else if (kind == POWER_LAST) {
		CHECK_EQ(POWER_TXN(wc->wr_id), in->acked + 1);
		in->acked++;
	} else if (kind == WEFT_WR_READ || kind == WEFT_WR_FETCH_ADD || kind == WEFT_WR_CMP_SWAP) {
		init_aside_done(in, POWER_TXN(wc->wr_id), kind == WEFT_WR_READ);
	}
}

void
power_resume(struct power_init *in, uint64_t word)
{
	in->posted = in->acked = word;
	in->asides_done = in->asides_posted;
	in->counting = false;
}
