/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Hold-off times of addresses that fail to authenticate. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
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
	in->sin_port = htons((uint16_t)(host * 7 + 1)); /* the port does not count */
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

/* The first failures are free. Then the time is 1 s, 2 s and so on, up to 64 s. */
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
	/* a failure on a connection that existed before counts, too */
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
	/* a failure after HOLDOFF_FORGET_NS is again the first free one */
	now += HOLDOFF_FORGET_NS;
	holdoff_failed(&h, addr4(1), now);
	CHECK(!holdoff_held(&h, addr4(1), now));
	/* or after a success */
	for (unsigned int i = 0; i < HOLDOFF_FREE; i++)
		holdoff_failed(&h, addr4(1), now);
	CHECK(holdoff_held(&h, addr4(1), now));
	holdoff_passed(&h, addr4(1), now);
	CHECK(!holdoff_held(&h, addr4(1), now));
	CHECK_EQ(atomic_load(&h.used), 0);
}

static const struct sockaddr_storage *
host6(unsigned int net, unsigned int host)
{
	char text[64];

	snprintf(text, sizeof(text), "2001:db8:0:%x::%x", net, host);
	return addr6(text);
}

/* Another host of the same /64 is not held off. The /64 is, when its addresses fail often in
 * all. */
static void
test_ipv6(void)
{
	fresh();
	for (unsigned int i = 0; i <= HOLDOFF_FREE; i++)
		holdoff_failed(&h, host6(0, 1), S);
	CHECK(holdoff_held(&h, host6(0, 1), S));
	CHECK(!holdoff_held(&h, host6(0, 2), S));
	for (unsigned int i = HOLDOFF_FREE + 1; i < HOLDOFF_NET_FREE; i++)
		holdoff_failed(&h, host6(0, 100 + i), S);
	CHECK(!holdoff_held(&h, host6(0, 2), S));
	holdoff_failed(&h, host6(0, 99), S);
	CHECK(holdoff_held(&h, host6(0, 2), S));
	CHECK_EQ(atomic_load(&h.held_net), 1);
	CHECK(!holdoff_held(&h, host6(0, 2), 2 * S));
	CHECK(!holdoff_held(&h, host6(1, 2), S));
	/* and the /64 is held off for no longer than this */
	for (unsigned int i = 0; i < 100; i++)
		holdoff_failed(&h, host6(0, 1000 + i), S);
	CHECK(holdoff_held(&h, host6(0, 2), S + HOLDOFF_NET_MAX_NS - 1));
	CHECK(!holdoff_held(&h, host6(0, 2), S + HOLDOFF_NET_MAX_NS));
}

/* A host can have any number of link-local addresses. They have one budget, which the failures
 * of one address do not use up. An address that authenticated is exempt. */
static void
test_link(void)
{
	char text[32];

	fresh();
	holdoff_passed(&h, addr6("fe80::7"), S);
	for (unsigned int i = 0; i < 2 * HOLDOFF_NET_FREE; i++)
		holdoff_failed(&h, addr6("fe80::1"), S);
	CHECK(holdoff_held(&h, addr6("fe80::1"), S));
	CHECK(!holdoff_held(&h, addr6("fe80::2"), S));
	for (unsigned int i = 0; i < HOLDOFF_NET_FREE; i++) {
		snprintf(text, sizeof(text), "fe80:0:0:%x::1", i);
		holdoff_failed(&h, addr6(text), S);
	}
	CHECK(holdoff_held(&h, addr6("fe80::2"), S));
	CHECK(!holdoff_held(&h, addr6("fe80::2"), S + HOLDOFF_NET_MAX_NS));
	CHECK(!holdoff_held(&h, addr6("fe80::7"), S));
	CHECK(!holdoff_held(&h, addr6("fec0::1"), S));
	CHECK(!holdoff_held(&h, host6(0, 1), S));
}

/* An address that authenticated recently is exempt from the hold-off of its /64, and not from
 * its own. */
static void
test_exempt(void)
{
	fresh();
	holdoff_passed(&h, host6(0, 2), S);
	for (unsigned int i = 0; i < 200; i++)
		holdoff_failed(&h, host6(0, 1000 + i), 2 * S);
	CHECK(!holdoff_held(&h, host6(0, 2), 2 * S));
	CHECK(holdoff_held(&h, host6(0, 3), 2 * S));
	for (unsigned int i = 0; i <= HOLDOFF_FREE; i++)
		holdoff_failed(&h, host6(0, 2), 2 * S);
	CHECK(holdoff_held(&h, host6(0, 2), 2 * S));
	/* a day later it is not exempt any more */
	fresh();
	holdoff_passed(&h, host6(0, 2), S);
	for (unsigned int i = 0; i < 200; i++)
		holdoff_failed(&h, host6(0, 1000 + i), S + HOLDOFF_LATELY_NS);
	CHECK(holdoff_held(&h, host6(0, 2), S + HOLDOFF_LATELY_NS));
	/* successes of another /64 do not remove it from the table */
	fresh();
	holdoff_passed(&h, host6(0, 2), S);
	for (unsigned int i = 0; i < 4 * HOLDOFF_PASSED; i++)
		holdoff_passed(&h, host6(1, i), 2 * S);
	for (unsigned int i = 0; i < 200; i++)
		holdoff_failed(&h, host6(0, 1000 + i), 3 * S);
	CHECK(!holdoff_held(&h, host6(0, 2), 3 * S));
}

/* One /64 does not displace other addresses from the table of hold-offs. */
static void
test_net_part(void)
{
	fresh();
	for (unsigned int i = 0; i <= HOLDOFF_FREE; i++)
		holdoff_failed(&h, addr4(1), S);
	for (unsigned int i = 0; i < 4 * HOLDOFF_ENTRIES; i++)
		for (unsigned int k = 0; k <= HOLDOFF_FREE; k++)
			holdoff_failed(&h, host6(0, i), 2 * S);
	CHECK(holdoff_held(&h, addr4(1), S));
	CHECK(atomic_load(&h.used) <= 2 + HOLDOFF_NET_PART);
}

/*
 * A LAN for ten minutes, each host with one attempt a second: a hostile host that uses one address
 * or ten thousand, a client that authenticated before, and a client that tries for the first time.
 */
static void
test_lan(void)
{
	for (unsigned int many = 0; many < 2; many++) {
		unsigned int tries = 0, known = 0, fresh_one = 0;

		fresh();
		holdoff_passed(&h, host6(0, 2), S);
		for (unsigned int s = 1; s <= 600; s++) {
			uint64_t now = s * S + S / 2;
			const unsigned int at = many ? 0x100 + s : 1;

			/* the hostile host tries as often as it may, at most sixteen times a
			 * second */
			for (unsigned int i = 0; i < 16; i++) {
				if (holdoff_held(&h, host6(0, at), now))
					continue;
				holdoff_failed(&h, host6(0, at), now);
				tries++;
			}
			known += holdoff_held(&h, host6(0, 2), now);
			fresh_one += holdoff_held(&h, host6(0, 3), now);
		}
		CHECK_EQ(known, 0);
		if (!many) {
			CHECK_EQ(fresh_one, 0);
			CHECK_MSG(tries <= 24, "%u tries", tries);
		} else {
			/* although the /64 is held off, each client that waits for 8 s at most
			 * succeeds */
			CHECK_MSG(tries <= HOLDOFF_NET_FREE + 600 / 8 + 8, "%u tries", tries);
			CHECK(fresh_one > 0);
		}
	}
}

/* One address is held off alone, be it for seventy failures at once or for one every 64 s in two
 * hours. */
static void
test_one_for_all(void)
{
	fresh();
	for (unsigned int i = 0; i < HOLDOFF_NET_FREE + 6; i++)
		holdoff_failed(&h, host6(0, 1), S);
	CHECK(holdoff_held(&h, host6(0, 1), S));
	CHECK(!holdoff_held(&h, host6(0, 2), S));
	fresh();
	for (uint64_t s = 1; s <= 7200; s += 64) {
		holdoff_failed(&h, host6(0, 1), s * S);
		CHECK(!holdoff_held(&h, host6(0, 2), s * S));
	}
}

/* When the table is full, expired entries are replaced first, and lost entries are counted. */
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
	CHECK(!holdoff_held(&h, addr4(1), S)); /* the entry that expires first */
	CHECK(holdoff_held(&h, addr4(2), S));
	/* much later: no entry is lost */
	holdoff_failed(&h, addr4(2000), 2000 * S);
	CHECK_EQ(atomic_load(&h.replaced), 1);
	CHECK_EQ(atomic_load(&h.used), HOLDOFF_ENTRIES);
}

WEFT_TEST_MAIN({"doubles", test_doubles}, {"forgotten", test_forgotten}, {"ipv6", test_ipv6},
               {"a link", test_link}, {"exempt", test_exempt},
               {"a part of the table", test_net_part}, {"a hostile host in a LAN", test_lan},
               {"one address for all", test_one_for_all}, {"full", test_full})
