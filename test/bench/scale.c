/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file Many connections in one process: two stacks on one thread, polled in turn, joined by two
 * rings. It measures the memory of an idle connection, the effect of idle connections on busy ones,
 * and the time to establish them.
 */

#include <getopt.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_malloc.h>

#include "bench.h"
#include "duo.h"
#include "weft_engine.h"

#define DEPTH       16 /**< depth of SQ, RQ and IRD */
#define BURST       8  /**< Writes in flight on a busy connection */
#define BYTES       64
#define CONNECTING  128 /**< connections being established at a time */
#define REST_S      3   /**< after this time an idle connection has freed what it does not need */
#define BOUND_BYTES 4096
#define ROUNDS_MAX  64

/** Two stacks and the rings between them. */
static struct rig {
	struct duo d;
	uint32_t *posted; /**< Writes in flight of each connection */
	uint64_t completed;
} alone, many;

static uint32_t conns = 10000, busy = 64, rounds = 5, slice_ms = 400;
static uint8_t *recv_mem;

static void
poll_both(struct rig *r)
{
	struct weft_wc wc[64];
	int n;

	weft_worker_poll(r->d.side[0].w);
	weft_worker_poll(r->d.side[1].w);
	while ((n = weft_cq_poll(r->d.side[0].cq, wc, 64)) > 0) {
		r->completed += (uint64_t)n;
		for (int i = 0; i < n; i++) {
			if (wc[i].status != WEFT_WC_SUCCESS)
				bench_die("%s", weft_wc_status_str(wc[i].status));
			r->posted[(uintptr_t)wc[i].qp_user]--;
		}
	}
}

/** Bring the number of connections to n. Returns the seconds it took. */
static double
connect_up_to(struct rig *r, uint32_t n)
{
	struct duo_side *a = &r->d.side[0], *b = &r->d.side[1];
	double start = bench_now_s(), last = start;
	uint32_t seen = a->up;

	while (a->up < n || b->up < n) {
		if (a->nqp < n && a->nqp - a->up < CONNECTING)
			duo_connect(&r->d);
		poll_both(r);
		duo_events(&r->d);
		if (a->up != seen) {
			seen = a->up;
			last = bench_now_s();
		} else if (bench_now_s() - last > 20) {
			bench_die("%u of %u connections, and no more", seen, n);
		}
	}
	return bench_now_s() - start;
}

static void
idle(struct rig *r, double s)
{
	for (double end = bench_now_s() + s; bench_now_s() < end;)
		poll_both(r);
}

static void
open_rig(struct rig *r, uint32_t n)
{
	struct duo_attr a = {
	        .name = r == &many ? "many" : "alone",
	        .conns = n,
	        .max_conns = n + CONNECTING, /* connections in TIME-WAIT need room, too */
	        .mbufs = 32767,
	        .cq_depth = n * DEPTH,
	        .mem_bytes = 1 << 20,
	        .access = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_WRITE,
	        .qp = {.sq_depth = DEPTH,
	               .rq_depth = DEPTH,
	               .ird = DEPTH,
	               .ord = DEPTH,
	               .max_sge = 1},
	        .recvs = DEPTH,
	        .recv_sge = {recv_mem, BYTES, 0},
	};

	r->posted = calloc(n, sizeof(*r->posted));
	if (r->posted == NULL)
		bench_die("no memory");
	duo_open(&r->d, &a);
}

static void
close_rig(struct rig *r)
{
	duo_close(&r->d);
	free(r->posted);
}

/* ---- Load ---- */

static uint64_t
outstanding(const struct rig *r)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < r->d.side[0].nqp; i++)
		n += r->posted[i];
	return n;
}

/** Writes completed in a second while n connections, evenly spread, are busy. */
static double
rate(struct rig *r, uint32_t n)
{
	struct weft_sge sge = {r->d.side[0].mem, BYTES, 0};
	uint32_t step = r->d.side[0].nqp / n, stag = weft_mr_stag(r->d.side[1].mr);
	double start, end;
	uint64_t before;

	/* Writes left in flight by another slice do not count. */
	for (end = bench_now_s() + 10; outstanding(r) > 0 && bench_now_s() < end;)
		poll_both(r);
	idle(r, 0.05);
	before = r->completed;
	start = bench_now_s();
	end = start + slice_ms / 1000.0;
	while (bench_now_s() < end) {
		for (uint32_t i = 0; i < n; i++) {
			uint32_t c = i * step;
			struct weft_wr wr = {.opcode = WEFT_WR_WRITE,
			                     .flags = WEFT_WR_SIGNALED,
			                     .sg_list = &sge,
			                     .num_sge = 1,
			                     .rdma = {stag, 0}};

			while (r->posted[c] < BURST &&
			       weft_post_send(r->d.side[0].qp[c], &wr, 1) == 1)
				r->posted[c]++;
			/* poll after some posts, because more would only queue */
			if (i % 64 == 63)
				poll_both(r);
		}
		poll_both(r);
	}
	return (double)(r->completed - before) / (bench_now_s() - start);
}

/* ---- Memory ---- */

static size_t
heap_bytes(void)
{
	struct rte_malloc_socket_stats st;
	struct mallinfo2 mi = mallinfo2();
	size_t total = mi.uordblks + mi.hblkhd;

	for (unsigned int i = 0; i < RTE_MAX_NUMA_NODES; i++)
		if (rte_malloc_get_socket_stats((int)i, &st) == 0)
			total += st.heap_allocsz_bytes;
	return total;
}

/** Memory of an idle connection on one side: growth of the heap, and its entry in TCP's table. */
static double
bytes_per_conn(size_t grown, uint32_t n)
{
	return (double)grown / (2.0 * n) + (double)weft_tcp_conn_bytes();
}

static void
usage(FILE *f)
{
	fputs("usage: bench_scale [options]\n"
	      "Two stacks in one process, one thread: memory of idle connections, and what they "
	      "cost "
	      "busy ones.\n"
	      "\n"
	      "  -c, --connections N  [10000]\n"
	      "  -b, --busy N         [64] busy ones among them; also all are made busy\n"
	      "  -r, --rounds N       [5] medians of so many slices\n"
	      "  -s, --slice MS       [400]\n"
	      "      --check          memory alone, as a test: TAP, and failure beyond 4096 "
	      "octets\n"
	      "      --json\n"
	      "      --version\n"
	      "  -h, --help\n",
	      f);
}

int
main(int argc, char **argv)
{
	enum { OPT_CHECK = 256, OPT_JSON, OPT_VERSION };
	static const struct option longopts[] = {{"connections", required_argument, NULL, 'c'},
	                                         {"busy", required_argument, NULL, 'b'},
	                                         {"rounds", required_argument, NULL, 'r'},
	                                         {"slice", required_argument, NULL, 's'},
	                                         {"check", no_argument, NULL, OPT_CHECK},
	                                         {"json", no_argument, NULL, OPT_JSON},
	                                         {"version", no_argument, NULL, OPT_VERSION},
	                                         {"help", no_argument, NULL, 'h'},
	                                         {0}};
	bool check = false, json = false;
	double own[ROUNDS_MAX], among[ROUNDS_MAX], all[ROUNDS_MAX], setup_s, bytes;
	double own_m, among_m, all_m;
	size_t before;
	int opt;

	while ((opt = getopt_long(argc, argv, "c:b:r:s:h", longopts, NULL)) != -1) {
		uint32_t v = optarg != NULL ? (uint32_t)strtoul(optarg, NULL, 10) : 0;

		switch (opt) {
		case 'c':
			conns = v;
			break;
		case 'b':
			busy = v;
			break;
		case 'r':
			rounds = v;
			break;
		case 's':
			slice_ms = v;
			break;
		case OPT_CHECK:
			check = true;
			break;
		case OPT_JSON:
			json = true;
			break;
		case OPT_VERSION:
			puts("bench_scale " WEFT_VERSION);
			return 0;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (busy == 0 || conns < 2 * busy || conns > 60000 || rounds == 0 || rounds > ROUNDS_MAX ||
	    slice_ms == 0) {
		usage(stderr);
		return 2;
	}
	duo_start_eal("bench_scale", check ? 384 : 1024);
	recv_mem = calloc(1, BYTES);
	if (recv_mem == NULL)
		bench_die("no memory");
	open_rig(&many, conns);
	connect_up_to(&many, busy);
	idle(&many, check ? 0.1 : REST_S);
	before = heap_bytes();
	setup_s = connect_up_to(&many, conns);
	idle(&many, REST_S);
	bytes = bytes_per_conn(heap_bytes() - before, conns - busy);
	if (check) {
		printf("%sok 1 an idle connection takes %.0f octets, of %d\n1..1\n",
		       bytes <= BOUND_BYTES ? "" : "not ", bytes, BOUND_BYTES);
	} else {
		open_rig(&alone, busy);
		connect_up_to(&alone, busy);
		rate(&alone, busy);
		rate(&many, busy);
		/* In alternation, so that disturbances affect all alike. */
		for (uint32_t i = 0; i < rounds; i++) {
			own[i] = rate(&alone, busy);
			among[i] = rate(&many, busy);
			all[i] = rate(&many, conns);
		}
		own_m = bench_median(own, rounds);
		among_m = bench_median(among, rounds);
		all_m = bench_median(all, rounds);
		if (json)
			printf("{\"connections\": %u, \"bytes_per_idle_connection\": %.0f, "
			       "\"setup_per_s\": %.0f, \"busy\": %u, \"alone_msg_s\": %.0f, "
			       "\"among_msg_s\": %.0f, \"among_ratio\": %.3f, \"all_busy_msg_s\": "
			       "%.0f}\n",
			       conns, bytes, (conns - busy) / setup_s, busy, own_m, among_m,
			       among_m / own_m, all_m);
		else
			printf("connections            %u\n"
			       "idle connection        %.0f octets a side\n"
			       "set-up                 %.0f a second, MPA included\n"
			       "%u alone               %.0f writes of %d octets a second\n"
			       "%u of %u            %.0f, ratio %.3f\n"
			       "all busy               %.0f, ratio %.3f\n",
			       conns, bytes, (conns - busy) / setup_s, busy, own_m, BYTES, busy,
			       conns, among_m, among_m / own_m, all_m, all_m / own_m);
	}
	close_rig(&many);
	close_rig(&alone);
	weft_env_fini();
	return check && bytes > BOUND_BYTES;
}
