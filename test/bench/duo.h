/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DUO_H
#define DUO_H

/**
 * @file
 * Two stacks in one process, polled in turn by one thread, over a wire of two rings. Whatever goes
 * wrong ends the program: it is for measuring, not for testing.
 */

#include <stdbool.h>
#include <stdint.h>

#include <weft/weft.h>

struct rte_mempool;
struct rte_ring;

struct duo_attr {
	const char *name;   /**< of rings and pools; short, one of its own for each duo */
	uint32_t conns;     /**< connections that it is made for */
	uint32_t max_conns; /**< of a worker; 0: its default */
	uint32_t mbufs;     /**< of a side */
	uint32_t cq_depth;
	uint64_t mem_bytes; /**< of the region that each side has */
	uint32_t access;    /**< of it */
	/** of every QP; the duo adds worker, queues and user, its number */
	struct weft_qp_attr qp;
	uint32_t recvs;           /**< receives posted on every QP */
	struct weft_sge recv_sge; /**< where all of them receive */
};

struct duo_side {
	struct rte_ring *in, *out;
	struct rte_mempool *pool;
	struct weft_ctx *ctx;
	struct weft_worker *w;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct weft_qp **qp; /**< in the order they were made */
	uint32_t nqp, up;    /**< made; established */
	struct weft_mr *mr;
	uint8_t *mem;
};

struct duo {
	struct duo_side side[2]; /**< initiator, target */
	struct weft_listener *l; /**< NULL: not open */
	struct duo_attr attr;
};

/** EAL with so much memory, without hugepages. */
void duo_start_eal(const char *progname, unsigned int memory_mb);
void duo_open(struct duo *d, const struct duo_attr *attr);
/** Ask for one connection more; it is up when both sides' `up` say so. */
void duo_connect(struct duo *d);
/** Accept what is asked for and count what is established; the end of a connection ends the
 * program. */
void duo_events(struct duo *d);
/** Whoever registered more on it has taken that back. Nothing to do for one that is not open. */
void duo_close(struct duo *d);

#endif /* DUO_H */
