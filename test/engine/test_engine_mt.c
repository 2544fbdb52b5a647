/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Two workers over a pair of ports under load, while captures start and stop, telemetry runs every
 * command, and contexts are created and destroyed. Made for ThreadSanitizer (suite tsan), and tests
 * without it as well.
 */

#define ALLOW_EXPERIMENTAL_API /* rte_dev_event_callback_process() */

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>

#include <weft/weft.h>
#include "weft_test.h"
#include "weft_tsan.h"

#define PORT 7471

static struct {
	struct weft_ctx *ctx;
	struct weft_port *port[2];
	struct weft_worker *w[2];
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct weft_qp *qp[2];
	struct weft_listener *lsn;
	struct weft_mr *mr;
	pthread_t thread;
	atomic_bool stop;
	atomic_uint_fast64_t done;
	char dev[2][48]; /**< of the ports */
	uint8_t mem[4096];
} s;

static void
env(void)
{
	static const char *const extra[] = {
#ifdef __SANITIZE_THREAD__
	        "--mbuf-pool-ops-name", "tsan_pool",
#endif
	        NULL};
	struct weft_env_attr ea = {.size = sizeof(ea),
	                           .progname = "test_engine_mt",
	                           .memory_mb = 192,
	                           .no_huge = true,
	                           .telemetry = true,
	                           .extra = extra};
	static bool done;
	const char *msg = NULL;

	if (!done)
		CHECK_MSG(weft_env_init(&ea, &msg) == 0, "%s", msg);
	done = true;
}

#ifdef __SANITIZE_THREAD__
/* The ring driver is not instrumented. The callbacks at both ends tell ThreadSanitizer which
 * packets go from port to port. */

static uint16_t
wire_in(uint16_t id, uint16_t queue, struct rte_mbuf *pkts[], uint16_t n, uint16_t max, void *arg)
{
	(void)id;
	(void)queue;
	(void)pkts;
	(void)max;
	WEFT_TSAN_ACQUIRE(arg);
	return n;
}

static uint16_t
wire_out(uint16_t id, uint16_t queue, struct rte_mbuf *pkts[], uint16_t n, void *arg)
{
	(void)id;
	(void)queue;
	(void)pkts;
	WEFT_TSAN_RELEASE(arg);
	return n;
}

static void
wire_tell(const char *dev, struct rte_ring *in, struct rte_ring *out)
{
	uint16_t id;

	CHECK_EQ(rte_eth_dev_get_port_by_name(dev, &id), 0);
	CHECK(rte_eth_add_rx_callback(id, 0, wire_in, in) != NULL);
	CHECK(rte_eth_add_tx_callback(id, 0, wire_out, out) != NULL);
}
#else
static void
wire_tell(const char *dev, struct rte_ring *in, struct rte_ring *out)
{
	(void)dev;
	(void)in;
	(void)out;
}
#endif

static struct weft_event
next_event(enum weft_event_type type)
{
	struct weft_event ev;

	for (unsigned int i = 0; i < 200000; i++) {
		if (weft_evq_poll(s.evq, &ev) == 1) {
			CHECK_EQ(ev.type, type);
			return ev;
		}
		usleep(100);
	}
	test_fail(__FILE__, __LINE__, "no event");
}

/** Writes of 256 octets, four outstanding. */
static void *
load_main(void *arg)
{
	unsigned int out = 0;

	(void)arg;
	while (!atomic_load(&s.stop) || out > 0) {
		struct weft_sge sg = {s.mem, 256, 0};
		struct weft_wr wr = {.opcode = WEFT_WR_WRITE,
		                     .flags = WEFT_WR_SIGNALED,
		                     .sg_list = &sg,
		                     .num_sge = 1,
		                     .rdma = {weft_mr_stag(s.mr), 2048}};
		struct weft_wc wc[4];
		int n;

		if (out < 4 && !atomic_load(&s.stop) && weft_post_send(s.qp[0], &wr, 1) == 1)
			out++;
		n = weft_cq_poll(s.cq, wc, 4);
		if (n < 0 || (n > 0 && wc[0].status != WEFT_WC_SUCCESS))
			return (void *)1;
		out -= (unsigned int)n;
		atomic_fetch_add(&s.done, (unsigned int)n);
		if (n == 0)
			usleep(50);
	}
	return NULL;
}

/** Wait until n more Writes are complete. Fails only if none completes for a long time. */
static void
load_turn(uint64_t n)
{
	uint64_t at = atomic_load(&s.done), end = at + n;

	for (unsigned int still = 0; at < end && still < 400000; still++) {
		uint64_t now = atomic_load(&s.done);

		if (now != at)
			still = 0;
		at = now;
		usleep(50);
	}
	CHECK(at >= end);
}

static void
up(void)
{
	static struct rte_ring *ring[2];
	struct weft_cq_attr qa = {.size = sizeof(qa), .depth = 64};
	struct weft_evq_attr ea = {.size = sizeof(ea)};
	struct weft_listen_attr la = {.size = sizeof(la)};
	struct weft_mr_attr ma = {.size = sizeof(ma),
	                          .addr = s.mem,
	                          .len_bytes = sizeof(s.mem),
	                          .access = WEFT_ACCESS_REMOTE_WRITE};
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	struct weft_event ev;

	env();
	memset(&s, 0, sizeof(s));
	CHECK_EQ(weft_ctx_create(NULL, &s.ctx), 0);
	/* New rings: the last RST of a context that was destroyed stays in its ring, and the memory
	 * of that packet is gone with the context. */
	for (unsigned int i = 0; i < 2; i++) {
		rte_ring_free(ring[i]);
		ring[i] = rte_ring_create(i ? "mt1" : "mt0", 1024, SOCKET_ID_ANY,
		                          RING_F_SP_ENQ | RING_F_SC_DEQ);
		CHECK(ring[i] != NULL);
	}
	for (unsigned int i = 0; i < 2; i++) {
		static unsigned int serial;
		struct weft_port_attr pa = {.size = sizeof(pa), .prefix_len = 24, .mbufs = 2048};
		char eth[32], *dev = s.dev[i];

		snprintf(eth, sizeof(eth), "mt%u", serial++);
		snprintf(dev, sizeof(s.dev[i]), "net_ring_%s", eth);
		CHECK(rte_eth_from_rings(eth, &ring[i], 1, &ring[!i], 1, 0) >= 0);
		pa.name = i ? "b" : "a";
		pa.dev = dev;
		sa.sin_addr.s_addr = htonl(0x0a000001 + i);
		memcpy(&pa.addr, &sa, sizeof(sa));
		CHECK_EQ(weft_port_open(s.ctx, &pa, &s.port[i]), 0);
		wire_tell(dev, ring[i], ring[!i]);
		CHECK_EQ(weft_worker_create(s.ctx, NULL, &s.w[i]), 0);
		CHECK_EQ(weft_worker_add_port(s.w[i], s.port[i]), 0);
		CHECK_EQ(weft_worker_start(s.w[i]), 0);
	}
	CHECK_EQ(weft_pd_alloc(s.ctx, &s.pd), 0);
	CHECK_EQ(weft_cq_create(s.ctx, &qa, &s.cq), 0);
	CHECK_EQ(weft_evq_create(s.ctx, &ea, &s.evq), 0);
	CHECK_EQ(weft_mr_reg(s.pd, &ma, &s.mr), 0);
	la.evq = s.evq;
	CHECK_EQ(weft_listen(s.ctx, (struct sockaddr *)&sa, sizeof(sa), &la, &s.lsn), 0);
	for (unsigned int i = 0; i < 2; i++) {
		struct weft_qp_attr pa = {.size = sizeof(pa),
		                          .worker = s.w[i],
		                          .send_cq = s.cq,
		                          .recv_cq = s.cq,
		                          .evq = s.evq};

		CHECK_EQ(weft_qp_create(s.pd, &pa, &s.qp[i]), 0);
	}
	CHECK_EQ(weft_connect(s.qp[0], (struct sockaddr *)&sa, sizeof(sa), NULL), 0);
	ev = next_event(WEFT_EV_CONNECT_REQUEST);
	CHECK_EQ(weft_accept(ev.connreq, s.qp[1], NULL), 0);
	next_event(WEFT_EV_ESTABLISHED);
	next_event(WEFT_EV_ESTABLISHED);
	CHECK_EQ(pthread_create(&s.thread, NULL, load_main, NULL), 0);
	load_turn(10);
}

static void
down(void)
{
	void *bad;

	atomic_store(&s.stop, true);
	pthread_join(s.thread, &bad);
	CHECK(bad == NULL);
	for (unsigned int i = 0; i < 2; i++)
		weft_worker_stop(s.w[i]);
	weft_ctx_destroy(s.ctx);
}

/** Captures on both ports in turn, one of each worker. Every file has packets, and the load loses
 * nothing. */
static void
test_captures(void)
{
	char path[64];

	up();
	snprintf(path, sizeof(path), "/tmp/weft-mt-%ld.pcapng", (long)getpid());
	for (unsigned int i = 0; i < 30; i++) {
		struct weft_capture_attr ca = {.size = sizeof(ca), .path = path};
		struct weft_capture_stats st;
		struct weft_port *p = s.port[i % 2];

		CHECK_EQ(weft_capture_start(p, &ca), 0);
		/* A Write completes before its packet is sent, and the packet is written to the
		 * file later. */
		do {
			load_turn(1 + i % 5);
			CHECK_EQ(weft_capture_stats(p, &st), 0);
		} while (st.packets == 0);
		CHECK_EQ(weft_capture_stop(p, &st), 0);
		CHECK_EQ(st.error, 0);
		CHECK(st.packets > 0);
	}
	unlink(path);
	down();
}

/* ---- A device is removed ---- */

/** Whether EAL has a device of that name; waits until it has none. */
static void
await_given_back(const char *dev)
{
	uint16_t id;

	for (unsigned int i = 0; i < 20000 && rte_eth_dev_get_port_by_name(dev, &id) == 0; i++)
		usleep(100);
	CHECK(rte_eth_dev_get_port_by_name(dev, &id) != 0);
}

/** The bus says that the device of a port is removed: its connection ends at once, the other port
 * and its worker go on, and the device is given back. */
static void
remove_port(unsigned int i)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	struct weft_port_stats st;
	struct weft_event ev;

	rte_dev_event_callback_process(s.dev[i], RTE_DEV_EVENT_ADD);
	CHECK(!weft_port_removed(s.port[i]));
	rte_dev_event_callback_process(s.dev[i], RTE_DEV_EVENT_REMOVE);
	rte_dev_event_callback_process(s.dev[i], RTE_DEV_EVENT_REMOVE);
	CHECK(weft_port_removed(s.port[i]));
	ev = next_event(WEFT_EV_DISCONNECTED);
	CHECK(ev.qp == s.qp[i]);
	CHECK_EQ(ev.status, -ENODEV);
	await_given_back(s.dev[i]);
	CHECK_EQ(weft_port_stats(s.port[i], &st), 0);
	CHECK(st.removed && !st.link_up && st.rx_packets > 0);
	/* Nothing leads there any more. */
	to.sin_addr.s_addr = htonl(0x0a000001 + !i);
	CHECK_EQ(weft_connect(s.qp[i], (struct sockaddr *)&to, sizeof(to), NULL), -ENETUNREACH);
}

static void
test_removed(void)
{
	struct weft_worker *late;
	struct weft_port_stats st;
	void *bad;

	for (unsigned int turn = 0; turn < 6; turn++) {
		unsigned int first = turn % 2;

		up();
		load_turn(20 * turn);
		remove_port(first);
		CHECK(!weft_port_removed(s.port[!first]));
		CHECK_EQ(weft_port_stats(s.port[!first], &st), 0);
		CHECK(!st.removed && st.link_up);
		CHECK_EQ(weft_worker_create(s.ctx, NULL, &late), 0);
		CHECK_EQ(weft_worker_add_port(late, s.port[first]), -ENODEV);
		/* The Writes that wait for the other side end with the other port. */
		remove_port(!first);
		atomic_store(&s.stop, true);
		pthread_join(s.thread, &bad);
		for (unsigned int i = 0; i < 2; i++)
			weft_worker_stop(s.w[i]);
		weft_ctx_destroy(s.ctx);
	}
}

/** A context ends while its ports are removed. */
static void
test_removed_at_the_end(void)
{
	void *bad;

	for (unsigned int turn = 0; turn < 6; turn++) {
		up();
		atomic_store(&s.stop, true);
		pthread_join(s.thread, &bad);
		for (unsigned int i = 0; turn % 3 > 0 && i < 2; i++)
			weft_worker_stop(s.w[i]);
		for (unsigned int i = 0; i < 2; i++)
			rte_dev_event_callback_process(s.dev[i], RTE_DEV_EVENT_REMOVE);
		if (turn % 3 > 1)
			usleep(20000);
		for (unsigned int i = 0; turn % 3 == 0 && i < 2; i++)
			weft_worker_stop(s.w[i]);
		weft_ctx_destroy(s.ctx);
	}
}

/* ---- Telemetry ---- */

static int
tel_open(void)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	char hello[2048];
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	snprintf(un.sun_path, sizeof(un.sun_path), "%s/dpdk_telemetry.v2",
	         rte_eal_get_runtime_dir());
	if (fd < 0 || connect(fd, (struct sockaddr *)&un, sizeof(un)) < 0 ||
	    read(fd, hello, sizeof(hello)) <= 0) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	return fd;
}

/** The response as text. False: there is none. */
static bool
tel_ask(int fd, const char *cmd, char *buf, size_t size)
{
	ssize_t n;

	if (write(fd, cmd, strlen(cmd)) < 0)
		return false;
	n = read(fd, buf, size - 1);
	buf[n > 0 ? n : 0] = '\0';
	return n > 0;
}

static const char *const asks[] = {
        "/weft/workers",        "/weft/worker,0",      "/weft/worker,1",   "/weft/tcp,0",
        "/weft/netif,0",        "/weft/netif,1",       "/weft/rdmap,1",    "/weft/worker/polls,0",
        "/weft/conns,0",        "/weft/local_ports,0", "/weft/guard",      "/weft/ports",
        "/weft/neighbours,1,0", "/weft/routes,0,0",    "/weft/qps,1",      "/weft/regions,0",
        "/weft/windows,0,0",    "/weft/cqs,0",         "/weft/srqs,0",     "/weft/context,0",
        "/weft/timers,1",       "/weft/drivers",       "/weft/messages,1", "/weft/tcp_limits,0",
};

struct asker {
	atomic_bool stop;
	atomic_uint rounds;
	bool may_fail; /**< contexts are created and destroyed meanwhile */
};

static void *
asker_main(void *arg)
{
	struct asker *a = arg;
	static char buf[65536];
	int fd = tel_open();

	if (fd < 0)
		return (void *)1;
	while (!atomic_load(&a->stop)) {
		for (unsigned int i = 0; i < RTE_DIM(asks); i++)
			if (!tel_ask(fd, asks[i], buf, sizeof(buf)) ||
			    (!a->may_fail && strstr(buf, ":null") != NULL)) {
				close(fd);
				return (void *)1;
			}
		atomic_fetch_add(&a->rounds, 1);
	}
	close(fd);
	return NULL;
}

static void
test_telemetry(void)
{
	struct asker a = {0};
	pthread_t th;
	void *bad;

	up();
	CHECK_EQ(pthread_create(&th, NULL, asker_main, &a), 0);
	for (unsigned int i = 0; i < 400 && atomic_load(&a.rounds) < 20; i++) {
		struct weft_port_stats st;

		CHECK_EQ(weft_port_stats(s.port[i % 2], &st), 0);
		CHECK(st.rx_packets > 0 && st.queues == 1);
		load_turn(1);
		usleep(5000);
	}
	atomic_store(&a.stop, true);
	pthread_join(th, &bad);
	CHECK(bad == NULL);
	CHECK(atomic_load(&a.rounds) > 0);
	down();
}

/** Contexts and their workers are created and destroyed while telemetry lists them. */
static void
test_come_and_go(void)
{
	struct asker a = {.may_fail = true};
	pthread_t th;
	void *bad;

	env();
	CHECK_EQ(pthread_create(&th, NULL, asker_main, &a), 0);
	for (unsigned int i = 0; i < 2000 && (i < 60 || atomic_load(&a.rounds) < 5); i++) {
		struct weft_worker *w[2];
		struct weft_ctx *ctx;

		CHECK_EQ(weft_ctx_create(NULL, &ctx), 0);
		for (unsigned int k = 0; k < 2; k++) {
			CHECK_EQ(weft_worker_create(ctx, NULL, &w[k]), 0);
			CHECK_EQ(weft_worker_start(w[k]), 0);
		}
		CHECK(weft_worker_get(ctx, 1) == w[1] && weft_worker_get(ctx, 2) == NULL);
		usleep(500);
		for (unsigned int k = 0; k < 2; k++)
			weft_worker_stop(w[k]);
		weft_ctx_destroy(ctx);
	}
	atomic_store(&a.stop, true);
	pthread_join(th, &bad);
	CHECK(bad == NULL);
	CHECK(atomic_load(&a.rounds) >= 5);
}

WEFT_TEST_MAIN({"captures switched under load", test_captures},
               {"telemetry asked under load", test_telemetry},
               {"contexts that come and go", test_come_and_go},
               {"devices removed under load", test_removed},
               {"devices removed while their context ends", test_removed_at_the_end})
