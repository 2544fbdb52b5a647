/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_MPA_FRAME_H
#define WEFT_MPA_FRAME_H

/**
 * @file
 * The Request and the Reply of revision 1 and 2: RFC 5044 s7.1.1, with the enhanced data of
 * RFC 6581 s9.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEFT_MPA_MAX_PDATA 512 /* RFC 5044 s7.1.1 */

/** Value of IRD or ORD that means "do not negotiate" (RFC 6581 s9.1). */
#define WEFT_MPA_IRD_ORD_NONE 0x3fff

/* Forms of the ready-to-receive indication, as a mask (RFC 6581 s9.2: B, C, D). */
#define WEFT_MPA_RTR_FPDU  0x1 /**< zero-length FPDU */
#define WEFT_MPA_RTR_WRITE 0x2 /**< zero-length RDMA Write */
#define WEFT_MPA_RTR_READ  0x4 /**< zero-length RDMA Read */
#define WEFT_MPA_RTR_ALL   0x7

/** A start-up frame, decoded. */
struct weft_mpa_frame {
	bool reply;    /**< Reply rather than Request */
	bool markers;  /**< M: the sender wants to receive markers */
	bool crc;      /**< C */
	bool reject;   /**< R, Reply only */
	bool enhanced; /**< S: IRD/ORD word present (rev 2) */
	uint8_t rev;
	uint16_t ird, ord;                  /**< 14 bits each; valid when enhanced */
	bool p2p;                           /**< A: peer-to-peer model */
	bool rtr_send, rtr_write, rtr_read; /**< B, C, D */
	uint16_t pdata_len_bytes;           /**< private data without the IRD/ORD word */
	uint8_t pdata[WEFT_MPA_MAX_PDATA];
};

/**
 * Decode one start-up frame from the head of buf. Returns octets consumed, -EAGAIN (more octets
 * needed), or -EPROTO (wrong key, PD_Length above 512, enhanced data too short). Any revision is
 * decoded; the caller checks it.
 */
int weft_mpa_frame_decode(const uint8_t *buf, size_t len_bytes, struct weft_mpa_frame *f);
/** Encode a frame. Returns octets written; -ENOSPC: buf is too small; -EINVAL: private data too
 * long, or enhanced with revision 1 or a depth above 14 bits. */
int weft_mpa_frame_encode(const struct weft_mpa_frame *f, uint8_t *buf, size_t size_bytes);

#endif /* WEFT_MPA_FRAME_H */
