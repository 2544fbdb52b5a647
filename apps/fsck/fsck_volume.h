/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_FSCK_VOLUME_H
#define WEFT_APPS_FSCK_VOLUME_H

/** @file The parts of the examination of a volume. */

#include "fsck_priv.h"
#include "weft_volume_format.h"

/**
 * Examine maps, and with `data` all blocks, of a volume with checksums. With `repair` and `data`
 * also does what the target's scrub does after a crash: groups in doubt get checksums of the data
 * that is there, and the maps are cleared.
 */
int fsck_volume_sums(struct fsck *f, const struct weft_vol_super *s);

#endif /* WEFT_APPS_FSCK_VOLUME_H */
