/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Shares of clients in a target's grants: how many grants one client can take, how many
 * remain for the others, how many OPENs a second are served, and how many former clients are
 * remembered.
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

static bool
same_net(const char *a, const char *b)
{
	const struct quota_id x = ip(a), y = ip(b);

	return x.has_net && y.has_net && memcmp(x.net, y.net, sizeof(x.net)) == 0;
}

/** Which addresses and names are one client. */
static void
test_who(void)
{
	const struct sockaddr_storage none = {.ss_family = AF_INET};
	struct quota_id name, other;

	CHECK(same(ip("10.0.0.1"), ip("10.0.0.1")) && !same(ip("10.0.0.1"), ip("10.0.0.2")));
	CHECK(!same(ip("2001:db8::1"), ip("2001:db8::ffff:1")));
	CHECK(same_net("2001:db8::1", "2001:db8::ffff:1"));
	CHECK(!same_net("2001:db8::1", "2001:db8:0:1::1"));
	/* A host on the link can have many link-local addresses, in any /64. All are one net. */
	CHECK(!same(ip("fe80::1"), ip("fe80::2")));
	CHECK(same_net("fe80::1", "fe80::2") && same_net("fe80::1", "fe80:0:0:7::1"));
	CHECK(!same_net("fe80::1", "fec0::1") && !ip("10.0.0.1").has_net);
	quota_id(&name, "alice", &none);
	quota_id(&other, "alicf", &none);
	CHECK(!same(name, other) && !same(name, ip("10.0.0.1")));
	/* A name never equals the octets of an address. */
	quota_id(&other, "\x0a", &none);
	CHECK(!same(other, ip("10.0.0.1")));
}

/** One client gets its share regardless of the number of its connections. The others get theirs. */
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
	/* A grant that the client closes can be opened again. */
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

/** Many clients that take all they can leave a quarter of the grants. Of that quarter each other
 * client is sure of eight. */
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
	/* The first 12 clients had 256 grants each. Each of the next 52 got the eight it is sure
	 * of. */
	CHECK_EQ(n, GRANTS / 4 * 3 + 52 * QUOTA_SURE);
	for (unsigned int a = 0; a < LEFT; a++) {
		const struct quota_id id = numbered(100 + a);

		for (unsigned int i = 0; i < QUOTA_SURE && n < GRANTS; i++, n++)
			CHECK_EQ(quota_open(q, &id, 0, &c[n]), 0);
	}
	CHECK_EQ(n, GRANTS);
	/* All grants are taken: no client gets another one. */
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

/** Clients without a name, however many, leave the grants for named clients free. Named clients
 * leave the others theirs. */
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
			/* Each named client gets the eight it is sure of. The first ones get all
			 * that they may have. */
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
	/* Without clients that have no name, named clients may have all grants. */
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

/** A client may send a second's worth of OPENs at once, and then the rate. Other clients have
 * rates of their own. */
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
	/* 10^5 OPENs a second for ten seconds: 1000 of each second are served. */
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
	/* An OPEN that is refused for another reason counts in the bucket, too. */
	now += 2 * NS_PER_S;
	for (unsigned int i = 0; i < RATE; i++)
		CHECK_EQ(quota_open(q, &fast, now, &c), i < CLIENT ? 0 : -EDQUOT);
	CHECK_EQ(quota_open(q, &fast, now, &c), -EBUSY);
	for (unsigned int i = 0; i < CLIENT; i++)
		quota_close(q, c);
	quota_destroy(q);
}

/** A client that leaves and returns finds its bucket as it left it. The number of remembered
 * clients is limited. */
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
	/* A client whose bucket is full again is not remembered. */
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

/* ---- An IPv6 /64 ---- */

enum { NET = QUOTA_NET * CLIENT };

/** Address n of the /64. */
static struct quota_id
host6(unsigned int n)
{
	char text[40];

	snprintf(text, sizeof(text), "fd00:88::%x:%x", n >> 16, n & 0xffff);
	return ip(text);
}

/** A connection with its grants, as target_grant.c holds them. */
struct held {
	struct quota_holder h;
	struct quota_client *c[CLIENT];
	unsigned int n;
};

static int
take(struct quota *q, struct held *of, const struct quota_id *id, unsigned int want, uint64_t now)
{
	int rc = 0;

	for (unsigned int i = 0; i < want && rc == 0; i++) {
		rc = quota_open(q, id, now, &of->c[of->n]);
		if (rc == 0)
			quota_hold(q, of->c[of->n++], &of->h, 0, now);
	}
	return rc;
}

static void
leave(struct quota *q, struct held *of)
{
	while (of->n > 0) {
		struct quota_client *c = quota_let_go(q, of->c[--of->n], &of->h);

		quota_close(q, c);
	}
}

/** The grants of one host leave its neighbours in the /64 theirs, also if the host uses many
 * addresses. */
static void
test_neighbours(void)
{
	static struct held greedy[CLIENT], one;
	struct quota *q = make(CLIENT, 0);
	const uint64_t now = NS_PER_S;
	struct quota_stats s;
	unsigned int n = 0, i;

	CHECK_EQ(take(q, &greedy[0], (struct quota_id[]){host6(2)}, CLIENT, now), 0);
	CHECK_EQ(take(q, &one, (struct quota_id[]){host6(3)}, CLIENT, now), 0);
	leave(q, &one);
	/* With a few more addresses the host gets three quarters of the /64's share at most,
	 * because the rest is kept for clients that are sure of eight. */
	for (i = 1; i < 8; i++)
		(void)take(q, &greedy[i], (struct quota_id[]){host6(100 + i)}, CLIENT, now);
	quota_stats(q, &s);
	CHECK(s.grants >= NET / 4 * 3 && s.grants <= NET / 4 * 3 + 8 * QUOTA_SURE);
	CHECK(s.refused_net > 0 && s.nets == 1);
	CHECK_EQ(take(q, &one, (struct quota_id[]){host6(3)}, QUOTA_SURE, now), 0);
	CHECK_EQ(take(q, &one, (struct quota_id[]){host6(3)}, 1, now), -EUSERS);
	leave(q, &one);
	/* With all its addresses the host gets at most the share of the /64. Another /64 is
	 * served. */
	for (; i < CLIENT; i++)
		(void)take(q, &greedy[i], (struct quota_id[]){host6(100 + i)}, QUOTA_SURE, now);
	quota_stats(q, &s);
	CHECK_EQ(s.grants, NET);
	CHECK_EQ(take(q, &one, (struct quota_id[]){host6(3)}, 1, now), -EUSERS);
	CHECK_EQ(take(q, &one, (struct quota_id[]){ip("fd00:89::3")}, CLIENT, now), 0);
	leave(q, &one);
	for (i = 0; i < CLIENT; i++) {
		n += greedy[i].n;
		leave(q, &greedy[i]);
	}
	CHECK_EQ(n, NET);
	quota_stats(q, &s);
	CHECK(s.grants == 0 && s.strangers == 0 && s.nets <= 2);
	quota_destroy(q);
}

/** When a /64 has used its share, the idle connection with the most grants is closed for a
 * client that has fewer. */
static void
test_idle_goes(void)
{
	static struct held conns[NET / 64], one, two, late;
	struct quota *q = make(CLIENT, 0);
	uint64_t now = NS_PER_S;
	struct quota_stats s;
	struct quota_client *c;
	unsigned int n;

	/* Connections with 64 grants each, from addresses with four connections each. Then the
	 * remaining grants, eight for an address. */
	for (n = 0; n < NET / 64 - 4; n++)
		CHECK_EQ(take(q, &conns[n], (struct quota_id[]){host6(10 + n / 4)}, 64, now), 0);
	for (unsigned int i = 0; i < NET / 4 / QUOTA_SURE; i++)
		for (unsigned int k = 0; k < QUOTA_SURE; k++)
			CHECK_EQ(quota_open(q, (struct quota_id[]){host6(1000 + i)}, now, &c), 0);
	CHECK(quota_is_pressed(q));
	CHECK_EQ(take(q, &one, (struct quota_id[]){host6(3)}, 1, now), -EUSERS);
	/* All connections but the sixth are active. The seventh belongs to an authenticated
	 * client. */
	now += QUOTA_IDLE_NS;
	for (unsigned int i = 0; i < n; i++)
		if (i != 5 && i != 6)
			CHECK(!quota_look(q, &conns[i].h, 1, false, now));
	quota_keep(q, &conns[6].h);
	CHECK(!quota_look(q, &conns[5].h, 0, false, now));
	/* The grants of the sixth connection count as free before it has closed, and only those. */
	CHECK_EQ(take(q, &one, (struct quota_id[]){host6(3)}, QUOTA_SURE, now), 0);
	CHECK_EQ(take(q, &one, (struct quota_id[]){host6(3)}, 1, now), -EUSERS);
	for (unsigned int i = 0; i < n; i++)
		CHECK_EQ(quota_look(q, &conns[i].h, 1, false, now), i == 5);
	for (unsigned int i = 0; i < (64 - QUOTA_SURE) / QUOTA_SURE; i++)
		for (unsigned int k = 0; k < QUOTA_SURE; k++)
			CHECK_EQ(quota_open(q, (struct quota_id[]){host6(4000 + i)}, now, &c), 0);
	CHECK_EQ(take(q, &two, (struct quota_id[]){host6(4)}, 1, now), -EUSERS);
	quota_stats(q, &s);
	CHECK_EQ(s.pushed_out, 1);
	CHECK_EQ(s.grants, NET + 64);
	leave(q, &conns[5]);
	quota_stats(q, &s);
	CHECK_EQ(s.grants, NET);
	CHECK_EQ(take(q, &two, (struct quota_id[]){host6(4)}, 1, now), -EUSERS);
	/* A client with few grants does not replace a connection that has no more than the
	 * client has. A connection that becomes active is not closed. */
	now += QUOTA_IDLE_NS;
	for (unsigned int i = 0; i < n; i++)
		if (i != 5)
			(void)quota_look(q, &conns[i].h, 1, true, now);
	CHECK_EQ(take(q, &two, (struct quota_id[]){host6(4)}, QUOTA_SURE, now), 0);
	CHECK(quota_look(q, &one.h, 0, false, now));
	CHECK_EQ(take(q, &late, (struct quota_id[]){host6(5)}, QUOTA_SURE, now), -EUSERS);
	leave(q, &one);
	/* Another connection from the address of the closed one gets no preference. */
	CHECK_EQ(take(q, &one, (struct quota_id[]){host6(11)}, 1, now), -EUSERS);
	leave(q, &two);
	leave(q, &late);
	for (unsigned int i = 0; i < n; i++)
		leave(q, &conns[i]);
	quota_stats(q, &s);
	CHECK_EQ(s.grants, NET / 4 + 64 - QUOTA_SURE); /* the grants without a connection */
	for (unsigned int i = 0; i < NET / 4 / QUOTA_SURE; i++)
		for (unsigned int k = 0; k < QUOTA_SURE; k++) {
			CHECK_EQ(quota_open(q, (struct quota_id[]){host6(1000 + i)}, now, &c), 0);
			quota_close(q, c);
			quota_close(q, c);
		}
	for (unsigned int i = 0; i < (64 - QUOTA_SURE) / QUOTA_SURE; i++)
		for (unsigned int k = 0; k < QUOTA_SURE; k++) {
			CHECK_EQ(quota_open(q, (struct quota_id[]){host6(4000 + i)}, now, &c), 0);
			quota_close(q, c);
			quota_close(q, c);
		}
	quota_stats(q, &s);
	CHECK(s.grants == 0 && s.strangers == 0);
	quota_destroy(q);
}

/** When all grants of the target are taken, a /64 that holds some closes one of its idle
 * connections for its own new client. */
static void
test_idle_goes_of_all(void)
{
	static struct quota_client *c[GRANTS];
	static struct held idle, one;
	struct quota *q = make(CLIENT, 0);
	uint64_t now = NS_PER_S;
	unsigned int n = 0;

	CHECK_EQ(take(q, &idle, (struct quota_id[]){host6(2)}, 64, now), 0);
	for (unsigned int a = 0; n < GRANTS - 64; a++)
		for (unsigned int i = 0; i < CLIENT && n < GRANTS - 64; i++)
			n += quota_open(q, (struct quota_id[]){numbered(a)}, now, &c[n]) == 0;
	CHECK_EQ(take(q, &one, (struct quota_id[]){host6(3)}, 1, now), -ENOSPC);
	CHECK(quota_is_pressed(q));
	now += QUOTA_IDLE_NS;
	/* Grants are free only after their regions are gone. Then any client may take them. */
	CHECK_EQ(take(q, &one, (struct quota_id[]){host6(3)}, 1, now), -ENOSPC);
	CHECK_EQ(take(q, &one, (struct quota_id[]){host6(4)}, 1, now), -ENOSPC);
	CHECK(quota_look(q, &idle.h, 0, false, now));
	leave(q, &idle);
	CHECK_EQ(take(q, &one, (struct quota_id[]){host6(3)}, QUOTA_SURE, now), 0);
	leave(q, &one);
	while (n > 0)
		quota_close(q, c[--n]);
	quota_destroy(q);
}

/** OPENs of one address leave the other addresses of its /64 their rate. All addresses of the
 * /64 together have a limit. */
static void
test_rate_of_neighbours(void)
{
	enum { RATE = 1000 };
	struct quota *q = make(CLIENT, RATE);
	const struct quota_id fast = host6(2), slow = host6(3);
	unsigned int served = 0, all = 0;
	struct quota_client *c;
	struct quota_stats s;
	uint64_t now = 9 * NS_PER_S;

	/* For ten seconds, one address sends as many OPENs as it can. The other sends one each
	 * hundredth of a second. */
	for (unsigned int i = 0; i < 100000; i++) {
		now += NS_PER_S / 10000;
		if (quota_open(q, &fast, now, &c) == 0)
			quota_close(q, c);
		if (i % 100 == 0) {
			CHECK_EQ(quota_open(q, &slow, now, &c), 0);
			quota_close(q, c);
			served++;
		}
	}
	CHECK_EQ(served, 1000);
	/* Ten addresses that do this leave the other one a few OPENs a second. */
	for (unsigned int i = 0; i < 100000; i++) {
		now += NS_PER_S / 10000;
		for (unsigned int a = 0; a < 10; a++)
			if (quota_open(q, (struct quota_id[]){host6(100 + a)}, now, &c) == 0) {
				quota_close(q, c);
				all++;
			}
		if (i % 1500 == 0) {
			CHECK_EQ(quota_open(q, &slow, now, &c), 0);
			quota_close(q, c);
		}
	}
	CHECK_MSG(all <= (10 + 1) * QUOTA_NET * RATE, "%u", all);
	/* A different address for each OPEN gets no more, and these addresses are not
	 * remembered. */
	all = 0;
	for (unsigned int i = 0; i < 200000; i++) {
		now += NS_PER_S / 100000;
		if (quota_open(q, (struct quota_id[]){host6(0x10000 + i)}, now, &c) == 0) {
			quota_close(q, c);
			all++;
		}
		quota_stats(q, &s);
		CHECK(s.clients <= QUOTA_NET_IDLE_MAX + 1 && s.nets == 1);
	}
	CHECK_MSG(all <= (2 + 1) * QUOTA_NET * RATE, "%u", all);
	quota_destroy(q);
}

/** Compare random OPENs and CLOSEs of many clients with a simple count. */
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
               {"rate", test_rate}, {"what is remembered", test_remembered},
               {"neighbours of one /64", test_neighbours}, {"the idle of a /64 go", test_idle_goes},
               {"the idle of a /64 go when all is out", test_idle_goes_of_all},
               {"rate of neighbours", test_rate_of_neighbours}, {"model", test_model})
