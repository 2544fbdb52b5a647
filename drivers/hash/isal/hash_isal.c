/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * "crc32c": CRC-32C (Castagnoli) by ISA-L, the CRC of RFC 7143 and of MPA.
 *
 * The result is the CRC value, initial value and final inversion all ones as usual, in big-endian
 * order: the octets e3 06 92 83 for "123456789". (MPA and iSCSI put the same value on the wire the
 * other way round, as their bit order has it; the placement extensions leave the order to the
 * hash, and a number on the wire is big-endian everywhere else in them.)
 *
 * A CRC hides nothing: the content of a short range can be computed from it.
 */

#include <errno.h>

#include <isa-l/crc.h>

#include "weft_base.h"
#include "weft_hash.h"

/* crc32_iscsi() takes an int and neither inverts before nor after. */
#define HASH_ISAL_PIECE_BYTES (1U << 30)

static int
hash_crc32c_init(struct weft_hash_state *st, const void *key, size_t key_bytes)
{
	if (key != NULL || key_bytes != 0)
		return -EINVAL;
	st->opaque[0] = UINT32_MAX;
	return 0;
}

static void
hash_crc32c_update(struct weft_hash_state *st, const void *data, size_t len_bytes)
{
	unsigned char *p =
	        (unsigned char *)(uintptr_t)data; /* only read: the prototype forgot const */
	uint32_t crc = (uint32_t)st->opaque[0];

	while (len_bytes > 0) {
		size_t n = RTE_MIN(len_bytes, (size_t)HASH_ISAL_PIECE_BYTES);

		crc = crc32_iscsi(p, (int)n, crc);
		p += n;
		len_bytes -= n;
	}
	st->opaque[0] = crc;
}

static void
hash_crc32c_final(struct weft_hash_state *st, void *result)
{
	weft_put_be32(result, ~(uint32_t)st->opaque[0]);
}

static const struct weft_hash_ops hash_crc32c = {
        .name = "crc32c",
        .result_bytes = 4,
        .reversible = true,
        .init = hash_crc32c_init,
        .update = hash_crc32c_update,
        .final = hash_crc32c_final,
};

WEFT_HASH_REGISTER(crc32c, hash_crc32c)
