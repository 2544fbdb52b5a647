/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * "sha256" (FIPS 180-4) and "hmac-sha256" (RFC 2104, FIPS 198-1) by OpenSSL's libcrypto.
 *
 * The result is the 32 octets of the digest in the order that FIPS 180-4 gives them: most
 * significant first. Neither gives a range away, but by trying all that it can hold; with a key
 * that the peer does not have not even so.
 *
 * A computation's state is libcrypto's, made at its start and freed at its end. What libcrypto
 * looks up by name, under its locks, is looked up once in a process.
 */

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include "weft_base.h"
#include "weft_hash.h"

#define HASH_SHA256_BYTES 32
/* Without the processor's help SHA-256 takes some 4 ns an octet. */
#define HASH_SHA256_SLICE_BYTES (4 * 1024)

/* Of a computation. */
#define HASH_CTX(st)    ((void *)(uintptr_t)(st)->opaque[0])
#define HASH_FAILED(st) ((st)->opaque[1])

static pthread_once_t hash_once = PTHREAD_ONCE_INIT;
static EVP_MD *hash_md;
static EVP_MAC_CTX *hash_mac; /* knows its digest; copied, and then given the key */

static void
hash_openssl_load(void)
{
	char digest[] = "SHA256";
	const OSSL_PARAM params[] = {
	        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
	        OSSL_PARAM_construct_end(),
	};
	/* One without a key cannot be copied. */
	const unsigned char no_key[HASH_SHA256_BYTES] = {0};
	EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);

	hash_md = EVP_MD_fetch(NULL, digest, NULL);
	if (mac != NULL)
		hash_mac = EVP_MAC_CTX_new(mac);
	EVP_MAC_free(mac); /* the context holds it */
	if (hash_mac != NULL && EVP_MAC_init(hash_mac, no_key, sizeof(no_key), params) != 1) {
		EVP_MAC_CTX_free(hash_mac);
		hash_mac = NULL;
	}
}

static int
hash_openssl_prepare(const void *const *what)
{
	if (pthread_once(&hash_once, hash_openssl_load) != 0)
		return -ENOMEM;
	return *what != NULL ? 0 : -ENOTSUP;
}

static void
hash_openssl_begin(struct weft_hash_state *st, void *ctx)
{
	st->opaque[0] = (uintptr_t)ctx;
	st->opaque[1] = 0;
}

/*
 * Nobody can be told here that libcrypto failed, which it has no reason to; the octets are zero
 * then, and equal to no digest that anybody knows a content of.
 */
static void
hash_openssl_check(struct weft_hash_state *st, void *result, bool ok)
{
	if (!ok || HASH_FAILED(st))
		memset(result, 0, HASH_SHA256_BYTES);
	st->opaque[0] = 0;
}

/* ---- sha256 ---- */

static int
hash_sha256_prepare(void)
{
	return hash_openssl_prepare((const void *const *)&hash_md);
}

static int
hash_sha256_init(struct weft_hash_state *st, const void *key, size_t key_bytes)
{
	EVP_MD_CTX *ctx;
	int rc;

	if (key != NULL || key_bytes != 0)
		return -EINVAL;
	rc = hash_sha256_prepare();
	if (rc < 0)
		return rc;
	ctx = EVP_MD_CTX_new();
	if (ctx == NULL)
		return -ENOMEM;
	if (EVP_DigestInit_ex2(ctx, hash_md, NULL) != 1) {
		EVP_MD_CTX_free(ctx);
		return -ENOMEM;
	}
	hash_openssl_begin(st, ctx);
	return 0;
}

static void
hash_sha256_update(struct weft_hash_state *st, const void *data, size_t len_bytes)
{
	if (EVP_DigestUpdate(HASH_CTX(st), data, len_bytes) != 1)
		HASH_FAILED(st) = 1;
}

static void
hash_sha256_final(struct weft_hash_state *st, void *result)
{
	bool ok = EVP_DigestFinal_ex(HASH_CTX(st), result, NULL) == 1;

	EVP_MD_CTX_free(HASH_CTX(st));
	hash_openssl_check(st, result, ok);
}

static const struct weft_hash_ops hash_sha256 = {
        .name = "sha256",
        .result_bytes = HASH_SHA256_BYTES,
        .slice_bytes = HASH_SHA256_SLICE_BYTES,
        .prepare = hash_sha256_prepare,
        .init = hash_sha256_init,
        .update = hash_sha256_update,
        .final = hash_sha256_final,
};

WEFT_HASH_REGISTER(sha256, hash_sha256)

/* ---- hmac-sha256 ---- */

static int
hash_hmac_prepare(void)
{
	return hash_openssl_prepare((const void *const *)&hash_mac);
}

static int
hash_hmac_init(struct weft_hash_state *st, const void *key, size_t key_bytes)
{
	EVP_MAC_CTX *ctx;
	int rc;

	if (key == NULL || key_bytes == 0 || key_bytes > WEFT_HASH_KEY_MAX_BYTES)
		return -EINVAL;
	rc = hash_hmac_prepare();
	if (rc < 0)
		return rc;
	ctx = EVP_MAC_CTX_dup(hash_mac);
	if (ctx == NULL)
		return -ENOMEM;
	if (EVP_MAC_init(ctx, key, key_bytes, NULL) != 1) {
		EVP_MAC_CTX_free(ctx);
		return -ENOMEM;
	}
	hash_openssl_begin(st, ctx);
	return 0;
}

static void
hash_hmac_update(struct weft_hash_state *st, const void *data, size_t len_bytes)
{
	if (EVP_MAC_update(HASH_CTX(st), data, len_bytes) != 1)
		HASH_FAILED(st) = 1;
}

static void
hash_hmac_final(struct weft_hash_state *st, void *result)
{
	size_t n = 0;
	bool ok = EVP_MAC_final(HASH_CTX(st), result, &n, HASH_SHA256_BYTES) == 1 &&
	          n == HASH_SHA256_BYTES;

	EVP_MAC_CTX_free(HASH_CTX(st)); /* wipes its copy of the key */
	hash_openssl_check(st, result, ok);
}

static const struct weft_hash_ops hash_hmac = {
        .name = "hmac-sha256",
        .result_bytes = HASH_SHA256_BYTES,
        .key_min_bytes = 1,
        .key_max_bytes = WEFT_HASH_KEY_MAX_BYTES,
        .slice_bytes = HASH_SHA256_SLICE_BYTES,
        .prepare = hash_hmac_prepare,
        .init = hash_hmac_init,
        .update = hash_hmac_update,
        .final = hash_hmac_final,
};

WEFT_HASH_REGISTER(hmac_sha256, hash_hmac)
