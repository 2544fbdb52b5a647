/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Copying attribute structures of programs built against another version. */

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include <weft/ulp.h>

#define ATTR_MAX_BYTES 65536

int
weft_attr_copy(void *dst, size_t dst_size, const void *src)
{
	size_t size;

	memset(dst, 0, dst_size);
	if (src == NULL)
		return -EINVAL;
	memcpy(&size, src, sizeof(size)); /* the first member of each attribute structure */
	if (size <= sizeof(size) || size % sizeof(size) != 0 || size > ATTR_MAX_BYTES)
		return -EINVAL;
	for (size_t i = dst_size; i < size; i++)
		if (((const uint8_t *)src)[i] != 0)
			return -EINVAL;
	memcpy(dst, src, size < dst_size ? size : dst_size);
	return 0;
}
