/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Host authentication: the right key is accepted, and nothing that was recorded can be
 * used again. */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "host_auth.h"
#include "weft_test.h"

#define CAP 512

static const struct host_auth_keys alice = {.client = "alice's key, of her own proof...",
                                            .target = "alice's key, of the target's..."};
static const struct host_auth_keys other = {.client = "some other key, of its own proof",
                                            .target = "some other key, of the target's"};

static const struct host_auth_keys *
find(void *arg, const char *name)
{
	(void)arg;
	return strcmp(name, "alice") == 0 ? &alice : NULL;
}

static struct host_auth_place
place(const char *host, uint16_t port)
{
	struct sockaddr_storage a = {.ss_family = strchr(host, ':') != NULL ? AF_INET6 : AF_INET};
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&a;
	struct sockaddr_in *in4 = (struct sockaddr_in *)&a;
	struct host_auth_place p;

	if (a.ss_family == AF_INET)
		CHECK_EQ(inet_pton(AF_INET, host, &in4->sin_addr), 1);
	else
		CHECK_EQ(inet_pton(AF_INET6, host, &in6->sin6_addr), 1);
	in4->sin_port = htons(port); /* the port is at the same offset in both */
	CHECK_EQ(host_auth_place(&a, &p), 0);
	return p;
}

static void
pair(struct host_auth *c, struct host_auth *s, const char *name, const struct host_auth_keys *keys)
{
	*c = (struct host_auth){.keys = keys, .place = place("10.0.0.1", 7471)};
	strcpy(c->name, name);
	*s = (struct host_auth){.server = true, .find = find, .place = c->place};
}

/* The four messages. Returns the final results of target and client. */
static void
talk(struct host_auth *c, struct host_auth *s, int *crc, int *src)
{
	uint8_t m[4][CAP];
	uint32_t n[4], none;

	*crc = -1;
	CHECK_EQ(host_auth_step(c, NULL, 0, m[0], CAP, &n[0]), 0);
	CHECK_EQ(host_auth_step(s, m[0], n[0], m[1], CAP, &n[1]), 0);
	CHECK_EQ(host_auth_step(c, m[1], n[1], m[2], CAP, &n[2]), 0);
	*src = host_auth_step(s, m[2], n[2], m[3], CAP, &n[3]);
	if (*src == 1) {
		*crc = host_auth_step(c, m[3], n[3], m[0], CAP, &none);
		CHECK_EQ(none, 0);
	}
}

static void
test_good(void)
{
	struct host_auth c, s;
	int crc, src;

	pair(&c, &s, "alice", &alice);
	talk(&c, &s, &crc, &src);
	CHECK_EQ(crc, 1);
	CHECK_EQ(src, 1);
	CHECK_STR(s.name, "alice");
	CHECK_EQ(s.state, HOST_AUTH_DONE);
}

/* A wrong key and an unknown name are refused in the same way, after the client's proof. A
 * target without the key has no proof for the client. */
static void
test_bad(void)
{
	struct host_auth c, s;
	uint8_t m[2][CAP];
	uint32_t n;
	int crc, src;

	pair(&c, &s, "alice", &other);
	talk(&c, &s, &crc, &src);
	CHECK_EQ(src, -EACCES);
	pair(&c, &s, "bob", &alice);
	talk(&c, &s, &crc, &src);
	CHECK_EQ(src, -EACCES);
	/* and a client that continues nevertheless */
	memset(m[0], 3, 33);
	CHECK_EQ(host_auth_step(&s, m[0], 33, m[1], CAP, &n), -EBADMSG);
	pair(&c, &s, "alice", &alice);
	CHECK_EQ(host_auth_step(&c, NULL, 0, m[0], CAP, &n), 0);
	CHECK_EQ(host_auth_step(&c, m[0] + n - 33, 33, m[1], CAP, &n), -EBADMSG);
	pair(&c, &s, "alice", &alice);
	CHECK_EQ(host_auth_step(&c, NULL, 0, m[0], CAP, &n), 0);
	memset(m[0], 3, 33);
	CHECK_EQ(host_auth_step(&c, m[0], 33, m[1], CAP, &n), 0);
	CHECK_EQ(host_auth_step(&c, m[0], 33, m[1], CAP, &n), -EACCES);
	CHECK_EQ(c.state, HOST_AUTH_FAILED);
}

/* Recorded messages are useless, because the nonces are new. A target's own proof cannot be sent
 * back to it. */
static void
test_replay(void)
{
	struct host_auth c, s, s2;
	uint8_t m[4][CAP], own[CAP];
	uint32_t n[4];

	pair(&c, &s, "alice", &alice);
	CHECK_EQ(host_auth_step(&c, NULL, 0, m[0], CAP, &n[0]), 0);
	CHECK_EQ(host_auth_step(&s, m[0], n[0], m[1], CAP, &n[1]), 0);
	CHECK_EQ(host_auth_step(&c, m[1], n[1], m[2], CAP, &n[2]), 0);
	CHECK_EQ(host_auth_step(&s, m[2], n[2], own, CAP, &n[3]), 1);
	CHECK_EQ(n[3], 33);
	s2 = (struct host_auth){.server = true, .find = find, .place = c.place};
	CHECK_EQ(host_auth_step(&s2, m[0], n[0], m[3], CAP, &n[3]), 0);
	CHECK_EQ(host_auth_step(&s2, m[2], n[2], m[3], CAP, &n[3]), -EACCES);
	s2 = (struct host_auth){.server = true, .find = find, .place = c.place};
	CHECK_EQ(host_auth_step(&s2, m[0], n[0], m[3], CAP, &n[3]), 0);
	CHECK_EQ(host_auth_step(&s2, own, 33, m[1], CAP, &n[1]), -EACCES);
	/* nor is the client's proof its target's */
	CHECK_EQ(host_auth_step(&c, m[2], n[2], m[3], CAP, &n[3]), -EACCES);
}

/*
 * A host that clients call and that forwards their messages to the real target. Its own address is
 * in the first message, and the target refuses that. With the target's address in the message the
 * proof differs.
 */
static void
test_relay(void)
{
	const struct host_auth_place relay = place("10.0.0.9", 7471),
	                             port = place("10.0.0.1", 7472);
	const struct host_auth_place of[] = {relay, port, place("fd00::1", 7471)};

	for (unsigned int i = 0; i < 3; i++) {
		for (unsigned int forged = 0; forged < 2; forged++) {
			struct host_auth c, s;
			uint8_t m[3][CAP];
			uint32_t n[3], none;

			pair(&c, &s, "alice", &alice);
			c.place = of[i];
			CHECK_EQ(host_auth_step(&c, NULL, 0, m[0], CAP, &n[0]), 0);
			if (forged)
				memcpy(m[0] + 2 + 5, &s.place, sizeof(s.place));
			CHECK_EQ(host_auth_step(&s, m[0], n[0], m[1], CAP, &n[1]), 0);
			CHECK_EQ(s.elsewhere, !forged);
			CHECK_EQ(host_auth_step(&c, m[1], n[1], m[2], CAP, &n[2]), 0);
			CHECK_EQ(host_auth_step(&s, m[2], n[2], m[0], CAP, &none), -EACCES);
		}
	}
}

/* Behind address translation the target is configured with the addresses by which it is called. */
static void
test_known_as(void)
{
	const struct host_auth_place also[] = {place("192.0.2.7", 443), place("2001:db8::7", 443)};

	for (unsigned int i = 0; i < 2; i++) {
		struct host_auth c, s;
		int crc, src;

		pair(&c, &s, "alice", &alice);
		s.known_as = also;
		s.nknown_as = 2;
		c.place = also[i];
		talk(&c, &s, &crc, &src);
		CHECK_EQ(crc, 1);
		CHECK_EQ(src, 1);
		CHECK(!s.elsewhere);
	}
}

/* Earlier versions are refused. */
static void
test_version(void)
{
	struct host_auth c, s;
	uint8_t m[2][CAP];
	uint32_t n;

	pair(&c, &s, "alice", &alice);
	CHECK_EQ(host_auth_step(&c, NULL, 0, m[0], CAP, &n), 0);
	CHECK_EQ(m[0][0], 3);
	m[0][0] = 2;
	CHECK_EQ(host_auth_step(&s, m[0], n, m[1], CAP, &n), -EBADMSG);
}

/* Each octet changed, and each length. */
static void
test_damaged(void)
{
	for (unsigned int msg = 0; msg < 4; msg++) {
		for (unsigned int at = 0; at < 110; at++) {
			struct host_auth c, s;
			uint8_t m[4][CAP];
			uint32_t n[4], none;
			int rc;

			pair(&c, &s, "alice", &alice);
			CHECK_EQ(host_auth_step(&c, NULL, 0, m[0], CAP, &n[0]), 0);
			if (msg == 0)
				m[0][at % n[0]] ^= 1;
			rc = host_auth_step(&s, m[0], msg == 0 && at >= n[0] ? at : n[0], m[1], CAP,
			                    &n[1]);
			if (rc < 0)
				continue;
			if (msg == 1)
				m[1][at % n[1]] ^= 1;
			rc = host_auth_step(&c, m[1], msg == 1 && at >= n[1] ? at : n[1], m[2], CAP,
			                    &n[2]);
			if (rc < 0)
				continue;
			/* a change in the first two is detected by the proof in the third */
			if (msg == 2)
				m[2][at % n[2]] ^= 1;
			rc = host_auth_step(&s, m[2], msg == 2 && at >= n[2] ? at : n[2], m[3], CAP,
			                    &n[3]);
			CHECK_MSG((rc < 0) == (msg < 3), "message %u, octet %u", msg, at);
			if (rc < 0)
				continue;
			m[3][at % n[3]] ^= 1;
			rc = host_auth_step(&c, m[3], at >= n[3] ? at : n[3], m[0], CAP, &none);
			CHECK_MSG(rc < 0, "message %u, octet %u", msg, at);
		}
	}
}

WEFT_TEST_MAIN({"good", test_good}, {"bad", test_bad}, {"replay", test_replay},
               {"relay", test_relay}, {"known as", test_known_as}, {"version", test_version},
               {"damaged", test_damaged})
