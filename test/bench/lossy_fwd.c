/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A link between two ports with delay and loss: every frame that enters one port leaves the
 * other after the delay, unless it is drawn for loss. The lost frames of a direction depend only on
 * the seed and on their number. One polling thread.
 *
 *   lossy_fwd DEV_A DEV_B [--loss-ppm N] [--delay-us N] [--queue N] [--seed N]
 *
 * Prints "forwarding" when it forwards, and its counters as JSON at SIGTERM.
 */

#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_pause.h>

#include "weft_netif_port.h"
#include <weft/worker.h>

#define MBUFS     16384
#define MEMORY_MB 256
#define BURST     32

struct way {
	uint16_t from, to;
	uint64_t rand;
	struct rte_mbuf **q; /**< a ring */
	uint64_t *due;
	uint32_t head, tail;
	uint64_t frames, lost, overflow, unsent;
};

static uint32_t loss_ppm, queue_frames = 4096;
static uint64_t delay_cycles;
static volatile sig_atomic_t stop;

static void
on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

static bool
lose(struct way *w)
{
	uint64_t z = w->rand += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	z ^= z >> 31;
	return z % 1000000 < loss_ppm;
}

static bool
is_arp(const struct rte_mbuf *m)
{
	return rte_pktmbuf_mtod(m, const struct rte_ether_hdr *)->ether_type ==
	       rte_cpu_to_be_16(RTE_ETHER_TYPE_ARP);
}

static unsigned int
forward(struct way *w, uint64_t tsc)
{
	struct rte_mbuf *m[BURST];
	unsigned int n = rte_eth_rx_burst(w->from, 0, m, BURST), out = 0;

	for (unsigned int i = 0; i < n; i++) {
		w->frames++;
		if (!is_arp(m[i]) && lose(w)) {
			w->lost++;
		} else if (w->head - w->tail == queue_frames) {
			w->overflow++;
		} else {
			w->q[w->head % queue_frames] = m[i];
			w->due[w->head++ % queue_frames] = tsc + delay_cycles;
			continue;
		}
		rte_pktmbuf_free(m[i]);
	}
	while (out < BURST && w->tail + out != w->head &&
	       w->due[(w->tail + out) % queue_frames] <= tsc) {
		m[out] = w->q[(w->tail + out) % queue_frames];
		out++;
	}
	if (out > 0) {
		unsigned int sent = rte_eth_tx_burst(w->to, 0, m, (uint16_t)out);

		w->unsent += out - sent;
		for (unsigned int i = sent; i < out; i++)
			rte_pktmbuf_free(m[i]);
		w->tail += out;
	}
	return n + out;
}

static void
way_init(struct way *w, uint16_t from, uint16_t to, uint64_t seed)
{
	w->from = from;
	w->to = to;
	w->rand = seed;
	w->q = calloc(queue_frames, sizeof(*w->q));
	w->due = calloc(queue_frames, sizeof(*w->due));
	if (w->q == NULL || w->due == NULL)
		exit(1);
}

static void
print(const char *name, const struct way *w, const char *end)
{
	printf("\"%s\": {\"frames\": %" PRIu64 ", \"lost\": %" PRIu64 ", \"overflow\": %" PRIu64
	       ", \"unsent\": %" PRIu64 "}%s",
	       name, w->frames, w->lost, w->overflow, w->unsent, end);
}

static const char usage[] =
        "usage: lossy_fwd DEV_A DEV_B [--loss-ppm N] [--delay-us N] [--queue FRAMES] [--seed N]\n";

int
main(int argc, char **argv)
{
	static const struct option opts[] = {{"loss-ppm", 1, NULL, 'l'}, {"delay-us", 1, NULL, 'd'},
	                                     {"queue", 1, NULL, 'q'},    {"seed", 1, NULL, 's'},
	                                     {"help", 0, NULL, 'h'},     {0}};
	struct weft_env_attr env = {
	        .size = sizeof(env), .progname = "lossy_fwd", .memory_mb = MEMORY_MB};
	struct weft_netif_port port[2];
	struct way ab = {0}, ba = {0};
	uint64_t seed = 1, delay_us = 0;
	const char *msg;
	int o, rc;

	while ((o = getopt_long(argc, argv, "h", opts, NULL)) != -1) {
		uint64_t n = optarg != NULL ? strtoull(optarg, NULL, 0) : 0;

		if (o == 'l') {
			loss_ppm = (uint32_t)n;
		} else if (o == 'd') {
			delay_us = n;
		} else if (o == 'q' && n > 0) {
			queue_frames = (uint32_t)n;
		} else if (o == 's') {
			seed = n;
		} else {
			fputs(usage, o == 'h' ? stdout : stderr);
			return o == 'h' ? 0 : 2;
		}
	}
	if (argc - optind != 2) {
		fputs(usage, stderr);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	rc = weft_env_init(&env, &msg);
	if (rc < 0) {
		fprintf(stderr, "lossy_fwd: %s\n", msg != NULL ? msg : strerror(-rc));
		return 1;
	}
	for (int i = 0; i < 2; i++) {
		struct weft_netif_port_attr pa = {
		        .dev = argv[optind + i], .mtu_bytes = 1500, .mbufs = MBUFS, .queues = 1};

		rc = weft_netif_port_open(&pa, &port[i]);
		if (rc < 0) {
			fprintf(stderr, "lossy_fwd: %s: %s\n", argv[optind + i], strerror(-rc));
			return 1;
		}
		rte_eth_promiscuous_enable(port[i].port_id);
	}
	delay_cycles = delay_us * rte_get_tsc_hz() / 1000000;
	way_init(&ab, port[0].port_id, port[1].port_id, seed);
	way_init(&ba, port[1].port_id, port[0].port_id, ~seed);
	printf("forwarding\n");
	while (!stop) {
		uint64_t tsc = rte_rdtsc();

		if (forward(&ab, tsc) + forward(&ba, tsc) == 0)
			rte_pause();
	}
	printf("{");
	print("ab", &ab, ", ");
	print("ba", &ba, "}\n");
	for (; ab.tail != ab.head; ab.tail++)
		rte_pktmbuf_free(ab.q[ab.tail % queue_frames]);
	for (; ba.tail != ba.head; ba.tail++)
		rte_pktmbuf_free(ba.q[ba.tail % queue_frames]);
	for (int i = 0; i < 2; i++)
		weft_netif_port_close(&port[i]);
	weft_env_fini();
	return 0;
}
