/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * One long operation on one QP, short ones on another QP of the same worker: how long the
 * iterations of the target's poll loop take meanwhile, and what the short ones notice. Two stacks
 * in one process, polled in turn by one thread, over a wire of two rings; the target's executor has
 * a thread of its own, as always.
 *
 * Two clocks tell of every poll of the target. Wall time is what weft's own histogram holds, TSC at
 * its start and end; whatever else had the core meanwhile is in it. CPU time is the polling
 * thread's by the kernel's account (CLOCK_THREAD_CPUTIME_ID), read around the call: what other
 * threads had of the core is not in it, nor what a hypervisor took where the kernel is told of
 * that; interrupts, page faults and the clock's own half a microsecond are. It is the one that is
 * judged. A round of its own for every repetition, since a defect of slicing is there each time and
 * a disturbance is not.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_ring.h>

#include "weft.h"
#include "weft_engine.h"

#define PORT       7471
#define PING_BYTES 64
#define GOAL_US    50.0
#define NAP_US     20000 /**< what a flush of the medium "nap" takes in the kernel */
#define STALL_S    60
#define ROUNDS_MAX 64

struct side {
	struct rte_ring *in, *out;
	struct rte_mempool *pool;
	struct weft_ctx *ctx;
	struct weft_worker *w;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct weft_qp *qp[2]; /**< of the short operations; of the long one */
	uint32_t nqp, up;
	struct weft_mr *mr;
	uint8_t *mem;
};

static struct side side[2]; /**< initiator, target */

static struct {
	const char *medium, *path, *hash, *op;
	uint64_t bytes;
	uint32_t rounds;
} job = {.medium = "memory", .hash = "crc32c", .op = "verify", .bytes = 1ull << 30, .rounds = 5};

static struct weft_persist *medium;
static uint8_t *big;
static struct weft_mr *big_mr;
static uint32_t long_out, pings_out;
static uint64_t ping_start;

static void die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

static void
die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "slicing: ");
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

static void
must(int rc, const char *what)
{
	if (rc < 0)
		die("%s: %s", what, strerror(-rc));
}

/* ---- Samples, in ns: all are kept, so what is said of them is exact ---- */

struct samples {
	uint32_t *ns;
	size_t n, room;
	bool sorted;
};

static void
sample(struct samples *s, uint64_t ns)
{
	if (s->n == s->room) {
		s->room = s->room == 0 ? 1 << 16 : 2 * s->room;
		s->ns = realloc(s->ns, s->room * sizeof(s->ns[0]));
		if (s->ns == NULL)
			die("no memory");
	}
	s->ns[s->n++] = (uint32_t)RTE_MIN(ns, UINT32_MAX);
	s->sorted = false;
}

static int
by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static double
pct_us(struct samples *s, double pct)
{
	if (s->n == 0)
		return 0;
	if (!s->sorted)
		qsort(s->ns, s->n, sizeof(s->ns[0]), by_value);
	s->sorted = true;
	return s->ns[RTE_MIN(s->n - 1, (size_t)((double)s->n * pct / 100))] / 1e3;
}

static uint64_t
below(const struct samples *s, double us)
{
	uint64_t n = 0;

	for (size_t i = 0; i < s->n; i++)
		n += s->ns[i] < us * 1e3;
	return n;
}

static struct samples cpu, floor_, ping_idle, ping_busy, *ping_to;

static double
now_s(void)
{
	return (double)rte_rdtsc() / (double)rte_get_tsc_hz();
}

/* ---- Clocks ---- */

static uint64_t
cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* ---- A medium whose flush blocks in the kernel ---- */

struct nap_req {
	struct weft_job job;
	struct weft_persist_req *req;
};
static_assert(sizeof(struct nap_req) <= sizeof(((struct weft_persist_req *)0)->drv), "fits");

static int
nap_open(struct weft_persist *p, const struct weft_persist_attr *attr)
{
	p->base = mmap(NULL, attr->bytes, PROT_READ | PROT_WRITE,
	               MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (p->base == MAP_FAILED)
		return -ENOMEM;
	p->bytes = attr->bytes;
	snprintf(p->mechanism, sizeof(p->mechanism), "a sleep of %u us", NAP_US);
	return 0;
}

static void
nap_close(struct weft_persist *p)
{
	munmap(p->base, p->bytes);
}

static void
nap_run(struct weft_job *j)
{
	(void)j;
	usleep(NAP_US);
}

static void
nap_done(struct weft_job *j)
{
	struct weft_persist_req *req = ((struct nap_req *)j)->req;

	req->status = 0;
	req->done(req);
}

static int
nap_flush(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req)
{
	struct nap_req *nr = (struct nap_req *)req->drv;

	(void)p;
	nr->job.run = nap_run;
	nr->job.done = nap_done;
	nr->req = req;
	return weft_exec_submit(exec, &nr->job);
}

static int
nap_read_back(struct weft_persist *p, struct weft_exec *exec, struct weft_persist_req *req)
{
	(void)exec;
	req->data = p->base + req->off_bytes;
	req->status = 0;
	req->done(req);
	return 0;
}

static const struct weft_persist_ops nap_ops = {.name = "nap",
                                                .persistent = true,
                                                .open = nap_open,
                                                .close = nap_close,
                                                .flush = nap_flush,
                                                .read_back = nap_read_back,
                                                .read_back_max_bytes = 1 << 20};

WEFT_PERSIST_REGISTER(nap, nap_ops)

/* ---- The wire ---- */

static uint16_t
wire_rx(void *dev, struct rte_mbuf **m, uint16_t n)
{
	return (uint16_t)rte_ring_sc_dequeue_burst(((struct side *)dev)->in, (void **)m, n, NULL);
}

static uint16_t
wire_tx(void *dev, struct rte_mbuf **m, uint16_t n)
{
	return (uint16_t)rte_ring_sp_enqueue_burst(((struct side *)dev)->out, (void **)m, n, NULL);
}

static const struct weft_netif_dev wire = {.rx = wire_rx, .tx = wire_tx};

/* ---- Setting up ---- */

static struct sockaddr_in
address(unsigned int i)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
	                            .sin_addr.s_addr = htonl(0x0a000001 + i),
	                            .sin_port = htons(PORT)};
}

static void
open_side(unsigned int i, struct rte_ring *const ring[2])
{
	struct side *s = &side[i];
	struct weft_worker_attr wa = {.size = sizeof(wa), .lcore = -1, .spin = true};
	struct weft_cq_attr qa = {.size = sizeof(qa), .depth = 1024};
	struct weft_evq_attr ea = {.size = sizeof(ea)};
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .len_bytes = 1 << 16,
	                          .access = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_WRITE |
	                                    WEFT_ACCESS_REMOTE_READ};
	struct weft_netif_attr na = {.dev = &wire, .dev_arg = s, .prefix_len = 24};
	uint16_t unused;
	char name[16];

	s->in = ring[i];
	s->out = ring[!i];
	snprintf(name, sizeof(name), "slicing%u", i);
	must(weft_netif_pool_create(name, 16383, 1500, SOCKET_ID_ANY, &s->pool), "mbufs");
	na.pool = s->pool;
	na.mac = (struct rte_ether_addr){{2, 0, 0, 0, 0, (uint8_t)(i + 1)}};
	must(weft_ip_from_sockaddr((struct sockaddr *)&(struct sockaddr_in[]){address(i)}[0],
	                           &na.addr, &unused),
	     "address");
	must(weft_ctx_create(NULL, &s->ctx), "context");
	must(weft_worker_create(s->ctx, &wa, &s->w), "worker");
	must(weft_engine_add_netif(s->w, &na), "interface");
	must(weft_pd_alloc(s->ctx, &s->pd), "domain");
	must(weft_cq_create(s->ctx, &qa, &s->cq), "completion queue");
	must(weft_evq_create(s->ctx, &ea, &s->evq), "event queue");
	s->mem = aligned_alloc(4096, ma.len_bytes);
	if (s->mem == NULL)
		die("no memory");
	memset(s->mem, 0, ma.len_bytes);
	ma.addr = s->mem;
	must(weft_mr_reg(s->pd, &ma, &s->mr), "region");
}

static struct weft_qp *
make_qp(struct side *s)
{
	struct weft_qp_attr a = {.size = sizeof(a),
	                         .worker = s->w,
	                         .send_cq = s->cq,
	                         .recv_cq = s->cq,
	                         .evq = s->evq};

	must(weft_qp_create(s->pd, &a, &s->qp[s->nqp]), "QP");
	return s->qp[s->nqp++];
}

static void
take_events(struct side *s)
{
	struct weft_event ev;
	char why[160];

	while (weft_evq_poll(s->evq, &ev) > 0) {
		switch (ev.type) {
		case WEFT_EV_CONNECT_REQUEST:
			must(weft_accept(ev.connreq, make_qp(s), NULL), "accept");
			break;
		case WEFT_EV_ESTABLISHED:
			s->up++;
			break;
		case WEFT_EV_TERMINATED:
			die("Terminate: %s", weft_terminate_str(&ev.term, why, sizeof(why)));
		default:
			die("a connection ended: %s: %s", weft_event_str(ev.type),
			    strerror(-ev.status));
		}
	}
}

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
		die("no hash '%s'", job.hash);
	if (h->key_min_bytes > 0) {
		ma.hash_key = key;
		ma.hash_key_bytes = sizeof(key);
	}
	if (strcmp(job.medium, "memory") == 0) {
		big = mmap(NULL, job.bytes, PROT_READ | PROT_WRITE,
		           MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		if (big == MAP_FAILED)
			die("no memory");
	} else {
		must(weft_persist_open(&pa, &medium), "medium");
		big = medium->base;
		ma.persist = medium;
		if (medium->ops->persistent)
			ma.access |= WEFT_ACCESS_FLUSH_PERSISTENT;
	}
	ma.addr = big;
	must(weft_mr_reg(side[1].pd, &ma, &big_mr), "region on the medium");
}

/* ---- Load ---- */

/** All of it is new, as if peers had written it. */
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
	for (unsigned int i = 0; i < 2; i++) {
		weft_ctx_destroy(side[i].ctx);
		free(side[i].mem);
	}
	if (medium != NULL)
		weft_persist_close(medium);
	if (job.path != NULL)
		unlink(job.path);
}

static void
start_long(void)
{
	struct weft_wr wr = {.opcode = WEFT_WR_VERIFY, .flags = WEFT_WR_SIGNALED, .wr_id = 2};

	if (strcmp(job.op, "flush") == 0) {
		wr.opcode = WEFT_WR_FLUSH;
		wr.flush.stag = weft_mr_stag(big_mr);
		wr.flush.len_bytes = (uint32_t)job.bytes;
		wr.flush.flags = medium != NULL && medium->ops->persistent ? WEFT_FLUSH_PERSISTENT
		                                                           : WEFT_FLUSH_VISIBLE;
	} else {
		wr.verify.stag = weft_mr_stag(big_mr);
		wr.verify.len_bytes = (uint32_t)job.bytes;
	}
	if (weft_post_send(side[0].qp[1], &wr, 1) != 1)
		die("cannot post the %s", job.op);
	long_out = 1;
}

/** A Write of 64 octets and a Read of them behind it: a round trip through the target. */
static void
ping(void)
{
	struct weft_sge sge[2] = {{side[0].mem, PING_BYTES, 0},
	                          {side[0].mem + 4096, PING_BYTES, weft_mr_stag(side[0].mr)}};
	struct weft_wr wr[2] = {{.opcode = WEFT_WR_WRITE,
	                         .sg_list = &sge[0],
	                         .num_sge = 1,
	                         .rdma = {weft_mr_stag(side[1].mr), 0}},
	                        {.opcode = WEFT_WR_READ,
	                         .flags = WEFT_WR_SIGNALED,
	                         .wr_id = 1,
	                         .sg_list = &sge[1],
	                         .num_sge = 1,
	                         .rdma = {weft_mr_stag(side[1].mr), 0}}};

	ping_start = rte_rdtsc();
	if (weft_post_send(side[0].qp[0], wr, 2) != 2)
		die("cannot post a ping");
	pings_out = 1;
}

static void
poll_target(bool measured)
{
	uint64_t t0 = measured ? cpu_ns() : 0;
	unsigned int n = weft_worker_poll(side[1].w);

	if (measured && n > 0)
		sample(&cpu, cpu_ns() - t0);
}

static void
turn(bool measured)
{
	struct weft_wc wc[16];
	int n;

	weft_worker_poll(side[0].w);
	poll_target(measured);
	while ((n = weft_cq_poll(side[0].cq, wc, 16)) > 0) {
		for (int i = 0; i < n; i++) {
			if (wc[i].status != WEFT_WC_SUCCESS)
				die("%s", weft_wc_status_str(wc[i].status));
			if (wc[i].wr_id == 2) {
				long_out = 0;
				continue;
			}
			pings_out = 0;
			if (ping_to != NULL)
				sample(ping_to, (uint64_t)((double)(rte_rdtsc() - ping_start) *
				                           1e9 / (double)rte_get_tsc_hz()));
		}
	}
}

static void
connect_both(void)
{
	struct weft_listen_attr la = {.size = sizeof(la), .evq = side[1].evq};
	struct sockaddr_in at = address(1);
	struct weft_listener *l;
	double end = now_s() + 10;

	must(weft_listen(side[1].ctx, (struct sockaddr *)&at, sizeof(at), &la, &l), "listen");
	for (uint32_t i = 0; i < 2; i++) {
		must(weft_connect(make_qp(&side[0]), (struct sockaddr *)&at, sizeof(at), NULL),
		     "connect");
		while (side[0].up <= i || side[1].up <= i) {
			turn(false);
			take_events(&side[0]);
			take_events(&side[1]);
			if (now_s() > end)
				die("no connection");
		}
	}
}

/** Pings one after the other until `until`, or with until 0 until the long work is over. */
static void
run(struct samples *to, double until, bool measured)
{
	double give_up = now_s() + STALL_S;

	ping_to = to;
	while (until > 0 ? now_s() < until : long_out > 0) {
		if (pings_out == 0)
			ping();
		turn(measured);
		take_events(&side[0]);
		take_events(&side[1]);
		if (now_s() > give_up)
			die("the %s does not end", job.op);
	}
	ping_to = NULL;
	while (pings_out > 0)
		turn(measured);
}

/** Arithmetic without a memory access; returns how long it took. */
static uint64_t
busy_ns(uint64_t steps)
{
	uint64_t t0 = cpu_ns(), x = 1;

	for (uint64_t i = 0; i < steps; i++) {
		x = x * 6364136223846793005u + 1;
		__asm__ volatile("" : "+r"(x));
	}
	return cpu_ns() - t0;
}

/** What the machine does to a thread by itself: pieces of some 8 us, by the same clock. */
static void
measure_floor(struct samples *s, double seconds)
{
	uint64_t steps = 20000, best = UINT64_MAX;

	for (int i = 0; i < 50; i++)
		best = RTE_MIN(best, busy_ns(steps));
	steps = steps * 8000 / best;
	for (double end = now_s() + seconds; now_s() < end;)
		sample(s, busy_ns(steps));
}

/* ---- Result ---- */

static const double edge_us[] = {1, 2, 5, 10, 20, 30, 40, 50, 100, 1000};

/** weft's own histogram and the CPU time, side by side. */
static void
print_hist(const struct weft_poll_hist *wall)
{
	uint64_t seen = 0, last = 0;
	unsigned int b = 0;

	printf("  %-14s %14s %14s\n", "iteration", "wall", "CPU");
	for (unsigned int e = 0; e <= RTE_DIM(edge_us); e++) {
		bool all = e == RTE_DIM(edge_us);
		uint64_t n = all ? cpu.n : below(&cpu, edge_us[e]), w = 0;

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
by_us(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void
usage(FILE *f)
{
	fputs("usage: bench_slicing [options]\n"
	      "A long operation on one QP, 64 octets written and read on another of the same "
	      "worker.\n"
	      "\n"
	      "  -o, --op OP          [verify] verify, flush, none\n"
	      "  -m, --medium DRIVER  [memory] memory, volatile, file, pmem, or nap: a flush "
	      "sleeps\n"
	      "                       20 ms\n"
	      "  -f, --path FILE      of file and pmem; made, and removed again\n"
	      "  -H, --hash NAME      [crc32c] of verify\n"
	      "  -b, --bytes N        [1073741824] of the region and of the operation\n"
	      "  -r, --rounds N       [5] the operation so often\n"
	      "      --json\n"
	      "  -h, --help\n",
	      f);
}

static void
parse(int argc, char **argv, bool *json)
{
	static const struct option longopts[] = {{"op", required_argument, NULL, 'o'},
	                                         {"medium", required_argument, NULL, 'm'},
	                                         {"path", required_argument, NULL, 'f'},
	                                         {"hash", required_argument, NULL, 'H'},
	                                         {"bytes", required_argument, NULL, 'b'},
	                                         {"rounds", required_argument, NULL, 'r'},
	                                         {"json", no_argument, NULL, 'j'},
	                                         {"help", no_argument, NULL, 'h'},
	                                         {0}};
	int opt;

	while ((opt = getopt_long(argc, argv, "o:m:f:H:b:r:h", longopts, NULL)) != -1) {
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
		case 'j':
			*json = true;
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

int
main(int argc, char **argv)
{
	static struct weft_poll_hist wall, before;
	const struct weft_env_attr ea = {
	        .size = sizeof(ea), .progname = "bench_slicing", .memory_mb = 512, .no_huge = true};
	double longest[ROUNDS_MAX], start, took = 0;
	struct rte_ring *ring[2];
	size_t from = 0;
	const char *msg;
	bool json = false, none;

	parse(argc, argv, &json);
	none = strcmp(job.op, "none") == 0;
	if (weft_env_init(&ea, &msg) != 0)
		die("%s", msg != NULL ? msg : "DPDK does not start");
	for (unsigned int i = 0; i < 2; i++) {
		ring[i] = rte_ring_create(i == 0 ? "slicing_a" : "slicing_b", 1024, SOCKET_ID_ANY,
		                          RING_F_SP_ENQ | RING_F_SC_DEQ);
		if (ring[i] == NULL)
			die("no memory");
	}
	measure_floor(&floor_, 1.0);
	open_side(0, ring);
	open_side(1, ring);
	open_medium();
	connect_both();
	run(NULL, now_s() + 0.05, false);
	run(&ping_idle, now_s() + 0.2, true);
	cpu.n = 0; /* but its memory is there */
	wall.size = before.size = sizeof(wall);
	must(weft_worker_poll_hist(side[1].w, &before), "histogram");
	for (uint32_t r = 0; r < job.rounds; r++) {
		start = now_s();
		if (!none) {
			prepare(r);
			start = now_s();
			start_long();
		}
		run(&ping_busy, none ? start + 0.2 : 0, true);
		took += now_s() - start;
		longest[r] = 0;
		for (; from < cpu.n; from++)
			longest[r] = RTE_MAX(longest[r], cpu.ns[from] / 1e3);
	}
	must(weft_worker_poll_hist(side[1].w, &wall), "histogram");
	weft_poll_hist_since(&wall, &before);
	qsort(longest, job.rounds, sizeof(longest[0]), by_us);
	if (json) {
		printf("{\"op\": \"%s\", \"medium\": \"%s\", \"mechanism\": \"%s\", \"hash\": "
		       "\"%s\", \"bytes\": %" PRIu64 ", \"rounds\": %u, \"seconds\": %.3f, "
		       "\"polls\": %" PRIu64
		       ", \"cpu_longest_us\": {\"min\": %.1f, \"median\": %.1f, \"max\": %.1f}, "
		       "\"cpu_above_50us\": %" PRIu64
		       ", \"floor\": {\"seconds\": 1, \"longest_us\": %.1f, \"above_50us\": "
		       "%" PRIu64 "}, \"wall_longest_us\": %.1f, "
		       "\"ping_alone_us\": {\"p50\": %.2f, \"p99\": %.2f}, "
		       "\"ping_beside_us\": {\"p50\": %.2f, \"p99\": %.2f}}\n",
		       job.op, job.medium, medium != NULL ? medium->mechanism : "", job.hash,
		       job.bytes, job.rounds, took, wall.polls, longest[0], longest[job.rounds / 2],
		       longest[job.rounds - 1], cpu.n - below(&cpu, GOAL_US + 1e-3),
		       pct_us(&floor_, 100), floor_.n - below(&floor_, GOAL_US + 1e-3),
		       (double)wall.max_ns / 1e3, pct_us(&ping_idle, 50), pct_us(&ping_idle, 99),
		       pct_us(&ping_busy, 50), pct_us(&ping_busy, 99));
	} else {
		printf("%s of %" PRIu64 " octets, %s%s%s, hash %s, %u times in %.3f s\n", job.op,
		       job.bytes, job.medium, medium != NULL ? ": " : "",
		       medium != NULL ? medium->mechanism : "", job.hash, job.rounds, took);
		print_hist(&wall);
		printf("  the machine by itself, in one second of arithmetic in pieces of 8 us: "
		       "longest %.1f us, above 50 us %" PRIu64 "\n",
		       pct_us(&floor_, 100), floor_.n - below(&floor_, GOAL_US + 1e-3));
		printf("  longest by CPU time: lowest round %.1f us, median %.1f, highest %.1f; by "
		       "wall time %.1f\n"
		       "  64 octets written and read beside it: p50 %.2f us, p99 %.2f; alone %.2f "
		       "and %.2f\n",
		       longest[0], longest[job.rounds / 2], longest[job.rounds - 1],
		       (double)wall.max_ns / 1e3, pct_us(&ping_busy, 50), pct_us(&ping_busy, 99),
		       pct_us(&ping_idle, 50), pct_us(&ping_idle, 99));
	}
	close_all();
	weft_env_fini();
	return 0;
}
