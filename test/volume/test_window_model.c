/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Random windows over a volume, and changes beside them, against a byte array.
 *
 * The model knows what the volume has (`is`) and what each window has in memory. A flush moves
 * marked pages from the one to the other when it is submitted. Octets that are placed while a flush
 * of their page is under way may be in the volume or not: such a page is `loose` until it is known
 * again, and is not compared. A window that is closed with flushes under way leaves their pages
 * loose as well.
 */

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "medium_test.h"
#include "window_rig.h"

#define DISK_BYTES (12U << 20)
#define VOL_BYTES  600001U /* no multiple of a page */
#define PAGES      147U
#define SLOT_BYTES 65536U
#define SLOT_PAGES 16U
#define WINDOWS    6U
#define SLOTS      4U
#define FLUSHES    10U
#define FLIGHT     8U
#define MAX_LEN    30000U

/** What is under the volume. */
enum device { ON_MEM, ON_FAULT, ON_FILE };

/** A page of the volume. */
struct page {
	bool loose;
	unsigned int flushes; /**< of windows, under way over it */
	uint64_t changed;     /**< number of the last change, which is */
	bool durable;
};

/** A window, and what it has to have. */
struct pane {
	struct win win;
	bool open, ready, closing, write, fill;
	uint64_t off, len;
	uint8_t mem[SLOT_BYTES];
	bool marked[SLOT_PAGES];
	bool unsure[SLOT_PAGES]; /**< placed during a flush: its mark is set or not */
	bool loose[SLOT_PAGES];  /**< when it began to be filled */
	unsigned int under_way;
};

struct flush {
	struct preq q;
	bool busy, read, write;
	bool ahead;          /**< it has begun so, and is not submitted yet */
	struct pane *pane;   /**< NULL: it was closed meanwhile */
	uint64_t at, len;    /**< in the window */
	uint64_t first, end; /**< pages of the volume */
	uint64_t number;
	uint32_t flags;
	bool wrote[SLOT_PAGES]; /**< pages that had marks */
	bool compare;           /**< a read-back: with `expect` */
	uint8_t expect[SLOT_BYTES];
};

struct flight {
	struct rig_op o;
	bool busy;
	uint8_t mem[MAX_LEN], expect[MAX_LEN];
	bool skip[PAGES]; /**< pages of the volume that are not compared */
};

struct model {
	struct rig r;
	uint64_t seed;
	enum device on;
	uint64_t low; /**< windows and operations begin here: a multiple of a page */
	struct weft_vol_windows *p;
	struct weft_vol_client client[2];
	uint8_t *is;
	uint8_t *all;
	struct page page[PAGES];
	struct pane pane[WINDOWS];
	struct flush f[FLUSHES];
	struct flight o[FLIGHT];
	uint64_t number; /**< of changes and flushes */
	uint64_t compared, skipped, flushed, refused;
};

static uint64_t
draw(struct model *m, uint64_t n)
{
	return rig_draw(&m->seed, n);
}

/** The volume's octets of a page: from, and how many. */
static uint64_t
page_bytes(uint64_t page)
{
	return page + 1 < PAGES ? WIN_PAGE : VOL_BYTES - page * WIN_PAGE;
}

static void
model_changed(struct model *m, uint64_t page)
{
	m->page[page].changed = ++m->number;
	m->page[page].durable = false;
}

/* ---- Windows ---- */

/** Whether the rule of overlap allows a range. */
static bool
model_allows(const struct model *m, uint64_t off, uint64_t len, bool write, const struct pane *but)
{
	for (unsigned int i = 0; i < WINDOWS; i++) {
		const struct pane *w = &m->pane[i];

		if (w->open && w != but && (w->write || write) && w->off < off + len &&
		    off < w->off + w->len)
			return false;
	}
	return true;
}

static void
model_range(struct model *m, uint64_t *off, uint64_t *len)
{
	const uint64_t pages = 1 + draw(m, SLOT_PAGES);
	const uint64_t first = draw(m, PAGES - pages + 1);

	*off = first * WIN_PAGE;
	*len = first + pages == PAGES ? VOL_BYTES - *off : pages * WIN_PAGE;
}

/** It begins to stand for a range: what it has to have when it is ready. */
static void
pane_fill(struct model *m, struct pane *w, uint64_t off, uint64_t len, bool fill)
{
	w->off = off;
	w->len = len;
	w->fill = fill || !w->write;
	w->ready = false;
	memset(w->mem, 0, sizeof(w->mem));
	memset(w->marked, 0, sizeof(w->marked));
	memset(w->unsure, 0, sizeof(w->unsure));
	for (uint64_t pg = 0; pg < SLOT_PAGES; pg++)
		w->loose[pg] = w->fill && pg * WIN_PAGE < len && m->page[off / WIN_PAGE + pg].loose;
	if (w->fill)
		memcpy(w->mem, m->is + off, len);
}

static void
pane_open(struct model *m, struct pane *w)
{
	const unsigned int chan = (unsigned int)draw(m, 2);
	const bool write = draw(m, 4) != 0, fill = draw(m, 3) != 0;
	struct weft_vol_windows_stats s;
	struct weft_vol_window_attr a;
	uint64_t off, len;
	int r;

	model_range(m, &off, &len);
	a = win_attr(&m->r, chan, &m->client[chan], &w->win, m->low + off, (uint32_t)len);
	a.write = write;
	a.fill = fill;
	weft_vol_windows_query(m->p, &s);
	r = weft_vol_window_open(m->p, &a, &w->win.w);
	if (s.open == SLOTS) {
		CHECK_EQ(r, -ENOSPC);
	} else if (!model_allows(m, off, len, write, NULL)) {
		CHECK_EQ(r, -EBUSY);
		m->refused++;
	} else {
		CHECK_EQ(r, 0);
		w->open = true;
		w->closing = false;
		w->write = write;
		w->under_way = 0;
		pane_fill(m, w, off, len, fill);
	}
}

static void
pane_move(struct model *m, struct pane *w)
{
	const bool fill = draw(m, 3) != 0;
	uint64_t off, len;
	int r;

	/* A flush that has begun ahead may be under way or not. */
	for (unsigned int i = 0; i < FLUSHES; i++) {
		if (m->f[i].busy && m->f[i].ahead && m->f[i].pane == w)
			return;
	}
	model_range(m, &off, &len);
	r = weft_vol_window_move(w->win.w, m->low + off, (uint32_t)len, fill);
	if (w->under_way > 0) {
		CHECK_EQ(r, -EAGAIN);
	} else if (!model_allows(m, off, len, w->write, w)) {
		CHECK_EQ(r, -EBUSY);
		m->refused++;
	} else {
		CHECK_EQ(r, 0);
		pane_fill(m, w, off, len, fill);
	}
}

/** Flushes of it that are under way: it is unknown which pages they have written. */
static void
pane_close(struct model *m, struct pane *w)
{
	for (unsigned int i = 0; i < FLUSHES; i++) {
		struct flush *f = &m->f[i];

		if (!f->busy || f->pane != w)
			continue;
		for (uint64_t pg = f->first; pg < f->end && !f->read; pg++)
			m->page[pg].loose |= f->wrote[pg - f->first];
		f->pane = NULL;
		if (!f->ahead)
			continue;
		/* It never comes. */
		f->busy = f->ahead = false;
		for (uint64_t pg = f->first; pg < f->end && f->write; pg++)
			m->page[pg].flushes--;
	}
	w->open = false;
	w->closing = true;
	win_close(&w->win);
}

/** It is ready: compare what it has. */
static void
pane_ready(struct model *m, struct pane *w)
{
	const uint8_t *mem = win_mem(m->p, &w->win);

	w->ready = true;
	w->win.ready = 0;
	CHECK_EQ(w->win.status, 0);
	for (uint64_t at = 0; at < SLOT_BYTES; at += WIN_PAGE) {
		const uint64_t pg = w->off / WIN_PAGE + at / WIN_PAGE;

		if (!w->loose[at / WIN_PAGE]) {
			CHECK_MEM(mem + at, w->mem + at, WIN_PAGE);
			m->compared++;
			continue;
		}
		m->skipped++;
		memcpy(w->mem + at, mem + at, WIN_PAGE);
		/* Nobody else changes it now: it is what the volume has. */
		if (w->write) {
			memcpy(m->is + pg * WIN_PAGE, mem + at, page_bytes(pg));
			m->page[pg].loose = false;
		}
	}
}

/** Random octets come, as by a peer; or octets that are not marked, and so never reach the volume
 * unless their page is marked by others. */
static void
pane_place(struct model *m, struct pane *w)
{
	const uint64_t most = draw(m, 3) == 0 || w->len < 300 ? w->len : 300;
	const uint64_t len = 1 + draw(m, most);
	const uint64_t at = draw(m, w->len - len + 1);
	const uint64_t first = at / WIN_PAGE, end = (at + len - 1) / WIN_PAGE + 1;
	bool mark = draw(m, 8) != 0;
	uint8_t *mem = win_mem(m->p, &w->win);

	for (uint64_t pg = first; pg < end; pg++) {
		if (m->page[w->off / WIN_PAGE + pg].flushes > 0) {
			if (draw(m, 2) == 0 || !w->write)
				return;
			mark = true;
		}
		mark |= w->unsure[pg];
	}
	for (uint64_t i = at; i < at + len; i++)
		mem[i] = w->mem[i] = (uint8_t)draw(m, 256);
	if (!mark)
		return;
	weft_persist_mark(weft_vol_windows_medium(m->p), weft_vol_window_at(w->win.w) + at, len);
	for (uint64_t pg = first; pg < end; pg++) {
		struct page *page = &m->page[w->off / WIN_PAGE + pg];

		w->marked[pg] = true;
		if (w->write && page->flushes > 0) {
			w->unsure[pg] = true;
			page->loose = true;
			model_changed(m, w->off / WIN_PAGE + pg);
		}
	}
}

/* ---- Flushes and read-backs ---- */

/** What is marked goes to the volume. */
static void
flush_takes(struct model *m, struct flush *f, struct pane *w)
{
	for (uint64_t pg = f->first; pg < f->end && w->write; pg++) {
		const uint64_t in = pg - w->off / WIN_PAGE;

		f->wrote[pg - f->first] |= w->marked[in];
		if (!w->marked[in])
			continue;
		memcpy(m->is + pg * WIN_PAGE, w->mem + in * WIN_PAGE, page_bytes(pg));
		w->marked[in] = w->unsure[in] = false;
		m->page[pg].loose = false;
		model_changed(m, pg);
		m->flushed++;
	}
	f->number = m->number;
}

static void
flush_begin(struct model *m, struct flush *f, struct pane *w)
{
	const uint64_t len = 1 + draw(m, w->len);
	const uint64_t at = draw(m, w->len - len + 1), base = w->off / WIN_PAGE;

	f->pane = w;
	f->read = false;
	f->write = w->write;
	f->flags = m->on == ON_MEM || draw(m, 3) == 0 ? WEFT_FLUSH_VISIBLE : WEFT_FLUSH_PERSISTENT;
	f->first = base + at / WIN_PAGE;
	f->end = base + (at + len - 1) / WIN_PAGE + 1;
	f->at = at;
	f->len = len;
	f->ahead = draw(m, 2) == 0;
	f->busy = true;
	w->under_way++;
	memset(f->wrote, 0, sizeof(f->wrote));
	for (uint64_t pg = f->first; pg < f->end && w->write; pg++)
		m->page[pg].flushes++;
	flush_takes(m, f, w);
	if (f->ahead)
		win_ahead(m->p, &w->win, at, len, f->flags);
	else
		CHECK_EQ(preq_flush(m->p, &w->win, &f->q, at, len, f->flags), 0);
}

/** One that has begun ahead. */
static void
flush_submit(struct model *m, struct flush *f)
{
	f->ahead = false;
	flush_takes(m, f, f->pane);
	CHECK_EQ(preq_flush(m->p, &f->pane->win, &f->q, f->at, f->len, f->flags), 0);
}

static void
flush_end(struct model *m, struct flush *f)
{
	f->busy = false;
	CHECK_EQ(f->q.done, 1);
	if (f->pane != NULL) {
		CHECK_EQ(f->q.req.status, 0);
		f->pane->under_way--;
	} else {
		CHECK(f->q.req.status == 0 || f->q.req.status == -ECANCELED);
	}
	for (uint64_t pg = f->first; pg < f->end && f->write; pg++) {
		struct page *page = &m->page[pg];

		page->flushes--;
		if (f->pane != NULL && (f->flags & WEFT_FLUSH_PERSISTENT) != 0 &&
		    page->changed <= f->number)
			page->durable = true;
	}
}

/** A read-back: compared where it is known what the medium has. */
static void
verify_begin(struct model *m, struct flush *f, struct pane *w)
{
	const uint64_t len = 1 + draw(m, w->len);
	const uint64_t at = draw(m, w->len - len + 1);
	int r;

	f->read = true;
	f->ahead = false;
	f->pane = w;
	f->first = (w->off + at) / WIN_PAGE;
	f->end = (w->off + at + len - 1) / WIN_PAGE + 1;
	f->compare = true;
	for (uint64_t pg = f->first; pg < f->end; pg++)
		f->compare &= !m->page[pg].loose && m->page[pg].flushes == 0 &&
		              (m->on != ON_FAULT || m->page[pg].durable);
	memcpy(f->expect, m->is + w->off + at, len);
	r = preq_read(m->p, &w->win, &f->q, at, len);
	if (r == -EAGAIN)
		return;
	CHECK_EQ(r, 0);
	f->busy = true;
	w->under_way++;
}

static void
verify_end(struct model *m, struct flush *f)
{
	struct weft_persist *medium = weft_vol_windows_medium(m->p);

	f->busy = false;
	if (f->pane != NULL) {
		CHECK_EQ(f->q.req.status, 0);
		f->pane->under_way--;
	} else {
		CHECK(f->q.req.status == 0 || f->q.req.status == -ECANCELED);
	}
	if (f->q.req.status == 0 && f->compare)
		CHECK_MEM(f->q.req.data, f->expect, f->q.req.len_bytes);
	m->compared += f->compare;
	m->skipped += !f->compare;
	medium->ops->release(medium, &f->q.req);
}

/* ---- Operations beside the windows ---- */

static void
flight_begin(struct model *m, struct flight *o)
{
	static const enum weft_vol_kind kinds[] = {WEFT_VOL_READ,  WEFT_VOL_READ,   WEFT_VOL_WRITE,
	                                           WEFT_VOL_WRITE, WEFT_VOL_ZEROES, WEFT_VOL_FLUSH};
	const enum weft_vol_kind kind = kinds[draw(m, 6)];
	const bool changes = kind == WEFT_VOL_WRITE || kind == WEFT_VOL_ZEROES;
	const uint64_t len = 1 + draw(m, MAX_LEN), off = draw(m, VOL_BYTES - len + 1);
	const unsigned int chan = (unsigned int)draw(m, 2);
	int r;

	rig_op(&o->o, kind, m->low + off, len,
	       kind == WEFT_VOL_READ || kind == WEFT_VOL_WRITE ? o->mem : NULL);
	if (draw(m, 2) == 0)
		o->o.op.client = &m->client[chan];
	for (uint64_t i = 0; i < len; i++)
		o->mem[i] = kind == WEFT_VOL_ZEROES ? 0 : (uint8_t)draw(m, 256);
	memcpy(o->expect, m->is + off, len);
	for (unsigned int pg = 0; pg < PAGES; pg++)
		o->skip[pg] = m->page[pg].loose || m->page[pg].flushes > 0;
	r = weft_vol_submit(m->r.chan[chan], &o->o.op);
	/* As a reader it is allowed beside windows that only read. */
	if (changes && !model_allows(m, off, len, false, NULL)) {
		CHECK_EQ(r, -EBUSY);
		m->refused++;
		return;
	}
	CHECK_EQ(r, 0);
	o->busy = true;
	if (!changes)
		return;
	memcpy(m->is + off, o->mem, len);
	for (uint64_t pg = off / WIN_PAGE; pg <= (off + len - 1) / WIN_PAGE; pg++) {
		const uint64_t at = pg * WIN_PAGE;

		model_changed(m, pg);
		if (off <= at && at + page_bytes(pg) <= off + len)
			m->page[pg].loose = false;
	}
}

static void
flight_end(struct model *m, struct flight *o)
{
	const uint64_t off = o->o.op.off_bytes - m->low, len = o->o.op.len_bytes;

	o->busy = false;
	CHECK_EQ(o->o.op.status, 0);
	for (uint64_t i = 0; i < len && o->o.op.kind == WEFT_VOL_READ;) {
		const uint64_t pg = (off + i) / WIN_PAGE;
		const uint64_t left = (pg + 1) * WIN_PAGE - (off + i),
		               n = left < len - i ? left : len - i;

		if (!o->skip[pg])
			CHECK_MEM(o->mem + i, o->expect + i, n);
		m->skipped += o->skip[pg];
		m->compared += !o->skip[pg];
		i += n;
	}
}

/* ---- A run ---- */

static void
model_look(struct model *m)
{
	for (unsigned int i = 0; i < FLUSHES; i++) {
		struct flush *f = &m->f[i];

		if (!f->busy || f->ahead)
			continue;
		if (f->q.done > 0 && f->read)
			verify_end(m, f);
		else if (f->q.done > 0)
			flush_end(m, f);
	}
	for (unsigned int i = 0; i < FLIGHT; i++) {
		if (m->o[i].busy && m->o[i].o.done > 0)
			flight_end(m, &m->o[i]);
	}
	for (unsigned int i = 0; i < WINDOWS; i++) {
		struct pane *w = &m->pane[i];

		if (w->open && w->win.ready > 0)
			pane_ready(m, w);
		if (w->closing && w->win.closed > 0)
			w->closing = false;
	}
}

static void
model_act(struct model *m)
{
	struct pane *w = &m->pane[draw(m, WINDOWS)];
	struct flush *f = &m->f[draw(m, FLUSHES)];
	struct flight *o = &m->o[draw(m, FLIGHT)];
	const uint64_t what = draw(m, 32);

	if (what < 6) {
		if (!o->busy)
			flight_begin(m, o);
	} else if (!w->open && !w->closing) {
		pane_open(m, w);
	} else if (!w->open || !w->ready) {
		if (w->open && draw(m, 40) == 0)
			pane_close(m, w);
	} else if (what < 7) {
		if (draw(m, 2) == 0)
			pane_close(m, w);
	} else if (what < 8) {
		pane_move(m, w);
	} else if (what < 16) {
		if (f->busy && f->ahead)
			flush_submit(m, f);
		else if (!f->busy)
			flush_begin(m, f, w);
	} else if (what < 19) {
		if (!f->busy)
			verify_begin(m, f, w);
	} else {
		pane_place(m, w);
	}
}

static bool
model_busy(const struct model *m)
{
	bool busy = false;

	for (unsigned int i = 0; i < FLUSHES; i++)
		busy |= m->f[i].busy;
	for (unsigned int i = 0; i < FLIGHT; i++)
		busy |= m->o[i].busy;
	for (unsigned int i = 0; i < WINDOWS; i++)
		busy |= m->pane[i].closing || (m->pane[i].open && !m->pane[i].ready);
	return busy;
}

static void
model_settle(struct model *m)
{
	for (unsigned int i = 0; i < FLUSHES; i++) {
		if (m->f[i].busy && m->f[i].ahead)
			flush_submit(m, &m->f[i]);
	}
	for (unsigned int i = 0; model_busy(m); i++) {
		CHECK_MSG(i < 1000000, "something is stuck");
		rig_poll(&m->r);
		model_look(m);
	}
}

static void
model_compare(struct model *m)
{
	unsigned int loose = 0;

	CHECK_EQ(rig_io(&m->r, WEFT_VOL_READ, m->low, VOL_BYTES, m->all, 0), 0);
	for (unsigned int pg = 0; pg < PAGES; pg++) {
		loose += m->page[pg].loose;
		if (!m->page[pg].loose)
			CHECK_MEM(m->all + pg * WIN_PAGE, m->is + pg * WIN_PAGE, page_bytes(pg));
	}
	CHECK(loose < PAGES / 2);
}

static void
model_begin(struct model *m, uint64_t seed, enum device on, bool sums)
{
	const uint32_t block = seed % 2 == 0 ? 512 : 4096;

	m->seed = seed;
	m->on = on;
	m->low = sums ? WEFT_VOL_GROUP_BYTES - PAGES / 2 * WIN_PAGE : 0;
	m->is = calloc(1, (size_t)PAGES * WIN_PAGE);
	m->all = calloc(1, (size_t)PAGES * WIN_PAGE);
	CHECK(m->is != NULL && m->all != NULL);
	if (on == ON_FILE)
		rig_file(&m->r, scratch_path("window"), DISK_BYTES);
	else
		rig_device(&m->r, DISK_BYTES, block, on == ON_FAULT ? seed + 1 : 0);
	m->r.sums = sums;
	rig_format(&m->r, m->low + VOL_BYTES);
	rig_open(&m->r, 2, 1 + (uint32_t)draw(m, 4));
	for (unsigned int i = 0; i < 2; i++)
		weft_vol_client_open(m->r.chan[i], &m->client[i]);
	m->p = win_pool(SLOTS, SLOT_BYTES);
}

/** One seed; adds to what was compared and skipped. */
static void
model_run(uint64_t seed, enum device on, bool sums, unsigned int acts, uint64_t sum[4])
{
	struct weft_block_fault_cfg cfg = {.delay_max_ns = 20000, .busy_ppm = 100000};
	struct model *m = calloc(1, sizeof(*m));
	struct rig_op scrub;

	test_seed_note(seed);
	CHECK(m != NULL);
	model_begin(m, seed, on, sums);
	if (on == ON_FAULT)
		weft_block_fault_set(m->r.block, &cfg);
	for (unsigned int i = 0; i < acts; i++) {
		model_act(m);
		if (draw(m, 3) == 0)
			rig_poll(&m->r);
		model_look(m);
	}
	model_settle(m);
	model_compare(m);
	for (unsigned int i = 0; i < WINDOWS; i++) {
		if (m->pane[i].open)
			pane_close(m, &m->pane[i]);
	}
	model_settle(m);
	/* What was not flushed is not there. */
	model_compare(m);
	rig_op(&scrub, WEFT_VOL_SCRUB, 0, m->low + VOL_BYTES, NULL);
	CHECK_EQ(rig_do(&m->r, &scrub), 0);
	CHECK_EQ(scrub.op.damaged, 0);
	CHECK_EQ(weft_vol_windows_destroy(m->p), 0);
	for (unsigned int i = 0; i < 2; i++)
		CHECK_EQ(weft_vol_client_close(&m->client[i]), 0);
	rig_end(&m->r);
	sum[0] += m->compared;
	sum[1] += m->skipped;
	sum[2] += m->flushed;
	sum[3] += m->refused;
	free(m->is);
	free(m->all);
	free(m);
}

static void
model_runs(uint64_t seed, unsigned int dflt, enum device on, bool sums, unsigned int acts)
{
	const char *env = getenv("WEFT_VOLUME_RUNS");
	const unsigned int runs = test_seed_given() ? 1
	                          : env == NULL     ? dflt
	                                            : (unsigned int)strtoul(env, NULL, 0);
	uint64_t sum[4] = {0};

	for (unsigned int i = 0; i < runs; i++)
		model_run(seed + i, on, sums, acts, sum);
	CHECK(sum[0] > 2 * sum[1]);
	test_note("%" PRIu64 " compared, %" PRIu64 " not; %" PRIu64 " pages flushed; %" PRIu64
	          " refused",
	          sum[0], sum[1], sum[2], sum[3]);
}

static void
test_mem(void)
{
	model_runs(test_seed(1), 100, ON_MEM, false, 1000);
}

static void
test_fault(void)
{
	model_runs(test_seed(1001), 100, ON_FAULT, false, 1000);
}

static void
test_sums(void)
{
	model_runs(test_seed(2001), 100, ON_FAULT, true, 600);
}

/** A real file, with and without checksums. Each run makes the file anew. */
static void
test_file(void)
{
	const uint64_t seed = test_seed(3001);
	uint64_t sum[4] = {0};

	for (unsigned int i = 0; i < 2; i++) {
		(void)unlink(scratch_path("window"));
		model_run(seed + i, ON_FILE, i % 2 != 0, 1500, sum);
	}
	(void)unlink(scratch_path("window"));
}

WEFT_TEST_MAIN({"memory", test_mem}, {"slow device with a cache", test_fault},
               {"checksums", test_sums}, {"file", test_file})
