/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_VERBS_MAPPED_H
#define WEFT_APPS_VERBS_MAPPED_H

/** @file Whether the process has memory at an address. */

#include <stdbool.h>
#include <stddef.h>

/**
 * Whether `len` octets at `addr` are mapped and can be read, and written if `write` is set, as a
 * kernel finds out when it pins memory. Any thread, without locks. Pages of a short range may be
 * made present by it; nothing is changed. 0, also where it cannot be known (no /proc); -EFAULT;
 * -EINVAL: the range goes over the end of the address space.
 */
int wv_mapped(const void *addr, size_t len, bool write);

#endif /* WEFT_APPS_VERBS_MAPPED_H */
