/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Media without a watch for foreign writes, for tests that damage or cut a medium's file
 * themselves. Only fanotify tells such a write from another process's, and a user gets 128 of its
 * groups (fs.fanotify.max_user_groups), which other tests may hold. With inotify in its place the
 * test's own write would end the whole medium (lib/medium/medium_foreign.c), not the part in
 * question.
 */

#include <stdbool.h>

struct weft_medium;
void __wrap_weft_medium_watch(struct weft_medium *md, bool own_writes);

/** In place of weft_medium_watch(): the medium stays as weft_medium_open() left it, unwatched. */
void
__wrap_weft_medium_watch(struct weft_medium *md, bool own_writes)
{
	(void)md;
	(void)own_writes;
}
