/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Keys of TLS: the interchange format, identities and both derivations, against answers that
 * psk_vectors.py has computed without this code.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "nvmf_psk.h"
#include "weft_test.h"

#define HOST "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"
#define SUB  "nqn.2024-01.org.example:s1"

static const struct vector {
	const char *text;
	enum weft_nvmf_psk_derivation d;
	unsigned int version;
	const char *digest, *psk;
} vectors[] = {
        {"NVMeTLSkey-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:", WEFT_NVMF_PSK_RFC8446,
         0, "", "d163e9094421db849c45025fcd4cb6d8bd182964378a381a5a7e2f21c8cae635"},
        {"NVMeTLSkey-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:", WEFT_NVMF_PSK_RFC8446,
         1, "GPOtXN9gADFRCmg665ff7Z7hmqkQgPljZqCU4YLHQ2s=",
         "d57e19c3ccdf5cebb19a6553532315de634092069cbdce5dcc986e6984b5c17b"},
        {"NVMeTLSkey-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:", WEFT_NVMF_PSK_COMPAT,
         0, "", "954402a15b0e6b95d2426e6c8c1ea5e98399c805eac2c8e7253678fda1c44d69"},
        {"NVMeTLSkey-1:01:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:", WEFT_NVMF_PSK_COMPAT,
         1, "gU2xUAY7/bDXEy8dLGP3laohjRHZQR47vjCILx1AM/U=",
         "4c63b2bb1a5f4a7fd335ce36dbab02374422ad003a0b33af59870275a3e5d072"},
        {"NVMeTLSkey-1:02:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vcSEgBQ=="
         ":",
         WEFT_NVMF_PSK_RFC8446, 0, "",
         "5143a6e932d5b0aab0c641f2408f6ab5d75461db8b8d1e25980b7d5c735ef55650f1de55b7ad7ed185d922352"
         "edda10c"},
        {"NVMeTLSkey-1:02:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vcSEgBQ=="
         ":",
         WEFT_NVMF_PSK_RFC8446, 1,
         "6xo+tsBAH7SmkrECxXU8/8VPI2CK25H6FU7dNYUnUF01V/6IT9KvtODx1h6QG9TS",
         "c61326ed3ca6df07e9c7ddac07744ac475e7376ec241a5f55bd86076a9278258d6be315b1fc3f61ad6979da88"
         "ed61dfa"},
        {"NVMeTLSkey-1:02:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vcSEgBQ=="
         ":",
         WEFT_NVMF_PSK_COMPAT, 0, "",
         "6ae1fae08f420421dcc15c4d9a1e8c1d1512e76b063c4ce628298a8f2fcf5243f7ce237cfb5d835ad999ca469"
         "928f69e"},
        {"NVMeTLSkey-1:02:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vcSEgBQ=="
         ":",
         WEFT_NVMF_PSK_COMPAT, 1,
         "99dY/doSRdHxRqErpkhHxrZOtYhGtXuS8HsJz0Qd8sRcCquYlr3CWUnlnsKap1wl",
         "15c62744a26d4b23f2b707a271d3a1bd325ad071666f6a2cd0eb23e61e56d332753858a0689bbefd7f643c0fa"
         "a522107"},
        {"NVMeTLSkey-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:", WEFT_NVMF_PSK_RFC8446,
         0, "", "d12b1ac00c8795a6b94966d104b6b429129d1d6bdb1554b2d17b6ed1ef7ed7ce"},
        {"NVMeTLSkey-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:", WEFT_NVMF_PSK_RFC8446,
         1, "zBFKCG9/bRH1hesgntUp4pKA5Squ4IMtDQDfhI9FqDM=",
         "abbdefa7c348267be7211daab6e2505b1966636bb97800b8a938b17f4fd7dc5a"},
        {"NVMeTLSkey-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:", WEFT_NVMF_PSK_COMPAT,
         0, "", "5bc9dc7e4c6f5ddd8663a5f6c7edfbdd19c45170d90283b33757af8a35c30321"},
        {"NVMeTLSkey-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:", WEFT_NVMF_PSK_COMPAT,
         1, "zBFKCG9/bRH1hesgntUp4pKA5Squ4IMtDQDfhI9FqDM=",
         "3de94b2007a84b265cd0e0128a9478a2fd0bd09bc14b2b26ab002394846a966d"},
        {"NVMeTLSkey-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vcSEgBQ=="
         ":",
         WEFT_NVMF_PSK_RFC8446, 0, "",
         "71683ec6ef19f57b29948e8b9af01f8bfe1a7a5b2f7c4f42375198998e8ae363a13e27d5c656bfe69567e4133"
         "24ebcc1"},
        {"NVMeTLSkey-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vcSEgBQ=="
         ":",
         WEFT_NVMF_PSK_RFC8446, 1,
         "a4WkMITehyZPgd9q1fX4bmFjoZ0IjaSjO9b8/dVaeGCIaRWs0Ink6/d6mJwZYygF",
         "b004d9debcca711c294af980029dd70611911c01da7efea326ade13a186342ea76685ebf9c5cf7af088ec30f7"
         "2f75a46"},
        {"NVMeTLSkey-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vcSEgBQ=="
         ":",
         WEFT_NVMF_PSK_COMPAT, 0, "",
         "200db71f5bd1be0d58bb3d860202d703f64c1f3d999cb81446b30eab008e881f541ae251f3b52003281198b46"
         "522725b"},
        {"NVMeTLSkey-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vcSEgBQ=="
         ":",
         WEFT_NVMF_PSK_COMPAT, 1,
         "a4WkMITehyZPgd9q1fX4bmFjoZ0IjaSjO9b8/dVaeGCIaRWs0Ink6/d6mJwZYygF",
         "80ebe59f9e8e667f07e8bcd902a5a524e6c98222521407e5b25f1c6b4c8039ba63c13e4bff286067fc3ac1804"
         "26b11af"},
};

static void
test_vectors(void)
{
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		const struct vector *v = &vectors[i];
		char want[NVMF_PSK_IDENTITY_BYTES], identity[NVMF_PSK_IDENTITY_BYTES];
		char hex[2 * WEFT_NVMF_PSK_MAX_BYTES + 1] = "";
		uint8_t key[WEFT_NVMF_PSK_MAX_BYTES];
		const char *why = NULL;
		struct weft_nvmf_psk psk;

		CHECK_EQ(weft_nvmf_psk_parse(v->text, &psk, &why), 0);
		CHECK_EQ(nvmf_psk_identity(&psk, v->d, v->version, HOST, SUB, identity), 0);
		(void)snprintf(want, sizeof(want), "NVMe%uR%02u %s %s%s%s", v->version,
		               psk.bytes == 32 ? 1U : 2U, HOST, SUB, v->version == 1 ? " " : "",
		               v->digest);
		CHECK_MSG(strcmp(identity, want) == 0, "vector %zu: %s", i, identity);
		CHECK_EQ(nvmf_psk_tls(&psk, v->d, v->version, HOST, SUB, key), 0);
		for (uint32_t j = 0; j < psk.bytes; j++)
			(void)snprintf(hex + (size_t)2 * j, 3, "%02x", key[j]);
		CHECK_MSG(strcmp(hex, v->psk) == 0, "vector %zu: %s", i, hex);
	}
}

/** Every octet of a key changed, taken away, and added. */
static void
test_damaged(void)
{
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		const size_t n = strlen(vectors[i].text);
		const char *why;
		struct weft_nvmf_psk psk;
		char text[128];

		for (size_t at = 0; at < n; at++) {
			why = NULL;
			(void)snprintf(text, sizeof(text), "%s", vectors[i].text);
			text[at] = text[at] == 'A' ? 'B' : 'A';
			CHECK_MSG(weft_nvmf_psk_parse(text, &psk, &why) < 0 && why != NULL,
			          "at %zu", at);
			CHECK_EQ(psk.bytes, 0);
			(void)snprintf(text, sizeof(text), "%.*s%s", (int)at, vectors[i].text,
			               vectors[i].text + at + 1);
			CHECK_MSG(weft_nvmf_psk_parse(text, &psk, &why) < 0, "without %zu", at);
			(void)snprintf(text, sizeof(text), "%.*s", (int)at, vectors[i].text);
			CHECK_MSG(weft_nvmf_psk_parse(text, &psk, &why) < 0, "to %zu", at);
		}
		(void)snprintf(text, sizeof(text), "%s ", vectors[i].text);
		CHECK_EQ(weft_nvmf_psk_parse(text, &psk, &why), -EINVAL);
	}
}

/** Each reason has its words. */
static void
test_reasons(void)
{
	static const struct {
		const char *text, *why;
		int rc;
	} bad[] = {
	        {"", "begin with", -EINVAL},
	        {"NVMeTLSkey-2:01:", "begin with", -EINVAL},
	        {"NVMeTLSkey-1:", "none of 00", -EINVAL},
	        {"NVMeTLSkey-1:03:AAAA:", "none of 00", -EINVAL},
	        {"NVMeTLSkey-1:01", "none of 00", -EINVAL},
	        {"NVMeTLSkey-1:01:", "end with a colon", -EINVAL},
	        {"NVMeTLSkey-1:01::", "neither 32 nor 48", -EINVAL},
	        {"NVMeTLSkey-1:01:AAAA:", "neither 32 nor 48", -EINVAL},
	        {"NVMeTLSkey-1:01:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=:", "not base64",
	         -EINVAL},
	        {"NVMeTLSkey-1:01:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA:", "CRC-32",
	         -EBADMSG},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct weft_nvmf_psk psk;
		const char *why = "";

		CHECK_EQ(weft_nvmf_psk_parse(bad[i].text, &psk, &why), bad[i].rc);
		CHECK_MSG(strstr(why, bad[i].why) != NULL, "%s: %s", bad[i].text, why);
	}
}

/** The hash says 48 octets, the key has 32. */
static void
test_length(void)
{
	struct weft_nvmf_psk psk;
	const char *why = "";
	char text[128];

	(void)snprintf(text, sizeof(text), "%s", vectors[0].text);
	text[strlen("NVMeTLSkey-1:0")] = '2';
	CHECK_EQ(weft_nvmf_psk_parse(text, &psk, &why), -EINVAL);
	CHECK_MSG(strstr(why, "length") != NULL, "%s", why);
}

/** NQNs of every length up to more than is allowed: refused, or whole. */
static void
test_long_names(void)
{
	char name[400], identity[NVMF_PSK_IDENTITY_BYTES];
	uint8_t key[WEFT_NVMF_PSK_MAX_BYTES];
	struct weft_nvmf_psk psk;
	const char *why;

	CHECK_EQ(weft_nvmf_psk_parse(vectors[0].text, &psk, &why), 0);
	for (size_t n = 0; n < sizeof(name); n++) {
		memset(name, 'n', n);
		name[n] = 0;
		for (unsigned int d = 0; d < WEFT_NVMF_PSK_DERIVATIONS; d++)
			for (unsigned int v = 0; v < 2; v++) {
				const int want =
				        n > (v == 0 ? 264 : 242) ||
				                        (d == WEFT_NVMF_PSK_RFC8446 && n > 255)
				                ? -ENAMETOOLONG
				                : 0;
				const int rc = nvmf_psk_identity(&psk, d, v, name, name, identity);

				CHECK_MSG(rc == want, "%zu %u %u: %d", n, d, v, rc);
				(void)nvmf_psk_tls(&psk, d, v, name, name, key);
			}
	}
	CHECK_EQ(nvmf_psk_identity(&psk, WEFT_NVMF_PSK_COMPAT, 2, HOST, SUB, identity), -EINVAL);
	CHECK_EQ(nvmf_psk_tls(&psk, WEFT_NVMF_PSK_COMPAT, 2, HOST, SUB, key), -EINVAL);
}

WEFT_TEST_MAIN({"known answers", test_vectors}, {"damaged keys", test_damaged},
               {"reasons", test_reasons}, {"the length of the hash", test_length},
               {"long names", test_long_names})
