/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_TLS_H
#define NVMF_TLS_H

/**
 * @file A TLS 1.3 session of a controller (RFC 8446; NVMe TCP Transport Specification s3.6.1), by
 * libssl over octets that are given to it and octets that it gives: it knows no connection.
 * Pre-shared keys with (EC)DHE alone, no certificates, no tickets, no early data;
 * TLS_AES_128_GCM_SHA256 or TLS_AES_256_GCM_SHA384, as the key's hash says.
 *
 * The Diffie-Hellman exchange comes after the binder was found right. So a host without a right key
 * makes it compute hashes alone, unless it repeats a ClientHello that it has seen of another host:
 * that has a right binder, and takes an exchange and a place until its time is over. How long the
 * alert takes tells whether a key was tried, and so whether there is one of these names.
 *
 * Memory: what TCP does not take yet, at most NVMF_TLS_OUT_BYTES; one record that is incomplete;
 * in a handshake a message of at most NVMF_TLS_HELLO_BYTES: one that says that it is longer is
 * refused when its head has come, before libssl makes room for it.
 *
 * Thread: the worker's. Nothing blocks.
 */

#include <sys/types.h>
#include <sys/uio.h>

#include "nvmf_tls_hello.h"

#define NVMF_TLS_TEXT_BYTES  16384U /**< longest plaintext of a record */
#define NVMF_TLS_OUT_BYTES   (NVMF_TLS_TEXT_BYTES + 4096U)
#define NVMF_TLS_HELLO_BYTES 16384U /**< that a host may send before its handshake is done */
#define NVMF_TLS_TURN_BYTES  65536U /**< that a call of nvmf_tls_write() encrypts */
/** KeyUpdates of a host in a row, without data between them. */
#define NVMF_TLS_UPDATES_MAX 32U

struct nvmf_tls_ctx; /**< of a worker's transport */
struct nvmf_tls;     /**< a session */

struct nvmf_tls_ops {
	/** Give octets to TCP, which may take less. -errno. */
	ssize_t (*send)(void *user, const void *p, size_t bytes);
	/** The handshake is done: nvmf_tls_found(). */
	void (*ready)(void *user);
	/** Plaintext has come. */
	void (*text)(void *user, const uint8_t *p, size_t bytes);
	/** True: what has come is dropped from now on. */
	bool (*deaf)(void *user);
};

/** How a session has failed. */
enum nvmf_tls_fail {
	NVMF_TLS_OK,
	NVMF_TLS_NO_PSK,     /**< the host offers none */
	NVMF_TLS_NO_KEY,     /**< it has none here */
	NVMF_TLS_DERIVATION, /**< its key was derived in a way that is not admitted */
	NVMF_TLS_WRONG_KEY,
	NVMF_TLS_MANY_KEYS, /**< more than NVMF_TLS_TRIES_MAX, and none of those is it */
	NVMF_TLS_ALERT,     /**< the host has sent a fatal alert */
	NVMF_TLS_FAULT,     /**< anything else */
};

struct nvmf_tls_counts {
	uint64_t alerts_in, alerts_out; /**< close_notify is none */
	uint64_t updates_in, updates_out;
};

/** update_bytes: of plaintext that is sent by one key. -ENOMEM, also where libssl has not what is
 * needed. */
int nvmf_tls_ctx_open(struct weft_nvmf_tls *keys, uint64_t update_bytes, struct nvmf_tls_ctx **out);
/** No session is left. Does nothing for NULL. */
void nvmf_tls_ctx_close(struct nvmf_tls_ctx *ctx);
const struct nvmf_tls_counts *nvmf_tls_counts(const struct nvmf_tls_ctx *ctx);

/** -ENOMEM. */
int nvmf_tls_open(struct nvmf_tls_ctx *ctx, const struct nvmf_tls_ops *ops, void *user,
                  struct nvmf_tls **out);
/** Does nothing for NULL. Not inside a call of the session. */
void nvmf_tls_close(struct nvmf_tls *s);
/**
 * Octets have come, all of which are taken. -ESHUTDOWN: the host sends nothing more (close_notify).
 * -EPROTO: the session has failed, and an alert is to be sent: nvmf_tls_why(), nvmf_tls_flush().
 */
int nvmf_tls_rx(struct nvmf_tls *s, const uint8_t *p, size_t bytes);
/** Encrypt and send octets of n pieces: what TCP takes, and a record more; not more than
 * NVMF_TLS_TURN_BYTES. Returns how many were taken, or -errno. */
ssize_t nvmf_tls_write(struct nvmf_tls *s, const struct iovec *iov, unsigned int n);
/** Give TCP what is left. Returns how much still is, or -errno. */
ssize_t nvmf_tls_flush(struct nvmf_tls *s);
/** Octets that TCP has not taken yet. */
size_t nvmf_tls_left(const struct nvmf_tls *s);
/** Nothing more is written: close_notify, if there is a session. */
void nvmf_tls_shut(struct nvmf_tls *s);
/** Whether a record has come in part; and how many have come whole. */
bool nvmf_tls_partial(const struct nvmf_tls *s, uint64_t *whole);
/** Which key; of a failed handshake: what was found before. */
const struct nvmf_tls_found *nvmf_tls_found(const struct nvmf_tls *s);
/** Why it has failed. text: of an alert or a fault, else NULL. */
enum nvmf_tls_fail nvmf_tls_why(const struct nvmf_tls *s, const char **text);

#endif /* NVMF_TLS_H */
