/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_FSCK_LOG_H
#define WEFT_APPS_FSCK_LOG_H

/** @file The parts of the examination of a log. */

#include "fsck_priv.h"
#include "log_judge.h"
#include "log_wire.h"

/** Examine all records from the image's head to its end. */
int fsck_log_records(struct fsck *f, const struct weft_log_image *i);

#endif /* WEFT_APPS_FSCK_LOG_H */
