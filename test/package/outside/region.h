/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef REGION_H
#define REGION_H

#include <weft/weft.h>

/** Register memory with and without rights that it can honour; 0 when weft said what it should. */
int region_try(struct weft_ctx *ctx);

#endif /* REGION_H */
