/* SPDX-License-Identifier: BSD-3-Clause */
/** @file Real ports: net_ring and net_memif in one process; af_packet and tap against the kernel.
 */

#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_ip.h>
#include <rte_malloc.h>
#include <rte_mempool.h>

#include "../../lib/netif/netif_memif.h"
#include "weft_netif.h"
#include "weft_netif_attr.h"
#include "weft_netif_mbuf.h"
#include "weft_netif_neigh.h"
#include "weft_netif_plan.h"
#include "weft_netif_port.h"
#include "weft_netif_sleep.h"
#include "weft_netif_stats.h"
#include "weft_netif_tx.h"
#include "weft_sched.h"
#include "weft_test.h"

/* An interface on an opened port, on the real clock. */
struct end {
	struct weft_sched sched;
	struct weft_netif_port port;
	struct weft_netif *nif;
	struct weft_ip addr;
	unsigned int segs;
	uint32_t last_len;
	uint8_t last[UINT16_MAX];
	bool refuse; /* answer a SYN by RST */
	bool echo;   /* send every segment back */
};

static uint64_t
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * WEFT_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static struct weft_ip
ip4(const char *s)
{
	return weft_ip_from_v4(inet_addr(s));
}

static void
end_refuse(struct end *e, const struct weft_mbuf_priv *rx, const uint8_t *syn)
{
	struct weft_ip src = rx->rx.src, dst = rx->rx.dst;
	struct rte_mbuf *m = weft_netif_alloc(e->nif, WEFT_NETIF_HEADROOM);
	struct weft_neigh *n;
	uint8_t *tcp;

	CHECK(m != NULL);
	tcp = (uint8_t *)rte_pktmbuf_append(m, 20);
	memset(tcp, 0, 20);
	memcpy(tcp, syn + 2, 2);
	memcpy(tcp + 2, syn, 2);
	weft_put_be32(tcp + 8, weft_get_be32(syn + 4) + 1);
	tcp[12] = 0x50;
	tcp[13] = 0x14; /* RST, ACK */
	CHECK_EQ(weft_netif_neigh_get(e->nif, NULL, &src, &n), 0);
	CHECK_EQ(weft_netif_tx(e->nif, n, &dst, &src, m, (struct weft_netif_tx_how){0}, now()), 0);
	weft_netif_neigh_put(e->nif, n);
}

static void
end_echo(struct end *e, const struct weft_mbuf_priv *rx)
{
	struct weft_ip src = rx->rx.src, dst = rx->rx.dst;
	struct rte_mbuf *m = weft_netif_alloc(e->nif, WEFT_NETIF_HEADROOM);
	struct weft_neigh *n;

	if (m == NULL || weft_netif_neigh_get(e->nif, NULL, &src, &n) != 0)
		_exit(1);
	memcpy(rte_pktmbuf_append(m, (uint16_t)e->last_len), e->last, e->last_len);
	weft_netif_tx(e->nif, n, &dst, &src, m, (struct weft_netif_tx_how){0}, now());
	weft_netif_neigh_put(e->nif, n);
}

static void
end_tcp_rx(void *arg, struct weft_netif *nif, struct rte_mbuf **m, unsigned int n, uint64_t now_ns)
{
	struct end *e = arg;

	(void)nif;
	(void)now_ns;
	for (unsigned int i = 0; i < n; i++) {
		const void *p = rte_pktmbuf_read(m[i], 0, m[i]->pkt_len, e->last);

		if (p != e->last)
			memcpy(e->last, p, m[i]->pkt_len);
		e->last_len = m[i]->pkt_len;
		e->segs++;
		if (e->refuse && (e->last[13] & 0x06) == 0x02)
			end_refuse(e, weft_mbuf_priv(m[i]), e->last);
		if (e->echo)
			end_echo(e, weft_mbuf_priv(m[i]));
		rte_pktmbuf_free(m[i]);
	}
}

static void
end_open(struct end *e, const char *dev, const char *addr, uint16_t mtu)
{
	static const struct weft_netif_ops ops = {.tcp_rx = end_tcp_rx};
	struct weft_netif_port_attr pa = {
	        .dev = dev, .mtu_bytes = mtu, .mbufs = mtu > 9600 ? 512 : 4096, .queues = 1};
	struct weft_netif_attr a = {.prefix_len = 24};

	memset(e, 0, sizeof(*e));
	TAILQ_INIT(&e->sched.run);
	weft_wheel_init(&e->sched.wheel, now());
	e->sched.now_ns = now();
	CHECK_EQ(weft_netif_port_open(&pa, &e->port), 0);
	e->addr = ip4(addr);
	a.port_id = e->port.port_id;
	a.pool = e->port.pool;
	a.tx_pool = e->port.tx_pool;
	CHECK(e->port.pool != e->port.tx_pool);
	CHECK_EQ(e->port.pool->size, pa.mbufs / 2);
	CHECK_EQ(e->port.tx_pool->size, pa.mbufs / 2);
	a.rx_offloads = e->port.rx_offloads;
	a.tx_offloads = e->port.tx_offloads;
	a.mac = e->port.mac;
	a.addr = e->addr;
	a.mtu_bytes = e->port.mtu_bytes;
	CHECK_EQ(weft_netif_create(&a, &ops, e, &e->sched, &e->nif), 0);
}

static void
end_close(struct end *e)
{
	weft_netif_destroy(e->nif);
	weft_netif_port_close(&e->port);
}

static void
end_poll(struct end *e)
{
	uint64_t t = now();

	e->sched.now_ns = t;
	weft_netif_poll(e->nif, t);
	weft_timer_run(&e->sched.wheel, t);
	weft_netif_flush(e->nif, t);
}

/* Send segments of many sizes from a to b, which must arrive unchanged. a keeps a reference to
 * each. */
static void
exchange(struct end *a, struct end *b, const struct weft_ip *dst)
{
	const uint32_t most = weft_netif_tx_most(a->nif) - 20u;
	struct weft_neigh *n;

	CHECK_EQ(weft_netif_neigh_get(a->nif, NULL, dst, &n), 0);
	for (uint32_t len = 20, next; len <= most; len = next) {
		struct rte_mbuf *m = weft_netif_alloc(a->nif, WEFT_NETIF_HEADROOM + 60);
		uint64_t until = now() + 5 * WEFT_NS_PER_S;
		unsigned int before = b->segs;
		uint8_t *p;

		next = len + (len < 100 ? 1 : most < 10000 ? 97 : 997);
		next = len < most ? RTE_MIN(next, most) : next;
		CHECK(m != NULL);
		p = (uint8_t *)rte_pktmbuf_append(m, (uint16_t)len);
		CHECK(p != NULL);
		for (uint32_t i = 0; i < len; i++)
			p[i] = (uint8_t)(i * 31 + len);
		p[12] = 0x50;
		rte_mbuf_refcnt_update(m, 1);
		CHECK_EQ(weft_netif_tx(a->nif, n, &a->addr, dst, m, (struct weft_netif_tx_how){0},
		                       now()),
		         0);
		while (b->segs == before && now() < until) {
			end_poll(a);
			if (b != a)
				end_poll(b);
		}
		CHECK_MSG(b->segs == before + 1, "%u octets did not arrive", len);
		CHECK_EQ(b->last_len, len);
		/* netif wrote the checksum into the sender's copy, too, unless the port computes
		 * it. */
		CHECK_MEM(b->last, p, 16);
		CHECK_MEM(b->last + 18, p + 18, len - 18);
		rte_pktmbuf_free(m);
	}
	weft_netif_neigh_put(a->nif, n);
	CHECK_EQ(weft_netif_stats(b->nif)->rx_bad_tcp_cksum, 0);
	CHECK_EQ(weft_netif_port_missed(&b->port), 0);
}

static struct rte_ring *rings[2];

/* Two net_ring ports, each of which sends into the ring from which the other receives. */
static void
ring_pair(struct end *a, struct end *b, uint16_t mtu)
{
	char name[2][64];
	int port[2];

	test_eal_init();
	for (unsigned int i = 0; i < 2; i++) {
		rings[i] = rte_ring_create(i ? "weft_r1" : "weft_r0", 1024, SOCKET_ID_ANY,
		                           RING_F_SP_ENQ | RING_F_SC_DEQ);
		CHECK(rings[i] != NULL);
	}
	for (unsigned int i = 0; i < 2; i++) {
		port[i] = rte_eth_from_rings(i ? "weft_p1" : "weft_p0", &rings[i], 1, &rings[1 - i],
		                             1, 0);
		CHECK(port[i] >= 0);
		CHECK_EQ(rte_eth_dev_get_name_by_port((uint16_t)port[i], name[i]), 0);
	}
	end_open(a, name[0], "10.0.0.1", mtu);
	end_open(b, name[1], "10.0.0.2", mtu);
}

static void
ring_pair_close(struct end *a, struct end *b)
{
	for (int i = 0; i < 50; i++) {
		end_poll(a);
		end_poll(b);
	}
	/* Mbufs of both pools are exchanged: all must be freed before the pools. */
	CHECK_EQ(rte_mempool_in_use_count(a->port.pool), 0);
	CHECK_EQ(rte_mempool_in_use_count(b->port.pool), 0);
	CHECK_EQ(rte_mempool_in_use_count(a->port.tx_pool), 0);
	CHECK_EQ(rte_mempool_in_use_count(b->port.tx_pool), 0);
	for (unsigned int i = 0; i < 2; i++) {
		struct end *e = i == 0 ? a : b;
		char dev[64];

		snprintf(dev, sizeof(dev), "%s", e->port.devname);
		end_close(e);
		CHECK_EQ(rte_eal_hotplug_remove("vdev", dev), 0);
		rte_ring_free(rings[i]);
	}
}

static void
test_ring(void)
{
	static struct end a, b;

	for (unsigned int i = 0; i < 2; i++) {
		const uint16_t mtu = i == 0 ? 9000 : 65535;

		ring_pair(&a, &b, mtu);
		CHECK_STR(a.port.driver, "net_ring");
		CHECK_EQ(a.port.mtu_bytes, mtu);
		CHECK(!a.port.created);
		CHECK(weft_netif_port_link(&a.port));
		exchange(&a, &b, &b.addr);
		exchange(&b, &a, &a.addr);
		ring_pair_close(&a, &b);
	}
}

/** A port without scattered transmit gets one flat copy. Without a buffer for the copy the
 * segment is refused and counted. */
static void
test_flat_copy(void)
{
	static const struct weft_netif_ops ops = {.tcp_rx = end_tcp_rx};
	static struct rte_mbuf *held[2048];
	static struct end a, b;
	struct weft_netif_attr at;
	struct weft_neigh *n;

	ring_pair(&a, &b, 9000);
	exchange(&a, &b, &b.addr);
	at = *weft_netif_attr(a.nif);
	at.dev = NULL;
	for (unsigned int gathers = 0; gathers < 2; gathers++) {
		at.tx_offloads = gathers ? RTE_ETH_TX_OFFLOAD_MULTI_SEGS : 0;
		weft_netif_destroy(a.nif);
		CHECK_EQ(weft_netif_create(&at, &ops, &a, &a.sched, &a.nif), 0);
		exchange(&a, &b, &b.addr);
		CHECK_EQ(weft_netif_neigh_get(a.nif, NULL, &b.addr, &n), 0);
		for (unsigned int empty = 0; empty < 2; empty++) {
			struct rte_mbuf *m = weft_netif_alloc(a.nif, WEFT_NETIF_HEADROOM + 60),
			                *more = rte_pktmbuf_alloc(a.port.tx_pool);
			const bool refused = empty && !gathers;
			unsigned int before = b.segs, nheld;

			CHECK(m != NULL && more != NULL);
			memset(rte_pktmbuf_append(m, 400), 0, 400);
			rte_pktmbuf_mtod(m, uint8_t *)[12] = 0x50;
			memset(rte_pktmbuf_append(more, 500), 0x55, 500);
			CHECK_EQ(rte_pktmbuf_chain(m, more), 0);
			nheld = empty ? rte_mempool_avail_count(a.port.tx_pool) : 0;
			CHECK_EQ(rte_pktmbuf_alloc_bulk(a.port.tx_pool, held, nheld), 0);
			CHECK_EQ(weft_netif_tx(a.nif, n, &a.addr, &b.addr, m,
			                       (struct weft_netif_tx_how){0}, now()),
			         refused ? -ENOBUFS : 0);
			end_poll(&a);
			CHECK_EQ(weft_netif_stats(a.nif)->tx_no_mbuf, refused);
			CHECK_EQ(rte_ring_count(rings[1]), !refused);
			if (!refused) { /* on the way to b */
				CHECK_EQ(rte_ring_dequeue(rings[1], (void **)&m), 0);
				CHECK_EQ(m->nb_segs, gathers ? 2 : 1);
				CHECK_EQ(rte_ring_enqueue(rings[1], m), 0);
			}
			end_poll(&b);
			CHECK_EQ(b.segs, before + !refused);
			if (!refused)
				CHECK_EQ(b.last_len, 900);
			rte_pktmbuf_free_bulk(held, nheld);
		}
		weft_netif_neigh_put(a.nif, n);
	}
	ring_pair_close(&a, &b);
}

/* old: with the former names of the roles. */
static void
memif_pair(const char *sock, uint16_t mtu, const char *more, bool old)
{
	static struct end a, b;
	char dev[256];

	snprintf(dev, sizeof(dev), "net_memif0,role=%s,id=7,socket=%s,socket-abstract=no%s",
	         old ? "master" : "server", sock, more);
	end_open(&a, dev, "10.0.0.1", mtu);
	snprintf(dev, sizeof(dev), "net_memif1,role=%s,id=7,socket=%s,socket-abstract=no%s",
	         old ? "slave" : "client", sock, more);
	end_open(&b, dev, "10.0.0.2", mtu);
	/* A client whose server is there is opened with a link. */
	CHECK(weft_netif_port_link(&b.port));
	CHECK_STR(a.port.driver, "net_memif");
	CHECK_EQ(a.port.mtu_bytes, mtu);
	CHECK(a.port.created && b.port.created);
	for (uint64_t until = now() + 5 * WEFT_NS_PER_S;
	     now() < until && !(weft_netif_port_link(&a.port) && weft_netif_port_link(&b.port));)
		usleep(1000);
	CHECK(weft_netif_port_link(&a.port) && weft_netif_port_link(&b.port));
	exchange(&a, &b, &b.addr);
	exchange(&b, &a, &a.addr);
	end_close(&b);
	end_close(&a);
}

static void
test_memif(void)
{
	char dir[] = "/tmp/weft-test-XXXXXX", sock[64];
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	int fd;

	test_eal_init();
	CHECK(mkdtemp(dir) != NULL);
	snprintf(sock, sizeof(sock), "%s/s", dir);
	memif_pair(sock, 1500, "", false);
	memif_pair(sock, 1500, "", true);
	/* A killed server leaves its socket file. */
	unlink(sock);
	fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", sock);
	CHECK_EQ(bind(fd, (struct sockaddr *)&sun, sizeof(sun)), 0);
	close(fd);
	CHECK_EQ(access(sock, F_OK), 0);
	memif_pair(sock, 9000, "", false);
	memif_pair(sock, 9000, ",bsize=10112", false);
	memif_pair(sock, 65535, "", false);
	memif_pair(sock, 65535, ",bsize=65535,rsize=5", false);
	unlink(sock);
	rmdir(dir);
}

/** A client's ring holds whole frames: its bsize is derived from the MTU, or checked. */
static void
test_memif_args(void)
{
	static const struct {
		const char *args;
		uint16_t mtu;
		int rc;
		const char *out; /* NULL: as args */
	} v[] = {
	        {"", 1500, 0, NULL},
	        {"id=1", 2030, 0, NULL},
	        {"", 2031, 0, "bsize=2112"},
	        {"id=1", 9000, 0, "id=1,bsize=9024"},
	        {"role=client,id=1", 9600, 0, "role=client,id=1,bsize=9664"},
	        {"role=slave", 16366, 0, "role=slave,bsize=16384"},
	        {"role=slave", 16367, 0, "role=slave,bsize=16448,rsize=9"},
	        {"id=1", 65535, 0, "id=1,bsize=65344,rsize=8"},
	        {"id=1,rsize=6", 65535, 0, "id=1,rsize=6,bsize=65344"},
	        {"id=1,bsize=65344", 65535, 0, NULL},
	        {"id=1,bsize=65343", 65535, -EMSGSIZE, NULL},
	        {"bsize=9018", 9000, 0, NULL},
	        {"bsize=9017", 9000, -EMSGSIZE, NULL},
	        {"bsize=1500", 1500, -EMSGSIZE, NULL},
	        /* The server's ring is the client's. */
	        {"role=server,bsize=2048", 9000, 0, NULL},
	        {"role=master", 65535, 0, NULL},
	        /* Zero-copy: the ring's buffers are our mbufs. */
	        {"zero-copy=yes,bsize=2048", 9000, 0, "zero-copy=yes,bsize=2048,rsize=8"},
	        {"zero-copy=yes,rsize=5", 9000, 0, NULL},
	        {"zero-copy=no,bsize=2048", 9000, -EMSGSIZE, NULL},
	};
	char out[64];

	for (unsigned int i = 0; i < RTE_DIM(v); i++) {
		int rc = netif_memif_args(v[i].args, v[i].mtu, out, sizeof(out));

		CHECK_MSG(rc == v[i].rc, "row %u: %d", i, rc);
		if (rc == 0)
			CHECK_STR(out, v[i].out != NULL ? v[i].out : v[i].args);
	}
	CHECK_EQ(netif_memif_args("id=1", 9000, out, sizeof("id=1,bsize=9024") - 1), -EINVAL);
	CHECK_EQ(netif_memif_args("id=1", 9000, out, sizeof("id=1,bsize=9024")), 0);
	CHECK_EQ(netif_memif_args("id=1", 1500, out, sizeof("id=1") - 1), -EINVAL);
}

/** A port whose ring would not hold its frames is refused, also when it is only checked. */
static void
test_memif_refused(void)
{
	struct weft_netif_port_attr pa = {
	        .dev = "net_memif0,role=client,socket=weft-no,socket-abstract=yes,bsize=2048",
	        .mtu_bytes = 9000,
	        .mbufs = 1024,
	        .queues = 1};
	struct weft_netif_port p;

	test_eal_init();
	CHECK_EQ(weft_netif_port_open(&pa, &p), -EMSGSIZE);
	pa.check = true;
	CHECK_EQ(weft_netif_port_open(&pa, &p), -EMSGSIZE);
	pa.mtu_bytes = 1500;
	CHECK_EQ(weft_netif_port_open(&pa, &p), 0);
	weft_netif_port_close(&p);
}

/* ---- Two processes ---- */

#define CHILD_ENV "WEFT_TEST_MEMIF_SOCKET"

/* The server returns every segment until it is killed. */
static int
child_main(const char *sock)
{
	static struct end e;
	char dev[256];

	test_eal_init();
	snprintf(dev, sizeof(dev), "net_memif0,role=server,id=3,socket=%s,socket-abstract=no",
	         sock);
	end_open(&e, dev, "10.0.0.2", 9000);
	e.echo = true;
	for (pid_t parent = getppid(); getppid() == parent;) {
		end_poll(&e);
		usleep(20);
	}
	return 0;
}

static pid_t
child_start(const char *sock)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		setenv(CHILD_ENV, sock, 1);
		/* standard output carries only this program's TAP */
		dup2(STDERR_FILENO, STDOUT_FILENO);
		execl("/proc/self/exe", "weft-test-server", (char *)NULL);
		_exit(127);
	}
	return pid;
}

/*
 * A memif client without a server cannot start, so wait until there is one. The test connects with
 * the wrong kind of socket, because a client that leaves at once can make the server's EAL panic.
 */
static void
wait_server(const char *sock)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	bool there = false;

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", sock);
	for (uint64_t until = now() + 20 * WEFT_NS_PER_S; now() < until && !there;) {
		int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

		there = connect(fd, (struct sockaddr *)&sun, sizeof(sun)) != 0 &&
		        errno == EPROTOTYPE;
		close(fd);
		usleep(50000); /* the server binds, and then listens */
	}
	CHECK(there);
}

static void
wait_link(struct end *e, bool up)
{
	for (uint64_t until = now() + 20 * WEFT_NS_PER_S;
	     now() < until && weft_netif_port_link(&e->port) != up;)
		usleep(1000);
	CHECK_EQ(weft_netif_port_link(&e->port), up);
}

static void
test_memif_processes(void)
{
	char dir[] = "/tmp/weft-test-XXXXXX", sock[64], dev[256];
	struct weft_ip dst = ip4("10.0.0.2");
	static struct end e;
	pid_t pid, second;
	int status;

	CHECK(mkdtemp(dir) != NULL);
	snprintf(sock, sizeof(sock), "%s/s", dir);
	pid = child_start(sock);
	test_eal_init();
	snprintf(dev, sizeof(dev), "net_memif9,role=client,id=3,socket=%s,socket-abstract=no",
	         sock);
	wait_server(sock);
	end_open(&e, dev, "10.0.0.1", 9000);
	wait_link(&e, true);
	exchange(&e, &e, &dst);
	/* A second server on the socket of a running one is refused and does it no harm. */
	second = child_start(sock);
	CHECK_EQ(waitpid(second, &status, 0), second);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) != 0);
	CHECK_EQ(access(sock, F_OK), 0);
	exchange(&e, &e, &dst);
	/* A killed server leaves its socket file. The next server starts nevertheless. */
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	wait_link(&e, false);
	CHECK_EQ(access(sock, F_OK), 0);
	pid = child_start(sock);
	wait_server(sock);
	/* The driver's client does not connect again by itself. A new port does. */
	end_close(&e);
	end_open(&e, dev, "10.0.0.1", 9000);
	wait_link(&e, true);
	exchange(&e, &e, &dst);
	end_close(&e);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	unlink(sock);
	rmdir(dir);
}

#define A8 ",id=0,id=0,id=0,id=0,id=0,id=0,id=0,id=0"

static void
test_refused(void)
{
	static const struct {
		const char *dev;
		int err;
	} bad[] = {
	        {"net_nosuch0,x=1", -ENODEV},
	        {"no_port_of_this_name", -ENODEV},
	        {"", -EINVAL},
	        {",role=server", -EINVAL},
	        {"net_memif5,role=nonsense", -ENODEV},
	        {"net_memif5,role=server,socket=/nonexistent/dir/s,socket-abstract=no", -ENODEV},
	        {"net_af_packet5,iface=weft-nosuch0", -ENODEV},
	        /* A key without a value: the driver would read NULL. */
	        {"net_memif5,role", -EINVAL},
	        {"net_memif5,role=server,socket", -EINVAL},
	        {"net_memif5,role=server,id", -EINVAL},
	        {"net_memif5,role=server,bsize", -EINVAL},
	        {"net_memif5,role=server,rsize", -EINVAL},
	        {"net_memif5,role=server,mac", -EINVAL},
	        {"net_memif5,role=server,socket-abstract", -EINVAL},
	        {"net_memif5,zero-copy,role=server", -EINVAL},
	        {"net_af_packet5,iface", -EINVAL},
	        {"net_af_packet5,iface=lo,qpairs", -EINVAL},
	        {"net_af_packet5,iface=lo,blocksz", -EINVAL},
	        {"net_af_xdp5,iface=lo,start_queue", -EINVAL},
	        {"net_ring5,nodeaction", -EINVAL},
	        {"net_nosuch0,x", -EINVAL},
	        {"net_bonding5", -EINVAL},
	        {"net_bonding5,mode=1", -EINVAL},
	        {"net_bonding5,mode,slave=net_null7", -EINVAL},
	        {"net_bonding5,mode=1,slave=net_nosuch0", -ENODEV},
	        {"net_bonding5,mode=1,slave=net_null7,slave=net_nosuch0", -ENODEV},
	        {"net_bonding5,mode=1,slave=[net_null7,size]", -EINVAL},
	        {"net_bonding5,mode=1,slave=net_null7,slave=net_bonding6", -EINVAL},
	        {"net_bonding5,mode=9,slave=net_null7", -ENODEV},
	        {"net_bonding5,nosuch=1,mode=1,slave=net_null7", -ENODEV},
	        {"net_bonding5,mode=1,slave=net_null7,primary=net_nosuch0", -ENODEV},
	        /* An address that the driver would dereference. */
	        {"net_ring5,internal=0x10", -EINVAL},
	        /* More arguments than DPDK parses: the driver would see none of them. */
	        {"net_memif5,role=server" A8 A8 A8 A8, -EINVAL},
	};
	struct weft_netif_port p;

	test_eal_init();
	for (unsigned int i = 0; i < RTE_DIM(bad); i++) {
		struct weft_netif_port_attr pa = {.dev = bad[i].dev, .mbufs = 512, .queues = 1};
		uint16_t ports = rte_eth_dev_count_avail();
		int ret = weft_netif_port_open(&pa, &p);

		CHECK_MSG(ret == bad[i].err, "'%s': %d", bad[i].dev, ret);
		CHECK_EQ(rte_eth_dev_count_avail(), ports);
	}
	/* More queues or memory than exist: nothing is left behind. */
	for (unsigned int i = 0; i < 2; i++) {
		struct weft_netif_port_attr pa = {.dev = "net_memif6,role=client",
		                                  .mbufs = i == 0 ? 512 : 1u << 20,
		                                  .queues = i == 0 ? 1000 : 1};

		CHECK_EQ(weft_netif_port_open(&pa, &p), i == 0 ? -EINVAL : -ENOMEM);
		CHECK_EQ(rte_eth_dev_count_avail(), 0);
		CHECK(rte_mempool_lookup("weft_port_0") == NULL);
	}
}

/* ---- Against the kernel ---- */

static void
sh(const char *cmd)
{
	int ret = system(cmd);

	CHECK_MSG(ret == 0, "%s: %d", cmd, ret);
}

/* A network namespace of the test, separate from the computer's network. */
static void
own_netns(void)
{
	static bool done;

	if (geteuid() != 0)
		test_skip("needs root for a network namespace");
	if (system("command -v ip ethtool >/dev/null 2>&1") != 0)
		test_skip("needs ip and ethtool");
	if (!done && unshare(CLONE_NEWNET) != 0)
		test_skip("no network namespace: %s", strerror(errno));
	done = true;
}

static uint16_t
icmp_cksum(const uint8_t *p, size_t len)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < len; i++)
		sum += (i & 1) != 0 ? p[i] : (uint32_t)p[i] << 8;
	while (sum > 0xffff)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/* The kernel pings e (ARP, ICMP) and connects to it (the SYN is received, and a RST sent). */
static void
kernel_peer(struct end *e, size_t ping_max)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = weft_ip_v4(&e->addr)};
	socklen_t len = sizeof(int);
	uint8_t req[9000], rep[9100];
	uint64_t until;
	int fd, err = 0;

	fd = socket(AF_INET, SOCK_RAW | SOCK_NONBLOCK, IPPROTO_ICMP);
	CHECK(fd >= 0);
	for (uint16_t seq = 1; seq <= 40; seq++) {
		size_t n = 8 + (size_t)(seq - 1) * (ping_max - 8) / 39;
		ssize_t got = -1;

		for (size_t i = 0; i < n; i++)
			req[i] = (uint8_t)(i * 3 + seq);
		memset(req, 0, 4);
		req[0] = 8;
		weft_put_be16(req + 6, seq);
		weft_put_be16(req + 2, icmp_cksum(req, n));
		CHECK_EQ(sendto(fd, req, n, 0, (struct sockaddr *)&to, sizeof(to)), n);
		for (until = now() + 5 * WEFT_NS_PER_S; now() < until;) {
			end_poll(e);
			got = recv(fd, rep, sizeof(rep), 0);
			if (got > 0 && rep[20] == 0 && weft_get_be16(rep + 26) == seq)
				break;
		}
		CHECK_MSG(got == (ssize_t)(20 + n), "ping %u of %zu octets: %zd", seq, n, got);
		CHECK_MEM(rep + 24, req + 4, n - 4);
	}
	close(fd);
	CHECK(weft_netif_stats(e->nif)->arp_rx > 0);

	e->refuse = true;
	to.sin_port = htons(4444);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	CHECK(connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0 && errno == EINPROGRESS);
	for (until = now() + 5 * WEFT_NS_PER_S; now() < until && err == 0;) {
		end_poll(e);
		CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len), 0);
	}
	CHECK_EQ(err, ECONNREFUSED);
	CHECK_EQ(e->segs, 1);
	close(fd);
	CHECK_EQ(weft_netif_stats(e->nif)->rx_bad_tcp_cksum, 0);
	CHECK_EQ(weft_netif_stats(e->nif)->icmp_bad, 0);
}

static void
test_af_packet(void)
{
	static struct end e;
	int fd;

	test_eal_init();
	own_netns();
	sh("ip link add weft0 type veth peer name weft1 && "
	   "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 2>/dev/null; "
	   "ip link set weft0 up && ip link set weft1 up && "
	   "ip addr add 10.9.0.2/24 dev weft1 && "
	   "ethtool -K weft0 tx off >/dev/null && ethtool -K weft1 tx off >/dev/null");
	end_open(&e, "net_af_packet0,iface=weft0", "10.9.0.1", 1500);
	CHECK_STR(e.port.driver, "net_af_packet");
	kernel_peer(&e, 1472 + 8);
	/* Its socket ends an idle worker's sleep. */
	CHECK_EQ(weft_netif_sleep_begin(e.nif, &fd), WEFT_NETIF_WAKES_UNPROVEN);
	CHECK(fd >= 0);
	weft_netif_sleep_end(e.nif, true);
	weft_netif_sleep_judge(e.nif, true, false, 1);
	CHECK_EQ(weft_netif_sleep_begin(e.nif, &fd), WEFT_NETIF_WAKES);
	weft_netif_sleep_end(e.nif, false);
	end_close(&e);
	sh("ip link del weft0");
}

/** Poll until the port's link is as wanted. */
static void
bond_until(struct end *e, bool up, const char *slaves)
{
	uint64_t until = now() + 5 * WEFT_NS_PER_S;
	struct weft_netif_link link;

	do {
		end_poll(e);
		weft_netif_port_link_info(&e->port, &link);
	} while (now() < until && (link.up != up || strcmp(link.slaves, slaves) != 0));
	CHECK_EQ(link.up, up);
	CHECK_EQ(weft_netif_port_link(&e->port), up);
	CHECK_STR(link.slaves, slaves);
	/* The interface looks twenty times a second. */
	for (until = now() + 120 * WEFT_NS_PER_MS; now() < until;)
		end_poll(e);
}

/* A bond of two interfaces of the kernel, whose links their drivers do not know. */
static void
test_bond(void)
{
	static const char *const dev =
	        "net_bonding0,mode=%u,slave=[net_af_packet0,iface=wb0],slave=[net_af_packet1,"
	        "iface=wb1]";
	static struct end e;
	char text[128];

	test_eal_init();
	own_netns();
	sh("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1; "
	   "ip link add wbr type bridge && ip link set wbr up && ip addr add 10.9.3.2/24 dev wbr "
	   "&& "
	   "for i in 0 1; do ip link add wb$i type veth peer name wb${i}p && "
	   "ip link set wb${i}p master wbr && ethtool -K wb$i tx off >/dev/null && "
	   "ethtool -K wb${i}p tx off >/dev/null && ip link set wb$i up && ip link set wb${i}p up; "
	   "done");
	snprintf(text, sizeof(text), dev, 1u);
	for (unsigned int i = 0; i < 2; i++) {
		end_open(&e, text, "10.9.3.1", 1500);
		CHECK_STR(e.port.driver, "net_bonding");
		CHECK_EQ(e.port.rx_queues, 1);
		sh("ip neigh flush dev wbr");
		bond_until(&e, true, "net_af_packet0 active, net_af_packet1 backup");
		kernel_peer(&e, 1472 + 8);
		sh("ip link set wb0p down");
		bond_until(&e, true, "net_af_packet0 down, net_af_packet1 active");
		e.segs = 0;
		sh("ip neigh flush dev wbr");
		kernel_peer(&e, 1472 + 8);
		sh("ip link set wb1p down");
		bond_until(&e, false, "net_af_packet0 down, net_af_packet1 down");
		sh("ip link set wb0p up");
		bond_until(&e, true, "net_af_packet0 active, net_af_packet1 down");
		sh("ip link set wb1p up");
		bond_until(&e, true, "net_af_packet0 active, net_af_packet1 backup");
		CHECK(weft_netif_stats(e.nif)->link_moves >= 1);
		CHECK_EQ(weft_netif_stats(e.nif)->link_downs, 1);
		end_close(&e);
		CHECK_EQ(rte_eth_dev_count_avail(), 0);
	}
	/* Jumbo frames, which the drivers of the slaves do not admit to. */
	sh("for i in 0 1; do ip link set wb$i mtu 9000 && ip link set wb${i}p mtu 9000; done; "
	   "ip link set wbr mtu 9000");
	end_open(&e,
	         "net_bonding0,mode=1,slave=[net_af_packet0,iface=wb0,blocksz=20480,framesz=10240,"
	         "framecnt=256],slave=[net_af_packet1,iface=wb1,blocksz=20480,framesz=10240,"
	         "framecnt=256]",
	         "10.9.3.1", 9000);
	CHECK_EQ(e.port.mtu_bytes, 9000);
	bond_until(&e, true, "net_af_packet0 active, net_af_packet1 backup");
	sh("ip neigh flush dev wbr");
	kernel_peer(&e, 8972 + 8);
	end_close(&e);
	sh("for i in 0 1; do ip link show wb$i | grep -q 'mtu 9000' || exit 1; done");
	/* LACP, and nobody to agree with. */
	snprintf(text, sizeof(text), dev, 4u);
	end_open(&e, text, "10.9.3.1", 1500);
	bond_until(&e, false, "net_af_packet0 no partner, net_af_packet1 no partner");
	end_close(&e);
	CHECK_EQ(rte_eth_dev_count_avail(), 0);
	sh("ip link del wbr && ip link del wb0 && ip link del wb1");
}

static void
test_tap(void)
{
	static struct end e;

	test_eal_init();
	own_netns();
	if (access("/dev/net/tun", R_OK | W_OK) != 0)
		test_skip("needs /dev/net/tun");
	end_open(&e, "net_tap0,iface=weft2", "10.9.1.1", 1500);
	sh("ip addr add 10.9.1.2/24 dev weft2 && ip link set weft2 up");
	kernel_peer(&e, 1472 + 8);
	end_close(&e);
}

/* ---- TSO by another implementation ---- */

#define CUT_SEGS 20
#define CUT_SIZE 1000u

/** Check what the kernel received: each segment whole, in order, with its own IP header and
 * checksums. */
static void
cut_read(struct end *e, int fd)
{
	uint8_t p[2000];
	uint32_t got = 0, id = 0;
	uint64_t until = now() + 5 * WEFT_NS_PER_S;

	while (got < CUT_SEGS && now() < until) {
		ssize_t n = recv(fd, p, sizeof(p), 0);
		uint32_t len = got + 1 < CUT_SEGS ? CUT_SIZE : 1;

		end_poll(e);
		if (n < 0)
			continue;
		CHECK_EQ(n, 40 + len);
		CHECK_EQ(icmp_cksum(p, 20), 0);
		CHECK(got == 0 || weft_get_be16(p + 4) == (uint16_t)(id + 1));
		id = weft_get_be16(p + 4);
		CHECK_EQ(weft_get_be32(p + 24), 5 + got * CUT_SIZE);
		CHECK_EQ(p[33], got + 1 < CUT_SEGS ? 0x10 : 0x18);
		for (uint32_t i = 0; i < len; i++)
			CHECK_EQ(p[40 + i], (uint8_t)((got * CUT_SIZE + i) * 7 + 1));
		/* The pseudo-header before the segment. */
		memset(p + 8, 0, 4);
		p[9] = IPPROTO_TCP;
		weft_put_be16(p + 10, (uint16_t)(20 + len));
		CHECK_EQ(icmp_cksum(p + 8, 12 + 20 + len), 0);
		got++;
	}
	CHECK_EQ(got, CUT_SEGS);
}

/** net_tap's driver has software segmentation, which must accept the packets that netif gives to
 * a port. */
static void
test_tap_tso(void)
{
	static struct end e;
	struct rte_eth_conf conf = {
	        .txmode.offloads = RTE_ETH_TX_OFFLOAD_TCP_TSO | RTE_ETH_TX_OFFLOAD_MULTI_SEGS |
	                           RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_IPV4_CKSUM};
	static const struct weft_netif_ops ops = {.tcp_rx = end_tcp_rx};
	struct weft_netif_attr a = {0};
	struct rte_eth_dev_info info;
	struct weft_ip dst = ip4("10.9.1.2");
	struct weft_neigh *n;
	struct rte_mbuf *m, *last;
	int fd;

	test_eal_init();
	own_netns();
	if (access("/dev/net/tun", R_OK | W_OK) != 0)
		test_skip("needs /dev/net/tun");
	end_open(&e, "net_tap0,iface=weft2", "10.9.1.1", 1500);
	/* It is software, so netif itself does not request it. */
	CHECK_EQ(e.port.tx_offloads & conf.txmode.offloads, RTE_ETH_TX_OFFLOAD_MULTI_SEGS);
	a = *weft_netif_attr(e.nif);
	a.dev = NULL;
	a.tx_offloads = conf.txmode.offloads;
	weft_netif_destroy(e.nif);
	CHECK_EQ(rte_eth_dev_stop(e.port.port_id), 0);
	CHECK_EQ(rte_eth_dev_info_get(e.port.port_id, &info), 0);
	CHECK_EQ(info.tx_offload_capa & conf.txmode.offloads, conf.txmode.offloads);
	CHECK_EQ(rte_eth_dev_configure(e.port.port_id, 1, 1, &conf), 0);
	CHECK_EQ(rte_eth_rx_queue_setup(e.port.port_id, 0, 256, 0, NULL, e.port.pool), 0);
	CHECK_EQ(rte_eth_tx_queue_setup(e.port.port_id, 0, 256, 0, NULL), 0);
	CHECK_EQ(rte_eth_dev_start(e.port.port_id), 0);
	CHECK_EQ(weft_netif_create(&a, &ops, &e, &e.sched, &e.nif), 0);
	CHECK(weft_netif_tso(e.nif, &dst).bytes > 0);
	sh("ip addr add 10.9.1.2/24 dev weft2 && ip link set weft2 up");
	fd = socket(AF_INET, SOCK_RAW | SOCK_NONBLOCK, IPPROTO_TCP);
	CHECK(fd >= 0);
	CHECK_EQ(weft_netif_neigh_get(e.nif, NULL, &dst, &n), 0);
	m = last = weft_netif_alloc(e.nif, WEFT_NETIF_HEADROOM);
	CHECK(m != NULL);
	memset(rte_pktmbuf_append(m, 20), 0, 20);
	weft_put_be16(rte_pktmbuf_mtod(m, uint8_t *), 4444);
	weft_put_be16(rte_pktmbuf_mtod_offset(m, uint8_t *, 2), 4445);
	weft_put_be32(rte_pktmbuf_mtod_offset(m, uint8_t *, 4), 5);
	rte_pktmbuf_mtod(m, uint8_t *)[12] = 0x50;
	rte_pktmbuf_mtod(m, uint8_t *)[13] = 0x18;
	for (uint32_t i = 0; i < (CUT_SEGS - 1) * CUT_SIZE + 1; i++) {
		uint8_t *p;

		if (i % CUT_SIZE == 0) {
			last = rte_pktmbuf_alloc(e.port.tx_pool);
			CHECK(last != NULL);
			CHECK_EQ(rte_pktmbuf_chain(m, last), 0);
		}
		p = rte_pktmbuf_mtod_offset(last, uint8_t *, last->data_len);
		*p = (uint8_t)(i * 7 + 1);
		last->data_len++;
		m->pkt_len++;
	}
	CHECK_EQ(weft_netif_tx(e.nif, n, &e.addr, &dst, m,
	                       (struct weft_netif_tx_how){.tso_segsz_bytes = CUT_SIZE}, now()),
	         0);
	cut_read(&e, fd);
	CHECK(weft_netif_stats(e.nif)->tx_packets >= CUT_SEGS);
	CHECK_EQ(weft_netif_stats(e.nif)->tx_refused, 0);
	close(fd);
	weft_netif_neigh_put(e.nif, n);
	end_close(&e);
}

static const struct weft_rand rand_system = {.fill = weft_rand_system};

/** A port that offers RSS reports key and table (net_null). A port without RSS gets one queue. */
static void
test_queues(void)
{
	struct weft_netif_port_attr pa = {.dev = "net_null9", .mbufs = 4096, .queues = 3};
	uint8_t key[40] = {0};
	struct rte_eth_rss_conf rc = {.rss_key = key, .rss_key_len = sizeof(key)};
	struct weft_netif_port p;

	test_eal_init();
	CHECK_EQ(weft_netif_port_open(&pa, &p), 0);
	CHECK(p.rss);
	CHECK_EQ(p.rx_queues, 3);
	CHECK_EQ(p.tx_queues, 3);
	CHECK_EQ(p.rss_key_bytes, 40);
	CHECK_EQ(rte_eth_dev_rss_hash_conf_get(p.port_id, &rc), 0);
	CHECK_MEM(p.rss_key, key, sizeof(key));
	CHECK(p.reta_size >= 64);
	for (unsigned int i = 0; i < p.reta_size; i++)
		CHECK_EQ(p.reta[i], i % 3);
	weft_netif_port_close(&p);

	/* The port gets a random key, so that a peer cannot choose a queue. */
	pa.rand = &rand_system;
	CHECK_EQ(weft_netif_port_open(&pa, &p), 0);
	CHECK(p.rss);
	CHECK(memcmp(p.rss_key, key, sizeof(key)) != 0);
	rc.rss_key = key;
	CHECK_EQ(rte_eth_dev_rss_hash_conf_get(p.port_id, &rc), 0);
	CHECK_MEM(p.rss_key, key, sizeof(key));
	weft_netif_port_close(&p);

	pa.queues = 1;
	CHECK_EQ(weft_netif_port_open(&pa, &p), 0);
	CHECK(!p.rss);
	CHECK_EQ(p.rx_queues, 1);
	weft_netif_port_close(&p);

	/* Fewer queues than workers: the software distributor is used. */
	pa.queues = 64;
	CHECK_EQ(weft_netif_port_open(&pa, &p), 0);
	CHECK_EQ(p.rx_queues, p.rss ? 64 : 1);
	weft_netif_port_close(&p);

	/* memif has queues, but frames in a queue that its other end does not read are lost. */
	pa = (struct weft_netif_port_attr){
	        .dev = "net_memif9,role=server,socket=weft-queues", .mbufs = 4096, .queues = 2};
	CHECK_EQ(weft_netif_port_open(&pa, &p), 0);
	CHECK(!p.rss);
	CHECK_EQ(p.rx_queues, 1);
	CHECK_EQ(p.tx_queues, 1);
	weft_netif_port_close(&p);
}

/** A driver that would write the tag into a shared mbuf is not used for tags, because it drops
 * such segments. */
static void
test_vlan_by_mbuf(void)
{
	struct weft_netif_port_attr pa = {.dev = "net_vhost9,iface=weft-vlan.sock",
	                                  .mbufs = 4096,
	                                  .queues = 1,
	                                  .vlans = {5},
	                                  .nvlans = 1};
	struct rte_eth_dev_info info;
	struct weft_netif_port p;

	test_eal_init();
	CHECK_EQ(weft_netif_port_open(&pa, &p), 0);
	CHECK_EQ(rte_eth_dev_info_get(p.port_id, &info), 0);
	CHECK((info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_VLAN_INSERT) != 0);
	CHECK((p.tx_offloads & RTE_ETH_TX_OFFLOAD_VLAN_INSERT) == 0);
	weft_netif_port_close(&p);
}

static uint64_t
heap_bytes(void)
{
	struct rte_malloc_socket_stats st;

	CHECK_EQ(rte_malloc_get_socket_stats(0, &st), 0);
	return st.heap_allocsz_bytes;
}

/** The memory that is planned for a port is what its opening takes. */
static void
test_planned_bytes(void)
{
	static const struct {
		uint16_t mtu;
		uint32_t mbufs;
		uint16_t queues;
	} rows[] = {{0, 8192, 1}, {1500, 2048, 2}, {9000, 4096, 1}, {9000, 1024, 4}};

	test_eal_init();
	for (unsigned int i = 0; i < RTE_DIM(rows); i++) {
		const struct weft_netif_port_attr pa = {.dev = "net_null3",
		                                        .mtu_bytes = rows[i].mtu,
		                                        .mbufs = rows[i].mbufs,
		                                        .queues = rows[i].queues};
		uint64_t before = heap_bytes(), took, planned;
		struct weft_netif_port p;

		CHECK_EQ(weft_netif_port_open(&pa, &p), 0);
		took = heap_bytes() - before;
		planned = weft_netif_plan_bytes(pa.dev, pa.mtu_bytes, pa.mbufs, pa.queues,
		                                (uint32_t)sysconf(_SC_PAGESIZE));
		/* What the device and its queues take is not planned. */
		CHECK_MSG(took >= planned && took <= planned + planned / 20,
		          "row %u: planned %" PRIu64 ", took %" PRIu64, i, planned, took);
		weft_netif_port_close(&p);
	}
	/* Memory in large pages wastes less of each page; a memif port's bsize counts. */
	CHECK(weft_netif_plan_bytes("net_null3", 1500, 8192, 1, 2 << 20) <
	      weft_netif_plan_bytes("net_null3", 1500, 8192, 1, 4096));
	CHECK(weft_netif_plan_bytes("net_memif0,id=0,bsize=10112", 1500, 8192, 1, 2 << 20) >
	      8192ull * 10112);
}

int
main(int argc, char **argv)
{
	static const struct weft_test_case cases[] = {
	        {"memif_processes", test_memif_processes},
	        {"refused", test_refused},
	        {"ring", test_ring},
	        {"flat_copy", test_flat_copy},
	        {"memif", test_memif},
	        {"a client's ring holds whole frames", test_memif_args},
	        {"a ring that holds no frame is refused", test_memif_refused},
	        {"af_packet", test_af_packet},
	        {"a bond of two interfaces of the kernel", test_bond},
	        {"tap", test_tap},
	        {"tap_tso", test_tap_tso},
	        {"queues", test_queues},
	        {"vlan_by_mbuf", test_vlan_by_mbuf},
	        {"planned_bytes", test_planned_bytes},
	};
	const char *sock = getenv(CHILD_ENV);

	if (sock != NULL)
		return child_main(sock);
	return test_main(argc, argv, cases, RTE_DIM(cases));
}
