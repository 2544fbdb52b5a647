/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NVMF_LISTENER_H
#define WEFT_NVMF_LISTENER_H

/** @file What the discovery log says of the addresses that hosts connect to. Any thread. */

#include <stdint.h>

struct weft_nvmf;

/** Whether hosts use TLS 1.3 at a listener. */
enum weft_nvmf_listener_tls {
	WEFT_NVMF_LISTENER_PLAIN,
	WEFT_NVMF_LISTENER_TLS, /**< they may */
	WEFT_NVMF_LISTENER_TLS_ONLY,
};

/** Where hosts connect to, for the discovery log. */
struct weft_nvmf_listener {
	uint8_t trtype;      /**< 1: RDMA, 3: TCP */
	uint8_t adrfam;      /**< 1: IPv4, 2: IPv6 */
	uint8_t rdma_prtype; /**< RDMA: 1: not stated, 5: iWARP */
	uint8_t tls;         /**< TCP: enum weft_nvmf_listener_tls */
	uint16_t portid;
	char traddr[64], trsvcid[32];
};

/** -ENOSPC: there are 32. -EEXIST. */
int weft_nvmf_listener_add(struct weft_nvmf *t, const struct weft_nvmf_listener *l);
/** -ENOENT. */
int weft_nvmf_listener_remove(struct weft_nvmf *t, const struct weft_nvmf_listener *l);

#endif /* WEFT_NVMF_LISTENER_H */
