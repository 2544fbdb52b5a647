/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The codec of rping's message and data. */

#include "proto.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <weft/byteorder.h>

#define FIRST   'A'
#define LETTERS ('z' - 'A' + 1)

void
ping_info_encode(const struct ping_info *info, uint8_t out[PING_INFO_BYTES])
{
	weft_put_be64(out, info->addr);
	weft_put_be32(out + 8, info->stag);
	weft_put_be32(out + 12, info->size_bytes);
}

int
ping_info_decode(const uint8_t *data, size_t len_bytes, struct ping_info *out)
{
	if (len_bytes != PING_INFO_BYTES)
		return -EPROTO;
	out->addr = weft_get_be64(data);
	out->stag = weft_get_be32(data + 8);
	out->size_bytes = weft_get_be32(data + 12);
	return 0;
}

void
ping_fill(uint8_t *buf, uint32_t size_bytes, uint64_t seq)
{
	/* rping counts in an int. */
	uint32_t n = (uint32_t)snprintf((char *)buf, size_bytes, "rdma-ping-%" PRIu32 ": ",
	                                (uint32_t)(seq & INT32_MAX));
	uint32_t c = (uint32_t)(seq % LETTERS);

	for (; n < size_bytes - 1; n++) {
		buf[n] = (uint8_t)(FIRST + c);
		c = c + 1 == LETTERS ? 0 : c + 1;
	}
	buf[size_bytes - 1] = 0;
}

uint32_t
ping_diff(const uint8_t *a, const uint8_t *b, uint32_t n)
{
	uint32_t i = 0;

	if (memcmp(a, b, n) == 0)
		return n;
	while (a[i] == b[i])
		i++;
	return i;
}

uint32_t
ping_text(const uint8_t *data, uint32_t size_bytes, char *buf)
{
	uint32_t i;

	for (i = 0; i < size_bytes && data[i] != 0; i++)
		buf[i] = data[i] >= 0x20 && data[i] < 0x7f ? (char)data[i] : '?';
	buf[i] = '\0';
	return i;
}
