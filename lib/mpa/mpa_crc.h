/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MPA_CRC_H
#define MPA_CRC_H

/**
 * @file CRC32c by the wide registers of newer processors (AVX-512 with VPCLMULQDQ), alone, in one
 * pass with a copy, and with a copy and its Internet checksum. mpa_wire.h and mpa_tx.c choose it.
 * Any thread. Internal.
 */

#include <stdbool.h>
#include <stdint.h>

/** Fewer octets are left to the processor's CRC instruction, or to ISA-L. */
#define MPA_CRC_WIDE_LEAST_BYTES 64

/** Set before main(): the processor has what the functions below need. */
extern bool mpa_crc_wide;

/** Add len_bytes, MPA_CRC_WIDE_LEAST_BYTES or more, to the CRC. Only if mpa_crc_wide. */
uint32_t mpa_crc_wide_add(uint32_t crc, const uint8_t *p, uint32_t len_bytes);
/**
 * The same, and copy the octets to dst, which src does not overlap. The source is read once: if it
 * changes meanwhile, the CRC is still that of the copy.
 */
uint32_t mpa_crc_wide_copy(uint32_t crc, uint8_t *dst, const uint8_t *src, uint32_t len_bytes);
/** The same, and add the copy's 16-bit words to *sum (struct weft_mbuf_sum). */
uint32_t mpa_crc_wide_copy_sum(uint32_t crc, uint8_t *dst, const uint8_t *src, uint32_t len_bytes,
                               uint32_t *sum);

#endif /* MPA_CRC_H */
