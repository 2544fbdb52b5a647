/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_ATTR_H
#define WEFT_ATTR_H

/**
 * @file
 * Attribute structures of public calls, of callers that were built against another version of the
 * headers. Internal.
 *
 * Each begins with its size, as the caller's compiler had it. Members are only ever added at the
 * end, and zero asks for what was done before the member was there.
 */

#include <stddef.h>

/**
 * Copy the caller's structure: what it does not have is zero, what we do not know must be. dst is
 * filled in any case. -EINVAL: src is NULL; a size that no version has (not above sizeof(size_t),
 * no multiple of it, above 64 KiB); something behind what we know is not zero.
 */
int weft_attr_copy(void *dst, size_t dst_size, const void *src);

#endif /* WEFT_ATTR_H */
