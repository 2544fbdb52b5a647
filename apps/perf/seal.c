/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The hash of a run's document (seal.h). */

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "seal.h"

#define SEAL_KEY  "  \"sha256\": \""
#define SEAL_END  "\",\n"
#define SEAL_HEX  (2 * SHA256_DIGEST_LENGTH)
#define SEAL_LINE (sizeof(SEAL_KEY) - 1 + SEAL_HEX + sizeof(SEAL_END) - 1)

/** Hash two parts of a text, one behind the other. False: no memory. */
static bool
seal_hash(const char *a, size_t a_len, const char *b, size_t b_len, char hex[SEAL_HEX + 1])
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	unsigned char sum[SHA256_DIGEST_LENGTH];
	const bool ok = md != NULL && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1 &&
	                EVP_DigestUpdate(md, a, a_len) == 1 &&
	                EVP_DigestUpdate(md, b, b_len) == 1 &&
	                EVP_DigestFinal_ex(md, sum, NULL) == 1;

	EVP_MD_CTX_free(md);
	for (unsigned int i = 0; ok && i < sizeof(sum); i++)
		snprintf(hex + 2 * i, 3, "%02x", sum[i]);
	return ok;
}

/** The length of the first line with its end; 0 without an end. */
static size_t
seal_first(const char *text, size_t len)
{
	const char *end = memchr(text, '\n', len);

	return end == NULL ? 0 : (size_t)(end - text) + 1;
}

void
seal_write(FILE *f, const char *text, size_t len)
{
	const size_t first = seal_first(text, len);
	char hex[SEAL_HEX + 1];

	fwrite(text, 1, first, f);
	/* Without memory the document is written, but is no run file. */
	if (seal_hash(text, first, text + first, len - first, hex))
		fprintf(f, SEAL_KEY "%s" SEAL_END, hex);
	fwrite(text + first, 1, len - first, f);
}

int
seal_check(const char *text, size_t len)
{
	const size_t first = seal_first(text, len), head = sizeof(SEAL_KEY) - 1;
	const char *line = text + first;
	char hex[SEAL_HEX + 1];

	if (len - first < SEAL_LINE || memcmp(line, SEAL_KEY, head) != 0)
		return -ENOENT;
	if (!seal_hash(text, first, line + SEAL_LINE, len - first - SEAL_LINE, hex))
		return -ENOMEM;
	return memcmp(line + head, hex, SEAL_HEX) == 0 &&
	                       memcmp(line + head + SEAL_HEX, SEAL_END, sizeof(SEAL_END) - 1) == 0
	               ? 0
	               : -EBADMSG;
}
