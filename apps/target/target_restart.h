/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_TARGET_RESTART_H
#define WEFT_APPS_TARGET_RESTART_H

/**
 * @file The target replaces itself by the program that its file is now, with the same process id
 * (docs/guide/restart.md). First that program checks the configuration beside the target that still
 * serves; what it refuses changes nothing. The old program stays open over execve(). A new one that
 * ends before it serves executes the old one again.
 *
 * All calls are the program's thread's.
 */

#include <stddef.h>
#include <stdint.h>

struct target;

/** Note how the program was begun: first of all in main(), as argv is changed later. */
void target_restart_begin(char **argv);
/**
 * Run the program's file with --check-config. 0, or -errno with one line in err: -EINVAL: it
 * refuses the configuration, or cannot be run; -ETIMEDOUT: it takes too long.
 */
int target_restart_check(const struct target *t, char *err, size_t err_size);
/** In the program that checks: the process of the target that runs it; 0: there is none. */
uint64_t target_restart_beside(void);
/** The target has ended: execute the program. Returns only if that fails; the log says why. */
void target_restart_now(void);
/** The target serves: the program of before is not needed any more. */
void target_restart_serves(void);

#endif /* WEFT_APPS_TARGET_RESTART_H */
