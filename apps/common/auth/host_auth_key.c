/* SPDX-License-Identifier: BSD-3-Clause */
/** @file HKDF-SHA-256 by libcrypto, and the derivation of host authentication's keys. */

#include "host_auth_key.h"

#include <errno.h>
#include <string.h>

#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

/* docs/host-auth.md names these; another version of the exchange has another salt. */
#define AUTH_SALT        "weft host authentication 3"
#define AUTH_INFO_CLIENT "client's proof"
#define AUTH_INFO_TARGET "target's proof"

int
host_auth_hkdf(const void *secret, size_t secret_bytes, const void *salt, size_t salt_bytes,
               const void *info, size_t info_bytes, uint8_t *out, size_t out_bytes)
{
	OSSL_PARAM params[] = {
	        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char[]){"SHA256"}, 0),
	        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)secret,
	                                          secret_bytes),
	        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, (void *)(uintptr_t)salt,
	                                          salt_bytes),
	        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)(uintptr_t)info,
	                                          info_bytes),
	        OSSL_PARAM_construct_end(),
	};
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, OSSL_KDF_NAME_HKDF, NULL);
	EVP_KDF_CTX *ctx = kdf != NULL ? EVP_KDF_CTX_new(kdf) : NULL;
	int rc = ctx != NULL && EVP_KDF_derive(ctx, out, out_bytes, params) == 1 ? 0 : -EIO;

	EVP_KDF_CTX_free(ctx);
	EVP_KDF_free(kdf);
	return rc;
}

int
host_auth_derive(const struct key_file *key, struct host_auth_keys *out)
{
	int rc =
	        host_auth_hkdf(key->key, key->bytes, AUTH_SALT, strlen(AUTH_SALT), AUTH_INFO_CLIENT,
	                       strlen(AUTH_INFO_CLIENT), out->client, sizeof(out->client));

	if (rc == 0)
		rc = host_auth_hkdf(key->key, key->bytes, AUTH_SALT, strlen(AUTH_SALT),
		                    AUTH_INFO_TARGET, strlen(AUTH_INFO_TARGET), out->target,
		                    sizeof(out->target));
	if (rc != 0)
		explicit_bzero(out, sizeof(*out));
	return rc;
}
