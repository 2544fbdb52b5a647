/* SPDX-License-Identifier: BSD-3-Clause */
/** @file A simulated NIC with several queues and RSS. */

#include <stdio.h>
#include <stdlib.h>

#include <rte_ip.h>
#include <rte_mbuf.h>
#include <rte_thash.h>

#include "sim_nic.h"
#include "weft_netif_attr.h"

#define NIC_QUEUE_LEN 4096

struct nic_queue {
	struct sim_nic *nic;
	unsigned int head, tail;
	struct rte_mbuf *m[NIC_QUEUE_LEN];
};

struct sim_nic {
	void *link_end;
	struct sim_nic_cfg cfg;
	struct nic_queue q[SIM_NIC_QUEUES];
};

unsigned int
sim_nic_steer(const struct sim_nic_cfg *cfg, const struct weft_ip *remote, uint16_t remote_port,
              const struct weft_ip *local, uint16_t local_port, uint32_t *hash)
{
	unsigned int n = weft_ip_is_v4(remote) ? 1 : 4;
	uint32_t tuple[9];

	/* rte_softrss() takes 32-bit words in host order. */
	for (unsigned int i = 0; i < n; i++) {
		tuple[i] = weft_get_be32(&remote->b[16 - 4 * n + 4 * i]);
		tuple[n + i] = weft_get_be32(&local->b[16 - 4 * n + 4 * i]);
	}
	tuple[2 * n] = (uint32_t)remote_port << 16 | local_port;
	*hash = rte_softrss(tuple, 2 * n + 1, cfg->key);
	return cfg->reta[*hash & (cfg->reta_size - 1)];
}

static unsigned int
nic_queue_of(struct sim_nic *nic, struct rte_mbuf *m)
{
	const uint8_t *p = rte_pktmbuf_mtod(m, const uint8_t *), *l4;
	struct weft_ip src, dst;
	unsigned int q;
	uint32_t hash;

	if (m->data_len >= 54 && weft_get_be16(p + 12) == RTE_ETHER_TYPE_IPV4 && p[23] == 6) {
		uint32_t a;

		memcpy(&a, p + 26, 4);
		src = weft_ip_from_v4(a);
		memcpy(&a, p + 30, 4);
		dst = weft_ip_from_v4(a);
		l4 = p + 14 + (p[14] & 0xf) * 4;
	} else if (m->data_len >= 74 && weft_get_be16(p + 12) == RTE_ETHER_TYPE_IPV6 &&
	           p[20] == 6) {
		memcpy(src.b, p + 22, 16);
		memcpy(dst.b, p + 38, 16);
		l4 = p + 54;
	} else {
		return 0; /* a packet without an RSS hash goes to queue 0 */
	}
	q = sim_nic_steer(&nic->cfg, &src, weft_get_be16(l4), &dst, weft_get_be16(l4 + 2), &hash);
	if (nic->cfg.reports_hash) {
		m->hash.rss = hash;
		m->ol_flags |= RTE_MBUF_F_RX_RSS_HASH;
	}
	return q;
}

static uint16_t
nic_rx(void *dev, struct rte_mbuf **pkts, uint16_t n)
{
	struct nic_queue *q = dev;
	struct rte_mbuf *m[32];
	uint16_t got;

	while ((got = sim_link_dev()->rx(q->nic->link_end, m, RTE_DIM(m))) > 0)
		for (uint16_t i = 0; i < got; i++) {
			struct nic_queue *to = &q->nic->q[nic_queue_of(q->nic, m[i])];

			if (to->tail - to->head == NIC_QUEUE_LEN)
				rte_pktmbuf_free(m[i]);
			else
				to->m[to->tail++ % NIC_QUEUE_LEN] = m[i];
		}
	for (got = 0; got < n && q->head != q->tail; got++)
		pkts[got] = q->m[q->head++ % NIC_QUEUE_LEN];
	return got;
}

static uint16_t
nic_tx(void *dev, struct rte_mbuf **pkts, uint16_t n)
{
	return sim_link_dev()->tx(((struct nic_queue *)dev)->nic->link_end, pkts, n);
}

const struct weft_netif_dev *
sim_nic_dev(void)
{
	static const struct weft_netif_dev dev = {.rx = nic_rx, .tx = nic_tx};

	return &dev;
}

void *
sim_nic_queue(struct sim_nic *nic, unsigned int queue)
{
	return &nic->q[queue];
}

bool
sim_nic_pending(const struct sim_nic *nic, unsigned int queue)
{
	return nic->q[queue].head != nic->q[queue].tail;
}

struct sim_nic *
sim_nic_create(struct sim_link *l, unsigned int end, const struct sim_nic_cfg *cfg)
{
	struct sim_nic *nic = calloc(1, sizeof(*nic));

	if (nic == NULL) {
		fprintf(stderr, "sim_nic: out of memory\n");
		abort();
	}
	nic->link_end = sim_link_dev_arg(l, end);
	nic->cfg = *cfg;
	for (unsigned int i = 0; i < SIM_NIC_QUEUES; i++)
		nic->q[i].nic = nic;
	return nic;
}

void
sim_nic_set(struct sim_nic *nic, const struct sim_nic_cfg *cfg)
{
	nic->cfg = *cfg;
}

void
sim_nic_destroy(struct sim_nic *nic)
{
	for (unsigned int i = 0; i < SIM_NIC_QUEUES; i++)
		for (struct nic_queue *q = &nic->q[i]; q->head != q->tail; q->head++)
			rte_pktmbuf_free(q->m[q->head % NIC_QUEUE_LEN]);
	free(nic);
}
