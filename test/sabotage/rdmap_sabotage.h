/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMAP_SABOTAGE_H
#define RDMAP_SABOTAGE_H

/**
 * @file
 * Deliberate faults of the RDMAP responder: the tests must detect each of them. Only the copy of
 * lib/rdmap that weft_sabotage_dep links has them.
 */

#include <stdbool.h>

struct weft_rdmap;
struct weft_sched;

enum weft_rdmap_sabotage {
	WEFT_RDMAP_SOUND,      /**< no fault */
	WEFT_RDMAP_DROP_FLUSH, /**< a Flush is answered and not executed */
	/** a Flush is answered when it starts; later requests still wait until it ends */
	WEFT_RDMAP_EARLY_RESPONSE,
	/** an Atomic Write is executed on arrival, before the Flushes and Verifies ahead of it */
	WEFT_RDMAP_EARLY_AWRITE,
	WEFT_RDMAP_VERIFY_MEMORY, /**< a Verify hashes memory, not the medium */
};

/** The streams of the worker with this scheduler (NULL: all streams of the process) have this
 * fault, and no others have any. Called while no stream is active. */
void rdmap_sabotage(const struct weft_sched *sched, enum weft_rdmap_sabotage fault);
/** Whether a stream has this fault. */
bool rdmap_sabotaged(const struct weft_rdmap *r, enum weft_rdmap_sabotage fault);

#endif /* RDMAP_SABOTAGE_H */
