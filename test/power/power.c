/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Transactions to a target that can lose power at any step; see power.h. */

#include "power.h"

const char *
power_verdict_str(enum power_verdict v)
{
	static const char *const names[POWER_VERDICTS] = {
	        "sound", "torn commit word", "acknowledged and lost", "committed and not there",
	        "stopped by itself"};

	return names[v];
}

/* ---- The check of the medium ---- */

/** Check that the medium has a prefix of one initiator's transactions, with every acknowledged one.
 */
static enum power_verdict
power_judge_one(const struct power_init *in)
{
	const struct power *p = in->p;
	const uint8_t *medium = weft_persist_sim_medium(p->t.n[1].persist) + in->id * POWER_PART;
	const uint8_t *sent = p->t.n[0].mem + in->id * POWER_PART;
	uint64_t word = power_word(medium + power_word_at(p)), j;

	if (word > in->posted)
		return POWER_TORN;
	if (word < in->acked)
		return POWER_LOST;
	/* Transactions in flight may have overwritten the slots of older transactions. */
	j = word + in->depth > POWER_SLOTS ? word + in->depth - POWER_SLOTS : 0;
	while (++j <= word)
		if (memcmp(medium + power_slot(j), sent + power_slot(j),
		           in->len[j % POWER_SLOTS]) != 0)
			return POWER_HOLE;
	return POWER_SOUND;
}

static void
power_judge(struct power *p)
{
	p->judged++;
	for (unsigned int k = 0; k < p->a.inits && p->verdict == POWER_SOUND; k++)
		p->verdict = power_judge_one(&p->in[k]);
}

static void
power_reap(struct power *p)
{
	struct weft_wc wc;

	while (weft_cq_poll(p->t.n[0].cq, &wc, 1) == 1)
		power_on_wc(&p->in[wc.wr_id >> 56], &wc);
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

/** Node of the simulation that is polled after the workers in each round. */
static void
power_poll(void *arg, uint64_t now_ns)
{
	struct power *p = arg;

	if (p->running) {
		power_reap(p);
		power_judge(p);
		for (unsigned int k = 0; k < p->a.inits; k++) {
			struct power_init *in = &p->in[k];

			while (!p->broken && in->posted < p->a.txns &&
			       in->posted < in->acked + in->depth)
				power_post(in);
		}
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

	if (p->cut || p->broken || p->verdict != POWER_SOUND)
		return true;
	for (unsigned int k = 0; k < p->a.inits; k++)
		if (p->in[k].acked != p->a.txns || p->in[k].asides_done != p->in[k].asides_posted)
			return false;
	return true;
}

/* ---- Lives ---- */

/** A region for each initiator, its part of the medium. */
static void
power_register(struct power *p)
{
	struct vt_node *n = &p->t.n[1];

	for (unsigned int k = 0; k < p->a.inits; k++) {
		struct weft_mr_attr a = {
		        .size = sizeof(a),
		        .addr = n->mem + k * POWER_PART,
		        .len_bytes = POWER_PART,
		        .base_to = power_to(&p->in[k], 0),
		        .access = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ |
		                  WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_REMOTE_ATOMIC |
		                  WEFT_ACCESS_FLUSH_PERSISTENT | WEFT_ACCESS_FLUSH_VISIBLE |
		                  WEFT_ACCESS_VERIFY,
		        .persist = n->persist,
		        .hash = "crc32c",
		};

		CHECK_EQ(weft_mr_reg(n->pd, &a, &p->in[k].mr), 0);
	}
}

void
power_open(struct power *p, const struct power_attr *a)
{
	static const uint32_t leaks[] = {0, 2000, 100000};
	struct weft_persist_attr pa = {.size = sizeof(pa), .driver = "sim", .numa_node = -1};
	struct vt_attr va = {.seed = a->seed};
	struct sim_node sn = {.poll = power_poll, .next = power_next, .arg = p};

	memset(p, 0, sizeof(*p));
	p->a = *a;
	if (p->a.inits == 0)
		p->a.inits = 1;
	pa.bytes = p->a.inits * POWER_PART;
	p->rng = (a->seed + 1) * 0x9e3779b97f4a7c15ULL | 1;
	for (unsigned int i = 0; i < 4; i++)
		(void)power_draw(p, 1);
	for (unsigned int k = 0; k < p->a.inits; k++) {
		p->in[k].p = p;
		p->in[k].id = k;
		p->in[k].depth = 1 + (unsigned int)power_draw(p, POWER_DEPTH_MAX);
	}
	p->no_verify = a->no_verify;
	p->cfg = (struct weft_persist_sim_cfg){
	        .seed = a->seed,
	        .leak_ppm = leaks[power_draw(p, 3)],
	        .busy_ppm = power_draw(p, 3) == 0 ? 200000 : 0,
	};
	if (power_draw(p, 4) != 0) { /* else requests complete inside their submission */
		p->cfg.delay_min_ns = 100 * power_draw(p, 100);
		p->cfg.delay_max_ns = p->cfg.delay_min_ns + 1000 * power_draw(p, 200);
	}
	vt_open(&p->t, &va);
	rdmap_sabotage(inside_sched(p->t.n[1].w), a->sabotage);
	CHECK_EQ(weft_persist_open(&pa, &p->t.n[1].persist), 0);
	weft_persist_sim_set(p->t.n[1].persist, &p->cfg);
	p->t.n[1].mem = p->t.n[1].persist->base;
	power_register(p);
	vt_mem(&p->t.n[0], POWER_INITS * (POWER_PART + POWER_ASIDES * 8), WEFT_ACCESS_LOCAL_WRITE);
	sim_add_node(p->t.sim, &sn);
}

static void
power_hang_up(struct power *p)
{
	for (unsigned int k = 0; k < p->a.inits; k++)
		for (unsigned int i = 0; i < 2; i++) {
			if (p->in[k].qp[i] != NULL)
				weft_qp_destroy(p->in[k].qp[i]);
			p->in[k].qp[i] = NULL;
		}
}

void
power_close(struct power *p)
{
	p->running = false;
	power_hang_up(p);
	for (unsigned int k = 0; k < p->a.inits; k++)
		weft_mr_dereg(p->in[k].mr, NULL, NULL);
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
	for (unsigned int k = 0; k < p->a.inits; k++) {
		vt_connect(&p->t, &qa, NULL);
		for (unsigned int i = 0; i < 2; i++) {
			p->in[k].qp[i] = p->t.n[i].qp;
			p->t.n[i].qp = NULL;
		}
	}
}

/** On a new stream, the initiator reads the commit word and resumes after that transaction. If only
 * the stream was lost, it flushes the word first. */
static void
power_recover(struct power_init *in)
{
	struct power *p = in->p;
	struct weft_sge sg = {.addr = p->t.n[0].mem + in->id * POWER_PART,
	                      .len_bytes = 8,
	                      .lkey = weft_mr_stag(p->t.n[0].mr)};
	struct weft_wr wr = {
	        .opcode = WEFT_WR_READ,
	        .flags = WEFT_WR_SIGNALED,
	        .sg_list = &sg,
	        .num_sge = 1,
	        .rdma = {.stag = weft_mr_stag(in->mr), .to = power_to(in, power_word_at(p))}};
	struct weft_wr flush;
	uint64_t word;

	if (p->stream_only) {
		flush = power_flush(in, power_word_at(p), 8);
		flush.flags = WEFT_WR_SIGNALED;
		CHECK_EQ(weft_post_send(in->qp[0], &flush, 1), 1);
		CHECK_EQ(vt_wc(&p->t.n[0]).status, WEFT_WC_SUCCESS);
	}
	CHECK_EQ(weft_post_send(in->qp[0], &wr, 1), 1);
	CHECK_EQ(vt_wc(&p->t.n[0]).status, WEFT_WC_SUCCESS);
	word = power_word(sg.addr);
	CHECK_MSG(word <= in->posted && word >= in->acked,
	          "seed %" PRIu64 ": initiator %u recovered %" PRIu64 ", acknowledged %" PRIu64
	          ", posted %" PRIu64,
	          p->a.seed, in->id, word, in->acked, in->posted);
	power_resume(in, word);
}

/** Restart both sides after a power cut or after the loss of the streams. */
static void
power_boot(struct power *p)
{
	power_hang_up(p);
	if (!p->stream_only) {
		for (unsigned int k = 0; k < p->a.inits; k++)
			weft_mr_dereg(p->in[k].mr, NULL, NULL);
		vt_run(&p->t, VT_MS);
		weft_persist_sim_boot(p->t.n[1].persist);
		power_register(p);
	}
	for (unsigned int i = 0; i < 2; i++)
		power_drain(&p->t.n[i]);
	power_link(p, false);
	power_connect(p);
	for (unsigned int k = 0; k < p->a.inits; k++)
		power_recover(&p->in[k]);
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
	          "seed %" PRIu64 ": stuck at %" PRIu64 " of %" PRIu64, p->a.seed, p->in[0].acked,
	          p->in[0].posted);
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
		/* The cut usually falls within a life, which has some hundreds of steps. */
		p->cut_at =
		        life < p->a.cuts ? 1 + power_draw(p, 1 + power_draw(p, 300)) : UINT64_MAX;
		p->stream_only = power_draw(p, 3) == 0;
		power_run_life(p);
		if (!p->cut || p->verdict != POWER_SOUND)
			return;
		power_boot(p);
	}
}
