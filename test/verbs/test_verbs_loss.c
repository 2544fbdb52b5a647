/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The time of 64 KiB Writes over a link that loses packets. The simulation is deterministic and its
 * time is not the machine's, so bounds on the time can be checked.
 */

#include "loss_run.h"

static void
run(uint32_t loss_ppm, uint64_t delay_ns, const struct weft_mpa_policy *mpa, uint64_t seed,
    struct loss_result *r)
{
	struct loss_cfg cfg = {.seed = seed,
	                       .loss_ppm = loss_ppm,
	                       .delay_ns = delay_ns,
	                       .rate_bps = 10000000000ULL,
	                       .mtu_bytes = 1500,
	                       .write_bytes = 65536,
	                       .writes = 1000,
	                       .depth = 1,
	                       .mpa = mpa};

	test_seed_note(seed);
	loss_run(&cfg, r);
	test_note("seed %" PRIu64 ": p50 %.0f us, p99 %.0f us, max %.0f us, timeouts %" PRIu64
	          ", most mbufs behind gaps %u",
	          seed, r->p50_us, r->p99_us, r->max_us, r->rtos, r->ooo_mbufs);
}

/**
 * One percent, 40 us round trip: a tail that is lost costs a probe, not the 40 ms for which common
 * stacks delay an ACK; a retransmission that is lost costs a probe, not a timeout.
 */
static void
test_one_percent(void)
{
	for (unsigned int i = 0; i < 3 && (i == 0 || !test_seed_given()); i++) {
		struct loss_result r;

		run(10000, 20000, NULL, test_seed(1 + i), &r);
		CHECK(r.p50_us < 300);
		CHECK(r.p99_us < 4000);
		/* A tail and its probe, both lost. */
		CHECK(r.rtos <= 2);
	}
}

static void
test_one_per_mille(void)
{
	for (unsigned int i = 0; i < 3 && (i == 0 || !test_seed_given()); i++) {
		struct loss_result r;

		run(1000, 20000, NULL, test_seed(1 + i), &r);
		CHECK(r.p50_us < 120);
		CHECK(r.p99_us < 1000);
		CHECK_EQ(r.rtos, 0);
	}
}

/** Writes that are placed behind the gaps need fewer buffers there, and are not slower. */
static void
test_place_ahead(void)
{
	static const struct weft_mpa_policy markers = {.size = sizeof(markers), .markers = true},
	                                    ahead = {.size = sizeof(ahead), .place_ahead = true};

	for (unsigned int i = 0; i < 3 && (i == 0 || !test_seed_given()); i++) {
		struct loss_result r[2];

		run(10000, 20000, &markers, test_seed(1 + i), &r[0]);
		run(10000, 20000, &ahead, test_seed(1 + i), &r[1]);
		CHECK(r[1].ooo_mbufs * 3 < r[0].ooo_mbufs);
		CHECK(r[1].p99_us < 4000);
	}
}

WEFT_TEST_MAIN({"one percent", test_one_percent}, {"one per mille", test_one_per_mille},
               {"placed ahead", test_place_ahead})
