/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_PSK_H
#define NVMF_PSK_H

/**
 * @file What a host and a controller make of a pre-shared key (PSK) of weft_nvmf_tls.h (NVMe TCP
 * Transport Specification s3.6.1). The configured key becomes the retained key of a host, and that
 * the key of TLS for an identity.
 *
 * Both steps use HKDF-Expand-Label (RFC 8446 s7.1). Hosts differ in how they write its label: see
 * enum weft_nvmf_psk_derivation. Their keys differ, so a host of the other kind fails in the
 * handshake.
 *
 * Pure functions, any thread. Keys are secrets: wipe them with weft_nvmf_psk_wipe().
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft_nvmf_tls.h"

#define NVMF_PSK_IDENTITY_BYTES 540U /**< longest identity, with its 0 */

/** The hash of a key, which is that of its cipher suite. */
enum { NVMF_PSK_SHA256 = 1, NVMF_PSK_SHA384 = 2 };

/** For messages. */
const char *nvmf_psk_derivation_name(enum weft_nvmf_psk_derivation d);
/**
 * The identity of a key for a host and a subsystem. version 0: `NVMe0Rhh host subsystem`; 1: with
 * the digest of the retained key behind it. -EINVAL: version. -ENAMETOOLONG: NQNs. -EIO: libcrypto
 * has no such hash.
 */
int nvmf_psk_identity(const struct weft_nvmf_psk *psk, enum weft_nvmf_psk_derivation d,
                      unsigned int version, const char *host, const char *sub,
                      char out[NVMF_PSK_IDENTITY_BYTES]);
/**
 * The key of TLS for that identity, psk->bytes long. Errors as of nvmf_psk_identity(); with
 * WEFT_NVMF_PSK_RFC8446, -ENAMETOOLONG is also an identity of version 0 with more than 255 octets.
 */
int nvmf_psk_tls(const struct weft_nvmf_psk *psk, enum weft_nvmf_psk_derivation d,
                 unsigned int version, const char *host, const char *sub,
                 uint8_t out[WEFT_NVMF_PSK_MAX_BYTES]);

#endif /* NVMF_PSK_H */
