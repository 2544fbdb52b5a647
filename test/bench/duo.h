/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DUO_H
#define DUO_H

/**
 * @file Two stacks in one process, polled in turn by one thread, joined by two rings. Any error
 * ends the program, because it measures and does not test.
 */

#include <stdbool.h>
#include <stdint.h>

#include <weft/weft.h>

struct rte_mempool;
struct rte_ring;

#define DUO_TICK_NS 2000

struct duo_attr {
	const char *name;   /**< short and unique; prefix of the names of rings and pools */
	uint32_t conns;     /**< number of connections to prepare for */
	uint32_t max_conns; /**< max_conns of a worker; 0: its default */
	uint32_t mbufs;     /**< number of mbufs of each side */
	uint32_t cq_depth;
	uint64_t mem_bytes; /**< size of the region of each side */
	uint32_t access;    /**< its access rights */
	/** driver of the medium of the region; NULL: ordinary memory */
	const char *medium;
	const char *hash; /**< of the region; NULL: none */
	/** attributes of every QP; the duo adds worker, queues, and the QP's number as user */
	struct weft_qp_attr qp;
	uint32_t recvs;           /**< number of receives posted on every QP */
	struct weft_sge recv_sge; /**< buffer of all receives */
	/**
	 * Not 0: two runs do exactly the same. Random numbers follow from this seed, the clock
	 * stands still between calls of duo_poll(), and frames are copied as a NIC copies them,
	 * from mbufs of one side into mbufs of the other.
	 */
	uint64_t seed;
};

struct duo_side {
	struct rte_ring *in, *out;
	struct rte_mempool *pool;
	struct weft_ctx *ctx;
	struct weft_worker *w;
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_evq *evq;
	struct weft_qp **qp; /**< in the order of their creation */
	uint32_t nqp, up;    /**< numbers of created and of established QPs */
	struct weft_mr *mr;
	uint8_t *mem;
	struct weft_persist *persist; /**< the medium of mem; NULL: ordinary memory */
	uint64_t random;              /**< state of the random numbers, if they have a seed */
	uint64_t now_ns;              /**< the clock of duo_poll() */
};

struct duo {
	struct duo_side side[2]; /**< initiator and target */
	struct weft_listener *l; /**< NULL: not open */
	struct duo_attr attr;
};

/** Start EAL with this amount of memory, without hugepages. */
void duo_start_eal(const char *progname, unsigned int memory_mb);
void duo_open(struct duo *d, const struct duo_attr *attr);
/** Request one more connection. It is established when `up` of both sides has counted it. */
void duo_connect(struct duo *d);
/** Accept requested connections and count established ones. The end of a connection ends the
 * program. */
void duo_events(struct duo *d);
/** Poll a side of a duo with a seed, DUO_TICK_NS after the last poll by that side's clock. Returns
 * the amount of work done. */
unsigned int duo_poll(struct duo_side *s);
/** Close the duo, if it is open. Regions that the caller registered must be deregistered before. */
void duo_close(struct duo *d);

#endif /* DUO_H */
