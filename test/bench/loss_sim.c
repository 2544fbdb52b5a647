/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * The time of Writes over a simulated link with loss, from the post to the completion at the
 * target. Deterministic: the same arguments print the same figures on every machine.
 *
 *     bench_loss_sim [LOSS_PPM [DELAY_US [DEPTH [WRITES [BYTES [MTU [SEED [THINK_US [AHEAD]]]]]]]]]
 *
 * AHEAD: 1: both sides ask for markers; 2: and place Writes behind a gap.
 */

#include "loss_run.h"

int
main(int argc, char **argv)
{
	unsigned long v[] = {10000, 20, 1, 20000, 65536, 1500, 1, 0, 0};
	struct weft_mpa_policy mpa = {.size = sizeof(mpa)};
	struct loss_cfg cfg = {.rate_bps = 10000000000ULL};
	struct loss_result r;

	for (int i = 1; i < argc && i <= (int)RTE_DIM(v); i++)
		v[i - 1] = strtoul(argv[i], NULL, 0);
	cfg.loss_ppm = (uint32_t)v[0];
	cfg.delay_ns = v[1] * 1000;
	cfg.depth = (uint32_t)v[2];
	cfg.writes = (uint32_t)v[3];
	cfg.write_bytes = (uint32_t)v[4];
	cfg.mtu_bytes = (uint16_t)v[5];
	cfg.seed = v[6];
	cfg.think_ns = v[7] * 1000;
	mpa.markers = v[8] > 0;
	mpa.place_ahead = v[8] > 1;
	cfg.mpa = &mpa;
	test_bail_aborts = true;
	loss_run(&cfg, &r);
	loss_print(&cfg, &r, stdout);
	return 0;
}
