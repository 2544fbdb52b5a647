/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Many connections in one process: two stacks on one thread, polled in turn, over a wire of two
 * rings. What an idle connection costs in memory, what idle ones cost the busy ones, and how fast
 * they come up.
 */

#include <arpa/inet.h>
#include <getopt.h>
#include <stdarg.h>
#include <unistd.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_malloc.h>
#include <rte_ring.h>

#include "weft.h"
#include "weft_engine.h"

#define DEPTH       16 /**< of SQ, RQ and IRD */
#define BURST       8  /**< writes under way on a busy connection */
#define BYTES       64
#define PORT        7471
#define CONNECTING  128 /**< opens under way at once */
#define REST_S      3   /**< after it, an idle connection has given back what it does not need */
#define BOUND_BYTES 4096
#define ROUNDS_MAX  64

struct side {
	struct rte_ring *in, *out;
	struct rte_mempool *pool;
	struct weft_ctx *ctx;
	struct weft_worker *w;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct weft_qp **qp;
	uint32_t nqp, up;
	struct weft_mr *mr;
	uint8_t *mem;
};

/** Two stacks and a wire. */
static struct rig {
	struct side side[2];
	uint32_t conns;   /**< it is made for */
	uint32_t *posted; /**< writes under way, by connection */
	uint64_t completed;
	struct weft_listener *l;
} alone, many;

static uint32_t conns = 10000, busy = 64, rounds = 5, slice_ms = 400;
static uint8_t *recv_mem;

static void __attribute__((noreturn, format(printf, 1, 2))) die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "scale: ");
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

static double
now_s(void)
{
	return (double)rte_rdtsc() / (double)rte_get_tsc_hz();
}

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
open_side(struct rig *r, unsigned int i, struct rte_ring *const ring[2])
{
	struct side *s = &r->side[i];
	struct weft_ctx_attr ca = {.size = sizeof(ca)};
	struct weft_worker_attr wa = {.size = sizeof(wa), .lcore = -1, .spin = true};
	struct weft_cq_attr qa = {.size = sizeof(qa), .depth = r->conns * DEPTH};
	struct weft_evq_attr ea = {.size = sizeof(ea)};
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .len_bytes = 1 << 20,
	                          .access = WEFT_ACCESS_LOCAL_WRITE | WEFT_ACCESS_REMOTE_WRITE};
	struct weft_netif_attr na = {.dev = &wire, .dev_arg = s, .prefix_len = 24};
	uint16_t unused;
	char name[16];

	s->in = ring[i];
	s->out = ring[!i];
	snprintf(name, sizeof(name), "scale%u_%u", r->conns, i);
	must(weft_netif_pool_create(name, 32767, 1500, SOCKET_ID_ANY, &s->pool), "mbufs");
	na.pool = s->pool;
	na.mac = (struct rte_ether_addr){{2, 0, 0, 0, 0, (uint8_t)(i + 1)}};
	must(weft_ip_from_sockaddr((struct sockaddr *)&(struct sockaddr_in[]){address(i)}[0],
	                           &na.addr, &unused),
	     "address");
	/* TIME-WAIT needs room beside the living. */
	wa.max_conns = r->conns + CONNECTING;
	must(weft_ctx_create(&ca, &s->ctx), "context");
	must(weft_worker_create(s->ctx, &wa, &s->w), "worker");
	must(weft_engine_add_netif(s->w, &na), "interface");
	must(weft_pd_alloc(s->ctx, &s->pd), "domain");
	must(weft_cq_create(s->ctx, &qa, &s->cq), "completion queue");
	must(weft_evq_create(s->ctx, &ea, &s->evq), "event queue");
	s->mem = aligned_alloc(4096, ma.len_bytes);
	s->qp = calloc(r->conns, sizeof(struct weft_qp *));
	if (s->mem == NULL || s->qp == NULL)
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
	                         .evq = s->evq,
	                         .sq_depth = DEPTH,
	                         .rq_depth = DEPTH,
	                         .ird = DEPTH,
	                         .ord = DEPTH,
	                         .max_sge = 1,
	                         .user = (void *)(uintptr_t)s->nqp};
	struct weft_sge sge = {recv_mem, BYTES, 0};
	struct weft_recv_wr rw = {.sg_list = &sge, .num_sge = 1};
	struct weft_qp *qp;

	must(weft_qp_create(s->pd, &a, &qp), "QP");
	for (unsigned int i = 0; i < DEPTH; i++)
		if (weft_post_recv(qp, &rw, 1) != 1)
			die("cannot post a receive");
	s->qp[s->nqp++] = qp;
	return qp;
}

static void
take_events(struct side *s)
{
	struct weft_event ev;

	while (weft_evq_poll(s->evq, &ev) > 0) {
		switch (ev.type) {
		case WEFT_EV_CONNECT_REQUEST:
			must(weft_accept(ev.connreq, make_qp(s), NULL), "accept");
			break;
		case WEFT_EV_ESTABLISHED:
			s->up++;
			break;
		default:
			die("a connection ended: %s: %s", weft_event_str(ev.type),
			    strerror(-ev.status));
		}
	}
}

static void
poll_both(struct rig *r)
{
	struct weft_wc wc[64];
	int n;

	weft_worker_poll(r->side[0].w);
	weft_worker_poll(r->side[1].w);
	while ((n = weft_cq_poll(r->side[0].cq, wc, 64)) > 0) {
		r->completed += (uint64_t)n;
		for (int i = 0; i < n; i++) {
			if (wc[i].status != WEFT_WC_SUCCESS)
				die("%s", weft_wc_status_str(wc[i].status));
			r->posted[(uintptr_t)wc[i].qp_user]--;
		}
	}
}

/** Bring the number of connections to n; seconds it took. */
static double
connect_up_to(struct rig *r, uint32_t n)
{
	struct sockaddr_in to = address(1);
	double start = now_s(), last = start;
	uint32_t seen = r->side[0].up;

	while (r->side[0].up < n || r->side[1].up < n) {
		if (r->side[0].nqp < n && r->side[0].nqp - r->side[0].up < CONNECTING)
			must(weft_connect(make_qp(&r->side[0]), (struct sockaddr *)&to, sizeof(to),
			                  NULL),
			     "connect");
		poll_both(r);
		take_events(&r->side[0]);
		take_events(&r->side[1]);
		if (r->side[0].up != seen) {
			seen = r->side[0].up;
			last = now_s();
		} else if (now_s() - last > 20) {
			die("%u of %u connections, and no more", seen, n);
		}
	}
	return now_s() - start;
}

static void
idle(struct rig *r, double s)
{
	for (double end = now_s() + s; now_s() < end;)
		poll_both(r);
}

static void
open_rig(struct rig *r, uint32_t n)
{
	struct weft_listen_attr la = {.size = sizeof(la), .backlog = 1024};
	struct sockaddr_in at = address(1);
	struct rte_ring *ring[2];

	r->conns = n;
	r->posted = calloc(n, sizeof(*r->posted));
	for (unsigned int i = 0; i < 2; i++) {
		char name[32];

		snprintf(name, sizeof(name), "scale_wire%u_%u", n, i);
		ring[i] = rte_ring_create(name, 1024, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
		if (ring[i] == NULL || r->posted == NULL)
			die("no memory");
	}
	open_side(r, 0, ring);
	open_side(r, 1, ring);
	la.evq = r->side[1].evq;
	must(weft_listen(r->side[1].ctx, (struct sockaddr *)&at, sizeof(at), &la, &r->l), "listen");
}

static void
close_rig(struct rig *r)
{
	if (r->l == NULL)
		return;
	weft_unlisten(r->l);
	for (unsigned int i = 0; i < 2; i++) {
		weft_ctx_destroy(r->side[i].ctx);
		free(r->side[i].mem);
		free(r->side[i].qp);
	}
	free(r->posted);
}

/* ---- Load ---- */

static uint64_t
outstanding(const struct rig *r)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < r->side[0].nqp; i++)
		n += r->posted[i];
	return n;
}

/** Writes completed in a second when n connections, evenly spread, are busy. */
static double
rate(struct rig *r, uint32_t n)
{
	struct weft_sge sge = {r->side[0].mem, BYTES, 0};
	uint32_t step = r->side[0].nqp / n, stag = weft_mr_stag(r->side[1].mr);
	double start, end;
	uint64_t before;

	/* What another slice has left under way is not this one's. */
	for (end = now_s() + 10; outstanding(r) > 0 && now_s() < end;)
		poll_both(r);
	idle(r, 0.05);
	before = r->completed;
	start = now_s();
	end = start + slice_ms / 1000.0;
	while (now_s() < end) {
		for (uint32_t i = 0; i < n; i++) {
			uint32_t c = i * step;
			struct weft_wr wr = {.opcode = WEFT_WR_WRITE,
			                     .flags = WEFT_WR_SIGNALED,
			                     .sg_list = &sge,
			                     .num_sge = 1,
			                     .rdma = {stag, 0}};

			while (r->posted[c] < BURST &&
			       weft_post_send(r->side[0].qp[c], &wr, 1) == 1)
				r->posted[c]++;
			/* Many at once would only queue: the wire gets its turn. */
			if (i % 64 == 63)
				poll_both(r);
		}
		poll_both(r);
	}
	return (double)(r->completed - before) / (now_s() - start);
}

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double
median(double *v, uint32_t n)
{
	qsort(v, n, sizeof(v[0]), by_value);
	return v[n / 2];
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

/** Of an idle connection on one side: what the heap grew by, and its place in TCP's table. */
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

static void
start_eal(bool check)
{
	const struct weft_env_attr a = {.size = sizeof(a),
	                                .progname = "bench_scale",
	                                .memory_mb = check ? 384 : 1024,
	                                .no_huge = true};
	const char *msg;

	if (weft_env_init(&a, &msg) != 0)
		die("%s", msg != NULL ? msg : "DPDK does not start");
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
	start_eal(check);
	recv_mem = calloc(1, BYTES);
	if (recv_mem == NULL)
		die("no memory");
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
		/* In turns, so that whatever else the machine does hits all alike. */
		for (uint32_t i = 0; i < rounds; i++) {
			own[i] = rate(&alone, busy);
			among[i] = rate(&many, busy);
			all[i] = rate(&many, conns);
		}
		own_m = median(own, rounds);
		among_m = median(among, rounds);
		all_m = median(all, rounds);
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
