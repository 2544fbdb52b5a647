/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Which slow operations are kept and logged, and the packets that are taken out of captures:
 * files that are whole, cut, damaged at random, and full. */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "target_pcap.h"
#include "target_slow.h"
#include "weft_test.h"

/* ---- Which ones are kept ---- */

static void
slow(struct slow_ring *r, const char *peer)
{
	struct slow_op *s = slow_place(r, slow_class(r, "", peer));

	s->op = "read";
	snprintf(s->peer, sizeof(s->peer), "%s", peer);
}

static unsigned int
held(const struct slow_ring *r, const char *peer)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < SLOW_KEPT; i++)
		n += r->ops[i].op != NULL && strcmp(r->ops[i].peer, peer) == 0;
	return n;
}

/* One client may have all places while others need none. It then makes room, and keeps its last. */
static void
test_fair(void)
{
	struct slow_ring *r = calloc(1, sizeof(*r));
	uint64_t least = UINT64_MAX;

	r->key = 7;
	for (unsigned int i = 0; i < 1000; i++)
		slow(r, "10.0.0.2:5000");
	CHECK_EQ(held(r, "10.0.0.2:5000"), SLOW_KEPT);
	CHECK_EQ(r->crowded, 1000 - SLOW_KEPT);
	for (unsigned int i = 0; i < 10; i++)
		slow(r, "10.0.0.3:5000");
	for (unsigned int i = 0; i < 100000; i++)
		slow(r, "10.0.0.2:5001");
	CHECK_EQ(held(r, "10.0.0.3:5000"), 10);
	CHECK_EQ(held(r, "10.0.0.2:5001"), SLOW_KEPT - 10);
	CHECK_EQ(r->seen, 1000 + 10 + 100000);
	for (unsigned int i = 0; i < SLOW_KEPT; i++)
		if (strcmp(r->ops[i].peer, "10.0.0.2:5001") == 0 && r->ops[i].number < least)
			least = r->ops[i].number;
	CHECK_EQ(least, r->seen - (SLOW_KEPT - 10));
	/* Two that both want all have one half each. */
	for (unsigned int i = 0; i < 1000; i++) {
		slow(r, "10.0.0.2:5001");
		slow(r, "[fd00::3]:5000");
		slow(r, "[fd00::3]:5000");
	}
	CHECK(held(r, "[fd00::3]:5000") >= (SLOW_KEPT - 10) / 2 - 1);
	CHECK(held(r, "10.0.0.2:5001") >= (SLOW_KEPT - 10) / 2 - 1);
	CHECK_EQ(held(r, "10.0.0.3:5000"), 10);
	free(r);
}

/* A client is its name, or else its address without the port. It has a line each SLOW_SAY_NS. */
static void
test_class(void)
{
	struct slow_ring *r = calloc(1, sizeof(*r));
	const uint8_t two = slow_class(r, "", "10.0.0.2:5000");
	const uint64_t at = 5 * SLOW_SAY_NS;
	unsigned int differ = 0;

	CHECK_EQ(slow_class(r, "", "10.0.0.2:5001"), two);
	CHECK_EQ(slow_class(r, "alice", "10.0.0.2:5000"), slow_class(r, "alice", "10.0.0.3:7"));
	for (unsigned int i = 0; i < 100; i++) {
		char peer[32];

		snprintf(peer, sizeof(peer), "10.0.1.%u:5000", i);
		differ += slow_class(r, "", peer) != two;
	}
	CHECK(differ > 90);
	CHECK(slow_may_say(r, two, at) && slow_may_say(r, two, at));
	slow_said(r, two, at);
	CHECK(!slow_may_say(r, two, at + SLOW_SAY_NS - 1));
	CHECK_EQ(r->unsaid, 1);
	CHECK(slow_may_say(r, (uint8_t)(two + 1), at + 1));
	CHECK(slow_may_say(r, two, at + SLOW_SAY_NS));
	free(r);
}

/* ---- Packets ---- */

struct file {
	uint8_t buf[1 << 16];
	size_t len;
};

static void
put(struct file *f, const void *data, size_t len)
{
	CHECK(f->len + len <= sizeof(f->buf));
	memcpy(f->buf + f->len, data, len);
	f->len += len;
}

static void
put32(struct file *f, uint32_t v)
{
	put(f, &v, sizeof(v));
}

static void
put_section(struct file *f)
{
	static const uint8_t ns[] = {9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0};

	put32(f, 0x0a0d0d0a);
	put32(f, 28);
	put32(f, 0x1a2b3c4d);
	put32(f, 1);
	put32(f, UINT32_MAX);
	put32(f, UINT32_MAX);
	put32(f, 28);
	/* An interface of Ethernet, in nanoseconds. */
	put32(f, 1);
	put32(f, 20 + sizeof(ns));
	put32(f, 1);
	put32(f, 0);
	put(f, ns, sizeof(ns));
	put32(f, 20 + sizeof(ns));
}

/** A segment from 10.0.0.`from`:port to 10.0.0.1:7471, behind `vlans` tags. */
static void
put_packet(struct file *f, uint64_t at_ns, uint8_t from, uint16_t port, unsigned int vlans)
{
	uint8_t p[64] = {0}; /* 14 + 8 + 40, and padding */
	const uint32_t n = 14 + 4 * vlans + 40;
	uint8_t *ip = p + 14 + 4 * vlans;

	for (unsigned int i = 0; i < vlans; i++)
		p[12 + 4 * i] = 0x81;
	ip[-2] = 8;
	ip[0] = 0x45;
	ip[9] = 6;
	memcpy(ip + 12, (uint8_t[]){10, 0, 0, from, 10, 0, 0, 1}, 8);
	port = htons(port);
	memcpy(ip + 20, &port, 2);
	port = htons(7471);
	memcpy(ip + 22, &port, 2);
	put32(f, 6);
	put32(f, 32 + (n + 3) / 4 * 4);
	put32(f, 0);
	put32(f, (uint32_t)(at_ns >> 32));
	put32(f, (uint32_t)at_ns);
	put32(f, n);
	put32(f, n);
	put(f, p, (n + 3) / 4 * 4);
	put32(f, 32 + (n + 3) / 4 * 4);
}

static struct pcap_want
want(uint8_t host, uint16_t port, uint64_t from_ns, uint64_t until_ns)
{
	struct pcap_want w = {.from_ns = from_ns, .until_ns = until_ns, .took.max = 1 << 20};
	struct sockaddr_in *in = (struct sockaddr_in *)&w.peer;

	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(0x0a000000u + host);
	in->sin_port = htons(port);
	return w;
}

static int
take(const uint8_t *data, size_t len, struct pcap_want *w, unsigned int n)
{
	char name[] = "/tmp/weft-test-slow.XXXXXX";
	int fd = mkstemp(name), rc;

	CHECK(fd >= 0 && write(fd, data, len) == (ssize_t)len && lseek(fd, 0, SEEK_SET) == 0);
	unlink(name);
	rc = pcap_take(fd, w, n, NULL, NULL);
	close(fd);
	return rc;
}

/* Each want gets its packets, in a file of its own that can be read again. */
static void
test_packets(void)
{
	struct file f = {0};
	struct pcap_want w[3] = {want(2, 5000, 100, 200), want(3, 5000, 0, UINT64_MAX),
	                         want(2, 6000, 0, UINT64_MAX)};
	struct pcap_want again = want(2, 5000, 150, 150);

	put_section(&f);
	put_packet(&f, 99, 2, 5000, 0);
	put_packet(&f, 100, 2, 5000, 0);
	put_packet(&f, 150, 2, 5000, 2);
	put_packet(&f, 160, 2, 5001, 0);
	put_packet(&f, 170, 3, 5000, 1);
	put_section(&f);
	put_packet(&f, 200, 2, 5000, 0);
	put_packet(&f, 201, 2, 5000, 0);
	CHECK_EQ(take(f.buf, f.len, w, 3), 0);
	CHECK_EQ(w[0].took.packets, 3);
	CHECK_EQ(w[1].took.packets, 1);
	CHECK_EQ(w[2].took.packets, 0);
	CHECK(w[2].took.buf == NULL && w[0].took.left == 0);
	CHECK_EQ(take(w[0].took.buf, w[0].took.len, &again, 1), 0);
	CHECK_EQ(again.took.packets, 1);
	free(w[0].took.buf);
	free(w[1].took.buf);
	free(again.took.buf);
}

/* What has no room is counted. */
static void
test_full(void)
{
	struct file f = {0};
	struct pcap_want w = want(2, 5000, 0, UINT64_MAX);

	w.took.max = 300;
	put_section(&f);
	for (unsigned int i = 0; i < 10; i++)
		put_packet(&f, i, 2, 5000, 0);
	CHECK_EQ(take(f.buf, f.len, &w, 1), 0);
	CHECK(w.took.packets > 0 && w.took.len <= 300);
	CHECK_EQ(w.took.packets + w.took.left, 10);
	free(w.took.buf);
}

static bool
goes_on(void *arg)
{
	unsigned int *left = arg;

	return *left > 0 && (*left)--;
}

/* The reading of a long file can be ended, and what was taken until then stays. */
static void
test_ended(void)
{
	const unsigned int parts = 40;
	uint32_t all = 0, before = 0;
	struct file f = {0};
	uint8_t *long_file;

	put_section(&f);
	while (f.len + 200 < sizeof(f.buf)) {
		put_packet(&f, 1, 2, 5000, 0);
		all++;
	}
	long_file = malloc(parts * f.len);
	for (unsigned int i = 0; i < parts; i++)
		memcpy(long_file + i * f.len, f.buf, f.len);
	all *= parts;
	for (unsigned int reads = 0; reads < 3; reads++) {
		struct pcap_want w = want(2, 5000, 0, UINT64_MAX);
		char name[] = "/tmp/weft-test-slow.XXXXXX";
		unsigned int left = reads;
		int fd = mkstemp(name);

		CHECK(fd >= 0 && write(fd, long_file, parts * f.len) == (ssize_t)(parts * f.len));
		CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
		unlink(name);
		CHECK_EQ(pcap_take(fd, &w, 1, goes_on, &left), -ECANCELED);
		CHECK(w.took.packets + w.took.left < all);
		CHECK(reads == 0 ? w.took.packets == 0 : w.took.packets + w.took.left > before);
		before = w.took.packets + w.took.left;
		close(fd);
		free(w.took.buf);
	}
	free(long_file);
}

/* A file that is cut anywhere, or damaged at random: what is read is within the file, and what was
 * taken is whole. */
static void
test_damaged(void)
{
	const uint64_t seed = test_seed((uint64_t)time(NULL));
	unsigned short x[3] = {(unsigned short)seed, (unsigned short)(seed >> 16), 1};
	struct file f = {0};

	test_seed_note(seed);
	put_section(&f);
	for (unsigned int i = 0; i < 8; i++)
		put_packet(&f, i, 2, 5000, i % 3);
	for (unsigned int round = 0; round < 3000; round++) {
		size_t len = round < f.len ? round : f.len;
		uint8_t *copy = malloc(len + 1); /* exact: what is read beyond is found */
		struct pcap_want w = want(2, 5000, 0, UINT64_MAX), again = w;

		memcpy(copy, f.buf, len);
		if (round >= f.len)
			for (long k = nrand48(x) % 4; k < 4; k++)
				copy[(size_t)nrand48(x) % len] = (uint8_t)nrand48(x);
		(void)take(copy, len, &w, 1);
		CHECK(w.took.packets <= 8);
		if (w.took.packets > 0)
			CHECK_EQ(take(w.took.buf, w.took.len, &again, 1), 0);
		CHECK_EQ(again.took.packets, w.took.packets);
		free(w.took.buf);
		free(again.took.buf);
		free(copy);
	}
}

WEFT_TEST_MAIN({"places are shared", test_fair}, {"classes of clients", test_class},
               {"packets of connections", test_packets}, {"no room for packets", test_full},
               {"the reading is ended", test_ended}, {"damaged captures", test_damaged})
