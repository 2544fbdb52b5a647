/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TERM_H
#define WEFT_TERM_H

/**
 * @file
 * Layer, type and code of a Terminate (RFC 5040 s4.8), which also describe a fault of the peer
 * inside weft. Codes of DDP and MPA; the codes of RDMAP are in weft_rdmap_term.h.
 */

#include <errno.h>
#include <stdint.h>

/** A fault that this side detected, or that the peer's Terminate reported. */
struct weft_term {
	uint8_t layer; /**< 0 RDMA, 1 DDP, 2 LLP (MPA) */
	uint8_t etype; /**< error type within the layer */
	uint8_t code;  /**< error code within the type */
};

/** Fill *t and return -EPROTO, so that a check reads `return weft_fault(t, 1, 2, 1);`. */
static inline int
weft_fault(struct weft_term *t, uint8_t layer, uint8_t etype, uint8_t code)
{
	t->layer = layer;
	t->etype = etype;
	t->code = code;
	return -EPROTO;
}

/* Layer 1, DDP: RFC 5041 s7.2. */
#define WEFT_TERM_LAYER_DDP     0x1
#define WEFT_TERM_DDP_LOCAL     0x0
#define WEFT_TERM_DDP_TAGGED    0x1
#define WEFT_TERM_DDP_UNTAGGED  0x2
#define WEFT_TERM_TAG_BAD_STAG  0x00
#define WEFT_TERM_TAG_BOUNDS    0x01
#define WEFT_TERM_TAG_BAD_PD    0x02
#define WEFT_TERM_TAG_TO_WRAP   0x03
#define WEFT_TERM_TAG_VERSION   0x04
#define WEFT_TERM_UNT_BAD_QN    0x01
#define WEFT_TERM_UNT_NO_BUFFER 0x02
#define WEFT_TERM_UNT_MSN_RANGE 0x03
#define WEFT_TERM_UNT_BAD_MO    0x04
#define WEFT_TERM_UNT_TOO_LONG  0x05
#define WEFT_TERM_UNT_VERSION   0x06

/* Layer 2, LLP (MPA), type 0: RFC 5044 s8, RFC 6581 s8. */
#define WEFT_TERM_LAYER_LLP      0x2
#define WEFT_MPA_ERR_CLOSED      0x01 /* local only */
#define WEFT_MPA_ERR_CRC         0x02
#define WEFT_MPA_ERR_MARKER      0x03
#define WEFT_MPA_ERR_BAD_STARTUP 0x04 /* local only */
#define WEFT_MPA_ERR_LOCAL       0x05
#define WEFT_MPA_ERR_IRD         0x06
#define WEFT_MPA_ERR_NO_RTR      0x07

#endif /* WEFT_TERM_H */
