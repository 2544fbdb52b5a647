/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A host's side of TLS: see tls_client.h. */

#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>

#include "tls_client.h"
#include "weft_test.h"

static int
client_psk(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *id_bytes,
           SSL_SESSION **out)
{
	struct tls_client *c = SSL_get_app_data(ssl);
	const unsigned char suite[2] = {0x13, c->psk_bytes == 32 ? 1 : 2};
	SSL_SESSION *s;

	*out = NULL;
	/* after a HelloRetryRequest the hash is that of the suite */
	if (c->identity[0] == '\0' || (md != NULL && (size_t)EVP_MD_get_size(md) != c->psk_bytes))
		return 1;
	s = SSL_SESSION_new();
	CHECK(SSL_SESSION_set1_master_key(s, c->psk, c->psk_bytes) == 1);
	CHECK(SSL_SESSION_set_cipher(s, SSL_CIPHER_find(ssl, suite)) == 1);
	CHECK(SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION) == 1);
	*id = (const unsigned char *)c->identity;
	*id_bytes = strlen(c->identity);
	*out = s;
	return 1;
}

static void
client_message(int out, int version, int type, const void *msg, size_t bytes, SSL *ssl, void *arg)
{
	/* RFC 8446 s4.1.3: the random of a HelloRetryRequest begins so */
	static const uint8_t retry[] = {0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11};
	struct tls_client *c = arg;
	const uint8_t *p = msg;

	(void)version;
	(void)ssl;
	if (out)
		return;
	if (type == SSL3_RT_ALERT && bytes == 2 && p[1] != SSL_AD_CLOSE_NOTIFY)
		c->failed = p[1];
	c->retries += type == SSL3_RT_HANDSHAKE && bytes >= 38 && p[0] == SSL3_MT_SERVER_HELLO &&
	              memcmp(p + 6, retry, sizeof(retry)) == 0;
	c->updates += type == SSL3_RT_HANDSHAKE && p[0] == SSL3_MT_KEY_UPDATE;
}

void
tls_client_open(struct tls_client *c, const char *identity, const uint8_t *psk, size_t psk_bytes,
                const char *suites)
{
	memset(c, 0, sizeof(*c));
	if (identity != NULL) {
		strcpy(c->identity, identity);
		memcpy(c->psk, psk, psk_bytes);
		c->psk_bytes = psk_bytes;
	}
	c->ctx = SSL_CTX_new(TLS_client_method());
	CHECK(c->ctx != NULL);
	CHECK(SSL_CTX_set_min_proto_version(c->ctx, TLS1_3_VERSION) == 1);
	CHECK(SSL_CTX_set_ciphersuites(c->ctx, suites != NULL ? suites
	                                                      : "TLS_AES_256_GCM_SHA384:"
	                                                        "TLS_AES_128_GCM_SHA256") == 1);
	SSL_CTX_set_psk_use_session_callback(c->ctx, client_psk);
	SSL_CTX_set_msg_callback(c->ctx, client_message);
	c->ssl = SSL_new(c->ctx);
	c->in = BIO_new(BIO_s_mem());
	c->out = BIO_new(BIO_s_mem());
	CHECK(c->ssl != NULL && c->in != NULL && c->out != NULL);
	SSL_set_bio(c->ssl, c->in, c->out);
	SSL_set_msg_callback_arg(c->ssl, c);
	(void)SSL_set_app_data(c->ssl, c);
	SSL_set_connect_state(c->ssl);
}

void
tls_client_open_key(struct tls_client *c, const char *key, enum weft_nvmf_psk_derivation d,
                    unsigned int version, const char *host, const char *sub)
{
	char identity[NVMF_PSK_IDENTITY_BYTES];
	uint8_t psk[WEFT_NVMF_PSK_MAX_BYTES];
	struct weft_nvmf_psk k;
	const char *why;

	CHECK_EQ(weft_nvmf_psk_parse(key, &k, &why), 0);
	CHECK_EQ(nvmf_psk_identity(&k, d, version, host, sub, identity), 0);
	CHECK_EQ(nvmf_psk_tls(&k, d, version, host, sub, psk), 0);
	tls_client_open(c, identity, psk, k.bytes, NULL);
}

void
tls_client_close(struct tls_client *c)
{
	SSL_free(c->ssl);
	SSL_CTX_free(c->ctx);
	free(c->text);
	memset(c, 0, sizeof(*c));
}

/** What libssl says is not done yet: it waits, or it has failed. */
static void
client_judge(struct tls_client *c, int rc)
{
	const int e = SSL_get_error(c->ssl, rc);

	if (e == SSL_ERROR_ZERO_RETURN)
		c->closed = true;
	else if (e != SSL_ERROR_WANT_READ && c->failed == 0)
		c->failed = -1;
}

void
tls_client_step(struct tls_client *c)
{
	size_t n;
	int rc = 1;

	ERR_clear_error();
	if (!c->done) {
		rc = SSL_do_handshake(c->ssl);
		c->done = rc == 1;
	}
	while (c->done) {
		if (c->text_room - c->text_bytes < 16384) {
			c->text_room = 2 * c->text_room + 16384;
			c->text = realloc(c->text, c->text_room);
			CHECK(c->text != NULL);
		}
		rc = SSL_read_ex(c->ssl, c->text + c->text_bytes, c->text_room - c->text_bytes, &n);
		if (rc != 1)
			break;
		c->text_bytes += n;
	}
	client_judge(c, rc);
}

void
tls_client_rx(struct tls_client *c, const void *p, size_t bytes)
{
	if (bytes > 0)
		CHECK_EQ(BIO_write(c->in, p, (int)bytes), (int)bytes);
	tls_client_step(c);
}

void
tls_client_tx(struct tls_client *c, const void *p, size_t bytes)
{
	ERR_clear_error();
	CHECK(c->done);
	if (bytes > 0)
		CHECK_EQ(SSL_write(c->ssl, p, (int)bytes), (int)bytes);
}

size_t
tls_client_out(struct tls_client *c, uint8_t **p)
{
	static uint8_t buf[1U << 22];
	const size_t n = BIO_pending(c->out);

	CHECK(n <= sizeof(buf));
	*p = buf;
	if (n > 0)
		CHECK_EQ(BIO_read(c->out, buf, (int)n), (int)n);
	return n;
}

void
tls_client_used(struct tls_client *c, size_t bytes)
{
	CHECK(bytes <= c->text_bytes);
	c->text_bytes -= bytes;
	if (bytes > 0)
		memmove(c->text, c->text + bytes, c->text_bytes);
}
