/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_RDMA_WIRE_H
#define NVMF_RDMA_WIRE_H

/** @file Private data of the RDMA transport's connections (NVMe RDMA Transport 1.0 s3.1). */

#include <stddef.h>
#include <stdint.h>

#define NVMF_RDMA_REQUEST_BYTES 32U
#define NVMF_RDMA_ACCEPT_BYTES  32U
#define NVMF_RDMA_REJECT_BYTES  4U

/** Why a connection is rejected: STS. */
enum nvmf_rdma_status {
	NVMF_RDMA_OK = 0,
	NVMF_RDMA_LENGTH = 1, /**< of the private data */
	NVMF_RDMA_RECFMT = 2,
	NVMF_RDMA_QID = 3,
	NVMF_RDMA_HSQSIZE = 4,
	NVMF_RDMA_HRQSIZE = 5,
	NVMF_RDMA_RESOURCES = 6,
	NVMF_RDMA_IRD = 7,
};

struct nvmf_rdma_request {
	uint16_t qid;
	uint16_t hrqsize; /**< receives that the host has posted */
	uint16_t hsqsize; /**< entries of its send queue, 0-based */
};

enum nvmf_rdma_status nvmf_rdma_request_decode(const uint8_t *p, size_t bytes,
                                               struct nvmf_rdma_request *out);
void nvmf_rdma_accept_encode(uint16_t crqsize, uint8_t out[NVMF_RDMA_ACCEPT_BYTES]);
void nvmf_rdma_reject_encode(enum nvmf_rdma_status why, uint8_t out[NVMF_RDMA_REJECT_BYTES]);

#endif /* NVMF_RDMA_WIRE_H */
