/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Weft's addresses in getifaddrs(3). */

#include "ifaddr.h"

#include "config.h"
#include "device.h"

#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ifaddr_node {
	struct ifaddrs ifa; /**< first */
	struct sockaddr_storage addr, mask;
	char name[IFNAMSIZ];
};

static void
ifaddr_mask(struct sockaddr_storage *m, const struct sockaddr_storage *a, uint32_t prefix_len)
{
	uint8_t *b = a->ss_family == AF_INET
	                     ? (void *)&((struct sockaddr_in *)(void *)m)->sin_addr
	                     : (void *)&((struct sockaddr_in6 *)(void *)m)->sin6_addr;

	m->ss_family = a->ss_family;
	for (; prefix_len >= 8; prefix_len -= 8)
		*b++ = 0xff;
	if (prefix_len > 0)
		*b = (uint8_t)(0xff00 >> prefix_len);
}

static bool
ifaddr_add(struct ifaddrs **list, const struct conf_net *net, unsigned int device)
{
	struct ifaddr_node *n = calloc(1, sizeof(*n));

	if (n == NULL)
		return false;
	n->addr = net->addr;
	ifaddr_mask(&n->mask, &net->addr, net->prefix_len);
	snprintf(n->name, sizeof(n->name), WV_DEVICE_NAME, device);
	n->ifa.ifa_name = n->name;
	n->ifa.ifa_flags = IFF_UP | IFF_RUNNING;
	n->ifa.ifa_addr = (struct sockaddr *)&n->addr;
	n->ifa.ifa_netmask = (struct sockaddr *)&n->mask;
	n->ifa.ifa_next = *list;
	*list = &n->ifa;
	return true;
}

void
wv_ifaddr_add(struct ifaddrs **list)
{
	const bool any = getenv(WV_ENV_CONFIG) != NULL || getenv(WV_ENV_DEV) != NULL ||
	                 getenv(WV_ENV_PORTD) != NULL;
	const struct conf *c = any ? wv_config() : NULL;

	for (uint32_t p = 0; c != NULL && p < c->nports; p++)
		for (uint32_t i = 0; i < c->ports[p].nnets; i++)
			if (!ifaddr_add(list, &c->ports[p].nets[i], p))
				return;
}

struct ifaddrs *
wv_ifaddr_remove(struct ifaddrs *list)
{
	/* A node of ours has its name inside. */
	while (list != NULL && list->ifa_name == ((struct ifaddr_node *)(void *)list)->name) {
		struct ifaddrs *next = list->ifa_next;

		free(list);
		list = next;
	}
	return list;
}
