/* SPDX-License-Identifier: BSD-3-Clause */
/** @file The packet sockets below net_af_packet: found, asked for what is left, and what they say.
 */

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>
#include <linux/if_packet.h>

#include <rte_byteorder.h>
#include <rte_ethdev.h>

#include "../../lib/netif/netif_packet.h"
#include "weft_base.h"
#include "weft_netif_port.h"
#include "weft_test.h"

#define FRAMES      32
#define FRAME_BYTES 1000
/** Its frames pass the interface's queue. */
#define SLOW       "net_af_packet0,iface=weft0,qdisc_bypass=0"
#define ETHER_TYPE 0x88b5 /* for experiments (IEEE 802) */

static void
sh(const char *cmd)
{
	int ret = system(cmd);

	CHECK_MSG(ret == 0, "%s: %d", cmd, ret);
}

/** A pair of interfaces, weft0 and weft1, in a namespace of the test. */
static void
begin(void)
{
	static bool done;

	test_eal_init();
	if (geteuid() != 0)
		test_skip("needs root for a network namespace");
	if (system("command -v ip tc >/dev/null 2>&1") != 0)
		test_skip("needs ip and tc");
	if (!done && unshare(CLONE_NEWNET) != 0)
		test_skip("no network namespace");
	done = true;
	sh("ip link add weft0 type veth peer name weft1 && "
	   "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 2>/dev/null; "
	   "ip link set weft0 up && ip link set weft1 up");
}

static void
end(void)
{
	sh("ip link del weft0");
}

static unsigned int
open_files(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/** A socket that sees the test's frames on an interface. */
static int
listen_on(const char *iface)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = RTE_BE16(ETHER_TYPE)};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0);

	CHECK(fd >= 0);
	at.sll_ifindex = (int)if_nametoindex(iface);
	CHECK_EQ(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

/** Counts the frames that come within so many milliseconds, at most max. */
static unsigned int
frames_in(int fd, unsigned int max, unsigned int ms, struct netif_packet *look)
{
	uint8_t buf[2048];
	unsigned int n = 0;

	for (unsigned int i = 0; i < ms && n < max; i++) {
		if (look != NULL)
			netif_packet_look(look, (i + 1) * WEFT_NS_PER_MS);
		usleep(1000);
		while (recv(fd, buf, sizeof(buf), 0) > 0)
			n++;
	}
	return n;
}

static void
port_open(const char *dev, uint16_t queues, struct weft_netif_port *port)
{
	const struct weft_netif_port_attr pa = {.dev = dev, .mbufs = 1024, .queues = queues};

	CHECK_EQ(weft_netif_port_open(&pa, port), 0);
}

static void
send_frames(const struct weft_netif_port *port, unsigned int n)
{
	struct rte_mbuf *m[FRAMES];

	for (unsigned int i = 0; i < n; i++) {
		struct rte_ether_hdr *eth;

		m[i] = rte_pktmbuf_alloc(port->tx_pool);
		CHECK(m[i] != NULL);
		eth = (struct rte_ether_hdr *)rte_pktmbuf_append(m[i], FRAME_BYTES);
		memset(eth, 0xff, FRAME_BYTES);
		eth->ether_type = RTE_BE16(ETHER_TYPE);
	}
	CHECK_EQ(rte_eth_tx_burst(port->port_id, 0, m, (uint16_t)n), n);
}

/*
 * The send buffer is full long before the ring is, and a slow queue empties it. The driver asks the
 * kernel once. The rest moves only when the kernel is asked again.
 */
static void
test_left(void)
{
	const int small = 1;
	struct netif_packet p = {.n = 0};
	struct weft_netif_port port;
	unsigned int alone;
	int fd;

	begin();
	sh("tc qdisc add dev weft0 root tbf rate 80mbit burst 2000 limit 1000000");
	fd = listen_on("weft1");
	port_open(SLOW, 1, &port);
	netif_packet_add(&p, port.port_id, 0);
	CHECK_EQ(p.n, 1);
	CHECK_EQ(setsockopt(p.fd[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);

	send_frames(&port, FRAMES);
	netif_packet_sent(&p, 0);
	CHECK(p.due);
	alone = frames_in(fd, FRAMES, 200, NULL);
	CHECK_MSG(alone < FRAMES / 2, "%u frames left the ring alone", alone);
	CHECK_EQ(alone + frames_in(fd, FRAMES - alone, 5000, &p), FRAMES);
	/* One more question, which says that the ring is empty. */
	CHECK_EQ(frames_in(fd, 1, 20, &p), 0);
	CHECK(!p.due);

	weft_netif_port_close(&port);
	close(fd);
	end();
}

/** An interface that takes nothing is asked less and less often, and then no more. */
static void
test_vain(void)
{
	struct netif_packet p = {.n = 0};
	struct weft_netif_port port;
	unsigned int asked = 0;
	uint64_t now_ns = 0;
	const int small = 1;

	begin();
	/* A frame lets the queue rest for minutes. */
	sh("tc qdisc add dev weft0 root tbf rate 1kbit burst 2000 limit 1000000");
	port_open(SLOW, 1, &port);
	netif_packet_add(&p, port.port_id, 0);
	CHECK_EQ(setsockopt(p.fd[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	send_frames(&port, FRAMES);
	netif_packet_sent(&p, now_ns);
	for (; p.due && now_ns < 10 * WEFT_NS_PER_S; now_ns += 10 * WEFT_NS_PER_US) {
		uint64_t at_ns = p.at_ns;

		netif_packet_look(&p, now_ns);
		asked += p.at_ns != at_ns;
	}
	CHECK(!p.due);
	CHECK_MSG(now_ns > WEFT_NS_PER_S / 2 && now_ns < 2 * WEFT_NS_PER_S, "%" PRIu64, now_ns);
	CHECK_MSG(asked > 500 && asked < 1100, "asked %u times", asked);
	/* The next frames begin again. */
	netif_packet_sent(&p, now_ns);
	CHECK(p.due);

	weft_netif_port_close(&port);
	end();
}

/** Each queue has its own socket; sockets of others on the interface are none of the port's. */
static void
test_found(void)
{
	struct netif_packet q0 = {.n = 0}, q1 = {.n = 0}, none = {.n = 0}, other = {.n = 0};
	struct weft_netif_port port, second;
	unsigned int before;
	int foreign;

	begin();
	sh("ip link add weft2 type veth peer name weft3 && ip link set weft2 up && "
	   "ip link set weft3 up");
	foreign = listen_on("weft0");
	before = open_files();
	port_open("net_af_packet0,iface=weft0,qpairs=2", 2, &port);
	port_open("net_af_packet1,iface=weft2", 1, &second);
	netif_packet_add(&q0, port.port_id, 0);
	netif_packet_add(&q1, port.port_id, 1);
	netif_packet_add(&none, port.port_id, 2);
	netif_packet_add(&other, second.port_id, 0);
	CHECK_EQ(q0.n, 1);
	CHECK_EQ(q1.n, 1);
	CHECK_EQ(none.n, 0);
	CHECK_EQ(other.n, 1);
	CHECK(q0.fd[0] != q1.fd[0] && q0.fd[0] != foreign && q1.fd[0] != foreign);
	netif_packet_sent(&none, 1);
	CHECK(!none.due);
	weft_netif_port_close(&second);
	weft_netif_port_close(&port);
	CHECK_EQ(open_files(), before);
	close(foreign);
	sh("ip link del weft2");
	end();
}

static short
ready(int fd)
{
	struct pollfd f = {.fd = fd, .events = POLLIN};

	return poll(&f, 1, 0) == 1 ? f.revents : 0;
}

/** The socket is readable while a frame waits. When the interface goes down it says so once. */
static void
test_readable(void)
{
	struct netif_packet p = {.n = 0};
	struct weft_netif_port port;
	struct rte_mbuf *m;
	uint8_t frame[64] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
	int fd;

	begin();
	fd = listen_on("weft1");
	port_open("net_af_packet0,iface=weft0", 1, &port);
	netif_packet_add(&p, port.port_id, 0);
	while (rte_eth_rx_burst(port.port_id, 0, &m, 1) == 1)
		rte_pktmbuf_free(m);
	CHECK_EQ(ready(p.fd[0]), 0);
	frame[12] = ETHER_TYPE >> 8;
	frame[13] = ETHER_TYPE & 0xff;
	CHECK_EQ(send(fd, frame, sizeof(frame), 0), sizeof(frame));
	for (unsigned int i = 0; i < 1000 && ready(p.fd[0]) == 0; i++)
		usleep(1000);
	CHECK(ready(p.fd[0]) & POLLIN);
	while (rte_eth_rx_burst(port.port_id, 0, &m, 1) == 1)
		rte_pktmbuf_free(m);
	CHECK_EQ(ready(p.fd[0]), 0);

	sh("ip link set weft0 down");
	CHECK(ready(p.fd[0]) & POLLERR);
	netif_packet_woke(&p);
	CHECK_EQ(ready(p.fd[0]), 0);
	/* Down: nothing is asked for until the next frame. */
	netif_packet_sent(&p, 0);
	netif_packet_look(&p, WEFT_NS_PER_MS);
	CHECK(!p.due);

	weft_netif_port_close(&port);
	close(fd);
	end();
}

WEFT_TEST_MAIN({"what is left in the ring", test_left}, {"asked in vain", test_vain},
               {"found", test_found}, {"readable", test_readable});
