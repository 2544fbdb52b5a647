/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef REGION_H
#define REGION_H

#include <weft/weft.h>

/** Register memory with rights that it can honour, and with rights that it cannot. Returns 0
 * when weft gave the right results. */
int region_try(struct weft_ctx *ctx);

#endif /* REGION_H */
