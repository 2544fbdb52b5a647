/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NETIF_LOOP_H
#define NETIF_LOOP_H

/**
 * @file
 * The self-test of a port (netif_loop.c): before the port takes traffic, frames go out and come
 * back by a loopback inside the device. Some have checksums of ours, correct ones and damaged ones;
 * the device fills in the checksums of others, and cuts some. What comes back is judged as received
 * packets are (netif_verdict.h, netif_cksum.h, netif_steer.c).
 */

#include <stdbool.h>
#include <stdint.h>

struct weft_netif_port;

struct netif_loop {
	bool loops;      /**< frames came back */
	bool astray;     /**< the port does not place frames by its key and table */
	uint32_t failed; /**< WEFT_OFFLOAD_* that the device does incorrectly */
	uint32_t frames; /**< that came back */
	uint32_t wrong;  /**< of these, and of those that did not come back: incorrect ones */
};

/** Whether DPDK's driver has a loopback that rte_eth_conf.lpbk_mode = 1 turns on, or is one. */
bool netif_loop_driver(const char *driver);
/**
 * Tests the port, which was started with lpbk_mode = 1. rss: it has told its key and table. Set-up
 * thread; takes some milliseconds, and 1 s if nothing comes back.
 */
void netif_loop_run(const struct weft_netif_port *p, bool rss, struct netif_loop *r);

#endif /* NETIF_LOOP_H */
