/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file "sha256" (FIPS 180-4) and "hmac-sha256" (RFC 2104, FIPS 198-1) by OpenSSL's libcrypto.
 *
 * The result is the digest's 32 octets in the order of FIPS 180-4, most significant first. Both
 * hashes reveal the content of a short range to the peer, as every hash does. So a region needs
 * remote read to be verified.
 *
 * A computation is libcrypto's SHA256_CTX in the caller's state. The EVP functions would need a
 * context on the heap and a provider. Beginning and ending such a context made the longest polls of
 * a worker, 15 to 90 us of code and data outside every cache, where a slice takes 3 us. Here
 * nothing is looked up, allocated or locked, and nothing can fail once a computation has begun.
 */

/* libcrypto deprecates these functions in favour of EVP; see above. */
#define OPENSSL_SUPPRESS_DEPRECATED

#include <assert.h>
#include <errno.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "weft_base.h"
#include <weft/hash.h>

/* Without SHA instructions SHA-256 takes about 4 ns an octet. */
#define HASH_SHA256_SLICE_BYTES (4 * 1024)

/** Stored in the state of a computation. */
struct hash_sha256 {
	/** digest of the octets; with a key, of its inner block and the octets */
	SHA256_CTX inner;
	SHA256_CTX outer; /**< with a key only: begins with its outer block */
};
static_assert(sizeof(struct hash_sha256) <= sizeof(struct weft_hash_state), "fits");

static inline struct hash_sha256 *
hash_of(struct weft_hash_state *st)
{
	return (struct hash_sha256 *)(void *)st->opaque;
}

/* SHA256_Init(), _Update() and _Final() always answer 1. */
static void
hash_sha256_update(struct weft_hash_state *st, const void *data, size_t len_bytes)
{
	SHA256_Update(&hash_of(st)->inner, data, len_bytes);
}

/* ---- sha256 ---- */

static int
hash_sha256_init(struct weft_hash_state *st, const void *key, size_t key_bytes)
{
	if (key != NULL || key_bytes != 0)
		return -EINVAL;
	SHA256_Init(&hash_of(st)->inner);
	return 0;
}

static void
hash_sha256_final(struct weft_hash_state *st, void *result)
{
	SHA256_Final(result, &hash_of(st)->inner);
}

static const struct weft_hash_ops hash_sha256 = {
        .name = "sha256",
        .result_bytes = SHA256_DIGEST_LENGTH,
        .slice_bytes = HASH_SHA256_SLICE_BYTES,
        .init = hash_sha256_init,
        .update = hash_sha256_update,
        .final = hash_sha256_final,
};

WEFT_HASH_REGISTER(sha256, hash_sha256)

/* ---- hmac-sha256 ---- */

/* RFC 2104 s2: a key longer than a block is replaced by its digest; a shorter one is padded with
 * zeros. */
static void
hash_hmac_block(uint8_t block[SHA256_CBLOCK], const void *key, size_t key_bytes)
{
	SHA256_CTX ctx;

	memset(block, 0, SHA256_CBLOCK);
	if (key_bytes <= SHA256_CBLOCK) {
		memcpy(block, key, key_bytes);
		return;
	}
	SHA256_Init(&ctx);
	SHA256_Update(&ctx, key, key_bytes);
	SHA256_Final(block, &ctx);
	OPENSSL_cleanse(&ctx, sizeof(ctx));
}

/** Begin a digest with the key's block, every octet of it XORed with pad. */
static void
hash_hmac_begin(SHA256_CTX *ctx, const uint8_t block[SHA256_CBLOCK], uint8_t pad)
{
	uint8_t padded[SHA256_CBLOCK];

	for (unsigned int i = 0; i < SHA256_CBLOCK; i++)
		padded[i] = block[i] ^ pad;
	SHA256_Init(ctx);
	SHA256_Update(ctx, padded, sizeof(padded));
	OPENSSL_cleanse(padded, sizeof(padded));
}

static int
hash_hmac_init(struct weft_hash_state *st, const void *key, size_t key_bytes)
{
	uint8_t block[SHA256_CBLOCK];

	if (key == NULL || key_bytes == 0 || key_bytes > WEFT_HASH_KEY_MAX_BYTES)
		return -EINVAL;
	hash_hmac_block(block, key, key_bytes);
	hash_hmac_begin(&hash_of(st)->inner, block, 0x36); /* ipad, opad: RFC 2104 s2 */
	hash_hmac_begin(&hash_of(st)->outer, block, 0x5c);
	OPENSSL_cleanse(block, sizeof(block));
	return 0;
}

static void
hash_hmac_final(struct weft_hash_state *st, void *result)
{
	struct hash_sha256 *h = hash_of(st);
	uint8_t digest[SHA256_DIGEST_LENGTH];

	SHA256_Final(digest, &h->inner);
	SHA256_Update(&h->outer, digest, sizeof(digest));
	SHA256_Final(result, &h->outer);
	OPENSSL_cleanse(h, sizeof(*h));
}

static const struct weft_hash_ops hash_hmac = {
        .name = "hmac-sha256",
        .result_bytes = SHA256_DIGEST_LENGTH,
        .key_min_bytes = 1,
        .key_max_bytes = WEFT_HASH_KEY_MAX_BYTES,
        .slice_bytes = HASH_SHA256_SLICE_BYTES,
        .init = hash_hmac_init,
        .update = hash_sha256_update,
        .final = hash_hmac_final,
};

WEFT_HASH_REGISTER(hmac_sha256, hash_hmac)
