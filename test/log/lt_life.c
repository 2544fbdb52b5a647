/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Recoveries, runs and crashes; see lt.h. */

#include "lt.h"

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
			/* Sequence numbers between two records must be openings. */
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
		/* The log may have appended the record of a seat meanwhile. */
		end = lt_info(l).durable;
	}
	end = lt_info(l).durable;
	if (l->read_fault == NULL && weft_log_read(l->log, &end, &sg, lt_on_read, l) != -ENODATA)
		return "more behind the end";
	return l->read_fault;
}

/* ---- Recovery ---- */

void
lt_recover(struct lt *l, unsigned int which)
{
	lt_recover_trim(l, which, NULL);
}

void
lt_recover_trim(struct lt *l, unsigned int which, const struct weft_log_at *keep)
{
	uint64_t had = l->appended;
	int rc;

	if (l->log == NULL)
		lt_log(l);
	for (unsigned int i = 0; i < l->media; i++)
		if ((which & 1U << i) != 0)
			CHECK_EQ(lt_join(l, i), 0);
	CHECK(lt_until(l, lt_looked));
	rc = weft_log_open_trim(l->log, keep);
	if (rc == 0)
		CHECK_MSG(lt_until(l, lt_opened), "seed %" PRIu64 ": not opened", l->a.seed);
	l->fail_status = rc != 0 ? rc : l->fail_status;
	if (rc != 0 || l->failed || l->verdict != LT_SOUND) {
		if (l->verdict == LT_SOUND)
			l->verdict = LT_FAILED;
		return;
	}
	lt_trimmed(l);
	/* The log must be a prefix of the appended records, with every durable one, and the
	 * opening. */
	if (l->end.seq - 1 < l->durable || l->end.seq - 1 > had || l->head.seq > l->trim_max) {
		l->verdict = LT_LOST;
		return;
	}
	lt_remember(l, l->end.seq - 1, (struct lt_record){.opening = true});
	l->appended = l->durable = l->end.seq;
	l->recovered = true;
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
	l->cut = l->ahead = false;
	l->steps = 0;
	l->pump = true;
	CHECK_MSG(lt_until(l, lt_over), "seed %" PRIu64 ": stuck at %" PRIu64, l->a.seed, l->done);
	l->pump = false;
	if (l->failed && l->verdict == LT_SOUND)
		l->verdict = LT_FAILED;
}

/* ---- Crashes ---- */

void
lt_revoke_one(struct lt *l, unsigned int i)
{
	struct lt_target *g = &l->target[i];

	if (g->server != NULL)
		weft_qp_destroy(g->server);
	g->server = NULL;
	if (g->stag != 0)
		CHECK_EQ(weft_log_host_end(g->host, g->stag), 0);
	g->stag = 0;
}

void
lt_revoke(struct lt *l)
{
	for (unsigned int i = 0; i < l->media; i++) {
		l->target[i].client = NULL;
		l->target[i].joined = -1;
		lt_revoke_one(l, i);
	}
}

void
lt_kill_writer(struct lt *l)
{
	lt_sync(l);
	l->recovered = false;
	/* No further packet leaves. Packets in flight arrive or are lost. */
	lt_link(l, true);
	weft_log_destroy(l->log);
	l->log = NULL;
	l->open = false;
	lt_revoke(l);
	vt_run(&l->t, VT_MS);
	lt_link(l, false);
}

void
lt_poke(struct lt *l, unsigned int i, uint64_t off, const void *octets, uint32_t len)
{
	struct weft_persist *p = l->target[i].persist;
	struct weft_persist_sim_cfg cfg = {.seed = 1};

	memmove(p->base + off, octets, len);
	weft_persist_mark(p, off, len);
	weft_persist_sim_set(p, &cfg);
	CHECK_EQ(weft_persist_flush_wait(p, off, len), 0);
	weft_persist_sim_set(p, &l->cfg);
}

void
lt_wipe_target(struct lt *l, unsigned int i)
{
	struct lt_target *g = &l->target[i];
	struct weft_persist_sim_cfg cfg = {.seed = 1};

	g->wiped = true;
	g->wipes++;
	memset(g->persist->base, 0, l->region_bytes);
	weft_persist_mark(g->persist, 0, l->region_bytes);
	weft_persist_sim_set(g->persist, &cfg);
	CHECK_EQ(weft_persist_flush_wait(g->persist, 0, l->region_bytes), 0);
	weft_persist_sim_set(g->persist, &l->cfg);
}

void
lt_cut_target(struct lt *l, unsigned int i)
{
	struct lt_target *g = &l->target[i];

	weft_persist_sim_cut(g->persist);
	g->off = true;
	if (g->server != NULL)
		weft_qp_destroy(g->server);
	g->server = NULL;
	if (g->stag != 0)
		CHECK_EQ(weft_log_host_end(g->host, g->stag), 0);
	g->stag = 0;
}

void
lt_boot_target(struct lt *l, unsigned int i)
{
	struct lt_target *g = &l->target[i];

	vt_run(&l->t, VT_MS);
	weft_persist_sim_boot(g->persist);
	g->off = false;
}
