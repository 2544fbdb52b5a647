/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_STATE_H
#define WEFT_APPS_TARGET_STATE_H

/**
 * @file The state directory: what the control socket has made of the exports, kept over a restart.
 *
 * `exports.ini` has the exports that were made at run time, as sections of a configuration; `held`
 * the names of those that are kept out of service; `reservations` a file for each volume that NVMe
 * hosts have reserved, and while an export is being deleted, one with its name beside it. A file is
 * replaced as a whole: a new file is written and made durable, takes the name, and the directory is
 * made durable. So after a crash there is the old file or the new one. A file of before stays as
 * `.old`. `lock` is locked while a target uses the directory.
 *
 * The program's thread, unless a function says otherwise.
 */

#include "conf.h"

struct state {
	char dir[CONF_PATH_MAX];       /**< from the root */
	char file[CONF_PATH_MAX + 16]; /**< of the exports */
	int lock_fd;
	struct conf_export *exports; /**< nexports; they move when one is added */
	uint32_t nexports;
	char (*held)[CONF_NAME_MAX + 1]; /**< nheld */
	uint32_t nheld;
};

/**
 * Read a state directory. lock: keep it from other targets until state_close(). -EBUSY: another
 * target has it; -errno; with one line in err.
 */
int state_open(const char *dir, bool lock, struct state **out, char *err, size_t err_size);
/** Does nothing for NULL. */
void state_close(struct state *s);
/** The file that has the exports, for people. Any thread. */
const char *state_file(const struct state *s);
/**
 * Add the exports to a configuration that was read. One whose name the configuration has is left
 * out, and say() gets a line with both places, in the form of ui_msg.
 */
void state_merge(const struct state *s, struct conf *c, void (*say)(const char *fmt, ...));

/**
 * Parse KEY=VALUE pairs as an export. base: keys that are not given are as in it; NULL: the
 * defaults. -EINVAL with one line in err.
 */
int state_parse(const struct state *s, const char *name, const struct conf_export *base,
                const char *const (*pairs)[2], unsigned int npairs, struct conf_export *out,
                char *err, size_t err_size);
/**
 * Parse a text of sections [export NAME] as state_parse() does. out has the exports. -EINVAL with
 * one line in err, which begins with "line N". The caller frees it (conf_free()).
 */
int state_parse_set(const struct state *s, const char *text, struct conf *out, char *err,
                    size_t err_size);

/** Add an export, or replace the one named `name`; the new one may have another name. -ENOSPC,
 * -ENOMEM, -EIO with one line in err: nothing has changed. */
int state_put(struct state *s, const char *name, const struct conf_export *e, char *err,
              size_t err_size);
/** Remove an export. Likewise. */
int state_remove(struct state *s, const char *name, char *err, size_t err_size);
/** Have these exports, in this order, in place of all that there are: after a crash there are those
 * of before, or these. Likewise. */
int state_replace(struct state *s, const struct conf_export *set, uint32_t n, char *err,
                  size_t err_size);
/** Take back the last state_put(), state_remove() or state_replace(); needs no room on the disk.
 * -errno, after say() got a line: the exports are those of the file, or, if that cannot be read, as
 * they were. */
int state_undo(struct state *s, void (*say)(const char *fmt, ...));

bool state_is_held(const struct state *s, const char *name);
/** Note whether an export is held. -errno with one line in err: nothing changed. */
int state_hold(struct state *s, const char *name, bool held, char *err, size_t err_size);

/* Reservations of NVMe hosts, a file for each volume (its UUID) in the directory `reservations`: */

/** At the start, before exports are opened: do what a delete has left that a crash or an error has
 * ended. say() gets a line for what cannot be done, in the form of ui_msg. state_resv_spare() says
 * later whether the volume can be used. */
void state_resv_settle(const struct state *s, void (*say)(const char *fmt, ...));
/** Make the directory, if there is none. -errno. */
int state_resv_room(const struct state *s);
/** Replace what is kept of a volume, durably. A note that state_resv_doom() has left ends before.
 * Any thread, one at a time for each volume. -errno: it is as before, as far as that can be told.
 */
int state_resv_keep(const struct state *s, const uint8_t uuid[16], const void *data, size_t bytes);
/**
 * The export `name`, whose volume it is, is about to be deleted: note that what is kept of the
 * volume goes with it. state_resv_spare() or state_resv_bury() follows. Behind a crash
 * state_resv_settle() does one of both: it spares what is kept if there is an export of that name,
 * as it was not deleted yet. Does nothing if nothing is kept. -errno: it is not noted, as far as
 * that can be told.
 */
int state_resv_doom(const struct state *s, const uint8_t uuid[16], const char *name);
/** It is not deleted, or the volume is another export's by now: what is kept stays. Does nothing
 * without a note. Any thread. -errno: the note may be there. */
int state_resv_spare(const struct state *s, const uint8_t uuid[16]);
/** Likewise of each volume whose note has the name of this export. It goes without
 * state_resv_doom(), and a note that an I/O error has left may not take effect by that. */
int state_resv_stay(const struct state *s, const char *name);
/** It is deleted: what is kept goes, durably. Does nothing without state_resv_doom(). -errno: the
 * next state_resv_settle() does it, if no export has the name by then. */
int state_resv_bury(const struct state *s, const uint8_t uuid[16]);
/** The path of its file, for a line of the log. Returns buf. */
const char *state_resv_path(const struct state *s, const uint8_t uuid[16], char *buf, size_t size);
/** What is kept; the caller frees *data. -ENOENT: nothing. -errno. */
int state_resv_kept(const struct state *s, const uint8_t uuid[16], char **data, size_t *bytes);

#endif /* WEFT_APPS_TARGET_STATE_H */
