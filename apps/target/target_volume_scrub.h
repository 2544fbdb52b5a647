/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_VOLUME_SCRUB_H
#define WEFT_APPS_TARGET_VOLUME_SCRUB_H

/** @file The scrubs of a volume with checksums, on the first worker (target_volume_worker.c). Apart
 * from its channel, of which there may be thousands: they are large. */

#include "target_volume.h"

/** Scrubs of a volume: of all, if bytes_per_s is not 0, and of groups in doubt. */
struct target_vscrub {
	TAILQ_ENTRY(target_vscrub) link; /**< in the worker's `scrubs` */
	struct weft_vol_scrub scrub, mend;
	struct target_vchan *vc;
	bool polled; /**< it is in that list */
};

#endif /* WEFT_APPS_TARGET_VOLUME_SCRUB_H */
