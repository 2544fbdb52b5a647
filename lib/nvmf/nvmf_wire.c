/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The codec: see weft_nvmf_wire.h.
 */

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "weft_nvmf_wire.h"

/* SGL descriptor types and subtypes: the last octet (NVMe Base 2.0 s4.1.2) */
#define SGL_DATA_OFFSET       0x01 /**< data block, offset in the capsule */
#define SGL_KEYED             0x40
#define SGL_KEYED_INVALIDATE  0x4f
#define SGL_TRANSPORT_ADDRESS 0x5a

/* fields of Connect's data (NVMe over Fabrics 1.1 s3.3) */
#define CONNECT_CNTLID  16
#define CONNECT_SUBNQN  256
#define CONNECT_HOSTNQN 512

int
weft_nvmf_sqe_decode(const void *capsule, size_t bytes, struct weft_nvmf_sqe *out)
{
	const uint8_t *p = capsule;

	if (bytes < WEFT_NVMF_SQE_BYTES)
		return -EPROTO;
	for (unsigned int i = 0; i < 16; i++)
		out->cdw[i] = weft_nvmf_get32(p + 4 * i);
	out->opcode = p[0];
	out->fuse = p[1] & 3;
	out->psdt = p[1] >> 6;
	out->cid = weft_nvmf_get16(p + 2);
	out->fctype = p[4];
	out->nsid = out->cdw[1];
	return 0;
}

uint16_t
weft_nvmf_sgl_decode(const struct weft_nvmf_sqe *sqe, uint32_t kinds, size_t inline_bytes,
                     struct weft_nvmf_sgl *out)
{
	const uint8_t type = (uint8_t)(sqe->cdw[9] >> 24);

	*out = (struct weft_nvmf_sgl){.addr = sqe->cdw[6] | (uint64_t)sqe->cdw[7] << 32};
	switch (type) {
	case SGL_DATA_OFFSET:
		out->kind = WEFT_NVMF_SGL_CAPSULE;
		out->bytes = sqe->cdw[8];
		break;
	case SGL_KEYED:
	case SGL_KEYED_INVALIDATE:
		out->kind = WEFT_NVMF_SGL_KEYED;
		out->bytes = sqe->cdw[8] & 0xffffff;
		out->key = sqe->cdw[8] >> 24 | sqe->cdw[9] << 8;
		out->invalidate = type == SGL_KEYED_INVALIDATE && out->bytes > 0;
		break;
	case SGL_TRANSPORT_ADDRESS:
		out->kind = WEFT_NVMF_SGL_TRANSPORT;
		out->bytes = sqe->cdw[8];
		break;
	default:
		return WEFT_NVMF_SGL_TYPE | WEFT_NVMF_DNR;
	}
	if ((kinds & 1U << out->kind) == 0)
		return WEFT_NVMF_SGL_TYPE | WEFT_NVMF_DNR;
	if (out->kind == WEFT_NVMF_SGL_CAPSULE) {
		if (out->addr > inline_bytes)
			return WEFT_NVMF_SGL_OFFSET | WEFT_NVMF_DNR;
		if (out->bytes > inline_bytes - out->addr)
			return WEFT_NVMF_SGL_LENGTH | WEFT_NVMF_DNR;
	}
	if (out->bytes == 0)
		out->kind = WEFT_NVMF_SGL_NONE;
	return WEFT_NVMF_OK;
}

void
weft_nvmf_cqe_encode(const struct weft_nvmf_cqe *cqe, uint8_t out[WEFT_NVMF_CQE_BYTES])
{
	weft_nvmf_put64(out, cqe->result);
	weft_nvmf_put16(out + 8, cqe->sqhd);
	weft_nvmf_put16(out + 10, cqe->sqid);
	weft_nvmf_put16(out + 12, cqe->cid);
	weft_nvmf_put16(out + 14, (uint16_t)(cqe->status << 1));
}

/** Copy an NQN field. False: it is empty, or has no end. */
static bool
wire_nqn(const uint8_t *in, char *out)
{
	const uint8_t *end = memchr(in, 0, WEFT_NVMF_NQN_BYTES);

	if (end == NULL || end == in)
		return false;
	memcpy(out, in, (size_t)(end - in) + 1);
	return true;
}

uint32_t
weft_nvmf_connect_decode(const uint8_t in[WEFT_NVMF_CONNECT_BYTES], struct weft_nvmf_connect *out)
{
	memset(out, 0, sizeof(*out));
	memcpy(out->hostid, in, sizeof(out->hostid));
	out->cntlid = weft_nvmf_get16(in + CONNECT_CNTLID);
	if (!wire_nqn(in + CONNECT_SUBNQN, out->subnqn))
		return CONNECT_SUBNQN;
	/* The host's goes to logs, metrics and weft-ctl, whatever it is. That of the subsystem is
	 * looked for. */
	if (!wire_nqn(in + CONNECT_HOSTNQN, out->hostnqn) || !weft_nvmf_nqn_ok(out->hostnqn))
		return CONNECT_HOSTNQN;
	return 0;
}

bool
weft_nvmf_nqn_ok(const char *nqn)
{
	static const char form[] = "nqn.0000-00.";
	const size_t len = strnlen(nqn, WEFT_NVMF_NQN_BYTES);

	if (len == WEFT_NVMF_NQN_BYTES || len < sizeof(form))
		return false;
	for (size_t i = 0; i < sizeof(form) - 1; i++)
		if (form[i] == '0' ? !isdigit((unsigned char)nqn[i]) : nqn[i] != form[i])
			return false;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)nqn[i] <= ' ' || (unsigned char)nqn[i] >= 0x7f)
			return false;
	return true;
}

uint32_t
weft_nvmf_crc32(const void *data, size_t bytes)
{
	const uint8_t *p = data;
	uint32_t crc = 0xffffffff;

	for (size_t i = 0; i < bytes; i++) {
		crc ^= p[i];
		for (unsigned int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (0xedb88320U & -(crc & 1));
	}
	return ~crc;
}
