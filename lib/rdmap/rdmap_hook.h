/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMAP_HOOK_H
#define RDMAP_HOOK_H

/**
 * @file
 * Tests have copies of some sources whose responder is wrong where they say (test/sabotage). The
 * product's cannot be.
 */

#ifdef WEFT_TEST_HOOKS
#include "rdmap_sabotage.h"
#define RDMAP_SABOTAGED(r, fault) rdmap_sabotaged(r, WEFT_RDMAP_##fault)
#else
#define RDMAP_SABOTAGED(r, fault) ((void)(r), false)
#endif

#endif /* RDMAP_HOOK_H */
