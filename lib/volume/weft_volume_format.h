/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_VOLUME_FORMAT_H
#define WEFT_VOLUME_FORMAT_H

/**
 * @file The superblock of a volume, as octets of the medium (docs/volumes.md). The codec does no
 * I/O and takes any input. Any thread.
 *
 * All integers are unsigned and big-endian. The page begins with a magic and ends with the CRC32c
 * of all octets before it. These two and the version have the same places in all versions of the
 * format: a version is believed when its CRC is right. There are two copies, WEFT_VOL_COPY_AT
 * apart, because one damaged sector must not take 30 GiB of good data with it. The copy with the
 * higher generation is the newer one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEFT_VOL_SUPER_BYTES 4096U
#define WEFT_VOL_COPY_AT     65536U   /**< where the second copy is; the first one is at 0 */
#define WEFT_VOL_DATA_ALIGN  1048576U /**< data begins at a multiple of this */
#define WEFT_VOL_VERSION     1U
#define WEFT_VOL_MAX_BYTES   (1ULL << 60)

/**
 * Features. An unknown bit of `compat` does not matter. With an unknown one of `ro_compat` a volume
 * may be read only. With an unknown one of `incompat` it must not be opened.
 */
/** Checksums: `map_at` and `sums_at` are valid. */
#define WEFT_VOL_INCOMPAT_SUMS   1ULL
#define WEFT_VOL_INCOMPAT_KNOWN  WEFT_VOL_INCOMPAT_SUMS
#define WEFT_VOL_RO_COMPAT_KNOWN 0ULL
/** A snapshot: it is never written, so no program knows the bit for an open that writes. */
#define WEFT_VOL_RO_COMPAT_SNAPSHOT 1ULL
/** Where the UUID lies in the superblock. */
#define WEFT_VOL_UUID_AT  40U
#define WEFT_VOL_ID_BYTES 24U /* the UUID, and the length behind it */

/* Checksums: one for each 4 KiB of data, in pages, and the data that belongs to a page is a group.
 * Each channel has a map of its own, a bit for each group. */
#define WEFT_VOL_SUM_BLOCK   4096U
#define WEFT_VOL_GROUP_BYTES 4194304U
#define WEFT_VOL_MAPS        64U

struct weft_vol_super {
	uint32_t version; /**< WEFT_VOL_VERSION */
	uint32_t
	        /** of the device that was formatted; information only; a power of 2 */
	        block_bytes;
	uint64_t compat, incompat, ro_compat;
	uint8_t uuid[16];
	uint64_t bytes;      /**< length of the data; 1 to WEFT_VOL_MAX_BYTES */
	uint64_t data_at;    /**< where the data begins on the device */
	uint64_t created_ns; /**< since 1970; information only */
	uint64_t generation; /**< grows with each writing of the superblock; at least 1 */
	uint64_t map_at;     /**< checksums: maps of groups that were written to; else 0 */
	uint64_t sums_at;    /**< checksums: a page for each group; else 0 */
};

/** Groups of a volume of so many octets. */
uint64_t weft_vol_groups(uint64_t bytes);
/** Octets of one map. */
uint64_t weft_vol_map_bytes(uint64_t bytes);
/** Fill a page of WEFT_VOL_SUPER_BYTES octets. */
void weft_vol_super_encode(const struct weft_vol_super *s, uint8_t *page);
/**
 * Read a page of `bytes` octets. 0: *s is valid, and this version may read the volume. Else *why is
 * a phrase in a constant string:
 * - -ENODATA: all octets are zero: never formatted
 * - -EMEDIUMTYPE: the medium has another format, which *why names
 * - -EBADMSG: a superblock that is damaged: cut short, or its CRC or its fields are wrong
 * - -EPROTONOSUPPORT: another version, and its CRC is right (s->version is set then, and nothing
 *   else may be), or unknown incompatible features
 */
int weft_vol_super_decode(const uint8_t *page, size_t bytes, struct weft_vol_super *s,
                          const char **why);
/** What was read of the two copies of a superblock. */
struct weft_vol_copies {
	int status[2];      /**< of weft_vol_super_decode(), or -errno of the read */
	const char *why[2]; /**< the phrase that belongs to it */
	struct weft_vol_super super[2];
};
/**
 * The copy by which a volume is opened: 0 or 1. *mend: the other one is damaged or older, and is
 * written again. Else *why is the phrase, and the volume is refused with the status of a copy:
 * - -EPROTONOSUPPORT: of either copy, because a newer program may have written one copy only
 * - -EMEDIUMTYPE: of the first copy: the device was given to something else, and a good second copy
 *   is a remainder
 * - that of the first copy, when neither can be used
 */
int weft_vol_super_choose(const struct weft_vol_copies *c, bool *mend, const char **why);
/**
 * Why weft_vol_super_choose() has refused with this status and phrase, for people: the versions,
 * and what is the matter with both copies. text gets up to `bytes` octets.
 */
void weft_vol_super_refusal(const struct weft_vol_copies *c, int status, const char *why,
                            char *text, size_t bytes);
/** The checksum of WEFT_VOL_SUM_BLOCK octets, as it is stored: 0 of a block of zeros. */
uint32_t weft_vol_block_sum(const uint8_t *block);
/**
 * The name of the format that the first octets of a medium belong to: "an export with slots", "an
 * XFS file system". NULL: none that is known. A volume is none of them.
 */
const char *weft_vol_foreign(const uint8_t *head, size_t bytes);

#endif /* WEFT_VOLUME_FORMAT_H */
