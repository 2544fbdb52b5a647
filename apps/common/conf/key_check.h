/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_KEY_CHECK_H
#define WEFT_APPS_KEY_CHECK_H

/**
 * @file Check that keys differ which must not be equal. With equal keys two clients could pass for
 * each other. A client's key must also differ from every export's hash_key_file, which everyone who
 * pushes has, and by which the target computes for everyone who may Verify. Host authentication
 * derives keys of its own (host_auth_key.h), so equal octets sign no proof. They are refused all
 * the same, because the owner of one key then has the other.
 */

#include <stdbool.h>
#include <stddef.h>

#include "conf.h"
#include "key_file.h"

/** Whether HMAC-SHA-256 gives the same results by both keys: they have equal octets, or become
 * equal when RFC 2104 s2 pads or hashes them. */
bool key_same(const struct key_file *a, const struct key_file *b);

/**
 * Read the keys of all clients and exports, and compare them; and read the secrets and keys of NVMe
 * hosts. -EEXIST: two keys are equal, and err names them; as nvmf_secrets_read() and
 * nvmf_keys_read(); else -errno of a client's key file that cannot be read. An export's key file
 * that cannot be read is reported when the export is opened. err gets one line.
 */
int key_check(const struct conf *c, char *err, size_t err_size);

/** Compare a client's key with an export's. -EEXIST with one line in err: they are equal; else
 * 0. */
int key_check_export(const char *client, const struct key_file *key, const char *exp,
                     const struct key_file *hash_key, char *err, size_t err_size);

#endif /* WEFT_APPS_KEY_CHECK_H */
