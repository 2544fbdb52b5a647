/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_TEST_SIM_H
#define WEFT_TEST_SIM_H

/**
 * @file
 * A simulated network in one process. Its clock advances in sim_run() only. Its links lose,
 * reorder, duplicate, corrupt and delay packets; a seed decides which. Stacks attach through struct
 * weft_netif_dev, so the code above netif is the same as on a real NIC.
 */

#include "weft_netif_attr.h"

/** The time at which the clock starts. It is not 0, so that no stack sees the time 0. */
#define SIM_START_NS 1000000000ULL

struct sim;
struct sim_link;

/** One direction of a link. Probabilities are in parts per million. */
struct sim_link_cfg {
	uint32_t loss_ppm;
	uint32_t burst_loss_ppm; /**< chance that a packet begins a burst of burst_len losses */
	uint32_t burst_len;
	uint32_t dup_ppm;
	uint32_t reorder_ppm; /**< chance that a packet is delayed by reorder_ns */
	uint64_t reorder_ns;
	/** chance that one octet after the Ethernet header of an IP packet is changed. ARP has no
	 * checksum, so ARP packets are not changed. */
	uint32_t corrupt_ppm;
	uint64_t delay_ns;    /**< one-way delay */
	uint64_t jitter_ns;   /**< adds 0..jitter_ns, uniform; order kept */
	bool jitter_reorders; /**< jitter may change the order */
	uint64_t rate_bps;    /**< 0: unlimited */
	uint32_t queue_pkts;  /**< [1000] packets in flight; the link drops more */
	/** Scripted loss. Bit i set: the (i+1)-th IP packet of this direction since the
	 * configuration was set is lost. ARP is not counted. */
	uint64_t loss_mask;
	/** Loss of pure ACKs (TCP segments without payload, SYN, FIN and RST), in addition to
	 * loss_ppm. */
	uint32_t ack_loss_ppm;
	/** Chance that an IPv4 packet with an ECT codepoint is marked CE (RFC 3168 s5). */
	uint32_t ce_ppm;
	bool down;          /**< every packet is lost, also ARP */
	uint16_t mtu_bytes; /**< longer IP packets are dropped; 0: no limit */
	bool mtu_silent;    /**< no ICMP error is sent: a black hole (RFC 2923 s2.1) */
	/** The ICMP error does not give the next hop's MTU (RFC 1191 s5). */
	bool mtu_old;
};

struct sim_link_stats {
	uint64_t sent, lost, duplicated, reordered, corrupted, queue_drops, delivered;
	uint64_t ce_marked, mtu_drops, icmp_sent, injected;
};

/** What happens to a packet on a link. */
enum sim_event {
	SIM_SENT,      /**< leaves an end; its fate is not decided yet */
	SIM_LOST,      /**< dropped, whatever the cause */
	SIM_DELIVERED, /**< fetched by the far end's stack; a duplicate is delivered twice */
	SIM_DAMAGED,   /**< fetched with a changed octet; the far end must reject it */
};

/** Create a simulation. Delivered packets are allocated from pool (weft_netif_pool_create()). */
struct sim *sim_create(uint64_t seed, struct rte_mempool *pool);
/** Allocate room for this many packets in flight. A test that counts heap allocations calls it
 * first, so that the simulation does not allocate later. */
void sim_reserve(struct sim *s, unsigned int packets);
void sim_destroy(struct sim *s);
uint64_t sim_now_ns(const struct sim *s);
/** A source of random numbers for a stack. The sequence depends on the simulation's seed and on id.
 */
struct weft_rand sim_rand(struct sim *s, unsigned int id);
/** A random number (xorshift) for choices of the test. */
uint64_t sim_random(struct sim *s);

/** Create a link with the ends 0 and 1. cfg[i] applies to packets that end i sends. */
struct sim_link *sim_link_create(struct sim *s, const struct sim_link_cfg cfg[2]);
/** From now on, packets that `end` receives are allocated from this pool, as those of a port with a
 * pool of its own. When the pool is empty, packets are lost. */
void sim_link_pool(struct sim_link *l, unsigned int end, struct rte_mempool *pool);
/** Change the configuration of one direction while the simulation runs. loss_mask counts from this
 * call. Packets in flight are not affected. */
void sim_link_set(struct sim_link *l, unsigned int end, const struct sim_link_cfg *cfg);
const struct sim_link_stats *sim_link_stats(const struct sim_link *l, unsigned int end);
/** The values of weft_netif_attr.dev and .dev_arg for one end. */
const struct weft_netif_dev *sim_link_dev(void);
void *sim_link_dev_arg(struct sim_link *l, unsigned int end);

/** Called for every packet when it is sent (before loss is decided) and when it is delivered. frame
 * starts at the Ethernet header. */
typedef void (*sim_tap_fn)(void *arg, unsigned int from_end, bool delivered, const uint8_t *frame,
                           uint32_t len_bytes, uint64_t now_ns);
void sim_link_tap(struct sim_link *l, sim_tap_fn fn, void *arg);
/** Called for every event of every packet (enum sim_event). A link may have a tap and a watch. */
typedef void (*sim_watch_fn)(void *arg, unsigned int from_end, enum sim_event what,
                             const uint8_t *frame, uint32_t len_bytes, uint64_t now_ns);
void sim_link_watch(struct sim_link *l, sim_watch_fn fn, void *arg);
/**
 * Inject an attacker's packet, which the far end did not send. It arrives at `end` after delay_ns.
 * The link's configuration does not apply to it. The tap and the watch do not see it.
 */
void sim_link_inject(struct sim_link *l, unsigned int end, const uint8_t *frame, uint32_t len_bytes,
                     uint64_t delay_ns);

/**
 * One node. poll() runs its stack once at now_ns. next() is the time at which the stack must run
 * again if no packet arrives (WEFT_NEVER: only when a packet arrives).
 */
struct sim_node {
	void (*poll)(void *arg, uint64_t now_ns);
	uint64_t (*next)(void *arg);
	void *arg;
};

void sim_add_node(struct sim *s, const struct sim_node *n);
/**
 * Run until until_ns, or until done() (may be NULL) returns true. The clock jumps from event to
 * event. At each event every node is polled until no node has work left at that instant. The clock
 * advances by one microsecond when a node still has work after 64 rounds. Returns true when done()
 * did.
 */
bool sim_run(struct sim *s, uint64_t until_ns, bool (*done)(void *arg), void *arg);
/** Number of packets in flight. */
unsigned int sim_in_flight(const struct sim *s);

#endif /* WEFT_TEST_SIM_H */
