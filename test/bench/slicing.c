/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file A long operation on one QP, and short ones on another QP of the same worker: the duration
 * of the target's poll loop iterations, and the effect on the short operations. Two stacks in one
 * process are polled in turn by one thread and joined by two rings. The target's executor has a
 * thread of its own, as always.
 *
 * Two clocks measure every poll of the target. Wall time is what weft's own histogram holds, from
 * the TSC at start and end. It includes whatever else used the core. CPU time is the polling
 * thread's CLOCK_THREAD_CPUTIME_ID, read before and after the call. It excludes the time of other
 * threads, and that of a hypervisor if the kernel knows of it. It includes interrupts, page faults
 * and half a microsecond of the clock itself. CPU time is judged. Every repetition is a round of
 * its own, because a defect of slicing appears each time and a disturbance does not.
 */

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_cycles.h>

#include "bench.h"
#include "duo.h"
#include "slicing.h"
#include "weft_engine.h"
#include "weft_netif_stats.h"
#include "weft_vworker.h"

#define PING_BYTES  64
#define PIECE_BYTES (1U << 20) /**< length of the operations "read" and "write" */
#define PIECES_OUT  4          /**< number of them in flight */
/** offset in the region of each side; the pings' memory is before it */
#define PIECE_AT    (1U << 16)
#define GOAL_US     50.0
#define FLOOR_MAX_S 20.0
#define STALL_S     60
#define ROUNDS_MAX  64

enum { WR_PING = 1, WR_LONG };

static struct duo duo;
static struct duo_side *const target = &duo.side[1];

static struct {
	const char *medium, *path, *hash, *op;
	uint64_t bytes;
	uint32_t rounds;
	int cpu;
	bool place, json;
} job = {.medium = "memory",
         .hash = "crc32c",
         .op = "verify",
         .bytes = 1ull << 30,
         .rounds = 5,
         .cpu = -1};

static struct weft_persist *medium;
static uint8_t *big;
static struct weft_mr *big_mr;
static uint32_t long_out, pings_out;
static uint64_t long_left_bytes; /**< octets of pieces not posted yet */
static uint64_t ping_start, ping_page;

/** held: polls in which the thread lost its CPU, which also lost the content of its caches */
static struct samples cpu, held, floor_, ping_idle, ping_busy, *ping_to;
static double floor_s;
static struct kinds kinds;
static struct probe longest; /**< the longest poll of this round */
static struct probe round_of[ROUNDS_MAX];

static bool
op_is(const char *op)
{
	return strcmp(job.op, op) == 0;
}

/* ---- Set-up ---- */

static void
open_medium(void)
{
	static const uint8_t key[16] = {1};
	struct weft_persist_attr pa = {.size = sizeof(pa),
	                               .driver = job.medium,
	                               .path = job.path,
	                               .bytes = job.bytes,
	                               .create = true,
	                               .numa_node = -1};
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .len_bytes = job.bytes,
	                          .access = WEFT_ACCESS_VERIFY | WEFT_ACCESS_FLUSH_VISIBLE |
	                                    WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_WRITE,
	                          .hash = job.hash};
	const struct weft_hash_ops *h = weft_hash_find(job.hash);

	if (h == NULL)
		bench_die("no hash '%s'", job.hash);
	if (h->key_min_bytes > 0) {
		ma.hash_key = key;
		ma.hash_key_bytes = sizeof(key);
	}
	if (strcmp(job.medium, "memory") == 0) {
		big = mmap(NULL, job.bytes, PROT_READ | PROT_WRITE,
		           MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		if (big == MAP_FAILED)
			bench_die("no memory");
	} else {
		bench_must(weft_persist_open(&pa, &medium), "medium");
		big = medium->base;
		ma.persist = medium;
		if (medium->ops->persistent)
			ma.access |= WEFT_ACCESS_FLUSH_PERSISTENT;
	}
	ma.addr = big;
	bench_must(weft_mr_reg(target->pd, &ma, &big_mr), "region on the medium");
}

/* ---- Load ---- */

/** Fill all of the memory anew, as if peers had written it. */
static void
prepare(uint32_t round)
{
	memset(big, (int)round + 1, job.bytes);
	if (medium != NULL)
		weft_persist_mark(medium, 0, job.bytes);
}

static void
close_all(void)
{
	weft_mr_dereg(big_mr, NULL, NULL);
	duo_close(&duo);
	if (medium != NULL)
		weft_persist_close(medium);
	if (job.path != NULL)
		unlink(job.path);
}

/** Post Reads or Writes of PIECE_BYTES, up to the limit in flight. */
static void
post_pieces(void)
{
	while (long_out < PIECES_OUT && long_left_bytes > 0) {
		struct weft_sge sge = {duo.side[0].mem + PIECE_AT, PIECE_BYTES,
		                       weft_mr_stag(duo.side[0].mr)};
		struct weft_wr wr = {.opcode = op_is("read") ? WEFT_WR_READ : WEFT_WR_WRITE,
		                     .flags = WEFT_WR_SIGNALED,
		                     .wr_id = WR_LONG,
		                     .sg_list = &sge,
		                     .num_sge = 1,
		                     .rdma = {weft_mr_stag(big_mr), job.bytes - long_left_bytes}};

		sge.len_bytes = (uint32_t)RTE_MIN(long_left_bytes, PIECE_BYTES);
		if (weft_post_send(duo.side[0].qp[1], &wr, 1) != 1)
			bench_die("cannot post a piece");
		long_left_bytes -= sge.len_bytes;
		long_out++;
	}
}

static void
start_long(void)
{
	struct weft_wr wr = {.opcode = WEFT_WR_VERIFY, .flags = WEFT_WR_SIGNALED, .wr_id = WR_LONG};

	if (op_is("read") || op_is("write")) {
		long_left_bytes = job.bytes;
		post_pieces();
		return;
	}
	if (op_is("flush")) {
		wr.opcode = WEFT_WR_FLUSH;
		wr.flush.stag = weft_mr_stag(big_mr);
		wr.flush.len_bytes = (uint32_t)job.bytes;
		wr.flush.flags = medium != NULL && medium->ops->persistent ? WEFT_FLUSH_PERSISTENT
		                                                           : WEFT_FLUSH_VISIBLE;
	} else {
		wr.verify.stag = weft_mr_stag(big_mr);
		wr.verify.len_bytes = (uint32_t)job.bytes;
	}
	if (weft_post_send(duo.side[0].qp[1], &wr, 1) != 1)
		bench_die("cannot post the %s", job.op);
	long_out = 1;
}

/** A Write of 64 octets followed by a Read of them: a round trip through the target. */
static void
ping(void)
{
	struct duo_side *s = &duo.side[0];
	struct weft_sge sge[2] = {{s->mem, PING_BYTES, 0},
	                          {s->mem + 4096, PING_BYTES, weft_mr_stag(s->mr)}};
	struct weft_wr wr[2] = {{.opcode = WEFT_WR_WRITE,
	                         .sg_list = &sge[0],
	                         .num_sge = 1,
	                         .rdma = {weft_mr_stag(target->mr), 0}},
	                        {.opcode = WEFT_WR_READ,
	                         .flags = WEFT_WR_SIGNALED,
	                         .wr_id = WR_PING,
	                         .sg_list = &sge[1],
	                         .num_sge = 1,
	                         .rdma = {weft_mr_stag(target->mr), 0}}};

	if (job.place && big_mr != NULL) {
		wr[0].rdma.stag = wr[1].rdma.stag = weft_mr_stag(big_mr);
		wr[0].rdma.to = wr[1].rdma.to = ping_page++ * 4096 % job.bytes;
	}

	ping_start = rte_rdtsc();
	if (weft_post_send(s->qp[0], wr, 2) != 2)
		bench_die("cannot post a ping");
	pings_out = 1;
}

/** Octets that the target has received and sent, and that it worked on in slices in its last poll.
 */
static struct work
work_so_far(void)
{
	const struct weft_netif_stats *st = weft_netif_stats(weft_engine_netif(target->w, 0));
	const struct weft_vworker *v = (const struct weft_vworker *)target->w;

	return (struct work){.rx_bytes = st->rx_bytes,
	                     .tx_bytes = st->tx_bytes,
	                     .slice_bytes = WEFT_SLICE_BYTES - v->sched.slice_left_bytes};
}

static void
poll_target(bool measured)
{
	struct work before, w;
	struct probe p;

	if (!measured) {
		weft_worker_poll(target->w);
		return;
	}
	before = work_so_far();
	probe_begin(&p);
	if (weft_worker_poll(target->w) == 0)
		return;
	probe_end(&p);
	if (p.preempted > 0 || p.waits > 0) {
		samples_add(&held, p.cpu_ns);
		return;
	}
	samples_add(&cpu, p.cpu_ns);
	w = work_so_far();
	w.rx_bytes -= before.rx_bytes;
	w.tx_bytes -= before.tx_bytes;
	p.kind = kind_of(&w);
	kinds_add(&kinds, &w, p.cpu_ns);
	if (p.cpu_ns > longest.cpu_ns)
		longest = p;
}

static void
turn(bool measured)
{
	struct weft_wc wc[16];
	int n;

	weft_worker_poll(duo.side[0].w);
	poll_target(measured);
	while ((n = weft_cq_poll(duo.side[0].cq, wc, 16)) > 0) {
		for (int i = 0; i < n; i++) {
			if (wc[i].status != WEFT_WC_SUCCESS)
				bench_die("%s", weft_wc_status_str(wc[i].status));
			if (wc[i].wr_id == WR_LONG) {
				long_out--;
				continue;
			}
			pings_out = 0;
			if (ping_to != NULL)
				samples_add(ping_to, (uint64_t)((double)(rte_rdtsc() - ping_start) *
				                                1e9 / (double)rte_get_tsc_hz()));
		}
	}
	post_pieces();
}

static void
connect_both(void)
{
	double end = bench_now_s() + 10;

	for (uint32_t i = 0; i < 2; i++) {
		duo_connect(&duo);
		while (duo.side[0].up <= i || target->up <= i) {
			turn(false);
			duo_events(&duo);
			if (bench_now_s() > end)
				bench_die("no connection");
		}
	}
}

/** Send pings until `until`, or if until is 0 until the long operation has ended. */
static void
run(struct samples *to, double until, bool measured)
{
	double give_up = bench_now_s() + STALL_S;

	ping_to = to;
	while (until > 0 ? bench_now_s() < until : long_out > 0) {
		if (pings_out == 0)
			ping();
		turn(measured);
		duo_events(&duo);
		if (bench_now_s() > give_up)
			bench_die("the %s does not end", job.op);
	}
	ping_to = NULL;
	while (pings_out > 0)
		turn(measured);
}

/* ---- Result ---- */

static const double edge_us[] = {1, 2, 5, 10, 20, 30, 40, 50, 100, 1000};

/** Print weft's own histogram beside the CPU time. */
static void
print_hist(const struct weft_poll_hist *wall)
{
	uint64_t seen = 0, last = 0;
	unsigned int b = 0;

	printf("  %-14s %14s %14s\n", "iteration", "wall", "CPU");
	for (unsigned int e = 0; e <= RTE_DIM(edge_us); e++) {
		bool all = e == RTE_DIM(edge_us);
		uint64_t n = all ? cpu.n : samples_below(&cpu, edge_us[e]), w = 0;

		for (; b < WEFT_POLL_HIST_BUCKETS &&
		       (all || (double)wall->bucket[b].below_ns / 1e3 <= edge_us[e]);
		     b++)
			w += wall->bucket[b].polls;
		seen = n - last;
		last = n;
		if (all)
			printf("  %-14s %14" PRIu64 " %14" PRIu64 "\n", "longer", w, seen);
		else
			printf("  below %5g us %15" PRIu64 " %14" PRIu64 "\n", edge_us[e], w, seen);
	}
}

static int
by_cpu(const void *a, const void *b)
{
	uint64_t x = ((const struct probe *)a)->cpu_ns, y = ((const struct probe *)b)->cpu_ns;

	return x < y ? -1 : x > y;
}

static double
cpu_us(const struct probe *p)
{
	return (double)p->cpu_ns / 1e3;
}

static uint64_t
above_goal(const struct samples *s)
{
	return s->n - samples_below(s, GOAL_US + 1e-3);
}

static void
print_json(const struct weft_poll_hist *wall, double took)
{
	const struct probe *mid = &round_of[job.rounds / 2];
	const struct kind of = kinds_find(&kinds, mid->kind), most = kinds_heaviest(&kinds);
	char text[KIND_TEXT];

	printf("{\"op\": \"%s\", \"medium\": \"%s\", \"mechanism\": \"%s\", \"hash\": \"%s\", "
	       "\"bytes\": %" PRIu64 ", \"rounds\": %u, \"place\": %s, \"seconds\": %.3f, "
	       "\"polls\": %" PRIu64
	       ", \"cpu_longest_us\": {\"min\": %.1f, \"median\": %.1f, \"max\": %.1f}, "
	       "\"cpu_us\": {\"p50\": %.1f, \"p99.9\": %.1f, \"p99.99\": %.1f}, "
	       "\"cpu_above_50us\": %" PRIu64 ", ",
	       job.op, job.medium, medium != NULL ? medium->mechanism : "", job.hash, job.bytes,
	       job.rounds, job.place ? "true" : "false", took, wall->polls, cpu_us(&round_of[0]),
	       cpu_us(mid), cpu_us(&round_of[job.rounds - 1]), samples_pct_us(&cpu, 50),
	       samples_pct_us(&cpu, 99.9), samples_pct_us(&cpu, 99.99), above_goal(&cpu));
	printf("\"longest_kind\": {\"work\": \"%s\", \"polls\": %zu, \"p50_us\": %.1f, "
	       "\"p90_us\": %.1f}, ",
	       kind_text(most.kind, text), most.n, most.p50_us, most.p90_us);
	printf("\"longest_poll\": {\"work\": \"%s\", \"polls_of_kind\": %zu, "
	       "\"p50_us_of_kind\": %.1f, \"not_its_work_us\": %.1f}, ",
	       kind_text(mid->kind, text), of.n, of.p50_us, RTE_MAX(0.0, cpu_us(mid) - of.p50_us));
	printf("\"median_round\": {\"page_faults\": %ld}, \"without_cpu\": {\"polls\": %zu, "
	       "\"longest_us\": %.1f}, ",
	       mid->faults, held.n, samples_pct_us(&held, 100));
	printf("\"floor\": {\"seconds\": %.3f, \"longest_us\": %.1f, \"above_50us\": %" PRIu64
	       "}, \"wall_longest_us\": %.1f, \"ping_alone_us\": {\"p50\": %.2f, \"p99\": %.2f}, "
	       "\"ping_beside_us\": {\"p50\": %.2f, \"p99\": %.2f}}\n",
	       floor_s, samples_pct_us(&floor_, 100), above_goal(&floor_),
	       (double)wall->max_ns / 1e3, samples_pct_us(&ping_idle, 50),
	       samples_pct_us(&ping_idle, 99), samples_pct_us(&ping_busy, 50),
	       samples_pct_us(&ping_busy, 99));
}

static void
print_text(const struct weft_poll_hist *wall, double took)
{
	const struct probe *mid = &round_of[job.rounds / 2];
	const struct kind of = kinds_find(&kinds, mid->kind), most = kinds_heaviest(&kinds);
	char text[KIND_TEXT];

	printf("%s of %" PRIu64 " octets%s, %s%s%s, hash %s, %u times in %.3f s\n", job.op,
	       job.bytes, job.place ? ", the 64 octets among them" : "", job.medium,
	       medium != NULL ? ": " : "", medium != NULL ? medium->mechanism : "", job.hash,
	       job.rounds, took);
	print_hist(wall);
	printf("  iterations by CPU time: p50 %.1f us, p99.9 %.1f, p99.99 %.1f, above 50 us "
	       "%" PRIu64 "\n",
	       samples_pct_us(&cpu, 50), samples_pct_us(&cpu, 99.9), samples_pct_us(&cpu, 99.99),
	       above_goal(&cpu));
	printf("  the machine by itself, in %.1f s of arithmetic in pieces of 8 us: longest "
	       "%.1f us, above 50 us %" PRIu64 "\n",
	       floor_s, samples_pct_us(&floor_, 100), above_goal(&floor_));
	printf("  longest by CPU time: lowest round %.1f us, median %.1f, highest %.1f; by wall "
	       "time %.1f\n",
	       cpu_us(&round_of[0]), cpu_us(mid), cpu_us(&round_of[job.rounds - 1]),
	       (double)wall->max_ns / 1e3);
	printf("  the median one: %s; its %zu polls of this kind take %.1f us (p50), so %.1f us "
	       "are "
	       "not its work\n",
	       kind_text(mid->kind, text), of.n, of.p50_us, RTE_MAX(0.0, cpu_us(mid) - of.p50_us));
	printf("  the longest kind of poll: %s; %zu polls, p50 %.1f us, p90 %.1f\n",
	       kind_text(most.kind, text), most.n, most.p50_us, most.p90_us);
	printf("  in the median one: page faults %ld; left out: %zu polls in which the thread lost "
	       "its CPU, the longest with %.1f us\n",
	       mid->faults, held.n, samples_pct_us(&held, 100));
	printf("  64 octets written and read beside it: p50 %.2f us, p99 %.2f; alone %.2f and "
	       "%.2f\n",
	       samples_pct_us(&ping_busy, 50), samples_pct_us(&ping_busy, 99),
	       samples_pct_us(&ping_idle, 50), samples_pct_us(&ping_idle, 99));
}

static void
usage(FILE *f)
{
	fputs("usage: bench_slicing [options]\n"
	      "A long operation on one QP, 64 octets written and read on another of the same "
	      "worker.\n"
	      "\n"
	      "  -o, --op OP          [verify] verify, flush, read, write, none; read and write "
	      "are\n"
	      "                       1 MiB each, four under way\n"
	      "  -m, --medium DRIVER  [memory] memory, volatile, file, pmem, or nap: a flush "
	      "sleeps\n"
	      "                       20 ms\n"
	      "  -f, --path FILE      of file and pmem; made, and removed again\n"
	      "  -H, --hash NAME      [crc32c] of verify\n"
	      "  -b, --bytes N        [1073741824] of the region and of the operation\n"
	      "  -r, --rounds N       [5] the operation so often\n"
	      "  -p, --place          the 64 octets go to the region that the operation is on\n"
	      "  -c, --cpu N          the polling thread stays there; what blocks goes anywhere\n"
	      "      --json\n"
	      "  -h, --help\n",
	      f);
}

static void
parse(int argc, char **argv)
{
	static const struct option longopts[] = {{"op", required_argument, NULL, 'o'},
	                                         {"medium", required_argument, NULL, 'm'},
	                                         {"path", required_argument, NULL, 'f'},
	                                         {"hash", required_argument, NULL, 'H'},
	                                         {"bytes", required_argument, NULL, 'b'},
	                                         {"rounds", required_argument, NULL, 'r'},
	                                         {"place", no_argument, NULL, 'p'},
	                                         {"cpu", required_argument, NULL, 'c'},
	                                         {"json", no_argument, NULL, 'j'},
	                                         {"help", no_argument, NULL, 'h'},
	                                         {0}};
	int opt;

	while ((opt = getopt_long(argc, argv, "o:m:f:H:b:r:pc:h", longopts, NULL)) != -1) {
		switch (opt) {
		case 'o':
			job.op = optarg;
			break;
		case 'm':
			job.medium = optarg;
			break;
		case 'f':
			job.path = optarg;
			break;
		case 'H':
			job.hash = optarg;
			break;
		case 'b':
			job.bytes = strtoull(optarg, NULL, 10);
			break;
		case 'r':
			job.rounds = (uint32_t)strtoul(optarg, NULL, 10);
			break;
		case 'p':
			job.place = true;
			break;
		case 'c':
			job.cpu = atoi(optarg);
			break;
		case 'j':
			job.json = true;
			break;
		case 'h':
			usage(stdout);
			exit(0);
		default:
			usage(stderr);
			exit(2);
		}
	}
	if (job.bytes < 4096 || job.bytes > UINT32_MAX || job.rounds == 0 ||
	    job.rounds > ROUNDS_MAX || optind != argc) {
		usage(stderr);
		exit(2);
	}
}

/** Bind the polling thread to the CPU, after EAL has set its own affinity. Helper threads are
 * not bound. */
static void
stay_on_cpu(void)
{
	cpu_set_t set;

	if (job.cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET((unsigned int)job.cpu, &set);
	bench_must(-pthread_setaffinity_np(pthread_self(), sizeof(set), &set), "cpu");
}

static void
open_duo(void)
{
	const struct duo_attr a = {.name = "slicing",
	                           .conns = 2,
	                           .mbufs = 16383,
	                           .cq_depth = 1024,
	                           .mem_bytes = PIECE_AT + PIECE_BYTES,
	                           .access = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_WRITE |
	                                     WEFT_ACCESS_REMOTE_READ};

	duo_open(&duo, &a);
}

int
main(int argc, char **argv)
{
	static struct weft_poll_hist wall, before;
	double start, took = 0;
	bool none;

	parse(argc, argv);
	none = op_is("none");
	duo_start_eal("bench_slicing", 512);
	stay_on_cpu();
	open_duo();
	open_medium();
	connect_both();
	run(NULL, bench_now_s() + 0.05, false);
	run(&ping_idle, bench_now_s() + 0.2, true);
	cpu.n = held.n = kinds.n = 0; /* keep the arrays */
	wall.size = before.size = sizeof(wall);
	bench_must(weft_worker_poll_hist(target->w, &before), "histogram");
	for (uint32_t r = 0; r < job.rounds; r++) {
		longest = (struct probe){0};
		start = bench_now_s();
		if (!none) {
			prepare(r);
			start = bench_now_s();
			start_long();
		}
		run(&ping_busy, none ? start + 0.2 : 0, true);
		took += bench_now_s() - start;
		round_of[r] = longest;
	}
	bench_must(weft_worker_poll_hist(target->w, &wall), "histogram");
	weft_poll_hist_since(&wall, &before);
	/* As long as the measured time, because a longer time has a longer maximum. */
	floor_s = RTE_MIN(took, FLOOR_MAX_S);
	floor_s = RTE_MAX(1.0, floor_s);
	probe_floor(&floor_, floor_s);
	qsort(round_of, job.rounds, sizeof(round_of[0]), by_cpu);
	if (job.json)
		print_json(&wall, took);
	else
		print_text(&wall, took);
	close_all();
	weft_env_fini();
	return 0;
}
