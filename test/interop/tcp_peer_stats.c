/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Counters as JSON. */

#include <inttypes.h>
#include <stdio.h>

#include "tcp_peer_stats.h"

static void
print_fields(const void *st, const struct weft_stat_field *f, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		printf("%s\"%s\": %" PRIu64, i == 0 ? "{" : ", ", f[i].name,
		       weft_stat_read(st, &f[i]));
	printf("}");
}

void
peer_print_tcp_stats(const struct weft_tcp_stats *st)
{
	const struct weft_stat_field *f;
	unsigned int n = weft_tcp_stat_fields(&f);

	print_fields(st, f, n);
}

void
peer_print_netif_stats(const struct weft_netif_stats *st)
{
	const struct weft_stat_field *f;
	unsigned int n = weft_netif_stat_fields(&f);

	print_fields(st, f, n);
}
