/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file What a scanner learns from timestamps and initial sequence numbers: nothing of our clock,
 * of other connections, or of another host. Also, the guarantees that they give to one connection.
 */

#include <stdlib.h>

#include "tcp_peer.h"
#include "tcp_conn.h"
#include "tcp_defend.h"
#include "tcp_hdr.h"
#include "tcp_instance.h"
#include "tcp_life.h"

#define CONNS 512

/** Send a SYN from this port. Returns our answer, and ends the connection with a RST. */
static struct net_seg
answer(uint16_t port)
{
	struct tcp_opts o = {.mss_bytes = MSS, .sack_perm = true, .has_ts = true, .ts_val = 1};
	struct tcp_hdr h = {
	        .src_port = port, .dst_port = 7, .seq = IRS, .wnd = 65535, .flags = TCP_SYN};
	struct net_seg s;

	net_raw(&net, &h, &o, 0, 0);
	run_for(20 * WEFT_NS_PER_US);
	s = last();
	CHECK_EQ(s.h.flags, TCP_SYN | TCP_ACK);
	CHECK(s.opts.has_ts);
	h.flags = TCP_RST;
	h.seq = IRS + 1;
	net_raw(&net, &h, NULL, 0, 0);
	run_for(20 * WEFT_NS_PER_US);
	return s;
}

static int
by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/** Numbers of a scan are spread over all 32 bits: no two are as close as one clock would make
 * them. */
static void
check_spread(uint32_t v[CONNS], const char *what)
{
	unsigned int near = 0, eighth[8] = {0};

	for (unsigned int i = 0; i < CONNS; i++)
		eighth[v[i] >> 29]++;
	qsort(v, CONNS, sizeof(v[0]), by_number);
	for (unsigned int i = 1; i < CONNS; i++)
		near += v[i] - v[i - 1] < 1u << 13;
	/* 64 and about half of one are expected. */
	for (unsigned int i = 0; i < 8; i++)
		CHECK_MSG(eighth[i] > 20 && eighth[i] < 130, "%s: %u of %u in one eighth", what,
		          eighth[i], CONNS);
	CHECK_MSG(near < 8, "%s: %u are near another one", what, near);
}

static void
test_scan(void)
{
	static const enum weft_tcp_cookies mode[] = {WEFT_TCP_COOKIES_NEVER,
	                                             WEFT_TCP_COOKIES_ALWAYS};
	static uint32_t ts[CONNS], isn[CONNS];

	for (unsigned int k = 0; k < RTE_DIM(mode); k++) {
		up(&(struct weft_tcp_attr){.syn_cookies = mode[k]});
		for (unsigned int i = 0; i < CONNS; i++) {
			struct net_seg s = answer((uint16_t)(10000 + i));

			ts[i] = s.opts.ts_val;
			/* The upper bits of a cookie hold the slot and the MSS. */
			isn[i] = k == 0 ? s.h.seq : s.h.seq << 4;
		}
		check_spread(ts, "timestamps");
		check_spread(isn, "sequence numbers");
		app = NULL;
		net_down(&net);
	}
}

/**
 * RFC 7323 s5.4, s7.1 and RFC 6191: incarnations of one connection see one clock that never goes
 * back, with a cookie or without; RFC 6528: their sequence numbers rise by 250 in a millisecond.
 */
static void
test_incarnations(void)
{
	up(&(struct weft_tcp_attr){.syn_cookies = WEFT_TCP_COOKIES_AUTO});
	for (unsigned int i = 0; i < 20; i++) {
		uint16_t port = (uint16_t)(10000 + i);
		struct net_seg a = answer(port), b, cookie;

		run_for(10 * WEFT_NS_PER_S);
		b = answer(port);
		CHECK(b.opts.ts_val - a.opts.ts_val - 10000 <= 1);
		CHECK(b.h.seq - a.h.seq - 2500000 < 250);
		net.node[0].tcp->attr.syn_cookies = WEFT_TCP_COOKIES_ALWAYS;
		cookie = answer(port);
		/* Six of its bits hold options, so it is behind the clock by 64 ticks at most. */
		CHECK(weft_seq_leq(cookie.opts.ts_val, b.opts.ts_val + 1));
		CHECK(b.opts.ts_val - cookie.opts.ts_val <= 64);
		net.node[0].tcp->attr.syn_cookies = WEFT_TCP_COOKIES_AUTO;
	}
	app = NULL;
	net_down(&net);
}

/** RFC 7323 s7.1: a clock for each pair of addresses and ports. A change in any octet gives
 * another clock. */
static void
test_pairs(void)
{
	uint32_t ts[3 + 2 * 16];
	struct weft_ip ip[2] = {weft_ip_from_v4(0x0100000a), weft_ip_from_v4(0x0100000a)};
	static struct weft_tcp t = {.keys.ts = {1, 2}};
	unsigned int n = 0;

	ts[n++] = tcp_ts_offset(&t, &ip[0], 7, &ip[1], PORT);
	ts[n++] = tcp_ts_offset(&t, &ip[0], 8, &ip[1], PORT);
	ts[n++] = tcp_ts_offset(&t, &ip[0], 7, &ip[1], PORT + 1);
	for (unsigned int i = 0; i < 2; i++)
		for (unsigned int k = 0; k < 16; k++) {
			ip[i].b[k] ^= 1;
			ts[n++] = tcp_ts_offset(&t, &ip[0], 7, &ip[1], PORT);
			ip[i].b[k] ^= 1;
		}
	for (unsigned int i = 0; i < n; i++)
		for (unsigned int k = 0; k < i; k++)
			CHECK_MSG(ts[i] != ts[k], "%u and %u", k, i);
}

/** Another host with the same uptime has other numbers for the same connection. */
static void
test_machines(void)
{
	static uint32_t ts[CONNS], isn[CONNS];
	struct weft_tcp_conn c = {.local_port = 7, .remote_port = PORT};
	struct weft_ip ip = weft_ip_from_v4(0x0100000a);
	static struct weft_tcp t;

	c.t = &t;
	for (unsigned int i = 0; i < CONNS; i++) {
		t.keys.ts[0] = t.keys.isn[0] = i;
		ts[i] = tcp_ts_offset(&t, &ip, 7, &ip, PORT);
		isn[i] = tcp_isn(&c, 0);
	}
	check_spread(ts, "timestamps of machines");
	check_spread(isn, "sequence numbers of machines");
}

/** Cookies of hosts with the same uptime have either parity, so the parity does not reveal it. */
static void
test_slots(void)
{
	static struct weft_tcp t;
	unsigned int odd[4] = {0};

	for (uint64_t i = 0; i < CONNS; i++) {
		t.cookie_key[0] = i * 0x9e3779b97f4a7c15ULL;
		for (unsigned int k = 0; k < RTE_DIM(odd); k++)
			odd[k] += tcp_cookie_slot(&t, k * 64 * WEFT_NS_PER_S) % 2;
		CHECK_EQ(tcp_cookie_slot(&t, 64 * WEFT_NS_PER_S) - tcp_cookie_slot(&t, 0), 1);
	}
	for (unsigned int k = 0; k < RTE_DIM(odd); k++)
		CHECK_MSG(odd[k] > CONNS / 3 && odd[k] < CONNS / 3 * 2, "%u of %u odd", odd[k],
		          CONNS);
}

/** Connections with the same slot in one host's table have different slots in another's, because
 * the hash has a key. */
static void
test_table(void)
{
	enum { MASK = 2047, SAME = 64 };
	struct weft_ip us = weft_ip_from_v4(0x0100000a), ip = us;
	static struct weft_tcp t[2] = {{.hash_key = {1}}, {.hash_key = {2}}};
	unsigned int in[MASK + 1] = {0}, most = 0, found = 0;

	for (uint32_t i = 0; found < SAME; i++) {
		uint32_t host = rte_cpu_to_be_32(0x0a000000 + (i >> 14));
		uint16_t port = (uint16_t)(1024 + (i & 0x3fff));
		unsigned int *n;

		ip = weft_ip_from_v4(host);
		if ((tcp_tuple_hash(&t[0], &us, 7, &ip, port) & MASK) != 5)
			continue;
		n = &in[tcp_tuple_hash(&t[1], &us, 7, &ip, port) & MASK];
		most = RTE_MAX(most, ++*n);
		found++;
	}
	CHECK_MSG(most <= 4, "%u of %u in one bucket", most, (unsigned int)SAME);
}

WEFT_TEST_MAIN({"a scan", test_scan}, {"incarnations", test_incarnations},
               {"machines", test_machines}, {"pairs", test_pairs}, {"cookies", test_slots},
               {"the table", test_table})
