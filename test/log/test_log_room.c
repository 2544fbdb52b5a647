/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The room at a target that catches up: what its durable head still names is not overwritten,
 * and its head moves before that is needed. The medium is judged at each step.
 */

#include "lt_three.h"

#define RING 65536

static void
begin(void)
{
	static struct weft_log_attr la = {.max_appends = 16};
	struct lt_attr a = {
	        .seed = 1, .quick = true, .no_trim = true, .ring_bytes = RING, .la = &la};

	start(&a);
}

/** Target 1, which is away, returns, and the first records that it missed are on the way. The log
 * is trimmed only then, so its head moves when there is no room any more. */
static void
returns(uint64_t keep)
{
	slow(1, 40);
	CHECK_EQ(lt_join(&l, 1), 0);
	CHECK(lt_until(&l, one_catches));
	vt_run(&l.t, 2 * VT_MS);
	trim_to(&l.rec[keep].at);
	vt_run(&l.t, 5 * VT_MS);
}

/** Target 1 gets everything, and the log opens with it. */
static void
gets_there(void)
{
	CHECK(one_catches(&l));
	for (unsigned int ms = 0; ms < 4000 && l.verdict == LT_SOUND && !is_live(1); ms++) {
		CHECK(!lt_words(&l, 1).bad);
		vt_run(&l.t, VT_MS);
	}
	CHECK_MSG(l.verdict == LT_SOUND, "%s", lt_verdict_str(l.verdict));
	CHECK(is_live(1));
	CHECK_EQ(l.events[WEFT_LOG_EV_DAMAGED], 0);
	slow(1, 0);
	CHECK(lt_until(&l, all_live));
	CHECK_EQ(lt_info(&l).resets, 0);
	power_cut();
	lt_recover(&l, 3);
	finish();
}

/* A record that is longer than the buffer is copied in pieces. All of it must have room. */
static void
test_long(void)
{
	for (uint32_t len = 9000; len <= 16000; len += 1000) {
		begin();
		put(34, 936);
		CHECK(lt_until(&l, all_live));
		trim_to(&l.rec[12].at);
		vt_run(&l.t, 5 * VT_MS);
		drop(1);
		put(15, 936);
		returns(33);
		put(15, 936);
		put(1, len);
		put(10, 936);
		gets_there();
	}
}

/* What is copied passes a filler, and is then more than the ring behind the target's head. */
static void
test_filler(void)
{
	for (uint32_t first = 136; first <= 936; first += 200)
		for (uint32_t len = 5500; len <= 8500; len += 1000) {
			uint64_t last;

			begin();
			put(50, 936);
			CHECK(lt_until(&l, all_live));
			trim_to(&l.rec[45].at);
			vt_run(&l.t, 50 * VT_MS);
			put(15, 936);
			put(1, first);
			CHECK(lt_until(&l, all_live));
			trim_to(&l.rec[l.durable - 1].at);
			vt_run(&l.t, 50 * VT_MS);
			put(40, 936);
			CHECK(lt_until(&l, all_live));
			last = l.durable - 1;
			drop(1);
			put(15, 936);
			returns(last - 5);
			put(3, 936);
			put(1, len);
			put(10, 936);
			gets_there();
		}
}

WEFT_TEST_MAIN({"a long record behind an old head", test_long},
               {"a filler behind an old head", test_filler})
