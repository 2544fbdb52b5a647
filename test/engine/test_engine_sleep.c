/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The sleep of an idle worker over a port of the test's own: what ends it, and when. */

#include <arpa/inet.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_mbuf.h>

#include <weft/weft.h>
#include "weft_engine.h"
#include "weft_netif.h"
#include "weft_netif_attr.h"
#include "weft_netif_mbuf.h"
#include "weft_test.h"

/** A worker whose ports all wake it sleeps for 100 ms. What ends a sleep must take less. */
#define SHORT_US 50000
/** Polls in 300 ms of a worker that relies on its interrupt, at most. */
#define PROVEN_POLLS 15

/* "no event is lost": a sleep lasts for 100 ms, so an event that ended none waits long. */
#define SOAK_LATE_US   60000
#define SOAK_SPIN_US   200 /* idle time before a sleep begins (idle_spin_us of weft/worker.h) */
#define SOAK_FAR_US    3000
#define SOAK_DEFAULT_S 3

static struct {
	int fd;              /**< of the receive interrupt; -1: none */
	atomic_uint waiting; /**< packets that the next poll finds */
	atomic_uint on_arm;  /**< packets that come while the interrupt is armed, and fire none */
	atomic_bool full, down; /**< the transmit queue takes nothing; the link is down */
	atomic_uint polls, received, sent, called;
	atomic_int thread; /**< the worker's, as the kernel numbers it */
	atomic_uint_fast64_t armed_us,
	        received_us; /**< when on_arm came, when a packet was taken */
	struct rte_mempool *pool;
	struct weft_ctx *ctx;
	struct weft_worker *w;
} p;

/** A frame of a type that nobody knows. */
static uint16_t
port_rx(void *dev, struct rte_mbuf **pkts, uint16_t n)
{
	(void)dev;
	if (atomic_fetch_add(&p.polls, 1) == 0)
		atomic_store(&p.thread, (int)gettid());
	if (n == 0 || atomic_load(&p.waiting) == 0)
		return 0;
	pkts[0] = rte_pktmbuf_alloc(p.pool);
	CHECK(pkts[0] != NULL);
	memset(rte_pktmbuf_append(pkts[0], 60), 0, 60);
	atomic_fetch_sub(&p.waiting, 1);
	atomic_store(&p.received_us, test_now_us());
	atomic_fetch_add(&p.received, 1);
	return 1;
}

static uint16_t
port_tx(void *dev, struct rte_mbuf **pkts, uint16_t n)
{
	(void)dev;
	if (atomic_load(&p.full))
		return 0;
	rte_pktmbuf_free_bulk(pkts, n);
	atomic_fetch_add(&p.sent, n);
	return n;
}

static bool
port_link(void *dev)
{
	(void)dev;
	return !atomic_load(&p.down);
}

static int
port_arm(void *dev, bool on)
{
	unsigned int come = on ? atomic_exchange(&p.on_arm, 0) : 0;

	(void)dev;
	if (p.fd < 0)
		return -ENOTSUP;
	if (come > 0)
		atomic_store(&p.armed_us, test_now_us());
	atomic_fetch_add(&p.waiting, come);
	return p.fd;
}

static void
start(bool interrupt, uint32_t idle_sleep_us)
{
	static const struct weft_netif_dev dev = {
	        .rx = port_rx, .tx = port_tx, .link = port_link, .arm = port_arm};
	struct weft_worker_attr wa = {
	        .size = sizeof(wa), .lcore = -1, .idle_sleep_us = idle_sleep_us};
	struct weft_netif_attr na = {.dev = &dev,
	                             .mac = {{2, 0, 0, 0, 0, 1}},
	                             .addr = weft_ip_from_v4(htonl(0x0a000001)),
	                             .prefix_len = 24,
	                             .no_ipv6 = true};

	test_eal_init();
	p.fd = interrupt ? eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) : -1;
	CHECK_EQ(weft_netif_pool_create("sleep", 1023, 1500, -1, &p.pool), 0);
	na.pool = p.pool;
	CHECK_EQ(weft_ctx_create(NULL, &p.ctx), 0);
	CHECK_EQ(weft_worker_create(p.ctx, &wa, &p.w), 0);
	CHECK_EQ(weft_engine_add_netif(p.w, &na), 0);
	CHECK_EQ(weft_worker_start(p.w), 0);
}

static void
stop(void)
{
	atomic_store(&p.full, false);
	weft_worker_stop(p.w);
	weft_ctx_destroy(p.ctx);
	rte_mempool_free(p.pool);
	if (p.fd >= 0)
		close(p.fd);
	memset(&p, 0, sizeof(p));
}

/** The polls of `us` microseconds. */
static unsigned int
polls_in(unsigned int us)
{
	unsigned int before = atomic_load(&p.polls);

	usleep(us);
	return atomic_load(&p.polls) - before;
}

/** Wait until *n is at least `least`. */
static void
until(atomic_uint *n, unsigned int least)
{
	uint64_t end = test_now_us() + TEST_WAIT_US;

	while (atomic_load(n) < least) {
		CHECK(test_now_us() < end);
		usleep(1000);
	}
}

/** A packet comes to a worker that sleeps. Returns how long it waits, in microseconds. */
static uint64_t
arrive(void)
{
	unsigned int n = atomic_load(&p.received);
	uint64_t begin = test_now_us();

	atomic_fetch_add(&p.waiting, 1);
	CHECK_EQ(write(p.fd, &(uint64_t){1}, 8), 8);
	until(&p.received, n + 1);
	return atomic_load(&p.received_us) - begin;
}

/** Let the interrupt wake the worker until the worker relies on it: then it sleeps for 100 ms. */
static void
prove(void)
{
	uint64_t end = test_now_us() + TEST_WAIT_US;

	do {
		CHECK(test_now_us() < end);
		usleep(20000);
		(void)arrive();
	} while (polls_in(300000) > PROVEN_POLLS);
}

/** A packet in a long sleep is received at once. */
static void
test_interrupt(void)
{
	uint64_t best = UINT64_MAX;

	start(true, 2000);
	prove();
	for (unsigned int i = 0; i < 5 && best >= SHORT_US; i++) {
		usleep(120000);
		best = RTE_MIN(best, arrive());
	}
	CHECK_MSG(best < SHORT_US, "%u us", (unsigned int)best);
	stop();
}

/** A packet that comes before the interrupt is armed ends no sleep: the poll behind the arming
 * finds it. */
static void
test_armed(void)
{
	uint64_t best = UINT64_MAX;

	start(true, 2000);
	prove();
	/* Twice: after a third packet behind a sleep the port would not be believed. */
	for (unsigned int i = 0; i < 2 && best >= SHORT_US; i++) {
		unsigned int n = atomic_load(&p.received);

		atomic_store(&p.on_arm, 1);
		until(&p.received, n + 1);
		best = RTE_MIN(best, atomic_load(&p.received_us) - atomic_load(&p.armed_us));
	}
	CHECK_MSG(best < SHORT_US, "%u us", (unsigned int)best);
	stop();
}

/** Packets that the port does not take, as one without a link, do not keep the worker awake: its
 * sleeps grow all the same. */
static void
test_queue_waits(void)
{
	unsigned int n;

	atomic_store(&p.full, true);
	start(false, 20000);
	usleep(300000);
	n = polls_in(200000);
	CHECK_MSG(n < 100, "%u polls in 200 ms", n);
	CHECK_EQ(atomic_load(&p.sent), 0);
	atomic_store(&p.full, false);
	until(&p.sent, 1);
	stop();
}

/** No interrupt says that a transmit queue has room: while packets wait no sleep is long. */
static void
test_queue_bounds_sleep(void)
{
	unsigned int n, sent;

	start(true, 1000);
	prove();
	sent = atomic_load(&p.sent);
	atomic_store(&p.full, true);
	/* A link that comes back is announced. */
	atomic_store(&p.down, true);
	usleep(1300000);
	atomic_store(&p.down, false);
	usleep(300000);
	n = polls_in(2000000);
	CHECK_MSG(n > 60, "%u polls in 2 s", n);
	CHECK_EQ(atomic_load(&p.sent), sent);
	stop();
}

static void
on_call(void *arg)
{
	(void)arg;
	atomic_store(&p.received_us, test_now_us());
	atomic_fetch_add(&p.called, 1);
}

/** How long the worker's thread has waited for a CPU, in microseconds. UINT64_MAX: the kernel does
 * not say. */
static uint64_t
waited_us(void)
{
	unsigned long long ran, waited = ULLONG_MAX;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", atomic_load(&p.thread));
	f = fopen(path, "re");
	if (f != NULL && fscanf(f, "%llu %llu", &ran, &waited) != 2)
		waited = ULLONG_MAX;
	if (f != NULL)
		fclose(f);
	return waited == ULLONG_MAX ? UINT64_MAX : waited / 1000;
}

/** How long other virtual machines had this one's CPUs since it booted, in microseconds. */
static uint64_t
stolen_us(void)
{
	unsigned long long ticks = 0;
	FILE *f = fopen("/proc/stat", "re");

	if (f != NULL && fscanf(f, "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &ticks) != 1)
		ticks = 0;
	if (f != NULL)
		fclose(f);
	return ticks * 1000000 / (unsigned long long)sysconf(_SC_CLK_TCK);
}

static uint32_t
draw(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(*seed >> 33);
}

/** Busy until a moment, which no sleep of this thread meets well enough. */
static void
spin_until(uint64_t us)
{
	while (test_now_us() < us)
		;
}

/**
 * Events at random moments, most of them close to the moment when the worker falls asleep: packets
 * with an interrupt, packets that come while the interrupt is armed, and calls of another thread.
 * An event that ends no sleep waits for the rest of its 100 ms. The worker waits for a CPU, too, on
 * a busy machine; the kernel tells for how long.
 */
static void
test_no_event_is_lost(void)
{
	const char *s = getenv("WEFT_SLEEP_SOAK_S");
	uint64_t end, seed = test_seed(20261127), worst = 0;
	unsigned int events[3] = {0}, late = 0, calls = 0, polls;
	uint64_t stolen = stolen_us();
	uint64_t seconds = s != NULL ? strtoull(s, NULL, 10) : SOAK_DEFAULT_S;

	start(true, 2000);
	prove();
	end = test_now_us() + seconds * 1000000;
	while (test_now_us() < end) {
		unsigned int kind = (unsigned int)(draw(&seed) % 3);
		atomic_uint *count = kind == 2 ? &p.called : &p.received;
		unsigned int before = atomic_load(count);
		uint32_t most = draw(&seed) % 8 == 0 ? SOAK_FAR_US : 2 * SOAK_SPIN_US;
		uint64_t waited = waited_us(), began, took;

		spin_until(test_now_us() + draw(&seed) % most);
		if (kind == 0) {
			atomic_fetch_add(&p.waiting, 1);
			CHECK_EQ(write(p.fd, &(uint64_t){1}, 8), 8);
		} else if (kind == 1) {
			/* The next arming brings it. A sleeping worker arms after the call. */
			atomic_store(&p.on_arm, 1);
			CHECK_EQ(weft_worker_call(p.w, on_call, NULL), 0);
			calls++;
		} else {
			CHECK_EQ(weft_worker_call(p.w, on_call, NULL), 0);
			calls++;
		}
		began = test_now_us();
		polls = atomic_load(&p.polls);
		while (atomic_load(count) == before || atomic_load(&p.called) != calls)
			CHECK_MSG(
			        test_now_us() < began + TEST_WAIT_US,
			        "event %u of kind %u: %u of %u calls, %u packets wait, %u to come "
			        "at the arming, %u polls meanwhile, the worker waited %" PRIu64
			        " us for a CPU, %" PRIu64 " us were stolen since the start",
			        events[kind], kind, atomic_load(&p.called), calls,
			        atomic_load(&p.waiting), atomic_load(&p.on_arm),
			        atomic_load(&p.polls) - polls, waited_us() - waited,
			        stolen_us() - stolen);
		took = atomic_load(&p.received_us);
		took = took > began ? took - began : 0;
		worst = RTE_MAX(worst, took);
		events[kind]++;
		if (took >= SOAK_LATE_US && waited != UINT64_MAX &&
		    waited_us() - waited < took / 2) {
			late++;
			printf("# event %u of kind %u waited for %" PRIu64 " us\n", events[kind],
			       kind, took);
		}
	}
	printf("# %u interrupts, %u packets while armed, %u calls; the longest wait %" PRIu64
	       " us\n",
	       events[0], events[1], events[2], worst);
	stolen = stolen_us() - stolen;
	CHECK_MSG(late == 0 || late * (uint64_t)SOAK_LATE_US < stolen,
	          "%u late, %" PRIu64 " us stolen from this machine", late, stolen);
	/* The worker has relied on the interrupt all the time. It does not spin any more. */
	usleep(20000);
	CHECK(polls_in(300000) <= PROVEN_POLLS);
	stop();
}

/* ---- A poller beside the port ---- */

static unsigned int
source_poll(void *arg, uint64_t now_ns)
{
	struct weft_poller *source = arg;
	uint64_t n;

	(void)now_ns;
	if (read(source->fd, &n, sizeof(n)) != sizeof(n))
		return 0;
	on_call(NULL);
	return 1;
}

static uint64_t
source_next(void *arg)
{
	(void)arg;
	return WEFT_NEVER;
}

static void
source_add(void *arg)
{
	CHECK_EQ(weft_poller_add(p.w, arg), 0);
}

/** The descriptor of a poller ends a long sleep, which a poller does not make shorter. */
static void
test_poller(void)
{
	struct weft_poller source = {.poll = source_poll, .next_ns = source_next, .arg = &source};
	uint64_t best = UINT64_MAX;

	source.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	start(true, 2000);
	CHECK_EQ(weft_worker_call(p.w, source_add, &source), 0);
	prove();
	for (unsigned int i = 0; i < 5 && best >= SHORT_US; i++) {
		unsigned int n = atomic_load(&p.called);
		uint64_t begin;

		usleep(120000);
		begin = test_now_us();
		CHECK_EQ(write(source.fd, &(uint64_t){1}, 8), 8);
		until(&p.called, n + 1);
		best = RTE_MIN(best, atomic_load(&p.received_us) - begin);
	}
	CHECK_MSG(best < SHORT_US, "%u us", (unsigned int)best);
	usleep(20000);
	CHECK(polls_in(300000) <= PROVEN_POLLS);
	stop();
	close(source.fd);
}

WEFT_TEST_MAIN({"no event is lost", test_no_event_is_lost}, {"interrupt", test_interrupt},
               {"armed", test_armed}, {"queue waits", test_queue_waits},
               {"queue bounds sleep", test_queue_bounds_sleep}, {"poller", test_poller})
