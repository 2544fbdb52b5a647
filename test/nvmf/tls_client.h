/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TLS_CLIENT_H
#define TLS_CLIENT_H

/** @file A host's side of TLS 1.3 with a pre-shared key, by libssl over octets: it knows no
 * connection. */

#include <openssl/ssl.h>

#include "nvmf_psk.h"

struct tls_client {
	SSL_CTX *ctx;
	SSL *ssl;
	BIO *in, *out;
	char identity[NVMF_PSK_IDENTITY_BYTES];
	uint8_t psk[WEFT_NVMF_PSK_MAX_BYTES];
	size_t psk_bytes;
	bool done, closed; /**< the handshake; close_notify has come */
	int failed;        /**< the alert that has come; -1: another fault; 0: none */
	uint8_t *text;     /**< plaintext that has come */
	size_t text_bytes, text_room;
	unsigned int updates; /**< KeyUpdates that have come */
	unsigned int retries; /**< HelloRetryRequests likewise */
};

/** identity NULL: without a pre-shared key. suites: NULL: both. */
void tls_client_open(struct tls_client *c, const char *identity, const uint8_t *psk,
                     size_t psk_bytes, const char *suites);
/** Of a configured key, as nvme-cli makes it. */
void tls_client_open_key(struct tls_client *c, const char *key, enum weft_nvmf_psk_derivation d,
                         unsigned int version, const char *host, const char *sub);
void tls_client_close(struct tls_client *c);
/** Octets have come. */
void tls_client_rx(struct tls_client *c, const void *p, size_t bytes);
/** Go on with the handshake, without octets. */
void tls_client_step(struct tls_client *c);
/** Encrypt octets. */
void tls_client_tx(struct tls_client *c, const void *p, size_t bytes);
/** Octets to be sent: take them. Returns how many; *p stays until the next call. */
size_t tls_client_out(struct tls_client *c, uint8_t **p);
/** The first octets of the plaintext were used. */
void tls_client_used(struct tls_client *c, size_t bytes);

#endif /* TLS_CLIENT_H */
