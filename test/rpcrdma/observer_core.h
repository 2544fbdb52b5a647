/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_OBSERVER_CORE_H
#define RPCRDMA_OBSERVER_CORE_H

/**
 * @file An observer of the wire between two endpoints: what is posted, what arrives, what memory is
 * touched. It knows nothing of the endpoints and judges by the texts: credits of both versions,
 * parts of a message, chunks used as they were offered and while their call lasts, chunks returned
 * as they came, invalidation as asked. Where the wire is, is its caller's: a rig (observer.h), or
 * two whole stacks.
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

/** What one side has sent and been allowed. */
struct obs_side {
	uint32_t sent, limit, promised;      /* version 2 */
	uint32_t unanswered, granted, asked; /* version 1 */
	bool in_parts;
	uint32_t part_xid, part_type, part_left_bytes;
	struct obs_call call[OBS_CALLS]; /* that it made */
};

/** Of a message; one more: with data items in chunks. */
enum obs_format { OBS_SIMPLE = 0, OBS_CONTINUED = 2, OBS_SPECIAL = 4, OBS_FORMATS = 6 };
/** Segments of the chunk that has most: of those that are used, the Call or Reply chunk included.
 */
enum obs_shape { OBS_NO_CHUNK, OBS_ONE, OBS_SEVERAL, OBS_SHAPES };

struct obs {
	const struct weft_qp *qp[2];
	struct obs_side side[2];
	const char *fault; /* the first, or NULL */
	unsigned int messages, accesses, chunks;
	/** How often, by version, who calls, call or reply, format, shape. */
	unsigned int cell[2][2][2][OBS_FORMATS][OBS_SHAPES];
};

/** One at a time. */
void obs_begin(struct obs *o, const struct weft_qp *client, const struct weft_qp *server);
/** A message posted; one that arrived, before its receiver has looked at it. */
void obs_on_post(struct weft_qp *qp, const void *buf, uint32_t len_bytes);
void obs_on_arrive(struct weft_qp *to, const void *buf, uint32_t len_bytes);
/** A Read or Write of the peer's memory; a message that invalidates a handle of the peer's. */
void obs_on_access(struct weft_qp *qp, bool write, uint32_t handle, uint64_t to,
                   uint32_t len_bytes);
void obs_on_invalidate(struct weft_qp *qp, const void *buf, uint32_t len_bytes, uint32_t handle);

#endif /* RPCRDMA_OBSERVER_CORE_H */
