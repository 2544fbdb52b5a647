/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The exchange of host authentication against an adversary that controls the network. The
 * adversary sees every message, and drops, repeats, reflects and relays messages. It opens sessions
 * with clients and targets, and builds messages from everything it has seen. It may also obtain
 * signatures of any octets by the key file where the key serves another purpose.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "host_auth.h"
#include "weft_test.h"

#define CAP      512
#define SESSIONS 3 /* number of sessions of each side at a time */
#define STEPS    3000
#define WORDS    256 /* words of 32 octets that the adversary remembers */
#define WORD     32

static struct host_auth_keys alice, bob;
static const char *const names[] = {"alice", "bob", "carol"};
static struct host_auth_place places[3];

static const struct host_auth_keys *
find(void *arg, const char *name)
{
	(void)arg;
	return strcmp(name, "alice") == 0 ? &alice : strcmp(name, "bob") == 0 ? &bob : NULL;
}

static struct key_file
key_of(const char *text)
{
	struct key_file k = {.bytes = 40};

	memset(k.key, '.', k.bytes);
	memcpy(k.key, text, strlen(text));
	return k;
}

static void
set_up(void)
{
	const char *const hosts[] = {"10.0.0.1", "10.0.0.2", "10.0.0.66"};
	struct key_file a = key_of("alice"), b = key_of("bob");

	CHECK_EQ(host_auth_derive(&a, &alice), 0);
	CHECK_EQ(host_auth_derive(&b, &bob), 0);
	for (unsigned int i = 0; i < 3; i++) {
		struct sockaddr_storage ss = {.ss_family = AF_INET};
		struct sockaddr_in *in = (struct sockaddr_in *)&ss;

		in->sin_port = htons(7471);
		CHECK_EQ(inet_pton(AF_INET, hosts[i], &in->sin_addr), 1);
		CHECK_EQ(host_auth_place(&ss, &places[i]), 0);
	}
}

static struct host_auth
client_new(unsigned int who, unsigned int where)
{
	struct host_auth a = {.keys = who == 0 ? &alice : &bob, .place = places[where]};

	strcpy(a.name, names[who]);
	return a;
}

static struct host_auth
target_new(unsigned int where)
{
	return (struct host_auth){.server = true, .find = find, .place = places[where]};
}

/* ---- A run of the adversary ---- */

static struct session {
	struct host_auth a;
	bool used;
	unsigned int partner; /* the session whose messages this one usually gets */
	uint8_t said[CAP];    /* the last message */
	uint32_t said_bytes;
} sessions[2][SESSIONS]; /* clients, targets */
static uint8_t words[WORDS][WORD];
static unsigned int nwords, reached[2];
static uint64_t rnd;

static uint32_t
draw(uint32_t n)
{
	rnd = rnd * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(rnd >> 33) % n;
}

static void
learn(const uint8_t *m, uint32_t n)
{
	if (n < WORD)
		return;
	/* every message ends with its nonce or proof */
	memcpy(words[nwords < WORDS ? nwords++ : draw(WORDS)], m + n - WORD, WORD);
}

/* The exchanges in which a client sent its proof, and in which a target accepted one, in this
 * run. */
static struct done {
	char name[HOST_AUTH_NAME_MAX + 1];
	struct host_auth_place place;
	uint8_t nonce[2][HOST_AUTH_NONCE_BYTES];
} done[2][STEPS];
static unsigned int ndone[2];

static void
note(const struct host_auth *a)
{
	struct done *d = &done[a->server][ndone[a->server]++];

	strcpy(d->name, a->name);
	d->place = a->place;
	memcpy(d->nonce, a->nonce, sizeof(d->nonce));
}

/* Whether the other side had the same exchange: name, address, and both nonces. */
static bool
agrees(const struct host_auth *a)
{
	for (unsigned int i = 0; i < ndone[!a->server]; i++) {
		const struct done *d = &done[!a->server][i];

		if (strcmp(d->name, a->name) == 0 &&
		    memcmp(&d->place, &a->place, sizeof(a->place)) == 0 &&
		    memcmp(d->nonce, a->nonce, sizeof(a->nonce)) == 0)
			return true;
	}
	return false;
}

/* Prefer the latest words, which are the most useful ones. */
static const uint8_t *
word(void)
{
	uint32_t back = draw(4) != 0 ? draw(nwords < 6 ? nwords : 6) : draw(nwords);

	return words[nwords < WORDS ? nwords - 1 - back : draw(WORDS)];
}

/* Build a message in the form that the receiver expects. */
static uint32_t
compose(const struct host_auth *to, uint8_t *m)
{
	uint8_t *p = m;

	*p++ = 3;
	if (to->server && to->state == HOST_AUTH_NEW) {
		const char *name = names[draw(3)];
		size_t n = strlen(name);

		*p++ = (uint8_t)n;
		memcpy(p, name, n);
		p += n;
		memcpy(p, &places[draw(3)], HOST_AUTH_PLACE_BYTES);
		p += HOST_AUTH_PLACE_BYTES;
	}
	memcpy(p, word(), WORD);
	return (uint32_t)(p + WORD - m);
}

static void
step(struct session *s, const uint8_t *in, uint32_t n)
{
	uint8_t out[CAP];
	uint32_t bytes;
	int rc = host_auth_step(&s->a, in, n, out, CAP, &bytes);

	learn(out, bytes);
	memcpy(s->said, out, bytes);
	s->said_bytes = bytes;
	if (!s->a.server && s->a.state == HOST_AUTH_PROVED)
		note(&s->a);
	if (rc != 1)
		return;
	reached[s->a.server]++;
	if (s->a.server)
		note(&s->a);
	CHECK_MSG(agrees(&s->a), "a %s took %s for somebody it does not agree with",
	          s->a.server ? "target" : "client", s->a.name);
	if (s->a.server) /* the adversary's own address belongs to no target */
		CHECK(memcmp(&s->a.place, &places[2], sizeof(places[2])) != 0);
}

static void
adversary(uint64_t seed)
{
	uint8_t m[CAP];

	rnd = seed * 0x9e3779b97f4a7c15u + 1;
	memset(sessions, 0, sizeof(sessions));
	memset(ndone, 0, sizeof(ndone));
	nwords = 1; /* a word of zeros */
	memset(words[0], 0, WORD);
	for (unsigned int i = 0; i < STEPS; i++) {
		bool target = draw(2);
		struct session *s = &sessions[target][draw(SESSIONS)], *from;
		uint32_t n, how;

		if (!s->used || s->a.state == HOST_AUTH_FAILED || draw(40) == 0) {
			/* clients call targets, and the adversary's own host */
			*s = (struct session){.used = true,
			                      .partner = draw(SESSIONS),
			                      .a = target ? target_new(draw(2))
			                                  : client_new(draw(2), draw(3))};
			if (!target)
				step(s, NULL, 0);
			continue;
		}
		/* the partner's message: unchanged, changed, replaced, or not delivered now */
		from = &sessions[!target][s->partner];
		n = from->said_bytes;
		memcpy(m, from->said, n);
		how = draw(8);
		if (how == 0 || n == 0)
			n = compose(&s->a, m);
		else if (how == 1)
			memcpy(m + n - WORD, word(), WORD);
		else if (how == 2 && n > WORD + HOST_AUTH_PLACE_BYTES)
			memcpy(m + n - WORD - HOST_AUTH_PLACE_BYTES, &places[draw(3)],
			       HOST_AUTH_PLACE_BYTES);
		if (n == 0 || how == 3 || s->a.state == HOST_AUTH_DONE)
			continue;
		/* usually not a second time, because that would be out of order */
		if (how > 3)
			from->said_bytes = 0;
		step(s, m, n);
	}
}

/* A side completes the exchange only with the peer it names: RFC 4949's "peer entity
 * authentication", for every mixture of sessions. */
static void
test_adversary(void)
{
	set_up();
	if (test_seed_given()) {
		adversary(test_seed(0));
		return;
	}
	memset(reached, 0, sizeof(reached));
	for (uint64_t seed = 0; seed < 1000; seed++) {
		test_seed_note(seed);
		adversary(seed);
	}
	/* Exchanges complete in these mixtures, because unchanged messages are delivered. */
	CHECK_MSG(reached[1] > 500 && reached[0] > 200, "%u targets and %u clients got to the end",
	          reached[1], reached[0]);
}

/* ---- What an unauthenticated peer learns ---- */

/* Existing and unknown names, right and wrong addresses: one answer that depends on no key, and
 * one refusal at the same step. */
static void
test_stranger(void)
{
	set_up();
	for (unsigned int who = 0; who < 3; who++) {
		for (unsigned int where = 0; where < 3; where++) {
			struct host_auth c = client_new(who % 2, where), s = target_new(0);
			uint8_t m[CAP], guess[33] = {3};
			uint32_t n;

			strcpy(c.name, names[who]);
			CHECK_EQ(host_auth_step(&c, NULL, 0, m, CAP, &n), 0);
			CHECK_EQ(host_auth_step(&s, m, n, m, CAP, &n), 0);
			/* only the version and a nonce */
			CHECK_EQ(n, 33);
			CHECK_MEM(m + 1, s.nonce[1], 32);
			CHECK_EQ(host_auth_step(&s, guess, sizeof(guess), m, CAP, &n), -EACCES);
			CHECK_EQ(n, 0);
		}
	}
}

/* The key file signs any octets, as a Verify of an export with that hash_key_file does. No
 * signature obtained in this way is a valid proof of any version. */
static void
test_oracle(void)
{
	const struct weft_hash_ops *hmac = weft_hash_find("hmac-sha256");
	struct key_file raw = key_of("alice");
	struct host_auth c, s, v;
	uint8_t m[CAP], text[CAP], proof[33];
	uint32_t n;

	set_up();
	CHECK(hmac != NULL);
	for (unsigned int how = 0; how < 4; how++) {
		uint8_t *p = text;

		c = client_new(1, 0);
		strcpy(c.name, "alice");
		s = target_new(0);
		CHECK_EQ(host_auth_step(&c, NULL, 0, m, CAP, &n), 0);
		CHECK_EQ(host_auth_step(&s, m, n, m, CAP, &n), 0);
		/* versions 3 and 2 of the signed octets, with the label of either side */
		*p++ = how == 0 ? 3 : how == 1 ? 'c' : how == 2 ? 's' : 2;
		*p++ = 5;
		memcpy(p, "alice", 5);
		p += 5;
		memcpy(p, &s.place, HOST_AUTH_PLACE_BYTES);
		p += HOST_AUTH_PLACE_BYTES;
		memcpy(p, s.nonce, sizeof(s.nonce));
		p += sizeof(s.nonce);
		proof[0] = 3;
		CHECK_EQ(weft_hash_once_keyed(hmac, raw.key, raw.bytes, text, (size_t)(p - text),
		                              proof + 1),
		         0);
		v = s;
		CHECK_EQ(host_auth_step(&v, proof, sizeof(proof), m, CAP, &n), -EACCES);
		/* nor are the derived keys equal to the oracle's output for their labels */
		CHECK_EQ(weft_hash_once_keyed(hmac, raw.key, raw.bytes, "client's proof\001", 15,
		                              proof + 1),
		         0);
		CHECK(memcmp(proof + 1, alice.client, 32) != 0);
	}
	CHECK(memcmp(alice.client, alice.target, 32) != 0);
}

/* A proof made with the keys that the target computes for an unknown name, or with no key. */
static void
test_no_client(void)
{
	static const struct host_auth_keys zero;

	set_up();
	for (unsigned int elsewhere = 0; elsewhere < 2; elsewhere++) {
		struct host_auth c = client_new(0, elsewhere), s = target_new(0);
		uint8_t m[CAP];
		uint32_t n;

		if (!elsewhere)
			strcpy(c.name, "carol");
		c.keys = &zero;
		CHECK_EQ(host_auth_step(&c, NULL, 0, m, CAP, &n), 0);
		CHECK_EQ(host_auth_step(&s, m, n, m, CAP, &n), 0);
		CHECK_EQ(host_auth_step(&c, m, n, m, CAP, &n), 0);
		CHECK_EQ(host_auth_step(&s, m, n, m, CAP, &n), -EACCES);
	}
}

/* ---- Other versions ---- */

/* Both sides refuse every other version, whatever follows, so no downgrade is possible. */
static void
test_downgrade(void)
{
	set_up();
	for (unsigned int v = 0; v < 256; v++) {
		for (unsigned int msg = 0; msg < 4; msg++) {
			struct host_auth c = client_new(0, 0), s = target_new(0);
			struct host_auth *to = msg % 2 == 0 ? &s : &c;
			uint8_t m[CAP];
			uint32_t n;
			int rc = host_auth_step(&c, NULL, 0, m, CAP, &n);

			for (unsigned int i = 0; i <= msg; i++) {
				CHECK(rc >= 0);
				if (i == msg)
					m[0] = (uint8_t)v;
				rc = host_auth_step(i % 2 == 0 ? &s : &c, m, n, m, CAP, &n);
			}
			CHECK_EQ(rc < 0, v != 3);
			CHECK_EQ(to->state == HOST_AUTH_FAILED, v != 3);
		}
	}
}

/* RFC 5869 appendix A.1 to A.3. */
static void
test_hkdf(void)
{
	static const uint8_t want[3][16] = {
	        {0x3c, 0xb2, 0x5f, 0x25, 0xfa, 0xac, 0xd5, 0x7a, 0x90, 0x43, 0x4f, 0x64, 0xd0, 0x36,
	         0x2f, 0x2a},
	        {0xb1, 0x1e, 0x39, 0x8d, 0xc8, 0x03, 0x27, 0xa1, 0xc8, 0xe7, 0xf7, 0x8c, 0x59, 0x6a,
	         0x49, 0x34},
	        {0x8d, 0xa4, 0xe7, 0x75, 0xa5, 0x63, 0xc1, 0x8f, 0x71, 0x5f, 0x80, 0x2a, 0x06, 0x3c,
	         0x5a, 0x31},
	};
	uint8_t ikm[80], salt[80], info[80], out[82];

	memset(ikm, 0x0b, sizeof(ikm));
	for (uint8_t i = 0; i < sizeof(salt); i++) {
		salt[i] = i;
		info[i] = (uint8_t)(0xf0 + i);
	}
	CHECK_EQ(host_auth_hkdf(ikm, 22, salt, 13, info, 10, out, 42), 0);
	CHECK_MEM(out, want[0], 16);
	CHECK_EQ(host_auth_hkdf(ikm, 22, "", 0, "", 0, out, 42), 0);
	CHECK_MEM(out, want[2], 16);
	for (uint8_t i = 0; i < 80; i++) {
		ikm[i] = i;
		salt[i] = (uint8_t)(0x60 + i);
		info[i] = (uint8_t)(0xb0 + i);
	}
	CHECK_EQ(host_auth_hkdf(ikm, 80, salt, 80, info, 80, out, 82), 0);
	CHECK_MEM(out, want[1], 16);
}

WEFT_TEST_MAIN({"an adversary on the network", test_adversary},
               {"a stranger is given nothing to guess against", test_stranger},
               {"what the same octets sign elsewhere", test_oracle},
               {"a name without a client", test_no_client},
               {"no version to be talked down to", test_downgrade}, {"hkdf", test_hkdf})
