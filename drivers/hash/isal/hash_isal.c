/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Cyclic redundancy checks by ISA-L. Names and parameters are those of the catalogue of
 * parametrised CRC algorithms (G. Cook, reveng):
 *
 *     crc32c          CRC-32/ISCSI, Castagnoli; of RFC 7143 and of MPA   e3069283
 *     crc64-ecma-182  ECMA-182's polynomial, most significant bit first  6c40df5f0b497347
 *     crc64-xz        the same polynomial reflected, inverted            995dc9bbdf1939fa
 *     crc64-go-iso    ISO 3309's polynomial, reflected, inverted         b90956c775a41001
 *     crc64-redis     Jones's polynomial, reflected, not inverted        e9c6d914c4b8d9ca
 *     crc16-t10-dif   of the T10 Data Integrity Field                    d0db
 *
 * The last column is the check value, that of "123456789", as it goes on the wire: a result is the
 * CRC's value in big-endian order, reflected or not. (MPA and iSCSI put the same CRC32c on the
 * wire the other way round, as their bit order has it; the placement extensions leave the order to
 * the hash, and a number on the wire is big-endian everywhere else in them.)
 *
 * A CRC hides nothing: the content of a short range can be computed from it.
 */

#include <errno.h>

#include <isa-l/crc.h>
#include <isa-l/crc64.h>

#include "weft_base.h"
#include <weft/hash.h>
#include "weft_vec.h"

/* crc32_iscsi() takes an int as length, and inverts neither its input nor its result. */
#define HASH_ISAL_PIECE_BYTES (1U << 30)

static int
hash_isal_init(struct weft_hash_state *st, size_t key_bytes, uint64_t crc)
{
	if (key_bytes != 0)
		return -EINVAL;
	st->opaque[0] = crc;
	return 0;
}

/* ---- crc32c ---- */

static int
hash_crc32c_init(struct weft_hash_state *st, const void *key, size_t key_bytes)
{
	(void)key;
	return hash_isal_init(st, key_bytes, UINT32_MAX);
}

static void
hash_crc32c_update(struct weft_hash_state *st, const void *data, size_t len_bytes)
{
	unsigned char *p =
	        (unsigned char *)(uintptr_t)data; /* only read: the prototype lacks const */
	uint32_t crc = (uint32_t)st->opaque[0];

	while (len_bytes > 0) {
		size_t n = RTE_MIN(len_bytes, (size_t)HASH_ISAL_PIECE_BYTES);

		crc = crc32_iscsi(p, (int)n, crc);
		p += n;
		len_bytes -= n;
	}
	weft_vec_done();
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
        .init = hash_crc32c_init,
        .update = hash_crc32c_update,
        .final = hash_crc32c_final,
};

WEFT_HASH_REGISTER(crc32c, hash_crc32c)

/* ---- crc64 ---- */

/**
 * Whether this processor can run ISA-L's fast crc64. ISA-L 2.30 chooses it by SSE4.2 alone, but it
 * needs PCLMULQDQ, too. A Nehalem has only the first. ISA-L asks for both in its other CRCs.
 */
static bool
hash_isal_clmul(void)
{
#if defined(__x86_64__)
	__builtin_cpu_init(); /* a driver may be tested before main() */
	return __builtin_cpu_supports("pclmul");
#else
	return true;
#endif
}

/*
 * ISA-L's functions invert what they are given and what they give back, so a computation goes on
 * from one call to the next by itself. INVERTED: the algorithm does the same; else it is undone on
 * both ends.
 */
#define HASH_CRC64(id, catalogue, function, inverted)                                              \
	static int hash_##id##_init(struct weft_hash_state *st, const void *key, size_t key_bytes) \
	{                                                                                          \
		(void)key;                                                                         \
		return hash_isal_init(st, key_bytes, (inverted) ? 0 : UINT64_MAX);                 \
	}                                                                                          \
                                                                                                   \
	static void hash_##id##_update(struct weft_hash_state *st, const void *data, size_t n)     \
	{                                                                                          \
		st->opaque[0] = likely(hash_isal_clmul())                                          \
		                        ? function(st->opaque[0], data, n)                         \
		                        : function##_base(st->opaque[0], data, n);                 \
		weft_vec_done();                                                                   \
	}                                                                                          \
                                                                                                   \
	static void hash_##id##_final(struct weft_hash_state *st, void *result)                    \
	{                                                                                          \
		weft_put_be64(result, (inverted) ? st->opaque[0] : ~st->opaque[0]);                \
	}                                                                                          \
                                                                                                   \
	static const struct weft_hash_ops hash_##id = {                                            \
	        .name = catalogue,                                                                 \
	        .result_bytes = 8,                                                                 \
	        .init = hash_##id##_init,                                                          \
	        .update = hash_##id##_update,                                                      \
	        .final = hash_##id##_final,                                                        \
	};                                                                                         \
                                                                                                   \
	WEFT_HASH_REGISTER(id, hash_##id)

HASH_CRC64(crc64_ecma_182, "crc64-ecma-182", crc64_ecma_norm, false)
HASH_CRC64(crc64_xz, "crc64-xz", crc64_ecma_refl, true)
HASH_CRC64(crc64_go_iso, "crc64-go-iso", crc64_iso_refl, true)
HASH_CRC64(crc64_redis, "crc64-redis", crc64_jones_refl, false)

/* ---- crc16 ---- */

static int
hash_crc16_t10_dif_init(struct weft_hash_state *st, const void *key, size_t key_bytes)
{
	(void)key;
	return hash_isal_init(st, key_bytes, 0);
}

static void
hash_crc16_t10_dif_update(struct weft_hash_state *st, const void *data, size_t len_bytes)
{
	st->opaque[0] = crc16_t10dif((uint16_t)st->opaque[0], data, len_bytes);
	weft_vec_done();
}

static void
hash_crc16_t10_dif_final(struct weft_hash_state *st, void *result)
{
	weft_put_be16(result, (uint16_t)st->opaque[0]);
}

static const struct weft_hash_ops hash_crc16_t10_dif = {
        .name = "crc16-t10-dif",
        .result_bytes = 2,
        .init = hash_crc16_t10_dif_init,
        .update = hash_crc16_t10_dif_update,
        .final = hash_crc16_t10_dif_final,
};

WEFT_HASH_REGISTER(crc16_t10_dif, hash_crc16_t10_dif)
