/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Parsing, printing and comparing of IPv4 and IPv6 addresses. */

#include "addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Get the octets of an address; returns their number, 0 for an unknown family. */
static unsigned int
addr_bytes(const struct sockaddr_storage *a, const uint8_t **p)
{
	if (a->ss_family == AF_INET) {
		*p = (const uint8_t *)&((const struct sockaddr_in *)a)->sin_addr;
		return 4;
	}
	if (a->ss_family == AF_INET6) {
		*p = (const uint8_t *)&((const struct sockaddr_in6 *)a)->sin6_addr;
		return 16;
	}
	return 0;
}

/* The VLAN of a link-local address; 0: the port's first, or another kind of address. */
static uint32_t
addr_zone(const struct sockaddr_storage *a)
{
	return addr_is_link_local(a) ? ((const struct sockaddr_in6 *)a)->sin6_scope_id : 0;
}

int
addr_parse(const char *s, uint16_t port, struct sockaddr_storage *out)
{
	struct sockaddr_in *sin = (struct sockaddr_in *)out;
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)out;
	char host[INET6_ADDRSTRLEN + 6], *zone, *end;
	unsigned long vlan = 0;
	size_t len = strlen(s);

	memset(out, 0, sizeof(*out));
	if (inet_pton(AF_INET, s, &sin->sin_addr) == 1) {
		sin->sin_family = AF_INET;
		sin->sin_port = htons(port);
		return 0;
	}
	if (len >= 2 && s[0] == '[' && s[len - 1] == ']') {
		s++;
		len -= 2;
	}
	if (len >= sizeof(host))
		return -EINVAL;
	memcpy(host, s, len);
	host[len] = '\0';
	memset(out, 0, sizeof(*out));
	zone = strchr(host, '%');
	if (zone != NULL) {
		*zone++ = '\0';
		vlan = strtoul(zone, &end, 10);
		if (*zone < '0' || *zone > '9' || *end != '\0' || vlan > ADDR_ZONE_MAX)
			return -EINVAL;
	}
	if (inet_pton(AF_INET6, host, &sin6->sin6_addr) != 1)
		return -EINVAL;
	sin6->sin6_family = AF_INET6;
	sin6->sin6_port = htons(port);
	if (zone != NULL && !addr_is_link_local(out))
		return -EINVAL;
	sin6->sin6_scope_id = (uint32_t)vlan;
	return 0;
}

const char *
addr_resolve(const char *s, uint16_t port, struct sockaddr_storage *out)
{
	static const int families[] = {AF_INET, AF_INET6};
	int rc = 0;

	if (addr_parse(s, port, out) == 0)
		return NULL;
	for (unsigned int i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		const struct addrinfo hints = {.ai_family = families[i],
		                               .ai_socktype = SOCK_STREAM};
		struct addrinfo *ai;
		int was = rc;

		rc = getaddrinfo(s, NULL, &hints, &ai);
		if (rc != 0) {
			rc = was != 0 ? was : rc;
			continue;
		}
		memset(out, 0, sizeof(*out));
		memcpy(out, ai->ai_addr, ai->ai_addrlen);
		freeaddrinfo(ai);
		if (families[i] == AF_INET)
			((struct sockaddr_in *)out)->sin_port = htons(port);
		else
			((struct sockaddr_in6 *)out)->sin6_port = htons(port);
		return NULL;
	}
	return gai_strerror(rc);
}

socklen_t
addr_len(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

const char *
addr_host_str(const struct sockaddr_storage *a, char buf[ADDR_STR_MAX])
{
	const uint8_t *p;
	size_t n;

	if (addr_bytes(a, &p) == 0 || inet_ntop(a->ss_family, p, buf, ADDR_STR_MAX) == NULL)
		strcpy(buf, "-");
	n = strlen(buf);
	if (addr_zone(a) != 0)
		snprintf(buf + n, ADDR_STR_MAX - n, "%%%" PRIu32, addr_zone(a));
	return buf;
}

const char *
addr_str(const struct sockaddr_storage *a, char buf[ADDR_STR_MAX])
{
	char host[ADDR_STR_MAX];

	(void)addr_host_str(a, host);
	if (a->ss_family == AF_INET6)
		snprintf(buf, ADDR_STR_MAX, "[%.45s]:%u", host,
		         ntohs(((const struct sockaddr_in6 *)a)->sin6_port));
	else
		snprintf(buf, ADDR_STR_MAX, "%.45s:%u", host,
		         a->ss_family == AF_INET ? ntohs(((const struct sockaddr_in *)a)->sin_port)
		                                 : 0);
	return buf;
}

bool
addr_same_net(const struct sockaddr_storage *a, const struct sockaddr_storage *b,
              uint32_t prefix_len)
{
	const uint8_t *p, *q;
	unsigned int n = addr_bytes(a, &p), octets = prefix_len / 8;

	if (n == 0 || addr_bytes(b, &q) != n || prefix_len > n * 8)
		return false;
	if (memcmp(p, q, octets) != 0)
		return false;
	return prefix_len % 8 == 0 || (p[octets] ^ q[octets]) >> (8 - prefix_len % 8) == 0;
}

bool
addr_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	return addr_zone(a) == addr_zone(b) &&
	       addr_same_net(a, b, a->ss_family == AF_INET6 ? 128 : 32);
}

bool
addr_is_any(const struct sockaddr_storage *a)
{
	static const uint8_t zero[16];
	const uint8_t *p;
	unsigned int n = addr_bytes(a, &p);

	return n != 0 && memcmp(p, zero, n) == 0;
}

bool
addr_is_link_local(const struct sockaddr_storage *a)
{
	const uint8_t *p;

	return addr_bytes(a, &p) == 16 && p[0] == 0xfe && (p[1] & 0xc0) == 0x80;
}

unsigned int
addr_net6(const struct sockaddr_storage *a, uint8_t net[ADDR_NET6_BYTES])
{
	static const uint8_t link_local[ADDR_NET6_BYTES] = {0xfe, 0x80};

	if (a->ss_family != AF_INET6)
		return 0;
	memcpy(net,
	       addr_is_link_local(a) ? link_local
	                             : ((const struct sockaddr_in6 *)a)->sin6_addr.s6_addr,
	       ADDR_NET6_BYTES);
	return ADDR_NET6_BYTES;
}
