/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file An error of the device at each of its requests in turn. A client serves itself of every
 * procedure of version 2, and of a window, by a script. Another client writes, flushes and reads a
 * range of its own meanwhile. The script is run once for each request that the device gets during a
 * run without errors, and each kind of error: a request that fails with -EIO or -ENOSPC (a write
 * lands in part, a flush loses the device's cache), and one that is late by 12 s.
 *
 * Each call is answered, with a status that names the cause. What was acknowledged as durable is on
 * the medium, and all else is old or new (target_model.h). The other client goes on. Then the
 * script succeeds as a whole.
 */

#include <stdlib.h>

#include "target_model.h"
#include "target_rig.h"
#include "volume_sabotage.h"
#include "weft_test.h"

#define DISK_BYTES  (16U << 20)
#define MINE        (128U << 10) /* the script's octets, from 0 on */
#define OTHER       (32U << 10)  /* the other client's, behind them */
#define AREA        (MINE + OTHER)
#define LATE_NS     (12 * RIG_S)
#define STEP_MAX    (64U << 10)
#define OTHER_TRIES 3U

enum cause { CAUSE_NONE, CAUSE_IO, CAUSE_NOSPC, CAUSE_LATE, CAUSES };
static const char *const cause_names[CAUSES] = {"none", "-EIO", "-ENOSPC", "late"};

enum { STEP_RDMA = 100 }; /* behind all procedures: Write and Flush to the window */

/** A step of the script. The offset of STEP_RDMA is that in the volume. */
static const struct step {
	uint32_t proc, off, len, flags;
	bool on; /**< the next step begins before it is answered */
} script[] = {
        {WEFT_VOLRPC_WRITE, 0, 8192, 0, true},
        {WEFT_VOLRPC_WRITE, 12388, 5000, WEFT_VOLRPC_DURABLE, false},
        {WEFT_VOLRPC_FLUSH, 0, MINE, 0, false},
        {WEFT_VOLRPC_COMPARE_WRITE, 12000, 1000, WEFT_VOLRPC_DURABLE, false},
        {WEFT_VOLRPC_READ, 0, 32768, 0, false},
        {WEFT_VOLRPC_VERIFY, 0, 16384, 0, false},
        {WEFT_VOLRPC_ZEROES, 4096, 4096, WEFT_VOLRPC_DURABLE, true},
        {WEFT_VOLRPC_DISCARD, 32768, 16384, 0, false},
        {WEFT_VOLRPC_EXTENTS, 0, MINE, 0, false},
        {WEFT_VOLRPC_SNAPSHOT, 0, 0, 0, false},
        {WEFT_VOLRPC_SNAPSHOTS, 0, 0, 0, false},
        {WEFT_VOLRPC_SNAPSHOT_REMOVE, 0, 0, 0, false},
        {WEFT_VOLRPC_WINDOW_OPEN, 65536, 16384, WEFT_VOLRPC_WINDOW_FILL, false},
        {STEP_RDMA, 65536, 8192, 0, false},
        {STEP_RDMA, 74000, 2000, 0, false},
        {WEFT_VOLRPC_WINDOW_MOVE, 98304, 16384, WEFT_VOLRPC_WINDOW_FILL, false},
        {STEP_RDMA, 98304, 12288, 0, false},
        {WEFT_VOLRPC_WINDOW_CLOSE, 0, 0, 0, false},
        {WEFT_VOLRPC_WRITE, 20001, 50000, 0, false},
        {WEFT_VOLRPC_COMPARE_WRITE, 81920, 512, 0, false},
        {WEFT_VOLRPC_ZEROES, 0, 100, 0, false},
        {WEFT_VOLRPC_FLUSH, 0, MINE, 0, false},
        {WEFT_VOLRPC_READ, 0, STEP_MAX, 0, true},
        {WEFT_VOLRPC_VERIFY, 60000, 50000, 0, false},
};
#define STEPS (sizeof(script) / sizeof(script[0]))

/** A client that writes, flushes and reads its range, as long as it is asked to. */
struct other {
	struct rig_conn k;
	weft_volrpc_grant grant;
	struct rig_call call;
	uint8_t *mem, value;
	unsigned int phase, tries, rounds, rounds_max;
	bool on, failed; /**< failed: an operation did not succeed in OTHER_TRIES rounds */
};

static struct errors {
	struct model m;
	struct rig_conn k;
	weft_volrpc_grant grant;
	weft_volrpc_window win;
	uint32_t win_off;
	bool win_open;
	struct rig_call call[STEPS];
	struct rig_wr wr[STEPS];
	bool posted[STEPS], sure[STEPS];
	uint8_t value[STEPS];
	uint8_t is[AREA], expect[STEPS][STEP_MAX];
	enum cause cause;
	bool stuck;
	unsigned int failures; /**< answers other than OK */
	unsigned int bad;      /**< answers that no error explains */
	uint8_t next;          /**< value of the next change */
	struct other o;
} * e;

static uint8_t
next_value(void)
{
	e->next = (uint8_t)(e->next % 30 + 1);
	return e->next;
}

/** An answer that the error of this run explains. */
static bool
explained(const struct rig_call *c)
{
	if (c->rpc != WEFT_RPC_OK || (c->status != WEFT_VOLRPC_OK && c->why[0] == '\0'))
		return false;
	switch (c->status) {
	case WEFT_VOLRPC_OK:
		return true;
	case WEFT_VOLRPC_IO:
		return e->cause == CAUSE_IO;
	case WEFT_VOLRPC_NOSPC:
		return e->cause == CAUSE_NOSPC;
	default:
		return false;
	}
}

/** Whether it is OK; counts what is not. */
static bool
judge(const struct rig_call *c)
{
	if (!explained(c)) {
		e->bad++;
		test_note("procedure %u: %s, status %u %s", c->proc, weft_rpc_status_str(c->rpc),
		          c->status, c->why);
	}
	if (c->rpc == WEFT_RPC_OK && c->status == WEFT_VOLRPC_OK)
		return true;
	e->failures++;
	/* By nothing but a flush a client learns that one was lost. */
	if (c->proc == WEFT_VOLRPC_FLUSH)
		model_lost(&e->m, c == &e->o.call ? MINE : 0, c == &e->o.call ? OTHER : MINE);
	return false;
}

/* ---- The other client ---- */

static void
other_next(void)
{
	struct other *o = &e->o;
	const uint64_t off = MINE + (o->rounds & 3) * 6000;

	if (!o->on || o->rounds >= o->rounds_max)
		return;
	o->call = (struct rig_call){.then = o->call.then};
	if (o->phase == 0) {
		o->value = (uint8_t)(32 + o->value % 31);
		memset(o->mem, o->value, 6000);
		model_begin(&e->m, off, 6000, o->value);
		o->call.proc = WEFT_VOLRPC_WRITE;
		o->call.args.write = (weft_volrpc_write_args){
		        .handle = o->grant.handle,
		        .off = off,
		        .data = {.data_len = 6000, .data_val = (char *)o->mem}};
	} else if (o->phase == 1) {
		o->call.proc = WEFT_VOLRPC_FLUSH;
		o->call.args.range = (weft_volrpc_range_args){
		        .handle = o->grant.handle, .off = MINE, .len = OTHER};
	} else {
		o->call.proc = WEFT_VOLRPC_READ;
		o->call.args.read = (struct weft_volrpc_read_call){
		        .args = {.handle = o->grant.handle, .off = MINE, .count = OTHER},
		        .into = o->mem + 8192};
	}
	rig_call(&o->k, &o->call);
}

static void
other_then(struct rig_call *c)
{
	struct other *o = &e->o;
	const uint64_t off = MINE + (o->rounds & 3) * 6000;

	if (!judge(c)) {
		/* It is told, and does it again. */
		o->failed = o->failed || ++o->tries >= OTHER_TRIES;
		o->phase = 0;
		other_next();
		return;
	}
	if (o->phase == 0)
		model_done(&e->m, off, 6000, o->value, false);
	else if (o->phase == 1)
		model_flushed(&e->m, MINE, OTHER);
	else
		model_read(&e->m, MINE, o->mem + 8192, OTHER);
	o->phase = (o->phase + 1) % 3;
	if (o->phase == 0) {
		o->rounds++;
		o->tries = 0;
	}
	other_next();
}

static void
other_start(void)
{
	struct other *o = &e->o;

	o->on = true;
	o->phase = o->tries = o->rounds = 0;
	/* So many in the time of a late request: that time is long. */
	o->rounds_max = e->cause == CAUSE_LATE ? 50 : UINT32_MAX;
	o->failed = false;
	o->call.then = other_then;
	other_next();
}

/* ---- The script ---- */

/** Wait; in the run of a late request it is late by LATE_NS. */
static void
wait_for(bool (*done)(void *arg), void *arg)
{
	if (rig_until(LATE_NS, done, arg))
		return;
	CHECK(e->cause == CAUSE_LATE && e->stuck);
	/* Unless the request is its own, the other client has gone on. */
	CHECK(!e->o.call.done || e->o.rounds >= e->o.rounds_max);
	weft_block_fault_stick(rig.block, NULL);
	e->stuck = false;
	CHECK(rig_until(LATE_NS, done, arg));
}

static void
other_stop(void)
{
	e->o.on = false;
	wait_for(rig_is_done, &e->o.call);
}

static void
step_call(unsigned int i, uint8_t *mem)
{
	static char snapshot[] = "s", none[] = "";
	const struct step *s = &script[i];
	struct rig_call *c = &e->call[i];

	switch (s->proc) {
	case WEFT_VOLRPC_READ:
		c->args.read = (struct weft_volrpc_read_call){
		        .args = {.handle = e->grant.handle, .off = s->off, .count = s->len},
		        .into = mem};
		break;
	case WEFT_VOLRPC_WRITE:
		c->args.write = (weft_volrpc_write_args){
		        .handle = e->grant.handle,
		        .off = s->off,
		        .flags = s->flags,
		        .data = {.data_len = s->len, .data_val = (char *)mem}};
		break;
	case WEFT_VOLRPC_COMPARE_WRITE:
		e->sure[i] = model_expect(&e->m, s->off, e->expect[i], s->len, e->m.lossy);
		c->args.compare = (weft_volrpc_compare_args){
		        .handle = e->grant.handle,
		        .off = s->off,
		        .flags = s->flags,
		        .expect = {.expect_len = s->len, .expect_val = (char *)e->expect[i]},
		        .data = {.data_len = s->len, .data_val = (char *)mem}};
		break;
	case WEFT_VOLRPC_WINDOW_OPEN:
		c->args.window = (weft_volrpc_window_args){.handle = e->grant.handle,
		                                           .off = s->off,
		                                           .len = s->len,
		                                           .rights = RIG_RIGHTS,
		                                           .flags = s->flags};
		break;
	case WEFT_VOLRPC_WINDOW_MOVE:
		c->args.move = (weft_volrpc_move_args){
		        .window = e->win.window, .off = s->off, .len = s->len, .flags = s->flags};
		break;
	case WEFT_VOLRPC_WINDOW_CLOSE:
		c->args.wclose.window = e->win.window;
		break;
	case WEFT_VOLRPC_SNAPSHOT:
	case WEFT_VOLRPC_SNAPSHOTS:
	case WEFT_VOLRPC_SNAPSHOT_REMOVE:
		c->args.snap = (weft_volrpc_snap_args){
		        .handle = e->grant.handle,
		        .name = s->proc == WEFT_VOLRPC_SNAPSHOTS ? none : snapshot,
		        .from = none};
		break;
	default:
		if (s->proc == WEFT_VOLRPC_VERIFY)
			e->sure[i] = model_expect(&e->m, s->off, e->expect[i], s->len, true);
		c->args.range = (weft_volrpc_range_args){
		        .handle = e->grant.handle, .off = s->off, .len = s->len, .flags = s->flags};
		break;
	}
	rig_call(&e->k, c);
}

static bool
step_changes(const struct step *s)
{
	return s->proc == WEFT_VOLRPC_WRITE || s->proc == WEFT_VOLRPC_COMPARE_WRITE ||
	       s->proc == WEFT_VOLRPC_ZEROES || s->proc == WEFT_VOLRPC_DISCARD ||
	       s->proc == STEP_RDMA;
}

static void
step_begin(unsigned int i)
{
	const struct step *s = &script[i];
	uint8_t *mem = rig.node[0].mem + i * STEP_MAX;

	e->call[i] = (struct rig_call){.proc = s->proc};
	e->posted[i] = false;
	e->value[i] =
	        s->proc == WEFT_VOLRPC_ZEROES || s->proc == WEFT_VOLRPC_DISCARD ? 0 : next_value();
	memset(mem, e->value[i], s->len);
	if (step_changes(s) && (s->proc != STEP_RDMA || e->win_open))
		model_begin(&e->m, s->off, s->len, e->value[i]);
	if (s->proc != STEP_RDMA) {
		if (s->proc < WEFT_VOLRPC_WINDOW_MOVE || s->proc >= WEFT_VOLRPC_SNAPSHOT ||
		    e->win_open)
			step_call(i, mem);
		else
			e->call[i].done = true; /* there is no window */
		return;
	}
	if (e->win_open && s->off >= e->win_off)
		e->posted[i] = rig_rdma(&e->k, e->win.stag, e->win.to + s->off - e->win_off, mem,
		                        s->len, true, &e->wr[i]);
}

static void
check_hash(unsigned int i)
{
	const struct weft_hash_ops *h = weft_hash_find("crc32c");
	uint8_t is[WEFT_HASH_MAX_BYTES];

	CHECK_EQ(e->call[i].hash_bytes, h->result_bytes);
	CHECK_EQ(weft_hash_once(h, e->expect[i], script[i].len, is), 0);
	if (e->sure[i] && memcmp(is, e->call[i].hash, h->result_bytes) != 0)
		e->m.wrong++;
}

/** A step was answered. */
static void
step_end(unsigned int i)
{
	const struct step *s = &script[i];
	struct rig_call *c = &e->call[i];

	if (s->proc == STEP_RDMA) {
		if (!e->posted[i])
			return;
		if (e->wr[i].status == WEFT_WC_SUCCESS) {
			model_done(&e->m, s->off, s->len, e->value[i], true);
		} else {
			e->failures++;
			e->bad += e->cause == CAUSE_NONE || e->cause == CAUSE_LATE;
			model_lost(&e->m, 0, MINE);
		}
		return;
	}
	if (c->conn == NULL)
		return;
	if (c->status == WEFT_VOLRPC_MISMATCH && !e->sure[i]) /* nothing was changed */
		return;
	/* The removal of an earlier one has failed, or this one was not made. */
	if ((s->proc == WEFT_VOLRPC_SNAPSHOT && c->status == WEFT_VOLRPC_EXIST) ||
	    (s->proc == WEFT_VOLRPC_SNAPSHOT_REMOVE && c->status == WEFT_VOLRPC_NOENT))
		return;
	/* What it waits for does not end: it gives up, so that changes behind it go on. */
	if (s->proc == WEFT_VOLRPC_SNAPSHOT && c->status == WEFT_VOLRPC_TIMEDOUT &&
	    e->cause == CAUSE_LATE) {
		/* The request is late enough. Much later, its own client would be told. */
		weft_block_fault_stick(rig.block, NULL);
		e->stuck = false;
		return;
	}
	if (s->proc == WEFT_VOLRPC_WINDOW_MOVE && c->status != WEFT_VOLRPC_OK)
		e->win_open = false; /* it could not be filled, and is gone */
	if (!judge(c))
		return;
	switch (s->proc) {
	case WEFT_VOLRPC_READ:
		model_read(&e->m, s->off, rig.node[0].mem + i * STEP_MAX, s->len);
		break;
	case WEFT_VOLRPC_FLUSH:
		model_flushed(&e->m, s->off, s->len);
		break;
	case WEFT_VOLRPC_VERIFY:
		check_hash(i);
		break;
	case WEFT_VOLRPC_DISCARD: /* old octets or zeros */
	case WEFT_VOLRPC_SNAPSHOT:
	case WEFT_VOLRPC_SNAPSHOT_REMOVE:
		break;
	case WEFT_VOLRPC_SNAPSHOTS:
		e->m.wrong += c->items > 1;
		break;
	case WEFT_VOLRPC_WINDOW_OPEN:
		e->win = c->win;
		e->win_open = true;
		e->win_off = s->off;
		break;
	case WEFT_VOLRPC_WINDOW_MOVE:
		e->win_off = s->off;
		break;
	case WEFT_VOLRPC_WINDOW_CLOSE:
		e->win_open = false;
		break;
	case WEFT_VOLRPC_EXTENTS:
		CHECK(c->extents > 0);
		break;
	default:
		model_done(&e->m, s->off, s->len, e->value[i],
		           (s->flags & WEFT_VOLRPC_DURABLE) != 0);
		break;
	}
}

static bool
step_is_over(void *arg)
{
	const unsigned int i = *(const unsigned int *)arg;

	return script[i].proc == STEP_RDMA ? !e->posted[i] || e->wr[i].done : e->call[i].done;
}

static void
look_at_medium(void)
{
	rig_medium(0, e->is, AREA);
	model_medium(&e->m, 0, e->is, AREA);
}

static void
connect_all(void)
{
	rig_connected(&e->k, 0);
	CHECK_EQ(rig_grant(&e->k, RIG_RIGHTS, &e->grant), WEFT_VOLRPC_OK);
	e->win_open = false;
}

static bool
is_gone(void *arg)
{
	return ((const struct rig_conn *)arg)->gone;
}

/** Run the script, with the other client beside it. */
static void
run_script(void)
{
	unsigned int first = 0;

	e->failures = 0;
	other_start();
	for (unsigned int i = 0; i < STEPS; i++) {
		step_begin(i);
		if (script[i].on)
			continue;
		for (; first <= i; first++) {
			wait_for(step_is_over, &first);
			step_end(first);
		}
		look_at_medium();
		/* A Flush that fails ends its stream, and with it the script. */
		if (script[i].proc == STEP_RDMA && e->posted[i] &&
		    e->wr[i].status != WEFT_WC_SUCCESS) {
			CHECK(rig_until(RIG_S, is_gone, &e->k));
			break;
		}
		CHECK(!e->k.gone);
	}
	other_stop();
	CHECK(!e->o.failed);
	if (e->k.gone) {
		rig_disconnect(&e->k);
		rig_run(RIG_MS);
		connect_all();
	}
	if (e->win_open) {
		struct rig_call c = {.proc = WEFT_VOLRPC_WINDOW_CLOSE,
		                     .args.wclose.window = e->win.window};

		rig_call(&e->k, &c);
		rig_wait(&c);
		CHECK(c.status == WEFT_VOLRPC_OK || c.status == WEFT_VOLRPC_STALE);
		e->win_open = false;
	}
}

/** Each client is told of a lost flush at most once. */
static void
settle(void)
{
	for (unsigned int n = 0; n < 4; n++) {
		const bool mine = n % 2 == 0;
		struct rig_call c = {
		        .proc = WEFT_VOLRPC_FLUSH,
		        .args.range = {.handle = mine ? e->grant.handle : e->o.grant.handle,
		                       .off = mine ? 0 : MINE,
		                       .len = mine ? MINE : OTHER}};

		rig_call(mine ? &e->k : &e->o.k, &c);
		rig_wait(&c);
		CHECK_EQ(c.rpc, WEFT_RPC_OK);
		CHECK(c.status == WEFT_VOLRPC_OK || (n < 2 && explained(&c)));
		if (c.status == WEFT_VOLRPC_OK)
			model_flushed(&e->m, mine ? 0 : MINE, mine ? MINE : OTHER);
		else
			model_lost(&e->m, mine ? 0 : MINE, mine ? MINE : OTHER);
	}
	look_at_medium();
}

static void
errors_begin(const char *export, uint64_t seed)
{
	const struct rig_attr a = {.seed = seed,
	                           .workers = 2,
	                           .bytes = DISK_BYTES,
	                           .target = "staging = 8M\nwindow = 64K\n",
	                           .export = export};
	const struct weft_block_fault_cfg cfg = {.delay_max_ns = 20000, .leak_ppm = 5000};

	test_seed_note(seed);
	rig_open(&a);
	weft_block_fault_set(rig.block, &cfg);
	e = calloc(1, sizeof(*e));
	CHECK(e != NULL);
	model_open(&e->m, AREA);
	connect_all();
	e->o.mem = rig.node[1].mem;
	rig_connected(&e->o.k, 1);
	CHECK_EQ(rig_grant(&e->o.k, RIG_RIGHTS, &e->o.grant), WEFT_VOLRPC_OK);
}

static void
errors_end(void)
{
	rig_disconnect(&e->k);
	rig_disconnect(&e->o.k);
	rig_run(RIG_MS);
	CHECK_MSG(rig_until(5 * RIG_S, rig_is_clean, NULL), "%s are left", rig_left());
	model_close(&e->m);
	free(e);
	rig_close();
}

/** The script without an error; returns the number of requests of the device. */
static uint64_t
well(void)
{
	const uint64_t before = weft_block_fault_requests(rig.block);

	e->cause = CAUSE_NONE;
	e->m.lossy = false;
	run_script();
	return weft_block_fault_requests(rig.block) - before;
}

/** Whether the error was seen by a client. */
static bool
ill(enum cause cause, uint64_t nth)
{
	const struct weft_block_fault_hit hit = {.skip = nth};

	e->cause = cause;
	e->m.lossy = cause != CAUSE_LATE;
	e->stuck = cause == CAUSE_LATE;
	if (cause == CAUSE_LATE)
		weft_block_fault_stick(rig.block, &hit);
	else
		weft_block_fault_fail(rig.block, &hit, cause == CAUSE_IO ? -EIO : -ENOSPC);
	run_script();
	weft_block_fault_fail(rig.block, NULL, 0);
	weft_block_fault_stick(rig.block, NULL);
	return e->failures > 0;
}

/** Wrong octets and answers of a script with an error at each request. */
static unsigned int
all_of(const char *export, uint64_t seed, enum cause cause, unsigned int *seen, unsigned int *runs)
{
	unsigned int wrong;
	uint64_t requests;

	errors_begin(export, seed);
	requests = well();
	for (uint64_t nth = 0; nth < requests && e->m.wrong + e->bad == 0; nth++) {
		*seen += ill(cause, nth);
		++*runs;
		settle();
		(void)well();
		if (e->m.wrong + e->bad > 0)
			test_note("%s at request %u: %u octets, the first at %u; %u answers",
			          cause_names[cause], (unsigned int)nth, e->m.wrong,
			          (unsigned int)e->m.wrong_at, e->bad);
	}
	wrong = e->m.wrong + e->bad;
	errors_end();
	return wrong;
}

static void
each_request(const char *export)
{
	for (enum cause c = CAUSE_IO; c < CAUSES; c++) {
		unsigned int seen = 0, runs = 0;

		CHECK_EQ(all_of(export, test_seed(7 + c), c, &seen, &runs), 0);
		test_note("%s: %u runs, in %u of them a client was told", cause_names[c], runs,
		          seen);
		CHECK(c == CAUSE_LATE ? seen == 0 : seen > runs * 3 / 4);
	}
}

static void
test_plain(void)
{
	each_request(NULL);
}

static void
test_sums(void)
{
	each_request("checksums = yes");
}

static void
test_mutants(void)
{
	static const struct {
		enum volume_sabotage fault;
		const char *name;
	} mutants[] = {{VOLUME_FLUSH_EARLY, "a flush that is answered early"},
	               {VOLUME_WINDOW_EARLY, "a window's flush that is answered early"},
	               {VOLUME_NOT_DURABLE, "durable changes that are not"},
	               {VOLUME_NOT_TOLD, "a lost flush that is not told"}};

	for (unsigned int i = 0; i < sizeof(mutants) / sizeof(mutants[0]); i++) {
		unsigned int seen = 0, runs = 0, wrong = 0;
		uint64_t seed = 20;

		volume_sabotage = mutants[i].fault;
		for (; wrong == 0 && seed < 30; seed++)
			wrong = all_of(NULL, seed, CAUSE_IO, &seen, &runs);
		volume_sabotage = VOLUME_SOUND;
		CHECK_MSG(wrong > 0, "%s is not found", mutants[i].name);
		test_note("%s: found in run %u", mutants[i].name, runs);
	}
}

WEFT_TEST_MAIN({"each request fails or is late", test_plain},
               {"each request fails or is late, with checksums", test_sums},
               {"mutants are found", test_mutants})
