/* SPDX-License-Identifier: BSD-3-Clause */
/** @file GMAC by libcrypto's functions for modes, which need no provider. */

/* libcrypto deprecates these functions in favour of EVP, which takes locks and memory
 * (hash_openssl.c). */
#define OPENSSL_SUPPRESS_DEPRECATED

#include "rpcrdma_drc_sum.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/aes.h>
#include <openssl/crypto.h>
#include <openssl/modes.h>

#define SUM_KEY_BITS    (8 * RPCRDMA_DRC_SUM_KEY_BYTES)
#define SUM_NONCE_BYTES 12

struct rpcrdma_drc_secret {
	AES_KEY aes;
};

static void
sum_block(const unsigned char in[16], unsigned char out[16], const void *key)
{
	AES_encrypt(in, out, key);
}

struct rpcrdma_drc_secret *
weft_rpcrdma_drc_secret_new(const uint8_t key[RPCRDMA_DRC_SUM_KEY_BYTES])
{
	struct rpcrdma_drc_secret *s = malloc(sizeof(*s));

	if (s != NULL)
		AES_set_encrypt_key(key, SUM_KEY_BITS, &s->aes);
	return s;
}

void
weft_rpcrdma_drc_secret_free(struct rpcrdma_drc_secret *s)
{
	if (s != NULL)
		OPENSSL_cleanse(s, sizeof(*s));
	free(s);
}

/* struct rpcrdma_drc_sum is libcrypto's context under our name. */
struct rpcrdma_drc_sum *
weft_rpcrdma_drc_sum_new(const struct rpcrdma_drc_secret *s)
{
	static const uint8_t nonce[SUM_NONCE_BYTES];
	GCM128_CONTEXT *ctx = CRYPTO_gcm128_new((void *)(uintptr_t)&s->aes, sum_block);

	if (ctx != NULL)
		CRYPTO_gcm128_setiv(ctx, nonce, sizeof(nonce));
	return (struct rpcrdma_drc_sum *)ctx;
}

void
weft_rpcrdma_drc_sum_add(struct rpcrdma_drc_sum *sum, const void *data, size_t len_bytes)
{
	if (len_bytes > 0) /* its length is bounded by a message's, far below GCM's */
		(void)CRYPTO_gcm128_aad((GCM128_CONTEXT *)sum, data, len_bytes);
}

void
weft_rpcrdma_drc_sum_end(struct rpcrdma_drc_sum *sum, uint8_t out[RPCRDMA_DRC_SUM_BYTES])
{
	CRYPTO_gcm128_tag((GCM128_CONTEXT *)sum, out, RPCRDMA_DRC_SUM_BYTES);
	CRYPTO_gcm128_release((GCM128_CONTEXT *)sum);
}
