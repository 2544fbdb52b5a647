/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_PLACE_H
#define WEFT_PLACE_H

/**
 * @file
 * Placement on top of verbs: transactions (weft/commit.h), the marks of bad ranges
 * (weft/bad_range.h), revocation (weft/revoke.h). Internal. The engine gives the functions that
 * verbs calls to each context.
 */

#include "weft_verbs_ops.h"

extern const struct weft_verbs_place_ops weft_place_ops;

#endif /* WEFT_PLACE_H */
