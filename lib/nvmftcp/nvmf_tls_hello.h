/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_TLS_HELLO_H
#define NVMF_TLS_HELLO_H

/**
 * @file The pre-shared keys that a ClientHello offers (RFC 8446 s4.2.11), and whether the host has
 * one of them: libssl tells only that a binder is wrong, and here several keys are tried. Any
 * octets may be given. Pure functions, any thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nvmf_psk.h"
#include "nvmf_tls_keys.h"

#define NVMF_TLS_OFFERS_MAX 4U  /**< identities that are looked at */
#define NVMF_TLS_TRIES_MAX  16U /**< keys that are tried for them, all together */

/** An identity and its binder, inside the ClientHello. */
struct nvmf_tls_offer {
	const uint8_t *id, *binder;
	size_t id_bytes, binder_bytes;
};

struct nvmf_tls_hello {
	const uint8_t *msg;
	size_t bound_bytes; /**< of it: what binders cover */
	struct nvmf_tls_offer offers[NVMF_TLS_OFFERS_MAX];
	unsigned int noffers; /**< 0: it has no pre-shared key */
	/** What binders are made of, by hash: computed once, when it is needed. */
	uint8_t digest[2][WEFT_NVMF_PSK_MAX_BYTES];
	bool digested[2];
};

/** What a handshake uses. */
struct nvmf_tls_found {
	char hostnqn[WEFT_NVMF_NQN_BYTES], subnqn[WEFT_NVMF_NQN_BYTES];
	char identity[NVMF_PSK_IDENTITY_BYTES];
	uint64_t serial; /**< of the configured key */
	enum weft_nvmf_psk_derivation derivation;
	uint8_t psk[WEFT_NVMF_PSK_MAX_BYTES];
	uint32_t bytes; /**< of psk */
};

/** Read a ClientHello with its header. -EPROTO: its form is wrong. */
int nvmf_tls_hello_read(const uint8_t *msg, size_t bytes, struct nvmf_tls_hello *out);
/**
 * Find the key of the first offer that has one here.
 * - -ENOENT: none has; out->hostnqn is that of the first offer that has the form of one, or empty
 * - -EACCES: the binder is that of a derivation that is not admitted: out->derivation
 * - -EKEYREJECTED: the host has another key
 * - -E2BIG: not all of its keys were tried, there are too many
 */
int nvmf_tls_hello_find(struct nvmf_tls_hello *h, struct weft_nvmf_tls *keys,
                        struct nvmf_tls_found *out);

#endif /* NVMF_TLS_HELLO_H */
