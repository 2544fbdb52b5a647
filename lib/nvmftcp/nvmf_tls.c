/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Sessions of TLS: see nvmf_tls.h. libssl reads from and writes to a BIO that is the session:
 * it reads what has come, and what it writes goes to TCP, or waits in `out`.
 */

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>

#include "nvmf_tls.h"
#include "nvmf_tls_record.h"

#define TLS_GROUPS "X25519:P-256"
#define TLS_BOTH   "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384"

struct nvmf_tls_ctx {
	SSL_CTX *ctx;
	BIO_METHOD *bio;
	struct weft_nvmf_tls *keys;
	uint64_t update_bytes;
	struct nvmf_tls_counts counts;
	/** Plaintext that has come, and that is to be sent. */
	uint8_t rx[NVMF_TLS_TEXT_BYTES], tx[NVMF_TLS_TEXT_BYTES];
};

struct nvmf_tls {
	struct nvmf_tls_ctx *ctx;
	const struct nvmf_tls_ops *ops;
	void *user;
	SSL *ssl;
	const uint8_t *in; /**< inside nvmf_tls_rx(): what has come */
	size_t in_bytes;
	struct nvmf_tls_record record;
	size_t hello_bytes; /**< that have come before the handshake was done */
	bool looked;        /**< at the first ClientHello */
	bool ready, failed, shut;
	int lost; /**< TCP has failed: -errno */
	enum nvmf_tls_fail why;
	const char *text;
	struct nvmf_tls_found found;
	SSL_SESSION *psk;      /**< of the found key */
	unsigned int updates;  /**< KeyUpdates since data has come */
	uint64_t keyed_bytes;  /**< that were sent by the present key */
	size_t out_at, out_to; /**< of out */
	uint8_t out[NVMF_TLS_OUT_BYTES];
};

/* ---- Octets ---- */

static int
bio_read(BIO *b, char *to, size_t bytes, size_t *did)
{
	struct nvmf_tls *s = BIO_get_data(b);
	const size_t n = bytes < s->in_bytes ? bytes : s->in_bytes;

	BIO_clear_retry_flags(b);
	*did = n;
	if (n == 0) {
		BIO_set_retry_read(b);
		return 0;
	}
	memcpy(to, s->in, n);
	s->in += n;
	s->in_bytes -= n;
	return 1;
}

/** What waits goes first. */
static ssize_t
tls_drain(struct nvmf_tls *s)
{
	ssize_t n;

	while (s->out_at < s->out_to && s->lost == 0) {
		n = s->ops->send(s->user, s->out + s->out_at, s->out_to - s->out_at);
		if (n < 0)
			s->lost = (int)n;
		if (n <= 0)
			break;
		s->out_at += (size_t)n;
	}
	if (s->out_at == s->out_to)
		s->out_at = s->out_to = 0;
	return s->lost != 0 ? s->lost : (ssize_t)(s->out_to - s->out_at);
}

/** A record goes to TCP as far as that takes it. There is room for the rest, as data is written
 * when nothing waits, and all other records together are short. */
static int
bio_write(BIO *b, const char *from, size_t bytes, size_t *did)
{
	struct nvmf_tls *s = BIO_get_data(b);
	ssize_t n = 0;

	BIO_clear_retry_flags(b);
	*did = bytes;
	if (s->out_to == 0 && s->lost == 0)
		n = s->ops->send(s->user, from, bytes);
	if (n < 0)
		s->lost = (int)n;
	if (s->lost != 0 || bytes - (size_t)n > sizeof(s->out) - s->out_to)
		return 0;
	memcpy(s->out + s->out_to, from + n, bytes - (size_t)n);
	s->out_to += bytes - (size_t)n;
	return 1;
}

static long
bio_ctrl(BIO *b, int cmd, long num, void *ptr)
{
	(void)b;
	(void)num;
	(void)ptr;
	return cmd == BIO_CTRL_FLUSH;
}

/* ---- The handshake ---- */

static struct nvmf_tls *
tls_of(const SSL *ssl)
{
	return SSL_get_app_data(ssl);
}

/** The session that libssl takes for the key. */
static void
tls_use(struct nvmf_tls *s)
{
	const unsigned char suite[2] = {0x13, s->found.bytes == 32 ? 0x01 : 0x02};

	s->psk = SSL_SESSION_new();
	if (s->psk != NULL &&
	    (SSL_SESSION_set1_master_key(s->psk, s->found.psk, s->found.bytes) != 1 ||
	     SSL_SESSION_set_cipher(s->psk, SSL_CIPHER_find(s->ssl, suite)) != 1 ||
	     SSL_SESSION_set_protocol_version(s->psk, TLS1_3_VERSION) != 1)) {
		SSL_SESSION_free(s->psk);
		s->psk = NULL;
	}
	/* a host may offer both suites, and has a key for one */
	(void)SSL_set_ciphersuites(s->ssl, s->found.bytes == 32 ? "TLS_AES_128_GCM_SHA256"
	                                                        : "TLS_AES_256_GCM_SHA384");
}

/** The first ClientHello, as it is on the wire. */
static void
tls_look(struct nvmf_tls *s, const uint8_t *msg, size_t bytes)
{
	struct nvmf_tls_hello h;
	int rc = nvmf_tls_hello_read(msg, bytes, &h);

	s->looked = true;
	if (rc != 0) {
		s->why = NVMF_TLS_FAULT;
		s->text = "its ClientHello has a wrong form";
		return;
	}
	if (h.noffers == 0) {
		s->why = NVMF_TLS_NO_PSK;
		return;
	}
	rc = nvmf_tls_hello_find(&h, s->ctx->keys, &s->found);
	s->why = rc == 0         ? NVMF_TLS_OK
	         : rc == -ENOENT ? NVMF_TLS_NO_KEY
	         : rc == -EACCES ? NVMF_TLS_DERIVATION
	         : rc == -E2BIG  ? NVMF_TLS_MANY_KEYS
	                         : NVMF_TLS_WRONG_KEY;
	if (rc == 0)
		tls_use(s);
	weft_nvmf_psk_wipe(s->found.psk, sizeof(s->found.psk));
}

/** A message has come or goes. */
static void
tls_on_message(int out, int version, int type, const void *msg, size_t bytes, SSL *ssl, void *arg)
{
	struct nvmf_tls *s = arg;
	const uint8_t *p = msg;

	(void)version;
	(void)ssl;
	if (type == SSL3_RT_ALERT && bytes == 2 && p[1] != SSL_AD_CLOSE_NOTIFY &&
	    p[1] != SSL_AD_USER_CANCELLED) {
		*(out ? &s->ctx->counts.alerts_out : &s->ctx->counts.alerts_in) += 1;
		if (!out && s->why == NVMF_TLS_OK) {
			s->why = NVMF_TLS_ALERT;
			s->text = SSL_alert_desc_string_long(p[1]);
		}
	}
	if (type != SSL3_RT_HANDSHAKE || bytes == 0)
		return;
	if (p[0] == SSL3_MT_CLIENT_HELLO && !s->looked)
		tls_look(s, msg, bytes);
	if (p[0] == SSL3_MT_KEY_UPDATE) {
		*(out ? &s->ctx->counts.updates_out : &s->ctx->counts.updates_in) += 1;
		s->updates += !out;
		if (out)
			s->keyed_bytes = 0;
	}
}

/** Before a cipher suite is chosen. */
static int
tls_on_hello(SSL *ssl, int *alert, void *arg)
{
	const struct nvmf_tls *s = tls_of(ssl);

	(void)arg;
	if (s->psk != NULL)
		return SSL_CLIENT_HELLO_SUCCESS;
	/* RFC 8446 s4.2.11: the alert does not tell which identities there are; the time does */
	*alert = s->why == NVMF_TLS_NO_PSK ? SSL_AD_HANDSHAKE_FAILURE : SSL_AD_DECRYPT_ERROR;
	return SSL_CLIENT_HELLO_ERROR;
}

/** libssl asks for each identity of a ClientHello, whose binder it compares once more. */
static int
tls_on_identity(SSL *ssl, const unsigned char *id, size_t bytes, SSL_SESSION **out)
{
	const struct nvmf_tls *s = tls_of(ssl);

	*out = NULL;
	if (s->psk == NULL || bytes != strlen(s->found.identity) ||
	    memcmp(id, s->found.identity, bytes) != 0)
		return 1;
	if (SSL_SESSION_up_ref(s->psk) != 1)
		return 0;
	*out = s->psk;
	return 1;
}

/* ---- Contexts ---- */

static bool
ctx_bio(struct nvmf_tls_ctx *c)
{
	c->bio = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "weft");
	return c->bio != NULL && BIO_meth_set_read_ex(c->bio, bio_read) == 1 &&
	       BIO_meth_set_write_ex(c->bio, bio_write) == 1 &&
	       BIO_meth_set_ctrl(c->bio, bio_ctrl) == 1;
}

int
nvmf_tls_ctx_open(struct weft_nvmf_tls *keys, uint64_t update_bytes, struct nvmf_tls_ctx **out)
{
	struct nvmf_tls_ctx *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return -ENOMEM;
	c->keys = keys;
	c->update_bytes = update_bytes;
	c->ctx = SSL_CTX_new(TLS_server_method());
	if (c->ctx == NULL || !ctx_bio(c) ||
	    SSL_CTX_set_min_proto_version(c->ctx, TLS1_3_VERSION) != 1 ||
	    SSL_CTX_set_max_proto_version(c->ctx, TLS1_3_VERSION) != 1 ||
	    SSL_CTX_set_ciphersuites(c->ctx, TLS_BOTH) != 1 ||
	    SSL_CTX_set1_groups_list(c->ctx, TLS_GROUPS) != 1 ||
	    SSL_CTX_set_num_tickets(c->ctx, 0) != 1) {
		nvmf_tls_ctx_close(c);
		return -ENOMEM;
	}
	(void)SSL_CTX_set_options(c->ctx, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION |
	                                          SSL_OP_NO_RENEGOTIATION |
	                                          SSL_OP_CIPHER_SERVER_PREFERENCE);
	(void)SSL_CTX_clear_mode(c->ctx, SSL_MODE_AUTO_RETRY);
	(void)SSL_CTX_set_mode(c->ctx, SSL_MODE_RELEASE_BUFFERS);
	(void)SSL_CTX_set_session_cache_mode(c->ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_client_hello_cb(c->ctx, tls_on_hello, NULL);
	SSL_CTX_set_psk_find_session_callback(c->ctx, tls_on_identity);
	SSL_CTX_set_msg_callback(c->ctx, tls_on_message);
	*out = c;
	return 0;
}

void
nvmf_tls_ctx_close(struct nvmf_tls_ctx *c)
{
	if (c == NULL)
		return;
	SSL_CTX_free(c->ctx);
	BIO_meth_free(c->bio);
	weft_nvmf_psk_wipe(c, sizeof(*c));
	free(c);
}

const struct nvmf_tls_counts *
nvmf_tls_counts(const struct nvmf_tls_ctx *c)
{
	return &c->counts;
}

/* ---- Sessions ---- */

int
nvmf_tls_open(struct nvmf_tls_ctx *ctx, const struct nvmf_tls_ops *ops, void *user,
              struct nvmf_tls **out)
{
	struct nvmf_tls *s = calloc(1, sizeof(*s));
	BIO *bio = NULL;

	if (s == NULL)
		return -ENOMEM;
	s->ctx = ctx;
	s->ops = ops;
	s->user = user;
	s->ssl = SSL_new(ctx->ctx);
	if (s->ssl != NULL)
		bio = BIO_new(ctx->bio);
	if (bio == NULL) {
		SSL_free(s->ssl);
		free(s);
		return -ENOMEM;
	}
	BIO_set_data(bio, s);
	BIO_set_init(bio, 1);
	SSL_set_bio(s->ssl, bio, bio);
	(void)SSL_set_app_data(s->ssl, s);
	SSL_set_msg_callback_arg(s->ssl, s);
	SSL_set_accept_state(s->ssl);
	*out = s;
	return 0;
}

void
nvmf_tls_close(struct nvmf_tls *s)
{
	if (s == NULL)
		return;
	SSL_free(s->ssl);
	SSL_SESSION_free(s->psk);
	weft_nvmf_psk_wipe(&s->found, sizeof(s->found));
	free(s);
}

/** The session has failed. */
static int
tls_fail(struct nvmf_tls *s, const char *text)
{
	const unsigned long e = ERR_get_error();

	s->failed = true;
	if (s->why == NVMF_TLS_OK) {
		s->why = NVMF_TLS_FAULT;
		s->text = text != NULL   ? text
		          : s->lost != 0 ? "TCP has failed"
		          : e != 0       ? ERR_reason_error_string(e)
		                         : "no memory";
	}
	ERR_clear_error();
	return -EPROTO;
}

/** Go on with the handshake, or read. 1: there may be more. */
static int
tls_step(struct nvmf_tls *s)
{
	size_t n;
	int rc;

	ERR_clear_error();
	rc = s->ready ? SSL_read_ex(s->ssl, s->ctx->rx, sizeof(s->ctx->rx), &n)
	              : SSL_do_handshake(s->ssl);
	if (s->updates > NVMF_TLS_UPDATES_MAX)
		return tls_fail(s, "too many KeyUpdates");
	if (rc == 1 && s->ready) {
		s->updates = 0;
		s->ops->text(s->user, s->ctx->rx, n);
		return 1;
	}
	if (rc == 1) {
		s->ready = true;
		s->ops->ready(s->user);
		return 1;
	}
	switch (SSL_get_error(s->ssl, rc)) {
	case SSL_ERROR_WANT_READ:
		return s->in_bytes > 0;
	case SSL_ERROR_ZERO_RETURN:
		return -ESHUTDOWN;
	default:
		return tls_fail(s, NULL);
	}
}

int
nvmf_tls_rx(struct nvmf_tls *s, const uint8_t *p, size_t bytes)
{
	int rc = 1;

	if (s->failed)
		return 0;
	nvmf_tls_record_look(&s->record, p, bytes);
	/* libssl makes room for a message when its head has come */
	if (!s->ready && s->record.longest > NVMF_TLS_HELLO_BYTES)
		return tls_fail(s, "its handshake is too long");
	s->in = p;
	s->in_bytes = bytes;
	s->hello_bytes += s->ready ? 0 : bytes;
	while (rc == 1 && !s->ops->deaf(s->user))
		rc = tls_step(s);
	if (rc >= 0 && !s->ready && s->hello_bytes > NVMF_TLS_HELLO_BYTES)
		rc = tls_fail(s, "its handshake is too long");
	s->in = NULL;
	s->in_bytes = 0;
	return rc < 0 ? rc : 0;
}

/** Copy octets of the pieces from `at` on. Returns how many. */
static size_t
tls_gather(struct nvmf_tls *s, const struct iovec *iov, unsigned int n, size_t at)
{
	size_t have = 0;

	for (unsigned int i = 0; i < n && have < sizeof(s->ctx->tx); i++) {
		size_t k = iov[i].iov_len;

		if (at >= k) {
			at -= k;
			continue;
		}
		k -= at;
		k = k < sizeof(s->ctx->tx) - have ? k : sizeof(s->ctx->tx) - have;
		memcpy(s->ctx->tx + have, (const uint8_t *)iov[i].iov_base + at, k);
		have += k;
		at = 0;
	}
	return have;
}

ssize_t
nvmf_tls_write(struct nvmf_tls *s, const struct iovec *iov, unsigned int n)
{
	size_t taken = 0, k, did;

	while (taken < NVMF_TLS_TURN_BYTES && tls_drain(s) == 0 &&
	       (k = tls_gather(s, iov, n, taken)) > 0) {
		ERR_clear_error();
		/* RFC 8446 s5.5; libssl sends it with the next data */
		if (s->keyed_bytes >= s->ctx->update_bytes)
			(void)SSL_key_update(s->ssl, SSL_KEY_UPDATE_NOT_REQUESTED);
		if (SSL_write_ex(s->ssl, s->ctx->tx, k, &did) != 1) {
			ERR_clear_error();
			return s->lost != 0 ? s->lost : -EIO;
		}
		taken += did;
		s->keyed_bytes += did;
	}
	return s->lost != 0 ? s->lost : (ssize_t)taken;
}

ssize_t
nvmf_tls_flush(struct nvmf_tls *s)
{
	return tls_drain(s);
}

size_t
nvmf_tls_left(const struct nvmf_tls *s)
{
	return s->out_to - s->out_at;
}

void
nvmf_tls_shut(struct nvmf_tls *s)
{
	if (!s->ready || s->failed || s->shut)
		return;
	s->shut = true;
	ERR_clear_error();
	(void)SSL_shutdown(s->ssl);
	ERR_clear_error();
}

bool
nvmf_tls_partial(const struct nvmf_tls *s, uint64_t *whole)
{
	*whole = s->record.whole;
	return nvmf_tls_record_partial(&s->record);
}

const struct nvmf_tls_found *
nvmf_tls_found(const struct nvmf_tls *s)
{
	return &s->found;
}

enum nvmf_tls_fail
nvmf_tls_why(const struct nvmf_tls *s, const char **text)
{
	*text = s->text;
	return s->why;
}
