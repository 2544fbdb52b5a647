/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_SHARE_H
#define NVMF_SHARE_H

/**
 * @file Shares of a group's memory, of which each address of hosts has one. The thread of the group
 * owns them.
 */

#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "weft_staging.h"

/** An address that has queues. */
struct nvmf_share {
	LIST_ENTRY(nvmf_share) link;
	struct in6_addr key; /**< weft_nvmf_peer_key() */
	uint32_t queues;
	struct weft_staging_client client;
};
LIST_HEAD(nvmf_shares, nvmf_share);

/** The share of an address, for one more queue, until nvmf_share_put(). *out is NULL if `remote` is
 * NULL, or no address of IP: such queues have the shares of their controllers. -ENOMEM. */
int nvmf_share_get(struct nvmf_shares *shares, const struct sockaddr_storage *remote,
                   struct nvmf_share **out);
/** A queue is gone, which holds no memory and waits for none. Does nothing for NULL. */
void nvmf_share_put(struct nvmf_share *s);

#endif /* NVMF_SHARE_H */
