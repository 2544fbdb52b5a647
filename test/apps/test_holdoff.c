/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Waiting times of addresses that fail to show who they are. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "holdoff.h"
#include "weft_test.h"

#define S 1000000000ULL

static struct holdoff h;

static void
fresh(void)
{
	memset(&h, 0, sizeof(h));
	pthread_mutex_init(&h.lock, NULL);
}

static const struct sockaddr_storage *
addr4(uint32_t host)
{
	static struct sockaddr_storage a;
	struct sockaddr_in *in = (struct sockaddr_in *)&a;

	memset(&a, 0, sizeof(a));
	in->sin_family = AF_INET;
	in->sin_port = htons((uint16_t)(host * 7 + 1)); /* which does not count */
	in->sin_addr.s_addr = htonl(host);
	return &a;
}

static const struct sockaddr_storage *
addr6(const char *s)
{
	static struct sockaddr_storage a;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&a;

	memset(&a, 0, sizeof(a));
	in6->sin6_family = AF_INET6;
	CHECK_EQ(inet_pton(AF_INET6, s, &in6->sin6_addr), 1);
	return &a;
}

/* Some are free; then 1 s, 2 s, up to 64 s, and not longer. */
static void
test_doubles(void)
{
	uint64_t now = 5 * S, wait = 1 * S;

	fresh();
	for (unsigned int i = 0; i < HOLDOFF_FREE; i++) {
		CHECK(!holdoff_held(&h, addr4(1), now));
		holdoff_failed(&h, addr4(1), now);
	}
	CHECK(!holdoff_held(&h, addr4(1), now));
	for (unsigned int i = 0; i < 10; i++) {
		holdoff_failed(&h, addr4(1), now);
		CHECK(holdoff_held(&h, addr4(1), now));
		CHECK(holdoff_held(&h, addr4(1), now + wait - 1));
		CHECK(!holdoff_held(&h, addr4(2), now));
		CHECK(!holdoff_held(&h, addr4(1), now + wait));
		now += wait;
		wait = wait < 64 * S ? wait * 2 : wait;
	}
	CHECK_EQ(wait, 64 * S);
	CHECK_EQ(atomic_load(&h.held), 20);
	/* a failure of a connection that was there already counts, too */
	holdoff_failed(&h, addr4(1), now);
	holdoff_failed(&h, addr4(1), now + 10 * S);
	CHECK(holdoff_held(&h, addr4(1), now + 74 * S - 1));
	CHECK(!holdoff_held(&h, addr4(1), now + 74 * S));
}

static void
test_forgotten(void)
{
	uint64_t now = 5 * S;

	fresh();
	for (unsigned int i = 0; i < HOLDOFF_FREE + 3; i++)
		holdoff_failed(&h, addr4(1), now);
	CHECK(holdoff_held(&h, addr4(1), now + 4 * S - 1));
	/* it failed after all that time: the first of the free ones */
	now += HOLDOFF_FORGET_NS;
	holdoff_failed(&h, addr4(1), now);
	CHECK(!holdoff_held(&h, addr4(1), now));
	/* or it passed */
	for (unsigned int i = 0; i < HOLDOFF_FREE; i++)
		holdoff_failed(&h, addr4(1), now);
	CHECK(holdoff_held(&h, addr4(1), now));
	holdoff_passed(&h, addr4(1));
	CHECK(!holdoff_held(&h, addr4(1), now));
	CHECK_EQ(atomic_load(&h.used), 0);
}

/* An IPv6 /64 is one host's, a link-local address one of its own. */
static void
test_ipv6(void)
{
	fresh();
	for (unsigned int i = 0; i <= HOLDOFF_FREE; i++)
		holdoff_failed(&h, addr6(i % 2 ? "2001:db8::1" : "2001:db8::ffff:2"), S);
	CHECK(holdoff_held(&h, addr6("2001:db8::3"), S));
	CHECK(!holdoff_held(&h, addr6("2001:db8:0:1::3"), S));
	for (unsigned int i = 0; i <= HOLDOFF_FREE; i++)
		holdoff_failed(&h, addr6("fe80::1"), S);
	CHECK(holdoff_held(&h, addr6("fe80::1"), S));
	CHECK(!holdoff_held(&h, addr6("fe80::2"), S));
}

/* A full table: those whose time is over give way first, and what is lost is counted. */
static void
test_full(void)
{
	fresh();
	for (uint32_t a = 1; a <= HOLDOFF_ENTRIES; a++)
		for (unsigned int i = 0; i <= HOLDOFF_FREE; i++)
			holdoff_failed(&h, addr4(a), a * S / 1000);
	CHECK_EQ(atomic_load(&h.used), HOLDOFF_ENTRIES);
	CHECK_EQ(atomic_load(&h.replaced), 0);
	for (unsigned int i = 0; i <= HOLDOFF_FREE; i++)
		holdoff_failed(&h, addr4(1000), S);
	CHECK_EQ(atomic_load(&h.replaced), 1);
	CHECK(holdoff_held(&h, addr4(1000), S));
	CHECK(!holdoff_held(&h, addr4(1), S)); /* the one that would have been free first */
	CHECK(holdoff_held(&h, addr4(2), S));
	/* long after: nothing is lost by it */
	holdoff_failed(&h, addr4(2000), 2000 * S);
	CHECK_EQ(atomic_load(&h.replaced), 1);
	CHECK_EQ(atomic_load(&h.used), HOLDOFF_ENTRIES);
}

WEFT_TEST_MAIN({"doubles", test_doubles}, {"forgotten", test_forgotten}, {"ipv6", test_ipv6},
               {"full", test_full})
