/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Who may open an export: its lists of names and of addresses; and its limits. */

#include <string.h>

#include "addr.h"
#include "conf.h"

bool
conf_has_client(const char *list, const char *name)
{
	const size_t len = strlen(name);

	for (;;) {
		const size_t n = strcspn(list, ",");

		if (n == len && n > 0 && memcmp(list, name, n) == 0)
			return true;
		if (list[n] == '\0')
			return false;
		list += n + 1;
	}
}

bool
conf_has_addr(const struct conf_listen *list, uint32_t n, const struct sockaddr_storage *addr)
{
	for (uint32_t i = 0; i < n; i++)
		if (list[i].prefix_len != 0 ? addr_same_net(&list[i].addr, addr, list[i].prefix_len)
		                            : addr_same_host(&list[i].addr, addr))
			return true;
	return false;
}

bool
conf_allows_addr(const struct conf_export *e, const struct sockaddr_storage *addr)
{
	return e->nallow_from == 0 || conf_has_addr(e->allow_from, e->nallow_from, addr);
}

void
conf_export_soft(struct conf_export *to, const struct conf_export *from)
{
	memcpy(to->allow_clients, from->allow_clients, sizeof(to->allow_clients));
	memcpy(to->allow_from, from->allow_from, sizeof(to->allow_from));
	to->nallow_from = from->nallow_from;
	to->max_bytes_per_s = from->max_bytes_per_s;
	to->max_ops_per_s = from->max_ops_per_s;
	to->client_bytes_per_s = from->client_bytes_per_s;
	to->client_ops_per_s = from->client_ops_per_s;
	to->max_conns = from->max_conns;
}

bool
conf_export_soft_same(const struct conf_export *a, const struct conf_export *b)
{
	return strcmp(a->allow_clients, b->allow_clients) == 0 &&
	       a->nallow_from == b->nallow_from && a->max_bytes_per_s == b->max_bytes_per_s &&
	       a->max_ops_per_s == b->max_ops_per_s &&
	       a->client_bytes_per_s == b->client_bytes_per_s &&
	       a->client_ops_per_s == b->client_ops_per_s && a->max_conns == b->max_conns &&
	       memcmp(a->allow_from, b->allow_from, a->nallow_from * sizeof(a->allow_from[0])) == 0;
}
