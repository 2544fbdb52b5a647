/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file The self-test of a port. The program puts a NIC with a loopback in place of net_ring's
 * queues: it fills in and checks checksums, cuts, and steers, by DPDK's arithmetic, and does one
 * thing incorrectly.
 */

#include <rte_ethdev.h>
#include <rte_ip.h>
#include <rte_tcp.h>
#include <rte_thash.h>

#include "weft_netif_port.h"
#include "weft_test.h"
#include <weft/offload.h>

#define QUEUES 4
#define FIFO   1024
#define RETA   128

enum lie {
	LIE_NONE,
	LIE_SILENT,    /**< nothing comes back */
	LIE_LATE,      /**< the loop carries frames after a while */
	LIE_DROPS,     /**< damaged frames are dropped */
	LIE_LOSES,     /**< one frame in three is lost */
	LIE_RX_GOOD,   /**< all is called intact */
	LIE_TX_TCP,    /**< checksums of TCP are not filled in */
	LIE_TX_IP,     /**< those of IPv4 are not */
	LIE_TX_ODD,    /**< those of odd payloads are wrong */
	LIE_TX_GONE,   /**< frames whose checksums are to be filled in vanish */
	LIE_TSO_SUM,   /**< what was cut has wrong checksums */
	LIE_TSO_SEQ,   /**< or wrong sequence numbers */
	LIE_TSO_ONE,   /**< or is not more than its first segment */
	LIE_KEY,       /**< another RSS key */
	LIE_KEY_TELLS, /**< and the port does not tell its key */
	LIE_NO_V6,     /**< no frame of IPv6 comes back */
	LIES,
};

struct queue {
	unsigned int head, tail;
	struct rte_mbuf *m[FIFO];
};

static struct {
	const char *driver; /**< NULL: the real one */
	enum lie lie;
	int loop_rc; /**< of a configuration with loopback */
	/* seen */
	unsigned int configures, looped;
	int lpbk; /**< of the latest configuration */
	uint64_t rx, tx;
	unsigned int sent, late;
	uint8_t key[52];
	uint16_t reta[RETA];
	struct queue q[QUEUES];
	void *data[QUEUES];
} nic;

/* ---- The NIC ---- */

static uint32_t
nic_hash(const uint8_t *ip, const struct rte_tcp_hdr *tcp, bool v6)
{
	unsigned int n = v6 ? 8 : 2;
	uint8_t key[52];
	uint32_t t[9];

	memcpy(key, nic.key, sizeof(key));
	for (unsigned int i = 0;
	     i < sizeof(key) && (nic.lie == LIE_KEY || nic.lie == LIE_KEY_TELLS); i++)
		key[i] = (uint8_t)(key[i] * 7 + 1);
	for (unsigned int i = 0; i < n; i++)
		t[i] = rte_be_to_cpu_32(((const unaligned_uint32_t *)(ip + (v6 ? 8 : 12)))[i]);
	t[n] = (uint32_t)rte_be_to_cpu_16(tcp->src_port) << 16 | rte_be_to_cpu_16(tcp->dst_port);
	return rte_softrss(t, n + 1, key);
}

/** A frame of the loop arrives. */
static void
nic_arrive(struct rte_mbuf *m)
{
	uint8_t *ip = rte_pktmbuf_mtod_offset(m, uint8_t *, RTE_ETHER_HDR_LEN);
	bool v6 = ip[0] >> 4 == 6, good, good_ip;
	struct rte_tcp_hdr *tcp = (struct rte_tcp_hdr *)(void *)(ip + (v6 ? 40 : 20));
	uint32_t hash = nic_hash(ip, tcp, v6);
	struct queue *q = &nic.q[nic.reta[hash % RETA]];
	uint16_t cksum = tcp->cksum;

	nic.sent++;
	good_ip = v6 || rte_raw_cksum(ip, 20) == 0xffff;
	tcp->cksum = 0;
	good = cksum == (v6 ? rte_ipv6_udptcp_cksum((void *)ip, tcp)
	                    : rte_ipv4_udptcp_cksum((void *)ip, tcp));
	tcp->cksum = cksum;
	if (nic.lie == LIE_SILENT || (nic.lie == LIE_LATE && nic.late > 0 && nic.late-- > 0) ||
	    (nic.lie == LIE_DROPS && !(good && good_ip)) ||
	    (nic.lie == LIE_LOSES && nic.sent % 3 == 0) || (nic.lie == LIE_NO_V6 && v6) ||
	    q->tail - q->head == FIFO) {
		rte_pktmbuf_free(m);
		return;
	}
	if (nic.lie == LIE_RX_GOOD)
		good = good_ip = true;
	m->ol_flags = RTE_MBUF_F_RX_RSS_HASH;
	m->ol_flags |= good_ip ? RTE_MBUF_F_RX_IP_CKSUM_GOOD : RTE_MBUF_F_RX_IP_CKSUM_BAD;
	m->ol_flags |= good ? RTE_MBUF_F_RX_L4_CKSUM_GOOD : RTE_MBUF_F_RX_L4_CKSUM_BAD;
	m->hash.rss = hash;
	q->m[q->tail++ % FIFO] = m;
}

/** Sends `n` octets of m's payload, from `off` on, behind its headers. */
static void
nic_segment(const struct rte_mbuf *m, uint32_t off, uint32_t n)
{
	const uint32_t l3 = RTE_ETHER_HDR_LEN, l4 = l3 + m->l3_len, hdr = l4 + m->l4_len;
	const bool v6 = (m->ol_flags & RTE_MBUF_F_TX_IPV6) != 0;
	const bool cut = (m->ol_flags & RTE_MBUF_F_TX_TCP_SEG) != 0;
	const uint8_t *from = rte_pktmbuf_mtod(m, const uint8_t *);
	struct rte_mbuf *s = rte_pktmbuf_alloc(m->pool);
	struct rte_ipv4_hdr *ip4;
	struct rte_tcp_hdr *tcp;
	uint8_t *p;

	CHECK(s != NULL);
	p = (uint8_t *)rte_pktmbuf_append(s, (uint16_t)(hdr + n));
	memcpy(p, from, hdr);
	memcpy(p + hdr, from + hdr + off, n);
	tcp = (struct rte_tcp_hdr *)(void *)(p + l4);
	ip4 = (struct rte_ipv4_hdr *)(void *)(p + l3);
	tcp->sent_seq = rte_cpu_to_be_32(rte_be_to_cpu_32(tcp->sent_seq) +
	                                 (nic.lie == LIE_TSO_SEQ && cut ? 0 : off));
	if (v6) {
		((struct rte_ipv6_hdr *)(void *)ip4)->payload_len =
		        rte_cpu_to_be_16((uint16_t)(m->l4_len + n));
	} else {
		ip4->total_length = rte_cpu_to_be_16((uint16_t)(m->l3_len + m->l4_len + n));
		if (nic.lie != LIE_TX_IP) {
			ip4->hdr_checksum = 0;
			ip4->hdr_checksum = rte_ipv4_cksum(ip4);
		}
	}
	if (nic.lie != LIE_TX_TCP && !(nic.lie == LIE_TX_ODD && n % 2 != 0) &&
	    !(nic.lie == LIE_TSO_SUM && cut)) {
		tcp->cksum = 0;
		tcp->cksum = v6 ? rte_ipv6_udptcp_cksum((void *)ip4, tcp)
		                : rte_ipv4_udptcp_cksum(ip4, tcp);
	}
	nic_arrive(s);
}

static uint16_t
nic_tx(void *txq, struct rte_mbuf **pkts, uint16_t n)
{
	(void)txq;
	for (uint16_t i = 0; i < n; i++) {
		struct rte_mbuf *m = pkts[i];
		uint32_t hdr = m->l2_len + m->l3_len + m->l4_len;
		uint32_t step = (m->ol_flags & RTE_MBUF_F_TX_TCP_SEG) != 0 ? m->tso_segsz : 65536;

		if ((m->ol_flags & RTE_MBUF_F_TX_L4_MASK) == 0) {
			nic_arrive(m);
			continue;
		}
		CHECK_EQ(rte_validate_tx_offload(m), 0);
		for (uint32_t off = 0; off < m->pkt_len - hdr && nic.lie != LIE_TX_GONE;
		     off += step) {
			nic_segment(m, off, RTE_MIN(step, m->pkt_len - hdr - off));
			if (nic.lie == LIE_TSO_ONE)
				break;
		}
		rte_pktmbuf_free(m);
	}
	return n;
}

static uint16_t
nic_rx(void *rxq, struct rte_mbuf **pkts, uint16_t n)
{
	struct queue *q = rxq;
	uint16_t got;

	for (got = 0; got < n && q->head != q->tail; got++)
		pkts[got] = q->m[q->head++ % FIFO];
	return got;
}

/* ---- What DPDK says of it ---- */

#define CAPA_RX (RTE_ETH_RX_OFFLOAD_IPV4_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM)
#define CAPA_TX                                                                                    \
	(RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM |                            \
	 RTE_ETH_TX_OFFLOAD_MULTI_SEGS | RTE_ETH_TX_OFFLOAD_TCP_TSO)

int __real_rte_eth_dev_info_get(uint16_t port, struct rte_eth_dev_info *info);
int __wrap_rte_eth_dev_info_get(uint16_t port, struct rte_eth_dev_info *info);

int
__wrap_rte_eth_dev_info_get(uint16_t port, struct rte_eth_dev_info *info)
{
	int rc = __real_rte_eth_dev_info_get(port, info);

	if (nic.driver == NULL)
		return rc;
	info->driver_name = nic.driver;
	info->rx_offload_capa |= CAPA_RX;
	info->tx_offload_capa |= CAPA_TX;
	info->flow_type_rss_offloads = RTE_ETH_RSS_NONFRAG_IPV4_TCP | RTE_ETH_RSS_NONFRAG_IPV6_TCP;
	info->reta_size = RETA;
	info->hash_key_size = 40;
	info->max_rx_queues = info->max_tx_queues = QUEUES;
	return rc;
}

int __real_rte_eth_dev_configure(uint16_t port, uint16_t nrx, uint16_t ntx,
                                 const struct rte_eth_conf *conf);
int __wrap_rte_eth_dev_configure(uint16_t port, uint16_t nrx, uint16_t ntx,
                                 const struct rte_eth_conf *conf);

int
__wrap_rte_eth_dev_configure(uint16_t port, uint16_t nrx, uint16_t ntx,
                             const struct rte_eth_conf *conf)
{
	struct rte_eth_conf c = *conf;

	nic.configures++;
	nic.looped += c.lpbk_mode == 1;
	nic.lpbk = (int)c.lpbk_mode;
	if (c.lpbk_mode != 0 && nic.loop_rc != 0)
		return nic.loop_rc;
	if (nic.driver == NULL)
		return __real_rte_eth_dev_configure(port, nrx, ntx, conf);
	nic.rx = c.rxmode.offloads;
	nic.tx = c.txmode.offloads;
	c = (struct rte_eth_conf){0};
	return __real_rte_eth_dev_configure(port, 1, 1, &c);
}

int __real_rte_eth_rx_queue_setup(uint16_t port, uint16_t q, uint16_t n, unsigned int socket,
                                  const struct rte_eth_rxconf *conf, struct rte_mempool *pool);
int __wrap_rte_eth_rx_queue_setup(uint16_t port, uint16_t q, uint16_t n, unsigned int socket,
                                  const struct rte_eth_rxconf *conf, struct rte_mempool *pool);

int
__wrap_rte_eth_rx_queue_setup(uint16_t port, uint16_t q, uint16_t n, unsigned int socket,
                              const struct rte_eth_rxconf *conf, struct rte_mempool *pool)
{
	struct rte_eth_rxconf c = *conf;

	c.offloads = 0;
	return q > 0 ? 0 : __real_rte_eth_rx_queue_setup(port, q, n, socket, &c, pool);
}

int __real_rte_eth_tx_queue_setup(uint16_t port, uint16_t q, uint16_t n, unsigned int socket,
                                  const struct rte_eth_txconf *conf);
int __wrap_rte_eth_tx_queue_setup(uint16_t port, uint16_t q, uint16_t n, unsigned int socket,
                                  const struct rte_eth_txconf *conf);

int
__wrap_rte_eth_tx_queue_setup(uint16_t port, uint16_t q, uint16_t n, unsigned int socket,
                              const struct rte_eth_txconf *conf)
{
	struct rte_eth_txconf c = *conf;

	if (nic.driver != NULL)
		c.offloads = 0;
	return q > 0 ? 0 : __real_rte_eth_tx_queue_setup(port, q, n, socket, &c);
}

int __real_rte_eth_dev_start(uint16_t port);
int __wrap_rte_eth_dev_start(uint16_t port);

int
__wrap_rte_eth_dev_start(uint16_t port)
{
	int rc = __real_rte_eth_dev_start(port);

	if (rc != 0 || nic.driver == NULL)
		return rc;
	for (unsigned int i = 0; i < QUEUES; i++)
		nic.data[i] = &nic.q[i];
	rte_eth_fp_ops[port].rx_pkt_burst = nic_rx;
	rte_eth_fp_ops[port].tx_pkt_burst = nic_tx;
	rte_eth_fp_ops[port].rxq.data = nic.data;
	rte_eth_fp_ops[port].txq.data = nic.data;
	return 0;
}

int __wrap_rte_eth_dev_rss_hash_update(uint16_t port, struct rte_eth_rss_conf *rc);

int
__wrap_rte_eth_dev_rss_hash_update(uint16_t port, struct rte_eth_rss_conf *rc)
{
	(void)port;
	memcpy(nic.key, rc->rss_key, rc->rss_key_len);
	return 0;
}

int __wrap_rte_eth_dev_rss_hash_conf_get(uint16_t port, struct rte_eth_rss_conf *rc);

int
__wrap_rte_eth_dev_rss_hash_conf_get(uint16_t port, struct rte_eth_rss_conf *rc)
{
	(void)port;
	if (nic.lie == LIE_KEY_TELLS)
		return -ENOTSUP;
	memcpy(rc->rss_key, nic.key, 40);
	rc->rss_hf = RTE_ETH_RSS_NONFRAG_IPV4_TCP | RTE_ETH_RSS_NONFRAG_IPV6_TCP;
	return 0;
}

int __wrap_rte_eth_dev_rss_reta_update(uint16_t port, struct rte_eth_rss_reta_entry64 *r,
                                       uint16_t n);

int
__wrap_rte_eth_dev_rss_reta_update(uint16_t port, struct rte_eth_rss_reta_entry64 *r, uint16_t n)
{
	(void)port;
	for (unsigned int i = 0; i < n; i++)
		nic.reta[i] = r[i / 64].reta[i % 64];
	return 0;
}

int __wrap_rte_eth_dev_rss_reta_query(uint16_t port, struct rte_eth_rss_reta_entry64 *r,
                                      uint16_t n);

int
__wrap_rte_eth_dev_rss_reta_query(uint16_t port, struct rte_eth_rss_reta_entry64 *r, uint16_t n)
{
	(void)port;
	for (unsigned int i = 0; i < n; i++)
		r[i / 64].reta[i % 64] = nic.reta[i];
	return 0;
}

/* ---- Cases ---- */

static void
open_lie(enum lie lie, uint16_t queues, uint16_t mtu, struct weft_netif_port *p)
{
	const struct weft_netif_port_attr pa = {.dev = "net_ring7",
	                                        .mtu_bytes = mtu,
	                                        .mbufs = 4096,
	                                        .queues = queues,
	                                        .nvlans = 1,
	                                        .selftest = true};

	test_eal_init();
	memset(&nic, 0, sizeof(nic));
	nic.driver = "net_ixgbe";
	nic.lie = lie;
	nic.late = 5;
	CHECK_EQ(weft_netif_port_open(&pa, p), 0);
	/* Stopped and started again, without loopback, and no frame is left. */
	CHECK_EQ(nic.looped, 1);
	CHECK_EQ(nic.configures, 2);
	CHECK_EQ(nic.lpbk, 0);
	for (unsigned int i = 0; i < QUEUES; i++)
		CHECK_EQ(nic.q[i].head, nic.q[i].tail);
	CHECK_EQ(rte_mempool_in_use_count(p->tx_pool), 0);
	test_note("lie %u, %u queues: %u frames, %u wrong, failed %#x%s", lie, queues,
	          p->selftest_frames, p->selftest_wrong, p->selftest_failed,
	          p->rss_astray ? ", astray" : "");
	/* What failed is not asked for, and all else is. */
	CHECK_EQ((nic.rx & CAPA_RX) == CAPA_RX,
	         (p->selftest_failed & WEFT_OFFLOAD_RX_CHECKSUM) == 0);
	CHECK_EQ((nic.tx & RTE_ETH_TX_OFFLOAD_TCP_CKSUM) != 0,
	         (p->selftest_failed & WEFT_OFFLOAD_TX_CHECKSUM) == 0);
	CHECK_EQ((nic.tx & RTE_ETH_TX_OFFLOAD_TCP_TSO) != 0,
	         (p->selftest_failed & WEFT_OFFLOAD_TSO) == 0);
	CHECK_EQ(weft_netif_port_offloads(p) & p->selftest_failed, 0);
}

static void
test_lies(void)
{
	static const uint32_t rx = WEFT_OFFLOAD_RX_CHECKSUM, tso = WEFT_OFFLOAD_TSO,
	                      tx = WEFT_OFFLOAD_TX_CHECKSUM | WEFT_OFFLOAD_TSO;
	const uint32_t failed[LIES] = {
	        [LIE_RX_GOOD] = rx, [LIE_TX_TCP] = tx,   [LIE_TX_IP] = tx,    [LIE_TX_ODD] = tx,
	        [LIE_TX_GONE] = tx, [LIE_TSO_SUM] = tso, [LIE_TSO_SEQ] = tso, [LIE_TSO_ONE] = tso};

	for (unsigned int lie = 0; lie < LIES; lie++)
		for (uint16_t queues = 1; queues <= QUEUES; queues = (uint16_t)(queues + 1)) {
			const bool astray = queues > 1 && (lie == LIE_KEY || lie == LIE_KEY_TELLS);
			struct weft_netif_port p;

			open_lie(lie, queues, queues == 2 ? 576 : queues == 3 ? 9000 : 1500, &p);
			CHECK_EQ(p.rx_queues, queues);
			CHECK_EQ(p.selftest_failed, failed[lie]);
			CHECK_EQ(p.rss_astray, astray);
			CHECK_EQ(p.selftest_wrong > 0, failed[lie] != 0 || astray);
			CHECK_EQ(p.selftest_frames == 0, lie == LIE_SILENT);
			weft_netif_port_close(&p);
		}
}

/** Without a loopback the port opens, untested. */
static void
test_no_loop(void)
{
	struct weft_netif_port_attr pa = {
	        .dev = "net_ring7", .mbufs = 4096, .queues = 2, .nvlans = 1, .selftest = true};
	struct weft_netif_port p;

	test_eal_init();
	for (unsigned int i = 0; i < 3; i++) {
		memset(&nic, 0, sizeof(nic));
		nic.driver = i == 0 ? "net_i40e" : "net_igc";
		nic.loop_rc = -EINVAL; /* i = 1: the driver refuses */
		pa.selftest = i < 2;   /* i = 2: not asked for */
		CHECK_EQ(weft_netif_port_open(&pa, &p), 0);
		CHECK_EQ(nic.looped, i == 1);
		CHECK_EQ(nic.lpbk, 0);
		CHECK_EQ(p.selftest_frames + p.selftest_failed + nic.sent, 0);
		weft_netif_port_close(&p);
	}
}

/** net_ring's own rings: what goes out comes back, and there is no offload to test. */
static void
test_ring(void)
{
	const struct weft_netif_port_attr pa = {
	        .dev = "net_ring7", .mbufs = 4096, .queues = 1, .nvlans = 1, .selftest = true};
	struct weft_netif_port p;

	test_eal_init();
	memset(&nic, 0, sizeof(nic));
	CHECK_EQ(weft_netif_port_open(&pa, &p), 0);
	CHECK_EQ(nic.looped, 1);
	CHECK_EQ(p.selftest_frames, 2); /* one of each family */
	CHECK_EQ(p.selftest_wrong, 0);
	CHECK_EQ(rte_mempool_in_use_count(p.tx_pool), 0);
	weft_netif_port_close(&p);
}

WEFT_TEST_MAIN({"what a device does incorrectly is not used", test_lies},
               {"a driver without loopback", test_no_loop}, {"net_ring", test_ring})
