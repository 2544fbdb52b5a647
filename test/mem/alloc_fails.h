/* SPDX-License-Identifier: BSD-3-Clause */
/** @file posix_memalign() and calloc() that fail on request, and a count of memory that is not
 * released. A test is linked with --wrap=calloc,--wrap=free,--wrap=posix_memalign. */

#ifndef ALLOC_FAILS_H
#define ALLOC_FAILS_H

extern unsigned int fail_at; /**< the n-th allocation from now fails; 0: none */
extern int in_use;           /**< atomic: allocations less releases */

#endif
