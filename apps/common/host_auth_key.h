/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_HOST_AUTH_KEY_H
#define WEFT_APPS_HOST_AUTH_KEY_H

/**
 * @file The keys of host authentication: derived from a client's key file by HKDF-SHA-256 (RFC
 * 5869), one for each direction. The octets of the file themselves key nothing there. So what
 * another use of the same octets signs, as a Verify does with an export's hash_key_file, is no
 * proof, and a proof of one side is none of the other.
 */

#include <stddef.h>
#include <stdint.h>

#include "key_file.h"

#define HOST_AUTH_KEY_BYTES 32

struct host_auth_keys {
	uint8_t client[HOST_AUTH_KEY_BYTES]; /**< of the client's proof */
	uint8_t target[HOST_AUTH_KEY_BYTES]; /**< of the target's */
};

/** HKDF-SHA-256: out_bytes (at most 255 * 32) of secret, salt and info. -EIO: libcrypto cannot. */
int host_auth_hkdf(const void *secret, size_t secret_bytes, const void *salt, size_t salt_bytes,
                   const void *info, size_t info_bytes, uint8_t *out, size_t out_bytes);

/** Both keys. -EIO: libcrypto cannot; out is zero then. Not for a polling core: it looks up a
 * provider. */
int host_auth_derive(const struct key_file *key, struct host_auth_keys *out);

#endif /* WEFT_APPS_HOST_AUTH_KEY_H */
