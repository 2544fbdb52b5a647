/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A program outside the repository: it initializes weft, then calls region.c. */

#include <stdio.h>

#include "region.h"

int
main(void)
{
	struct weft_env_attr env = {.size = sizeof(env), .progname = "outside", .memory_mb = 128};
	struct weft_ctx *ctx;
	const char *msg = "";
	int rc;

	rc = weft_env_init(&env, &msg);
	if (rc != 0) {
		fprintf(stderr, "outside: environment: %s (%d)\n", msg, rc);
		return 1;
	}
	rc = weft_ctx_create(NULL, &ctx);
	if (rc != 0) {
		fprintf(stderr, "outside: context: %d\n", rc);
		return 1;
	}
	rc = region_try(ctx);
	weft_ctx_destroy(ctx);
	weft_env_fini();
	return rc;
}
