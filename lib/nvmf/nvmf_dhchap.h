/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_DHCHAP_H
#define NVMF_DHCHAP_H

/**
 * @file The computations of DH-HMAC-CHAP (NVMe Base 2.0 s8.13.5), by libcrypto. Functions are pure.
 * Any thread; those of a group's key take milliseconds. Each returns 0, or -EIO if libcrypto fails.
 */

#include <stddef.h>
#include <stdint.h>

#include "weft_nvmf_auth.h"

#define NVMF_DHCHAP_HASH_MAX 64U
#define NVMF_DHCHAP_DH_MAX   1024U
#define NVMF_DHCHAP_GROUPS   ((uint8_t)WEFT_NVMF_GROUPS)

/** Octets of a hash by its number, 1 to 3; 0: there is no such hash. */
uint32_t nvmf_dhchap_hash_bytes(uint8_t hash);
/** Octets of a public value by its group's number; 0: null, or no such group. */
uint32_t nvmf_dhchap_dh_bytes(uint8_t group);

/** What a response is made of. */
struct nvmf_dhchap_in {
	const struct weft_nvmf_secret *secret;
	uint8_t hash;
	const uint8_t *challenge; /**< as many octets as the hash has */
	const uint8_t *shared;    /**< of the group */
	uint32_t shared_bytes;    /**< 0: the null group */
	uint32_t seqnum;
	uint16_t tid;
	const char *role;       /**< "HostHost", "Controller" */
	const char *own, *peer; /**< NQNs: of the side that proves itself, and the other one */
};
int nvmf_dhchap_response(const struct nvmf_dhchap_in *in, uint8_t out[NVMF_DHCHAP_HASH_MAX]);

/** A key of a group; its public value is written to `pub`, dh_bytes octets. *key is freed by
 * nvmf_dhchap_key_free(). */
int nvmf_dhchap_key(uint8_t group, void **key, uint8_t *pub);
/** The shared secret, dh_bytes octets. -EINVAL: the peer's public value is 0, 1, p - 1 or more. */
int nvmf_dhchap_shared(uint8_t group, void *key, const uint8_t *peer, uint8_t *out);
/** Does nothing for NULL. */
void nvmf_dhchap_key_free(void *key);

#endif /* NVMF_DHCHAP_H */
