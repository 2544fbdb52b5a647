/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Shares of memory: queues whose hosts have one address have one, however many controllers
 * these hosts have, and by whatever names.
 */

#include <netinet/in.h>
#include <stdlib.h>

#include "nvmf_share.h"
#include "weft_nvmf_transport.h"

/** Of IPv6 one /64 is one: it may be one host. */
#define SHARE_PREFIX_BYTES 8U

bool
weft_nvmf_peer_key(const struct sockaddr_storage *remote, struct in6_addr *key)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)remote;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)remote;

	*key = (struct in6_addr){0};
	if (remote != NULL && remote->ss_family == AF_INET) {
		key->s6_addr[10] = key->s6_addr[11] = 0xff;
		memcpy(key->s6_addr + 12, &v4->sin_addr, sizeof(v4->sin_addr));
		return true;
	}
	if (remote == NULL || remote->ss_family != AF_INET6)
		return false;
	if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) {
		key->s6_addr[0] = 0xfe;
		key->s6_addr[1] = 0x80;
	} else if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
		*key = v6->sin6_addr;
	} else {
		memcpy(key->s6_addr, &v6->sin6_addr, SHARE_PREFIX_BYTES);
	}
	return true;
}

int
nvmf_share_get(struct nvmf_shares *shares, const struct sockaddr_storage *remote,
               struct nvmf_share **out)
{
	struct nvmf_share *s;
	struct in6_addr key;

	*out = NULL;
	if (!weft_nvmf_peer_key(remote, &key))
		return 0;
	LIST_FOREACH (s, shares, link)
		if (memcmp(&s->key, &key, sizeof(key)) == 0)
			break;
	if (s == NULL) {
		s = calloc(1, sizeof(*s));
		if (s == NULL)
			return -ENOMEM;
		s->key = key;
		weft_staging_client_init(&s->client);
		LIST_INSERT_HEAD(shares, s, link);
	}
	s->queues++;
	*out = s;
	return 0;
}

void
nvmf_share_put(struct nvmf_share *s)
{
	if (s == NULL || --s->queues > 0)
		return;
	LIST_REMOVE(s, link);
	free(s);
}
