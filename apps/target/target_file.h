/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_FILE_H
#define WEFT_APPS_TARGET_FILE_H

/** @file The files of all exports: opened at the start and at SIGHUP, and watched in between. */

#include "target_export.h"

/* ---- target_offline.c: exports that are not served ---- */

/**
 * Open the exports of the configuration. An export that cannot be opened is offline, and a log line
 * says so. -errno with one line in err: no export can be opened, or the start is strict and one
 * cannot.
 */
int target_exports_open(struct target *t, int numa_node, char *err, size_t err_size);
/** For --check-config: report what target_exports_open() would say of t->conf, without a change. */
int target_exports_check(struct target *t, char *err, size_t err_size);
/**
 * At SIGHUP, on the program's thread: open an export that is offline, as `now` of the configuration
 * `fresh` describes it (NULL: `fresh` does not have it). Returns false if the export is served.
 */
bool target_export_retry(struct target *t, struct target_export *ex, const struct conf_export *now,
                         const struct conf *fresh);

/* The same file, for the operator; the program's thread. SIGHUP leaves a held export alone. */

/** Close the medium of an export, whose grants end at once. -EBUSY as target_export_take(). */
int target_export_shut(struct target *t, struct target_export *ex);
/** Open an export that is shut, by another configuration. -errno with one line in err: it is
 * offline, with that reason. */
int target_export_reopen(struct target *t, struct target_export *ex, const struct conf_export *now,
                         char *err, size_t err_size);
/** Give an export another configuration, of which the rights apply at once. Nothing else that an
 * opening uses may differ. -EBUSY: the workers have too much to do. */
int target_export_reconf(struct target *t, struct target_export *ex, const struct conf_export *now);
/** Add an export while the others are served. offline_too: also if it cannot be opened. -errno with
 * one line in err. */
int target_export_add(struct target *t, const struct conf_export *conf, bool offline_too,
                      struct target_export **out, char *err, size_t err_size);
/** Remove an export that is shut. Its slot is used again. */
void target_export_remove(struct target *t, struct target_export *ex);
/** Take an export out of service at once, and close its medium. -EBUSY: what was under way has not
 * ended; it is as it was. Blocks for seconds at most. */
int target_export_take(struct target *t, struct target_export *ex);
/** Give no grant any more, and end those that there are, with a warning. */
void target_export_drain(struct target *t, struct target_export *ex);
/** Grants and calls that use its medium. */
unsigned int target_export_users(const struct target_export *ex);
/** Serve an export that was held, or could not be opened. -errno with one line in err. */
int target_export_give(struct target *t, struct target_export *ex, char *err, size_t err_size);

/* ---- target_watch.c: whether a file is still the one that was opened ---- */

#define TARGET_WATCH_MS 250 /**< how often the program's thread looks */

/** Have the kernel report changes of exports' folders by SIGIO (blocked); before exports are
 * opened. */
void target_watch_open(struct target *t);
void target_watch_close(struct target *t);
/** At SIGIO: check the files, then pause, so that a busy folder costs little. The program's
 * thread. */
void target_watch_told(struct target *t);
/** Record the identity of the export's file, which is open. */
void target_watch_begin(const struct target *t, struct target_export *ex);
void target_watch_end(const struct target *t, struct target_export *ex);
/** Check the files of all exports. The program's thread. */
void target_watch(struct target *t);
/** The same for a part of the exports, another one each time: with thousands of them a look at all
 * takes milliseconds. Each TARGET_WATCH_MS. */
void target_watch_some(struct target *t);

#endif /* WEFT_APPS_TARGET_FILE_H */
