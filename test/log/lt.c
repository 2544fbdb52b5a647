/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A log, its targets, and the steps of a run; see lt.h. */

#include "lt.h"

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
	static const char *const names[LT_VERDICTS] = {
	        "sound",          "no log",          "durable and lost",
	        "another record", "ended by itself", "granted too soon"};

	return names[v];
}

struct weft_log_info
lt_info(struct lt *l)
{
	struct weft_log_info info;

	weft_log_query(l->log, &info);
	return info;
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
	/* Overwrite the data, so that a later use of the released buffer is detected. */
	memset(b->data, 0xee, b->l->rec[b->seq].len_bytes);
	b->l->bufs--;
	free(b);
}

void
lt_remember(struct lt *l, uint64_t seq, struct lt_record r)
{
	CHECK(seq < LT_RECORDS);
	free(l->rec[seq].data);
	l->rec[seq] = r;
	/* What was compared with the record before is to be compared again. */
	for (unsigned int i = 0; i < l->media; i++)
		if (seq < l->target[i].same_end)
			l->target[i].same_end = 0;
}

/** Record numbers below seq that lt_append() did not assign are openings. */
static void
lt_sync_to(struct lt *l, uint64_t seq)
{
	CHECK(seq >= l->appended);
	while (l->appended < seq)
		lt_remember(l, l->appended++, (struct lt_record){.opening = true});
}

void
lt_sync(struct lt *l)
{
	struct weft_log_info info;

	if (l->log == NULL || !l->recovered)
		return;
	info = lt_info(l);
	if (info.end.seq > l->appended)
		lt_sync_to(l, info.end.seq);
	if (l->in_flight == 0)
		l->durable = RTE_MAX(l->durable, info.durable.seq);
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
	lt_sync_to(l, at.seq);
	b->seq = at.seq;
	lt_remember(l, at.seq, (struct lt_record){.len_bytes = len, .at = at, .data = copy});
	l->appended = at.seq + 1;
	l->in_flight++;
	l->bufs++;
	return 0;
}

/** Whether the position of this record is known: it is no opening. */
static bool
lt_has_place(const struct lt *l, uint64_t seq)
{
	return seq >= 1 && seq < l->appended && !l->rec[seq].opening &&
	       l->rec[seq].at.position != 0;
}

/**
 * The end of the record in front of this one, which may be in front of a filler. Position 0: it is
 * unknown. No filler is in front of an opening.
 */
static struct weft_log_at
lt_end_before(const struct lt *l, uint64_t seq)
{
	uint64_t openings = 0, position = log_first(l->a.ring_bytes);

	while (seq > openings + 1 && l->rec[seq - openings - 1].opening)
		openings++;
	if (seq > openings + 1) {
		const struct lt_record *r = &l->rec[seq - openings - 1];

		if (!lt_has_place(l, seq - openings - 1))
			return (struct weft_log_at){seq, 0};
		position =
		        log_norm(l->a.ring_bytes, r->at.position + log_record_bytes(r->len_bytes));
	}
	for (; openings > 0; openings--)
		position = log_norm(l->a.ring_bytes, position + WEFT_LOG_HEADER_BYTES);
	return (struct weft_log_at){seq, position};
}

void
lt_trim_wrong(struct lt *l, uint64_t seq, int64_t off)
{
	struct weft_log_info before = lt_info(l);
	struct weft_log_at at, end;
	int rc;

	if (!lt_has_place(l, seq) || seq <= before.head.seq || seq > before.durable.seq)
		return;
	at = l->rec[seq].at;
	at.position = (uint64_t)((int64_t)at.position + off);
	end = lt_end_before(l, seq);
	if (end.position == 0 || end.position == at.position)
		return;
	rc = weft_log_trim(l->log, &at);
	CHECK_MSG((rc == -EINVAL || (rc == 0 && seq < before.durable.seq)) &&
	                  lt_info(l).head.seq == before.head.seq,
	          "seed %" PRIu64 ": a trim of %" PRIu64 " to %" PRIu64 ", which is at %" PRIu64
	          ": %d, the head is %" PRIu64,
	          l->a.seed, seq, at.position, l->rec[seq].at.position, rc, lt_info(l).head.seq);
	l->trims_refused += rc != 0;
	l->trims_looked_up += rc == 0;
}

/** Try a wrong position for the durable end, or for an older record. */
static void
lt_trim_wrong_any(struct lt *l)
{
	static const int offs[] = {8, -8, 64, -64, 4096, -4096};
	struct weft_log_info info = lt_info(l);
	uint64_t seq = info.durable.seq;

	if (seq > info.head.seq && lt_draw(l, 2) == 0)
		seq -= lt_draw(l, seq - info.head.seq);
	lt_trim_wrong(l, seq, offs[lt_draw(l, RTE_DIM(offs))]);
}

/** The place of a record that is durable or next: as the append told it, or the end of the record
 * in front. */
static struct weft_log_at
lt_any_place(struct lt *l, uint64_t seq, struct weft_log_at at)
{
	unsigned int how = (unsigned int)lt_draw(l, 3);

	if (lt_draw(l, 4) == 0)
		lt_trim_wrong_any(l);
	if (how == 0 && lt_has_place(l, seq)) {
		l->trims_ahead += seq == l->durable && l->rec[seq].at.position != at.position;
		return l->rec[seq].at;
	}
	if (how == 1 && lt_has_place(l, seq) && lt_end_before(l, seq).position != 0) {
		l->trims_before += lt_end_before(l, seq).position != l->rec[seq].at.position;
		return lt_end_before(l, seq);
	}
	return at;
}

/** Trim to a random durable record. */
static void
lt_trim(struct lt *l)
{
	struct weft_log_info info = lt_info(l);
	uint64_t seq = l->trim_seq + lt_draw(l, l->durable - l->trim_seq + 1);
	struct weft_log_at at;

	if (l->a.no_trim)
		return;
	at = seq == l->durable ? info.durable : l->rec[seq].at;
	if (l->a.any_trim && at.seq == seq)
		at = lt_any_place(l, seq, at);
	/* The durable end may be after the record of a seat. */
	seq = at.seq;
	l->durable = RTE_MAX(l->durable, seq);
	if (seq > l->trim_seq) {
		l->trim_seq = seq;
		CHECK_EQ(weft_log_trim(l->log, &at), 0);
	}
}

/**
 * Trim to the record behind the durable end, if it is in flight behind a filler. The run ends here:
 * what the next writer finds depends on who has that record.
 */
static void
lt_trim_ahead(struct lt *l)
{
	struct weft_log_info info = lt_info(l);
	uint64_t seq = info.durable.seq;

	if (!l->a.any_trim || l->a.no_trim || !lt_has_place(l, seq) || seq <= l->trim_seq ||
	    seq < l->durable || l->rec[seq].at.position == info.durable.position ||
	    lt_draw(l, 2) != 0)
		return;
	l->trim_seq = seq;
	/* The durable end may be after the record of a seat. */
	l->durable = RTE_MAX(l->durable, seq);
	CHECK_EQ(weft_log_trim(l->log, &l->rec[seq].at), 0);
	l->trims_ahead++;
	l->ahead = l->cut = true;
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
		lt_trim_ahead(l);
		if (l->cut)
			return;
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
		((struct lt_target *)ev->target_user)->lost = ev->status;
		l->lost_status = ev->status;
		break;
	case WEFT_LOG_EV_DAMAGED:
		l->damaged |= 1U << ((struct lt_target *)ev->target_user)->i;
		l->damage = ev->damage;
		l->damage_pos = ev->position;
		l->damage_epoch = ev->epoch;
		break;
	case WEFT_LOG_EV_FAILED:
		l->failed = true;
		l->fail_status = ev->status;
		for (unsigned int i = 0; i < l->media; i++)
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

	lt_sync(l);
	lt_judge(l);
	if (l->pump && l->open && !l->failed)
		lt_pump(l);
	for (unsigned int i = 0; i < l->media; i++)
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

	for (unsigned int i = 0; i < l->media; i++)
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
lt_host(struct lt *l, unsigned int i)
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

	CHECK_EQ(weft_log_host_create(l->t.n[1].pd, &a, &g->host), 0);
}

static void
lt_granted(void *arg, const struct weft_log_grant *grant, int status)
{
	struct lt_target *g = arg;
	struct lt *l = g->lt;

	CHECK_EQ(status, 0);
	g->stag = grant->stag;
	if (weft_persist_sim_next_ns(g->persist) != UINT64_MAX && l->verdict == LT_SOUND)
		l->verdict = LT_UNFENCED;
}

/** Give a new grant (the steps `fence.end` and `fence.give`). */
static void
lt_grant(struct lt *l, unsigned int i)
{
	struct lt_target *g = &l->target[i];

	if (l->a.same_grant && g->stag != 0)
		return;
	if (l->a.no_fence) {
		weft_log_host_destroy(g->host, NULL, NULL);
		lt_host(l, i);
	}
	g->stag = 0;
	CHECK_EQ(weft_log_host_grant(g->host, true, lt_granted, g), 0);
	/* vt_run() polls also a worker without events, which may have to free the old region. */
	for (unsigned int turns = 0; g->stag == 0; turns++) {
		CHECK_MSG(turns < 100000, "seed %" PRIu64 ": no grant", l->a.seed);
		vt_run(&l->t, VT_MS / 10);
	}
}

static struct weft_log_super
lt_super(const struct lt *l, unsigned int i)
{
	struct weft_log_super s = {.size = sizeof(s),
	                           .log_id = {7, 1, (uint8_t)l->a.seed},
	                           .target_id = {9, (uint8_t)(i + 1), l->target[i].wipes},
	                           .version = l->a.version,
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
	g->wiped = i >= l->a.targets;
	CHECK_EQ(weft_persist_open(&pa, &g->persist), 0);
	g->seen = calloc(1, l->region_bytes);
	CHECK(g->seen != NULL);
	if (!l->a.remote_format) {
		CHECK_EQ(weft_log_format(g->persist->base, l->region_bytes, &s), 0);
		weft_persist_mark(g->persist, 0, WEFT_LOG_RING_OFF);
		CHECK_EQ(weft_persist_flush_wait(g->persist, 0, WEFT_LOG_RING_OFF), 0);
	}
	cfg.seed += i * 77;
	weft_persist_sim_set(g->persist, &cfg);
	lt_host(l, i);
}

void
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
	if (l->a.version == 0 && getenv("WEFT_LOG_VERSION") != NULL)
		l->a.version = (uint32_t)strtoul(getenv("WEFT_LOG_VERSION"), NULL, 10);
	if (l->a.ring_bytes == 0)
		l->a.ring_bytes = 16384;
	l->region_bytes = WEFT_LOG_RING_OFF + l->a.ring_bytes;
	l->media = l->a.targets + l->a.spares;
	CHECK(l->media <= LT_TARGETS);
	l->rng = (a->seed + 1) * 0x9e3779b97f4a7c15ULL | 1;
	for (unsigned int i = 0; i < 4; i++)
		(void)lt_draw(l, 1);
	l->depth = a->depth ? a->depth : 1 + (unsigned int)lt_draw(l, 24);
	l->max_len = a->max_len ? a->max_len : lens[lt_draw(l, RTE_DIM(lens))];
	l->max_len = RTE_MIN(l->max_len, log_max_record(l->a.ring_bytes));
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
	rdmap_sabotage(inside_sched(l->t.n[1].w), a->stack);
	for (unsigned int i = 0; i < l->media; i++)
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
	l->pump = l->recovered = false;
	l->a.no_judge = true;
	if (l->log != NULL)
		weft_log_destroy(l->log);
	for (unsigned int i = 0; i < l->media; i++) {
		if (l->target[i].server != NULL)
			weft_qp_destroy(l->target[i].server);
		weft_log_host_destroy(l->target[i].host, NULL, NULL);
	}
	weft_mr_dereg(l->sink_mr, NULL, NULL);
	CHECK_EQ(l->bufs, 0);
	vt_close(&l->t);
	for (unsigned int i = 0; i < l->media; i++) {
		weft_persist_close(l->target[i].persist);
		free(l->target[i].seen);
	}
	for (unsigned int i = 0; i < LT_RECORDS; i++)
		free(l->rec[i].data);
	free(l->sink);
}

/* ---- The log and its targets ---- */

void
lt_log(struct lt *l)
{
	struct weft_log_attr a = {.max_appends = l->a.window != 0 ? l->a.window : 32};

	if (l->a.la != NULL)
		a = *l->a.la;
	a.size = sizeof(a);
	a.ctx = l->t.n[0].ctx;
	a.pd = l->t.n[0].pd;
	a.worker = l->t.n[0].w;
	a.targets = l->a.targets;
	a.quorum = l->a.quorum;
	a.copy_bytes = WEFT_LOG_RING_OFF;
	a.max_transactions = a.max_transactions ? a.max_transactions : 1 + (uint32_t)lt_draw(l, 8);
	a.verify_hash = l->a.verify ? "crc32c" : NULL;
	a.on_event = lt_event;
	a.user = l;
	l->open = l->failed = l->recovered = false;
	l->in_flight = 0;
	l->told = 0;
	CHECK_EQ(weft_log_create(&a, &l->log), 0);
	log_sabotage(l->log, l->a.log);
}

struct lt_wait_ev {
	struct vt_node *n;
	enum weft_event_type type;
	struct weft_event ev;
};

/** Take events until one of the awaited type. Others, of connections that ended, are ignored. */
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
	/* If a reset is lost, a writer that only waits for answers does not notice the end of the
	 * connection. A keep-alive detects it. */
	struct weft_conn_attr ca = {
	        .size = sizeof(ca), .timeout_us = 100000000, .keepalive_us = 5000000};
	struct weft_qp_attr qa, qs = vt_qp_attr(&n[1]);
	struct sockaddr_in sa = vt_addr(1, VT_PORT);
	struct lt_target *g = &l->target[i];
	struct weft_event ev;

	if (g->server != NULL)
		weft_qp_destroy(g->server);
	g->server = NULL;
	lt_grant(l, i);
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
	                             .to = 0x1000000ULL * (i + 1),
	                             .len_bytes = l->region_bytes,
	                             .user = g,
	                             .format = l->a.remote_format ? &s : NULL};
	int rc;

	lt_connect(l, i);
	g->lost = 0;
	ta.qp = g->client;
	ta.stag = g->stag;
	rc = weft_log_join(l->log, &ta);
	if (rc >= 0) {
		g->joined = rc;
		g->join_head_seq = 0;
		return 0;
	}
	weft_qp_destroy(g->client);
	g->client = NULL;
	return rc;
}
