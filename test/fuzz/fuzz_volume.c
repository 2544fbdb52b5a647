/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The superblock of a volume. The input is the beginning of a page. It is decoded as it is,
 * as a medium that ends there; and as a whole page, zeros behind it, with its CRC made right.
 */

#include <isa-l.h>

#include "fuzz.h"
#include "weft_volume_format.h"

/** An input is accepted, or refused with a reason. Encoded again it has the same fields. */
static void
super(const uint8_t *page, size_t len)
{
	uint8_t again[WEFT_VOL_SUPER_BYTES];
	struct weft_vol_super s;
	const char *why = NULL;
	int r = weft_vol_super_decode(page, len, &s, &why);

	FUZZ_CHECK(r == 0 || r == -ENODATA || r == -EMEDIUMTYPE || r == -EBADMSG ||
	           r == -EPROTONOSUPPORT);
	FUZZ_CHECK((r == 0) == (why == NULL));
	if (r != 0)
		return;
	FUZZ_CHECK(len >= WEFT_VOL_SUPER_BYTES);
	FUZZ_CHECK(s.incompat <= 1 && s.bytes > 0 && s.data_at > WEFT_VOL_COPY_AT);
	FUZZ_CHECK(s.data_at + s.bytes > s.data_at && s.generation > 0);
	weft_vol_super_encode(&s, again);
	FUZZ_CHECK(memcmp(page, again, 104) == 0);
}

void
fuzz_one(const uint8_t *data, size_t size)
{
	uint8_t page[WEFT_VOL_SUPER_BYTES] = {0};
	const size_t n = size < sizeof(page) - 4 ? size : sizeof(page) - 4;

	super(data, size);
	if (n > 0)
		memcpy(page, data, n);
	weft_put_be32(page + sizeof(page) - 4, ~crc32_iscsi(page, sizeof(page) - 4, UINT32_MAX));
	super(page, sizeof(page));
}
