/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_HOST_AUTH_KEY_H
#define WEFT_APPS_HOST_AUTH_KEY_H

/**
 * @file The keys of host authentication, one for each direction, derived from a client's key file
 * by HKDF-SHA-256 (RFC 5869). The file's octets are not used as a key directly. So a MAC that
 * another use of the same octets makes, as a Verify by an export's hash_key_file, is no proof, and
 * a proof of one side is no proof of the other.
 */

#include <stddef.h>
#include <stdint.h>

#include "key_file.h"

#define HOST_AUTH_KEY_BYTES 32

struct host_auth_keys {
	uint8_t client[HOST_AUTH_KEY_BYTES]; /**< key of the client's proof */
	uint8_t target[HOST_AUTH_KEY_BYTES]; /**< key of the target's proof */
};

/** Derive out_bytes (at most 255 * 32) by HKDF-SHA-256. -EIO: libcrypto fails. */
int host_auth_hkdf(const void *secret, size_t secret_bytes, const void *salt, size_t salt_bytes,
                   const void *info, size_t info_bytes, uint8_t *out, size_t out_bytes);

/** Derive both keys. -EIO: libcrypto fails; out is then zero. Not for a polling core: it looks
 * up a provider. */
int host_auth_derive(const struct key_file *key, struct host_auth_keys *out);

#endif /* WEFT_APPS_HOST_AUTH_KEY_H */
