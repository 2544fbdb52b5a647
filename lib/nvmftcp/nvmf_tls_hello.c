/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file ClientHellos: see nvmf_tls_hello.h.
 */

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#include "nvmf_tls_hello.h"

#define HELLO_HEAD      4U  /**< type, length */
#define HELLO_FIXED     34U /**< version, random */
#define HELLO_PSK       41U /**< extension pre_shared_key */
#define HELLO_AGE_BYTES 4U

/* ---- The message ---- */

/** What is left of a part of the message. */
struct hello_in {
	const uint8_t *p;
	size_t left;
};

/** Take octets; NULL: there are not as many. */
static const uint8_t *
hello_take(struct hello_in *in, size_t bytes)
{
	const uint8_t *p = in->p;

	if (bytes > in->left)
		return NULL;
	in->p += bytes;
	in->left -= bytes;
	return p;
}

/** Take a vector whose length has `size` octets. False: it is cut off. */
static bool
hello_vector(struct hello_in *in, size_t size, struct hello_in *out)
{
	const uint8_t *len = hello_take(in, size);
	size_t n = 0;

	for (size_t i = 0; len != NULL && i < size; i++)
		n = n << 8 | len[i];
	out->left = n;
	out->p = len == NULL ? NULL : hello_take(in, n);
	return out->p != NULL;
}

/** The extension pre_shared_key, which is the last one. */
static int
hello_psk(struct hello_in ext, struct nvmf_tls_hello *out)
{
	struct hello_in ids, binders, id, binder;

	if (!hello_vector(&ext, 2, &ids))
		return -EPROTO;
	out->bound_bytes = (size_t)(ext.p - out->msg);
	if (!hello_vector(&ext, 2, &binders) || ext.left > 0)
		return -EPROTO;
	while (ids.left > 0 && out->noffers < NVMF_TLS_OFFERS_MAX) {
		if (!hello_vector(&ids, 2, &id) || hello_take(&ids, HELLO_AGE_BYTES) == NULL ||
		    !hello_vector(&binders, 1, &binder))
			return -EPROTO;
		out->offers[out->noffers++] = (struct nvmf_tls_offer){.id = id.p,
		                                                      .id_bytes = id.left,
		                                                      .binder = binder.p,
		                                                      .binder_bytes = binder.left};
	}
	return 0;
}

int
nvmf_tls_hello_read(const uint8_t *msg, size_t bytes, struct nvmf_tls_hello *out)
{
	struct hello_in in = {.p = msg, .left = bytes}, skip, all, ext;
	const uint8_t *type;

	*out = (struct nvmf_tls_hello){.msg = msg};
	if (hello_take(&in, HELLO_HEAD + HELLO_FIXED) == NULL || !hello_vector(&in, 1, &skip) ||
	    !hello_vector(&in, 2, &skip) || !hello_vector(&in, 1, &skip) ||
	    !hello_vector(&in, 2, &all) || in.left > 0)
		return -EPROTO;
	while (all.left > 0) {
		type = hello_take(&all, 2);
		if (type == NULL || !hello_vector(&all, 2, &ext))
			return -EPROTO;
		if (type[0] == 0 && type[1] == HELLO_PSK)
			return all.left > 0 ? -EPROTO : hello_psk(ext, out);
	}
	return 0;
}

/* ---- Binders (RFC 8446 s4.2.11.2, s7.1) ---- */

static bool
hello_hmac(const EVP_MD *md, const uint8_t *key, size_t key_bytes, const void *data, size_t bytes,
           uint8_t *out)
{
	return HMAC(md, key, (int)key_bytes, data, bytes, out, NULL) != NULL;
}

/** HKDF-Expand-Label to the length of the hash. */
static bool
hello_expand(const EVP_MD *md, const uint8_t *key, const char *label, const uint8_t *context,
             size_t bytes, uint8_t *out)
{
	const size_t size = (size_t)EVP_MD_get_size(md), n = strlen(label);
	uint8_t info[4 + 32 + WEFT_NVMF_PSK_MAX_BYTES + 1] = {0, (uint8_t)size, (uint8_t)n};

	memcpy(info + 3, label, n);
	info[3 + n] = (uint8_t)bytes;
	memcpy(info + 4 + n, context, bytes);
	info[4 + n + bytes] = 1;
	return hello_hmac(md, key, size, info, 5 + n + bytes, out);
}

/** The hash of what binders cover. NULL: there is no memory. */
static const uint8_t *
hello_digest(struct nvmf_tls_hello *h, const EVP_MD *md, uint32_t bytes)
{
	const unsigned int i = bytes != 32;

	if (!h->digested[i])
		h->digested[i] =
		        EVP_Digest(h->msg, h->bound_bytes, h->digest[i], NULL, md, NULL) == 1;
	return h->digested[i] ? h->digest[i] : NULL;
}

/** Whether the binder was made with this key. */
static bool
hello_binds(struct nvmf_tls_hello *h, const struct nvmf_tls_offer *o, const uint8_t *psk,
            uint32_t bytes)
{
	static const uint8_t zeros[WEFT_NVMF_PSK_MAX_BYTES];
	const EVP_MD *md = bytes == 32 ? EVP_sha256() : EVP_sha384();
	uint8_t a[EVP_MAX_MD_SIZE], b[EVP_MAX_MD_SIZE], hash[EVP_MAX_MD_SIZE];
	const uint8_t *all = o->binder_bytes == bytes ? hello_digest(h, md, bytes) : NULL;
	bool ok = all != NULL && hello_hmac(md, zeros, bytes, psk, bytes, a);

	ok = ok && EVP_Digest("", 0, hash, NULL, md, NULL) == 1 &&
	     hello_expand(md, a, "tls13 ext binder", hash, bytes, b) &&
	     hello_expand(md, b, "tls13 finished", hash, 0, a) &&
	     hello_hmac(md, a, bytes, all, bytes, b) && CRYPTO_memcmp(b, o->binder, bytes) == 0;
	weft_nvmf_psk_wipe(a, sizeof(a));
	weft_nvmf_psk_wipe(b, sizeof(b));
	return ok;
}

/* ---- Keys ---- */

/** One offer, and what was found of it. */
struct hello_look {
	struct nvmf_tls_hello *h;
	const struct nvmf_tls_offer *offer;
	struct weft_nvmf_tls *keys;
	unsigned int version, hash;
	struct nvmf_tls_found *out;
	int rc;
};

/** Take the identity apart: `NVMe0R01 HOST SUBSYSTEM`, or `NVMe1R01 HOST SUBSYSTEM DIGEST`. */
static bool
hello_identity(struct hello_look *l)
{
	const struct nvmf_tls_offer *o = l->offer;
	char digest[NVMF_PSK_IDENTITY_BYTES], host[NVMF_PSK_IDENTITY_BYTES];
	char sub[NVMF_PSK_IDENTITY_BYTES];
	int n;

	if (o->id_bytes >= sizeof(l->out->identity) || memchr(o->id, 0, o->id_bytes) != NULL)
		return false;
	memcpy(l->out->identity, o->id, o->id_bytes);
	l->out->identity[o->id_bytes] = 0;
	/* no field is longer than the identity */
	n = sscanf(l->out->identity, "NVMe%1uR0%1u %539s %539s %539s", &l->version, &l->hash, host,
	           sub, digest);
	if (n != (l->version == 0 ? 4 : 5) || !weft_nvmf_nqn_ok(host) || !weft_nvmf_nqn_ok(sub))
		return false;
	memcpy(l->out->hostnqn, host, strlen(host) + 1);
	memcpy(l->out->subnqn, sub, strlen(sub) + 1);
	return true;
}

/** A configured key of the offer's host, as this derivation has it. */
static bool
hello_try(struct hello_look *l, const struct weft_nvmf_psk *psk, enum weft_nvmf_psk_derivation d)
{
	struct nvmf_tls_found *f = l->out;
	char identity[NVMF_PSK_IDENTITY_BYTES];
	uint8_t key[WEFT_NVMF_PSK_MAX_BYTES];
	bool ours = false;

	if (nvmf_psk_identity(psk, d, l->version, f->hostnqn, f->subnqn, identity) != 0 ||
	    strcmp(identity, l->out->identity) != 0 ||
	    nvmf_psk_tls(psk, d, l->version, f->hostnqn, f->subnqn, key) != 0)
		return false;
	if (l->rc == -ENOENT)
		l->rc = -EKEYREJECTED;
	if (hello_binds(l->h, l->offer, key, psk->bytes)) {
		ours = nvmf_tls_keys_admit(l->keys, d);
		l->rc = ours ? 0 : -EACCES;
		f->derivation = d;
		f->bytes = psk->bytes;
		memcpy(f->psk, key, psk->bytes);
	}
	weft_nvmf_psk_wipe(key, sizeof(key));
	return ours;
}

/** The keys of the offer's host, as long as there are tries. */
static void
hello_keys(struct hello_look *l, uint32_t *tries, bool *more)
{
	struct nvmf_tls_key k[NVMF_TLS_TRIES_MAX];
	const uint32_t n = nvmf_tls_keys_copy(l->keys, l->out->hostnqn, l->out->subnqn, l->hash, k,
	                                      *tries, more);
	bool found = false;

	*tries -= n;
	for (uint32_t i = 0; !found && i < n; i++)
		for (unsigned int d = 0; !found && d < WEFT_NVMF_PSK_DERIVATIONS; d++) {
			found = hello_try(l, &k[i].psk, d);
			l->out->serial = found ? k[i].serial : 0;
		}
	weft_nvmf_psk_wipe(k, sizeof(k));
}

int
nvmf_tls_hello_find(struct nvmf_tls_hello *h, struct weft_nvmf_tls *keys,
                    struct nvmf_tls_found *out)
{
	struct nvmf_tls_found first = {0};
	uint32_t tries = NVMF_TLS_TRIES_MAX;
	bool more = false;

	for (unsigned int i = 0; i < h->noffers; i++) {
		struct hello_look l = {
		        .h = h, .offer = &h->offers[i], .keys = keys, .out = out, .rc = -ENOENT};

		memset(out, 0, sizeof(*out));
		if (!hello_identity(&l))
			continue;
		hello_keys(&l, &tries, &more);
		if (l.rc == -EKEYREJECTED && more)
			return -E2BIG;
		if (l.rc != -ENOENT)
			return l.rc;
		if (first.hostnqn[0] == 0)
			first = *out;
	}
	*out = first;
	return more ? -E2BIG : -ENOENT;
}
