/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Every counter has a name, by which it can be read. */

#include <string.h>

#include "weft_netif_group.h"
#include "weft_netif_stats.h"
#include "weft_tcp.h"
#include "weft_test.h"

/** Check that the fields cover the structure, each octet once, except padding at its end. */
static void
check(const struct weft_stat_field *f, unsigned int n, size_t size)
{
	uint8_t seen[4096] = {0};
	size_t holes = 0;

	CHECK(size <= sizeof(seen));
	for (unsigned int i = 0; i < n; i++) {
		CHECK(f[i].bytes == 4 || f[i].bytes == 8);
		for (unsigned int b = 0; b < f[i].bytes; b++) {
			CHECK(!seen[f[i].off + b]);
			seen[f[i].off + b] = 1;
		}
		for (unsigned int j = 0; j < i; j++)
			CHECK(strcmp(f[i].name, f[j].name) != 0);
	}
	for (size_t i = 0; i < size; i++)
		holes += !seen[i];
	/* A counter that is missing here is missing in tcp_stats.c or netif_stats.c. */
	CHECK(holes < 8);
	for (size_t i = 0; i + 8 <= size; i += 8)
		CHECK(seen[i]);
}

static void
test_tcp(void)
{
	const struct weft_stat_field *f;
	unsigned int n = weft_tcp_stat_fields(&f);

	check(f, n, sizeof(struct weft_tcp_stats));
}

static void
test_netif(void)
{
	const struct weft_stat_field *f;
	unsigned int n = weft_netif_stat_fields(&f);

	check(f, n, sizeof(struct weft_netif_stats));
}

static void
test_group(void)
{
	const struct weft_stat_field *f;
	unsigned int n = weft_netif_group_stat_fields(&f);

	check(f, n, sizeof(struct weft_netif_group_stats));
}

WEFT_TEST_MAIN({"TCP's counters are named", test_tcp}, {"netif's counters are named", test_netif},
               {"a group's counters are named", test_group})
