/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Device strings without secrets. */

#include <string.h>
#include <strings.h>

#include <weft/device.h>

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

/**
 * The length of the value of a secret. It ends before a comma outside of brackets, and before the
 * bracket that ends the list around it. Blanks do not end it, and with brackets that do not match
 * it is longer rather than shorter: DPDK may take all of it.
 */
static size_t
clean_value_len(const char *value, unsigned int around)
{
	unsigned int within = 0;
	size_t n;

	for (n = 0; value[n] != '\0' && (value[n] != ',' || within > 0); n++) {
		if (value[n] == '[')
			within++;
		else if (value[n] == ']' && within > 0)
			within--;
		else if (value[n] == ']' && around > 0 && strchr(",]", value[n + 1]) != NULL)
			break;
	}
	return n;
}

const char *
weft_device_clean(const char *dev, char *buf, size_t size)
{
	static const char removed[] = "(removed)";
	const char *name = dev;
	unsigned int lists = 0;
	size_t at = 0;

	if (buf == NULL || size == 0)
		return "";
	buf[0] = '\0';
	while (dev != NULL && *dev != '\0') {
		const char c = *dev;

		clean_put(buf, size, &at, dev++, 1);
		if (c == '[')
			lists++;
		else if (c == ']' && lists > 0)
			lists--;
		if (c == '=' && weft_device_is_secret(name, (size_t)(dev - 1 - name))) {
			const size_t hidden = clean_value_len(dev, lists);

			if (hidden > 0)
				clean_put(buf, size, &at, removed, sizeof(removed) - 1);
			dev += hidden;
		}
		if (strchr("=,[]", c) != NULL)
			name = dev;
	}
	return buf;
}
