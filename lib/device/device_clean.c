/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Device strings without secrets. */

#include <string.h>
#include <strings.h>

#include <weft/device.h>

/** What stands between the arguments of a device, of a slave among them, and in other lists. */
#define CLEAN_BETWEEN ",[] \t\r\n"

bool
weft_device_is_secret(const char *name, size_t len)
{
	static const char *const words[] = {"key", "secret", "passw", "token"};

	if (name == NULL)
		return false;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		for (size_t at = 0; at + strlen(words[i]) <= len; at++)
			if (strncasecmp(name + at, words[i], strlen(words[i])) == 0)
				return true;
	return false;
}

/** Append len octets; what finds no room is left out. */
static void
clean_put(char *buf, size_t size, size_t *at, const char *from, size_t len)
{
	if (len > size - 1 - *at)
		len = size - 1 - *at;
	memcpy(buf + *at, from, len);
	*at += len;
	buf[*at] = '\0';
}

const char *
weft_device_clean(const char *dev, char *buf, size_t size)
{
	static const char removed[] = "(removed)";
	size_t at = 0;

	if (buf == NULL || size == 0)
		return "";
	buf[0] = '\0';
	while (dev != NULL && *dev != '\0') {
		const size_t between = strspn(dev, CLEAN_BETWEEN);
		const size_t part = strcspn(dev + between, CLEAN_BETWEEN);
		size_t shown = between + part;
		const char *equals = memchr(dev + between, '=', part);

		if (equals != NULL &&
		    weft_device_is_secret(dev + between, (size_t)(equals - dev) - between))
			shown = (size_t)(equals - dev) + 1;
		clean_put(buf, size, &at, dev, shown);
		if (shown < between + part)
			clean_put(buf, size, &at, removed, sizeof(removed) - 1);
		dev += between + part;
	}
	return buf;
}
