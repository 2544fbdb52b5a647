/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Uses persist drivers and regions. Drivers register in constructors, which static links
 * must keep. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "region.h"

int
region_try(struct weft_ctx *ctx)
{
	static char memory[4096];
	struct weft_mr_attr attr = {.size = sizeof(attr),
	                            .addr = memory,
	                            .len_bytes = sizeof(memory),
	                            .access = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_READ |
	                                      WEFT_ACCESS_VERIFY,
	                            .hash = "crc32c"};
	static const unsigned char check[4] = {0xe3, 0x06, 0x92, 0x83};
	unsigned char sum[WEFT_HASH_MAX_BYTES];
	const struct weft_hash_ops *crc = weft_hash_find("crc32c");
	struct weft_pd *pd;
	struct weft_mr *mr;

	if (crc == NULL || weft_hash_once(crc, "123456789", 9, sum) != 0 ||
	    memcmp(sum, check, sizeof(check)) != 0) {
		fprintf(stderr, "outside: the crc32c driver is missing or wrong\n");
		return 1;
	}
	if (weft_persist_find("file") == NULL || weft_persist_find("pmem") == NULL ||
	    weft_persist_find("volatile") == NULL) {
		fprintf(stderr, "outside: a persist driver is missing\n");
		return 1;
	}
	if (weft_pd_alloc(ctx, &pd) != 0)
		return 1;
	if (weft_mr_reg(pd, &attr, &mr) != 0 || weft_mr_stag(mr) == 0) {
		fprintf(stderr, "outside: registration failed\n");
		return 1;
	}
	weft_mr_dereg(mr, NULL, NULL);
	attr.access |= WEFT_ACCESS_FLUSH_PERSISTENT;
	if (weft_mr_reg(pd, &attr, &mr) != -EOPNOTSUPP) {
		fprintf(stderr, "outside: ordinary memory was accepted as persistent\n");
		return 1;
	}
	weft_pd_dealloc(pd);
	printf("outside: weft %s works\n", weft_version());
	return 0;
}
