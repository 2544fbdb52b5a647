/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The poll loop without traffic: alarms, calls, sleeping, limits of contexts and workers. */

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_ethdev.h>

#include <weft/weft.h>
#include "weft_engine.h"
#include "weft_netif_mbuf.h"
#include "weft_test.h"

/** Read weft's clock and the system's clock at one moment, in ns: the reading with the shortest
 * time in between. */
static void
both_clocks(uint64_t *weft, uint64_t *sys)
{
	uint64_t width = UINT64_MAX;

	for (int i = 0; i < 20; i++) {
		uint64_t before = weft_engine_clock_ns(), after;
		struct timespec ts;

		clock_gettime(CLOCK_MONOTONIC, &ts);
		after = weft_engine_clock_ns();
		if (after - before >= width)
			continue;
		width = after - before;
		*weft = before + width / 2;
		*sys = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
	}
}

/** weft's clock has the system's rate, although DPDK rounds the frequency of the processor. */
static void
test_clock(void)
{
	uint64_t weft[2] = {0}, sys[2] = {0};
	double ratio;

	test_eal_init();
	both_clocks(&weft[0], &sys[0]);
	usleep(200000);
	both_clocks(&weft[1], &sys[1]);
	ratio = (double)(weft[1] - weft[0]) / (double)(sys[1] - sys[0]);
	CHECK(ratio > 0.9999 && ratio < 1.0001);
}

static void
seeded(void *arg, void *buf, size_t len)
{
	uint64_t *x = arg;

	for (size_t i = 0; i < len; i++) {
		*x = *x * 6364136223846793005ULL + 1442695040888963407ULL;
		((uint8_t *)buf)[i] = (uint8_t)(*x >> 56);
	}
}

static void
test_attributes(void)
{
	struct weft_ctx_attr ca = {.size = sizeof(ca), .max_workers = 2};
	struct weft_worker_attr wa = {.size = 4};
	struct weft_worker *w;
	struct weft_ctx *ctx;

	test_eal_init();
	CHECK(weft_version()[0] >= '0' && weft_version()[0] <= '9');
	ca.max_workers = 1000;
	CHECK_EQ(weft_ctx_create(&ca, &ctx), -EINVAL);
	ca.max_workers = 2;
	CHECK_EQ(weft_ctx_create(&ca, &ctx), 0);
	CHECK_EQ(weft_worker_create(ctx, &wa, &w), -EINVAL);
	CHECK_EQ(weft_worker_create(ctx, NULL, &w), 0);
	CHECK(weft_worker_get(ctx, 0) == w);
	CHECK_EQ(weft_worker_create(ctx, NULL, &w), 0);
	CHECK(weft_worker_get(ctx, 1) == w && weft_worker_get(ctx, 2) == NULL);
	CHECK_EQ(weft_worker_create(ctx, NULL, &w), -ENOSPC);
	weft_ctx_destroy(ctx);
}

static void
test_port_errors(void)
{
	struct weft_port_attr pa = {.size = sizeof(pa), .name = "p", .dev = "net_nonsense0"};
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = 0x0100000a};
	struct weft_port *port;
	struct weft_ctx *ctx;

	test_eal_init();
	CHECK_EQ(weft_ctx_create(NULL, &ctx), 0);
	CHECK_EQ(weft_port_open(ctx, &pa, &port), -EINVAL); /* without an address */
	memcpy(&pa.addr, &sa, sizeof(sa));
	CHECK_EQ(weft_port_open(ctx, &pa, &port), -EINVAL); /* without a prefix */
	pa.prefix_len = 24;
	pa.mtu_bytes = 100;
	CHECK_EQ(weft_port_open(ctx, &pa, &port), -EINVAL);
	pa.mtu_bytes = 0;
	CHECK_EQ(weft_port_open(ctx, &pa, &port), -ENODEV);
	pa.dev = "net_null0";
	CHECK_EQ(weft_port_open(ctx, &pa, &port), 0);
	CHECK_STR(weft_port_name(port), "p");
	CHECK(weft_port_get(ctx, 0) == port && weft_port_get(ctx, 1) == NULL);
	struct weft_port *twice;
	CHECK_EQ(weft_port_open(ctx, &pa, &twice), -EEXIST);
	struct weft_port_stats st;
	CHECK_EQ(weft_port_stats(port, &st), 0);
	CHECK_EQ(st.mtu_bytes, 1500);
	struct weft_worker *w[2];
	CHECK_EQ(weft_worker_create(ctx, NULL, &w[0]), 0);
	CHECK_EQ(weft_worker_create(ctx, NULL, &w[1]), 0);
	CHECK_EQ(weft_worker_add_port(w[0], port), 0);
	CHECK_EQ(weft_worker_add_port(w[1], port), -EBUSY);
	pa.name = "many";
	pa.queues = 65;
	CHECK_EQ(weft_port_open(ctx, &pa, &port), -EINVAL);
	weft_ctx_destroy(ctx);
}

/** TCP attributes of a context apply to its workers' TCP instances. */
static void
test_tcp_attr(void)
{
	struct weft_tcp_attr ta = {.size = sizeof(ta), .max_conns = 3, .rto_min_us = 5000};
	struct weft_ctx_attr ca = {.size = sizeof(ca), .tcp = &ta};
	struct weft_tcp_conn *c[4];
	struct weft_ip dst = weft_ip_from_v4(htonl(0x0a000002));
	static const struct weft_tcp_conn_ops ops;
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001)};
	struct weft_port_attr pa = {
	        .size = sizeof(pa), .name = "p", .dev = "net_null5", .prefix_len = 24};
	struct weft_port *port;
	struct weft_worker *w;
	struct weft_ctx *ctx;

	test_eal_init();
	ta.size = 4;
	CHECK_EQ(weft_ctx_create(&ca, &ctx), -EINVAL);
	ta.size = sizeof(ta);
	CHECK_EQ(weft_ctx_create(&ca, &ctx), 0);
	memcpy(&pa.addr, &sa, sizeof(sa));
	CHECK_EQ(weft_port_open(ctx, &pa, &port), 0);
	CHECK_EQ(weft_worker_create(ctx, NULL, &w), 0);
	CHECK_EQ(weft_worker_add_port(w, port), 0);
	for (unsigned int i = 0; i < 3; i++)
		CHECK_EQ(weft_tcp_connect(weft_engine_tcp(w), weft_engine_netif(w, 0), NULL, &dst,
		                          7, &ops, NULL, &c[i]),
		         0);
	CHECK_EQ(weft_tcp_connect(weft_engine_tcp(w), weft_engine_netif(w, 0), NULL, &dst, 7, &ops,
	                          NULL, &c[3]),
	         -EMFILE);
	weft_ctx_destroy(ctx);
}

/** The algorithm of a connection. */
static const char *
cc_of(const struct weft_tcp_conn *c)
{
	struct weft_tcp_info i;

	weft_tcp_info(c, &i);
	return i.cc_name;
}

/** A change applies to connections that are opened after the worker's next poll. */
static void
test_set_tcp(void)
{
	struct weft_tcp_change change = {.size = sizeof(change), .cc = WEFT_TCP_CC_NEWRENO};
	struct weft_tcp_conn *c[4];
	struct weft_ip dst = weft_ip_from_v4(htonl(0x0a000002));
	static const struct weft_tcp_conn_ops ops;
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001)};
	struct weft_port_attr pa = {
	        .size = sizeof(pa), .name = "p", .dev = "net_null6", .prefix_len = 24};
	struct weft_port *port;
	struct weft_worker *w;
	struct weft_ctx *ctx;

	test_eal_init();
	CHECK_EQ(weft_ctx_create(NULL, &ctx), 0);
	memcpy(&pa.addr, &sa, sizeof(sa));
	CHECK_EQ(weft_port_open(ctx, &pa, &port), 0);
	CHECK_EQ(weft_worker_create(ctx, NULL, &w), 0);
	CHECK_EQ(weft_worker_add_port(w, port), 0);
	for (unsigned int i = 0; i < 4; i++) {
		CHECK_EQ(weft_tcp_connect(weft_engine_tcp(w), weft_engine_netif(w, 0), NULL, &dst,
		                          7, &ops, NULL, &c[i]),
		         0);
		if (i == 0)
			CHECK_EQ(weft_worker_set_tcp(w, &change), 0); /* not polled yet */
		if (i == 1)
			weft_worker_poll(w);
		/* Zero changes nothing. This thread polls the worker now. */
		change.cc = WEFT_TCP_CC_DEFAULT;
		if (i == 2)
			CHECK_EQ(weft_worker_set_tcp(w, &change), 0);
	}
	CHECK(strcmp(cc_of(c[0]), "cubic") == 0);
	CHECK(strcmp(cc_of(c[1]), "cubic") == 0);
	CHECK(strcmp(cc_of(c[2]), "newreno") == 0);
	CHECK(strcmp(cc_of(c[3]), "newreno") == 0);
	change.cc = 3;
	CHECK_EQ(weft_worker_set_tcp(w, &change), -EINVAL);
	change.cc = WEFT_TCP_CC_CUBIC;
	change.size = 12;
	CHECK_EQ(weft_worker_set_tcp(w, &change), -EINVAL);
	CHECK_EQ(weft_worker_set_tcp(w, NULL), -EINVAL);
	CHECK_EQ(weft_worker_set_tcp(NULL, &change), -EINVAL);
	weft_ctx_destroy(ctx);
}

struct ring_bell {
	unsigned int n;
	struct weft_worker *w;
	struct weft_alarm *other;
};

static void
ring(void *arg)
{
	struct ring_bell *b = arg;

	b->n++;
	if (b->other != NULL)
		weft_alarm_cancel(b->other);
	b->other = NULL;
}

static void
test_alarms(void)
{
	uint64_t x = 1, t0 = 5000000000ULL, octets[2] = {0};
	struct weft_rand r = {.fill = seeded, .arg = &x};
	struct ring_bell b = {0}, never = {0};
	struct weft_worker *w;
	struct weft_alarm *a;
	struct weft_ctx *ctx;

	test_eal_init();
	CHECK_EQ(weft_engine_ctx_create(NULL, &r, NULL, &ctx), 0);
	CHECK_EQ(weft_engine_worker_create(ctx, NULL, NULL, &r, t0, &w), 0);
	weft_engine_poll_at(w, t0);
	CHECK_EQ(weft_worker_now_ns(w), t0);
	weft_worker_random(w, octets, sizeof(octets)); /* from the worker's random numbers */
	CHECK(octets[0] != 0 && octets[0] != octets[1]);
	CHECK_EQ(weft_engine_next_ns(w), UINT64_MAX);
	CHECK_EQ(weft_alarm_set(w, 1000, ring, &b, &a), 0);
	CHECK_EQ(weft_alarm_set(w, 2000, ring, &never, &b.other), 0);
	CHECK(weft_engine_next_ns(w) <= t0 + 1100000);
	weft_engine_poll_at(w, t0 + 999999);
	CHECK_EQ(b.n, 0);
	weft_engine_poll_at(w, t0 + 1020000);
	CHECK_EQ(b.n, 1);
	weft_engine_poll_at(w, t0 + 10000000000);
	CHECK_EQ(b.n, 1);
	CHECK_EQ(never.n, 0);
	CHECK_EQ(weft_alarm_set(w, UINT64_MAX, ring, &never, &a), 0); /* freed with the context */
	weft_ctx_destroy(ctx);
	CHECK_EQ(never.n, 0);
}

static void
test_idle(void)
{
	struct ring_bell b = {0};
	struct weft_worker *w;
	struct weft_alarm *a;
	struct weft_ctx *ctx;
	uint64_t start;

	test_eal_init();
	CHECK_EQ(weft_ctx_create(NULL, &ctx), 0);
	CHECK_EQ(weft_worker_create(ctx, NULL, &w), 0);
	while (weft_worker_poll(w) > 0)
		;
	start = test_now_us();
	weft_worker_idle(w, 20000);
	CHECK(test_now_us() - start >= 19000);
	/* not longer than until an alarm */
	CHECK_EQ(weft_alarm_set(w, 5000, ring, &b, &a), 0);
	start = test_now_us();
	while (b.n == 0) {
		weft_worker_idle(w, 10000000);
		weft_worker_poll(w);
	}
	CHECK(test_now_us() - start >= 4900);
	CHECK(test_now_us() - start < 2000000);
	weft_ctx_destroy(ctx);
}

struct sleeper {
	struct weft_worker *w;
	struct ring_bell bell;
};

static void *
call_soon(void *arg)
{
	struct sleeper *s = arg;

	usleep(20000);
	CHECK_EQ(weft_worker_call(s->w, ring, &s->bell), 0);
	return NULL;
}

/** weft_worker_sleep() sleeps as long as the worker's own loop would, and a call ends it. */
static void
test_sleep(void)
{
	const struct weft_worker_attr attr = {.size = sizeof(attr), .idle_sleep_us = 1000000};
	struct sleeper b = {0};
	struct weft_ctx *ctx;
	pthread_t t;
	uint64_t start;

	test_eal_init();
	CHECK_EQ(weft_ctx_create(NULL, &ctx), 0);
	CHECK_EQ(weft_worker_create(ctx, &attr, &b.w), 0);
	while (weft_worker_poll(b.w) > 0)
		;
	/* a sixteenth of the idle time */
	start = test_now_us();
	CHECK_EQ(weft_worker_sleep(b.w, 320000), 0);
	CHECK(test_now_us() - start >= 19000);
	/* a thread's call comes long before the sixteenth */
	CHECK_EQ(pthread_create(&t, NULL, call_soon, &b), 0);
	start = test_now_us();
	CHECK_EQ(weft_worker_sleep(b.w, 16000000), 0);
	CHECK(test_now_us() - start < 900000);
	pthread_join(t, NULL);
	(void)weft_worker_poll(b.w);
	CHECK_EQ(b.bell.n, 1);
	weft_ctx_destroy(ctx);
}

static void *
stop_soon(void *arg)
{
	usleep(30000);
	weft_worker_stop_async(arg);
	return NULL;
}

static void
test_run_here(void)
{
	struct weft_worker_stats st;
	struct weft_worker *w;
	struct weft_ctx *ctx;
	pthread_t th;

	test_eal_init();
	CHECK_EQ(weft_ctx_create(NULL, &ctx), 0);
	CHECK_EQ(weft_worker_create(ctx, NULL, &w), 0);
	CHECK_EQ(pthread_create(&th, NULL, stop_soon, w), 0);
	CHECK_EQ(weft_worker_run(w), 0);
	pthread_join(th, NULL);
	weft_worker_stats(w, &st);
	CHECK(st.polls > 10);
	/* The worker slept most of the time. A busy loop would poll a hundred thousand times. */
	CHECK(st.polls < 50000);
	weft_ctx_destroy(ctx);
}

static void *
poll_once(void *arg)
{
	return (void *)(intptr_t)weft_worker_poll(arg);
}

/** Called during a poll: a poll on another thread fails with -EBUSY. */
static void
poll_elsewhere(void *arg)
{
	struct weft_worker *w = arg;
	pthread_t th;
	void *rc;

	CHECK_EQ(pthread_create(&th, NULL, poll_once, w), 0);
	CHECK_EQ(pthread_join(th, &rc), 0);
	CHECK_EQ((intptr_t)rc, -EBUSY);
	CHECK(weft_worker_is_mine(w));
}

/** A second thread that polls gets an error while the first one polls. It may poll when the first
 * one does not. */
static void
test_two_pollers(void)
{
	struct weft_worker *w;
	struct weft_alarm *a;
	struct weft_ctx *ctx;
	pthread_t th;
	void *rc;

	test_eal_init();
	CHECK_EQ(weft_worker_poll(NULL), -EINVAL);
	CHECK_EQ(weft_worker_run(NULL), -EINVAL);
	CHECK_EQ(weft_ctx_create(NULL, &ctx), 0);
	CHECK_EQ(weft_worker_create(ctx, NULL, &w), 0);
	while (weft_worker_poll(w) > 0)
		;
	CHECK_EQ(weft_alarm_set(w, 0, poll_elsewhere, w, &a), 0);
	while (weft_worker_poll(w) == 0)
		;
	weft_worker_detach(w);
	CHECK_EQ(pthread_create(&th, NULL, poll_once, w), 0);
	CHECK_EQ(pthread_join(th, &rc), 0);
	CHECK((intptr_t)rc >= 0);
	CHECK(weft_worker_poll(w) >= 0);
	weft_ctx_destroy(ctx);
}

static void
work_for(void *arg)
{
	uint64_t end = test_now_us() + *(uint32_t *)arg + 1;

	while (test_now_us() < end)
		;
}

/** Every poll with work is counted once in the histogram, in the bucket of its duration. */
static void
test_poll_hist(void)
{
	static struct weft_poll_hist h, first;
	uint32_t short_us = 100, long_us = 5000;
	struct weft_worker_stats st;
	struct weft_alarm *a;
	struct weft_worker *w;
	struct weft_ctx *ctx;
	uint64_t over = 0;

	test_eal_init();
	CHECK_EQ(weft_ctx_create(NULL, &ctx), 0);
	CHECK_EQ(weft_worker_create(ctx, NULL, &w), 0);
	CHECK_EQ(weft_worker_poll_hist(w, &h), -EINVAL);
	h.size = first.size = sizeof(h);
	CHECK_EQ(weft_worker_poll_hist(w, &h), 0);
	CHECK_EQ(h.polls, 0);
	CHECK_EQ(weft_poll_hist_pct_ns(&h, 99), 0);
	for (unsigned int i = 1; i < WEFT_POLL_HIST_BUCKETS; i++)
		CHECK(h.bucket[i].below_ns >= h.bucket[i - 1].below_ns);

	CHECK_EQ(weft_alarm_set(w, 0, work_for, &long_us, &a), 0);
	while (weft_worker_poll(w) == 0)
		;
	CHECK_EQ(weft_worker_poll_hist(w, &first), 0);
	CHECK_EQ(first.polls, 1);
	CHECK(first.max_ns >= 5000000 && first.sum_ns == first.max_ns);
	CHECK(weft_poll_hist_pct_ns(&first, 50) >= 5000000);
	for (int i = 0; i < 20; i++) {
		CHECK_EQ(weft_alarm_set(w, 0, work_for, &short_us, &a), 0);
		while (weft_worker_poll(w) == 0)
			;
	}
	CHECK_EQ(weft_worker_poll(w), 0);
	CHECK_EQ(weft_worker_poll_hist(w, &h), 0);
	weft_worker_stats(w, &st);
	CHECK_EQ(h.polls, st.busy_polls);
	CHECK_EQ(h.polls, 21);
	CHECK(st.polls > 21); /* polls without work are not counted */
	for (unsigned int i = 0; i < WEFT_POLL_HIST_BUCKETS; i++)
		over += h.bucket[i].below_ns > 100000 ? h.bucket[i].polls : 0;
	CHECK_EQ(over, 21);
	CHECK(weft_poll_hist_pct_ns(&h, 1) >= 100000);
	CHECK(weft_poll_hist_pct_ns(&h, 100) >= 5000000);
	weft_poll_hist_since(&h, &first);
	CHECK_EQ(h.polls, 20);
	CHECK(h.sum_ns >= 20 * 100000 && h.max_ns >= 100000);
	CHECK(h.max_ns <= weft_poll_hist_pct_ns(&h, 100));
	weft_ctx_destroy(ctx);
}

/** A memif server that is slow between its creation and being ready for clients. */
static void *
slow_server(void *arg)
{
	uint16_t id = *(uint16_t *)arg;

	usleep(300000);
	return rte_eth_dev_start(id) == 0 ? NULL : arg;
}

static void
test_memif_early_client(void)
{
	struct weft_port_attr pa = {.size = sizeof(pa), .name = "p", .prefix_len = 24};
	struct sockaddr_in *sin = (struct sockaddr_in *)&pa.addr;
	struct rte_eth_conf conf = {0};
	struct weft_port_stats st;
	struct rte_mempool *pool;
	char args[256], dev[256];
	struct weft_port *port;
	struct weft_ctx *ctx;
	pthread_t th;
	uint16_t id;
	void *bad;

	test_eal_init();
	snprintf(args, sizeof(args),
	         "role=server,id=4,socket=/tmp/weft-early-%ld,socket-abstract=no", (long)getpid());
	snprintf(dev, sizeof(dev),
	         "net_memif8,role=client,id=4,socket=/tmp/weft-early-%ld,socket-abstract=no",
	         (long)getpid());
	CHECK_EQ(rte_eal_hotplug_add("vdev", "net_memif7", args), 0);
	CHECK_EQ(rte_eth_dev_get_port_by_name("net_memif7", &id), 0);
	CHECK_EQ(weft_netif_pool_create("early", 2047, 1500, -1, &pool), 0);
	CHECK_EQ(rte_eth_dev_configure(id, 1, 1, &conf), 0);
	CHECK_EQ(rte_eth_rx_queue_setup(id, 0, 256, (unsigned int)SOCKET_ID_ANY, NULL, pool), 0);
	CHECK_EQ(rte_eth_tx_queue_setup(id, 0, 256, (unsigned int)SOCKET_ID_ANY, NULL), 0);
	CHECK_EQ(pthread_create(&th, NULL, slow_server, &id), 0);

	CHECK_EQ(weft_ctx_create(NULL, &ctx), 0);
	pa.dev = dev;
	sin->sin_family = AF_INET;
	sin->sin_addr.s_addr = htonl(0x0a000009);
	CHECK_EQ(weft_port_open(ctx, &pa, &port), 0);
	pthread_join(th, &bad);
	CHECK(bad == NULL);
	CHECK_EQ(weft_port_stats(port, &st), 0);
	CHECK(st.link_up);
	weft_ctx_destroy(ctx);
	usleep(50000); /* time for the server to see the end of the connection */
	CHECK_EQ(rte_eth_dev_stop(id), 0);
	CHECK_EQ(rte_eth_dev_close(id), 0);
	(void)rte_eal_hotplug_remove("vdev", "net_memif7");
	rte_mempool_free(pool);
}

/** A port in shared memory brings back what it sends: one frame of each family. */
static void
test_selftest(void)
{
	struct weft_port_attr pa = {
	        .size = sizeof(pa), .name = "p", .dev = "net_ring17", .prefix_len = 24};
	struct sockaddr_in *sin = (struct sockaddr_in *)&pa.addr;
	struct weft_port_stats st;
	struct weft_port *port;
	struct weft_ctx *ctx;

	test_eal_init();
	sin->sin_family = AF_INET;
	sin->sin_addr.s_addr = htonl(0x0a000009);
	for (pa.selftest = 0; pa.selftest < 2; pa.selftest++) {
		CHECK_EQ(weft_ctx_create(NULL, &ctx), 0);
		CHECK_EQ(weft_port_open(ctx, &pa, &port), 0);
		CHECK_EQ(weft_port_stats(port, &st), 0);
		CHECK_EQ(st.selftest_frames, 2 * pa.selftest);
		CHECK_EQ(st.selftest_wrong + st.offloads_failed, 0);
		weft_ctx_destroy(ctx);
	}
}

WEFT_TEST_MAIN({"attributes and limits", test_attributes}, {"ports", test_port_errors},
               {"TCP as asked for", test_tcp_attr}, {"TCP changed while it runs", test_set_tcp},
               {"alarms", test_alarms}, {"idle", test_idle}, {"sleep", test_sleep},
               {"run here", test_run_here}, {"polled by two threads", test_two_pollers},
               {"the clock", test_clock}, {"how long iterations take", test_poll_hist},
               {"memif client before its server", test_memif_early_client},
               {"the self-test of a port", test_selftest})
