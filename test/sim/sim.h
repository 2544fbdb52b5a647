/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TEST_SIM_H
#define WEFT_TEST_SIM_H

/**
 * @file
 * A network in one process: a clock that moves only when told, links that lose,
 * reorder, duplicate, corrupt and delay by a seed. Stacks attach through
 * struct weft_netif_dev, so nothing between netif and the application knows.
 */

#include "weft_netif.h"

/** The clock's first reading, so that no stack sees the time 0. */
#define SIM_START_NS 1000000000ULL

struct sim;
struct sim_link;

/** Per direction. Probabilities in parts per million. */
struct sim_link_cfg {
	uint32_t loss_ppm;
	uint32_t burst_loss_ppm; /**< chance that a packet starts a burst of burst_len losses */
	uint32_t burst_len;
	uint32_t dup_ppm;
	uint32_t reorder_ppm; /**< chance that a packet is held back by reorder_ns */
	uint64_t reorder_ns;
	/** chance that one octet of an IP packet behind the Ethernet header is changed (ARP has no
	 * checksum of its own and is left alone) */
	uint32_t corrupt_ppm;
	uint64_t delay_ns;    /**< one way */
	uint64_t jitter_ns;   /**< uniform 0..jitter added, order kept */
	bool jitter_reorders; /**< order not kept */
	uint64_t rate_bps;    /**< 0: infinite */
	uint32_t queue_pkts;  /**< [1000] packets on the link beyond which it drops */
	/** bit i set: the (i+1)-th IP packet of this direction since this was set is lost (scripted
	 * loss; ARP is not counted) */
	uint64_t loss_mask;
	/** of TCP segments that carry neither octets nor SYN, FIN or RST, beside loss_ppm */
	uint32_t ack_loss_ppm;
	/** IPv4 packets with an ECT codepoint that are marked CE (RFC 3168 s5) */
	uint32_t ce_ppm;
	bool down;          /**< everything is lost, ARP too */
	uint16_t mtu_bytes; /**< IP packets longer than this are dropped; 0: none is */
	bool mtu_silent;    /**< without ICMP: a black hole (RFC 2923 s2.1) */
	/** the ICMP error does not say the next hop's MTU (RFC 1191 s5) */
	bool mtu_old;
};

struct sim_link_stats {
	uint64_t sent, lost, duplicated, reordered, corrupted, queue_drops, delivered;
	uint64_t ce_marked, mtu_drops, icmp_sent, injected;
};

/** What happens to a packet on its way. */
enum sim_event {
	SIM_SENT,      /**< it leaves an end; nothing is decided yet */
	SIM_LOST,      /**< dropped, by whatever cause */
	SIM_DELIVERED, /**< the far end's stack takes it; a duplicate is delivered twice */
	SIM_DAMAGED,   /**< likewise, but an octet was changed: the far end must not believe it */
};

/** pool: where delivered packets are allocated from (weft_netif_pool_create). */
struct sim *sim_create(uint64_t seed, struct rte_mempool *pool);
/** Room for so many packets under way, made now: a test that counts the heap is not misled by what
 * grows at need. */
void sim_reserve(struct sim *s, unsigned int packets);
void sim_destroy(struct sim *s);
uint64_t sim_now_ns(const struct sim *s);
/** Deterministic randomness for the stacks: a struct weft_rand whose stream depends on seed and id.
 */
struct weft_rand sim_rand(struct sim *s, unsigned int id);
/** xorshift for the test's own choices. */
uint64_t sim_random(struct sim *s);

/** A link of two ends, 0 and 1. cfg[i] applies to what end i sends. */
struct sim_link *sim_link_create(struct sim *s, const struct sim_link_cfg cfg[2]);
/** Packets that `end` receives are allocated from its own pool from now on, as a port's are: when
 * that is empty they are lost. */
void sim_link_pool(struct sim_link *l, unsigned int end, struct rte_mempool *pool);
/** Change one direction while running; loss_mask counts from here. Packets under way are not
 * touched. */
void sim_link_set(struct sim_link *l, unsigned int end, const struct sim_link_cfg *cfg);
const struct sim_link_stats *sim_link_stats(const struct sim_link *l, unsigned int end);
/** What to put into weft_netif_attr.dev and .dev_arg for one end. */
const struct weft_netif_dev *sim_link_dev(void);
void *sim_link_dev_arg(struct sim_link *l, unsigned int end);

/** Observe every packet as it is sent (before loss) or delivered; frame starts at the Ethernet
 * header. */
typedef void (*sim_tap_fn)(void *arg, unsigned int from_end, bool delivered, const uint8_t *frame,
                           uint32_t len_bytes, uint64_t now_ns);
void sim_link_tap(struct sim_link *l, sim_tap_fn fn, void *arg);
/** The same with every packet's fate; independent of the tap. */
typedef void (*sim_watch_fn)(void *arg, unsigned int from_end, enum sim_event what,
                             const uint8_t *frame, uint32_t len_bytes, uint64_t now_ns);
void sim_link_watch(struct sim_link *l, sim_watch_fn fn, void *arg);
/**
 * An attacker's packet, not from the far end: it arrives at `end` after delay_ns, by no rule of the
 * link. It is not shown to the tap or the watch.
 */
void sim_link_inject(struct sim_link *l, unsigned int end, const uint8_t *frame, uint32_t len_bytes,
                     uint64_t delay_ns);

/**
 * One node: poll() runs its stack once at now_ns; next() says when it wants to run again without
 * input (WEFT_NEVER: only on input).
 */
struct sim_node {
	void (*poll)(void *arg, uint64_t now_ns);
	uint64_t (*next)(void *arg);
	void *arg;
};

void sim_add_node(struct sim *s, const struct sim_node *n);
/**
 * Run until until_ns, or until done() is true (may be NULL), jumping from event to event; every
 * node is polled at each event until nobody has anything more to do at that instant (the clock
 * moves on by a microsecond when somebody always has). True: done() said so.
 */
bool sim_run(struct sim *s, uint64_t until_ns, bool (*done)(void *arg), void *arg);
/** Packets under way. */
unsigned int sim_in_flight(const struct sim *s);

#endif /* WEFT_TEST_SIM_H */
