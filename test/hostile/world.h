/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WORLD_H
#define WORLD_H

/**
 * @file
 * weft-target's own parts over a simulated network, with one worker or two that share its port; an
 * honest client that pushes, calls, connects and pings; and the crowd. The target's pools are as
 * large as the default configuration has them.
 */

#include "crowd.h"
#include "target.h"

#define WORLD_MS      1000000ULL
#define WORLD_S       1000000000ULL
#define WORLD_BLOCK   65536u
#define WORLD_BLOCKS  8u
#define WORLD_WORKERS 2u

struct world_attr {
	unsigned int workers;
	uint64_t seed;
	const char *target; /**< lines of the section [target], or NULL */
	unsigned int mbufs; /**< of the port; 0: as many as its default */
};

/** What the target holds. */
struct world_held {
	unsigned int rx_mbufs, tx_mbufs;
	unsigned int conns, half_open, target_conns, regions;
	uint64_t heap_bytes; /**< of the whole process: the client's and the simulation's, too */
};

/** What the honest client got since its counters were taken. */
struct world_got {
	uint64_t bytes; /**< flushed */
	unsigned int calls, calls_failed, conns, conns_failed;
	uint64_t call_max_ns, conn_max_ns;
};

struct world_client {
	struct weft_ctx *ctx;
	struct weft_worker *w;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct weft_mr *mr;
	uint8_t *mem;
	/** The connection that stays, and those that are made, asked once and closed, in turn: late
	 * completions of one must not be taken for the next one's. */
	struct world_conn {
		struct weft_qp *qp;
		struct weft_rpc *rpc;
		bool up, gone, asked, answered, busy;
		uint64_t since_ns;
	} stay, once[8];
	unsigned int nonce;
	weft_export_grant grant;
	bool opened, pushing, trying, calling;
	bool often; /**< ten times as many connections: each worker has some soon */
	unsigned int in_flight;
	uint64_t next_block, call_ns, next_call_ns, next_conn_ns, next_ping_ns;
	struct world_got got;
};

struct world {
	struct world_attr a;
	struct sim *sim;
	struct sim_link *link;
	struct rte_mempool *rx_pool, *tx_pool;
	struct weft_netif_group *group;
	struct target *t;
	char file[64];
	struct world_client c;
	struct crowd *crowd;
	/** that its workers asked for, and no frame came; beyond the most, which is not 0,
	 * world_run() ends at once */
	uint64_t polls, polls_max;
};

extern struct world world;

/** Up, the client connected and granted the export, nothing under way. */
void world_open(const struct world_attr *a);
/** Everything goes. */
void world_close(void);
void world_run(uint64_t ns);
bool world_until(uint64_t ns, bool (*done)(void));
/** The client pushes, calls, connects and pings from now on, or stops and waits for what is under
 * way. */
void world_push(bool on);
struct world_held world_held(void);
/** Pool sizes of the target. */
unsigned int world_pool_mbufs(void);

#endif /* WORLD_H */
