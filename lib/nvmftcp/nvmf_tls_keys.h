/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_TLS_KEYS_H
#define NVMF_TLS_KEYS_H

/** @file The store of weft_nvmf_tls.h, as handshakes see it. Any thread. */

#include "weft_nvmf_tls.h"

/** A key of a host. serial names it for as long as it is there. */
struct nvmf_tls_key {
	struct weft_nvmf_psk psk;
	uint64_t serial;
};

/**
 * Copy the keys of this hash that a host has for a subsystem, each once, to n_max places, which are
 * to be wiped. The discovery subsystem has the keys that the host has for any other. Returns how
 * many; *more is set if there are others.
 */
uint32_t nvmf_tls_keys_copy(struct weft_nvmf_tls *t, const char *hostnqn, const char *subnqn,
                            unsigned int hash, struct nvmf_tls_key *out, uint32_t n_max,
                            bool *more);
/** Whether a key is there still. */
bool nvmf_tls_keys_has(struct weft_nvmf_tls *t, uint64_t serial);
/** It changes when a key goes. */
uint64_t nvmf_tls_keys_generation(const struct weft_nvmf_tls *t);
bool nvmf_tls_keys_admit(const struct weft_nvmf_tls *t, enum weft_nvmf_psk_derivation d);

#endif /* NVMF_TLS_KEYS_H */
