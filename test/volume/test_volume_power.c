/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Power cuts under a volume: what was promised is on the medium, and what was not is old or
 * new.
 *
 * A change fills its range with a number of its own. After the cut each octet has to be that of the
 * last change which was promised to be durable there, or of a later one. A change is promised to be
 * durable when it was asked to be and is done, or when its client's flush is done that was
 * submitted behind it: after the end of the change, or over its range. Not promised any more is
 * what a client was told to be lost. Some writes are of eight octets that must be old or new
 * together.
 */

#include <errno.h>
#include <stdlib.h>

#include "volume_rig.h"
#include "volume_sabotage.h"

#define DISK_BYTES (7U << 20)
#define VOL_BYTES  49152U
#define WORDS      512U /**< so many octets at the beginning have only writes of eight */
#define FLIGHT     12U
#define CHANGES    250U
#define CLIENTS    3U
#define MAX_LEN    9000U

/** A change, in the order of submission. */
struct change {
	uint64_t off, len;
	uint8_t value;
	unsigned int client;
	unsigned int done_at; /**< 0: not yet, or failed */
	bool durable, lost, never, ended;
};

struct flight {
	struct rig_op o;
	uint8_t mem[MAX_LEN + 4096], expect[MAX_LEN];
	bool busy;
	unsigned int client;
	int change;          /**< of a change: its number; else -1 */
	unsigned int before; /**< of a flush: changes submitted before, */
	unsigned int at;     /**< and the number of operations that were done by then */
};

struct power {
	struct rig r;
	uint64_t seed;
	struct weft_vol_client client[CLIENTS];
	struct flight f[FLIGHT];
	struct change c[CHANGES];
	unsigned int changes, done;
	uint8_t first[VOL_BYTES], is[VOL_BYTES];
	unsigned int wrong; /**< octets that break a promise */
	unsigned int flushes, lost;
};

static void
power_change(struct power *p, struct flight *f, uint8_t value)
{
	p->c[p->changes] = (struct change){.off = f->o.op.off_bytes,
	                                   .len = f->o.op.len_bytes,
	                                   .value = value,
	                                   .client = f->client};
	f->change = (int)p->changes++;
}

static void
power_begin(struct power *p, struct flight *f)
{
	static const enum weft_vol_kind kinds[] = {
	        WEFT_VOL_WRITE, WEFT_VOL_WRITE,  WEFT_VOL_WRITE,   WEFT_VOL_WRITE, WEFT_VOL_FLUSH,
	        WEFT_VOL_FLUSH, WEFT_VOL_ZEROES, WEFT_VOL_DISCARD, WEFT_VOL_READ};
	enum weft_vol_kind kind = kinds[rig_draw(&p->seed, 9)];
	const bool word = kind == WEFT_VOL_WRITE && rig_draw(&p->seed, 3) == 0;
	const bool changes =
	        kind == WEFT_VOL_WRITE || kind == WEFT_VOL_ZEROES || kind == WEFT_VOL_DISCARD;
	uint64_t len = 1 + rig_draw(&p->seed, MAX_LEN);
	uint64_t off = WORDS + rig_draw(&p->seed, VOL_BYTES - WORDS - len + 1);
	uint8_t value = (uint8_t)(1 + p->changes);

	if (changes && p->changes == CHANGES)
		return;
	if (word) {
		off = rig_draw(&p->seed, WORDS / 8) * 8;
		len = 8;
	}
	if (kind == WEFT_VOL_FLUSH && rig_draw(&p->seed, 2) == 0)
		off = len = 0;
	memset(f->mem, value, sizeof(f->mem));
	rig_op(&f->o, kind, off, len,
	       kind == WEFT_VOL_WRITE || kind == WEFT_VOL_READ
	               ? f->mem + (rig_draw(&p->seed, 2) == 0 ? off % 512 : 1)
	               : NULL);
	f->client = (unsigned int)rig_draw(&p->seed, CLIENTS);
	f->o.op.client = &p->client[f->client];
	f->o.op.flags = (changes && rig_draw(&p->seed, 4) == 0 ? WEFT_VOL_DURABLE : 0U) |
	                (word ? WEFT_VOL_WHOLE : 0U);
	f->change = -1;
	f->before = p->changes;
	f->at = p->done;
	f->busy = true;
	if (changes)
		power_change(p, f, kind == WEFT_VOL_WRITE ? value : 0);
	if (kind == WEFT_VOL_DISCARD)
		p->c[f->change].never = true; /* perhaps without effect */
	rig_submit(&p->r, f->client % p->r.nchans, &f->o);
}

/** A client's flush is done: what it promises. */
static void
power_flushed(struct power *p, const struct flight *f)
{
	const uint64_t lo = f->o.op.off_bytes,
	               hi = f->o.op.len_bytes == 0 ? VOL_BYTES : lo + f->o.op.len_bytes;

	p->flushes++;
	for (unsigned int i = 0; i < p->changes; i++) {
		struct change *c = &p->c[i];

		/* Changes of the range that came before it have ended, whoever made them. */
		if (f->o.op.status == 0 && i < f->before && !c->ended && c->off < hi &&
		    lo < c->off + c->len)
			p->wrong++;
		if (c->client != f->client || c->done_at == 0)
			continue;
		if (f->o.op.status != 0) {
			if (!c->durable)
				c->lost = true;
		} else if (!c->lost && i < f->before &&
		           (c->done_at <= f->at || (c->off < hi && lo < c->off + c->len))) {
			c->durable = true;
		}
	}
	p->lost += f->o.op.status != 0;
}

static void
power_end(struct power *p, struct flight *f)
{
	const struct weft_vol_op *op = &f->o.op;

	f->busy = false;
	p->done++;
	CHECK_EQ(f->o.done, 1);
	if (f->change >= 0)
		p->c[f->change].ended = true;
	if (f->change >= 0 && op->status == 0) {
		p->c[f->change].done_at = p->done;
		p->c[f->change].durable |= (op->flags & WEFT_VOL_DURABLE) != 0;
	}
	if (op->kind == WEFT_VOL_FLUSH)
		power_flushed(p, f);
}

static void
power_look(struct power *p)
{
	for (;;) {
		struct flight *next = NULL;

		/* In the order of their ends: a flush promises what was done before. */
		for (unsigned int i = 0; i < FLIGHT; i++) {
			if (p->f[i].busy && p->f[i].o.done > 0 &&
			    (next == NULL || p->f[i].o.at < next->o.at))
				next = &p->f[i];
		}
		if (next == NULL)
			return;
		power_end(p, next);
	}
}

/** Whether an octet may have this value. */
static bool
power_allows(const struct power *p, uint64_t at, uint8_t value)
{
	for (unsigned int i = p->changes; i-- > 0;) {
		const struct change *c = &p->c[i];

		if (at < c->off || at >= c->off + c->len)
			continue;
		if (c->value == value)
			return true;
		if (c->durable && !c->never)
			return false;
	}
	return p->first[at] == value;
}

static void
power_judge(struct power *p)
{
	CHECK_EQ(rig_io(&p->r, WEFT_VOL_READ, 0, VOL_BYTES, p->is, 0), 0);
	for (uint64_t at = 0; at < VOL_BYTES; at++)
		p->wrong += !power_allows(p, at, p->is[at]);
	for (uint64_t at = 0; at < WORDS; at += 8) {
		for (unsigned int i = 1; i < 8; i++)
			p->wrong += p->is[at + i] != p->is[at];
	}
}

static void
power_open(struct power *p, unsigned int chans)
{
	rig_open(&p->r, chans, 2);
	for (unsigned int i = 0; i < CLIENTS; i++)
		weft_vol_client_open(p->r.chan[i % chans], &p->client[i]);
}

static void
power_close(struct power *p)
{
	for (unsigned int i = 0; i < CLIENTS; i++)
		CHECK_EQ(weft_vol_client_close(&p->client[i]), 0);
	rig_close(&p->r);
}

/** Operations until the power is cut. */
static void
power_life(struct power *p, const struct weft_block_fault_cfg *cfg)
{
	const uint64_t ops = 1 + rig_draw(&p->seed, 90);
	const struct weft_block_fault_hit hit = {.ops = 1U << WEFT_BLOCK_FLUSH,
	                                         .skip = rig_draw(&p->seed, 12)};

	power_open(p, 2);
	weft_block_fault_set(p->r.block, cfg);
	weft_block_fault_fail(p->r.block, rig_draw(&p->seed, 2) == 0 ? &hit : NULL, -EIO);
	for (uint64_t n = 0; n < ops;) {
		struct flight *f = &p->f[rig_draw(&p->seed, FLIGHT)];

		if (!f->busy) {
			power_begin(p, f);
			n++;
		}
		if (rig_draw(&p->seed, 2) == 0)
			rig_poll(&p->r);
		power_look(p);
	}
	weft_block_fault_cut(p->r.block);
	for (unsigned int i = 0; i < FLIGHT; i++) {
		if (p->f[i].busy)
			(void)rig_wait(&p->r, &p->f[i].o);
	}
	power_look(p);
	power_close(p);
	weft_block_fault_fail(p->r.block, NULL, 0);
	weft_block_fault_boot(p->r.block);
	power_open(p, 2);
	power_judge(p);
	power_close(p);
}

/** One seed; returns how many octets break a promise. */
static unsigned int
power_run(uint64_t seed, bool lies)
{
	struct weft_block_fault_cfg cfg = {.delay_max_ns = 8000,
	                                   .leak_ppm = 30000,
	                                   .busy_ppm = 50000,
	                                   .atom_bytes = seed % 3 == 0 ? 0 : 8,
	                                   .flush_lies = lies};
	struct power *p = calloc(1, sizeof(*p));
	unsigned int wrong;

	test_seed_note(seed);
	p->seed = seed;
	rig_device(&p->r, DISK_BYTES, seed % 2 == 0 ? 512 : 4096, seed);
	p->r.sums = seed % 4 == 1 || seed % 4 == 2;
	rig_format(&p->r, VOL_BYTES);
	for (unsigned int life = 0; life < 2 && p->wrong == 0; life++) {
		power_life(p, &cfg);
		/* What the medium has now is where the next life begins. */
		memcpy(p->first, p->is, VOL_BYTES);
		p->changes = p->done = 0;
	}
	wrong = p->wrong;
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

	for (unsigned int i = 0; i < power_runs(300); i++) {
		unsigned int wrong = power_run(seed + i, false);

		CHECK_MSG(wrong == 0, "%u octets break a promise", wrong);
	}
}

/** How many of some runs find a fault. */
static unsigned int
power_found(enum volume_sabotage fault, bool lies)
{
	unsigned int found = 0;

	volume_sabotage = fault;
	for (unsigned int i = 0; i < 60; i++)
		found += power_run(7000 + i, lies) > 0;
	volume_sabotage = VOLUME_SOUND;
	return found;
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
	               {VOLUME_FLUSH_NO_WAIT, false, "a flush that does not wait"},
	               {VOLUME_NOT_DURABLE, false, "a durable write that is not"},
	               {VOLUME_NOT_TOLD, false, "a client that is not told of a lost flush"}};

	for (unsigned int i = 0; i < sizeof(mutants) / sizeof(mutants[0]); i++) {
		unsigned int found = power_found(mutants[i].fault, mutants[i].lies);

		CHECK_MSG(found > 0, "not found: %s", mutants[i].what);
		test_note("%s: found in %u of 60 runs", mutants[i].what, found);
	}
}

/** A durable change of several steps is durable as a whole, not its last step alone. */
static void
test_long_durable(void)
{
	enum { OFF = 100, LEN = 5U << 19 };
	static const enum weft_vol_kind kinds[] = {WEFT_VOL_WRITE, WEFT_VOL_ZEROES};
	uint8_t *data = malloc(LEN), *is = malloc(LEN);

	CHECK(data != NULL && is != NULL);
	for (unsigned int i = 0; i < 16; i++) {
		const uint64_t off = (i & 4) != 0 ? WEFT_VOL_GROUP_BYTES - LEN / 2 : OFF;
		struct rig r;

		test_seed_note(1 + i);
		rig_device(&r, 24U << 20, 512, 1 + i);
		r.sums = (i & 1) != 0;
		rig_format(&r, 8U << 20);
		rig_open(&r, 1, 0);
		memset(data, 0x77, LEN);
		CHECK_EQ(rig_io(&r, WEFT_VOL_WRITE, off, LEN, data, WEFT_VOL_DURABLE), 0);
		memset(data, (i & 2) != 0 ? 0 : 0x99, LEN);
		CHECK_EQ(rig_io(&r, kinds[(i & 2) / 2], off, LEN, (i & 2) != 0 ? NULL : data,
		                WEFT_VOL_DURABLE),
		         0);
		weft_block_fault_cut(r.block);
		rig_close(&r);
		weft_block_fault_boot(r.block);
		rig_open(&r, 1, 0);
		CHECK_EQ(rig_io(&r, WEFT_VOL_READ, off, LEN, is, 0), 0);
		CHECK_MEM(is, data, LEN);
		rig_end(&r);
	}
	free(data);
	free(is);
}

WEFT_TEST_MAIN({"cuts", test_cuts}, {"a long durable change", test_long_durable},
               {"mutants are found", test_mutants})
