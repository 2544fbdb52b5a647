/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Windows and power cuts, and windows of old owners.
 *
 * Power. Each placement fills its octets with a number of its own. After the cut each octet has to
 * be that of the last placement that a flush has promised to be durable, or of a later one that was
 * in the window while a flush of its page was under way. What no flush had never lands. A flush
 * promises what was placed in its pages before it was submitted, also when flushes before it have
 * failed. A word of eight octets is old or new.
 *
 * Old owners. A window's writes are frozen in the device, its owner is given up on, and a new owner
 * writes over the range, by operations or in a window of its own.
 */

#include <errno.h>
#include <stdlib.h>

#include "volume_sabotage.h"
#include "window_rig.h"

#define DISK_BYTES (9U << 20)
#define VOL_BYTES  180224U
#define SLOT_BYTES 65536U
#define WINDOWS    3U
#define FLIGHT     9U
#define PLACES     120U /* in each of two lives */
#define MAX_LEN    9000U

/** A placement, in order. */
struct place {
	uint64_t off, len; /**< in the volume */
	bool had[5];       /**< of its pages: a flush had it */
	bool durable[5];
};

struct flight {
	struct preq q;
	bool busy, ahead; /**< ahead: it has begun so, and is not submitted yet */
	unsigned int window;
	uint64_t at, len;
	uint32_t flags;
	uint64_t first, end; /**< pages of the volume */
	unsigned int before; /**< placements that came before it */
};

struct power {
	struct rig r;
	uint64_t seed;
	struct weft_vol_windows *p;
	struct weft_vol_client client[WINDOWS], other;
	struct win win[WINDOWS];
	struct flight f[FLIGHT];
	struct place place[PLACES];
	unsigned int places;
	uint8_t base;        /**< numbers of this life are greater */
	struct rig_op flush; /**< of another client, which loses what it loses */
	bool flushing;
	int16_t top[VOL_BYTES]; /**< the last placement of each octet; -1: none */
	uint8_t first[VOL_BYTES], is[VOL_BYTES];
	unsigned int wrong, promised, failed;
};

static uint64_t
draw(struct power *p, uint64_t n)
{
	return rig_draw(&p->seed, n);
}

/** Where a window stands; the last one is up to the end of the volume. */
static uint64_t
window_off(unsigned int i)
{
	return i * (uint64_t)SLOT_BYTES;
}

static uint64_t
window_len(unsigned int i)
{
	return i + 1 < WINDOWS ? SLOT_BYTES : VOL_BYTES - window_off(i);
}

/** The last placement of an octet before another one; -1: none. */
static int
power_before(const struct power *p, uint64_t at, int below)
{
	for (int i = below; i-- > 0;) {
		if (at >= p->place[i].off && at < p->place[i].off + p->place[i].len)
			return i;
	}
	return -1;
}

/** A flush has pages: each placement that is to be seen somewhere in them may land. */
static void
power_had(struct power *p, uint64_t first, uint64_t end)
{
	for (uint64_t at = first * WIN_PAGE; at < end * WIN_PAGE; at++) {
		if (p->top[at] >= 0) {
			struct place *c = &p->place[p->top[at]];

			c->had[at / WIN_PAGE - c->off / WIN_PAGE] = true;
		}
	}
}

static void
power_place(struct power *p)
{
	const struct flight *near = &p->f[draw(p, FLIGHT)];
	unsigned int w = (unsigned int)draw(p, WINDOWS);
	const bool word = draw(p, 6) == 0;
	const uint64_t len = word ? 8 : 1 + draw(p, draw(p, 4) == 0 ? MAX_LEN : 200);
	uint64_t at = draw(p, window_len(w) - len + 1);
	uint8_t data[MAX_LEN];
	struct place *c;

	if (p->places == PLACES)
		return;
	/* Often where a flush is under way. */
	if (near->busy && draw(p, 2) == 0) {
		w = near->window;
		at = near->first * WIN_PAGE - window_off(w);
		at = at + len > window_len(w) ? window_len(w) - len : at;
	}
	/* The first page has only words, as an Atomic Write places them. */
	if (word) {
		w = 0;
		at = draw(p, WIN_PAGE / 8) * 8;
	} else if (w == 0 && at < WIN_PAGE) {
		at = WIN_PAGE;
	}
	c = &p->place[p->places++];
	*c = (struct place){.off = window_off(w) + at, .len = len};
	for (uint64_t i = c->off; i < c->off + len; i++)
		p->top[i] = (int16_t)(p->places - 1);
	memset(data, (int)(p->base + p->places), len);
	win_place(p->p, &p->win[w], at, data, len);
	/* Flushes that are under way may have it. */
	for (unsigned int k = 0; k < FLIGHT; k++) {
		if (p->f[k].busy)
			power_had(p, p->f[k].first, p->f[k].end);
	}
}

static void
power_submit(struct power *p, struct flight *f)
{
	f->ahead = false;
	f->before = p->places;
	CHECK_EQ(preq_flush(p->p, &p->win[f->window], &f->q, f->at, f->len, f->flags), 0);
}

static void
power_flush(struct power *p, struct flight *f)
{
	const bool again = f->end > 0 && draw(p, 2) == 0;
	const unsigned int i = again ? f->window : (unsigned int)draw(p, WINDOWS);
	uint64_t len = 1 + draw(p, draw(p, 3) == 0 ? window_len(i) : MAX_LEN);
	const uint64_t at =
	        again ? f->first * WIN_PAGE - window_off(i) : draw(p, window_len(i) - len + 1);
	const uint32_t flags = draw(p, 4) == 0 ? WEFT_FLUSH_VISIBLE : WEFT_FLUSH_PERSISTENT;

	len = at + len > window_len(i) ? window_len(i) - at : len;
	f->busy = true;
	f->window = i;
	f->first = (window_off(i) + at) / WIN_PAGE;
	f->end = (window_off(i) + at + len - 1) / WIN_PAGE + 1;
	f->at = at;
	f->len = len;
	f->flags = flags;
	f->ahead = draw(p, 2) == 0;
	f->q.done = 0;
	power_had(p, f->first, f->end);
	if (f->ahead)
		win_ahead(p->p, &p->win[i], at, len, flags);
	else
		power_submit(p, f);
}

static void
power_flushed(struct power *p, struct flight *f)
{
	f->busy = false;
	CHECK_EQ(f->q.done, 1);
	if (f->q.req.status != 0) {
		p->failed++;
		return;
	}
	if ((f->q.req.flags & WEFT_FLUSH_PERSISTENT) == 0)
		return;
	p->promised++;
	for (unsigned int i = 0; i < f->before; i++) {
		struct place *c = &p->place[i];
		const uint64_t base = c->off / WIN_PAGE;
		const uint64_t end = (c->off + c->len - 1) / WIN_PAGE + 1;

		for (uint64_t pg = f->first; pg < f->end; pg++) {
			if (pg >= base && pg < end)
				c->durable[pg - base] = true;
		}
	}
}

static void
power_look(struct power *p)
{
	for (unsigned int i = 0; i < FLIGHT; i++) {
		if (p->f[i].busy && p->f[i].q.done > 0)
			power_flushed(p, &p->f[i]);
	}
	p->flushing = p->flushing && p->flush.done == 0;
}

/** Whether an octet may have this value. */
static bool
power_allows(const struct power *p, uint64_t at, uint8_t value)
{
	for (int i = p->top[at]; i >= 0; i = power_before(p, at, i)) {
		const uint64_t in = at / WIN_PAGE - p->place[i].off / WIN_PAGE;

		if (value == (uint8_t)(p->base + i + 1))
			return p->place[i].had[in];
		if (p->place[i].durable[in])
			return false;
	}
	return p->first[at] == value;
}

static void
power_open(struct power *p)
{
	rig_open(&p->r, 2, 2);
	for (unsigned int i = 0; i < WINDOWS; i++) {
		struct weft_vol_window_attr a;

		weft_vol_client_open(p->r.chan[i % 2], &p->client[i]);
		a = win_attr(&p->r, i % 2, &p->client[i], &p->win[i], window_off(i),
		             (uint32_t)window_len(i));
		win_open(&p->r, p->p, &a);
		CHECK_MEM(win_mem(p->p, &p->win[i]), p->first + window_off(i), window_len(i));
	}
	weft_vol_client_open(p->r.chan[1], &p->other);
}

static void
power_close(struct power *p)
{
	for (unsigned int i = 0; i < WINDOWS; i++) {
		win_close(&p->win[i]);
		win_closed(&p->r, &p->win[i]);
		CHECK_EQ(weft_vol_client_close(&p->client[i]), 0);
	}
	CHECK_EQ(weft_vol_client_close(&p->other), 0);
	rig_close(&p->r);
}

static void
power_act(struct power *p)
{
	struct flight *f = &p->f[draw(p, FLIGHT)];

	switch (draw(p, 8)) {
	case 0:
	case 1:
	case 2:
		if (f->busy && f->ahead)
			power_submit(p, f);
		else if (!f->busy)
			power_flush(p, f);
		break;
	case 3:
		if (p->flushing || draw(p, 4) != 0)
			break;
		rig_op(&p->flush, WEFT_VOL_FLUSH, 0, 0, NULL)->op.client = &p->other;
		rig_submit(&p->r, 1, &p->flush);
		p->flushing = true;
		break;
	case 4:
	case 5:
		power_place(p);
		break;
	default:
		break;
	}
	if (draw(p, 2) == 0)
		rig_poll(&p->r);
	power_look(p);
}

/** Placements and flushes until the power is cut. */
static void
power_life(struct power *p, const struct weft_block_fault_cfg *cfg)
{
	const uint64_t acts = 1 + draw(p, 300);
	const struct weft_block_fault_hit hit = {
	        .ops = draw(p, 2) == 0 ? 1U << WEFT_BLOCK_FLUSH
	                               : 1U << WEFT_BLOCK_FLUSH | 1U << WEFT_BLOCK_WRITE,
	        .skip = draw(p, 6),
	        .count = 1 + draw(p, 3)};

	memset(p->top, 0xff, sizeof(p->top));
	power_open(p);
	weft_block_fault_set(p->r.block, cfg);
	weft_block_fault_fail(p->r.block, draw(p, 2) == 0 ? &hit : NULL, -EIO);
	for (uint64_t n = 0; n < acts; n++)
		power_act(p);
	weft_block_fault_cut(p->r.block);
	for (unsigned int i = 0; i < FLIGHT; i++) {
		if (p->f[i].busy && !p->f[i].ahead)
			(void)preq_wait(&p->r, &p->f[i].q);
		else
			p->f[i].busy = false;
	}
	if (p->flushing)
		(void)rig_wait(&p->r, &p->flush);
	power_look(p);
	power_close(p);
	weft_block_fault_fail(p->r.block, NULL, 0);
	weft_block_fault_boot(p->r.block);
	rig_open(&p->r, 1, 2);
	/* With checksums a fault may be found here. */
	p->wrong += rig_io(&p->r, WEFT_VOL_READ, 0, VOL_BYTES, p->is, 0) != 0;
	rig_close(&p->r);
	for (uint64_t at = 0; at < VOL_BYTES; at++)
		p->wrong += !power_allows(p, at, p->is[at]);
	for (uint64_t at = 0; at < WIN_PAGE; at++)
		p->wrong += p->is[at] != p->is[at / 8 * 8];
}

/** One seed; returns how many octets break a promise. */
static unsigned int
power_run(uint64_t seed, bool lies, unsigned int *promised, unsigned int *failed)
{
	struct weft_block_fault_cfg cfg = {.delay_max_ns = 4000,
	                                   .leak_ppm = seed % 5 < 2 ? 30000 : 1000,
	                                   .busy_ppm = 50000,
	                                   .atom_bytes = seed % 3 == 0 ? 0 : 8,
	                                   .flush_lies = lies};
	struct power *p = calloc(1, sizeof(*p));
	unsigned int wrong;

	test_seed_note(seed);
	CHECK(p != NULL);
	p->seed = seed;
	rig_device(&p->r, DISK_BYTES, seed % 2 == 0 ? 512 : 4096, seed);
	p->r.sums = seed % 4 == 1 || seed % 4 == 2;
	rig_format(&p->r, VOL_BYTES);
	p->p = win_pool(WINDOWS, SLOT_BYTES);
	for (unsigned int life = 0; life < 2 && p->wrong == 0; life++) {
		power_life(p, &cfg);
		/* What the medium has now is where the next life begins. */
		memcpy(p->first, p->is, VOL_BYTES);
		p->places = 0;
		p->base = PLACES;
	}
	wrong = p->wrong;
	*promised += p->promised;
	*failed += p->failed;
	CHECK_EQ(weft_vol_windows_destroy(p->p), 0);
	rig_end(&p->r);
	free(p);
	return wrong;
}

static unsigned int
power_runs(unsigned int dflt)
{
	const char *env = getenv("WEFT_VOLUME_RUNS");

	if (test_seed_given())
		return 1;
	return env == NULL ? dflt : (unsigned int)strtoul(env, NULL, 0);
}

static void
test_cuts(void)
{
	const uint64_t seed = test_seed(1);
	unsigned int promised = 0, failed = 0;

	for (unsigned int i = 0; i < power_runs(300); i++) {
		unsigned int wrong = power_run(seed + i, false, &promised, &failed);

		CHECK_MSG(wrong == 0, "%u octets break a promise", wrong);
	}
	test_note("%u flushes have promised, %u have failed", promised, failed);
}

static void
test_mutants(void)
{
	static const struct {
		enum volume_sabotage fault;
		bool lies;
		const char *what;
	} mutants[] = {{VOLUME_SOUND, true, "a device that answers a flush early"},
	               {VOLUME_FLUSH_EARLY, false, "a volume that answers a flush early"},
	               {VOLUME_WINDOW_EARLY, false, "a window that answers a flush early"},
	               {VOLUME_WINDOW_FORGETS, false, "a window that forgets marks"},
	               {VOLUME_WINDOW_LOSES, false, "a window that does not mark again"},
	               {VOLUME_WINDOW_HASTY, false, "a flush that does not wait for writes ahead"},
	               {VOLUME_WINDOW_MIXES, false,
	                "a window that takes what is written during a "
	                "flush for flushed"}};
	unsigned int dummy[2] = {0};

	for (unsigned int i = 0; i < sizeof(mutants) / sizeof(mutants[0]); i++) {
		unsigned int found = 0;

		volume_sabotage = mutants[i].fault;
		for (unsigned int n = 0; n < 60; n++)
			found += power_run(7000 + n, mutants[i].lies, &dummy[0], &dummy[1]) > 0;
		volume_sabotage = VOLUME_SOUND;
		CHECK_MSG(found > 0, "not found: %s", mutants[i].what);
		test_note("%s: found in %u of 60 runs", mutants[i].what, found);
	}
}

/* ---- Old owners ---- */

#define OLD_STAMP   0x0d
#define NEW_STAMP   0xee
#define OLD_FLUSHES 6U
#define NEW_WRITES  6U
#define FREEZE_NS   11000000000ULL

struct ghost {
	struct rig r;
	uint64_t seed;
	struct weft_vol_windows *p;
	struct weft_vol_client from, to;
	struct win old, new;
	struct preq old_flush[OLD_FLUSHES], new_flush;
	struct rig_op write[NEW_WRITES];
	uint8_t old_mem[SLOT_BYTES], new_mem[SLOT_BYTES], is[SLOT_BYTES];
	bool expect[SLOT_BYTES]; /**< the new owner's stamp has to be here */
};

/** The old owner places and flushes; its writes are frozen, or slow. */
static void
ghost_old(struct ghost *g)
{
	const struct weft_vol_window_attr a = win_attr(&g->r, 0, &g->from, &g->old, 0, SLOT_BYTES);

	win_open(&g->r, g->p, &a);
	for (unsigned int i = 0; i < OLD_FLUSHES; i++) {
		const uint64_t len = 1 + rig_draw(&g->seed, 40000);
		const uint64_t at = rig_draw(&g->seed, SLOT_BYTES - len + 1);

		win_place(g->p, &g->old, at, g->old_mem, len);
		if (rig_draw(&g->seed, 2) == 0)
			win_ahead(g->p, &g->old, at, len, WEFT_FLUSH_PERSISTENT);
		CHECK_EQ(preq_flush(g->p, &g->old, &g->old_flush[i], at, len,
		                    rig_draw(&g->seed, 2) == 0 ? WEFT_FLUSH_PERSISTENT
		                                               : WEFT_FLUSH_VISIBLE),
		         0);
		for (uint64_t n = rig_draw(&g->seed, 4); n > 0; n--)
			rig_poll(&g->r);
	}
	for (uint64_t n = rig_draw(&g->seed, 40); n > 0; n--)
		rig_poll(&g->r);
}

/** The new owner writes beside a device that is still frozen. */
static void
ghost_new(struct ghost *g, bool window)
{
	const struct weft_vol_window_attr a = win_attr(&g->r, 1, &g->to, &g->new, 0, SLOT_BYTES);

	if (window) {
		CHECK_EQ(weft_vol_window_open(g->p, &a, &g->new.w), 0);
		return;
	}
	for (unsigned int i = 0; i < NEW_WRITES; i++) {
		const uint64_t len = 1 + rig_draw(&g->seed, 20000);
		const uint64_t off = rig_draw(&g->seed, SLOT_BYTES - len + 1);

		rig_op(&g->write[i], WEFT_VOL_WRITE, off, len, g->new_mem + off);
		g->write[i].op.client = &g->to;
		rig_submit(&g->r, 1, &g->write[i]);
		memset(g->expect + off, true, len);
	}
}

/** Its window is ready: it places, and flushes. */
static void
ghost_new_places(struct ghost *g)
{
	for (unsigned int i = 0; i < NEW_WRITES; i++) {
		const uint64_t len = 1 + rig_draw(&g->seed, 20000);
		const uint64_t at = rig_draw(&g->seed, SLOT_BYTES - len + 1);

		win_place(g->p, &g->new, at, g->new_mem, len);
		memset(g->expect + at, true, len);
	}
	CHECK_EQ(preq_flush(g->p, &g->new, &g->new_flush, 0, SLOT_BYTES, WEFT_FLUSH_PERSISTENT), 0);
}

/** All that the new owner does ends well. */
static void
ghost_new_ends(struct ghost *g, bool window, bool placed)
{
	for (unsigned int i = 0; i < NEW_WRITES && !window; i++)
		CHECK_EQ(rig_wait(&g->r, &g->write[i]), 0);
	if (!window)
		return;
	CHECK_EQ(win_wait(&g->r, &g->new), 0);
	if (!placed)
		ghost_new_places(g);
	CHECK_EQ(preq_wait(&g->r, &g->new_flush), 0);
	win_close(&g->new);
	win_closed(&g->r, &g->new);
}

/** Old stamps where the new owner's should be. */
static unsigned int
ghost_run(uint64_t seed)
{
	struct weft_block_fault_cfg cfg = {.delay_max_ns = 30000, .leak_ppm = 10000};
	struct weft_block_fault_hit hit = {.ops = 1U << WEFT_BLOCK_WRITE, .count = 1000};
	struct ghost *g = calloc(1, sizeof(*g));
	unsigned int wrong = 0;
	bool frozen, revoke, window, placed;
	uint64_t requests;

	test_seed_note(seed);
	CHECK(g != NULL);
	g->seed = seed;
	memset(g->old_mem, OLD_STAMP, SLOT_BYTES);
	memset(g->new_mem, NEW_STAMP, SLOT_BYTES);
	rig_device(&g->r, DISK_BYTES, 512, seed);
	g->r.sums = seed % 3 == 0;
	rig_format(&g->r, VOL_BYTES);
	rig_open(&g->r, 2, 3);
	weft_vol_client_open(g->r.chan[0], &g->from);
	weft_vol_client_open(g->r.chan[1], &g->to);
	g->p = win_pool(2, SLOT_BYTES);
	weft_block_fault_set(g->r.block, &cfg);
	frozen = rig_draw(&g->seed, 2) == 0;
	revoke = rig_draw(&g->seed, 2) == 0;
	window = rig_draw(&g->seed, 2) == 0;
	hit.skip = rig_draw(&g->seed, 6);
	if (frozen)
		weft_block_fault_stick(g->r.block, &hit);
	ghost_old(g);
	if (revoke) {
		(void)weft_vol_revoke(&g->from);
		/* While its window is open, its range is its own. */
		rig_op(&g->write[0], WEFT_VOL_WRITE, 0, 1, g->new_mem);
		CHECK_EQ(weft_vol_submit(g->r.chan[1], &g->write[0].op), -EBUSY);
	}
	win_close(&g->old);
	/* What is frozen stays so; in half of the runs new writes are frozen as well. */
	hit.skip = UINT64_MAX;
	if (frozen && rig_draw(&g->seed, 2) == 0)
		weft_block_fault_stick(g->r.block, &hit);
	ghost_new(g, window);
	for (unsigned int n = 0; n < 60; n++)
		rig_poll(&g->r);
	placed = window && g->new.ready > 0;
	if (placed)
		ghost_new_places(g);
	if (frozen) {
		g->r.now_ns += FREEZE_NS;
		for (unsigned int n = 0; n < 60; n++)
			rig_poll(&g->r);
		weft_block_fault_stick(g->r.block, NULL);
	}
	ghost_new_ends(g, window, placed);
	win_closed(&g->r, &g->old);
	for (unsigned int i = 0; i < OLD_FLUSHES; i++) {
		const int status = preq_wait(&g->r, &g->old_flush[i]);

		CHECK_MSG(status == 0 || status == -ECANCELED, "status %d", status);
	}
	/* Nothing comes any more. */
	requests = weft_block_fault_requests(g->r.block);
	for (unsigned int n = 0; n < 100; n++)
		rig_poll(&g->r);
	CHECK_EQ(weft_block_fault_requests(g->r.block), requests);
	CHECK_EQ(rig_io(&g->r, WEFT_VOL_READ, 0, SLOT_BYTES, g->is, 0), 0);
	for (uint64_t at = 0; at < SLOT_BYTES; at++)
		wrong += g->expect[at] && g->is[at] != NEW_STAMP;
	CHECK_EQ(weft_vol_windows_destroy(g->p), 0);
	CHECK_EQ(weft_vol_client_close(&g->from), 0);
	CHECK_EQ(weft_vol_client_close(&g->to), 0);
	rig_end(&g->r);
	free(g);
	return wrong;
}

static void
test_ghosts(void)
{
	const uint64_t seed = test_seed(1);

	for (unsigned int i = 0; i < power_runs(300); i++) {
		unsigned int wrong = ghost_run(seed + i);

		CHECK_MSG(wrong == 0, "%u old stamps", wrong);
	}
}

static void
test_ghost_mutant(void)
{
	unsigned int found = 0, runs = 0;

	/* The first one that is found is the last: two owners of a range break more than stamps. */
	volume_sabotage = VOLUME_OPEN_RANGE;
	for (; runs < 100 && found == 0; runs++)
		found += ghost_run(9100 + runs) > 0;
	volume_sabotage = VOLUME_SOUND;
	CHECK(found > 0);
	test_note("a range that is open too early: found in run %u", runs);
}

/**
 * The nth request of a window's flush or read-back is stuck, its client is revoked, and the request
 * ends: the device gets no other one. Returns whether it was under way.
 */
static bool
revoke_stuck(uint64_t nth, bool read, bool sums)
{
	const struct weft_block_fault_hit hit = {.skip = nth, .count = 1000};
	struct weft_vol_windows *p = win_pool(1, 1U << 20);
	struct weft_vol_client from = {0};
	struct weft_vol_window_attr a;
	struct preq q = {0};
	uint64_t requests;
	struct win win;
	struct rig r;
	bool stuck;

	rig_device(&r, 24U << 20, 512, 1 + nth);
	r.sums = sums;
	rig_format(&r, 8U << 20);
	rig_open(&r, 1, 0);
	weft_vol_client_open(r.chan[0], &from);
	a = win_attr(&r, 0, &from, &win, 0, 1U << 20);
	win_open(&r, p, &a);
	for (unsigned int i = 0; i < 256; i += 5)
		win_place(p, &win, i * 4096, "x", 1);
	weft_block_fault_stick(r.block, &hit);
	CHECK_EQ(read ? preq_read(p, &win, &q, 0, 1U << 20)
	              : preq_flush(p, &win, &q, 0, 1U << 20, WEFT_FLUSH_PERSISTENT),
	         0);
	for (unsigned int n = 0; n < 2000 && q.done == 0; n++)
		rig_poll(&r);
	stuck = q.done == 0;
	CHECK_EQ(weft_vol_revoke(&from) > 0, stuck);
	requests = weft_block_fault_requests(r.block);
	weft_block_fault_stick(r.block, NULL);
	(void)preq_wait(&r, &q);
	CHECK_EQ(weft_block_fault_requests(r.block), requests);
	CHECK(stuck ? q.req.status == 0 || q.req.status == -ECANCELED : q.req.status == 0);
	if (read)
		weft_vol_windows_medium(p)->ops->release(weft_vol_windows_medium(p), &q.req);
	win_close(&win);
	CHECK_EQ(win.closed, 1);
	CHECK_EQ(weft_vol_windows_destroy(p), 0);
	CHECK_EQ(weft_vol_client_close(&from), 0);
	rig_end(&r);
	return stuck;
}

static void
test_stuck(void)
{
	for (unsigned int i = 0; i < 4; i++) {
		const bool read = i % 2 == 0, sums = i / 2 == 0;
		unsigned int stuck = 0;

		while (stuck < 300 && revoke_stuck(stuck, read, sums))
			stuck++;
		CHECK_MSG(stuck >= (read ? 1U : 53U) && stuck < 300, "%u requests", stuck);
	}
}

WEFT_TEST_MAIN({"cuts", test_cuts}, {"mutants are found", test_mutants},
               {"windows of old owners", test_ghosts},
               {"an open range is found", test_ghost_mutant},
               {"no new request of a window that is given up on", test_stuck})
