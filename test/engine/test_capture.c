/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Captures of a live port: the content of the file, start and stop while the port runs,
 * filters, limits. */

#define ALLOW_EXPERIMENTAL_API /* rte_pcapng */

#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_eth_ring.h>
#include <rte_mempool.h>
#include <rte_pcapng.h>

#include <weft/weft.h>
#include "weft_engine.h"
#include "weft_netif_mbuf.h"
#include "weft_netif_port.h"
#include "weft_test.h"

#define MAC_OF_PEER                                                                                \
	{                                                                                          \
		0x02, 0, 0, 0, 0, 0x99                                                             \
	}

static struct rte_ring *wire;
static struct rte_mempool *pool;
static struct weft_ctx *ctx;
static struct weft_port *port;
static struct weft_worker *w;
static char path[64];
static int64_t began_ns; /* the time of day when the port was opened */

static int64_t
real_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/** Open a port whose receive ring the test fills. Packets that the port sends come back into the
 * same ring. */
static void
up(void)
{
	struct weft_port_attr pa = {
	        .size = sizeof(pa), .name = "p", .prefix_len = 24, .mbufs = 1024};
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001)};
	static unsigned int serial;
	char name[32];

	test_eal_init();
	began_ns = real_ns();
	snprintf(name, sizeof(name), "cap_wire%u", serial++);
	wire = rte_ring_create(name, 1024, SOCKET_ID_ANY, 0);
	CHECK(wire != NULL);
	CHECK(rte_eth_from_rings(name, &wire, 1, &wire, 1, 0) >= 0);
	snprintf(path, sizeof(path), "/tmp/weft-capture-%ld", (long)getpid());
	snprintf(name, sizeof(name), "net_ring_cap_wire%u", serial - 1);
	pa.dev = name;
	memcpy(&pa.addr, &sa, sizeof(sa));
	CHECK_EQ(weft_ctx_create(NULL, &ctx), 0);
	CHECK_EQ(weft_port_open(ctx, &pa, &port), 0);
	CHECK_EQ(weft_worker_create(ctx, NULL, &w), 0);
	CHECK_EQ(weft_worker_add_port(w, port), 0);
	if (pool == NULL)
		CHECK_EQ(weft_netif_pool_create("cap_test", 255, 1500, SOCKET_ID_ANY, &pool), 0);
}

static void
down(void)
{
	struct rte_mbuf *m;

	while (rte_ring_dequeue(wire, (void **)&m) == 0)
		rte_pktmbuf_free(m);
	weft_ctx_destroy(ctx);
	rte_ring_free(wire);
	unlink(path);
	CHECK_EQ(rte_mempool_avail_count(pool), 255);
}

/** Inject an IPv4 TCP segment without checksums, from addr:sport to dport. The capture does not
 * check it. */
static void
inject(uint32_t addr, uint16_t sport, uint16_t dport, uint8_t data)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	static const uint8_t peer[6] = MAC_OF_PEER;
	uint8_t *p;

	CHECK(m != NULL);
	p = rte_pktmbuf_mtod(m, uint8_t *);
	m->data_len = 55;
	m->pkt_len = 55;
	memset(p, 0, 55);
	memset(p, 0xff, 6);
	memcpy(p + 6, peer, 6);
	p[12] = 8;
	p[14] = 0x45;
	p[17] = 41;
	p[22] = 64;
	p[23] = IPPROTO_TCP;
	addr = htonl(addr);
	memcpy(p + 26, &addr, 4);
	addr = htonl(0x0a000001);
	memcpy(p + 30, &addr, 4);
	weft_put_be16(p + 34, sport);
	weft_put_be16(p + 36, dport);
	p[46] = 0x50;
	p[54] = data;
	CHECK_EQ(rte_ring_enqueue(wire, m), 0);
}

/** The stamp of a packet is the time of day, in nanoseconds. */
static void
check_stamp(const uint8_t *at)
{
	const int64_t now = real_ns();
	uint32_t high, low;
	int64_t ns;

	memcpy(&high, at, 4);
	memcpy(&low, at + 4, 4);
	ns = (int64_t)((uint64_t)high << 32 | low);
	CHECK_MSG(ns >= began_ns - 1000000 && ns <= now + 1000000,
	          "stamped %lld; it came from %lld to %lld", (long long)ns, (long long)began_ns,
	          (long long)now);
}

/** Read the file's Enhanced Packet Blocks: frames and flags. Returns their number. */
static unsigned int
read_file(uint8_t frame[][64], uint32_t flags[], unsigned int max)
{
	static uint8_t buf[1 << 20];
	int fd = open(path, O_RDONLY);
	ssize_t len = read(fd, buf, sizeof(buf));
	unsigned int n = 0;

	CHECK(len > 0);
	close(fd);
	for (ssize_t off = 0; off + 12 <= len;) {
		uint32_t type, blen, clen, tail, opt;

		memcpy(&type, buf + off, 4);
		memcpy(&blen, buf + off + 4, 4);
		CHECK(blen >= 12 && blen % 4 == 0 && off + blen <= len);
		memcpy(&tail, buf + off + blen - 4, 4);
		CHECK_EQ(tail, blen);
		if (off == 0)
			CHECK_EQ(type, 0x0a0d0d0a); /* Section Header Block */
		if (type == 6 && n < max) {
			memcpy(&clen, buf + off + 20, 4);
			memset(frame[n], 0, 64);
			memcpy(frame[n], buf + off + 28, RTE_MIN(clen, 64u));
			memcpy(&opt, buf + off + 28 + RTE_ALIGN(clen, 4), 4);
			CHECK_EQ(opt, 4u << 16 | 2); /* epb_flags */
			check_stamp(buf + off + 12);
			memcpy(&flags[n], buf + off + 32 + RTE_ALIGN(clen, 4), 4);
			n++;
		}
		off += blen;
	}
	return n;
}

static void
poll_all(void)
{
	for (unsigned int i = 0; i < 4; i++)
		weft_worker_poll(w);
}

static void
test_on_off(void)
{
	struct weft_capture_attr ca = {.size = sizeof(ca), .path = path};
	struct weft_capture_stats st;
	uint8_t frame[64][64];
	uint32_t flags[64];
	unsigned int n;
	struct stat sb;
	bool in = false;

	up();
	inject(0x0a000002, 5000, 6000, 1);
	poll_all();
	CHECK_EQ(weft_capture_start(port, &ca), 0);
	CHECK_EQ(weft_capture_stats(port, &st), 0);
	CHECK_EQ(weft_capture_start(port, &ca), -EBUSY);
	for (uint8_t i = 2; i < 5; i++)
		inject(0x0a000002, 5000, 6000, i);
	poll_all();
	CHECK_EQ(weft_capture_stop(port, &st), 0);
	CHECK_EQ(weft_capture_stop(port, &st), -ENOENT);
	inject(0x0a000002, 5000, 6000, 9);
	poll_all();
	CHECK_EQ(st.error, 0);
	CHECK_EQ(st.dropped, 0);
	n = read_file(frame, flags, 64);
	CHECK_EQ(n, st.packets);
	CHECK_EQ(stat(path, &sb), 0);
	CHECK_EQ((uint64_t)sb.st_size, st.file_bytes);
	CHECK_EQ(sb.st_mode & 0777, 0600);
	for (unsigned int i = 0, next = 2; i < n; i++) {
		if (frame[i][12] == 8 && frame[i][13] == 0) {
			CHECK_EQ(frame[i][54], next);
			next++;
			CHECK_EQ(flags[i] & 3, 1);
			in = next == 5;
		}
	}
	CHECK(in);
	down();
}

/** rte_pcapng counts from a time that a packet of any thread moves: here one that is 3 s ahead of
 * the packets of the worker. */
static void
test_stamps(void)
{
	struct weft_capture_attr ca = {.size = sizeof(ca), .path = path};
	struct weft_capture_stats st;
	uint8_t frame[64][64];
	uint32_t flags[64];
	struct rte_mbuf *m, *copy;

	up();
	CHECK_EQ(weft_capture_start(port, &ca), 0);
	m = rte_pktmbuf_alloc(pool);
	CHECK(m != NULL && rte_pktmbuf_append(m, 60) != NULL);
	copy = rte_pcapng_copy(weft_engine_port_dev(port)->port_id, 0, m, pool, 60,
	                       rte_get_tsc_cycles() + 3 * rte_get_tsc_hz(),
	                       RTE_PCAPNG_DIRECTION_IN);
	CHECK(copy != NULL);
	rte_pktmbuf_free(copy);
	rte_pktmbuf_free(m);
	inject(0x0a000002, 5000, 6000, 1);
	poll_all();
	CHECK_EQ(weft_capture_stop(port, &st), 0);
	CHECK_EQ(read_file(frame, flags, 64), st.packets); /* checks the stamps */
	CHECK(st.packets > 0);
	down();
}

static void
test_filter(void)
{
	struct weft_capture_attr ca = {.size = sizeof(ca), .path = path};
	struct sockaddr_in remote = {.sin_family = AF_INET,
	                             .sin_addr.s_addr = htonl(0x0a000002),
	                             .sin_port = htons(5000)};
	struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = htons(6000)};
	struct weft_capture_stats st;
	uint8_t frame[64][64];
	uint32_t flags[64];

	up();
	memcpy(&ca.remote, &remote, sizeof(remote));
	memcpy(&ca.local, &local, sizeof(local));
	ca.snaplen_bytes = 55;
	CHECK_EQ(weft_capture_start(port, &ca), 0);
	inject(0x0a000002, 5000, 6000, 1); /* this connection */
	inject(0x0a000003, 5000, 6000, 2); /* from another host */
	inject(0x0a000002, 5001, 6000, 3); /* with other ports */
	inject(0x0a000002, 5000, 6001, 4);
	poll_all();
	CHECK_EQ(weft_capture_stop(port, &st), 0);
	CHECK_EQ(st.packets, 1);
	CHECK_EQ(read_file(frame, flags, 64), 1);
	CHECK_EQ(frame[0][54], 1);
	down();
}

/** Inject a valid frame, and behind it a frame with one changed octet and this length. */
static void
inject_odd(unsigned int at, uint8_t to, uint16_t len)
{
	struct rte_mbuf *m;

	inject(0x0a000002, 5000, 6000, 1);
	inject(0x0a000002, 5000, 6000, 9);
	/* Change the last frame of the ring: dequeue all and enqueue them again. */
	for (unsigned int n = rte_ring_count(wire); n > 0; n--) {
		CHECK_EQ(rte_ring_dequeue(wire, (void **)&m), 0);
		if (n == 1) {
			rte_pktmbuf_mtod(m, uint8_t *)[at] = to;
			m->data_len = m->pkt_len = len;
		}
		CHECK_EQ(rte_ring_enqueue(wire, m), 0);
	}
}

/** Inject a frame of the same connection by IPv6 to fd00::`to`, with or without a VLAN tag. */
static void
inject6(bool tag, uint8_t proto, uint16_t dport, uint8_t to)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	static const uint8_t peer[6] = MAC_OF_PEER;
	uint32_t l3 = tag ? 18 : 14;
	uint8_t *p;

	CHECK(m != NULL);
	p = rte_pktmbuf_mtod(m, uint8_t *);
	m->data_len = m->pkt_len = (uint16_t)(l3 + 60);
	memset(p, 0, l3 + 60);
	memset(p, 0xff, 6);
	memcpy(p + 6, peer, 6);
	if (tag)
		weft_put_be16(p + 12, 0x8100);
	weft_put_be16(p + l3 - 2, 0x86dd);
	p[l3] = 0x60;
	p[l3 + 5] = 20;
	p[l3 + 6] = proto;
	p[l3 + 8] = 0xfd;
	p[l3 + 23] = 2;
	p[l3 + 24] = 0xfd;
	p[l3 + 39] = to;
	weft_put_be16(p + l3 + 40, 5000);
	weft_put_be16(p + l3 + 42, dport);
	CHECK_EQ(rte_ring_enqueue(wire, m), 0);
}

/** A packet that is no TCP segment belongs to no connection, even if its octets match the ports. */
static void
test_filter_odd(void)
{
	struct weft_capture_attr ca = {.size = sizeof(ca), .path = path};
	struct sockaddr_in remote = {.sin_family = AF_INET,
	                             .sin_addr.s_addr = htonl(0x0a000002),
	                             .sin_port = htons(5000)};
	struct sockaddr_in6 remote6 = {.sin6_family = AF_INET6,
	                               .sin6_addr.s6_addr = {0xfd, [15] = 2},
	                               .sin6_port = htons(5000)};
	static const struct {
		uint8_t at, to;
		uint16_t len;
	} odd[] = {
	        {23, IPPROTO_UDP, 55}, {20, 0x01, 55}, {21, 0x01, 55}, {14, 0x44, 55},
	        {13, 6, 55},           {12, 9, 55},    {54, 1, 37},    {54, 1, 20},
	        {54, 1, 33},           {14, 0x4f, 55},
	};
	struct weft_capture_stats st;
	uint8_t frame[64][64];
	uint32_t flags[64];

	up();
	memcpy(&ca.remote, &remote, sizeof(remote));
	CHECK_EQ(weft_capture_start(port, &ca), 0);
	for (unsigned int i = 0; i < RTE_DIM(odd); i++) {
		inject_odd(odd[i].at, odd[i].to, odd[i].len);
		poll_all();
	}
	CHECK_EQ(weft_capture_stop(port, &st), 0);
	CHECK_EQ(st.packets, RTE_DIM(odd));
	CHECK_EQ(read_file(frame, flags, 64), RTE_DIM(odd));
	for (unsigned int i = 0; i < RTE_DIM(odd); i++)
		CHECK_EQ(frame[i][54], 1);
	/* IPv6, with and without a VLAN tag. */
	memset(&ca.remote, 0, sizeof(ca.remote));
	memcpy(&ca.remote, &remote6, sizeof(remote6));
	CHECK_EQ(weft_capture_start(port, &ca), 0);
	for (unsigned int tag = 0; tag < 2; tag++) {
		inject6(tag, IPPROTO_TCP, 6000, 1);
		inject6(tag, IPPROTO_UDP, 6001, 1);
		inject(0x0a000002, 5000, 6002, 1);
		poll_all();
	}
	CHECK_EQ(weft_capture_stop(port, &st), 0);
	CHECK_EQ(st.packets, 2);
	CHECK_EQ(read_file(frame, flags, 64), 2);
	CHECK_EQ(weft_get_be16(frame[0] + 14 + 42), 6000);
	CHECK_EQ(weft_get_be16(frame[1] + 18 + 42), 6000);
	/* A filter by the local or the remote address alone. Packets go to several addresses, and
	 * one matches. */
	for (unsigned int by = 0; by < 2; by++) {
		memset(&ca.local, 0, sizeof(ca.local));
		memset(&ca.remote, 0, sizeof(ca.remote));
		remote6.sin6_port = 0;
		remote6.sin6_addr.s6_addr[15] = by == 0 ? 7 : 2;
		memcpy(by == 0 ? &ca.local : &ca.remote, &remote6, sizeof(remote6));
		CHECK_EQ(weft_capture_start(port, &ca), 0);
		for (uint8_t to = 5; to < 9; to++)
			inject6(false, IPPROTO_TCP, (uint16_t)(6000 + to), to);
		poll_all();
		CHECK_EQ(weft_capture_stop(port, &st), 0);
		CHECK_EQ(st.packets, by == 0 ? 1 : 4);
		CHECK_EQ(read_file(frame, flags, 64), by == 0 ? 1 : 4);
		CHECK_EQ(weft_get_be16(frame[0] + 14 + 42), by == 0 ? 6007 : 6005);
	}
	down();
}

static void
test_limits(void)
{
	struct weft_capture_attr ca = {.size = sizeof(ca), .path = "/nonexistent/x"};
	struct weft_capture_stats st;
	struct stat sb;

	up();
	CHECK_EQ(weft_capture_start(port, &ca), -ENOENT);
	ca.path = NULL;
	CHECK_EQ(weft_capture_start(port, &ca), -EINVAL);
	ca.path = path;
	/* A FIFO without a reader: neither start nor stop may wait for one. */
	CHECK_EQ(mkfifo(path, 0600), 0);
	CHECK_EQ(weft_capture_start(port, &ca), -ENXIO);
	CHECK_EQ(unlink(path), 0);
	ca.path = "/dev/null";
	CHECK_EQ(weft_capture_start(port, &ca), -EINVAL);
	ca.path = path;
	ca.max_bytes = 1000;
	CHECK_EQ(weft_capture_start(port, &ca), 0);
	for (unsigned int i = 0; i < 40; i++)
		inject(0x0a000002, 5000, 6000, 1);
	poll_all();
	CHECK_EQ(weft_capture_stop(port, &st), 0);
	CHECK(st.packets > 0 && st.dropped > 0);
	CHECK_EQ(stat(path, &sb), 0);
	CHECK(sb.st_size <= 1000);
	/* A capture that is not stopped ends with its context. */
	CHECK_EQ(weft_capture_start(port, &ca), 0);
	down();
}

/** The sequence number of the next segment of inject_fpdus(). */
static uint32_t next_seq;

/** Inject a segment with two FPDUs of these opcodes; `first` octets stand before them. */
static void
inject_fpdus(uint8_t op1, uint8_t op2, unsigned int first)
{
	const uint16_t len = (uint16_t)(first + 28 + 24);
	struct rte_mbuf *m;
	uint8_t *p;

	inject(0x0a000002, 5000, 6000, 0);
	/* The last frame of the ring gets a payload. */
	for (unsigned int n = rte_ring_count(wire); n > 0; n--) {
		CHECK_EQ(rte_ring_dequeue(wire, (void **)&m), 0);
		if (n == 1) {
			p = rte_pktmbuf_mtod(m, uint8_t *);
			weft_put_be16(p + 16, (uint16_t)(40 + len));
			weft_put_be32(p + 38, next_seq);
			p += 54;
			memset(p, 0, 200);
			p += first;
			/* A DDP segment of 21 octets, one of padding, the CRC. */
			weft_put_be16(p, 21);
			p[2] = op1 == 0 || op1 == 2 ? 0xc1 : 0x41;
			p[3] = 0x40 | op1;
			weft_put_be16(p + 28, 18);
			p[30] = op2 == 0 || op2 == 2 ? 0xc1 : 0x41;
			p[31] = 0x40 | op2;
			m->data_len = m->pkt_len = (uint16_t)(54 + len);
			next_seq += len;
		}
		CHECK_EQ(rte_ring_enqueue(wire, m), 0);
	}
}

/** By opcode, by the port of either end, and by another filter while the capture runs. */
static void
test_filter_change(void)
{
	struct weft_capture_attr ca = {
	        .size = sizeof(ca), .path = path, .opcodes = 1u << 3 | 1u << 0};
	struct weft_capture_stats st;

	up();
	CHECK_EQ(weft_capture_filter(port, &ca), -ENOENT);
	CHECK_EQ(weft_capture_start(port, &ca), 0);
	inject_fpdus(3, 1, 0); /* Send is the first */
	inject_fpdus(1, 0, 0); /* RDMA Write is the second */
	inject_fpdus(1, 2, 0);
	inject_fpdus(3, 3, 1); /* begins in the middle of an FPDU */
	poll_all();
	usleep(10000);
	CHECK_EQ(weft_capture_stats(port, &st), 0);
	CHECK_EQ(st.unknown, 0);
	inject(0x0a000002, 5000, 6000, 1); /* an old octet, of no known FPDU */
	poll_all();
	usleep(10000);
	CHECK_EQ(weft_capture_stats(port, &st), 0);
	CHECK_EQ(st.unknown, 1);
	ca.keep_unknown = 1;
	CHECK_EQ(weft_capture_filter(port, &ca), 0);
	inject(0x0a000002, 5000, 6000, 1); /* captured, though it is not known */
	poll_all();
	ca.keep_unknown = 2;
	CHECK_EQ(weft_capture_filter(port, &ca), -EINVAL);
	ca.keep_unknown = 0;
	ca.opcodes = 1u << 2;
	ca.port = 6000;
	CHECK_EQ(weft_capture_filter(port, &ca), 0);
	inject_fpdus(1, 2, 0); /* matches */
	inject_fpdus(3, 1, 0);
	poll_all();
	ca.opcodes = 0;
	ca.port = 6001;
	CHECK_EQ(weft_capture_filter(port, &ca), 0);
	inject(0x0a000002, 5000, 6001, 1); /* matches */
	inject(0x0a000002, 6001, 5000, 1); /* matches */
	inject(0x0a000002, 6000, 5000, 1);
	poll_all();
	ca.remote.ss_family = AF_UNIX;
	CHECK_EQ(weft_capture_filter(port, &ca), -EINVAL);
	ca.remote.ss_family = 0;
	ca.port = 65536;
	CHECK_EQ(weft_capture_filter(port, &ca), -EINVAL);
	CHECK_EQ(weft_capture_stop(port, &st), 0);
	CHECK_EQ(st.packets, 7);
	CHECK_EQ(st.unknown, 2);
	CHECK_EQ(st.files, 1);
	down();
}

/** A ring of three files: each begins as a file of its own, and none is too long. */
static void
test_ring(void)
{
	struct weft_capture_attr ca = {.size = sizeof(ca),
	                               .path = path,
	                               .max_bytes = WEFT_CAPTURE_FILE_MIN,
	                               .ring_files = 3};
	char name[sizeof(path) + 8], whole[sizeof(path)];
	static uint8_t frame[4096][64];
	static uint32_t flags[4096];
	struct weft_capture_stats st;
	uint64_t bytes = 0, n = 0;
	struct stat sb;

	up();
	ca.max_bytes--;
	CHECK_EQ(weft_capture_start(port, &ca), -EINVAL);
	ca.max_bytes++;
	ca.ring_files = WEFT_CAPTURE_FILES_MAX + 1;
	CHECK_EQ(weft_capture_start(port, &ca), -EINVAL);
	ca.ring_files = 3;
	CHECK_EQ(weft_capture_start(port, &ca), 0);
	/* Until the ring has turned once, and a half. */
	do {
		for (unsigned int i = 0; i < 32; i++)
			inject(0x0a000002, 5000, 6000, 1);
		poll_all();
		n += 32;
		usleep(1000);
		CHECK_EQ(weft_capture_stats(port, &st), 0);
	} while (st.files < 5);
	CHECK_EQ(weft_capture_stop(port, &st), 0);
	CHECK_EQ(st.error, 0);
	CHECK(st.packets + st.dropped >= n);
	CHECK_EQ(access(path, F_OK), -1);
	memcpy(whole, path, sizeof(path));
	for (unsigned int i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "%s.%u", whole, i);
		CHECK_EQ(stat(name, &sb), 0);
		CHECK((uint64_t)sb.st_size <= ca.max_bytes);
		bytes += (uint64_t)sb.st_size;
		memcpy(path, name, sizeof(path));
		CHECK(read_file(frame, flags, 4096) > 0);
		CHECK_EQ(unlink(name), 0);
	}
	/* Two of the five files were written over. */
	CHECK(st.file_bytes > bytes);
	memcpy(path, whole, sizeof(path));
	snprintf(name, sizeof(name), "%s.3", whole);
	CHECK_EQ(access(name, F_OK), -1);
	down();
}

WEFT_TEST_MAIN({"on and off", test_on_off}, {"one connection", test_filter},
               {"stamps", test_stamps}, {"no connection", test_filter_odd}, {"limits", test_limits},
               {"another filter while it runs", test_filter_change}, {"a ring of files", test_ring})
