/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_KEY_CHECK_H
#define WEFT_APPS_KEY_CHECK_H

/**
 * @file Keys that must not be the same: two clients' (each could be the other), and a client's and
 * an export's hash_key_file (all who may Verify have the target compute with that one, and anybody
 * who pushes must have it). Host authentication derives keys of its own (host_auth_key.h), so equal
 * octets sign no proof; they are refused all the same, as who was given one key has the other.
 */

#include <stdbool.h>
#include <stddef.h>

#include "conf.h"
#include "key_file.h"

/** Whether an HMAC-SHA-256 by either is one by the other: as octets, or as RFC 2104 s2 fills up
 * and shortens them. */
bool key_same(const struct key_file *a, const struct key_file *b);

/**
 * Read the keys of all clients and exports, and compare them. -EEXIST: two are the same, which err
 * names; else -errno of a client's that cannot be read. An export's that cannot be read is left to
 * the export's opening. err gets one line.
 */
int key_check(const struct conf *c, char *err, size_t err_size);

/** Whether a client's key is this export's: -EEXIST with one line in err, else 0. */
int key_check_export(const char *client, const struct key_file *key, const char *exp,
                     const struct key_file *hash_key, char *err, size_t err_size);

#endif /* WEFT_APPS_KEY_CHECK_H */
