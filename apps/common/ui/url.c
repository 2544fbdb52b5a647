/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Parsing weft:// addresses. */

#include "url.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "addr.h"
#include "ui.h"

#define URL_SCHEME "weft://"

bool
url_is(const char *s)
{
	return strncmp(s, URL_SCHEME, strlen(URL_SCHEME)) == 0;
}

static int
url_fail(const char *s, char *err, size_t err_size, const char *why)
{
	snprintf(err, err_size, "%s: %s; write weft://HOST[:PORT]/EXPORT", s, why);
	return -EINVAL;
}

int
url_parse(const char *s, struct url *u, char *err, size_t err_size)
{
	const char *host, *end, *slash, *colon, *bracket;
	struct sockaddr_storage literal;
	uint64_t port = URL_DEFAULT_PORT;

	memset(u, 0, sizeof(*u));
	if (!url_is(s))
		return url_fail(s, err, err_size, "does not begin with weft://");
	host = s + strlen(URL_SCHEME);
	slash = strchr(host, '/');
	end = slash != NULL ? slash : host + strlen(host);
	bracket = *host == '[' ? memchr(host, ']', (size_t)(end - host)) : host;
	/* RFC 3986 s3.2.2: an IPv6 address is in brackets, and contains colons itself */
	if (bracket == NULL || (*host == '[' && bracket + 1 != end && bracket[1] != ':'))
		return url_fail(s, err, err_size, "bad IPv6 address ([fd00::1])");
	colon = memchr(bracket, ':', (size_t)(end - bracket));
	if (colon != NULL) {
		char digits[8];
		size_t n = (size_t)(end - colon) - 1;

		if (n >= sizeof(digits))
			return url_fail(s, err, err_size, "bad port (1 to 65535)");
		memcpy(digits, colon + 1, n);
		digits[n] = '\0';
		if (ui_parse_u64(digits, 1, 65535, &port) != 0)
			return url_fail(s, err, err_size, "bad port (1 to 65535)");
		end = colon;
	}
	if (end == host)
		return url_fail(s, err, err_size, "no host");
	if ((size_t)(end - host) >= sizeof(u->host))
		return url_fail(s, err, err_size, "host name too long");
	memcpy(u->host, host, (size_t)(end - host));
	if (strpbrk(u->host, " \t@?#%") != NULL)
		return url_fail(s, err, err_size, "bad host");
	if (u->host[0] == '[' && addr_parse(u->host, 0, &literal) != 0)
		return url_fail(s, err, err_size, "bad IPv6 address ([fd00::1])");
	u->port = (uint16_t)port;
	if (slash == NULL)
		return 0;
	if (strlen(slash + 1) >= sizeof(u->export_name))
		return url_fail(s, err, err_size, "export name too long (255 octets at most)");
	strcpy(u->export_name, slash + 1);
	if (strchr(u->export_name, '/') != NULL)
		return url_fail(s, err, err_size, "an export's name has no '/'");
	return 0;
}
