/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_NVMF_RDMA_H
#define WEFT_NVMF_RDMA_H

/**
 * @file The RDMA transport of NVMe over Fabrics (RDMA Transport 1.0) on weft/verbs.h: connections
 * of hosts become queues of one group of weft_nvmf.h.
 *
 * A host's data is read by RDMA Reads into the group's memory, no more at a time than the
 * connection's ORD, so that answers never wait behind Reads. Data for the host is written by RDMA
 * Writes, and the answer follows in the same list. Where the host asks for it, the answer
 * invalidates its key. Receives are posted again before the answer leaves, so a host that keeps to
 * its queue always finds one.
 *
 * Thread: the worker's, as the group's, unless a function says otherwise. Nothing blocks.
 */

#include <stdint.h>

#include <weft/verbs.h>
#include <weft/worker.h>

#include "weft_nvmf.h"

struct weft_nvmf_rdma;

struct weft_nvmf_rdma_attr {
	struct weft_ctx *ctx;
	struct weft_worker *worker;
	struct weft_nvmf_group *group; /**< of the worker */
	void *memory;                  /**< of the group: it is registered */
	uint64_t bytes;
	uint32_t depth;        /**< of an I/O queue; weft_nvmf_attr.depth at least; 0: 128 */
	uint32_t inline_bytes; /**< as weft_nvmf_attr.inline_bytes; 0: 4096 */
	uint32_t max_conns;    /**< connections at once; 0: 256 */
	/** Silence of TCP after which a host is probed, in microseconds; 0: it is not. A host that
	 * asks for no Keep Alive (KATO 0) and is gone without a word is found by this alone. */
	uint32_t keepalive_us;
};

struct weft_nvmf_rdma_stats {
	uint32_t conns;             /**< now */
	uint64_t accepted;          /**< connections */
	uint64_t rejected;          /**< requests that were wrong, or too many */
	uint64_t reads, read_bytes; /**< RDMA Reads, and what they brought */
	uint64_t read_waits;        /**< Reads that waited because of ORD */
	uint64_t capsule_waits;     /**< capsules that waited for the end of an answer */
	uint64_t aborted;           /**< connections that were reset: their end took too long */
};

/** A set-up thread, or the worker's. -EINVAL, -ENOMEM and others of weft_mr_reg(). */
int weft_nvmf_rdma_open(const struct weft_nvmf_rdma_attr *attr, struct weft_nvmf_rdma **out);
/** Does nothing for NULL. -EBUSY: there are connections. */
int weft_nvmf_rdma_close(struct weft_nvmf_rdma *r);
/**
 * A WEFT_EV_CONNECT_REQUEST whose connection is this worker's. It is accepted, or rejected with the
 * transport's reason. ev->connreq is gone with the return. 0, or why it was refused: -EPROTO: the
 * private data; -ENOSPC: max_conns, or the target's queues; others of weft_accept().
 */
int weft_nvmf_rdma_request(struct weft_nvmf_rdma *r, const struct weft_event *ev);
/** Reset every connection in the next poll, whatever is under way. */
void weft_nvmf_rdma_abort(struct weft_nvmf_rdma *r);
/** Look at connections that end. now_ns as weft_nvmf_group_poll()'s. */
void weft_nvmf_rdma_poll(struct weft_nvmf_rdma *r, uint64_t now_ns);
/** When to poll at the latest; UINT64_MAX: never. */
uint64_t weft_nvmf_rdma_next_ns(const struct weft_nvmf_rdma *r);
void weft_nvmf_rdma_query(const struct weft_nvmf_rdma *r, struct weft_nvmf_rdma_stats *stats);

#endif /* WEFT_NVMF_RDMA_H */
