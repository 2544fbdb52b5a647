/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Addresses: text, sockaddr, prefixes, and the zones of link-local ones. */

#include <arpa/inet.h>

#include "weft_base.h"
#include "weft_test.h"

static struct weft_ip
ip(const char *text, uint16_t zone)
{
	struct weft_ip a = {0};
	uint32_t v4;

	if (inet_pton(AF_INET, text, &v4) == 1)
		return weft_ip_from_v4(v4);
	CHECK_EQ(inet_pton(AF_INET6, text, a.b), 1);
	if (zone != 0)
		weft_ip_set_zone(&a, zone);
	return a;
}

/* A link-local address has its zone behind it, in text and in a sockaddr. */
static void
test_zone(void)
{
	static const struct {
		const char *text;
		uint16_t zone;
		const char *shown;
	} rows[] = {{"10.0.0.1", 0, "10.0.0.1"},
	            {"fd00::1", 0, "fd00::1"},
	            {"fe80::1", 0, "fe80::1"},
	            {"fe80::1", 7, "fe80::1%7"},
	            {"febf::1", 4095, "febf::1%4095"}};

	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		struct weft_ip a = ip(rows[i].text, rows[i].zone), b, bare = ip(rows[i].text, 0);
		struct sockaddr_storage ss;
		char buf[WEFT_ADDR_STR_LEN];
		uint16_t port;

		CHECK_STR(weft_ip_str(&a, buf), rows[i].shown);
		weft_ip_to_sockaddr(&a, 99, &ss);
		if (ss.ss_family == AF_INET6) {
			const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&ss;

			CHECK_EQ(in6->sin6_scope_id, rows[i].zone);
			CHECK_MEM(&in6->sin6_addr, bare.b, 16);
		}
		CHECK_EQ(weft_ip_from_sockaddr((struct sockaddr *)&ss, &b, &port), 0);
		CHECK(weft_ip_eq(&a, &b));
		CHECK_EQ(port, 99);
		b = weft_ip_bare(&a);
		CHECK(weft_ip_eq(&b, &bare));
		/* One peer, whatever the VLAN. */
		a = weft_ip_peer(&a);
		b = weft_ip_peer(&bare);
		CHECK(weft_ip_eq(&a, &b));
	}
}

static void
test_refused(void)
{
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_scope_id = 4096};
	struct weft_ip a;
	uint16_t port;

	CHECK_EQ(inet_pton(AF_INET6, "fe80::1", &in6.sin6_addr), 1);
	CHECK_EQ(weft_ip_from_sockaddr((struct sockaddr *)&in6, &a, &port), -EINVAL);
	in6.sin6_scope_id = 0;
	CHECK_EQ(weft_ip_from_sockaddr((struct sockaddr *)&in6, &a, &port), 0);
	CHECK_EQ(inet_pton(AF_INET6, "fe80:7::1", &in6.sin6_addr), 1);
	CHECK_EQ(weft_ip_from_sockaddr((struct sockaddr *)&in6, &a, &port), -EINVAL);
	/* The scope of another address means nothing. */
	CHECK_EQ(inet_pton(AF_INET6, "fd00::1", &in6.sin6_addr), 1);
	in6.sin6_scope_id = 99999;
	CHECK_EQ(weft_ip_from_sockaddr((struct sockaddr *)&in6, &a, &port), 0);
}

static void
test_prefix(void)
{
	const struct weft_ip a = ip("10.7.0.1", 0), b = ip("10.7.0.129", 0), c = ip("fd00:7::1", 0),
	                     d = ip("fd00:7::8001", 0);

	for (unsigned int bits = 0; bits <= 128; bits++) {
		CHECK_EQ(weft_ip_same_prefix(&a, &b, bits), bits <= 96 + 24);
		CHECK_EQ(weft_ip_same_prefix(&c, &d, bits), bits <= 112);
		CHECK_EQ(weft_ip_same_prefix(&a, &c, bits), bits == 0);
		CHECK(weft_ip_same_prefix(&d, &d, bits));
	}
}

WEFT_TEST_MAIN({"a zone is kept in text and sockaddr", test_zone},
               {"a sockaddr without such a zone is refused", test_refused}, {"prefix", test_prefix})
