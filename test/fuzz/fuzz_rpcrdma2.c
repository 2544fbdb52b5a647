/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Transport headers of RPC-over-RDMA version 2. */

#include "rpcrdma_fuzz.h"

void
fuzz_one(const uint8_t *data, size_t size)
{
	rpcrdma_fuzz(data, size, 2);
}
