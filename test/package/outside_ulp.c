/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A program outside the repository that serves calls by weft's RPC, reads a log, and opens a
 * volume. */

#include <stdio.h>

#include <weft/log.h>
#include <weft/rpcrdma.h>
#include <weft/tirpc.h>
#include <weft/volume.h>

static const struct weft_rpc_program *const programs[] = {&weft_volume_revokes, NULL};

int
main(void)
{
	struct weft_rpc_drc *drc;
	int rc = weft_rpc_drc_create(16, &drc);

	if (rc != 0) {
		fprintf(stderr, "outside: cache: %d\n", rc);
		return 1;
	}
	weft_rpc_drc_destroy(drc);
	return weft_clnt_create(NULL, NULL, 0, 1, 1, NULL) == NULL &&
	                       weft_log_create(NULL, NULL) < 0 && programs[0]->nprocs > 0 &&
	                       weft_volume_open(NULL, NULL, NULL, NULL) < 0
	               ? 0
	               : 1;
}
