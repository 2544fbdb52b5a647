/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file weft-portd's data path with a whole stack of its own: a device and two processes, each a
 * pair of rings in memory.
 */

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_eth_ring.h>
#include <rte_ethdev.h>

#include "frames.h"
#include "portd_forward.h"
#include "weft_netif_mbuf.h"
#include "weft_test.h"

#define PORT0 7174
#define PORT1 18515
#define FREE  999
#define MBUFS 2047
#define RING  256

/** The two directions of a link, as the test sees them. */
struct link {
	struct rte_ring *to, *from; /**< to the daemon, and from it */
	uint16_t port_id;
};

static struct link wire, proc[2];
static struct rte_mempool *pool;
static struct weft_ctx *ctx;
static struct weft_worker *w;
static struct portd_table *table;
static struct portd_forward *f;
static uint8_t mac[6]; /* of the device */

static void
link_up(struct link *l, unsigned int slots)
{
	static unsigned int serial;
	char name[32];
	int id;

	for (unsigned int i = 0; i < 2; i++) {
		snprintf(name, sizeof(name), "pt%u_%u", serial, i);
		*(i == 0 ? &l->to : &l->from) =
		        rte_ring_create(name, slots, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
	}
	CHECK(l->to != NULL && l->from != NULL);
	snprintf(name, sizeof(name), "pt%u", serial++);
	id = rte_eth_from_rings(name, &l->to, 1, &l->from, 1, 0);
	CHECK(id >= 0);
	l->port_id = (uint16_t)id;
}

/** What portd_memif.c does with a net_memif. */
static void
link_start(const struct link *l)
{
	const struct rte_eth_conf conf = {0};

	CHECK_EQ(rte_eth_dev_configure(l->port_id, 1, 1, &conf), 0);
	CHECK_EQ(rte_eth_rx_queue_setup(l->port_id, 0, 64, SOCKET_ID_ANY, NULL, pool), 0);
	CHECK_EQ(rte_eth_tx_queue_setup(l->port_id, 0, 64, SOCKET_ID_ANY, NULL), 0);
	CHECK_EQ(rte_eth_dev_start(l->port_id), 0);
}

static void
link_down(struct link *l)
{
	struct rte_mbuf *m;

	while (rte_ring_dequeue(l->to, (void **)&m) == 0 ||
	       rte_ring_dequeue(l->from, (void **)&m) == 0)
		rte_pktmbuf_free(m);
	rte_ring_free(l->to);
	rte_ring_free(l->from);
}

static void
up(unsigned int wire_slots)
{
	const struct portd_table_attr ta = {.max_claims = 8, .max_blocks = 1, .dead_ns = 1};
	const struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001)};
	struct portd_switch sw = {.mtu_bytes = 1500, .has_ipv4 = true};
	struct weft_port_attr pa = {
	        .size = sizeof(pa), .name = "p", .prefix_len = 24, .mbufs = 1024};
	struct portd_forward_attr fa = {.sw = &sw};
	char name[RTE_ETH_NAME_MAX_LEN];
	struct weft_port_stats st;
	uint16_t first, last;

	test_eal_init();
	if (pool == NULL)
		CHECK_EQ(weft_netif_pool_create("portd_fw", MBUFS, 1500, SOCKET_ID_ANY, &pool), 0);
	link_up(&wire, wire_slots);
	CHECK_EQ(rte_eth_dev_get_name_by_port(wire.port_id, name), 0);
	pa.dev = name;
	memcpy(&pa.addr, &sa, sizeof(sa));
	CHECK_EQ(weft_ctx_create(NULL, &ctx), 0);
	CHECK_EQ(weft_port_open(ctx, &pa, &fa.port), 0);
	CHECK_EQ(weft_worker_create(ctx, NULL, &w), 0);
	CHECK_EQ(weft_worker_add_port(w, fa.port), 0);
	CHECK_EQ(weft_port_stats(fa.port, &st), 0);
	CHECK_EQ(portd_table_create(&ta, &table), 0);
	sw.table = table;
	memcpy(sw.mac, st.mac, 6);
	memcpy(mac, st.mac, 6);
	memcpy(sw.ipv4, our4, 4);
	fa.worker = w;
	fa.port_id = wire.port_id;
	fa.pool = pool;
	CHECK_EQ(portd_forward_create(&fa, &f), 0);
	(void)weft_worker_poll(w);
	for (uint32_t p = 0; p < 2; p++) {
		link_up(&proc[p], RING);
		link_start(&proc[p]);
		CHECK_EQ(portd_table_join(table, p, 0, &first, &last), 0);
		CHECK_EQ(portd_forward_add(f, p, proc[p].port_id), 0);
	}
	CHECK_EQ(portd_table_claim(table, 0, PORT0, 0), 0);
	CHECK_EQ(portd_table_claim(table, 1, PORT1, 0), 0);
	/* The daemon's announcement. */
	for (unsigned int i = 0; i < 10; i++)
		(void)weft_worker_poll(w);
}

static void
down(void)
{
	for (uint32_t p = 0; p < 2; p++)
		CHECK_EQ(portd_forward_remove(f, p), 0);
	portd_forward_destroy(f);
	weft_ctx_destroy(ctx);
	portd_table_destroy(table);
	link_down(&wire);
	for (uint32_t p = 0; p < 2; p++)
		link_down(&proc[p]);
	CHECK_EQ(rte_mempool_avail_count(pool), MBUFS);
}

/** Give the daemon a frame. Our MAC address is the device's. */
static void
give(const struct link *l, const struct w *x)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	uint8_t *b;

	CHECK(m != NULL);
	b = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)x->n);
	memcpy(b, x->b, x->n);
	for (unsigned int i = 0; i < 2; i++)
		if (memcmp(b + 6 * i, our_mac, 6) == 0)
			memcpy(b + 6 * i, mac, 6);
	if (rte_ring_enqueue(l->to, m) != 0)
		rte_pktmbuf_free(m);
}

static void
polls(void)
{
	for (unsigned int i = 0; i < 4; i++)
		(void)weft_worker_poll(w);
}

/** Frames that the daemon gave, of a protocol; port != 0: TCP from this port. Frees all. */
static unsigned int
take(const struct link *l, uint16_t type, uint16_t port, uint8_t *flags)
{
	struct rte_mbuf *m;
	unsigned int n = 0;

	while (rte_ring_dequeue(l->from, (void **)&m) == 0) {
		const uint8_t *b = rte_pktmbuf_mtod(m, const uint8_t *);

		if (weft_get_be16(b + 12) == type && (port == 0 || weft_get_be16(b + 34) == port)) {
			n++;
			if (flags != NULL)
				*flags = b[47];
		}
		rte_pktmbuf_free(m);
	}
	return n;
}

static uint64_t
counted(const _Atomic uint64_t *c)
{
	return atomic_load_explicit(c, memory_order_relaxed);
}

static void
test_wire(void)
{
	uint8_t flags = 0;
	struct w x;

	up(RING);
	(void)take(&wire, 0, 0, NULL);
	x = seg4(peer4, 50000, our4, PORT0, true);
	give(&wire, &x);
	x = seg4(peer4, 50001, our4, PORT1, true);
	give(&wire, &x);
	give(&wire, &x);
	polls();
	CHECK_EQ(take(&proc[0], 0x0800, 50000, NULL), 1);
	CHECK_EQ(take(&proc[1], 0x0800, 50001, NULL), 2);
	CHECK_EQ(counted(&portd_forward_counts(f, 1)->in_frames), 2);
	CHECK_EQ(counted(&portd_forward_counts(f, 1)->in_bytes), 2 * 54);
	CHECK_EQ(portd_forward_taken(f), 3);
	/* A question for the address: the daemon alone answers. */
	arp(&x, all_mac, peer_mac, 1, peer4, our4);
	give(&wire, &x);
	polls();
	CHECK_EQ(counted(&portd_forward_counts(f, 0)->in_frames), 2);
	CHECK_EQ(counted(&portd_forward_counts(f, 1)->in_frames), 3);
	CHECK_EQ(take(&wire, 0x0806, 0, NULL), 1);
	/* A port that no process has: the daemon's TCP resets. */
	x = seg4(peer4, 50000, our4, FREE, true);
	give(&wire, &x);
	polls();
	CHECK_EQ(take(&wire, 0x0800, FREE, &flags), 1);
	CHECK_EQ(flags & 0x04, 0x04);
	/* And of a process that is gone. */
	portd_table_leave(table, 1, 0);
	CHECK_EQ(portd_forward_remove(f, 1), 0);
	x = seg4(peer4, 50001, our4, PORT1, true);
	give(&wire, &x);
	polls();
	CHECK_EQ(take(&wire, 0x0800, PORT1, &flags), 1);
	CHECK_EQ(flags & 0x04, 0x04);
	down();
}

static void
test_process(void)
{
	const struct portd_counts *c;
	uint8_t flags = 0;
	struct w x;

	up(RING);
	c = portd_forward_counts(f, 0);
	(void)take(&wire, 0, 0, NULL);
	x = seg4(our4, PORT0, peer4, 50000, false);
	give(&proc[0], &x);
	x = seg4(our4, PORT1, peer4, 50000, false); /* the other's port */
	give(&proc[0], &x);
	x = seg4(our4, PORT0, our4, PORT1, false);
	memcpy(x.b, our_mac, 6);
	give(&proc[0], &x);
	x = seg4(our4, PORT0, our4, FREE, false);
	memcpy(x.b, our_mac, 6);
	give(&proc[0], &x);
	arp(&x, all_mac, our_mac, 2, our4, our4);
	give(&proc[0], &x);
	polls();
	CHECK_EQ(take(&wire, 0x0800, PORT0, NULL), 1);
	CHECK_EQ(take(&proc[1], 0x0800, PORT0, NULL), 1);
	CHECK_EQ(take(&proc[0], 0x0800, FREE, &flags), 1);
	CHECK_EQ(flags & 0x04, 0x04);
	CHECK_EQ(counted(&c->out_frames), 2);
	CHECK_EQ(counted(&c->out_local), 1);
	CHECK_EQ(counted(&c->resets), 1);
	CHECK_EQ(counted(&c->dropped[PORTD_WHY_PORT]), 1);
	CHECK_EQ(counted(&c->dropped[PORTD_WHY_NEIGH]), 1);
	down();
}

/** A process that takes nothing loses its own frames, and none of another process. */
static void
test_never_reads(void)
{
	struct portd_counts sum;
	struct w x;

	up(RING);
	for (unsigned int i = 0; i < 2 * RING; i++) {
		x = seg4(peer4, 50000, our4, PORT0, true);
		give(&wire, &x);
		x = seg4(peer4, 50001, our4, PORT1, true);
		give(&wire, &x);
		(void)weft_worker_poll(w);
		CHECK_EQ(take(&proc[1], 0x0800, 50001, NULL), 1);
	}
	CHECK_EQ(counted(&portd_forward_counts(f, 0)->in_frames), RING - 1);
	CHECK_EQ(counted(&portd_forward_counts(f, 0)->in_full), RING + 1);
	CHECK_EQ(counted(&portd_forward_counts(f, 1)->in_full), 0);
	/* Its end changes no sum. */
	CHECK_EQ(portd_forward_remove(f, 0), 0);
	CHECK_EQ(portd_forward_add(f, 0, proc[0].port_id), 0);
	CHECK_EQ(counted(&portd_forward_counts(f, 0)->in_full), 0);
	portd_forward_sum(f, &sum);
	CHECK_EQ(counted(&sum.in_full), RING + 1);
	CHECK_EQ(counted(&sum.in_frames), RING - 1 + 2 * RING);
	down();
}

/** A flood of a process is taken in bursts, and another one has its turns. */
static void
test_flood(void)
{
	unsigned int got = 0;
	struct w x;

	up(1024);
	(void)take(&wire, 0, 0, NULL);
	for (unsigned int i = 0; i < RING - 1; i++) {
		x = seg4(our4, (uint16_t)(i % 2 == 0 ? PORT0 : FREE), peer4, 50000, false);
		give(&proc[0], &x);
	}
	x = seg4(our4, PORT1, peer4, 50000, false);
	give(&proc[1], &x);
	(void)weft_worker_poll(w);
	CHECK_EQ(rte_ring_count(proc[0].to), RING - 1 - PORTD_BURST);
	CHECK_EQ(take(&wire, 0x0800, PORT1, NULL), 1);
	for (unsigned int i = 0; i < 20; i++) {
		(void)weft_worker_poll(w);
		got += take(&wire, 0x0800, PORT0, NULL);
	}
	CHECK_EQ(got, RING / 2 - PORTD_BURST / 2);
	CHECK_EQ(counted(&portd_forward_counts(f, 0)->dropped[PORTD_WHY_PORT]), RING / 2 - 1);
	down();
}

/** The device has no room: a burst of each process waits, its order kept, and no more is taken. */
static void
test_full_wire(void)
{
	const struct portd_counts *c;
	struct w x;

	up(16);
	c = portd_forward_counts(f, 0);
	(void)take(&wire, 0, 0, NULL);
	for (unsigned int i = 0; i < 100; i++) {
		x = seg4(our4, PORT0, peer4, (uint16_t)(50000 + i), false);
		give(&proc[0], &x);
	}
	polls();
	CHECK_EQ(rte_ring_count(wire.from), 15);
	CHECK_EQ(rte_ring_count(proc[0].to), 100 - PORTD_BURST);
	CHECK(counted(&c->out_waits) > 0);
	for (unsigned int i = 0; i < 100; i++) {
		struct rte_mbuf *m = NULL;

		if (rte_ring_count(wire.from) == 0)
			polls();
		CHECK_EQ(rte_ring_dequeue(wire.from, (void **)&m), 0);
		CHECK_EQ(weft_get_be16(rte_pktmbuf_mtod(m, uint8_t *) + 36), 50000 + i);
		rte_pktmbuf_free(m);
	}
	CHECK_EQ(counted(&c->out_frames), 100);
	/* A process that ends while its frames wait leaves none. */
	for (unsigned int i = 0; i < 100; i++)
		give(&proc[0], &x);
	polls();
	down();
}

static volatile uint8_t *unmapped;

/** net_memif of a process that ends during a burst. */
static uint16_t
faulting_rx(void *queue, struct rte_mbuf **pkts, uint16_t n)
{
	(void)queue;
	(void)pkts;
	return *unmapped == 0 ? 0 : n;
}

/** Likewise, when it has freed the frames that it has copied. */
static uint16_t
faulting_tx(void *queue, struct rte_mbuf **pkts, uint16_t n)
{
	(void)queue;
	for (uint16_t i = 0; i < n; i++)
		rte_pktmbuf_free(pkts[i]);
	return *unmapped == 0 ? n : 0;
}

/** Bursts of a process that ends fault, from the wire and from another process; the rest goes on.
 */
static void
test_faults(void)
{
	struct w x, y;

	up(RING);
	(void)take(&wire, 0, 0, NULL);
	unmapped = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(unmapped != MAP_FAILED);
	rte_eth_fp_ops[proc[0].port_id].rx_pkt_burst = faulting_rx;
	rte_eth_fp_ops[proc[0].port_id].tx_pkt_burst = faulting_tx;
	for (unsigned int i = 0; i < 10; i++) {
		x = seg4(peer4, 50000, our4, PORT0, true);
		give(&wire, &x);
		x = seg4(our4, PORT1, our4, PORT0, false);
		memcpy(x.b, our_mac, 6);
		give(&proc[1], &x);
		y = seg4(peer4, 50001, our4, PORT1, true);
		give(&wire, &y);
		(void)weft_worker_poll(w);
		CHECK_EQ(take(&proc[1], 0x0800, 50001, NULL), 1);
	}
	CHECK(counted(&portd_forward_counts(f, 0)->faults) >= 20);
	CHECK_EQ(counted(&portd_forward_counts(f, 1)->faults), 0);
	CHECK_EQ(counted(&portd_forward_counts(f, 0)->in_full), 0);
	munmap((void *)unmapped, 4096);
	down();
}

WEFT_TEST_MAIN({"wire: segments to their process, and the daemon answers for the rest", test_wire},
               {"process: to the wire, to a process, and what it may not send", test_process},
               {"a process that never reads loses its own frames alone", test_never_reads},
               {"a process that floods takes no turn of another", test_flood},
               {"a device without room holds a process up, and no frame is lost", test_full_wire},
               {"a process that ends during a burst ends that burst alone", test_faults})
