/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_CONF_CLEAN_H
#define WEFT_APPS_CONF_CLEAN_H

/**
 * @file A configuration without secrets, to be given to others. A configuration has no secrets by
 * itself, only the names of files that do. It is cleaned of what an operator may have put there all
 * the same:
 *
 * - comments
 * - the values of keys, and of parts of values (`NAME=VALUE`, as in dev, eal and ceph), whose name
 *   has key, secret, passw or token in it; so the names of key files, too
 * - lines that are neither a section nor a key
 */

#include <stdio.h>

/** Print a text of sections. */
void conf_print_clean(FILE *out, const char *text);
/** Print a file, of which 1 MiB is read at most. -errno: it cannot be read; -ENOMEM. */
int conf_print_clean_file(FILE *out, const char *path);

#endif /* WEFT_APPS_CONF_CLEAN_H */
