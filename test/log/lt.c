/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A log, its targets, and a judge; see lt.h. */

#include "lt.h"

#define LT_SINK_BYTES 16384

uint64_t
lt_draw(struct lt *l, uint64_t n)
{
	l->rng ^= l->rng >> 12;
	l->rng ^= l->rng << 25;
	l->rng ^= l->rng >> 27;
	return (l->rng * 0x2545f4914f6cdd1dULL >> 20) % n;
}

const char *
lt_verdict_str(enum lt_verdict v)
{
	static const char *const names[LT_VERDICTS] = {"sound", "no log", "durable and lost",
	                                               "another record", "ended by itself"};

	return names[v];
}

struct weft_log_info
lt_info(struct lt *l)
{
	struct weft_log_info info;

	weft_log_query(l->log, &info);
	return info;
}

/* ---- The judge ---- */

static bool
lt_same(const struct lt *l, uint64_t seq, const void *data, uint32_t len)
{
	const struct lt_record *r = &l->rec[seq];

	return seq < l->appended && !r->opening && r->len_bytes == len &&
	       (len == 0 || memcmp(r->data, data, len) == 0);
}

/** What recovery from this image would give. */
static enum lt_verdict
lt_judge_image(struct lt *l, const struct weft_log_image *img)
{
	struct weft_log_at at = img->head;
	struct weft_log_record rec;
	uint64_t seq = img->head.seq;
	int rc;

	if (img->end.seq < l->durable || img->head.seq > RTE_MAX(l->trim_seq, 1UL))
		return LT_LOST;
	while ((rc = weft_log_image_next(img, &at, &rec)) == 1) {
		for (; seq < rec.at.seq; seq++)
			if (!l->rec[seq].opening)
				return LT_WRONG;
		if (!lt_same(l, seq++, rec.data, rec.len_bytes))
			return LT_WRONG;
	}
	if (rc < 0)
		return LT_DAMAGED;
	/* An opening that was not told yet stands where a record was that nobody was told of. */
	for (; seq < img->end.seq; seq++)
		if (!l->rec[seq].opening && (seq + 1 < img->end.seq || img->last_epoch <= l->epoch))
			return LT_WRONG;
	return LT_SOUND;
}

void
lt_judge(struct lt *l)
{
	struct weft_log_image img[LT_TARGETS];
	unsigned int n = l->a.targets, need = RTE_MAX(l->a.quorum, n - l->a.quorum + 1);
	int rc[LT_TARGETS];

	if (l->a.no_judge || l->verdict != LT_SOUND)
		return;
	l->judged++;
	for (unsigned int i = 0; i < n; i++)
		rc[i] = weft_log_image_open(weft_persist_sim_medium(l->target[i].persist),
		                            l->region_bytes, &img[i]);
	for (unsigned int set = 1; set < 1U << n; set++) {
		int best = -1;
		bool bad = false;

		if (__builtin_popcount(set) != (int)need)
			continue;
		for (unsigned int i = 0; i < n; i++) {
			if ((set & 1U << i) == 0 || rc[i] == -ENODATA)
				continue;
			bad |= rc[i] != 0;
			if (rc[i] == 0 && (best < 0 || img[i].last_epoch > img[best].last_epoch ||
			                   (img[i].last_epoch == img[best].last_epoch &&
			                    img[i].end.seq > img[best].end.seq)))
				best = (int)i;
		}
		if (bad || (best < 0 && l->durable > 1))
			l->verdict = LT_DAMAGED;
		else if (best >= 0)
			l->verdict = lt_judge_image(l, &img[best]);
		if (l->verdict != LT_SOUND)
			return;
	}
}

/* ---- Appends ---- */

struct lt_buf {
	struct lt *l;
	uint64_t seq;
	bool told;
	uint8_t data[];
};

static void
lt_durable(void *arg, const struct weft_log_at *at, int status)
{
	struct lt_buf *b = arg;
	struct lt *l = b->l;

	CHECK_EQ(at->seq, b->seq);
	CHECK(!b->told);
	b->told = true;
	CHECK_MSG(at->seq > l->told, "told in order");
	l->told = at->seq;
	l->in_flight--;
	if (status != 0)
		return;
	l->durable = at->seq + 1;
	l->done++;
}

static void
lt_released(void *arg, const struct weft_log_at *at)
{
	struct lt_buf *b = arg;

	CHECK(b->told && at->seq == b->seq);
	/* Whoever still looks at it sees something else. */
	memset(b->data, 0xee, b->l->rec[b->seq].len_bytes);
	b->l->bufs--;
	free(b);
}

static void
lt_remember(struct lt *l, uint64_t seq, struct lt_record r)
{
	CHECK(seq < LT_RECORDS);
	free(l->rec[seq].data);
	l->rec[seq] = r;
}

int
lt_append(struct lt *l, uint32_t len)
{
	struct lt_buf *b = malloc(sizeof(*b) + len);
	struct weft_sge sg[3];
	struct weft_log_append a = {.sg_list = sg,
	                            .num_sge = 1 + (uint32_t)lt_draw(l, 3),
	                            .durable = lt_durable,
	                            .released = lt_released,
	                            .arg = b};
	uint32_t done = 0;
	struct weft_log_at at;
	uint8_t *copy;
	int rc;

	CHECK(b != NULL);
	*b = (struct lt_buf){.l = l};
	copy = malloc(len + 1);
	CHECK(copy != NULL);
	vt_fill(b->data, len, ++l->next_content);
	memcpy(copy, b->data, len);
	for (uint32_t i = 0; i < a.num_sge; i++) {
		uint32_t part =
		        i + 1 == a.num_sge ? len - done : (uint32_t)lt_draw(l, len - done + 1);

		sg[i] = (struct weft_sge){.addr = b->data + done, .len_bytes = part};
		done += part;
	}
	rc = weft_log_append(l->log, &a, &at);
	if (rc != 0) {
		free(b);
		free(copy);
		return rc;
	}
	CHECK_EQ(at.seq, l->appended);
	b->seq = at.seq;
	lt_remember(l, at.seq, (struct lt_record){.len_bytes = len, .at = at, .data = copy});
	l->appended = at.seq + 1;
	l->in_flight++;
	l->bufs++;
	return 0;
}

/** Trim to some record that is durable. */
static void
lt_trim(struct lt *l)
{
	struct weft_log_info info = lt_info(l);
	uint64_t seq = l->trim_seq + lt_draw(l, l->durable - l->trim_seq + 1);
	struct weft_log_at at;

	if (l->a.no_trim)
		return;
	at = seq == l->durable ? info.durable : l->rec[seq].at;
	if (seq > l->trim_seq) {
		l->trim_seq = seq;
		CHECK_EQ(weft_log_trim(l->log, &at), 0);
	}
}

static void
lt_pump(struct lt *l)
{
	while (l->in_flight < l->depth && l->done + l->in_flight < l->a.appends) {
		int rc = lt_append(l, (uint32_t)lt_draw(l, l->max_len + 1));

		if (rc == -ENOSPC)
			lt_trim(l);
		if (rc != 0) {
			CHECK(rc == -ENOSPC || rc == -EAGAIN || rc == -EPIPE);
			return;
		}
		if (lt_draw(l, 8) == 0)
			lt_trim(l);
	}
}

/* ---- Events ---- */

static void
lt_event(void *user, const struct weft_log_event *ev)
{
	struct lt *l = user;

	l->events[ev->type]++;
	switch (ev->type) {
	case WEFT_LOG_EV_OPEN:
		l->open = true;
		l->head = ev->head;
		l->end = ev->end;
		CHECK(ev->epoch > l->epoch);
		break;
	case WEFT_LOG_EV_LOST:
		((struct lt_target *)ev->target_user)->client = NULL;
		((struct lt_target *)ev->target_user)->joined = -1;
		l->lost_status = ev->status;
		break;
	case WEFT_LOG_EV_FAILED:
		l->failed = true;
		l->fail_status = ev->status;
		for (unsigned int i = 0; i < l->a.targets; i++)
			l->target[i].client = NULL;
		break;
	default:
		break;
	}
}

/* ---- The steps ---- */

static void
lt_poll(void *arg, uint64_t now_ns)
{
	struct lt *l = arg;

	lt_judge(l);
	if (l->pump && l->open && !l->failed)
		lt_pump(l);
	for (unsigned int i = 0; i < l->a.targets; i++)
		weft_persist_sim_step(l->target[i].persist, now_ns);
	lt_judge(l);
	if (l->pump && ++l->steps == l->cut_at)
		l->cut = true;
}

static uint64_t
lt_next(void *arg)
{
	struct lt *l = arg;
	uint64_t next = UINT64_MAX;

	for (unsigned int i = 0; i < l->a.targets; i++)
		next = RTE_MIN(next, weft_persist_sim_next_ns(l->target[i].persist));
	return next;
}

struct lt_wait {
	struct lt *l;
	bool (*cond)(void *arg);
};

static bool
lt_cond(void *arg)
{
	struct lt_wait *w = arg;

	return w->l->verdict != LT_SOUND || w->cond(w->l);
}

bool
lt_until(struct lt *l, bool (*cond)(void *arg))
{
	struct lt_wait w = {.l = l, .cond = cond};

	return vt_until(&l->t, 600 * VT_S, lt_cond, &w);
}

/* ---- Open and close ---- */

static void
lt_register(struct lt *l, unsigned int i)
{
	struct lt_target *g = &l->target[i];
	struct weft_mr_attr a = {
	        .size = sizeof(a),
	        .addr = g->persist->base,
	        .len_bytes = l->region_bytes,
	        .base_to = 0x1000000ULL * (i + 1),
	        .access = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ |
	                  WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_FLUSH_PERSISTENT |
	                  WEFT_ACCESS_FLUSH_VISIBLE | WEFT_ACCESS_VERIFY,
	        .persist = g->persist,
	        .hash = "crc32c",
	};

	CHECK_EQ(weft_mr_reg(l->t.n[1].pd, &a, &g->mr), 0);
}

static struct weft_log_super
lt_super(const struct lt *l, unsigned int i)
{
	struct weft_log_super s = {.size = sizeof(s),
	                           .log_id = {7, 1, (uint8_t)l->a.seed},
	                           .target_id = {9, (uint8_t)(i + 1)},
	                           .targets = l->a.targets,
	                           .quorum = l->a.quorum};

	return s;
}

static void
lt_medium(struct lt *l, unsigned int i)
{
	struct lt_target *g = &l->target[i];
	struct weft_persist_attr pa = {
	        .size = sizeof(pa), .driver = "sim", .bytes = l->region_bytes, .numa_node = -1};
	struct weft_log_super s = lt_super(l, i);
	struct weft_persist_sim_cfg cfg = l->cfg;

	g->lt = l;
	g->i = i;
	g->joined = -1;
	CHECK_EQ(weft_persist_open(&pa, &g->persist), 0);
	if (!l->a.remote_format) {
		CHECK_EQ(weft_log_format(g->persist->base, l->region_bytes, &s), 0);
		weft_persist_mark(g->persist, 0, WEFT_LOG_RING_OFF);
		CHECK_EQ(weft_persist_flush_wait(g->persist, 0, WEFT_LOG_RING_OFF), 0);
	}
	cfg.seed += i * 77;
	weft_persist_sim_set(g->persist, &cfg);
	lt_register(l, i);
}

static void
lt_link(struct lt *l, bool down)
{
	struct sim_link_cfg cfg = {.delay_ns = 20000};

	if (l->a.link != NULL)
		cfg = *l->a.link;
	else if (!l->a.quick && l->a.seed % 4 == 0)
		cfg.loss_ppm = 20000;
	cfg.down = down;
	for (unsigned int i = 0; i < 2; i++)
		sim_link_set(l->t.link, i, &cfg);
}

void
lt_open(struct lt *l, const struct lt_attr *a)
{
	static const uint32_t leaks[] = {0, 2000, 100000}, lens[] = {40, 300, 2000};
	struct weft_mr_attr ma = {
	        .size = sizeof(ma), .len_bytes = LT_SINK_BYTES, .access = WEFT_ACCESS_LOCAL_WRITE};
	struct vt_attr va = {.seed = a->seed};
	struct sim_node sn = {.poll = lt_poll, .next = lt_next, .arg = l};

	memset(l, 0, sizeof(*l));
	l->a = *a;
	if (l->a.targets == 0)
		l->a.targets = 1;
	if (l->a.quorum == 0)
		l->a.quorum = l->a.targets / 2 + 1;
	if (l->a.ring_bytes == 0)
		l->a.ring_bytes = 16384;
	l->region_bytes = WEFT_LOG_RING_OFF + l->a.ring_bytes;
	l->rng = (a->seed + 1) * 0x9e3779b97f4a7c15ULL | 1;
	for (unsigned int i = 0; i < 4; i++)
		(void)lt_draw(l, 1);
	l->depth = a->depth ? a->depth : 1 + (unsigned int)lt_draw(l, 24);
	l->max_len = a->max_len ? a->max_len : lens[lt_draw(l, RTE_DIM(lens))];
	l->next_content = a->seed << 20;
	l->appended = l->durable = l->trim_seq = 1;
	l->cut_at = UINT64_MAX;
	l->cfg = (struct weft_persist_sim_cfg){.seed = a->seed, .leak_ppm = leaks[lt_draw(l, 3)]};
	if (!a->quick && lt_draw(l, 4) != 0) {
		l->cfg.delay_min_ns = 100 * lt_draw(l, 100);
		l->cfg.delay_max_ns = l->cfg.delay_min_ns + 1000 * lt_draw(l, 200);
		l->cfg.busy_ppm = lt_draw(l, 3) == 0 ? 200000 : 0;
	}
	vt_open(&l->t, &va);
	weft_engine_sabotage(l->t.n[1].ctx, a->stack);
	for (unsigned int i = 0; i < l->a.targets; i++)
		lt_medium(l, i);
	l->sink = aligned_alloc(4096, LT_SINK_BYTES);
	ma.addr = l->sink;
	CHECK_EQ(weft_mr_reg(l->t.n[0].pd, &ma, &l->sink_mr), 0);
	lt_link(l, false);
	vt_listen(&l->t.n[1]);
	sim_add_node(l->t.sim, &sn);
}

void
lt_close(struct lt *l)
{
	l->pump = false;
	l->a.no_judge = true;
	if (l->log != NULL)
		weft_log_destroy(l->log);
	for (unsigned int i = 0; i < l->a.targets; i++) {
		if (l->target[i].server != NULL)
			weft_qp_destroy(l->target[i].server);
		weft_mr_dereg(l->target[i].mr, NULL, NULL);
	}
	weft_mr_dereg(l->sink_mr, NULL, NULL);
	CHECK_EQ(l->bufs, 0);
	vt_close(&l->t);
	for (unsigned int i = 0; i < l->a.targets; i++)
		weft_persist_close(l->target[i].persist);
	for (unsigned int i = 0; i < LT_RECORDS; i++)
		free(l->rec[i].data);
	free(l->sink);
}

/* ---- The log and its targets ---- */

void
lt_log(struct lt *l)
{
	struct weft_log_attr a = {.max_appends = 32};

	if (l->a.la != NULL)
		a = *l->a.la;
	a.size = sizeof(a);
	a.ctx = l->t.n[0].ctx;
	a.pd = l->t.n[0].pd;
	a.worker = l->t.n[0].w;
	a.targets = l->a.targets;
	a.quorum = l->a.quorum;
	a.copy_bytes = WEFT_LOG_RING_OFF;
	a.max_units = a.max_units ? a.max_units : 1 + (uint32_t)lt_draw(l, 8);
	a.verify_hash = l->a.verify ? "crc32c" : NULL;
	a.on_event = lt_event;
	a.user = l;
	l->open = l->failed = false;
	l->in_flight = 0;
	l->told = 0;
	CHECK_EQ(weft_log_create(&a, &l->log), 0);
	weft_log_sabotage(l->log, l->a.log);
}

struct lt_wait_ev {
	struct vt_node *n;
	enum weft_event_type type;
	struct weft_event ev;
};

/** What others tell meanwhile of connections that ended is known. */
static bool
lt_have_ev(void *arg)
{
	struct lt_wait_ev *w = arg;

	while (weft_evq_poll(w->n->evq, &w->ev) == 1)
		if (w->ev.type == w->type)
			return true;
	return false;
}

static struct weft_event
lt_ev(struct lt *l, unsigned int node, enum weft_event_type type)
{
	struct lt_wait_ev w = {.n = &l->t.n[node], .type = type};

	CHECK_MSG(vt_until(&l->t, 120 * VT_S, lt_have_ev, &w), "seed %" PRIu64 ": no %s", l->a.seed,
	          weft_event_str(type));
	return w.ev;
}

static void
lt_connect(struct lt *l, unsigned int i)
{
	struct vt_node *n = l->t.n;
	struct weft_conn_attr ca = {.size = sizeof(ca), .timeout_us = 100000000};
	struct weft_qp_attr qa, qs = vt_qp_attr(&n[1]);
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	struct lt_target *g = &l->target[i];
	struct weft_event ev;

	if (g->server != NULL)
		weft_qp_destroy(g->server);
	weft_log_qp_attr(l->log, &qa);
	qa.evq = n[0].evq;
	qa.user = g;
	qs.ird = 1 + (uint16_t)lt_draw(l, 32);
	CHECK_EQ(weft_qp_create(n[0].pd, &qa, &g->client), 0);
	CHECK_EQ(weft_qp_create(n[1].pd, &qs, &g->server), 0);
	CHECK_EQ(weft_connect(g->client, (struct sockaddr *)&sa, sizeof(sa), &ca), 0);
	ev = lt_ev(l, 1, WEFT_EV_CONNECT_REQUEST);
	CHECK_EQ(weft_accept(ev.connreq, g->server, &ca), 0);
	lt_ev(l, 0, WEFT_EV_ESTABLISHED);
}

int
lt_join(struct lt *l, unsigned int i)
{
	struct lt_target *g = &l->target[i];
	struct weft_log_super s = lt_super(l, i);
	struct weft_log_target ta = {.size = sizeof(ta),
	                             .stag = weft_mr_stag(g->mr),
	                             .to = 0x1000000ULL * (i + 1),
	                             .len_bytes = l->region_bytes,
	                             .user = g,
	                             .format = l->a.remote_format ? &s : NULL};
	int rc;

	lt_connect(l, i);
	ta.qp = g->client;
	rc = weft_log_join(l->log, &ta);
	if (rc >= 0) {
		g->joined = rc;
		return 0;
	}
	weft_qp_destroy(g->client);
	g->client = NULL;
	return rc;
}

static bool
lt_looked(void *arg)
{
	struct lt *l = arg;
	struct weft_log_info info = lt_info(l);

	for (unsigned int i = 0; i < l->a.targets; i++)
		if (info.target[i].state == WEFT_LOG_TARGET_LOOKING)
			return false;
	return true;
}

static bool
lt_opened(void *arg)
{
	struct lt *l = arg;

	return l->open || l->failed;
}

/* ---- Reading ---- */

static void
lt_on_read(void *arg, struct weft_log_chunk *chunk)
{
	struct lt *l = arg;
	struct weft_log_record rec;

	l->read_done = true;
	if (chunk->status == 0)
		while (weft_log_chunk_next(chunk, &rec) == 1) {
			/* What is between two is an opening; which, the opener was told. */
			for (; l->read_seq < rec.at.seq; l->read_seq++)
				if (!l->rec[l->read_seq].opening)
					l->read_fault = "a record is missing";
			if (!lt_same(l, l->read_seq, rec.data, rec.len_bytes))
				l->read_fault = "another record";
			l->rec[l->read_seq++].at = rec.at;
		}
	l->chunk = *chunk;
}

static bool
lt_was_read(void *arg)
{
	return ((struct lt *)arg)->read_done;
}

const char *
lt_read_all(struct lt *l)
{
	struct weft_log_at at = l->head, end = lt_info(l).durable;
	struct weft_sge sg = {
	        .addr = l->sink, .len_bytes = LT_SINK_BYTES, .lkey = weft_mr_stag(l->sink_mr)};

	l->read_seq = l->head.seq;
	l->read_fault = NULL;
	while (at.position != end.position && l->read_fault == NULL) {
		l->read_done = false;
		CHECK_EQ(weft_log_read(l->log, &at, &sg, lt_on_read, l), 0);
		if (!lt_until(l, lt_was_read) || !l->read_done)
			return "no answer";
		if (l->chunk.status != 0)
			return strerror(-l->chunk.status);
		at = l->chunk.at;
	}
	if (l->read_fault == NULL && weft_log_read(l->log, &end, &sg, lt_on_read, l) != -ENODATA)
		return "more behind the end";
	return l->read_fault;
}

/* ---- Recovery ---- */

void
lt_recover(struct lt *l, unsigned int which)
{
	uint64_t had = l->appended;
	int rc;

	if (l->log == NULL)
		lt_log(l);
	for (unsigned int i = 0; i < l->a.targets; i++)
		if ((which & 1U << i) != 0)
			CHECK_EQ(lt_join(l, i), 0);
	CHECK(lt_until(l, lt_looked));
	rc = weft_log_open(l->log);
	if (rc == 0)
		CHECK_MSG(lt_until(l, lt_opened), "seed %" PRIu64 ": not opened", l->a.seed);
	l->fail_status = rc != 0 ? rc : l->fail_status;
	if (rc != 0 || l->failed || l->verdict != LT_SOUND) {
		if (l->verdict == LT_SOUND)
			l->verdict = LT_FAILED;
		return;
	}
	/* A prefix of what was appended, with all that was durable, and the opening. */
	if (l->end.seq - 1 < l->durable || l->end.seq - 1 > had ||
	    l->head.seq > RTE_MAX(l->trim_seq, 1UL)) {
		l->verdict = LT_LOST;
		return;
	}
	lt_remember(l, l->end.seq - 1, (struct lt_record){.opening = true});
	l->appended = l->durable = l->end.seq;
	l->trim_seq = l->head.seq;
	l->epoch = lt_info(l).epoch;
	if (lt_read_all(l) != NULL)
		l->verdict = LT_WRONG;
}

static bool
lt_over(void *arg)
{
	struct lt *l = arg;

	return l->cut || l->failed || l->done >= l->a.appends;
}

void
lt_run(struct lt *l)
{
	l->cut = false;
	l->steps = 0;
	l->pump = true;
	CHECK_MSG(lt_until(l, lt_over), "seed %" PRIu64 ": stuck at %" PRIu64, l->a.seed, l->done);
	l->pump = false;
	if (l->failed && l->verdict == LT_SOUND)
		l->verdict = LT_FAILED;
}

/* ---- Deaths ---- */

void
lt_kill_writer(struct lt *l)
{
	/* Not a word more leaves, what is under way arrives, or not. */
	lt_link(l, true);
	weft_log_destroy(l->log);
	l->log = NULL;
	l->open = false;
	for (unsigned int i = 0; i < l->a.targets; i++) {
		struct lt_target *g = &l->target[i];

		g->client = NULL;
		g->joined = -1;
		if (g->server != NULL)
			weft_qp_destroy(g->server);
		g->server = NULL;
		if (g->off)
			continue;
		/* The old grant ends before a new one is given. */
		weft_mr_dereg(g->mr, NULL, NULL);
		lt_register(l, i);
	}
	vt_run(&l->t, VT_MS);
	lt_link(l, false);
}

void
lt_cut_target(struct lt *l, unsigned int i)
{
	struct lt_target *g = &l->target[i];

	weft_persist_sim_cut(g->persist);
	g->off = true;
	weft_qp_destroy(g->server);
	g->server = NULL;
	weft_mr_dereg(g->mr, NULL, NULL);
	g->mr = NULL;
}

void
lt_boot_target(struct lt *l, unsigned int i)
{
	struct lt_target *g = &l->target[i];

	vt_run(&l->t, VT_MS);
	weft_persist_sim_boot(g->persist);
	g->off = false;
	lt_register(l, i);
}
