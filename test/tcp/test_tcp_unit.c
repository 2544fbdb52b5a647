/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Parts of TCP alone: header codec, options, RTO estimator, keyed hash, state table,
 * attributes. */

#include <stdlib.h>

#include "tcp_conn.h"
#include "tcp_instance.h"
#include "tcp_life.h"
#include "tcp_timer.h"
#include "weft_siphash.h"
#include "weft_test.h"
#include "weft_netif_mbuf.h"
#include "weft_netif.h"

static void
test_header(void)
{
	/* A SYN with MSS, SACK permitted, timestamps, NOP and window scale, as Linux sends it. */
	static const uint8_t wire[40] = {
	        0xd4, 0x31, 0x14, 0x4c, 0x9f, 0x01, 0x02, 0x03, 0x00, 0x00, 0x00, 0x00, 0xa0, 0x02,
	        0xfa, 0xf0, 0x00, 0x00, 0x00, 0x00, 0x02, 0x04, 0x05, 0xb4, 0x04, 0x02, 0x08, 0x0a,
	        0x11, 0x22, 0x33, 0x44, 0x00, 0x00, 0x00, 0x00, 0x01, 0x03, 0x03, 0x07};
	struct tcp_hdr h;
	struct tcp_opts o;
	uint8_t out[20];

	CHECK_EQ(tcp_wire_decode(wire, sizeof(wire), &h), 40);
	CHECK_EQ(h.src_port, 0xd431);
	CHECK_EQ(h.dst_port, 5196);
	CHECK_EQ(h.seq, 0x9f010203);
	CHECK_EQ(h.ack, 0);
	CHECK_EQ(h.flags, TCP_SYN);
	CHECK_EQ(h.wnd, 64240);
	CHECK_EQ(tcp_wire_decode_opts(wire + 20, 20, &o), 0);
	CHECK_EQ(o.mss_bytes, 1460);
	CHECK(o.sack_perm && o.has_ts && o.has_wscale);
	CHECK_EQ(o.ts_val, 0x11223344);
	CHECK_EQ(o.wscale, 7);
	CHECK_EQ(tcp_wire_encode(out, &h), 20);
	CHECK_MEM(out, wire, 20);

	for (uint32_t cut = 0; cut < sizeof(wire); cut++) {
		uint8_t *b = test_heap_copy(wire, cut);

		CHECK_EQ(tcp_wire_decode(b, cut, &h), -EPROTO);
		free(b);
	}
	for (unsigned int off = 0; off < 5; off++) {
		uint8_t *b = test_heap_copy(wire, sizeof(wire));

		b[12] = (uint8_t)(off << 4);
		CHECK_EQ(tcp_wire_decode(b, sizeof(wire), &h), -EPROTO);
		free(b);
	}
}

static void
test_options(void)
{
	static const struct {
		uint8_t len, p[12];
		int rc;
		uint16_t mss;
	} bad[] = {
	        {1, {2}, -EPROTO, 0},       /* no length */
	        {2, {2, 0}, -EPROTO, 0},    /* length 0 */
	        {2, {2, 1}, -EPROTO, 0},    /* length 1 */
	        {3, {2, 4, 5}, -EPROTO, 0}, /* cut */
	        {4, {2, 3, 5, 0}, 0, 0},    /* wrong length: ignored */
	        {4, {3, 4, 5, 0}, 0, 0},
	        {8, {254, 4, 9, 9, 2, 4, 5, 180}, 0, 1460},    /* unknown: skipped */
	        {8, {254, 9, 9, 9, 2, 4, 5, 180}, -EPROTO, 0}, /* unknown beyond the end */
	        {8, {0, 0, 0, 0, 2, 4, 5, 180}, 0, 0},         /* after the end of the list */
	        {8, {1, 1, 1, 1, 2, 4, 5, 180}, 0, 1460},
	        {10, {5, 10, 0, 0, 0, 1, 0, 0, 0, 2}, 0, 0},
	        {2, {5, 2}, 0, 0},
	        {0, {0}, 0, 0},
	};
	struct tcp_opts all = {.mss_bytes = 8960,
	                       .has_wscale = true,
	                       .wscale = 9,
	                       .sack_perm = true,
	                       .has_ts = true,
	                       .ts_val = 1,
	                       .ts_ecr = 2},
	                o;
	struct tcp_opts sack = {
	        .has_ts = true, .nsack = 4, .sack = {{1, 2}, {3, 4}, {5, 6}, {7, 8}}};
	uint8_t out[40];
	unsigned int n;

	for (unsigned int i = 0; i < RTE_DIM(bad); i++) {
		uint8_t *b = test_heap_copy(bad[i].p, bad[i].len);

		CHECK_MSG(tcp_wire_decode_opts(b, bad[i].len, &o) == bad[i].rc, "case %u", i);
		if (bad[i].rc == 0)
			CHECK_EQ(o.mss_bytes, bad[i].mss);
		free(b);
	}
	n = tcp_wire_encode_opts(out, &all);
	CHECK_EQ(n % 4, 0);
	CHECK_EQ(tcp_wire_decode_opts(out, n, &o), 0);
	CHECK_MEM(&o, &all, sizeof(o));
	for (unsigned int cut = 0; cut < n; cut++) {
		uint8_t *b = test_heap_copy(out, cut);

		tcp_wire_decode_opts(b, cut, &o);
		free(b);
	}
	/* With timestamps three blocks fit (RFC 2018 s3). */
	n = tcp_wire_encode_opts(out, &sack);
	CHECK_EQ(n, 40);
	CHECK_EQ(tcp_wire_decode_opts(out, n, &o), 0);
	CHECK_EQ(o.nsack, 3);
	CHECK_EQ(o.sack[2].right, 6);
	/* RFC 7323 s2.3 */
	CHECK_EQ(tcp_wire_decode_opts((const uint8_t[]){3, 3, 200}, 3, &o), 0);
	CHECK_EQ(o.wscale, 14);
	/* Random octets. */
	srand((unsigned int)test_seed(1));
	for (unsigned int i = 0; i < 20000; i++) {
		unsigned int len = (unsigned int)rand() % 41;
		uint8_t *b = malloc(len + 1);

		for (unsigned int k = 0; k < len; k++)
			b[k] = (uint8_t)(rand() % 12);
		b = realloc(b, len > 0 ? len : 1);
		tcp_wire_decode_opts(b, len, &o);
		CHECK(o.nsack <= TCP_SACK_MAX && o.wscale <= TCP_WSCALE_MAX);
		free(b);
	}
}

/** RFC 6298 s2, computed by hand. */
static void
test_rto(void)
{
	static struct weft_tcp t = {
	        .attr = {.rto_min_us = 1000, .rto_max_us = 60000000, .rto_initial_us = 1000000}};
	static struct weft_tcp_conn c = {.t = &t};

	tcp_rtt_init(&c);
	CHECK_EQ(tcp_rto_ns(&c), WEFT_NS_PER_S); /* (2.1) */
	tcp_rtt_sample(&c, 100000);              /* (2.2): 100 ms + 4 * 50 ms */
	CHECK_EQ(c.srtt8_us / 8, 100000);
	CHECK_EQ(c.rttvar4_us / 4, 50000);
	CHECK_EQ(c.rto_us, 300000);
	tcp_rtt_sample(&c, 200000); /* (2.3): var 3/4*50+1/4*100 = 62.5 ms, srtt 112.5 ms */
	CHECK_EQ(c.srtt8_us / 8, 112500);
	CHECK_EQ(c.rttvar4_us / 4, 62500);
	CHECK_EQ(c.rto_us, 112500 + 250000);
	tcp_rtt_sample(&c, 112500); /* var 46.875 ms */
	CHECK_EQ(c.rto_us, 112500 + 187500);
	/* A steady path: the bound by the clock's granularity, and by rto_min. */
	for (unsigned int i = 0; i < 200; i++)
		tcp_rtt_sample(&c, 5000);
	CHECK(c.rto_us >= 5000 + 17 && c.rto_us < 5100);
	t.attr.rto_min_us = 200000;
	tcp_rtt_sample(&c, 5000);
	CHECK_EQ(c.rto_us, 200000);
	/* (5.5) doubling, (2.5) the upper bound. */
	c.backoff = 3;
	CHECK_EQ(tcp_rto_ns(&c), 1600 * WEFT_NS_PER_MS);
	c.backoff = 20;
	CHECK_EQ(tcp_rto_ns(&c), 60 * WEFT_NS_PER_S);
	/* Invalid values neither overflow nor persist. */
	tcp_rtt_sample(&c, UINT32_MAX);
	tcp_rtt_sample(&c, UINT32_MAX);
	CHECK_EQ(c.rto_us, 60000000);
	tcp_rtt_sample(&c, 0);
	CHECK(c.rto_us <= 60000000);
}

static void
test_siphash(void)
{
	/* The reference implementation's vectors of SipHash-2-4 for key 00..0f, input 00 01 02 ..
	 */
	static const uint64_t key[2] = {0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL};
	static const uint64_t w[2] = {0x0706050403020100ULL, 0x0f0e0d0c0b0a0908ULL};

	CHECK(weft_siphash(key, w, 0, 2, 4) == 0x726fdb47dd0e0e31ULL);
	CHECK(weft_siphash(key, w, 1, 2, 4) == 0x93f5f5799a932462ULL);
	CHECK(weft_siphash(key, w, 2, 2, 4) == 0x3f2acc7f57c29bdbULL);
}

/** RFC 6528: other tuples differ by the keyed part. The same tuple changes with the clock. */
static void
test_isn(void)
{
	static struct weft_tcp t = {.keys = {.isn = {1, 2}}};
	static struct weft_tcp_conn c = {.t = &t, .local_port = 1, .remote_port = 2};
	uint32_t a = tcp_isn(&c, 1000000), b;

	CHECK_EQ(tcp_isn(&c, 1000000 + 4000 * 1000) - a, 1000);
	c.remote_port = 3;
	b = tcp_isn(&c, 1000000);
	CHECK(a != b);
	t.keys.isn[0] = 9;
	CHECK(tcp_isn(&c, 1000000) != b);
}

static void
test_states(void)
{
	for (unsigned int s = 0; s < WEFT_TCP_NSTATES; s++) {
		CHECK(tcp_states[s].name != NULL);
		CHECK_STR(weft_tcp_state_name(s), tcp_states[s].name);
		/* Every state but CLOSED may become CLOSED, and none leads to itself. */
		CHECK(s == WEFT_TCP_CLOSED || (tcp_states[s].next & 1u << WEFT_TCP_CLOSED) != 0);
		CHECK((tcp_states[s].next & 1u << s) == 0);
	}
	CHECK_STR(weft_tcp_state_name(WEFT_TCP_NSTATES), "?");
}

static void
fill(void *arg, void *buf, size_t len)
{
	(void)arg;
	memset(buf, 0x5a, len);
}

static struct weft_tcp *
machine(const struct weft_tcp_attr *attr, struct weft_sched *sched)
{
	struct weft_tcp *t;

	test_eal_init();
	*sched = (struct weft_sched){.rand = {.fill = fill}};
	TAILQ_INIT(&sched->run);
	weft_wheel_init(&sched->wheel, WEFT_NS_PER_S);
	CHECK_EQ(weft_tcp_create(attr, sched, &t), 0);
	return t;
}

/** Retransmission timeouts: given values may not contradict each other, and the defaults keep
 * within them. */
static void
test_attr_rto(void)
{
	static const struct {
		uint32_t min_us, initial_us, max_us;
		int rc;
		uint32_t want[3];
	} rows[] = {
	        {0, 0, 0, 0, {200000, 1000000, 60000000}},
	        {2000000, 0, 0, 0, {2000000, 2000000, 60000000}},
	        {0, 0, 100000, 0, {100000, 100000, 100000}},
	        {5000, 5000, 5000, 0, {5000, 5000, 5000}},
	        {0, 60000000, 0, 0, {200000, 60000000, 60000000}},
	        {2000000, 0, 1999999, -EINVAL, {0}},
	        {2000000, 1999999, 0, -EINVAL, {0}},
	        {0, 199999, 0, -EINVAL, {0}},
	        {0, 60000001, 0, -EINVAL, {0}},
	        {60000001, 0, 0, -EINVAL, {0}},
	};

	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		const struct weft_tcp_attr own = {.rto_min_us = rows[i].min_us,
		                                  .rto_initial_us = rows[i].initial_us,
		                                  .rto_max_us = rows[i].max_us};
		struct weft_sched sched = {.rand = {.fill = fill}};
		struct weft_tcp *t = NULL;
		int rc;

		test_eal_init();
		TAILQ_INIT(&sched.run);
		weft_wheel_init(&sched.wheel, WEFT_NS_PER_S);
		rc = weft_tcp_create(&own, &sched, &t);
		CHECK_MSG(rc == rows[i].rc, "row %u: %d", i, rc);
		if (rc != 0)
			continue;
		CHECK_EQ(t->attr.rto_min_us, rows[i].want[0]);
		CHECK_EQ(t->attr.rto_initial_us, rows[i].want[1]);
		CHECK_EQ(t->attr.rto_max_us, rows[i].want[2]);
		weft_tcp_destroy(t);
	}
}

/** The defaults of weft/tcp_attr.h for attributes that are 0. Other values are used unchanged. */
static void
test_defaults(void)
{
#define ATTR(field, value)                                                                         \
	{                                                                                          \
#field, offsetof(struct weft_tcp_attr, field), value                               \
	}
	static const struct {
		const char *name;
		size_t at;
		uint32_t value;
	} rows[] = {
	        ATTR(max_conns, 1024),
	        ATTR(max_ooo_bytes, 1u << 20),
	        ATTR(rcv_buf_bytes, 1u << 20),
	        ATTR(snd_buf_bytes, 4u << 20),
	        ATTR(rto_min_us, 200000),
	        ATTR(rto_initial_us, 1000000),
	        ATTR(rto_max_us, 60000000),
	        ATTR(syn_retries, 7),
	        ATTR(data_retries, 8),
	        ATTR(delack_us, 500),
	        ATTR(time_wait_us, 1000000),
	        ATTR(keepalive_us, 0),
	        ATTR(keepalive_probes, 3),
	        ATTR(initial_cwnd_segs, 10),
	        ATTR(user_timeout_us, 100000000),
	        ATTR(max_snd_segs, 2048),
	        ATTR(max_ooo_mbufs, 1024),
	        ATTR(max_half_open, 256),
	        ATTR(max_conns_per_peer, 512),
	        ATTR(max_accepts_per_s, 0),
	        ATTR(max_time_wait, 512),
	        ATTR(challenge_acks_per_s, 1000),
	        ATTR(resets_per_s, 1000),
	        ATTR(fin_wait2_us, 60000000),
	        ATTR(min_mss_bytes, 64),
	        ATTR(pmtu_raise_us, 600000000),
	        ATTR(blackhole_rtos, 3),
	        ATTR(ooo_timeout_us, 30000000),
	        ATTR(snd_stall_us, 30000000),
	};
#undef ATTR
	struct weft_sched sched;
	struct weft_tcp *t = machine(NULL, &sched);
	struct weft_tcp_attr own = {.keepalive_us = 3000};

	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		uint32_t v = *(const uint32_t *)(const void *)((const char *)&t->attr + rows[i].at);

		CHECK_MSG(v == rows[i].value, "%s is %u, not %u", rows[i].name, v, rows[i].value);
	}
	weft_tcp_destroy(t);
	t = machine(&own, &sched);
	CHECK_EQ(t->attr.keepalive_intvl_us, 1000);
	weft_tcp_destroy(t);
	for (unsigned int i = 0; i < RTE_DIM(rows); i++)
		*(uint32_t *)(void *)((char *)&own + rows[i].at) = 70 + i;
	t = machine(&own, &sched);
	for (unsigned int i = 0; i < RTE_DIM(rows); i++)
		CHECK_EQ(*(const uint32_t *)(const void *)((const char *)&t->attr + rows[i].at),
		         70 + i);
	weft_tcp_destroy(t);
}

/** Established connections in the order of their numbers, a few numbers at a time. The walk ends
 * after the last number, and not before. */
static void
test_conn_next(void)
{
	const struct weft_tcp_attr attr = {.max_conns = 7};
	struct weft_sched sched;
	struct weft_tcp *t = machine(&attr, &sched);

	for (uint32_t looks = 1; looks <= 8; looks++)
		for (uint32_t live = 0; live <= 7; live++) {
			unsigned int found = 0, calls = 0;

			for (uint32_t i = 0; i < 7; i++)
				t->conns[i].dead = i != live;
			for (uint32_t id = 0; id != UINT32_MAX; calls++) {
				const uint32_t from = id;
				struct weft_tcp_conn *c = weft_tcp_conn_next(t, &id, looks);

				CHECK(id == UINT32_MAX || (id > from && id <= from + looks));
				CHECK(id == UINT32_MAX || id <= 7);
				if (c != NULL) {
					CHECK_EQ(weft_tcp_conn_id(c), live);
					CHECK_EQ(id, live + 1);
					found++;
				} else if (id != UINT32_MAX) {
					CHECK_EQ(id, from + looks);
				}
				CHECK(calls < 10);
			}
			CHECK_EQ(found, live < 7);
		}
	for (uint32_t i = 0; i < 7; i++)
		t->conns[i].dead = true;
	weft_tcp_destroy(t);
}

/** More segments may follow a burst that is at least half of the largest, by its segments or by its
 * octets, whatever its segments are. */
static void
test_busy(void)
{
	struct rte_mbuf *m[WEFT_NETIF_BURST];
	struct rte_mempool *pool;
	struct weft_sched sched;
	struct weft_tcp *t = machine(NULL, &sched);

	CHECK_EQ(weft_netif_pool_create("tcp_unit", 63, 2000, SOCKET_ID_ANY, &pool), 0);
	for (unsigned int n = 1; n <= WEFT_NETIF_BURST; n++) {
		CHECK_EQ(rte_pktmbuf_alloc_bulk(pool, m, n), 0);
		for (unsigned int i = 0; i < n; i++)
			memset(rte_pktmbuf_append(m[i], TCP_HDR_LEN), 0, TCP_HDR_LEN);
		t->busy_rx_ns = 0;
		weft_tcp_rx(t, NULL, m, n, n);
		CHECK_EQ(t->busy_rx_ns, n >= WEFT_NETIF_BURST / 2 ? n : 0);
	}
	/* Nor has a burst of long segments to be of many: 24 KiB are half of the largest. */
	for (unsigned int n = 12; n <= WEFT_NETIF_BURST / 2 - 1; n++) {
		const uint16_t len = 24 * 1024 / 14;

		CHECK_EQ(rte_pktmbuf_alloc_bulk(pool, m, n), 0);
		for (unsigned int i = 0; i < n; i++)
			memset(rte_pktmbuf_append(m[i], len), 0, len);
		rte_pktmbuf_append(m[0], 24 * 1024 - 14 * len)[0] = 0;
		t->busy_rx_ns = 0;
		weft_tcp_rx(t, NULL, m, n, n);
		CHECK_EQ(t->busy_rx_ns, n >= 14 ? n : 0);
		t->stats.segs_in -= n;
		t->stats.rx_bad -= n;
	}
	CHECK_EQ(t->stats.rx_bad, WEFT_NETIF_BURST * (WEFT_NETIF_BURST + 1) / 2);
	CHECK_EQ(t->stats.segs_in, t->stats.rx_bad);
	CHECK_EQ(rte_mempool_in_use_count(pool), 0);
	rte_mempool_free(pool);
	weft_tcp_destroy(t);
}

WEFT_TEST_MAIN({"header", test_header}, {"options", test_options}, {"rto", test_rto},
               {"siphash", test_siphash}, {"isn", test_isn}, {"states", test_states},
               {"defaults", test_defaults}, {"attr_rto", test_attr_rto},
               {"conn_next", test_conn_next}, {"busy", test_busy})
