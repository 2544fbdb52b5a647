/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TELEMETRY_H
#define WEFT_TELEMETRY_H

/**
 * @file Commands that a program adds to the telemetry socket (weft_env_attr.telemetry), besides
 * /weft/... Installed; stands alone.
 */

#include <stdint.h>

#include <weft/api.h>

WEFT_API_BEGIN

/** The answer to one command: a dictionary, filled by weft_tel_u64() and weft_tel_text(). */
struct weft_tel;

/** Most octets of an entry's name, and of a text. Longer ones are cut. */
#define WEFT_TEL_NAME_MAX 63
#define WEFT_TEL_TEXT_MAX 127

/**
 * Answer one command. Runs on telemetry's thread, one call at a time over all commands. params is
 * the text behind the command's comma, "" if there is none. Returns 0 or -errno; after -errno the
 * client gets a dictionary with the single entry `error`, which says why. It must not call
 * weft_telemetry_command() or weft_telemetry_forget().
 */
typedef int (*weft_tel_fn)(void *user, const char *params, struct weft_tel *t);

/**
 * Add a command, "/name/what". cmd and help are copied. Called after weft_env_init(); any thread.
 * -EINVAL: no leading slash, longer than 55 octets, or octets other than letters, digits, _ and /.
 * -EEXIST; -ENOSPC: there are 16 commands; -ENOMEM.
 */
int weft_telemetry_command(const char *cmd, const char *help, weft_tel_fn fn, void *user);
/**
 * Remove a command. fn does not run any more when this returns, and the name may be used again.
 * Does nothing for NULL or an unknown name.
 */
void weft_telemetry_forget(const char *cmd);

/**
 * Add one entry to the answer. Does nothing if a pointer is NULL. Entries beyond about 250 are left
 * out.
 */
void weft_tel_u64(struct weft_tel *t, const char *name, uint64_t value);
void weft_tel_text(struct weft_tel *t, const char *name, const char *value);

WEFT_API_END

#endif /* WEFT_TELEMETRY_H */
