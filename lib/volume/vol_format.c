/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The codec of a volume's superblock, and the names of other formats.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <isa-l.h>

#include "weft_volume_format.h"

/* Offsets of fields. What is behind the last one, in front of SB_CRC, is zero. */
enum {
	SB_MAGIC = 0,
	SB_VERSION = 8,
	SB_BLOCK = 12,
	SB_COMPAT = 16,
	SB_INCOMPAT = 24,
	SB_RO_COMPAT = 32,
	SB_UUID = 40,
	SB_BYTES = 56, /* behind the UUID: WEFT_VOL_ID_BYTES */
	SB_DATA_AT = 64,
	SB_CREATED = 72,
	SB_GENERATION = 80,
	SB_MAP_AT = 88,
	SB_SUMS_AT = 96,
	SB_CRC = WEFT_VOL_SUPER_BYTES - 4,
};

static const uint8_t vol_magic[8] = {'W', 'E', 'F', 'T', 'V', 'O', 'L', '1'};

static void
vol_put(uint8_t *at, uint64_t v, unsigned int octets)
{
	while (octets-- > 0) {
		at[octets] = (uint8_t)v;
		v >>= 8;
	}
}

static uint64_t
vol_get(const uint8_t *at, unsigned int octets)
{
	uint64_t v = 0;

	for (unsigned int i = 0; i < octets; i++)
		v = v << 8 | at[i];
	return v;
}

/** CRC32c as RFC 3720 has it. */
static uint32_t
vol_page_crc(const uint8_t *page)
{
	return ~crc32_iscsi((unsigned char *)(uintptr_t)page, (int)SB_CRC, 0xffffffffU);
}

void
weft_vol_super_encode(const struct weft_vol_super *s, uint8_t *page)
{
	memset(page, 0, WEFT_VOL_SUPER_BYTES);
	memcpy(page + SB_MAGIC, vol_magic, sizeof(vol_magic));
	vol_put(page + SB_VERSION, s->version, 4);
	vol_put(page + SB_BLOCK, s->block_bytes, 4);
	vol_put(page + SB_COMPAT, s->compat, 8);
	vol_put(page + SB_INCOMPAT, s->incompat, 8);
	vol_put(page + SB_RO_COMPAT, s->ro_compat, 8);
	memcpy(page + SB_UUID, s->uuid, sizeof(s->uuid));
	vol_put(page + SB_BYTES, s->bytes, 8);
	vol_put(page + SB_DATA_AT, s->data_at, 8);
	vol_put(page + SB_CREATED, s->created_ns, 8);
	vol_put(page + SB_GENERATION, s->generation, 8);
	vol_put(page + SB_MAP_AT, s->map_at, 8);
	vol_put(page + SB_SUMS_AT, s->sums_at, 8);
	vol_put(page + SB_CRC, vol_page_crc(page), 4);
}

static bool
vol_is_zero(const uint8_t *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		if (at[i] != 0)
			return false;
	}
	return true;
}

uint64_t
weft_vol_groups(uint64_t bytes)
{
	return (bytes + WEFT_VOL_GROUP_BYTES - 1) / WEFT_VOL_GROUP_BYTES;
}

uint64_t
weft_vol_map_bytes(uint64_t bytes)
{
	return ((weft_vol_groups(bytes) + 7) / 8 + WEFT_VOL_COPY_AT - 1) / WEFT_VOL_COPY_AT *
	       WEFT_VOL_COPY_AT;
}

/** Whether maps, checksums and data lie behind each other. */
static bool
vol_sums_fit(const struct weft_vol_super *s)
{
	const uint64_t maps = WEFT_VOL_MAPS * weft_vol_map_bytes(s->bytes);
	const uint64_t sums = weft_vol_groups(s->bytes) * WEFT_VOL_SUM_BLOCK;

	return s->map_at >= WEFT_VOL_DATA_ALIGN && s->map_at % WEFT_VOL_SUM_BLOCK == 0 &&
	       s->sums_at % WEFT_VOL_SUM_BLOCK == 0 && s->sums_at <= s->data_at &&
	       s->map_at <= s->sums_at && s->sums_at - s->map_at >= maps &&
	       s->data_at - s->sums_at >= sums;
}

/** Whether the fields agree with each other. The CRC is right, so a target wrote them so. */
static const char *
vol_contradiction(const struct weft_vol_super *s)
{
	if (s->block_bytes < 512 || s->block_bytes > WEFT_VOL_COPY_AT ||
	    (s->block_bytes & (s->block_bytes - 1)) != 0)
		return "its block length is no power of 2 from 512 to 65536";
	if (s->bytes == 0 || s->bytes > WEFT_VOL_MAX_BYTES)
		return "its length is 0 or more than 2^60";
	if (s->data_at == 0 || s->data_at % WEFT_VOL_DATA_ALIGN != 0 ||
	    s->data_at > WEFT_VOL_MAX_BYTES)
		return "its data does not begin at a multiple of 1 MiB";
	if (s->generation == 0)
		return "its generation is 0";
	if ((s->incompat & WEFT_VOL_INCOMPAT_SUMS) != 0 && !vol_sums_fit(s))
		return "its checksums have no place";
	return NULL;
}

int
weft_vol_super_decode(const uint8_t *page, size_t bytes, struct weft_vol_super *s, const char **why)
{
	uint32_t version;

	if (vol_is_zero(page, bytes)) {
		*why = "it was never formatted";
		return -ENODATA;
	}
	*why = weft_vol_foreign(page, bytes);
	if (*why != NULL)
		return -EMEDIUMTYPE;
	if (bytes < sizeof(vol_magic) || memcmp(page, vol_magic, sizeof(vol_magic)) != 0) {
		*why = "data of an unknown format";
		return -EMEDIUMTYPE;
	}
	if (bytes < WEFT_VOL_SUPER_BYTES) {
		*why = "its superblock is cut short";
		return -EBADMSG;
	}
	/* Magic, version and CRC are at the same places in each version, so that damage is told
	 * from a newer version. That may give the other fields another meaning. */
	if (vol_get(page + SB_CRC, 4) != vol_page_crc(page)) {
		*why = "the CRC of its superblock is wrong";
		return -EBADMSG;
	}
	version = (uint32_t)vol_get(page + SB_VERSION, 4);
	if (version != WEFT_VOL_VERSION) {
		*s = (struct weft_vol_super){.version = version};
		*why = "its version is not the one that this program knows";
		return -EPROTONOSUPPORT;
	}
	*s = (struct weft_vol_super){.version = version,
	                             .block_bytes = (uint32_t)vol_get(page + SB_BLOCK, 4),
	                             .compat = vol_get(page + SB_COMPAT, 8),
	                             .incompat = vol_get(page + SB_INCOMPAT, 8),
	                             .ro_compat = vol_get(page + SB_RO_COMPAT, 8),
	                             .bytes = vol_get(page + SB_BYTES, 8),
	                             .data_at = vol_get(page + SB_DATA_AT, 8),
	                             .created_ns = vol_get(page + SB_CREATED, 8),
	                             .generation = vol_get(page + SB_GENERATION, 8),
	                             .map_at = vol_get(page + SB_MAP_AT, 8),
	                             .sums_at = vol_get(page + SB_SUMS_AT, 8)};
	memcpy(s->uuid, page + SB_UUID, sizeof(s->uuid));
	if ((s->incompat & ~WEFT_VOL_INCOMPAT_KNOWN) != 0) {
		*why = "it has features that this program does not know";
		return -EPROTONOSUPPORT;
	}
	*why = vol_contradiction(s);
	return *why != NULL ? -EBADMSG : 0;
}

int
weft_vol_super_choose(const struct weft_vol_copies *c, bool *mend, const char **why)
{
	int best;

	for (unsigned int i = 0; i < 2; i++) {
		if (c->status[i] == -EPROTONOSUPPORT || (i == 0 && c->status[i] == -EMEDIUMTYPE)) {
			*why = c->why[i];
			return c->status[i];
		}
	}
	if (c->status[0] != 0 && c->status[1] != 0) {
		*why = c->why[0];
		return c->status[0];
	}
	best = c->status[0] != 0 ||
	       (c->status[1] == 0 && c->super[1].generation > c->super[0].generation);
	*mend = c->status[0] != 0 || c->status[1] != 0 ||
	        c->super[0].generation != c->super[1].generation;
	return best;
}

/** A phrase about one copy. */
static const char *
vol_copy_why(const struct weft_vol_copies *c, unsigned int i)
{
	return c->status[i] == -ENODATA ? "it is zero" : c->why[i];
}

void
weft_vol_super_refusal(const struct weft_vol_copies *c, int status, const char *why, char *text,
                       size_t bytes)
{
	for (unsigned int i = 0; i < 2; i++) {
		if (status == -EPROTONOSUPPORT && c->status[i] == status &&
		    c->super[i].version != WEFT_VOL_VERSION) {
			snprintf(text, bytes,
			         "its format is version %" PRIu32
			         ", and this program knows version %u",
			         c->super[i].version, WEFT_VOL_VERSION);
			return;
		}
	}
	if (status == -EMEDIUMTYPE)
		snprintf(text, bytes, "it has %s", why);
	else if (status == -EBADMSG)
		snprintf(text, bytes, "%s; of the copy: %s; weft-fsck says what can be done",
		         vol_copy_why(c, 0), vol_copy_why(c, 1));
	else
		snprintf(text, bytes, "%s", why);
}

const char *
weft_vol_foreign(const uint8_t *head, size_t bytes)
{
	static const struct {
		size_t at, octets;
		const char *magic, *name;
	} known[] = {
	        {0, 8, "WEFTEXP1", "an export with slots (docs/export-format.md)"},
	        {0, 8, "WEFTLOG1", "a remote log (docs/log-format.md)"},
	        {0, 4, "XFSB", "an XFS file system"},
	        {1080, 2, "\123\357", "an ext2, ext3 or ext4 file system"},
	        {65600, 8, "_BHRfS_M", "a btrfs file system"},
	        {0, 6, "LUKS\272\276", "a LUKS container"},
	        {0, 4, "QFI\373", "a qcow2 image"},
	        {512, 8, "EFI PART", "a GPT partition table"},
	        {4096, 8, "EFI PART", "a GPT partition table"},
	        {512, 8, "LABELONE", "an LVM physical volume"},
	        {510, 2, "\125\252", "a boot sector or an MBR partition table"},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (bytes >= known[i].at + known[i].octets &&
		    memcmp(head + known[i].at, known[i].magic, known[i].octets) == 0)
			return known[i].name;
	}
	return NULL;
}
