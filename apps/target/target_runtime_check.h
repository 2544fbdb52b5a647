/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_RUNTIME_CHECK_H
#define WEFT_APPS_TARGET_RUNTIME_CHECK_H

/**
 * @file Checks of changes of the table of exports; private to target_runtime.c and target_apply*.c.
 * The program's thread. Nothing here changes anything. -errno with one line in err.
 */

#include <stdbool.h>
#include <stdio.h>

#include "target_export.h"

/** Describe a failure in err, of err_size octets. Returns rc. */
#define RUNTIME_FAIL(rc, ...) (snprintf(err, err_size, __VA_ARGS__), (rc))

/** What two configurations of an export differ in. */
enum runtime_change {
	RUNTIME_NOTHING,
	RUNTIME_RIGHTS, /**< and what else applies at once */
	RUNTIME_MORE,   /**< it has to be opened again */
	RUNTIME_MEDIUM, /**< not by `export set` */
};

/** Whether there is a state directory: -EROFS if not. */
int runtime_state(const struct target *t, char *err, size_t err_size);
/** Whether two exports are configured alike but for what does not matter. */
bool runtime_same(const struct conf_export *a, const struct conf_export *b);
/** Whether the access lists can ever be met: -EINVAL. */
int runtime_access(const struct target *t, const struct conf_export *now, char *err,
                   size_t err_size);
/** The -errno of a failure of the medium, which is none of the request's words. */
int runtime_medium_rc(int rc);
enum runtime_change runtime_change(const struct conf_export *was, const struct conf_export *now);
/** Whether the medium, which is open, can keep what the rights promise: -EINVAL. */
int runtime_rights(const struct target_export *ex, const struct conf_export *now, char *err,
                   size_t err_size);
/** Whether two exports have the same file or image. */
bool runtime_same_medium(const struct conf_export *a, const struct conf_export *b);
/** Whether what lies at the path of a new export has the size of its key: -ENODEV. */
int runtime_fresh_size(const struct conf_export *conf, char *err, size_t err_size);
/** The size that an export has, if it can get another one. 0 with one line in err: it cannot; it is
 * not served, or its medium keeps its size. */
uint64_t runtime_resizable(const struct target_export *ex, char *err, size_t err_size);

#endif /* WEFT_APPS_TARGET_RUNTIME_CHECK_H */
