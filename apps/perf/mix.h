/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PERF_MIX_H
#define WEFT_PERF_MIX_H

/**
 * @file Messages of several sizes or tests in one run: --sizes 64:80,4096:15,1M:5, --mix
 * write:70,read:30. A schedule of a thousand messages has the shares as they were asked for, in an
 * order that looks random and is the same in each run; then it begins again.
 */

#include <stdbool.h>
#include <stdint.h>

#define MIX_SHOTS 1000
#define MIX_PARTS 16

struct mix {
	const char *sizes, *tests; /**< of the command line; NULL: not given */
	struct mix_shot {
		uint32_t test; /**< enum perf_test */
		uint32_t size_bytes;
	} shot[MIX_SHOTS];
	uint32_t max_bytes;
	double mean_bytes; /**< of the thousand */
};

/**
 * Make the schedule from what was given. test, size_bytes: where only one of the two was. Ends the
 * program if a list is wrong.
 */
void mix_make(struct mix *m, uint32_t test, uint32_t size_bytes);

#endif /* WEFT_PERF_MIX_H */
