/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TEST_SIM_NIC_H
#define WEFT_TEST_SIM_NIC_H

/**
 * @file A NIC with receive-side scaling (RSS) at one end of a simulated link. It computes the
 * Toeplitz hash of each packet with DPDK's rte_softrss() and a given key, and selects the queue by
 * a given redirection table.
 */

#include "sim.h"

#define SIM_NIC_QUEUES 8

struct sim_nic;

struct sim_nic_cfg {
	unsigned int queues;
	uint8_t key[52];
	uint16_t reta[512];
	unsigned int reta_size;
	bool reports_hash; /**< the mbuf has the RSS hash */
};

struct sim_nic *sim_nic_create(struct sim_link *l, unsigned int end, const struct sim_nic_cfg *cfg);
void sim_nic_destroy(struct sim_nic *nic);
/** Change the key and the table for the packets that arrive from now on. Packets in queues stay
 * there. */
void sim_nic_set(struct sim_nic *nic, const struct sim_nic_cfg *cfg);
/** The value of weft_netif_attr.dev for one queue pair. */
const struct weft_netif_dev *sim_nic_dev(void);
void *sim_nic_queue(struct sim_nic *nic, unsigned int queue);
/** Whether packets wait in a queue. */
bool sim_nic_pending(const struct sim_nic *nic, unsigned int queue);
/** The receive queue of a packet whose source is remote. */
unsigned int sim_nic_steer(const struct sim_nic_cfg *cfg, const struct weft_ip *remote,
                           uint16_t remote_port, const struct weft_ip *local, uint16_t local_port,
                           uint32_t *hash);

#endif /* WEFT_TEST_SIM_NIC_H */
