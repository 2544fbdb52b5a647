/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_STATE_FILE_H
#define WEFT_APPS_TARGET_STATE_FILE_H

/**
 * @file Files of a directory that are replaced as a whole, durably: for the sources of the state
 * directory (target_state.h). Any thread, one at a time for each file.
 */

#include "target_state.h"

#define STATE_PATH_MAX (CONF_PATH_MAX + 64)
#define STATE_RESV     "reservations" /**< the directory of reservations, in that of the state */

/** "DIR/NAME"; returns buf. */
const char *state_path(const struct state *s, const char *name, char buf[STATE_PATH_MAX]);
/** Make the names in the directory durable. -errno. */
int state_sync(const struct state *s);
/** Replace a file of the directory, and keep the file of before as NAME.old. *same: after a
 * failure, whether the file is that of before. -errno. */
int state_write(const struct state *s, const char *name, const char *text, size_t len, bool *same);
/** Give the file of before, at the path `kept`, its name again, not yet durably. Without one there
 * was none. -errno. */
int state_put_back(const char *kept, const char *path);
/** Read a file of the directory; the caller frees *text. -ENOENT: there is none. -errno. */
int state_read(const struct state *s, const char *name, char **text, size_t *len);

#endif /* WEFT_APPS_TARGET_STATE_FILE_H */
