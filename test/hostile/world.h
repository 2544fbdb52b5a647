/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WORLD_H
#define WORLD_H

/**
 * @file
 * The parts of weft-target over a simulated network, with one worker or with two that share its
 * port; an honest client that writes, calls, connects and pings; and the crowd. The target's pools
 * have the sizes of the default configuration.
 */

#include "crowd.h"
#include "target.h"
#include "target_file.h"
#include "target_quota.h"
#include "target_rpc.h"

#define WORLD_MS      1000000ULL
#define WORLD_S       1000000000ULL
#define WORLD_BLOCK   65536u
#define WORLD_BLOCKS  8u
#define WORLD_WORKERS 2u

struct world_attr {
	unsigned int workers;
	uint64_t seed;
	const char *target; /**< lines of the section [target], or NULL */
	unsigned int mbufs; /**< mbufs of the port; 0: the default */
};

/** Resources that the target holds. */
struct world_held {
	unsigned int rx_mbufs, tx_mbufs;
	unsigned int conns, half_open, target_conns, regions;
	/** heap of the whole process, including the client and the simulation */
	uint64_t heap_bytes;
};

/** Results of the honest client since its counters were read. */
struct world_got {
	uint64_t bytes; /**< octets flushed */
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
	/** stay: the connection that stays open. once: connections that are made, used for one call
	 * and closed. They are used in turn, so that a late completion of one is not taken for the
	 * next one's. */
	struct world_conn {
		struct weft_qp *qp;
		struct weft_rpc *rpc;
		bool up, gone, asked, answered, busy;
		uint64_t since_ns;
	} stay, once[8];
	unsigned int nonce;
	weft_export_grant grant;
	bool opened, pushing, trying, calling;
	bool often; /**< ten times as many connections, so that each worker soon has some */
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
	/** polls: turns that the target's workers asked for and in which no frame arrived. If
	 * polls_max is not 0 and polls exceeds it, world_run() ends at once. */
	uint64_t polls, polls_max;
};

extern struct world world;

/** Start target and client. On return the client is connected and has a grant of the export, and
 * nothing is in flight. */
void world_open(const struct world_attr *a);
/** Destroy everything. */
void world_close(void);
void world_run(uint64_t ns);
bool world_until(uint64_t ns, bool (*done)(void));
/** on: the client writes, calls, connects and pings from now on. Otherwise it stops and waits until
 * nothing is in flight. */
void world_push(bool on);
struct world_held world_held(void);
/** Pool sizes of the target. */
unsigned int world_pool_mbufs(void);

#endif /* WORLD_H */
