/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOSS_RUN_H
#define LOSS_RUN_H

/**
 * @file
 * Writes with Immediate Data over a simulated link with loss: how long each takes from the post to
 * the completion at the target, and what TCP did meanwhile. The seed determines every figure.
 */

#include "vt.h"

struct loss_cfg {
	uint64_t seed;
	uint32_t loss_ppm; /**< of both directions */
	uint64_t delay_ns; /**< one way */
	uint64_t rate_bps; /**< of the link; 0: no limit */
	uint16_t mtu_bytes;
	uint32_t write_bytes;
	uint32_t writes, depth; /**< Writes in all; Writes posted at once */
	/** time between a completion and the next post, exponential with this mean */
	uint64_t think_ns;
	const struct weft_mpa_policy *mpa; /**< of both sides; NULL: the default */
	struct weft_tcp_attr tcp;
};

/** What was the slowest way that TCP repaired a loss between the post and the completion. */
enum loss_class { LOSS_NONE, LOSS_RACK, LOSS_PROBE, LOSS_TIMEOUT, LOSS_NCLASSES };

struct loss_result {
	double p50_us, p99_us, p999_us, max_us, mean_us;
	double mb_s; /**< octets of Writes by the time from the first post to the last completion */
	uint32_t n[LOSS_NCLASSES];
	double class_us[LOSS_NCLASSES]; /**< mean of the class */
	uint64_t rtos, probes, recoveries, resent, needless, lost;
	uint32_t ooo_mbufs; /**< the most that the target held ahead of gaps */
};

/** Runs the Writes, and checks that the target's memory is what the last of them wrote. */
void loss_run(const struct loss_cfg *cfg, struct loss_result *r);
/** Prints the distribution in two lines. */
void loss_print(const struct loss_cfg *cfg, const struct loss_result *r, FILE *f);

#endif /* LOSS_RUN_H */
