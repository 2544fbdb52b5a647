/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TEST_SIM_NIC_H
#define WEFT_TEST_SIM_NIC_H

/**
 * @file A NIC with receive-side scaling at one end of a simulated link: it computes Toeplitz by
 * rte_softrss() (none of ours) with a given key and redirection table and puts each packet on a
 * queue.
 */

#include "sim.h"

#define SIM_NIC_QUEUES 8

struct sim_nic;

struct sim_nic_cfg {
	unsigned int queues;
	uint8_t key[52];
	uint16_t reta[512];
	unsigned int reta_size;
	bool reports_hash; /**< in the mbuf */
};

struct sim_nic *sim_nic_create(struct sim_link *l, unsigned int end, const struct sim_nic_cfg *cfg);
void sim_nic_destroy(struct sim_nic *nic);
/** Change key and table from the next packet on; those in queues stay where they are. */
void sim_nic_set(struct sim_nic *nic, const struct sim_nic_cfg *cfg);
/** For weft_netif_attr: one queue pair. */
const struct weft_netif_dev *sim_nic_dev(void);
void *sim_nic_queue(struct sim_nic *nic, unsigned int queue);
/** Whether packets wait in a queue. */
bool sim_nic_pending(const struct sim_nic *nic, unsigned int queue);
/** Queue of a packet that comes in; remote is its source. */
unsigned int sim_nic_steer(const struct sim_nic_cfg *cfg, const struct weft_ip *remote,
                           uint16_t remote_port, const struct weft_ip *local, uint16_t local_port,
                           uint32_t *hash);

#endif /* WEFT_TEST_SIM_NIC_H */
