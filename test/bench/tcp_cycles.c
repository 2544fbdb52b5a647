/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file TSC cycles of lib/tcp for an in-order segment. Bursts of prebuilt segments are given to
 * weft_tcp_rx(), then the connection's task runs and acknowledges. There is no port, no checksum
 * and no copy. Delivered mbufs are freed outside of the measured part.
 *
 *   tcp_cycles [--json] [--bursts N]
 */

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>

#include "tcp_wire.h"
#include "weft_netif.h"
#include "weft_netif_attr.h"
#include "weft_netif_mbuf.h"
#include "weft_tcp.h"
#include <weft/worker.h>

#define BURST         WEFT_NETIF_BURST
#define MBUFS         8191
#define WARMUP        1000
#define CLOCK_STEP_NS 20000

static struct weft_sched sched;
static struct weft_netif *nif;
static struct weft_tcp *tcp;
static struct rte_mempool *pool;
static struct rte_mbuf *inbox, *taken[4 * BURST];
static unsigned int ntaken;
static struct weft_ip local, remote;
static uint32_t iss; /* ISS of the stack */
static bool answered;

/* ---- The peer: it answers ARP and records the SYN-ACK ---- */

static uint16_t
dev_rx(void *dev, struct rte_mbuf **pkts, uint16_t n)
{
	(void)dev;
	if (inbox == NULL || n == 0)
		return 0;
	pkts[0] = inbox;
	inbox = NULL;
	return 1;
}

static void
answer_arp(const uint8_t *f)
{
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 2};
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	uint8_t *p;

	if (m == NULL || inbox != NULL)
		exit(1);
	p = (uint8_t *)rte_pktmbuf_append(m, 60);
	memset(p, 0, 60);
	memcpy(p, f + 6, 6);
	memcpy(p + 6, mac, 6);
	memcpy(p + 12, f + 12, 8); /* type, and ARP up to its lengths */
	p[21] = 2;                 /* reply */
	memcpy(p + 22, mac, 6);
	memcpy(p + 28, f + 38, 4);
	memcpy(p + 32, f + 22, 10);
	inbox = m;
}

static uint16_t
dev_tx(void *dev, struct rte_mbuf **pkts, uint16_t n)
{
	(void)dev;
	for (uint16_t i = 0; i < n; i++) {
		const uint8_t *f = rte_pktmbuf_mtod(pkts[i], const uint8_t *);

		if (f[12] == 8 && f[13] == 6 && f[21] == 1 && memcmp(f + 28, f + 38, 4) != 0)
			answer_arp(f);
		if (!answered && f[12] == 8 && f[13] == 0 && f[23] == 6 && (f[47] & TCP_SYN) != 0) {
			iss = weft_get_be32(f + 38);
			answered = true;
		}
		rte_pktmbuf_free(pkts[i]);
	}
	return n;
}

static const struct weft_netif_dev dev = {.rx = dev_rx, .tx = dev_tx};

/* ---- The user ---- */

static void
on_rx(void *user, struct rte_mbuf *m, uint64_t now_ns)
{
	(void)user;
	(void)now_ns;
	if (ntaken == RTE_DIM(taken))
		abort();
	taken[ntaken++] = m;
}

static void
nothing(void *user)
{
	(void)user;
}

static void
on_mss(void *user, uint16_t mss_bytes)
{
	(void)user;
	(void)mss_bytes;
}

static void
on_closed(void *user, int err)
{
	(void)user;
	fprintf(stderr, "tcp_cycles: the connection died: %s\n", strerror(-err));
	exit(1);
}

static const struct weft_tcp_conn_ops conn_ops = {
        .established = nothing,
        .rx = on_rx,
        .writable = nothing,
        .mss = on_mss,
        .eof = nothing,
        .closed = on_closed,
};

static int
on_accept(void *arg, struct weft_tcp_conn *c)
{
	(void)arg;
	weft_tcp_set_user(c, &conn_ops, NULL);
	return 0;
}

static void
on_tcp_rx(void *arg, struct weft_netif *n, struct rte_mbuf **m, unsigned int k, uint64_t now_ns)
{
	(void)arg;
	weft_tcp_rx(tcp, n, m, k, now_ns);
}

/* ---- Segments ---- */

static struct rte_mbuf *
segment(uint16_t port, uint8_t flags, uint32_t seq, uint32_t ack, const struct tcp_opts *o,
        uint32_t len)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	struct tcp_hdr h = {.src_port = port,
	                    .dst_port = 7,
	                    .seq = seq,
	                    .ack = ack,
	                    .wnd = 65535,
	                    .flags = flags};
	uint8_t opts[40], *p;
	unsigned int n = tcp_wire_encode_opts(opts, o);

	if (m == NULL)
		exit(1);
	h.hdr_len_bytes = (uint8_t)(TCP_HDR_LEN + n);
	p = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)(h.hdr_len_bytes + len));
	memset(p, 0, h.hdr_len_bytes + len);
	tcp_wire_encode(p, &h);
	memcpy(p + TCP_HDR_LEN, opts, n);
	weft_mbuf_priv(m)->rx.src = remote;
	weft_mbuf_priv(m)->rx.dst = local;
	weft_mbuf_priv(m)->rx.ecn = WEFT_ECN_NOT_ECT;
	return m;
}

static void
step(void)
{
	sched.now_ns += CLOCK_STEP_NS;
	weft_netif_poll(nif, sched.now_ns);
	weft_timer_run(&sched.wheel, sched.now_ns);
	weft_sched_run(&sched, sched.now_ns);
	weft_netif_flush(nif, sched.now_ns);
}

static int
compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct figure {
	double rx, with_ack; /**< cycles per segment, medians */
};

static struct figure
measure(uint16_t port, uint32_t len, bool ts, unsigned int bursts)
{
	struct tcp_opts syn = {
	        .mss_bytes = 1460, .has_wscale = true, .wscale = 7, .sack_perm = true};
	struct tcp_opts o = {0};
	double *rx = calloc(bursts, sizeof(*rx)), *all = calloc(bursts, sizeof(*all));
	struct rte_mbuf *m[BURST];
	struct figure f;
	uint32_t seq = 1000;

	if (rx == NULL || all == NULL)
		exit(1);
	syn.has_ts = o.has_ts = ts;
	syn.ts_val = o.ts_val = 1;
	answered = false;
	m[0] = segment(port, TCP_SYN, seq++, 0, &syn, 0);
	weft_tcp_rx(tcp, nif, m, 1, sched.now_ns);
	for (unsigned int i = 0; i < 10 && !answered; i++)
		step();
	if (!answered) {
		fprintf(stderr, "tcp_cycles: no SYN-ACK\n");
		exit(1);
	}
	m[0] = segment(port, TCP_ACK, seq, iss + 1, &o, 0);
	weft_tcp_rx(tcp, nif, m, 1, sched.now_ns);
	step();
	for (unsigned int b = 0; b < bursts + WARMUP; b++) {
		uint64_t t0, t1, t2;

		o.ts_val += ts ? 1 : 0;
		for (unsigned int i = 0; i < BURST; i++, seq += len)
			m[i] = segment(port, TCP_ACK, seq, iss + 1, &o, len);
		ntaken = 0;
		sched.now_ns += CLOCK_STEP_NS;
		t0 = rte_rdtsc_precise();
		weft_tcp_rx(tcp, nif, m, BURST, sched.now_ns);
		t1 = rte_rdtsc_precise();
		weft_sched_run(&sched, sched.now_ns);
		t2 = rte_rdtsc_precise();
		if (ntaken != BURST) {
			fprintf(stderr, "tcp_cycles: %u of %u segments delivered\n", ntaken, BURST);
			exit(1);
		}
		for (unsigned int i = 0; i < ntaken; i++)
			rte_pktmbuf_free(taken[i]);
		weft_netif_flush(nif, sched.now_ns);
		weft_timer_run(&sched.wheel, sched.now_ns);
		if (b >= WARMUP) {
			rx[b - WARMUP] = (double)(t1 - t0) / BURST;
			all[b - WARMUP] = (double)(t2 - t0) / BURST;
		}
	}
	qsort(rx, bursts, sizeof(*rx), compare);
	qsort(all, bursts, sizeof(*all), compare);
	f = (struct figure){rx[bursts / 2], all[bursts / 2]};
	free(rx);
	free(all);
	return f;
}

int
main(int argc, char **argv)
{
	static const struct option opts[] = {
	        {"json", 0, NULL, 'j'}, {"bursts", 1, NULL, 'b'}, {"help", 0, NULL, 'h'}, {0}};
	static const struct weft_netif_ops ops = {.tcp_rx = on_tcp_rx};
	static const struct weft_ip any;
	static const struct {
		const char *name;
		uint32_t len;
		bool ts;
	} rows[] = {{"64_B", 64, false},
	            {"1460_B", 1460, false},
	            {"64_B_timestamps", 64, true},
	            {"1448_B_timestamps", 1448, true}};
	struct weft_env_attr env = {.size = sizeof(env), .progname = "tcp_cycles"};
	struct weft_netif_attr na = {
	        .dev = &dev, .prefix_len = 24, .mtu_bytes = 1500, .no_ipv6 = true};
	struct weft_tcp_attr ta = {.max_conns = 64};
	struct weft_tcp_listener *l;
	unsigned int bursts = 20000;
	bool json = false;
	const char *msg;
	int o, rc;

	while ((o = getopt_long(argc, argv, "h", opts, NULL)) != -1) {
		if (o == 'j') {
			json = true;
		} else if (o == 'b' && atoi(optarg) > 0) {
			bursts = (unsigned int)atoi(optarg);
		} else {
			fprintf(o == 'h' ? stdout : stderr,
			        "usage: tcp_cycles [--json] [--bursts N]\n");
			return o == 'h' ? 0 : 2;
		}
	}
	rc = weft_env_init(&env, &msg);
	if (rc < 0) {
		fprintf(stderr, "tcp_cycles: %s\n", msg != NULL ? msg : strerror(-rc));
		return 1;
	}
	local = weft_ip_from_v4(rte_cpu_to_be_32(0x0a000001));
	remote = weft_ip_from_v4(rte_cpu_to_be_32(0x0a000002));
	TAILQ_INIT(&sched.run);
	sched.rand.fill = weft_rand_system;
	sched.now_ns = WEFT_NS_PER_S;
	weft_wheel_init(&sched.wheel, sched.now_ns);
	rc = weft_netif_pool_create("tcp_cycles", MBUFS, 1500, 0, &pool);
	na.pool = pool;
	na.addr = local;
	na.mac = (struct rte_ether_addr){{2, 0, 0, 0, 0, 1}};
	if (rc == 0)
		rc = weft_netif_create(&na, &ops, NULL, &sched, &nif);
	if (rc == 0)
		rc = weft_tcp_create(&ta, &sched, &tcp);
	if (rc == 0)
		rc = weft_tcp_listen(tcp, &any, 128, 7, 16, on_accept, NULL, &l);
	if (rc < 0) {
		fprintf(stderr, "tcp_cycles: %s\n", strerror(-rc));
		return 1;
	}
	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		struct figure f = measure((uint16_t)(40000 + i), rows[i].len, rows[i].ts, bursts);

		if (json)
			printf("%s\"%s\": %.1f, \"%s_and_ack\": %.1f", i == 0 ? "{" : ", ",
			       rows[i].name, f.rx, rows[i].name, f.with_ack);
		else
			printf("%-20s %7.1f cycles per segment, %7.1f with the acknowledgment\n",
			       rows[i].name, f.rx, f.with_ack);
	}
	if (json)
		printf("}\n");
	weft_tcp_destroy(tcp);
	weft_netif_destroy(nif);
	rte_mempool_free(pool);
	weft_env_fini();
	return 0;
}
