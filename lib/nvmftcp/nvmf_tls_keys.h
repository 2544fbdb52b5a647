/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_TLS_KEYS_H
#define NVMF_TLS_KEYS_H

/** @file The store of weft_nvmf_tls.h, as handshakes see it. Any thread. */

#include "weft_nvmf_tls.h"

/**
 * Call fn for each key of a host for a subsystem, with the store's lock held, until it returns
 * true. The discovery subsystem has the keys that the host has for any other. serial names the key
 * for as long as it is there.
 */
bool nvmf_tls_keys_each(struct weft_nvmf_tls *t, const char *hostnqn, const char *subnqn,
                        bool (*fn)(void *arg, const struct weft_nvmf_psk *psk, uint64_t serial),
                        void *arg);
/** Whether a key is there still. */
bool nvmf_tls_keys_has(struct weft_nvmf_tls *t, uint64_t serial);
/** It changes when a key goes. */
uint64_t nvmf_tls_keys_generation(const struct weft_nvmf_tls *t);
bool nvmf_tls_keys_admit(const struct weft_nvmf_tls *t, enum weft_nvmf_psk_derivation d);

#endif /* NVMF_TLS_KEYS_H */
