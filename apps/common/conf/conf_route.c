/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Finds the configured port by which a host is reached. */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "addr.h"
#include "conf.h"

/* Whether the host is in one of the port's networks, or is reached by one of its gateways. */
static bool
port_reaches(const struct conf_port *p, const struct sockaddr_storage *to, bool via_gateway)
{
	for (uint32_t i = 0; i < p->nnets; i++) {
		const struct conf_net *n = &p->nets[i];

		if (n->addr.ss_family == to->ss_family &&
		    (via_gateway ? n->gateway.ss_family != 0
		                 : addr_same_net(&n->addr, to, n->prefix_len)))
			return true;
	}
	return !via_gateway && addr_is_link_local(to);
}

/* Whether the port has the address; NULL: any. */
static bool
port_owns(const struct conf_port *p, const struct sockaddr_storage *a)
{
	for (uint32_t i = 0; i < p->nnets && a != NULL; i++)
		if (addr_same_host(&p->nets[i].addr, a))
			return true;
	return a == NULL;
}

static int
unreachable(const struct conf *c, const struct conf_port *p, const struct sockaddr_storage *to,
            char *err, size_t err_size)
{
	char ip[ADDR_STR_MAX], own[ADDR_STR_MAX];
	const struct conf_net *n = NULL;
	uint32_t others = 0;

	if (p == NULL)
		p = &c->ports[0];
	(void)addr_host_str(to, ip);
	for (uint32_t i = 0; i < p->nnets; i++) {
		if (p->nets[i].addr.ss_family != to->ss_family)
			continue;
		others += n != NULL;
		n = n != NULL ? n : &p->nets[i];
	}
	if (n == NULL)
		snprintf(err, err_size, "no port reaches %s (port %s has no IPv%d address)", ip,
		         p->name, to->ss_family == AF_INET6 ? 6 : 4);
	else if (others > 0)
		snprintf(err, err_size,
		         "no port reaches %s (port %s has %s, %" PRIu32 " more and no gateway)", ip,
		         p->name, conf_net_str(&n->addr, n->prefix_len, own), others);
	else
		snprintf(err, err_size, "no port reaches %s (port %s has %s and no gateway)", ip,
		         p->name, conf_net_str(&n->addr, n->prefix_len, own));
	return -ENETUNREACH;
}

int
conf_one_port(const struct conf *c, const struct sockaddr_storage *to,
              const struct sockaddr_storage *from, struct conf *one, char *err, size_t err_size)
{
	const struct conf_port *p = NULL, *owner = NULL;
	char ip[ADDR_STR_MAX];

	for (uint32_t i = 0; i < c->nports && owner == NULL; i++)
		if (port_owns(&c->ports[i], from))
			owner = &c->ports[i];
	if (owner == NULL) {
		snprintf(err, err_size, "%s is the address of no port; give one of ours",
		         addr_host_str(from, ip));
		return -EADDRNOTAVAIL;
	}
	if (to == NULL)
		p = owner;
	for (unsigned int via = 0; via < 2 && p == NULL; via++)
		for (uint32_t i = 0; i < c->nports && p == NULL; i++)
			if (port_owns(&c->ports[i], from) &&
			    port_reaches(&c->ports[i], to, via != 0))
				p = &c->ports[i];
	if (p == NULL)
		return unreachable(c, from != NULL ? owner : NULL, to, err, err_size);
	if (to != NULL && port_owns(p, to)) {
		snprintf(err, err_size, "%s is the address of our own port %s",
		         addr_host_str(to, ip), p->name);
		return -EINVAL;
	}
	*one = *c;
	one->exports = NULL;
	one->nexports = 0;
	for (uint32_t i = 0; i < c->nworkers; i++)
		for (uint32_t n = 0; n < c->workers[i].nports; n++)
			if (strcmp(c->workers[i].ports[n], p->name) == 0)
				one->workers[0] = c->workers[i];
	one->nworkers = 1;
	strcpy(one->workers[0].ports[0], p->name);
	one->workers[0].nports = 1;
	one->ports[0] = *p;
	one->nports = 1;
	return 0;
}
