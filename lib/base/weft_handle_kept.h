/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_HANDLE_KEPT_H
#define WEFT_HANDLE_KEPT_H

/** @file Counter of the memory that destroyed handles keep (weft_handle.h). Internal. */

#include <stdint.h>

/** Octets of heap kept, for at most WEFT_HANDLES_KEPT objects of each kind. Any thread. */
uint64_t weft_handle_kept_bytes(void);

#endif /* WEFT_HANDLE_KEPT_H */
