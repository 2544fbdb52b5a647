/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_APPS_RATE_H
#define WEFT_APPS_RATE_H

/**
 * @file The rates of an export: octets and operations in a second, of all clients and of each one.
 *
 * An export has one node on each worker, with a token bucket of its own. No lock and no bucket is
 * shared. A node is filled with the part of the rate that its clients are of all active clients of
 * the export, so the sum over the workers is the rate, and a client gets the same wherever its
 * connections are. A client whose connections are on several workers counts on each as that part
 * of a client. Each worker tells its part as one relaxed atomic, which the others read when they
 * fill their buckets.
 *
 * A bucket may be overdrawn by one operation, whatever its size, and then waits until that is paid.
 * So a rate is exact in the long run. A bucket holds RATE_BURST_MS of its rate: that is what comes
 * at once after a pause.
 *
 * What a grant has waiting ends with the grant: it is not executed, and so not charged. A client
 * that has overdrawn its bucket pays also when its last grant has ended, and on whichever worker
 * its next grant is: so it gains nothing when it opens and closes grants all the time. Of clients
 * without a grant, RATE_KEPT_MAX are remembered on a node; beyond that the one that owes least is
 * forgotten.
 *
 * Where operations wait, the client goes on that was charged least: start-time fair queueing. So a
 * client that asks for more than the others gets what they leave, and no more.
 *
 * The clock is the caller's. A node and its lanes belong to one worker, unless a function says
 * otherwise.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "quota.h"
#include <weft/gate.h>

#define RATE_BURST_MS  40U
#define RATE_ACTIVE_MS 50U  /**< a client counts as active for so long after an operation */
#define RATE_KEPT_MAX  256U /**< clients of a node that owe, and have no grant */

/** 0: no limit. */
struct rate_limits {
	uint64_t bytes_per_s, client_bytes_per_s;
	uint32_t ops_per_s, client_ops_per_s;
};

/** A client of an export, on all workers. */
struct rate_client {
	LIST_ENTRY(rate_client) link; /**< under the lock of the export */
	struct quota_id id;
	uint32_t refs;       /**< likewise */
	atomic_uint workers; /**< on which it is active; relaxed */
	atomic_uint filled;  /**< on which it is active or owes: these share what it may; relaxed */
};

/** What the nodes of an export share. */
struct rate_export {
	pthread_mutex_t lock; /**< of the clients: taken when a grant is opened or has ended */
	LIST_HEAD(, rate_client) clients;
	/* relaxed */
	atomic_ullong bytes_per_s, client_bytes_per_s, ops_per_s, client_ops_per_s;
	atomic_ullong weight;            /**< sum of the nodes' weights */
	atomic_ullong ops, bytes, waits; /**< counters: charged; operations that waited */
	atomic_ullong waiting;           /**< operations that wait now */
	atomic_ullong forgotten;         /**< counter: clients that owed (RATE_KEPT_MAX) */
};

/** A bucket. */
struct rate_bucket {
	double bytes, ops;
	uint64_t at_ns; /**< when it was filled */
};

struct rate_lane;
TAILQ_HEAD(rate_lanes, rate_lane);

/** A walk over the clients of a node, in several calls of rate_clients(); zeros before the first
 * one. The caller's memory. */
struct rate_walk {
	LIST_ENTRY(rate_walk) link; /**< in the node's walks, while it is open */
	struct rate_lane *next;     /**< NULL: none is left */
	bool open;
};

/** The rates of an export on one worker. */
struct rate_node {
	struct rate_export *x;
	/** Call rate_run() at this time, or at an earlier one that was asked for. May be NULL. */
	int (*arm)(struct rate_node *n, uint64_t at_ns);
	uint64_t (*now)(struct rate_node *n); /**< nanoseconds of any clock */
	uint64_t now_ns;                      /**< as asked for last */
	struct rate_lanes lanes;
	LIST_HEAD(, rate_walk) walks;
	struct rate_bucket bucket;
	uint64_t weight, weighed_ns;
	double share, clock; /**< clock: the turn that was charged last */
	uint32_t nactive, nfilled, nwaiting;
	bool on, running;
};

/** The operations of a grant, or of one of its regions. The caller's memory. */
struct rate_pass {
	struct weft_gate gate; /**< first: of the region */
	struct rate_lane *lane;
	LIST_ENTRY(rate_pass) link;  /**< in the lane's passes, until it ends */
	TAILQ_ENTRY(rate_pass) turn; /**< in the lane's `waiting`, while something of it waits */
	TAILQ_HEAD(, weft_gate_wait) waiting;
	/* of a region, whose requests come one after the other; what else waits by the pass (calls)
	 * does not change them */
	const struct weft_gate_wait *gated; /**< the last one that waited; to be compared alone */
	uint64_t since_ns;                  /**< when the last one came */
	uint64_t waited_ns; /**< for how long the last one has waited; 0: it has not */
	bool ended;
};

/** A client's operations on an export, on one worker. */
struct rate_lane {
	TAILQ_ENTRY(rate_lane) link;
	struct rate_node *n;
	struct rate_client *client;
	atomic_uint refs; /**< passes that are not put; the last one's put is a release */
	LIST_HEAD(, rate_pass) passes;
	TAILQ_HEAD(, rate_pass) waiting; /**< they take turns */
	struct rate_bucket bucket;
	double turn; /**< what it was charged, in seconds of the export's rate */
	uint64_t seen_ns;
	uint64_t ops, bytes; /**< counters: what it was charged */
	bool active, filled;
};

/** Take one of `most` places (0: no limit), of which *taken are taken. False: none is free. Any
 * thread; to give it back, count *taken down. */
bool rate_place_take(atomic_uint *taken, uint32_t most);

/** Any thread. */
void rate_export_init(struct rate_export *x);
/** Its counters begin at 0 again: the slot gets another export. */
void rate_export_wipe(struct rate_export *x);
/** Any thread. The workers see it when they call rate_look(). */
void rate_set(struct rate_export *x, const struct rate_limits *l);

/** arm() has rate_run() called at this time or later, once; -errno: it cannot, and no earlier call
 * of it stands. Then nothing waits. */
void rate_node_init(struct rate_node *n, struct rate_export *x,
                    uint64_t (*now)(struct rate_node *n),
                    int (*arm)(struct rate_node *n, uint64_t at_ns));
/** All lanes are put and nothing waits: free them. */
void rate_node_fini(struct rate_node *n);
/** The limits may have changed. */
void rate_look(struct rate_node *n);
/** Let go on what may; the time that was asked for has come. */
void rate_run(struct rate_node *n);

/** Tell of at most `most` clients of the node, from where the walk is, what they were charged here
 * since their lanes were made, and whether something of them waits. Returns of how many. The walk
 * is over when it is not open any more; fn ends it by false. A client that comes or goes between
 * two calls may be left out; each other one is told of once. */
uint32_t rate_clients(struct rate_node *n, struct rate_walk *walk, uint32_t most,
                      bool (*fn)(void *arg, const struct quota_id *id, uint64_t ops, uint64_t bytes,
                                 bool waits),
                      void *arg);
/** Give a walk up. Does nothing if it is not open. */
void rate_walk_end(struct rate_walk *walk);

/** Free the lanes that no grant has, and that owe nothing. */
void rate_reap(struct rate_node *n);
/** Whether it has no lanes, so that there is nothing to reap. */
static inline bool
rate_is_bare(const struct rate_node *n)
{
	return TAILQ_EMPTY(&n->lanes);
}

/** Open a pass of a client: a grant begins. -ENOMEM: no lane for it; nothing is open. */
int rate_pass_open(struct rate_pass *p, struct rate_node *n, const struct quota_id *id);
/** Open a pass of the same client as another one, which is not put. */
void rate_pass_beside(struct rate_pass *p, const struct rate_pass *of);
/** It ends: what waits goes on now, refused (weft_gate_wait.refused) and not charged. Nothing waits
 * by it from here on. Its gate exists until the region is free. */
void rate_pass_end(struct rate_pass *p);
/** Any thread. It has ended; its memory is no longer used. */
void rate_pass_put(struct rate_pass *p);
/** An operation of w->bytes octets. True: it may begin. False: w->go(w) is called when it may, or
 * with w->refused when it may not. */
bool rate_enter(struct rate_pass *p, struct weft_gate_wait *w);
/** For how long the last operation of a region has waited, in nanoseconds; 0: it has not, or was
 * asked for. */
static inline uint64_t
rate_pass_waited(struct rate_pass *p)
{
	const uint64_t ns = p->waited_ns;

	p->waited_ns = 0;
	return ns;
}

/** It waits no longer. Does nothing if it does not wait. */
void rate_leave(struct weft_gate_wait *w);

#endif /* WEFT_APPS_RATE_H */
