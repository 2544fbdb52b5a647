/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMF_SLOT_H
#define NVMF_SLOT_H

/**
 * @file A command under way: what kind it is, its state, its memory. The thread of its queue's
 * group owns it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/uio.h>

#include "nvmf_resv.h"
#include "weft_nvmf_transport.h"
#include "weft_nvmf_wire.h"
#include "weft_staging.h"
#include "weft_volume_op.h"

struct nvmf_ns;
struct nvmf_slot;

enum nvmf_slot_state {
	NVMF_SLOT_MEMORY, /**< waits for memory */
	NVMF_SLOT_PULL,   /**< data comes from the host */
	NVMF_SLOT_FUSED,  /**< the first of two waits for the second, or for its end */
	NVMF_SLOT_RUN,    /**< the volume has it, or a handler */
	NVMF_SLOT_HELD,   /**< an asynchronous event request */
	NVMF_SLOT_ANSWER, /**< the transport sends the answer */
};

/** What a kind of command is. */
struct nvmf_row {
	const char *name;
	/** Look at the fields, set need_bytes, room_bytes, `in`. Returns a status. */
	uint16_t (*start)(struct nvmf_slot *s);
	/** Data and memory are there. nvmf_complete() follows. */
	void (*run)(struct nvmf_slot *s);
	uint32_t effects; /**< its entry of log page 05h */
	enum nvmf_resv_group resv;
	bool contiguous; /**< its memory is one piece */
	bool fusable;
	bool discovery; /**< a discovery controller has it */
};

/** A command. */
struct nvmf_slot {
	TAILQ_ENTRY(nvmf_slot) link;
	struct weft_nvmf_cmd cmd; /**< the transport's view */
	struct weft_nvmf_queue *queue;
	struct weft_nvmf_sqe sqe;
	const struct nvmf_row *row;
	enum nvmf_slot_state state;
	void *capsule;       /**< not released yet */
	size_t inline_bytes; /**< of data in it */
	uint32_t need_bytes; /**< of data between host and controller */
	uint32_t room_bytes; /**< of memory, >= need_bytes */
	bool in;             /**< the data is the host's */
	bool aborted;        /**< Abort, or the end of the queue, has asked for its end */
	bool on_volume;      /**< `op` is under way */
	/** A look for a host that keeps its namespace from leaving saw it in this state first, at
	 * this time. */
	enum nvmf_slot_state seen;
	uint64_t seen_ns;
	enum nvmf_resv_step resv_step;
	TAILQ_ENTRY(nvmf_slot) resv_link; /**< lock: of nvmf_resv.waits, while it waits */
	uint64_t result;
	struct nvmf_ns *ns;            /**< its `under_way` counts the command */
	uint64_t off_bytes, len_bytes; /**< of the namespace */
	uint64_t at_bytes;             /**< long work: how far it has come */
	uint32_t step;
	/** Flush: the changes that it covers. Dataset Management: how many flushes were lost when
	 * its first range was done. Reservations: the first error of its namespaces. */
	uint64_t mark;
	uint64_t began_ns, memory_ns, data_ns;         /**< by the group's clock */
	void (*done)(struct nvmf_slot *s, int status); /**< of the operation under way */
	struct nvmf_slot *other;                       /**< of two fused ones */
	struct nvmf_slot *aborter;                     /**< the Abort that waits for its end */
	/** Where its memory is: its own, or that of the first of two; from this octet on. */
	struct weft_staging_req *from;
	uint64_t from_bytes;
	struct weft_staging_req mem;
	struct weft_staging_lane lane;
	struct iovec part[WEFT_STAGING_MAX_PIECES + 2]; /**< pieces of the memory */
	struct weft_vol_op op;
};
TAILQ_HEAD(nvmf_slots, nvmf_slot);

#endif /* NVMF_SLOT_H */
