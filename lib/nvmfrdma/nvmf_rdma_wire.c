/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Private data of the RDMA transport: see nvmf_rdma_wire.h.
 */

#include <string.h>

#include "nvmf_rdma_wire.h"
#include "weft_nvmf_wire.h"

enum nvmf_rdma_status
nvmf_rdma_request_decode(const uint8_t *p, size_t bytes, struct nvmf_rdma_request *out)
{
	if (bytes < NVMF_RDMA_REQUEST_BYTES)
		return NVMF_RDMA_LENGTH;
	if (weft_nvmf_get16(p) != 0)
		return NVMF_RDMA_RECFMT;
	out->qid = weft_nvmf_get16(p + 2);
	out->hrqsize = weft_nvmf_get16(p + 4);
	out->hsqsize = weft_nvmf_get16(p + 6);
	if (out->qid == UINT16_MAX)
		return NVMF_RDMA_QID;
	/* a queue has two entries at least (SQSIZE is 0-based, and not 0) */
	if (out->hrqsize < 2)
		return NVMF_RDMA_HRQSIZE;
	if (out->hsqsize < 1)
		return NVMF_RDMA_HSQSIZE;
	return NVMF_RDMA_OK;
}

void
nvmf_rdma_accept_encode(uint16_t crqsize, uint8_t out[NVMF_RDMA_ACCEPT_BYTES])
{
	memset(out, 0, NVMF_RDMA_ACCEPT_BYTES);
	weft_nvmf_put16(out + 2, crqsize);
}

void
nvmf_rdma_reject_encode(enum nvmf_rdma_status why, uint8_t out[NVMF_RDMA_REJECT_BYTES])
{
	weft_nvmf_put16(out, 0);
	weft_nvmf_put16(out + 2, (uint16_t)why);
}
