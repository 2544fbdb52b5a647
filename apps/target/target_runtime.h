/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_RUNTIME_H
#define WEFT_APPS_TARGET_RUNTIME_H

/**
 * @file Exports that are made and changed at run time, and kept in the state directory.
 *
 * Each function is done or undone as a whole, also by a kill inside of it: the state file is what
 * decides, and it is replaced as a whole (target_state.h). The program's thread. Errors have one
 * line in err:
 * - -EROFS: no state directory is configured
 * - -EPERM: the export is one of the configuration, where it has to be changed
 * - -ENOENT, -EEXIST: no export has the name; it, or the file, is taken
 * - -EBUSY: clients use it, or what was under way has not ended
 * - -EINVAL: a name, key or value does not fit
 * - others of files
 */

#include <stdbool.h>
#include <stddef.h>

struct target;
struct target_export;

/** KEY=VALUE */
typedef const char *const target_pair[2];

/** Make an export. *changed: false if it is there already, with the same keys. */
int target_runtime_create(struct target *t, const char *name, target_pair *pairs, unsigned int n,
                          bool *changed, char *err, size_t err_size);
/** Remove an export; its grants end at once. Its file stays. */
int target_runtime_delete(struct target *t, const char *name, char *err, size_t err_size);
/** Change keys. Rights apply at once, other keys when no client has a grant. */
int target_runtime_set(struct target *t, const char *name, target_pair *pairs, unsigned int n,
                       bool *changed, char *err, size_t err_size);
/** Give an export another size, when no client has a grant. shrink: it may become smaller, and what
 * is beyond is lost. */
int target_runtime_resize(struct target *t, const char *name, const char *size, bool shrink,
                          bool *changed, char *err, size_t err_size);
/** Give an export another name. Grants stay. */
int target_runtime_rename(struct target *t, const char *name, const char *to, char *err,
                          size_t err_size);
/** Note in the state directory, if there is one, that an export is held or not. */
int target_runtime_hold(struct target *t, const char *name, bool held, char *err, size_t err_size);

#endif /* WEFT_APPS_TARGET_RUNTIME_H */
