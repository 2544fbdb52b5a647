/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RPCRDMA_OBSERVER_H
#define RPCRDMA_OBSERVER_H

/**
 * @file
 * An observer of the wire between two endpoints: what is posted, what arrives, what memory is touched. It
 * knows nothing of the endpoints and judges by the texts: credits of both versions, parts of a message, chunks
 * used as they were offered and while their call lasts, chunks returned as they came, invalidation as asked.
 */

#include "rig.h"

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

struct obs {
	struct rig *rig;
	struct obs_side side[2];
	const char *fault; /* the first, or NULL */
	unsigned int messages, accesses, chunks;
};

/** Watch the rig instead of its own auditor. One at a time. */
void obs_watch(struct obs *o, struct rig *r);

#endif /* RPCRDMA_OBSERVER_H */
