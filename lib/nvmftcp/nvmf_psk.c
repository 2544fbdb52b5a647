/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Keys of TLS: see nvmf_psk.h.
 */

#include <errno.h>
#include <isa-l/crc.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#include "nvmf_psk.h"
#include "weft_nvmf_wire.h"

#define PSK_PREFIX     "NVMeTLSkey-1:"
#define PSK_CRC_BYTES  4U
#define PSK_TEXT_BYTES 72U /**< of base64: 52 octets */
#define PSK_INFO_BYTES (2 + 1 + 18 + 1 + NVMF_PSK_IDENTITY_BYTES)

const char *
nvmf_psk_derivation_name(enum weft_nvmf_psk_derivation d)
{
	return d == WEFT_NVMF_PSK_RFC8446 ? "RFC 8446" : "older libnvme (compat)";
}

void
weft_nvmf_psk_wipe(void *p, size_t bytes)
{
	OPENSSL_cleanse(p, bytes);
}

/* ---- The interchange format ---- */

static int
psk_bad(const char **why, int rc, const char *words)
{
	*why = words;
	return rc;
}

/** The base64 behind the hash, up to the colon that ends it. */
static int
psk_decode(const char *p, size_t chars, struct weft_nvmf_psk *out, const char **why)
{
	uint8_t raw[PSK_TEXT_BYTES / 4 * 3 + 1];
	const size_t pad = chars == PSK_TEXT_BYTES ? 2 : 0;
	int rc = 0;

	if (chars != 48 && chars != PSK_TEXT_BYTES)
		return psk_bad(why, -EINVAL, "the key has neither 32 nor 48 octets");
	if (strspn(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") !=
	            chars - pad ||
	    memcmp(p + chars - pad, "==", pad) != 0)
		return psk_bad(why, -EINVAL, "the key is not base64");
	out->bytes = pad == 0 ? 32 : 48;
	if (EVP_DecodeBlock(raw, (const uint8_t *)p, (int)chars) < 0)
		rc = psk_bad(why, -EINVAL, "the key is not base64");
	else if (crc32_gzip_refl(0, raw, out->bytes) != weft_nvmf_get32(raw + out->bytes))
		rc = psk_bad(why, -EBADMSG, "the CRC-32 of the key is wrong");
	else
		memcpy(out->key, raw, out->bytes);
	weft_nvmf_psk_wipe(raw, sizeof(raw));
	return rc;
}

int
weft_nvmf_psk_parse(const char *text, struct weft_nvmf_psk *out, const char **why)
{
	const size_t prefix = strlen(PSK_PREFIX);
	const char *p, *end;
	int rc;

	memset(out, 0, sizeof(*out));
	if (strncmp(text, PSK_PREFIX, prefix) != 0)
		return psk_bad(why, -EINVAL, "the key does not begin with " PSK_PREFIX);
	p = text + prefix;
	if (p[0] != '0' || p[1] < '0' || p[1] > '2' || p[2] != ':')
		return psk_bad(why, -EINVAL, "the hash of the key is none of 00, 01 and 02");
	end = strchr(p + 3, ':');
	if (end == NULL || end[1] != 0)
		return psk_bad(why, -EINVAL, "the key does not end with a colon");
	rc = psk_decode(p + 3, (size_t)(end - p) - 3, out, why);
	if (rc == 0 && p[1] != '0' && (p[1] == '1') != (out->bytes == 32))
		rc = psk_bad(why, -EINVAL, "the length of the key is not that of its hash");
	if (rc != 0) {
		weft_nvmf_psk_wipe(out, sizeof(*out));
		return rc;
	}
	out->hash = out->bytes == 32 ? NVMF_PSK_SHA256 : NVMF_PSK_SHA384;
	out->retained = p[1] == '0';
	return 0;
}

/* ---- Derivation ---- */

static int
psk_hmac(uint8_t hash, const void *key, size_t key_bytes, const void *data, size_t bytes,
         uint8_t out[WEFT_NVMF_PSK_MAX_BYTES])
{
	const EVP_MD *md = hash == NVMF_PSK_SHA256 ? EVP_sha256() : EVP_sha384();

	return HMAC(md, key, (int)key_bytes, data, bytes, out, NULL) == NULL ? -EIO : 0;
}

/** The HkdfLabel, as the derivation writes it. Returns its length. -ENAMETOOLONG. */
static int
psk_label(enum weft_nvmf_psk_derivation d, uint16_t bytes, const char *label, const char *context,
          uint8_t out[PSK_INFO_BYTES])
{
	const size_t nlabel = strlen(label), ncontext = strlen(context);
	size_t n = 2;

	if (ncontext > (d == WEFT_NVMF_PSK_RFC8446 ? 255 : NVMF_PSK_IDENTITY_BYTES))
		return -ENAMETOOLONG;
	/* compat has the order of the host's processor: little-endian here */
	out[d == WEFT_NVMF_PSK_RFC8446 ? 0 : 1] = 0;
	out[d == WEFT_NVMF_PSK_RFC8446 ? 1 : 0] = (uint8_t)bytes;
	if (d == WEFT_NVMF_PSK_RFC8446)
		out[n++] = (uint8_t)nlabel;
	memcpy(out + n, label, nlabel);
	n += nlabel;
	if (d == WEFT_NVMF_PSK_RFC8446)
		out[n++] = (uint8_t)ncontext;
	memcpy(out + n, context, ncontext);
	return (int)(n + ncontext);
}

/** Extract without a salt, and expand to one block: a key is as long as its hash (RFC 5869). */
static int
psk_hkdf(const struct weft_nvmf_psk *psk, enum weft_nvmf_psk_derivation d, const uint8_t *in,
         const char *label, const char *context, uint8_t out[WEFT_NVMF_PSK_MAX_BYTES])
{
	static const uint8_t salt[WEFT_NVMF_PSK_MAX_BYTES];
	uint8_t prk[WEFT_NVMF_PSK_MAX_BYTES], info[PSK_INFO_BYTES + 1];
	const int n = psk_label(d, (uint16_t)psk->bytes, label, context, info);
	int rc;

	if (n < 0)
		return n;
	info[n] = 1;
	rc = psk_hmac(psk->hash, salt, psk->bytes, in, psk->bytes, prk);
	if (rc == 0)
		rc = psk_hmac(psk->hash, prk, psk->bytes, info, (size_t)n + 1, out);
	weft_nvmf_psk_wipe(prk, sizeof(prk));
	return rc;
}

static int
psk_retained(const struct weft_nvmf_psk *psk, enum weft_nvmf_psk_derivation d, const char *host,
             uint8_t out[WEFT_NVMF_PSK_MAX_BYTES])
{
	if (!psk->retained)
		return psk_hkdf(psk, d, psk->key, "tls13 HostNQN", host, out);
	memcpy(out, psk->key, psk->bytes);
	return 0;
}

/** What is behind the NQNs in an identity of version 1: the digest in base64. */
static int
psk_digest(const struct weft_nvmf_psk *psk, const uint8_t *retained, const char *host,
           const char *sub, char out[PSK_TEXT_BYTES + 1])
{
	char text[NVMF_PSK_IDENTITY_BYTES];
	uint8_t mac[WEFT_NVMF_PSK_MAX_BYTES];
	const int n = snprintf(text, sizeof(text), "%s %s NVMe-over-Fabrics", host, sub);
	int rc;

	if (n >= (int)sizeof(text))
		return -ENAMETOOLONG;
	rc = psk_hmac(psk->hash, retained, psk->bytes, text, (size_t)n, mac);
	if (rc == 0)
		(void)EVP_EncodeBlock((uint8_t *)out, mac, (int)psk->bytes);
	return rc;
}

/** The identity; with version 1, the digest as well. */
static int
psk_name(const struct weft_nvmf_psk *psk, const uint8_t *retained, unsigned int version,
         const char *host, const char *sub, char digest[PSK_TEXT_BYTES + 1],
         char out[NVMF_PSK_IDENTITY_BYTES])
{
	int n, rc;

	digest[0] = 0;
	if (version > 1)
		return -EINVAL;
	rc = version == 1 ? psk_digest(psk, retained, host, sub, digest) : 0;
	if (rc != 0)
		return rc;
	n = snprintf(out, NVMF_PSK_IDENTITY_BYTES, "NVMe%uR%02u %s %s%s%s", version, psk->hash,
	             host, sub, version == 1 ? " " : "", digest);
	return n < (int)NVMF_PSK_IDENTITY_BYTES ? 0 : -ENAMETOOLONG;
}

int
nvmf_psk_identity(const struct weft_nvmf_psk *psk, enum weft_nvmf_psk_derivation d,
                  unsigned int version, const char *host, const char *sub,
                  char out[NVMF_PSK_IDENTITY_BYTES])
{
	char digest[PSK_TEXT_BYTES + 1];
	uint8_t retained[WEFT_NVMF_PSK_MAX_BYTES];
	int rc = psk_retained(psk, d, host, retained);

	if (rc == 0)
		rc = psk_name(psk, retained, version, host, sub, digest, out);
	weft_nvmf_psk_wipe(retained, sizeof(retained));
	return rc;
}

int
nvmf_psk_tls(const struct weft_nvmf_psk *psk, enum weft_nvmf_psk_derivation d, unsigned int version,
             const char *host, const char *sub, uint8_t out[WEFT_NVMF_PSK_MAX_BYTES])
{
	char identity[NVMF_PSK_IDENTITY_BYTES], digest[PSK_TEXT_BYTES + 1];
	char context[4 + PSK_TEXT_BYTES];
	uint8_t retained[WEFT_NVMF_PSK_MAX_BYTES];
	int rc = psk_retained(psk, d, host, retained);

	if (rc == 0)
		rc = psk_name(psk, retained, version, host, sub, digest, identity);
	if (rc == 0) {
		(void)snprintf(context, sizeof(context), "%02u %s", psk->hash & 3U, digest);
		rc = psk_hkdf(psk, d, retained, "tls13 nvme-tls-psk",
		              version == 0 ? identity : context, out);
	}
	weft_nvmf_psk_wipe(retained, sizeof(retained));
	return rc;
}
