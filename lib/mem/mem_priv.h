/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MEM_PRIV_H
#define MEM_PRIV_H

/**
 * @file
 * What the sources of lib/mem share among themselves.
 */

#include "weft_mem.h"

WEFT_LOG_DECLARE(mem);

#endif /* MEM_PRIV_H */
