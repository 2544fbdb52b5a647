/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Rights of an export, as text and as rights of a region; what holds an export, as text. */

#include <stdio.h>

#include "export_proto.h"
#include "target_export.h"

const char *
target_rights_str(uint32_t rights, char *buf, size_t size)
{
	static const struct {
		uint32_t bit;
		const char *name;
	} right[] = {
	        {WEFT_EXPORT_READ, "read"},
	        {WEFT_EXPORT_WRITE, "write"},
	        {WEFT_EXPORT_FLUSH, "flush"},
	        {WEFT_EXPORT_VERIFY, "verify"},
	};
	size_t n = 0;

	snprintf(buf, size, "nothing");
	for (unsigned int i = 0; i < sizeof(right) / sizeof(right[0]); i++)
		if ((rights & right[i].bit) && n < size)
			n += (size_t)snprintf(buf + n, size - n, "%s%s", n > 0 ? "," : "",
			                      right[i].name);
	return buf;
}

uint32_t
target_access(uint32_t rights)
{
	return (rights & WEFT_EXPORT_READ ? WEFT_ACCESS_REMOTE_READ : 0) |
	       (rights & WEFT_EXPORT_WRITE ? WEFT_ACCESS_REMOTE_WRITE : 0) |
	       (rights & WEFT_EXPORT_FLUSH
	                ? WEFT_ACCESS_FLUSH_PERSISTENT | WEFT_ACCESS_FLUSH_VISIBLE
	                : 0) |
	       (rights & WEFT_EXPORT_VERIFY ? WEFT_ACCESS_VERIFY : 0);
}

const char *
target_place(const struct conf_export *conf)
{
	if (conf->image[0] != '\0')
		return conf->image;
	return conf->path[0] != '\0' ? conf->path : "memory";
}
