/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_OBSERVER_CORE_H
#define RPCRDMA_OBSERVER_CORE_H

/**
 * @file An observer of the wire between two endpoints. It sees posted messages, arriving messages
 * and accesses to memory, and no state of the endpoints. It checks the rules of RFC 8166 and the
 * version 2 draft: credits, the parts of a message, use of chunks as offered and only during their
 * call, return of chunks as they came, and invalidation as requested. The caller attaches it to a
 * rig (observer.h) or to two complete stacks (observer_stack.h).
 */

#include <stdbool.h>
#include <stdint.h>

#include "rpcrdma_wire.h"

struct weft_qp;

#define OBS_CALLS 256

struct obs_call {
	bool live, arrived;
	uint32_t xid;
	struct rpcrdma_chunks offer;
};

/** Messages that one side has sent, and its credit. */
struct obs_side {
	uint32_t sent, limit, promised;      /* version 2 */
	uint32_t unanswered, granted, asked; /* version 1 */
	bool in_parts;
	uint32_t part_xid, part_type, part_left_bytes;
	struct obs_call call[OBS_CALLS]; /* calls that this side made */
};

/** Format of a message. Each value + 1 is the same format with data items in chunks. */
enum obs_format { OBS_SIMPLE = 0, OBS_CONTINUED = 2, OBS_SPECIAL = 4, OBS_FORMATS = 6 };
/** The largest number of segments of any used chunk, the Call or Reply chunk included. */
enum obs_shape { OBS_NO_CHUNK, OBS_ONE, OBS_SEVERAL, OBS_SHAPES };

struct obs {
	const struct weft_qp *qp[2];
	struct obs_side side[2];
	const char *fault; /* the first broken rule, or NULL */
	unsigned int messages, accesses, chunks;
	/** Number of messages by version, caller, call or reply, format, shape. */
	unsigned int cell[2][2][2][OBS_FORMATS][OBS_SHAPES];
};

/** Start to observe. Only one observer may exist at a time. */
void obs_begin(struct obs *o, const struct weft_qp *client, const struct weft_qp *server);
/** Report a message that was posted, or one that arrived and that its receiver has not processed
 * yet. */
void obs_on_post(struct weft_qp *qp, const void *buf, uint32_t len_bytes);
void obs_on_arrive(struct weft_qp *to, const void *buf, uint32_t len_bytes);
/** Report a Read or Write of the peer's memory, or a message that invalidates a handle of the peer.
 */
void obs_on_access(struct weft_qp *qp, bool write, uint32_t handle, uint64_t to,
                   uint32_t len_bytes);
void obs_on_invalidate(struct weft_qp *qp, const void *buf, uint32_t len_bytes, uint32_t handle);

#endif /* RPCRDMA_OBSERVER_CORE_H */
