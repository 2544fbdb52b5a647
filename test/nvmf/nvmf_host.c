/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The host's half of the codec: commands and Connect's data are written, answers are read.
 */

#include <string.h>

#include "nvmf_host.h"

void
nv_sqe_encode(const struct weft_nvmf_sqe *sqe, uint8_t out[WEFT_NVMF_SQE_BYTES])
{
	for (unsigned int i = 0; i < 16; i++)
		weft_nvmf_put32(out + 4 * i, sqe->cdw[i]);
	out[0] = sqe->opcode;
	out[1] = (uint8_t)(sqe->fuse | sqe->psdt << 6);
	weft_nvmf_put16(out + 2, sqe->cid);
	if (sqe->opcode == WEFT_NVMF_OP_FABRICS)
		weft_nvmf_put32(out + 4, sqe->fctype);
	else
		weft_nvmf_put32(out + 4, sqe->nsid);
}

void
nv_sgl_encode(const struct weft_nvmf_sgl *sgl, struct weft_nvmf_sqe *sqe)
{
	uint32_t type = 0x40;

	sqe->psdt = 1;
	sqe->cdw[6] = (uint32_t)sgl->addr;
	sqe->cdw[7] = (uint32_t)(sgl->addr >> 32);
	sqe->cdw[8] = sgl->bytes;
	sqe->cdw[9] = 0;
	if (sgl->kind == WEFT_NVMF_SGL_CAPSULE) {
		type = 0x01;
	} else if (sgl->kind == WEFT_NVMF_SGL_TRANSPORT) {
		type = 0x5a;
	} else if (sgl->kind == WEFT_NVMF_SGL_KEYED) {
		sqe->cdw[8] = (sgl->bytes & 0xffffff) | sgl->key << 24;
		sqe->cdw[9] = sgl->key >> 8;
		type = sgl->invalidate ? 0x4f : 0x40;
	}
	sqe->cdw[9] |= type << 24;
}

void
nv_cqe_decode(const uint8_t in[WEFT_NVMF_CQE_BYTES], struct weft_nvmf_cqe *out)
{
	out->result = weft_nvmf_get64(in);
	out->sqhd = weft_nvmf_get16(in + 8);
	out->sqid = weft_nvmf_get16(in + 10);
	out->cid = weft_nvmf_get16(in + 12);
	out->status = weft_nvmf_get16(in + 14) >> 1;
}

void
nv_connect_encode(const struct weft_nvmf_connect *c, uint8_t out[WEFT_NVMF_CONNECT_BYTES])
{
	memset(out, 0, WEFT_NVMF_CONNECT_BYTES);
	memcpy(out, c->hostid, sizeof(c->hostid));
	weft_nvmf_put16(out + 16, c->cntlid);
	memcpy(out + 256, c->subnqn, strnlen(c->subnqn, WEFT_NVMF_NQN_BYTES - 1));
	memcpy(out + 512, c->hostnqn, strnlen(c->hostnqn, WEFT_NVMF_NQN_BYTES - 1));
}
