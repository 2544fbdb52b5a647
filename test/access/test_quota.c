/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Shares of clients in a target's grants: what one client can take, what is left for the others,
 * how many OPENs are served in a second, and what is remembered of clients that are gone.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>

#include "quota.h"
#include "weft_test.h"

#define NS_PER_S 1000000000ULL
#define GRANTS   4096
#define CLIENT   256

static struct quota *
make(uint32_t per_client, uint32_t opens_per_s)
{
	const struct quota_attr a = {.grants = GRANTS,
	                             .grants_per_client = per_client,
	                             .opens_per_s = opens_per_s,
	                             .key = {0x1234567890abcdef, 0xfedcba0987654321}};
	struct quota *q;

	CHECK_EQ(quota_create(&a, &q), 0);
	return q;
}

static struct quota_id
ip(const char *text)
{
	struct sockaddr_storage a = {0};
	struct quota_id id;

	if (strchr(text, ':') != NULL) {
		a.ss_family = AF_INET6;
		CHECK_EQ(inet_pton(AF_INET6, text, &((struct sockaddr_in6 *)&a)->sin6_addr), 1);
	} else {
		a.ss_family = AF_INET;
		CHECK_EQ(inet_pton(AF_INET, text, &((struct sockaddr_in *)&a)->sin_addr), 1);
	}
	quota_id(&id, NULL, &a);
	return id;
}

static struct quota_id
numbered(unsigned int n)
{
	char text[32];

	snprintf(text, sizeof(text), "10.%u.%u.%u", n >> 16, n >> 8 & 255, n & 255);
	return ip(text);
}

static bool
same(struct quota_id a, struct quota_id b)
{
	return a.bytes == b.bytes && memcmp(a.octets, b.octets, a.bytes) == 0;
}

/** Who counts as one. */
static void
test_who(void)
{
	const struct sockaddr_storage none = {.ss_family = AF_INET};
	struct quota_id name, other;

	CHECK(same(ip("10.0.0.1"), ip("10.0.0.1")) && !same(ip("10.0.0.1"), ip("10.0.0.2")));
	CHECK(same(ip("2001:db8::1"), ip("2001:db8::ffff:1")));
	CHECK(!same(ip("2001:db8::1"), ip("2001:db8:0:1::1")));
	/* A neighbour has as many of these as it likes, of whichever /64. */
	CHECK(same(ip("fe80::1"), ip("fe80::2")) && same(ip("fe80::1"), ip("fe80:0:0:7::1")));
	CHECK(!same(ip("fe80::1"), ip("fec0::1")));
	quota_id(&name, "alice", &none);
	quota_id(&other, "alicf", &none);
	CHECK(!same(name, other) && !same(name, ip("10.0.0.1")));
	/* No name is somebody's address. */
	quota_id(&other, "\x0a", &none);
	CHECK(!same(other, ip("10.0.0.1")));
}

/** However many connections it has, one client gets its share; the others find theirs. */
static void
test_one_takes_all(void)
{
	struct quota *q = make(CLIENT, 0);
	struct quota_client *c[2 * CLIENT], *other;
	const struct quota_id greedy = ip("10.0.0.9");
	struct quota_stats s;
	unsigned int n = 0;

	for (unsigned int i = 0; i < 65 * 64; i++) {
		int rc = quota_open(q, &greedy, i, &c[n < CLIENT ? n : CLIENT]);

		CHECK(rc == (i < CLIENT ? 0 : -EDQUOT));
		n += rc == 0;
	}
	CHECK_EQ(n, CLIENT);
	for (unsigned int i = 0; i < 100; i++) {
		const struct quota_id id = numbered(1000 + i);

		CHECK_EQ(quota_open(q, &id, 0, &other), 0);
		quota_close(q, other);
	}
	/* What it gives back it may have again. */
	quota_close(q, c[7]);
	CHECK_EQ(quota_open(q, &greedy, 0, &c[7]), 0);
	CHECK_EQ(quota_open(q, &greedy, 0, &other), -EDQUOT);
	quota_stats(q, &s);
	CHECK_EQ(s.grants, CLIENT);
	CHECK_EQ(s.refused_client, 65 * 64 - CLIENT + 1);
	while (n-- > 0)
		quota_close(q, c[n]);
	quota_destroy(q);
}

/** Many who take all they may leave a quarter, of which every other client has eight for sure. */
static void
test_many_take_all(void)
{
	enum { LEFT = GRANTS / 4 / QUOTA_SURE };
	static struct quota_client *c[GRANTS];
	struct quota *q = make(CLIENT, 0);
	struct quota_stats s;
	unsigned int n = 0;

	for (unsigned int a = 0; a < 64; a++) {
		const struct quota_id id = numbered(a);

		for (unsigned int i = 0; i < CLIENT && n < GRANTS; i++)
			n += quota_open(q, &id, 0, &c[n]) == 0;
	}
	/* 12 had 256, the next 52 were sure of 8. */
	CHECK_EQ(n, GRANTS / 4 * 3 + 52 * QUOTA_SURE);
	for (unsigned int a = 0; a < LEFT; a++) {
		const struct quota_id id = numbered(100 + a);

		for (unsigned int i = 0; i < QUOTA_SURE && n < GRANTS; i++, n++)
			CHECK_EQ(quota_open(q, &id, 0, &c[n]), 0);
	}
	CHECK_EQ(n, GRANTS);
	/* The edge: not one more, for nobody. */
	{
		const struct quota_id id = numbered(5000);
		struct quota_client *one;

		CHECK_EQ(quota_open(q, &id, 0, &one), -ENOSPC);
		quota_close(q, c[--n]);
		CHECK_EQ(quota_open(q, &id, 0, &c[n]), 0);
		n++;
	}
	quota_stats(q, &s);
	CHECK(s.grants == GRANTS && s.refused_all > 0);
	while (n-- > 0)
		quota_close(q, c[n]);
	quota_destroy(q);
}

/** Addresses, however many, leave clients with a name their grants; and the other way round. */
static void
test_names_keep_theirs(void)
{
	enum { NAMED = GRANTS / 4 };
	const struct quota_attr attr = {
	        .grants = GRANTS, .for_named = NAMED, .grants_per_client = CLIENT, .key = {1, 2}};
	static struct quota_client *c[GRANTS];
	struct quota_stats s;
	struct quota *q;
	unsigned int n = 0, names = 0;

	CHECK_EQ(quota_create(&attr, &q), 0);
	for (unsigned int a = 0; a < 1000; a++) {
		const struct quota_id id = numbered(a);

		for (unsigned int i = 0; i < CLIENT && n < GRANTS; i++)
			n += quota_open(q, &id, 0, &c[n]) == 0;
	}
	CHECK_EQ(n, GRANTS - NAMED);
	for (unsigned int a = 0; a < 8; a++) {
		struct quota_id id;
		char name[8];

		snprintf(name, sizeof(name), "c%u", a);
		quota_id(&id, name, NULL);
		for (unsigned int i = 0; i < CLIENT; i++) {
			const int rc = quota_open(q, &id, 0, &c[n]);

			CHECK(rc == 0 || rc == -ENOSPC);
			/* Each is sure of eight, those that come first have all that they may. */
			CHECK(rc == 0 || i >= QUOTA_SURE);
			CHECK(rc == 0 || a >= 3);
			n += rc == 0;
			names += rc == 0;
		}
	}
	CHECK(names > NAMED / 4 * 3);
	quota_stats(q, &s);
	CHECK_EQ(s.strangers, GRANTS - NAMED);
	CHECK_EQ(s.grants, s.strangers + names);
	while (n > 0)
		quota_close(q, c[--n]);
	/* Without strangers names have it all. */
	for (unsigned int a = 0; a < GRANTS / CLIENT; a++) {
		struct quota_id id;
		char name[8];

		snprintf(name, sizeof(name), "c%u", a);
		quota_id(&id, name, NULL);
		for (unsigned int i = 0; i < CLIENT; i++)
			n += quota_open(q, &id, 0, &c[n]) == 0;
	}
	CHECK(n >= GRANTS - NAMED / 4);
	quota_stats(q, &s);
	CHECK_EQ(s.strangers, 0);
	while (n > 0)
		quota_close(q, c[--n]);
	quota_destroy(q);
}

/** A second's worth at once, then by the rate, whatever one does; others have their own. */
static void
test_rate(void)
{
	enum { RATE = 1000 };
	struct quota *q = make(CLIENT, RATE);
	const struct quota_id fast = ip("10.0.0.9"), slow = ip("10.0.0.10");
	struct quota_client *c;
	uint64_t now = 77 * NS_PER_S;
	unsigned int served = 0;
	struct quota_stats s;

	for (unsigned int i = 0; i < RATE; i++) {
		CHECK_EQ(quota_open(q, &fast, now, &c), 0);
		quota_close(q, c);
	}
	CHECK_EQ(quota_open(q, &fast, now, &c), -EBUSY);
	CHECK_EQ(quota_open(q, &slow, now, &c), 0);
	quota_close(q, c);
	/* 10^5 a second for ten seconds: a thousand of each are served. */
	for (unsigned int i = 0; i < 1000000; i++) {
		now += NS_PER_S / 100000;
		if (quota_open(q, &fast, now, &c) == 0) {
			served++;
			quota_close(q, c);
		}
	}
	CHECK_MSG(served >= 10 * RATE - 1 && served <= 10 * RATE + 1, "%u", served);
	quota_stats(q, &s);
	CHECK_EQ(s.opens_limited, 1000000 - served + 1);
	/* Refusals for other reasons are counted in the bucket, too. */
	now += 2 * NS_PER_S;
	for (unsigned int i = 0; i < RATE; i++)
		CHECK_EQ(quota_open(q, &fast, now, &c), i < CLIENT ? 0 : -EDQUOT);
	CHECK_EQ(quota_open(q, &fast, now, &c), -EBUSY);
	for (unsigned int i = 0; i < CLIENT; i++)
		quota_close(q, c);
	quota_destroy(q);
}

/** A client that comes and goes finds its bucket as it left it; what is remembered has a limit. */
static void
test_remembered(void)
{
	enum { RATE = 10 };
	struct quota *q = make(CLIENT, RATE);
	const struct quota_id fast = ip("10.255.0.9");
	struct quota_client *c;
	struct quota_stats s;
	uint64_t now = NS_PER_S;

	for (unsigned int i = 0; i < RATE; i++) {
		CHECK_EQ(quota_open(q, &fast, now, &c), 0);
		quota_close(q, c);
	}
	for (unsigned int a = 0; a < QUOTA_IDLE_MAX - 1; a++) {
		const struct quota_id id = numbered(a);

		CHECK_EQ(quota_open(q, &id, now, &c), 0);
		quota_close(q, c);
	}
	CHECK_EQ(quota_open(q, &fast, now, &c), -EBUSY);
	for (unsigned int a = 0; a < 10 * QUOTA_IDLE_MAX; a++) {
		const struct quota_id id = numbered(100000 + a);

		CHECK_EQ(quota_open(q, &id, now, &c), 0);
		quota_close(q, c);
		quota_stats(q, &s);
		CHECK(s.clients <= QUOTA_IDLE_MAX + 1);
	}
	CHECK(s.forgotten >= 9 * QUOTA_IDLE_MAX);
	/* Whose bucket is full again needs no memory. */
	now += 2 * NS_PER_S;
	for (unsigned int i = 0; i < QUOTA_IDLE_MAX; i++) {
		(void)quota_open(q, &fast, now, &c);
		if (i == 0)
			quota_close(q, c);
	}
	quota_stats(q, &s);
	CHECK_MSG(s.clients <= 1, "%u", s.clients);
	quota_destroy(q);
}

/** Drawn OPENs and CLOSEs of many clients against plain counting. */
static void
test_model(void)
{
	enum { CLIENTS = 40, STEPS = 400000 };
	static struct quota_client *held[CLIENTS][CLIENT];
	struct quota *q = make(CLIENT, 0);
	unsigned int n[CLIENTS] = {0}, all = 0, refused = 0;
	uint64_t x = test_seed(51);

	for (unsigned int i = 0; i < STEPS; i++) {
		unsigned int a;
		int rc, want;

		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
		a = (unsigned int)(x >> 40) % CLIENTS;
		if ((x >> 33 & 15) >= 9) {
			if (n[a] > 0) {
				quota_close(q, held[a][--n[a]]);
				all--;
			}
			continue;
		}
		want = n[a] >= CLIENT                                                   ? -EDQUOT
		       : all >= GRANTS || (n[a] >= QUOTA_SURE && all >= GRANTS / 4 * 3) ? -ENOSPC
		                                                                        : 0;
		{
			const struct quota_id id = numbered(a);
			struct quota_client *c;

			rc = quota_open(q, &id, i, &c);
			CHECK_EQ(rc, want);
			if (rc == 0) {
				held[a][n[a]++] = c;
				all++;
			}
		}
		refused += rc != 0;
	}
	CHECK(refused > 1000);
	for (unsigned int a = 0; a < CLIENTS; a++)
		while (n[a] > 0)
			quota_close(q, held[a][--n[a]]);
	quota_destroy(q);
}

WEFT_TEST_MAIN({"who counts as one", test_who}, {"one client takes all", test_one_takes_all},
               {"many take all", test_many_take_all}, {"names keep theirs", test_names_keep_theirs},
               {"rate", test_rate}, {"what is remembered", test_remembered}, {"model", test_model})
