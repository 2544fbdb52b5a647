/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_RDMAP_TERM_H
#define WEFT_RDMAP_TERM_H

/**
 * @file
 * Codes of a Terminate: those of RDMAP (RFC 5040 s4.8), and the table of the codes of all layers.
 */

#include "weft_term.h"

/* Layer 0 (RFC 5040 s4.8 Figure 9). 0x0a to 0x0d are this project's: docs/conformance.md. */
#define WEFT_TERM_LAYER_RDMA       0x0
#define WEFT_TERM_RDMA_LOCAL       0x0
#define WEFT_TERM_RDMA_PROTECTION  0x1
#define WEFT_TERM_RDMA_OPERATION   0x2
#define WEFT_TERM_PROT_BAD_STAG    0x00
#define WEFT_TERM_PROT_BOUNDS      0x01
#define WEFT_TERM_PROT_ACCESS      0x02
#define WEFT_TERM_PROT_BAD_PD      0x03
#define WEFT_TERM_PROT_TO_WRAP     0x04
#define WEFT_TERM_PROT_INVALIDATE  0x09
#define WEFT_TERM_PROT_UNSPECIFIED 0xff
#define WEFT_TERM_OP_VERSION       0x05
#define WEFT_TERM_OP_OPCODE        0x06
#define WEFT_TERM_OP_STREAM        0x07
#define WEFT_TERM_OP_GLOBAL        0x08
#define WEFT_TERM_OP_INVALIDATE    0x09
#define WEFT_TERM_OP_FLUSH_FAILED  0x0a /**< the range did not reach the requested disposition */
#define WEFT_TERM_OP_HASH_MISMATCH 0x0b /**< the medium's content has another hash */
#define WEFT_TERM_OP_VERIFY_FAILED 0x0c /**< the medium could not be read back */
/** the medium that the memory maps is gone (weft/guard.h) */
#define WEFT_TERM_OP_LOST        0x0d
#define WEFT_TERM_OP_UNSPECIFIED 0xff

#define WEFT_TERM_ANY 0x100 /**< weft_term_row.code: any code, since the type defines none */

/**
 * Every assigned Terminate: name of its counter, layer, type, code, text. Sources: IANA's registry
 * (RFC 6580 s3.1-3.3), RFC 6581 s8 (MPA's 05 to 07), and this project's four for
 * draft-talpey-rdma-commit-02.
 */
#define WEFT_TERM_CODES(X)                                                                         \
	X(rdma_local, 0, 0, WEFT_TERM_ANY, "local catastrophic error")                             \
	X(prot_bad_stag, 0, 1, WEFT_TERM_PROT_BAD_STAG, "invalid STag")                            \
	X(prot_bounds, 0, 1, WEFT_TERM_PROT_BOUNDS, "base or bounds violation")                    \
	X(prot_access, 0, 1, WEFT_TERM_PROT_ACCESS, "access rights violation")                     \
	X(prot_bad_pd, 0, 1, WEFT_TERM_PROT_BAD_PD, "STag not associated with the stream")         \
	X(prot_to_wrap, 0, 1, WEFT_TERM_PROT_TO_WRAP, "tagged offset wraps")                       \
	X(prot_invalidate, 0, 1, WEFT_TERM_PROT_INVALIDATE, "STag cannot be invalidated")          \
	X(prot_unspecified, 0, 1, WEFT_TERM_PROT_UNSPECIFIED, "unspecified")                       \
	X(op_version, 0, 2, WEFT_TERM_OP_VERSION, "invalid RDMAP version")                         \
	X(op_opcode, 0, 2, WEFT_TERM_OP_OPCODE, "unexpected opcode")                               \
	X(op_stream, 0, 2, WEFT_TERM_OP_STREAM, "catastrophic, this stream")                       \
	X(op_global, 0, 2, WEFT_TERM_OP_GLOBAL, "catastrophic, all streams")                       \
	X(op_invalidate, 0, 2, WEFT_TERM_OP_INVALIDATE, "STag cannot be invalidated")              \
	X(op_flush_failed, 0, 2, WEFT_TERM_OP_FLUSH_FAILED, "flush failed")                        \
	X(op_hash_mismatch, 0, 2, WEFT_TERM_OP_HASH_MISMATCH, "hash mismatch")                     \
	X(op_verify_failed, 0, 2, WEFT_TERM_OP_VERIFY_FAILED, "verify could not read the medium")  \
	X(op_lost, 0, 2, WEFT_TERM_OP_LOST, "the medium is gone")                                  \
	X(op_unspecified, 0, 2, WEFT_TERM_OP_UNSPECIFIED, "unspecified")                           \
	X(ddp_local, 1, 0, 0x00, "local catastrophic error")                                       \
	X(tag_bad_stag, 1, 1, WEFT_TERM_TAG_BAD_STAG, "invalid STag")                              \
	X(tag_bounds, 1, 1, WEFT_TERM_TAG_BOUNDS, "base or bounds violation")                      \
	X(tag_bad_pd, 1, 1, WEFT_TERM_TAG_BAD_PD, "STag not associated with the stream")           \
	X(tag_to_wrap, 1, 1, WEFT_TERM_TAG_TO_WRAP, "tagged offset wraps")                         \
	X(tag_version, 1, 1, WEFT_TERM_TAG_VERSION, "invalid DDP version")                         \
	X(unt_bad_qn, 1, 2, WEFT_TERM_UNT_BAD_QN, "invalid queue number")                          \
	X(unt_no_buffer, 1, 2, WEFT_TERM_UNT_NO_BUFFER,                                            \
	  "no buffer: no receive posted, or more requests than IRD")                               \
	X(unt_msn_range, 1, 2, WEFT_TERM_UNT_MSN_RANGE, "message sequence number out of range")    \
	X(unt_bad_mo, 1, 2, WEFT_TERM_UNT_BAD_MO, "invalid message offset")                        \
	X(unt_too_long, 1, 2, WEFT_TERM_UNT_TOO_LONG, "message longer than the receive")           \
	X(unt_version, 1, 2, WEFT_TERM_UNT_VERSION, "invalid DDP version")                         \
	X(ddp_llp, 1, 3, WEFT_TERM_ANY, "reserved for the layer below")                            \
	X(mpa_closed, 2, 0, WEFT_MPA_ERR_CLOSED, "stream closed")                                  \
	X(mpa_crc, 2, 0, WEFT_MPA_ERR_CRC, "CRC error")                                            \
	X(mpa_marker, 2, 0, WEFT_MPA_ERR_MARKER, "marker mismatch")                                \
	X(mpa_startup, 2, 0, WEFT_MPA_ERR_BAD_STARTUP, "invalid start-up frame")                   \
	X(mpa_local, 2, 0, WEFT_MPA_ERR_LOCAL, "local catastrophic error")                         \
	X(mpa_ird, 2, 0, WEFT_MPA_ERR_IRD, "insufficient IRD resources")                           \
	X(mpa_no_rtr, 2, 0, WEFT_MPA_ERR_NO_RTR, "no matching RTR option")

enum weft_term_index {
#define WEFT_TERM_X(name, layer, etype, code, words) WEFT_TERM_I_##name,
	WEFT_TERM_CODES(WEFT_TERM_X)
#undef WEFT_TERM_X
	        WEFT_TERM_NCODES
};

struct weft_term_row {
	uint8_t layer, etype;
	uint16_t code; /**< or WEFT_TERM_ANY */
	const char *words;
};

/** Index of the row of t's layer, type and code; -1 when the code is not assigned. */
int weft_rdmap_term_index(const struct weft_term *t);
/** The i-th row, static; NULL past the last. */
const struct weft_term_row *weft_rdmap_term_row(unsigned int i);

#endif /* WEFT_RDMAP_TERM_H */
