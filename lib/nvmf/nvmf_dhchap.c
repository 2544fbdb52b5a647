/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The computations of DH-HMAC-CHAP: secrets, responses, Diffie-Hellman groups.
 */

#include <errno.h>
#include <string.h>

#include <isa-l/crc.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/params.h>

#include "nvmf_dhchap.h"

#define SECRET_PREFIX "DHHC-1:"
#define SECRET_BIND   "NVMe-over-Fabrics"
#define CRC_BYTES     4U

static const struct {
	const char *name;
	uint32_t bytes;
} dhchap_hashes[] = {{NULL, 0}, {"SHA256", 32}, {"SHA384", 48}, {"SHA512", 64}};

static const struct {
	const char *name;
	uint32_t bytes;
} dhchap_groups[NVMF_DHCHAP_GROUPS] = {{NULL, 0},          {"ffdhe2048", 256}, {"ffdhe3072", 384},
                                       {"ffdhe4096", 512}, {"ffdhe6144", 768}, {"ffdhe8192", 1024}};

uint32_t
nvmf_dhchap_hash_bytes(uint8_t hash)
{
	return hash < sizeof(dhchap_hashes) / sizeof(dhchap_hashes[0]) ? dhchap_hashes[hash].bytes
	                                                               : 0;
}

uint32_t
nvmf_dhchap_dh_bytes(uint8_t group)
{
	return group < NVMF_DHCHAP_GROUPS ? dhchap_groups[group].bytes : 0;
}

/* ---- Secrets ---- */

/** The key's octets and the CRC behind them. Returns how many, or -1. */
static int
dhchap_base64(const char *text, size_t len, uint8_t out[WEFT_NVMF_SECRET_BYTES + 8])
{
	int n, pad = 0;

	if (len == 0 || len % 4 != 0 || len / 4 * 3 > WEFT_NVMF_SECRET_BYTES + 8)
		return -1;
	while (pad < 2 && text[len - 1 - (size_t)pad] == '=')
		pad++;
	n = EVP_DecodeBlock(out, (const unsigned char *)text, (int)len);
	return n < 0 ? -1 : n - pad;
}

static const char *
dhchap_secret(const char *text, struct weft_nvmf_secret *out)
{
	uint8_t raw[WEFT_NVMF_SECRET_BYTES + 8];
	const size_t prefix = strlen(SECRET_PREFIX), len = strlen(text);
	const char *why = NULL;
	int n;

	if (len < prefix + 4 || strncmp(text, SECRET_PREFIX, prefix) != 0 ||
	    text[prefix + 2] != ':' || text[len - 1] != ':')
		return "it is not of the form DHHC-1:hh:BASE64:";
	if (text[prefix] != '0' || text[prefix + 1] < '0' || text[prefix + 1] > '3')
		return "its hash is none of 00, 01, 02, 03";
	n = dhchap_base64(text + prefix + 3, len - prefix - 4, raw);
	if (n < 0)
		why = "its key is no base64 of 36, 52 or 68 octets";
	else if (n != 32 + (int)CRC_BYTES && n != 48 + (int)CRC_BYTES && n != 64 + (int)CRC_BYTES)
		why = "its key has not 32, 48 or 64 octets";
	else if (crc32_gzip_refl(0, raw, (uint64_t)n - CRC_BYTES) !=
	         weft_nvmf_get32(raw + n - CRC_BYTES))
		why = "its CRC is wrong: a character is wrong or missing";
	if (why == NULL) {
		out->bytes = (uint8_t)(n - (int)CRC_BYTES);
		out->hash = (uint8_t)(text[prefix + 1] - '0');
		memcpy(out->key, raw, out->bytes);
	}
	explicit_bzero(raw, sizeof(raw));
	return why;
}

int
weft_nvmf_secret_decode(const char *text, struct weft_nvmf_secret *out, const char **why)
{
	memset(out, 0, sizeof(*out));
	*why = dhchap_secret(text, out);
	return *why == NULL ? 0 : -EINVAL;
}

/* ---- Responses ---- */

/** HMAC of pieces that end with a NULL. */
static int
dhchap_hmac(uint8_t hash, const void *key, size_t key_bytes, uint8_t *out,
            const void *const piece[], const size_t bytes[], unsigned int n)
{
	char name[8];
	OSSL_PARAM params[2];
	EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	EVP_MAC_CTX *ctx = mac != NULL ? EVP_MAC_CTX_new(mac) : NULL;
	size_t made = 0;
	int ok;

	strcpy(name, dhchap_hashes[hash].name);
	params[0] = OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name, 0);
	params[1] = OSSL_PARAM_construct_end();
	ok = ctx != NULL && EVP_MAC_init(ctx, key, key_bytes, params) == 1;
	for (unsigned int i = 0; i < n && ok; i++)
		ok = EVP_MAC_update(ctx, piece[i], bytes[i]) == 1;
	ok = ok && EVP_MAC_final(ctx, out, &made, NVMF_DHCHAP_HASH_MAX) == 1 &&
	     made == dhchap_hashes[hash].bytes;
	EVP_MAC_CTX_free(ctx);
	EVP_MAC_free(mac);
	return ok ? 0 : -EIO;
}

/** The secret as it is used by the owner of a name. */
static int
dhchap_bind(const struct weft_nvmf_secret *s, const char *nqn, uint8_t out[NVMF_DHCHAP_HASH_MAX],
            size_t *bytes)
{
	const void *piece[] = {nqn, SECRET_BIND};
	const size_t len[] = {strlen(nqn), strlen(SECRET_BIND)};

	if (s->hash == 0) {
		memcpy(out, s->key, s->bytes);
		*bytes = s->bytes;
		return 0;
	}
	*bytes = dhchap_hashes[s->hash].bytes;
	return dhchap_hmac(s->hash, s->key, s->bytes, out, piece, len, 2);
}

/** The challenge, bound to the shared secret of the group. */
static int
dhchap_augment(const struct nvmf_dhchap_in *in, uint8_t out[NVMF_DHCHAP_HASH_MAX])
{
	const size_t hl = dhchap_hashes[in->hash].bytes;
	const void *piece[] = {in->challenge};
	uint8_t key[NVMF_DHCHAP_HASH_MAX];
	size_t made = 0;
	int r = -EIO;

	if (in->shared_bytes == 0) {
		memcpy(out, in->challenge, hl);
		return 0;
	}
	if (EVP_Q_digest(NULL, dhchap_hashes[in->hash].name, NULL, in->shared, in->shared_bytes,
	                 key, &made) == 1)
		r = dhchap_hmac(in->hash, key, hl, out, piece, &hl, 1);
	explicit_bzero(key, sizeof(key));
	return r;
}

int
nvmf_dhchap_response(const struct nvmf_dhchap_in *in, uint8_t out[NVMF_DHCHAP_HASH_MAX])
{
	uint8_t key[NVMF_DHCHAP_HASH_MAX], challenge[NVMF_DHCHAP_HASH_MAX], numbers[7] = {0};
	const void *piece[] = {challenge, numbers, in->role, in->own, numbers + 6, in->peer};
	const size_t len[] = {dhchap_hashes[in->hash].bytes,
	                      sizeof(numbers),
	                      strlen(in->role),
	                      strlen(in->own),
	                      1,
	                      strlen(in->peer)};
	size_t key_bytes;
	int r;

	/* the last octet is SC_C, which is 0 here, and the zero between the names */
	weft_nvmf_put32(numbers, in->seqnum);
	weft_nvmf_put16(numbers + 4, in->tid);
	r = dhchap_bind(in->secret, in->own, key, &key_bytes);
	if (r == 0)
		r = dhchap_augment(in, challenge);
	if (r == 0)
		r = dhchap_hmac(in->hash, key, key_bytes, out, piece, len, 6);
	explicit_bzero(key, sizeof(key));
	explicit_bzero(challenge, sizeof(challenge));
	return r;
}

/* ---- Groups ---- */

int
nvmf_dhchap_key(uint8_t group, void **key, uint8_t *pub)
{
	char name[16];
	OSSL_PARAM params[2];
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "DH", NULL);
	EVP_PKEY *made = NULL;
	BIGNUM *y = NULL;
	int ok;

	strcpy(name, dhchap_groups[group].name);
	params[0] = OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, name, 0);
	params[1] = OSSL_PARAM_construct_end();
	ok = ctx != NULL && EVP_PKEY_keygen_init(ctx) == 1 &&
	     EVP_PKEY_CTX_set_params(ctx, params) == 1 && EVP_PKEY_generate(ctx, &made) == 1 &&
	     EVP_PKEY_get_bn_param(made, OSSL_PKEY_PARAM_PUB_KEY, &y) == 1 &&
	     BN_bn2binpad(y, pub, (int)dhchap_groups[group].bytes) >= 0;
	BN_free(y);
	EVP_PKEY_CTX_free(ctx);
	if (!ok) {
		EVP_PKEY_free(made);
		return -EIO;
	}
	*key = made;
	return 0;
}

/** The peer's public value as a key. *r: -EINVAL: it is none. */
static EVP_PKEY *
dhchap_peer(uint8_t group, EVP_PKEY *own, const uint8_t *peer, int *r)
{
	BIGNUM *y = BN_bin2bn(peer, (int)dhchap_groups[group].bytes, NULL), *p = NULL;
	OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "DH", NULL);
	OSSL_PARAM *params = NULL;
	EVP_PKEY *made = NULL;

	*r = -EIO;
	if (y != NULL && build != NULL && ctx != NULL &&
	    EVP_PKEY_get_bn_param(own, OSSL_PKEY_PARAM_FFC_P, &p) == 1 && BN_sub_word(p, 1) == 1) {
		if (BN_is_zero(y) || BN_is_one(y) || BN_cmp(y, p) >= 0)
			*r = -EINVAL;
		else if (OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME,
		                                         dhchap_groups[group].name, 0) == 1 &&
		         OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_PUB_KEY, y) == 1 &&
		         (params = OSSL_PARAM_BLD_to_param(build)) != NULL &&
		         EVP_PKEY_fromdata_init(ctx) == 1 &&
		         EVP_PKEY_fromdata(ctx, &made, EVP_PKEY_PUBLIC_KEY, params) == 1)
			*r = 0;
	}
	OSSL_PARAM_free(params);
	EVP_PKEY_CTX_free(ctx);
	OSSL_PARAM_BLD_free(build);
	BN_free(y);
	BN_free(p);
	return made;
}

int
nvmf_dhchap_shared(uint8_t group, void *key, const uint8_t *peer, uint8_t *out)
{
	unsigned int pad = 1;
	OSSL_PARAM params[] = {OSSL_PARAM_construct_uint(OSSL_EXCHANGE_PARAM_PAD, &pad),
	                       OSSL_PARAM_construct_end()};
	size_t made = dhchap_groups[group].bytes;
	EVP_PKEY_CTX *ctx;
	EVP_PKEY *other;
	int r;

	other = dhchap_peer(group, key, peer, &r);
	if (r != 0)
		return r;
	ctx = EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL);
	/* No check of the value by libcrypto (0): it raises it to the group's order, which costs 16
	 * times what the rest does. These primes are safe ones (RFC 7919 s5.1), so that what
	 * dhchap_peer() has refused is all that is in a small subgroup. */
	if (ctx == NULL || EVP_PKEY_derive_init_ex(ctx, params) != 1 ||
	    EVP_PKEY_derive_set_peer_ex(ctx, other, 0) != 1 ||
	    EVP_PKEY_derive(ctx, out, &made) != 1 || made != dhchap_groups[group].bytes)
		r = -EIO;
	EVP_PKEY_CTX_free(ctx);
	EVP_PKEY_free(other);
	return r;
}

void
nvmf_dhchap_key_free(void *key)
{
	EVP_PKEY_free(key);
}
