/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_VERBS_CHECK_H
#define WEFT_APPS_VERBS_CHECK_H

/** @file Whether the libraries of the process are those that the tables here were made for. */

#include <stdbool.h>

/**
 * Whether the loaded libibverbs and librdmacm have versions that were tested, or
 * WEFT_VERBS_ANY_VERSION is 1. False after one line on standard error, which is said once.
 */
bool wv_check_versions(void);

#endif /* WEFT_APPS_VERBS_CHECK_H */
