/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TELEMETRY_H
#define WEFT_TELEMETRY_H

/**
 * @file
 * A program's own commands on the telemetry socket (weft_env_attr.telemetry), beside /weft/...
 * Installed; stands alone.
 */

#include <stdint.h>

#include <weft/api.h>

WEFT_API_BEGIN

/** An answer that is being written: a dictionary. */
struct weft_tel;

/** Octets of a name, and of a text, that an answer takes; more are cut. */
#define WEFT_TEL_NAME_MAX 63
#define WEFT_TEL_TEXT_MAX 127

/**
 * Answer one question on telemetry's thread, one at a time over all commands. params: what stands
 * behind the command's comma, "" if nothing. 0, or -errno: the asker gets a dictionary with
 * `error`, which says why, alone. May call neither of the two functions below.
 */
typedef int (*weft_tel_fn)(void *user, const char *params, struct weft_tel *t);

/**
 * Serve a command, "/name/what"; cmd and help are copied. -EINVAL (no slash in front, longer than
 * 55 octets, or others than letters, digits, _ and / in it), -EEXIST, -ENOSPC (16 of them),
 * -ENOMEM. After weft_env_init(); any thread.
 */
int weft_telemetry_command(const char *cmd, const char *help, weft_tel_fn fn, void *user);
/** No longer (nothing is done for a name that is not served, or NULL): fn does not run any more at
 * return. Its name may be used again. */
void weft_telemetry_forget(const char *cmd);

/** One more entry (none if a pointer is NULL); those that find no room (some 250) are left out. */
void weft_tel_u64(struct weft_tel *t, const char *name, uint64_t value);
void weft_tel_text(struct weft_tel *t, const char *name, const char *value);

WEFT_API_END

#endif /* WEFT_TELEMETRY_H */
