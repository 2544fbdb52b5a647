/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Compares the keys of clients and exports (key_check.h). */

#include "key_check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf_keys.h"
#include "nvmf_secrets.h"
#include <weft/hash.h>

#define HMAC_BLOCK_BYTES 64 /* RFC 2104 s2, of SHA-256 */

/* The HMAC block of a key: the key or its digest, padded with zeros. False: no such driver. */
static bool
key_block(const struct key_file *k, uint8_t block[HMAC_BLOCK_BYTES])
{
	const struct weft_hash_ops *sha = weft_hash_find("sha256");

	memset(block, 0, HMAC_BLOCK_BYTES);
	if (k->bytes <= HMAC_BLOCK_BYTES)
		memcpy(block, k->key, k->bytes);
	else if (sha == NULL || weft_hash_once(sha, k->key, k->bytes, block) != 0)
		return false;
	return true;
}

bool
key_same(const struct key_file *a, const struct key_file *b)
{
	uint8_t one[HMAC_BLOCK_BYTES], other[HMAC_BLOCK_BYTES];
	bool same = a->bytes == b->bytes && memcmp(a->key, b->key, a->bytes) == 0;

	if (!same && key_block(a, one) && key_block(b, other))
		same = memcmp(one, other, sizeof(one)) == 0;
	explicit_bzero(one, sizeof(one));
	explicit_bzero(other, sizeof(other));
	return same;
}

int
key_check_export(const char *client, const struct key_file *key, const char *exp,
                 const struct key_file *hash_key, char *err, size_t err_size)
{
	if (hash_key->bytes == 0 || !key_same(key, hash_key))
		return 0;
	snprintf(
	        err, err_size,
	        "client %s and export %s have the same key (key_file, hash_key_file): who may push "
	        "there could be %s; give each a key of its own",
	        client, exp, client);
	return -EEXIST;
}

static int
check_client(const struct conf *c, const struct key_file *keys, uint32_t i, char *err,
             size_t err_size)
{
	for (uint32_t k = 0; k < i; k++) {
		if (!key_same(&keys[i], &keys[k]))
			continue;
		snprintf(err, err_size,
		         "clients %s and %s have the same key (key_file): each could be the other; "
		         "give each a key of its own",
		         c->clients[k].name, c->clients[i].name);
		return -EEXIST;
	}
	return 0;
}

static int
check_export(const struct conf *c, const struct key_file *keys, const struct conf_export *e,
             char *err, size_t err_size)
{
	char why[CONF_ERR_MAX];
	struct key_file k;
	int rc = 0;

	if (e->hash_key_file[0] == '\0' ||
	    key_file_read(e->hash_key_file, &k, why, sizeof(why)) != 0)
		return 0;
	for (uint32_t i = 0; rc == 0 && i < c->nclients; i++)
		rc = key_check_export(c->clients[i].name, &keys[i], e->name, &k, err, err_size);
	explicit_bzero(&k, sizeof(k));
	return rc;
}

int
key_check(const struct conf *c, char *err, size_t err_size)
{
	struct key_file *keys = calloc(c->nclients + 1, sizeof(*keys));
	char why[CONF_ERR_MAX];
	int rc = keys != NULL ? 0 : -ENOMEM;

	if (rc != 0)
		snprintf(err, err_size, "keys: out of memory");
	for (uint32_t i = 0; rc == 0 && i < c->nclients; i++) {
		rc = key_file_read(c->clients[i].key_file, &keys[i], why, sizeof(why));
		if (rc != 0)
			snprintf(err, err_size, "client %s: key_file %s: %s", c->clients[i].name,
			         c->clients[i].key_file, why);
		else
			rc = check_client(c, keys, i, err, err_size);
	}
	for (uint32_t i = 0; rc == 0 && i < c->nexports; i++)
		rc = check_export(c, keys, &c->exports[i], err, err_size);
	if (rc == 0)
		rc = nvmf_secrets_check(c, err, err_size);
	if (rc == 0)
		rc = nvmf_keys_check(c, err, err_size);
	if (keys != NULL)
		explicit_bzero(keys, (c->nclients + 1) * sizeof(*keys));
	free(keys);
	return rc;
}
