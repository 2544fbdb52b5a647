/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_SNAP_NAME_H
#define WEFT_SNAP_NAME_H

/**
 * @file The rule for names of snapshots and clones, inline: the process behind the block driver
 * "rbd" has it too, and links nothing of weft. Others call weft_block_snap_name_ok(). Any thread.
 */

#include <stdbool.h>
#include <stddef.h>

static inline bool
weft_snap_is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/** Whether a name has 1 to max_bytes - 1 of A-Z a-z 0-9 . _ -, and begins with a letter or digit.
 * At most max_bytes octets are read. NULL: no. */
static inline bool
weft_snap_name_is_ok(const char *name, size_t max_bytes)
{
	size_t n = 0;

	if (name == NULL || !weft_snap_is_alnum(name[0]))
		return false;
	while (weft_snap_is_alnum(name[n]) || name[n] == '.' || name[n] == '_' || name[n] == '-') {
		if (++n == max_bytes)
			return false;
	}
	return name[n] == '\0';
}

#endif /* WEFT_SNAP_NAME_H */
