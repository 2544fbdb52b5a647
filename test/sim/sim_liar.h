/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TEST_SIM_LIAR_H
#define WEFT_TEST_SIM_LIAR_H

/**
 * @file A NIC at one end of a simulated link that does all that ports offload, and does one thing
 * incorrectly. It checks and fills in checksums, cuts TSO packets, and has queues with RSS. Its
 * arithmetic is its own. The simulation's seed decides what is left to chance.
 */

#include "sim.h"

#define SIM_LIAR_QUEUES 4

/** What the NIC does incorrectly. */
enum sim_lie {
	SIM_LIE_NONE,
	/* Checksums of received packets. */
	SIM_LIE_RX_GOOD,    /**< every packet is called intact */
	SIM_LIE_RX_NONE,    /**< every packet is called one that was never on a wire */
	SIM_LIE_RX_BAD,     /**< every packet is called damaged */
	SIM_LIE_RX_UNKNOWN, /**< nothing is said */
	SIM_LIE_RX_ANY,     /**< anything is said */
	/* Checksums of sent packets. */
	SIM_LIE_TX_TCP,    /**< TCP's keeps the sum of the pseudo-header */
	SIM_LIE_TX_IP,     /**< IPv4's stays 0 */
	SIM_LIE_TX_ODD,    /**< TCP's is wrong if the payload has an odd number of octets */
	SIM_LIE_TX_ANY,    /**< TCP's is wrong in every other packet */
	SIM_LIE_TSO_GONE,  /**< TSO packets vanish */
	SIM_LIE_TSO_FIRST, /**< only the first segment of a TSO packet leaves */
	SIM_LIE_TSO_SUM,   /**< the segments of TSO packets have wrong checksums */
	/* RSS. */
	SIM_LIE_RSS_KEY,     /**< another key than it was given; the hash is told */
	SIM_LIE_RSS_HIDDEN,  /**< another key, and the hash is not told */
	SIM_LIE_RSS_RANDOM,  /**< the hash that is told is random; the queue is right */
	SIM_LIE_RSS_LATER,   /**< the same, of segments without SYN alone */
	SIM_LIE_RSS_RARELY,  /**< the same, of one segment in 50 */
	SIM_LIE_RSS_MISSING, /**< no hash is told */
	SIM_LIE_RSS_ONE,     /**< all packets arrive in one queue */
	SIM_LIE_RSS_CHANGES, /**< packets of a connection arrive in changing queues */
	/* Rings and link. */
	SIM_LIE_STALL,      /**< a transmit ring takes nothing until it is reset */
	SIM_LIE_STALL_LONG, /**< it cannot be reset, and goes on after 2.5 s */
	SIM_LIE_FLAP,       /**< the link goes down and comes up */
	SIM_LIE_BURSTS,     /**< bursts return fewer packets than there are, or none */
	SIM_LIES,
};

struct sim_liar;

struct sim_liar_cfg {
	enum sim_lie lie;
	unsigned int queues; /**< 1..SIM_LIAR_QUEUES */
	uint8_t key[52];
	uint16_t reta[128]; /**< redirection table */
	/** SIM_LIE_RSS_KEY, SIM_LIE_RSS_HIDDEN: received packets until the key changes; 0: never */
	unsigned int rekey_pkts;
};

struct sim_liar_stats {
	uint64_t lies; /**< packets that were treated incorrectly, stalls, or changes of the link */
	uint64_t summed; /**< sent packets whose checksums were to be filled in */
	uint64_t cut;    /**< TSO packets */
	uint64_t resets;
};

struct sim_liar *sim_liar_create(struct sim *s, struct sim_link *l, unsigned int end,
                                 const struct sim_liar_cfg *cfg);
void sim_liar_destroy(struct sim_liar *n);
/** Name of a lie, for messages. */
const char *sim_liar_name(enum sim_lie lie);
/** The offloads of the NIC, for weft_netif_attr. */
uint64_t sim_liar_rx_offloads(void);
uint64_t sim_liar_tx_offloads(void);
/** The values of weft_netif_attr.dev and .dev_arg for one pair of queues. */
const struct weft_netif_dev *sim_liar_dev(const struct sim_liar *n);
void *sim_liar_queue(struct sim_liar *n, unsigned int queue);
/** Whether packets wait in a receive queue. */
bool sim_liar_pending(const struct sim_liar *n, unsigned int queue);
/** Whether the transmit ring of the queue takes nothing now. */
bool sim_liar_stalled(const struct sim_liar *n, unsigned int queue);
const struct sim_liar_stats *sim_liar_stats(const struct sim_liar *n);

#endif /* WEFT_TEST_SIM_LIAR_H */
