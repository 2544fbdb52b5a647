/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NVMF_TLS_H
#define WEFT_NVMF_TLS_H

/**
 * @file Keys of TLS for NVMe/TCP (NVMe TCP Transport Specification s3.6.1): pre-shared keys (PSK)
 * in the interchange format `NVMeTLSkey-1:hh:base64:`, and which hosts have which. All workers of a
 * target share one store of them.
 *
 * Any thread. The store's lock is held for a look at the keys alone: a handshake copies those of
 * its host, and computes without it.
 *
 * Keys are secrets: wipe them with weft_nvmf_psk_wipe().
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft_nvmf_wire.h"

#define WEFT_NVMF_PSK_MAX_BYTES 48U
/** Keys of one host and subsystem, so that a host can change to another one. */
#define WEFT_NVMF_PSKS_PER_HOST 4U

/**
 * How a host writes the label of HKDF-Expand-Label. Hosts differ, and so do the keys that they make
 * of one configured key.
 */
enum weft_nvmf_psk_derivation {
	WEFT_NVMF_PSK_RFC8446, /**< the length in network order; label and context with theirs */
	WEFT_NVMF_PSK_COMPAT,  /**< older libnvme: the host's order, and neither length */
	WEFT_NVMF_PSK_DERIVATIONS,
};

struct weft_nvmf_psk {
	uint8_t key[WEFT_NVMF_PSK_MAX_BYTES];
	uint32_t bytes; /**< 32: SHA-256; 48: SHA-384 */
	uint8_t hash;
	bool retained; /**< hash 00 in the text: it is used as the retained key */
};

/** A key of a host. */
struct weft_nvmf_tls_key {
	char hostnqn[WEFT_NVMF_NQN_BYTES];
	struct weft_nvmf_psk psk;
};

struct weft_nvmf_tls;

/**
 * Read the interchange format; nothing may follow it. -EINVAL: *why says what is wrong, in words
 * that have nothing of the key. -EBADMSG: its CRC-32 is wrong, and *why says so.
 */
int weft_nvmf_psk_parse(const char *text, struct weft_nvmf_psk *out, const char **why);
void weft_nvmf_psk_wipe(void *p, size_t bytes);

/** An empty store, by which hosts of these derivations (bits 1 << enum weft_nvmf_psk_derivation)
 * are admitted. -ENOMEM. */
int weft_nvmf_tls_create(unsigned int derivations, struct weft_nvmf_tls **out);
/** Wipe and free it. No transport has it. Does nothing for NULL. */
void weft_nvmf_tls_destroy(struct weft_nvmf_tls *t);
/**
 * Replace the keys of a subsystem by n others, which are copied. n 0: it has none. Connections by
 * keys that are no longer there end (weft_nvmf_tcp_poll()); others go on.
 * - -EINVAL: an NQN is none; -EEXIST: a host has one key twice
 * - -E2BIG: more than WEFT_NVMF_PSKS_PER_HOST of one host; -ENOMEM
 */
int weft_nvmf_tls_set(struct weft_nvmf_tls *t, const char *subnqn,
                      const struct weft_nvmf_tls_key *keys, uint32_t n);

#endif /* WEFT_NVMF_TLS_H */
