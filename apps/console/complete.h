/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_CONSOLE_COMPLETE_H
#define WEFT_CONSOLE_COMPLETE_H

/** @file Words that Tab completes and DPDK's cmdline does not know: options and their values, keys
 * of `show`, variables. Main thread. */

#include <stddef.h>

/**
 * Complete the last word of a line. -1: it is no such word. Else as cmdline_complete(): 0: no
 * completion, or no more choices; 1: dst has a choice, call again; 2: dst has what completes the
 * word.
 */
int complete_word(const char *line, int *state, char *dst, size_t size);

#endif /* WEFT_CONSOLE_COMPLETE_H */
