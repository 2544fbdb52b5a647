/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_HOST_H
#define NVMF_HOST_H

/** @file The host's half of the codec of weft_nvmf_wire.h. */

#include "weft_nvmf_wire.h"

/** The descriptor is nv_sgl_encode()'s: cdw[6] to cdw[9] are it. */
void nv_sqe_encode(const struct weft_nvmf_sqe *sqe, uint8_t out[WEFT_NVMF_SQE_BYTES]);
/** Writes cdw[6] to cdw[9], and `psdt`. */
void nv_sgl_encode(const struct weft_nvmf_sgl *sgl, struct weft_nvmf_sqe *sqe);
void nv_cqe_decode(const uint8_t in[WEFT_NVMF_CQE_BYTES], struct weft_nvmf_cqe *out);
void nv_connect_encode(const struct weft_nvmf_connect *c, uint8_t out[WEFT_NVMF_CONNECT_BYTES]);

#endif /* NVMF_HOST_H */
