/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLACE_PRIV_H
#define PLACE_PRIV_H

/** @file What a region has of revocation and of bad ranges; weft_place_ops. */

#include "weft_place.h"
#include "weft_verbs_mr.h"

/** End the revocation of a region, if there is one, without a callback. */
void place_revoke_end(struct weft_mr *mr);

#endif /* PLACE_PRIV_H */
